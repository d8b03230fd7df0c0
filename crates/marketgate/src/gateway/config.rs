//! The section of a configuration that makes a node a market-data gateway.

use std::net::SocketAddr;

use serde::Deserialize;
use weir_feed::{OrderIds, feed_by_name};
use weir_market::book::BooksConfig;
use weir_market::conflate::{ConflatorConfig, OnFull, Urgency};
use weir_runtime::{ConfigError, WaitStrategy};
use weir_types::{InstrumentId, Nanos};

use super::receive::ReceiveWhenFull;
use super::shm::ShmSection;
use super::standings::SessionLimits;
use super::update::WhenFull;
use crate::post::PostSection;
use crate::receiver::FeedSection;

/// The assignment of receiving and updating to threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stages {
    /// One thread for both, without a hop between them. The default.
    #[default]
    Fused,
    /// One thread each, with a ring between them.
    Staged,
}

/// A market-data gateway.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarketGatewaySection {
    /// The address for subscribers of the first flush thread; the others listen on the following
    /// ports, or on any port if this one is zero.
    pub listen: SocketAddr,
    /// The feed.
    pub feed: FeedSection,
    /// The assignment of receiving and updating to threads.
    #[serde(default)]
    pub stages: Stages,
    /// The number of flush threads; each has its own subscribers.
    #[serde(default = "default_flush_threads")]
    pub flush_threads: usize,
    /// The wait strategy of the pipeline's threads; the node's own if absent.
    pub wait: Option<WaitStrategy>,
    /// The cores to which receiving, updating if it has a thread, and the flush threads are pinned,
    /// in this order; empty pins nothing.
    #[serde(default)]
    pub cores: Vec<usize>,
    /// The number of slots of the ring between receiving and updating.
    #[serde(default = "default_ring_slots")]
    pub receive_ring: usize,
    /// The reaction when that ring is full: `wait`, or `drop`.
    #[serde(default)]
    pub receive_when_full: ReceiveWhenFull,
    /// The number of slots of the ring to the flush threads: few, because slots in it are no longer
    /// merged and age.
    #[serde(default = "default_flush_ring")]
    pub flush_ring: usize,
    /// The reaction when that ring is full: `merge`, or `wait`.
    #[serde(default)]
    pub when_full: WhenFull,
    /// The maximum number of connections of one flush thread.
    #[serde(default = "default_connections_max")]
    pub connections_max: usize,
    /// The maximum number of subscriptions of one subscriber.
    #[serde(default = "default_subscriptions_max")]
    pub subscriptions_max: u32,
    /// The maximum number of slots of one flush thread: instruments, summed up over all
    /// subscriptions.
    #[serde(default = "default_slots_max")]
    pub slots_max: u64,
    /// The maximum number of slots of one session at a flush thread.
    #[serde(default = "default_session_slots_max")]
    pub session_slots_max: u64,
    /// The maximum number of connections of one session at a flush thread.
    #[serde(default = "default_session_connections_max")]
    pub session_connections_max: u32,
    /// The maximum number of requests of one session in a second; further ones wait.
    #[serde(default = "default_session_requests_per_s")]
    pub session_requests_per_s: u32,
    /// The maximum number of messages queued for one subscription.
    #[serde(default = "default_queue_len_max")]
    pub queue_len_max: u32,
    /// The limit of instrument numbers: all are below it.
    #[serde(default = "default_instruments_max")]
    pub instruments_max: u32,
    /// The number of orders for which memory is allocated at the start.
    #[serde(default = "default_orders")]
    pub orders: u32,
    /// The least time between two messages of a quote unless it is urgent, in microseconds.
    #[serde(default = "default_interval_us")]
    pub bbo_interval_us: u64,
    /// The least time between two messages of levels, in microseconds.
    #[serde(default = "default_interval_us")]
    pub book_interval_us: u64,
    /// The least time between two messages of statistics, in microseconds.
    #[serde(default = "default_statistics_interval_us")]
    pub statistics_interval_us: u64,
    /// The price move that makes a quote urgent, in millionths of the price last sent; zero: never.
    #[serde(default = "default_urgent_move_ppm")]
    pub urgent_move_ppm: u32,
    /// Post-processing: audit, bars and statistics.
    #[serde(default)]
    pub post: PostSection,
    /// The ring in shared memory for strategies on the same machine; none if absent.
    pub shm: Option<ShmSection>,
}

fn default_flush_threads() -> usize {
    1
}

fn default_ring_slots() -> usize {
    16_384
}

fn default_flush_ring() -> usize {
    256
}

fn default_connections_max() -> usize {
    4_096
}

fn default_subscriptions_max() -> u32 {
    1_024
}

fn default_slots_max() -> u64 {
    1 << 23
}

fn default_session_slots_max() -> u64 {
    1 << 18
}

fn default_session_connections_max() -> u32 {
    16
}

fn default_session_requests_per_s() -> u32 {
    1_000
}

fn default_queue_len_max() -> u32 {
    65_536
}

fn default_instruments_max() -> u32 {
    1 << 20
}

fn default_orders() -> u32 {
    1 << 18
}

fn default_interval_us() -> u64 {
    15
}

fn default_statistics_interval_us() -> u64 {
    1_000
}

fn default_urgent_move_ppm() -> u32 {
    10_000
}

/// The maximum number of flush threads: the number of thread names.
pub const FLUSH_THREADS_MAX: usize = 8;
/// The highest limit of slots: refusals state sums of them in 32 bits.
const SLOTS_MAX: u64 = 1 << 30;

impl MarketGatewaySection {
    /// Checks the values without opening anything.
    ///
    /// # Errors
    /// [`ConfigError`], naming the value.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_ranges()?;
        self.check_sessions()?;
        if self.post.audit.is_some() && self.feed.lines.is_empty() {
            let (key, value) = ("market_gateway.post.audit", "(given)".to_owned());
            let want = "lines of a feed: what comes from a file or a connection is not audited";
            return Err(ConfigError::OutOfRange { key, value, want });
        }
        self.check_drop()?;
        self.shm.as_ref().map_or(Ok(()), ShmSection::check)?;
        self.post.check()?;
        self.feed.check()
    }

    /// Checks the limits of sessions.
    fn check_sessions(&self) -> Result<(), ConfigError> {
        let ranges = [
            ("market_gateway.slots_max", self.slots_max, SLOTS_MAX, "1 to 2^30"),
            (
                "market_gateway.session_slots_max",
                self.session_slots_max,
                self.slots_max,
                "1 to slots_max",
            ),
            (
                "market_gateway.session_connections_max",
                u64::from(self.session_connections_max),
                65_536,
                "1 to 65536",
            ),
            (
                "market_gateway.session_requests_per_s",
                u64::from(self.session_requests_per_s),
                1_000_000,
                "1 to 1000000",
            ),
        ];
        for (key, value, high, want) in ranges {
            if !(1..=high).contains(&value) {
                return Err(ConfigError::OutOfRange { key, value: value.to_string(), want });
            }
        }
        Ok(())
    }

    pub(super) fn sessions(&self) -> SessionLimits {
        SessionLimits {
            slots_max: self.slots_max,
            session_slots_max: self.session_slots_max,
            session_connections_max: self.session_connections_max,
            session_requests_per_s: self.session_requests_per_s,
        }
    }

    fn check_ranges(&self) -> Result<(), ConfigError> {
        let count = |value: usize| u64::try_from(value).unwrap_or(u64::MAX);
        let threads_max = count(FLUSH_THREADS_MAX);
        let ranges = [
            ("market_gateway.flush_threads", count(self.flush_threads), 1, threads_max, "1 to 8"),
            ("market_gateway.receive_ring", count(self.receive_ring), 2, 1 << 24, "2 to 16777216"),
            ("market_gateway.flush_ring", count(self.flush_ring), 2, 1 << 24, "2 to 16777216"),
            (
                "market_gateway.connections_max",
                count(self.connections_max),
                1,
                65_536,
                "1 to 65536",
            ),
            (
                "market_gateway.subscriptions_max",
                u64::from(self.subscriptions_max),
                1,
                1 << 20,
                "1 to 1048576",
            ),
            (
                "market_gateway.queue_len_max",
                u64::from(self.queue_len_max),
                1,
                1 << 24,
                "1 to 16777216",
            ),
            (
                "market_gateway.instruments_max",
                u64::from(self.instruments_max),
                1,
                1 << 26,
                "1 to 2^26",
            ),
            ("market_gateway.orders", u64::from(self.orders), 1, 1 << 26, "1 to 2^26"),
            (
                "market_gateway.bbo_interval_us",
                self.bbo_interval_us,
                0,
                60_000_000,
                "0 to 60000000",
            ),
            (
                "market_gateway.book_interval_us",
                self.book_interval_us,
                0,
                60_000_000,
                "0 to 60000000",
            ),
            (
                "market_gateway.statistics_interval_us",
                self.statistics_interval_us,
                0,
                60_000_000,
                "0 to 60000000",
            ),
        ];
        for (key, value, low, high, want) in ranges {
            if !(low..=high).contains(&value) {
                return Err(ConfigError::OutOfRange { key, value: value.to_string(), want });
            }
        }
        Ok(())
    }

    /// Checks `drop`, which applies only to datagrams in front of a ring.
    fn check_drop(&self) -> Result<(), ConfigError> {
        let has_ring = self.stages == Stages::Staged;
        let is_live = !self.feed.lines.is_empty() && self.feed.capture.is_none();
        if self.receive_when_full == ReceiveWhenFull::Wait || has_ring && is_live {
            return Ok(());
        }
        let (key, value) = ("market_gateway.receive_when_full", "drop".to_owned());
        let want = "`wait`, or stages = \"staged\" and a feed of lines";
        Err(ConfigError::OutOfRange { key, value, want })
    }

    pub(super) fn books(&self, has_several_channels: bool) -> BooksConfig {
        let feed = feed_by_name(&self.feed.name);
        BooksConfig {
            order_ids: feed.map_or(OrderIds::OfFeed, |entry| {
                entry.profile.order_ids_over(has_several_channels)
            }),
            orders: self.orders,
            instruments_max: self.instruments_max,
            ..BooksConfig::default()
        }
    }

    pub(super) fn conflator(&self) -> ConflatorConfig {
        let micros = |value: u64| Nanos(value * 1_000);
        let move_ppm = (self.urgent_move_ppm > 0).then_some(self.urgent_move_ppm);
        ConflatorConfig {
            bbo_interval: micros(self.bbo_interval_us),
            book_interval: micros(self.book_interval_us),
            statistics_interval: micros(self.statistics_interval_us),
            urgency: Urgency { move_ppm, move_abs: None },
            instrument_id_max: InstrumentId(self.instruments_max - 1),
            on_full: OnFull::Gap,
            ..ConflatorConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_sessions_have_ranges_and_a_session_has_no_more_slots_than_all() {
        let cases = [
            ("slots_max = 262144", None),
            ("slots_max = 262143", Some("market_gateway.session_slots_max")),
            ("slots_max = 0", Some("market_gateway.slots_max")),
            ("slots_max = 1073741825", Some("market_gateway.slots_max")),
            ("slots_max = 5\nsession_slots_max = 5", None),
            ("session_slots_max = 0", Some("market_gateway.session_slots_max")),
            ("session_connections_max = 0", Some("market_gateway.session_connections_max")),
            ("session_connections_max = 65537", Some("market_gateway.session_connections_max")),
            ("session_requests_per_s = 0", Some("market_gateway.session_requests_per_s")),
            ("session_requests_per_s = 1000001", Some("market_gateway.session_requests_per_s")),
        ];
        for (keys, want) in cases {
            let text = format!("listen = \"127.0.0.1:0\"\n{keys}\n{LINES}");
            let section: MarketGatewaySection = toml::from_str(&text).expect("it can be read");
            let refused = section.check().err().map(|error| match error {
                ConfigError::OutOfRange { key, .. } => key,
                other => panic!("{keys}: {other}"),
            });
            assert_eq!(refused, want, "{keys}");
        }
    }

    const LINES: &str = "[feed]\nname = \"itch\"\n[[feed.lines]]\na = \"127.0.0.1:1\"\n";
    const FILE: &str = "[feed]\nname = \"itch\"\n[feed.capture]\nfile = \"x\"\n";

    #[test]
    fn datagrams_are_dropped_only_where_there_are_some_and_a_ring() {
        let cases = [
            ("", LINES, true),
            ("receive_when_full = \"wait\"\n", FILE, true),
            ("receive_when_full = \"drop\"\nstages = \"staged\"\n", LINES, true),
            ("receive_when_full = \"drop\"\n", LINES, false),
            ("receive_when_full = \"drop\"\nstages = \"staged\"\n", FILE, false),
        ];
        for (keys, feed, is_right) in cases {
            let text = format!("listen = \"127.0.0.1:0\"\n{keys}{feed}");
            let section: MarketGatewaySection = toml::from_str(&text).expect("it can be read");
            match section.check() {
                Ok(()) => assert!(is_right, "{text}"),
                Err(error) => {
                    assert!(!is_right, "{text}: {error}");
                    assert!(
                        error.to_string().contains("market_gateway.receive_when_full"),
                        "{error}"
                    );
                }
            }
        }
        let unknown = format!("listen = \"127.0.0.1:0\"\nreceive_when_full = \"lose\"\n{LINES}");
        assert!(toml::from_str::<MarketGatewaySection>(&unknown).is_err());
    }
}
