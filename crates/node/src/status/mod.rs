//! The node's status: one structure for `/status`, `/metrics`, `weir status` and the demo's table.

mod instrument;
mod metrics;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::Serialize;
use weir_door::handshakes::{TlsDoor, TlsReport};
use weir_gateway::{GatewayCounters, GatewayStatus};
use weir_linkgate::figures::{LinksBoard, LinksReport, UplinkReport, UplinksBoard};
use weir_marketgate::gateway::{MarketFigures, MarketReport};
use weir_marketgate::publish::{PublishFigures, PublishReport};
use weir_orderstate::cold::{ColdFigures, ColdReport};
use weir_orderstate::figures::{DeliveryCounts, DeliveryFigures};
use weir_orderstate::ingest::{IngestFigures, IngestReport};
use weir_orderstate::replica::{ReplicaFigures, ReplicaReport};
use weir_orderstate::router::{RouterBoard, RouterReport};
use weir_orderstate::stores::own_figures::OwnStoreCounts;
use weir_orderstate::stores::{StoreReport, SweepReport};
use weir_partition::{PartitionCounts, PartitionFigures};
use weir_probe::{DrainReader, HiccupReport, Hiccups, Measure, Snapshot};
use weir_runtime::WaitStrategy;
use weir_runtime::cycle_times::{CycleReport, CycleTimes};
use weir_runtime::figures;
use weir_runtime::figures::MetricsPage;
use weir_subscribe::{SubscriptionsFigures, SubscriptionsReport};
use weir_types::{Durability, Epoch, PartitionId};
use weir_web::http::{HttpFigures, HttpReport};
use weir_web::{WebFigures, WebReport};
use weir_wire::reference::DefineInstrument;

pub use self::instrument::InstrumentReport;

/// A partition's channel: its address for requests, and its figures.
pub type PublishedChannel = (PartitionId, SocketAddr, Arc<PublishFigures>);

/// The sources of a running node's figures.
pub struct NodeStatus {
    /// The time at which it became ready.
    pub started: Instant,
    /// The durability level of an acknowledgement.
    pub durability: Durability,
    /// The wait strategy of idle threads.
    pub wait: WaitStrategy,
    /// True when gateway and partitions share a thread.
    pub fused: bool,
    /// The node's directory.
    pub dir: PathBuf,
    /// The partitions, the control partition first.
    pub partitions: Vec<PartitionStatus>,
    /// The gateway.
    pub gateway: Arc<Mutex<GatewayStatus>>,
    /// Handshakes, with TLS.
    pub tls: Option<Arc<TlsDoor>>,
    /// Order state over HTTP.
    pub web: Option<(Arc<WebFigures>, Arc<HttpFigures>)>,
    /// The delivery stores.
    pub delivery: Arc<DeliveryFigures>,
    /// The listening address for outside cores, and its figures.
    pub ingest: Option<(std::net::SocketAddr, Arc<IngestFigures>)>,
    /// The node whose sources are followed.
    pub replica: Option<Arc<ReplicaFigures>>,
    /// The listening address for durable subscriptions and their figures, where served.
    pub subscriptions: Option<(std::net::SocketAddr, Arc<SubscriptionsFigures>)>,
    /// The market-data gateway, where configured.
    pub market: Option<Arc<MarketFigures>>,
    /// The channels in which partitions' markets are published.
    pub channels: Vec<PublishedChannel>,
    /// The archives of discarded orders, by source, where configured.
    pub cold: BTreeMap<PartitionId, Arc<ColdFigures>>,
    /// The nodes behind a router.
    pub router: Option<Arc<RouterBoard>>,
    /// The links of gateway processes, and the address of their listener.
    pub links: Option<(SocketAddr, Arc<LinksBoard>)>,
    /// The links of a gateway process.
    pub uplinks: Option<Arc<UplinksBoard>>,
    /// The cycles of the gateway's thread.
    pub cycles: Arc<CycleTimes>,
    /// The latencies, when orders are stamped.
    pub latencies: Option<DrainReader>,
    /// The hiccup threads, when they run.
    pub hiccups: Option<Hiccups>,
}

/// A partition of a node.
#[derive(Clone, Debug)]
pub struct PartitionStatus {
    /// The partition.
    pub id: PartitionId,
    /// The epoch in which this run leads.
    pub epoch: Epoch,
    /// Its figures.
    pub figures: Arc<PartitionFigures>,
    /// The name of the thread that runs it.
    pub thread: Arc<str>,
    /// The durability level of an acknowledgement.
    pub durability: Durability,
    /// Its directory.
    pub dir: PathBuf,
}

figures! {
    /// A snapshot of a node's figures.
    pub struct StatusReport {
        /// The size of all files in the directories of the node and of its partitions.
        gauge log_bytes in bytes as "weir_log_bytes",
        /// Lines of diagnostics dropped because standard error was read too slowly.
        counter dropped_lines as "weir_diagnostics_dropped_total",
        /// Watchdog notices dropped because the service manager's queue was full.
        counter dropped_notices as "weir_service_notices_dropped_total",
    } and {
        /// The program's version.
        pub version: &'static str,
        /// Seconds since it became ready.
        pub uptime_s: f64,
        /// `memory`, `os` or `disk`.
        pub durability: String,
        /// `park`, `yield` or `spin`.
        pub wait: String,
        /// True when gateway and partitions share a thread.
        pub fused: bool,
        /// The partitions.
        pub partitions: Vec<PartitionReport>,
        /// Debts of limited accounts, of each partition the first 32.
        pub debts: Vec<DebtReport>,
        /// The gateway's counters.
        pub gateway: GatewayCounters,
        /// TLS handshakes; absent without TLS.
        pub tls: Option<TlsReport>,
        /// The delivery stores.
        pub delivery: DeliveryReport,
        /// Connections to the status page; zero where another server has it.
        pub http: HttpReport,
        /// Order state over HTTP; absent where not served.
        pub web: Option<WebReport>,
        /// Outside cores; absent where none is configured.
        pub ingest: Option<IngestReport>,
        /// Sources of another node; absent where none is followed.
        pub replica: Option<ReplicaReport>,
        /// Durable subscriptions; absent where not served.
        pub subscriptions: Option<SubscriptionsReport>,
        /// The market-data gateway; absent where not configured.
        pub market: Option<MarketReport>,
        /// The channels in which partitions' markets are published.
        pub publish: Vec<PublishReport>,
        /// The archives of the node's own orders.
        pub cold: Vec<ColdReport>,
        /// The archives of outside sources' orders.
        pub cold_sources: Vec<ColdReport>,
        /// The nodes behind a router; absent for a node.
        pub router: Option<RouterReport>,
        /// Links of gateway processes; absent where not configured.
        pub links: Option<LinksReport>,
        /// The links of a gateway process; empty for a node.
        pub uplinks: Vec<UplinkReport>,
        /// The instruments.
        pub instruments: Vec<InstrumentReport>,
        /// Cycles of the gateway's thread that did some work, since the start.
        pub cycles: CycleReport,
        /// Latencies since the start, by name.
        pub latencies: Vec<LatencyReport>,
        /// The time stolen from each core.
        pub hiccups: Vec<HiccupLine>,
    }
}

/// One partition's figures.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PartitionReport {
    /// The partition; 0 is the control partition.
    pub id: u16,
    /// The log's epoch.
    pub epoch: u32,
    /// The name of the thread that runs it.
    pub thread: String,
    /// `memory`, `os` or `disk`.
    pub durability: String,
    /// The counters.
    #[serde(flatten)]
    pub counts: PartitionCounts,
    /// The engine's digest after the last applied position, in hexadecimal.
    pub digest: String,
    /// The position of the last snapshot that this run took; absent before the first.
    pub snapshot_position: Option<u64>,
    /// The hash of the engine's whole state at that position, in hexadecimal.
    pub snapshot_state: Option<String>,
    /// The name of that which needs what is over the limits of retention; absent for nothing.
    pub held_by: Option<&'static str>,
}

/// A debt that forced busts left to a limited account.
#[derive(Clone, Debug, Serialize)]
pub struct DebtReport {
    /// The partition.
    pub partition: u16,
    /// The account.
    pub account: u32,
    /// The instrument of the lots that it owes; absent for cash.
    pub instrument: Option<u32>,
    /// Lots, or cash in price units times lots.
    pub amount: String,
}

/// The delivery stores' figures.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DeliveryReport {
    /// The counters of the readers of all stores.
    #[serde(flatten)]
    pub counts: DeliveryCounts,
    /// Sweeping of all stores.
    #[serde(flatten)]
    pub sweeps: SweepReport,
    /// The stores of the node's own partitions, traded or followed, in the order of their numbers.
    pub sources: Vec<OwnStoreReport>,
}

/// The figures of the store of a partition's orders.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OwnStoreReport {
    /// The source of the orders: the partition's number.
    pub source: u16,
    /// The counters of the store.
    #[serde(flatten)]
    pub counts: OwnStoreCounts,
    /// The store.
    pub store: StoreReport,
}

impl DeliveryReport {
    fn of(figures: &DeliveryFigures) -> DeliveryReport {
        let sources = figures.own.iter().map(|own| OwnStoreReport {
            source: own.source.0,
            counts: own.counters.report(),
            store: *own.store.lock().unwrap_or_else(PoisonError::into_inner),
        });
        DeliveryReport {
            counts: figures.counters.report(),
            sweeps: figures.sweeps.report(),
            sources: sources.collect(),
        }
    }
}

/// One latency's distribution, in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyReport {
    /// Its name.
    pub name: &'static str,
    /// The number of measurements.
    pub count: u64,
    /// Mean.
    pub mean_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// The 90th percentile.
    pub p90_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// The time lost by one core.
#[derive(Clone, Debug, Serialize)]
pub struct HiccupLine {
    /// The core.
    pub core: usize,
    /// Median lateness, nanoseconds.
    pub p50_ns: u64,
    /// The 99.9th percentile of the lateness, nanoseconds.
    pub p999_ns: u64,
    /// The greatest lateness, nanoseconds.
    pub max_ns: u64,
    /// The number of times that more than the threshold was lost.
    pub stolen_count: u64,
    /// The share of time lost this way, in percent.
    pub stolen_percent: f64,
}

impl LatencyReport {
    /// Returns the distribution of a snapshot.
    #[must_use]
    pub fn of(name: &'static str, snapshot: &Snapshot) -> LatencyReport {
        LatencyReport {
            name,
            count: snapshot.count(),
            mean_ns: snapshot.mean_ns() as u64,
            p50_ns: snapshot.quantile_ns(0.5),
            p90_ns: snapshot.quantile_ns(0.9),
            p99_ns: snapshot.quantile_ns(0.99),
            p999_ns: snapshot.quantile_ns(0.999),
            max_ns: snapshot.max_ns(),
        }
    }
}

impl HiccupLine {
    fn of(report: &HiccupReport) -> HiccupLine {
        HiccupLine {
            core: report.core,
            p50_ns: report.lateness.quantile_ns(0.5),
            p999_ns: report.lateness.quantile_ns(0.999),
            max_ns: report.lateness.max_ns(),
            stolen_count: report.stolen_count,
            stolen_percent: report.stolen_share() * 100.0,
        }
    }
}

impl NodeStatus {
    /// Returns the current figures.
    #[must_use]
    pub fn report(&self) -> StatusReport {
        let gateway = self.gateway.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let market = |definition: &DefineInstrument| {
            let own = self.delivery.own_of(definition.partition_id)?;
            own.market(definition.instrument_id)
        };
        let instruments = gateway
            .instruments
            .iter()
            .map(|d| InstrumentReport::of(d, &market(d).unwrap_or_default()));
        let hiccups = self.hiccups.as_ref().map(Hiccups::report).unwrap_or_default();
        let (own, outside): (Vec<_>, Vec<_>) =
            self.cold.iter().partition(|(source, _)| self.delivery.own_of(**source).is_some());
        let archives = |of: Vec<(&PartitionId, &Arc<ColdFigures>)>| {
            of.into_iter().map(|(source, cold)| cold.report(*source)).collect()
        };
        StatusReport {
            version: env!("CARGO_PKG_VERSION"),
            uptime_s: self.started.elapsed().as_secs_f64(),
            durability: self.durability.to_string(),
            wait: self.wait.to_string(),
            fused: self.fused,
            partitions: self.partitions.iter().map(partition_report).collect(),
            debts: (self.partitions.iter())
                .flat_map(|one| debt_reports(one.id, &one.figures))
                .collect(),
            gateway: gateway.counters.plus(&gateway.newcomers),
            tls: self.tls.as_ref().map(|tls| tls.report()),
            delivery: DeliveryReport::of(&self.delivery),
            http: HttpReport::default(),
            web: self.web.as_ref().map(|(web, http)| WebReport::of(web, http)),
            ingest: self.ingest.as_ref().map(|(address, figures)| figures.report(*address)),
            replica: self.replica.as_ref().map(|replica| replica.report()),
            subscriptions: self
                .subscriptions
                .as_ref()
                .map(|(address, figures)| figures.report(*address)),
            market: self.market.as_ref().map(|market| market.report()),
            publish: (self.channels.iter())
                .map(|(id, address, figures)| figures.report(*id, *address))
                .collect(),
            cold: archives(own),
            cold_sources: archives(outside),
            router: self.router.as_ref().map(|board| board.report()),
            links: self.links.as_ref().map(|(address, board)| board.report(*address)),
            uplinks: self.uplinks.as_ref().map(|board| board.report()).unwrap_or_default(),
            instruments: instruments.collect(),
            cycles: self.cycles.report(),
            latencies: self.latency_reports(),
            hiccups: hiccups.iter().map(HiccupLine::of).collect(),
            log_bytes: self.directory_bytes(),
            dropped_lines: crate::diagnostics::dropped_lines(),
            dropped_notices: crate::service::dropped_notices(),
        }
    }

    /// Returns the bytes of all files of the node, also those of partitions elsewhere.
    fn directory_bytes(&self) -> u64 {
        let dirs = self.partitions.iter().map(|one| &one.dir);
        let elsewhere = dirs.filter(|dir| !dir.starts_with(&self.dir));
        elsewhere.chain([&self.dir]).map(|dir| directory_bytes(dir)).sum()
    }

    fn latency_reports(&self) -> Vec<LatencyReport> {
        let Some(reader) = &self.latencies else { return Vec::new() };
        let report = reader.report();
        let measures = Measure::ALL.iter();
        measures.map(|m| LatencyReport::of(m.name(), report.total.of(*m))).collect()
    }

    /// Returns a report and the latencies in Prometheus's text format.
    #[must_use]
    pub fn prometheus(&self, report: &StatusReport) -> String {
        let hiccups = self.hiccups.as_ref().map(Hiccups::report).unwrap_or_default();
        let mut page = MetricsPage::default();
        if let Some(reader) = &self.latencies {
            page.append(&weir_probe::prometheus::render(&reader.report(), &hiccups));
        }
        metrics::put(report, &mut page);
        page.into_text()
    }
}

fn partition_report(one: &PartitionStatus) -> PartitionReport {
    let figures = &one.figures;
    let snapshot = figures.snapshot();
    PartitionReport {
        id: one.id.0,
        epoch: one.epoch.0,
        thread: one.thread.to_string(),
        durability: one.durability.to_string(),
        counts: figures.counters.report(),
        digest: format!("{:016x}", figures.digest.load(Ordering::Relaxed)),
        snapshot_position: snapshot.map(|(position, _)| position),
        snapshot_state: snapshot.map(|(_, state)| format!("{state:016x}")),
        held_by: figures.holder(),
    }
}

fn debt_reports(
    partition_id: PartitionId,
    figures: &PartitionFigures,
) -> impl Iterator<Item = DebtReport> + use<> {
    let partition = partition_id.0;
    figures.debts().into_iter().map(move |debt| DebtReport {
        partition,
        account: debt.account_id.0,
        instrument: Some(debt.instrument_id.0).filter(|_| !debt.instrument_id.is_none()),
        amount: debt.amount.to_string(),
    })
}

/// Returns the bytes of all files below a directory; unreadable entries count zero.
fn directory_bytes(dir: &std::path::Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => directory_bytes(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

#[cfg(test)]
mod tests;
