//! The directories and durability levels of trading partitions that differ from the node's: `dir`
//! and `durability` of a `[[partition]]`.

use std::path::PathBuf;

use weir_partition::recovery::RecoverySettings;
use weir_runtime::ConfigError;
use weir_types::PartitionId;

use super::{Config, PartitionSection};

impl PartitionSection {
    /// Returns its directory elsewhere as an absolute path.
    fn place(&self) -> Option<PathBuf> {
        let dir = self.dir.as_ref().filter(|dir| !dir.as_os_str().is_empty())?;
        // Fails without a current directory; the path is refused as a relative one then.
        Some(std::path::absolute(dir).unwrap_or_else(|_| dir.clone()))
    }
}

impl Config {
    fn section_of(&self, id: PartitionId) -> Option<&PartitionSection> {
        self.partitions.iter().find(|section| section.id == id.0)
    }

    /// Returns the directory of a partition that is elsewhere than below the node's.
    #[must_use]
    pub fn place_of(&self, id: PartitionId) -> Option<PathBuf> {
        self.section_of(id)?.place()
    }

    /// Returns the settings for recovering a partition.
    #[must_use]
    pub fn recovery_of(&self, id: PartitionId) -> RecoverySettings {
        let own = self.section_of(id).and_then(|section| section.durability);
        RecoverySettings { durability: own.unwrap_or(self.durability), ..self.recovery() }
    }

    /// Checks that no directory is in that of another partition, and that only partitions that
    /// trade here have a directory or a level.
    pub(super) fn check_partition_places(&self) -> Result<(), ConfigError> {
        let out = |key, value: String, want| Err(ConfigError::OutOfRange { key, value, want });
        for (index, one) in self.partitions.iter().enumerate() {
            let want =
                "none where replica.sources has the partition: its orders are kept elsewhere";
            if self.follows_own() && one.durability.is_some() {
                return out("partition.durability", one.id.to_string(), want);
            }
            let Some(dir) = &one.dir else { continue };
            let shown = dir.display().to_string();
            if self.follows_own() {
                return out("partition.dir", shown, want);
            }
            let Some(place) = one.place() else {
                return out("partition.dir", format!("{shown:?}"), "a directory");
            };
            let mut others = self.partitions[..index].iter().filter_map(PartitionSection::place);
            if others.any(|other| place.starts_with(&other) || other.starts_with(&place)) {
                let want = "a directory of its own, which neither is in another partition's nor \
                            has one";
                return out("partition.dir", shown, want);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use weir_types::Durability;

    use super::*;

    const REPLICA: &str =
        "[replica]\nmaster = '127.0.0.1:1'\nsession = 2\nkey_file = 'k'\nsources = [7]\n";

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_partition_has_its_own_level_and_directory_or_the_nodes() {
        let config = parse(
            "durability = 'os'\n[[partition]]\nid = 7\ndurability = 'disk'\ndir = '/fast/7'\n\
             [[partition]]\nid = 8\ndir = 'here'\n",
        )
        .unwrap();
        let [control, seven, eight] = [0, 7, 8].map(PartitionId);
        let level = |id| config.recovery_of(id).durability_of(id);
        assert_eq!(level(control), Durability::Disk, "in any case");
        assert_eq!([level(seven), level(eight)], [Durability::Disk, Durability::Os]);
        assert_eq!(config.place_of(seven).as_deref(), Some(Path::new("/fast/7")));
        let here = std::env::current_dir().unwrap().join("here");
        assert_eq!([config.place_of(control), config.place_of(eight)], [None, Some(here)]);
    }

    #[test]
    fn a_directory_or_a_level_that_cannot_be_is_refused_by_its_key() {
        let two = |first: &str, second: &str| {
            format!("[[partition]]\nid = 7\n{first}\n[[partition]]\nid = 8\n{second}\n")
        };
        for (text, named) in [
            (two("dir = '/a'", "dir = '/a'"), "partition.dir"),
            (two("dir = '/a'", "dir = '/a/8'"), "partition.dir"),
            (two("dir = '/a/7/x'", "dir = '/a/7'"), "partition.dir"),
            (two("dir = ''", ""), "partition.dir"),
            (two("durability = 'paper'", ""), "want memory, os or disk"),
            (format!("[[partition]]\nid = 7\ndir = '/a'\n{REPLICA}"), "partition.dir"),
            (
                format!("[[partition]]\nid = 7\ndurability = 'os'\n{REPLICA}"),
                "partition.durability",
            ),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
        assert!(parse(&two("dir = '/a/7'", "dir = '/a/77'")).is_ok());
    }
}
