//! Medians of runs and their intervals, without assuming a distribution.
//!
//! The interval of a median consists of order statistics: of 15 samples, the 4th and the 12th
//! enclose the true median with a probability of 96.5 %. With too few samples for 95 % the interval
//! is the whole range.

use std::fmt;

use serde_json::{Value, json};

/// A median and the interval that encloses the true one with a probability of at least 95 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    /// The median.
    pub(crate) median: f64,
    /// The interval's lower end.
    pub(crate) low: f64,
    /// The interval's upper end.
    pub(crate) high: f64,
}

impl Estimate {
    /// The estimate for the result's object.
    pub(crate) fn json(self) -> Value {
        json!({ "median": self.median, "low": self.low, "high": self.high })
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} [{:.2}, {:.2}]", self.median, self.low, self.high)
    }
}

/// Returns the median of the samples with its interval; sorts them.
///
/// # Panics
/// Without samples.
pub(crate) fn median_with_interval(samples: &mut [f64]) -> Estimate {
    assert!(!samples.is_empty(), "nothing was measured");
    samples.sort_by(f64::total_cmp);
    let count = samples.len();
    let rank = low_rank(count);
    let middle = count / 2;
    let median = if count % 2 == 1 {
        samples[middle]
    } else {
        f64::midpoint(samples[middle - 1], samples[middle])
    };
    Estimate { median, low: samples[rank], high: samples[count - 1 - rank] }
}

/// Returns the highest index whose order statistic lies below the true median with a probability of
/// 97.5 %.
fn low_rank(count: usize) -> usize {
    // The probability that at most `index` samples lie below the median is a binomial sum.
    let mut chance = 0.5f64.powi(i32::try_from(count).expect("a handful of samples"));
    let mut sum = 0.0;
    for index in 0..count / 2 {
        sum += chance;
        if sum > 0.025 {
            return index.saturating_sub(1);
        }
        chance *= (count - index) as f64 / (index + 1) as f64;
    }
    (count / 2).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_fifteen_is_the_fourth_to_the_twelfth() {
        let mut samples: Vec<f64> = (1..=15).rev().map(f64::from).collect();
        let got = median_with_interval(&mut samples);
        assert_eq!(got, Estimate { median: 8.0, low: 4.0, high: 12.0 });
    }

    #[test]
    fn few_samples_give_the_whole_range() {
        assert_eq!(
            median_with_interval(&mut [3.0, 1.0, 2.0, 4.0]),
            Estimate { median: 2.5, low: 1.0, high: 4.0 }
        );
        assert_eq!(median_with_interval(&mut [7.0]), Estimate { median: 7.0, low: 7.0, high: 7.0 });
    }

    #[test]
    fn ranks_are_those_of_the_tables_of_the_sign_test() {
        for (count, rank) in [(6, 0), (9, 1), (12, 2), (15, 3), (20, 5), (30, 9)] {
            assert_eq!(low_rank(count), rank, "{count} samples");
        }
    }
}
