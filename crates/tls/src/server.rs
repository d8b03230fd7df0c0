//! The node's end of a TLS connection: its certificate, and the certificates asked of its clients.
//!
//! Sessions are never resumed: a returning client does the full handshake, so a revoked certificate
//! or a removed authority is refused at the next connection.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::server::WebPkiClientVerifier;
use rustls::{ServerConfig, ServerConnection};

use crate::link::Link;
use crate::{TlsError, VERSIONS, certificates, private_key, provider, roots};

/// The paths of a node's certificates.
#[derive(Clone, Debug)]
pub struct ServerFiles {
    /// The node's certificate and the intermediates up to its authority, PEM.
    pub certificate: PathBuf,
    /// The certificate's private key, PEM.
    pub key: PathBuf,
    /// Authorities of client certificates, PEM; without it clients are not asked for a certificate.
    pub client_ca: Option<PathBuf>,
    /// Refuse clients without a certificate; only with `client_ca`.
    pub client_required: bool,
}

/// The node's configuration for TLS connections. Clones share it.
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
    /// Never: the provider supports both protocol versions.
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

    /// Creates a link to a client that has just connected.
    ///
    /// # Errors
    /// Those of rustls for the configuration; none is known.
    pub fn accept(&self) -> Result<Link, rustls::Error> {
        ServerConnection::new(self.config.clone()).map(|server| Link::new(server.into()))
    }
}
