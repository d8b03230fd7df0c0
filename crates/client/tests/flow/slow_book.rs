//! A book that is slow and obvious: a list of orders per price by arrival, matched by linear
//! search.
//!
//! With it the oracle runs without the engine, and a difference between the engine and a file can
//! be told from an error of the oracle.

#![allow(dead_code, reason = "the example of the crate uses a part of it")]

use std::collections::BTreeMap;

use weir_client::flow::{BookUnderTest, Hit, Level, LocalId, OrderIntent, Outcome};
use weir_types::{Price, Qty, Side};

type Shelves = BTreeMap<Price, Vec<(LocalId, Qty)>>;

/// A deliberate fault, to show that the oracle finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    /// None.
    #[default]
    None,
    /// The newest order at a price trades first.
    LastInFirstOut,
    /// A replace that lowers the quantity moves the order to the end of its queue.
    ReplaceLosesPriority,
    /// Every hundredth cancel is acknowledged and not carried out.
    CancelForgotten,
    /// Orders trade only at strictly better prices than their own.
    TouchDoesNotTrade,
}

#[derive(Debug, Default)]
pub(crate) struct SlowBook {
    fault: Fault,
    cancels: u64,
    bids: Shelves,
    asks: Shelves,
    places: BTreeMap<LocalId, (Side, Price)>,
}

impl SlowBook {
    pub(crate) fn with(fault: Fault) -> SlowBook {
        SlowBook { fault, ..SlowBook::default() }
    }

    fn shelves(&mut self, side: Side) -> &mut Shelves {
        match side {
            Side::Buy => &mut self.bids,
            Side::Sell => &mut self.asks,
        }
    }

    fn best(&self, side: Side) -> Option<Price> {
        match side {
            Side::Buy => self.bids.keys().next_back().copied(),
            Side::Sell => self.asks.keys().next().copied(),
        }
    }

    fn trade(&mut self, side: Side, limit: Price, mut qty: Qty) -> (Qty, Vec<Hit>) {
        let mut hits = Vec::new();
        while let Some(price) = self.best(side.opposite()) {
            let crosses = if side == Side::Buy { price <= limit } else { price >= limit };
            let touch = self.fault == Fault::TouchDoesNotTrade && price == limit;
            if qty.is_zero() || !crosses || touch {
                break;
            }
            let newest_first = self.fault == Fault::LastInFirstOut;
            let shelf = self.shelves(side.opposite()).get_mut(&price).expect("a place has a shelf");
            let index = if newest_first { shelf.len() - 1 } else { 0 };
            let (maker, leaves) = &mut shelf[index];
            let traded = qty.min(*leaves);
            hits.push(Hit { maker: *maker, price, qty: traded });
            qty -= traded;
            *leaves -= traded;
            if leaves.is_zero() {
                let maker = *maker;
                self.remove(maker);
            }
        }
        (qty, hits)
    }

    fn remove(&mut self, local_id: LocalId) -> bool {
        let Some((side, price)) = self.places.remove(&local_id) else { return false };
        let shelf = self.shelves(side).get_mut(&price).expect("a place has a shelf");
        shelf.retain(|(id, _)| *id != local_id);
        if shelf.is_empty() {
            self.shelves(side).remove(&price);
        }
        true
    }
}

impl BookUnderTest for SlowBook {
    fn submit(&mut self, intent: &OrderIntent) -> Outcome {
        match *intent {
            OrderIntent::New { local_id, side, price, qty, .. } => {
                let (left, hits) = self.trade(side, price, qty);
                if !left.is_zero() {
                    self.places.insert(local_id, (side, price));
                    self.shelves(side).entry(price).or_default().push((local_id, left));
                }
                Outcome { accepted: true, hits }
            }
            OrderIntent::Ioc { side, price, qty, .. } => {
                Outcome { accepted: true, hits: self.trade(side, price, qty).1 }
            }
            OrderIntent::ReplaceQty { local_id, leaves_qty, .. } => {
                let Some((side, price)) = self.places.get(&local_id).copied() else {
                    return Outcome::default();
                };
                let moves = self.fault == Fault::ReplaceLosesPriority;
                let shelf = self.shelves(side).get_mut(&price).expect("a place has a shelf");
                let index =
                    shelf.iter().position(|(id, _)| *id == local_id).expect("its order stands");
                if leaves_qty >= shelf[index].1 {
                    return Outcome::default();
                }
                shelf[index].1 = leaves_qty;
                if moves {
                    let order = shelf.remove(index);
                    shelf.push(order);
                }
                Outcome { accepted: true, hits: Vec::new() }
            }
            OrderIntent::Cancel { local_id } => {
                self.cancels += 1;
                if self.fault == Fault::CancelForgotten && self.cancels.is_multiple_of(100) {
                    return Outcome { accepted: true, hits: Vec::new() };
                }
                Outcome { accepted: self.remove(local_id), hits: Vec::new() }
            }
        }
    }

    fn top(&self, side: Side, depth: usize, out: &mut Vec<Level>) {
        let level = |(price, shelf): (&Price, &Vec<(LocalId, Qty)>)| Level {
            price: *price,
            qty: shelf.iter().fold(Qty::ZERO, |sum, (_, qty)| sum + *qty),
        };
        match side {
            Side::Buy => out.extend(self.bids.iter().rev().take(depth).map(level)),
            Side::Sell => out.extend(self.asks.iter().take(depth).map(level)),
        }
    }
}
