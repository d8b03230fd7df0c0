//! `weir keygen`: a key pair for a session; and files with secrets, which only their owner reads.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use weir_client::SigningKey;
use weir_tls::read_secret_text;
use weir_types::hex::{hex, parse_hex};

/// Options of `weir keygen`.
#[derive(Debug, clap::Args)]
pub struct KeygenArgs {
    /// The secret key's file; the public key goes into FILE.pub.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// One JSON object instead of a sentence.
    #[arg(long)]
    json: bool,
}

/// Runs `weir keygen`.
///
/// # Errors
/// When a file is there already or cannot be written.
pub fn run(args: KeygenArgs) -> anyhow::Result<()> {
    let key = SigningKey::fresh()?;
    let public = hex(&key.public());
    let mut beside = args.out.clone().into_os_string();
    beside.push(".pub");
    let beside = PathBuf::from(beside);
    write_new(&args.out, &hex(&key.seed()), 0o600)?;
    write_new(&beside, &public, 0o644)?;
    let (secret, beside) = (args.out.display().to_string(), beside.display().to_string());
    if args.json {
        let told = serde_json::json!({
            "secret_key_file": secret, "public_key_file": beside, "public_key": public,
        });
        println!("{told}");
    } else {
        println!("secret key: {secret}; keep it\npublic key: {beside}\n{public}");
    }
    Ok(())
}

/// Writes a line to a new file. One that is there is left alone: it may hold the only copy of a
/// key.
fn write_new(path: &Path, line: &str, mode: u32) -> anyhow::Result<()> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let mut file = opened.with_context(|| format!("cannot make {}", path.display()))?;
    writeln!(file, "{line}").with_context(|| format!("cannot write {}", path.display()))?;
    file.sync_all().with_context(|| format!("cannot write {}", path.display()))
}

/// The secret key in a file of `weir keygen`.
///
/// # Errors
/// When the file cannot be read, others than its owner may read it, or it holds no key. The text is
/// not repeated.
pub fn read_signing_key(path: &Path) -> anyhow::Result<SigningKey> {
    let text = read_secret_text(path).context("secret key")?;
    let key = key_of(&text).with_context(|| format!("secret key {}", path.display()))?;
    Ok(SigningKey::from_seed(key))
}

/// The public key in a file of `weir keygen`.
///
/// # Errors
/// When the file cannot be read or holds no public key.
pub fn read_public_key(path: &Path) -> anyhow::Result<[u8; 32]> {
    let key = read_key(path).with_context(|| format!("public key {}", path.display()))?;
    if !weir_client::key::is_public_key(&key) {
        bail!("public key {}: no Ed25519 public key", path.display());
    }
    Ok(key)
}

fn read_key(path: &Path) -> anyhow::Result<[u8; 32]> {
    key_of(&std::fs::read_to_string(path)?)
}

fn key_of(text: &str) -> anyhow::Result<[u8; 32]> {
    parse_32(text).context("want 64 hexadecimal digits")
}

/// 32 bytes from their 64 hexadecimal digits.
#[must_use]
pub fn parse_32(text: &str) -> Option<[u8; 32]> {
    <[u8; 32]>::try_from(parse_hex(text.trim())?).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    fn generate(dir: &Path) -> PathBuf {
        let out = dir.join("alice.key");
        run(KeygenArgs { out: out.clone(), json: false }).unwrap();
        out
    }

    #[test]
    fn a_key_pair_reads_back_and_only_its_owner_reads_the_secret() {
        let dir = tempfile::tempdir().unwrap();
        let path = generate(dir.path());
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let key = read_signing_key(&path).unwrap();
        let public = read_public_key(&dir.path().join("alice.key.pub")).unwrap();
        assert_eq!(key.public(), public);
    }

    #[test]
    fn a_secret_that_others_may_read_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = generate(dir.path());
        for mode in [0o640, 0o604, 0o620] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = format!("{:#}", read_signing_key(&path).unwrap_err());
            assert!(error.contains(&format!("mode {mode:03o}")), "{error}");
        }
    }

    #[test]
    fn a_key_that_is_there_is_never_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = generate(dir.path());
        let before = std::fs::read(&path).unwrap();
        let again = run(KeygenArgs { out: path.clone(), json: false });
        assert!(again.unwrap_err().to_string().starts_with("cannot make"));
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[test]
    fn what_is_no_key_is_refused_and_not_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("no.key");
        for text in ["", "0f", &"0g".repeat(32), &"00".repeat(32), &"0f".repeat(33)] {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            let error = format!("{:#}", read_public_key(&path).unwrap_err());
            assert!(text.is_empty() || !error.contains(text), "{error}");
        }
    }
}
