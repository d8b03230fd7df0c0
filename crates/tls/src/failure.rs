//! The kinds of failed handshakes: few enough to count, specific enough to act on.

use rustls::{AlertDescription, Error};

use crate::link::LinkError;

/// The reason why a TLS handshake failed. The names are those of the metrics' label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The bytes received were not TLS: a client without TLS, a scanner, garbage.
    NotTls,
    /// No version or cipher in common.
    Incompatible,
    /// The client presented no certificate, and one is required.
    NoCertificate,
    /// The client's certificate has an unknown issuer, is not valid now, or is broken.
    BadCertificate,
    /// The client refused the node, usually because of its certificate.
    RefusedByPeer,
    /// The connection ended first.
    Ended,
    /// It took too long.
    TimedOut,
    /// It made place for a newer one: too many were under way.
    Evicted,
    /// The client broke the protocol's rules.
    Misbehaved,
}

impl Failure {
    /// All kinds; the index of a failure is `failure as usize`.
    pub const ALL: [Failure; 9] = [
        Failure::NotTls,
        Failure::Incompatible,
        Failure::NoCertificate,
        Failure::BadCertificate,
        Failure::RefusedByPeer,
        Failure::Ended,
        Failure::TimedOut,
        Failure::Evicted,
        Failure::Misbehaved,
    ];

    /// Returns the kind of a handshake error.
    #[must_use]
    pub fn of(error: &LinkError) -> Failure {
        match error {
            LinkError::Closed | LinkError::Truncated | LinkError::Io(_) => Failure::Ended,
            LinkError::Tls(error) => match error {
                Error::InvalidMessage(_) => Failure::NotTls,
                Error::PeerIncompatible(_) | Error::NoApplicationProtocol => Failure::Incompatible,
                Error::NoCertificatesPresented => Failure::NoCertificate,
                Error::InvalidCertificate(_) => Failure::BadCertificate,
                Error::AlertReceived(AlertDescription::CloseNotify) => Failure::Ended,
                Error::AlertReceived(_) => Failure::RefusedByPeer,
                _ => Failure::Misbehaved,
            },
        }
    }

    /// The kind's name, as in the metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Failure::NotTls => "not_tls",
            Failure::Incompatible => "incompatible",
            Failure::NoCertificate => "no_certificate",
            Failure::BadCertificate => "bad_certificate",
            Failure::RefusedByPeer => "refused_by_peer",
            Failure::Ended => "ended",
            Failure::TimedOut => "timed_out",
            Failure::Evicted => "evicted",
            Failure::Misbehaved => "misbehaved",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_stands_at_its_place() {
        for (place, failure) in Failure::ALL.into_iter().enumerate() {
            assert_eq!(failure as usize, place, "{}", failure.name());
        }
    }
}
