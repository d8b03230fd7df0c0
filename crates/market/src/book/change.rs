//! Changes: plain values that report the effect of an update.

use weir_feed::update::{TradeFlags, TradingState, Venue};
use weir_types::{InstrumentId, Price, Qty, Side};

use super::anomaly::AnomalySet;

/// The best bid and offer of an instrument. An empty side has zero as size, price, count and venue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BestBidOffer {
    /// The highest bid, in 10^-9.
    pub bid_px: Price,
    /// The total quantity bid at that price.
    pub bid_sz: Qty,
    /// The lowest offer, in 10^-9.
    pub ask_px: Price,
    /// The total quantity offered at that price.
    pub ask_sz: Qty,
    /// Orders at the bid; zero when the feed does not report it.
    pub bid_count: u32,
    /// Orders at the offer; zero when the feed does not report it.
    pub ask_count: u32,
    /// The venue of the bid, for feeds of several venues.
    pub bid_venue: Venue,
    /// The venue of the offer, for feeds of several venues.
    pub ask_venue: Venue,
}

impl BestBidOffer {
    /// Returns the best level of a side; `None` for an empty side.
    #[must_use]
    pub fn of(&self, side: Side) -> Option<BookLevel> {
        let (price, size, order_count) = match side {
            Side::Buy => (self.bid_px, self.bid_sz, self.bid_count),
            Side::Sell => (self.ask_px, self.ask_sz, self.ask_count),
        };
        (!size.is_zero()).then_some(BookLevel { price, size, order_count })
    }

    /// Returns true when both sides exist and the bid is not below the offer.
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

/// A price and the quantity that rests there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BookLevel {
    /// The price, in 10^-9.
    pub price: Price,
    /// The total resting quantity, in the feed's units.
    pub size: Qty,
    /// Orders at the price; zero when the feed does not report it.
    pub order_count: u32,
}

/// A change of the best bid and offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BestChange {
    /// The state before.
    pub old: BestBidOffer,
    /// The state after.
    pub new: BestBidOffer,
}

/// A level that an update touched, in its new state: size zero when it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelChange {
    /// Its side.
    pub side: Side,
    /// The new state of the level.
    pub level: BookLevel,
}

/// A trade, as published to subscribers of trades.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TradePrint {
    /// The price, in 10^-9.
    pub price: Price,
    /// The quantity.
    pub size: Qty,
    /// The feed's number of the trade; zero when it has none.
    pub match_id: u64,
    /// The side that took liquidity, where known.
    pub aggressor: Option<Side>,
    /// The venue of the trade.
    pub venue: Venue,
    /// Flags of the trade: the statistics it does not count for, and its kind.
    pub flags: TradeFlags,
}

/// The effect of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The instrument; zero when the update concerns the whole channel, or an unknown instrument.
    pub instrument_id: InstrumentId,
    /// The anomalies of the update; [`Anomaly`](super::Anomaly) states how each was handled.
    pub anomalies: AnomalySet,
    /// Orders and levels are gone; those of all instruments when `instrument_id` is zero, and then
    /// `best` and `levels` do not repeat it.
    pub is_cleared: bool,
    /// The statistics changed.
    pub has_statistics: bool,
    /// A trade was broken.
    pub has_trade_break: bool,
    /// The new trading state, where the update gives one.
    pub status: Option<TradingState>,
    /// The quantity added by new or grown orders of the instrument.
    pub added: Qty,
    /// The quantity removed from the instrument's resting orders, traded or not, except by a clear.
    /// For a replaced order, `added` and `removed` hold its whole quantities.
    pub removed: Qty,
    level_count: u8,
    levels: [LevelChange; TOUCHED_MAX],
    /// The change of the best bid and offer, if any. Within a group of updates by price only the
    /// last one reports it.
    pub best: Option<BestChange>,
    /// The trade, if any.
    pub trade: Option<TradePrint>,
}

/// The most levels that one update touches. A replace whose new number already rests touches three:
/// the order's level, that of the resting order, and the new one.
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

    /// Returns the touched levels in their new state: none, one, two when an order moved, or three
    /// when it also took another order's number.
    #[must_use]
    pub fn levels(&self) -> &[LevelChange] {
        &self.levels[..usize::from(self.level_count)]
    }

    /// Returns true when nothing changed.
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

    /// Records a touched level; a level recorded before takes its new state.
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
