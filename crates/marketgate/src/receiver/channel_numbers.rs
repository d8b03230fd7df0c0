//! The numbers of instruments of channels that each number their own: number 1 of one channel is
//! another instrument than that of the next.

use weir_types::InstrumentId;

/// Gives each channel's instruments numbers that no other channel's have. A number stays as it is
/// where it is free, so that the first channel keeps its own mostly; the rest get the lowest free
/// ones, because tables are as long as the highest number.
#[derive(Debug, Default)]
pub(super) struct ChannelNumbers {
    /// By channel, then by its own number: the number here, zero for none yet.
    by_channel: Vec<Vec<u32>>,
    /// True for each number that is given.
    given: Vec<bool>,
    /// All lower numbers are given, or zero.
    lowest: u32,
}

impl ChannelNumbers {
    /// Returns the number of the instrument that `channel` calls `own`. Zero, all of a channel's
    /// instruments, stays zero.
    #[inline]
    pub fn of(&mut self, channel: u32, own: InstrumentId) -> InstrumentId {
        let known = self.by_channel.get(channel as usize).and_then(|all| all.get(own.0 as usize));
        match known {
            _ if own.0 == 0 => own,
            Some(known) if *known != 0 => InstrumentId(*known),
            _ => self.give(channel, own),
        }
    }

    #[cold]
    fn give(&mut self, channel: u32, own: InstrumentId) -> InstrumentId {
        let number = if self.is_given(own.0) { self.lowest_free() } else { own.0 };
        *place(&mut self.given, number) = true;
        let all = place(&mut self.by_channel, channel);
        *place(all, own.0) = number;
        InstrumentId(number)
    }

    fn is_given(&self, number: u32) -> bool {
        self.given.get(number as usize).copied().unwrap_or(false)
    }

    fn lowest_free(&mut self) -> u32 {
        self.lowest = self.lowest.max(1);
        while self.is_given(self.lowest) {
            self.lowest += 1;
        }
        self.lowest
    }
}

/// Returns the place `index` of a table, which grows to have it.
fn place<T: Default + Clone>(table: &mut Vec<T>, index: u32) -> &mut T {
    let index = index as usize;
    if table.len() <= index {
        table.resize(index + 1, T::default());
    }
    &mut table[index]
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_channel_keeps_the_numbers_that_are_free() {
        let mut numbers = ChannelNumbers::default();
        let mut of = |channel, own| numbers.of(channel, InstrumentId(own)).0;
        assert_eq!([of(0, 1), of(0, 2), of(1, 1), of(1, 4), of(0, 3)], [1, 2, 3, 4, 5]);
        assert_eq!([of(0, 1), of(1, 1), of(0, 3), of(1, 0)], [1, 3, 5, 0]);
    }

    proptest! {
        #[test]
        fn each_instrument_has_one_number_that_no_other_has(
            asked in prop::collection::vec((0_u32..4, 1_u32..40), 0..200),
        ) {
            let mut numbers = ChannelNumbers::default();
            let mut model = HashMap::new();
            for place in asked {
                let number = numbers.of(place.0, InstrumentId(place.1));
                prop_assert_ne!(number.0, 0);
                prop_assert_eq!(*model.entry(place).or_insert(number), number);
            }
            let mut given: Vec<_> = model.values().map(|number| number.0).collect();
            given.sort_unstable();
            given.dedup();
            prop_assert_eq!(given.len(), model.len());
        }
    }
}
