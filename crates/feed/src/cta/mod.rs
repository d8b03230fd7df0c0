//! CTA's feeds: CQS, all venues' quotes of listed securities, and CTS, their trades.
//!
//! Sources: CQS Output Specification 2.10a and CTS Output Specification 2.11b, and versions 1.91
//! and 2.9 where they differ. A datagram is a block: a header of 20 bytes, messages behind a
//! two-byte length (which includes itself), and a pad byte to an even length. A block bears the
//! number of its first message.

mod codec;
pub mod message;
pub mod other_days;
pub mod quote;
pub mod trade;

use weir_types::Nanos;

use crate::instrument::Symbols;
use crate::layout::layouts;
use crate::national::BestQuotes;
use crate::{Context, Feed, FeedError, Packet, PacketKind, Profile, UpdateSink, national};

pub use message::{Message, MessageHeader};
use quote::{LongAppendage, ShortAppendage, ShortQuote};

/// The profile of CQS.
pub const CQS: Profile = Profile { kind_at: (0, 2), ..Profile::new("cqs") };
/// The profile of CTS.
pub const CTS: Profile = Profile { kind_at: (0, 2), ..Profile::new("cts") };

/// The exponent of CTS' quantities: shares with six decimals, in every message. Trades of fractions
/// of a share are reported since version 2.11.
pub const CTS_SIZE_EXPONENT: i8 = -6;

layouts! {
    big;

    /// The header of a block.
    BlockHeader {
        /// 0 (specifications 1.x) or 2.
        version: u8,
        /// Length of the whole block in bytes.
        block_size: u16,
        /// `Q` for CQS, `T` for CTS.
        data_feed_indicator: [u8; 1],
        /// `O`, or `V` for a retransmission.
        retransmission_indicator: [u8; 1],
        /// The number of its first message.
        block_sequence_number: u32,
        /// The number of messages that follow.
        messages_in_block: u8,
        /// The send time: seconds.
        seconds: u32,
        /// The nanoseconds of the send time.
        nanoseconds: u32,
        /// The sum of all other bytes.
        block_checksum: u16,
    }
}

/// One of CTA's two feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CtaFeed {
    /// CQS: quotes.
    Quotes,
    /// CTS: trades.
    Trades,
}

/// The effect of a quote on one side of the national best bid and offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideChange {
    /// The side does not change.
    Same,
    /// The quote is the best.
    Quote,
    /// A short appendage holds the best.
    Short,
    /// A long appendage holds the best.
    Long,
    /// The side has no best.
    Gone,
}

/// Returns the effect of a national BBO indicator on bid and offer; `None` when the quote counts
/// for neither side, and for unknown indicators.
#[must_use]
pub fn sides_of(indicator: u8) -> Option<[SideChange; 2]> {
    use SideChange::{Gone, Long, Quote, Same, Short};
    const ORDER: [SideChange; 5] = [Same, Quote, Short, Long, Gone];
    Some(match indicator {
        b'A'..=b'E' => [Same, ORDER[usize::from(indicator - b'A')]],
        b'F'..=b'J' => [Quote, ORDER[usize::from(indicator - b'F')]],
        b'K'..=b'O' => [Gone, ORDER[usize::from(indicator - b'K')]],
        b'P' => [Short, Same],
        b'Q' => [Long, Same],
        b'R' => [Short, Quote],
        b'S' => [Long, Quote],
        b'T' => [Short, Short],
        b'U' => [Long, Long],
        b'V' => [Short, Gone],
        b'W' => [Long, Gone],
        _ => return None,
    })
}

fn appendages_len(indicator: u8) -> usize {
    let sides = sides_of(indicator).unwrap_or([SideChange::Same; 2]);
    sides.into_iter().map(SideChange::appendage_len).sum()
}

impl SideChange {
    fn appendage_len(self) -> usize {
        match self {
            SideChange::Short => ShortAppendage::LEN,
            SideChange::Long => LongAppendage::LEN,
            SideChange::Same | SideChange::Quote | SideChange::Gone => 0,
        }
    }
}

/// A decoder of one of CTA's feeds. Numbers symbols in order of appearance.
#[derive(Clone, Debug)]
pub struct Cta {
    feed: CtaFeed,
    symbols: Symbols,
    bests: BestQuotes,
}

impl Cta {
    /// Creates a decoder for the beginning of a day.
    #[must_use]
    pub fn new(feed: CtaFeed) -> Cta {
        Cta { feed, symbols: Symbols::new(), bests: BestQuotes::default() }
    }

    /// Returns the symbols seen so far, with their numbers.
    #[must_use]
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }
}

/// Parses a message without its length: its header, its fixed part, and the rest: a quote's
/// appendages, venues' volumes, or fields added by a later version.
///
/// # Errors
/// The errors of [`Message::read`].
pub fn parse(message: &[u8]) -> Result<(MessageHeader, Message, &[u8]), FeedError> {
    let header = MessageHeader::read(message).ok_or(FeedError::Length {
        kind: message.first_chunk().copied().unwrap_or(*b"  "),
        len: message.len(),
        want: MessageHeader::LEN,
    })?;
    let body = &message[MessageHeader::LEN..];
    let mut kind = [header.message_category[0], header.message_type[0]];
    if kind == *b"QQ" && !is_narrow(body) {
        kind = *b"Qq";
    }
    let (body, rest) = Message::read(kind, body)?;
    Ok((header, body, rest))
}

/// Returns true for a short quote with a symbol of five bytes; the length distinguishes it from one
/// of eleven.
fn is_narrow(body: &[u8]) -> bool {
    let indicator = body.get(ShortQuote::LEN - 1).copied().unwrap_or(b' ');
    body.len() == ShortQuote::LEN + appendages_len(indicator)
}

/// Returns the kind of packet of a block: control messages are alone in their blocks.
fn kind_of(header: &BlockHeader, messages: &[u8]) -> PacketKind {
    if header.retransmission_indicator == *b"V" {
        return PacketKind::Retransmission;
    }
    match (header.messages_in_block, messages.get(2), messages.get(3)) {
        (0, ..) | (1, Some(b'C'), Some(b'T')) => PacketKind::Heartbeat,
        (1, Some(b'C'), Some(b'A' | b'L')) => PacketKind::Reset,
        _ => PacketKind::Data,
    }
}

impl Feed for Cta {
    fn profile(&self) -> &'static Profile {
        match self.feed {
            CtaFeed::Quotes => &CQS,
            CtaFeed::Trades => &CTS,
        }
    }

    fn of_run(&mut self, run: u64) {
        self.bests.of_run(run);
    }

    fn packet<'a>(&self, datagram: &'a [u8]) -> Result<Packet<'a>, FeedError> {
        let header = BlockHeader::read(datagram)
            .ok_or(FeedError::ShortPacket { len: datagram.len(), header_len: BlockHeader::LEN })?;
        let unknown = |field, value| FeedError::Header { field, value };
        if header.version > 2 {
            return Err(unknown("version", u64::from(header.version)));
        }
        let indicator = if self.feed == CtaFeed::Quotes { *b"Q" } else { *b"T" };
        if header.data_feed_indicator != indicator {
            let [indicator] = header.data_feed_indicator;
            return Err(unknown("data feed indicator", u64::from(indicator)));
        }
        let (size, sum) = (header.block_size, header.block_checksum);
        let messages = national::block_of(datagram, BlockHeader::LEN, size, sum)?;
        let kind = kind_of(&header, messages);
        let is_heartbeat = kind == PacketKind::Heartbeat;
        Ok(Packet {
            channel: 0,
            session: 0,
            sequence: u64::from(header.block_sequence_number),
            count: if is_heartbeat { 0 } else { u32::from(header.messages_in_block) },
            kind,
            ts_send: Nanos(national::nanos(header.seconds, header.nanoseconds)),
            stream_offset: None,
            messages,
        })
    }

    fn next_message<'a>(&self, messages: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), FeedError> {
        let truncated = FeedError::Truncated { index: 0, offset: 0 };
        let (len, rest) = messages.split_first_chunk().ok_or(truncated)?;
        let len = usize::from(u16::from_be_bytes(*len)).checked_sub(2).ok_or(truncated)?;
        let (message, rest) = rest.split_at_checked(len).ok_or(truncated)?;
        Ok((message, national::without_pad(rest)))
    }

    fn decode(
        &mut self,
        context: &Context,
        message: &[u8],
        sink: &mut impl UpdateSink,
    ) -> Result<(), FeedError> {
        let (header, body, rest) = parse(message)?;
        let kind = [header.message_category[0], header.message_type[0]];
        codec::Decoder { feed: self, context, header: &header, kind, sink }.decode(&body, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_indicator_says_what_becomes_of_each_side() {
        use SideChange::{Gone, Long, Quote, Same, Short};
        let all = [Same, Quote, Gone, Short, Long];
        let known: Vec<_> = (b'A'..=b'W').map(|it| sides_of(it).expect("it is known")).collect();
        for bid in all {
            for ask in all {
                let is_mixed = matches!((bid, ask), (Short, Long) | (Long, Short));
                assert_eq!(known.contains(&[bid, ask]), !is_mixed, "{bid:?} {ask:?}");
            }
        }
        assert_eq!((sides_of(b' '), sides_of(b'X'), known.len()), (None, None, 23));
    }
}
