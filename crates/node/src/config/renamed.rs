//! Sections by the names that they had before the first release.
//!
//! An old name is an error that says the new one. No old name is read as the new one, so that a
//! file holds each section once.

use weir_runtime::ConfigError;

/// Old and new names of sections; an inner section counts before the one around it.
const RENAMED: [(&[&str], &str); 4] = [
    (&["market"], "market_gateway"),
    (&["market_data", "publish"], "market_publisher"),
    (&["market_data"], "market_publisher"),
    (&["broker"], "subscriptions"),
];

/// Checks that no section has an old name. A text that is no TOML passes: its parser reports it.
pub(super) fn check(text: &str) -> Result<(), ConfigError> {
    let Ok(table) = text.parse::<toml::Table>() else { return Ok(()) };
    for (path, new) in RENAMED {
        let (first, rest) = path.split_first().expect("each path has a name");
        let found = rest.iter().fold(table.get(*first), |found, name| found?.get(*name));
        if found.is_some() {
            return Err(ConfigError::Renamed { old: path.join("."), new });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn a_section_by_its_old_name_is_refused_with_the_new_one() {
        let cases = [
            ("[market]\nlisten = 1", "[market] is named [market_gateway]"),
            ("[market.feed]\nname = \"itch\"", "[market] is named [market_gateway]"),
            ("[market_data.publish]", "[market_data.publish] is named [market_publisher]"),
            ("[market_data]\nx = 1", "[market_data] is named [market_publisher]"),
            ("[broker]\nlisten = \"127.0.0.1:0\"", "[broker] is named [subscriptions]"),
        ];
        for (text, want) in cases {
            let error = Config::parse(text).unwrap_err().to_string();
            assert!(error.contains(want), "{text}: {error}");
        }
    }
}
