//! TLS beneath the frames of order entry, for both ends of a connection.
//!
//! * [`link`]: plain bytes over an encrypted non-blocking stream.
//! * [`server`], [`client`]: each end's identity and trust, from PEM files.
//! * [`secret`]: files with secrets, read if no other user can read them.
//! * [`failure`]: the kinds of failed handshakes, to be counted.
//! * [`authority`]: certificates for tests, benchmarks and private networks.
//! * [`plant`]: planted bugs.
//!
//! The crate opens no socket, starts no thread and reads no clock except through rustls. The
//! protocol is rustls's, with the cryptography of `ring`; this crate only connects it to the
//! streams.

pub mod authority;
pub mod client;
pub mod failure;
pub mod link;
pub mod plant;
pub mod secret;
pub mod server;

pub use client::ClientTls;
pub use failure::Failure;
pub use link::{Link, LinkError};
pub use secret::{SecretError, read_secret, read_secret_text};
pub use server::{ServerFiles, ServerTls};

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The protocol versions that both ends support.
const VERSIONS: &[&rustls::SupportedProtocolVersion] =
    &[&rustls::version::TLS13, &rustls::version::TLS12];

/// The reason why certificates or keys are refused.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or holds no item of the kind expected.
    #[error("{path}: {what}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The kind of item expected in it.
        what: &'static str,
        /// The cause.
        source: pem::Error,
    },
    /// A private key's file cannot be read, or other users can read it.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// Certificate and key do not match, or a certificate cannot be used.
    #[error("{path}: {source}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The cause, from rustls.
        source: rustls::Error,
    },
    /// The client authorities cannot be made a verifier.
    #[error("{path}: {source}")]
    Verifier {
        /// The file.
        path: PathBuf,
        /// The cause, from rustls.
        source: rustls::server::VerifierBuilderError,
    },
    /// A server's name is neither a DNS name nor an IP address.
    #[error("{0:?} is no name of a server: want a DNS name or an IP address")]
    Name(String),
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let refuse = |source| TlsError::File { path: path.to_owned(), what: "certificates", source };
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(refuse)?.collect();
    match found {
        Ok(found) if found.is_empty() => Err(refuse(pem::Error::NoItemsFound)),
        found => found.map_err(refuse),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&read_secret(path)?).map_err(|source| TlsError::File {
        path: path.to_owned(),
        what: "a private key",
        source,
    })
}

fn roots(path: &Path) -> Result<Arc<rustls::RootCertStore>, TlsError> {
    let mut store = rustls::RootCertStore::empty();
    for certificate in certificates(path)? {
        let added = store.add(certificate);
        added.map_err(|source| TlsError::Unusable { path: path.to_owned(), source })?;
    }
    Ok(Arc::new(store))
}
