//! `weir serve`: runs a node until SIGTERM or SIGINT, then stops it in order.
//!
//! Options override the configuration file; without a file the default ports apply
//! ([`ports`]). A listener's address that another process has ends the start.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use weir_marketgate::gateway::MarketGatewaySection;
use weir_node::config::{Config, MarketPublisherSection, NodeRole, TlsSection, WebSection};
use weir_node::diagnostics::{LineFormat, LineLevel};
use weir_node::health::{Health, Stage};
use weir_node::http::Side;
use weir_node::limits::ProcessLimits;
use weir_node::node::Node;
use weir_node::service::ServiceManager;
use weir_node::status::PublishedChannel;
use weir_node::{diagnostics, service};
use weir_runtime::WaitStrategy;
use weir_types::Durability;

use super::endpoint::{DIR_VARIABLE, MARKET_DIR_VARIABLE, dir_of};
use super::output::announce;
use super::{ports, units};

/// Options of `weir serve`. They override the configuration file, the file overrides the defaults.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ServeArgs {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The process's role: an exchange, a router that serves the order state of many nodes, or a
    /// gateway with sessions and links to partitions.
    #[arg(long, value_name = "ROLE")]
    pub role: Option<NodeRole>,
    /// Directory of logs, snapshots and keys. By default WEIR_DIR, else weir-data; of a market-data
    /// gateway WEIR_MARKET_DIR, else weir-market.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Durability of an acknowledgement: memory, os or disk.
    #[arg(long, value_name = "LEVEL")]
    pub durability: Option<Durability>,
    /// Listener of order entry and delivery: HOST:PORT. By default port 7001 of this machine, 7013
    /// of a market-data gateway.
    #[arg(long, value_name = "ADDRESS", value_parser = units::address)]
    pub listen: Option<SocketAddr>,
    /// Listener of metrics and the status page: HOST:PORT. By default port 7080 of this machine,
    /// 7082 of a market-data gateway.
    #[arg(long, value_name = "ADDRESS", value_parser = units::address)]
    pub http: Option<SocketAddr>,
    /// Serve order state over HTTP and WebSocket, a gateway also market data, on an address of this
    /// machine: HOST:PORT. Without an address port 7081, 7083 of a market-data gateway.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "default",
          value_parser = web_address)]
    pub web: Option<WebAddress>,
    /// Publish the node's market as ITCH 5.0 by multicast on this machine, for `weir market serve
    /// --feed weir`: group 239.192.7.1:7011, requests at port 7012, for each further partition both
    /// ports by two higher. A configuration file can choose others.
    #[arg(long)]
    pub publish: bool,
    /// Wait strategy of an idle thread: park, yield or spin.
    #[arg(long, value_name = "STRATEGY")]
    pub wait: Option<WaitStrategy>,
    /// TLS: the node's certificate for order entry and delivery, with the intermediate ones (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// TLS: the certificate's private key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// TLS: clients must show a certificate of one of these authorities (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_client_ca: Option<PathBuf>,
    /// Listen without TLS on addresses that other machines reach, where that network is private:
    /// keys and orders are readable on it.
    #[arg(long)]
    pub clear_text_allowed: bool,
    /// API key of the first operator (session 1), 64 hexadecimal digits.
    #[arg(long, value_name = "HEX", env = "WEIR_BOOTSTRAP_KEY", hide_env_values = true)]
    pub bootstrap_key: Option<String>,
    /// Give the first operator (session 1) a new key at this start, the bootstrap key or a drawn
    /// one, stored in DIR/operator.key: for when every operator's key is lost.
    #[arg(long)]
    pub new_operator_key: bool,
    /// Format of the lines on standard error: text or json.
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LineFormat>,
    /// Least important level of lines that are written: error, warn, info or debug.
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<LineLevel>,
    /// Do not stamp orders (to measure the cost of stamping).
    #[arg(long)]
    pub no_probes: bool,
    /// The market section made of a gateway's options.
    #[arg(skip)]
    pub market: Option<Box<MarketGatewaySection>>,
    /// The defaults of a market-data gateway apply.
    #[arg(skip)]
    pub is_gateway: bool,
}

/// The listener of `--web`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebAddress {
    /// The default port of this machine.
    Default,
    /// This address.
    At(SocketAddr),
}

fn web_address(text: &str) -> Result<WebAddress, String> {
    match text {
        "default" => Ok(WebAddress::Default),
        text => units::address(text).map(WebAddress::At),
    }
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
            None => self.defaults(),
        };
        self.set_places(&mut config);
        config.role = self.role.unwrap_or(config.role);
        config.durability = self.durability.unwrap_or(config.durability);
        config.wait = self.wait.unwrap_or(config.wait);
        if self.bootstrap_key.is_some() {
            config.bootstrap_key.clone_from(&self.bootstrap_key);
        }
        config.new_operator_key = self.new_operator_key;
        let lines = &mut config.diagnostics;
        lines.format = self.log_format.unwrap_or(lines.format);
        lines.level = self.log_level.unwrap_or(lines.level);
        if let (Some(certificate), Some(key)) = (&self.tls_certificate, &self.tls_key) {
            let of_files = TlsSection::new(certificate.clone(), key.clone());
            // What the file says of clients and of handshakes stands: an option for another
            // certificate must not open the port to clients without one.
            let tls = config.tls.get_or_insert_with(|| of_files.clone());
            (tls.certificate, tls.key) = (of_files.certificate, of_files.key);
            if self.tls_client_ca.is_some() {
                tls.client_ca.clone_from(&self.tls_client_ca);
            }
        }
        config.clear_text_allowed |= self.clear_text_allowed;
        config.probes.enabled &= !self.no_probes;
        if let Some(market) = &self.market {
            config.market_gateway = Some(MarketGatewaySection::clone(market));
        }
        if self.publish {
            self.publish_here(&mut config)?;
        }
        config.check()?;
        config.check_role()?;
        config.check_listeners()?;
        Ok(config)
    }

    /// The configuration without a file: a gateway's ports differ from a node's.
    fn defaults(&self) -> Config {
        let (listen, http) = match self.is_gateway {
            false => (ports::NODE, ports::HTTP),
            true => (ports::GATEWAY, ports::GATEWAY_HTTP),
        };
        let (listen, http) = (ports::local(listen), ports::local(http));
        Config { listen, http, ..Config::default() }
    }

    /// Publishes the market of each partition that has no section for it; the ports of several
    /// follow each other, in the order of the partitions.
    fn publish_here(&self, config: &mut Config) -> anyhow::Result<()> {
        // That of a single partition may stand beside it.
        if config.market_publisher.is_some() {
            return Ok(());
        }
        if config.partitions.is_empty() {
            config.market_publisher = Some(published_here(0)?);
        }
        config.partitions.sort_by_key(|one| one.id);
        for (index, one) in config.partitions.iter_mut().enumerate() {
            if one.market_publisher.is_none() {
                one.market_publisher = Some(published_here(index)?);
            }
        }
        Ok(())
    }

    /// Sets the directory and the listeners.
    fn set_places(&self, config: &mut Config) {
        let (variable, default) = match self.is_gateway {
            false => (DIR_VARIABLE, "weir-data"),
            true => (MARKET_DIR_VARIABLE, "weir-market"),
        };
        if self.dir.is_some() || config.dir.as_os_str().is_empty() {
            config.dir = dir_of(self.dir.as_deref(), variable, default);
        }
        config.listen = self.listen.unwrap_or(config.listen);
        config.http = self.http.unwrap_or(config.http);
        let web = self.web.map(|web| match web {
            WebAddress::At(address) => address,
            WebAddress::Default if self.is_gateway => ports::local(ports::GATEWAY_WEB),
            WebAddress::Default => ports::local(ports::WEB),
        });
        if let Some(listen) = web {
            config.web.get_or_insert_with(|| WebSection::at(listen)).listen = listen;
        }
    }
}

/// Returns the addresses of the channels for the ready line; with several, each with its partition.
fn channels_in_words(channels: &[PublishedChannel]) -> String {
    let mut words = String::new();
    for (id, requests, figures) in channels {
        let of = if channels.len() == 1 { String::new() } else { format!("-{id}") };
        words += &format!(" requests{of}={requests}");
        if let Some(snapshots) = figures.snapshots() {
            words += &format!(" snapshots{of}={}", snapshots.address());
        }
    }
    words
}

/// The section of `--publish` for the partition of an index.
fn published_here(index: usize) -> anyhow::Result<MarketPublisherSection> {
    let (group, requests) = ports::published(index)?;
    let section = toml::Table::from_iter([
        ("group".to_owned(), group.to_string().into()),
        ("requests".to_owned(), requests.to_string().into()),
    ]);
    section.try_into().context("--publish")
}

/// Names the option that moves a listener whose address another process has.
fn explain_listener(config: &Config, error: anyhow::Error) -> anyhow::Error {
    let is_taken = |cause: &(dyn std::error::Error + 'static)| {
        let io = cause.downcast_ref::<std::io::Error>();
        io.is_some_and(|error| error.kind() == std::io::ErrorKind::AddrInUse)
    };
    if !error.chain().any(is_taken) {
        return error;
    }
    let said = format!("{error:#}");
    let listeners = config.listeners();
    let Some(taken) = listeners.iter().find(|one| names(&said, one.address)) else { return error };
    let (address, place) = (taken.address, place_of(taken.key));
    anyhow::anyhow!(
        "another process has the address {address}: choose another with {place}, or move all \
         default ports with {}",
        ports::VARIABLE
    )
}

/// True if the text has this address, and not only a longer one that contains its digits.
fn names(text: &str, address: SocketAddr) -> bool {
    let address = address.to_string();
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    text.match_indices(&address).any(|(at, _)| {
        !text[..at].ends_with(is_part) && !text[at + address.len()..].starts_with(is_part)
    })
}

/// The option that sets a listener's address, or else its key in the configuration.
fn place_of(key: &str) -> String {
    match key {
        "listen" | "http" => format!("--{key} ADDRESS"),
        "web.listen" => "--web ADDRESS".to_owned(),
        "market_gateway.listen" => "--market-listen ADDRESS".to_owned(),
        key => format!("key {key}"),
    }
}

/// Runs a node until it is told to stop.
///
/// # Errors
/// When it cannot start, or a thread of it ends unasked.
pub fn run(args: ServeArgs) -> anyhow::Result<()> {
    let config = args.config()?;
    let limits = ProcessLimits::raise();
    weir_io::descriptors::keep_reserve(weir_node::limits::reserve_of(&config));
    weir_node::heap::give_large_buffers_back();
    let _lines = diagnostics::start(config.diagnostics.format, config.diagnostics.level)?;
    tell_limits(&limits, &config);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(serve(config, args));
    // An interrupted recovery is left where it is, as a kill would leave it.
    runtime.shutdown_background();
    outcome
}

/// Tells the limits of the system that the configuration may exceed.
fn tell_limits(limits: &ProcessLimits, config: &Config) {
    let short = limits.shortfalls(config);
    if !short.is_empty() {
        let short = short.join("; ");
        tracing::warn!(short, "limits of the system are below the needs of the configuration");
    }
}

async fn serve(config: Config, args: ServeArgs) -> anyhow::Result<()> {
    let http = tokio::net::TcpListener::bind(config.http)
        .await
        .with_context(|| format!("cannot serve HTTP on {}", config.http))
        .map_err(|error| explain_listener(&config, error))?;
    let http_address = http.local_addr()?;
    let side = Arc::new(Side::default());
    let health = side.health.clone();
    let life = live(config, args, side.clone(), http_address);
    let serving = weir_node::http::serve(http, side, std::future::pending());
    let outcome = tokio::select! {
        biased;
        outcome = life => outcome,
        () = serving => unreachable!("it is not told to stop"),
        () = service::feed_watchdog(&health) => unreachable!("it does not end"),
    };
    // The listener of HTTP is gone as well: every address is free for the next start.
    if health.is_stopping() {
        tracing::info!("stopped");
    }
    outcome
}

/// A node's life from its recovery to its last order, while others serve HTTP.
async fn live(
    config: Config,
    args: ServeArgs,
    side: Arc<Side>,
    http: SocketAddr,
) -> anyhow::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let (dir, durability) = (config.dir.display().to_string(), config.durability);
    tracing::info!(version, dir, %durability, "starting");
    // One listener for the whole life: a signal between two would be lost.
    let mut told_to_stop = std::pin::pin!(told_to_stop());
    let manager = ServiceManager::default();
    let health = side.health.clone();
    let mut starting = tokio::task::spawn_blocking(move || {
        Node::start(&config, health).map_err(|error| explain_listener(&config, error))
    });
    let started = tokio::select! {
        biased;
        () = &mut told_to_stop => {
            manager.tell_stopping();
            return end_start(starting, &side.health).await;
        }
        started = &mut starting => started,
        () = service::ask_for_time() => unreachable!("it does not end"),
    };
    let mut node = started.context("the start panicked")??;
    // Before the node is announced: a signal without a handler ends a process.
    let hangup = signal(SignalKind::hangup()).context("no handler for SIGHUP")?;
    tell_start(&node);
    assert!(side.status.set(node.status()).is_ok(), "a node starts once");
    side.health.enter(Stage::Running);
    manager.tell_ready();
    tracing::info!(order_entry = %node.address(), %http, "ready");
    let web = node.web_address().map_or(String::new(), |address| format!(" web={address}"));
    let ingest = node.ingest_address().map(|address| format!(" ingest={address}"));
    let ingest = ingest.unwrap_or_default();
    let subscriptions =
        node.subscriptions_address().map(|address| format!(" subscriptions={address}"));
    let subscriptions = subscriptions.unwrap_or_default();
    let market = node.market_addresses().first().map(|address| format!(" market={address}"));
    let market = market.unwrap_or_default();
    let channels = channels_in_words(node.channels());
    let link = node.link_address().map_or(String::new(), |address| format!(" link={address}"));
    let others = format!("{ingest}{subscriptions}{market}{web}{channels}{link}");
    announce(format_args!("weir ready order-entry={} http={http}{others}", node.address()));
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
    outcome.and(stopped.context("a thread panicked"))
}

/// Tells how far each partition was recovered, and the times of the start.
fn tell_start(node: &Node) {
    for note in node.start_notes() {
        tracing::info!("{note}");
    }
    for one in node.recoveries() {
        let (partition, position) = (one.partition_id.0, one.position.0);
        let (snapshot, commands_applied) = (one.snapshot.0, one.commands_applied());
        let seconds = one.time.as_secs_f64();
        tracing::info!(partition, position, snapshot, commands_applied, seconds, "recovered");
    }
    let times = node.start_times();
    let (gateway_seconds, order_state_seconds) =
        (times.gateway.as_secs_f64(), times.order_state.as_secs_f64());
    let seconds = times.whole.as_secs_f64();
    tracing::info!(gateway_seconds, order_state_seconds, seconds, "views built");
}

/// Lets a start that was told to stop come to its end, and stops the node: its logs are open,
/// without closing marks, and it may have sessions already. A second signal ends the process as a
/// kill would.
async fn end_start(
    starting: JoinHandle<anyhow::Result<Node>>,
    health: &Health,
) -> anyhow::Result<()> {
    tracing::info!("told to stop: once the recovery is done, or at once with a second signal");
    let started = tokio::select! {
        biased;
        () = told_to_stop() => {
            tracing::info!("told to stop before the recovery was done");
            return Ok(());
        }
        started = starting => started,
        () = service::ask_for_time() => unreachable!("it does not end"),
    };
    let mut node = started.context("the start panicked")??;
    health.enter(Stage::Stopping);
    tokio::task::spawn_blocking(move || node.stop()).await.context("a thread panicked")
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

/// Reads certificates, token keys and a router's backends again at each SIGHUP; never resolves.
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

async fn thread_died(node: &Node) -> &str {
    loop {
        if let Some(name) = node.finished_thread() {
            return name;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        serve: ServeArgs,
    }

    /// One section of several kept the option from publishing the others.
    #[test]
    fn publish_is_for_each_partition_that_has_no_section() {
        let own = "[partition.market_publisher]\ngroup = '239.0.0.1:9'\nrequests = '127.0.0.1:8'\n";
        let home = tempfile::tempdir().unwrap();
        let groups_of = |text: &str| {
            let file = home.path().join("weir.toml");
            std::fs::write(&file, text).unwrap();
            let file = file.to_str().unwrap();
            let words = ["serve", "--dir", "d", "--publish", "--config", file];
            let config = Line::parse_from(words).serve.config().unwrap();
            let channels = config.publishers().into_iter();
            channels.map(|(id, section)| (id.0, section.group.port())).collect::<Vec<_>>()
        };
        assert_eq!(groups_of(""), [(1, 7_011)]);
        let (seven, three) = ("[[partition]]\nid = 7\n", "[[partition]]\nid = 3\n");
        assert_eq!(groups_of(&format!("{seven}{three}")), [(3, 7_011), (7, 7_013)]);
        assert_eq!(groups_of(&format!("{seven}{three}{own}")), [(3, 9), (7, 7_013)]);
        let other = own.replace(":9", ":10").replace(":8", ":11");
        assert_eq!(groups_of(&format!("{seven}{other}{three}{own}")), [(3, 9), (7, 10)]);
        assert_eq!(groups_of(&own.replace("partition.", "")), [(1, 9)]);
    }

    #[test]
    fn another_certificate_leaves_what_the_file_says_of_clients() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("weir.toml");
        let text = "[tls]\ncertificate = 'a.pem'\nkey = 'a.key'\nclient_ca = 'clients.pem'\n\
                    client_required = false\nhandshakes_max = 7\n";
        std::fs::write(&file, text).unwrap();
        let config_of = |options: &[&str]| {
            let file = file.to_str().unwrap();
            let words = [&["serve", "--dir", "d", "--config", file], options].concat();
            Line::parse_from(words).serve.config().unwrap().tls.unwrap()
        };
        let of_file = config_of(&[]);
        let files = ["--tls-certificate", "b.pem", "--tls-key", "b.key"];
        let other = TlsSection { certificate: "b.pem".into(), key: "b.key".into(), ..of_file };
        assert_eq!(config_of(&files), other);
        let with_ca = [&files[..], &["--tls-client-ca", "others.pem"]].concat();
        let other = TlsSection { client_ca: Some("others.pem".into()), ..other };
        assert_eq!(config_of(&with_ca), other);
        assert_eq!((other.client_required, other.handshakes_max), (false, 7));
    }

    #[test]
    fn an_address_is_not_found_in_a_longer_one() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        for (text, wanted, want) in [
            ("cannot listen on 127.0.0.1:7001: in use", "127.0.0.1:7001", true),
            ("cannot listen on 127.0.0.1:7001", "127.0.0.1:7001", true),
            ("cannot listen on 127.0.0.1:7001", "127.0.0.1:700", false),
            ("cannot listen on 110.0.0.1:80", "10.0.0.1:80", false),
            ("cannot listen on [::1]:7001", "[::1]:7001", true),
            ("cannot listen on [::1]:7001", "[::1]:70", false),
        ] {
            assert_eq!(names(text, address(wanted)), want, "{wanted} in {text:?}");
        }
    }
}
