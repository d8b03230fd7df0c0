//! The section `[[partition]]`: the node's trading partition.

use serde::Deserialize;
use weir_runtime::ConfigError;
use weir_types::PartitionId;

use super::IngestSection;

/// The number of a partition that no section describes.
const DEFAULT_ID: u16 = 1;

/// A trading partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionSection {
    /// Its number, 1 to 65535. It is in the ids of its orders, in its logs, and in tokens, where it
    /// names the source of the partition's orders.
    pub id: u16,
}

/// Returns the number of the partition that these sections describe.
pub(super) fn id_of(sections: &[PartitionSection]) -> PartitionId {
    PartitionId(sections.first().map_or(DEFAULT_ID, |section| section.id))
}

/// Checks that there is one partition at most, with a number that no outside source has.
pub(super) fn check(
    sections: &[PartitionSection],
    ingest: Option<&IngestSection>,
) -> Result<(), ConfigError> {
    let out = |key, value: String, want| Err(ConfigError::OutOfRange { key, value, want });
    if sections.len() > 1 {
        return out("partition", format!("{} sections", sections.len()), "one at most");
    }
    let id = id_of(sections);
    if id.is_none() {
        return out("partition.id", id.to_string(), "1 to 65535");
    }
    let is_taken = ingest.is_some_and(|ingest| ingest.sources.iter().any(|of| of.id == id.0));
    if is_taken {
        let want = "a number that the node's own partition does not have: [[partition]] id, 1 \
                    without it";
        return out("ingest.source.id", id.to_string(), want);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use weir_types::PartitionId;

    use crate::config::Config;

    const SOURCE: &str =
        "[ingest]\nlisten = \"127.0.0.1:0\"\n[[ingest.source]]\nsession = 3\nid = ";

    #[test]
    fn the_partition_has_a_number_of_its_own() {
        let id = |text: &str| Config::parse(text).map(|config| config.partition_id());
        assert_eq!(id("").unwrap(), PartitionId(1));
        assert_eq!(id("[[partition]]\nid = 7").unwrap(), PartitionId(7));
        assert_eq!(id(&format!("[[partition]]\nid = 7\n{SOURCE}1")).unwrap(), PartitionId(7));
        for (text, key) in [
            ("[[partition]]\nid = 0".to_owned(), "partition.id"),
            ("[[partition]]\nid = 7\n[[partition]]\nid = 8".to_owned(), "partition"),
            (format!("[[partition]]\nid = 7\n{SOURCE}7"), "ingest.source.id"),
            (format!("{SOURCE}1"), "ingest.source.id"),
            (format!("[[partition]]\nid = 7\n{SOURCE}0"), "ingest.source.id"),
        ] {
            let error = id(&text).unwrap_err().to_string();
            assert!(error.contains(&format!("{key}:")) || error.contains(key), "{text}: {error}");
        }
    }

    #[test]
    fn a_node_that_follows_its_own_number_has_no_partition() {
        let follows = |text: &str| {
            let section = "[replica]\nmaster = \"127.0.0.1:1\"\nsession = 2\nkey_file = \"k\"\n";
            Config::parse(&format!("{text}{section}sources = [7]")).unwrap().follows_own()
        };
        assert!(follows("[[partition]]\nid = 7\n"));
        assert!(!follows(""));
    }
}
