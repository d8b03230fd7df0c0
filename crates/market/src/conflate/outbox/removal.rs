//! Ends of groups, and removals of slots.
//!
//! A slot leaves its lane, its ring and its group's list at once, and its queued state is erased in
//! place. Its events stay in the priority queue, where nothing sends them, until
//! [`Outbox::sweep`]: one purge for all slots that were removed meanwhile.

use super::super::fifo::Item;
use super::super::slot::{NONE, Slot};
use super::super::step::SlotState;
use super::Outbox;

/// The number of removed slots that are worth no [`Outbox::trim`].
const TRIM_MIN: usize = 1_024;

impl Outbox {
    /// Ends a group: it takes nothing in and sends nothing from now on.
    pub(in super::super) fn end_group(&mut self, group: u32) {
        self.group_mut(group).has_ended = true;
    }

    /// Removes a group, whose slots must have been removed and swept before.
    pub(in super::super) fn remove_group(&mut self, group: u32) {
        let group = self.groups[group as usize].take().expect("the group is there");
        assert_eq!(group.slot_count, 0, "a group that goes has no slot");
        self.lanes[group.lane as usize].group_count -= 1;
    }

    /// Returns a slot of the group.
    pub(in super::super) fn slot_of_group(&self, group: u32) -> Option<u32> {
        let group = self.groups[group as usize].as_ref().expect("the group is there");
        (group.first_slot != NONE).then_some(group.first_slot)
    }

    /// Removes a slot with its queued state. Returns true when events of it stay in the queue until
    /// [`Outbox::sweep`].
    pub(in super::super) fn remove_slot(&mut self, index: u32) -> bool {
        self.leave_lane(index);
        self.leave_ring(index);
        self.leave_group(index);
        let slot = &mut self.slots[index as usize];
        assert!(!slot.is_removed, "a slot is removed once");
        slot.is_removed = true;
        if let SlotState::Queued(position) = slot.place {
            slot.place = SlotState::Clean;
            slot.item_count -= 1;
            self.fifo.erase_state(position);
        }
        let has_events = self.slots[index as usize].item_count > 0;
        match has_events {
            true => self.leaving.push(index),
            false => self.free_slots.push(index),
        }
        if self.fifo.is_round_due() {
            self.purge(|_| false);
        }
        has_events
    }

    /// Removes the events that removed slots have left in the queue. Returns the number of items
    /// that were looked at.
    pub(in super::super) fn sweep(&mut self) -> usize {
        let has_events = |index: &u32| self.slots[*index as usize].item_count > 0;
        let mut cost = 0;
        if self.leaving.iter().any(has_events) {
            cost = self.fifo.place_count();
            self.purge(|slot| slot.is_removed);
        }
        cost += self.leaving.len();
        self.free_slots.append(&mut self.leaving);
        cost
    }

    /// Frees the memory of removed slots behind the last one that is used, once most are removed
    /// and swept. Returns the number of slots that were looked at.
    pub(in super::super) fn trim(&mut self) -> usize {
        assert!(self.leaving.is_empty(), "removed slots have been swept");
        if self.free_slots.len() < TRIM_MIN + self.slots.len() / 2 {
            return 0;
        }
        let looks = self.free_slots.len();
        while self.slots.last().is_some_and(|slot| slot.is_removed) {
            self.slots.pop();
        }
        let used = self.slot_count();
        self.free_slots.retain(|slot| *slot < used);
        self.slots.shrink_to_fit();
        self.free_slots.shrink_to_fit();
        looks
    }

    /// The number of slots without an instrument.
    pub(in super::super) fn free_count(&self) -> usize {
        self.free_slots.len()
    }

    /// Drops the items of removed slots and ended groups at the head of the queue, at most this
    /// many; returns their number.
    pub(in super::super) fn drop_ended(&mut self, count_max: usize) -> usize {
        let mut count = 0;
        while count < count_max
            && let Some(Item { slot, event }) = self.fifo.first()
        {
            let Slot { is_removed, group, .. } = self.slots[slot as usize];
            if !is_removed && !self.group_mut(group).has_ended {
                break;
            }
            self.fifo.pop();
            count += 1;
            let slot = &mut self.slots[slot as usize];
            slot.item_count -= 1;
            match event {
                None => slot.place = SlotState::Clean,
                Some(number) => {
                    let event = self.fifo.take(number);
                    if event.is_counted {
                        self.unlink_first(group, number, &event);
                    }
                }
            }
        }
        count
    }

    pub(super) fn join_ring(&mut self, index: u32) {
        let instrument_id = self.slots[index as usize].instrument_id;
        let head = *self.rings.entry(instrument_id).or_insert(index);
        if head == index {
            let slot = &mut self.slots[index as usize];
            (slot.sibling_before, slot.sibling) = (index, index);
            return;
        }
        let after = std::mem::replace(&mut self.slots[head as usize].sibling, index);
        self.slots[after as usize].sibling_before = index;
        let slot = &mut self.slots[index as usize];
        (slot.sibling_before, slot.sibling) = (head, after);
    }

    fn leave_ring(&mut self, index: u32) {
        let Slot { instrument_id, sibling_before, sibling, .. } = self.slots[index as usize];
        if sibling == index {
            self.rings.remove(&instrument_id);
            return;
        }
        self.slots[sibling_before as usize].sibling = sibling;
        self.slots[sibling as usize].sibling_before = sibling_before;
        self.rings.insert(instrument_id, sibling);
    }

    pub(super) fn join_group(&mut self, index: u32) {
        let group = self.slots[index as usize].group;
        let group = self.group_mut(group);
        group.slot_count += 1;
        let next = std::mem::replace(&mut group.first_slot, index);
        let slot = &mut self.slots[index as usize];
        (slot.group_before, slot.group_next) = (NONE, next);
        if next != NONE {
            self.slots[next as usize].group_before = index;
        }
    }

    fn leave_group(&mut self, index: u32) {
        let Slot { group, group_before, group_next, .. } = self.slots[index as usize];
        if group_next != NONE {
            self.slots[group_next as usize].group_before = group_before;
        }
        let group = self.group_mut(group);
        group.slot_count -= 1;
        match group_before {
            NONE => group.first_slot = group_next,
            before => self.slots[before as usize].group_next = group_next,
        }
    }
}
