//! What an update changed: a plain value for whoever passes it on.

use weir_types::{InstrumentId, Price, Qty, Side};

use super::anomaly::AnomalySet;
use crate::update::{TradeFlags, TradingState, Venue};

/// The best bid and offer of an instrument. A side without one has size zero, and then price, count
/// and venue zero too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BestBidOffer {
    /// The highest bid, in 10^-9.
    pub bid_px: Price,
    /// All that is bid for there.
    pub bid_sz: Qty,
    /// The lowest offer, in 10^-9.
    pub ask_px: Price,
    /// All that is offered there.
    pub ask_sz: Qty,
    /// Orders at the bid; zero when the feed does not say.
    pub bid_count: u32,
    /// Orders at the offer; zero when the feed does not say.
    pub ask_count: u32,
    /// Whose bid it is, for feeds of several venues.
    pub bid_venue: Venue,
    /// Whose offer it is, for feeds of several venues.
    pub ask_venue: Venue,
}

impl BestBidOffer {
    /// The best level of a side; `None` when it has none.
    #[must_use]
    pub fn of(&self, side: Side) -> Option<BookLevel> {
        let (price, size, order_count) = match side {
            Side::Buy => (self.bid_px, self.bid_sz, self.bid_count),
            Side::Sell => (self.ask_px, self.ask_sz, self.ask_count),
        };
        (!size.is_zero()).then_some(BookLevel { price, size, order_count })
    }

    /// True when both sides are there and the bid is not below the offer.
    #[must_use]
    pub fn is_crossed(&self) -> bool {
        !self.bid_sz.is_zero() && !self.ask_sz.is_zero() && self.bid_px >= self.ask_px
    }

    #[inline]
    pub(crate) fn set(&mut self, side: Side, level: Option<BookLevel>) {
        let BookLevel { price, size, order_count } = level.unwrap_or_default();
        match side {
            Side::Buy => (self.bid_px, self.bid_sz, self.bid_count) = (price, size, order_count),
            Side::Sell => (self.ask_px, self.ask_sz, self.ask_count) = (price, size, order_count),
        }
    }
}

/// A price with what rests there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BookLevel {
    /// The price, in 10^-9.
    pub price: Price,
    /// All that rests there, in the feed's units.
    pub size: Qty,
    /// Orders there; zero when the feed does not say.
    pub order_count: u32,
}

/// How the best bid and offer changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BestChange {
    /// What it was.
    pub old: BestBidOffer,
    /// What it is.
    pub new: BestBidOffer,
}

/// A level that an update touched, as it is now: size zero when it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelChange {
    /// Its side.
    pub side: Side,
    /// The level.
    pub level: BookLevel,
}

/// A trade as it is told to those who want trades.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TradePrint {
    /// At, in 10^-9.
    pub price: Price,
    /// So much.
    pub size: Qty,
    /// The feed's number of it; zero when it has none.
    pub match_id: u64,
    /// Which side took liquidity, where it is known.
    pub aggressor: Option<Side>,
    /// Where.
    pub venue: Venue,
    /// What it counts for.
    pub flags: TradeFlags,
}

/// What an update changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Whose; zero when it is about the whole channel, or not known.
    pub instrument_id: InstrumentId,
    /// What cannot be: see there what was done nonetheless.
    pub anomalies: AnomalySet,
    /// Orders and levels are gone; all instruments' when `instrument_id` is zero, and then `best`
    /// and `levels` do not say so once more.
    pub is_cleared: bool,
    /// The statistics changed.
    pub has_statistics: bool,
    /// A trade was undone.
    pub has_trade_break: bool,
    /// How the instrument trades now, where the update says.
    pub status: Option<TradingState>,
    /// By so much orders came to rest or grew; the instrument's, as `removed` is.
    pub added: Qty,
    /// By so much orders that rested are gone or shrank, traded or not; what is cleared does not
    /// count. With a replaced order both say its whole quantities.
    pub removed: Qty,
    level_count: u8,
    levels: [LevelChange; TOUCHED_MAX],
    /// How the best bid and offer changed, where it did. Within a group of updates by price only
    /// the last one says.
    pub best: Option<BestChange>,
    /// A trade.
    pub trade: Option<TradePrint>,
}

/// Where an order is replaced by one whose number rests already: its level, that one's, the new
/// one.
const TOUCHED_MAX: usize = 3;

const NO_LEVEL: LevelChange = LevelChange {
    side: Side::Buy,
    level: BookLevel { price: Price(0), size: Qty(0), order_count: 0 },
};

impl Change {
    #[inline]
    pub(crate) fn new(instrument_id: InstrumentId) -> Change {
        Change {
            instrument_id,
            anomalies: AnomalySet::EMPTY,
            is_cleared: false,
            has_statistics: false,
            has_trade_break: false,
            status: None,
            added: Qty::ZERO,
            removed: Qty::ZERO,
            level_count: 0,
            levels: [NO_LEVEL; TOUCHED_MAX],
            best: None,
            trade: None,
        }
    }

    /// The levels that were touched, as they are now: none, one, two where an order
    /// moved, or three where it took another's number besides.
    #[must_use]
    pub fn levels(&self) -> &[LevelChange] {
        &self.levels[..usize::from(self.level_count)]
    }

    /// True when nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let is_quiet = !(self.is_cleared || self.has_statistics || self.has_trade_break);
        is_quiet
            && self.anomalies.is_empty()
            && self.status.is_none()
            && self.level_count == 0
            && self.best.is_none()
            && self.trade.is_none()
    }

    /// Notes a level; one that is noted already takes its new state.
    #[inline]
    pub(crate) fn touch(&mut self, touched: LevelChange) {
        let count = usize::from(self.level_count);
        let at = self.levels[..count]
            .iter()
            .position(|known| {
                known.side == touched.side && known.level.price == touched.level.price
            })
            .unwrap_or(count);
        if let Some(place) = self.levels.get_mut(at) {
            *place = touched;
            self.level_count = self.level_count.max(at as u8 + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_is_touched_twice_is_told_once() {
        let mut change = Change::new(InstrumentId(1));
        assert!(change.is_empty());
        let level =
            |price, size| BookLevel { price: Price(price), size: Qty(size), order_count: 1 };
        for (price, size) in [(5, 1), (6, 2), (5, 3)] {
            change.touch(LevelChange { side: Side::Sell, level: level(price, size) });
        }
        let told: Vec<_> = change.levels().iter().map(|touched| touched.level).collect();
        assert_eq!(told, [level(5, 3), level(6, 2)]);
        assert!(!change.is_empty());
    }
}
