//! `weir bench`: the benchmarks that need the whole program; `./x bench` runs and records them.
//!
//! Each prints one JSON object as its last line.

use crate::{bench_isolation, bench_probes, bench_roundtrip, bench_router};

/// Options of `weir bench`.
#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, clap::Subcommand)]
enum BenchCommand {
    /// Order to execution report over loopback TCP, beside an echo.
    Roundtrip(bench_roundtrip::RoundtripArgs),
    /// What stamping every order costs: a node with probes beside one without.
    Probes(bench_probes::ProbesArgs),
    /// What good sessions notice of one that does not read, one that floods, 1,000 hostile ones.
    Isolation(bench_isolation::IsolationArgs),
    /// What a router over TCP adds to a change's way to its reader, and its rows a second.
    Router(bench_router::RouterArgs),
    /// Those that the good sessions of `isolation` are not to notice.
    #[command(hide = true)]
    Party(bench_isolation::PartyArgs),
    /// Sessions that log on and do nothing, beside those that the round trip measures.
    #[command(hide = true)]
    Idle(bench_roundtrip::IdleArgs),
    /// The echo that the round trip stands beside.
    #[command(hide = true)]
    Echo(bench_roundtrip::EchoArgs),
}

/// Runs `weir bench`.
///
/// # Errors
/// Those of the benchmark.
pub fn run(args: BenchArgs) -> anyhow::Result<()> {
    match args.command {
        BenchCommand::Roundtrip(args) => bench_roundtrip::run(args),
        BenchCommand::Probes(args) => bench_probes::run(args),
        BenchCommand::Isolation(args) => bench_isolation::run(args),
        BenchCommand::Router(args) => bench_router::run(args),
        BenchCommand::Party(args) => bench_isolation::run_party(args),
        BenchCommand::Idle(args) => bench_roundtrip::run_idle(args),
        BenchCommand::Echo(args) => bench_roundtrip::run_echo(args),
    }
}
