//! The naive engine's new orders, replaces and cancels.

use weir_types::{
    ClOrdId, ExecInst, ExecType, InstrumentId, KillScope, Nanos, OrdType, OrderId, Phase, Price,
    Qty, Reason, Rec, RequestNo, Role, SessionId, Side, TimeInForce,
};
use weir_wire::Request;
use weir_wire::order_entry::{CancelOrder, NewOrder, ReplaceOrder};
use weir_wire::reference::DefineInstrument;

use super::say::News;
use super::stops::reaches;
use super::{Instrument, NaiveEngine, Order, OrderLocation, TradingRule, cost_of};
use crate::config::{EventSink, POSITION_LIMIT};

impl NaiveEngine {
    pub(super) fn new_order<S: EventSink>(&mut self, m: &NewOrder, out: &mut S) {
        if let Err(reason) = self.check_new_order(m) {
            self.note_debtor(m, reason);
            return self.say_order_rejected(m, reason, out);
        }
        let bound = self.instruments[&m.instrument_id].bound(m.side);
        if self.reserved_px_of(m).is_some_and(|price| price != bound) {
            self.rules.push(TradingRule::CallMarketAtEdge);
        }
        let rec = self.enter(m);
        let news = News::of(ExecType::New, Reason::None, m.request_no);
        let answer = self.say_order(rec, &news, out);
        self.remember(m.session_id, m.request_no, answer);
        let order = self.order_mut(rec);
        order.now.min_qty = Qty(0);
        match m.ord_type {
            _ if self.is_to_be_parked(m) => self.order_mut(rec).place = OrderLocation::Parked,
            OrdType::Stop | OrdType::StopLimit => {
                self.order_mut(rec).place = OrderLocation::Stop;
                let instrument = &self.instruments[&m.instrument_id];
                let last_price = instrument.session_price();
                if instrument.phase == Phase::Continuous
                    && last_price.is_some_and(|price| reaches(price, m.side, m.stop_px))
                {
                    self.trigger(rec, out);
                }
            }
            _ => self.come_in(rec, m.request_no, out),
        }
    }

    /// Lets an order trade now: it matches, or stands in a call's book.
    pub(super) fn come_in<S: EventSink>(&mut self, rec: Rec, request_no: RequestNo, out: &mut S) {
        let instrument_id = self.orders[&rec].now.instrument_id;
        if self.instruments[&instrument_id].phase == Phase::Continuous {
            self.sweep(rec, request_no, out);
        } else {
            self.stand(rec);
        }
    }

    /// Puts an order into the book, behind all others at its price.
    pub(super) fn stand(&mut self, rec: Rec) {
        self.arrival += 1;
        let arrival = self.arrival;
        let order = self.order_mut(rec);
        order.arrival = arrival;
        order.place = OrderLocation::Book;
        order.shown_qty = order.slice();
        let key = order.book_key();
        self.book.insert(key, rec);
    }

    pub(super) fn order_mut(&mut self, rec: Rec) -> &mut Order {
        self.orders.get_mut(&rec).expect("live")
    }

    fn is_to_be_parked(&self, m: &NewOrder) -> bool {
        m.time_in_force == TimeInForce::AtTheClose
            && self.instruments[&m.instrument_id].phase != Phase::ClosingCall
    }

    /// Returns the price for the cash reservation of a new market order, if it has one.
    fn reserved_px_of(&self, m: &NewOrder) -> Option<Price> {
        let instrument = &self.instruments[&m.instrument_id];
        let is_kept = instrument.is_in_call() || self.is_to_be_parked(m);
        (m.ord_type == OrdType::Market && is_kept).then(|| instrument.waiting_price(m.side))
    }

    /// Makes the order live, without a place yet.
    pub(super) fn enter(&mut self, m: &NewOrder) -> Rec {
        self.rec += 1;
        self.arrival += 1;
        let order = Order {
            now: *m,
            rec: Rec(self.rec),
            created_time: self.time,
            cum_qty: 0,
            arrival: self.arrival,
            place: OrderLocation::Incoming,
            shown_qty: 0,
            reserved_px: self.reserved_px_of(m),
        };
        self.names.insert((m.session_id, m.cl_ord_id), order.rec);
        self.interests.insert((m.account_id, m.instrument_id, order.rec));
        self.orders.insert(order.rec, order);
        Rec(self.rec)
    }

    /// Applies the generic cell rate algorithm, with a burst of one second.
    fn throttle(&mut self, session_id: SessionId) -> Result<(), Reason> {
        const SECOND: u128 = 1_000_000_000;
        let now = u128::from(self.time.0);
        let session = self.sessions.get_mut(&session_id).expect("found by the caller");
        if session.order_rate_max == 0 {
            return Ok(());
        }
        let sum = session.tat.max(now) + SECOND / u128::from(session.order_rate_max);
        if sum > now + SECOND {
            return Err(Reason::Throttled);
        }
        session.tat = sum;
        Ok(())
    }

    fn check_new_order(&mut self, m: &NewOrder) -> Result<(), Reason> {
        if self.is_control() {
            return Err(Reason::WrongPartition);
        }
        if self.sessions[&m.session_id].role != Role::Trader {
            return Err(Reason::NotEntitled);
        }
        self.throttle(m.session_id)?;
        let Some(instrument) = self.instruments.get(&m.instrument_id) else {
            return Err(Reason::UnknownInstrument);
        };
        if !self.is_here(instrument) {
            return Err(Reason::WrongPartition);
        }
        let Some(account) = self.accounts.get(&m.account_id) else {
            return Err(Reason::UnknownAccount);
        };
        if account.firm_id != self.sessions[&m.session_id].firm_id {
            return Err(Reason::NotYourAccount);
        }
        if self.is_killed(m.session_id, m) {
            return Err(Reason::Killed);
        }
        if matches!(instrument.phase, Phase::Closed | Phase::Halted) {
            return Err(Reason::WrongPhase);
        }
        check_kind(m)?;
        self.check_times(instrument, m)?;
        check_numbers(instrument, m)?;
        if m.cl_ord_id == ClOrdId::NONE {
            return Err(Reason::FieldOutOfRange);
        }
        if self.names.contains_key(&(m.session_id, m.cl_ord_id)) {
            return Err(Reason::DuplicateClOrdId);
        }
        if self.orders.len() >= self.config.orders_max as usize {
            return Err(Reason::LimitReached);
        }
        self.check_live(m)?;
        let cost = cost_of(m, self.reserved_px_of(m)) * i128::from(m.order_qty.0);
        self.check_cash(m.account_id, cost)?;
        self.check_lots(m, m.order_qty.0)?;
        if m.exec_inst == ExecInst::POST_ONLY && self.takes(m) {
            return Err(Reason::WouldTakeLiquidity);
        }
        let at_once = if m.time_in_force == TimeInForce::Fok { m.order_qty.0 } else { m.min_qty.0 };
        if at_once > 0 && self.tradable_at_once(m) < at_once {
            return Err(Reason::CannotFill);
        }
        Ok(())
    }

    /// Checks that the session, the account and the firm may have one more live order.
    fn check_live(&self, m: &NewOrder) -> Result<(), Reason> {
        let config = &self.config;
        let session = &self.sessions[&m.session_id];
        let or = |defined: u32, default: u32| if defined == 0 { default } else { defined } as usize;
        let count = |is_its: &dyn Fn(&Order) -> bool| {
            self.orders.values().filter(|order| is_its(order)).count()
        };
        let of_session = count(&|order| order.now.session_id == m.session_id);
        if of_session >= or(session.live_orders_max, config.orders_per_session_max) {
            return Err(Reason::TooManySessionOrders);
        }
        let of_account = count(&|order| order.now.account_id == m.account_id);
        let account_max = self.accounts[&m.account_id].live_orders_max;
        if of_account >= or(account_max, config.orders_per_account_max) {
            return Err(Reason::TooManyAccountOrders);
        }
        let firm_of = |order: &Order| self.sessions[&order.now.session_id].firm_id;
        let of_firm = count(&|order| firm_of(order) == session.firm_id);
        if of_firm >= or(self.firms[&session.firm_id], config.orders_per_firm_max) {
            return Err(Reason::TooManyFirmOrders);
        }
        Ok(())
    }

    /// Checks expiry, minimum quantity, and the limits of the phase.
    fn check_times(&self, instrument: &Instrument, m: &NewOrder) -> Result<(), Reason> {
        let is_expiry_fine = match m.time_in_force {
            TimeInForce::Gtd => m.expire_time > self.time,
            _ => m.expire_time == Nanos(0),
        };
        if !is_expiry_fine {
            return Err(Reason::FieldOutOfRange);
        }
        let is_post_only = m.exec_inst == ExecInst::POST_ONLY;
        let is_auctions =
            matches!(m.time_in_force, TimeInForce::AtTheOpen | TimeInForce::AtTheClose);
        if m.min_qty.0 != 0 && (is_post_only || is_stop(m) || is_auctions) {
            return Err(Reason::InvalidQty);
        }
        let is_at_the_open = m.time_in_force == TimeInForce::AtTheOpen;
        let is_at_once = matches!(m.time_in_force, TimeInForce::Ioc | TimeInForce::Fok);
        if is_at_the_open && instrument.phase != Phase::OpeningCall {
            return Err(Reason::WrongPhase);
        }
        if instrument.is_in_call() && (is_at_once || is_post_only || m.min_qty.0 != 0) {
            return Err(Reason::WrongPhase);
        }
        Ok(())
    }

    /// Returns true if a kill switch that affects the order is on.
    pub(super) fn is_killed(&self, session_id: SessionId, m: &NewOrder) -> bool {
        let firm_id = self.sessions[&session_id].firm_id;
        let concerned = [
            (KillScope::All, 0),
            (KillScope::Firm, firm_id.0),
            (KillScope::Account, m.account_id.0),
            (KillScope::Session, session_id.0),
        ];
        concerned.iter().any(|(scope, id)| self.kills.contains(&(scope.code(), *id)))
    }

    /// Checks that the account can receive or deliver `more` lots in addition to its open orders.
    fn check_lots(&self, m: &NewOrder, more: u64) -> Result<(), Reason> {
        if self.is_pair_refused(m.account_id, m.instrument_id) {
            return Err(Reason::LimitReached);
        }
        let held = self.held(m.account_id, m.instrument_id);
        let open = self.open_lots(m.account_id, m.instrument_id, m.side) + i128::from(more);
        if m.side == Side::Buy {
            return if held + open > POSITION_LIMIT { Err(Reason::LimitReached) } else { Ok(()) };
        }
        if held < open && !self.accounts[&m.account_id].is_unlimited {
            return Err(Reason::InsufficientPosition);
        }
        if held - open < -POSITION_LIMIT { Err(Reason::LimitReached) } else { Ok(()) }
    }

    /// Returns true if a limit order crosses the best price of the other side.
    fn takes(&self, m: &NewOrder) -> bool {
        let best = self.side_of_book(m.instrument_id, m.side.opposite()).next();
        best.is_some_and(|rec| {
            let price = self.orders[&rec].now.price;
            if m.side == Side::Buy { m.price >= price } else { m.price <= price }
        })
    }

    /// Returns the quantity that the order would trade at once, by trying it on a copy.
    fn tradable_at_once(&self, m: &NewOrder) -> u64 {
        let mut trial = self.without_memory();
        let rec = trial.enter(&NewOrder { time_in_force: TimeInForce::Ioc, ..*m });
        let mut traded = 0;
        trial.sweep(rec, RequestNo(0), &mut |event: &weir_wire::Event| {
            if let weir_wire::Event::Plain(weir_wire::PlainEvent::OrderEvent(e)) = event
                && e.rec == rec
                && e.exec_type == ExecType::Trade
            {
                traded += e.last_qty.0;
            }
        });
        traded
    }

    /// Returns a copy of all state that trading depends on.
    fn without_memory(&self) -> NaiveEngine {
        NaiveEngine {
            config: self.config.clone(),
            kills: self.kills.clone(),
            cancel_on_disconnect: self.cancel_on_disconnect.clone(),
            firms: self.firms.clone(),
            accounts: self.accounts.clone(),
            sessions: self.sessions.clone(),
            instruments: self.instruments.clone(),
            holdings: self.holdings.clone(),
            orders: self.orders.clone(),
            book: self.book.clone(),
            names: self.names.clone(),
            interests: self.interests.clone(),
            outcomes: Default::default(),
            trades: Default::default(),
            trade_times: Default::default(),
            schedule: self.schedule.clone(),
            group_changes: self.group_changes.clone(),
            list: None,
            sweeps: Default::default(),
            reached: Vec::new(),
            rules: Vec::new(),
            ..*self
        }
    }

    pub(super) fn replace_order<S: EventSink>(
        &mut self,
        request: &Request,
        m: &ReplaceOrder,
        out: &mut S,
    ) {
        if self.sessions[&m.session_id].role != Role::Trader {
            return self.say_rejected(request, OrderId(0), Reason::NotEntitled, out);
        }
        let found = self.find(m.session_id, m.order_id, m.orig_cl_ord_id, m.instrument_id);
        let Some(before) = found.filter(|order| order.now.session_id == m.session_id) else {
            return self.say_rejected(request, OrderId(0), Reason::UnknownOrder, out);
        };
        let checked = self.throttle(m.session_id).and_then(|()| self.check_replace(&before, m));
        if let Err(reason) = checked {
            let order_id = OrderId::new(self.config.partition_id, before.rec);
            return self.say_rejected(request, order_id, reason, out);
        }
        let is_in_book = before.place == OrderLocation::Book;
        let loses_priority =
            is_in_book && (m.price != before.now.price || m.order_qty > before.now.order_qty);
        let mut after = before.clone();
        after.now.cl_ord_id = m.cl_ord_id;
        after.now.price = m.price;
        after.now.order_qty = m.order_qty;
        after.shown_qty = after.shown_qty.min(after.leaves_qty());
        if loses_priority {
            after.place = OrderLocation::Incoming;
            self.book.remove(&before.book_key());
        }
        self.names.remove(&(m.session_id, before.now.cl_ord_id));
        self.names.insert((m.session_id, m.cl_ord_id), before.rec);
        self.orders.insert(before.rec, after);
        let mut news = News::of(ExecType::Replaced, Reason::None, m.request_no);
        news.orig_cl_ord_id = before.now.cl_ord_id;
        let answer = self.say_order(before.rec, &news, out);
        self.remember(m.session_id, m.request_no, answer);
        if loses_priority {
            self.come_in(before.rec, m.request_no, out);
        }
    }

    fn check_replace(&self, before: &Order, m: &ReplaceOrder) -> Result<(), Reason> {
        let instrument = &self.instruments[&before.now.instrument_id];
        if self.is_killed(before.now.session_id, &before.now) {
            return Err(Reason::Killed);
        }
        if matches!(instrument.phase, Phase::Closed | Phase::Halted) {
            return Err(Reason::WrongPhase);
        }
        let is_price_fine = match before.now.ord_type {
            OrdType::Limit | OrdType::StopLimit => is_price_fine(&instrument.definition, m.price.0),
            OrdType::Market | OrdType::Stop => m.price.0 == 0,
        };
        if !is_price_fine {
            return Err(Reason::InvalidPrice);
        }
        if !is_qty_fine(instrument, m.order_qty) {
            return Err(Reason::InvalidQty);
        }
        if m.order_qty.0 <= before.cum_qty {
            return Err(Reason::QtyBelowFilled);
        }
        if m.cl_ord_id == ClOrdId::NONE {
            return Err(Reason::FieldOutOfRange);
        }
        let namesake = self.names.get(&(m.session_id, m.cl_ord_id));
        if namesake.is_some_and(|rec| *rec != before.rec) {
            return Err(Reason::DuplicateClOrdId);
        }
        let leaves_qty = m.order_qty.0 - before.cum_qty;
        let after = NewOrder { price: m.price, ..before.now };
        let cost = cost_of(&after, before.reserved_px) * i128::from(leaves_qty);
        self.check_cash(before.now.account_id, cost - before.reserved_cash())?;
        if leaves_qty > before.leaves_qty() {
            if is_sliced_too_thin(m.order_qty, before.now.display_qty) {
                return Err(Reason::InvalidQty);
            }
            self.check_lots(&before.now, leaves_qty - before.leaves_qty())?;
        }
        let is_continuous = instrument.phase == Phase::Continuous;
        if is_continuous && after.exec_inst == ExecInst::POST_ONLY && self.takes(&after) {
            return Err(Reason::WouldTakeLiquidity);
        }
        Ok(())
    }

    pub(super) fn cancel_order<S: EventSink>(
        &mut self,
        request: &Request,
        m: &CancelOrder,
        out: &mut S,
    ) {
        let role = self.sessions[&m.session_id].role;
        if [Role::Supervisor, Role::DropCopy, Role::Source, Role::Gateway].contains(&role) {
            return self.say_rejected(request, OrderId(0), Reason::NotEntitled, out);
        }
        let found = self.find(m.session_id, m.order_id, m.orig_cl_ord_id, m.instrument_id);
        let Some(order) = found else {
            return self.say_rejected(request, OrderId(0), Reason::UnknownOrder, out);
        };
        if self.instruments[&m.instrument_id].phase == Phase::Closed && role != Role::Operator {
            let order_id = OrderId::new(self.config.partition_id, order.rec);
            return self.say_rejected(request, order_id, Reason::WrongPhase, out);
        }
        if order.now.session_id == m.session_id {
            let news = News::of(ExecType::Canceled, Reason::None, m.request_no);
            let answer = self.end(order.rec, &news, out);
            self.remember(m.session_id, m.request_no, answer);
        } else {
            self.end(order.rec, &News::of(ExecType::Canceled, Reason::None, RequestNo(0)), out);
            self.say_done(request, 1, out);
        }
    }

    /// Returns the order that a session names by number, by name or by both.
    fn find(
        &self,
        session_id: SessionId,
        order_id: OrderId,
        name: ClOrdId,
        instrument_id: InstrumentId,
    ) -> Option<Order> {
        let session = &self.sessions[&session_id];
        let order = if order_id != OrderId(0) {
            let order = self.orders.get(&order_id.rec())?;
            let is_it = OrderId::new(self.config.partition_id, order.rec) == order_id
                && (name == ClOrdId::NONE || name == order.now.cl_ord_id);
            is_it.then_some(order)?
        } else {
            &self.orders[self.names.get(&(session_id, name))?]
        };
        let may_see = session.role == Role::Operator
            || session.firm_id == self.sessions[&order.now.session_id].firm_id;
        (may_see && order.now.instrument_id == instrument_id).then(|| order.clone())
    }
}

fn is_stop(m: &NewOrder) -> bool {
    matches!(m.ord_type, OrdType::Stop | OrdType::StopLimit)
}

/// Checks that the fields which define the kind of order are consistent.
fn check_kind(m: &NewOrder) -> Result<(), Reason> {
    let is_post_only = m.exec_inst == ExecInst::POST_ONLY;
    let is_limit = m.ord_type == OrdType::Limit;
    let is_iceberg = m.display_qty.0 != 0;
    if (is_post_only || is_iceberg) && !is_limit {
        return Err(Reason::UnsupportedOrdType);
    }
    let (is_for_a_moment, is_dated) = match m.time_in_force {
        TimeInForce::Ioc | TimeInForce::Fok => (true, false),
        TimeInForce::AtTheOpen | TimeInForce::AtTheClose => (true, false),
        TimeInForce::Gtd => (false, true),
        TimeInForce::Day | TimeInForce::Gtc => (false, false),
    };
    if (is_for_a_moment && (is_stop(m) || is_post_only || is_iceberg))
        || (is_dated && m.ord_type == OrdType::Market)
    {
        return Err(Reason::UnsupportedTimeInForce);
    }
    if (m.stop_px.0 != 0) != is_stop(m) { Err(Reason::InvalidPrice) } else { Ok(()) }
}

fn check_numbers(instrument: &Instrument, m: &NewOrder) -> Result<(), Reason> {
    let has_price = matches!(m.ord_type, OrdType::Limit | OrdType::StopLimit);
    for (price, is_given) in [(m.price, has_price), (m.stop_px, is_stop(m))] {
        if is_given && !is_price_fine(&instrument.definition, price.0) || !is_given && price.0 != 0
        {
            return Err(Reason::InvalidPrice);
        }
    }
    let is_slice_fine = m.display_qty <= m.order_qty
        && !is_sliced_too_thin(m.order_qty, m.display_qty)
        && m.display_qty.0.is_multiple_of(instrument.definition.lot_size.0);
    if !is_qty_fine(instrument, m.order_qty) || m.min_qty > m.order_qty || !is_slice_fine {
        return Err(Reason::InvalidQty);
    }
    Ok(())
}

/// Returns true if a limit may have this price. With a definition without a tick, no price may.
pub(super) fn is_price_fine(d: &DefineInstrument, price: i64) -> bool {
    let is_on_tick = d.tick_size.0 > 0 && price % d.tick_size.0 == 0;
    is_on_tick && (d.price_min.0..=d.price_max.0).contains(&price)
}

/// Returns true if an iceberg of this total has more slices than allowed.
fn is_sliced_too_thin(order_qty: Qty, display_qty: Qty) -> bool {
    display_qty.0 != 0 && u128::from(order_qty.0) > 100 * u128::from(display_qty.0)
}

fn is_qty_fine(instrument: &Instrument, qty: Qty) -> bool {
    let d = &instrument.definition;
    qty.0 > 0 && qty <= d.order_qty_max && qty.0.is_multiple_of(d.lot_size.0)
}
