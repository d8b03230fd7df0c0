//! The section `[replica]`: the node whose sources this one follows.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;
use weir_client::Target;
use weir_tls::ClientTls;
use weir_tls::client::Trust;

use weir_runtime::ConfigError;

use super::{IngestSection, SOURCES_MAX};

/// The node whose sources are followed, and this node's identity there.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaSection {
    /// The master's ingest listener.
    pub master: SocketAddr,
    /// A session of the role `Supervisor` on the master.
    pub session: u32,
    /// A file with its API key in hexadecimal.
    pub key_file: PathBuf,
    /// TLS: the authorities of the master's certificate, a PEM file; without it the connection is
    /// plain.
    pub tls_ca: Option<PathBuf>,
    /// TLS: the name in the master's certificate; its address when not given.
    pub tls_name: Option<String>,
    /// The sources: 1 to 65535. A node that follows the partition of its own number does not trade.
    pub sources: Vec<u16>,
}

impl ReplicaSection {
    /// Returns the master's address and TLS settings.
    ///
    /// # Errors
    /// When the file of authorities is not valid.
    pub fn target(&self) -> anyhow::Result<Target> {
        let name = self.tls_name.clone().unwrap_or_else(|| self.master.ip().to_string());
        let tls = self.tls_ca.as_deref().map(|ca| ClientTls::new(Trust::Authority(ca), &name));
        Ok(Target::of(self.master, tls.transpose()?))
    }

    pub(super) fn check(&self, ingest: Option<&IngestSection>) -> Result<(), ConfigError> {
        let out = |value: String, want| {
            Err(ConfigError::OutOfRange { key: "replica.sources", value, want })
        };
        if !(1..=SOURCES_MAX).contains(&self.sources.len()) {
            return out(self.sources.len().to_string(), "1 to 64 sources");
        }
        for (index, id) in self.sources.iter().enumerate() {
            if *id < 1 {
                return out(id.to_string(), "1 to 65535");
            }
            let is_fed = ingest.is_some_and(|own| own.sources.iter().any(|own| own.id == *id));
            if is_fed || self.sources[..index].contains(id) {
                return out(id.to_string(), "each source once, and none that is fed here");
            }
        }
        Ok(())
    }
}
