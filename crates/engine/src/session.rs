//! Sessions: identity, numbers and live orders.
//!
//! INVARIANT: the live orders of a session form a list in order of `rec`, because an order enters
//! the list when it first rests and stays in it while it lives.

use weir_types::{EventNo, Nanos, RequestNo, Role, SessionId, Switch};

use crate::index::{NIL, Slot};
use crate::live::LiveOrders;
use crate::order::{Order, Orders};
use crate::outcomes::Outcomes;

/// The sessions whose loss cancels their orders, as they chose, in order of identifier.
///
/// Identifiers and not slots: a session may choose before its definition is imported here.
#[derive(Default)]
pub(crate) struct CancelOnDisconnect {
    session_ids: Vec<SessionId>,
}

impl CancelOnDisconnect {
    /// Records that the loss of a session cancels its orders, or no longer does.
    pub(crate) fn set(&mut self, session_id: SessionId, choice: Switch) {
        match (self.session_ids.binary_search(&session_id), choice) {
            (Err(at), Switch::On) => self.session_ids.insert(at, session_id),
            (Ok(at), Switch::Off) => drop(self.session_ids.remove(at)),
            (Ok(_), Switch::On) | (Err(_), Switch::Off) => {}
        }
    }

    pub(crate) fn session_ids(&self) -> &[SessionId] {
        &self.session_ids
    }
}

/// A session's definition and its state.
pub(crate) struct Session {
    pub(crate) session_id: SessionId,
    /// The slot of its firm; [`NIL`] for supervisors and operators.
    pub(crate) firm: Slot,
    pub(crate) role: Role,
    pub(crate) is_killed: bool,
    /// New orders and replaces per second; zero for no limit.
    pub(crate) order_rate_max: u32,
    /// The throttle's theoretical arrival time of the last accepted request.
    pub(crate) arrival_time: Nanos,
    pub(crate) last_request_no: RequestNo,
    pub(crate) next_event_no: EventNo,
    pub(crate) live: LiveOrders,
    order_head: Slot,
    order_tail: Slot,
    pub(crate) outcomes: Outcomes,
}

impl Session {
    pub(crate) fn new(session_id: SessionId, firm: Slot, role: Role, live: LiveOrders) -> Session {
        Session {
            session_id,
            firm,
            role,
            is_killed: false,
            order_rate_max: 0,
            arrival_time: Nanos(0),
            last_request_no: RequestNo::NONE,
            next_event_no: EventNo(1),
            live,
            order_head: NIL,
            order_tail: NIL,
            outcomes: Outcomes::default(),
        }
    }

    /// Takes the session's next event number.
    #[inline]
    pub(crate) fn take_event_no(&mut self) -> EventNo {
        let event_no = self.next_event_no;
        self.next_event_no = event_no.next();
        event_no
    }

    /// Adds an order that starts to rest.
    #[inline]
    pub(crate) fn link(&mut self, orders: &mut Orders, slot: Slot) {
        let tail = self.order_tail;
        self.order_tail = slot;
        if tail == NIL {
            self.order_head = slot;
        } else {
            orders[tail].session_next = slot;
        }
        let order = &mut orders[slot];
        order.session_prev = tail;
        order.session_next = NIL;
    }

    /// Removes an order that ends.
    #[inline]
    pub(crate) fn unlink(&mut self, orders: &mut Orders, order: &Order) {
        let (prev, next) = (order.session_prev, order.session_next);
        if prev == NIL {
            self.order_head = next;
        } else {
            orders[prev].session_next = next;
        }
        if next == NIL {
            self.order_tail = prev;
        } else {
            orders[next].session_prev = prev;
        }
    }

    /// Returns its oldest live order; [`NIL`] without one.
    pub(crate) fn first_order(&self) -> Slot {
        self.order_head
    }

    /// Appends the slots of its live orders to `out`, by `rec`.
    pub(crate) fn collect_orders(&self, orders: &Orders, out: &mut Vec<Slot>) {
        let mut slot = self.order_head;
        while slot != NIL {
            out.push(slot);
            slot = orders[slot].session_next;
        }
    }
}
