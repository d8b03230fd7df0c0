//! Time stamps in file names, which sort by time.

use weir_runtime::civil::{parse_moment, utc};
use weir_types::Nanos;

const SECOND_NS: u64 = 1_000_000_000;
const DAY_NS: u64 = 86_400 * SECOND_NS;

/// Formats a time in UTC to the nanosecond: `20261122T224108.000000001Z`.
pub(super) fn moment(at: Nanos) -> String {
    let second = utc(at);
    let digits = second.chars().filter(|sign| !matches!(sign, '-' | ':' | 'Z'));
    format!("{}.{:09}Z", digits.collect::<String>(), at.0 % SECOND_NS)
}

/// Parses a formatted time; `None` for other text, and for a year after 2199.
pub(super) fn moment_of(text: &str) -> Option<Nanos> {
    let (second, fraction) = text.strip_suffix('Z')?.split_once('.')?;
    let (date, time) = second.split_once('T')?;
    let [year, month, day] = [date.get(..4)?, date.get(4..6)?, date.get(6..)?];
    let [hour, minute, second] = [time.get(..2)?, time.get(2..4)?, time.get(4..)?];
    let second = format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z");
    let is_fraction = fraction.len() == 9 && fraction.bytes().all(|sign| sign.is_ascii_digit());
    let fraction = is_fraction.then(|| fraction.parse::<u64>().ok()).flatten()?;
    parse_moment(&second, Nanos(0)).ok()?.0.checked_add(fraction).map(Nanos)
}

/// The length of a formatted time.
pub(super) const MOMENT_LEN: usize = 26;

/// The day in UTC, counted from the Unix epoch.
pub(super) fn day(at: Nanos) -> u64 {
    at.0 / DAY_NS
}
