//! The memory of rows: blocks of a few sizes, cut from slabs of one size.
//!
//! A row's block is of the smallest class that holds it, so that at most 63 bytes of a block are
//! unused. A slab serves one class while any of its blocks is in use and can then serve any other,
//! so a change of row sizes does not accumulate unused memory. Taking, returning and replacing a
//! block are a few steps each; nothing is ever copied or freed in bulk.
//!
//! ```text
//! slab   64 KiB: blocks of one class, and no header
//! free   a chain through the first two bytes of a slab's free blocks
//! open   per class a chain of its slabs with a free block; the newest opened serves first
//! spare  a chain of up to SPARE_SLABS_MAX empty slabs, of no class; the bare ones beyond them
//!        have freed their memory
//! ```

use crate::chunk::ChunkedArray;

/// Bytes of a slab.
pub(crate) const SLAB_LEN: usize = 64 * 1024;
/// Block sizes. The first holds a row without attributes, the last a row with the most attributes.
const CLASSES: [u16; CLASS_COUNT] = [168, 192, 256, 320, 384, 448, 512, 576, 640, 704, 768];
/// The number of block sizes.
pub(crate) const CLASS_COUNT: usize = 11;
/// The longest row.
pub(crate) const BLOCK_LEN_MAX: usize = CLASSES[CLASSES.len() - 1] as usize;
/// Empty slabs that keep their memory, at most.
const SPARE_SLABS_MAX: u32 = 64;
/// Bytes of a cache line.
const CACHE_LINE: usize = 64;
const BLOCK_BITS: u32 = 10;
const BLOCK_MASK: u32 = (1 << BLOCK_BITS) - 1;
const NONE: u32 = u32::MAX;
const NO_BLOCK: u16 = u16::MAX;

/// Returns the smallest class that holds `len` bytes.
#[inline]
pub(crate) fn class_of(len: usize) -> usize {
    debug_assert!(len <= BLOCK_LEN_MAX, "{len} bytes fit no block");
    match len {
        0..=168 => 0,
        _ => (len - 1) / 64 - 1,
    }
}

/// A block: its slab and its number in the slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block(u32);

impl Block {
    /// No block.
    pub(crate) const NONE: Block = Block(NONE);

    fn new(slab: u32, number: u16) -> Block {
        Block(slab << BLOCK_BITS | u32::from(number))
    }

    #[inline]
    fn slab(self) -> u32 {
        self.0 >> BLOCK_BITS
    }

    #[inline]
    fn number(self) -> u16 {
        (self.0 & BLOCK_MASK) as u16
    }
}

#[derive(Clone, Debug)]
struct Slab {
    /// The slab's memory; empty while it has none.
    bytes: Box<[u8]>,
    class: u8,
    used_count: u16,
    /// The first block that was never used; all later ones are unused too.
    fresh: u16,
    /// The first free block among those before `fresh`.
    free: u16,
    /// Neighbours among the open slabs of its class, or the next empty slab.
    before: u32,
    after: u32,
}

impl Slab {
    fn block_count(&self) -> u16 {
        (SLAB_LEN / usize::from(CLASSES[usize::from(self.class)])) as u16
    }

    fn is_full(&self) -> bool {
        self.free == NO_BLOCK && self.fresh == self.block_count()
    }

    #[inline]
    fn at(&self, number: u16) -> usize {
        usize::from(number) * usize::from(CLASSES[usize::from(self.class)])
    }
}

/// The memory of all rows of a store.
#[derive(Clone, Debug)]
pub(crate) struct Heap {
    slabs: ChunkedArray<Slab>,
    /// The first open slab of each class.
    open: [u32; CLASSES.len()],
    /// The first empty slab with memory, and the number of such slabs.
    spare: u32,
    spare_count: u32,
    /// The first empty slab without memory.
    bare: u32,
    /// Slabs with memory.
    held_count: u32,
    /// Free blocks in the open slabs of each class.
    free_counts: [u32; CLASSES.len()],
    /// Bytes of the blocks in use.
    used_bytes: u64,
}

impl Heap {
    pub(crate) fn new() -> Heap {
        Heap {
            slabs: ChunkedArray::new(),
            open: [NONE; CLASSES.len()],
            spare: NONE,
            spare_count: 0,
            bare: NONE,
            held_count: 0,
            free_counts: [0; CLASSES.len()],
            used_bytes: 0,
        }
    }

    /// Takes a block for `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> Block {
        let class = class_of(len);
        if self.open[class] == NONE {
            self.open_slab(class);
        }
        self.take_of(class)
    }

    /// Takes a block for `len` bytes without allocating, of a larger class if the right one has
    /// none free; `None` if there is none.
    pub(crate) fn take_held(&mut self, len: usize) -> Option<Block> {
        let class = (class_of(len)..CLASSES.len()).find(|class| self.open[*class] != NONE);
        match class {
            Some(class) => Some(self.take_of(class)),
            None if self.spare_count > 0 => Some(self.take(len)),
            None => None,
        }
    }

    /// True when [`Heap::take_held`] finds a block `count` times.
    pub(crate) fn holds(&self, len: usize, count: u32) -> bool {
        let free_count: u32 = self.free_counts[class_of(len)..].iter().sum();
        self.spare_count > 0 || free_count >= count
    }

    fn take_of(&mut self, class: usize) -> Block {
        let index = self.open[class];
        let slab = self.slabs.get_mut(index);
        let number = match slab.free {
            NO_BLOCK => {
                slab.fresh += 1;
                slab.fresh - 1
            }
            number => {
                let at = slab.at(number);
                slab.free = u16::from_le_bytes([slab.bytes[at], slab.bytes[at + 1]]);
                number
            }
        };
        slab.used_count += 1;
        self.free_counts[class] -= 1;
        self.used_bytes += u64::from(CLASSES[class]);
        if slab.is_full() {
            self.unchain(index);
        }
        Block::new(index, number)
    }

    /// Returns a block to its slab.
    pub(crate) fn give(&mut self, block: Block) {
        let index = block.slab();
        let slab = self.slabs.get_mut(index);
        let was_full = slab.is_full();
        let at = slab.at(block.number());
        slab.bytes[at..at + 2].copy_from_slice(&slab.free.to_le_bytes());
        slab.free = block.number();
        slab.used_count -= 1;
        let (class, is_empty) = (usize::from(slab.class), slab.used_count == 0);
        self.free_counts[class] += 1;
        self.used_bytes -= u64::from(CLASSES[class]);
        if was_full {
            self.chain(index, class);
        }
        if is_empty {
            self.retire_slab(index);
        }
    }

    /// Returns the bytes of a block.
    #[inline]
    pub(crate) fn bytes(&self, block: Block, len: usize) -> &[u8] {
        let slab = self.slabs.get(block.slab());
        &slab.bytes[slab.at(block.number())..][..len]
    }

    /// Returns the bytes of a block, for writing.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, block: Block, len: usize) -> &mut [u8] {
        let slab = self.slabs.get_mut(block.slab());
        let at = slab.at(block.number());
        &mut slab.bytes[at..at + len]
    }

    /// Touches each cache line of a block.
    #[inline]
    pub(crate) fn look(&self, block: Block, len: usize) -> u64 {
        let bytes = self.bytes(block, len).iter().step_by(CACHE_LINE);
        bytes.fold(0, |seen, byte| seen ^ u64::from(*byte))
    }

    /// Touches the first and the last byte of a block's row.
    #[inline]
    pub(crate) fn look_at_ends(&self, block: Block, len: usize) -> u64 {
        let bytes = self.bytes(block, len);
        let ends = bytes.first().zip(bytes.last());
        ends.map_or(0, |(first, last)| u64::from(first ^ last))
    }

    /// True when this block's class is the best fit for a row of `len` bytes.
    #[inline]
    pub(crate) fn is_fit(&self, block: Block, len: usize) -> bool {
        usize::from(self.slabs.get(block.slab()).class) == class_of(len)
    }

    /// Returns the class of a block.
    pub(crate) fn class_at(&self, block: Block) -> usize {
        usize::from(self.slabs.get(block.slab()).class)
    }

    /// Returns the bytes of a class's block.
    pub(crate) fn block_len(class: usize) -> u64 {
        u64::from(CLASSES[class])
    }

    /// True when [`Heap::take`] finds so many blocks of each class without an allocation.
    pub(crate) fn holds_all(&self, counts: &[u32; CLASS_COUNT]) -> bool {
        let slabs = counts.iter().zip(self.free_counts).zip(CLASSES).map(|((count, free), len)| {
            let per_slab = SLAB_LEN as u32 / u32::from(len);
            count.saturating_sub(free).div_ceil(per_slab)
        });
        slabs.sum::<u32>() <= self.spare_count
    }

    /// True when `len` bytes fit in this block.
    pub(crate) fn is_enough(&self, block: Block, len: usize) -> bool {
        usize::from(self.slabs.get(block.slab()).class) >= class_of(len)
    }

    fn open_slab(&mut self, class: usize) {
        let index = if self.spare != NONE {
            let index = self.spare;
            self.spare = self.slabs.get(index).after;
            self.spare_count -= 1;
            index
        } else {
            self.held_count += 1;
            let index = self.bare_slab();
            self.slabs.get_mut(index).bytes = vec![0; SLAB_LEN].into_boxed_slice();
            index
        };
        let slab = self.slabs.get_mut(index);
        slab.class = u8::try_from(class).expect("a few classes");
        (slab.fresh, slab.free) = (0, NO_BLOCK);
        self.free_counts[class] += u32::from(slab.block_count());
        self.chain(index, class);
    }

    /// Returns a slab without memory.
    fn bare_slab(&mut self) -> u32 {
        if self.bare != NONE {
            let index = self.bare;
            self.bare = self.slabs.get(index).after;
            return index;
        }
        let index = self.slabs.push(Slab {
            bytes: Box::default(),
            class: 0,
            used_count: 0,
            fresh: 0,
            free: NO_BLOCK,
            before: NONE,
            after: NONE,
        });
        assert!(index < NONE >> BLOCK_BITS, "a heap of fewer than 2^22 slabs");
        index
    }

    fn retire_slab(&mut self, index: u32) {
        self.unchain(index);
        let slab = self.slabs.get_mut(index);
        self.free_counts[usize::from(slab.class)] -= u32::from(slab.block_count());
        if self.spare_count < SPARE_SLABS_MAX {
            self.spare_count += 1;
            slab.after = core::mem::replace(&mut self.spare, index);
        } else {
            self.held_count -= 1;
            slab.bytes = Box::default();
            slab.after = core::mem::replace(&mut self.bare, index);
        }
    }

    fn chain(&mut self, index: u32, class: usize) {
        let after = self.open[class];
        let slab = self.slabs.get_mut(index);
        (slab.before, slab.after) = (NONE, after);
        if after != NONE {
            self.slabs.get_mut(after).before = index;
        }
        self.open[class] = index;
    }

    fn unchain(&mut self, index: u32) {
        let slab = self.slabs.get(index);
        let (before, after, class) = (slab.before, slab.after, usize::from(slab.class));
        match before {
            NONE => self.open[class] = after,
            before => self.slabs.get_mut(before).after = after,
        }
        if after != NONE {
            self.slabs.get_mut(after).before = before;
        }
    }

    /// Bytes of the blocks in use.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Bytes requested from the allocator.
    #[inline]
    pub(crate) fn reserved_bytes(&self) -> u64 {
        u64::from(self.held_count) * SLAB_LEN as u64 + self.slabs.reserved_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_has_the_smallest_class_that_holds_it() {
        for len in 0..=BLOCK_LEN_MAX {
            let want = CLASSES.iter().position(|class| len <= usize::from(*class));
            assert_eq!(Some(class_of(len)), want, "{len} bytes");
        }
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % bound
        }
    }

    #[test]
    fn blocks_keep_their_bytes_while_others_come_and_go() {
        let (mut heap, mut held, mut random) = (Heap::new(), Vec::new(), Random(7));
        for turn in 0..60_000u32 {
            // Grows, shrinks, and grows again with other sizes.
            let is_growing = random.below(10) < if turn / 20_000 == 1 { 3 } else { 7 };
            if is_growing || held.is_empty() {
                let len = 151 + random.below(600 + 2) as usize;
                let block = heap.take(len);
                heap.bytes_mut(block, len).fill(turn as u8);
                held.push((block, len, turn as u8));
            } else {
                let (block, len, fill) = held.swap_remove(random.below(held.len() as u64) as usize);
                assert!(heap.bytes(block, len).iter().all(|byte| *byte == fill), "overwritten");
                heap.give(block);
            }
        }
        let class = |len: usize| u64::from(CLASSES[class_of(len)]);
        assert_eq!(heap.used_bytes(), held.iter().map(|(_, len, _)| class(*len)).sum::<u64>());
        for (block, len, fill) in held {
            assert!(heap.bytes(block, len).iter().all(|byte| *byte == fill), "overwritten");
        }
    }

    #[test]
    fn what_one_size_leaves_another_takes() {
        let mut heap = Heap::new();
        for len in [168, 768, 320, 192, 640, 448] {
            let blocks: Vec<Block> = (0..10_000_000 / len).map(|_| heap.take(len)).collect();
            let peak = heap.reserved_bytes();
            assert!(peak < 10_700_000, "{peak} bytes for 10 MB of rows of {len} bytes");
            blocks.into_iter().for_each(|block| heap.give(block));
            assert_eq!(heap.used_bytes(), 0);
            assert!(heap.reserved_bytes() < 5_000_000, "spares only");
        }
    }

    #[test]
    fn a_heap_that_may_not_grow_uses_larger_blocks_and_then_says_no() {
        let mut heap = Heap::new();
        let large = heap.take(768);
        let reserved = heap.reserved_bytes();
        let small: Vec<Block> = std::iter::from_fn(|| heap.take_held(160)).collect();
        assert_eq!(small.len(), SLAB_LEN / 768 - 1, "the rest of the slab of the largest");
        assert!(!heap.holds(160, 1));
        assert_eq!(heap.reserved_bytes(), reserved);
        heap.give(large);
        assert!(heap.holds(160, 1) && !heap.holds(160, 2), "a larger one");
        assert!(heap.is_enough(small[0], 700) && !heap.is_fit(small[0], 160));
        small.into_iter().for_each(|block| heap.give(block));
        assert!(heap.holds(160, 400), "an empty slab serves every class");
    }
}
