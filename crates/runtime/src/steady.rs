//! The time of a thread's duty cycles: the wall clock, except that it never steps back.
//!
//! The administrator, or NTP, can set the wall clock back by hours. An agent that compares a stored
//! deadline with such a clock stands still until the clock is back at the deadline: no heartbeat is
//! sent, no silent connection ends, no idle log is written. So after a step back the time goes on
//! from where it was, at half the speed of a monotonic clock, until the wall clock has caught up.
//! Half the speed keeps heartbeats within the silence that peers tolerate, 2.5 intervals.
//!
//! A step forward is followed at once: stamps and schedules must be right. But an interval that
//! began before it seems to have passed. So each step of the time beyond the monotonic clock is
//! told to the agents, which move the marks by which they measure silence.
//!
//! INVARIANT: the time never decreases, is never before the wall clock, and never stands still for
//! longer than a cycle. Its advance, less the steps told, is at most the monotonic clock's.

use weir_io::{Clock, SystemClock, monotonic_now};
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

/// The least skip that is told; what the two clocks drift apart between two comparisons is far
/// less.
const SKIP_MIN: u64 = 20_000_000;
/// The time between two comparisons, so that a busy thread does not read two clocks a cycle.
const COMPARISON_INTERVAL: u64 = 10_000_000;
/// The longest time between two readings of clocks that count as one moment.
const MOMENT_MAX: u64 = 1_000_000;

/// Finds the skips of a time beside a monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
struct SkipDetector {
    /// The time and the monotonic clock at the last comparison.
    last: Option<(Nanos, Nanos)>,
}

impl SkipDetector {
    fn is_due(&self, time: Nanos) -> bool {
        self.last.is_none_or(|(last, _)| time.since(last).0 >= COMPARISON_INTERVAL)
    }

    /// Compares the clocks at one moment; returns the skip since the last comparison.
    fn compare(&mut self, time: Nanos, monotonic: Nanos) -> Option<Nanos> {
        let (last, last_monotonic) = self.last.replace((time, monotonic))?;
        let passed = time.since(last).0;
        let skip = passed.saturating_sub(monotonic.since(last_monotonic).0);
        (skip >= SKIP_MIN).then_some(Nanos(skip))
    }
}

/// The clock of one thread.
#[derive(Debug)]
pub(crate) struct SteadyClock {
    time: SteadyTime,
    /// The monotonic clock at the last comparison.
    compared_at: Nanos,
    skips: SkipDetector,
}

impl SteadyClock {
    pub(crate) fn new() -> SteadyClock {
        SteadyClock {
            time: SteadyTime::default(),
            compared_at: monotonic_now(),
            skips: SkipDetector::default(),
        }
    }

    /// Returns nanoseconds since the Unix epoch, never less than before, and the skip since the
    /// last call, if there was one.
    pub(crate) fn now(&mut self) -> (Nanos, Option<Nanos>) {
        let now = self.read();
        if !self.skips.is_due(now) {
            return (now, None);
        }
        // A thread that loses its core between two readings compares again in its next cycle.
        let before = monotonic_now();
        let now = self.read();
        let after = monotonic_now();
        self.compared_at = after;
        if after.since(before).0 > MOMENT_MAX {
            return (now, None);
        }
        (now, self.skips.compare(now, after))
    }

    fn read(&mut self) -> Nanos {
        self.time.at(SystemClock.now(), monotonic_now)
    }

    /// Returns the monotonic clock as of a moment ago: at most some twenty milliseconds before the
    /// last call of [`SteadyClock::now`].
    pub(crate) fn compared_at(&self) -> Nanos {
        self.compared_at
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

    /// Advances both clocks by 5 ms at a time and returns the skips found.
    fn skips(machine: &mut Machine, detector: &mut SkipDetector, cycles: u64) -> Vec<u64> {
        let mut found = Vec::new();
        for _ in 0..cycles {
            let time = Nanos(machine.passes(5_000_000));
            if detector.is_due(time) {
                found.extend(detector.compare(time, Nanos(machine.monotonic)).map(|skip| skip.0));
            }
        }
        found
    }

    #[test]
    fn a_step_forward_is_found_once_and_whole() {
        let (mut machine, mut detector) = (Machine::default(), SkipDetector::default());
        assert_eq!(skips(&mut machine, &mut detector, 1_000), [0; 0]);
        for step in [SECOND, HOUR, SKIP_MIN] {
            machine.wall += step;
            assert_eq!(skips(&mut machine, &mut detector, 1_000), [step]);
        }
        machine.wall += SKIP_MIN - 1;
        assert_eq!(skips(&mut machine, &mut detector, 1_000), [0; 0], "no heartbeat is so short");
    }

    #[test]
    fn after_a_step_back_the_time_skips_only_when_the_clock_is_set_again() {
        let mut machine = Machine { wall: 100 * HOUR, ..Machine::default() };
        let mut detector = SkipDetector::default();
        assert_eq!(skips(&mut machine, &mut detector, 10), [0; 0]);
        machine.wall -= 60 * SECOND;
        // Catching up is no skip either: the time is slower than the clock until then.
        assert_eq!(skips(&mut machine, &mut detector, 2 * 120 * 200), [0; 0]);
        machine.wall -= HOUR;
        assert_eq!(skips(&mut machine, &mut detector, 60 * 200), [0; 0]);
        machine.wall += HOUR;
        let found = skips(&mut machine, &mut detector, 1_000);
        // Half a minute less than it ran on, for the half speed.
        assert!(
            matches!(found[..], [skip] if skip.abs_diff(30 * SECOND) < SECOND / 10),
            "{found:?}"
        );
    }
}
