//! Which slot holds a record: a directory of chunks by record number, each freed when its last
//! record is gone.
//!
//! Record numbers come nearly dense and in order, so that a look-up is two loads and neither
//! growth nor removal ever moves what is there.

use std::collections::VecDeque;

use weir_types::Rec;

const CHUNK_BITS: u32 = 12;
const CHUNK_LEN: usize = 1 << CHUNK_BITS;
const NO_SLOT: u32 = u32::MAX;
/// How far a record number may be ahead of the highest one: bounds what one event can allocate.
pub(crate) const REC_JUMP_MAX: u64 = 1 << 28;

#[derive(Clone, Debug)]
struct Chunk {
    slots: Box<[u32]>,
    used_count: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    chunks: VecDeque<Option<Chunk>>,
    /// The number of the first chunk in `chunks`.
    base: u64,
}

impl Records {
    fn chunk_index(&self, rec: Rec) -> Option<usize> {
        usize::try_from((rec.0 >> CHUNK_BITS).checked_sub(self.base)?).ok()
    }

    fn offset(rec: Rec) -> usize {
        (rec.0 as usize) & (CHUNK_LEN - 1)
    }

    #[inline]
    pub(crate) fn get(&self, rec: Rec) -> Option<u32> {
        let chunk = self.chunks.get(self.chunk_index(rec)?)?.as_ref()?;
        let slot = chunk.slots[Self::offset(rec)];
        (slot != NO_SLOT).then_some(slot)
    }

    /// True when `rec` is not absurdly far from the records that are there.
    pub(crate) fn can_hold(&self, rec: Rec) -> bool {
        let end = self.base + self.chunks.len() as u64;
        let chunk = rec.0 >> CHUNK_BITS;
        let jump_max = REC_JUMP_MAX >> CHUNK_BITS;
        self.chunks.is_empty() || (chunk <= end + jump_max && chunk + jump_max >= self.base)
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
        let chunk = self.chunks[index].get_or_insert_with(|| Chunk {
            slots: vec![NO_SLOT; CHUNK_LEN].into_boxed_slice(),
            used_count: 0,
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
        // The last chunk stays as a mark of how far the numbers have come.
        while self.chunks.len() > 1 && self.chunks[0].is_none() {
            self.chunks.pop_front();
            self.base += 1;
        }
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
    fn a_record_number_far_ahead_is_refused() {
        let mut records = Records::default();
        records.insert(Rec(1), 0);
        assert!(records.can_hold(Rec(REC_JUMP_MAX)));
        assert!(!records.can_hold(Rec(1 << 40)));
    }
}
