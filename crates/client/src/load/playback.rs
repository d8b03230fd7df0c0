//! Recorded flow as the orders of a run: each intent at its due time, by the trader of its copy.
//!
//! Orders of one copy go over one session, in the order of the recording, so that the order named
//! by a cancel or a replace is sent before it. Only orders of the recording are sent.

use std::collections::HashMap;

use weir_types::{AccountId, ClOrdId, InstrumentId, Nanos, PartitionId, Price, TimeInForce};
use weir_wire::Request;
use weir_wire::event::OrderEvent;

use super::generator::OrderGenerator;
use crate::flow::{DueOrder, LocalId, OrderIntent, Replay};
use crate::request::{LimitOrder, Replace, cancel};

/// The instrument, account and trader of one copy of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaybackAccount {
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// Its partition.
    pub partition_id: PartitionId,
    /// The account.
    pub account_id: AccountId,
    /// The index of the trader who sends its orders.
    pub trader: usize,
}

/// A replay as a source of orders.
#[derive(Debug)]
pub struct Playback<'a> {
    replay: Replay<'a>,
    next: Option<DueOrder>,
    stages: &'a [PlaybackAccount],
    first_name: u64,
    /// The prices of orders that may be live: a replace repeats them.
    prices: HashMap<u64, Price>,
    left_count: usize,
}

impl<'a> Playback<'a> {
    /// Plays `replay`; copy i uses stage i.
    #[must_use]
    pub fn new(mut replay: Replay<'a>, stages: &'a [PlaybackAccount]) -> Playback<'a> {
        let left_count = replay.remaining();
        let next = replay.next();
        // Names count up from the time of day, so that they differ from an earlier run's.
        let first_name = crate::clock::unix_time().0;
        Playback { replay, next, stages, first_name, prices: HashMap::new(), left_count }
    }

    /// The number of orders still to come.
    #[must_use]
    pub fn left_count(&self) -> usize {
        self.left_count
    }

    fn name(&self, local_id: LocalId) -> ClOrdId {
        ClOrdId::from_number(self.first_name.wrapping_add(local_id.0))
    }

    fn request(&mut self, intent: OrderIntent, stage: &PlaybackAccount) -> Request {
        let PlaybackAccount { instrument_id, account_id, .. } = *stage;
        let cl_ord_id = self.name(intent.local_id());
        match intent {
            OrderIntent::New { local_id, side, price, qty, tif } => {
                self.prices.insert(local_id.0, price);
                let (order_qty, time_in_force) = (qty, tif);
                let order = LimitOrder {
                    cl_ord_id,
                    instrument_id,
                    account_id,
                    side,
                    price,
                    order_qty,
                    time_in_force,
                };
                order.request()
            }
            OrderIntent::Ioc { side, price, qty, .. } => {
                let (order_qty, time_in_force) = (qty, TimeInForce::Ioc);
                let order = LimitOrder {
                    cl_ord_id,
                    instrument_id,
                    account_id,
                    side,
                    price,
                    order_qty,
                    time_in_force,
                };
                order.request()
            }
            OrderIntent::ReplaceQty { local_id, order_qty, .. } => {
                // The price of an order known to have ended is gone; the node refuses its replace
                // anyway.
                let price = self.prices.get(&local_id.0).copied().unwrap_or_default();
                let orig_cl_ord_id = cl_ord_id;
                let replace =
                    Replace { cl_ord_id, orig_cl_ord_id, instrument_id, price, order_qty };
                replace.request()
            }
            OrderIntent::Cancel { .. } => cancel(cl_ord_id, cl_ord_id, instrument_id),
        }
    }
}

impl OrderGenerator for Playback<'_> {
    fn peek(&self) -> Option<Nanos> {
        self.next.map(|due| due.at)
    }

    fn next(&mut self) -> (usize, PartitionId, Request) {
        let due = self.next.take().expect("the caller looked before");
        self.next = self.replay.next();
        self.left_count -= 1;
        let stage = self.stages[due.copy as usize];
        (stage.trader, stage.partition_id, self.request(due.intent, &stage))
    }

    fn on_report(&mut self, _trader: usize, event: &OrderEvent) {
        if !event.ord_status.is_live()
            && let Some(number) = event.cl_ord_id.to_number()
        {
            self.prices.remove(&number.wrapping_sub(self.first_name));
        }
    }
}
