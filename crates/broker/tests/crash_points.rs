//! Power lost, and the process killed, at every write point of a recorded workload: acknowledged
//! messages are there, in order, for every subscription that had not taken them; nothing is
//! invented; and the opening afterwards survives a power loss too.
//!
//! `WEIR_BROKER_CRASH_SEEDS=N` takes more workloads, `WEIR_BROKER_CRASH_STEPS=N` longer ones.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

mod support;

use std::collections::BTreeMap;

use support::{Promise, Workload, check_found, config};
use weir_broker::{Broker, Durability, MessageNo, OriginMark, Topic};
use weir_io::disk::sim::{CrashChoice, TraceOp};
use weir_io::{Rng, SeededRng, SimDisk};
use weir_types::Nanos;

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

struct Recording {
    trace: Vec<TraceOp>,
    promises: Vec<Promise>,
    messages: BTreeMap<MessageNo, (Topic, OriginMark)>,
}

fn record(level: Durability, seed: u64, steps: u64) -> Recording {
    let disk = SimDisk::new(seed);
    disk.record();
    let (mut workload, _) = Workload::open(config(level), &disk, seed).unwrap();
    for _ in 0..steps {
        workload.step().unwrap();
    }
    workload.close().unwrap();
    let (promises, messages) = (workload.promises, workload.messages);
    Recording { trace: disk.take_trace(), promises, messages }
}

#[derive(Default)]
struct Tally {
    points: u64,
    recoveries: u64,
    nested: u64,
    faults: Vec<String>,
}

impl Recording {
    /// Returns the promises at a length of the recording, and those that were being reached.
    fn promises_at(&self, at: usize) -> (&Promise, &Promise) {
        let passed = self.promises.partition_point(|promise| promise.recorded <= at);
        let now = &self.promises[passed.saturating_sub(1)];
        (now, self.promises.get(passed).unwrap_or(now))
    }

    fn check(
        &self,
        level: Durability,
        at: usize,
        disk: &SimDisk,
        context: &str,
        tally: &mut Tally,
    ) {
        tally.recoveries += 1;
        let (promise, next) = self.promises_at(at);
        let faults = check_found(disk, &config(level), promise, next, &self.messages);
        tally.faults.extend(faults.into_iter().map(|fault| format!("{context}: {fault}")));
    }

    /// Opens a crashed disk and loses power at each point of the opening.
    fn check_opening(&self, level: Durability, at: usize, crashed: &SimDisk, tally: &mut Tally) {
        let disk = crashed.after_process_crash();
        disk.record();
        if Broker::open(config(level), disk.clone(), Nanos(1)).is_err() {
            return;
        }
        let again = crashed.after_process_crash();
        for (point, op) in disk.take_trace().iter().enumerate() {
            for choice in again.crash_choices() {
                tally.nested += 1;
                let context = format!("point {at}, opening's point {point}, {choice:?}");
                self.check(level, at, &again.after_power_loss(choice), &context, tally);
            }
            again.apply(op);
        }
    }
}

fn crash_everywhere(level: Durability, seed: u64, steps: u64) -> Tally {
    let recording = record(level, seed, steps);
    let disk = SimDisk::new(seed);
    let mut rng = SeededRng::new(seed, "choices");
    let mut tally = Tally::default();
    for at in 0..=recording.trace.len() {
        tally.points += 1;
        let context = format!("{level}, seed {seed}, point {at}, killed");
        if level != Durability::Memory {
            recording.check(level, at, &disk.after_process_crash(), &context, &mut tally);
        }
        if level == Durability::Disk {
            let mut choices = disk.crash_choices();
            choices.extend((0..4).map(|_| CrashChoice::Random(rng.next_u64())));
            for choice in choices {
                let crashed = disk.after_power_loss(choice);
                let context = format!("seed {seed}, point {at}, {choice:?}");
                recording.check(level, at, &crashed, &context, &mut tally);
                if rng.chance(1, 100) {
                    recording.check_opening(level, at, &crashed, &mut tally);
                }
            }
        }
        if let Some(op) = recording.trace.get(at) {
            disk.apply(op);
        }
    }
    tally
}

/// Returns the faults found by losing power, or killing, at each write point of a workload.
#[cfg(feature = "planted")]
pub(crate) fn faults(level: Durability, seed: u64, steps: u64) -> usize {
    crash_everywhere(level, seed, steps).faults.len()
}

fn campaign(level: Durability) {
    let seeds = from_environment("WEIR_BROKER_CRASH_SEEDS", 3);
    let steps = from_environment("WEIR_BROKER_CRASH_STEPS", 60);
    let mut total = Tally::default();
    for seed in 1..=seeds {
        let tally = crash_everywhere(level, seed, steps);
        total.points += tally.points;
        total.recoveries += tally.recoveries;
        total.nested += tally.nested;
        total.faults.extend(tally.faults);
    }
    println!(
        "{level}: {seeds} seeds, {} points, {} recoveries, {} of openings",
        total.points, total.recoveries, total.nested
    );
    let shown: Vec<&String> = total.faults.iter().take(10).collect();
    assert!(total.faults.is_empty(), "{} faults, the first: {shown:#?}", total.faults.len());
    assert!(total.recoveries > seeds * 50, "the workload wrote too little to tell anything");
}

#[test]
fn at_disk_nothing_acknowledged_is_lost_by_power_at_any_write_point() {
    campaign(Durability::Disk);
}

#[test]
fn at_os_nothing_acknowledged_is_lost_by_a_kill_at_any_write_point() {
    campaign(Durability::Os);
}

#[test]
fn at_memory_a_closed_broker_keeps_all_and_one_that_was_killed_says_that_it_may_not() {
    for seed in 1..=3 {
        let recording = record(Durability::Memory, seed, 60);
        let disk = SimDisk::new(seed);
        recording.trace.iter().for_each(|op| disk.apply(op));
        let closed = disk.after_power_loss(CrashChoice::LoseAll);
        let last = recording.promises.last().unwrap();
        let config = config(Durability::Memory);
        let faults = check_found(&closed, &config, last, last, &recording.messages);
        assert_eq!(faults, [""; 0]);
        // This opening was not closed.
        let killed = closed.after_process_crash();
        let (mut broker, report) = Broker::open(config, killed, Nanos(3)).unwrap();
        assert!(report.may_have_lost && !report.was_closed, "{report:?}");
        let name = last.made.keys().next().unwrap();
        let attached = broker.attach(name, Nanos(3)).unwrap();
        assert!(attached.may_have_lost);
        broker.detach(attached.attachment, Nanos(3)).unwrap();
        assert!(!broker.attach(name, Nanos(3)).unwrap().may_have_lost, "it is told once");
    }
}
