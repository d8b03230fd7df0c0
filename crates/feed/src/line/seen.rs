//! The numbers recently seen on a line, to count its losses although packets may be reordered or
//! duplicated.

/// Words of 64 numbers: a message more than 4,096 numbers late counts as lost.
const WORDS: u64 = 64;
const WORD_BITS: u64 = 64;

/// The last numbers of a line.
// INVARIANT: a word holds the numbers of the newest `WORDS` multiples of 64 up to `top`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    words: [u64; WORDS as usize],
    /// The number after the highest one seen; zero before the first.
    top: u64,
    /// Numbers before this one were never expected.
    start: u64,
}

impl Seen {
    pub(super) const NONE: Seen = Seen { words: [0; WORDS as usize], top: 0, start: 0 };

    /// Records the messages `from..to`, which may be none. Returns how many numbers were skipped,
    /// and how many of the numbers skipped earlier arrived now.
    pub(super) fn note(&mut self, from: u64, to: u64) -> (u64, u64) {
        if self.top == 0 {
            (self.top, self.start) = (from, from);
        }
        let skipped = from.saturating_sub(self.top);
        let filled = self.set(from.max(self.oldest()).max(self.start), to.min(self.top));
        let fresh = from.max(self.top);
        self.advance(to.max(fresh));
        self.set(fresh.max(self.oldest()), to);
        (skipped, filled)
    }

    /// Returns the lowest number that is remembered.
    fn oldest(&self) -> u64 {
        (self.top.saturating_sub(1) / WORD_BITS).saturating_sub(WORDS - 1) * WORD_BITS
    }

    /// Moves the window up to `top`.
    fn advance(&mut self, top: u64) {
        if top <= self.top {
            return;
        }
        let (old, new) = (self.top.saturating_sub(1) / WORD_BITS, (top - 1) / WORD_BITS);
        for word in (old + 1).max(new.saturating_sub(WORDS - 1))..=new {
            self.words[(word % WORDS) as usize] = 0;
        }
        self.top = top;
    }

    /// Marks `from..to`; returns how many were not marked before.
    fn set(&mut self, from: u64, to: u64) -> u64 {
        let (mut cursor, mut fresh) = (from, 0);
        while cursor < to {
            let (word, bit) = (cursor / WORD_BITS, cursor % WORD_BITS);
            let count = (WORD_BITS - bit).min(to - cursor);
            let mask = (u64::MAX >> (WORD_BITS - count)) << bit;
            let place = &mut self.words[(word % WORDS) as usize];
            fresh += u64::from((mask & !*place).count_ones());
            *place |= mask;
            cursor += count;
        }
        fresh
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_missing_is_what_a_set_says(
            start in 1_u64..10_000,
            packets in proptest::collection::vec((0_u64..3_000, 0_u64..150), 1..200),
        ) {
            let (mut seen, mut set, mut missing) = (Seen::NONE, BTreeSet::new(), 0);
            let mut first = None;
            for (at, count) in packets {
                let (from, to) = (start + at, start + at + count);
                let (skipped, filled) = seen.note(from, to);
                missing = missing + skipped - filled;
                let first = *first.get_or_insert(from);
                set.extend(from.max(first)..to);
                let top = set.last().map_or(first, |last| last + 1).max(seen.top);
                prop_assert_eq!(missing, top - first - set.len() as u64);
            }
        }
    }

    #[test]
    fn what_comes_after_all_that_is_remembered_is_not_taken_for_what_was_lost() {
        let mut seen = Seen::NONE;
        assert_eq!(seen.note(1, 2), (0, 0));
        assert_eq!(seen.note(10_000, 10_001), (9_998, 0));
        assert_eq!(seen.note(2, 3), (0, 0), "forgotten");
        assert_eq!(seen.note(9_999, 10_001), (0, 1));
        assert_eq!(seen.note(u64::MAX - 1, u64::MAX), (u64::MAX - 10_002, 0));
        assert_eq!(seen.note(1, u64::MAX).0, 0);
    }
}
