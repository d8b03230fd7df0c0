//! The newest entries of a source, in memory and in bounds: what replicas are given while they keep
//! up.

use std::collections::VecDeque;

use weir_types::Position;

/// Bytes of entries that are kept.
const TAIL_BYTES: usize = 16 << 20;

/// The newest entries of a source.
#[derive(Debug)]
pub struct EntryTail {
    entries: VecDeque<Vec<u8>>,
    bytes: usize,
    /// The position of the newest one; of the last one before, when there is none.
    last: Position,
}

impl EntryTail {
    /// Nothing yet, after position `last`.
    #[must_use]
    pub fn new(last: Position) -> EntryTail {
        EntryTail { entries: VecDeque::new(), bytes: 0, last }
    }

    /// Takes the next entry, and lets the oldest ones go.
    pub fn push(&mut self, entry: Vec<u8>) {
        self.bytes += entry.len();
        self.entries.push_back(entry);
        self.last = self.last.next();
        while self.bytes > TAIL_BYTES
            && let Some(oldest) = self.entries.pop_front()
        {
            self.bytes -= oldest.len();
        }
    }

    /// The position of the newest entry.
    #[must_use]
    pub fn last(&self) -> Position {
        self.last
    }

    /// The entries after a position; `None` when some of them are gone, or it is none of these.
    pub fn after(&self, position: Position) -> Option<impl Iterator<Item = &Vec<u8>>> {
        let missing = self.last.0.checked_sub(position.0)?;
        let missing = usize::try_from(missing).ok().filter(|n| *n <= self.entries.len())?;
        Some(self.entries.range(self.entries.len() - missing..))
    }
}
