//! What a receiver tells: the seam between the thread that receives and what makes books of it.

use weir_feed::capture::Datagram;
use weir_feed::line::{Line, StaleReason, State};
use weir_feed::{Definition, FeedError, Update};
use weir_types::Nanos;

/// A channel of a feed: the lines that it comes on, and its number among those that share them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelKey {
    /// The pair of lines, from 0 in the order of the configuration; of a capture without lines in
    /// the order in which groups come.
    pub pair: u32,
    /// The feed's own number of it; zero where lines carry one.
    pub number: u32,
}

/// Where what is told came from, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The channel.
    pub channel: ChannelKey,
    /// When the packet came, by the kernel's clock, since the Unix epoch; for a capture by the
    /// capture's. What had waited behind a hole has the time of the packet that filled it, what
    /// comes over TCP that of the read.
    pub ts_recv: Nanos,
    /// When the receiver was called that took it, by the clock of who called.
    pub ts_poll: Nanos,
    /// It is of a snapshot: its updates have the sequence number zero, and say what there is and
    /// not what happened.
    pub is_snapshot: bool,
}

/// Why all that is known of a channel's instruments is void.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClearReason {
    /// Another session, or the first one: numbers begin anew.
    Session {
        /// Its number.
        session: u64,
    },
    /// A snapshot begins: what follows until it joins is of it.
    SnapshotBegins,
    /// A snapshot that had begun failed: what it said is not whole.
    SnapshotFailed,
}

/// What happened to a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelEvent {
    /// It is in another state. Books are to be trusted in [`State::Live`] and [`State::Ended`]; in
    /// [`State::Gap`] they are as they were before the hole, and in [`State::Stale`] and
    /// [`State::Recovering`] not to be trusted at all.
    State {
        /// The one before.
        from: State,
        /// The one now.
        to: State,
    },
    /// All books of the channel's instruments must be cleared, now, before what follows.
    Clear {
        /// Why.
        reason: ClearReason,
    },
    /// Messages `from..to` are missing and may still come.
    Gap {
        /// The first.
        from: u64,
        /// The one after the last.
        to: u64,
    },
    /// Messages `from..to` will not come: the books are STALE.
    Stale {
        /// Of this session, which may be one that is over.
        session: u64,
        /// The first.
        from: u64,
        /// The one after the last.
        to: u64,
        /// Why.
        reason: StaleReason,
    },
    /// A packet's messages cannot be told apart from some place on: the books are STALE.
    Damaged,
    /// A snapshot is whole: the books are those before message `next`, which comes next.
    Joined {
        /// What is handed on next.
        next: u64,
    },
    /// All of the session was handed on or given up.
    EndOfSession {
        /// The session.
        session: u64,
    },
    /// Nothing came on any of the channel's lines for longer than the feed is ever silent: what
    /// the books say may be old, whatever the state.
    Silent,
    /// Something came again after [`ChannelEvent::Silent`]. What was missed meanwhile shows as a
    /// hole.
    Heard,
}

/// Takes what a receiver tells.
///
/// All calls come from the thread that polls, in the order in which messages and events follow from
/// the packets. What is told of a channel's session, snapshot or loss comes before the updates that
/// come after it. A state is told once all that led to it was handed on: what fills a hole, or
/// waited for a snapshot, comes while the state is still the one before.
pub trait Output {
    /// A datagram came on a line of a pair, before it is looked at; `ts_poll` as in [`Origin`].
    fn datagram(&mut self, pair: u32, line: Line, datagram: &Datagram<'_>, ts_poll: Nanos) {
        let _ = (pair, line, datagram, ts_poll);
    }

    /// True while what follows has no room and a datagram that came is to be dropped, as if the
    /// kernel had: the line finds it missing, and asks for it again where it can. What is never
    /// lost, connections and files, waits meanwhile.
    fn drops_datagrams(&mut self) -> bool {
        false
    }

    /// An instrument became known, or is described anew.
    fn define(&mut self, origin: &Origin, definition: &Definition);

    /// Something happened to an instrument.
    fn update(&mut self, origin: &Origin, update: Update);

    /// Something happened to a channel.
    fn channel(&mut self, channel: ChannelKey, event: &ChannelEvent);

    /// A message was not understood; it is counted and passed over.
    fn refused(&mut self, origin: &Origin, error: FeedError) {
        let _ = (origin, error);
    }

    /// All that one packet, or one read of a connection, came to was told: a place to hand a batch
    /// on.
    fn end_of_packet(&mut self, origin: &Origin);
}
