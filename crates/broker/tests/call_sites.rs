//! Every disk call of a broker fails once, with "no space" and with "the medium failed": all
//! acknowledged messages are there after a kill and after a power loss, no others are, and after
//! "no space" the broker goes on by itself.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

mod support;

use std::collections::BTreeMap;

use support::{Workload, check_found, config};
use weir_broker::{Broker, Config, Durability, OnFull};
use weir_io::disk::sim::CrashChoice;
use weir_io::{DiskAction, DiskErrorKind, SimDisk, SimFaults};
use weir_types::Nanos;

const STEPS: u64 = 60;

fn small(level: Durability) -> Config {
    let mut config = config(level);
    // No subscription is evicted: every promise stays valid.
    config.on_full = OnFull::Refuse;
    config
}

/// The end of a run with one failing call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ended {
    RefusedToOpen,
    Stopped,
    /// After a failed sync nothing is known about the data.
    StoppedBySync,
    WaitedForRoom,
    WentOn,
}

/// Runs the workload with its n-th call failing; `None` if it makes fewer calls.
fn live_with(level: Durability, n: u64, kind: DiskErrorKind) -> Option<Ended> {
    let place = format!("{level}, call {n} fails with {kind:?}");
    let disk = SimDisk::new(5);
    disk.set_faults(SimFaults { call_fails_at: Some((n, kind)), ..SimFaults::default() });
    let Ok((mut workload, _)) = Workload::open(small(level), &disk, 5) else {
        disk.failed_call()?;
        let again = disk.after_process_crash();
        Broker::open(small(level), again, Nanos(1)).unwrap_or_else(|e| panic!("{place}: {e}"));
        return Some(Ended::RefusedToOpen);
    };
    let mut lived = (0..STEPS).try_for_each(|_| workload.step());
    if lived.is_ok() {
        // Tried once more, for the case that there was no room.
        lived = workload.close().or_else(|_| workload.close());
    }
    let (action, _) = disk.failed_call()?;
    let ended = match lived {
        Err(_) if action == DiskAction::Sync => Ended::StoppedBySync,
        Err(_) => Ended::Stopped,
        Ok(()) if workload.broker.counters().full > 0 => Ended::WaitedForRoom,
        Ok(()) => Ended::WentOn,
    };
    let promise = &workload.promise;
    let has_stopped = matches!(ended, Ended::Stopped | Ended::StoppedBySync);
    let mut found = Vec::new();
    if level != Durability::Memory || !has_stopped {
        found.push(("killed", disk.after_process_crash()));
    }
    if level == Durability::Disk || !has_stopped {
        found.push(("power lost", disk.after_power_loss(CrashChoice::LoseAll)));
    }
    for (how, crashed) in found {
        let faults = check_found(&crashed, &small(level), promise, promise, &workload.messages);
        assert_eq!(faults, [""; 0], "{place}, {how}");
    }
    Some(ended)
}

#[test]
fn every_call_may_fail_and_nothing_acknowledged_is_lost() {
    let mut tally: BTreeMap<(String, Ended), u64> = BTreeMap::new();
    for level in [Durability::Memory, Durability::Os, Durability::Disk] {
        for kind in [DiskErrorKind::Io, DiskErrorKind::Full] {
            for n in 0.. {
                let Some(ended) = live_with(level, n, kind) else { break };
                *tally.entry((format!("{kind:?}"), ended)).or_default() += 1;
            }
        }
    }
    println!("{tally:#?}");
    let of = |kind: &str, ended| tally.get(&(kind.to_owned(), ended)).copied().unwrap_or(0);
    assert!(of("Io", Ended::Stopped) > 100, "{tally:?}");
    assert!(of("Full", Ended::WaitedForRoom) > 100, "{tally:?}");
    assert_eq!(of("Full", Ended::Stopped), 0, "no space is waited for: {tally:?}");
}
