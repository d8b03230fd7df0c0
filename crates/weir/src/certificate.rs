//! `weir certificate`: a certificate for a node or a client, of an authority made for it alone.
//!
//! For tests, demonstrations and private networks. The authority's key is never written: a further
//! certificate is of another authority. Who has an authority of their own takes that.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use weir_tls::authority::{Authority, Usage};

use crate::plant::{self, Plant};

/// Options of `weir certificate`.
#[derive(Debug, clap::Args)]
pub struct CertificateArgs {
    /// Directory of the files.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// The node's DNS names and addresses, as clients use them; or the client's name.
    #[arg(long = "name", value_name = "NAME", required = true, value_parser = parse_name)]
    names: Vec<String>,
    /// For a client, not for a node.
    #[arg(long)]
    client: bool,
    /// One JSON object instead of lines.
    #[arg(long)]
    json: bool,
}

fn parse_name(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() {
        return Err("a certificate needs a name: want a DNS name, an address or a client's name");
    }
    Ok(text.to_owned())
}

/// The files of a certificate.
#[derive(Clone, Debug)]
pub struct Files {
    /// The authority: what the other side is to believe.
    pub ca: PathBuf,
    /// The certificate.
    pub certificate: PathBuf,
    /// Its private key, readable by its owner only.
    pub key: PathBuf,
}

/// Runs `weir certificate`.
///
/// # Errors
/// When a name is none, a file is there already or cannot be written.
pub fn run(args: CertificateArgs) -> anyhow::Result<()> {
    let names: Vec<_> = args.names.iter().map(String::as_str).collect();
    let usage = if args.client { Usage::Client } else { Usage::Server };
    let files = make(&args.dir, &names, usage)?;
    if args.json {
        let object = serde_json::json!({
            "certificate": files.certificate.display().to_string(),
            "key": files.key.display().to_string(), "authority": files.ca.display().to_string(),
        });
        println!("{object}");
        return Ok(());
    }
    let side = if args.client { "node" } else { "clients" };
    println!("certificate  {}", files.certificate.display());
    println!("key          {}", files.key.display());
    println!("authority    {}  (for the {side})", files.ca.display());
    Ok(())
}

/// Makes a certificate in `dir`.
///
/// # Errors
/// As [`run`].
pub fn make(dir: &Path, names: &[&str], usage: Usage) -> anyhow::Result<Files> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let who = if usage == Usage::Client { "client" } else { "node" };
    let files = Files {
        ca: dir.join(format!("{who}-ca.pem")),
        certificate: dir.join(format!("{who}.pem")),
        key: dir.join(format!("{who}.key")),
    };
    let authority = Authority::new(&format!("weir certificate: {}", names.join(", ")))?;
    let signed = authority.sign(names, usage)?;
    let texts = [
        (&files.ca, 0o644, authority.certificate()),
        (&files.certificate, 0o644, signed.certificate),
        (&files.key, 0o600, signed.key),
    ];
    let replaces = plant::is(Plant::AuthorityReplaced);
    if let Some((path, ..)) = texts.iter().find(|(path, ..)| path.exists() && !replaces) {
        bail!("{} is there, and others may trust it: name another directory", path.display());
    }
    for (path, mode, text) in texts {
        std::fs::OpenOptions::new()
            .write(true)
            .create_new(!replaces)
            .create(replaces)
            .truncate(replaces)
            .mode(mode)
            .open(path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_that_others_may_trust_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let first = make(dir.path(), &["localhost"], Usage::Server).unwrap();
        let authority = std::fs::read(&first.ca).unwrap();
        let error = make(dir.path(), &["localhost"], Usage::Server).unwrap_err().to_string();
        assert!(error.contains("node-ca.pem is there"), "{error}");
        assert_eq!(std::fs::read(&first.ca).unwrap(), authority);
        make(dir.path(), &["alice"], Usage::Client).expect("a client's files have other names");
    }

    #[cfg(feature = "planted")]
    #[test]
    fn the_planted_bug_of_a_replaced_authority_is_found() {
        plant::set(Some(Plant::AuthorityReplaced));
        let test = an_authority_that_others_may_trust_is_not_replaced;
        let is_found = std::panic::catch_unwind(test).is_err();
        plant::set(None);
        assert!(is_found);
    }
}
