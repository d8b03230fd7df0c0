//! Rates of events: counted in windows of 1 s, 10 ms and 1 ms.

use std::collections::BTreeMap;

use serde::Serialize;
use weir_types::Nanos;

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;
/// The lengths of the windows, in nanoseconds.
const SPANS: [u64; 3] = [SECOND, 10 * MILLISECOND, MILLISECOND];

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    /// Its number: its beginning by its length.
    number: u64,
    count: u64,
    /// The most of any window so far, and its number.
    peak: u64,
    peak_number: u64,
    /// Windows that had an event.
    used: u64,
}

/// One second of the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SecondCount {
    /// Events.
    pub count: u64,
    /// Events of its busiest millisecond.
    pub peak_ms: u64,
}

/// Counts events by their times. An event whose time is before the one that came before it counts
/// as if it came with that one.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    windows: [Window; 3],
    seconds: BTreeMap<u64, SecondCount>,
    total: u64,
    first: Option<u64>,
    last: u64,
}

/// The rates of one length of windows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RateRow {
    /// The length, in nanoseconds.
    pub window_ns: u64,
    /// Events of the busiest window.
    pub peak: u64,
    /// The same as events a second.
    pub peak_per_second: f64,
    /// Its begin.
    pub peak_at_ns: u64,
    /// Windows with an event.
    pub busy_windows: u64,
    /// Mean of the windows with an event, as events a second.
    pub busy_mean_per_second: f64,
    /// Its peak by the peak of the windows of one second, both as events a second.
    pub burst: f64,
}

impl Rates {
    /// So many events at this moment.
    pub fn add(&mut self, at: Nanos, count: u64) {
        let at = at.0.max(self.last);
        self.first.get_or_insert(at);
        self.last = at;
        self.total += count;
        for (window, span) in self.windows.iter_mut().zip(SPANS) {
            if window.used == 0 || window.number != at / span {
                (window.number, window.count) = (at / span, 0);
                window.used += 1;
            }
            window.count += count;
            if window.count > window.peak {
                (window.peak, window.peak_number) = (window.count, window.number);
            }
        }
        let second = self.seconds.entry(at / SECOND).or_default();
        second.count += count;
        second.peak_ms = second.peak_ms.max(self.windows[2].count);
    }

    /// All events.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// From the first to the last event, in nanoseconds.
    #[must_use]
    pub fn span_ns(&self) -> u64 {
        self.first.map_or(0, |first| self.last - first)
    }

    /// Events a second from the first to the last; zero when there is no time between them.
    #[must_use]
    pub fn mean_per_second(&self) -> f64 {
        let seconds = self.span_ns() as f64 / SECOND as f64;
        if seconds > 0.0 { self.total as f64 / seconds } else { 0.0 }
    }

    /// The rates by windows of 1 s, 10 ms and 1 ms.
    #[must_use]
    pub fn rows(&self) -> [RateRow; 3] {
        let whole = self.windows[0].peak.max(1) as f64;
        std::array::from_fn(|index| {
            let (window, span) = (self.windows[index], SPANS[index]);
            let by_second = (SECOND / span) as f64;
            let peak_per_second = window.peak as f64 * by_second;
            RateRow {
                window_ns: span,
                peak: window.peak,
                peak_per_second,
                peak_at_ns: window.peak_number * span,
                busy_windows: window.used,
                busy_mean_per_second: self.total as f64 * by_second / window.used.max(1) as f64,
                burst: peak_per_second / whole,
            }
        })
    }

    /// Each second that had an event, by its number.
    #[must_use]
    pub fn seconds(&self) -> &BTreeMap<u64, SecondCount> {
        &self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_means_and_bursts_are_those_of_their_windows() {
        let mut rates = Rates::default();
        let start = 1_000 * SECOND;
        // Ten in one millisecond, five more in the same 10 ms, one in the next second.
        rates.add(Nanos(start), 10);
        rates.add(Nanos(start + 5 * MILLISECOND), 5);
        rates.add(Nanos(start + SECOND + 1), 1);
        assert_eq!((rates.total(), rates.span_ns()), (16, SECOND + 1));
        let [second, ten, one] = rates.rows();
        assert_eq!((second.peak, ten.peak, one.peak), (15, 15, 10));
        assert_eq!((second.busy_windows, ten.busy_windows, one.busy_windows), (2, 2, 3));
        assert_eq!(one.peak_per_second, 10_000.0);
        assert_eq!((second.burst, ten.burst, one.burst), (1.0, 100.0, 10_000.0 / 15.0));
        assert_eq!(second.busy_mean_per_second, 8.0);
        assert_eq!((one.peak_at_ns, second.peak_at_ns), (start, start));
        let seconds: Vec<_> = rates.seconds().values().copied().collect();
        let want = [(15, 10), (1, 1)].map(|(count, peak_ms)| SecondCount { count, peak_ms });
        assert_eq!(seconds, want);
    }

    #[test]
    fn times_that_go_back_or_are_missing_break_nothing() {
        let mut rates = Rates::default();
        assert_eq!((rates.mean_per_second(), rates.rows()[0].peak), (0.0, 0));
        rates.add(Nanos(u64::MAX), 1);
        rates.add(Nanos(0), 1);
        assert_eq!((rates.total(), rates.span_ns(), rates.rows()[2].peak), (2, 0, 2));
    }
}
