//! OPRA: the options' aggregator, all venues' quotes and trades, in its binary form.
//!
//! OPRA Pillar Output Specification 6.2. A datagram is a block: a header of 21 bytes, messages
//! without lengths of their own, a byte that makes the length even. Blocks are numbered by their
//! first message. A venue's quote says what it does to the best bid and offer over all venues.

mod codec;
pub mod message;
pub mod series;

use weir_types::Nanos;

use crate::feed::layout::layouts;
use crate::feed::national::{self, Bests};
use crate::feed::{Context, Feed, FeedError, Packet, PacketKind, Sink};
use crate::instrument::Symbols;
pub use message::{Appendage, Message, MessageHeader};
use series::AllSeries;

layouts! {
    big;

    /// What a block begins with.
    BlockHeader {
        /// 6.
        version: u8,
        /// Bytes of the whole block.
        block_size: u16,
        /// `O`.
        data_feed_indicator: [u8; 1],
        /// A space, or `V` when it is sent again.
        retransmission_indicator: [u8; 1],
        /// 0 the regular session, `X` before it, 1 to 5 overnight.
        session_indicator: u8,
        /// The number of its first message.
        block_sequence_number: u32,
        /// How many messages follow.
        messages_in_block: u8,
        /// When it was sent.
        seconds: u32,
        /// And nanoseconds.
        nanoseconds: u32,
        /// The sum of the other bytes.
        block_checksum: u16,
    }
}

/// What a quote does to one side of the best bid and offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideChange {
    /// Nothing.
    Same,
    /// The quote is the best.
    Quote,
    /// An appendage has the best.
    Appendage,
    /// There is none.
    Gone,
}

/// What a quote's indicator says of bid and offer: `A` to `P`, in fours by the bid. `None` for one
/// that says that the quote counts for neither, and for unknown ones.
#[must_use]
pub fn sides_of(indicator: u8) -> Option<[SideChange; 2]> {
    use SideChange::{Appendage, Gone, Quote, Same};
    let index = usize::from(indicator.checked_sub(b'A').filter(|index| *index < 16)?);
    let offer = [Same, Quote, Appendage, Gone][index % 4];
    Some([[Same, Quote, Gone, Appendage][index / 4], offer])
}

/// The feed. Series get their numbers in the order in which they come.
#[derive(Clone, Debug, Default)]
pub struct Opra {
    series: AllSeries,
    bests: Bests,
}

impl Opra {
    /// The feed at the beginning of a day.
    #[must_use]
    pub fn new() -> Opra {
        Opra::default()
    }

    /// The series seen, by OCC's names, with their numbers.
    #[must_use]
    pub fn symbols(&self) -> &Symbols {
        &self.series.symbols
    }
}

/// The layout of a message: its header, its fixed part and what follows that: a quote's appendages,
/// an administrative message's text.
///
/// # Errors
/// As [`Message::read`].
pub fn parse(message: &[u8]) -> Result<(MessageHeader, Message, &[u8]), FeedError> {
    let header = MessageHeader::read(message).ok_or(FeedError::Length {
        kind: [message.get(1).copied().unwrap_or(b' '), b' '],
        len: message.len(),
        want: MessageHeader::LEN,
    })?;
    let kind = [header.message_category[0], b' '];
    let (body, rest) = Message::read(kind, &message[MessageHeader::LEN..])?;
    Ok((header, body, rest))
}

/// How long the first of `messages` is.
fn len_of(messages: &[u8]) -> Result<usize, FeedError> {
    let truncated = FeedError::Truncated { index: 0, offset: 0 };
    let header = MessageHeader::read(messages).ok_or(truncated)?;
    let [category] = header.message_category;
    let body = match category {
        b'a' => message::LastSale::LEN,
        b'd' => message::OpenInterest::LEN,
        b'f' => message::EndOfDaySummary::LEN,
        b'k' => message::LongQuote::LEN + appendages_len(header.message_indicator),
        b'q' => message::ShortQuote::LEN + appendages_len(header.message_indicator),
        b'H' => message::Control::LEN,
        b'Y' => message::UnderlyingValue::LEN,
        b'R' => message::SeriesMapping::LEN,
        b'C' => {
            let text = messages.get(MessageHeader::LEN..).and_then(message::Administrative::read);
            2 + usize::from(text.ok_or(truncated)?.message_data_length)
        }
        _ => return Err(FeedError::UnknownType { kind: [category, header.message_type[0]] }),
    };
    Ok(MessageHeader::LEN + body)
}

fn appendages_len([indicator]: [u8; 1]) -> usize {
    let sides = sides_of(indicator).unwrap_or([SideChange::Same; 2]);
    let count = sides.into_iter().filter(|side| *side == SideChange::Appendage).count();
    count * Appendage::LEN
}

/// What kind of packet a block is: control messages stand alone in theirs.
fn kind_of(header: &BlockHeader, messages: &[u8]) -> PacketKind {
    if header.retransmission_indicator == *b"V" {
        return PacketKind::Retransmission;
    }
    match (header.messages_in_block, messages.get(1), messages.get(2)) {
        (0, ..) | (1, Some(b'H'), Some(b'N')) => PacketKind::Heartbeat,
        (1, Some(b'H'), Some(b'C' | b'K')) => PacketKind::Reset,
        _ => PacketKind::Data,
    }
}

impl Feed for Opra {
    fn name(&self) -> &'static str {
        "opra"
    }

    fn packet<'a>(&self, datagram: &'a [u8]) -> Result<Packet<'a>, FeedError> {
        let header = BlockHeader::read(datagram)
            .ok_or(FeedError::ShortPacket { len: datagram.len(), header_len: BlockHeader::LEN })?;
        let unknown = |field, value| FeedError::Header { field, value };
        if header.version != 6 {
            return Err(unknown("version", u64::from(header.version)));
        }
        if header.data_feed_indicator != *b"O" {
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
            messages,
        })
    }

    fn next_message<'a>(&self, messages: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), FeedError> {
        let (message, rest) = messages
            .split_at_checked(len_of(messages)?)
            .ok_or(FeedError::Truncated { index: 0, offset: 0 })?;
        Ok((message, national::without_pad(rest)))
    }

    fn look_ahead(&self, messages: &[u8]) {
        let mut rest = messages;
        while let Ok((message, after)) = self.next_message(rest) {
            if let Some(series) = codec::quoted(message) {
                self.series.prefetch(&series);
            }
            rest = after;
        }
    }

    fn decode(
        &mut self,
        context: &Context,
        message: &[u8],
        sink: &mut impl Sink,
    ) -> Result<(), FeedError> {
        let (header, body, rest) = parse(message)?;
        self.decode_message(context, &header, &body, rest, sink)
    }
}
