//! Tests of statistics by interval: against a slow model, recorded days, and single rules.

mod lobster;
mod model;
mod property;
mod rules;
#[path = "../support/data.rs"]
mod support;

use core::num::NonZeroU64;

use weir_market::interval::{
    Activity, IntervalBuilder, IntervalConfig, IntervalStatistics, OrderAct, Quote, QuoteChange,
    StateChange,
};
use weir_types::{InstrumentId, Nanos, Price, Qty, TradingState};

/// Builds a quote from bid, bid size, offer, offer size; size zero for an empty side.
pub fn quote(bid: i64, bid_sz: u64, ask: i64, ask_sz: u64) -> Quote {
    let of = |px: i64, sz: u64| (Price(if sz == 0 { 0 } else { px }), Qty(sz));
    let ((bid_px, bid_sz), (ask_px, ask_sz)) = (of(bid, bid_sz), of(ask, ask_sz));
    Quote { bid_px, bid_sz, ask_px, ask_sz }
}

/// Builds a change of the best bid and offer of an instrument of channel 0.
pub fn quoted(instrument: u32, ts: u64, quote: Quote) -> QuoteChange {
    QuoteChange {
        instrument_id: InstrumentId(instrument),
        channel: 0,
        is_whole: false,
        state: None,
        sequence: ts,
        ts_event: Nanos(ts),
        quote,
    }
}

/// Builds the addition of an order.
pub fn added(instrument: u32, ts: u64, size: u64) -> Activity {
    Activity {
        instrument_id: InstrumentId(instrument),
        channel: 0,
        order: Some(OrderAct::Add),
        is_trade: false,
        is_break: false,
        sequence: ts,
        ts_event: Nanos(ts),
        added: Qty(size),
        removed: Qty(0),
        traded: Qty(0),
    }
}

/// Builds a change of the trading state.
pub fn called(instrument: u32, ts: u64, state: TradingState) -> StateChange {
    let instrument_id = InstrumentId(instrument);
    StateChange { instrument_id, channel: 0, state, sequence: ts, ts_event: Nanos(ts) }
}

/// Returns the configuration of intervals of this many nanoseconds from zero, closed at once.
pub fn config(interval: u64) -> IntervalConfig {
    let interval = NonZeroU64::new(interval).expect("it is not zero");
    IntervalConfig { lateness: 0, ..IntervalConfig::new(interval) }
}

/// A builder and the intervals it reported.
#[expect(missing_docs, reason = "they say it")]
pub struct CollectedRows {
    pub builder: IntervalBuilder,
    pub rows: Vec<IntervalStatistics>,
}

#[expect(missing_docs, reason = "as the builder has them")]
impl CollectedRows {
    pub fn new(config: &IntervalConfig) -> CollectedRows {
        CollectedRows { builder: IntervalBuilder::new(config), rows: Vec::new() }
    }

    pub fn quote(&mut self, quoted: &QuoteChange) {
        self.builder.quote(quoted, &mut |row| self.rows.push(*row));
    }

    pub fn act(&mut self, activity: &Activity) {
        self.builder.act(activity, &mut |row| self.rows.push(*row));
    }

    pub fn call(&mut self, called: &StateChange) {
        self.builder.call(called, &mut |row| self.rows.push(*row));
    }

    pub fn end(mut self) -> Vec<IntervalStatistics> {
        self.builder.end_all(&mut |row| self.rows.push(*row));
        self.rows
    }
}
