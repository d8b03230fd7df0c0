//! New orders: the checks in their fixed order, the acceptance, and the end of the rest.
//!
//! The first failing check gives the reason. The order of checks is part of the protocol, because
//! every replica and the oracle must give the same reason. A refusal changes numbers, the session's
//! remembered answers and, from the throttle check on, its rate count; it changes no orders and no
//! reservations.

use weir_types::{
    Cash, ExecInst, ExecType, Nanos, OrdStatus, OrdType, Phase, Price, Qty, Reason, RequestNo,
    Role, TimeInForce,
};
use weir_wire::order_entry::NewOrder;

use crate::account::{Holding, cash_need};
use crate::config::{EventSink, SLICES_MAX};
use crate::emit::Change;
use crate::engine::Engine;
use crate::index::{NIL, Slot};
use crate::instrument::{Instrument, is_call, takes_entry};
use crate::matching::Verdict;
use crate::order::{Order, OrderLocation};
use crate::plant::{self, Plant};
use crate::stops::is_stop;

/// The rows that a valid new order names.
#[derive(Clone, Copy)]
struct Target {
    session: Slot,
    account: Slot,
    instrument: Slot,
}

impl Engine {
    pub(crate) fn new_order<S: EventSink>(&mut self, session: Slot, m: &NewOrder, out: &mut S) {
        // Prefetched now, so that it has arrived when the checks need it.
        self.orders.prefetch_name(session, m.cl_ord_id);
        let is_plain = is_plain(m);
        let target = match self.check_new_order(session, m, is_plain) {
            Ok(target) => target,
            Err(reason) => return self.reject_order(session, m, reason, out),
        };
        let slot = self.accept(target, m);
        let mut change = Change::new(ExecType::New, OrdStatus::New, m.request_no);
        change.is_answer = true;
        change.min_qty = m.min_qty;
        self.say_order(slot, &change, out);
        let instrument = &self.instruments[target.instrument];
        let phase = instrument.phase;
        if is_plain && phase == Phase::Continuous && !instrument.would_cross(m.side, m.price) {
            return self.stand(slot, OrderLocation::Book, false);
        }
        if m.time_in_force == TimeInForce::AtTheClose && phase != Phase::ClosingCall {
            return self.stand(slot, OrderLocation::Parked, false);
        }
        if is_stop(m.ord_type) {
            if !instrument.triggers_at_once(m.side, m.stop_px) {
                return self.stand(slot, OrderLocation::Stop, false);
            }
            self.trigger(slot, false, out);
        } else if phase == Phase::Continuous {
            let verdict = self.match_incoming(slot, m.request_no, out);
            self.finish(slot, verdict, m.request_no, false, out);
        } else {
            return self.stand(slot, OrderLocation::Book, false);
        }
        self.look_at_stops(target.instrument, out);
    }

    fn check_new_order(
        &mut self,
        session: Slot,
        m: &NewOrder,
        is_plain: bool,
    ) -> Result<Target, Reason> {
        if self.config.partition_id.is_none() {
            return Err(Reason::WrongPartition);
        }
        if self.sessions[session].role != Role::Trader {
            return Err(Reason::NotEntitled);
        }
        self.sessions[session].throttle(self.time)?;
        let target = self.check_target(session, m)?;
        let traded = &self.instruments[target.instrument];
        if self.is_entry_killed(session, target.account) {
            return Err(Reason::Killed);
        }
        if !takes_entry(traded.phase) {
            return Err(Reason::WrongPhase);
        }
        if is_plain {
            traded.check_price(m.price)?;
            traded.check_qty(m.order_qty)?;
        } else {
            check_kind(m, self.time)?;
            check_phase(m, traded.phase)?;
            check_numbers(m, traded)?;
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
        self.check_live(session, target.account)?;
        if self.config.has_risk {
            let need = cash_need(m.side, reserved_at(m, traded), m.order_qty);
            self.check_cash(target.account, need)?;
            self.check_position(target.account, target.instrument, m.side, m.order_qty)?;
        }
        if !is_plain {
            self.check_execution(target, m)?;
        }
        Ok(target)
    }

    fn check_target(&self, session: Slot, m: &NewOrder) -> Result<Target, Reason> {
        let instrument =
            self.instruments.find(m.instrument_id.0).ok_or(Reason::UnknownInstrument)?;
        if self.instruments[instrument].definition.partition_id != self.config.partition_id {
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
        Ok(Target { session, account, instrument })
    }

    /// Checks the conditions on the current book: post-only, fill-or-kill, minimum quantity.
    fn check_execution(&mut self, target: Target, m: &NewOrder) -> Result<(), Reason> {
        if m.exec_inst.contains(ExecInst::POST_ONLY)
            && self.instruments[target.instrument].would_cross(m.side, m.price)
        {
            return Err(Reason::WouldTakeLiquidity);
        }
        let at_once = match m.time_in_force {
            TimeInForce::Fok => m.order_qty,
            _ => m.min_qty,
        };
        if at_once.is_zero() || self.can_fill(target.account, target.instrument, m, at_once) {
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

    /// Returns true if a kill switch refuses entry to a live order's session or account.
    pub(crate) fn is_order_killed(&self, slot: Slot) -> bool {
        let order = &self.orders[slot];
        self.is_entry_killed(order.session, order.account)
    }

    /// Creates the order's record and reserves its means.
    #[inline(always)]
    fn accept(&mut self, target: Target, m: &NewOrder) -> Slot {
        self.rec = self.rec.next();
        let price = reserved_at(m, &self.instruments[target.instrument]);
        if self.config.has_risk {
            self.reserve(Holding {
                account: target.account,
                instrument: target.instrument,
                side: m.side,
                qty: m.order_qty,
                cash: if is_unreserved(m.ord_type) {
                    Cash::ZERO
                } else {
                    cash_need(m.side, price, m.order_qty)
                },
            });
        }
        self.orders.alloc(Order {
            rec: self.rec,
            price,
            leaves_qty: m.order_qty,
            order_qty: m.order_qty,
            level_next: NIL,
            level_prev: NIL,
            level: NIL,
            account: target.account,
            session: target.session,
            instrument: target.instrument,
            side: m.side,
            ord_type: m.ord_type,
            time_in_force: m.time_in_force,
            exec_inst: m.exec_inst,
            self_trade_prevention: m.self_trade_prevention,
            place: OrderLocation::None,
            is_iceberg: !m.display_qty.is_zero(),
            cl_ord_id: m.cl_ord_id,
            created_time: self.time,
            shown_qty: Qty::ZERO,
            session_next: NIL,
            session_prev: NIL,
            stop_px: m.stop_px,
            display_qty: m.display_qty,
            expire_time: m.expire_time,
        })
    }

    /// Ends an order that was matched in this command, or lets its rest stand. `is_listed` means
    /// that it has been in the indexes and its session's list since before this command.
    pub(crate) fn finish<S: EventSink>(
        &mut self,
        slot: Slot,
        verdict: Verdict,
        request_no: RequestNo,
        is_listed: bool,
        out: &mut S,
    ) {
        let can_rest = rests(&self.orders[slot]);
        let reason = match verdict {
            Verdict::Filled => return self.drop_row(slot, is_listed),
            Verdict::Open | Verdict::Interrupted if can_rest => {
                return self.stand(slot, OrderLocation::Book, is_listed);
            }
            Verdict::Open => Reason::NoLiquidity,
            Verdict::Interrupted => Reason::VolatilityInterruption,
            Verdict::CancelRest(reason) => reason,
        };
        let mut change = Change::new(ExecType::Canceled, OrdStatus::Canceled, request_no);
        change.reason = reason;
        self.release_rest(slot);
        self.say_order(slot, &change, out);
        self.drop_row(slot, is_listed);
    }

    fn drop_row(&mut self, slot: Slot, is_listed: bool) {
        if is_listed {
            self.delist(slot);
        } else {
            self.orders.release(slot);
        }
    }

    /// Puts an order in its place, behind all others there, and lists it if it was not listed
    /// before.
    #[inline]
    pub(crate) fn stand(&mut self, slot: Slot, place: OrderLocation, is_listed: bool) {
        if !is_listed {
            self.list(slot);
        }
        let order = &mut self.orders[slot];
        order.place = place;
        if order.is_iceberg {
            order.shown_qty = order.next_slice();
        }
        let order = &self.orders[slot];
        let (queue, price) = self.instruments[order.instrument].queue_mut(order);
        queue.insert(&mut self.levels, &mut self.orders, slot, price);
    }

    /// Adds an order to the indexes, its session's list, the counts of live orders and, if it
    /// expires, the timers.
    #[inline]
    pub(crate) fn list(&mut self, slot: Slot) {
        self.orders.index(slot);
        let order = &self.orders[slot];
        if order.expire_time != Nanos(0) {
            self.timers.add_expiry(order.expire_time, order.rec, order.instrument);
        }
        let (session, account) = (order.session, order.account);
        self.sessions[session].link(&mut self.orders, slot);
        self.count_in(session, account);
    }

    /// Releases the reservation for the open quantity of an order that ends.
    #[inline]
    pub(crate) fn release_rest(&mut self, slot: Slot) {
        if self.config.has_risk {
            let order = &self.orders[slot];
            self.release(holding_of(order, order.leaves_qty));
        }
    }
}

/// Returns the reservation for `qty` open lots of an order.
#[inline]
pub(crate) fn holding_of(order: &Order, qty: Qty) -> Holding {
    Holding {
        account: order.account,
        instrument: order.instrument,
        side: order.side,
        qty,
        cash: if is_unreserved(order.ord_type) {
            Cash::ZERO
        } else {
            cash_need(order.side, order.price, qty)
        },
    }
}

/// Returns the price at which a new order reserves cash; zero reserves none. A market order
/// reserves only in a call, or parked for one.
fn reserved_at(m: &NewOrder, instrument: &Instrument) -> Price {
    let waits = m.time_in_force == TimeInForce::AtTheClose || is_call(instrument.phase);
    match m.ord_type {
        OrdType::Market if waits => instrument.call_reservation(m.side),
        _ => m.price,
    }
}

/// Returns true for most orders: a limit that stands until it is filled or cancelled, without
/// further conditions. No check of combinations refuses it in any phase with order entry, and it
/// trades only if it crosses the best price.
#[inline(always)]
fn is_plain(m: &NewOrder) -> bool {
    let asked = m.min_qty.0 | m.display_qty.0 | m.stop_px.0 as u64 | m.expire_time.0;
    asked == 0
        && m.exec_inst == ExecInst::NONE
        && m.ord_type == OrdType::Limit
        && matches!(m.time_in_force, TimeInForce::Day | TimeInForce::Gtc)
}

/// Returns true if the rest of an order stands in the book after continuous matching.
fn rests(order: &Order) -> bool {
    use TimeInForce::{Day, Gtc, Gtd};
    order.ord_type == OrdType::Limit && matches!(order.time_in_force, Day | Gtc | Gtd)
}

/// Checks that some phase serves the combination of type, time in force and flags.
fn check_kind(m: &NewOrder, now: Nanos) -> Result<(), Reason> {
    use TimeInForce::{AtTheClose, AtTheOpen, Fok, Gtd, Ioc};
    let is_post_only = m.exec_inst.contains(ExecInst::POST_ONLY);
    let is_iceberg = !m.display_qty.is_zero();
    let is_stop = is_stop(m.ord_type);
    if m.ord_type != OrdType::Limit && (is_post_only || is_iceberg) {
        return Err(Reason::UnsupportedOrdType);
    }
    let is_brief = matches!(m.time_in_force, Ioc | Fok | AtTheOpen | AtTheClose);
    let is_dated = m.time_in_force == Gtd;
    if is_brief && (is_stop || is_post_only || is_iceberg)
        || is_dated && m.ord_type == OrdType::Market
    {
        return Err(Reason::UnsupportedTimeInForce);
    }
    if is_stop == (m.stop_px == Price(0)) {
        return Err(Reason::InvalidPrice);
    }
    let is_time_fine = if is_dated { m.expire_time > now } else { m.expire_time == Nanos(0) };
    if !is_time_fine {
        return Err(Reason::FieldOutOfRange);
    }
    let is_of_call = matches!(m.time_in_force, AtTheOpen | AtTheClose);
    if !m.min_qty.is_zero() && (is_post_only || is_stop || is_of_call) {
        return Err(Reason::InvalidQty);
    }
    Ok(())
}

/// Checks that the current phase serves the order.
fn check_phase(m: &NewOrder, phase: Phase) -> Result<(), Reason> {
    let is_late = m.time_in_force == TimeInForce::AtTheOpen && phase != Phase::OpeningCall;
    let is_at_once = matches!(m.time_in_force, TimeInForce::Ioc | TimeInForce::Fok)
        || m.exec_inst.contains(ExecInst::POST_ONLY)
        || !m.min_qty.is_zero();
    if is_late || is_call(phase) && is_at_once { Err(Reason::WrongPhase) } else { Ok(()) }
}

/// Checks prices and quantities against the instrument's definition.
fn check_numbers(m: &NewOrder, instrument: &Instrument) -> Result<(), Reason> {
    match m.ord_type {
        OrdType::Limit | OrdType::StopLimit => instrument.check_price(m.price)?,
        _ if m.price != Price(0) => return Err(Reason::InvalidPrice),
        _ => {}
    }
    if is_stop(m.ord_type) {
        instrument.check_price(m.stop_px)?;
    }
    instrument.check_qty(m.order_qty)?;
    let is_shown_fine = m.display_qty <= m.order_qty
        && instrument.is_on_lot(m.display_qty)
        && (m.display_qty.is_zero() || slices_suffice(m.display_qty, m.order_qty));
    if m.min_qty > m.order_qty || !is_shown_fine {
        return Err(Reason::InvalidQty);
    }
    Ok(())
}

/// Returns true if the maximum number of slices holds an iceberg's total. Neither quantity exceeds
/// 2^40.
pub(crate) fn slices_suffice(display_qty: Qty, order_qty: Qty) -> bool {
    display_qty.0 * SLICES_MAX >= order_qty.0 || plant::is(Plant::AnySlice)
}

/// Returns true if a planted bug suppresses the order's cash reservation.
#[inline]
fn is_unreserved(ord_type: OrdType) -> bool {
    plant::is(Plant::CallMarketUnreserved) && ord_type == OrdType::Market
}

/// Returns true for market orders, whose cash is checked fill by fill.
pub(crate) fn pays_as_it_goes(ord_type: OrdType) -> bool {
    ord_type == OrdType::Market
}
