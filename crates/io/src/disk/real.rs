//! The configured real disk: the thread disk, or io_uring where it is requested and works.
//!
//! An enumeration instead of a boxed trait, so that the data path stays statically dispatched.

use std::path::PathBuf;
use std::str::FromStr;

use super::thread::ThreadDisk;
#[cfg(target_os = "linux")]
use super::uring::UringDisk;
use super::{Access, Completion, Disk, DiskError, FileId, Op};
use crate::wake::WakeFd;

/// The mechanism that performs writes and syncs. `docs/adr/0002-sync-strategy.md` argues the
/// default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncStrategy {
    /// A thread per log.
    #[default]
    Thread,
    /// The kernel's io_uring, or the thread where the kernel refuses io_uring.
    Uring,
}

impl FromStr for SyncStrategy {
    type Err = String;

    fn from_str(text: &str) -> Result<SyncStrategy, String> {
        match text {
            "thread" => Ok(SyncStrategy::Thread),
            "io_uring" => Ok(SyncStrategy::Uring),
            other => Err(format!("unknown sync strategy {other:?}: want thread or io_uring")),
        }
    }
}

impl std::fmt::Display for SyncStrategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SyncStrategy::Thread => "thread",
            SyncStrategy::Uring => "io_uring",
        })
    }
}

/// The configuration of a real disk.
#[derive(Clone, Debug)]
pub struct RealDiskConfig {
    /// The directory; created when missing.
    pub path: PathBuf,
    /// The mechanism for writes and syncs.
    pub strategy: SyncStrategy,
    /// The descriptor that each completion signals, for duty cycles that park.
    pub wake: Option<WakeFd>,
}

/// A real disk.
pub enum RealDisk {
    /// The disk with its own thread.
    Thread(ThreadDisk),
    /// The disk on io_uring, boxed because its ring and slots are large.
    #[cfg(target_os = "linux")]
    Uring(Box<UringDisk>),
}

impl RealDisk {
    /// Opens the directory. The text, if any, says why the requested strategy is not used.
    ///
    /// # Errors
    /// Fails when the directory cannot be created.
    pub fn open(config: RealDiskConfig) -> Result<(RealDisk, Option<String>), DiskError> {
        let mut note = None;
        #[cfg(target_os = "linux")]
        if config.strategy == SyncStrategy::Uring {
            match UringDisk::open(&config.path, config.wake.clone()) {
                Ok(disk) => return Ok((RealDisk::Uring(Box::new(disk)), None)),
                Err(e) => note = Some(format!("no io_uring here ({e}): syncing by a thread")),
            }
        }
        let waker = config.wake.as_ref().map(WakeFd::waker);
        Ok((RealDisk::Thread(ThreadDisk::open(&config.path, waker)?), note))
    }

    /// Returns the strategy in use.
    #[must_use]
    pub fn strategy(&self) -> SyncStrategy {
        match self {
            RealDisk::Thread(_) => SyncStrategy::Thread,
            #[cfg(target_os = "linux")]
            RealDisk::Uring(_) => SyncStrategy::Uring,
        }
    }
}

/// Makes the same call on either disk.
macro_rules! either {
    ($self:ident, $disk:ident => $call:expr) => {
        match $self {
            RealDisk::Thread($disk) => $call,
            #[cfg(target_os = "linux")]
            RealDisk::Uring($disk) => $call,
        }
    };
}

impl Disk for RealDisk {
    fn open(&mut self, name: &str, access: Access) -> Result<FileId, DiskError> {
        either!(self, disk => disk.open(name, access))
    }
    fn create(&mut self, name: &str) -> Result<FileId, DiskError> {
        either!(self, disk => disk.create(name))
    }
    fn close(&mut self, file: FileId) {
        either!(self, disk => disk.close(file));
    }
    fn len(&mut self, file: FileId) -> Result<u64, DiskError> {
        either!(self, disk => disk.len(file))
    }
    fn list(&mut self) -> Result<Vec<String>, DiskError> {
        either!(self, disk => disk.list())
    }
    fn read(&mut self, file: FileId, offset: u64, buf: &mut [u8]) -> Result<usize, DiskError> {
        either!(self, disk => disk.read(file, offset, buf))
    }
    fn write(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<usize, DiskError> {
        either!(self, disk => disk.write(file, offset, bytes))
    }
    fn sync(&mut self, file: FileId) -> Result<(), DiskError> {
        either!(self, disk => disk.sync(file))
    }
    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        either!(self, disk => disk.rename(from, to))
    }
    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        either!(self, disk => disk.remove(name))
    }
    fn sync_dir(&mut self) -> Result<(), DiskError> {
        either!(self, disk => disk.sync_dir())
    }
    fn lock(&mut self) -> Result<(), DiskError> {
        either!(self, disk => disk.lock())
    }
    fn boot_id(&self) -> [u8; 16] {
        either!(self, disk => disk.boot_id())
    }
    fn forget_cached(&mut self, file: FileId) {
        either!(self, disk => disk.forget_cached(file));
    }
    fn submit(&mut self, tag: u64, op: Op) {
        either!(self, disk => disk.submit(tag, op));
    }
    fn reap(&mut self, out: &mut Vec<Completion>) {
        either!(self, disk => disk.reap(out));
    }
    fn wait(&mut self) {
        either!(self, disk => disk.wait());
    }
    fn in_flight(&self) -> usize {
        either!(self, disk => disk.in_flight())
    }
}
