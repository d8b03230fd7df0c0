//! Bitstamp's order-by-order records of a day: the log with its snapshots and trades, and the table
//! of order events made from it.
//!
//! Streaming, one line at a time. Prices become cents and volumes 10^-8 BTC, parsed as decimals
//! without floating point. A line of unknown format is an error.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;
use weir_types::{Nanos, Price, Qty, Side};

use super::error::FlowError;
use super::ledger::ORDER_QTY_MAX;
use super::lines::{Lines, decimal, unsigned};
use super::model::{ANONYMOUS_ID_FIRST, Level};

/// The decimals of a price: cents.
pub const PRICE_DECIMALS: u32 = 2;

/// The decimals of a volume.
pub const QTY_DECIMALS: u32 = 8;

const NANOS_PER_MILLI: u64 = 1_000_000;

/// The kind of an order event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It was entered.
    Created,
    /// Its volume or price changed: a fill, or a market order that walks the book.
    Changed,
    /// It left the book: filled if no volume is left, cancelled otherwise.
    Deleted,
}

/// An order event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderRecord {
    /// The time of receipt, since the Unix epoch.
    pub ts: Nanos,
    /// The kind of event.
    pub action: Action,
    /// The order.
    pub order_id: u64,
    /// Its side.
    pub side: Side,
    /// Its price, in cents.
    pub price: Price,
    /// Its volume after the event, in 10^-8 BTC.
    pub qty: Qty,
}

/// The book as the exchange published it, 20 levels a side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRecord {
    /// The time of receipt, since the Unix epoch.
    pub ts: Nanos,
    /// Bids, best first.
    pub bids: Vec<Level>,
    /// Asks, best first.
    pub asks: Vec<Level>,
}

/// A trade as the exchange published it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TradeRecord {
    /// The time of receipt, since the Unix epoch.
    pub ts: Nanos,
    /// The price, in cents.
    pub price: Price,
    /// The quantity, in 10^-8 BTC.
    pub qty: Qty,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// An order event.
    Order(OrderRecord),
    /// A snapshot.
    Snapshot(SnapshotRecord),
    /// A trade.
    Trade(TradeRecord),
}

/// Reads the log: a time in milliseconds, a kind and a JSON object per line.
pub struct BitstampLog<R> {
    lines: Lines<R>,
}

/// Reads the table of order events, a CSV with a header line.
pub struct BitstampCsv<R> {
    lines: Lines<R>,
}

/// An xz archive's text, streaming.
pub type XzText = BufReader<lzma_rust2::XzReader<BufReader<File>>>;

/// Opens the log in its published form, an xz archive.
///
/// # Errors
/// The file cannot be opened.
pub fn open_log(path: &Path) -> Result<BitstampLog<XzText>, FlowError> {
    let (name, text) = open_xz(path)?;
    Ok(BitstampLog::new(text, &name))
}

/// Opens the table in its published form, an xz archive.
///
/// # Errors
/// The file cannot be opened.
pub fn open_csv(path: &Path) -> Result<BitstampCsv<XzText>, FlowError> {
    let (name, text) = open_xz(path)?;
    Ok(BitstampCsv::new(text, &name))
}

fn open_xz(path: &Path) -> Result<(String, XzText), FlowError> {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let file = File::open(path).map_err(|source| FlowError::Io { file: name.clone(), source })?;
    Ok((name, BufReader::new(lzma_rust2::XzReader::new(BufReader::new(file), true))))
}

#[derive(Deserialize)]
struct OrderJson<'a> {
    #[serde(borrow)]
    price: &'a RawValue,
    #[serde(borrow)]
    amount: &'a RawValue,
    id: u64,
    order_type: u8,
}

#[derive(Deserialize)]
struct TradeJson<'a> {
    #[serde(borrow)]
    price: &'a RawValue,
    #[serde(borrow)]
    amount: &'a RawValue,
}

#[derive(Deserialize)]
struct BookJson<'a> {
    #[serde(borrow)]
    bids: Vec<(&'a RawValue, &'a RawValue)>,
    #[serde(borrow)]
    asks: Vec<(&'a RawValue, &'a RawValue)>,
}

impl<R: BufRead> BitstampLog<R> {
    /// Reads a log; `file` names it in errors.
    pub fn new(input: R, file: &str) -> BitstampLog<R> {
        BitstampLog { lines: Lines::new(input, file) }
    }

    fn record(&self) -> Result<Record, FlowError> {
        let mut fields = self.lines.current().splitn(3, |byte| *byte == b' ');
        let ts = milliseconds(&self.lines, "time", fields.next().unwrap_or_default())?;
        let kind = fields.next().ok_or_else(|| self.lines.bad("kind", "missing"))?;
        let json = fields.next().ok_or_else(|| self.lines.bad("object", "missing"))?;
        match kind {
            b"order_created" => self.order(ts, Action::Created, json),
            b"order_changed" => self.order(ts, Action::Changed, json),
            b"order_deleted" => self.order(ts, Action::Deleted, json),
            b"order_book" => self.snapshot(ts, json),
            b"trade" => {
                let json: TradeJson = self.json(json)?;
                let (price, qty) = (self.price(json.price)?, self.qty(json.amount)?);
                Ok(Record::Trade(TradeRecord { ts, price, qty }))
            }
            _ => Err(self.lines.bad("kind", "unknown")),
        }
    }

    fn order(&self, ts: Nanos, action: Action, json: &[u8]) -> Result<Record, FlowError> {
        let json: OrderJson = self.json(json)?;
        let side = match json.order_type {
            0 => Side::Buy,
            1 => Side::Sell,
            _ => return Err(self.lines.bad("order_type", "neither 0 nor 1")),
        };
        let order_id = checked_id(&self.lines, json.id)?;
        let (price, qty) = (self.price(json.price)?, self.qty(json.amount)?);
        Ok(Record::Order(OrderRecord { ts, action, order_id, side, price, qty }))
    }

    fn snapshot(&self, ts: Nanos, json: &[u8]) -> Result<Record, FlowError> {
        let json: BookJson = self.json(json)?;
        let levels = |pairs: Vec<(&RawValue, &RawValue)>| -> Result<Vec<Level>, FlowError> {
            let level = |(price, qty)| Ok(Level { price: self.price(price)?, qty: self.qty(qty)? });
            pairs.into_iter().map(level).collect()
        };
        let (bids, asks) = (levels(json.bids)?, levels(json.asks)?);
        let falls = bids.windows(2).all(|pair| pair[0].price > pair[1].price);
        let rises = asks.windows(2).all(|pair| pair[0].price < pair[1].price);
        if !falls || !rises {
            return Err(self.lines.bad("bids", "the levels are not in order of price"));
        }
        Ok(Record::Snapshot(SnapshotRecord { ts, bids, asks }))
    }

    fn json<'a, T: Deserialize<'a>>(&self, text: &'a [u8]) -> Result<T, FlowError> {
        serde_json::from_slice(text)
            .map_err(|_| self.lines.bad("object", "not the JSON object of this kind"))
    }

    fn price(&self, raw: &RawValue) -> Result<Price, FlowError> {
        let text = raw.get().trim_matches('"');
        let mantissa = decimal(text.as_bytes(), PRICE_DECIMALS);
        mantissa.map(Price).map_err(|why| self.lines.bad("price", why))
    }

    fn qty(&self, raw: &RawValue) -> Result<Qty, FlowError> {
        let text = raw.get().trim_matches('"');
        let mantissa = decimal(text.as_bytes(), QTY_DECIMALS);
        checked_qty(&self.lines, "amount", mantissa)
    }
}

impl<R: BufRead> Iterator for BitstampLog<R> {
    type Item = Result<Record, FlowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.lines.advance() {
            Ok(true) => Some(self.record()),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

impl<R: BufRead> BitstampCsv<R> {
    /// Reads a table; `file` names it in errors.
    pub fn new(input: R, file: &str) -> BitstampCsv<R> {
        BitstampCsv { lines: Lines::new(input, file) }
    }

    fn record(&self) -> Result<Record, FlowError> {
        let mut fields = self.lines.current().split(|byte| *byte == b',');
        let mut field = |name| fields.next().ok_or_else(|| self.lines.bad(name, "missing"));
        let id = unsigned(field("id")?).map_err(|why| self.lines.bad("id", why))?;
        let order_id = checked_id(&self.lines, id)?;
        let ts = milliseconds(&self.lines, "timestamp", field("timestamp")?)?;
        field("exchange.timestamp")?;
        let price = decimal(field("price")?, PRICE_DECIMALS);
        let price = price.map(Price).map_err(|why| self.lines.bad("price", why))?;
        let qty = checked_qty(&self.lines, "volume", decimal(field("volume")?, 0))?;
        let action = match field("action")? {
            b"created" => Action::Created,
            b"changed" => Action::Changed,
            b"deleted" => Action::Deleted,
            _ => return Err(self.lines.bad("action", "unknown")),
        };
        let side = match field("direction")? {
            b"bid" => Side::Buy,
            b"ask" => Side::Sell,
            _ => return Err(self.lines.bad("direction", "neither bid nor ask")),
        };
        Ok(Record::Order(OrderRecord { ts, action, order_id, side, price, qty }))
    }
}

impl<R: BufRead> Iterator for BitstampCsv<R> {
    type Item = Result<Record, FlowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.lines.line() == 0
            && let Err(error) = self.lines.advance()
        {
            return Some(Err(error));
        }
        match self.lines.advance() {
            Ok(true) => Some(self.record()),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

fn milliseconds<R: BufRead>(
    lines: &Lines<R>,
    name: &'static str,
    text: &[u8],
) -> Result<Nanos, FlowError> {
    let value = unsigned(text).map_err(|why| lines.bad(name, why))?;
    value.checked_mul(NANOS_PER_MILLI).map(Nanos).ok_or_else(|| lines.bad(name, "out of range"))
}

fn checked_id<R: BufRead>(lines: &Lines<R>, id: u64) -> Result<u64, FlowError> {
    if id < ANONYMOUS_ID_FIRST { Ok(id) } else { Err(lines.bad("id", "out of range")) }
}

fn checked_qty<R: BufRead>(
    lines: &Lines<R>,
    name: &'static str,
    value: Result<i64, &'static str>,
) -> Result<Qty, FlowError> {
    let value = value.map_err(|why| lines.bad(name, why))?;
    match u64::try_from(value) {
        Ok(qty) if qty <= ORDER_QTY_MAX => Ok(Qty(qty)),
        _ => Err(lines.bad(name, "out of range")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str) -> Result<Record, FlowError> {
        BitstampLog::new(text.as_bytes(), "test").next().unwrap()
    }

    #[test]
    fn every_kind_of_line_is_read() {
        let order =
            r#"7 order_changed {"price": "236.47", "amount": "1.7", "id": 5, "order_type": 1}"#;
        let order = log(order);
        let Ok(Record::Order(order)) = order else { panic!("{order:?}") };
        assert_eq!((order.price, order.qty), (Price(23_647), Qty(170_000_000)));
        assert_eq!((order.ts, order.side), (Nanos(7_000_000), Side::Sell));
        let trade =
            log(r#"7 trade {"price": 236.56999999999999, "amount": 0.0690000001, "id": 1}"#);
        let Ok(Record::Trade(trade)) = trade else { panic!("{trade:?}") };
        assert_eq!((trade.price, trade.qty), (Price(23_657), Qty(6_900_000)));
        let book = log(r#"7 order_book {"bids": [["2.00", "1.0"]], "asks": [["2.01", "0.5"]]}"#);
        let Ok(Record::Snapshot(book)) = book else { panic!("{book:?}") };
        assert_eq!(book.asks, [Level { price: Price(201), qty: Qty(50_000_000) }]);
        let csv = "id,timestamp,x,price,volume,action,direction\n5,7,7,2.5,9,deleted,bid\n";
        let csv = BitstampCsv::new(csv.as_bytes(), "test").next().unwrap();
        let Ok(Record::Order(order)) = csv else { panic!("{csv:?}") };
        assert_eq!((order.price, order.qty, order.action), (Price(250), Qty(9), Action::Deleted));
    }

    #[test]
    fn what_cannot_be_read_names_file_line_and_field() {
        for (line, want) in [
            ("", "test:1: field time: not a number"),
            ("7", "test:1: field kind: missing"),
            ("7 x {}", "test:1: field kind: unknown"),
            ("7 trade {}", "test:1: field object: not the JSON object of this kind"),
            (r#"7 trade {"price": "x", "amount": 1}"#, "test:1: field price: not a number"),
            (r#"7 trade {"price": 1, "amount": -1}"#, "test:1: field amount: out of range"),
        ] {
            let line = format!("{line}\n");
            assert_eq!(log(&line).unwrap_err().to_string(), want);
        }
    }
}
