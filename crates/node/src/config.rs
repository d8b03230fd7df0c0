//! The node's configuration: built-in defaults, overridden by a TOML file, overridden by the
//! command line.
//!
//! An unknown key or a value out of range is an error that names it; nothing is guessed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use weir_io::SyncStrategy;
use weir_linkgate::config::UplinkSection;
use weir_marketgate::gateway::MarketGatewaySection;
use weir_orderstate::cold::ColdSection;
use weir_orderstate::router::RouterSection;
use weir_orderstate::stores::{Indexes, StoreSettings};
use weir_orderstate::token_keys::TokenKeyFile;
use weir_partition::recovery::RecoverySettings;
use weir_runtime::{ConfigError, WaitStrategy};
use weir_tls::ServerFiles;
use weir_types::hex::parse_key;
use weir_types::{Durability, Nanos, PartitionId};

use crate::diagnostics::{LineFormat, LineLevel};

mod engine;
mod link;
mod listeners;
mod market_publisher;
mod partition;
mod partition_places;
mod partition_threads;
mod renamed;
mod replica;
mod retention;
#[cfg(test)]
mod router_tests;
mod subscriptions;

pub use self::engine::EngineSection;
pub use self::link::LinkSection;
pub use self::listeners::Listener;
pub use self::market_publisher::MarketPublisherSection;
pub use self::partition::PartitionSection;
pub use self::partition_threads::PartitionThread;
pub use self::replica::ReplicaSection;
pub use self::retention::RetentionSection;
pub use self::subscriptions::{SubscriptionsSection, WhenFull};

/// The agents that share a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Threads {
    /// Fused on up to four cores, split on more.
    #[default]
    Auto,
    /// Gateway and partitions on one thread.
    Fused,
    /// Gateway and partitions on a thread each.
    Split,
}

/// A process's role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum NodeRole {
    /// An exchange: it trades, and has stores of its own orders and of other sources'.
    #[default]
    Node,
    /// It has no orders; it serves those of the nodes behind it as one service.
    Router,
    /// It has its clients' sessions, and a link to each partition.
    Gateway,
}

/// All settings. Sizes are in bytes, times in the unit of the name.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The role: `node`, `router` or `gateway`.
    pub role: NodeRole,
    /// The directory of logs and snapshots; empty where none is chosen. `weir serve` then takes its
    /// own default.
    pub dir: PathBuf,
    /// The address of order entry and delivery.
    pub listen: SocketAddr,
    /// The HTTP address of metrics and status.
    pub http: SocketAddr,
    /// The durability level of an acknowledgement: `memory`, `os` or `disk`.
    #[serde(deserialize_with = "durability_by_name")]
    pub durability: Durability,
    /// The behaviour of a thread without work: `park`, `yield` or `spin`.
    pub wait: WaitStrategy,
    /// The agents that share a thread: `auto`, `fused` or `split`.
    pub threads: Threads,
    /// The cores of the gateway, the partitions and delivery, in this order; empty for no pinning.
    pub cores: Vec<usize>,
    /// The API key of the first operator, session 1, in hexadecimal; used once, when the control
    /// log is empty. Without it a key is generated and written to `operator.key`.
    pub bootstrap_key: Option<String>,
    /// Gives the first operator a new key at this start even if the control log has one: that of
    /// [`Config::bootstrap_key`], or a generated one. Never read from a file: it is for one start.
    #[serde(skip)]
    pub new_operator_key: bool,
    /// The trading partitions; one with the number 1 without them.
    #[serde(rename = "partition")]
    pub partitions: Vec<PartitionSection>,
    /// The command logs.
    pub log: LogSection,
    /// The event logs.
    pub events: EventsSection,
    /// Snapshots.
    pub snapshots: SnapshotsSection,
    /// The limits of the trading partitions' logs.
    pub retention: RetentionSection,
    /// The matching engines.
    pub engine: EngineSection,
    /// The gateway.
    pub gateway: GatewaySection,
    /// TLS for order entry and delivery; without it connections are plain.
    pub tls: Option<TlsSection>,
    /// Set where each listener's network is private: without TLS, keys, orders and reports are
    /// readable to all who see its packets.
    pub clear_text_allowed: bool,
    /// The delivery store.
    pub delivery: DeliverySection,
    /// Order state over HTTP; not served without it.
    pub web: Option<WebSection>,
    /// The listener for outside cores; none without it.
    pub ingest: Option<IngestSection>,
    /// The node whose sources this one follows; none without it.
    pub replica: Option<ReplicaSection>,
    /// Durable subscriptions; not served without it.
    pub subscriptions: Option<SubscriptionsSection>,
    /// A market-data gateway; none without it.
    pub market_gateway: Option<MarketGatewaySection>,
    /// The market of a single partition as ITCH 5.0 over MoldUDP64; not published without it.
    pub market_publisher: Option<MarketPublisherSection>,
    /// The nodes behind a router; only with the role `router`.
    pub router: Option<RouterSection>,
    /// The listener for gateway processes; none without it. Traders log on at those then.
    pub link: Option<LinkSection>,
    /// The links of a gateway process; only with the role `gateway`.
    pub uplink: Option<UplinkSection>,
    /// Probes.
    pub probes: ProbesSection,
    /// The lines written to standard error.
    pub diagnostics: DiagnosticsSection,
}

/// The command logs.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogSection {
    /// The size of a segment file in bytes.
    pub segment_bytes: u64,
    /// The method of writing and syncing, also of the event logs: `thread`, or `io_uring` where the
    /// kernel supports it.
    #[serde(deserialize_with = "strategy_by_name")]
    pub sync: SyncStrategy,
}

/// The event logs.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EventsSection {
    /// The size in bytes of the in-memory tail of events, from which views read.
    pub memory_bytes: u64,
    /// The size of a segment file in bytes.
    pub segment_bytes: u64,
}

/// Snapshots.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SnapshotsSection {
    /// The number of commands between snapshots.
    pub every_commands: u64,
    /// The number of snapshots kept.
    pub keep: usize,
}

/// The gateway.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GatewaySection {
    /// The maximum number of simultaneous connections.
    pub connections_max: usize,
    /// The maximum number of output bytes that may wait for one connection.
    pub output_bytes_max: usize,
    /// The time that a connection may leave its output unread, in milliseconds.
    pub stall_max_ms: u64,
    /// The time that a connection may have no session, in milliseconds.
    pub logon_timeout_ms: u64,
    /// The maximum number of simultaneous connections without a session from one address.
    pub lobby_per_address_max: u32,
    /// The number of a firm's reports per partition from which copies can be requested; eight bytes
    /// each. For copies of all firms' reports there are four times as many.
    pub copies_retained_max: u32,
    /// The time after a start within which a session that chose cancel-on-disconnect must log on to
    /// keep its orders, in milliseconds.
    pub return_within_ms: u64,
    /// The number of a partition's events between checkpoints; a start reads the events since the
    /// newest.
    pub checkpoint_every_events: u64,
}

/// TLS for every listener of the node except HTTP: order entry and delivery, outside cores,
/// subscribers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSection {
    /// The node's certificate and its chain up to the authority, a PEM file.
    pub certificate: PathBuf,
    /// The certificate's private key, a PEM file.
    pub key: PathBuf,
    /// The authorities of clients' certificates, a PEM file; without it no client certificate is
    /// requested.
    pub client_ca: Option<PathBuf>,
    /// Refuses clients without a certificate; applies with `client_ca`.
    #[serde(default = "default_client_required")]
    pub client_required: bool,
    /// The maximum duration of a handshake, in milliseconds.
    #[serde(default = "default_handshake_max_ms")]
    pub handshake_max_ms: u64,
    /// The maximum number of simultaneous handshakes at a door; a further one ends the oldest of
    /// the host that has most.
    #[serde(default = "default_handshakes_max")]
    pub handshakes_max: usize,
}

fn default_client_required() -> bool {
    true
}

fn default_handshake_max_ms() -> u64 {
    5_000
}

fn default_handshakes_max() -> usize {
    1_024
}

impl TlsSection {
    /// Returns a section with these files and defaults for the rest.
    #[must_use]
    pub fn new(certificate: PathBuf, key: PathBuf) -> TlsSection {
        TlsSection {
            certificate,
            key,
            client_ca: None,
            client_required: default_client_required(),
            handshake_max_ms: default_handshake_max_ms(),
            handshakes_max: default_handshakes_max(),
        }
    }

    /// Returns the files to open.
    #[must_use]
    pub fn files(&self) -> ServerFiles {
        ServerFiles {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            client_ca: self.client_ca.clone(),
            client_required: self.client_required,
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let ranges: [(&'static str, u64, std::ops::RangeInclusive<u64>, &'static str); 2] = [
            ("tls.handshake_max_ms", self.handshake_max_ms, 10..=600_000, "10 to 600000"),
            ("tls.handshakes_max", self.handshakes_max as u64, 1..=65_536, "1 to 65536"),
        ];
        for (key, value, range, want) in ranges {
            if !range.contains(&value) {
                return Err(ConfigError::OutOfRange { key, value: value.to_string(), want });
            }
        }
        Ok(())
    }
}

/// The delivery store.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeliverySection {
    /// The number of ended orders kept for readers that are behind.
    pub ended_orders_max: usize,
    /// The latency budget of a waiting reader, in microseconds: the store's polling interval.
    pub look_interval_us: u64,
    /// The memory limit of each store in bytes; no limit without it.
    pub bytes_max: Option<u64>,
    /// The keys that are indexed: `"all"`, `"none"` or a list.
    pub indexes: Indexes,
    /// The number of bytes of the node's own events between snapshots of their store.
    pub snapshot_every_bytes: u64,
    /// The file of the key that seals tokens, 32 bytes, where nodes and routers share one; without
    /// it a node creates its own in its directory.
    pub token_key: Option<PathBuf>,
    /// Files of further keys, which open tokens but seal none: the previous key, and the next one.
    pub token_keys_opened: Vec<PathBuf>,
    /// The archive of orders that the stores discard; none without it.
    pub cold: Option<ColdSection>,
}

/// Order state over HTTP. API keys are sent in clear, so it listens on this machine only, unless a
/// TLS proxy is in front.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebSection {
    /// The listening address.
    pub listen: SocketAddr,
    /// The maximum number of simultaneous queries and WebSockets.
    #[serde(default = "default_readers_max")]
    pub readers_max: usize,
    /// The maximum number of these of one session.
    #[serde(default = "default_session_readers_max")]
    pub session_readers_max: usize,
    /// The time in seconds that a WebSocket of order state may be without a subscription.
    #[serde(default = "default_idle_s")]
    pub idle_s: u64,
    /// Set when a TLS proxy is in front of it and no other client can reach it.
    #[serde(default)]
    pub behind_tls_proxy: bool,
}

fn default_readers_max() -> usize {
    4_096
}

fn default_session_readers_max() -> usize {
    64
}

fn default_idle_s() -> u64 {
    60
}

impl WebSection {
    /// Returns the section of an address, with all defaults.
    #[must_use]
    pub fn at(listen: SocketAddr) -> WebSection {
        WebSection {
            listen,
            readers_max: default_readers_max(),
            session_readers_max: default_session_readers_max(),
            idle_s: default_idle_s(),
            behind_tls_proxy: false,
        }
    }

    /// Returns the bounds of readers.
    #[must_use]
    pub fn limits(&self) -> weir_web::ReaderLimits {
        let idle_max = Duration::from_secs(self.idle_s);
        weir_web::ReaderLimits::new(self.readers_max, self.session_readers_max, idle_max)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let ranges = [
            ("web.readers_max", self.readers_max as u64, 60_000, "1 to 60000"),
            ("web.session_readers_max", self.session_readers_max as u64, 60_000, "1 to 60000"),
            ("web.idle_s", self.idle_s, 86_400, "1 to 86400"),
        ];
        for (key, value, most, want) in ranges {
            if !(1..=most).contains(&value) {
                return Err(ConfigError::OutOfRange { key, value: value.to_string(), want });
            }
        }
        if !self.listen.ip().is_loopback() && !self.behind_tls_proxy {
            let want = "an address of this machine alone, since keys come in clear; elsewhere \
                        a proxy with TLS before it, and web.behind_tls_proxy = true";
            let (key, value) = ("web.listen", self.listen.to_string());
            return Err(ConfigError::OutOfRange { key, value, want });
        }
        Ok(())
    }
}

/// The listener for outside cores and replicas.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IngestSection {
    /// The listening address for outside cores.
    pub listen: SocketAddr,
    /// The maximum number of simultaneous connections.
    #[serde(default = "default_ingest_connections_max")]
    pub connections_max: usize,
    /// The number of bytes of a source's log between snapshots of its store.
    #[serde(default = "default_snapshot_every_bytes")]
    pub snapshot_every_bytes: u64,
    /// The sources; none where the listener serves only replicas.
    #[serde(rename = "source", default)]
    pub sources: Vec<SourceSection>,
}

/// A source: an outside core whose orders are kept.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceSection {
    /// The source's number among partitions and sources: 1 to 65535, and not the node's own.
    pub id: u16,
    /// The session of the role `Source` that sends its orders.
    pub session: u32,
    /// The memory limit of its store in bytes; that of `[delivery]` without it.
    pub bytes_max: Option<u64>,
    /// The durability level of an acknowledged batch: `memory`, `os` or `disk`.
    #[serde(default = "default_source_durability", deserialize_with = "durability_by_name")]
    pub durability: Durability,
}

fn default_source_durability() -> Durability {
    Durability::Memory
}

fn default_ingest_connections_max() -> usize {
    64
}

fn default_snapshot_every_bytes() -> u64 {
    256 << 20
}

/// The maximum number of a node's sources.
const SOURCES_MAX: usize = 64;

impl IngestSection {
    fn check(&self) -> Result<(), ConfigError> {
        let out = |key, value: String, want| Err(ConfigError::OutOfRange { key, value, want });
        if !(1..=65_536).contains(&self.connections_max) {
            let value = self.connections_max.to_string();
            return out("ingest.connections_max", value, "1 to 65536");
        }
        if self.snapshot_every_bytes < 4_096 {
            let value = self.snapshot_every_bytes.to_string();
            return out("ingest.snapshot_every_bytes", value, "4096 or more");
        }
        if self.sources.len() > SOURCES_MAX {
            let value = self.sources.len().to_string();
            return out("ingest.source", value, "at most 64 sources");
        }
        for (index, source) in self.sources.iter().enumerate() {
            check_store_bytes("ingest.source.bytes_max", source.bytes_max)?;
            // 0 is the control log.
            if source.id < 1 {
                return out("ingest.source.id", source.id.to_string(), "1 to 65535");
            }
            if self.sources[..index].iter().any(|other| other.id == source.id) {
                return out("ingest.source.id", source.id.to_string(), "each source once");
            }
        }
        Ok(())
    }
}

/// Probes.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProbesSection {
    /// Stamps orders at the probe points.
    pub enabled: bool,
    /// Watches the cores for stolen time.
    pub hiccups: bool,
    /// The file in which all stamps are captured.
    pub capture: Option<PathBuf>,
}

/// The lines written to standard error.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiagnosticsSection {
    /// The format of a line: `text` or `json`.
    pub format: LineFormat,
    /// The minimum level of lines: `error`, `warn`, `info` or `debug`.
    pub level: LineLevel,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            role: NodeRole::default(),
            dir: PathBuf::new(),
            listen: SocketAddr::from(([127, 0, 0, 1], 7001)),
            http: SocketAddr::from(([127, 0, 0, 1], 7080)),
            durability: Durability::Disk,
            wait: WaitStrategy::Park,
            threads: Threads::Auto,
            cores: Vec::new(),
            bootstrap_key: None,
            new_operator_key: false,
            partitions: Vec::new(),
            log: LogSection::default(),
            events: EventsSection::default(),
            snapshots: SnapshotsSection::default(),
            retention: RetentionSection::default(),
            engine: EngineSection::default(),
            gateway: GatewaySection::default(),
            tls: None,
            clear_text_allowed: false,
            delivery: DeliverySection::default(),
            web: None,
            ingest: None,
            replica: None,
            subscriptions: None,
            market_gateway: None,
            market_publisher: None,
            router: None,
            link: None,
            uplink: None,
            probes: ProbesSection::default(),
            diagnostics: DiagnosticsSection::default(),
        }
    }
}

impl Default for LogSection {
    fn default() -> Self {
        LogSection { segment_bytes: 64 << 20, sync: SyncStrategy::default() }
    }
}

impl Default for EventsSection {
    fn default() -> Self {
        EventsSection { memory_bytes: 64 << 20, segment_bytes: 64 << 20 }
    }
}

impl Default for SnapshotsSection {
    fn default() -> Self {
        SnapshotsSection { every_commands: 1_000_000, keep: 2 }
    }
}

impl Default for GatewaySection {
    fn default() -> Self {
        GatewaySection {
            connections_max: 16_384,
            output_bytes_max: 1 << 20,
            stall_max_ms: 10_000,
            logon_timeout_ms: 10_000,
            lobby_per_address_max: 1024,
            copies_retained_max: 1 << 20,
            return_within_ms: 10_000,
            checkpoint_every_events: 1_000_000,
        }
    }
}

impl GatewaySection {
    /// Returns the keys with their own ranges: values, limits and the expected range as text.
    fn ranges(&self) -> [(&'static str, u64, u64, u64, &'static str); 7] {
        let (time, count) = (self.logon_timeout_ms, u64::from(self.lobby_per_address_max));
        let copies = u64::from(self.copies_retained_max);
        let connections = self.connections_max as u64;
        let events = self.checkpoint_every_events;
        [
            ("gateway.checkpoint_every_events", events, 1_000, 1 << 30, "1000 to 1073741824"),
            ("gateway.connections_max", connections, 1, 1 << 20, "1 to 1048576"),
            ("gateway.stall_max_ms", self.stall_max_ms, 1, 86_400_000, "1 to a day's"),
            ("gateway.copies_retained_max", copies, 1, 1 << 28, "1 to 268435456"),
            ("gateway.logon_timeout_ms", time, 100, 3_600_000, "100 to 3600000"),
            ("gateway.lobby_per_address_max", count, 1, 1_000_000, "1 to 1000000"),
            ("gateway.return_within_ms", self.return_within_ms, 0, 3_600_000, "0 to 3600000"),
        ]
    }
}

impl Default for DeliverySection {
    fn default() -> Self {
        DeliverySection {
            ended_orders_max: 1 << 20,
            look_interval_us: 250,
            token_key: None,
            token_keys_opened: Vec::new(),
            cold: None,
            bytes_max: None,
            indexes: Indexes::default(),
            snapshot_every_bytes: default_snapshot_every_bytes(),
        }
    }
}

/// A limit, since each key is tried on a token that does not open.
const TOKEN_KEYS_OPENED_MAX: u64 = 8;

/// The minimum memory limit of a store: some growth of its tables has to fit.
const STORE_BYTES_MIN: u64 = 16 << 20;

impl DeliverySection {
    /// Returns the keys with their own ranges: values, limits and the expected range as text.
    fn ranges(&self) -> [(&'static str, u64, u64, u64, &'static str); 3] {
        let (look, every) = (self.look_interval_us, self.snapshot_every_bytes);
        let opened = self.token_keys_opened.len() as u64;
        [
            ("delivery.look_interval_us", look, 50, 1_000_000, "50 to 1000000"),
            ("delivery.snapshot_every_bytes", every, 4_096, u64::MAX, "4096 or more"),
            ("delivery.token_keys_opened", opened, 0, TOKEN_KEYS_OPENED_MAX, "at most 8 files"),
        ]
    }

    /// Returns the settings of a source's store; `bytes_max` overrides the section's limit.
    #[must_use]
    pub fn settings(&self, source: PartitionId, bytes_max: Option<u64>) -> StoreSettings {
        StoreSettings {
            source,
            ended_orders_max: self.ended_orders_max,
            bytes_max: bytes_max.or(self.bytes_max).unwrap_or(u64::MAX),
            indexes: self.indexes,
        }
    }
}

fn check_store_bytes(key: &'static str, bytes_max: Option<u64>) -> Result<(), ConfigError> {
    match bytes_max {
        Some(bytes) if bytes < STORE_BYTES_MIN => {
            Err(ConfigError::OutOfRange { key, value: bytes.to_string(), want: "16 MiB or more" })
        }
        _ => Ok(()),
    }
}

impl Default for ProbesSection {
    fn default() -> Self {
        ProbesSection { enabled: true, hiccups: true, capture: None }
    }
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::Unreadable { path: path.to_owned(), error })?;
        Config::parse(&text)
    }

    /// Reads a configuration's text and checks it.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        renamed::check(text)?;
        let config: Config = toml::from_str(text).map_err(Box::new)?;
        config.check()?;
        Ok(config)
    }

    /// Checks that all values are in range.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`], naming the first that is not.
    pub fn check(&self) -> Result<(), ConfigError> {
        let mib = 1 << 20;
        let ranges: [(&'static str, u64, u64, u64, &'static str); 6] = [
            ("log.segment_bytes", self.log.segment_bytes, mib, 2 << 30, "1 MiB to 2 GiB"),
            ("events.memory_bytes", self.events.memory_bytes, 8 * mib, 64 << 30, "8 MiB to 64 GiB"),
            ("events.segment_bytes", self.events.segment_bytes, mib, 2 << 30, "1 MiB to 2 GiB"),
            (
                "snapshots.every_commands",
                self.snapshots.every_commands,
                1000,
                u64::MAX,
                "1000 or more",
            ),
            ("snapshots.keep", self.snapshots.keep as u64, 1, 1000, "1 to 1000"),
            (
                "gateway.output_bytes_max",
                self.gateway.output_bytes_max as u64,
                64 * 1024,
                1 << 30,
                "64 KiB to 1 GiB",
            ),
        ];
        let ranges = ranges.into_iter().chain(self.gateway.ranges()).chain(self.delivery.ranges());
        for (key, value, min, max, want) in ranges {
            if !(min..=max).contains(&value) {
                return Err(ConfigError::OutOfRange { key, value: value.to_string(), want });
            }
        }
        engine::check(&self.engine.limits)?;
        self.retention.check(self.log.segment_bytes, self.events.segment_bytes)?;
        check_store_bytes("delivery.bytes_max", self.delivery.bytes_max)?;
        if let Some(cold) = &self.delivery.cold {
            let has_sources = self.ingest.as_ref().is_some_and(|i| !i.sources.is_empty());
            cold.check(self.delivery.ended_orders_max, has_sources)?;
        }
        if let Some(tls) = &self.tls {
            tls.check()?;
        }
        if let Some(web) = &self.web {
            web.check()?;
        }
        if let Some(ingest) = &self.ingest {
            ingest.check()?;
        }
        self.check_partitions()?;
        self.check_replica()?;
        if let Some(subscriptions) = &self.subscriptions {
            subscriptions.check()?;
        }
        if let Some(market) = &self.market_gateway {
            market.check()?;
        }
        if let Some(router) = &self.router {
            router.check()?;
        }
        if let Some(link) = &self.link {
            link.check()?;
        }
        if let Some(key) = &self.bootstrap_key
            && parse_key(key).is_none()
        {
            let want = "64 hexadecimal digits";
            return Err(ConfigError::OutOfRange {
                key: "bootstrap_key",
                value: "(not shown)".to_owned(),
                want,
            });
        }
        Ok(())
    }

    fn check_replica(&self) -> Result<(), ConfigError> {
        let Some(replica) = &self.replica else { return Ok(()) };
        replica.check(self.ingest.as_ref())?;
        if self.follows_own() && self.subscriptions.is_some() {
            let (key, value) = ("subscriptions", "(given)".to_owned());
            let want = "none where replica.sources has the own partition: executions are where \
                        orders are matched";
            return Err(ConfigError::OutOfRange { key, value, want });
        }
        Ok(())
    }

    /// Checks that the settings fit the role, which the command line may have changed.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`].
    pub fn check_role(&self) -> Result<(), ConfigError> {
        let out = |key, value: &str, want| {
            Err(ConfigError::OutOfRange { key, value: value.to_owned(), want })
        };
        if self.market_gateway.is_some() && (self.role == NodeRole::Router || self.follows_own()) {
            let want = "none with role = \"router\" or the own partition in replica.sources: a \
                        gateway is a node";
            return out("market_gateway", "(given)", want);
        }
        self.check_links()?;
        match (self.role, &self.router) {
            (NodeRole::Gateway, _) => Ok(()),
            (NodeRole::Node, None) => Ok(()),
            (NodeRole::Node, Some(_)) => out("router", "(given)", "none without role = \"router\""),
            (NodeRole::Router, None) => out("router", "(none)", "[[router.backend]] at least once"),
            (NodeRole::Router, Some(_)) if !self.partitions.is_empty() => {
                let want = "none with role = \"router\": it matches no orders";
                out("partition", "(given)", want)
            }
            (NodeRole::Router, Some(_)) if self.ingest.is_some() => {
                out("ingest", "(given)", "none with role = \"router\": it keeps no orders")
            }
            (NodeRole::Router, Some(_)) if self.delivery.cold.is_some() => {
                let want = "none with role = \"router\": it keeps no orders";
                out("delivery.cold", "(given)", want)
            }
            (NodeRole::Router, Some(_)) if self.market_publisher.is_some() => {
                let want = "none with role = \"router\": it matches no orders";
                out("market_publisher", "(given)", want)
            }
            (NodeRole::Router, Some(_)) if self.delivery.token_key.is_none() => {
                let want = "with role = \"router\" the file of the key that its nodes seal with";
                out("delivery.token_key", "(none)", want)
            }
            (NodeRole::Router, Some(_)) => Ok(()),
        }
    }

    /// Returns the settings for recovering a partition of this node, at the node's level.
    #[must_use]
    pub fn recovery(&self) -> RecoverySettings {
        RecoverySettings {
            node_dir: self.dir.clone(),
            durability: self.durability,
            sync: self.log.sync,
            log_segment_bytes: self.log.segment_bytes,
            event_segment_bytes: self.events.segment_bytes,
            event_memory_bytes: self.events.memory_bytes,
            engine_memory: self.engine.memory,
            limits: self.engine.limits,
            memory_bytes: None,
            started: Nanos(0),
            snapshot_every_commands: self.snapshots.every_commands,
            snapshots_kept: self.snapshots.keep,
            retention: self.retention.limits(),
            archive: self.retention.archive_settings(),
        }
    }

    /// Returns the files of the keys that seal and open tokens.
    #[must_use]
    pub fn token_key_file(&self) -> TokenKeyFile {
        let delivery = &self.delivery;
        TokenKeyFile::of(&self.dir, delivery.token_key.as_deref(), &delivery.token_keys_opened)
    }

    /// Returns true when gateway and partitions share a thread.
    #[must_use]
    pub fn is_fused(&self) -> bool {
        match self.threads {
            Threads::Fused => true,
            Threads::Split => false,
            Threads::Auto => std::thread::available_parallelism().is_ok_and(|n| n.get() <= 4),
        }
    }
}

fn durability_by_name<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Durability, D::Error> {
    let name = String::deserialize(from)?;
    name.parse().map_err(serde::de::Error::custom)
}

fn strategy_by_name<'de, D: serde::Deserializer<'de>>(from: D) -> Result<SyncStrategy, D::Error> {
    let name = String::deserialize(from)?;
    name.parse().map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_syncs_is_chosen_by_name() {
        let config = Config::parse("[log]\nsync = \"io_uring\"\n").unwrap();
        assert_eq!(config.log.sync, SyncStrategy::Uring);
        assert_eq!(Config::parse("").unwrap().log.sync, SyncStrategy::Thread);
        let error = Config::parse("[log]\nsync = \"both\"\n").unwrap_err().to_string();
        assert!(error.contains("want thread or io_uring"), "{error}");
    }

    #[test]
    fn the_keys_that_stores_index_are_chosen_by_name() {
        let indexes = |text: &str| Config::parse(text).unwrap().delivery.indexes.names();
        assert_eq!(indexes("").len(), 5);
        assert_eq!(indexes("[delivery]\nindexes = \"none\"\n"), [""; 0]);
        let some = indexes("[delivery]\nindexes = [\"firm\", \"account+instrument\"]\n");
        assert_eq!(some, ["firm", "account+instrument"]);
    }

    #[test]
    fn an_empty_file_is_the_defaults() {
        let config = Config::parse("").unwrap();
        assert_eq!(config.durability, Durability::Disk);
        assert_eq!(config.listen.port(), 7001);
    }

    #[test]
    fn a_bound_of_one_participant_out_of_its_range_is_named() {
        for (section, key, bad) in [
            ("web", "session_readers_max", 0),
            ("web", "idle_s", 86_401),
            ("subscriptions", "firm_subscriptions_max", 0),
            ("subscriptions", "session_subscriptions_max", 1_048_577),
            ("subscriptions", "expire_grace_s", u64::MAX >> 1),
        ] {
            let text = format!("[{section}]\nlisten = \"127.0.0.1:0\"\n{key} = {bad}");
            let error = Config::parse(&text).unwrap_err().to_string();
            assert!(error.contains(&format!("{section}.{key}")), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("durabilty = \"disk\"", "durabilty"),
            ("durability = \"fsync\"", "want memory, os or disk"),
            ("[snapshots]\nkeep = 0", "snapshots.keep"),
            ("[log]\nsegment_bytes = 5", "log.segment_bytes"),
            ("bootstrap_key = \"12\"", "bootstrap_key"),
            ("[gateway]\nconnections_max = 0", "gateway.connections_max"),
            ("[gateway]\nstall_max_ms = 0", "gateway.stall_max_ms"),
            ("[gateway]\nstall_max_ms = 9223372036854775807", "gateway.stall_max_ms"),
            ("[gateway]\nlogon_timeout_ms = 1", "gateway.logon_timeout_ms"),
            ("[gateway]\nlobby_per_address_max = 0", "gateway.lobby_per_address_max"),
            ("[gateway]\nreturn_within_ms = 3600001", "gateway.return_within_ms"),
            ("[gateway]\ncopies_retained_max = 0", "gateway.copies_retained_max"),
            ("wait = \"sleep\"", "sleep"),
            ("[delivery]\nbytes_max = 1000", "delivery.bytes_max"),
            (
                "[ingest]\nlisten = \"127.0.0.1:0\"\nsnapshot_every_bytes = 1\n\
                 [[ingest.source]]\nid = 2\nsession = 3",
                "ingest.snapshot_every_bytes",
            ),
            (
                "[ingest]\nlisten = \"127.0.0.1:0\"\n\
                 [[ingest.source]]\nid = 2\nsession = 3\ndurability = \"fsync\"",
                "want memory, os or disk",
            ),
            (
                "[replica]\nmaster = \"127.0.0.1:1\"\nsession = 2\nkey_file = \"k\"\nsources = [0]",
                "replica.sources",
            ),
            (
                "[replica]\nmaster = \"127.0.0.1:1\"\nsession = 2\nkey_file = \"k\"\n\
                 sources = [1]\n[subscriptions]\nlisten = \"127.0.0.1:0\"",
                "subscriptions",
            ),
            (
                "[delivery]\ntoken_keys_opened = ['1', '2', '3', '4', '5', '6', '7', '8', '9']",
                "delivery.token_keys_opened",
            ),
            ("[delivery]\nsnapshot_every_bytes = 1", "delivery.snapshot_every_bytes"),
            ("[delivery.cold]\ninterval_ms = 1", "delivery.cold.interval_ms"),
            ("[delivery.cold]\nkeep_s = 0", "delivery.cold.keep_s"),
            ("[delivery.cold]\nkeep_bytes = 1", "delivery.cold.keep_bytes"),
            ("[delivery.cold]\nreaders_max = 0", "delivery.cold.readers_max"),
            ("[delivery.cold]\nrows_per_second = 1", "delivery.cold.rows_per_second"),
            ("[delivery.cold]\nsegment_bytes = 1", "delivery.cold.segment_bytes"),
            ("[delivery.cold]\nretention = 1", "retention"),
            ("[delivery]\nended_orders_max = 10\n[delivery.cold]", "delivery.ended_orders_max"),
            (
                "[delivery]\nended_orders_max = 4095\n[delivery.cold]\n[ingest]\n\
                 listen = \"127.0.0.1:0\"\n[[ingest.source]]\nid = 2\nsession = 3",
                "delivery.ended_orders_max",
            ),
            ("[delivery]\nindexes = \"some\"", "some"),
            ("[delivery]\nindexes = [\"firm\", \"price\"]", "price"),
            ("[tls]\ncertificate = \"a.pem\"", "key"),
            ("[tls]\ncertificate = \"a\"\nkey = \"b\"\nclient-ca = \"c\"", "client-ca"),
            (
                "[tls]\ncertificate = \"a\"\nkey = \"b\"\nhandshake_max_ms = 1",
                "tls.handshake_max_ms",
            ),
            ("[web]\nlisten = \"0.0.0.0:7081\"", "web.listen"),
            ("[web]\nlisten = \"127.0.0.1:0\"\nreaders_max = 0", "web.readers_max"),
        ];
        for (text, named) in cases {
            let error = Config::parse(text).unwrap_err().to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
    }

    #[test]
    fn a_key_is_64_hexadecimal_digits() {
        let text = "00ff".repeat(16);
        assert_eq!(parse_key(&text).map(|key| key[..2].to_vec()), Some(vec![0, 255]));
        assert_eq!(parse_key("zz"), None);
        assert_eq!(parse_key(&"g0".repeat(32)), None);
    }
}
