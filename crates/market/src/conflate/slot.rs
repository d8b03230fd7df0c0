//! Slots: the latest state of one kind of an instrument for one reader, and its merged changes.

use weir_types::{InstrumentId, Nanos};

use super::entry::{Bbo, Body, Entry, Kind, MergedChanges, Status};
use super::fifo::EventNo;
use super::step::SlotState;

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// The state in a slot. Levels, statistics and orders are read from the book when they are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConflatedState {
    Nothing,
    Bbo(Bbo),
    Status(Status),
}

impl ConflatedState {
    /// Returns the part of an entry that a slot stores.
    pub(super) fn of(body: &Body) -> ConflatedState {
        match body {
            Body::Bbo(bbo) => ConflatedState::Bbo(*bbo),
            Body::Status(status) => ConflatedState::Status(*status),
            _ => ConflatedState::Nothing,
        }
    }

    /// Returns the body of the state; `None` for a status that was never set.
    pub(super) fn body(&self, kind: Kind) -> Option<Body> {
        match (kind, self) {
            (Kind::Book, _) => Some(Body::Book),
            (Kind::Statistics, _) => Some(Body::Statistics),
            (Kind::Orders, _) => Some(Body::OrdersSnapshot),
            (_, ConflatedState::Bbo(bbo)) => Some(Body::Bbo(*bbo)),
            (_, ConflatedState::Status(status)) => Some(Body::Status(*status)),
            (_, ConflatedState::Nothing) => None,
        }
    }
}

/// The state and queue position of one kind of an instrument for one reader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) instrument_id: InstrumentId,
    pub(super) kind: Kind,
    /// True until the slot's first state, which is marked as snapshot, is sent.
    pub(super) is_snapshot_due: bool,
    /// True when a lost entry was marked as snapshot: the next state sent gets the mark.
    pub(super) owes_snapshot: bool,
    /// True while the slot is in its lane.
    pub(super) is_in_lane: bool,
    pub(super) is_removed: bool,
    /// True while a marker of the slot is in the priority queue.
    pub(super) has_marker: bool,
    /// The group whose rules apply.
    pub(super) group: u32,
    /// Neighbours in the list of the group's slots.
    pub(super) group_before: u32,
    pub(super) group_next: u32,
    /// The slot's place among the listeners of its topic.
    pub(super) topic_place: u32,
    pub(super) place: SlotState,
    pub(super) held: ConflatedState,
    pub(super) merged: MergedChanges,
    /// During a purge: the index of the changes of the slot's dropped items, which are merged into
    /// its next entry. Else [`NONE`].
    pub(super) carried_at: u32,
    /// During a purge: the trade or status that precedes the next item of this slot.
    pub(super) followed_by: Option<EventNo>,
    /// The last quote sent.
    pub(super) sent: Option<Bbo>,
    pub(super) sent_at: Nanos,
    /// The slot's items in the priority queue.
    pub(super) item_count: u32,
    /// Neighbours in the lane, when in one.
    pub(super) previous: u32,
    pub(super) next: u32,
    /// The slots before and behind it in the ring of this instrument.
    pub(super) sibling_before: u32,
    pub(super) sibling: u32,
    /// The last sequence number of order changes that the sent snapshot contains.
    pub(super) floor: u64,
}

impl Slot {
    pub(super) fn new(instrument_id: InstrumentId, kind: Kind, group: u32) -> Slot {
        Slot {
            instrument_id,
            kind,
            is_snapshot_due: false,
            owes_snapshot: false,
            is_in_lane: false,
            is_removed: false,
            has_marker: false,
            group,
            group_before: NONE,
            group_next: NONE,
            topic_place: NONE,
            place: SlotState::Clean,
            held: ConflatedState::Nothing,
            merged: MergedChanges::default(),
            carried_at: NONE,
            followed_by: None,
            sent: None,
            sent_at: Nanos(0),
            item_count: 0,
            previous: NONE,
            next: NONE,
            sibling_before: NONE,
            sibling: NONE,
            floor: 0,
        }
    }

    /// Takes a change in.
    pub(super) fn fold(&mut self, merged: MergedChanges, body: &Body) {
        self.merged = self.merged.and(merged);
        self.hold(body);
    }

    /// Takes a lost change into the gap.
    pub(super) fn lose(&mut self, entry: &Entry) {
        self.merged = self.merged.and(entry.merged);
        self.owes_snapshot |= entry.is_snapshot;
    }

    /// Marks a state as snapshot when the slot owes that.
    pub(super) fn pay_snapshot(&mut self, entry: &mut Entry) {
        if self.owes_snapshot && !matches!(entry.body, Body::Gap(_)) {
            self.owes_snapshot = false;
            entry.is_snapshot = true;
        }
    }

    /// Stores the state of an entry.
    pub(super) fn hold(&mut self, body: &Body) {
        let held = ConflatedState::of(body);
        if held != ConflatedState::Nothing {
            self.held = held;
        }
    }

    /// Turns the slot's state into an entry and resets its merged changes. A status that was never
    /// set, and a kind that is no state, yields a gap.
    pub(super) fn speak(&mut self, is_gap: bool) -> Entry {
        let body = if is_gap { None } else { self.held.body(self.kind) };
        let entry = Entry {
            instrument_id: self.instrument_id,
            is_snapshot: self.is_snapshot_due && !is_gap,
            merged: self.merged,
            body: body.unwrap_or(Body::Gap(self.kind)),
        };
        self.merged = MergedChanges::default();
        self.place = SlotState::Clean;
        if !is_gap {
            self.is_snapshot_due = false;
        }
        entry
    }
}
