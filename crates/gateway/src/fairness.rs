//! Who is served when: sessions before strangers, and nobody more than a share of a cycle.
//!
//! What an order waits for is at most the cycle in which it arrives, so each part of a cycle is
//! bounded. A connection that has as much to say as it likes gets a share of the frames of a cycle
//! that shrinks with the number of those that said something lately, not with those that are
//! connected: alone it is taken in large pieces, beside others in small ones. Whose sessions have
//! left, who is let in, and whose time is over are served a few at a time, when no orders were
//! read or after these were answered, and never more than [`PASSED_OVER_MAX`] times later.
//! A session with a bound on its rate that goes on far beyond it is not read faster than it can be
//! refused ([`Pace`]): each refusal has its place in the log and costs as much as an order.

use weir_types::Nanos;

/// Frames taken from one connection in a cycle when no other says anything.
const FRAMES_ALONE: usize = 64;
/// The least share.
const FRAMES_MIN: usize = 8;
/// Frames taken from all sessions' connections in a cycle, as many as a partition takes from its
/// ring; the connection that reaches it finishes its share.
pub const FRAMES_MAX: usize = 256;
/// A connection counts for its share for at least this time after it said something.
const SPAN: u64 = 100_000_000;

/// Connections that carry no session read in one cycle.
pub const STRANGERS_MAX: usize = 2;
/// Frames taken from each of them.
pub const STRANGER_FRAMES_MAX: usize = 8;
/// Bytes read from each of them: what is left over is kept, and there may be many of them.
pub const STRANGER_BYTES_MAX: usize = 2 * 1024;
/// Connections let in in one cycle.
pub const ARRIVALS_MAX: usize = 2;
/// Connections whose deadlines are dealt with in one cycle: a heartbeat is a system call, a
/// connection that is closed three.
pub const DEADLINES_MAX: usize = 2;
/// Orders that a session may send at once whatever its rate: as many as it may send again after a
/// loss of its connection.
const BURST: u64 = 1_024;
const SECOND: u64 = 1_000_000_000;
/// Cycles in a row in which orders alone were served.
const PASSED_OVER_MAX: u32 = 4;

/// How much may be taken from a connection when it is its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Frames.
    pub frames: usize,
    /// Bytes read from the socket.
    pub bytes: usize,
}

/// What one without a session gets.
pub const OF_A_STRANGER: Share = Share { frames: STRANGER_FRAMES_MAX, bytes: STRANGER_BYTES_MAX };

/// How fast a session's orders come: the generic cell rate algorithm, as the engines' own throttle,
/// with room for a second's worth or [`BURST`] at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    arrival: u64,
}

impl Pace {
    /// The state after one more order at `now` of a session that may send `rate_max` a second,
    /// zero for no bound; nothing when it is to wait.
    #[must_use]
    pub fn after_one_more(self, rate_max: u64, now: Nanos) -> Option<Pace> {
        if rate_max == 0 {
            return Some(self);
        }
        let interval = SECOND / rate_max;
        let arrival = self.arrival.max(now.0).saturating_add(interval);
        let latest = now.0.saturating_add(SECOND.max(BURST * interval));
        (arrival <= latest).then_some(Pace { arrival })
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Fairness {
    /// The span, counted from 1, and how many were heard in it and in the one before.
    span: u64,
    heard: usize,
    heard_before: usize,
    /// The cycle, by its time, and whether it has served the others.
    cycle: Nanos,
    are_others_served: bool,
    passed_over: u32,
}

impl Fairness {
    /// Notes that the cycle of `now` goes on; true when it begins.
    pub fn is_new_cycle(&mut self, now: Nanos) -> bool {
        if self.cycle == now {
            return false;
        }
        (self.cycle, self.are_others_served) = (now, false);
        let span = now.0 / SPAN + 1;
        if span != self.span {
            self.heard_before = if span == self.span + 1 { self.heard } else { 0 };
            (self.span, self.heard) = (span, 0);
        }
        true
    }

    /// Notes that a connection said something; `heard_in` is its own mark.
    pub fn heard(&mut self, heard_in: &mut u64) {
        if std::mem::replace(heard_in, self.span) != self.span {
            self.heard += 1;
        }
    }

    /// What a connection with a session gets.
    #[must_use]
    pub fn share(&self) -> Share {
        let others = self.heard.max(self.heard_before).max(1);
        Share { frames: (FRAMES_ALONE / others).max(FRAMES_MIN), bytes: usize::MAX }
    }

    /// Whether it is the others' turn, where `has_orders` says that orders were just handed over.
    pub fn is_turn_of_others(&mut self, has_orders: bool) -> bool {
        if self.are_others_served {
            return false;
        }
        if has_orders && self.passed_over < PASSED_OVER_MAX {
            self.passed_over += 1;
            return false;
        }
        (self.are_others_served, self.passed_over) = (true, 0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_shrinks_with_those_that_speak_and_grows_again_when_they_are_silent() {
        let mut fairness = Fairness::default();
        let mut marks = [0; 100];
        let mut frames = |at: u64, speakers: usize| {
            assert!(fairness.is_new_cycle(Nanos(at)));
            marks[..speakers].iter_mut().for_each(|mark| fairness.heard(mark));
            marks[..speakers].iter_mut().for_each(|mark| fairness.heard(mark));
            fairness.share().frames
        };
        assert_eq!(frames(SPAN, 1), 64);
        assert_eq!(frames(SPAN + 1, 4), 16);
        // The span before counts as long as this one has heard fewer.
        assert_eq!(frames(2 * SPAN, 1), 16);
        assert_eq!(frames(2 * SPAN + 1, 100), 8);
        assert_eq!(frames(3 * SPAN, 0), 8);
        assert_eq!(frames(4 * SPAN, 1), 64);
        assert_eq!(frames(4 * SPAN + 1, 2), 32);
        // A long silence, in which no cycle was run.
        assert_eq!(frames(9 * SPAN, 1), 64);
    }

    #[test]
    fn orders_beyond_a_burst_come_at_their_rate_and_without_a_bound_at_any() {
        let mut pace = Pace::default();
        let taken = |pace: &mut Pace, rate, at| {
            let one_more = |_: &i32| {
                let after = pace.after_one_more(rate, at);
                *pace = after.unwrap_or(*pace);
                after.is_some()
            };
            (0..9_999).take_while(one_more).count()
        };
        assert_eq!(taken(&mut pace, 0, Nanos(SECOND)), 9_999);
        assert_eq!(taken(&mut pace, 10, Nanos(SECOND)), 1_024);
        assert_eq!(taken(&mut pace, 10, Nanos(2 * SECOND)), 10);
        assert_eq!(taken(&mut pace, 10, Nanos(2 * SECOND + SECOND / 10 - 1)), 0);
        assert_eq!(taken(&mut pace, 10, Nanos(2 * SECOND + SECOND / 10)), 1);
        // A second's worth where that is more.
        assert_eq!(taken(&mut Pace::default(), 5_000, Nanos(SECOND)), 5_000);
    }

    #[test]
    fn others_are_served_once_a_cycle_after_the_orders_and_not_put_off_for_ever() {
        let mut fairness = Fairness::default();
        assert!(fairness.is_new_cycle(Nanos(1)));
        assert!(!fairness.is_turn_of_others(true));
        // The same cycle again, when the partitions on the thread have answered.
        assert!(!fairness.is_new_cycle(Nanos(1)));
        assert!(fairness.is_turn_of_others(false));
        assert!(!fairness.is_turn_of_others(false));
        // A thread of the gateway's own, and orders in every cycle.
        let turns: Vec<bool> = (2..12)
            .map(|now| fairness.is_new_cycle(Nanos(now)) && fairness.is_turn_of_others(true))
            .collect();
        let first = PASSED_OVER_MAX as usize;
        assert_eq!(turns.iter().position(|turn| *turn), Some(first));
        assert_eq!(turns.iter().filter(|turn| **turn).count(), 10 / (first + 1));
    }
}
