//! Plain values: bars, corrections of bars, and the trades that bars are made of.

use weir_feed::update::{Action, TradeFlags, Update};
use weir_types::{Cash, InstrumentId, Nanos, Price, Qty};

use crate::book::{Change, TradePrint};

/// A trade, as input to bars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarTrade {
    /// The instrument that traded.
    pub instrument_id: InstrumentId,
    /// The sequence number of the source's message.
    pub sequence: u64,
    /// The time of the trade by the venue's clock, as in [`Update::ts_event`].
    pub ts_event: Nanos,
    /// The trade itself.
    pub print: TradePrint,
}

impl BarTrade {
    /// Returns the trade of an update, from the change that the books reported for it.
    #[must_use]
    pub fn of(update: &Update, change: &Change) -> Option<BarTrade> {
        change.trade.map(|print| BarTrade {
            instrument_id: change.instrument_id,
            sequence: update.sequence,
            ts_event: update.ts_event,
            print,
        })
    }
}

/// An undone trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarBreak {
    /// The instrument that traded.
    pub instrument_id: InstrumentId,
    /// The sequence number of the source's message.
    pub sequence: u64,
    /// The time of the break by the venue's clock.
    pub ts_event: Nanos,
    /// The feed's number of the trade.
    pub match_id: u64,
    /// The price of the trade where the feed gives it, else zero.
    pub price: Price,
    /// The quantity of the trade where the feed gives it, else zero.
    pub size: Qty,
}

impl BarBreak {
    /// Returns the break that an update carries.
    #[must_use]
    pub fn of(update: &Update) -> Option<BarBreak> {
        let Action::TradeBreak { match_id, size, price } = update.action else { return None };
        let &Update { instrument_id, sequence, ts_event, .. } = update;
        Some(BarBreak { instrument_id, sequence, ts_event, match_id, price, size })
    }
}

/// The trades of an instrument over an interval, a number of trades or a volume. Prices in 10^-9,
/// quantities in the feed's units, times as in the trades.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// The number of the bar; an instrument's bars of a session count from 1.
    pub number: u64,
    /// The start of the interval of a bar by time; for other bars the time of the trade that opened
    /// it, even when that trade was undone since.
    pub start: Nanos,
    /// The time of its first trade.
    pub ts_first: Nanos,
    /// The time of its last trade.
    pub ts_last: Nanos,
    /// The sequence number of the message with its first trade.
    pub first_sequence: u64,
    /// The sequence number of the message with its last trade.
    pub last_sequence: u64,
    /// The first price that counts for the last price; `None` without one.
    pub open: Option<Price>,
    /// The highest price.
    pub high: Option<Price>,
    /// The lowest price.
    pub low: Option<Price>,
    /// The last price.
    pub close: Option<Price>,
    /// The traded quantity.
    pub volume: Qty,
    /// The exact sum of price times quantity over the trades that count for the volume.
    pub turnover: Cash,
    /// Trades that count for the volume.
    pub trade_count: u64,
    /// Trades whose time lies before `start` (bars by time).
    pub late_count: u64,
    /// Trades that were taken in and then undone.
    pub broken_count: u64,
    /// False when the session ended before the bar did.
    pub is_complete: bool,
    /// False once an undone trade may still show in the prices or ends.
    pub is_range_certain: bool,
    /// True when the missed messages of a gap may include trades of this bar.
    pub has_gap: bool,
}

impl Bar {
    /// Returns the volume-weighted average price: turnover divided by volume, rounded down to
    /// 10^-9; `None` without volume. `turnover` and `volume` hold the exact ratio.
    #[must_use]
    pub fn vwap(&self) -> Option<Price> {
        let price = self.turnover.0.checked_div_euclid(i128::from(self.volume.0))?;
        i64::try_from(price).ok().map(Price)
    }
}

/// A trade to take out of a bar that was already reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Correction {
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// The bar's number and start; `None` when the trade is not remembered and its bar is therefore
    /// unknown.
    pub bar: Option<(u64, Nanos)>,
    /// The feed's number of the trade.
    pub match_id: u64,
    /// The price of the trade if it is remembered, else the price in the break.
    pub price: Price,
    /// The quantity, from the same source as the price.
    pub size: Qty,
    /// The flags of the trade; empty for a trade that is not remembered.
    pub flags: TradeFlags,
    /// The time of the break.
    pub ts_event: Nanos,
    /// The sequence number of the message that undid the trade.
    pub sequence: u64,
}

/// An event that a builder reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarEvent {
    /// A bar was closed.
    Closed(Bar),
    /// A bar that was already reported needs a correction.
    Corrected(Correction),
}
