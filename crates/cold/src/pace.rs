//! The rate limit of cold reads: rows per second, with a burst.
//!
//! Reading old rows takes processor time that readers of the order store would notice on a machine
//! with few cores. Work is done first and paid for afterwards, so that a page of any size is
//! possible and the average holds.

use weir_types::Nanos;

const SECOND: u64 = 1_000_000_000;

/// A budget that fills with time.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    rows_per_second: u64,
    burst_ns: u64,
    /// The time at which the work so far is paid for.
    paid_at: Nanos,
}

impl Pace {
    /// Allows `rows_per_second` on average, at least one, and a burst of `burst` worth of rows
    /// after a rest.
    #[must_use]
    pub fn new(rows_per_second: u64, burst: Nanos) -> Pace {
        Pace { rows_per_second: rows_per_second.max(1), burst_ns: burst.0, paid_at: Nanos(0) }
    }

    /// Allows any number of rows.
    #[must_use]
    pub fn unlimited() -> Pace {
        Pace::new(u64::MAX, Nanos(0))
    }

    /// True when the next piece of work may begin.
    #[must_use]
    pub fn may_begin(&self, now: Nanos) -> bool {
        self.paid_at <= now
    }

    /// Returns the time at which the next piece of work may begin.
    #[must_use]
    pub fn next_begin(&self) -> Nanos {
        self.paid_at
    }

    /// Deducts `rows` from the budget.
    pub fn spend(&mut self, now: Nanos, rows: u64) {
        let since = self.paid_at.0.max(now.0.saturating_sub(self.burst_ns));
        let cost = u128::from(rows) * u128::from(SECOND) / u128::from(self.rows_per_second);
        self.paid_at = Nanos(since.saturating_add(u64::try_from(cost).unwrap_or(u64::MAX)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_held_on_average_with_a_burst_after_a_rest() {
        let mut pace = Pace::new(1_000, Nanos(SECOND));
        let mut now = Nanos(10 * SECOND);
        assert!(pace.may_begin(now));
        pace.spend(now, 1_000);
        assert!(pace.may_begin(now), "the burst");
        pace.spend(now, 500);
        assert!(!pace.may_begin(now));
        assert_eq!(pace.next_begin(), Nanos(10 * SECOND + SECOND / 2));
        now = Nanos(11 * SECOND);
        let mut rows = 0;
        while now.0 < 111 * SECOND {
            if pace.may_begin(now) {
                pace.spend(now, 100);
                rows += 100;
            }
            now.0 += SECOND / 100;
        }
        assert!((99_000..=102_000).contains(&rows), "{rows} rows in 100 s");
    }
}
