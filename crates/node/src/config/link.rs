//! The section `[link]`: the listener to which gateway processes connect; and the rules of the role
//! `gateway`, whose links `[uplink]` names.

use std::net::SocketAddr;

use serde::Deserialize;
use weir_runtime::ConfigError;

use super::{Config, NodeRole};

/// The listener of links.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSection {
    /// The listening address for gateway processes.
    pub listen: SocketAddr,
    /// The time in milliseconds after which the sessions of a gateway that is away are lost.
    #[serde(default = "default_lease_ms")]
    pub lease_ms: u32,
    /// The maximum number of simultaneous connections: each gateway has one to each partition.
    #[serde(default = "default_connections_max")]
    pub connections_max: usize,
}

fn default_lease_ms() -> u32 {
    10_000
}

fn default_connections_max() -> usize {
    256
}

impl LinkSection {
    /// Checks that all values are in range.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`], naming the first that is not.
    pub fn check(&self) -> Result<(), ConfigError> {
        let out = |key, value: String, want| Err(ConfigError::OutOfRange { key, value, want });
        if !(1_000..=3_600_000).contains(&self.lease_ms) {
            return out("link.lease_ms", self.lease_ms.to_string(), "1000 to 3600000");
        }
        if !(1..=65_536).contains(&self.connections_max) {
            return out("link.connections_max", self.connections_max.to_string(), "1 to 65536");
        }
        Ok(())
    }
}

impl Config {
    /// Checks that links fit the role.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`].
    pub(super) fn check_links(&self) -> Result<(), ConfigError> {
        let given =
            |key, want| Err(ConfigError::OutOfRange { key, value: "(given)".to_owned(), want });
        let trades = self.role == NodeRole::Node && !self.follows_own();
        if self.link.is_some() && !trades {
            return given("link", "none where nothing is traded");
        }
        if self.role != NodeRole::Gateway {
            return match self.uplink {
                Some(_) => given("uplink", "none without role = \"gateway\""),
                None => Ok(()),
            };
        }
        let sections = [
            ("partition", !self.partitions.is_empty()),
            ("router", self.router.is_some()),
            ("web", self.web.is_some()),
            ("ingest", self.ingest.is_some()),
            ("replica", self.replica.is_some()),
            ("subscriptions", self.subscriptions.is_some()),
            ("market_gateway", self.market_gateway.is_some()),
            ("market_publisher", self.market_publisher.is_some()),
            ("delivery.cold", self.delivery.cold.is_some()),
        ];
        if let Some((key, _)) = sections.into_iter().find(|(_, is_given)| *is_given) {
            return given(key, "none with role = \"gateway\": it has sessions alone");
        }
        match &self.uplink {
            Some(uplink) => uplink.check(),
            None => {
                let (value, want) = ("(none)".to_owned(), "the links of role = \"gateway\"");
                Err(ConfigError::OutOfRange { key: "uplink", value, want })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    const UPLINK: &str = "[uplink]\nsession = 501\nkey_file = 'key'\n\
                          [[uplink.partition]]\nid = 0\naddress = '127.0.0.1:1'\n\
                          [[uplink.partition]]\nid = 1\naddress = '127.0.0.1:1'\n";

    fn check(text: &str) -> Result<(), String> {
        let config = Config::parse(text).map_err(|error| error.to_string())?;
        config.check_role().map_err(|error| error.to_string())
    }

    #[test]
    fn a_gateway_has_links_and_a_node_has_their_listener() {
        assert_eq!(check(&format!("role = 'gateway'\n{UPLINK}")), Ok(()));
        assert_eq!(check("[link]\nlisten = '127.0.0.1:0'\n"), Ok(()));
    }

    #[test]
    fn a_section_that_does_not_fit_the_role_is_named() {
        let cases = [
            ("role = 'gateway'\n".to_owned(), "uplink"),
            (UPLINK.to_owned(), "uplink"),
            (format!("role = 'gateway'\n[link]\nlisten = '127.0.0.1:0'\n{UPLINK}"), "link"),
            (format!("role = 'gateway'\n[web]\nlisten = '127.0.0.1:0'\n{UPLINK}"), "web"),
            (format!("role = 'gateway'\n{UPLINK}[[partition]]\nid = 1\n"), "partition"),
            ("[link]\nlisten = '127.0.0.1:0'\nlease_ms = 1\n".to_owned(), "link.lease_ms"),
            (
                "[link]\nlisten = '127.0.0.1:0'\nconnections_max = 0\n".to_owned(),
                "link.connections_max",
            ),
        ];
        for (text, named) in cases {
            let said = check(&text).unwrap_err();
            assert!(said.contains(named), "{text}: {said}");
        }
    }
}
