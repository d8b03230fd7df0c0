//! The samples of a soak: written as they are taken, shown as a table, and judged at the end.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};
use weir_growth::{Bound, Judged, judge};

use super::node::{Measured, Node, StartCost};

/// The rows of the table for samples.
const ROWS: u32 = 60;
/// The share of a series that is not judged: one in so many at its beginning.
const WARM_UP: usize = 4;

const MIB: f64 = (1 << 20) as f64;

/// The judged series: their unit, and the growth that they may have in the judged time, the larger
/// one of a share of their median and a floor. `docs/testing/soak.md` argues each.
const MEMORY: Bound = Bound { what: "resident memory", unit: "MiB", share: 0.05, floor: 4.0 };
const ANONYMOUS: Bound = Bound { what: "anonymous memory", unit: "MiB", share: 0.05, floor: 4.0 };
const DESCRIPTORS: Bound = Bound { what: "descriptors", unit: "", share: 0.0, floor: 3.0 };
const THREADS: Bound = Bound { what: "threads", unit: "", share: 0.0, floor: 1.0 };
const DISK: Bound = Bound { what: "disk", unit: "MiB", share: 0.05, floor: 4.0 };
/// Starts are judged by their work. The time to ready depends on the other work of the machine too.
const START_READ: Bound = Bound { what: "start, read", unit: "MiB", share: 0.5, floor: 4.0 };
const START_TIME: Bound = Bound { what: "start, processor", unit: "ms", share: 1.0, floor: 250.0 };

/// Returns a judged series for the outcome's line.
pub(super) fn to_json(judged: &Judged) -> Value {
    json!({
        "series": judged.what,
        "unit": judged.unit,
        "points": judged.point_count,
        "first_third": judged.thirds[0],
        "last_third": judged.thirds[1],
        "growth": judged.growth,
        "limit": judged.limit,
        "flat": judged.is_flat(),
    })
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    /// The time since the start of the soak.
    at: Duration,
    measured: Measured,
}

/// The samples so far.
pub(super) struct Samples {
    begun: Instant,
    interval: Duration,
    file: Option<File>,
    /// The time of the next row of the table, and the distance between rows.
    row_at: Duration,
    row_every: Duration,
    /// The samples of the present life.
    life: Vec<Sample>,
    count: usize,
    starts: Vec<StartCost>,
}

impl Samples {
    /// Begins a soak of `time`, with lines in `file`.
    pub(super) fn new(
        time: Duration,
        interval: Duration,
        file: Option<&Path>,
    ) -> anyhow::Result<Samples> {
        let create = |path: &Path| {
            File::create(path).with_context(|| format!("cannot make {}", path.display()))
        };
        println!(
            "{:>9} {:>5} {:>10} {:>10} {:>12} {:>8} {:>10}",
            "elapsed", "life", "RSS, MiB", "anon, MiB", "descriptors", "threads", "disk, MiB"
        );
        Ok(Samples {
            begun: Instant::now(),
            interval,
            file: file.map(create).transpose()?,
            row_at: Duration::ZERO,
            row_every: time / ROWS,
            life: Vec::new(),
            count: 0,
            starts: Vec::new(),
        })
    }

    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn start_count(&self) -> usize {
        self.starts.len()
    }

    /// Notes a start of the node, with which a life begins.
    pub(super) fn started(&mut self, node: &Node) -> anyhow::Result<()> {
        self.life.clear();
        let start = node.start();
        self.starts.push(start);
        let (life, at) = (self.starts.len(), self.begun.elapsed().as_secs_f64());
        let (ready, busy) = (milliseconds(start.wall), milliseconds(start.processor));
        println!(
            "{at:>8.0}s {life:>5} ready after {ready:.0} ms, {busy:.0} ms of processors, \
             {:.1} MiB read",
            start.read_bytes as f64 / MIB
        );
        self.write(&json!({
            "life": life,
            "at_s": at,
            "ready_after_ms": ready,
            "processor_ms": busy,
            "read_bytes": start.read_bytes,
        }))
    }

    /// Takes a sample.
    pub(super) fn take(&mut self, node: &Node, data: &Path) -> anyhow::Result<()> {
        let at = self.begun.elapsed();
        let measured = node.measure(data)?;
        self.life.push(Sample { at, measured });
        self.count += 1;
        let life = self.starts.len();
        self.write(&json!({
            "life": life,
            "at_s": at.as_secs_f64(),
            "resident_bytes": measured.resident_bytes,
            "anonymous_bytes": measured.anonymous_bytes,
            "descriptors": measured.descriptors,
            "threads": measured.threads,
            "disk_bytes": measured.disk_bytes,
        }))?;
        if at >= self.row_at {
            self.row_at = at + self.row_every;
            println!(
                "{:>8.0}s {life:>5} {:>10.1} {:>10.1} {:>12} {:>8} {:>10.1}",
                at.as_secs_f64(),
                measured.resident_bytes as f64 / MIB,
                measured.anonymous_bytes as f64 / MIB,
                measured.descriptors,
                measured.threads,
                measured.disk_bytes as f64 / MIB,
            );
        }
        Ok(())
    }

    fn write(&mut self, line: &serde_json::Value) -> anyhow::Result<()> {
        if let Some(file) = &mut self.file {
            writeln!(file, "{line}").context("the samples' file")?;
        }
        Ok(())
    }

    /// Judges the last life after its warm-up, and the starts of a log that exists after theirs.
    pub(super) fn judge(&self) -> Vec<Judged> {
        let life = &self.life[self.life.len() / WARM_UP..];
        let series = |bound: Bound, figure: fn(&Measured) -> f64| {
            let points =
                life.iter().map(|sample| (sample.at.as_secs_f64(), figure(&sample.measured)));
            judge(bound, &points.collect::<Vec<_>>())
        };
        let starts = self.starts.get(1..).unwrap_or_default();
        let starts = &starts[starts.len() / WARM_UP..];
        let of_starts = |bound: Bound, figure: fn(&StartCost) -> f64| {
            let points = (0u32..).zip(starts);
            let points = points.map(|(number, start)| (f64::from(number), figure(start)));
            judge(bound, &points.collect::<Vec<_>>())
        };
        vec![
            series(MEMORY, |measured| measured.resident_bytes as f64 / MIB),
            series(ANONYMOUS, |measured| measured.anonymous_bytes as f64 / MIB),
            series(DESCRIPTORS, |measured| measured.descriptors as f64),
            series(THREADS, |measured| measured.threads as f64),
            series(DISK, |measured| measured.disk_bytes as f64 / MIB),
            of_starts(START_READ, |start| start.read_bytes as f64 / MIB),
            of_starts(START_TIME, |start| milliseconds(start.processor)),
        ]
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Judges starts of which the n-th takes so long, and reads so many MiB.
    fn grown(cost: impl Fn(u32) -> (u64, u64, u64)) -> Vec<&'static str> {
        let second = Duration::from_secs(1);
        let mut samples = Samples::new(second, second, None).unwrap();
        samples.starts = (0..20)
            .map(|number| {
                let (wall, processor, mib) = cost(number);
                StartCost {
                    wall: Duration::from_millis(wall),
                    processor: Duration::from_millis(processor),
                    read_bytes: mib << 20,
                }
            })
            .collect();
        let judged = samples.judge();
        judged.iter().filter(|judged| !judged.is_flat()).map(|judged| judged.what).collect()
    }

    #[test]
    fn starts_are_judged_by_their_work_and_not_by_that_of_the_machine() {
        assert_eq!(grown(|number| (300 + 100 * u64::from(number), 250, 12)), [""; 0]);
        assert_eq!(grown(|number| (300, 250, 12 + u64::from(number))), ["start, read"]);
        let busy = |number: u32| (300, 100 * u64::from(number), 12);
        assert_eq!(grown(busy), ["start, processor"]);
    }
}
