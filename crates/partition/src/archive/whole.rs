//! An archive and the log that goes on from it, read as the one log that they are.
//!
//! The archive's part is found from its end: the file whose name has the link with which the log
//! begins, then the one with the link of that segment's beginning, and so on to frame 1. A link
//! covers all frames before it, so files of another history are never taken.
//!
//! [`WholeLog`] is a disk for readers: they read, list and check segments as those of a log.

use weir_io::{Access, Completion, Disk, DiskAction, DiskError, DiskErrorKind, FileId, Op};
use weir_log::{Juncture, SegmentHeader, SegmentKind};
use weir_types::Position;

use super::ArchiveError;
use super::store::{
    ArchivedName, archived_header, archived_names, archived_segment, read_header, segment_names,
};
use crate::plant::{self, Plant};

/// The bit of a file's number that says that it is the archive's.
const OF_ARCHIVE: u32 = 1 << 31;
/// The number of times that a log is listed because its oldest segment went meanwhile.
const LISTINGS_MAX: u32 = 64;
/// The name of the file that [`put_back`] writes, before it has its own.
const PART: &str = "archive.part";

/// Returns the files of an archive from which a log goes on that begins with this header, oldest
/// first: from frame 1 to the log's first.
///
/// # Errors
/// [`ArchiveError::Gap`] when one is missing.
pub fn chain_to<A: Disk>(
    archive: &mut A,
    first: &SegmentHeader,
) -> Result<Vec<ArchivedName>, ArchiveError> {
    let names = archived_names(archive, first.kind)?;
    let mut chain = Vec::new();
    let mut next = Juncture::of_header(first);
    while next.frame > 1 {
        let Some(name) = names.iter().rfind(|name| name.link == next.link) else {
            if plant::is(Plant::ArchiveGapUnseen) {
                break;
            }
            let (last, frame) = (Position(next.position.0 - 1), next.frame - 1);
            return Err(ArchiveError::Gap { last, frame });
        };
        let header = archived_header(archive, name, first.kind)?;
        let own = (first.log_id, first.partition);
        if (header.log_id, header.partition) != own || header.first_frame >= next.frame {
            let reason = "it is of another log or place".to_owned();
            return Err(ArchiveError::Damaged { file: name.file.clone(), reason });
        }
        next = Juncture::of_header(&header);
        chain.push(name.clone());
    }
    chain.reverse();
    Ok(chain)
}

/// A log and its archive as one directory, for readers. Without an archive it is the log.
pub struct WholeLog<L, A> {
    log: L,
    archive: Option<A>,
    kind: SegmentKind,
    chain: Vec<ArchivedName>,
    /// The name of the log's oldest segment, from which the chain was found.
    begins: String,
    /// The open files of the archive, unpacked.
    unpacked: Vec<Option<Vec<u8>>>,
}

impl<L: Disk, A: Disk> WholeLog<L, A> {
    /// Opens a log with its archive.
    ///
    /// # Errors
    /// [`ArchiveError`]: the archive has a gap or is damaged.
    pub fn open(
        log: L,
        archive: Option<A>,
        kind: SegmentKind,
    ) -> Result<WholeLog<L, A>, ArchiveError> {
        let (chain, unpacked, begins) = (Vec::new(), Vec::new(), String::new());
        let mut whole = WholeLog { log, archive, kind, chain, begins, unpacked };
        whole.names()?;
        Ok(whole)
    }

    /// Returns the number of segments that the archive has and the log has not.
    #[must_use]
    pub fn archived_count(&self) -> usize {
        self.chain.len()
    }

    /// Returns the names of all segments, and of the log's other files.
    fn names(&mut self) -> Result<Vec<String>, ArchiveError> {
        for _ in 0..LISTINGS_MAX {
            let listed = self.log.list()?;
            let Some(archive) = &mut self.archive else { return Ok(listed) };
            let is_segment = |name: &&String| name.ends_with(self.kind.suffix());
            let Some(oldest) = listed.iter().find(is_segment) else { return Ok(listed) };
            if *oldest != self.begins {
                let header = match read_header(&mut self.log, oldest, self.kind) {
                    Ok(header) => header,
                    Err(error) => {
                        let names = segment_names(&mut self.log, self.kind)?;
                        if names.contains(oldest) {
                            return Err(ArchiveError::Log(error));
                        }
                        continue;
                    }
                };
                self.chain = chain_to(archive, &header)?;
                self.begins.clone_from(oldest);
            }
            let chain = self.chain.iter().map(|name| name.segment.clone());
            return Ok(chain.chain(listed).collect());
        }
        Err(refused(DiskAction::List, "the log changes all the time").into())
    }

    fn unpack(&mut self, name: &ArchivedName) -> Result<Vec<u8>, DiskError> {
        let archive = self.archive.as_mut().expect("a chain is an archive's");
        let segment = archived_segment(archive, name, self.kind);
        Ok(segment.map_err(disk_error(DiskAction::Read))?.into_bytes())
    }
}

fn disk_error(action: DiskAction) -> impl FnOnce(ArchiveError) -> DiskError {
    move |error| match error {
        ArchiveError::Disk(error) => error,
        error => refused(action, &error.to_string()),
    }
}

fn refused(action: DiskAction, reason: &str) -> DiskError {
    let (name, kind) = (super::ARCHIVE.to_owned(), DiskErrorKind::Io);
    DiskError { action, name, kind, reason: reason.to_owned() }
}

fn read_only<T>(action: DiskAction) -> Result<T, DiskError> {
    Err(refused(action, "a log with its archive is for reading only"))
}

impl<L: Disk, A: Disk> Disk for WholeLog<L, A> {
    fn open(&mut self, name: &str, access: Access) -> Result<FileId, DiskError> {
        if access != Access::Read {
            return read_only(DiskAction::Open);
        }
        let Some(archived) = self.chain.iter().find(|one| one.segment == name).cloned() else {
            return self.log.open(name, access);
        };
        let bytes = self.unpack(&archived)?;
        let free = self.unpacked.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.unpacked.push(None);
            self.unpacked.len() - 1
        });
        self.unpacked[index] = Some(bytes);
        Ok(FileId(OF_ARCHIVE | u32::try_from(index).expect("few files are open")))
    }

    fn create(&mut self, _: &str) -> Result<FileId, DiskError> {
        read_only(DiskAction::Open)
    }

    fn close(&mut self, file: FileId) {
        match archive_index(file) {
            Some(index) => self.unpacked[index] = None,
            None => self.log.close(file),
        }
    }

    fn len(&mut self, file: FileId) -> Result<u64, DiskError> {
        match archive_index(file) {
            Some(index) => Ok(self.unpacked[index].as_ref().map_or(0, Vec::len) as u64),
            None => self.log.len(file),
        }
    }

    fn list(&mut self) -> Result<Vec<String>, DiskError> {
        self.names().map_err(disk_error(DiskAction::List))
    }

    fn read(&mut self, file: FileId, offset: u64, buf: &mut [u8]) -> Result<usize, DiskError> {
        let Some(index) = archive_index(file) else { return self.log.read(file, offset, buf) };
        let bytes = self.unpacked[index].as_deref().unwrap_or_default();
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let count = buf.len().min(bytes.len() - from);
        buf[..count].copy_from_slice(&bytes[from..from + count]);
        Ok(count)
    }

    fn write(&mut self, _: FileId, _: u64, _: &[u8]) -> Result<usize, DiskError> {
        read_only(DiskAction::Write)
    }

    fn sync(&mut self, _: FileId) -> Result<(), DiskError> {
        read_only(DiskAction::Sync)
    }

    fn rename(&mut self, _: &str, _: &str) -> Result<(), DiskError> {
        read_only(DiskAction::Rename)
    }

    fn remove(&mut self, _: &str) -> Result<(), DiskError> {
        read_only(DiskAction::Remove)
    }

    fn sync_dir(&mut self) -> Result<(), DiskError> {
        read_only(DiskAction::Sync)
    }

    fn lock(&mut self) -> Result<(), DiskError> {
        read_only(DiskAction::Lock)
    }

    fn boot_id(&self) -> [u8; 16] {
        self.log.boot_id()
    }

    fn submit(&mut self, _: u64, op: Op) {
        unreachable!("readers submit nothing, and this was {op:?}")
    }

    fn reap(&mut self, _: &mut Vec<Completion>) {}

    fn wait(&mut self) {}

    fn in_flight(&self) -> usize {
        0
    }
}

fn archive_index(file: FileId) -> Option<usize> {
    (file.0 & OF_ARCHIVE != 0).then_some((file.0 & !OF_ARCHIVE) as usize)
}

/// Writes the archive's segments back into the log's directory, so that the log begins at its first
/// entry again; returns their number. The newest comes first: a crash leaves a log that begins
/// earlier than before, never one with a gap, and the next call goes on from it.
///
/// # Errors
/// [`ArchiveError`]: a process has the log, the archive has a gap or is damaged, or a disk failed.
pub fn put_back<L: Disk, A: Disk>(
    log: &mut L,
    archive: &mut A,
    kind: SegmentKind,
) -> Result<usize, ArchiveError> {
    log.lock()?;
    let names = segment_names(log, kind)?;
    let Some(oldest) = names.first() else { return Ok(0) };
    let header = read_header(log, oldest, kind).map_err(ArchiveError::Log)?;
    let chain = chain_to(archive, &header)?;
    for name in chain.iter().rev() {
        let segment = archived_segment(archive, name, kind)?;
        let written = write_segment(log, &name.segment, segment.bytes());
        if let Err(error) = written {
            // It is ignored by all that read logs.
            let _ = log.remove(PART);
            return Err(error.into());
        }
    }
    Ok(chain.len())
}

fn write_segment<L: Disk>(log: &mut L, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
    let file = log.create(PART)?;
    let written = log.write_all(file, 0, bytes).and_then(|()| log.sync(file));
    log.close(file);
    written?;
    log.rename(PART, name)?;
    log.sync_dir()
}
