//! `weir subscriptions`: durable subscriptions listed, made, read, drained, evicted, deleted, their
//! files compacted.
//!
//! Reading acknowledges printed messages, so that a stopped reader goes on with the next one.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use weir_client::SessionConfig;
use weir_client::subscription::{
    BrokerClient, Credit, ListedSubscription, Message, NewSubscription, Seen, Subscription,
    WaitOutcome, kind_name, status_name,
};
use weir_types::{AckLevel, FirmId, Reason, SubscriptionAction, SubscriptionKind};
use weir_web::order_json::reason_json;
use weir_wire::subscription::{PublicTrade, SubscriptionState};
use weir_wire::{Message as _, NodeMessage};

use super::endpoint::{Login, hex, once_free, span};
use super::instruments::Instruments;
use super::renamed::{self, Renamed};
use super::trading::report::{busted_json, report_json};
use super::units;

/// Options of `weir subscriptions`.
#[derive(Debug, clap::Args)]
pub struct SubscriptionsArgs {
    #[command(flatten)]
    login: Login,
    /// The node's listener for subscribers, HOST:PORT; by default as its status page says.
    #[arg(long, value_name = "ADDRESS", value_parser = units::address)]
    subscriptions: Option<SocketAddr>,
    #[arg(long, hide = true, value_parser = renamed::to("--subscriptions"))]
    broker: Option<Renamed>,
    #[command(subcommand)]
    command: Option<SubscriptionsCommand>,
}

#[derive(Debug, clap::Subcommand)]
enum SubscriptionsCommand {
    /// List them, with how far they are behind; the default.
    List {
        /// The owning firm; 0 for the session's own, or all firms for sessions that see all.
        #[arg(long, default_value_t = 0)]
        firm: u32,
        /// JSON objects, one a line.
        #[arg(long)]
        json: bool,
    },
    /// Make one.
    Create {
        /// Its name.
        name: String,
        /// Topic: executions, trades, messages or state.
        #[arg(long, value_parser = parse_kind)]
        kind: SubscriptionKind,
        /// The topic's firm or instrument; 0 for all that the session may see.
        #[arg(long, default_value_t = 0)]
        of: u32,
        /// Messages that may be untaken before it is evicted; 0 for the node's limit.
        #[arg(long, default_value_t = 0)]
        quota_messages: u64,
        /// Bytes that may be untaken, such as 64MiB; 0 for the node's limit.
        #[arg(long, value_name = "SIZE", default_value = "0", value_parser = units::bytes)]
        quota_bytes: u64,
        /// Time without a reader before it expires; 0 for the node's limit, a number alone is
        /// seconds. `--expire-after-s` is the same.
        #[arg(long, alias = "expire-after-s", value_name = "TIME", default_value = "0s",
              value_parser = units::seconds)]
        expire_after: Duration,
    },
    /// Print its messages as they come, and acknowledge what was printed.
    Read {
        /// Its name.
        name: String,
        /// End after this many messages; 0 for no limit.
        #[arg(long, default_value_t = 0)]
        count: u64,
        /// JSON objects, one a line.
        #[arg(long)]
        json: bool,
    },
    /// Give up what it has not taken; it goes on with the next message.
    Drain(SubscriptionName),
    /// Give up what it has not taken, and end it.
    Evict(SubscriptionName),
    /// Remove it.
    Delete(SubscriptionName),
    /// Compact spill files with messages that no subscription needs: for supervisors and operators.
    Compact {
        /// One JSON object.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
struct SubscriptionName {
    /// Its name.
    name: String,
    /// The owning firm; 0 for the session's own.
    #[arg(long, default_value_t = 0)]
    firm: u32,
}

/// All kinds.
const KINDS: [SubscriptionKind; 4] = [
    SubscriptionKind::Executions,
    SubscriptionKind::Trades,
    SubscriptionKind::Messages,
    SubscriptionKind::State,
];

fn parse_kind(text: &str) -> Result<SubscriptionKind, String> {
    let found = KINDS.into_iter().find(|kind| kind_name(*kind) == text);
    found.ok_or_else(|| format!("unknown kind {text:?}: want {}", KINDS.map(kind_name).join(", ")))
}

/// Runs `weir subscriptions`.
///
/// # Errors
/// When the node cannot be reached or refuses.
pub fn run(args: SubscriptionsArgs) -> anyhow::Result<()> {
    let session = SessionConfig::new(args.login.session_id(), args.login.key()?);
    let address = args.subscriptions.map_or_else(|| address_of(&args.login), Ok)?;
    let mut client = BrokerClient::new(address, session);
    let act = |client: &mut BrokerClient, action, named: &SubscriptionName| {
        once_free(|| client.act(action, FirmId(named.firm), &named.name))
    };
    match args.command.unwrap_or(SubscriptionsCommand::List { firm: 0, json: false }) {
        SubscriptionsCommand::List { firm, json } => {
            print!("{}", table(&once_free(|| client.list(FirmId(firm)))?, json));
        }
        SubscriptionsCommand::Create {
            name,
            kind,
            of,
            quota_messages,
            quota_bytes,
            expire_after,
        } => {
            let level = AckLevel::Memory;
            let new = NewSubscription::new(&name, kind);
            let topic_key = of;
            let new = NewSubscription {
                topic_key,
                level,
                quota_bytes,
                quota_messages,
                expire_after,
                ..new
            };
            once_free(|| client.create(&new))?;
        }
        SubscriptionsCommand::Read { name, count, json } => {
            let instruments = Instruments::fetch_if_there(&args.login.endpoint);
            read(client, &name, count, json, instruments)?;
        }
        SubscriptionsCommand::Drain(named) => act(&mut client, SubscriptionAction::Drain, &named)?,
        SubscriptionsCommand::Evict(named) => act(&mut client, SubscriptionAction::Evict, &named)?,
        SubscriptionsCommand::Delete(named) => {
            act(&mut client, SubscriptionAction::Delete, &named)?;
        }
        SubscriptionsCommand::Compact { json } => {
            let page = args.login.endpoint.status()?.json;
            let figure = |name: &str| page["subscriptions"][name].as_u64().unwrap_or_default();
            once_free(|| client.act(SubscriptionAction::Compact, FirmId::NONE, ""))?;
            let names = ["disk_bytes", "files", "wanted_bytes"];
            let [disk, files, wanted] = names.map(figure);
            if json {
                let object = serde_json::json!({
                    "disk_bytes": disk, "files": files, "wanted_bytes": wanted,
                });
                println!("{object}");
            } else {
                println!(
                    "{disk} bytes in {files} files, {wanted} of them wanted: the node compacts \
                     files of which at least a tenth is not"
                );
            }
        }
    }
    Ok(())
}

/// The node's listener for subscribers, from its status page.
///
/// # Errors
/// When it cannot be read, or the node serves none.
pub(super) fn address_of(login: &Login) -> anyhow::Result<SocketAddr> {
    let page = login.endpoint.status()?;
    let address = page.json["subscriptions"]["address"].as_str();
    let address =
        address.context("the node serves no durable subscriptions: no [subscriptions]")?;
    address.parse().with_context(|| format!("the status page's {address:?}"))
}

/// A subscription in a list, as one object.
pub(super) fn as_json(
    ListedSubscription { name, state }: &ListedSubscription,
) -> serde_json::Value {
    serde_json::json!({
        "name": name, "kind": kind_name(state.kind), "of": state.topic_key,
        "firm": state.firm_id.0, "attached": state.detached_time.0 == 0,
        "lag_messages": state.lag_messages, "lag_bytes": state.lag_bytes,
        "spilled_bytes": state.spilled_bytes, "lag_age_ns": state.lag_age.0,
        "quota_messages": state.quota_messages, "quota_bytes": state.quota_bytes,
        "quota_age_ns": state.quota_age.0, "expire_after_ns": state.expire_after.0,
        "status": status_name(state.status), "reason": reason_json(state.reason),
    })
}

/// Returns why a subscription gets nothing, or where its subscriber is.
pub(crate) fn status_of(state: &SubscriptionState) -> String {
    match state.reason {
        Reason::None if state.detached_time.0 == 0 => "attached".to_owned(),
        Reason::None => "away".to_owned(),
        reason => reason.to_string(),
    }
}

fn table(all: &[ListedSubscription], json: bool) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    if !json && !all.is_empty() {
        let heads = ["name", "kind", "of", "messages", "bytes", "spilled", "age", "status"];
        let [name, kind, of, messages, bytes, spilled, age, status] = heads;
        let _ = writeln!(
            text,
            "{name:<28} {kind:<10} {of:>6} {messages:>9} {bytes:>11} {spilled:>11} {age:>9} \
             {status}"
        );
    }
    for listed in all {
        let ListedSubscription { name, state } = listed;
        if json {
            let _ = writeln!(text, "{}", as_json(listed));
            continue;
        }
        let status = status_of(state);
        let (kind, age) = (kind_name(state.kind), span(state.lag_age.0));
        let _ = writeln!(
            text,
            "{name:<28} {kind:<10} {:>6} {:>9} {:>11} {:>11} {age:>9} {status}",
            state.topic_key, state.lag_messages, state.lag_bytes, state.spilled_bytes
        );
    }
    text
}

fn read(
    client: BrokerClient,
    name: &str,
    count: u64,
    json: bool,
    mut instruments: Instruments,
) -> anyhow::Result<()> {
    let mut from = Subscription::on(client, name, Credit::default(), Seen::new());
    let mut printed = 0;
    while count == 0 || printed < count {
        match from.next(Duration::from_millis(500)) {
            WaitOutcome::Message(message) => {
                println!("{}", line_of(&message, json, &mut instruments));
                from.ack(&message);
                printed += 1;
            }
            WaitOutcome::Nothing => {
                if let Some(error) = from.client().take_failure() {
                    eprintln!("weir: {error}");
                }
            }
            WaitOutcome::Ended(reason, taken) => {
                taken.iter().for_each(|t| eprintln!("weir: taken up to {t:?}"));
                anyhow::bail!("{name}: {reason:?}: {reason}");
            }
        }
    }
    from.flush();
    Ok(())
}

/// A message with its place: its body as fields, as text, or in hexadecimal.
fn line_of(Message { head, body }: &Message, json: bool, instruments: &mut Instruments) -> String {
    let place = format!("{}:{}:{}", head.source, head.epoch, head.record);
    let body = body_of(body, instruments);
    if json {
        let object = serde_json::json!({
            "message_no": head.message_no, "source": head.source, "epoch": head.epoch.0,
            "record": head.record.0, "body": body,
        });
        return object.to_string();
    }
    let serde_json::Value::Object(fields) = &body else {
        return format!("{} {place} {}", head.message_no, plain(&body));
    };
    let fields: Vec<_> = fields.iter().map(|(name, it)| format!("{name}={}", plain(it))).collect();
    format!("{} {place} {}", head.message_no, fields.join(" "))
}

fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn body_of(body: &[u8], instruments: &mut Instruments) -> serde_json::Value {
    let decoded = weir_wire::frame::parse_message(body).ok().and_then(|raw| {
        if raw.template_id == PublicTrade::TEMPLATE_ID {
            let trade = raw.decode_whole::<PublicTrade>().ok()?;
            instruments.refresh_for(trade.instrument_id);
            return Some(trade_json(instruments, &trade));
        }
        match NodeMessage::decode(&raw).ok()? {
            NodeMessage::ExecutionReport(report) => {
                instruments.refresh_for(report.event.instrument_id);
                Some(report_json(instruments, &report.event))
            }
            NodeMessage::TradeBusted(bust) => Some(busted_json(instruments, &bust)),
            _ => None,
        }
    });
    let text = || std::str::from_utf8(body).map_or_else(|_| hex(body), str::to_owned);
    decoded.unwrap_or_else(|| text().into())
}

fn trade_json(instruments: &Instruments, trade: &PublicTrade) -> serde_json::Value {
    let id = trade.instrument_id;
    serde_json::json!({
        "report": "trade", "symbol": instruments.symbol_json(id), "instrument_id": id.0,
        "match_id": trade.match_id.0, "partition_id": trade.partition_id.0,
        "last_px": instruments.price(id, trade.last_px),
        "last_qty": instruments.qty(id, trade.last_qty),
        "transact_time": trade.transact_time.0,
        "busted": trade.busted == weir_types::Switch::On,
    })
}
