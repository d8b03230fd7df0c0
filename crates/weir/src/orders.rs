//! `weir orders`: follows the state of orders by token, as a table or as lines of JSON.
//!
//! With `--token-file` it goes on where it was: the token is written after the rows that it
//! covers, so that a crash repeats rows and never skips one. With `--name` the node keeps it.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use weir_client::follower::{PageEvent, RowEvent};
use weir_client::session::SessionEvent;
use weir_client::{Client, ClientError, Follower, FollowerConfig, Incoming};
use weir_runtime::civil::utc;
use weir_types::{AccountId, FirmId, InstrumentId, PartitionId, Price, Qty, TimeInForce};
use weir_web::order_json::{gone_json, has_price, has_stop, is_triggered, row_json};
use weir_wire::delivery::OrderRow;
use weir_wire::event::TradeBusted;

use super::endpoint::{Login, TIMEOUT, hex, parse_hex};
use super::instruments::Instruments;
use super::named_token::NamedToken;
use super::renamed::{self, Renamed};
use super::trading::report::{busted_json, debt_text, reason_text};
use super::units;

/// The longest wait for messages in one turn.
const POLL: Duration = Duration::from_millis(500);

/// Options of `weir orders`.
#[derive(Debug, clap::Args)]
pub struct OrdersArgs {
    #[command(flatten)]
    login: Login,
    /// Only this instrument's: symbol or identifier.
    #[arg(long)]
    instrument: Option<String>,
    /// Only this firm's.
    #[arg(long, default_value_t = 0)]
    firm: u32,
    /// Only this account's.
    #[arg(long, default_value_t = 0)]
    account: u32,
    /// An outside core's orders: its source. Without it the node's own.
    #[arg(long, value_name = "ID", default_value_t = 0)]
    source: u16,
    /// Only live orders, and the ends of those seen live.
    #[arg(long)]
    live: bool,
    /// The most rows of a page; 0 leaves it to the node.
    #[arg(long, default_value_t = 0)]
    rows_max: u32,
    /// File of the token, to continue from there.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A name under which the node keeps the token, in the place of a file; made where there is
    /// none. The node needs the section `[subscriptions]`.
    #[arg(long, value_name = "NAME", conflicts_with = "token_file")]
    name: Option<String>,
    /// The node's listener for subscribers, HOST:PORT, for `--name`; by default as its status page
    /// says.
    #[arg(long, value_name = "ADDRESS", requires = "name", value_parser = units::address)]
    subscriptions: Option<SocketAddr>,
    #[arg(long, hide = true, value_parser = renamed::to("--subscriptions"))]
    broker: Option<Renamed>,
    /// Read only of a store that has reached this token, of the same filter and rights, in
    /// hexadecimal: what was seen elsewhere is seen here.
    #[arg(long, value_name = "HEX")]
    min_token: Option<String>,
    /// The longest wait for the store to reach it; 0 is the node's own limit, a number alone is
    /// milliseconds. `--min-wait-ms` is the same.
    #[arg(long, alias = "min-wait-ms", value_name = "TIME", requires = "min_token",
          default_value = "0ms", value_parser = units::millis)]
    min_wait: Duration,
    /// End when all that is there has been shown.
    #[arg(long)]
    once: bool,
    /// JSON objects, one a line.
    #[arg(long)]
    json: bool,
}

/// Runs `weir orders`.
///
/// # Errors
/// When the node cannot be reached or order state comes out of order.
pub fn run(args: OrdersArgs) -> anyhow::Result<()> {
    let instrument_id = match &args.instrument {
        Some(name) => args.login.endpoint.instrument(name)?.instrument_id(),
        None => InstrumentId::NONE,
    };
    let config = FollowerConfig {
        firm_id: FirmId(args.firm),
        account_id: AccountId(args.account),
        instrument_id,
        live_only: args.live,
        source_id: PartitionId(args.source),
        rows_max: args.rows_max,
        ..FollowerConfig::new(args.login.session_id())
    };
    let mut store = TokenStore::open(&args)?;
    let mut client = args.login.client()?;
    let mut follower = Follower::new(config, store.token.clone());
    if let Some(text) = &args.min_token {
        let min_token = parse_hex(text.trim()).context("--min-token is not hexadecimal")?;
        follower.require(min_token, u32::try_from(args.min_wait.as_micros()).unwrap_or(u32::MAX));
    }
    follower.ask(client.outbox());
    if !args.json {
        println!("{}", header());
    }
    let mut instruments = Instruments::fetch_if_there(&args.login.endpoint);
    let mut last_page = Instant::now();
    loop {
        if take(&args, &mut client, &mut follower, &mut instruments)? {
            last_page = Instant::now();
        }
        store.keep(follower.token())?;
        if args.once && follower.is_online() {
            store.close()?;
            client.log_out(TIMEOUT)?;
            return Ok(());
        }
        if args.once && last_page.elapsed() > TIMEOUT {
            bail!("no page came within {TIMEOUT:?}");
        }
    }
}

/// The token's storage.
struct TokenStore {
    token: Vec<u8>,
    file: Option<PathBuf>,
    named: Option<NamedToken>,
}

impl TokenStore {
    fn open(args: &OrdersArgs) -> anyhow::Result<TokenStore> {
        let file = args.token_file.clone();
        if let Some(name) = &args.name {
            let (named, token) = NamedToken::attach(&args.login, args.subscriptions, name)?;
            return Ok(TokenStore { token, file, named: Some(named) });
        }
        let token = file.as_deref().map_or(Ok(Vec::new()), read_token)?;
        Ok(TokenStore { token, file, named: None })
    }

    /// All before `token` is printed.
    fn keep(&mut self, token: &[u8]) -> anyhow::Result<()> {
        if token != self.token {
            self.token = token.to_vec();
            self.file.as_deref().map_or(Ok(()), |path| write_token(path, &self.token))?;
        }
        self.named.as_mut().map_or(Ok(()), |named| named.tend(&self.token))
    }

    fn close(&mut self) -> anyhow::Result<()> {
        self.named.as_mut().map_or(Ok(()), |named| named.keep(&self.token))
    }
}

/// Prints what comes within a moment; true when a page did. A refusal is no page: a source that
/// stays away would otherwise be awaited for ever.
fn take(
    args: &OrdersArgs,
    client: &mut Client,
    follower: &mut Follower,
    instruments: &mut Instruments,
) -> anyhow::Result<bool> {
    let mut failed: Option<anyhow::Error> = None;
    let mut has_page = false;
    let mut out = crate::output::stdout();
    let clock = client.clock();
    follower.ask_when_due(clock.now(), client.outbox());
    let patience = follower.rest(clock.now()).unwrap_or(POLL).min(POLL);
    let polled = client.poll(patience, |incoming, outbox| {
        has_page |= matches!(incoming, Incoming::Page(..) | Incoming::Rows(..));
        let outcome = match incoming {
            Incoming::Page(page, token) => follower.on_page(&page, token, outbox).map(note),
            Incoming::Rows(body, rows) => follower
                .on_rows(&body, rows, |event| {
                    let line = match args.json {
                        true => json_line(event, instruments),
                        false => table_line(event, instruments),
                    };
                    if let Err(error) = writeln!(out, "{line}") {
                        failed = Some(error.into());
                    }
                })
                .map(drop),
            Incoming::Session(_, SessionEvent::TradeBusted(bust)) => {
                let line = match args.json {
                    true => busted_json(instruments, &bust).to_string(),
                    false => bust_line(&bust, instruments),
                };
                if let Err(error) = writeln!(out, "{line}") {
                    failed = Some(error.into());
                }
                Ok(())
            }
            Incoming::Sources(states, sources) => follower.on_sources(&states, sources).map(drop),
            Incoming::Session(_, SessionEvent::Refused { reject, .. }) => {
                follower.on_reject(&reject, clock.now()).map(|is_ours| {
                    if is_ours {
                        eprintln!("weir: refused ({}): asked again in a while", reject.reason);
                    }
                })
            }
            Incoming::Session(..)
            | Incoming::CopyState(_)
            | Incoming::Copy(..)
            | Incoming::CopyMark(_)
            | Incoming::Source(_)
            | Incoming::Broker(_)
            | Incoming::Market(_) => Ok(()),
        };
        if let Err(error) = outcome {
            failed = Some(error.into());
        }
    });
    match polled {
        Ok(_) => {}
        Err(ClientError::Closed) => bail!("the node closed the connection"),
        Err(error) => return Err(error.into()),
    }
    out.flush().context("writing orders")?;
    failed.map_or(Ok(has_page), Err)
}

fn note(event: PageEvent) {
    match event {
        PageEvent::Resync(reason) => {
            eprintln!("weir: resync ({reason}): all that was shown is void, from the start again");
        }
        PageEvent::Page { is_source_away: true, .. } => eprintln!("weir: a source is away"),
        PageEvent::Page { .. } | PageEvent::NotOurs => {}
    }
}

fn read_token(path: &Path) -> anyhow::Result<Vec<u8>> {
    match fs::read_to_string(path) {
        Ok(text) => parse_hex(text.trim())
            .with_context(|| format!("{} does not hold a token", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("token file {}", path.display())),
    }
}

/// Written beside and renamed, so that a crash leaves the old token or the new one.
fn write_token(path: &Path, token: &[u8]) -> anyhow::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    fs::write(&beside, format!("{}\n", hex(token)))
        .and_then(|()| fs::rename(&beside, path))
        .with_context(|| format!("token file {}", path.display()))
}

fn header() -> String {
    format!(
        "{:>10} {:>8} {:>20} {:>10} {:>4} {:<10} {:>12} {:>12} {:>10} {:>10} {:>10} {:<16} notes",
        "seq",
        "rec",
        "order",
        "instrument",
        "side",
        "type",
        "price",
        "stop",
        "qty",
        "leaves",
        "cum",
        "status"
    )
}

fn table_line(event: &RowEvent<'_>, instruments: &mut Instruments) -> String {
    match event {
        RowEvent::Gone(order_id) => format!("{:>10} {:>8} {order_id:>20} gone", "", ""),
        RowEvent::State(row, attributes) => {
            let id = row.instrument_id;
            instruments.refresh_for(id);
            let price = |is_there: bool, price: Price| match is_there {
                true => instruments.price(id, price),
                false => "-".to_owned(),
            };
            format!(
                "{:>10} {:>8} {:>20} {:>10} {:>4} {:<10} {:>12} {:>12} {:>10} {:>10} {:>10} {:<16} \
                 {}",
                row.seq,
                row.rec,
                row.order_id,
                instruments.symbol(id),
                format!("{:?}", row.side).to_lowercase(),
                format!("{:?}", row.ord_type).to_lowercase(),
                price(has_price(row.ord_type), row.price),
                price(has_stop(row), row.stop_px),
                instruments.qty(id, row.order_qty),
                instruments.qty(id, row.leaves_qty),
                instruments.qty(id, row.cum_qty),
                format!("{:?}", row.ord_status),
                notes(row, attributes, instruments),
            )
        }
    }
}

/// The trigger of a stop, the lifetime unless it is the day, an iceberg's shown quantity, the
/// reason of the end, the length of the source's attributes.
fn notes(row: &OrderRow, attributes: &[u8], instruments: &Instruments) -> String {
    let time_in_force = match row.time_in_force {
        TimeInForce::Day => String::new(),
        TimeInForce::Gtd => format!("until {}", utc(row.expire_time)),
        TimeInForce::Gtc => "gtc".to_owned(),
        TimeInForce::Ioc => "ioc".to_owned(),
        TimeInForce::Fok => "fok".to_owned(),
        TimeInForce::AtTheOpen => "at the open".to_owned(),
        TimeInForce::AtTheClose => "at the close".to_owned(),
    };
    let triggered = if is_triggered(row) { "triggered" } else { "" };
    let shown = match row.display_qty {
        Qty::ZERO => String::new(),
        most => format!("shows {}", instruments.qty(row.instrument_id, most)),
    };
    let beside = match attributes.len() {
        0 => String::new(),
        len => format!("{len} bytes of attributes"),
    };
    let why = reason_text(row.reason);
    let notes = [triggered, &time_in_force, &shown, &why, &beside];
    let notes: Vec<_> = notes.into_iter().filter(|note| !note.is_empty()).collect();
    notes.join(", ")
}

/// A trade of the session's own that an operator took back; rows of orders do not tell it.
fn bust_line(bust: &TradeBusted, instruments: &Instruments) -> String {
    let id = bust.instrument_id;
    let (qty, price) = (instruments.qty(id, bust.last_qty), instruments.price(id, bust.last_px));
    format!(
        "{:>10} {:>8} {:>20} trade {} taken back: {qty} at {price}{}",
        "",
        "",
        bust.order_id,
        bust.match_id,
        debt_text(bust)
    )
}

fn json_line(event: &RowEvent<'_>, instruments: &mut Instruments) -> String {
    match event {
        RowEvent::Gone(order_id) => gone_json(*order_id).to_string(),
        RowEvent::State(row, attributes) => {
            instruments.refresh_for(row.instrument_id);
            let scale = instruments.scale(row.instrument_id);
            row_json(row, attributes, scale.as_ref()).to_string()
        }
    }
}
