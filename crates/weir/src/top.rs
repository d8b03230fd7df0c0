//! `weir top`: subscribers and readers with their backlogs, as a table that is drawn anew.
//!
//! Stores, sources and totals are of the status page; durable subscriptions are asked of the node
//! one by one, as `weir subscriptions list` does. Readers of order state are the questions
//! that wait, the furthest behind first, as `/readers` of the node's HTTP side lists them. Rates
//! are between two looks, so that the first look has none.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_client::status::fetch_json;
use weir_client::subscription::{BrokerClient, ListedSubscription, kind_name};
use weir_client::{ClientError, SessionConfig};
use weir_types::FirmId;

use super::endpoint::{Login, once_free, span};
use super::renamed::{self, Renamed};
use super::subscriptions::{address_of, as_json as one_json, status_of};
use super::units;

/// Options of `weir top`.
#[derive(Debug, clap::Args)]
pub struct TopArgs {
    #[command(flatten)]
    login: Login,
    /// The node's listener for subscribers, HOST:PORT; by default as its status page says.
    #[arg(long, value_name = "ADDRESS", value_parser = units::address)]
    subscriptions: Option<SocketAddr>,
    #[arg(long, hide = true, value_parser = renamed::to("--subscriptions"))]
    broker: Option<Renamed>,
    /// Refresh interval, 50 ms to 1 min; a number alone is milliseconds. `--interval-ms` is the
    /// same.
    #[arg(long, alias = "interval-ms", value_name = "TIME", default_value = "1s",
          value_parser = units::refresh)]
    interval: Duration,
    /// Sort key: lag (messages), bytes, spilled, age or name.
    #[arg(long, value_name = "KEY", default_value = "lag", value_parser = parse_key)]
    sort: SortKey,
    /// Subscriptions to show; 0 for all.
    #[arg(long, default_value_t = 40)]
    limit: usize,
    /// Readers of order state to show; 0 for all that the node lists.
    #[arg(long, value_name = "N", default_value_t = 20)]
    readers: usize,
    /// Look once and end.
    #[arg(long)]
    once: bool,
    /// One JSON object a look.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SortKey {
    Lag,
    Bytes,
    Spilled,
    Age,
    Name,
}

fn parse_key(text: &str) -> Result<SortKey, String> {
    match text {
        "lag" => Ok(SortKey::Lag),
        "bytes" => Ok(SortKey::Bytes),
        "spilled" => Ok(SortKey::Spilled),
        "age" => Ok(SortKey::Age),
        "name" => Ok(SortKey::Name),
        other => Err(format!("unknown key {other:?}: want lag, bytes, spilled, age or name")),
    }
}

/// The figures of one look.
struct TopSample {
    at: Instant,
    page: Value,
    readers: Vec<Value>,
    subscriptions: Vec<ListedSubscription>,
}

/// Runs `weir top`.
///
/// # Errors
/// When the node cannot be reached or refuses, or another connection has taken the session over.
pub fn run(args: &TopArgs) -> anyhow::Result<()> {
    let mut before: Option<TopSample> = None;
    let interval = args.interval;
    let mut client = None;
    loop {
        let sample = sample(args, &mut client)?;
        let text = match args.json {
            true => format!("{}\n", as_json(&sample, before.as_ref())),
            false => table(&sample, before.as_ref()),
        };
        crate::output::refresh(&text, args.once || args.json)?;
        if args.once {
            return Ok(());
        }
        let next = sample.at + interval;
        before = Some(sample);
        wait(client.as_mut(), next)?;
    }
}

fn sample(args: &TopArgs, client: &mut Option<BrokerClient>) -> anyhow::Result<TopSample> {
    let page = args.login.endpoint.status()?.json;
    let mut subscriptions = Vec::new();
    if args.subscriptions.is_some() || page["subscriptions"].is_object() {
        if client.is_none() {
            let address = args.subscriptions.map_or_else(|| address_of(&args.login), Ok)?;
            let session = SessionConfig::new(args.login.session_id(), args.login.key()?);
            *client = Some(BrokerClient::new(address, session));
        }
        let client = client.as_mut().expect("it was made above");
        subscriptions = once_free(|| client.list(FirmId::NONE))?;
        sort(&mut subscriptions, args.sort);
        if args.limit > 0 {
            subscriptions.truncate(args.limit);
        }
    }
    let readers = readers(args, &page)?;
    Ok(TopSample { at: Instant::now(), page, readers, subscriptions })
}

/// The readers that wait for order state; none at a router, whose readers' queries wait at its
/// nodes.
fn readers(args: &TopArgs, page: &Value) -> anyhow::Result<Vec<Value>> {
    if page["router"].is_object() {
        return Ok(Vec::new());
    }
    let mut report = fetch_json(&args.login.endpoint.http(), "/readers")?;
    let mut readers = report["readers"].as_array_mut().map(std::mem::take).unwrap_or_default();
    if args.readers > 0 {
        readers.truncate(args.readers);
    }
    Ok(readers)
}

/// Waits, and keeps the session alive meanwhile.
fn wait(client: Option<&mut BrokerClient>, until: Instant) -> Result<(), ClientError> {
    let left = || until.saturating_duration_since(Instant::now());
    match client {
        None => std::thread::sleep(left()),
        Some(client) => {
            while !left().is_zero() {
                client.poll(left(), |_| {})?;
            }
        }
    }
    Ok(())
}

/// The furthest behind first; names as they are.
fn sort(subscriptions: &mut [ListedSubscription], key: SortKey) {
    subscriptions.sort_by(|a, b| {
        let figure = |listed: &ListedSubscription| match key {
            SortKey::Lag => listed.state.lag_messages,
            SortKey::Bytes => listed.state.lag_bytes,
            SortKey::Spilled => listed.state.spilled_bytes,
            SortKey::Age => listed.state.lag_age.0,
            SortKey::Name => 0,
        };
        figure(b).cmp(&figure(a)).then_with(|| a.name.cmp(&b.name))
    });
}

/// Figures that grow, whose rates are shown.
const RATES: [(&str, &str); 5] = [
    ("/delivery/pages", "pages_per_s"),
    ("/delivery/rows", "rows_per_s"),
    ("/delivery/sources/*/ingested", "changes_per_s"),
    ("/subscriptions/delivered", "messages_per_s"),
    ("/subscriptions/taken", "taken_per_s"),
];

/// The growth per second of a figure since the look before.
fn rate(now: &TopSample, before: Option<&TopSample>, pointer: &str) -> Option<u64> {
    let before = before?;
    let figure = |sample: &TopSample| figure(&sample.page, pointer);
    by_the_second(figure(now)?.saturating_sub(figure(before)?), now, before)
}

/// Returns a figure of the status page; with `/*` in the pointer, the sum over a list.
fn figure(page: &Value, pointer: &str) -> Option<u64> {
    let Some((list, rest)) = pointer.split_once("/*") else {
        return page.pointer(pointer)?.as_u64();
    };
    page.pointer(list)?.as_array()?.iter().map(|one| one.pointer(rest)?.as_u64()).sum()
}

fn by_the_second(grown: u64, now: &TopSample, before: &TopSample) -> Option<u64> {
    let nanos = now.at.duration_since(before.at).as_nanos().max(1);
    u64::try_from(u128::from(grown) * 1_000_000_000 / nanos).ok()
}

/// The growth per second of a figure of a reader's connection since the look before; none for a
/// reader that was not listed then.
fn reader_rate(
    reader: &Value,
    figure: &str,
    now: &TopSample,
    before: Option<&TopSample>,
) -> Option<u64> {
    let before = before?;
    let is_same = |other: &&Value| {
        other["connection"] == reader["connection"] && other["source"] == reader["source"]
    };
    let earlier = before.readers.iter().find(is_same)?[figure].as_u64()?;
    by_the_second(reader[figure].as_u64()?.saturating_sub(earlier), now, before)
}

/// A reader as the node lists it, with what its connection was given by the second.
fn reader_json(reader: &Value, now: &TopSample, before: Option<&TopSample>) -> Value {
    let mut reader = reader.clone();
    for (figure, name) in
        [("pages", "pages_per_s"), ("rows", "rows_per_s"), ("merged", "merged_per_s")]
    {
        reader[name] = json!(reader_rate(&reader, figure, now, before));
    }
    reader
}

fn as_json(sample: &TopSample, before: Option<&TopSample>) -> Value {
    let rates: serde_json::Map<String, Value> = RATES
        .iter()
        .map(|(pointer, name)| ((*name).to_owned(), json!(rate(sample, before, pointer))))
        .collect();
    let figure = |pointer: &str| figure(&sample.page, pointer);
    let readers = sample.readers.iter().map(|one| reader_json(one, sample, before));
    json!({
        "readers_waiting": figure("/delivery/parked"),
        "orders": figure("/delivery/sources/*/orders"),
        "refused": figure("/delivery/refused"), "rates": rates,
        "subscription_totals": {
            "attached": figure("/subscriptions/attached"),
            "wanted_bytes": figure("/subscriptions/wanted_bytes"),
            "evicted": figure("/subscriptions/evicted"),
            "expired": figure("/subscriptions/expired"),
        },
        "sources": sources(&sample.page).map(source_json).collect::<Vec<_>>(),
        "readers": readers.collect::<Vec<_>>(),
        "subscriptions": sample.subscriptions.iter().map(one_json).collect::<Vec<_>>(),
    })
}

fn sources(page: &Value) -> impl Iterator<Item = &Value> {
    page.pointer("/ingest/sources").and_then(Value::as_array).into_iter().flatten()
}

fn source_json(source: &Value) -> Value {
    let names = ["source", "epoch", "is_open", "is_whole", "next_batch_no", "rows", "followers"];
    let fields = names.iter().map(|name| ((*name).to_owned(), source[*name].clone()));
    Value::Object(fields.collect())
}

fn table(sample: &TopSample, before: Option<&TopSample>) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    let number = |pointer: &str| match figure(&sample.page, pointer) {
        Some(figure) => figure.to_string(),
        None => "-".to_owned(),
    };
    let per_second = |pointer: &str| match rate(sample, before, pointer) {
        Some(rate) => format!("{rate}/s"),
        None => "-".to_owned(),
    };
    let _ = writeln!(
        text,
        "state   {} orders, {} readers wait, {} refused; pages {}, rows {}, changes {}",
        number("/delivery/sources/*/orders"),
        number("/delivery/parked"),
        number("/delivery/refused"),
        per_second("/delivery/pages"),
        per_second("/delivery/rows"),
        per_second("/delivery/sources/*/ingested"),
    );
    for source in sources(&sample.page) {
        let fed = if source["is_open"] == true { "fed" } else { "not fed" };
        let whole = if source["is_whole"] == true { "" } else { ", not whole" };
        let _ = writeln!(
            text,
            "source  {} in epoch {}, {fed}{whole}; {} rows, {} followers",
            source["source"], source["epoch"], source["rows"], source["followers"]
        );
    }
    if sample.page["subscriptions"].is_object() {
        let _ = writeln!(
            text,
            "subs    {} attached, {} bytes wanted on disk, {} evicted, {} expired; \
             given {}, taken {}",
            number("/subscriptions/attached"),
            number("/subscriptions/wanted_bytes"),
            number("/subscriptions/evicted"),
            number("/subscriptions/expired"),
            per_second("/subscriptions/delivered"),
            per_second("/subscriptions/taken"),
        );
    }
    text.push_str(&reader_lines(sample, before));
    text.push_str(&subscription_lines(&sample.subscriptions));
    text
}

fn reader_lines(sample: &TopSample, before: Option<&TopSample>) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    if sample.readers.is_empty() {
        return text;
    }
    let [source, session, firm, account] = ["source", "session", "firm", "account"];
    let [instrument, rows, bytes, age] = ["instrument", "rows", "bytes", "age"];
    let [pages, given, merged, waits] = ["pages/s", "rows/s", "merged/s", "waits for"];
    let _ = writeln!(
        text,
        "\n{source:>6} {session:>10} {firm:>6} {account:>9} {instrument:>10} {rows:>8} {bytes:>9} \
         {age:>9} {pages:>8} {given:>9} {merged:>9} {waits}"
    );
    for reader in &sample.readers {
        let any = |name: &str| match reader[name].as_u64() {
            None | Some(0) => "all".to_owned(),
            Some(id) => id.to_string(),
        };
        let more = if reader["lag_is_more"] == true { "+" } else { "" };
        let lag = format!("{}{more}", reader["lag_rows"]);
        let age = span(reader["lag_us"].as_u64().unwrap_or_default().saturating_mul(1_000));
        let rate = |figure| match reader_rate(reader, figure, sample, before) {
            Some(rate) => rate.to_string(),
            None => "-".to_owned(),
        };
        let _ = writeln!(
            text,
            "{:>6} {:>10} {:>6} {:>9} {:>10} {lag:>8} {:>9} {age:>9} {:>8} {:>9} {:>9} {}",
            reader["source"],
            reader["session"],
            any("firm"),
            any("account"),
            any("instrument"),
            reader["lag_bytes"],
            rate("pages"),
            rate("rows"),
            rate("merged"),
            reader["waits_for"].as_str().unwrap_or_default(),
        );
    }
    text
}

fn subscription_lines(subscriptions: &[ListedSubscription]) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    if subscriptions.is_empty() {
        return text;
    }
    let [name, firm, kind, messages] = ["name", "firm", "kind", "messages"];
    let [bytes, spilled, age, status] = ["bytes", "spilled", "age", "status"];
    let _ = writeln!(
        text,
        "\n{name:<28} {firm:>6} {kind:<10} {messages:>9} {bytes:>11} {spilled:>11} {age:>9} \
         {status}"
    );
    for ListedSubscription { name, state } in subscriptions {
        let status = status_of(state);
        let (kind, age) = (kind_name(state.kind), span(state.lag_age.0));
        let _ = writeln!(
            text,
            "{name:<28} {:>6} {kind:<10} {:>9} {:>11} {:>11} {age:>9} {status}",
            state.firm_id, state.lag_messages, state.lag_bytes, state.spilled_bytes
        );
    }
    text
}
