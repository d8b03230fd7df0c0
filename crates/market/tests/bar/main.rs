//! Tests of bars: against a slow model, an independently computed day, recorded days, and single
//! rules.

mod day;
mod lobster;
mod model;
mod property;
mod rules;
#[path = "../support/data.rs"]
mod support;

use weir_feed::{TradeFlags, Venue};
use weir_market::bar::{BarBreak, BarTrade};
use weir_market::book::TradePrint;
use weir_types::{InstrumentId, Nanos, Price, Qty};

/// Builds a trade from instrument, time, price and size; its sequence is its match number.
pub fn trade(instrument: u32, ts: u64, price: i64, size: u64, match_id: u64) -> BarTrade {
    BarTrade {
        instrument_id: InstrumentId(instrument),
        sequence: match_id,
        ts_event: Nanos(ts),
        print: TradePrint {
            price: Price(price),
            size: Qty(size),
            match_id,
            aggressor: None,
            venue: Venue(0),
            flags: TradeFlags::default(),
        },
    }
}

/// Builds a trade break, as sent by feeds that give only the trade's number.
pub fn undone(instrument: u32, match_id: u64) -> BarBreak {
    BarBreak {
        instrument_id: InstrumentId(instrument),
        sequence: 1_000 + match_id,
        ts_event: Nanos(0),
        match_id,
        price: Price(0),
        size: Qty(0),
    }
}
