//! The state that a node's parts share while they are built: wakes, figures, keys, and the flag
//! that ends the intake.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use weir_delivery::TokenKeys;
use weir_door::handshakes::TlsDoor;
use weir_gateway::GatewayStatus;
use weir_marketgate::gateway::MarketFigures;
use weir_marketgate::gateway::local::LocalDoors;
use weir_orderstate::cold::ColdFigures;
use weir_orderstate::figures::DeliveryFigures;
use weir_orderstate::ingest::IngestFigures;
use weir_orderstate::replica::ReplicaFigures;
use weir_orderstate::router::RouterBoard;
use weir_partition::closing_log::ClosingLog;
use weir_partition::handoff::SourcePort;
use weir_partition::recovery::{ForPartition, RecoveredPartition};
use weir_partition::{Partition, PartitionParts};
use weir_runtime::Runner;
use weir_runtime::cycle_times::CycleTimes;
use weir_subscribe::SubscriptionsFigures;
use weir_types::{Durability, PartitionId};

use super::cold;
use super::probes::Probes;
use super::threads::Wakes;
use crate::config::Config;
use crate::health::Health;
use crate::status::{NodeStatus, PartitionStatus, PublishedChannel};

/// A partition with this node's kind of log.
type NodePartition = Partition<ClosingLog>;

/// The state that the parts share while they are built.
pub(super) struct Assembly<'a> {
    pub(super) config: &'a Config,
    pub(super) health: Arc<Health>,
    pub(super) tls: Option<Arc<TlsDoor>>,
    pub(super) wakes: Wakes,
    pub(super) draining: Arc<AtomicBool>,
    pub(super) gateway_status: Arc<Mutex<GatewayStatus>>,
    pub(super) delivery_figures: Arc<DeliveryFigures>,
    pub(super) ingest_figures: Arc<IngestFigures>,
    pub(super) replica_figures: Arc<ReplicaFigures>,
    pub(super) subscriptions_figures: Arc<SubscriptionsFigures>,
    /// The listening address for outside cores, where they are served.
    pub(super) ingest_at: Option<SocketAddr>,
    /// The listening address for subscribers, where they are served.
    pub(super) subscriptions_at: Option<SocketAddr>,
    /// The channels in which partitions' markets are published.
    pub(super) channels: Vec<PublishedChannel>,
    /// The nodes behind a router.
    pub(super) router: Option<Arc<RouterBoard>>,
    pub(super) market_figures: Option<Arc<MarketFigures>>,
    /// The connector for readers of market data over HTTP, until they are served.
    pub(super) market_doors: Option<LocalDoors>,
    /// The threads of market data, until they start.
    pub(super) market_runners: Vec<Runner>,
    pub(super) cold_figures: BTreeMap<PartitionId, Arc<ColdFigures>>,
    pub(super) cycles: Arc<CycleTimes>,
    pub(super) token_keys: TokenKeys,
}

impl<'a> Assembly<'a> {
    pub(super) fn new(
        config: &'a Config,
        health: Arc<Health>,
        tls: Option<Arc<TlsDoor>>,
    ) -> anyhow::Result<Assembly<'a>> {
        Ok(Assembly {
            config,
            token_keys: config.token_key_file().keys()?,
            health,
            tls,
            wakes: Wakes::new(config.is_fused()),
            draining: Arc::new(AtomicBool::new(false)),
            gateway_status: Arc::new(Mutex::new(GatewayStatus::default())),
            delivery_figures: Arc::new(DeliveryFigures::of(config.own_ids())),
            ingest_figures: Arc::default(),
            replica_figures: Arc::default(),
            subscriptions_figures: Arc::default(),
            ingest_at: None,
            subscriptions_at: None,
            channels: Vec::new(),
            router: None,
            market_figures: None,
            market_doors: None,
            market_runners: Vec::new(),
            cold_figures: cold::figures_of(config),
            cycles: Arc::new(CycleTimes::default()),
        })
    }

    /// Returns the node's status with the figures of its parts.
    pub(super) fn status(&self) -> NodeStatus {
        NodeStatus {
            started: Instant::now(),
            durability: self.config.durability,
            wait: self.config.wait,
            fused: self.config.is_fused(),
            dir: self.config.dir.clone(),
            partitions: Vec::new(),
            gateway: self.gateway_status.clone(),
            tls: self.tls.clone(),
            web: None,
            delivery: self.delivery_figures.clone(),
            ingest: self.ingest_at.map(|address| (address, self.ingest_figures.clone())),
            replica: self.config.replica.as_ref().map(|_| self.replica_figures.clone()),
            subscriptions: self
                .subscriptions_at
                .map(|address| (address, self.subscriptions_figures.clone())),
            market: self.market_figures.clone(),
            channels: self.channels.clone(),
            cold: self.cold_figures.clone(),
            router: self.router.clone(),
            links: None,
            uplinks: None,
            cycles: self.cycles.clone(),
            latencies: None,
            hiccups: None,
        }
    }

    pub(super) fn partition(
        &self,
        recovered: ForPartition,
        sources: Vec<SourcePort>,
        probes: &mut Probes,
    ) -> NodePartition {
        let name = match recovered.partition_id.0 {
            0 => "control".to_owned(),
            id => format!("partition-{id}"),
        };
        let links = self.config.link.as_ref().map(|_| &self.wakes.links);
        let views = [&self.wakes.gateway].into_iter().chain(links);
        Partition::new(PartitionParts {
            engine: recovered.engine,
            log: recovered.log,
            tail: recovered.tail,
            sources,
            views: views.cloned().collect(),
            recorder: probes.recorder(&name),
            figures: recovered.figures,
            durability: self.durability_of(recovered.partition_id),
        })
        .with_limits(recovered.limits)
    }

    fn durability_of(&self, id: PartitionId) -> Durability {
        self.config.recovery_of(id).durability_of(id)
    }

    /// Returns a partition's part of the status and adds its figures to the health checks. `own` is
    /// the name of its own thread, if it has one.
    pub(super) fn partition_status(
        &self,
        of: &RecoveredPartition,
        own: Option<Arc<str>>,
    ) -> PartitionStatus {
        self.health.watch_partition(of.partition_id, of.figures.clone());
        let shared = if self.config.is_fused() { "core" } else { "partition" };
        PartitionStatus {
            id: of.partition_id,
            epoch: of.epoch,
            figures: of.figures.clone(),
            thread: own.unwrap_or_else(|| shared.into()),
            durability: self.durability_of(of.partition_id),
            dir: of.dirs().root().to_owned(),
        }
    }
}
