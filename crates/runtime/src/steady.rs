//! The time of a thread's duty cycles: the wall clock, except that it never steps back.
//!
//! The administrator, or NTP, can set the wall clock back by hours. An agent that compares a stored
//! deadline with such a clock stands still until the clock is back at the deadline: no heartbeat is
//! sent, no silent connection ends, no idle log is written. So after a step back the time goes on
//! from where it was, at half the speed of a monotonic clock, until the wall clock has caught up.
//! Half the speed keeps heartbeats within the silence that peers tolerate, 2.5 intervals.
//!
//! INVARIANT: the time never decreases, is never before the wall clock, and never stands still for
//! longer than a cycle.

use std::time::Instant;

use weir_io::{Clock, SystemClock};
use weir_types::Nanos;

/// A time that follows a wall clock and never steps back.
#[derive(Clone, Copy, Debug, Default)]
struct SteadyTime {
    last: Nanos,
    /// While the time is ahead of the wall clock: the time at the step back, and the monotonic
    /// clock then.
    ahead_since: Option<(Nanos, Nanos)>,
}

impl SteadyTime {
    /// Returns the time at `wall`. The monotonic clock is read only while the time is ahead.
    fn at(&mut self, wall: Nanos, monotonic: impl FnOnce() -> Nanos) -> Nanos {
        if wall >= self.last {
            (self.last, self.ahead_since) = (wall, None);
            return wall;
        }
        let now = monotonic();
        let (began_at, began) = *self.ahead_since.get_or_insert((self.last, now));
        let time = Nanos(began_at.0 + now.since(began).0 / 2);
        self.last = self.last.max(time).max(wall);
        self.last
    }
}

/// The clock of one thread.
#[derive(Debug)]
pub(crate) struct SteadyClock {
    begun: Instant,
    time: SteadyTime,
    wall: Nanos,
}

impl SteadyClock {
    pub(crate) fn new() -> SteadyClock {
        SteadyClock { begun: Instant::now(), time: SteadyTime::default(), wall: Nanos(0) }
    }

    /// Returns nanoseconds since the Unix epoch, never less than before.
    pub(crate) fn now(&mut self) -> Nanos {
        let SteadyClock { begun, time, wall } = self;
        *wall = SystemClock.now();
        let monotonic = || Nanos(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        time.at(*wall, monotonic)
    }

    /// Returns the wall clock as the last call of [`SteadyClock::now`] read it.
    pub(crate) fn wall(&self) -> Nanos {
        self.wall
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const HOUR: u64 = 3_600 * SECOND;

    /// Both clocks of a machine; the wall clock can be set.
    #[derive(Default)]
    struct Machine {
        wall: u64,
        monotonic: u64,
        time: SteadyTime,
    }

    impl Machine {
        /// Lets time pass and returns the steady time.
        fn passes(&mut self, by: u64) -> u64 {
            self.wall += by;
            self.monotonic += by;
            self.time.at(Nanos(self.wall), || Nanos(self.monotonic)).0
        }
    }

    #[test]
    fn the_time_is_the_wall_clocks_and_follows_it_forward() {
        let mut machine = Machine::default();
        for by in [0, 1, SECOND, HOUR] {
            assert_eq!(machine.passes(by), machine.wall);
        }
        machine.wall += HOUR;
        assert_eq!(machine.passes(1), machine.wall);
    }

    #[test]
    fn after_a_step_back_deadlines_come_in_at_most_twice_their_time() {
        let mut machine = Machine { wall: 100 * HOUR, ..Machine::default() };
        let before = machine.passes(0);
        machine.wall -= HOUR;
        assert_eq!(machine.passes(0), before, "it does not step back");
        for second in 1..=100 {
            assert_eq!(machine.passes(SECOND), before + second * SECOND / 2);
        }
    }

    #[test]
    fn the_wall_clock_catches_up_and_the_time_follows_it_again() {
        let mut machine = Machine { wall: 100 * HOUR, ..Machine::default() };
        let mut last = machine.passes(0);
        for (back, ahead_for) in [(HOUR, 2), (2 * HOUR, 4)] {
            machine.wall -= back;
            assert_eq!(machine.passes(0), last);
            for hour in 1..=ahead_for + 1 {
                let time = (0..3_600).map(|_| machine.passes(SECOND)).last().unwrap();
                assert!(time >= last && time >= machine.wall, "{time} after {last}");
                assert_eq!(time > machine.wall, hour < ahead_for, "hour {hour}");
                last = time;
            }
        }
    }

    #[test]
    fn a_second_step_back_does_not_stop_it() {
        let mut machine = Machine { wall: 100 * HOUR, ..Machine::default() };
        let before = machine.passes(0);
        for step in 1..=10 {
            machine.wall -= HOUR;
            let _ = machine.passes(0);
            assert_eq!(machine.passes(2 * SECOND), before + step * SECOND);
        }
    }
}
