//! Batches of updates: prefetches the memory that later updates will touch.
//!
//! An update of a random order waits for memory about four times in sequence: the table's bucket,
//! the order, its level, its neighbours. A quote waits for its instrument, the line of its venues,
//! and the previous quote. The waits of different orders are independent. So each update passes
//! through stages a few updates apart, and each stage prefetches the memory that the previous stage
//! located; a prefetch does not wait. Results never depend on the stages. This pays only where the
//! resting orders exceed a core's own caches.

use weir_feed::update::{Action, Update, Venue};
use weir_memory::prefetch;
use weir_types::Side;

use super::books::Books;
use super::change::Change;
use super::config::OrderIds;
use super::index::{NIL, Slot};
use super::ladder::rank_of;

/// Updates between one stage and the next: memory answers within the time that these take.
const APART: usize = 6;

/// Stages before an update is applied.
const STAGES: usize = 4;

/// Updates in the stages at once, rounded up to a power of two.
const UNDER_WAY: usize = (APART * STAGES).next_power_of_two();

/// Resting orders from which prefetching pays: their rows exceed a core's second-level cache.
const ORDERS_MIN: u32 = 1 << 16;

/// Instruments from which prefetching pays.
const INSTRUMENTS_MIN: usize = 1 << 12;

/// The slots that an update's stages found.
#[derive(Clone, Copy)]
struct Seen {
    order: Slot,
    level: Slot,
}

const NOTHING: Seen = Seen { order: NIL, level: NIL };

impl Books {
    /// Applies updates one after the other, as [`Books::apply`] does, and reports the change of
    /// each.
    pub fn apply_all(&mut self, updates: &[Update], mut told: impl FnMut(&Update, &Change)) {
        let is_small =
            self.store.orders.live_count() < ORDERS_MIN && self.instruments.len() < INSTRUMENTS_MIN;
        if is_small || updates.len() < 2 {
            for update in updates {
                told(update, &self.apply(update));
            }
            return;
        }
        let mut seen = [NOTHING; UNDER_WAY];
        for step in 0..updates.len() + STAGES * APART {
            self.look_ahead(updates, step, &mut seen);
            if let Some(update) = step.checked_sub(STAGES * APART).map(|at| &updates[at]) {
                told(update, &self.apply(update));
            }
        }
    }

    /// Moves one update through each stage.
    #[inline]
    fn look_ahead(&self, updates: &[Update], step: usize, seen: &mut [Seen; UNDER_WAY]) {
        let of_stage = |stage: usize| {
            let at = step.checked_sub(stage * APART)?;
            Some((updates.get(at)?, at % UNDER_WAY))
        };
        if let Some((update, _)) = of_stage(0) {
            self.fetch_bucket(update);
        }
        if let Some((update, at)) = of_stage(1) {
            seen[at].order = self.fetch_order(update);
        }
        if let Some((update, at)) = of_stage(2) {
            seen[at].level = self.fetch_level(update, seen[at].order);
        }
        if let Some((update, at)) = of_stage(3) {
            self.fetch_neighbours(update, seen[at]);
        }
    }

    /// Prefetches an update's instrument and the table bucket of its order.
    #[inline]
    fn fetch_bucket(&self, update: &Update) {
        let Some(order_id) = order_of(&update.action) else {
            return self.directory.prefetch(update.instrument_id);
        };
        let place = self.directory.get(update.instrument_id).unwrap_or(0);
        if let Some(instrument) = self.instruments.get(place as usize) {
            prefetch(&instrument.top);
            prefetch(instrument.ladder(Side::Buy));
        }
        self.store.index.prefetch(self.store.hash(self.salt_of(place), order_id));
    }

    /// Prefetches the row of an update's order and the best prices of its instrument.
    #[inline]
    fn fetch_order(&self, update: &Update) -> Slot {
        let Some(order_id) = order_of(&update.action) else {
            self.fetch_top(update);
            return NIL;
        };
        let place = self.directory.get(update.instrument_id).unwrap_or(0);
        if let Some(instrument) = self.instruments.get(place as usize) {
            match update.action {
                Action::Add { side, .. } => instrument.ladder(side).prefetch_best(),
                _ => {
                    instrument.ladder(Side::Buy).prefetch_best();
                    instrument.ladder(Side::Sell).prefetch_best();
                }
            }
        }
        let slot = self.store.index.guess(self.store.hash(self.salt_of(place), order_id));
        self.store.orders.prefetch(slot);
        slot
    }

    /// Prefetches an instrument's line and that of its venues.
    #[inline]
    fn fetch_top(&self, update: &Update) {
        let Some(place) = self.directory.get(update.instrument_id) else { return };
        if let Some(instrument) = self.instruments.get(place as usize) {
            prefetch(&instrument.top);
        }
        if let (Action::Quote { .. }, Some(quotes)) =
            (update.action, self.quotes.get(place as usize))
        {
            prefetch(quotes);
        }
    }

    /// Prefetches a venue's quote.
    #[inline]
    fn fetch_quote(&self, update: &Update, venue: Venue) {
        let place = self.directory.get(update.instrument_id);
        let quotes = place.and_then(|place| self.quotes.get(place as usize));
        if let Some(sides) = quotes.and_then(|quotes| quotes.find(venue)) {
            prefetch(sides);
        }
    }

    /// Prefetches the level of an update's order, or the level that a new order will join, and the
    /// order's neighbours.
    #[inline]
    fn fetch_level(&self, update: &Update, slot: Slot) -> Slot {
        if let Action::Quote { venue, .. } = update.action {
            self.fetch_quote(update, venue);
            return NIL;
        }
        let level = match self.store.orders.find(slot) {
            Some(order) => {
                self.store.orders.prefetch(order.older);
                self.store.orders.prefetch(order.newer);
                order.level
            }
            None => self.level_to_be(update),
        };
        self.store.levels.prefetch(level);
        level
    }

    /// Prefetches the last order of the level that a new order will join.
    #[inline]
    fn fetch_neighbours(&self, update: &Update, seen: Seen) {
        let is_new = matches!(update.action, Action::Add { .. });
        if is_new && let Some(level) = self.store.levels.find(seen.level) {
            self.store.orders.prefetch(level.tail);
        }
    }

    /// Returns the level that a new order will join.
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

    /// Returns the salt that separates order numbers of different instruments where they may
    /// collide.
    #[inline]
    fn salt_of(&self, place: u32) -> u32 {
        match self.store.order_ids() {
            OrderIds::OfFeed => 0,
            OrderIds::OfInstrument => place,
        }
    }
}

/// Returns the order that an action names.
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
