//! Power loss at every write point of a recorded workload: no acknowledged entry is missing, none
//! is invented, and recovery itself survives a power loss.
//!
//! The full-size campaign is `./x campaign crash-points`.

#[path = "support/crash.rs"]
mod crash;

use crash::{Plan, run};
use weir_log::Durability;

fn check(level: Durability, seed: u64) {
    let tally = run(Plan { level, operations: 200, seed, subsets: 16, nested_every: 50 });
    assert!(
        tally.violations.is_empty(),
        "{} violations, first: {}",
        tally.violations.len(),
        tally.violations[0]
    );
    // The campaign is meaningful only if it reaches enough of the interesting cases.
    assert!(tally.write_points > 150 && tally.cuts > 100 && tally.nested > 100, "{tally:?}");
}

#[test]
fn a_crash_at_any_write_point_loses_nothing_acknowledged_at_disk() {
    check(Durability::Disk, 1);
}

#[test]
fn a_crash_at_any_write_point_loses_nothing_flushed_at_os() {
    check(Durability::Os, 2);
}

#[test]
fn a_crash_at_any_write_point_loses_nothing_flushed_at_memory() {
    check(Durability::Memory, 3);
}
