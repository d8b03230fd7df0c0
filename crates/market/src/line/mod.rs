//! Lines: one feed sent twice, and what is asked for again, as one sequence without holes.
//!
//! A venue sends each channel on two multicast lines, A and B; what both lost can be asked for
//! again, or is in a snapshot. [`Channel`] hands each message on once, in the order of the numbers,
//! and says what is missing; [`Lines`] holds several channels. Numbers of packets are all that they
//! look at, so they serve every feed. Time comes in, requests and events go out by [`Handler`];
//! nothing is allocated once the buffer for what came too early has its size.
//!
//! | state | means | ends by |
//! | --- | --- | --- |
//! | WAITING | nothing was heard | the first packet, or a snapshot |
//! | LIVE | all there is was handed on | a hole; the end of the session |
//! | GAP | messages are missing, later ones wait | filled: LIVE; given up: STALE |
//! | STALE | messages are lost; newer ones are handed on | a snapshot; a new session |
//! | RECOVERING | all that comes waits for a snapshot | [`Channel::join`], or it is abandoned |
//! | ENDED | all of the session was handed on | a new session |

mod channel;
mod counts;
mod held;
mod lines;
mod ranges;
mod seen;

pub use channel::Channel;
pub use counts::{ChannelCounts, LineCounts};
pub use lines::{Lines, LinesError};

use weir_types::Nanos;

/// Where a packet came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Line {
    /// The first line.
    A,
    /// The second line.
    B,
    /// The answer to a request.
    Retransmission,
}

impl Line {
    /// All, in the order of their counts.
    pub const ALL: [Line; 3] = [Line::A, Line::B, Line::Retransmission];

    pub(crate) const fn index(self) -> usize {
        match self {
            Line::A => 0,
            Line::B => 1,
            Line::Retransmission => 2,
        }
    }
}

/// What to do when the first packet heard of a channel is not its first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateJoin {
    /// Begin here, STALE until a snapshot comes.
    FromHere,
    /// Ask for all from number 1. For a session's first minutes: what waits meanwhile needs room.
    FromStart,
}

/// What a channel waits for, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineConfig {
    /// Packets that may wait behind a hole, at least 1.
    pub held_packets_max: u32,
    /// Their bytes together.
    pub held_bytes_max: usize,
    /// So long a hole may be filled by the other line before it is asked for.
    pub reorder: Nanos,
    /// So long after it was noticed a hole is given up, whatever was asked.
    pub give_up: Nanos,
    /// Asking for what is missing; `None` where the venue has no server for it.
    pub request: Option<RequestConfig>,
    /// More missing messages than these are neither waited nor asked for.
    pub gap_messages_max: u64,
    /// When the first packet is not the first one.
    pub late_join: LateJoin,
}

/// How missing messages are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestConfig {
    /// Messages of one request; at least 1. MoldUDP64 1.00 has 16 bits for it, of which 65,535 is
    /// not a count.
    pub count_max: u16,
    /// From one request, or a part of an answer, to the next request.
    pub interval: Nanos,
    /// From a request without an answer to the next one for the same.
    pub timeout: Nanos,
    /// So often the same is asked for.
    pub attempts_max: u32,
}

impl Default for RequestConfig {
    fn default() -> RequestConfig {
        RequestConfig {
            count_max: 1_000,
            interval: Nanos(100_000),
            timeout: Nanos(10_000_000),
            attempts_max: 5,
        }
    }
}

impl Default for LineConfig {
    fn default() -> LineConfig {
        LineConfig {
            held_packets_max: 4_096,
            held_bytes_max: 4 << 20,
            reorder: Nanos(500_000),
            give_up: Nanos(1_000_000_000),
            request: None,
            gap_messages_max: 1_000_000,
            late_join: LateJoin::FromHere,
        }
    }
}

/// Messages to hand on: the next ones of their channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<'a> {
    /// The channel.
    pub channel: u32,
    /// The session.
    pub session: u64,
    /// The number of the first message that is new.
    pub sequence: u64,
    /// How many are new.
    pub count: u32,
    /// So many of `messages` stand before the first new one: they were handed on already, and
    /// [`Feed::next_message`](crate::Feed::next_message) passes over them.
    pub skip: u32,
    /// When their packet was sent by the venue's clock; zero when it does not say.
    pub ts_send: Nanos,
    /// All messages of the packet.
    pub messages: &'a [u8],
    /// Whose packet it was.
    pub line: Line,
}

/// What a channel is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum State {
    /// Nothing was heard.
    #[default]
    Waiting,
    /// All there is was handed on.
    Live,
    /// Messages are missing that may still come.
    Gap,
    /// Messages are lost.
    Stale,
    /// A snapshot is under way.
    Recovering,
    /// The session is over.
    Ended,
}

/// Why messages are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StaleReason {
    /// The channel was joined late.
    JoinedLate,
    /// Their time was up.
    Timeout,
    /// They were asked for as often as is allowed.
    Unanswered,
    /// There is no room for what waits behind them.
    NoRoom,
    /// There are too many.
    TooMany,
    /// Their session is over.
    SessionOver,
}

/// What happened to a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is in another state.
    State {
        /// The one before.
        from: State,
        /// The one now.
        to: State,
    },
    /// Messages `from..to` are missing and may still come.
    Gap {
        /// The first.
        from: u64,
        /// The one after the last.
        to: u64,
    },
    /// Ask for these.
    Request {
        /// Of this session.
        session: u64,
        /// The first.
        sequence: u64,
        /// How many.
        count: u16,
    },
    /// Messages `from..to` will not come.
    Stale {
        /// Of this session.
        session: u64,
        /// The first.
        from: u64,
        /// The one after the last.
        to: u64,
        /// Why.
        reason: StaleReason,
    },
    /// A snapshot took the place of all before `next`.
    Joined {
        /// What is handed on next.
        next: u64,
    },
    /// Another session: numbers begin anew, and what was known of the old one is void.
    Session {
        /// The new one.
        session: u64,
    },
    /// All of the session was handed on or given up.
    EndOfSession {
        /// The session.
        session: u64,
        /// The number that its next message would have had.
        next: u64,
    },
}

/// Takes what channels hand on.
pub trait Handler {
    /// Messages, the next ones of their channel.
    fn deliver(&mut self, run: &Run<'_>);
    /// Something happened to a channel.
    fn event(&mut self, channel: u32, event: &Event);
}

#[cfg(test)]
mod tests;
