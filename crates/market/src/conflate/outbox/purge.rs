//! Purges of an outbox's priority queue: the events of a group that skips, the items of removed
//! slots, and states that were frozen ahead of purged events.
//!
//! A skip looks at the group's own events alone. [`Outbox::purge`] looks at the whole queue: behind
//! the end of subscriptions that had events queued, and when enough places are holes or orphans,
//! states that were frozen ahead of skipped events. Until then an orphan stays in its place and is
//! sent as it was.

use super::super::entry::{Entry, Kind, MergedChanges};
use super::super::fifo::{Event, EventNo, Item};
use super::super::slot::{NONE, Slot};
use super::super::step::SlotState;
use super::Outbox;

/// The changes of a slot's dropped items, and whether one of them was marked as snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    slot: u32,
    merged: MergedChanges,
    is_snapshot: bool,
}

impl Outbox {
    /// Turns each of the group's queued events into part of its slot's gap, which takes the
    /// position of the slot's first event.
    pub(super) fn skip(&mut self, group: u32) {
        let mut next = self.group_mut(group).take_events();
        while let Some(number) = next {
            let event = self.fifo.take(number);
            next = event.group_next;
            self.skip_event(&event);
        }
        self.merge_carried();
        if self.fifo.is_round_due() {
            self.purge(|_| false);
        }
    }

    fn skip_event(&mut self, event: &Event) {
        let Event { entry, position, frozen_count, .. } = event;
        self.fifo.note_orphans(*frozen_count);
        let index = self.fifo.slot_at(*position);
        let slot = &mut self.slots[index as usize];
        match slot.place {
            // The snapshot after an earlier gap is behind the event and has later changes.
            SlotState::Queued(state) if state > *position => {
                slot.item_count -= 1;
                self.carry(index, entry);
                self.fifo.erase(*position);
            }
            SlotState::Queued(_) => {
                slot.item_count -= 1;
                slot.lose(entry);
                self.fifo.erase(*position);
            }
            SlotState::Clean | SlotState::Waiting => {
                slot.lose(entry);
                slot.place = SlotState::Queued(*position);
                self.fifo.replace_event(*position);
            }
        }
    }

    /// Purges the queue of holes, of all items of selected slots, and of frozen states that precede
    /// none but purged events. These are merged with their slot's next entry, so that the queue
    /// holds no more than counted events and states, and orphans up to a third of these.
    pub(super) fn purge(&mut self, is_out: impl Fn(&Slot) -> bool) {
        self.judge_frozen(&is_out);
        let mut kept = 0;
        for _ in 0..self.fifo.place_count() {
            let item = self.fifo.turn();
            if item.is_hole() {
                continue;
            }
            let is_slot_out = is_out(&self.slots[item.slot as usize]);
            let is_doomed = item.event.is_some_and(|number| self.fifo.event(number).is_doomed);
            if is_slot_out || is_doomed {
                self.drop_item(item, is_slot_out);
                continue;
            }
            let position = self.fifo.put_back(item, kept);
            kept += 1;
            match item.event {
                Some(number) => self.keep_event(&item, number, position),
                None => self.slots[item.slot as usize].place = SlotState::Queued(position),
            }
        }
        self.fifo.end_round();
        self.merge_carried();
    }

    /// Decides, from the end of the queue to its beginning, which of the states frozen ahead of
    /// purged events still precede an event that stays. Dooms the others. Empties the groups' lists
    /// of events.
    fn judge_frozen(&mut self, is_out: &impl Fn(&Slot) -> bool) {
        let has_orphans = self.fifo.has_orphans();
        for index in (0..self.fifo.place_count()).rev() {
            let item = self.fifo.get(index);
            if item.is_hole() {
                continue;
            }
            let slot = &mut self.slots[item.slot as usize];
            let followed_by = slot.followed_by.take();
            let (group, is_slot_out) = (slot.group, is_out(slot));
            let Some(number) = item.event else { continue };
            let event = self.fifo.event_mut(number);
            let before = event.before;
            if event.is_counted {
                // Those that are attached to it are counted anew, if all are judged.
                event.frozen_count = if has_orphans { 0 } else { event.frozen_count };
                self.group_mut(group).take_events();
            }
            // An orphan's event is gone, and its slot perhaps another instrument's.
            if before != NONE && (has_orphans || is_out(&self.slots[before as usize])) {
                self.attach(number, followed_by);
            }
            if !is_slot_out {
                self.follow(&item, Some(number));
            }
        }
    }

    /// Attaches a frozen state to the event that it precedes, or dooms it.
    fn attach(&mut self, frozen: EventNo, followed_by: Option<EventNo>) {
        let Some(follower) = followed_by else {
            self.fifo.event_mut(frozen).is_doomed = true;
            return;
        };
        let event = self.fifo.event_mut(follower);
        event.frozen_count += 1;
        let position = event.position;
        self.fifo.event_mut(frozen).before = self.fifo.slot_at(position);
    }

    /// Records a trade or status as the follower of its siblings, or clears that.
    fn follow(&mut self, item: &Item, followed_by: Option<EventNo>) {
        let slot = &self.slots[item.slot as usize];
        let is_event = item.event.is_some_and(|event| self.fifo.event(event).is_counted);
        // A removed slot is in no ring any more, and nothing of it is sent.
        if !is_event || slot.is_removed || !matches!(slot.kind, Kind::Trades | Kind::Status) {
            return;
        }
        let mut sibling = slot.sibling;
        while sibling != item.slot {
            let slot = &mut self.slots[sibling as usize];
            slot.followed_by = followed_by;
            sibling = slot.sibling;
        }
    }

    /// Drops an item. The changes of a slot that stays are carried over to its next entry.
    fn drop_item(&mut self, item: Item, is_slot_out: bool) {
        let slot = &mut self.slots[item.slot as usize];
        slot.item_count -= 1;
        let Some(number) = item.event else {
            slot.place = SlotState::Clean;
            return;
        };
        let event = self.fifo.take(number);
        if !is_slot_out {
            self.carry(item.slot, &event.entry);
        }
    }

    /// Gives an event that stays its new position, its slot's carried changes, and its place in its
    /// group's list.
    fn keep_event(&mut self, item: &Item, number: EventNo, position: u64) {
        self.follow(item, None);
        self.put_down(item.slot, number);
        let event = self.fifo.event_mut(number);
        (event.position, event.group_next) = (position, None);
        if event.is_counted {
            let group = self.slots[item.slot as usize].group;
            self.link_last(group, number);
        }
    }

    /// Carries the changes of a dropped item over to the slot's next entry.
    fn carry(&mut self, index: u32, entry: &Entry) {
        let slot = &mut self.slots[index as usize];
        if slot.carried_at == NONE {
            slot.carried_at = self.carrying.len() as u32;
            let merged = MergedChanges::default();
            self.carrying.push(Carried { slot: index, merged, is_snapshot: false });
        }
        let carried = &mut self.carrying[slot.carried_at as usize];
        carried.merged = carried.merged.and(entry.merged);
        carried.is_snapshot |= entry.is_snapshot;
    }

    /// Merges a slot's carried changes into one of its events.
    fn put_down(&mut self, index: u32, event: EventNo) {
        let carried_at = std::mem::replace(&mut self.slots[index as usize].carried_at, NONE);
        if carried_at != NONE {
            let Carried { merged, is_snapshot, .. } = self.carrying[carried_at as usize];
            let entry = &mut self.fifo.event_mut(event).entry;
            entry.merged = merged.and(entry.merged);
            entry.is_snapshot |= is_snapshot;
        }
    }

    fn merge_carried(&mut self) {
        while let Some(Carried { slot: index, merged, is_snapshot }) = self.carrying.pop() {
            let slot = &mut self.slots[index as usize];
            // Otherwise an event of the slot has taken them.
            if slot.carried_at as usize != self.carrying.len() {
                continue;
            }
            slot.carried_at = NONE;
            if slot.is_removed {
                continue;
            }
            slot.merged = merged.and(slot.merged);
            slot.is_snapshot_due |= is_snapshot;
            // The state had already left the throttle queue, so it does not wait again.
            if !matches!(slot.place, SlotState::Queued(_)) {
                self.queue_state(index);
            }
        }
    }
}
