//! A batch of updates: what they will touch is looked at together before they are taken in.
//!
//! An update of a random order waits for memory some four times, one after the other: the table's
//! bucket, the order, its level, its neighbours. Those of different orders do not depend on each
//! other, so that loops that only look let the processor fetch many at once. Nothing depends on
//! what was seen. Worth it only where what rests is bigger than a core's own caches.

use core::hint::black_box;

use weir_types::Side;

use super::books::Books;
use super::change::Change;
use super::config::OrderIds;
use super::index::{NIL, Slot};
use super::ladder::rank_of;
use crate::update::{Action, Update};

/// Updates that are looked at together: what they touch fits in a core's own caches.
const GROUP_LEN: usize = 32;

/// Resting orders from which on looking ahead pays: half a megabyte of rows.
const ORDERS_MIN: u32 = 1 << 14;

impl Books {
    /// Takes updates in one after the other, as [`Books::apply`] does, and tells of each what it
    /// changed.
    pub fn apply_all(&mut self, updates: &[Update], mut told: impl FnMut(&Update, &Change)) {
        for group in updates.chunks(GROUP_LEN) {
            if self.store.orders.live_count() >= ORDERS_MIN {
                self.look_ahead(group);
            }
            for update in group {
                let change = self.apply(update);
                told(update, &change);
            }
        }
    }

    fn look_ahead(&self, updates: &[Update]) {
        let mut slots: [Slot; GROUP_LEN] = [NIL; GROUP_LEN];
        let mut levels: [Slot; GROUP_LEN] = [NIL; GROUP_LEN];
        let mut seen = 0;
        // Each loop looks at what the loop before it found the way to.
        for (update, slot) in updates.iter().zip(&mut slots) {
            seen ^= self.look_at_bucket(update, slot);
        }
        black_box(seen);
        for (update, (slot, level)) in updates.iter().zip(slots.iter_mut().zip(&mut levels)) {
            if let Some(order_id) = order_of(&update.action) {
                *slot = self.store.index.guess(self.store.hash(*slot, order_id));
                *level = self.store.orders.find(*slot).map_or(NIL, |order| order.level);
            }
            if *level == NIL {
                *level = self.level_to_be(update);
            }
        }
        for (slot, level) in slots.iter().zip(&levels) {
            let tail = self.store.levels.find(*level).map_or(NIL, |level| level.tail);
            seen ^= match self.store.orders.find(*slot) {
                Some(order) => {
                    let near = [order.older, order.newer].map(|near| self.store.orders.find(near));
                    let near = near.map(|near| near.map_or(0, |near| near.level));
                    tail ^ near[0] ^ near[1]
                }
                None => self.store.orders.find(tail).map_or(0, |order| order.level),
            };
        }
        black_box(seen);
    }

    /// The level that a new order will join.
    #[inline]
    fn level_to_be(&self, update: &Update) -> Slot {
        let Action::Add { side, price, .. } = update.action else { return NIL };
        let place = self.directory.get(update.instrument_id);
        let Some(instrument) = place.and_then(|place| self.instruments.get(place as usize)) else {
            return NIL;
        };
        let ladder = instrument.ladder(side);
        ladder.search(rank_of(side, price)).map_or(NIL, |at| ladder.at(at).level)
    }

    /// Looks at an update's instrument and at where the table has its order; leaves the place of
    /// the instrument in `slot` where the hash needs it.
    #[inline]
    fn look_at_bucket(&self, update: &Update, slot: &mut Slot) -> u32 {
        let Some(order_id) = order_of(&update.action) else { return 0 };
        let place = self.directory.get(update.instrument_id).unwrap_or(0);
        let instrument = self.instruments.get(place as usize);
        let seen = instrument.map_or(0, |instrument| {
            instrument.top.repaired ^ instrument.ladder(Side::Buy).len() as u32
        });
        *slot = match self.store.order_ids() {
            OrderIds::OfFeed => 0,
            OrderIds::OfInstrument => place,
        };
        seen ^ self.store.index.look(self.store.hash(*slot, order_id))
    }
}

/// The order that an update is about.
#[inline]
fn order_of(action: &Action) -> Option<u64> {
    match *action {
        Action::Add { order_id, .. }
        | Action::Execute { order_id, .. }
        | Action::Reduce { order_id, .. }
        | Action::Delete { order_id }
        | Action::Replace { order_id, .. }
        | Action::Modify { order_id, .. } => Some(order_id),
        _ => None,
    }
}
