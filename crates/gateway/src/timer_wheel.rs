//! A hashed timer wheel: one deadline for each key.
//!
//! A deadline is in the list of its tick; ticks of different turns share a list. Setting, moving
//! and cancelling take constant time, and a deadline that is not due is examined once per turn. The
//! wheel reads no clock: the caller passes the time.
//!
//! INVARIANT: a key that is set is in exactly one list, that of its tick; `cursor` never decreases;
//! no deadline of a tick before `cursor` waits.

use weir_types::Nanos;

/// A tick's length as a power of two: 2^23 ns are 8.4 ms, the most by which a deadline is late.
const TICK_BITS: u32 = 23;
/// Ticks in a turn, 8.6 s; a power of two.
const TICKS: usize = 1 << 10;
/// No key.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    at: Nanos,
    before: u32,
    after: u32,
    is_set: bool,
}

/// A hashed timer wheel.
#[derive(Debug)]
pub struct TimerWheel {
    heads: Box<[u32]>,
    nodes: Vec<Node>,
    /// The tick whose list is being scanned.
    cursor: u64,
    /// The next node of that list to examine, once the scan has begun.
    next: u32,
    is_begun: bool,
}

impl TimerWheel {
    /// Returns an empty wheel at `now`.
    #[must_use]
    pub fn new(now: Nanos) -> TimerWheel {
        let heads = vec![NONE; TICKS].into_boxed_slice();
        let cursor = now.0 >> TICK_BITS;
        TimerWheel { heads, nodes: Vec::new(), cursor, next: NONE, is_begun: false }
    }

    /// Sets or replaces the deadline of a key. A past deadline is due at the next tick.
    ///
    /// # Panics
    /// When the key is not less than 2^32 - 1: keys are indices in a table.
    pub fn set(&mut self, key: usize, at: Nanos) {
        let place = u32::try_from(key).ok().filter(|place| *place != NONE);
        let place = place.expect("keys are places in a table");
        self.cancel(key);
        if key >= self.nodes.len() {
            let unset = Node { at: Nanos(0), before: NONE, after: NONE, is_set: false };
            self.nodes.resize(key + 1, unset);
        }
        // Nothing is added to the list being scanned, so that the scan ends.
        let at = Nanos(at.0.max((self.cursor + 1) << TICK_BITS));
        let head = &mut self.heads[list_of(at)];
        let after = std::mem::replace(head, place);
        self.nodes[key] = Node { at, before: NONE, after, is_set: true };
        if after != NONE {
            self.nodes[after as usize].before = place;
        }
    }

    /// Sets the deadline of a key like [`TimerWheel::set`], unless it has an earlier one.
    pub fn set_no_later_than(&mut self, key: usize, at: Nanos) {
        if self.deadline_of(key).is_none_or(|set| at < set) {
            self.set(key, at);
        }
    }

    /// Cancels a key's deadline, if it has one.
    pub fn cancel(&mut self, key: usize) {
        let Some(node) = self.nodes.get_mut(key) else { return };
        if !std::mem::take(&mut node.is_set) {
            return;
        }
        let Node { at, before, after, .. } = *node;
        if self.next == key as u32 {
            self.next = after;
        }
        match before {
            NONE => self.heads[list_of(at)] = after,
            before => self.nodes[before as usize].after = after,
        }
        if after != NONE {
            self.nodes[after as usize].before = before;
        }
    }

    /// Returns a key's deadline.
    #[must_use]
    pub fn deadline_of(&self, key: usize) -> Option<Nanos> {
        self.nodes.get(key).filter(|node| node.is_set).map(|node| node.at)
    }

    /// Takes a key whose deadline has passed at `now`, tick by tick.
    pub fn next_due(&mut self, now: Nanos) -> Option<usize> {
        let end = now.0 >> TICK_BITS;
        if self.cursor + (TICKS as u64) < end {
            // More than a turn ago: each list is scanned once.
            self.cursor = end - TICKS as u64;
            self.is_begun = false;
        }
        while self.cursor < end {
            if !std::mem::replace(&mut self.is_begun, true) {
                self.next = self.heads[self.cursor as usize % TICKS];
            }
            while self.next != NONE {
                let key = self.next as usize;
                let node = self.nodes[key];
                self.next = node.after;
                if node.at.0 >> TICK_BITS <= self.cursor {
                    self.cancel(key);
                    return Some(key);
                }
            }
            self.cursor += 1;
            self.is_begun = false;
        }
        None
    }

    /// Returns the next time at which a key may be due: at most the first deadline, and within a
    /// few ticks if there is none so soon.
    #[must_use]
    pub fn look_again_at(&self) -> Nanos {
        const AHEAD: u64 = 16;
        let is_empty = |tick: &u64| self.heads[*tick as usize % TICKS] == NONE;
        let empty = (self.cursor..self.cursor + AHEAD).take_while(is_empty).count() as u64;
        Nanos((self.cursor + empty + 1) << TICK_BITS)
    }
}

fn list_of(at: Nanos) -> usize {
    (at.0 >> TICK_BITS) as usize % TICKS
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const TICK: u64 = 1 << TICK_BITS;
    const KEYS: usize = 24;

    #[derive(Clone, Debug)]
    enum Op {
        Set(usize, u64),
        SetNoLaterThan(usize, u64),
        Cancel(usize),
        /// Time passes and this many keys are taken.
        Take(u64, usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Op>> {
        // Soon, within a turn, and several turns ahead.
        let ahead =
            || prop_oneof![0..3 * TICK, 0..TICK * TICKS as u64, 0..4 * TICK * TICKS as u64].boxed();
        let step = prop_oneof![
            4 => (0..KEYS, ahead()).prop_map(|(key, ahead)| Op::Set(key, ahead)),
            2 => (0..KEYS, ahead()).prop_map(|(key, ahead)| Op::SetNoLaterThan(key, ahead)),
            1 => (0..KEYS).prop_map(Op::Cancel),
            4 => (ahead(), 0..6usize).prop_map(|(ahead, count)| Op::Take(ahead / 2, count)),
        ];
        proptest::collection::vec(step, 1..200)
    }

    proptest! {
        /// Compares with a sorted list: no deadline is returned early or twice, none that is due is
        /// withheld, and none that was moved or cancelled is returned.
        #[test]
        fn deadlines_are_told_as_by_a_sorted_list(steps in steps()) {
            let mut now = 5 * TICK + 17;
            let mut wheel = TimerWheel::new(Nanos(now));
            let mut list: BTreeMap<usize, u64> = BTreeMap::new();
            for step in steps {
                match step {
                    Op::Set(key, ahead) => {
                        wheel.set(key, Nanos(now + ahead));
                        list.insert(key, now + ahead);
                    }
                    Op::SetNoLaterThan(key, ahead) => {
                        // A past deadline counts from the next tick: the two may differ by one.
                        if list.get(&key).is_none_or(|at| now + ahead + TICK < *at) {
                            wheel.set_no_later_than(key, Nanos(now + ahead));
                            list.insert(key, now + ahead);
                        }
                    }
                    Op::Cancel(key) => {
                        wheel.cancel(key);
                        list.remove(&key);
                    }
                    Op::Take(passed, count) => {
                        now += passed;
                        for _ in 0..count {
                            let Some(key) = wheel.next_due(Nanos(now)) else {
                                let late = list.values().filter(|at| **at + 2 * TICK < now);
                                prop_assert_eq!(late.count(), 0);
                                break;
                            };
                            let at = list.remove(&key);
                            prop_assert!(at.is_some_and(|at| at <= now), "{key}: {at:?} at {now}");
                        }
                    }
                }
                let is_known = |k: &usize| wheel.deadline_of(*k).is_some();
                prop_assert!((0..KEYS).filter(is_known).eq(list.keys().copied()));
                if let Some(first) = list.values().min() {
                    let reached = (first / TICK + 2) * TICK;
                    prop_assert!(wheel.look_again_at().0 <= reached.max(now + 2 * TICK));
                }
            }
            now += 10 * TICK * TICKS as u64;
            while let Some(key) = wheel.next_due(Nanos(now)) {
                prop_assert!(list.remove(&key).is_some());
            }
            prop_assert!(list.is_empty(), "{list:?}");
        }
    }

    #[test]
    fn deadlines_of_many_turns_ahead_do_not_end_early() {
        let mut wheel = TimerWheel::new(Nanos(0));
        let turn = TICK * TICKS as u64;
        wheel.set(1, Nanos(3 * turn + 5 * TICK));
        for tick in 0..3 * TICKS as u64 + 5 {
            assert_eq!(wheel.next_due(Nanos(tick * TICK)), None, "at tick {tick}");
        }
        assert_eq!(wheel.next_due(Nanos(3 * turn + 6 * TICK)), Some(1));
        assert_eq!((wheel.next_due(Nanos(4 * turn)), wheel.deadline_of(1)), (None, None));
    }

    #[test]
    fn those_that_are_due_together_are_told_one_by_one_and_new_ones_wait_their_time() {
        let mut wheel = TimerWheel::new(Nanos(0));
        (0..5).for_each(|key| wheel.set(key, Nanos(TICK)));
        let now = Nanos(2 * TICK);
        let mut told: Vec<usize> = (0..3).filter_map(|_| wheel.next_due(now)).collect();
        // One of the remaining keys is cancelled and a returned one is set again, already past.
        let left = (0..5).find(|key| !told.contains(key)).unwrap();
        wheel.cancel(left);
        wheel.set(told[0], Nanos(0));
        told.extend(wheel.next_due(now));
        told.sort_unstable();
        told.dedup();
        assert_eq!((told.len(), told.contains(&left)), (4, false));
        assert_eq!(wheel.next_due(now), None);
        assert_eq!(wheel.next_due(Nanos(4 * TICK)).into_iter().count(), 1);
    }
}
