//! `weir serve`: runs a node until SIGTERM or SIGINT, then stops it in order.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use weir_marketgate::gateway::MarketSection;
use weir_node::config::{Config, NodeRole, TlsSection, WebSection, default_readers_max};
use weir_node::diagnostics::{LineFormat, LineLevel};
use weir_node::health::Stage;
use weir_node::http::Side;
use weir_node::node::Node;
use weir_node::service::ServiceManager;
use weir_node::{diagnostics, service};
use weir_runtime::WaitStrategy;
use weir_types::Durability;

/// Options of `weir serve`. They go over the configuration file, that over the defaults.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ServeArgs {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What it is to others: an exchange of its own, or a router before the stores of many.
    #[arg(long, value_name = "ROLE")]
    pub role: Option<NodeRole>,
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
    /// Where order state, and market data where there is a gateway, are served over HTTP and
    /// WebSocket: an address of this machine, unless the configuration says otherwise.
    #[arg(long, value_name = "ADDRESS")]
    pub web: Option<SocketAddr>,
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
    /// Give the first operator (session 1) a new key at this start, the bootstrap key or a drawn
    /// one, kept in DIR/operator.key: for when every operator's key is lost.
    #[arg(long)]
    pub new_operator_key: bool,
    /// How lines on standard error look: text or json.
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LineFormat>,
    /// The least important lines that are written: error, warn, info or debug.
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<LineLevel>,
    /// Do not stamp orders (to measure what stamping costs).
    #[arg(long)]
    pub no_probes: bool,
    /// The section of market data that other options made.
    #[arg(skip)]
    pub market: Option<Box<MarketSection>>,
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
        config.role = self.role.unwrap_or(config.role);
        config.durability = self.durability.unwrap_or(config.durability);
        config.listen = self.listen.unwrap_or(config.listen);
        config.http = self.http.unwrap_or(config.http);
        if let Some(listen) = self.web {
            let readers_max = default_readers_max();
            let section = WebSection { listen, readers_max, behind_tls_proxy: false };
            config.web.get_or_insert(section).listen = listen;
        }
        config.wait = self.wait.unwrap_or(config.wait);
        if self.bootstrap_key.is_some() {
            config.bootstrap_key.clone_from(&self.bootstrap_key);
        }
        config.new_operator_key = self.new_operator_key;
        let lines = &mut config.diagnostics;
        lines.format = self.log_format.unwrap_or(lines.format);
        lines.level = self.log_level.unwrap_or(lines.level);
        if let (Some(certificate), Some(key)) = (&self.tls_certificate, &self.tls_key) {
            let mut tls = TlsSection::new(certificate.clone(), key.clone());
            tls.client_ca.clone_from(&self.tls_client_ca);
            config.tls = Some(tls);
        }
        config.probes.enabled &= !self.no_probes;
        if let Some(market) = &self.market {
            config.market = Some(MarketSection::clone(market));
        }
        config.check()?;
        config.check_role()?;
        Ok(config)
    }
}

/// Runs a node until it is told to stop.
///
/// # Errors
/// When it cannot start, or a thread of it ends unasked.
pub fn run(args: ServeArgs) -> anyhow::Result<()> {
    let config = args.config()?;
    raise_open_files();
    weir_node::heap::give_large_buffers_back();
    let _lines = diagnostics::start(config.diagnostics.format, config.diagnostics.level)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(serve(config, args));
    // A recovery that somebody broke off is left where it is, as a kill would leave it.
    runtime.shutdown_background();
    outcome
}

async fn serve(config: Config, args: ServeArgs) -> anyhow::Result<()> {
    let http = tokio::net::TcpListener::bind(config.http)
        .await
        .with_context(|| format!("cannot serve HTTP on {}", config.http))?;
    let http_address = http.local_addr()?;
    let side = Arc::new(Side::default());
    let health = side.health.clone();
    let life = live((config, args), side.clone(), http_address);
    let serving = axum::serve(http, weir_node::http::router(side));
    tokio::select! {
        biased;
        outcome = life => outcome,
        served = serving => served.context("HTTP failed"),
        () = service::feed_watchdog(&health) => unreachable!("it does not end"),
    }
}

/// A node's life from its recovery to its last order, while others serve HTTP.
async fn live(
    (config, args): (Config, ServeArgs),
    side: Arc<Side>,
    http: SocketAddr,
) -> anyhow::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let (dir, durability) = (config.dir.display().to_string(), config.durability);
    tracing::info!(version, dir, %durability, "starting");
    // One listener for the whole life: a signal between two would be nobody's.
    let mut told_to_stop = std::pin::pin!(told_to_stop());
    let manager = ServiceManager::default();
    let health = side.health.clone();
    let starting = tokio::task::spawn_blocking(move || Node::start(&config, health));
    let started = tokio::select! {
        biased;
        () = &mut told_to_stop => {
            tracing::info!("told to stop before the recovery was done");
            return Ok(());
        }
        started = starting => started,
        () = service::ask_for_time() => unreachable!("it does not end"),
    };
    let mut node = started.context("the start panicked")??;
    // Before anybody is told that the node is there: a signal without a handler ends a process.
    let hangup = signal(SignalKind::hangup()).context("no handler for SIGHUP")?;
    for note in node.start_notes() {
        tracing::info!("{note}");
    }
    assert!(side.status.set(node.status()).is_ok(), "a node starts once");
    side.health.enter(Stage::Running);
    manager.tell_ready();
    tracing::info!(order_entry = %node.address(), %http, "ready");
    let web = node.web_address().map_or(String::new(), |address| format!(" web={address}"));
    let ingest = node.ingest_address().map(|address| format!(" ingest={address}"));
    let ingest = ingest.unwrap_or_default();
    let broker = node.broker_address().map(|address| format!(" broker={address}"));
    let broker = broker.unwrap_or_default();
    let market = node.market_addresses().first().map(|address| format!(" market={address}"));
    let market = market.unwrap_or_default();
    let requests = node.requests_address().map(|address| format!(" requests={address}"));
    let requests = requests.unwrap_or_default();
    let snapshots = node.snapshots_address().map(|address| format!(" snapshots={address}"));
    let snapshots = snapshots.unwrap_or_default();
    let others = format!("{ingest}{broker}{market}{web}{requests}{snapshots}");
    println!("weir ready order-entry={} http={http}{others}", node.address());
    let outcome = tokio::select! {
        biased;
        () = &mut told_to_stop => Ok(()),
        () = reload_when_told(&node, &args, hangup) => unreachable!("it does not end"),
        died = thread_died(&node) => {
            side.health.fail();
            Err(anyhow::anyhow!("thread {died} ended unasked"))
        }
    };
    side.health.enter(Stage::Stopping);
    manager.tell_stopping();
    tracing::info!("stopping");
    let stopped = tokio::task::spawn_blocking(move || node.stop()).await;
    tracing::info!("stopped");
    outcome.and(stopped.context("a thread panicked"))
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

/// Reads certificates, the keys of tokens, and what is behind a router, anew at each SIGHUP; never
/// resolves.
async fn reload_when_told(node: &Node, args: &ServeArgs, mut hangup: Signal) {
    loop {
        hangup.recv().await;
        let certificates = node.reload_certificates();
        match &certificates {
            None => {}
            Some(Ok(())) => tracing::info!("SIGHUP: certificates are read anew"),
            Some(Err(error)) => tracing::error!(%error, "SIGHUP: the old certificates stay"),
        }
        let config = match args.config() {
            Ok(config) => config,
            Err(error) => {
                tracing::error!(%error, "SIGHUP: the configuration of before stays");
                continue;
            }
        };
        match node.reload_token_keys(&config) {
            Ok(()) => tracing::info!("SIGHUP: the keys of tokens are read anew"),
            Err(error) => tracing::error!(%error, "SIGHUP: the keys of tokens stay"),
        }
        if let Some(section) = config.router {
            node.reload_backends(section);
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
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
