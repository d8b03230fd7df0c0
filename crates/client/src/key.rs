//! A session's key for logon: an API key, which is sent to the node, or an Ed25519 key, which signs
//! the node's challenge and is never sent.

use std::fmt;

use ed25519_dalek::Signer;
use weir_types::{Credential, CredentialKind};
use weir_wire::session::{ApiKey, Signature};

use crate::error::ClientError;

/// The secret half of an Ed25519 key pair: the seed of 32 bytes that RFC 8032 calls the private
/// key.
#[derive(Clone, Copy)]
pub struct SigningKey([u8; 32]);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

impl SigningKey {
    /// Creates the key of a seed.
    #[must_use]
    pub fn from_seed(seed: [u8; 32]) -> SigningKey {
        SigningKey(seed)
    }

    /// Creates a fresh key from the system's randomness.
    ///
    /// # Errors
    /// [`ClientError::Io`].
    pub fn fresh() -> Result<SigningKey, ClientError> {
        random_bytes().map(SigningKey)
    }

    /// The seed: its holder can log on as the session.
    #[must_use]
    pub fn seed(&self) -> [u8; 32] {
        self.0
    }

    /// The public half, which a node stores.
    #[must_use]
    pub fn public(&self) -> [u8; 32] {
        ed25519_dalek::SigningKey::from_bytes(&self.0).verifying_key().to_bytes()
    }

    /// Signs a text.
    #[must_use]
    pub fn sign(&self, text: &[u8]) -> Signature {
        Signature(ed25519_dalek::SigningKey::from_bytes(&self.0).sign(text).to_bytes())
    }
}

/// A session's key.
#[derive(Clone, Copy, Debug)]
pub enum Key {
    /// A shared secret.
    Api(ApiKey),
    /// The secret half of a key pair.
    Signing(SigningKey),
}

impl Key {
    /// The credential that a node stores and its kind, as in the session's definition.
    #[must_use]
    pub fn credential(&self) -> (Credential, CredentialKind) {
        match self {
            Key::Api(key) => (key_hash(key), CredentialKind::ApiKey),
            Key::Signing(key) => (Credential(key.public()), CredentialKind::Ed25519),
        }
    }
}

impl From<ApiKey> for Key {
    fn from(key: ApiKey) -> Key {
        Key::Api(key)
    }
}

impl From<SigningKey> for Key {
    fn from(key: SigningKey) -> Key {
        Key::Signing(key)
    }
}

/// Creates a fresh API key from the system's randomness.
///
/// # Errors
/// [`ClientError::Io`].
pub fn fresh_key() -> Result<ApiKey, ClientError> {
    random_bytes().map(ApiKey)
}

/// The credential that a node stores for an API key.
#[must_use]
pub fn key_hash(key: &ApiKey) -> Credential {
    Credential(*blake3::hash(&key.0).as_bytes())
}

/// Returns true if 32 bytes are a public key that a node accepts: a point of the curve, and not one
/// of the few weak ones under which signatures prove nothing.
#[must_use]
pub fn is_public_key(bytes: &[u8; 32]) -> bool {
    ed25519_dalek::VerifyingKey::from_bytes(bytes).is_ok_and(|key| !key.is_weak())
}

fn random_bytes() -> Result<[u8; 32], ClientError> {
    let mut bytes = [0u8; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        filled += rustix::rand::getrandom(&mut bytes[filled..], flags)
            .map_err(|error| ClientError::io("drawing a key", error.into()))?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const N: usize>(hex: &str) -> [u8; N] {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        assert_eq!(digits.len(), 2 * N);
        std::array::from_fn(|i| {
            let pair = std::str::from_utf8(&digits[2 * i..2 * i + 2]).unwrap();
            u8::from_str_radix(pair, 16).unwrap()
        })
    }

    #[test]
    fn keys_and_signatures_are_those_of_rfc_8032() {
        // Section 7.1, test 2.
        let key = SigningKey::from_seed(bytes(
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        ));
        let public = bytes("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
        assert_eq!(key.public(), public);
        let signature = bytes(
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da
             085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        );
        assert_eq!(key.sign(&[0x72]), Signature(signature));
    }

    #[test]
    fn a_secret_is_not_in_what_is_printed_of_it() {
        let key = Key::from(SigningKey::from_seed([0xab; 32]));
        assert_eq!(format!("{key:?}"), "Signing(SigningKey(..))");
        assert_eq!(format!("{:?}", Key::from(ApiKey([0xab; 32]))), "Api(ApiKey(..))");
    }

    #[test]
    fn public_keys_are_points_of_large_order() {
        assert!(is_public_key(&SigningKey::from_seed([1; 32]).public()));
        let mut neutral = [0; 32];
        neutral[0] = 1;
        let mut no_point = [0; 32];
        no_point[0] = 2;
        for bytes in [[0; 32], neutral, no_point] {
            assert!(!is_public_key(&bytes));
        }
    }
}
