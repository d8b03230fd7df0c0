//! A record's number belongs to one order, over all epochs, until an epoch voids all of its
//! changes: readers know orders, and a number that changes its owner would leave the order before
//! with them.

use std::collections::BTreeMap;

use weir_delivery::replay::STREAM_STATE_LEN;
use weir_delivery::stream::{BatchOutcome, SourceStream};
use weir_delivery::{
    ChunkOutcome, Filter, OrderStore, PageLimits, Restore, Selection, StoreConfig,
};
use weir_types::{ChangeId, Epoch, OrdStatus, OrderId, Reason, Rec, Seq, Switch};
use weir_wire::delivery::RowFlags;
use weir_wire::ingest::{BatchFlags, OpenSource};

use crate::core::{Record, SOURCE};
use crate::world::{Reader, WINDOW, store};
use crate::{ended, offer, open_of, record, refusal};

const PLAIN: BatchFlags = BatchFlags(0);

fn both() -> BatchFlags {
    BatchFlags::RESEND_BEGIN.with(BatchFlags::RESEND_END)
}

fn at(seq: u64, rec: u64) -> ChangeId {
    ChangeId::new(Seq(seq), Rec(rec))
}

/// Returns the row as one of the order with this identifier.
fn of(order: u64, mut record: Record) -> Record {
    record.row.order_id = OrderId::new(SOURCE, Rec(order));
    record
}

fn tombstone(seq: u64, rec: u64) -> Record {
    let mut record = record(seq, rec);
    record.row.flags = RowFlags::TOMBSTONE;
    record
}

/// A core that is taken at its word, and a reader that began with it.
struct Source {
    stream: SourceStream,
    store: OrderStore,
    reader: Reader,
}

impl Source {
    /// Returns a source in epoch 1, after a resend of these rows and the changes behind it.
    fn with(resent: &[Record], changes: &[Record]) -> Source {
        let reader = Reader::of_firm(0);
        let mut source =
            Source { stream: SourceStream::new(SOURCE, WINDOW), store: store(), reader };
        source.open(ChangeId::START);
        source.takes(both(), resent);
        source.takes(PLAIN, changes);
        source.reader.read(&source.store);
        source
    }

    /// Begins the next epoch with a full resend.
    fn open(&mut self, valid_to: ChangeId) {
        self.open_as(valid_to, Switch::On);
    }

    fn open_as(&mut self, valid_to: ChangeId, full_resend: Switch) {
        let epoch = self.stream.epoch();
        let open = open_of(epoch.0 + 1, valid_to, full_resend);
        let open = OpenSource { valid_epoch: epoch, ..open };
        let _ = self.stream.open(&open, 1, &mut self.store).expect("the next epoch");
    }

    fn sweep(&mut self) {
        while self.stream.is_sweeping() {
            let _ = self.stream.sweep(1, &mut self.store);
        }
    }

    fn offer(&mut self, flags: BatchFlags, rows: &[Record]) -> BatchOutcome {
        self.sweep();
        let (number, epoch) = (self.stream.next_batch_no().0, self.stream.epoch().0);
        offer(&mut self.stream, &mut self.store, number, epoch, flags, rows)
    }

    fn takes(&mut self, flags: BatchFlags, rows: &[Record]) {
        let taken = self.offer(flags, rows);
        assert!(matches!(taken, BatchOutcome::Stands(_) | BatchOutcome::Sweeps), "{taken:?}");
        self.sweep();
    }

    fn refuses(&mut self, flags: BatchFlags, rows: &[Record]) {
        let (reason, _, row_no) = refusal(self.offer(flags, rows));
        assert_eq!((reason, row_no as usize), (Reason::OrderIdChanged, rows.len()));
        // It may go on with what is right.
        let open = OpenSource { valid_epoch: Epoch::NONE, ..open_of(0, at(0, 0), Switch::Off) };
        let open = OpenSource { epoch: self.stream.epoch(), ..open };
        let _ = self.stream.open(&open, 1, &mut self.store).expect("the same epoch");
    }

    /// Checks the orders of the reader that goes on, and of one that begins.
    fn check(&mut self, orders: &[u64]) {
        self.reader.read(&self.store);
        let mut new = Reader::of_firm(0);
        new.read(&self.store);
        let want: Vec<OrderId> =
            orders.iter().map(|order| OrderId::new(SOURCE, Rec(*order))).collect();
        for reader in [&self.reader, &new] {
            let got: Vec<OrderId> = reader.mirror.keys().copied().collect();
            assert_eq!(got, want);
        }
    }
}

/// Rows of order 6, and one of another order with its number, which came under each of these
/// heads and left order 6 with readers.
#[test]
pub fn a_number_stays_its_orders_over_all_epochs() {
    let other = |seq| of(99, record(seq, 6));
    // In a resend: of an order that ended, of a live one, and of one with an end before.
    for rows in [vec![ended(1, 6)], vec![record(1, 6)], vec![record(1, 6), ended(2, 6)]] {
        let mut source = Source::with(&rows, &[record(4, 6)]);
        source.open(source.store.head());
        source.refuses(both(), &[record(6, 5), other(6)]);
        source.takes(both(), &[record(6, 5), record(6, 6)]);
        source.check(&[5, 6]);
    }
    // After a resend without it, and after its deletion.
    let mut source = Source::with(&[ended(1, 6)], &[]);
    source.open(source.store.head());
    source.takes(both(), &[]);
    source.refuses(PLAIN, &[other(4)]);
    let mut source = Source::with(&[record(1, 6)], &[tombstone(4, 6)]);
    source.refuses(PLAIN, &[other(6)]);
    source.open(source.store.head());
    source.refuses(both(), &[other(6)]);
    source.takes(both(), &[]);
    source.refuses(PLAIN, &[other(9)]);
    source.check(&[]);
    // In a resend that has given the number already, in the same batch and in another.
    let mut source = Source::with(&[], &[]);
    source.open(source.store.head());
    source.refuses(both(), &[record(3, 6), other(4)]);
    source.takes(BatchFlags::RESEND_BEGIN, &[record(3, 6)]);
    source.refuses(BatchFlags::RESEND_END, &[other(4)]);
    source.takes(BatchFlags::RESEND_END, &[record(4, 6)]);
    source.check(&[6]);
}

/// Order 6 came after the valid place of the next epoch: nobody knows it any longer.
#[test]
pub fn a_number_of_the_disowned_history_may_go_to_another_order() {
    let other = |seq| of(99, record(seq, 6));
    let lost = [
        vec![record(3, 6)],
        vec![record(3, 6), ended(4, 6)],
        vec![ended(3, 6)],
        vec![record(3, 6), tombstone(4, 6)],
        vec![ended(3, 6), tombstone(4, 6)],
        vec![ended(3, 6), record(4, 6)],
    ];
    for rows in &lost {
        for valid_to in [at(2, 9), ChangeId::START] {
            // In the resend, and after one without it, in this epoch or the next one.
            let mut source = Source::with(&[record(1, 1)], rows);
            source.open(valid_to);
            source.takes(both(), &[record(9, 1), other(9)]);
            source.check(&[1, 99]);
            let mut source = Source::with(&[record(1, 1)], rows);
            source.open(valid_to);
            source.takes(both(), &[record(9, 1)]);
            source.check(&[1]);
            source.open_as(at(99, 1), Switch::Off);
            source.takes(PLAIN, &[other(100)]);
            source.check(&[1, 99]);
            source.refuses(PLAIN, &[of(98, record(101, 6))]);
            // The number is that order's now, from its own first place on.
            source.open(at(99, 9));
            source.takes(both(), &[record(110, 1), of(98, record(110, 6))]);
            source.check(&[1, 98]);
        }
        // An order that has come again in a resend is known again.
        let mut source = Source::with(&[record(1, 1)], rows);
        source.open(at(2, 9));
        source.takes(both(), &[record(9, 1), record(9, 6)]);
        source.open(at(9, 9));
        source.refuses(both(), &[other(20)]);
    }
    // An order from before the valid place is known, whatever happened to it behind the place.
    for rows in &lost {
        let mut source = Source::with(&[record(1, 6)], rows);
        source.open(at(2, 9));
        source.refuses(both(), &[other(20)]);
        source.open(ChangeId::START);
        source.takes(both(), &[other(20)]);
        source.check(&[99]);
    }
}

/// A disowned history stays so over a torn resend, a snapshot between its steps, and a start.
#[test]
pub fn a_disowned_history_is_disowned_in_snapshots_and_after_a_torn_resend() {
    // The first changes are before the places at which voiding stops.
    let lost: Vec<Record> =
        [3, 4].into_iter().flat_map(|seq| (2..9).map(move |rec| record(seq, rec))).collect();
    for steps in 0..9 {
        let mut source = Source::with(&[record(1, 1)], &lost);
        source.open(at(2, 9));
        (0..steps).for_each(|_| _ = source.stream.sweep(1, &mut source.store));
        (source.stream, source.store) = copy_of(&source);
        source.open(at(9, 9));
        source.takes(BatchFlags::RESEND_BEGIN, &[record(9, 1)]);
        // The core falls back to what it has sent, and the resend is torn.
        source.open(at(9, 9));
        (source.stream, source.store) = copy_of(&source);
        source.open(at(9, 9));
        source.takes(both(), &[record(10, 1), of(99, record(10, 2)), of(98, record(10, 8))]);
        (source.stream, source.store) = copy_of(&source);
        source.open(at(10, 9));
        source.refuses(both(), &[of(97, record(20, 2))]);
        source.takes(both(), &[of(99, record(20, 2)), of(97, record(20, 3))]);
        source.check(&[97, 99]);
    }
}

/// Returns stream and store as a start finds them.
fn copy_of(source: &Source) -> (SourceStream, OrderStore) {
    let (mut state, mut chunks) = (Vec::new(), Vec::new());
    source.stream.put_state(&mut state);
    assert_eq!(state.len(), STREAM_STATE_LEN);
    let mut store = source.store.clone();
    store.begin_snapshot();
    while store.snapshot_chunk(1 << 16, &mut chunks).expect("it goes on") == (ChunkOutcome::More {})
    {
    }
    let mut restore = Restore::new(StoreConfig::new(SOURCE, Epoch::NONE));
    let mut chunks = &chunks[..];
    while !chunks.is_empty() {
        chunks = &chunks[restore.take(chunks).expect("its own chunk")..];
    }
    let stream = SourceStream::from_state(SOURCE, WINDOW, &state).expect("its own state");
    let mut store = restore.finish().expect("all chunks");
    stream.join(&mut store);
    (stream, store)
}

/// A store that had discarded an order does not know its number's owner, and its end stands.
#[test]
fn an_order_that_is_discarded_leaves_its_end_with_those_who_have_it() {
    let mut source = Source::with(&[ended(1, 6)], &[]);
    let retention = weir_delivery::Retention { count_max: 0, bytes_max: 0 };
    source.store.set_retention(retention);
    while source.store.sweep(9) {}
    assert_eq!(source.store.get(Rec(6)), None);
    source.takes(PLAIN, &[of(99, record(4, 6))]);
    source.reader.read(&source.store);
    let of_reader: BTreeMap<u64, OrdStatus> =
        source.reader.mirror.values().map(|row| (row.order_id.rec().0, row.ord_status)).collect();
    assert_eq!(of_reader, [(6, OrdStatus::Filled), (99, OrdStatus::New)].into());
}

fn discard_all(store: &mut OrderStore) {
    let all = store.config().retention;
    store.set_retention(weir_delivery::Retention { count_max: 0, bytes_max: 0 });
    while store.sweep(9) {}
    store.set_retention(all);
}

/// A core that loses the end of its history a second time. Where the node has discarded the order
/// that had the number first, the order behind it may be one that other stores know from before.
#[test]
pub fn a_number_whose_first_order_was_discarded_is_free_without_a_valid_place_alone() {
    let mut source = Source::with(&[record(1, 1)], &[record(3, 6), ended(4, 6)]);
    discard_all(&mut source.store);
    source.open(at(2, 9));
    source.takes(both(), &[record(9, 1)]);
    source.takes(PLAIN, &[of(99, record(11, 6))]);
    // A number above all that were discarded is free, in whatever order the numbers came.
    source.takes(PLAIN, &[record(12, 8), record(13, 7)]);
    for from_snapshot in [false, true] {
        if from_snapshot {
            (source.stream, source.store) = copy_of(&source);
        }
        source.open(at(10, 9));
        source.refuses(both(), &[record(20, 1), of(98, record(20, 6))]);
    }
    source.takes(both(), &[record(20, 1), of(97, record(20, 7)), of(96, record(20, 8))]);
    source.check(&[1, 96, 97]);
    source.open(ChangeId::START);
    source.takes(both(), &[record(30, 1), of(98, record(30, 6))]);
    source.check(&[1, 98]);
}

/// The valid place is amid the changes of one `seq`, of which a reader's pages had left out an
/// order's state before the change that is void now.
#[test]
fn a_tombstone_of_an_order_from_before_reaches_a_reader_of_live_orders() {
    let mut source = Source::with(&[], &[record(3, 6), ended(4, 6), ended(5, 7)]);
    discard_all(&mut source.store);
    source.takes(PLAIN, &[record(8, 2), record(11, 3), ended(11, 6)]);
    source.open(at(11, 3));
    source.takes(both(), &[record(20, 2), record(20, 3)]);
    let live_only = Filter { live_only: true, ..Filter::ALL };
    let limits = PageLimits { rows_max: 9, bytes_max: 1 << 20, scan_max: 99 };
    let mut selection = Selection::default();
    let _ = source.store.select(at(8, 2), &live_only, &limits, &mut selection);
    let rows = source.store.rows(&selection);
    let told: Vec<u64> = rows.iter().map(|row| row.rec.0).collect();
    assert_eq!(told, [6, 2, 3]);
}

/// The node had discarded order 6 and took its number for another one. A store of the same entries
/// has the end still, and a reader that has the order live gets it there.
#[test]
pub fn an_end_stands_beside_a_row_of_another_order() {
    for is_deleted in [false, true] {
        let end = if is_deleted { tombstone(4, 6) } else { ended(4, 6) };
        let mut source = Source::with(&[record(1, 6)], &[]);
        source.takes(PLAIN, &[end]);
        // As a replay, which does not check the number.
        let head = weir_wire::ingest::SourceBatch {
            batch_no: source.stream.next_batch_no(),
            sending_time: weir_types::Nanos(1),
            session_id: crate::world::SESSION,
            epoch: source.stream.epoch(),
            source_id: SOURCE,
            flags: PLAIN,
        };
        let other = of(99, record(5, 6));
        let mut entry = Vec::new();
        let rows = [(other.row, &other.attributes[..])].into_iter();
        weir_wire::dialogue::put_source_batch(&head, rows, &mut entry);
        source.stream.replay(&entry, &mut source.store).expect("it was taken once");
        source.reader.read(&source.store);
        let of_reader: Vec<(u64, OrdStatus)> = source
            .reader
            .mirror
            .values()
            .map(|row| (row.order_id.rec().0, row.ord_status))
            .collect();
        let end = (6, OrdStatus::Filled);
        let want = if is_deleted { vec![] } else { vec![end] };
        assert_eq!(of_reader, [want, vec![(99, OrdStatus::New)]].concat());
    }
}

/// A state of the version before does not tell the valid place: ends are void, no number is free.
#[test]
fn the_state_of_a_version_before_frees_no_number() {
    let mut source = Source::with(&[record(1, 6)], &[record(3, 6), ended(4, 7)]);
    source.open(at(2, 9));
    assert!(source.stream.is_voiding());
    let mut state = Vec::new();
    source.stream.put_state(&mut state);
    state[0] = 1;
    // `seq` and cursor.
    state[34..50].fill(0);
    source.stream = SourceStream::from_state(SOURCE, WINDOW, &state).expect("the version before");
    source.open(at(2, 9));
    source.refuses(both(), &[of(99, record(20, 6))]);
    source.takes(both(), &[record(20, 6)]);
    source.check(&[6]);
}

/// Copies for a snapshot are given up before the store is beyond its limit.
#[test]
fn voiding_under_a_snapshot_stays_below_the_limit() {
    let rows: Vec<Record> = (1..2_000).map(|rec| record(3, rec)).collect();
    let mut source = Source::with(&[], &[]);
    rows.chunks(500).for_each(|rows| source.takes(PLAIN, rows));
    let room = weir_delivery::memory::EVENT_GROWTH_MAX / 2 + (300 << 10);
    for bytes_max in [u64::MAX, source.store.memory().total + room] {
        let mut store = source.store.clone();
        store.set_bytes_max(bytes_max);
        let mut stream = copy_of(&source).0;
        store.begin_snapshot();
        let open = OpenSource { valid_epoch: Epoch(9), ..open_of(2, at(0, 0), Switch::On) };
        let _ = stream.open(&open, 1, &mut store).expect("the next epoch");
        while stream.is_sweeping() {
            let _ = stream.sweep(100, &mut store);
            assert!(store.memory().total <= bytes_max);
        }
        let copies = store.memory().capture > 1 << 18;
        assert_eq!(copies, bytes_max == u64::MAX, "{:?}", store.memory());
    }
}
