//! TLS beneath the frames of order entry, for both ends of a connection.
//!
//! * [`link`]: bytes in, bytes out, over a stream that never blocks.
//! * [`server`], [`client`]: who each end is and whom it believes, from PEM files.
//! * [`failure`]: what ended a handshake, by kind, to be counted.
//! * [`authority`]: certificates for tests, benchmarks and private networks.
//!
//! It opens no socket, starts no thread and asks no clock but through rustls. Everything about the
//! protocol is rustls's, with the cryptography of `ring`; what is here is the plumbing.

pub mod authority;
pub mod client;
pub mod failure;
pub mod link;
pub mod server;

pub use client::ClientTls;
pub use failure::Failure;
pub use link::{Link, LinkError};
pub use server::{ServerFiles, ServerTls};

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The protocol versions that both ends speak.
const VERSIONS: &[&rustls::SupportedProtocolVersion] =
    &[&rustls::version::TLS13, &rustls::version::TLS12];

/// Why certificates or keys are not taken.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or holds nothing of the kind.
    #[error("{path}: {what}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What was looked for in it.
        what: &'static str,
        /// What is wrong with it.
        source: pem::Error,
    },
    /// Certificates and key are no pair, or a certificate cannot be used.
    #[error("{path}: {source}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why, as rustls says it.
        source: rustls::Error,
    },
    /// The clients' authorities make no verifier.
    #[error("{path}: {source}")]
    Verifier {
        /// The file.
        path: PathBuf,
        /// Why, as rustls says it.
        source: rustls::server::VerifierBuilderError,
    },
    /// A server's name is neither a DNS name nor an address.
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
    PrivateKeyDer::from_pem_file(path).map_err(|source| TlsError::File {
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
