//! The disk seam: submit and reap for the data path, blocking calls for everything else.
//!
//! A disk is one flat directory. Writes and syncs of the data path are submitted and reaped, a form
//! that both io_uring and a simulated disk have. Opening, listing, reading and removing block; they
//! are called at start, at stop and by readers. Slow operations that must not delay a duty cycle
//! (zero-filling the next file, renaming it into place) are submitted too.
//!
//! Contract: a write may be short; the caller finishes it. `synced` means that the bytes and the
//! file's length are on the medium. A name is durable only after `sync_dir`, [`Op::Prepare`] or
//! [`Op::Rename`]. After a failed sync the state of the file's unsynced bytes is unknown and a
//! second sync proves nothing: the caller must stop and recover.

use thiserror::Error;

mod dir;
mod lane;
pub mod real;
pub mod sim;
pub mod thread;
#[cfg(target_os = "linux")]
pub mod uring;

/// The maximum number of operations in flight on one disk.
pub const IN_FLIGHT_MAX: usize = 32;

/// An open file of a disk, valid until it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// The access for which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only.
    Read,
    /// Reading and writing.
    Write,
}

/// An operation of the data path.
#[derive(Debug)]
pub enum Op {
    /// Writes `buf[from..]` at `offset`; after a full write, syncs the file's data if `sync` is
    /// set. A short write is not synced.
    Write {
        /// The file.
        file: FileId,
        /// The offset of the first byte of `buf[from..]` in the file.
        offset: u64,
        /// The bytes; the completion returns the buffer.
        buf: Vec<u8>,
        /// The number of bytes of `buf` to skip.
        from: usize,
        /// True to sync after a full write.
        sync: bool,
    },
    /// Syncs a file's data and length.
    Sync {
        /// The file.
        file: FileId,
    },
    /// Creates or overwrites a file of `len` zero bytes, and syncs the bytes and the name.
    Prepare {
        /// Its name.
        name: String,
        /// Its length in bytes.
        len: u64,
    },
    /// Renames a file, replacing any file that has the new name, and syncs the directory.
    Rename {
        /// The current name.
        from: String,
        /// The new name.
        to: String,
    },
    /// Removes a file that is not open and syncs the directory.
    Remove {
        /// Its name.
        name: String,
    },
}

/// The outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The write took this many bytes, starting at `from`; `synced` only after a full write that
    /// asked for it.
    Written {
        /// Bytes taken.
        bytes: usize,
        /// True when the bytes are on the medium.
        synced: bool,
    },
    /// The sync, preparation, rename or removal is done.
    Done,
    /// The operation failed.
    Failed(DiskError),
}

/// A finished operation.
#[derive(Debug)]
pub struct Completion {
    /// The tag given at submission.
    pub tag: u64,
    /// The buffer of a write, returned for reuse; empty otherwise.
    pub buf: Vec<u8>,
    /// The operation's outcome.
    pub outcome: Outcome,
}

/// The action during which a disk failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskAction {
    /// Opening or creating a file.
    Open,
    /// Listing the directory.
    List,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Syncing a file or the directory.
    Sync,
    /// Renaming.
    Rename,
    /// Removing.
    Remove,
    /// Locking the directory.
    Lock,
}

/// The kind of a failure, as far as callers distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskErrorKind {
    /// The disk is full or over quota.
    Full,
    /// The process or the system has no descriptor left.
    NoDescriptors,
    /// No such file.
    NotFound,
    /// Another process holds the directory.
    Locked,
    /// The medium or the system failed.
    Io,
}

/// A failed disk operation: the action, the file and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{action:?} {name:?}: {reason}")]
pub struct DiskError {
    /// The action that failed.
    pub action: DiskAction,
    /// The file's name, empty for the directory.
    pub name: String,
    /// The kind of failure.
    pub kind: DiskErrorKind,
    /// The system's message.
    pub reason: String,
}

impl DiskError {
    /// Creates the error of `action` on `name` from the system's `error`.
    #[must_use]
    pub fn from_system(action: DiskAction, name: &str, error: &std::io::Error) -> DiskError {
        use std::io::ErrorKind as K;
        let is_of = |errno: rustix::io::Errno| error.raw_os_error() == Some(errno.raw_os_error());
        let kind = match error.kind() {
            _ if is_of(rustix::io::Errno::MFILE) || is_of(rustix::io::Errno::NFILE) => {
                DiskErrorKind::NoDescriptors
            }
            K::StorageFull | K::QuotaExceeded | K::FileTooLarge => DiskErrorKind::Full,
            K::NotFound => DiskErrorKind::NotFound,
            _ => DiskErrorKind::Io,
        };
        DiskError { action, name: name.to_owned(), kind, reason: error.to_string() }
    }
}

/// One flat directory of files.
pub trait Disk {
    /// Opens an existing file.
    ///
    /// # Errors
    /// Fails when the file does not exist or the system refuses.
    fn open(&mut self, name: &str, access: Access) -> Result<FileId, DiskError>;

    /// Creates an empty file for writing, or empties the existing file of this name.
    ///
    /// # Errors
    /// Fails when the system refuses.
    fn create(&mut self, name: &str) -> Result<FileId, DiskError>;

    /// Closes a file. No operation on it may be in flight.
    fn close(&mut self, file: FileId);

    /// Returns the file's length in bytes.
    ///
    /// # Errors
    /// Fails when the system refuses.
    fn len(&mut self, file: FileId) -> Result<u64, DiskError>;

    /// Returns the names of all files, sorted.
    ///
    /// # Errors
    /// Fails when the system refuses.
    fn list(&mut self) -> Result<Vec<String>, DiskError>;

    /// Reads from `offset` until `buf` is full or the file ends; returns the bytes read.
    ///
    /// # Errors
    /// Fails when the medium fails.
    fn read(&mut self, file: FileId, offset: u64, buf: &mut [u8]) -> Result<usize, DiskError>;

    /// Writes once at `offset`, blocking; returns the number of bytes taken, which may be fewer
    /// than given.
    ///
    /// # Errors
    /// Fails when the disk is full or fails.
    fn write(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<usize, DiskError>;

    /// Syncs the file's data and length, blocking.
    ///
    /// # Errors
    /// Fails when the medium fails; the state of unsynced bytes is then unknown.
    fn sync(&mut self, file: FileId) -> Result<(), DiskError>;

    /// Renames a file, replacing any file that has the new name. Not durable before `sync_dir`.
    ///
    /// # Errors
    /// Fails when the system refuses.
    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError>;

    /// Removes a file that is not open. Not durable before `sync_dir`.
    ///
    /// # Errors
    /// Fails when the system refuses.
    fn remove(&mut self, name: &str) -> Result<(), DiskError>;

    /// Makes all earlier creations, renames and removals durable.
    ///
    /// # Errors
    /// Fails when the medium fails.
    fn sync_dir(&mut self) -> Result<(), DiskError>;

    /// Locks the directory for this process until the disk is dropped.
    ///
    /// # Errors
    /// [`DiskErrorKind::Locked`] when another process has it.
    fn lock(&mut self) -> Result<(), DiskError>;

    /// Returns a number that changes when the machine restarts.
    fn boot_id(&self) -> [u8; 16];

    /// Drops the file's pages from the system's page cache, so that bytes read once do not displace
    /// bytes read often. Advice: nothing depends on it.
    fn forget_cached(&mut self, file: FileId) {
        let _ = file;
    }

    /// Starts an operation; its completion carries `tag`. At most [`IN_FLIGHT_MAX`] are in flight.
    /// Operations in flight take effect in any order: to order two, wait for the first one's
    /// completion.
    fn submit(&mut self, tag: u64, op: Op);

    /// Appends the completions of finished operations to `out`, without waiting.
    fn reap(&mut self, out: &mut Vec<Completion>);

    /// Waits until at least one operation has finished; returns at once when none is in flight.
    fn wait(&mut self);

    /// Returns the number of operations submitted and not yet reaped.
    fn in_flight(&self) -> usize;

    /// Writes all of `bytes` at `offset`, blocking, in as many writes as it takes.
    ///
    /// # Errors
    /// As [`Disk::write`].
    fn write_all(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let mut done = 0;
        while done < bytes.len() {
            done += self.write(file, offset + done as u64, &bytes[done..])?;
        }
        Ok(())
    }

    /// Does the work of [`Op::Prepare`], blocking.
    ///
    /// # Errors
    /// As [`Disk::create`], [`Disk::write`] and [`Disk::sync`].
    fn prepare(&mut self, name: &str, len: u64) -> Result<(), DiskError> {
        let file = self.create(name)?;
        let filled =
            zero_fill(len, |at, zeros| self.write(file, at, zeros)).and_then(|()| self.sync(file));
        self.close(file);
        filled?;
        self.sync_dir()
    }
}

/// Calls `write` with zeros until `len` bytes from offset 0 are written.
fn zero_fill(
    len: u64,
    mut write: impl FnMut(u64, &[u8]) -> Result<usize, DiskError>,
) -> Result<(), DiskError> {
    static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
    let mut at = 0;
    while at < len {
        let step = (len - at).min(ZEROS.len() as u64);
        at += write(at, &ZEROS[..usize::try_from(step).expect("at most 64 KiB")])? as u64;
    }
    Ok(())
}

/// A borrowed disk is a disk, so that a log's parts and readers can share one.
impl<D: Disk> Disk for &mut D {
    fn open(&mut self, name: &str, access: Access) -> Result<FileId, DiskError> {
        (**self).open(name, access)
    }
    fn create(&mut self, name: &str) -> Result<FileId, DiskError> {
        (**self).create(name)
    }
    fn close(&mut self, file: FileId) {
        (**self).close(file);
    }
    fn len(&mut self, file: FileId) -> Result<u64, DiskError> {
        (**self).len(file)
    }
    fn list(&mut self) -> Result<Vec<String>, DiskError> {
        (**self).list()
    }
    fn read(&mut self, file: FileId, offset: u64, buf: &mut [u8]) -> Result<usize, DiskError> {
        (**self).read(file, offset, buf)
    }
    fn write(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<usize, DiskError> {
        (**self).write(file, offset, bytes)
    }
    fn sync(&mut self, file: FileId) -> Result<(), DiskError> {
        (**self).sync(file)
    }
    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        (**self).rename(from, to)
    }
    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        (**self).remove(name)
    }
    fn sync_dir(&mut self) -> Result<(), DiskError> {
        (**self).sync_dir()
    }
    fn lock(&mut self) -> Result<(), DiskError> {
        (**self).lock()
    }
    fn boot_id(&self) -> [u8; 16] {
        (**self).boot_id()
    }
    fn forget_cached(&mut self, file: FileId) {
        (**self).forget_cached(file);
    }
    fn submit(&mut self, tag: u64, op: Op) {
        (**self).submit(tag, op);
    }
    fn reap(&mut self, out: &mut Vec<Completion>) {
        (**self).reap(out);
    }
    fn wait(&mut self) {
        (**self).wait();
    }
    fn in_flight(&self) -> usize {
        (**self).in_flight()
    }
}
