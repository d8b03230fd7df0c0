//! A certificate authority in memory, for tests, benchmarks and private networks.
//!
//! Its private key is never written and dies with the value, so no later certificate can be signed
//! by it.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// The error of a certificate that cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("no certificate for {name:?}: {source}")]
pub struct AuthorityError {
    /// The subject's names.
    name: String,
    /// The cause.
    source: rcgen::Error,
}

/// An authority and its key.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, both as PEM.
#[derive(Clone)]
pub struct SignedCertificate {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

/// The purpose of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// A node.
    Server,
    /// A client.
    Client,
}

impl Authority {
    /// Creates an authority with the common name `name`.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn new(name: &str) -> Result<Authority, AuthorityError> {
        let refuse = |source| AuthorityError { name: name.to_owned(), source };
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().map_err(refuse)?;
        let issuer = CertifiedIssuer::self_signed(params, key).map_err(refuse)?;
        Ok(Authority { issuer })
    }

    /// The authority's own certificate as PEM, for the peer's trust store.
    #[must_use]
    pub fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// Signs a certificate for these DNS names and addresses.
    ///
    /// # Errors
    /// When a name is invalid or no key can be made.
    pub fn sign(&self, names: &[&str], usage: Usage) -> Result<SignedCertificate, AuthorityError> {
        self.sign_until(names, usage, None)
    }

    /// As [`Authority::sign`], with an expiry date in the past, for tests of expired certificates.
    ///
    /// # Errors
    /// As [`Authority::sign`].
    pub fn sign_expired(
        &self,
        names: &[&str],
        usage: Usage,
    ) -> Result<SignedCertificate, AuthorityError> {
        self.sign_until(names, usage, Some((2020, 1, 2)))
    }

    fn sign_until(
        &self,
        names: &[&str],
        usage: Usage,
        until: Option<(i32, u8, u8)>,
    ) -> Result<SignedCertificate, AuthorityError> {
        let refuse = |source| AuthorityError { name: names.join(", "), source };
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let common_name = names.first().cloned().unwrap_or_default();
        let mut params = CertificateParams::new(names).map_err(refuse)?;
        params.distinguished_name.push(DnType::CommonName, common_name);
        if let Some((year, month, day)) = until {
            params.not_before = rcgen::date_time_ymd(year, month, day - 1);
            params.not_after = rcgen::date_time_ymd(year, month, day);
        }
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match usage {
            Usage::Server => ExtendedKeyUsagePurpose::ServerAuth,
            Usage::Client => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        let key = KeyPair::generate().map_err(refuse)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(refuse)?;
        Ok(SignedCertificate { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}
