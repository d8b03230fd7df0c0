//! The names of instruments, for rows of tables: as many as memory is meant for.

use std::collections::HashMap;

use weir_feed::{Definition, SymbolText};
use weir_types::InstrumentId;

/// See the file's head.
#[derive(Debug)]
pub(super) struct Names {
    symbols: HashMap<InstrumentId, SymbolText>,
    count_max: usize,
}

impl Names {
    /// None yet, and never more than these.
    pub fn new(count_max: u32) -> Names {
        Names { symbols: HashMap::new(), count_max: count_max as usize }
    }

    /// The name of an instrument from now on; of one more than there is room for it is passed over.
    pub fn define(&mut self, definition: &Definition) {
        let id = definition.instrument_id;
        if self.symbols.len() < self.count_max || self.symbols.contains_key(&id) {
            self.symbols.insert(id, definition.symbol);
        }
    }

    /// An instrument's name, where the feed has said it.
    pub fn of(&self, id: InstrumentId) -> Option<SymbolText> {
        self.symbols.get(&id).copied()
    }
}
