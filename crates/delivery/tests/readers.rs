//! Readers that follow pages, against the model: after any sequence of events, and from any
//! replica, they end with the latest state of the orders that they may see, or are told to start
//! again. The replicas keep different numbers of ended orders. Some are replaced by the restored
//! snapshot of themselves, taken while changes came in.
//!
//! `WEIR_MODEL_STEPS` sets the least number of steps to try (`./x campaign delivery-model`).

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use support::{SOURCE, encoded, event, keys, tombstone};
use weir_delivery::filter::Keys;
use weir_delivery::model::{Model, change_id_of, is_live};
use weir_delivery::{
    ChunkOutcome, Filter, IngestOutcome, Kinds, OrderStore, PageLimits, PageQuery, Resync,
    Retention, Selection, StoreConfig, row_len, row_of,
};
use weir_types::{ChangeId, Epoch, OrdStatus, Rec, Seq, SourceLog};
use weir_wire::delivery::{OrderRow, RowFlags};

#[derive(Clone, Debug)]
enum Op {
    /// A new order, at the next `seq` or, as with outside cores, at the current one.
    Insert { keys: Keys, at_same_seq: bool, attributes: u16 },
    /// A change of one of the orders, a few `seq` later: perhaps its end, perhaps other keys.
    Update { pick: usize, skip: u64, ends: bool, keys: Option<Keys>, attributes: u16 },
    /// The ends of the oldest live orders, all at one `seq`.
    EndMany { count: usize },
    /// Changes of one order, one after the other.
    Burst { pick: usize, count: u8 },
    /// The deletion of a record: a live one, or one that ended or is gone.
    Delete { pick: usize, is_live: bool },
    /// A change of an order that ended or is gone: perhaps it is live again, perhaps with other
    /// keys.
    Revive { pick: usize, ends: bool, keys: Option<Keys> },
    /// A replica continues its sweeping.
    Sweep { store: usize, rings_max: u32 },
    /// A replica begins a snapshot.
    Begin { store: usize },
    /// A replica produces chunks of its snapshot; the complete snapshot is restored in its place.
    Chunks { store: usize, count: u8, bytes_max: usize },
    /// A reader reads from one of the replicas.
    Read { reader: usize, store: usize, limits: PageLimits },
}

fn any_keys() -> impl Strategy<Value = Keys> {
    (1..3u32, 1..4u32, 1..3u32)
        .prop_map(|(firm, account, instrument)| keys(firm, account, instrument))
}

fn any_filter() -> impl Strategy<Value = Filter> {
    (0..3u32, 0..4u32, 0..3u32, any::<bool>()).prop_map(|(firm, account, instrument, live_only)| {
        let Keys { firm_id, account_id, instrument_id } = keys(firm, account, instrument);
        Filter { firm_id, account_id, instrument_id, live_only }
    })
}

fn any_limits() -> impl Strategy<Value = PageLimits> {
    let bytes_max = prop_oneof![Just(u32::MAX), 1..2_000u32];
    (1..6u32, bytes_max, 1..8u32).prop_map(|(rows_max, bytes_max, scan_max)| PageLimits {
        rows_max,
        bytes_max,
        scan_max,
    })
}

fn any_pick() -> impl Strategy<Value = usize> + Clone {
    any::<prop::sample::Index>().prop_map(|index| index.index(1_000_000))
}

fn any_change() -> impl Strategy<Value = Op> {
    let attributes = || prop_oneof![Just(0u16), Just(600), 1..600u16];
    prop_oneof![
        4 => (any_keys(), prop::bool::weighted(0.3), attributes()).prop_map(
            |(keys, at_same_seq, attributes)| Op::Insert { keys, at_same_seq, attributes }
        ),
        6 => (
            any_pick(),
            prop_oneof![4 => Just(0u64), 1 => 1..1_000u64, 1 => Just(1 << 33)],
            prop::bool::weighted(0.3),
            prop::option::weighted(0.2, any_keys()),
            attributes(),
        )
            .prop_map(|(pick, skip, ends, keys, attributes)| Op::Update {
                pick, skip, ends, keys, attributes,
            }),
        1 => (2..9usize).prop_map(|count| Op::EndMany { count }),
        1 => (any_pick(), 2..20u8).prop_map(|(pick, count)| Op::Burst { pick, count }),
        1 => (any_pick(), any::<bool>()).prop_map(|(pick, is_live)| Op::Delete { pick, is_live }),
        1 => (any_pick(), any::<bool>(), prop::option::of(any_keys()))
            .prop_map(|(pick, ends, keys)| Op::Revive { pick, ends, keys }),
    ]
}

fn any_step() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => any_change(),
        6 => (0..4usize, 0..3usize, any_limits())
            .prop_map(|(reader, store, limits)| Op::Read { reader, store, limits }),
        1 => (0..3usize, 1..9u32).prop_map(|(store, rings_max)| Op::Sweep { store, rings_max }),
        1 => (0..3usize).prop_map(|store| Op::Begin { store }),
        2 => (0..3usize, 1..4u8, prop_oneof![Just(1usize), Just(3_000)]).prop_map(
            |(store, count, bytes_max)| Op::Chunks { store, count, bytes_max }
        ),
    ]
}

#[derive(Debug)]
struct Reader {
    filter: Filter,
    after: ChangeId,
    /// The newest change when it began, or began anew.
    since: ChangeId,
    mirror: BTreeMap<Rec, (OrderRow, Vec<u8>)>,
}

impl Reader {
    fn new(filter: &Filter) -> Reader {
        let (after, since) = (ChangeId::START, ChangeId::START);
        Reader { filter: *filter, after, since, mirror: BTreeMap::new() }
    }

    fn take(&mut self, row: &OrderRow, attributes: &[u8]) {
        if row.flags != RowFlags::default() {
            self.mirror.remove(&row.rec);
            return;
        }
        let before = self.mirror.insert(row.rec, (*row, attributes.to_vec()));
        assert!(
            before.is_none_or(|(before, _)| change_id_of(&before) < change_id_of(row)),
            "goes back"
        );
    }
}

/// A change in a form that can be sent again.
#[derive(Clone, Debug)]
struct ResendRow {
    block: Vec<u8>,
    attributes: Vec<u8>,
}

/// A snapshot in progress: its chunks so far and the changes since it began.
#[derive(Clone, Debug, Default)]
struct Snapshot {
    chunks: Vec<u8>,
    changes: Vec<ResendRow>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Live,
    Ended,
    Gone,
}

struct World {
    retained_max: [u32; 3],
    stores: Vec<OrderStore>,
    snapshots: Vec<Option<Snapshot>>,
    model: Model,
    /// Each record's keys and state.
    orders: Vec<(Rec, Keys, State)>,
    /// Records that a store had discarded when they were deleted or got other keys: readers may
    /// keep the end that they have.
    untold: BTreeSet<Rec>,
    /// Records of which a store may count too few changes, because it had discarded them.
    recounted: BTreeSet<Rec>,
    seq: u64,
    rec: u64,
}

/// The states of an order that is not live.
const OVER: [State; 2] = [State::Ended, State::Gone];

fn config(store: usize, retained_max: [u32; 3]) -> StoreConfig {
    let kinds = [Kinds::FULL, Kinds::SINGLE, Kinds::NONE][store];
    let retention = Retention { count_max: retained_max[store], bytes_max: u64::MAX };
    StoreConfig { kinds, retention, ..StoreConfig::new(SOURCE, Epoch(1)) }
}

fn store_of(config: StoreConfig) -> OrderStore {
    let mut store = OrderStore::new(config);
    store.set_log(SourceLog(7));
    store
}

impl World {
    fn new(retained_max: [u32; 3]) -> World {
        World {
            retained_max,
            stores: [0, 1, 2].map(|at| store_of(config(at, retained_max))).into(),
            snapshots: vec![None; 3],
            model: Model::default(),
            orders: Vec::new(),
            untold: BTreeSet::new(),
            recounted: BTreeSet::new(),
            seq: 0,
            rec: 0,
        }
    }

    /// Sends a change to all replicas: as an event of ours, or as an outside core's row.
    fn say(&mut self, rec: u64, keys: Keys, ord_status: OrdStatus, len: u16, is_new: bool) {
        let event = event(self.seq, rec, keys, ord_status);
        let row = row_of(&event);
        let attributes: Vec<u8> = (0..len).map(|at| (at ^ rec as u16 ^ len) as u8).collect();
        self.model.ingest_row(row, &attributes);
        // A core's own merged count must be ignored.
        let told = ResendRow { block: encoded(&OrderRow { merged_count: 9, ..row }), attributes };
        for store in &mut self.stores {
            let ingested = match len {
                0 => store.ingest(&event),
                _ => store.ingest_row(&told.block, &told.attributes),
            };
            match ingested {
                Ok(IngestOutcome::Inserted) => {
                    assert!(is_new || self.recounted.contains(&Rec(rec)))
                }
                Ok(IngestOutcome::Updated) => assert!(!is_new),
                other => panic!("{other:?}"),
            }
            assert_eq!(store.ingest(&event), Ok(IngestOutcome::Repeated));
        }
        self.note(&told);
    }

    fn note(&mut self, told: &ResendRow) {
        self.snapshots.iter_mut().flatten().for_each(|under| under.changes.push(told.clone()));
    }

    fn pick(&self, pick: usize, state: State) -> Option<usize> {
        self.pick_of(pick, &[state])
    }

    fn pick_of(&self, pick: usize, states: &[State]) -> Option<usize> {
        let is_in = |index: &usize| states.contains(&self.orders[*index].2);
        let found: Vec<usize> = (0..self.orders.len()).filter(is_in).collect();
        (!found.is_empty()).then(|| found[pick % found.len()])
    }

    fn change(&mut self, step: &Op) {
        match *step {
            Op::Insert { keys, at_same_seq, attributes } => {
                self.seq += u64::from(!at_same_seq);
                self.rec += 1;
                self.orders.push((Rec(self.rec), keys, State::Live));
                self.say(self.rec, keys, OrdStatus::New, attributes, true);
            }
            Op::Update { pick, skip, ends, keys, attributes } => {
                let Some(index) = self.pick(pick, State::Live) else { return };
                let order = &mut self.orders[index];
                order.1 = keys.unwrap_or(order.1);
                order.2 = if ends { State::Ended } else { State::Live };
                let (rec, keys, _) = *order;
                let status = if ends { OrdStatus::Filled } else { OrdStatus::PartiallyFilled };
                self.seq += 1 + skip;
                self.say(rec.0, keys, status, attributes, false);
            }
            Op::EndMany { count } => self.end_many(count),
            Op::Burst { pick, count } => {
                let Some(index) = self.pick(pick, State::Live) else { return };
                let (rec, keys, _) = self.orders[index];
                for _ in 0..count {
                    self.seq += 1;
                    self.say(rec.0, keys, OrdStatus::PartiallyFilled, 0, false);
                }
            }
            Op::Delete { pick, is_live } => {
                let states = if is_live { &[State::Live][..] } else { &OVER };
                let Some(index) = self.pick_of(pick, states) else { return };
                self.delete(index);
            }
            Op::Revive { pick, ends, keys } => {
                let Some(index) = self.pick_of(pick, &OVER) else { return };
                let order = &mut self.orders[index];
                let keeps_keys = keys.is_none_or(|keys| keys == order.1);
                order.1 = keys.unwrap_or(order.1);
                order.2 = if ends { State::Ended } else { State::Live };
                let (rec, keys, _) = *order;
                if self.stores.iter().any(|store| store.get(rec).is_none()) {
                    self.recounted.insert(rec);
                    if !keeps_keys {
                        self.untold.insert(rec);
                    }
                }
                let status = if ends { OrdStatus::Canceled } else { OrdStatus::New };
                self.seq += 1;
                self.say(rec.0, keys, status, 0, false);
            }
            Op::Sweep { store, rings_max } => {
                self.stores[store].sweep(rings_max);
            }
            Op::Begin { store } => {
                self.stores[store].begin_snapshot();
                self.snapshots[store] = Some(Snapshot::default());
            }
            Op::Chunks { store, count, bytes_max } => self.take_chunks(store, count, bytes_max),
            Op::Read { .. } => {}
        }
    }

    fn end_many(&mut self, count: usize) {
        self.seq += 1;
        let is_live = |order: &&mut (Rec, Keys, State)| order.2 == State::Live;
        let ended = self.orders.iter_mut().filter(is_live).take(count);
        let ended: Vec<(Rec, Keys)> = ended
            .map(|order| {
                order.2 = State::Ended;
                (order.0, order.1)
            })
            .collect();
        for (rec, keys) in ended {
            self.say(rec.0, keys, OrdStatus::Filled, 0, false);
        }
    }

    fn delete(&mut self, index: usize) {
        self.orders[index].2 = State::Gone;
        let rec = self.orders[index].0;
        self.seq += 1;
        self.model.delete(ChangeId::new(Seq(self.seq), rec));
        let told = ResendRow { block: tombstone(self.seq, rec.0), attributes: Vec::new() };
        for store in &mut self.stores {
            let is_known = store.get(rec).is_some();
            let want = if is_known { IngestOutcome::Updated } else { IngestOutcome::Unknown };
            assert_eq!(store.ingest_row(&told.block, &[]), Ok(want));
            if !is_known {
                self.untold.insert(rec);
            }
        }
        self.note(&told);
    }

    fn take_chunks(&mut self, store: usize, count: u8, bytes_max: usize) {
        let Some(snapshot) = &mut self.snapshots[store] else { return };
        for _ in 0..count {
            let step = self.stores[store].snapshot_chunk(bytes_max, &mut snapshot.chunks);
            if step.expect("it is under way") == ChunkOutcome::Done {
                let snapshot = self.snapshots[store].take().expect("it was there");
                self.stores[store] = self.restored(store, &snapshot);
                return;
            }
        }
    }

    /// Restores a snapshot and applies the changes since it began: the result equals the original.
    fn restored(&self, store: usize, snapshot: &Snapshot) -> OrderStore {
        let config = config(store, self.retained_max);
        let mut restored = OrderStore::restore(config, &snapshot.chunks).expect("it is sound");
        for told in &snapshot.changes {
            let _ = restored.ingest_row(&told.block, &told.attributes).expect("it was taken once");
        }
        assert_same(&self.stores[store], &restored);
        restored
    }

    fn read(&mut self, reader: &mut Reader, store: usize, limits: &PageLimits) {
        let store = &mut self.stores[store];
        if let Err(resync) = store.check(Epoch(1), reader.after, &reader.filter) {
            assert_eq!(resync, Resync::Floor);
            assert!(reader.after < store.floor(), "refused above the floor");
            assert_ne!(reader.after, ChangeId::START, "the start is always legal");
            (reader.after, reader.mirror) = (ChangeId::START, BTreeMap::new());
        }
        let (filter, after) = (reader.filter, reader.after);
        let mut selection = Selection::default();
        if after == ChangeId::START {
            reader.since = store.head();
        }
        let query = PageQuery { after, since: reader.since, filter: &filter, limits };
        let page = store.select_from(&query, &mut selection);
        let rows = store.rows(&selection);
        let attributes = store.row_attributes(&selection);
        assert!(rows.len() as u32 <= limits.rows_max && rows.len() as u32 == page.row_count);
        let bytes: usize = attributes.iter().map(|attributes| row_len(attributes.len())).sum();
        assert_eq!(bytes, page.byte_count as usize);
        assert!(page.byte_count <= limits.bytes_max || page.row_count == 1, "too many bytes");
        assert!(rows.is_sorted_by(|a, b| change_id_of(a) < change_id_of(b)), "rows are in order");
        assert!(rows.iter().all(|row| change_id_of(row) > after && change_id_of(row) <= page.next));
        assert!(page.next > after || page.is_online, "a page moves its reader on");
        rows.iter().zip(attributes).for_each(|(row, attributes)| reader.take(row, attributes));
        reader.after = page.next;
        self.check_merged(after, &rows);
        if page.is_online {
            self.check_mirror(reader);
        }
    }

    fn check_merged(&self, after: ChangeId, rows: &[OrderRow]) {
        let (latest, ends) = (self.model.latest(after), self.model.ends(after));
        for row in rows.iter().filter(|row| !row.flags.contains(RowFlags::LEAVE)) {
            let is_it = |want: &&OrderRow| change_id_of(want) == change_id_of(row);
            let want = latest.get(&row.rec).filter(is_it).or_else(|| ends.iter().find(is_it));
            let want = want.expect("the model has all").merged_count;
            let is_new = self.model.first(row.rec).expect("the model has all") > after;
            // Distances that do not fit are not kept: the count beyond them is a lower bound too.
            let is_exact = is_new || want <= 7 && self.seq < 1 << 32;
            let is_right = match is_exact && !self.recounted.contains(&row.rec) {
                true => row.merged_count == want,
                false => row.merged_count <= want,
            };
            assert!(is_right, "{} of {want} merged", row.merged_count);
        }
    }

    /// Checks that a reader that is ONLINE has the latest state of all live orders that it may see,
    /// and the last state of the ended ones that it has. A replica's digest must agree.
    fn check_mirror(&self, reader: &Reader) {
        let strip = |row: &OrderRow| OrderRow { merged_count: 0, ..*row };
        let mirrored = |wanted: fn(&OrderRow) -> bool| -> Vec<OrderRow> {
            let rows = reader.mirror.values().map(|(row, _)| row);
            rows.filter(|row| wanted(row)).map(strip).collect()
        };
        let live: Vec<OrderRow> = self.model.live(&reader.filter).values().map(strip).collect();
        let change_ids =
            |rows: &[OrderRow]| -> Vec<ChangeId> { rows.iter().map(change_id_of).collect() };
        assert_eq!(change_ids(&mirrored(is_live)), change_ids(&live), "reader {:?}", reader.filter);
        assert!(mirrored(is_live) == live, "rows differ beyond their places");
        for (row, attributes) in reader.mirror.values().filter(|(row, _)| is_live(row)) {
            assert_eq!(Some(&attributes[..]), self.model.attributes(row.rec), "attributes");
        }
        let latest = self.model.latest(ChangeId::START);
        for ended in mirrored(|row| !is_live(row)) {
            let is_latest = ended == strip(&latest[&ended.rec]);
            let is_end = || self.model.ends(ChangeId::START).iter().any(|end| strip(end) == ended);
            assert!(is_latest || self.untold.contains(&ended.rec) && is_end(), "{ended:?}");
        }
        let digest = self.model.digest(&reader.filter);
        for store in &self.stores {
            let told = store.digest(&reader.filter);
            assert!(told.is_none_or(|told| told == digest), "digest of {:?}", reader.filter);
            assert!(told.is_some() || !store.is_indexed(&reader.filter));
        }
    }
}

/// Asserts that two stores give the same answers.
fn assert_same(one: &OrderStore, other: &OrderStore) {
    let state = |store: &OrderStore| {
        let memory = store.memory();
        let counts = (store.live_count(), store.ended_count(), memory.rows, memory.attributes);
        (store.head(), store.floor(), store.epoch(), store.log(), counts)
    };
    assert_eq!(state(one), state(other));
    let change_ids: Vec<ChangeId> = [0, one.head().seq.0 / 2, one.head().seq.0.saturating_sub(3)]
        .map(|seq| ChangeId::new(Seq(seq), Rec(0)))
        .into();
    let limits = PageLimits { rows_max: 5, bytes_max: 2_000, scan_max: 9 };
    for number in 0..3 * 4 * 3 * 2u32 {
        let keys = keys(number % 3, number / 3 % 4, number / 12 % 3);
        let Keys { firm_id, account_id, instrument_id } = keys;
        let filter = Filter { firm_id, account_id, instrument_id, live_only: number >= 36 };
        assert_eq!(one.digest(&filter), other.digest(&filter));
        for after in &change_ids {
            let legal = |store: &OrderStore| store.check(Epoch(1), *after, &filter);
            assert_eq!(legal(one), legal(other), "legality of {after:?} for {filter:?}");
            let (mut mine, mut theirs) = (Selection::default(), Selection::default());
            let page = one.select(*after, &filter, &limits, &mut mine);
            let same = other.select(*after, &filter, &limits, &mut theirs);
            assert_eq!((page.next, page.is_cut), (same.next, same.is_cut));
            assert_eq!(one.rows(&mine), other.rows(&theirs), "after {after:?} of {filter:?}");
            assert_eq!(one.row_attributes(&mine), other.row_attributes(&theirs));
        }
    }
}

fn run(steps: &[Op], filters: &[Filter], retained_max: [u32; 3]) {
    let mut world = World::new(retained_max);
    let mut readers: Vec<Reader> = filters.iter().map(Reader::new).collect();
    for step in steps {
        match step {
            Op::Read { reader, store, limits } => {
                world.read(&mut readers[*reader], *store, limits);
            }
            _ => world.change(step),
        }
    }
    let limits = PageLimits { rows_max: 60_000, bytes_max: u32::MAX, scan_max: u32::MAX };
    for (index, reader) in readers.iter_mut().enumerate() {
        world.read(reader, index % 3, &limits);
        world.read(reader, (index + 1) % 3, &limits);
    }
}

/// Returns the least number of steps of a test.
fn wanted_steps() -> u64 {
    let wanted = std::env::var("WEIR_MODEL_STEPS").ok();
    wanted.map_or(100_000, |steps| steps.parse().expect("WEIR_MODEL_STEPS is a number"))
}

#[test]
fn readers_end_with_the_latest_state_of_what_they_may_see() {
    let tried = AtomicU64::new(0);
    let steps = prop::collection::vec(any_step(), 1..300);
    let filters = prop::collection::vec(any_filter(), 4);
    let retained = || prop_oneof![Just(0u32), 1..12u32, Just(1_000_000u32)];
    let retained = (retained(), retained(), retained()).prop_map(<[u32; 3]>::from);
    let strategy = (steps, filters, retained);
    while tried.load(Ordering::Relaxed) < wanted_steps() {
        let mut runner =
            TestRunner::new(Config { cases: 256, source_file: Some(file!()), ..Config::default() });
        let result = runner.run(&strategy, |(steps, filters, retained_max)| {
            run(&steps, &filters, retained_max);
            tried.fetch_add(steps.len() as u64, Ordering::Relaxed);
            Ok(())
        });
        if let Err(failed) = result {
            panic!("{failed}\n{runner}");
        }
    }
    println!("{} steps", tried.load(Ordering::Relaxed));
}

proptest! {
    #[test]
    fn an_unlimited_page_is_what_a_scan_of_all_changes_finds(
        steps in prop::collection::vec(any_change(), 1..200),
        filter in any_filter(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut world = World::new([u32::MAX; 3]);
        let mut after = ChangeId::START;
        for (index, step) in steps.iter().enumerate() {
            world.change(step);
            if index == cut.index(steps.len()) {
                after = world.stores[0].head();
            }
        }
        let limits = PageLimits { rows_max: 60_000, bytes_max: u32::MAX, scan_max: u32::MAX };
        let strip = |row: &OrderRow| OrderRow { merged_count: 0, ..*row };
        let want: Vec<OrderRow> = world.model.page(after, &filter).iter().map(strip).collect();
        for store in &mut world.stores {
            let mut selection = Selection::default();
            let page = store.select(after, &filter, &limits, &mut selection);
            let mut rows = store.rows(&selection);
            rows.retain(|row| !row.flags.contains(RowFlags::LEAVE));
            let rows: Vec<OrderRow> = rows.iter().map(strip).collect();
            prop_assert_eq!(&rows, &want);
            prop_assert!(page.is_online);
            prop_assert_eq!(page.next, store.head());
        }
    }
}
