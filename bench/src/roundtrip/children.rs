//! The processes that a benchmark measures, a node and an echo, and their working directory.
//!
//! A node is the shipped `weir`, an echo this program. A child is killed when its handle is
//! dropped; the directory is removed with its handle.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::programs;
use anyhow::Context;
use weir_cli::endpoint::hex;
use weir_client::Target;
use weir_client::clock::WaitStrategy;
use weir_client::load::setup::fresh_key;
use weir_tls::ClientTls;
use weir_tls::authority::{Authority, Usage};
use weir_tls::client::Trust;
use weir_types::Durability;
use weir_wire::session::ApiKey;

/// The listening address of a node under measurement.
pub(crate) const LISTEN: &str = "127.0.0.1:0";
const LISTEN_ANY: &str = "0.0.0.0:0";

/// A directory that is removed when its handle is dropped.
#[derive(Debug)]
pub(crate) struct WorkDir {
    path: PathBuf,
}

impl WorkDir {
    /// Creates a directory in `parent`, or in the system's temporary directory.
    pub(crate) fn create(parent: Option<&Path>) -> anyhow::Result<WorkDir> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("weir-bench-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot make {}", path.display()))?;
        Ok(WorkDir { path })
    }

    /// The path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The type of its file system, as the kernel names it.
    pub(crate) fn file_system(&self) -> Option<String> {
        let path = self.path.canonicalize().ok()?;
        let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
        mounts
            .lines()
            .filter_map(|line| {
                let mut words = line.split(' ').skip(1);
                Some((words.next()?, words.next()?))
            })
            .filter(|(mount, _)| path.starts_with(mount))
            .max_by_key(|(mount, _)| mount.len())
            .map(|(_, kind)| kind.to_owned())
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            eprintln!("weir: {} stays behind: {error}", self.path.display());
        }
    }
}

/// The certificates of a run, in its directory.
#[derive(Debug)]
pub(super) struct Certificates {
    certificate: PathBuf,
    key: PathBuf,
    /// The authority's certificate, for further processes.
    pub(super) ca: PathBuf,
    tls: ClientTls,
}

/// The server name in the certificates.
pub(super) const SERVER_NAME: &str = "weir.bench";

impl Certificates {
    /// Creates the certificates.
    pub(super) fn make(work_dir: &WorkDir) -> anyhow::Result<Certificates> {
        let authority = Authority::new("weir bench")?;
        let signed = authority.sign(&[SERVER_NAME], Usage::Server)?;
        let path = |name: &str| work_dir.path.join(name);
        let (certificate, key, ca) = (path("node.pem"), path("node.key"), path("ca.pem"));
        std::fs::write(&certificate, signed.certificate)?;
        weir_io::durable::write_file(&key, signed.key.as_bytes(), 0o600)?;
        std::fs::write(&ca, authority.certificate())?;
        let tls = ClientTls::new(Trust::Authority(&ca), SERVER_NAME)?;
        Ok(Certificates { certificate, key, ca, tls })
    }

    /// The options with which a process presents them.
    fn options(&self) -> [String; 4] {
        let path = |path: &Path| path.display().to_string();
        let (certificate, key) = (path(&self.certificate), path(&self.key));
        ["--tls-certificate".to_owned(), certificate, "--tls-key".to_owned(), key]
    }
}

/// The processor time of a child's threads.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuTime {
    /// The time of all threads.
    pub(crate) all: Duration,
    /// The time of the requested thread.
    pub(crate) named: Duration,
}

/// A node to be started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeSetting<'a> {
    /// The name of its directory.
    pub(crate) name: &'a str,
    pub(crate) listen: &'a str,
    pub(crate) durability: Durability,
    pub(crate) wait: WaitStrategy,
    /// Further options of `weir serve`.
    pub(crate) options: &'a [&'a str],
}

/// A process under measurement.
#[derive(Debug)]
pub(crate) struct Child {
    process: std::process::Child,
    address: SocketAddr,
    /// The line by which it told that it is ready.
    ready: String,
    key: ApiKey,
    tls: Option<ClientTls>,
}

impl Child {
    /// Starts an echo.
    pub(super) fn echo(wait: WaitStrategy, work_dir: &WorkDir) -> anyhow::Result<Child> {
        let arguments = ["echo", "--wait", &wait.to_string()].map(str::to_owned);
        Child::start(
            programs::this()?,
            &arguments,
            ApiKey([0; 32]),
            &work_dir.path.join("echo.log"),
        )
    }

    /// Starts a bare relay to an address.
    pub(crate) fn relay(to: SocketAddr, work_dir: &WorkDir) -> anyhow::Result<Child> {
        let arguments = ["relay", "--to", &to.to_string()].map(str::to_owned);
        let log = work_dir.path.join("relay.log");
        Child::start(programs::this()?, &arguments, ApiKey([0; 32]), &log)
    }

    /// Starts a node with its own log.
    pub(super) fn node(
        durability: Durability,
        wait: WaitStrategy,
        work_dir: &WorkDir,
    ) -> anyhow::Result<Child> {
        let name = format!("node-{durability}-{wait}");
        Child::node_with(&name, durability, wait, &[], work_dir)
    }

    /// Starts a node with its own log under `name`, with further options of `weir serve`.
    pub(crate) fn node_with(
        name: &str,
        durability: Durability,
        wait: WaitStrategy,
        options: &[&str],
        work_dir: &WorkDir,
    ) -> anyhow::Result<Child> {
        let setting = NodeSetting { name, listen: LISTEN, durability, wait, options };
        Child::node_of(&setting, programs::weir()?, work_dir)
    }

    /// Starts a node by `program`, which may have an environment of its own.
    pub(crate) fn node_of(
        setting: &NodeSetting<'_>,
        program: Command,
        work_dir: &WorkDir,
    ) -> anyhow::Result<Child> {
        let NodeSetting { name, listen, durability, wait, options } = *setting;
        let key = fresh_key()?;
        let dir = work_dir.path.join(name);
        let mut arguments = [
            "serve",
            "--dir",
            dir.to_str().context("the directory's name is not UTF-8")?,
            "--durability",
            &durability.to_string(),
            "--listen",
            listen,
            "--http",
            "127.0.0.1:0",
            "--wait",
            &wait.to_string(),
        ]
        .map(str::to_owned)
        .to_vec();
        arguments.extend(options.iter().map(|option| (*option).to_owned()));
        Child::start(program, &arguments, key, &work_dir.path.join(format!("{name}.log")))
    }

    fn start(
        mut program: Command,
        arguments: &[String],
        key: ApiKey,
        log: &Path,
    ) -> anyhow::Result<Child> {
        let mut process = program
            .args(arguments)
            // Passed in the environment: arguments are visible to every user.
            .env("WEIR_BOOTSTRAP_KEY", hex(&key.0))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(log).context("a child's log")?)
            .spawn()
            .context("cannot start a child")?;
        let stdout = process.stdout.take().expect("it was asked for");
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        let ready = read.ok().and_then(|_| ready_address(&line, "order-entry="));
        match ready {
            Some(address) => Ok(Child { process, address, ready: line, key, tls: None }),
            None => {
                // It may have ended already; its log has the reason.
                let _ = process.kill();
                let _ = process.wait();
                let said = std::fs::read_to_string(log).unwrap_or_default();
                anyhow::bail!("`weir {}` did not start: {said}", arguments.join(" "))
            }
        }
    }

    /// Stops the process, so that it does not disturb a measurement, or continues it.
    pub(super) fn pause(&self, paused: bool) -> anyhow::Result<()> {
        use rustix::process::{Pid, Signal, kill_process};
        let signal = if paused { Signal::STOP } else { Signal::CONT };
        let pid = Pid::from_raw(i32::try_from(self.process.id())?).context("a child has an id")?;
        kill_process(pid, signal).with_context(|| format!("process {pid} cannot be paused"))
    }

    /// The processor time of its threads so far: of all, and of the one with this name.
    pub(crate) fn cpu_time(&self, name: &str) -> anyhow::Result<CpuTime> {
        let times = self.thread_times()?;
        let named = times.get(name).copied().unwrap_or_default();
        Ok(CpuTime { all: times.values().sum(), named })
    }

    /// The processor time of the process so far, with that of threads that have ended, in steps of
    /// a clock tick (10 ms on Linux).
    pub(crate) fn processor_time(&self) -> anyhow::Result<Duration> {
        let path = format!("/proc/{}/stat", self.process.id());
        let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
        // The name in parentheses may have spaces; utime and stime are fields 14 and 15 of the line
        // (proc_pid_stat(5)).
        let behind_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
        let mut fields = behind_name.split_whitespace().skip(11);
        let mut ticks = || fields.next().and_then(|field| field.parse::<u64>().ok());
        let (user, system) = ticks().zip(ticks()).with_context(|| format!("{path}: no times"))?;
        let per_second = rustix::param::clock_ticks_per_second();
        Ok(Duration::from_secs_f64((user + system) as f64 / per_second as f64))
    }

    /// Starts an echo for many connections, over rustls if there are certificates.
    pub(super) fn echo_for_many(
        certificates: Option<&Certificates>,
        work_dir: &WorkDir,
    ) -> anyhow::Result<Child> {
        let mut arguments = ["echo", "--many"].map(str::to_owned).to_vec();
        arguments.extend(certificates.iter().flat_map(|found| found.options()));
        let mut child = Child::start(
            programs::this()?,
            &arguments,
            ApiKey([0; 32]),
            &work_dir.path.join("many.log"),
        )?;
        child.tls = certificates.map(|found| found.tls.clone());
        Ok(child)
    }

    /// As [`Child::node`], with idle threads parked and TLS if there are certificates; listens on
    /// every loopback address ([`Child::address_at`]).
    pub(super) fn node_for_many(
        durability: Durability,
        certificates: Option<&Certificates>,
        work_dir: &WorkDir,
    ) -> anyhow::Result<Child> {
        let options: Vec<_> = certificates.iter().flat_map(|found| found.options()).collect();
        let mut options: Vec<_> = options.iter().map(String::as_str).collect();
        let name = format!("many-{durability}-{}", if options.is_empty() { "tcp" } else { "tls" });
        options.push("--clear-text-allowed");
        let wait = WaitStrategy::Park;
        let (name, listen, options) = (&*name, LISTEN_ANY, &*options);
        let setting = NodeSetting { name, listen, durability, wait, options };
        let mut child = Child::node_of(&setting, programs::weir()?, work_dir)?;
        child.address.set_ip(Ipv4Addr::LOCALHOST.into());
        child.tls = certificates.map(|found| found.tls.clone());
        Ok(child)
    }

    /// The address and TLS settings for clients.
    pub(crate) fn target(&self) -> Target {
        Target::of(self.address, self.tls.clone())
    }

    /// The resident memory in bytes.
    pub(crate) fn resident_bytes(&self) -> anyhow::Result<u64> {
        self.mapped_bytes("Rss:")
    }

    /// The memory without a file behind it, in bytes: allocated and touched.
    pub(crate) fn anonymous_bytes(&self) -> anyhow::Result<u64> {
        self.mapped_bytes("Anonymous:")
    }

    fn mapped_bytes(&self, name: &str) -> anyhow::Result<u64> {
        let path = format!("/proc/{}/smaps_rollup", self.process.id());
        let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        Ok(kib.with_context(|| format!("{path} tells no {name}"))? * 1024)
    }

    /// The loopback address number `index`, on which a node for many also listens. Each pair of
    /// addresses has some 28,000 ports for connecting, and finding a free one takes longer the
    /// fewer are left: milliseconds with 12,000 taken.
    pub(super) fn address_at(&self, index: usize) -> SocketAddr {
        let octets = u16::try_from(index).expect("few addresses are in use").to_be_bytes();
        SocketAddr::new(Ipv4Addr::new(127, 1, octets[0], octets[1]).into(), self.address.port())
    }

    /// The listening address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of a node's status page.
    ///
    /// # Panics
    /// If the child is not a node.
    pub(crate) fn http(&self) -> SocketAddr {
        ready_address(&self.ready, "http=").expect("a node has a status page")
    }

    /// The address of a node's further listener, by its name in the ready line.
    pub(crate) fn listener(&self, name: &str) -> anyhow::Result<SocketAddr> {
        ready_address(&self.ready, &format!("{name}="))
            .with_context(|| format!("the node has no listener {name}"))
    }

    /// The processor time of each of its threads so far, by name; threads of one name are summed.
    pub(crate) fn thread_times(&self) -> anyhow::Result<BTreeMap<String, Duration>> {
        thread_times(self.process.id())
    }

    /// The key of session 1.
    pub(crate) fn key(&self) -> ApiKey {
        self.key
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // A child that has already ended has reported its own error; nothing is left to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The processor time of all threads of a process so far.
pub(crate) fn process_time(pid: u32) -> anyhow::Result<Duration> {
    Ok(thread_times(pid)?.values().sum())
}

fn thread_times(pid: u32) -> anyhow::Result<BTreeMap<String, Duration>> {
    let mut times = BTreeMap::new();
    let tasks = format!("/proc/{}/task", pid);
    for task in std::fs::read_dir(&tasks).with_context(|| tasks.clone())? {
        let path = task?.path();
        let read = |file: &str| std::fs::read_to_string(path.join(file));
        // A thread may end meanwhile; the node's own do not.
        let (Ok(schedstat), Ok(thread)) = (read("schedstat"), read("comm")) else { continue };
        // The first field is nanoseconds on a core (Linux, Documentation/scheduler/sched-stats).
        let ns = schedstat.split(' ').next().and_then(|field| field.parse().ok());
        let spent = Duration::from_nanos(ns.with_context(|| format!("{tasks}: no times"))?);
        *times.entry(thread.trim().to_owned()).or_default() += spent;
    }
    Ok(times)
}

/// Parses an address in `weir ready order-entry=ADDRESS http=ADDRESS`.
fn ready_address(line: &str, name: &str) -> Option<SocketAddr> {
    let words = line.strip_prefix("weir ready ")?;
    words.split_whitespace().find_map(|word| word.strip_prefix(name))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_tells_the_address() {
        let cases = [
            ("weir ready order-entry=127.0.0.1:7001 http=127.0.0.1:7080\n", true),
            ("weir ready http=127.0.0.1:7080 order-entry=[::1]:5\n", true),
            ("weir is not ready\n", false),
            ("", false),
        ];
        for (line, want) in cases {
            assert_eq!(ready_address(line, "order-entry=").is_some(), want, "{line:?}");
        }
    }
}
