//! An outside core for tests of sources: its orders, its epochs, and the entries that it sends. It
//! may lose the end of its history and go on from a state that it remembers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_types::{
    BatchNo, ChangeId, Epoch, Nanos, OrdStatus, PartitionId, Rec, Seq, SessionId, Switch,
};
use weir_wire::delivery::{OrderRow, RowFlags};
use weir_wire::dialogue::put_source_batch;
use weir_wire::frame::put_frame;
use weir_wire::ingest::{BatchFlags, OpenSource, SourceBatch};

use crate::cold::row_of;

pub(crate) const SOURCE: PartitionId = PartitionId(1);
pub(crate) const SESSION: SessionId = SessionId(1);
/// Above all records that a test creates.
const LAST_REC: Rec = Rec(1 << 40);

/// A core's knowledge of its orders.
#[derive(Clone, Default)]
struct Known {
    records: BTreeMap<Rec, OrderRow>,
    forgotten: BTreeSet<Rec>,
    seq: u64,
    rec: u64,
}

/// The core.
#[derive(Default)]
pub(crate) struct SimulatedCore {
    known: Known,
    remembered: Known,
    epoch: u32,
    batch_no: u64,
    /// Batches that it has yet to send.
    outbox: VecDeque<(BatchFlags, Vec<OrderRow>)>,
    /// All changes that it sent, or is about to send, and did not disown.
    pub(crate) history: Vec<OrderRow>,
}

/// The last valid place of a core that lost the end of its history.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Claims {
    /// All changes of its last `seq`.
    WholeSeq,
    /// Those up to its last row alone.
    LastRow,
}

impl SimulatedCore {
    /// Returns the opening of the next epoch.
    pub(crate) fn next_epoch(&mut self, valid_to: ChangeId, full_resend: Switch) -> OpenSource {
        (self.epoch, self.batch_no) = (self.epoch + 1, 0);
        self.opening(valid_to, full_resend)
    }

    /// Returns the opening of the current epoch, for another connection.
    pub(crate) fn opening_again(&self) -> OpenSource {
        self.opening(ChangeId::START, Switch::Off)
    }

    fn opening(&self, valid_to: ChangeId, full_resend: Switch) -> OpenSource {
        OpenSource {
            valid_seq: valid_to.seq,
            valid_rec: valid_to.rec,
            session_id: SESSION,
            epoch: Epoch(self.epoch),
            valid_epoch: Epoch(self.epoch - 1),
            source_id: SOURCE,
            full_resend,
        }
    }

    /// Returns the next batch's frame.
    pub(crate) fn batch(&mut self, flags: BatchFlags, rows: &[OrderRow]) -> Vec<u8> {
        self.batch_no += 1;
        let head = SourceBatch {
            batch_no: BatchNo(self.batch_no),
            sending_time: Nanos(1),
            session_id: SESSION,
            epoch: Epoch(self.epoch),
            source_id: SOURCE,
            flags,
        };
        let mut frame = Vec::new();
        put_source_batch(&head, rows.iter().map(|row| (*row, &[][..])), &mut frame);
        frame
    }

    /// Prepares a full resend with at most `rows_max` orders per batch, for a store that has all
    /// changes up to `complete_to`.
    pub(crate) fn prepare_resend(&mut self, complete_to: ChangeId, rows_max: usize) {
        let seq = self.known.seq.max(complete_to.seq.0) + 1;
        self.known.records.values_mut().for_each(|row| row.seq = Seq(seq));
        let rows: Vec<OrderRow> = self.known.records.values().copied().collect();
        self.history.extend(&rows);
        // The resend's end takes a number too.
        self.known.seq = seq + 1;
        let mut batches: VecDeque<_> =
            rows.chunks(rows_max).map(|rows| (BatchFlags::default(), rows.to_vec())).collect();
        if batches.is_empty() {
            batches.push_back((BatchFlags::default(), Vec::new()));
        }
        let (first, last) = (0, batches.len() - 1);
        batches[first].0 = batches[first].0.with(BatchFlags::RESEND_BEGIN);
        batches[last].0 = batches[last].0.with(BatchFlags::RESEND_END);
        self.outbox = batches;
    }

    /// True while batches of a full resend are still to be sent.
    pub(crate) fn has_more(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Returns the next batch of a full resend.
    pub(crate) fn next_batch(&mut self) -> Option<Vec<u8>> {
        let (flags, rows) = self.outbox.pop_front()?;
        Some(self.batch(flags, &rows))
    }

    /// Changes an order, or creates it; returns the batch.
    pub(crate) fn say(&mut self, rec: u64, firm: u32, status: OrdStatus) -> Vec<u8> {
        assert!(!self.has_more(), "a resend is sent before the next change");
        self.known.seq += 1;
        let row = row_of(self.known.seq, rec, firm, status);
        self.known.records.insert(row.rec, row);
        self.history.push(row);
        self.batch(BatchFlags::default(), &[row])
    }

    pub(crate) fn insert(&mut self, firm: u32) -> Vec<u8> {
        self.known.rec += 1;
        self.say(self.known.rec, firm, OrdStatus::New)
    }

    /// Changes one of the orders that are live, or of those that have ended.
    pub(crate) fn change(
        &mut self,
        pick: usize,
        is_live: bool,
        firm: u32,
        ends: bool,
    ) -> Option<Vec<u8>> {
        let all = self.known.records.values();
        let all = all.filter(|row| row.ord_status.is_live() == is_live).map(|row| row.rec.0);
        let all: Vec<u64> = all.collect();
        let status = if ends { OrdStatus::Canceled } else { OrdStatus::New };
        (!all.is_empty()).then(|| self.say(all[pick % all.len()], firm, status))
    }

    /// Deletes one of the orders.
    pub(crate) fn delete(&mut self, pick: usize) -> Option<Vec<u8>> {
        assert!(!self.has_more(), "a resend is sent before the next change");
        let recs: Vec<Rec> = self.known.records.keys().copied().collect();
        let rec = *recs.get(pick.checked_rem(recs.len())?)?;
        let row = self.known.records.remove(&rec).expect("it is one of them");
        self.known.seq += 1;
        let row = OrderRow { seq: Seq(self.known.seq), flags: RowFlags::TOMBSTONE, ..row };
        self.history.push(row);
        Some(self.batch(BatchFlags::default(), &[row]))
    }

    /// Drops the ended orders: a full resend does not include them.
    pub(crate) fn forget(&mut self) {
        let Known { records, forgotten, .. } = &mut self.known;
        forgotten.extend(records.values().filter(|r| !r.ord_status.is_live()).map(|row| row.rec));
        records.retain(|_, row| row.ord_status.is_live());
    }

    /// Removes an order while it sends nothing, from the state that it remembers too.
    pub(crate) fn lose(&mut self, rec: Rec) {
        let row = self.remembered.records.remove(&rec).expect("it has the order");
        self.remembered.forgotten.insert(rec);
        self.known = self.remembered.clone();
        self.history.push(OrderRow { flags: RowFlags::TOMBSTONE, ..row });
    }

    pub(crate) fn remember(&mut self) {
        self.remembered = self.known.clone();
    }

    /// Goes back to the remembered state; returns the last valid place.
    pub(crate) fn fall_back(&mut self, claims: Claims) -> ChangeId {
        self.known = self.remembered.clone();
        let valid_to = ChangeId::new(Seq(self.known.seq), LAST_REC);
        let rows = self.history.iter().map(|row| ChangeId::new(row.seq, row.rec));
        let last_row = rows.filter(|at| *at <= valid_to).max();
        let valid_to = match claims {
            Claims::WholeSeq => valid_to,
            Claims::LastRow => last_row.unwrap_or(valid_to),
        };
        self.history.retain(|row| row.seq <= valid_to.seq);
        valid_to
    }

    /// True for an order that a full resend does not include.
    pub(crate) fn has_forgotten(&self, rec: Rec) -> bool {
        self.known.forgotten.contains(&rec)
    }

    /// Returns the current row of each order that was not deleted.
    pub(crate) fn latest(&self) -> BTreeMap<Rec, OrderRow> {
        let mut latest = BTreeMap::new();
        for row in &self.history {
            if row.flags.contains(RowFlags::TOMBSTONE) {
                latest.remove(&row.rec);
            } else {
                latest.insert(row.rec, *row);
            }
        }
        latest
    }
}

/// Returns an opening's frame.
pub(crate) fn frame_of(open: &OpenSource) -> Vec<u8> {
    let mut frame = Vec::new();
    put_frame(open, &mut frame);
    frame
}
