//! Readers of an archive next to an order store, against a store that keeps everything: through any
//! changes, closes, merges, retirements, crashes and failures, an honoured place is served as that
//! store would serve it, and no reader passes from one to the other with something missing.

#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

mod support;

use std::collections::BTreeMap;

use proptest::prelude::*;
use support::*;
use weir_cold::{Archive, ColdError, Filter, Keys, PageLimits, Resync, WorkOutcome};
use weir_delivery::{OrderStore, Selection};
use weir_io::disk::sim::CrashChoice;
use weir_io::{DiskErrorKind, SimDisk, SimFaults};
use weir_types::{ChangeId, Epoch, Nanos, OrdStatus, Rec};
use weir_wire::delivery::{OrderRow, RowFlags};

#[derive(Clone, Debug)]
enum Op {
    Insert {
        keys: Keys,
        at_same_seq: bool,
    },
    Update {
        pick: usize,
        ends: bool,
        keys: Option<Keys>,
    },
    Delete {
        pick: usize,
    },
    Feed {
        entries_max: u32,
    },
    Close,
    Work,
    Retire {
        keep: u64,
    },
    /// Closes or works with the `call`-th call to the disk failing, then loses power.
    Crash {
        call: u64,
        choice: u64,
        closes: bool,
    },
    Read {
        reader: usize,
        rows_max: u32,
        scan_max: u32,
    },
    /// Compares the archive with the store that keeps everything, from a place in between.
    Compare {
        pick: usize,
        filter: Filter,
    },
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

fn any_step() -> impl Strategy<Value = Op> {
    let pick = 0..1_000_000usize;
    prop_oneof![
        6 => (any_keys(), prop::bool::weighted(0.3))
            .prop_map(|(keys, at_same_seq)| Op::Insert { keys, at_same_seq }),
        10 => (pick.clone(), prop::bool::weighted(0.3), prop::option::weighted(0.3, any_keys()))
            .prop_map(|(pick, ends, keys)| Op::Update { pick, ends, keys }),
        1 => pick.clone().prop_map(|pick| Op::Delete { pick }),
        5 => prop_oneof![1..5u32, Just(1_000)].prop_map(|entries_max| Op::Feed { entries_max }),
        3 => Just(Op::Close),
        4 => Just(Op::Work),
        1 => (0..6u64).prop_map(|keep| Op::Retire { keep }),
        1 => (0..30u64, any::<u64>(), any::<bool>())
            .prop_map(|(call, choice, closes)| Op::Crash { call, choice, closes }),
        8 => (0..4usize, 1..5u32, 1..7u32)
            .prop_map(|(reader, rows_max, scan_max)| Op::Read { reader, rows_max, scan_max }),
        4 => (pick, any_filter()).prop_map(|(pick, filter)| Op::Compare { pick, filter }),
    ]
}

/// A reader with its copy; it goes on from `after`.
struct Reader {
    filter: Filter,
    after: ChangeId,
    mirror: BTreeMap<Rec, OrderRow>,
}

impl Reader {
    fn take(&mut self, row: &OrderRow) {
        if row.flags != RowFlags::default() {
            self.mirror.remove(&row.rec);
            return;
        }
        let before = self.mirror.insert(row.rec, *row);
        assert!(before.is_none_or(|before| change_id_of(&before) < change_id_of(row)), "goes back");
    }
}

struct World {
    archive: Option<Archive<SimDisk>>,
    disk: SimDisk,
    /// `hot` removes ended orders soon, `full` keeps them for ever.
    hot: OrderStore,
    full: OrderStore,
    /// Each order's keys and whether it can still change.
    orders: Vec<(Rec, Keys, bool)>,
    change_ids: Vec<ChangeId>,
    seq: u64,
    cold_pages: u32,
}

impl World {
    fn new(ended_max: u32) -> World {
        let disk = SimDisk::new(1);
        let (archive, _) = Archive::open(disk.clone(), config()).unwrap();
        World {
            archive: Some(archive),
            disk,
            hot: store(ended_max),
            full: store(u32::MAX),
            orders: Vec::new(),
            change_ids: vec![ChangeId::START],
            seq: 0,
            cold_pages: 0,
        }
    }

    fn archive(&mut self) -> &mut Archive<SimDisk> {
        self.archive.as_mut().expect("it is open between steps")
    }

    fn say(&mut self, rec: Rec, keys: Keys, status: OrdStatus, flags: RowFlags) {
        let row = OrderRow { flags, ..row(self.seq, rec.0, keys, status) };
        let (block, attributes) = (block_of(&row), attributes(self.seq));
        for store in [&mut self.hot, &mut self.full] {
            let _ = store.ingest_row(&block, &attributes).unwrap();
        }
        self.change_ids.push(change_id_of(&row));
    }

    fn pick_live(&self, pick: usize) -> Option<usize> {
        let live: Vec<usize> = (0..self.orders.len()).filter(|at| self.orders[*at].2).collect();
        (!live.is_empty()).then(|| live[pick % live.len()])
    }

    fn insert(&mut self, keys: Keys, at_same_seq: bool) {
        self.seq += u64::from(!at_same_seq || self.seq == 0);
        let rec = Rec(self.orders.len() as u64 + 1);
        self.orders.push((rec, keys, true));
        self.say(rec, keys, OrdStatus::New, RowFlags::default());
    }

    fn update(&mut self, pick: usize, ends: bool, keys: Option<Keys>, flags: RowFlags) {
        let Some(at) = self.pick_live(pick) else { return };
        let order = &mut self.orders[at];
        (order.1, order.2) = (keys.unwrap_or(order.1), !ends);
        let (rec, keys, _) = *order;
        let status = if ends { OrdStatus::Filled } else { OrdStatus::PartiallyFilled };
        self.seq += 1;
        self.say(rec, keys, status, flags);
    }

    fn crash(&mut self, call: u64, choice: u64, closes: bool) {
        let fails = Some((call, DiskErrorKind::Io));
        self.disk.set_faults(SimFaults { call_fails_at: fails, ..SimFaults::default() });
        let archive = self.archive();
        let failed = if closes { archive.close().err() } else { archive.work(Nanos(0)).err() };
        assert!(matches!(failed, None | Some(ColdError::Disk(_) | ColdError::Segment(_))));
        drop(self.archive.take());
        self.disk = self.disk.after_power_loss(CrashChoice::Random(choice));
        let (archive, report) = Archive::open(self.disk.clone(), config()).unwrap();
        assert_eq!((report.damaged, report.foreign), (vec![], vec![]));
        self.archive = Some(archive);
    }

    fn read(&mut self, reader: &mut Reader, rows_max: u32, scan_max: u32) {
        let filter = hot_filter(&reader.filter);
        let hot_limits = weir_delivery::PageLimits { rows_max, bytes_max: u32::MAX, scan_max };
        if self.hot.check(Epoch(1), reader.after, &filter).is_ok() {
            let mut selection = Selection::default();
            let after = reader.after;
            let page = self.hot.select(after, &filter, &hot_limits, &mut selection);
            self.hot.rows(&selection).iter().for_each(|row| reader.take(row));
            reader.after = page.next;
            if page.is_online {
                self.check_mirror(reader);
            }
            return;
        }
        if self.archive().check(Epoch(1), reader.after).is_err() {
            (reader.after, reader.mirror) = (ChangeId::START, BTreeMap::new());
            return;
        }
        let limits = PageLimits { rows_max, bytes_max: 400, scan_max, blocks_max: 1 };
        let (after, filter, mut out) = (reader.after, reader.filter, Vec::new());
        let page = self.archive().page(after, &filter, &limits, &mut out).unwrap();
        self.cold_pages += 1;
        let rows = rows_of(&out, page.row_count);
        assert_eq!(out.len(), page.byte_count as usize);
        assert!(rows.is_sorted_by(|a, b| change_id_of(&a.0) < change_id_of(&b.0)));
        assert!(
            rows.iter().all(|(row, _)| change_id_of(row) > after && change_id_of(row) <= page.next)
        );
        assert!(page.next > after || !page.is_cut, "a page moves its reader on");
        rows.iter().for_each(|(row, _)| reader.take(row));
        reader.after = page.next;
        if !page.is_cut && page.next < self.hot.floor() {
            // The store has removed changes that are in no segment yet, so the archive must close
            // one.
            feed(self.archive.as_mut().unwrap(), &self.hot, u32::MAX).unwrap();
            self.archive().close().unwrap();
        }
    }

    /// Checks that a reader that is ONLINE has the latest state of all live orders that it may see.
    fn check_mirror(&self, reader: &Reader) {
        let strip = |row: &OrderRow| OrderRow { merged_count: 0, ..*row };
        let mirrored: Vec<OrderRow> =
            reader.mirror.values().filter(|row| is_live(row)).map(strip).collect();
        let mut live: Vec<OrderRow> = Vec::new();
        for (rec, keys, is_live) in &self.orders {
            if *is_live && reader.filter.matches(keys) {
                live.push(strip(&self.full.get(*rec).unwrap()));
            }
        }
        assert!(mirrored == live, "{:?} has {mirrored:?}, not {live:?}", reader.filter);
        for row in reader.mirror.values() {
            assert_eq!(
                change_id_of(row),
                change_id_of(&self.full.get(row.rec).unwrap()),
                "the last state"
            );
        }
    }

    /// Checks that an unlimited page of the archive equals, byte for byte, that of a store that
    /// keeps everything.
    fn compare(&mut self, pick: usize, filter: &Filter) {
        let hot = self.hot.clone();
        feed(self.archive(), &hot, u32::MAX).unwrap();
        self.archive().close().unwrap();
        let after = self.change_ids[pick % self.change_ids.len()];
        if let Err(resync) = self.archive().check(Epoch(1), after) {
            assert_eq!(resync, Resync::Floor);
            assert!(after < self.archive().floor());
            return;
        }
        let limits = PageLimits {
            rows_max: 60_000,
            bytes_max: u32::MAX,
            scan_max: u32::MAX,
            blocks_max: u32::MAX,
        };
        let mut out = Vec::new();
        let page = self.archive().page(after, filter, &limits, &mut out).unwrap();
        let mut selection = Selection::default();
        let full_limits =
            weir_delivery::PageLimits { rows_max: 60_000, bytes_max: u32::MAX, scan_max: u32::MAX };
        let (full_filter, full_after) = (hot_filter(filter), after);
        let want = self.full.select(full_after, &full_filter, &full_limits, &mut selection);
        let want_rows: Vec<(OrderRow, Vec<u8>)> = self
            .full
            .rows(&selection)
            .into_iter()
            .zip(self.full.row_attributes(&selection).into_iter().map(<[u8]>::to_vec))
            .collect();
        assert_eq!(rows_of(&out, page.row_count), want_rows);
        assert_eq!(page.next, want.next);
        assert_eq!(page.merged_count, want.merged_count);
        assert_eq!(page.oldest_transact_time, want.oldest_transact_time);
    }

    fn step(&mut self, step: &Op) {
        match *step {
            Op::Insert { keys, at_same_seq } => self.insert(keys, at_same_seq),
            Op::Update { pick, ends, keys } => {
                self.update(pick, ends, keys, RowFlags::default());
            }
            Op::Delete { pick } => self.update(pick, true, None, RowFlags::TOMBSTONE),
            Op::Feed { entries_max } => {
                feed(self.archive.as_mut().unwrap(), &self.hot, entries_max).map(|_| ()).unwrap();
            }
            Op::Close => {
                self.archive().close().unwrap();
            }
            Op::Work => {
                let _ = self.archive().work(Nanos(0)).unwrap();
            }
            Op::Retire { keep } => self.retire(keep),
            Op::Crash { call, choice, closes } => self.crash(call, choice, closes),
            Op::Compare { pick, ref filter } => self.compare(pick, filter),
            Op::Read { .. } => unreachable!("the caller has the readers"),
        }
    }

    fn retire(&mut self, keep: u64) {
        let disk = self.disk.clone();
        drop(self.archive.take());
        let kept = weir_cold::ColdConfig { keep_bytes: keep * 4_000, ..config() };
        let (mut archive, _) = Archive::open(disk.clone(), kept).unwrap();
        while archive.work(Nanos(0)).unwrap() == WorkOutcome::Retired {}
        drop(archive);
        self.archive = Some(Archive::open(disk, config()).unwrap().0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn readers_of_archive_and_store_end_with_the_latest_state(
        steps in prop::collection::vec(any_step(), 1..250),
        filters in prop::collection::vec(any_filter(), 4),
        ended_max in prop_oneof![Just(0u32), 1..12u32],
    ) {
        let mut world = World::new(ended_max);
        let reader = |filter: &Filter| Reader {
            filter: *filter,
            after: ChangeId::START,
            mirror: BTreeMap::new(),
        };
        let mut readers: Vec<Reader> = filters.iter().map(reader).collect();
        for step in &steps {
            match *step {
                Op::Read { reader, rows_max, scan_max } => {
                    world.read(&mut readers[reader], rows_max, scan_max);
                }
                _ => world.step(step),
            }
        }
        let filter = readers[0].filter;
        world.compare(steps.len(), &filter);
        for reader in &mut readers {
            for _ in 0..2_000 {
                world.read(reader, 1_000, 1_000);
            }
            world.check_mirror(reader);
        }
    }
}
