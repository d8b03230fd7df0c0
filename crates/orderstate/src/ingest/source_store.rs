//! One source: its store with the readers' desk, its stream, and the persistence of both.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use weir_delivery::stream::{BatchOutcome, SourceStream};
use weir_delivery::{ChunkOutcome, Desk, SnapshotError};
use weir_io::{Disk, OsRng, Rng, ThreadDisk};
use weir_types::{AckLevel, BatchNo, ChangeId, Nanos, PartitionId, Position, Reason, SessionId};
use weir_wire::ClientMessage;
use weir_wire::frame::{Framing, next_frame, put_frame};
use weir_wire::ingest::{OpenSource, SOURCE_FRAME_LEN_MAX, SourceReject};
use weir_wire::replica::FollowSource;

use super::figures::SourceReport;
use super::followers::{Entries, FollowedState, Followers, History, passing_history};
use super::following::FollowedSource;
use super::handoff::{IngestAnswer, IngestPort, IngestRequest, OPENING_COST, StoreRequest};
use super::own::OwnEvents;
use super::quarantine::SourceFailure;
use super::waiting::WaitingRequests;
use crate::cold::ArchiveSender;
use crate::panic_text::text_of;
use crate::plant::{self, Plant};
use crate::stores::journal::Journal;
use crate::stores::snapshots::{Piece, SnapshotPort};
use crate::stores::tail::EntryTail;
use crate::stores::{StoreReport, WINDOW};

/// The number of records visited in one cycle at the end of a full resend.
const SWEEP_STEPS: u32 = 2_048;
/// The number of answers waiting for a commit at which ingest stops.
const HELD_MAX: usize = 1_024;
/// The number of replicas answered in one cycle: each gets some 40 to 300 KiB.
const FOLLOWERS_A_CYCLE: usize = 2;
/// The number of bytes of a snapshot encoded in one cycle: some tens of microseconds.
const CHUNK_LEN: usize = 64 * 1024;

/// A source's store with its readers, and its stream.
pub struct SourceStore<D: Disk = ThreadDisk> {
    /// The store and its readers.
    pub desk: Desk,
    pub(super) stream: SourceStream,
    pub(super) journal: Option<Journal<D>>,
    /// The newest entries, and the replicas that receive them.
    pub(super) tail: EntryTail,
    pub(super) followers: Followers,
    /// Requests that wait for room in the log, or for the end of a full resend.
    waiting: WaitingRequests,
    /// True if readers came since they were last turned away.
    pub(super) may_have_readers: bool,
    /// The state of following, if it is another node's source.
    pub(super) following: Option<FollowedSource>,
    /// The events that feed it, if it is the node's own partition.
    pub(super) own: Option<OwnEvents>,
    /// Answers that wait for the commit of the entries they report, oldest first.
    pub(super) held: VecDeque<(Position, IngestAnswer)>,
    /// A snapshot of the store under way.
    pub(super) snapshot: Option<OnItsWay>,
    /// The archive of the orders that the store discards, if any.
    pub(super) cold: Option<ArchiveSender>,
    /// The number of log bytes between snapshots.
    snapshot_every: u64,
    /// Its failure, until it is whole again.
    pub(super) failure: Option<SourceFailure>,
    /// True when a snapshot under way ended with a failure, of which its writer is to be told.
    pub(super) gives_up_snapshot: bool,
    /// The number of the batch that is due when feeding the archive breaks an invariant.
    #[cfg(test)]
    pub(super) feed_breaks_at: Option<BatchNo>,
}

/// A snapshot of a store under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnItsWay {
    position: Position,
    /// The command of its newest change, of the node's own orders.
    command: Position,
    /// The floor of the store in it.
    floor: ChangeId,
    /// True when all of it is handed to the writer.
    is_out: bool,
}

/// The progress of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SnapshotProgress {
    /// A chunk was handed to the writer.
    On,
    /// It waits for the writer, or for the log.
    Waits,
    /// It was given up: memory was short.
    GivenUp,
}

/// The parts of a source's store.
pub struct SourceStoreParts<D: Disk = ThreadDisk> {
    /// The store's desk.
    pub desk: Desk,
    /// The store's stream.
    pub stream: SourceStream,
    /// The log of its entries, if it survives a restart.
    pub journal: Option<Journal<D>>,
    /// The log's newest entries.
    pub tail: EntryTail,
    /// True when it is another node's source, which is followed.
    pub is_replica: bool,
    /// The events that feed it, if it is the node's own partition.
    pub own: Option<OwnEvents>,
    /// The number of log bytes between snapshots.
    pub snapshot_every: u64,
    /// The archive of the orders that the store discards, if any.
    pub cold: Option<ArchiveSender>,
    /// The reason that a start set the log of its entries aside, if it did.
    pub failure: Option<String>,
}

impl SourceStoreParts {
    /// Returns the parts of the node's own partition, with a snapshot every `snapshot_every` bytes
    /// of events.
    #[must_use]
    pub fn own(
        desk: Desk,
        stream: SourceStream,
        events: OwnEvents,
        snapshot_every: u64,
    ) -> SourceStoreParts {
        SourceStoreParts {
            desk,
            stream,
            journal: None,
            tail: EntryTail::new(Position::NONE),
            is_replica: false,
            own: Some(events),
            snapshot_every,
            cold: None,
            failure: None,
        }
    }

    /// Returns the parts of another node's source, still empty.
    #[must_use]
    pub fn replica(source: PartitionId, desk: Desk) -> SourceStoreParts {
        SourceStoreParts {
            desk,
            stream: SourceStream::new(source, WINDOW),
            journal: None,
            tail: EntryTail::new(Position::NONE),
            is_replica: true,
            own: None,
            snapshot_every: u64::MAX,
            cold: None,
            failure: None,
        }
    }
}

impl<D: Disk> SourceStore<D> {
    pub(super) fn new(mut parts: SourceStoreParts<D>) -> SourceStore<D> {
        if let Some(cold) = &parts.cold {
            parts.desk.keep_older(cold.out_max());
        }
        if let Some(own) = &parts.own {
            parts.desk.store_mut().set_log(own.source_log());
        }
        let history = match (&parts.own, &parts.journal) {
            (Some(own), _) => own.history(),
            (None, Some(journal)) => {
                let (log_id, epoch) = journal.identity();
                History::of_log(log_id, epoch)
            }
            (None, None) => passing_history(parts.stream.source(), OsRng.next_u64()),
        };
        SourceStore {
            may_have_readers: false,
            desk: parts.desk,
            stream: parts.stream,
            journal: parts.journal,
            tail: parts.tail,
            followers: Followers::new(history),
            waiting: WaitingRequests::default(),
            following: parts.is_replica.then(FollowedSource::default),
            own: parts.own,
            held: VecDeque::new(),
            snapshot: None,
            cold: parts.cold,
            snapshot_every: parts.snapshot_every,
            failure: parts.failure.map(|why| SourceFailure { why, is_of_log: false }),
            gives_up_snapshot: false,
            #[cfg(test)]
            feed_breaks_at: None,
        }
    }

    /// Returns true when a request must wait: the log has no room, too much waits for a commit, or
    /// the end of a full resend is under way. A start or a replica completes that before the next
    /// entry, so an opening may not end it early here.
    fn must_wait(&self, what: &StoreRequest) -> bool {
        let has_room = self.journal.as_ref().is_none_or(Journal::has_room);
        // A reset may come in the middle: it drops the store.
        let is_entry = matches!(what, StoreRequest::Batch(_) | StoreRequest::Open(_));
        !has_room || self.held.len() >= HELD_MAX || is_entry && self.stream.is_sweeping()
    }

    /// Returns the position of the newest ingested entry.
    fn taken(&self) -> Position {
        match &self.own {
            Some(_) => Position(self.stream.next_batch_no().0 - 1),
            None => self.tail.last(),
        }
    }

    /// Returns the position up to which all entries have the source's durability level.
    fn committed(&self) -> Position {
        self.journal.as_ref().map_or_else(|| self.taken(), Journal::committed)
    }

    /// Queues an answer until all entries ingested so far are committed: an opening, a gap and the
    /// acknowledgement of a duplicate report them too.
    pub(super) fn say(&mut self, answer: IngestAnswer) {
        self.held.push_back((self.taken(), answer));
    }

    /// Turns readers away while the source is not whole.
    pub(super) fn turn_readers_away(&mut self) {
        let is_kept = plant::is(Plant::ServedDuringResends) || plant::is(Plant::ReadersKept);
        if self.may_have_readers && !self.stream.is_whole() && !is_kept {
            self.may_have_readers = false;
            self.desk.turn_away(Reason::PartitionAway);
        }
    }

    /// Does the work without a request: the end of a full resend, a repeated gap report.
    pub(super) fn tend(&mut self, now: Nanos) -> usize {
        let done = self.guard(|source| source.tend_now(now)).unwrap_or(1);
        let is_over = self.failure.as_ref().is_some_and(|failure| !failure.is_of_log);
        if is_over && self.stream.is_whole() {
            let source = self.source();
            tracing::info!(%source, "a source that had failed is whole again");
            self.failure = None;
        }
        done
    }

    fn tend_now(&mut self, now: Nanos) -> usize {
        let was_sweeping = self.stream.is_sweeping();
        let ends_resend = was_sweeping && !self.stream.is_voiding();
        let ack = self.stream.sweep(SWEEP_STEPS, self.desk.store_mut());
        if ends_resend && !self.stream.is_sweeping() {
            self.end_cold_resend();
        }
        let gap = self.stream.remind(now);
        let mut bytes = Vec::new();
        ack.iter().for_each(|ack| put_frame(ack, &mut bytes));
        gap.iter().for_each(|gap| put_frame(gap, &mut bytes));
        if let (Some(connection), false) = (self.stream.writer(), bytes.is_empty()) {
            self.say(IngestAnswer { connection, bytes, taken_len: 0, is_refusal: false });
        }
        usize::from(was_sweeping)
    }

    /// Takes a request, now or as soon as the source can.
    pub(super) fn take(&mut self, request: IngestRequest, now: Nanos) {
        // A reset ends what the others may wait for.
        let is_next = self.waiting.is_empty() || matches!(request.what, StoreRequest::Reset(_));
        if !is_next || self.must_wait(&request.what) {
            self.waiting.push(request);
        } else {
            self.carry_out(request, now);
        }
    }

    /// Returns true while a request waits for the source.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes at most `count_max` of the requests that waited; returns their number.
    pub(super) fn take_waiting(&mut self, count_max: usize, now: Nanos) -> usize {
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut count = 0;
        while count < count_max
            && let Some(request) = waiting.pop_if(|what| !self.must_wait(what))
        {
            self.carry_out(request, now);
            count += 1;
        }
        self.waiting = waiting;
        count
    }

    /// Carries a request out. One that breaks an invariant is refused, and fails the source.
    fn carry_out(&mut self, request: IngestRequest, now: Nanos) {
        let connection = request.connection;
        let (session_id, taken_len) = match &request.what {
            StoreRequest::Open(open) => (open.session_id, OPENING_COST),
            StoreRequest::Batch(frame) => (self.stream.writer_session(), frame.len()),
            StoreRequest::Follow(_) | StoreRequest::Reset(_) | StoreRequest::Gone => {
                (SessionId::NONE, 0)
            }
        };
        let is_of_log = self.failure.as_ref().is_some_and(|failure| failure.is_of_log);
        if is_of_log && taken_len > 0 {
            return self.refuse(connection, session_id, taken_len);
        }
        let is_batch = matches!(request.what, StoreRequest::Batch(_));
        match self.guard(|source| source.carry_out_now(request, now)) {
            // Sent now, since the next batch may end as many orders as the store retains. The batch
            // is answered, so that a failure here frees nothing of the window again.
            Ok(()) if is_batch => {
                let _ = self.guard(|source| source.feed_cold(now));
            }
            Err(broken) if taken_len > 0 => {
                self.refuse_broken(broken, (connection, session_id), taken_len);
            }
            Ok(()) | Err(_) => {}
        }
    }

    fn carry_out_now(&mut self, request: IngestRequest, now: Nanos) {
        let connection = request.connection;
        match request.what {
            StoreRequest::Gone => self.forget(connection, now),
            StoreRequest::Follow(follow) => self.follow(connection, follow, now),
            StoreRequest::Open(open) => self.open(connection, &open, now),
            StoreRequest::Reset(reset) => self.reset(connection, &reset, now),
            StoreRequest::Batch(frame) => self.batch(connection, frame, now),
        }
    }

    fn open(&mut self, connection: u64, open: &OpenSource, now: Nanos) {
        let mut bytes = Vec::new();
        let (before, kept) = (self.stream.epoch(), self.stream.entry_of(open));
        let opened = self.stream.open(open, connection, self.desk.store_mut());
        let is_refusal = opened.is_err();
        if self.stream.epoch() != before {
            self.begin_cold_epoch();
            let mut entry = Vec::new();
            put_frame(&kept, &mut entry);
            self.keep(entry, now);
        }
        match opened {
            Ok(opened) => put_frame(&opened, &mut bytes),
            Err(reject) => put_frame(&reject, &mut bytes),
        }
        self.say(IngestAnswer { connection, bytes, taken_len: OPENING_COST, is_refusal });
    }

    pub(super) fn keep(&mut self, entry: Vec<u8>, now: Nanos) {
        if let Some(journal) = &mut self.journal {
            journal.keep(entry.clone(), now);
        }
        self.tail.push(entry);
    }

    /// Takes a replica's request for the next entries.
    fn follow(&mut self, connection: u64, follow: FollowSource, now: Nanos) {
        if self.followers.ask(connection, follow, now) {
            return;
        }
        let head = self.desk.store().head();
        let reject = SourceReject {
            batch_no: BatchNo::NONE,
            next_batch_no: self.stream.next_batch_no(),
            head_seq: head.seq,
            head_rec: head.rec,
            session_id: follow.session_id,
            epoch: self.stream.epoch(),
            row_no: 0,
            source_id: follow.source_id,
            reason: Reason::LimitReached,
        };
        let mut bytes = Vec::new();
        put_frame(&reject, &mut bytes);
        self.say(IngestAnswer { connection, bytes, taken_len: 0, is_refusal: true });
    }

    /// Removes a closed connection.
    pub(super) fn forget(&mut self, connection: u64, now: Nanos) {
        self.waiting.forget(connection);
        self.stream.close(connection);
        self.followers.close(connection, self.desk.store_mut(), now);
        if let Some(own) = &mut self.own {
            own.forget(connection);
        }
    }

    /// Returns the next time at which it must be served without a request.
    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        self.stream.next_deadline().into_iter().chain(self.followers.next_deadline()).min()
    }

    /// Answers replicas that can be answered; returns the number of answers.
    fn give(&mut self, now: Nanos, port: &mut IngestPort) -> usize {
        let (taken, committed) = (self.taken(), self.committed());
        let wall = self.desk.wall_at(now);
        let is_own_snapshot_due = self.is_snapshot_due();
        let mut given = 0;
        while given < FOLLOWERS_A_CYCLE && port.answers.slots() > 0 {
            let (store, stream) = (self.desk.store_mut(), &self.stream);
            let entries = match &mut self.own {
                Some(own) => Entries::Events(own),
                None => Entries::Kept(&self.tail),
            };
            let from = FollowedState {
                store,
                stream,
                entries,
                taken,
                committed,
                is_own_snapshot_due,
                now,
                wall,
            };
            let Some(answer) = self.followers.answer(from) else { break };
            assert!(port.answers.push(answer).is_ok(), "room was found before");
            given += 1;
        }
        given
    }

    /// Ingests a batch, given as its whole frame.
    fn batch(&mut self, connection: u64, frame: Vec<u8>, now: Nanos) {
        let Framing::Frame { message: Ok(raw), .. } = next_frame(&frame, SOURCE_FRAME_LEN_MAX)
        else {
            unreachable!("the ingest agent hands whole frames on");
        };
        let Ok(ClientMessage::SourceBatch(batch, rows)) = ClientMessage::decode(&raw) else {
            unreachable!("the ingest agent hands batches on that decode");
        };
        let before = self.stream.next_batch_no();
        let taken = self.stream.offer(&batch, rows, connection, self.desk.store_mut(), now);
        let taken_len = frame.len();
        let mut bytes = Vec::new();
        match &taken {
            BatchOutcome::Stands(ack) => put_frame(ack, &mut bytes),
            BatchOutcome::Gap(gap) => put_frame(gap, &mut bytes),
            BatchOutcome::Rejected(reject) => put_frame(reject, &mut bytes),
            BatchOutcome::Sweeps | BatchOutcome::Early => {}
        }
        if self.stream.next_batch_no() != before {
            self.keep(frame, now);
        }
        let is_refusal = matches!(taken, BatchOutcome::Rejected(_));
        self.say(IngestAnswer { connection, bytes, taken_len, is_refusal });
    }

    /// Advances the log, and releases the committed answers; returns the amount of work done.
    pub(super) fn settle(&mut self, now: Nanos, port: &mut IngestPort) -> usize {
        let mut done = 0;
        if let Some(journal) = &mut self.journal {
            match catch_unwind(AssertUnwindSafe(|| journal.do_work(now))) {
                Ok(Ok(worked)) => done += worked,
                Ok(Err(error)) => self.fail_log(error.to_string()),
                Err(panic) => self.fail_log(text_of(panic.as_ref())),
            }
        }
        let committed = self.committed();
        while self.held.front().is_some_and(|(at, _)| *at <= committed)
            && port.answers.slots() > 0
            && let Some((_, mut answer)) = self.held.pop_front()
        {
            // One hand-off for all answers that a commit releases.
            let connection = answer.connection;
            let joins = |(at, next): &(Position, IngestAnswer)| {
                *at <= committed && next.connection == connection
            };
            while !answer.is_refusal
                && self.held.front().is_some_and(joins)
                && let Some((_, next)) = self.held.pop_front()
            {
                answer.bytes.extend_from_slice(&next.bytes);
                answer.taken_len += next.taken_len;
                answer.is_refusal = next.is_refusal;
            }
            assert!(port.answers.push(answer).is_ok(), "room was found before");
            done += 1;
        }
        done + self.guard(|source| source.give(now, port)).unwrap_or(1)
    }

    /// Returns true when enough is new in the log for a snapshot.
    fn is_snapshot_due(&self) -> bool {
        match (&self.own, &self.journal) {
            (Some(own), _) => own.bytes_since >= self.snapshot_every,
            (None, Some(journal)) => {
                journal.bytes_since() >= self.snapshot_every && journal.has_room()
            }
            (None, None) => false,
        }
    }

    /// Begins a snapshot when enough is new in the log; returns true when one is under way.
    pub(super) fn begin_snapshot(&mut self, port: &mut SnapshotPort) -> bool {
        if !self.is_snapshot_due()
            || port.pieces.slots() < 2
            || self.desk.store().is_snapshot_under_way()
        {
            return false;
        }
        let mut state = Vec::new();
        let position = match (&mut self.own, &mut self.journal) {
            (Some(own), _) => {
                own.bytes_since = 0;
                own.put_state(&mut state);
                self.taken()
            }
            (None, Some(journal)) => journal.begin_snapshot(),
            (None, None) => unreachable!("none is due"),
        };
        self.stream.put_state(&mut state);
        self.desk.store_mut().begin_snapshot();
        let begun = [Piece::Begin(self.stream.source(), position), Piece::Bytes(state)];
        let pushed = begun.into_iter().all(|piece| port.pieces.push(piece).is_ok());
        assert!(pushed, "room was found before");
        let floor = self.desk.store().floor();
        let command = self.own.as_ref().map_or(Position::NONE, |own| own.command);
        self.snapshot = Some(OnItsWay { position, command, floor, is_out: false });
        true
    }

    /// Advances the snapshot under way by one chunk.
    pub(super) fn go_on_with_snapshot(&mut self, port: &mut SnapshotPort) -> SnapshotProgress {
        if port.pieces.is_full() {
            return SnapshotProgress::Waits;
        }
        if std::mem::take(&mut self.gives_up_snapshot) {
            assert!(port.pieces.push(Piece::GiveUp).is_ok(), "room was found before");
            port.wake.wake();
            return SnapshotProgress::GivenUp;
        }
        let Some(OnItsWay { position, command, floor, is_out }) = self.snapshot else {
            return SnapshotProgress::Waits;
        };
        let committed = self.committed();
        let (piece, goes) = if is_out {
            // A start from this snapshot would otherwise find a hole in the archive. Our own events
            // from before may be past the retention, too.
            let is_kept = self.cold.as_mut().is_none_or(|cold| cold.has_kept(floor));
            // One ahead of the synced log is of no use after a power loss, and takes the place of
            // one that is.
            let is_synced = self.own.as_ref().is_none_or(|own| own.is_synced(command));
            if committed < position || !is_kept || !is_synced {
                return SnapshotProgress::Waits;
            }
            self.snapshot = None;
            (Piece::End, SnapshotProgress::Waits)
        } else {
            let mut chunk = Vec::with_capacity(CHUNK_LEN + 4_096);
            match self.desk.store_mut().snapshot_chunk(CHUNK_LEN, &mut chunk) {
                Ok(step) => {
                    let is_out = step == ChunkOutcome::Done;
                    self.snapshot = Some(OnItsWay { position, command, floor, is_out });
                    (Piece::Bytes(chunk), SnapshotProgress::On)
                }
                Err(SnapshotError::GivenUp | SnapshotError::NotBegun) => {
                    self.snapshot = None;
                    (Piece::GiveUp, SnapshotProgress::GivenUp)
                }
            }
        };
        assert!(port.pieces.push(piece).is_ok(), "room was found before");
        port.wake.wake();
        goes
    }

    /// Drops log entries before the oldest retained snapshot, once a new one is on the medium. The
    /// own partition's events are dropped by its shadow, which is told.
    pub(super) fn cut_log(&mut self, oldest_kept: Position) {
        if let Some(own) = &mut self.own {
            own.snapshot_written(oldest_kept);
        }
        if let Some(journal) = &mut self.journal {
            journal.cut_before(oldest_kept);
        }
    }

    /// Syncs all ingested entries and closes the log.
    pub(super) fn close(&mut self) {
        if let Some(journal) = &mut self.journal
            && let Err(error) = journal.close()
        {
            let source = self.stream.source();
            tracing::warn!(%source, %error, "the log of a source ends as after a crash");
        }
    }

    /// Returns the source.
    #[must_use]
    pub fn source(&self) -> PartitionId {
        self.stream.source()
    }

    /// Returns the source's figures.
    pub(super) fn figures(&self) -> SourceReport {
        let journal = self.journal.as_ref();
        let counters = self.stream.counters();
        SourceReport {
            source: self.source().0,
            epoch: self.stream.epoch().0,
            next_batch_no: self.stream.next_batch_no().0,
            is_open: self.stream.is_open(),
            is_whole: self.stream.is_whole(),
            is_quarantined: self.failure.is_some() && !plant::is(Plant::FailureNotTold),
            failure: self.failure.as_ref().map(|failure| failure.why.clone()),
            level: match self.stream.level() {
                AckLevel::Memory => "memory",
                AckLevel::Os => "os",
                AckLevel::Disk => "disk",
            },
            followers: self.followers.count() as u64,
            log_first: journal.map_or(0, |journal| journal.first().0),
            log_last: journal.map_or(0, |journal| journal.taken().0),
            log_committed: journal.map_or(0, |journal| journal.committed().0),
            is_log_full: journal.is_some_and(Journal::is_full),
            store: StoreReport::of(self.desk.store()),
            opened: counters.opened,
            batches: counters.batches,
            rows: counters.rows,
            duplicates: counters.duplicates,
            gaps: counters.gaps,
            early_batches: counters.early,
            rejects: counters.rejects,
            resends: counters.resends,
            swept: counters.swept,
        }
    }
}
