//! The order of the priority queue, and the pool of its events.
//!
//! An item's position stays fixed while others come and go, so that an item can be replaced in
//! place. An item that is erased leaves a hole, which a later round removes. Storage grows to its
//! peak and is reused.

use std::collections::VecDeque;
use std::num::NonZeroU32;

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
    /// The place of an item that was erased.
    const HOLE: Item = Item { slot: NONE, event: None };

    /// Returns true for the place of an item that was erased.
    pub(super) fn is_hole(self) -> bool {
        self.slot == NONE
    }
}

/// The number of an event in its pool, from 1, so that the absence of one takes no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventNo(NonZeroU32);

impl EventNo {
    fn of(index: usize) -> EventNo {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        EventNo(number.expect("bounds of queues are below 2^32"))
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

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
    /// The number of states that were frozen ahead of it.
    pub(super) frozen_count: u32,
    /// Its position.
    pub(super) position: u64,
    /// The next one that counts against the limit of the same group.
    pub(super) group_next: Option<EventNo>,
}

impl Event {
    /// Returns an event that is in no queue yet and counts against no limit.
    pub(super) fn new(entry: Entry) -> Event {
        Event {
            entry,
            is_counted: false,
            before: NONE,
            is_doomed: false,
            frozen_count: 0,
            position: 0,
            group_next: None,
        }
    }

    fn is_frozen(&self) -> bool {
        self.before != NONE
    }
}

/// The number of holes that are worth no round.
const HOLES_MIN: usize = 1_024;
/// The number of places at which a round is worth a single orphan.
const ORPHAN_PLACES_MAX: usize = 16;

/// The items in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Fifo {
    items: VecDeque<Item>,
    /// The position of the first item.
    head: u64,
    events: Vec<Event>,
    free: Vec<EventNo>,
    /// INVARIANT: the number of holes among the items, the first of which is none.
    hole_count: usize,
    /// The number of frozen states among the items.
    frozen_count: usize,
    /// INVARIANT: at least the number of orphans: frozen states whose event was skipped.
    orphan_count: usize,
    /// Places that rounds have looked at.
    looks: u64,
}

impl Fifo {
    /// Appends the slot's state; returns its position.
    pub(super) fn push_state(&mut self, slot: u32) -> u64 {
        self.items.push_back(Item { slot, event: None });
        self.head + self.items.len() as u64 - 1
    }

    /// Appends an event; returns its number.
    pub(super) fn push_event(&mut self, slot: u32, event: Event) -> EventNo {
        let position = self.head + self.items.len() as u64;
        let number = self.keep(Event { position, ..event });
        self.items.push_back(Item { slot, event: Some(number) });
        number
    }

    /// Replaces the state at a position with an event.
    pub(super) fn replace_state(&mut self, position: u64, event: Event) {
        let number = self.keep(Event { position, ..event });
        let item = self.item_mut(position);
        assert_eq!(item.event, None, "a state stands at a queued slot's position");
        item.event = Some(number);
    }

    /// Replaces the event at a position, which was taken, with its slot's state.
    pub(super) fn replace_event(&mut self, position: u64) {
        self.item_mut(position).event = None;
    }

    /// Erases the state at a position, which becomes a hole.
    pub(super) fn erase_state(&mut self, position: u64) {
        let item = self.item_mut(position);
        assert_eq!(item.event, None, "a state stands at a queued slot's position");
        self.erase(position);
    }

    /// Erases the item at a position, which becomes a hole. An event must have been taken.
    pub(super) fn erase(&mut self, position: u64) {
        *self.item_mut(position) = Item::HOLE;
        self.hole_count += 1;
        self.trim();
    }

    /// Returns the slot of the item at a position.
    pub(super) fn slot_at(&self, position: u64) -> u32 {
        self.items[(position - self.head) as usize].slot
    }

    fn item_mut(&mut self, position: u64) -> &mut Item {
        let index = position - self.head;
        self.items.get_mut(index as usize).expect("a queued item's position is here")
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

    /// Takes the event of an item that leaves the queue.
    pub(super) fn take(&mut self, number: EventNo) -> Event {
        self.free.push(number);
        let event = self.events[number.index()];
        self.frozen_count -= usize::from(event.is_frozen());
        self.orphan_count = self.orphan_count.min(self.frozen_count);
        event
    }

    /// Returns an item's event.
    pub(super) fn event(&self, number: EventNo) -> &Event {
        &self.events[number.index()]
    }

    /// Returns an item's event for modification.
    pub(super) fn event_mut(&mut self, number: EventNo) -> &mut Event {
        &mut self.events[number.index()]
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

    /// Notes that an event was skipped with so many states frozen ahead of it.
    pub(super) fn note_orphans(&mut self, count: u32) {
        self.orphan_count = (self.orphan_count + count as usize).min(self.frozen_count);
    }

    /// Returns true when states may have been frozen ahead of events that were skipped.
    pub(super) fn has_orphans(&self) -> bool {
        self.orphan_count > 0
    }

    /// Returns true when a round is worth its looks: more than half of many places are holes, or a
    /// quarter of all are orphans, or a short queue has one. So the looks of all rounds are in
    /// proportion to the items that were erased and the states that were frozen.
    pub(super) fn is_round_due(&self) -> bool {
        let places = self.items.len();
        let is_mostly_holes = self.hole_count > HOLES_MIN && 2 * self.hole_count > places;
        let orphan_places = ORPHAN_PLACES_MAX.max(4 * self.orphan_count);
        is_mostly_holes || (self.has_orphans() && places <= orphan_places)
    }

    /// Returns the number of places that rounds have looked at.
    pub(super) fn looks(&self) -> u64 {
        self.looks
    }

    /// Removes the first item or hole, so that the caller can decide whether it stays. A round
    /// makes [`Fifo::place_count`] calls, each followed by [`Fifo::put_back`] or not, a hole's
    /// never, and one of [`Fifo::end_round`]. Positions change.
    pub(super) fn turn(&mut self) -> Item {
        self.looks += 1;
        self.items.pop_front().expect("called as often as there are items")
    }

    /// Puts the item taken by [`Fifo::turn`] back, in its order; `kept` is the number of items of
    /// this round put back before. Returns its new position.
    pub(super) fn put_back(&mut self, item: Item, kept: u64) -> u64 {
        self.items.push_back(item);
        self.head + kept
    }

    /// Ends a round, which has removed all holes and orphans.
    pub(super) fn end_round(&mut self) {
        (self.hole_count, self.orphan_count) = (0, 0);
    }

    /// Drops all items and the storage.
    pub(super) fn clear(&mut self) {
        let head = self.head + self.items.len() as u64;
        *self = Fifo { head, looks: self.looks, ..Fifo::default() };
    }

    fn keep(&mut self, event: Event) -> EventNo {
        self.frozen_count += usize::from(event.is_frozen());
        if let Some(number) = self.free.pop() {
            self.events[number.index()] = event;
            return number;
        }
        self.events.push(event);
        EventNo::of(self.events.len() - 1)
    }
}
