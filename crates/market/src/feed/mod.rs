//! Feeds: how a datagram says which messages it holds, and what each message says.
//!
//! A feed has two layers. Its *framing* names a datagram's channel, session and the numbers of its
//! messages, which is all that arbitration and gap detection need. Its *codec* turns one message
//! into [`Update`]s. Both borrow; nothing is copied or allocated but for new instruments.

pub mod consolidate;
pub mod cta;
pub mod dbn;
pub mod iex;
pub mod itch;
pub mod layout;
pub mod moldudp64;
mod national;
pub mod opra;
pub mod soupbin;
pub mod weir;

use weir_types::Nanos;

use crate::instrument::Definition;
use crate::update::Update;

/// A datagram, as far as its header goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Which of the channels that share a socket or a capture; zero when there is but one.
    pub channel: u32,
    /// The session, as one number: MoldUDP64's ten bytes without padding folded, IEX-TP's session
    /// identifier. Numbers begin anew with each session.
    pub session: u64,
    /// The number of the first message; for a packet without messages that of the next one.
    pub sequence: u64,
    /// How many messages it holds.
    pub count: u32,
    /// What it is.
    pub kind: PacketKind,
    /// When it was sent by the venue's clock, since the Unix epoch; zero when it does not say.
    pub ts_send: Nanos,
    /// The messages, one after the other, as [`Feed::next_message`] takes them apart.
    pub messages: &'a [u8],
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// Messages.
    Data,
    /// Nothing new: it says which number is next.
    Heartbeat,
    /// The session is over; `sequence` is the number that the next message would have had.
    EndOfSession,
    /// Messages that were sent before, outside the order of their numbers' first sending: what the
    /// aggregators repeat on the same line.
    Retransmission,
    /// Messages, and the numbers begin anew with the first of them, whatever came before: a new
    /// day, or a source that took over.
    Reset,
}

/// Where a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Its number.
    pub sequence: u64,
    /// Its channel.
    pub channel: u32,
    /// When its packet was sent by the venue's clock; zero when it does not say.
    pub ts_send: Nanos,
}

/// Why bytes of a feed were not understood. What could be is understood nonetheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    /// A datagram ends inside its header.
    #[error("a datagram of {len} bytes, and its header has {header_len}")]
    ShortPacket {
        /// What it has.
        len: usize,
        /// What its header has.
        header_len: usize,
    },
    /// A header's field has a value that the protocol does not know.
    #[error("{field} is {value}")]
    Header {
        /// Which.
        field: &'static str,
        /// What it is.
        value: u64,
    },
    /// A message is longer than what is left of its packet.
    #[error("message {index} of a packet begins at {offset} and ends beyond it")]
    Truncated {
        /// Its place in the packet, from 0.
        index: u32,
        /// Where it begins among the packet's messages.
        offset: usize,
    },
    /// A packet has bytes after its last message.
    #[error("{len} bytes after the last message of a packet")]
    Trailing {
        /// How many.
        len: usize,
    },
    /// A message of a type that the protocol does not know: it is passed over.
    #[error("a message of type {kind:?}")]
    UnknownType {
        /// Its type.
        kind: [u8; 2],
    },
    /// A message is not as long as its type is.
    #[error("a message of type {kind:?} with {len} bytes; it has {want}")]
    Length {
        /// Its type.
        kind: [u8; 2],
        /// Its length.
        len: usize,
        /// What it should be.
        want: usize,
    },
    /// A field has a value that the protocol does not know, or that does not fit.
    #[error("{field} of a message of type {kind:?} is {value}")]
    Field {
        /// The message's type.
        kind: [u8; 2],
        /// Which field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
}

/// Takes what a codec says.
pub trait Sink {
    /// An instrument became known, or is described anew.
    fn define(&mut self, definition: &Definition);
    /// Something happened.
    fn update(&mut self, update: Update);
}

/// A feed's two layers.
pub trait Feed {
    /// The feed's name, as configuration and tools have it: `itch`, `iex-deep`, `opra`.
    fn name(&self) -> &'static str;

    /// Reads a datagram's header.
    ///
    /// # Errors
    /// [`FeedError::ShortPacket`], [`FeedError::Header`]: the datagram is not of this feed.
    fn packet<'a>(&self, datagram: &'a [u8]) -> Result<Packet<'a>, FeedError>;

    /// Takes the first message off `messages`: the message without its framing, and the rest.
    ///
    /// # Errors
    /// [`FeedError::Truncated`] with index and offset zero: whoever iterates knows them; and
    /// [`FeedError::UnknownType`] where a feed's messages have no length of their own.
    fn next_message<'a>(&self, messages: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), FeedError>;

    /// Asks memory for what decoding these messages will look up, so that it waits once and not for
    /// each. Changes nothing; only where a feed looks up what no cache holds.
    fn look_ahead(&self, messages: &[u8]) {
        let _ = messages;
    }

    /// Says what a message means.
    ///
    /// # Errors
    /// [`FeedError::UnknownType`], [`FeedError::Length`], [`FeedError::Field`]: nothing of the
    /// message reached `sink`, and the next one can be decoded.
    fn decode(
        &mut self,
        context: &Context,
        message: &[u8],
        sink: &mut impl Sink,
    ) -> Result<(), FeedError>;
}

/// A sink that keeps all it is told: for tests and tools.
#[derive(Clone, Debug, Default)]
pub struct Collected {
    /// Definitions in the order in which they came.
    pub definitions: Vec<Definition>,
    /// Updates in the order in which they came.
    pub updates: Vec<Update>,
}

impl Sink for Collected {
    fn define(&mut self, definition: &Definition) {
        self.definitions.push(*definition);
    }

    fn update(&mut self, update: Update) {
        self.updates.push(update);
    }
}
