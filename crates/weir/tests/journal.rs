//! A source's log and snapshots under a power loss at each of their write points, on a simulated
//! disk: every committed entry is present, in order and once, and store and stream equal those that
//! took in exactly these entries.

#![allow(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

#[path = "../../delivery/tests/stream/core.rs"]
#[allow(dead_code, reason = "the stream's own test takes the rest")]
mod core;

use weir_delivery::stream::{BatchOutcome, SourceStream, Window};
use weir_delivery::{ChunkOutcome, Filter, OrderStore};
use weir_io::disk::sim::{CrashChoice, TraceOp};
use weir_io::{Rng, SeededRng, SimDisk};
use weir_log::{Durability, LogConfig, SnapshotStore};
use weir_orderstate::stores::journal::{Journal, RecoveredSource, recover, sync_log};
use weir_orderstate::stores::{Indexes, StoreSettings};
use weir_types::{BatchNo, Nanos, Position, Reason, SessionId};
use weir_wire::ClientMessage;
use weir_wire::dialogue::put_source_batch;
use weir_wire::frame::{Framing, next_frame, put_frame};
use weir_wire::ingest::{OpenSource, SOURCE_FRAME_LEN_MAX, SourceBatch};

use crate::core::{Core, Random, SOURCE};

const SESSION: SessionId = SessionId(30);
const WINDOW: Window = Window { batches: 256, bytes: 4 << 20 };
const LOG_ID: u128 = 0xa5a5_0000_0000_0040;
const WRITER: u64 = 1;

fn settings() -> StoreSettings {
    let indexes = Indexes::default();
    StoreSettings { source: SOURCE, ended_orders_max: 20, bytes_max: u64::MAX, indexes }
}

fn config(durability: Durability) -> LogConfig {
    LogConfig {
        durability,
        segment_bytes: 16 << 10,
        queue_bytes_max: 1 << 20,
        idle_after: Nanos(1_000),
        ..LogConfig::new(SOURCE, LOG_ID)
    }
}

fn bring_back(
    disk: &SimDisk,
    level: Durability,
) -> anyhow::Result<RecoveredSource<SimDisk, SimDisk>> {
    recover(&settings(), WINDOW, config(level), disk.clone(), disk.clone())
}

/// Returns the complete state of store and stream, after any due sweep.
fn state_of(store: &mut OrderStore, stream: &mut SourceStream) -> (u64, u64, Vec<u8>) {
    while stream.is_sweeping() {
        let _ = stream.sweep(1_000, store);
    }
    let mut state = Vec::new();
    stream.put_state(&mut state);
    let ended = u64::from(store.ended_count());
    (store.digest(&Filter::ALL).unwrap(), ended, state)
}

type State = (u64, u64, Vec<u8>);

/// The promise at one length of the recording.
#[derive(Clone, Copy, Default)]
struct Promise {
    recorded: usize,
    committed: Position,
    taken: Position,
}

struct Workload {
    core: Core,
    random: Random,
    rng: SeededRng,
    store: OrderStore,
    stream: SourceStream,
    journal: Journal<SimDisk>,
    snapshots: SnapshotStore<SimDisk>,
    disk: SimDisk,
    now: u64,
    fed: usize,
    /// The state after each entry; index 0 is the state before the first.
    states: Vec<State>,
    promises: Vec<Promise>,
    snapshot_count: u32,
}

impl Workload {
    fn new(level: Durability, seed: u64) -> Workload {
        let disk = SimDisk::new(seed);
        disk.record();
        let RecoveredSource { mut store, mut stream, journal, snapshots, .. } =
            bring_back(&disk, level).unwrap();
        let states = vec![state_of(&mut store, &mut stream)];
        let mut workload = Workload {
            core: Core::new(),
            random: Random(seed),
            rng: SeededRng::new(seed, "workload"),
            store,
            stream,
            journal,
            snapshots,
            disk,
            now: 1,
            fed: 0,
            states,
            promises: vec![Promise::default()],
            snapshot_count: 0,
        };
        workload.note();
        workload.open();
        workload
    }

    fn note(&mut self) {
        self.promises.push(Promise {
            recorded: self.disk.recorded(),
            committed: self.journal.committed(),
            taken: self.journal.taken(),
        });
    }

    fn keep(&mut self, entry: Vec<u8>) {
        self.states.push(state_of(&mut self.store, &mut self.stream));
        self.journal.keep(entry, Nanos(self.now));
        assert_eq!(self.journal.taken().0, self.states.len() as u64 - 1);
        self.note();
    }

    fn open(&mut self) {
        let mut open: OpenSource = self.core.open(SESSION);
        loop {
            match self.stream.open(&open, WRITER, &mut self.store) {
                Ok(opened) => {
                    let mut entry = Vec::new();
                    put_frame(&open, &mut entry);
                    self.keep(entry);
                    let head = weir_types::ChangeId::new(opened.head_seq, opened.head_rec);
                    self.core.opened(opened.next_batch_no, head);
                    self.core.store_epoch = self.core.epoch;
                    self.fed = 0;
                    return;
                }
                Err(reject) => {
                    assert_eq!(reject.reason, Reason::ResendNeeded);
                    self.core.begin_resend();
                    open = self.core.open(SESSION);
                }
            }
        }
    }

    fn feed(&mut self) {
        for _ in 0..=self.rng.below(3) {
            self.core.trade(&mut self.random);
        }
        self.core.cut_batch();
        while self.fed < self.core.batches.len() {
            let batch = &self.core.batches[self.fed];
            self.fed += 1;
            let head = SourceBatch {
                batch_no: BatchNo(self.fed as u64),
                sending_time: Nanos(1),
                session_id: SESSION,
                epoch: self.core.epoch,
                source_id: SOURCE,
                flags: batch.flags,
            };
            let rows = batch.rows.iter().map(|record| (record.row, &record.attributes[..]));
            let mut frame = Vec::new();
            put_source_batch(&head, rows, &mut frame);
            self.offer(frame);
        }
    }

    fn offer(&mut self, frame: Vec<u8>) {
        let Framing::Frame { message: Ok(raw), .. } = next_frame(&frame, SOURCE_FRAME_LEN_MAX)
        else {
            panic!("a whole frame");
        };
        let Ok(ClientMessage::SourceBatch(batch, rows)) = ClientMessage::decode(&raw) else {
            panic!("a batch");
        };
        let taken = self.stream.offer(&batch, rows, WRITER, &mut self.store, Nanos(1));
        assert!(matches!(taken, BatchOutcome::Stands(_) | BatchOutcome::Sweeps), "{taken:?}");
        self.keep(frame);
    }

    fn work(&mut self) {
        self.now += self.rng.below(400);
        self.journal.do_work(Nanos(self.now)).unwrap();
        self.note();
    }

    fn snapshot(&mut self) {
        let at = self.journal.begin_snapshot();
        let mut bytes = Vec::new();
        self.stream.put_state(&mut bytes);
        self.store.begin_snapshot();
        let mut part = self.snapshots.begin(at).unwrap();
        loop {
            let step = self.store.snapshot_chunk(1 << 10, &mut bytes).unwrap();
            self.snapshots.put(&mut part, &bytes).unwrap();
            bytes.clear();
            // Changes arrive meanwhile.
            self.feed();
            if step == ChunkOutcome::Done {
                break;
            }
        }
        while self.journal.committed() < at {
            self.work();
        }
        sync_log(&mut self.disk).unwrap();
        self.snapshots.finish(part).unwrap();
        let oldest = self.snapshots.prune(2).unwrap().unwrap();
        self.journal.cut_before(oldest);
        self.snapshot_count += 1;
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..55 => self.feed(),
            55..85 => {}
            85..92 => {
                self.core.remember();
                self.feed();
                let epoch = self.core.epoch;
                self.core.crash(&mut self.random);
                if self.core.epoch != epoch {
                    self.stream.close(WRITER);
                    self.open();
                }
            }
            _ => self.snapshot(),
        }
        self.work();
    }
}

/// Checks the state that a start finds against the promise; returns its position, and the disk as a
/// power loss leaves it while the log is open.
fn judge(
    disk: &SimDisk,
    level: Durability,
    least: Position,
    most: Position,
    states: &[State],
    place: &str,
) -> (Position, SimDisk) {
    let mut kept = bring_back(disk, level).unwrap_or_else(|error| panic!("{place}: {error:#}"));
    let at = kept.journal.taken();
    assert!((least..=most).contains(&at), "{place}: {at}, promised {least} to {most}");
    let found = state_of(&mut kept.store, &mut kept.stream);
    assert_eq!(found, states[at.0 as usize], "{place}: not the state after entry {at}");
    // The log closes itself when it is dropped.
    (at, disk.after_power_loss(CrashChoice::LoseAll))
}

fn crash_everywhere(level: Durability, seed: u64) -> (usize, u32, usize) {
    let mut workload = Workload::new(level, seed);
    (0..70).for_each(|_| workload.step());
    workload.journal.close().unwrap();
    workload.note();
    let Workload { disk, promises, states, snapshot_count, .. } = workload;
    let trace: Vec<TraceOp> = disk.take_trace();
    let disk = SimDisk::new(seed);
    let mut rng = SeededRng::new(seed, "choices");
    let (mut promised, mut recoveries) = (0, 0);
    for at in 0..=trace.len() {
        while promises.get(promised + 1).is_some_and(|next| next.recorded <= at) {
            promised += 1;
        }
        let next = promises.get(promised + 1).unwrap_or(&promises[promised]);
        let (promise, most) = (promises[promised], next.taken);
        let least = |is_kept: bool| if is_kept { promise.committed } else { Position::NONE };
        let killed = disk.after_process_crash();
        let place = format!("seed {seed}, write point {at}, killed");
        judge(&killed, level, least(true), most, &states, &place);
        let choices = [
            CrashChoice::LoseAll,
            CrashChoice::KeepAll,
            CrashChoice::Random(rng.next_u64()),
            CrashChoice::Random(rng.next_u64()),
        ];
        for choice in choices {
            let lost = disk.after_power_loss(choice);
            let place = format!("seed {seed}, write point {at}, {choice:?}");
            let least = least(level == Durability::Disk);
            let (first, again) = judge(&lost, level, least, most, &states, &place);
            // A second start must find the same state.
            judge(&again, level, first, first, &states, &format!("{place}, again"));
            recoveries += 2;
        }
        if let Some(op) = trace.get(at) {
            disk.apply(op);
        }
    }
    (trace.len(), snapshot_count, recoveries)
}

#[test]
fn no_committed_batch_is_lost_or_taken_twice_wherever_the_power_fails() {
    for seed in 1..4 {
        let (points, snapshots, recoveries) = crash_everywhere(Durability::Disk, seed);
        assert!(points > 100 && snapshots > 1, "{points} write points, {snapshots} snapshots");
        println!("seed {seed}: {points} write points, {snapshots} snapshots, {recoveries} starts");
    }
}

#[test]
fn at_level_os_a_killed_process_loses_nothing_and_a_power_loss_leaves_a_beginning() {
    let (points, snapshots, _) = crash_everywhere(Durability::Os, 11);
    assert!(points > 100 && snapshots > 1, "{points} write points, {snapshots} snapshots");
}

#[test]
fn a_log_whose_snapshots_are_gone_asks_its_core_for_all_that_there_is() {
    let mut workload = Workload::new(Durability::Disk, 5);
    while workload.journal.first() == Position(1) {
        workload.step();
    }
    // The trimmed segment is removed in the background.
    (0..20).for_each(|_| workload.work());
    workload.journal.close().unwrap();
    let disk = workload.disk.after_process_crash();
    for position in workload.snapshots.list().unwrap() {
        use weir_io::Disk;
        disk.clone().remove(&format!("{:020}.wsnap", position.0)).unwrap();
    }
    let kept = bring_back(&disk, Durability::Disk).unwrap();
    assert!(kept.notes.iter().any(|note| note.contains("send all again")), "{:?}", kept.notes);
    assert_eq!((kept.store.live_count(), kept.stream.is_whole()), (0, false));
    // The core sends everything again, and the next start has it.
    let RecoveredSource { mut store, mut stream, mut journal, .. } = kept;
    workload.core.begin_resend();
    let open = workload.core.open(SESSION);
    let opened = stream.open(&open, WRITER, &mut store).unwrap();
    let mut entry = Vec::new();
    put_frame(&open, &mut entry);
    journal.keep(entry, Nanos(u64::MAX / 2));
    journal.close().unwrap();
    drop(journal);
    let again = bring_back(&disk.after_process_crash(), Durability::Disk).unwrap();
    assert_eq!((again.stream.epoch(), opened.epoch), (open.epoch, open.epoch));
}
