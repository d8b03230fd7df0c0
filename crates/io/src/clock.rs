//! Wall-clock time behind a replaceable trait, and a time for intervals.
//!
//! The wall clock may be set (the administrator, NTP), so no interval is measured with it. A
//! runner hands its agents [`monotonic_now`], read once per cycle: it never steps, and all threads
//! of a process share it. The wall clock is for stamps and for moments that a person or a file
//! names; an agent with such is told a [`WallOffset`], by which it converts between the two.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use weir_types::Nanos;

/// A source of wall-clock time.
pub trait Clock {
    /// Returns nanoseconds since the Unix epoch; may step backwards.
    fn now(&self) -> Nanos;
}

/// The operating system's wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // The one place where the machine's time enters.
    fn now(&self) -> Nanos {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Nanos(u64::try_from(since.as_nanos()).expect("the year is below 2554"))
    }
}

/// Returns the time for intervals: the wall clock at the process's first call, and the monotonic
/// clock's advance since. So it is near the wall clock while nobody sets that, and never steps.
#[must_use]
#[allow(clippy::disallowed_methods)] // The machine's other clock.
pub fn monotonic_now() -> Nanos {
    static FIRST: OnceLock<(Nanos, Instant)> = OnceLock::new();
    let (wall, first) = FIRST.get_or_init(|| (SystemClock.now(), Instant::now()));
    let since = u64::try_from(first.elapsed().as_nanos());
    Nanos(wall.0 + since.expect("no process lives for centuries"))
}

/// A clock that moves only when it is set or advanced. Clones share the time.
#[derive(Clone, Debug, Default)]
pub struct SimClock {
    now_ns: Arc<AtomicU64>,
}

impl SimClock {
    /// Creates a clock that stands at `now`.
    #[must_use]
    pub fn new(now: Nanos) -> SimClock {
        SimClock { now_ns: Arc::new(AtomicU64::new(now.0)) }
    }

    /// Sets the time, also backwards.
    pub fn set(&self, now: Nanos) {
        // SYNC: the time guards no other memory, so Relaxed is enough here and in `now`.
        self.now_ns.store(now.0, Ordering::Relaxed);
    }

    /// Moves the time forward.
    pub fn advance(&self, by: Nanos) {
        // SYNC: as in `set`.
        self.now_ns.fetch_add(by.0, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Nanos {
        // SYNC: as in `set`.
        Nanos(self.now_ns.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_of_a_simulated_clock_share_the_time() {
        let clock = SimClock::new(Nanos(5));
        let other = clock.clone();
        clock.advance(Nanos(2));
        assert_eq!(other.now(), Nanos(7));
        other.set(Nanos(1));
        assert_eq!(clock.now(), Nanos(1));
    }

    #[test]
    fn the_system_clock_is_past_2020_and_the_time_for_intervals_grows() {
        let wall = SystemClock.now();
        assert!(wall > Nanos(1_577_836_800_000_000_000));
        let (first, second) = (monotonic_now(), monotonic_now());
        assert!(first <= second);
    }
}
