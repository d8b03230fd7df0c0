//! The mechanism of both stages: slots, the throttle queue (in lanes) and the priority queue.
//!
//! The first stage is one outbox with a group per kind. In the second stage each subscriber has an
//! outbox with a group per subscription. Each step has constant cost, amortized, except for the
//! purge of events of removed slots, and for a change of a group's interval.
//!
//! A group that has ended takes nothing in and sends nothing. Its slots can be removed one by one,
//! and [`Outbox::sweep`] removes the events that they leave behind.
//!
//! INVARIANT: a slot has at most one state item in the priority queue, and then it is in no lane. A
//! slot in the throttle queue is in its group's lane. The events that count against a group's limit
//! are in its list, in the order of the queue.

mod purge;
mod removal;

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use weir_types::{InstrumentId, Nanos};

use super::entry::{Bbo, Body, Entry, Kind, MergedChanges};
use super::fifo::{Event, EventNo, Fifo, Item};
use super::lane::Lane;
use super::slot::{ConflatedState, NONE, Slot};
use super::step::{Decision, Outcome, SlotState, step};
use super::urgency::Urgency;
use purge::Carried;

/// The treatment of an event when its group's limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// The event and later ones are merged at the end of the queue: states into the latest, others
    /// into a gap.
    Collapse,
    /// The group's queued events become gaps; the new event is queued.
    Skip,
    /// The event is refused, and nothing changes.
    Refuse,
    /// The outbox closes.
    Close,
}

/// The common settings of a set of slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) urgency: Urgency,
    /// True when changes of states wait and are merged; else each is an event.
    pub(super) is_merging: bool,
    pub(super) on_full: Full,
    /// The most queued events.
    pub(super) queue_len_max: u32,
    /// The list of its queued events.
    queued: u32,
    first_event: Option<EventNo>,
    last_event: Option<EventNo>,
    lane: u32,
    /// True once it takes nothing in and sends nothing.
    has_ended: bool,
    /// The list of its slots.
    first_slot: u32,
    slot_count: u32,
}

impl Group {
    pub(super) fn new(is_merging: bool, on_full: Full, queue_len_max: u32) -> Group {
        let urgency = Urgency::default();
        Group {
            urgency,
            is_merging,
            on_full,
            queue_len_max,
            queued: 0,
            first_event: None,
            last_event: None,
            lane: 0,
            has_ended: false,
            first_slot: NONE,
            slot_count: 0,
        }
    }

    /// Empties the list of queued events; returns the first.
    fn take_events(&mut self) -> Option<EventNo> {
        (self.queued, self.last_event) = (0, None);
        self.first_event.take()
    }
}

/// The slots and queues of one stage or subscriber.
#[derive(Clone, Debug, Default)]
pub(super) struct Outbox {
    slots: Vec<Slot>,
    free_slots: Vec<u32>,
    groups: Vec<Option<Group>>,
    lanes: Vec<Lane>,
    fifo: Fifo,
    /// One slot of each instrument; a ring of siblings links to the others.
    rings: HashMap<InstrumentId, u32, FxBuildHasher>,
    now: Nanos,
    waiting_count: usize,
    closed_by: Option<u32>,
    /// The changes of dropped items; empty except during a purge.
    carrying: Vec<Carried>,
    /// Removed slots that have events in the priority queue.
    leaving: Vec<u32>,
}

impl Outbox {
    pub(super) fn add_group(&mut self, mut group: Group, interval: Nanos) -> u32 {
        group.lane = self.join_lane(interval);
        let index = self.groups.iter().position(Option::is_none).unwrap_or(self.groups.len());
        if index == self.groups.len() {
            self.groups.push(None);
        }
        self.groups[index] = Some(group);
        u32::try_from(index).expect("fewer groups than 2^32")
    }

    pub(super) fn group(&self, group: u32) -> Option<&Group> {
        self.groups.get(group as usize)?.as_ref()
    }

    pub(super) fn slot(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize]
    }

    pub(super) fn slot_mut(&mut self, slot: u32) -> &mut Slot {
        &mut self.slots[slot as usize]
    }

    /// Returns the number of slots, removed ones included.
    pub(super) fn slot_count(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Returns the number of a group's slots.
    pub(super) fn slot_count_of(&self, group: u32) -> u32 {
        self.group(group).map_or(0, |group| group.slot_count)
    }

    /// Drops all queued items of an outbox that is of no more use but for its slots.
    pub(super) fn drop_items(&mut self) {
        self.fifo.clear();
        self.groups.iter_mut().flatten().for_each(|group| _ = group.take_events());
    }

    /// Forgets which changes of orders the snapshots contain.
    pub(super) fn forget_floors(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.floor = 0);
    }

    pub(super) fn queue_len(&self) -> usize {
        self.fifo.len()
    }

    /// Returns the number of places in the priority queue that purges have looked at.
    pub(super) fn looks(&self) -> u64 {
        self.fifo.looks()
    }

    pub(super) fn waiting_count(&self) -> usize {
        self.waiting_count
    }

    pub(super) fn closed_by(&self) -> Option<u32> {
        self.closed_by
    }

    /// Returns true when some slots of the instrument exist already, this many or more.
    pub(super) fn has_siblings(&self, instrument_id: InstrumentId, count: usize) -> bool {
        let Some(&head) = self.rings.get(&instrument_id) else { return count == 0 };
        let mut slot = head;
        for _ in 1..count {
            slot = self.slots[slot as usize].sibling;
            if slot == head {
                return false;
            }
        }
        true
    }

    /// Returns true when a slot of the instrument belongs to a group that has ended.
    pub(super) fn has_ended_sibling(&self, instrument_id: InstrumentId) -> bool {
        let Some(&head) = self.rings.get(&instrument_id) else { return false };
        let mut slot = head;
        loop {
            let Slot { group, sibling, .. } = self.slots[slot as usize];
            if self.group(group).is_some_and(|group| group.has_ended) {
                return true;
            }
            slot = sibling;
            if slot == head {
                return false;
            }
        }
    }

    /// Returns the changes of the entry that has been in the priority queue longest, as known so
    /// far.
    pub(super) fn oldest(&self) -> Option<MergedChanges> {
        let item = self.fifo.first()?;
        Some(match item.event {
            Some(event) => self.fifo.event(event).entry.merged,
            None => self.slots[item.slot as usize].merged,
        })
    }

    /// Allocates for this many more slots; exactly that many when they are many, because doubling
    /// could take up to twice as much.
    pub(super) fn reserve(&mut self, slots: usize) {
        let more = slots.saturating_sub(self.free_slots.len());
        if more >= self.slots.len() / 8 {
            self.slots.reserve_exact(more);
        }
    }

    /// Adds a slot for a kind of an instrument, without a state.
    pub(super) fn add_slot(&mut self, instrument_id: InstrumentId, kind: Kind, group: u32) -> u32 {
        let slot = Slot::new(instrument_id, kind, group);
        let index = match self.free_slots.pop() {
            Some(index) => {
                self.slots[index as usize] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                u32::try_from(self.slots.len() - 1).expect("fewer slots than 2^32")
            }
        };
        self.join_ring(index);
        self.join_group(index);
        index
    }

    /// Changes a group's interval. It restarts now for all slots sent within the old one. Returns
    /// the number of slots that were looked at.
    pub(super) fn set_interval(&mut self, now: Nanos, group: u32, interval: Nanos) -> u32 {
        self.tick(now);
        let lane = self.join_lane(interval);
        let state = self.groups[group as usize].as_mut().expect("the group is there");
        let old = std::mem::replace(&mut state.lane, lane);
        self.lanes[old as usize].group_count -= 1;
        if old == lane {
            return 0;
        }
        let Group { first_slot, slot_count, .. } = *self.group_mut(group);
        let mut next = first_slot;
        while next != NONE {
            let index = next;
            let slot = &mut self.slots[index as usize];
            next = slot.group_next;
            if slot.is_in_lane {
                slot.sent_at = self.now;
                self.lanes[old as usize].unlink(&mut self.slots, index);
                self.lanes[lane as usize].push(&mut self.slots, index);
            }
        }
        self.tick(now);
        slot_count
    }

    /// Moves the states whose interval has ended to the priority queue.
    pub(super) fn tick(&mut self, now: Nanos) {
        self.see(now);
        for lane in 0..self.lanes.len() {
            while let Some(first) = self.lanes[lane].first() {
                if self.lanes[lane].due(&self.slots[first as usize]) > self.now {
                    break;
                }
                if self.slots[first as usize].place == SlotState::Waiting {
                    self.queue_state(first);
                } else {
                    self.lanes[lane].unlink(&mut self.slots, first);
                }
            }
        }
    }

    /// Returns the next time at which [`Outbox::tick`] has work.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        if self.waiting_count == 0 {
            return None;
        }
        self.lanes.iter().filter_map(|lane| lane.next_due(&self.slots)).min()
    }

    /// Takes a change of a slot.
    pub(super) fn take(&mut self, now: Nanos, index: u32, entry: &Entry) -> Outcome {
        self.see(now);
        let slot = &self.slots[index as usize];
        let is_merging = self.groups[slot.group as usize].is_some_and(|group| group.is_merging);
        if is_merging && slot.kind.may_wait() {
            self.change(index, entry)
        } else {
            self.event(index, entry)
        }
    }

    /// Takes an entry of the first stage. The first entry that a slot takes is its snapshot; for
    /// orders that is the marker after which all changes follow. Later states without a change are
    /// ignored.
    pub(super) fn hear(&mut self, now: Nanos, index: u32, entry: &Entry) {
        let slot = &self.slots[index as usize];
        if self.groups[slot.group as usize].is_none_or(|group| group.has_ended) {
            return;
        }
        if slot.is_snapshot_due && slot.place == SlotState::Clean {
            if slot.kind != Kind::Orders || entry.body == Body::OrdersSnapshot {
                self.go(now, index, entry);
            }
        } else if entry.merged.change_count > 0 {
            self.take(now, index, entry);
        }
    }

    /// Moves the slot's state, updated by this entry, to the priority queue now.
    pub(super) fn go(&mut self, now: Nanos, index: u32, entry: &Entry) {
        self.see(now);
        self.slots[index as usize].fold(entry.merged, &entry.body);
        if !matches!(self.slots[index as usize].place, SlotState::Queued(_)) {
            self.queue_state(index);
        }
    }

    /// Takes the next entry off the priority queue, with its slot. It counts as sent.
    pub(super) fn pop(&mut self, now: Nanos) -> Option<(u32, Entry)> {
        self.see(now);
        let Item { slot: index, event } = self.fifo.pop()?;
        let is_gap = self.is_gap(index);
        let slot = &mut self.slots[index as usize];
        slot.item_count -= 1;
        let Some(number) = event else {
            let mut entry = slot.speak(is_gap);
            slot.pay_snapshot(&mut entry);
            self.note_sent(index);
            return Some((index, entry));
        };
        let group = slot.group;
        let mut event = self.fifo.take(number);
        slot.pay_snapshot(&mut event.entry);
        if event.is_counted {
            self.unlink_first(group, number, &event);
        }
        if event.entry.is_snapshot {
            self.slots[index as usize].has_marker = false;
        }
        Some((index, event.entry))
    }

    /// Appends a marker: an event outside any limit, of which a slot has at most one. A queued
    /// marker serves later requests too.
    pub(super) fn mark(&mut self, now: Nanos, index: u32, entry: Entry) {
        self.see(now);
        let slot = &mut self.slots[index as usize];
        if !std::mem::replace(&mut slot.has_marker, true) {
            slot.item_count += 1;
            self.fifo.push_event(index, Event::new(entry));
        }
    }

    /// Repairs a slot after a gap: queues its state again, unless a newer one is queued. Orders are
    /// always sent again in full. `gap` holds the lost changes.
    pub(super) fn heal(&mut self, index: u32, gap: MergedChanges) {
        let slot = &mut self.slots[index as usize];
        let is_needed = slot.kind == Kind::Orders || (slot.kind.is_state() && slot.item_count == 0);
        if is_needed && slot.place == SlotState::Clean {
            slot.is_snapshot_due = true;
            let first_sequence = gap.last_sequence;
            slot.merged = MergedChanges { change_count: 0, first_sequence, ..gap };
            self.queue_state(index);
        }
    }

    /// Queues an event behind the states that it freezes.
    fn push_event(&mut self, index: u32, entry: &Entry) {
        let frozen_count = match self.slots[index as usize].kind {
            Kind::Trades | Kind::Status => self.freeze_siblings(index),
            Kind::Bbo | Kind::Book | Kind::Statistics | Kind::Orders => 0,
        };
        let slot = &mut self.slots[index as usize];
        slot.item_count += 1;
        slot.hold(&entry.body);
        let group = slot.group;
        let event = Event { is_counted: true, frozen_count, ..Event::new(*entry) };
        let number = self.fifo.push_event(index, event);
        self.link_last(group, number);
    }

    /// Appends an event to its group's list.
    fn link_last(&mut self, group: u32, number: EventNo) {
        let group = self.groups[group as usize].as_mut().expect("a slot's group is there");
        group.queued += 1;
        match group.last_event.replace(number) {
            Some(last) => self.fifo.event_mut(last).group_next = Some(number),
            None => group.first_event = Some(number),
        }
    }

    /// Removes an event that has left the queue's head from its group's list.
    fn unlink_first(&mut self, group: u32, number: EventNo, event: &Event) {
        let group = self.group_mut(group);
        assert_eq!(group.first_event, Some(number), "a group's events are in the queue's order");
        group.queued -= 1;
        group.first_event = event.group_next;
        if group.first_event.is_none() {
            group.last_event = None;
        }
    }

    fn change(&mut self, index: u32, entry: &Entry) -> Outcome {
        let slot = &mut self.slots[index as usize];
        let group = self.groups[slot.group as usize].as_ref().expect("a slot's group is there");
        let is_over = !slot.is_in_lane || self.lanes[group.lane as usize].due(slot) <= self.now;
        slot.fold(entry.merged, &entry.body);
        let is_urgent = matches!(
            (&slot.sent, &slot.held),
            (Some(sent), ConflatedState::Bbo(bbo)) if group.urgency.is_urgent(sent, bbo)
        );
        match (step(slot.place, is_urgent, is_over), slot.place) {
            (Decision::Go, _) => {
                self.queue_state(index);
                Outcome::Queued
            }
            (Decision::Wait, _) => {
                slot.place = SlotState::Waiting;
                self.waiting_count += 1;
                Outcome::Waiting
            }
            (Decision::Merge, SlotState::Waiting) => Outcome::Waiting,
            (Decision::Merge, _) => Outcome::Merged,
        }
    }

    fn event(&mut self, index: u32, entry: &Entry) -> Outcome {
        let slot = &mut self.slots[index as usize];
        let kind = slot.kind;
        let group = self.groups[slot.group as usize].as_ref().expect("a slot's group is there");
        let is_taken_in = group.on_full != Full::Skip || slot.is_snapshot_due;
        if matches!(slot.place, SlotState::Queued(_)) && is_taken_in {
            slot.fold(entry.merged, &entry.body);
            let is_lost = !kind.is_state() && !slot.is_snapshot_due;
            return if is_lost { Outcome::Lost } else { Outcome::Merged };
        }
        if group.queued >= group.queue_len_max {
            return self.overflow(index, entry);
        }
        self.push_event(index, entry);
        Outcome::Queued
    }

    fn overflow(&mut self, index: u32, entry: &Entry) -> Outcome {
        let slot = &mut self.slots[index as usize];
        let (group, kind) = (slot.group, slot.kind);
        match self.group_mut(group).on_full {
            Full::Refuse => Outcome::Refused,
            Full::Close => {
                self.close(group);
                Outcome::Lost
            }
            Full::Collapse => {
                self.slots[index as usize].fold(entry.merged, &entry.body);
                self.queue_state(index);
                if kind.is_state() { Outcome::Merged } else { Outcome::Lost }
            }
            Full::Skip => {
                self.skip(group);
                self.push_event(index, entry);
                Outcome::Queued
            }
        }
    }

    /// Freezes the pending quote and status of the slot's instrument: queues them, as they are now,
    /// ahead of the coming event. Returns the number of states that were frozen.
    fn freeze_siblings(&mut self, index: u32) -> u32 {
        let mut count = 0;
        let mut sibling = self.slots[index as usize].sibling;
        while sibling != index {
            let next = self.slots[sibling as usize].sibling;
            if matches!(self.slots[sibling as usize].kind, Kind::Bbo | Kind::Status) {
                count += u32::from(self.freeze(sibling, index));
            }
            sibling = next;
        }
        count
    }

    /// Freezes a slot's state; returns false when none is pending.
    fn freeze(&mut self, index: u32, before: u32) -> bool {
        let Slot { place, group, .. } = self.slots[index as usize];
        if place == SlotState::Clean || self.is_gap(index) || self.group_mut(group).has_ended {
            return false;
        }
        let entry = self.slots[index as usize].speak(false);
        let event = Event { before, ..Event::new(entry) };
        match place {
            SlotState::Queued(position) => self.fifo.replace_state(position, event),
            _ => {
                self.waiting_count -= 1;
                self.fifo.push_event(index, event);
                self.slots[index as usize].item_count += 1;
            }
        }
        self.note_sent(index);
        true
    }

    /// Returns true when the slot's state item reports a gap.
    fn is_gap(&self, index: u32) -> bool {
        let slot = &self.slots[index as usize];
        if slot.is_snapshot_due {
            return false;
        }
        let is_skipping =
            self.groups[slot.group as usize].is_some_and(|group| group.on_full == Full::Skip);
        is_skipping || !slot.kind.is_state()
    }

    fn queue_state(&mut self, index: u32) {
        self.leave_lane(index);
        let position = self.fifo.push_state(index);
        let slot = &mut self.slots[index as usize];
        slot.place = SlotState::Queued(position);
        slot.item_count += 1;
    }

    fn note_sent(&mut self, index: u32) {
        self.leave_lane(index);
        let slot = &mut self.slots[index as usize];
        slot.sent_at = self.now;
        if let ConflatedState::Bbo(bbo) = slot.held {
            slot.sent = Some::<Bbo>(bbo);
        }
        let group = self.groups[slot.group as usize].as_ref().expect("a slot's group is there");
        if group.is_merging && slot.kind.may_wait() {
            self.lanes[group.lane as usize].push(&mut self.slots, index);
        }
    }

    /// Removes a slot from its lane, and thereby from the throttle queue.
    fn leave_lane(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if slot.place == SlotState::Waiting {
            slot.place = SlotState::Clean;
            self.waiting_count -= 1;
        }
        if slot.is_in_lane {
            let group = self.groups[slot.group as usize].as_ref().expect("a slot's group is there");
            self.lanes[group.lane as usize].unlink(&mut self.slots, index);
        }
    }

    fn join_lane(&mut self, interval: Nanos) -> u32 {
        let used = self.lanes.iter().position(|lane| lane.interval == interval);
        let unused = || self.lanes.iter().position(|lane| lane.group_count == 0);
        let index = used.or_else(unused).unwrap_or(self.lanes.len());
        if index == self.lanes.len() {
            self.lanes.push(Lane::new(interval));
        }
        self.lanes[index].interval = interval;
        self.lanes[index].group_count += 1;
        index as u32
    }

    fn close(&mut self, group: u32) {
        self.closed_by = Some(group);
        self.drop_items();
        for slot in &mut self.slots {
            slot.item_count = 0;
            slot.place = SlotState::Clean;
        }
        self.waiting_count = 0;
    }

    fn group_mut(&mut self, group: u32) -> &mut Group {
        self.groups[group as usize].as_mut().expect("a slot's group is there")
    }

    fn see(&mut self, now: Nanos) {
        self.now = self.now.max(now);
    }
}
