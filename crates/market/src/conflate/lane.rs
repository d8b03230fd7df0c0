//! Lanes: the slots whose interval is running, in the order in which they were last sent.
//!
//! All slots of a lane have the same interval, so the first one's ends first: the timer looks at
//! the heads only, and each step costs the same for any number of slots. A slot is added when it is
//! sent, not when it changes; that preserves the order. The slots of a lane that have changed since
//! are the throttle queue.

use weir_types::Nanos;

use super::slot::{NONE, Slot};

/// A doubly linked list through the slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    pub(super) interval: Nanos,
    /// Groups that use the lane; a lane without any is reused.
    pub(super) group_count: u32,
    first: u32,
    last: u32,
}

impl Lane {
    pub(super) fn new(interval: Nanos) -> Lane {
        Lane { interval, group_count: 0, first: NONE, last: NONE }
    }

    /// Returns the slot that was sent longest ago.
    pub(super) fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// Returns the end of a slot's interval.
    pub(super) fn due(&self, slot: &Slot) -> Nanos {
        Nanos(slot.sent_at.0.saturating_add(self.interval.0))
    }

    /// Returns the end of the first slot's interval.
    pub(super) fn next_due(&self, slots: &[Slot]) -> Option<Nanos> {
        self.first().map(|first| self.due(&slots[first as usize]))
    }

    /// Appends a slot that is in no lane.
    pub(super) fn push(&mut self, slots: &mut [Slot], index: u32) {
        let slot = &mut slots[index as usize];
        assert!(!slot.is_in_lane, "a slot is in one lane at most");
        (slot.is_in_lane, slot.previous, slot.next) = (true, self.last, NONE);
        match self.last {
            NONE => self.first = index,
            last => slots[last as usize].next = index,
        }
        self.last = index;
    }

    /// Removes a slot of this lane.
    pub(super) fn unlink(&mut self, slots: &mut [Slot], index: u32) {
        let slot = &mut slots[index as usize];
        assert!(slot.is_in_lane, "only what is in a lane is taken out");
        slot.is_in_lane = false;
        let (previous, next) = (slot.previous, slot.next);
        match previous {
            NONE => self.first = next,
            previous => slots[previous as usize].next = next,
        }
        match next {
            NONE => self.last = previous,
            next => slots[next as usize].previous = previous,
        }
    }
}
