//! One side of a book: its prices in order, each with the slot of its level.
//!
//! A sorted array from the worst price to the best. Most updates are near the best price, which is
//! the array's end: there a search takes a few steps over one or two cache lines, and an insertion
//! moves few entries. A price deep in the book costs a binary search, and moves all better prices.

use weir_types::{Price, Side};

use super::index::Slot;
use weir_memory::prefetch;

/// Levels from the best onwards that a search compares one by one.
const NEAR: usize = 8;

/// A price as ranked by its side, and its level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rung {
    pub(crate) rank: i64,
    pub(crate) level: Slot,
}

/// The levels of a side, the worst first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ladder {
    rungs: Vec<Rung>,
}

/// Returns the rank of a price on its side: a better price has a greater rank.
#[inline]
pub(crate) fn rank_of(side: Side, price: Price) -> i64 {
    match side {
        Side::Buy => price.0,
        // The complement reverses the order and cannot overflow.
        Side::Sell => !price.0,
    }
}

/// Returns the price of a rank.
#[inline]
pub(crate) fn price_of(side: Side, rank: i64) -> Price {
    match side {
        Side::Buy => Price(rank),
        Side::Sell => Price(!rank),
    }
}

impl Ladder {
    pub(crate) fn with_capacity(level_count: usize) -> Ladder {
        Ladder { rungs: Vec::with_capacity(level_count) }
    }

    pub(crate) fn len(&self) -> usize {
        self.rungs.len()
    }

    /// Returns the index of a rank, or the index at which to insert it.
    #[inline]
    pub(crate) fn search(&self, rank: i64) -> Result<usize, usize> {
        let mut at = self.rungs.len();
        let near_end = at.saturating_sub(NEAR);
        while at > near_end {
            let rung = self.rungs[at - 1];
            if rung.rank <= rank {
                return if rung.rank == rank { Ok(at - 1) } else { Err(at) };
            }
            at -= 1;
        }
        self.rungs[..at].binary_search_by_key(&rank, |rung| rung.rank)
    }

    #[inline]
    pub(crate) fn at(&self, index: usize) -> Rung {
        self.rungs[index]
    }

    #[inline]
    pub(crate) fn insert(&mut self, index: usize, rung: Rung) {
        self.rungs.insert(index, rung);
    }

    #[inline]
    pub(crate) fn remove(&mut self, index: usize) {
        self.rungs.remove(index);
    }

    #[inline]
    pub(crate) fn best(&self) -> Option<Rung> {
        self.rungs.last().copied()
    }

    /// Prefetches the best levels.
    #[inline]
    pub(crate) fn prefetch_best(&self) {
        if let Some(rung) = self.rungs.last() {
            prefetch(rung);
        }
    }

    /// Iterates over the levels from the best to the worst.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Rung> {
        self.rungs.iter().rev().copied()
    }

    /// Removes all levels; the memory stays allocated.
    pub(crate) fn clear(&mut self) {
        self.rungs.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_better_price_has_the_greater_rank_to_the_ends_of_the_range() {
        for (worse, better) in [(i64::MIN, i64::MAX), (-1, 0), (0, 1)] {
            let (worse, better) = (Price(worse), Price(better));
            assert!(rank_of(Side::Buy, worse) < rank_of(Side::Buy, better));
            assert!(rank_of(Side::Sell, worse) > rank_of(Side::Sell, better));
            for side in [Side::Buy, Side::Sell] {
                assert_eq!(price_of(side, rank_of(side, worse)), worse);
            }
        }
    }

    #[test]
    fn a_rank_is_found_near_the_best_and_deep_in_the_book() {
        let mut ladder = Ladder::with_capacity(4);
        for rank in (0..100).rev() {
            let at = ladder.search(rank * 2).unwrap_err();
            ladder.insert(at, Rung { rank: rank * 2, level: rank as Slot });
        }
        for rank in 0..100 {
            let at = usize::try_from(rank).unwrap();
            assert_eq!(ladder.search(rank * 2), Ok(at));
            assert_eq!(ladder.search(rank * 2 - 1), Err(at));
            assert_eq!(ladder.at(at).level, rank as Slot);
        }
        assert_eq!(ladder.search(199), Err(100));
        assert_eq!(ladder.best().map(|rung| rung.rank), Some(198));
        assert_eq!(ladder.iter().last().map(|rung| rung.rank), Some(0));
        ladder.remove(99);
        assert_eq!((ladder.len(), ladder.best().map(|rung| rung.rank)), (99, Some(196)));
    }
}
