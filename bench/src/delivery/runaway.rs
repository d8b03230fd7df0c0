//! `weir-bench delivery-runaway`: adds readers until they outrun the store, then removes them
//! again.
//!
//! A store that serves queries first and ingests changes in the remaining time falls ever further
//! behind, because it wakes readers for ever fewer rows. Here the core keeps its rate throughout;
//! each phase is a crowd of readers of everything. The benchmark checks whether the store ingests
//! as much as before, the number of rows per page, and whether the last phase has the delay of the
//! first.

use std::time::Instant;

use serde_json::{Value, json};
use weir_cli::endpoint::span;

use super::rig::{Emulator, Rig, class, number, shares};

/// The tolerated loss of ingest rate with too many readers.
const GOAL_SHARE: f64 = 0.10;
const WARM_UP: f64 = 1.0;
/// The time between phases, in seconds: to log on, to receive all orders, to leave.
const BETWEEN: f64 = 12.0;

/// Options of `weir-bench delivery-runaway`.
#[derive(Clone, Debug, clap::Args)]
pub struct RunawayArgs {
    /// Changes per second.
    #[arg(long, default_value_t = 50_000)]
    rate: u32,
    /// Readers of everything in each phase; the last as many as the first.
    #[arg(long, value_delimiter = ',', default_value = "2,4,8,16,32,64,2")]
    readers: Vec<u16>,
    /// Seconds of each phase.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Live orders.
    #[arg(long, default_value_t = 20_000)]
    orders: u32,
}

/// Runs the benchmark and prints its JSON object as the last line.
///
/// # Errors
/// A process that does not start or ends early.
pub fn run(args: RunawayArgs) -> anyhow::Result<()> {
    let in_range = args.seconds >= 1.0 && args.seconds <= 600.0 && args.rate > 0;
    anyhow::ensure!(in_range, "--seconds from 1 to 600, --rate at least 1");
    let ends = (args.readers.first(), args.readers.last());
    anyhow::ensure!(args.readers.len() > 2 && ends.0 == ends.1, "--readers ends as it begins");
    let rig = Rig::start(1, 1_000)?;
    let mut core = start_core(&rig, &args)?;
    core.begin()?;
    let mut phases = Vec::new();
    for count in &args.readers {
        let phase = phase(&rig, &args, *count)?;
        tell(&phase);
        phases.push(phase);
    }
    drop(core);
    let rates = phases.iter().map(|phase| number(&phase["taken_in_per_s"]));
    let slowest = rates.fold(f64::MAX, f64::min);
    let first = number(&phases[0]["taken_in_per_s"]);
    let last = phases.len() - 1;
    let delay = |index: usize| number(&phases[index]["delay"]["p50"]);
    let rows = phases.iter().map(|phase| number(&phase["page_rows"]["mean"]));
    let result = json!({
        "bench": "delivery-runaway",
        "rate": args.rate,
        "orders": args.orders,
        "row_bytes": 600,
        "phase_seconds": args.seconds,
        "slowest_over_first": slowest / first,
        "goal_ingest": if slowest / first >= 1.0 - GOAL_SHARE { "met" } else { "not met" },
        "fewest_rows_a_page": rows.fold(f64::MAX, f64::min),
        "p50_last_over_first": delay(last) / delay(0).max(1.0),
        "durability": "memory",
        "wait": "park",
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "phases": phases,
    });
    println!("{result}");
    Ok(())
}

fn start_core(rig: &Rig, args: &RunawayArgs) -> anyhow::Result<Emulator> {
    let phases = args.readers.len() as f64;
    let whole = (args.seconds + WARM_UP + BETWEEN) * phases;
    rig.core(&[
        "--rate",
        &args.rate.to_string(),
        "--orders",
        &args.orders.to_string(),
        "--duration",
        &whole.to_string(),
    ])
}

fn phase(rig: &Rig, args: &RunawayArgs, count: u16) -> anyhow::Result<Value> {
    let mut crowd = rig.clients(&[
        "--mix",
        &format!("all:{count}"),
        "--rows-min",
        "20",
        "--wait-max-us",
        "500",
        "--duration",
        &args.seconds.to_string(),
        "--warm-up",
        &WARM_UP.to_string(),
    ])?;
    let (rows, threads, begun) = (rig.rows()?, rig.node.thread_times()?, Instant::now());
    crowd.begin()?;
    let report = crowd.finish()?;
    let (taken, span) = (rig.rows()? - rows, begun.elapsed());
    let threads = rig.threads_since(&threads)?;
    let all = class(&report, "all");
    Ok(json!({
        "readers": count,
        "taken_in_per_s": taken as f64 / span.as_secs_f64(),
        "delay": all["delay"],
        "page_rows": all["page_rows"],
        "rows_per_s": number(&all["rows"]) / args.seconds,
        "merged": all["merged"],
        "lost": report["lost"],
        "lost_why": report["lost_why"],
        "threads": shares(&threads, span),
    }))
}

fn tell(phase: &Value) {
    let of = |name: &str| span(number(&phase["delay"][name]) as u64);
    eprintln!(
        "{:>4} readers: {:>7.0} taken in/s, {:>9.0} rows/s out, {:>5.0} rows a page, delay p50 \
         {:>9} p99 {:>9}, delivery {:.0} % of a core",
        number(&phase["readers"]),
        number(&phase["taken_in_per_s"]),
        number(&phase["rows_per_s"]),
        number(&phase["page_rows"]["mean"]),
        of("p50"),
        of("p99"),
        number(&phase["threads"]["delivery"]) * 100.0,
    );
}
