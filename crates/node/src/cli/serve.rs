//! `weir serve`: runs a node until SIGTERM or SIGINT, then stops it in order.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use weir_types::Durability;

use crate::config::{Config, TlsSection};
use crate::node::Node;
use crate::runner::WaitStrategy;

/// Options of `weir serve`. They go over the configuration file, that over the defaults.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ServeArgs {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Directory of logs and snapshots.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// What an acknowledgement promises: memory, os or disk.
    #[arg(long, value_name = "LEVEL")]
    pub durability: Option<Durability>,
    /// Where order entry and delivery listen.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Where metrics and status are served.
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<SocketAddr>,
    /// What an idle thread does: park, yield or spin.
    #[arg(long, value_name = "STRATEGY")]
    pub wait: Option<WaitStrategy>,
    /// Certificate of the node for TLS on order entry and delivery, with those between it and its
    /// authority (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// The certificate's private key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// Clients must show a certificate of one of these authorities (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_client_ca: Option<PathBuf>,
    /// API key of the first operator (session 1), 64 hexadecimal digits.
    #[arg(long, value_name = "HEX", env = "WEIR_BOOTSTRAP_KEY", hide_env_values = true)]
    pub bootstrap_key: Option<String>,
    /// Do not stamp orders (to measure what stamping costs).
    #[arg(long)]
    pub no_probes: bool,
}

impl ServeArgs {
    /// The configuration that these options make.
    ///
    /// # Errors
    /// When the file or a value is refused.
    pub fn config(&self) -> anyhow::Result<Config> {
        let mut config = match &self.config {
            Some(path) => {
                Config::load(path).with_context(|| format!("configuration {}", path.display()))?
            }
            None => Config::default(),
        };
        if let Some(dir) = &self.dir {
            config.dir.clone_from(dir);
        }
        config.durability = self.durability.unwrap_or(config.durability);
        config.listen = self.listen.unwrap_or(config.listen);
        config.http = self.http.unwrap_or(config.http);
        config.wait = self.wait.unwrap_or(config.wait);
        if self.bootstrap_key.is_some() {
            config.bootstrap_key.clone_from(&self.bootstrap_key);
        }
        if let (Some(certificate), Some(key)) = (&self.tls_certificate, &self.tls_key) {
            let mut tls = TlsSection::new(certificate.clone(), key.clone());
            tls.client_ca.clone_from(&self.tls_client_ca);
            config.tls = Some(tls);
        }
        config.probes.enabled &= !self.no_probes;
        config.check()?;
        Ok(config)
    }
}

/// Runs a node until it is told to stop.
///
/// # Errors
/// When it cannot start.
pub fn run(args: ServeArgs) -> anyhow::Result<()> {
    let config = args.config()?;
    raise_open_files();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let http = runtime
        .block_on(tokio::net::TcpListener::bind(config.http))
        .with_context(|| format!("cannot serve HTTP on {}", config.http))?;
    let mut node = Node::start(&config)?;
    for line in node.start_notes() {
        eprintln!("weir: {line}");
    }
    // Before anybody is told that the node is there: a signal without a handler ends a process.
    let hangup = {
        let _runtime = runtime.enter();
        signal(SignalKind::hangup()).context("no handler for SIGHUP")?
    };
    println!("weir ready order-entry={} http={}", node.address(), http.local_addr()?);
    let status = node.status();
    let outcome = runtime.block_on(async {
        let serving = axum::serve(http, crate::http::router(status));
        tokio::select! {
            biased;
            () = told_to_stop() => Ok(()),
            () = read_certificates_when_told(&node, hangup) => Ok(()),
            died = thread_died(&node) => Err(anyhow::anyhow!("thread {died} ended unasked")),
            served = serving => served.context("HTTP failed"),
        }
    });
    eprintln!("weir: stopping");
    node.stop();
    outcome
}

/// Resolves when the process is asked to end.
pub async fn told_to_stop() {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        // Without handlers the default action ends the process, and recovery is as after a crash.
        return std::future::pending().await;
    };
    tokio::select! {
        biased;
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Reads certificates anew at each SIGHUP; never resolves.
async fn read_certificates_when_told(node: &Node, mut hangup: Signal) {
    loop {
        hangup.recv().await;
        match node.reload_certificates() {
            None => eprintln!("weir: SIGHUP: without TLS there is nothing to read anew"),
            Some(Ok(())) => eprintln!("weir: SIGHUP: certificates are read anew"),
            Some(Err(error)) => eprintln!("weir: SIGHUP: the old certificates stay: {error}"),
        }
    }
}

/// As many open files as the system lets a process ask for: connections are files.
fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // What is refused shows when connections are: the limit was there before.
    let _ = setrlimit(Resource::Nofile, limit);
}

async fn thread_died(node: &Node) -> &'static str {
    loop {
        if let Some(name) = node.finished_thread() {
            return name;
        }
        for line in node.take_log_lines() {
            eprintln!("weir: {line}");
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
