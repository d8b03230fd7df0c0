//! The configuration of post-processing: the audit, bars and statistics.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use weir_market::bar::{BarBuilderConfig, BarKind, BarKindError};
use weir_market::interval::IntervalConfig;
use weir_runtime::ConfigError;
use weir_types::Nanos;

const MIB: u64 = 1 << 20;
const SECOND_NS: u64 = 1_000_000_000;
/// The longest record of a datagram in a capture, in bytes, rounded up.
pub(super) const RECORD_LEN_MAX: u64 = 80 << 10;

/// The parts of post-processing. A part without a section is off.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PostSection {
    /// Records all received datagrams.
    pub audit: Option<AuditSection>,
    /// Builds bars of trades.
    pub bars: Option<BarsSection>,
    /// Builds statistics by interval from quotes, orders, trades and trading states.
    pub statistics: Option<StatisticsSection>,
}

/// The reaction when the files of an audit reach their limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFull {
    /// Delete the oldest file.
    #[default]
    DeleteOldest,
    /// Stop recording, and report it, until there is room.
    Stop,
}

/// The audit: all received datagrams, in compressed captures.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuditSection {
    /// The directory; required.
    pub dir: PathBuf,
    /// The size of the queue in bytes; datagrams beyond it are recorded as a gap.
    pub queue_bytes: u64,
    /// The bytes compressed as one block. A truncated file loses at most one block.
    pub block_bytes: u64,
    /// The time after which an incomplete block is written, in milliseconds.
    pub flush_ms: u64,
    /// The compressed size in bytes at which the next file begins. One also begins each hour.
    pub file_bytes: u64,
    /// The limit of the total size of all files, in bytes.
    pub keep_bytes: u64,
    /// The reaction at that limit.
    pub when_full: WhenFull,
    /// The interval of attempts to create a new file after a failure, in milliseconds.
    pub retry_ms: u64,
    /// The Zstandard level: 1 is the fastest, 19 the smallest.
    pub level: i32,
}

impl Default for AuditSection {
    fn default() -> AuditSection {
        AuditSection {
            dir: PathBuf::new(),
            queue_bytes: 64 * MIB,
            block_bytes: MIB,
            flush_ms: 1_000,
            file_bytes: 1_024 * MIB,
            keep_bytes: 64 * 1_024 * MIB,
            when_full: WhenFull::DeleteOldest,
            retry_ms: 1_000,
            level: 1,
        }
    }
}

/// A kind of bar, by its name in configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct NamedKind(pub BarKind);

impl TryFrom<String> for NamedKind {
    type Error = BarKindError;

    fn try_from(text: String) -> Result<NamedKind, BarKindError> {
        text.parse().map(NamedKind)
    }
}

/// Bars of all instruments, in table files.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BarsSection {
    /// The directory; required.
    pub dir: PathBuf,
    /// The kinds: `time-60s`, `time-250ms`, `ticks-100`, `volume-10000`.
    pub kinds: Vec<NamedKind>,
    /// The beginning of one interval, in seconds from the zero of the feed's times, which is the
    /// Unix epoch, or midnight if a feed sends the time of day; the others precede and follow it.
    pub origin_s: u64,
    /// The time after its end at which a time bar of an idle instrument is closed by other
    /// instruments' trades, in milliseconds.
    pub lateness_ms: u64,
    /// The maximum number of instruments.
    pub instruments_max: u32,
    /// The number of latest trades, over all instruments, that a trade break can undo.
    pub trades: u32,
    /// The number of bars in a row group, sorted by time.
    pub group_rows: u32,
    /// The size in bytes at which the next file begins.
    pub file_bytes: u64,
    /// The time after which a file is closed, in seconds. A crash before that loses its bars.
    pub file_s: u64,
    /// The Zstandard level.
    pub level: i32,
}

impl Default for BarsSection {
    fn default() -> BarsSection {
        let minute = NonZeroU64::new(60 * SECOND_NS).expect("a minute is not zero");
        let kind = BarKind::Time { interval: minute, origin: Nanos(0) };
        BarsSection {
            dir: PathBuf::new(),
            kinds: vec![NamedKind(kind)],
            origin_s: 0,
            lateness_ms: 1_000,
            instruments_max: 1 << 22,
            trades: 65_536,
            group_rows: 65_536,
            file_bytes: 256 * MIB,
            file_s: 3_600,
            level: 3,
        }
    }
}

/// Statistics of all instruments by interval, in table files.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StatisticsSection {
    /// The directory; required.
    pub dir: PathBuf,
    /// The length of an interval in seconds.
    pub interval_s: u64,
    /// The beginning of one interval in seconds, as for bars.
    pub origin_s: u64,
    /// The time after its end at which the interval of an idle instrument is closed by other
    /// instruments' events, in milliseconds.
    pub lateness_ms: u64,
    /// The longest silence of the whole feed that still counts as passing time, in seconds.
    pub silence_s: u64,
    /// The maximum number of instruments.
    pub instruments_max: u32,
    /// The capacity of the ring of events, 64 bytes each; events beyond it mark the rows that may
    /// lack them.
    pub events: u32,
    /// The number of rows in a row group, sorted by time.
    pub group_rows: u32,
    /// The size in bytes at which the next file begins.
    pub file_bytes: u64,
    /// The time after which a file is closed, in seconds. A crash before that loses its rows.
    pub file_s: u64,
    /// The Zstandard level.
    pub level: i32,
}

impl Default for StatisticsSection {
    fn default() -> StatisticsSection {
        StatisticsSection {
            dir: PathBuf::new(),
            interval_s: 60,
            origin_s: 0,
            lateness_ms: 1_000,
            silence_s: 3_600,
            instruments_max: 1 << 22,
            events: 1 << 19,
            group_rows: 16_384,
            file_bytes: 256 * MIB,
            file_s: 3_600,
            level: 3,
        }
    }
}

/// A key, its value, its least and greatest legal values, and their description.
type Ranged = (&'static str, u64, u64, u64, &'static str);

fn check_ranges(ranges: &[Ranged]) -> Result<(), ConfigError> {
    for &(key, value, least, most, want) in ranges {
        if !(least..=most).contains(&value) {
            return Err(ConfigError::OutOfRange { key, value: value.to_string(), want });
        }
    }
    Ok(())
}

fn check_dir(key: &'static str, dir: &Path) -> Result<(), ConfigError> {
    if dir.as_os_str().is_empty() {
        let value = "nothing".to_owned();
        return Err(ConfigError::OutOfRange { key, value, want: "a directory" });
    }
    Ok(())
}

fn level(level: i32) -> u64 {
    u64::try_from(level).unwrap_or(0)
}

impl PostSection {
    /// Checks that all values are in range.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`], naming the first wrong value.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.audit.as_ref().map_or(Ok(()), AuditSection::check)?;
        self.bars.as_ref().map_or(Ok(()), BarsSection::check)?;
        self.statistics.as_ref().map_or(Ok(()), StatisticsSection::check)
    }

    /// Returns true when no part is configured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.audit.is_none() && self.bars.is_none() && self.statistics.is_none()
    }
}

impl AuditSection {
    fn check(&self) -> Result<(), ConfigError> {
        check_dir("market_gateway.post.audit.dir", &self.dir)?;
        let most = 1 << 50;
        check_ranges(&[
            (
                "market_gateway.post.audit.queue_bytes",
                self.queue_bytes,
                MIB,
                64 << 30,
                "1 MiB to 64 GiB",
            ),
            (
                "market_gateway.post.audit.block_bytes",
                self.block_bytes,
                4_096,
                64 * MIB,
                "4 KiB to 64 MiB",
            ),
            ("market_gateway.post.audit.flush_ms", self.flush_ms, 1, 60_000, "1 to 60000"),
            ("market_gateway.post.audit.file_bytes", self.file_bytes, 4_096, most, "4 KiB or more"),
            (
                "market_gateway.post.audit.keep_bytes",
                self.keep_bytes,
                // Two files, each of which may exceed its limit by a block.
                2 * (self.file_bytes.min(most) + self.block_bytes + 2 * RECORD_LEN_MAX),
                4 * most,
                "room for two files with a block each",
            ),
            ("market_gateway.post.audit.retry_ms", self.retry_ms, 1, 3_600_000, "1 to 3600000"),
            ("market_gateway.post.audit.level", level(self.level), 1, 19, "1 to 19"),
        ])
    }
}

impl BarsSection {
    fn check(&self) -> Result<(), ConfigError> {
        check_dir("market_gateway.post.bars.dir", &self.dir)?;
        let years = 10 * 366 * 24 * 3_600;
        let mut names: Vec<String> = self.kinds.iter().map(|kind| kind.0.to_string()).collect();
        names.sort_unstable();
        names.dedup();
        let distinct = if names.len() == self.kinds.len() { names.len() as u64 } else { 0 };
        check_ranges(&[
            ("market_gateway.post.bars.kinds", distinct, 1, 16, "1 to 16 kinds, each once"),
            ("market_gateway.post.bars.origin_s", self.origin_s, 0, 1 << 33, "0 to 2^33"),
            (
                "market_gateway.post.bars.lateness_ms",
                self.lateness_ms,
                0,
                3_600_000,
                "0 to 3600000",
            ),
            (
                "market_gateway.post.bars.instruments_max",
                u64::from(self.instruments_max),
                1,
                1 << 24,
                "1 to 2^24",
            ),
            ("market_gateway.post.bars.trades", u64::from(self.trades), 0, 1 << 24, "0 to 2^24"),
            (
                "market_gateway.post.bars.group_rows",
                u64::from(self.group_rows),
                1,
                1 << 20,
                "1 to 2^20",
            ),
            (
                "market_gateway.post.bars.file_bytes",
                self.file_bytes,
                4_096,
                1 << 40,
                "4 KiB to 1 TiB",
            ),
            ("market_gateway.post.bars.file_s", self.file_s, 1, years, "1 to ten years' seconds"),
            ("market_gateway.post.bars.level", level(self.level), 1, 19, "1 to 19"),
        ])
    }

    /// The configurations of the builders, one for each kind of bar.
    pub fn builders(&self) -> impl Iterator<Item = BarBuilderConfig> {
        self.kinds.iter().map(|kind| {
            let mut config = BarBuilderConfig::new(kind.0);
            if let BarKind::Time { origin, .. } = &mut config.kind {
                *origin = Nanos(self.origin_s.saturating_mul(SECOND_NS));
            }
            config.instruments_max = self.instruments_max;
            config.instruments = config.instruments.min(self.instruments_max);
            config.trades = self.trades;
            config
        })
    }
}

impl StatisticsSection {
    fn check(&self) -> Result<(), ConfigError> {
        check_dir("market_gateway.post.statistics.dir", &self.dir)?;
        let years = 10 * 366 * 24 * 3_600;
        let (instruments_max, events) = (u64::from(self.instruments_max), u64::from(self.events));
        let group_rows = u64::from(self.group_rows);
        check_ranges(&[
            ("market_gateway.post.statistics.interval_s", self.interval_s, 1, 86_400, "1 to 86400"),
            ("market_gateway.post.statistics.origin_s", self.origin_s, 0, 1 << 33, "0 to 2^33"),
            (
                "market_gateway.post.statistics.lateness_ms",
                self.lateness_ms,
                0,
                3_600_000,
                "0 to 3600000",
            ),
            ("market_gateway.post.statistics.silence_s", self.silence_s, 1, 86_400, "1 to 86400"),
            (
                "market_gateway.post.statistics.instruments_max",
                instruments_max,
                1,
                1 << 24,
                "1 to 2^24",
            ),
            ("market_gateway.post.statistics.events", events, 1 << 10, 1 << 26, "2^10 to 2^26"),
            ("market_gateway.post.statistics.group_rows", group_rows, 1, 1 << 18, "1 to 2^18"),
            (
                "market_gateway.post.statistics.file_bytes",
                self.file_bytes,
                4_096,
                1 << 40,
                "4 KiB to 1 TiB",
            ),
            (
                "market_gateway.post.statistics.file_s",
                self.file_s,
                1,
                years,
                "1 to ten years' seconds",
            ),
            ("market_gateway.post.statistics.level", level(self.level), 1, 19, "1 to 19"),
        ])
    }

    /// The configuration of the builder.
    #[must_use]
    pub fn builder(&self) -> IntervalConfig {
        let interval = self.interval_s.saturating_mul(SECOND_NS).max(1);
        let mut config = IntervalConfig::new(NonZeroU64::new(interval).expect("one at least"));
        config.origin = Nanos(self.origin_s.saturating_mul(SECOND_NS));
        config.lateness = self.lateness_ms.saturating_mul(1_000_000);
        config.silence = self.silence_s.saturating_mul(SECOND_NS);
        config.instruments_max = self.instruments_max;
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<PostSection, String> {
        let section: PostSection = toml::from_str(text).map_err(|error| error.to_string())?;
        section.check().map_err(|error| error.to_string())?;
        Ok(section)
    }

    #[test]
    fn a_section_has_defaults_that_are_in_range_and_knows_its_keys() {
        let text = "[audit]\ndir = \"a\"\n[bars]\ndir = \"b\"\n[statistics]\ndir = \"c\"";
        let section = read(text).expect("it is good");
        let statistics = section.statistics.expect("it is there").builder();
        assert_eq!(statistics.interval.get(), 60 * SECOND_NS);
        assert_eq!(section.bars.map(|bars| bars.builders().count()), Some(1));
        assert_eq!(section.audit.map(|audit| audit.when_full), Some(WhenFull::DeleteOldest));
        assert!(read("").expect("nothing is done").is_empty());
    }

    #[test]
    fn the_section_on_the_page_is_good_and_has_every_key() {
        const PAGE: &str = include_str!("../../../../docs/market.md");
        let text = PAGE.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
        let text = text.expect("a section").replace("market_gateway.post.", "");
        let section = read(&text).expect("it is good");
        assert!(section.audit.is_some() && section.bars.is_some());
        assert!(section.statistics.is_some());
        for (table, keys) in [("[audit]", 9), ("[bars]", 10), ("[statistics]", 11)] {
            let of_table = text.split(table).nth(1).and_then(|rest| rest.split("\n\n").next());
            assert_eq!(of_table.expect(table).matches(" = ").count(), keys, "{table}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            ("[audit]", "market_gateway.post.audit.dir"),
            ("[audit]\ndir = \"a\"\nkeep_bytes = 1000000", "keep_bytes"),
            ("[audit]\ndir = \"a\"\nlevel = -3", "level"),
            ("[audit]\ndir = \"a\"\nwhen_full = \"panic\"", "when_full"),
            ("[audit]\ndir = \"a\"\nsize = 3", "size"),
            ("[bars]\ndir = \"b\"\nkinds = []", "kinds"),
            ("[bars]\ndir = \"b\"\nkinds = [\"ticks-1\", \"ticks-1\"]", "kinds"),
            ("[bars]\ndir = \"b\"\nkinds = [\"hours-1\"]", "hours-1"),
            ("[bars]\ndir = \"b\"\nfile_s = 0", "file_s"),
            ("[statistics]", "market_gateway.post.statistics.dir"),
            (
                "[statistics]\ndir = \"c\"\ninterval_s = 0",
                "market_gateway.post.statistics.interval_s",
            ),
            ("[statistics]\ndir = \"c\"\nevents = 7", "market_gateway.post.statistics.events"),
            ("[statistics]\ndir = \"c\"\nkinds = []", "kinds"),
            ("[spreads]", "spreads"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
