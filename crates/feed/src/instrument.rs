//! Instrument definitions, and the numbering of symbols.
//!
//! A feed that numbers its instruments (ITCH's stock locate) keeps its numbers. For a feed that
//! sends symbols, [`Symbols`] assigns each a number on first sight. Numbers are valid for one feed
//! and one day.

use std::collections::HashMap;
use std::fmt;

use rustc_hash::FxBuildHasher;
use weir_types::{InstrumentId, Price, Qty};

/// Length of the longest symbol in bytes: an OPRA series in OCC's form has 21; DBN's raw symbols
/// may have 71, but those of exchanges have fewer than 24.
pub const SYMBOL_LEN_MAX: usize = 24;

/// A symbol: printable ASCII without a feed's padding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SymbolText {
    bytes: [u8; SYMBOL_LEN_MAX],
    len: u8,
}

impl SymbolText {
    /// Returns the symbol of these bytes, without trailing spaces and zeros; `None` when it is
    /// empty, too long or not printable.
    #[must_use]
    pub fn new(text: &[u8]) -> Option<SymbolText> {
        let end = text.iter().rposition(|byte| !matches!(byte, b' ' | 0))? + 1;
        let text = &text[..end];
        if text.len() > SYMBOL_LEN_MAX || !text.iter().all(|byte| (b' '..=b'~').contains(byte)) {
            return None;
        }
        let mut bytes = [0; SYMBOL_LEN_MAX];
        bytes[..text.len()].copy_from_slice(text);
        Some(SymbolText { bytes, len: text.len() as u8 })
    }

    /// Returns the symbol as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.bytes[..usize::from(self.len)]).expect("it is printable ASCII")
    }
}

impl fmt::Display for SymbolText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SymbolText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// The description of an instrument that a feed sends before it trades.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The number of the instrument.
    pub instrument_id: InstrumentId,
    /// The symbol of the instrument.
    pub symbol: SymbolText,
    /// Shares of a round lot; zero when the feed does not state it.
    pub round_lot: Qty,
    /// The previous day's closing price, in 10^-9; `None` when the feed does not state it.
    pub previous_close: Option<Price>,
}

/// Assigned numbers for the symbols of a feed without numbers, from 1 in order of appearance.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    numbers: HashMap<SymbolText, InstrumentId, FxBuildHasher>,
    names: Vec<SymbolText>,
}

impl Symbols {
    /// Creates an empty numbering.
    #[must_use]
    pub fn new() -> Symbols {
        Symbols::default()
    }

    /// Returns the number of a symbol, and whether it is new.
    ///
    /// # Panics
    /// Panics at 2^32 - 1 symbols.
    pub fn number_of(&mut self, symbol: SymbolText) -> (InstrumentId, bool) {
        if let Some(number) = self.numbers.get(&symbol) {
            return (*number, false);
        }
        self.names.push(symbol);
        let number = u32::try_from(self.names.len()).expect("fewer symbols than 2^32");
        self.numbers.insert(symbol, InstrumentId(number));
        (InstrumentId(number), true)
    }

    /// Returns the number of a known symbol.
    #[must_use]
    pub fn get(&self, symbol: &SymbolText) -> Option<InstrumentId> {
        self.numbers.get(symbol).copied()
    }

    /// Returns the symbol of a number.
    #[must_use]
    pub fn name_of(&self, number: InstrumentId) -> Option<&SymbolText> {
        self.names.get((number.0 as usize).checked_sub(1)?)
    }

    /// Returns the number of symbols.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns true without any symbol.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_loses_its_padding_and_nothing_else() {
        for (text, want) in [
            (&b"AAPL    "[..], Some("AAPL")),
            (b"BRK A\0\0\0", Some("BRK A")),
            (b"Z", Some("Z")),
            (b"        ", None),
            (b"", None),
            (b"A\x01B", None),
            (b"ABCDEFGHIJKLMNOPQRSTUVWXY", None),
        ] {
            assert_eq!(SymbolText::new(text).as_ref().map(SymbolText::as_str), want, "{text:?}");
        }
    }

    #[test]
    fn symbols_are_numbered_from_one_as_they_come() {
        let mut symbols = Symbols::new();
        let name = |text: &str| SymbolText::new(text.as_bytes()).expect("a symbol");
        assert_eq!(symbols.number_of(name("B")), (InstrumentId(1), true));
        assert_eq!(symbols.number_of(name("A")), (InstrumentId(2), true));
        assert_eq!(symbols.number_of(name("B")), (InstrumentId(1), false));
        assert_eq!(symbols.get(&name("A")), Some(InstrumentId(2)));
        assert_eq!(symbols.get(&name("C")), None);
        assert_eq!(symbols.name_of(InstrumentId(2)), Some(&name("A")));
        assert_eq!(symbols.name_of(InstrumentId(0)), None);
        assert_eq!((symbols.len(), symbols.is_empty()), (2, false));
    }
}
