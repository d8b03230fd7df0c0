//! The section `[router]`: the nodes behind a router, and the session used at each.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;
use weir_client::{Key, SigningKey};
use weir_delivery::BackendRole;
use weir_delivery::token::TOKEN_SOURCES_MAX;
use weir_runtime::ConfigError;
use weir_tls::client::Trust;
use weir_tls::{ClientTls, read_secret_text};
use weir_types::hex::parse_key;
use weir_wire::session::ApiKey;

/// The nodes behind a router and their supervision.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouterSection {
    /// The nodes.
    #[serde(rename = "backend")]
    pub backends: Vec<BackendSection>,
    /// The heartbeat interval in milliseconds; a node that is silent for two and a half of them
    /// counts as lost.
    #[serde(default = "default_heartbeat_ms")]
    pub heartbeat_ms: u32,
    /// The interval at which each store is probed for its newest change, in milliseconds.
    #[serde(default = "default_probe_ms")]
    pub probe_ms: u64,
    /// The lag in changes beyond which a replica is passed over while another store is available.
    #[serde(default = "default_lag_max")]
    pub lag_max: u64,
}

/// A node, and the sources that it serves.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendSection {
    /// The address of its listener for sessions.
    pub address: SocketAddr,
    /// The sources whose orders it keeps: 1 to 65535.
    pub sources: Vec<u16>,
    /// The session that the router logs on with; it must be entitled to all rows.
    pub session: u32,
    /// The file of the session's key, 64 hexadecimal digits.
    pub key_file: PathBuf,
    /// The kind of that key: `api-key` or `ed25519`.
    #[serde(default)]
    pub key_kind: KeyKind,
    /// The relation of its stores to their sources: `master` if the sources feed them, `replica` if
    /// they follow another store.
    #[serde(default)]
    pub role: StoreRole,
    /// True when its stores have secondary keys.
    #[serde(default = "default_indexed")]
    pub indexed: bool,
    /// TLS: the authorities of the node's certificate, a PEM file; without it the connection is
    /// plain.
    pub tls_ca: Option<PathBuf>,
    /// TLS: the name in the node's certificate; its address if absent.
    pub tls_name: Option<String>,
}

/// The kind of a session's key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyKind {
    /// A shared secret, which is sent to the node.
    #[default]
    ApiKey,
    /// The seed of a key pair, which is never sent.
    Ed25519,
}

/// The relation of a node's stores to their sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreRole {
    /// Fed by the source itself.
    #[default]
    Master,
    /// Follows another store.
    Replica,
}

fn default_heartbeat_ms() -> u32 {
    500
}

fn default_probe_ms() -> u64 {
    200
}

fn default_lag_max() -> u64 {
    100_000
}

fn default_indexed() -> bool {
    true
}

impl StoreRole {
    /// Returns the router's own type for the role.
    #[must_use]
    pub fn of_backend(self) -> BackendRole {
        match self {
            StoreRole::Master => BackendRole::Master,
            StoreRole::Replica => BackendRole::Replica,
        }
    }
}

impl RouterSection {
    /// Checks the values that can be checked without files.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`].
    pub fn check(&self) -> Result<(), ConfigError> {
        let out = |key, value: String, want| Err(ConfigError::OutOfRange { key, value, want });
        if self.backends.is_empty() {
            return out("router.backend", "(none)".to_owned(), "at least one");
        }
        if !(100..=60_000).contains(&self.heartbeat_ms) {
            return out("router.heartbeat_ms", self.heartbeat_ms.to_string(), "100 to 60000");
        }
        if !(10..=60_000).contains(&self.probe_ms) {
            return out("router.probe_ms", self.probe_ms.to_string(), "10 to 60000");
        }
        let mut sources: Vec<u16> = Vec::new();
        let mut masters: Vec<u16> = Vec::new();
        for (index, backend) in self.backends.iter().enumerate() {
            if self.backends[..index].iter().any(|other| other.address == backend.address) {
                let address = backend.address.to_string();
                return out("router.backend.address", address, "each node once");
            }
            if backend.sources.is_empty() {
                return out("router.backend.sources", "[]".to_owned(), "at least one source");
            }
            for (at, source) in backend.sources.iter().enumerate() {
                if *source == 0 || backend.sources[..at].contains(source) {
                    let want = "1 to 65535, each once";
                    return out("router.backend.sources", source.to_string(), want);
                }
                let is_master = backend.role == StoreRole::Master;
                if is_master && masters.contains(source) {
                    let want = "one master of each source; others are replicas";
                    return out("router.backend.role", format!("master of {source}"), want);
                }
                masters.extend(is_master.then_some(*source));
            }
            sources.extend(&backend.sources);
        }
        sources.sort_unstable();
        sources.dedup();
        if sources.len() > TOKEN_SOURCES_MAX {
            let count = format!("{} sources", sources.len());
            return out("router.backend.sources", count, "64 sources in all");
        }
        Ok(())
    }
}

impl BackendSection {
    /// Returns the session's key.
    ///
    /// # Errors
    /// When the file cannot be read or holds no valid key.
    pub fn key(&self) -> anyhow::Result<Key> {
        let key = read_key(&self.key_file)?;
        Ok(match self.key_kind {
            KeyKind::ApiKey => Key::Api(ApiKey(key)),
            KeyKind::Ed25519 => Key::Signing(SigningKey::from_seed(key)),
        })
    }

    /// Returns the node's expected TLS identity, where the connection is TLS.
    ///
    /// # Errors
    /// When the file of authorities is not valid.
    pub fn tls(&self) -> anyhow::Result<Option<ClientTls>> {
        let Some(ca) = &self.tls_ca else { return Ok(None) };
        let name = self.tls_name.clone().unwrap_or_else(|| self.address.ip().to_string());
        Ok(Some(ClientTls::new(Trust::Authority(ca), &name)?))
    }
}

fn read_key(path: &Path) -> anyhow::Result<[u8; 32]> {
    let text = read_secret_text(path).context("the router's key")?;
    parse_key(&text).with_context(|| format!("{}: want 64 hexadecimal digits", path.display()))
}
