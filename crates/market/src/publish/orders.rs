//! The orders known to a publication, and the prices of those in the book.
//!
//! Every live order is tracked, shown or not, because hidden state decides the next public change.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use weir_types::{OrdType, Price, Qty, Rec, SelfTradePrevention, Side, TimeInForce};

/// The place of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum OrderLocation {
    /// Matching, or between the other places.
    Incoming = 0,
    /// In the book.
    Book = 1,
    /// In the book of a call as a market order, at no price.
    Market = 2,
    /// Waiting for a trade at its stop price.
    Stop = 3,
    /// Waiting for the closing call.
    Parked = 4,
}

impl OrderLocation {
    /// Returns the place with this code in a publication's state.
    pub(super) fn from_code(code: u8) -> Option<OrderLocation> {
        use OrderLocation::{Book, Incoming, Market, Parked, Stop};
        [Incoming, Book, Market, Stop, Parked].into_iter().find(|place| *place as u8 == code)
    }
}

/// A live order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// The index of its instrument.
    pub(super) instrument: usize,
    pub(super) side: Side,
    pub(super) ord_type: OrdType,
    pub(super) time_in_force: TimeInForce,
    pub(super) self_trade_prevention: SelfTradePrevention,
    pub(super) place: OrderLocation,
    pub(super) price: Price,
    pub(super) order_qty: Qty,
    pub(super) leaves_qty: Qty,
    pub(super) display_qty: Qty,
    /// The quantity that the book shows.
    pub(super) shown_qty: Qty,
    /// The priority: of two orders at a price, the one with the smaller rank is first.
    pub(super) rank: u64,
    /// The public order reference; zero while the order is not published.
    pub(super) reference: u64,
}

impl Order {
    pub(super) fn is_iceberg(&self) -> bool {
        !self.display_qty.is_zero()
    }

    /// Returns the quantity to show when the order enters the book or its slice is refilled.
    pub(super) fn slice(&self) -> Qty {
        if self.is_iceberg() { self.display_qty.min(self.leaves_qty) } else { self.leaves_qty }
    }

    /// Returns the quantity to show in place when no more than `leaves_qty` is left.
    pub(super) fn shown_of(&self, leaves_qty: Qty) -> Qty {
        if self.is_iceberg() { self.shown_qty.min(leaves_qty) } else { leaves_qty }
    }

    /// Returns true when the order's remainder after matching rests in the book.
    pub(super) fn can_stand(&self) -> bool {
        use TimeInForce::{Day, Gtc, Gtd};
        self.ord_type == OrdType::Limit && matches!(self.time_in_force, Day | Gtc | Gtd)
    }
}

/// Live orders by the engine's number.
pub(super) type Orders = HashMap<Rec, Order, FxBuildHasher>;

/// The prices of one side, the best at the end, each with its number of orders.
#[derive(Clone, Debug, Default)]
pub(super) struct Prices {
    rungs: Vec<(i64, u32)>,
}

/// Returns the rank of a price on its side: a better price has a greater rank.
pub(super) fn rank_of(side: Side, price: Price) -> i64 {
    // The complement reverses the order and cannot overflow.
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

    /// Returns true when an order of the other side with this limit meets the best price.
    pub(super) fn is_reached_by(&self, own_side: Side, limit: Price) -> bool {
        let Some((rank, _)) = self.rungs.last() else { return false };
        match own_side {
            Side::Buy => !*rank <= limit.0,
            Side::Sell => *rank >= limit.0,
        }
    }
}
