//! The memory of a ring: a mapped file, as words shared by several processes.
//!
//! Layout, little-endian words of 64 bits: 0 the magic, 1 the number of the ring's words, 16
//! `intent` and 32 `tail` (on cache lines of their own), zero up to 512, then the ring's words.
//! This module only maps the memory; `ring` defines its use.
//!
//! INVARIANT: a mapping made for reading is only accessed by relaxed loads: these work on read-only
//! memory (guaranteed by the standard library's documentation of atomics for 64 bits on all
//! platforms that Weir runs on).

use std::fs::File;

use memmap2::{MmapOptions, MmapRaw};

use crate::ring::Cells;
use crate::sync::{AtomicU64, Ordering};

/// "WEIRSHM1" as bytes.
const MAGIC: u64 = u64::from_le_bytes(*b"WEIRSHM1");
/// The first bytes of a ring of any version.
pub(crate) const FAMILY: [u8; 7] = *b"WEIRSHM";
const CAPACITY_AT: usize = 1;
const INTENT_AT: usize = 16;
const TAIL_AT: usize = 32;
/// The index of the ring's first word: on a page of its own.
const WORDS_AT: usize = 512;
const WORD: u64 = 8;

/// A mapped file.
#[derive(Debug)]
pub(crate) struct Memory {
    map: MmapRaw,
}

/// The length of a file for a ring of this many bytes.
pub(crate) fn file_len(ring_bytes: u64) -> Option<u64> {
    ring_bytes.checked_add(WORDS_AT as u64 * WORD)
}

impl Memory {
    /// Maps a zeroed file and initialises a ring in it.
    pub(crate) fn create(file: &File) -> std::io::Result<Memory> {
        let memory = Memory { map: MmapOptions::new().populate().map_raw(file)? };
        let words = memory.words();
        let capacity = (words.len() - WORDS_AT) as u64;
        words[CAPACITY_AT].store(capacity, Ordering::Relaxed);
        // Readers find the file by its name, which it gets afterwards.
        words[0].store(MAGIC, Ordering::Relaxed);
        Ok(memory)
    }

    /// Maps a file for reading; `None` when it is not a ring.
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
        // SAFETY: the mapping is page-aligned, thus aligned for words; it holds at least `count`
        // words and lives as long as `self`; every bit pattern is a valid word. Other processes
        // change the memory, and all accesses there and here are atomic.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast::<AtomicU64>(), count) }
    }

    /// The cells shared by the ring's ends.
    pub(crate) fn cells(&self) -> Cells<'_> {
        let words = self.words();
        Cells { intent: &words[INTENT_AT], tail: &words[TAIL_AT], words: &words[WORDS_AT..] }
    }
}
