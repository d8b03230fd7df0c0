//! The newest entries of a source, in bounded memory: sent to replicas that keep up.
//!
//! Positions only increase. They are dense, except for a source that is a followed log: there an
//! entry stands for several records and has the position of the last.

use std::collections::VecDeque;

use weir_types::Position;

/// The number of bytes of entries that are kept.
const TAIL_BYTES: usize = 16 << 20;

/// The newest entries of a source.
#[derive(Debug)]
pub struct EntryTail {
    entries: VecDeque<(Position, Vec<u8>)>,
    bytes: usize,
    /// The position of the newest entry, and of the last entry before the kept ones.
    last: Position,
    before: Position,
}

impl EntryTail {
    /// Returns an empty tail after position `last`.
    #[must_use]
    pub fn new(last: Position) -> EntryTail {
        EntryTail { entries: VecDeque::new(), bytes: 0, last, before: last }
    }

    /// Appends the next entry, and drops the oldest ones.
    pub fn push(&mut self, entry: Vec<u8>) {
        self.push_at(self.last.next(), entry);
    }

    /// Appends an entry that stands for all positions up to this one.
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

    /// Returns the position of the newest entry.
    #[must_use]
    pub fn last(&self) -> Position {
        self.last
    }

    /// Returns the entries after a position; `None` when some are dropped, or the position is
    /// invalid.
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
        // The first entry was dropped, so position 10 is no longer served.
        assert_eq!(positions(&tail, 10), None);
        assert_eq!(positions(&tail, 11), Some(vec![20, 21]));
        // A position within an entry returns the whole entry, since an entry is indivisible.
        assert_eq!(positions(&tail, 15), Some(vec![20, 21]));
        assert_eq!(positions(&tail, 21), Some(vec![]));
        assert_eq!(positions(&tail, 22), None);
    }
}
