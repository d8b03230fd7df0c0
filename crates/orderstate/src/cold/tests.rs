//! The store's desk, the archive's agent and the rings between them, on one thread over a simulated
//! disk: every reader with any token gets the same as from a store that discards nothing.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use weir_cold::ColdConfig;
use weir_delivery::{
    Desk, DeskConfig, Entitlement, FetchOutcome, Kinds, NonceCounter, OrderStore, PageSink,
    Question, Retention, StoreConfig, TokenKey, TokenSealer,
};
use weir_io::disk::sim::CrashChoice;
use weir_io::{SimDisk, SimFaults};
use weir_runtime::Agent;
use weir_types::*;
use weir_wire::delivery::{FetchOrders, OrderPage, OrderRow, RowFlags};
use weir_wire::dialogue::NodeMessage;
use weir_wire::frame::{Framing, next_frame};

use super::*;

const SOURCE: PartitionId = PartitionId(1);
/// A step of time longer than the sender's interval.
const STEP: u64 = 60_000_000;

fn sealer(maker: u32) -> TokenSealer {
    TokenSealer::new(TokenKey::new(1, &[7; 32]), NonceCounter::new(maker, Nanos(1)))
}

pub(crate) fn row(seq: u64, rec: u64, firm: u32, ord_status: OrdStatus) -> OrderRow {
    OrderRow {
        rec: Rec(rec),
        seq: Seq(seq),
        order_id: OrderId::new(SOURCE, Rec(rec)),
        transact_time: Nanos(1_000_000 + seq),
        created_time: Nanos(1_000_000),
        cl_ord_id: ClOrdId::from_number(rec),
        price: Price(100 + (seq % 7).cast_signed()),
        stop_px: Price(0),
        last_px: Price(0),
        last_qty: Qty(0),
        order_qty: Qty(10),
        leaves_qty: Qty(if ord_status.is_live() { 10 } else { 0 }),
        cum_qty: Qty(0),
        expire_time: Nanos(0),
        merged_count: 0,
        session_id: SessionId(1),
        firm_id: FirmId(firm),
        account_id: AccountId(firm),
        instrument_id: InstrumentId(1),
        partition_id: SOURCE,
        reason: Reason::None,
        side: Side::Buy,
        ord_type: OrdType::Limit,
        time_in_force: TimeInForce::Day,
        exec_inst: ExecInst::NONE,
        exec_type: ExecType::New,
        ord_status,
        flags: RowFlags::default(),
        display_qty: Qty(0),
    }
}

#[derive(Default)]
struct Sink(Vec<u8>);

impl PageSink for Sink {
    fn buffer(&mut self, _connection: u64, _session_id: SessionId) -> Option<&mut Vec<u8>> {
        Some(&mut self.0)
    }
}

/// A reader and its received rows.
struct Reader {
    firm: u32,
    token: Vec<u8>,
    mirror: BTreeMap<Rec, OrderRow>,
    /// Later changes must be sent.
    since: u64,
    /// True when it was refused and its next page starts again.
    begins: bool,
    resyncs: u32,
    refusals: u32,
}

impl Reader {
    fn new(firm: u32) -> Reader {
        let (token, mirror) = (Vec::new(), BTreeMap::new());
        Reader { firm, token, mirror, since: 0, begins: true, resyncs: 0, refusals: 0 }
    }
}

struct World {
    disk: SimDisk,
    desk: Desk,
    sender: ArchiveSender<SimDisk>,
    agent: ColdAgent<SimDisk>,
    figures: std::sync::Arc<ColdFigures>,
    /// All changes that were sent and not disowned.
    history: Vec<OrderRow>,
    /// Orders that a full resend does not repeat.
    forgotten: BTreeSet<Rec>,
    live: Vec<(u64, u32)>,
    now: u64,
    config: ColdConfig,
    ended_max: u32,
}

fn store(ended_max: u32) -> OrderStore {
    let retention = Retention { count_max: ended_max, bytes_max: u64::MAX };
    let config = StoreConfig::new(SOURCE, Epoch(1));
    OrderStore::new(StoreConfig { retention, kinds: Kinds::FULL, ..config })
}

fn config() -> ColdConfig {
    ColdConfig {
        interval: Nanos(25),
        block_entries: 3,
        merge_count: 2,
        cached_blocks: 2,
        keep_for: Nanos(u64::MAX),
        ..ColdConfig::new(SOURCE, Epoch(1))
    }
}

type Parts = (Desk, ArchiveSender<SimDisk>, ColdAgent<SimDisk>, std::sync::Arc<ColdFigures>);

/// Starts the parts from a log's rows and a disk.
fn start(disk: SimDisk, history: &[OrderRow], config: &ColdConfig, ended_max: u32) -> Parts {
    let figures = std::sync::Arc::<ColdFigures>::default();
    let parts = ColdParts {
        dir: "".into(),
        config: config.clone(),
        pace: agent::pace_of(u64::MAX),
        readers_max: 2,
        sealer: sealer(2),
        store: weir_runtime::Wake::new(),
        wake: weir_runtime::Wake::new(),
        figures: figures.clone(),
    };
    let (port, agent) = ColdAgent::over(disk, parts, &mut Vec::new()).unwrap();
    let mut sender = ArchiveSender::new(port, agent).before_a_small_store();
    let mut desk = Desk::new(DeskConfig::default(), store(ended_max), sealer(1));
    desk.keep_older(sender.out_max());
    for row in history {
        ingest(desk.store_mut(), row);
        sender.send_at_start(desk.store_mut());
    }
    let agent = sender.take_agent();
    (desk, sender, agent, figures)
}

fn ingest(store: &mut OrderStore, row: &OrderRow) {
    let mut block = Vec::new();
    weir_wire::Message::encode_block(row, &mut block);
    let _ = store.ingest_row(&block, &[]).unwrap();
}

impl World {
    fn new(config: ColdConfig, ended_max: u32) -> World {
        let disk = SimDisk::new(1);
        let (desk, sender, agent, figures) = start(disk.clone(), &[], &config, ended_max);
        World {
            disk,
            desk,
            sender,
            agent,
            figures,
            history: Vec::new(),
            forgotten: BTreeSet::new(),
            live: Vec::new(),
            now: STEP,
            config,
            ended_max,
        }
    }

    /// Returns a world with one order: a token from before the first order starts again.
    fn begun(ended_max: u32) -> World {
        let mut world = World::new(config(), ended_max);
        world.insert(1);
        world
    }

    fn say(&mut self, rec: u64, firm: u32, status: OrdStatus) {
        let row = row(self.history.len() as u64 + 1, rec, firm, status);
        self.history.push(row);
        ingest(self.desk.store_mut(), &row);
        self.feed();
    }

    fn feed(&mut self) {
        self.now += STEP;
        let _ = self.sender.send(self.desk.store_mut(), Nanos(self.now));
    }

    fn work(&mut self) {
        self.now += STEP;
        self.agent.do_work(Nanos(self.now));
    }

    fn insert(&mut self, firm: u32) {
        let rec = self.history.len() as u64 + 1;
        self.live.push((rec, firm));
        self.say(rec, firm, OrdStatus::New);
    }

    fn change(&mut self, pick: usize, ends: bool) {
        if self.live.is_empty() {
            return;
        }
        let at = pick % self.live.len();
        let (rec, firm) = if ends { self.live.swap_remove(at) } else { self.live[at] };
        self.say(rec, firm, if ends { OrdStatus::Canceled } else { OrdStatus::New });
    }

    /// Cuts the power: rebuilds the store from the log and the archive from its disk.
    fn crash(&mut self, choice: u64) {
        self.disk = self.disk.after_power_loss(CrashChoice::Random(choice));
        let (config, ended_max) = (self.config.clone(), self.ended_max);
        let parts = start(self.disk.clone(), &self.history, &config, ended_max);
        (self.desk, self.sender, self.agent, self.figures) = parts;
    }

    /// Reads a page for a reader, from the store or the archive.
    fn read(&mut self, reader: &mut Reader, rows_max: u32) -> bool {
        let fetch = FetchOrders {
            correlation_id: 1,
            session_id: SessionId(1),
            firm_id: FirmId(reader.firm),
            account_id: AccountId::NONE,
            instrument_id: InstrumentId::NONE,
            rows_max,
            rows_min: 0,
            bytes_max: 0,
            wait_max_us: 0,
            credit: 1,
            live_only: Switch::Off,
            source_id: PartitionId::NONE,
            min_wait_us: 0,
            credit_rows: 0,
            credit_bytes: 0,
        };
        let question = Question {
            connection: 1,
            fetch: &fetch,
            token: &reader.token,
            min_token: &[],
            entitlement: Entitlement::all(),
        };
        assert_eq!(self.desk.ask(&question, Nanos(self.now)), FetchOutcome::Accepted);
        let mut sink = Sink::default();
        for _ in 0..10_000 {
            // Discarded orders must be sent to the archive whether or not a reader waits.
            self.feed();
            let _ = self.desk.poll(Nanos(self.now), &mut sink);
            if !sink.0.is_empty() {
                return self.take(reader, &sink.0);
            }
            self.sender.ask(&mut self.desk);
            self.work();
            self.sender.take_answers(&mut self.desk);
        }
        panic!("no page comes");
    }

    fn take(&self, reader: &mut Reader, mut bytes: &[u8]) -> bool {
        let mut online = false;
        while !bytes.is_empty() {
            let Framing::Frame { message: Ok(raw), len } = next_frame(bytes, 1 << 24) else {
                panic!("whole frames");
            };
            match NodeMessage::decode(&raw).unwrap() {
                NodeMessage::OrderPage(page, token) => online = self.head(reader, &page, token),
                NodeMessage::OrderPageBody(_, rows) => {
                    for (row, _) in rows.map(Result::unwrap) {
                        self.check_latest(&row);
                        apply(reader, &row);
                    }
                }
                NodeMessage::Reject(_) => reader.refusals += 1,
                other => panic!("{other:?}"),
            }
            bytes = &bytes[len..];
        }
        online
    }

    /// Checks that an order's row is its latest state in the archive, or an end, and was never
    /// disowned.
    fn check_latest(&self, row: &OrderRow) {
        if row.flags.contains(RowFlags::LEAVE) {
            return;
        }
        let told = OrderRow { merged_count: 0, ..*row };
        let is_said = row.flags.contains(RowFlags::TOMBSTONE) || self.history.contains(&told);
        assert!(is_said, "{row:?} never was");
        let fed = self.agent.archive.fed().seq;
        let is_later =
            |other: &&OrderRow| other.rec == row.rec && other.seq > row.seq && other.seq <= fed;
        let is_history = row.ord_status.is_live() && self.history.iter().any(|row| is_later(&row));
        assert!(!is_history, "{row:?} is history");
    }

    fn head(&self, reader: &mut Reader, page: &OrderPage, token: &[u8]) -> bool {
        if reader.begins && page.reason == Reason::None {
            (reader.since, reader.begins) = (self.said(), false);
        }
        if page.reason != Reason::None {
            assert!(matches!(page.reason, Reason::ResyncFloor | Reason::ResyncEpoch), "{page:?}");
            reader.mirror.clear();
            reader.begins = true;
            reader.resyncs += 1;
        }
        reader.token = token.to_vec();
        page.flags.contains(weir_wire::delivery::PageFlags::ONLINE)
    }

    /// Returns the `seq` of the last change.
    fn said(&self) -> u64 {
        let last = self.history.last().map_or(Seq(0), |row| row.seq);
        last.max(self.desk.store().head().seq).0
    }

    /// Checks that an online reader has all rows, and no other live ones. It may keep the end of an
    /// order that was deleted, or left its filter, when the store had discarded the order.
    fn check(&self, reader: &Reader) {
        let mut latest: BTreeMap<Rec, OrderRow> = BTreeMap::new();
        for row in &self.history {
            if row.flags.contains(RowFlags::TOMBSTONE) {
                latest.remove(&row.rec);
            } else {
                latest.insert(row.rec, *row);
            }
        }
        latest.retain(|_, row| reader.firm == 0 || row.firm_id.0 == reader.firm);
        for (rec, has) in &reader.mirror {
            let has = OrderRow { merged_count: 0, ..*has };
            let is_end = !has.ord_status.is_live() && self.history.contains(&has);
            assert!(
                latest.get(rec) == Some(&has) || is_end,
                "{has:?} is not {:?}",
                latest.get(rec)
            );
        }
        for (rec, row) in &latest {
            let is_kept = row.seq.0 > reader.since && !self.forgotten.contains(rec);
            let is_due = row.ord_status.is_live() || is_kept;
            assert!(!is_due || reader.mirror.contains_key(rec), "{row:?} was not told");
        }
    }

    fn step(&mut self, step: Op, readers: &mut [Reader; 4]) {
        match step {
            Op::Insert(firm) => self.insert(firm),
            Op::Change(pick, ends) => self.change(pick, ends),
            Op::Work => self.work(),
            Op::Crash(choice) => self.crash(choice),
            Op::Read(reader, rows) => _ = self.read(&mut readers[reader], rows),
        }
    }

    /// Checks that all readers have all rows and none was refused.
    fn end(&mut self, readers: &mut [Reader; 4]) {
        for reader in readers {
            self.read_all(reader);
            assert_eq!((reader.resyncs, reader.refusals), (0, 0));
        }
        assert_eq!(self.figures.report(SOURCE).archive.holes, 0);
    }

    fn read_all(&mut self, reader: &mut Reader) {
        let is_online = (0..10_000).any(|_| self.read(reader, 50));
        assert!(is_online, "a reader never gets online");
        self.check(reader);
    }
}

fn apply(reader: &mut Reader, row: &OrderRow) {
    if row.flags.contains(RowFlags::TOMBSTONE) || row.flags.contains(RowFlags::LEAVE) {
        reader.mirror.remove(&row.rec);
        return;
    }
    let before = reader.mirror.insert(row.rec, *row);
    assert!(before.is_none_or(|before| before.seq < row.seq), "an order goes back");
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u32),
    Change(usize, bool),
    Work,
    Crash(u64),
    Read(usize, u32),
}

fn any_step() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (1..4u32).prop_map(Op::Insert),
        10 => (0..1_000_000usize, prop::bool::weighted(0.4))
            .prop_map(|(pick, ends)| Op::Change(pick, ends)),
        4 => Just(Op::Work),
        1 => any::<u64>().prop_map(Op::Crash),
        8 => (0..4usize, 1..6u32).prop_map(|(reader, rows)| Op::Read(reader, rows)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn readers_pass_from_files_to_the_store_and_miss_nothing(
        steps in prop::collection::vec(any_step(), 1..200),
        ended_max in 1..12u32,
    ) {
        let mut world = World::begun(ended_max);
        let mut readers = [0, 1, 2, 3].map(Reader::new);
        steps.into_iter().for_each(|step| world.step(step, &mut readers));
        world.end(&mut readers);
    }
}

/// Returns a world whose store has discarded the changes after a reader's first token.
fn parked(config: ColdConfig) -> (World, Reader) {
    let mut world = World::new(config, 4);
    let mut reader = Reader::new(0);
    (0..3).for_each(|_| world.insert(1));
    world.read_all(&mut reader);
    pass(&mut world, 40);
    (world, reader)
}

/// Inserts and ends orders.
fn pass(world: &mut World, count: u32) {
    for _ in 0..count {
        world.insert(1);
        let last = world.live.len() - 1;
        world.change(last, true);
        world.work();
    }
}

#[test]
fn a_token_that_is_older_than_what_is_kept_is_refused_and_the_next_is_whole() {
    let (mut world, mut reader) = parked(ColdConfig { keep_bytes: 1, ..config() });
    world.read_all(&mut reader);
    assert_eq!(reader.resyncs, 1);
    assert!(world.figures.report(SOURCE).counts.resyncs >= 1);
}

#[test]
fn a_damaged_file_is_counted_and_its_readers_are_refused() {
    let (mut world, mut reader) = parked(config());
    let segment = world.agent.archive.segments().next().unwrap();
    // The last block's end: behind it are the index, 872 bytes for each block, and the footer.
    let index_at = segment.file_len - 64 - 872 * segment.block_count() as u64;
    world.disk.flip_bit(&segment.header.file_name(), 8 * (index_at - 5));
    let (token, mirror) = (reader.token.clone(), reader.mirror.clone());
    let mut second = Reader { token, mirror, since: reader.since, ..Reader::new(0) };
    world.read_all(&mut reader);
    assert_eq!((reader.resyncs, world.figures.report(SOURCE).counts.damaged), (1, 1));
    // A later reader gets the same refusal, though the file is not read again.
    world.read_all(&mut second);
    assert_eq!((second.resyncs, world.figures.report(SOURCE).counts.damaged), (1, 1));
}

#[test]
fn a_file_that_was_taken_away_is_as_a_damaged_one() {
    let (mut world, mut reader) = parked(config());
    let name = world.agent.archive.segments().next().unwrap().header.file_name();
    weir_io::Disk::remove(&mut world.disk.clone(), &name).unwrap();
    world.read_all(&mut reader);
    assert_eq!((reader.resyncs, world.figures.report(SOURCE).counts.damaged), (1, 1));
}

#[test]
fn without_room_the_store_goes_on_and_with_room_again_nothing_is_missing() {
    let (mut world, mut reader) = parked(config());
    world.disk.set_faults(SimFaults { full_from: Some(0), ..SimFaults::default() });
    pass(&mut world, 20);
    let report = world.figures.report(SOURCE);
    assert!(report.counts.is_full && report.counts.disk_errors > 0, "{report:?}");
    let mut fresh = Reader::new(0);
    world.read_all(&mut fresh);
    world.disk.set_faults(SimFaults::default());
    // The disk is retried after a second.
    (0..20).for_each(|_| world.work());
    world.read_all(&mut reader);
    assert_eq!((reader.resyncs, world.figures.report(SOURCE).archive.holes), (0, 0));
    assert!(!world.figures.report(SOURCE).counts.is_full);
}

#[test]
fn a_reader_that_leaves_is_forgotten_and_holds_nobody_up() {
    let (mut world, reader) = parked(config());
    let fetch = |correlation_id| FetchOrders {
        correlation_id,
        session_id: SessionId(1),
        firm_id: FirmId::NONE,
        account_id: AccountId::NONE,
        instrument_id: InstrumentId::NONE,
        rows_max: 1,
        rows_min: 0,
        bytes_max: 0,
        wait_max_us: 0,
        credit: 100,
        live_only: Switch::Off,
        source_id: PartitionId::NONE,
        min_wait_us: 0,
        credit_rows: 0,
        credit_bytes: 0,
    };
    for connection in 1..=20 {
        let question = Question {
            connection,
            fetch: &fetch(connection),
            token: &reader.token,
            min_token: &[],
            entitlement: Entitlement::all(),
        };
        assert_eq!(world.desk.ask(&question, Nanos(world.now)), FetchOutcome::Accepted);
    }
    let _ = world.desk.poll(Nanos(world.now), &mut Sink::default());
    world.sender.ask(&mut world.desk);
    // Two are outstanding, the maximum; the others wait at the desk.
    assert_eq!(world.desk.below_floor_count(), 20);
    let before = world.figures.report(SOURCE).counts.pages;
    (1..=20).for_each(|connection| world.desk.drop_connection(connection));
    world.sender.ask(&mut world.desk);
    world.work();
    world.sender.take_answers(&mut world.desk);
    assert_eq!((world.desk.below_floor_count(), world.desk.reader_count()), (0, 0));
    assert_eq!(
        world.figures.report(SOURCE).counts.pages,
        before,
        "nothing was read for who had left"
    );
    let mut reader = reader;
    world.read_all(&mut reader);
}

/// Returns a world whose disk was full until the store discarded orders that fitted nowhere.
fn overtaken() -> (World, Reader) {
    let (mut world, reader) = parked(ColdConfig { segment_bytes_max: 1_000, ..config() });
    world.sender.held_max = 8;
    world.disk.set_faults(SimFaults { full_from: Some(0), ..SimFaults::default() });
    pass(&mut world, 200);
    world.disk.set_faults(SimFaults::default());
    for _ in 0..40 {
        world.work();
        world.feed();
    }
    (world, reader)
}

#[test]
fn what_was_not_handed_over_in_time_is_a_hole_that_readers_are_told_of() {
    let (mut world, mut reader) = overtaken();
    world.read_all(&mut reader);
    let report = world.figures.report(SOURCE);
    assert_eq!((reader.resyncs, report.archive.holes), (1, 1), "{report:?}");
}

/// More orders end than the rings hold before the archive's thread runs.
#[test]
fn what_the_store_holds_for_a_slow_archive_is_no_hole() {
    let (mut world, mut reader) = parked(config());
    for _ in 0..200 {
        world.insert(1);
        let last = world.live.len() - 1;
        world.change(last, true);
    }
    assert!(world.desk.store().ended_count() > 100, "it holds what found no room");
    (0..40).for_each(|_| {
        world.work();
        world.feed();
    });
    while world.desk.store_mut().sweep(16) {}
    assert_eq!(world.desk.store().ended_count(), 4);
    world.read_all(&mut reader);
    assert_eq!((reader.resyncs, world.figures.report(SOURCE).archive.holes), (0, 0));
}

mod epochs;

#[cfg(feature = "planted")]
mod planted {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    use weir_cold::plant::{self, Plant};

    use super::*;

    /// Runs random but reproducible steps; the rarest of the planted bugs shows after some hundred
    /// rounds.
    fn seam() {
        let mut runner = TestRunner::deterministic();
        let steps = prop::collection::vec(any_step(), 1..200);
        for round in 0..2_000 {
            let steps = steps.new_tree(&mut runner).unwrap().current();
            let mut world = World::begun(1 + round % 11);
            let mut readers = [0, 1, 2, 3].map(Reader::new);
            steps.into_iter().for_each(|step| world.step(step, &mut readers));
            world.end(&mut readers);
        }
    }

    const SCENARIOS: [(&str, fn()); 9] = [
        ("random steps", seam),
        ("random steps through epochs", super::epochs::seam),
        (
            "snapshot",
            super::epochs::a_snapshot_has_no_name_before_what_its_store_let_go_is_in_files,
        ),
        ("slow", what_the_store_holds_for_a_slow_archive_is_no_hole),
        ("retired", a_token_that_is_older_than_what_is_kept_is_refused_and_the_next_is_whole),
        ("damaged", a_damaged_file_is_counted_and_its_readers_are_refused),
        ("overtaken", what_was_not_handed_over_in_time_is_a_hole_that_readers_are_told_of),
        ("left", a_reader_that_leaves_is_forgotten_and_holds_nobody_up),
        ("aged", segments_grow_old_in_service),
    ];

    #[test]
    fn every_planted_bug_is_found() {
        let mut unseen = Vec::new();
        for planted in Plant::ALL.iter().copied() {
            plant::set(Some(planted));
            let found =
                SCENARIOS.iter().find(|(_, run)| catch_unwind(AssertUnwindSafe(run)).is_err());
            plant::set(None);
            match found {
                Some((name, _)) => println!("{planted:?}: found by {name}"),
                None => unseen.push(planted),
            }
        }
        assert!(unseen.is_empty(), "not found: {unseen:?}");
        SCENARIOS.iter().for_each(|(_, run)| run());
    }
}

fn segments_grow_old_in_service() {
    const SECOND: u64 = 1_000_000_000;
    let mut world = World::new(ColdConfig { keep_for: Nanos(600 * SECOND), ..config() }, 1);
    // The times of the changes are far before.
    world.agent.begin_after(Nanos(3_600 * SECOND));
    for _ in 0..20 {
        world.insert(1);
        world.change(0, true);
        world.work();
    }
    (0..20).for_each(|_| world.work());
    let before = world.agent.archive.figures();
    assert!(before.segments > 0 && before.retired == 0, "{before:?}");
    let year = 365 * 86_400 * SECOND;
    for wall in [Nanos(world.now + year), Nanos(0)] {
        world.agent.wall_clock_moved(WallOffset::between(Nanos(world.now), wall));
        (0..20).for_each(|_| world.work());
    }
    // Nor is a long pause of the thread service.
    world.now += year;
    (0..20).for_each(|_| world.work());
    assert_eq!(world.agent.archive.figures().retired, 0);
    // Nothing changes any more, and each run is shorter than the segments are kept.
    for _ in 0..2 {
        assert!(world.agent.stop(Nanos(world.now)));
        world.crash(0);
        world.agent.begin_after(Nanos(world.now + year));
        assert!(world.agent.archive.figures().segments > 0);
        for _ in 0..32 {
            world.now += 10 * SECOND;
            world.work();
        }
    }
    (0..20).for_each(|_| world.work());
    assert_eq!(world.agent.archive.figures().segments, 0);
}

#[test]
fn segments_grow_old_in_service_whatever_the_wall_clock_says() {
    segments_grow_old_in_service();
}
