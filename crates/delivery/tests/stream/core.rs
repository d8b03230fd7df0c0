//! An outside core: its orders, the batches of their changes, and its state after a crash.

use std::collections::BTreeMap;

use weir_types::{
    AccountId, BatchNo, ChangeId, ClOrdId, Epoch, ExecInst, ExecType, FirmId, InstrumentId, Nanos,
    OrdStatus, OrdType, OrderId, PartitionId, Price, Qty, Reason, Rec, Seq, SessionId, Side,
    Switch, TimeInForce,
};
use weir_wire::delivery::{OrderRow, RowFlags};
use weir_wire::ingest::{BatchFlags, OpenSource};
use weir_wire::rows::{put_row, put_row_count};

pub const SOURCE: PartitionId = PartitionId(40);

/// SplitMix64: the same run on every machine.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// An order with its attributes.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub row: OrderRow,
    pub attributes: Vec<u8>,
}

impl Record {
    pub fn new(change_id: ChangeId, firm: u32, attributes: Vec<u8>) -> Record {
        let row = OrderRow {
            rec: change_id.rec,
            seq: change_id.seq,
            order_id: OrderId::new(SOURCE, change_id.rec),
            transact_time: Nanos(change_id.seq.0),
            created_time: Nanos(1),
            cl_ord_id: ClOrdId::NONE,
            price: Price(100),
            stop_px: Price(0),
            last_px: Price(0),
            last_qty: Qty::ZERO,
            order_qty: Qty(10),
            leaves_qty: Qty(10),
            cum_qty: Qty::ZERO,
            expire_time: Nanos(0),
            merged_count: 0,
            session_id: SessionId(1),
            firm_id: FirmId(firm),
            account_id: AccountId(1),
            instrument_id: InstrumentId(1),
            partition_id: SOURCE,
            reason: Reason::None,
            side: Side::Buy,
            ord_type: OrdType::Limit,
            time_in_force: TimeInForce::Day,
            exec_inst: ExecInst::NONE,
            exec_type: ExecType::New,
            ord_status: OrdStatus::New,
            flags: RowFlags::default(),
            display_qty: Qty::ZERO,
        };
        Record { row, attributes }
    }
}

/// Encodes the group of these rows.
pub fn rows_of(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_row_count(records.len(), &mut bytes);
    records.iter().for_each(|record| put_row(&record.row, &record.attributes, &mut bytes));
    bytes
}

#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub flags: BatchFlags,
    pub rows: Vec<Record>,
}

/// The state to which a crash may take the core back.
#[derive(Clone, Default)]
struct Checkpoint {
    records: BTreeMap<Rec, Record>,
    passed: BTreeMap<Rec, Record>,
    gone: BTreeMap<Rec, Record>,
    seq: u64,
    next_rec: u64,
}

pub struct Core {
    pub epoch: Epoch,
    pub records: BTreeMap<Rec, Record>,
    /// Tombstones of deleted records.
    gone: BTreeMap<Rec, Record>,
    /// Orders that ended at once and do not change any more.
    pub passed: BTreeMap<Rec, Record>,
    /// All batches of the epoch, the first at index 0.
    pub batches: Vec<Batch>,
    pub acked: u64,
    /// The highest record number ever used, in lost history too.
    pub rec_max: Rec,
    /// The bytes of attributes of each change; random if not set.
    pub attributes_len: Option<u64>,
    /// The time of its first change; each `seq` is a millisecond after the one before. If not set,
    /// a few nanoseconds after the Unix epoch.
    pub begun_at: Option<Nanos>,
    /// The store's epoch in its last answer.
    pub store_epoch: Epoch,
    /// Ended epochs with the last valid place of each.
    ends: Vec<(Epoch, ChangeId)>,
    is_full: bool,
    is_prepared: bool,
    pending: Vec<Record>,
    seq: u64,
    next_rec: u64,
    /// Makes the order identifiers of reused record numbers different.
    generation: u64,
    remembered: Checkpoint,
}

impl Core {
    pub fn new() -> Core {
        Core {
            epoch: Epoch(1),
            records: BTreeMap::new(),
            gone: BTreeMap::new(),
            passed: BTreeMap::new(),
            batches: Vec::new(),
            acked: 0,
            rec_max: Rec(0),
            attributes_len: None,
            begun_at: None,
            store_epoch: Epoch::NONE,
            ends: Vec::new(),
            is_full: true,
            is_prepared: false,
            pending: Vec::new(),
            seq: 1,
            next_rec: 1,
            generation: 0,
            remembered: Checkpoint { seq: 1, next_rec: 1, ..Checkpoint::default() },
        }
    }

    pub fn open(&self, session_id: SessionId) -> OpenSource {
        let since = self.ends.iter().filter(|(epoch, _)| *epoch >= self.store_epoch);
        let valid_to = since.map(|(_, valid_to)| *valid_to).min().unwrap_or(ChangeId::START);
        OpenSource {
            valid_seq: valid_to.seq,
            valid_rec: valid_to.rec,
            session_id,
            epoch: self.epoch,
            valid_epoch: self.store_epoch,
            source_id: SOURCE,
            full_resend: if self.is_full && !self.is_prepared { Switch::On } else { Switch::Off },
        }
    }

    /// Enters, changes or deletes one order.
    pub fn trade(&mut self, random: &mut Random) {
        let firm = 1 + random.below(2) as u32;
        let len = self.attributes_len.unwrap_or_else(|| random.below(4) * random.below(60));
        let attributes: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
        let pick = random.below(self.records.len().max(1) as u64) as usize;
        let picked = self.records.keys().nth(pick).copied();
        match (random.below(10), picked) {
            (0..=5, Some(rec)) => {
                self.seq += 1 + random.below(2);
                let order_id = self.records[&rec].row.order_id;
                let mut record = Record::new(ChangeId::new(Seq(self.seq), rec), firm, attributes);
                record.row.order_id = order_id;
                if random.below(4) == 0 {
                    record.row.ord_status = OrdStatus::Filled;
                }
                self.keep(record);
            }
            (6..=7, Some(rec)) => {
                self.seq += 1;
                let mut record = Record::new(ChangeId::new(Seq(self.seq), rec), firm, Vec::new());
                record.row.order_id = self.records[&rec].row.order_id;
                record.row.flags = RowFlags::TOMBSTONE;
                self.records.remove(&rec);
                self.gone.insert(rec, record.clone());
                self.pending.push(record);
            }
            _ => {
                // As the exchanges number inserts: the next record at the current `seq`.
                let rec = Rec(self.next_rec);
                self.next_rec += 1;
                self.rec_max = self.rec_max.max(rec);
                let mut record = Record::new(ChangeId::new(Seq(self.seq), rec), firm, attributes);
                record.row.order_id = OrderId::new(SOURCE, Rec(rec.0 + (self.generation << 32)));
                self.keep(record);
            }
        }
    }

    /// Enters one order.
    #[allow(dead_code, reason = "the node's tests fill a store by it")]
    pub fn insert(&mut self, random: &mut Random) {
        let rec = Rec(self.next_rec);
        self.next_rec += 1;
        self.rec_max = self.rec_max.max(rec);
        let len = self.attributes_len.unwrap_or_default();
        let attributes = (0..len).map(|_| random.below(256) as u8).collect();
        let mut record = Record::new(ChangeId::new(Seq(self.seq), rec), 1, attributes);
        record.row.order_id = OrderId::new(SOURCE, Rec(rec.0 + (self.generation << 32)));
        self.keep(record);
    }

    /// Enters one order that ends at once.
    #[allow(dead_code, reason = "the node's tests let a store let go by it")]
    pub fn pass(&mut self, random: &mut Random) {
        self.seq += 1;
        self.insert(random);
        let mut record = self.pending.pop().expect("it was entered");
        record.row.ord_status = OrdStatus::Canceled;
        record.row.leaves_qty = Qty::ZERO;
        record.row.firm_id = FirmId(1 + random.below(2) as u32);
        self.records.remove(&record.row.rec);
        self.passed.insert(record.row.rec, record.clone());
        self.pending.push(record);
    }

    /// Changes a live order, which stays live.
    #[allow(dead_code, reason = "the node's tests change orders that a store has by it")]
    pub fn touch(&mut self, random: &mut Random) {
        let live = self.records.values().filter(|record| record.row.ord_status.is_live());
        let live: Vec<Rec> = live.map(|record| record.row.rec).collect();
        let Some(rec) = live.get(random.below(live.len().max(1) as u64) as usize) else { return };
        self.seq += 1;
        let mut record = self.records[rec].clone();
        record.row.seq = Seq(self.seq);
        record.row.firm_id = FirmId(1 + random.below(2) as u32);
        self.keep(record);
    }

    fn keep(&mut self, mut record: Record) {
        if let Some(begun_at) = self.begun_at {
            record.row.transact_time = Nanos(begun_at.0 + record.row.seq.0 * 1_000_000);
        }
        self.pending.push(record.clone());
        self.records.insert(record.row.rec, record);
    }

    /// Makes a batch of the changes so far, once the source was opened in this epoch.
    pub fn cut_batch(&mut self) {
        if self.is_prepared && !self.pending.is_empty() {
            let rows = std::mem::take(&mut self.pending);
            self.batches.push(Batch { flags: BatchFlags::default(), rows });
        }
    }

    pub fn is_cut(&self) -> bool {
        self.pending.is_empty()
    }

    /// True when the store has acknowledged everything.
    pub fn is_fed(&self) -> bool {
        self.is_prepared && self.is_cut() && self.acked == self.batches.len() as u64
    }

    pub fn batch(&self, number: BatchNo) -> &Batch {
        &self.batches[number.0 as usize - 1]
    }

    /// Handles the opening of the source: prepares the changes that the store lacks, once per
    /// epoch.
    pub fn opened(&mut self, next: BatchNo, head: ChangeId) {
        assert!(next.0 <= self.batches.len() as u64 + 1, "the store has what was never sent");
        self.acked = self.acked.max(next.0 - 1);
        if self.is_prepared {
            return;
        }
        self.is_prepared = true;
        self.pending.clear();
        if self.is_full {
            return self.resend_all(head);
        }
        let all = self.records.values().chain(self.gone.values()).chain(self.passed.values());
        let mut rows: Vec<Record> = all.cloned().collect();
        rows.retain(|record| ChangeId::new(record.row.seq, record.row.rec) > head);
        rows.sort_by_key(|record| (record.row.seq, record.row.rec));
        self.pending = rows;
    }

    /// Sends every record again, at places above the store's; the last batch takes a `seq` too.
    fn resend_all(&mut self, head: ChangeId) {
        let seq = self.seq.max(head.seq.0) + 1;
        let mut rows = Vec::new();
        for record in self.records.values_mut().chain(self.passed.values_mut()) {
            record.row.seq = Seq(seq);
            rows.push(record.clone());
        }
        rows.sort_by_key(|record| record.row.rec);
        let mut batches: Vec<Batch> = rows
            .chunks(7)
            .map(|rows| Batch { flags: BatchFlags::default(), rows: rows.to_vec() })
            .collect();
        if batches.is_empty() {
            batches.push(Batch::default());
        }
        let last = batches.len() - 1;
        batches[0].flags = batches[0].flags.with(BatchFlags::RESEND_BEGIN);
        batches[last].flags = batches[last].flags.with(BatchFlags::RESEND_END);
        self.batches = batches;
        self.gone.clear();
        self.seq = seq + 2;
    }

    /// Begins a full resend, because the store lacks changes that this core builds on.
    pub fn begin_resend(&mut self) {
        self.begin_epoch(true, ChangeId::new(Seq(u64::MAX), Rec(u64::MAX)));
    }

    /// Ends the epoch; its changes up to `valid_to` stay valid.
    fn begin_epoch(&mut self, is_full: bool, valid_to: ChangeId) {
        self.ends.push((self.epoch, valid_to));
        self.epoch = Epoch(self.epoch.0 + 1);
        self.is_full = is_full;
        self.is_prepared = false;
        self.batches.clear();
        self.pending.clear();
        self.acked = 0;
    }

    pub fn remember(&mut self) {
        self.remembered = Checkpoint {
            records: self.records.clone(),
            passed: self.passed.clone(),
            gone: self.gone.clone(),
            seq: self.seq,
            next_rec: self.next_rec,
        };
    }

    /// Falls back to the checkpoint and begins a new epoch; or comes back whole.
    pub fn crash(&mut self, random: &mut Random) {
        if random.below(3) == 0 {
            return;
        }
        let Checkpoint { records, passed, gone, seq, next_rec } = self.remembered.clone();
        (self.records, self.gone, self.seq, self.next_rec) = (records, gone, seq, next_rec);
        self.passed = passed;
        self.generation += 1;
        let all = self.records.values().chain(self.gone.values()).chain(self.passed.values());
        let last = all.map(|record| ChangeId::new(record.row.seq, record.row.rec)).max();
        // Record numbers above the last change were lost with it.
        self.begin_epoch(false, last.unwrap_or(ChangeId::START));
    }
}
