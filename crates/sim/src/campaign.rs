//! Campaigns: many seeds, one after another, with the sum of their figures and the violations.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::day::{self, run_day};
use crate::oracle::Violation;
use crate::plant::{Front, Plant, Planted};
use crate::world::{Outcome, Tally, run, run_gate};

/// The result of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Seeds run.
    pub seeds: u64,
    /// The sum of all figures.
    pub total: Tally,
    /// The seeds that broke a rule, with the violation.
    pub violations: Vec<(u64, Violation)>,
}

/// Runs a seed; a failed assertion in any part is a violation too.
#[must_use]
pub fn run_seed(front: Front, seed: u64, plant: Option<Plant>) -> Outcome {
    let _planted = Planted::put(plant);
    let run = match front {
        Front::Crowd => run,
        Front::Gateway => run_gate,
        Front::Day => return run_day(day::SHORT, seed, plant).outcome,
    };
    catch_unwind(AssertUnwindSafe(|| run(seed, plant))).unwrap_or_else(|panic| {
        let violation = Some(violation_of(&*panic));
        Outcome { tally: Tally::default(), trace_hash: 0, violation }
    })
}

/// The violation that a failed assertion is.
pub(crate) fn violation_of(panic: &(dyn Any + Send)) -> Violation {
    let said = panic.downcast_ref::<String>().map(String::as_str);
    let said = said.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
    Violation::new("an assertion failed", said)
}

/// Returns true if a seed breaks a rule with the front of a planted bug: with the bug, or without.
#[must_use]
pub fn fails(plant: Plant, is_planted: bool, seed: u64) -> bool {
    run_seed(plant.front(), seed, is_planted.then_some(plant)).violation.is_some()
}

/// Runs all `seeds` and calls `watch` after each.
pub fn run_seeds(front: Front, seeds: Range<u64>, mut watch: impl FnMut(u64, &Outcome)) -> Report {
    let mut report = Report::default();
    for seed in seeds {
        let outcome = run_seed(front, seed, None);
        watch(seed, &outcome);
        report.seeds += 1;
        report.total.add(&outcome.tally);
        report.violations.extend(outcome.violation.map(|violation| (seed, violation)));
    }
    report
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.commands += other.commands;
        self.events += other.events;
        self.steps += other.steps;
        self.crashes += other.crashes;
        self.recovery_crashes += other.recovery_crashes;
        self.self_stops += other.self_stops;
        self.recoveries += other.recoveries;
        self.lost_tails += other.lost_tails;
        self.snapshots += other.snapshots;
        self.refused += other.refused;
        self.resyncs += other.resyncs;
        self.failed_calls += other.failed_calls;
        self.clock_steps += other.clock_steps;
        self.truncations += other.truncations;
        self.changes_of_many += other.changes_of_many;
        self.schedules_of_many += other.schedules_of_many;
        self.spells.add(&other.spells);
        self.gate.add(&other.gate);
    }
}

impl Report {
    /// Formats the report as one line of JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let t = &self.total;
        format!(
            "{{\"campaign\":\"sim\",\"seeds\":{},\"commands\":{},\"events\":{},\"steps\":{},\
             \"crashes\":{},\"recovery_crashes\":{},\"self_stops\":{},\"recoveries\":{},\
             \"lost_tails\":{},\"snapshots\":{},\"refused\":{},\"resyncs\":{},\
             \"clock_steps\":{},\"truncations\":{},\"descriptor_spells\":{},\"stalls\":{},\
             \"full_spells\":{},\
             \"violations\":{}{}}}",
            self.seeds,
            t.commands,
            t.events,
            t.steps,
            t.crashes,
            t.recovery_crashes,
            t.self_stops,
            t.recoveries,
            t.lost_tails,
            t.snapshots,
            t.refused,
            t.resyncs,
            t.clock_steps,
            t.truncations,
            t.spells.descriptors,
            t.spells.stalls,
            t.spells.full,
            self.violations.len(),
            if t.gate.logons > 0 { t.gate.to_json() } else { String::new() }
        )
    }
}
