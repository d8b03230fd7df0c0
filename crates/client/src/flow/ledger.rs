//! The book as a source tells it: each order by its id, each event applied to the order that it
//! names. There is no matching here, so that the engine under test has something independent
//! to be measured against.
//!
//! INVARIANT: a level's quantity is the sum of its orders' and never zero.

use std::collections::BTreeMap;

use weir_types::{Price, Qty, Side};

use super::model::Level;

/// The most lots of one order: far above any real one, low enough that no sum overflows.
pub const ORDER_QTY_MAX: u64 = 1 << 44;

/// The most orders that may stand at once.
pub const ORDER_COUNT_MAX: usize = 1 << 19;

/// An order that stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub side: Side,
    pub price: Price,
    pub leaves: Qty,
}

#[derive(Debug, Default)]
struct Shelf {
    qty: Qty,
    /// In order of arrival.
    ids: Vec<u64>,
}

/// All orders that stand, by id and by level.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    orders: BTreeMap<u64, Standing>,
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

    pub(super) fn get(&self, id: u64) -> Option<Standing> {
        self.orders.get(&id).copied()
    }

    /// Puts an order behind those at its level; `false` when it cannot stand: its id stands
    /// already, or it has no quantity or too much, or the ledger is full.
    pub(super) fn insert(&mut self, id: u64, order: Standing) -> bool {
        let full = self.orders.len() >= ORDER_COUNT_MAX;
        let sane = (1..=ORDER_QTY_MAX).contains(&order.leaves.0);
        if full || !sane || self.orders.contains_key(&id) {
            return false;
        }
        self.orders.insert(id, order);
        let shelf = self.shelves_mut(order.side).entry(order.price).or_default();
        shelf.qty += order.leaves;
        shelf.ids.push(id);
        true
    }

    /// Takes up to `qty` off an order and says how much it was; the order goes with its last lot.
    pub(super) fn take(&mut self, id: u64, qty: Qty) -> Qty {
        let Some(order) = self.orders.get_mut(&id) else { return Qty::ZERO };
        let taken = qty.min(order.leaves);
        order.leaves -= taken;
        let Standing { side, price, leaves } = *order;
        if leaves.is_zero() {
            self.orders.remove(&id);
        }
        let shelves = self.shelves_mut(side);
        let shelf = shelves.get_mut(&price).expect("an order that stands has a level");
        shelf.qty -= taken;
        if leaves.is_zero() {
            shelf.ids.retain(|other| *other != id);
        }
        if shelf.ids.is_empty() {
            assert!(shelf.qty.is_zero(), "an empty level holds quantity");
            shelves.remove(&price);
        }
        taken
    }

    /// Puts an order last at its level.
    pub(super) fn move_back(&mut self, id: u64) {
        let Some(Standing { side, price, .. }) = self.get(id) else { return };
        let shelf = self.shelves_mut(side).get_mut(&price);
        let ids = &mut shelf.expect("an order that stands has a level").ids;
        ids.retain(|other| *other != id);
        ids.push(id);
    }

    /// What stands at a price.
    pub(super) fn qty_at(&self, side: Side, price: Price) -> Qty {
        self.shelves(side).get(&price).map_or(Qty::ZERO, |shelf| shelf.qty)
    }

    /// The ids at a price in order of arrival.
    pub(super) fn ids_at(&self, side: Side, price: Price) -> &[u64] {
        self.shelves(side).get(&price).map_or(&[], |shelf| &shelf.ids)
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

/// True when `price` is at least as good as `other` for orders of this side.
pub(super) fn at_least_as_good(side: Side, price: Price, other: Price) -> bool {
    match side {
        Side::Buy => price >= other,
        Side::Sell => price <= other,
    }
}
