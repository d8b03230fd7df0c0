//! Pairs the two events that report one Bitstamp trade, and determines the aggressor.
//!
//! Each side of a trade is an event that lowers an order's volume by the same amount, the two a few
//! events and milliseconds apart. The aggressor is the order whose entry, or change of price, came
//! last.

use std::collections::{BTreeMap, BTreeSet};

use weir_types::{Nanos, Price, Qty, Side};

use super::bitstamp::{Action, OrderRecord};
use super::bitstamp_flow::BitstampNotes;

/// The most lowered volumes between the two events of a trade.
const DISTANCE_MAX: usize = 12;

/// The most time between the two events of a trade.
const APART_MAX: Nanos = Nanos(500_000_000);

/// The most by which the two events may differ: the table rounds volumes, the log does not.
const ROUNDING_MAX: u64 = 2;

/// The most volume that an aggressor out of money leaves: 0.001 BTC, far above any observed.
const SHORT_MAX: u64 = 100_000;

/// An order at the start of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    pub side: Side,
    pub price: Price,
    pub qty: Qty,
}

/// All trades of a day.
#[derive(Debug, Default)]
pub(super) struct Pairing {
    /// Per entry of an aggressor, by the index of its record: its makers and the quantity of each.
    pub fills: BTreeMap<usize, Vec<(u64, Qty)>>,
    /// Indices of records that report a side of a trade.
    pub reports: BTreeSet<usize>,
    /// Indices of records that enter an order or change its price.
    pub entries: BTreeSet<usize>,
    /// Orders from before the file.
    pub standing: BTreeMap<u64, Life>,
    /// Per entry of an order that traded to its end, the quantity that it traded: its volume at
    /// entry, except for rounding in the table and the part that a buyer's money did not cover.
    pub entry_qty: BTreeMap<usize, Qty>,
    /// Per order and entry, the quantity traded since.
    traded: BTreeMap<(u64, Option<usize>), Qty>,
    /// Indices of deletions that end an order whose money ran out.
    short: BTreeSet<usize>,
}

/// An event that lowers an order's volume.
#[derive(Clone, Copy, Debug)]
struct Lowered {
    at: usize,
    order: OrderRecord,
    /// The price before the event.
    price: Price,
    /// The decrease; unknown if this is the order's first event.
    by: Option<Qty>,
    /// The index of the order's latest entry, if it is in the file.
    entry: Option<usize>,
}

impl Pairing {
    pub(super) fn of(orders: &BTreeMap<usize, OrderRecord>, notes: &mut BitstampNotes) -> Pairing {
        let mut pairing = Pairing::default();
        let lowered = pairing.lowered(orders);
        let mut open: Vec<Option<Lowered>> = lowered.into_iter().map(Some).collect();
        for first in 0..open.len() {
            let Some(one) = open[first] else { continue };
            let last = open.len().min(first + DISTANCE_MAX);
            let found = (first + 1..last).find(|second| {
                open[*second].is_some_and(|other| one.is_of_the_same_trade_as(&other))
            });
            if let Some(second) = found {
                let other = open[second].take().expect("it was just looked at");
                open[first] = None;
                pairing.pair(one, other, notes);
            }
        }
        for one in open.into_iter().flatten() {
            if !pairing.pair_with_short(&one, orders, notes) {
                notes.unpaired += 1;
            }
        }
        pairing.balance(orders);
        pairing.standing.retain(|_, life| !life.qty.is_zero());
        pairing
    }

    /// Walks every order's life and returns the events that lower a volume.
    fn lowered(&mut self, orders: &BTreeMap<usize, OrderRecord>) -> Vec<Lowered> {
        let mut lives: BTreeMap<u64, (OrderRecord, Option<usize>)> = BTreeMap::new();
        let mut lowered = Vec::new();
        for (at, order) in orders {
            let (at, order, id) = (*at, *order, order.order_id);
            let known = lives.get(&id).copied();
            if order.action == Action::Created && known.is_none() {
                self.entries.insert(at);
                lives.insert(id, (order, Some(at)));
                continue;
            }
            let OrderRecord { side, price, qty, .. } = order;
            let Some((before, entry)) = known else {
                self.standing.insert(id, Life { side, price, qty });
                lives.insert(id, (order, None));
                let filled = order.action == Action::Changed || qty.is_zero();
                if filled {
                    lowered.push(Lowered { at, order, price, by: None, entry: None });
                }
                continue;
            };
            let reprices =
                order.action == Action::Changed && (before.price != price || before.qty < qty);
            if reprices {
                self.entries.insert(at);
            }
            lives.insert(id, (order, if reprices { Some(at) } else { entry }));
            if !reprices && qty < before.qty {
                let by = Some(before.qty - qty);
                lowered.push(Lowered { at, order, price: before.price, by, entry });
            }
        }
        lowered
    }

    /// Sets the entry volume of orders that traded to their end to the volume that they traded.
    fn balance(&mut self, orders: &BTreeMap<usize, OrderRecord>) {
        let mut latest: BTreeMap<u64, usize> = BTreeMap::new();
        for (at, order) in orders {
            if self.entries.contains(at) {
                latest.insert(order.order_id, *at);
            }
            let ends = order.qty.is_zero() || self.short.contains(at);
            if order.action != Action::Deleted || !ends {
                continue;
            }
            let entry = latest.get(&order.order_id).copied();
            let Some(traded) = self.traded.get(&(order.order_id, entry)) else { continue };
            match (entry, self.standing.get_mut(&order.order_id)) {
                (Some(entry), _) => _ = self.entry_qty.insert(entry, *traded),
                (None, Some(life)) => life.qty = *traded,
                (None, None) => {}
            }
        }
    }

    fn pair(&mut self, one: Lowered, other: Lowered, notes: &mut BitstampNotes) {
        let (taker, maker) = if one.entry > other.entry { (one, other) } else { (other, one) };
        let (Some(entry), Some(qty)) = (taker.entry, maker.by.or(taker.by)) else {
            notes.unpaired += 2;
            return;
        };
        notes.trades_paired += 1;
        self.fill(entry, maker.order.order_id, qty);
        for side in [one, other] {
            self.reports.insert(side.at);
            self.unsee(&side, qty);
            *self.traded.entry((side.order.order_id, side.entry)).or_default() += qty;
        }
    }

    fn fill(&mut self, entry: usize, maker: u64, qty: Qty) {
        self.fills.entry(entry).or_default().push((maker, qty));
    }

    /// Adds to an order from before the file the quantity of a decrease that was its first event.
    fn unsee(&mut self, side: &Lowered, qty: Qty) {
        if let (None, Some(life)) = (side.by, self.standing.get_mut(&side.order.order_id)) {
            life.qty += qty;
        }
    }

    /// Pairs an event with the deletion of a buyer whose money ran out; it is deleted with its
    /// volume before its last trade.
    fn pair_with_short(
        &mut self,
        one: &Lowered,
        orders: &BTreeMap<usize, OrderRecord>,
        notes: &mut BitstampNotes,
    ) -> bool {
        let Some(by) = one.by else { return false };
        let near = orders.range(one.at.saturating_sub(3)..=one.at + 3);
        let short = near.map(|(at, order)| (*at, *order)).find(|(_, order)| {
            let rest = order.qty.0.checked_sub(by.0);
            order.action == Action::Deleted
                && order.side != one.order.side
                && order.price == one.price
                && rest.is_some_and(|rest| (1..=SHORT_MAX).contains(&rest))
        });
        let Some((at, short)) = short else { return false };
        let entry =
            self.entries.range(..at).rev().copied().find(|entry| {
                orders.get(entry).is_some_and(|order| order.order_id == short.order_id)
            });
        let Some(entry) = entry else { return false };
        notes.trades_paired += 1;
        notes.trades_short_of_money += 1;
        self.fill(entry, one.order.order_id, by);
        self.reports.extend([one.at, at]);
        self.short.insert(at);
        for party in [(one.order.order_id, one.entry), (short.order_id, Some(entry))] {
            *self.traded.entry(party).or_default() += by;
        }
        true
    }
}

impl Lowered {
    fn is_of_the_same_trade_as(&self, other: &Lowered) -> bool {
        let same_qty = match (self.by, other.by) {
            (Some(one), Some(other)) => one.0.abs_diff(other.0) <= ROUNDING_MAX,
            _ => true,
        };
        same_qty
            && self.order.side != other.order.side
            && other.order.ts.since(self.order.ts) <= APART_MAX
    }
}
