//! A run that lasts for hours of simulated time: samples of all that must not grow, and their
//! verdict.
//!
//! The lives are those of a run with the gateway, but long, and as many as a day has hours. The
//! growth of each series is judged as in a soak ([`weir_growth`]), without the first quarter of the
//! time, in which the logs fill up to their limits.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use weir_growth::{Bound, Judged, judge};
use weir_io::disk::sim::SimUsage;
use weir_types::Nanos;

use crate::campaign::violation_of;
use crate::oracle::Violation;
use crate::plan::{DayPlan, Ending, LifePlan, Plan};
use crate::plant::{Plant, Planted};
use crate::world::{Outcome, Tally, run_day_plan};

/// The time of the short form, which tests run.
pub const SHORT: Nanos = Nanos(20 * 60 * SECOND);
const SECOND: u64 = 1_000_000_000;
const KIB: f64 = 1_024.0;
/// One part in so many of the time is not judged, at its beginning.
const WARM_UP: u64 = 4;
/// The steps of the shortest life.
const LIFE_STEPS_MIN: u64 = 100;

/// The judged series: the growth that they may have in the judged time is the larger one of a share
/// of their median and a floor. `docs/testing/sim.md` argues each.
const COMMANDS: Bound = Bound { what: "command log", unit: "KiB", share: 0.5, floor: 128.0 };
const EVENTS: Bound = Bound { what: "event log", unit: "KiB", share: 0.5, floor: 128.0 };
const SNAPSHOTS: Bound = Bound { what: "snapshots", unit: "KiB", share: 0.25, floor: 128.0 };
const CHECKPOINTS: Bound = Bound { what: "checkpoints", unit: "KiB", share: 0.25, floor: 16.0 };
const FILES: Bound = Bound { what: "files", unit: "", share: 0.5, floor: 8.0 };
const OPEN: Bound = Bound { what: "open files", unit: "", share: 0.0, floor: 4.0 };
const STREAMS: Bound = Bound { what: "streams", unit: "", share: 0.0, floor: 16.0 };
const REPLAYED: Bound = Bound { what: "start: commands", unit: "", share: 0.5, floor: 1_500.0 };
const TAKEN_IN: Bound = Bound { what: "start: events", unit: "", share: 0.5, floor: 1_500.0 };
const STATE: Bound = Bound { what: "start: state", unit: "KiB", share: 0.25, floor: 64.0 };

/// A sample.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Its time.
    pub at: Nanos,
    /// The room of the files: commands, events, snapshots, checkpoints.
    pub disks: [SimUsage; 4],
    /// The open streams of the node.
    pub stream_count: u64,
}

/// The work of a start.
#[derive(Clone, Copy, Debug)]
pub struct StartSample {
    /// Its time.
    pub at: Nanos,
    /// The commands behind the snapshot.
    pub commands: u64,
    /// The events that the gateway took in.
    pub events: u64,
    /// The bytes of the engine's state.
    pub state_bytes: u64,
}

/// The ends of processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Kills.
    pub kills: u64,
    /// Losses of power.
    pub power_losses: u64,
    /// Stops that were asked for.
    pub clean_stops: u64,
    /// Processes that ended themselves because a disk failed.
    pub own: u64,
}

/// The samples so far.
#[derive(Debug)]
pub struct DayWatch {
    day: DayPlan,
    begun: Nanos,
    next: Nanos,
    samples: Vec<Sample>,
    starts: Vec<StartSample>,
    ends: Ends,
}

impl DayWatch {
    /// Begins a day.
    #[must_use]
    pub fn new(day: DayPlan, now: Nanos) -> DayWatch {
        let (samples, starts) = (Vec::new(), Vec::new());
        DayWatch { day, begun: now, next: now, samples, starts, ends: Ends::default() }
    }

    /// Returns the life that begins now, not longer than the day; `None` when the day is over.
    #[must_use]
    pub fn trim(&self, life: LifePlan, now: Nanos, step_ns_max: u64) -> Option<LifePlan> {
        let left = self.day.time.since(now.since(self.begun));
        let steps = left.0 / (step_ns_max / 2);
        (steps >= LIFE_STEPS_MIN).then_some(LifePlan { steps: life.steps.min(steps), ..life })
    }

    /// True when a sample is due.
    #[must_use]
    pub fn is_due(&self, now: Nanos) -> bool {
        now >= self.next
    }

    /// Notes a sample.
    pub fn note(&mut self, sample: Sample) {
        self.next = Nanos(sample.at.0 + self.day.sample_every.0);
        self.samples.push(sample);
    }

    /// Notes a start.
    pub fn note_start(&mut self, start: StartSample) {
        self.starts.push(start);
    }

    /// Notes the events that the gateway took in at the last start.
    pub fn note_start_of_gateway(&mut self, events: u64) {
        if let Some(start) = self.starts.last_mut() {
            start.events = events;
        }
    }

    /// Notes the end of a process; `is_own` if it ended itself.
    pub fn note_end(&mut self, ending: Ending, is_own: bool) {
        let count = match ending {
            _ if is_own => &mut self.ends.own,
            Ending::Kill => &mut self.ends.kills,
            Ending::PowerLoss => &mut self.ends.power_losses,
            Ending::CleanStop => &mut self.ends.clean_stops,
        };
        *count += 1;
    }

    /// The ends of processes so far.
    #[must_use]
    pub fn ends(&self) -> Ends {
        self.ends
    }

    /// The number of samples so far.
    #[must_use]
    pub fn sample_count(&self) -> usize {
        self.samples.len()
    }

    /// The simulated time so far, by the samples.
    #[must_use]
    pub fn hours(&self) -> f64 {
        self.samples.last().map_or(0.0, |last| self.hours_at(last.at))
    }

    fn hours_at(&self, at: Nanos) -> f64 {
        at.since(self.begun).0 as f64 / (3_600 * SECOND) as f64
    }

    /// Judges all series, without the beginning of the day.
    #[must_use]
    pub fn judge(&self) -> Vec<Judged> {
        let from = Nanos(self.begun.0 + self.day.time.0 / WARM_UP);
        let series = |bound: Bound, figure: &dyn Fn(&Sample) -> f64| {
            let judged = self.samples.iter().filter(|sample| sample.at >= from);
            let points = judged.map(|sample| (self.hours_at(sample.at), figure(sample)));
            judge(bound, &points.collect::<Vec<_>>())
        };
        let starts = |bound: Bound, figure: fn(&StartSample) -> f64| {
            let judged = self.starts.iter().filter(|start| start.at >= from);
            let points = judged.map(|start| (self.hours_at(start.at), figure(start)));
            judge(bound, &points.collect::<Vec<_>>())
        };
        let disk = |disk: usize| move |sample: &Sample| sample.disks[disk].bytes as f64 / KIB;
        let sum = |figure: fn(&SimUsage) -> u64| {
            move |sample: &Sample| sample.disks.iter().map(figure).sum::<u64>() as f64
        };
        vec![
            series(COMMANDS, &disk(0)),
            series(EVENTS, &disk(1)),
            series(SNAPSHOTS, &disk(2)),
            series(CHECKPOINTS, &disk(3)),
            series(FILES, &sum(|usage| usage.file_count)),
            series(OPEN, &sum(|usage| usage.open_count)),
            series(STREAMS, &|sample| sample.stream_count as f64),
            starts(REPLAYED, |start| start.commands as f64),
            starts(TAKEN_IN, |start| start.events as f64),
            starts(STATE, |start| start.state_bytes as f64 / KIB),
        ]
    }
}

/// The result of a day.
#[derive(Debug)]
pub struct DayReport {
    /// The seed.
    pub seed: u64,
    /// The figures, and the rule that was broken: a series that grew breaks one too.
    pub outcome: Outcome,
    /// The ends of processes.
    pub ends: Ends,
    /// The simulated time.
    pub hours: f64,
    /// The number of samples.
    pub sample_count: usize,
    /// The judged series.
    pub judged: Vec<Judged>,
}

/// Runs the day of `seed` for `time`, with a planted bug if there is one; a failed assertion is a
/// violation too.
#[must_use]
pub fn run_day(time: Nanos, seed: u64, plant: Option<Plant>) -> DayReport {
    let _planted = Planted::put(plant);
    let run = || run_day_plan(Plan::day(time, seed), seed, plant);
    let (mut outcome, watch) = match catch_unwind(AssertUnwindSafe(run)) {
        Ok((outcome, watch)) => (outcome, Some(watch)),
        Err(panic) => {
            let violation = Some(violation_of(&*panic));
            (Outcome { tally: Tally::default(), trace_hash: 0, violation }, None)
        }
    };
    let judged = watch.as_ref().map_or(Vec::new(), DayWatch::judge);
    let grown: Vec<String> =
        judged.iter().filter(|series| !series.is_flat()).map(ToString::to_string).collect();
    if outcome.violation.is_none() && !grown.is_empty() {
        outcome.violation = Some(Violation::new("a series grows for hours", grown.join("; ")));
    }
    DayReport {
        seed,
        outcome,
        ends: watch.as_ref().map_or(Ends::default(), DayWatch::ends),
        hours: watch.as_ref().map_or(0.0, DayWatch::hours),
        sample_count: watch.as_ref().map_or(0, DayWatch::sample_count),
        judged,
    }
}

impl DayReport {
    /// Formats the report as one line of JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let Tally { commands, events, steps, recoveries, lost_tails, snapshots, .. } =
            self.outcome.tally;
        let Tally { recovery_crashes, truncations, clock_steps, spells, gate, .. } =
            self.outcome.tally;
        let Ends { kills, power_losses, clean_stops, own } = self.ends;
        let mut line = format!(
            "{{\"campaign\":\"sim day\",\"seed\":{},\"hours\":{:.2},\"commands\":{commands},\
             \"events\":{events},\"steps\":{steps},\"kills\":{kills},\
             \"power_losses\":{power_losses},\"clean_stops\":{clean_stops},\"own_ends\":{own},\
             \"recovery_crashes\":{recovery_crashes},\"recoveries\":{recoveries},\
             \"lost_tails\":{lost_tails},\"snapshots\":{snapshots},\
             \"truncations\":{truncations},\"clock_steps\":{clock_steps},\
             \"descriptor_spells\":{},\"stalls\":{},\"full_spells\":{}{},\"samples\":{},\
             \"series\":[",
            self.seed,
            self.hours,
            spells.descriptors,
            spells.stalls,
            spells.full,
            gate.to_json(),
            self.sample_count,
        );
        for (index, series) in self.judged.iter().enumerate() {
            let Judged { what, unit, point_count, median, growth, limit, .. } = series;
            let comma = if index > 0 { "," } else { "" };
            let is_flat = series.is_flat();
            let _ = write!(
                line,
                "{comma}{{\"series\":\"{what}\",\"unit\":\"{unit}\",\"points\":{point_count},\
                 \"median\":{median:.1},\"growth\":{growth:.2},\"limit\":{limit:.1},\
                 \"flat\":{is_flat}}}"
            );
        }
        let _ = write!(line, "],\"violations\":{}}}", u64::from(self.outcome.violation.is_some()));
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600 * SECOND;

    /// Judges a day whose command log has these bytes at each minute; returns the series that grew.
    fn grown(bytes: impl Fn(u64) -> u64) -> Vec<&'static str> {
        let day = DayPlan { time: Nanos(24 * HOUR), sample_every: Nanos(60 * SECOND), rarity: 1 };
        let mut watch = DayWatch::new(day, Nanos(0));
        for minute in 0..24 * 60 {
            let at = Nanos(minute * 60 * SECOND);
            assert!(watch.is_due(at));
            let commands = SimUsage { bytes: bytes(minute), file_count: 3, open_count: 1 };
            let [other, ..] = [SimUsage::default(); 4];
            watch.note(Sample { at, disks: [commands, other, other, other], stream_count: 4 });
            assert!(!watch.is_due(at));
        }
        let judged = watch.judge();
        judged.iter().filter(|series| !series.is_flat()).map(|series| series.what).collect()
    }

    #[test]
    fn a_file_that_is_never_removed_is_named_and_one_that_fills_up_is_not() {
        assert!(grown(|minute| 10_000 + minute % 50 * 5_000).is_empty(), "a sawtooth");
        assert!(grown(|minute| minute.min(300) * 1_000).is_empty(), "filled in the first quarter");
        assert_eq!(grown(|minute| minute % 50 * 5_000 + minute * 1_000), ["command log"]);
    }

    #[test]
    fn a_life_ends_with_the_day() {
        let day = DayPlan { time: Nanos(HOUR), sample_every: Nanos(SECOND), rarity: 1 };
        let watch = DayWatch::new(day, Nanos(7));
        let life = LifePlan { steps: 1_000, ..LifePlan::calm() };
        let steps = |now| watch.trim(life, Nanos(now), 2 * SECOND).map(|life| life.steps);
        assert_eq!(steps(7), Some(1_000));
        assert_eq!(steps(7 + HOUR - 200 * SECOND), Some(200));
        assert_eq!(steps(7 + HOUR - 99 * SECOND), None);
        assert_eq!(steps(8 + HOUR), None);
    }
}
