//! The durations of a thread's cycles. An order that arrives waits for at most the cycle in
//! progress.
//!
//! A cycle is the time between two polls of the sockets; only cycles that did some work count. Its
//! duration is wall-clock time: where other threads compete for the core, it includes the time that
//! they ran. One thread counts and others read; a reader may see a cycle that is counted but not
//! yet included in the longest.

use std::sync::atomic::{AtomicU64, Ordering};

/// Classes per doubling of the duration: each is at most 19 % longer than the one before.
const PER_DOUBLING: usize = 4;
/// The first class begins at 64 ns, the last ends at 2^36 ns (69 s); durations outside count there.
const SHORTEST_BITS: usize = 6;
const CLASSES: usize = 30 * PER_DOUBLING;

/// The durations of a thread's cycles since its start.
#[derive(Debug)]
pub struct CycleTimes {
    counts: [AtomicU64; CLASSES],
    longest: AtomicU64,
}

crate::figures! {
    /// A distribution of cycles. Quantiles are the upper ends of their classes.
    #[derive(Copy, PartialEq, Eq)]
    pub struct CycleReport {
        /// Cycles that did some work.
        counter count as "cycles_total",
        /// The median of these cycles' durations.
        gauge p50_ns in nanoseconds as "cycle_nanoseconds{quantile=\"0.5\"}",
        /// The 99th percentile.
        gauge p99_ns in nanoseconds as "cycle_nanoseconds{quantile=\"0.99\"}",
        /// The 99.99th percentile.
        gauge p99_99_ns in nanoseconds as "cycle_nanoseconds{quantile=\"0.9999\"}",
        /// The longest cycle.
        gauge max_ns in nanoseconds as "cycle_nanoseconds{quantile=\"1\"}",
    }
}

impl Default for CycleTimes {
    fn default() -> CycleTimes {
        CycleTimes {
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            longest: AtomicU64::new(0),
        }
    }
}

fn class_of(length: u64) -> usize {
    let length = length.max(1 << SHORTEST_BITS);
    let doubling = length.ilog2() as usize;
    let part = (length >> (doubling - 2)) as usize % PER_DOUBLING;
    ((doubling - SHORTEST_BITS) * PER_DOUBLING + part).min(CLASSES - 1)
}

/// Returns the shortest duration of the next class.
fn end_of(class: usize) -> u64 {
    let (doubling, part) = (class / PER_DOUBLING + SHORTEST_BITS, class % PER_DOUBLING);
    (PER_DOUBLING + part + 1) as u64 * (1 << (doubling - 2))
}

impl CycleTimes {
    /// Counts a cycle of `length` ns.
    pub fn count(&self, length: u64) {
        // SYNC: one thread writes; a reader loads each number independently.
        let class = &self.counts[class_of(length)];
        class.store(class.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if length > self.longest.load(Ordering::Relaxed) {
            self.longest.store(length, Ordering::Relaxed);
        }
    }

    /// Returns the distribution so far.
    #[must_use]
    pub fn report(&self) -> CycleReport {
        let counts: Vec<u64> = self.counts.iter().map(|c| c.load(Ordering::Relaxed)).collect();
        let count = counts.iter().sum();
        let max_ns = self.longest.load(Ordering::Relaxed);
        let quantile = |one_in: u64| {
            // The rank of the quantile among the cycles.
            let mut beyond = count - count / one_in;
            let class = counts.iter().position(|inside| {
                let is_here = *inside >= beyond;
                beyond -= beyond.min(*inside);
                is_here
            });
            class.map_or(0, |class| end_of(class).min(max_ns))
        };
        let (p50_ns, p99_ns, p99_99_ns) = (quantile(2), quantile(100), quantile(10_000));
        CycleReport { count, p50_ns, p99_ns, p99_99_ns, max_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_each_other_and_each_length_is_in_its_own() {
        let mut length = 1 << SHORTEST_BITS;
        for class in 0..CLASSES - 1 {
            assert_eq!(class_of(length), class, "of {length}");
            assert_eq!(class_of(end_of(class) - 1), class);
            length = end_of(class);
        }
        assert_eq!((class_of(0), class_of(u64::MAX)), (0, CLASSES - 1));
    }

    #[test]
    fn quantiles_are_those_of_what_was_counted() {
        let times = CycleTimes::default();
        assert_eq!(times.report(), CycleReport::default());
        (1..=1_000).for_each(|n| times.count(n * 1_000));
        let report = times.report();
        assert_eq!((report.count, report.max_ns, report.p99_99_ns), (1_000, 1_000_000, 1_000_000));
        for (told, exact) in [(report.p50_ns, 500_000), (report.p99_ns, 990_000)] {
            assert!(told >= exact && told <= exact * 5 / 4, "{told} for {exact}");
        }
    }
}
