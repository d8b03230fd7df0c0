//! Feeds: framing and codec of each market data protocol.
//!
//! A feed has two layers. Its *framing* reads a datagram's channel, session and sequence numbers,
//! which is all that arbitration and gap detection need. Its *codec* turns one message into
//! [`Update`]s. Both borrow their input; nothing is copied, and only new instruments allocate. Its
//! [`Profile`] holds the rest: name, transport, and the rules that receivers and tools ask for.

use weir_types::Nanos;

use crate::instrument::Definition;
use crate::moldudp64::MoldSession;
use crate::profile::Profile;
use crate::update::Update;

/// A datagram with its parsed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The channel, among those that share a socket or a capture; zero for a single one.
    pub channel: u32,
    /// The session as one number: MoldUDP64's ten bytes folded without padding, or IEX-TP's session
    /// identifier. Sequence numbers restart with each session.
    pub session: u64,
    /// The sequence number of the first message; of the next one for a packet without messages.
    pub sequence: u64,
    /// The number of messages.
    pub count: u32,
    /// The kind of packet.
    pub kind: PacketKind,
    /// The send time by the venue's clock, since the Unix epoch; zero when the packet has none.
    pub ts_send: Nanos,
    /// The position of `messages` in the bytes of the session's stream; `None` where packets do not
    /// state it.
    pub stream_offset: Option<u64>,
    /// The consecutive messages, which [`Feed::next_message`] splits.
    pub messages: &'a [u8],
}

/// The kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// The packet holds messages.
    Data,
    /// The packet only gives the next sequence number.
    Heartbeat,
    /// The session is over; `sequence` is the number that the next message would have had.
    EndOfSession,
    /// The packet repeats earlier messages on the same line, out of sequence, as the aggregators
    /// do.
    Retransmission,
    /// The packet holds messages, and sequence numbers restart with the first of them: a new day,
    /// or a source that took over.
    Reset,
}

/// The position of a message in its feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// The sequence number.
    pub sequence: u64,
    /// The channel.
    pub channel: u32,
    /// The send time of its packet by the venue's clock; zero when the packet has none.
    pub ts_send: Nanos,
}

/// The reason bytes of a feed could not be decoded. The rest of the feed is decoded regardless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    /// A datagram ends inside its header.
    #[error("a datagram of {len} bytes, and its header has {header_len}")]
    ShortPacket {
        /// The length of the datagram in bytes.
        len: usize,
        /// The length of the header in bytes.
        header_len: usize,
    },
    /// A header field has a value that the protocol does not define.
    #[error("{field} is {value}")]
    Header {
        /// The name of the field.
        field: &'static str,
        /// The value of the field.
        value: u64,
    },
    /// A message extends beyond its packet.
    #[error("message {index} of a packet begins at {offset} and ends beyond it")]
    Truncated {
        /// The index of the message in the packet, from 0.
        index: u32,
        /// The offset of the message among the packet's messages.
        offset: usize,
    },
    /// A packet has bytes after its last message.
    #[error("{len} bytes after the last message of a packet")]
    Trailing {
        /// The number of bytes.
        len: usize,
    },
    /// The protocol does not define this message type; the message is skipped.
    #[error("a message of type {kind:?}")]
    UnknownType {
        /// The type.
        kind: [u8; 2],
    },
    /// A message has the wrong length for its type.
    #[error("a message of type {kind:?} with {len} bytes; it has {want}")]
    Length {
        /// The type.
        kind: [u8; 2],
        /// The length of the message.
        len: usize,
        /// The length that the type requires.
        want: usize,
    },
    /// A field has a value that the protocol does not define, or that does not fit.
    #[error("{field} of a message of type {kind:?} is {value}")]
    Field {
        /// The type of the message.
        kind: [u8; 2],
        /// The name of the field.
        field: &'static str,
        /// The value of the field.
        value: u64,
    },
}

/// A receiver of decoded definitions and updates.
pub trait UpdateSink {
    /// Takes a new or changed definition of an instrument.
    fn define(&mut self, definition: &Definition);
    /// Takes an update.
    fn update(&mut self, update: Update);
}

/// The two layers of a feed, and its profile.
pub trait Feed {
    /// Returns the feed's properties that its bytes do not show.
    fn profile(&self) -> &'static Profile;

    /// Begins a day at this midnight by the venue's clock, since the Unix epoch; zero: unknown.
    /// For feeds whose times [count from midnight](Profile::counts_from_midnight).
    fn begin_day(&mut self, midnight: Nanos) {
        let _ = midnight;
    }

    /// Begins the session `name`, whose first packet arrived at `ts_recv`. For feeds whose session
    /// names state the date.
    fn begin_session(&mut self, name: MoldSession, ts_recv: Nanos) {
        let _ = (name, ts_recv);
    }

    /// Notes that the messages decoded next are of the `run`-th run of numbers in their channel:
    /// each session and each restart begins one. For codecs whose updates build on earlier
    /// messages: those of another run say nothing about this one.
    fn of_run(&mut self, run: u64) {
        let _ = run;
    }

    /// Parses a datagram's header.
    ///
    /// # Errors
    /// [`FeedError::ShortPacket`], [`FeedError::Header`]: the datagram is not of this feed.
    fn packet<'a>(&self, datagram: &'a [u8]) -> Result<Packet<'a>, FeedError>;

    /// Splits the first message off `messages`: returns it without its framing, and the rest.
    ///
    /// # Errors
    /// [`FeedError::Truncated`] with index and offset zero, which the iterating caller fills in;
    /// and [`FeedError::UnknownType`] where a feed's messages have no length of their own.
    fn next_message<'a>(&self, messages: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), FeedError>;

    /// Prefetches the memory that decoding these messages will look up, so that the lookups wait
    /// together. Changes nothing; only feeds with lookups beyond the caches implement it.
    fn look_ahead(&self, messages: &[u8]) {
        let _ = messages;
    }

    /// Decodes a message into `sink`.
    ///
    /// # Errors
    /// [`FeedError::UnknownType`], [`FeedError::Length`], [`FeedError::Field`]: nothing of the
    /// message reached `sink`, and the next one can be decoded.
    fn decode(
        &mut self,
        context: &Context,
        message: &[u8],
        sink: &mut impl UpdateSink,
    ) -> Result<(), FeedError>;
}

/// A sink that stores everything, for tests and tools.
#[derive(Clone, Debug, Default)]
pub struct CollectedUpdates {
    /// The definitions in order of arrival.
    pub definitions: Vec<Definition>,
    /// The updates in order of arrival.
    pub updates: Vec<Update>,
}

impl UpdateSink for CollectedUpdates {
    fn define(&mut self, definition: &Definition) {
        self.definitions.push(*definition);
    }

    fn update(&mut self, update: Update) {
        self.updates.push(update);
    }
}
