//! `weir serve`: runs a node until SIGTERM or SIGINT, then stops it in order.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use weir_types::Durability;

use crate::config::Config;
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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let http = runtime
        .block_on(tokio::net::TcpListener::bind(config.http))
        .with_context(|| format!("cannot serve HTTP on {}", config.http))?;
    let mut node = Node::start(&config)?;
    for line in node.start_notes() {
        eprintln!("weir: {line}");
    }
    println!("weir ready order-entry={} http={}", node.address(), http.local_addr()?);
    let status = node.status();
    let outcome = runtime.block_on(async {
        let serving = axum::serve(http, crate::http::router(status));
        tokio::select! {
            biased;
            () = told_to_stop() => Ok(()),
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
    use tokio::signal::unix::{SignalKind, signal};
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

async fn thread_died(node: &Node) -> &'static str {
    loop {
        if let Some(name) = node.finished_thread() {
            return name;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
