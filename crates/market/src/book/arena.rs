//! Orders and levels of all instruments, in one arena each, and the queues that link them.
//!
//! A row has 32 bytes, so that two share a cache line. Freed rows are reused before the arena
//! grows: it grows only when more rows are live than ever before.
//!
//! INVARIANT: a free order's size is zero, a resting one's is not; a level's size is the sum of its
//! orders' sizes, its count their number, `head` the oldest and `tail` the newest. A level by price
//! has no orders, and its count is the feed's.

use super::index::{NIL, Slot};
use weir_memory::{prefetch, take_ahead};
use weir_types::Side;

/// A resting order.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Order {
    pub(crate) order_id: u64,
    pub(crate) size: u64,
    /// The index of its instrument in the books.
    pub(crate) instrument: u32,
    pub(crate) level: Slot,
    /// The previous order in its level's queue.
    pub(crate) older: Slot,
    /// The next order in its level's queue; in a free row the next free row.
    pub(crate) newer: Slot,
}

/// The resting quantity at one price of a side.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Level {
    /// The price as ranked by its side.
    pub(crate) rank: i64,
    pub(crate) size: u64,
    pub(crate) count: u32,
    /// The oldest order; in a free row the next free row.
    pub(crate) head: Slot,
    pub(crate) tail: Slot,
    pub(crate) is_sell: bool,
}

impl Level {
    /// Creates a level that lists no order.
    #[inline]
    pub(crate) fn new(side: Side, rank: i64, size: u64, count: u32) -> Level {
        Level { rank, size, count, head: NIL, tail: NIL, is_sell: side == Side::Sell }
    }
}

/// A row of an arena.
pub(crate) trait Row: Copy {
    /// Returns the link of a free row to the next free row.
    fn next_free(&mut self) -> &mut Slot;
}

impl Row for Order {
    fn next_free(&mut self) -> &mut Slot {
        &mut self.newer
    }
}

impl Row for Level {
    fn next_free(&mut self) -> &mut Slot {
        &mut self.head
    }
}

/// Rows of one kind, with a free list.
pub(crate) struct Arena<R> {
    rows: Vec<R>,
    free: Slot,
    live_count: u32,
    count_max: u32,
}

impl<R: Row> Arena<R> {
    /// Creates an arena with memory for `count` rows and a limit of `count_max`.
    pub(crate) fn new(count: u32, count_max: u32) -> Arena<R> {
        // `NIL` is no valid slot, so there are slots for this many rows.
        let mut rows = Vec::with_capacity(count.min(count_max) as usize);
        take_ahead(&mut rows);
        Arena { rows, free: NIL, live_count: 0, count_max }
    }

    /// Returns the number of rows in use.
    pub(crate) fn live_count(&self) -> u32 {
        self.live_count
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.live_count >= self.count_max
    }

    /// Takes a row; the caller has checked that the arena is not [full](Arena::is_full).
    #[inline]
    pub(crate) fn take(&mut self, row: R) -> Slot {
        self.live_count += 1;
        if self.free == NIL {
            self.rows.push(row);
            return (self.rows.len() - 1) as Slot;
        }
        let slot = self.free;
        let place = &mut self.rows[slot as usize];
        self.free = *place.next_free();
        *place = row;
        slot
    }

    #[inline]
    pub(crate) fn give_back(&mut self, slot: Slot) {
        *self.rows[slot as usize].next_free() = self.free;
        self.free = slot;
        self.live_count -= 1;
    }

    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> &R {
        &self.rows[slot as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut R {
        &mut self.rows[slot as usize]
    }

    /// Returns the row of a slot; `None` when the slot has none.
    #[inline]
    pub(crate) fn find(&self, slot: Slot) -> Option<&R> {
        self.rows.get(slot as usize)
    }

    /// Prefetches the row of a slot, if the slot has one.
    #[inline]
    pub(crate) fn prefetch(&self, slot: Slot) {
        if let Some(row) = self.find(slot) {
            prefetch(row);
        }
    }

    /// Iterates over all rows, including free ones.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &R)> {
        (0..).zip(&self.rows)
    }

    /// Removes all rows; the memory stays allocated.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        (self.free, self.live_count) = (NIL, 0);
    }
}

/// Appends an order to its level's queue. The caller updates size and count.
#[inline]
pub(crate) fn link(orders: &mut Arena<Order>, level: &mut Level, slot: Slot) {
    let last = level.tail;
    if last == NIL {
        level.head = slot;
    } else {
        orders.get_mut(last).newer = slot;
    }
    let order = orders.get_mut(slot);
    (order.older, order.newer) = (last, NIL);
    level.tail = slot;
}

/// Unlinks an order from its level's queue. The caller updates size and count.
#[inline]
pub(crate) fn unlink(orders: &mut Arena<Order>, level: &mut Level, slot: Slot) {
    let Order { older, newer, .. } = *orders.get(slot);
    if older == NIL {
        level.head = newer;
    } else {
        orders.get_mut(older).newer = newer;
    }
    if newer == NIL {
        level.tail = older;
    } else {
        orders.get_mut(newer).older = older;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_rows_share_a_cache_line() {
        assert_eq!((size_of::<Order>(), size_of::<Level>()), (32, 32));
    }

    #[test]
    fn places_given_back_are_taken_before_the_arena_grows() {
        let order = |order_id| Order {
            order_id,
            size: 1,
            instrument: 0,
            level: NIL,
            older: NIL,
            newer: NIL,
        };
        let mut arena = Arena::new(2, 3);
        let slots: Vec<Slot> = (0..3).map(|id| arena.take(order(id))).collect();
        assert_eq!(slots, [0, 1, 2]);
        assert!(arena.is_full());
        arena.give_back(0);
        arena.give_back(2);
        assert_eq!((arena.live_count(), arena.is_full()), (1, false));
        assert_eq!((arena.take(order(7)), arena.take(order(8))), (2, 0));
        assert_eq!((arena.get(2).order_id, arena.get(0).order_id), (7, 8));
        arena.clear();
        assert_eq!((arena.live_count(), arena.take(order(9))), (0, 0));
    }
}
