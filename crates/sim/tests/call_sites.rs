//! Every call that a partition makes to its disks fails once, with "no space" and with "the medium
//! failed", under the real agent, its shadow and its clients, with the crowd and with the gateway
//! in front. The oracle must find no violation, a
//! failed write or sync of the command log ends the process, and without space clients get a typed
//! reject and the node recovers by itself.

use weir_io::DiskErrorKind;
use weir_partition::retention::RetentionLimits;
use weir_sim::plan::{DiskFault, EVENT_SEGMENT_BYTES, Ending, FailingDisk, LifePlan, Plan};
use weir_sim::plant::Front;
use weir_sim::world::{Tally, run_gate_plan, run_plan};
use weir_types::Durability;

const SEED: u64 = 11;

/// A plan of one life in which the n-th call fails, and the faultless life that ends every run.
fn plan(durability: Durability, fault: DiskFault) -> Plan {
    let life = LifePlan {
        steps: 90,
        ending: Ending::PowerLoss,
        fault,
        snapshot_per_mille: 60,
        ..LifePlan::calm()
    };
    Plan {
        durability,
        segment_bytes: 16 << 10,
        send_per_mille: 700,
        window: 8,
        again_per_mille: 20,
        step_ns_max: 2_000_000,
        tail_segment_words: 128 << 10,
        clock_steps_per_mille: 0,
        log_queue_len_max: u64::MAX,
        sets_limits: false,
        has_weather: false,
        day: None,
        event_segment_bytes: EVENT_SEGMENT_BYTES,
        limits: RetentionLimits::default(),
        lives: vec![life],
    }
}

/// Fails each call to one disk in its own run; returns the number of calls and the sum of the
/// figures.
fn fail_each(which: FailingDisk, durability: Durability, kind: DiskErrorKind) -> (u64, Tally) {
    fail_each_behind(Front::Crowd, which, durability, kind)
}

fn fail_each_behind(
    front: Front,
    which: FailingDisk,
    durability: Durability,
    kind: DiskErrorKind,
) -> (u64, Tally) {
    let run = match front {
        Front::Crowd => run_plan,
        Front::Gateway | Front::Day => run_gate_plan,
    };
    let mut sum = Tally::default();
    for n in 0.. {
        let fault = DiskFault::CallFails(which, n, kind);
        let outcome = run(plan(durability, fault), SEED, None);
        assert_eq!(outcome.violation, None, "{durability}, {fault:?}");
        if outcome.tally.failed_calls == 0 {
            return (n, sum);
        }
        sum.self_stops += outcome.tally.self_stops;
        sum.refused += outcome.tally.refused;
        sum.snapshots += outcome.tally.snapshots;
        sum.gate.add(&outcome.tally.gate);
    }
    unreachable!("a run makes a finite number of calls")
}

#[test]
fn every_call_to_the_command_log_may_fail_under_the_real_partition() {
    for durability in [Durability::Memory, Durability::Os, Durability::Disk] {
        let (calls, io) = fail_each(FailingDisk::Commands, durability, DiskErrorKind::Io);
        let (_, full) = fail_each(FailingDisk::Commands, durability, DiskErrorKind::Full);
        println!(
            "{durability}: {calls} calls; failed: {} stops; full: {} stops, {} refusals",
            io.self_stops, full.self_stops, full.refused
        );
        assert!(calls > 50 && io.self_stops > 20, "{calls} calls, {} stops", io.self_stops);
        assert!(full.self_stops < io.self_stops, "a full disk is waited for");
        assert!(full.refused > 0, "clients are told of a full disk");
    }
}

#[test]
fn every_call_to_the_event_log_may_fail_under_the_real_shadow() {
    for kind in [DiskErrorKind::Io, DiskErrorKind::Full] {
        let (calls, sum) = fail_each(FailingDisk::Events, Durability::Disk, kind);
        println!("events, {kind:?}: {calls} calls, {} stops", sum.self_stops);
        assert!(calls > 20, "{calls}");
    }
}

#[test]
fn every_call_to_the_snapshots_may_fail_and_the_partition_goes_on() {
    for kind in [DiskErrorKind::Io, DiskErrorKind::Full] {
        let (calls, sum) = fail_each(FailingDisk::Snapshots, Durability::Disk, kind);
        println!("snapshots, {kind:?}: {calls} calls, {} stops", sum.self_stops);
        assert!(calls > 5 && sum.self_stops == 0, "{calls} calls, {} stops", sum.self_stops);
    }
}

#[test]
fn every_call_to_the_logs_may_fail_behind_the_gateway_and_clients_are_told_the_truth() {
    for which in [FailingDisk::Commands, FailingDisk::Events] {
        let (calls, sum) =
            fail_each_behind(Front::Gateway, which, Durability::Disk, DiskErrorKind::Io);
        println!("{which:?} behind the gateway: {calls} calls, {:?}", sum.gate);
        assert!(calls > 20 && sum.self_stops > 5, "{calls} calls, {} stops", sum.self_stops);
        assert!(sum.gate.reports > 0 && sum.gate.copies > 0, "{:?}", sum.gate);
    }
}
