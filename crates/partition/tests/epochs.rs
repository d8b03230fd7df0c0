//! An epoch that a view asks for at a start.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

use std::path::Path;

use weir_io::{SyncStrategy, WakeFd};
use weir_log::{Durability, SequencedLog};
use weir_partition::recovery::{
    EngineMemory, RecoveredPartition, RecoverySettings, find_in_directory,
};
use weir_partition::retention::RetentionLimits;
use weir_types::{Epoch, PartitionId};

fn start(node_dir: &Path) -> RecoveredPartition {
    let settings = RecoverySettings {
        node_dir: node_dir.to_owned(),
        durability: Durability::Disk,
        sync: SyncStrategy::default(),
        log_segment_bytes: 1 << 20,
        event_segment_bytes: 1 << 20,
        event_memory_bytes: 1 << 20,
        engine_memory: EngineMemory::AsFilled,
        snapshot_every_commands: 1_000,
        snapshots_kept: 2,
        retention: RetentionLimits::default(),
    };
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
