//! `weir-bench starts`: the start of a node by the number of commands that it has taken.
//!
//! A node takes orders from `weir load` at level `os` until it has so many commands, is killed and
//! started again several times. The loads are as fast as the node, with a window of a thousand
//! orders for each session, and end near the number of commands; between them are pauses in which
//! the event files and the order store catch up: of a lasting load that they cannot follow, a node
//! keeps all events. Each start is timed from the process's beginning to the line that the node is
//! ready, with the files in the system's cache. The node has a retention, so that the sizes of its
//! logs end to grow; with `--keep-all` it has none, for comparison.
//!
//! The last start is compared with the first one and the growth of the snapshots: the part of a
//! start in which order state reads its store is longer once that has all ended orders that it
//! keeps. It is excused by as much as the store's snapshot grew: a store that replays ever more
//! events behind the snapshot has no excuse.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use weir_client::status::StatusPage;

use crate::programs;
use crate::roundtrip::WorkDir;

/// The longest load in seconds: the files that its events need meanwhile are some 1.5 GB.
const LOAD_SECONDS_MAX: f64 = 10.0;
/// The orders under way: as many of each of the load's eight sessions as an engine remembers
/// outcomes.
const IN_FLIGHT: &str = "8192";
/// The rate in commands per second that the first load is planned with.
const RATE_AT_FIRST: f64 = 400_000.0;
/// The time within which files and order store have all events of a load.
const SETTLE_MAX: Duration = Duration::from_secs(600);
/// The longest time by which the log may be behind the node.
const LOG_MAX: Duration = Duration::from_secs(10);

/// Options of `weir-bench starts`.
#[derive(Debug, clap::Args)]
pub struct StartsArgs {
    /// Numbers of commands after which starts are measured, ascending, with commas between them.
    #[arg(long, value_delimiter = ',', default_value = "1000000,4000000,16000000",
          value_parser = programs::number::<u64>)]
    commands: Vec<u64>,
    /// The limit of each log in bytes; by default the least, three segments, so that the first
    /// million commands reach it.
    #[arg(long, default_value = "201326592", value_parser = programs::number::<u64>)]
    retention_bytes: u64,
    /// Keeps all commands and events.
    #[arg(long)]
    keep_all: bool,
    /// Starts after each number.
    #[arg(long, default_value_t = 5)]
    starts: u32,
    /// The directory of the node's files; by default the temporary directory.
    #[arg(long)]
    dir: Option<std::path::PathBuf>,
}

/// Runs the benchmark and prints its JSON object as the last line.
///
/// # Errors
/// A process that does not start, or a load that fails.
pub fn run(args: &StartsArgs) -> anyhow::Result<()> {
    ensure!(args.commands.is_sorted() && !args.commands.is_empty(), "--commands ascend");
    ensure!(args.starts > 0, "nothing to measure");
    let work_dir = WorkDir::create(args.dir.as_deref())?;
    write_config(args, work_dir.path())?;
    let (mut points, mut loads) = (Vec::new(), Loads::default());
    for commands in &args.commands {
        let node = Node::start(work_dir.path())?;
        loads.fill(&node, *commands)?;
        drop(node);
        let point = measure(args, work_dir.path())?;
        println!("after {:.0} s of loads and pauses: {point}", loads.seconds);
        points.push(point);
    }
    let (first, last) = (&points[0], &points[points.len() - 1]);
    let line = json!({
        "bench": "starts",
        "durability": "os",
        "retention_bytes": (!args.keep_all).then_some(args.retention_bytes),
        "starts": args.starts,
        "seconds": last["seconds"],
        "commands": last["commands"],
        "over_first": number(last, "seconds") / number(first, "seconds"),
        "over_first_and_snapshot": over_first_and_snapshot(first, last),
        "snapshot_growth_seconds": snapshot_growth(first, last),
        "told_parts": { "first": told_parts(first), "last": told_parts(last) },
        "log_bytes": last["log_bytes"],
        "load_seconds": loads.seconds,
        "points": points,
    });
    println!("{line}");
    Ok(())
}

/// Returns a number of a point; not a number where the point lacks it.
fn number(point: &Value, name: &str) -> f64 {
    point[name].as_f64().unwrap_or(f64::NAN)
}

/// The parts of a start that read a snapshot, each with the snapshot's size: the engine has trades
/// for busts and remembered answers in its own, the store ended orders.
const SNAPSHOTS: [(&str, &str); 2] = [
    ("recovery_seconds", "engine_snapshot_bytes"),
    ("order_state_seconds", "store_snapshot_bytes"),
];

/// Returns the seconds by which a start may read its snapshots longer at the last point than at the
/// first.
fn snapshot_growth(first: &Value, last: &Value) -> f64 {
    SNAPSHOTS.iter().map(|(seconds, bytes)| growth(first, last, seconds, bytes)).sum()
}

/// Returns the seconds by which one part took longer, up to the growth of its snapshot at the first
/// point's seconds for each byte.
fn growth(first: &Value, last: &Value, seconds: &str, bytes: &str) -> f64 {
    let [before, after] = [first, last].map(|point| number(point, seconds));
    let bytes = [first, last].map(|point| number(point, bytes));
    let (grown, excused) = (after - before, before * (bytes[1] / bytes[0] - 1.0));
    // The minimum and the maximum would hide a part that is missing, and no snapshot at first.
    if grown.is_finite() && excused.is_finite() { grown.min(excused).max(0.0) } else { f64::NAN }
}

/// Returns the time of the last start over that of the first one and the snapshots' growth.
fn over_first_and_snapshot(first: &Value, last: &Value) -> f64 {
    number(last, "seconds") / (number(first, "seconds") + snapshot_growth(first, last))
}

/// Returns the parts of a point's starts, and the seconds that are in none of them.
fn told_parts(point: &Value) -> Value {
    let parts = ["recovery_seconds", "gateway_seconds", "order_state_seconds"];
    let told: f64 = parts.iter().map(|name| number(point, name)).sum();
    let [recovery, gateway, order_state] = parts.map(|name| &point[name]);
    json!({
        "recovery_seconds": recovery,
        "gateway_seconds": gateway,
        "order_state_seconds": order_state,
        "other_seconds": number(point, "seconds") - told,
    })
}

/// The loads so far.
struct Loads {
    count: u32,
    /// Commands per second of the last one.
    rate: f64,
    /// The time of all of them, with the pauses behind them.
    seconds: f64,
}

impl Default for Loads {
    fn default() -> Loads {
        Loads { count: 0, rate: RATE_AT_FIRST, seconds: 0.0 }
    }
}

impl Loads {
    /// Loads a node until it has so many commands and its views have them all.
    fn fill(&mut self, node: &Node, commands: u64) -> anyhow::Result<()> {
        let begun = Instant::now();
        let mut position = node.partition()?.0;
        while position < commands {
            let wanted = (commands - position) as f64 / self.rate;
            // Whole tenths, so that the last one ends.
            let seconds = (wanted * 10.0).ceil().clamp(1.0, LOAD_SECONDS_MAX * 10.0) / 10.0;
            self.count += 1;
            node.load(seconds, self.count)?;
            let before = std::mem::replace(&mut position, node.partition()?.0);
            ensure!(position > before, "a load of {seconds} s brought no command");
            self.rate = (position - before) as f64 / seconds;
            node.settle()?;
        }
        self.seconds += begun.elapsed().as_secs_f64();
        Ok(())
    }
}

fn write_config(args: &StartsArgs, dir: &Path) -> anyhow::Result<()> {
    let bytes = args.retention_bytes;
    let mut text = "[snapshots]\nevery_commands = 250000\n".to_owned();
    if !args.keep_all {
        text += &format!("[retention]\ncommand_bytes = {bytes}\nevent_bytes = {bytes}\n");
    }
    std::fs::write(dir.join("weir.toml"), text).context("the node's configuration")
}

/// Starts the node several times; returns the median times and the sizes at the end.
fn measure(args: &StartsArgs, dir: &Path) -> anyhow::Result<Value> {
    let mut seconds = Vec::new();
    let mut parts: [Vec<f64>; 3] = Default::default();
    let mut last = (0, Value::Null);
    for _ in 0..args.starts {
        let begun = Instant::now();
        let node = Node::start(dir)?;
        seconds.push(begun.elapsed().as_secs_f64());
        let told = node.told_parts()?;
        parts.iter_mut().zip(told).for_each(|(all, one)| all.push(one));
        last = node.partition()?;
    }
    seconds.sort_by(f64::total_cmp);
    let [recovery, gateway, order_state] = parts.map(|mut all| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    });
    let (commands, row) = last;
    let files = ["commands", "events", "snapshots", "gateway", "store"];
    let sizes = files.map(|name| (name, bytes_in(&dir.join("node/partition-1").join(name))));
    Ok(json!({
        "commands": commands,
        "events": row["events"],
        "seconds": seconds[seconds.len() / 2],
        "seconds_min": seconds[0],
        "seconds_max": seconds[seconds.len() - 1],
        "recovery_seconds": recovery,
        "gateway_seconds": gateway,
        "order_state_seconds": order_state,
        "engine_snapshot_bytes": largest_file_in(&dir.join("node/partition-1/snapshots")),
        "store_snapshot_bytes": largest_file_in(&dir.join("node/partition-1/store")),
        "held_bytes": row["held_bytes"],
        "held_by": row["held_by"],
        "log_bytes": sizes[0].1 + sizes[1].1,
        "bytes": sizes.iter().map(|(name, bytes)| ((*name).to_owned(), json!(bytes)))
            .collect::<serde_json::Map<_, _>>(),
    }))
}

/// Returns the bytes of a directory's files.
fn bytes_in(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries.flatten().filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

/// Returns the bytes of a directory's largest file: of its snapshots the newest, or one as large.
fn largest_file_in(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let sizes = entries.flatten().filter_map(|entry| Some(entry.metadata().ok()?.len()));
    sizes.max().unwrap_or(0)
}

/// Returns the trading partition's row of a status page.
fn trading(page: &Value) -> anyhow::Result<&Value> {
    let rows = page["partitions"].as_array().context("the status has partitions")?;
    rows.iter().find(|row| row["id"] == 1).context("it trades")
}

/// A node as a process, killed when it is dropped.
struct Node {
    process: Child,
    address: String,
    http: String,
    dir: std::path::PathBuf,
    log: std::path::PathBuf,
}

impl Node {
    fn start(dir: &Path) -> anyhow::Result<Node> {
        let mut process = programs::weir()?
            .arg("serve")
            .arg("--config")
            .arg(dir.join("weir.toml"))
            .arg("--dir")
            .arg(dir.join("node"))
            .args(["--durability", "os", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .args(["--log-format", "json"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(dir.join("node.log")).context("the node's log")?)
            .spawn()
            .context("cannot start a node")?;
        let stdout = process.stdout.take().context("it was asked for")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).context("the node's ready line")?;
        let place = |name: &str| {
            let word = line.split_whitespace().find_map(|word| word.strip_prefix(name));
            word.map(str::to_owned).with_context(|| format!("no {name} in {line:?}"))
        };
        let (address, http) = (place("order-entry="), place("http="));
        let mut node = Node {
            process,
            address: String::new(),
            http: String::new(),
            dir: dir.join("node"),
            log: dir.join("node.log"),
        };
        // Assigned after the process has its owner, which ends it on an error.
        (node.address, node.http) = (address?, http?);
        Ok(node)
    }

    /// Returns the seconds of the parts of the start, as the node told them: the recovery of all
    /// partitions, the gateway, order state.
    fn told_parts(&self) -> anyhow::Result<[f64; 3]> {
        let lines = self.lines_to("ready")?;
        let sum = |message: &str, name: &str| -> anyhow::Result<f64> {
            let mut found = lines.iter().filter(|line| line["message"] == message).peekable();
            ensure!(found.peek().is_some(), "no line {message:?} in the node's log");
            let seconds = found.map(|line| line[name].as_f64());
            seconds.sum::<Option<f64>>().with_context(|| format!("no {name} in {message:?}"))
        };
        let recovery = sum("recovered", "seconds")?;
        let gateway = sum("views built", "gateway_seconds")?;
        Ok([recovery, gateway, sum("views built", "order_state_seconds")?])
    }

    /// Returns the lines of the log up to one with a message, once it is there: a thread of its own
    /// writes the log, a little behind the line that announces the node.
    fn lines_to(&self, message: &str) -> anyhow::Result<Vec<Value>> {
        let begun = Instant::now();
        loop {
            let said = std::fs::read_to_string(&self.log).context("the node's log")?;
            let lines = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let lines: Vec<Value> = lines.collect();
            if let Some(at) = lines.iter().position(|line| line["message"] == message) {
                return Ok(lines.into_iter().take(at + 1).collect());
            }
            ensure!(begun.elapsed() < LOG_MAX, "no line {message:?} in the node's log");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns the position of the trading partition, and its figures.
    fn partition(&self) -> anyhow::Result<(u64, Value)> {
        let page = StatusPage::fetch(&self.http)?.json;
        let row = trading(&page)?;
        let position = row["position"].as_u64().context("a position")?;
        Ok((position, row.clone()))
    }

    /// Sends orders for a while, by a seed.
    fn load(&self, seconds: f64, seed: u32) -> anyhow::Result<()> {
        let mut load: Command = programs::weir()?;
        let output = load
            .args(["load", "--node", &self.address, "--http", &self.http])
            .arg("--dir")
            .arg(&self.dir)
            .args(["--in-flight", IN_FLIGHT, "--warm-up", "0s"])
            .args(["--duration", &format!("{seconds:.1}s")])
            .args(["--seed", &seed.to_string()])
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "weir load: {said}");
        Ok(())
    }

    /// Waits until the event files and the order store are at the log's end.
    fn settle(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let page = StatusPage::fetch(&self.http)?.json;
            let row = trading(&page)?;
            if row["event_in_files"] == row["events"]
                && page["delivery"]["sources"][0]["events_behind"] == 0
            {
                return Ok(());
            }
            ensure!(begun.elapsed() < SETTLE_MAX, "the views do not come to the end: {page}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(seconds: f64, order_state: f64, snapshot_bytes: u64) -> Value {
        json!({
            "seconds": seconds,
            "recovery_seconds": 0.25,
            "gateway_seconds": 0.25,
            "order_state_seconds": order_state,
            "engine_snapshot_bytes": 100,
            "store_snapshot_bytes": snapshot_bytes,
        })
    }

    #[test]
    fn a_recovery_may_take_longer_by_the_growth_of_the_engines_snapshot() {
        let first = point(2.0, 0.5, 100);
        for (recovery, bytes, wanted) in [(0.75, 300, 1.0), (0.75, 200, 1.25 / 1.125)] {
            let mut last = point(2.5, 0.5, 100);
            last["recovery_seconds"] = json!(recovery);
            last["engine_snapshot_bytes"] = json!(bytes);
            let over = over_first_and_snapshot(&first, &last);
            assert!((over - wanted).abs() < 1e-9, "{over} for {last}");
        }
    }

    /// A store that replayed ever more events met the goal: all of its time was excused.
    #[test]
    fn a_start_may_take_longer_by_the_growth_of_the_snapshots_alone() {
        let first = point(2.0, 0.5, 100);
        for (last, wanted) in [
            (point(3.0, 1.5, 300), 1.0),
            (point(4.5, 1.5, 300), 1.5),
            // Order state took longer than its snapshot explains, by one second.
            (point(4.5, 3.0, 300), 1.5),
            (point(3.0, 1.5, 100), 1.5),
            // The snapshot grew, and is read as fast.
            (point(2.0, 0.5, 900), 1.0),
            // A snapshot that became smaller takes no time from the first start.
            (point(2.0, 0.25, 50), 1.0),
        ] {
            assert_eq!(over_first_and_snapshot(&first, &last), wanted, "{last}");
        }
        for lacking in [json!({ "seconds": 2.0 }), json!({ "order_state_seconds": 1.5 })] {
            assert!(over_first_and_snapshot(&first, &lacking).is_nan(), "{lacking}");
        }
        let none = point(2.0, 0.5, 0);
        assert!(over_first_and_snapshot(&none, &point(4.0, 2.5, 300)).is_nan(), "no snapshot");
        assert_eq!(told_parts(&first)["other_seconds"], 1.0);
    }
}
