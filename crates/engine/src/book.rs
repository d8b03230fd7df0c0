//! Price levels: a slab of levels with intrusive time-priority lists, and per side of a book the
//! levels' prices in order, the best at the end. Stops are in such ladders by stop price; market
//! orders of a call and parked orders are in ladders of one level.
//!
//! An order knows its level, so a cancel needs no search unless it empties the level. INVARIANT: a
//! level's `qty` (the shown part), `order_count` and `iceberg_count` are the sums over its list; no
//! level is empty.

use weir_types::{Price, Qty, Side};

use crate::index::{NIL, Slot};
use crate::order::{Order, Orders};
use crate::plant::{self, Plant};
use weir_memory::prefetch;

/// All live orders of one side at one price.
#[derive(Clone, Copy)]
pub(crate) struct PriceLevel {
    pub(crate) price: Price,
    pub(crate) qty: Qty,
    pub(crate) head: Slot,
    pub(crate) tail: Slot,
    pub(crate) order_count: u32,
    pub(crate) iceberg_count: u32,
}

/// The slab of the levels of all books.
#[derive(Default)]
pub(crate) struct Levels {
    rows: Vec<PriceLevel>,
    free: Vec<Slot>,
}

impl Levels {
    fn alloc(&mut self, price: Price) -> Slot {
        let empty = PriceLevel {
            price,
            qty: Qty::ZERO,
            head: NIL,
            tail: NIL,
            order_count: 0,
            iceberg_count: 0,
        };
        if let Some(slot) = self.free.pop() {
            self.rows[slot as usize] = empty;
            return slot;
        }
        self.rows.push(empty);
        (self.rows.len() - 1) as Slot
    }

    /// Appends an order behind all others at its price.
    #[inline]
    fn push_back(&mut self, level: Slot, orders: &mut Orders, slot: Slot) {
        let row = &mut self.rows[level as usize];
        let tail = row.tail;
        let order = &mut orders[slot];
        order.level = level;
        order.level_prev = tail;
        order.level_next = NIL;
        row.tail = slot;
        row.order_count += 1;
        row.qty += order.shown();
        row.iceberg_count += u32::from(order.is_iceberg);
        if tail == NIL {
            row.head = slot;
        } else {
            orders[tail].level_next = slot;
        }
    }

    /// Removes an order; returns true when the level is then empty.
    #[inline]
    fn unlink(&mut self, orders: &mut Orders, order: &Order) -> bool {
        let (prev, next) = (order.level_prev, order.level_next);
        let row = &mut self.rows[order.level as usize];
        row.order_count -= 1;
        row.qty -= order.shown();
        row.iceberg_count -= u32::from(order.is_iceberg);
        if prev == NIL {
            row.head = next;
        } else {
            orders[prev].level_next = next;
        }
        if next == NIL {
            row.tail = prev;
        } else {
            orders[next].level_prev = prev;
        }
        row.order_count == 0
    }

    #[inline]
    pub(crate) fn prefetch(&self, level: Slot) {
        prefetch(&self.rows[level as usize]);
    }

    /// Subtracts traded or decremented lots from a level's sum.
    #[inline]
    pub(crate) fn reduce(&mut self, level: Slot, qty: Qty) {
        self.rows[level as usize].qty -= qty;
    }

    /// Updates a level's sum after the shown quantity of an order in it changed.
    #[inline]
    pub(crate) fn adjust(&mut self, level: Slot, from: Qty, to: Qty) {
        let row = &mut self.rows[level as usize];
        row.qty = row.qty - from + to;
    }

    /// Shows an iceberg's next slice behind all others at the price.
    pub(crate) fn refill(&mut self, orders: &mut Orders, slot: Slot) {
        let level = orders[slot].level;
        if plant::is(Plant::IcebergKeepsPlace) {
            orders[slot].shown_qty = orders[slot].next_slice();
            return self.adjust(level, Qty::ZERO, orders[slot].shown_qty);
        }
        let order = orders[slot];
        self.unlink(orders, &order);
        orders[slot].shown_qty = orders[slot].next_slice();
        self.push_back(level, orders, slot);
    }
}

impl core::ops::Index<Slot> for Levels {
    type Output = PriceLevel;

    #[inline]
    fn index(&self, slot: Slot) -> &PriceLevel {
        &self.rows[slot as usize]
    }
}

/// A level's place on the ladder: `key` increases towards the best price on either side.
#[derive(Clone, Copy)]
struct Rung {
    key: i64,
    level: Slot,
}

/// One side of an instrument's book.
pub(crate) struct BookSide {
    side: Side,
    rungs: Vec<Rung>,
    /// Recently used levels by their price's hash: most orders arrive at a price where others rest,
    /// and so need no search. `None` while the ladder is short enough for a linear search.
    /// INVARIANT: each is [`NIL`] or a level of this ladder.
    recent: Option<Box<[Slot; RECENT_LEN]>>,
}

/// The number of remembered levels: a kilobyte a side, so that those of a hundred instruments stay
/// in a second-level cache.
const RECENT_LEN: usize = 256;

/// Inserts like `Vec::insert`, for places near the end: most levels begin and end near the best
/// price, and moving a few elements in a loop costs less than the call.
#[inline]
fn insert_near_end(rungs: &mut Vec<Rung>, at: usize, rung: Rung) {
    if rungs.len() - at > NEAR_RUNGS {
        return rungs.insert(at, rung);
    }
    rungs.push(rung);
    let mut later = rung;
    for place in &mut rungs[at..] {
        core::mem::swap(place, &mut later);
    }
}

/// Removes like `Vec::remove`, for places near the end.
#[inline]
fn remove_near_end(rungs: &mut Vec<Rung>, at: usize) -> Rung {
    if rungs.len() - at > NEAR_RUNGS {
        return rungs.remove(at);
    }
    let mut gone = rungs.pop().expect("a level stands on its own rung");
    for place in rungs[at..].iter_mut().rev() {
        core::mem::swap(place, &mut gone);
    }
    gone
}

#[inline]
fn recent_place(price: Price) -> usize {
    ((price.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}

/// The number of rungs next to the best that are searched linearly before the binary search.
const NEAR_RUNGS: usize = 8;

impl BookSide {
    pub(crate) fn new(side: Side) -> BookSide {
        BookSide { side, rungs: Vec::new(), recent: None }
    }

    /// Returns the key of a price. Bitwise not reverses prices without overflow at the ends of the
    /// range.
    #[inline]
    fn key(&self, price: Price) -> i64 {
        match self.side {
            Side::Buy => price.0,
            Side::Sell => !price.0,
        }
    }

    /// Returns the level with the best price.
    #[inline]
    pub(crate) fn best(&self) -> Option<Slot> {
        self.rungs.last().map(|rung| rung.level)
    }

    /// Returns the best price.
    #[inline]
    pub(crate) fn best_price(&self) -> Option<Price> {
        self.rungs.last().map(|rung| match self.side {
            Side::Buy => Price(rung.key),
            Side::Sell => Price(!rung.key),
        })
    }

    /// Returns the levels, best first.
    pub(crate) fn best_first(&self) -> impl Iterator<Item = Slot> {
        self.rungs.iter().rev().map(|rung| rung.level)
    }

    /// Returns the level at a price, if there is one.
    pub(crate) fn level_at(&self, price: Price) -> Option<Slot> {
        let key = self.key(price);
        let rung = self.rungs.get(self.lower_bound(key))?;
        (rung.key == key).then_some(rung.level)
    }

    /// Returns a level of this ladder, probably the one at `price`.
    #[inline]
    pub(crate) fn likely_level(&self, price: Price) -> Option<Slot> {
        let level = match &self.recent {
            Some(recent) => recent[recent_place(price)],
            None => self.rungs.get(self.lower_bound(self.key(price)))?.level,
        };
        (level != NIL).then_some(level)
    }

    /// Returns the index of the first rung whose key is not below `key`.
    #[inline]
    fn lower_bound(&self, key: i64) -> usize {
        let len = self.rungs.len();
        let near = len.saturating_sub(NEAR_RUNGS);
        for at in (near..len).rev() {
            if self.rungs[at].key < key {
                return at + 1;
            }
        }
        self.rungs[..near].partition_point(|rung| rung.key < key)
    }

    /// Inserts an order at `price`, behind those already there.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        levels: &mut Levels,
        orders: &mut Orders,
        slot: Slot,
        price: Price,
    ) {
        let level = match &mut self.recent {
            Some(recent) => {
                let recent = recent[recent_place(price)];
                let is_it = recent != NIL && levels[recent].price == price;
                if is_it { recent } else { self.find_or_add(levels, price) }
            }
            None => self.find_or_add(levels, price),
        };
        levels.push_back(level, orders, slot);
    }

    fn find_or_add(&mut self, levels: &mut Levels, price: Price) -> Slot {
        let key = self.key(price);
        let at = self.lower_bound(key);
        let level = match self.rungs.get(at) {
            Some(rung) if rung.key == key => rung.level,
            _ => {
                let level = levels.alloc(price);
                insert_near_end(&mut self.rungs, at, Rung { key, level });
                level
            }
        };
        match &mut self.recent {
            Some(recent) => recent[recent_place(price)] = level,
            None if self.rungs.len() <= NEAR_RUNGS => {}
            None => self.recent = Some(Box::new([NIL; RECENT_LEN])),
        }
        level
    }

    /// Removes a queued order from the ladder.
    #[inline]
    pub(crate) fn remove(&mut self, levels: &mut Levels, orders: &mut Orders, order: &Order) {
        if levels.unlink(orders, order) {
            self.take_off(levels, order.level);
        }
    }

    /// Removes an empty level from the ladder.
    fn take_off(&mut self, levels: &mut Levels, level: Slot) {
        let price = levels[level].price;
        let at = self.lower_bound(self.key(price));
        let rung = remove_near_end(&mut self.rungs, at);
        assert!(rung.level == level, "a level stands on its own rung");
        if let Some(recent) = &mut self.recent
            && recent[recent_place(price)] == level
        {
            recent[recent_place(price)] = NIL;
        }
        levels.free.push(level);
    }
}
