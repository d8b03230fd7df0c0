//! `soak`: a whole node at work for hours, and a verdict on all that must not grow.
//!
//! The node is the shipped program with small segments, a retention of a few of them, frequent
//! snapshots and checkpoints, and it publishes its market. Beside a load of orders there are
//! followers of order state, a desk with drop copy, a durable subscriber that is away now and then,
//! and sessions that come and go. In the first half of the time the node is stopped and started
//! again at intervals, and the work of each start is measured; in the second half it runs without a
//! break, and its memory, descriptors, threads and disk are judged by their slopes. Each answer
//! that clients get is checked on the way.
//!
//! * [`node`]: the program as a process, and its measurements.
//! * [`market`]: instruments, sessions and keys.
//! * [`load`], [`visitors`], [`readers`]: the parties.
//! * [`samples`]: the measured series.

mod http;
mod load;
mod market;
mod node;
mod readers;
mod samples;
mod visitors;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::thread::Scope;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use weir_growth::Judged;
use weir_types::Durability;

use load::Load;
use market::Market;
use node::{Home, Node};
use readers::Readers;
use samples::Samples;
use visitors::Visitors;

/// The longest wait for any answer: a hang is an error, no time is judged by it.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// The most errors that are kept.
const ERRORS_MAX: usize = 100;
/// The pause between two looks at the end of a life.
const STEP: Duration = Duration::from_millis(20);

/// Options of `weir-campaign soak`.
#[derive(Clone, Debug, clap::Args)]
pub struct SoakArgs {
    /// Time of the whole soak.
    #[arg(long, default_value = "2h", value_parser = span)]
    pub time: Duration,
    /// Time between restarts in the first half.
    #[arg(long, default_value = "5m", value_parser = span)]
    pub restart_every: Duration,
    /// Time between samples.
    #[arg(long, default_value = "10s", value_parser = span)]
    pub sample_every: Duration,
    /// Orders per second of the load.
    #[arg(long, default_value_t = 2_000)]
    pub rate: u32,
    /// The node's durability level.
    #[arg(long, default_value = "disk")]
    pub durability: Durability,
    /// File of the samples, one JSON object a line.
    #[arg(long, value_name = "FILE")]
    pub samples: Option<PathBuf>,
    /// Directory of the node's data; the system's temporary directory if absent.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The program `weir`; by default the one next to this program.
    #[arg(long, value_name = "FILE", env = "WEIR_BIN")]
    pub weir: Option<PathBuf>,
}

/// Reads a time such as `2h`, `1.5m`, `90s` or `500ms`.
fn span(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "h" => 3600.0,
        "m" => 60.0,
        "s" => 1.0,
        "ms" => 1e-3,
        _ => return Err("a number and h, m, s or ms".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| format!("{number:?} is no number"))?;
    let time = Duration::try_from_secs_f64(number * seconds).map_err(|error| error.to_string())?;
    if time.is_zero() { Err("a time above zero".to_owned()) } else { Ok(time) }
}

/// The outcome of a soak.
#[derive(Debug)]
pub struct Outcome {
    /// Answers, ends of processes and files that were not as they must be; empty if all were.
    pub errors: Vec<String>,
    /// The growth of each series.
    pub judged: Vec<Judged>,
    /// The number of starts of the node, the first one included.
    pub start_count: usize,
    /// The number of samples.
    pub sample_count: usize,
    /// The counts of the parties.
    pub counts: Value,
    /// The position of the first retained command and event at the end.
    pub first_retained: [u64; 2],
}

impl Outcome {
    /// The judged series that grew.
    pub fn grown(&self) -> impl Iterator<Item = &Judged> {
        self.judged.iter().filter(|judged| !judged.is_flat())
    }
}

/// Runs the campaign; fails when a client was answered wrongly or something grew.
#[must_use]
pub fn run(args: &SoakArgs) -> ExitCode {
    let outcome = match soak(args) {
        Ok(outcome) => outcome,
        Err(error) => {
            eprintln!("soak: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    for judged in &outcome.judged {
        println!("{judged}");
    }
    for error in &outcome.errors {
        println!("error: {error}");
    }
    let grown: Vec<_> = outcome.grown().map(|judged| judged.what).collect();
    let is_well = outcome.errors.is_empty() && grown.is_empty();
    let result = json!({
        "campaign": "soak",
        "seconds": args.time.as_secs_f64(),
        "rate": args.rate,
        "durability": args.durability.to_string(),
        "starts": outcome.start_count,
        "samples": outcome.sample_count,
        "counts": outcome.counts,
        "judged": outcome.judged.iter().map(samples::to_json).collect::<Vec<_>>(),
        "grown": grown,
        "errors": outcome.errors.len(),
    });
    println!("{result}");
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The errors that the parties met.
#[derive(Debug, Default)]
pub(crate) struct Errors(Mutex<Vec<String>>);

impl Errors {
    /// Keeps the error of a party, if there is one.
    pub(crate) fn note<T>(&self, party: &str, outcome: anyhow::Result<T>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(error) => {
                let mut errors = self.0.lock().expect("no party panics with it");
                if errors.len() < ERRORS_MAX {
                    errors.push(format!("{party}: {error:#}"));
                }
                None
            }
        }
    }
}

/// The lengths of the node's lives: those of the first half, and the one of the second half.
fn lives(args: &SoakArgs) -> anyhow::Result<Vec<Duration>> {
    let half = args.time / 2;
    ensure!(args.restart_every <= half, "--restart-every is at most half of --time");
    ensure!(!args.sample_every.is_zero() && args.rate > 0, "--rate is at least 1");
    let count = half.as_nanos() / args.restart_every.as_nanos();
    let count = u32::try_from(count).context("fewer restarts")?;
    let mut lives = vec![args.restart_every; count as usize];
    lives.push(args.time - args.restart_every * count);
    Ok(lives)
}

/// Runs a node and its parties for the time of `args`.
///
/// # Errors
/// A program that does not start, a market that cannot be defined, or a file of samples that cannot
/// be written. Errors of the parties are in the outcome.
pub fn soak(args: &SoakArgs) -> anyhow::Result<Outcome> {
    let lives = lives(args)?;
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let work = tempfile::Builder::new().prefix("weir-soak-").tempdir_in(&parent)?;
    let home = Home::new(work.path(), args.weir.clone(), args.durability)?;
    let mut soak = Soak::begin(args, home)?;
    for length in &lives {
        soak.live(*length)?;
    }
    soak.end()
}

/// A soak under way.
struct Soak {
    home: Home,
    errors: Errors,
    /// None before the first life.
    parties: Option<Parties>,
    samples: Samples,
    /// The time for which the durable subscriber stays.
    pace: Duration,
    rate: u32,
    first_retained: [u64; 2],
}

/// The parties; they go on where they were after a restart.
struct Parties {
    load: Load,
    visitors: Visitors,
    readers: Readers,
}

impl Soak {
    fn begin(args: &SoakArgs, home: Home) -> anyhow::Result<Soak> {
        Ok(Soak {
            home,
            errors: Errors::default(),
            parties: None,
            samples: Samples::new(args.time, args.sample_every, args.samples.as_deref())?,
            pace: args.restart_every.min(Duration::from_secs(60)) / 6,
            rate: args.rate,
            first_retained: [0; 2],
        })
    }

    /// Starts the node, lets the parties work for `length`, and stops it.
    fn live(&mut self, length: Duration) -> anyhow::Result<()> {
        let node = self.home.start()?;
        self.samples.started(&node)?;
        let mut parties = match self.parties.take() {
            Some(parties) => parties,
            None => Parties::gather(&Market::open(&self.home, &node)?, &node, self.rate)?,
        };
        let life = Life {
            node: &node,
            errors: &self.errors,
            data: self.home.data(),
            length,
            pace: self.pace,
        };
        let (samples, present) = (&mut self.samples, &mut parties);
        std::thread::scope(move |scope| life.work(scope, present, samples))?;
        let caught_up = parties.readers.subscriber.catch_up(&node, parties.load.counts.trades);
        self.errors.note("durable subscriber", caught_up);
        self.errors.note("publisher", node.wait_for_publisher());
        self.errors.note("retention", node.wait_for_removals());
        self.first_retained = node.first_retained()?;
        self.parties = Some(parties);
        self.errors.note("node", self.home.stop(node));
        Ok(())
    }

    /// Checks the files that the node left and judges the series.
    fn end(self) -> anyhow::Result<Outcome> {
        self.errors.note("weir log verify", self.home.verify());
        self.errors.note("the node's lines", self.home.check_lines());
        let parties = self.parties.expect("it had a life");
        Ok(Outcome {
            errors: self.errors.0.into_inner().expect("no party panics with it"),
            judged: self.samples.judge(),
            start_count: self.samples.start_count(),
            sample_count: self.samples.count(),
            counts: json!({
                "load": parties.load.counts,
                "visits": parties.visitors.counts(),
                "readers": parties.readers.counts(),
            }),
            first_retained: self.first_retained,
        })
    }
}

impl Parties {
    fn gather(market: &Market, node: &Node, rate: u32) -> anyhow::Result<Parties> {
        Ok(Parties {
            load: Load::new(market, rate),
            visitors: Visitors::new(market),
            readers: Readers::new(market, node)?,
        })
    }
}

/// A life of the node.
#[derive(Clone, Copy)]
struct Life<'env> {
    node: &'env Node,
    errors: &'env Errors,
    data: &'env Path,
    length: Duration,
    /// The time for which the durable subscriber stays.
    pace: Duration,
}

impl<'env> Life<'env> {
    /// Runs the parties beside the load, and samples until the load has ended.
    fn work<'scope>(
        self,
        scope: &'scope Scope<'scope, 'env>,
        parties: &'env mut Parties,
        samples: &mut Samples,
    ) -> anyhow::Result<()> {
        let Life { node, errors, data, length, .. } = self;
        let Parties { load, visitors, readers } = parties;
        visitors.start(scope, self);
        readers.start(scope, self);
        let load = scope.spawn(move || load.run(node, length));
        let mut next = Instant::now() + samples.interval();
        let mut sampled = Ok(());
        while !load.is_finished() {
            if Instant::now() >= next && sampled.is_ok() {
                next += samples.interval();
                sampled = samples.take(node, data);
                errors.note("monitoring", node.check_health());
            }
            std::thread::sleep(STEP);
        }
        errors.note("load", load.join().expect("a panic of the load ends the soak"));
        node.stop_parties().store(true, Ordering::Relaxed);
        sampled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_numbers_with_a_unit() {
        for (text, seconds) in [("2h", 7200.0), ("1.5m", 90.0), ("20s", 20.0), ("500ms", 0.5)] {
            assert_eq!(span(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["", "2", "h", "2d", "-1s", "0s"] {
            assert!(span(text).is_err(), "{text:?}");
        }
    }

    fn args(time: u64, restart_every: u64) -> SoakArgs {
        SoakArgs {
            time: Duration::from_secs(time),
            restart_every: Duration::from_secs(restart_every),
            sample_every: Duration::from_secs(1),
            rate: 1,
            durability: Durability::Os,
            samples: None,
            dir: None,
            weir: None,
        }
    }

    #[test]
    fn restarts_fill_the_first_half_and_one_life_the_rest() {
        let seconds = |args: &SoakArgs| {
            let lives = lives(args).unwrap();
            lives.iter().map(Duration::as_secs).collect::<Vec<_>>()
        };
        assert_eq!(seconds(&args(20, 3)), [3, 3, 3, 11]);
        assert_eq!(seconds(&args(20, 10)), [10, 10]);
        assert!(lives(&args(20, 11)).is_err());
    }
}
