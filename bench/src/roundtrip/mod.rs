//! `weir-bench roundtrip`: latency from order to execution report over loopback TCP, compared with
//! an echo.
//!
//! The same client, frames and sessions drive a real node and an echo, each a separate process, in
//! interleaved pairs of short runs; the results are ratios of pairs with their intervals. The echo
//! itself is checked against an independent echo (`socat`), and the `disk` level is compared with a
//! bare write-and-sync loop on the same file system. A pair in which the generator was late counts
//! as late; a cell with too many of those gives no ratio.
//!
//! With `--grid`, or one of its dimensions, it measures sessions, TLS and idle sessions instead
//! ([`grid`]).
//!
//! - [`cell`]: one load against one node: the pairs and their figures.
//! - [`children`]: the processes.
//! - [`peers`]: the independent echo and the bare sync loop.
//! - [`stats`]: medians and their intervals.

mod cell;
mod children;
mod grid;
mod idle;
mod larger_part;
mod peers;
mod stats;

use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use weir_client::clock::{WaitStrategy, sharpen_timers};
use weir_client::{echo, echo_many};
use weir_tls::{ServerFiles, ServerTls};
use weir_types::Durability;

use cell::Bench;
pub(crate) use cell::{LoadKind, NodeLoad};
pub(crate) use children::{Child, CpuTime, LISTEN, NodeSetting, WorkDir, process_time};
pub use idle::{IdleArgs, run_idle};
pub(crate) use larger_part::LargerPart;
pub(crate) use stats::{Estimate, median_with_interval};

/// Options of `weir-bench roundtrip`.
#[derive(Clone, Debug, clap::Args)]
pub struct RoundtripArgs {
    /// A few short pairs: shows that it works, proves nothing.
    #[arg(long)]
    quick: bool,
    /// Pairs of each cell; the default is 15, or 3 with --quick.
    #[arg(long)]
    pairs: Option<u32>,
    /// Seconds of each run.
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Only these durability levels.
    #[arg(long, alias = "levels", value_delimiter = ',', default_value = "memory,os,disk")]
    durability: Vec<Durability>,
    /// Only these loads: 64 is that many in flight, 50000/s an open loop.
    #[arg(long, value_delimiter = ',')]
    loads: Vec<LoadKind>,
    /// Measure by sessions, TLS and idle sessions: 15 pairs of 0.2 s at 10,000 orders/s for each.
    #[arg(long)]
    grid: bool,
    /// Numbers of sessions in the grid, each with its own connection (1,100,1000).
    #[arg(long, value_delimiter = ',')]
    sessions: Vec<u32>,
    /// The grid's choices of TLS (off,on).
    #[arg(long, value_delimiter = ',')]
    tls: Vec<grid::TlsChoice>,
    /// Numbers of additional idle sessions in the grid, each with its own connection (0,10000).
    #[arg(long, value_delimiter = ',')]
    idle: Vec<u32>,
    /// Skip the profile in which everything spins.
    #[arg(long)]
    no_spin: bool,
    /// Directory of the logs during the run; the system's temporary directory if absent.
    #[arg(long, value_name = "DIR")]
    dir: Option<std::path::PathBuf>,
}

/// Options of `weir-bench echo`.
#[derive(Clone, Debug, clap::Args)]
pub struct EchoArgs {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: std::net::SocketAddr,
    /// Wait strategy: park, yield or spin.
    #[arg(long, default_value = "park")]
    wait: WaitStrategy,
    /// Serve many connections, with the system's poller.
    #[arg(long)]
    many: bool,
    /// Speak TLS with this certificate (PEM).
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "many"])]
    tls_certificate: Option<std::path::PathBuf>,
    /// The certificate's private key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<std::path::PathBuf>,
}

/// Runs the echo until the process ends.
///
/// # Errors
/// The listener cannot be opened.
pub fn run_echo(args: EchoArgs) -> anyhow::Result<()> {
    let listener = TcpListener::bind(args.listen).context("the echo cannot listen")?;
    rustix::net::listen(&listener, 4_096)?;
    println!("weir ready order-entry={} http=none", listener.local_addr()?);
    if args.many {
        let files = args.tls_certificate.zip(args.tls_key).map(|(certificate, key)| ServerFiles {
            certificate,
            key,
            client_ca: None,
            client_required: false,
        });
        let tls = files.map(|files| ServerTls::load(&files)).transpose()?;
        echo_many::serve(&listener, tls.as_ref(), &AtomicBool::new(false))?;
        return Ok(());
    }
    echo::serve(&listener, args.wait, &AtomicBool::new(false))?;
    Ok(())
}

/// Runs the benchmark and prints its JSON object as the last line.
///
/// # Errors
/// A process that does not start, or a connection that ends.
pub fn run(args: RoundtripArgs) -> anyhow::Result<()> {
    let seconds_in_range = args.seconds.is_none_or(|seconds| seconds > 0.0 && seconds <= 60.0);
    anyhow::ensure!(seconds_in_range, "--seconds must be up to 60");
    sharpen_timers();
    if args.wants_grid() {
        return grid::run(&args);
    }
    let seconds = args.seconds.unwrap_or(1.0);
    let loads = args.loads_or("1,64,10000/s,50000/s,100000/s")?;
    let pairs = args.pairs.unwrap_or(if args.quick { 3 } else { 15 }).max(1);
    let seconds = if args.quick { seconds.min(0.3) } else { seconds };
    let work_dir = WorkDir::create(args.dir.as_deref())?;
    let load_before = load_average();
    let bench = Bench { pairs, run: Duration::from_secs_f64(seconds) };
    let echo_check = check_echo(&bench, &work_dir)?;
    let mut cells = Vec::new();
    for wait in [WaitStrategy::Park, WaitStrategy::Spin] {
        if wait == WaitStrategy::Spin && args.no_spin {
            continue;
        }
        for durability in &args.durability {
            // Spinning shows the cost of wire and code; the log's cost does not change.
            if wait == WaitStrategy::Spin && *durability != Durability::Memory {
                continue;
            }
            cells.extend(measure_node(&bench, &work_dir, *durability, wait, &loads)?);
        }
    }
    let result = json!({
        "bench": "roundtrip",
        "pairs": pairs,
        "run_seconds": seconds,
        "payload_bytes": cell::payload(),
        "kernel": read_line("/proc/sys/kernel/osrelease"),
        // Spinning needs a core each for the generator, the node's threads and the echo.
        "spin_has_cores": std::thread::available_parallelism().is_ok_and(|n| n.get() >= 4),
        "generator_niceness": LargerPart::niceness(),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "file_system": work_dir.file_system(),
        "load_average_before": load_before,
        "load_average_after": load_average(),
        "echo_against_socat": echo_check,
        "cells": cells,
    });
    println!("{result}");
    Ok(())
}

impl RoundtripArgs {
    fn wants_grid(&self) -> bool {
        self.grid || !self.sessions.is_empty() || !self.tls.is_empty() || !self.idle.is_empty()
    }

    fn loads_or(&self, default: &str) -> anyhow::Result<Vec<LoadKind>> {
        if !self.loads.is_empty() {
            return Ok(self.loads.clone());
        }
        let loads: Result<_, _> = default.split(',').map(str::parse).collect();
        loads.map_err(anyhow::Error::msg)
    }
}

/// Compares the echo with an independent one, with a client that shares no code with either.
fn check_echo(bench: &Bench, work_dir: &WorkDir) -> anyhow::Result<Value> {
    let ours = Child::echo(WaitStrategy::Park, work_dir)?;
    let Some(socat) = peers::Socat::start()? else {
        eprintln!("no socat here: our echo is not checked against another");
        return Ok(Value::Null);
    };
    let mut ratios = Vec::new();
    let (mut own, mut other) = (Vec::new(), Vec::new());
    for _ in 0..bench.pairs {
        let ours_ns = peers::ping_weir_echo(ours.address(), bench.run / 3)?;
        let socat_ns = peers::ping_bytes(socat.address(), bench.run / 3)?;
        ratios.push(ours_ns.p50 as f64 / socat_ns.p50.max(1) as f64);
        own.push(ours_ns.p50 as f64);
        other.push(socat_ns.p50 as f64);
    }
    let ratio = stats::median_with_interval(&mut ratios);
    eprintln!("echo against socat, p50: ratio {ratio}");
    Ok(json!({
        "ours_p50_ns": stats::median_with_interval(&mut own).median,
        "socat_p50_ns": stats::median_with_interval(&mut other).median,
        "ratio_p50": ratio.json(),
    }))
}

fn measure_node(
    bench: &Bench,
    work_dir: &WorkDir,
    durability: Durability,
    wait: WaitStrategy,
    loads: &[LoadKind],
) -> anyhow::Result<Vec<Value>> {
    eprintln!("\n{durability}, {wait}\n{}", cell::header());
    let echo = Child::echo(wait, work_dir)?;
    let node = Child::node(durability, wait, work_dir)?;
    let mut sides = cell::Sides::connect(&echo, &node)?;
    let mut cells = Vec::new();
    for load in loads {
        let bare_sync = (durability == Durability::Disk).then(|| work_dir.path());
        let cell = sides.measure(bench, *load, wait, bare_sync)?;
        eprintln!("{}", cell.line());
        cells.push(cell.json(durability, wait));
    }
    Ok(cells)
}

fn read_line(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The load of the machine, as the kernel's one-minute average.
pub(crate) fn load_average() -> Option<f64> {
    read_line("/proc/loadavg")?.split(' ').next()?.parse().ok()
}
