//! The reading of a log whose epochs end meanwhile: the order of looks at epochs and records.
//!
//! A read is not one step. The writer may end an epoch, take records back and publish the next
//! epoch's while it is under way, so the reader looks for ends before a read and again after it,
//! and drops the record if there is one.
//!
//! INVARIANT: all records of an ended epoch's surviving part are returned before its end, and all
//! others after it.

use weir_types::{Epoch, Epochs, Position};

use super::{EpochChange, EpochCursor};

/// The records of a log, without its epochs.
pub trait Records {
    /// Copies record `number` into `into`, which is cleared first.
    fn read(&mut self, number: u64, into: &mut Vec<u8>) -> RecordRead;

    /// Returns the position of the command that caused a record.
    fn position_of(record: &[u8]) -> Position;

    /// Opens the log anew: what was opened before may hold void records.
    fn reopen(&mut self);
}

/// The result of reading a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum RecordRead {
    /// It is in the buffer.
    Found,
    /// It does not exist yet.
    None,
    /// It exists, and cannot be read now.
    Missing,
}

/// The result of reading an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum ReadEvent {
    /// The next record, with its number; its bytes are in the buffer.
    Record(u64),
    /// An epoch ended before the next record.
    EpochEnded(EpochChange),
    /// No new record.
    UpToDate,
    /// The next record exists, but is no longer in memory, and not in the files yet. The user asks
    /// again later.
    Missing,
}

/// A reader of a log's records and of the ends of its epochs between them.
#[derive(Debug)]
pub struct EpochReader<R> {
    records: R,
    epochs: EpochCursor,
    next: u64,
    /// The record `next`, read before the ends of epochs that must be told first.
    held: Vec<u8>,
    is_held: bool,
}

impl<R: Records> EpochReader<R> {
    /// Returns a reader whose first record is `next`. The cursor is older than the records, as
    /// [`super::TailHandle::reader_with_epochs`] creates the two.
    #[must_use]
    pub fn new(records: R, epochs: EpochCursor, next: u64) -> EpochReader<R> {
        EpochReader { records, epochs, next, held: Vec::new(), is_held: false }
    }

    /// Returns the records.
    pub fn records(&self) -> &R {
        &self.records
    }

    /// Returns the records, for changes of their source.
    pub fn records_mut(&mut self) -> &mut R {
        &mut self.records
    }

    /// Returns the number of the next record.
    #[must_use]
    pub fn next_record(&self) -> u64 {
        self.next
    }

    /// Returns the epoch of the records before the next end of an epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epochs.epoch()
    }

    /// Returns the epochs of the log, including those that are not told yet.
    #[must_use]
    pub fn epochs(&self) -> &Epochs<Position> {
        self.epochs.epochs()
    }

    /// Returns true when the ends of all epochs before the current one were told.
    #[must_use]
    pub fn has_told_ends(&self) -> bool {
        self.epochs.is_done()
    }

    /// Continues with record `next` in `epoch`; the caller already has the records before it, and
    /// knows the ends of the epochs before.
    pub fn skip_to(&mut self, next: u64, epoch: Epoch) {
        (self.next, self.is_held) = (next, false);
        self.epochs.skip_to(epoch);
    }

    /// Copies the next record into `into`, which is cleared first, or tells that an epoch ended
    /// before it.
    pub fn next(&mut self, into: &mut Vec<u8>) -> ReadEvent {
        loop {
            self.refresh();
            if let Some(change) = self.epochs.pass(self.next) {
                return self.tell(change);
            }
            if !self.is_held {
                match self.records.read(self.next, into) {
                    RecordRead::Found => {}
                    RecordRead::None => return ReadEvent::UpToDate,
                    RecordRead::Missing => return ReadEvent::Missing,
                }
            }
            if self.is_held {
                std::mem::swap(&mut self.held, into);
                self.is_held = false;
            }
            if self.refresh() {
                // The record may be void.
                continue;
            }
            if !self.epochs.is_done()
                && let Some(change) = self.epochs.pass_before(self.next, R::position_of(into))
            {
                std::mem::swap(&mut self.held, into);
                self.is_held = true;
                return self.tell(change);
            }
            self.next += 1;
            return ReadEvent::Record(self.next - 1);
        }
    }

    /// Takes over the epochs that ended meanwhile; true when there are any.
    #[inline]
    fn refresh(&mut self) -> bool {
        if !self.epochs.refresh() {
            return false;
        }
        self.records.reopen();
        self.is_held = false;
        true
    }

    fn tell(&mut self, change: EpochChange) -> ReadEvent {
        if change.taken_back > 0 {
            (self.next, self.is_held) = (change.first_again, false);
        }
        ReadEvent::EpochEnded(change)
    }
}
