//! The segment of each record's latest change, which shows that a row in an older segment is
//! history: four bytes per record, in chunks by record number. A chunk is dropped when none of its
//! records is in a later segment than those removed. Also a set of records, one bit each.

use std::collections::BTreeMap;

use weir_types::Rec;

const CHUNK_BITS: u32 = 10;
const CHUNK_LEN: usize = 1 << CHUNK_BITS;

fn split(rec: Rec) -> (u64, usize) {
    (rec.0 >> CHUNK_BITS, (rec.0 as usize) & (CHUNK_LEN - 1))
}

/// Segment numbers in the order of history, from 1; zero for none.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewestSegments {
    chunks: BTreeMap<u64, Box<[u32; CHUNK_LEN]>>,
}

impl NewestSegments {
    #[inline]
    pub(crate) fn get(&self, rec: Rec) -> u32 {
        let (chunk, at) = split(rec);
        self.chunks.get(&chunk).map_or(0, |chunk| chunk[at])
    }

    /// Records a change; numbers only grow.
    #[inline]
    pub(crate) fn set(&mut self, rec: Rec, number: u32) {
        let (chunk, at) = split(rec);
        let chunk = self.chunks.entry(chunk).or_insert_with(|| Box::new([0; CHUNK_LEN]));
        chunk[at] = chunk[at].max(number);
    }

    /// Drops chunks without a record in a segment after `number`.
    pub(crate) fn forget_up_to(&mut self, number: u32) {
        self.chunks.retain(|_, chunk| chunk.iter().any(|newest| *newest > number));
    }

    /// Returns the bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        (self.chunks.len() * (CHUNK_LEN * 4 + 24)) as u64
    }
}

/// A set of records.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecSet {
    chunks: BTreeMap<u64, [u64; CHUNK_LEN / 64]>,
}

impl RecSet {
    /// Adds a record; true if it was not in the set.
    pub(crate) fn insert(&mut self, rec: Rec) -> bool {
        let (chunk, at) = split(rec);
        let word = &mut self.chunks.entry(chunk).or_insert([0; CHUNK_LEN / 64])[at / 64];
        let bit = 1 << (at % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_in_its_newest_segment_until_that_is_forgotten() {
        let mut newest = NewestSegments::default();
        for (rec, number) in [(1, 1), (1_023, 2), (1_024, 1), (u64::MAX, 3), (1, 3)] {
            newest.set(Rec(rec), number);
        }
        assert_eq!([1, 2, 1_023, 1_024].map(|rec| newest.get(Rec(rec))), [3, 0, 2, 1]);
        newest.forget_up_to(2);
        assert_eq!([1, 1_024].map(|rec| newest.get(Rec(rec))), [3, 0]);
        assert_eq!(newest.get(Rec(u64::MAX)), 3);
    }

    #[test]
    fn a_record_is_new_once() {
        let mut seen = RecSet::default();
        assert!(seen.insert(Rec(70)) && seen.insert(Rec(1_094)) && !seen.insert(Rec(70)));
    }
}
