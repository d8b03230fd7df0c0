//! A partition's epochs: the surviving part of each, and a check of a reader's history against
//! them.
//!
//! An ended epoch survives up to its last valid position. Commands behind it and their events are
//! lost, and their positions and numbers are assigned again. A reader that received event `n` in
//! epoch `e` shares this node's history exactly when the event's position is within the surviving
//! part of `e`:
//!
//! ```text
//! surviving part of e  =  up to the least last valid position of all ended epochs from e on
//! ```
//!
//! A [`Lineage`] holds the epochs. A [`Trail`] records the points at which a sequence of numbered
//! events passes their ends: a session's events, or all records of a partition. Both are functions
//! of the logs.
//!
//! INVARIANT: numbers and positions of a trail only increase.

use weir_log::EpochEnd;
use weir_types::{Epoch, Position};

/// The surviving part of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Survival {
    /// All of it: the epoch is the current one.
    Whole,
    /// The part up to the end with this index.
    UpTo(usize),
    /// Unknown: the epoch belongs to another history, or is older than those that the log keeps.
    Unknown,
}

/// A partition's epochs.
#[derive(Clone, Debug)]
pub struct Lineage {
    current: Epoch,
    /// Ended epochs, ascending, each with the index in `ends` of the end of its surviving part.
    ended: Vec<(Epoch, usize)>,
    /// The positions up to which ended epochs survive, ascending.
    ends: Vec<Position>,
    /// Events before this position may be deleted, and their positions are then unknown.
    known_from: Position,
}

impl Lineage {
    /// Returns the lineage of a log that leads in `current`; `ended` are the epochs before it,
    /// ascending, each with its last valid position.
    ///
    /// # Panics
    /// When the epochs do not ascend to the current one.
    #[must_use]
    pub fn new(current: Epoch, ended: &[EpochEnd]) -> Lineage {
        let epochs = ended.iter().map(|end| end.epoch).chain([current]);
        assert!(epochs.is_sorted_by(|a, b| a < b), "epochs ascend to the current one");
        let mut lives_to: Vec<Position> = ended.iter().map(|end| end.last_valid).collect();
        for i in (1..lives_to.len()).rev() {
            lives_to[i - 1] = lives_to[i - 1].min(lives_to[i]);
        }
        let mut ends = lives_to.clone();
        ends.dedup();
        let index_of = |end| ends.partition_point(|other| *other < end);
        let indices = lives_to.into_iter().map(index_of);
        let ended = ended.iter().map(|end| end.epoch).zip(indices).collect();
        Lineage { current, ended, ends, known_from: Position::NONE }
    }

    /// Returns the current epoch.
    #[must_use]
    pub fn current(&self) -> Epoch {
        self.current
    }

    /// Records that events are deleted from the partition's beginning, and that the command at
    /// `position` caused the oldest retained one.
    pub fn begins_at(&mut self, position: Position) {
        self.known_from = position;
    }

    fn survival(&self, epoch: Epoch) -> Survival {
        if epoch == self.current {
            return Survival::Whole;
        }
        match self.ended.binary_search_by_key(&epoch, |(epoch, _)| *epoch) {
            Ok(at) => Survival::UpTo(self.ended[at].1),
            Err(_) => Survival::Unknown,
        }
    }
}

/// A reader's position in a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stand {
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
pub struct Trail {
    /// The first number that can be noted: earlier events are deleted.
    first: u64,
    /// An end's index, and the first number behind it: one entry for ends passed at the same
    /// number.
    passed: Vec<(usize, u64)>,
    /// The number of ends passed.
    passed_count: usize,
}

impl Trail {
    /// Returns the trail of a sequence whose first retained number is `first`.
    #[must_use]
    pub fn starting_at(first: u64) -> Trail {
        Trail { first, passed: Vec::new(), passed_count: 0 }
    }

    /// Records that the command at `position` caused event `number`. Must be called in order.
    #[inline]
    pub fn note(&mut self, number: u64, position: Position, lineage: &Lineage) {
        if lineage.ends.get(self.passed_count).is_some_and(|end| *end < position) {
            self.pass(number, position, lineage);
        }
    }

    fn pass(&mut self, number: u64, position: Position, lineage: &Lineage) {
        self.passed.push((self.passed_count, number));
        self.passed_count = lineage.ends.partition_point(|end| *end < position);
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
    pub fn judge(&self, stand: Stand, next: u64, lineage: &Lineage) -> Verdict {
        if stand.next <= 1 || stand.epoch.is_none() {
            return Verdict::Same;
        }
        let end = match lineage.survival(stand.epoch) {
            Survival::Whole => return Verdict::Same,
            Survival::Unknown => return Verdict::Unknown,
            Survival::UpTo(end) => end,
        };
        if self.first > 1 && lineage.ends[end] < lineage.known_from {
            return Verdict::Unknown;
        }
        let other_from = self.first_behind(end).unwrap_or(next);
        if stand.next > other_from { Verdict::OtherFrom(other_from) } else { Verdict::Same }
    }
}

#[cfg(test)]
mod tests;
