//! `weir-bench delivery-parked`: the cost of clients waiting without changes, and the cost of
//! waking them.
//!
//! Ten thousand connections to one node each have a waiting query, and there are no changes: the
//! increase of the node's processor time is the cost of holding them. Then a few changes per second
//! go to all of them: the further increase, divided by the pages sent, is the cost of waking one.
//! With several nodes, each with its own clients, more connections are held at once.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_cli::endpoint::span;

use super::rig::{Emulator, Rig, class, number, shares};

/// The goal: a share of one core for ten thousand waiting clients.
const GOAL: f64 = 0.02;

/// Options of `weir-bench delivery-parked`.
#[derive(Clone, Debug, clap::Args)]
pub struct ParkedArgs {
    /// Clients of each node.
    #[arg(long, default_value_t = 10_000)]
    clients: u16,
    /// Nodes.
    #[arg(long, default_value_t = 3)]
    nodes: u16,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Changes per second in the second measurement.
    #[arg(long, default_value_t = 5)]
    rate: u32,
}

/// A node with its clients, and a core that has not started yet.
struct Held {
    rig: Rig,
    core: Emulator,
    crowd: Emulator,
    /// The node's memory before its clients connected, in bytes.
    resident: u64,
    /// The processor time of its threads before the clients connected, as shares of a core.
    before: Value,
}

/// Runs the benchmark and prints its JSON object as the last line.
///
/// # Errors
/// A process that does not start or ends early.
pub fn run(args: ParkedArgs) -> anyhow::Result<()> {
    let in_range = args.seconds >= 1.0 && args.seconds <= 25.0 && args.nodes > 0 && args.rate > 0;
    anyhow::ensure!(in_range, "--seconds from 1 to 25, --nodes and --rate at least 1");
    anyhow::ensure!(args.clients > 0, "--clients must be at least 1");
    let mut held = Vec::new();
    for number in 1..=args.nodes {
        held.push(Held::start(&args)?);
        eprintln!("node {number}: {} clients wait", args.clients);
    }
    for held in &mut held {
        held.crowd.begin()?;
    }
    // The first second is not measured: the crowds have just begun.
    std::thread::sleep(Duration::from_secs(1));
    let idle = look(&held, &args)?;
    let bytes: anyhow::Result<Vec<f64>> =
        held.iter().map(|held| held.bytes_each(args.clients)).collect();
    let bytes = bytes?;
    held[0].core.begin()?;
    let woken = look(&held[..1], &args)?;
    let mut nodes = Vec::new();
    let mut pages = 0.0;
    for (index, held) in held.into_iter().enumerate() {
        let report = held.crowd.finish()?;
        anyhow::ensure!(report["lost"] == 0, "clients were lost: {}", report["lost_why"]);
        let all = class(&report, "all");
        if index == 0 {
            pages = number(&all["pages"]);
            anyhow::ensure!(pages > 0.0, "nobody was woken");
        }
        nodes.push(json!({
            "clients": args.clients,
            "bytes_each": bytes[index].round(),
            "idle_share": total(&idle[index]) - total(&held.before),
            "idle_threads": idle[index],
            "threads_before": held.before,
            "delay": all["delay"],
        }));
    }
    let seconds = (total(&woken[0]) - total(&idle[0])) * args.seconds;
    let wake_ns = (seconds * 1e9 / pages).round();
    let idle_share = largest_idle_share(&nodes);
    eprintln!(
        "{} clients a node wait for {:.2} % of a core at most; a wake-up takes {} of the node, \
         page and all; {:.0} bytes a client",
        args.clients,
        idle_share * 100.0,
        span(wake_ns as u64),
        number(&nodes[0]["bytes_each"]),
    );
    let result = json!({
        "bench": "delivery-parked",
        "clients_of_a_node": args.clients,
        "clients": u32::from(args.clients) * u32::from(args.nodes),
        "changes_per_s": args.rate,
        "look_seconds": args.seconds,
        "goal_idle_share": GOAL,
        "idle_share_max": idle_share,
        "goal": if idle_share < GOAL { "met" } else { "not met" },
        "wake_ns": wake_ns,
        "pages": pages,
        "woken_threads": woken[0],
        "durability": "memory",
        "wait": "park",
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "nodes": nodes,
    });
    println!("{result}");
    Ok(())
}

/// Returns the idle share of the busiest node, which decides.
fn largest_idle_share(nodes: &[Value]) -> f64 {
    nodes.iter().map(|node| number(&node["idle_share"])).fold(0.0, f64::max)
}

impl Held {
    /// The growth of the node's memory per client, in bytes.
    fn bytes_each(&self, clients: u16) -> anyhow::Result<f64> {
        let grown = self.rig.node.resident_bytes()?.saturating_sub(self.resident);
        Ok(grown as f64 / f64::from(clients))
    }

    fn start(args: &ParkedArgs) -> anyhow::Result<Held> {
        let rig = Rig::start(1, u32::from(args.clients) + 100)?;
        let core = rig.core(&[
            "--rate",
            &args.rate.to_string(),
            "--orders",
            "1000",
            "--warm-up",
            "0",
            "--duration",
            &args.seconds.to_string(),
        ])?;
        let resident = rig.node.resident_bytes()?;
        let (times, begun) = (rig.node.thread_times()?, Instant::now());
        std::thread::sleep(Duration::from_secs(2));
        let before = shares(&rig.threads_since(&times)?, begun.elapsed());
        let crowd = rig.clients(&[
            "--mix",
            &format!("all:{}", args.clients),
            "--wait-max-us",
            "60000000",
            "--warm-up",
            "0",
            "--duration",
            &(2.0 * args.seconds + 2.0).to_string(),
        ])?;
        Ok(Held { rig, core, crowd, resident, before })
    }
}

/// Measures the nodes' threads for the given time, as shares of a core.
fn look(held: &[Held], args: &ParkedArgs) -> anyhow::Result<Vec<Value>> {
    let before: anyhow::Result<Vec<_>> =
        held.iter().map(|held| held.rig.node.thread_times()).collect();
    let begun = Instant::now();
    std::thread::sleep(Duration::from_secs_f64(args.seconds));
    before?
        .iter()
        .zip(held)
        .map(|(before, held)| Ok(shares(&held.rig.threads_since(before)?, begun.elapsed())))
        .collect()
}

fn total(threads: &Value) -> f64 {
    threads.as_object().map_or(0.0, |threads| threads.values().map(number).sum())
}
