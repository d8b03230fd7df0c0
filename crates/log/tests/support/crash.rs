//! Crashes a recorded workload at each of its write points and checks the recovery.
//!
//! A workload runs once on a recording simulated disk; every promise is noted with the length of
//! the recording. Each prefix of the recording is then a moment of power loss: for each choice of
//! surviving unsynced data, the log is opened and compared with the promises. The recording of that
//! recovery is itself cut at each of its points.

#![allow(dead_code)] // The test and the campaign use different parts.

use weir_io::disk::sim::{CrashChoice, TraceOp};
use weir_io::{Rng, SeededRng, SimDisk};
use weir_log::{
    Append, Batch, Durability, EmbeddedLog, LogConfig, LogError, Push, RecoveryReport,
    SequencedLog, SnapshotStore,
};
use weir_types::{Epoch, Nanos, PartitionId, Position};

/// The parameters of a campaign.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) level: Durability,
    pub(crate) operations: u64,
    pub(crate) seed: u64,
    /// The number of random subsets of unsynced data per write point.
    pub(crate) subsets: u64,
    /// One of this many crash states also has its recovery crashed.
    pub(crate) nested_every: u64,
}

/// The counts of a campaign.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) write_points: u64,
    pub(crate) recoveries: u64,
    pub(crate) nested: u64,
    pub(crate) cuts: u64,
    pub(crate) new_epochs: u64,
    pub(crate) violations: Vec<String>,
}

/// The promises made by the time the recording had this length.
#[derive(Clone, Copy, Debug, Default)]
struct Promise {
    recorded: usize,
    appended: u64,
    committed: u64,
    flushed: u64,
    truncated: u64,
    snapshot: u64,
}

const LOG_ID: u128 = 0xa5a5_0000_0000_0001;
const PARTITION: PartitionId = PartitionId(1);

fn config(level: Durability) -> LogConfig {
    let mut config = LogConfig::new(PARTITION, LOG_ID);
    config.durability = level;
    config.segment_bytes = 8192;
    config.queue_bytes_max = 1 << 20;
    config.idle_after = Nanos(1_000);
    config
}

/// Returns the entry at a position: its bytes follow from the position, so an invented entry shows.
fn entry(position: u64) -> Vec<u8> {
    let mut rng = SeededRng::new(position, "entry");
    let mut bytes = vec![0; 8 + rng.below(250) as usize];
    rng.fill(&mut bytes);
    bytes[..8].copy_from_slice(&position.to_le_bytes());
    bytes
}

struct Workload {
    log: EmbeddedLog<SimDisk>,
    disk: SimDisk,
    rng: SeededRng,
    now: u64,
    promise: Promise,
    promises: Vec<Promise>,
}

impl Workload {
    fn note(&mut self) {
        self.promise.recorded = self.disk.recorded();
        self.promise.committed = self.log.committed().0;
        self.promise.appended = self.log.next_position().0 - 1;
        self.promises.push(self.promise);
    }

    fn append(&mut self) {
        let mut batch = Batch::new();
        let next = self.log.next_position().0;
        for position in next..next + 1 + self.rng.below(4) {
            assert_eq!(batch.push(&entry(position)), Push::Taken);
        }
        let time = Nanos(self.log.last_log_time().0 + 1 + self.rng.below(100));
        let appended = self.log.append(self.log.epoch(), time, &batch);
        assert_eq!(appended, Append::At { first: Position(next) });
        self.note();
    }

    fn work(&mut self) {
        self.now += self.rng.below(400);
        self.log.do_work(Nanos(self.now)).expect("no fault was asked for");
        self.note();
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..50 => self.append(),
            50..90 => self.work(),
            90..92 => {
                self.log.flush_blocking().expect("no fault was asked for");
                self.promise.flushed = self.log.next_position().0 - 1;
                self.note();
            }
            92..97 => {
                let asked = self.rng.below(self.log.committed().0 + 1);
                self.promise.truncated = self.promise.truncated.max(asked);
                self.note();
                self.log.truncate(Position(self.promise.truncated));
            }
            _ => {
                let at = self.log.committed();
                let mut store = SnapshotStore::new(self.disk.clone(), LOG_ID, PARTITION);
                store.write(at, &entry(at.0)).expect("no fault was asked for");
                self.promise.snapshot = at.0;
                self.note();
                store.prune(2).expect("no fault was asked for");
            }
        }
        self.work();
    }
}

/// Runs the workload; returns the recording and the promises.
fn record(plan: Plan) -> (Vec<TraceOp>, Vec<Promise>) {
    let disk = SimDisk::new(plan.seed);
    disk.record();
    let (log, _) = EmbeddedLog::open(config(plan.level), disk.clone()).expect("a new log");
    let rng = SeededRng::new(plan.seed, "workload");
    let promise = Promise::default();
    let mut workload =
        Workload { log, disk: disk.clone(), rng, now: 0, promise, promises: vec![promise] };
    workload.note();
    for _ in 0..plan.operations {
        workload.step();
    }
    workload.log.close().expect("no fault was asked for");
    workload.promise.flushed = workload.log.next_position().0 - 1;
    workload.note();
    (disk.take_trace(), workload.promises)
}

/// Runs a whole campaign.
pub(crate) fn run(plan: Plan) -> Tally {
    let (trace, promises) = record(plan);
    let disk = SimDisk::new(plan.seed);
    let mut tally = Tally::default();
    let mut rng = SeededRng::new(plan.seed, "crash choices");
    let mut promised = 0;
    for at in 0..=trace.len() {
        while promises.get(promised + 1).is_some_and(|p| p.recorded <= at) {
            promised += 1;
        }
        // Appended entries may be on the disk as soon as the next promise is in progress.
        let next = promises.get(promised + 1).unwrap_or(&promises[promised]);
        let judge = Judge { plan, promise: promises[promised], next: *next, process_only: false };
        let mut choices = disk.crash_choices();
        choices.extend((0..plan.subsets).map(|_| CrashChoice::Random(rng.next_u64())));
        tally.write_points += 1;
        let killed = Judge { process_only: true, ..judge };
        killed.recover(&disk.after_process_crash(), false, &mut tally, &|| {
            format!("write point {at} of {plan:?}, process killed")
        });
        for choice in choices {
            let nested = rng.chance(1, plan.nested_every);
            judge.recover(&disk.after_power_loss(choice), nested, &mut tally, &|| {
                format!("write point {at} of {plan:?}, {choice:?}")
            });
        }
        if let Some(op) = trace.get(at) {
            disk.apply(op);
        }
    }
    tally
}

#[derive(Clone, Copy)]
struct Judge {
    plan: Plan,
    promise: Promise,
    next: Promise,
    /// Only the process died; the operating system lived on.
    process_only: bool,
}

type Found = (RecoveryReport, Vec<(u64, Vec<u8>)>);

fn open_and_read(disk: &SimDisk, level: Durability) -> Result<Found, LogError> {
    let (mut log, report) = EmbeddedLog::open(config(level), disk.clone())?;
    let mut entries = Vec::new();
    let mut reader = log.read(Position(report.positions.start))?;
    while let Some(entry) = reader.next_entry()? {
        entries.push((entry.position.0, entry.bytes.to_vec()));
    }
    drop(reader);
    Ok((report, entries))
}

impl Judge {
    /// Opens the crashed disk twice and compares the result with the promises; with `nested`,
    /// crashes the first opening at each of its own write points.
    fn recover(
        &self,
        crashed: &SimDisk,
        nested: bool,
        tally: &mut Tally,
        place: &dyn Fn() -> String,
    ) {
        let disk = crashed.after_process_crash();
        disk.record();
        let Some(first) = self.recover_once(&disk, tally, place) else { return };
        let trace = disk.take_trace();
        // The same disk once more: everything that recovery reported must be durable by now.
        let again = disk.after_power_loss(CrashChoice::LoseAll);
        if let Some(second) = self.recover_once(&again, tally, place)
            && (second.1 != first.1 || second.0.cut.is_some())
        {
            tally.violations.push(format!("{}: opening again differs", place()));
        }
        if nested {
            self.crash_recovery(crashed, &trace, tally, place);
        }
    }

    fn crash_recovery(
        &self,
        crashed: &SimDisk,
        trace: &[TraceOp],
        tally: &mut Tally,
        place: &dyn Fn() -> String,
    ) {
        let disk = crashed.after_process_crash();
        for (at, op) in trace.iter().enumerate() {
            let mut choices = disk.crash_choices();
            choices.push(CrashChoice::Random(at as u64));
            for choice in choices {
                tally.nested += 1;
                let halfway = disk.after_power_loss(choice);
                let _ = self.recover_once(&halfway, tally, &|| {
                    format!("{}, recovery's point {at}, {choice:?}", place())
                });
            }
            disk.apply(op);
        }
    }

    fn recover_once(
        &self,
        disk: &SimDisk,
        tally: &mut Tally,
        place: &dyn Fn() -> String,
    ) -> Option<Found> {
        tally.recoveries += 1;
        let found = match open_and_read(disk, self.plan.level) {
            Ok(found) => found,
            Err(error) => {
                tally.violations.push(format!("{}: refused to open: {error}", place()));
                return None;
            }
        };
        tally.cuts += u64::from(found.0.cut.is_some());
        tally.new_epochs += u64::from(found.0.new_epoch.is_some());
        let faults = self.compare(&found).into_iter().chain(self.compare_snapshot(disk, &found));
        tally.violations.extend(faults.map(|fault| format!("{}: {fault}", place())));
        Some(found)
    }

    fn compare(&self, (report, entries): &Found) -> Vec<String> {
        let mut faults = Vec::new();
        let last = report.positions.end - 1;
        let promised = match self.plan.level {
            Durability::Disk => self.promise.committed.max(self.promise.flushed),
            Durability::Os if self.process_only => self.promise.committed,
            _ => self.promise.flushed,
        };
        if last < promised {
            faults.push(format!("{promised} was acknowledged, the log ends at {last}"));
        }
        if last > self.next.appended.max(self.promise.appended) {
            faults.push(format!("the log ends at {last}, which was never appended"));
        }
        if self.process_only && report.cut.is_some() {
            faults.push(format!("a tail was cut and no write was torn: {report:?}"));
        }
        if report.positions.start > self.promise.truncated.max(self.next.truncated).max(1) {
            faults.push(format!("the log begins only at {}", report.positions.start));
        }
        // The workload ran in epoch 1; an earlier opening may have begun the next one.
        if last < self.promise.committed && report.epoch == Epoch(1) {
            faults.push(format!(
                "a commit is lost and no epoch began: {report:?}, promised {:?}",
                self.promise
            ));
        }
        let wanted = report.positions.clone().map(|at| (at, entry(at)));
        if !entries.iter().cloned().eq(wanted) {
            faults.push("entries differ from what was appended".to_owned());
        }
        faults
    }

    fn compare_snapshot(&self, disk: &SimDisk, (report, _): &Found) -> Option<String> {
        let mut store = SnapshotStore::new(disk.clone(), LOG_ID, PARTITION);
        let end = Position(report.positions.end - 1);
        let loaded = match store.load_newest(end) {
            Ok((loaded, skipped)) if skipped.is_empty() => loaded,
            other => return Some(format!("snapshots are not all sound: {other:?}")),
        };
        // Its position will be reused.
        match store.list() {
            Ok(positions) if positions.iter().all(|at| *at <= end) => {}
            other => return Some(format!("snapshots after {end}: {other:?}")),
        }
        let at = loaded.as_ref().map_or(0, |snapshot| snapshot.position.0);
        if at < self.promise.snapshot && self.promise.snapshot <= end.0 {
            return Some(format!("snapshot {} is gone, {at} is there", self.promise.snapshot));
        }
        let differs = loaded.is_some_and(|snapshot| snapshot.bytes != entry(at));
        differs.then(|| format!("snapshot {at} differs"))
    }
}
