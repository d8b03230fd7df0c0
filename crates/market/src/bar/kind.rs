//! Kinds of bars: the rule that ends a bar, and its textual form.

use core::fmt;
use core::num::NonZeroU64;
use core::str::FromStr;

use weir_types::Nanos;

const NANOS: u64 = 1_000_000_000;

/// The rule that ends a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BarKind {
    /// A bar ends with its interval.
    Time {
        /// The length of the interval in nanoseconds.
        interval: NonZeroU64,
        /// Intervals begin here and every `interval` before and after it: zero for the epoch of the
        /// trades' times, or a midnight of the venue.
        origin: Nanos,
    },
    /// A bar ends after this many trades that count for the volume.
    Ticks(NonZeroU64),
    /// A bar ends once its volume reaches this much, in the feed's units.
    Volume(NonZeroU64),
}

impl BarKind {
    /// Returns the start of the interval that contains `ts`; zero for the first interval, which may
    /// be cut short, and for bars of other kinds.
    #[must_use]
    pub fn start_of(&self, ts: Nanos) -> Nanos {
        let BarKind::Time { interval, origin } = *self else { return Nanos(0) };
        let phase = origin.0 % interval;
        match ts.0.checked_sub(phase) {
            Some(since) => Nanos(since / interval * interval.get() + phase),
            None => Nanos(0),
        }
    }

    /// Returns true when this many ticks or this much volume fill a bar.
    #[must_use]
    pub fn is_filled_by(&self, ticks: u64, volume: u64) -> bool {
        match self {
            BarKind::Time { .. } => false,
            BarKind::Ticks(most) => ticks >= most.get(),
            BarKind::Volume(most) => volume >= most.get(),
        }
    }
}

/// The form used in file names and configurations: `time-60s`, `ticks-100`, `volume-10000`. It
/// omits the origin of the intervals.
impl fmt::Display for BarKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BarKind::Time { interval, .. } if interval.get().is_multiple_of(NANOS) => {
                write!(f, "time-{}s", interval.get() / NANOS)
            }
            BarKind::Time { interval, .. } => write!(f, "time-{interval}ns"),
            BarKind::Ticks(count) => write!(f, "ticks-{count}"),
            BarKind::Volume(volume) => write!(f, "volume-{volume}"),
        }
    }
}

/// A text that names no kind of bar.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` names no kind of bar: time-60s, time-250ms, time-5us, time-100ns, ticks-100, \
     volume-10000"
)]
pub struct BarKindError {
    /// The rejected text.
    pub text: String,
}

/// Reads the output of `Display`, and also the units `ms` and `us`; intervals count from the epoch.
impl FromStr for BarKind {
    type Err = BarKindError;

    fn from_str(text: &str) -> Result<BarKind, BarKindError> {
        let number = |digits: &str| digits.parse().ok();
        let kind = text.split_once('-').and_then(|(kind, amount)| match kind {
            "ticks" => number(amount).map(BarKind::Ticks),
            "volume" => number(amount).map(BarKind::Volume),
            "time" => {
                let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", NANOS)];
                let (digits, unit) = units
                    .iter()
                    .find_map(|(unit, nanos)| Some((amount.strip_suffix(unit)?, *nanos)))?;
                let interval = digits.parse::<u64>().ok()?.checked_mul(unit)?;
                let interval = NonZeroU64::new(interval)?;
                Some(BarKind::Time { interval, origin: Nanos(0) })
            }
            _ => None,
        });
        kind.ok_or_else(|| BarKindError { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(interval: u64, origin: u64) -> BarKind {
        let interval = NonZeroU64::new(interval).expect("it is none");
        BarKind::Time { interval, origin: Nanos(origin) }
    }

    #[test]
    fn an_interval_begins_at_its_origin_or_a_multiple_away_from_it() {
        for (interval, origin, ts, want) in [
            (10, 0, 0, 0),
            (10, 0, 9, 0),
            (10, 0, 10, 10),
            (10, 7, 6, 0),
            (10, 7, 7, 7),
            (10, 27, 16, 7),
            (10, 27, 17, 17),
            (10, 7, u64::MAX, u64::MAX - 8),
            (u64::MAX, u64::MAX - 1, u64::MAX, u64::MAX - 1),
            (1, 5, 3, 3),
        ] {
            let got = time(interval, origin).start_of(Nanos(ts));
            assert_eq!(got, Nanos(want), "{interval} {origin} {ts}");
        }
    }

    #[test]
    fn kinds_are_read_as_they_are_written() {
        for text in ["time-60s", "time-1ns", "ticks-100", "volume-10000"] {
            assert_eq!(text.parse::<BarKind>().expect(text).to_string(), text);
        }
        for (text, want) in [("time-250ms", time(250_000_000, 0)), ("time-5us", time(5_000, 0))] {
            assert_eq!(text.parse(), Ok(want), "{text}");
        }
        for text in [
            "",
            "time",
            "time-0s",
            "time-1",
            "ticks-0",
            "ticks--1",
            "volume-",
            "x-1",
            "time-99999999999999s",
            "time-1h",
        ] {
            assert!(text.parse::<BarKind>().is_err(), "{text}");
        }
    }
}
