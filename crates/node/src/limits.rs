//! The system's limits on the process, compared with the needs of a configuration.
//!
//! A node starts below its needs too: the limits matter when the connections come that the
//! configuration permits. A shortage is told at the start, in one line with the remedy. Only memory
//! that `[engine.limits]` promises to the engines must be there ([`engine_memory`]).

use std::path::Path;

use anyhow::ensure;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use weir_io::SyncStrategy;
use weir_io::descriptors::RESERVE_MAX;
use weir_partition::recovery::EngineMemory;

use crate::config::{Config, LimitsSection};
use crate::http::CONNECTIONS_MAX;

/// Descriptors kept from connections for each partition beyond the first: the segments of its logs
/// that are open and the next ones, its snapshots, its order store, rings, and the sockets of its
/// channel.
const RESERVE_OF_PARTITION: u64 = 32;
/// Locked memory that the rings of io_uring of one partition need, in bytes, on kernels that count
/// it, and those of each further one.
const LOCKED_MAX: u64 = 8 << 20;
const LOCKED_OF_PARTITION: u64 = 1 << 20;
/// The first kernel that does not count io_uring's rings as locked memory.
const RINGS_UNCOUNTED: [u32; 2] = [5, 12];

/// The limits of a process; `None` for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Open files: `RLIMIT_NOFILE`.
    pub open_files: Option<u64>,
    /// The length of a file in bytes: `RLIMIT_FSIZE`.
    pub file_bytes: Option<u64>,
    /// Locked memory in bytes: `RLIMIT_MEMLOCK`; `None` also where nothing counts against it.
    pub locked_bytes: Option<u64>,
}

impl ProcessLimits {
    /// Raises the soft limits of open files and locked memory to the hard ones, and returns the
    /// limits.
    #[must_use]
    pub fn raise() -> ProcessLimits {
        let raised = |resource| {
            let Rlimit { maximum, .. } = getrlimit(resource);
            // A refusal leaves the limit as it was, and it is told if that is too low.
            let _ = setrlimit(resource, Rlimit { current: maximum, maximum });
            getrlimit(resource).current
        };
        let locked_bytes = raised(Resource::Memlock).filter(|_| counts_rings());
        ProcessLimits {
            open_files: raised(Resource::Nofile),
            file_bytes: getrlimit(Resource::Fsize).current,
            locked_bytes,
        }
    }

    /// Returns the limits that are below the needs of a configuration, each with the remedy.
    #[must_use]
    pub fn shortfalls(&self, config: &Config) -> Vec<String> {
        let needs = [
            (self.open_files, descriptors_of(config), "open files", "LimitNOFILE, ulimit -n"),
            (self.file_bytes, file_of(config), "bytes of a file", "LimitFSIZE, ulimit -f"),
            (self.locked_bytes, locked_of(config), "bytes locked", "LimitMEMLOCK, ulimit -l"),
        ];
        let short = needs.into_iter().filter_map(|(limit, need, of_what, raise)| {
            let limit = limit.filter(|limit| *limit < need)?;
            Some(format!("{of_what}: {limit}, may need {need} (raise {raise})"))
        });
        short.collect()
    }
}

/// Returns the number of descriptors that a node with this configuration may use.
#[must_use]
pub fn descriptors_of(config: &Config) -> u64 {
    let ingest = config.ingest.as_ref().map_or(0, |section| section.connections_max);
    let subscriptions = config.subscriptions.as_ref().map_or(0, |section| section.connections_max);
    let market = config.market_gateway.as_ref();
    let market = market.map_or(0, |section| section.connections_max * section.flush_threads);
    let publishers = config.publishers().into_iter();
    let snapshots: usize = publishers.map(|(_, section)| section.snapshots_clients_max).sum();
    let web =
        config.web.as_ref().map_or(0, |section| weir_web::connections_max(section.readers_max));
    let doors = [
        (true, config.gateway.connections_max),
        (ingest > 0, ingest),
        (subscriptions > 0, subscriptions),
        (market > 0, market),
    ];
    let handshakes_max = config.tls.as_ref().map_or(0, |section| section.handshakes_max);
    let of_doors = doors.iter().filter(|(is_open, _)| *is_open);
    let of_doors: usize = of_doors.map(|(_, connections)| connections + handshakes_max).sum();
    (of_doors + snapshots + web + CONNECTIONS_MAX) as u64 + reserve_of(config)
}

/// Returns the most descriptors that doors leave to the files of a node with this configuration.
#[must_use]
pub fn reserve_of(config: &Config) -> u64 {
    RESERVE_MAX + RESERVE_OF_PARTITION * further_partitions(config)
}

fn further_partitions(config: &Config) -> u64 {
    config.own_ids().len().saturating_sub(1) as u64
}

/// Returns the length of the longest file that a node with this configuration writes of its logs.
fn file_of(config: &Config) -> u64 {
    config.log.segment_bytes.max(config.events.segment_bytes)
}

fn locked_of(config: &Config) -> u64 {
    match config.log.sync {
        SyncStrategy::Uring => LOCKED_MAX + LOCKED_OF_PARTITION * further_partitions(config),
        SyncStrategy::Thread => 0,
    }
}

/// Returns true if this kernel counts the rings of io_uring as locked memory.
fn counts_rings() -> bool {
    let system = rustix::system::uname();
    is_before(&system.release().to_string_lossy(), RINGS_UNCOUNTED)
}

/// Returns true for the release of a kernel before a version; an unknown form is not.
fn is_before(release: &str, version: [u32; 2]) -> bool {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => [major, minor] < version,
        _ => false,
    }
}

/// The engines of a partition: its own, and its shadow's.
const ENGINES_PER_PARTITION: u64 = 2;

/// Returns the bytes that the tables of all engines take at their limits: those of the control
/// partition and of so many trading partitions.
#[must_use]
pub fn engine_bytes(config: &Config, trading_count: usize) -> u64 {
    let limits = config.engine.limits.limits();
    // The control partition's tables of orders, positions and trades stay empty.
    let whole = limits.reference_bytes() + limits.table_bytes() * trading_count as u64;
    whole * ENGINES_PER_PARTITION
}

/// Compares the engines' memory with the machine's, in bytes; `None` where that is not known.
/// Returns the note for operators.
///
/// # Errors
/// When the machine has less, and the configuration has other limits than the default or takes all
/// memory ahead. At the default limits, which are more than most nodes reach, the note tells it.
pub fn engine_memory(
    config: &Config,
    trading_count: usize,
    machine: Option<u64>,
) -> anyhow::Result<String> {
    let bytes = engine_bytes(config, trading_count);
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let mut note = format!(
        "the engines' tables take {} MiB at the limits of [engine.limits], two engines for each of \
         {trading_count} trading partitions and the control partition",
        mib(bytes)
    );
    if let Some(machine) = machine.filter(|machine| *machine < bytes) {
        let is_chosen = config.engine.limits != LimitsSection::default()
            || config.engine.memory == EngineMemory::Ahead;
        ensure!(!is_chosen, "{note}, and there are {} MiB: lower the limits", mib(machine));
        note.push_str(&format!(", and there are {} MiB: lower the limits", mib(machine)));
    }
    Ok(note)
}

/// Returns the memory that this process can have, in bytes: the machine's, or the limit of its
/// control group if that is lower; `None` where neither is known.
#[must_use]
pub fn machine_memory() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let machine = total_in(&read("/proc/meminfo"));
    let group = group_limit(Path::new("/sys/fs/cgroup"), &read("/proc/self/cgroup"));
    machine.into_iter().chain(group).min()
}

/// Returns the machine's memory in bytes from the text of `/proc/meminfo`.
fn total_in(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1_024)
}

/// Returns the lowest memory limit in bytes of the control groups of a process, from the text of
/// `/proc/self/cgroup`; `None` for no limit. A limit of a group holds for those in it.
fn group_limit(root: &Path, groups: &str) -> Option<u64> {
    let limits = groups.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next().unwrap_or(""), fields.next().unwrap_or(""));
        let (root, file) = if controllers.is_empty() {
            (root.to_owned(), "memory.max")
        } else if controllers.split(',').any(|name| name == "memory") {
            (root.join("memory"), "memory.limit_in_bytes")
        } else {
            return Vec::new();
        };
        let group = Path::new(group.trim_start_matches('/'));
        let limit_of = |group: &Path| {
            let text = std::fs::read_to_string(root.join(group).join(file)).ok()?;
            text.trim().parse::<u64>().ok()
        };
        group.ancestors().filter_map(limit_of).collect()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engines_memory_follows_from_the_limits_and_is_told() {
        let config = |text: &str| Config::parse(text).unwrap();
        let mib = |text: &str, trading_count| engine_bytes(&config(text), trading_count) >> 20;
        // 446 MiB of a trading partition and 150 of the control partition, twice each.
        assert_eq!([mib("", 0), mib("", 1), mib("", 2)], [299, 1191, 2082]);
        let orders = "[engine.limits]\norders = 10_000_000\npositions = 100_000_000\n";
        assert_eq!(mib(orders, 1), 11_309);
        let note = engine_memory(&config(""), 1, None).unwrap();
        assert!(note.starts_with("the engines' tables take 1192 MiB"), "{note}");
    }

    #[test]
    fn a_machine_with_less_memory_is_told_or_refused_where_the_limits_are_chosen() {
        let of = |text: &str, machine| {
            let config = Config::parse(text).unwrap();
            engine_memory(&config, 1, Some(machine)).map_err(|error| error.to_string())
        };
        let default = engine_bytes(&Config::default(), 1);
        assert!(!of("", default).unwrap().contains("there are"));
        let told = of("", default - 1).unwrap();
        assert!(told.ends_with("lower the limits"), "{told}");
        let more = "[engine.limits]\norders = 2_000_000\n";
        let need = engine_bytes(&Config::parse(more).unwrap(), 1);
        assert!(of(more, need).is_ok());
        let refused = of(more, need - 1).unwrap_err();
        assert!(refused.contains("[engine.limits]") && refused.contains("MiB"), "{refused}");
        assert!(of("[engine]\nmemory = \"ahead\"\n", default - 1).is_err());
        let fewer = "[engine.limits]\naccounts = 1_000\norders = 1_000\npositions = 1_000\n\
                     trades = 1_000\n";
        assert!(of(fewer, 64 << 20).is_ok());
    }

    #[test]
    fn the_lowest_limit_of_machine_and_groups_counts() {
        assert_eq!(total_in("MemFree: 5 kB\nMemTotal:       16384 kB\n"), Some(16 << 20));
        assert_eq!(total_in("MemTotal: many"), None);
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("a/b/memory.max", "max\n");
        put("a/memory.max", "4096\n");
        put("memory/c/memory.limit_in_bytes", "8192\n");
        put("memory/memory.limit_in_bytes", "9223372036854771712\n");
        let limit = |groups: &str| group_limit(dir.path(), groups);
        assert_eq!(limit("0::/a/b\n"), Some(4_096));
        assert_eq!(limit("0::/\n"), None);
        assert_eq!(limit("4:cpu:/c\n3:memory:/c\n"), Some(8_192));
        assert_eq!(limit("3:memory:/c\n0::/a\n"), Some(4_096));
        assert_eq!(limit("0::/../other\n"), None);
        assert_eq!(limit(""), None);
    }

    const UNLIMITED: ProcessLimits =
        ProcessLimits { open_files: None, file_bytes: None, locked_bytes: None };

    #[test]
    fn a_configuration_needs_a_descriptor_for_each_connection_and_a_reserve() {
        let config = |text: &str| Config::parse(text).unwrap();
        let few = "[gateway]\nconnections_max = 1000\n";
        assert_eq!(descriptors_of(&config(few)), 1_000 + 256 + 256);
        let web = format!("{few}[web]\nlisten = \"127.0.0.1:0\"\nreaders_max = 500\n");
        assert_eq!(descriptors_of(&config(&web)), 1_000 + 500 + 1_024 + 256 + 256);
        let tls = "[tls]\ncertificate = 'a.pem'\nkey = 'a.key'\nhandshakes_max = 10\n";
        assert_eq!(descriptors_of(&config(&format!("{few}{tls}"))), 1_010 + 256 + 256);
        let three = "[[partition]]\nid = 1\n[[partition]]\nid = 2\n[[partition]]\nid = 3\n";
        assert_eq!(descriptors_of(&config(&format!("{few}{three}"))), 1_000 + 256 + 256 + 64);
        assert_eq!(reserve_of(&config(three)), 256 + 64);
    }

    #[test]
    fn what_is_short_is_told_with_its_remedy_and_nothing_else() {
        let config = Config::parse("[gateway]\nconnections_max = 1000\n").unwrap();
        assert_eq!(UNLIMITED.shortfalls(&config), [""; 0]);
        let open_files = |of| ProcessLimits { open_files: Some(of), ..UNLIMITED };
        assert_eq!(open_files(1_512).shortfalls(&config), [""; 0]);
        let told = open_files(1_511).shortfalls(&config);
        assert_eq!(told, ["open files: 1511, may need 1512 (raise LimitNOFILE, ulimit -n)"]);
        let file = ProcessLimits { file_bytes: Some(1_000), ..UNLIMITED }.shortfalls(&config);
        assert!(file.len() == 1 && file[0].starts_with("bytes of a file: 1000"), "{file:?}");
    }

    #[test]
    fn locked_memory_counts_with_io_uring_on_old_kernels() {
        let config = |sync| Config::parse(&format!("[log]\nsync = \"{sync}\"\n")).unwrap();
        let limits = ProcessLimits { locked_bytes: Some(65_536), ..UNLIMITED };
        assert_eq!(limits.shortfalls(&config("thread")), [""; 0]);
        assert_eq!(limits.shortfalls(&config("io_uring")).len(), 1);
        let two = "[[partition]]\nid = 1\n[[partition]]\nid = 2\n";
        let two = Config::parse(&format!("[log]\nsync = \"io_uring\"\n{two}")).unwrap();
        let for_one = ProcessLimits { locked_bytes: Some(8 << 20), ..UNLIMITED };
        assert_eq!(for_one.shortfalls(&config("io_uring")), [""; 0]);
        assert_eq!(for_one.shortfalls(&two).len(), 1);
        for (release, is_old) in
            [("5.11.0-49-generic", true), ("4.19.0", true), ("5.12.0", false), ("6.8.0-x", false)]
        {
            assert_eq!(is_before(release, RINGS_UNCOUNTED), is_old, "{release}");
        }
        assert!(!is_before("unknown", RINGS_UNCOUNTED));
    }
}
