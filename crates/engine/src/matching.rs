//! Matching: price, then time; every trade is at the resting order's price.
//!
//! Each trade emits two events with one `match_id`: the resting order's first, then the incoming
//! one's. Matching is a loop, never recursion: a sweep may take any number of fills. It neither
//! rests nor ends the incoming order; the caller does so by the [`Verdict`].

use weir_types::{
    ExecType, Liquidity, Nanos, OrdStatus, OrdType, Price, Qty, Reason, RequestNo,
    SelfTradePrevention, Side,
};

use crate::account::cash_need;
use crate::bust::{Party, Trade};
use crate::config::EventSink;
use crate::emit::Change;
use crate::engine::Engine;
use crate::entry::{holding_of, pays_as_it_goes};
use crate::index::{NIL, Slot};
use crate::instrument::reaches;
use crate::order::{Order, OrderLocation};
use crate::plant::{self, Plant};

/// The state of the incoming order after matching.
#[must_use]
pub(crate) enum Verdict {
    /// Nothing is open any more.
    Filled,
    /// Some quantity is open, with nothing more to match.
    Open,
    /// Some quantity is open; the next trade would have been beyond the collar, and a call has
    /// begun.
    Interrupted,
    /// Some quantity is open and must be cancelled.
    CancelRest(Reason),
}

impl Engine {
    /// Trades the incoming order at `slot` with the book as far as possible.
    pub(crate) fn match_incoming<S: EventSink>(
        &mut self,
        slot: Slot,
        request_no: RequestNo,
        out: &mut S,
    ) -> Verdict {
        let taker = self.orders[slot];
        let limit = self.limit_of(taker.instrument, taker.ord_type, taker.side, taker.price);
        let mut collar = self.instruments[taker.instrument].collar();
        let mut is_let_through = plant::is(Plant::SelfTradeCheckAfterFill);
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
            if stp != SelfTradePrevention::None
                && self.orders[maker].account == taker.account
                && !core::mem::take(&mut is_let_through)
            {
                match self.prevent_self_trade(slot, maker, request_no, out) {
                    Some(verdict) => return verdict,
                    None => continue,
                }
            }
            if plant::is(Plant::ReferenceMovesInSweep) {
                collar = self.instruments[taker.instrument].collar();
            }
            if !collar.allows(price) {
                self.interrupt(taker.instrument, out);
                return Verdict::Interrupted;
            }
            let qty = leaves_qty.min(self.orders[maker].shown());
            if pays_as_it_goes(taker.ord_type) {
                let cost = cash_need(taker.side, price, qty);
                if let Err(reason) = self.check_cash(taker.account, cost) {
                    return Verdict::CancelRest(reason);
                }
            }
            self.trade(slot, maker, qty, request_no, out);
        }
    }

    /// Returns the worst price at which an order may trade; a market order's is the instrument's
    /// bound.
    #[inline]
    pub(crate) fn limit_of(
        &self,
        instrument: Slot,
        ord_type: OrdType,
        side: Side,
        price: Price,
    ) -> Price {
        match ord_type {
            OrdType::Limit => price,
            _ => self.instruments[instrument].bound(side),
        }
    }

    /// Makes one trade at the maker's price.
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
        match self.orders[taker].side {
            Side::Buy => self.retain_trade([taker, maker], price, qty, false),
            Side::Sell => self.retain_trade([maker, taker], price, qty, false),
        }
        let match_id = self.match_id;
        self.instruments[self.orders[taker].instrument].note_trade(match_id, price);
        self.orders[taker].leaves_qty -= qty;
        let resting = &mut self.orders[maker];
        resting.leaves_qty -= qty;
        if resting.is_iceberg {
            resting.shown_qty -= qty;
        }
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
        let resting = &self.orders[maker];
        if resting.leaves_qty.is_zero() {
            self.remove_resting(maker);
        } else if resting.shown().is_zero()
            || plant::is(Plant::PriorityLostOnPartialFill) && !resting.is_iceberg
        {
            self.levels.refill(&mut self.orders, maker);
        }
    }

    /// Retains the trade `match_id` while it can be busted.
    #[inline]
    pub(crate) fn retain_trade(
        &mut self,
        [buy, sell]: [Slot; 2],
        price: Price,
        qty: Qty,
        is_auction: bool,
    ) {
        let trade = Trade {
            buyer: Party::of(&self.orders[buy]),
            seller: Party::of(&self.orders[sell]),
            time: self.time,
            price,
            qty,
            instrument: self.orders[buy].instrument,
            is_auction,
            is_busted: false,
        };
        self.retain(trade);
    }

    /// Handles the meeting of the incoming order with one of its own account. `None` continues
    /// matching.
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

    /// Reduces both by the smaller open quantity; cancels one or both.
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

    /// Reduces an order by `qty` without a trade.
    fn restate<S: EventSink>(&mut self, slot: Slot, qty: Qty, request_no: RequestNo, out: &mut S) {
        self.release(holding_of(&self.orders[slot], qty));
        let order = &mut self.orders[slot];
        let shown_qty = order.shown();
        order.leaves_qty -= qty;
        order.order_qty -= qty;
        order.shown_qty = order.shown_qty.min(order.leaves_qty);
        if order.place == OrderLocation::Book {
            self.levels.adjust(order.level, shown_qty, order.shown());
        }
        let status = status_of_live(order.cum_qty());
        let mut change = Change::new(ExecType::Restated, status, request_no);
        change.reason = Reason::SelfTrade;
        self.say_order(slot, &change, out);
    }

    /// Removes a live order from its queue, the indexes and its session, and frees its row.
    #[inline]
    pub(crate) fn remove_resting(&mut self, slot: Slot) {
        let order = self.orders[slot];
        self.unqueue(&order);
        self.forget(slot, &order);
    }

    /// Removes a live order from its queue.
    #[inline]
    pub(crate) fn unlink(&mut self, slot: Slot) {
        let order = self.orders[slot];
        self.unqueue(&order);
        self.orders[slot].place = OrderLocation::None;
    }

    /// Removes an unqueued order from the indexes and its session, and frees its row.
    pub(crate) fn delist(&mut self, slot: Slot) {
        let order = self.orders[slot];
        self.forget(slot, &order);
    }

    #[inline]
    fn unqueue(&mut self, order: &Order) {
        let (queue, _) = self.instruments[order.instrument].queue_mut(order);
        queue.remove(&mut self.levels, &mut self.orders, order);
    }

    #[inline]
    fn forget(&mut self, slot: Slot, order: &Order) {
        if !self.sweeps.is_empty() {
            self.pass_ended(slot, order);
        }
        self.sessions[order.session].unlink(&mut self.orders, order);
        self.count_out(order);
        self.orders.unindex(slot, order);
        self.orders.release(slot);
        if order.expire_time != Nanos(0) {
            self.timers.forget_expiry(&self.orders, order.instrument);
        }
    }
}

#[inline]
pub(crate) fn status_after_trade(leaves_qty: Qty) -> OrdStatus {
    if leaves_qty.is_zero() { OrdStatus::Filled } else { OrdStatus::PartiallyFilled }
}

/// Returns the status of a live order.
#[inline]
pub(crate) fn status_of_live(cum_qty: Qty) -> OrdStatus {
    if cum_qty.is_zero() { OrdStatus::New } else { OrdStatus::PartiallyFilled }
}
