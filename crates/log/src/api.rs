//! The sequenced log as its users see it, whatever stands behind it.
//!
//! One writer per partition and epoch appends batches; a position is an entry's place in history,
//! dense from 1. Entries are opaque bytes: the log knows nothing of orders. Nothing blocks but
//! what says so; all waiting is done by calling `do_work` again.

use weir_types::{Epoch, Nanos, Position};

use crate::batch::Batch;
use crate::error::LogError;

/// What became of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Append {
    /// Sequenced: the batch's entries have the positions from `first` on. Not yet committed.
    At {
        /// The position of the batch's first entry.
        first: Position,
    },
    /// This log is not led in that epoch; nothing was taken.
    NotLeader,
    /// The disk is full; nothing was taken. Reading goes on, and appending once there is space.
    Full,
    /// More is waiting to be written than the log will hold; nothing was taken. Do work, retry.
    Busy,
}

/// What the log has to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Poll {
    /// This process leads the log in this epoch. Told once, before anything else.
    Leading(Epoch),
    /// All entries up to this position are committed at the log's durability level.
    Committed(Position),
    /// The log cannot go on; entries up to `valid_to` are committed, later ones may be lost.
    Lost {
        /// The last position that was committed.
        valid_to: Position,
    },
}

/// A partition's log.
pub trait SequencedLog {
    /// Sequences a batch under one log time, which must be later than the last batch's: the caller
    /// takes max(previous + 1, clock). Copies; never blocks, never syncs.
    ///
    /// # Panics
    /// When the batch is empty or the time does not grow: the caller is broken.
    fn append(&mut self, epoch: Epoch, log_time: Nanos, batch: &Batch) -> Append;

    /// The news: leadership once, then the newest committed position, again and again.
    fn poll(&mut self) -> Poll;

    /// Starts and finishes I/O; returns how much there was to do, zero when nothing. `now` is the
    /// time read at the start of the duty cycle.
    ///
    /// # Errors
    /// When a write or sync failed. The log has stopped for good: the process must abort, because
    /// nothing is known of what the failed sync left on the medium.
    fn do_work(&mut self, now: Nanos) -> Result<usize, LogError>;

    /// True when all that was appended is committed and no I/O is under way.
    fn is_idle(&self) -> bool;

    /// True while the disk has no room: what goes beyond the room taken ahead is refused, reads
    /// go on.
    fn is_full(&self) -> bool;

    /// Blocks until all that was appended is on the medium and marked so, at every level.
    ///
    /// # Errors
    /// As [`SequencedLog::do_work`].
    fn flush_blocking(&mut self) -> Result<(), LogError>;

    /// Allows entries before `before` to be forgotten. What is forgotten is up to the log: whole
    /// segments, in the background.
    fn truncate(&mut self, before: Position);

    /// The epoch in which this process leads.
    fn epoch(&self) -> Epoch;

    /// The position that the next entry will get.
    fn next_position(&self) -> Position;

    /// The log time of the last batch.
    fn last_log_time(&self) -> Nanos;
}
