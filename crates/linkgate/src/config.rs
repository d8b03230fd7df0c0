//! The section `[uplink]` of a gateway process: its session, and the partitions to which it has
//! links.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;
use weir_client::{Key, SigningKey};
use weir_runtime::ConfigError;
use weir_tls::client::Trust;
use weir_tls::{ClientTls, read_secret_text};
use weir_types::hex::parse_key;
use weir_wire::session::ApiKey;

/// The links of a gateway process.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UplinkSection {
    /// The gateway's session, of the role `Gateway`.
    pub session: u32,
    /// The file of the session's key, 64 hexadecimal digits.
    pub key_file: PathBuf,
    /// The kind of that key: `ed25519` or `api-key`.
    #[serde(default)]
    pub key_kind: KeyKind,
    /// TLS: the gateway's certificate, a PEM file, for listeners that demand one.
    pub tls_certificate: Option<PathBuf>,
    /// TLS: the key of that certificate, a PEM file.
    pub tls_key: Option<PathBuf>,
    /// The partitions, control among them.
    #[serde(rename = "partition")]
    pub partitions: Vec<UplinkPartition>,
}

/// A partition, and the listener of its links.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UplinkPartition {
    /// The partition; 0 for control.
    pub id: u16,
    /// The address of its process's link listener.
    pub address: SocketAddr,
    /// TLS: the authorities of the listener's certificate, a PEM file; without it the connection is
    /// plain.
    pub tls_ca: Option<PathBuf>,
    /// TLS: the name in the certificate; the address if absent.
    pub tls_name: Option<String>,
}

/// The kind of a session's key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyKind {
    /// The seed of a key pair, which is never sent.
    #[default]
    Ed25519,
    /// A shared secret, which is sent to the partition.
    ApiKey,
}

impl UplinkSection {
    /// Checks the values that can be checked without files.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`].
    pub fn check(&self) -> Result<(), ConfigError> {
        let out = |key, value: String, want| Err(ConfigError::OutOfRange { key, value, want });
        if self.session == 0 {
            return out("uplink.session", "0".to_owned(), "a session of the role Gateway");
        }
        let mut ids: Vec<_> = self.partitions.iter().map(|one| one.id).collect();
        ids.sort_unstable();
        if ids.first() != Some(&0) || ids.len() < 2 {
            let want = "control, id = 0, and at least one other";
            return out("uplink.partition.id", format!("{ids:?}"), want);
        }
        if let Some(twice) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return out("uplink.partition.id", twice[0].to_string(), "each partition once");
        }
        let is_clear =
            |one: &UplinkPartition| one.tls_ca.is_none() && !one.address.ip().is_loopback();
        if self.key_kind == KeyKind::ApiKey && self.partitions.iter().any(is_clear) {
            let want = "ed25519 where a link is plain and leaves this machine";
            return out("uplink.key_kind", "api-key".to_owned(), want);
        }
        let (certificate, key) = (&self.tls_certificate, &self.tls_key);
        if certificate.is_some() != key.is_some() {
            let (key, want) = match certificate {
                Some(_) => ("uplink.tls_key", "the key of uplink.tls_certificate"),
                None => ("uplink.tls_certificate", "the certificate of uplink.tls_key"),
            };
            return out(key, "none".to_owned(), want);
        }
        let plain = self.partitions.iter().find(|one| one.tls_ca.is_none());
        if let Some(plain) = plain.filter(|_| certificate.is_some()) {
            let want = "uplink.partition.tls_ca: a certificate needs TLS";
            return out("uplink.tls_certificate", format!("partition {} is plain", plain.id), want);
        }
        Ok(())
    }

    /// Returns the expected TLS identity of a partition's listener, where the connection is TLS.
    ///
    /// # Errors
    /// When a file is not valid.
    pub fn tls(&self, partition: &UplinkPartition) -> anyhow::Result<Option<ClientTls>> {
        let Some(ca) = &partition.tls_ca else { return Ok(None) };
        let name = partition.tls_name.clone();
        let name = name.unwrap_or_else(|| partition.address.ip().to_string());
        let trust = Trust::Authority(ca);
        Ok(Some(match (&self.tls_certificate, &self.tls_key) {
            (Some(own), Some(key)) => ClientTls::with_certificate(trust, &name, own, key)?,
            _ => ClientTls::new(trust, &name)?,
        }))
    }

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
}

fn read_key(path: &Path) -> anyhow::Result<[u8; 32]> {
    let text = read_secret_text(path).context("the gateway's key")?;
    parse_key(&text).with_context(|| format!("{}: want 64 hexadecimal digits", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(ids: &[u16], address: &str, key_kind: KeyKind) -> UplinkSection {
        let address = address.parse().expect("an address");
        let partition = |id| UplinkPartition { id, address, tls_ca: None, tls_name: None };
        let partitions = ids.iter().copied().map(partition).collect();
        UplinkSection {
            session: 501,
            key_file: "key".into(),
            key_kind,
            tls_certificate: None,
            tls_key: None,
            partitions,
        }
    }

    #[test]
    fn a_gateway_has_links_to_control_and_others_each_once() {
        let here = "127.0.0.1:1";
        for (ids, named) in [
            (&[0, 1][..], None),
            (&[2, 0, 1], None),
            (&[1], Some("uplink.partition.id")),
            (&[0], Some("uplink.partition.id")),
            (&[0, 1, 1], Some("uplink.partition.id")),
        ] {
            let checked = section(ids, here, KeyKind::Ed25519).check();
            let said = checked.err().map(|error| error.to_string());
            assert_eq!(said.is_some(), named.is_some(), "{ids:?}: {said:?}");
            assert!(said.is_none_or(|said| named.is_some_and(|key| said.contains(key))));
        }
    }

    #[test]
    fn an_api_key_does_not_leave_the_machine_in_clear() {
        for (address, key_kind, is_good) in [
            ("127.0.0.1:1", KeyKind::ApiKey, true),
            ("10.0.0.1:1", KeyKind::ApiKey, false),
            ("10.0.0.1:1", KeyKind::Ed25519, true),
        ] {
            let checked = section(&[0, 1], address, key_kind).check();
            assert_eq!(checked.is_ok(), is_good, "{address} {key_kind:?}");
        }
    }

    #[test]
    fn a_certificate_has_its_key_and_tls_on_each_link() {
        let with = |certificate: Option<&str>, key: Option<&str>, ca: Option<&str>| {
            let mut section = section(&[0, 1], "127.0.0.1:1", KeyKind::Ed25519);
            section.tls_certificate = certificate.map(PathBuf::from);
            section.tls_key = key.map(PathBuf::from);
            section.partitions.iter_mut().for_each(|one| one.tls_ca = ca.map(PathBuf::from));
            section.check().err().map(|error| error.to_string())
        };
        assert_eq!(with(None, None, None), None);
        assert_eq!(with(Some("own.pem"), Some("own.key"), Some("ca.pem")), None);
        for (certificate, key, ca, named) in [
            (Some("own.pem"), None, Some("ca.pem"), "uplink.tls_key"),
            (None, Some("own.key"), Some("ca.pem"), "uplink.tls_certificate"),
            (Some("own.pem"), Some("own.key"), None, "uplink.tls_certificate"),
        ] {
            let said = with(certificate, key, ca).expect("it is refused");
            assert!(said.contains(named), "{said}");
        }
    }
}
