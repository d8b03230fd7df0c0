//! A log of a node, of commands or of an outside core's batches, which ends with a closing mark
//! once nobody has it any more.
//!
//! A start can be refused when the logs are open: by a view, an archive, another partition, or the
//! last step of the start. Without a closing mark the next run would take this one for a crashed
//! one: at `memory` each refused start, and each stop in order, would end an epoch, at `os` each
//! after which the machine started again, and a log remembers only so many.
//!
//! Dropped by a panic the log stays as it is: a crash is told as one.

use std::ops::{Deref, DerefMut};

use weir_io::{Disk, RealDisk};
use weir_log::{Append, Batch, EmbeddedLog, LogError, Poll, SequencedLog};
use weir_types::{Epoch, Nanos, Position};

/// An open log that closes itself when it is dropped.
pub struct ClosingLog<D: Disk = RealDisk>(EmbeddedLog<D>);

impl<D: Disk> ClosingLog<D> {
    /// Returns the open log `log`, which closes itself from now on.
    #[must_use]
    pub fn new(log: EmbeddedLog<D>) -> ClosingLog<D> {
        ClosingLog(log)
    }
}

impl<D: Disk> Deref for ClosingLog<D> {
    type Target = EmbeddedLog<D>;

    fn deref(&self) -> &EmbeddedLog<D> {
        &self.0
    }
}

impl<D: Disk> DerefMut for ClosingLog<D> {
    fn deref_mut(&mut self) -> &mut EmbeddedLog<D> {
        &mut self.0
    }
}

impl<D: Disk> Drop for ClosingLog<D> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        close(&mut self.0);
    }
}

/// Closes a log that nobody has any more, and tells why it could not be.
pub(crate) fn close<D: Disk>(log: &mut EmbeddedLog<D>) {
    if let Err(error) = log.close() {
        tracing::warn!(%error, "a log has no closing mark: it ends as after a crash");
    }
}

impl<D: Disk> SequencedLog for ClosingLog<D> {
    fn new_batch(&self) -> Batch {
        self.0.new_batch()
    }

    #[inline]
    fn append(&mut self, epoch: Epoch, log_time: Nanos, batch: &Batch) -> Append {
        self.0.append(epoch, log_time, batch)
    }

    #[inline]
    fn poll(&mut self) -> Poll {
        self.0.poll()
    }

    #[inline]
    fn do_work(&mut self, now: Nanos) -> Result<usize, LogError> {
        self.0.do_work(now)
    }

    fn is_idle(&self) -> bool {
        self.0.is_idle()
    }

    fn is_full(&self) -> bool {
        self.0.is_full()
    }

    fn flush_blocking(&mut self) -> Result<(), LogError> {
        self.0.flush_blocking()
    }

    fn truncate(&mut self, before: Position) {
        self.0.truncate(before);
    }

    fn synced(&self) -> Position {
        self.0.synced()
    }

    fn epoch(&self) -> Epoch {
        self.0.epoch()
    }

    fn next_position(&self) -> Position {
        self.0.next_position()
    }

    fn last_log_time(&self) -> Nanos {
        self.0.last_log_time()
    }
}
