//! `weir-bench starts`: the start of a node by the number of commands that it has taken.
//!
//! A node takes orders from `weir load` at level `os` until it has so many commands, is killed and
//! started again several times. The loads are as fast as the node, with pauses in which the event
//! files and the order store catch up: of a lasting load that they cannot follow, a node keeps all
//! events. Each start is timed from the process's beginning to the line that the node is ready,
//! with the files in the system's cache. The node has a retention, so that the sizes of its logs
//! end to grow; with `--keep-all` it has none, for comparison.

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

/// The duration of one load; between loads the commands are counted.
const LOAD_SECONDS: u64 = 5;
/// The time within which files and order store have all events of a load.
const SETTLE_MAX: Duration = Duration::from_secs(600);

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
    let (mut points, mut loads) = (Vec::new(), 0);
    for commands in &args.commands {
        let node = Node::start(work_dir.path())?;
        while node.partition()?.0 < *commands {
            node.load(&mut loads)?;
            node.settle()?;
        }
        drop(node);
        let point = measure(args, work_dir.path())?;
        println!("{point}");
        points.push(point);
    }
    let seconds = |point: &Value| point["seconds"].as_f64().unwrap_or(f64::NAN);
    let (first, last) = (&points[0], &points[points.len() - 1]);
    let line = json!({
        "bench": "starts",
        "durability": "os",
        "retention_bytes": (!args.keep_all).then_some(args.retention_bytes),
        "starts": args.starts,
        "seconds": last["seconds"],
        "commands": last["commands"],
        "over_first": seconds(last) / seconds(first),
        "log_bytes": last["log_bytes"],
        "points": points,
    });
    println!("{line}");
    Ok(())
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
        let said = std::fs::read_to_string(&self.log).context("the node's log")?;
        let lines = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let lines: Vec<Value> = lines.collect();
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

    /// Returns the position of the trading partition, and its figures.
    fn partition(&self) -> anyhow::Result<(u64, Value)> {
        let page = StatusPage::fetch(&self.http)?.json;
        let row = trading(&page)?;
        let position = row["position"].as_u64().context("a position")?;
        Ok((position, row.clone()))
    }

    /// Sends orders for a while.
    fn load(&self, loads: &mut u32) -> anyhow::Result<()> {
        *loads += 1;
        let mut load: Command = programs::weir()?;
        let output = load
            .args(["load", "--node", &self.address, "--http", &self.http])
            .arg("--dir")
            .arg(&self.dir)
            .args(["--in-flight", "1024", "--warm-up", "0s"])
            .args(["--duration", &format!("{LOAD_SECONDS}s")])
            .args(["--seed", &loads.to_string()])
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
            if row["event_in_files"] == row["events"] && page["delivery"]["events_behind"] == 0 {
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
