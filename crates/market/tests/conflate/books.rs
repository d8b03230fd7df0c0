//! A simple feed and the books that follow it.

use std::collections::BTreeMap;

use weir_feed::{Action, Definition, SymbolText, TradeFlags, TradingState, Update, Venue};
use weir_market::conflate::{
    Bbo, Body, BookView, DayStatistics, Entry, Kind, Stamp, Status, Trade,
};
use weir_types::{InstrumentId, Nanos, PhaseCause, Price, Qty, Side};

/// Prices are given in cents.
pub const CENT: i64 = 10_000_000;

/// Returns a quote with a spread of one cent.
pub fn quote(cents: i64, size: u64) -> Bbo {
    Bbo {
        bid_px: Price(cents * CENT),
        bid_sz: Qty(size),
        ask_px: Price((cents + 1) * CENT),
        ask_sz: Qty(size),
    }
}

pub fn status(is_halted: bool) -> Status {
    let state = if is_halted { TradingState::Halted } else { TradingState::Trading };
    Status { state, reason: *b"T1  ", cause: PhaseCause::Unknown }
}

pub fn definition(id: InstrumentId, symbol: &str) -> Definition {
    Definition {
        instrument_id: id,
        symbol: SymbolText::new(symbol.as_bytes()).unwrap(),
        round_lot: Qty(100),
        previous_close: None,
    }
}

#[derive(Clone, Debug, Default)]
pub struct Books {
    pub best: BTreeMap<InstrumentId, Bbo>,
    pub status: BTreeMap<InstrumentId, Status>,
    pub last_change: BTreeMap<InstrumentId, Stamp>,
    pub sequence: u64,
}

impl Books {
    /// Makes the next change of the feed: applies it to the book and returns its entry.
    pub fn next(&mut self, id: InstrumentId, now: Nanos, body: Body) -> Entry {
        self.sequence += 1;
        let stamp = Stamp { sequence: self.sequence, ts_event: now, ts_recv: Nanos(now.0 + 1) };
        match &body {
            Body::Bbo(bbo) => {
                self.best.insert(id, *bbo);
            }
            Body::Status(status) => {
                self.status.insert(id, *status);
            }
            _ => {}
        }
        self.last_change.insert(id, stamp);
        Entry::change(id, stamp, body)
    }

    /// Makes a change of a kind, with a value that depends on `number`.
    pub fn next_of(&mut self, id: InstrumentId, now: Nanos, kind: Kind, number: u64) -> Entry {
        let body = match kind {
            Kind::Bbo => Body::Bbo(quote(1_000 + (number % 16) as i64, number)),
            Kind::Book => Body::Book,
            Kind::Statistics => Body::Statistics,
            Kind::Status => Body::Status(status(number % 2 == 1)),
            Kind::Trades => trade(self.sequence + 1),
            Kind::Orders => Body::Order(Update {
                instrument_id: id,
                sequence: self.sequence + 1,
                ts_event: now,
                action: Action::Delete { order_id: number },
            }),
        };
        self.next(id, now, body)
    }
}

pub fn trade(match_id: u64) -> Body {
    Body::Trade(Trade {
        price: Price(1_000 * CENT),
        size: Qty(1),
        match_id,
        venue: Venue(0),
        aggressor: Some(Side::Buy),
        flags: TradeFlags::default(),
        is_break: false,
    })
}

impl BookView for Books {
    fn best(&self, id: InstrumentId) -> Bbo {
        self.best.get(&id).copied().unwrap_or_default()
    }

    fn levels(
        &self,
        id: InstrumentId,
        side: Side,
        depth: usize,
        level: &mut dyn FnMut(Price, Qty, u32),
    ) {
        let best = self.best(id);
        if depth > 0 && side == Side::Buy {
            level(best.bid_px, best.bid_sz, 1);
        } else if depth > 0 {
            level(best.ask_px, best.ask_sz, 1);
        }
    }

    fn statistics(&self, _: InstrumentId) -> DayStatistics {
        DayStatistics::default()
    }

    fn status(&self, id: InstrumentId) -> Option<Status> {
        self.status.get(&id).copied()
    }

    fn last_change(&self, id: InstrumentId) -> Stamp {
        self.last_change.get(&id).copied().unwrap_or_default()
    }
}
