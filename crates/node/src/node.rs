//! A node: started by its role, and stopped in order. `builder` puts together the parts of every
//! role; `exchange`, `replica` and `router` add their own.
//!
//! ```text
//! thread core       gateway │ control partition │ control importer │ partitions      (fused)
//! thread NAME       the partitions whose configuration names it
//! thread newcomers  connections that have not logged on
//! thread handshakes TLS handshakes, with TLS
//! thread delivery   delivery store
//! thread cold       archives of orders that the stores discarded, where configured
//! thread web        order state over HTTP, with web-readers, where configured
//! thread ingest     sockets of outside cores, where configured
//! thread replica    follows another node, where configured
//! thread subscribe  durable subscriptions and their sockets, where configured
//! thread market-…   market data: receive and update, and flush-… for its subscribers
//! thread publish    the partitions' markets, where published; snapshots  snapshots of them
//! thread links      links to gateway processes, where configured
//! thread keeper     probe drain
//! thread shadows    the shadow engines: event files, snapshots; one more behind each NAME
//! thread checkpoints the gateway's checkpoints
//! thread archive    segments of logs before they are removed, where configured
//! ```
//! With split threads the gateway has its own. Each disk adds a thread where io_uring is missing;
//! one thread per core watches for hiccups. A gateway process has newcomers, gateway, uplinks,
//! handshakes, and one that refuses queries.

mod assembly;
mod builder;
mod checkpoints;
mod cold;
mod doors;
mod engine_limits;
mod exchange;
mod gateway;
mod gateway_process;
mod known_partitions;
mod links;
mod market;
mod operator;
mod partition_threads;
mod probes;
mod publish;
mod replica;
mod router;
mod stores;
mod threads;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_delivery::TokenKeys;
use weir_door::handshakes::TlsDoor;
use weir_orderstate::router::{Reload, RouterSection};
use weir_partition::recovery::RecoveredPartition;
use weir_runtime::RunningThread;
use weir_tls::TlsError;
use weir_types::{PartitionId, Position};
use weir_web::WebServer;

pub use self::operator::FIRST_OPERATOR;
pub use self::threads::DELIVERY_SHARE;
use crate::config::{Config, NodeRole};
use crate::health::Health;
use crate::status::{NodeStatus, PublishedChannel};

/// The control partition.
const CONTROL: PartitionId = PartitionId(0);

/// A running node.
pub struct Node {
    threads: Vec<RunningThread>,
    draining: Arc<AtomicBool>,
    address: SocketAddr,
    status: Arc<NodeStatus>,
    tls: Option<Arc<TlsDoor>>,
    web: Option<WebServer>,
    /// For a router: the channel for a new list of nodes behind it.
    reload: Option<Reload>,
    token_keys: TokenKeys,
    recoveries: Vec<Recovery>,
    times: StartTimes,
    notes: Vec<String>,
}

/// The times of a start's parts after the partitions' recovery.
#[derive(Clone, Copy, Debug, Default)]
pub struct StartTimes {
    /// To build the gateway from its checkpoint and the events since.
    pub gateway: Duration,
    /// To build the order stores and archives from their snapshots and the events since; zero for
    /// a router.
    pub order_state: Duration,
    /// The whole start, with recovery.
    pub whole: Duration,
}

/// A partition's recovery at the start.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    /// The partition.
    pub partition_id: PartitionId,
    /// The position that it reached: the end of its command log.
    pub position: Position,
    /// The position of the snapshot at which it began; zero without one.
    pub snapshot: Position,
    /// The time that it took.
    pub time: Duration,
}

impl Recovery {
    fn of(recovered: &RecoveredPartition, time: Duration) -> Recovery {
        let RecoveredPartition { partition_id, snapshot, .. } = *recovered;
        Recovery { partition_id, position: recovered.engine.position(), snapshot, time }
    }

    /// Returns the number of commands applied after the snapshot.
    #[must_use]
    pub fn commands_applied(&self) -> u64 {
        self.position.0 - self.snapshot.0
    }
}

impl Node {
    /// Starts the process that the configuration describes: a trading node, a following node, a
    /// router, or a gateway.
    ///
    /// # Errors
    /// When an address is taken, a log is damaged or locked, a key cannot be read, or the machine
    /// lacks a needed resource.
    pub fn start(config: &Config, health: Arc<Health>) -> anyhow::Result<Node> {
        match config.role {
            NodeRole::Node if config.follows_own() => replica::start(config, health),
            NodeRole::Node => exchange::start(config, health),
            NodeRole::Router => router::start(config, health),
            NodeRole::Gateway => gateway_process::start(config, health),
        }
    }

    /// Returns the address of order entry and delivery.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address for gateway processes, if configured.
    #[must_use]
    pub fn link_address(&self) -> Option<SocketAddr> {
        self.status.links.as_ref().map(|(address, _)| *address)
    }

    /// Returns the address of order state over HTTP, if served.
    #[must_use]
    pub fn web_address(&self) -> Option<SocketAddr> {
        self.web.as_ref().map(WebServer::address)
    }

    /// Returns the address for outside cores, if configured.
    #[must_use]
    pub fn ingest_address(&self) -> Option<SocketAddr> {
        self.status.ingest.as_ref().map(|(address, _)| *address)
    }

    /// Returns the address for subscribers and publishers, if durable subscriptions are served.
    #[must_use]
    pub fn subscriptions_address(&self) -> Option<SocketAddr> {
        self.status.subscriptions.as_ref().map(|(address, _)| *address)
    }

    /// Returns the addresses for market-data subscribers, one per flush thread; empty if none is
    /// served.
    #[must_use]
    pub fn market_addresses(&self) -> &[SocketAddr] {
        self.status.market.as_ref().map_or(&[], |figures| &figures.addresses)
    }

    /// Returns the channels in which partitions' markets are published, in the order of the
    /// partitions.
    #[must_use]
    pub fn channels(&self) -> &[PublishedChannel] {
        &self.status.channels
    }

    /// Returns the node's figures.
    #[must_use]
    pub fn status(&self) -> Arc<NodeStatus> {
        self.status.clone()
    }

    /// Returns the partitions' recoveries, that of the control partition first.
    #[must_use]
    pub fn recoveries(&self) -> &[Recovery] {
        &self.recoveries
    }

    /// Returns the times of the start's parts.
    #[must_use]
    pub fn start_times(&self) -> StartTimes {
        self.times
    }

    /// Returns notes on the start for operators.
    #[must_use]
    pub fn start_notes(&self) -> &[String] {
        &self.notes
    }

    /// Reloads the certificates, for new connections; `None` without TLS.
    ///
    /// # Errors
    /// Inside: the fault of the files. The old certificates stay then.
    pub fn reload_certificates(&self) -> Option<Result<(), TlsError>> {
        self.tls.as_ref().map(|tls| tls.reload())
    }

    /// Reloads the token keys named by this configuration, for new tokens.
    ///
    /// # Errors
    /// When one cannot be read; the keys stay unchanged then.
    pub fn reload_token_keys(&self, config: &Config) -> anyhow::Result<()> {
        config.token_key_file().read_into(&self.token_keys)
    }

    /// Sends a router its new list of backends; false for a node.
    pub fn reload_backends(&self, section: RouterSection) -> bool {
        let reload = self.reload.as_ref();
        reload.inspect(|reload| reload.send(section)).is_some()
    }

    /// Returns the name of a thread that ended unexpectedly, if any.
    #[must_use]
    pub fn finished_thread(&self) -> Option<&str> {
        self.threads.iter().find(|thread| thread.is_finished()).map(RunningThread::name)
    }

    /// Stops the node in order: takes no more input, commits and answers what was taken, sends the
    /// sessions a logout, and writes the files' closing marks.
    ///
    /// # Panics
    /// When a thread panicked: at the end, with its panic.
    pub fn stop(&mut self) {
        // In the order of the data flow: newcomers, partitions' own threads, the order path's with
        // the gateway last, delivery, keeper, shadows.
        let outcome = threads::stop_in_order(&mut self.threads, &self.draining);
        // Last, since readers over HTTP have their reason from the threads that answer them.
        if let Some(web) = &mut self.web {
            web.stop();
        }
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    }
}
