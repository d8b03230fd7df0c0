//! Prefetching. An order's rows are scattered over gigabytes, and waiting for the cache lines one
//! by one is most of an operation's cost.
//!
//! Three steps each use the result of the previous one: for a command some places ahead, prefetch
//! its index entries; for a closer one, the rows that they name; for the closest, the neighbours of
//! those rows. Nothing here changes state or can be observed.

use weir_types::{ClOrdId, OrderId, SessionId, Side};
use weir_wire::order_entry::NewOrder;
use weir_wire::{Command, Request};

use crate::engine::Engine;
use crate::index::{NIL, Slot};

/// The distance, in commands, at which index entries are prefetched.
const FAR: usize = 10;
/// The distance, in commands, at which rows are prefetched.
const MIDDLE: usize = 6;
/// The distance, in commands, at which neighbours of rows are prefetched.
const NEAR: usize = 3;

impl Engine {
    /// Prefetches memory for the commands after the next one. `ahead` holds the known commands that
    /// follow the one about to be applied. It is a hint, useful where commands arrive in batches.
    #[inline]
    pub fn prefetch(&self, ahead: &[Command]) {
        if let Some(Command::Request(request)) = ahead.get(FAR) {
            self.prefetch_entries(request);
        }
        if let Some(Command::Request(request)) = ahead.get(MIDDLE) {
            self.prefetch_rows(request);
        }
        if let Some(Command::Request(request)) = ahead.get(NEAR) {
            self.prefetch_around(request);
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
        if let Some(level) = self.instruments[instrument].side(m.side).likely_level(m.price) {
            self.levels.prefetch(level);
        }
        if let Some(session) = self.sessions.find(m.session_id.0) {
            self.sessions[session].outcomes.prefetch_next();
        }
    }

    #[inline]
    fn prefetch_named(&self, session_id: SessionId, order_id: OrderId, name: ClOrdId) {
        let Some(session) = self.sessions.find(session_id.0) else { return };
        self.sessions[session].outcomes.prefetch_next();
        if let Some(slot) = self.guess(session, order_id, name) {
            self.orders.prefetch_row(slot);
        }
    }

    /// Returns the order that the name probably belongs to: the first with the right hash.
    #[inline]
    fn guess(&self, session: Slot, order_id: OrderId, name: ClOrdId) -> Option<Slot> {
        if order_id.is_none() {
            self.orders.guess_name(session, name)
        } else {
            self.orders.guess_rec(order_id.rec())
        }
    }

    #[inline]
    fn prefetch_around(&self, request: &Request) {
        let (session_id, order_id, name) = match request {
            Request::NewOrder(m) => return self.prefetch_tail(m),
            Request::CancelOrder(m) => (m.session_id, m.order_id, m.orig_cl_ord_id),
            Request::ReplaceOrder(m) => (m.session_id, m.order_id, m.orig_cl_ord_id),
            _ => return,
        };
        if let Some(session) = self.sessions.find(session_id.0)
            && let Some(slot) = self.guess(session, order_id, name)
        {
            self.prefetch_neighbours(slot);
        }
    }

    /// Prefetches the order behind which a new one will probably queue.
    #[inline]
    fn prefetch_tail(&self, m: &NewOrder) {
        if let Some(instrument) = self.instruments.find(m.instrument_id.0)
            && let Some(level) = self.instruments[instrument].side(m.side).likely_level(m.price)
        {
            self.orders.prefetch_first_line(self.levels[level].tail);
        }
    }

    /// Prefetches everything that ending or moving a resting order touches.
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

    /// Prefetches everything that accepting and resting an order touches: its future row, its
    /// record number's index entry, the best level of the other side.
    #[inline]
    pub(crate) fn prefetch_acceptance(&self, side: Side, instrument: Slot) {
        self.orders.prefetch_next_row();
        self.orders.prefetch_rec(self.rec.next());
        if let Some(level) = self.instruments[instrument].side(side.opposite()).best() {
            self.levels.prefetch(level);
        }
    }
}
