//! The system's limits on the process, compared with the needs of a configuration.
//!
//! A node starts below its needs too: the limits matter when the connections come that the
//! configuration permits. A shortage is told at the start, in one line with the remedy.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use weir_io::SyncStrategy;
use weir_io::descriptors::RESERVE_MAX;

use crate::config::Config;
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
    let links = config.link.as_ref().map_or(0, |section| section.connections_max);
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
        (links > 0, links),
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

#[cfg(test)]
mod tests {
    use super::*;

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
