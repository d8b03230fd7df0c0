//! The endpoint of a connection as given from Python: address, session, key and TLS.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use weir_client::{Key, SessionConfig, SigningKey, Target, resolve};
use weir_tls::ClientTls;
use weir_tls::client::Trust;
use weir_types::SessionId;
use weir_wire::session::ApiKey;

use crate::errors::Failure;

/// The address and identity of a connection: one argument of every class that connects, made by
/// `weir.endpoint`.
#[derive(FromPyObject)]
pub struct Endpoint {
    address: String,
    session: u32,
    /// 32 bytes; never printed.
    key: PyBackedBytes,
    /// True: the key signs the node's challenge instead of being sent.
    is_signing: bool,
    heartbeat_ms: u32,
    tls_ca: Option<PathBuf>,
    tls_pin: Option<PathBuf>,
    tls_name: Option<String>,
    tls_certificate: Option<PathBuf>,
    tls_key: Option<PathBuf>,
}

impl Endpoint {
    /// Returns the node's address and TLS configuration.
    ///
    /// # Errors
    /// `WrongNode` for an address that does not resolve, `ValueError` for invalid TLS settings.
    pub fn target(&self) -> PyResult<Target> {
        let address = resolve(&self.address).map_err(Failure::from)?;
        Ok(Target::of(address, self.tls()?))
    }

    /// Returns the session's configuration.
    ///
    /// # Errors
    /// `ValueError` for a key of another length; the message does not contain the key.
    pub fn session(&self) -> PyResult<SessionConfig> {
        let bytes = <[u8; 32]>::try_from(&*self.key);
        let bytes = bytes.map_err(|_| PyValueError::new_err("a key has 32 bytes"))?;
        let key = if self.is_signing {
            Key::Signing(SigningKey::from_seed(bytes))
        } else {
            Key::Api(ApiKey(bytes))
        };
        let heartbeat_interval_ms = self.heartbeat_ms.max(1);
        Ok(SessionConfig {
            heartbeat_interval_ms,
            ..SessionConfig::new(SessionId(self.session), key)
        })
    }

    fn tls(&self) -> PyResult<Option<ClientTls>> {
        let trust = match (&self.tls_ca, &self.tls_pin) {
            (Some(path), _) => Trust::Authority(path),
            (None, Some(path)) => Trust::Pinned(path),
            (None, None) => return Ok(None),
        };
        let host = self.address.rsplit_once(':').map_or(&*self.address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = self.tls_name.as_deref().unwrap_or(host);
        let tls = match (&self.tls_certificate, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                ClientTls::with_certificate(trust, name, certificate, key)
            }
            _ => ClientTls::new(trust, name),
        };
        tls.map(Some).map_err(|error| PyValueError::new_err(error.to_string()))
    }
}
