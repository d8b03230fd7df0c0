//! The section `[market_publisher]`, and `[partition.market_publisher]` of one of several
//! partitions: publication of a partition's market in a channel of its own.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;

use serde::Deserialize;
use weir_feed::soupbin::{Access, Login};
use weir_marketgate::publish::SnapshotLimits;
use weir_marketgate::receiver::PasswordError;
use weir_marketgate::receiver::config::login;
use weir_runtime::ConfigError;

/// The publication of a partition's market, and its service for receivers that missed messages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarketPublisherSection {
    /// The multicast group of line A.
    pub group: SocketAddrV4,
    /// The multicast group of line B, which gets the same packets.
    pub line_b: Option<SocketAddrV4>,
    /// The local address that sends; the default keeps packets on this machine.
    #[serde(default = "default_interface")]
    pub interface: Ipv4Addr,
    /// The number of routers that a packet may cross, its time to live.
    #[serde(default = "default_hops")]
    pub hops: u32,
    /// The UDP address for retransmission requests.
    pub requests: SocketAddrV4,
    /// The number of requests per second that are answered for one address.
    #[serde(default = "default_requests_per_second")]
    pub requests_per_second: u32,
    /// The number of messages kept of a session, 52 bytes each, and of the session before it.
    #[serde(default = "default_messages_max")]
    pub messages_max: usize,
    /// The size of a packet in bytes, without the IP and UDP headers.
    #[serde(default = "default_packet_bytes")]
    pub packet_bytes: usize,
    /// The interval between polls for events while the thread parks without work, in microseconds.
    #[serde(default = "default_look_interval_us")]
    pub look_interval_us: u64,
    /// The hour in UTC at which a day and its session begin.
    #[serde(default)]
    pub day_begins_hour: u8,
    /// The number of events between checkpoints, with which the next start begins.
    #[serde(default = "default_checkpoint_every_events")]
    pub checkpoint_every_events: u64,
    /// The TCP address for snapshots; not served without it.
    pub snapshots: Option<SocketAddr>,
    /// The user name for snapshots, up to 6 characters; without it any client may get them.
    pub snapshots_username: Option<String>,
    /// The file with the password for that user, up to 10 characters; empty without it.
    pub snapshots_password_file: Option<PathBuf>,
    /// The maximum number of simultaneous snapshot clients.
    #[serde(default = "default_snapshots_clients_max")]
    pub snapshots_clients_max: usize,
    /// The maximum number of them from one address; by default three quarters of all.
    pub snapshots_per_address_max: Option<usize>,
    /// The maximum duration of a snapshot, in milliseconds.
    #[serde(default = "default_snapshots_timeout_ms")]
    pub snapshots_timeout_ms: u64,
}

fn default_interface() -> Ipv4Addr {
    Ipv4Addr::LOCALHOST
}

fn default_hops() -> u32 {
    1
}

fn default_requests_per_second() -> u32 {
    1_000
}

fn default_messages_max() -> usize {
    1 << 22
}

fn default_packet_bytes() -> usize {
    1_400
}

fn default_look_interval_us() -> u64 {
    100
}

fn default_checkpoint_every_events() -> u64 {
    1_000_000
}

fn default_snapshots_clients_max() -> usize {
    16
}

fn default_snapshots_timeout_ms() -> u64 {
    120_000
}

impl MarketPublisherSection {
    /// The limits on clients of the snapshot server.
    pub(crate) fn snapshot_limits(&self) -> SnapshotLimits {
        let clients_max = self.snapshots_clients_max;
        let of_all = clients_max - clients_max / 4;
        let per_address_max = self.snapshots_per_address_max.unwrap_or(of_all);
        SnapshotLimits { clients_max, per_address_max }
    }

    pub(super) fn check(&self, has_partition: bool) -> Result<(), ConfigError> {
        let out = |key, value: String, want| Err(ConfigError::OutOfRange { key, value, want });
        if !has_partition {
            let want = "only where orders are matched: no router, and not the own partition in \
                        replica.sources";
            return out("market_publisher", "(given)".to_owned(), want);
        }
        for group in [Some(self.group), self.line_b].into_iter().flatten() {
            if group.port() == 0 {
                let want = "a port other than 0, and the address of a group or a receiver";
                return out("market_publisher.group", group.to_string(), want);
            }
        }
        let (per_second, messages) =
            (u64::from(self.requests_per_second), self.messages_max as u64);
        let (bytes, hour) = (self.packet_bytes as u64, u64::from(self.day_begins_hour));
        self.check_snapshots()?;
        let per_address = self.snapshot_limits().per_address_max as u64;
        let ranges: [(&'static str, u64, u64, u64, &'static str); 10] = [
            ("market_publisher.hops", self.hops.into(), 0, 255, "0 to 255"),
            ("market_publisher.requests_per_second", per_second, 1, 1_000_000, "1 to 1000000"),
            ("market_publisher.messages_max", messages, 1_000, 1 << 30, "1000 to 1073741824"),
            ("market_publisher.packet_bytes", bytes, 100, 9_000, "100 to 9000"),
            (
                "market_publisher.checkpoint_every_events",
                self.checkpoint_every_events,
                1_000,
                1 << 30,
                "1000 to 1073741824",
            ),
            (
                "market_publisher.look_interval_us",
                self.look_interval_us,
                10,
                1_000_000,
                "10 to 1000000",
            ),
            ("market_publisher.day_begins_hour", hour, 0, 23, "0 to 23"),
            (
                "market_publisher.snapshots_clients_max",
                self.snapshots_clients_max as u64,
                1,
                1_024,
                "1 to 1024",
            ),
            ("market_publisher.snapshots_per_address_max", per_address, 1, 1_024, "1 to 1024"),
            (
                "market_publisher.snapshots_timeout_ms",
                self.snapshots_timeout_ms,
                1_000,
                86_400_000,
                "1000 to a day's",
            ),
        ];
        for (key, value, least, most, want) in ranges {
            if !(least..=most).contains(&value) {
                return out(key, value.to_string(), want);
            }
        }
        Ok(())
    }

    /// Checks that user name and password form a login, and that the snapshot server is configured.
    fn check_snapshots(&self) -> Result<(), ConfigError> {
        let out = |key, value: &str, want| {
            Err(ConfigError::OutOfRange { key, value: value.to_owned(), want })
        };
        let (name, password) = (&self.snapshots_username, &self.snapshots_password_file);
        if self.snapshots.is_none() && (name.is_some() || password.is_some()) {
            let want = "none without market_publisher.snapshots";
            return out("market_publisher.snapshots_username", "(given)", want);
        }
        if name.is_none() && password.is_some() {
            let want = "a name: a password without one would let everybody in";
            return out("market_publisher.snapshots_username", "(none)", want);
        }
        match name {
            Some(name) if Login::new(name, "").is_none() => {
                let want = "up to 6 printable characters";
                out("market_publisher.snapshots_username", name, want)
            }
            _ => Ok(()),
        }
    }

    /// Returns the login required for snapshots.
    ///
    /// # Errors
    /// When the password's file cannot be read, or holds no valid password.
    pub fn snapshots_access(&self) -> Result<Access, PasswordError> {
        let Some(name) = &self.snapshots_username else { return Ok(Access::Everybody) };
        login(name, self.snapshots_password_file.as_deref()).map(Access::Only)
    }
}

#[cfg(test)]
mod tests {
    use weir_feed::soupbin::Access;

    use crate::config::Config;

    const GIVEN: &str = "[market_publisher]\ngroup = \"239.0.0.1:1\"\nrequests = \"127.0.0.1:0\"\n";

    #[test]
    fn a_market_is_published_where_the_file_says_so_and_by_default_on_this_machine_alone() {
        assert!(Config::parse("").unwrap().market_publisher.is_none());
        let section = Config::parse(GIVEN).unwrap().market_publisher.unwrap();
        assert!(section.interface.is_loopback() && section.line_b.is_none());
        assert!(section.snapshots.is_none());
        assert!(matches!(section.snapshots_access(), Ok(Access::Everybody)));
    }

    #[test]
    fn what_is_wrong_with_publishing_is_named() {
        let replica = "[replica]\nmaster = \"127.0.0.1:1\"\nsession = 2\nkey_file = \"k\"\n\
                       sources = [1]\n";
        let cases = [
            ("[market_publisher]\ngroup = \"239.0.0.1:1\"".to_owned(), "requests"),
            (GIVEN.replace(":1\"", ":0\""), "market_publisher.group"),
            (format!("{GIVEN}line_b = \"239.0.0.2:0\""), "market_publisher.group"),
            (format!("{GIVEN}packet_bytes = 99"), "market_publisher.packet_bytes"),
            (format!("{GIVEN}messages_max = 1"), "market_publisher.messages_max"),
            (format!("{GIVEN}day_begins_hour = 24"), "market_publisher.day_begins_hour"),
            (format!("{GIVEN}hops = 256"), "market_publisher.hops"),
            (format!("{GIVEN}checkpoint_every_events = 999"), "checkpoint_every_events"),
            (format!("{GIVEN}ttl = 1"), "ttl"),
            (format!("{GIVEN}snapshots_username = \"a\""), "market_publisher.snapshots"),
            (
                format!("{GIVEN}snapshots = \"127.0.0.1:0\"\nsnapshots_password_file = \"p\""),
                "snapshots_username",
            ),
            (
                format!("{GIVEN}snapshots = \"127.0.0.1:0\"\nsnapshots_username = \"longest\""),
                "snapshots_username",
            ),
            (format!("{GIVEN}snapshots_clients_max = 0"), "snapshots_clients_max"),
            (format!("{GIVEN}snapshots_per_address_max = 0"), "snapshots_per_address_max"),
            (format!("{GIVEN}snapshots_timeout_ms = 1"), "snapshots_timeout_ms"),
            (format!("{GIVEN}{replica}"), "market_publisher"),
        ];
        for (text, named) in cases {
            let error = Config::parse(&text).unwrap_err().to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
