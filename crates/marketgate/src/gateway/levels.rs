//! The levels of books that changed since they were last sent to the flush threads.
//!
//! Tracks only instruments with interest in levels. A book with too many changed levels is sent
//! whole.

use weir_market::book::LevelChange;
use weir_types::{InstrumentId, Side};

/// The maximum number of changed levels tracked for one book; beyond it the book is sent whole.
const PLACES_MAX: usize = 64;

#[derive(Clone, Debug, Default)]
struct Pending {
    is_wanted: bool,
    is_whole: bool,
    places: Vec<LevelChange>,
}

/// The changed levels of all books.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingLevels {
    by_instrument: Vec<Pending>,
}

impl PendingLevels {
    /// Starts tracking an instrument, whose next book is then sent whole, or stops tracking it.
    pub fn want(&mut self, id: InstrumentId, is_wanted: bool) {
        let index = id.0 as usize;
        if self.by_instrument.len() <= index {
            self.by_instrument.resize_with(index + 1, Pending::default);
        }
        let pending = &mut self.by_instrument[index];
        pending.is_wanted = is_wanted;
        pending.is_whole = is_wanted;
        pending.places.clear();
    }

    /// Makes the next book be sent whole.
    pub fn mark_whole(&mut self, id: InstrumentId) {
        if let Some(pending) = self.by_instrument.get_mut(id.0 as usize) {
            pending.is_whole = pending.is_wanted;
            pending.places.clear();
        }
    }

    /// Records changed levels; keeps the latest state of each.
    pub fn note(&mut self, id: InstrumentId, changed: &[LevelChange]) {
        let Some(pending) = self.by_instrument.get_mut(id.0 as usize) else { return };
        if !pending.is_wanted || pending.is_whole {
            return;
        }
        for change in changed {
            let of = |at: &LevelChange| (at.side == Side::Buy, at.level.price);
            let place = pending.places.iter().position(|known| of(known) == of(change));
            match place {
                Some(place) => pending.places[place] = *change,
                None if pending.places.len() < PLACES_MAX => pending.places.push(*change),
                None => {
                    pending.is_whole = true;
                    pending.places.clear();
                    return;
                }
            }
        }
    }

    /// Passes the changed levels to `tell` and clears them. Returns true, without calling `tell`,
    /// if the whole book is to be sent.
    pub fn take(&mut self, id: InstrumentId, tell: impl FnMut(LevelChange)) -> bool {
        let Some(pending) = self.by_instrument.get_mut(id.0 as usize) else { return true };
        if std::mem::take(&mut pending.is_whole) {
            return true;
        }
        pending.places.drain(..).for_each(tell);
        false
    }
}

#[cfg(test)]
mod tests {
    use weir_market::book::BookLevel;
    use weir_types::{Price, Qty};

    use super::*;

    const ID: InstrumentId = InstrumentId(3);

    fn level(price: i64, size: u64) -> LevelChange {
        let level = BookLevel { price: Price(price), size: Qty(size), order_count: 1 };
        LevelChange { side: Side::Buy, level }
    }

    fn taken(pending: &mut PendingLevels) -> Option<Vec<LevelChange>> {
        let mut told = vec![];
        (!pending.take(ID, |change| told.push(change))).then_some(told)
    }

    #[test]
    fn a_book_is_told_whole_first_and_then_what_changed_once() {
        let mut pending = PendingLevels::default();
        pending.note(ID, &[level(1, 1)]);
        pending.want(ID, true);
        pending.note(ID, &[level(1, 1)]);
        assert_eq!(taken(&mut pending), None);
        pending.note(ID, &[level(1, 1), level(2, 1)]);
        pending.note(ID, &[level(1, 0)]);
        assert_eq!(taken(&mut pending), Some(vec![level(1, 0), level(2, 1)]));
        assert_eq!(taken(&mut pending), Some(vec![]));
    }

    #[test]
    fn too_many_places_are_told_as_the_whole_book() {
        let mut pending = PendingLevels::default();
        pending.want(ID, true);
        assert_eq!(taken(&mut pending), None);
        for price in 0..=PLACES_MAX as i64 {
            pending.note(ID, &[level(price, 1)]);
        }
        assert_eq!(taken(&mut pending), None);
        pending.note(ID, &[level(7, 1)]);
        pending.mark_whole(ID);
        assert_eq!(taken(&mut pending), None);
    }

    #[test]
    fn nothing_is_kept_for_what_nobody_wants() {
        let mut pending = PendingLevels::default();
        pending.want(ID, true);
        pending.want(ID, false);
        pending.note(ID, &[level(1, 1)]);
        assert_eq!(taken(&mut pending), Some(vec![]));
    }
}
