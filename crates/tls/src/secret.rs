//! Files with secrets: private keys, API keys, passwords, keys of tokens.
//!
//! INVARIANT: no secret is taken from a file that other users can read; it may be theirs too. Each
//! program of Weir reads secrets by [`read_secret`] alone.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::plant::{self, Plant};

/// The permissions of group and others.
const OTHERS: u32 = 0o077;
/// The most bytes of a secret: 64 KiB. A device may have no end.
const BYTES_MAX: u64 = 64 << 10;

/// The reason why a file with a secret is refused. The secret is not repeated.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Other users can read the file.
    #[error(
        "{path}: others may read it (mode {mode:03o}): chmod 600 {path}, or draw a new \
         one if they did"
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The file holds no text.
    #[error("{path}: it holds no text")]
    NoText {
        /// The file.
        path: PathBuf,
    },
}

impl SecretError {
    /// Returns true when there is no such file.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        let SecretError::Unreadable { source, .. } = self else { return false };
        source.kind() == std::io::ErrorKind::NotFound
    }
}

/// Reads a file with a secret. Pipes and devices pass with any permissions.
///
/// # Errors
/// [`SecretError`].
pub fn read_secret(path: &Path) -> Result<Vec<u8>, SecretError> {
    let unreadable = |source| SecretError::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    // Of the open file: another may have its name by now.
    let metadata = file.metadata().map_err(unreadable)?;
    let mode = metadata.mode() & 0o777;
    if metadata.is_file() && mode & OTHERS != 0 && !plant::is(Plant::ModeIgnored) {
        return Err(SecretError::Exposed { path: path.to_owned(), mode });
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// Reads a file with a secret in text.
///
/// # Errors
/// [`SecretError`].
pub fn read_secret_text(path: &Path) -> Result<String, SecretError> {
    let no_text = |_| SecretError::NoText { path: path.to_owned() };
    String::from_utf8(read_secret(path)?).map_err(no_text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_is_read_from_a_file_of_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        assert!(read_secret(&path).unwrap_err().is_not_found());
        std::fs::write(&path, "text\n").unwrap();
        for mode in 0..0o1000 {
            if mode & 0o400 == 0 {
                continue;
            }
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            match read_secret(&path) {
                Ok(bytes) => assert!(mode & 0o077 == 0 && bytes == b"text\n", "{mode:03o}"),
                Err(error) => {
                    let (error, file) = (error.to_string(), path.display());
                    assert!(mode & 0o077 != 0, "{mode:03o}: {error}");
                    assert!(error.contains(&format!("(mode {mode:03o}): chmod 600 {file}")));
                }
            }
        }
        assert!(read_secret(Path::new("/dev/null")).unwrap().is_empty());
    }

    #[cfg(feature = "planted")]
    #[test]
    fn the_planted_bug_of_an_ignored_mode_is_found() {
        plant::set(Some(Plant::ModeIgnored));
        let test = a_secret_is_read_from_a_file_of_its_owner_alone;
        let is_found = std::panic::catch_unwind(test).is_err();
        plant::set(None);
        assert!(is_found);
    }

    #[test]
    fn a_secret_that_is_no_text_is_not_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        std::fs::write(&path, [0xff, b's']).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let error = read_secret_text(&path).unwrap_err();
        assert_eq!(error.to_string(), format!("{}: it holds no text", path.display()));
    }
}
