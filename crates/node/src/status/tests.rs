//! Every declared figure is in `/status` and in `/metrics`, and `docs/metrics.md` lists them all.
//! `WEIR_WRITE_METRICS=1` writes the page anew.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::Value as Json;
use weir_linkgate::figures::{GatewayReport, LinkedReport, LinksReport, UplinkReport};
use weir_marketgate::gateway::figures::{ChannelReport, FlushReport, ReceiveReport};
use weir_marketgate::gateway::shm::ShmReport;
use weir_marketgate::publish::{OmittedInstrument, SnapshotReport};
use weir_orderstate::ingest::figures::SourceReport;
use weir_orderstate::replica::figures::FollowReport;
use weir_orderstate::router;
use weir_orderstate::stores::StoreReport;
use weir_runtime::figures::Report;

use super::*;

/// The command that writes the page.
const AGAIN: &str = "WEIR_WRITE_METRICS=1 cargo test -p weir-node --lib status";
/// Figures of this number and above are set by [`Numbers`].
const FIRST: u64 = 1_000;

/// Sets each figure to a number of its own, and of the flags only one.
struct Numbers {
    next: u64,
    flags: usize,
    /// The index of the flag that is true.
    flag: usize,
}

impl Numbers {
    fn report<R: Report + Default>(&mut self) -> R {
        let mut report = R::default();
        for figure in R::FIGURES {
            (figure.set)(&mut report, self.next);
            let mut is_flag = false;
            (figure.rows)(&report, &mut |_, value| is_flag = value < FIRST);
            if is_flag {
                (figure.set)(&mut report, u64::from(self.flags == self.flag));
                self.flags += 1;
            } else {
                self.next += 1;
            }
        }
        report
    }

    fn store(&mut self) -> StoreReport {
        self.report()
    }

    /// Returns a status with every part of a node, of a replica and of a router.
    fn status(&mut self) -> StatusReport {
        let partition = PartitionReport { counts: self.report(), ..PartitionReport::default() };
        let cold = ColdReport { source: 1, archive: self.report(), counts: self.report() };
        let store = self.store();
        let source = SourceReport { source: 2, store, ..self.report() };
        let store = self.store();
        let followed = FollowReport { source: 3, store, ..self.report() };
        StatusReport {
            partitions: vec![partition],
            gateway: self.report(),
            tls: Some(self.report()),
            delivery: DeliveryReport {
                counts: self.report(),
                sweeps: self.report(),
                sources: vec![OwnStoreReport {
                    source: 1,
                    counts: self.report(),
                    store: self.store(),
                }],
            },
            http: self.report(),
            web: Some(WebReport { counts: self.report(), http: self.report() }),
            ingest: Some(IngestReport {
                address: String::new(),
                door: self.report(),
                batches: self.report(),
                sources: vec![source],
            }),
            replica: Some(ReplicaReport { master: self.report(), sources: vec![followed] }),
            subscriptions: Some(SubscriptionsReport {
                address: String::new(),
                door: self.report(),
                queues: self.report(),
                counts: self.report(),
            }),
            market: Some(self.market()),
            publish: vec![PublishReport {
                counts: self.report(),
                left_out: vec![OmittedInstrument { instrument: 1, why: String::new() }],
                snapshots: Some(SnapshotReport {
                    counts: self.report(),
                    ..SnapshotReport::default()
                }),
                ..PublishReport::default()
            }],
            cold: vec![cold],
            router: Some(RouterReport {
                sources: vec![router::SourceReport { source: 4, ..self.report() }],
                backends: vec![router::BackendReport { source: 4, ..self.report() }],
                ..self.report()
            }),
            links: Some(LinksReport {
                address: String::new(),
                door: self.report(),
                partitions: vec![LinkedReport { partition: 5, ..self.report() }],
                gateways: vec![GatewayReport { gateway: 6, partition: 5, ..self.report() }],
            }),
            uplinks: vec![UplinkReport { partition: 5, ..self.report() }],
            cycles: self.report(),
            ..self.report()
        }
    }

    fn market(&mut self) -> MarketReport {
        let channels = vec![ChannelReport { pair: 1, ..self.report() }];
        let door = self.report();
        MarketReport {
            addresses: Vec::new(),
            receive: ReceiveReport { channels, ..self.report() },
            update: self.report(),
            flush: vec![FlushReport { door, counts: self.report(), ..FlushReport::default() }],
            post: Some(self.report()),
            stages: Default::default(),
            shm: Some(ShmReport { path: String::new(), counts: self.report() }),
        }
    }
}

/// A status in which the flag of this index is true, and the number of flags.
fn status(flag: usize) -> (StatusReport, usize) {
    let mut numbers = Numbers { next: FIRST, flags: 0, flag };
    (numbers.status(), numbers.flags)
}

/// A metric of the page.
struct Metric {
    name: String,
    help: String,
    kind: String,
    /// Its rows: labels and value.
    rows: Vec<(String, u64)>,
}

fn metrics_of(report: &StatusReport) -> Vec<Metric> {
    let mut page = MetricsPage::default();
    metrics::put(report, &mut page);
    let mut metrics: Vec<Metric> = Vec::new();
    for line in page.text().lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect("a name and a help text");
            let (name, help) = (name.to_owned(), help.to_owned());
            metrics.push(Metric { name, help, kind: String::new(), rows: Vec::new() });
        } else if let Some(head) = line.strip_prefix("# TYPE ") {
            let (_, kind) = head.split_once(' ').expect("a name and a kind");
            metrics.last_mut().expect("a help text").kind = kind.to_owned();
        } else if metrics.last().is_none_or(|m| m.name != "weir_market_stage_seconds") {
            let (row, value) = line.rsplit_once(' ').expect("a row and a value");
            let labels = row.split_once('{').map_or("", |(_, labels)| labels.trim_end_matches('}'));
            let row = (labels.to_owned(), value.parse().expect("a number"));
            metrics.last_mut().expect("a head").rows.push(row);
        }
    }
    metrics
}

/// Adds the places of the numbers set by [`Numbers`], or of the flag that is true.
fn add_places(json: &Json, place: &str, places: &mut BTreeMap<u64, BTreeSet<String>>) {
    match json {
        Json::Object(fields) => fields.iter().for_each(|(name, value)| {
            let dot = if place.is_empty() { "" } else { "." };
            // [`Numbers`] gives counts one entry: its name is a label's value, not a field.
            let is_count = fields.len() == 1 && value.is_number();
            let name = if is_count { String::new() } else { format!("{dot}{name}") };
            let place = format!("{place}{name}");
            add_places(value, &place, places);
        }),
        Json::Array(values) => {
            values.iter().for_each(|value| add_places(value, &format!("{place}[]"), places));
        }
        Json::Number(number) => {
            let number = number.as_u64().filter(|number| *number >= FIRST);
            number.map(|number| places.entry(number).or_default().insert(place.to_owned()));
        }
        Json::Bool(true) => drop(places.entry(1).or_default().insert(place.to_owned())),
        Json::Bool(false) | Json::Null | Json::String(_) => {}
    }
}

/// The places in `/status` of each metric, by name.
fn places() -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let (report, flags) = status(usize::MAX);
    for flag in (0..flags).chain([usize::MAX]) {
        let (one, _) = status(flag);
        let mut places = BTreeMap::new();
        add_places(&serde_json::to_value(&one).expect("JSON"), "", &mut places);
        for (metric, before) in metrics_of(&one).into_iter().zip(metrics_of(&report)) {
            let changes = metric.rows != before.rows;
            for (_, value) in metric.rows {
                let places = places.get(&value).filter(|_| value >= FIRST || changes);
                for place in places.into_iter().flatten() {
                    found.entry(metric.name.clone()).or_default().insert(place.clone());
                }
            }
        }
    }
    found
}

#[test]
fn every_figure_is_in_the_status_and_in_the_metrics() {
    let (report, flags) = status(usize::MAX);
    let mut numbers = Numbers { next: FIRST, flags: 0, flag: usize::MAX };
    drop(numbers.status());
    let values = metrics_of(&report).into_iter().flat_map(|m| m.rows).map(|(_, value)| value);
    let values: BTreeSet<u64> = values.collect();
    let mut places = BTreeMap::new();
    add_places(&serde_json::to_value(&report).expect("JSON"), "", &mut places);
    for number in FIRST..numbers.next {
        assert!(values.contains(&number), "{:?} is no metric", places[&number]);
        assert!(places.contains_key(&number), "figure {number} of the metrics is in no status");
    }
    assert!(flags > 10);
    for flag in 0..flags {
        let (one, _) = status(flag);
        let mut places = BTreeMap::new();
        add_places(&serde_json::to_value(&one).expect("JSON"), "", &mut places);
        let place = places.get(&1).unwrap_or_else(|| panic!("flag {flag} is in no status"));
        let all = metrics_of(&one).into_iter().zip(metrics_of(&report));
        let changed = all.filter(|(one, other)| one.rows != other.rows).count();
        assert_eq!(changed, 1, "metrics of {place:?}");
    }
}

#[test]
fn names_are_unique_and_tell_the_unit() {
    let metrics = metrics_of(&status(0).0);
    let names: BTreeSet<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(names.len(), metrics.len(), "a name stands twice");
    let units = [
        ("bytes", "bytes"),
        ("ns", "nanoseconds"),
        ("nanoseconds", "nanoseconds"),
        ("ms", "milliseconds"),
        ("seconds", "seconds"),
    ];
    for Metric { name, help, kind, .. } in &metrics {
        assert!(name.starts_with("weir_") && help.ends_with('.'), "{name}: {help}");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
        let is_in = |unit: &str| help.ends_with(&format!(" In {unit}."));
        for (part, unit) in units {
            let has_part = name.split('_').any(|word| word == part);
            assert!(!has_part || is_in(unit) || name.contains("stage"), "{name}: {help}");
        }
    }
}

/// Breaks a text at 100 characters, with this before each line but the first.
fn wrapped(text: &str, indent: &str) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split(' ') {
        if !line.trim().is_empty() && line.chars().count() + 1 + word.chars().count() > 100 {
            lines = lines + &line + "\n";
            line = indent.to_owned();
        }
        let space = if line.trim().is_empty() { "" } else { " " };
        line = line + space + word;
    }
    lines + &line + "\n"
}

/// The page's text.
fn page() -> String {
    let paragraphs = [
        "# Metrics".to_owned(),
        "Look up a metric of a node's `/metrics` here, with its kind, its figure in `/status` and \
         its meaning. [Operations](operations.md#monitoring) says which of them to watch. Metrics \
         without a figure in `/status` follow from several figures."
            .to_owned(),
        format!(
            "`{AGAIN}` generates this page from the declarations in the code. Latencies \
             (`weir_latency_…`), lost time (`weir_hiccup_…`) and the probe's own counters \
             (`weir_probe_…`, `weir_clock_…`) are in [operations](operations.md#latency)."
        ),
    ];
    let paragraphs = paragraphs.map(|paragraph| wrapped(&paragraph, ""));
    let (mut text, mut section, places) = (paragraphs.join("\n"), String::new(), places());
    for metric in metrics_of(&status(0).0) {
        let part = metric.name.split('_').nth(1).unwrap_or_default().to_owned();
        if part != section {
            text += &format!("\n## {part}\n\n");
            section = part;
        }
        text += &wrapped(&entry(&metric, places.get(&metric.name)), "  ");
    }
    text
}

/// A metric's entry on the page.
fn entry(metric: &Metric, places: Option<&BTreeSet<String>>) -> String {
    let Metric { name, help, kind, rows } = metric;
    let labels = rows.first().map_or("", |(labels, _)| labels.as_str());
    let labels = labels.split(',').filter_map(|label| Some(label.split_once('=')?.0));
    let labels = labels.collect::<Vec<_>>().join(", ");
    let by = if labels.is_empty() { labels } else { format!(" by {labels}") };
    let places = places.into_iter().flatten();
    let places: String = places.map(|place| format!(", `{place}`")).collect();
    format!("* `{name}` ({kind}{by}{places}): {help}")
}

fn docs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

#[test]
fn the_page_of_metrics_is_that_of_the_declarations() {
    let (path, page) = (docs().join("metrics.md"), page());
    if std::env::var_os("WEIR_WRITE_METRICS").is_some() {
        std::fs::write(&path, &page).expect("docs/metrics.md is written");
    }
    let written = std::fs::read_to_string(&path).expect("docs/metrics.md");
    for (line, (written, generated)) in written.lines().zip(page.lines()).enumerate() {
        let line = line + 1;
        assert_eq!(written, generated, "docs/metrics.md:{line}: {AGAIN} writes it anew");
    }
    assert_eq!(written.len(), page.len(), "docs/metrics.md: {AGAIN} writes it anew");
}

#[test]
fn documents_name_metrics_that_exist() {
    let metrics = metrics_of(&status(0).0);
    let known: BTreeSet<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
    let elsewhere =
        ["latency", "hiccup", "probe", "clock", "followers", "emulated", "market_stage"];
    let mut named = 0;
    for entry in std::fs::read_dir(docs()).expect("docs").flatten() {
        let path = entry.path();
        // The page of metrics has a test of its own, which may write it at this moment.
        let is_page = path.extension().is_some_and(|extension| extension == "md");
        if !is_page || path.ends_with("metrics.md") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a page");
        for (at, _) in text.match_indices("`weir_") {
            let name = text[at + 1..].split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let name = name.into_iter().next().unwrap_or_default();
            let rest = name.trim_start_matches("weir_");
            // A name that ends in an underscore stands for all that begin so.
            let is_known = known.contains(name)
                || elsewhere.iter().any(|part| rest.starts_with(part))
                || (name.ends_with('_') && known.iter().any(|known| known.starts_with(name)));
            let is_crate = ["weir_client", "weir_feed"].contains(&name);
            assert!(is_known || is_crate, "{}: {name} is no metric", path.display());
            named += 1;
        }
    }
    assert!(named > 100, "only {named} metrics are named");
}
