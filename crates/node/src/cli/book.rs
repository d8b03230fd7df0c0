//! `weir book SYMBOL`: an instrument's book as a ladder, made of delivered order state.
//!
//! It follows the live orders of one instrument by token and adds them up by price: the same
//! service that any client has, no door of its own. Needs a session that may see all orders.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::Context;
use weir_client::status::InstrumentStatus;
use weir_client::{Client, Follower, FollowerConfig, Incoming};
use weir_types::{OrderId, Price, Side};
use weir_wire::delivery::OrderRow;

use super::endpoint::{Login, TIMEOUT, decimal};

const REFRESH: Duration = Duration::from_millis(100);
const BAR_LEN: u128 = 30;

/// Options of `weir book`.
#[derive(Debug, clap::Args)]
pub struct BookArgs {
    /// The instrument's symbol or identifier.
    symbol: String,
    #[command(flatten)]
    login: Login,
    /// Levels of each side.
    #[arg(long, default_value_t = 10)]
    depth: usize,
    /// Show the book as it is now, and end.
    #[arg(long)]
    once: bool,
    /// JSON objects, one a line, instead of a ladder.
    #[arg(long)]
    json: bool,
}

/// Runs `weir book`.
///
/// # Errors
/// When the node cannot be reached or has no such instrument.
pub fn run(args: BookArgs) -> anyhow::Result<()> {
    let instrument = args.login.endpoint.instrument(&args.symbol)?;
    let mut client = args.login.client()?;
    let config = FollowerConfig {
        instrument_id: instrument.instrument_id(),
        live_only: true,
        keep_orders: true,
        ..FollowerConfig::new(args.login.session_id())
    };
    let mut follower = Follower::new(config, Vec::new());
    follower.ask(client.outbox());
    let mut next_show = Instant::now();
    let started = Instant::now();
    loop {
        take(&mut client, &mut follower)?;
        let is_due = Instant::now() >= next_show;
        if follower.is_online() && (args.once || is_due) {
            show(&args, &instrument, &follower)?;
            next_show = Instant::now() + REFRESH;
            if args.once {
                client.log_out(TIMEOUT)?;
                return Ok(());
            }
        } else if args.once && started.elapsed() > TIMEOUT {
            anyhow::bail!("the book did not come within {TIMEOUT:?}");
        }
    }
}

/// Takes what the node has for the follower, for a tenth of a second at most.
fn take(client: &mut Client, follower: &mut Follower) -> anyhow::Result<()> {
    let mut failed = None;
    client.poll(REFRESH, |incoming, out| {
        let outcome = match incoming {
            Incoming::Page(page, token) => follower.on_page(&page, token, out).map(drop),
            Incoming::Rows(body, rows) => follower.on_rows(&body, rows, |_| {}).map(drop),
            Incoming::Session(..) => Ok(()),
        };
        failed = failed.take().or(outcome.err());
    })?;
    failed.map_or(Ok(()), |error| Err(error.into()))
}

/// A price, what is there, and how many orders that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Level {
    price: Price,
    qty: u128,
    order_count: u32,
}

/// Bids and asks, best first.
fn levels(orders: &BTreeMap<OrderId, OrderRow>) -> (Vec<Level>, Vec<Level>) {
    let mut sides: [BTreeMap<Price, (u128, u32)>; 2] = Default::default();
    for row in orders.values().filter(|row| !row.leaves_qty.is_zero()) {
        let side = &mut sides[usize::from(row.side == Side::Sell)];
        let level = side.entry(row.price).or_default();
        level.0 += u128::from(row.leaves_qty.0);
        level.1 += 1;
    }
    let level = |(price, (qty, order_count)): (&Price, &(u128, u32))| Level {
        price: *price,
        qty: *qty,
        order_count: *order_count,
    };
    let [bids, asks] = &sides;
    (bids.iter().rev().map(level).collect(), asks.iter().map(level).collect())
}

fn show(args: &BookArgs, instrument: &InstrumentStatus, follower: &Follower) -> anyhow::Result<()> {
    let (bids, asks) = levels(follower.orders());
    let text = if args.json {
        json(args, instrument, (&bids, &asks))
    } else {
        let clear = if args.once { "" } else { "\x1b[H\x1b[2J" };
        let count = follower.orders().len();
        format!("{clear}{}", ladder(args, instrument, (&bids, &asks), count))
    };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("writing the book")
}

fn json(args: &BookArgs, instrument: &InstrumentStatus, sides: (&[Level], &[Level])) -> String {
    let side = |levels: &[Level]| -> Vec<serde_json::Value> {
        let shown = levels.iter().take(args.depth);
        shown
            .map(|level| {
                serde_json::json!({
                    "price": decimal(i128::from(level.price.0), instrument.price_exponent),
                    "price_mantissa": level.price.0,
                    "qty": u64::try_from(level.qty).unwrap_or(u64::MAX),
                    "orders": level.order_count,
                })
            })
            .collect()
    };
    let book = serde_json::json!({
        "symbol": instrument.symbol,
        "instrument_id": instrument.id,
        "bids": side(sides.0),
        "asks": side(sides.1),
    });
    format!("{book}\n")
}

fn ladder(
    args: &BookArgs,
    instrument: &InstrumentStatus,
    (bids, asks): (&[Level], &[Level]),
    order_count: usize,
) -> String {
    let shown = |levels: &[Level]| levels.iter().take(args.depth).copied().collect::<Vec<_>>();
    let (bids, asks) = (shown(bids), shown(asks));
    let qty_max = bids.iter().chain(&asks).map(|level| level.qty).max().unwrap_or(1);
    let mut text = format!("{}  {order_count} live orders\n\n", instrument.symbol);
    let _ = writeln!(text, "{:>16} {:>16} {:>7}", "price", "quantity", "orders");
    let mut line = |level: &Level, colour: &str| {
        let price = decimal(i128::from(level.price.0), instrument.price_exponent);
        let qty = decimal(i128::try_from(level.qty).unwrap_or(i128::MAX), instrument.qty_exponent);
        let bar = "█".repeat(usize::try_from(level.qty * BAR_LEN / qty_max).unwrap_or(0));
        let orders = level.order_count;
        let (on, off) = if args.once { ("", "") } else { (colour, "\x1b[0m") };
        let _ = writeln!(text, "{on}{price:>16} {qty:>16} {orders:>7} {bar}{off}");
    };
    asks.iter().rev().for_each(|level| line(level, "\x1b[31m"));
    bids.iter().for_each(|level| line(level, "\x1b[32m"));
    let spread = asks.first().zip(bids.first()).map(|(ask, bid)| ask.price.0 - bid.price.0);
    match spread {
        Some(spread) => {
            let spread = decimal(i128::from(spread), instrument.price_exponent);
            let _ = writeln!(text, "\nspread {spread}");
        }
        None => text.push_str("\na side is empty\n"),
    }
    text
}
