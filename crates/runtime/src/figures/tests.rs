//! The three forms of a declaration, and each kind of figure on the page.

use std::sync::atomic::Ordering;

use super::{MetricsPage, Report, Value, total};

/// Refusals by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
struct ByReason(std::collections::BTreeMap<&'static str, u64>);

impl Value for ByReason {
    fn rows(&self, row: &mut dyn FnMut(&str, u64)) {
        self.0.iter().for_each(|(reason, count)| row(reason, *count));
    }

    fn plus(&self, other: &ByReason) -> ByReason {
        let mut sum = self.clone();
        other.0.iter().for_each(|(reason, count)| *sum.0.entry(reason).or_default() += count);
        sum
    }

    fn set(&mut self, value: u64) {
        self.0.insert("any", value);
    }
}

crate::figures! {
    /// Atomics and their report.
    #[derive(Copy, PartialEq, Eq)]
    struct DoorReport in DoorFigures {
        /// Open connections.
        gauge connections,
        /// Connections accepted, and those
        /// that were closed at once.
        counter accepted,
        /// True while the disk is full.
        flag is_full as "full",
    }
}

crate::figures! {
    /// Plain counters.
    #[derive(PartialEq, Eq)]
    struct Counters {
        /// Good keys.
        counter keys as "checked_total{for=\"key\"}",
        /// Good signatures.
        counter signatures as "checked_total{for=\"signature\"}",
        /// Refusals.
        counts refused: ByReason as "refused_total{reason}",
        /// The size of the files.
        gauge size in bytes as "weir_elsewhere_bytes",
    }
}

crate::figures! {
    /// A store, with a field that is no figure.
    struct StoreReport {
        /// The memory's limit.
        limit bytes_max in bytes,
    } and {
        /// The store's name.
        pub name: String,
    }
}

/// Returns the page of these reports, each with its labels.
fn page<R: Report>(reports: &[(&str, &R)]) -> String {
    let mut page = MetricsPage::default();
    let rows: Vec<_> = reports.iter().map(|(labels, report)| ((*labels).into(), *report)).collect();
    page.put_rows("weir_x", &rows);
    page.into_text()
}

#[test]
fn a_declaration_makes_the_atomics_the_report_the_sum_and_the_metrics() {
    let figures = DoorFigures::default();
    figures.connections.store(2, Ordering::Relaxed);
    figures.accepted.fetch_add(3, Ordering::Relaxed);
    figures.is_full.store(true, Ordering::Relaxed);
    let report = figures.report();
    assert_eq!(report, DoorReport { connections: 2, accepted: 3, is_full: true });
    let sum = report.plus(&DoorReport { connections: 10, accepted: 20, is_full: false });
    assert_eq!(sum, DoorReport { connections: 12, accepted: 23, is_full: true });
    assert_eq!(
        page(&[("", &report)]),
        "# HELP weir_x_connections Open connections.\n\
         # TYPE weir_x_connections gauge\n\
         weir_x_connections 2\n\
         # HELP weir_x_accepted_total Connections accepted, and those that were closed at once.\n\
         # TYPE weir_x_accepted_total counter\n\
         weir_x_accepted_total 3\n\
         # HELP weir_x_full True while the disk is full. 1 if true, else 0.\n\
         # TYPE weir_x_full gauge\n\
         weir_x_full 1\n"
    );
}

#[test]
fn a_metric_with_labels_has_one_head_and_a_row_per_label() {
    let mut one = Counters { keys: 1, signatures: 2, size: 640, ..Counters::default() };
    one.refused.0.insert("full", 4);
    let two = one.plus(&one);
    assert_eq!((two.keys, two.refused.0["full"]), (2, 8));
    assert_eq!(
        page(&[("source=\"1\"", &one), ("source=\"2\"", &two)]),
        "# HELP weir_x_checked_total Good keys. Good signatures.\n\
         # TYPE weir_x_checked_total counter\n\
         weir_x_checked_total{source=\"1\",for=\"key\"} 1\n\
         weir_x_checked_total{source=\"1\",for=\"signature\"} 2\n\
         weir_x_checked_total{source=\"2\",for=\"key\"} 2\n\
         weir_x_checked_total{source=\"2\",for=\"signature\"} 4\n\
         # HELP weir_x_refused_total Refusals.\n\
         # TYPE weir_x_refused_total counter\n\
         weir_x_refused_total{source=\"1\",reason=\"full\"} 4\n\
         weir_x_refused_total{source=\"2\",reason=\"full\"} 8\n\
         # HELP weir_elsewhere_bytes The size of the files. In bytes.\n\
         # TYPE weir_elsewhere_bytes gauge\n\
         weir_elsewhere_bytes{source=\"1\"} 640\n\
         weir_elsewhere_bytes{source=\"2\"} 1280\n"
    );
    assert_eq!(page::<Counters>(&[]), "");
}

#[test]
fn the_values_of_labels_are_escaped() {
    let mut counters = Counters::default();
    counters.refused.0.insert("a \"b\" \\ \n", 4);
    let page = page(&[("", &counters)]);
    let row = "\nweir_x_refused_total{reason=\"a \\\"b\\\" \\\\ \\n\"} 4\n";
    assert!(page.contains(row), "{page}");
}

#[test]
fn a_limit_is_zero_on_the_page_where_there_is_none_and_other_fields_are_not_on_it() {
    let mut store = StoreReport { bytes_max: None, name: "own".to_owned() };
    let head = "# HELP weir_x_bytes_max The memory's limit. 0 without a limit. In bytes.\n\
                # TYPE weir_x_bytes_max gauge\n";
    assert_eq!(page(&[("", &store)]), format!("{head}weir_x_bytes_max 0\n"));
    (StoreReport::FIGURES[0].set)(&mut store, 7);
    assert_eq!(page(&[("", &store)]), format!("{head}weir_x_bytes_max 7\n"));
    assert_eq!(store.name, "own");
}

#[test]
fn a_sum_is_no_more_than_the_greatest_number() {
    assert_eq!(total([u64::MAX, 1, 2].into_iter()), u64::MAX);
    let most = DoorReport { accepted: u64::MAX, ..DoorReport::default() };
    assert_eq!(most.plus(&most).accepted, u64::MAX);
    assert_eq!(Some(u64::MAX).plus(&Some(1)), Some(u64::MAX));
}
