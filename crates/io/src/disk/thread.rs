//! A disk that writes and syncs on its own thread.
//!
//! It works on every kernel. A completion costs one wake-up of the waiting side. Slow operations
//! run on a second thread, so that zero-filling the next file never delays a sync.

use std::path::Path;

use super::dir::{Dir, blocking_calls};
use super::lane::{Done, Lane, Work};
use super::{Access, Completion, Disk, DiskError, FileId, IN_FLIGHT_MAX, Op};
use crate::wake::Waker;

/// A disk with one thread for writes and syncs and one for slow operations.
pub struct ThreadDisk {
    dir: Dir,
    data: Lane,
    slow: Lane,
    done: std::sync::Arc<Done>,
    in_flight: usize,
}

impl ThreadDisk {
    /// Opens a disk over `path`, which is created when missing. `waker` is called on the disk's
    /// thread after each completion.
    ///
    /// # Errors
    /// Fails when the directory cannot be created.
    pub fn open(path: &Path, waker: Option<Waker>) -> Result<ThreadDisk, DiskError> {
        let dir = Dir::open(path)?;
        let done = Done::new(waker);
        let lane = |name| Lane::new(name, dir.names().clone(), done.clone());
        Ok(ThreadDisk {
            data: lane("weir-disk"),
            slow: lane("weir-disk-slow"),
            dir,
            done,
            in_flight: 0,
        })
    }
}

impl Disk for ThreadDisk {
    fn submit(&mut self, tag: u64, op: Op) {
        assert!(self.in_flight < IN_FLIGHT_MAX, "at most {IN_FLIGHT_MAX} operations in flight");
        self.in_flight += 1;
        match op {
            Op::Write { file, offset, buf, from, sync } => {
                let file = self.dir.file(file).clone();
                self.data.push(tag, Work::Write { file, offset, buf, from, sync });
            }
            Op::Sync { file } => {
                self.data.push(tag, Work::Sync { file: self.dir.file(file).clone() });
            }
            Op::Prepare { name, len } => self.slow.push(tag, Work::Prepare { name, len }),
            Op::Remove { name } => self.slow.push(tag, Work::Remove { name }),
            Op::Rename { from, to } => self.slow.push(tag, Work::Rename { from, to }),
        }
    }

    fn reap(&mut self, out: &mut Vec<Completion>) {
        self.in_flight -= self.done.take(out);
    }

    fn wait(&mut self) {
        if self.in_flight > 0 {
            self.done.wait();
        }
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    blocking_calls!();
}
