//! A core that lies: every number at its ends, batches sent again with other content, epochs and
//! resends at any time, a store at its limit, failures of the store, snapshots and starts in
//! between. Nothing panics, a start takes each entry that was taken, and readers see rows of
//! accepted batches alone.
//!
//! The model is the latest row of each record in the batches that were acknowledged. Store and
//! readers are compared with it; readers know orders by their identifiers.
//!
//! `WEIR_LIE_SEEDS` sets the number of seeds.

#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

use std::collections::{BTreeMap, BTreeSet};

use weir_delivery::memory::EVENT_GROWTH_MAX;
use weir_delivery::replay::STREAM_STATE_LEN;
use weir_delivery::stream::{BatchOutcome, SourceStream};
use weir_delivery::{
    ChunkOutcome, Filter, OrderStore, PageLimits, Restore, Selection, StoreConfig,
};
use weir_types::{
    BatchNo, ChangeId, Epoch, FirmId, Nanos, OrdStatus, OrderId, PartitionId, Reason, Rec, Seq,
    Switch,
};
use weir_wire::Message;
use weir_wire::delivery::{OrderRow, RowFlags};
use weir_wire::dialogue::put_source_batch;
use weir_wire::frame::put_frame;
use weir_wire::ingest::{BatchFlags, OpenSource, SourceBatch};

use crate::core::{Random, Record, SOURCE, rows_of};
use crate::world::{Reader, SESSION, WINDOW, store};
use crate::{offer, open_of, opened, record, refusal};

fn seeds() -> u64 {
    let text = std::env::var("WEIR_LIE_SEEDS").unwrap_or_default();
    text.parse().unwrap_or(400)
}

/// A batch as it was sent.
#[derive(Clone)]
struct Batch {
    head: SourceBatch,
    rows: Vec<Record>,
}

/// A snapshot with the number of entries before it.
struct Snapshot {
    at: usize,
    state: Vec<u8>,
    chunks: Vec<u8>,
}

struct Lies {
    random: Random,
    stream: SourceStream,
    store: OrderStore,
    /// The entries that were taken.
    log: Vec<Vec<u8>>,
    snapshot: Option<Snapshot>,
    last: Option<Batch>,
    records: BTreeMap<Rec, OrderRow>,
    resent: Option<BTreeSet<Rec>>,
    /// The rows of accepted batches, encoded.
    accepted: BTreeSet<Vec<u8>>,
    met: BTreeMap<Reason, u64>,
    /// Of all orders, and of a firm's; they go on from where they are.
    readers: Vec<Reader>,
    /// True when the store has a limit now and then, and removes ended orders early.
    is_limited: bool,
}

/// Returns a row with any numbers; order identifiers have 48 bits for one.
fn record_at(place: ChangeId, firm: u32, attributes: Vec<u8>) -> Record {
    let id = Rec(place.rec.0 & ((1 << 48) - 1));
    let mut record = Record::new(ChangeId::new(place.seq, id), firm, attributes);
    record.row.rec = place.rec;
    record
}

fn block_of(row: &OrderRow) -> Vec<u8> {
    let mut block = Vec::new();
    OrderRow { merged_count: 0, ..*row }.encode_block(&mut block);
    block
}

impl Lies {
    fn new(seed: u64) -> Lies {
        Lies {
            random: Random(seed),
            stream: SourceStream::new(SOURCE, WINDOW),
            store: store(),
            log: Vec::new(),
            snapshot: None,
            last: None,
            records: BTreeMap::new(),
            resent: None,
            accepted: BTreeSet::new(),
            met: BTreeMap::new(),
            readers: (0..2).map(|firm| Reader::of_firm(firm).of_whole_pages()).collect(),
            is_limited: seed % 2 == 1,
        }
    }

    /// Returns a number near `near`, or now and then at an end of its type.
    fn number(&mut self, near: u64, max: u64) -> u64 {
        let ends = [0, 1, max, max - 1, max / 2, max / 2 + 1, near.saturating_sub(1), near];
        match self.random.below(60) {
            at @ 0..=7 => ends[at as usize].min(max),
            8 => self.random.below(max),
            _ => near.saturating_add(self.random.below(4)).min(max),
        }
    }

    fn is_one_in(&mut self, count: u64) -> bool {
        self.random.below(count) == 0
    }

    fn step(&mut self) {
        match self.random.below(40) {
            0..=3 => self.open(),
            4..=31 => self.batch(),
            32 | 33 => self.send_again(),
            34 => self.fail(),
            35 => self.take_snapshot(),
            36 => self.restart(),
            37 if self.is_limited => self.limit(),
            _ => drop(self.stream.sweep(3, &mut self.store)),
        }
        self.check();
    }

    /// Gives the store room for a few rows, or any number.
    fn limit(&mut self) {
        let room = self.random.below(12) * 1_024;
        let bytes_max = self.store.memory().total + EVENT_GROWTH_MAX + room;
        let bytes_max = if self.is_one_in(3) { u64::MAX } else { bytes_max };
        self.store.set_bytes_max(bytes_max);
    }

    fn sweep(&mut self) {
        // A sweep waits for room.
        let bytes_max = self.store.bytes_max();
        self.store.set_bytes_max(u64::MAX);
        while self.stream.is_sweeping() {
            let _ = self.stream.sweep(1_000, &mut self.store);
        }
        self.store.set_bytes_max(bytes_max);
    }

    fn open(&mut self) {
        self.sweep();
        let head = self.store.complete_to();
        let epoch = u64::from(self.stream.epoch().0);
        // An epoch or a place at the end of its type leaves room for nothing behind it.
        let opened = match self.is_one_in(20) {
            true => self.number(epoch + 1, u64::from(u32::MAX)) as u32,
            false => self.stream.epoch().0.saturating_add(self.random.below(2) as u32),
        };
        let valid_epoch = self.number(epoch, u64::from(u32::MAX)) as u32;
        let is_known = !self.is_one_in(4);
        let open = OpenSource {
            valid_seq: Seq(self.number(head.seq.0, u64::MAX)),
            valid_rec: Rec(self.number(head.rec.0, u64::MAX)),
            session_id: SESSION,
            epoch: Epoch(opened),
            valid_epoch: if is_known { self.stream.epoch() } else { Epoch(valid_epoch) },
            source_id: SOURCE,
            full_resend: if self.is_one_in(3) { Switch::Off } else { Switch::On },
        };
        let kept = self.stream.entry_of(&open);
        match self.stream.open(&open, 1, &mut self.store) {
            Err(reject) => *self.met.entry(reject.reason).or_default() += 1,
            Ok(_) if u64::from(self.stream.epoch().0) != epoch => {
                let mut entry = Vec::new();
                put_frame(&kept, &mut entry);
                self.log.push(entry);
                self.resent = None;
            }
            Ok(_) => {}
        }
    }

    fn row(&mut self, seq: u64) -> Record {
        let rec = 1 + self.random.below(12);
        let place = match self.is_one_in(10) {
            true => (self.number(seq, u64::MAX), self.number(rec, u64::MAX)),
            false => (seq + self.random.below(3), rec),
        };
        let place = ChangeId::new(Seq(place.0), Rec(place.1));
        let attributes = vec![7; self.random.below(19) as usize * 32];
        let mut record = record_at(place, 1 + self.random.below(3) as u32, attributes);
        let row = &mut record.row;
        if self.random.below(3) == 0 {
            row.ord_status = OrdStatus::Filled;
        }
        match self.random.below(60) {
            0 => row.transact_time = Nanos(self.number(1, u64::MAX)),
            1 => row.created_time = Nanos(self.number(1, u64::MAX)),
            2 => row.expire_time = Nanos(self.number(1, u64::MAX)),
            3 => row.partition_id = PartitionId(self.random.below(1 << 16) as u16),
            4 => row.order_id = OrderId::new(SOURCE, Rec(self.random.below(1 << 40))),
            5 => row.flags = RowFlags::LEAVE,
            6..=9 => row.flags = RowFlags::TOMBSTONE,
            10 => row.merged_count = u32::MAX,
            11 => row.firm_id = FirmId(u32::MAX),
            _ => {}
        }
        record
    }

    fn batch(&mut self) {
        if !self.stream.is_open() {
            self.open();
        }
        let mut seq = self.store.complete_to().seq.0;
        let mut rows = Vec::new();
        for _ in 0..self.random.below(5) {
            seq = seq.saturating_add(1);
            rows.push(self.row(seq));
            seq = rows.last().map_or(seq, |record| record.row.seq.0).min(seq + 9);
        }
        let flags = match self.random.below(8) {
            0 => BatchFlags::RESEND_BEGIN,
            1 => BatchFlags::RESEND_END,
            2 | 3 => BatchFlags::RESEND_BEGIN.with(BatchFlags::RESEND_END),
            _ => BatchFlags::default(),
        };
        let epoch = u64::from(self.stream.epoch().0);
        let is_right = !self.is_one_in(30);
        let head = SourceBatch {
            batch_no: match is_right {
                true => self.stream.next_batch_no(),
                false => BatchNo(self.number(self.stream.next_batch_no().0, u64::MAX)),
            },
            sending_time: Nanos(self.number(1, u64::MAX)),
            session_id: SESSION,
            epoch: match is_right {
                true => self.stream.epoch(),
                false => Epoch(self.number(epoch, u64::from(u32::MAX)) as u32),
            },
            source_id: SOURCE,
            flags,
        };
        self.send(Batch { head, rows });
    }

    /// Sends the last batch again, perhaps with other content, or as the next one.
    fn send_again(&mut self) {
        let Some(mut batch) = self.last.clone() else { return };
        if self.is_one_in(2) {
            batch.head.batch_no = self.stream.next_batch_no();
        }
        if let Some(record) = batch.rows.first_mut() {
            record.row.firm_id = FirmId(9);
        }
        self.send(batch);
    }

    fn send(&mut self, batch: Batch) {
        self.sweep();
        let bytes = rows_of(&batch.rows);
        let rows = weir_wire::rows::take_rows(&bytes).expect("whole rows").0;
        let (epoch, before) = (self.stream.epoch(), self.stream.next_batch_no());
        let taken = self.stream.offer(&batch.head, rows, 1, &mut self.store, Nanos(1));
        if let BatchOutcome::Rejected(reject) = taken {
            *self.met.entry(reject.reason).or_default() += 1;
        }
        if self.stream.next_batch_no() != before {
            assert_eq!(epoch, batch.head.epoch);
            let mut entry = Vec::new();
            let rows = batch.rows.iter().map(|record| (record.row, &record.attributes[..]));
            put_source_batch(&batch.head, rows, &mut entry);
            self.log.push(entry);
            self.fold(&batch);
        }
        self.last = Some(batch);
    }

    fn fold(&mut self, batch: &Batch) {
        if batch.head.flags.contains(BatchFlags::RESEND_BEGIN) {
            self.resent = Some(BTreeSet::new());
        }
        for Record { row, .. } in &batch.rows {
            self.accepted.insert(block_of(row));
            match row.flags.contains(RowFlags::TOMBSTONE) {
                true => _ = self.records.remove(&row.rec),
                false => _ = self.records.insert(row.rec, OrderRow { merged_count: 0, ..*row }),
            }
            self.resent.iter_mut().for_each(|resent| _ = resent.insert(row.rec));
        }
        if batch.head.flags.contains(BatchFlags::RESEND_END)
            && let Some(resent) = self.resent.take()
        {
            self.records.retain(|rec, _| resent.contains(rec));
        }
    }

    /// The store breaks an invariant, and the source begins with an empty one.
    fn fail(&mut self) {
        if self.is_one_in(4) {
            self.store = self.stream.fail(&self.store);
            // A start goes back to what came before, if no resend followed.
            self.snapshot = None;
        }
    }

    fn take_snapshot(&mut self) {
        let (mut state, mut chunks) = (Vec::new(), Vec::new());
        self.stream.put_state(&mut state);
        assert_eq!(state.len(), STREAM_STATE_LEN);
        self.store.begin_snapshot();
        while self.store.snapshot_chunk(1 << 16, &mut chunks).unwrap() == ChunkOutcome::More {}
        self.snapshot = Some(Snapshot { at: self.log.len(), state, chunks });
    }

    /// Starts from the snapshot and the entries behind it, or from all entries.
    fn restart(&mut self) {
        self.sweep();
        let config = StoreConfig::new(SOURCE, Epoch::NONE);
        let (at, mut stream, mut store) = match &self.snapshot {
            Some(Snapshot { at, state, chunks }) => {
                let stream = SourceStream::from_state(SOURCE, WINDOW, state).expect("its own");
                let (mut restore, mut chunks) = (Restore::new(config), &chunks[..]);
                while !chunks.is_empty() {
                    chunks = &chunks[restore.take(chunks).unwrap()..];
                }
                let mut store = restore.finish().unwrap();
                stream.join(&mut store);
                (*at, stream, store)
            }
            None => (0, SourceStream::new(SOURCE, WINDOW), OrderStore::new(config)),
        };
        for entry in &self.log[at..] {
            stream.replay(entry, &mut store).expect("it was taken once");
        }
        let _ = stream.end_replay(&mut store);
        assert_eq!(
            (stream.epoch(), stream.next_batch_no()),
            (self.stream.epoch(), self.stream.next_batch_no())
        );
        if self.stream.is_whole() {
            assert!(stream.is_whole());
            let of = |store: &OrderStore| (store.live_count(), store.digest(&Filter::ALL));
            assert_eq!(of(&store), of(&self.store));
        }
        (self.stream, self.store) = (stream, store);
    }

    /// Checks the rows that a reader may get now.
    fn check(&mut self) {
        if !self.stream.is_whole() {
            return;
        }
        for (rec, row) in &self.records {
            let got = self.store.get(*rec);
            if got.is_none() && self.is_limited && !row.ord_status.is_live() {
                continue;
            }
            assert_eq!(got.map(|row| OrderRow { merged_count: 0, ..row }), Some(*row));
        }
        let live = self.records.values().filter(|row| row.ord_status.is_live()).count();
        assert_eq!(self.store.live_count() as usize, live);
        let limits = PageLimits { rows_max: 60_000, bytes_max: u32::MAX, scan_max: u32::MAX };
        let mut selection = Selection::default();
        let _ = self.store.select(ChangeId::START, &Filter::ALL, &limits, &mut selection);
        for row in self.store.rows(&selection) {
            let is_row = row.flags == RowFlags::default();
            assert!(!is_row || self.accepted.contains(&block_of(&row)), "{row:?} was refused");
        }
        let mut new = Reader::of_firm(0).of_whole_pages();
        self.check_reader(&mut new);
        // One that reads seldom is told of more at once.
        let index = self.random.below(8) as usize;
        if index < self.readers.len() {
            let mut reader = self.readers.swap_remove(index);
            self.check_reader(&mut reader);
            self.readers.push(reader);
        }
    }

    /// Checks that a reader, which knows orders and no record numbers, has those of the model.
    fn check_reader(&self, reader: &mut Reader) {
        reader.read(&self.store);
        // An end that the store had to discard may have no tombstone.
        let is_judged = |row: &&OrderRow| !self.is_limited || row.ord_status.is_live();
        let of_model = self.records.values().filter(|row| reader.is_of_firm(row.firm_id));
        let want: BTreeMap<OrderId, OrderRow> =
            of_model.filter(is_judged).map(|row| (row.order_id, *row)).collect();
        let got: BTreeMap<OrderId, OrderRow> =
            reader.mirror.values().filter(is_judged).map(|row| (row.order_id, *row)).collect();
        assert_eq!(got, want, "a reader");
    }
}

/// Prints the seed of a failure.
struct SeedOfFailure(u64);

impl Drop for SeedOfFailure {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}

#[test]
fn a_core_that_lies_stops_nothing_and_no_refused_row_is_seen() {
    let mut met: BTreeMap<Reason, u64> = BTreeMap::new();
    for seed in 0..seeds() {
        let _seed = SeedOfFailure(seed);
        let mut lies = Lies::new(seed);
        (0..300).for_each(|_| lies.step());
        lies.restart();
        lies.check();
        lies.met.into_iter().for_each(|(reason, count)| *met.entry(reason).or_default() += count);
    }
    let wanted = [
        Reason::RecOutOfRange,
        Reason::SeqOutOfRange,
        Reason::TimeOutOfRange,
        Reason::EpochOutOfRange,
        Reason::EpochWentBack,
        Reason::EpochNotOpen,
        Reason::BatchOutOfRange,
        Reason::WindowOverrun,
        Reason::ResendNeeded,
        Reason::ResendNeedsEpoch,
        Reason::ResendMisplaced,
        Reason::PlaceWentBack,
        Reason::RecTooFar,
        Reason::WrongSource,
        Reason::RowMalformed,
        Reason::OrderIdChanged,
        Reason::BatchChanged,
        Reason::StoreFull,
    ];
    let missing: Vec<_> = wanted.iter().filter(|reason| !met.contains_key(*reason)).collect();
    assert!(missing.is_empty(), "never met {missing:?}: {met:?}");
    let (seeds, refusals) = (seeds(), met.values().sum::<u64>());
    println!(
        "{{\"campaign\": \"lies\", \"of\": \"model\", \"seeds\": {seeds}, \
         \"refusals\": {refusals}}}"
    );
}

/// The last record number and the last `seq` once ended the process, at every start again.
#[test]
pub fn numbers_at_the_ends_of_their_types_are_refused_by_their_field() {
    const MAX: u64 = u64::MAX >> 1;
    let both = BatchFlags::RESEND_BEGIN.with(BatchFlags::RESEND_END);
    let at = |seq, rec| record_at(ChangeId::new(Seq(seq), Rec(rec)), 1, Vec::new());
    let late = |change: fn(&mut OrderRow)| {
        let mut late = record(1, 1);
        change(&mut late.row);
        late
    };
    let cases = [
        (at(1, u64::MAX), Reason::RecOutOfRange),
        (at(1, MAX + 1), Reason::RecOutOfRange),
        (record(u64::MAX, 1), Reason::SeqOutOfRange),
        (record(u64::MAX - 1, 1), Reason::SeqOutOfRange),
        (record(MAX + 1, 1), Reason::SeqOutOfRange),
        (late(|row| row.transact_time = Nanos(MAX + 1)), Reason::TimeOutOfRange),
        (late(|row| row.created_time = Nanos(u64::MAX)), Reason::TimeOutOfRange),
        (late(|row| row.expire_time = Nanos(u64::MAX)), Reason::TimeOutOfRange),
    ];
    for (wrong, reason) in cases {
        let (mut stream, mut store) = (SourceStream::new(SOURCE, WINDOW), store());
        let _ = stream.open(&open_of(1, ChangeId::START, Switch::On), 1, &mut store).unwrap();
        let taken = offer(&mut stream, &mut store, 1, 1, both, &[wrong]);
        assert_eq!(refusal(taken), (reason, 1, 1));
        assert_eq!((store.head(), stream.is_open()), (ChangeId::START, false));
    }
    // What is at the bound is taken, and the source goes on in another epoch.
    let (mut stream, mut store) = (SourceStream::new(SOURCE, WINDOW), store());
    let _ = stream.open(&open_of(1, ChangeId::START, Switch::On), 1, &mut store).unwrap();
    let taken = offer(&mut stream, &mut store, 1, 1, both, &[at(MAX, MAX)]);
    assert_eq!(taken, BatchOutcome::Sweeps);
    assert!(stream.sweep(9, &mut store).is_some());
    let _ = stream.open(&open_of(2, store.head(), Switch::On), 1, &mut store).unwrap();
    let taken = offer(&mut stream, &mut store, 1, 2, both, &[at(MAX, MAX)]);
    assert_eq!(refusal(taken).0, Reason::PlaceWentBack);
    let last = open_of(u32::MAX, ChangeId::START, Switch::On);
    let refused = stream.open(&last, 1, &mut store).unwrap_err();
    assert_eq!((refused.reason, refused.epoch), (Reason::EpochOutOfRange, Epoch(2)));
}

/// Returns the stream as a start finds it.
fn state_copy(stream: &SourceStream) -> SourceStream {
    let mut state = Vec::new();
    stream.put_state(&mut state);
    SourceStream::from_state(SOURCE, WINDOW, &state).expect("its own state")
}

#[test]
pub fn a_store_that_failed_asks_for_a_resend_in_a_later_epoch_and_honours_no_token() {
    let (mut stream, mut store) = opened();
    let far = 3 << 24;
    let rows = [record(5, 1), record(5, 1 << 24), record(6, far)];
    let _ = offer(&mut stream, &mut store, 2, 1, BatchFlags::default(), &rows);
    let token = store.head();
    store = stream.fail(&store);
    assert!(!stream.is_whole() && !stream.is_open() && stream.has_failed());
    let cases = [
        (1, Switch::Off, Reason::ResendNeeded),
        (1, Switch::On, Reason::ResendNeedsEpoch),
        (2, Switch::Off, Reason::ResendNeeded),
        (0, Switch::On, Reason::EpochWentBack),
    ];
    for (epoch, full, reason) in cases {
        let mut stream = state_copy(&stream);
        let refused = stream.open(&open_of(epoch, token, full), 1, &mut store).unwrap_err();
        assert_eq!((refused.reason, refused.head_seq), (reason, token.seq), "{epoch} {full:?}");
    }
    let _ = stream.open(&open_of(2, token, Switch::On), 1, &mut store).unwrap();
    let both = BatchFlags::RESEND_BEGIN.with(BatchFlags::RESEND_END);
    let taken = offer(&mut stream, &mut store, 1, 2, both, &[record(6, far)]);
    assert_eq!(refusal(taken).0, Reason::PlaceWentBack, "its places go on");
    let _ = stream.open(&open_of(2, token, Switch::Off), 1, &mut store).unwrap();
    // The highest number so far is known, so that this is no jump.
    let rows = [record(7, 1), record(7, far + (1 << 24))];
    let taken = offer(&mut stream, &mut store, 1, 2, both, &rows);
    assert_eq!(taken, BatchOutcome::Sweeps);
    assert!(stream.sweep(9, &mut store).is_some());
    assert!(stream.is_whole());
    assert!(store.check(Epoch(1), token, &Filter::ALL).is_err());
    assert_eq!(store.live_count(), 2);
}

/// The core may give other orders the numbers of those that the store lost, since no token from
/// before is honoured; a start, which has those orders again, does not know of the failure.
#[test]
pub fn a_start_honours_no_token_from_before_a_failure_and_the_resend_behind_it() {
    let (mut stream, mut store) = (SourceStream::new(SOURCE, WINDOW), store());
    let both = BatchFlags::RESEND_BEGIN.with(BatchFlags::RESEND_END);
    let mut other = record(7, 2);
    other.row.order_id = OrderId::new(SOURCE, Rec(99));
    let mut log = Vec::new();
    let mut token = ChangeId::START;
    for (epoch, rows) in [(1, vec![record(5, 1), record(5, 2)]), (2, vec![record(7, 1), other])] {
        let open = open_of(epoch, token, Switch::On);
        let mut entry = Vec::new();
        put_frame(&stream.entry_of(&open), &mut entry);
        log.push(entry);
        let _ = stream.open(&open, 1, &mut store).unwrap();
        assert_eq!(
            offer(&mut stream, &mut store, 1, epoch, both, &rows),
            BatchOutcome::Sweeps,
            "the numbers are free"
        );
        log.push(entry_of(epoch, both, &rows));
        assert!(stream.sweep(9, &mut store).is_some());
        if epoch == 1 {
            token = store.head();
            store = stream.fail(&store);
        }
    }
    let mut started = OrderStore::new(StoreConfig::new(SOURCE, Epoch::NONE));
    let mut stream = SourceStream::new(SOURCE, WINDOW);
    log.iter().for_each(|entry| stream.replay(entry, &mut started).unwrap());
    let _ = stream.end_replay(&mut started);
    for store in [&store, &started] {
        assert!(store.check(Epoch(1), token, &Filter::ALL).is_err(), "it was told of order 2");
        let mut reader = Reader::of_firm(0);
        reader.read(store);
        let orders: Vec<u64> = reader.mirror.keys().map(|order_id| order_id.rec().0).collect();
        assert_eq!(orders, [1, 99]);
    }
}

/// Returns a batch with number 1 as an entry.
fn entry_of(epoch: u32, flags: BatchFlags, rows: &[Record]) -> Vec<u8> {
    let head = SourceBatch {
        batch_no: BatchNo(1),
        sending_time: Nanos(1),
        session_id: SESSION,
        epoch: Epoch(epoch),
        source_id: SOURCE,
        flags,
    };
    let rows = rows.iter().map(|record| (record.row, &record.attributes[..]));
    let mut entry = Vec::new();
    put_source_batch(&head, rows, &mut entry);
    entry
}

/// Other content under the number of a batch that was taken is a lie, and no repeat.
#[test]
pub fn a_batch_that_comes_again_with_other_rows_is_refused() {
    let plain = BatchFlags::default();
    let rows = [record(5, 1), record(6, 2)];
    let mut other = rows.clone();
    other[1].attributes = b"other".to_vec();
    let fewer = rows[..1].to_vec();
    for (flags, lie) in
        [(plain, other.to_vec()), (plain, fewer), (BatchFlags::RESEND_END, rows.to_vec())]
    {
        let (mut stream, mut store) = opened();
        let _ = offer(&mut stream, &mut store, 2, 1, plain, &rows);
        let _ = offer(&mut stream, &mut store, 3, 1, plain, &[record(9, 3)]);
        let again = offer(&mut stream, &mut store, 2, 1, plain, &rows);
        assert!(matches!(again, BatchOutcome::Stands(ack) if ack.batch_no == BatchNo(3)));
        let taken = offer(&mut stream, &mut store, 2, 1, flags, &lie);
        assert_eq!(refusal(taken), (Reason::BatchChanged, 2, 0));
        assert!(!stream.is_open() && stream.next_batch_no() == BatchNo(4));
        assert_eq!(store.attributes(Rec(2)), Some(&b"some"[..]));
        // A start no longer knows the batches before its snapshot: they are repeats.
        let mut stream = state_copy(&stream);
        let _ = stream.open(&open_of(1, ChangeId::START, Switch::Off), 1, &mut store).unwrap();
        let taken = offer(&mut stream, &mut store, 2, 1, flags, &lie);
        assert!(matches!(taken, BatchOutcome::Stands(_)), "{taken:?}");
    }
}
