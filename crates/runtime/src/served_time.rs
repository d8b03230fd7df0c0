//! Served time: the time for which an agent has worked, in this run and in those before.
//!
//! Ages by which data is deleted are measured with it. The wall clock may be set by mistake, and
//! while a process is down or stands, no client can come for its data: neither makes anything
//! older.
//!
//! INVARIANT: it never decreases, and between two readings it advances by no more than the
//! monotonic clock and by at most [`STEP_MAX`].

use weir_types::Nanos;

/// The most by which it advances between two readings: 10 s. In a longer pause nothing was served.
pub const STEP_MAX: Nanos = Nanos(10_000_000_000);

/// The served time of one agent.
#[derive(Debug)]
pub struct ServedTime {
    served: Nanos,
    /// The time of the last reading; `None` before the first.
    read_at: Option<Nanos>,
}

impl ServedTime {
    /// Returns the time of an agent that has served up to `last` before.
    #[must_use]
    pub fn after(last: Nanos) -> ServedTime {
        ServedTime { served: last, read_at: None }
    }

    /// Returns served time at a time of the monotonic clock.
    pub fn at(&mut self, now: Nanos) -> Nanos {
        let read_at = self.read_at.unwrap_or(now);
        let passed = now.since(read_at).0.min(STEP_MAX.0);
        self.read_at = Some(read_at.max(now));
        self.served = Nanos(self.served.0.saturating_add(passed));
        self.served
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_after_the_time_before_and_a_pause_of_any_length_counts_as_a_short_one() {
        const SECOND: u64 = 1_000_000_000;
        let mut served = ServedTime::after(Nanos(100 * SECOND));
        let begin = 5_000 * SECOND;
        for (now, wanted) in [
            (begin, 100 * SECOND),
            (begin + SECOND, 101 * SECOND),
            // A reading that is late, as of another thread, takes nothing back.
            (begin, 101 * SECOND),
            (begin + 2 * SECOND, 102 * SECOND),
            (begin + 90_000 * SECOND, 112 * SECOND),
            (begin + 90_001 * SECOND, 113 * SECOND),
            (u64::MAX, 123 * SECOND),
        ] {
            assert_eq!(served.at(Nanos(now)), Nanos(wanted), "{now}");
        }
        assert_eq!(ServedTime::after(Nanos(u64::MAX)).at(Nanos(1)), Nanos(u64::MAX));
    }
}
