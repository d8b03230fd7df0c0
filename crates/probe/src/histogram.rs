//! Log-linear histograms of nanoseconds: one writer, readers on any thread, no lock.
//!
//! Values below 128 have a bucket each; above, every octave is divided into 128 buckets, so a
//! bucket is at most 1/128 (0.8 %) as wide as its values. Values of 2^40 ns (18 minutes) and more
//! share the last bucket; the maximum is kept exactly. One histogram takes 34 KiB.
//!
//! A [`Snapshot`] is a plain copy: it merges, subtracts and answers quantiles. The writer keeps
//! writing while it is taken: its buckets may be a few records ahead of its sum, never behind by
//! more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SUB_BITS: u32 = 7;
const SUB_COUNT: u64 = 1 << SUB_BITS;
/// The number of value bits: values from 2^40 share the last bucket.
const VALUE_BITS: u32 = 40;
/// The number of buckets of a histogram.
pub const BUCKET_COUNT: usize = ((VALUE_BITS - SUB_BITS + 1) as usize) << SUB_BITS;
/// The largest value of the last bucket; larger values are counted there too.
pub const VALUE_MAX: u64 = (1 << VALUE_BITS) - 1;

/// Returns the bucket of a value.
#[inline(always)]
fn bucket_of(value: u64) -> usize {
    let value = value.min(VALUE_MAX);
    // The octave's shift: 0 for values below 256, so that buckets are 1 wide up to there.
    let shift = 63 - SUB_BITS - (value | SUB_COUNT).leading_zeros();
    (((shift as u64) << SUB_BITS) + (value >> shift)) as usize
}

/// Returns the lowest and the highest value of a bucket.
fn bounds_of(bucket: usize) -> (u64, u64) {
    let bucket = bucket as u64;
    if bucket < 2 * SUB_COUNT {
        return (bucket, bucket);
    }
    let shift = (bucket >> SUB_BITS) - 1;
    let low = (SUB_COUNT + (bucket & (SUB_COUNT - 1))) << shift;
    (low, low + (1 << shift) - 1)
}

#[derive(Debug)]
struct Cells {
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
}

/// The writer of a histogram; one thread owns it.
#[derive(Debug)]
pub struct Histogram {
    cells: Arc<Cells>,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl Histogram {
    /// Creates an empty histogram.
    #[must_use]
    pub fn new() -> Histogram {
        let cells = Cells {
            counts: (0..BUCKET_COUNT).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
        };
        Histogram { cells: Arc::new(cells), min: u64::MAX, max: 0 }
    }

    /// Counts a value, in ns.
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        add(&self.cells.counts[bucket_of(value_ns)], 1);
        add(&self.cells.sum, value_ns);
        // SYNC: extremes with a single writer; readers need no order.
        if value_ns > self.max {
            self.max = value_ns;
            self.cells.max.store(value_ns, Ordering::Relaxed);
        }
        if value_ns < self.min {
            self.min = value_ns;
            self.cells.min.store(value_ns, Ordering::Relaxed);
        }
    }

    /// Returns a reader for another thread.
    #[must_use]
    pub fn reader(&self) -> HistogramReader {
        HistogramReader { cells: Arc::clone(&self.cells) }
    }

    /// Returns a copy of the histogram.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.cells)
    }
}

/// SYNC: with a single writer a load and a store lose nothing and cost a third of a `fetch_add`;
/// readers need no order between cells.
#[inline(always)]
fn add(cell: &AtomicU64, amount: u64) {
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

/// Reads a histogram while its writer keeps writing.
#[derive(Clone, Debug)]
pub struct HistogramReader {
    cells: Arc<Cells>,
}

impl HistogramReader {
    /// Returns a copy of the histogram; takes about 3 µs.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.cells)
    }
}

/// The content of a histogram at one moment, or a sum or difference of such contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    counts: Box<[u64]>,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

impl Default for Snapshot {
    fn default() -> Snapshot {
        let counts = vec![0; BUCKET_COUNT].into_boxed_slice();
        Snapshot { counts, count: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Snapshot {
    fn of(cells: &Cells) -> Snapshot {
        // SYNC: cells with a single writer, each exact by itself; buckets may be ahead of the sum.
        let sum = cells.sum.load(Ordering::Relaxed);
        let min = cells.min.load(Ordering::Relaxed);
        let max = cells.max.load(Ordering::Relaxed);
        let counts: Box<[u64]> =
            cells.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let count = counts.iter().sum();
        Snapshot { counts, count, sum, min, max }
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns true if there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the sum of the values, ns (modulo 2^64).
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.sum
    }

    /// Returns the mean, ns; 0 if empty.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Returns the smallest value, ns; 0 if empty. Exact; for a difference, its bucket's lower end.
    #[must_use]
    pub fn min_ns(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    /// Returns the largest value, ns; 0 if empty. Exact; for a difference, its bucket's upper end.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.max
    }

    /// Returns the value, ns, that a share `quantile` (0 to 1) of all values does not exceed: the
    /// upper end of its bucket, so it is never too low and at most 1/128 too high. 0 if empty.
    #[must_use]
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        let rank = rank_of(quantile, self.count);
        let mut passed = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            passed += count;
            if passed >= rank && *count > 0 {
                return self.upper_end(bucket);
            }
        }
        self.max
    }

    fn upper_end(&self, bucket: usize) -> u64 {
        if bucket == BUCKET_COUNT - 1 { self.max } else { bounds_of(bucket).1.min(self.max) }
    }

    /// Returns true if there are enough values for this quantile: at least ten beyond it.
    #[must_use]
    pub fn supports(&self, quantile: f64) -> bool {
        self.count as f64 * (1.0 - quantile) >= 10.0 - 1e-6
    }

    /// Adds the values of another snapshot.
    pub fn merge(&mut self, other: &Snapshot) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Returns the values counted after `earlier`, a snapshot of the same histogram. Extremes are
    /// those of the buckets.
    ///
    /// # Panics
    ///
    /// Panics if `earlier` has values that this snapshot lacks: it belongs to another histogram or
    /// is newer.
    #[must_use]
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        let mut change = self.clone();
        for (mine, theirs) in change.counts.iter_mut().zip(&earlier.counts) {
            assert!(*mine >= *theirs, "a histogram never loses what it counted");
            *mine -= theirs;
        }
        change.count -= earlier.count;
        change.sum = change.sum.wrapping_sub(earlier.sum);
        let first = change.counts.iter().position(|count| *count > 0);
        let last = change.counts.iter().rposition(|count| *count > 0);
        change.min = first.map_or(u64::MAX, |bucket| bounds_of(bucket).0.max(self.min));
        change.max = last.map_or(0, |bucket| change.upper_end(bucket));
        change
    }

    /// Returns the non-empty buckets: lowest value, highest value, count, in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(bucket, count)| {
            let (low, high) = bounds_of(bucket);
            (low, high, *count)
        })
    }
}

/// Returns the rank, from 1, of the value at a quantile. Products such as 0.999 × 1000 can miss the
/// integer by a rounding error; those count as the integer.
fn rank_of(quantile: f64, count: u64) -> u64 {
    let exact = quantile.clamp(0.0, 1.0) * count as f64;
    let nearest = exact.round();
    let rank = if (exact - nearest).abs() < 1e-6 { nearest } else { exact.ceil() };
    (rank as u64).clamp(1, count.max(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn snapshot_of(values: &[u64]) -> Snapshot {
        let mut histogram = Histogram::new();
        for value in values {
            histogram.record(*value);
        }
        histogram.snapshot()
    }

    #[test]
    fn buckets_cover_every_value_once_and_are_at_most_one_128th_wide() {
        let mut next = 0;
        for bucket in 0..BUCKET_COUNT {
            let (low, high) = bounds_of(bucket);
            assert_eq!(low, next, "bucket {bucket}");
            assert_eq!((bucket_of(low), bucket_of(high)), (bucket, bucket));
            assert!((high - low) * 128 <= low, "bucket {bucket} is too wide");
            next = high + 1;
        }
        assert_eq!(next, VALUE_MAX + 1);
        assert_eq!(bucket_of(u64::MAX), BUCKET_COUNT - 1);
    }

    #[test]
    fn an_empty_histogram_answers_zero() {
        let empty = Snapshot::default();
        assert_eq!(empty, Histogram::new().snapshot());
        assert_eq!((empty.count(), empty.min_ns(), empty.max_ns()), (0, 0, 0));
        assert_eq!(empty.quantile_ns(0.5), 0);
        assert!(empty.mean_ns() == 0.0 && empty.is_empty() && !empty.supports(0.5));
        assert_eq!(empty.since(&empty).quantile_ns(1.0), 0);
    }

    #[test]
    fn quantiles_of_small_values_are_exact() {
        let values: Vec<u64> = (1..=100).collect();
        let snapshot = snapshot_of(&values);
        let cases =
            [(0.0, 1), (0.01, 1), (0.5, 50), (0.9, 90), (0.99, 99), (0.991, 100), (1.0, 100)];
        for (quantile, expected) in cases {
            assert_eq!(snapshot.quantile_ns(quantile), expected, "{quantile}");
        }
        assert!((snapshot.mean_ns() - 50.5).abs() < 1e-9);
        assert!(snapshot.supports(0.9) && !snapshot.supports(0.91));
    }

    #[test]
    fn values_beyond_the_range_keep_the_exact_maximum() {
        let snapshot = snapshot_of(&[5, VALUE_MAX + 1_000_000]);
        assert_eq!(snapshot.max_ns(), VALUE_MAX + 1_000_000);
        assert_eq!(snapshot.quantile_ns(1.0), VALUE_MAX + 1_000_000);
        assert_eq!(snapshot.quantile_ns(0.5), 5);
    }

    #[test]
    fn a_reader_sees_what_the_writer_counted() {
        let mut histogram = Histogram::new();
        let reader = histogram.reader();
        histogram.record(77);
        assert_eq!(reader.snapshot(), histogram.snapshot());
        assert_eq!(reader.snapshot().count(), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 4 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn a_quantile_is_never_too_low_and_at_most_one_128th_too_high(
            mut values in prop::collection::vec(
                prop_oneof![0_u64..1_000, 0_u64..100_000_000, 0..VALUE_MAX], 1..400),
            quantile in 0.0_f64..=1.0,
        ) {
            let snapshot = snapshot_of(&values);
            values.sort_unstable();
            let exact = values[rank_of(quantile, values.len() as u64) as usize - 1];
            let answer = snapshot.quantile_ns(quantile);
            prop_assert!(answer >= exact, "{answer} for {exact}");
            prop_assert!((answer - exact) * 128 <= exact, "{answer} for {exact}");
            prop_assert_eq!(snapshot.max_ns(), *values.last().expect("not empty"));
            prop_assert_eq!(snapshot.min_ns(), values[0]);
            prop_assert_eq!(snapshot.sum_ns(), values.iter().sum::<u64>());
        }

        #[test]
        fn parts_merge_to_the_whole_and_the_whole_less_a_part_is_the_rest(
            first in prop::collection::vec(0..VALUE_MAX, 0..100),
            second in prop::collection::vec(0..VALUE_MAX, 0..100),
        ) {
            let (earlier, rest) = (snapshot_of(&first), snapshot_of(&second));
            let whole = snapshot_of(&[first, second].concat());
            let mut merged = earlier.clone();
            merged.merge(&rest);
            prop_assert_eq!(&merged, &whole);
            let change = whole.since(&earlier);
            prop_assert_eq!(change.buckets().collect::<Vec<_>>(),
                rest.buckets().collect::<Vec<_>>());
            prop_assert_eq!((change.count(), change.sum_ns()), (rest.count(), rest.sum_ns()));
            prop_assert!(change.max_ns() >= rest.max_ns());
            prop_assert!((change.max_ns() - rest.max_ns()) * 128 <= rest.max_ns());
        }
    }
}
