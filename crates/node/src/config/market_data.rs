//! The part of the configuration that says what of the market goes out.

use std::net::{Ipv4Addr, SocketAddrV4};

use serde::Deserialize;

use super::ConfigError;

/// Market data.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MarketDataSection {
    /// The node's own market as ITCH 5.0 over MoldUDP64; not published without it.
    pub publish: Option<PublishSection>,
}

/// Where the node's own market is sent, and what is kept for who missed some of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishSection {
    /// The group that everything is sent to, line A.
    pub group: SocketAddrV4,
    /// A second group that gets the same, line B.
    pub line_b: Option<SocketAddrV4>,
    /// The address of this machine that sends: nothing leaves the machine by mistake.
    #[serde(default = "default_interface")]
    pub interface: Ipv4Addr,
    /// How many routers a packet may cross, its time to live.
    #[serde(default = "default_hops")]
    pub hops: u32,
    /// Where requests for what was missed are taken, by UDP.
    pub requests: SocketAddrV4,
    /// Requests a second that one address is answered.
    #[serde(default = "default_requests_per_second")]
    pub requests_per_second: u32,
    /// Messages kept of a session, 52 bytes each, and as many of the one before it.
    #[serde(default = "default_messages_max")]
    pub messages_max: usize,
    /// Bytes of a packet without IP's and UDP's own.
    #[serde(default = "default_packet_bytes")]
    pub packet_bytes: usize,
    /// How often the thread looks for events when it has nothing to do and parks, in microseconds.
    #[serde(default = "default_look_interval_us")]
    pub look_interval_us: u64,
    /// The hour of UTC at which a day begins, and a session with it.
    #[serde(default)]
    pub day_begins_hour: u8,
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

impl PublishSection {
    /// As it is without anything said besides where to send and where to take requests.
    #[must_use]
    pub fn new(group: SocketAddrV4, requests: SocketAddrV4) -> PublishSection {
        PublishSection {
            group,
            line_b: None,
            interface: default_interface(),
            hops: default_hops(),
            requests,
            requests_per_second: default_requests_per_second(),
            messages_max: default_messages_max(),
            packet_bytes: default_packet_bytes(),
            look_interval_us: default_look_interval_us(),
            day_begins_hour: 0,
        }
    }

    pub(super) fn check(&self, has_partition: bool) -> Result<(), ConfigError> {
        let out = |key, value: String, want| Err(ConfigError::OutOfRange { key, value, want });
        if !has_partition {
            let want = "only where orders are matched: no router, and not 1 in replica.sources";
            return out("market_data.publish", "(given)".to_owned(), want);
        }
        for group in [Some(self.group), self.line_b].into_iter().flatten() {
            if group.port() == 0 {
                let want = "a port other than 0, and the address of a group or a receiver";
                return out("market_data.publish.group", group.to_string(), want);
            }
        }
        let (per_second, messages) =
            (u64::from(self.requests_per_second), self.messages_max as u64);
        let (bytes, hour) = (self.packet_bytes as u64, u64::from(self.day_begins_hour));
        let ranges: [(&'static str, u64, u64, u64, &'static str); 6] = [
            ("market_data.publish.hops", self.hops.into(), 0, 255, "0 to 255"),
            ("market_data.publish.requests_per_second", per_second, 1, 1_000_000, "1 to 1000000"),
            ("market_data.publish.messages_max", messages, 1_000, 1 << 30, "1000 to 1073741824"),
            ("market_data.publish.packet_bytes", bytes, 100, 9_000, "100 to 9000"),
            (
                "market_data.publish.look_interval_us",
                self.look_interval_us,
                10,
                1_000_000,
                "10 to 1000000",
            ),
            ("market_data.publish.day_begins_hour", hour, 0, 23, "0 to 23"),
        ];
        for (key, value, least, most, want) in ranges {
            if !(least..=most).contains(&value) {
                return out(key, value.to_string(), want);
            }
        }
        Ok(())
    }
}
