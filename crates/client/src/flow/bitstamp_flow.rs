//! Transcodes a Bitstamp day to the normal form: fills are attached to the aggressor.
//!
//! The exchange reports an order about a tenth of a second before it reports its trades, and a
//! trade as two events, one per order. A matching engine trades at once. So the whole day is read,
//! the two events of each trade are paired, and the fill is placed right behind the entry (or the
//! change of price) of whichever order came last: the aggressor.
//!
//! | in the log | becomes |
//! | --- | --- |
//! | first seen changed or deleted | existed before: seeded at the start under its id |
//! | created | new order, then the fills of which it is the aggressor |
//! | a lower volume, or none, with its counterpart | nothing: the fill is emitted elsewhere |
//! | another price (a market order walks the book) | deletion and new order |
//! | a lower volume without counterpart | partial cancel |
//! | deleted with volume | deletion |
//! | a snapshot | a row; levels beyond all earlier snapshots that no event explains are seeded |

use std::collections::{BTreeMap, BTreeSet};

use weir_types::{Nanos, Price, Qty, Side};

use super::bitstamp::{Action, OrderRecord, Record, SnapshotRecord};
use super::in_step::InStep;
use super::ledger::{Ledger, LiveOrder, at_least_as_good};
use super::model::{ANONYMOUS_ID_FIRST, FlowEvent, FlowItem, FlowKind, FlowRow, Level, RowLevel};
use super::pairing::{Life, Pairing};

/// Counts from the transcoding of a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BitstampNotes {
    /// Order events read.
    pub order_events: u64,
    /// Trades the exchange published.
    pub trades_published: u64,
    /// Trades found as two order events.
    pub trades_paired: u64,
    /// Of those, the trades whose aggressor ran out of money before its volume: the exchange leaves
    /// the rest of its volume in its last event, we enter it without.
    pub trades_short_of_money: u64,
    /// Lower volumes for which no counterpart was found.
    pub unpaired: u64,
    /// Deletions reported a second time, dropped.
    pub deleted_twice: u64,
    /// Orders whose deletion was reported before their creation, dropped.
    pub deleted_before_created: u64,
    /// Last changes reported after their deletion; the two are swapped.
    pub changed_after_deleted: u64,
    /// Rows taken between an order and the report of its fills.
    pub rows_under_way: u64,
    /// Rows that differ from the book built from the events before them.
    pub rows_contradicting: u64,
    /// Of those, rows that equal it up to [`STEPS_MAX`](super::STEPS_MAX) events earlier or later.
    pub rows_out_of_step: u64,
}

/// A day in the normal form.
#[derive(Clone, Debug, Default)]
pub struct BitstampFlow {
    /// Events and rows.
    pub items: Vec<FlowItem>,
    /// Counts from the transcoding.
    pub notes: BitstampNotes,
}

/// Transcodes the records of a day to the normal form.
#[must_use]
pub fn bitstamp_flow(records: &[Record]) -> BitstampFlow {
    let mut notes = BitstampNotes::default();
    let orders = put_in_order(records, &mut notes);
    let pairing = Pairing::of(&orders, &mut notes);
    let mut day = Day {
        pairing,
        ledger: Ledger::default(),
        widest: [None; 2],
        anonymous_next: ANONYMOUS_ID_FIRST,
        under_way: BTreeMap::new(),
        in_step: InStep::default(),
        flow: BitstampFlow { items: Vec::new(), notes },
    };
    day.run(records, &orders);
    day.flow.notes.rows_out_of_step = day.in_step.found();
    day.flow
}

/// Returns the order events by their index among the records, with duplicates dropped and swapped
/// ones reordered.
fn put_in_order(records: &[Record], notes: &mut BitstampNotes) -> BTreeMap<usize, OrderRecord> {
    let mut orders: BTreeMap<usize, OrderRecord> = BTreeMap::new();
    let mut deleted: BTreeMap<u64, usize> = BTreeMap::new();
    let mut stillborn = BTreeSet::new();
    for (at, record) in records.iter().enumerate() {
        let Record::Order(order) = record else {
            notes.trades_published += u64::from(matches!(record, Record::Trade(_)));
            continue;
        };
        notes.order_events += 1;
        match (order.action, deleted.get(&order.order_id).copied()) {
            (Action::Deleted, None) => {
                deleted.insert(order.order_id, at);
                orders.insert(at, *order);
            }
            (_, None) => _ = orders.insert(at, *order),
            (Action::Deleted, Some(_)) => notes.deleted_twice += 1,
            (Action::Created, Some(_)) => {
                notes.deleted_before_created += 1;
                stillborn.insert(order.order_id);
            }
            (Action::Changed, Some(earlier)) => {
                notes.changed_after_deleted += 1;
                let deletion = orders.insert(earlier, *order).expect("it was put there");
                orders.insert(at, deletion);
                deleted.insert(order.order_id, at);
            }
        }
    }
    orders.retain(|_, order| !stillborn.contains(&order.order_id));
    orders
}

struct Day {
    pairing: Pairing,
    ledger: Ledger,
    /// The worst price a snapshot has shown so far, per side.
    widest: [Option<Price>; 2],
    anonymous_next: u64,
    /// Per order, the fills applied and not yet reported.
    under_way: BTreeMap<u64, u64>,
    in_step: InStep,
    flow: BitstampFlow,
}

impl Day {
    fn run(&mut self, records: &[Record], orders: &BTreeMap<usize, OrderRecord>) {
        let start = orders.values().next().map_or(Nanos(0), |order| order.ts);
        for (id, Life { side, price, qty }) in std::mem::take(&mut self.pairing.standing) {
            self.enter(start, FlowKind::Seed, id, LiveOrder { side, price, leaves: qty });
        }
        for (at, record) in records.iter().enumerate() {
            match record {
                Record::Order(_) => {
                    if let Some(order) = orders.get(&at) {
                        self.order(at, order);
                        self.in_step.event(&self.ledger);
                    }
                }
                Record::Snapshot(snapshot) => self.snapshot(snapshot),
                Record::Trade(_) => {}
            }
        }
    }

    fn order(&mut self, at: usize, order: &OrderRecord) {
        let id = order.order_id;
        if self.pairing.reports.contains(&at)
            && let Some(count) = self.under_way.get_mut(&id)
        {
            *count -= 1;
            if *count == 0 {
                self.under_way.remove(&id);
            }
        }
        let settled = !self.under_way.contains_key(&id);
        match (order.action, self.ledger.get(id)) {
            (Action::Created, None) => self.aggress(at, order),
            (Action::Changed, standing) => match standing {
                Some(was) if was.price == order.price => {
                    let surplus = was.leaves.0.saturating_sub(order.qty.0);
                    if settled {
                        self.leave(order.ts, FlowKind::PartialCancel, id, Qty(surplus));
                    }
                }
                _ if self.pairing.entries.contains(&at) => {
                    self.leave(order.ts, FlowKind::Delete, id, Qty(u64::MAX));
                    self.aggress(at, order);
                }
                _ => {}
            },
            (Action::Deleted, Some(_)) => {
                self.leave(order.ts, FlowKind::Delete, id, Qty(u64::MAX));
            }
            (Action::Created, Some(_)) | (Action::Deleted, None) => {}
        }
    }

    /// Enters an order and the fills of which it is the aggressor.
    fn aggress(&mut self, at: usize, order: &OrderRecord) {
        let OrderRecord { ts, order_id: id, side, price, .. } = *order;
        let leaves = self.pairing.entry_qty.get(&at).copied().unwrap_or(order.qty);
        self.enter(ts, FlowKind::Add, id, LiveOrder { side, price, leaves });
        for (maker, qty) in self.pairing.fills.remove(&at).unwrap_or_default() {
            let qty = qty.min(self.ledger.get(id).map_or(Qty::ZERO, |order| order.leaves));
            let taken = self.leave(ts, FlowKind::Fill, maker, qty);
            self.ledger.take(id, taken);
            for party in [id, maker] {
                *self.under_way.entry(party).or_default() += 1;
            }
        }
    }

    fn snapshot(&mut self, snapshot: &SnapshotRecord) {
        let ts = snapshot.ts;
        let under_way = !self.under_way.is_empty();
        self.flow.notes.rows_under_way += u64::from(under_way);
        let mut contradicts = false;
        let mut sides = [Vec::new(), Vec::new()];
        for (index, side) in [Side::Buy, Side::Sell].into_iter().enumerate() {
            let levels = if side == Side::Buy { &snapshot.bids } else { &snapshot.asks };
            for level in levels {
                let seeded = !under_way && self.complete(ts, side, *level);
                sides[index].push(RowLevel { level: *level, seeded });
            }
            if let (Some(level), false) = (levels.last(), under_way) {
                let wider = |old: Price| at_least_as_good(side, old, level.price);
                if self.widest[index].is_none_or(wider) {
                    self.widest[index] = Some(level.price);
                }
            }
            contradicts |= !self.ledger.levels(side).take(levels.len()).eq(levels.iter().copied());
        }
        if contradicts {
            self.flow.notes.rows_contradicting += 1;
            self.in_step.snapshot(&snapshot.bids, &snapshot.asks);
        }
        let [bids, asks] = sides;
        let row = FlowRow { ts, bids, asks, contradicts_events: contradicts };
        self.flow.items.push(FlowItem::Row(row));
    }

    /// Seeds the quantity that a level holds beyond the events, if no earlier snapshot reached it,
    /// and removes quantity of an earlier seed that is gone. Returns true if it did either.
    fn complete(&mut self, ts: Nanos, side: Side, level: Level) -> bool {
        let Level { price, qty } = level;
        let known = self.ledger.qty_at(side, price);
        let seen = self.widest[usize::from(side == Side::Sell)]
            .is_some_and(|widest| at_least_as_good(side, price, widest));
        if known < qty && !seen {
            let id = self.anonymous_next;
            self.anonymous_next += 1;
            self.enter(ts, FlowKind::Seed, id, LiveOrder { side, price, leaves: qty - known });
            return true;
        }
        let mut surplus = Qty(known.0.saturating_sub(qty.0));
        let ids = self.ledger.ids_at(side, price);
        for id in ids.into_iter().filter(|id| *id >= ANONYMOUS_ID_FIRST) {
            surplus -= self.leave(ts, FlowKind::Vanish, id, surplus);
        }
        false
    }

    fn enter(&mut self, ts: Nanos, kind: FlowKind, id: u64, order: LiveOrder) {
        if self.ledger.insert(id, order) {
            self.tell(ts, kind, id, order);
        }
    }

    /// Takes up to `qty` off an order and emits the event; returns the quantity taken.
    fn leave(&mut self, ts: Nanos, kind: FlowKind, id: u64, qty: Qty) -> Qty {
        let Some(order) = self.ledger.get(id) else { return Qty::ZERO };
        let taken = self.ledger.take(id, qty);
        if !taken.is_zero() {
            self.tell(ts, kind, id, LiveOrder { leaves: taken, ..order });
        }
        taken
    }

    fn tell(&mut self, ts: Nanos, kind: FlowKind, id: u64, order: LiveOrder) {
        let LiveOrder { side, price, leaves: qty } = order;
        self.flow.items.push(FlowItem::Event(FlowEvent {
            ts,
            source_order_id: id,
            kind,
            side,
            price,
            qty,
        }));
    }
}
