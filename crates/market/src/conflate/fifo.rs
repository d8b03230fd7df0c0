//! The order of the priority queue, and the pool of its events.
//!
//! An item's position stays fixed while others come and go, so that an item can be replaced in
//! place. A state that is erased leaves a hole, which a later round removes. Storage grows to its
//! peak and is reused.

use std::collections::VecDeque;

use super::entry::Entry;
use super::slot::NONE;

/// An item of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// The slot of the item.
    pub(super) slot: u32,
    /// The event; `None` for the slot's state as of the time the item is popped.
    pub(super) event: Option<EventNo>,
}

impl Item {
    /// The place of a state that was erased.
    const HOLE: Item = Item { slot: NONE, event: None };

    /// Returns true for the place of a state that was erased.
    pub(super) fn is_hole(self) -> bool {
        self.slot == NONE
    }
}

/// The index of an event in its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventNo(u32);

/// A queued event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    /// The content.
    pub(super) entry: Entry,
    /// True when it counts against its group's limit.
    pub(super) is_counted: bool,
    /// For a state frozen ahead of an event, the slot of that event; else [`super::slot::NONE`].
    pub(super) before: u32,
    /// True when a purge is about to drop it.
    pub(super) is_doomed: bool,
}

/// The number of holes that are worth no round.
const HOLES_MIN: usize = 1_024;

/// The items in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Fifo {
    items: VecDeque<Item>,
    /// The position of the first item.
    head: u64,
    events: Vec<Event>,
    free: Vec<u32>,
    /// INVARIANT: the number of holes among the items, the first of which is none.
    hole_count: usize,
}

impl Fifo {
    /// Appends the slot's state; returns its position.
    pub(super) fn push_state(&mut self, slot: u32) -> u64 {
        self.items.push_back(Item { slot, event: None });
        self.head + self.items.len() as u64 - 1
    }

    /// Appends an event.
    pub(super) fn push_event(&mut self, slot: u32, event: Event) {
        let event = Some(self.keep(event));
        self.items.push_back(Item { slot, event });
    }

    /// Replaces the state at a position with an event.
    pub(super) fn replace_state(&mut self, position: u64, event: Event) {
        let event = self.keep(event);
        let index = position - self.head;
        let item = self.items.get_mut(index as usize).expect("a queued slot's position is here");
        assert_eq!(item.event, None, "a state stands at a queued slot's position");
        item.event = Some(event);
    }

    /// Erases the state at a position, which becomes a hole.
    pub(super) fn erase_state(&mut self, position: u64) {
        let index = position - self.head;
        let item = self.items.get_mut(index as usize).expect("a queued slot's position is here");
        assert_eq!(item.event, None, "a state stands at a queued slot's position");
        *item = Item::HOLE;
        self.hole_count += 1;
        self.trim();
    }

    /// Removes and returns the first item.
    pub(super) fn pop(&mut self) -> Option<Item> {
        let item = self.items.pop_front()?;
        self.head += 1;
        self.trim();
        Some(item)
    }

    fn trim(&mut self) {
        while self.items.front().is_some_and(|item| item.is_hole()) {
            self.items.pop_front();
            self.head += 1;
            self.hole_count -= 1;
        }
    }

    /// Takes the event of an item that has left the queue.
    pub(super) fn take(&mut self, event: EventNo) -> Event {
        self.free.push(event.0);
        self.events[event.0 as usize]
    }

    /// Returns an item's event.
    pub(super) fn event(&self, event: EventNo) -> &Event {
        &self.events[event.0 as usize]
    }

    /// Returns an item's event for modification.
    pub(super) fn event_mut(&mut self, event: EventNo) -> &mut Event {
        &mut self.events[event.0 as usize]
    }

    /// Returns the item at an index from the front, a hole or not.
    pub(super) fn get(&self, index: usize) -> Item {
        self.items[index]
    }

    /// Returns the first item and leaves it in the queue.
    pub(super) fn first(&self) -> Option<Item> {
        self.items.front().copied()
    }

    /// Returns the number of items in the queue.
    pub(super) fn len(&self) -> usize {
        self.items.len() - self.hole_count
    }

    /// Returns the number of places, those of items and holes.
    pub(super) fn place_count(&self) -> usize {
        self.items.len()
    }

    /// Returns true when more than half of many places are holes.
    pub(super) fn is_mostly_holes(&self) -> bool {
        self.hole_count > HOLES_MIN && 2 * self.hole_count > self.items.len()
    }

    /// Removes the first item or hole, so that the caller can decide whether it stays. A round
    /// makes [`Fifo::place_count`] calls, each followed by [`Fifo::put_back`] or not, a hole's
    /// never, and one of [`Fifo::end_round`]. Positions change.
    pub(super) fn turn(&mut self) -> Item {
        self.items.pop_front().expect("called as often as there are items")
    }

    /// Puts the item taken by [`Fifo::turn`] back, in its order; `kept` is the number of items of
    /// this round put back before. Returns its new position.
    pub(super) fn put_back(&mut self, item: Item, kept: u64) -> u64 {
        self.items.push_back(item);
        self.head + kept
    }

    /// Ends a round, which has removed all holes.
    pub(super) fn end_round(&mut self) {
        self.hole_count = 0;
    }

    /// True when `turned` calls of [`Fifo::turn`] in this round have not reached this position.
    pub(super) fn is_behind(&self, position: u64, turned: usize) -> bool {
        position >= self.head + turned as u64
    }

    /// Drops all items and the storage.
    pub(super) fn clear(&mut self) {
        *self = Fifo { head: self.head + self.items.len() as u64, ..Fifo::default() };
    }

    fn keep(&mut self, event: Event) -> EventNo {
        if let Some(index) = self.free.pop() {
            self.events[index as usize] = event;
            return EventNo(index);
        }
        self.events.push(event);
        EventNo(u32::try_from(self.events.len() - 1).expect("bounds of queues are below 2^32"))
    }
}
