//! `weir-bench delivery-e2e`: the delay from a change's creation in a core to its row in a client.
//!
//! The first part measures crowds of 1, 10 and 100 clients: of 100, one reads everything, nine read
//! 1 % each, ninety 0.1 %. The second part, with 100 clients, measures the effect of a page that
//! waits for more rows (`rows_min`, up to `wait_max_us`) on delay, page size, packets and processor
//! time.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_cli::endpoint::span;

use super::rig::{Rig, ThreadTimes, class, number, shares};
use crate::roundtrip::median_with_interval;

/// The limits of the delays, in nanoseconds: mean and p99.
const GOAL: (f64, f64) = (1e6, 5e6);
/// The numbers of clients and their mix.
const CROWDS: [(&str, &str); 3] =
    [("1", "all:1"), ("10", "all:1,firm:9"), ("100", "all:1,firm:9,account:90")];
/// The sweep: rows for which a page waits, and the limits of its waiting in microseconds.
const SWEEP_ROWS: [u32; 4] = [1, 20, 50, 100];
const SWEEP_WAIT: [u32; 4] = [250, 500, 1_000, 2_000];
/// The warm-up of core and clients, in seconds.
const WARM_UP: f64 = 1.0;

/// Options of `weir-bench delivery-e2e`.
#[derive(Clone, Debug, clap::Args)]
pub struct E2eArgs {
    /// Changes per second.
    #[arg(long, default_value_t = 200_000)]
    rate: u32,
    /// Runs of each crowd.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seconds of each run.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Live orders.
    #[arg(long, default_value_t = 200_000)]
    orders: u32,
    /// Time for which a page waits for its rows in the first part, in microseconds.
    #[arg(long, value_name = "US", default_value_t = 500)]
    wait_max_us: u32,
    /// Rows for which a page waits in the first part.
    #[arg(long, default_value_t = 20)]
    rows_min: u32,
    /// Skip the sweep.
    #[arg(long)]
    no_sweep: bool,
}

/// The parameters of a run.
#[derive(Clone, Copy)]
struct Setting<'a> {
    args: &'a E2eArgs,
    mix: &'a str,
    rows_min: u32,
    wait_max_us: u32,
    seed: u32,
}

/// The figures of a run.
struct Run {
    core: Value,
    crowd: Value,
    threads: ThreadTimes,
    span: Duration,
    /// TCP segments sent by the machine during the run, all over loopback.
    segments: u64,
}

/// Runs the benchmark and prints its JSON object as the last line.
///
/// # Errors
/// A process that does not start or ends early.
pub fn run(args: E2eArgs) -> anyhow::Result<()> {
    let in_range = args.seconds >= 1.0 && args.seconds <= 600.0 && args.rounds > 0 && args.rate > 0;
    anyhow::ensure!(in_range, "--seconds from 1 to 600, --rounds and --rate at least 1");
    let rig = Rig::start(1, 1_000)?;
    let mut crowds = Vec::new();
    for (count, mix) in CROWDS {
        eprintln!("\n{count} clients at {} changes/s", args.rate);
        let (rows_min, wait_max_us) = (args.rows_min, args.wait_max_us);
        let runs: anyhow::Result<Vec<_>> = (1..=args.rounds)
            .map(|seed| {
                let run = Setting { args: &args, mix, rows_min, wait_max_us, seed }.run(&rig)?;
                tell(&run);
                Ok(run)
            })
            .collect();
        crowds.push(crowd_json(count, mix, &runs?));
    }
    let mut sweep = Vec::new();
    if !args.no_sweep {
        eprintln!("\nrows that a page waits for, and for how long, with 100 clients");
        for rows_min in SWEEP_ROWS {
            for wait_max_us in SWEEP_WAIT {
                let (mix, seed) = (CROWDS[2].1, 1);
                let run = Setting { args: &args, mix, rows_min, wait_max_us, seed }.run(&rig)?;
                eprint!("  {rows_min:>3} rows, {wait_max_us:>4} us:");
                tell(&run);
                sweep.push(sweep_json(rows_min, wait_max_us, &run));
            }
        }
    }
    let result = json!({
        "bench": "delivery-e2e",
        "rate": args.rate,
        "orders": args.orders,
        "row_bytes": 600,
        "rounds": args.rounds,
        "run_seconds": args.seconds,
        "rows_min": args.rows_min,
        "wait_max_us": args.wait_max_us,
        "goal_mean_ns": GOAL.0,
        "goal_p99_ns": GOAL.1,
        "durability": "memory",
        "wait": "park",
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "crowds": crowds,
        "sweep": sweep,
    });
    println!("{result}");
    Ok(())
}

impl Setting<'_> {
    fn run(&self, rig: &Rig) -> anyhow::Result<Run> {
        let args = self.args;
        let text = |value: f64| value.to_string();
        let (rate, orders) = (args.rate.to_string(), args.orders.to_string());
        // The core runs a little longer than the clients.
        let (core_time, crowd_time) = (text(args.seconds + 0.5), text(args.seconds));
        let warm_up = text(WARM_UP);
        let seed = self.seed.to_string();
        let mut core = rig.core(&[
            "--rate",
            &rate,
            "--orders",
            &orders,
            "--duration",
            &core_time,
            "--warm-up",
            &warm_up,
            "--seed",
            &seed,
        ])?;
        let (rows_min, wait) = (self.rows_min.to_string(), self.wait_max_us.to_string());
        let mut crowd = rig.clients(&[
            "--mix",
            self.mix,
            "--rows-min",
            &rows_min,
            "--wait-max-us",
            &wait,
            "--duration",
            &crowd_time,
            "--warm-up",
            &warm_up,
        ])?;
        let (threads, segments) = (rig.node.thread_times()?, segments_sent()?);
        let begun = Instant::now();
        core.begin()?;
        crowd.begin()?;
        let crowd = crowd.finish()?;
        let span = begun.elapsed();
        let threads = rig.threads_since(&threads)?;
        let segments = segments_sent()? - segments;
        Ok(Run { core: core.finish()?, crowd, threads, span, segments })
    }
}

impl Run {
    /// Returns true if the core kept its schedule and no client was lost.
    fn is_valid(&self) -> bool {
        self.core["verdict"] == "valid" && self.crowd["lost"] == 0
    }

    fn delay(&self, name: &str, quantile: &str) -> f64 {
        number(&class(&self.crowd, name)["delay"][quantile])
    }
}

fn tell(run: &Run) {
    let all = class(&run.crowd, "all");
    let of = |name: &str| span(number(&all["delay"][name]) as u64);
    let verdict = if run.is_valid() { "" } else { "  NO VERDICT" };
    eprintln!(
        "  mean {:>9} p50 {:>9} p99 {:>9}  {:.0} rows a page, {} merged, core late {:.2} %, \
         delivery {:.0} % of a core{verdict}",
        of("mean"),
        of("p50"),
        of("p99"),
        number(&all["page_rows"]["mean"]),
        all["merged"],
        number(&run.core["late_share"]) * 100.0,
        number(&shares(&run.threads, run.span)["delivery"]) * 100.0,
    );
}

fn crowd_json(count: &str, mix: &str, runs: &[Run]) -> Value {
    let valid: Vec<&Run> = runs.iter().filter(|run| run.is_valid()).collect();
    let estimate = |class: &str, quantile: &str| {
        let mut samples: Vec<f64> = valid.iter().map(|run| run.delay(class, quantile)).collect();
        let enough = samples.len() * 2 > runs.len() && samples.iter().any(|sample| *sample > 0.0);
        enough.then(|| median_with_interval(&mut samples))
    };
    let mut delays = serde_json::Map::new();
    for name in ["all", "firm", "account"] {
        for quantile in ["mean", "p50", "p99", "p99_9"] {
            if let Some(found) = estimate(name, quantile) {
                delays.insert(format!("{name}_{quantile}_ns"), found.json());
            }
        }
    }
    let is_met = estimate("all", "mean").zip(estimate("all", "p99"));
    let goal = is_met.map_or("no verdict", |(mean, p99)| {
        if mean.high < GOAL.0 && p99.high < GOAL.1 {
            "met"
        } else if mean.low >= GOAL.0 || p99.low >= GOAL.1 {
            "not met"
        } else {
            "not resolved"
        }
    });
    eprintln!("  {} of {} runs in time; goal: {goal}", valid.len(), runs.len());
    json!({
        "clients": count.parse::<u32>().unwrap_or(0),
        "mix": mix,
        "valid_runs": valid.len(),
        "goal": goal,
        "delays": delays,
        "runs": runs.iter().map(run_json).collect::<Vec<_>>(),
    })
}

fn run_json(run: &Run) -> Value {
    json!({
        "is_valid": run.is_valid(),
        "core": run.core,
        "crowd": run.crowd,
        "threads": shares(&run.threads, run.span),
        "segments_per_s": run.segments as f64 / run.span.as_secs_f64(),
    })
}

fn sweep_json(rows_min: u32, wait_max_us: u32, run: &Run) -> Value {
    let all = class(&run.crowd, "all");
    json!({
        "rows_min": rows_min,
        "wait_max_us": wait_max_us,
        "is_valid": run.is_valid(),
        "mean_ns": all["delay"]["mean"],
        "p99_ns": all["delay"]["p99"],
        "page_rows_mean": all["page_rows"]["mean"],
        "page_rows_p50": all["page_rows"]["p50"],
        "pages": all["pages"],
        "account_mean_ns": class(&run.crowd, "account")["delay"]["mean"],
        "segments_per_s": run.segments as f64 / run.span.as_secs_f64(),
        "threads": shares(&run.threads, run.span),
    })
}

/// The number of TCP segments that this machine has sent (`OutSegs` of RFC 1213, from the kernel).
fn segments_sent() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/proc/net/snmp")?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let (names, values) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
    let found = names.split_whitespace().zip(values.split_whitespace());
    let value = found.into_iter().find(|(name, _)| *name == "OutSegs").map(|(_, value)| value);
    Ok(value.unwrap_or("0").parse()?)
}
