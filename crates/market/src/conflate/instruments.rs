//! The instruments of a `Fanout`: their symbols, and the order in which they were defined.
//!
//! Subscriptions to many instruments follow that order: each has a position, in front of which it
//! includes all instruments that it matches. So an instrument that is defined later is one more
//! place to look at, for each subscription at its own time.
//!
//! INVARIANT: an instrument has one current place in the order. A place whose instrument was
//! defined anew or forgotten is empty.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use weir_feed::instrument::SymbolText;
use weir_types::InstrumentId;

use super::slot::NONE;
use super::subscription::Pattern;
use crate::plant::{self, Plant};

/// The number of symbols in a chunk of the index at which it is divided.
const CHUNK_LEN_MAX: usize = 512;
/// The number of empty places that are worth no compaction.
const EMPTY_MIN: usize = 1_024;

/// Instruments by number, by symbol and in the order of their definitions.
#[derive(Clone, Debug, Default)]
pub(super) struct Instruments {
    symbols: Vec<Option<SymbolText>>,
    numbers: HashMap<SymbolText, InstrumentId, FxBuildHasher>,
    /// The order of definitions.
    order: Vec<InstrumentId>,
    /// The current places in it, by instrument.
    places: Vec<u32>,
    index: SymbolIndex,
}

impl Instruments {
    pub(super) fn symbol_of(&self, id: InstrumentId) -> Option<SymbolText> {
        self.symbols.get(id.0 as usize).copied().flatten()
    }

    pub(super) fn number_of(&self, symbol: &SymbolText) -> Option<InstrumentId> {
        self.numbers.get(symbol).copied()
    }

    /// Adds an instrument, whose number and symbol nothing has.
    pub(super) fn add(&mut self, id: InstrumentId, symbol: SymbolText) {
        let index = id.0 as usize;
        if self.symbols.len() <= index {
            self.symbols.resize(index + 1, None);
            self.places.resize(index + 1, NONE);
        }
        self.symbols[index] = Some(symbol);
        self.places[index] = u32::try_from(self.order.len()).expect("fewer places than 2^32");
        self.order.push(id);
        self.numbers.insert(symbol, id);
        self.index.insert(symbol);
    }

    /// Removes an instrument; returns false when it is unknown.
    pub(super) fn remove(&mut self, id: InstrumentId) -> bool {
        let symbol = self.symbols.get_mut(id.0 as usize).and_then(Option::take);
        let Some(symbol) = symbol else { return false };
        self.places[id.0 as usize] = NONE;
        self.numbers.remove(&symbol);
        self.index.remove(&symbol);
        true
    }

    /// Returns the number of places in the order.
    pub(super) fn place_count(&self) -> usize {
        self.order.len()
    }

    /// Returns the instrument at a place, if the place is not empty.
    pub(super) fn at(&self, place: usize) -> Option<(InstrumentId, SymbolText)> {
        let id = *self.order.get(place)?;
        let is_current =
            self.places[id.0 as usize] as usize == place || plant::is(Plant::OldPlaceFollowed);
        self.symbol_of(id).filter(|_| is_current).map(|symbol| (id, symbol))
    }

    /// Returns the number of instruments that a pattern includes; an unknown symbol counts as one.
    pub(super) fn count(&self, pattern: &Pattern) -> usize {
        match pattern {
            Pattern::Symbol(_) => 1,
            Pattern::Prefix(prefix) => self.index.count(prefix),
            Pattern::All => self.numbers.len(),
        }
    }

    /// Removes the empty places when most are empty. Returns the number of places that stay in
    /// front of each, the end included.
    pub(super) fn compact(&mut self) -> Option<Vec<usize>> {
        if self.order.len() < 2 * self.numbers.len() + EMPTY_MIN {
            return None;
        }
        let mut stay = Vec::with_capacity(self.order.len() + 1);
        let mut kept = 0;
        for place in 0..self.order.len() {
            stay.push(kept);
            if let Some((id, _)) = self.at(place) {
                self.order[kept] = id;
                self.places[id.0 as usize] = kept as u32;
                kept += 1;
            }
        }
        stay.push(kept);
        self.order.truncate(kept);
        Some(stay)
    }
}

/// Symbols in order, in chunks, so that those with a prefix are counted without a look at each.
#[derive(Clone, Debug, Default)]
struct SymbolIndex {
    /// INVARIANT: no chunk is empty.
    chunks: Vec<Vec<SymbolText>>,
}

impl SymbolIndex {
    /// Adds a symbol that is not there.
    fn insert(&mut self, symbol: SymbolText) {
        let after = self.chunks.partition_point(|chunk| chunk[0] <= symbol);
        let Some(chunk) = self.chunks.get_mut(after.saturating_sub(1)) else {
            self.chunks.push(vec![symbol]);
            return;
        };
        let place = chunk.partition_point(|other| *other < symbol);
        chunk.insert(place, symbol);
        if chunk.len() > CHUNK_LEN_MAX {
            let upper = chunk.split_off(CHUNK_LEN_MAX / 2);
            self.chunks.insert(after.max(1), upper);
        }
    }

    fn remove(&mut self, symbol: &SymbolText) {
        let after = self.chunks.partition_point(|chunk| chunk[0] <= *symbol);
        let Some(at) = after.checked_sub(1) else { return };
        let chunk = &mut self.chunks[at];
        if let Ok(place) = chunk.binary_search(symbol) {
            chunk.remove(place);
            if chunk.is_empty() {
                self.chunks.remove(at);
            }
        }
    }

    fn count(&self, prefix: &SymbolText) -> usize {
        let is_before = |symbol: &SymbolText| symbol < prefix;
        let has_prefix = |symbol: &SymbolText| symbol.as_str().starts_with(prefix.as_str());
        self.rank(|symbol| is_before(symbol) || has_prefix(symbol)) - self.rank(is_before)
    }

    /// The number of symbols in front of the first one that is not `in_front`.
    fn rank(&self, in_front: impl Fn(&SymbolText) -> bool) -> usize {
        let is_whole = |chunk: &Vec<SymbolText>| chunk.last().is_some_and(&in_front);
        let whole = self.chunks.partition_point(is_whole);
        let part = self.chunks.get(whole).map_or(0, |chunk| chunk.partition_point(&in_front));
        self.chunks[..whole].iter().map(Vec::len).sum::<usize>() + part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(text: &str) -> SymbolText {
        SymbolText::new(text.as_bytes()).expect("a symbol")
    }

    /// More symbols than fit a chunk, in an order of no use: 0 to 1,999 in base 26.
    fn symbols() -> impl Iterator<Item = SymbolText> {
        (0..2_000_u32).map(|number| {
            let number = number * 7 % 2_000;
            let letter = |of: u32| char::from(b'A' + (of % 26) as u8);
            let text: String = [number / 676, number / 26, number].map(letter).iter().collect();
            symbol(text.trim_start_matches('A').get(..).filter(|t| !t.is_empty()).unwrap_or("A"))
        })
    }

    #[test]
    fn instruments_of_a_prefix_are_counted_as_one_by_one() {
        let mut instruments = Instruments::default();
        let mut known: Vec<SymbolText> = Vec::new();
        for (id, symbol) in (1..).map(InstrumentId).zip(symbols()) {
            if instruments.number_of(&symbol).is_none() {
                instruments.add(id, symbol);
                known.push(symbol);
            }
        }
        assert!(instruments.index.chunks.len() > 2, "the index was divided");
        for round in 0..2 {
            for text in ["A", "B", "BC", "C", "CZ", "CZZ", "Z", "ZZ", "0"] {
                let prefix = symbol(text);
                let one_by_one = known.iter().filter(|one| one.as_str().starts_with(text)).count();
                assert_eq!(instruments.count(&Pattern::Prefix(prefix)), one_by_one, "{text}");
            }
            assert_eq!(instruments.count(&Pattern::All), known.len());
            let gone: Vec<SymbolText> = known.iter().copied().skip(round).step_by(3).collect();
            for symbol in &gone {
                let id = instruments.number_of(symbol).expect("it is known");
                assert!(instruments.remove(id) && !instruments.remove(id));
            }
            known.retain(|symbol| !gone.contains(symbol));
        }
    }

    #[test]
    fn an_instrument_that_is_defined_anew_has_a_later_place_and_one_alone() {
        let mut instruments = Instruments::default();
        let (first, second) = (InstrumentId(1), InstrumentId(2));
        instruments.add(first, symbol("A"));
        instruments.add(second, symbol("B"));
        assert!(instruments.remove(first));
        instruments.add(first, symbol("C"));
        let places: Vec<_> = (0..4).map(|place| instruments.at(place)).collect();
        let want = [None, Some((second, symbol("B"))), Some((first, symbol("C"))), None];
        assert_eq!(places, want);
        assert_eq!(instruments.compact(), None, "a few empty places are worth nothing");
    }

    #[test]
    fn a_compaction_keeps_the_order_and_says_where_each_place_went() {
        let mut instruments = Instruments::default();
        instruments.add(InstrumentId(1), symbol("STAYS"));
        for number in 0..2 * EMPTY_MIN {
            let _is_known = instruments.remove(InstrumentId(2));
            instruments.add(InstrumentId(2), symbol(&format!("N{number}")));
        }
        let stay = instruments.compact().expect("most places are empty");
        assert_eq!((stay[0], stay[1], stay[2]), (0, 1, 1));
        assert_eq!(stay.last(), Some(&2));
        assert_eq!(instruments.at(0), Some((InstrumentId(1), symbol("STAYS"))));
        assert_eq!(instruments.at(1).map(|(id, _)| id), Some(InstrumentId(2)));
        assert_eq!((instruments.at(2), instruments.place_count()), (None, 2));
    }
}
