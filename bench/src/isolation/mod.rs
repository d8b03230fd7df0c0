//! `weir-bench isolation`: the effect of misbehaving sessions on good ones.
//!
//! Ten sessions trade at a steady rate on a node, while a *party* disturbs them: it does not read
//! its reports, floods, is a thousand hostile connections, resumes from files again and again,
//! cancels a million orders at once, reads everything, or is a disk that stalls. All of them share
//! the cores of one machine, so a run with the party must not be compared with one without: the
//! difference would include the party's own processor time. Each run is therefore paired with a
//! *control* of the same load on the machine, in which the same party connects to a second node of
//! the same kind, without trading. The remaining effect on the good sessions is the machine's, and
//! the ratio of the two runs is the node's. The control of a session that does not read is the same
//! session reading. The first four parties run only on idle cores (`SCHED_IDLE`), the others at the
//! priority of any process, in both runs of a pair.
//!
//! - [`party`]: the parties' process and the first of them.
//! - [`hostile`]: a thousand hostile connections.
//! - [`resume`], [`mass_cancel`], [`supervisor`], [`disk`]: the others; [`history`]: the old events
//!   that two of them read.
//! - [`rig`]: the nodes, the good sessions, one run.

mod disk;
mod history;
pub mod hostile;
mod mass_cancel;
mod party;
mod resume;
mod rig;
mod supervisor;

use std::time::Duration;

use party::{Order, PartyKind, Priority};
use serde_json::{Value, json};
use weir_cli::endpoint::span;
use weir_client::clock::sharpen_timers;
use weir_client::load::{Quantiles, Verdict};
use weir_types::Durability;

use crate::roundtrip::{Estimate, LargerPart, WorkDir, median_with_interval};

pub use party::{PartyArgs, run_party};
use rig::{Rig, Run, Setting};

/// The limit of the good sessions' figures, as a multiple of their control.
const GOAL: f64 = 1.10;

/// Timeouts that end nothing during a run, and little buffer space for a session that does not
/// read.
const PATIENT: &str = "[gateway]\nstall_max_ms = 60000\noutput_bytes_max = 65536\n";
/// Short timeouts, so that each expires in a run, and fewer places than a crowd of 1,000 needs.
const IMPATIENT: &str = "[gateway]\nlogon_timeout_ms = 1000\nstall_max_ms = 1000\n\
                         output_bytes_max = 65536\nlobby_per_address_max = 125\n";

/// As [`PATIENT`], with as few events in memory as a node may have, so that old ones are in files.
const FEW_IN_MEMORY: &str = "[gateway]\nstall_max_ms = 60000\noutput_bytes_max = 65536\n\
                             [events]\nmemory_bytes = 8388608\nsegment_bytes = 8388608\n";
/// As [`PATIENT`], with logs that lose their beginning: a mass cancel in each run fills a disk.
const BOUNDED: &str = "[gateway]\nstall_max_ms = 60000\noutput_bytes_max = 65536\n\
                       [retention]\ncommand_bytes = 536870912\nevent_bytes = 536870912\n";
/// As [`PATIENT`], with small segments and frequent snapshots, so that the disk has work.
const BUSY_DISK: &str = "[gateway]\nstall_max_ms = 60000\noutput_bytes_max = 65536\n\
                         [log]\nsegment_bytes = 1048576\n[events]\nsegment_bytes = 1048576\n\
                         [snapshots]\nevery_commands = 1000\n";

/// Options of `weir-bench isolation`.
#[derive(Clone, Debug, clap::Args)]
pub struct IsolationArgs {
    /// Pairs of runs of each scenario.
    #[arg(long, default_value_t = 15)]
    pairs: u32,
    /// Seconds of each run, without the preceding fifth that is not measured.
    #[arg(long, default_value_t = 1.5)]
    seconds: f64,
    /// Orders per second of the ten good sessions together.
    #[arg(long, default_value_t = 2_000)]
    rate: u32,
    /// The nodes' durability level.
    #[arg(long, default_value = "memory")]
    durability: Durability,
    /// Orders per second that the flooding session may send in the scenario with a throttle.
    #[arg(long, default_value_t = 1_000)]
    order_rate: u32,
    /// Hostile connections.
    #[arg(long, default_value_t = 1_000)]
    hostile: usize,
    /// Live orders of a mass cancel; a partition has places for 1,048,576.
    #[arg(long, default_value_t = 1_000_000)]
    mass_cancel: usize,
    /// The party's share of the cores: idle or normal; by default that of the scenario.
    #[arg(long)]
    party_priority: Option<Priority>,
    /// Only these scenarios: silent, flood, throttled, hostile, resume, mass-cancel, supervisor,
    /// stalled-disk.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Directory of the logs during the run; the system's temporary directory if absent.
    #[arg(long, value_name = "DIR")]
    dir: Option<std::path::PathBuf>,
}

/// A scenario: the party's kind, the nodes' configuration and the party's orders.
struct Scenario {
    name: &'static str,
    what: &'static str,
    kind: PartyKind,
    config: &'static str,
    is_throttled: bool,
    priority: Priority,
    /// The party's orders in the run and in its control.
    orders: [Order; 2],
}

/// The party at the first node, where the good sessions are, or at the second one.
const HERE_OR_THERE: [Order; 2] = [Order::To(0), Order::To(1)];

const SCENARIOS: [Scenario; 8] = [
    Scenario {
        name: "silent",
        what: "one session that everybody trades with does not read its reports",
        kind: PartyKind::Maker,
        config: PATIENT,
        is_throttled: false,
        priority: Priority::Idle,
        orders: [Order::SilentTo(0), Order::To(0)],
    },
    Scenario {
        name: "flood",
        what: "one session sends orders as fast as it can",
        kind: PartyKind::Flood,
        config: PATIENT,
        is_throttled: false,
        priority: Priority::Idle,
        orders: HERE_OR_THERE,
    },
    Scenario {
        name: "throttled",
        what: "the same, and its orders are refused beyond its rate",
        kind: PartyKind::Flood,
        config: PATIENT,
        is_throttled: true,
        priority: Priority::Idle,
        orders: HERE_OR_THERE,
    },
    Scenario {
        name: "hostile",
        what: "hostile connections of 13 kinds",
        kind: PartyKind::Hostile,
        config: IMPATIENT,
        is_throttled: false,
        priority: Priority::Idle,
        orders: HERE_OR_THERE,
    },
    Scenario {
        name: "resume",
        what: "two sessions resume from their first event again and again",
        kind: PartyKind::Resume,
        config: FEW_IN_MEMORY,
        is_throttled: false,
        priority: Priority::Normal,
        orders: HERE_OR_THERE,
    },
    Scenario {
        name: "mass-cancel",
        what: "one session cancels all its live orders at once",
        kind: PartyKind::MassCancel,
        config: BOUNDED,
        is_throttled: false,
        priority: Priority::Normal,
        orders: HERE_OR_THERE,
    },
    Scenario {
        name: "supervisor",
        what: "a supervisor reads all order state and all copies",
        kind: PartyKind::Supervisor,
        config: FEW_IN_MEMORY,
        is_throttled: false,
        priority: Priority::Normal,
        orders: HERE_OR_THERE,
    },
    Scenario {
        name: "stalled-disk",
        what: "the disk takes nothing for half of the time",
        kind: PartyKind::Disk,
        config: BUSY_DISK,
        is_throttled: false,
        priority: Priority::Normal,
        orders: HERE_OR_THERE,
    },
];

/// Runs the benchmark and prints its JSON object as the last line.
///
/// # Errors
/// A process that does not start, or a connection that ends.
pub fn run(args: IsolationArgs) -> anyhow::Result<()> {
    let in_range = args.seconds > 0.0 && args.seconds <= 60.0 && args.pairs > 0 && args.rate > 0;
    anyhow::ensure!(in_range, "--seconds up to 60, --pairs and --rate at least 1");
    for name in &args.only {
        let names = SCENARIOS.each_ref().map(|scenario| scenario.name);
        anyhow::ensure!(names.contains(&name.as_str()), "no scenario {name:?}: {names:?}");
    }
    sharpen_timers();
    let work = WorkDir::create(args.dir.as_deref())?;
    let mut scenarios = Vec::new();
    let wanted = |s: &&Scenario| args.only.is_empty() || args.only.iter().any(|n| n == s.name);
    for scenario in SCENARIOS.iter().filter(wanted) {
        eprintln!("\n{}: {}", scenario.name, scenario.what);
        let pairs = measure(scenario, &args, &work)?;
        tell(&pairs);
        scenarios.push(pairs.json(scenario, &setting(scenario, &args)));
    }
    let result = json!({
        "bench": "isolation",
        "pairs": args.pairs,
        "run_seconds": args.seconds,
        "rate": args.rate,
        "good_sessions": 10,
        "hostile_connections": args.hostile,
        "orders_of_the_mass_cancel": args.mass_cancel,
        "order_rate_of_the_throttled": args.order_rate,
        "durability": args.durability.to_string(),
        "wait": "park",
        "goal": GOAL,
        "generator_niceness": LargerPart::niceness(),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "scenarios": scenarios,
    });
    println!("{result}");
    Ok(())
}

/// The parameters of a scenario's runs.
fn setting(scenario: &Scenario, args: &IsolationArgs) -> Setting {
    let durability = match scenario.kind {
        // At `disk` and `os` each order waits for the disk by what the level promises.
        PartyKind::Disk => Durability::Memory,
        _ => args.durability,
    };
    Setting {
        kind: scenario.kind,
        durability,
        config: scenario.config,
        order_rate_max: if scenario.is_throttled { args.order_rate } else { 0 },
        rate: args.rate,
        run: Duration::from_secs_f64(args.seconds),
        count: match scenario.kind {
            PartyKind::MassCancel => args.mass_cancel,
            _ => args.hostile,
        },
        priority: args.party_priority.unwrap_or(scenario.priority),
    }
}

fn measure(scenario: &Scenario, args: &IsolationArgs, work: &WorkDir) -> anyhow::Result<Pairs> {
    let setting = setting(scenario, args);
    let mut rig = Rig::start(scenario.name, setting, work)?;
    let mut pairs = Pairs { with: Vec::new(), control: Vec::new() };
    let [with, control] = scenario.orders;
    for pair in 0..args.pairs {
        let seed = u64::from(pair) + 1;
        // The order alternates, so that neither side always follows the other.
        if pair % 2 == 0 {
            pairs.with.push(rig.run(with, seed)?);
            pairs.control.push(rig.run(control, seed)?);
        } else {
            pairs.control.push(rig.run(control, seed)?);
            pairs.with.push(rig.run(with, seed)?);
        }
    }
    Ok(pairs)
}

/// The runs of a scenario, in pairs.
struct Pairs {
    with: Vec<Run>,
    control: Vec<Run>,
}

type Pick = fn(&Quantiles) -> Option<u64>;

const PICKS: [(&str, Pick); 2] = [("p50", |q| Some(q.p50)), ("p99", |q| q.p99)];

/// The verdict on the goal from its interval.
fn judge(ratio: Estimate) -> &'static str {
    match ratio {
        Estimate { high, .. } if high <= GOAL => "met",
        Estimate { low, .. } if low > GOAL => "not met",
        _ => "not resolved",
    }
}

impl Pairs {
    /// The number of runs whose generator sent too many orders late. Their figures are valid all
    /// the same: they count from the actual send time.
    fn late_count(&self) -> usize {
        let runs = self.with.iter().chain(&self.control);
        runs.filter(|run| run.report.verdict != Verdict::Valid).count()
    }

    /// The ratio of the figure to its control's, pair by pair.
    fn ratio(&self, figure: impl Fn(&Run) -> Option<f64>) -> Option<Estimate> {
        let pairs = self.with.iter().zip(&self.control);
        let ratios: Option<Vec<f64>> =
            pairs.map(|(with, control)| Some(figure(with)? / figure(control)?.max(1.0))).collect();
        ratios.map(|mut r| median_with_interval(&mut r))
    }

    fn json(&self, scenario: &Scenario, setting: &Setting) -> Value {
        let mut value = json!({
            "scenario": scenario.name,
            "what": scenario.what,
            "durability": setting.durability.to_string(),
            "party_priority": setting.priority.to_string(),
            "late_runs": self.late_count(),
            "runs": self.with.len() + self.control.len(),
            "with": side_json(&self.with),
            "control": side_json(&self.control),
        });
        for (name, pick) in PICKS {
            let ratio = self.ratio(|run| latency(run, pick));
            value[format!("ratio_{name}")] = ratio.map_or(Value::Null, Estimate::json);
            value[format!("goal_{name}")] = json!(ratio.map_or("no verdict", judge));
        }
        value
    }
}

/// Latency from the actual send time, not from the due time: the node is not responsible for a late
/// generator on a shared core, and the next order does not wait for an answer.
fn latency(run: &Run, pick: Pick) -> Option<f64> {
    pick(&run.report.latency_from_sent).map(|ns| ns as f64)
}

fn latency_from_due(run: &Run, pick: Pick) -> Option<f64> {
    pick(&run.report.latency).map(|ns| ns as f64)
}

fn median(runs: &[Run], figure: impl Fn(&Run) -> f64) -> f64 {
    median_with_interval(&mut runs.iter().map(figure).collect::<Vec<_>>()).median
}

fn side_json(runs: &[Run]) -> Value {
    let of = |pick: Pick| median(runs, |run| latency(run, pick).unwrap_or(0.0));
    let from_due = |pick: Pick| median(runs, |run| latency_from_due(run, pick).unwrap_or(0.0));
    json!({
        "p50_ns": of(PICKS[0].1),
        "p99_ns": of(PICKS[1].1),
        "max_ns": runs.iter().map(|run| run.report.latency_from_sent.max).max(),
        "from_due_p50_ns": from_due(PICKS[0].1),
        "from_due_p99_ns": from_due(PICKS[1].1),
        "door_to_door_p50_ns": median(runs, |run| run.report.t0_to_t6.p50 as f64),
        "door_to_door_p99_ns":
            median(runs, |run| run.report.t0_to_t6.p99.unwrap_or(run.report.t0_to_t6.max) as f64),
        "late_share": median(runs, |run| run.report.late_share),
        "core_thread_cpu_ms": median(runs, |run| run.core.as_secs_f64() * 1e3),
        "nodes_cpu_ms": median(runs, |run| run.nodes.as_secs_f64() * 1e3),
        "party_did": median(runs, |run| run.party as f64),
    })
}

/// Prints the pairs in readable form.
fn tell(pairs: &Pairs) {
    for (side, runs) in [("with", &pairs.with), ("control", &pairs.control)] {
        let of = |pick: Pick| span(median(runs, |run| latency(run, pick).unwrap_or(0.0)) as u64);
        eprintln!(
            "  {side:<8} p50 {:>9} p99 {:>9}  order path's thread {:>5.0} ms, nodes {:>5.0} ms, \
             party did {:.0}",
            of(PICKS[0].1),
            of(PICKS[1].1),
            median(runs, |run| run.core.as_secs_f64() * 1e3),
            median(runs, |run| run.nodes.as_secs_f64() * 1e3),
            median(runs, |run| run.party as f64),
        );
    }
    eprintln!("  the generator was late in {} runs", pairs.late_count());
    for (name, pick) in PICKS {
        match pairs.ratio(|run| latency(run, pick)) {
            Some(ratio) => eprintln!("  {name} {ratio}, goal {GOAL:.2}: {}", judge(ratio)),
            None => eprintln!("  {name}: no verdict, too few orders"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_only_when_the_whole_interval_says_so() {
        let of = |low, high| judge(Estimate { median: f64::midpoint(low, high), low, high });
        assert_eq!(of(0.9, 1.1), "met");
        assert_eq!(of(0.9, 1.11), "not resolved");
        assert_eq!(of(1.11, 1.3), "not met");
    }
}
