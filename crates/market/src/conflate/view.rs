//! The interface through which conflation, and the writers of its messages, read the books at flush
//! time.

use weir_types::{Cash, InstrumentId, Price, Qty, Side};

use super::entry::{Bbo, Stamp, Status};

/// The statistics of an instrument's day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DayStatistics {
    /// The first price, in 10^-9; `None` before the first trade.
    pub open: Option<Price>,
    /// The highest price.
    pub high: Option<Price>,
    /// The lowest price.
    pub low: Option<Price>,
    /// The last price.
    pub last: Option<Price>,
    /// The traded quantity.
    pub volume: Qty,
    /// The sum of price times quantity; divided by the volume it is the VWAP.
    pub turnover: Cash,
    /// The number of trades.
    pub trade_count: u64,
}

/// The current books. An unknown instrument has an empty book.
///
/// The books may be ahead of the entries on their way to a subscriber, but never behind one.
pub trait BookView {
    /// Returns the best bid and offer.
    fn best(&self, instrument_id: InstrumentId) -> Bbo;

    /// Passes `level` the best `depth` levels of a side, the best first: price, quantity and number
    /// of orders (zero where the feed does not report it).
    fn levels(
        &self,
        instrument_id: InstrumentId,
        side: Side,
        depth: usize,
        level: &mut dyn FnMut(Price, Qty, u32),
    );

    /// Returns the day's statistics.
    fn statistics(&self, instrument_id: InstrumentId) -> DayStatistics;

    /// Returns the trading state; `None` until the feed reports it.
    fn status(&self, instrument_id: InstrumentId) -> Option<Status>;

    /// Returns the stamp of the last change in the book.
    fn last_change(&self, instrument_id: InstrumentId) -> Stamp;
}
