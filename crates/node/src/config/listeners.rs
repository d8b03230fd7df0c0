//! The addresses that a node listens on, with the keys that set them.
//!
//! Two sockets of one node can never have one address. The configuration is refused then, since the
//! system's own error reads as if another process had the address. A listener that takes keys is
//! refused where other machines reach it without TLS.

use std::net::SocketAddr;

use weir_runtime::ConfigError;

use super::Config;

/// The keys of listeners with a logon that `[tls]` makes secret. `web` has a rule of its own.
const WITH_KEYS: [&str; 5] =
    ["listen", "link.listen", "ingest.listen", "subscriptions.listen", "market_gateway.listen"];

/// An address that a node listens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The key in the configuration.
    pub key: &'static str,
    /// The address.
    pub address: SocketAddr,
    /// True for datagrams, whose ports are not those of connections.
    is_udp: bool,
    takes: Takes,
}

/// The secrets that come to a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Nothing,
    /// Keys, and with `[tls]` through TLS.
    Keys,
    /// A password, always in clear.
    Password,
}

impl Listener {
    fn tcp(key: &'static str, address: SocketAddr) -> Listener {
        let takes = if WITH_KEYS.contains(&key) { Takes::Keys } else { Takes::Nothing };
        Listener { key, address, is_udp: false, takes }
    }

    /// Returns true if the two cannot be open at the same time.
    fn excludes(&self, other: &Listener) -> bool {
        let (one, two) = (self.address, other.address);
        let is_any = one.ip().is_unspecified() || two.ip().is_unspecified();
        let is_one_family = one.is_ipv4() == two.is_ipv4();
        self.is_udp == other.is_udp
            && one.port() != 0
            && one.port() == two.port()
            && (one.ip() == two.ip() || is_any && is_one_family)
    }
}

impl Config {
    /// Returns the addresses that the node listens on.
    #[must_use]
    pub fn listeners(&self) -> Vec<Listener> {
        let publishers = self.publishers();
        let tcp = [
            ("listen", Some(self.listen)),
            ("http", Some(self.http)),
            ("web.listen", self.web.as_ref().map(|web| web.listen)),
            ("link.listen", self.link.as_ref().map(|link| link.listen)),
            ("ingest.listen", self.ingest.as_ref().map(|ingest| ingest.listen)),
            ("subscriptions.listen", self.subscriptions.as_ref().map(|broker| broker.listen)),
        ];
        let tcp = tcp.into_iter().filter_map(|(key, at)| Some(Listener::tcp(key, at?)));
        let snapshots = publishers.iter().filter_map(|(_, publish)| {
            let has_login = publish.snapshots_username.is_some();
            let takes = if has_login { Takes::Password } else { Takes::Nothing };
            let listener = Listener::tcp("market_publisher.snapshots", publish.snapshots?);
            Some(Listener { takes, ..listener })
        });
        let requests = publishers.iter().map(|(_, publish)| Listener {
            is_udp: true,
            ..Listener::tcp("market_publisher.requests", publish.requests.into())
        });
        tcp.chain(snapshots).chain(requests).chain(self.flush_listeners()).collect()
    }

    /// Returns the listeners of a market-data gateway: each flush thread has the following port.
    fn flush_listeners(&self) -> impl Iterator<Item = Listener> {
        let market = self.market_gateway.as_ref();
        let threads = market.map_or(0, |market| market.flush_threads);
        let first = market.map_or(self.listen, |market| market.listen);
        (0..threads).filter_map(move |index| {
            let mut address = first;
            if first.port() != 0 {
                address.set_port(first.port().checked_add(u16::try_from(index).ok()?)?);
            }
            Some(Listener::tcp("market_gateway.listen", address))
        })
    }

    /// Checks that no two listeners have one address and that none takes keys in clear from other
    /// machines. The command line may have changed addresses and TLS.
    ///
    /// # Errors
    /// [`ConfigError::SameAddress`], [`ConfigError::ClearText`] and [`ConfigError::ClearPassword`].
    pub fn check_listeners(&self) -> Result<(), ConfigError> {
        let all = self.listeners();
        let is_clear = |takes: Takes| match takes {
            Takes::Nothing => false,
            Takes::Keys => self.tls.is_none() && !self.clear_text_allowed,
            Takes::Password => !self.clear_text_allowed,
        };
        for (index, listener) in all.iter().enumerate() {
            if is_clear(listener.takes) && !listener.address.ip().is_loopback() {
                let (key, address) = (listener.key, listener.address);
                return Err(match listener.takes {
                    Takes::Password => ConfigError::ClearPassword { key, address },
                    _ => ConfigError::ClearText { key, address },
                });
            }
            if let Some(other) = all[..index].iter().find(|other| other.excludes(listener)) {
                let (first, second, address) = (other.key, listener.key, listener.address);
                return Err(ConfigError::SameAddress { first, second, address });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    fn check(text: &str) -> Result<(), String> {
        Config::parse(text).unwrap().check_listeners().map_err(|error| error.to_string())
    }

    #[test]
    fn two_listeners_with_one_address_are_refused_by_their_keys() {
        let gateway = "[market_gateway]\nlisten = \"127.0.0.1:7000\"\nflush_threads = 2\n\
                       [market_gateway.feed]\nname = \"itch\"\n\
                       [market_gateway.feed.capture]\nfile = \"x\"\n";
        let cases = [
            ("http = \"127.0.0.1:7001\"\n", "listen and http are both 127.0.0.1:7001"),
            ("http = \"0.0.0.0:7001\"\n", "listen and http are both 0.0.0.0:7001"),
            ("[web]\nlisten = \"127.0.0.1:7080\"\n", "http and web.listen"),
            ("[ingest]\nlisten = \"127.0.0.1:7001\"\n", "listen and ingest.listen"),
            ("[subscriptions]\nlisten = \"127.0.0.1:7080\"\n", "http and subscriptions.listen"),
            (
                "[market_publisher]\ngroup = \"239.0.0.1:1\"\nrequests = \"127.0.0.1:2\"\n\
                 snapshots = \"127.0.0.1:7001\"\n",
                "listen and market_publisher.snapshots",
            ),
            (gateway, "listen and market_gateway.listen are both 127.0.0.1:7001"),
        ];
        for (text, want) in cases {
            let error = check(text).unwrap_err();
            assert!(error.contains(want), "{text}: {error}");
        }
    }

    #[test]
    fn listeners_that_can_be_open_together_are_not_refused() {
        for text in [
            "",
            "listen = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\n",
            "http = \"127.0.0.2:7001\"\n",
            "http = \"[::1]:7001\"\n",
            "[market_publisher]\ngroup = \"239.0.0.1:1\"\nrequests = \"127.0.0.1:7001\"\n",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn a_listener_that_other_machines_reach_takes_no_keys_in_clear() {
        let broker = "[subscriptions]\nlisten = \"10.0.0.1:1\"\n";
        let gateway = "[market_gateway]\nlisten = \"[::]:1\"\nflush_threads = 1\n\
                       [market_gateway.feed]\nname = \"itch\"\n\
                       [market_gateway.feed.capture]\nfile = \"x\"\n";
        let cases = [
            ("listen = \"0.0.0.0:1\"\n", "listen = 0.0.0.0:1"),
            ("[ingest]\nlisten = \"192.168.1.1:1\"\n", "ingest.listen = 192.168.1.1:1"),
            (broker, "subscriptions.listen = 10.0.0.1:1"),
            (gateway, "market_gateway.listen = [::]:1"),
        ];
        for (text, want) in cases {
            let error = check(text).unwrap_err();
            assert!(error.contains(want) && error.contains("[tls]"), "{text}: {error}");
            assert_eq!(check(&format!("clear_text_allowed = true\n{text}")), Ok(()), "{text}");
            let tls = format!("{text}[tls]\ncertificate = \"a\"\nkey = \"b\"\n");
            assert_eq!(check(&tls), Ok(()), "{text}");
        }
    }

    #[test]
    fn a_password_in_clear_is_refused_from_other_machines_with_tls_too() {
        let publish = "[market_publisher]\ngroup = \"239.0.0.1:1\"\nrequests = \"127.0.0.1:2\"\n";
        let login = format!("{publish}snapshots_username = \"u\"\nsnapshots = ");
        let far = format!("{login}\"0.0.0.0:1\"\n");
        for tls in ["", "[tls]\ncertificate = \"a\"\nkey = \"b\"\n"] {
            let error = check(&format!("{far}{tls}")).unwrap_err();
            assert!(error.contains("market_publisher.snapshots = 0.0.0.0:1"), "{error}");
        }
        assert_eq!(check(&format!("clear_text_allowed = true\n{far}")), Ok(()));
        assert_eq!(check(&format!("{login}\"127.0.0.1:1\"\n")), Ok(()));
        assert_eq!(check(&format!("{publish}snapshots = \"0.0.0.0:1\"\n")), Ok(()), "no login");
    }

    #[test]
    fn listeners_without_keys_need_no_tls() {
        for text in [
            "http = \"0.0.0.0:1\"\n",
            "[web]\nlisten = \"0.0.0.0:1\"\nbehind_tls_proxy = true\n",
            "listen = \"[::1]:1\"\n",
            "listen = \"127.8.0.1:1\"\n",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }
}
