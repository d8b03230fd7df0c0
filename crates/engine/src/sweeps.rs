//! The sweeps in progress, losses and mass cancels each in turn, with an index by their next
//! orders: the end of an order costs no look at the sweeps that are elsewhere.
//!
//! INVARIANT: a session has at most one sweep of a kind. Each sweep is in the turns of its kind
//! once, and in `aimed` if it has a next order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::index::{NIL, Slot};
use crate::sweep::{Sweep, SweepKind};

/// A sweep's session and kind.
type SweepKey = (Slot, SweepKind);

fn key_of(sweep: &Sweep) -> SweepKey {
    (sweep.session, sweep.kind())
}

/// The sweeps in progress.
#[derive(Default)]
pub(crate) struct Sweeps {
    sweeps: BTreeMap<SweepKey, Sweep>,
    /// The lost sessions, the one whose turn is next first.
    loss_turns: VecDeque<Slot>,
    /// The sessions with a mass cancel, likewise.
    asked_turns: VecDeque<Slot>,
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
        self.sweeps.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.sweeps.len()
    }

    fn turns(&mut self, kind: SweepKind) -> &mut VecDeque<Slot> {
        match kind {
            SweepKind::Loss => &mut self.loss_turns,
            SweepKind::MassCancel => &mut self.asked_turns,
        }
    }

    /// Returns true while the orders of a lost session are being ended.
    pub(crate) fn has_lost(&self) -> bool {
        !self.loss_turns.is_empty()
    }

    /// Returns the sessions with a mass cancel.
    pub(crate) fn asked(&self) -> &BTreeSet<Slot> {
        &self.asked
    }

    /// Returns a session's mass cancel.
    pub(crate) fn of_asked(&self, session: Slot) -> Option<Sweep> {
        self.sweeps.get(&(session, SweepKind::MassCancel)).copied()
    }

    /// Returns the sweep of a lost session.
    pub(crate) fn of_lost(&self, session: Slot) -> Option<Sweep> {
        self.sweeps.get(&(session, SweepKind::Loss)).copied()
    }

    /// Returns true if there is a sweep of the same session and kind.
    pub(crate) fn has_same(&self, sweep: &Sweep) -> bool {
        self.sweeps.contains_key(&key_of(sweep))
    }

    /// Returns a sweep whose next order is `slot`.
    pub(crate) fn aimed_at(&mut self, slot: Slot) -> Option<Sweep> {
        let (at, key) = *self.aimed.range((slot, (0, SweepKind::Loss))..).next()?;
        if at != slot {
            return None;
        }
        #[cfg(test)]
        {
            self.looked_at += 1;
        }
        self.sweeps.get(&key).copied()
    }

    /// Returns the losses, then the mass cancels, each with its place in its kind: zero for the one
    /// whose turn is next.
    pub(crate) fn in_turn(&self) -> impl Iterator<Item = (u64, &Sweep)> {
        self.of_kind(SweepKind::Loss).chain(self.of_kind(SweepKind::MassCancel))
    }

    fn of_kind(&self, kind: SweepKind) -> impl Iterator<Item = (u64, &Sweep)> {
        let turns = match kind {
            SweepKind::Loss => &self.loss_turns,
            SweepKind::MassCancel => &self.asked_turns,
        };
        (0..).zip(turns).map(move |(place, session)| (place, &self.sweeps[&(*session, kind)]))
    }

    /// Adds a sweep behind the others of its kind.
    pub(crate) fn push_back(&mut self, sweep: Sweep) {
        self.turns(sweep.kind()).push_back(sweep.session);
        self.add(sweep);
    }

    /// Adds a sweep before the others of its kind.
    pub(crate) fn push_front(&mut self, sweep: Sweep) {
        self.turns(sweep.kind()).push_front(sweep.session);
        self.add(sweep);
    }

    fn add(&mut self, sweep: Sweep) {
        assert!(!self.has_same(&sweep), "a session has one sweep of a kind");
        if !sweep.is_of_lost() {
            self.asked.insert(sweep.session);
        }
        self.put(sweep);
    }

    /// Removes the sweep of a kind whose turn it is.
    pub(crate) fn pop_front(&mut self, kind: SweepKind) -> Option<Sweep> {
        let key = (self.turns(kind).pop_front()?, kind);
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

    /// Reverses the turns of each kind.
    pub(crate) fn reverse(&mut self) {
        self.loss_turns.make_contiguous().reverse();
        self.asked_turns.make_contiguous().reverse();
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
            is_of_kill: false,
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
    fn sweeps_of_a_kind_keep_their_turns_and_are_found_by_session() {
        let mut sweeps = Sweeps::default();
        for (session, request_no) in [(5, 0), (3, 9), (5, 8), (4, 0)] {
            sweeps.push_back(sweep(session, request_no, NIL));
        }
        assert!(sweeps.has_lost() && sweeps.asked().iter().eq(&[3, 5]));
        assert_eq!(sweeps.of_asked(5).map(|one| one.request_no), Some(RequestNo(8)));
        assert!(sweeps.of_lost(5).is_some() && sweeps.of_lost(3).is_none());
        sweeps.put(sweep(3, 9, 77));
        sweeps.push_front(sweep(6, 0, NIL));
        let places = |sweeps: &Sweeps| -> Vec<(u64, Slot, u64)> {
            sweeps.in_turn().map(|(at, one)| (at, one.session, one.request_no.0)).collect()
        };
        let want = [(0, 6, 0), (1, 5, 0), (2, 4, 0), (0, 3, 9), (1, 5, 8)];
        assert_eq!((places(&sweeps), sweeps.len()), (want.to_vec(), 5));
        let mut taken = Vec::new();
        for kind in [SweepKind::Loss, SweepKind::MassCancel] {
            while let Some(one) = sweeps.pop_front(kind) {
                taken.push((one.session, one.request_no.0, one.next));
                assert!(sweeps.aimed_at(77).is_some() == (taken.len() < 4));
            }
            assert!(!sweeps.has_lost());
        }
        assert_eq!(taken, [(6, 0, NIL), (5, 0, NIL), (4, 0, NIL), (3, 9, 77), (5, 8, NIL)]);
        assert!(sweeps.is_empty() && sweeps.asked().is_empty());
    }
}
