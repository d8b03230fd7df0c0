//! A hash table of slots: open addressing, a fixed hash, never iterated.
//!
//! It holds no keys. A lookup passes a hash and tests each candidate; the rows hold the keys and
//! have to be read anyway. A bucket is one cache line, so that a lookup costs one miss. Removing an
//! entry moves no other.

use weir_memory::{prefetch, take_ahead};

/// The index of a row in a table.
pub(crate) type Slot = u32;

/// No slot.
pub(crate) const NIL: Slot = Slot::MAX;

/// Entries of a bucket.
const LANES: usize = 12;
/// The average load of a bucket by design: few buckets then overflow.
const ENTRIES_PER_BUCKET: usize = 8;
/// Consecutive numbers share a bucket in groups of two to this power: orders that arrive together
/// tend to leave together.
const NEAR_BITS: u32 = 2;

/// The hash of an entry: its home bucket and its tag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hash {
    home: u32,
    tag: u8,
}

/// Returns 64 bits from two words: their product with its halves folded together.
#[inline]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a).wrapping_mul(u128::from(b));
    (product as u64) ^ (product >> 64) as u64
}

impl Hash {
    /// Returns the hash of a number; `salt` separates entries that may bear the same number.
    #[inline]
    pub(crate) fn of(number: u64, salt: u32) -> Hash {
        let near = number >> NEAR_BITS;
        let salt = u64::from(salt).wrapping_mul(0xa076_1d64_78bd_642f);
        let mixed = fold(near ^ salt ^ 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3);
        // Zero marks a free lane.
        let within = (number as u8) & ((1 << NEAR_BITS) - 1);
        let tag = ((mixed >> 56) as u8) << NEAR_BITS | within;
        Hash { home: mixed as u32, tag: tag.max(1) }
    }
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Bucket {
    /// Eight bits of each entry's hash, zero for a free lane.
    tags: [u8; LANES],
    /// The number of entries that passed this bucket because it was full.
    passed_count: u32,
    slots: [Slot; LANES],
}

const EMPTY: Bucket = Bucket { tags: [0; LANES], passed_count: 0, slots: [NIL; LANES] };

impl Bucket {
    /// Returns the lanes with this tag, as the highest bit of each lane's byte. A lane after a true
    /// match may be a false positive.
    #[inline]
    fn lanes_of(&self, tag: u8) -> u128 {
        const LOW: u128 = u128::from_le_bytes([1; 16]) >> 32;
        const HIGH: u128 = LOW << 7;
        let mut bytes = [0; 16];
        bytes[..LANES].copy_from_slice(&self.tags);
        let differing = u128::from_le_bytes(bytes) ^ LOW.wrapping_mul(u128::from(tag));
        differing.wrapping_sub(LOW) & !differing & HIGH
    }
}

#[inline]
fn first_lane(lanes: u128) -> usize {
    (lanes.trailing_zeros() / 8) as usize
}

/// The location of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryLocation {
    /// The entry's slot.
    pub(crate) slot: Slot,
    bucket: u32,
    lane: u32,
}

/// A map from hashes to slots.
pub(crate) struct SlotIndex {
    buckets: Vec<Bucket>,
    mask: u32,
    count: usize,
}

impl SlotIndex {
    /// Creates a table for this many entries.
    pub(crate) fn new(entry_count: usize) -> SlotIndex {
        let count = entry_count.div_ceil(ENTRIES_PER_BUCKET).clamp(2, 1 << 30).next_power_of_two();
        let mut buckets = Vec::with_capacity(count);
        take_ahead(&mut buckets);
        buckets.resize(count, EMPTY);
        SlotIndex { buckets, mask: (count - 1) as u32, count: 0 }
    }

    /// Returns true when one more entry would exceed the intended load.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.count >= self.buckets.len() * ENTRIES_PER_BUCKET
    }

    /// Returns the number of entries the table is meant for.
    pub(crate) fn capacity(&self) -> usize {
        self.buckets.len() * ENTRIES_PER_BUCKET
    }

    /// Returns the entry with this hash that `is_it` accepts.
    #[inline]
    pub(crate) fn find(
        &self,
        hash: Hash,
        mut is_it: impl FnMut(Slot) -> bool,
    ) -> Option<EntryLocation> {
        let mut at = hash.home & self.mask;
        // Bounded, because entries may have passed every bucket.
        for _ in 0..self.buckets.len() {
            let bucket = &self.buckets[at as usize];
            let mut lanes = bucket.lanes_of(hash.tag);
            while lanes != 0 {
                let lane = first_lane(lanes);
                let slot = bucket.slots[lane];
                if slot != NIL && is_it(slot) {
                    return Some(EntryLocation { slot, bucket: at, lane: lane as u32 });
                }
                lanes &= lanes - 1;
            }
            if bucket.passed_count == 0 {
                return None;
            }
            at = (at + 1) & self.mask;
        }
        None
    }

    /// Adds a slot; the caller has checked that the table is not [full](SlotIndex::is_full).
    #[inline]
    pub(crate) fn insert(&mut self, hash: Hash, slot: Slot) {
        let mut at = hash.home & self.mask;
        loop {
            let bucket = &mut self.buckets[at as usize];
            // A free lane's slot is `NIL`; a false positive for tag zero has a slot.
            let mut lanes = bucket.lanes_of(0);
            while lanes != 0 {
                let lane = first_lane(lanes);
                if bucket.slots[lane] == NIL {
                    (bucket.tags[lane], bucket.slots[lane]) = (hash.tag, slot);
                    self.count += 1;
                    return;
                }
                lanes &= lanes - 1;
            }
            bucket.passed_count += 1;
            at = (at + 1) & self.mask;
        }
    }

    /// Removes an entry that was just found by this hash.
    #[inline]
    pub(crate) fn remove(&mut self, hash: Hash, found: EntryLocation) {
        let mut at = hash.home & self.mask;
        while at != found.bucket {
            self.buckets[at as usize].passed_count -= 1;
            at = (at + 1) & self.mask;
        }
        let bucket = &mut self.buckets[at as usize];
        let lane = found.lane as usize;
        (bucket.tags[lane], bucket.slots[lane]) = (0, NIL);
        self.count -= 1;
    }

    /// Prefetches the bucket of a hash.
    #[inline]
    pub(crate) fn prefetch(&self, hash: Hash) {
        prefetch(&self.buckets[(hash.home & self.mask) as usize]);
    }

    /// Returns a slot that likely has this hash, without reading its row.
    #[inline]
    pub(crate) fn guess(&self, hash: Hash) -> Slot {
        let bucket = &self.buckets[(hash.home & self.mask) as usize];
        let lanes = bucket.lanes_of(hash.tag);
        if lanes == 0 { NIL } else { bucket.slots[first_lane(lanes)] }
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        self.buckets.fill(EMPTY);
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// An entry is found from its insertion to its removal, however crowded the table.
    #[test]
    fn entries_are_found_through_full_buckets_and_after_removals() {
        for (capacity, salt) in [(16, 0), (1_000, 7)] {
            let mut index = SlotIndex::new(capacity);
            let mut keys = vec![0_u64; 100_000];
            let mut model = BTreeMap::new();
            let mut state = 1_u64;
            for slot in 0..100_000_u32 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let key = state >> 54;
                let hash = Hash::of(key, salt);
                let found = index.find(hash, |slot| keys[slot as usize] == key);
                assert_eq!(found.map(|found| found.slot), model.get(&key).copied());
                if let Some(found) = found {
                    index.remove(hash, found);
                    model.remove(&key);
                } else if !index.is_full() {
                    keys[slot as usize] = key;
                    index.insert(hash, slot);
                    model.insert(key, slot);
                }
            }
            assert!(model.len() > capacity / 4, "{} of {capacity}", model.len());
            assert_eq!(index.count, model.len());
            assert!(index.capacity() >= capacity);
            index.clear();
            assert!((0..1 << 10).all(|key| index.find(Hash::of(key, salt), |_| true).is_none()));
        }
    }

    #[test]
    fn a_bucket_is_a_cache_line() {
        assert_eq!(size_of::<Bucket>(), 64);
    }
}
