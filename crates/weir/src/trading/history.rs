//! `weir trades`, `weir positions`: the trades of firms and the positions added up from them.
//!
//! Both read the copies of execution reports that a node retains for drop copy (the newest
//! 1,048,576 of a firm in a partition, unless configured otherwise). Positions are exact while all
//! of a firm's reports are retained; deposits of positions are not part of them. Busted trades are
//! left out.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use weir_client::SessionConfig;
use weir_client::drop_copy::{Beginning, CopiedReport, DropCopy, DropCopyReader};
use weir_types::{AccountId, ExecType, FirmId, InstrumentId, MatchId, PartitionId, Side, decimal};
use weir_wire::event::OrderEvent;

use super::{Instruments, moment};
use crate::endpoint::{Login, TIMEOUT, once_free};
use crate::explain;

/// Options of `weir trades`.
#[derive(Debug, clap::Args)]
pub struct TradesArgs {
    #[command(flatten)]
    of: Of,
    /// Print further trades as they happen, until Ctrl-C.
    #[arg(long)]
    follow: bool,
}

/// Options of `weir positions`.
#[derive(Debug, clap::Args)]
pub struct PositionsArgs {
    #[command(flatten)]
    of: Of,
}

/// The trades wanted. They come from the copies of execution reports that the node retains for drop
/// copy, so the session has to be an operator, a supervisor or a drop copy session.
#[derive(Debug, clap::Args)]
struct Of {
    #[command(flatten)]
    login: Login,
    /// Only this firm's; 0 for all that the session may see copies of.
    #[arg(long, value_name = "ID", default_value_t = 0)]
    firm: u32,
    /// Only this account's.
    #[arg(long, value_name = "ID")]
    account: Option<u32>,
    /// Only this instrument's: symbol or identifier.
    #[arg(long, value_name = "SYMBOL")]
    instrument: Option<String>,
    /// JSON objects, one a line, instead of columns.
    #[arg(long)]
    json: bool,
}

/// One side of a trade.
#[derive(Clone, Copy, Debug)]
struct Fill {
    event: OrderEvent,
    is_busted: bool,
}

/// A trade's side: a match number is a partition's own.
type FillKey = (PartitionId, MatchId, Side);

/// Runs `weir trades`.
///
/// # Errors
/// When the node cannot be reached or refuses the copies.
pub fn run_trades(args: &TradesArgs) -> anyhow::Result<()> {
    let mut source = Source::open(&args.of)?;
    let fills = source.read_retained()?;
    if !args.of.json && (args.follow || !fills.is_empty()) {
        println!("{}", heading());
    }
    for fill in &fills {
        println!("{}", source.line(fill));
    }
    if fills.is_empty() && !args.follow && !args.of.json {
        println!("no trades");
    }
    if args.follow {
        loop {
            for fill in source.poll(Duration::from_millis(500))?.0 {
                println!("{}", source.line(&fill));
            }
        }
    }
    source.close()
}

/// Runs `weir positions`.
///
/// # Errors
/// As [`run_trades`].
pub fn run_positions(args: &PositionsArgs) -> anyhow::Result<()> {
    let mut source = Source::open(&args.of)?;
    let fills = source.read_retained()?;
    let positions = add_up(&fills);
    if !args.of.json {
        let text =
            if positions.is_empty() { "no positions".to_owned() } else { positions_heading() };
        println!("{text}");
    }
    for ((account_id, instrument_id), position) in &positions {
        println!("{}", source.position_line(*account_id, *instrument_id, position));
    }
    source.close()
}

/// Returns a trade in words: instrument, price, time and both sides; `None` if the node retains no
/// report of it. Without a partition it is the first one with a trade of this number.
///
/// # Errors
/// When the node cannot be reached or refuses the copies.
pub fn trade(
    login: &Login,
    partition_id: Option<PartitionId>,
    match_id: MatchId,
) -> anyhow::Result<Option<String>> {
    let of = Of { login: login.clone(), firm: 0, account: None, instrument: None, json: false };
    let mut source = Source::open(&of)?;
    let sides = source.sides_of(partition_id, match_id)?;
    let text = sides[0].or(sides[1]).map(|one| source.sentence(&one, &sides));
    source.close()?;
    Ok(text)
}

/// The reader of copies and its filter.
struct Source<'a> {
    of: &'a Of,
    reader: DropCopyReader,
    instruments: Instruments,
    instrument_id: Option<InstrumentId>,
}

impl Source<'_> {
    fn open(of: &Of) -> anyhow::Result<Source<'_>> {
        let endpoint = &of.login.endpoint;
        let name = of.instrument.as_ref();
        let instrument = name.map(|name| endpoint.instrument(name)).transpose()?;
        let instruments = Instruments::fetch(endpoint)?;
        let (target, key) = (endpoint.target()?, of.login.key()?);
        let session_id = of.login.session_id();
        let reader = once_free(|| {
            let copies = DropCopy::new(session_id, FirmId(of.firm), Beginning::Oldest, &[]);
            DropCopyReader::connect(
                target.clone(),
                SessionConfig::new(session_id, key),
                copies,
                TIMEOUT,
            )
        })
        .map_err(|error| of.login.explain(error))?;
        let instrument_id = instrument.map(|one| one.instrument_id());
        Ok(Source { of, reader, instruments, instrument_id })
    }

    /// All trades retained now, without busted ones, by time.
    fn read_retained(&mut self) -> anyhow::Result<Vec<Fill>> {
        let mut fills: Vec<Fill> = Vec::new();
        let mut places: HashMap<FillKey, usize> = HashMap::new();
        let mut heard = Instant::now();
        while !self.reader.is_current() {
            let (came, busted) = self.poll(Duration::from_millis(500))?;
            if !came.is_empty() || !busted.is_empty() {
                heard = Instant::now();
            }
            for fill in came {
                places.insert(key_of(&fill.event), fills.len());
                fills.push(fill);
            }
            for key in busted {
                if let Some(place) = places.get(&key) {
                    fills[*place].is_busted = true;
                }
            }
            anyhow::ensure!(heard.elapsed() < TIMEOUT, "no copies came within {TIMEOUT:?}");
        }
        fills.retain(|fill| !fill.is_busted);
        fills.sort_by_key(|fill| (fill.event.transact_time, fill.event.match_id));
        Ok(fills)
    }

    /// Returns the reports of a trade's buyer and seller, as far as they are retained.
    fn sides_of(
        &mut self,
        mut partition_id: Option<PartitionId>,
        match_id: MatchId,
    ) -> anyhow::Result<[Option<OrderEvent>; 2]> {
        let mut sides = [None; 2];
        let begun = Instant::now();
        while !self.reader.is_current() && sides.contains(&None) {
            for fill in self.poll(Duration::from_millis(500))?.0 {
                let event = fill.event;
                let is_here = partition_id.is_none_or(|id| id == event.partition_id);
                if is_here && event.match_id == match_id {
                    partition_id = Some(event.partition_id);
                    sides[usize::from(event.side == Side::Sell)] = Some(event);
                }
            }
            anyhow::ensure!(begun.elapsed() < TIMEOUT, "not found within {TIMEOUT:?}");
        }
        Ok(sides)
    }

    /// Returns a trade in words; `one` is one of its sides.
    fn sentence(&self, one: &OrderEvent, [bought, sold]: &[Option<OrderEvent>; 2]) -> String {
        let id = one.instrument_id;
        let symbol = self.instruments.symbol(id);
        let price = self.instruments.price(id, one.last_px);
        let qty = self.instruments.qty(id, one.last_qty);
        let by = |side: &Option<OrderEvent>| match side {
            Some(e) => {
                format!("account {} of firm {} (order {})", e.account_id, e.firm_id, e.order_id)
            }
            None => "an account whose report is not retained".to_owned(),
        };
        let (time, bought, sold) = (moment(one.transact_time), by(bought), by(sold));
        format!("{qty} {symbol} at {price}, {time}, bought by {bought}, sold by {sold}")
    }

    /// The trades, and the busts, that come within a time.
    fn poll(&mut self, timeout: Duration) -> anyhow::Result<(Vec<Fill>, Vec<FillKey>)> {
        let (mut fills, mut busted) = (Vec::new(), Vec::new());
        let (of, instrument_id) = (self.of, self.instrument_id);
        let is_wanted = |account: AccountId, instrument: InstrumentId| {
            of.account.is_none_or(|id| account.0 == id)
                && instrument_id.is_none_or(|id| instrument == id)
        };
        let polled = self.reader.poll(timeout, |_, report| match report {
            CopiedReport::Order(report) => {
                let event = report.event;
                let is_trade = event.exec_type == ExecType::Trade;
                if is_trade && is_wanted(event.account_id, event.instrument_id) {
                    fills.push(Fill { event, is_busted: false });
                }
            }
            CopiedReport::TradeBusted(bust) => {
                busted.push((bust.partition_id, bust.match_id, bust.side));
            }
            CopiedReport::Rejected(_) | CopiedReport::Done(_) => {}
        });
        polled.map_err(explain::of_copies)?;
        Ok((fills, busted))
    }

    fn line(&self, fill: &Fill) -> String {
        let e = &fill.event;
        let symbol = self.instruments.symbol(e.instrument_id);
        let price = self.instruments.price(e.instrument_id, e.last_px);
        let qty = self.instruments.qty(e.instrument_id, e.last_qty);
        if self.of.json {
            return serde_json::json!({
                "transact_time": e.transact_time.0, "symbol": symbol,
                "instrument_id": e.instrument_id.0, "match_id": e.match_id.0,
                "partition_id": e.partition_id.0, "side": format!("{:?}", e.side),
                "last_qty": qty, "last_px": price, "firm_id": e.firm_id.0,
                "account_id": e.account_id.0, "session_id": e.session_id.0,
                "order_id": e.order_id.0, "cl_ord_id": e.cl_ord_id.to_string(),
                "liquidity": format!("{:?}", e.liquidity),
            })
            .to_string();
        }
        let (time, side) = (moment(e.transact_time), format!("{:?}", e.side));
        let (id, account, firm) = (e.match_id, e.account_id, e.firm_id);
        format!(
            "{time:<24} {symbol:<10} {id:>10} {side:<4} {qty:>10} {price:>12} {firm:>8} \
             {account:>8} {}",
            e.cl_ord_id
        )
    }

    fn position_line(&self, account: AccountId, id: InstrumentId, position: &Position) -> String {
        let symbol = self.instruments.symbol(id);
        let lots = |lots: i128| self.instruments.lots(id, lots);
        let average = |side: Turnover| self.average(id, side);
        let (bought, sold) = (lots(position.bought.lots), lots(position.sold.lots));
        let net = lots(position.bought.lots - position.sold.lots);
        let (buy_px, sell_px) = (average(position.bought), average(position.sold));
        if self.of.json {
            return serde_json::json!({
                "account_id": account.0, "firm_id": position.firm_id.0, "symbol": symbol,
                "instrument_id": id.0, "net_qty": net,
                "bought_qty": bought, "bought_avg_px": buy_px,
                "sold_qty": sold, "sold_avg_px": sell_px, "trade_count": position.trade_count,
            })
            .to_string();
        }
        let (buy_px, sell_px) = (buy_px.unwrap_or_default(), sell_px.unwrap_or_default());
        format!(
            "{:>8} {account:>8} {symbol:<10} {net:>12} {bought:>12} {buy_px:>12} {sold:>12} \
             {sell_px:>12} {:>8}",
            position.firm_id, position.trade_count
        )
    }

    /// The average price, rounded to two places more than a price has.
    fn average(&self, id: InstrumentId, side: Turnover) -> Option<String> {
        const PLACES: i8 = 2;
        if side.lots == 0 {
            return None;
        }
        let exponent = self.instruments.price_exponent(id);
        let scaled = side.mantissas * 10i128.pow(PLACES.unsigned_abs().into());
        let rounded = (scaled + scaled.signum() * side.lots / 2) / side.lots;
        Some(decimal(rounded, exponent - PLACES))
    }

    fn close(self) -> anyhow::Result<()> {
        Ok(self.reader.log_out(TIMEOUT)?)
    }
}

fn key_of(event: &OrderEvent) -> FillKey {
    (event.partition_id, event.match_id, event.side)
}

/// Lots and the sum of price mantissas times lots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Turnover {
    lots: i128,
    mantissas: i128,
}

/// An account's trades in an instrument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Position {
    firm_id: FirmId,
    bought: Turnover,
    sold: Turnover,
    trade_count: u64,
}

fn add_up(fills: &[Fill]) -> BTreeMap<(AccountId, InstrumentId), Position> {
    let mut positions: BTreeMap<_, Position> = BTreeMap::new();
    for Fill { event, .. } in fills {
        let position = positions.entry((event.account_id, event.instrument_id)).or_default();
        position.firm_id = event.firm_id;
        position.trade_count += 1;
        let turnover = match event.side {
            Side::Buy => &mut position.bought,
            Side::Sell => &mut position.sold,
        };
        turnover.lots += i128::from(event.last_qty.0);
        turnover.mantissas += i128::from(event.last_px.0) * i128::from(event.last_qty.0);
    }
    positions
}

fn heading() -> String {
    format!(
        "{:<24} {:<10} {:>10} {:<4} {:>10} {:>12} {:>8} {:>8} cl ord id",
        "time", "symbol", "trade", "side", "qty", "price", "firm", "account"
    )
}

fn positions_heading() -> String {
    format!(
        "{:>8} {:>8} {:<10} {:>12} {:>12} {:>12} {:>12} {:>12} {:>8}",
        "firm", "account", "symbol", "net", "bought", "at", "sold", "at", "trades"
    )
}
