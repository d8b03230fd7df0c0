//! The naive engine's events.

use weir_types::{
    Cash, ClOrdId, EventNo, ExecId, ExecType, InstrumentId, KillScope, Liquidity, MatchId, Nanos,
    OrdStatus, OrderId, PhaseReached, Price, Qty, Reason, Rec, RequestNo, Seq, SessionId,
};
use weir_wire::event::{Checkpoint, OrderEvent, RequestDone, RequestRejected};
use weir_wire::order_entry::NewOrder;
use weir_wire::reference::{ResumeTrading, SetPhase};
use weir_wire::{Event, PlainEvent, Request};

use super::NaiveEngine;
use crate::config::EventSink;
use crate::digest::{self, CheckpointParts, Counts, Numbers};

/// The content of an order's event apart from the order's state.
pub(super) struct News {
    pub(super) exec_type: ExecType,
    pub(super) reason: Reason,
    pub(super) request_no: RequestNo,
    pub(super) orig_cl_ord_id: ClOrdId,
    /// Trade number, price, lots, and the order's role in the trade.
    pub(super) trade: Option<(u64, Price, u64, Liquidity)>,
}

impl News {
    pub(super) fn of(exec_type: ExecType, reason: Reason, request_no: RequestNo) -> News {
        News { exec_type, reason, request_no, orig_cl_ord_id: ClOrdId::NONE, trade: None }
    }
}

impl NaiveEngine {
    pub(super) fn say<S: EventSink>(&mut self, event: Event, out: &mut S) {
        self.digest = digest::fold_event(self.digest, &event);
        out.event(&event);
    }

    pub(super) fn next_event_no(&mut self, session_id: SessionId) -> EventNo {
        let session = self.sessions.get_mut(&session_id).expect("answers go to known sessions");
        let event_no = session.next_event_no;
        session.next_event_no = EventNo(event_no.0 + 1);
        event_no
    }

    /// Reports a change of a live order; its end is reported before it is removed.
    pub(super) fn say_order<S: EventSink>(
        &mut self,
        rec: Rec,
        news: &News,
        out: &mut S,
    ) -> PlainEvent {
        let order = self.orders[&rec].clone();
        self.seq += 1;
        let ord_status = match news.exec_type {
            ExecType::Canceled => OrdStatus::Canceled,
            ExecType::Expired => OrdStatus::Expired,
            _ if order.leaves_qty() == 0 => OrdStatus::Filled,
            _ if order.cum_qty > 0 => OrdStatus::PartiallyFilled,
            _ => OrdStatus::New,
        };
        let mut event = self.order_event(&order.now, news.exec_type, ord_status);
        let is_live = matches!(ord_status, OrdStatus::New | OrdStatus::PartiallyFilled);
        event.request_no = news.request_no;
        event.rec = rec;
        event.seq = Seq(self.seq);
        event.order_id = OrderId::new(self.config.partition_id, rec);
        event.created_time = order.created_time;
        event.orig_cl_ord_id = news.orig_cl_ord_id;
        event.leaves_qty = Qty(if is_live { order.leaves_qty() } else { 0 });
        event.cum_qty = Qty(order.cum_qty);
        event.reason = news.reason;
        if let Some((match_id, price, lots, liquidity)) = news.trade {
            event.match_id = MatchId(match_id);
            event.last_px = price;
            event.last_qty = Qty(lots);
            event.liquidity = liquidity;
        }
        let event = PlainEvent::OrderEvent(event);
        self.say(Event::Plain(event), out);
        event
    }

    pub(super) fn say_order_rejected<S: EventSink>(
        &mut self,
        m: &NewOrder,
        reason: Reason,
        out: &mut S,
    ) {
        let mut event = self.order_event(m, ExecType::Rejected, OrdStatus::Rejected);
        event.reason = reason;
        let event = PlainEvent::OrderEvent(event);
        self.remember(m.session_id, m.request_no, event);
        self.say(Event::Plain(event), out);
    }

    /// Creates an order event with the next numbers and the request's fields.
    fn order_event(&mut self, m: &NewOrder, exec_type: ExecType, to: OrdStatus) -> OrderEvent {
        self.exec_id += 1;
        OrderEvent {
            position: self.position,
            event_no: self.next_event_no(m.session_id),
            request_no: m.request_no,
            rec: Rec(0),
            seq: Seq(0),
            order_id: OrderId(0),
            exec_id: ExecId(self.exec_id),
            match_id: MatchId(0),
            transact_time: self.time,
            created_time: Nanos(0),
            cl_ord_id: m.cl_ord_id,
            orig_cl_ord_id: ClOrdId::NONE,
            price: m.price,
            stop_px: m.stop_px,
            last_px: Price(0),
            last_qty: Qty(0),
            order_qty: m.order_qty,
            leaves_qty: Qty(0),
            cum_qty: Qty(0),
            display_qty: m.display_qty,
            min_qty: m.min_qty,
            expire_time: m.expire_time,
            session_id: m.session_id,
            firm_id: self.sessions[&m.session_id].firm_id,
            account_id: m.account_id,
            instrument_id: m.instrument_id,
            partition_id: self.config.partition_id,
            reason: Reason::None,
            side: m.side,
            ord_type: m.ord_type,
            time_in_force: m.time_in_force,
            exec_inst: m.exec_inst,
            self_trade_prevention: m.self_trade_prevention,
            exec_type,
            ord_status: to,
            liquidity: Liquidity::None,
        }
    }

    fn rejection(
        &self,
        request: &Request,
        order_id: OrderId,
        event_no: EventNo,
        reason: Reason,
    ) -> PlainEvent {
        let (cl_ord_id, orig_cl_ord_id, instrument_id) = names(request);
        PlainEvent::RequestRejected(RequestRejected {
            position: self.position,
            event_no,
            request_no: request.request_no(),
            order_id,
            transact_time: self.time,
            cl_ord_id,
            orig_cl_ord_id,
            session_id: request.session_id(),
            instrument_id,
            partition_id: self.config.partition_id,
            reason,
            ref_template_id: request.template_id(),
        })
    }

    pub(super) fn say_rejected<S: EventSink>(
        &mut self,
        request: &Request,
        order_id: OrderId,
        reason: Reason,
        out: &mut S,
    ) {
        let event_no = self.next_event_no(request.session_id());
        let event = self.rejection(request, order_id, event_no, reason);
        self.remember(request.session_id(), request.request_no(), event);
        self.say(Event::Plain(event), out);
    }

    pub(super) fn say_unknown_session<S: EventSink>(&mut self, request: &Request, out: &mut S) {
        let reason = Reason::UnknownSession;
        let event = self.rejection(request, OrderId(0), EventNo(0), reason);
        self.say(Event::Plain(event), out);
    }

    pub(super) fn say_refused_for_now<S: EventSink>(
        &mut self,
        request: &Request,
        reason: Reason,
        out: &mut S,
    ) {
        let event_no = self.next_event_no(request.session_id());
        let event = self.rejection(request, OrderId(0), event_no, reason);
        self.say(Event::Plain(event), out);
    }

    pub(super) fn say_done<S: EventSink>(&mut self, request: &Request, count: u64, out: &mut S) {
        self.say_this_done(self.done_without_number(request, count), out);
    }

    pub(super) fn say_this_done<S: EventSink>(&mut self, mut done: RequestDone, out: &mut S) {
        done.event_no = self.next_event_no(done.session_id);
        let event = PlainEvent::RequestDone(done);
        self.remember(done.session_id, done.request_no, event);
        self.say(Event::Plain(event), out);
    }

    /// Reports the end of a request of an earlier command. The answer takes its place, unless newer
    /// answers have.
    pub(super) fn say_done_late<S: EventSink>(
        &mut self,
        session_id: SessionId,
        request_no: RequestNo,
        mut done: RequestDone,
        out: &mut S,
    ) {
        done.event_no = self.next_event_no(session_id);
        let event = PlainEvent::RequestDone(done);
        let answers = self.outcomes.entry(session_id).or_default();
        if let Some(place) = answers.get_mut(&request_no) {
            *place = event;
        }
        self.say(Event::Plain(event), out);
    }

    pub(super) fn done_without_number(&self, request: &Request, count: u64) -> RequestDone {
        RequestDone {
            position: self.position,
            event_no: EventNo(0),
            request_no: request.request_no(),
            transact_time: self.time,
            cl_ord_id: names(request).0,
            affected_count: count,
            session_id: request.session_id(),
            partition_id: self.config.partition_id,
            ref_template_id: request.template_id(),
            phase_reached: self.phase_reached(request),
            ..RequestDone::NOTHING_TOLD
        }
    }

    /// Returns the phase that a request about it has reached.
    fn phase_reached(&self, request: &Request) -> PhaseReached {
        match request {
            Request::SetPhase(SetPhase { instrument_id, .. })
            | Request::ResumeTrading(ResumeTrading { instrument_id, .. }) => {
                self.instruments[instrument_id].phase.into()
            }
            _ => PhaseReached::None,
        }
    }

    /// Repeats the first answer, under a new event number and without a change of any record.
    pub(super) fn say_again<S: EventSink>(&mut self, first: PlainEvent, out: &mut S) {
        let again = match first {
            PlainEvent::OrderEvent(e) => {
                let event_no = self.next_event_no(e.session_id);
                let position = self.position;
                let (rec, seq) = (Rec(0), Seq(0));
                PlainEvent::OrderEvent(OrderEvent { event_no, position, rec, seq, ..e })
            }
            PlainEvent::RequestRejected(e) => {
                let event_no = self.next_event_no(e.session_id);
                let position = self.position;
                PlainEvent::RequestRejected(RequestRejected { event_no, position, ..e })
            }
            PlainEvent::RequestDone(e) => {
                let event_no = self.next_event_no(e.session_id);
                let position = self.position;
                PlainEvent::RequestDone(RequestDone { event_no, position, ..e })
            }
            PlainEvent::PhaseChanged(_)
            | PlainEvent::Checkpoint(_)
            | PlainEvent::TradeBusted(_)
            | PlainEvent::Uncrossed(_)
            | PlainEvent::ReferencesChanged(_) => {
                unreachable!("only answers are remembered")
            }
        };
        self.say(Event::Plain(again), out);
    }

    fn standing(&self) -> CheckpointParts {
        let ends = self.instruments.iter().filter_map(|(id, instrument)| {
            instrument.call_end.map(|at| digest::timer_word(at, *id, None))
        });
        let changes = (self.schedule.iter())
            .map(|((id, at), phase)| digest::timer_word(*at, *id, Some(*phase)));
        let choices = self.cancel_on_disconnect.iter().map(|id| digest::choice_word(*id));
        CheckpointParts {
            numbers: Numbers {
                rec: self.rec,
                seq: self.seq,
                exec_id: self.exec_id,
                match_id: self.match_id,
            },
            control_position: self.control_position,
            is_killed: self.kills.contains(&(KillScope::All.code(), 0)),
            cash_moved_in: Cash(self.cash_moved_in),
            cash_moved_out: Cash(self.cash_moved_out),
            counts: Counts {
                orders: self.orders.len(),
                positions: self.open_position_count(),
                firms: self.firms.len(),
                accounts: self.accounts.len(),
                sessions: self.sessions.len(),
                instruments: self.instruments.len(),
                trades: self.retained_trades().count,
                imports_refused: self.imports_refused,
            },
            timers_and_choices: (ends.chain(changes).chain(choices))
                .fold(self.group_changes_word(), u64::wrapping_add)
                .wrapping_add(self.list_word()),
            sweeps: self.sweeps_word(),
        }
    }

    pub(super) fn say_checkpoint<S: EventSink>(&mut self, out: &mut S) {
        self.digest = digest::fold_standing(self.digest, &self.standing());
        let checkpoint = Checkpoint {
            position: self.position,
            transact_time: self.time,
            digest: self.digest,
            seq: Seq(self.seq),
            rec: Rec(self.rec),
            partition_id: self.config.partition_id,
        };
        self.say(Event::Plain(PlainEvent::Checkpoint(checkpoint)), out);
    }
}

/// Returns the request's own name, the order's name in it, and its instrument.
fn names(request: &Request) -> (ClOrdId, ClOrdId, InstrumentId) {
    const NO: ClOrdId = ClOrdId::NONE;
    match request {
        Request::NewOrder(m) => (m.cl_ord_id, NO, m.instrument_id),
        Request::ReplaceOrder(m) => (m.cl_ord_id, m.orig_cl_ord_id, m.instrument_id),
        Request::CancelOrder(m) => (m.cl_ord_id, m.orig_cl_ord_id, m.instrument_id),
        Request::MassCancel(m) => (m.cl_ord_id, NO, m.instrument_id),
        Request::Transfer(m) => (NO, NO, m.instrument_id),
        Request::SetPhase(m) => (NO, NO, m.instrument_id),
        Request::ResumeTrading(m) => (NO, NO, m.instrument_id),
        Request::SetReference(m) => (NO, NO, m.instrument_id),
        Request::DefineInstrument(m) => (NO, NO, m.instrument_id),
        Request::SchedulePhase(m) => (NO, NO, m.instrument_id),
        Request::SchedulePhases(m) => (NO, NO, m.instrument_id),
        Request::KillSwitch(_)
        | Request::BustTrade(_)
        | Request::ChangePhases(_)
        | Request::AccountInquiry(_)
        | Request::DefineFirm(_)
        | Request::DefineAccount(_)
        | Request::DefineSession(_) => (NO, NO, InstrumentId(0)),
    }
}
