//! Statistics of an instrument's trades since its day began.
//!
//! | trade | last, open | high, low | volume, turnover, count |
//! | --- | --- | --- | --- |
//! | without flags | yes | yes | yes |
//! | `NOT_LAST` | no | yes | yes |
//! | `NOT_HIGH_LOW` | yes | no | yes |
//! | `NOT_VOLUME` | yes | yes | no |
//!
//! A break undoes exactly the effect of its trade while [`TradeLog`](super::trades) remembers the
//! trade. High, low and open are restored only when all of the instrument's trades are remembered;
//! else they stay, and `is_range_certain` turns false until the day's end.

use weir_feed::update::{PriceKind, TradeFlags, TradingState};
use weir_types::{Cash, Nanos, Price, Qty};

/// Statistics of an instrument's day so far. Prices in 10^-9, quantities in the feed's units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// The first trade's price.
    pub open: Option<Price>,
    /// The highest price.
    pub high: Option<Price>,
    /// The lowest price.
    pub low: Option<Price>,
    /// The last trade's price.
    pub last: Option<Price>,
    /// The last trade's quantity; zero before the first.
    pub last_size: Qty,
    /// The time of the last trade by the venue's clock; zero before the first.
    pub last_ts: Nanos,
    /// The traded quantity.
    pub volume: Qty,
    /// The exact sum of price times quantity over the trades that count for the volume.
    pub turnover: Cash,
    /// Trades that count for the volume.
    pub trade_count: u64,
    /// Trades that were undone.
    pub break_count: u64,
    /// False once an undone trade may still show in `open`, `high` or `low`.
    pub is_range_certain: bool,
    /// The official opening price, where the feed sends it.
    pub official_open: Option<Price>,
    /// The official closing price, where the feed sends it.
    pub official_close: Option<Price>,
    /// The day's highest price, where the feed sends it.
    pub official_high: Option<Price>,
    /// The day's lowest price, where the feed sends it.
    pub official_low: Option<Price>,
    /// The trading state; `None` until the feed reports it.
    pub state: Option<TradingState>,
}

impl Default for Statistics {
    fn default() -> Statistics {
        Statistics {
            open: None,
            high: None,
            low: None,
            last: None,
            last_size: Qty::ZERO,
            last_ts: Nanos(0),
            volume: Qty::ZERO,
            turnover: Cash(0),
            trade_count: 0,
            break_count: 0,
            is_range_certain: true,
            official_open: None,
            official_close: None,
            official_high: None,
            official_low: None,
            state: None,
        }
    }
}

/// A trade, as input to the statistics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedTrade {
    pub(crate) price: Price,
    pub(crate) size: Qty,
    pub(crate) ts: Nanos,
    pub(crate) flags: TradeFlags,
}

impl CountedTrade {
    fn cash(&self) -> i128 {
        // A product of 63 and 64 bits fits.
        i128::from(self.price.0) * i128::from(self.size.0)
    }

    pub(crate) fn counts_for_volume(&self) -> bool {
        !self.flags.contains(TradeFlags::NOT_VOLUME)
    }

    pub(crate) fn counts_for_last(&self) -> bool {
        !self.flags.contains(TradeFlags::NOT_LAST)
    }

    pub(crate) fn counts_for_range(&self) -> bool {
        !self.flags.contains(TradeFlags::NOT_HIGH_LOW)
    }
}

impl Statistics {
    /// Returns the volume-weighted average price: turnover divided by volume, rounded down to
    /// 10^-9; `None` before the first trade. `turnover` and `volume` hold the exact ratio.
    #[must_use]
    pub fn vwap(&self) -> Option<Price> {
        let price = self.turnover.0.checked_div_euclid(i128::from(self.volume.0))?;
        i64::try_from(price).ok().map(Price)
    }

    /// Takes a trade in. Returns false, and changes nothing, when a sum would overflow.
    #[must_use]
    pub(crate) fn trade(&mut self, trade: &CountedTrade) -> bool {
        if trade.counts_for_volume() {
            let volume = self.volume.0.checked_add(trade.size.0);
            let turnover = self.turnover.0.checked_add(trade.cash());
            let (Some(volume), Some(turnover)) = (volume, turnover) else { return false };
            (self.volume, self.turnover) = (Qty(volume), Cash(turnover));
            self.trade_count += 1;
        }
        self.price(trade);
        true
    }

    /// Applies a trade to the prices.
    pub(crate) fn price(&mut self, trade: &CountedTrade) {
        let price = trade.price;
        if trade.counts_for_last() {
            self.open.get_or_insert(price);
            (self.last, self.last_size, self.last_ts) = (Some(price), trade.size, trade.ts);
        }
        if trade.counts_for_range() {
            self.high = Some(self.high.map_or(price, |high| high.max(price)));
            self.low = Some(self.low.map_or(price, |low| low.min(price)));
        }
    }

    /// Subtracts a broken trade's quantity from the sums, unless a sum is smaller than that.
    pub(crate) fn untrade(&mut self, trade: &CountedTrade) {
        self.break_count += 1;
        if !trade.counts_for_volume() || trade.size.is_zero() {
            return;
        }
        let volume = self.volume.0.checked_sub(trade.size.0);
        let turnover = self.turnover.0.checked_sub(trade.cash());
        if let (Some(volume), Some(turnover)) = (volume, turnover) {
            (self.volume, self.turnover) = (Qty(volume), Cash(turnover));
            self.trade_count = self.trade_count.saturating_sub(1);
        }
    }

    /// Resets the prices, so that they can be computed again.
    pub(crate) fn forget_prices(&mut self) {
        (self.open, self.high, self.low) = (None, None, None);
        self.forget_last();
    }

    pub(crate) fn forget_last(&mut self) {
        (self.last, self.last_size, self.last_ts) = (None, Qty::ZERO, Nanos(0));
    }

    pub(crate) fn day_price(&mut self, kind: PriceKind, price: Price) {
        let place = match kind {
            PriceKind::Open => &mut self.official_open,
            PriceKind::Close => &mut self.official_close,
            PriceKind::High => &mut self.official_high,
            PriceKind::Low => &mut self.official_low,
        };
        *place = Some(price);
    }

    /// Starts a new day: only the trading state stays.
    pub(crate) fn new_day(&mut self) {
        *self = Statistics { state: self.state, ..Statistics::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trade(price: i64, size: u64, flags: TradeFlags) -> CountedTrade {
        CountedTrade { price: Price(price), size: Qty(size), ts: Nanos(size), flags }
    }

    #[test]
    fn flags_decide_what_a_trade_counts_for() {
        let none = TradeFlags::default();
        for (flags, last, high, volume, count) in [
            (none, 30, 30, 5, 2),
            (TradeFlags::AUCTION, 30, 30, 5, 2),
            (TradeFlags::NOT_LAST, 10, 30, 5, 2),
            (TradeFlags::NOT_HIGH_LOW, 30, 10, 5, 2),
            (TradeFlags::NOT_VOLUME, 30, 30, 2, 1),
        ] {
            let mut statistics = Statistics::default();
            assert!(statistics.trade(&trade(10, 2, none)));
            assert!(statistics.trade(&trade(30, 3, flags)));
            assert_eq!(statistics.last, Some(Price(last)), "{flags:?}");
            assert_eq!(statistics.high, Some(Price(high)), "{flags:?}");
            assert_eq!((statistics.low, statistics.open), (Some(Price(10)), Some(Price(10))));
            assert_eq!(statistics.volume, Qty(volume), "{flags:?}");
            assert_eq!(statistics.trade_count, count, "{flags:?}");
        }
    }

    #[test]
    fn the_average_price_is_rounded_down_and_its_parts_are_exact() {
        for (trades, want) in [
            (&[][..], None),
            (&[(10, 1), (11, 1)], Some(10)),
            (&[(10, 1), (11, 3)], Some(10)),
            (&[(-10, 1), (-11, 1)], Some(-11)),
            (&[(i64::MAX, u64::MAX)], Some(i64::MAX)),
        ] {
            let mut statistics = Statistics::default();
            for (price, size) in trades {
                assert!(statistics.trade(&trade(*price, *size, TradeFlags::default())));
            }
            assert_eq!(statistics.vwap(), want.map(Price), "{trades:?}");
        }
    }

    #[test]
    fn a_trade_that_does_not_fit_changes_nothing() {
        let mut statistics = Statistics::default();
        let huge = trade(i64::MAX, u64::MAX, TradeFlags::default());
        assert!(statistics.trade(&huge));
        let before = statistics;
        assert!(!statistics.trade(&huge));
        assert_eq!(statistics, before);
    }
}
