//! The orders and levels of all instruments, in their arenas, and the index of orders by number.

use weir_types::{Price, Qty, Side};

use super::anomaly::Anomaly;
use super::arena::{Arena, Level, Order, link, unlink};
use super::change::{BookLevel, Change, LevelChange};
use super::config::{BooksConfig, OrderIds};
use super::index::{EntryLocation, Hash, NIL, Slot, SlotIndex};
use super::instrument::{Instrument, SIDES, book_level, side_of};
use super::ladder::{Rung, price_of, rank_of};

/// All resting orders and levels.
pub(crate) struct Store {
    pub(crate) orders: Arena<Order>,
    pub(crate) levels: Arena<Level>,
    pub(crate) index: SlotIndex,
    order_ids: OrderIds,
    levels_per_side_max: usize,
}

/// An order to add to a book.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewOrder {
    pub(crate) place: u32,
    pub(crate) order_id: u64,
    pub(crate) side: Side,
    pub(crate) price: Price,
    pub(crate) size: Qty,
}

impl Store {
    pub(crate) fn new(config: &BooksConfig) -> Store {
        Store {
            orders: Arena::new(config.orders, config.orders_max),
            levels: Arena::new(config.orders, config.orders_max),
            index: SlotIndex::new(config.orders as usize),
            order_ids: config.order_ids,
            levels_per_side_max: config.levels_per_side_max as usize,
        }
    }

    pub(crate) fn order_ids(&self) -> OrderIds {
        self.order_ids
    }

    /// Returns the hash of an order of the instrument at `place`.
    #[inline]
    pub(crate) fn hash(&self, place: u32, order_id: u64) -> Hash {
        let salt = match self.order_ids {
            OrderIds::OfFeed => 0,
            OrderIds::OfInstrument => place.wrapping_add(1),
        };
        Hash::of(order_id, salt)
    }

    /// Returns a resting order. Where order numbers are unique in the feed, `place` is ignored.
    #[inline]
    pub(crate) fn find(&self, hash: Hash, place: u32, order_id: u64) -> Option<EntryLocation> {
        let is_any = self.order_ids == OrderIds::OfFeed;
        self.index.find(hash, |slot| {
            let order = self.orders.get(slot);
            order.order_id == order_id && (is_any || order.instrument == place)
        })
    }

    /// Adds an order that does not rest yet, at the end of its price's queue.
    #[inline]
    pub(crate) fn add(
        &mut self,
        instrument: &mut Instrument,
        new: &NewOrder,
        hash: Hash,
        change: &mut Change,
    ) {
        if self.orders.is_full() {
            return change.anomalies.insert(Anomaly::LimitReached);
        }
        let Some(level) = self.join_level(instrument, new, change) else { return };
        let order = Order {
            order_id: new.order_id,
            size: new.size.0,
            instrument: new.place,
            level,
            older: NIL,
            newer: NIL,
        };
        change.added.0 = change.added.0.saturating_add(new.size.0);
        let slot = self.orders.take(order);
        let row = self.levels.get_mut(level);
        link(&mut self.orders, row, slot);
        change.touch(LevelChange { side: new.side, level: book_level(row) });
        if self.index.is_full() {
            self.grow_index();
        }
        self.index.insert(hash, slot);
    }

    /// Finds or makes the level of an order and adds the order's size.
    #[inline]
    fn join_level(
        &mut self,
        instrument: &mut Instrument,
        new: &NewOrder,
        change: &mut Change,
    ) -> Option<Slot> {
        let rank = rank_of(new.side, new.price);
        match instrument.ladder(new.side).search(rank) {
            Ok(at) => {
                let slot = instrument.ladder(new.side).at(at).level;
                let level = self.levels.get_mut(slot);
                let Some(size) = level.size.checked_add(new.size.0) else {
                    change.anomalies.insert(Anomaly::Overflow);
                    return None;
                };
                level.size = size;
                level.count += 1;
                Some(slot)
            }
            Err(at) => {
                let level = Level::new(new.side, rank, new.size.0, 1);
                self.new_level(instrument, at, level, change)
            }
        }
    }

    /// Inserts a new level at its index of the ladder.
    #[inline]
    fn new_level(
        &mut self,
        instrument: &mut Instrument,
        at: usize,
        level: Level,
        change: &mut Change,
    ) -> Option<Slot> {
        let ladder = instrument.ladder_mut(side_of(&level));
        if self.levels.is_full() || ladder.len() >= self.levels_per_side_max {
            change.anomalies.insert(Anomaly::LimitReached);
            return None;
        }
        let slot = self.levels.take(level);
        ladder.insert(at, Rung { rank: level.rank, level: slot });
        Some(slot)
    }

    /// Takes `size` off an order, which must have that much; removes the order when nothing is
    /// left.
    #[inline]
    pub(crate) fn take(
        &mut self,
        instrument: &mut Instrument,
        hash: Hash,
        found: EntryLocation,
        size: u64,
        change: &mut Change,
    ) {
        change.removed.0 = change.removed.0.saturating_add(size);
        let order = self.orders.get_mut(found.slot);
        order.size -= size;
        let (left, level_slot) = (order.size, order.level);
        let level = self.levels.get_mut(level_slot);
        level.size -= size;
        if left == 0 {
            level.count -= 1;
            unlink(&mut self.orders, level, found.slot);
            self.index.remove(hash, found);
            self.orders.give_back(found.slot);
        }
        let level = *level;
        change.touch(LevelChange { side: side_of(&level), level: book_level(&level) });
        if level.count == 0 {
            self.drop_level(instrument, &level, level_slot);
        }
    }

    /// Moves an order to the end of its level's queue.
    pub(crate) fn requeue(&mut self, slot: Slot) {
        let level = self.levels.get_mut(self.orders.get(slot).level);
        unlink(&mut self.orders, level, slot);
        link(&mut self.orders, level, slot);
    }

    /// Enlarges an order in place. Returns false, and changes nothing, when its level's sum would
    /// overflow.
    pub(crate) fn enlarge(&mut self, slot: Slot, by: u64, change: &mut Change) -> bool {
        let order = self.orders.get_mut(slot);
        let level = self.levels.get_mut(order.level);
        let Some(sum) = level.size.checked_add(by) else { return false };
        // The order's size is part of the level's sum, so it cannot overflow either.
        order.size += by;
        level.size = sum;
        change.added.0 = change.added.0.saturating_add(by);
        change.touch(LevelChange { side: side_of(level), level: book_level(level) });
        true
    }

    #[inline]
    fn drop_level(&mut self, instrument: &mut Instrument, level: &Level, slot: Slot) {
        let ladder = instrument.ladder_mut(side_of(level));
        if let Ok(at) = ladder.search(level.rank) {
            ladder.remove(at);
        }
        self.levels.give_back(slot);
    }

    /// Sets the resting quantity at a price of a book by price.
    pub(crate) fn set_level(
        &mut self,
        instrument: &mut Instrument,
        touched: LevelChange,
        change: &mut Change,
    ) {
        let LevelChange { side, level: BookLevel { price, size, order_count } } = touched;
        let rank = rank_of(side, price);
        match instrument.ladder(side).search(rank) {
            Ok(at) => {
                let slot = instrument.ladder(side).at(at).level;
                if size.is_zero() {
                    instrument.ladder_mut(side).remove(at);
                    self.levels.give_back(slot);
                } else {
                    let level = self.levels.get_mut(slot);
                    (level.size, level.count) = (size.0, order_count);
                }
            }
            // Feeds remove levels that they never sent.
            Err(_) if size.is_zero() => return,
            Err(at) => {
                let level = Level::new(side, rank, size.0, order_count);
                if self.new_level(instrument, at, level, change).is_none() {
                    return;
                }
            }
        }
        change.touch(touched);
    }

    /// Removes all orders and levels of an instrument.
    pub(crate) fn clear(&mut self, instrument: &mut Instrument, place: u32) {
        for side in SIDES {
            for rung in instrument.ladder(side).iter() {
                let mut at = self.levels.get(rung.level).head;
                while at != NIL {
                    let Order { order_id, newer, .. } = *self.orders.get(at);
                    let hash = self.hash(place, order_id);
                    if let Some(found) = self.index.find(hash, |slot| slot == at) {
                        self.index.remove(hash, found);
                    }
                    self.orders.get_mut(at).size = 0;
                    self.orders.give_back(at);
                    at = newer;
                }
                self.levels.give_back(rung.level);
            }
        }
        instrument.clear();
    }

    /// Removes all orders and levels of all instruments.
    pub(crate) fn clear_all(&mut self) {
        self.orders.clear();
        self.levels.clear();
        self.index.clear();
    }

    /// Moves every entry to an index of twice the size.
    #[cold]
    fn grow_index(&mut self) {
        let mut index = SlotIndex::new(self.index.capacity().saturating_mul(2));
        // Skips the newest order: the caller inserts it.
        for (slot, order) in self.orders.iter() {
            let hash = self.hash(order.instrument, order.order_id);
            if order.size != 0 && self.index.find(hash, |known| known == slot).is_some() {
                index.insert(hash, slot);
            }
        }
        self.index = index;
    }

    /// Returns the side and the price of a resting order.
    #[inline]
    pub(crate) fn terms_of(&self, order: &Order) -> (Side, Price) {
        let level = self.levels.get(order.level);
        let side = side_of(level);
        (side, price_of(side, level.rank))
    }
}
