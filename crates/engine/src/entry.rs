//! New orders: the checks in their fixed order, the acceptance, what becomes of the rest.
//!
//! The first check that fails is the reason; the order of checks is part of the protocol, because
//! every replica and the oracle must give the same one. A refusal changes nothing but numbers.

use weir_types::{
    ExecInst, ExecType, OrdStatus, OrdType, Phase, Price, Qty, Reason, Role, TimeInForce,
};
use weir_wire::order_entry::NewOrder;

use crate::account::{Holding, cash_need};
use crate::config::EventSink;
use crate::emit::Change;
use crate::engine::Engine;
use crate::index::{NIL, Slot};
use crate::matching::Verdict;
use crate::order::Order;

/// The rows that a valid new order names.
#[derive(Clone, Copy)]
struct Place {
    session: Slot,
    account: Slot,
    instrument: Slot,
}

impl Engine {
    pub(crate) fn new_order<S: EventSink>(&mut self, session: Slot, m: &NewOrder, out: &mut S) {
        // Asked for now, so that it is here when the checks come to it.
        self.orders.prefetch_name(session, m.cl_ord_id);
        let place = match self.check_new_order(session, m) {
            Ok(place) => place,
            Err(reason) => return self.reject_order(session, m, reason, out),
        };
        let slot = self.accept(place, m);
        let mut change = Change::new(ExecType::New, OrdStatus::New, m.request_no);
        change.is_answer = true;
        self.say_order(slot, &change, out);
        let verdict = self.match_incoming(slot, m.request_no, out);
        self.finish_incoming(slot, verdict, m.request_no, out);
    }

    fn check_new_order(&self, session: Slot, m: &NewOrder) -> Result<Place, Reason> {
        if self.config.partition_id.is_none() {
            return Err(Reason::WrongPartition);
        }
        if self.sessions[session].role != Role::Trader {
            return Err(Reason::NotEntitled);
        }
        let instrument =
            self.instruments.find(m.instrument_id.0).ok_or(Reason::UnknownInstrument)?;
        let traded = &self.instruments[instrument];
        if traded.definition.partition_id != self.config.partition_id {
            return Err(Reason::WrongPartition);
        }
        self.prefetch_acceptance(m.side, instrument);
        let account = self.accounts.find(m.account_id.0).ok_or(Reason::UnknownAccount)?;
        if self.config.has_risk {
            self.positions.prefetch(account, instrument);
        }
        if self.accounts[account].firm != self.sessions[session].firm {
            return Err(Reason::NotYourAccount);
        }
        if self.is_entry_killed(session, account) {
            return Err(Reason::Killed);
        }
        if traded.phase != Phase::Continuous {
            return Err(Reason::WrongPhase);
        }
        check_kind(m)?;
        match m.ord_type {
            OrdType::Limit => traded.check_price(m.price)?,
            _ if m.price != Price(0) => return Err(Reason::InvalidPrice),
            _ => {}
        }
        traded.check_qty(m.order_qty)?;
        if m.min_qty > m.order_qty {
            return Err(Reason::InvalidQty);
        }
        if m.cl_ord_id.is_none() {
            return Err(Reason::FieldOutOfRange);
        }
        if self.orders.find_name(session, m.cl_ord_id).is_some() {
            return Err(Reason::DuplicateClOrdId);
        }
        if self.orders.is_full() {
            return Err(Reason::LimitReached);
        }
        self.check_cash(account, cash_need(m.side, m.price, m.order_qty))?;
        self.check_position(account, instrument, m.side, m.order_qty)?;
        let place = Place { session, account, instrument };
        self.check_execution(place, m)?;
        Ok(place)
    }

    /// Post-only, fill-or-kill, minimum quantity: what the book as it stands must allow.
    fn check_execution(&self, place: Place, m: &NewOrder) -> Result<(), Reason> {
        if m.exec_inst.contains(ExecInst::POST_ONLY)
            && self.instruments[place.instrument].would_cross(m.side, m.price)
        {
            return Err(Reason::WouldTakeLiquidity);
        }
        let at_once = match m.time_in_force {
            TimeInForce::Fok => m.order_qty,
            _ => m.min_qty,
        };
        if at_once.is_zero() || self.can_fill(place.account, place.instrument, m, at_once) {
            return Ok(());
        }
        Err(Reason::CannotFill)
    }

    #[inline(always)]
    pub(crate) fn is_entry_killed(&self, session: Slot, account: Slot) -> bool {
        let session = &self.sessions[session];
        self.is_killed
            || session.is_killed
            || self.accounts[account].is_killed
            || self.firms[session.firm].is_killed
    }

    /// Makes the order a record and reserves its means.
    #[inline(always)]
    fn accept(&mut self, place: Place, m: &NewOrder) -> Slot {
        self.rec = self.rec.next();
        self.reserve(Holding {
            account: place.account,
            instrument: place.instrument,
            side: m.side,
            qty: m.order_qty,
            cash: cash_need(m.side, m.price, m.order_qty),
        });
        self.orders.alloc(Order {
            rec: self.rec,
            price: m.price,
            leaves_qty: m.order_qty,
            order_qty: m.order_qty,
            level_next: NIL,
            level_prev: NIL,
            level: NIL,
            account: place.account,
            session: place.session,
            instrument: place.instrument,
            side: m.side,
            ord_type: m.ord_type,
            time_in_force: m.time_in_force,
            exec_inst: m.exec_inst,
            self_trade_prevention: m.self_trade_prevention,
            cl_ord_id: m.cl_ord_id,
            created_time: self.time,
            min_qty: m.min_qty,
            session_next: NIL,
            session_prev: NIL,
            stop_px: m.stop_px,
            display_qty: m.display_qty,
            expire_time: m.expire_time,
        })
    }

    /// Ends an order that was new in this command, or lets its rest stand.
    fn finish_incoming<S: EventSink>(
        &mut self,
        slot: Slot,
        verdict: Verdict,
        request_no: weir_types::RequestNo,
        out: &mut S,
    ) {
        let order = &self.orders[slot];
        let (session, can_rest) = (order.session, rests(order.ord_type, order.time_in_force));
        let reason = match verdict {
            Verdict::Filled => return self.orders.release(slot),
            Verdict::CancelRest(reason) => reason,
            Verdict::Open if can_rest => {
                self.orders.index(slot);
                self.sessions[session].link(&mut self.orders, slot);
                return self.rest(slot);
            }
            Verdict::Open => Reason::NoLiquidity,
        };
        let mut change = Change::new(ExecType::Canceled, OrdStatus::Canceled, request_no);
        change.reason = reason;
        self.release_rest(slot);
        self.say_order(slot, &change, out);
        self.orders.release(slot);
    }

    /// Puts an order's open quantity in the book.
    #[inline]
    pub(crate) fn rest(&mut self, slot: Slot) {
        let order = &self.orders[slot];
        let (instrument, side) = (order.instrument, order.side);
        self.instruments[instrument].side_mut(side).insert(
            &mut self.levels,
            &mut self.orders,
            slot,
        );
    }

    /// Gives back what an order that ends had reserved for its open quantity.
    #[inline]
    pub(crate) fn release_rest(&mut self, slot: Slot) {
        let order = &self.orders[slot];
        self.release(holding_of(order, order.leaves_qty));
    }
}

/// What an order holds for `qty` of its open lots.
#[inline]
pub(crate) fn holding_of(order: &Order, qty: Qty) -> Holding {
    Holding {
        account: order.account,
        instrument: order.instrument,
        side: order.side,
        qty,
        cash: cash_need(order.side, order.price, qty),
    }
}

fn rests(ord_type: OrdType, time_in_force: TimeInForce) -> bool {
    ord_type == OrdType::Limit && matches!(time_in_force, TimeInForce::Day | TimeInForce::Gtc)
}

/// The combinations of type, time in force and flags that are served.
#[inline(always)]
fn check_kind(m: &NewOrder) -> Result<(), Reason> {
    let is_post_only = m.exec_inst.contains(ExecInst::POST_ONLY);
    match m.ord_type {
        OrdType::Limit => {}
        OrdType::Market if !is_post_only => {}
        OrdType::Market | OrdType::Stop | OrdType::StopLimit => {
            return Err(Reason::UnsupportedOrdType);
        }
    }
    if !m.display_qty.is_zero() {
        return Err(Reason::UnsupportedOrdType);
    }
    match m.time_in_force {
        TimeInForce::Day | TimeInForce::Gtc => {}
        TimeInForce::Ioc | TimeInForce::Fok if !is_post_only => {}
        _ => return Err(Reason::UnsupportedTimeInForce),
    }
    if m.stop_px != Price(0) {
        return Err(Reason::InvalidPrice);
    }
    if m.expire_time != weir_types::Nanos(0) {
        return Err(Reason::FieldOutOfRange);
    }
    if is_post_only && !m.min_qty.is_zero() {
        return Err(Reason::InvalidQty);
    }
    Ok(())
}

/// Market orders pay as they go: whether a fill can be paid is asked fill by fill.
pub(crate) fn pays_as_it_goes(ord_type: OrdType) -> bool {
    ord_type == OrdType::Market
}
