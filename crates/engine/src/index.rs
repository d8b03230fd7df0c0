//! Hash tables of our own: open addressing, linear probing, a fixed seed, nothing iterated.
//!
//! [`SlotIndex`] finds a row of a slab by a hash and the row's own key; [`IdMap`] finds a row by a
//! 32-bit identifier. Both are sized once and never grow, so that no lookup ever pays for one.
//! INVARIANT: at most half of the entries are taken, so that every probe meets an empty one.

use crate::memory::prefetch;

/// The place of a row in a slab.
pub(crate) type Slot = u32;

/// No row.
pub(crate) const NIL: Slot = Slot::MAX;

/// 64 bits from two words: the halves of their product folded together.
#[inline]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

fn entries_for(row_count_max: u32) -> Vec<u64> {
    vec![0; (row_count_max as usize * 2).next_power_of_two()]
}

/// From a 32-bit hash to the slots of rows that have it. An entry holds the hash above the slot
/// plus one; zero is an empty entry.
pub(crate) struct SlotIndex {
    entries: Vec<u64>,
    mask: u32,
}

impl SlotIndex {
    pub(crate) fn new(row_count_max: u32) -> SlotIndex {
        let entries = entries_for(row_count_max);
        let mask = u32::try_from(entries.len() - 1).expect("orders_max is below 2^24");
        SlotIndex { entries, mask }
    }

    #[inline]
    fn entry(hash: u32, slot: Slot) -> u64 {
        u64::from(hash) << 32 | u64::from(slot + 1)
    }

    /// The slot with this hash that `is_it` accepts.
    #[inline]
    pub(crate) fn find(&self, hash: u32, mut is_it: impl FnMut(Slot) -> bool) -> Option<Slot> {
        let mut at = hash & self.mask;
        loop {
            let entry = self.entries[at as usize];
            if entry == 0 {
                return None;
            }
            if (entry >> 32) as u32 == hash {
                let slot = entry as u32 - 1;
                if is_it(slot) {
                    return Some(slot);
                }
            }
            at = (at + 1) & self.mask;
        }
    }

    #[inline]
    pub(crate) fn prefetch(&self, hash: u32) {
        prefetch(&self.entries[(hash & self.mask) as usize]);
    }

    /// The first slot with this hash, without a look at its row.
    #[inline]
    pub(crate) fn guess(&self, hash: u32) -> Option<Slot> {
        self.find(hash, |_| true)
    }

    #[inline]
    pub(crate) fn insert(&mut self, hash: u32, slot: Slot) {
        let mut at = hash & self.mask;
        while self.entries[at as usize] != 0 {
            at = (at + 1) & self.mask;
        }
        self.entries[at as usize] = SlotIndex::entry(hash, slot);
    }

    /// Takes out an entry that is there, and closes the gap behind it.
    #[inline]
    pub(crate) fn remove(&mut self, hash: u32, slot: Slot) {
        let wanted = SlotIndex::entry(hash, slot);
        let mut hole = hash & self.mask;
        while self.entries[hole as usize] != wanted {
            assert!(self.entries[hole as usize] != 0, "an indexed row is in its index");
            hole = (hole + 1) & self.mask;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            let entry = self.entries[at as usize];
            if entry == 0 {
                break;
            }
            let home = (entry >> 32) as u32 & self.mask;
            if at.wrapping_sub(home) & self.mask >= at.wrapping_sub(hole) & self.mask {
                self.entries[hole as usize] = entry;
                hole = at;
            }
        }
        self.entries[hole as usize] = 0;
    }
}

/// From an identifier (not zero) to the slot of its row. Rows are never taken out.
pub(crate) struct IdMap {
    entries: Vec<u64>,
    shift: u32,
    seed: u64,
}

impl IdMap {
    pub(crate) fn new(row_count_max: u32, seed: u64) -> IdMap {
        let entries = entries_for(row_count_max.max(2));
        let shift = 64 - entries.len().trailing_zeros();
        IdMap { entries, shift, seed: seed | 1 }
    }

    #[inline]
    fn home(&self, id: u32) -> usize {
        (u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ self.seed << 1) >> self.shift) as usize
    }

    #[inline]
    pub(crate) fn find(&self, id: u32) -> Option<Slot> {
        let mut at = self.home(id);
        loop {
            let entry = self.entries[at];
            if entry == 0 {
                return None;
            }
            if (entry >> 32) as u32 == id {
                return Some(entry as u32 - 1);
            }
            at = (at + 1) & (self.entries.len() - 1);
        }
    }

    /// Adds an identifier that is not there.
    pub(crate) fn insert(&mut self, id: u32, slot: Slot) {
        let mut at = self.home(id);
        while self.entries[at] != 0 {
            at = (at + 1) & (self.entries.len() - 1);
        }
        self.entries[at] = SlotIndex::entry(id, slot);
    }
}

/// An empty vector with room for all it may ever hold; the memory is the system's until used.
pub(crate) fn huge_vec<T>(capacity: usize) -> Vec<T> {
    Vec::with_capacity(capacity)
}

/// Rows by identifier and by slot, in order of their first definition, never taken out.
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
            rows: huge_vec(row_count_max_usize),
            row_count_max: row_count_max_usize,
        }
    }

    #[inline]
    pub(crate) fn find(&self, id: u32) -> Option<Slot> {
        self.ids.find(id)
    }

    #[inline]
    pub(crate) fn prefetch_entry(&self, id: u32) {
        prefetch(&self.ids.entries[self.ids.home(id)]);
    }

    #[inline]
    pub(crate) fn prefetch_row(&self, slot: Slot) {
        prefetch(&self.rows[slot as usize]);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() == self.row_count_max
    }

    /// Adds the row of an identifier that is not there, in a table that is not full.
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
        let mut index = SlotIndex::new(8);
        let keys: Vec<(u32, Slot)> = vec![(15, 0), (15, 1), (0, 2), (15, 3), (1, 4), (14, 5)];
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
        assert!(index.entries.iter().all(|entry| *entry == 0));
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
