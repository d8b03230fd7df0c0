//! The section `[subscriptions]`: the service of durable subscriptions.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;
use weir_runtime::ConfigError;
use weir_types::{Durability, Nanos};

/// Durable subscriptions.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubscriptionsSection {
    /// The listening address for subscribers and publishers.
    pub listen: SocketAddr,
    /// The directory of spilled messages; `broker` in the node's own without it.
    #[serde(default)]
    pub dir: Option<PathBuf>,
    /// The maximum number of simultaneous connections.
    #[serde(default = "default_connections_max")]
    pub connections_max: usize,
    /// The memory limit of messages in bytes; beyond half of it they are spilled to disk.
    #[serde(default = "default_memory_bytes_max")]
    pub memory_bytes_max: u64,
    /// The disk limit of messages not taken, in bytes.
    #[serde(default = "default_disk_bytes_max")]
    pub disk_bytes_max: u64,
    /// The action when memory and disk are full: `evict` the subscription that is furthest behind,
    /// or `refuse` publishers.
    #[serde(default)]
    pub on_full: WhenFull,
    /// The maximum number of subscriptions.
    #[serde(default = "default_subscriptions_max")]
    pub subscriptions_max: usize,
    /// The maximum number of subscriptions of one firm, and of attachments of one connection.
    #[serde(default = "default_firm_subscriptions_max")]
    pub firm_subscriptions_max: usize,
    /// The maximum number of subscriptions that one session has created.
    #[serde(default = "default_session_subscriptions_max")]
    pub session_subscriptions_max: usize,
    /// The largest quota of a subscription, and the default: bytes not taken.
    #[serde(default = "default_quota_bytes")]
    pub quota_bytes: u64,
    /// The largest quota of a subscription, and the default: messages not taken.
    #[serde(default = "default_quota_messages")]
    pub quota_messages: u64,
    /// The largest quota of a subscription, and the default: the age of the oldest message not
    /// taken, in seconds.
    #[serde(default = "default_quota_age_s")]
    pub quota_age_s: u64,
    /// The longest time after which a subscription without a client is due to expire, and the
    /// default, in seconds of service.
    #[serde(default = "default_expire_after_s")]
    pub expire_after_s: u64,
    /// The time for which a subscription that is due to expire is kept all the same, and at least
    /// after a start, in seconds of service.
    #[serde(default = "default_expire_grace_s")]
    pub expire_grace_s: u64,
    /// The time that a message waits to be taken by connected subscribers before it is written, in
    /// microseconds.
    #[serde(default = "default_hold_us")]
    pub hold_us: u64,
}

/// The action when neither memory nor disk has room for messages not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenFull {
    /// The subscription that is furthest behind is evicted.
    #[default]
    Evict,
    /// Publishers are refused until there is room.
    Refuse,
}

fn default_connections_max() -> usize {
    4_096
}

fn default_memory_bytes_max() -> u64 {
    256 << 20
}

fn default_disk_bytes_max() -> u64 {
    64 << 30
}

fn default_subscriptions_max() -> usize {
    10_000
}

fn default_firm_subscriptions_max() -> usize {
    1_000
}

fn default_session_subscriptions_max() -> usize {
    250
}

fn default_quota_bytes() -> u64 {
    1 << 30
}

fn default_quota_messages() -> u64 {
    1 << 24
}

fn default_quota_age_s() -> u64 {
    7 * 24 * 3600
}

fn default_expire_after_s() -> u64 {
    30 * 24 * 3600
}

fn default_expire_grace_s() -> u64 {
    3_600
}

fn default_hold_us() -> u64 {
    2_000
}

impl SubscriptionsSection {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let count = |value: usize| value as u64;
        let (gib, seconds) = (1 << 30, 10 * 366 * 24 * 3600);
        let ranges = [
            ("subscriptions.connections_max", count(self.connections_max), 1, 65_536, "1 to 65536"),
            (
                "subscriptions.subscriptions_max",
                count(self.subscriptions_max),
                1,
                1 << 20,
                "1 to 1048576",
            ),
            (
                "subscriptions.firm_subscriptions_max",
                count(self.firm_subscriptions_max),
                1,
                1 << 20,
                "1 to 1048576",
            ),
            (
                "subscriptions.session_subscriptions_max",
                count(self.session_subscriptions_max),
                1,
                1 << 20,
                "1 to 1048576",
            ),
            (
                "subscriptions.expire_grace_s",
                self.expire_grace_s,
                0,
                seconds,
                "0 to ten years' seconds",
            ),
            (
                "subscriptions.memory_bytes_max",
                self.memory_bytes_max,
                1 << 20,
                1024 * gib,
                "from 1 MiB",
            ),
            ("subscriptions.disk_bytes_max", self.disk_bytes_max, 1 << 20, 1 << 50, "from 1 MiB"),
            ("subscriptions.quota_bytes", self.quota_bytes, 1, 1 << 50, "at least 1"),
            ("subscriptions.quota_messages", self.quota_messages, 1, 1 << 50, "at least 1"),
            ("subscriptions.quota_age_s", self.quota_age_s, 1, seconds, "1 to ten years' seconds"),
            (
                "subscriptions.expire_after_s",
                self.expire_after_s,
                1,
                seconds,
                "1 to ten years' seconds",
            ),
            ("subscriptions.hold_us", self.hold_us, 0, 10_000_000, "0 to 10000000"),
        ];
        for (key, value, least, most, want) in ranges {
            if !(least..=most).contains(&value) {
                return Err(ConfigError::OutOfRange { key, value: value.to_string(), want });
            }
        }
        Ok(())
    }

    /// Returns the bounds of one participant.
    #[must_use]
    pub fn bounds(&self) -> weir_subscribe::Bounds {
        weir_subscribe::Bounds {
            firm_max: self.firm_subscriptions_max,
            session_max: self.session_subscriptions_max,
        }
    }

    /// Returns the broker's own configuration, at the node's durability level.
    #[must_use]
    pub fn config(&self, id_if_new: u128, durability: Durability) -> weir_broker::Config {
        const SECOND: u64 = 1_000_000_000;
        weir_broker::Config {
            durability,
            memory_bytes_max: self.memory_bytes_max,
            disk_bytes_max: self.disk_bytes_max,
            hold: Nanos(self.hold_us * 1_000),
            expire_after: Nanos(self.expire_after_s * SECOND),
            expire_grace: Nanos(self.expire_grace_s * SECOND),
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
