//! A growing array that never moves what it holds: growth costs one chunk, not a copy of all.
//!
//! A vector that doubles would stop its owner for as long as it takes to copy everything. Only the
//! first chunk doubles, so that the many small rings of a store stay small.

const CHUNK_BITS: u32 = 10;
const CHUNK_LEN: usize = 1 << CHUNK_BITS;
const OFFSET_MASK: u32 = (1 << CHUNK_BITS) - 1;

/// An array of up to `u32::MAX` elements in chunks.
#[derive(Clone, Debug)]
pub(crate) struct Chunked<T> {
    /// INVARIANT: all chunks but the last hold exactly `CHUNK_LEN` elements.
    chunks: Vec<Vec<T>>,
    len: u32,
}

impl<T: Copy> Chunked<T> {
    pub(crate) fn new() -> Chunked<T> {
        Chunked { chunks: Vec::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Appends and returns the new element's index.
    pub(crate) fn push(&mut self, value: T) -> u32 {
        let index = self.len;
        let chunk = (index >> CHUNK_BITS) as usize;
        if chunk == self.chunks.len() {
            let capacity = if chunk == 0 { 0 } else { CHUNK_LEN };
            self.chunks.push(Vec::with_capacity(capacity));
        }
        self.chunks[chunk].push(value);
        assert!(index < u32::MAX, "an array of at most 2^32 - 1 elements");
        self.len = index + 1;
        index
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> &T {
        &self.chunks[(index >> CHUNK_BITS) as usize][(index & OFFSET_MASK) as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> &mut T {
        &mut self.chunks[(index >> CHUNK_BITS) as usize][(index & OFFSET_MASK) as usize]
    }

    /// Forgets all elements from index `len` on.
    pub(crate) fn truncate(&mut self, len: u32) {
        assert!(len <= self.len, "truncation to {len} of {}", self.len);
        let chunk_count = (len as usize).div_ceil(CHUNK_LEN);
        self.chunks.truncate(chunk_count.max(1));
        if let Some(last) = self.chunks.last_mut() {
            last.truncate(len as usize - chunk_count.saturating_sub(1) * CHUNK_LEN);
        }
        self.len = len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_stay_where_they_were_put_across_chunks() {
        let mut array = Chunked::new();
        for value in 0..3_000u32 {
            assert_eq!(array.push(value), value);
        }
        for len in [3_000, 2_048, 2_047, 1_024, 1, 0] {
            array.truncate(len);
            assert_eq!(array.len(), len);
            assert!((0..len).all(|index| *array.get(index) == index));
            assert_eq!(array.push(len), len);
            array.truncate(len);
        }
    }
}
