//! Deadlines of instruments, in order of time and by instrument: neither the next of all nor the
//! next of one instrument costs a look at the others, however many are due together.
//!
//! INVARIANT: `by_time` and `by_instrument` have the same entries.

use core::ops::{Bound, RangeBounds};
use std::collections::{BTreeMap, BTreeSet};

use weir_types::{InstrumentId, Nanos};

/// Deadlines, each with a note; at most one per instrument and time.
pub(crate) struct Agenda<T> {
    by_time: BTreeMap<(Nanos, InstrumentId), T>,
    by_instrument: BTreeSet<(InstrumentId, Nanos)>,
}

impl<T> Default for Agenda<T> {
    fn default() -> Agenda<T> {
        Agenda { by_time: BTreeMap::new(), by_instrument: BTreeSet::new() }
    }
}

impl<T: Copy> Agenda<T> {
    pub(crate) fn len(&self) -> usize {
        self.by_time.len()
    }

    pub(crate) fn contains(&self, at: Nanos, instrument_id: InstrumentId) -> bool {
        self.by_time.contains_key(&(at, instrument_id))
    }

    /// Adds a deadline, or replaces its note.
    pub(crate) fn put(&mut self, at: Nanos, instrument_id: InstrumentId, note: T) {
        self.by_time.insert((at, instrument_id), note);
        self.by_instrument.insert((instrument_id, at));
    }

    /// Removes the next deadline of an instrument, if it has one.
    pub(crate) fn take_next_of(&mut self, instrument_id: InstrumentId) -> Option<(Nanos, T)> {
        let (at, note) = self.next_of(instrument_id)?;
        self.by_time.remove(&(at, instrument_id));
        self.by_instrument.remove(&(instrument_id, at));
        Some((at, note))
    }

    /// Returns the earliest deadline of all.
    pub(crate) fn next(&self) -> Option<(Nanos, InstrumentId, T)> {
        let ((at, instrument_id), note) = self.by_time.first_key_value()?;
        Some((*at, *instrument_id, *note))
    }

    /// Returns the earliest deadline of an instrument.
    pub(crate) fn next_of(&self, instrument_id: InstrumentId) -> Option<(Nanos, T)> {
        let (id, at) = *self.by_instrument.range((instrument_id, Nanos(0))..).next()?;
        let note = || self.by_time[&(at, instrument_id)];
        (id == instrument_id).then(|| (at, note()))
    }

    /// Returns an instrument's deadlines until `now`, the earliest first.
    pub(crate) fn due_of(
        &self,
        instrument_id: InstrumentId,
        now: Nanos,
    ) -> impl Iterator<Item = Nanos> {
        let due = (instrument_id, Nanos(0))..=(instrument_id, now);
        self.by_instrument.range(due).map(|(_, at)| *at)
    }

    /// Returns the number of deadlines behind `now`, of an instrument or of all.
    pub(crate) fn later_count(&self, instrument_id: Option<InstrumentId>, now: Nanos) -> usize {
        match instrument_id {
            Some(id) => self.by_instrument.range(later_of(id, now)).count(),
            None => self.by_time.range((Bound::Excluded(last_at(now)), Bound::Unbounded)).count(),
        }
    }

    /// Removes the deadlines behind `now`, of an instrument or of all.
    pub(crate) fn clear_later(&mut self, instrument_id: Option<InstrumentId>, now: Nanos) {
        let Some(id) = instrument_id else {
            let is_due = |at: Nanos| at <= now;
            self.by_time.retain(|(at, _), _| is_due(*at));
            return self.by_instrument.retain(|(_, at)| is_due(*at));
        };
        let later: Vec<_> = self.by_instrument.range(later_of(id, now)).copied().collect();
        for (id, at) in later {
            self.by_time.remove(&(at, id));
            self.by_instrument.remove(&(id, at));
        }
    }

    /// Returns all deadlines, the latest first.
    pub(crate) fn latest_first(&self) -> impl Iterator<Item = (Nanos, InstrumentId, T)> {
        self.by_time.iter().rev().map(|((at, instrument_id), note)| (*at, *instrument_id, *note))
    }
}

/// Returns the place behind all deadlines of a time.
fn last_at(now: Nanos) -> (Nanos, InstrumentId) {
    (now, InstrumentId(u32::MAX))
}

/// Returns the range of an instrument's deadlines behind `now`.
fn later_of(id: InstrumentId, now: Nanos) -> impl RangeBounds<(InstrumentId, Nanos)> {
    (Bound::Excluded((id, now)), Bound::Included((id, Nanos(u64::MAX))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares an agenda with a sorted list, step by step.
    #[test]
    fn an_agenda_answers_as_a_sorted_list_does() {
        let mut agenda = Agenda::default();
        let mut list: Vec<(Nanos, InstrumentId, u64)> = Vec::new();
        let mut state: u64 = 1;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for step in 0..20_000 {
            let id = InstrumentId(draw(9) as u32);
            if draw(5) < 3 {
                let at = Nanos(draw(40));
                assert_eq!(
                    agenda.contains(at, id),
                    list.iter().any(|one| (one.0, one.1) == (at, id))
                );
                agenda.put(at, id, step);
                list.retain(|one| (one.0, one.1) != (at, id));
                list.push((at, id, step));
                list.sort_unstable();
            } else {
                let place = list.iter().position(|one| one.1 == id);
                let want = place.map(|place| list.remove(place)).map(|one| (one.0, one.2));
                assert_eq!(agenda.take_next_of(id), want);
            }
            let now = Nanos(draw(41));
            for one in [Some(id), None] {
                let is_later = |row: &&(Nanos, InstrumentId, u64)| {
                    row.0 > now && one.is_none_or(|id| row.1 == id)
                };
                assert_eq!(agenda.later_count(one, now), list.iter().filter(is_later).count());
                if draw(400) == 0 {
                    agenda.clear_later(one, now);
                    list.retain(|row| !is_later(&row));
                }
            }
            let of_id = list.iter().find(|one| one.1 == id).map(|one| (one.0, one.2));
            assert_eq!(agenda.next_of(id), of_id);
            let due = list.iter().filter(|one| one.1 == id && one.0 <= now).map(|one| one.0);
            assert!(agenda.due_of(id, now).eq(due), "{id} until {now}");
            assert_eq!((agenda.next(), agenda.len()), (list.first().copied(), list.len()));
            assert_eq!(agenda.by_instrument.len(), list.len());
        }
        assert!(agenda.latest_first().eq(list.iter().rev().copied()) && !list.is_empty());
    }
}
