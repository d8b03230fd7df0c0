//! IEX's feeds over IEX-TP: TOPS (best bid and offer), DEEP (price levels), DEEP+ (orders).
//!
//! IEX-TP Specification 1.25: a datagram has a header of 40 bytes and then messages, each after two
//! bytes of length, all least significant byte first. A feed is known by its number in the header,
//! so a capture of several can be told apart.

mod codec;
pub mod message;

use weir_types::Nanos;

use crate::feed::layout::layouts;
use crate::feed::{Context, Feed, FeedError, Packet, PacketKind, Sink};
use crate::instrument::Symbols;
pub use message::Message;

layouts! {
    little;

    /// What a datagram begins with.
    Header {
        /// 1.
        version: u8,
        /// Not used.
        reserved: u8,
        /// Which feed: [`Protocol`].
        message_protocol_id: u16,
        /// Which of its channels.
        channel_id: u32,
        /// Which session.
        session_id: u32,
        /// Bytes that follow.
        payload_length: u16,
        /// Messages that follow.
        message_count: u16,
        /// Bytes of the session's stream before this payload.
        stream_offset: u64,
        /// The number of the first message, or of the next one when there is none.
        first_message_sequence_number: u64,
        /// When it was sent: nanoseconds since the Unix epoch.
        send_time: u64,
    }
}

/// Which of IEX's feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// TOPS 1.5 and 1.6: the best bid and offer, and trades.
    Tops,
    /// DEEP 1.0: price levels.
    Deep,
    /// DEEP+ 1.0: orders.
    DeepPlus,
}

impl Protocol {
    /// The number that IEX-TP has for it.
    #[must_use]
    pub const fn id(self) -> u16 {
        match self {
            Protocol::Tops => 0x8003,
            Protocol::Deep => 0x8004,
            Protocol::DeepPlus => 0x8005,
        }
    }

    /// The protocol of a number.
    #[must_use]
    pub const fn of(id: u16) -> Option<Protocol> {
        match id {
            0x8003 => Some(Protocol::Tops),
            0x8004 => Some(Protocol::Deep),
            0x8005 => Some(Protocol::DeepPlus),
            _ => None,
        }
    }
}

/// One of IEX's feeds. Symbols get their numbers in the order in which they come.
#[derive(Clone, Debug)]
pub struct Iex {
    protocol: Protocol,
    symbols: Symbols,
    /// How each security trades, by its number less one.
    conditions: Vec<codec::Condition>,
}

impl Iex {
    /// The feed of a protocol, at the beginning of a day.
    #[must_use]
    pub fn new(protocol: Protocol) -> Iex {
        Iex { protocol, symbols: Symbols::new(), conditions: Vec::new() }
    }

    /// The symbols seen, with their numbers.
    #[must_use]
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }
}

/// The layout of a message without its framing.
///
/// # Errors
/// As [`Message::read`]; an empty message is of the type of two spaces.
pub fn parse(message: &[u8]) -> Result<Message, FeedError> {
    let kind = [message.first().copied().unwrap_or(b' '), b' '];
    Message::read(kind, message).map(|(message, _grown)| message)
}

impl Feed for Iex {
    fn name(&self) -> &'static str {
        match self.protocol {
            Protocol::Tops => "iex-tops",
            Protocol::Deep => "iex-deep",
            Protocol::DeepPlus => "iex-deep-plus",
        }
    }

    fn packet<'a>(&self, datagram: &'a [u8]) -> Result<Packet<'a>, FeedError> {
        let header = Header::read(datagram)
            .ok_or(FeedError::ShortPacket { len: datagram.len(), header_len: Header::LEN })?;
        let unknown = |field, value| FeedError::Header { field, value };
        if header.version != 1 {
            return Err(unknown("version", u64::from(header.version)));
        }
        if header.message_protocol_id != self.protocol.id() {
            return Err(unknown("message protocol", u64::from(header.message_protocol_id)));
        }
        let payload = &datagram[Header::LEN..];
        let len = usize::from(header.payload_length);
        let messages = payload.get(..len).ok_or(unknown("payload length", len as u64))?;
        if payload.len() > len {
            return Err(FeedError::Trailing { len: payload.len() - len });
        }
        let is_heartbeat = header.message_count == 0;
        Ok(Packet {
            channel: header.channel_id,
            session: u64::from(header.session_id),
            sequence: header.first_message_sequence_number,
            count: u32::from(header.message_count),
            kind: if is_heartbeat { PacketKind::Heartbeat } else { PacketKind::Data },
            ts_send: Nanos(header.send_time),
            messages,
        })
    }

    fn next_message<'a>(&self, messages: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), FeedError> {
        let truncated = FeedError::Truncated { index: 0, offset: 0 };
        let (len, rest) = messages.split_first_chunk().ok_or(truncated)?;
        rest.split_at_checked(usize::from(u16::from_le_bytes(*len))).ok_or(truncated)
    }

    fn decode(
        &mut self,
        context: &Context,
        message: &[u8],
        sink: &mut impl Sink,
    ) -> Result<(), FeedError> {
        self.decode_message(context, &parse(message)?, sink)
    }
}
