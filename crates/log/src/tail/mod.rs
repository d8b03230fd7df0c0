//! The newest events in memory: one writer, any number of readers, nobody waits for anybody.
//!
//! Records of any length are numbered densely and kept in a ring of segments of 64-bit words. The
//! writer overwrites the oldest segment when it needs room; a reader that was still there learns
//! that it is lapped, and from where it can go on. A reader copies words out and then checks that
//! they were not overwritten meanwhile, so it never hands out a mixture, and the writer never
//! looks at readers. All shared words are atomic; there is no unsafe code.
//!
//! Invariants: `published_word` only grows; words below it and not below `oldest_word` hold whole
//! records; no record spans two segments.

#[cfg(loom)]
use loom::hint::spin_loop;
#[cfg(loom)]
use loom::sync::{
    Arc,
    atomic::{AtomicU64, Ordering, fence},
};
#[cfg(not(loom))]
use std::hint::spin_loop;
#[cfg(not(loom))]
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering, fence},
};

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

/// In a record's place: the rest of the segment holds none.
const SKIP: u64 = u64::MAX;

/// The size of a tail.
#[derive(Clone, Copy, Debug)]
pub struct TailConfig {
    /// The size of a segment in 64-bit words; a record must fit in one.
    pub segment_words: usize,
    /// How many segments are kept, at least two.
    pub segments: usize,
    /// The number of the first record.
    pub first_record: u64,
}

impl TailConfig {
    /// Segments of 4 MiB, so many that `retained_bytes` are always there, counted with each
    /// record's one word of header.
    #[must_use]
    pub fn new(retained_bytes: usize, first_record: u64) -> TailConfig {
        let segment_words = (4 << 20) / 8;
        let segments = retained_bytes.div_ceil(segment_words * 8) + 1;
        TailConfig { segment_words, segments: segments.max(2), first_record }
    }
}

/// What the writer and the readers share.
#[derive(Debug)]
struct Shared {
    words: Box<[AtomicU64]>,
    /// Of each segment in the ring: the number of its first record.
    first_records: Box<[AtomicU64]>,
    segment_words: u64,
    /// Everything before this word is visible. Words are counted from the beginning of time.
    published_word: AtomicU64,
    /// The number after the last published record, set before and after `published_word`: when
    /// the two are equal, so is what lies between.
    begun_record: AtomicU64,
    published_record: AtomicU64,
    /// Everything before this word may be overwritten.
    oldest_word: AtomicU64,
}

impl Shared {
    fn word(&self, at: u64) -> &AtomicU64 {
        &self.words[usize::try_from(at % self.words.len() as u64).expect("an index")]
    }

    fn first_record(&self, segment: u64) -> &AtomicU64 {
        let count = self.first_records.len() as u64;
        &self.first_records[usize::try_from(segment % count).expect("an index")]
    }

    /// True when nothing read since from `at` on was overwritten.
    fn still_there(&self, at: u64) -> bool {
        // SYNC: pairs with the fence in `enter_segment`: if a word read before was written after
        // that fence, the load below sees the oldest word set before it.
        fence(Ordering::Acquire);
        self.oldest_word.load(Ordering::Relaxed) <= at
    }
}

/// Makes a tail: its writer, and the handle from which readers come.
///
/// # Panics
/// When the sizes cannot work.
#[must_use]
pub fn tail(config: TailConfig) -> (TailWriter, TailHandle) {
    assert!(config.segments >= 2, "one segment fills while another is read");
    assert!(config.segment_words >= 2, "a segment holds a record");
    let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect::<Box<[_]>>();
    let shared = Arc::new(Shared {
        words: zeros(config.segment_words * config.segments),
        first_records: zeros(config.segments),
        segment_words: config.segment_words as u64,
        published_word: AtomicU64::new(0),
        begun_record: AtomicU64::new(config.first_record),
        published_record: AtomicU64::new(config.first_record),
        oldest_word: AtomicU64::new(0),
    });
    // SYNC: the handle is made after this; whatever hands it to a reader orders the two.
    shared.first_record(0).store(config.first_record, Ordering::Relaxed);
    let writer = TailWriter { shared: Arc::clone(&shared), at: 0, next: config.first_record };
    (writer, TailHandle { shared })
}

/// The one writer.
#[derive(Debug)]
pub struct TailWriter {
    shared: Arc<Shared>,
    /// Where the next record goes.
    at: u64,
    next: u64,
}

impl TailWriter {
    /// Adds a record, not yet visible; returns its number.
    ///
    /// # Panics
    /// When the record is longer than a segment.
    pub fn append(&mut self, record: &[u8]) -> u64 {
        let words = record.len().div_ceil(8) as u64;
        let segment_words = self.shared.segment_words;
        assert!(words < segment_words, "a record fits in a segment");
        let used = self.at % segment_words;
        if used == 0 {
            self.enter_segment();
        } else if used + 1 + words > segment_words {
            self.store(self.at, SKIP);
            self.at += segment_words - used;
            self.enter_segment();
        }
        self.store(self.at, record.len() as u64);
        let (whole, rest) = record.as_chunks::<8>();
        for (at, word) in (self.at + 1..).zip(whole) {
            self.store(at, u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.store(self.at + words, u64::from_le_bytes(word));
        }
        self.at += 1 + words;
        self.next += 1;
        self.next - 1
    }

    /// Makes all records appended so far visible.
    pub fn publish(&mut self) {
        self.shared.begun_record.store(self.next, Ordering::Relaxed);
        // SYNC: pairs with the fence in `TailHandle::reader`: whoever sees the new end sees that
        // a publication has begun.
        fence(Ordering::Release);
        // SYNC: pairs with the load in `TailReader::refresh`: whoever sees the new end sees the
        // words before it.
        self.shared.published_word.store(self.at, Ordering::Release);
        // SYNC: pairs with the loads in `TailHandle::reader` and `seek`: whoever sees the number
        // sees the end that belongs to it, or a later one.
        self.shared.published_record.store(self.next, Ordering::Release);
    }

    /// The number that the next record gets.
    #[must_use]
    pub fn next_record(&self) -> u64 {
        self.next
    }

    /// Begins the segment at `self.at`, giving up the one whose place it takes.
    fn enter_segment(&mut self) {
        let shared = &self.shared;
        let segments = shared.first_records.len() as u64;
        let segment = self.at / shared.segment_words;
        if segment >= segments {
            let oldest = (segment + 1 - segments) * shared.segment_words;
            // SYNC: pairs with the load in `oldest_segment`: whoever sees it knows the first record
            // of the segment that is the oldest now.
            shared.oldest_word.store(oldest, Ordering::Release);
        }
        // SYNC: pairs with the fence in `still_there`: no word of the new segment is seen before
        // the old one is declared gone.
        fence(Ordering::Release);
        shared.first_record(segment).store(self.next, Ordering::Relaxed);
    }

    fn store(&self, at: u64, word: u64) {
        // SYNC: made visible by `publish`; a reader that sees it earlier is found by `still_there`.
        self.shared.word(at).store(word, Ordering::Relaxed);
    }
}

/// Where readers come from. Clones are the same tail.
#[derive(Clone, Debug)]
pub struct TailHandle {
    shared: Arc<Shared>,
}

impl TailHandle {
    /// A reader that stands at the next record to be published.
    #[must_use]
    pub fn reader(&self) -> TailReader {
        let shared = Arc::clone(&self.shared);
        loop {
            // SYNC: both pair with the stores in `publish`.
            let record = shared.published_record.load(Ordering::Acquire);
            let at = shared.published_word.load(Ordering::Acquire);
            // SYNC: pairs with the fence in `publish`: had the end been a later publication's, its
            // beginning would be seen here.
            fence(Ordering::Acquire);
            if shared.begun_record.load(Ordering::Relaxed) == record {
                return TailReader { shared, at, record, end: at };
            }
            spin_loop();
        }
    }

    /// A reader that stands at the oldest record that is there.
    #[must_use]
    pub fn reader_from_oldest(&self) -> TailReader {
        let mut reader = self.reader();
        while let Seek::Lapped { .. } = reader.seek_segment(reader.oldest_segment()) {
            spin_loop();
        }
        reader
    }

    /// The number after the newest published record.
    #[must_use]
    pub fn next_record(&self) -> u64 {
        // SYNC: a number alone; it orders nothing.
        self.shared.published_record.load(Ordering::Relaxed)
    }
}

/// What a reader finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum TailRead {
    /// The next record, with its number; its bytes are in the buffer.
    Record(u64),
    /// Nothing new.
    Empty,
    /// The next record is gone; the oldest that is there has this number. Seek to go on.
    Lapped {
        /// The number of the oldest record.
        oldest: u64,
    },
}

/// Where a seek ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Seek {
    /// At the record.
    Done,
    /// The record is gone; the oldest that is there has this number. The reader has not moved.
    Lapped {
        /// The number of the oldest record.
        oldest: u64,
    },
    /// There is no such record yet; the next has this number. The reader has not moved.
    Ahead {
        /// The number of the record to be published next.
        next: u64,
    },
}

/// A reader's place in a tail.
#[derive(Clone, Debug)]
pub struct TailReader {
    shared: Arc<Shared>,
    at: u64,
    record: u64,
    /// The end of what is published, as last seen.
    end: u64,
}

impl TailReader {
    /// Copies the next record into `buf`, which is cleared first.
    pub fn next(&mut self, buf: &mut Vec<u8>) -> TailRead {
        loop {
            let header = match self.next_word() {
                Word::Header(header) => header,
                Word::None => return TailRead::Empty,
                Word::Lapped => match self.lapped() {
                    Some(oldest) => return TailRead::Lapped { oldest },
                    None => continue,
                },
            };
            if header == SKIP {
                self.skip_segment();
                continue;
            }
            let length = usize::try_from(header).expect("a record fits in memory");
            let words = header.div_ceil(8);
            buf.clear();
            for at in self.at + 1..=self.at + words {
                // SYNC: pairs with `publish` through `next_word`; checked right below.
                let word = self.shared.word(at).load(Ordering::Relaxed);
                buf.extend_from_slice(&word.to_le_bytes());
            }
            buf.truncate(length);
            if !self.shared.still_there(self.at) {
                return TailRead::Lapped { oldest: self.oldest() };
            }
            self.at += 1 + words;
            self.record += 1;
            return TailRead::Record(self.record - 1);
        }
    }

    /// Moves to record `wanted`.
    pub fn seek(&mut self, wanted: u64) -> Seek {
        let mut moved = self.clone();
        let found = moved.seek_from_oldest(wanted);
        if found == Seek::Done {
            *self = moved;
        }
        found
    }

    /// The number of the next record to be read.
    #[must_use]
    pub fn next_record(&self) -> u64 {
        self.record
    }

    /// How many published records are ahead of this reader.
    #[must_use]
    pub fn lag(&self) -> u64 {
        // SYNC: a number alone; it orders nothing.
        self.shared.published_record.load(Ordering::Relaxed).saturating_sub(self.record)
    }

    fn seek_from_oldest(&mut self, wanted: u64) -> Seek {
        // SYNC: pairs with the store in `publish`: the words up to that number are there.
        let next = self.shared.published_record.load(Ordering::Acquire);
        if wanted > next {
            return Seek::Ahead { next };
        }
        if let Some(segment) = self.segment_of(wanted) {
            let _ = self.seek_segment(segment);
        }
        if self.record > wanted {
            return Seek::Lapped { oldest: self.oldest() };
        }
        while self.record < wanted {
            match self.next_word() {
                Word::Header(SKIP) => self.skip_segment(),
                Word::Header(length) => {
                    self.at += 1 + length.div_ceil(8);
                    self.record += 1;
                }
                Word::None => return Seek::Ahead { next: self.record },
                Word::Lapped => return Seek::Lapped { oldest: self.oldest() },
            }
        }
        Seek::Done
    }

    /// The newest segment that begins at or before `wanted`; the oldest when all begin after it.
    fn segment_of(&mut self, wanted: u64) -> Option<u64> {
        let oldest = self.oldest_segment();
        let newest = self.refresh().checked_sub(1)? / self.shared.segment_words;
        let first = |segment| {
            // SYNC: set before the segment's words are published; checked by `seek_segment`.
            self.shared.first_record(segment).load(Ordering::Relaxed)
        };
        (oldest..=newest).rev().find(|segment| first(*segment) <= wanted).or(Some(oldest))
    }

    /// Moves to the beginning of a segment, if it is still there.
    fn seek_segment(&mut self, segment: u64) -> Seek {
        let at = segment * self.shared.segment_words;
        // SYNC: set before the segment's words are published; checked right below.
        let record = self.shared.first_record(segment).load(Ordering::Relaxed);
        if !self.shared.still_there(at) {
            return Seek::Lapped { oldest: record };
        }
        self.at = at;
        self.record = record;
        Seek::Done
    }

    fn oldest_segment(&self) -> u64 {
        // SYNC: pairs with the store in `enter_segment`; `still_there` decides afterwards.
        self.shared.oldest_word.load(Ordering::Acquire) / self.shared.segment_words
    }

    /// The oldest record's number when the reader's place was overwritten; none, and the reader
    /// moved, when what was overwritten was only padding before its next record.
    fn lapped(&mut self) -> Option<u64> {
        loop {
            let oldest = self.oldest();
            if oldest != self.record {
                return Some(oldest);
            }
            let mut moved = self.clone();
            let found = moved.seek_segment(moved.oldest_segment());
            if found == Seek::Done && moved.record == self.record {
                *self = moved;
                return None;
            }
            spin_loop();
        }
    }

    /// The number of the oldest record that is there.
    fn oldest(&self) -> u64 {
        loop {
            let segment = self.oldest_segment();
            // SYNC: as in `seek_segment`.
            let record = self.shared.first_record(segment).load(Ordering::Relaxed);
            if self.shared.still_there(segment * self.shared.segment_words) {
                return record;
            }
            spin_loop();
        }
    }

    /// Looks anew where the published words end.
    fn refresh(&mut self) -> u64 {
        // SYNC: pairs with the store in `publish`.
        self.end = self.shared.published_word.load(Ordering::Acquire);
        self.end
    }

    /// The header at the reader's place.
    fn next_word(&mut self) -> Word {
        if self.at >= self.end && self.at >= self.refresh() {
            return Word::None;
        }
        // SYNC: pairs with the store in `publish`, through `refresh`; checked right below.
        let header = self.shared.word(self.at).load(Ordering::Relaxed);
        if self.shared.still_there(self.at) { Word::Header(header) } else { Word::Lapped }
    }

    fn skip_segment(&mut self) {
        let segment_words = self.shared.segment_words;
        self.at = (self.at / segment_words + 1) * segment_words;
    }
}

/// What stands at a reader's place.
enum Word {
    Header(u64),
    None,
    Lapped,
}
