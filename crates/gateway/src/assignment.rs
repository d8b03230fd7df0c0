//! The rule by which a new instrument gets its partition, where its definition names none.
//!
//! The control log has the outcome, which no later rule changes: an instrument stays where it is.

use std::fmt;
use std::str::FromStr;

use weir_types::{InstrumentId, PartitionId, Symbol};
use weir_wire::reference::{DefineInstrument, is_change};

/// The instruments that a partition takes: `#7` is that of identifier 7, `ABC` that of the symbol,
/// `AB*` those whose symbols begin with it, `*` all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstrumentPattern {
    /// The instrument of an identifier.
    Id(InstrumentId),
    /// The instrument of a symbol.
    Symbol(Symbol),
    /// The instruments whose symbols begin so.
    Prefix(String),
}

/// The refusal of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no symbol, no beginning of one with * at its end, and no identifier behind #")]
pub struct BadPattern(String);

impl FromStr for InstrumentPattern {
    type Err = BadPattern;

    fn from_str(text: &str) -> Result<InstrumentPattern, BadPattern> {
        let bad = || BadPattern(text.to_owned());
        if let Some(id) = text.strip_prefix('#') {
            let id = id.parse().map(InstrumentId).map_err(|_| bad())?;
            return if id.is_none() { Err(bad()) } else { Ok(InstrumentPattern::Id(id)) };
        }
        let (name, is_prefix) = match text.strip_suffix('*') {
            Some(prefix) => (prefix, true),
            None => (text, false),
        };
        if is_prefix && name.is_empty() {
            return Ok(InstrumentPattern::Prefix(String::new()));
        }
        let is_text = |symbol: &Symbol| symbol.is_valid() && !symbol.is_none();
        let symbol = Symbol::new(name).filter(is_text).filter(|_| !name.contains('*'));
        let symbol = symbol.ok_or_else(bad)?;
        Ok(match is_prefix {
            true => InstrumentPattern::Prefix(name.to_owned()),
            false => InstrumentPattern::Symbol(symbol),
        })
    }
}

impl fmt::Display for InstrumentPattern {
    /// As it is written in a configuration.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InstrumentPattern::Id(id) => write!(f, "#{id}"),
            InstrumentPattern::Symbol(symbol) => write!(f, "{symbol}"),
            InstrumentPattern::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}

impl InstrumentPattern {
    /// Returns how closely the pattern describes the instrument; `None` if it does not match. An
    /// identifier is closest, then a symbol, then a longer beginning of one.
    fn closeness(&self, instrument_id: InstrumentId, symbol: Symbol) -> Option<usize> {
        match self {
            InstrumentPattern::Id(id) => (*id == instrument_id).then_some(usize::MAX),
            InstrumentPattern::Symbol(own) => (*own == symbol).then_some(usize::MAX - 1),
            InstrumentPattern::Prefix(own) => {
                symbol.0.starts_with(own.as_bytes()).then_some(own.len())
            }
        }
    }
}

/// The partitions of new instruments.
#[derive(Clone, Debug, Default)]
pub struct Assignment {
    rules: Vec<(InstrumentPattern, PartitionId)>,
    /// The partition that takes all others.
    rest: Option<PartitionId>,
}

impl Assignment {
    /// Returns the assignment of these patterns; `rest` takes the instruments that none matches.
    #[must_use]
    pub fn new(
        rules: Vec<(InstrumentPattern, PartitionId)>,
        rest: Option<PartitionId>,
    ) -> Assignment {
        Assignment { rules, rest }
    }

    /// Returns the partition for an instrument: that of the closest pattern.
    #[must_use]
    pub fn partition_of(&self, instrument_id: InstrumentId, symbol: Symbol) -> Option<PartitionId> {
        let closeness =
            |rule: &&(InstrumentPattern, PartitionId)| rule.0.closeness(instrument_id, symbol);
        let matching = self.rules.iter().filter(|rule| closeness(rule).is_some());
        let closest = matching.max_by_key(closeness);
        closest.map(|(_, partition_id)| *partition_id).or(self.rest)
    }

    /// Returns a definition that names no partition with one: that in which the instrument stands,
    /// or, of a new one, that of the patterns.
    #[must_use]
    pub fn fill(
        &self,
        definition: DefineInstrument,
        standing: Option<PartitionId>,
    ) -> DefineInstrument {
        if !definition.partition_id.is_none() {
            return definition;
        }
        let by_patterns = || match is_change(definition.fields) {
            true => None,
            false => self.partition_of(definition.instrument_id, definition.symbol),
        };
        let partition_id = standing.or_else(by_patterns).unwrap_or(PartitionId::NONE);
        DefineInstrument { partition_id, ..definition }
    }
}

#[cfg(test)]
mod tests {
    use weir_wire::reference::{NEW, all_fields};

    use super::*;
    use crate::second_protocol::instrument_of;

    fn pattern(text: &str) -> InstrumentPattern {
        text.parse().unwrap()
    }

    #[test]
    fn the_closest_pattern_decides_in_any_order() {
        let mut rules = vec![
            (pattern("*"), PartitionId(1)),
            (pattern("AB*"), PartitionId(2)),
            (pattern("ABC*"), PartitionId(3)),
            (pattern("ABCD"), PartitionId(4)),
            (pattern("#7"), PartitionId(5)),
        ];
        for _ in 0..rules.len() {
            rules.rotate_left(1);
            let assignment = Assignment::new(rules.clone(), None);
            let of = |id, symbol| {
                assignment.partition_of(InstrumentId(id), Symbol::new(symbol).unwrap()).unwrap().0
            };
            let symbols = ["XYZ", "AB", "ABX", "ABC", "ABCE", "ABCD"];
            assert_eq!(symbols.map(|symbol| of(1, symbol)), [1, 2, 2, 3, 3, 4]);
            assert_eq!(of(7, "ABCD"), 5);
        }
    }

    #[test]
    fn an_instrument_that_no_pattern_matches_is_of_the_rest() {
        let rules = vec![(pattern("AB*"), PartitionId(2))];
        let symbol = Symbol::new("XY").unwrap();
        let of = |rest| Assignment::new(rules.clone(), rest).partition_of(InstrumentId(1), symbol);
        assert_eq!([of(None), of(Some(PartitionId(9)))], [None, Some(PartitionId(9))]);
    }

    /// A complete definition of an instrument that exists was sent where its pattern pointed.
    #[test]
    fn a_definition_goes_to_where_the_instrument_stands_before_the_patterns() {
        let assignment = Assignment::new(vec![(pattern("*"), PartitionId(2))], None);
        let (new, standing) = (None, Some(PartitionId(3)));
        let all = all_fields::<DefineInstrument>();
        for (fields, named, stands, want) in [
            (0, 0, new, 2),
            (NEW, 0, new, 2),
            (0, 0, standing, 3),
            (all, 0, standing, 3),
            (all, 0, new, 0),
            (0, 9, standing, 9),
            (all, 9, standing, 9),
        ] {
            let own = instrument_of(InstrumentId(1), Symbol::new("AB").unwrap());
            let partition_id = PartitionId(named);
            let definition = DefineInstrument { fields, partition_id, ..own };
            let filled = assignment.fill(definition, stands);
            assert_eq!(filled.partition_id.0, want, "{fields:#x} {named} {stands:?}");
        }
    }

    #[test]
    fn a_pattern_is_told_as_it_is_written() {
        for text in ["*", "AB*", "ABCD", "#7"] {
            assert_eq!(pattern(text).to_string(), text);
        }
    }

    #[test]
    fn a_bad_pattern_is_refused_with_its_text() {
        for text in ["", "#", "#0", "#x", "A*B", "**", "#4294967296", "A_SYMBOL_THAT_IS_TOO_LONG"] {
            let error = text.parse::<InstrumentPattern>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text:?}")), "{error}");
        }
    }
}
