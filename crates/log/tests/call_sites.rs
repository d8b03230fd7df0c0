//! Every call of a log to its disk fails once, with "no space" and with "the medium failed".
//! Acknowledged entries must survive, nothing may be acknowledged after a failed write or sync, and
//! after a lack of space the log must continue by itself.
//!
//! The workload creates a log, appends, rolls, writes marks, takes snapshots, truncates and closes;
//! then crashed and closed logs are opened. The whole runs once for each number `n` with the n-th
//! call failing, so every call site is covered.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

mod support;

use std::collections::BTreeMap;

use support::{batch_of, config, read_all};
use weir_io::disk::sim::CrashChoice;
use weir_io::{DiskAction, DiskErrorKind, SimDisk, SimFaults};
use weir_log::{Append, Durability, EmbeddedLog, LogError, Poll, SequencedLog, SnapshotStore};
use weir_types::{Nanos, PartitionId, Position};

const LEVELS: [Durability; 3] = [Durability::Memory, Durability::Os, Durability::Disk];
const KINDS: [DiskErrorKind; 3] =
    [DiskErrorKind::Io, DiskErrorKind::Full, DiskErrorKind::NoDescriptors];
const ENTRIES: u64 = 48;

fn entry(position: u64) -> Vec<u8> {
    vec![position as u8; 300 + (position as usize * 53) % 600]
}

/// The end of a run with one failing call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ended {
    /// The log did not open; nothing of importance changed.
    RefusedToOpen,
    /// The log stopped for good.
    Stopped,
    /// A snapshot was not written; everything else continued.
    WithoutSnapshot,
    /// Appends were refused for a while, then everything continued.
    WaitedForSpace,
    /// Everything continued at once.
    WentOn,
}

type Tally = BTreeMap<(DiskAction, String, String, Ended), u64>;

fn note(tally: &mut Tally, disk: &SimDisk, kind: DiskErrorKind, ended: Ended) {
    let (action, name) = disk.failed_call().unwrap();
    let family = match name.rsplit_once('.') {
        Some((_, "wlog")) => "segment",
        Some((_, "wsnap")) => "snapshot",
        Some((_, "tmp")) => "spare file",
        Some((_, "part")) => "snapshot being written",
        _ => "directory",
    };
    let key = (action, family.to_owned(), format!("{kind:?}"), ended);
    *tally.entry(key).or_default() += 1;
}

/// A run's record of the promises made to it.
#[derive(Default)]
struct Run {
    acknowledged: u64,
    appended: u64,
    snapshot_failed: bool,
    waited: bool,
    now: u64,
}

impl Run {
    fn work(&mut self, log: &mut EmbeddedLog<SimDisk>) -> Result<(), LogError> {
        self.now += 400;
        let worked = log.do_work(Nanos(self.now));
        self.acknowledged = log.committed().0;
        worked.map(|_| ())
    }

    fn append(&mut self, log: &mut EmbeddedLog<SimDisk>) -> Result<(), LogError> {
        loop {
            let position = log.next_position();
            let time = Nanos(log.last_log_time().0 + 1);
            match log.append(log.epoch(), time, &batch_of(&[entry(position.0)])) {
                Append::At { first } => {
                    assert_eq!(first, position);
                    self.appended = position.0;
                    return self.work(log);
                }
                Append::Full => {
                    self.waited = true;
                    // Reads continue in the meantime.
                    if log.committed().0 > 0 && log.durability() != Durability::Memory {
                        read_all(log, Position(log.first_position().0)).unwrap();
                    }
                    self.now += 60_000_000;
                    self.work(log)?;
                }
                other => panic!("append said {other:?}"),
            }
        }
    }

    fn snapshot(&mut self, disk: &SimDisk, log: &EmbeddedLog<SimDisk>) {
        let mut store = SnapshotStore::new(disk.clone(), log.log_id(), PartitionId(1));
        let at = log.committed();
        let written = store.write(at, &entry(at.0)).and_then(|()| store.prune(2).map(|_| ()));
        self.snapshot_failed |= written.is_err();
    }

    /// Runs every operation of a log's life.
    fn live(&mut self, disk: &SimDisk, log: &mut EmbeddedLog<SimDisk>) -> Result<(), LogError> {
        while self.appended < ENTRIES {
            self.append(log)?;
            self.work(log)?;
            if self.appended.is_multiple_of(12) {
                flush(log, &mut self.now)?;
                self.acknowledged = log.committed().0;
                self.snapshot(disk, log);
                log.truncate(Position(self.acknowledged / 2));
            }
            if self.appended.is_multiple_of(7) {
                // Long enough for an idle mark.
                for _ in 0..6 {
                    self.work(log)?;
                }
            }
        }
        flush(log, &mut self.now)?;
        self.acknowledged = log.committed().0;
        until_there_is_room(log, &mut self.now, EmbeddedLog::close)
    }
}

fn flush(log: &mut EmbeddedLog<SimDisk>, now: &mut u64) -> Result<(), LogError> {
    until_there_is_room(log, now, EmbeddedLog::flush_blocking)
}

/// Retries while there is no space, as the node does.
fn until_there_is_room(
    log: &mut EmbeddedLog<SimDisk>,
    now: &mut u64,
    ask: impl Fn(&mut EmbeddedLog<SimDisk>) -> Result<(), LogError>,
) -> Result<(), LogError> {
    for _ in 0..20 {
        match ask(log) {
            Err(LogError::Disk(error)) if error.kind == DiskErrorKind::Full => {
                *now += 100_000_000;
                log.do_work(Nanos(*now))?;
            }
            other => return other,
        }
    }
    panic!("there is room and the log does not go on");
}

fn check_found(disk: &SimDisk, level: Durability, promised: u64, place: &str) {
    let (mut log, report) = EmbeddedLog::open(config(level), disk.clone())
        .unwrap_or_else(|error| panic!("{place}: {error}"));
    assert!(report.positions.end > promised, "{place}: {promised} were acknowledged, {report:?}");
    let first = log.first_position();
    for (position, bytes) in read_all(&mut log, first).unwrap() {
        assert_eq!(bytes, entry(position), "{place}");
    }
    let mut store = SnapshotStore::new(disk.clone(), log.log_id(), PartitionId(1));
    let (loaded, skipped) = store.load_newest(Position(report.positions.end - 1)).unwrap();
    assert!(skipped.is_empty(), "{place}: {skipped:?}");
    let loaded = loaded.map_or(0, |snapshot| snapshot.position.0);
    assert!(first.0 <= loaded.max(1), "{place}: nothing leads to position {first}");
}

/// Checks that a stopped log accepts nothing and touches nothing.
fn check_stopped(log: &mut EmbeddedLog<SimDisk>, disk: &SimDisk, error: &LogError, place: &str) {
    assert!(error.is_fatal(), "{place}: {error}");
    assert_eq!(log.poll(), Poll::Lost { valid_to: log.committed() }, "{place}");
    let before = disk.counts();
    let time = Nanos(log.last_log_time().0 + 1);
    let refused = log.append(log.epoch(), time, &batch_of(&[entry(1)]));
    assert_eq!(refused, Append::NotLeader, "{place}");
    assert_eq!(log.do_work(Nanos(u64::MAX / 2)).as_ref(), Err(error), "{place}");
    assert_eq!(disk.counts(), before, "{place}: the disk was touched after a failure");
}

/// Runs the workload with its n-th call failing; `None` when it makes fewer calls.
fn live_with(level: Durability, n: u64, kind: DiskErrorKind, tally: &mut Tally) -> Option<()> {
    let place = format!("{level}, call {n} fails with {kind:?}");
    let disk = SimDisk::new(9);
    disk.set_faults(SimFaults { call_fails_at: Some((n, kind)), ..SimFaults::default() });
    let mut run = Run::default();
    let opened = EmbeddedLog::open(config(level), disk.clone());
    let ended = match opened {
        Err(_) => Ended::RefusedToOpen,
        Ok((mut log, _)) => match run.live(&disk, &mut log) {
            Err(error) => {
                check_stopped(&mut log, &disk, &error, &place);
                Ended::Stopped
            }
            Ok(()) if run.snapshot_failed => Ended::WithoutSnapshot,
            Ok(()) if run.waited => Ended::WaitedForSpace,
            Ok(()) => Ended::WentOn,
        },
    };
    disk.failed_call()?;
    note(tally, &disk, kind, ended);
    if !matches!(ended, Ended::Stopped | Ended::RefusedToOpen) {
        assert_eq!(run.acknowledged, ENTRIES, "{place}");
    }
    let killed =
        if level == Durability::Memory && ended == Ended::Stopped { 0 } else { run.acknowledged };
    check_found(&disk.after_process_crash(), level, killed, &place);
    let is_promised = level == Durability::Disk || ended != Ended::Stopped;
    let powerless = if is_promised { run.acknowledged } else { 0 };
    check_found(&disk.after_power_loss(CrashChoice::LoseAll), level, powerless, &place);
    Some(())
}

/// Returns logs as a start may find them: closed, crashed, with a torn tail.
fn found_logs(level: Durability) -> Vec<(SimDisk, u64)> {
    let closed = SimDisk::new(4);
    let (mut log, _) = EmbeddedLog::open(config(level), closed.clone()).unwrap();
    let mut run = Run::default();
    run.live(&closed, &mut log).unwrap();
    let crashed = SimDisk::new(4);
    let (mut log, _) = EmbeddedLog::open(config(level), crashed.clone()).unwrap();
    let mut run_crashed = Run::default();
    while run_crashed.appended < 20 {
        run_crashed.append(&mut log).unwrap();
    }
    flush(&mut log, &mut run_crashed.now).unwrap();
    let synced = log.committed().0;
    for _ in 0..3 {
        run_crashed.append(&mut log).unwrap();
    }
    let mut found = vec![(closed.after_process_crash(), ENTRIES)];
    found.push((crashed.after_process_crash(), synced));
    let torn = crashed.crash_choices();
    found.extend(torn.into_iter().map(|choice| (crashed.after_power_loss(choice), synced)));
    found
}

/// Opens a log with its n-th call failing; `None` when opening makes fewer calls.
fn open_with(
    found: &SimDisk,
    promised: u64,
    level: Durability,
    n: u64,
    kind: DiskErrorKind,
    tally: &mut Tally,
) -> Option<()> {
    let place = format!("{level}, opening's call {n} fails with {kind:?}");
    let disk = found.after_process_crash();
    disk.set_faults(SimFaults { call_fails_at: Some((n, kind)), ..SimFaults::default() });
    let opened = EmbeddedLog::open(config(level), disk.clone());
    let failed = disk.failed_call();
    disk.set_faults(SimFaults::default());
    let (action, name) = failed?;
    let ended = if opened.is_ok() { Ended::WentOn } else { Ended::RefusedToOpen };
    if let Err(error) = &opened {
        let told = error.to_string();
        let is_told = told.contains("simulated") || told.contains("no space");
        assert!(is_told, "{place}: {told} does not tell of the disk");
    }
    drop(opened);
    let family = if name.ends_with("wlog") { "segment, opening" } else { "directory, opening" };
    *tally.entry((action, family.to_owned(), format!("{kind:?}"), ended)).or_default() += 1;
    check_found(&disk.after_process_crash(), level, promised, &place);
    check_found(&disk.after_power_loss(CrashChoice::LoseAll), level, promised, &place);
    Some(())
}

fn print(tally: &Tally) {
    let mut calls = 0;
    for ((action, family, kind, ended), count) in tally {
        println!("{action:?} of {family}, {kind}: {ended:?} {count}");
        calls += count;
    }
    println!("{calls} calls failed");
}

#[test]
fn every_call_of_a_logs_life_may_fail_and_what_was_acknowledged_stays() {
    let mut tally = Tally::new();
    for level in LEVELS {
        for kind in KINDS {
            let calls = (0..).take_while(|n| live_with(level, *n, kind, &mut tally).is_some());
            assert!(calls.count() > 150, "{level}: the workload makes more calls");
        }
    }
    print(&tally);
    let met: Vec<Ended> = tally.keys().map(|(.., ended)| *ended).collect();
    for ended in [Ended::RefusedToOpen, Ended::Stopped, Ended::WithoutSnapshot] {
        assert!(met.contains(&ended), "{ended:?} was never met");
    }
    assert!(met.contains(&Ended::WaitedForSpace) && met.contains(&Ended::WentOn), "{met:?}");
    for ((action, family, kind, ended), count) in &tally {
        let is_log = family == "segment" || family == "spare file";
        if *ended == Ended::RefusedToOpen || !is_log {
            continue;
        }
        // A prepared file is written and synced again as a whole: "no space" does not stop the log
        // there.
        if *action == DiskAction::Sync && kind == "Io" {
            assert_eq!(*ended, Ended::Stopped, "{count} failed syncs of a {family}");
        }
        if *action == DiskAction::Open && family == "spare file" && kind == "NoDescriptors" {
            assert_ne!(*ended, Ended::Stopped, "{count} times without descriptors end the log");
        }
        if *action == DiskAction::Write && kind == "Full" {
            assert_ne!(*ended, Ended::Stopped, "{count} full disks at a {family} end the log");
        }
        // A failed rename has changed nothing.
        if *action == DiskAction::Rename && kind != "Io" {
            assert_ne!(*ended, Ended::Stopped, "{count} names refused to a {family} end the log");
        }
    }
}

#[test]
fn every_call_of_an_opening_may_fail_and_the_next_one_finds_the_same() {
    let mut tally = Tally::new();
    for level in LEVELS {
        for (found, promised) in found_logs(level) {
            for kind in KINDS {
                let opens =
                    |n: &u64| open_with(&found, promised, level, *n, kind, &mut tally).is_some();
                assert!((0..).take_while(opens).count() > 10);
            }
        }
    }
    print(&tally);
}
