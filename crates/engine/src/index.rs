//! Hash tables of the engine: open addressing, a configured seed, no iteration.
//!
//! [`SlotIndex`] finds a row of a slab by a hash and the row's own key; [`IdMap`] finds a row by a
//! 32-bit identifier. Both are sized once and never grow, so that no lookup pays for a resize.

use weir_memory::{equal_bytes, prefetch, take_ahead};

/// The index of a row in a slab.
pub(crate) type Slot = u32;

/// The slot that means "no row".
pub(crate) const NIL: Slot = Slot::MAX;

/// Mixes two words to 64 bits: folds the halves of their product together.
#[inline]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

fn entry_count_for(row_count_max: u32) -> usize {
    (row_count_max as usize * 2).next_power_of_two()
}

/// The number of entries in a bucket.
const LANES: usize = 12;
/// The number of rows planned per bucket in a full table, low enough that few buckets overflow.
const ROWS_PER_BUCKET: u32 = 11;

/// One cache line of entries: a lookup seldom needs a second, and removing an entry moves no other.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Bucket {
    /// Eight bits of each entry's hash, never zero; zero is a free lane. The last four bytes are a
    /// count instead of lanes: the number of entries that went past this full bucket.
    head: [u8; 16],
    slots: [Slot; LANES],
}

const EMPTY: Bucket = Bucket { head: [0; 16], slots: [0; LANES] };

impl Bucket {
    /// Returns the lanes with this tag, one bit each.
    #[inline]
    fn lanes_of(&self, tag: u8) -> u32 {
        equal_bytes(&self.head, tag) & ((1 << LANES) - 1)
    }

    #[inline]
    fn passed_count(&self) -> u32 {
        let [.., a, b, c, d] = self.head;
        u32::from_le_bytes([a, b, c, d])
    }

    fn set_passed_count(&mut self, count: u32) {
        self.head[LANES..].copy_from_slice(&count.to_le_bytes());
    }
}

#[inline]
fn first_lane(lanes: u32) -> usize {
    lanes.trailing_zeros() as usize
}

/// Maps a 32-bit hash to the slots of the rows that have it.
pub(crate) struct SlotIndex {
    buckets: Vec<Bucket>,
    mask: u32,
}

impl SlotIndex {
    pub(crate) fn new(row_count_max: u32) -> SlotIndex {
        let count = SlotIndex::bucket_count_for(row_count_max);
        SlotIndex { buckets: vec![EMPTY; count as usize], mask: count - 1 }
    }

    fn bucket_count_for(row_count_max: u32) -> u32 {
        row_count_max.div_ceil(ROWS_PER_BUCKET).next_power_of_two()
    }

    /// Returns the bytes of an index of so many rows.
    pub(crate) fn bytes_for(row_count_max: u32) -> u64 {
        u64::from(SlotIndex::bucket_count_for(row_count_max)) * size_of::<Bucket>() as u64
    }

    /// Populates all its memory now.
    pub(crate) fn take_memory(&mut self) {
        take_ahead(&mut self.buckets);
    }

    #[inline]
    fn tag(hash: u32) -> u8 {
        // The mask uses the low bits; limits keep it away from the high ones.
        ((hash >> 24) as u8).max(1)
    }

    /// Returns the slot with this hash that `is_it` accepts.
    #[inline]
    pub(crate) fn find(&self, hash: u32, mut is_it: impl FnMut(Slot) -> bool) -> Option<Slot> {
        let mut at = hash & self.mask;
        // The bound ends the search even when every bucket has been passed by entries.
        let mut left = self.mask;
        loop {
            let bucket = &self.buckets[at as usize];
            let mut lanes = bucket.lanes_of(SlotIndex::tag(hash));
            while lanes != 0 {
                let slot = bucket.slots[first_lane(lanes)];
                if is_it(slot) {
                    return Some(slot);
                }
                lanes &= lanes - 1;
            }
            if bucket.passed_count() == 0 || left == 0 {
                return None;
            }
            at = (at + 1) & self.mask;
            left -= 1;
        }
    }

    #[inline]
    pub(crate) fn prefetch(&self, hash: u32) {
        prefetch(&self.buckets[(hash & self.mask) as usize]);
    }

    /// Returns a slot that probably has this hash, without reading its row.
    #[inline]
    pub(crate) fn guess(&self, hash: u32) -> Option<Slot> {
        self.find(hash, |_| true)
    }

    #[inline]
    pub(crate) fn insert(&mut self, hash: u32, slot: Slot) {
        let mut at = hash & self.mask;
        loop {
            let bucket = &mut self.buckets[at as usize];
            let free = bucket.lanes_of(0);
            if free != 0 {
                let lane = first_lane(free);
                bucket.head[lane] = SlotIndex::tag(hash);
                bucket.slots[lane] = slot;
                return;
            }
            bucket.set_passed_count(bucket.passed_count() + 1);
            at = (at + 1) & self.mask;
        }
    }

    /// Removes an existing entry.
    #[inline]
    pub(crate) fn remove(&mut self, hash: u32, slot: Slot) {
        let mut at = hash & self.mask;
        loop {
            let bucket = &mut self.buckets[at as usize];
            let mut lanes = bucket.lanes_of(SlotIndex::tag(hash));
            while lanes != 0 {
                let lane = first_lane(lanes);
                if bucket.slots[lane] == slot {
                    bucket.head[lane] = 0;
                    return;
                }
                lanes &= lanes - 1;
            }
            assert!(bucket.passed_count() > 0, "an indexed row is in its index");
            bucket.set_passed_count(bucket.passed_count() - 1);
            at = (at + 1) & self.mask;
        }
    }
}

/// Maps an identifier (not zero) to the slot of its row. Rows are never removed. INVARIANT: at most
/// half of `high` is used, so that every probe there meets an empty entry.
///
/// Identifiers are mostly counted from one: those up to twice the limit are array indexes, the
/// others are hashed.
pub(crate) struct IdMap {
    /// The row's slot plus one; zero for no row.
    low: Vec<u32>,
    high: Vec<u64>,
    shift: u32,
    seed: u64,
}

impl IdMap {
    pub(crate) fn new(row_count_max: u32, seed: u64) -> IdMap {
        let high = vec![0; entry_count_for(row_count_max.max(2))];
        let shift = 64 - high.len().trailing_zeros();
        IdMap { low: vec![0; row_count_max as usize * 2 + 1], high, shift, seed: seed | 1 }
    }

    fn bytes_for(row_count_max: u32) -> u64 {
        let low = (row_count_max as usize * 2 + 1) * size_of::<u32>();
        (low + entry_count_for(row_count_max.max(2)) * size_of::<u64>()) as u64
    }

    #[inline]
    fn home(&self, id: u32) -> usize {
        (u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ self.seed << 1) >> self.shift) as usize
    }

    #[inline]
    pub(crate) fn find(&self, id: u32) -> Option<Slot> {
        match self.low.get(id as usize) {
            Some(slot) => slot.checked_sub(1),
            None => self.find_high(id),
        }
    }

    #[inline]
    fn find_high(&self, id: u32) -> Option<Slot> {
        let mut at = self.home(id);
        loop {
            let entry = self.high[at];
            if entry == 0 {
                return None;
            }
            if (entry >> 32) as u32 == id {
                return Some(entry as u32 - 1);
            }
            at = (at + 1) & (self.high.len() - 1);
        }
    }

    #[inline]
    fn prefetch(&self, id: u32) {
        match self.low.get(id as usize) {
            Some(slot) => prefetch(slot),
            None => prefetch(&self.high[self.home(id)]),
        }
    }

    /// Adds a new identifier.
    pub(crate) fn insert(&mut self, id: u32, slot: Slot) {
        if let Some(place) = self.low.get_mut(id as usize) {
            *place = slot + 1;
            return;
        }
        let mut at = self.home(id);
        while self.high[at] != 0 {
            at = (at + 1) & (self.high.len() - 1);
        }
        self.high[at] = u64::from(id) << 32 | u64::from(slot + 1);
    }
}

/// Rows by identifier and by slot, in order of their first definition, never removed.
pub(crate) struct Table<T> {
    ids: IdMap,
    rows: Vec<T>,
    row_count_max: usize,
}

impl<T> Table<T> {
    pub(crate) fn new(row_count_max: u32, seed: u64) -> Table<T> {
        let row_count_max_usize = row_count_max as usize;
        Table {
            ids: IdMap::new(row_count_max, seed),
            rows: Vec::with_capacity(row_count_max_usize),
            row_count_max: row_count_max_usize,
        }
    }

    /// Returns the bytes of a table of so many rows, without those that a row points to.
    pub(crate) fn bytes_for(row_count_max: u32) -> u64 {
        IdMap::bytes_for(row_count_max) + u64::from(row_count_max) * size_of::<T>() as u64
    }

    /// Populates all its memory now.
    pub(crate) fn take_memory(&mut self) {
        take_ahead(&mut self.ids.low);
        take_ahead(&mut self.rows);
    }

    #[inline]
    pub(crate) fn find(&self, id: u32) -> Option<Slot> {
        self.ids.find(id)
    }

    #[inline]
    pub(crate) fn prefetch_entry(&self, id: u32) {
        self.ids.prefetch(id);
    }

    #[inline]
    pub(crate) fn prefetch_row(&self, slot: Slot) {
        prefetch(&self.rows[slot as usize]);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() == self.row_count_max
    }

    /// Adds the row of a new identifier to a table that is not full.
    pub(crate) fn insert(&mut self, id: u32, row: T) -> Slot {
        assert!(!self.is_full(), "the caller checks the limit");
        let slot = Slot::try_from(self.rows.len()).expect("limits are below 2^32");
        self.ids.insert(id, slot);
        self.rows.push(row);
        slot
    }

    pub(crate) fn rows(&self) -> &[T] {
        &self.rows
    }
}

impl<T> core::ops::Index<Slot> for Table<T> {
    type Output = T;

    #[inline]
    fn index(&self, slot: Slot) -> &T {
        &self.rows[slot as usize]
    }
}

impl<T> core::ops::IndexMut<Slot> for Table<T> {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        &mut self.rows[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_after_others_with_their_hash_are_gone() {
        let mut index = SlotIndex::new(16);
        // Two buckets; most entries hash to the second, so that it overflows into the first.
        let keys: Vec<(u32, Slot)> = (0..20)
            .map(|slot| (if slot % 5 == 0 { 0 } else { 1 + ((slot % 3) << 24) }, slot))
            .collect();
        for &(hash, slot) in &keys {
            index.insert(hash, slot);
        }
        for gone in 0..keys.len() {
            index.remove(keys[gone].0, keys[gone].1);
            for (i, &(hash, slot)) in keys.iter().enumerate() {
                let found = index.find(hash, |s| s == slot);
                assert_eq!(found, (i > gone).then_some(slot), "{i} after {gone} is gone");
            }
        }
        let is_empty = |b: &Bucket| b.head == [0; 16];
        assert!(index.buckets.iter().all(is_empty));
    }

    #[test]
    fn a_miss_ends_where_entries_have_gone_past_every_bucket() {
        let mut index = SlotIndex::new(22);
        // Two buckets. One entry more than the first holds, then the same for the second.
        let in_first: Vec<Slot> = (0..13).collect();
        in_first.iter().for_each(|slot| index.insert(0, *slot));
        in_first[..12].iter().for_each(|slot| index.remove(0, *slot));
        (20..32).for_each(|slot| index.insert(1, slot));
        assert!(index.buckets.iter().all(|bucket| bucket.passed_count() > 0));
        assert_eq!((index.find(0, |_| false), index.find(1, |_| false)), (None, None));
        assert_eq!(index.find(0, |slot| slot == 12), Some(12));
        assert_eq!(index.find(1, |slot| slot == 31), Some(31));
    }

    #[test]
    fn a_table_finds_rows_by_identifier() {
        let mut table: Table<u32> = Table::new(100, 7);
        for id in (1..=100).map(|i| i * 1024) {
            table.insert(id, id);
        }
        assert!(table.is_full());
        assert_eq!(table.find(5), None);
        for id in (1..=100).map(|i| i * 1024) {
            assert_eq!(table[table.find(id).unwrap()], id);
        }
    }
}
