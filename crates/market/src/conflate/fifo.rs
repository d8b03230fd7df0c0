//! The priority queue's order, and the events that lie in it.
//!
//! Items have positions that stay as they are while others come and go, so that an item can be
//! exchanged where it stands. Storage grows to its peak and is used again.

use std::collections::VecDeque;

use super::entry::Entry;

/// An item of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// Whose.
    pub(super) slot: u32,
    /// Which event; `None` for the slot's state as it will be when the item's turn comes.
    pub(super) event: Option<EventNo>,
}

/// An event's place in its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventNo(u32);

/// An event as it lies in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    /// What it says.
    pub(super) entry: Entry,
    /// It counts against its group's bound.
    pub(super) is_counted: bool,
    /// A state that was put before an event of this slot; else [`super::slot::NONE`].
    pub(super) before: u32,
    /// It is about to be thrown out.
    pub(super) is_doomed: bool,
}

/// Items in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Fifo {
    items: VecDeque<Item>,
    /// The first item's position.
    head: u64,
    events: Vec<Event>,
    free: Vec<u32>,
}

impl Fifo {
    /// The slot's state goes to the end; returns its position.
    pub(super) fn push_state(&mut self, slot: u32) -> u64 {
        self.items.push_back(Item { slot, event: None });
        self.head + self.items.len() as u64 - 1
    }

    /// An event goes to the end.
    pub(super) fn push_event(&mut self, slot: u32, event: Event) {
        let event = Some(self.keep(event));
        self.items.push_back(Item { slot, event });
    }

    /// An event takes the place of the state at a position.
    pub(super) fn replace_state(&mut self, position: u64, event: Event) {
        let event = self.keep(event);
        let index = position - self.head;
        let item = self.items.get_mut(index as usize).expect("a queued slot's position is here");
        assert_eq!(item.event, None, "a state stands at a queued slot's position");
        item.event = Some(event);
    }

    /// The first item.
    pub(super) fn pop(&mut self) -> Option<Item> {
        let item = self.items.pop_front()?;
        self.head += 1;
        Some(item)
    }

    /// An event of an item that is no longer in the queue.
    pub(super) fn take(&mut self, event: EventNo) -> Event {
        self.free.push(event.0);
        self.events[event.0 as usize]
    }

    /// What an item's event is, without taking it.
    pub(super) fn event(&self, event: EventNo) -> &Event {
        &self.events[event.0 as usize]
    }

    /// The same, to be changed.
    pub(super) fn event_mut(&mut self, event: EventNo) -> &mut Event {
        &mut self.events[event.0 as usize]
    }

    /// The item at a place from the front.
    pub(super) fn get(&self, index: usize) -> Item {
        self.items[index]
    }

    /// The first item, which stays.
    pub(super) fn first(&self) -> Option<Item> {
        self.items.front().copied()
    }

    /// Items in the queue.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Takes the first item to decide whether it stays; to be called [`Fifo::len`] times, each with
    /// [`Fifo::put_back`] or not. Positions change.
    pub(super) fn turn(&mut self) -> Item {
        self.items.pop_front().expect("called as often as there are items")
    }

    /// The item taken by [`Fifo::turn`] stays, in its order: `kept` items of this round did before.
    /// Returns its position from now on.
    pub(super) fn put_back(&mut self, item: Item, kept: u64) -> u64 {
        self.items.push_back(item);
        self.head + kept
    }

    /// Throws all away, and the storage.
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
