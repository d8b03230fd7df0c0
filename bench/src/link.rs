//! `weir-bench link`: a gateway process before a node, beside the fused node and beside the fused
//! node behind a bare relay of the same bytes.
//!
//! The same client, frames and sessions drive the three in interleaved rounds. The relay is a
//! process that copies bytes between two sockets, as a gateway process has them; so its delay over
//! the fused node is the price of a process more on the way, and the rest is the gateway's work.
//! The processes of the other sides run and are idle meanwhile: their links stay up.

mod relay;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use weir_cli::endpoint::{hex, span};
use weir_client::Admin;
use weir_client::clock::{WaitStrategy, sharpen_timers};
use weir_client::load::setup::{fresh_key, key_hash};
use weir_client::load::{LoadReport, Quantiles};
use weir_types::{CredentialKind, Durability, FirmId, Nanos, RequestNo, Role, SessionId};
use weir_wire::reference::DefineSession;

pub use relay::{RelayArgs, run_relay};

use crate::roundtrip::{
    Child, Estimate, LISTEN, LoadKind, NodeLoad, NodeSetting, WorkDir, median_with_interval,
};

/// The gateway's session.
const GATEWAY: SessionId = SessionId(501);
/// The sides, in the order of the figures.
const SIDES: [&str; 3] = ["fused", "relayed", "linked"];

/// Options of `weir-bench link`.
#[derive(Clone, Debug, clap::Args)]
pub struct LinkArgs {
    /// A few short rounds: shows that it works, proves nothing.
    #[arg(long)]
    quick: bool,
    /// Rounds of each load; the default is 15, or 3 with --quick.
    #[arg(long)]
    rounds: Option<u32>,
    /// Seconds of each run.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    seconds: f64,
    /// Loads: 64 is that many in flight, 50000/s an open loop.
    #[arg(long, value_delimiter = ',', default_value = "1,64,10000/s,50000/s")]
    loads: Vec<LoadKind>,
    /// Durability of the nodes.
    #[arg(long, default_value = "memory")]
    durability: Durability,
    /// Directory of the logs during the run; the system's temporary directory if absent.
    #[arg(long, value_name = "DIR")]
    dir: Option<std::path::PathBuf>,
}

/// The processes of the three sides.
struct Sides {
    fused: Child,
    behind_relay: Child,
    relay: Child,
    node: Child,
    gateway: Child,
}

/// The figures of a run of one side.
struct Run {
    report: LoadReport,
    /// The processor time for an order of each of its processes, in nanoseconds.
    processor_ns: Vec<f64>,
}

/// Runs the benchmark and prints its JSON object as the last line.
///
/// # Errors
/// A process that does not start, or a connection that ends.
pub fn run(args: &LinkArgs) -> anyhow::Result<()> {
    anyhow::ensure!(args.seconds > 0.0 && args.seconds <= 60.0, "--seconds must be up to 60");
    sharpen_timers();
    let rounds = args.rounds.unwrap_or(if args.quick { 3 } else { 15 }).max(1);
    let seconds = if args.quick { args.seconds.min(0.3) } else { args.seconds };
    let run = Duration::from_secs_f64(seconds);
    let work_dir = WorkDir::create(args.dir.as_deref())?;
    let load_before = crate::roundtrip::load_average();
    let sides = Sides::start(args.durability, &work_dir)?;
    let mut loads = sides.connect()?;
    let mut cells = Vec::new();
    eprintln!("{}", header());
    for load in &args.loads {
        let mut runs: [Vec<Run>; 3] = Default::default();
        for round in 0..rounds {
            // Each side is first, second and third in turn.
            for turn in 0..3 {
                let side = ((round + turn) % 3) as usize;
                let of_side = sides.processes(side);
                let before = processor_times(&of_side)?;
                let report = loads[side].run_as(run, *load, u64::from(round) + 1)?;
                let after = processor_times(&of_side)?;
                let orders = report.latency.count.max(1) as f64;
                let spent = before.iter().zip(&after);
                let processor_ns =
                    spent.map(|(before, after)| (*after - *before).as_nanos() as f64 / orders);
                runs[side].push(Run { report, processor_ns: processor_ns.collect() });
            }
        }
        eprintln!("{}", line(*load, &runs));
        cells.push(cell(*load, &runs));
    }
    let result = json!({
        "bench": "link",
        "rounds": rounds,
        "run_seconds": seconds,
        "durability": args.durability.to_string(),
        "wait": WaitStrategy::Park.to_string(),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "file_system": work_dir.file_system(),
        "load_average_before": load_before,
        "load_average_after": crate::roundtrip::load_average(),
        "cells": cells,
    });
    println!("{result}");
    Ok(())
}

impl Sides {
    fn start(durability: Durability, work_dir: &WorkDir) -> anyhow::Result<Sides> {
        let wait = WaitStrategy::Park;
        let node = |name: &str, options: &[&str]| {
            Child::node_with(name, durability, wait, options, work_dir)
        };
        let (fused, behind_relay) = (node("fused", &[])?, node("behind-relay", &[])?);
        let relay = Child::relay(behind_relay.address(), work_dir)?;
        let node = LinkedNode::start(1, durability, work_dir)?;
        let plan = GatewayPlan { name: "gateway", session: GATEWAY };
        let gateway = node.gateway(&plan, work_dir)?;
        Ok(Sides { fused, behind_relay, relay, node: node.child, gateway })
    }

    /// Defines the load at each node, and connects to each side's door.
    fn connect(&self) -> anyhow::Result<[NodeLoad<'_>; 3]> {
        Ok([
            NodeLoad::connect_at(&self.fused, self.fused.target())?,
            NodeLoad::connect_at(&self.behind_relay, self.relay.target())?,
            NodeLoad::connect_at(&self.node, self.gateway.target())?,
        ])
    }

    /// Returns the processes of a side, the one at which clients are first.
    fn processes(&self, side: usize) -> Vec<&Child> {
        match side {
            0 => vec![&self.fused],
            1 => vec![&self.relay, &self.behind_relay],
            _ => vec![&self.gateway, &self.node],
        }
    }
}

/// A node with a listener for gateway processes.
pub(crate) struct LinkedNode {
    /// The process.
    pub(crate) child: Child,
    link: SocketAddr,
    partitions: u16,
}

/// A gateway process to be started.
pub(crate) struct GatewayPlan<'a> {
    /// The name of its files.
    pub(crate) name: &'a str,
    /// Its session.
    pub(crate) session: SessionId,
}

impl LinkedNode {
    /// Starts a node with partitions of these numbers from 1 on.
    pub(crate) fn start(
        partitions: u16,
        durability: Durability,
        work_dir: &WorkDir,
    ) -> anyhow::Result<LinkedNode> {
        let link = free_address()?;
        let mut text = format!("[link]\nlisten = \"{link}\"\n");
        for id in 1..=partitions {
            text += &format!("[[partition]]\nid = {id}\n");
        }
        let config = work_dir.path().join("node.toml");
        std::fs::write(&config, text)?;
        let config = config.to_str().context("the directory's name is not UTF-8")?;
        let options = ["--config", config];
        let child = Child::node_with("node", durability, WaitStrategy::Park, &options, work_dir)?;
        Ok(LinkedNode { child, link, partitions })
    }

    /// Defines a gateway's session, and starts the process.
    pub(crate) fn gateway(
        &self,
        plan: &GatewayPlan<'_>,
        work_dir: &WorkDir,
    ) -> anyhow::Result<Child> {
        let (node, GatewayPlan { name, session }) = (&self.child, plan);
        let key = fresh_key()?;
        let mut admin =
            Admin::connect(node.target(), SessionId(1), node.key(), weir_cli::endpoint::TIMEOUT)?;
        admin.define_session(DefineSession {
            request_no: RequestNo::NONE,
            valid_until: Nanos(0),
            credential: key_hash(&key),
            session_id: SessionId::NONE,
            defined_session_id: *session,
            firm_id: FirmId::NONE,
            order_rate_max: 0,
            in_flight_max: 0,
            role: Role::Gateway,
            credential_kind: CredentialKind::ApiKey,
            live_orders_max: 0,
            fields: 0,
        })?;
        admin.close()?;
        let path = |ending: &str| work_dir.path().join(format!("{name}.{ending}"));
        let (key_file, config) = (path("key"), path("toml"));
        weir_io::durable::write_file(&key_file, hex(&key.0).as_bytes(), 0o600)?;
        let mut text = format!(
            "role = \"gateway\"\n[uplink]\nsession = {session}\nkey_file = {key_file:?}\n\
             key_kind = \"api-key\"\n"
        );
        for id in 0..=self.partitions {
            text += &format!("[[uplink.partition]]\nid = {id}\naddress = \"{}\"\n", self.link);
        }
        std::fs::write(&config, text)?;
        let config = config.to_str().context("the directory's name is not UTF-8")?;
        let setting = NodeSetting {
            name,
            listen: LISTEN,
            durability: Durability::Memory,
            wait: WaitStrategy::Park,
            options: &["--config", config],
        };
        Child::node_of(&setting, crate::programs::weir()?, work_dir)
    }
}

/// Returns an address on which nobody listens: the gateway has to know it before the node starts.
fn free_address() -> anyhow::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?)
}

fn processor_times(processes: &[&Child]) -> anyhow::Result<Vec<Duration>> {
    processes.iter().map(|process| process.processor_time()).collect()
}

type Pick = fn(&Quantiles) -> Option<u64>;

const PICKS: [(&str, Pick); 3] =
    [("p50", |q| Some(q.p50)), ("p99", |q| q.p99), ("p99_9", |q| q.p99_9)];

/// Returns a figure of each round of a side; none where the samples of a round do not support it.
fn of_rounds(runs: &[Run], pick: Pick) -> Option<Vec<f64>> {
    figures(runs.iter().map(|run| pick(&run.report.latency)))
}

fn figures(rounds: impl Iterator<Item = Option<u64>>) -> Option<Vec<f64>> {
    rounds.map(|figure| figure.map(|figure| figure as f64)).collect()
}

/// The delay that the gateway process adds to the fused node's, over that which the relay adds,
/// round by round; none where the relay adds nothing in a round in three: both cores are full then,
/// and the division says nothing.
fn added_over_relay(runs: &[Vec<Run>; 3], pick: Pick) -> Option<Estimate> {
    let [fused, relayed, linked] = runs.each_ref().map(|runs| of_rounds(runs, pick));
    let (fused, relayed, linked) = (fused?, relayed?, linked?);
    let added = fused.iter().zip(relayed.iter().zip(&linked));
    let mut ratios: Vec<f64> = added
        .filter(|(fused, (relayed, _))| relayed > fused)
        .map(|(fused, (relayed, linked))| (linked - fused) / (relayed - fused))
        .collect();
    let has_verdict = ratios.len() * 3 > fused.len() * 2;
    has_verdict.then(|| median_with_interval(&mut ratios))
}

fn ratio_to_fused(runs: &[Vec<Run>; 3], side: usize, pick: Pick) -> Option<Estimate> {
    let (of_side, fused) = (of_rounds(&runs[side], pick)?, of_rounds(&runs[0], pick)?);
    let mut ratios: Vec<f64> =
        of_side.iter().zip(&fused).map(|(side, fused)| side / fused.max(1.0)).collect();
    Some(median_with_interval(&mut ratios))
}

fn median(mut values: Vec<f64>) -> f64 {
    median_with_interval(&mut values).median
}

fn header() -> String {
    format!(
        "{:<14} {:>10} {:>10} {:>10}   {:>10} {:>10} {:>10}   {:<22} {}",
        "",
        "fused p50",
        "relayed",
        "linked",
        "fused p99",
        "relayed",
        "linked",
        "p50 added over relay",
        "processor µs an order"
    )
}

fn line(load: LoadKind, runs: &[Vec<Run>; 3]) -> String {
    let figures = |pick: Pick| {
        let of = runs.each_ref().map(|runs| {
            let median = of_rounds(runs, pick).map(median);
            median.map_or_else(|| "-".to_owned(), |median| span(median as u64))
        });
        format!("{:>10} {:>10} {:>10}", of[0], of[1], of[2])
    };
    let processor: Vec<_> = runs.iter().map(|runs| processor_of(runs)).collect();
    let processor: Vec<_> = processor
        .iter()
        .map(|of| of.iter().map(|ns| format!("{:.1}", ns / 1e3)).collect::<Vec<_>>().join("+"))
        .collect();
    format!(
        "{:<14} {}   {}   {:<22} {}",
        load.name(),
        figures(PICKS[0].1),
        figures(PICKS[1].1),
        added_over_relay(runs, PICKS[0].1)
            .map_or_else(|| "no verdict".to_owned(), |added| added.to_string()),
        processor.join(" | ")
    )
}

/// Returns the median processor time for an order of each process of a side, in nanoseconds.
fn processor_of(runs: &[Run]) -> Vec<f64> {
    let count = runs.first().map_or(0, |run| run.processor_ns.len());
    (0..count).map(|of| median(runs.iter().map(|run| run.processor_ns[of]).collect())).collect()
}

fn cell(load: LoadKind, runs: &[Vec<Run>; 3]) -> Value {
    let mut cell = json!({ "load": load.json() });
    for (side, name) in SIDES.iter().enumerate() {
        let mut figures = json!({});
        for (figure, pick) in PICKS {
            figures[figure] = json!(of_rounds(&runs[side], pick).map(median));
        }
        figures["per_second"] =
            json!(median(runs[side].iter().map(|run| run.report.rate_measured).collect()));
        figures["processor_ns"] = json!(processor_of(&runs[side]));
        cell[format!("{name}_ns")] = figures;
    }
    for (figure, pick) in PICKS {
        for (name, estimate) in [
            ("linked_over_fused", ratio_to_fused(runs, 2, pick)),
            ("relayed_over_fused", ratio_to_fused(runs, 1, pick)),
            ("added_over_relay", added_over_relay(runs, pick)),
        ] {
            cell[format!("{name}_{figure}")] = estimate.map_or(Value::Null, Estimate::json);
        }
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They were zero, and a ratio of one was told as a result.
    #[test]
    fn a_quantile_that_the_samples_do_not_support_is_null() {
        assert_eq!(figures([Some(3), Some(5)].into_iter()), Some(vec![3.0, 5.0]));
        let absent = figures([Some(3), None].into_iter());
        assert_eq!(json!(absent.map(median)), Value::Null);
    }
}
