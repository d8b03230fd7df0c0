//! The demo's table, as text and as JSON.

use std::fmt::Write;

use serde_json::json;
use weir_client::load::LoadReport;
use weir_node::status::{InstrumentReport, LatencyReport, StatusReport};

use super::followers::FollowerReport;

/// All that there is to tell.
pub(super) struct TableInput {
    /// The player's measurements.
    pub(super) report: LoadReport,
    /// The duration of the playback.
    pub(super) seconds: f64,
    /// The node's status.
    pub(super) status: StatusReport,
    /// The followers' results.
    pub(super) followers: Vec<FollowerReport>,
}

/// Descriptions of the node's latencies, for people.
const NAMES: [(&str, &str); 11] = [
    ("in", "in    socket to hand-over"),
    ("t1", "T1    gateway to partition"),
    ("t2", "T2    to the sequencer"),
    ("t3", "T3    sequenced, durable"),
    ("t4", "T4    wait for the engine"),
    ("t5", "T5    matched"),
    ("t6", "T6    answer leaves"),
    ("t7", "T7    back at the gateway"),
    ("out", "out   to the socket"),
    ("door_to_door", "door to door (t0-t7)"),
    ("server", "socket to socket"),
];

/// The table as text.
pub(super) fn text(told: &TableInput) -> String {
    let mut out = String::new();
    write_text(told, &mut out).expect("a string takes all that is written to it");
    out
}

fn write_text(told: &TableInput, out: &mut String) -> std::fmt::Result {
    let counts = &told.report.counts;
    writeln!(
        out,
        "\n{} orders in {:.1} s ({:.0} orders/s), {} answered, {} trades, durability {}\n",
        counts.sent,
        told.seconds,
        counts.sent as f64 / told.seconds,
        counts.answered,
        counts.trades,
        told.status.durability
    )?;
    head("on every order", out)?;
    for (key, name) in NAMES {
        if let Some(latency) = told.status.latencies.iter().find(|l| l.name == key) {
            line(name, latency, out)?;
        }
    }
    days(&told.status.instruments, out)?;
    head("\nfollowers, log time to row in hand", out)?;
    for follower in &told.followers {
        let name = format!("{} ({} rows)", follower.name, follower.rows);
        line(&name, &follower.delay, out)?;
    }
    writeln!(out, "\nwhat the machine stole")?;
    for core in &told.status.hiccups {
        writeln!(
            out,
            "  core {}: {:.3} % of the time in {} hiccups, longest {}",
            core.core,
            core.stolen_percent,
            core.stolen_count,
            span(core.max_ns)
        )?;
    }
    for partition in told.status.partitions.iter().filter(|p| p.id > 0) {
        writeln!(
            out,
            "\npartition {}: {} commands in {} batches, {} events, {} live orders, digest {}",
            partition.id,
            partition.counts.position,
            partition.counts.batches,
            partition.counts.events,
            partition.counts.live_orders,
            partition.digest
        )?;
    }
    writeln!(out, "log files: {:.1} MiB", told.status.log_bytes as f64 / f64::from(1 << 20))
}

/// Each instrument's day, where it had a call.
fn days(instruments: &[InstrumentReport], out: &mut String) -> std::fmt::Result {
    if !instruments.iter().any(had_call) {
        return Ok(());
    }
    let title = "\nthe day, price × volume";
    writeln!(out, "{title:<23} {:>24} {:>24} {:>12}  phases", "opening", "closing", "last")?;
    for of in instruments.iter().filter(|of| had_call(of)) {
        let cross = |price: &Option<String>, volume: &Option<String>| match (price, volume) {
            (Some(price), Some(volume)) => format!("{price} × {volume}"),
            (None, Some(_)) => "no trade".to_owned(),
            _ => "-".to_owned(),
        };
        writeln!(
            out,
            "  {:<20} {:>24} {:>24} {:>12}  {}",
            of.symbol,
            cross(&of.opening_price, &of.opening_qty),
            cross(&of.closing_price, &of.closing_qty),
            of.last_price.as_deref().unwrap_or("-"),
            of.phases
        )?;
    }
    Ok(())
}

fn had_call(of: &InstrumentReport) -> bool {
    of.phases.contains("-call")
}

fn head(title: &str, out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "{title:<36} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "mean", "p50", "p90", "p99", "p99.9", "max"
    )
}

fn line(name: &str, latency: &LatencyReport, out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "{name:<36} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        span(latency.mean_ns),
        span(latency.p50_ns),
        span(latency.p90_ns),
        span(latency.p99_ns),
        span(latency.p999_ns),
        span(latency.max_ns)
    )
}

/// A span with its unit, to three or four digits.
fn span(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

/// The table as one JSON object.
pub(super) fn json(told: &TableInput) -> String {
    let counts = &told.report.counts;
    let followers: Vec<_> = told
        .followers
        .iter()
        .map(|f| json!({"name": f.name, "rows": f.rows, "changes": f.changes, "delay": f.delay}))
        .collect();
    let partitions: Vec<_> = told.status.partitions.iter().filter(|p| p.id > 0).collect();
    json!({
        "orders": counts.sent,
        "answered": counts.answered,
        "trades": counts.trades,
        "seconds": told.seconds,
        "rate": counts.sent as f64 / told.seconds,
        "durability": told.status.durability,
        "latencies": told.status.latencies,
        "hiccups": told.status.hiccups,
        "followers": followers,
        "partitions": partitions,
        "day": told.status.instruments.iter().filter(|of| had_call(of)).collect::<Vec<_>>(),
        "log_bytes": told.status.log_bytes,
        "digest": partitions.first().map(|p| p.digest.clone()),
        "client": told.report,
    })
    .to_string()
}
