//! The node's configuration: a TOML file over built-in defaults, and the command line over both.
//!
//! An unknown key or a value out of range is an error that names it; nothing is guessed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use weir_io::SyncStrategy;
use weir_marketgate::gateway::MarketSection;
use weir_orderstate::cold::ColdSection;
use weir_orderstate::router::RouterSection;
use weir_orderstate::stores::{Indexes, StoreSettings};
use weir_orderstate::token_keys::TokenKeyFile;
use weir_partition::recovery::{EngineMemory, RecoverySettings};
use weir_runtime::ConfigError;
use weir_runtime::WaitStrategy;
use weir_tls::ServerFiles;
use weir_types::hex::parse_key;
use weir_types::{Durability, Nanos, PartitionId};

use crate::diagnostics::{LineFormat, LineLevel};

mod market_data;
mod replica;
#[cfg(test)]
mod router_tests;

pub use self::market_data::{MarketDataSection, PublishSection};
pub use self::replica::ReplicaSection;

/// Which agents share a thread.
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

/// What a process is to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum NodeRole {
    /// An exchange: it trades, and has a store of its orders and of other sources'.
    #[default]
    Node,
    /// It has no orders; it serves those of the nodes behind it as one service.
    Router,
}

/// All that can be set. Sizes are in bytes, times in the unit of the name.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What it is to others: `node` or `router`.
    pub role: NodeRole,
    /// The directory of logs and snapshots.
    pub dir: PathBuf,
    /// Where order entry and delivery listen.
    pub listen: SocketAddr,
    /// Where metrics and status are served over HTTP.
    pub http: SocketAddr,
    /// What an acknowledgement promises: `memory`, `os` or `disk`.
    #[serde(deserialize_with = "durability_by_name")]
    pub durability: Durability,
    /// What a thread without work does: `park`, `yield` or `spin`.
    pub wait: WaitStrategy,
    /// Which agents share a thread: `auto`, `fused` or `split`.
    pub threads: Threads,
    /// Cores to pin the gateway, the partitions, delivery to, in this order; empty pins nothing.
    pub cores: Vec<usize>,
    /// The API key of the first operator, session 1, in hexadecimal; used once, when the control
    /// log is empty. Without it a key is made and printed.
    pub bootstrap_key: Option<String>,
    /// Gives the first operator a new key at this start, though the control log has one: that of
    /// [`Config::bootstrap_key`], or one that is made. Never in a file: it is for one start.
    #[serde(skip)]
    pub new_operator_key: bool,
    /// The command logs.
    pub log: LogSection,
    /// The event logs.
    pub events: EventsSection,
    /// Snapshots.
    pub snapshots: SnapshotsSection,
    /// The matching engines.
    pub engine: EngineSection,
    /// The gateway.
    pub gateway: GatewaySection,
    /// TLS for order entry and delivery; without it connections are plain.
    pub tls: Option<TlsSection>,
    /// The delivery store.
    pub delivery: DeliverySection,
    /// Order state over HTTP; not served without it.
    pub web: Option<WebSection>,
    /// Where outside cores feed their orders; without it none can.
    pub ingest: Option<IngestSection>,
    /// The node whose sources this one follows; without it none.
    pub replica: Option<ReplicaSection>,
    /// Durable subscriptions; not served without it.
    pub broker: Option<BrokerSection>,
    /// A market-data gateway; none without it.
    pub market: Option<MarketSection>,
    /// What of the market goes out.
    pub market_data: MarketDataSection,
    /// What a router stands before; only with the role `router`.
    pub router: Option<RouterSection>,
    /// Probes.
    pub probes: ProbesSection,
    /// What is written on standard error.
    pub diagnostics: DiagnosticsSection,
}

/// The command logs.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogSection {
    /// Bytes of one segment file.
    pub segment_bytes: u64,
    /// Who writes and syncs, the event logs too: `thread`, or `io_uring` where the kernel has it.
    #[serde(deserialize_with = "strategy_by_name")]
    pub sync: SyncStrategy,
}

/// The event logs.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EventsSection {
    /// Bytes of recent events kept in memory, from which views read.
    pub memory_bytes: u64,
    /// Bytes of one segment file.
    pub segment_bytes: u64,
}

/// Snapshots.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SnapshotsSection {
    /// A snapshot is taken after so many commands.
    pub every_commands: u64,
    /// How many are kept.
    pub keep: usize,
}

/// The matching engines.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineSection {
    /// When a trading partition's engine takes its memory: `as-filled` or `ahead`.
    pub memory: EngineMemory,
}

/// The gateway.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GatewaySection {
    /// Connections at the same time.
    pub connections_max: usize,
    /// Bytes that may wait to be read by one connection.
    pub output_bytes_max: usize,
    /// How long a connection may leave its output unread, in milliseconds.
    pub stall_max_ms: u64,
    /// How long a connection may be without a session, in milliseconds.
    pub logon_timeout_ms: u64,
    /// Connections of one address that may be without a session at the same time.
    pub lobby_per_address_max: u32,
    /// Reports of a firm in a partition that copies can be asked from; eight bytes each. For copies
    /// of all firms' there are four times as many.
    pub copies_retained_max: u32,
}

/// TLS for every door of the node but that of HTTP: order entry and delivery, outside cores,
/// subscribers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSection {
    /// The node's certificate and those between it and its authority, a PEM file.
    pub certificate: PathBuf,
    /// The certificate's private key, a PEM file.
    pub key: PathBuf,
    /// Authorities of clients' certificates, a PEM file; without it no client is asked for one.
    pub client_ca: Option<PathBuf>,
    /// Whether a client without a certificate is refused, where `client_ca` is given.
    #[serde(default = "default_client_required")]
    pub client_required: bool,
    /// How long a handshake may take, in milliseconds.
    #[serde(default = "default_handshake_max_ms")]
    pub handshake_max_ms: u64,
    /// Handshakes at the same time; further connections wait in the system's queue.
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
    /// With these files and all else by default.
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

    /// The files, for who opens them.
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
    /// Ended orders kept for readers that are behind.
    pub ended_orders_max: usize,
    /// The latency budget of a waiting reader, in microseconds: how often the store looks again.
    pub look_interval_us: u64,
    /// Bytes of memory that each store may ask for; without it there is no limit.
    pub bytes_max: Option<u64>,
    /// The keys that are indexed: `"all"`, `"none"` or a list.
    pub indexes: Indexes,
    /// Bytes of the node's own events after which a snapshot of their store is taken.
    pub snapshot_every_bytes: u64,
    /// The file of the key that seals tokens, 32 bytes, where nodes and routers share one; without
    /// it a node makes its own in its directory.
    pub token_key: Option<PathBuf>,
    /// Files of further keys, which open tokens and seal none: that of before, and that to come.
    pub token_keys_opened: Vec<PathBuf>,
    /// What is kept of the node's own orders when the store lets them go; nothing without it.
    pub cold: Option<ColdSection>,
}

/// Order state over HTTP. Keys come in clear there, so it listens on this machine alone unless
/// something before it speaks TLS.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebSection {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Questions and WebSockets at the same time.
    #[serde(default = "default_readers_max")]
    pub readers_max: usize,
    /// Set where a proxy with TLS stands before it, and nobody else reaches it.
    #[serde(default)]
    pub behind_tls_proxy: bool,
}

/// The default of `web.readers_max`.
#[must_use]
pub fn default_readers_max() -> usize {
    4_096
}

impl WebSection {
    fn check(&self) -> Result<(), ConfigError> {
        let value = self.readers_max;
        if !(1..=60_000).contains(&value) {
            let (key, value) = ("web.readers_max", value.to_string());
            return Err(ConfigError::OutOfRange { key, value, want: "1 to 60000" });
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

/// Ingest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IngestSection {
    /// Where outside cores connect.
    pub listen: SocketAddr,
    /// Connections at the same time.
    #[serde(default = "default_ingest_connections_max")]
    pub connections_max: usize,
    /// Bytes of a source's log after which a snapshot of its store is taken.
    #[serde(default = "default_snapshot_every_bytes")]
    pub snapshot_every_bytes: u64,
    /// The sources; none where the listener is for replicas alone.
    #[serde(rename = "source", default)]
    pub sources: Vec<SourceSection>,
}

/// A source: an outside core whose orders are kept.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceSection {
    /// Its number among partitions and sources: 2 to 65535.
    pub id: u16,
    /// The session of the role `Source` that feeds it.
    pub session: u32,
    /// Bytes of memory that its store may ask for; that of `[delivery]` without it.
    pub bytes_max: Option<u64>,
    /// What an acknowledged batch survives: `memory`, `os` or `disk`.
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

/// The most sources of a node.
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
            // 0 is the control log, 1 the node's own partition.
            if source.id < 2 {
                return out("ingest.source.id", source.id.to_string(), "2 to 65535");
            }
            if self.sources[..index].iter().any(|other| other.id == source.id) {
                return out("ingest.source.id", source.id.to_string(), "each source once");
            }
        }
        Ok(())
    }
}

/// Durable subscriptions.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrokerSection {
    /// Where subscribers and publishers connect.
    pub listen: SocketAddr,
    /// The directory of what was not taken; `broker` in the node's own without it.
    #[serde(default)]
    pub dir: Option<PathBuf>,
    /// Connections at the same time.
    #[serde(default = "default_broker_connections_max")]
    pub connections_max: usize,
    /// Bytes of memory that messages may take; from half of it on they go to disk.
    #[serde(default = "default_broker_memory_bytes_max")]
    pub memory_bytes_max: u64,
    /// Bytes of disk that what was not taken may take.
    #[serde(default = "default_broker_disk_bytes_max")]
    pub disk_bytes_max: u64,
    /// What is done when neither has room: `evict` who is the furthest behind, or `refuse`
    /// publishers.
    #[serde(default)]
    pub on_full: WhenFull,
    /// How many subscriptions there may be.
    #[serde(default = "default_broker_subscriptions_max")]
    pub subscriptions_max: usize,
    /// The quota of subscriptions that ask for none: bytes not taken.
    #[serde(default = "default_broker_quota_bytes")]
    pub quota_bytes: u64,
    /// The same: messages not taken.
    #[serde(default = "default_broker_quota_messages")]
    pub quota_messages: u64,
    /// The same: how old a message may be that is not taken, in seconds.
    #[serde(default = "default_broker_quota_age_s")]
    pub quota_age_s: u64,
    /// How long nobody may be attached to a subscription that asks for no time, in seconds.
    #[serde(default = "default_broker_expire_after_s")]
    pub expire_after_s: u64,
    /// How long a message waits to be taken by subscribers that are there before it is written, in
    /// microseconds.
    #[serde(default = "default_broker_hold_us")]
    pub hold_us: u64,
}

/// What is done when neither memory nor disk has room for what was not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenFull {
    /// Who is the furthest behind is evicted.
    #[default]
    Evict,
    /// Publishers are refused until there is room.
    Refuse,
}

fn default_broker_connections_max() -> usize {
    4_096
}

fn default_broker_memory_bytes_max() -> u64 {
    256 << 20
}

fn default_broker_disk_bytes_max() -> u64 {
    64 << 30
}

fn default_broker_subscriptions_max() -> usize {
    10_000
}

fn default_broker_quota_bytes() -> u64 {
    1 << 30
}

fn default_broker_quota_messages() -> u64 {
    1 << 24
}

fn default_broker_quota_age_s() -> u64 {
    7 * 24 * 3600
}

fn default_broker_expire_after_s() -> u64 {
    30 * 24 * 3600
}

fn default_broker_hold_us() -> u64 {
    2_000
}

impl BrokerSection {
    fn check(&self) -> Result<(), ConfigError> {
        let count = |value: usize| value as u64;
        let (gib, seconds) = (1 << 30, 10 * 366 * 24 * 3600);
        let ranges = [
            ("broker.connections_max", count(self.connections_max), 1, 65_536, "1 to 65536"),
            ("broker.subscriptions_max", count(self.subscriptions_max), 1, 1 << 20, "1 to 1048576"),
            ("broker.memory_bytes_max", self.memory_bytes_max, 1 << 20, 1024 * gib, "from 1 MiB"),
            ("broker.disk_bytes_max", self.disk_bytes_max, 1 << 20, 1 << 50, "from 1 MiB"),
            ("broker.quota_bytes", self.quota_bytes, 1, 1 << 50, "at least 1"),
            ("broker.quota_messages", self.quota_messages, 1, 1 << 50, "at least 1"),
            ("broker.quota_age_s", self.quota_age_s, 1, seconds, "1 to ten years' seconds"),
            ("broker.expire_after_s", self.expire_after_s, 1, seconds, "1 to ten years' seconds"),
            ("broker.hold_us", self.hold_us, 0, 10_000_000, "0 to 10000000"),
        ];
        for (key, value, least, most, want) in ranges {
            if !(least..=most).contains(&value) {
                return Err(ConfigError::OutOfRange { key, value: value.to_string(), want });
            }
        }
        Ok(())
    }

    /// The broker's own configuration, at the node's level.
    #[must_use]
    pub fn config(&self, id_if_new: u128, durability: Durability) -> weir_broker::Config {
        const SECOND: u64 = 1_000_000_000;
        weir_broker::Config {
            durability,
            memory_bytes_max: self.memory_bytes_max,
            disk_bytes_max: self.disk_bytes_max,
            hold: Nanos(self.hold_us * 1_000),
            expire_after: Nanos(self.expire_after_s * SECOND),
            quota: weir_broker::Quota {
                bytes_max: self.quota_bytes,
                messages_max: self.quota_messages,
                age_max: Nanos(self.quota_age_s * SECOND),
            },
            on_full: match self.on_full {
                WhenFull::Evict => weir_broker::OnFull::Evict,
                WhenFull::Refuse => weir_broker::OnFull::Refuse,
            },
            subscriptions_max: self.subscriptions_max,
            ..weir_broker::Config::new(id_if_new)
        }
    }
}

/// Probes.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProbesSection {
    /// Whether orders are stamped.
    pub enabled: bool,
    /// Whether the cores are watched for stolen time.
    pub hiccups: bool,
    /// A file to capture all stamps in.
    pub capture: Option<PathBuf>,
}

/// What is written on standard error.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiagnosticsSection {
    /// How a line looks: `text` or `json`.
    pub format: LineFormat,
    /// The least important lines that are written: `error`, `warn`, `info` or `debug`.
    pub level: LineLevel,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            role: NodeRole::default(),
            dir: PathBuf::from("weir-data"),
            listen: SocketAddr::from(([127, 0, 0, 1], 7001)),
            http: SocketAddr::from(([127, 0, 0, 1], 7080)),
            durability: Durability::Disk,
            wait: WaitStrategy::Park,
            threads: Threads::Auto,
            cores: Vec::new(),
            bootstrap_key: None,
            new_operator_key: false,
            log: LogSection::default(),
            events: EventsSection::default(),
            snapshots: SnapshotsSection::default(),
            engine: EngineSection::default(),
            gateway: GatewaySection::default(),
            tls: None,
            delivery: DeliverySection::default(),
            web: None,
            ingest: None,
            replica: None,
            broker: None,
            market: None,
            market_data: MarketDataSection::default(),
            router: None,
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
        }
    }
}

impl GatewaySection {
    /// The keys that have bounds of their own, with values, bounds and what is wanted.
    fn ranges(&self) -> [(&'static str, u64, u64, u64, &'static str); 3] {
        let (time, count) = (self.logon_timeout_ms, u64::from(self.lobby_per_address_max));
        let copies = u64::from(self.copies_retained_max);
        [
            ("gateway.copies_retained_max", copies, 1, 1 << 28, "1 to 268435456"),
            ("gateway.logon_timeout_ms", time, 100, 3_600_000, "100 to 3600000"),
            ("gateway.lobby_per_address_max", count, 1, 1_000_000, "1 to 1000000"),
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

/// Each is tried on a token that does not open.
const TOKEN_KEYS_OPENED_MAX: u64 = 8;

/// The least that a store may be given: some growth of its tables has to fit.
const STORE_BYTES_MIN: u64 = 16 << 20;

impl DeliverySection {
    /// The keys that have bounds of their own, with values, bounds and what is wanted.
    fn ranges(&self) -> [(&'static str, u64, u64, u64, &'static str); 3] {
        let (look, every) = (self.look_interval_us, self.snapshot_every_bytes);
        let opened = self.token_keys_opened.len() as u64;
        [
            ("delivery.look_interval_us", look, 50, 1_000_000, "50 to 1000000"),
            ("delivery.snapshot_every_bytes", every, 4_096, u64::MAX, "4096 or more"),
            ("delivery.token_keys_opened", opened, 0, TOKEN_KEYS_OPENED_MAX, "at most 8 files"),
        ]
    }

    /// How the store of a source is to be; what it may ask for where that is said apart.
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
        check_store_bytes("delivery.bytes_max", self.delivery.bytes_max)?;
        if let Some(cold) = &self.delivery.cold {
            let has_sources = self.ingest.as_ref().is_some_and(|i| !i.sources.is_empty());
            cold.check((self.delivery.ended_orders_max, has_sources))?;
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
        if let Some(replica) = &self.replica {
            replica.check(self.ingest.as_ref(), self.broker.is_some())?;
        }
        if let Some(broker) = &self.broker {
            broker.check()?;
        }
        if let Some(market) = &self.market {
            market.check()?;
        }
        if let Some(publish) = &self.market_data.publish {
            publish.check(self.role == NodeRole::Node && !self.follows_own())?;
        }
        if let Some(router) = &self.router {
            router.check()?;
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

    /// Checks that what is set fits the role, which the command line may have changed.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`].
    pub fn check_role(&self) -> Result<(), ConfigError> {
        let out = |key, value: &str, want| {
            Err(ConfigError::OutOfRange { key, value: value.to_owned(), want })
        };
        if self.market.is_some() && (self.role == NodeRole::Router || self.follows_own()) {
            let want = "none with role = \"router\" or source 1 in [replica]: a gateway is a node";
            return out("market", "(given)", want);
        }
        match (self.role, &self.router) {
            (NodeRole::Node, None) => Ok(()),
            (NodeRole::Node, Some(_)) => out("router", "(given)", "none without role = \"router\""),
            (NodeRole::Router, None) => out("router", "(none)", "[[router.backend]] at least once"),
            (NodeRole::Router, Some(_)) if self.ingest.is_some() => {
                out("ingest", "(given)", "none with role = \"router\": it keeps no orders")
            }
            (NodeRole::Router, Some(_)) if self.delivery.cold.is_some() => {
                let want = "none with role = \"router\": it keeps no orders";
                out("delivery.cold", "(given)", want)
            }
            (NodeRole::Router, Some(_)) if self.market_data.publish.is_some() => {
                let want = "none with role = \"router\": it matches no orders";
                out("market_data.publish", "(given)", want)
            }
            (NodeRole::Router, Some(_)) if self.delivery.token_key.is_none() => {
                let want = "with role = \"router\" the file of the key that its nodes seal with";
                out("delivery.token_key", "(none)", want)
            }
            (NodeRole::Router, Some(_)) => Ok(()),
        }
    }

    /// The settings by which a partition of this node is recovered.
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
            snapshot_every_commands: self.snapshots.every_commands,
            snapshots_kept: self.snapshots.keep,
        }
    }

    /// The files of the keys that seal and open tokens.
    #[must_use]
    pub fn token_key_file(&self) -> TokenKeyFile {
        let delivery = &self.delivery;
        TokenKeyFile::of(&self.dir, delivery.token_key.as_deref(), &delivery.token_keys_opened)
    }

    /// Whether it has no partition that trades, but follows another node's.
    #[must_use]
    pub fn follows_own(&self) -> bool {
        self.replica.as_ref().is_some_and(ReplicaSection::follows_own)
    }

    /// Whether gateway and partitions share a thread.
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
    fn an_engine_takes_its_memory_ahead_where_the_file_says_so() {
        let config = Config::parse("[engine]\nmemory = \"ahead\"\n").unwrap();
        assert_eq!(config.engine.memory, EngineMemory::Ahead);
        assert_eq!(Config::parse("").unwrap().engine.memory, EngineMemory::AsFilled);
        assert!(Config::parse("[engine]\nmemory = \"now\"\n").is_err());
    }

    #[test]
    fn an_empty_file_is_the_defaults() {
        let config = Config::parse("").unwrap();
        assert_eq!(config.durability, Durability::Disk);
        assert_eq!(config.listen.port(), 7001);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("durabilty = \"disk\"", "durabilty"),
            ("durability = \"fsync\"", "want memory, os or disk"),
            ("[snapshots]\nkeep = 0", "snapshots.keep"),
            ("[log]\nsegment_bytes = 5", "log.segment_bytes"),
            ("bootstrap_key = \"12\"", "bootstrap_key"),
            ("[gateway]\nlogon_timeout_ms = 1", "gateway.logon_timeout_ms"),
            ("[gateway]\nlobby_per_address_max = 0", "gateway.lobby_per_address_max"),
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
                 sources = [1]\n[broker]\nlisten = \"127.0.0.1:0\"",
                "broker",
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
