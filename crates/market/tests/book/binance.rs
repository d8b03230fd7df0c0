//! Binance's captures as oracle: a snapshot and the differences after it, applied level by level,
//! yield the best bid and offer that the bookTicker stream reports for the same number.
//!
//! A difference names the first and the last number of the changes it sums up; the book after it is
//! current as of the last. The valid ticker is the one with the greatest number up to that.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;
use serde_json::Value;
use weir_feed::{Action, TradingState, Update};
use weir_market::book::BestBidOffer;
use weir_market::{Books, BooksConfig};
use weir_types::{InstrumentId, Nanos, PhaseCause, Price, Qty, Side};

use crate::support::data;

const PAIR: InstrumentId = InstrumentId(1);

/// Parses a decimal number into units of the given number of digits after the point.
fn decimal(text: &str, digits: usize) -> i64 {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    assert!(part.len() <= digits || part[digits..].bytes().all(|byte| byte == b'0'), "{text}");
    let part = &part[..part.len().min(digits)];
    format!("{whole}{part:0<digits$}").parse().expect("a number")
}

fn price(value: &Value) -> Price {
    Price(decimal(value.as_str().expect("a price is text"), 9))
}

fn qty(value: &Value) -> Qty {
    Qty(decimal(value.as_str().expect("a quantity is text"), 8).unsigned_abs())
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

struct Difference {
    first: u64,
    last: u64,
    message: Value,
}

#[derive(Default)]
struct Capture {
    tickers: BTreeMap<u64, Value>,
    differences: Vec<Difference>,
    trades: Vec<Value>,
    snapshot: Value,
}

fn read(path: &std::path::Path) -> Capture {
    let file = std::fs::File::open(path).expect("the capture opens");
    let mut capture = Capture::default();
    for line in BufReader::new(GzDecoder::new(file)).lines() {
        let line = line.expect("the capture reads");
        let (_, text) = line.split_once(' ').expect("a time and a message");
        let message: Value = serde_json::from_str(text).expect("JSON");
        if message.get("lastUpdateId").is_some() {
            capture.snapshot = message;
            continue;
        }
        let stream = message["stream"].as_str().expect("a stream").to_owned();
        let data = message["data"].clone();
        match stream.split('@').nth(1) {
            Some("bookTicker") => _ = capture.tickers.insert(number(&data["u"]), data),
            Some("depth") => {
                let (first, last) = (number(&data["U"]), number(&data["u"]));
                capture.differences.push(Difference { first, last, message: data });
            }
            Some("trade") => capture.trades.push(data),
            other => panic!("a stream of {other:?}"),
        }
    }
    capture
}

/// Returns the levels of a message as one group.
fn levels(sequence: u64, bids: &Value, asks: &Value) -> Vec<Update> {
    let mut updates = Vec::new();
    for (side, levels) in [(Side::Buy, bids), (Side::Sell, asks)] {
        for level in levels.as_array().expect("levels") {
            let (price, size) = (price(&level[0]), qty(&level[1]));
            let action = Action::Level { side, price, size, order_count: 0, is_last: false };
            updates.push(Update { instrument_id: PAIR, sequence, ts_event: Nanos(0), action });
        }
    }
    if let Some(Action::Level { is_last, .. }) = updates.last_mut().map(|update| &mut update.action)
    {
        *is_last = true;
    }
    updates
}

fn ticker(value: &Value) -> BestBidOffer {
    BestBidOffer {
        bid_px: price(&value["b"]),
        bid_sz: qty(&value["B"]),
        ask_px: price(&value["a"]),
        ask_sz: qty(&value["A"]),
        ..BestBidOffer::default()
    }
}

/// Compares the best bid and offer after each difference; returns the number of comparisons.
fn compare(capture: &Capture) -> u64 {
    let mut books = Books::new(&BooksConfig::default());
    let state = TradingState::Trading;
    let status = Action::Status { state, reason: [b' '; 4], cause: PhaseCause::Unknown };
    _ = books.apply(&Update {
        instrument_id: PAIR,
        sequence: 0,
        ts_event: Nanos(0),
        action: status,
    });
    let start = number(&capture.snapshot["lastUpdateId"]);
    let group = levels(start, &capture.snapshot["bids"], &capture.snapshot["asks"]);
    books.apply_all(&group, |_, _| {});
    let (mut as_of, mut compared, mut told) = (start, 0, 0);
    for difference in &capture.differences {
        if difference.last <= as_of {
            continue;
        }
        // Numbers in the futures stream count all pairs, so its messages name the previous number.
        let before = difference.message.get("pu").map_or(difference.first - 1, number);
        if as_of == start {
            assert!(before <= as_of, "the snapshot is older than the first difference");
        } else {
            assert_eq!(before, as_of, "a difference is missing");
        }
        as_of = difference.last;
        let group = levels(as_of, &difference.message["b"], &difference.message["a"]);
        books.apply_all(&group, |_, change| told += u64::from(change.best.is_some()));
        if let Some((_, value)) = capture.tickers.range(start..=as_of).next_back() {
            compared += 1;
            assert_eq!(books.best(PAIR), ticker(value), "as of {as_of}");
        }
    }
    assert_eq!(books.anomalies().total(), 0);
    assert!(told > 0 && told <= compared + 1, "{told} changes told, {compared} compared");
    compared
}

/// Checks volume and turnover of the trades against plain sums.
fn check_trades(capture: &Capture) {
    let mut books = Books::new(&BooksConfig::default());
    let (mut volume, mut turnover) = (0_u64, 0_i128);
    for trade in &capture.trades {
        let (price, size) = (price(&trade["p"]), qty(&trade["q"]));
        if size.is_zero() {
            continue;
        }
        volume += size.0;
        turnover += i128::from(price.0) * i128::from(size.0);
        let action = Action::Trade {
            venue: weir_feed::Venue(0),
            aggressor: None,
            price,
            size,
            match_id: number(&trade["t"]),
            flags: weir_feed::TradeFlags::default(),
        };
        let update = Update { instrument_id: PAIR, sequence: 0, ts_event: Nanos(0), action };
        _ = books.apply(&update);
    }
    let statistics = books.statistics(PAIR);
    assert_eq!((statistics.volume.0, statistics.turnover.0), (volume, turnover));
    assert!(statistics.trade_count > 5_000);
}

#[test]
fn snapshots_and_differences_give_the_best_prices_that_binance_says() {
    for (name, compared_min) in
        [("binance_spot_btcusdt_20240808", 3_000), ("binance_usdm_ethusdt_20240808", 6_000)]
    {
        let Some(path) = data(&format!("crypto/{name}.gz")) else { return };
        let capture = read(&path);
        let compared = compare(&capture);
        println!("{name}: {compared} comparisons");
        assert!(compared > compared_min, "{name}: {compared}");
        check_trades(&capture);
    }
}
