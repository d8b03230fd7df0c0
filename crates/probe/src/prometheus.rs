//! The figures of the drain and the hiccup threads in Prometheus's text exposition format 0.0.4.
//!
//! Pure rendering: no HTTP, no state. Durations are in seconds, as Prometheus expects. Histograms
//! are cumulative since the start. Quantiles are gauges, since the start and over the last
//! interval, because they cannot be computed from coarse buckets.

use std::fmt::{self, Write};

use crate::drain::{DrainReport, Latencies};
use crate::hiccup::HiccupReport;
use crate::histogram::Snapshot;
use crate::point::Measure;

/// Upper bounds of the exposed buckets, ns: 1-2-5 from 100 ns to 10 s.
const BOUNDS_NS: [u64; 25] = [
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// The exposed quantiles, with their labels.
const QUANTILES: [(f64, &str); 6] =
    [(0.5, "0.5"), (0.9, "0.9"), (0.99, "0.99"), (0.999, "0.999"), (0.9999, "0.9999"), (1.0, "1")];

/// Renders all metrics. Omits a quantile with fewer than ten values beyond it, except the maximum.
#[must_use]
pub fn render(report: &DrainReport, hiccups: &[HiccupReport]) -> String {
    let mut text = String::with_capacity(1 << 16);
    render_into(&mut text, report, hiccups).expect("a string takes all that is written to it");
    text
}

fn render_into(out: &mut String, report: &DrainReport, hiccups: &[HiccupReport]) -> fmt::Result {
    latencies(out, &report.total)?;
    quantiles(out, report)?;
    counts(out, report)?;
    clock(out, report)?;
    stolen(out, hiccups)
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

fn latencies(out: &mut String, total: &Latencies) -> fmt::Result {
    const NAME: &str = "weir_latency_seconds";
    head(out, NAME, "histogram", "Time of an order, by segment and latency.")?;
    for measure in Measure::ALL {
        histogram(out, NAME, &format!("measure=\"{}\"", measure.name()), total.of(measure))?;
    }
    Ok(())
}

/// Appends histograms of one family, each with a label and its value.
pub fn put_histograms<'a>(
    out: &mut String,
    name: &str,
    help: &str,
    rows: impl Iterator<Item = ((&'a str, &'a str), &'a Snapshot)>,
) {
    head(out, name, "histogram", help).expect("a string takes all that is written to it");
    for ((label, value), snapshot) in rows {
        let label = format!("{label}=\"{}\"", escaped(value));
        let written = histogram(out, name, &label, snapshot);
        written.expect("a string takes all that is written to it");
    }
}

/// Counts a bucket for a bound if all of it lies below the bound: at most 0.8 % off.
fn histogram(out: &mut String, name: &str, label: &str, snapshot: &Snapshot) -> fmt::Result {
    let mut buckets = snapshot.buckets().peekable();
    let mut passed = 0;
    for bound_ns in BOUNDS_NS {
        while let Some((_, _, count)) = buckets.next_if(|(_, high, _)| *high <= bound_ns) {
            passed += count;
        }
        let bound = seconds(bound_ns);
        writeln!(out, "{name}_bucket{{{label},le=\"{bound}\"}} {passed}")?;
    }
    let count = snapshot.count();
    writeln!(out, "{name}_bucket{{{label},le=\"+Inf\"}} {count}")?;
    writeln!(out, "{name}_sum{{{label}}} {}", seconds(snapshot.sum_ns()))?;
    writeln!(out, "{name}_count{{{label}}} {count}")
}

fn quantiles(out: &mut String, report: &DrainReport) -> fmt::Result {
    const NAME: &str = "weir_latency_quantile_seconds";
    head(out, NAME, "gauge", "Quantiles since the start and over the last interval.")?;
    for (window, latencies) in [("total", &report.total), ("interval", &*report.interval)] {
        for measure in Measure::ALL {
            let label = format!("measure=\"{}\",window=\"{window}\"", measure.name());
            snapshot_quantiles(out, NAME, &label, latencies.of(measure))?;
        }
    }
    Ok(())
}

fn snapshot_quantiles(
    out: &mut String,
    name: &str,
    label: &str,
    snapshot: &Snapshot,
) -> fmt::Result {
    for (quantile, shown) in QUANTILES {
        let known = !snapshot.is_empty() && (quantile == 1.0 || snapshot.supports(quantile));
        if known {
            let value = seconds(snapshot.quantile_ns(quantile));
            writeln!(out, "{name}{{{label},quantile=\"{shown}\"}} {value}")?;
        }
    }
    Ok(())
}

fn counts(out: &mut String, report: &DrainReport) -> fmt::Result {
    let counts = &report.counts;
    let counters = [
        ("records", "Stamps taken from rings.", counts.records),
        ("orders", "Orders taken apart.", counts.complete),
        ("orders_incomplete", "Orders given up with a stamp missing.", counts.incomplete),
        ("orders_disordered", "Orders whose stamps contradict one another.", counts.disordered),
        ("stamps_moved", "Stamps moved up to their predecessor.", counts.moved),
        ("stamps_duplicate", "Second stamps of one point.", counts.duplicates),
        ("records_unknown", "Records that mean nothing.", counts.unknown),
    ];
    for (name, help, value) in counters {
        let name = format!("weir_probe_{name}_total");
        head(out, &name, "counter", help)?;
        writeln!(out, "{name} {value}")?;
    }
    const PENDING: &str = "weir_probe_orders_pending";
    head(out, PENDING, "gauge", "Orders whose stamps are not all in yet.")?;
    writeln!(out, "{PENDING} {}", counts.pending)?;
    const DROPPED: &str = "weir_probe_ring_dropped_total";
    head(out, DROPPED, "counter", "Stamps lost because a ring was full.")?;
    for (ring, dropped) in &report.dropped {
        writeln!(out, "{DROPPED}{{ring=\"{}\"}} {dropped}", escaped(ring))?;
    }
    Ok(())
}

fn clock(out: &mut String, report: &DrainReport) -> fmt::Result {
    let clock = &report.clock;
    let counters = [
        ("anchors", "Anchors that tied the counter to the wall clock.", clock.anchors),
        ("anchors_skipped", "Anchors too wide to be used.", clock.skipped),
        ("breaks", "Times the counter or its rate broke.", clock.breaks),
        ("wall_steps", "Times the wall clock was stepped.", clock.wall_steps),
    ];
    for (name, help, value) in counters {
        let name = format!("weir_clock_{name}_total");
        head(out, &name, "counter", help)?;
        writeln!(out, "{name} {value}")?;
    }
    const ERROR: &str = "weir_clock_error_seconds";
    head(out, ERROR, "gauge", "How far the last anchor may be off.")?;
    writeln!(out, "{ERROR} {}", seconds(clock.error_ns))
}

fn stolen(out: &mut String, hiccups: &[HiccupReport]) -> fmt::Result {
    const LATENESS: &str = "weir_hiccup_seconds";
    head(out, LATENESS, "histogram", "How late the machine woke a thread that only waits.")?;
    for report in hiccups {
        histogram(out, LATENESS, &format!("core=\"{}\"", report.core), &report.lateness)?;
    }
    const QUANTILE: &str = "weir_hiccup_quantile_seconds";
    head(out, QUANTILE, "gauge", "Quantiles of that lateness since the start.")?;
    for report in hiccups {
        let label = format!("core=\"{}\"", report.core);
        snapshot_quantiles(out, QUANTILE, &label, &report.lateness)?;
    }
    const COUNT: &str = "weir_hiccup_stolen_count_total";
    head(out, COUNT, "counter", "Thefts beyond the threshold.")?;
    for report in hiccups {
        writeln!(out, "{COUNT}{{core=\"{}\"}} {}", report.core, report.stolen_count)?;
    }
    const TIME: &str = "weir_hiccup_stolen_seconds_total";
    head(out, TIME, "counter", "Time that they took.")?;
    for report in hiccups {
        writeln!(out, "{TIME}{{core=\"{}\"}} {}", report.core, seconds(report.stolen_ns))?;
    }
    const SHARE: &str = "weir_hiccup_stolen_ratio";
    head(out, SHARE, "gauge", "Share of the watched time that they took.")?;
    for report in hiccups {
        writeln!(out, "{SHARE}{{core=\"{}\"}} {}", report.core, report.stolen_share())?;
    }
    Ok(())
}

/// Formats exact decimal seconds, without trailing zeros.
fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Escapes a label's value.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::clock::{ClockWriter, Tsc};
    use crate::drain::{Drain, DrainOptions};
    use crate::histogram::Histogram;
    use crate::point::Point;
    use crate::ring::{Record, TraceId, heap_ring};

    fn sample() -> String {
        let options = DrainOptions { traces_max: 64, ..DrainOptions::default() };
        let mut drain = Drain::new(ClockWriter::simulated(1_000_000_000, 0), options);
        let (mut producer, consumer) = heap_ring(1 << 10).expect("a power of two");
        drain.add_ring("odd \"name\"\\", consumer);
        for number in 1..=20 {
            for point in Point::ALL {
                let tsc = Tsc(100_000 * number + 1_500 * point.index() as u64);
                producer.push(Record::at(TraceId::new(number).expect("small"), point, tsc));
            }
        }
        let report = drain.finish();
        let mut lateness = Histogram::new();
        lateness.record(2_500_000);
        let hiccup = HiccupReport {
            core: 1,
            lateness: lateness.snapshot(),
            stolen_count: 1,
            stolen_ns: 2_500_000,
            watched_ns: 10_000_000,
        };
        render(&report, &[hiccup])
    }

    #[test]
    fn every_line_is_a_comment_or_a_sample_and_every_sample_is_there_once() {
        let text = sample();
        let mut seen = HashMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            let value: f64 = value.parse().expect("a number");
            assert!(seen.insert(name, value).is_none(), "{name} twice");
        }
        let of = |name: &str| *seen.get(name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(of("weir_probe_orders_total"), 20.0);
        assert_eq!(of("weir_latency_seconds_count{measure=\"t5\"}"), 20.0);
        assert_eq!(of("weir_latency_seconds_sum{measure=\"server\"}"), 20.0 * 13.5e-6);
        assert_eq!(of("weir_latency_seconds_bucket{measure=\"t5\",le=\"0.000001\"}"), 0.0);
        assert_eq!(of("weir_latency_seconds_bucket{measure=\"t5\",le=\"0.000002\"}"), 20.0);
        assert_eq!(of("weir_latency_seconds_bucket{measure=\"t5\",le=\"+Inf\"}"), 20.0);
        let median =
            "weir_latency_quantile_seconds{measure=\"t1\",window=\"total\",quantile=\"0.5\"}";
        assert_eq!(of(median), 1.5e-6);
        let p90 = median.replace("0.5", "0.9");
        assert!(!seen.contains_key(p90.as_str()), "20 orders do not speak of p90");
        assert_eq!(of("weir_probe_ring_dropped_total{ring=\"odd \\\"name\\\"\\\\\"}"), 0.0);
        assert_eq!(of("weir_hiccup_stolen_seconds_total{core=\"1\"}"), 2.5e-3);
        assert_eq!(of("weir_hiccup_stolen_ratio{core=\"1\"}"), 0.25);
    }

    #[test]
    fn every_family_has_one_head_before_its_samples() {
        let text = sample();
        let mut family = "";
        let mut heads = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                family = rest.split(' ').next().expect("a name");
                assert!(!heads.contains(&family), "{family} twice");
                heads.push(family);
            } else if !line.starts_with('#') {
                assert!(line.starts_with(family), "{line} under {family}");
            }
        }
        assert!(heads.len() > 15);
    }

    #[test]
    fn seconds_are_exact() {
        let cases = [
            (0, "0"),
            (1, "0.000000001"),
            (100, "0.0000001"),
            (1_000_000_000, "1"),
            (12_500_000_000, "12.5"),
        ];
        for (ns, expected) in cases {
            assert_eq!(seconds(ns), expected);
        }
    }
}
