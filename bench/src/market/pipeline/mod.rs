//! `weir-bench market-pipeline`, `market-overload`, `market-capacity` and `market-probes`: the
//! pipeline of a market-data gateway alone, from the receipt of an update to the flush thread:
//! its latency, and the age of its output when flush cannot carry the feed.
//!
//! Updates are due at fixed times, regardless of the pipeline (open loop): the due time of an
//! update counts as its receipt. One thread updates the books and conflates, one flushes: mirror,
//! second stage, frames written to memory. Sockets are left out. The rate decreases with the number
//! of subscribers, to half of the rate that one thread can write.
//!
//! Overload: measures the rate that flush carries to a hundred subscribers, then sets the feed to
//! 2, 5 and 10 times that, once with an interval in which flush could send each instrument twice,
//! and once without any conflation: then the updating thread waits for flush, and the feed for it.
//! At half of that rate, with trades, it then adds hostile sessions, one kind at a time, each at
//! the good subscribers' gateway and at a second one ([`parties`]).
//!
//! Both threads spin and record the longest time between two clock readings in each millisecond. A
//! window does not count as clean if either thread was preempted in it for longer than 10 µs, or
//! was still working off the resulting backlog: figures are printed of all windows and of the clean
//! ones, with their share. A thread that never catches up has no clean windows after the first
//! stall.

mod capacity;
mod flow;
mod handoff;
mod hostile;
mod lone;
mod opra;
mod orders;
mod parties;
mod probes;
mod run;

use run::{Cell, Outcome, measure};
use serde_json::{Value, json};

/// Options of `weir-bench market-pipeline`.
#[derive(Debug, clap::Args)]
pub struct PipelineArgs {
    /// Updates a second.
    #[arg(long, default_value_t = 1_000_000)]
    rate: u64,
    /// Seconds of a run.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
}

/// Options of `weir-bench market-overload` and `market-capacity`.
#[derive(Debug, clap::Args)]
pub struct SecondsArgs {
    /// Seconds of a run.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
}

/// Runs `market-pipeline`.
pub fn run_pipeline(args: &PipelineArgs) -> anyhow::Result<()> {
    println!("{}", pipeline(args.rate, args.seconds));
    Ok(())
}

/// Runs `market-overload`.
pub fn run_overload(args: &SecondsArgs) -> anyhow::Result<()> {
    println!("{}", overload(args.seconds));
    Ok(())
}

/// Runs `market-capacity`.
pub fn run_capacity(args: &SecondsArgs) -> anyhow::Result<()> {
    println!("{}", capacity::capacity(args.seconds));
    Ok(())
}

/// Runs `market-probes`.
pub fn run_probes() -> anyhow::Result<()> {
    println!("{}", probes::probes());
    Ok(())
}

fn pipeline(rate: u64, seconds: u64) -> Value {
    let base = Cell { rate, seconds, ..Cell::default() };
    let mut cells = Vec::new();
    for handoff in ["disruptor", "crossbeam", "std"] {
        cells.push(Cell { handoff, subscribers: 1, ..base });
    }
    cells.push(Cell { is_staged: true, subscribers: 1, ..base });
    // About half of what one thread can write, so that it catches up with its backlog.
    for subscribers in [10, 100, 1_000] {
        let rate = rate.min(1_000_000 / u64::from(subscribers));
        cells.push(Cell { subscribers, rate, ..base });
    }
    // Interleaved, so that disturbances of the machine affect all cells alike.
    let rounds = 5;
    let mut outcomes: Vec<Vec<Outcome>> = vec![Vec::new(); cells.len()];
    for round in 0..rounds {
        for (cell, runs) in cells.iter().zip(&mut outcomes) {
            let outcome = measure(cell);
            eprintln!("round {round}: {cell:?}: {outcome:?}");
            runs.push(outcome);
        }
    }
    let rows = cells.iter().zip(&outcomes).map(|(cell, runs)| row(cell, runs));
    json!({
        "bench": "market-pipeline", "rate": rate, "seconds": seconds, "rounds": rounds,
        "instruments": flow::INSTRUMENTS, "cells": rows.collect::<Vec<_>>(),
    })
}

fn row(cell: &Cell, runs: &[Outcome]) -> Value {
    let median = |figure: &dyn Fn(&Outcome) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        json!({
            "median": values[values.len() / 2],
            "low": values.first(), "high": values.last(),
        })
    };
    json!({
        "handoff": cell.handoff, "staged": cell.is_staged, "subscribers": cell.subscribers,
        "conflated": cell.is_conflated, "rate": cell.rate,
        "offered_per_s": median(&|run| run.offered_per_s),
        "told_per_s": median(&|run| run.told_per_s),
        "written_per_s": median(&|run| run.written_per_s),
        "p50_ns": median(&|run| run.all[0]), "p99_ns": median(&|run| run.all[1]),
        "p999_ns": median(&|run| run.all[2]), "max_ns": median(&|run| run.all[3]),
        "clean_p50_ns": median(&|run| run.clean[0]), "clean_p99_ns": median(&|run| run.clean[1]),
        "clean_p999_ns": median(&|run| run.clean[2]),
        "clean_share": median(&|run| run.clean_share),
        "age_p50_ns": median(&|run| run.age[0]), "age_p99_ns": median(&|run| run.age[1]),
        "age_p999_ns": median(&|run| run.age[2]),
        "age_max_ns": median(&|run| run.age[3]),
        "age_last_ns": median(&|run| run.age_last),
        "throttled_share": median(&|run| run.throttled_share),
        "queued_at_end": median(&|run| run.queued_at_end),
        "resident_mib": median(&|run| run.resident_mib),
    })
}

/// First measures what flush carries: every message to every subscriber, as fast as possible.
fn overload(seconds: u64) -> Value {
    let subscribers = 100;
    let base = Cell { subscribers, seconds, ..Cell::default() };
    let all = Cell { rate: 2_000_000, is_conflated: false, ..base };
    let capacity = measure(&all).heard_per_s;
    eprintln!("flush carries {capacity:.0} changes a second to {subscribers} subscribers");
    // A throttle that flush can carry: within an interval it can send each instrument twice.
    let interval_us = (2e6 * f64::from(flow::INSTRUMENTS) / capacity) as u64;
    let mut rows = Vec::new();
    for times in [2, 5, 10] {
        for is_conflated in [true, false] {
            let rate = (capacity * f64::from(times)) as u64;
            let cell = Cell { rate, is_conflated, interval_us, ..base };
            let runs: Vec<_> = (0..3).map(|_| measure(&cell)).collect();
            eprintln!("{cell:?}: {runs:?}");
            let mut line = row(&cell, &runs);
            line["times_capacity"] = json!(times);
            rows.push(line);
        }
    }
    let half = Cell { rate: (capacity / 2.0) as u64, interval_us, ..base };
    json!({
        "bench": "market-overload", "seconds": seconds, "subscribers": subscribers,
        "instruments": flow::INSTRUMENTS, "interval_us": interval_us, "capacity_per_s": capacity,
        "cells": rows, "hostile": parties::hostile(&half),
    })
}
