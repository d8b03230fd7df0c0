//! The saving of the table of subscriptions: the times and the slots.
//!
//! Changes are counted. A change is saved when a table that was made after it is on the medium.
//! INVARIANT: the slot that is written is never the one with the newest saved table.

use weir_io::FileId;
use weir_types::Nanos;

use crate::plant::{self, Plant};

/// A change of the table; `Broker::is_saved` tells whether it is saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change(pub(crate) u64);

/// The state of saving the table.
#[derive(Debug)]
pub(crate) struct Saver {
    slots: [FileId; 2],
    /// The slot to write next.
    next: usize,
    /// The generation of the newest saved table.
    pub(crate) generation: u64,
    changes: u64,
    /// The newest change that a client waits for.
    awaited: u64,
    saved: u64,
    saved_at: Nanos,
    /// The table being written: its last change, and the bytes that the disk has taken.
    sent: Option<(u64, usize)>,
    full_until: Option<Nanos>,
}

impl Saver {
    pub(crate) fn new(slots: [FileId; 2], next: usize, generation: u64) -> Saver {
        Saver {
            slots,
            next,
            generation,
            changes: 0,
            awaited: 0,
            saved: 0,
            saved_at: Nanos(0),
            sent: None,
            full_until: None,
        }
    }

    /// Counts a change that may be saved later.
    pub(crate) fn changed(&mut self) -> Change {
        self.changes += 1;
        Change(self.changes)
    }

    /// Counts a change that must be saved at once.
    pub(crate) fn changed_now(&mut self) -> Change {
        let change = self.changed();
        self.awaited = change.0;
        change
    }

    /// Returns the last change up to which all are saved.
    pub(crate) fn saved(&self) -> u64 {
        self.saved
    }

    pub(crate) fn is_due(&self, now: Nanos, every: Nanos) -> bool {
        let is_awaited = self.awaited > self.saved;
        let is_old = self.changes > self.saved && now.since(self.saved_at) >= every;
        self.sent.is_none()
            && self.full_until.is_none_or(|until| now >= until)
            && (is_awaited || is_old)
    }

    /// Begins to save all changes so far; returns the file to write.
    pub(crate) fn send(&mut self) -> FileId {
        self.sent = Some((self.changes, 0));
        self.full_until = None;
        self.slots[self.next]
    }

    /// Counts bytes that the disk took; returns the total, and the file.
    pub(crate) fn took(&mut self, bytes: usize) -> (usize, FileId) {
        let (_, from) = self.sent.as_mut().expect("a table is on its way");
        *from += bytes;
        (*from, self.slots[self.next])
    }

    /// Records that the table is on the medium; returns its last change.
    pub(crate) fn done(&mut self, now: Nanos) -> u64 {
        let (change, _) = self.sent.take().expect("a table is on its way");
        self.saved = change;
        self.saved_at = now;
        self.generation += 1;
        if !plant::is(Plant::OneSlotOnly) {
            self.next = 1 - self.next;
        }
        change
    }

    /// Records that there was no room for the table.
    pub(crate) fn full(&mut self, until: Nanos) {
        self.sent = None;
        self.full_until = Some(until);
    }

    /// Allows another attempt: there may be room again.
    pub(crate) fn try_again(&mut self) {
        self.full_until = None;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.full_until.is_some()
    }
}
