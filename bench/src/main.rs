//! `weir-bench`: the benchmarks that need the whole program; `./x bench` runs and records them.
//!
//! Each prints one JSON object as its last line. Benchmarks of a single part are separate programs
//! in `src/bin`.

use std::process::ExitCode;

use clap::Parser;
use weir_bench::{broker, cold, delivery, isolation, market_udp, probes, roundtrip, router};

/// Benchmarks of the whole program.
#[derive(Debug, Parser)]
#[command(name = "weir-bench", version, max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Benchmark,
}

#[derive(Debug, clap::Subcommand)]
enum Benchmark {
    /// Latency from order to execution report over loopback TCP, compared with an echo.
    Roundtrip(roundtrip::RoundtripArgs),
    /// Broker messages to a connected subscriber, compared with a relay; and to one that
    /// reconnects.
    Broker(broker::BrokerArgs),
    /// Cost of stamping every order: a node with probes compared with one without.
    Probes(probes::ProbesArgs),
    /// Effect on good sessions of one that does not read, one that floods, and 1,000 hostile ones.
    Isolation(isolation::IsolationArgs),
    /// Effect on readers of the store of readers of the archive, and the throughput of the latter.
    Cold(cold::ColdArgs),
    /// Delay from a change's creation in a core to its row in a client.
    DeliveryE2e(delivery::E2eArgs),
    /// Batches of changes over the network, compared with Tarantool and Redis.
    DeliveryNet(delivery::NetArgs),
    /// Readers that outrun the store, then fewer readers again.
    DeliveryRunaway(delivery::RunawayArgs),
    /// Ten thousand waiting clients, and the cost of waking one.
    DeliveryParked(delivery::ParkedArgs),
    /// Good clients of order state next to three that misbehave.
    DeliveryIsolation(delivery::IsolationArgs),
    /// Multicast datagrams, received one at a time and batched.
    MarketUdp(market_udp::MarketUdpArgs),
    /// Delay that a router over TCP adds to a change, and its rows per second.
    Router(router::RouterArgs),
    /// The disturbing sessions of `isolation`.
    #[command(hide = true)]
    Party(isolation::PartyArgs),
    /// Idle sessions next to those that the round trip measures.
    #[command(hide = true)]
    Idle(roundtrip::IdleArgs),
    /// The echo for comparison in the round trip.
    #[command(hide = true)]
    Echo(roundtrip::EchoArgs),
}

fn run(command: Benchmark) -> anyhow::Result<()> {
    match command {
        Benchmark::Roundtrip(args) => roundtrip::run(args),
        Benchmark::Broker(args) => broker::run(args),
        Benchmark::Probes(args) => probes::run(args),
        Benchmark::Isolation(args) => isolation::run(args),
        Benchmark::Cold(args) => cold::run(args),
        Benchmark::DeliveryE2e(args) => delivery::run_e2e(args),
        Benchmark::DeliveryNet(args) => delivery::run_net(args),
        Benchmark::DeliveryRunaway(args) => delivery::run_runaway(args),
        Benchmark::DeliveryParked(args) => delivery::run_parked(args),
        Benchmark::DeliveryIsolation(args) => delivery::run_isolation(args),
        Benchmark::MarketUdp(args) => market_udp::run(&args),
        Benchmark::Router(args) => router::run(args),
        Benchmark::Party(args) => isolation::run_party(args),
        Benchmark::Idle(args) => roundtrip::run_idle(args),
        Benchmark::Echo(args) => roundtrip::run_echo(args),
    }
}

fn main() -> ExitCode {
    match run(Args::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weir-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
