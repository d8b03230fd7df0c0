//! Lines: merges the two copies of a feed and its retransmissions into one sequence without gaps.
//!
//! A venue sends each channel on two multicast lines, A and B; messages lost on both can be
//! requested again, or are covered by a snapshot. [`Channel`] delivers each message once, in
//! sequence, and reports missing ones; [`Lines`] holds several channels. They look only at the
//! sequence numbers of packets, so they serve every feed. Time comes in as an argument; requests
//! and events go out through [`Handler`]. Nothing is allocated once the buffer of early packets has
//! its size.
//!
//! | state | meaning | ends with |
//! | --- | --- | --- |
//! | WAITING | nothing was received | the first packet, or a snapshot |
//! | LIVE | all known messages were delivered | a gap; the end of the session |
//! | GAP | messages are missing, later ones are held | filled: LIVE; given up: STALE |
//! | STALE | messages are lost; newer ones are delivered | a snapshot; a new session or restart |
//! | RECOVERING | all packets are held for a snapshot | [`Channel::join`], or it is abandoned |
//! | ENDED | the whole session was delivered | a new session |
//!
//! [`numbering`] tells a new session or restart from repeated packets and from contradictions.

mod channel;
mod counts;
mod held;
mod lines;
pub mod numbering;
mod ranges;
mod seen;

pub use channel::Channel;
pub use counts::{ChannelCounts, LineCounts};
pub use lines::{Lines, LinesError};

use weir_types::Nanos;

/// The source of a packet.
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
    /// All lines, in the order of their counters.
    pub const ALL: [Line; 3] = [Line::A, Line::B, Line::Retransmission];

    pub(crate) const fn index(self) -> usize {
        match self {
            Line::A => 0,
            Line::B => 1,
            Line::Retransmission => 2,
        }
    }
}

/// The treatment of a channel whose first packet is not the session's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateJoin {
    /// Start at this packet, STALE until a snapshot arrives.
    FromHere,
    /// Request all messages from number 1. Only for a session's first minutes: the packets received
    /// meanwhile must be held.
    FromStart,
}

/// Limits of waiting and requesting on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineConfig {
    /// The most packets held behind a gap, at least 1.
    pub held_packets_max: u32,
    /// The most bytes of held packets.
    pub held_bytes_max: usize,
    /// The time for which the other line may fill a gap before it is requested.
    pub reorder: Nanos,
    /// The time after its detection at which a gap is given up, regardless of requests.
    pub give_up: Nanos,
    /// Retransmission requests; `None` where the venue has no server for them.
    pub request: Option<RequestConfig>,
    /// The largest gap, in messages, that is waited for or requested.
    pub gap_messages_max: u64,
    /// The treatment of a first packet that is not the session's first.
    pub late_join: LateJoin,
}

/// Limits of retransmission requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestConfig {
    /// The most messages of one request; at least 1. MoldUDP64 1.00 has 16 bits for it, of which
    /// 65,535 is not a count.
    pub count_max: u16,
    /// The time from one request, or a part of an answer, to the next request.
    pub interval: Nanos,
    /// The time from a request without an answer to its repetition.
    pub timeout: Nanos,
    /// The most requests for the same messages.
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

/// The next messages of a channel, for delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<'a> {
    /// The channel.
    pub channel: u32,
    /// The session.
    pub session: u64,
    /// The number of the run of numbers in the channel, from 1: each session and each restart
    /// begins one.
    pub run: u64,
    /// The sequence number of the first new message.
    pub sequence: u64,
    /// The number of new messages.
    pub count: u32,
    /// The number of `messages` before the first new one: they were delivered already, and the
    /// receiver skips them with [`Feed::next_message`](crate::Feed::next_message).
    pub skip: u32,
    /// The send time of the packet by the venue's clock; zero when it has none.
    pub ts_send: Nanos,
    /// All messages of the packet.
    pub messages: &'a [u8],
    /// The source of the packet.
    pub line: Line,
}

/// The state of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum State {
    /// Nothing was received.
    #[default]
    Waiting,
    /// All known messages were delivered.
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

/// The reason messages are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StaleReason {
    /// The channel was joined late.
    JoinedLate,
    /// The time limit expired.
    Timeout,
    /// The messages were requested as often as allowed.
    Unanswered,
    /// There is no room for the packets held behind them.
    NoRoom,
    /// The gap is too large.
    TooMany,
    /// The session is over.
    SessionOver,
    /// A packet contradicts those before it: no one knows which are right.
    Contradicted,
}

/// An event of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The state changed.
    State {
        /// The previous state.
        from: State,
        /// The new state.
        to: State,
    },
    /// Messages `from..to` are missing and may still come.
    Gap {
        /// The first missing number.
        from: u64,
        /// The number after the last missing one.
        to: u64,
    },
    /// The caller should request these messages.
    Request {
        /// The session.
        session: u64,
        /// The first message.
        sequence: u64,
        /// The number of messages.
        count: u16,
    },
    /// Messages `from..to` are lost.
    Stale {
        /// The session.
        session: u64,
        /// The first lost number.
        from: u64,
        /// The number after the last lost one.
        to: u64,
        /// The reason.
        reason: StaleReason,
    },
    /// A snapshot replaced all messages before `next`.
    Joined {
        /// The sequence number of the next message to deliver.
        next: u64,
    },
    /// A session began, or began anew: sequence numbers restart, and the state of before is void.
    Session {
        /// The session that is followed from here on.
        session: u64,
    },
    /// All messages of the session were delivered or given up.
    EndOfSession {
        /// The session.
        session: u64,
        /// The number that the next message would have had.
        next: u64,
    },
}

/// A receiver of the output of channels.
pub trait Handler {
    /// Takes the next messages of a channel.
    fn deliver(&mut self, run: &Run<'_>);
    /// Takes an event of a channel.
    fn event(&mut self, channel: u32, event: &Event);
}

#[cfg(test)]
mod tests;
