//! Replaces: a new price or total quantity for a live order of the asking session.
//!
//! The order keeps its record and its name's history, and its place in the queue only while its
//! price stays and its total does not go up. Otherwise it comes in as a new order would, and may
//! trade.

use weir_types::{ExecInst, ExecType, OrderId, Phase, Qty, Reason, RequestNo, Role};
use weir_wire::order_entry::ReplaceOrder;

use crate::account::cash_need;
use crate::config::EventSink;
use crate::emit::{Asker, Change, Named};
use crate::engine::Engine;
use crate::entry::holding_of;
use crate::index::Slot;
use crate::matching::{Verdict, status_of_live};

impl Engine {
    pub(crate) fn replace_order<S: EventSink>(
        &mut self,
        asker: Asker,
        m: &ReplaceOrder,
        out: &mut S,
    ) {
        let mut named = Named {
            order_id: OrderId::NONE,
            cl_ord_id: m.cl_ord_id,
            orig_cl_ord_id: m.orig_cl_ord_id,
            instrument_id: m.instrument_id,
        };
        if self.sessions[asker.session].role != Role::Trader {
            return self.reject(asker, named, Reason::NotEntitled, out);
        }
        let found = self
            .find_order(asker.session, m.order_id, m.orig_cl_ord_id, m.instrument_id)
            .filter(|slot| self.orders[*slot].session == asker.session);
        let Some(slot) = found else {
            return self.reject(asker, named, Reason::UnknownOrder, out);
        };
        self.prefetch_neighbours(slot);
        named.order_id = OrderId::new(self.config.partition_id, self.orders[slot].rec);
        if let Err(reason) = self.check_replace(slot, m) {
            return self.reject(asker, named, reason, out);
        }
        self.carry_out_replace(slot, m, out);
    }

    fn check_replace(&self, slot: Slot, m: &ReplaceOrder) -> Result<(), Reason> {
        let order = &self.orders[slot];
        let instrument = &self.instruments[order.instrument];
        if self.is_entry_killed(order.session, order.account) {
            return Err(Reason::Killed);
        }
        if instrument.phase != Phase::Continuous {
            return Err(Reason::WrongPhase);
        }
        instrument.check_price(m.price)?;
        instrument.check_qty(m.order_qty)?;
        if m.order_qty <= order.cum_qty() {
            return Err(Reason::QtyBelowFilled);
        }
        if m.cl_ord_id.is_none() {
            return Err(Reason::FieldOutOfRange);
        }
        if m.cl_ord_id != order.cl_ord_id
            && self.orders.find_name(order.session, m.cl_ord_id).is_some()
        {
            return Err(Reason::DuplicateClOrdId);
        }
        let leaves_qty = m.order_qty - order.cum_qty();
        let need = cash_need(order.side, m.price, leaves_qty)
            - cash_need(order.side, order.price, order.leaves_qty);
        self.check_cash(order.account, need)?;
        if leaves_qty > order.leaves_qty {
            let more = leaves_qty - order.leaves_qty;
            self.check_position(order.account, order.instrument, order.side, more)?;
        }
        if order.exec_inst.contains(ExecInst::POST_ONLY)
            && instrument.would_cross(order.side, m.price)
        {
            return Err(Reason::WouldTakeLiquidity);
        }
        Ok(())
    }

    fn carry_out_replace<S: EventSink>(&mut self, slot: Slot, m: &ReplaceOrder, out: &mut S) {
        let before = self.orders[slot];
        let leaves_qty = m.order_qty - before.cum_qty();
        let keeps_priority = m.price == before.price && m.order_qty <= before.order_qty;
        if keeps_priority {
            self.levels.reduce(before.level, before.leaves_qty - leaves_qty);
        } else {
            self.instruments[before.instrument].side_mut(before.side).remove(
                &mut self.levels,
                &mut self.orders,
                slot,
            );
        }
        self.reprice(slot, m, leaves_qty);
        let status = status_of_live(before.cum_qty());
        let change = Change {
            orig_cl_ord_id: before.cl_ord_id,
            is_answer: true,
            ..Change::new(ExecType::Replaced, status, m.request_no)
        };
        self.say_order(slot, &change, out);
        if !keeps_priority {
            let verdict = self.match_incoming(slot, m.request_no, out);
            self.finish_replaced(slot, verdict, m.request_no, out);
        }
    }

    /// Gives the order its new name, price and quantity, and moves its reservation along. What is
    /// new is reserved before what is old is given back, so that the position's row stays.
    fn reprice(&mut self, slot: Slot, m: &ReplaceOrder, leaves_qty: Qty) {
        if m.cl_ord_id != self.orders[slot].cl_ord_id {
            self.orders.rename(slot, m.cl_ord_id);
        }
        let before = self.orders[slot];
        let order = &mut self.orders[slot];
        order.price = m.price;
        order.order_qty = m.order_qty;
        order.leaves_qty = leaves_qty;
        let after = *order;
        self.reserve(holding_of(&after, leaves_qty));
        self.release(holding_of(&before, before.leaves_qty));
    }

    /// Ends an order that was replaced in this command, or lets its rest stand. It is in the
    /// indexes and its session's list, but in no level.
    fn finish_replaced<S: EventSink>(
        &mut self,
        slot: Slot,
        verdict: Verdict,
        request_no: RequestNo,
        out: &mut S,
    ) {
        match verdict {
            Verdict::Open => return self.rest(slot),
            Verdict::Filled => {}
            Verdict::CancelRest(reason) => {
                let mut change =
                    Change::new(ExecType::Canceled, weir_types::OrdStatus::Canceled, request_no);
                change.reason = reason;
                self.release_rest(slot);
                self.say_order(slot, &change, out);
            }
        }
        let session = self.orders[slot].session;
        self.sessions[session].unlink(&mut self.orders, slot);
        self.orders.unindex(slot);
        self.orders.release(slot);
    }
}
