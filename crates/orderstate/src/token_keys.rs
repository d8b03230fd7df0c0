//! The keys that seal tokens of order state: a node's own, or one shared by nodes and routers.
//!
//! A token is valid wherever its key is, so all nodes and routers that serve the same clients share
//! one key file. Further keys may open tokens: so a key can be replaced while clients still hold
//! tokens of the previous one, and while some nodes do not seal with the new one yet.

use std::path::{Path, PathBuf};

use anyhow::Context;
use weir_delivery::{NonceCounter, SourceCursor, TokenKey, TokenKeys, TokenSealer};
use weir_io::{Clock, OsRng, Rng, SystemClock};
use weir_tls::read_secret;
use weir_types::Nanos;

/// The file of the key that a node creates for itself.
const TOKEN_KEY_FILE: &str = "token.key";

/// The path of the key, and whether a node creates a missing one.
#[derive(Clone, Debug)]
pub struct TokenKeyFile {
    path: PathBuf,
    is_own: bool,
    /// The files of keys that open tokens but seal none.
    opened: Vec<PathBuf>,
}

/// Returns a sealer with these keys and nonces that no other sealer draws.
#[must_use]
pub fn sealer(keys: &TokenKeys) -> TokenSealer {
    let maker = (OsRng.next_u64() >> 32) as u32;
    TokenSealer::of(keys, NonceCounter::new(maker, SystemClock.now()))
}

impl TokenKeyFile {
    /// Returns the keys of a node in `node_dir`: the key in `shared` seals, or the node's own key
    /// if no file is named; the keys in `opened` only open tokens.
    #[must_use]
    pub fn of(node_dir: &Path, shared: Option<&Path>, opened: &[PathBuf]) -> TokenKeyFile {
        let file = match shared {
            Some(path) => TokenKeyFile::shared(path),
            None => TokenKeyFile::own(node_dir),
        };
        TokenKeyFile { opened: opened.to_vec(), ..file }
    }

    /// Returns the node's own key file, in its directory; created at first use, so that tokens
    /// outlive a restart.
    #[must_use]
    pub fn own(node_dir: &Path) -> TokenKeyFile {
        TokenKeyFile { path: node_dir.join(TOKEN_KEY_FILE), is_own: true, opened: Vec::new() }
    }

    /// Returns a shared key file, which no node creates: two nodes would create different keys.
    #[must_use]
    pub fn shared(path: &Path) -> TokenKeyFile {
        TokenKeyFile { path: path.to_owned(), is_own: false, opened: Vec::new() }
    }

    /// Reads the sealing key and the opening keys.
    ///
    /// # Errors
    /// When the sealing key can be neither read nor created, or another one cannot be read.
    pub fn keys(&self) -> anyhow::Result<TokenKeys> {
        Ok(TokenKeys::new(self.key()?, self.others()?))
    }

    /// Reloads all keys and replaces these.
    ///
    /// # Errors
    /// The same as those of [`TokenKeyFile::keys`]; the keys then stay unchanged.
    pub fn read_into(&self, keys: &TokenKeys) -> anyhow::Result<()> {
        keys.replace(self.key()?, self.others()?);
        Ok(())
    }

    fn others(&self) -> anyhow::Result<Vec<TokenKey>> {
        self.opened.iter().map(|path| TokenKeyFile::shared(path).key()).collect()
    }

    fn key(&self) -> anyhow::Result<TokenKey> {
        let bytes = match read_secret(&self.path) {
            Ok(found) => *found
                .first_chunk()
                .with_context(|| format!("{} holds no key", self.path.display()))?,
            Err(error) if self.is_own && error.is_not_found() => self.draw()?,
            Err(error) => return Err(error).context("the key of tokens"),
        };
        Ok(TokenKey::new(1, &bytes))
    }

    /// Draws the node's own key and keeps it.
    fn draw(&self) -> anyhow::Result<[u8; 32]> {
        let mut bytes = [0; 32];
        OsRng.fill(&mut bytes);
        weir_io::durable::write_file(&self.path, &bytes, 0o600)
            .with_context(|| format!("cannot keep the token key in {}", self.path.display()))?;
        Ok(bytes)
    }

    /// Describes a token's contents, as text or as one JSON object.
    ///
    /// # Errors
    /// When the key is missing or the token is invalid.
    pub fn describe(&self, token: &[u8], json: bool) -> anyhow::Result<String> {
        anyhow::ensure!(self.path.is_file(), "{} is not there", self.path.display());
        let sealer = TokenSealer::new(self.key()?, NonceCounter::new(0, Nanos(0)));
        let (head, cursors) = (sealer.peek_head(token)?, sealer.peek(token)?);
        if json {
            let sources: Vec<_> = cursors.iter().map(cursor_json).collect();
            let object = serde_json::json!({
                "version": head.version, "key_id": head.key_id, "scope_check": head.scope_check,
                "maker": head.maker, "count": head.count, "sources": sources,
            });
            return Ok(object.to_string());
        }
        let mut lines = vec![format!(
            "version {}  key {}  scope check {:#04x}  maker {}  count {}",
            head.version, head.key_id, head.scope_check, head.maker, head.count
        )];
        lines.extend(cursors.iter().map(cursor_line));
        Ok(lines.join("\n"))
    }
}

fn cursor_json(cursor: &SourceCursor) -> serde_json::Value {
    serde_json::json!({
        "source": cursor.source.0, "epoch": cursor.epoch.0,
        "seq": cursor.change_id.seq.0, "rec": cursor.change_id.rec.0, "seen": cursor.seen.0,
        "since": cursor.since.seq.0, "since_rec": cursor.since.rec.0,
        "log": format!("{:016x}", cursor.log.0),
    })
}

/// Formats a cursor. `seen` is the newest change known to the pages so far; a later epoch must
/// include it even if it is ahead of the cursor.
fn cursor_line(cursor: &SourceCursor) -> String {
    let (source, epoch) = (cursor.source.0, cursor.epoch.0);
    let (seq, rec, seen) = (cursor.change_id.seq.0, cursor.change_id.rec.0, cursor.seen.0);
    let ahead = seen.saturating_sub(seq);
    format!("source {source}  epoch {epoch}  seq {seq}  rec {rec}  seen {seen} ({ahead} ahead)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_makes_its_own_key_once_and_a_shared_one_never() {
        let dir = tempfile::tempdir().unwrap();
        let own = TokenKeyFile::own(dir.path());
        own.keys().unwrap();
        let made = std::fs::read(dir.path().join(TOKEN_KEY_FILE)).unwrap();
        own.keys().unwrap();
        assert_eq!(std::fs::read(dir.path().join(TOKEN_KEY_FILE)).unwrap(), made);
        let path = dir.path().join("shared.key");
        let error = TokenKeyFile::shared(&path).keys().unwrap_err();
        assert!(format!("{error:#}").contains("shared.key"), "{error:#}");
        assert!(!path.exists());
        weir_io::durable::write_file(&path, &[1; 31], 0o600).unwrap();
        let error = TokenKeyFile::shared(&path).keys().unwrap_err();
        assert!(error.to_string().contains("holds no key"), "{error}");
    }
}
