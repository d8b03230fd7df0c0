//! One load against an echo and a node alternately, and the figures of the pairs.
//!
//! Both sides keep their connections and their books from pair to pair; while one runs, the other's
//! process is stopped. Each run begins with a fifth of its length that is not measured.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use serde_json::{Value, json};
use weir_cli::endpoint::{TIMEOUT, span};
use weir_client::clock::WaitStrategy;
use weir_client::load::measure::STAGE_NAMES;
use weir_client::load::{
    Arrivals, Generator, Listing, LoadPlan, LoadReport, Mix, MixSource, Pace, Quantiles, Schedule,
    SetupPlan, Trader, Verdict, set_up,
};
use weir_client::{Admin, SessionConfig, Target, echo};
use weir_types::{AccountId, Durability, InstrumentId, Nanos, Price, Qty, SessionId};
use weir_wire::session::ApiKey;

use super::children::Child;
use super::larger_part::LargerPart;
use super::peers;
use super::stats::{Estimate, median_with_interval};

const SESSION_COUNT: u32 = 8;
/// The first identifier of the definitions.
const FIRST_ID: u32 = 900_000;
const INSTRUMENT_COUNT: u32 = 4;
const LIVE_COUNT_MAX: usize = 1_000;
const UNANSWERED_COUNT_MAX: usize = 1 << 20;
/// The delay after its due time beyond which an order counts as late.
const LATE_AFTER: Nanos = Nanos(200_000);
/// The share of late orders beyond which a run has a late generator.
const LATE_SHARE_MAX: f64 = 0.01;

/// The number and length of runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bench {
    /// Pairs of each cell.
    pub(super) pairs: u32,
    /// The measured time of each run.
    pub(super) run: Duration,
}

/// The sessions that send orders.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crowd {
    /// The number of sessions.
    pub(super) count: u32,
    /// The number of connections that they share.
    pub(super) connections: usize,
    /// The first identifier of the sessions.
    pub(super) first_id: u32,
}

/// The kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadKind {
    /// Closed loop: this many orders in flight.
    Window(u32),
    /// Open loop: this many orders per second, Poisson.
    Open(u32),
}

impl FromStr for LoadKind {
    type Err = String;

    fn from_str(text: &str) -> Result<LoadKind, String> {
        let (number, kind): (&str, fn(u32) -> LoadKind) = match text.strip_suffix("/s") {
            Some(rate) => (rate, LoadKind::Open),
            None => (text, LoadKind::Window),
        };
        match number.parse() {
            Ok(number) if number > 0 => Ok(kind(number)),
            _ => Err(format!("{text:?} is no load: want 64 (in flight) or 50000/s")),
        }
    }
}

impl LoadKind {
    pub(crate) fn name(self) -> String {
        match self {
            LoadKind::Window(window) => format!("{window} in flight"),
            LoadKind::Open(rate) => format!("{rate}/s"),
        }
    }

    pub(crate) fn json(self) -> Value {
        match self {
            LoadKind::Window(window) => json!({ "in_flight": window }),
            LoadKind::Open(rate) => json!({ "rate": rate, "arrivals": "poisson" }),
        }
    }
}

/// The sizes of the frames on the wire.
pub(super) fn payload() -> Value {
    let (order, report) = peers::order_frame();
    json!({ "new_order_frame": order.len(), "execution_report_frame": report })
}

/// A side of a pair: its connections and their orders.
struct Side<'a> {
    /// The process that is stopped between runs; `None` where it goes on.
    process: Option<&'a Child>,
    generator: Generator,
    source: MixSource,
}

/// An echo and a node, ready for alternate loads.
pub(super) struct Sides<'a> {
    echo: Side<'a>,
    node: Side<'a>,
}

impl<'a> Sides<'a> {
    /// Logs on to both, and defines the load's sessions and instruments on the node.
    pub(super) fn connect(echo: &'a Child, node: &'a Child) -> anyhow::Result<Sides<'a>> {
        Sides::connect_many(
            echo,
            node,
            &Crowd { count: SESSION_COUNT, connections: 1, first_id: FIRST_ID },
        )
    }

    /// As [`Sides::connect`], with the crowd's numbers of sessions and connections.
    pub(super) fn connect_many(
        echo: &'a Child,
        node: &'a Child,
        crowd: &Crowd,
    ) -> anyhow::Result<Sides<'a>> {
        // It may still be stopped from another load's last run.
        node.pause(false)?;
        echo.pause(false)?;
        let (traders, listings) = define(node, crowd)?;
        let echoed = echo_listings(&listings);
        let connections = crowd.connections;
        Ok(Sides {
            echo: Side::connect(echo, &echo_traders(&traders), connections, echoed)?,
            node: Side::connect(node, &traders, connections, listings)?,
        })
    }

    /// Runs pairs, each followed by the bare sync loop in `sync_dir` if it is given.
    pub(super) fn measure(
        &mut self,
        bench: &Bench,
        load: LoadKind,
        wait: WaitStrategy,
        sync_dir: Option<&Path>,
    ) -> anyhow::Result<Cell> {
        let mut cell = Cell { load, echo: vec![], node: vec![], bare_sync: vec![] };
        for pair in 0..bench.pairs {
            // The order alternates, so that neither side always follows the other.
            for turn in 0..2 {
                let seed = u64::from(pair) + 1;
                if (pair + turn) % 2 == 0 {
                    cell.echo.push(self.echo.run(bench, load, wait, seed)?);
                } else {
                    cell.node.push(self.node.run(bench, load, wait, seed)?);
                }
            }
            if let Some(dir) = sync_dir {
                cell.bare_sync.push(peers::bare_sync(dir, bench.run / 3)?);
            }
        }
        Ok(cell)
    }
}

impl<'a> Side<'a> {
    fn connect(
        process: &'a Child,
        traders: &[Trader],
        connections: usize,
        listings: Vec<Listing>,
    ) -> anyhow::Result<Side<'a>> {
        let target = process.target();
        let mut side = Side::running(target, traders, connections, listings)?;
        process.pause(true)?;
        side.process = Some(process);
        Ok(side)
    }

    /// As [`Side::connect`], of processes that are not stopped between runs.
    fn running(
        target: Target,
        traders: &[Trader],
        connections: usize,
        listings: Vec<Listing>,
    ) -> anyhow::Result<Side<'a>> {
        let accounts: Vec<_> = traders.iter().map(|trader| trader.account_id).collect();
        // Adds and cancels only: each has exactly one report, as on the echo.
        let mix = Mix { adds: 1, cancels: 1, replaces: 0, crosses: 0 };
        let source = MixSource::new(mix, listings, &accounts, LIVE_COUNT_MAX);
        let generator = Generator::connect(target, traders, connections)?;
        Ok(Side { process: None, generator, source })
    }

    fn run(
        &mut self,
        bench: &Bench,
        load: LoadKind,
        wait: WaitStrategy,
        seed: u64,
    ) -> anyhow::Result<LoadReport> {
        let (pace, rate) = match load {
            LoadKind::Window(window) => (Pace::Window(window), 1.0),
            LoadKind::Open(rate) => (Pace::Open, f64::from(rate)),
        };
        self.source.begin(Schedule::new(Arrivals::Poisson, rate, seed), seed);
        let plan = LoadPlan {
            pace,
            warm_up: bench.run / 5,
            duration: bench.run,
            wait,
            late_after: LATE_AFTER,
            late_share_max: LATE_SHARE_MAX,
        };
        self.pause(false)?;
        // With a fixed number of orders in flight both ends alternate by themselves.
        let part = matches!(pace, Pace::Open).then(LargerPart::take);
        let report = self.generator.run(&plan, &mut self.source, &mut |_| {})?;
        drop(part);
        // Receives the answers that an overloaded run left behind before the next one.
        self.generator.settle(TIMEOUT)?;
        self.pause(true)?;
        Ok(report)
    }

    fn pause(&self, paused: bool) -> anyhow::Result<()> {
        self.process.map_or(Ok(()), |process| process.pause(paused))
    }
}

/// A node under a load of adds and cancels, for benchmarks that compare nodes.
pub(crate) struct NodeLoad<'a> {
    side: Side<'a>,
}

impl<'a> NodeLoad<'a> {
    /// Logs on, and defines the load's sessions and instruments. The node is stopped between runs.
    pub(crate) fn connect(node: &'a Child) -> anyhow::Result<NodeLoad<'a>> {
        let crowd = Crowd { count: SESSION_COUNT, connections: 1, first_id: FIRST_ID };
        let (traders, listings) = define(node, &crowd)?;
        Ok(NodeLoad { side: Side::connect(node, &traders, 1, listings)? })
    }

    /// As [`NodeLoad::connect`], with the node's clients at another door, and nothing stopped.
    pub(crate) fn connect_at(node: &Child, door: Target) -> anyhow::Result<NodeLoad<'a>> {
        NodeLoad::connect_as(node, door, FIRST_ID)
    }

    /// As [`NodeLoad::connect_at`], with identifiers from `first_id` on.
    pub(crate) fn connect_as(
        node: &Child,
        door: Target,
        first_id: u32,
    ) -> anyhow::Result<NodeLoad<'a>> {
        let crowd = Crowd { count: SESSION_COUNT, connections: 1, first_id };
        let (traders, listings) = define(node, &crowd)?;
        Ok(NodeLoad { side: Side::running(door, &traders, 1, listings)? })
    }

    /// Sends orders of a load for the duration `run`.
    pub(crate) fn run_as(
        &mut self,
        run: Duration,
        load: LoadKind,
        seed: u64,
    ) -> anyhow::Result<LoadReport> {
        self.side.run(&Bench { pairs: 1, run }, load, WaitStrategy::Park, seed)
    }

    /// Sends orders at `rate` for the duration `run`.
    pub(crate) fn run(
        &mut self,
        run: Duration,
        rate: u32,
        seed: u64,
    ) -> anyhow::Result<LoadReport> {
        let bench = Bench { pairs: 1, run };
        self.side.run(&bench, LoadKind::Open(rate), WaitStrategy::Park, seed)
    }
}

/// Defines the sessions and instruments of a load.
fn define(node: &Child, crowd: &Crowd) -> anyhow::Result<(Vec<Trader>, Vec<Listing>)> {
    let mut admin = Admin::connect(node.target(), SessionId(1), node.key(), TIMEOUT)?;
    let setup = SetupPlan {
        first_id: crowd.first_id,
        session_count: crowd.count,
        instrument_count: INSTRUMENT_COUNT,
        unanswered_count_max: UNANSWERED_COUNT_MAX,
    };
    let defined = set_up(&mut admin, &setup)?;
    admin.close()?;
    Ok(defined)
}

/// The same sessions, with a key that the echo ignores.
fn echo_traders(traders: &[Trader]) -> Vec<Trader> {
    let key = ApiKey([0; 32]);
    let sessions = (1..).zip(traders);
    sessions
        .map(|(id, trader)| Trader {
            session: SessionConfig {
                unanswered_count_max: UNANSWERED_COUNT_MAX,
                ..SessionConfig::new(SessionId(id), key)
            },
            account_id: AccountId(trader.account_id.0),
        })
        .collect()
}

fn echo_listings(listings: &[Listing]) -> Vec<Listing> {
    let partition_id = echo::PARTITION;
    (1..)
        .zip(listings)
        .map(|(id, _)| Listing {
            instrument_id: InstrumentId(id),
            partition_id,
            tick_size: Price(1),
            lot_size: Qty(1),
            middle: Price(10_000),
        })
        .collect()
}

/// The figures of the pairs of one load.
pub(super) struct Cell {
    load: LoadKind,
    echo: Vec<LoadReport>,
    node: Vec<LoadReport>,
    bare_sync: Vec<Quantiles>,
}

type Pick = fn(&Quantiles) -> Option<u64>;

const PICKS: [(&str, Pick); 6] = [
    ("p50", |q| Some(q.p50)),
    ("p90", |q| q.p90),
    ("p99", |q| q.p99),
    ("p99_9", |q| q.p99_9),
    ("p99_99", |q| q.p99_99),
    ("max", |q| Some(q.max)),
];

/// The heading of [`Cell::line`].
pub(super) fn header() -> String {
    format!(
        "{:<14} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}   {:<22} {:<22} {}",
        "",
        "echo p50",
        "echo p99",
        "node mean",
        "node p50",
        "node p99",
        "node max",
        "p50 ratio",
        "p99 ratio",
        "late runs"
    )
}

impl Cell {
    fn late_count(&self) -> usize {
        let late = |report: &&LoadReport| report.verdict != Verdict::Valid;
        self.echo.iter().chain(&self.node).filter(late).count()
    }

    /// Returns false if more than a third of the runs are late, which leaves no verdict.
    fn has_verdict(&self) -> bool {
        self.late_count() * 3 <= self.echo.len() + self.node.len()
    }

    /// The ratio of the node's figure to the echo's, pair by pair.
    fn ratio_of(&self, which: fn(&LoadReport) -> &Quantiles, pick: Pick) -> Option<Estimate> {
        let pairs = self.node.iter().zip(&self.echo);
        let ratios: Option<Vec<f64>> = pairs
            .map(|(node, echo)| Some(pick(which(node))? as f64 / pick(which(echo))?.max(1) as f64))
            .collect();
        ratios.map(|mut ratios| median_with_interval(&mut ratios))
    }

    fn ratio(&self, pick: Pick) -> Option<Estimate> {
        self.ratio_of(|report| &report.latency, pick)
    }

    /// The difference of the node's median and the bare sync loop's, pair by pair, in ns.
    fn above_bare_sync(&self) -> Option<Estimate> {
        let pairs = self.node.iter().zip(&self.bare_sync);
        let mut above: Vec<f64> =
            pairs.map(|(node, bare)| node.latency.p50 as f64 - bare.p50 as f64).collect();
        (!above.is_empty()).then(|| median_with_interval(&mut above))
    }

    /// A readable line of the figures.
    pub(super) fn line(&self) -> String {
        let of = |reports: &[LoadReport], pick: Pick| {
            median_of(reports.iter().map(|report| pick(&report.latency)))
                .map_or_else(|| "-".to_owned(), |value| span(value as u64))
        };
        let ratio = |pick: Pick| match (self.has_verdict(), self.ratio(pick)) {
            (true, Some(ratio)) => ratio.to_string(),
            _ => "no verdict".to_owned(),
        };
        let above = self.above_bare_sync().map_or(String::new(), |above| {
            format!("  p50 above bare sync: {:.0} µs", above.median / 1e3)
        });
        format!(
            "{:<14} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}   {:<22} {:<22} {} of {}{above}",
            self.load.name(),
            of(&self.echo, PICKS[0].1),
            of(&self.echo, PICKS[2].1),
            of(&self.node, |q| Some(q.mean as u64)),
            of(&self.node, PICKS[0].1),
            of(&self.node, PICKS[2].1),
            of(&self.node, PICKS[5].1),
            ratio(PICKS[0].1),
            ratio(PICKS[2].1),
            self.late_count(),
            self.echo.len() + self.node.len(),
        )
    }

    /// The figures for the result's object.
    pub(super) fn json(&self, durability: Durability, wait: WaitStrategy) -> Value {
        let ratio = |pick: Pick| {
            let ratio = self.has_verdict().then(|| self.ratio(pick)).flatten();
            ratio.map_or(Value::Null, Estimate::json)
        };
        // Excludes the generator's lag, which is part of both sides' latencies.
        let from_sent = |pick: Pick| {
            let ratio = self.ratio_of(|report| &report.latency_from_sent, pick);
            self.has_verdict().then_some(ratio).flatten().map_or(Value::Null, Estimate::json)
        };
        let mut cell = json!({
            "load": self.load.json(),
            "durability": durability.to_string(),
            "wait": wait.to_string(),
            "verdict": self.has_verdict(),
            "late_runs": self.late_count(),
            "runs": self.echo.len() + self.node.len(),
            "echo_ns": side_json(&self.echo),
            "node_ns": side_json(&self.node),
            "ratio_p50": ratio(PICKS[0].1),
            "ratio_p99": ratio(PICKS[2].1),
            "ratio_p50_from_sent": from_sent(PICKS[0].1),
            "ratio_p99_from_sent": from_sent(PICKS[2].1),
            "ratio_mean": ratio(|q| Some(q.mean as u64)),
            "node_segments_p50_ns": segments_json(&self.node),
        });
        if let Some(above) = self.above_bare_sync() {
            let mut p50: Vec<f64> = self.bare_sync.iter().map(|bare| bare.p50 as f64).collect();
            cell["bare_sync_p50_ns"] = json!(median_with_interval(&mut p50).median);
            cell["node_p50_above_bare_sync_ns"] = above.json();
        }
        cell
    }
}

/// The median over the runs that have the figure.
fn median_of(values: impl Iterator<Item = Option<u64>>) -> Option<f64> {
    let mut values: Vec<f64> = values.flatten().map(|value| value as f64).collect();
    (!values.is_empty()).then(|| median_with_interval(&mut values).median)
}

fn side_json(reports: &[LoadReport]) -> Value {
    let mut side = json!({});
    for (name, pick) in PICKS {
        side[name] = json!(median_of(reports.iter().map(|report| pick(&report.latency))));
    }
    side["mean"] = json!(median_of(reports.iter().map(|r| Some(r.latency.mean as u64))));
    side["worst"] = json!(reports.iter().map(|report| report.latency.max).max());
    side["per_second"] = json!(median_of(reports.iter().map(|r| Some(r.rate_measured as u64))));
    side["generator_lag_p99"] = json!(median_of(reports.iter().map(|r| r.generator_lag.p99)));
    let mut late: Vec<f64> = reports.iter().map(|report| report.late_share).collect();
    side["late_share"] = json!(median_with_interval(&mut late).median);
    side
}

fn segments_json(reports: &[LoadReport]) -> Value {
    let mut segments = json!({});
    for (index, name) in STAGE_NAMES.iter().enumerate() {
        let spans = reports.iter().map(|report| Some(report.stages[index].span.p50));
        segments[*name] = json!(median_of(spans));
    }
    segments["outside"] = json!(median_of(reports.iter().map(|r| Some(r.outside.p50))));
    segments
}
