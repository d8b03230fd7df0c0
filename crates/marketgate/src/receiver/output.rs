//! The output of a receiver: the seam between the receiving thread and the consumer that builds
//! books.

use weir_feed::capture::Datagram;
use weir_feed::line::{Line, StaleReason, State};
use weir_feed::{Definition, FeedError, Update};
use weir_types::Nanos;

/// A channel of a feed: its pair of lines, and its number among the channels of that pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelKey {
    /// The pair of lines, from 0 in configuration order; for a capture without configured lines, in
    /// order of the groups' first datagrams.
    pub pair: u32,
    /// The feed's channel number; zero if the lines carry only one channel.
    pub number: u32,
}

/// The origin of a definition or an update: channel and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The channel.
    pub channel: ChannelKey,
    /// The receive time since the Unix epoch, by the wall clock, with which the kernel stamps
    /// datagrams; for a capture, the recorded time. A message that waited behind a hole has the
    /// time of the packet that filled it; a message over TCP has the time of the read.
    pub ts_recv: Nanos,
    /// The time of the poll that took the packet, by the caller's clock, which never steps.
    pub ts_poll: Nanos,
    /// True for a snapshot: its updates have sequence number zero and describe the current state,
    /// not events.
    pub is_snapshot: bool,
}

/// The reason a channel's instruments lose all their state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClearReason {
    /// A new session, or the first one: sequence numbers restart.
    Session {
        /// The session's number.
        session: u64,
    },
    /// A snapshot begins: the updates until it joins belong to it.
    SnapshotBegins,
    /// A snapshot failed midway: its updates are incomplete.
    SnapshotFailed,
}

/// An event of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelEvent {
    /// The state changed. Books are valid in [`State::Live`] and [`State::Ended`]. In
    /// [`State::Gap`] they are as of before the hole; in [`State::Stale`] and [`State::Recovering`]
    /// they are invalid.
    State {
        /// The previous state.
        from: State,
        /// The new state.
        to: State,
    },
    /// All books of the channel's instruments must be cleared before the next update.
    Clear {
        /// The reason.
        reason: ClearReason,
    },
    /// Messages `from..to` are missing and may still come.
    Gap {
        /// The first missing number.
        from: u64,
        /// The number after the last missing one.
        to: u64,
    },
    /// Messages `from..to` are lost: the books are STALE.
    Stale {
        /// Their session, which may be over already.
        session: u64,
        /// The first lost number.
        from: u64,
        /// The number after the last lost one.
        to: u64,
        /// The reason.
        reason: StaleReason,
    },
    /// The rest of a packet cannot be split into messages, or a message that the books need cannot
    /// be decoded: the books are STALE.
    Damaged,
    /// A snapshot is complete: the books are those before message `next`, which follows.
    Joined {
        /// The sequence number of the next message.
        next: u64,
    },
    /// All messages of the session were delivered or given up.
    EndOfSession {
        /// The session.
        session: u64,
    },
    /// None of the channel's lines has received anything for longer than the feed is ever silent:
    /// the books may be outdated, regardless of the state.
    Silent,
    /// Packets arrive again after [`ChannelEvent::Silent`]. Messages missed in between appear as a
    /// hole.
    Heard,
}

/// Takes the output of a receiver.
///
/// All calls come from the polling thread, in the order in which messages and events follow from
/// the packets. An event of a channel's session, snapshot or loss precedes the updates after it. A
/// state is reported once all messages that led to it were delivered: messages that fill a hole, or
/// were held for a snapshot, arrive while the previous state still applies.
pub trait Output {
    /// Takes a datagram that arrived on a line of a pair, before it is parsed; `ts_poll` as in
    /// [`Origin`].
    fn datagram(&mut self, pair: u32, line: Line, datagram: &Datagram<'_>, ts_poll: Nanos) {
        let _ = (pair, line, datagram, ts_poll);
    }

    /// Returns true while the consumer has no room and an arriving datagram is to be dropped as if
    /// the kernel had dropped it: the line detects the gap and requests the messages again where it
    /// can. Lossless sources, connections and files, wait meanwhile.
    fn drops_datagrams(&mut self) -> bool {
        false
    }

    /// Takes the definition of an instrument that is new or was defined anew.
    fn define(&mut self, origin: &Origin, definition: &Definition);

    /// Takes an update of an instrument.
    fn update(&mut self, origin: &Origin, update: Update);

    /// Takes an event of a channel.
    fn channel(&mut self, channel: ChannelKey, event: &ChannelEvent);

    /// Takes the error of a message that was not decoded; it is counted and skipped.
    fn refused(&mut self, origin: &Origin, error: FeedError) {
        let _ = (origin, error);
    }

    /// Marks the end of the output of one packet, or of one read of a connection: the point to pass
    /// on a batch.
    fn end_of_packet(&mut self, origin: &Origin);
}
