//! The section `[delivery.cold]`: the archives of orders that the stores discard.

use std::path::PathBuf;

use serde::Deserialize;
use weir_cold::ColdConfig;
use weir_runtime::ConfigError;
use weir_types::{Epoch, Nanos, PartitionId};

/// The minimum number of ended orders kept by a store with an archive: orders that end while a
/// batch is built must still be there.
const ENDED_ORDERS_MIN: usize = 1_024;
/// The same minimum for stores that outside cores feed: a batch may end 1,024 orders that each
/// leave a filter too, and is ingested as a whole.
const ENDED_ORDERS_OF_SOURCES_MIN: usize = 4_096;

/// Archives of the orders that the stores of the node's own orders and of outside sources discard,
/// in files for readers that return later; one archive per source.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ColdSection {
    /// The directory; `cold` in the node's own directory without it. A separate disk takes load off
    /// the logs.
    pub dir: Option<PathBuf>,
    /// The log time that one file covers, in milliseconds.
    pub interval_ms: u64,
    /// The number of bytes of changes at which a file is closed early.
    pub segment_bytes: u64,
    /// The time for which a change is kept, in seconds.
    pub keep_s: u64,
    /// The bytes of files that each archive keeps; the oldest are removed first.
    pub keep_bytes: u64,
    /// The maximum rate at which all readers together scan entries, per second.
    pub rows_per_second: u64,
    /// The maximum number of readers' queries outstanding at each archive; further ones wait in the
    /// store.
    pub readers_max: u32,
}

impl Default for ColdSection {
    fn default() -> ColdSection {
        ColdSection {
            dir: None,
            interval_ms: 10_000,
            segment_bytes: 256 << 20,
            keep_s: 24 * 3_600,
            keep_bytes: 64 << 30,
            rows_per_second: 4_000_000,
            readers_max: 256,
        }
    }
}

impl ColdSection {
    /// Checks the section, given the limit of ended orders and whether outside sources exist.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`], which names the value.
    pub fn check(&self, ended_orders_max: usize, has_sources: bool) -> Result<(), ConfigError> {
        let (ended_min, ended_want) = match has_sources {
            false => {
                (ENDED_ORDERS_MIN, "1024 or more with [delivery.cold], which is given what goes")
            }
            true => (
                ENDED_ORDERS_OF_SOURCES_MIN,
                "4096 or more with [delivery.cold] and [[ingest.source]], whose batches go to it",
            ),
        };
        let (gib, years) = (1 << 30, 10 * 366 * 24 * 3_600);
        let (ended, readers) = (ended_orders_max as u64, u64::from(self.readers_max));
        let ranges: [(&'static str, u64, u64, u64, &'static str); 7] = [
            ("delivery.cold.interval_ms", self.interval_ms, 10, 3_600_000, "10 to 3600000"),
            (
                "delivery.cold.segment_bytes",
                self.segment_bytes,
                64 << 10,
                4 * gib,
                "64 KiB to 4 GiB",
            ),
            ("delivery.cold.keep_s", self.keep_s, 1, years, "1 to ten years' seconds"),
            ("delivery.cold.keep_bytes", self.keep_bytes, 1 << 14, 1 << 50, "16 KiB or more"),
            (
                "delivery.cold.rows_per_second",
                self.rows_per_second,
                1_000,
                u64::MAX,
                "1000 or more",
            ),
            ("delivery.cold.readers_max", readers, 1, 65_536, "1 to 65536"),
            ("delivery.ended_orders_max", ended, ended_min as u64, u64::MAX, ended_want),
        ];
        for (key, value, least, most, want) in ranges {
            if !(least..=most).contains(&value) {
                return Err(ConfigError::OutOfRange { key, value: value.to_string(), want });
            }
        }
        Ok(())
    }

    /// Returns the archive's own configuration.
    #[must_use]
    pub fn config(&self, source: PartitionId, epoch: Epoch) -> ColdConfig {
        ColdConfig {
            interval: Nanos(self.interval_ms * 1_000_000),
            segment_bytes_max: self.segment_bytes,
            keep_for: Nanos(self.keep_s.saturating_mul(1_000_000_000)),
            keep_bytes: self.keep_bytes,
            // With a larger file, retention would remove too large a part of the archive at once.
            merge_bytes_max: ColdConfig::new(source, epoch)
                .merge_bytes_max
                .min(self.keep_bytes / 8),
            ..ColdConfig::new(source, epoch)
        }
    }
}
