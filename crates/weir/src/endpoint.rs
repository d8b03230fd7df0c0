//! How a command reaches a node, and how it writes what it hears: addresses, keys, decimals.
//!
//! A key is never printed and never taken from a place that other users can read by default: it
//! comes from an option, the environment or a file.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use weir_client::status::{InstrumentStatus, StatusPage};
use weir_client::{Admin, Client, ClientError, Key, Limits, SessionConfig, Target, resolve};
use weir_tls::ClientTls;
use weir_tls::client::Trust;
use weir_types::SessionId;
use weir_wire::session::ApiKey;

use super::keygen::read_signing_key;

pub use weir_types::hex::{hex, parse_hex};

/// How long a command waits for an answer.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// Where a node is.
#[derive(Clone, Debug, clap::Args)]
pub struct Endpoint {
    /// The node's order entry and delivery.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7001")]
    pub node: String,
    /// The node's status page.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7080")]
    pub http: String,
    /// How to know the node, where it wants TLS.
    #[command(flatten)]
    pub tls: TlsArgs,
}

/// How a command knows a node with TLS, and shows who it is itself.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TlsArgs {
    /// TLS: authorities that may sign the node's certificate (PEM).
    #[arg(long, value_name = "FILE", env = "WEIR_TLS_CA", conflicts_with = "tls_pin")]
    pub tls_ca: Option<PathBuf>,
    /// TLS: the one certificate that the node must show (PEM).
    #[arg(long, value_name = "FILE")]
    pub tls_pin: Option<PathBuf>,
    /// The name in the node's certificate; the host of its address when not given.
    #[arg(long, value_name = "NAME")]
    pub tls_name: Option<String>,
    /// A certificate of one's own, where the node asks for one (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// Its private key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
}

impl TlsArgs {
    /// The client's end of TLS with the node at `address`; `None` when nothing asks for TLS.
    ///
    /// # Errors
    /// When a file cannot be read, or an option stands without the one that it belongs to.
    pub fn client(&self, address: &str) -> anyhow::Result<Option<ClientTls>> {
        let trust = match (&self.tls_ca, &self.tls_pin) {
            (Some(path), _) => Trust::Authority(path),
            (None, Some(path)) => Trust::Pinned(path),
            (None, None) => {
                let alone = self.tls_name.is_some() || self.tls_certificate.is_some();
                anyhow::ensure!(!alone, "TLS needs --tls-ca or --tls-pin: whom to believe");
                return Ok(None);
            }
        };
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = self.tls_name.as_deref().unwrap_or(host);
        let tls = match (&self.tls_certificate, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                ClientTls::with_certificate(trust, name, (certificate, key))?
            }
            _ => ClientTls::new(trust, name)?,
        };
        Ok(Some(tls))
    }
}

/// Where a node is and who asks.
#[derive(Clone, Debug, clap::Args)]
pub struct Login {
    /// Where.
    #[command(flatten)]
    pub endpoint: Endpoint,
    /// The session to log on as; 1 is the operator that a node begins with.
    #[arg(long, value_name = "ID", default_value_t = 1)]
    pub session: u32,
    /// The session's API key, 64 hexadecimal digits.
    #[arg(long, value_name = "HEX", env = "WEIR_API_KEY", hide_env_values = true)]
    pub key: Option<String>,
    /// A file that holds the key.
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    pub key_file: Option<PathBuf>,
    /// The session's secret key, a file of `weir keygen`: logs on by signature. Goes before an API
    /// key of the environment.
    #[arg(long, value_name = "FILE", conflicts_with = "key_file")]
    pub signing_key: Option<PathBuf>,
}

impl Endpoint {
    /// The node's order entry.
    ///
    /// # Errors
    /// When the address does not resolve or the options of TLS are refused.
    pub fn target(&self) -> anyhow::Result<Target> {
        Ok(Target { address: resolve(&self.node)?, tls: self.tls.client(&self.node)? })
    }

    /// The status page.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn status(&self) -> anyhow::Result<StatusPage> {
        Ok(StatusPage::fetch(&self.http)?)
    }

    /// An instrument by its symbol or its number.
    ///
    /// # Errors
    /// When the node has none of that name.
    pub fn instrument(&self, name: &str) -> anyhow::Result<InstrumentStatus> {
        let page = self.status()?;
        let by_number = || {
            let id = name.parse::<u32>().ok()?;
            page.instruments.iter().find(|instrument| instrument.id == id)
        };
        let found = page.instrument(name).or_else(by_number).cloned();
        found.with_context(|| {
            let mut known: Vec<_> = page.instruments.iter().map(|i| i.symbol.as_str()).collect();
            known.truncate(20);
            format!("the node has no instrument {name:?}; it has {}", known.join(", "))
        })
    }
}

impl Login {
    /// The session's identifier.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        SessionId(self.session)
    }

    /// The key.
    ///
    /// # Errors
    /// When none is given, it is not 64 hexadecimal digits, or others may read a secret key.
    pub fn key(&self) -> anyhow::Result<Key> {
        if let Some(path) = &self.signing_key {
            return Ok(Key::Signing(read_signing_key(path)?));
        }
        let text = match (&self.key, &self.key_file) {
            (Some(text), _) => text.clone(),
            (None, Some(path)) => std::fs::read_to_string(path)
                .with_context(|| format!("key file {}", path.display()))?,
            (None, None) => {
                bail!("no key: give --key, --key-file, --signing-key or WEIR_API_KEY")
            }
        };
        parse_key(&text).map(Key::Api)
    }

    /// An operator's session, once no other command has it.
    ///
    /// # Errors
    /// When the node cannot be reached or refuses the logon.
    pub fn admin(&self) -> anyhow::Result<Admin> {
        let target = self.endpoint.target()?;
        let (session_id, key) = (self.session_id(), self.key()?);
        Ok(once_free(|| Admin::connect(target.clone(), (session_id, key), TIMEOUT))?)
    }

    /// A client with the session open.
    ///
    /// # Errors
    /// As [`Login::admin`].
    pub fn client(&self) -> anyhow::Result<Client> {
        let mut client = Client::connect(self.endpoint.target()?, Limits::default())?;
        client.log_on(SessionConfig::new(self.session_id(), self.key()?), TIMEOUT)?;
        Ok(client)
    }
}

/// Asks, and again while the session is logged on by another command or by a connection that has
/// just ended.
///
/// # Errors
/// As `ask`; that it is logged on, after [`TIMEOUT`].
pub fn once_free<T>(mut ask: impl FnMut() -> Result<T, ClientError>) -> Result<T, ClientError> {
    let begun = Instant::now();
    loop {
        match ask() {
            Err(error) if error.is_session_taken() && begun.elapsed() < TIMEOUT => {
                std::thread::sleep(Duration::from_millis(10));
            }
            asked => return asked,
        }
    }
}

/// A key from its 64 hexadecimal digits.
///
/// # Errors
/// When the text is anything else; the text is not repeated.
pub fn parse_key(text: &str) -> anyhow::Result<ApiKey> {
    let bytes = parse_hex(text.trim()).context("an API key is hexadecimal")?;
    let key = <[u8; 32]>::try_from(bytes);
    key.map(ApiKey).map_err(|_| anyhow::anyhow!("an API key has 64 hexadecimal digits"))
}

/// `mantissa` times ten to `exponent`, exactly.
#[must_use]
pub fn decimal(mantissa: i128, exponent: i8) -> String {
    let digits = mantissa.unsigned_abs().to_string();
    let sign = if mantissa < 0 { "-" } else { "" };
    if exponent >= 0 {
        let zeros = if mantissa == 0 { 0 } else { usize::from(exponent.unsigned_abs()) };
        return format!("{sign}{digits}{}", "0".repeat(zeros));
    }
    let places = usize::from(exponent.unsigned_abs());
    let digits = format!("{digits:0>width$}", width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    format!("{sign}{whole}.{fraction}")
}

/// Nanoseconds for people: three digits and a unit.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub fn span(nanos: u64) -> String {
    let value = nanos as f64;
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => format!("{:.1} µs", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", value / 1e6),
        _ => format!("{:.2} s", value / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        let cases = [
            (58_653, -2, "586.53"),
            (-5, -2, "-0.05"),
            (0, -4, "0.0000"),
            (7, 0, "7"),
            (7, 3, "7000"),
            (0, 3, "0"),
            (i128::MIN, 0, "-170141183460469231731687303715884105728"),
        ];
        for (mantissa, exponent, want) in cases {
            assert_eq!(decimal(mantissa, exponent), want);
        }
    }

    #[test]
    fn keys_are_64_hexadecimal_digits() {
        assert_eq!(parse_key(&"0f".repeat(32)).unwrap(), ApiKey([15; 32]));
        for text in ["", "0f", &"0g".repeat(32), &"é".repeat(32), &"0f".repeat(33)] {
            let error = parse_key(text).unwrap_err().to_string();
            assert!(text.is_empty() || !error.contains(text), "a key is not repeated: {error}");
        }
        assert_eq!(parse_hex(&hex(&[0, 255, 16])), Some(vec![0, 255, 16]));
    }

    #[test]
    fn spans_have_a_unit_that_fits() {
        let cases = [(7, "7 ns"), (1_500, "1.5 µs"), (2_340_000, "2.34 ms"), (3 << 30, "3.22 s")];
        for (nanos, want) in cases {
            assert_eq!(span(nanos), want);
        }
    }
}
