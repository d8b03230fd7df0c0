//! The interface of a sequenced log, independent of its implementation.
//!
//! Each partition and epoch has one writer, which appends batches. A position is an entry's place
//! in the log, dense from 1. Entries are opaque bytes: the log knows nothing of orders. No call
//! blocks unless its name or documentation says so; a caller waits by calling `do_work` again.

use weir_types::{Epoch, Nanos, Position};

use crate::batch::Batch;
use crate::error::LogError;

/// The outcome of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Append {
    /// The batch is sequenced, not yet committed: its entries have the positions from `first`.
    At {
        /// The position of the batch's first entry.
        first: Position,
    },
    /// The log's epoch is another one; nothing was appended.
    NotLeader,
    /// The disk is full; nothing was appended. Reads continue, and appends once there is space.
    Full,
    /// The queue of unwritten bytes is full; nothing was appended. Do work and retry.
    Busy,
}

/// A change of the log's state, as `poll` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Poll {
    /// This process leads the log in this epoch. Reported once, before anything else.
    Leading(Epoch),
    /// All entries up to this position are committed at the log's durability level.
    Committed(Position),
    /// The log failed; entries up to `valid_to` are committed, later ones may be lost.
    Lost {
        /// The last committed position.
        valid_to: Position,
    },
}

/// The log of a partition.
pub trait SequencedLog {
    /// Returns an empty batch that takes no more than the log can append at once.
    fn new_batch(&self) -> Batch;

    /// Sequences a batch under one log time, which must be later than the last batch's: the caller
    /// takes max(previous + 1, clock). Copies the batch; never blocks, never syncs.
    ///
    /// # Panics
    /// Panics when the batch is empty or the time does not increase: the caller is broken.
    fn append(&mut self, epoch: Epoch, log_time: Nanos, batch: &Batch) -> Append;

    /// Reports the leadership once, then the newest committed position on every call.
    fn poll(&mut self) -> Poll;

    /// Starts and finishes I/O; returns the amount of work done, zero when there was none. `now` is
    /// the time read at the start of the duty cycle.
    ///
    /// # Errors
    /// Fails when a write or sync failed. The log has then stopped for good and the process must
    /// abort, because the state that the failed sync left on the medium is unknown.
    fn do_work(&mut self, now: Nanos) -> Result<usize, LogError>;

    /// Returns true when all appended entries are committed and no I/O is under way.
    fn is_idle(&self) -> bool;

    /// Returns true while the disk has no room: appends beyond the preallocated space are refused,
    /// reads continue.
    fn is_full(&self) -> bool;

    /// Blocks until all appended entries are on the medium and a mark says so, at every level.
    ///
    /// # Errors
    /// As [`SequencedLog::do_work`].
    fn flush_blocking(&mut self) -> Result<(), LogError>;

    /// Allows the log to remove entries before `before`. The log removes whole segments, in the
    /// background.
    fn truncate(&mut self, before: Position);

    /// Returns the position up to which all entries are on the medium, at every level. At `os` and
    /// `memory` it follows at the end of each segment, and when no entries come.
    fn synced(&self) -> Position;

    /// Returns the epoch in which this process leads.
    fn epoch(&self) -> Epoch;

    /// Returns the position of the next entry.
    fn next_position(&self) -> Position;

    /// Returns the log time of the last batch.
    fn last_log_time(&self) -> Nanos;
}
