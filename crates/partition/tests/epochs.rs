//! An epoch that a view asks for at a start.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

mod support;

use std::path::Path;

use support::{COMMANDS, EVENTS, Running, SNAPSHOTS, disks_at, settings};
use weir_io::{SimDisk, SimFaults, WakeFd};
use weir_log::{SegmentKind, SequencedLog, inspect};
use weir_partition::dirs::PartitionDirs;
use weir_partition::recovery::{RecoveredPartition, RecoverySettings, find_in_directory};
use weir_types::{Durability, Epoch, PartitionId};

fn start(node_dir: &Path) -> RecoveredPartition {
    start_at(node_dir, Durability::Disk)
}

fn start_at(node_dir: &Path, durability: Durability) -> RecoveredPartition {
    let settings = RecoverySettings { durability, ..settings(node_dir) };
    let wake = WakeFd::new().unwrap();
    find_in_directory(&settings, PartitionId(1), &wake).unwrap().recover().unwrap()
}

#[test]
fn a_start_that_fails_leaves_no_epoch_that_a_view_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let mut failed = start(dir.path());
        assert!(failed.want_epoch("a view").unwrap());
        assert_eq!((failed.epoch, failed.log.epoch()), (Epoch(1), Epoch(1)));
    }
    let mut begun = start(dir.path());
    begun.begin_wanted_epoch().unwrap();
    assert_eq!(begun.epoch, Epoch(1), "none was asked for");
    assert!(begun.want_epoch("a view").unwrap());
    begun.begin_wanted_epoch().unwrap();
    begun.begin_wanted_epoch().unwrap();
    assert_eq!((begun.epoch, begun.log.epoch()), (Epoch(2), Epoch(2)), "one");
    drop(begun);
    assert_eq!(start(dir.path()).epoch, Epoch(2));
}

#[test]
fn starts_that_fail_after_their_epoch_has_begun_leave_one() {
    let dir = tempfile::tempdir().unwrap();
    for attempt in 0..3 {
        let mut failed = start(dir.path());
        assert_eq!(failed.want_epoch("a view").unwrap(), attempt == 0);
        failed.begin_wanted_epoch().unwrap();
        assert_eq!((failed.epoch, failed.log.epoch()), (Epoch(2), Epoch(2)));
    }
    // It began for that view: another one has its contents at the places of before.
    let mut begun = start(dir.path());
    assert!(!begun.wants_epoch());
    assert!(begun.want_epoch("another view").unwrap() && begun.wants_epoch());
    assert!(!begun.want_epoch("a view").unwrap() && begun.wants_epoch());
    drop(begun);
    // Another epoch, and one of another log, is not the one that began then.
    let mut another = start(dir.path());
    another.epoch = Epoch(3);
    assert!(another.want_epoch("a view").unwrap());
    drop(another);
    let other = tempfile::tempdir().unwrap();
    drop(start(other.path()));
    let note = |node_dir: &Path| PartitionDirs::new(node_dir, PartitionId(1)).view_epoch();
    std::fs::copy(note(dir.path()), note(other.path())).unwrap();
    assert!(start(other.path()).want_epoch("a view").unwrap());
}

#[test]
fn a_start_that_is_refused_when_the_logs_are_open_ends_no_epoch() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let refused = start_at(dir.path(), Durability::Memory);
        assert_eq!((refused.epoch, refused.log.epoch()), (Epoch(1), Epoch(1)));
    }
}

#[test]
fn a_start_that_a_disk_ends_when_the_command_log_is_open_leaves_it_closed() {
    let disks = disks_at(Durability::Memory);
    let mut running = Running::new(&disks);
    running.append(300);
    assert!(running.snapshot());
    running.append(100);
    running.close();
    let disks = disks.map(SimDisk::after_process_crash);
    let mut failures = [0; 3];
    for which in [EVENTS, SNAPSHOTS] {
        for at in 0..60 {
            let faults = [
                SimFaults { read_fails_at: Some(at), ..SimFaults::default() },
                SimFaults { write_fails_at: Some(at), ..SimFaults::default() },
                SimFaults { sync_fails_at: Some(at), ..SimFaults::default() },
                SimFaults { full_from: Some(at), ..SimFaults::default() },
            ];
            for fault in faults {
                let disks = disks.map(SimDisk::after_process_crash);
                disks.0[which].set_faults(fault.clone());
                if disks.start().is_ok() {
                    continue;
                }
                failures[which] += 1;
                let mut commands = disks.0[COMMANDS].after_process_crash();
                let found = inspect(&mut commands, SegmentKind::Command).unwrap().unwrap();
                assert!(found.clean, "directory {which}, {fault:?}");
            }
        }
    }
    assert!(failures[EVENTS] > 10 && failures[SNAPSHOTS] > 0, "{failures:?}");
}
