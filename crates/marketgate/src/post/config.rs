//! The configuration of post-processing: what is kept of what came, which bars and statistics are
//! made.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use weir_market::bar::{BarBuilderConfig, BarKind, BarKindError};
use weir_market::interval::IntervalConfig;
use weir_runtime::ConfigError;
use weir_types::Nanos;

const MIB: u64 = 1 << 20;
const SECOND_NS: u64 = 1_000_000_000;
/// The longest record of a datagram in a capture, with room.
pub(super) const RECORD_LEN_MAX: u64 = 80 << 10;

/// What is done with market data besides handing it on. A part without a section is not done.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PostSection {
    /// All that comes is kept.
    pub audit: Option<AuditSection>,
    /// Bars are made of trades.
    pub bars: Option<BarsSection>,
    /// Statistics by interval are made of quotes, orders, trades and states.
    pub statistics: Option<StatisticsSection>,
}

/// What happens when the files of an audit reach their bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFull {
    /// The oldest file goes.
    #[default]
    DeleteOldest,
    /// Nothing more is kept, and that is told, until there is room.
    Stop,
}

/// All datagrams that come, kept in compressed captures.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuditSection {
    /// Where; has to be given.
    pub dir: PathBuf,
    /// Bytes that may wait to be written; what comes beyond them is told as a gap.
    pub queue_bytes: u64,
    /// Bytes that are compressed as one block. What is cut off is a block at most.
    pub block_bytes: u64,
    /// A block that is not full is written after so long, in milliseconds.
    pub flush_ms: u64,
    /// Bytes of a file, compressed, after which the next one begins. It does each hour, too.
    pub file_bytes: u64,
    /// Bytes of all files.
    pub keep_bytes: u64,
    /// What happens when they are there.
    pub when_full: WhenFull,
    /// After a failure a new file is tried so often, in milliseconds.
    pub retry_ms: u64,
    /// Zstandard's level: 1 is the fastest, 19 the smallest.
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

/// A kind of bar, as configurations name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct NamedKind(pub BarKind);

impl TryFrom<String> for NamedKind {
    type Error = BarKindError;

    fn try_from(text: String) -> Result<NamedKind, BarKindError> {
        text.parse().map(NamedKind)
    }
}

/// Bars of all instruments, in files of tables.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BarsSection {
    /// Where; has to be given.
    pub dir: PathBuf,
    /// Which: `time-60s`, `time-250ms`, `ticks-100`, `volume-10000`.
    pub kinds: Vec<NamedKind>,
    /// Intervals begin so many seconds after the zero of the feed's times, which is the epoch, or
    /// midnight where a feed sends the time of day; and every interval before and after.
    pub origin_s: u64,
    /// A bar by time of an instrument that rests is closed so long after its end by the trades of
    /// others, in milliseconds.
    pub lateness_ms: u64,
    /// Instruments at most.
    pub instruments_max: u32,
    /// The latest trades that can be undone, of all instruments together.
    pub trades: u32,
    /// Bars that are written together, sorted by time.
    pub group_rows: u32,
    /// Bytes of a file after which the next one begins.
    pub file_bytes: u64,
    /// A file is closed after so long, in seconds. Until then a crash loses its bars.
    pub file_s: u64,
    /// Zstandard's level.
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

/// Statistics of all instruments by interval, in files of tables.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StatisticsSection {
    /// Where; has to be given.
    pub dir: PathBuf,
    /// How long an interval is, in seconds.
    pub interval_s: u64,
    /// Intervals begin so many seconds after the zero of the feed's times, as those of bars do.
    pub origin_s: u64,
    /// The interval of an instrument that rests is closed so long after its end by what happens to
    /// others, in milliseconds.
    pub lateness_ms: u64,
    /// Beyond so long a silence of the whole feed time does not pass, in seconds.
    pub silence_s: u64,
    /// Instruments at most.
    pub instruments_max: u32,
    /// Events that may wait, 64 bytes each; what comes beyond them marks what may lack it.
    pub events: u32,
    /// Rows that are written together, sorted by time.
    pub group_rows: u32,
    /// Bytes of a file after which the next one begins.
    pub file_bytes: u64,
    /// A file is closed after so long, in seconds. Until then a crash loses its rows.
    pub file_s: u64,
    /// Zstandard's level.
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

/// A value's key, it, and the range that it has to be in.
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
    /// Looks whether all values are in their ranges.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`], which names the first that is not.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.audit.as_ref().map_or(Ok(()), AuditSection::check)?;
        self.bars.as_ref().map_or(Ok(()), BarsSection::check)?;
        self.statistics.as_ref().map_or(Ok(()), StatisticsSection::check)
    }

    /// True when nothing is done.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.audit.is_none() && self.bars.is_none() && self.statistics.is_none()
    }
}

impl AuditSection {
    fn check(&self) -> Result<(), ConfigError> {
        check_dir("market.post.audit.dir", &self.dir)?;
        let most = 1 << 50;
        check_ranges(&[
            ("market.post.audit.queue_bytes", self.queue_bytes, MIB, 64 << 30, "1 MiB to 64 GiB"),
            ("market.post.audit.block_bytes", self.block_bytes, 4_096, 64 * MIB, "4 KiB to 64 MiB"),
            ("market.post.audit.flush_ms", self.flush_ms, 1, 60_000, "1 to 60000"),
            ("market.post.audit.file_bytes", self.file_bytes, 4_096, most, "4 KiB or more"),
            (
                "market.post.audit.keep_bytes",
                self.keep_bytes,
                // Two files, each of which may be longer than its bound by a block.
                2 * (self.file_bytes.min(most) + self.block_bytes + 2 * RECORD_LEN_MAX),
                4 * most,
                "room for two files with a block each",
            ),
            ("market.post.audit.retry_ms", self.retry_ms, 1, 3_600_000, "1 to 3600000"),
            ("market.post.audit.level", level(self.level), 1, 19, "1 to 19"),
        ])
    }
}

impl BarsSection {
    fn check(&self) -> Result<(), ConfigError> {
        check_dir("market.post.bars.dir", &self.dir)?;
        let years = 10 * 366 * 24 * 3_600;
        let mut names: Vec<String> = self.kinds.iter().map(|kind| kind.0.to_string()).collect();
        names.sort_unstable();
        names.dedup();
        let distinct = if names.len() == self.kinds.len() { names.len() as u64 } else { 0 };
        check_ranges(&[
            ("market.post.bars.kinds", distinct, 1, 16, "1 to 16 kinds, each once"),
            ("market.post.bars.origin_s", self.origin_s, 0, 1 << 33, "0 to 2^33"),
            ("market.post.bars.lateness_ms", self.lateness_ms, 0, 3_600_000, "0 to 3600000"),
            (
                "market.post.bars.instruments_max",
                u64::from(self.instruments_max),
                1,
                1 << 24,
                "1 to 2^24",
            ),
            ("market.post.bars.trades", u64::from(self.trades), 0, 1 << 24, "0 to 2^24"),
            ("market.post.bars.group_rows", u64::from(self.group_rows), 1, 1 << 20, "1 to 2^20"),
            ("market.post.bars.file_bytes", self.file_bytes, 4_096, 1 << 40, "4 KiB to 1 TiB"),
            ("market.post.bars.file_s", self.file_s, 1, years, "1 to ten years' seconds"),
            ("market.post.bars.level", level(self.level), 1, 19, "1 to 19"),
        ])
    }

    /// What makes the bars of each kind.
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
        check_dir("market.post.statistics.dir", &self.dir)?;
        let years = 10 * 366 * 24 * 3_600;
        let (instruments_max, events) = (u64::from(self.instruments_max), u64::from(self.events));
        let group_rows = u64::from(self.group_rows);
        check_ranges(&[
            ("market.post.statistics.interval_s", self.interval_s, 1, 86_400, "1 to 86400"),
            ("market.post.statistics.origin_s", self.origin_s, 0, 1 << 33, "0 to 2^33"),
            ("market.post.statistics.lateness_ms", self.lateness_ms, 0, 3_600_000, "0 to 3600000"),
            ("market.post.statistics.silence_s", self.silence_s, 1, 86_400, "1 to 86400"),
            ("market.post.statistics.instruments_max", instruments_max, 1, 1 << 24, "1 to 2^24"),
            ("market.post.statistics.events", events, 1 << 10, 1 << 26, "2^10 to 2^26"),
            ("market.post.statistics.group_rows", group_rows, 1, 1 << 18, "1 to 2^18"),
            (
                "market.post.statistics.file_bytes",
                self.file_bytes,
                4_096,
                1 << 40,
                "4 KiB to 1 TiB",
            ),
            ("market.post.statistics.file_s", self.file_s, 1, years, "1 to ten years' seconds"),
            ("market.post.statistics.level", level(self.level), 1, 19, "1 to 19"),
        ])
    }

    /// What makes them.
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
        let text = text.expect("a section").replace("market.post.", "");
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
            ("[audit]", "market.post.audit.dir"),
            ("[audit]\ndir = \"a\"\nkeep_bytes = 1000000", "keep_bytes"),
            ("[audit]\ndir = \"a\"\nlevel = -3", "level"),
            ("[audit]\ndir = \"a\"\nwhen_full = \"panic\"", "when_full"),
            ("[audit]\ndir = \"a\"\nsize = 3", "size"),
            ("[bars]\ndir = \"b\"\nkinds = []", "kinds"),
            ("[bars]\ndir = \"b\"\nkinds = [\"ticks-1\", \"ticks-1\"]", "kinds"),
            ("[bars]\ndir = \"b\"\nkinds = [\"hours-1\"]", "hours-1"),
            ("[bars]\ndir = \"b\"\nfile_s = 0", "file_s"),
            ("[statistics]", "market.post.statistics.dir"),
            ("[statistics]\ndir = \"c\"\ninterval_s = 0", "market.post.statistics.interval_s"),
            ("[statistics]\ndir = \"c\"\nevents = 7", "market.post.statistics.events"),
            ("[statistics]\ndir = \"c\"\nkinds = []", "kinds"),
            ("[spreads]", "spreads"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
