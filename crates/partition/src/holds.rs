//! The events that readers still need, and the first event that is retained.
//!
//! Each reader of a partition's events registers the record that it reads next; a view whose next
//! start needs earlier ones adds a hold of its own. The shadow, which writes the event log, removes
//! no record from which a reader goes on, and announces the first retained record before it removes
//! those before it.
//!
//! INVARIANT: a hold is registered before the shadow runs, or at a record that another hold keeps.
//! It goes back only by [`Holds::set_back`], which excludes a removal.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The holds of a partition's events. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Holds(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    retained_from: AtomicU64,
    places: Mutex<Vec<Weak<Need>>>,
}

#[derive(Debug)]
struct Need {
    holder: &'static str,
    from: AtomicU64,
}

/// The records that one holder needs: all from a number on, until this is dropped.
#[derive(Debug)]
pub struct Hold(Arc<Need>);

/// The least of the holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeastHold {
    /// The first record that is needed.
    pub from: u64,
    /// The name of the holder.
    pub holder: &'static str,
}

impl Holds {
    /// Keeps all records from `from` on for a holder, which the status names.
    #[must_use]
    pub fn hold(&self, holder: &'static str, from: u64) -> Hold {
        let place = Arc::new(Need { holder, from: AtomicU64::new(from) });
        self.places().push(Arc::downgrade(&place));
        Hold(place)
    }

    /// Returns the least hold, of equal ones the first; `None` when there is none.
    #[must_use]
    pub fn least(&self) -> Option<LeastHold> {
        least_of(&mut self.places())
    }

    /// Announces that records before `first` are removed from now on.
    pub fn retain_from(&self, first: u64) {
        self.decide(|_| (first, ()));
    }

    /// Lets `decide` name the first record that stays, given the least of the holds, and announces
    /// it. No hold is set back meanwhile ([`Holds::set_back`]).
    pub fn decide<T>(&self, decide: impl FnOnce(Option<LeastHold>) -> (u64, T)) -> T {
        let mut places = self.places();
        let (first, decided) = decide(least_of(&mut places));
        // SYNC: a number alone. A reader that does not see it yet finds the record deleted.
        self.0.retained_from.fetch_max(first, Ordering::Relaxed);
        decided
    }

    /// Keeps the records from `from` on, or from the first retained one where that is later, for a
    /// hold of later ones; returns the first that is kept.
    pub fn set_back(&self, hold: &Hold, from: u64) -> u64 {
        let _none_is_removed = self.places();
        let first = from.max(self.retained_from());
        hold.set(first);
        first
    }

    /// Returns the first record that is retained, as far as records were removed in this process;
    /// zero for none.
    #[must_use]
    pub fn retained_from(&self) -> u64 {
        // SYNC: pairs with `retain_from`.
        self.0.retained_from.load(Ordering::Relaxed)
    }

    fn places(&self) -> std::sync::MutexGuard<'_, Vec<Weak<Need>>> {
        self.0.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn least_of(places: &mut Vec<Weak<Need>>) -> Option<LeastHold> {
    places.retain(|place| place.strong_count() > 0);
    let holds = places.iter().filter_map(Weak::upgrade).map(|place| {
        // SYNC: a number alone, and a lower one than the holder's newest only keeps more.
        LeastHold { from: place.from.load(Ordering::Relaxed), holder: place.holder }
    });
    holds.min_by_key(|hold| hold.from)
}

impl Hold {
    /// Keeps the records from `from` on, instead of those of before.
    #[inline]
    pub fn set(&self, from: u64) {
        // SYNC: read by `least`; a number alone.
        self.0.from.store(from, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_hold_counts_until_it_is_dropped() {
        let holds = Holds::default();
        assert_eq!(holds.least(), None);
        let store = holds.hold("store", 7);
        let reader = holds.hold("reader", 5);
        let least = |from, holder| Some(LeastHold { from, holder });
        assert_eq!(holds.clone().least(), least(5, "reader"));
        reader.set(9);
        assert_eq!(holds.least(), least(7, "store"));
        store.set(9);
        assert_eq!(holds.least(), least(9, "store"), "of equal ones the first");
        drop(store);
        assert_eq!(holds.least(), least(9, "reader"));
        drop(reader);
        assert_eq!(holds.least(), None);
    }

    #[test]
    fn the_first_retained_record_never_goes_back() {
        let holds = Holds::default();
        assert_eq!(holds.retained_from(), 0);
        holds.retain_from(40);
        holds.clone().retain_from(30);
        assert_eq!(holds.retained_from(), 40);
    }

    #[test]
    fn a_hold_that_is_set_back_keeps_no_record_that_was_announced_as_gone() {
        let holds = Holds::default();
        let hold = holds.hold("reader", 90);
        holds.decide(|least| (least.unwrap().from, ()));
        assert_eq!(holds.set_back(&hold, 30), 90);
        hold.set(120);
        assert_eq!(holds.set_back(&hold, 100), 100);
        assert_eq!(holds.decide(|least| (0, least.unwrap().from)), 100);
    }
}
