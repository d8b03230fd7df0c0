//! The price at which a call would uncross now: `docs/matching.md`, Uncrossing, over the orders
//! that a follower may see. The search is the engine's own; here its levels are made of rows.

use std::collections::BTreeMap;

use weir_engine::{CallLevel, Uncrossing, uncrossing_price};
use weir_types::{Price, Qty, Side};

/// The quantity at each price, hidden parts included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallBook {
    /// Lots of buys and of sells at a limit.
    limits: BTreeMap<Price, [u128; 2]>,
    /// Lots of market buys and of market sells.
    market: [u128; 2],
    /// The worst price that market buys and that market sells trade at.
    bounds: [Price; 2],
}

impl Default for CallBook {
    fn default() -> CallBook {
        CallBook::within(None, None)
    }
}

fn place(side: Side) -> usize {
    usize::from(side == Side::Sell)
}

impl CallBook {
    /// An empty book of an instrument of these bounds, where they are known.
    #[must_use]
    pub fn within(price_min: Option<Price>, price_max: Option<Price>) -> CallBook {
        let bounds = [price_max.unwrap_or(Price(i64::MAX)), price_min.unwrap_or(Price(i64::MIN))];
        CallBook { limits: BTreeMap::new(), market: [0; 2], bounds }
    }

    /// Adds an order: its limit, none for a market order, and all that can still trade of it.
    pub fn add(&mut self, side: Side, limit: Option<Price>, leaves: u64) {
        let there = match limit {
            Some(price) => &mut self.limits.entry(price).or_default()[place(side)],
            None => &mut self.market[place(side)],
        };
        *there += u128::from(leaves);
    }

    /// Lots of market orders of a side.
    #[must_use]
    pub fn market_qty(&self, side: Side) -> u128 {
        self.market[place(side)]
    }

    /// The price and volume of an uncrossing now; `None` if nothing would trade. `reference` is the
    /// last price, else the static reference.
    #[must_use]
    pub fn indication(&self, reference: Option<Price>, tick_size: Price) -> Option<Uncrossing> {
        // Limits may stand beyond the bounds of market orders after a redefinition. Lots that an
        // account could not pay count here, since rows do not tell its cash.
        let [price_max, price_min] = self.bounds;
        let mut levels = vec![level(price_min, [0, self.market[1]], false)];
        levels.extend(self.limits.iter().map(|(price, at)| level(*price, *at, true)));
        levels.push(level(price_max, [self.market[0], 0], false));
        levels.sort_by_key(|level| level.price);
        uncrossing_price(&levels, reference, tick_size)
    }
}

fn level(price: Price, [buys, sells]: [u128; 2], is_limit: bool) -> CallLevel {
    let lots = |sum: u128| Qty(u64::try_from(sum).unwrap_or(u64::MAX));
    CallLevel { price, buy_qty: lots(buys), sell_qty: lots(sells), is_limit }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TICK: Price = Price(1);

    /// (limit or none, lots) of each side.
    fn book(bids: &[(Option<i64>, u64)], asks: &[(Option<i64>, u64)]) -> CallBook {
        let mut book = CallBook::default();
        for (side, orders) in [(Side::Buy, bids), (Side::Sell, asks)] {
            for (limit, lots) in orders {
                book.add(side, limit.map(Price), *lots);
            }
        }
        book
    }

    #[test]
    fn the_rules_table_is_met() {
        let cases = [
            (
                book(&[(Some(202), 100), (Some(201), 100)], &[(Some(200), 150), (Some(201), 100)]),
                None,
                (201, 200, -50),
            ),
            (book(&[(Some(202), 100)], &[(Some(200), 100)]), Some(201), (201, 100, 0)),
            (book(&[(None, 50), (Some(99), 100)], &[(Some(98), 100)]), Some(97), (99, 100, 50)),
        ];
        for (book, reference, (price, volume, surplus)) in cases {
            let want = Uncrossing { price: Price(price), qty: Qty(volume), surplus };
            assert_eq!(book.indication(reference.map(Price), TICK), Some(want));
        }
    }

    #[test]
    fn market_orders_alone_meet_at_the_reference_and_nowhere_without_one() {
        let book = book(&[(None, 30)], &[(None, 20)]);
        let want = Uncrossing { price: Price(7), qty: Qty(20), surplus: 10 };
        assert_eq!(book.indication(Some(Price(7)), TICK), Some(want));
        assert_eq!(book.indication(None, TICK), None);
    }

    #[test]
    fn market_orders_trade_within_the_bounds_only() {
        // Limits that stand since before the bounds were narrowed to 90 and 110.
        let cases = [
            (Side::Buy, Side::Sell, 111, None),
            (Side::Buy, Side::Sell, 110, Some(110)),
            (Side::Sell, Side::Buy, 89, None),
            (Side::Sell, Side::Buy, 90, Some(90)),
        ];
        for (market, limit, price, want) in cases {
            let mut book = CallBook::within(Some(Price(90)), Some(Price(110)));
            book.add(market, None, 5);
            book.add(limit, Some(Price(price)), 5);
            let got = book.indication(None, TICK).map(|of| of.price.0);
            assert_eq!(got, want, "a market {market:?} and a limit at {price}");
        }
    }

    #[test]
    fn a_book_that_does_not_cross_has_no_price() {
        assert_eq!(book(&[(Some(9), 5)], &[(Some(10), 5)]).indication(Some(Price(9)), TICK), None);
        assert_eq!(CallBook::default().indication(None, TICK), None);
    }

    /// The same by the words of the rules, each sum made anew.
    fn by_the_words(
        orders: &[(bool, Option<i64>, u64)],
        reference: Option<i64>,
    ) -> Option<(i64, u64, i64)> {
        let sum = |is_sell: bool, takes: &dyn Fn(i64) -> bool| -> i128 {
            let of_side = orders.iter().filter(|order| order.0 == is_sell);
            of_side.filter(|o| o.1.is_none_or(takes)).map(|o| i128::from(o.2)).sum()
        };
        let sums = |p: i64| {
            let (demand, supply) =
                (sum(false, &|limit| limit >= p), sum(true, &|limit| limit <= p));
            (p, demand.min(supply), demand - supply)
        };
        let mut prices: Vec<i64> = orders.iter().filter_map(|order| order.1).collect();
        if prices.is_empty() {
            prices.extend(reference);
        }
        let all = prices.into_iter().map(sums);
        let all: Vec<_> = all.filter(|(_, volume, _)| *volume > 0).collect();
        let most = all.iter().map(|(_, volume, _)| *volume).max()?;
        let all: Vec<_> = all.into_iter().filter(|(_, volume, _)| *volume == most).collect();
        let least = all.iter().map(|(_, _, surplus)| surplus.abs()).min()?;
        let all: Vec<_> =
            all.into_iter().filter(|(_, _, surplus)| surplus.abs() == least).collect();
        let is_left = |sign: i128| all.iter().any(|(_, _, surplus)| surplus.signum() == sign);
        let low = all.iter().filter(|(_, _, surplus)| *surplus > 0).map(|tied| tied.0).max();
        let high = all.iter().filter(|(_, _, surplus)| *surplus < 0).map(|tied| tied.0).min();
        let (lowest, highest) = (all.iter().map(|t| t.0).min()?, all.iter().map(|t| t.0).max()?);
        let price = match (is_left(1), is_left(-1)) {
            (true, false) => highest,
            (false, true) => lowest,
            _ => {
                let (low, high) = (low.unwrap_or(lowest), high.unwrap_or(highest));
                reference.map_or(high, |reference| reference.max(low).min(high))
            }
        };
        let best = sums(price);
        Some((best.0, u64::try_from(best.1).unwrap(), i64::try_from(best.2).unwrap()))
    }

    proptest! {
        #[test]
        fn any_book_uncrosses_as_the_rules_say(
            orders in prop::collection::vec(
                (any::<bool>(), prop::option::weighted(0.9, -5i64..6), 1u64..9), 0..12),
            reference in prop::option::of(-7i64..8),
        ) {
            let mut book = CallBook::default();
            for (is_sell, limit, lots) in &orders {
                let side = if *is_sell { Side::Sell } else { Side::Buy };
                book.add(side, limit.map(Price), *lots);
            }
            let got = book.indication(reference.map(Price), TICK);
            let got = got.map(|u| (u.price.0, u.qty.0, u.surplus));
            prop_assert_eq!(got, by_the_words(&orders, reference));
        }
    }
}
