//! Memory asked for ahead of its use: an order's rows lie anywhere among gigabytes, and waiting
//! for each line in turn is most of what an operation costs.
//!
//! Three steps, each taking what the one before it has brought: from a command some places ahead
//! the entries of the indexes, from one closer the rows that they name, and in the operation
//! itself the neighbours of the row found. Nothing here changes state or can be observed.

use weir_types::{ClOrdId, OrderId, SessionId, Side};
use weir_wire::order_entry::NewOrder;
use weir_wire::{Command, Request};

use crate::engine::Engine;
use crate::index::{NIL, Slot};

/// How many commands ahead index entries are asked for.
const FAR: usize = 6;
/// How many commands ahead rows are asked for.
const NEAR: usize = 2;

impl Engine {
    /// Asks for the memory that the commands after the next one will need. `ahead` holds the
    /// commands that follow the one about to be applied, as far as they are known; it is a hint,
    /// worth giving where commands come in batches.
    #[inline]
    pub fn prefetch(&self, ahead: &[Command]) {
        if let Some(Command::Request(request)) = ahead.get(FAR) {
            self.prefetch_entries(request);
        }
        if let Some(Command::Request(request)) = ahead.get(NEAR) {
            self.prefetch_rows(request);
        }
    }

    #[inline]
    fn prefetch_entries(&self, request: &Request) {
        match request {
            Request::NewOrder(m) => {
                self.accounts.prefetch_entry(m.account_id.0);
                self.prefetch_order_entry(m.session_id, OrderId::NONE, m.cl_ord_id);
            }
            Request::CancelOrder(m) => {
                self.prefetch_order_entry(m.session_id, m.order_id, m.orig_cl_ord_id);
            }
            Request::ReplaceOrder(m) => {
                self.prefetch_order_entry(m.session_id, m.order_id, m.orig_cl_ord_id);
                self.prefetch_order_entry(m.session_id, OrderId::NONE, m.cl_ord_id);
            }
            _ => {}
        }
    }

    #[inline]
    fn prefetch_order_entry(&self, session_id: SessionId, order_id: OrderId, name: ClOrdId) {
        if !order_id.is_none() {
            self.orders.prefetch_rec(order_id.rec());
        } else if let Some(session) = self.sessions.find(session_id.0) {
            self.orders.prefetch_name(session, name);
        }
    }

    #[inline]
    fn prefetch_rows(&self, request: &Request) {
        match request {
            Request::NewOrder(m) => self.prefetch_new_order(m),
            Request::CancelOrder(m) => {
                self.prefetch_named(m.session_id, m.order_id, m.orig_cl_ord_id);
            }
            Request::ReplaceOrder(m) => {
                self.prefetch_named(m.session_id, m.order_id, m.orig_cl_ord_id);
            }
            _ => {}
        }
    }

    #[inline]
    fn prefetch_new_order(&self, m: &NewOrder) {
        let (account, instrument) =
            (self.accounts.find(m.account_id.0), self.instruments.find(m.instrument_id.0));
        let Some(instrument) = instrument else { return };
        if let Some(account) = account {
            self.accounts.prefetch_row(account);
            self.positions.prefetch(account, instrument);
        }
        let row = &self.instruments[instrument];
        if let Some(level) = row.side(m.side).level_at(m.price) {
            self.orders.prefetch_row(self.levels[level].tail);
        }
        if let Some(session) = self.sessions.find(m.session_id.0) {
            self.sessions[session].outcomes.prefetch_next();
        }
    }

    /// The row of an order likely to be named so: the first with the right hash.
    #[inline]
    fn prefetch_named(&self, session_id: SessionId, order_id: OrderId, name: ClOrdId) {
        let Some(session) = self.sessions.find(session_id.0) else { return };
        self.sessions[session].outcomes.prefetch_next();
        let slot = if order_id.is_none() {
            self.orders.guess_name(session, name)
        } else {
            self.orders.guess_rec(order_id.rec())
        };
        if let Some(slot) = slot {
            self.orders.prefetch_row(slot);
        }
    }

    /// All that ending or moving a resting order will touch, asked for at once.
    #[inline]
    pub(crate) fn prefetch_neighbours(&self, slot: Slot) {
        let order = &self.orders[slot];
        self.levels.prefetch(order.level);
        self.orders.prefetch_rec(order.rec);
        if self.config.has_risk {
            self.accounts.prefetch_row(order.account);
            self.positions.prefetch(order.account, order.instrument);
        }
        for neighbour in [order.level_prev, order.level_next] {
            if neighbour != NIL {
                self.orders.prefetch_first_line(neighbour);
            }
        }
        for neighbour in [order.session_prev, order.session_next] {
            if neighbour != NIL {
                self.orders.prefetch_second_line(neighbour);
            }
        }
    }

    /// What accepting and resting an order will touch: the row that it will get, its number's
    /// entry, the head of the other side's queue.
    #[inline]
    pub(crate) fn prefetch_acceptance(&self, side: Side, instrument: Slot) {
        self.orders.prefetch_next_row();
        self.orders.prefetch_rec(self.rec.next());
        if let Some(level) = self.instruments[instrument].side(side.opposite()).best() {
            self.levels.prefetch(level);
        }
    }
}
