//! OPRA: the options aggregator with all venues' quotes and trades, in its binary protocol.
//!
//! OPRA Pillar Output Specification 6.2. A datagram is a block: a header of 21 bytes, messages
//! without length fields, and a pad byte to an even length. A block bears the number of its first
//! message. A venue's quote states its effect on the best bid and offer over all venues.

mod codec;
pub mod message;
pub mod series;

use weir_types::Nanos;

use crate::instrument::Symbols;
use crate::layout::layouts;
use crate::national::BestQuotes;
use crate::{Context, Feed, FeedError, Packet, PacketKind, Profile, UpdateSink, national};

pub use message::{Appendage, Message, MessageHeader};
use series::AllSeries;

/// The feed's profile.
pub const PROFILE: Profile = Profile { kind_at: (1, 3), ..Profile::new("opra") };

layouts! {
    big;

    /// The header of a block.
    BlockHeader {
        /// The version: 6.
        version: u8,
        /// Length of the whole block in bytes.
        block_size: u16,
        /// `O`.
        data_feed_indicator: [u8; 1],
        /// A space, or `V` for a retransmission.
        retransmission_indicator: [u8; 1],
        /// 0 for the regular session, `X` for the pre-market session, 1 to 5 for overnight
        /// sessions.
        session_indicator: u8,
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

/// The effect of a quote on one side of the best bid and offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideChange {
    /// The side does not change.
    Same,
    /// The quote is the best.
    Quote,
    /// An appendage holds the best.
    Appendage,
    /// The side has no best.
    Gone,
}

/// Returns the effect of a quote's indicator on bid and offer: `A` to `P`, in fours by the bid.
/// Returns `None` when the quote counts for neither side, and for unknown indicators.
#[must_use]
pub fn sides_of(indicator: u8) -> Option<[SideChange; 2]> {
    use SideChange::{Appendage, Gone, Quote, Same};
    let index = usize::from(indicator.checked_sub(b'A').filter(|index| *index < 16)?);
    let offer = [Same, Quote, Appendage, Gone][index % 4];
    Some([[Same, Quote, Gone, Appendage][index / 4], offer])
}

/// A decoder of OPRA. Numbers series in order of appearance.
#[derive(Clone, Debug, Default)]
pub struct Opra {
    series: AllSeries,
    bests: BestQuotes,
}

impl Opra {
    /// Creates a decoder for the beginning of a day.
    #[must_use]
    pub fn new() -> Opra {
        Opra::default()
    }

    /// Returns the series seen so far, by OCC's names, with their numbers.
    #[must_use]
    pub fn symbols(&self) -> &Symbols {
        &self.series.symbols
    }
}

/// Parses a message: its header, its fixed part, and the rest: a quote's appendages or an
/// administrative message's text.
///
/// # Errors
/// The errors of [`Message::read`].
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

/// Returns the length of the first of `messages`.
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

/// Returns the kind of packet of a block: control messages are alone in their blocks.
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
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn of_run(&mut self, run: u64) {
        self.bests.of_run(run);
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
            stream_offset: None,
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
        sink: &mut impl UpdateSink,
    ) -> Result<(), FeedError> {
        let (header, body, rest) = parse(message)?;
        self.decode_message(context, &header, &body, rest, sink)
    }
}
