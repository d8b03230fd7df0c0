//! The orders that a publication knows, and the prices at which some stand.
//!
//! Every live order is known, shown or not: what is not shown decides what becomes public next.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use weir_types::{OrdType, Price, Qty, Rec, SelfTradePrevention, Side, TimeInForce};

/// Where an order is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// On its way to one of the others.
    Incoming,
    /// In the book.
    Book,
    /// A market order of a call: in the book at no price.
    Market,
    /// Waits for a trade at its stop price.
    Stop,
    /// Waits for the closing call.
    Parked,
}

/// A live order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// Its instrument's place in the list of instruments.
    pub(super) instrument: usize,
    pub(super) side: Side,
    pub(super) ord_type: OrdType,
    pub(super) time_in_force: TimeInForce,
    pub(super) self_trade_prevention: SelfTradePrevention,
    pub(super) place: Place,
    pub(super) price: Price,
    pub(super) order_qty: Qty,
    pub(super) leaves_qty: Qty,
    pub(super) display_qty: Qty,
    /// What the book shows of it.
    pub(super) shown_qty: Qty,
    /// Of two at a price the one with the smaller rank stands before.
    pub(super) rank: u64,
    /// Its public number; zero while nothing of it is public.
    pub(super) reference: u64,
}

impl Order {
    pub(super) fn is_iceberg(&self) -> bool {
        !self.display_qty.is_zero()
    }

    /// What it shows when it comes to stand, or stands anew.
    pub(super) fn slice(&self) -> Qty {
        if self.is_iceberg() { self.display_qty.min(self.leaves_qty) } else { self.leaves_qty }
    }

    /// What it shows where it stands when no more than `leaves_qty` is left of it.
    pub(super) fn shown_of(&self, leaves_qty: Qty) -> Qty {
        if self.is_iceberg() { self.shown_qty.min(leaves_qty) } else { leaves_qty }
    }

    /// Whether what is left of it after matching stands in the book.
    pub(super) fn can_stand(&self) -> bool {
        use TimeInForce::{Day, Gtc, Gtd};
        self.ord_type == OrdType::Limit && matches!(self.time_in_force, Day | Gtc | Gtd)
    }
}

/// Live orders by the engine's number.
pub(super) type Orders = HashMap<Rec, Order, FxBuildHasher>;

/// One side's prices, the best at the end, each with how many orders stand there.
#[derive(Clone, Debug, Default)]
pub(super) struct Prices {
    rungs: Vec<(i64, u32)>,
}

/// A price as its side ranks it: the better, the greater.
fn rank_of(side: Side, price: Price) -> i64 {
    // The complement orders the other way round and cannot overflow.
    if side == Side::Buy { price.0 } else { !price.0 }
}

impl Prices {
    pub(super) fn add(&mut self, side: Side, price: Price) {
        let rank = rank_of(side, price);
        match self.rungs.binary_search_by_key(&rank, |rung| rung.0) {
            Ok(at) => self.rungs[at].1 += 1,
            Err(at) => self.rungs.insert(at, (rank, 1)),
        }
    }

    pub(super) fn remove(&mut self, side: Side, price: Price) {
        let rank = rank_of(side, price);
        let Ok(at) = self.rungs.binary_search_by_key(&rank, |rung| rung.0) else { return };
        if self.rungs[at].1 == 1 {
            self.rungs.remove(at);
        } else {
            self.rungs[at].1 -= 1;
        }
    }

    /// Whether an order of the other side with this limit reaches the best of them.
    pub(super) fn is_reached_by(&self, own_side: Side, limit: Price) -> bool {
        let Some((rank, _)) = self.rungs.last() else { return false };
        match own_side {
            Side::Buy => !*rank <= limit.0,
            Side::Sell => *rank >= limit.0,
        }
    }
}
