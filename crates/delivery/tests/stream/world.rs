//! A core, a store and readers, and a network between them that loses, repeats and reorders.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_delivery::stream::{BatchOutcome, GAP_INTERVAL, SourceStream, Window};
use weir_delivery::{Filter, OrderStore, PageLimits, Selection, StoreConfig};
use weir_types::{
    BatchNo, ChangeId, Epoch, FirmId, Nanos, OrderId, Reason, Rec, SessionId, Switch,
};
use weir_wire::delivery::{OrderRow, RowFlags};
use weir_wire::ingest::{
    BatchFlags, OpenSource, SourceAck, SourceBatch, SourceGap, SourceOpened, SourceReject,
};

use crate::core::{Batch, Core, Random, Record, SOURCE, rows_of};

pub const SESSION: SessionId = SessionId(7);
pub const WINDOW: Window = Window { batches: 8, bytes: 1 << 20 };
/// Rounds after which a stream that only has to be finished is stuck.
const ROUNDS_MAX: u64 = 10_000;

/// A message on its way to the store, next to its connection.
#[derive(Clone, Debug)]
enum ToStore {
    Open(OpenSource),
    Batch(BatchNo, Epoch, Batch),
    Gone,
}

#[derive(Clone, Debug)]
enum ToCore {
    Opened(SourceOpened),
    Ack(SourceAck),
    Gap(SourceGap),
    Reject(SourceReject),
}

/// A reader with its copy, by token. It knows orders by their identifiers, as clients do.
pub struct Reader {
    filter: Filter,
    epoch: Epoch,
    change_id: ChangeId,
    rows_max: u32,
    pub mirror: BTreeMap<OrderId, OrderRow>,
    pub resyncs: u64,
}

impl Reader {
    /// Returns a reader of a firm's orders; of all for zero.
    pub fn of_firm(firm: u32) -> Reader {
        Reader {
            filter: Filter { firm_id: FirmId(firm), ..Filter::ALL },
            epoch: Epoch::NONE,
            change_id: ChangeId::START,
            rows_max: 5,
            mirror: BTreeMap::new(),
            resyncs: 0,
        }
    }

    /// Returns the reader with pages that have all rows: the floor overtakes none of its copies.
    pub fn of_whole_pages(self) -> Reader {
        Reader { rows_max: u32::MAX, ..self }
    }

    /// True when it reads this firm's orders.
    pub fn is_of_firm(&self, firm_id: FirmId) -> bool {
        self.filter.firm_id.is_none() || self.filter.firm_id == firm_id
    }

    /// Takes pages until there is nothing new.
    pub fn read(&mut self, store: &OrderStore) {
        while self.take_page(store) {}
    }

    /// Takes a page; returns whether the reader's place has moved.
    pub fn take_page(&mut self, store: &OrderStore) -> bool {
        let before = self.change_id;
        if store.check(self.epoch, before, &self.filter).is_err() {
            self.change_id = ChangeId::START;
            self.mirror.clear();
            self.resyncs += 1;
        }
        let limits = PageLimits {
            rows_max: self.rows_max,
            bytes_max: 1 << 20,
            scan_max: self.rows_max.saturating_mul(8),
        };
        let mut selection = Selection::default();
        let page = store.select(self.change_id, &self.filter, &limits, &mut selection);
        for row in store.rows(&selection) {
            assert!(ChangeId::new(row.seq, row.rec) > self.change_id, "a reader's places grow");
            if row.flags == RowFlags::default() {
                let row = OrderRow { merged_count: 0, ..row };
                self.mirror.insert(row.order_id, row);
            } else {
                self.mirror.remove(&row.order_id);
            }
        }
        (self.change_id, self.epoch) = (page.next, store.epoch());
        self.change_id != before
    }
}

/// The state that results from the batches that were taken: nothing but a fold over them.
#[derive(Default)]
struct Model {
    records: BTreeMap<Rec, Record>,
    resent: Option<BTreeSet<Rec>>,
}

pub struct World {
    random: Random,
    now: Nanos,
    core: Core,
    connection: u64,
    is_open: bool,
    sent: u64,
    stream: SourceStream,
    store: OrderStore,
    model: Model,
    /// The epoch and number of the last batch that the model has.
    modelled: (Epoch, u64),
    to_store: VecDeque<(u64, ToStore)>,
    to_core: VecDeque<(u64, ToCore)>,
    pub readers: Vec<Reader>,
    pub met: BTreeMap<&'static str, u64>,
}

pub fn store() -> OrderStore {
    OrderStore::new(StoreConfig::new(SOURCE, Epoch::NONE))
}

impl World {
    pub fn new(seed: u64) -> World {
        World {
            random: Random(seed),
            now: Nanos(1),
            core: Core::new(),
            connection: 1,
            is_open: false,
            sent: 0,
            stream: SourceStream::new(SOURCE, WINDOW),
            store: store(),
            model: Model::default(),
            modelled: (Epoch::NONE, 0),
            to_store: VecDeque::new(),
            to_core: VecDeque::new(),
            readers: (0..3).map(Reader::of_firm).collect(),
            met: BTreeMap::new(),
        }
    }

    fn meet(&mut self, what: &'static str) {
        *self.met.entry(what).or_insert(0) += 1;
    }

    pub fn step(&mut self) {
        self.now.0 += 1_000_000;
        match self.random.below(100) {
            0..=24 => self.core.trade(&mut self.random),
            25..=39 => self.core_sends(),
            40..=64 => self.store_hears(),
            65..=84 => self.core_hears(),
            85..=94 => {
                let reader = self.random.below(3) as usize;
                self.read(reader);
            }
            95 => self.reconnect(),
            96 => self.disturb(),
            97 => self.now.0 += GAP_INTERVAL.0,
            98 if self.random.below(20) == 0 => self.core_crashes(),
            99 if self.random.below(60) == 0 => self.store_crashes(),
            _ => self.core.remember(),
        }
    }

    fn send(&mut self, message: ToStore) {
        self.to_store.push_back((self.connection, message));
    }

    fn core_sends(&mut self) {
        if !self.is_open {
            let open = self.core.open(SESSION);
            return self.send(ToStore::Open(open));
        }
        self.core.cut_batch();
        let end = self.core.batches.len() as u64;
        while self.sent < end && self.sent < self.core.acked + u64::from(WINDOW.batches) {
            self.sent += 1;
            let number = BatchNo(self.sent);
            let batch = self.core.batch(number).clone();
            self.send(ToStore::Batch(number, self.core.epoch, batch));
        }
    }

    /// Delivers one message to the store, or loses, repeats or reorders it.
    fn store_hears(&mut self) {
        self.sweep();
        if self.stream.is_sweeping() {
            return;
        }
        let Some((from, message)) = self.take_to_store() else { return self.remind() };
        match message {
            ToStore::Gone => self.stream.close(from),
            ToStore::Open(open) => {
                let before = self.stream.epoch();
                let answer = self.stream.open(&open, from, &mut self.store);
                if self.stream.epoch() > before && open.full_resend == Switch::On {
                    let is_known = open.valid_epoch == before;
                    let valid_to = ChangeId::new(open.valid_seq, open.valid_rec);
                    self.void_ends(if is_known { valid_to } else { ChangeId::START });
                }
                let answer = answer.map_or_else(ToCore::Reject, ToCore::Opened);
                self.to_core.push_back((from, answer));
            }
            ToStore::Batch(number, epoch, batch) => self.offer(from, number, epoch, &batch),
        }
    }

    /// Removes the orders from the model whose end is void: the core sends them again, or not.
    /// The store tells their tombstones at those places.
    fn void_ends(&mut self, valid_to: ChangeId) {
        self.model.records.retain(|_, Record { row, .. }| {
            row.ord_status.is_live() || ChangeId::new(row.seq, row.rec) <= valid_to
        });
    }

    fn take_to_store(&mut self) -> Option<(u64, ToStore)> {
        let front = self.to_store.pop_front()?;
        // The end of a connection is not a message: it is neither lost nor overtaken.
        if matches!(front.1, ToStore::Gone) {
            return Some(front);
        }
        match self.random.below(40) {
            0 => {
                self.meet("lost");
                None
            }
            1 => {
                self.meet("repeated");
                self.to_store.push_front(front.clone());
                Some(front)
            }
            2 if matches!(self.to_store.front(), Some((_, ToStore::Batch(..)))) => {
                self.meet("overtaken");
                let next = self.to_store.pop_front();
                self.to_store.push_front(front);
                next
            }
            _ => Some(front),
        }
    }

    fn offer(&mut self, from: u64, number: BatchNo, epoch: Epoch, batch: &Batch) {
        let head = SourceBatch {
            batch_no: number,
            sending_time: self.now,
            session_id: SESSION,
            epoch,
            source_id: SOURCE,
            flags: batch.flags,
        };
        let before = self.stream.next_batch_no();
        let bytes = rows_of(&batch.rows);
        let rows = weir_wire::rows::take_rows(&bytes).expect("whole rows").0;
        let taken = self.stream.offer(&head, rows, from, &mut self.store, self.now);
        if self.stream.next_batch_no() > before {
            self.model(number, epoch, batch);
        }
        let answer = match taken {
            BatchOutcome::Stands(ack) => ToCore::Ack(ack),
            BatchOutcome::Gap(gap) => ToCore::Gap(gap),
            BatchOutcome::Rejected(reject) => ToCore::Reject(reject),
            BatchOutcome::Sweeps | BatchOutcome::Early => return,
        };
        self.to_core.push_back((from, answer));
    }

    /// Folds a batch into the model: each once, and in the order of their numbers.
    fn model(&mut self, number: BatchNo, epoch: Epoch, batch: &Batch) {
        let follows = if self.modelled.0 == epoch { self.modelled.1 + 1 } else { 1 };
        assert_eq!(number.0, follows, "batches are taken in order");
        self.modelled = (epoch, number.0);
        let model = &mut self.model;
        if batch.flags.contains(BatchFlags::RESEND_BEGIN) {
            model.resent = Some(BTreeSet::new());
        }
        for record in &batch.rows {
            let rec = record.row.rec;
            if record.row.flags == RowFlags::TOMBSTONE {
                model.records.remove(&rec);
            } else {
                model.records.insert(rec, record.clone());
            }
            if let Some(resent) = &mut model.resent {
                resent.insert(rec);
            }
        }
        if batch.flags.contains(BatchFlags::RESEND_END) {
            let resent = model.resent.take().expect("it began");
            model.records.retain(|rec, _| resent.contains(rec));
            self.met.entry("resend").and_modify(|count| *count += 1).or_insert(1);
        }
        let touched: Vec<Rec> = batch.rows.iter().map(|record| record.row.rec).collect();
        touched.into_iter().for_each(|rec| self.check_record(rec));
    }

    fn check_record(&self, rec: Rec) {
        let wanted = self.model.records.get(&rec);
        assert_eq!(self.store.get(rec), wanted.map(|record| record.row), "record {rec}");
        let attributes = wanted.map(|record| &record.attributes[..]);
        assert_eq!(self.store.attributes(rec), attributes, "record {rec}");
    }

    pub fn check_all(&self) {
        if self.stream.is_sweeping() {
            return;
        }
        (0..=self.core.rec_max.0 + 1).for_each(|rec| self.check_record(Rec(rec)));
    }

    fn sweep(&mut self) {
        if let Some(ack) = self.stream.sweep(3, &mut self.store) {
            self.to_core.push_back((self.connection, ToCore::Ack(ack)));
            self.meet("swept");
        }
    }

    fn remind(&mut self) {
        if let Some(gap) = self.stream.remind(self.now) {
            self.to_core.push_back((self.connection, ToCore::Gap(gap)));
            self.meet("reminded");
        }
    }

    fn core_hears(&mut self) {
        let Some((to, message)) = self.to_core.pop_front() else { return };
        if to != self.connection || self.random.below(40) == 0 {
            return;
        }
        match message {
            ToCore::Opened(opened) if opened.epoch == self.core.epoch => {
                let head = ChangeId::new(opened.head_seq, opened.head_rec);
                self.core.opened(opened.next_batch_no, head);
                self.is_open = true;
                self.core.store_epoch = opened.epoch;
                self.sent = opened.next_batch_no.0 - 1;
            }
            ToCore::Ack(ack) if ack.epoch == self.core.epoch => {
                self.core.acked = self.core.acked.max(ack.batch_no.0);
            }
            ToCore::Gap(gap) if gap.epoch == self.core.epoch => {
                self.sent = self.sent.min(gap.next_batch_no.0 - 1);
                self.meet("gap");
            }
            ToCore::Reject(reject) => self.rejected(&reject),
            _ => {}
        }
    }

    fn rejected(&mut self, reject: &SourceReject) {
        self.is_open = false;
        self.core.store_epoch = reject.epoch;
        match reject.reason {
            Reason::ResendNeeded => {
                self.meet("resend needed");
                self.core.begin_resend();
            }
            // A leftover in the network of an earlier epoch or connection.
            Reason::EpochNotOpen | Reason::EpochWentBack | Reason::SourceNotOpen => {}
            // The same opening again, overtaken by the first batch.
            Reason::ResendNeedsEpoch => self.meet("asked again"),
            Reason::SourceAlreadyOpen => self.meet("open already"),
            // After a gap, up to a window of batches may still be in a slow network.
            Reason::WindowOverrun => self.meet("window"),
            other => panic!("{other:?}: {reject:?}"),
        }
    }

    fn reconnect(&mut self) {
        self.meet("reconnect");
        let before = self.connection;
        self.connection += 1;
        self.is_open = false;
        if self.random.below(8) == 0 {
            // The store learns of the new connection before it learns that the old one is gone.
            self.core_sends();
        }
        self.to_store.push_back((before, ToStore::Gone));
    }

    /// Closes the source without a message to the core, which notices the silence and opens it
    /// again.
    fn disturb(&mut self) {
        self.is_open = false;
    }

    fn core_crashes(&mut self) {
        self.meet("core crash");
        self.reconnect();
        self.core.crash(&mut self.random);
    }

    fn store_crashes(&mut self) {
        self.meet("store crash");
        self.store = store();
        self.stream = SourceStream::new(SOURCE, WINDOW);
        self.model = Model::default();
        self.modelled = (Epoch::NONE, 0);
        // Its connections die with it: their messages never arrive.
        self.to_store.clear();
        self.reconnect();
    }

    fn read(&mut self, index: usize) {
        if !self.stream.is_whole() {
            return;
        }
        self.readers[index].take_page(&self.store);
    }

    /// Brings everything to rest: the core sends the rest, and readers read to the end.
    pub fn settle(&mut self) {
        for round in 0..ROUNDS_MAX {
            self.now.0 += GAP_INTERVAL.0;
            // The last acknowledgement may be lost too.
            let is_quiet = !self.is_open || round % 50 == 49;
            if is_quiet && self.to_store.is_empty() && self.to_core.is_empty() {
                self.reconnect();
            }
            self.core_sends();
            for _ in 0..10 {
                self.store_hears();
                self.core_hears();
            }
            if self.is_open
                && self.core.is_fed()
                && self.to_store.is_empty()
                && self.stream.is_whole()
            {
                return self.check_settled();
            }
        }
        panic!("the stream does not come to rest: {:?}", self.stream);
    }

    fn check_settled(&mut self) {
        self.check_all();
        let of_core = self.core.records.values().map(|record| (record.row.order_id, record.row));
        let wanted: BTreeMap<OrderId, OrderRow> = of_core.collect();
        for index in 0..self.readers.len() {
            self.readers[index].read(&self.store);
            let reader = &self.readers[index];
            let mut seen = wanted.clone();
            seen.retain(|_, row| reader.is_of_firm(row.firm_id));
            assert_eq!(reader.mirror, seen, "reader {index}");
        }
        self.meet("settled");
    }
}
