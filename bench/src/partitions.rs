//! `weir-bench partitions`: the processor time of an order by the numbers of partitions and of
//! gateway processes before them.
//!
//! Each cell is a node with so many partitions and so many gateway processes, under the same load
//! in all: orders at a fixed rate, each gateway's clients with their share of it, over instruments
//! of all partitions. The cells of a round follow each other, each with processes of its own; the
//! figures are the processor time for an order of the gateways together and of the node, so that
//! the price of one more of either is known on a machine with few cores. Without gateway processes
//! the node is fused.

use std::time::Duration;

use serde_json::{Value, json};
use weir_client::clock::sharpen_timers;
use weir_client::load::LoadReport;
use weir_types::{Durability, SessionId};

use crate::link::{GatewayPlan, LinkedNode};
use crate::roundtrip::{Child, LoadKind, NodeLoad, WorkDir, load_average, median_with_interval};

/// The first identifiers of the gateways' loads, this far apart.
const FIRST_ID: u32 = 900_000;
const IDS_APART: u32 = 1_000;

/// Options of `weir-bench partitions`.
#[derive(Clone, Debug, clap::Args)]
pub struct PartitionsArgs {
    /// One short round: shows that it works, proves nothing.
    #[arg(long)]
    quick: bool,
    /// Rounds of each cell; the default is 5, or 1 with --quick.
    #[arg(long)]
    rounds: Option<u32>,
    /// Seconds of each run.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    seconds: f64,
    /// Orders per second in all.
    #[arg(long, default_value_t = 10_000)]
    rate: u32,
    /// Numbers of partitions.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8")]
    partitions: Vec<u16>,
    /// Numbers of gateway processes; 0 for the fused node.
    #[arg(long, value_delimiter = ',', default_value = "0,1,2,3")]
    gateways: Vec<u32>,
    /// Directory of the logs during the run; the system's temporary directory if absent.
    #[arg(long, value_name = "DIR")]
    dir: Option<std::path::PathBuf>,
}

/// The figures of a run of a cell.
struct Run {
    orders: u64,
    gateways_ns: f64,
    node_ns: f64,
    p50: f64,
    p99: f64,
    per_second: f64,
}

/// Runs the benchmark and prints its JSON object as the last line.
///
/// # Errors
/// A process that does not start, or a connection that ends.
pub fn run(args: &PartitionsArgs) -> anyhow::Result<()> {
    anyhow::ensure!(args.seconds > 0.0 && args.seconds <= 60.0, "--seconds must be up to 60");
    let is_bounded = args.partitions.iter().all(|count| (1..=63).contains(count))
        && args.gateways.iter().all(|count| *count <= 16);
    anyhow::ensure!(is_bounded, "up to 63 partitions, one at least, and up to 16 gateways");
    sharpen_timers();
    let rounds = args.rounds.unwrap_or(if args.quick { 1 } else { 5 }).max(1);
    let seconds = if args.quick { args.seconds.min(0.3) } else { args.seconds };
    let load_before = load_average();
    let grid: Vec<_> = args
        .partitions
        .iter()
        .flat_map(|partitions| args.gateways.iter().map(move |gateways| (*partitions, *gateways)))
        .collect();
    let mut cells: Vec<Vec<Run>> = grid.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for (&(partitions, gateways), runs) in grid.iter().zip(&mut cells) {
            let plan =
                CellPlan { partitions, gateways, rate: args.rate, seed: u64::from(round) + 1 };
            let work_dir = WorkDir::create(args.dir.as_deref())?;
            runs.push(plan.run(Duration::from_secs_f64(seconds), &work_dir)?);
        }
    }
    eprintln!(
        "{:>10} {:>9} {:>14} {:>10} {:>10}",
        "partitions", "gateways", "gateways µs", "node µs", "p50 µs"
    );
    let mut figures = Vec::new();
    for ((partitions, gateways), runs) in grid.iter().zip(&cells) {
        let of = |pick: fn(&Run) -> f64| {
            median_with_interval(&mut runs.iter().map(pick).collect::<Vec<_>>())
        };
        let (of_gateways, of_node) = (of(|run| run.gateways_ns), of(|run| run.node_ns));
        eprintln!(
            "{partitions:>10} {gateways:>9} {:>14.1} {:>10.1} {:>10.1}",
            of_gateways.median / 1e3,
            of_node.median / 1e3,
            of(|run| run.p50).median / 1e3
        );
        figures.push(json!({
            "partitions": partitions,
            "gateways": gateways,
            "gateways_ns": of_gateways.json(),
            "node_ns": of_node.json(),
            "orders_per_processor_second": 1e9 / (of_gateways.median + of_node.median),
            "p50_ns": of(|run| run.p50).median,
            "p99_ns": of(|run| run.p99).median,
            "per_second": of(|run| run.per_second).median,
            "orders": runs.iter().map(|run| run.orders).sum::<u64>(),
        }));
    }
    let result = json!({
        "bench": "partitions",
        "rounds": rounds,
        "run_seconds": seconds,
        "rate": args.rate,
        "durability": Durability::Memory.to_string(),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "load_average_before": load_before,
        "load_average_after": load_average(),
        "cells": Value::Array(figures),
    });
    println!("{result}");
    Ok(())
}

/// A run of a cell.
struct CellPlan {
    partitions: u16,
    gateways: u32,
    rate: u32,
    seed: u64,
}

impl CellPlan {
    fn run(&self, length: Duration, work_dir: &WorkDir) -> anyhow::Result<Run> {
        let node = LinkedNode::start(self.partitions, Durability::Memory, work_dir)?;
        let gateways: anyhow::Result<Vec<Child>> = (0..self.gateways)
            .map(|index| {
                let name = format!("gateway-{index}");
                node.gateway(
                    &GatewayPlan { name: &name, session: SessionId(501 + index) },
                    work_dir,
                )
            })
            .collect();
        let gateways = gateways?;
        let fused = self.gateways == 0;
        let doors: Vec<_> = match fused {
            true => vec![node.child.target()],
            false => gateways.iter().map(Child::target).collect(),
        };
        let rate = self.rate / doors.len() as u32;
        let mut loads = Vec::new();
        for (index, door) in (0..).zip(doors) {
            let first_id = FIRST_ID + IDS_APART * index;
            loads.push(NodeLoad::connect_as(&node.child, door, first_id)?);
        }
        let before = self.times(&node.child, &gateways)?;
        let reports: anyhow::Result<Vec<LoadReport>> = std::thread::scope(|scope| {
            let runs: Vec<_> = loads
                .iter_mut()
                .map(|load| scope.spawn(|| load.run_as(length, LoadKind::Open(rate), self.seed)))
                .collect();
            runs.into_iter().map(|run| run.join().expect("a load does not panic")).collect()
        });
        let (reports, after) = (reports?, self.times(&node.child, &gateways)?);
        let orders: u64 = reports.iter().map(|report| report.latency.count).sum();
        let ns = |before: Duration, after: Duration| {
            (after - before).as_nanos() as f64 / orders.max(1) as f64
        };
        let mean = |pick: fn(&LoadReport) -> f64| {
            reports.iter().map(pick).sum::<f64>() / reports.len() as f64
        };
        Ok(Run {
            orders,
            gateways_ns: ns(before.0, after.0),
            node_ns: ns(before.1, after.1),
            p50: mean(|report| report.latency.p50 as f64),
            p99: mean(|report| report.latency.p99.unwrap_or(0) as f64),
            per_second: reports.iter().map(|report| report.rate_measured).sum(),
        })
    }

    /// Returns the processor times of all gateways and of the node so far.
    fn times(&self, node: &Child, gateways: &[Child]) -> anyhow::Result<(Duration, Duration)> {
        let of_gateways: anyhow::Result<Duration> =
            gateways.iter().map(Child::processor_time).sum();
        Ok((of_gateways?, node.processor_time()?))
    }
}
