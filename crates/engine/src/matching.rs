//! Matching: price, then time; every trade at the resting order's price.
//!
//! Each trade says two events with one `match_id`: the resting order's first, then the incoming
//! one's. A loop, never recursion: a sweep may take any number of fills. Nothing here rests or
//! ends the incoming order; the caller does by the [`Verdict`].

use weir_types::{
    ExecType, Liquidity, OrdStatus, OrdType, Price, Qty, Reason, RequestNo, SelfTradePrevention,
    Side,
};
use weir_wire::order_entry::NewOrder;

use crate::account::{Account, cash_need};
use crate::config::EventSink;
use crate::emit::Change;
use crate::engine::Engine;
use crate::entry::{holding_of, pays_as_it_goes};
use crate::index::{NIL, Slot};
use crate::instrument::reaches;

/// How matching left the incoming order.
#[must_use]
pub(crate) enum Verdict {
    /// Nothing is open any more.
    Filled,
    /// Some is open, and nothing more to match it with.
    Open,
    /// Some is open and may not stay.
    CancelRest(Reason),
}

impl Engine {
    /// Trades the incoming order at `slot` with the book as far as it goes.
    pub(crate) fn match_incoming<S: EventSink>(
        &mut self,
        slot: Slot,
        request_no: RequestNo,
        out: &mut S,
    ) -> Verdict {
        let taker = self.orders[slot];
        let limit = self.limit_of(taker.instrument, taker.ord_type, taker.side, taker.price);
        loop {
            let leaves_qty = self.orders[slot].leaves_qty;
            if leaves_qty.is_zero() {
                return Verdict::Filled;
            }
            let Some(level) = self.instruments[taker.instrument].side(taker.side.opposite()).best()
            else {
                return Verdict::Open;
            };
            let (price, maker) = (self.levels[level].price, self.levels[level].head);
            if !reaches(taker.side, limit, price) {
                return Verdict::Open;
            }
            let stp = taker.self_trade_prevention;
            if stp != SelfTradePrevention::None && self.orders[maker].account == taker.account {
                match self.prevent_self_trade(slot, maker, request_no, out) {
                    Some(verdict) => return verdict,
                    None => continue,
                }
            }
            let qty = leaves_qty.min(self.orders[maker].leaves_qty);
            if pays_as_it_goes(taker.ord_type) {
                let cost = cash_need(taker.side, price, qty);
                if let Err(reason) = self.check_cash(taker.account, cost) {
                    return Verdict::CancelRest(reason);
                }
            }
            self.trade(slot, maker, qty, request_no, out);
        }
    }

    /// The worst price an order may trade at: a market order's is the instrument's bound.
    #[inline]
    fn limit_of(&self, instrument: Slot, ord_type: OrdType, side: Side, price: Price) -> Price {
        let bounds = &self.instruments[instrument].definition;
        match (ord_type, side) {
            (OrdType::Limit, _) => price,
            (_, Side::Buy) => bounds.price_max,
            (_, Side::Sell) => bounds.price_min,
        }
    }

    /// One trade at the maker's price.
    #[inline]
    fn trade<S: EventSink>(
        &mut self,
        taker: Slot,
        maker: Slot,
        qty: Qty,
        request_no: RequestNo,
        out: &mut S,
    ) {
        self.match_id = self.match_id.next();
        let price = self.orders[maker].price;
        let level = self.orders[maker].level;
        let next = self.orders[maker].level_next;
        if next != NIL {
            self.orders.prefetch_row(next);
        }
        self.settle(holding_of(&self.orders[maker], qty), price);
        self.settle(holding_of(&self.orders[taker], qty), price);
        self.orders[maker].leaves_qty -= qty;
        self.orders[taker].leaves_qty -= qty;
        self.levels.reduce(level, qty);
        let change = |leaves_qty: Qty, liquidity, request_no| Change {
            match_id: self.match_id,
            last_px: price,
            last_qty: qty,
            liquidity,
            ..Change::new(ExecType::Trade, status_after_trade(leaves_qty), request_no)
        };
        let maker_change = change(self.orders[maker].leaves_qty, Liquidity::Maker, RequestNo::NONE);
        let taker_change = change(self.orders[taker].leaves_qty, Liquidity::Taker, request_no);
        self.say_order(maker, &maker_change, out);
        self.say_order(taker, &taker_change, out);
        if self.orders[maker].leaves_qty.is_zero() {
            self.remove_resting(maker);
        }
    }

    /// The incoming order met its own account's. `None`: go on matching.
    fn prevent_self_trade<S: EventSink>(
        &mut self,
        taker: Slot,
        maker: Slot,
        request_no: RequestNo,
        out: &mut S,
    ) -> Option<Verdict> {
        match self.orders[taker].self_trade_prevention {
            SelfTradePrevention::None => None,
            SelfTradePrevention::CancelNewest => Some(Verdict::CancelRest(Reason::SelfTrade)),
            SelfTradePrevention::CancelOldest => {
                self.cancel_resting(maker, Reason::SelfTrade, RequestNo::NONE, out);
                None
            }
            SelfTradePrevention::CancelBoth => {
                self.cancel_resting(maker, Reason::SelfTrade, RequestNo::NONE, out);
                Some(Verdict::CancelRest(Reason::SelfTrade))
            }
            SelfTradePrevention::Decrement => self.decrement(taker, maker, request_no, out),
        }
    }

    /// Takes the smaller open quantity off both; one or both are then cancelled.
    fn decrement<S: EventSink>(
        &mut self,
        taker: Slot,
        maker: Slot,
        request_no: RequestNo,
        out: &mut S,
    ) -> Option<Verdict> {
        let (taker_qty, maker_qty) = (self.orders[taker].leaves_qty, self.orders[maker].leaves_qty);
        let qty = taker_qty.min(maker_qty);
        if maker_qty > qty {
            let level = self.orders[maker].level;
            self.levels.reduce(level, qty);
            self.restate(maker, qty, RequestNo::NONE, out);
        } else {
            self.cancel_resting(maker, Reason::SelfTrade, RequestNo::NONE, out);
        }
        if taker_qty == qty {
            return Some(Verdict::CancelRest(Reason::SelfTrade));
        }
        self.restate(taker, qty, request_no, out);
        None
    }

    /// Makes an order smaller by `qty` without a trade.
    fn restate<S: EventSink>(&mut self, slot: Slot, qty: Qty, request_no: RequestNo, out: &mut S) {
        self.release(holding_of(&self.orders[slot], qty));
        let order = &mut self.orders[slot];
        order.leaves_qty -= qty;
        order.order_qty -= qty;
        let status = status_of_live(order.cum_qty());
        let mut change = Change::new(ExecType::Restated, status, request_no);
        change.reason = Reason::SelfTrade;
        self.say_order(slot, &change, out);
    }

    /// Takes a resting order out of the book, the indexes and its session, and frees its row.
    #[inline]
    pub(crate) fn remove_resting(&mut self, slot: Slot) {
        let order = &self.orders[slot];
        let (instrument, side, session) = (order.instrument, order.side, order.session);
        self.instruments[instrument].side_mut(side).remove(
            &mut self.levels,
            &mut self.orders,
            slot,
        );
        self.sessions[session].unlink(&mut self.orders, slot);
        self.orders.unindex(slot);
        self.orders.release(slot);
    }

    /// Whether at least `at_once` of the order would trade against the book as it stands. Walks
    /// exactly as matching would: own orders end the walk or are stepped over as self-trade
    /// prevention has it, and an order that pays as it goes needs the cash for every fill.
    pub(crate) fn can_fill(
        &self,
        account: Slot,
        instrument: Slot,
        m: &NewOrder,
        at_once: Qty,
    ) -> bool {
        let mut purse = Purse {
            row: self.accounts[account],
            is_paying: self.config.has_risk && pays_as_it_goes(m.ord_type),
        };
        let limit = self.limit_of(instrument, m.ord_type, m.side, m.price);
        let (mut open, mut traded) = (m.order_qty, Qty::ZERO);
        for level in self.instruments[instrument].side(m.side.opposite()).best_first() {
            let price = self.levels[level].price;
            if !reaches(m.side, limit, price) {
                return false;
            }
            let mut maker = self.levels[level].head;
            while maker != NIL {
                let resting = &self.orders[maker];
                let is_own = resting.account == account;
                maker = resting.level_next;
                let qty = open.min(resting.leaves_qty);
                match m.self_trade_prevention {
                    SelfTradePrevention::CancelOldest if is_own => {
                        purse.get_back(m.side.opposite(), price, resting.leaves_qty);
                        continue;
                    }
                    SelfTradePrevention::Decrement if is_own && qty < open => {
                        purse.get_back(m.side.opposite(), price, qty);
                        open -= qty;
                        continue;
                    }
                    SelfTradePrevention::None => {}
                    _ if is_own => return false,
                    _ => {}
                }
                if !purse.pay(m.side, price, qty, is_own) {
                    return false;
                }
                open -= qty;
                traded += qty;
                if traded >= at_once {
                    return true;
                }
                if open.is_zero() {
                    return false;
                }
            }
        }
        false
    }
}

/// An account's cash as a walk over the book would leave it.
struct Purse {
    row: Account,
    is_paying: bool,
}

impl Purse {
    /// Ends the reservation of an own resting order for `qty`.
    fn get_back(&mut self, side: Side, price: Price, qty: Qty) {
        self.row.reserved -= cash_need(side, price, qty);
    }

    /// Pays a fill; false when it cannot.
    fn pay(&mut self, side: Side, price: Price, qty: Qty, is_own: bool) -> bool {
        if !self.is_paying {
            return true;
        }
        if self.row.check_cash(cash_need(side, price, qty)).is_err() {
            return false;
        }
        if is_own {
            // What leaves the account comes back to it, and the resting side's reservation ends.
            self.get_back(side.opposite(), price, qty);
            return true;
        }
        match side {
            Side::Buy => self.row.cash -= price.notional(qty),
            Side::Sell => self.row.cash += price.notional(qty),
        }
        true
    }
}

#[inline]
fn status_after_trade(leaves_qty: Qty) -> OrdStatus {
    if leaves_qty.is_zero() { OrdStatus::Filled } else { OrdStatus::PartiallyFilled }
}

/// The state of a live order.
#[inline]
pub(crate) fn status_of_live(cum_qty: Qty) -> OrdStatus {
    if cum_qty.is_zero() { OrdStatus::New } else { OrdStatus::PartiallyFilled }
}
