//! The level of the control log: `disk`, at each level of the node. The other partitions import its
//! definitions, and one that lost its end would give their positions to later ones.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

mod support;

use support::{HERE, settings};
use weir_io::WakeFd;
use weir_log::{Append, Poll, Push, SequencedLog};
use weir_partition::closing_log::ClosingLog;
use weir_partition::recovery::{RecoverySettings, find_in_directory};
use weir_types::{Durability, Nanos, PartitionId, Position};

fn committed(log: &mut ClosingLog) -> Position {
    loop {
        match log.poll() {
            Poll::Leading(_) => {}
            Poll::Committed(position) => return position,
            Poll::Lost { valid_to } => panic!("lost after {valid_to}"),
        }
    }
}

/// Appends an entry to the log of a partition of a node at `memory`. Returns the committed position
/// before any work of the disk, and those that are committed and synced once the entry is.
fn positions(partition_id: PartitionId) -> [Position; 3] {
    let dir = tempfile::tempdir().unwrap();
    let settings = RecoverySettings { durability: Durability::Memory, ..settings(dir.path()) };
    let wake = WakeFd::new().unwrap();
    let found = find_in_directory(&settings, partition_id, &wake).unwrap();
    let mut started = found.recover().unwrap();
    let log = &mut started.log;
    let mut batch = log.new_batch();
    assert_eq!(batch.push(b"an entry"), Push::Taken);
    assert!(matches!(log.append(log.epoch(), Nanos(1), &batch), Append::At { .. }));
    let first = committed(log);
    while committed(log) < Position(1) {
        log.do_work(Nanos(2)).unwrap();
        std::thread::yield_now();
    }
    [first, committed(log), log.synced()]
}

#[test]
fn the_control_log_acknowledges_a_definition_when_it_is_synced_at_every_level() {
    assert_eq!(positions(PartitionId::NONE), [Position::NONE, Position(1), Position(1)]);
    assert_eq!(positions(HERE)[..2], [Position(1); 2], "a trading partition keeps to the level");
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_bug_of_a_control_log_at_the_nodes_level_is_found() {
    use weir_partition::plant::{self, Plant};

    let test = the_control_log_acknowledges_a_definition_when_it_is_synced_at_every_level;
    assert!(plant::is_found(Plant::ControlLogAtNodesLevel, test));
}
