//! The sweeps in progress, in turn, with an index by their next orders: the end of an order costs
//! no look at the sweeps that are elsewhere.
//!
//! INVARIANT: a session has at most one sweep of a request and one of its loss. Each sweep is in
//! `turns` once, and in `aimed` if it has a next order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::index::{NIL, Slot};
use crate::sweep::Sweep;

/// A sweep's session, and true for that of the session's loss.
type SweepKey = (Slot, bool);

fn key_of(sweep: &Sweep) -> SweepKey {
    (sweep.session, sweep.is_of_lost())
}

/// The sweeps in progress.
#[derive(Default)]
pub(crate) struct Sweeps {
    sweeps: BTreeMap<SweepKey, Sweep>,
    /// The one whose turn is next first.
    turns: VecDeque<SweepKey>,
    /// The sweeps by their next order.
    aimed: BTreeSet<(Slot, SweepKey)>,
    /// The sessions with a mass cancel.
    asked: BTreeSet<Slot>,
    /// The number of sweeps that were looked at because an order ended.
    #[cfg(test)]
    looked_at: u64,
}

impl Sweeps {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.turns.len()
    }

    /// Returns true while the orders of a lost session are being ended.
    pub(crate) fn has_lost(&self) -> bool {
        self.turns.len() > self.asked.len()
    }

    /// Returns the sessions with a mass cancel.
    pub(crate) fn asked(&self) -> &BTreeSet<Slot> {
        &self.asked
    }

    /// Returns a session's mass cancel.
    pub(crate) fn of_asked(&self, session: Slot) -> Option<Sweep> {
        self.sweeps.get(&(session, false)).copied()
    }

    /// Returns the sweep of a lost session.
    pub(crate) fn of_lost(&self, session: Slot) -> Option<Sweep> {
        self.sweeps.get(&(session, true)).copied()
    }

    /// Returns true if there is a sweep of the same session and kind.
    pub(crate) fn has_same(&self, sweep: &Sweep) -> bool {
        self.sweeps.contains_key(&key_of(sweep))
    }

    /// Returns a sweep whose next order is `slot`.
    pub(crate) fn aimed_at(&mut self, slot: Slot) -> Option<Sweep> {
        let (at, key) = *self.aimed.range((slot, (0, false))..).next()?;
        if at != slot {
            return None;
        }
        #[cfg(test)]
        {
            self.looked_at += 1;
        }
        self.sweeps.get(&key).copied()
    }

    /// Returns the sweeps, the one whose turn is next first.
    pub(crate) fn in_turn(&self) -> impl Iterator<Item = &Sweep> {
        self.turns.iter().map(|key| &self.sweeps[key])
    }

    /// Adds a sweep behind the others.
    pub(crate) fn push_back(&mut self, sweep: Sweep) {
        let key = key_of(&sweep);
        assert!(!self.has_same(&sweep), "a session has one sweep of a kind");
        self.turns.push_back(key);
        if !sweep.is_of_lost() {
            self.asked.insert(sweep.session);
        }
        self.put(sweep);
    }

    /// Removes the sweep whose turn it is.
    pub(crate) fn pop_front(&mut self) -> Option<Sweep> {
        let key = self.turns.pop_front()?;
        let sweep = self.sweeps.remove(&key).expect("each turn is a sweep's");
        self.aimed.remove(&(sweep.next, key));
        if !sweep.is_of_lost() {
            self.asked.remove(&sweep.session);
        }
        Some(sweep)
    }

    /// Stores the new state of a sweep, which keeps its turn.
    pub(crate) fn put(&mut self, sweep: Sweep) {
        let key = key_of(&sweep);
        if let Some(before) = self.sweeps.insert(key, sweep) {
            self.aimed.remove(&(before.next, key));
        }
        if sweep.next != NIL {
            self.aimed.insert((sweep.next, key));
        }
    }

    /// Reverses the turns.
    pub(crate) fn reverse(&mut self) {
        self.turns.make_contiguous().reverse();
    }
}

#[cfg(test)]
mod tests {
    use weir_types::{ClOrdId, Rec, RequestNo};

    use super::*;
    use crate::sweep::SweepScope;

    fn sweep(session: Slot, request_no: u64, next: Slot) -> Sweep {
        Sweep {
            session,
            request_no: RequestNo(request_no),
            cl_ord_id: ClOrdId::NONE,
            scope: SweepScope::Session,
            instrument: NIL,
            bound: Rec(u64::MAX),
            at: session,
            next,
            ended_count: 0,
        }
    }

    #[test]
    fn the_end_of_an_order_looks_only_at_the_sweeps_that_are_at_it() {
        let mut sweeps = Sweeps::default();
        for session in 0..1_000 {
            sweeps.push_back(sweep(session, 0, 10 * session));
        }
        // Another firm's mass cancel is at the first of these orders too.
        sweeps.push_back(sweep(7, 1, 0));
        let mut found = Vec::new();
        for order in 0..10_000 {
            while let Some(mut one) = sweeps.aimed_at(order) {
                found.push((one.session, one.is_of_lost()));
                one.next = NIL;
                sweeps.put(one);
            }
        }
        assert_eq!(sweeps.looked_at, 1_001);
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), 1_001);
    }

    #[test]
    fn sweeps_keep_their_turns_and_are_found_by_session_and_kind() {
        let mut sweeps = Sweeps::default();
        for (session, request_no) in [(5, 0), (3, 9), (5, 8), (4, 0)] {
            sweeps.push_back(sweep(session, request_no, NIL));
        }
        assert!(sweeps.has_lost() && sweeps.asked().iter().eq(&[3, 5]));
        assert_eq!(sweeps.of_asked(5).map(|one| one.request_no), Some(RequestNo(8)));
        assert!(sweeps.of_lost(5).is_some() && sweeps.of_lost(3).is_none());
        sweeps.put(sweep(3, 9, 77));
        let mut taken = Vec::new();
        while let Some(one) = sweeps.pop_front() {
            taken.push((one.session, one.request_no.0, one.next));
            assert!(sweeps.aimed_at(77).is_some() == (taken.len() < 2));
        }
        assert_eq!(taken, [(5, 0, NIL), (3, 9, 77), (5, 8, NIL), (4, 0, NIL)]);
        assert!(sweeps.is_empty() && !sweeps.has_lost() && sweeps.asked().is_empty());
    }
}
