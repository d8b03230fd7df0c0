//! The node as a process: its configuration, starts and stops, and its measurements from outside.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use weir_client::load::setup::fresh_key;
use weir_client::status::StatusPage;
use weir_types::Durability;
use weir_wire::session::ApiKey;

use super::TIMEOUT;
use super::http::get;

/// Segments that fill within seconds, a retention of a few of them, and frequent snapshots,
/// checkpoints and removals of ended orders. The published messages that are kept for requests fill
/// within a minute. Lines of the level `info` would tell each visit.
const CONFIG: &str = "\
[diagnostics]
level = \"warn\"
[web]
listen = \"127.0.0.1:0\"
[subscriptions]
listen = \"127.0.0.1:0\"
[log]
segment_bytes = 1048576
[events]
memory_bytes = 8388608
segment_bytes = 1048576
[snapshots]
every_commands = 5000
[delivery]
snapshot_every_bytes = 1048576
ended_orders_max = 10000
[gateway]
checkpoint_every_events = 10000
return_within_ms = 1000
[retention]
command_bytes = 4194304
event_bytes = 4194304
[market_publisher]
requests = \"127.0.0.1:0\"
checkpoint_every_events = 5000
messages_max = 100000
";
/// The group of the published market, at a port that is free at the time.
const GROUP: &str = "239.255.41.9";

/// The largest size of a log in bytes when all readers are done: its limit of 4 MiB, and the
/// snapshots' and checkpoints' needs.
const LOG_BYTES_MAX: u64 = 16 << 20;

/// The node's directory and the way to start it.
pub(super) struct Home {
    work: PathBuf,
    data: PathBuf,
    program: PathBuf,
    durability: Durability,
    key: ApiKey,
}

impl Home {
    /// Writes the configuration into `work`.
    pub(super) fn new(
        work: &Path,
        program: Option<PathBuf>,
        durability: Durability,
    ) -> anyhow::Result<Home> {
        let beside = || -> anyhow::Result<PathBuf> {
            Ok(std::env::current_exe().context("this program's own path")?.with_file_name("weir"))
        };
        let program = program.map_or_else(beside, Ok)?;
        let build = "build it in the same profile (cargo build --release -p weir) or name it";
        ensure!(program.is_file(), "{} does not exist: {build}", program.display());
        let port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
        // Behind the last section's keys.
        let config = format!("{CONFIG}group = \"{GROUP}:{port}\"\n");
        std::fs::write(work.join("weir.toml"), config)?;
        let (work, data) = (work.to_owned(), work.join("data"));
        Ok(Home { work, data, program, durability, key: fresh_key()? })
    }

    /// The key of session 1, the operator.
    pub(super) fn key(&self) -> ApiKey {
        self.key
    }

    /// The node's data.
    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    fn lines(&self) -> PathBuf {
        self.work.join("node.log")
    }

    /// Starts the node and waits until it is ready.
    pub(super) fn start(&self) -> anyhow::Result<Node> {
        let key: String = self.key.0.iter().map(|byte| format!("{byte:02x}")).collect();
        let lines = File::options().create(true).append(true).open(self.lines())?;
        let begun = Instant::now();
        let mut process = Command::new(&self.program)
            .arg("serve")
            .args(["--durability", &self.durability.to_string()])
            .args(["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .arg("--config")
            .arg(self.work.join("weir.toml"))
            .arg("--dir")
            .arg(&self.data)
            // Passed in the environment: arguments are visible to every user.
            .env("WEIR_BOOTSTRAP_KEY", key)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(lines)
            .spawn()
            .context("cannot start the node")?;
        let stdout = process.stdout.take().expect("it is piped");
        let mut ready = String::new();
        let read = BufReader::new(stdout).read_line(&mut ready);
        let wall = begun.elapsed();
        let listening = read.ok().and_then(|_| Listening::of(&ready));
        let Some(listening) = listening else {
            // It may have ended already; its lines have the reason.
            let _ = process.kill();
            let _ = process.wait();
            let said = std::fs::read_to_string(self.lines()).unwrap_or_default();
            bail!("the node did not start: {said}");
        };
        let start = StartCost::of(process.id(), wall)?;
        let subscriptions = subscriptions_at(&listening)?;
        let is_over = AtomicBool::new(false);
        Ok(Node { process, listening, subscriptions, start, is_over })
    }

    /// Stops the node by SIGTERM and waits for its end.
    pub(super) fn stop(&self, mut node: Node) -> anyhow::Result<()> {
        kill_process(node.pid(), Signal::TERM)?;
        let begun = Instant::now();
        loop {
            if let Some(status) = node.process.try_wait()? {
                ensure!(status.success(), "it ended with {status}");
                return Ok(());
            }
            ensure!(begun.elapsed() < TIMEOUT, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Verifies the trading partition's log and snapshots by `weir log verify`.
    pub(super) fn verify(&self) -> anyhow::Result<()> {
        let output = Command::new(&self.program)
            .args(["log", "verify", "--json", "--partition", "1", "--dir"])
            .arg(&self.data)
            .output()?;
        ensure!(output.status.success(), "{output:?}");
        Ok(())
    }

    /// Fails when the node said that something needs action.
    pub(super) fn check_lines(&self) -> anyhow::Result<()> {
        let said = std::fs::read_to_string(self.lines())?;
        let mut errors = said.lines().filter(|line| line.contains(" ERROR "));
        if let Some(first) = errors.next() {
            bail!("{} errors, the first one: {first}", 1 + errors.count());
        }
        Ok(())
    }
}

/// The addresses in the node's ready line.
#[derive(Clone, Copy, Debug)]
struct Listening {
    order_entry: SocketAddr,
    http: SocketAddr,
    web: SocketAddr,
}

impl Listening {
    fn of(ready: &str) -> Option<Listening> {
        let place = |name: &str| -> Option<SocketAddr> {
            let words = ready.strip_prefix("weir ready ")?.split_whitespace();
            words
                .filter_map(|word| word.split_once('='))
                .find(|(key, _)| *key == name)?
                .1
                .parse()
                .ok()
        };
        Some(Listening {
            order_entry: place("order-entry")?,
            http: place("http")?,
            web: place("web")?,
        })
    }
}

fn subscriptions_at(listening: &Listening) -> anyhow::Result<SocketAddr> {
    let status = StatusPage::fetch(&listening.http.to_string())?.json;
    let address = status["subscriptions"]["address"].as_str().and_then(|at| at.parse().ok());
    address.context("the status has no address of subscriptions")
}

/// The cost of a start, from that of the process until its ready line. The system has the work of a
/// process as of now alone, so it is read a moment behind the line, and the node's work in that
/// moment counts too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StartCost {
    /// The time that passed, which a machine with other work lengthens.
    pub(super) wall: Duration,
    /// The time of all threads on processors.
    pub(super) processor: Duration,
    /// The bytes that the process read: snapshots, checkpoints and logs.
    pub(super) read_bytes: u64,
}

impl StartCost {
    /// Reads the cost of a process whose ready line has just been read.
    fn of(process_id: u32, wall: Duration) -> anyhow::Result<StartCost> {
        let proc = PathBuf::from(format!("/proc/{process_id}"));
        let stat = std::fs::read_to_string(proc.join("stat"))?;
        let ticks = processor_ticks(&stat).context("no times in the process's stat")?;
        let io = std::fs::read_to_string(proc.join("io"))?;
        let read = io.lines().find_map(|line| line.strip_prefix("rchar:"));
        let read_bytes = read.and_then(|number| number.trim().parse::<u64>().ok());
        let tick = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        Ok(StartCost {
            wall,
            processor: Duration::from_nanos(ticks * tick),
            read_bytes: read_bytes.context("no rchar in the process's io")?,
        })
    }
}

/// The ticks of a process in user mode and in the kernel, of all of its threads: fields 14 and 15
/// of proc_pid_stat(5). Its name, in parentheses, may hold anything.
fn processor_ticks(stat: &str) -> Option<u64> {
    const USER: usize = 14;
    let (_, fields) = stat.rsplit_once(')')?;
    // The first one behind the name is the third.
    let mut times = fields.split_whitespace().skip(USER - 3).map(|field| field.parse::<u64>().ok());
    Some(times.next()?? + times.next()??)
}

/// A running node; it is killed when its handle is dropped.
pub(super) struct Node {
    process: Child,
    listening: Listening,
    subscriptions: SocketAddr,
    start: StartCost,
    is_over: AtomicBool,
}

/// A measurement of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Measured {
    pub(super) resident_bytes: u64,
    pub(super) anonymous_bytes: u64,
    pub(super) threads: u64,
    pub(super) descriptors: u64,
    /// Bytes of the disk that its files take.
    pub(super) disk_bytes: u64,
}

impl Node {
    pub(super) fn order_entry(&self) -> SocketAddr {
        self.listening.order_entry
    }

    pub(super) fn web(&self) -> SocketAddr {
        self.listening.web
    }

    pub(super) fn subscriptions(&self) -> SocketAddr {
        self.subscriptions
    }

    /// The cost of its start.
    pub(super) fn start(&self) -> StartCost {
        self.start
    }

    /// True from the moment at which the parties are to leave the node.
    pub(super) fn stop_parties(&self) -> &AtomicBool {
        &self.is_over
    }

    fn pid(&self) -> Pid {
        let pid = i32::try_from(self.process.id()).expect("an id of a process");
        Pid::from_raw(pid).expect("a child has an id")
    }

    /// Fails when the node is not ready, or does not tell its figures.
    pub(super) fn check_health(&self) -> anyhow::Result<()> {
        for path in ["/ready", "/metrics"] {
            let (code, body) = get(self.listening.http, path, "")?;
            ensure!(code == 200, "{path}: {code}: {body}");
        }
        Ok(())
    }

    /// Waits until both logs of the trading partition are within their limits.
    pub(super) fn wait_for_removals(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let bytes = self.partition_figures(["command_bytes", "event_bytes"])?;
            if bytes.iter().all(|bytes| *bytes <= LOG_BYTES_MAX) {
                return Ok(());
            }
            ensure!(begun.elapsed() < TIMEOUT, "{bytes:?} bytes of commands and events remain");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the market is published; fails when a checkpoint of it, without which its event
    /// log keeps all, could not be written.
    pub(super) fn wait_for_publisher(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let status = StatusPage::fetch(&self.listening.http.to_string())?.json;
            let publish = &status["publish"][0];
            let number = |name: &str| publish[name].as_u64().with_context(|| format!("no {name}"));
            ensure!(number("checkpoint_failures")? == 0, "no checkpoint: {publish}");
            if publish["is_live"] == true && number("packets")? > 0 {
                return Ok(());
            }
            ensure!(begun.elapsed() < TIMEOUT, "it is not published: {publish}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The positions of the first retained command and event of the trading partition.
    pub(super) fn first_retained(&self) -> anyhow::Result<[u64; 2]> {
        self.partition_figures(["commands_from", "events_from"])
    }

    fn partition_figures(&self, names: [&str; 2]) -> anyhow::Result<[u64; 2]> {
        let status = StatusPage::fetch(&self.listening.http.to_string())?.json;
        let mut rows = status["partitions"].as_array().into_iter().flatten();
        let row = rows.find(|row| row["id"] == 1).context("the status has no partition 1")?;
        let number = |name: &str| row[name].as_u64().with_context(|| format!("no {name}: {row}"));
        Ok([number(names[0])?, number(names[1])?])
    }

    /// Measures the process, and the files below `data`.
    pub(super) fn measure(&self, data: &Path) -> anyhow::Result<Measured> {
        let proc = PathBuf::from(format!("/proc/{}", self.process.id()));
        let status = std::fs::read_to_string(proc.join("status"))?;
        let field = |name: &str| -> anyhow::Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            number.with_context(|| format!("no {name} in the process's status"))
        };
        Ok(Measured {
            resident_bytes: field("VmRSS:")? * 1024,
            anonymous_bytes: field("RssAnon:")? * 1024,
            threads: field("Threads:")?,
            descriptors: std::fs::read_dir(proc.join("fd"))?.count() as u64,
            disk_bytes: disk_bytes(data),
        })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // A node that has ended has reported its own error; nothing is left to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The bytes that the files below `dir` take; files may go meanwhile.
fn disk_bytes(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_names_three_addresses() {
        let ready = "weir ready order-entry=127.0.0.1:1 http=127.0.0.1:2 web=127.0.0.1:3\n";
        let listening = Listening::of(ready).unwrap();
        let ports = [listening.order_entry, listening.http, listening.web].map(|at| at.port());
        assert_eq!(ports, [1, 2, 3]);
        for line in ["", "weir ready order-entry=127.0.0.1:1 http=127.0.0.1:2\n", "weir is not"] {
            assert!(Listening::of(line).is_none(), "{line:?}");
        }
    }

    #[test]
    fn the_time_of_a_process_on_processors_is_behind_its_name() {
        let stat = "7 (weir) 1 2) S 1 7 7 0 -1 0 1 2 3 4 250 30 0 0 20 0 9 0 99 1 1\n";
        assert_eq!(processor_ticks(stat), Some(280));
        for stat in ["", "7 (weir", "7 (weir) S 1 7 7 0 -1 0 1 2 3 4 250"] {
            assert_eq!(processor_ticks(stat), None, "{stat:?}");
        }
        let own = StartCost::of(std::process::id(), Duration::ZERO).unwrap();
        assert!(own.read_bytes > 0, "{own:?}");
    }

    #[test]
    fn the_disk_of_a_directory_is_that_of_all_files_below_it() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(disk_bytes(dir.path()), 0);
        std::fs::create_dir(dir.path().join("below")).unwrap();
        std::fs::write(dir.path().join("below/file"), vec![1; 8192]).unwrap();
        assert!(disk_bytes(dir.path()) >= 8192);
        assert_eq!(disk_bytes(&dir.path().join("none")), 0);
    }
}
