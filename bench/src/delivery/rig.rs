//! The set-up of the delivery benchmarks: a node with an ingest listener, and emulators.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use weir_cli::endpoint::hex;
use weir_client::clock::WaitStrategy;
use weir_client::status::StatusPage;
use weir_types::Durability;

use crate::programs;
use crate::roundtrip::{Child, WorkDir};

/// The first source, and the session that feeds it.
pub(super) const FIRST_SOURCE: u16 = 40;
const FIRST_SESSION: u16 = 30;

/// The processor time of a node's threads over a span of time, by name.
pub(super) type ThreadTimes = BTreeMap<String, Duration>;

/// The configuration of the listeners behind [`Doors`].
pub(super) const DOORS: &str =
    "[web]\nlisten = \"127.0.0.1:0\"\n[subscriptions]\nlisten = \"127.0.0.1:0\"\n";

/// The addresses of a node's listeners.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doors {
    /// Order entry, and order state by token.
    pub(super) orders: SocketAddr,
    /// HTTP and WebSocket.
    pub(super) web: SocketAddr,
    /// Durable subscriptions.
    pub(super) subscriptions: SocketAddr,
}

/// A node with sources.
pub(super) struct Rig {
    pub(super) node: Child,
    _work: WorkDir,
}

impl Rig {
    /// Starts a node that takes `sources` cores and `connections` clients.
    pub(super) fn start(sources: u16, connections: u32) -> anyhow::Result<Rig> {
        Rig::start_with(sources, connections, "")
    }

    /// As [`Rig::start`], with more lines of configuration.
    pub(super) fn start_with(sources: u16, connections: u32, more: &str) -> anyhow::Result<Rig> {
        let work = WorkDir::create(None)?;
        let mut text = format!(
            "{more}\n[gateway]\nconnections_max = {connections}\n\n\
             [ingest]\nlisten = \"127.0.0.1:0\"\n"
        );
        for index in 0..sources {
            let (source, session) = (FIRST_SOURCE + index, FIRST_SESSION + index);
            text += &format!("\n[[ingest.source]]\nid = {source}\nsession = {session}\n");
        }
        let config = work.path().join("node.toml");
        std::fs::write(&config, text)?;
        let config = config.to_str().context("the directory's name is not UTF-8")?;
        let (level, wait) = (Durability::Memory, WaitStrategy::Park);
        let node = Child::node_with("node", level, wait, &["--config", config], &work)?;
        Ok(Rig { node, _work: work })
    }

    /// The node's listeners, if its configuration has [`DOORS`].
    pub(super) fn doors(&self) -> anyhow::Result<Doors> {
        Ok(Doors {
            orders: self.node.address(),
            web: self.node.listener("web")?,
            subscriptions: self.node.listener("subscriptions")?,
        })
    }

    /// Starts a core; on return it has filled the store and waits for [`Emulator::begin`].
    pub(super) fn core(&self, options: &[&str]) -> anyhow::Result<Emulator> {
        Emulator::start(&self.node, "core", options)
    }

    /// Starts clients; on return they know all orders and wait for [`Emulator::begin`].
    pub(super) fn clients(&self, options: &[&str]) -> anyhow::Result<Emulator> {
        let source = FIRST_SOURCE.to_string();
        Emulator::start(&self.node, "clients", &[&["--source", &source], options].concat())
    }

    /// The number of rows that the first source's store has ingested.
    pub(super) fn rows(&self) -> anyhow::Result<u64> {
        self.of_first_source("/rows")
    }

    /// The bytes that the first source's store has allocated.
    pub(super) fn store_bytes(&self) -> anyhow::Result<u64> {
        self.of_first_source("/memory_bytes")
    }

    fn of_first_source(&self, pointer: &str) -> anyhow::Result<u64> {
        let page = StatusPage::fetch(&self.node.http().to_string())?;
        let value = page.json["ingest"]["sources"][0].pointer(pointer).and_then(|v| v.as_u64());
        value.with_context(|| format!("the status page has no {pointer} of a source"))
    }

    /// The processor time of the node's threads since an earlier reading.
    pub(super) fn threads_since(&self, before: &ThreadTimes) -> anyhow::Result<ThreadTimes> {
        let mut after = self.node.thread_times()?;
        for (name, time) in &mut after {
            *time = time.saturating_sub(before.get(name).copied().unwrap_or_default());
        }
        Ok(after)
    }
}

/// A `weir emulate` process, which waits for its start and prints one JSON object at its end.
pub(super) struct Emulator {
    process: std::process::Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    name: &'static str,
}

impl Emulator {
    fn start(node: &Child, name: &'static str, options: &[&str]) -> anyhow::Result<Emulator> {
        let mut process = programs::weir()?
            .args(["emulate", name, "--json", "--wait-for-start"])
            .args(["--node", &node.address().to_string(), "--http", &node.http().to_string()])
            .args(options)
            // Passed in the environment: arguments are visible to every user.
            .env("WEIR_API_KEY", hex(&node.key().0))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start an emulator of {name}"))?;
        let stdin = process.stdin.take();
        let stdout = BufReader::new(process.stdout.take().expect("it was asked for"));
        let mut emulator = Emulator { process, stdin, stdout, name };
        let line = emulator.line()?;
        ensure!(line.starts_with("weir ready"), "the emulator of {name} did not get ready");
        Ok(emulator)
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        Ok(line)
    }

    /// Starts the emulation.
    pub(super) fn begin(&mut self) -> anyhow::Result<()> {
        let mut stdin = self.stdin.take().context("it has begun")?;
        writeln!(stdin).with_context(|| format!("the emulator of {} is gone", self.name))
    }

    /// Waits for the end; returns the report.
    pub(super) fn finish(mut self) -> anyhow::Result<Value> {
        let line = self.line()?;
        let mut value: Value = serde_json::from_str(&line)
            .with_context(|| format!("the emulator of {} said {line:?}", self.name))?;
        Ok(value["report"].take())
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // A process that has already ended has reported its own error; nothing is left to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A class of a crowd's report.
pub(super) fn class<'a>(report: &'a Value, name: &str) -> &'a Value {
    let classes = report["classes"].as_array().map_or(&[][..], Vec::as_slice);
    classes.iter().find(|class| class["class"] == name).unwrap_or(&Value::Null)
}

/// A number of a report; zero if absent, as for a percentile with too few samples.
pub(super) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

/// Converts thread times to shares of one core.
pub(super) fn shares(times: &ThreadTimes, span: Duration) -> Value {
    let share = |time: &Duration| (time.as_secs_f64() / span.as_secs_f64() * 1e4).round() / 1e4;
    times
        .iter()
        .filter(|(_, time)| !time.is_zero())
        .map(|(name, time)| (name.clone(), Value::from(share(time))))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
