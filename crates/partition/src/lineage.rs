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
use weir_types::state_bytes::{StateBytes, put_number};
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

    /// Returns the epochs.
    #[must_use]
    pub fn epochs(&self) -> &Epochs<Position> {
        &self.epochs
    }

    /// Appends the lineage's state.
    pub fn put_state(&self, out: &mut Vec<u8>) {
        put_number(out, self.known_from.0);
        put_number(out, u64::from(self.epochs.current().0));
        put_number(out, self.ended_count() as u64);
        for (epoch, survives_to) in self.epochs.ended() {
            put_number(out, u64::from(epoch.0));
            put_number(out, survives_to.0);
        }
    }

    /// Reads a lineage's state; `None` when it is none.
    pub fn from_state(state: &mut StateBytes<'_>) -> Option<Lineage> {
        let known_from = Position(state.number()?);
        let current = Epoch(state.narrow()?);
        let mut ended = Vec::new();
        for _ in 0..state.count()? {
            ended.push((Epoch(state.narrow()?), Position(state.number()?)));
        }
        let epochs = ended.iter().map(|(epoch, _)| *epoch).chain([current]);
        epochs.is_sorted_by(|one, next| one < next).then(|| Lineage {
            epochs: Epochs::with_ended(current, ended.iter().copied()),
            known_from,
        })
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

    /// Appends the trail's state.
    pub fn put_state(&self, out: &mut Vec<u8>) {
        put_number(out, self.first);
        put_number(out, self.passed_count as u64);
        put_number(out, self.passed.len() as u64);
        for (end, number) in &self.passed {
            put_number(out, *end as u64);
            put_number(out, *number);
        }
    }

    /// Reads a trail's state; `None` when it is none of this lineage.
    pub fn from_state(state: &mut StateBytes<'_>, lineage: &Lineage) -> Option<PassedEnds> {
        let (first, passed_count) = (state.number()?, state.narrow()?);
        let mut passed: Vec<(usize, u64)> = Vec::new();
        for _ in 0..state.count()? {
            passed.push((state.narrow()?, state.number()?));
        }
        let begins_at_zero = passed.first().is_none_or(|(end, _)| *end == 0);
        let ascends = passed.is_sorted_by(|one, next| one.0 < next.0 && one.1 <= next.1);
        let is_within = passed.last().map_or(passed_count == 0, |(end, _)| *end < passed_count);
        (begins_at_zero && ascends && is_within && passed_count <= lineage.ended_count())
            .then_some(PassedEnds { first, passed, passed_count })
    }

    /// Returns true when it can be the trail of a sequence whose next number is `next`.
    #[must_use]
    pub fn is_before(&self, next: u64) -> bool {
        let is_noted_before = self.passed.last().is_none_or(|(_, number)| *number < next);
        (1..=next).contains(&self.first) && is_noted_before
    }

    /// Returns the first number behind the end of an index among the ended epochs; `None` when
    /// there is none yet.
    #[must_use]
    pub fn first_behind(&self, end: usize) -> Option<u64> {
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
