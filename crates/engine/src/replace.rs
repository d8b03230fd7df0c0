//! Replaces: a new price or total quantity for a live order of the asking session.
//!
//! The order keeps its record and its name's history. It keeps its place in the queue only while
//! its price stays and its total does not increase; otherwise it enters like a new order and may
//! trade in continuous trading. A stop or parked order changes in its place.

use weir_types::{ExecInst, ExecType, OrdType, OrderId, Phase, Price, Qty, Reason, Role};
use weir_wire::order_entry::ReplaceOrder;

use crate::account::cash_need;
use crate::config::EventSink;
use crate::emit::{Change, NamedIds, Requester};
use crate::engine::Engine;
use crate::entry::{holding_of, slices_suffice};
use crate::index::Slot;
use crate::instrument::takes_entry;
use crate::matching::status_of_live;
use crate::order::{Order, OrderLocation};

impl Engine {
    pub(crate) fn replace_order<S: EventSink>(
        &mut self,
        asker: Requester,
        m: &ReplaceOrder,
        out: &mut S,
    ) {
        let mut named = NamedIds {
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
        let checked = self.sessions[asker.session]
            .throttle(self.time)
            .and_then(|()| self.check_replace(slot, m));
        if let Err(reason) = checked {
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
        if !takes_entry(instrument.phase) {
            return Err(Reason::WrongPhase);
        }
        match order.ord_type {
            OrdType::Limit | OrdType::StopLimit => instrument.check_price(m.price)?,
            _ if m.price != Price(0) => return Err(Reason::InvalidPrice),
            _ => {}
        }
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
        let need = cash_need(order.side, new_price(order, m), leaves_qty)
            - cash_need(order.side, order.price, order.leaves_qty);
        self.check_cash(order.account, need)?;
        if leaves_qty > order.leaves_qty {
            if order.is_iceberg && !slices_suffice(order.display_qty, m.order_qty) {
                return Err(Reason::InvalidQty);
            }
            let more = leaves_qty - order.leaves_qty;
            self.check_position(order.account, order.instrument, order.side, more)?;
        }
        if order.exec_inst.contains(ExecInst::POST_ONLY)
            && instrument.phase == Phase::Continuous
            && instrument.would_cross(order.side, m.price)
        {
            return Err(Reason::WouldTakeLiquidity);
        }
        Ok(())
    }

    fn carry_out_replace<S: EventSink>(&mut self, slot: Slot, m: &ReplaceOrder, out: &mut S) {
        let before = self.orders[slot];
        let leaves_qty = m.order_qty - before.cum_qty();
        let is_same_price = new_price(&before, m) == before.price;
        let keeps_place =
            before.place != OrderLocation::Book || is_same_price && m.order_qty <= before.order_qty;
        if !keeps_place {
            self.unlink(slot);
        }
        self.reprice(slot, m, leaves_qty);
        if keeps_place {
            let after = &mut self.orders[slot];
            after.shown_qty = after.shown_qty.min(leaves_qty);
            self.levels.adjust(before.level, before.shown(), after.shown());
        }
        let status = status_of_live(before.cum_qty());
        let change = Change {
            orig_cl_ord_id: before.cl_ord_id,
            is_answer: true,
            ..Change::new(ExecType::Replaced, status, m.request_no)
        };
        self.say_order(slot, &change, out);
        if keeps_place {
            return;
        }
        if self.instruments[before.instrument].phase != Phase::Continuous {
            return self.stand(slot, OrderLocation::Book, true);
        }
        let verdict = self.match_incoming(slot, m.request_no, out);
        self.finish(slot, verdict, m.request_no, true, out);
        self.look_at_stops(before.instrument, out);
    }

    /// Sets the order's new name, price and quantity, and adjusts its reservation. The new one is
    /// reserved before the old one is released, so that the position's row stays.
    fn reprice(&mut self, slot: Slot, m: &ReplaceOrder, leaves_qty: Qty) {
        if m.cl_ord_id != self.orders[slot].cl_ord_id {
            self.orders.rename(slot, m.cl_ord_id);
        }
        let before = self.orders[slot];
        let order = &mut self.orders[slot];
        order.price = new_price(order, m);
        order.order_qty = m.order_qty;
        order.leaves_qty = leaves_qty;
        let after = *order;
        self.reserve(holding_of(&after, leaves_qty));
        self.release(holding_of(&before, before.leaves_qty));
    }
}

/// Returns the new price for the cash reservation: a market order keeps the one that it has.
fn new_price(order: &Order, m: &ReplaceOrder) -> Price {
    if order.ord_type == OrdType::Market { order.price } else { m.price }
}
