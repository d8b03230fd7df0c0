//! The sections `[[partition]]`: the node's trading partitions.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer};
use weir_gateway::{Assignment, InstrumentPattern};
use weir_runtime::ConfigError;
use weir_types::{Durability, PartitionId};

use super::{Config, MarketPublisherSection, NodeRole, durability_by_name};

/// The number of the partition of a node whose configuration has none.
const DEFAULT_ID: PartitionId = PartitionId(1);
/// The maximum number of a node's partitions: an answer to a logon has a resume point of each, and
/// of the control partition.
pub const PARTITIONS_MAX: usize = 63;

/// A trading partition.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionSection {
    /// Its number, 1 to 65535. It is in the ids of its orders, in its logs, and in tokens, where it
    /// names the source of the partition's orders.
    pub id: u16,
    /// The new instruments that it takes: `"ABC"`, `"AB*"`, `"*"`, or `"#7"` for an identifier. The
    /// closest pattern of all partitions decides. An instrument that has a partition stays there.
    #[serde(default, deserialize_with = "patterns")]
    pub instruments: Vec<InstrumentPattern>,
    /// Its directory, elsewhere than below the node's: for a disk of its own.
    pub dir: Option<PathBuf>,
    /// The durability level of an acknowledgement: `memory`, `os` or `disk`; the node's without it.
    #[serde(default, deserialize_with = "durability_if_named")]
    pub durability: Option<Durability>,
    /// The thread that runs it, with the other partitions that name it; that of the node's other
    /// partitions without it.
    pub thread: Option<String>,
    /// The core of that thread; not pinned without it.
    pub core: Option<usize>,
    /// Its market as ITCH 5.0 over MoldUDP64, in a channel of its own; not published without it.
    pub market_publisher: Option<MarketPublisherSection>,
}

fn patterns<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<InstrumentPattern>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    let patterns = texts.iter().map(|text| text.parse().map_err(serde::de::Error::custom));
    patterns.collect()
}

fn durability_if_named<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Durability>, D::Error> {
    durability_by_name(from).map(Some)
}

impl Config {
    /// Returns the numbers of the trading partitions, its own or followed, in ascending order; none
    /// for a router.
    #[must_use]
    pub fn own_ids(&self) -> Vec<PartitionId> {
        if self.role != NodeRole::Node {
            return Vec::new();
        }
        let mut ids: Vec<_> = self.partitions.iter().map(|one| PartitionId(one.id)).collect();
        ids.sort_unstable();
        if ids.is_empty() { vec![DEFAULT_ID] } else { ids }
    }

    /// Returns the assignment of new instruments to partitions: by their patterns, and to a single
    /// partition all others.
    #[must_use]
    pub fn assignment(&self) -> Assignment {
        let patterns = |one: &PartitionSection| {
            let id = PartitionId(one.id);
            one.instruments.clone().into_iter().map(move |pattern| (pattern, id))
        };
        let rules = self.partitions.iter().flat_map(patterns).collect();
        let rest = match self.own_ids()[..] {
            [only] if !self.follows_own() => Some(only),
            _ => None,
        };
        Assignment::new(rules, rest)
    }

    /// Returns the channels in which the partitions' markets are published, in the order of the
    /// partitions. The section beside the partitions is that of a single one.
    #[must_use]
    pub fn publishers(&self) -> Vec<(PartitionId, &MarketPublisherSection)> {
        let beside = self.own_ids().into_iter().zip(&self.market_publisher);
        let own = self.partitions.iter();
        let own = own.filter_map(|one| Some((PartitionId(one.id), one.market_publisher.as_ref()?)));
        let mut all: Vec<_> = beside.chain(own).collect();
        all.sort_by_key(|(id, _)| *id);
        all
    }

    /// Returns true when it has no trading partition but follows those of another node.
    #[must_use]
    pub fn follows_own(&self) -> bool {
        self.replica.is_some() && self.own_ids().iter().all(|id| self.follows(*id))
    }

    fn follows(&self, id: PartitionId) -> bool {
        self.replica.as_ref().is_some_and(|replica| replica.sources.contains(&id.0))
    }

    /// Checks that each partition has a number of its own, which no outside source has, and that
    /// all are followed or none.
    pub(super) fn check_partitions(&self) -> Result<(), ConfigError> {
        let out = |key, value: String, want| Err(ConfigError::OutOfRange { key, value, want });
        if self.partitions.len() > PARTITIONS_MAX {
            return out("partition", format!("{} sections", self.partitions.len()), "63 at most");
        }
        for (index, one) in self.partitions.iter().enumerate() {
            if one.id == 0 {
                return out("partition.id", one.id.to_string(), "1 to 65535");
            }
            let before = &self.partitions[..index];
            if before.iter().any(|other| other.id == one.id) {
                return out("partition.id", one.id.to_string(), "each partition once");
            }
            let mut taken = before.iter().flat_map(|other| &other.instruments);
            if let Some(pattern) = taken.find(|pattern| one.instruments.contains(pattern)) {
                let want = "each pattern in one partition";
                return out("partition.instruments", format!("\"{pattern}\""), want);
            }
        }
        let own = self.own_ids();
        for id in &own {
            let mut sources = self.ingest.iter().flat_map(|ingest| &ingest.sources);
            if sources.any(|source| source.id == id.0) {
                let want = "a number that no partition of the node has: [[partition]] id, 1 \
                            without any";
                return out("ingest.source.id", id.to_string(), want);
            }
        }
        let followed = own.iter().find(|id| self.follows(**id));
        if let Some(followed) = followed.filter(|_| !self.follows_own()) {
            let want = "all of the node's partitions or none: a node trades, or follows one that \
                        does";
            return out("replica.sources", followed.to_string(), want);
        }
        self.check_partition_threads()?;
        self.check_partition_places()?;
        self.check_publishers()
    }

    /// Checks that each partition has one channel at most, whose groups no other has.
    fn check_publishers(&self) -> Result<(), ConfigError> {
        let out = |key, value: String, want| Err(ConfigError::OutOfRange { key, value, want });
        let is_in_partition = self.partitions.iter().any(|one| one.market_publisher.is_some());
        if self.market_publisher.is_some() && (is_in_partition || self.partitions.len() > 1) {
            let want = "[partition.market_publisher] below each [[partition]] instead";
            return out("market_publisher", "(given)".to_owned(), want);
        }
        let publishers = self.publishers();
        let groups = |section: &MarketPublisherSection| {
            [Some(section.group), section.line_b].into_iter().flatten()
        };
        for (index, (_, section)) in publishers.iter().enumerate() {
            section.check(self.role == NodeRole::Node && !self.follows_own())?;
            let mut taken = publishers[..index].iter().flat_map(|(_, other)| groups(other));
            if let Some(group) = taken.find(|taken| groups(section).any(|group| group == *taken)) {
                let want = "groups that no other partition's channel has";
                return out("market_publisher.group", group.to_string(), want);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use weir_types::{InstrumentId, PartitionId, Symbol};

    use crate::config::Config;

    const SOURCE: &str =
        "[ingest]\nlisten = \"127.0.0.1:0\"\n[[ingest.source]]\nsession = 3\nid = ";
    const REPLICA: &str =
        "[replica]\nmaster = \"127.0.0.1:1\"\nsession = 2\nkey_file = \"k\"\nsources = ";
    const SEVEN: &str = "[[partition]]\nid = 7\n";
    const EIGHT: &str = "[[partition]]\nid = 8\n";

    #[test]
    fn each_partition_has_a_number_of_its_own() {
        let ids = |text: &str| Config::parse(text).map(|config| config.own_ids());
        assert_eq!(ids("").unwrap(), [PartitionId(1)]);
        assert_eq!(ids(SEVEN).unwrap(), [PartitionId(7)]);
        assert_eq!(ids(&format!("{EIGHT}{SEVEN}")).unwrap(), [PartitionId(7), PartitionId(8)]);
        assert_eq!(ids(&format!("{SEVEN}{SOURCE}1")).unwrap(), [PartitionId(7)]);
        let many: String = (1..=64).map(|id| format!("[[partition]]\nid = {id}\n")).collect();
        for (text, key) in [
            ("[[partition]]\nid = 0".to_owned(), "partition.id"),
            (format!("{SEVEN}{EIGHT}{SEVEN}"), "partition.id"),
            (many, "partition"),
            (format!("{SEVEN}{SOURCE}7"), "ingest.source.id"),
            (format!("{SEVEN}{EIGHT}{SOURCE}8"), "ingest.source.id"),
            (format!("{SOURCE}1"), "ingest.source.id"),
            (format!("{SEVEN}{SOURCE}0"), "ingest.source.id"),
        ] {
            let error = ids(&text).unwrap_err().to_string();
            assert!(error.contains(&format!("{key} ")), "{text}: {error}");
        }
    }

    #[test]
    fn a_new_instrument_goes_to_the_partition_with_the_closest_pattern() {
        let of = |text: &str, symbol: &str| {
            let symbol = Symbol::new(symbol).unwrap();
            Config::parse(text).unwrap().assignment().partition_of(InstrumentId(1), symbol)
        };
        assert_eq!(of("", "ABC"), Some(PartitionId(1)));
        assert_eq!(of(SEVEN, "ABC"), Some(PartitionId(7)));
        assert_eq!(of(&format!("{SEVEN}{REPLICA}[7]"), "ABC"), None);
        let two = format!("{SEVEN}instruments = ['*']\n{EIGHT}instruments = ['AB*', '#9']\n");
        assert_eq!(["ABC", "XYZ"].map(|symbol| of(&two, symbol).unwrap().0), [8, 7]);
        assert_eq!(of(&format!("{SEVEN}{EIGHT}"), "ABC"), None);
        for (text, named) in [
            (format!("{SEVEN}instruments = ['A*B']\n"), "A*B"),
            (
                format!("{SEVEN}instruments = ['A*']\n{EIGHT}instruments = ['A*']\n"),
                "partition.instruments = \"A*\"",
            ),
        ] {
            let error = Config::parse(&text).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn each_partition_has_a_channel_of_its_own() {
        let channel = |port: u16| format!("group = '239.0.0.1:{port}'\nrequests = '127.0.0.1:0'\n");
        let of = |table: &str, port| format!("[{table}]\n{}", channel(port));
        let own = |port| of("partition.market_publisher", port);
        let groups = |text: &str| {
            Config::parse(text).map(|config| {
                let all = config.publishers().into_iter();
                all.map(|(id, section)| (id.0, section.group.port())).collect::<Vec<_>>()
            })
        };
        assert_eq!(groups("").unwrap(), []);
        assert_eq!(groups(&of("market_publisher", 1)).unwrap(), [(1, 1)]);
        assert_eq!(groups(&format!("{SEVEN}{}", own(1))).unwrap(), [(7, 1)]);
        let two = format!("{EIGHT}{}{SEVEN}{}", own(1), own(2));
        assert_eq!(groups(&two).unwrap(), [(7, 2), (8, 1)]);
        assert_eq!(groups(&format!("{EIGHT}{}{SEVEN}", own(1))).unwrap(), [(8, 1)]);
        for (text, key) in [
            (format!("{SEVEN}{}{EIGHT}{}", own(1), own(1)), "market_publisher.group"),
            (format!("{SEVEN}{EIGHT}{}", of("market_publisher", 1)), "market_publisher"),
            (format!("{SEVEN}{}{}", own(1), of("market_publisher", 2)), "market_publisher"),
            (format!("{SEVEN}{}{REPLICA}[7]", own(1)), "market_publisher"),
        ] {
            let error = groups(&text).unwrap_err().to_string();
            assert!(error.contains(&format!("{key} ")), "{text}: {error}");
        }
    }

    #[test]
    fn a_node_that_follows_the_numbers_of_its_partitions_has_none_of_its_own() {
        let follows = |text: &str, sources: &str| {
            Config::parse(&format!("{text}{REPLICA}{sources}")).map(|config| config.follows_own())
        };
        assert!(follows(SEVEN, "[7]").unwrap());
        assert!(!follows("", "[7]").unwrap());
        assert!(follows(&format!("{SEVEN}{EIGHT}"), "[9, 8, 7]").unwrap());
        assert!(!follows(&format!("{SEVEN}{EIGHT}"), "[9]").unwrap());
        let error = follows(&format!("{SEVEN}{EIGHT}"), "[8]").unwrap_err().to_string();
        assert!(error.contains("replica.sources"), "{error}");
    }
}
