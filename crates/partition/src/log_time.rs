//! A partition's log time: the wall clock, but it never goes back, and its jumps are bounded.
//!
//! Log time stamps the engine's events and is its only time: expiries, phases and rates go by it.
//! It cannot be taken back, so it does not follow each step of the wall clock:
//!
//! | wall clock | log time |
//! | --- | --- |
//! | at it, or ahead by less than a step | is the wall clock |
//! | ahead by a step or more, at a start | jumps to it from the log's last command |
//! | ahead by a step or more, later | jumps to it, by at most [`JUMP_MAX`] in [`JUMP_PAUSE`] |
//! | behind it | goes on at half speed until the wall clock has caught up |
//!
//! So all that is due comes, in at most twice its time. After a step by mistake, of a year, an
//! operator has time to put the clock right before all orders have expired. A start has no bound:
//! an outage may have any length, and so may a time in which nothing was logged, and both look like
//! a clock that is wrong. The way from the last command is told.
//!
//! INVARIANT: it never decreases, over restarts too, and within a run its advance is at least half
//! of the monotonic clock's.

use weir_types::{Nanos, WallOffset};

use crate::plant::{self, Plant};

/// The most by which log time follows the wall clock forward at once: an hour.
pub const JUMP_MAX: Nanos = Nanos(3_600_000_000_000);
/// The time after a jump until it may go forward by so much again: a minute.
pub const JUMP_PAUSE: Nanos = Nanos(60_000_000_000);
/// The age of the last command at a start that is told as a warning, because the clock may be
/// wrong: a day.
pub const START_JUMP_LONG: Nanos = Nanos(86_400_000_000_000);
/// The least difference between the wall clock and log time that is a step.
pub const STEP_MIN: u64 = weir_runtime::cycle_clock::STEP_MIN;

/// A change in the way in which log time follows the wall clock, for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// At the start it went forward to the wall clock by this much, from the log's last command on:
    /// the time of an outage, and of that before it in which nothing was logged.
    Began(Nanos),
    /// It went forward towards the wall clock.
    Jumped {
        /// The part that it went.
        by: Nanos,
        /// The rest.
        behind: Nanos,
    },
    /// It is ahead of the wall clock by this much and goes at half speed.
    Ahead(Nanos),
    /// It follows the wall clock again.
    Level,
}

/// The relation of log time to the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Follows {
    Level,
    Ahead,
    Behind,
}

/// The log time of one partition.
#[derive(Debug)]
pub struct LogTime {
    wall: WallOffset,
    /// The time of the last reading; `None` before the first.
    read_at: Option<Nanos>,
    log_time: Nanos,
    /// Half a nanosecond that the slow advance has left over, if 1.
    half_left: u64,
    follows: Follows,
    /// The distance to a wall clock that is behind, at the last reading.
    ahead: u64,
    /// True when the operator was told that log time does not follow the wall clock.
    is_told: bool,
    /// The rest of [`JUMP_MAX`], and the time at which it is whole again.
    room: u64,
    room_again_at: Nanos,
    notice: Option<Notice>,
}

impl LogTime {
    /// Returns the time of a log whose last batch has this log time.
    #[must_use]
    pub fn after(last: Nanos) -> LogTime {
        LogTime {
            wall: WallOffset::default(),
            read_at: None,
            log_time: if plant::is(Plant::LogTimeForgotten) { Nanos(0) } else { last },
            half_left: 0,
            follows: Follows::Level,
            ahead: 0,
            is_told: false,
            room: JUMP_MAX.0,
            room_again_at: Nanos(0),
            notice: None,
        }
    }

    /// Notes the distance of the wall clock.
    pub fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.wall = wall;
    }

    /// Returns the log time at a time of the monotonic clock.
    pub fn at(&mut self, now: Nanos) -> Nanos {
        let wall = self.wall.wall_at(now);
        let Some(read_at) = self.read_at.replace(now) else {
            self.begin(wall);
            return self.log_time;
        };
        let passed = now.since(read_at).0;
        let level = self.log_time.0 + passed;
        if wall.0 < level {
            self.fall_back(wall, passed);
        } else if wall.0 - level < STEP_MIN {
            self.log_time = wall;
            self.be_level();
        } else {
            self.catch_up(level, wall, now);
        }
        self.log_time
    }

    /// The first reading: the time since the last command has passed at once.
    fn begin(&mut self, wall: Nanos) {
        let (behind, jump) = (self.log_time.since(wall).0, wall.since(self.log_time));
        let is_new = self.log_time == Nanos(0);
        if !is_new && jump.0 >= STEP_MIN {
            self.notice = Some(Notice::Began(jump));
        }
        self.log_time = self.log_time.max(wall);
        if behind > 0 {
            self.go_ahead(behind);
        }
    }

    fn fall_back(&mut self, wall: Nanos, passed: u64) {
        let before = self.log_time;
        if plant::is(Plant::LogTimeStands) {
            self.log_time = before.max(wall);
            return;
        }
        let doubled = passed + self.half_left;
        self.half_left = doubled % 2;
        let slow = Nanos(before.0 + doubled / 2);
        self.log_time = slow.max(wall);
        if slow <= wall {
            self.be_level();
        } else {
            self.go_ahead(slow.0 - wall.0);
        }
    }

    /// Is ahead by this much, which is told at each step of the wall clock back.
    fn go_ahead(&mut self, by: u64) {
        if by >= self.ahead + STEP_MIN {
            (self.notice, self.is_told) = (Some(Notice::Ahead(Nanos(by))), true);
        }
        (self.follows, self.ahead) = (Follows::Ahead, by);
    }

    fn catch_up(&mut self, level: u64, wall: Nanos, now: Nanos) {
        if now >= self.room_again_at {
            self.room = JUMP_MAX.0;
        }
        let wanted = wall.0 - level;
        let by = match plant::is(Plant::LogTimeFollowsFar) {
            true => wanted,
            false => wanted.min(self.room),
        };
        self.log_time = Nanos(level + by);
        if by > 0 {
            self.room = self.room.saturating_sub(by);
            self.room_again_at = Nanos(now.0 + JUMP_PAUSE.0);
            self.notice = Some(Notice::Jumped { by: Nanos(by), behind: Nanos(wanted - by) });
        }
        let is_level = by == wanted;
        self.follows = if is_level { Follows::Level } else { Follows::Behind };
        (self.ahead, self.is_told) = (0, !is_level);
    }

    /// Follows the wall clock again.
    fn be_level(&mut self) {
        (self.follows, self.ahead) = (Follows::Level, 0);
        if std::mem::take(&mut self.is_told) {
            self.notice = Some(Notice::Level);
        }
    }

    /// Returns the time of the monotonic clock at which log time will not be before `moment`, if
    /// the wall clock is not set meanwhile. Called after [`LogTime::at`].
    #[must_use]
    pub fn due(&self, moment: Nanos) -> Nanos {
        let left = moment.since(self.log_time).0;
        let left = match self.follows {
            Follows::Ahead => left.saturating_mul(2),
            Follows::Level | Follows::Behind => left,
        };
        Nanos(self.read_at.unwrap_or(Nanos(0)).0.saturating_add(left))
    }

    /// Returns the wall clock as of the last reading of log time.
    #[must_use]
    pub fn wall(&self) -> Nanos {
        self.wall.wall_at(self.read_at.unwrap_or(Nanos(0)))
    }

    /// Takes the news for the operator, if there is any.
    pub fn take_notice(&mut self) -> Option<Notice> {
        self.notice.take()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: i64 = 1_000_000_000;
    const HOUR: i64 = 3_600 * SECOND;
    const BEGIN: i64 = 1_700_000_000 * SECOND;

    /// The clocks of a machine, and a log time that is read at each step.
    struct Machine {
        time: i64,
        wall: i64,
        log_time: LogTime,
    }

    fn nanos(of: i64) -> Nanos {
        Nanos(of.unsigned_abs())
    }

    fn jumped(by: i64, behind: i64) -> Notice {
        Notice::Jumped { by: nanos(by), behind: nanos(behind) }
    }

    impl Machine {
        /// A process starts on a log that ends at `last`.
        fn start(wall: i64, last: i64) -> Machine {
            Machine { time: BEGIN, wall, log_time: LogTime::after(nanos(last)) }
        }

        /// Lets time pass and returns log time.
        fn passes(&mut self, by: i64) -> i64 {
            (self.time, self.wall) = (self.time + by, self.wall + by);
            self.log_time.wall_clock_moved(WallOffset::between(nanos(self.time), nanos(self.wall)));
            self.log_time.at(nanos(self.time)).0.cast_signed()
        }
    }

    #[test]
    fn it_is_the_wall_clock_and_a_slew_is_no_news() {
        let mut machine = Machine::start(BEGIN, 0);
        for by in [0, 1, SECOND, HOUR] {
            assert_eq!(machine.passes(by), machine.wall);
            machine.wall += 5_000_000;
        }
        assert_eq!(machine.log_time.take_notice(), None);
    }

    #[test]
    fn after_a_step_back_it_goes_at_half_speed_until_the_wall_clock_has_caught_up() {
        for back in [SECOND, 20 * SECOND, 30 * SECOND, HOUR] {
            let mut machine = Machine::start(BEGIN, 0);
            let before = machine.passes(SECOND);
            machine.wall -= back;
            for second in 1..=2 * back / SECOND {
                let now = machine.passes(SECOND);
                assert_eq!(now, before + second * SECOND / 2, "{back}");
                let told = (second == 1)
                    .then_some(Notice::Ahead(nanos(back - SECOND / 2)))
                    .or((second == 2 * back / SECOND).then_some(Notice::Level));
                assert_eq!(machine.log_time.take_notice(), told, "{back}, {second}");
            }
            assert_eq!(machine.passes(1), machine.wall);
        }
    }

    #[test]
    fn each_step_back_is_told_and_the_end_of_what_was_told_alone() {
        let mut machine = Machine::start(BEGIN, 0);
        let _ = machine.passes(0);
        for (back, ahead) in [(HOUR, HOUR), (20 * HOUR, 21 * HOUR)] {
            machine.wall -= back;
            let _ = machine.passes(0);
            assert_eq!(machine.log_time.take_notice(), Some(Notice::Ahead(nanos(ahead))));
        }
        let mut machine = Machine::start(BEGIN, 0);
        let _ = machine.passes(0);
        // The clocks were not read at one moment.
        machine.wall -= 20_000;
        for _ in 0..10 {
            let _ = machine.passes(10_000);
            assert_eq!(machine.log_time.take_notice(), None);
        }
    }

    #[test]
    fn slow_advance_loses_no_half_nanosecond() {
        let mut machine = Machine::start(BEGIN, 0);
        let before = machine.passes(0);
        machine.wall -= HOUR;
        for _ in 0..1_000 {
            let _ = machine.passes(1);
        }
        assert_eq!(machine.passes(0), before + 500);
    }

    #[test]
    fn a_step_forward_is_followed_by_an_hour_at_once_and_by_no_more_within_a_minute() {
        let mut machine = Machine::start(BEGIN, 0);
        let mut expected = machine.passes(0);
        for step in [10 * SECOND, HOUR - 10 * SECOND] {
            machine.wall += step;
            expected += step;
            assert_eq!(machine.passes(0), expected);
            assert_eq!(machine.log_time.take_notice(), Some(jumped(step, 0)));
        }
        machine.wall += 3 * HOUR;
        for _ in 0..59 {
            expected += SECOND;
            assert_eq!(machine.passes(SECOND), expected, "the minute is not over");
        }
        for behind in [2 * HOUR, HOUR, 0] {
            expected += SECOND + HOUR;
            assert_eq!(machine.passes(SECOND), expected);
            assert_eq!(machine.log_time.take_notice(), Some(jumped(HOUR, behind)));
            expected += 59 * SECOND;
            assert_eq!(machine.passes(59 * SECOND), expected);
        }
        assert_eq!(expected, machine.wall);
    }

    #[test]
    fn a_clock_that_is_put_right_again_leaves_an_hour_to_wait_for_at_most() {
        let year = 8_760 * HOUR;
        let mut machine = Machine::start(BEGIN, 0);
        let before = machine.passes(0);
        machine.wall += year;
        assert_eq!(machine.passes(0), before + HOUR);
        machine.wall -= year;
        assert_eq!(machine.passes(2 * HOUR), before + 2 * HOUR);
        assert_eq!(machine.passes(SECOND), machine.wall);
    }

    #[test]
    fn a_start_goes_on_after_the_log_and_after_the_time_that_the_process_was_down() {
        let mut machine = Machine::start(BEGIN + 100 * HOUR, BEGIN);
        assert_eq!(machine.passes(0), BEGIN + 100 * HOUR);
        assert_eq!(machine.log_time.take_notice(), Some(Notice::Began(nanos(100 * HOUR))));
        assert_eq!(machine.passes(SECOND), machine.wall);
        assert_eq!(machine.log_time.take_notice(), None, "once");

        let mut machine = Machine::start(BEGIN, 0);
        assert_eq!(machine.passes(0), BEGIN);
        assert_eq!(machine.log_time.take_notice(), None, "a new log has no command");

        let mut machine = Machine::start(BEGIN, BEGIN + HOUR);
        assert_eq!(machine.passes(0), BEGIN + HOUR, "the clock was set back meanwhile");
        assert_eq!(machine.log_time.take_notice(), Some(Notice::Ahead(nanos(HOUR))));
        assert_eq!(machine.passes(10 * SECOND), BEGIN + HOUR + 5 * SECOND);
    }

    #[test]
    fn a_moment_is_due_in_its_time_or_in_twice_its_time() {
        let mut machine = Machine::start(BEGIN, 0);
        let now = machine.passes(0);
        assert_eq!(machine.log_time.due(nanos(now + SECOND)), nanos(machine.time + SECOND));
        assert_eq!(machine.log_time.due(nanos(now - SECOND)), nanos(machine.time));
        machine.wall -= HOUR;
        let now = machine.passes(0);
        assert_eq!(machine.log_time.due(nanos(now + SECOND)), nanos(machine.time + 2 * SECOND));
        assert_eq!(machine.log_time.due(Nanos(u64::MAX)), Nanos(u64::MAX));
    }

    proptest! {
        /// The bounds of the advance hold after any steps.
        #[test]
        fn it_never_stands_and_never_jumps_far(
            steps in prop::collection::vec((0..90 * SECOND, -5 * HOUR..5 * HOUR), 1..60),
        ) {
            let mut machine = Machine::start(BEGIN + 1_000 * HOUR, 0);
            let mut last = machine.passes(0);
            // What it went forward beyond the time that passed, and when.
            let mut jumps: Vec<(i64, i64)> = Vec::new();
            for (passed, step) in steps {
                machine.wall += step;
                let now = machine.passes(passed);
                prop_assert!(now - last >= passed / 2, "{now} {passed} after {last}");
                prop_assert!(now <= machine.wall.max(last + passed));
                if now - last - passed >= STEP_MIN.cast_signed() {
                    jumps.push((machine.time, now - last - passed));
                }
                let pause = JUMP_PAUSE.0.cast_signed();
                let recent = jumps.iter().filter(|(at, _)| machine.time - at < pause);
                let sum: i64 = recent.map(|(_, by)| by).sum();
                prop_assert!(sum <= JUMP_MAX.0.cast_signed(), "{sum} within a minute");
                last = now;
            }
        }
    }
}
