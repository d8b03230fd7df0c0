//! The order keys that a store indexes, as named in the configuration.

use serde::Deserialize;
use weir_delivery::{Kind, Kinds};

/// `"all"`, `"none"`, or a list of `firm`, `account`, `instrument`, `firm+instrument` and
/// `account+instrument`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "IndexNames")]
pub struct Indexes(pub Kinds);

/// The keys by name.
const NAMES: [(&str, Kind); 5] = [
    ("firm", Kind::Firm),
    ("account", Kind::Account),
    ("instrument", Kind::Instrument),
    ("firm+instrument", Kind::FirmInstrument),
    ("account+instrument", Kind::AccountInstrument),
];

#[derive(Deserialize)]
#[serde(untagged)]
enum IndexNames {
    Word(String),
    List(Vec<String>),
}

impl Default for Indexes {
    fn default() -> Indexes {
        Indexes(Kinds::FULL)
    }
}

impl Indexes {
    /// Returns the names for the status page.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        let named = NAMES.iter().filter(|(_, kind)| self.0.contains(*kind));
        named.map(|(name, _)| *name).collect()
    }
}

impl TryFrom<IndexNames> for Indexes {
    type Error = String;

    fn try_from(named: IndexNames) -> Result<Indexes, String> {
        let kind_of = |name: &String| {
            let found = NAMES.iter().find(|(known, _)| known == name);
            found.map(|(_, kind)| *kind).ok_or_else(|| format!("unknown key {name:?} of an index"))
        };
        match named {
            IndexNames::Word(word) if word == "all" => Ok(Indexes(Kinds::FULL)),
            IndexNames::Word(word) if word == "none" => Ok(Indexes(Kinds::NONE)),
            IndexNames::Word(word) => {
                Err(format!("unknown indexes {word:?}: want \"all\", \"none\" or a list of keys"))
            }
            IndexNames::List(names) => {
                let kinds = names.iter().map(kind_of).collect::<Result<Vec<_>, _>>()?;
                Ok(Indexes(kinds.into_iter().fold(Kinds::NONE, Kinds::and)))
            }
        }
    }
}
