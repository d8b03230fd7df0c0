//! The market orders of a call that uncrosses, and the lots that their accounts can pay.
//!
//! A market order reserves cash at the edge of a static collar, and an uncrossing may be beyond it:
//! an operator overrides the collars, the reference has moved, or the call closes the market. The
//! account then pays the difference from its free cash, and from the reservation of lots that it
//! cannot pay. Those take no part: the search for the price leaves them out, and their order is
//! cancelled.
//!
//! INVARIANT: no trade of an uncrossing takes a limited account below zero.

use std::collections::{BTreeMap, VecDeque};

use weir_types::{Price, Qty, Reason, RequestNo, Side};

use crate::account::cash_need;
use crate::config::EventSink;
use crate::engine::Engine;
use crate::index::{NIL, Slot};
use crate::instrument::reaches;

/// A market order of a call.
#[derive(Clone, Copy)]
pub(crate) struct CallMarket {
    slot: Slot,
    /// Its lots that take part and have not traded: fewer than its leaves where the account cannot
    /// pay them all.
    qty: Qty,
}

/// The market orders of a call, each side in order of time.
#[derive(Default)]
pub(crate) struct CallMarkets {
    buys: VecDeque<CallMarket>,
    sells: VecDeque<CallMarket>,
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

    /// Returns the lots of each order of a side.
    pub(crate) fn lots(&self, side: Side) -> impl Iterator<Item = Qty> {
        self.side(side).iter().map(|market| market.qty)
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
    /// Collects the market orders of a call with all their lots.
    pub(crate) fn collect_markets(&self, instrument: Slot, markets: &mut CallMarkets) {
        for side in [Side::Buy, Side::Sell] {
            let queue = markets.side_mut(side);
            queue.clear();
            for level in self.instruments[instrument].markets(side).best_first() {
                let mut slot = self.levels[level].head;
                while slot != NIL {
                    queue.push_back(CallMarket { slot, qty: self.orders[slot].leaves_qty });
                    slot = self.orders[slot].level_next;
                }
            }
        }
    }

    /// Reduces the lots of market orders to those that their accounts can pay at a price; returns
    /// true if one was reduced. Of an account's orders the earlier ones are paid first.
    pub(crate) fn cut_to_payable(
        &self,
        instrument: Slot,
        price: Price,
        markets: &mut CallMarkets,
    ) -> bool {
        let mut is_cut = false;
        for side in [Side::Buy, Side::Sell] {
            let each = cash_need(side, price, Qty(1)).0;
            let is_reached = reaches(side, self.instruments[instrument].bound(side), price);
            if self.config.has_risk && each > 0 && is_reached {
                is_cut |= self.cut_side(instrument, each, markets.side_mut(side));
            }
        }
        is_cut
    }

    /// Reduces the lots of one side's orders, of which each costs `each`.
    fn cut_side(&self, instrument: Slot, each: i128, queue: &mut VecDeque<CallMarket>) -> bool {
        let lot_size = self.instruments[instrument].definition.lot_size.0;
        let mut purses: BTreeMap<Slot, i128> = BTreeMap::new();
        let mut is_cut = false;
        for market in queue.iter_mut().filter(|market| !market.qty.is_zero()) {
            let order = &self.orders[market.slot];
            if each <= cash_need(order.side, order.price, Qty(1)).0 {
                continue;
            }
            let account = &self.accounts[order.account];
            let purse = purses.entry(order.account).or_insert_with(|| account.spendable());
            let means = *purse + cash_need(order.side, order.price, order.leaves_qty).0;
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
