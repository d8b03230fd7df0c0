//! `weir market top`: a gateway's figures as a table that is refreshed.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::Value;
use weir_client::status::fetch_json;
use weir_marketgate::gateway::MarketReport;
use weir_marketgate::gateway::figures::SubscriberReport;

use super::endpoint::{Endpoint, span};
use super::status::wait_until_ready;
use super::units;

/// Options of `weir market top`.
#[derive(Debug, clap::Args)]
pub struct TopArgs {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Refresh interval, 50 ms to 1 min; a number alone is milliseconds. `--interval-ms` is the
    /// same.
    #[arg(long, alias = "interval-ms", value_name = "TIME", default_value = "1s",
          value_parser = units::refresh)]
    interval: Duration,
    /// Subscribers to show, those with the longest queues first; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 30)]
    limit: usize,
    /// Look once and end.
    #[arg(long)]
    once: bool,
    /// Wait until the gateway runs, this long at most.
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    wait: Option<Duration>,
    /// One JSON object a look.
    #[arg(long)]
    json: bool,
}

/// Runs `weir market top`.
///
/// # Errors
/// When the gateway's page cannot be read, or it is no gateway.
pub fn run(args: &TopArgs) -> anyhow::Result<()> {
    let http = args.endpoint.gateway_http();
    if let Some(limit) = args.wait {
        wait_until_ready(&http, limit)?;
    }
    let mut before: Option<(Instant, MarketReport)> = None;
    loop {
        let page = fetch_json(&http, "/status")?;
        let now = Instant::now();
        let report = report_of(&page)?;
        let text = match args.json {
            true => format!("{}\n", serde_json::to_string(&report)?),
            false => table(&report, before.as_ref().map(|(at, old)| (now - *at, old)), args.limit),
        };
        crate::output::refresh(&text, args.once || args.json)?;
        if args.once {
            return Ok(());
        }
        before = Some((now, report));
        std::thread::sleep(args.interval);
    }
}

fn report_of(page: &Value) -> anyhow::Result<MarketReport> {
    let market = &page["market"];
    anyhow::ensure!(
        market.is_object(),
        "the node is no market-data gateway: it has no [market_gateway]"
    );
    serde_json::from_value(market.clone()).context("the status page says something else of market")
}

fn table(report: &MarketReport, before: Option<(Duration, &MarketReport)>, limit: usize) -> String {
    let mut text = String::new();
    let rate = |figure: fn(&MarketReport) -> u64| match before {
        None => "-".to_owned(),
        Some((span, old)) => {
            let grown = u128::from(figure(report).saturating_sub(figure(old)));
            format!("{}/s", grown * 1_000_000_000 / span.as_nanos().max(1))
        }
    };
    let (receive, update) = (&report.receive, &report.update);
    let _ = writeln!(
        text,
        "feed    {} messages {}, {} dropped, {} at the ring, {} not understood, {} asked for again",
        receive.messages,
        rate(|r| r.receive.messages),
        receive.dropped,
        receive.ring_dropped,
        receive.refused,
        receive.requests
    );
    match (&receive.file_problem, receive.is_over) {
        (Some(problem), _) => text += &format!("capture not read to its end: {problem}\n"),
        (None, true) => text.push_str("capture at its end: no more changes come\n"),
        (None, false) => {}
    }
    for channel in &receive.channels {
        let _ = writeln!(
            text,
            "channel {}.{} {}{}, next {}, {} lost, {} repeated, {} restarts, {} old packets, {} \
             contradictions",
            channel.pair,
            channel.number,
            channel.state,
            if channel.is_silent { " (silent)" } else { "" },
            channel.next,
            channel.lost,
            channel.repeated,
            channel.restarts,
            channel.old_packets,
            channel.contradictions
        );
    }
    let _ = writeln!(
        text,
        "books   {} orders, {} anomalies, updates {}",
        update.orders,
        update.anomalies,
        rate(|r| r.update.updates)
    );
    let wanted: u128 = [update.queued, update.waited, update.merged].map(u128::from).iter().sum();
    let share = (u128::from(update.waited) * 100).checked_div(wanted).unwrap_or(0);
    let _ = writeln!(
        text,
        "queues  throttle {} (took {share} % of what was wanted), priority {}, {} merged, {} lost",
        update.waiting, update.queue_len, update.merged, update.lost
    );
    for (index, flush) in report.flush.iter().enumerate() {
        let [p50, p99, p999] = flush.age_ns.map(span);
        let _ = writeln!(
            text,
            "flush {index} {} connections, {} slots, {} messages, age p50 {p50} p99 {p99} p99.9 \
             {p999}",
            flush.door.connections, flush.counts.slots, flush.counts.messages
        );
    }
    text.push_str(&kept(report));
    text.push_str(&stages(report));
    text.push_str(&subscribers(report, limit));
    text
}

/// The figures of post-processing: audit and tables, with their backlogs.
fn kept(report: &MarketReport) -> String {
    let Some(post) = &report.post else { return String::new() };
    let mut text = String::new();
    let _ = writeln!(
        text,
        "audit   {} datagrams, {} wait, {} behind, {} not kept, {} failures",
        post.audited,
        post.audit_waiting,
        span(post.audit_behind_ns),
        post.audit_dropped,
        post.audit_failures
    );
    let _ = writeln!(
        text,
        "tables  {} events, {} wait, {} behind, {} not taken; {} bars, {} intervals, {} lost",
        post.trades,
        post.trades_waiting,
        span(post.trades_behind_ns),
        post.trades_dropped,
        post.bars,
        post.intervals,
        post.bars_lost.saturating_add(post.intervals_lost)
    );
    text
}

/// The duration of each stage of a message.
fn stages(report: &MarketReport) -> String {
    let mut text = String::new();
    for one in &report.stages.stages {
        let shown = |nanos: Option<u64>| nanos.map_or_else(|| "-".to_owned(), span);
        let [p50, p99, p999] = [one.p50_ns, one.p99_ns, one.p999_ns].map(shown);
        let _ = writeln!(
            text,
            "stage {:<7} p50 {p50:>9}  p99 {p99:>9}  p99.9 {p999:>9}  ({} timed)",
            one.stage, one.count
        );
    }
    // A feed of datagrams alone has the kernel's times.
    if !report.stages.has_kernel_time {
        text.push_str("stage receive and total: no kernel time, the feed is no datagrams\n");
    }
    text
}

fn subscribers(report: &MarketReport, limit: usize) -> String {
    let mut all: Vec<&SubscriberReport> =
        report.flush.iter().flat_map(|flush| &flush.subscribers).collect();
    all.sort_by_key(|one| std::cmp::Reverse((one.queue_len, one.waiting, one.messages)));
    if limit > 0 {
        all.truncate(limit);
    }
    if all.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    let _ = writeln!(
        text,
        "\n{:>10} {:>9} {:>5} {:>13} {:>17} {:>8} {:>12} {:>10} {:>8} {:>8} {:>10} {:>8}",
        "session",
        "by",
        "conns",
        "subscriptions",
        "session's slots",
        "steps",
        "messages",
        "age",
        "queued",
        "waiting",
        "merged",
        "lost"
    );
    for one in all {
        let _ = writeln!(
            text,
            "{:>10} {:>9} {:>5} {:>13} {:>17} {:>8} {:>12} {:>10} {:>8} {:>8} {:>10} {:>8}",
            one.session_id,
            if one.is_web { "websocket" } else { "tcp" },
            one.connections,
            one.subscriptions,
            format!("{}/{}", one.slots, one.slots_max),
            one.steps_left,
            one.messages,
            span(one.last_age_ns),
            one.queue_len,
            one.waiting,
            one.merged,
            one.lost
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use weir_marketgate::gateway::figures::{PostReport, ReceiveReport, UpdateReport};
    use weir_marketgate::gateway::stages::StagesReport;

    use super::*;

    /// The page is another process's, whose counters may be anything.
    #[test]
    fn figures_at_the_end_of_their_range_are_shown() {
        let (waited, bars_lost) = (u64::MAX, u64::MAX);
        let update =
            UpdateReport { queued: waited, waited, merged: waited, ..UpdateReport::default() };
        let post = PostReport { bars_lost, intervals_lost: bars_lost, ..PostReport::default() };
        let report = MarketReport {
            addresses: Vec::new(),
            receive: ReceiveReport::default(),
            update,
            flush: Vec::new(),
            post: Some(post),
            stages: StagesReport::default(),
            shm: None,
        };
        let page = serde_json::json!({ "market": report });
        let text = table(&report_of(&page).expect("it is a gateway's page"), None, 30);
        assert!(text.contains("(took 33 % of what was wanted)"), "{text}");
        assert!(text.contains("18446744073709551615 lost"), "{text}");
    }
}
