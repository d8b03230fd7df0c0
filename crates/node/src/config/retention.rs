//! The section `[retention]`: the limits of the trading partitions' logs.

use std::path::PathBuf;

use serde::Deserialize;
use weir_partition::archive::ArchiveSettings;
use weir_partition::retention::RetentionLimits;
use weir_runtime::ConfigError;
use weir_types::Nanos;

/// The least limit of a log in segments: the newest, one that goes, and one between them.
const SEGMENTS_MIN: u64 = 3;
/// A hundred years.
const HOURS_MAX: u64 = 100 * 365 * 24;

/// The limits of each trading partition's logs; without any, all is kept. A segment that is over
/// one of them is removed unless the next start, a reader or a view needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetentionSection {
    /// The maximum size of a command log in bytes.
    pub command_bytes: Option<u64>,
    /// The maximum size of an event log in bytes.
    pub event_bytes: Option<u64>,
    /// The maximum age of commands and events in hours.
    pub hours: Option<u64>,
    /// The directory in which a segment is stored before it is removed; none without it.
    pub archive: Option<PathBuf>,
    /// The bytes of each log that wait for the archive at most; further segments go without a
    /// copy. Without it all wait.
    pub archive_wait_bytes: Option<u64>,
}

impl RetentionSection {
    /// Returns the limits.
    #[must_use]
    pub fn limits(&self) -> RetentionLimits {
        let RetentionSection { command_bytes, event_bytes, hours, .. } = *self;
        let age = hours.map(|hours| Nanos(hours * 3_600_000_000_000));
        RetentionLimits { command_bytes, event_bytes, age }
    }

    /// Returns the settings of the archive, where one is configured.
    #[must_use]
    pub fn archive_settings(&self) -> Option<ArchiveSettings> {
        let (dir, wait_bytes_max) = (self.archive.clone()?, self.archive_wait_bytes);
        Some(ArchiveSettings { dir, wait_bytes_max })
    }

    /// Checks the limits against the sizes of both logs' segments.
    pub(super) fn check(
        &self,
        command_segment: u64,
        event_segment: u64,
    ) -> Result<(), ConfigError> {
        let bytes = [
            ("retention.command_bytes", self.command_bytes, command_segment),
            ("retention.event_bytes", self.event_bytes, event_segment),
        ];
        for (key, bytes, segment) in bytes {
            if let Some(bytes) = bytes.filter(|bytes| *bytes < SEGMENTS_MIN * segment) {
                let want = "at least three times the log's segment_bytes";
                return Err(ConfigError::OutOfRange { key, value: bytes.to_string(), want });
            }
        }
        if let Some(hours) = self.hours.filter(|hours| !(1..=HOURS_MAX).contains(hours)) {
            let (key, want) = ("retention.hours", "1 to 876000");
            return Err(ConfigError::OutOfRange { key, value: hours.to_string(), want });
        }
        self.check_archive()
    }

    fn check_archive(&self) -> Result<(), ConfigError> {
        let out = |key, want| {
            let value = "(given)".to_owned();
            Err(ConfigError::OutOfRange { key, value, want })
        };
        if self.archive.is_some() && self.limits().is_unlimited() {
            let want = "none without a limit, as nothing is removed then";
            return out("retention.archive", want);
        }
        if self.archive.is_none() && self.archive_wait_bytes.is_some() {
            return out("retention.archive_wait_bytes", "none without retention.archive");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn limits_out_of_range_are_named() {
        for (text, named) in [
            ("[retention]\ncommand_bytes = 201326591", "retention.command_bytes"),
            ("[retention]\nevent_bytes = 201326591", "retention.event_bytes"),
            ("[log]\nsegment_bytes = 134217728\n[retention]\ncommand_bytes = 402653183", "command"),
            ("[retention]\nhours = 0", "retention.hours"),
            ("[retention]\nhours = 876001", "retention.hours"),
            ("[retention]\narchive = \"a\"", "retention.archive"),
            ("[retention]\nhours = 1\narchive_wait_bytes = 0", "retention.archive_wait_bytes"),
            ("[retention]\ndays = 1", "days"),
            ("[gateway]\ncheckpoint_every_events = 999", "gateway.checkpoint_every_events"),
        ] {
            let error = Config::parse(text).unwrap_err().to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
    }

    #[test]
    fn all_is_kept_unless_limits_are_configured() {
        let limits = |text: &str| Config::parse(text).unwrap().recovery().retention;
        assert!(limits("").is_unlimited());
        let text = "[retention]\ncommand_bytes = 201326592\nhours = 2\n";
        let age = Some(Nanos(7_200_000_000_000));
        let want = RetentionLimits { command_bytes: Some(201_326_592), event_bytes: None, age };
        assert_eq!(limits(text), want);
    }

    #[test]
    fn segments_are_stored_where_an_archive_is_configured() {
        let archive = |text: &str| Config::parse(text).unwrap().recovery().archive;
        assert_eq!(archive("[retention]\nhours = 2\n"), None);
        let text = "[retention]\nhours = 2\narchive = \"a/b\"\narchive_wait_bytes = 5\n";
        let want = ArchiveSettings { dir: "a/b".into(), wait_bytes_max: Some(5) };
        assert_eq!(archive(text), Some(want));
    }
}
