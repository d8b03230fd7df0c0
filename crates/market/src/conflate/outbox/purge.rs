//! Purges of an outbox's priority queue: the events of a group that skips, and the items of removed
//! slots.
//!
//! This is the only work here that grows with the queue. It runs when a queue is full, once for all
//! its events; behind the end of subscriptions that had events queued; and when most of the queue
//! are holes.

use super::super::entry::{Entry, Kind, MergedChanges};
use super::super::fifo::{EventNo, Item};
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
        self.purge(true, |slot| slot.group == group);
    }

    /// Purges the queue of selected slots: with `leaves_gaps` of their counted events, the first of
    /// which becomes its slot's gap; else of all their items. A frozen state that preceded only
    /// purged events is merged with the slot's next entry, so that the queue holds no more than
    /// counted events and states.
    pub(super) fn purge(&mut self, leaves_gaps: bool, is_out: impl Fn(&Slot) -> bool) {
        self.judge_frozen(leaves_gaps, &is_out);
        let mut kept = 0;
        for turned in 1..=self.fifo.place_count() {
            let mut item = self.fifo.turn();
            if item.is_hole() {
                continue;
            }
            let is_slot_out = is_out(&self.slots[item.slot as usize]);
            if let Some(event_no) = item.event {
                let event = *self.fifo.event(event_no);
                let is_item_out = is_slot_out && (event.is_counted || !leaves_gaps);
                if is_item_out || event.is_doomed {
                    self.drop_event(item);
                    if !is_item_out {
                        self.carry(item.slot, &event.entry);
                        continue;
                    }
                    if leaves_gaps && self.has_state_behind(item.slot, turned) {
                        self.carry(item.slot, &event.entry);
                        continue;
                    }
                    if !leaves_gaps || !self.begin_gap(item.slot, &event.entry) {
                        continue;
                    }
                    item.event = None;
                } else {
                    self.follow(&item, NONE);
                    self.put_down(item.slot, event_no);
                }
            } else if is_slot_out && !leaves_gaps {
                let slot = &mut self.slots[item.slot as usize];
                (slot.place, slot.item_count) = (SlotState::Clean, slot.item_count - 1);
                continue;
            }
            let position = self.fifo.put_back(item, kept);
            kept += 1;
            if item.event.is_none() {
                self.slots[item.slot as usize].place = SlotState::Queued(position);
            }
        }
        self.fifo.end_round();
        self.merge_carried();
    }

    /// Decides, from the end of the queue to its beginning, which of the states frozen ahead of
    /// purged events still precede an event that stays. Dooms the others.
    fn judge_frozen(&mut self, leaves_gaps: bool, is_out: &impl Fn(&Slot) -> bool) {
        for index in (0..self.fifo.place_count()).rev() {
            let item = self.fifo.get(index);
            if item.is_hole() {
                continue;
            }
            let slot = &mut self.slots[item.slot as usize];
            let followed_by = std::mem::replace(&mut slot.followed_by, NONE);
            let is_slot_out = is_out(slot);
            let Some(event_no) = item.event else { continue };
            let event = self.fifo.event_mut(event_no);
            if event.before != NONE && is_out(&self.slots[event.before as usize]) {
                event.is_doomed = followed_by == NONE;
                event.before = followed_by;
            }
            if !is_slot_out || (leaves_gaps && !event.is_counted) {
                self.follow(&item, item.slot);
            }
        }
    }

    /// Records a trade or status as the follower of its siblings, or clears that.
    fn follow(&mut self, item: &Item, followed_by: u32) {
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

    fn drop_event(&mut self, item: Item) {
        let slot = &mut self.slots[item.slot as usize];
        slot.item_count -= 1;
        let group = slot.group;
        let event = item.event.expect("the caller has seen the event");
        if self.fifo.take(event).is_counted {
            self.group_mut(group).queued -= 1;
        }
    }

    /// True when the slot's state is behind the first `turned` items: the snapshot after an earlier
    /// gap, whose changes are later than those of an event among them.
    fn has_state_behind(&self, index: u32, turned: usize) -> bool {
        let place = self.slots[index as usize].place;
        matches!(place, SlotState::Queued(position) if self.fifo.is_behind(position, turned))
    }

    /// Adds an event to its slot's gap. Returns true when the gap is new and needs the event's
    /// item.
    fn begin_gap(&mut self, index: u32, entry: &Entry) -> bool {
        let slot = &mut self.slots[index as usize];
        slot.merged = slot.merged.and(entry.merged);
        slot.owes_snapshot |= entry.is_snapshot;
        if matches!(slot.place, SlotState::Queued(_)) {
            return false;
        }
        slot.item_count += 1;
        true
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
