//! How a source is fed: the numbered batches of its stream, each taken in once and in order.
//!
//! An outside core opens its source in an epoch, sends batches numbered from 1 and hears how far
//! they are taken in. Our own engine's events pass through the same numbering, by their numbers in
//! the event log. Pure: who talks, over what and when is the caller's.
//!
//! ```text
//! the store knows | epoch asked | full resend | last valid place | the answer
//! ----------------+-------------+-------------+------------------+------------------------------
//! nothing         | any         | yes         | -                | opened at batch 1
//! nothing         | any         | no          | -                | ResendNeeded
//! an epoch        | lower       | -           | -                | EpochWentBack
//! an epoch        | the same    | no          | -                | opened where it stands
//! an epoch        | the same    | yes         | -                | at batch 1 while none was
//!                 |             |             |                  | taken, else ResendNeedsEpoch
//! an epoch        | higher      | yes         | of that epoch    | opened at batch 1
//! an epoch        | higher      | yes         | of another       | opened at batch 1; no token
//!                 |             |             |                  | of before is honoured
//! an epoch        | higher      | no          | of that epoch,   | opened at batch 1
//!                 |             |             | at or after head |
//! an epoch        | higher      | no          | else, or while a | ResendNeeded
//!                 |             |             | resend ran       |
//! ```
//! The last valid place is told for an epoch, since what epochs after it took back the store cannot
//! know that never heard of them.
//!
//! One epoch has one full resend: into a store that had lost the first one, a second one would not
//! bring the tombstones that tokens of that epoch still wait for. So a core asks for it until it
//! has heard that its source is open, and never again in that epoch.
//!
//! A missing batch is asked for and all that come ahead of it are dropped (go back N): the
//! transport keeps order, so that gaps are rare, and a store that kept what is early would need
//! memory that the window bounds less simply than by dropping.
//!
//! INVARIANT: what the store holds of an epoch is what its batches up to `next - 1` say, and of a
//! refused batch the first `partial` rows.

use weir_types::{
    AckLevel, BatchNo, Epoch, Nanos, PartitionId, Reason, Rec, Seq, SessionId, Switch,
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
use crate::ingest::{IngestError, Ingested};
use crate::ring::Place;
use crate::store::OrderStore;

/// How long after a gap was told it is told again, when what is missing has not come.
pub const GAP_INTERVAL: Nanos = Nanos(200_000_000);

/// What may be without acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Batches, at least one.
    pub batches: u32,
    /// Bytes of frames.
    pub bytes: u32,
}

/// What a stream counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounters {
    /// Times that it was opened.
    pub opened: u64,
    /// Batches taken in.
    pub batches: u64,
    /// Rows taken in.
    pub rows: u64,
    /// Batches that were there already, and were not taken in again.
    pub duplicates: u64,
    /// Gaps told.
    pub gaps: u64,
    /// Batches dropped because one before them was missing.
    pub early: u64,
    /// Batches and openings refused.
    pub rejects: u64,
    /// Full resends that came to their end.
    pub resends: u64,
    /// Records that a full resend left out, and that are gone since.
    pub swept: u64,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Taken {
    /// It is taken in, or was before: the stream stands here.
    Stands(SourceAck),
    /// It is taken in and ends a full resend: what was left out is swept first, by
    /// [`SourceStream::sweep`], which then gives the acknowledgement.
    Sweeps,
    /// One before it is missing.
    Gap(SourceGap),
    /// One before it is missing, as was told a short time ago.
    Early,
    /// It is refused, and the source closed unless somebody else has it open.
    Rejected(SourceReject),
}

/// Where a full resend is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resend {
    /// None is under way.
    None,
    /// The next batch begins it.
    Due,
    /// It runs: what is at or before this place and does not come again is gone at its end.
    Running(Place),
    /// All came; records from `cursor` on are still to be looked at.
    Sweeping { before: Place, seq: Seq, cursor: Rec },
}

/// A gap that was told.
#[derive(Clone, Copy, Debug)]
struct Asked {
    gap: SourceGap,
    at: Nanos,
}

/// The stream of one source into one store.
#[derive(Debug)]
pub struct SourceStream {
    pub(crate) source: PartitionId,
    window: Window,
    /// What an acknowledgement survives.
    level: AckLevel,
    /// Who feeds it, by the caller's own number, and in which session.
    pub(crate) writer: Option<(u64, SessionId)>,
    /// The source's epoch; none before it was first opened.
    pub(crate) epoch: Epoch,
    pub(crate) next: BatchNo,
    /// Rows of batch `next` that are in the store though the batch was refused.
    pub(crate) partial: u32,
    pub(crate) resend: Resend,
    /// Rows must be above this place, whatever the store holds.
    pub(crate) above: Place,
    asked: Option<Asked>,
    /// Whether the numbers are those of a log's records: of these some say nothing of orders, so
    /// that a batch may step over them.
    pub(crate) is_log: bool,
    pub(crate) counters: StreamCounters,
}

impl SourceStream {
    /// The stream of a source that the store knows nothing of.
    #[must_use]
    pub fn new(source: PartitionId, window: Window) -> SourceStream {
        SourceStream {
            source,
            window,
            level: AckLevel::Memory,
            writer: None,
            epoch: Epoch::NONE,
            next: BatchNo(1),
            partial: 0,
            resend: Resend::None,
            above: Place::START,
            asked: None,
            is_log: false,
            counters: StreamCounters::default(),
        }
    }

    /// The same, of which the caller tells no writer of a batch before it survives what `level`
    /// says.
    #[must_use]
    pub fn at_level(self, level: AckLevel) -> SourceStream {
        SourceStream { level, ..self }
    }

    /// The stream of a log's events, whose next number is `next`.
    #[must_use]
    pub fn of_log(source: PartitionId, epoch: Epoch, next: BatchNo) -> SourceStream {
        let window = Window { batches: u32::MAX, bytes: u32::MAX };
        SourceStream { epoch, next, is_log: true, ..SourceStream::new(source, window) }
    }

    /// Whose orders these are.
    #[must_use]
    pub fn source(&self) -> PartitionId {
        self.source
    }

    /// The source's epoch; none before it was first opened.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The number of the batch that is taken next.
    #[must_use]
    pub fn next_batch_no(&self) -> BatchNo {
        self.next
    }

    /// Whether it is the stream of a log's records.
    #[must_use]
    pub fn is_log(&self) -> bool {
        self.is_log
    }

    /// What an acknowledgement survives.
    #[must_use]
    pub fn level(&self) -> AckLevel {
        self.level
    }

    /// Who feeds it, by the number given at its opening.
    #[must_use]
    pub fn writer(&self) -> Option<u64> {
        self.writer.map(|(writer, _)| writer)
    }

    /// Whether somebody feeds it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.writer.is_some()
    }

    /// Whether the store holds all that the source ever said of what there is: false until the
    /// first full resend ends, while readers would take what is missing for gone.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.epoch.is_none() && self.resend == Resend::None
    }

    /// Whether [`SourceStream::sweep`] has to be called before the next batch is offered.
    #[must_use]
    pub fn is_sweeping(&self) -> bool {
        matches!(self.resend, Resend::Sweeping { .. })
    }

    /// The head of the store before the full resend of which the end is being swept.
    #[must_use]
    pub fn swept_before(&self) -> Option<Place> {
        match self.resend {
            Resend::Sweeping { before, .. } => Some(before),
            Resend::None | Resend::Due | Resend::Running(_) => None,
        }
    }

    /// What it counted.
    #[must_use]
    pub fn counters(&self) -> StreamCounters {
        self.counters
    }

    /// Opens the source for `writer`, the caller's own number of who asks.
    ///
    /// # Errors
    /// The reject that says why not, by the table above; nothing has changed then.
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
            let valid_to = self.valid_to(open);
            store.begin_epoch_after(open.epoch, valid_to);
            self.epoch = open.epoch;
            self.next = BatchNo(1);
            self.partial = 0;
            self.resend = match open.full_resend {
                Switch::On => Resend::Due,
                Switch::Off => Resend::None,
            };
        }
        self.writer = Some((writer, open.session_id));
        self.asked = None;
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
            let fits = !is_full || self.resend == Resend::Due;
            return if fits { Ok(()) } else { Err(Reason::ResendNeedsEpoch) };
        }
        let is_known = open.valid_epoch == self.epoch;
        let is_behind = !is_known || self.valid_to(open) < store.head();
        let is_torn = self.resend != Resend::None || self.partial > 0;
        if !is_full && (is_behind || is_torn) {
            return Err(Reason::ResendNeeded);
        }
        Ok(())
    }

    /// The last place that stays valid of what the store heard; nothing when it is told for another
    /// epoch than the store's.
    fn valid_to(&self, open: &OpenSource) -> Place {
        match open.valid_epoch == self.epoch {
            true => Place::new(open.valid_seq, open.valid_rec),
            false => Place::START,
        }
    }

    /// The writer is gone.
    pub fn close(&mut self, writer: u64) {
        if self.writer.is_some_and(|(open, _)| open == writer) {
            self.writer = None;
            self.asked = None;
        }
    }

    /// Takes a batch. Not to be called while [`SourceStream::is_sweeping`].
    ///
    /// # Panics
    /// While it sweeps.
    pub fn offer(
        &mut self,
        (batch, rows): (&SourceBatch, Rows<'_>),
        writer: u64,
        store: &mut OrderStore,
        now: Nanos,
    ) -> Taken {
        assert!(!self.is_sweeping(), "a sweep is to end before the next batch");
        if self.writer != Some((writer, batch.session_id)) {
            self.counters.rejects += 1;
            let reject = self.reject(batch.session_id, store, Reason::SourceNotOpen);
            return Taken::Rejected(SourceReject { batch_no: batch.batch_no, ..reject });
        }
        if let Err(reason) = self.check_batch(batch, &rows) {
            return self.refuse(batch, 0, reason, store);
        }
        if batch.batch_no != self.next {
            return self.out_of_turn(batch, now);
        }
        if let Err((row_no, reason)) = self.check_rows(batch.flags, rows.clone(), store) {
            return self.refuse(batch, row_no, reason, store);
        }
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

    /// A batch that was taken before, or whose turn it is not yet.
    fn out_of_turn(&mut self, batch: &SourceBatch, now: Nanos) -> Taken {
        if batch.batch_no < self.next {
            self.counters.duplicates += 1;
            return Taken::Stands(self.ack(batch.session_id));
        }
        self.counters.early += 1;
        if self.asked.is_some() {
            return Taken::Early;
        }
        self.counters.gaps += 1;
        let gap = SourceGap {
            next_batch_no: self.next,
            got_batch_no: batch.batch_no,
            session_id: batch.session_id,
            epoch: self.epoch,
            source_id: self.source,
        };
        self.asked = Some(Asked { gap, at: now });
        Taken::Gap(gap)
    }

    /// A gap that is to be told again now.
    pub fn remind(&mut self, now: Nanos) -> Option<SourceGap> {
        let asked = self.asked.as_mut()?;
        if now.0 < asked.at.0 + GAP_INTERVAL.0 {
            return None;
        }
        asked.at = now;
        self.counters.gaps += 1;
        Some(asked.gap)
    }

    /// When to call [`SourceStream::remind`]; `None` without a gap.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.asked.map(|asked| Nanos(asked.at.0 + GAP_INTERVAL.0))
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
        let mut last = self.head(store);
        let mut row_no = 0;
        loop {
            if (row_no as usize).is_multiple_of(GROUP_LEN) {
                let mut next = rows.clone();
                let blocks = std::iter::from_fn(|| next.next_raw().map(|(block, _)| block));
                store.look_at_orders(blocks);
            }
            let Some((block, attributes)) = rows.next_raw() else { break };
            row_no += 1;
            if row_no <= self.partial {
                continue;
            }
            let refused = |reason| Err((row_no, reason));
            let Ok(row) = OrderRow::decode_block(block) else {
                return refused(Reason::RowMalformed);
            };
            if let Err(reason) = self.check_row(&row, attributes) {
                return refused(reason);
            }
            let place = Place::new(row.seq, row.rec);
            if place <= last {
                return refused(Reason::PlaceWentBack);
            }
            last = place;
            // A full resend may know another order by a number that the lost history had used.
            let known = store.order_id_of(row.rec, self.above).filter(|_| !runs);
            if known.is_some_and(|order_id| order_id != row.order_id) {
                return refused(Reason::OrderIdChanged);
            }
        }
        Ok(())
    }

    fn check_row(&self, row: &OrderRow, attributes: &[u8]) -> Result<(), Reason> {
        if row.partition_id != self.source || row.order_id.partition() != self.source {
            return Err(Reason::WrongSource);
        }
        // The last `seq` has none after it, which the end of a full resend would need.
        let is_numbered = !row.rec.is_none() && row.seq.0 < u64::MAX;
        if !is_numbered || row.flags.contains(RowFlags::LEAVE) {
            return Err(Reason::RowMalformed);
        }
        if attributes.len() > ATTRIBUTES_LEN_MAX {
            return Err(Reason::AttributesTooLong);
        }
        Ok(())
    }

    fn apply(&mut self, batch: &SourceBatch, rows: Rows<'_>, store: &mut OrderStore) -> Taken {
        if batch.flags.contains(BatchFlags::RESEND_BEGIN) && self.partial == 0 {
            // A record that comes again does so at a later place than any that is there.
            self.resend = Resend::Running(self.head(store));
        }
        if let Err((row_no, error)) = self.take_rows(rows, store) {
            if row_no > 1 {
                self.partial = row_no - 1;
            } else if batch.flags.contains(BatchFlags::RESEND_BEGIN) {
                self.resend = Resend::Due;
            }
            return self.refuse(batch, row_no, reason_of(&error), store);
        }
        self.partial = 0;
        self.next = BatchNo(self.next.0 + 1);
        self.asked = None;
        self.counters.batches += 1;
        if let (true, Resend::Running(before)) =
            (batch.flags.contains(BatchFlags::RESEND_END), self.resend)
        {
            let seq = Seq(self.head(store).seq.0 + 1);
            self.resend = Resend::Sweeping { before, seq, cursor: Rec(0) };
            return Taken::Sweeps;
        }
        Taken::Stands(self.ack(batch.session_id))
    }

    /// Takes the rows behind those that are there already; which row the store has no place for.
    fn take_rows(
        &mut self,
        mut rows: Rows<'_>,
        store: &mut OrderStore,
    ) -> Result<(), (u32, IngestError)> {
        let mut row_no = 0;
        while row_no < self.partial && rows.next_raw().is_some() {
            row_no += 1;
        }
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
            row_no += u32::try_from(taken.count).expect("a batch has few rows");
            match taken.error {
                Some(error) => return Err((row_no + 1, error)),
                None if count == 0 => return Ok(()),
                None => {}
            }
        }
    }

    /// Goes on with the end of a full resend: looks at most at `steps_max` records and lets those
    /// go that did not come again. Gives the acknowledgement when all are looked at.
    pub fn sweep(&mut self, steps_max: u32, store: &mut OrderStore) -> Option<SourceAck> {
        let Resend::Sweeping { before, seq, mut cursor } = self.resend else { return None };
        for _ in 0..steps_max {
            let Some((rec, place, is_gone)) = store.next_record(cursor) else {
                self.resend = Resend::None;
                self.above = Place::new(seq, Rec(u64::MAX));
                self.counters.resends += 1;
                return Some(self.ack(self.writer.map_or(SessionId::NONE, |(_, id)| id)));
            };
            cursor = Rec(rec.0 + 1);
            if place <= before && !is_gone {
                if !store.delete(Place::new(seq, rec)) {
                    // No room for the tombstone now: this record is looked at again.
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
    /// When a record before it is missing: a log's reader has no gaps.
    pub fn take_record(
        &mut self,
        number: BatchNo,
        event: Option<&OrderEvent>,
        store: &mut OrderStore,
    ) -> Result<Ingested, IngestError> {
        assert!(number <= self.next, "record {number} of a log came before {}", self.next);
        if number < self.next {
            self.counters.duplicates += 1;
            return Ok(Ingested::Repeated);
        }
        let ingested = event.map_or(Ok(Ingested::NotARecord), |event| store.ingest(event))?;
        self.next = BatchNo(number.0 + 1);
        self.counters.batches += 1;
        self.counters.rows += u64::from(event.is_some());
        Ok(ingested)
    }

    /// Our own log goes on in another epoch, which lost nothing that the store holds.
    ///
    /// # Errors
    /// As [`OrderStore::begin_epoch`].
    pub fn begin_epoch(&mut self, epoch: Epoch, store: &mut OrderStore) -> Result<(), IngestError> {
        store.begin_epoch(epoch, store.head())?;
        self.epoch = epoch;
        Ok(())
    }

    /// What rows have to be above.
    fn head(&self, store: &OrderStore) -> Place {
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

    /// Refuses a batch and closes the source: what follows it has no place any more.
    fn refuse(
        &mut self,
        batch: &SourceBatch,
        row_no: u32,
        reason: Reason,
        store: &OrderStore,
    ) -> Taken {
        self.writer = None;
        self.asked = None;
        self.counters.rejects += 1;
        let reject = self.reject(batch.session_id, store, reason);
        Taken::Rejected(SourceReject { batch_no: batch.batch_no, row_no, ..reject })
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

/// The reason that a reject gives for what the store found wrong.
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
