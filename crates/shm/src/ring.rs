//! The layout of records in the ring, and the protocol by which a reader detects an overwritten
//! record.
//!
//! Positions count 64-bit words since the ring began and are never reused; a word's index is its
//! position modulo the ring's length, a power of two. A record is its length in bytes, its sequence
//! number, and its bytes, padded to words. It never wraps around the ring's end: if it does not
//! fit, a marker word declares the rest of the ring empty.
//!
//! The writer first stores the end of the record that it is about to write (`intent`), writes the
//! record, and then stores the end of the last complete record (`tail`). A reader copies a record
//! before `tail` and loads `intent` afterwards: if `intent` is at most one round ahead of the
//! record's begin, none of the words read had been overwritten. Readers load and never store.

use crate::sync::{AtomicU64, Ordering, fence};

/// A marker in place of a record's length: the rest of the ring is empty.
const EMPTY: u64 = u64::MAX;
/// The number of words before a record's bytes.
const HEAD: u64 = 2;
/// The longest record is this fraction of the ring, so that a reader has time to read it.
const RECORD_PART: u64 = 8;

/// A record is longer than the ring allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record of {len} bytes, and at most {max} fit")]
pub struct TooLong {
    /// The record's length in bytes.
    pub len: usize,
    /// The longest allowed length in bytes.
    pub max: usize,
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// There is nothing new.
    Nothing,
    /// A record, with its number, from zero.
    Record(u64),
    /// Records were overwritten before they were read. Reading continues with the newest; the
    /// number of lost records is known when it comes.
    Lost,
    /// The ring holds data that no writer writes.
    Broken,
}

/// The cells that both ends share.
#[derive(Clone, Copy)]
pub(crate) struct Cells<'a> {
    pub(crate) intent: &'a AtomicU64,
    pub(crate) tail: &'a AtomicU64,
    /// The ring's words; their number is a power of two.
    pub(crate) words: &'a [AtomicU64],
}

impl Cells<'_> {
    fn len(&self) -> u64 {
        self.words.len() as u64
    }

    fn at(&self, position: u64) -> &AtomicU64 {
        // The remainder is below the length, which fits `usize`.
        &self.words[(position & (self.len() - 1)) as usize]
    }

    fn left(&self, position: u64) -> u64 {
        self.len() - (position & (self.len() - 1))
    }

    fn record_words_max(&self) -> u64 {
        self.len() / RECORD_PART
    }

    /// The length of the longest record in bytes.
    pub(crate) fn record_len_max(&self) -> usize {
        (self.record_words_max().saturating_sub(HEAD) * 8) as usize
    }
}

/// The writing end.
#[derive(Debug, Default)]
pub(crate) struct RingWriter {
    at: u64,
    sequence: u64,
}

impl RingWriter {
    /// The number of records written.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Writes a record.
    pub(crate) fn write(&mut self, cells: Cells<'_>, bytes: &[u8]) -> Result<(), TooLong> {
        let max = cells.record_len_max();
        if bytes.len() > max {
            return Err(TooLong { len: bytes.len(), max });
        }
        let words = HEAD + (bytes.len() as u64).div_ceil(8);
        let left = cells.left(self.at);
        let begin = if left < words { self.at + left } else { self.at };
        let end = begin + words;
        cells.intent.store(end, Ordering::Relaxed);
        // SYNC: pairs with the acquire fence in `is_whole`: a reader that sees any word stored
        // below sees this intent.
        fence(Ordering::Release);
        if begin != self.at {
            cells.at(self.at).store(EMPTY, Ordering::Relaxed);
        }
        cells.at(begin).store(bytes.len() as u64, Ordering::Relaxed);
        cells.at(begin + 1).store(self.sequence, Ordering::Relaxed);
        let (whole, rest) = bytes.as_chunks::<8>();
        let mut place = begin + HEAD;
        for word in whole {
            cells.at(place).store(u64::from_le_bytes(*word), Ordering::Relaxed);
            place += 1;
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            cells.at(place).store(u64::from_le_bytes(last), Ordering::Relaxed);
        }
        // SYNC: pairs with the acquire fence in `read`: a reader that sees the tail sees the words
        // before it.
        cells.tail.store(end, Ordering::Release);
        (self.at, self.sequence) = (end, self.sequence + 1);
        Ok(())
    }
}

/// A reading end.
#[derive(Debug)]
pub(crate) struct RingReader {
    at: u64,
    /// The sequence number of the next record, once one was read.
    next: Option<u64>,
    /// True when records were lost since the last one read.
    is_behind: bool,
    lost: u64,
}

impl RingReader {
    /// Starts to read at the current tail.
    pub(crate) fn new(cells: Cells<'_>) -> RingReader {
        let at = cells.tail.load(Ordering::Relaxed);
        RingReader { at, next: None, is_behind: false, lost: 0 }
    }

    /// The number of lost records, as far as known.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Reads the next record into `out`, whose content is undefined unless there was one.
    pub(crate) fn read(&mut self, cells: Cells<'_>, out: &mut Vec<u8>) -> Read {
        let tail = cells.tail.load(Ordering::Relaxed);
        // SYNC: pairs with the release store of the tail in `write`. The load is relaxed and a
        // fence orders it, since the memory may be read-only.
        fence(Ordering::Acquire);
        let Some(ready) = tail.checked_sub(self.at) else { return Read::Broken };
        if ready == 0 {
            return Read::Nothing;
        }
        if ready > cells.len() {
            return self.skip(cells);
        }
        let mut begin = self.at;
        if cells.at(begin).load(Ordering::Relaxed) == EMPTY {
            begin = begin.wrapping_add(cells.left(begin));
        }
        let len = cells.at(begin).load(Ordering::Relaxed);
        let sequence = cells.at(begin.wrapping_add(1)).load(Ordering::Relaxed);
        let words = len.div_ceil(8).saturating_add(HEAD);
        let is_right = words <= cells.record_words_max().min(cells.left(begin))
            && begin.checked_add(words).is_some_and(|end| end <= tail);
        if is_right {
            copy(cells, begin.wrapping_add(HEAD), len as usize, out);
        }
        if !self.is_whole(cells) {
            return self.skip(cells);
        }
        let is_new = sequence < u64::MAX && self.next.is_none_or(|next| sequence >= next);
        if !is_right || !is_new {
            return Read::Broken;
        }
        self.take(begin + words, sequence)
    }

    fn take(&mut self, end: u64, sequence: u64) -> Read {
        let lost = self.next.map_or(0, |next| sequence - next);
        if lost > 0 && !self.is_behind {
            return Read::Broken;
        }
        (self.at, self.next, self.is_behind) = (end, Some(sequence + 1), false);
        self.lost += lost;
        Read::Record(sequence)
    }

    /// True if no word from the read position on had been overwritten when it was read.
    fn is_whole(&self, cells: Cells<'_>) -> bool {
        // SYNC: pairs with the release fence in `write`.
        fence(Ordering::Acquire);
        let intent = cells.intent.load(Ordering::Relaxed);
        intent.saturating_sub(self.at) <= cells.len()
    }

    fn skip(&mut self, cells: Cells<'_>) -> Read {
        self.at = cells.tail.load(Ordering::Relaxed);
        // Losses before the first record do not count: reading begins with the next one.
        self.is_behind = true;
        Read::Lost
    }
}

/// Copies a record's bytes, which are contiguous.
fn copy(cells: Cells<'_>, begin: u64, len: usize, out: &mut Vec<u8>) {
    out.clear();
    out.reserve(len + 8);
    let first = (begin & (cells.len() - 1)) as usize;
    for word in &cells.words[first..first + len.div_ceil(8)] {
        out.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
    }
    out.truncate(len);
}

#[cfg(test)]
mod tests;
