//! `weir-bench roundtrip --grid`: the round trip by number of sessions, with and without TLS, with
//! and without idle sessions.
//!
//! Each session has its own connection. The peer is the echo for many connections; with TLS, the
//! same echo over rustls. Idle sessions connect to the node only: they could not disturb the echo.
//! The memory of each is the growth of the node's resident memory while they connected and logged
//! on.

use std::str::FromStr;
use std::time::Duration;

use serde_json::{Value, json};
use weir_client::clock::WaitStrategy;
use weir_types::Durability;

use super::cell::{self, Bench, Crowd, LoadKind, Sides};
use super::children::{Certificates, Child, WorkDir};
use super::idle::IdleSessions;
use super::{RoundtripArgs, load_average, read_line};

const SESSIONS: [u32; 3] = [1, 100, 1_000];
const IDLE: [u32; 2] = [0, 10_000];
/// The first identifiers of the crowds' sessions and of idle sessions.
const FIRST_ID: u32 = 900_000;
const FIRST_IDLE_ID: u32 = 2_000_000;

/// The choice of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsChoice {
    /// Without TLS.
    Off,
    /// With TLS.
    On,
}

impl FromStr for TlsChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<TlsChoice, String> {
        match text {
            "off" => Ok(TlsChoice::Off),
            "on" => Ok(TlsChoice::On),
            other => Err(format!("{other:?} is neither off nor on")),
        }
    }
}

struct Plan {
    bench: Bench,
    sessions: Vec<u32>,
    idle: Vec<u32>,
    loads: Vec<LoadKind>,
}

/// Runs the grid and prints its JSON object as the last line.
pub(super) fn run(args: &RoundtripArgs) -> anyhow::Result<()> {
    let or = |given: &[u32], default: &[u32]| {
        let mut values = if given.is_empty() { default.to_vec() } else { given.to_vec() };
        values.sort_unstable();
        values
    };
    let seconds = args.seconds.unwrap_or(0.2);
    let plan = Plan {
        bench: Bench {
            pairs: args.pairs.unwrap_or(if args.quick { 3 } else { 15 }).max(1),
            run: Duration::from_secs_f64(if args.quick { seconds.min(0.1) } else { seconds }),
        },
        sessions: or(&args.sessions, &SESSIONS),
        idle: or(&args.idle, &IDLE),
        loads: args.loads_or("10000/s")?,
    };
    anyhow::ensure!(plan.sessions.iter().all(|n| (1..=4_000).contains(n)), "--sessions: 1 to 4000");
    anyhow::ensure!(plan.idle.iter().all(|n| *n <= 12_000), "--idle: up to 12000");
    let choices = [TlsChoice::Off, TlsChoice::On];
    let tls = if args.tls.is_empty() { choices.to_vec() } else { args.tls.clone() };
    let work_dir = WorkDir::create(args.dir.as_deref())?;
    let load_before = load_average();
    let certificates = Certificates::make(&work_dir)?;
    let mut cells = Vec::new();
    for durability in &args.durability {
        for choice in &tls {
            let certificates = (*choice == TlsChoice::On).then_some(&certificates);
            cells.extend(measure_node(&plan, &work_dir, *durability, certificates)?);
        }
    }
    let result = json!({
        "bench": "sessions",
        "pairs": plan.bench.pairs,
        "run_seconds": plan.bench.run.as_secs_f64(),
        "payload_bytes": cell::payload(),
        "kernel": read_line("/proc/sys/kernel/osrelease"),
        "generator_niceness": super::LargerPart::niceness(),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "file_system": work_dir.file_system(),
        "load_average_before": load_before,
        "load_average_after": load_average(),
        "cells": cells,
    });
    println!("{result}");
    Ok(())
}

fn measure_node(
    plan: &Plan,
    work_dir: &WorkDir,
    durability: Durability,
    certificates: Option<&Certificates>,
) -> anyhow::Result<Vec<Value>> {
    let tls = if certificates.is_some() { "TLS" } else { "TCP" };
    eprintln!("\n{durability}, {tls}\n{:<14}{}", "sessions+idle", cell::header());
    let echo = Child::echo_for_many(certificates, work_dir)?;
    let node = Child::node_for_many(durability, certificates, work_dir)?;
    let mut first_id = FIRST_ID;
    let bare_sync = (durability == Durability::Disk).then(|| work_dir.path());
    let (mut cells, mut held, mut idle_count) = (Vec::new(), Vec::new(), 0);
    for idle in &plan.idle {
        if *idle > idle_count {
            let (first_id, more) = (FIRST_IDLE_ID + idle_count, idle - idle_count);
            held.push(IdleSessions::start(&node, certificates, first_id, more)?);
            idle_count = *idle;
        }
        let bytes_each = held.last().map(|idle: &IdleSessions| idle.bytes_each);
        if let Some(bytes) = bytes_each {
            eprintln!("{idle_count} idle sessions: {bytes:.0} bytes of the node's memory each");
        }
        for count in &plan.sessions {
            let crowd = Crowd { count: *count, connections: *count as usize, first_id };
            first_id += 10_000;
            let mut sides = Sides::connect_many(&echo, &node, &crowd)?;
            for load in &plan.loads {
                let measured = sides.measure(&plan.bench, *load, WaitStrategy::Park, bare_sync)?;
                eprintln!("{:<14}{}", format!("{count}+{idle_count}"), measured.line());
                let mut cell = measured.json(durability, WaitStrategy::Park);
                cell["sessions"] = json!(count);
                cell["tls"] = json!(certificates.is_some());
                cell["peer"] =
                    json!(if certificates.is_some() { "echo over rustls" } else { "echo" });
                cell["idle_sessions"] = json!(idle_count);
                cell["bytes_per_idle_session"] = json!(bytes_each);
                cells.push(cell);
            }
        }
    }
    Ok(cells)
}
