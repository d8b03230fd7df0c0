//! The section `[engine]`: the memory and the limits of the matching engines.

use serde::Deserialize;
use weir_engine::{EngineLimits, LimitError};
use weir_partition::recovery::EngineMemory;
use weir_runtime::ConfigError;

/// The matching engines.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineSection {
    /// The time at which a trading partition's engine allocates its memory: `as-filled` or `ahead`.
    pub memory: EngineMemory,
    /// The limits of its tables.
    pub limits: LimitsSection,
}

/// The limits of the engines' tables, in rows. A start whose limits differ from those of a
/// partition's log sequences a command that sets them; it is refused if the partition holds more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsSection {
    /// The maximum number of accounts of the node, from 1 to 16,777,216.
    pub accounts: u32,
    /// The maximum number of sessions of the node, from 1 to 1,048,576.
    pub sessions: u32,
    /// The maximum number of firms of the node, from 1 to 1,048,576.
    pub firms: u32,
    /// The maximum number of instruments of the node, from 1 to 1,048,576.
    pub instruments: u32,
    /// The maximum number of a partition's live orders, from 1 to 16,777,215.
    pub orders: u32,
    /// The maximum number of a partition's pairs of account and instrument with a position or a
    /// live order, from 1 to 1,073,741,824.
    pub positions: u32,
    /// The maximum number of a partition's trades retained for busts, from 1 to 16,777,216.
    pub trades: u32,
}

impl Default for LimitsSection {
    fn default() -> LimitsSection {
        let EngineLimits {
            accounts_max,
            sessions_max,
            firms_max,
            instruments_max,
            orders_max,
            positions_max,
            trades_max,
        } = EngineLimits::DEFAULT;
        LimitsSection {
            accounts: accounts_max,
            sessions: sessions_max,
            firms: firms_max,
            instruments: instruments_max,
            orders: orders_max,
            positions: positions_max,
            trades: trades_max,
        }
    }
}

impl LimitsSection {
    /// Returns the limits of a trading partition.
    #[must_use]
    pub fn limits(&self) -> EngineLimits {
        EngineLimits {
            accounts_max: self.accounts,
            sessions_max: self.sessions,
            firms_max: self.firms,
            instruments_max: self.instruments,
            orders_max: self.orders,
            positions_max: self.positions,
            trades_max: self.trades,
        }
    }

    /// Checks that each limit is in its range.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let Err(LimitError::OutOfRange { limit, configured, .. }) = self.limits().check_ranges()
        else {
            return Ok(());
        };
        let (key, want) = match limit {
            "accounts" => ("engine.limits.accounts", "1 to 16777216"),
            "sessions" => ("engine.limits.sessions", "1 to 1048576"),
            "firms" => ("engine.limits.firms", "1 to 1048576"),
            "instruments" => ("engine.limits.instruments", "1 to 1048576"),
            "orders" => ("engine.limits.orders", "1 to 16777215"),
            "positions" => ("engine.limits.positions", "1 to 1073741824"),
            _ => ("engine.limits.trades", "1 to 16777216"),
        };
        Err(ConfigError::OutOfRange { key, value: configured.to_string(), want })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn an_engine_takes_its_memory_ahead_where_the_file_says_so() {
        let config = Config::parse("[engine]\nmemory = \"ahead\"\n").unwrap();
        assert_eq!(config.engine.memory, EngineMemory::Ahead);
        assert_eq!(Config::parse("").unwrap().engine.memory, EngineMemory::AsFilled);
        assert!(Config::parse("[engine]\nmemory = \"now\"\n").is_err());
    }

    #[test]
    fn limits_that_the_file_leaves_out_are_those_of_an_engine_without() {
        let limits = |text: &str| Config::parse(text).unwrap().recovery().limits;
        assert_eq!(limits(""), EngineLimits::DEFAULT);
        assert_eq!(limits("[engine.limits]\n"), EngineLimits::DEFAULT);
        let text = "[engine.limits]\naccounts = 1\nsessions = 65_536\norders = 10_000_000\n\
                    positions = 100_000_000\n";
        let expected = EngineLimits {
            accounts_max: 1,
            sessions_max: 65_536,
            orders_max: 10_000_000,
            positions_max: 100_000_000,
            ..EngineLimits::DEFAULT
        };
        assert_eq!(limits(text), expected);
        let text = "[engine.limits]\nfirms = 2\ninstruments = 3\ntrades = 4\n";
        let EngineLimits { firms_max, instruments_max, trades_max, .. } = limits(text);
        assert_eq!([firms_max, instruments_max, trades_max], [2, 3, 4]);
    }

    #[test]
    fn limits_out_of_range_are_named_with_their_range() {
        for (limit, most) in EngineLimits::MAX.named() {
            let error = |value: i64| {
                let text = format!("[engine.limits]\n{limit} = {value}\n");
                Config::parse(&text).map(drop).map_err(|error| error.to_string())
            };
            assert_eq!(error(1), Ok(()));
            assert_eq!(error(most.into()), Ok(()));
            for bad in [0, i64::from(most) + 1] {
                let told = error(bad).unwrap_err();
                let range = format!("1 to {most}");
                assert!(told.contains(&format!("engine.limits.{limit}")), "{told}");
                assert!(told.contains(&range), "{told}");
            }
            assert!(error(-1).unwrap_err().contains(limit));
        }
        assert!(Config::parse("[engine.limits]\nclients = 1\n").is_err());
    }
}
