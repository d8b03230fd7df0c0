//! `weir bench`: the benchmarks that need the whole program; `./x bench` runs and records them.
//!
//! Each prints one JSON object as its last line.

use crate::{
    bench_broker, bench_cold, bench_delivery, bench_isolation, bench_market_udp, bench_probes,
    bench_roundtrip, bench_router,
};

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
    /// A message to a subscriber that is there, beside a relay; and to one that comes and goes.
    Broker(bench_broker::BrokerArgs),
    /// What stamping every order costs: a node with probes beside one without.
    Probes(bench_probes::ProbesArgs),
    /// What good sessions notice of one that does not read, one that floods, 1,000 hostile ones.
    Isolation(bench_isolation::IsolationArgs),
    /// What readers of the store notice of readers of long ago, and what these get.
    Cold(bench_cold::ColdArgs),
    /// From a change's creation in a core to its row in a client.
    DeliveryE2e(bench_delivery::E2eArgs),
    /// Batches of changes over the network, beside Tarantool and Redis.
    DeliveryNet(bench_delivery::NetArgs),
    /// Readers that outrun the store, and fewer again.
    DeliveryRunaway(bench_delivery::RunawayArgs),
    /// Ten thousand clients that wait, and what waking one costs.
    DeliveryParked(bench_delivery::ParkedArgs),
    /// Good clients of order state beside three that are not.
    DeliveryIsolation(bench_delivery::IsolationArgs),
    /// Datagrams of a multicast group, received one by one and many with one call.
    MarketUdp(bench_market_udp::MarketUdpArgs),
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
        BenchCommand::Broker(args) => bench_broker::run(args),
        BenchCommand::Probes(args) => bench_probes::run(args),
        BenchCommand::Isolation(args) => bench_isolation::run(args),
        BenchCommand::Cold(args) => bench_cold::run(args),
        BenchCommand::DeliveryE2e(args) => bench_delivery::run_e2e(args),
        BenchCommand::DeliveryNet(args) => bench_delivery::run_net(args),
        BenchCommand::DeliveryRunaway(args) => bench_delivery::run_runaway(args),
        BenchCommand::DeliveryParked(args) => bench_delivery::run_parked(args),
        BenchCommand::DeliveryIsolation(args) => bench_delivery::run_isolation(args),
        BenchCommand::MarketUdp(args) => bench_market_udp::run(&args),
        BenchCommand::Router(args) => bench_router::run(args),
        BenchCommand::Party(args) => bench_isolation::run_party(args),
        BenchCommand::Idle(args) => bench_roundtrip::run_idle(args),
        BenchCommand::Echo(args) => bench_roundtrip::run_echo(args),
    }
}
