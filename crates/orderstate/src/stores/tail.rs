//! The newest entries of a source, in memory and in bounds: what replicas are given while they keep
//! up.
//!
//! Positions only grow. They are dense but where the source is a log that is followed: there an
//! entry stands for some of its records and has the position of the last.

use std::collections::VecDeque;

use weir_types::Position;

/// Bytes of entries that are kept.
const TAIL_BYTES: usize = 16 << 20;

/// The newest entries of a source.
#[derive(Debug)]
pub struct EntryTail {
    entries: VecDeque<(Position, Vec<u8>)>,
    bytes: usize,
    /// The position of the newest one, and of the last one before those that are kept.
    last: Position,
    before: Position,
}

impl EntryTail {
    /// Nothing yet, after position `last`.
    #[must_use]
    pub fn new(last: Position) -> EntryTail {
        EntryTail { entries: VecDeque::new(), bytes: 0, last, before: last }
    }

    /// Takes the next entry, and lets the oldest ones go.
    pub fn push(&mut self, entry: Vec<u8>) {
        self.push_at(self.last.next(), entry);
    }

    /// Takes an entry that stands for all positions up to this one.
    ///
    /// # Panics
    /// When it is not after the last one.
    pub fn push_at(&mut self, position: Position, entry: Vec<u8>) {
        assert!(position > self.last, "entry {position} after {}", self.last);
        self.bytes += entry.len();
        self.entries.push_back((position, entry));
        self.last = position;
        while self.bytes > TAIL_BYTES
            && let Some((position, oldest)) = self.entries.pop_front()
        {
            self.bytes -= oldest.len();
            self.before = position;
        }
    }

    /// The position of the newest entry.
    #[must_use]
    pub fn last(&self) -> Position {
        self.last
    }

    /// The entries after a position; `None` when some of them are gone, or it is none of these.
    pub fn after(&self, position: Position) -> Option<impl Iterator<Item = &(Position, Vec<u8>)>> {
        let is_kept = (self.before..=self.last).contains(&position);
        let first = self.entries.partition_point(|(at, _)| *at <= position);
        is_kept.then(|| self.entries.range(first..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(tail: &EntryTail, after: u64) -> Option<Vec<u64>> {
        Some(tail.after(Position(after))?.map(|(position, _)| position.0).collect())
    }

    #[test]
    fn what_comes_after_a_position_is_given_as_long_as_all_of_it_is_kept() {
        let mut tail = EntryTail::new(Position(10));
        assert_eq!(positions(&tail, 10), Some(vec![]));
        tail.push(vec![0; 100]);
        tail.push_at(Position(20), vec![0; 100]);
        tail.push(vec![0; TAIL_BYTES - 150]);
        assert_eq!(tail.last(), Position(21));
        // The first one had to go, and what is told of it with it.
        assert_eq!(positions(&tail, 10), None);
        assert_eq!(positions(&tail, 11), Some(vec![20, 21]));
        // A position within an entry: all of that entry, since it cannot be told apart.
        assert_eq!(positions(&tail, 15), Some(vec![20, 21]));
        assert_eq!(positions(&tail, 21), Some(vec![]));
        assert_eq!(positions(&tail, 22), None);
    }
}
