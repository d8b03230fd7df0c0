//! Replicas that follow a source of this node: the part of its history that they can get, and the
//! requests waiting for new entries.
//!
//! The newest entries are kept in bounded memory; a replica whose position is older, or of another
//! history, gets a snapshot of the store. Only committed entries are sent, so that no replica is
//! ahead of this node's state after a restart. INVARIANT: each request gets one answer, and an
//! answer is bounded, so that a replica that does not read costs nothing.

use weir_delivery::stream::SourceStream;
use weir_delivery::{ChunkOutcome, OrderStore};
use weir_types::{Epoch, Nanos, PartitionId, Position, Switch};
use weir_wire::frame::put_frame;
use weir_wire::replica::{FollowSource, FollowState, SnapshotChunk, put_snapshot_chunk};

use super::handoff::IngestAnswer;
use super::own::OwnEvents;
use crate::stores::tail::EntryTail;

/// The number of bytes of entries in one answer, beyond a single entry.
const ANSWER_LEN: usize = 128 * 1024;
/// The number of bytes in a piece of a snapshot.
const CHUNK_LEN: usize = 40 * 1024;
/// The time in nanoseconds that a request waits for new entries before it gets an empty answer.
const IDLE_WAIT: u64 = 250_000_000;
/// The time in nanoseconds after which a snapshot ends whose replica asks for no more of it: one is
/// under way at a time, and the store's own to the disk wait for it too.
const SNAPSHOT_WAIT: u64 = 30_000_000_000;
/// The time in nanoseconds that a snapshot may take for each of its pieces beyond that: 1 MB/s. A
/// replica that asks for a piece now and then would hold it for ever, and with it the store's own
/// snapshots, and the log or the events behind them.
const PIECE_TIME: u64 = 40_000_000;
/// The time in nanoseconds for which replicas leave the first turn to the store's own snapshot, if
/// that is due when a replica's ends. A replica that begins its snapshot again has ended it, and so
/// has one that is closed: either could keep the store's own away for ever.
const OWN_TURN: u64 = 10_000_000_000;
/// The maximum number of waiting replicas; more than any sensible set-up has.
const FOLLOWERS_MAX: usize = 64;

/// The history that positions belong to: a unique number, and an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// A log's identity, or else a number drawn at the start.
    pub high: u64,
    /// The epoch of a log's run.
    pub low: u64,
}

impl History {
    /// Returns the history of a log with this identity, in this epoch.
    #[must_use]
    pub fn of_log(log_id: u128, epoch: Epoch) -> History {
        let high = (log_id >> 64) as u64 ^ log_id as u64;
        History { high, low: u64::from(epoch.0) }
    }
}

/// A replica's request that waits for new entries.
#[derive(Clone, Copy, Debug)]
struct WaitingReplica {
    connection: u64,
    follow: FollowSource,
    since: Nanos,
}

impl WaitingReplica {
    /// Returns the time from which it gets an answer without entries.
    fn late_from(&self) -> Nanos {
        Nanos(self.since.0 + IDLE_WAIT)
    }
}

/// A snapshot on its way to a replica.
#[derive(Debug)]
struct UnderWay {
    connection: u64,
    position: Position,
    /// The number of the next piece.
    chunk_no: u32,
    /// The first piece: the stream's state.
    state: Option<Vec<u8>>,
    /// The time of the first piece, and of the newest.
    begun_at: Nanos,
    given_at: Nanos,
}

impl UnderWay {
    /// Returns the time from which it ends: without another request, or because its replica takes
    /// it too slowly.
    fn ends_at(&self) -> Nanos {
        let in_all = self.begun_at.0 + u64::from(self.chunk_no) * PIECE_TIME;
        Nanos(self.given_at.0.min(in_all) + SNAPSHOT_WAIT)
    }
}

/// The followers of a source.
#[derive(Debug)]
pub struct Followers {
    history: History,
    waiting: Vec<WaitingReplica>,
    snapshot: Option<UnderWay>,
    /// The time at which the last snapshot ended.
    ended_at: Option<Nanos>,
    /// The number of snapshots sent.
    pub snapshots: u64,
}

/// The state from which followers are answered.
pub struct FollowedState<'a> {
    /// The store.
    pub store: &'a mut OrderStore,
    /// The store's stream.
    pub stream: &'a SourceStream,
    /// The source of entries.
    pub entries: Entries<'a>,
    /// The newest ingested entry.
    pub taken: Position,
    /// The newest entry that may be sent.
    pub committed: Position,
    /// True when the store's own snapshot to the disk is due.
    pub is_own_snapshot_due: bool,
    /// The time of the duty cycle.
    pub now: Nanos,
    /// The wall clock.
    pub wall: Nanos,
}

/// The source of entries.
pub enum Entries<'a> {
    /// The newest entries, kept as they arrived.
    Kept(&'a EntryTail),
    /// Entries built from the partition's events.
    Events(&'a mut OwnEvents),
}

impl Entries<'_> {
    /// Appends entries after a position, none after `head`; returns their number and the position
    /// of the last. `None` when they are no longer available.
    fn put_after(
        &mut self,
        connection: u64,
        after: Position,
        head: Position,
        frames: &mut Vec<u8>,
    ) -> Option<(u32, Position)> {
        let entries = match self {
            Entries::Events(_) if after == head => return Some((0, after)),
            Entries::Events(own) => {
                return Some((1, own.put_batch(connection, after, head, frames)?));
            }
            Entries::Kept(tail) => tail.after(after)?,
        };
        let (mut count, mut last) = (0, after);
        for (position, entry) in entries.take_while(|(position, _)| *position <= head) {
            if count > 0 && frames.len() + entry.len() > ANSWER_LEN {
                break;
            }
            frames.extend_from_slice(entry);
            (count, last) = (count + 1, *position);
        }
        Some((count, last))
    }
}

impl Followers {
    /// Returns an empty set of followers.
    #[must_use]
    pub fn new(history: History) -> Followers {
        Followers { history, waiting: Vec::new(), snapshot: None, ended_at: None, snapshots: 0 }
    }

    /// Sets the history of positions from now on; a snapshot of the previous one is cancelled.
    pub fn begin_history(&mut self, history: History, store: &mut OrderStore) {
        self.history = history;
        if let Some(under_way) = self.snapshot.take() {
            self.ended_at = Some(under_way.given_at);
            store.cancel_snapshot();
        }
    }

    /// Cancels the snapshot under way if it is of this connection.
    fn end_snapshot_of(&mut self, connection: u64, store: &mut OrderStore, now: Nanos) {
        if self.snapshot.take_if(|under_way| under_way.connection == connection).is_some() {
            self.ended_at = Some(now);
            store.cancel_snapshot();
        }
    }

    /// Returns the number of replicas that wait or receive a snapshot.
    #[must_use]
    pub fn count(&self) -> usize {
        self.waiting.len() + usize::from(self.snapshot.is_some())
    }

    /// Takes a request; false when too many already wait.
    pub fn ask(&mut self, connection: u64, follow: FollowSource, now: Nanos) -> bool {
        // A replica has one request at a time.
        self.waiting.retain(|other| other.connection != connection);
        let has_room = self.waiting.len() < FOLLOWERS_MAX;
        if has_room {
            self.waiting.push(WaitingReplica { connection, follow, since: now });
        }
        has_room
    }

    /// Removes a closed connection.
    pub fn close(&mut self, connection: u64, store: &mut OrderStore, now: Nanos) {
        self.waiting.retain(|other| other.connection != connection);
        self.end_snapshot_of(connection, store, now);
    }

    /// Returns the time at which the first waiting request gets an empty answer, or a snapshot ends
    /// whose replica asks for no more.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        let snapshot = self.snapshot.as_ref().map(UnderWay::ends_at);
        self.waiting.iter().map(WaitingReplica::late_from).chain(snapshot).min()
    }

    /// Cancels a snapshot whose replica asks for no more of it, or takes it too slowly.
    fn end_abandoned(&mut self, store: &mut OrderStore, now: Nanos) {
        let Some(under_way) = self.snapshot.take_if(|under_way| now >= under_way.ends_at()) else {
            return;
        };
        store.cancel_snapshot();
        self.ended_at = Some(now);
        let (source, connection) = (store.source(), under_way.connection);
        let pieces = under_way.chunk_no;
        tracing::warn!(%source, connection, pieces, "a snapshot ends: its replica is too slow");
    }

    /// Returns the next available answer.
    pub fn answer(&mut self, mut from: FollowedState<'_>) -> Option<IngestAnswer> {
        let now = from.now;
        self.end_abandoned(from.store, now);
        for index in 0..self.waiting.len() {
            let replica = self.waiting[index];
            let is_late = now >= replica.late_from();
            let mut bytes = Vec::new();
            let is_answered = self.put_answer(&replica, &mut from, &mut bytes);
            if is_late && !is_answered {
                // The replica needs a snapshot that has to wait for another one.
                put_frame(&self.state(&replica.follow, &from), &mut bytes);
            }
            if is_answered || is_late {
                self.waiting.remove(index);
                let connection = replica.connection;
                return Some(IngestAnswer { connection, bytes, taken_len: 0, is_refusal: false });
            }
        }
        None
    }

    fn put_answer(
        &mut self,
        replica: &WaitingReplica,
        from: &mut FollowedState<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        let WaitingReplica { connection, follow, .. } = replica;
        let connection = *connection;
        let is_ours =
            (follow.history_high, follow.history_low) == (self.history.high, self.history.low);
        let position = Position(follow.position);
        let takes_snapshot = |under_way: &UnderWay| {
            (under_way.connection, under_way.position, under_way.chunk_no)
                == (connection, position, follow.chunk_no)
        };
        if follow.chunk_no > 0 && is_ours && self.snapshot.as_ref().is_some_and(takes_snapshot) {
            return self.put_chunk(follow, from, out);
        }
        if is_ours && follow.chunk_no == 0 && position <= from.committed {
            if position == from.committed && from.now < replica.late_from() {
                return false;
            }
            let mut frames = Vec::new();
            let put = from.entries.put_after(connection, position, from.committed, &mut frames);
            if let Some((entry_count, last)) = put {
                let state = self.state(follow, from);
                put_frame(&FollowState { position: last.0, entry_count, ..state }, out);
                out.append(&mut frames);
                return true;
            }
        }
        self.begin_snapshot(connection, follow, from, out)
    }

    fn state(&self, follow: &FollowSource, from: &FollowedState<'_>) -> FollowState {
        let head = from.store.complete_to();
        FollowState {
            history_high: self.history.high,
            history_low: self.history.low,
            position: follow.position,
            head_position: from.committed.0,
            head_seq: head.seq,
            head_rec: head.rec,
            sending_time: from.wall,
            session_id: follow.session_id,
            entry_count: 0,
            source_id: follow.source_id,
            is_snapshot: Switch::Off,
        }
    }

    /// Begins a snapshot for a replica; false while another one is under way.
    fn begin_snapshot(
        &mut self,
        connection: u64,
        follow: &FollowSource,
        from: &mut FollowedState<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        // The replica may begin its snapshot again.
        self.end_snapshot_of(connection, from.store, from.now);
        let is_own_turn = from.is_own_snapshot_due
            && self.ended_at.is_some_and(|ended| from.now.since(ended).0 < OWN_TURN);
        if is_own_turn {
            return false;
        }
        let is_committed = from.committed == from.taken;
        if from.store.is_snapshot_under_way() || !is_committed || from.stream.is_sweeping() {
            return false;
        }
        from.store.begin_snapshot();
        let mut state = Vec::new();
        from.stream.put_state(&mut state);
        let position = from.committed;
        let state = Some(state);
        let (begun_at, given_at) = (from.now, from.now);
        self.snapshot =
            Some(UnderWay { connection, position, chunk_no: 0, state, begun_at, given_at });
        self.snapshots += 1;
        self.put_chunk(follow, from, out)
    }

    /// Appends the next piece of the snapshot under way.
    fn put_chunk(
        &mut self,
        follow: &FollowSource,
        from: &mut FollowedState<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut state = self.state(follow, from);
        let Some(under_way) = &mut self.snapshot else { return false };
        (state.position, state.is_snapshot) = (under_way.position.0, Switch::On);
        let (bytes, is_last) = match under_way.state.take() {
            Some(state) => (state, false),
            None => {
                let mut bytes = Vec::with_capacity(CHUNK_LEN + 1_024);
                match from.store.snapshot_chunk(CHUNK_LEN, &mut bytes) {
                    Ok(step) => (bytes, step == ChunkOutcome::Done),
                    Err(_) => {
                        // Given up for lack of memory: it restarts when there is some.
                        (self.snapshot, self.ended_at) = (None, Some(from.now));
                        return false;
                    }
                }
            }
        };
        put_frame(&state, out);
        let chunk = SnapshotChunk {
            position: under_way.position.0,
            session_id: follow.session_id,
            chunk_no: under_way.chunk_no,
            source_id: follow.source_id,
            is_last: if is_last { Switch::On } else { Switch::Off },
        };
        put_snapshot_chunk(&chunk, &bytes, out);
        under_way.chunk_no += 1;
        under_way.given_at = from.now;
        if is_last {
            self.snapshot = None;
            self.ended_at = Some(from.now);
        }
        true
    }
}

/// Returns a history that ends with the process.
#[must_use]
pub fn passing_history(source: PartitionId, drawn: u64) -> History {
    History { high: drawn, low: u64::from(source.0) << 32 }
}

#[cfg(test)]
mod tests {
    use weir_delivery::StoreConfig;
    use weir_types::SessionId;

    use super::*;
    use crate::agent::tests::accepted;
    use crate::stores::WINDOW;

    /// The request of a replica that has nothing.
    fn first_of(source_id: PartitionId) -> FollowSource {
        FollowSource {
            history_high: 0,
            history_low: 0,
            position: 0,
            session_id: SessionId(2),
            chunk_no: 0,
            source_id,
        }
    }

    #[test]
    fn a_snapshot_of_an_ended_history_keeps_no_other_from_beginning() {
        let source = PartitionId(1);
        let mut store = OrderStore::new(StoreConfig::new(source, Epoch(1)));
        let stream = SourceStream::new(source, WINDOW);
        let tail = EntryTail::new(Position(0));
        let mut followers = Followers::new(History { high: 7, low: 1 });
        let follow = first_of(source);
        for snapshots in [1, 2] {
            let mut out = Vec::new();
            let mut from = FollowedState {
                store: &mut store,
                stream: &stream,
                entries: Entries::Kept(&tail),
                taken: Position(0),
                committed: Position(0),
                is_own_snapshot_due: false,
                now: Nanos(1),
                wall: Nanos(0),
            };
            assert!(followers.begin_snapshot(snapshots, &follow, &mut from, &mut out));
            assert_eq!(followers.snapshots, snapshots);
            followers.begin_history(History { high: 7, low: 1 + snapshots }, &mut store);
            assert!(!store.is_snapshot_under_way());
        }
        assert_eq!(followers.ended_at, Some(Nanos(1)), "the store's own has its turn");
    }

    /// A replica that only sends heartbeats behind its first piece: every other one gets empty
    /// answers meanwhile, and no snapshot of the store can be written.
    #[test]
    fn a_snapshot_whose_replica_asks_for_no_more_of_it_makes_place_for_the_next() {
        let source = PartitionId(1);
        let mut store = OrderStore::new(StoreConfig::new(source, Epoch(1)));
        let stream = SourceStream::new(source, WINDOW);
        let tail = EntryTail::new(Position(0));
        let mut followers = Followers::new(History { high: 7, low: 1 });
        let ask = first_of(source);
        let mut answered = |connection, follow: FollowSource, now: u64| {
            assert!(followers.ask(connection, follow, Nanos(now)));
            let from = FollowedState {
                store: &mut store,
                stream: &stream,
                entries: Entries::Kept(&tail),
                taken: Position(0),
                committed: Position(0),
                is_own_snapshot_due: false,
                now: Nanos(now),
                wall: Nanos(0),
            };
            let answer = followers.answer(from);
            (answer.is_some(), followers.snapshots, followers.next_deadline())
        };
        let begun = Nanos(1 + SNAPSHOT_WAIT);
        assert_eq!(answered(10, ask, 1), (true, 1, Some(begun)));
        let waits = |now: u64| Some(Nanos(now + IDLE_WAIT).min(begun));
        for now in [2, SNAPSHOT_WAIT] {
            assert_eq!(answered(11, ask, now), (false, 1, waits(now)));
        }
        assert_eq!(answered(11, ask, begun.0), (true, 2, Some(Nanos(begun.0 + SNAPSHOT_WAIT))));
        // The slow one asks on, and gets another one when it can.
        let late = FollowSource { history_high: 7, history_low: 1, chunk_no: 1, ..ask };
        assert!(!answered(10, late, begun.0 + 1).0);
    }

    /// A replica that asks for each piece shortly before its time is over.
    #[test]
    fn a_replica_that_takes_its_snapshot_slowly_loses_it_and_the_stores_own_comes_first() {
        let source = PartitionId(1);
        let mut store = OrderStore::new(StoreConfig::new(source, Epoch(1)));
        for number in 1..=5_000 {
            let _ = store.ingest(&accepted(number)).unwrap();
        }
        let stream = SourceStream::new(source, WINDOW);
        let tail = EntryTail::new(Position(0));
        let mut followers = Followers::new(History { high: 7, low: 1 });
        let first = first_of(source);
        let mut answered = |connection, chunk_no: u32, now: u64, is_own_snapshot_due| {
            let (history_high, history_low) = if chunk_no > 0 { (7, 1) } else { (0, 0) };
            let follow = FollowSource { history_high, history_low, chunk_no, ..first };
            assert!(followers.ask(connection, follow, Nanos(now)));
            let from = FollowedState {
                store: &mut store,
                stream: &stream,
                entries: Entries::Kept(&tail),
                taken: Position(0),
                committed: Position(0),
                is_own_snapshot_due,
                now: Nanos(now),
                wall: Nanos(0),
            };
            (followers.answer(from).is_some(), followers.snapshots)
        };
        assert_eq!(answered(10, 0, 1, false), (true, 1));
        // At the pace that is allowed it goes on beyond the time for one piece.
        let mut now = 1;
        for chunk_no in 1..4 {
            now += PIECE_TIME;
            assert_eq!(answered(10, chunk_no, now, true), (true, 1), "piece {chunk_no}");
        }
        now += SNAPSHOT_WAIT - PIECE_TIME;
        assert_eq!(answered(10, 4, now, true), (true, 1));
        // And then too late by all of it, though each piece was asked for in time.
        let ends = 1 + 5 * PIECE_TIME + SNAPSHOT_WAIT;
        assert_eq!(answered(10, 5, ends - 1, true), (true, 1));
        let ended = ends + PIECE_TIME;
        assert!(!answered(10, 6, ended, true).0);
        // The next replica waits for its turn, and not for ever.
        assert_eq!(answered(11, 0, ended + OWN_TURN - 1, true).1, 1);
        assert_eq!(answered(11, 0, ended + OWN_TURN, true), (true, 2));
    }

    /// The slow, obvious schedule: each transfer ends by its replica before it has to end, and the
    /// replica wants the next one at once, the same connection or another.
    #[test]
    fn a_replica_that_begins_its_snapshot_again_and_again_leaves_the_stores_own_its_turn() {
        const PAUSE: u64 = SNAPSHOT_WAIT - 1_000_000_000;
        for closes in [false, true] {
            let source = PartitionId(1);
            let mut store = OrderStore::new(StoreConfig::new(source, Epoch(1)));
            for number in 1..=5_000 {
                let _ = store.ingest(&accepted(number)).unwrap();
            }
            let stream = SourceStream::new(source, WINDOW);
            let tail = EntryTail::new(Position(0));
            let mut followers = Followers::new(History { high: 7, low: 1 });
            let (mut connection, mut own_turns) = (10, 0);
            for round in 0..100 {
                let now = Nanos(1 + round * PAUSE);
                if closes {
                    followers.close(connection, &mut store, now);
                    connection += 1;
                }
                assert!(followers.ask(connection, first_of(source), now));
                let _ = followers.answer(FollowedState {
                    store: &mut store,
                    stream: &stream,
                    entries: Entries::Kept(&tail),
                    taken: Position(0),
                    committed: Position(0),
                    is_own_snapshot_due: true,
                    now,
                    wall: Nanos(0),
                });
                // Here the store's thread begins its own, when none is under way.
                own_turns += u32::from(!store.is_snapshot_under_way());
            }
            // And the replica gets the other turns.
            assert_eq!((own_turns, followers.snapshots), (50, 50), "closes: {closes}");
        }
    }

    #[test]
    fn a_history_is_of_one_log_and_one_of_its_epochs() {
        let log = 7 << 64 | 9;
        let history = History::of_log(log, Epoch(1));
        assert_eq!(history, History::of_log(log, Epoch(1)));
        assert_ne!(history, History::of_log(log, Epoch(2)), "what an epoch lost is numbered anew");
        assert_ne!(history, History::of_log(log + 1, Epoch(1)));
        assert_ne!(history, History::of_log(log + (1 << 64), Epoch(1)));
    }
}
