//! A plan for replaying a stream into a running system: orders, due times, instruments.
//!
//! Pure: it returns due times counted from the start of the replay and never waits. One stream can
//! be replayed on several instruments at once, each copy later than the one before it, so that
//! their bursts do not coincide; copies share the plan but no order number.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU64;

use weir_types::Nanos;

use super::model::{FlowItem, FlowKind};
use super::orders::{FlowToOrders, LocalId, OrderIntent};

/// The parameters of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayConfig {
    /// The speed as a multiple of the market's.
    pub speed: NonZeroU64,
    /// The number of instruments.
    pub copies: u32,
    /// The delay of each copy after the one before it, in the time of the replay.
    pub shift: Nanos,
}

/// An order and its due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueOrder {
    /// The due time since the start of the replay.
    pub at: Nanos,
    /// The copy of the stream, from 0; it determines the instrument.
    pub copy: u32,
    /// The order; its number is unique over all copies.
    pub intent: OrderIntent,
}

/// The orders of a stream, each with its time in the stream.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    steps: Vec<(Nanos, OrderIntent)>,
    seed_count: usize,
}

impl Plan {
    /// Converts a stream to orders.
    pub fn of<'a>(items: impl IntoIterator<Item = &'a FlowItem>) -> Plan {
        let mut orders = FlowToOrders::new();
        let mut steps = Vec::new();
        let mut seed_count = 0;
        for item in items {
            if let FlowItem::Event(event) = item
                && let Some(intent) = orders.apply(event).intent
            {
                if event.kind == FlowKind::Seed && seed_count == steps.len() {
                    seed_count += 1;
                }
                steps.push((event.ts, intent));
            }
        }
        Plan { steps, seed_count }
    }

    /// The number of orders per copy that come first because they were live before the recording
    /// began.
    #[must_use]
    pub fn seed_count(&self) -> usize {
        self.seed_count
    }

    /// The number of orders per copy.
    #[must_use]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// True when the stream has no orders.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The duration of a replay of one copy.
    #[must_use]
    pub fn span(&self, speed: NonZeroU64) -> Nanos {
        let ends = self.steps.first().zip(self.steps.last());
        ends.map_or(Nanos(0), |(first, last)| Nanos(last.0.since(first.0).0 / speed))
    }

    /// The orders of all copies, in order of their due times, ties in order of copies.
    #[must_use]
    pub fn replay(&self, config: ReplayConfig) -> Replay<'_> {
        let mut replay = Replay { plan: self, config, next: BinaryHeap::new() };
        for copy in 0..config.copies {
            replay.schedule(copy, 0);
        }
        replay
    }
}

/// The orders of a replay, in order of their due times.
#[derive(Clone, Debug)]
pub struct Replay<'a> {
    plan: &'a Plan,
    config: ReplayConfig,
    /// Per copy, the due time and the index of its next step.
    next: BinaryHeap<Reverse<(Nanos, u32, usize)>>,
}

impl Replay<'_> {
    /// The number of orders still to come.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.next.iter().map(|Reverse((_, _, index))| self.plan.steps.len() - index).sum()
    }

    fn schedule(&mut self, copy: u32, index: usize) {
        if let Some((ts, _)) = self.plan.steps.get(index) {
            let begun = self.plan.steps[0].0;
            let late = self.config.shift.0.saturating_mul(u64::from(copy));
            let at = (ts.since(begun).0 / self.config.speed).saturating_add(late);
            self.next.push(Reverse((Nanos(at), copy, index)));
        }
    }
}

impl Iterator for Replay<'_> {
    type Item = DueOrder;

    fn next(&mut self) -> Option<DueOrder> {
        let Reverse((at, copy, index)) = self.next.pop()?;
        self.schedule(copy, index + 1);
        let intent = renumber(self.plan.steps[index].1, copy, self.config.copies);
        Some(DueOrder { at, copy, intent })
    }
}

/// Renumbers an order: numbers of different copies differ modulo the number of copies.
fn renumber(intent: OrderIntent, copy: u32, copies: u32) -> OrderIntent {
    let renumbered = |id: LocalId| LocalId((id.0 - 1) * u64::from(copies) + u64::from(copy) + 1);
    match intent {
        OrderIntent::New { local_id, side, price, qty, tif } => {
            OrderIntent::New { local_id: renumbered(local_id), side, price, qty, tif }
        }
        OrderIntent::Ioc { local_id, side, price, qty } => {
            OrderIntent::Ioc { local_id: renumbered(local_id), side, price, qty }
        }
        OrderIntent::ReplaceQty { local_id, order_qty, leaves_qty } => {
            OrderIntent::ReplaceQty { local_id: renumbered(local_id), order_qty, leaves_qty }
        }
        OrderIntent::Cancel { local_id } => OrderIntent::Cancel { local_id: renumbered(local_id) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::model::{FlowEvent, FlowKind};
    use weir_types::{Price, Qty, Side};

    fn add(ts: u64, id: u64) -> FlowItem {
        let (side, price, qty) = (Side::Buy, Price(1), Qty(5));
        let (ts, kind) = (Nanos(ts), FlowKind::Add);
        FlowItem::Event(FlowEvent { ts, source_order_id: id, kind, side, price, qty })
    }

    #[test]
    fn what_stood_before_comes_first_and_is_counted() {
        let mut items = [add(1_000, 1), add(1_000, 2), add(1_100, 3), add(1_200, 4)];
        for at in [0, 1, 3] {
            if let FlowItem::Event(event) = &mut items[at] {
                event.kind = FlowKind::Seed;
            }
        }
        assert_eq!(Plan::of(&items).seed_count(), 2);
        assert_eq!(Plan::of(&items[2..]).seed_count(), 0);
    }

    #[test]
    fn copies_are_shifted_in_time_and_share_no_number() {
        let items = [add(1_000, 1), add(1_100, 2), add(1_500, 3)];
        let plan = Plan::of(&items);
        let speed = NonZeroU64::new(10).unwrap();
        let replay = plan.replay(ReplayConfig { speed, copies: 2, shift: Nanos(20) });
        assert_eq!(replay.remaining(), 6);
        let got: Vec<_> = replay.map(|due| (due.at.0, due.copy, due.intent.local_id().0)).collect();
        let want = [(0, 0, 1), (10, 0, 3), (20, 1, 2), (30, 1, 4), (50, 0, 5), (70, 1, 6)];
        assert_eq!(got, want);
        assert_eq!(plan.span(speed), Nanos(50));
    }
}
