//! Bars, corrections of bars, and the trades that they are made of: plain values.

use weir_types::{Cash, InstrumentId, Nanos, Price, Qty};

use crate::book::{Change, TradePrint};
use crate::update::{Action, TradeFlags, Update};

/// A trade as bars take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarTrade {
    /// Whose.
    pub instrument_id: InstrumentId,
    /// The number of the source's message.
    pub sequence: u64,
    /// When it happened by the venue's clock, as [`Update::ts_event`] has it.
    pub ts_event: Nanos,
    /// It.
    pub print: TradePrint,
}

impl BarTrade {
    /// The trade that an update brought, by what the books said of it.
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

/// A trade that is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarBreak {
    /// Whose.
    pub instrument_id: InstrumentId,
    /// The number of the source's message.
    pub sequence: u64,
    /// When it was undone by the venue's clock.
    pub ts_event: Nanos,
    /// The feed's number of the trade.
    pub match_id: u64,
    /// At which price it had been, where the feed says, else zero.
    pub price: Price,
    /// What had traded, where the feed says, else zero.
    pub size: Qty,
}

impl BarBreak {
    /// The break that an update brought.
    #[must_use]
    pub fn of(update: &Update) -> Option<BarBreak> {
        let Action::TradeBreak { match_id, size, price } = update.action else { return None };
        let &Update { instrument_id, sequence, ts_event, .. } = update;
        Some(BarBreak { instrument_id, sequence, ts_event, match_id, price, size })
    }
}

/// What traded in an instrument over a time, a number of trades or a volume. Prices in 10^-9,
/// quantities in the feed's units, times as the trades have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// Whose.
    pub instrument_id: InstrumentId,
    /// The instrument's bars of a session count from 1.
    pub number: u64,
    /// Where the interval of a bar by time begins; of other bars the time of the trade that opened
    /// it, even when that was undone since.
    pub start: Nanos,
    /// When its first trade happened.
    pub ts_first: Nanos,
    /// When its last trade happened.
    pub ts_last: Nanos,
    /// The number of the message that brought its first trade.
    pub first_sequence: u64,
    /// The number of the message that brought its last trade.
    pub last_sequence: u64,
    /// The first price that counts for the last price; `None` when none does.
    pub open: Option<Price>,
    /// The highest price.
    pub high: Option<Price>,
    /// The lowest price.
    pub low: Option<Price>,
    /// The last price.
    pub close: Option<Price>,
    /// What traded.
    pub volume: Qty,
    /// The exact sum of price times quantity over what counts for the volume.
    pub turnover: Cash,
    /// Trades that count for the volume.
    pub trade_count: u64,
    /// Trades whose time lies before `start` (bars by time).
    pub late_count: u64,
    /// Trades that were taken in and undone again.
    pub broken_count: u64,
    /// False when the session ended before the bar did.
    pub is_complete: bool,
    /// False once an undone trade may have left prices or ends as it had made them.
    pub is_range_certain: bool,
    /// Messages were missed that may have been trades of this bar.
    pub has_gap: bool,
}

impl Bar {
    /// The average price by volume: turnover divided by volume, rounded down to 10^-9. The exact
    /// ratio is in `turnover` and `volume`. `None` without volume.
    #[must_use]
    pub fn vwap(&self) -> Option<Price> {
        let price = self.turnover.0.checked_div_euclid(i128::from(self.volume.0))?;
        i64::try_from(price).ok().map(Price)
    }
}

/// A trade is to be taken out of a bar that was told already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Correction {
    /// Whose.
    pub instrument_id: InstrumentId,
    /// The bar's number and start; `None` when the trade is not remembered, so that its bar is not
    /// known.
    pub bar: Option<(u64, Nanos)>,
    /// The feed's number of the trade.
    pub match_id: u64,
    /// Its price: of the trade where it is remembered, else as the break says.
    pub price: Price,
    /// Its quantity, from the same.
    pub size: Qty,
    /// What it had counted for; none are known of a trade that is not remembered.
    pub flags: TradeFlags,
    /// When it was undone.
    pub ts_event: Nanos,
    /// The number of the message that undid it.
    pub sequence: u64,
}

/// What a builder tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarEvent {
    /// A bar is closed.
    Closed(Bar),
    /// A bar that was told is to be corrected.
    Corrected(Correction),
}
