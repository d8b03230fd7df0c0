//! `weir-bench NAME [OPTIONS]`: all benchmarks; `./x bench NAME` runs and records them.
//!
//! Each prints one JSON object as its last line.

use std::process::ExitCode;

use clap::Parser;
use weir_bench::{
    auth_timing, broker, delivery, engine, isolation, link, log, market, partitions, probe_cost,
    probes, recovery, roundtrip, starts, wire,
};

/// Benchmarks of Weir.
#[derive(Debug, Parser)]
#[command(name = "weir-bench", version, max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Benchmark,
}

#[derive(Debug, clap::Subcommand)]
enum Benchmark {
    /// The engine's throughput, latency, allocations and memory: our part of `engine`.
    EngineAlone(engine::alone::AloneArgs),
    /// The engine on the same flow as a peer: our part of `engine`.
    EnginePeer(engine::peer::PeerArgs),
    /// Two structures for the prices of a book side.
    EngineLadder,
    /// A start with millions of live orders, and their memory.
    Recovery(recovery::RecoveryArgs),
    /// The start of a node by the number of commands that it has taken.
    Starts(starts::StartsArgs),
    /// Latency from order to execution report over loopback TCP, compared with an echo.
    Roundtrip(roundtrip::RoundtripArgs),
    /// A gateway process before a node, beside the fused node and beside a bare relay.
    Link(link::LinkArgs),
    /// The processor time of an order by the numbers of partitions and gateway processes.
    Partitions(partitions::PartitionsArgs),
    /// Cost of stamping every order: a node with probes compared with one without.
    Probes(probes::ProbesArgs),
    /// Cost of a probe point alone.
    ProbeCost,
    /// Effect on good sessions of one that does not read, one that floods, and 1,000 hostile ones.
    Isolation(isolation::IsolationArgs),
    /// Append to commit by durability level, compared with a bare sync loop.
    Log(log::LogArgs),
    /// Finding, checking, decoding and encoding a frame.
    Wire,
    /// Broker messages in process, compared with a bare hand-off.
    Broker(broker::BrokerArgs),
    /// Broker messages to a connected subscriber, compared with a relay; and to one that
    /// reconnects.
    DeliveryBroker(delivery::broker::BrokerArgs),
    /// Effect on readers of the store of readers of the archive, and the throughput of the latter.
    DeliveryCold(delivery::cold::ColdArgs),
    /// The archive without the node.
    ColdArchive(delivery::cold::archive::ArchiveArgs),
    /// The order store, compared with a plain one and with Tarantool.
    DeliveryStore(delivery::store::StoreArgs),
    /// Cost of a row by the selectivity of its filter.
    DeliveryFilters(delivery::filters::FiltersArgs),
    /// A router over sources in one process, compared with a desk asked directly.
    DeliveryRouter,
    /// Delay that a router over TCP adds to a change, and its rows per second.
    DeliveryRouterNet(delivery::router_net::RouterArgs),
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
    MarketUdp(market::udp::MarketUdpArgs),
    /// An update of a book by order.
    MarketBooks(market::books::BooksArgs),
    /// A change through the stages of conflation.
    MarketConflation(market::conflation::ConflationArgs),
    /// An update from receipt to the flush thread.
    MarketPipeline(market::pipeline::PipelineArgs),
    /// The age of data when the feed exceeds the subscribers' rate.
    MarketOverload(market::pipeline::SecondsArgs),
    /// A core's share of the options' feed.
    MarketCapacity(market::pipeline::SecondsArgs),
    /// The pipeline with and without its probes.
    MarketProbes,
    /// A full ring between receiving and updating.
    MarketFullRing(market::full_ring::FullRingArgs),
    /// A WebSocket subscriber, compared with one of the binary protocol.
    MarketJson(market::json::JsonArgs),
    /// Audits, bars and statistics of received data.
    MarketPost(market::post::PostArgs),
    /// The time of a refused logon by the reason for it: a campaign.
    AuthTiming(auth_timing::AuthTimingArgs),
    /// A part of `recovery`.
    #[command(hide = true)]
    RecoveryPart(recovery::PartArgs),
    /// The disturbing sessions of `isolation`.
    #[command(hide = true)]
    Party(isolation::PartyArgs),
    /// Idle sessions next to those that the round trip measures.
    #[command(hide = true)]
    Idle(roundtrip::IdleArgs),
    /// The relay for comparison in `link`.
    #[command(hide = true)]
    Relay(link::RelayArgs),
    /// The echo for comparison in the round trip.
    #[command(hide = true)]
    Echo(roundtrip::EchoArgs),
}

fn run(command: Benchmark) -> anyhow::Result<()> {
    match command {
        Benchmark::EngineAlone(args) => engine::alone::run(&args),
        Benchmark::EnginePeer(args) => engine::peer::run(&args),
        Benchmark::EngineLadder => engine::ladder::run(),
        Benchmark::Log(args) => log::run(&args),
        Benchmark::Wire => wire::run(),
        Benchmark::Broker(args) => broker::run(&args),
        Benchmark::ColdArchive(args) => delivery::cold::archive::run(&args),
        Benchmark::DeliveryStore(args) => delivery::store::run(&args),
        Benchmark::DeliveryFilters(args) => delivery::filters::run(&args),
        Benchmark::DeliveryRouter => delivery::router::run(),
        Benchmark::MarketBooks(args) => market::books::run(&args),
        Benchmark::MarketConflation(args) => market::conflation::run(&args),
        Benchmark::MarketPipeline(args) => market::pipeline::run_pipeline(&args),
        Benchmark::MarketOverload(args) => market::pipeline::run_overload(&args),
        Benchmark::MarketCapacity(args) => market::pipeline::run_capacity(&args),
        Benchmark::MarketProbes => market::pipeline::run_probes(),
        Benchmark::MarketFullRing(args) => market::full_ring::run(&args),
        Benchmark::MarketPost(args) => market::post::run(&args),
        Benchmark::Recovery(args) => recovery::run(&args),
        Benchmark::Starts(args) => starts::run(&args),
        Benchmark::AuthTiming(args) => auth_timing::run(&args),
        Benchmark::RecoveryPart(args) => recovery::run_part(args),
        Benchmark::Roundtrip(args) => roundtrip::run(args),
        Benchmark::Link(args) => link::run(&args),
        Benchmark::Partitions(args) => partitions::run(&args),
        Benchmark::Relay(args) => link::run_relay(&args),
        Benchmark::Probes(args) => probes::run(args),
        Benchmark::ProbeCost => probe_cost::run(),
        Benchmark::Isolation(args) => isolation::run(args),
        Benchmark::DeliveryBroker(args) => delivery::broker::run(args),
        Benchmark::DeliveryCold(args) => delivery::cold::run(args),
        Benchmark::DeliveryRouterNet(args) => delivery::router_net::run(args),
        Benchmark::DeliveryE2e(args) => delivery::run_e2e(args),
        Benchmark::DeliveryNet(args) => delivery::run_net(args),
        Benchmark::DeliveryRunaway(args) => delivery::run_runaway(args),
        Benchmark::DeliveryParked(args) => delivery::run_parked(args),
        Benchmark::DeliveryIsolation(args) => delivery::run_isolation(args),
        Benchmark::MarketUdp(args) => market::udp::run(&args),
        Benchmark::MarketJson(args) => market::json::run(&args),
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Benchmarks of `./x bench` that are scripts, packages or options of another one.
    const APART: [&str; 5] = ["engine", "engine-abi", "market-update", "market-shm", "sessions"];

    #[test]
    fn each_benchmark_of_x_is_a_sub_command_by_its_name() {
        let x = concat!(env!("CARGO_MANIFEST_DIR"), "/../x");
        let x = std::fs::read_to_string(x).expect("the script is there");
        let lists = x.lines().filter_map(|line| line.strip_prefix("BENCHES=\""));
        let names = lists.flat_map(|list| list.trim_end_matches('"').split(' '));
        let names: Vec<&str> = names.filter(|name| !name.starts_with('$')).collect();
        assert!(names.len() > 20 && APART.iter().all(|name| names.contains(name)), "{names:?}");
        let command = Args::command();
        for name in names.into_iter().filter(|name| !APART.contains(name)) {
            assert!(command.find_subcommand(name).is_some(), "{name}");
        }
    }
}
