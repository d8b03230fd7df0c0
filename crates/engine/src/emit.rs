//! Emission of events: assigns numbers, fills in the order's whole state, updates the digest.
//!
//! Every order event takes the next `exec_id` and the next `event_no` of its session; all except
//! rejections and repeated answers take the next `seq`. Other modules emit only events of their
//! own: phases, uncrossings, busts.

use weir_types::{
    ClOrdId, EventNo, ExecId, ExecType, FirmId, InstrumentId, Liquidity, MatchId, OrdStatus,
    OrderId, Price, Qty, Reason, Rec, RequestNo, Seq,
};
use weir_wire::event::{OrderEvent, RequestDone, RequestRejected};
use weir_wire::order_entry::NewOrder;
use weir_wire::{Event, PlainEvent};

use crate::config::EventSink;
use crate::digest;
use crate::engine::{Engine, OrderQueue, QueuedOrder};
use crate::index::{NIL, Slot};
use crate::matching::status_of_live;
use crate::outcomes::RepeatRequester;
use crate::session::Session;

/// The content of an order's event that is not in its row.
#[derive(Clone, Copy)]
pub(crate) struct Change {
    pub(crate) exec_type: ExecType,
    pub(crate) ord_status: OrdStatus,
    pub(crate) reason: Reason,
    pub(crate) request_no: RequestNo,
    pub(crate) orig_cl_ord_id: ClOrdId,
    pub(crate) match_id: MatchId,
    pub(crate) last_px: Price,
    pub(crate) last_qty: Qty,
    /// The minimum quantity of a new order; no later event carries it.
    pub(crate) min_qty: Qty,
    pub(crate) liquidity: Liquidity,
    /// True for the first answer to its session's request, which is remembered.
    pub(crate) is_answer: bool,
}

impl Change {
    pub(crate) fn new(exec_type: ExecType, ord_status: OrdStatus, request_no: RequestNo) -> Change {
        Change {
            exec_type,
            ord_status,
            reason: Reason::None,
            request_no,
            orig_cl_ord_id: ClOrdId::NONE,
            match_id: MatchId::NONE,
            last_px: Price(0),
            last_qty: Qty::ZERO,
            min_qty: Qty::ZERO,
            liquidity: Liquidity::None,
            is_answer: false,
        }
    }
}

/// The requester: its session and the request.
#[derive(Clone, Copy)]
pub(crate) struct Requester {
    pub(crate) session: Slot,
    pub(crate) request_no: RequestNo,
    pub(crate) template_id: u16,
}

/// The identifiers that a refused request named.
#[derive(Clone, Copy)]
pub(crate) struct NamedIds {
    pub(crate) order_id: OrderId,
    pub(crate) cl_ord_id: ClOrdId,
    pub(crate) orig_cl_ord_id: ClOrdId,
    pub(crate) instrument_id: InstrumentId,
}

impl NamedIds {
    pub(crate) const NOTHING: NamedIds = NamedIds {
        order_id: OrderId::NONE,
        cl_ord_id: ClOrdId::NONE,
        orig_cl_ord_id: ClOrdId::NONE,
        instrument_id: InstrumentId::NONE,
    };
}

impl Engine {
    /// Emits an event and folds it into the digest.
    #[inline]
    pub(crate) fn say<S: EventSink>(&mut self, event: &Event, out: &mut S) {
        if !S::IS_ONLY_HEARER && self.config.is_digested {
            self.digest = digest::fold_event(self.digest, event);
        }
        out.event(event);
    }

    pub(crate) fn say_answer<S: EventSink>(
        &mut self,
        session: Slot,
        event: PlainEvent,
        out: &mut S,
    ) {
        if !S::IS_ONLY_HEARER {
            self.sessions[session].outcomes.push(&event, self.config.outcomes_max);
        }
        self.say(&Event::Plain(event), out);
    }

    /// Reports a change of an order to the session that entered it. The quantities are those of the
    /// row.
    #[inline(always)]
    pub(crate) fn say_order<S: EventSink>(&mut self, slot: Slot, change: &Change, out: &mut S) {
        self.seq = self.seq.next();
        self.exec_id = self.exec_id.next();
        let order = &self.orders[slot];
        let session_slot = order.session;
        let session = &mut self.sessions[session_slot];
        let is_live = change.ord_status.is_live();
        let event = OrderEvent {
            position: self.position,
            event_no: session.take_event_no(),
            request_no: change.request_no,
            rec: order.rec,
            seq: self.seq,
            order_id: OrderId::new(self.config.partition_id, order.rec),
            exec_id: self.exec_id,
            match_id: change.match_id,
            transact_time: self.time,
            created_time: order.created_time,
            cl_ord_id: order.cl_ord_id,
            orig_cl_ord_id: change.orig_cl_ord_id,
            price: order.told_price(),
            stop_px: order.stop_px,
            last_px: change.last_px,
            last_qty: change.last_qty,
            order_qty: order.order_qty,
            leaves_qty: if is_live { order.leaves_qty } else { Qty::ZERO },
            cum_qty: order.cum_qty(),
            display_qty: order.display_qty,
            min_qty: change.min_qty,
            expire_time: order.expire_time,
            session_id: session.session_id,
            firm_id: self.firms[session.firm].firm_id,
            account_id: self.accounts[order.account].account_id,
            instrument_id: self.instruments[order.instrument].definition.instrument_id,
            partition_id: self.config.partition_id,
            reason: change.reason,
            side: order.side,
            ord_type: order.ord_type,
            time_in_force: order.time_in_force,
            exec_inst: order.exec_inst,
            self_trade_prevention: order.self_trade_prevention,
            exec_type: change.exec_type,
            ord_status: change.ord_status,
            liquidity: change.liquidity,
        };
        if !S::IS_ONLY_HEARER && change.is_answer {
            self.sessions[session_slot].outcomes.push_order(&event, self.config.outcomes_max);
        }
        self.say(&Event::Plain(PlainEvent::OrderEvent(event)), out);
    }

    /// Returns the state of each live order, in the order of their records, as an event without a
    /// change would report it: at the newest change number, without a number of its session's, an
    /// execution or a request.
    #[must_use]
    pub fn live_orders(&self) -> Vec<OrderEvent> {
        let (mut slots, mut live) = (Vec::new(), Vec::new());
        for session in self.sessions.rows() {
            session.collect_orders(&self.orders, &mut slots);
        }
        live.extend(slots.into_iter().map(|slot| self.state_of_order(slot)));
        live.sort_unstable_by_key(|event| event.rec);
        live
    }

    /// Returns each live order with its queue, those of a queue and price in time priority.
    #[must_use]
    pub fn queued_orders(&self) -> Vec<QueuedOrder> {
        use OrderQueue::{Book, Market, Parked, Stop};
        const QUEUES: [OrderQueue; 7] = [Market, Book, Market, Book, Stop, Stop, Parked];
        let mut queued = Vec::with_capacity(self.orders.live_count() as usize);
        for instrument in self.instruments.rows() {
            for (side, queue) in instrument.queues().into_iter().zip(QUEUES) {
                for level in side.best_first() {
                    let mut slot = self.levels[level].head;
                    while slot != NIL {
                        let (state, shown_qty) =
                            (self.state_of_order(slot), self.orders[slot].shown());
                        queued.push(QueuedOrder { state, queue, shown_qty });
                        slot = self.orders[slot].level_next;
                    }
                }
            }
        }
        queued
    }

    fn state_of_order(&self, slot: Slot) -> OrderEvent {
        let order = &self.orders[slot];
        let session = &self.sessions[order.session];
        OrderEvent {
            position: self.position,
            event_no: EventNo::NONE,
            request_no: RequestNo::NONE,
            rec: order.rec,
            seq: self.seq,
            order_id: OrderId::new(self.config.partition_id, order.rec),
            exec_id: ExecId::NONE,
            match_id: MatchId::NONE,
            transact_time: self.time,
            created_time: order.created_time,
            cl_ord_id: order.cl_ord_id,
            orig_cl_ord_id: ClOrdId::NONE,
            price: order.told_price(),
            stop_px: order.stop_px,
            last_px: Price(0),
            last_qty: Qty::ZERO,
            order_qty: order.order_qty,
            leaves_qty: order.leaves_qty,
            cum_qty: order.cum_qty(),
            display_qty: order.display_qty,
            min_qty: Qty::ZERO,
            expire_time: order.expire_time,
            session_id: session.session_id,
            firm_id: self.firms[session.firm].firm_id,
            account_id: self.accounts[order.account].account_id,
            instrument_id: self.instruments[order.instrument].definition.instrument_id,
            partition_id: self.config.partition_id,
            reason: Reason::None,
            side: order.side,
            ord_type: order.ord_type,
            time_in_force: order.time_in_force,
            exec_inst: order.exec_inst,
            self_trade_prevention: order.self_trade_prevention,
            exec_type: ExecType::New,
            ord_status: status_of_live(order.cum_qty()),
            liquidity: Liquidity::None,
        }
    }

    /// Returns the fields that all answers to a session share.
    pub(crate) fn asking(&self, session: Slot) -> RepeatRequester {
        self.asking_of(&self.sessions[session])
    }

    pub(crate) fn asking_of(&self, session: &Session) -> RepeatRequester {
        let is_firmless = session.firm == NIL;
        let firm_id = if is_firmless { FirmId::NONE } else { self.firms[session.firm].firm_id };
        RepeatRequester {
            session_id: session.session_id,
            firm_id,
            partition_id: self.config.partition_id,
        }
    }

    /// Refuses a new order, which never becomes a record.
    pub(crate) fn reject_order<S: EventSink>(
        &mut self,
        session: Slot,
        request: &NewOrder,
        reason: Reason,
        out: &mut S,
    ) {
        self.exec_id = self.exec_id.next();
        let row = &mut self.sessions[session];
        let firm_id = if row.firm == NIL { FirmId::NONE } else { self.firms[row.firm].firm_id };
        let event = PlainEvent::OrderEvent(OrderEvent {
            position: self.position,
            event_no: row.take_event_no(),
            request_no: request.request_no,
            rec: Rec::NONE,
            seq: Seq::NONE,
            order_id: OrderId::NONE,
            exec_id: self.exec_id,
            match_id: MatchId::NONE,
            transact_time: self.time,
            created_time: weir_types::Nanos(0),
            cl_ord_id: request.cl_ord_id,
            orig_cl_ord_id: ClOrdId::NONE,
            price: request.price,
            stop_px: request.stop_px,
            last_px: Price(0),
            last_qty: Qty::ZERO,
            order_qty: request.order_qty,
            leaves_qty: Qty::ZERO,
            cum_qty: Qty::ZERO,
            display_qty: request.display_qty,
            min_qty: request.min_qty,
            expire_time: request.expire_time,
            session_id: row.session_id,
            firm_id,
            account_id: request.account_id,
            instrument_id: request.instrument_id,
            partition_id: self.config.partition_id,
            reason,
            side: request.side,
            ord_type: request.ord_type,
            time_in_force: request.time_in_force,
            exec_inst: request.exec_inst,
            self_trade_prevention: request.self_trade_prevention,
            exec_type: ExecType::Rejected,
            ord_status: OrdStatus::Rejected,
            liquidity: Liquidity::None,
        });
        self.say_answer(session, event, out);
    }

    pub(crate) fn rejected(
        &mut self,
        asker: Requester,
        named: NamedIds,
        reason: Reason,
    ) -> PlainEvent {
        let session = &mut self.sessions[asker.session];
        PlainEvent::RequestRejected(RequestRejected {
            position: self.position,
            event_no: session.take_event_no(),
            request_no: asker.request_no,
            order_id: named.order_id,
            transact_time: self.time,
            cl_ord_id: named.cl_ord_id,
            orig_cl_ord_id: named.orig_cl_ord_id,
            session_id: session.session_id,
            instrument_id: named.instrument_id,
            partition_id: self.config.partition_id,
            reason,
            ref_template_id: asker.template_id,
        })
    }

    /// Refuses a request for good: the refusal is its remembered answer.
    pub(crate) fn reject<S: EventSink>(
        &mut self,
        asker: Requester,
        named: NamedIds,
        reason: Reason,
        out: &mut S,
    ) {
        let event = self.rejected(asker, named, reason);
        self.say_answer(asker.session, event, out);
    }

    /// Says a refusal of a request whose number was not accepted; remembers nothing.
    pub(crate) fn say_for_now<S: EventSink>(&mut self, rejected: PlainEvent, out: &mut S) {
        self.say(&Event::Plain(rejected), out);
    }

    /// Reports that a request was carried out.
    pub(crate) fn say_done<S: EventSink>(
        &mut self,
        asker: Requester,
        cl_ord_id: ClOrdId,
        affected_count: u64,
        out: &mut S,
    ) {
        let event = self.done(asker, cl_ord_id, affected_count);
        self.say_answer(asker.session, event, out);
    }

    /// Reports that a request about an instrument's phase was carried out, with the phase reached.
    pub(crate) fn say_phase_reached<S: EventSink>(
        &mut self,
        asker: Requester,
        instrument: Slot,
        affected_count: u64,
        out: &mut S,
    ) {
        let PlainEvent::RequestDone(done) = self.done(asker, ClOrdId::NONE, affected_count) else {
            unreachable!("it reports that a request is done")
        };
        let phase_reached = self.instruments[instrument].phase.into();
        let event = PlainEvent::RequestDone(RequestDone { phase_reached, ..done });
        self.say_answer(asker.session, event, out);
    }

    /// Returns the report that a request was carried out.
    pub(crate) fn done(
        &mut self,
        asker: Requester,
        cl_ord_id: ClOrdId,
        affected_count: u64,
    ) -> PlainEvent {
        let session = &mut self.sessions[asker.session];
        PlainEvent::RequestDone(RequestDone {
            position: self.position,
            event_no: session.take_event_no(),
            request_no: asker.request_no,
            transact_time: self.time,
            cl_ord_id,
            affected_count,
            session_id: session.session_id,
            partition_id: self.config.partition_id,
            ref_template_id: asker.template_id,
            ..RequestDone::NOTHING_TOLD
        })
    }

    /// Gives a request that takes several commands its place among the remembered answers, which
    /// are in order of request number.
    pub(crate) fn remember_begun(&mut self, asker: Requester, cl_ord_id: ClOrdId) {
        let session = &mut self.sessions[asker.session];
        let event = PlainEvent::RequestDone(RequestDone {
            position: self.position,
            event_no: EventNo::NONE,
            request_no: asker.request_no,
            transact_time: self.time,
            cl_ord_id,
            affected_count: 0,
            session_id: session.session_id,
            partition_id: self.config.partition_id,
            ref_template_id: asker.template_id,
            ..RequestDone::NOTHING_TOLD
        });
        session.outcomes.push(&event, self.config.outcomes_max);
    }

    /// Reports that a request which took several commands was carried out. The answer, `event`,
    /// takes its place unless newer ones have replaced it.
    pub(crate) fn say_done_late<S: EventSink>(
        &mut self,
        asker: Requester,
        event: PlainEvent,
        out: &mut S,
    ) {
        if !S::IS_ONLY_HEARER {
            self.sessions[asker.session].outcomes.complete(asker.request_no, &event);
        }
        self.say(&Event::Plain(event), out);
    }

    /// Repeats the first answer to a request, under a new event number. An order's answer then has
    /// `rec` and `seq` zero, which tells views that it changes nothing.
    pub(crate) fn say_again<S: EventSink>(
        &mut self,
        session: Slot,
        mut answer: PlainEvent,
        out: &mut S,
    ) {
        let event_no = self.sessions[session].take_event_no();
        match &mut answer {
            PlainEvent::OrderEvent(e) => {
                (e.position, e.event_no) = (self.position, event_no);
                (e.rec, e.seq) = (Rec::NONE, Seq::NONE);
            }
            PlainEvent::RequestRejected(e) => (e.position, e.event_no) = (self.position, event_no),
            PlainEvent::RequestDone(e) => (e.position, e.event_no) = (self.position, event_no),
            PlainEvent::PhaseChanged(_)
            | PlainEvent::Checkpoint(_)
            | PlainEvent::TradeBusted(_)
            | PlainEvent::Uncrossed(_)
            | PlainEvent::ReferencesChanged(_) => {
                unreachable!("only answers to requests are remembered")
            }
        }
        self.say(&Event::Plain(answer), out);
    }
}
