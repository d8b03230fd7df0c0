//! Cancels of one order, and the requests and losses that cancel many orders; these are carried out
//! in steps by [`sweep`](crate::sweep).
//!
//! The session of an order gets the event of its end. A mass cancel, or another request that
//! changes other sessions' orders, is answered by a `RequestDone` after the changes.

use weir_types::{
    ClOrdId, ExecType, InstrumentId, MassCancelScope, OrdStatus, OrderId, PartitionId, Phase,
    Reason, Rec, RequestNo, Role, Switch,
};
use weir_wire::order_entry::{CancelOrder, MassCancel};
use weir_wire::reference::{SessionChoice, SessionLost};

use crate::config::EventSink;
use crate::digest;
use crate::emit::{Change, NamedIds, Requester};
use crate::engine::Engine;
use crate::index::Slot;
use crate::plant::{self, Plant};

impl Engine {
    pub(crate) fn cancel_order<S: EventSink>(
        &mut self,
        asker: Requester,
        m: &CancelOrder,
        out: &mut S,
    ) {
        let named = |order_id| NamedIds {
            order_id,
            cl_ord_id: m.cl_ord_id,
            orig_cl_ord_id: m.orig_cl_ord_id,
            instrument_id: m.instrument_id,
        };
        let role = self.sessions[asker.session].role;
        if !role.may_cancel() {
            return self.reject(asker, named(OrderId::NONE), Reason::NotEntitled, out);
        }
        let found = self.find_order(asker.session, m.order_id, m.orig_cl_ord_id, m.instrument_id);
        let Some(slot) = found else {
            return self.reject(asker, named(OrderId::NONE), Reason::UnknownOrder, out);
        };
        self.prefetch_neighbours(slot);
        let order = &self.orders[slot];
        let is_closed = self.instruments[order.instrument].phase == Phase::Closed;
        if is_closed && role != Role::Operator {
            let order_id = OrderId::new(self.config.partition_id, order.rec);
            return self.reject(asker, named(order_id), Reason::WrongPhase, out);
        }
        if order.session == asker.session {
            let mut change = Change::new(ExecType::Canceled, OrdStatus::Canceled, asker.request_no);
            change.is_answer = true;
            return self.end_resting(slot, &change, out);
        }
        self.cancel_resting(slot, Reason::None, RequestNo::NONE, out);
        self.say_done(asker, m.cl_ord_id, 1, out);
    }

    /// Returns the live order that a session names: by `order_id` any order of its firm, by name
    /// one of its own; with both, both must match. Operators see the orders of all firms.
    pub(crate) fn find_order(
        &self,
        session: Slot,
        order_id: OrderId,
        name: ClOrdId,
        instrument_id: InstrumentId,
    ) -> Option<Slot> {
        let slot = if order_id.is_none() {
            if name.is_none() {
                return None;
            }
            self.orders.find_name(session, name)?
        } else {
            if order_id.partition() != self.config.partition_id {
                return None;
            }
            self.orders.find_rec(order_id.rec())?
        };
        let (order, asker) = (&self.orders[slot], &self.sessions[session]);
        let is_theirs =
            asker.role == Role::Operator || self.sessions[order.session].firm == asker.firm;
        let is_named = name.is_none() || order.cl_ord_id == name;
        let is_here = self.instruments[order.instrument].definition.instrument_id == instrument_id;
        (is_theirs && is_named && is_here).then_some(slot)
    }

    /// Cancels a resting order for `reason`.
    pub(crate) fn cancel_resting<S: EventSink>(
        &mut self,
        slot: Slot,
        reason: Reason,
        request_no: RequestNo,
        out: &mut S,
    ) {
        let mut change = Change::new(ExecType::Canceled, OrdStatus::Canceled, request_no);
        change.reason = reason;
        self.end_resting(slot, &change, out);
    }

    /// Ends a resting order with `change`.
    pub(crate) fn end_resting<S: EventSink>(&mut self, slot: Slot, change: &Change, out: &mut S) {
        if !plant::is(Plant::ReservationKeptOnCancel) || change.exec_type != ExecType::Canceled {
            self.release_rest(slot);
        }
        self.say_order(slot, change, out);
        self.remove_resting(slot);
    }

    pub(crate) fn mass_cancel<S: EventSink>(
        &mut self,
        asker: Requester,
        m: &MassCancel,
        out: &mut S,
    ) {
        if let Err(reason) = self.check_mass_cancel(asker.session, m) {
            let named = NamedIds {
                cl_ord_id: m.cl_ord_id,
                instrument_id: m.instrument_id,
                ..NamedIds::NOTHING
            };
            return self.reject(asker, named, reason, out);
        }
        let sweep = self.sweep_of(asker, m);
        self.begin_sweep(sweep, out);
    }

    fn check_mass_cancel(&self, session: Slot, m: &MassCancel) -> Result<(), Reason> {
        let asker = &self.sessions[session];
        if !asker.role.may_cancel() {
            return Err(Reason::NotEntitled);
        }
        if m.partition_id != self.config.partition_id || m.partition_id == PartitionId::NONE {
            return Err(Reason::WrongPartition);
        }
        let is_operator = asker.role == Role::Operator;
        match m.scope {
            MassCancelScope::Session => {}
            MassCancelScope::Account => {
                let account = self.accounts.find(m.account_id.0).ok_or(Reason::UnknownAccount)?;
                if !is_operator && self.accounts[account].firm != asker.firm {
                    return Err(Reason::NotYourAccount);
                }
            }
            MassCancelScope::Firm if is_operator => {
                self.firms.find(m.firm_id.0).ok_or(Reason::UnknownFirm)?;
            }
            MassCancelScope::Firm => {
                if !m.firm_id.is_none() && m.firm_id != self.firms[asker.firm].firm_id {
                    return Err(Reason::NotEntitled);
                }
            }
            MassCancelScope::Instrument if !is_operator => return Err(Reason::NotEntitled),
            MassCancelScope::Instrument if m.instrument_id.is_none() => {
                return Err(Reason::UnknownInstrument);
            }
            MassCancelScope::Instrument => {}
        }
        if !m.instrument_id.is_none() && self.instruments.find(m.instrument_id.0).is_none() {
            return Err(Reason::UnknownInstrument);
        }
        self.check_sweep(session)
    }

    pub(crate) fn sort_by_rec(&self, batch: &mut [Slot]) {
        batch.sort_unstable_by_key(|slot| -> Rec { self.orders[*slot].rec });
    }

    /// Records the choice of a session that has logged on.
    pub(crate) fn session_choice(&mut self, choice: &SessionChoice) {
        if self.config.is_digested {
            self.digest = digest::fold_choice(self.digest, choice);
        }
        // The control log bounds the number of sessions by the same limit.
        if self.cancel_on_disconnect().len() < self.config.sessions_max as usize
            || choice.cancel_on_disconnect == Switch::Off
        {
            self.cancel_on_disconnect.set(choice.session_id, choice.cancel_on_disconnect);
        }
    }

    /// Cancels the orders of a session that lost its connection, in any phase, if the session chose
    /// so. Its choice ends with the session.
    pub(crate) fn session_lost<S: EventSink>(&mut self, lost: &SessionLost, out: &mut S) {
        if self.config.is_digested {
            self.digest = digest::fold_lost(self.digest, lost);
        }
        if !plant::is(Plant::ChoiceOutlivesSession) {
            self.cancel_on_disconnect.set(lost.session_id, Switch::Off);
        }
        let Some(session) = self.sessions.find(lost.session_id.0) else { return };
        if lost.cancel_on_disconnect == Switch::Off {
            return;
        }
        self.sweep_lost(session, out);
    }
}
