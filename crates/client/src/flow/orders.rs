//! Converts events to orders: the orders that a participant would have to send to reproduce the
//! source's book. Independent of any session, clock or engine.
//!
//! | event | order |
//! | --- | --- |
//! | seed, new order | limit order, good till cancelled |
//! | execution of a visible order | the opposite IOC order, of that size at that price |
//! | fill | none: it follows from the new order before it |
//! | partial cancel, quantity out of sight | replace with a lower quantity: keeps priority |
//! | deletion, the last of an order gone out of sight | cancel |
//! | hidden execution, halt | none |

use std::collections::BTreeMap;

use weir_types::{Price, Qty, Side, TimeInForce};

use super::ledger::{Ledger, LiveOrder, ORDER_QTY_MAX};
use super::model::{FlowEvent, FlowKind, Level};

/// Our number of an order, dense from 1, never reused in a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalId(pub u64);

/// An order to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderIntent {
    /// Enter a limit order.
    New {
        /// Its number.
        local_id: LocalId,
        /// Its side.
        side: Side,
        /// Its limit.
        price: Price,
        /// Its quantity.
        qty: Qty,
        /// Its lifetime.
        tif: TimeInForce,
    },
    /// Enter a limit order that trades at once or not at all.
    Ioc {
        /// Its number.
        local_id: LocalId,
        /// Its side.
        side: Side,
        /// Its limit.
        price: Price,
        /// Its quantity.
        qty: Qty,
    },
    /// Lower a live order's quantity.
    ReplaceQty {
        /// The order.
        local_id: LocalId,
        /// Its new total quantity as in FIX: traded plus remaining.
        order_qty: Qty,
        /// Its remaining quantity.
        leaves_qty: Qty,
    },
    /// Cancel a live order.
    Cancel {
        /// The order.
        local_id: LocalId,
    },
}

impl OrderIntent {
    /// The order concerned.
    #[must_use]
    pub fn local_id(&self) -> LocalId {
        match self {
            OrderIntent::New { local_id, .. }
            | OrderIntent::Ioc { local_id, .. }
            | OrderIntent::ReplaceQty { local_id, .. }
            | OrderIntent::Cancel { local_id } => *local_id,
        }
    }
}

/// The result of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Planned {
    /// The order to send, if any.
    pub intent: Option<OrderIntent>,
    /// The source's order: the one that an execution must hit.
    pub local_id: LocalId,
    /// True when that order is a seed.
    pub seeded: bool,
    /// True when the event names an order that is not live, or no quantity: nothing was done.
    pub orphan: bool,
}

/// The orders ahead of an order in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ahead {
    /// None: it is the first.
    Nobody,
    /// At least one seed, whose true position is unknown.
    Seeds,
    /// Only orders whose arrival the source shows.
    Orders,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    local_id: LocalId,
    seeded: bool,
    done: Qty,
}

/// Converts the events of one stream to orders.
#[derive(Debug, Default)]
pub struct FlowToOrders {
    ledger: Ledger,
    known: BTreeMap<u64, Known>,
    sources: BTreeMap<LocalId, u64>,
    local_last: u64,
    /// The source's id of the latest `Add`.
    aggressor: u64,
}

impl FlowToOrders {
    /// Starts with an empty book.
    #[must_use]
    pub fn new() -> FlowToOrders {
        FlowToOrders::default()
    }

    /// Processes the next event.
    pub fn apply(&mut self, event: &FlowEvent) -> Planned {
        if event.kind.enters() {
            return self.enter(event);
        }
        if !event.kind.leaves() {
            return Planned::default();
        }
        let id = event.source_order_id;
        let Some(known) = self.known.get_mut(&id) else {
            return Planned { orphan: true, ..Planned::default() };
        };
        let order = self.ledger.get(id).expect("a known order stands");
        let taken = self.ledger.take(id, event.qty);
        if taken.is_zero() {
            return Planned { orphan: true, ..Planned::default() };
        }
        let executed = matches!(event.kind, FlowKind::ExecuteVisible | FlowKind::Fill);
        if executed {
            known.done += taken;
        }
        let Known { local_id, seeded, done } = *known;
        let left = order.leaves - taken;
        if left.is_zero() {
            self.known.remove(&id);
            self.sources.remove(&local_id);
        }
        let intent = match event.kind {
            FlowKind::Fill => {
                self.fill_aggressor(taken);
                None
            }
            FlowKind::ExecuteVisible => {
                let side = order.side.opposite();
                let local_id = self.next_local();
                Some(OrderIntent::Ioc { local_id, side, price: order.price, qty: taken })
            }
            _ if left.is_zero() => Some(OrderIntent::Cancel { local_id }),
            _ => {
                let order_qty = done + left;
                Some(OrderIntent::ReplaceQty { local_id, order_qty, leaves_qty: left })
            }
        };
        Planned { intent, local_id, seeded, orphan: false }
    }

    fn enter(&mut self, event: &FlowEvent) -> Planned {
        let FlowEvent { source_order_id: id, side, price, qty, .. } = *event;
        if !self.ledger.insert(id, LiveOrder { side, price, leaves: qty }) {
            return Planned { orphan: true, ..Planned::default() };
        }
        let seeded = event.kind == FlowKind::Seed;
        let local_id = self.next_local();
        if !seeded {
            self.aggressor = id;
        }
        self.known.insert(id, Known { local_id, seeded, done: Qty::ZERO });
        self.sources.insert(local_id, id);
        Planned { intent: Some(new(local_id, side, price, qty)), local_id, seeded, orphan: false }
    }

    /// Takes a fill's quantity off the aggressor, the latest new order.
    fn fill_aggressor(&mut self, qty: Qty) {
        let id = self.aggressor;
        if let Some(known) = self.known.get_mut(&id) {
            known.done += self.ledger.take(id, qty);
            if self.ledger.get(id).is_none() {
                let local_id = known.local_id;
                self.known.remove(&id);
                self.sources.remove(&local_id);
            }
        }
    }

    /// Returns the kind of orders ahead of an order at its level, by the events alone.
    pub(super) fn ahead_of(&self, source_order_id: u64) -> Ahead {
        let Some(order) = self.ledger.get(source_order_id) else { return Ahead::Nobody };
        let ids = self.ledger.ids_at(order.side, order.price);
        let mut ahead = ids.iter().take_while(|id| **id != source_order_id).peekable();
        if ahead.peek().is_none() {
            Ahead::Nobody
        } else if ahead.any(|id| self.known.get(id).is_some_and(|known| known.seeded)) {
            Ahead::Seeds
        } else {
            Ahead::Orders
        }
    }

    /// Returns the quantity of an order that must be live now; zero when it is gone.
    #[must_use]
    pub fn leaves(&self, local_id: LocalId) -> Qty {
        let order = self.sources.get(&local_id).and_then(|id| self.ledger.get(*id));
        order.map_or(Qty::ZERO, |order| order.leaves)
    }

    /// The level of a live order.
    pub(super) fn place(&self, local_id: LocalId) -> Option<(Side, Price)> {
        let order = self.ledger.get(*self.sources.get(&local_id)?)?;
        Some((order.side, order.price))
    }

    /// The orders of a level, by arrival.
    pub(super) fn queue(&self, side: Side, price: Price) -> Vec<LocalId> {
        let ids = self.ledger.ids_at(side, price).into_iter();
        ids.map(|id| self.known[&id].local_id).collect()
    }

    /// Moves an order to the end of its queue.
    pub(super) fn move_back(&mut self, local_id: LocalId) {
        if let Some(id) = self.sources.get(&local_id) {
            self.ledger.move_back(*id);
        }
    }

    /// Gives an order a new number and returns the intent that re-enters its remainder: by this the
    /// oracle repairs a book that has left the source's path.
    pub(super) fn reissue(&mut self, local_id: LocalId) -> Option<OrderIntent> {
        let id = self.sources.remove(&local_id)?;
        let order = self.ledger.get(id).expect("a known order stands");
        let fresh = self.next_local();
        self.sources.insert(fresh, id);
        let known = self.known.get_mut(&id).expect("a known order stands");
        (known.local_id, known.done) = (fresh, Qty::ZERO);
        Some(new(fresh, order.side, order.price, order.leaves))
    }

    /// The source's id of a live order.
    #[must_use]
    pub fn source_order_id(&self, local_id: LocalId) -> Option<u64> {
        self.sources.get(&local_id).copied()
    }

    /// The levels of a side by the events alone, best first.
    pub fn levels(&self, side: Side) -> impl Iterator<Item = Level> + '_ {
        self.ledger.levels(side)
    }

    fn next_local(&mut self) -> LocalId {
        self.local_last += 1;
        LocalId(self.local_last)
    }
}

fn new(local_id: LocalId, side: Side, price: Price, qty: Qty) -> OrderIntent {
    assert!((1..=ORDER_QTY_MAX).contains(&qty.0), "the ledger took {qty} lots");
    OrderIntent::New { local_id, side, price, qty, tif: TimeInForce::Gtc }
}
