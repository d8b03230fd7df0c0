//! The section `[engine]`: the memory and the limits of the matching engines.

use serde::Deserialize;
use weir_engine::{EngineLimits, LimitError};
use weir_partition::engine_limits::ChosenLimits;
use weir_partition::recovery::EngineMemory;
use weir_runtime::ConfigError;

/// The matching engines.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineSection {
    /// The time at which a trading partition's engine allocates its memory: `as-filled` or `ahead`.
    pub memory: EngineMemory,
    /// The limits of their tables; those that are left out stay as the logs have them.
    pub limits: ChosenLimits,
}

/// Checks that each chosen limit is in its range.
pub(super) fn check(limits: &ChosenLimits) -> Result<(), ConfigError> {
    // The others are those of a log, or of an engine without one.
    let all = limits.over(&EngineLimits::DEFAULT);
    let Err(LimitError::OutOfRange { limit, configured, .. }) = all.check_ranges() else {
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

    /// A start without the section, or by a tool without the file, changes no limit.
    #[test]
    fn limits_that_the_file_leaves_out_are_not_chosen() {
        let limits = |text: &str| Config::parse(text).unwrap().recovery().limits;
        assert_eq!(limits(""), ChosenLimits::default());
        assert_eq!(limits("[engine.limits]\n"), ChosenLimits::default());
        let text = "[engine.limits]\naccounts = 1\nsessions = 65_536\norders = 10_000_000\n\
                    positions = 100_000_000\n";
        let expected = ChosenLimits {
            accounts: Some(1),
            sessions: Some(65_536),
            orders: Some(10_000_000),
            positions: Some(100_000_000),
            ..ChosenLimits::default()
        };
        assert_eq!(limits(text), expected);
        let text = "[engine.limits]\nfirms = 2\ninstruments = 3\ntrades = 4\n";
        let ChosenLimits { firms, instruments, trades, .. } = limits(text);
        assert_eq!([firms, instruments, trades], [Some(2), Some(3), Some(4)]);
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
