//! The growth of a series of samples, and whether it is flat: the verdict of campaigns in which
//! nothing may grow.
//!
//! The growth is the Theil-Sen slope, the median of the slopes between all pairs of points, times
//! the length of the series. Single outliers and sawteeth, as of a log's segments that come and go,
//! do not move it; a steady growth of any size does. The limit is the larger one of a share of the
//! median and a floor, because a series of small numbers has no resolution.

use std::fmt;

/// The most points whose pairs are compared; of more, evenly spaced ones are taken.
const POINTS_MAX: usize = 1_000;
/// A series of fewer points has no verdict.
const POINTS_MIN: usize = 4;

/// The limit of a series' growth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// The name of the series.
    pub what: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The share of the median that it may grow by.
    pub share: f64,
    /// The least growth that counts.
    pub floor: f64,
}

/// A judged series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// The name of the series.
    pub what: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The number of points.
    pub point_count: usize,
    /// The median.
    pub median: f64,
    /// The medians of the first and of the last third.
    pub thirds: [f64; 2],
    /// The growth over the length of the series.
    pub growth: f64,
    /// The largest growth of a flat series.
    pub limit: f64,
}

impl Judged {
    /// True unless it grew by more than its limit; a series of too few points is flat.
    #[must_use]
    pub fn is_flat(&self) -> bool {
        self.point_count < POINTS_MIN || self.growth <= self.limit
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Judged { what, unit, point_count, thirds: [first, last], growth, limit, .. } = self;
        let verdict = match (*point_count < POINTS_MIN, self.is_flat()) {
            (true, _) => "too few points",
            (_, true) => "flat",
            (_, false) => "GREW",
        };
        write!(
            f,
            "{what:<17} {first:>9.1} to {last:>9.1} {unit:<3} grew by {growth:>8.2} of {limit:.2}: \
             {verdict} ({point_count} points)"
        )
    }
}

/// Judges a series of (time, value) in order of time.
#[must_use]
pub fn judge(bound: Bound, points: &[(f64, f64)]) -> Judged {
    let step = points.len().div_ceil(POINTS_MAX).max(1);
    let points: Vec<_> = points.iter().copied().step_by(step).collect();
    let values: Vec<f64> = points.iter().map(|point| point.1).collect();
    let third = values.len().div_ceil(3);
    let length = match points[..] {
        [first, .., last] => last.0 - first.0,
        _ => 0.0,
    };
    let middle = median(&values);
    Judged {
        what: bound.what,
        unit: bound.unit,
        point_count: values.len(),
        median: middle,
        thirds: [median(&values[..third]), median(&values[values.len() - third..])],
        growth: slope(&points) * length,
        limit: (bound.share * middle).max(bound.floor),
    }
}

/// The Theil-Sen slope; zero without two times.
fn slope(points: &[(f64, f64)]) -> f64 {
    let mut slopes = Vec::new();
    for (index, from) in points.iter().enumerate() {
        let later = points[index + 1..].iter().filter(|to| to.0 > from.0);
        slopes.extend(later.map(|to| (to.1 - from.1) / (to.0 - from.0)));
    }
    median(&slopes)
}

/// The median, the lower one of two; zero without values.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Bound = Bound { what: "memory", unit: "MiB", share: 0.05, floor: 4.0 };

    fn judged(value: impl Fn(u32) -> f64) -> Judged {
        let points: Vec<_> = (0..300).map(|at| (f64::from(at) * 10.0, value(at))).collect();
        judge(BOUND, &points)
    }

    #[test]
    fn noise_sawteeth_and_a_step_back_are_flat() {
        assert!(judged(|_| 100.0).is_flat());
        assert!(judged(|at| 100.0 + f64::from(at * 7 % 13)).is_flat(), "a sawtooth");
        assert!(judged(|at| if at % 50 == 0 { 900.0 } else { 100.0 }).is_flat(), "outliers");
        assert!(judged(|at| 200.0 - f64::from(at) / 10.0).is_flat(), "a decline");
        assert!(judged(|at| 100.0 + f64::from(at) / 100.0).is_flat(), "3 MiB, under the floor");
    }

    #[test]
    fn a_steady_growth_is_found_below_the_noise() {
        let growing = judged(|at| 100.0 + f64::from(at) / 25.0 + f64::from(at * 7 % 13));
        assert!(!growing.is_flat(), "{growing}");
        assert!((10.0..14.0).contains(&growing.growth), "{growing}");
        assert!(growing.thirds[1] > growing.thirds[0]);
        // 5 % of a large series are more than the floor.
        assert!(judged(|at| 1_000.0 + f64::from(at) / 25.0).is_flat());
    }

    #[test]
    fn a_series_of_few_points_has_no_verdict() {
        for count in 0..POINTS_MIN {
            let points: Vec<_> = (0..count).map(|at| (at as f64, at as f64 * 1e6)).collect();
            assert!(judge(BOUND, &points).is_flat(), "{count}");
        }
    }

    #[test]
    fn many_points_are_thinned() {
        let points: Vec<_> = (0..5_000).map(|at| (f64::from(at), f64::from(at))).collect();
        let judged = judge(BOUND, &points);
        assert!(judged.point_count <= POINTS_MAX, "{judged}");
        assert!((4_900.0..5_000.0).contains(&judged.growth), "{judged}");
    }
}
