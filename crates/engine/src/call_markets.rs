//! The market orders of a call that uncrosses, and the lots that their accounts can pay.
//!
//! A market order reserves cash at the edge of a static collar, and an uncrossing may be beyond it:
//! an operator overrides the collars, the reference has moved, or the call closes the market. The
//! account then pays the difference from its free cash, and from the reservation of lots that it
//! cannot pay. Those are cut: from then on they count as a limit at the price of their reservation.
//!
//! INVARIANT: no trade of an uncrossing takes a limited account below zero, and at a price that an
//! order's reservation pays all its lots take part.

use std::collections::{BTreeMap, VecDeque};

use weir_types::{Price, Qty, Reason, RequestNo, Side};

use crate::account::cash_need;
use crate::config::EventSink;
use crate::engine::Engine;
use crate::index::{NIL, Slot};
use crate::instrument::{Instrument, reaches};
use crate::order::Order;
use crate::plant::{self, Plant};
use crate::uncross::{CallLevel, entry};

/// The rounds of a search that cut an order to the lots that its account can pay; later ones cut it
/// to its reservation alone.
///
/// A search has at most this many rounds, one for each distinct limit of the orders' reservations
/// by side, and the last, which cuts nothing: a later round that cuts takes away all lots of one
/// side beyond a limit, so that the next one to cut that side meets orders of another limit.
/// A new limit comes with a new static reference or collar. Participants add limits slowly: each
/// uncrossing sets a static reference, and parked orders keep the edges about those of before.
const PAYABLE_ROUNDS: u32 = 8;

/// A market order of a call.
#[derive(Clone, Copy)]
pub(crate) struct CallMarket {
    slot: Slot,
    /// The worst price that its reservation pays.
    limit: Price,
    leaves_qty: Qty,
    /// Its lots that take part at any price within the bound; the others do up to `limit`. Once the
    /// price is found, its lots that trade at it and have not traded.
    qty: Qty,
}

impl CallMarket {
    fn new(slot: Slot, order: &Order) -> CallMarket {
        let reserved = order.price.0;
        let limit = Price(match order.side {
            Side::Buy => reserved.max(0),
            Side::Sell => reserved.min(0),
        });
        CallMarket { slot, limit, leaves_qty: order.leaves_qty, qty: order.leaves_qty }
    }
}

/// The market orders of a call, each side in order of time.
#[derive(Default)]
pub(crate) struct CallMarkets {
    buys: VecDeque<CallMarket>,
    sells: VecDeque<CallMarket>,
    /// The rounds of the search so far.
    rounds: u32,
}

impl CallMarkets {
    fn side(&self, side: Side) -> &VecDeque<CallMarket> {
        match side {
            Side::Buy => &self.buys,
            Side::Sell => &self.sells,
        }
    }

    fn side_mut(&mut self, side: Side) -> &mut VecDeque<CallMarket> {
        match side {
            Side::Buy => &mut self.buys,
            Side::Sell => &mut self.sells,
        }
    }

    /// Appends the levels of a side: the lots that take part up to the bound, and for each limit
    /// those that are cut to it, with the nearest price on the tick as one that can be chosen.
    pub(crate) fn append_levels(&self, row: &Instrument, side: Side, levels: &mut Vec<CallLevel>) {
        let mut whole_qty = Qty::ZERO;
        let mut cut: BTreeMap<Price, Qty> = BTreeMap::new();
        for market in self.side(side) {
            whole_qty += market.qty;
            let cut_qty = market.leaves_qty - market.qty;
            if !cut_qty.is_zero() && !plant::is(Plant::CutLotsStayOut) {
                *cut.entry(market.limit).or_default() += cut_qty;
            }
        }
        if !whole_qty.is_zero() {
            levels.push(entry(side, row.bound(side), whole_qty, false));
        }
        for (limit, qty) in cut {
            let on_tick = Price(limit.0 - limit.0 % row.definition.tick_size.0);
            levels.push(entry(side, limit, qty, on_tick == limit));
            if on_tick != limit {
                levels.push(entry(side, on_tick, Qty::ZERO, true));
            }
        }
    }

    /// Returns the next order of a side and its lots.
    pub(crate) fn next(&self, side: Side) -> Option<(Slot, Qty)> {
        self.side(side).front().map(|market| (market.slot, market.qty))
    }

    /// Takes traded lots off the next order of a side, and that order out when it has no more;
    /// returns true then.
    pub(crate) fn take(&mut self, side: Side, qty: Qty) -> bool {
        let queue = self.side_mut(side);
        let market = queue.front_mut().expect("it has traded");
        market.qty -= qty;
        let is_used_up = market.qty.is_zero();
        if is_used_up {
            queue.pop_front();
        }
        is_used_up
    }
}

impl Engine {
    /// Returns the rounds of the last search for an uncrossing's price; for tests of their bound.
    #[doc(hidden)]
    #[must_use]
    pub fn call_rounds(&self) -> u32 {
        self.call_markets.rounds
    }

    /// Collects the market orders of a call with all their lots, for a search that begins.
    pub(crate) fn collect_markets(&self, instrument: Slot, markets: &mut CallMarkets) {
        markets.rounds = 0;
        for side in [Side::Buy, Side::Sell] {
            let queue = markets.side_mut(side);
            queue.clear();
            for level in self.instruments[instrument].markets(side).best_first() {
                let mut slot = self.levels[level].head;
                while slot != NIL {
                    let order = &self.orders[slot];
                    queue.push_back(CallMarket::new(slot, order));
                    slot = order.level_next;
                }
            }
        }
    }

    /// Cuts the market orders of which a price takes more than their accounts can pay; returns true
    /// if there was one. It ends a round of the search.
    pub(crate) fn cut_to_payable(
        &self,
        instrument: Slot,
        price: Price,
        markets: &mut CallMarkets,
    ) -> bool {
        markets.rounds += 1;
        let pays_lots = markets.rounds <= PAYABLE_ROUNDS;
        let mut is_cut = false;
        for side in [Side::Buy, Side::Sell] {
            if !self.config.has_risk
                || !reaches(side, self.instruments[instrument].bound(side), price)
            {
                continue;
            }
            let queue = markets.side_mut(side);
            is_cut |= if pays_lots {
                self.cut_side(side, price, queue)
            } else {
                cut_to_limits(side, price, queue)
            };
        }
        is_cut
    }

    /// Cuts one side's orders beyond their limits to the lots that their accounts can pay. Of an
    /// account's orders the earlier ones are paid first; each leaves the rest of its reservation to
    /// the later ones, because it is cancelled before these trade.
    fn cut_side(&self, side: Side, price: Price, queue: &mut VecDeque<CallMarket>) -> bool {
        let each = cash_need(side, price, Qty(1)).0;
        let mut purses: BTreeMap<Slot, i128> = BTreeMap::new();
        let mut is_cut = false;
        for market in queue.iter_mut().filter(|market| !reaches(side, market.limit, price)) {
            let order = &self.orders[market.slot];
            let lot_size = self.instruments[order.instrument].definition.lot_size.0;
            let account = &self.accounts[order.account];
            let purse = purses.entry(order.account).or_insert_with(|| account.spendable());
            let means = *purse + cash_need(side, order.price, order.leaves_qty).0;
            let payable = (means.max(0) / each).min(i128::from(market.qty.0));
            let payable = u64::try_from(payable).expect("no more than the order's lots");
            if payable < market.qty.0 {
                market.qty = Qty(payable - payable % lot_size);
                is_cut = true;
            }
            *purse = means - each * i128::from(market.qty.0);
        }
        is_cut
    }

    /// Leaves each market order the lots that trade at the price found. Without a price, and where
    /// the price is beyond the bound, none is cut.
    pub(crate) fn fix_lots(
        &self,
        instrument: Slot,
        price: Option<Price>,
        markets: &mut CallMarkets,
    ) {
        for side in [Side::Buy, Side::Sell] {
            let bound = self.instruments[instrument].bound(side);
            let price = price.filter(|price| reaches(side, bound, *price));
            for market in markets.side_mut(side) {
                if price.is_none_or(|price| reaches(side, market.limit, price)) {
                    market.qty = market.leaves_qty;
                }
            }
        }
    }

    /// Cancels market orders of which no lot can be paid, in order of time.
    pub(crate) fn end_unpaid<S: EventSink>(&mut self, out: &mut S) {
        let mut markets = core::mem::take(&mut self.call_markets);
        for side in [Side::Buy, Side::Sell] {
            markets.side_mut(side).retain(|market| {
                let is_unpaid = market.qty.is_zero();
                if is_unpaid {
                    self.end_cut(market.slot, out);
                }
                !is_unpaid
            });
        }
        self.call_markets = markets;
    }

    /// Cancels the rest of a market order that its account cannot pay.
    pub(crate) fn end_cut<S: EventSink>(&mut self, slot: Slot, out: &mut S) {
        let is_unlimited = self.accounts[self.orders[slot].account].is_unlimited;
        let reason = if is_unlimited { Reason::LimitReached } else { Reason::InsufficientCash };
        self.cancel_resting(slot, reason, RequestNo::NONE, out);
    }
}

/// Cuts one side's orders beyond their limits to these; returns true if there was one.
fn cut_to_limits(side: Side, price: Price, queue: &mut VecDeque<CallMarket>) -> bool {
    let mut is_cut = false;
    for market in queue.iter_mut().filter(|market| !reaches(side, market.limit, price)) {
        is_cut |= !market.qty.is_zero();
        market.qty = Qty::ZERO;
    }
    is_cut
}
