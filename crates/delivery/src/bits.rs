//! The live positions of a ring: a bitmap with summary levels, so that the next live position is
//! found in a few words, regardless of the number of dead ones before it.
//!
//! Bit `i` of a level says whether word `i` of the level below has any bit set; the lowest level
//! has one bit per position. A set or clear touches a summary only when a word becomes or ceases to
//! be zero. Rings of up to 64 positions, the most common in a store, are one word.

use crate::chunk::ChunkedArray;

const WORD_BITS: u32 = 6;
const WORD_MASK: u32 = (1 << WORD_BITS) - 1;
/// The levels that 2^32 positions need: the most words that an operation touches on the way up.
#[cfg(test)]
const LEVELS_MAX: u32 = 6;

/// A set of positions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bits {
    /// Positions 0 to 63.
    first: u64,
    /// All other positions, lowest level first; word 0 of the lowest level stays zero. INVARIANT:
    /// the highest level is one word.
    levels: Vec<ChunkedArray<u64>>,
}

impl Bits {
    /// Sets a bit; returns false if it was set already.
    #[inline]
    pub(crate) fn set(&mut self, position: u32) -> bool {
        if position <= WORD_MASK {
            let before = self.first;
            self.first |= 1 << position;
            return self.first != before;
        }
        if self.levels.first().is_none_or(|words| words.len() <= position >> WORD_BITS) {
            self.grow(position);
        }
        let mut at = position;
        for (level, words) in self.levels.iter_mut().enumerate() {
            let word = words.get_mut(at >> WORD_BITS);
            let before = *word;
            *word |= 1 << (at & WORD_MASK);
            if level == 0 && *word == before {
                return false;
            }
            if before != 0 {
                break;
            }
            at >>= WORD_BITS;
        }
        true
    }

    /// Clears a bit; returns false if it was clear already.
    #[inline]
    pub(crate) fn clear(&mut self, position: u32) -> bool {
        if position <= WORD_MASK {
            let before = self.first;
            self.first &= !(1 << position);
            return self.first != before;
        }
        let mut at = position;
        for (level, words) in self.levels.iter_mut().enumerate() {
            if at >> WORD_BITS >= words.len() {
                return false;
            }
            let word = words.get_mut(at >> WORD_BITS);
            let before = *word;
            *word &= !(1 << (at & WORD_MASK));
            if level == 0 && *word == before {
                return false;
            }
            if *word != 0 {
                break;
            }
            at >>= WORD_BITS;
        }
        !self.levels.is_empty()
    }

    fn grow(&mut self, position: u32) {
        let mut last = position;
        for level in 0.. {
            if level == self.levels.len() {
                let mut words = ChunkedArray::new();
                // The level below was the highest one, a single word: bit 0 here summarises it.
                if level > 0 {
                    let below = &self.levels[level - 1];
                    let is_set = |at: u32| u64::from(at < below.len() && *below.get(at) != 0) << at;
                    words.push((0..1 << WORD_BITS).map(is_set).sum());
                }
                self.levels.push(words);
            }
            last >>= WORD_BITS;
            while self.levels[level].len() <= last {
                self.levels[level].push(0);
            }
            if self.levels[level].len() == 1 {
                return;
            }
        }
    }

    /// Returns the first set position at or after `from`.
    #[inline]
    pub(crate) fn next(&self, from: u32) -> Option<u32> {
        self.next_counted(from).0
    }

    /// Does the same as [`Bits::next`] and also returns the number of words read.
    #[inline]
    pub(crate) fn next_counted(&self, from: u32) -> (Option<u32>, u32) {
        if from <= WORD_MASK {
            let word = self.first & (u64::MAX << from);
            if word != 0 {
                return (Some(word.trailing_zeros()), 1);
            }
        }
        self.climb(from.max(WORD_MASK + 1))
    }

    /// Returns the set positions at or after `from` that share a word with the first of them, as
    /// the position of the word's first bit and the word with the bits before `from` cleared; also
    /// returns the number of words read.
    #[inline]
    pub(crate) fn next_word(&self, from: u32) -> (Option<(u32, u64)>, u32) {
        let (found, looked_at) = self.next_counted(from);
        let word = found.map(|at| {
            let word = match self.levels.first() {
                Some(words) if at > WORD_MASK => *words.get(at >> WORD_BITS),
                _ => self.first,
            };
            (at & !WORD_MASK, word & (u64::MAX << (at & WORD_MASK)))
        });
        (word, looked_at)
    }

    fn climb(&self, from: u32) -> (Option<u32>, u32) {
        let (mut at, mut looked_at) = (from, 1);
        for (level, words) in self.levels.iter().enumerate() {
            looked_at += 1;
            if at >> WORD_BITS >= words.len() {
                break;
            }
            let word = words.get(at >> WORD_BITS) & (u64::MAX << (at & WORD_MASK));
            if word != 0 {
                let mut found = at & !WORD_MASK | word.trailing_zeros();
                for below in self.levels[..level].iter().rev() {
                    looked_at += 1;
                    found = found << WORD_BITS | below.get(found).trailing_zeros();
                }
                return (Some(found), looked_at);
            }
            at = (at >> WORD_BITS) + 1;
        }
        (None, looked_at)
    }

    /// Touches the word of a position, to bring it into the cache.
    #[inline]
    pub(crate) fn look(&self, position: u32) -> u64 {
        match self.levels.first() {
            Some(words) if position >> WORD_BITS < words.len() => *words.get(position >> WORD_BITS),
            _ => self.first,
        }
    }

    /// Bytes requested from the allocator.
    #[inline]
    pub(crate) fn reserved_bytes(&self) -> u64 {
        if self.levels.is_empty() {
            return 0;
        }
        let levels = (self.levels.capacity() * size_of::<ChunkedArray<u64>>()) as u64;
        levels + self.levels.iter().map(ChunkedArray::reserved_bytes).sum::<u64>()
    }

    /// True when setting any position up to `position` allocates nothing.
    pub(crate) fn has_room(&self, position: u32) -> bool {
        let is_held = |words: &ChunkedArray<u64>| position >> WORD_BITS < words.len();
        position <= WORD_MASK || self.levels.first().is_some_and(is_held)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_next_position_is_what_a_sorted_set_says() {
        let (mut bits, mut set, mut random) = (Bits::default(), BTreeSet::new(), 99u64);
        for turn in 0..60_000u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Small at first, so that levels are added while some bits are set.
            let bound = [64, 70, 5_000, 300_000][turn as usize / 15_000];
            let position = (random >> 33) as u32 % bound;
            if random >> 62 == 0 {
                assert_eq!(bits.set(position), set.insert(position), "set {position}");
            } else {
                assert_eq!(bits.clear(position), set.remove(&position), "clear {position}");
            }
            let from = (random >> 13) as u32 % bound;
            assert_eq!(bits.next(from), set.range(from..).next().copied(), "from {from}");
        }
    }

    #[test]
    fn a_million_dead_positions_are_passed_in_a_few_words() {
        let mut bits = Bits::default();
        assert!((0..=20_000_000).step_by(1_000_000).all(|position| bits.set(position)));
        for from in (0..20_000_000).step_by(777_777) {
            let (found, looked_at) = bits.next_counted(from);
            assert_eq!(found, Some(from.div_ceil(1_000_000) * 1_000_000));
            assert!(looked_at <= 2 * LEVELS_MAX, "{looked_at} words from {from}");
        }
    }

    #[test]
    fn the_highest_position_has_a_place() {
        let mut bits = Bits::default();
        assert_eq!(bits.next(u32::MAX), None);
        assert!(!bits.clear(70), "nothing is set");
        assert!(bits.set(1 << 24) && bits.has_room(1 << 24));
        assert_eq!((bits.next(0), bits.levels.len()), (Some(1 << 24), 5));
        assert!(bits.clear(1 << 24));
        assert_eq!(bits.next(0), None);
    }
}
