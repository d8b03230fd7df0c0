//! The client's end of a TLS connection: the trust in the node's certificate, and the client's own
//! certificate.

use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme,
};

use crate::link::Link;
use crate::{TlsError, VERSIONS, certificates, private_key, provider, roots};

/// The client's configuration for TLS connections. Clones share it.
#[derive(Clone, Debug)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// The rule by which a client accepts the node's certificate.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// A certificate for the node's name, signed by one of the authorities in this file.
    Authority(&'a Path),
    /// Exactly the first certificate in this file; its name, dates and issuer are not checked.
    Pinned(&'a Path),
}

impl ClientTls {
    /// Configures connections to the server called `name`, a DNS name or an address.
    ///
    /// # Errors
    /// [`TlsError`], naming the file or the name.
    pub fn new(trust: Trust<'_>, name: &str) -> Result<ClientTls, TlsError> {
        ClientTls::build(trust, name, None)
    }

    /// As [`ClientTls::new`], with a certificate and key of the client, both PEM files.
    ///
    /// # Errors
    /// As [`ClientTls::new`].
    pub fn with_certificate(
        trust: Trust<'_>,
        name: &str,
        certificate: &Path,
        key: &Path,
    ) -> Result<ClientTls, TlsError> {
        ClientTls::build(trust, name, Some((certificate, key)))
    }

    fn build(
        trust: Trust<'_>,
        name: &str,
        own: Option<(&Path, &Path)>,
    ) -> Result<ClientTls, TlsError> {
        let name =
            ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name(name.to_owned()))?;
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(VERSIONS)
            .expect("ring has cipher suites for both versions");
        let builder = match trust {
            Trust::Authority(path) => builder.with_root_certificates(roots(path)?),
            Trust::Pinned(path) => {
                let pinned = certificates(path)?.swap_remove(0);
                let verifier = PinVerifier { pinned, provider: provider() };
                builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
        };
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder
                .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
                .map_err(|source| TlsError::Unusable { path: certificate.to_owned(), source })?,
        };
        // The node does not resume sessions.
        config.resumption = Resumption::disabled();
        Ok(ClientTls { config: Arc::new(config), name })
    }

    /// The same configuration without TLS 1.3, trusting the authorities in `ca`: for tests of a
    /// node that serves old clients.
    ///
    /// # Errors
    /// As [`ClientTls::new`].
    pub fn only_tls12(self, ca: &Path) -> Result<ClientTls, TlsError> {
        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS12])
            .expect("ring has cipher suites for TLS 1.2")
            .with_root_certificates(roots(ca)?)
            .with_no_client_auth();
        Ok(ClientTls { config: Arc::new(config), name: self.name })
    }

    /// Creates a link to the node, with the handshake still to be done.
    ///
    /// # Errors
    /// Those of rustls for the configuration; none is known.
    pub fn connect(&self) -> Result<Link, rustls::Error> {
        let client = ClientConnection::new(self.config.clone(), self.name.clone())?;
        Ok(Link::new(client.into()))
    }
}

/// Accepts exactly one certificate, and checks its holder's signature on the handshake.
#[derive(Debug)]
struct PinVerifier {
    pinned: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if *end_entity == self.pinned {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
