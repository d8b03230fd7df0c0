//! The node's status: one structure for `/status`, `weir status` and the demo's table.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::Serialize;
use weir_client::status::phase_name;
use weir_door::handshakes::{TlsDoor, TlsReport};
use weir_gateway::{GatewayCounters, GatewayStatus};
use weir_marketgate::gateway::{MarketFigures, MarketReport};
use weir_marketgate::publish::{PublishFigures, PublishReport};
use weir_orderstate::cold::{ColdFigures, ColdReport};
use weir_orderstate::figures::DeliveryFigures;
use weir_orderstate::ingest::{IngestFigures, IngestReport};
use weir_orderstate::markets::Market;
use weir_orderstate::replica::{ReplicaFigures, ReplicaReport};
use weir_orderstate::router::{BackendReport, RouterBoard, RouterReport};
use weir_orderstate::stores::{OWN, StoreReport};
use weir_partition::PartitionFigures;
use weir_probe::{DrainReader, HiccupReport, Hiccups, Measure, Snapshot};
use weir_runtime::cycle_times::{CycleReport, CycleTimes};
use weir_runtime::{Metric, WaitStrategy};
use weir_subscribe::{BrokerFigures, BrokerReport};
use weir_types::{Durability, Epoch, PartitionId};
use weir_web::{WebFigures, WebReport};
use weir_wire::event::Uncrossed;
use weir_wire::reference::DefineInstrument;

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
    pub partitions: Vec<(PartitionId, Epoch, Arc<PartitionFigures>)>,
    /// The gateway.
    pub gateway: Arc<Mutex<GatewayStatus>>,
    /// Handshakes, with TLS.
    pub tls: Option<Arc<TlsDoor>>,
    /// Order state over HTTP.
    pub web: Option<Arc<WebFigures>>,
    /// The delivery store.
    pub delivery: Arc<DeliveryFigures>,
    /// The listening address for outside cores, and its figures.
    pub ingest: Option<(std::net::SocketAddr, Arc<IngestFigures>)>,
    /// The node whose sources are followed.
    pub replica: Option<Arc<ReplicaFigures>>,
    /// The listening address for durable subscriptions and their figures, where served.
    pub broker: Option<(std::net::SocketAddr, Arc<BrokerFigures>)>,
    /// The market-data gateway, where configured.
    pub market: Option<Arc<MarketFigures>>,
    /// The publisher of the node's own market: its address for retransmission requests, and its
    /// figures.
    pub publish: Option<(std::net::SocketAddr, Arc<PublishFigures>)>,
    /// The archives of discarded orders, by source, where configured.
    pub cold: BTreeMap<PartitionId, Arc<ColdFigures>>,
    /// The nodes behind a router.
    pub router: Option<Arc<RouterBoard>>,
    /// The cycles of the gateway's thread.
    pub cycles: Arc<CycleTimes>,
    /// The latencies, when orders are stamped.
    pub latencies: Option<DrainReader>,
    /// The hiccup threads, when they run.
    pub hiccups: Option<Hiccups>,
}

/// A snapshot of a node's figures.
#[derive(Clone, Debug, Serialize)]
pub struct StatusReport {
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
    /// The gateway's counters.
    pub gateway: GatewayCounters,
    /// TLS handshakes; absent without TLS.
    pub tls: Option<TlsReport>,
    /// The delivery store.
    pub delivery: DeliveryReport,
    /// Order state over HTTP; absent where not served.
    pub web: Option<WebReport>,
    /// Outside cores; absent where none is configured.
    pub ingest: Option<IngestReport>,
    /// Sources of another node; absent where none is followed.
    pub replica: Option<ReplicaReport>,
    /// Durable subscriptions; absent where not served.
    pub broker: Option<BrokerReport>,
    /// The market-data gateway; absent where not configured.
    pub market: Option<MarketReport>,
    /// The node's own market; absent where not published.
    pub publish: Option<PublishReport>,
    /// The archive of the node's own orders; absent without one.
    pub cold: Option<ColdReport>,
    /// The archives of outside sources' orders.
    pub cold_sources: Vec<ColdReport>,
    /// The nodes behind a router; absent for a node.
    pub router: Option<RouterReport>,
    /// The instruments.
    pub instruments: Vec<InstrumentReport>,
    /// Cycles of the gateway's thread that did some work, since the start.
    pub cycles: CycleReport,
    /// Latencies since the start, by name.
    pub latencies: Vec<LatencyReport>,
    /// The time stolen from each core.
    pub hiccups: Vec<HiccupLine>,
    /// Bytes of all files in the node's directory.
    pub log_bytes: u64,
    /// Lines of diagnostics dropped because standard error was read too slowly.
    pub dropped_lines: u64,
    /// Watchdog notices dropped because the service manager's queue was full.
    pub dropped_notices: u64,
}

/// One partition's figures.
#[derive(Clone, Debug, Serialize)]
pub struct PartitionReport {
    /// The partition; 0 is the control partition.
    pub id: u16,
    /// The log's epoch.
    pub epoch: u32,
    /// The last applied position.
    pub position: u64,
    /// The engine's digest after it, in hexadecimal.
    pub digest: String,
    /// Live orders.
    pub live_orders: u64,
    /// Events emitted.
    pub events: u64,
    /// Commands that wait for their commit.
    pub uncommitted: u64,
    /// Batches appended since the start.
    pub batches: u64,
    /// Commands refused because the log was full.
    pub refused: u64,
    /// True while its log's disk is full.
    pub is_log_full: bool,
    /// Refusals dropped because the ring to the gateway was full.
    pub refusals_dropped: u64,
    /// Definitions of the control log that the partition's limits or rules refused; it continues
    /// without them.
    pub imports_refused: u64,
    /// The position of the last snapshot that this run took; absent before the first.
    pub snapshot_position: Option<u64>,
    /// The hash of the engine's whole state at that position, in hexadecimal.
    pub snapshot_state: Option<String>,
}

/// The delivery store's figures.
#[derive(Clone, Debug, Serialize)]
pub struct DeliveryReport {
    /// Orders in the store.
    pub orders: u64,
    /// Changes ingested.
    pub ingested: u64,
    /// Pages served.
    pub pages: u64,
    /// Rows in them.
    pub rows: u64,
    /// Parked readers.
    pub parked: u64,
    /// Queries refused.
    pub refused: u64,
    /// The number of times that an event had to wait because the store was full.
    pub full_waits: u64,
    /// Steps of sweeping that found some work, in all stores.
    pub sweeps: u64,
    /// The longest of them, in nanoseconds.
    pub sweep_longest_ns: u64,
    /// The steps that took longer than 200 µs, including time that the thread was preempted.
    pub sweeps_over_limit: u64,
    /// The store.
    pub store: StoreReport,
}

impl DeliveryReport {
    fn of(figures: &DeliveryFigures) -> DeliveryReport {
        let load = |figure: &std::sync::atomic::AtomicU64| figure.load(Ordering::Relaxed);
        DeliveryReport {
            orders: load(&figures.orders),
            ingested: load(&figures.ingested),
            pages: load(&figures.pages),
            rows: load(&figures.rows),
            parked: load(&figures.parked),
            refused: load(&figures.refused),
            full_waits: load(&figures.full_waits),
            sweeps: load(&figures.sweeps.steps),
            sweep_longest_ns: load(&figures.sweeps.longest_ns),
            sweeps_over_limit: load(&figures.sweeps.over_limit),
            store: figures.store.lock().unwrap_or_else(PoisonError::into_inner).report(),
        }
    }
}

/// An instrument.
#[derive(Clone, Debug, Serialize)]
pub struct InstrumentReport {
    /// Its identifier.
    pub id: u32,
    /// Its name.
    pub symbol: String,
    /// Its partition.
    pub partition: u16,
    /// The power of ten of the price: a mantissa m is m times ten to this power.
    pub price_exponent: i8,
    /// The power of ten of a lot, in units.
    pub qty_exponent: i8,
    /// The least price step, as a mantissa; prices are multiples of it.
    pub tick_size: i64,
    /// The quantity step; quantities are multiples of it.
    pub lot_size: u64,
    /// The lowest price of an order, and of a market sell's trades, as a mantissa.
    pub price_min: i64,
    /// The highest price of an order, and of a market buy's trades, as a mantissa.
    pub price_max: i64,
    /// The current phase; absent when no retained event shows it.
    pub phase: Option<&'static str>,
    /// Log time of the last change of phase, nanoseconds since the Unix epoch.
    pub phase_since_ns: Option<u64>,
    /// The price of its last trade, as a mantissa.
    pub last_price: Option<i64>,
    /// The price of its last uncrossing that traded, or else its definition's, as a mantissa.
    pub static_reference: Option<i64>,
    /// The price of its last uncrossing, as a mantissa; absent if it traded nothing.
    pub uncrossing_price: Option<i64>,
    /// The volume of its last uncrossing, in lots.
    pub uncrossing_qty: Option<u64>,
    /// Demand less supply at the price of its last uncrossing, in lots.
    pub uncrossing_surplus: Option<i64>,
    /// Log time of its last uncrossing, nanoseconds since the Unix epoch.
    pub uncrossing_at_ns: Option<u64>,
    /// The price of its last opening call, as a mantissa; absent if it traded nothing.
    pub opening_price: Option<i64>,
    /// The volume of its last opening call, in lots.
    pub opening_qty: Option<u64>,
    /// The price of its last closing call, as a mantissa; absent if it traded nothing.
    pub closing_price: Option<i64>,
    /// The volume of its last closing call, in lots.
    pub closing_qty: Option<u64>,
    /// Its last phases, the newest at the end.
    pub phases: String,
}

impl InstrumentReport {
    fn of(d: &DefineInstrument, market: &Market) -> InstrumentReport {
        let uncrossing = market.last_uncrossing;
        let defined = Some(d.reference_price).filter(|price| price.0 != 0);
        let told = |figure: fn(&Uncrossed) -> u64| uncrossing.as_ref().map(figure);
        let price = |of: Option<Uncrossed>| of.filter(|of| !of.qty.is_zero()).map(|of| of.price.0);
        let phases: Vec<_> = market.phases.iter().flatten().map(|p| phase_name(*p)).collect();
        InstrumentReport {
            id: d.instrument_id.0,
            symbol: d.symbol.to_string(),
            partition: d.partition_id.0,
            price_exponent: d.price_exponent,
            qty_exponent: d.qty_exponent,
            tick_size: d.tick_size.0,
            lot_size: d.lot_size.0,
            price_min: d.price_min.0,
            price_max: d.price_max.0,
            phase: market.phase.map(phase_name),
            phase_since_ns: market.phase_since.map(|at| at.0),
            last_price: market.last_price.map(|price| price.0),
            static_reference: market.static_reference.or(defined).map(|price| price.0),
            uncrossing_price: price(uncrossing),
            uncrossing_qty: told(|u| u.qty.0),
            uncrossing_surplus: uncrossing.map(|u| u.surplus),
            uncrossing_at_ns: told(|u| u.transact_time.0),
            opening_price: price(market.opening),
            opening_qty: market.opening.map(|of| of.qty.0),
            closing_price: price(market.closing),
            closing_qty: market.closing.map(|of| of.qty.0),
            phases: phases.join(" "),
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
        let gateway = self.gateway.lock().unwrap_or_else(PoisonError::into_inner);
        let markets = self.delivery.markets.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let market = |d: &DefineInstrument| markets.get(&d.instrument_id).copied();
        let instruments = gateway
            .instruments
            .iter()
            .map(|d| InstrumentReport::of(d, &market(d).unwrap_or_default()));
        let hiccups = self.hiccups.as_ref().map(Hiccups::report).unwrap_or_default();
        let outside = self.cold.iter().filter(|(source, _)| **source != OWN);
        let cold_sources = outside.map(|(source, cold)| cold.report(*source));
        StatusReport {
            version: env!("CARGO_PKG_VERSION"),
            uptime_s: self.started.elapsed().as_secs_f64(),
            durability: self.durability.to_string(),
            wait: self.wait.to_string(),
            fused: self.fused,
            partitions: self.partitions.iter().map(partition_report).collect(),
            gateway: gateway.counters.sum(&gateway.newcomers),
            tls: self.tls.as_ref().map(|tls| tls.report()),
            delivery: DeliveryReport::of(&self.delivery),
            web: self.web.as_ref().map(|web| web.report()),
            ingest: self.ingest.as_ref().map(|(address, figures)| figures.report(*address)),
            replica: self.replica.as_ref().map(|replica| replica.report()),
            broker: self.broker.as_ref().map(|(address, figures)| figures.report(*address)),
            market: self.market.as_ref().map(|market| market.report()),
            publish: self.publish.as_ref().map(|(address, figures)| figures.report(*address)),
            cold: self.cold.get(&OWN).map(|cold| cold.report(OWN)),
            cold_sources: cold_sources.collect(),
            router: self.router.as_ref().map(|board| board.report()),
            instruments: instruments.collect(),
            cycles: self.cycles.report(),
            latencies: self.latency_reports(),
            hiccups: hiccups.iter().map(HiccupLine::of).collect(),
            log_bytes: directory_bytes(&self.dir),
            dropped_lines: crate::diagnostics::dropped_lines(),
            dropped_notices: crate::service::dropped_notices(),
        }
    }

    fn latency_reports(&self) -> Vec<LatencyReport> {
        let Some(reader) = &self.latencies else { return Vec::new() };
        let report = reader.report();
        let measures = Measure::ALL.iter();
        measures.map(|m| LatencyReport::of(m.name(), report.total.of(*m))).collect()
    }

    /// Returns all metrics in Prometheus's text format.
    #[must_use]
    pub fn prometheus(&self) -> String {
        let hiccups = self.hiccups.as_ref().map(Hiccups::report).unwrap_or_default();
        let mut text = match &self.latencies {
            Some(reader) => weir_probe::prometheus::render(&reader.report(), &hiccups),
            None => String::new(),
        };
        self.put_counters(&mut text);
        text
    }

    fn put_counters(&self, text: &mut String) {
        let report = self.report();
        let g = &report.gateway;
        let d = &report.delivery;
        let totals: [(&str, &str, u64); 20] = [
            ("weir_gateway_requests_total", "Requests handed to partitions.", g.requests),
            ("weir_gateway_reports_total", "Reports sent.", g.reports),
            ("weir_gateway_rejects_total", "Rejects sent without an event.", g.rejects),
            ("weir_gateway_malformed_total", "Messages that could not be read.", g.malformed),
            ("weir_gateway_broken_streams_total", "Streams that were no frames.", g.broken_streams),
            ("weir_gateway_back_pressure_total", "Times reading had to wait.", g.back_pressure),
            ("weir_gateway_held_to_rate_total", "Reading waited for a rate.", g.held_to_rate),
            ("weir_gateway_accepted_total", "Connections accepted.", g.accepted),
            ("weir_gateway_logons_refused_total", "Logons refused.", g.logons_refused),
            (
                "weir_gateway_connections_refused_total",
                "Connections closed because there were as many as there may be.",
                g.connections_refused,
            ),
            ("weir_gateway_tls_broken_total", "TLS that was changed on its way.", g.tls_broken),
            (
                "weir_gateway_tls_truncated_total",
                "Connections with TLS that ended without its farewell.",
                g.tls_truncated,
            ),
            (
                "weir_gateway_slow_consumers_total",
                "Sessions that read too slowly.",
                g.slow_consumers,
            ),
            ("weir_gateway_sessions_lost_total", "Sessions lost.", g.sessions_lost),
            ("weir_diagnostics_dropped_total", "Lines not written.", report.dropped_lines),
            (
                "weir_service_notices_dropped_total",
                "Signs of life that the service manager had no room for.",
                report.dropped_notices,
            ),
            ("weir_delivery_ingested_total", "Changes taken in.", d.ingested),
            ("weir_delivery_pages_total", "Pages served.", d.pages),
            ("weir_delivery_rows_total", "Rows served.", d.rows),
            ("weir_delivery_refused_total", "Questions refused.", d.refused),
        ];
        for (name, help, value) in totals
            .into_iter()
            .chain(logons_and_limits(g))
            .chain(ends_of_connections(g))
            .chain(copies(g))
        {
            put_metric(text, (name, help, "counter"), &[(String::new(), value)]);
        }
        let gauges: [(&str, &str, u64); 6] = [
            ("weir_gateway_connections", "Connections now.", g.connections),
            ("weir_gateway_sessions", "Sessions logged on now.", g.sessions),
            ("weir_gateway_copy_streams", "Streams of copies now.", g.copy_streams),
            ("weir_gateway_copy_streams_behind", "Those that are behind.", g.copy_streams_behind),
            ("weir_delivery_orders", "Orders in the store.", d.orders),
            ("weir_log_bytes", "Bytes of all log files.", report.log_bytes),
        ];
        for (name, help, value) in gauges {
            put_metric(text, (name, help, "gauge"), &[(String::new(), value)]);
        }
        put_reasons(g, text);
        put_cycles(&report.cycles, text);
        put_stores(&report, text);
        put_parts(&report, text);
        self.put_partitions(&report, text);
    }

    fn put_partitions(&self, report: &StatusReport, text: &mut String) {
        type Figure = fn(&PartitionReport) -> u64;
        let figures: [(&str, &str, &str, Figure); 9] = [
            ("weir_partition_position", "Last applied position.", "counter", |p| p.position),
            ("weir_partition_events_total", "Events said.", "counter", |p| p.events),
            ("weir_partition_live_orders", "Live orders.", "gauge", |p| p.live_orders),
            ("weir_partition_uncommitted", "Commands before commit.", "gauge", |p| p.uncommitted),
            ("weir_partition_log_full", "1 without room.", "gauge", |p| p.is_log_full.into()),
            ("weir_partition_refused_total", "Refused without room.", "counter", |p| p.refused),
            (
                "weir_partition_refusals_dropped_total",
                "Refusals that found no room on their way.",
                "counter",
                |p| p.refusals_dropped,
            ),
            ("weir_partition_batches_total", "Batches appended.", "counter", |p| p.batches),
            (
                "weir_partition_imports_refused_total",
                "Definitions of the control log that the partition refused.",
                "counter",
                |p| p.imports_refused,
            ),
        ];
        for (name, help, kind, figure) in figures {
            let values = report.partitions.iter();
            let values: Vec<_> =
                values.map(|p| (format!("{{partition=\"{}\"}}", p.id), figure(p))).collect();
            put_metric(text, (name, help, kind), &values);
        }
    }
}

/// Returns the metrics of logon checks, and of refusals by session limits.
fn logons_and_limits(g: &GatewayCounters) -> [(&'static str, &'static str, u64); 6] {
    [
        (
            "weir_gateway_api_keys_checked_total",
            "API keys checked, good or not.",
            g.api_keys_checked,
        ),
        (
            "weir_gateway_signatures_checked_total",
            "Signatures of logons verified, good or not.",
            g.signatures_checked,
        ),
        ("weir_gateway_challenges_total", "Challenges given.", g.challenges),
        (
            "weir_gateway_keys_ended_total",
            "Sessions ended because their key expired or was replaced.",
            g.keys_ended,
        ),
        (
            "weir_gateway_in_flight_refused_total",
            "Requests refused by their session's window.",
            g.in_flight_refused,
        ),
        (
            "weir_gateway_throttled_total",
            "Requests that engines refused by their session's rate.",
            g.throttled,
        ),
    ]
}

/// Returns the metrics of drop copy.
fn copies(g: &GatewayCounters) -> [(&'static str, &'static str, u64); 2] {
    [
        ("weir_gateway_copies_total", "Copies of reports sent.", g.copies),
        (
            "weir_gateway_copy_streams_cut_total",
            "Streams of copies ended because they were behind what is kept.",
            g.copy_streams_cut,
        ),
    ]
}

/// Writes the metrics of the gateway's cycles.
fn put_cycles(cycles: &CycleReport, text: &mut String) {
    let CycleReport { count, p50_ns, p99_ns, p99_99_ns, max_ns } = *cycles;
    let name = "weir_gateway_cycles_total";
    put_metric(text, (name, "Cycles that did something.", "counter"), &[(String::new(), count)]);
    let quantiles = [("0.5", p50_ns), ("0.99", p99_ns), ("0.9999", p99_99_ns), ("1", max_ns)];
    let values = quantiles.map(|(q, ns)| (format!("{{quantile=\"{q}\"}}"), ns));
    let name = "weir_gateway_cycle_nanoseconds";
    put_metric(text, (name, "Their lengths since the start.", "gauge"), &values);
}

fn put_reasons(gateway: &GatewayCounters, text: &mut String) {
    let kinds = [
        ("weir_gateway_rejects_by_reason_total", "Rejects without an event.", &gateway.rejects_by),
        ("weir_gateway_logons_refused_by_reason_total", "Logons.", &gateway.logons_refused_by),
        ("weir_gateway_closed_by_reason_total", "Connections closed.", &gateway.closed_by),
        ("weir_gateway_copies_refused_by_reason_total", "For copies.", &gateway.copies_refused),
        ("weir_gateway_told_by_reason_total", "Refusals and ends told.", &gateway.told_by),
    ];
    for (name, help, counts) in kinds {
        let values: Vec<_> =
            counts.given().map(|(reason, n)| (format!("{{reason=\"{reason:?}\"}}"), n)).collect();
        put_metric(text, (name, help, "counter"), &values);
    }
}

fn put_handshakes(tls: &TlsReport, text: &mut String) {
    let outcome = |name: &str| format!("{{outcome=\"{name}\"}}");
    let done = [(outcome("completed"), tls.completed)];
    let failed = tls.failed.iter().map(|(name, count)| (outcome(name), *count));
    let outcomes: Vec<_> = done.into_iter().chain(failed).collect();
    put_metric(text, ("weir_tls_handshakes_total", "What became of them.", "counter"), &outcomes);
    let pending = [(String::new(), tls.pending)];
    put_metric(text, ("weir_tls_handshakes_pending", "Under way.", "gauge"), &pending);
    let reloads = [(outcome("read"), tls.reloads), (outcome("refused"), tls.reloads_failed)];
    let head = ("weir_tls_reloads_total", "Certificates read anew.", "counter");
    put_metric(text, head, &reloads);
}

fn put_web(web: &WebReport, text: &mut String) {
    let refused = [
        ("{for=\"key\"}", web.keys_refused),
        ("{for=\"question\"}", web.asks_refused),
        ("{for=\"room\"}", web.turned_away),
    ];
    let refused: Vec<_> = refused.map(|(labels, count)| (labels.to_owned(), count)).into();
    put_metric(text, ("weir_web_refused_total", "Refused, for what.", "counter"), &refused);
    let plain = [
        ("weir_web_entered_total", "Readers let in.", "counter", web.entered),
        ("weir_web_pages_total", "Pages given.", "counter", web.pages),
        ("weir_web_readers", "Readers now.", "gauge", web.readers),
        ("weir_web_sockets", "WebSockets now.", "gauge", web.sockets),
        ("weir_web_market_sockets", "Of market data.", "gauge", web.market_sockets),
        ("weir_web_market_messages_total", "Told.", "counter", web.market_messages),
    ];
    for (name, help, kind, value) in plain {
        put_metric(text, (name, help, kind), &[(String::new(), value)]);
    }
}

/// Writes metrics without labels.
fn put_plain(metrics: &[Metric], text: &mut String) {
    for (name, help, kind, value) in metrics {
        put_metric(text, (name, help, kind), &[(String::new(), *value)]);
    }
}

fn put_ingest(ingest: &IngestReport, text: &mut String) {
    for (name, help, kind, value) in ingest.metrics() {
        put_metric(text, (name, help, kind), &[(String::new(), value)]);
    }
    type Figure = fn(&weir_orderstate::ingest::figures::SourceReport) -> u64;
    let figures: [(&str, &str, &str, Figure); 9] = [
        ("weir_source_open", "Whether it is fed.", "gauge", |s| u64::from(s.is_open)),
        ("weir_source_whole", "Whether all is there.", "gauge", |s| u64::from(s.is_whole)),
        ("weir_source_live_orders", "Live orders.", "gauge", |s| u64::from(s.store.live_orders)),
        ("weir_source_batches_total", "Batches taken in.", "counter", |s| s.batches),
        ("weir_source_rows_total", "Rows taken in.", "counter", |s| s.rows),
        ("weir_source_duplicates_total", "Batches that came again.", "counter", |s| s.duplicates),
        ("weir_source_gaps_total", "Gaps told.", "counter", |s| s.gaps),
        ("weir_source_rejects_total", "Openings and batches refused.", "counter", |s| s.rejects),
        ("weir_source_swept_total", "Records left out by resends.", "counter", |s| s.swept),
    ];
    for (name, help, kind, figure) in figures {
        let rows = ingest.sources.iter();
        let values: Vec<_> =
            rows.map(|row| (format!("{{source=\"{}\"}}", row.source), figure(row))).collect();
        put_metric(text, (name, help, kind), &values);
    }
}

/// Writes the metrics of parts that only some nodes have.
fn put_parts(report: &StatusReport, text: &mut String) {
    report.tls.iter().for_each(|tls| put_handshakes(tls, text));
    report.web.iter().for_each(|web| put_web(web, text));
    report.ingest.iter().for_each(|ingest| put_ingest(ingest, text));
    report.replica.iter().for_each(|replica| put_replica(replica, text));
    report.broker.iter().for_each(|broker| put_plain(&broker.metrics(), text));
    report.market.iter().for_each(|market| {
        put_plain(&market.metrics(), text);
        market.stages.put_metrics(text);
    });
    put_cold(report, text);
    report.publish.iter().for_each(|publish| put_publish(publish, text));
    report.router.iter().for_each(|router| put_router(router, text));
}

fn put_publish(publish: &PublishReport, text: &mut String) {
    for (name, help, kind, figure) in weir_marketgate::publish::METRICS {
        put_metric(text, (name, help, kind), &[(String::new(), figure(publish))]);
    }
}

fn put_cold(report: &StatusReport, text: &mut String) {
    let archives = || report.cold.iter().chain(&report.cold_sources);
    if archives().next().is_none() {
        return;
    }
    for (name, help, kind, figure) in weir_orderstate::cold::figures::METRICS {
        let values =
            archives().map(|cold| (format!("{{source=\"{}\"}}", cold.source), figure(cold)));
        put_metric(text, (name, help, kind), &values.collect::<Vec<_>>());
    }
}

fn put_replica(replica: &ReplicaReport, text: &mut String) {
    let plain = [
        ("weir_replica_connected", "1 while logged on.", "gauge", replica.is_connected.into()),
        ("weir_replica_failures_total", "Connections lost.", "counter", replica.failures),
    ];
    for (name, help, kind, value) in plain {
        put_metric(text, (name, help, kind), &[(String::new(), value)]);
    }
    for (name, help, kind, figure) in weir_orderstate::replica::figures::METRICS {
        let rows = replica.sources.iter();
        let values: Vec<_> =
            rows.map(|row| (format!("{{source=\"{}\"}}", row.source), figure(row))).collect();
        put_metric(text, (name, help, kind), &values);
    }
}

/// Writes the metrics of each store's memory and sweeping.
fn put_stores(report: &StatusReport, text: &mut String) {
    // A followed partition 1 replaces the node's own.
    let is_followed = report.replica.iter().flat_map(|r| &r.sources).any(|s| s.source == 1);
    let own = (!is_followed).then_some((1, &report.delivery.store));
    let sources = report.ingest.iter().flat_map(|ingest| &ingest.sources);
    let followed = report.replica.iter().flat_map(|replica| &replica.sources);
    let sources = sources.map(|s| (s.source, &s.store));
    let followed = followed.map(|s| (s.source, &s.store));
    let stores: Vec<_> = own.into_iter().chain(sources).chain(followed).collect();
    for (name, help, kind, figure) in weir_orderstate::stores::figures::METRICS {
        let value = |(source, store): &(u16, &StoreReport)| {
            (format!("{{source=\"{source}\"}}"), figure(store))
        };
        let values: Vec<_> = stores.iter().map(value).collect();
        put_metric(text, (name, help, kind), &values);
    }
    let delivery = &report.delivery;
    let plain = [
        ("weir_store_full_waits_total", "Events that waited.", "counter", delivery.full_waits),
        ("weir_store_sweeps_total", "Steps of sweeping.", "counter", delivery.sweeps),
        ("weir_store_sweep_longest_ns", "The longest.", "gauge", delivery.sweep_longest_ns),
        ("weir_store_sweeps_over_200us_total", "Longer.", "counter", delivery.sweeps_over_limit),
    ];
    for (name, help, kind, value) in plain {
        put_metric(text, (name, help, kind), &[(String::new(), value)]);
    }
}

fn put_router(router: &RouterReport, text: &mut String) {
    for (name, help, kind, value) in router.metrics() {
        put_metric(text, (name, help, kind), &[(String::new(), value)]);
    }
    type Figure = fn(&BackendReport) -> u64;
    let figures: [(&str, &str, &str, Figure); 5] = [
        ("weir_router_store_up", "Whether it is asked.", "gauge", |b| u64::from(b.health == "up")),
        ("weir_router_store_lag", "Changes behind its source.", "gauge", |b| b.lag),
        ("weir_router_store_asked", "Questions not answered.", "gauge", |b| b.asked.into()),
        ("weir_router_store_connects_total", "Connections made.", "counter", |b| b.connects),
        ("weir_router_store_losses_total", "Connections lost.", "counter", |b| b.losses),
    ];
    for (name, help, kind, figure) in figures {
        let label =
            |b: &BackendReport| format!("{{source=\"{}\",address=\"{}\"}}", b.source, b.address);
        let rows = router.backends.iter();
        let values: Vec<_> = rows.map(|row| (label(row), figure(row))).collect();
        put_metric(text, (name, help, kind), &values);
    }
}

fn put_metric(text: &mut String, head: (&str, &str, &str), values: &[(String, u64)]) {
    use std::fmt::Write;
    let (name, help, kind) = head;
    let written = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}").and_then(|()| {
        values.iter().try_for_each(|(labels, value)| writeln!(text, "{name}{labels} {value}"))
    });
    written.expect("a string takes all that is written to it");
}

fn partition_report(
    (id, epoch, figures): &(PartitionId, Epoch, Arc<PartitionFigures>),
) -> PartitionReport {
    let load = |figure: &std::sync::atomic::AtomicU64| figure.load(Ordering::Relaxed);
    let snapshot = figures.snapshot();
    PartitionReport {
        id: id.0,
        epoch: epoch.0,
        position: load(&figures.position),
        digest: format!("{:016x}", load(&figures.digest)),
        live_orders: load(&figures.live_orders),
        events: load(&figures.events),
        uncommitted: load(&figures.uncommitted),
        batches: load(&figures.batches),
        refused: load(&figures.refused),
        is_log_full: figures.is_log_full.load(Ordering::Relaxed),
        refusals_dropped: load(&figures.refusals_dropped),
        imports_refused: load(&figures.imports_refused),
        snapshot_position: snapshot.map(|(position, _)| position),
        snapshot_state: snapshot.map(|(_, state)| format!("{state:016x}")),
    }
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
/// Returns the metrics of connections that ended, or were refused.
fn ends_of_connections(g: &GatewayCounters) -> [(&'static str, &'static str, u64); 5] {
    [
        (
            "weir_gateway_connections_refused_total",
            "Connections beyond those that may be.",
            g.connections_refused,
        ),
        (
            "weir_gateway_address_refused_total",
            "Connections of an address with too many that have not logged on.",
            g.address_refused,
        ),
        (
            "weir_gateway_logon_timeouts_total",
            "Connections without a session for too long.",
            g.logon_timeouts,
        ),
        (
            "weir_gateway_connections_cut_total",
            "Connections that the node closed.",
            g.connections_cut,
        ),
        (
            "weir_gateway_connections_gone_total",
            "Connections that the peer closed.",
            g.connections_gone,
        ),
    ]
}
