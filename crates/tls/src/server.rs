//! The node's end: who it is, and whether its clients must say who they are.
//!
//! Sessions are never resumed: a client that comes back shows what a new one shows, so that a
//! certificate or an authority that was taken away is refused at the next connection.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::server::WebPkiClientVerifier;
use rustls::{ServerConfig, ServerConnection};

use crate::link::Link;
use crate::{TlsError, VERSIONS, certificates, private_key, provider, roots};

/// Where a node's certificates are.
#[derive(Clone, Debug)]
pub struct ServerFiles {
    /// The node's certificate and those between it and its authority, PEM.
    pub certificate: PathBuf,
    /// The certificate's private key, PEM.
    pub key: PathBuf,
    /// Authorities of clients' certificates, PEM; without it no client is asked for one.
    pub client_ca: Option<PathBuf>,
    /// Whether a client without a certificate is refused, where clients are asked for one.
    pub client_required: bool,
}

/// A node's end of TLS connections to be. A clone is the same end.
#[derive(Clone, Debug)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
}

impl ServerTls {
    /// Reads and checks the files.
    ///
    /// # Errors
    /// [`TlsError`], naming the file.
    ///
    /// # Panics
    /// Never: the provider speaks all versions that are asked of it.
    pub fn load(files: &ServerFiles) -> Result<ServerTls, TlsError> {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(VERSIONS)
            .expect("ring has cipher suites for both versions");
        let builder = match &files.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots(path)?, provider());
                let verifier =
                    if files.client_required { verifier } else { verifier.allow_unauthenticated() };
                let verifier = verifier
                    .build()
                    .map_err(|source| TlsError::Verifier { path: path.clone(), source })?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let chain = certificates(&files.certificate)?;
        let mut config = builder
            .with_single_cert(chain, private_key(&files.key)?)
            .map_err(|source| TlsError::Unusable { path: files.certificate.clone(), source })?;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(ServerTls { config: Arc::new(config) })
    }

    /// A link to a client that has just connected.
    ///
    /// # Errors
    /// What rustls refuses of the configuration; none is known.
    pub fn accept(&self) -> Result<Link, rustls::Error> {
        ServerConnection::new(self.config.clone()).map(|server| Link::new(server.into()))
    }
}
