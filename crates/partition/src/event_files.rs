//! A cursor over the records of a partition's event log files.
//!
//! The shadow writes the files behind the partition, so a record that was published may not be
//! there yet, and a disk may refuse to be read for a while. Neither is the end of the records: a
//! record that the files do not give is [`FileRead::Missing`], and its reader asks again.

use std::sync::Arc;

use weir_io::{Disk, DiskAction, DiskError, ThreadDisk};
use weir_log::{Entry, LogError, LogReader, SegmentKind};
use weir_types::Position;

use crate::plant::{self, Plant};

/// The distance in records up to which a cursor moves forward instead of opening the files again.
const STEPS_MAX: u64 = 50_000;

/// The result of reading a record from the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum FileRead {
    /// The record is in the buffer.
    Found,
    /// The files do not have it yet, or cannot be read now.
    Missing,
    /// The files begin behind it: it is deleted.
    Deleted,
}

/// The entries of the event log's files, on any disk.
trait Entries: Send {
    fn next_position(&self) -> Position;
    fn seek(&mut self, to: Position) -> Result<(), LogError>;
    fn next_entry(&mut self) -> Result<Option<Entry<'_>>, LogError>;
}

impl<D: Disk + Send> Entries for LogReader<D> {
    fn next_position(&self) -> Position {
        LogReader::next_position(self)
    }

    fn seek(&mut self, to: Position) -> Result<(), LogError> {
        LogReader::seek(self, to)
    }

    fn next_entry(&mut self) -> Result<Option<Entry<'_>>, LogError> {
        LogReader::next_entry(self)
    }
}

/// Opens the files of an event log at a record.
#[derive(Clone)]
pub struct OpenFiles(Arc<OpenAt>);

type OpenAt = dyn Fn(Position) -> Result<Box<dyn Entries>, LogError> + Send + Sync;

impl OpenFiles {
    /// Returns an opener of the files on the disk that `open` opens.
    #[must_use]
    pub fn on_disk<D: Disk + Send + 'static>(
        open: impl Fn() -> Result<D, DiskError> + Send + Sync + 'static,
    ) -> OpenFiles {
        OpenFiles(Arc::new(move |from: Position| {
            let reader = LogReader::open(open()?, SegmentKind::Event, from)?;
            let reader: Box<dyn Entries> = Box::new(reader);
            Ok(reader)
        }))
    }

    /// Returns an opener for records that are in no files.
    #[must_use]
    pub fn none() -> OpenFiles {
        OpenFiles::on_disk(|| {
            let none = std::io::Error::from(std::io::ErrorKind::NotFound);
            Err::<ThreadDisk, _>(DiskError::from_system(DiskAction::List, "", &none))
        })
    }
}

/// A cursor in the files.
pub struct EventFiles {
    open: OpenFiles,
    reader: Option<Box<dyn Entries>>,
    /// True from an error until the next record that is found: an error is told once.
    has_failed: bool,
}

impl EventFiles {
    /// Returns a cursor that opens the files at its first use.
    #[must_use]
    pub fn new(open: OpenFiles) -> EventFiles {
        EventFiles { open, reader: None, has_failed: false }
    }

    /// Returns an independent cursor over the same files.
    #[must_use]
    pub fn another(&self) -> EventFiles {
        EventFiles::new(self.open.clone())
    }

    /// Closes the files: what was opened may hold void records.
    pub fn forget(&mut self) {
        self.reader = None;
    }

    /// Copies record `wanted` into `into`, which is cleared first.
    pub fn read_at(&mut self, wanted: u64, into: &mut Vec<u8>) -> FileRead {
        match self.try_read(wanted, into) {
            Ok(found) => {
                self.has_failed &= found != FileRead::Found;
                found
            }
            // A record behind the end leaves the reader there: it need not look for the end again.
            Err(LogError::NotRetained { last, .. }) if wanted > last.0 => FileRead::Missing,
            Err(LogError::NotRetained { first, .. }) => {
                self.reader = None;
                // The place of the reader may be removed and the record not: it is opened anew.
                if wanted >= first.0 { FileRead::Missing } else { FileRead::Deleted }
            }
            Err(error) => {
                self.reader = None;
                if !std::mem::replace(&mut self.has_failed, true) {
                    tracing::error!(%error, record = wanted, "the event log cannot be read");
                }
                match plant::is(Plant::UnreadableCountsAsDeleted) {
                    true => FileRead::Deleted,
                    false => FileRead::Missing,
                }
            }
        }
    }

    fn try_read(&mut self, wanted: u64, into: &mut Vec<u8>) -> Result<FileRead, LogError> {
        let at = self.reader.as_ref().map(|reader| reader.next_position().0);
        let is_near = at.is_some_and(|at| wanted <= at + STEPS_MAX);
        let reader = match &mut self.reader {
            Some(reader) if at == Some(wanted) => reader,
            // A reader keeps an index of the part of the files that it has passed.
            Some(reader) if is_near => {
                reader.seek(Position(wanted))?;
                reader
            }
            reader => reader.insert((self.open.0)(Position(wanted))?),
        };
        match reader.next_entry()? {
            Some(entry) => {
                assert_eq!(
                    entry.position.0, wanted,
                    "a reader is at the entry that it was sent to"
                );
                into.clear();
                into.extend_from_slice(entry.bytes);
                Ok(FileRead::Found)
            }
            None => Ok(FileRead::Missing),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use weir_types::{Epoch, Nanos};

    use super::*;

    /// Files whose first reader stands where its segment was removed.
    struct Files {
        at: Position,
        is_lost: bool,
    }

    impl Entries for Files {
        fn next_position(&self) -> Position {
            self.at
        }

        fn seek(&mut self, to: Position) -> Result<(), LogError> {
            self.at = to;
            Ok(())
        }

        fn next_entry(&mut self) -> Result<Option<Entry<'_>>, LogError> {
            let position = self.at;
            if self.is_lost {
                let last = Position(51);
                return Err(LogError::NotRetained { wanted: position, first: position, last });
            }
            self.at = position.next();
            let (log_time, epoch) = (Nanos(1), Epoch(1));
            Ok(Some(Entry { position, log_time, epoch, ends_batch: true, bytes: b"record" }))
        }
    }

    #[test]
    fn a_reader_whose_place_was_removed_is_opened_anew() {
        let is_lost = AtomicBool::new(true);
        let open = OpenFiles(Arc::new(move |at| {
            let files: Box<dyn Entries> =
                Box::new(Files { at, is_lost: is_lost.swap(false, Ordering::Relaxed) });
            Ok(files)
        }));
        let (mut files, mut record) = (EventFiles::new(open), Vec::new());
        assert_eq!(files.read_at(27, &mut record), FileRead::Missing);
        assert_eq!(files.read_at(27, &mut record), FileRead::Found);
        assert_eq!(record, b"record");
    }
}
