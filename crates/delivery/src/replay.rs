//! A source's stream, rebuilt from stored entries: the state saved with a snapshot of its store,
//! and the openings and batches since, exactly as they were taken in.
//!
//! Store and stream are a function of the snapshot and these entries, so a restarted store and a
//! replica end in the same state as the original.
//!
//! ```text
//! state     version u8, epoch u32, next batch u64, zero u32, resend u8 (0 none, 1 due, 2 runs,
//!           3 sweeps, 4 none: a log's records, 5 needed), its place, its seq u64, its cursor u64;
//!           the place that rows must be above
//! ```
//! The zero was once the number of rows of the next batch that the store had taken. A state with
//! another number is not read: the log has the batch, if it was ever complete.
//!
//! The place of a resend that is due is the one behind which void changes are still to be voided in
//! the store, and `seq` and cursor are the last valid place. Version 1 is read too: it does not
//! tell the valid place, and in states from before this rule the other is the start, so that all
//! ends count as void.
//!
//! A place is `seq` u64 and `rec` u64; all numbers are little-endian.
//!
//! The events of a node's own engine come to replicas as batches too. Such a batch has the number
//! of the last log record that it covers, and may begin before the store's head: rows that the
//! store has are skipped.

use weir_types::{BatchNo, ChangeId, Epoch, PartitionId, Reason, Rec, Seq};
use weir_wire::ClientMessage;
use weir_wire::frame::{Framing, next_frame};
use weir_wire::ingest::{OpenSource, SOURCE_FRAME_LEN_MAX, SourceBatch};
use weir_wire::rows::Rows;

use crate::ahead::{GROUP_LEN, RawRow};
use crate::resend::Void;
use crate::snapshot::{Payload, put_change_id};
use crate::store::OrderStore;
use crate::stream::{
    BatchOutcome, REPLAY, Resend, SourceStream, StreamCounters, Window, reason_of,
};

/// Bytes of a stream's state.
pub const STREAM_STATE_LEN: usize = 1 + 4 + 8 + 4 + 1 + 16 + 8 + 8 + 16;
const VERSION: u8 = 2;
/// The version without the valid place of a resend that is due.
const VERSION_WITHOUT_VALID: u8 = 1;
/// The resend code of a log's stream, which has no resend.
const LOG: u8 = 4;
/// The resend code of a stream whose store failed.
const NEEDED: u8 = 5;
/// The place of a resend that is due when no change after it is void.
const NOTHING_VOID: ChangeId = ChangeId { seq: Seq(u64::MAX), rec: Rec(u64::MAX) };

/// The reason that an entry cannot follow the current state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The bytes are neither an opening nor a batch.
    #[error("the entry is no opening and no batch")]
    NoEntry,
    /// It was refused, although it was taken in once.
    #[error("the entry is refused: {0:?}")]
    Refused(Reason),
    /// An operator reset the source: the store is to be replaced by that of
    /// [`SourceStream::reset`], or asked for anew.
    #[error("the entry resets the source")]
    Reset,
    /// It is not the batch that is due.
    #[error("the entry is batch {got}, and {due} is due")]
    OutOfTurn {
        /// The entry's batch.
        got: BatchNo,
        /// The batch that is due.
        due: BatchNo,
    },
}

impl SourceStream {
    /// Appends the stream's own state, which the store does not have.
    pub fn put_state(&self, out: &mut Vec<u8>) {
        let (code, change_id, seq, cursor) = match self.resend {
            Resend::None => (if self.is_log { LOG } else { 0 }, ChangeId::START, Seq(0), Rec(0)),
            Resend::Needed => (NEEDED, ChangeId::START, Seq(0), Rec(0)),
            Resend::Voiding(Void { valid_to, cursor }) => (1, cursor, valid_to.seq, valid_to.rec),
            Resend::Due => (1, NOTHING_VOID, Seq(0), Rec(0)),
            Resend::Running(before) => (2, before, Seq(0), Rec(0)),
            Resend::Sweeping { before, seq, cursor } => (3, before, seq, cursor),
        };
        out.push(VERSION);
        out.extend_from_slice(&self.epoch.0.to_le_bytes());
        out.extend_from_slice(&self.next.0.to_le_bytes());
        out.extend_from_slice(&0u32.to_le_bytes());
        out.push(code);
        put_change_id(change_id, out);
        out.extend_from_slice(&seq.0.to_le_bytes());
        out.extend_from_slice(&cursor.0.to_le_bytes());
        put_change_id(self.above, out);
    }

    /// Returns the stream of this state; `None` if the state is invalid.
    #[must_use]
    pub fn from_state(source: PartitionId, window: Window, state: &[u8]) -> Option<SourceStream> {
        let mut from = Payload(state);
        let version = from.u8()?;
        if ![VERSION, VERSION_WITHOUT_VALID].contains(&version) {
            return None;
        }
        let (epoch, next) = (Epoch(from.u32()?), BatchNo(from.u64()?));
        let (taken_count, code) = (from.u32()?, from.u8()?);
        let (before, seq, cursor) = (from.change_id()?, Seq(from.u64()?), Rec(from.u64()?));
        let above = from.change_id()?;
        let resend = match code {
            0 | LOG => Resend::None,
            1 if before == NOTHING_VOID => Resend::Due,
            1 => {
                let is_told = version == VERSION;
                // Behind all places: no record's number becomes free.
                let valid_to = if is_told { ChangeId::new(seq, cursor) } else { NOTHING_VOID };
                Resend::Voiding(Void { valid_to, cursor: before })
            }
            2 => Resend::Running(before),
            3 => Resend::Sweeping { before, seq, cursor },
            NEEDED => Resend::Needed,
            _ => return None,
        };
        let is_state = from.0.is_empty() && !next.is_none() && taken_count == 0;
        let mut stream = SourceStream::new(source, window);
        (stream.epoch, stream.next) = (epoch, next);
        (stream.resend, stream.above, stream.is_log) = (resend, above, code == LOG);
        is_state.then_some(stream)
    }

    /// Goes on with a store of the same snapshot, or of the same replica: tells it the end of the
    /// last full resend.
    pub fn join(&self, store: &mut OrderStore) {
        store.resent_to = store.resent_to.max(self.above);
    }

    /// Takes an opening or a batch, its whole frame, that was taken in once before.
    ///
    /// The original refused what contradicted the orders that it had. This store may have discarded
    /// more or fewer of them, and so checks only what follows from the entries.
    ///
    /// # Errors
    /// [`ReplayError`]; the store cannot be used after one. With [`ReplayError::Reset`] nothing is
    /// wrong.
    pub fn replay(&mut self, entry: &[u8], store: &mut OrderStore) -> Result<(), ReplayError> {
        let Framing::Frame { message: Ok(raw), .. } = next_frame(entry, SOURCE_FRAME_LEN_MAX)
        else {
            return Err(ReplayError::NoEntry);
        };
        let replayed = match ClientMessage::decode(&raw) {
            Ok(ClientMessage::OpenSource(open)) => self.replay_open(&open, store),
            Ok(ClientMessage::ResetSource(_)) => Err(ReplayError::Reset),
            Ok(ClientMessage::SourceBatch(batch, rows)) if self.is_log => {
                self.replay_records(&batch, rows, store)
            }
            Ok(ClientMessage::SourceBatch(batch, rows)) => self.replay_batch(&batch, rows, store),
            _ => Err(ReplayError::NoEntry),
        };
        self.writer = None;
        replayed
    }

    fn replay_open(
        &mut self,
        open: &OpenSource,
        store: &mut OrderStore,
    ) -> Result<(), ReplayError> {
        self.finish_sweep(store);
        let opened = self.open(open, REPLAY, store);
        opened.map(drop).map_err(|reject| ReplayError::Refused(reject.reason))
    }

    fn replay_batch(
        &mut self,
        batch: &SourceBatch,
        rows: Rows<'_>,
        store: &mut OrderStore,
    ) -> Result<(), ReplayError> {
        self.finish_sweep(store);
        let (got, due) = (batch.batch_no, self.next);
        if got != due {
            return Err(ReplayError::OutOfTurn { got, due });
        }
        self.writer = Some((REPLAY, batch.session_id));
        match self.offer(batch, rows, REPLAY, store, batch.sending_time) {
            BatchOutcome::Stands(_) | BatchOutcome::Sweeps => Ok(()),
            BatchOutcome::Rejected(reject) => Err(ReplayError::Refused(reject.reason)),
            BatchOutcome::Gap(_) | BatchOutcome::Early => {
                unreachable!("the batch is the one that is due")
            }
        }
    }

    /// Takes the rows of a log's records up to the batch's number. If there is no room for all of
    /// them, the same batch must come again.
    fn replay_records(
        &mut self,
        batch: &SourceBatch,
        mut rows: Rows<'_>,
        store: &mut OrderStore,
    ) -> Result<(), ReplayError> {
        let (got, due) = (batch.batch_no, self.next);
        if got < due || got.0 == u64::MAX {
            return Err(ReplayError::OutOfTurn { got, due });
        }
        if batch.epoch != self.epoch {
            return Err(ReplayError::Refused(Reason::EpochNotOpen));
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
            self.counters.rows += (taken.count - taken.repeated_count) as u64;
            match taken.error {
                Some(error) => return Err(ReplayError::Refused(reason_of(&error))),
                None if count == 0 => break,
                None => {}
            }
        }
        self.next = BatchNo(got.0 + 1);
        self.counters.batches += 1;
        Ok(())
    }

    /// Completes a sweep: the original completed it before it took the next entry.
    fn finish_sweep(&mut self, store: &mut OrderStore) {
        while self.is_sweeping() {
            let _ = self.sweep(u32::MAX, store);
        }
    }

    /// Ends the replay: completes a sweep whose resend was the last entry, and returns the
    /// counters, which start from zero here.
    ///
    /// The sweep comes before anything that the caller makes the store discard now. A record that
    /// is discarded first gets no tombstone, and the head would be before that of the original:
    /// a reader who is further waits for a change that may never come.
    pub fn end_replay(&mut self, store: &mut OrderStore) -> StreamCounters {
        self.finish_sweep(store);
        core::mem::take(&mut self.counters)
    }
}
