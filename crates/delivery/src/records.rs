//! The directory from record number to slot: chunks by record number, each freed when its last
//! record is removed.
//!
//! Record numbers are nearly dense and in order, so a look-up is two loads, and neither growth nor
//! removal moves an entry. Both are bounded: a new number may be only so far from the others, and
//! empty chunks at the low end are removed a few at a time.

use std::collections::VecDeque;

use weir_types::Rec;

const CHUNK_BITS: u32 = 12;
const CHUNK_LEN: usize = 1 << CHUNK_BITS;
const NO_SLOT: u32 = u32::MAX;
/// The greatest distance of a record number from those in the directory: limits the memory that one
/// event can allocate.
pub(crate) const REC_JUMP_MAX: u64 = 1 << 25;
/// Empty chunks that one removal removes at most.
const FORGET_STEPS: usize = 8;

#[derive(Clone, Debug)]
struct Chunk {
    slots: [u32; CHUNK_LEN],
    used_count: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    chunks: VecDeque<Option<Box<Chunk>>>,
    /// The number of the first chunk in `chunks`.
    base: u64,
    held_count: u64,
}

impl Records {
    #[inline]
    fn chunk_index(&self, rec: Rec) -> Option<usize> {
        usize::try_from((rec.0 >> CHUNK_BITS).checked_sub(self.base)?).ok()
    }

    #[inline]
    fn offset(rec: Rec) -> usize {
        (rec.0 as usize) & (CHUNK_LEN - 1)
    }

    #[inline]
    fn chunk(&self, rec: Rec) -> Option<&Chunk> {
        self.chunks.get(self.chunk_index(rec)?)?.as_deref()
    }

    #[inline]
    pub(crate) fn get(&self, rec: Rec) -> Option<u32> {
        let slot = self.chunk(rec)?.slots[Self::offset(rec)];
        (slot != NO_SLOT).then_some(slot)
    }

    /// Returns the first record at or after `rec`, and its slot.
    pub(crate) fn next_from(&self, rec: Rec) -> Option<(Rec, u32)> {
        let from = rec.0.max(self.base << CHUNK_BITS);
        let (mut index, mut offset) = (self.chunk_index(Rec(from))?, Self::offset(Rec(from)));
        while let Some(chunk) = self.chunks.get(index) {
            let slots = chunk.as_ref().map_or(&[][..], |chunk| &chunk.slots[offset..]);
            if let Some(at) = slots.iter().position(|slot| *slot != NO_SLOT) {
                let rec = ((self.base + index as u64) << CHUNK_BITS) + (offset + at) as u64;
                return Some((Rec(rec), slots[at]));
            }
            (index, offset) = (index + 1, 0);
        }
        None
    }

    /// True when `rec` is within [`REC_JUMP_MAX`] of the records in the directory.
    pub(crate) fn can_hold(&self, rec: Rec) -> bool {
        let end = self.base + self.chunks.len() as u64;
        let chunk = rec.0 >> CHUNK_BITS;
        let jump_max = REC_JUMP_MAX >> CHUNK_BITS;
        self.chunks.is_empty() || (chunk <= end + jump_max && chunk + jump_max >= self.base)
    }

    /// Lets the directory reach to `rec`, if it holds any record: numbers up to there were given to
    /// records that are not kept, and the next one is not far ahead.
    pub(crate) fn reach(&mut self, rec: Rec) {
        let end = (rec.0 >> CHUNK_BITS) + 1;
        while !self.chunks.is_empty() && self.base + (self.chunks.len() as u64) < end {
            self.chunks.push_back(None);
        }
    }

    /// True when inserting `rec` allocates nothing.
    pub(crate) fn has_room(&self, rec: Rec) -> bool {
        self.chunk(rec).is_some()
    }

    pub(crate) fn insert(&mut self, rec: Rec, slot: u32) {
        let number = rec.0 >> CHUNK_BITS;
        if self.chunks.is_empty() {
            self.base = number;
        }
        while number < self.base {
            self.chunks.push_front(None);
            self.base -= 1;
        }
        let index = self.chunk_index(rec).expect("the directory begins at or before it");
        while index >= self.chunks.len() {
            self.chunks.push_back(None);
        }
        let held_count = &mut self.held_count;
        let chunk = self.chunks[index].get_or_insert_with(|| {
            *held_count += 1;
            Box::new(Chunk { slots: [NO_SLOT; CHUNK_LEN], used_count: 0 })
        });
        let place = &mut chunk.slots[Self::offset(rec)];
        assert!(*place == NO_SLOT, "record {rec} has a slot already");
        *place = slot;
        chunk.used_count += 1;
    }

    pub(crate) fn remove(&mut self, rec: Rec) {
        let index = self.chunk_index(rec).expect("a record that is there has a chunk");
        let chunk = self.chunks[index].as_mut().expect("a record that is there has a chunk");
        let place = &mut chunk.slots[Self::offset(rec)];
        assert!(*place != NO_SLOT, "record {rec} has no slot");
        *place = NO_SLOT;
        chunk.used_count -= 1;
        if chunk.used_count > 0 {
            return;
        }
        self.chunks[index] = None;
        self.held_count -= 1;
        // The last chunk stays and marks the highest number so far.
        for _ in 0..FORGET_STEPS {
            if self.chunks.len() == 1 || self.chunks[0].is_some() {
                return;
            }
            self.chunks.pop_front();
            self.base += 1;
        }
    }

    /// Bytes requested from the allocator.
    #[inline]
    pub(crate) fn reserved_bytes(&self) -> u64 {
        let directory = self.chunks.capacity() * size_of::<Option<Box<Chunk>>>();
        self.held_count * size_of::<Chunk>() as u64 + directory as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_found_until_it_is_removed() {
        let mut records = Records::default();
        for rec in 1..20_000 {
            records.insert(Rec(rec), rec as u32);
        }
        assert!((1..20_000).all(|rec| records.get(Rec(rec)) == Some(rec as u32)));
        for rec in (1..20_000).filter(|rec| *rec != 9_000) {
            records.remove(Rec(rec));
        }
        assert_eq!(records.get(Rec(9_000)), Some(9_000));
        assert_eq!(records.get(Rec(1)), None);
        assert_eq!(records.get(Rec(u64::MAX)), None);
        assert!(records.chunks.len() <= 3, "chunks without records are gone");
        records.insert(Rec(5), 5);
        assert_eq!((records.get(Rec(5)), records.get(Rec(9_000))), (Some(5), Some(9_000)));
    }

    #[test]
    fn numbers_with_holes_between_them_are_forgotten_a_few_at_a_time() {
        let mut records = Records::default();
        let far = REC_JUMP_MAX;
        records.insert(Rec(1), 0);
        records.insert(Rec(far), 1);
        let directory = records.chunks.len();
        records.remove(Rec(1));
        assert_eq!(records.chunks.len(), directory - FORGET_STEPS, "no more than that at once");
        for rec in 1..=directory as u64 / 8 {
            records.insert(Rec(far + rec * 4_096), 2);
            records.remove(Rec(far + rec * 4_096));
        }
        assert_eq!(records.get(Rec(far)), Some(1));
        assert!(records.chunks.len() < directory, "{} chunks", records.chunks.len());
    }

    #[test]
    fn records_are_found_in_order_of_their_numbers() {
        let mut records = Records::default();
        let there = [3, 4_095, 4_096, 50_000, 50_001];
        for rec in there {
            records.insert(Rec(rec), rec as u32);
        }
        let (mut found, mut from) = (vec![], Rec(0));
        while let Some((rec, slot)) = records.next_from(from) {
            assert_eq!(u64::from(slot), rec.0);
            found.push(rec.0);
            from = Rec(rec.0 + 1);
        }
        assert_eq!(found, there);
        records.remove(Rec(3));
        records.remove(Rec(4_095));
        assert_eq!(records.next_from(Rec(0)), Some((Rec(4_096), 4_096)));
        assert_eq!(records.next_from(Rec(u64::MAX)), None);
        assert_eq!(Records::default().next_from(Rec(0)), None);
    }

    #[test]
    fn a_record_number_far_ahead_is_refused() {
        let mut records = Records::default();
        records.insert(Rec(1), 0);
        assert!(records.can_hold(Rec(REC_JUMP_MAX)));
        assert!(!records.can_hold(Rec(1 << 40)));
        let far = Rec(3 * REC_JUMP_MAX);
        assert!(!records.can_hold(far));
        records.reach(far);
        assert!(records.can_hold(far) && records.get(far).is_none());
        records.insert(far, 7);
        assert_eq!((records.get(Rec(1)), records.get(far)), (Some(0), Some(7)));
    }
}
