//! The feed of a source: the numbered batches of its stream, each taken in once and in order.
//!
//! An outside core opens its source in an epoch, sends batches numbered from 1 and receives
//! acknowledgements. Our own engine's events use the same numbering, by their numbers in the event
//! log. The module is pure: connections, transport and timing are the caller's.
//!
//! ```text
//! the store knows | epoch asked | full resend | last valid place | the answer
//! ----------------+-------------+-------------+------------------+------------------------------
//! nothing         | any         | yes         | -                | opened at batch 1
//! nothing         | any         | no          | -                | ResendNeeded
//! -               | 2^32 - 1    | -           | -                | EpochOutOfRange
//! an epoch        | lower       | -           | -                | EpochWentBack
//! an epoch        | the same    | no          | -                | opened at the next batch
//! an epoch        | the same    | yes         | -                | at batch 1 while none was
//!                 |             |             |                  | taken, else ResendNeedsEpoch
//! an epoch        | higher      | yes         | of that epoch    | opened at batch 1
//! an epoch        | higher      | yes         | of another       | opened at batch 1; no earlier
//!                 |             |             |                  | token is honoured
//! an epoch        | higher      | no          | of that epoch,   | opened at batch 1
//!                 |             |             | at or after head |
//! an epoch        | higher      | no          | else, or while a | ResendNeeded
//!                 |             |             | resend ran       |
//! a failed epoch  | the same    | no          | -                | ResendNeeded
//! a failed epoch  | the same    | yes         | -                | ResendNeedsEpoch
//! a failed epoch  | higher      | yes         | -                | opened at batch 1; no earlier
//!                 |             |             |                  | token is honoured
//! ```
//! A failure while the node runs is no entry of the log. The opening that follows it is kept
//! without its valid place, so that a start that replays the log honours the same tokens.
//!
//! The last valid place is given for an epoch, because a store that missed later epochs cannot know
//! the changes that they voided.
//!
//! One epoch has one full resend: if a store had lost the first one, a second one would not bring
//! the tombstones that tokens of that epoch still need. So a core requests it until it has the
//! answer that its source is open, and never again in that epoch.
//!
//! A missing batch is requested again and all later ones are dropped until it comes (go back N).
//! The transport keeps order, so gaps are rare, and keeping early batches would need memory that
//! the window bounds less simply.
//!
//! A batch that was taken may come again, and is acknowledged again. If its flags or rows are
//! others now, it is refused: the core would believe that the store has them.
//!
//! INVARIANT: the store holds, of an epoch, the rows of its batches up to `next - 1`, and no row of
//! a batch that was refused: all that can be wrong with a batch, and the room for all of its rows,
//! is looked at before any is taken.

use weir_types::{
    AckLevel, BatchNo, ChangeId, Epoch, Nanos, PartitionId, Reason, Rec, Seq, SessionId, Switch,
};
use weir_wire::Message;
use weir_wire::delivery::{OrderRow, RowFlags};
use weir_wire::event::OrderEvent;
use weir_wire::ingest::{
    BATCH_ROW_COUNT_MAX, BatchFlags, OpenSource, SourceAck, SourceBatch, SourceGap, SourceOpened,
    SourceReject,
};
use weir_wire::rows::{ATTRIBUTES_LEN_MAX, Rows};

use crate::ahead::{GROUP_LEN, RawRow};
use crate::bounds::{EPOCH_MAX, RowNumber, check_numbers, check_place};
use crate::ingest::{IngestError, IngestOutcome};
use crate::new_orders::NewOrders;
use crate::plant::{self, Plant};
use crate::repeats::{Repeats, hash_of};
use crate::resend::Void;
use crate::store::{OrderStore, StoreConfig};

/// The interval at which a gap is reported again while the missing batch has not come.
pub const GAP_INTERVAL: Nanos = Nanos(200_000_000);

/// The writer of a stream that is replayed.
pub(crate) const REPLAY: u64 = u64::MAX;

/// The limits on data without acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Batches, at least one.
    pub batches: u32,
    /// Bytes of frames.
    pub bytes: u32,
}

/// Counters of a stream since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounters {
    /// Openings.
    pub opened: u64,
    /// Batches taken in.
    pub batches: u64,
    /// Rows taken in.
    pub rows: u64,
    /// Batches that had been taken in before, and were not taken in again.
    pub duplicates: u64,
    /// Gaps reported.
    pub gaps: u64,
    /// Batches dropped because one before them was missing.
    pub early: u64,
    /// Batches and openings refused.
    pub rejects: u64,
    /// Full resends completed.
    pub resends: u64,
    /// Records that a full resend left out, and that were deleted.
    pub swept: u64,
}

/// The outcome of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum BatchOutcome {
    /// It is taken in, or was before: the acknowledgement has the stream's position.
    Stands(SourceAck),
    /// It is taken in and ends a full resend: [`SourceStream::sweep`] must first delete the records
    /// left out, and then returns the acknowledgement.
    Sweeps,
    /// An earlier batch is missing.
    Gap(SourceGap),
    /// An earlier batch is missing, and the gap has been reported already.
    Early,
    /// It is refused, and the source is closed unless another writer has it open.
    Rejected(SourceReject),
}

/// The progress of a full resend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resend {
    /// None is under way.
    None,
    /// The store failed, and is empty: one is needed, in a later epoch.
    Needed,
    /// Changes are void, and the store voids them before it is due.
    Voiding(Void),
    /// The next batch begins it.
    Due,
    /// It runs: records at or before this place that do not come again are deleted at its end.
    Running(ChangeId),
    /// All rows came; records from `cursor` on are still to be checked.
    Sweeping { before: ChangeId, seq: Seq, cursor: Rec },
}

/// A gap that was reported.
#[derive(Clone, Copy, Debug)]
struct ReportedGap {
    gap: SourceGap,
    at: Nanos,
}

/// The stream of one source into one store.
#[derive(Debug)]
pub struct SourceStream {
    pub(crate) source: PartitionId,
    window: Window,
    /// The durability that an acknowledgement promises.
    level: AckLevel,
    /// The writer, by the caller's own number, and its session.
    pub(crate) writer: Option<(u64, SessionId)>,
    /// The source's epoch; none before it was first opened.
    pub(crate) epoch: Epoch,
    pub(crate) next: BatchNo,
    /// The last batches of the epoch that were taken here.
    repeats: Repeats,
    pub(crate) resend: Resend,
    /// Rows must be above this place, whatever the store holds.
    pub(crate) above: ChangeId,
    reported: Option<ReportedGap>,
    /// True when the numbers are those of a log's records: some records are not about orders, so a
    /// batch may skip numbers.
    pub(crate) is_log: bool,
    pub(crate) counters: StreamCounters,
}

impl SourceStream {
    /// Returns the stream of a source of which the store has nothing.
    #[must_use]
    pub fn new(source: PartitionId, window: Window) -> SourceStream {
        SourceStream {
            source,
            window,
            level: AckLevel::Memory,
            writer: None,
            epoch: Epoch::NONE,
            next: BatchNo(1),
            repeats: Repeats::default(),
            resend: Resend::None,
            above: ChangeId::START,
            reported: None,
            is_log: false,
            counters: StreamCounters::default(),
        }
    }

    /// Sets the durability level; the caller acknowledges a batch only once it has that level.
    #[must_use]
    pub fn at_level(self, level: AckLevel) -> SourceStream {
        SourceStream { level, ..self }
    }

    /// Returns the stream of a log's events, whose next number is `next`.
    #[must_use]
    pub fn of_log(source: PartitionId, epoch: Epoch, next: BatchNo) -> SourceStream {
        let window = Window { batches: u32::MAX, bytes: u32::MAX };
        SourceStream { epoch, next, is_log: true, ..SourceStream::new(source, window) }
    }

    /// Returns the source of the orders.
    #[must_use]
    pub fn source(&self) -> PartitionId {
        self.source
    }

    /// Returns the source's epoch; none before it was first opened.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the number of the batch that is due.
    #[must_use]
    pub fn next_batch_no(&self) -> BatchNo {
        self.next
    }

    /// True for the stream of a log's records.
    #[must_use]
    pub fn is_log(&self) -> bool {
        self.is_log
    }

    /// Returns the durability that an acknowledgement promises.
    #[must_use]
    pub fn level(&self) -> AckLevel {
        self.level
    }

    /// Returns the writer, by the number given at its opening.
    #[must_use]
    pub fn writer(&self) -> Option<u64> {
        self.writer.map(|(writer, _)| writer)
    }

    /// Returns the writer's session; none while the source is closed.
    #[must_use]
    pub fn writer_session(&self) -> SessionId {
        self.writer.map_or(SessionId::NONE, |(_, session_id)| session_id)
    }

    /// True when a writer has the source open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.writer.is_some()
    }

    /// True when the store holds all of the source's orders: false until the first full resend
    /// ends, and until then readers would take missing orders for deleted ones.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.epoch.is_none() && self.resend == Resend::None
    }

    /// True when [`SourceStream::sweep`] must be called before the next batch is offered.
    #[must_use]
    pub fn is_sweeping(&self) -> bool {
        matches!(self.resend, Resend::Sweeping { .. }) || self.is_voiding()
    }

    /// True when the store may still have ends of orders that are void: no reader gets a page.
    #[must_use]
    pub fn is_voiding(&self) -> bool {
        matches!(self.resend, Resend::Voiding(_))
    }

    fn is_due(&self) -> bool {
        matches!(self.resend, Resend::Voiding(_) | Resend::Due)
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> StreamCounters {
        self.counters
    }

    /// Opens the source for `writer`, the caller's own number of the client.
    ///
    /// # Errors
    /// The reject with the reason, by the table above; nothing has changed then.
    pub fn open(
        &mut self,
        open: &OpenSource,
        writer: u64,
        store: &mut OrderStore,
    ) -> Result<SourceOpened, SourceReject> {
        if let Err(reason) = self.check_open(open, writer, store) {
            self.counters.rejects += 1;
            return Err(self.reject(open.session_id, store, reason));
        }
        if open.epoch > self.epoch {
            let valid_to = match open.full_resend {
                Switch::On => self.valid_to(open),
                // After the head there are but tombstones of the last full resend, and some stores
                // have none of them: they stand.
                Switch::Off => self.valid_to(open).max(self.above),
            };
            store.begin_epoch_after(open.epoch, valid_to);
            self.epoch = open.epoch;
            self.next = BatchNo(1);
            self.repeats = Repeats::default();
            self.resend = match open.full_resend {
                Switch::On => self.due_after(valid_to, store),
                Switch::Off => Resend::None,
            };
        }
        self.writer = Some((writer, open.session_id));
        self.reported = None;
        self.counters.opened += 1;
        let head = self.head(store);
        Ok(SourceOpened {
            next_batch_no: self.next,
            head_seq: head.seq,
            head_rec: head.rec,
            session_id: open.session_id,
            epoch: self.epoch,
            window_batches: self.window.batches,
            window_bytes: self.window.bytes,
            source_id: self.source,
            level: self.level,
        })
    }

    fn check_open(&self, open: &OpenSource, writer: u64, store: &OrderStore) -> Result<(), Reason> {
        let is_full = open.full_resend == Switch::On;
        if open.epoch.is_none() {
            return Err(Reason::EpochWentBack);
        }
        if open.epoch.0 > EPOCH_MAX && !plant::is(Plant::EpochUnbounded) {
            return Err(Reason::EpochOutOfRange);
        }
        if self.writer.is_some_and(|(other, _)| other != writer) {
            return Err(Reason::SourceAlreadyOpen);
        }
        if self.epoch.is_none() {
            return if is_full { Ok(()) } else { Err(Reason::ResendNeeded) };
        }
        if open.epoch < self.epoch {
            return Err(Reason::EpochWentBack);
        }
        if open.epoch == self.epoch {
            if !is_full && self.resend == Resend::Needed {
                return Err(Reason::ResendNeeded);
            }
            let fits = !is_full || self.is_due();
            return if fits { Ok(()) } else { Err(Reason::ResendNeedsEpoch) };
        }
        let is_known = open.valid_epoch == self.epoch;
        let valid_to = match writer {
            // The head may be the tombstone of a record that the original had discarded.
            REPLAY => self.valid_to(open).max(self.above),
            _ => self.valid_to(open),
        };
        let is_behind = !is_known || valid_to < store.head();
        let is_torn = self.resend != Resend::None;
        if !is_full && (is_behind || is_torn) {
            return Err(Reason::ResendNeeded);
        }
        Ok(())
    }

    /// Returns the state before a full resend that replaces the changes after `valid_to`.
    fn due_after(&self, valid_to: ChangeId, store: &OrderStore) -> Resend {
        let void = match self.resend {
            Resend::Voiding(void) => void.and(Void::after(valid_to)),
            _ => Void::after(valid_to),
        };
        if void.cursor < store.head() { Resend::Voiding(void) } else { Resend::Due }
    }

    /// Returns the last valid place of the store's epoch; the start if the opening gives it for
    /// another epoch.
    fn valid_to(&self, open: &OpenSource) -> ChangeId {
        let has_failed = self.has_failed() && !plant::is(Plant::TokensHonoured);
        match open.valid_epoch == self.epoch && !has_failed {
            true => ChangeId::new(open.valid_seq, open.valid_rec),
            false => ChangeId::START,
        }
    }

    /// Returns an opening as the entry of it, before it is carried out. After a failure of the
    /// store it has no valid place: a start has the rows from before the failure, and would honour
    /// the tokens that the store does not.
    #[must_use]
    pub fn entry_of(&self, open: &OpenSource) -> OpenSource {
        match self.has_failed() && !plant::is(Plant::FailureNotKept) {
            true => OpenSource { valid_epoch: Epoch::NONE, ..*open },
            false => *open,
        }
    }

    /// Goes on after a failure of the store, which the caller replaces by the one that is returned:
    /// empty, in the same epoch. A full resend in a later epoch is asked for, and no earlier token
    /// is honoured in it. Its rows must be above those that were taken.
    #[must_use]
    pub fn fail(&mut self, store: &OrderStore) -> OrderStore {
        let mut empty = self.begin_empty(store);
        // A start that replays what came before knows these numbers, too.
        if !plant::is(Plant::HighestForgotten) {
            empty.records.reach(store.records.highest());
        }
        if !plant::is(Plant::PlacesForgotten) {
            self.above = self.head(store);
        }
        if let Resend::Sweeping { seq, .. } = self.resend {
            // A start ends the sweep that this store did not.
            self.above = self.above.max(ChangeId::new(seq, Rec(u64::MAX)));
        }
        // Without an epoch a full resend is needed anyway.
        self.resend = if self.epoch.is_none() { Resend::None } else { Resend::Needed };
        self.join(&mut empty);
        empty
    }

    /// Forgets the orders, places and record numbers of the source, by an operator's order. The
    /// caller replaces the store by the one that is returned: empty, in the same epoch. A full
    /// resend in a later epoch is asked for, in which no earlier token is honoured, and whose rows
    /// may begin anywhere.
    ///
    /// # Errors
    /// [`Reason::EpochOutOfRange`] when no epoch can follow; nothing has changed then.
    pub fn reset(&mut self, store: &OrderStore) -> Result<OrderStore, Reason> {
        if self.epoch.0 >= EPOCH_MAX {
            return Err(Reason::EpochOutOfRange);
        }
        let empty = self.begin_empty(store);
        self.above = ChangeId::START;
        self.resend = if self.epoch.is_none() { Resend::None } else { Resend::Needed };
        Ok(empty)
    }

    /// Closes the source; returns an empty store in the same epoch.
    fn begin_empty(&mut self, store: &OrderStore) -> OrderStore {
        self.writer = None;
        self.reported = None;
        self.repeats = Repeats::default();
        let mut empty = OrderStore::new(StoreConfig { epoch: self.epoch, ..*store.config() });
        empty.set_log(store.log());
        empty
    }

    /// True after a failure of the store, until a full resend begins.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.resend == Resend::Needed
    }

    /// Closes the source if `writer` has it open.
    pub fn close(&mut self, writer: u64) {
        if self.writer.is_some_and(|(open, _)| open == writer) {
            self.writer = None;
            self.reported = None;
        }
    }

    /// Takes a batch. Must not be called while [`SourceStream::is_sweeping`].
    ///
    /// # Panics
    /// While it sweeps.
    pub fn offer(
        &mut self,
        batch: &SourceBatch,
        rows: Rows<'_>,
        writer: u64,
        store: &mut OrderStore,
        now: Nanos,
    ) -> BatchOutcome {
        assert!(!self.is_sweeping(), "a sweep is to end before the next batch");
        if self.writer != Some((writer, batch.session_id)) {
            self.counters.rejects += 1;
            let reject = self.reject(batch.session_id, store, Reason::SourceNotOpen);
            return BatchOutcome::Rejected(SourceReject { batch_no: batch.batch_no, ..reject });
        }
        if let Err(reason) = self.check_batch(batch, &rows) {
            return self.refuse(batch, 0, reason, store);
        }
        let hash = hash_of(batch.flags, &rows);
        if batch.batch_no < self.next {
            return self.repeated(batch, hash, store);
        }
        if batch.batch_no > self.next {
            return self.early(batch, now);
        }
        if let Err((row_no, reason)) = self.check_rows(batch.flags, rows.clone(), store) {
            return self.refuse(batch, row_no, reason, store);
        }
        if let Err((row_no, error)) = store.make_room_for_batch(&rows) {
            return self.refuse(batch, row_no, reason_of(&error), store);
        }
        self.repeats.push(hash);
        self.apply(batch, rows, store)
    }

    fn check_batch(&self, batch: &SourceBatch, rows: &Rows<'_>) -> Result<(), Reason> {
        if batch.epoch != self.epoch {
            return Err(Reason::EpochNotOpen);
        }
        if batch.batch_no.is_none() || batch.batch_no.0 == u64::MAX {
            return Err(Reason::BatchOutOfRange);
        }
        if batch.batch_no.0.saturating_sub(self.next.0) >= u64::from(self.window.batches) {
            return Err(Reason::WindowOverrun);
        }
        if rows.len() > BATCH_ROW_COUNT_MAX {
            return Err(Reason::TooManyRows);
        }
        Ok(())
    }

    /// Handles a batch that was taken before.
    fn repeated(&mut self, batch: &SourceBatch, hash: u64, store: &OrderStore) -> BatchOutcome {
        if self.repeats.is_other(self.next.0 - batch.batch_no.0, hash)
            && !plant::is(Plant::RepeatsNotCompared)
        {
            return self.refuse(batch, 0, Reason::BatchChanged, store);
        }
        self.counters.duplicates += 1;
        BatchOutcome::Stands(self.ack(batch.session_id))
    }

    /// Handles a batch that comes too early.
    fn early(&mut self, batch: &SourceBatch, now: Nanos) -> BatchOutcome {
        self.counters.early += 1;
        if self.reported.is_some() {
            return BatchOutcome::Early;
        }
        self.counters.gaps += 1;
        let gap = SourceGap {
            next_batch_no: self.next,
            got_batch_no: batch.batch_no,
            session_id: batch.session_id,
            epoch: self.epoch,
            source_id: self.source,
        };
        self.reported = Some(ReportedGap { gap, at: now });
        BatchOutcome::Gap(gap)
    }

    /// Returns a gap that is to be reported again now.
    pub fn remind(&mut self, now: Nanos) -> Option<SourceGap> {
        let reported = self.reported.as_mut()?;
        if now.0 < reported.at.0.saturating_add(GAP_INTERVAL.0) {
            return None;
        }
        reported.at = now;
        self.counters.gaps += 1;
        Some(reported.gap)
    }

    /// Returns the time at which to call [`SourceStream::remind`]; `None` without a gap.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.reported.map(|reported| Nanos(reported.at.0.saturating_add(GAP_INTERVAL.0)))
    }

    /// Checks all rows before any is taken in.
    fn check_rows(
        &self,
        flags: BatchFlags,
        mut rows: Rows<'_>,
        store: &OrderStore,
    ) -> Result<(), (u32, Reason)> {
        let begins = flags.contains(BatchFlags::RESEND_BEGIN);
        let ends = flags.contains(BatchFlags::RESEND_END);
        let runs = begins || matches!(self.resend, Resend::Running(_));
        if begins != (self.resend == Resend::Due) || (ends && !runs) {
            return Err((0, Reason::ResendMisplaced));
        }
        let mut new_orders = NewOrders::default();
        let mut last = self.head(store);
        let mut highest = Rec::NONE;
        let mut row_no = 0;
        loop {
            if (row_no as usize).is_multiple_of(GROUP_LEN) {
                let mut next = rows.clone();
                let blocks = std::iter::from_fn(|| next.next_raw().map(|(block, _)| block));
                store.look_at_orders(blocks);
            }
            let Some((block, attributes)) = rows.next_raw() else { break };
            row_no += 1;
            let refused = |reason| Err((row_no, reason));
            let Ok(row) = OrderRow::decode_block(block) else {
                return refused(Reason::RowMalformed);
            };
            if let Err(reason) = self.check_row(&row, attributes) {
                return refused(reason);
            }
            let change_id = ChangeId::new(row.seq, row.rec);
            if change_id <= last {
                return refused(Reason::PlaceWentBack);
            }
            last = change_id;
            if !row.flags.contains(RowFlags::TOMBSTONE) {
                if !store.can_reach(row.rec, highest) {
                    return refused(Reason::RecTooFar);
                }
                if !plant::is(Plant::JumpOfRowsMissed) {
                    highest = highest.max(row.rec);
                }
            }
            // Stores have discarded different orders, so a replay cannot judge.
            if self.is_replay() || runs && plant::is(Plant::NumbersGivenAway) {
                continue;
            }
            let known = store.order_id_of(row.rec);
            if known.is_some_and(|order_id| order_id != row.order_id)
                || known.is_none() && new_orders.is_other(&row)
            {
                return refused(Reason::OrderIdChanged);
            }
        }
        Ok(())
    }

    fn is_replay(&self) -> bool {
        self.writer.is_some_and(|(writer, _)| writer == REPLAY)
    }

    fn check_row(&self, row: &OrderRow, attributes: &[u8]) -> Result<(), Reason> {
        if row.partition_id != self.source || row.order_id.partition() != self.source {
            return Err(Reason::WrongSource);
        }
        if row.rec.is_none() || row.flags.contains(RowFlags::LEAVE) {
            return Err(Reason::RowMalformed);
        }
        if !plant::is(Plant::NumbersUnbounded) {
            // Logs of versions that had no bound have any time.
            let checked = if self.is_replay() { check_place(row) } else { check_numbers(row) };
            checked.map_err(RowNumber::reason)?;
        }
        if attributes.len() > ATTRIBUTES_LEN_MAX {
            return Err(Reason::AttributesTooLong);
        }
        Ok(())
    }

    /// Takes a batch that was checked, and for which there is room.
    fn apply(
        &mut self,
        batch: &SourceBatch,
        rows: Rows<'_>,
        store: &mut OrderStore,
    ) -> BatchOutcome {
        if batch.flags.contains(BatchFlags::RESEND_BEGIN) {
            // A record that comes again has a later place than any in the store. The end of an
            // earlier resend may be later than all of them, and is no change that could be lost.
            self.resend = Resend::Running(store.head());
        }
        self.take_rows(rows, store);
        self.next = BatchNo(self.next.0 + 1);
        self.reported = None;
        self.counters.batches += 1;
        if let (true, Resend::Running(before)) =
            (batch.flags.contains(BatchFlags::RESEND_END), self.resend)
        {
            // Rows are far below the end of the type.
            let seq = Seq(self.head(store).seq.0.saturating_add(1));
            self.resend = Resend::Sweeping { before, seq, cursor: Rec(0) };
            return BatchOutcome::Sweeps;
        }
        BatchOutcome::Stands(self.ack(batch.session_id))
    }

    /// Takes the rows.
    ///
    /// # Panics
    /// If one is refused: the store would have a part of a batch.
    fn take_rows(&mut self, mut rows: Rows<'_>, store: &mut OrderStore) {
        let mut group = [RawRow { block: &[], attributes: &[] }; GROUP_LEN];
        loop {
            let mut count = 0;
            while count < GROUP_LEN
                && let Some((block, attributes)) = rows.next_raw()
            {
                group[count] = RawRow { block, attributes };
                count += 1;
            }
            let taken = store.ingest_rows(&group[..count]);
            self.counters.rows += taken.count as u64;
            assert!(taken.error.is_none(), "a batch that was checked: {:?}", taken.error);
            if count == 0 {
                return store.end_batch();
            }
        }
    }

    /// Continues the work before or after a full resend, for at most `steps_max` records. Before
    /// it, makes tombstones of ends that are void, and disowns the records all of whose changes
    /// are void: their numbers may then be given to other orders. After it, deletes the records
    /// that did not come again. Returns the acknowledgement of the resend once all are checked.
    ///
    /// ```text
    /// a record that did not come again | after the resend
    /// ---------------------------------+------------------------------------------------------
    /// live                             | a tombstone behind the resend
    /// ended, its end is valid          | its end, and a tombstone behind the resend
    /// ended, its end is void           | a tombstone at its end, before any reader is told of
    ///                                  | the epoch
    /// ```
    pub fn sweep(&mut self, steps_max: u32, store: &mut OrderStore) -> Option<SourceAck> {
        if let Resend::Voiding(void) = self.resend {
            let rest = store.void_changes(void, steps_max);
            self.resend = rest.map_or(Resend::Due, Resend::Voiding);
            return None;
        }
        let Resend::Sweeping { before, seq, mut cursor } = self.resend else { return None };
        for _ in 0..steps_max {
            let Some((rec, change_id, is_gone)) = store.next_record(cursor) else {
                self.resend = Resend::None;
                self.above = ChangeId::new(seq, Rec(u64::MAX));
                self.join(store);
                self.counters.resends += 1;
                return Some(self.ack(self.writer_session()));
            };
            cursor = Rec(rec.0.saturating_add(1));
            if change_id <= before && !is_gone {
                if !store.delete(ChangeId::new(seq, rec)) {
                    // There is no room for the tombstone now: this record is checked again.
                    cursor = rec;
                    break;
                }
                self.counters.swept += 1;
            }
        }
        self.resend = Resend::Sweeping { before, seq, cursor };
        None
    }

    /// Takes record `number` of our own log, with its event about an order if it has one.
    ///
    /// # Errors
    /// As [`OrderStore::ingest`]; then nothing has changed.
    ///
    /// # Panics
    /// If `number` is above the next one: a log's reader has no gaps.
    pub fn take_record(
        &mut self,
        number: BatchNo,
        event: Option<&OrderEvent>,
        store: &mut OrderStore,
    ) -> Result<IngestOutcome, IngestError> {
        assert!(number <= self.next, "record {number} of a log came before {}", self.next);
        if number < self.next {
            self.counters.duplicates += 1;
            return Ok(IngestOutcome::Repeated);
        }
        let ingested = event.map_or(Ok(IngestOutcome::NotARecord), |event| store.ingest(event))?;
        self.next = BatchNo(number.0 + 1);
        self.counters.batches += 1;
        self.counters.rows += u64::from(event.is_some());
        Ok(ingested)
    }

    /// Starts another epoch of our own log, which lost nothing that the store holds.
    ///
    /// # Errors
    /// As [`OrderStore::begin_epoch`].
    pub fn begin_epoch(&mut self, epoch: Epoch, store: &mut OrderStore) -> Result<(), IngestError> {
        store.begin_epoch(epoch, store.head())?;
        self.epoch = epoch;
        Ok(())
    }

    /// Returns the place that rows must be above.
    fn head(&self, store: &OrderStore) -> ChangeId {
        store.head().max(self.above)
    }

    fn ack(&self, session_id: SessionId) -> SourceAck {
        SourceAck {
            batch_no: BatchNo(self.next.0 - 1),
            session_id,
            epoch: self.epoch,
            source_id: self.source,
            level: self.level,
        }
    }

    /// Refuses a batch and closes the source: the batches that follow cannot be taken.
    fn refuse(
        &mut self,
        batch: &SourceBatch,
        row_no: u32,
        reason: Reason,
        store: &OrderStore,
    ) -> BatchOutcome {
        self.writer = None;
        self.reported = None;
        self.counters.rejects += 1;
        let reject = self.reject(batch.session_id, store, reason);
        BatchOutcome::Rejected(SourceReject { batch_no: batch.batch_no, row_no, ..reject })
    }

    fn reject(&self, session_id: SessionId, store: &OrderStore, reason: Reason) -> SourceReject {
        let head = self.head(store);
        SourceReject {
            batch_no: BatchNo::NONE,
            next_batch_no: self.next,
            head_seq: head.seq,
            head_rec: head.rec,
            session_id,
            epoch: self.epoch,
            row_no: 0,
            source_id: self.source,
            reason,
        }
    }
}

/// Returns the reject reason for an error of the store.
pub(crate) fn reason_of(error: &IngestError) -> Reason {
    match error {
        IngestError::WrongSource { .. } => Reason::WrongSource,
        IngestError::RecJump(_) => Reason::RecTooFar,
        IngestError::StoreFull { .. } => Reason::StoreFull,
        IngestError::NoRecord | IngestError::Row(_) | IngestError::LeaveFlag => {
            Reason::RowMalformed
        }
        IngestError::EpochBehindHead { .. } | IngestError::EpochRepeated(_) => {
            Reason::EpochWentBack
        }
    }
}
