//! The contract of the embedded log, checked on every disk, simulated and real.

mod support;

use support::{append, commit, config, read_all};
use weir_io::{Disk, SimDisk, ThreadDisk, UringDisk};
use weir_log::{Durability, EmbeddedLog, Poll, SequencedLog, SnapshotStore};
use weir_types::{PartitionId, Position};

const LEVELS: [Durability; 3] = [Durability::Memory, Durability::Os, Durability::Disk];

/// Calls `$check` with each kind of disk, as a function that reopens the same directory like a
/// restarted process.
macro_rules! on_every_disk {
    ($($name:ident => $check:ident;)*) => {$(
        mod $name {
            #[test]
            fn on_the_simulated_disk() {
                for level in super::LEVELS {
                    let mut disk = super::SimDisk::new(1);
                    super::$check(level, move || {
                        disk = disk.after_process_crash();
                        disk.clone()
                    });
                }
            }
            #[test]
            fn on_the_thread_disk() {
                for level in super::LEVELS {
                    let dir = tempfile::tempdir().unwrap();
                    let open = || super::ThreadDisk::open(dir.path(), None).unwrap();
                    super::$check(level, open);
                }
            }
            #[test]
            fn on_the_io_uring_disk() {
                let probe = tempfile::tempdir().unwrap();
                if let Err(e) = super::UringDisk::open(probe.path(), None) {
                    return weir_skip::skip(weir_skip::Need::IoUring, e);
                }
                for level in super::LEVELS {
                    let dir = tempfile::tempdir().unwrap();
                    let open = || super::UringDisk::open(dir.path(), None).unwrap();
                    super::$check(level, open);
                }
            }
        }
    )*};
}

on_every_disk! {
    a_closed_log_reads_back_over_many_segments => check_reopen;
    a_dropped_log_keeps_what_its_level_promises => check_drop;
    truncated_segments_go_and_the_rest_stays => check_truncate;
    a_snapshot_lies_beside_the_log => check_snapshot;
    leadership_is_told_before_commits => check_poll;
}

fn entry(position: u64) -> Vec<u8> {
    vec![position as u8; 1 + (position as usize * 31) % 400]
}

fn fill<D: Disk>(log: &mut EmbeddedLog<D>, count: u64) {
    let first = log.next_position().0;
    for position in first..first + count {
        assert_eq!(append(log, &[entry(position)]), Position(position));
        if position % 3 == 0 {
            commit(log, true);
        }
    }
    commit(log, true);
}

fn check_entries<D: Disk>(log: &mut EmbeddedLog<D>, from: u64, to: u64) {
    let wanted: Vec<(u64, Vec<u8>)> = (from..to).map(|at| (at, entry(at))).collect();
    assert_eq!(read_all(log, Position(from)).expect("a sound log"), wanted);
}

fn check_reopen<D: Disk>(level: Durability, mut open: impl FnMut() -> D) {
    for round in 0..3 {
        let (mut log, report) = EmbeddedLog::open(config(level), open()).expect("a sound log");
        assert_eq!(report.positions, 1..1 + round * 100);
        assert_eq!(report.clean, round > 0);
        fill(&mut log, 100);
        log.close().expect("no fault");
        check_entries(&mut log, 1, 101 + round * 100);
    }
}

fn check_drop<D: Disk>(level: Durability, mut open: impl FnMut() -> D) {
    let (mut log, _) = EmbeddedLog::open(config(level), open()).expect("a new log");
    fill(&mut log, 50);
    log.flush_blocking().expect("no fault");
    fill(&mut log, 50);
    drop(log);
    let (mut log, report) = EmbeddedLog::open(config(level), open()).expect("a sound log");
    assert!(!report.clean);
    let kept = report.positions.end - 1;
    assert!(kept >= if level == Durability::Memory { 50 } else { 100 }, "{level}: {kept}");
    check_entries(&mut log, 1, kept + 1);
}

fn check_truncate<D: Disk>(level: Durability, mut open: impl FnMut() -> D) {
    let (mut log, _) = EmbeddedLog::open(config(level), open()).expect("a new log");
    fill(&mut log, 200);
    log.truncate(Position(120));
    fill(&mut log, 100);
    let first = log.first_position().0;
    assert!(first > 60 && first <= 120, "{first}");
    log.close().expect("no fault");
    drop(log);
    let (mut log, report) = EmbeddedLog::open(config(level), open()).expect("a sound log");
    assert!(report.positions.start <= first);
    check_entries(&mut log, first, 301);
}

fn check_snapshot<D: Disk>(level: Durability, mut open: impl FnMut() -> D) {
    let (mut log, report) = EmbeddedLog::open(config(level), open()).expect("a new log");
    fill(&mut log, 20);
    log.close().expect("no fault");
    drop(log);
    let mut store = SnapshotStore::new(open(), report.log_id, PartitionId(1));
    store.write(Position(10), b"state at ten").expect("no fault");
    let (loaded, skipped) = store.load_newest(Position(20)).expect("no fault");
    assert_eq!(loaded.expect("a snapshot").bytes, b"state at ten");
    assert!(skipped.is_empty());
}

fn check_poll<D: Disk>(level: Durability, mut open: impl FnMut() -> D) {
    let (mut log, report) = EmbeddedLog::open(config(level), open()).expect("a new log");
    assert_eq!(log.poll(), Poll::Leading(report.epoch));
    assert_eq!(log.poll(), Poll::Committed(Position(0)));
    fill(&mut log, 7);
    assert_eq!(log.poll(), Poll::Committed(Position(7)));
}
