//! `weir book SYMBOL --capture FILE --feed NAME`: the book of an instrument at the end of a capture
//! or a day file, by the gateway's own pipeline.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use serde_json::{Value, json};
use weir_feed::{FeedEntry, PRICE_EXPONENT};
use weir_market::Books;
use weir_market::book::{BookKind, BookLevel, Statistics};
use weir_marketgate::capture::CaptureFile;
use weir_marketgate::gateway::file_books::FileBooks;
use weir_types::{InstrumentId, Price, Side, decimal};

use super::feed::feed_parser;
use super::units;

/// Digits behind the point that a price has at least.
const PLACES_MIN: usize = 2;
/// Symbols that are offered in place of one that is not there.
const OFFERED_MAX: usize = 8;

/// A capture in place of a node.
#[derive(Debug, clap::Args)]
pub struct CaptureArgs {
    /// The book that a capture or a day file of a feed ends with, in place of a node's.
    #[arg(long, value_name = "FILE", requires = "feed")]
    capture: Option<PathBuf>,
    /// The feed of the capture's packets.
    #[arg(long, value_name = "NAME", requires = "capture", value_parser = feed_parser())]
    feed: Option<&'static FeedEntry>,
    /// A group and the one that is its line B; may be given several times.
    #[arg(long, value_name = "GROUP:PORT=GROUP:PORT", value_parser = pair, requires = "capture")]
    line_b: Vec<(SocketAddr, SocketAddr)>,
}

impl CaptureArgs {
    /// True when a capture is asked for.
    pub(super) fn is_asked(&self) -> bool {
        self.capture.is_some()
    }
}

fn pair(text: &str) -> Result<(SocketAddr, SocketAddr), String> {
    let (a, b) = text.split_once('=').ok_or("not GROUP:PORT=GROUP:PORT")?;
    let address = |text: &str| units::address(text).map_err(|error| format!("`{text}`: {error}"));
    Ok((address(a)?, address(b)?))
}

/// Runs `weir book` on a capture.
///
/// # Errors
/// When the file cannot be read or is of another feed, or has no such instrument. What comes before
/// damage is shown, and then the error.
pub(super) fn run(
    args: &CaptureArgs,
    symbol: &str,
    depth: usize,
    is_json: bool,
) -> anyhow::Result<()> {
    let path = args.capture.as_ref().context("--capture names the file")?;
    let entry = args.feed.context("--feed names the feed")?;
    let file = CaptureFile::open(path).with_context(|| path.display().to_string())?;
    let mut market =
        FileBooks::open(entry, file, &args.line_b).with_context(|| path.display().to_string())?;
    let error = market.read().map(|problem| anyhow::anyhow!("{}: {problem}", path.display()));
    let Some(id) = market.instrument(symbol) else {
        let unknown = unknown(&market, symbol);
        // The instrument may be in the part that was not read.
        return Err(error
            .map_or_else(|| anyhow::anyhow!("{unknown}"), |error| error.context(unknown.clone())));
    };
    if is_json {
        println!("{}", object(&market, symbol, id, depth));
    } else {
        print!("{}", text(&market, symbol, id, depth));
    }
    error.map_or(Ok(()), Err)
}

fn unknown(market: &FileBooks, symbol: &str) -> String {
    let names: Vec<_> = market.definitions().map(|one| one.symbol.to_string()).collect();
    let counts = market.counts();
    let some = names[..names.len().min(OFFERED_MAX)].join(", ");
    match (names.len(), counts.messages) {
        (_, 0) => {
            format!("no message of the feed, {} datagrams of something else", counts.strangers)
        }
        (0, _) => "the feed names no instrument".to_owned(),
        (count, _) => format!("no instrument `{symbol}` among {count}: {some} …"),
    }
}

/// A price without the zeros that say nothing.
fn price_text(price: Price) -> String {
    let text = decimal(i128::from(price.0), PRICE_EXPONENT);
    let point = text.find('.').map_or(text.len(), |point| point + 1 + PLACES_MIN);
    let end = text.trim_end_matches('0').len().max(point).min(text.len());
    text[..end].to_owned()
}

fn levels(books: &Books, id: InstrumentId, side: Side, depth: usize) -> Vec<BookLevel> {
    let levels: Vec<_> = books.levels(id, side, depth).collect();
    // A feed of quotes has no levels but the best.
    if levels.is_empty() { books.best(id).of(side).into_iter().collect() } else { levels }
}

fn object(market: &FileBooks, symbol: &str, id: InstrumentId, depth: usize) -> Value {
    let books = market.books();
    let side = |side| -> Vec<Value> {
        let level = |level: &BookLevel| {
            json!({
                "price": price_text(level.price),
                "size": level.size.0.to_string(),
                "order_count": level.order_count,
            })
        };
        levels(books, id, side, depth).iter().map(level).collect()
    };
    let counts = market.counts();
    let (day, price) = (books.statistics(id), |price: Option<Price>| price.map(price_text));
    json!({
        "symbol": symbol,
        "instrument_id": id.0,
        "state": books.state(id).map(|state| format!("{state:?}")),
        "is_stale": market.is_stale(id),
        "is_suspect": books.is_suspect(id),
        "bids": side(Side::Buy),
        "asks": side(Side::Sell),
        "open": price(day.open), "high": price(day.high), "low": price(day.low),
        "last": price(day.last), "vwap": price(day.vwap()),
        "volume": day.volume.0.to_string(), "trade_count": day.trade_count,
        "messages": counts.messages, "updates": counts.updates, "lost": counts.lost,
        "repeated": counts.repeated, "restarts": counts.restarts,
        "old_packets": counts.old_packets, "contradictions": counts.contradictions,
        "refused": counts.refused, "strangers": counts.strangers,
        "anomalies": books.anomalies().total(),
    })
}

fn text(market: &FileBooks, symbol: &str, id: InstrumentId, depth: usize) -> String {
    let books = market.books();
    let state = books.state(id).map_or_else(String::new, |state| format!("  {state:?}"));
    let flag = |is_set, name| if is_set { name } else { "" };
    let mut text = format!(
        "{symbol}{state}{}{}\n",
        flag(market.is_stale(id), "  STALE"),
        flag(books.is_suspect(id), "  SUSPECT")
    );
    let (bids, asks) = (levels(books, id, Side::Buy, depth), levels(books, id, Side::Sell, depth));
    let _ = writeln!(
        text,
        "{:>8} {:>12} {:>14}   {:<14} {:<12} orders",
        "orders", "size", "bid", "offer", "size"
    );
    for at in 0..bids.len().max(asks.len()) {
        let bid = bids.get(at).map_or_else(String::new, |level| {
            format!("{:>8} {:>12} {:>14}", level.order_count, level.size.0, price_text(level.price))
        });
        let ask = asks.get(at).map_or_else(String::new, |level| {
            format!("{:<14} {:<12} {}", price_text(level.price), level.size.0, level.order_count)
        });
        let _ = writeln!(text, "{bid:<36}   {ask}");
    }
    if books.kind(id) == BookKind::Quotes {
        let venues = books.quotes(id).count();
        let _ = writeln!(text, "{venues} venues quote it");
    }
    text + &day_text(&books.statistics(id)) + &counts_text(market)
}

fn day_text(day: &Statistics) -> String {
    let price = |price: Option<Price>| price.map_or_else(|| "-".to_owned(), price_text);
    format!(
        "last {}  open {}  high {}  low {}  vwap {}  volume {} in {} trades\n",
        price(day.last),
        price(day.open),
        price(day.high),
        price(day.low),
        price(day.vwap()),
        day.volume.0,
        day.trade_count
    )
}

fn counts_text(market: &FileBooks) -> String {
    let counts = market.counts();
    let mut text = format!(
        "{} messages, {} updates; {} lost, {} not understood, {} datagrams of something else, {} \
         updates that cannot be\n",
        counts.messages,
        counts.updates,
        counts.lost,
        counts.refused,
        counts.strangers,
        market.books().anomalies().total()
    );
    let _ = writeln!(
        text,
        "{} messages repeated, {} restarts, {} packets of before, {} contradictions",
        counts.repeated, counts.restarts, counts.old_packets, counts.contradictions
    );
    if let Some(error) = market.last_error() {
        let _ = writeln!(text, "the last that was not understood: {error}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_shows_two_places_and_those_that_say_something() {
        for (price, want) in [
            (100_000_000_000, "100.00"),
            (12_345_600_000, "12.3456"),
            (1, "0.000000001"),
            (-500_000_000, "-0.50"),
            (0, "0.00"),
        ] {
            assert_eq!(price_text(Price(price)), want);
        }
    }

    #[test]
    fn a_pair_of_lines_is_two_addresses() {
        assert!(pair("233.54.12.111:26477=233.54.12.112:26477").is_ok());
        assert!(pair("233.54.12.111:26477").is_err());
        let error = pair("233.54.12.111:26477=nowhere").expect_err("no address");
        assert!(error.contains("nowhere"), "{error}");
    }
}
