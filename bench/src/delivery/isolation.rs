//! `weir-bench delivery-isolation`: a hundred good clients next to seven that misbehave.
//!
//! One does not read, one reads a kilobyte per second, one sends forged tokens, queries in other
//! sessions' names and garbage as fast as it can. Four are at other listeners: WebSockets without a
//! subscription, a WebSocket that stalls while its key is replaced, a creator of subscriptions with
//! the greatest quotas, and handles at one token. In each pair of runs the seven connect once to
//! the good clients' node, and once, as the control, to another node of the same machine: their
//! cost to the machine is in both runs, their cost to the good clients in one only.

use std::time::Instant;

use anyhow::ensure;
use serde_json::{Value, json};
use weir_cli::endpoint::span;
use weir_client::Admin;
use weir_types::{PartitionId, SessionId};

use super::pests::{Passes, Pests};
use super::rig::{DOORS, Doors, Emulator, FIRST_SOURCE, Rig, class, number};
use crate::roundtrip::{Estimate, median_with_interval};

/// The limits: the ratio of the good clients' p99, and the ratio of the store's ingest rate.
const GOAL_P99: f64 = 1.10;
const GOAL_RATE: f64 = 0.95;
/// The limit of the node's memory growth after the first pair, in bytes: room for an allocator's
/// retention, not for a leak.
const GOAL_BYTES: u64 = 32 << 20;
/// One client reads everything, nine read 1 % each, ninety 0.1 % each.
const GOOD: &str = "all:1,firm:9,account:90";
const WARM_UP: f64 = 1.0;
/// The time between runs, in seconds: to log on, to receive all orders, to leave.
const BETWEEN: f64 = 12.0;

/// Options of `weir-bench delivery-isolation`.
#[derive(Clone, Debug, clap::Args)]
pub struct IsolationArgs {
    /// Changes per second.
    #[arg(long, default_value_t = 20_000)]
    rate: u32,
    /// Pairs of runs.
    #[arg(long, default_value_t = 40)]
    pairs: u32,
    /// Seconds of each run.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Live orders.
    #[arg(long, default_value_t = 20_000)]
    orders: u32,
}

/// The figures of one run.
struct Run {
    p50: f64,
    p99: f64,
    taken_in_per_s: f64,
    /// The resident memory ahead of the visit, and behind it.
    resident_before: u64,
    resident: u64,
    anonymous: u64,
    /// The bytes that its store has allocated.
    store: u64,
    pests: Value,
    pest_count: usize,
}

impl Run {
    /// The memory that the run has added, in bytes; negative if there is less.
    fn left(&self) -> f64 {
        self.resident as f64 - self.resident_before as f64
    }
}

/// Runs the benchmark and prints its JSON object as the last line.
///
/// # Errors
/// A process that does not start or ends early.
pub fn run(args: IsolationArgs) -> anyhow::Result<()> {
    let in_range = args.seconds >= 1.0 && args.seconds <= 60.0 && args.pairs > 0 && args.rate > 0;
    ensure!(in_range, "--seconds from 1 to 60, --pairs and --rate at least 1");
    // The limit is reached in the first run: readers cause any later growth.
    let kept = format!("[delivery]\nended_orders_max = {}\n{DOORS}", args.orders);
    let start = || Rig::start_with(1, 1_000, &kept);
    let (rig, decoy) = (start()?, start()?);
    let whole = (args.seconds + WARM_UP + BETWEEN) * f64::from(args.pairs) * 2.0;
    let mut cores = [core(&rig, &args, args.rate, whole)?, core(&decoy, &args, 1, whole)?];
    let (here, there) = (Visits::allow(&rig)?, Visits::allow(&decoy)?);
    for core in &mut cores {
        core.begin()?;
    }
    let (mut with, mut control) = (Vec::new(), Vec::new());
    for pair in 1..=args.pairs {
        // The order alternates, so that drift affects both sides alike.
        for is_with in [pair % 2 == 1, pair % 2 == 0] {
            let (visits, runs) = if is_with { (&here, &mut with) } else { (&there, &mut control) };
            runs.push(measure(&rig, visits, &args)?);
        }
        let (Some(with), Some(control)) = (with.last(), control.last()) else { continue };
        tell(pair, with, control);
    }
    drop(cores);
    println!("{}", result(&args, &with, &control));
    Ok(())
}

fn core(rig: &Rig, args: &IsolationArgs, rate: u32, whole: f64) -> anyhow::Result<Emulator> {
    rig.core(&[
        "--rate",
        &rate.to_string(),
        "--orders",
        &args.orders.to_string(),
        "--duration",
        &whole.to_string(),
    ])
}

/// The node's listeners and the credentials for the seven.
struct Visits {
    doors: Doors,
    passes: Passes,
}

impl Visits {
    fn allow(rig: &Rig) -> anyhow::Result<Visits> {
        let (address, key) = (rig.node.address(), rig.node.key());
        let mut admin = Admin::connect(address, SessionId(1), key, ANSWER_TIME)?;
        let doors = rig.doors()?;
        let passes = Passes::issue(&mut admin, &doors)?;
        admin.close()?;
        Ok(Visits { doors, passes })
    }
}

const ANSWER_TIME: std::time::Duration = std::time::Duration::from_secs(5);

fn measure(rig: &Rig, visits: &Visits, args: &IsolationArgs) -> anyhow::Result<Run> {
    let resident_before = rig.node.resident_bytes()?;
    let pests = Pests::at(visits.doors, PartitionId(FIRST_SOURCE), &visits.passes);
    let pest_count = pests.count();
    let mut crowd = rig.clients(&[
        "--mix",
        GOOD,
        "--rows-min",
        "20",
        "--wait-max-us",
        "500",
        "--duration",
        &args.seconds.to_string(),
        "--warm-up",
        &WARM_UP.to_string(),
    ])?;
    let (rows, begun) = (rig.rows()?, Instant::now());
    crowd.begin()?;
    let report = crowd.finish()?;
    let (taken, span) = (rig.rows()? - rows, begun.elapsed());
    let pests = pests.leave();
    ensure!(report["lost"] == 0, "good clients were lost: {}", report["lost_why"]);
    let delay = &class(&report, "all")["delay"];
    Ok(Run {
        p50: number(&delay["p50"]),
        p99: number(&delay["p99"]),
        taken_in_per_s: taken as f64 / span.as_secs_f64(),
        resident_before,
        resident: rig.node.resident_bytes()?,
        anonymous: rig.node.anonymous_bytes()?,
        store: rig.store_bytes()?,
        pests,
        pest_count,
    })
}

/// The memory that a visit leaves beyond that of its control run, in bytes.
fn left(with: &[Run], control: &[Run]) -> Estimate {
    let pairs = with.iter().zip(control);
    median_with_interval(&mut pairs.map(|(w, c)| w.left() - c.left()).collect::<Vec<_>>())
}

fn ratio(with: &[Run], control: &[Run], of: impl Fn(&Run) -> f64) -> Estimate {
    let pairs = with.iter().zip(control);
    median_with_interval(&mut pairs.map(|(w, c)| of(w) / of(c).max(1.0)).collect::<Vec<_>>())
}

/// The verdict on a goal from its interval.
fn judge(is_met: bool, is_broken: bool) -> &'static str {
    match (is_met, is_broken) {
        (true, _) => "met",
        (_, true) => "not met",
        _ => "not resolved",
    }
}

fn side(runs: &[Run]) -> Value {
    let median =
        |of: fn(&Run) -> f64| median_with_interval(&mut runs.iter().map(of).collect::<Vec<_>>());
    json!({
        "p50_ns": median(|run| run.p50).json(),
        "p99_ns": median(|run| run.p99).json(),
        "taken_in_per_s": median(|run| run.taken_in_per_s).json(),
        "pests": runs.iter().map(|run| &run.pests).collect::<Vec<_>>(),
    })
}

fn result(args: &IsolationArgs, with: &[Run], control: &[Run]) -> Value {
    let p50 = ratio(with, control, |run| run.p50);
    let p99 = ratio(with, control, |run| run.p99);
    let rate = ratio(with, control, |run| run.taken_in_per_s);
    let resident: Vec<u64> = with.iter().map(|run| run.resident).collect();
    let grown = resident.last().unwrap_or(&0).saturating_sub(resident[0]);
    json!({
        "bench": "delivery-isolation",
        "rate": args.rate,
        "orders": args.orders,
        "row_bytes": 600,
        "good": GOOD,
        "parties": with[0].pest_count,
        "pairs": args.pairs,
        "run_seconds": args.seconds,
        "ratio_p50": p50.json(),
        "ratio_p99": p99.json(),
        "ratio_taken_in": rate.json(),
        "goal_p99": judge(p99.high <= GOAL_P99, p99.low > GOAL_P99),
        "goal_taken_in": judge(rate.low >= GOAL_RATE, rate.high < GOAL_RATE),
        "resident_before_bytes":
            with.iter().map(|run| run.resident_before).collect::<Vec<_>>(),
        "resident_bytes": resident,
        "left_bytes": left(with, control).json(),
        "anonymous_bytes": with.iter().map(|run| run.anonymous).collect::<Vec<_>>(),
        "store_bytes": with.iter().map(|run| run.store).collect::<Vec<_>>(),
        "grown_bytes": grown,
        "goal_memory": judge(grown <= GOAL_BYTES, grown > GOAL_BYTES),
        "with": side(with),
        "control": side(control),
        "durability": "memory",
        "wait": "park",
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
    })
}

fn tell(pair: u32, with: &Run, control: &Run) {
    let of = |ns: f64| span(ns as u64);
    eprintln!(
        "{pair:>3}: good p50 {} against {}, p99 {} against {}; {:.0} taken in/s against {:.0}; \
         {} MiB ahead of the visit, {} behind it, {} of them in no file, {} the store's",
        of(with.p50),
        of(control.p50),
        of(with.p99),
        of(control.p99),
        with.taken_in_per_s,
        control.taken_in_per_s,
        with.resident_before >> 20,
        with.resident >> 20,
        with.anonymous >> 20,
        with.store >> 20,
    );
}
