//! The retention of a partition's logs: the limits, and the part that may go by them.
//!
//! ```text
//! segments   | s1 | s2 | s3 | s4 | s5 |      oldest first; the newest always stays
//!                      ^         ^
//!                 needed        over the limits up to here
//!            '- removed -'- held -'- retained
//! ```
//!
//! A segment is over the limits when the log from it on has more bytes than it may have, or when
//! its newest entry is older than entries may be. It goes when, besides, nobody needs an entry of
//! it. Both are functions of the log and the places of its readers, so that nothing of a truncation
//! has to survive a crash.

use weir_log::RetainedSegment;
use weir_types::{Nanos, Position};

use crate::log_time::{JUMP_MAX, JUMP_PAUSE};
use crate::plant::{self, Plant};

/// The limits of a partition's logs; without any, all is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionLimits {
    /// The maximum size of the command log in bytes.
    pub command_bytes: Option<u64>,
    /// The maximum size of the event log in bytes.
    pub event_bytes: Option<u64>,
    /// The maximum age of an entry of either.
    pub age: Option<Nanos>,
}

impl RetentionLimits {
    /// Returns the limits of the command log.
    #[must_use]
    pub fn of_commands(&self) -> LogLimits {
        LogLimits { bytes: self.command_bytes, age: self.age }
    }

    /// Returns the limits of the event log.
    #[must_use]
    pub fn of_events(&self) -> LogLimits {
        LogLimits { bytes: self.event_bytes, age: self.age }
    }

    /// Returns true when all is kept.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        *self == RetentionLimits::default()
    }
}

/// The limits of one log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogLimits {
    /// The maximum number of bytes.
    pub bytes: Option<u64>,
    /// The maximum age of an entry.
    pub age: Option<Nanos>,
}

/// The times of a look at the retention.
#[derive(Clone, Copy, Debug)]
pub struct RetentionTimes {
    /// The log time of the newest command.
    pub log_time: Nanos,
    /// The time by which log time is ahead of the wall clock.
    pub ahead: Nanos,
    /// The time of the monotonic clock.
    pub now: Nanos,
}

/// The clock against which the age of entries is measured: the log time of the newest command, less
/// the time by which log time is ahead of the wall clock.
///
/// A clock that was set wrong must not remove a log. So beyond the time that passed in this process
/// it goes forward by at most [`JUMP_MAX`] in [`JUMP_PAUSE`], and not in the first [`START_PAUSE`].
#[derive(Debug)]
pub struct RetentionClock {
    /// The latest time that it may have; zero while the log has no entry.
    limit: Nanos,
    read_at: Option<Nanos>,
    may_jump_at: Nanos,
}

/// The time after a start in which a clock that jumped makes no entry older: five minutes.
pub const START_PAUSE: Nanos = Nanos(300_000_000_000);

impl RetentionClock {
    /// Returns the clock of a log whose last entry has this log time.
    #[must_use]
    pub fn after(last: Nanos) -> RetentionClock {
        RetentionClock { limit: last, read_at: None, may_jump_at: Nanos(0) }
    }

    /// Returns the time at a look.
    pub fn at(&mut self, times: RetentionTimes) -> Nanos {
        let RetentionTimes { log_time, ahead, now } = times;
        let told = log_time.since(ahead);
        if plant::is(Plant::AgeByJumpedClock) || log_time == Nanos(0) {
            return log_time;
        }
        let Some(read_at) = self.read_at.replace(now) else {
            self.may_jump_at = Nanos(now.0 + START_PAUSE.0);
            self.limit = if self.limit == Nanos(0) { told } else { self.limit };
            return told.min(self.limit);
        };
        self.limit = Nanos(self.limit.0 + now.since(read_at).0);
        if told > self.limit && now >= self.may_jump_at {
            self.limit = told.min(Nanos(self.limit.0 + JUMP_MAX.0));
            self.may_jump_at = Nanos(now.0 + JUMP_PAUSE.0);
        }
        told.min(self.limit)
    }
}

/// The size of a log, and the parts of it that may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surplus {
    /// Entries before this position may be removed: it begins a segment.
    pub before: Position,
    /// The bytes of the log behind them.
    pub bytes: u64,
    /// Those of these bytes that are over the limits and needed.
    pub held_bytes: u64,
}

/// Returns the part of a log that may go: it is over the limits, and before `needed`.
///
/// # Panics
/// When there is no segment: a log has one.
#[must_use]
pub fn surplus(
    segments: &[RetainedSegment],
    limits: LogLimits,
    needed: Position,
    now: Nanos,
) -> Surplus {
    let newest = segments.last().expect("a log has a segment");
    let mut bytes = segments.iter().map(|segment| segment.bytes).sum::<u64>();
    let mut left = Surplus { before: newest.first_position, bytes, held_bytes: 0 };
    let mut is_needed = false;
    for pair in segments.windows(2) {
        let (segment, next) = (&pair[0], &pair[1]);
        let is_old =
            limits.age.is_some_and(|age| next.log_time_before.0.saturating_add(age.0) <= now.0);
        let is_over = is_old || limits.bytes.is_some_and(|bytes_max| bytes > bytes_max);
        if !is_needed && (!is_over || next.first_position > needed) {
            (left.before, left.bytes) = (segment.first_position, bytes);
            is_needed = true;
        }
        if !is_over {
            return left;
        }
        left.held_bytes += if is_needed { segment.bytes } else { 0 };
        bytes -= segment.bytes;
    }
    if !is_needed {
        left.bytes = bytes;
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: LogLimits = LogLimits { bytes: None, age: None };

    /// Five segments of 100 bytes with ten entries each. The newest entry of each has the time of
    /// its position.
    fn segments() -> Vec<RetainedSegment> {
        let segment = |index: u64| RetainedSegment {
            first_position: Position(1 + 10 * index),
            bytes: 100,
            log_time_before: Nanos(10 * index),
        };
        (0..5).map(segment).collect()
    }

    #[test]
    fn segments_over_the_limits_go_as_far_as_nobody_needs_them() {
        let bytes = |bytes| LogLimits { bytes: Some(bytes), ..NONE };
        let age = |age| LogLimits { age: Some(Nanos(age)), ..NONE };
        let all = u64::MAX;
        for (limits, needed, now, want) in [
            (NONE, all, 1_000, (1, 500, 0)),
            (bytes(500), all, 50, (1, 500, 0)),
            (bytes(499), all, 50, (11, 400, 0)),
            (bytes(300), all, 50, (21, 300, 0)),
            (bytes(0), all, 50, (41, 100, 0)),
            // Position 21 begins the third segment, 20 is the last of the second.
            (bytes(0), 21, 50, (21, 300, 200)),
            (bytes(0), 20, 50, (11, 400, 300)),
            (bytes(300), 20, 50, (11, 400, 100)),
            (bytes(300), 1, 50, (1, 500, 200)),
            (age(30), all, 49, (11, 400, 0)),
            (age(30), all, 50, (21, 300, 0)),
            (age(30), 15, 50, (11, 400, 100)),
            (age(1), all, 1_000, (41, 100, 0)),
            (age(100), all, 50, (1, 500, 0)),
            (LogLimits { bytes: Some(300), age: Some(Nanos(40)) }, all, 50, (21, 300, 0)),
            (LogLimits { bytes: Some(400), age: Some(Nanos(30)) }, all, 50, (21, 300, 0)),
        ] {
            let left = surplus(&segments(), limits, Position(needed), Nanos(now));
            let got = (left.before.0, left.bytes, left.held_bytes);
            assert_eq!(got, want, "{limits:?} {needed} {now}");
        }
    }

    const MINUTE: u64 = 60_000_000_000;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    const LAST: u64 = 20_000 * DAY;
    const YEAR: u64 = 365 * DAY;

    fn times(log_time: u64, ahead: u64, now: u64) -> RetentionTimes {
        RetentionTimes { log_time: Nanos(log_time), ahead: Nanos(ahead), now: Nanos(now) }
    }

    #[test]
    fn the_clock_is_log_time_while_that_goes_as_time_does() {
        let mut clock = RetentionClock::after(Nanos(LAST));
        for minute in 0..200 {
            let now = 7 + minute * MINUTE;
            assert_eq!(clock.at(times(LAST + minute * MINUTE, 0, now)).0, LAST + minute * MINUTE);
        }
        // A weekend without a command: the time passed, though log time was not told.
        let now = 7 + 199 * MINUTE + 2 * DAY;
        assert_eq!(clock.at(times(LAST + 199 * MINUTE, 0, now)).0, LAST + 199 * MINUTE);
        let log_time = LAST + 199 * MINUTE + 2 * DAY;
        assert_eq!(clock.at(times(log_time, 0, now)).0, log_time);
    }

    #[test]
    fn a_clock_that_is_wrong_at_a_start_makes_nothing_old_for_minutes_and_then_slowly() {
        let mut clock = RetentionClock::after(Nanos(LAST));
        assert_eq!(clock.at(times(0, 0, 1)).0, 0, "no command yet");
        let mut last = 0;
        for minute in 0..12 {
            last = clock.at(times(LAST + YEAR, 0, 1 + minute * MINUTE)).0;
            let jumps = (minute + 1).saturating_sub(5);
            assert_eq!(last, LAST + minute * MINUTE + jumps * HOUR, "minute {minute}");
        }
        // The wall clock is put right, and log time goes at half speed from there on.
        for minute in 12..20 {
            let (log_time, wall) = (LAST + YEAR, LAST + minute * MINUTE);
            let time = clock.at(times(log_time, log_time - wall, 1 + minute * MINUTE)).0;
            assert!(time == wall && time < last, "minute {minute}");
        }
    }

    #[test]
    fn a_new_log_has_the_time_of_its_first_command() {
        let mut clock = RetentionClock::after(Nanos(0));
        assert_eq!(clock.at(times(LAST, 0, 1)).0, LAST);
        assert_eq!(clock.at(times(LAST + MINUTE, 0, 1 + MINUTE)).0, LAST + MINUTE);
    }

    #[cfg(feature = "planted")]
    #[test]
    fn the_planted_bug_of_the_clock_is_found() {
        let test = a_clock_that_is_wrong_at_a_start_makes_nothing_old_for_minutes_and_then_slowly;
        assert!(plant::is_found(Plant::AgeByJumpedClock, test));
    }

    #[test]
    fn a_log_of_one_segment_stays() {
        let one = &segments()[..1];
        let limits = LogLimits { bytes: Some(0), age: Some(Nanos(0)) };
        let left = surplus(one, limits, Position(u64::MAX), Nanos(1_000));
        assert_eq!(left, Surplus { before: Position(1), bytes: 100, held_bytes: 0 });
    }
}
