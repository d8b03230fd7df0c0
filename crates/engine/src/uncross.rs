//! Uncrossing: the one price at which a call's book trades the most, and the trades at it.
//!
//! [`uncrossing_price`] is the search alone, a pure function of the levels, so that a view can
//! publish the price that a call would give now.

use weir_types::{Liquidity, OrdType, Price, Qty, RequestNo, Side};
use weir_wire::event::Uncrossed;
use weir_wire::{Event, PlainEvent};

use crate::call_markets::CallMarkets;
use crate::collar::Collar;
use crate::config::EventSink;
use crate::emit::Change;
use crate::engine::Engine;
use crate::entry::holding_of;
use crate::index::{NIL, Slot};
use crate::instrument::reaches;
use crate::matching::status_after_trade;
use crate::plant::{self, Plant};

/// The quantities of a call at one price: the lots of all orders there, including hidden parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLevel {
    /// The limit; for market orders the instrument's bound, or the price up to which their
    /// reservations pay. In the instrument's price unit, like all prices here.
    pub price: Price,
    /// Lots to buy at this price or a lower one.
    pub buy_qty: Qty,
    /// Lots to sell at this price or a higher one.
    pub sell_qty: Qty,
    /// True for a price that can be chosen: of limit orders, and of lots of market orders that are
    /// cut to their reservation. Other market orders suggest no price.
    pub is_limit: bool,
}

/// The result of an uncrossing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uncrossing {
    /// The price of all its trades, in the instrument's price unit.
    pub price: Price,
    /// The lots traded, not zero.
    pub qty: Qty,
    /// Lots demanded minus lots supplied at the price, saturated to 64 bits.
    pub surplus: i64,
}

/// Returns the price by the rules of `docs/matching.md`, Uncrossing: the most volume at a limit,
/// the least surplus, the side of that surplus, `reference`. `levels` must be in ascending order of
/// price (equal prices in any order); otherwise the price is meaningless, but there is no panic.
/// `None` when nothing would trade.
#[must_use]
pub fn uncrossing_price(
    levels: &[CallLevel],
    reference: Option<Price>,
    tick_size: Price,
) -> Option<Uncrossing> {
    let reference = reference.map(|price| nearest_on_tick(price, tick_size));
    let price = if levels.iter().any(|level| level.is_limit) {
        best_limits(levels)?.price(reference)
    } else {
        reference?
    };
    let sums = Sums::at(levels, price);
    let volume = sums.volume();
    if volume == 0 {
        return None;
    }
    let surplus = sums.surplus().clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
    let qty = Qty(u64::try_from(volume).unwrap_or(u64::MAX));
    Some(Uncrossing { price, qty, surplus })
}

/// Returns the nearest price on the tick, the higher of two: a redefinition may have left a
/// reference off the tick, where no order can have its limit.
fn nearest_on_tick(price: Price, tick_size: Price) -> Price {
    let above = price.0.rem_euclid(tick_size.0);
    let below = tick_size.0 - above;
    let nearest =
        if above < below { price.0.checked_sub(above) } else { price.0.checked_add(below) };
    nearest.map_or(price, Price)
}

/// The demand and supply at a price.
#[derive(Clone, Copy)]
struct Sums {
    demand: u128,
    supply: u128,
}

impl Sums {
    fn at(levels: &[CallLevel], price: Price) -> Sums {
        let reach = |side| levels.iter().filter(move |level| reaches(side, level.price, price));
        Sums {
            demand: reach(Side::Buy).map(|level| u128::from(level.buy_qty.0)).sum(),
            supply: reach(Side::Sell).map(|level| u128::from(level.sell_qty.0)).sum(),
        }
    }

    fn volume(self) -> u128 {
        self.demand.min(self.supply)
    }

    fn surplus(self) -> i128 {
        // Sums of orders' quantities are far below 2^127.
        self.demand.cast_signed() - self.supply.cast_signed()
    }
}

/// The limits with the most volume and, among these, the least surplus. A higher price has less
/// demand and more supply, so prices with a surplus of buys are below those with one of sells.
struct BestLimits {
    volume: u128,
    surplus: u128,
    lowest: Price,
    highest: Price,
    highest_with_buys_left: Option<Price>,
    lowest_with_sells_left: Option<Price>,
}

/// Finds the best limits in one pass; `None` when none of them would trade.
fn best_limits(levels: &[CallLevel]) -> Option<BestLimits> {
    let mut sums = Sums { demand: 0, supply: 0 };
    sums.demand = levels.iter().map(|level| u128::from(level.buy_qty.0)).sum();
    let mut best: Option<BestLimits> = None;
    for group in levels.chunk_by(|a, b| a.price == b.price) {
        sums.supply += group.iter().map(|level| u128::from(level.sell_qty.0)).sum::<u128>();
        if group.iter().any(|level| level.is_limit) && sums.volume() > 0 {
            best = Some(BestLimits::with(best, group[0].price, sums));
        }
        sums.demand -= group.iter().map(|level| u128::from(level.buy_qty.0)).sum::<u128>();
    }
    best
}

impl BestLimits {
    /// Returns the best of `before` and a limit above them all.
    fn with(before: Option<BestLimits>, price: Price, sums: Sums) -> BestLimits {
        let (volume, surplus) = (sums.volume(), sums.surplus().unsigned_abs());
        let before = match before {
            Some(before) if (before.volume, surplus) > (volume, before.surplus) => return before,
            Some(before) if (before.volume, before.surplus) == (volume, surplus) => before,
            _ => BestLimits {
                volume,
                surplus,
                lowest: price,
                highest: price,
                highest_with_buys_left: None,
                lowest_with_sells_left: None,
            },
        };
        let mut best = BestLimits { highest: price, ..before };
        match sums.surplus().signum() {
            1 => best.highest_with_buys_left = Some(price),
            -1 => best.lowest_with_sells_left = best.lowest_with_sells_left.or(Some(price)),
            _ => {}
        }
        best
    }

    /// Returns the price that the surplus decides for; otherwise the price nearest to the reference
    /// in the range over which the side of the surplus changes.
    fn price(&self, reference: Option<Price>) -> Price {
        let takes_lowest = plant::is(Plant::UncrossingTakesLowest);
        let (low, high) = match (self.highest_with_buys_left, self.lowest_with_sells_left) {
            (Some(_), None) if takes_lowest => return self.lowest,
            (Some(_), None) => return self.highest,
            (None, Some(_)) => return self.lowest,
            (Some(buys_left), Some(sells_left)) => (buys_left, sells_left),
            (None, None) => (self.lowest, self.highest),
        };
        match reference {
            Some(reference) => reference.clamp(low, high),
            None if takes_lowest => low,
            None => high,
        }
    }
}

impl Engine {
    /// Trades the orders of a call and reports the result. Repeats while limits cross: market
    /// orders may have taken the volume and left limits crossed. Returns false, and stops, where a
    /// further price is beyond `collar`; the caller has checked the first one.
    pub(crate) fn uncross<S: EventSink>(
        &mut self,
        instrument: Slot,
        collar: Collar,
        out: &mut S,
    ) -> bool {
        let mut found = self.find_uncrossing(instrument);
        loop {
            self.uncross_at(instrument, found, out);
            if found.is_none() || !self.do_limits_cross(instrument) {
                return true;
            }
            found = self.find_uncrossing(instrument);
            let is_beyond = found.is_some_and(|next| !collar.allows(next.price));
            if is_beyond && !plant::is(Plant::FurtherPricesUnchecked) {
                return false;
            }
        }
    }

    /// Returns true if an uncrossing now would give a price beyond the collar of continuous
    /// trading.
    pub(crate) fn uncrosses_beyond_collar(&mut self, instrument: Slot) -> bool {
        let collar = self.instruments[instrument].collar();
        if collar.is_none() || plant::is(Plant::CallIgnoresCollars) {
            return false;
        }
        let found = self.find_uncrossing(instrument);
        found.is_some_and(|uncrossing| !collar.allows(uncrossing.price))
    }

    /// Finds the price at which the call's book would trade now, by lots that can be paid. Leaves
    /// in `call_markets` the market orders with the lots that trade at it.
    ///
    /// Each round cuts lots that cannot be paid at the price before, which makes the next one
    /// better for their side: nearly always the second round is the last. Their number is bounded.
    fn find_uncrossing(&mut self, instrument: Slot) -> Option<Uncrossing> {
        let mut levels = core::mem::take(&mut self.call_levels);
        let mut markets = core::mem::take(&mut self.call_markets);
        let row = &self.instruments[instrument];
        let (reference, tick_size) = (row.reference(), row.definition.tick_size);
        self.collect_markets(instrument, &mut markets);
        let found = loop {
            self.collect_call(instrument, &markets, &mut levels);
            let found = uncrossing_price(&levels, reference, tick_size);
            let price = found.map(|uncrossing| uncrossing.price);
            if !price.is_some_and(|price| self.cut_to_payable(instrument, price, &mut markets)) {
                break found;
            }
        };
        self.fix_lots(instrument, found.map(|uncrossing| uncrossing.price), &mut markets);
        (self.call_levels, self.call_markets) = (levels, markets);
        found
    }

    fn do_limits_cross(&self, instrument: Slot) -> bool {
        let row = &self.instruments[instrument];
        let best = (row.side(Side::Buy).best_price(), row.side(Side::Sell).best_price());
        matches!(best, (Some(bid), Some(ask)) if bid >= ask)
    }

    /// Makes the trades of the uncrossing that was just found, if there is one, and emits
    /// `Uncrossed`.
    fn uncross_at<S: EventSink>(
        &mut self,
        instrument: Slot,
        found: Option<Uncrossing>,
        out: &mut S,
    ) {
        self.end_unpaid(out);
        let told = found.unwrap_or(Uncrossing { price: Price(0), qty: Qty::ZERO, surplus: 0 });
        let mut open_qty = told.qty;
        while !open_qty.is_zero() {
            open_qty -= self.trade_in_call(instrument, told.price, open_qty, out);
        }
        let row = &mut self.instruments[instrument];
        if found.is_some() {
            row.uncrossed_price = Some(told.price);
        }
        let event = Event::Plain(PlainEvent::Uncrossed(Uncrossed {
            position: self.position,
            transact_time: self.time,
            price: told.price,
            qty: told.qty,
            surplus: told.surplus,
            instrument_id: row.definition.instrument_id,
            partition_id: self.config.partition_id,
        }));
        self.say(&event, out);
    }

    /// Collects the levels of a book in ascending order of price.
    fn collect_call(&self, instrument: Slot, markets: &CallMarkets, levels: &mut Vec<CallLevel>) {
        levels.clear();
        let row = &self.instruments[instrument];
        for side in [Side::Buy, Side::Sell] {
            for level in row.side(side).best_first() {
                levels.push(entry(side, self.levels[level].price, self.whole_qty(level), true));
            }
            markets.append_levels(row, side, levels);
        }
        levels.sort_unstable_by_key(|level| level.price);
    }

    /// Returns all lots of a level, including hidden parts.
    fn whole_qty(&self, level: Slot) -> Qty {
        let row = &self.levels[level];
        if row.iceberg_count == 0 || plant::is(Plant::UncrossingIgnoresHidden) {
            return row.qty;
        }
        let (mut qty, mut slot) = (Qty::ZERO, row.head);
        while slot != NIL {
            qty += self.orders[slot].leaves_qty;
            slot = self.orders[slot].level_next;
        }
        qty
    }

    /// Returns the first order of a side that trades at `price`, with the lots that it has for it:
    /// market orders come before limits.
    fn first_in_call(&self, instrument: Slot, side: Side, price: Price) -> (Slot, Qty) {
        let row = &self.instruments[instrument];
        if let Some(market) = self.call_markets.next(side)
            && reaches(side, row.bound(side), price)
        {
            return market;
        }
        let level = row.side(side).best().expect("the volume stands in the book");
        let slot = self.levels[level].head;
        (slot, self.orders[slot].leaves_qty)
    }

    /// Makes one trade of the best buy with the best sell; returns its quantity.
    fn trade_in_call<S: EventSink>(
        &mut self,
        instrument: Slot,
        price: Price,
        open_qty: Qty,
        out: &mut S,
    ) -> Qty {
        let (buy, buy_qty) = self.first_in_call(instrument, Side::Buy, price);
        let (sell, sell_qty) = self.first_in_call(instrument, Side::Sell, price);
        let qty = buy_qty.min(sell_qty).min(open_qty);
        self.match_id = self.match_id.next();
        self.retain_trade([buy, sell], price, qty, true);
        let match_id = self.match_id;
        self.instruments[instrument].note_trade(match_id, price);
        for slot in [buy, sell] {
            self.settle(holding_of(&self.orders[slot], qty), price);
            let order = &mut self.orders[slot];
            let shown_qty = order.shown();
            order.leaves_qty -= qty;
            if order.is_iceberg {
                order.shown_qty = order.next_slice();
            }
            let (level, now_shown) = (order.level, order.shown());
            self.levels.adjust(level, shown_qty, now_shown);
        }
        for slot in [buy, sell] {
            let status = status_after_trade(self.orders[slot].leaves_qty);
            let change = Change {
                match_id: self.match_id,
                last_px: price,
                last_qty: qty,
                liquidity: Liquidity::Auction,
                ..Change::new(weir_types::ExecType::Trade, status, RequestNo::NONE)
            };
            self.say_order(slot, &change, out);
        }
        for (side, slot) in [(Side::Buy, buy), (Side::Sell, sell)] {
            let order = &self.orders[slot];
            let (is_market, is_filled) =
                (order.ord_type == OrdType::Market, order.leaves_qty.is_zero());
            let is_used_up = is_market && self.call_markets.take(side, qty);
            if is_filled {
                self.remove_resting(slot);
            } else if is_used_up {
                self.end_cut(slot, out);
            }
        }
        qty
    }
}

/// Returns a level with lots of one side.
pub(crate) fn entry(side: Side, price: Price, qty: Qty, is_limit: bool) -> CallLevel {
    let (buy_qty, sell_qty) = match side {
        Side::Buy => (qty, Qty::ZERO),
        Side::Sell => (Qty::ZERO, qty),
    };
    CallLevel { price, buy_qty, sell_qty, is_limit }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(price: i64, buy_qty: u64, sell_qty: u64) -> CallLevel {
        let (buy_qty, sell_qty) = (Qty(buy_qty), Qty(sell_qty));
        CallLevel { price: Price(price), buy_qty, sell_qty, is_limit: true }
    }

    fn market(bound: i64, buy_qty: u64, sell_qty: u64) -> CallLevel {
        CallLevel { is_limit: false, ..limit(bound, buy_qty, sell_qty) }
    }

    #[test]
    fn the_price_is_the_one_that_the_page_says() {
        type Row = (Vec<CallLevel>, Option<i64>, Option<(i64, u64, i64)>);
        let rows: Vec<Row> = vec![
            (
                vec![limit(200, 0, 150), limit(201, 100, 100), limit(202, 100, 0)],
                None,
                Some((201, 200, -50)),
            ),
            (vec![limit(200, 0, 100), limit(202, 100, 0)], Some(201), Some((201, 100, 0))),
            (vec![limit(200, 0, 100), limit(202, 100, 0)], Some(199), Some((200, 100, 0))),
            (
                vec![limit(98, 0, 100), limit(99, 100, 0), market(1_000, 50, 0)],
                Some(97),
                Some((99, 100, 50)),
            ),
            (vec![limit(98, 0, 100), limit(99, 100, 0)], None, Some((99, 100, 0))),
            (vec![limit(98, 100, 0), limit(99, 0, 100)], Some(98), None),
            (vec![market(1, 0, 7), market(1_000, 5, 0)], Some(50), Some((50, 5, -2))),
            (vec![market(1, 0, 7), market(1_000, 5, 0)], None, None),
            (vec![market(60, 0, 7), market(1_000, 5, 0)], Some(50), None),
            (vec![market(100, 10, 0), limit(120, 0, 10)], Some(110), None),
            (vec![], Some(50), None),
        ];
        for (levels, reference, want) in rows {
            let found = uncrossing_price(&levels, reference.map(Price), Price(1));
            let found = found.map(|u| (u.price.0, u.qty.0, u.surplus));
            assert_eq!(found, want, "{levels:?} {reference:?}");
        }
    }

    #[test]
    fn levels_out_of_order_make_no_panic() {
        let levels = [limit(202, 100, 0), limit(200, 0, 150), market(201, 7, 7), limit(199, 5, 1)];
        for turn in 0..levels.len() {
            let mut levels = levels.to_vec();
            levels.rotate_left(turn);
            let found = uncrossing_price(&levels, Some(Price(201)), Price(1));
            assert!(found.is_none_or(|found| !found.qty.is_zero()));
        }
    }
}
