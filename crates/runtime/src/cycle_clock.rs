//! The clocks of a thread's duty cycles: a monotonic one for intervals, and beside it the distance
//! of the wall clock.
//!
//! The administrator, NTP, or the host after a suspension may set the wall clock, by any amount and
//! at any time. An agent that measured an interval with it would end silent sessions early, or send
//! no heartbeat for as long as the clock went back. So cycles have the time of [`monotonic_now`],
//! and the wall clock's distance from it is compared a hundred times a second.
//!
//! INVARIANT: the time never decreases, and its advance is the monotonic clock's.

use std::sync::atomic::{AtomicI64, Ordering};

use weir_io::{Clock, SystemClock, monotonic_now};
use weir_types::{Nanos, WallOffset};

/// The time between two comparisons, so that a busy thread does not read two clocks a cycle.
const COMPARISON_INTERVAL: u64 = 10_000_000;
/// The longest time between two readings of clocks that count as one moment. A thread that loses
/// its core between them compares again in its next cycle.
const MOMENT_MAX: u64 = 50_000;
/// The least change between two comparisons that counts as a step; the clocks drift apart by far
/// less.
pub const STEP_MIN: u64 = 20_000_000;

/// A comparison of the two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compared {
    /// The distance of the wall clock.
    pub(crate) wall: WallOffset,
    /// Nanoseconds by which the wall clock was set since the last comparison, if it was.
    pub(crate) step: Option<i64>,
}

/// Tries to read both clocks at one moment before the first cycle.
const FIRST_TRIES: u32 = 1_000;

/// Follows the wall clock beside the time of duty cycles.
#[derive(Debug, Default)]
struct WallFollower {
    /// The wall clock's distance; `None` before the first comparison.
    wall: Option<WallOffset>,
    compared_at: Nanos,
}

impl WallFollower {
    fn is_due(&self, now: Nanos) -> bool {
        self.wall.is_none() || now.since(self.compared_at).0 >= COMPARISON_INTERVAL
    }

    /// Takes a reading of the wall clock between two of the time; returns the comparison if it
    /// brings news.
    fn compare(&mut self, before: Nanos, wall: Nanos, after: Nanos) -> Option<Compared> {
        let span = after.since(before).0;
        // Without a first comparison there is nothing to go by: an inexact one has to do.
        if span > MOMENT_MAX && self.wall.is_some() {
            return None;
        }
        self.compared_at = after;
        let now = WallOffset::between(Nanos(before.0 + span / 2), wall);
        let last = self.wall.replace(now);
        let step = last.map_or(0, |last| now.step_from(last));
        let step = (step.unsigned_abs() >= STEP_MIN).then_some(step);
        (last != Some(now)).then_some(Compared { wall: now, step })
    }
}

/// The clocks of one thread.
#[derive(Debug, Default)]
pub(crate) struct CycleClock {
    follower: WallFollower,
}

impl CycleClock {
    /// Returns the time of the next cycle, and the wall clock's distance if it has changed.
    pub(crate) fn now(&mut self) -> (Nanos, Option<Compared>) {
        let before = monotonic_now();
        if !self.follower.is_due(before) {
            return (before, None);
        }
        let (mut before, mut wall, mut after) = read(before);
        let mut tries = 1;
        while self.follower.wall.is_none()
            && after.since(before).0 > MOMENT_MAX
            && tries < FIRST_TRIES
        {
            tries += 1;
            (before, wall, after) = read(after);
        }
        (after, self.follower.compare(before, wall, after))
    }
}

/// Reads the wall clock after a reading of the time, and the time again.
fn read(before: Nanos) -> (Nanos, Nanos, Nanos) {
    let wall = SystemClock.now();
    (before, wall, monotonic_now())
}

/// Returns true for the first thread that finds a step of the wall clock: one line tells of it.
pub(crate) fn is_news(wall: WallOffset) -> bool {
    static TOLD: AtomicI64 = AtomicI64::new(0);
    is_other(&TOLD, wall)
}

fn is_other(told: &AtomicI64, wall: WallOffset) -> bool {
    let ahead = wall.step_from(WallOffset::default());
    // SYNC: the value guards no other memory; the swap alone decides which thread tells.
    let before = told.swap(ahead, Ordering::Relaxed);
    ahead.saturating_sub(before).unsigned_abs() >= STEP_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;
    const BEGIN: i64 = 1_000_000 * SECOND;

    /// Both clocks of a machine; the wall clock can be set.
    struct Machine {
        time: i64,
        wall: i64,
        follower: WallFollower,
    }

    impl Machine {
        fn new() -> Machine {
            let mut machine =
                Machine { time: BEGIN, wall: BEGIN, follower: WallFollower::default() };
            assert_eq!(machine.cycle(10), Some(told(0, None)));
            machine
        }

        /// Reads the clocks with this time between the readings; returns the news.
        fn cycle(&mut self, span: i64) -> Option<Compared> {
            let at = |time: i64| Nanos(time.unsigned_abs());
            if !self.follower.is_due(at(self.time)) {
                return None;
            }
            let half = span / 2;
            self.follower.compare(at(self.time - half), at(self.wall), at(self.time + half))
        }

        /// Lets time pass in cycles of 5 ms and returns all news.
        fn passes(&mut self, cycles: u64) -> Vec<Compared> {
            let cycle = |_| {
                (self.time, self.wall) = (self.time + SECOND / 200, self.wall + SECOND / 200);
                self.cycle(10)
            };
            (0..cycles).filter_map(cycle).collect()
        }
    }

    fn told(ahead: i64, step: Option<i64>) -> Compared {
        let time = Nanos(BEGIN.unsigned_abs());
        let wall = WallOffset::between(time, Nanos((BEGIN + ahead).unsigned_abs()));
        Compared { wall, step }
    }

    #[test]
    fn clocks_that_go_together_are_no_news() {
        assert_eq!(Machine::new().passes(1_000), []);
    }

    #[test]
    fn a_step_of_the_wall_clock_either_way_is_told_once_and_whole() {
        let mut machine = Machine::new();
        let mut ahead = 0;
        for step in [SECOND, -30 * SECOND, 3_600 * SECOND, -20_000_000, 20_000_000] {
            machine.wall += step;
            ahead += step;
            assert_eq!(machine.passes(1_000), [told(ahead, Some(step))]);
        }
    }

    #[test]
    fn a_slewed_clock_is_followed_and_is_no_step() {
        let mut machine = Machine::new();
        for slews in 1..=100 {
            machine.wall += 5_000;
            // Two cycles are some nanoseconds too short for a comparison.
            assert_eq!(machine.passes(3), [told(slews * 5_000, None)]);
        }
    }

    #[test]
    fn readings_that_are_far_apart_are_taken_again() {
        let mut machine = Machine::new();
        machine.time += SECOND;
        assert_eq!(machine.cycle(SECOND), None, "the thread lost its core between them");
        assert_eq!(machine.cycle(100), Some(told(-SECOND, Some(-SECOND))));
    }

    #[test]
    fn one_thread_tells_of_a_step() {
        let shared = AtomicI64::new(0);
        for (ahead, is_news) in [(0, false), (SECOND, true), (SECOND + 900, false), (0, true)] {
            assert_eq!(is_other(&shared, told(ahead, None).wall), is_news, "{ahead}");
        }
    }
}
