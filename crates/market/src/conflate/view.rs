//! What conflation, and whoever writes its messages, reads of the books at the time of a flush.

use weir_types::{Cash, InstrumentId, Price, Qty, Side};

use super::entry::{Bbo, Stamp, Status};

/// The statistics of an instrument's day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DayStatistics {
    /// The first price, in 10^-9; `None` before it.
    pub open: Option<Price>,
    /// The highest.
    pub high: Option<Price>,
    /// The lowest.
    pub low: Option<Price>,
    /// The last.
    pub last: Option<Price>,
    /// What traded.
    pub volume: Qty,
    /// Prices times quantities; the VWAP is this by the volume.
    pub turnover: Cash,
    /// How many trades.
    pub trade_count: u64,
}

/// The books as they are now. An instrument that they do not know is one with an empty book.
///
/// They may be ahead of the entries on their way to a subscriber, and must never be behind one.
pub trait BookView {
    /// The best bid and offer.
    fn best(&self, instrument_id: InstrumentId) -> Bbo;

    /// The best `depth` levels of a side from the best on, as price, quantity and number of orders
    /// (zero where the feed does not say).
    fn levels(
        &self,
        instrument_id: InstrumentId,
        side: Side,
        depth: usize,
        level: &mut dyn FnMut(Price, Qty, u32),
    );

    /// The day's statistics.
    fn statistics(&self, instrument_id: InstrumentId) -> DayStatistics;

    /// The trading state; `None` before the feed said.
    fn status(&self, instrument_id: InstrumentId) -> Option<Status>;

    /// The last change that is in the book.
    fn last_change(&self, instrument_id: InstrumentId) -> Stamp;
}
