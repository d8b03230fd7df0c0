//! The map from a feed's instrument numbers to indices in the books.
//!
//! Feeds number their instruments densely (a stock locate, OPRA's 1.5 million series) or
//! arbitrarily (DBN). Numbers below `DIRECT_MAX` are looked up in an array, others in a map.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use weir_memory::prefetch;
use weir_types::InstrumentId;

/// Numbers below this are looked up in the array.
const DIRECT_MAX: usize = 1 << 22;

/// The mark of a number without an index.
const NOWHERE: u32 = u32::MAX;

/// The indices of instruments.
#[derive(Default)]
pub(crate) struct Directory {
    direct: Vec<u32>,
    others: HashMap<InstrumentId, u32, FxBuildHasher>,
}

impl Directory {
    /// Returns the index of an instrument.
    #[inline]
    pub(crate) fn get(&self, id: InstrumentId) -> Option<u32> {
        match self.direct.get(id.0 as usize) {
            Some(place) => (*place != NOWHERE).then_some(*place),
            None => self.get_other(id),
        }
    }

    #[cold]
    fn get_other(&self, id: InstrumentId) -> Option<u32> {
        self.others.get(&id).copied()
    }

    /// Prefetches the entry that [`Directory::get`] will read.
    #[inline]
    pub(crate) fn prefetch(&self, id: InstrumentId) {
        if let Some(place) = self.direct.get(id.0 as usize) {
            prefetch(place);
        }
    }

    /// Sets the index of an instrument.
    pub(crate) fn insert(&mut self, id: InstrumentId, place: u32) {
        let number = id.0 as usize;
        if number >= DIRECT_MAX {
            self.others.insert(id, place);
            return;
        }
        if number >= self.direct.len() {
            self.direct.resize((number + 1).next_power_of_two(), NOWHERE);
        }
        self.direct[number] = place;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_numbers_are_found() {
        let mut directory = Directory::default();
        let direct_max = DIRECT_MAX as u32;
        let ids = [1, 0, direct_max - 1, direct_max, u32::MAX, 77];
        for (place, id) in (0..).zip(ids) {
            assert_eq!(directory.get(InstrumentId(id)), None);
            directory.insert(InstrumentId(id), place);
        }
        for (place, id) in (0..).zip(ids) {
            assert_eq!(directory.get(InstrumentId(id)), Some(place));
        }
        assert_eq!(directory.get(InstrumentId(2)), None);
    }
}
