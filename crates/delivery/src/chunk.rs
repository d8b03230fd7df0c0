//! A growing array that never moves its elements: growth costs one chunk, not a copy of the array.
//!
//! A vector that doubles would stop its owner for as long as the copy takes. Only the first chunk
//! doubles, so that the many small rings of a store stay small. Shortening does not free memory at
//! once either: [`ChunkedArray::trim`] frees one chunk per call.

const CHUNK_BITS: u32 = 10;
/// Elements of a chunk.
pub(crate) const CHUNK_LEN: usize = 1 << CHUNK_BITS;
const OFFSET_MASK: u32 = (1 << CHUNK_BITS) - 1;
/// Chunks beyond the needed ones that [`ChunkedArray::trim`] keeps, so that an array whose length
/// goes up and down by one does not allocate each time.
const SPARE_CHUNKS: usize = 1;
/// The first chunk of an empty array stays if its capacity is at most this many elements.
const SMALL_LEN: usize = 16;

/// An array of up to `u32::MAX` elements in chunks.
#[derive(Clone, Debug)]
pub(crate) struct ChunkedArray<T> {
    /// The first chunk. Elements at and beyond `len` in any chunk are stale.
    first: Vec<T>,
    /// INVARIANT: all chunks before the last that `len` reaches hold exactly `CHUNK_LEN` elements.
    rest: Vec<Vec<T>>,
    len: u32,
}

impl<T> Default for ChunkedArray<T> {
    fn default() -> ChunkedArray<T> {
        ChunkedArray { first: Vec::new(), rest: Vec::new(), len: 0 }
    }
}

impl<T> ChunkedArray<T> {
    pub(crate) fn new() -> ChunkedArray<T> {
        ChunkedArray::default()
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Appends an element and returns its index.
    #[inline]
    pub(crate) fn push(&mut self, value: T) -> u32 {
        let index = self.len;
        assert!(index < u32::MAX, "an array of at most 2^32 - 1 elements");
        let offset = (index & OFFSET_MASK) as usize;
        let chunk = match (index >> CHUNK_BITS) as usize {
            0 => &mut self.first,
            chunk => {
                if chunk > self.rest.len() {
                    self.rest.push(Vec::with_capacity(CHUNK_LEN));
                }
                &mut self.rest[chunk - 1]
            }
        };
        if offset < chunk.len() {
            chunk[offset] = value;
        } else {
            chunk.push(value);
        }
        self.len = index + 1;
        index
    }

    /// True when appending `count` elements allocates nothing.
    #[inline]
    pub(crate) fn has_room(&self, count: u32) -> bool {
        let held = match self.rest.len() {
            0 => self.first.capacity(),
            rest => (rest + 1) * CHUNK_LEN,
        };
        self.len as usize + count as usize <= held
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> &T {
        debug_assert!(index < self.len, "element {index} of {}", self.len);
        let offset = (index & OFFSET_MASK) as usize;
        match (index >> CHUNK_BITS) as usize {
            0 => &self.first[offset],
            chunk => &self.rest[chunk - 1][offset],
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> &mut T {
        debug_assert!(index < self.len, "element {index} of {}", self.len);
        let offset = (index & OFFSET_MASK) as usize;
        match (index >> CHUNK_BITS) as usize {
            0 => &mut self.first[offset],
            chunk => &mut self.rest[chunk - 1][offset],
        }
    }

    /// Bytes requested from the allocator.
    #[inline]
    pub(crate) fn reserved_bytes(&self) -> u64 {
        let elements = self.first.capacity() + self.rest.len() * CHUNK_LEN;
        (elements * size_of::<T>() + self.rest.capacity() * size_of::<Vec<T>>()) as u64
    }
}

impl<T: Copy> ChunkedArray<T> {
    /// Drops all elements from index `len` on; their memory is kept until [`ChunkedArray::trim`].
    pub(crate) fn truncate(&mut self, len: u32) {
        assert!(len <= self.len, "truncation to {len} of {}", self.len);
        self.len = len;
    }

    /// Frees one chunk that is not needed; false if there is none.
    #[inline]
    pub(crate) fn trim(&mut self) -> bool {
        let needed = (self.len as usize).div_ceil(CHUNK_LEN).saturating_sub(1);
        let spare = if self.len == 0 { 0 } else { SPARE_CHUNKS };
        if self.rest.len() <= needed + spare {
            return false;
        }
        self.rest.pop();
        true
    }

    /// Frees the first chunk of an empty array that has no other chunk, unless it is small.
    pub(crate) fn trim_first(&mut self) -> bool {
        if self.len > 0 || !self.rest.is_empty() || self.first.capacity() <= SMALL_LEN {
            return false;
        }
        (self.first, self.rest) = (Vec::new(), Vec::new());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_stay_where_they_were_put_across_chunks() {
        let mut array = ChunkedArray::new();
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

    #[test]
    fn what_a_shorter_array_no_longer_needs_is_given_back_one_chunk_a_call() {
        let mut array = ChunkedArray::new();
        for value in 0..10_240u32 {
            array.push(value);
        }
        let full = array.reserved_bytes();
        array.truncate(1);
        assert_eq!(array.reserved_bytes(), full, "shortening frees nothing");
        assert_eq!((0..100).take_while(|_| array.trim()).count(), 8, "all but one spare");
        assert_eq!(array.reserved_bytes(), full - 8 * 4_096);
        for value in 1..10_240u32 {
            array.push(value);
        }
        assert!((1..10_240).all(|index| *array.get(index) == index), "written anew");
    }

    #[test]
    fn an_array_says_whether_its_next_element_asks_for_memory() {
        let mut array = ChunkedArray::new();
        for value in 0..5_000u32 {
            let (before, had_room) = (array.reserved_bytes(), array.has_room(1));
            array.push(value);
            assert_eq!(had_room, array.reserved_bytes() == before, "element {value}");
        }
    }
}
