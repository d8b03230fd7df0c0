//! Sessions' credentials and their verification.
//!
//! INVARIANT: an attempt costs one hash and one comparison, or one verification of a signature,
//! whether or not the session that it names exists. Without a credential to compare with, the
//! attempt is checked against a stand-in with a secret that no client has. So the time of an
//! attempt depends only on bytes that the client itself sent.

use ed25519_dalek::{SigningKey, VerifyingKey};
use weir_io::Rng;
use weir_types::{Credential, CredentialKind};
use weir_wire::session::{ApiKey, Signature};

/// The stored half of a session's credential: a logon must prove that it has the other half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// The hash of an API key.
    ApiKey(blake3::Hash),
    /// An Ed25519 public key.
    Ed25519(VerifyingKey),
    /// Opens for no proof: the public key is not a point of the curve, or is weak.
    Sealed,
}

impl Lock {
    /// Creates the lock of a definition's credential.
    #[must_use]
    pub fn new(kind: CredentialKind, credential: &Credential) -> Lock {
        match kind {
            CredentialKind::ApiKey => Lock::ApiKey(blake3::Hash::from_bytes(credential.0)),
            CredentialKind::Ed25519 => match VerifyingKey::from_bytes(&credential.0) {
                Ok(key) if !key.is_weak() => Lock::Ed25519(key),
                _ => Lock::Sealed,
            },
        }
    }
}

/// The numbers of credentials checked: the cost of attempts, shown to operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// API keys hashed and compared.
    pub api_keys: u64,
    /// Signatures verified.
    pub signatures: u64,
}

/// Checks attempts against locks, and counts them.
#[derive(Debug)]
pub struct Locksmith {
    spare_hash: blake3::Hash,
    spare_key: VerifyingKey,
    checks: Checks,
}

impl Locksmith {
    /// Creates a locksmith with random stand-ins.
    pub fn new(rng: &mut dyn Rng) -> Locksmith {
        let (mut hash, mut seed) = ([0; 32], [0; 32]);
        rng.fill(&mut hash);
        rng.fill(&mut seed);
        Locksmith {
            spare_hash: blake3::Hash::from_bytes(hash),
            spare_key: SigningKey::from_bytes(&seed).verifying_key(),
            checks: Checks::default(),
        }
    }

    /// Returns the numbers of checks so far.
    #[must_use]
    pub fn checks(&self) -> Checks {
        self.checks
    }

    /// Returns true if the API key opens the lock.
    pub fn try_api_key(&mut self, lock: Option<&Lock>, key: &ApiKey) -> bool {
        let (hash, is_real) = match lock {
            Some(Lock::ApiKey(hash)) => (*hash, true),
            _ => (self.spare_hash, false),
        };
        self.checks.api_keys += 1;
        // `==` of two blake3 hashes takes constant time.
        let is_same = blake3::hash(&key.0) == hash;
        is_same & is_real
    }

    /// Returns true if the signature `of` of `text` opens the lock.
    pub fn try_signature(&mut self, lock: Option<&Lock>, text: &[u8], of: &Signature) -> bool {
        let (key, is_real) = match lock {
            Some(Lock::Ed25519(key)) => (key, true),
            _ => (&self.spare_key, false),
        };
        self.checks.signatures += 1;
        // Strict verification rejects malleable signatures and those that fit many keys.
        let signature = ed25519_dalek::Signature::from_bytes(&of.0);
        let is_valid = key.verify_strict(text, &signature).is_ok();
        is_valid & is_real
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::Signer;
    use weir_io::SeededRng;

    use super::*;

    fn locksmith() -> Locksmith {
        Locksmith::new(&mut SeededRng::new(1, "keys"))
    }

    fn signing() -> SigningKey {
        SigningKey::from_bytes(&[7; 32])
    }

    fn public() -> Credential {
        Credential(signing().verifying_key().to_bytes())
    }

    #[test]
    fn each_kind_of_lock_opens_for_its_own_key_only() {
        let hash = Credential(*blake3::hash(&[7; 32]).as_bytes());
        let by_key = Lock::new(CredentialKind::ApiKey, &hash);
        let by_signature = Lock::new(CredentialKind::Ed25519, &public());
        let good = Signature(signing().sign(b"text").to_bytes());
        let mut smith = locksmith();
        assert!(smith.try_api_key(Some(&by_key), &ApiKey([7; 32])));
        assert!(!smith.try_api_key(Some(&by_key), &ApiKey([8; 32])));
        assert!(!smith.try_api_key(Some(&by_signature), &ApiKey([7; 32])));
        assert!(!smith.try_api_key(None, &ApiKey([7; 32])));
        assert!(smith.try_signature(Some(&by_signature), b"text", &good));
        assert!(!smith.try_signature(Some(&by_signature), b"test", &good));
        assert!(!smith.try_signature(Some(&by_key), b"text", &good));
        assert!(!smith.try_signature(None, b"text", &good));
    }

    #[test]
    fn the_hash_of_a_key_is_not_the_key_and_a_public_key_is_no_secret() {
        // A reader of the control log has these bytes; they open nothing.
        let hash = Credential(*blake3::hash(&[7; 32]).as_bytes());
        let by_key = Lock::new(CredentialKind::ApiKey, &hash);
        let by_signature = Lock::new(CredentialKind::Ed25519, &public());
        assert!(!locksmith().try_api_key(Some(&by_key), &ApiKey(hash.0)));
        assert!(!locksmith().try_api_key(Some(&by_signature), &ApiKey(public().0)));
    }

    #[test]
    fn stand_ins_open_for_nobody_not_even_who_knows_their_secret() {
        let mut rng = SeededRng::new(1, "keys");
        let (mut hash, mut seed) = ([0; 32], [0; 32]);
        rng.fill(&mut hash);
        rng.fill(&mut seed);
        let forged = Signature(SigningKey::from_bytes(&seed).sign(b"text").to_bytes());
        assert!(!locksmith().try_signature(None, b"text", &forged));
        assert!(!locksmith().try_signature(Some(&Lock::Sealed), b"text", &forged));
    }

    #[test]
    fn keys_that_are_no_points_or_weak_ones_make_a_lock_without_key() {
        // No point of the curve has y = 2. y = 1 is the neutral element, under which a forged
        // signature fits every text.
        let mut none = [0; 32];
        none[0] = 2;
        let mut neutral = [0; 32];
        neutral[0] = 1;
        for bytes in [none, neutral, [0; 32]] {
            assert_eq!(Lock::new(CredentialKind::Ed25519, &Credential(bytes)), Lock::Sealed);
        }
        let mut forged = [0; 64];
        forged[0] = 1;
        let sealed = Lock::Sealed;
        assert!(!locksmith().try_signature(Some(&sealed), b"any", &Signature(forged)));
    }
}
