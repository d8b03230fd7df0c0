//! Throwing things out of an outbox's priority queue: of a group that skips, of slots that end.
//!
//! The only work here that grows with the queue. It is done when a queue is full, once for all that
//! is in it, or when a subscription ends.

use super::super::entry::{Entry, Kind};
use super::super::fifo::{EventNo, Item};
use super::super::slot::{NONE, Slot};
use super::super::step::Place;
use super::Outbox;

impl Outbox {
    /// Each of the group's events in the queue becomes part of its slot's gap, which stands where
    /// the slot's first one stood.
    pub(super) fn skip(&mut self, group: u32) {
        self.purge(true, |slot| slot.group == group);
    }

    /// Throws out of the queue what is of slots that are out: with `leaves_gaps` their counted
    /// events, of which each slot's first becomes its gap, else everything. A state that was put
    /// before what is thrown out, and before nothing else, is merged with what comes after it, so
    /// that no more lies in the queue than what counts against a bound, and states.
    pub(super) fn purge(&mut self, leaves_gaps: bool, is_out: impl Fn(&Slot) -> bool) {
        self.judge_frozen(leaves_gaps, &is_out);
        let mut kept = 0;
        for _ in 0..self.fifo.len() {
            let mut item = self.fifo.turn();
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
                (slot.place, slot.item_count) = (Place::Clean, slot.item_count - 1);
                continue;
            }
            let position = self.fifo.put_back(item, kept);
            kept += 1;
            if item.event.is_none() {
                self.slots[item.slot as usize].place = Place::Queued(position);
            }
        }
        self.merge_carried();
    }

    /// From the end to the beginning: of the states that were put before what is out, which stand
    /// before something that stays too, and which are to go.
    fn judge_frozen(&mut self, leaves_gaps: bool, is_out: &impl Fn(&Slot) -> bool) {
        for index in (0..self.fifo.len()).rev() {
            let item = self.fifo.get(index);
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

    /// Notes with a trade's or status' siblings that it follows them, or forgets it.
    fn follow(&mut self, item: &Item, followed_by: u32) {
        let slot = &self.slots[item.slot as usize];
        let is_event = item.event.is_some_and(|event| self.fifo.event(event).is_counted);
        if !is_event || !matches!(slot.kind, Kind::Trades | Kind::Status) {
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

    /// An event becomes part of its slot's gap; true when that is new and needs the event's item.
    fn begin_gap(&mut self, index: u32, entry: &Entry) -> bool {
        let slot = &mut self.slots[index as usize];
        slot.merged = slot.merged.and(entry.merged);
        slot.owes_snapshot |= entry.is_snapshot;
        if matches!(slot.place, Place::Queued(_)) {
            return false;
        }
        slot.item_count += 1;
        true
    }

    /// A state that was thrown out goes on with what comes next of its slot.
    fn carry(&mut self, index: u32, entry: &Entry) {
        let slot = &mut self.slots[index as usize];
        slot.carried = slot.carried.and(entry.merged);
        slot.carries_snapshot |= entry.is_snapshot;
        if !std::mem::replace(&mut slot.is_carrying, true) {
            self.carrying.push(index);
        }
    }

    /// What a slot carries is merged with an event of it.
    fn put_down(&mut self, index: u32, event: EventNo) {
        let slot = &mut self.slots[index as usize];
        if slot.is_carrying {
            let (merged, is_snapshot) = slot.put_down();
            let entry = &mut self.fifo.event_mut(event).entry;
            entry.merged = merged.and(entry.merged);
            entry.is_snapshot |= is_snapshot;
        }
    }

    fn merge_carried(&mut self) {
        while let Some(index) = self.carrying.pop() {
            let slot = &mut self.slots[index as usize];
            if !slot.is_carrying || slot.is_removed {
                continue;
            }
            let (merged, is_snapshot) = slot.put_down();
            slot.merged = merged.and(slot.merged);
            slot.is_snapshot_due |= is_snapshot;
            // It was as good as sent, so it does not wait again.
            if !matches!(slot.place, Place::Queued(_)) {
                self.queue_state(index);
            }
        }
    }
}
