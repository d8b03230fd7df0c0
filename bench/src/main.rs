//! `weir-bench`: the benchmarks that need the whole program; `./x bench` runs and records them.
//!
//! Each prints one JSON object as its last line. Benchmarks of one part are programs of their own,
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
    /// Order to execution report over loopback TCP, beside an echo.
    Roundtrip(roundtrip::RoundtripArgs),
    /// A message to a subscriber that is there, beside a relay; and to one that comes and goes.
    Broker(broker::BrokerArgs),
    /// What stamping every order costs: a node with probes beside one without.
    Probes(probes::ProbesArgs),
    /// What good sessions notice of one that does not read, one that floods, 1,000 hostile ones.
    Isolation(isolation::IsolationArgs),
    /// What readers of the store notice of readers of long ago, and what these get.
    Cold(cold::ColdArgs),
    /// From a change's creation in a core to its row in a client.
    DeliveryE2e(delivery::E2eArgs),
    /// Batches of changes over the network, beside Tarantool and Redis.
    DeliveryNet(delivery::NetArgs),
    /// Readers that outrun the store, and fewer again.
    DeliveryRunaway(delivery::RunawayArgs),
    /// Ten thousand clients that wait, and what waking one costs.
    DeliveryParked(delivery::ParkedArgs),
    /// Good clients of order state beside three that are not.
    DeliveryIsolation(delivery::IsolationArgs),
    /// Datagrams of a multicast group, received one by one and many with one call.
    MarketUdp(market_udp::MarketUdpArgs),
    /// What a router over TCP adds to a change's way to its reader, and its rows a second.
    Router(router::RouterArgs),
    /// Those that the good sessions of `isolation` are not to notice.
    #[command(hide = true)]
    Party(isolation::PartyArgs),
    /// Sessions that log on and do nothing, beside those that the round trip measures.
    #[command(hide = true)]
    Idle(roundtrip::IdleArgs),
    /// The echo that the round trip stands beside.
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
