//! How long the cycles of a thread take: an order that arrives waits for at most the one under way.
//!
//! A cycle is what lies between two looks at the sockets, and only those that did something count.
//! Its length is the clock's: where others want the core it holds the time that they had it. One
//! thread counts and others read; a reader may see a cycle that is counted and not yet in the
//! longest.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// Classes in a doubling of the length: each is at most 19 % longer than the one before.
const PER_DOUBLING: usize = 4;
/// Lengths from 64 ns to 2^36 ns, 69 s; others count in the first or the last class.
const SHORTEST_BITS: usize = 6;
const CLASSES: usize = 30 * PER_DOUBLING;

/// Lengths of a thread's cycles since its start.
#[derive(Debug)]
pub struct CycleTimes {
    counts: [AtomicU64; CLASSES],
    longest: AtomicU64,
}

/// A distribution of cycles, in ns. Quantiles are the upper ends of their classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CycleReport {
    /// Cycles that did something.
    pub count: u64,
    /// The median.
    pub p50_ns: u64,
    /// 99 in 100 were at most so long.
    pub p99_ns: u64,
    /// 9,999 in 10,000.
    pub p99_99_ns: u64,
    /// The longest.
    pub max_ns: u64,
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

/// The first length that is in a later class.
fn end_of(class: usize) -> u64 {
    let (doubling, part) = (class / PER_DOUBLING + SHORTEST_BITS, class % PER_DOUBLING);
    (PER_DOUBLING + part + 1) as u64 * (1 << (doubling - 2))
}

impl CycleTimes {
    /// Counts a cycle of `length` ns.
    pub fn count(&self, length: u64) {
        // SYNC: one thread writes; a reader takes each number by itself.
        let class = &self.counts[class_of(length)];
        class.store(class.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if length > self.longest.load(Ordering::Relaxed) {
            self.longest.store(length, Ordering::Relaxed);
        }
    }

    /// The distribution so far.
    #[must_use]
    pub fn report(&self) -> CycleReport {
        let counts: Vec<u64> = self.counts.iter().map(|c| c.load(Ordering::Relaxed)).collect();
        let count = counts.iter().sum();
        let max_ns = self.longest.load(Ordering::Relaxed);
        let quantile = |one_in: u64| {
            // So many may be longer.
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
