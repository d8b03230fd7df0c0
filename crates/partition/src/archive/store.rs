//! The archive's files: one for each segment, compressed, with the checksum of zstd.
//!
//! `POSITION-FRAME.wlog.LINK.zst`: the segment's own name, and the link that the first frame after
//! it carries, in hexadecimal. A link covers all frames before it, so the name stands for these
//! bytes and no others.
//!
//! INVARIANT: a file under such a name is whole. `archive.part` is ignored and overwritten.

use std::io::{self, Read, Write};

use weir_io::{Access, Disk, DiskAction, DiskError, DiskErrorKind, FileId};
use weir_log::segment::SEGMENT_HEADER;
use weir_log::{Juncture, LogError, SegmentHeader, SegmentKind, check_header, check_segment};

use super::ArchiveError;
use crate::plant::{self, Plant};

/// The name of a file that is not whole yet.
const PART: &str = "archive.part";
/// The suffix of a whole one.
const SUFFIX: &str = ".zst";
/// The level of compression: that of the cold files.
const LEVEL: i32 = 3;
/// The most bytes of a segment that is unpacked: 4 GiB.
const SEGMENT_BYTES_MAX: u64 = 1 << 32;
/// The bytes that are packed or compared at a time.
const STEP_BYTES: usize = 1 << 20;

/// A segment of a log that another one follows: header and frames, without the zeros behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedSegment {
    header: SegmentHeader,
    next: Juncture,
    bytes: Vec<u8>,
}

impl SealedSegment {
    /// Reads a segment of a log, and checks that the one with the header `next` goes on from it.
    ///
    /// # Errors
    /// [`LogError`]: the segment is damaged, or the log's disk failed.
    pub fn read<D: Disk>(
        log: &mut D,
        name: &str,
        next: &SegmentHeader,
    ) -> Result<SealedSegment, LogError> {
        let mut bytes = Vec::new();
        read_file(log, name, &mut bytes, u64::MAX)?;
        let check = check_segment(name, &bytes, next.kind)?;
        let begins = Juncture::of_header(next);
        if check.next != begins {
            // A segment is named only after all frames before it are written.
            let missing =
                LogError::MissingSegment { file: next.file_name(), frame: check.next.frame };
            return Err(check.damage(name, next.first_frame).unwrap_or(missing));
        }
        bytes.truncate(usize::try_from(check.end).expect("within the bytes"));
        Ok(SealedSegment { header: check.header, next: begins, bytes })
    }

    /// Returns the name of its file in the archive.
    #[must_use]
    pub fn archived_name(&self) -> String {
        format!("{}.{:016x}{SUFFIX}", self.header.file_name(), self.next.link)
    }

    /// Returns the name of its file in the log.
    #[must_use]
    pub fn name(&self) -> String {
        self.header.file_name()
    }

    /// Returns its header and frames.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes its header and frames.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Reads the header of a segment of a log.
///
/// # Errors
/// [`LogError`].
pub fn read_header<D: Disk>(
    log: &mut D,
    name: &str,
    kind: SegmentKind,
) -> Result<SegmentHeader, LogError> {
    let mut bytes = Vec::new();
    read_file(log, name, &mut bytes, SEGMENT_HEADER as u64)?;
    check_header(name, &bytes, kind)
}

/// Returns the names of a log's segments, oldest first.
///
/// # Errors
/// When the disk fails.
pub fn segment_names<D: Disk>(log: &mut D, kind: SegmentKind) -> Result<Vec<String>, DiskError> {
    let mut names = log.list()?;
    names.retain(|name| name.ends_with(kind.suffix()));
    Ok(names)
}

/// A file of an archive, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedName {
    /// The name of the file.
    pub file: String,
    /// The name of the segment.
    pub segment: String,
    /// The link that the first frame after the segment carries.
    pub link: u64,
}

impl ArchivedName {
    fn parse(file: String, kind: SegmentKind) -> Option<ArchivedName> {
        let (segment, link) = file.strip_suffix(SUFFIX)?.rsplit_once('.')?;
        let link = u64::from_str_radix(link, 16).ok()?;
        let segment = segment.to_owned();
        segment.ends_with(kind.suffix()).then_some(ArchivedName { file, segment, link })
    }
}

/// The files of one log in an archive that this process writes.
pub struct SegmentArchive<D> {
    disk: D,
}

impl<D: Disk> SegmentArchive<D> {
    /// Returns the archive in a directory that this process has locked.
    #[must_use]
    pub fn new(disk: D) -> SegmentArchive<D> {
        SegmentArchive { disk }
    }

    /// Stores a segment; returns the number of bytes written, zero when its file is there. On
    /// return it survives a power loss.
    ///
    /// # Errors
    /// [`ArchiveError`]; the segment's file is then as it was.
    pub fn store(&mut self, segment: &SealedSegment) -> Result<u64, ArchiveError> {
        let name = segment.archived_name();
        if holds(&mut self.disk, &name, &segment.bytes)? {
            // The name may be newer than the last sync, if a step before this one failed.
            if !plant::is(Plant::ArchiveNameUnsynced) {
                self.disk.sync_dir()?;
            }
            return Ok(0);
        }
        match self.store_as(&name, segment) {
            Ok(written) => Ok(written),
            Err(error) => {
                // It may be what fills the disk. A part that stays is overwritten.
                let _ = self.disk.remove(PART);
                Err(error)
            }
        }
    }

    fn store_as(&mut self, name: &str, segment: &SealedSegment) -> Result<u64, ArchiveError> {
        let written = write_packed(&mut self.disk, &segment.bytes)?;
        let is_whole =
            plant::is(Plant::ArchiveCopyUnchecked) || holds(&mut self.disk, PART, &segment.bytes)?;
        if !is_whole {
            return Err(ArchiveError::Unlike { segment: segment.name() });
        }
        self.disk.rename(PART, name)?;
        self.disk.sync_dir()?;
        Ok(written)
    }
}

/// Writes and syncs the part; returns its length.
fn write_packed<D: Disk>(disk: &mut D, bytes: &[u8]) -> Result<u64, DiskError> {
    let file = disk.create(PART)?;
    let packed = pack_into(FileStream::of(disk, file), bytes).map_err(disk_error);
    let synced = packed.and_then(|len| disk.sync(file).map(|()| len));
    // It is read back once, and hardly ever again.
    disk.forget_cached(file);
    disk.close(file);
    synced
}

fn pack_into<D: Disk>(stream: FileStream<'_, D>, bytes: &[u8]) -> io::Result<u64> {
    let mut encoder = zstd::stream::write::Encoder::new(stream, LEVEL)?;
    encoder.include_checksum(true)?;
    for step in bytes.chunks(STEP_BYTES) {
        encoder.write_all(step)?;
    }
    Ok(encoder.finish()?.at)
}

/// Returns true when a file of the archive unpacks to these bytes; one that is damaged does not.
fn holds<D: Disk>(disk: &mut D, name: &str, bytes: &[u8]) -> Result<bool, DiskError> {
    let file = match disk.open(name, Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind == DiskErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let compared = unpacks_to(FileStream::of(disk, file), bytes);
    disk.forget_cached(file);
    disk.close(file);
    match compared {
        Ok(is_equal) => Ok(is_equal),
        Err(error) => error.downcast::<DiskError>().map_or(Ok(false), Err),
    }
}

fn unpacks_to<D: Disk>(stream: FileStream<'_, D>, bytes: &[u8]) -> io::Result<bool> {
    let mut decoder = zstd::stream::read::Decoder::new(stream)?;
    let mut step = vec![0; STEP_BYTES];
    let mut left = bytes;
    loop {
        let read = decoder.read(&mut step)?;
        let Some(rest) = left.strip_prefix(&step[..read]) else { return Ok(false) };
        if read == 0 {
            return Ok(left.is_empty());
        }
        left = rest;
    }
}

/// Returns a log's files in an archive, in the order of history; those of histories that went apart
/// are among them.
///
/// # Errors
/// When the disk fails.
pub fn archived_names<D: Disk>(
    disk: &mut D,
    kind: SegmentKind,
) -> Result<Vec<ArchivedName>, DiskError> {
    Ok(disk.list()?.into_iter().filter_map(|name| ArchivedName::parse(name, kind)).collect())
}

/// Reads the header of a stored segment.
///
/// # Errors
/// [`ArchiveError::Damaged`], [`ArchiveError::Disk`].
pub fn archived_header<D: Disk>(
    disk: &mut D,
    name: &ArchivedName,
    kind: SegmentKind,
) -> Result<SegmentHeader, ArchiveError> {
    let bytes = unpack(disk, name, SEGMENT_HEADER as u64)?;
    check_header(&name.segment, &bytes, kind).map_err(|error| damaged(name, &error))
}

/// Reads a stored segment, and checks each frame and the link at its end.
///
/// # Errors
/// [`ArchiveError::Damaged`], [`ArchiveError::Disk`].
pub fn archived_segment<D: Disk>(
    disk: &mut D,
    name: &ArchivedName,
    kind: SegmentKind,
) -> Result<SealedSegment, ArchiveError> {
    let bytes = unpack(disk, name, SEGMENT_BYTES_MAX)?;
    let check =
        check_segment(&name.segment, &bytes, kind).map_err(|error| damaged(name, &error))?;
    if let Some(error) = check.damage(&name.segment, u64::MAX) {
        return Err(damaged(name, &error));
    }
    if check.end != bytes.len() as u64 || check.next.link != name.link {
        return Err(damaged(name, &"its frames are not those of its name"));
    }
    Ok(SealedSegment { header: check.header, next: check.next, bytes })
}

fn damaged(name: &ArchivedName, reason: &dyn std::fmt::Display) -> ArchiveError {
    ArchiveError::Damaged { file: name.file.clone(), reason: reason.to_string() }
}

fn unpack<D: Disk>(
    disk: &mut D,
    name: &ArchivedName,
    bytes_max: u64,
) -> Result<Vec<u8>, ArchiveError> {
    let file = disk.open(&name.file, Access::Read)?;
    let mut bytes = Vec::new();
    let read = zstd::stream::read::Decoder::new(FileStream::of(disk, file))
        .and_then(|decoder| decoder.take(bytes_max).read_to_end(&mut bytes));
    disk.close(file);
    match read {
        Ok(_) => Ok(bytes),
        Err(error) => Err(match error.downcast::<DiskError>() {
            Ok(error) => ArchiveError::Disk(error),
            Err(error) => damaged(name, &error),
        }),
    }
}

/// Returns the disk's own error, if a stream over a file failed by it.
fn disk_error(error: io::Error) -> DiskError {
    let packing = |error: io::Error| DiskError::from_system(DiskAction::Write, PART, &error);
    error.downcast::<DiskError>().unwrap_or_else(packing)
}

fn read_file<D: Disk>(
    disk: &mut D,
    name: &str,
    bytes: &mut Vec<u8>,
    bytes_max: u64,
) -> Result<(), DiskError> {
    let file = disk.open(name, Access::Read)?;
    let read = disk.len(file).and_then(|len| {
        bytes.resize(usize::try_from(len.min(bytes_max)).expect("a segment is below 4 GiB"), 0);
        let read = disk.read(file, 0, bytes)?;
        bytes.truncate(read);
        Ok(())
    });
    disk.close(file);
    read
}

/// A file of a disk as a stream from its beginning.
struct FileStream<'a, D> {
    disk: &'a mut D,
    file: FileId,
    at: u64,
}

impl<'a, D: Disk> FileStream<'a, D> {
    fn of(disk: &'a mut D, file: FileId) -> FileStream<'a, D> {
        FileStream { disk, file, at: 0 }
    }
}

impl<D: Disk> Write for FileStream<'_, D> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.disk.write(self.file, self.at, bytes).map_err(io::Error::other)?;
        self.at += taken as u64;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<D: Disk> Read for FileStream<'_, D> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.disk.read(self.file, self.at, bytes).map_err(io::Error::other)?;
        self.at += read as u64;
        Ok(read)
    }
}
