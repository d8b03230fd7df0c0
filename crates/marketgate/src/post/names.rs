//! The names of instruments for the rows of tables, up to a limit.

use std::collections::HashMap;

use weir_feed::{Definition, SymbolText};
use weir_types::InstrumentId;

/// Maps instruments to their symbols.
#[derive(Debug)]
pub(super) struct Names {
    symbols: HashMap<InstrumentId, SymbolText>,
    count_max: usize,
}

impl Names {
    /// Creates an empty map of at most `count_max` names.
    pub fn new(count_max: u32) -> Names {
        Names { symbols: HashMap::new(), count_max: count_max as usize }
    }

    /// Sets the name of an instrument; ignored for a new instrument beyond the limit.
    pub fn define(&mut self, definition: &Definition) {
        let id = definition.instrument_id;
        if self.symbols.len() < self.count_max || self.symbols.contains_key(&id) {
            self.symbols.insert(id, definition.symbol);
        }
    }

    /// The name of an instrument, if the feed has defined it.
    pub fn of(&self, id: InstrumentId) -> Option<SymbolText> {
        self.symbols.get(&id).copied()
    }
}
