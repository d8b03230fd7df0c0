//! A node's addresses, TLS and session as options of a command; decimals and spans as text.
//!
//! A key is never printed. It comes from an option, the environment, a file, or the directory of a
//! node on this machine.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use weir_client::status::{InstrumentStatus, StatusPage};
use weir_client::{Admin, Client, ClientError, Key, Limits, SessionConfig, Target};
use weir_tls::client::Trust;
use weir_tls::{ClientTls, read_secret_text};
use weir_types::SessionId;
use weir_wire::session::ApiKey;

use super::explain::{self, Attempt};
use super::keygen::read_signing_key;
use super::{ports, units};

pub use weir_types::hex::{hex, parse_hex};

/// The time that a command waits for an answer.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// The longest time until a definition is on the status page.
const PAGE_LAG_MAX: Duration = Duration::from_secs(1);
/// The environment variable with the directory of a node on this machine.
pub const DIR_VARIABLE: &str = "WEIR_DIR";
/// The environment variable with the directory of a gateway on this machine.
pub const MARKET_DIR_VARIABLE: &str = "WEIR_MARKET_DIR";
const KEY_VARIABLE: &str = "WEIR_API_KEY";

/// A node's addresses.
#[derive(Clone, Debug, clap::Args)]
pub struct Endpoint {
    /// The node's order entry and delivery: HOST:PORT.
    #[arg(long, value_name = "ADDRESS", default_value_t = ports::local(ports::NODE).to_string())]
    pub node: String,
    /// The node's status page: HOST:PORT. By default port 7080 of this machine for a node, 7082 for
    /// a market-data gateway.
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<String>,
    /// The node's TLS.
    #[command(flatten)]
    pub tls: TlsArgs,
}

/// The certificates that a command trusts, and its own.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TlsArgs {
    /// TLS: authorities that may sign the node's certificate (PEM).
    #[arg(long, value_name = "FILE", env = "WEIR_TLS_CA", conflicts_with = "tls_pin")]
    pub tls_ca: Option<PathBuf>,
    /// TLS: the one certificate that the node must show (PEM).
    #[arg(long, value_name = "FILE")]
    pub tls_pin: Option<PathBuf>,
    /// TLS: the name in the node's certificate; by default the host of its address.
    #[arg(long, value_name = "NAME")]
    pub tls_name: Option<String>,
    /// TLS: the client's own certificate, for a node that requires one (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// TLS: the private key of the client's certificate (PEM).
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
                anyhow::ensure!(!alone, "TLS needs --tls-ca or --tls-pin: the trusted certificate");
                return Ok(None);
            }
        };
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = self.tls_name.as_deref().unwrap_or(host);
        let tls = match (&self.tls_certificate, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                ClientTls::with_certificate(trust, name, certificate, key)?
            }
            _ => ClientTls::new(trust, name)?,
        };
        Ok(Some(tls))
    }
}

/// A node's addresses and the session that a command logs on as.
#[derive(Clone, Debug, clap::Args)]
pub struct Login {
    /// The node.
    #[command(flatten)]
    pub endpoint: Endpoint,
    /// The session to log on as; 1 is a node's first operator.
    #[arg(long, value_name = "ID", default_value_t = 1)]
    pub session: u32,
    /// The session's API key, 64 hexadecimal digits. Without an option for a key, the variable
    /// WEIR_API_KEY, then the key file in --dir.
    #[arg(long, value_name = "HEX", conflicts_with_all = ["key_file", "signing_key"])]
    pub key: Option<String>,
    /// A file that holds the API key.
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// The session's secret key, a file of `weir keygen`: logs on by signature.
    #[arg(long, value_name = "FILE", conflicts_with = "key_file")]
    pub signing_key: Option<PathBuf>,
    /// The directory of a node on this machine, for its key files: operator.key is session 1's,
    /// session-N.key that of session N (`weir admin session --keep-key`). By default WEIR_DIR, else
    /// weir-data; for a market-data gateway WEIR_MARKET_DIR, else weir-market.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

impl Endpoint {
    /// The node's order entry.
    ///
    /// # Errors
    /// When the address does not resolve or the options of TLS are refused.
    pub fn target(&self) -> anyhow::Result<Target> {
        self.target_at(&self.node, "--node")
    }

    /// Another listener of the node, named by `option`.
    ///
    /// # Errors
    /// As [`Endpoint::target`].
    pub fn target_at(&self, address: &str, option: &str) -> anyhow::Result<Target> {
        let resolved = units::address(address);
        let resolved = resolved.map_err(|why| anyhow::anyhow!("{option} {address}: {why}"))?;
        Ok(Target::of(resolved, self.tls.client(address)?))
    }

    /// The address of the status page.
    #[must_use]
    pub fn http(&self) -> String {
        self.http.clone().unwrap_or_else(|| ports::local(ports::HTTP).to_string())
    }

    /// The address of a gateway's status page.
    #[must_use]
    pub fn gateway_http(&self) -> String {
        self.http.clone().unwrap_or_else(|| ports::local(ports::GATEWAY_HTTP).to_string())
    }

    /// The status page.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn status(&self) -> anyhow::Result<StatusPage> {
        let http = self.http();
        StatusPage::fetch(&http).map_err(|error| explain::of_status(error, &http))
    }

    /// The status page once `find` finds something in it, or as it is after a second: a definition
    /// is on the page a moment after it was accepted.
    ///
    /// # Errors
    /// When the page cannot be read.
    pub fn status_until<T>(
        &self,
        find: impl FnMut(&StatusPage) -> Option<T>,
    ) -> anyhow::Result<(StatusPage, Option<T>)> {
        self.status_within(PAGE_LAG_MAX, find)
    }

    /// As [`Endpoint::status_until`], for another time than a second.
    ///
    /// # Errors
    /// When the page cannot be read.
    pub fn status_within<T>(
        &self,
        limit: Duration,
        mut find: impl FnMut(&StatusPage) -> Option<T>,
    ) -> anyhow::Result<(StatusPage, Option<T>)> {
        let begun = Instant::now();
        loop {
            let page = self.status()?;
            let found = find(&page);
            if found.is_some() || begun.elapsed() >= limit {
                return Ok((page, found));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// An instrument by its symbol or its number.
    ///
    /// # Errors
    /// When the node has none of that name.
    pub fn instrument(&self, name: &str) -> anyhow::Result<InstrumentStatus> {
        let find = |page: &StatusPage| {
            let by_number = || {
                let id = name.parse::<u32>().ok()?;
                page.instruments.iter().find(|instrument| instrument.id == id)
            };
            page.instrument(name).or_else(by_number).cloned()
        };
        let (page, found) = self.status_until(find)?;
        found.with_context(|| {
            let mut known: Vec<_> = page.instruments.iter().map(|i| i.symbol.as_str()).collect();
            if known.is_empty() {
                return format!(
                    "the node has no instrument {name:?}, nor any other: define one with \
                     `weir admin instrument`"
                );
            }
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
    /// When none is given, it is not 64 hexadecimal digits, or others may read the file of a key.
    pub fn key(&self) -> anyhow::Result<Key> {
        let dir = dir_of(self.dir.as_deref(), DIR_VARIABLE, "weir-data");
        self.key_for(&self.endpoint.node, &dir)
    }

    /// The key at a market-data gateway, which has a directory of its own.
    ///
    /// # Errors
    /// As [`Login::key`].
    pub fn market_key(&self, address: &str) -> anyhow::Result<Key> {
        let dir = dir_of(self.dir.as_deref(), MARKET_DIR_VARIABLE, "weir-market");
        self.key_for(address, &dir)
    }

    fn key_for(&self, address: &str, dir: &Path) -> anyhow::Result<Key> {
        if let Some(path) = &self.signing_key {
            return Ok(Key::Signing(read_signing_key(path)?));
        }
        if let Some(text) = &self.key {
            return parse_key(text).map(Key::Api).context("--key");
        }
        let file = match (&self.key_file, std::env::var_os(KEY_VARIABLE)) {
            (Some(path), _) => path.clone(),
            (None, Some(text)) if !text.is_empty() => {
                // A text that is not UTF-8 has other characters than digits in any case.
                return parse_key(&text.to_string_lossy()).map(Key::Api).context(KEY_VARIABLE);
            }
            (None, _) => {
                let path = dir.join(key_file_name(self.session));
                // A local node's key goes to no other machine unless an option says so.
                let is_local = units::address(address).is_ok_and(|at| at.ip().is_loopback());
                let may_take = self.dir.is_some() || is_local;
                anyhow::ensure!(may_take && path.is_file(), "{}", self.no_key(&path));
                path
            }
        };
        let text = read_secret_text(&file).context("key file")?;
        parse_key(&text).map(Key::Api).with_context(|| format!("key file {}", file.display()))
    }

    fn no_key(&self, path: &Path) -> String {
        let session = self.session;
        let why = if path.is_file() { "is for a node on this machine" } else { "is not there" };
        format!(
            "no key for session {session}: {} {why}; run the command next to the node's \
             directory, name that with --dir, or give --key-file, --key, --signing-key or \
             {KEY_VARIABLE}",
            path.display()
        )
    }

    /// Connects an operator's session, once no other command has it.
    ///
    /// # Errors
    /// When the node cannot be reached or refuses the logon.
    pub fn admin(&self) -> anyhow::Result<Admin> {
        let target = self.endpoint.target()?;
        let (session_id, key) = (self.session_id(), self.key()?);
        once_free(|| Admin::connect(target.clone(), session_id, key, TIMEOUT))
            .map_err(|error| self.explain(error))
    }

    /// As [`Login::admin`]; the session is taken over from a connection that keeps it for as long
    /// as the patience: a command does not wait for a process that hangs.
    ///
    /// # Errors
    /// As [`Login::admin`].
    pub fn admin_within(&self, patience: Duration) -> anyhow::Result<Admin> {
        let target = self.endpoint.target()?;
        let config = SessionConfig::new(self.session_id(), self.key()?);
        once_free_or_taken(patience, |takeover| {
            Admin::connect_as(target.clone(), SessionConfig { takeover, ..config }, TIMEOUT)
        })
        .map_err(|error| self.explain(error))
    }

    /// Connects a client with the session open.
    ///
    /// # Errors
    /// As [`Login::admin`].
    pub fn client(&self) -> anyhow::Result<Client> {
        let target = self.endpoint.target()?;
        let config = SessionConfig::new(self.session_id(), self.key()?);
        once_free(|| {
            let mut client = Client::connect(target.clone(), Limits::default())?;
            client.log_on(config, TIMEOUT)?;
            Ok(client)
        })
        .map_err(|error| self.explain(error))
    }

    /// An error of connecting or logging on, with the next step.
    #[must_use]
    pub fn explain(&self, error: ClientError) -> anyhow::Error {
        let dir = dir_of(self.dir.as_deref(), DIR_VARIABLE, "weir-data");
        let http = self.endpoint.http();
        self.explain_at(&self.endpoint.node, "--node", &http, &dir, error)
    }

    /// As [`Login::explain`], at a gateway's listener for subscribers.
    #[must_use]
    pub fn explain_market(&self, address: &str, error: ClientError) -> anyhow::Error {
        let dir = dir_of(self.dir.as_deref(), MARKET_DIR_VARIABLE, "weir-market");
        let http = self.endpoint.gateway_http();
        self.explain_at(address, "--market", &http, &dir, error)
    }

    fn explain_at(
        &self,
        address: &str,
        option: &str,
        http: &str,
        dir: &Path,
        error: ClientError,
    ) -> anyhow::Error {
        let has_tls = self.endpoint.tls.tls_ca.is_some() || self.endpoint.tls.tls_pin.is_some();
        let key_from = self.key_from(dir);
        let session = self.session;
        let attempt = Attempt { address, option, http, has_tls, session, key_from: &key_from };
        explain::of_connection(error, &attempt)
    }

    /// The source of the key, as [`Login::key`] chooses it.
    fn key_from(&self, dir: &Path) -> String {
        let file = |path: &Path| path.display().to_string();
        match (&self.signing_key, &self.key, &self.key_file) {
            (Some(path), ..) | (None, None, Some(path)) => file(path),
            (None, Some(_), _) => "--key".to_owned(),
            (None, None, None) if std::env::var_os(KEY_VARIABLE).is_some_and(|k| !k.is_empty()) => {
                KEY_VARIABLE.to_owned()
            }
            (None, None, None) => file(&dir.join(key_file_name(self.session))),
        }
    }
}

/// The name of a session's key file in a node's directory.
#[must_use]
pub fn key_file_name(session: u32) -> String {
    match session {
        1 => "operator.key".to_owned(),
        other => format!("session-{other}.key"),
    }
}

/// The directory of a node on this machine: an option, else an environment variable, else a
/// default.
#[must_use]
pub fn dir_of(option: Option<&Path>, variable: &str, default: &str) -> PathBuf {
    let from_environment = || std::env::var_os(variable).filter(|dir| !dir.is_empty());
    let given = option.map(Path::to_owned).or_else(|| from_environment().map(PathBuf::from));
    given.unwrap_or_else(|| PathBuf::from(default))
}

/// Asks, and repeats it while the session belongs to another command or to a connection that has
/// just ended. Takes no session over: a reader that comes back must not end a command.
///
/// # Errors
/// As `ask`; that it is logged on, after [`TIMEOUT`].
pub fn once_free<T>(mut ask: impl FnMut() -> Result<T, ClientError>) -> Result<T, ClientError> {
    once_free_or_taken(Duration::MAX, |_| ask())
}

/// As [`once_free`]; once the session has been taken for as long as the patience, `ask` is given
/// true and asks for a takeover. The time is that of the whole wait, since a refusal does not name
/// the connection that has the session: behind several others, or a long one, a command may end the
/// one at work.
///
/// # Errors
/// As [`once_free`].
pub fn once_free_or_taken<T>(
    patience: Duration,
    mut ask: impl FnMut(bool) -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let begun = Instant::now();
    let mut taken_since: Option<Instant> = None;
    loop {
        let takes_over = taken_since.is_some_and(|since| since.elapsed() >= patience);
        match ask(takes_over) {
            Err(error) if error.is_session_taken() && begun.elapsed() < TIMEOUT => {
                taken_since.get_or_insert_with(Instant::now);
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
    use weir_types::{EventNo, PartitionId, Reason};

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        login: Login,
    }

    fn key_of(words: &[&str]) -> anyhow::Result<ApiKey> {
        let line = <Line as clap::Parser>::try_parse_from([&["weir"], words].concat())?;
        match line.login.key()? {
            Key::Api(key) => Ok(key),
            Key::Signing(_) => anyhow::bail!("a secret key"),
        }
    }

    #[test]
    fn a_node_on_this_machine_lends_its_keys_and_options_go_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, digits: &str| {
            let text = format!("{}\n", digits.repeat(32));
            weir_io::durable::write_file(&dir.path().join(name), text.as_bytes(), 0o600).unwrap();
        };
        write("operator.key", "01");
        write("session-11.key", "11");
        write("other.key", "77");
        let place = dir.path().to_str().unwrap();
        let other = dir.path().join("other.key");
        let other = other.to_str().unwrap();
        let hex = "05".repeat(32);
        let cases: [(&[&str], Result<u8, &str>); 7] = [
            (&["--dir", place], Ok(0x01)),
            (&["--dir", place, "--session", "11"], Ok(0x11)),
            (&["--dir", place, "--key-file", other], Ok(0x77)),
            (&["--dir", place, "--key", &hex], Ok(0x05)),
            (&["--dir", place, "--session", "12"], Err("session-12.key is not there")),
            (&["--key", &hex, "--key-file", other], Err("cannot be used with")),
            (&["--key", "05"], Err("64 hexadecimal digits")),
        ];
        for (words, want) in cases {
            match (key_of(words), want) {
                (Ok(key), Ok(byte)) => assert_eq!(key, ApiKey([byte; 32]), "{words:?}"),
                (Err(error), Err(text)) => {
                    assert!(format!("{error:#}").contains(text), "{words:?}: {error:#}");
                }
                (got, want) => panic!("{words:?}: {got:?}, want {want:?}"),
            }
        }
    }

    #[test]
    fn a_session_is_taken_over_only_once_it_was_taken_for_as_long_as_the_patience() {
        let taken = || ClientError::LogonRejected {
            session_id: SessionId(1),
            reason: Reason::AlreadyLoggedOn,
            partition_id: PartitionId::NONE,
            oldest_event_no: EventNo::NONE,
            next_event_no: EventNo::NONE,
        };
        let patience = Duration::from_millis(40);
        let (mut first, mut asked) = (None, Vec::new());
        let waited = once_free_or_taken(patience, |takes_over| {
            asked.push(takes_over);
            let first: Instant = *first.get_or_insert_with(Instant::now);
            if takes_over { Ok(first.elapsed()) } else { Err(taken()) }
        });
        assert!(waited.unwrap() >= patience);
        assert_eq!(asked.iter().filter(|takes_over| **takes_over).count(), 1);
        assert!(asked.len() > 1, "the first time the session may be free");
        // The session is free before the patience ends.
        let mut left = 2;
        let freed = once_free_or_taken(Duration::from_secs(60), |takes_over| {
            assert!(!takes_over);
            left -= 1;
            if left == 0 { Ok(()) } else { Err(taken()) }
        });
        freed.unwrap();
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
