//! The book as a source reports it: each order by its id, each event applied to the order that it
//! names. There is no matching here, so that the engine under test is compared with something
//! independent.
//!
//! INVARIANT: a level's quantity is the sum of its orders' and never zero.

use std::collections::BTreeMap;

use weir_types::{Price, Qty, Side};

use super::model::Level;

/// The most lots of one order: far above any real one, low enough that no sum overflows.
pub const ORDER_QTY_MAX: u64 = 1 << 44;

/// The most live orders.
pub const ORDER_COUNT_MAX: usize = 1 << 19;

/// A live order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LiveOrder {
    pub side: Side,
    pub price: Price,
    pub leaves: Qty,
}

#[derive(Debug, Default)]
struct Shelf {
    qty: Qty,
    /// Order ids by arrival number.
    queue: BTreeMap<u64, u64>,
}

/// All live orders, by id and by level.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Each order with its arrival number, the key in its level's queue.
    orders: BTreeMap<u64, (LiveOrder, u64)>,
    arrivals: u64,
    bids: BTreeMap<Price, Shelf>,
    asks: BTreeMap<Price, Shelf>,
}

impl Ledger {
    fn shelves(&self, side: Side) -> &BTreeMap<Price, Shelf> {
        match side {
            Side::Buy => &self.bids,
            Side::Sell => &self.asks,
        }
    }

    fn shelves_mut(&mut self, side: Side) -> &mut BTreeMap<Price, Shelf> {
        match side {
            Side::Buy => &mut self.bids,
            Side::Sell => &mut self.asks,
        }
    }

    pub(super) fn get(&self, id: u64) -> Option<LiveOrder> {
        self.orders.get(&id).map(|(order, _)| *order)
    }

    /// Adds an order at the end of its level; `false` when it is refused: its id is live already,
    /// its quantity is zero or too large, or the ledger is full.
    pub(super) fn insert(&mut self, id: u64, order: LiveOrder) -> bool {
        let full = self.orders.len() >= ORDER_COUNT_MAX;
        let sane = (1..=ORDER_QTY_MAX).contains(&order.leaves.0);
        if full || !sane || self.orders.contains_key(&id) {
            return false;
        }
        self.arrivals += 1;
        let arrival = self.arrivals;
        self.orders.insert(id, (order, arrival));
        let shelf = self.shelves_mut(order.side).entry(order.price).or_default();
        shelf.qty += order.leaves;
        shelf.queue.insert(arrival, id);
        true
    }

    /// Takes up to `qty` off an order and returns the quantity taken; an order without quantity is
    /// removed.
    pub(super) fn take(&mut self, id: u64, qty: Qty) -> Qty {
        let Some((order, arrival)) = self.orders.get_mut(&id) else { return Qty::ZERO };
        let taken = qty.min(order.leaves);
        order.leaves -= taken;
        let (LiveOrder { side, price, leaves }, arrival) = (*order, *arrival);
        if leaves.is_zero() {
            self.orders.remove(&id);
        }
        let shelves = self.shelves_mut(side);
        let shelf = shelves.get_mut(&price).expect("an order that stands has a level");
        shelf.qty -= taken;
        if leaves.is_zero() {
            shelf.queue.remove(&arrival);
        }
        if shelf.queue.is_empty() {
            assert!(shelf.qty.is_zero(), "an empty level holds quantity");
            shelves.remove(&price);
        }
        taken
    }

    /// Moves an order to the end of its level.
    pub(super) fn move_back(&mut self, id: u64) {
        self.arrivals += 1;
        let last = self.arrivals;
        let Some((order, arrival)) = self.orders.get_mut(&id) else { return };
        let LiveOrder { side, price, .. } = *order;
        let old = std::mem::replace(arrival, last);
        let shelf = self.shelves_mut(side).get_mut(&price);
        let queue = &mut shelf.expect("an order that stands has a level").queue;
        queue.remove(&old);
        queue.insert(last, id);
    }

    /// The quantity at a price.
    pub(super) fn qty_at(&self, side: Side, price: Price) -> Qty {
        self.shelves(side).get(&price).map_or(Qty::ZERO, |shelf| shelf.qty)
    }

    /// The order ids at a price, by arrival.
    pub(super) fn ids_at(&self, side: Side, price: Price) -> Vec<u64> {
        let shelf = self.shelves(side).get(&price);
        shelf.map_or_else(Vec::new, |shelf| shelf.queue.values().copied().collect())
    }

    /// The levels of a side, best first.
    pub(super) fn levels(&self, side: Side) -> Box<dyn Iterator<Item = Level> + '_> {
        let level = |(price, shelf): (&Price, &Shelf)| Level { price: *price, qty: shelf.qty };
        match side {
            Side::Buy => Box::new(self.bids.iter().rev().map(level)),
            Side::Sell => Box::new(self.asks.iter().map(level)),
        }
    }
}

/// Returns true when `price` is at least as good as `other` for orders of this side.
pub(super) fn at_least_as_good(side: Side, price: Price, other: Price) -> bool {
    match side {
        Side::Buy => price >= other,
        Side::Sell => price <= other,
    }
}
