//! The writer and readers of a ring over a file, and the locks that show a live writer.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;

use crate::memory::{FAMILY, Memory, file_len};
use crate::ring::{Read, RingReader, RingWriter, TooLong};

/// The smallest ring, in bytes.
const RING_LEN_MIN: u64 = 1 << 10;
/// The largest ring, in bytes.
const RING_LEN_MAX: u64 = 1 << 36;

/// The reason why a ring cannot be made or opened.
#[derive(Debug, thiserror::Error)]
pub enum ShmError {
    /// The length is not valid for a ring.
    #[error("a ring of {0} bytes: want a power of two from 1024 to 2^36")]
    Len(u64),
    /// Another process has this ring open for writing.
    #[error("{0}: another process writes there")]
    InUse(PathBuf),
    /// The file is not a ring, or is of another version.
    #[error("{0}: no ring")]
    NotARing(PathBuf),
    /// A system call failed.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> ShmError + '_ {
    |error| ShmError::Io { path: path.to_owned(), error }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Options for a new ring.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The ring's length in bytes, a power of two. The longest record is an eighth of it, less 16.
    pub len: u64,
    /// The file's permissions, such as `0o640`; they decide who may read the ring.
    pub mode: u32,
}

/// The writing end.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    memory: Memory,
    ring: RingWriter,
    /// Locked while the writer lives: the ring's file, by which readers detect a live writer, and
    /// `PATH.lock`, which keeps a second writer out.
    _locked: [File; 2],
}

impl Writer {
    /// Creates a ring at this path; replaces one whose writer is gone, also of another version, and
    /// no other file. Its memory is allocated at once.
    ///
    /// # Errors
    /// [`ShmError`].
    pub fn create(path: &Path, options: &Options) -> Result<Writer, ShmError> {
        let Options { len, mode } = *options;
        let is_right = len.is_power_of_two() && (RING_LEN_MIN..=RING_LEN_MAX).contains(&len);
        let file_len = file_len(len).filter(|_| is_right).ok_or(ShmError::Len(len))?;
        refuse_others_file(path)?;
        let lock = lock_for_writing(path)?;
        let new = with_suffix(path, ".new");
        let file = make(&new, file_len, mode).map_err(failed(&new))?;
        let memory = Memory::create(&file).map_err(failed(&new))?;
        fs::rename(&new, path).map_err(failed(path))?;
        let ring = RingWriter::default();
        Ok(Writer { path: path.to_owned(), memory, ring, _locked: [file, lock] })
    }

    /// Writes a record.
    ///
    /// # Errors
    /// [`TooLong`]; nothing was written.
    #[inline]
    pub fn write(&mut self, record: &[u8]) -> Result<(), TooLong> {
        self.ring.write(self.memory.cells(), record)
    }

    /// The number of records written.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.ring.sequence()
    }

    /// The length of the longest record in bytes.
    #[must_use]
    pub fn record_len_max(&self) -> usize {
        self.memory.cells().record_len_max()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Readers that have the file mapped keep it. If it cannot be removed, the next writer
        // replaces it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Refuses a path whose file no ring's writer made: it would be replaced, and removed at the end.
fn refuse_others_file(path: &Path) -> Result<(), ShmError> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(found) if !found.is_file() => return Err(ShmError::NotARing(path.to_owned())),
        _ => {}
    }
    let mut begin = [0; FAMILY.len()];
    match File::open(path).and_then(|mut file| file.read_exact(&mut begin)) {
        Ok(()) if begin == FAMILY => Ok(()),
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(failed(path)(error)),
        _ => Err(ShmError::NotARing(path.to_owned())),
    }
}

/// Locks `PATH.lock`. The file is never removed: two writers could then lock one file each.
fn lock_for_writing(path: &Path) -> Result<File, ShmError> {
    let name = with_suffix(path, ".lock");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(&name).map_err(failed(&name))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(ShmError::InUse(path.to_owned())),
        Err(error) => Err(failed(&name)(error.into())),
    }
}

/// Creates a locked file of this length, with its blocks allocated.
fn make(path: &Path, len: u64, mode: u32) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
    // A file system without room fails here, not when the memory is first touched.
    fallocate(&file, FallocateFlags::empty(), 0, len)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    Ok(file)
}

/// A reading end.
#[derive(Debug)]
pub struct Reader {
    memory: Memory,
    ring: RingReader,
    file: File,
}

impl Reader {
    /// Opens the ring at this path, to read records written from now on.
    ///
    /// # Errors
    /// [`ShmError`].
    pub fn open(path: &Path) -> Result<Reader, ShmError> {
        let file = File::open(path).map_err(failed(path))?;
        let memory = Memory::attach(&file).map_err(failed(path))?;
        let memory = memory.ok_or_else(|| ShmError::NotARing(path.to_owned()))?;
        let ring = RingReader::new(memory.cells());
        Ok(Reader { memory, ring, file })
    }

    /// Reads the next record into `record`, whose content is undefined unless there was one. Never
    /// waits.
    #[inline]
    pub fn read(&mut self, record: &mut Vec<u8>) -> Read {
        self.ring.read(self.memory.cells(), record)
    }

    /// The number of lost records; the last loss counts once a record was read after it.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.ring.lost()
    }

    /// True while a writer lives. After it returns false, records written since the last read may
    /// still be unread. It makes a system call: call it now and then, when there is nothing to
    /// read.
    #[must_use]
    pub fn has_writer(&self) -> bool {
        // The writer has the file locked for as long as it lives, however it ends.
        match flock(&self.file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {
                let _ = flock(&self.file, FlockOperation::Unlock);
                false
            }
            Err(_) => true,
        }
    }
}

#[cfg(test)]
mod tests;
