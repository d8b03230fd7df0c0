//! Messages of market data as lines: columns for people, JSON objects for programs.
//!
//! JSON lines are those of the WebSocket (`docs/protocols/web.md`) with the symbol added. Lines are
//! of instruments' data only; the states of channels and ended subscriptions are notes.

use std::collections::HashMap;
use std::fmt::Write as _;

use weir_client::status::cause_name;
use weir_types::{InstrumentId, Price, Qty, Reason, Side, decimal};
use weir_web::market::messages::put_market;
use weir_wire::market::{
    MarketFlags, MarketLevel, MarketStatistics, StatisticsFlags, TradeConditions,
};
use weir_wire::market_dialogue::MarketMessage;

/// The result of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Data of an instrument: a row of the table, several for levels and orders, or a JSON object.
    Data(String),
    /// Text about the subscription or the source, for people.
    Note(String),
    /// No line.
    None,
}

/// Symbols and price exponents of instruments, from the messages that name them.
#[derive(Default)]
pub(super) struct Names(HashMap<InstrumentId, (String, i8)>);

/// The columns of the table.
#[derive(Default)]
struct Row {
    bid_size: String,
    bid: String,
    ask: String,
    ask_size: String,
    price: String,
    qty: String,
    notes: String,
}

/// The heading of the table.
pub(super) fn heading() -> String {
    let [bid_size, bid, ask, ask_size, price, qty, notes] =
        ["bid size", "bid", "ask", "ask size", "price", "qty", "notes"].map(str::to_owned);
    let row = Row { bid_size, bid, ask, ask_size, price, qty, notes };
    row.line("symbol", "message")
}

impl Row {
    fn line(&self, symbol: &str, kind: &str) -> String {
        let Row { bid_size, bid, ask, ask_size, price, qty, notes } = self;
        let line = format!(
            "{symbol:<10} {kind:<10} {bid_size:>10} {bid:>12} {ask:>12} {ask_size:>10} \
             {price:>12} {qty:>10}  {notes}"
        );
        line.trim_end().to_owned() + "\n"
    }
}

impl Names {
    pub(super) fn symbol(&self, id: InstrumentId) -> &str {
        self.0.get(&id).map_or("?", |(symbol, _)| symbol)
    }

    /// True when no instrument was named yet.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn price(&self, id: InstrumentId, price: Price) -> String {
        let exponent = self.0.get(&id).map_or(0, |(_, exponent)| *exponent);
        short(&decimal(i128::from(price.0), exponent))
    }

    /// A side's price and size; both empty where there is no quote.
    fn side(&self, id: InstrumentId, price: Price, size: Qty) -> (String, String) {
        if size.is_zero() {
            return (String::new(), String::new());
        }
        (self.price(id, price), size.to_string())
    }

    /// The line of a message.
    pub(super) fn line(&mut self, message: &MarketMessage<'_>, is_json: bool) -> Line {
        match message {
            MarketMessage::Instrument(one, symbol) => {
                let symbol = String::from_utf8_lossy(symbol).into_owned();
                self.0.insert(one.instrument_id, (symbol, one.price_exponent));
                Line::None
            }
            MarketMessage::Subscribed(_) => Line::None,
            MarketMessage::Channel(one) => {
                Line::Note(format!("channel {} is {:?}", one.channel, one.state))
            }
            MarketMessage::Ended(one) => Line::Note(match one.reason {
                Reason::None => format!("subscription {} has ended", one.handle),
                reason if one.slots_max > 0 => format!(
                    "subscription {} has ended: {reason:?}: {reason}: {} of {}",
                    one.handle, one.slots_needed, one.slots_max
                ),
                reason => format!("subscription {} has ended: {reason:?}: {reason}", one.handle),
            }),
            data if is_json => Line::Data(self.json(data)),
            data => Line::Data(self.rows(data)),
        }
    }

    fn json(&self, message: &MarketMessage<'_>) -> String {
        let mut line = String::new();
        put_market(message, &mut line);
        let is_object = line.pop() == Some('}');
        assert!(is_object, "a message is a JSON object");
        let symbol = serde_json::Value::from(instrument_of(message).map(|id| self.symbol(id)));
        writeln!(line, ",\"symbol\":{symbol}}}").expect("a string takes all that is written to it");
        line
    }

    fn rows(&self, message: &MarketMessage<'_>) -> String {
        let id = instrument_of(message).unwrap_or(InstrumentId::NONE);
        let symbol = self.symbol(id);
        let notes = |flags: MarketFlags, change_count: u32| marks(flags, change_count);
        match message {
            MarketMessage::Quote(q) => {
                let (bid, bid_size) = self.side(id, q.bid_px, q.bid_size);
                let (ask, ask_size) = self.side(id, q.ask_px, q.ask_size);
                let notes = notes(q.flags, q.change_count);
                Row { bid_size, bid, ask, ask_size, notes, ..Row::default() }.line(symbol, "quote")
            }
            MarketMessage::Trade(t) => {
                let mut notes = notes(t.flags, 1);
                for (flag, name) in CONDITIONS {
                    if t.conditions.contains(flag) {
                        notes = join(&notes, name);
                    }
                }
                let (price, qty) = (self.price(id, t.last_px), t.last_qty.to_string());
                Row { price, qty, notes, ..Row::default() }.line(symbol, "trade")
            }
            MarketMessage::Status(s) => {
                let mut state = format!("{:?}", s.state);
                if let Some(cause) = cause_name(s.cause) {
                    state = join(&state, cause);
                }
                let notes = join(&state, &notes(s.flags, s.change_count));
                Row { notes, ..Row::default() }.line(symbol, "status")
            }
            MarketMessage::Statistics(s) => self.statistics(id, s),
            MarketMessage::Levels(head, levels) => {
                let levels: Vec<MarketLevel> = levels.clone().filter_map(Result::ok).collect();
                self.levels(id, &levels, &notes(head.flags, head.change_count))
            }
            MarketMessage::Order(o) => {
                let notes = join(
                    &format!("{:?} {:?} {}", o.action, o.side, o.order_id),
                    &notes(o.flags, 1),
                );
                let (price, qty) = self.side(id, o.price, o.size);
                Row { price, qty, notes, ..Row::default() }.line(symbol, "order")
            }
            MarketMessage::Orders(head, orders) => {
                let mut text =
                    Row { notes: notes(head.flags, 1), ..Row::default() }.line(symbol, "orders");
                for order in orders.clone().filter_map(Result::ok) {
                    let (price, qty) = self.side(id, order.price, order.size);
                    let notes = format!("{:?} {}", order.side, order.order_id);
                    text += &Row { price, qty, notes, ..Row::default() }.line(symbol, "  order");
                }
                text
            }
            MarketMessage::Gap(gap) => {
                let notes = format!("{} messages are lost", gap.lost_count);
                Row { notes, ..Row::default() }.line(symbol, "gap")
            }
            MarketMessage::Instrument(..)
            | MarketMessage::Subscribed(_)
            | MarketMessage::Channel(_)
            | MarketMessage::Ended(_) => String::new(),
        }
    }

    fn statistics(&self, id: InstrumentId, s: &MarketStatistics) -> String {
        let price = |flag, name: &str, price| match s.flags.contains(flag) {
            true => format!("{name} {}", self.price(id, price)),
            false => String::new(),
        };
        let prices = [
            price(StatisticsFlags::OPEN, "open", s.open_px),
            price(StatisticsFlags::HIGH, "high", s.high_px),
            price(StatisticsFlags::LOW, "low", s.low_px),
        ];
        let counts = format!("volume {} in {} trades", s.volume, s.trade_count);
        let notes = prices.iter().chain([&counts]).fold(String::new(), |all, one| join(&all, one));
        let last = if s.flags.contains(StatisticsFlags::LAST) {
            self.price(id, s.last_px)
        } else {
            String::new()
        };
        Row { price: last, notes, ..Row::default() }.line(self.symbol(id), "statistics")
    }

    fn levels(&self, id: InstrumentId, levels: &[MarketLevel], notes: &str) -> String {
        let side = |side| levels.iter().filter(move |level| level.side == side);
        let (mut bids, mut asks) = (side(Side::Buy), side(Side::Sell));
        let symbol = self.symbol(id);
        let mut text = String::new();
        let mut kind = "levels";
        loop {
            let (bid, ask) = (bids.next(), asks.next());
            if bid.is_none() && ask.is_none() && !text.is_empty() {
                return text;
            }
            let shown = |level: Option<&MarketLevel>| {
                level.map(|level| self.side(id, level.price, level.size)).unwrap_or_default()
            };
            let ((bid, bid_size), (ask, ask_size)) = (shown(bid), shown(ask));
            let notes = if text.is_empty() { notes.to_owned() } else { String::new() };
            let row = Row { bid_size, bid, ask, ask_size, notes, ..Row::default() };
            text += &row.line(symbol, kind);
            kind = "";
        }
    }
}

const CONDITIONS: [(TradeConditions, &str); 7] = [
    (TradeConditions::NOT_LAST, "notLast"),
    (TradeConditions::NOT_HIGH_LOW, "notHighLow"),
    (TradeConditions::NOT_VOLUME, "notVolume"),
    (TradeConditions::AUCTION, "auction"),
    (TradeConditions::EXTENDED_HOURS, "extendedHours"),
    (TradeConditions::ODD_LOT, "oddLot"),
    (TradeConditions::BROKEN, "broken"),
];

fn marks(flags: MarketFlags, change_count: u32) -> String {
    let mut notes = String::new();
    if flags.contains(MarketFlags::SNAPSHOT) {
        notes = join(&notes, "snapshot");
    }
    if flags.contains(MarketFlags::STALE) {
        notes = join(&notes, "STALE");
    }
    if change_count > 1 {
        notes = join(&notes, &format!("{change_count} changes"));
    }
    notes
}

fn join(one: &str, other: &str) -> String {
    match (one, other) {
        ("", other) => other.to_owned(),
        (one, "") => one.to_owned(),
        (one, other) => format!("{one}, {other}"),
    }
}

/// The instrument that a message is about.
pub(super) fn instrument_of(message: &MarketMessage<'_>) -> Option<InstrumentId> {
    Some(match message {
        MarketMessage::Instrument(one, _) => one.instrument_id,
        MarketMessage::Quote(one) => one.instrument_id,
        MarketMessage::Levels(one, _) => one.instrument_id,
        MarketMessage::Statistics(one) => one.instrument_id,
        MarketMessage::Status(one) => one.instrument_id,
        MarketMessage::Trade(one) => one.instrument_id,
        MarketMessage::Order(one) => one.instrument_id,
        MarketMessage::Orders(one, _) => one.instrument_id,
        MarketMessage::Gap(one) => one.instrument_id,
        MarketMessage::Subscribed(_) | MarketMessage::Channel(_) | MarketMessage::Ended(_) => {
            return None;
        }
    })
}

/// A decimal without zeros at the end, but with two places.
fn short(decimal: &str) -> String {
    let Some((whole, fraction)) = decimal.split_once('.') else { return decimal.to_owned() };
    let kept = fraction.trim_end_matches('0').len().max(2).min(fraction.len());
    format!("{whole}.{}", &fraction[..kept])
}

#[cfg(test)]
mod tests {
    use weir_types::{Nanos, PhaseCause, SessionId, TradingState};
    use weir_wire::market::{MarketInstrument, MarketQuote, MarketStatus, StatusReason};

    use super::*;

    fn quote(bid_size: u64, ask_size: u64) -> MarketQuote {
        MarketQuote {
            first_sequence: 1,
            last_sequence: 2,
            event_time: Nanos(1),
            receive_time: Nanos(2),
            sending_time: Nanos(3),
            bid_px: Price(10_050_000_000),
            bid_size: Qty(bid_size),
            ask_px: Price(0),
            ask_size: Qty(ask_size),
            session_id: SessionId(1),
            handle: 1,
            instrument_id: InstrumentId(5),
            change_count: 1,
            flags: MarketFlags::SNAPSHOT,
        }
    }

    fn named() -> Names {
        let mut names = Names::default();
        let one = MarketInstrument {
            round_lot: Qty(0),
            previous_close: Price(0),
            session_id: SessionId(1),
            instrument_id: InstrumentId(5),
            price_exponent: -9,
        };
        assert_eq!(names.line(&MarketMessage::Instrument(one, b"AAPL"), false), Line::None);
        names
    }

    #[test]
    fn a_missing_side_is_empty() {
        let Line::Data(line) = named().line(&MarketMessage::Quote(quote(7, 0)), false) else {
            panic!("a quote is data")
        };
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words, ["AAPL", "quote", "7", "10.05", "snapshot"]);
    }

    #[test]
    fn a_line_of_json_has_the_symbol_and_decimals() {
        let Line::Data(line) = named().line(&MarketMessage::Quote(quote(7, 0)), true) else {
            panic!("a quote is data")
        };
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&object["symbol"], &object["bid_px"]), (&"AAPL".into(), &"10.05".into()));
        assert_eq!(object["type"], "MarketQuote");
    }

    #[test]
    fn a_status_has_its_cause_where_the_source_tells_one() {
        for (cause, want) in [
            (PhaseCause::Unknown, &["AAPL", "status", "Halted", "snapshot"][..]),
            (PhaseCause::Operator, &["AAPL", "status", "Halted", "operator", "snapshot"]),
        ] {
            let status = MarketStatus {
                first_sequence: 1,
                last_sequence: 1,
                event_time: Nanos(1),
                receive_time: Nanos(2),
                sending_time: Nanos(3),
                session_id: SessionId(1),
                handle: 1,
                instrument_id: InstrumentId(5),
                change_count: 1,
                status_reason: StatusReason(*b"HALO"),
                state: TradingState::Halted,
                flags: MarketFlags::SNAPSHOT,
                cause,
            };
            let Line::Data(line) = named().line(&MarketMessage::Status(status), false) else {
                panic!("a status is data")
            };
            let words: Vec<_> =
                line.split_whitespace().map(|word| word.trim_end_matches(',')).collect();
            assert_eq!(words, want, "{line}");
        }
    }

    #[test]
    fn prices_are_as_short_as_they_can_be() {
        for (decimal, want) in [
            ("1.230000000", "1.23"),
            ("1.200000000", "1.20"),
            ("1.000100000", "1.0001"),
            ("7", "7"),
        ] {
            assert_eq!(short(decimal), want);
        }
    }
}
