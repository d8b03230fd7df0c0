//! A slot: the latest state of one kind of an instrument for one reader, and what was merged.

use weir_types::{InstrumentId, Nanos};

use super::entry::{Bbo, Body, Entry, Kind, Merged, Status};
use super::step::Place;

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// The state that a slot keeps. Levels, statistics and orders are read from the book in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    Nothing,
    Bbo(Bbo),
    Status(Status),
}

impl Held {
    /// What of an entry is kept.
    pub(super) fn of(body: &Body) -> Held {
        match body {
            Body::Bbo(bbo) => Held::Bbo(*bbo),
            Body::Status(status) => Held::Status(*status),
            _ => Held::Nothing,
        }
    }

    /// The body of the state; `None` for a status that nobody has told yet.
    pub(super) fn body(&self, kind: Kind) -> Option<Body> {
        match (kind, self) {
            (Kind::Book, _) => Some(Body::Book),
            (Kind::Statistics, _) => Some(Body::Statistics),
            (Kind::Orders, _) => Some(Body::OrdersSnapshot),
            (_, Held::Bbo(bbo)) => Some(Body::Bbo(*bbo)),
            (_, Held::Status(status)) => Some(Body::Status(*status)),
            (_, Held::Nothing) => None,
        }
    }
}

/// See the file's head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) instrument_id: InstrumentId,
    pub(super) kind: Kind,
    /// It will get its first state, marked as such.
    pub(super) is_snapshot_due: bool,
    /// What was lost had the mark of a snapshot: what is sent next gets it.
    pub(super) owes_snapshot: bool,
    /// It stands in its lane.
    pub(super) is_in_lane: bool,
    pub(super) is_removed: bool,
    /// A marker of it is in the priority queue.
    pub(super) has_marker: bool,
    /// [`Slot::carried`] and this say something.
    pub(super) is_carrying: bool,
    pub(super) carries_snapshot: bool,
    /// Whose: the group's rules are the slot's.
    pub(super) group: u32,
    pub(super) place: Place,
    pub(super) held: Held,
    pub(super) merged: Merged,
    /// What was thrown out of the queue and belongs to what comes next of the slot. Empty but while
    /// the queue is gone over.
    pub(super) carried: Merged,
    /// While the queue is gone over: the slot of a trade or status that comes before the next of
    /// this one.
    pub(super) followed_by: u32,
    /// The quote that was last sent.
    pub(super) sent: Option<Bbo>,
    pub(super) sent_at: Nanos,
    /// Items of the priority queue that are the slot's.
    pub(super) item_count: u32,
    /// Neighbours in the lane, if it is in one.
    pub(super) previous: u32,
    pub(super) next: u32,
    /// The next of the ring of this instrument's slots.
    pub(super) sibling: u32,
    /// Changes of orders up to this number are in the snapshot that was sent.
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
            is_carrying: false,
            carries_snapshot: false,
            group,
            place: Place::Clean,
            held: Held::Nothing,
            merged: Merged::default(),
            carried: Merged::default(),
            followed_by: NONE,
            sent: None,
            sent_at: Nanos(0),
            item_count: 0,
            previous: NONE,
            next: NONE,
            sibling: NONE,
            floor: 0,
        }
    }

    /// Takes a change in.
    pub(super) fn fold(&mut self, merged: Merged, body: &Body) {
        self.merged = self.merged.and(merged);
        self.hold(body);
    }

    /// Marks what is sent as snapshot if that is owed and it is a state.
    pub(super) fn pay_snapshot(&mut self, entry: &mut Entry) {
        if self.owes_snapshot && !matches!(entry.body, Body::Gap(_)) {
            self.owes_snapshot = false;
            entry.is_snapshot = true;
        }
    }

    /// Gives away what is carried, and whether it was a snapshot.
    pub(super) fn put_down(&mut self) -> (Merged, bool) {
        self.is_carrying = false;
        let carries_snapshot = std::mem::take(&mut self.carries_snapshot);
        (std::mem::take(&mut self.carried), carries_snapshot)
    }

    /// Keeps the state that is told.
    pub(super) fn hold(&mut self, body: &Body) {
        let held = Held::of(body);
        if held != Held::Nothing {
            self.held = held;
        }
    }

    /// What the slot has to say, said: nothing is merged any more. A status that nobody has told
    /// yet, and what is not a state, is a gap.
    pub(super) fn speak(&mut self, is_gap: bool) -> Entry {
        let body = if is_gap { None } else { self.held.body(self.kind) };
        let entry = Entry {
            instrument_id: self.instrument_id,
            is_snapshot: self.is_snapshot_due && !is_gap,
            merged: self.merged,
            body: body.unwrap_or(Body::Gap(self.kind)),
        };
        self.merged = Merged::default();
        self.place = Place::Clean;
        if !is_gap {
            self.is_snapshot_due = false;
        }
        entry
    }
}
