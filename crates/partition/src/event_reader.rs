//! A view's cursor in a partition's events: in the in-memory tail, or behind it in the files.
//!
//! The tail's writer never waits, so the tail may overwrite records that a reader has not read. The
//! reader then reads the event log's files until it reaches the tail again. Its user sees one dense
//! sequence of records, and in it the ends of epochs: those of the log's history while it reads the
//! history, later ones as they come.
//!
//! The order of its looks at epochs and records is that of [`EpochReader`], whose interleavings
//! with the tail's writer loom explores.

use std::path::PathBuf;
use std::sync::Arc;

use weir_io::{Disk, DiskError, ThreadDisk};
pub use weir_log::tail::ReadEvent;
use weir_log::tail::{EpochChange, EpochReader, Records, Seek, TailHandle, TailRead, TailReader};
use weir_log::{Entry, LogError, LogReader, SegmentKind};
use weir_types::{Epoch, Epochs, Position};
use weir_wire::frame::parse_message;

/// The number of records of the files up to which a reader steps over them instead of seeking.
const STEPS_MAX: u64 = 50_000;
/// The same limit for the tail: a step copies the record, a seek reads only its header.
const TAIL_STEPS_MAX: u64 = 256;

/// A reader of one partition's events.
pub struct EventReader {
    reader: EpochReader<EventRecords>,
    /// A second cursor, for old records.
    past: PastEvents,
}

/// The events of a partition, from the tail or from the files.
struct EventRecords {
    handle: TailHandle,
    tail: TailReader,
    files: FileEvents,
    in_tail: bool,
}

/// A cursor over records that already exist: in the tail, or in the files before it.
pub struct PastEvents {
    handle: TailHandle,
    tail: TailReader,
    files: FileEvents,
    /// The number of ended epochs after which `tail` and `files` were opened.
    epoch_changes: u64,
}

impl EventReader {
    /// Returns a reader whose first record is `first`; the files are in `dir`.
    #[must_use]
    pub fn new(tail: &TailHandle, dir: PathBuf, first: u64) -> EventReader {
        EventReader::on_disk(tail, move || ThreadDisk::open(&dir, None), first)
    }

    /// Returns a reader whose first record is `first`; `open` opens the disk of the files.
    #[must_use]
    pub fn on_disk<D: Disk + Send + 'static>(
        tail: &TailHandle,
        open: impl Fn() -> Result<D, DiskError> + Send + Sync + 'static,
        first: u64,
    ) -> EventReader {
        let open: OpenFiles = Arc::new(move |from: Position| {
            let reader = LogReader::open(open().ok()?, SegmentKind::Event, from).ok()?;
            let reader: Box<dyn Entries> = Box::new(reader);
            Some(reader)
        });
        let (reader, epochs) = tail.reader_with_epochs();
        let records = EventRecords {
            handle: tail.clone(),
            tail: reader,
            files: FileEvents::new(open.clone()),
            in_tail: false,
        };
        let past = PastEvents::new(tail.clone(), open);
        EventReader { reader: EpochReader::new(records, epochs, first), past }
    }

    /// Returns an independent cursor for old records.
    #[must_use]
    pub fn past(&self) -> PastEvents {
        PastEvents::new(self.past.handle.clone(), self.past.files.open.clone())
    }

    /// Returns the number of the next record.
    #[must_use]
    pub fn next_record(&self) -> u64 {
        self.reader.next_record()
    }

    /// Returns the epoch of the records before the next end of an epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.reader.epoch()
    }

    /// Returns the epochs of the log, including those that are not told yet.
    #[must_use]
    pub fn epochs(&self) -> &Epochs<Position> {
        self.reader.epochs()
    }

    /// Returns true when the ends of all epochs before the current one were told.
    #[must_use]
    pub fn has_told_ends(&self) -> bool {
        self.reader.has_told_ends()
    }

    /// Continues with record `next` in `epoch`; the caller already has the records before it, and
    /// knows the ends of the epochs before.
    pub fn skip_to(&mut self, next: u64, epoch: Epoch) {
        self.reader.skip_to(next, epoch);
    }

    /// Copies the next record into `into`, which is cleared first, or tells that an epoch ended
    /// before it.
    pub fn next(&mut self, into: &mut Vec<u8>) -> ReadEvent {
        self.reader.next(into)
    }

    /// Copies the next record into `into` and returns its number, for a view that has nothing to do
    /// with epochs. `None` when there is no new record.
    ///
    /// # Panics
    /// When records that were returned became void: the process must recover from its log.
    pub fn next_of_any_epoch(&mut self, into: &mut Vec<u8>) -> Option<u64> {
        loop {
            match self.next(into) {
                ReadEvent::Record(number) => return Some(number),
                ReadEvent::EpochEnded(change) => assert_kept(&change),
                ReadEvent::UpToDate => return None,
            }
        }
    }

    /// Copies record `wanted` into `into`; `None` when it is not retained.
    pub fn read_at<'a>(&mut self, wanted: u64, into: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        self.past.read_at(wanted, into)
    }
}

impl Records for EventRecords {
    fn read(&mut self, number: u64, into: &mut Vec<u8>) -> bool {
        let is_in_place = self.in_tail && self.tail.next_record() == number;
        if !is_in_place && !self.enter_tail(number) {
            return self.files.read_at(number, into).is_some();
        }
        match self.tail.next(into) {
            TailRead::Record(record) => {
                assert_eq!(record, number, "the tail's records are dense");
                true
            }
            TailRead::Empty => false,
            TailRead::Lapped { .. } => {
                self.in_tail = false;
                self.files.read_at(number, into).is_some()
            }
        }
    }

    /// Returns the position of the command that caused an event: every event begins with it.
    fn position_of(record: &[u8]) -> Position {
        let raw = parse_message(record).expect("the event log holds our own messages");
        let (position, _) = raw.block().split_first_chunk().expect("no event is shorter");
        Position(u64::from_le_bytes(*position))
    }

    fn reopen(&mut self) {
        self.tail = self.handle.reader();
        self.files.reader = None;
        self.in_tail = false;
    }
}

impl EventRecords {
    /// Enters the tail if the record is there.
    fn enter_tail(&mut self, number: u64) -> bool {
        self.in_tail = self.tail.seek(number) == Seek::Done;
        self.in_tail
    }
}

/// Checks that an epoch ended without records that this process's view has already used. A view
/// that cannot take them back calls it: the process stops, and recovery starts from the log.
///
/// # Panics
/// When such records are void.
pub fn assert_kept(change: &EpochChange) {
    assert_eq!(change.taken_back, 0, "the log took back records that a view has used: {change:?}");
}

impl PastEvents {
    fn new(handle: TailHandle, open: OpenFiles) -> PastEvents {
        let epoch_changes = handle.epoch_changes();
        PastEvents { tail: handle.reader(), files: FileEvents::new(open), handle, epoch_changes }
    }

    /// Returns true when record `wanted` is in memory.
    #[must_use]
    pub fn has_in_memory(&self, wanted: u64) -> bool {
        self.handle.reader().seek(wanted) == Seek::Done
    }

    /// Copies record `wanted` into `into`; `None` when it is not retained.
    pub fn read_at<'a>(&mut self, wanted: u64, into: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let epoch_changes = self.handle.epoch_changes();
        if epoch_changes != self.epoch_changes {
            (self.tail, self.files.reader) = (self.handle.reader(), None);
            self.epoch_changes = epoch_changes;
        }
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

/// The entries of the event log's files, on any disk.
trait Entries: Send {
    fn next_position(&self) -> Position;
    fn next_entry(&mut self) -> Result<Option<Entry<'_>>, LogError>;
}

impl<D: Disk + Send> Entries for LogReader<D> {
    fn next_position(&self) -> Position {
        LogReader::next_position(self)
    }

    fn next_entry(&mut self) -> Result<Option<Entry<'_>>, LogError> {
        LogReader::next_entry(self)
    }
}

/// Opens the event log's files at a record.
type OpenFiles = Arc<dyn Fn(Position) -> Option<Box<dyn Entries>> + Send + Sync>;

/// A cursor in the event log's files.
struct FileEvents {
    open: OpenFiles,
    reader: Option<Box<dyn Entries>>,
}

impl FileEvents {
    fn new(open: OpenFiles) -> FileEvents {
        FileEvents { open, reader: None }
    }

    /// Copies record `wanted` into `into`; `None` when the files do not have it.
    fn read_at<'a>(&mut self, wanted: u64, into: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let at = self.reader.as_ref().map(|reader| reader.next_position().0);
        let near = at.is_some_and(|at| at <= wanted && wanted - at <= STEPS_MAX);
        if !near {
            self.reader = (self.open)(Position(wanted));
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

#[cfg(test)]
mod tests;
