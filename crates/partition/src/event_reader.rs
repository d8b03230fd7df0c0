//! A view's cursor in a partition's events: in the in-memory tail, or behind it in the files.
//!
//! The tail's writer never waits, so the tail may overwrite records that a reader has not read. The
//! reader then reads the event log's files until it reaches the tail again. Its user sees one dense
//! sequence of records.

use std::path::PathBuf;

use weir_io::ThreadDisk;
use weir_log::tail::{Seek, TailHandle, TailRead, TailReader};
use weir_log::{LogReader, SegmentKind};
use weir_types::Position;

/// The number of records of the files up to which a reader steps over them instead of seeking.
const STEPS_MAX: u64 = 50_000;
/// The same limit for the tail: a step copies the record, a seek reads only its header.
const TAIL_STEPS_MAX: u64 = 256;

/// The result of reading an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum ReadEvent {
    /// The next record, with its number; its bytes are in the buffer.
    Record(u64),
    /// No new record.
    UpToDate,
}

/// A reader of one partition's events.
pub struct EventReader {
    tail: TailReader,
    files: FileEvents,
    /// A second cursor, for old records.
    past: PastEvents,
    next: u64,
    in_tail: bool,
}

/// A cursor over records that already exist: in the tail, or in the files before it.
pub struct PastEvents {
    tail: TailReader,
    files: FileEvents,
}

impl EventReader {
    /// Returns a reader whose first record is `first`.
    #[must_use]
    pub fn new(tail: &TailHandle, dir: PathBuf, first: u64) -> EventReader {
        EventReader {
            tail: tail.reader(),
            files: FileEvents::new(dir.clone()),
            past: PastEvents { tail: tail.reader(), files: FileEvents::new(dir) },
            next: first,
            in_tail: false,
        }
    }

    /// Returns an independent cursor for old records.
    #[must_use]
    pub fn past(&self) -> PastEvents {
        let files = FileEvents::new(self.files.dir.clone());
        PastEvents { tail: self.tail.clone(), files }
    }

    /// Returns the number of the next record.
    #[must_use]
    pub fn next_record(&self) -> u64 {
        self.next
    }

    /// Continues with record `next`; the caller already has the records before it.
    pub fn skip_to(&mut self, next: u64) {
        (self.next, self.in_tail) = (next, false);
    }

    /// Copies the next record into `into`, which is cleared first.
    pub fn next(&mut self, into: &mut Vec<u8>) -> ReadEvent {
        if !self.in_tail && !self.enter_tail() {
            return self.next_from_files(into);
        }
        match self.tail.next(into) {
            TailRead::Record(record) => {
                assert_eq!(record, self.next, "the tail's records are dense");
                self.next += 1;
                ReadEvent::Record(record)
            }
            TailRead::Empty => ReadEvent::UpToDate,
            TailRead::Lapped { .. } => {
                self.in_tail = false;
                self.next_from_files(into)
            }
        }
    }

    /// Copies record `wanted` into `into`; `None` when it is not retained.
    pub fn read_at<'a>(&mut self, wanted: u64, into: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        self.past.read_at(wanted, into)
    }

    /// Enters the tail if the next record is there.
    fn enter_tail(&mut self) -> bool {
        self.in_tail = self.tail.seek(self.next) == Seek::Done;
        self.in_tail
    }

    fn next_from_files(&mut self, into: &mut Vec<u8>) -> ReadEvent {
        match self.files.read_at(self.next, into) {
            Some(_) => {
                self.next += 1;
                ReadEvent::Record(self.next - 1)
            }
            None => ReadEvent::UpToDate,
        }
    }
}

impl PastEvents {
    /// Returns true when record `wanted` is in memory.
    #[must_use]
    pub fn has_in_memory(&self, wanted: u64) -> bool {
        self.tail.clone().seek(wanted) == Seek::Done
    }

    /// Copies record `wanted` into `into`; `None` when it is not retained.
    pub fn read_at<'a>(&mut self, wanted: u64, into: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let distance = wanted.checked_sub(self.tail.next_record());
        if distance.is_none_or(|distance| distance > TAIL_STEPS_MAX)
            && self.tail.seek(wanted) != Seek::Done
        {
            return self.files.read_at(wanted, into);
        }
        loop {
            match self.tail.next(into) {
                TailRead::Record(record) if record == wanted => return Some(into),
                TailRead::Record(_) => {}
                TailRead::Empty => return None,
                TailRead::Lapped { .. } => return self.files.read_at(wanted, into),
            }
        }
    }
}

/// A cursor in the event log's files.
struct FileEvents {
    dir: PathBuf,
    reader: Option<LogReader<ThreadDisk>>,
}

impl FileEvents {
    fn new(dir: PathBuf) -> FileEvents {
        FileEvents { dir, reader: None }
    }

    /// Copies record `wanted` into `into`; `None` when the files do not have it.
    fn read_at<'a>(&mut self, wanted: u64, into: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let at = self.reader.as_ref().map(|reader| reader.next_position().0);
        let near = at.is_some_and(|at| at <= wanted && wanted - at <= STEPS_MAX);
        if !near {
            let disk = ThreadDisk::open(&self.dir, None).ok()?;
            self.reader = LogReader::open(disk, SegmentKind::Event, Position(wanted)).ok();
        }
        let reader = self.reader.as_mut()?;
        loop {
            match reader.next_entry() {
                Ok(Some(entry)) if entry.position.0 == wanted => {
                    into.clear();
                    into.extend_from_slice(entry.bytes);
                    return Some(into);
                }
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(error) => {
                    tracing::error!(%error, "the event log cannot be read");
                    self.reader = None;
                    return None;
                }
            }
        }
    }
}
