//! IEX's feeds over IEX-TP: TOPS (best bid and offer), DEEP (price levels), DEEP+ (orders).
//!
//! IEX-TP Specification 1.25: a datagram has a header of 40 bytes, then messages behind a two-byte
//! length, all little-endian. The header identifies the feed by number, so that a capture of
//! several feeds can be separated.

mod codec;
pub mod message;

use weir_types::Nanos;

use crate::instrument::Symbols;
use crate::layout::layouts;
use crate::profile::SILENCE_MAX;
use crate::{Context, Feed, FeedError, Packet, PacketKind, Profile, UpdateSink};

pub use message::Message;

/// The profile of TOPS.
pub const TOPS: Profile = profile("iex-tops");
/// The profile of DEEP.
pub const DEEP: Profile = profile("iex-deep");
/// The profile of DEEP+.
pub const DEEP_PLUS: Profile = profile("iex-deep-plus");

const fn profile(name: &'static str) -> Profile {
    Profile { book_kinds: b"85aMRLC", silence_max: SILENCE_MAX, ..Profile::new(name) }
}

layouts! {
    little;

    /// The header of a datagram.
    Header {
        /// The version: 1.
        version: u8,
        /// Not used.
        reserved: u8,
        /// The feed: the number of a [`Protocol`].
        message_protocol_id: u16,
        /// The channel of the feed.
        channel_id: u32,
        /// The session.
        session_id: u32,
        /// Bytes after the header.
        payload_length: u16,
        /// The number of messages.
        message_count: u16,
        /// Bytes of the session's stream before this payload.
        stream_offset: u64,
        /// The number of the first message, or of the next one when there is none.
        first_message_sequence_number: u64,
        /// The send time: nanoseconds since the Unix epoch.
        send_time: u64,
    }
}

/// One of IEX's feeds.
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
    /// Returns the feed's number in IEX-TP.
    #[must_use]
    pub const fn id(self) -> u16 {
        match self {
            Protocol::Tops => 0x8003,
            Protocol::Deep => 0x8004,
            Protocol::DeepPlus => 0x8005,
        }
    }

    /// Returns the feed with this number.
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

/// A decoder of one of IEX's feeds. Numbers symbols in order of appearance.
#[derive(Clone, Debug)]
pub struct Iex {
    protocol: Protocol,
    symbols: Symbols,
    /// The trading condition of each security, at its number minus one.
    conditions: Vec<codec::Condition>,
    /// The run of numbers of the messages that come next.
    run: u64,
}

impl Iex {
    /// Creates a decoder for the beginning of a day.
    #[must_use]
    pub fn new(protocol: Protocol) -> Iex {
        Iex { protocol, symbols: Symbols::new(), conditions: Vec::new(), run: 0 }
    }

    /// Returns the symbols seen so far, with their numbers.
    #[must_use]
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }
}

/// Parses a message without its framing.
///
/// # Errors
/// The errors of [`Message::read`]; an empty message has the type of two spaces.
pub fn parse(message: &[u8]) -> Result<Message, FeedError> {
    let kind = [message.first().copied().unwrap_or(b' '), b' '];
    Message::read(kind, message).map(|(message, _grown)| message)
}

impl Feed for Iex {
    fn profile(&self) -> &'static Profile {
        match self.protocol {
            Protocol::Tops => &TOPS,
            Protocol::Deep => &DEEP,
            Protocol::DeepPlus => &DEEP_PLUS,
        }
    }

    fn of_run(&mut self, run: u64) {
        self.run = run;
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
            stream_offset: Some(header.stream_offset),
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
        sink: &mut impl UpdateSink,
    ) -> Result<(), FeedError> {
        self.decode_message(context, &parse(message)?, sink)
    }
}
