//! A book that is slow and obvious: per price the orders in order of arrival, matched by looking.
//!
//! It exists so that the oracle can be run without the engine, and so that a difference between
//! the engine and a file can be told from an error of the oracle.

use std::collections::BTreeMap;

use weir_client::flow::{BookUnderTest, Hit, Level, LocalId, OrderIntent, Outcome};
use weir_types::{Price, Qty, Side};

type Shelves = BTreeMap<Price, Vec<(LocalId, Qty)>>;

#[derive(Debug, Default)]
pub(crate) struct SlowBook {
    bids: Shelves,
    asks: Shelves,
    places: BTreeMap<LocalId, (Side, Price)>,
}

impl SlowBook {
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
            if qty.is_zero() || !crosses {
                break;
            }
            let shelf = self.shelves(side.opposite()).get_mut(&price).unwrap();
            let (maker, leaves) = &mut shelf[0];
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
        let shelf = self.shelves(side).get_mut(&price).unwrap();
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
                let shelf = self.shelves(side).get_mut(&price).unwrap();
                let (_, leaves) = shelf.iter_mut().find(|(id, _)| *id == local_id).unwrap();
                assert!(leaves_qty < *leaves, "a replace that keeps priority lowers the quantity");
                *leaves = leaves_qty;
                Outcome { accepted: true, hits: Vec::new() }
            }
            OrderIntent::Cancel { local_id } => {
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
