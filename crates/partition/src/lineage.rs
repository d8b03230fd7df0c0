//! A partition's epochs: what of each lives on, and whether somebody was told something else.
//!
//! An epoch that ended lives on up to its last valid position; of what came behind it, commands
//! and the events that they caused, nothing is left, and positions and numbers are given again.
//! Whoever was told event `n` in epoch `e` has this node's history exactly when that event lies,
//! by its position, within what lives on of `e`:
//!
//! ```text
//! lives on of e  =  least last valid position of all ended epochs from e on
//! ```
//!
//! A [`Lineage`] knows the epochs, a [`Trail`] where a sequence of numbered events passes their
//! ends: a session's events, or all records of a partition. Both are functions of the logs.
//!
//! INVARIANT: numbers and positions of a trail only grow.

use weir_log::EpochEnd;
use weir_types::{Epoch, Position};

/// What of an epoch lives on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Survival {
    /// All of it: it is the current one.
    Whole,
    /// What lies up to the end with this index.
    UpTo(usize),
    /// Nobody knows: the epoch is another history's, or older than those that the log keeps.
    Unknown,
}

/// A partition's epochs.
#[derive(Clone, Debug)]
pub struct Lineage {
    current: Epoch,
    /// Ended epochs, ascending, each with the index in `ends` of where it ends to live on.
    ended: Vec<(Epoch, usize)>,
    /// The positions up to which ended epochs live on, ascending.
    ends: Vec<Position>,
    /// Events before this position may be gone, and where they lay is not known.
    known_from: Position,
}

impl Lineage {
    /// The lineage of a log that leads in `current`; `ended` are the epochs before it, ascending,
    /// each with its last valid position.
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

    /// The current epoch.
    #[must_use]
    pub fn current(&self) -> Epoch {
        self.current
    }

    /// Takes it that events are gone from the partition's beginning, and the oldest one left was
    /// caused by the command at `position`.
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

/// Where somebody stands in a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stand {
    /// The epoch in which the last one was told; zero when the reader does not know.
    pub epoch: Epoch,
    /// The number after the last one told: 1, or zero, when there is none.
    pub next: u64,
}

/// What a reader was told, held against the node's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// It is the beginning of the node's.
    Same,
    /// From this number on it is not; what comes before is.
    OtherFrom(u64),
    /// It cannot be told: the epoch is none of this lineage, or the events are gone by which it
    /// could.
    Unknown,
}

/// Where a sequence of numbered events passes the ends of epochs.
#[derive(Clone, Debug)]
pub struct Trail {
    /// The first number that can be noted: what comes before it is gone.
    first: u64,
    /// An end's index, and the first number behind it: one entry where several are passed at once.
    passed: Vec<(usize, u64)>,
    /// How many ends are passed.
    passed_count: usize,
}

impl Trail {
    /// The trail of a sequence whose first number that is left is `first`.
    #[must_use]
    pub fn starting_at(first: u64) -> Trail {
        Trail { first, passed: Vec::new(), passed_count: 0 }
    }

    /// Notes that number `number` was caused by the command at `position`. To be called in order.
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

    /// The first number behind an end; nothing when there is none yet.
    fn first_behind(&self, end: usize) -> Option<u64> {
        if end >= self.passed_count {
            return None;
        }
        let after = self.passed.partition_point(|(passed, _)| *passed <= end);
        Some(self.passed[after - 1].1)
    }

    /// Holds what a reader was told against the sequence, whose next number is `next`.
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
