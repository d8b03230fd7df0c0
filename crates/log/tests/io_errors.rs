//! The disk fails at every possible place: no acknowledged entry is lost, no failed write or sync
//! is retried, and a full disk refuses new entries while old ones can be read.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

mod support;

use support::{append, batch_of, config, read_all};
use weir_io::disk::sim::CrashChoice;
use weir_io::{SimDisk, SimFaults};
use weir_log::{
    Append, Durability, EmbeddedLog, LogError, Poll, SegmentKind, SequencedLog, inspect,
};
use weir_types::{Nanos, Position};

const BATCHES: u64 = 40;

fn entry(position: u64) -> Vec<u8> {
    vec![position as u8; 300]
}

/// Appends and works; stops at the first error. Returns the last committed position.
fn drive(log: &mut EmbeddedLog<SimDisk>) -> (u64, Option<LogError>) {
    let mut now = 0;
    for position in log.next_position().0..=BATCHES {
        let time = Nanos(log.last_log_time().0 + 1);
        match log.append(log.epoch(), time, &batch_of(&[entry(position)])) {
            Append::At { first } => assert_eq!(first, Position(position)),
            other => panic!("append said {other:?}"),
        }
        for _ in 0..3 {
            now += 300;
            if let Err(error) = log.do_work(Nanos(now)) {
                return (log.committed().0, Some(error));
            }
        }
    }
    let ended = log.flush_blocking().err();
    (log.committed().0, ended)
}

fn check_whole(disk: &SimDisk, level: Durability, acknowledged: u64, place: &str) {
    let (mut log, _) = EmbeddedLog::open(config(level), disk.clone()).unwrap();
    let entries = read_all(&mut log, Position(1)).unwrap();
    assert!(entries.len() as u64 >= acknowledged, "{place}: {acknowledged} were acknowledged");
    for (position, bytes) in entries {
        assert_eq!(bytes, entry(position), "{place}");
    }
}

/// Runs the workload with one fault; returns true when the fault was reached.
fn run_with(level: Durability, faults: &SimFaults, place: &str) -> bool {
    let disk = SimDisk::new(9);
    let (mut log, _) = EmbeddedLog::open(config(level), disk.clone()).unwrap();
    disk.set_faults(faults.clone());
    let (acknowledged, error) = drive(&mut log);
    let Some(error) = error else { return false };
    assert!(error.is_fatal(), "{place}: {error}");
    assert_eq!(log.poll(), Poll::Lost { valid_to: log.committed() }, "{place}");
    let time = Nanos(log.last_log_time().0 + 1);
    let refused = log.append(log.epoch(), time, &batch_of(&[entry(1)]));
    assert_eq!(refused, Append::NotLeader, "{place}");
    let before = disk.counts();
    assert_eq!(log.do_work(Nanos(0)), Err(error), "{place}");
    assert_eq!(disk.counts(), before, "{place}: the disk was touched after a fatal error");
    drop(log);
    let restarted = disk.after_process_crash();
    let promised = if level == Durability::Memory { 0 } else { acknowledged };
    check_whole(&restarted, level, promised, place);
    // Entries that the restarted process has read must now be on the medium.
    check_whole(&restarted.after_power_loss(CrashChoice::LoseAll), level, promised, place);
    true
}

#[test]
fn a_failed_sync_at_any_site_is_fatal_and_never_asked_again() {
    for level in [Durability::Memory, Durability::Os, Durability::Disk] {
        let sites = (0..10_000).find(|&n| {
            let faults = SimFaults { sync_fails_at: Some(n), ..SimFaults::default() };
            !run_with(level, &faults, &format!("{level}, sync {n}"))
        });
        let sites = sites.expect("the workload ends");
        assert!(sites >= if level == Durability::Disk { 40 } else { 6 }, "{level}: {sites} sites");
    }
}

#[test]
fn a_failed_write_at_any_site_is_fatal() {
    for level in [Durability::Memory, Durability::Os, Durability::Disk] {
        let sites = (0..10_000).find(|&n| {
            let faults = SimFaults { write_fails_at: Some(n), ..SimFaults::default() };
            !run_with(level, &faults, &format!("{level}, write {n}"))
        });
        assert!(sites.expect("the workload ends") >= 20);
    }
}

#[test]
fn a_short_write_at_any_site_is_finished() {
    for level in [Durability::Memory, Durability::Os, Durability::Disk] {
        for n in 0..60 {
            let disk = SimDisk::new(9);
            let (mut log, _) = EmbeddedLog::open(config(level), disk.clone()).unwrap();
            disk.set_faults(SimFaults { short_write_at: Some(n), ..SimFaults::default() });
            assert_eq!(drive(&mut log), (BATCHES, None), "{level}, write {n}");
            drop(log);
            let lost = disk.after_power_loss(CrashChoice::LoseAll);
            check_whole(&lost, level, BATCHES, &format!("{level}, short write {n}"));
        }
    }
}

#[test]
fn a_failed_opening_leaves_the_log_as_good_as_before() {
    let disk = SimDisk::new(9);
    let (mut log, _) = EmbeddedLog::open(config(Durability::Disk), disk.clone()).unwrap();
    assert_eq!(drive(&mut log), (BATCHES, None));
    drop(log);
    for n in 0..100 {
        let faults = [
            SimFaults { read_fails_at: Some(n), ..SimFaults::default() },
            SimFaults { write_fails_at: Some(n), ..SimFaults::default() },
            SimFaults { sync_fails_at: Some(n), ..SimFaults::default() },
            SimFaults { full_from: Some(n), ..SimFaults::default() },
        ];
        for fault in faults {
            let crashed = disk.after_process_crash();
            crashed.set_faults(fault);
            let _ = EmbeddedLog::open(config(Durability::Disk), crashed.clone());
            let next = crashed.after_process_crash();
            check_whole(&next, Durability::Disk, BATCHES, &format!("fault {n}"));
        }
    }
}

#[test]
fn a_full_disk_refuses_entries_reads_on_and_recovers() {
    for level in [Durability::Memory, Durability::Os, Durability::Disk] {
        for n in 0..20 {
            full_disk(level, n);
        }
    }
}

fn full_disk(level: Durability, full_from: u64) {
    let disk = SimDisk::new(9);
    let (mut log, _) = EmbeddedLog::open(config(level), disk.clone()).unwrap();
    disk.set_faults(SimFaults { full_from: Some(full_from), ..SimFaults::default() });
    let mut now = 0;
    let mut position = 1;
    let mut refused = 0;
    while refused < 3 {
        assert!(position < 1_000, "level {level}, from write {full_from}: never full");
        let time = Nanos(log.last_log_time().0 + 1);
        match log.append(log.epoch(), time, &batch_of(&[entry(position)])) {
            Append::At { .. } => position += 1,
            Append::Full => refused += 1,
            other => panic!("append said {other:?}"),
        }
        for _ in 0..4 {
            now += 10;
            log.do_work(Nanos(now)).unwrap();
        }
    }
    // While the disk stays full, nothing is taken at any moment of a retry that would have to wait
    // for room: entries are taken only for the room that the newest segment has.
    let mut taken = 0;
    for _ in 0..400 {
        now += 2_500_000;
        log.do_work(Nanos(now)).unwrap();
        let time = Nanos(log.last_log_time().0 + 1);
        match log.append(log.epoch(), time, &batch_of(&[entry(position)])) {
            Append::At { .. } => (position, taken) = (position + 1, taken + 1),
            Append::Full => assert!(log.is_full(), "level {level}, from write {full_from}"),
            other => panic!("append said {other:?}"),
        }
    }
    for _ in 0..4 {
        now += 10;
        log.do_work(Nanos(now)).unwrap();
    }
    assert!(taken == 0 || log.is_idle(), "level {level}, from write {full_from}: {taken} wait");
    let committed = log.committed();
    let readable = read_all(&mut log, Position(1)).unwrap();
    if level != Durability::Memory {
        assert!(readable.len() as u64 >= committed.0, "reading goes on");
    }
    disk.set_faults(SimFaults::default());
    for _ in 0..100 {
        now += 50_000_000;
        log.do_work(Nanos(now)).unwrap();
    }
    assert!(log.is_idle(), "level {level}, from write {full_from}");
    let time = Nanos(log.last_log_time().0 + 1);
    let appended = log.append(log.epoch(), time, &batch_of(&[entry(position)]));
    assert_eq!(appended, Append::At { first: Position(position) });
    log.close().unwrap();
    drop(log);
    let lost = disk.after_power_loss(CrashChoice::LoseAll);
    check_whole(&lost, level, position, &format!("{level}, full from {full_from}"));
}

/// Returns the end of the newest segment of a log that was closed, `full` at the closing mark.
fn end_after_close(level: Durability, full: bool) -> u64 {
    let disk = SimDisk::new(9);
    let (mut log, _) = EmbeddedLog::open(config(level), disk.clone()).unwrap();
    append(&mut log, &[entry(1)]);
    log.flush_blocking().unwrap();
    if full {
        disk.set_faults(SimFaults { full_from: Some(0), ..SimFaults::default() });
        log.close().unwrap_err();
        disk.set_faults(SimFaults::default());
        let refused = log.append(log.epoch(), Nanos(9), &batch_of(&[entry(2)]));
        assert_eq!(refused, Append::NotLeader, "its end is queued");
        log.do_work(Nanos(1_000_000_000)).unwrap();
    }
    log.close().unwrap();
    log.close().unwrap();
    drop(log);
    let mut disk = disk.after_power_loss(CrashChoice::LoseAll);
    let found = inspect(&mut disk, SegmentKind::Command).unwrap().expect("there is a log");
    assert!(found.clean, "level {level}, full {full}");
    found.segments.last().unwrap().1
}

#[test]
fn a_close_that_found_the_disk_full_is_finished_by_the_next_with_one_mark() {
    for level in [Durability::Memory, Durability::Os, Durability::Disk] {
        assert_eq!(end_after_close(level, true), end_after_close(level, false), "level {level}");
    }
}
