//! The memory of a ring: a file that is mapped, as words that several processes share.
//!
//! Layout, little-endian words of 64 bits: 0 the magic, 1 how many words the ring has, 16
//! `intent` and 32 `tail` (lines of their own), zero up to 512, and then the ring's words. Nothing
//! here decides what is written.
//!
//! INVARIANT: a mapping that was made for reading is only ever loaded from, relaxed: that works on
//! read-only memory (the standard library's documentation of atomics says so for 64 bits on all
//! that Weir runs on).

use std::fs::File;

use memmap2::{MmapOptions, MmapRaw};

use crate::ring::Cells;
use crate::sync::{AtomicU64, Ordering};

/// "WEIRSHM1" read as bytes.
const MAGIC: u64 = u64::from_le_bytes(*b"WEIRSHM1");
const CAPACITY_AT: usize = 1;
const INTENT_AT: usize = 16;
const TAIL_AT: usize = 32;
/// Where the ring's words begin: on a page of their own.
const WORDS_AT: usize = 512;
const WORD: u64 = 8;

/// A mapped file.
#[derive(Debug)]
pub(crate) struct Memory {
    map: MmapRaw,
}

/// Bytes of a file whose ring has so many.
pub(crate) fn file_len(ring_bytes: u64) -> Option<u64> {
    ring_bytes.checked_add(WORDS_AT as u64 * WORD)
}

impl Memory {
    /// Maps a file of this length, all zeroes, and makes a ring of it.
    pub(crate) fn create(file: &File) -> std::io::Result<Memory> {
        let memory = Memory { map: MmapOptions::new().populate().map_raw(file)? };
        let words = memory.words();
        let capacity = (words.len() - WORDS_AT) as u64;
        words[CAPACITY_AT].store(capacity, Ordering::Relaxed);
        // Readers find the file by its name, which it gets after this.
        words[0].store(MAGIC, Ordering::Relaxed);
        Ok(memory)
    }

    /// Maps a file for reading; `None` when it is no ring.
    pub(crate) fn attach(file: &File) -> std::io::Result<Option<Memory>> {
        let len = file.metadata()?.len();
        let ring_words = (len / WORD).saturating_sub(WORDS_AT as u64);
        if !len.is_multiple_of(WORD) || !ring_words.is_power_of_two() {
            return Ok(None);
        }
        let memory = Memory { map: MmapOptions::new().map_raw_read_only(file)? };
        let words = memory.words();
        let is_ring = words.len() as u64 == WORDS_AT as u64 + ring_words
            && words[0].load(Ordering::Relaxed) == MAGIC
            && words[CAPACITY_AT].load(Ordering::Relaxed) == ring_words;
        Ok(is_ring.then_some(memory))
    }

    fn words(&self) -> &[AtomicU64] {
        let count = self.map.len() / 8;
        // SAFETY: the mapping is of pages, so aligned for words, of at least `count` of them, and
        // lives as long as `self`; all zeroes or any other bits are a word. Other processes change
        // the memory, and here as there all accesses are atomic.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast::<AtomicU64>(), count) }
    }

    /// What the ends of the ring share.
    pub(crate) fn cells(&self) -> Cells<'_> {
        let words = self.words();
        Cells { intent: &words[INTENT_AT], tail: &words[TAIL_AT], words: &words[WORDS_AT..] }
    }
}
