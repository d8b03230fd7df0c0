//! The instruments by their symbols: a definition is refused if another instrument has its symbol,
//! and a restoration defines all of them.
//!
//! The index follows from the definitions: it is in no snapshot and no digest. INVARIANT: each
//! instrument is in it once, by the symbol of its definition, and no two have the same symbol.

use weir_types::{InstrumentId, Symbol};

use crate::index::{Slot, SlotIndex, Table, fold};
use crate::instrument::Instrument;

/// The slots of instruments by symbol.
pub(crate) struct Symbols {
    index: SlotIndex,
    seed: u64,
}

impl Symbols {
    pub(crate) fn new(instruments_max: u32, seed: u64) -> Symbols {
        Symbols { index: SlotIndex::new(instruments_max), seed }
    }

    /// Returns the bytes of an index of so many instruments.
    pub(crate) fn bytes_for(instruments_max: u32) -> u64 {
        SlotIndex::bytes_for(instruments_max)
    }

    fn hash(&self, symbol: Symbol) -> u32 {
        let [head, tail] = [0, 8].map(|from| {
            let half = symbol.0[from..].first_chunk().expect("a symbol has sixteen bytes");
            u64::from_le_bytes(*half)
        });
        fold(head ^ self.seed, tail ^ 0xa076_1d64_78bd_642f) as u32
    }

    /// Returns true if another instrument than `but` has the symbol.
    pub(crate) fn is_taken(
        &self,
        symbol: Symbol,
        but: InstrumentId,
        instruments: &Table<Instrument>,
    ) -> bool {
        let has_it = |slot: Slot| instruments[slot].definition.symbol == symbol;
        let found = self.index.find(self.hash(symbol), has_it);
        found.is_some_and(|slot| instruments[slot].definition.instrument_id != but)
    }

    /// Adds a new instrument.
    pub(crate) fn add(&mut self, symbol: Symbol, slot: Slot) {
        self.index.insert(self.hash(symbol), slot);
    }

    /// Gives an instrument another symbol.
    pub(crate) fn rename(&mut self, slot: Slot, before: Symbol, symbol: Symbol) {
        if before != symbol {
            self.index.remove(self.hash(before), slot);
            self.add(symbol, slot);
        }
    }
}
