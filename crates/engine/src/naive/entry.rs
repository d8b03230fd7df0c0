//! The naive engine's new orders, replaces and cancels.

use weir_types::{
    ClOrdId, ExecInst, ExecType, InstrumentId, KillScope, OrdType, OrderId, Phase, Qty, Reason,
    Rec, RequestNo, Role, SessionId, Side, TimeInForce,
};
use weir_wire::Request;
use weir_wire::order_entry::{CancelOrder, NewOrder, ReplaceOrder};

use super::say::News;
use super::{Instrument, NaiveEngine, Order, worst_cost};
use crate::config::{EventSink, POSITION_LIMIT};

impl NaiveEngine {
    pub(super) fn new_order<S: EventSink>(&mut self, m: &NewOrder, out: &mut S) {
        if let Err(reason) = self.check_new_order(m) {
            return self.say_order_rejected(m, reason, out);
        }
        let rec = self.enter(m);
        let news = News::of(ExecType::New, Reason::None, m.request_no);
        let answer = self.say_order(rec, &news, out);
        self.remember(m.session_id, m.request_no, answer);
        self.sweep(rec, m.request_no, out);
    }

    /// Makes the order live, at the end of the queue of its price.
    pub(super) fn enter(&mut self, m: &NewOrder) -> Rec {
        self.rec += 1;
        self.arrival += 1;
        let order = Order {
            now: *m,
            rec: Rec(self.rec),
            created_time: self.time,
            cum_qty: 0,
            arrival: self.arrival,
        };
        self.names.insert((m.session_id, m.cl_ord_id), order.rec);
        self.interests.insert((m.account_id, m.instrument_id, order.rec));
        self.orders.insert(order.rec, order);
        Rec(self.rec)
    }

    fn check_new_order(&self, m: &NewOrder) -> Result<(), Reason> {
        let session = &self.sessions[&m.session_id];
        if self.is_control() {
            return Err(Reason::WrongPartition);
        }
        if session.role != Role::Trader {
            return Err(Reason::NotEntitled);
        }
        let Some(instrument) = self.instruments.get(&m.instrument_id) else {
            return Err(Reason::UnknownInstrument);
        };
        if !self.is_here(instrument) {
            return Err(Reason::WrongPartition);
        }
        let Some(account) = self.accounts.get(&m.account_id) else {
            return Err(Reason::UnknownAccount);
        };
        if account.firm_id != session.firm_id {
            return Err(Reason::NotYourAccount);
        }
        if self.is_killed(m.session_id, m) {
            return Err(Reason::Killed);
        }
        if instrument.phase != Phase::Continuous {
            return Err(Reason::WrongPhase);
        }
        self.check_form(instrument, m)?;
        if self.names.contains_key(&(m.session_id, m.cl_ord_id)) {
            return Err(Reason::DuplicateClOrdId);
        }
        if self.orders.len() >= self.config.orders_max as usize {
            return Err(Reason::LimitReached);
        }
        let qty = i128::from(m.order_qty.0);
        self.check_cash(m.account_id, worst_cost(m.side, m.price) * qty)?;
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

    /// What can be told from the request and the instrument alone.
    fn check_form(&self, instrument: &Instrument, m: &NewOrder) -> Result<(), Reason> {
        let is_limit = m.ord_type == OrdType::Limit;
        let is_post_only = m.exec_inst == ExecInst::POST_ONLY;
        let is_at_once = matches!(m.time_in_force, TimeInForce::Ioc | TimeInForce::Fok);
        let may_stand = matches!(m.time_in_force, TimeInForce::Day | TimeInForce::Gtc);
        let is_market = m.ord_type == OrdType::Market;
        if !(is_limit || is_market) || (is_market && is_post_only) || m.display_qty.0 != 0 {
            return Err(Reason::UnsupportedOrdType);
        }
        if !(is_at_once || may_stand) || (is_at_once && is_post_only) {
            return Err(Reason::UnsupportedTimeInForce);
        }
        if m.stop_px.0 != 0 {
            return Err(Reason::InvalidPrice);
        }
        if m.expire_time.0 != 0 {
            return Err(Reason::FieldOutOfRange);
        }
        if is_post_only && m.min_qty.0 != 0 {
            return Err(Reason::InvalidQty);
        }
        let is_price_fine =
            if is_limit { is_price_fine(instrument, m.price.0) } else { m.price.0 == 0 };
        if !is_price_fine {
            return Err(Reason::InvalidPrice);
        }
        if !is_qty_fine(instrument, m.order_qty) || m.min_qty > m.order_qty {
            return Err(Reason::InvalidQty);
        }
        if m.cl_ord_id == ClOrdId::NONE { Err(Reason::FieldOutOfRange) } else { Ok(()) }
    }

    /// Whether any of the switches that concern an order is on.
    fn is_killed(&self, session_id: SessionId, m: &NewOrder) -> bool {
        let firm_id = self.sessions[&session_id].firm_id;
        let concerned = [
            (KillScope::All, 0),
            (KillScope::Firm, firm_id.0),
            (KillScope::Account, m.account_id.0),
            (KillScope::Session, session_id.0),
        ];
        concerned.iter().any(|(scope, id)| self.kills.contains(&(scope.code(), *id)))
    }

    /// Whether the account can take or deliver `more` lots than it may have to already.
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

    /// Whether a limit order meets the best price on the other side.
    fn takes(&self, m: &NewOrder) -> bool {
        let best = self.side_of_book(m.instrument_id, m.side.opposite()).next();
        best.is_some_and(|rec| {
            let price = self.orders[&rec].now.price;
            if m.side == Side::Buy { m.price >= price } else { m.price <= price }
        })
    }

    /// What the order would trade at once: tried on a copy.
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

    /// A copy of all that trading depends on.
    fn without_memory(&self) -> NaiveEngine {
        NaiveEngine {
            config: self.config.clone(),
            kills: self.kills.clone(),
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
        if let Err(reason) = self.check_replace(&before, m) {
            let order_id = OrderId::new(self.config.partition_id, before.rec);
            return self.say_rejected(request, order_id, reason, out);
        }
        let loses_priority = m.price != before.now.price || m.order_qty > before.now.order_qty;
        let mut after = before.clone();
        after.now.cl_ord_id = m.cl_ord_id;
        after.now.price = m.price;
        after.now.order_qty = m.order_qty;
        if loses_priority {
            self.arrival += 1;
            after.arrival = self.arrival;
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
            self.sweep(before.rec, m.request_no, out);
        }
    }

    fn check_replace(&self, before: &Order, m: &ReplaceOrder) -> Result<(), Reason> {
        let instrument = &self.instruments[&before.now.instrument_id];
        if self.is_killed(before.now.session_id, &before.now) {
            return Err(Reason::Killed);
        }
        if instrument.phase != Phase::Continuous {
            return Err(Reason::WrongPhase);
        }
        if !is_price_fine(instrument, m.price.0) {
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
        let cost = worst_cost(before.now.side, m.price) * i128::from(leaves_qty);
        self.check_cash(before.now.account_id, cost - before.reserved_cash())?;
        if leaves_qty > before.leaves_qty() {
            self.check_lots(&before.now, leaves_qty - before.leaves_qty())?;
        }
        let after = NewOrder { price: m.price, ..before.now };
        if after.exec_inst == ExecInst::POST_ONLY && self.takes(&after) {
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
        if role == Role::Supervisor {
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

    /// The order that a session names by number, by name or by both.
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

fn is_price_fine(instrument: &Instrument, price: i64) -> bool {
    let d = &instrument.definition;
    (d.price_min.0..=d.price_max.0).contains(&price) && price % d.tick_size.0 == 0
}

fn is_qty_fine(instrument: &Instrument, qty: Qty) -> bool {
    let d = &instrument.definition;
    qty.0 > 0 && qty <= d.order_qty_max && qty.0.is_multiple_of(d.lot_size.0)
}
