//! The metrics page of a node: each part's figures under its prefix.

use weir_linkgate::figures::{GatewayReport, LinksReport, UplinkReport};
use weir_marketgate::publish::PublishReport;
use weir_orderstate::ingest::IngestReport;
use weir_orderstate::replica::ReplicaReport;
use weir_orderstate::router::RouterReport;
use weir_orderstate::stores::StoreReport;
use weir_runtime::figures::{Kind, MetricsPage};

use super::StatusReport;

/// Writes the metrics of a report.
pub(super) fn put(report: &StatusReport, page: &mut MetricsPage) {
    page.put("weir_gateway", &report.gateway);
    page.put("weir_gateway", &report.cycles);
    page.put("weir", report);
    let own = report.delivery.sources.iter();
    let rows: Vec<_> = own.map(|s| (source_label(s.source), &s.counts)).collect();
    page.put("weir_delivery", &report.delivery.counts);
    page.put_rows("weir_delivery", &rows);
    put_stores(report, page);
    put_parts(report, page);
    put_cold(report, page);
    let partition = |id: u16| format!("partition=\"{id}\"");
    let rows: Vec<_> = report.partitions.iter().map(|p| (partition(p.id), &p.counts)).collect();
    page.put_rows("weir_partition", &rows);
}

/// Writes the metrics of each store's memory and sweeping.
fn put_stores(report: &StatusReport, page: &mut MetricsPage) {
    let is_followed = |id| report.replica.iter().flat_map(|r| &r.sources).any(|s| s.source == id);
    let own = report.delivery.sources.iter().filter(|own| !is_followed(own.source));
    let own = own.map(|own| (own.source, &own.store));
    let sources = report.ingest.iter().flat_map(|ingest| &ingest.sources);
    let followed = report.replica.iter().flat_map(|replica| &replica.sources);
    let sources = sources.map(|s| (s.source, &s.store));
    let followed = followed.map(|s| (s.source, &s.store));
    let stores = own.chain(sources).chain(followed);
    let rows: Vec<(String, &StoreReport)> =
        stores.map(|(source, store)| (source_label(source), store)).collect();
    page.put_rows("weir_store", &rows);
    page.put("weir_store", &report.delivery.sweeps);
}

/// Writes the metrics of parts that only some nodes have.
fn put_parts(report: &StatusReport, page: &mut MetricsPage) {
    report.tls.iter().for_each(|tls| page.put("weir_tls", tls));
    page.put("weir_status", &report.http);
    report.web.iter().for_each(|web| {
        page.put("weir_web", &web.counts);
        page.put("weir_web", &web.http);
    });
    report.ingest.iter().for_each(|ingest| put_ingest(ingest, page));
    report.replica.iter().for_each(|replica| put_replica(replica, page));
    report.subscriptions.iter().for_each(|subscriptions| {
        page.put("weir_subscriptions", &subscriptions.door);
        page.put("weir_subscriptions", &subscriptions.queues);
        page.put("weir_subscriptions", &subscriptions.counts);
    });
    report.market.iter().for_each(|market| market.put_metrics(page));
    PublishReport::put_metrics(&report.publish, page);
    report.router.iter().for_each(|router| put_router(router, page));
    report.links.iter().for_each(|links| put_links(links, page));
    let partition = |link: &UplinkReport| format!("partition=\"{}\"", link.partition);
    let rows: Vec<_> = report.uplinks.iter().map(|link| (partition(link), link)).collect();
    page.put_rows("weir_uplink", &rows);
}

fn put_ingest(ingest: &IngestReport, page: &mut MetricsPage) {
    page.put("weir_ingest", &ingest.door);
    page.put("weir_ingest", &ingest.batches);
    let rows: Vec<_> = ingest.sources.iter().map(|s| (source_label(s.source), s)).collect();
    page.put_rows("weir_source", &rows);
    let live = ingest.sources.iter().map(|s| (source_label(s.source), s.store.live_orders));
    let name = "weir_source_live_orders";
    page.put_derived(name, Kind::Gauge, "Orders that can still change.", &live.collect::<Vec<_>>());
}

fn put_replica(replica: &ReplicaReport, page: &mut MetricsPage) {
    page.put("weir_replica", &replica.master);
    let rows: Vec<_> = replica.sources.iter().map(|s| (source_label(s.source), s)).collect();
    page.put_rows("weir_replica", &rows);
}

fn put_cold(report: &StatusReport, page: &mut MetricsPage) {
    let archives = || report.cold.iter().chain(&report.cold_sources);
    let files: Vec<_> = archives().map(|a| (source_label(a.source), &a.archive)).collect();
    let counts: Vec<_> = archives().map(|a| (source_label(a.source), &a.counts)).collect();
    page.put_rows("weir_cold", &files);
    page.put_rows("weir_cold", &counts);
}

fn put_links(links: &LinksReport, page: &mut MetricsPage) {
    page.put("weir_links", &links.door);
    let partition = |id: u16| format!("partition=\"{id}\"");
    let rows: Vec<_> = links.partitions.iter().map(|p| (partition(p.partition), p)).collect();
    page.put_rows("weir_links", &rows);
    let of = |link: &GatewayReport| {
        format!("gateway=\"{}\",{}", link.gateway, partition(link.partition))
    };
    let rows: Vec<_> = links.gateways.iter().map(|link| (of(link), link)).collect();
    page.put_rows("weir_link", &rows);
}

fn put_router(router: &RouterReport, page: &mut MetricsPage) {
    page.put("weir_router", router);
    let rows: Vec<_> = router.sources.iter().map(|s| (source_label(s.source), s)).collect();
    page.put_rows("weir_router_source", &rows);
    let stores = || {
        let address = |address: &str| format!(",address=\"{address}\"");
        router.backends.iter().map(move |b| (source_label(b.source) + &address(&b.address), b))
    };
    page.put_rows("weir_router_store", &stores().collect::<Vec<_>>());
    let up = stores().map(|(label, store)| (label, u64::from(store.health == "up")));
    let name = "weir_router_store_up";
    let help = "True while queries go to the store. 1 if true, else 0.";
    page.put_derived(name, Kind::Gauge, help, &up.collect::<Vec<_>>());
}

fn source_label(source: u16) -> String {
    format!("source=\"{source}\"")
}
