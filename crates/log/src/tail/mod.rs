//! The newest events in memory, for one writer and any number of readers, without waiting.
//!
//! Records of any length are numbered densely and kept in a ring of segments of 64-bit words. The
//! writer overwrites the oldest segment when it needs room. A reader still in that segment learns
//! that it is lapped, and the oldest record from which it can continue. A reader copies words out
//! and then checks that they were not overwritten meanwhile, so it never returns a mixture; the
//! writer ignores readers. All shared words are atomic; there is no unsafe code.
//!
//! The tail also knows the epochs of its log ([`EpochCursor`]). When an epoch ends and takes
//! records back, another ring with the surviving ones takes the place of the first, so that within
//! a ring each number has one record. A lock guards the epochs: the writer takes it when an epoch
//! ends, a reader when it is created and once after each end.
//!
//! Invariants: `published_word` only grows; words below it and not below `oldest_word` hold whole
//! records; no record spans two segments.

#[cfg(loom)]
use loom::hint::spin_loop;
#[cfg(loom)]
use loom::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering, fence},
};
#[cfg(not(loom))]
use std::hint::spin_loop;
#[cfg(not(loom))]
use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering, fence},
};

use weir_types::{Epoch, Epochs, Position};

mod epoch_reader;
mod epochs;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

pub use epoch_reader::{EpochReader, ReadEvent, RecordRead, Records};
pub use epochs::{EpochChange, EpochCursor, WantCall};
use epochs::{EpochEnding, TailEpochs};

/// A record header's value that marks the rest of the segment as unused.
const SKIP: u64 = u64::MAX;
/// The words of a block, 4 KiB. A reader that looks for a record walks over the headers of one
/// block instead of those of its whole segment. Tests have small segments, and blocks to match.
const BLOCK_WORDS: u64 = if cfg!(test) { 4 } else { 512 };

/// The size of a tail.
#[derive(Clone, Copy, Debug)]
pub struct TailConfig {
    /// The size of a segment in 64-bit words; a record must fit in one.
    pub segment_words: usize,
    /// The number of segments, at least two.
    pub segments: usize,
    /// The number of the first record.
    pub first_record: u64,
}

impl TailConfig {
    /// Returns a configuration with segments of 4 MiB, enough of them to retain `retained_bytes` at
    /// all times, counted with one header word per record.
    #[must_use]
    pub fn new(retained_bytes: usize, first_record: u64) -> TailConfig {
        let segment_words = (4 << 20) / 8;
        let segments = retained_bytes.div_ceil(segment_words * 8) + 1;
        TailConfig { segment_words, segments: segments.max(2), first_record }
    }
}

/// The state shared by the writer and the readers.
#[derive(Debug)]
struct Shared {
    words: Box<[AtomicU64]>,
    /// The number of the first record of each segment in the ring.
    first_records: Box<[AtomicU64]>,
    /// The first record that begins in each block of the ring, and its word within the block, as
    /// one word ([`Mark`]); not of a segment's first block. A block in which none begins keeps the
    /// mark of an earlier use.
    marks: Box<[AtomicU64]>,
    segment_words: u64,
    segment_blocks: u64,
    /// All words before this one are visible. Words are counted from the tail's creation.
    published_word: AtomicU64,
    /// The number after the last published record, set before and after `published_word`: while the
    /// two are equal, they match the word between them.
    begun_record: AtomicU64,
    published_record: AtomicU64,
    /// All words before this one may be overwritten.
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

    /// Returns the mark of a segment's block.
    fn mark(&self, segment: u64, block: u64) -> &AtomicU64 {
        let segment = segment % self.first_records.len() as u64;
        &self.marks[usize::try_from(segment * self.segment_blocks + block).expect("an index")]
    }

    /// Returns true when no word read since, from `at` on, was overwritten.
    fn still_there(&self, at: u64) -> bool {
        // SYNC: pairs with the fence in `enter_segment`: if a word read before was written after
        // that fence, the load below sees the oldest word set before it.
        fence(Ordering::Acquire);
        self.oldest_word.load(Ordering::Relaxed) <= at
    }
}

/// The first record that begins in a block, and its word there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    record: u64,
    word: u64,
}

impl Mark {
    fn pack(self) -> u64 {
        self.record * BLOCK_WORDS + self.word
    }

    fn unpack(packed: u64) -> Mark {
        Mark { record: packed / BLOCK_WORDS, word: packed % BLOCK_WORDS }
    }
}

/// Creates the tail of a log in its first epoch: its writer, and the handle that creates readers.
///
/// # Panics
/// Panics when the sizes are inconsistent.
#[must_use]
pub fn tail(config: TailConfig) -> (TailWriter, TailHandle) {
    tail_in(config, Epochs::new(Epoch(1)))
}

/// Creates the tail of a log with these epochs. The ended ones survive in records before the tail's
/// first.
///
/// # Panics
/// As [`tail`].
#[must_use]
pub fn tail_in(config: TailConfig, epochs: Epochs<Position>) -> (TailWriter, TailHandle) {
    let shared = ring(config);
    let epochs = TailEpochs::new(epochs, config.first_record, Arc::clone(&shared));
    let epochs = Arc::new(epochs);
    let next = config.first_record;
    let writer = TailWriter { shared, epochs: Arc::clone(&epochs), at: 0, next, block: 0 };
    (writer, TailHandle { epochs })
}

fn ring(config: TailConfig) -> Arc<Shared> {
    assert!(config.segments >= 2, "one segment fills while another is read");
    assert!(config.segment_words >= 2, "a segment holds a record");
    let segment_blocks = config.segment_words.div_ceil(BLOCK_WORDS as usize);
    let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect::<Box<[_]>>();
    let shared = Arc::new(Shared {
        words: zeros(config.segment_words * config.segments),
        first_records: zeros(config.segments),
        marks: zeros(segment_blocks * config.segments),
        segment_words: config.segment_words as u64,
        segment_blocks: segment_blocks as u64,
        published_word: AtomicU64::new(0),
        begun_record: AtomicU64::new(config.first_record),
        published_record: AtomicU64::new(config.first_record),
        oldest_word: AtomicU64::new(0),
    });
    // SYNC: the handle is created after this; the hand-over to a reader orders the two.
    shared.first_record(0).store(config.first_record, Ordering::Relaxed);
    shared
}

/// The only writer of a tail.
#[derive(Debug)]
pub struct TailWriter {
    shared: Arc<Shared>,
    epochs: Arc<TailEpochs>,
    /// The word at which the next record begins.
    at: u64,
    next: u64,
    /// The block of the newest record within its segment.
    block: u64,
}

impl TailWriter {
    /// Appends a record, not yet visible; returns its number.
    ///
    /// # Panics
    /// Panics when the record is longer than a segment.
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
        self.mark_block();
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

    /// Makes all appended records visible.
    pub fn publish(&mut self) {
        self.shared.begun_record.store(self.next, Ordering::Relaxed);
        // SYNC: pairs with the fence in `reader_of`: a thread that sees the new end sees
        // that a publication has begun.
        fence(Ordering::Release);
        // SYNC: pairs with the load in `TailReader::refresh`: a thread that sees the new end sees
        // the words before it.
        self.shared.published_word.store(self.at, Ordering::Release);
        // SYNC: pairs with the loads in `reader_of` and `seek`: a thread that sees the
        // number sees the end that belongs to it, or a later one.
        self.shared.published_record.store(self.next, Ordering::Release);
    }

    /// Ends the log's epoch, which survives up to `last_valid`, and begins `next` with record
    /// `first_again`. Records from there on are void; the writer appends the next epoch's instead.
    ///
    /// # Panics
    /// Panics when there is no such record, or `next` is not after the current epoch.
    pub fn end_epoch(&mut self, last_valid: Position, next: Epoch, first_again: u64) {
        assert!(first_again <= self.next, "a record that does not exist cannot be assigned again");
        self.publish();
        if first_again < self.next {
            self.take_back(first_again);
        }
        self.epochs.end(EpochEnding { last_valid, next, first_again }, &self.shared);
    }

    /// Continues in another ring that has the retained records before `first_again` alone.
    fn take_back(&mut self, first_again: u64) {
        let segments = self.shared.first_records.len();
        let segment_words = self.shared.words.len() / segments;
        let mut reader = reader_of(Arc::clone(&self.shared)).at_oldest();
        let first_record = reader.next_record().min(first_again);
        let config = TailConfig { segment_words, segments, first_record };
        (self.shared, self.at, self.next, self.block) = (ring(config), 0, first_record, 0);
        let mut record = Vec::new();
        while reader.next_record() < first_again {
            let read = reader.next(&mut record);
            assert!(matches!(read, TailRead::Record(_)), "only this thread writes: {read:?}");
            self.append(&record);
        }
        self.publish();
    }

    /// Returns the number of the next record.
    #[must_use]
    pub fn next_record(&self) -> u64 {
        self.next
    }

    /// Returns the size of the ring in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.shared.words.len() * 8
    }

    /// Begins the segment at `self.at`, dropping the one whose place it takes.
    fn enter_segment(&mut self) {
        let shared = &self.shared;
        let segments = shared.first_records.len() as u64;
        let segment = self.at / shared.segment_words;
        if segment >= segments {
            let oldest = (segment + 1 - segments) * shared.segment_words;
            // SYNC: pairs with the load in `oldest_segment`: a thread that sees it knows the first
            // record of the segment that is now the oldest.
            shared.oldest_word.store(oldest, Ordering::Release);
        }
        // SYNC: pairs with the fence in `still_there`: no word of the new segment is seen before
        // the old one is declared dropped.
        fence(Ordering::Release);
        shared.first_record(segment).store(self.next, Ordering::Relaxed);
    }

    /// Marks the block in which the next record begins, if it is the first one there.
    fn mark_block(&mut self) {
        let (segment, word) =
            (self.at / self.shared.segment_words, self.at % self.shared.segment_words);
        let block = word / BLOCK_WORDS;
        if block == self.block {
            return;
        }
        self.block = block;
        if block > 0 {
            let mark = Mark { record: self.next, word: word % BLOCK_WORDS };
            // SYNC: made visible by `publish`, as the words are.
            self.shared.mark(segment, block).store(mark.pack(), Ordering::Relaxed);
        }
    }

    fn store(&self, at: u64, word: u64) {
        // SYNC: made visible by `publish`; `still_there` catches a reader that sees it earlier.
        self.shared.word(at).store(word, Ordering::Relaxed);
    }
}

/// The handle that creates readers. Clones refer to the same tail.
#[derive(Clone, Debug)]
pub struct TailHandle {
    epochs: Arc<TailEpochs>,
}

impl TailHandle {
    /// Creates a reader at the next record to be published.
    #[must_use]
    pub fn reader(&self) -> TailReader {
        reader_of(self.epochs.ring())
    }

    /// Creates a reader at the oldest retained record.
    #[must_use]
    pub fn reader_from_oldest(&self) -> TailReader {
        self.reader().at_oldest()
    }

    /// Creates a reader, as [`TailHandle::reader`], with the cursor that tells it the ends of
    /// epochs. The cursor is created first: an end that takes records back meanwhile is not in the
    /// cursor yet, and its [`EpochCursor::refresh`] tells the user to create the reader anew. A
    /// cursor that knew the end already would leave the reader in the old ring for ever.
    #[must_use]
    pub fn reader_with_epochs(&self) -> (TailReader, EpochCursor) {
        let epochs = self.epoch_cursor();
        (self.reader(), epochs)
    }

    /// Returns the number after the newest published record.
    #[must_use]
    pub fn next_record(&self) -> u64 {
        // SYNC: a number alone; it orders nothing.
        self.epochs.ring().published_record.load(Ordering::Relaxed)
    }

    /// Says that a reader waits for a record that only the files can give it.
    pub fn want_in_files(&self, record: u64) {
        self.epochs.want_in_files(record);
    }

    /// Has this called, by the reader's thread, whenever a reader waits for a newer record than any
    /// before. The writer of the files sets it, for it may not run often enough to look.
    ///
    /// # Panics
    /// When it was set before: files have one writer.
    pub fn on_want_in_files(&self, call: WantCall) {
        self.epochs.on_want(call);
    }

    /// Returns the newest record that a reader has waited for in the files; zero for none.
    #[must_use]
    pub fn wanted_in_files(&self) -> u64 {
        self.epochs.wanted_in_files()
    }

    /// Returns the epochs of the log.
    #[must_use]
    pub fn epochs(&self) -> Epochs<Position> {
        self.epochs.epochs()
    }

    /// Returns a cursor before the first end of an epoch.
    #[must_use]
    pub fn epoch_cursor(&self) -> EpochCursor {
        EpochCursor::of_tail(&self.epochs)
    }

    /// Returns the number of epochs that the writer has ended. A reader that was created before the
    /// last one may return void records.
    #[inline]
    #[must_use]
    pub fn epoch_changes(&self) -> u64 {
        self.epochs.changes()
    }
}

/// Creates a reader at the next record to be published in a ring.
fn reader_of(shared: Arc<Shared>) -> TailReader {
    loop {
        // SYNC: both pair with the stores in `publish`.
        let record = shared.published_record.load(Ordering::Acquire);
        let at = shared.published_word.load(Ordering::Acquire);
        // SYNC: pairs with the fence in `publish`: if the end came from a later publication, the
        // start of that publication would be seen here.
        fence(Ordering::Acquire);
        if shared.begun_record.load(Ordering::Relaxed) == record {
            return TailReader { shared, at, record, end: at };
        }
        spin_loop();
    }
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum TailRead {
    /// The next record with its number; its bytes are in the buffer.
    Record(u64),
    /// No new record.
    Empty,
    /// The next record was overwritten; seek to continue.
    Lapped {
        /// The number of the oldest retained record.
        oldest: u64,
    },
}

/// The result of a seek.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Seek {
    /// The reader stands at the record.
    Done,
    /// The record was overwritten. The reader has not moved.
    Lapped {
        /// The number of the oldest retained record.
        oldest: u64,
    },
    /// The record does not exist yet. The reader has not moved.
    Ahead {
        /// The number of the record to be published next.
        next: u64,
    },
}

/// A reader of a tail, with its place.
#[derive(Clone, Debug)]
pub struct TailReader {
    shared: Arc<Shared>,
    at: u64,
    record: u64,
    /// The published end, as last seen.
    end: u64,
}

impl TailReader {
    /// Returns the reader at the oldest retained record.
    fn at_oldest(mut self) -> TailReader {
        while let Seek::Lapped { .. } = self.seek_segment(self.oldest_segment()) {
            spin_loop();
        }
        self
    }

    /// Copies the next record into `buf`, which is cleared first.
    pub fn next(&mut self, buf: &mut Vec<u8>) -> TailRead {
        loop {
            let header = match self.next_header() {
                HeaderRead::Header(header) => header,
                HeaderRead::None => return TailRead::Empty,
                HeaderRead::Lapped => match self.lapped() {
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
                // SYNC: pairs with `publish` through `next_header`; checked right below.
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
        loop {
            let mut moved = self.clone();
            match moved.seek_at_oldest(wanted) {
                Seek::Done => {
                    *self = moved;
                    return Seek::Done;
                }
                // Its segment was found too late, and the walk began at an overwritten place, while
                // the record is retained: the writer went round meanwhile.
                Seek::Lapped { oldest } if oldest <= wanted => spin_loop(),
                other => return other,
            }
        }
    }

    /// Returns the number of the next record to read.
    #[must_use]
    pub fn next_record(&self) -> u64 {
        self.record
    }

    /// Returns the number of published records that this reader has not read.
    #[must_use]
    pub fn lag(&self) -> u64 {
        // SYNC: a number alone; it orders nothing.
        self.shared.published_record.load(Ordering::Relaxed).saturating_sub(self.record)
    }

    fn seek_at_oldest(&mut self, wanted: u64) -> Seek {
        // SYNC: pairs with the store in `publish`: the words up to that number are visible.
        let next = self.shared.published_record.load(Ordering::Acquire);
        if wanted > next {
            return Seek::Ahead { next };
        }
        if let Some(segment) = self.segment_of(wanted)
            && self.seek_segment(segment) == Seek::Done
        {
            self.seek_block(segment, wanted);
        }
        if self.record > wanted {
            return Seek::Lapped { oldest: self.oldest() };
        }
        while self.record < wanted {
            match self.next_header() {
                HeaderRead::Header(SKIP) => self.skip_segment(),
                HeaderRead::Header(length) => {
                    self.at += 1 + length.div_ceil(8);
                    self.record += 1;
                }
                HeaderRead::None => return Seek::Ahead { next: self.record },
                HeaderRead::Lapped => return Seek::Lapped { oldest: self.oldest() },
            }
        }
        Seek::Done
    }

    /// Returns the newest segment that begins at or before `wanted`; the oldest when all begin
    /// after it.
    fn segment_of(&mut self, wanted: u64) -> Option<u64> {
        let oldest = self.oldest_segment();
        let newest = self.refresh().checked_sub(1)? / self.shared.segment_words;
        let first = |segment| {
            // SYNC: set before the segment's words are published; checked by `seek_segment`.
            self.shared.first_record(segment).load(Ordering::Relaxed)
        };
        (oldest..=newest).rev().find(|segment| first(*segment) <= wanted).or(Some(oldest))
    }

    /// Moves to the start of a segment, if it is still retained.
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

    /// Moves from a segment's start to the last of its blocks whose first record is not behind
    /// `wanted`. Marks of an earlier use of the ring have smaller numbers than the segment's first.
    fn seek_block(&mut self, segment: u64, wanted: u64) {
        let known = self.record + 1..=wanted;
        for block in (1..self.shared.segment_blocks).rev() {
            // SYNC: set before the block's words are published; checked right below.
            let mark = Mark::unpack(self.shared.mark(segment, block).load(Ordering::Relaxed));
            if !known.contains(&mark.record) {
                continue;
            }
            let at = segment * self.shared.segment_words + block * BLOCK_WORDS + mark.word;
            if self.shared.still_there(at) {
                (self.at, self.record) = (at, mark.record);
            }
            return;
        }
    }

    fn oldest_segment(&self) -> u64 {
        // SYNC: pairs with the store in `enter_segment`; `still_there` decides afterwards.
        self.shared.oldest_word.load(Ordering::Acquire) / self.shared.segment_words
    }

    /// Returns the oldest record's number when the next record was overwritten. When only padding
    /// before the next record was overwritten, moves the reader past it and returns `None`.
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

    /// Returns the number of the oldest retained record.
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

    /// Reloads the published end.
    fn refresh(&mut self) -> u64 {
        // SYNC: pairs with the store in `publish`.
        self.end = self.shared.published_word.load(Ordering::Acquire);
        self.end
    }

    /// Returns the header at the reader's place.
    fn next_header(&mut self) -> HeaderRead {
        if self.at >= self.end && self.at >= self.refresh() {
            return HeaderRead::None;
        }
        // SYNC: pairs with the store in `publish`, through `refresh`; checked right below.
        let header = self.shared.word(self.at).load(Ordering::Relaxed);
        if self.shared.still_there(self.at) {
            HeaderRead::Header(header)
        } else {
            HeaderRead::Lapped
        }
    }

    fn skip_segment(&mut self) {
        let segment_words = self.shared.segment_words;
        self.at = (self.at / segment_words + 1) * segment_words;
    }
}

/// The word at a reader's place.
enum HeaderRead {
    Header(u64),
    None,
    Lapped,
}
