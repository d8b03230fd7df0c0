//! Recorded days of LOBSTER: minute by minute, statistics of the books' quotes equal sums over the
//! rows of the orderbook files alone.
//!
//! A line of the files may be several updates here (orders that come into view at the file's depth,
//! an order that trades at once, an execution partly of orders from before the file). The quote is
//! read after the last of them, as in the file, and executions are counted as sent.

use std::collections::BTreeMap;

use weir_client::flow::lobster::{BookRow, Message, MessageKind, open_zip};
use weir_client::flow::{FlowEvent, FlowItem, FlowKind, load};
use weir_feed::{Action, TradeFlags, TradingState, Update, Venue};
use weir_market::interval::{Activity, IntervalStatistics, Quote, QuoteChange, StateChange};
use weir_market::{Books, BooksConfig};
use weir_types::{InstrumentId, Nanos, PhaseCause, Price, Qty};

use crate::support::data;
use crate::{CollectedRows, config};

const STOCK: InstrumentId = InstrumentId(1);
const MINUTE: u64 = 60_000_000_000;
/// LOBSTER's prices are in 10^-4.
const SCALE: i64 = 100_000;

fn action_of(event: &FlowEvent, match_id: u64) -> Action {
    let FlowEvent { source_order_id: order_id, kind, side, qty: size, .. } = *event;
    let price = Price(event.price.0 * SCALE);
    let status = |state| Action::Status { state, reason: [b' '; 4], cause: PhaseCause::Unknown };
    match kind {
        FlowKind::Seed | FlowKind::Add => Action::Add { order_id, side, price, size },
        FlowKind::ExecuteVisible | FlowKind::Fill => {
            Action::Execute { order_id, size, price: None, match_id, is_printable: true }
        }
        FlowKind::PartialCancel | FlowKind::Vanish => Action::Reduce { order_id, size },
        FlowKind::Delete => Action::Delete { order_id },
        FlowKind::HiddenExecution => {
            let (venue, aggressor, flags) = (Venue(0), None, TradeFlags::default());
            Action::Trade { venue, aggressor, price, size, match_id, flags }
        }
        FlowKind::Halt => status(TradingState::Halted),
        FlowKind::QuoteResume => status(TradingState::Quoting),
        FlowKind::TradeResume => status(TradingState::Trading),
    }
}

/// Builds books from the day's events, and statistics from the books' changes.
fn by_books(items: &[FlowItem]) -> Vec<IntervalStatistics> {
    let (mut books, mut told) =
        (Books::new(&BooksConfig::default()), CollectedRows::new(&config(MINUTE)));
    let mut sequence = 0;
    for item in items {
        match item {
            FlowItem::Event(event) => {
                sequence += 1;
                let action = action_of(event, sequence);
                let update = Update { instrument_id: STOCK, sequence, ts_event: event.ts, action };
                let change = books.apply(&update);
                Activity::of(0, &update, &change).iter().for_each(|it| told.act(it));
                StateChange::of(0, &update, &change).iter().for_each(|it| told.call(it));
            }
            FlowItem::Row(row) => told.quote(&QuoteChange {
                instrument_id: STOCK,
                channel: 0,
                is_whole: false,
                state: None,
                sequence,
                ts_event: row.ts,
                quote: Quote::from(&books.best(STOCK)),
            }),
        }
    }
    told.end()
}

/// The best bid and offer of a row: price in 10^-9, and quantity.
type Top = [Option<(i64, u64)>; 2];

fn top_of(row: &BookRow) -> Top {
    [&row.bids, &row.asks]
        .map(|side| side.first().map(|level| (level.price.0 * SCALE, level.qty.0)))
}

/// A minute computed from the rows, with the names of [`IntervalStatistics`].
#[derive(Debug, Default, PartialEq)]
struct Minute {
    first: Option<Top>,
    last: Option<Top>,
    quote_changes: u64,
    price_changes: u64,
    two_sided: u64,
    locked: u64,
    one_sided: u64,
    spreads: Option<(i64, i64)>,
    spread_time: u128,
    relative_time: u128,
    sum_time: i128,
    size_times: [u128; 2],
    mid_changes: u64,
    moves_squared: u128,
    halted: u64,
    executions: u64,
    executed: u64,
    deletions: u64,
    trades: u64,
    volume: u64,
}

#[derive(Default)]
struct Day {
    minutes: BTreeMap<u64, Minute>,
    sum: Option<i64>,
    is_halted: bool,
}

impl Day {
    fn sees(minute: &mut Minute, top: &Top) {
        if let [Some(bid), Some(ask)] = top {
            let spread = ask.0 - bid.0;
            let (least, most) = minute.spreads.unwrap_or((spread, spread));
            minute.spreads = Some((least.min(spread), most.max(spread)));
        }
    }

    /// Counts a row that stood from one line to the next, across the ends of minutes.
    fn stands(&mut self, top: &Top, mut from: u64, to: u64) {
        loop {
            let minute = self.minutes.entry(from / MINUTE).or_default();
            if from.is_multiple_of(MINUTE) && minute.first.is_none() {
                minute.first = Some(*top);
                Day::sees(minute, top);
            }
            minute.last = Some(*top);
            let until = to.min((from / MINUTE + 1) * MINUTE);
            let elapsed = until - from;
            minute.halted += if self.is_halted { elapsed } else { 0 };
            if let [Some(bid), Some(ask)] = top {
                let (spread, sum) = (ask.0 - bid.0, bid.0 + ask.0);
                minute.two_sided += elapsed;
                minute.locked += if spread == 0 { elapsed } else { 0 };
                minute.spread_time += spread as u128 * u128::from(elapsed);
                let billionths = spread as u128 * 2_000_000_000 / sum as u128;
                minute.relative_time += billionths * u128::from(elapsed);
                minute.sum_time += i128::from(sum) * i128::from(elapsed);
                minute.size_times[0] += u128::from(bid.1) * u128::from(elapsed);
                minute.size_times[1] += u128::from(ask.1) * u128::from(elapsed);
            } else {
                minute.one_sided += elapsed;
            }
            if until == to {
                return;
            }
            from = until;
        }
    }

    fn line(&mut self, before: &Top, message: &Message, top: &Top) {
        let minute = self.minutes.entry(message.ts.0 / MINUTE).or_default();
        minute.first.get_or_insert(*top);
        minute.last = Some(*top);
        Day::sees(minute, top);
        minute.quote_changes += u64::from(before != top);
        let prices = |top: &Top| top.map(|side| side.map(|side| side.0));
        minute.price_changes += u64::from(prices(before) != prices(top));
        if let [Some(bid), Some(ask)] = top {
            let sum = bid.0 + ask.0;
            if let Some(old) = self.sum.replace(sum).filter(|old| *old != sum) {
                minute.mid_changes += 1;
                minute.moves_squared += u128::from(sum.abs_diff(old)).pow(2);
            }
        }
        match message.kind {
            MessageKind::ExecuteVisible => minute.executed += message.qty.0,
            MessageKind::Deletion => minute.deletions += 1,
            MessageKind::Halt => self.is_halted = true,
            MessageKind::QuoteResume | MessageKind::TradeResume => self.is_halted = false,
            _ => {}
        }
        if matches!(message.kind, MessageKind::ExecuteVisible | MessageKind::ExecuteHidden) {
            minute.volume += message.qty.0;
        }
    }
}

fn by_rows(day: &[(Message, BookRow)], items: &[FlowItem]) -> BTreeMap<u64, Minute> {
    let mut sums = Day::default();
    for item in items {
        let FlowItem::Event(event) = item else { continue };
        let is_visible = matches!(event.kind, FlowKind::ExecuteVisible | FlowKind::Fill);
        let is_trade = is_visible || event.kind == FlowKind::HiddenExecution;
        let minute = sums.minutes.entry(event.ts.0 / MINUTE).or_default();
        minute.executions += u64::from(is_visible);
        minute.trades += u64::from(is_trade);
    }
    let (mut top, mut since) = (Top::default(), day[0].0.ts.0);
    for (nth, (message, row)) in day.iter().enumerate() {
        if nth > 0 {
            sums.stands(&top, since, message.ts.0);
        }
        let next = top_of(row);
        sums.line(&top, message, &next);
        (top, since) = (next, message.ts.0);
    }
    sums.minutes
}

fn minute_of(row: &IntervalStatistics) -> Minute {
    let side = |side: Option<(Price, Qty)>| side.map(|(price, size)| (price.0, size.0));
    let top = |quote: Quote| [side(quote.bid()), side(quote.ask())];
    let spread = |spread: Option<u64>| spread.map(|spread| spread as i64);
    assert_eq!((row.crossed, row.empty, row.late_count), (0, 0, 0), "{row:?}");
    assert!(row.is_certain && !row.has_gap);
    Minute {
        first: row.first.map(top),
        last: row.last.map(top),
        quote_changes: row.quote_changes,
        price_changes: row.price_changes,
        two_sided: row.two_sided,
        locked: row.locked,
        one_sided: row.one_sided,
        spreads: spread(row.spread_min).zip(spread(row.spread_max)),
        spread_time: row.spread_time,
        relative_time: row.relative_time.expect("prices are above zero"),
        sum_time: row.sum_time,
        size_times: [row.bid_size_time, row.ask_size_time],
        mid_changes: row.mid_changes,
        moves_squared: row.sum_moves_squared.expect("it fits"),
        halted: row.halted,
        executions: row.executions,
        executed: row.executed.0,
        deletions: row.deletions,
        trades: row.trades,
        volume: row.volume.0,
    }
}

#[test]
fn statistics_of_recorded_days_are_what_their_orderbook_files_come_to() {
    for name in ["AAPL_2012-06-21_1", "AMZN_2012-06-21_1", "AMZN_2012-06-21_5"] {
        let Some(path) = data(&format!("lobster/LOBSTER_SampleFile_{name}.zip")) else { return };
        let day: Vec<_> = open_zip(&path)
            .expect("a vendor's file opens")
            .collect::<Result<_, _>>()
            .expect("a vendor's file reads");
        let items = load(&path).expect("a vendor's file reads").items;
        let (want, rows) = (by_rows(&day, &items), by_books(&items));
        assert!(rows.len() >= 390, "{name}: {} minutes of a day", rows.len());
        let starts: Vec<Nanos> = rows.iter().map(|row| row.start).collect();
        let wanted: Vec<Nanos> = want.keys().map(|minute| Nanos(minute * MINUTE)).collect();
        assert_eq!(starts, wanted, "{name}: one row for each minute");
        for (row, (minute, want)) in rows.iter().zip(&want) {
            assert_eq!(minute_of(row), *want, "{name} {minute}");
        }
        let changes: u64 = rows.iter().map(|row| row.quote_changes).sum();
        println!("{name}: {} minutes, {changes} changes of the best bid and offer", rows.len());
        assert!(changes > 10_000);
    }
}
