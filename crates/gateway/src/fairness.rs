//! The gateway's scheduling: sessions before strangers, and a limited share of a cycle for each
//! connection.
//!
//! An order waits for at most the cycle in which it arrives, so each part of a cycle is limited. A
//! busy connection gets a share of a cycle's messages that shrinks with the number of recently
//! active connections, not with the number of connected ones: alone it is read in large pieces,
//! next to others in small ones. Connections without a session, arrivals and deadlines are served a
//! few at a time, when no orders were read or after these were answered, and at most
//! [`PASSED_OVER_MAX`] cycles late. A session with a rate limit that keeps exceeding it by far is
//! not read faster than it can be refused ([`Pace`]): each refusal is an entry in the log and costs
//! as much as an order.

use weir_types::Nanos;

/// Messages taken from one connection in a cycle when no other is active.
const MESSAGES_ALONE: usize = 64;
/// The smallest share.
const MESSAGES_MIN: usize = 8;
/// Messages taken from all sessions' connections in a cycle, as many as a partition takes from its
/// ring; the connection that reaches the limit finishes its share.
pub const MESSAGES_MAX: usize = 256;
/// The minimum time in nanoseconds for which a connection counts as active after its last message.
const SPAN: u64 = 100_000_000;

/// The number of connections without a session read in one cycle.
pub const STRANGERS_MAX: usize = 2;
/// The number of messages taken from each of them.
pub const STRANGER_MESSAGES_MAX: usize = 8;
/// The number of bytes read from each of them: unconsumed bytes are kept, and there may be many
/// such connections.
pub const STRANGER_BYTES_MAX: usize = 2 * 1024;
/// The number of connections admitted in one cycle.
pub const ARRIVALS_MAX: usize = 2;
/// The number of connections whose deadlines are handled in one cycle: a heartbeat is one system
/// call, closing a connection three.
pub const DEADLINES_MAX: usize = 2;
/// The number of orders that a session may send at once at any rate: as many as it may send again
/// after losing its connection.
const BURST: u64 = 1_024;
const SECOND: u64 = 1_000_000_000;
/// The number of consecutive cycles in which only orders are served.
const PASSED_OVER_MAX: u32 = 4;

/// The amount that may be taken from a connection in one cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Messages.
    pub messages: usize,
    /// Bytes read from the socket.
    pub bytes: usize,
}

/// The share of a connection without a session.
pub const OF_A_STRANGER: Share =
    Share { messages: STRANGER_MESSAGES_MAX, bytes: STRANGER_BYTES_MAX };

/// A session's order rate: the generic cell rate algorithm, as in the engines' own throttle, with
/// room for the larger of one second's orders and [`BURST`] at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    arrival: u64,
}

impl Pace {
    /// Returns the state after one more order at `now` of a session that may send `rate_max` per
    /// second (zero for no limit); `None` when the order has to wait.
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

/// Assigns shares of a cycle to connections and decides when non-order work is served.
#[derive(Debug, Default)]
pub struct Fairness {
    /// The span, counted from 1, and the numbers of active connections in it and in the one before.
    span: u64,
    heard: usize,
    heard_before: usize,
    /// The cycle, by its time, and whether it has served non-order work.
    cycle: Nanos,
    are_others_served: bool,
    passed_over: u32,
}

impl Fairness {
    /// Records the cycle of `now`; returns true when it is a new one.
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

    /// Records that a connection was active; `heard_in` is its own mark.
    pub fn heard(&mut self, heard_in: &mut u64) {
        if std::mem::replace(heard_in, self.span) != self.span {
            self.heard += 1;
        }
    }

    /// Returns the share of a connection with a session.
    #[must_use]
    pub fn share(&self) -> Share {
        let others = self.heard.max(self.heard_before).max(1);
        Share { messages: (MESSAGES_ALONE / others).max(MESSAGES_MIN), bytes: usize::MAX }
    }

    /// Returns true when non-order work is to be served; `has_orders` is true when orders were just
    /// submitted.
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
        let mut messages = |at: u64, speakers: usize| {
            assert!(fairness.is_new_cycle(Nanos(at)));
            marks[..speakers].iter_mut().for_each(|mark| fairness.heard(mark));
            marks[..speakers].iter_mut().for_each(|mark| fairness.heard(mark));
            fairness.share().messages
        };
        assert_eq!(messages(SPAN, 1), 64);
        assert_eq!(messages(SPAN + 1, 4), 16);
        // The previous span counts as long as it had more active connections than this one.
        assert_eq!(messages(2 * SPAN, 1), 16);
        assert_eq!(messages(2 * SPAN + 1, 100), 8);
        assert_eq!(messages(3 * SPAN, 0), 8);
        assert_eq!(messages(4 * SPAN, 1), 64);
        assert_eq!(messages(4 * SPAN + 1, 2), 32);
        // A long pause without any cycle.
        assert_eq!(messages(9 * SPAN, 1), 64);
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
        // One second's orders where that is more than a burst.
        assert_eq!(taken(&mut Pace::default(), 5_000, Nanos(SECOND)), 5_000);
    }

    #[test]
    fn others_are_served_once_a_cycle_after_the_orders_and_not_put_off_for_ever() {
        let mut fairness = Fairness::default();
        assert!(fairness.is_new_cycle(Nanos(1)));
        assert!(!fairness.is_turn_of_others(true));
        // The same cycle again, after the partitions on the thread have answered.
        assert!(!fairness.is_new_cycle(Nanos(1)));
        assert!(fairness.is_turn_of_others(false));
        assert!(!fairness.is_turn_of_others(false));
        // The gateway has its own thread, and every cycle has orders.
        let turns: Vec<bool> = (2..12)
            .map(|now| fairness.is_new_cycle(Nanos(now)) && fairness.is_turn_of_others(true))
            .collect();
        let first = PASSED_OVER_MAX as usize;
        assert_eq!(turns.iter().position(|turn| *turn), Some(first));
        assert_eq!(turns.iter().filter(|turn| **turn).count(), 10 / (first + 1));
    }
}
