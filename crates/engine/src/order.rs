//! Live orders: a slab of 128-byte rows and its two indexes.
//!
//! A row is two cache lines: the first holds all fields that matching touches, the second the other
//! fields of events. Free rows form a list through `level_next`; the last freed row is reused
//! first, while it is still cached. INVARIANT: `order_qty` is `cum_qty` plus `leaves_qty` for every
//! live order.

use weir_types::{
    ClOrdId, ExecInst, Nanos, OrdType, Price, Qty, Rec, SelfTradePrevention, Side, TimeInForce,
};

use crate::index::{NIL, Slot, SlotIndex, fold};
use weir_memory::{prefetch, take_ahead};

/// The place of a live order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum OrderLocation {
    /// In no queue yet: it entered, or entered again, in this command.
    None = 0,
    /// In the book; a market order is in the queue ahead of all limits.
    Book = 1,
    /// Among the stops that wait for their price.
    Stop = 2,
    /// Among the orders that wait for the closing call.
    Parked = 3,
}

impl OrderLocation {
    /// Returns the place with this code in a snapshot; `None` for a code that no queued order has.
    pub(crate) fn from_code(code: u8) -> Option<OrderLocation> {
        [OrderLocation::Book, OrderLocation::Stop, OrderLocation::Parked]
            .into_iter()
            .find(|place| *place as u8 == code)
    }
}

/// One order.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Order {
    pub(crate) rec: Rec,
    /// The price for the cash reservation: the limit; that of its entry for a market order of a
    /// call, which may trade beyond it; zero for an order that pays fill by fill.
    pub(crate) price: Price,
    pub(crate) leaves_qty: Qty,
    pub(crate) order_qty: Qty,
    /// The next order at the price, in time priority; in a free row, the next free one.
    pub(crate) level_next: Slot,
    pub(crate) level_prev: Slot,
    pub(crate) level: Slot,
    pub(crate) account: Slot,
    pub(crate) session: Slot,
    pub(crate) instrument: Slot,
    pub(crate) side: Side,
    pub(crate) ord_type: OrdType,
    pub(crate) time_in_force: TimeInForce,
    pub(crate) exec_inst: ExecInst,
    pub(crate) self_trade_prevention: SelfTradePrevention,
    pub(crate) place: OrderLocation,
    pub(crate) is_iceberg: bool,
    // The second line.
    pub(crate) created_time: Nanos,
    // Not before the line's first word: bytes need no alignment and would straddle both lines.
    pub(crate) cl_ord_id: ClOrdId,
    /// An iceberg's current slice; zero for others.
    pub(crate) shown_qty: Qty,
    /// The session's next live order, by `rec`.
    pub(crate) session_next: Slot,
    pub(crate) session_prev: Slot,
    pub(crate) stop_px: Price,
    pub(crate) display_qty: Qty,
    pub(crate) expire_time: Nanos,
}

const _: () = assert!(size_of::<Order>() == 128, "two cache lines");
const _: () = assert!(core::mem::offset_of!(Order, created_time) == 64, "the second line");

impl Order {
    #[inline]
    pub(crate) fn cum_qty(&self) -> Qty {
        self.order_qty - self.leaves_qty
    }

    /// Returns the quantity that the book shows.
    #[inline]
    pub(crate) fn shown(&self) -> Qty {
        if self.is_iceberg { self.shown_qty } else { self.leaves_qty }
    }

    /// Returns the size of an iceberg's next slice.
    pub(crate) fn next_slice(&self) -> Qty {
        self.display_qty.min(self.leaves_qty)
    }

    /// Returns the price in events: zero for an order without a limit.
    #[inline]
    pub(crate) fn told_price(&self) -> Price {
        match self.ord_type {
            OrdType::Limit | OrdType::StopLimit => self.price,
            OrdType::Market | OrdType::Stop => Price(0),
        }
    }
}

/// The slab, and the indexes of its resting orders.
pub(crate) struct Orders {
    rows: Vec<Order>,
    free: Slot,
    live_count: u32,
    live_count_max: u32,
    by_rec: RecIndex,
    by_cl_ord_id: SlotIndex,
    seed: u64,
}

impl Orders {
    pub(crate) fn new(live_count_max: u32, seed: u64) -> Orders {
        Orders {
            rows: Vec::with_capacity(live_count_max as usize),
            free: NIL,
            live_count: 0,
            live_count_max,
            by_rec: RecIndex::new(live_count_max, seed),
            by_cl_ord_id: SlotIndex::new(live_count_max),
            seed,
        }
    }

    /// Returns the bytes of a slab of so many live orders and its indexes.
    pub(crate) fn bytes_for(live_count_max: u32) -> u64 {
        let window = (live_count_max as usize).next_power_of_two() * size_of::<u64>();
        let rows = live_count_max as usize * size_of::<Order>();
        (window + rows) as u64 + 2 * SlotIndex::bytes_for(live_count_max)
    }

    /// Populates all its memory now.
    pub(crate) fn take_memory(&mut self) {
        take_ahead(&mut self.rows);
        take_ahead(&mut self.by_rec.window);
        self.by_rec.elder.take_memory();
        self.by_cl_ord_id.take_memory();
    }

    pub(crate) fn live_count(&self) -> u32 {
        self.live_count
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.live_count == self.live_count_max
    }

    /// Allocates a row for `order`, which is in no index yet: most orders that trade at once never
    /// need to be.
    #[inline]
    pub(crate) fn alloc(&mut self, order: Order) -> Slot {
        assert!(!self.is_full(), "the caller checks the limit");
        self.live_count += 1;
        if self.free == NIL {
            self.rows.push(order);
            return (self.rows.len() - 1) as Slot;
        }
        let slot = self.free;
        let row = &mut self.rows[slot as usize];
        self.free = row.level_next;
        *row = order;
        slot
    }

    #[inline]
    pub(crate) fn release(&mut self, slot: Slot) {
        self.rows[slot as usize].level_next = self.free;
        self.free = slot;
        self.live_count -= 1;
    }

    /// Adds a resting order to both indexes.
    #[inline]
    pub(crate) fn index(&mut self, slot: Slot) {
        let row = &self.rows[slot as usize];
        self.by_rec.insert(row.rec, slot, &self.rows);
        self.by_cl_ord_id.insert(self.name_hash(row.session, row.cl_ord_id), slot);
    }

    #[inline]
    pub(crate) fn unindex(&mut self, slot: Slot, row: &Order) {
        self.by_rec.remove(row.rec, slot);
        self.by_cl_ord_id.remove(self.name_hash(row.session, row.cl_ord_id), slot);
    }

    /// Renames a resting order.
    pub(crate) fn rename(&mut self, slot: Slot, cl_ord_id: ClOrdId) {
        let row = self.rows[slot as usize];
        self.by_cl_ord_id.remove(self.name_hash(row.session, row.cl_ord_id), slot);
        self.by_cl_ord_id.insert(self.name_hash(row.session, cl_ord_id), slot);
        self.rows[slot as usize].cl_ord_id = cl_ord_id;
    }

    #[inline]
    pub(crate) fn find_rec(&self, rec: Rec) -> Option<Slot> {
        self.by_rec.find(rec, &self.rows)
    }

    #[inline]
    pub(crate) fn find_name(&self, session: Slot, cl_ord_id: ClOrdId) -> Option<Slot> {
        self.by_cl_ord_id.find(self.name_hash(session, cl_ord_id), |slot| {
            let row = &self.rows[slot as usize];
            row.session == session && row.cl_ord_id == cl_ord_id
        })
    }

    #[inline]
    pub(crate) fn prefetch_rec(&self, rec: Rec) {
        self.by_rec.prefetch(rec);
    }

    #[inline]
    pub(crate) fn prefetch_name(&self, session: Slot, cl_ord_id: ClOrdId) {
        self.by_cl_ord_id.prefetch(self.name_hash(session, cl_ord_id));
    }

    #[inline]
    pub(crate) fn guess_rec(&self, rec: Rec) -> Option<Slot> {
        self.by_rec.guess(rec)
    }

    #[inline]
    pub(crate) fn guess_name(&self, session: Slot, cl_ord_id: ClOrdId) -> Option<Slot> {
        self.by_cl_ord_id.guess(self.name_hash(session, cl_ord_id))
    }

    #[inline]
    pub(crate) fn prefetch_row(&self, slot: Slot) {
        self.prefetch_first_line(slot);
        self.prefetch_second_line(slot);
    }

    #[inline]
    pub(crate) fn prefetch_first_line(&self, slot: Slot) {
        prefetch(&self.rows[slot as usize].rec);
    }

    #[inline]
    pub(crate) fn prefetch_second_line(&self, slot: Slot) {
        prefetch(&self.rows[slot as usize].created_time);
    }

    /// Prefetches the row of the next order.
    #[inline]
    pub(crate) fn prefetch_next_row(&self) {
        if self.free != NIL {
            self.prefetch_row(self.free);
        }
    }

    #[inline]
    fn name_hash(&self, session: Slot, cl_ord_id: ClOrdId) -> u32 {
        let (head, tail) = halves(cl_ord_id);
        let session = u64::from(session).wrapping_mul(0xd6e8_feb8_6659_fd93);
        fold(head ^ self.seed ^ session, tail ^ 0xa076_1d64_78bd_642f) as u32
    }
}

/// Maps a record's number to its row. Most orders end soon after entry, so the latest records are
/// in a window with one place each, in order: neighbours in time share cache lines and no search is
/// needed. When a later record takes the place of an order that still lives, that order moves to a
/// hash table. INVARIANT: a resting order is in its place of the window or in `elder`.
struct RecIndex {
    /// The lower half of the record number, then the row's slot plus one; zero is empty.
    window: Vec<u64>,
    elder: SlotIndex,
    seed: u64,
}

impl RecIndex {
    fn new(live_count_max: u32, seed: u64) -> RecIndex {
        let window = vec![0; (live_count_max as usize).next_power_of_two()];
        RecIndex { window, elder: SlotIndex::new(live_count_max), seed }
    }

    #[inline]
    fn place(&self, rec: Rec) -> usize {
        rec.0 as usize & (self.window.len() - 1)
    }

    #[inline]
    fn insert(&mut self, rec: Rec, slot: Slot, rows: &[Order]) {
        let place = self.place(rec);
        let before = core::mem::replace(&mut self.window[place], RecIndex::entry(rec, slot));
        if before != 0 {
            let elder = before as u32 - 1;
            self.elder.insert(self.hash(rows[elder as usize].rec), elder);
        }
    }

    #[inline]
    fn remove(&mut self, rec: Rec, slot: Slot) {
        let place = self.place(rec);
        if self.window[place] == RecIndex::entry(rec, slot) {
            self.window[place] = 0;
        } else {
            self.elder.remove(self.hash(rec), slot);
        }
    }

    #[inline]
    fn find(&self, rec: Rec, rows: &[Order]) -> Option<Slot> {
        let is_it = |slot: Slot| rows[slot as usize].rec == rec;
        match self.late(rec) {
            Some(slot) if is_it(slot) => Some(slot),
            _ => self.elder.find(self.hash(rec), is_it),
        }
    }

    #[inline]
    fn entry(rec: Rec, slot: Slot) -> u64 {
        rec.0 << 32 | u64::from(slot + 1)
    }

    /// Returns the row in the record's place if its half of the record number matches.
    #[inline]
    fn late(&self, rec: Rec) -> Option<Slot> {
        let entry = self.window[self.place(rec)];
        (entry as u32 != 0 && (entry >> 32) as u32 == rec.0 as u32).then(|| entry as u32 - 1)
    }

    #[inline]
    fn prefetch(&self, rec: Rec) {
        prefetch(&self.window[self.place(rec)]);
        self.elder.prefetch(self.hash(rec));
    }

    /// Returns the row that probably has the record.
    #[inline]
    fn guess(&self, rec: Rec) -> Option<Slot> {
        self.late(rec).or_else(|| self.elder.guess(self.hash(rec)))
    }

    #[inline]
    fn hash(&self, rec: Rec) -> u32 {
        fold(rec.0 ^ self.seed, 0x9e37_79b9_7f4a_7c15) as u32
    }
}

/// Returns a text's bytes as two words.
#[inline]
pub(crate) fn halves(text: ClOrdId) -> (u64, u64) {
    let whole = u128::from_le_bytes(text.0);
    (whole as u64, (whole >> 64) as u64)
}

impl core::ops::Index<Slot> for Orders {
    type Output = Order;

    #[inline]
    fn index(&self, slot: Slot) -> &Order {
        &self.rows[slot as usize]
    }
}

impl core::ops::IndexMut<Slot> for Orders {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut Order {
        &mut self.rows[slot as usize]
    }
}
