//! `weir book SYMBOL`: an instrument's book as a ladder, made of delivered order state.
//!
//! It follows the live orders of one instrument by token and adds them up by price, hidden parts
//! included, by the service of every client. Next to each level's quantity is an upper bound of its
//! displayed quantity: an order's row has the size of an iceberg's slice, not the rest of the
//! current one. Needs a session that may see all orders. The phase is the status page's, which
//! follows the same events; in a call the book says at which price it would uncross now. Stops, and
//! orders at the close before the closing call, are not in the book: they are counted beside it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::Context;
use weir_client::status::InstrumentStatus;
use weir_client::{Client, Follower, FollowerConfig, Incoming};
use weir_engine::Uncrossing;
use weir_types::{OrdType, OrderId, Phase, Price, Side, TimeInForce, decimal};
use weir_wire::delivery::OrderRow;

use super::endpoint::{Login, TIMEOUT};
use super::feed_book::{self, CaptureArgs};
use super::indicative::CallBook;

const REFRESH: Duration = Duration::from_millis(100);
/// The interval at which the phase is read from the status page.
const PHASE_REFRESH: Duration = Duration::from_millis(500);
const BAR_LEN: u128 = 30;

/// Options of `weir book`.
#[derive(Debug, clap::Args)]
pub struct BookArgs {
    /// The instrument's symbol or identifier.
    symbol: String,
    #[command(flatten)]
    capture: CaptureArgs,
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
    if args.capture.is_asked() {
        return feed_book::run(&args.capture, &args.symbol, args.depth, args.json);
    }
    let mut instrument = args.login.endpoint.instrument(&args.symbol)?;
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
    let mut next_phase = Instant::now() + PHASE_REFRESH;
    let started = Instant::now();
    loop {
        take(&mut client, &mut follower)?;
        if Instant::now() >= next_phase {
            instrument = args.login.endpoint.instrument(&args.symbol)?;
            next_phase = Instant::now() + PHASE_REFRESH;
        }
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
            Incoming::Sources(states, sources) => follower.on_sources(&states, sources).map(drop),
            Incoming::Session(..)
            | Incoming::CopyState(_)
            | Incoming::Copy(..)
            | Incoming::CopyMark(_)
            | Incoming::Source(_)
            | Incoming::Broker(_)
            | Incoming::Market(_) => Ok(()),
        };
        failed = failed.take().or(outcome.err());
    })?;
    failed.map_or(Ok(()), |error| Err(error.into()))
}

/// A price, what is there, and how many orders that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Level {
    price: Price,
    /// Hidden parts included.
    qty: u128,
    /// The most of it that is shown now.
    shown_qty: u128,
    order_count: u32,
}

/// All of an order, or an iceberg's slice as it is when nothing of it has traded yet.
fn shown_at_most(row: &OrderRow) -> u64 {
    match row.display_qty.0 {
        0 => row.leaves_qty.0,
        slice => slice.min(row.leaves_qty.0),
    }
}

/// An instrument's book, and what waits beside it.
#[derive(Debug, Default)]
struct Book {
    /// Best first.
    bids: Vec<Level>,
    /// Best first.
    asks: Vec<Level>,
    /// Lots of market buys and sells that stand in a call.
    market: [u128; 2],
    /// The price and volume at which the call would uncross; only in a call.
    indication: Option<Uncrossing>,
    /// Untriggered stops.
    stop_count: usize,
    /// At-the-close orders that wait for the closing call.
    parked_count: usize,
}

fn is_call(phase: Phase) -> bool {
    matches!(phase, Phase::OpeningCall | Phase::VolatilityCall | Phase::ClosingCall)
}

impl Book {
    fn of(orders: &BTreeMap<OrderId, OrderRow>, instrument: &InstrumentStatus) -> Book {
        let phase = instrument.phase();
        let mut book = Book::default();
        let mut sides: [BTreeMap<Price, Level>; 2] = Default::default();
        let mut call = CallBook::within(instrument.price_min, instrument.price_max);
        for row in orders.values().filter(|row| !row.leaves_qty.is_zero()) {
            let limit = match row.ord_type {
                OrdType::Stop | OrdType::StopLimit => {
                    book.stop_count += 1;
                    continue;
                }
                _ if row.time_in_force == TimeInForce::AtTheClose
                    && phase != Some(Phase::ClosingCall) =>
                {
                    book.parked_count += 1;
                    continue;
                }
                OrdType::Market => None,
                OrdType::Limit => Some(row.price),
            };
            call.add(row.side, limit, row.leaves_qty.0);
            if let Some(price) = limit {
                let side = &mut sides[usize::from(row.side == Side::Sell)];
                let empty = Level { price, qty: 0, shown_qty: 0, order_count: 0 };
                let level = side.entry(price).or_insert(empty);
                level.qty += u128::from(row.leaves_qty.0);
                level.shown_qty += u128::from(shown_at_most(row));
                level.order_count += 1;
            }
        }
        book.bids = sides[0].values().rev().copied().collect();
        book.asks = sides[1].values().copied().collect();
        book.market = [call.market_qty(Side::Buy), call.market_qty(Side::Sell)];
        if phase.is_some_and(is_call) {
            let tick_size = instrument.tick_size.max(Price(1));
            book.indication = call.indication(instrument.reference(), tick_size);
        }
        book
    }
}

fn show(args: &BookArgs, instrument: &InstrumentStatus, follower: &Follower) -> anyhow::Result<()> {
    let book = Book::of(follower.orders(), instrument);
    let text = if args.json {
        json(args, instrument, &book)
    } else {
        let clear = if args.once { "" } else { "\x1b[H\x1b[2J" };
        let count = follower.orders().len();
        format!("{clear}{}", ladder(args, instrument, &book, count))
    };
    let mut out = crate::output::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("writing the book")
}

/// The book as JSON; prices and quantities are decimals as text, so that none loses a digit.
fn json(args: &BookArgs, instrument: &InstrumentStatus, book: &Book) -> String {
    let quantity =
        |lots: u128| decimal(i128::try_from(lots).unwrap_or(i128::MAX), instrument.qty_exponent);
    let side = |levels: &[Level]| -> Vec<serde_json::Value> {
        let shown = levels.iter().take(args.depth);
        shown
            .map(|level| {
                serde_json::json!({
                    "price": decimal(i128::from(level.price.0), instrument.price_exponent),
                    "qty": quantity(level.qty),
                    "shown_qty_max": quantity(level.shown_qty),
                    "orders": level.order_count,
                })
            })
            .collect()
    };
    let indication = book.indication.map(|of| {
        serde_json::json!({
            "price": decimal(i128::from(of.price.0), instrument.price_exponent),
            "volume": quantity(u128::from(of.qty.0)),
            "surplus": decimal(i128::from(of.surplus), instrument.qty_exponent),
        })
    });
    let book = serde_json::json!({
        "symbol": instrument.symbol,
        "instrument_id": instrument.id,
        "phase": instrument.phase,
        "phase_since_ns": instrument.phase_since.map(|at| at.0),
        "phase_cause": instrument.phase_cause,
        "phase_by": instrument.phase_by.map(|by| by.0),
        "is_held": instrument.is_held,
        "bids": side(&book.bids),
        "asks": side(&book.asks),
        "market_buy_qty": quantity(book.market[0]),
        "market_sell_qty": quantity(book.market[1]),
        "indicative": indication,
        "stops": book.stop_count,
        "parked": book.parked_count,
    });
    format!("{book}\n")
}

fn ladder(
    args: &BookArgs,
    instrument: &InstrumentStatus,
    book: &Book,
    order_count: usize,
) -> String {
    let shown = |levels: &[Level]| levels.iter().take(args.depth).copied().collect::<Vec<_>>();
    let (bids, asks) = (shown(&book.bids), shown(&book.asks));
    let qty_max = bids.iter().chain(&asks).map(|level| level.qty).max().unwrap_or(1);
    let phase = instrument.phase_text();
    let mut text = format!("{}  {phase}  {order_count} live orders\n\n", instrument.symbol);
    let (most, orders) = ("shown at most", "orders");
    let _ = writeln!(text, "{:>16} {:>16} {most:>16} {orders:>7}", "price", "quantity");
    let quantity =
        |lots: u128| decimal(i128::try_from(lots).unwrap_or(i128::MAX), instrument.qty_exponent);
    let mut line = |level: &Level, colour: &str| {
        let price = decimal(i128::from(level.price.0), instrument.price_exponent);
        let (qty, shown) = (quantity(level.qty), quantity(level.shown_qty));
        let bar = "█".repeat(usize::try_from(level.qty * BAR_LEN / qty_max).unwrap_or(0));
        let orders = level.order_count;
        let (on, off) = if args.once { ("", "") } else { (colour, "\x1b[0m") };
        let _ = writeln!(text, "{on}{price:>16} {qty:>16} {shown:>16} {orders:>7} {bar}{off}");
    };
    asks.iter().rev().for_each(|level| line(level, "\x1b[31m"));
    bids.iter().for_each(|level| line(level, "\x1b[32m"));
    let spread = asks.first().zip(bids.first()).map(|(ask, bid)| ask.price.0 - bid.price.0);
    text.push('\n');
    let _ = match spread {
        Some(spread) => {
            let spread = decimal(i128::from(spread), instrument.price_exponent);
            writeln!(text, "spread {spread}")
        }
        None => writeln!(text, "a side is empty"),
    };
    if book.market != [0, 0] {
        let [buys, sells] = book.market.map(quantity);
        let _ = writeln!(text, "market orders: {buys} to buy, {sells} to sell");
    }
    if instrument.phase().is_some_and(is_call) {
        text.push_str(&indicated(instrument, book.indication));
    }
    if book.stop_count + book.parked_count > 0 {
        let (stops, parked) = (book.stop_count, book.parked_count);
        let _ = writeln!(text, "beside the book: {stops} stops, {parked} for the closing call");
    }
    text
}

fn indicated(instrument: &InstrumentStatus, indication: Option<Uncrossing>) -> String {
    let Some(of) = indication else { return "would uncross: nothing\n".to_owned() };
    let qty = |lots: i128| decimal(lots, instrument.qty_exponent);
    let price = decimal(i128::from(of.price.0), instrument.price_exponent);
    let volume = qty(i128::from(of.qty.0));
    let surplus = qty(i128::from(of.surplus));
    format!("would uncross at {price}, volume {volume}, surplus {surplus}\n")
}

#[cfg(test)]
mod tests {
    use weir_types::{
        AccountId, ClOrdId, ExecInst, ExecType, FirmId, InstrumentId, Nanos, OrdStatus,
        PartitionId, Qty, Reason, Rec, Seq, SessionId,
    };
    use weir_wire::delivery::RowFlags;

    use super::*;

    fn row(rec: u64, side: Side, ord_type: OrdType, price: i64) -> OrderRow {
        let partition_id = PartitionId(1);
        OrderRow {
            rec: Rec(rec),
            seq: Seq(rec),
            order_id: OrderId::new(partition_id, Rec(rec)),
            transact_time: Nanos(1),
            created_time: Nanos(1),
            cl_ord_id: ClOrdId::from_number(rec),
            price: Price(price),
            stop_px: Price(0),
            last_px: Price(0),
            last_qty: Qty(0),
            order_qty: Qty(10),
            leaves_qty: Qty(10),
            cum_qty: Qty(0),
            expire_time: Nanos(0),
            merged_count: 0,
            session_id: SessionId(1),
            firm_id: FirmId(1),
            account_id: AccountId(1),
            instrument_id: InstrumentId(1),
            partition_id,
            reason: Reason::None,
            side,
            ord_type,
            time_in_force: TimeInForce::Day,
            exec_inst: ExecInst::NONE,
            exec_type: ExecType::New,
            ord_status: OrdStatus::New,
            flags: RowFlags::default(),
            display_qty: Qty(0),
        }
    }

    fn instrument(phase: &str) -> InstrumentStatus {
        let page = serde_json::json!({
            "id": 1, "symbol": "A", "price_exponent": 0, "partition": 1, "phase": phase,
            "last_price": "101",
        });
        serde_json::from_value(page).unwrap()
    }

    fn orders() -> BTreeMap<OrderId, OrderRow> {
        let at_the_close = TimeInForce::AtTheClose;
        let rows = [
            row(1, Side::Buy, OrdType::Limit, 102),
            row(2, Side::Sell, OrdType::Limit, 100),
            row(3, Side::Buy, OrdType::Market, 0),
            OrderRow { stop_px: Price(99), ..row(4, Side::Sell, OrdType::Stop, 0) },
            OrderRow { stop_px: Price(99), ..row(5, Side::Sell, OrdType::StopLimit, 98) },
            OrderRow { time_in_force: at_the_close, ..row(6, Side::Sell, OrdType::Limit, 101) },
        ];
        rows.into_iter().map(|row| (row.order_id, row)).collect()
    }

    #[test]
    fn stops_and_parked_orders_are_beside_the_book() {
        let book = Book::of(&orders(), &instrument("opening-call"));
        assert_eq!((book.bids.len(), book.asks.len(), book.market), (1, 1, [10, 0]));
        assert_eq!((book.stop_count, book.parked_count), (2, 1));
        let want = Uncrossing { price: Price(102), qty: Qty(10), surplus: 10 };
        assert_eq!(book.indication, Some(want));
        let closing = Book::of(&orders(), &instrument("closing-call"));
        assert_eq!((closing.asks.len(), closing.parked_count), (2, 0));
        assert_eq!(closing.indication.map(|of| (of.qty, of.surplus)), Some((Qty(20), 0)));
    }

    #[test]
    fn a_level_tells_what_its_icebergs_show_at_most() {
        let slice = |rec, display_qty| OrderRow {
            display_qty: Qty(display_qty),
            ..row(rec, Side::Buy, OrdType::Limit, 102)
        };
        let rows = [slice(1, 0), slice(2, 3), slice(3, 30)];
        let orders = rows.into_iter().map(|row| (row.order_id, row)).collect();
        let book = Book::of(&orders, &instrument("continuous"));
        let level = Level { price: Price(102), qty: 30, shown_qty: 23, order_count: 3 };
        assert_eq!(book.bids, [level]);
    }

    #[test]
    fn a_market_order_of_a_call_trades_within_the_bounds() {
        let mut page = instrument("opening-call");
        page.price_max = Some(Price(101));
        let rows = [row(1, Side::Buy, OrdType::Market, 0), row(2, Side::Sell, OrdType::Limit, 102)];
        let orders = rows.into_iter().map(|row| (row.order_id, row)).collect();
        assert_eq!(Book::of(&orders, &page).indication, None);
        page.price_max = Some(Price(102));
        assert_eq!(Book::of(&orders, &page).indication.map(|of| of.price), Some(Price(102)));
    }

    #[test]
    fn outside_a_call_nothing_is_indicated() {
        for phase in ["continuous", "halted", "closed", "a later version's"] {
            assert_eq!(Book::of(&orders(), &instrument(phase)).indication, None, "{phase}");
        }
    }
}
