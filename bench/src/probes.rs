//! `weir-bench probes`: the cost of stamping. Measures the cost of a probe point in a loop, and the
//! processor time per order of a node with probes and one without, alternately under the same load.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use weir_client::clock::WaitStrategy;
use weir_types::Durability;

use crate::roundtrip::{Child, LargerPart, NodeLoad, WorkDir, median_with_interval};

/// The node's thread that only drains the probe rings.
const DRAIN_THREAD: &str = "keeper";

/// Options of `weir-bench probes`.
#[derive(Debug, clap::Args)]
pub struct ProbesArgs {
    /// Pairs of runs.
    #[arg(long, default_value_t = 15)]
    pairs: u32,
    /// Seconds of each run.
    #[arg(long, default_value_t = 1.5)]
    seconds: f64,
    /// Orders a second.
    #[arg(long, default_value_t = 20_000)]
    rate: u32,
    /// Batches of 1,000 points in the loop.
    #[arg(long, default_value_t = 4000)]
    batches: usize,
}

/// The processor time per order and the median latency of a run.
struct Spent {
    cpu_ns_per_order: f64,
    /// The part of the thread that drains the rings.
    drain_ns_per_order: f64,
    p50_ns: f64,
}

/// Runs the benchmark and prints its JSON object as the last line.
///
/// # Errors
/// A process that does not start, or a connection that ends.
pub fn run(args: ProbesArgs) -> anyhow::Result<()> {
    anyhow::ensure!(args.pairs > 0 && args.batches > 0, "nothing to measure");
    let cost = weir_probe::cost::measure(args.batches, Path::new("/dev/shm"))?;
    let cost: Value = serde_json::from_str(&cost.to_json())?;
    let work_dir = WorkDir::create(None)?;
    let start = |name: &str, options: &[&str]| {
        Child::node_with(name, Durability::Memory, WaitStrategy::Park, options, &work_dir)
    };
    let with = start("with-probes", &[])?;
    let mut load_with = NodeLoad::connect(&with)?;
    let without = start("without-probes", &["--no-probes"])?;
    let mut load_without = NodeLoad::connect(&without)?;
    let (mut ratios, mut added) = (Vec::new(), Vec::new());
    let (mut cpu_with, mut cpu_without, mut latency) = (Vec::new(), Vec::new(), Vec::new());
    let mut drain = Vec::new();
    for pair in 0..args.pairs {
        let first_is_with = pair % 2 == 0;
        let (a, b) = if first_is_with {
            let a = spend(&with, &mut load_with, &args, pair)?;
            (a, spend(&without, &mut load_without, &args, pair)?)
        } else {
            let b = spend(&without, &mut load_without, &args, pair)?;
            (spend(&with, &mut load_with, &args, pair)?, b)
        };
        ratios.push(a.cpu_ns_per_order / b.cpu_ns_per_order);
        added.push(a.cpu_ns_per_order - b.cpu_ns_per_order);
        latency.push(a.p50_ns / b.p50_ns);
        cpu_with.push(a.cpu_ns_per_order);
        drain.push(a.drain_ns_per_order);
        cpu_without.push(b.cpu_ns_per_order);
    }
    let result = json!({
        "bench": "probes",
        "cost": cost,
        "pairs": args.pairs,
        "run_seconds": args.seconds,
        "rate": args.rate,
        "durability": "memory",
        "wait": "park",
        "generator_niceness": LargerPart::niceness(),
        "cpu_ns_per_order_with": median_with_interval(&mut cpu_with).json(),
        "cpu_ns_per_order_without": median_with_interval(&mut cpu_without).json(),
        "cpu_ns_per_order_added": median_with_interval(&mut added).json(),
        "drain_thread_cpu_ns_per_order": median_with_interval(&mut drain).json(),
        "cpu_ratio": median_with_interval(&mut ratios).json(),
        "p50_ratio": median_with_interval(&mut latency).json(),
    });
    println!("{result}");
    Ok(())
}

/// Runs the load against one node while the other is paused.
fn spend(
    node: &Child,
    load: &mut NodeLoad<'_>,
    args: &ProbesArgs,
    pair: u32,
) -> anyhow::Result<Spent> {
    let before = node.cpu_time(DRAIN_THREAD)?;
    let run = Duration::from_secs_f64(args.seconds);
    let report = load.run(run, args.rate, u64::from(pair) + 1)?;
    let after = node.cpu_time(DRAIN_THREAD)?;
    anyhow::ensure!(report.counts.answered > 0, "no order was answered");
    let per_order = |after: Duration, before: Duration| {
        after.saturating_sub(before).as_nanos() as f64 / report.counts.answered as f64
    };
    Ok(Spent {
        cpu_ns_per_order: per_order(after.all, before.all),
        drain_ns_per_order: per_order(after.named, before.named),
        p50_ns: report.latency.p50 as f64,
    })
}
