//! The samples of a soak: written as they are taken, shown as a table, and judged at the end.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};
use weir_growth::{Bound, Judged, judge};

use super::node::{Measured, Node};

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
const START: Bound = Bound { what: "time to ready", unit: "ms", share: 0.5, floor: 250.0 };

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
    starts: Vec<Duration>,
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
        self.starts.push(node.started_in());
        let (life, at) = (self.starts.len(), self.begun.elapsed());
        let ms = node.started_in().as_secs_f64() * 1e3;
        println!("{:>8.0}s {life:>5} ready after {ms:.0} ms", at.as_secs_f64());
        self.write(&json!({ "life": life, "at_s": at.as_secs_f64(), "ready_after_ms": ms }))
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
        let starts = starts[starts.len() / WARM_UP..].iter().zip(0u32..);
        let starts = starts.map(|(start, number)| (f64::from(number), start.as_secs_f64() * 1e3));
        vec![
            series(MEMORY, |measured| measured.resident_bytes as f64 / MIB),
            series(ANONYMOUS, |measured| measured.anonymous_bytes as f64 / MIB),
            series(DESCRIPTORS, |measured| measured.descriptors as f64),
            series(THREADS, |measured| measured.threads as f64),
            series(DISK, |measured| measured.disk_bytes as f64 / MIB),
            judge(START, &starts.collect::<Vec<_>>()),
        ]
    }
}
