//! Readers who follow pages, against the model: whatever happens and from whichever replica they
//! read, they end with the latest state of what they may see, or are told to start again.

mod support;

use std::collections::BTreeMap;

use proptest::prelude::*;
use support::{SOURCE, event, keys};
use weir_delivery::filter::Keys;
use weir_delivery::model::{Model, is_live, place_of};
use weir_delivery::{
    Filter, Ingested, Kinds, OrderStore, PageLimits, Place, Resync, Retention, Selection,
    StoreConfig,
};
use weir_types::{Epoch, OrdStatus, Rec, Seq};
use weir_wire::delivery::{OrderRow, RowFlags};

#[derive(Clone, Debug)]
enum Step {
    /// A new order, at the next `seq` or, as outside cores have it, at the current one.
    Insert { keys: Keys, at_same_seq: bool },
    /// A change of one of the orders: perhaps its end, perhaps other keys.
    Update { pick: usize, ends: bool, keys: Option<Keys> },
    /// Changes of one order, one after the other.
    Burst { pick: usize, count: u8 },
    /// The record is gone.
    Delete { pick: usize },
    /// A reader asks one of the replicas.
    Read { reader: usize, store: usize, rows_max: u32, scan_max: u32 },
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

fn any_step() -> impl Strategy<Value = Step> {
    let pick = any::<prop::sample::Index>().prop_map(|index| index.index(1_000_000));
    prop_oneof![
        4 => (any_keys(), prop::bool::weighted(0.3))
            .prop_map(|(keys, at_same_seq)| Step::Insert { keys, at_same_seq }),
        6 => (pick.clone(), prop::bool::weighted(0.3), prop::option::weighted(0.2, any_keys()))
            .prop_map(|(pick, ends, keys)| Step::Update { pick, ends, keys }),
        1 => (pick.clone(), 2..20u8).prop_map(|(pick, count)| Step::Burst { pick, count }),
        1 => pick.prop_map(|pick| Step::Delete { pick }),
        6 => (0..4usize, 0..3usize, 1..6u32, 1..8u32)
            .prop_map(|(reader, store, rows_max, scan_max)| Step::Read {
                reader, store, rows_max, scan_max,
            }),
    ]
}

#[derive(Debug)]
struct Reader {
    filter: Filter,
    after: Place,
    mirror: BTreeMap<Rec, OrderRow>,
}

impl Reader {
    fn take(&mut self, row: &OrderRow) {
        if row.flags != RowFlags::default() {
            self.mirror.remove(&row.rec);
            return;
        }
        let before = self.mirror.insert(row.rec, *row);
        assert!(before.is_none_or(|before| place_of(&before) < place_of(row)), "goes back");
    }
}

struct World {
    stores: Vec<OrderStore>,
    model: Model,
    /// Each record's keys and whether it can still change.
    orders: Vec<(Rec, Keys, bool)>,
    seq: u64,
    rec: u64,
}

impl World {
    fn new(retained_max: u32) -> World {
        let retention = Retention { count_max: retained_max, bytes_max: u64::MAX };
        let config = StoreConfig { retention, ..StoreConfig::new(SOURCE, Epoch(1)) };
        let store = |kinds| OrderStore::new(StoreConfig { kinds, ..config });
        World {
            stores: [Kinds::FULL, Kinds::SINGLE, Kinds::NONE].map(store).into(),
            model: Model::default(),
            orders: Vec::new(),
            seq: 0,
            rec: 0,
        }
    }

    fn say(&mut self, rec: u64, keys: Keys, ord_status: OrdStatus, want: Ingested) {
        let event = event(self.seq, rec, keys, ord_status);
        self.model.ingest(&event);
        for store in &mut self.stores {
            assert_eq!(store.ingest(&event), Ok(want));
            assert_eq!(store.ingest(&event), Ok(Ingested::Repeated));
        }
    }

    fn pick_live(&self, pick: usize) -> Option<usize> {
        let live: Vec<usize> = (0..self.orders.len()).filter(|i| self.orders[*i].2).collect();
        (!live.is_empty()).then(|| live[pick % live.len()])
    }

    fn change(&mut self, step: &Step) {
        match *step {
            Step::Insert { keys, at_same_seq } => {
                self.seq += u64::from(!at_same_seq || self.seq == 0);
                self.rec += 1;
                self.orders.push((Rec(self.rec), keys, true));
                self.say(self.rec, keys, OrdStatus::New, Ingested::Inserted);
            }
            Step::Update { pick, ends, keys } => {
                let Some(index) = self.pick_live(pick) else { return };
                let order = &mut self.orders[index];
                (order.1, order.2) = (keys.unwrap_or(order.1), !ends);
                let (rec, keys, _) = *order;
                let status = if ends { OrdStatus::Filled } else { OrdStatus::PartiallyFilled };
                self.seq += 1;
                self.say(rec.0, keys, status, Ingested::Updated);
            }
            Step::Burst { pick, count } => {
                let Some(index) = self.pick_live(pick) else { return };
                let (rec, keys, _) = self.orders[index];
                for _ in 0..count {
                    self.seq += 1;
                    self.say(rec.0, keys, OrdStatus::PartiallyFilled, Ingested::Updated);
                }
            }
            Step::Delete { pick } => {
                let Some(index) = self.pick_live(pick) else { return };
                self.orders[index].2 = false;
                self.seq += 1;
                let place = Place::new(Seq(self.seq), self.orders[index].0);
                self.model.delete(place);
                assert!(self.stores.iter_mut().all(|store| store.delete(place)));
            }
            Step::Read { .. } => {}
        }
    }

    fn read(&mut self, reader: &mut Reader, store: usize, limits: &PageLimits) {
        let store = &mut self.stores[store];
        if let Err(resync) = store.check(Epoch(1), reader.after, &reader.filter) {
            assert_eq!(resync, Resync::Floor);
            assert!(reader.after < store.floor(), "refused above the floor");
            assert_ne!(reader.after, Place::START, "the start is always legal");
            (reader.after, reader.mirror) = (Place::START, BTreeMap::new());
        }
        let (filter, after) = (reader.filter, reader.after);
        let mut selection = Selection::default();
        let page = store.select(after, &filter, limits, &mut selection);
        let rows = store.rows(&selection);
        assert!(rows.len() as u32 <= limits.rows_max && rows.len() as u32 == page.row_count);
        assert!(rows.is_sorted_by(|a, b| place_of(a) < place_of(b)), "rows are in order");
        assert!(rows.iter().all(|row| place_of(row) > after && place_of(row) <= page.next));
        assert!(page.next > after || page.is_online, "a page moves its reader on");
        rows.iter().for_each(|row| reader.take(row));
        reader.after = page.next;
        self.check_merged(after, &rows);
        if page.is_online {
            self.check_mirror(reader);
        }
    }

    fn check_merged(&self, after: Place, rows: &[OrderRow]) {
        let latest = self.model.latest(after);
        for row in rows.iter().filter(|row| !row.flags.contains(RowFlags::LEAVE)) {
            let want = latest[&row.rec].merged_count;
            let is_new = self.model.first(row.rec).expect("the model has all") > after;
            let is_right = match is_new || want <= 7 {
                true => row.merged_count == want,
                false => (7..=want).contains(&row.merged_count),
            };
            assert!(is_right, "{} of {want} merged", row.merged_count);
        }
    }

    /// A reader that is ONLINE has all live orders that it may see, as they are, and of the ended
    /// ones that it has the last state.
    fn check_mirror(&self, reader: &Reader) {
        let strip = |row: &OrderRow| OrderRow { merged_count: 0, ..*row };
        let mirrored = |wanted: fn(&OrderRow) -> bool| -> Vec<OrderRow> {
            reader.mirror.values().filter(|row| wanted(row)).map(strip).collect()
        };
        let live: Vec<OrderRow> = self.model.live(&reader.filter).values().map(strip).collect();
        let places = |rows: &[OrderRow]| -> Vec<Place> { rows.iter().map(place_of).collect() };
        assert_eq!(places(&mirrored(is_live)), places(&live), "reader {:?}", reader.filter);
        assert!(mirrored(is_live) == live, "rows differ beyond their places");
        let latest = self.model.latest(Place::START);
        for ended in mirrored(|row| !is_live(row)) {
            assert_eq!(ended, strip(&latest[&ended.rec]));
        }
    }
}

fn run(steps: &[Step], filters: &[Filter], retained_max: u32) {
    let mut world = World::new(retained_max);
    let reader =
        |filter: &Filter| Reader { filter: *filter, after: Place::START, mirror: BTreeMap::new() };
    let mut readers: Vec<Reader> = filters.iter().map(reader).collect();
    for step in steps {
        match *step {
            Step::Read { reader, store, rows_max, scan_max } => {
                let limits = PageLimits { rows_max, bytes_max: u32::MAX, scan_max };
                world.read(&mut readers[reader], store, &limits);
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_024, ..ProptestConfig::default() })]

    #[test]
    fn readers_end_with_the_latest_state_of_what_they_may_see(
        steps in prop::collection::vec(any_step(), 1..300),
        filters in prop::collection::vec(any_filter(), 4),
        retained_max in prop_oneof![Just(0u32), 1..12u32, Just(1_000_000u32)],
    ) {
        run(&steps, &filters, retained_max);
    }

    #[test]
    fn an_unlimited_page_is_what_a_scan_of_all_changes_finds(
        steps in prop::collection::vec(any_step(), 1..200),
        filter in any_filter(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut world = World::new(u32::MAX);
        let mut after = Place::START;
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
