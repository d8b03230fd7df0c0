//! An epoch that a view asks for at a start.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

mod support;

use std::path::Path;

use support::settings;
use weir_io::WakeFd;
use weir_log::SequencedLog;
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
        failed.want_epoch();
        assert_eq!((failed.epoch, failed.log.epoch()), (Epoch(1), Epoch(1)));
    }
    let mut begun = start(dir.path());
    begun.begin_wanted_epoch().unwrap();
    assert_eq!(begun.epoch, Epoch(1), "none was asked for");
    begun.want_epoch();
    begun.begin_wanted_epoch().unwrap();
    begun.begin_wanted_epoch().unwrap();
    assert_eq!((begun.epoch, begun.log.epoch()), (Epoch(2), Epoch(2)), "one");
    drop(begun);
    assert_eq!(start(dir.path()).epoch, Epoch(2));
}

#[test]
fn a_start_that_is_refused_when_the_logs_are_open_ends_no_epoch() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let refused = start_at(dir.path(), Durability::Memory);
        assert_eq!((refused.epoch, refused.log.epoch()), (Epoch(1), Epoch(1)));
    }
}
