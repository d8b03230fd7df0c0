//! Time stamps in file names, which sort by time.

use weir_runtime::civil::utc;
use weir_types::Nanos;

const SECOND_NS: u64 = 1_000_000_000;
const DAY_NS: u64 = 86_400 * SECOND_NS;

/// Formats a time in UTC to the nanosecond: `20261122T224108.000000001Z`.
pub(super) fn moment(at: Nanos) -> String {
    let second = utc(at);
    let digits = second.chars().filter(|sign| !matches!(sign, '-' | ':' | 'Z'));
    format!("{}.{:09}Z", digits.collect::<String>(), at.0 % SECOND_NS)
}

/// The length of a formatted time.
pub(super) const MOMENT_LEN: usize = 26;

/// The day in UTC, counted from the Unix epoch.
pub(super) fn day(at: Nanos) -> u64 {
    at.0 / DAY_NS
}
