//! A view's cursor in a partition's events: in the in-memory tail, or behind it in the files.
//!
//! The tail's writer never waits, so the tail may overwrite records that a reader has not read. The
//! reader then reads the event log's files until it reaches the tail again. Its user sees one dense
//! sequence of records, and in it the ends of epochs: those of the log's history while it reads the
//! history, later ones as they come.
//!
//! A record that was overwritten and that the files do not have yet is *missing*, which is not the
//! end of the records: the shadow is told that a reader waits for it
//! ([`TailHandle::want_in_files`]). A reader whose thread must not wait for a disk has no files:
//! its user gets such records from the history's thread.
//!
//! The order of its looks at epochs and records is that of [`EpochReader`], whose interleavings
//! with the tail's writer loom explores.

use std::path::PathBuf;

use weir_io::{Disk, DiskError};
pub use weir_log::tail::ReadEvent;
use weir_log::tail::{
    EpochChange, EpochReader, RecordRead, Records, Seek, TailHandle, TailRead, TailReader,
};
use weir_types::{Epoch, Epochs, Position};
use weir_wire::frame::parse_message;

use crate::event_files::{EventFiles, FileRead, OpenFiles};
use crate::holds::{Hold, Holds};
use crate::past_records::PastRecords;

/// The number of records up to which a cursor in the tail steps over them instead of seeking: a
/// step copies the record, a seek walks over the headers of a block.
const TAIL_STEPS_MAX: u64 = 8;

/// The place of a record that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum PastRead {
    /// In the user's buffer.
    Found,
    /// No longer in memory, and not in the files yet, or not read from them.
    Missing,
    /// Deleted.
    Deleted,
}

/// A reader of one partition's events.
pub struct EventReader {
    reader: EpochReader<EventRecords>,
    /// A second cursor, for old records.
    past: PastEvents,
    holds: Holds,
    /// Keeps the records from the next one on.
    place: Hold,
}

/// The events of a partition, from the tail or from the files.
struct EventRecords {
    handle: TailHandle,
    tail: TailReader,
    files: BehindTail,
    in_tail: bool,
}

/// The source of records that the tail no longer has.
enum BehindTail {
    Files(EventFiles),
    /// The records that the history's thread has read.
    History(PastRecords),
}

/// A cursor over records that already exist: in the tail, or in the files before it.
pub struct PastEvents {
    handle: TailHandle,
    tail: TailReader,
    files: EventFiles,
    /// The number of ended epochs after which `tail` and `files` were opened.
    epoch_changes: u64,
}

impl EventReader {
    /// Returns a reader whose first record is `first`; the files are in `dir`.
    #[must_use]
    pub fn new(tail: &TailHandle, dir: PathBuf, first: u64) -> EventReader {
        EventReader::on_disk(tail, move || weir_io::ThreadDisk::open(&dir, None), first)
    }

    /// Returns a reader whose first record is `first`; `open` opens the disk of the files.
    #[must_use]
    pub fn on_disk<D: Disk + Send + 'static>(
        tail: &TailHandle,
        open: impl Fn() -> Result<D, DiskError> + Send + Sync + 'static,
        first: u64,
    ) -> EventReader {
        EventReader::with_files(tail, OpenFiles::on_disk(open), first)
    }

    /// Returns a reader, whose first record is `first`, of records that are in no files. Those that
    /// the tail has no more are missing until they are supplied ([`EventReader::supply`]).
    #[must_use]
    pub fn in_memory(tail: &TailHandle, first: u64) -> EventReader {
        let mut reader = EventReader::with_files(tail, OpenFiles::none(), first);
        reader.leave_files();
        reader
    }

    fn with_files(tail: &TailHandle, files: OpenFiles, first: u64) -> EventReader {
        let files = EventFiles::new(files);
        let (reader, epochs) = tail.reader_with_epochs();
        let records = EventRecords {
            handle: tail.clone(),
            tail: reader,
            files: BehindTail::Files(files.another()),
            in_tail: false,
        };
        let past = PastEvents::new(tail.clone(), files);
        let holds = Holds::default();
        let place = holds.hold("", first);
        EventReader { reader: EpochReader::new(records, epochs, first), past, holds, place }
    }

    /// Registers the reader's place among the holds of its partition, under the name of its user.
    #[must_use]
    pub fn holding(mut self, holds: &Holds, holder: &'static str) -> EventReader {
        self.holds = holds.clone();
        self.place = self.hold(holder, self.next_record());
        self
    }

    /// Keeps the records from `from` on for a view whose next start needs them.
    #[must_use]
    pub fn hold(&self, holder: &'static str, from: u64) -> Hold {
        self.holds.hold(holder, from)
    }

    /// Returns the first record that is retained, as far as records were removed in this process;
    /// zero for none.
    #[must_use]
    pub fn retained_from(&self) -> u64 {
        self.holds.retained_from()
    }

    /// Returns an independent cursor for old records.
    #[must_use]
    pub fn past(&self) -> PastEvents {
        PastEvents::new(self.past.handle.clone(), self.past.files.another())
    }

    /// Returns the number of the next record.
    #[must_use]
    pub fn next_record(&self) -> u64 {
        self.reader.next_record()
    }

    /// Returns the number of the record that will be written next.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.past.handle.next_record()
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
        self.place.set(next);
    }

    /// Goes back to record `from`, or to the first retained one where that is later, as a reader
    /// that knows no end of an epoch; returns the record.
    pub fn go_back(&mut self, from: u64) -> u64 {
        let first = self.holds.set_back(&self.place, from);
        let epoch = self.epochs().first();
        self.reader.skip_to(first, epoch);
        first
    }

    /// Keeps no record any more, for a view that does not go on in this process.
    pub fn let_go(&self) {
        self.place.set(u64::MAX);
    }

    /// Copies the next record into `into`, which is cleared first, or tells that an epoch ended
    /// before it.
    pub fn next(&mut self, into: &mut Vec<u8>) -> ReadEvent {
        let read = self.reader.next(into);
        self.place.set(self.reader.next_record());
        read
    }

    /// Copies the next record into `into` and returns its number, for a view that has nothing to do
    /// with epochs. `None` when there is no new record, or it is missing.
    ///
    /// # Panics
    /// When records that were returned became void: the process must recover from its log.
    pub fn next_of_any_epoch(&mut self, into: &mut Vec<u8>) -> Option<u64> {
        loop {
            match self.next(into) {
                ReadEvent::Record(number) => return Some(number),
                ReadEvent::EpochEnded(change) => assert_kept(&change),
                ReadEvent::UpToDate | ReadEvent::Missing => return None,
            }
        }
    }

    /// Copies record `wanted` into `into`.
    pub fn read_at(&mut self, wanted: u64, into: &mut Vec<u8>) -> PastRead {
        self.past.read_at(wanted, into)
    }

    /// Copies record `wanted` into `into` if the tail has it; never reads files.
    pub fn read_in_memory(&mut self, wanted: u64, into: &mut Vec<u8>) -> PastRead {
        self.past.read_in_memory(wanted, into)
    }

    /// Reads no files from now on: records that the tail has no more are missing until the
    /// history's thread has brought them ([`EventReader::supply`]).
    pub fn leave_files(&mut self) {
        self.reader.records_mut().files = BehindTail::History(PastRecords::default());
    }

    /// Takes records that the history's thread has read, if the next one is among them.
    pub fn supply(&mut self, records: PastRecords) {
        if let BehindTail::History(supplied) = &mut self.reader.records_mut().files {
            *supplied = records;
        }
    }

    /// Returns the number of epochs that ended while the tail was written. Records that were read
    /// before the last end may be void.
    #[must_use]
    pub fn epoch_changes(&self) -> u64 {
        self.past.epoch_changes()
    }

    /// Returns the newest record that a reader has waited for in the files; zero for none.
    #[must_use]
    pub fn wanted_in_files(&self) -> u64 {
        self.past.handle.wanted_in_files()
    }
}

impl Records for EventRecords {
    fn read(&mut self, number: u64, into: &mut Vec<u8>) -> RecordRead {
        if !self.in_tail || self.tail.next_record() != number {
            match self.tail.seek(number) {
                Seek::Done => self.in_tail = true,
                Seek::Lapped { .. } => return self.read_behind_tail(number, into),
                // The reader is ahead of the log.
                Seek::Ahead { .. } => return RecordRead::None,
            }
        }
        match self.tail.next(into) {
            TailRead::Record(record) => {
                assert_eq!(record, number, "the tail's records are dense");
                RecordRead::Found
            }
            TailRead::Empty => RecordRead::None,
            TailRead::Lapped { .. } => self.read_behind_tail(number, into),
        }
    }

    fn position_of(record: &[u8]) -> Position {
        position_of(record)
    }

    fn reopen(&mut self) {
        self.tail = self.handle.reader();
        match &mut self.files {
            BehindTail::Files(files) => files.forget(),
            BehindTail::History(supplied) => *supplied = PastRecords::default(),
        }
        self.in_tail = false;
    }
}

/// Returns the position of the command that caused an event: every event begins with it.
///
/// # Panics
/// When the bytes are no message of ours, of which the event log has no others.
#[must_use]
pub fn position_of(record: &[u8]) -> Position {
    let raw = parse_message(record).expect("the event log holds our own messages");
    let (position, _) = raw.block().split_first_chunk().expect("no event is shorter");
    Position(u64::from_le_bytes(*position))
}

impl EventRecords {
    /// Copies a record that the tail has no more. A deleted record is missing for ever: the view
    /// cannot go on, and the node says that it waits.
    fn read_behind_tail(&mut self, number: u64, into: &mut Vec<u8>) -> RecordRead {
        self.in_tail = false;
        let found = match &mut self.files {
            BehindTail::Files(files) => files.read_at(number, into) == FileRead::Found,
            BehindTail::History(supplied) => supplied.take(number, into),
        };
        if found {
            return RecordRead::Found;
        }
        self.handle.want_in_files(number);
        RecordRead::Missing
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
    fn new(handle: TailHandle, files: EventFiles) -> PastEvents {
        let epoch_changes = handle.epoch_changes();
        PastEvents { tail: handle.reader(), files, handle, epoch_changes }
    }

    /// Returns the number of epochs that ended while the tail was written.
    #[must_use]
    pub fn epoch_changes(&self) -> u64 {
        self.handle.epoch_changes()
    }

    /// Returns true when record `wanted` is in memory.
    #[must_use]
    pub fn has_in_memory(&self, wanted: u64) -> bool {
        self.handle.reader().seek(wanted) == Seek::Done
    }

    /// Copies record `wanted` into `into`.
    pub fn read_at(&mut self, wanted: u64, into: &mut Vec<u8>) -> PastRead {
        if wanted == 0 {
            // Records begin at one.
            return PastRead::Deleted;
        }
        if self.read_in_memory(wanted, into) == PastRead::Found {
            return PastRead::Found;
        }
        match self.files.read_at(wanted, into) {
            FileRead::Found => PastRead::Found,
            FileRead::Deleted => PastRead::Deleted,
            FileRead::Missing => {
                self.handle.want_in_files(wanted);
                PastRead::Missing
            }
        }
    }

    /// Copies record `wanted` into `into` if the tail has it; never reads files.
    pub fn read_in_memory(&mut self, wanted: u64, into: &mut Vec<u8>) -> PastRead {
        let epoch_changes = self.handle.epoch_changes();
        if epoch_changes != self.epoch_changes {
            self.tail = self.handle.reader();
            self.files.forget();
            self.epoch_changes = epoch_changes;
        }
        let distance = wanted.checked_sub(self.tail.next_record());
        if distance.is_none_or(|distance| distance > TAIL_STEPS_MAX)
            && self.tail.seek(wanted) != Seek::Done
        {
            return PastRead::Missing;
        }
        loop {
            match self.tail.next(into) {
                TailRead::Record(record) if record == wanted => return PastRead::Found,
                TailRead::Record(_) => {}
                TailRead::Empty | TailRead::Lapped { .. } => return PastRead::Missing,
            }
        }
    }
}

#[cfg(test)]
mod tests;
