//! A partition's epochs as its events tell them, and a check of a reader's history against them.
//!
//! An ended epoch survives up to a position ([`weir_types::epochs`]). Commands behind it and their
//! events are lost, and their positions and numbers are assigned again. A reader that received
//! event `n` in epoch `e` shares this node's history exactly when event `n` lies within the
//! surviving part of `e`.
//!
//! A [`Lineage`] holds the epochs that an [`EventReader`] has told. A [`PassedEnds`] records the
//! points at which a sequence of numbered events passes their ends: a session's events, or all
//! records of a partition. Both are functions of the logs.
//!
//! [`EventReader`]: crate::event_reader::EventReader
//!
//! INVARIANT: the numbers of a trail only increase.

use weir_log::EpochChange;
use weir_types::{Epoch, Epochs, Position, Survival};

use crate::event_reader::assert_kept;

/// A partition's epochs up to the event that was read last.
#[derive(Clone, Debug)]
pub struct Lineage {
    epochs: Epochs<Position>,
    /// Events before this position may be deleted, and their positions are then unknown.
    known_from: Position,
}

impl Lineage {
    /// Returns the lineage of events that begin in epoch `first`.
    #[must_use]
    pub fn new(first: Epoch) -> Lineage {
        Lineage { epochs: Epochs::new(first), known_from: Position::NONE }
    }

    /// Records the end of an epoch before the next event.
    ///
    /// # Panics
    /// When it takes back events that were read: sessions have received them.
    pub fn pass(&mut self, change: &EpochChange) {
        assert_kept(change);
        self.epochs.end(change.ended.last_valid, change.next);
    }

    /// Returns the current epoch.
    #[must_use]
    pub fn current(&self) -> Epoch {
        self.epochs.current()
    }

    /// Records that events are deleted from the partition's beginning, and that the command at
    /// `position` caused the oldest retained one.
    pub fn begins_at(&mut self, position: Position) {
        self.known_from = position;
    }

    /// Returns the number of ended epochs.
    fn ended_count(&self) -> usize {
        self.epochs.ended().len()
    }
}

/// A reader's position in a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderPosition {
    /// The epoch in which the reader received its last event; zero when the reader does not know.
    pub epoch: Epoch,
    /// The number after the last event received: 1, or zero, when there is none.
    pub next: u64,
}

/// The result of comparing a reader's history with the node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// The reader's history is a prefix of the node's.
    Same,
    /// The histories are equal before this number and differ from it on.
    OtherFrom(u64),
    /// Undecidable: the epoch is not in this lineage, or the events needed for the decision are
    /// deleted.
    Unknown,
}

/// The points at which a sequence of numbered events passes the ends of epochs.
#[derive(Clone, Debug)]
pub struct PassedEnds {
    /// The first number that can be noted: earlier events are deleted.
    first: u64,
    /// An end's index, and the first number behind it: one entry for ends passed at the same
    /// number.
    passed: Vec<(usize, u64)>,
    /// The number of ended epochs whose ends are passed.
    passed_count: usize,
}

impl PassedEnds {
    /// Returns the trail of a sequence whose first retained number is `first`.
    #[must_use]
    pub fn starting_at(first: u64) -> PassedEnds {
        PassedEnds { first, passed: Vec::new(), passed_count: 0 }
    }

    /// Records that event `number` comes after the epochs' ends so far. Must be called in order.
    #[inline]
    pub fn note(&mut self, number: u64, lineage: &Lineage) {
        if lineage.ended_count() > self.passed_count {
            self.passed.push((self.passed_count, number));
            self.passed_count = lineage.ended_count();
        }
    }

    /// Returns the first number behind an end; `None` when there is none yet.
    fn first_behind(&self, end: usize) -> Option<u64> {
        if end >= self.passed_count {
            return None;
        }
        let after = self.passed.partition_point(|(passed, _)| *passed <= end);
        Some(self.passed[after - 1].1)
    }

    /// Compares a reader's history with the sequence, whose next number is `next`.
    pub fn judge(&self, position: ReaderPosition, next: u64, lineage: &Lineage) -> Verdict {
        if position.next <= 1 || position.epoch.is_none() {
            return Verdict::Same;
        }
        let survives_to = match lineage.epochs.survival(position.epoch) {
            Survival::Whole => return Verdict::Same,
            Survival::Unknown => return Verdict::Unknown,
            Survival::UpTo(survives_to) => survives_to,
        };
        if self.first > 1 && survives_to < lineage.known_from {
            return Verdict::Unknown;
        }
        let end = lineage.epochs.index_of(position.epoch).expect("it has a surviving part");
        let other_from = self.first_behind(end).unwrap_or(next);
        if position.next > other_from { Verdict::OtherFrom(other_from) } else { Verdict::Same }
    }
}

#[cfg(test)]
mod tests;
