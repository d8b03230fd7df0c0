//! The key with which control seals its grants, and all partitions check them.

use std::path::Path;

use anyhow::Context;
use weir_io::{OsRng, Rng};
use weir_link::grants::Grant;
use weir_link::message::Seal;
use weir_tls::read_secret;

/// The file of the key.
pub const KEY_FILE: &str = "link.key";

/// The key of seals.
#[derive(Clone)]
pub struct SealKey([u8; 32]);

impl SealKey {
    /// Returns a key of these bytes.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> SealKey {
        SealKey(bytes)
    }

    /// Reads the key of a node, or draws it at the first use.
    ///
    /// # Errors
    /// When it can be neither read nor kept.
    pub fn of_node(dir: &Path) -> anyhow::Result<SealKey> {
        let path = dir.join(KEY_FILE);
        match read_secret(&path) {
            Ok(found) => {
                let bytes = found.first_chunk();
                let bytes = bytes.with_context(|| format!("{} holds no key", path.display()))?;
                Ok(SealKey(*bytes))
            }
            Err(error) if error.is_not_found() => SealKey::drawn(dir),
            Err(error) => Err(error).context("the key of grants"),
        }
    }

    /// Draws another key for a node. All grants end with the one before.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub fn drawn(dir: &Path) -> anyhow::Result<SealKey> {
        let (path, mut bytes) = (dir.join(KEY_FILE), [0; 32]);
        OsRng.fill(&mut bytes);
        weir_io::durable::write_file(&path, &bytes, 0o600)
            .with_context(|| format!("cannot keep the key in {}", path.display()))?;
        Ok(SealKey(bytes))
    }

    /// Returns the seal of a grant.
    #[must_use]
    pub fn seal(&self, grant: &Grant) -> Seal {
        let mut text = Vec::with_capacity(24);
        text.extend_from_slice(&grant.session_id.0.to_le_bytes());
        text.extend_from_slice(&grant.gateway.0.to_le_bytes());
        text.extend_from_slice(&grant.incarnation.to_le_bytes());
        text.extend_from_slice(&grant.generation.to_le_bytes());
        let hash = blake3::keyed_hash(&self.0, &text);
        Seal(*hash.as_bytes().first_chunk().expect("a hash is longer"))
    }

    /// Returns true if the seal of a grant is good, in a time that does not depend on it.
    #[must_use]
    pub fn is_good(&self, grant: &Grant) -> bool {
        let good = self.seal(grant);
        let differing = good.0.iter().zip(grant.seal.0).fold(0, |all, (a, b)| all | (a ^ b));
        differing == 0
    }
}

#[cfg(test)]
mod tests {
    use weir_types::SessionId;

    use super::*;

    #[test]
    fn a_seal_is_of_one_grant_and_one_key() {
        let key = SealKey::new([7; 32]);
        let grant = Grant {
            session_id: SessionId(1),
            gateway: SessionId(2),
            incarnation: 3,
            generation: 4,
            seal: Seal::NONE,
        };
        let sealed = Grant { seal: key.seal(&grant), ..grant };
        assert!(key.is_good(&sealed) && !key.is_good(&grant));
        assert!(!SealKey::new([8; 32]).is_good(&sealed));
        for other in [
            Grant { session_id: SessionId(9), ..sealed },
            Grant { gateway: SessionId(9), ..sealed },
            Grant { incarnation: 9, ..sealed },
            Grant { generation: 9, ..sealed },
        ] {
            assert!(!key.is_good(&other), "{other:?}");
        }
    }

    #[test]
    fn a_node_keeps_the_key_that_it_draws() {
        let dir = std::env::temp_dir().join(format!("weir-seal-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let keys = [0, 1].map(|_| SealKey::of_node(&dir).expect("it is kept").0);
        std::fs::remove_dir_all(&dir).expect("it is there");
        assert_eq!(keys[0], keys[1]);
        assert_ne!(keys[0], [0; 32]);
    }
}
