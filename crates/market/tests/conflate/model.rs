//! A slow, simple model of the first stage: one list, searched each time.

use std::collections::BTreeMap;

use weir_market::conflate::{
    Bbo, Body, BookView, ConflatorConfig, Entry, Kind, MergedChanges, OnFull, Outcome,
};
use weir_types::{InstrumentId, Nanos};

use crate::books::Books;

type Key = (InstrumentId, Kind);

#[derive(Clone, Debug)]
struct State {
    wanted: u32,
    value: Option<Body>,
    /// Changes that are neither in an event nor sent yet.
    pending: Option<MergedChanges>,
    is_snapshot: bool,
    sent: Option<Bbo>,
    sent_at: Option<u64>,
}

#[derive(Clone, Debug)]
struct Item {
    key: Key,
    event: Option<Entry>,
    /// The kind of the event that it was frozen ahead of.
    before: Option<Kind>,
    is_marker: bool,
    /// The number of its tick; items of the same tick may be sent in any order.
    batch: u64,
}

/// The model of the first stage.
pub struct Model {
    config: ConflatorConfig,
    now: u64,
    states: BTreeMap<Key, State>,
    queue: Vec<Item>,
    batch: u64,
}

impl Model {
    pub fn new(config: &ConflatorConfig) -> Model {
        let config = config.clone();
        Model { config, now: 0, states: BTreeMap::new(), queue: Vec::new(), batch: 0 }
    }

    pub fn see(&mut self, now: Nanos) {
        self.now = self.now.max(now.0);
    }

    pub fn queue_len(&self) -> usize {
        self.queue.len()
    }

    pub fn waiting_count(&self) -> usize {
        self.states.keys().filter(|key| self.is_waiting(key)).count()
    }

    pub fn is_wanted(&self, id: InstrumentId, kind: Kind) -> bool {
        self.states.contains_key(&(id, kind))
    }

    fn interval(&mut self, kind: Kind) -> &mut Nanos {
        match kind {
            Kind::Bbo => &mut self.config.bbo_interval,
            Kind::Book => &mut self.config.book_interval,
            _ => &mut self.config.statistics_interval,
        }
    }

    fn is_queued(&self, key: &Key) -> bool {
        self.queue.iter().any(|item| item.key == *key && item.event.is_none())
    }

    fn is_waiting(&self, key: &Key) -> bool {
        key.1.may_wait() && self.states[key].pending.is_some() && !self.is_queued(key)
    }

    fn is_over(&mut self, key: &Key) -> bool {
        let interval = self.interval(key.1).0;
        self.states[key].sent_at.is_none_or(|at| at.saturating_add(interval) <= self.now)
    }

    fn push(&mut self, key: Key, event: Option<Entry>, before: Option<Kind>, is_marker: bool) {
        self.batch += 1;
        self.queue.push(Item { key, event, before, is_marker, batch: self.batch });
    }

    fn fold(&mut self, key: &Key, merged: MergedChanges, body: &Body) {
        let state = self.states.get_mut(key).unwrap();
        state.pending = Some(state.pending.unwrap_or_default().and(merged));
        state.value = Some(*body);
    }

    pub fn apply(&mut self, entry: &Entry) -> Outcome {
        let key = (entry.instrument_id, entry.body.kind());
        if !self.states.contains_key(&key) {
            return Outcome::Unwanted;
        }
        if key.1.may_wait() { self.change(key, entry) } else { self.event(key, entry) }
    }

    fn change(&mut self, key: Key, entry: &Entry) -> Outcome {
        self.fold(&key, entry.merged, &entry.body);
        if self.is_queued(&key) {
            return Outcome::Merged;
        }
        let is_urgent = match (&self.states[&key].sent, &entry.body) {
            (Some(sent), Body::Bbo(bbo)) => self.config.urgency.is_urgent(sent, bbo),
            _ => false,
        };
        if is_urgent || self.is_over(&key) {
            self.push(key, None, None, false);
            return Outcome::Queued;
        }
        Outcome::Waiting
    }

    fn event(&mut self, key: Key, entry: &Entry) -> Outcome {
        let lost = if key.1 == Kind::Status { Outcome::Merged } else { Outcome::Lost };
        if self.is_queued(&key) {
            self.fold(&key, entry.merged, &entry.body);
            return lost;
        }
        let counted = |item: &&Item| {
            item.key.1 == key.1 && item.event.is_some() && item.before.is_none() && !item.is_marker
        };
        if self.queue.iter().filter(counted).count() >= self.config.events_max as usize {
            if self.config.on_full == OnFull::Refuse {
                return Outcome::Refused;
            }
            self.fold(&key, entry.merged, &entry.body);
            self.push(key, None, None, false);
            return lost;
        }
        if matches!(key.1, Kind::Trades | Kind::Status) {
            self.freeze((key.0, Kind::Bbo), key.1);
            if key.1 != Kind::Status {
                self.freeze((key.0, Kind::Status), key.1);
            }
        }
        self.push(key, Some(*entry), None, false);
        Outcome::Queued
    }

    /// Returns the state's entry and resets its changes.
    fn speak(&mut self, key: &Key) -> Entry {
        let now = self.now;
        let state = self.states.get_mut(key).unwrap();
        let body = match key.1 {
            Kind::Trades | Kind::Orders => Body::Gap(key.1),
            _ => state.value.unwrap(),
        };
        if let Body::Bbo(bbo) = &body {
            state.sent = Some(*bbo);
        }
        state.sent_at = Some(now);
        Entry {
            instrument_id: key.0,
            is_snapshot: std::mem::take(&mut state.is_snapshot),
            merged: state.pending.take().unwrap(),
            body,
        }
    }

    fn freeze(&mut self, key: Key, before: Kind) {
        if self.states.get(&key).is_none_or(|state| state.pending.is_none()) {
            return;
        }
        let place = self.queue.iter().position(|item| item.key == key && item.event.is_none());
        let entry = Some(self.speak(&key));
        match place {
            Some(place) => {
                (self.queue[place].event, self.queue[place].before) = (entry, Some(before));
            }
            None => self.push(key, entry, Some(before), false),
        }
    }

    pub fn tick(&mut self) {
        let keys: Vec<Key> = self.states.keys().copied().collect();
        self.batch += 1;
        let batch = self.batch;
        for key in keys {
            if self.is_waiting(&key) && self.is_over(&key) {
                self.queue.push(Item { key, event: None, before: None, is_marker: false, batch });
            }
        }
    }

    pub fn set_interval(&mut self, kind: Kind, interval: Nanos) {
        if !kind.may_wait() {
            return;
        }
        self.tick();
        let old = std::mem::replace(self.interval(kind), interval);
        if old == interval {
            return;
        }
        for (_, state) in self.states.iter_mut().filter(|(key, _)| key.1 == kind) {
            // An idle state stays idle.
            let is_running = state.sent_at.is_some_and(|at| at.saturating_add(old.0) > self.now);
            state.sent_at = is_running.then_some(self.now);
        }
        self.tick();
    }

    pub fn interest(&mut self, key: Key, is_wanted: bool, books: &Books) {
        if !is_wanted {
            self.unwant(key);
            return;
        }
        let state = self.states.entry(key).or_insert(State {
            wanted: 0,
            value: None,
            pending: None,
            is_snapshot: false,
            sent: None,
            sent_at: None,
        });
        state.wanted += 1;
        let body = match key.1 {
            Kind::Trades => return,
            Kind::Bbo => Body::Bbo(books.best(key.0)),
            Kind::Book => Body::Book,
            Kind::Statistics => Body::Statistics,
            Kind::Orders => Body::OrdersSnapshot,
            Kind::Status if self.is_queued(&key) || books.status(key.0).is_none() => return,
            Kind::Status => Body::Status(books.status(key.0).unwrap()),
        };
        let merged = MergedChanges::none(books.last_change(key.0));
        if key.1.may_wait() {
            self.states.get_mut(&key).unwrap().is_snapshot = true;
            self.fold(&key, merged, &body);
            if !self.is_queued(&key) {
                self.push(key, None, None, false);
            }
        } else if !self.queue.iter().any(|item| item.key == key && item.is_marker) {
            let entry = Entry { instrument_id: key.0, is_snapshot: true, merged, body };
            self.push(key, Some(entry), None, true);
        }
    }

    fn unwant(&mut self, key: Key) {
        let Some(state) = self.states.get_mut(&key) else { return };
        state.wanted -= 1;
        if state.wanted > 0 {
            return;
        }
        self.states.remove(&key);
        self.queue.retain(|item| item.key != key);
        let mut left_over = Vec::new();
        let mut index = 0;
        while index < self.queue.len() {
            let item = self.queue[index].clone();
            if item.key.0 != key.0 || item.before != Some(key.1) {
                index += 1;
                continue;
            }
            // It may also precede another event, ahead of the next item of its own slot.
            let is_event = |other: &&Item| {
                matches!(other.key.1, Kind::Trades | Kind::Status)
                    && other.event.is_some()
                    && other.before.is_none()
                    && !other.is_marker
            };
            let later = self.queue[index + 1..].iter().filter(|other| other.key.0 == key.0);
            let mut until_next = later.take_while(|other| other.key != item.key);
            let follower = until_next.find(is_event).map(|other| other.key.1);
            match follower {
                Some(kind) => {
                    self.queue[index].before = Some(kind);
                    index += 1;
                }
                None => left_over.push(self.queue.remove(index)),
            }
        }
        for item in left_over.into_iter().rev() {
            let entry = item.event.unwrap();
            // Merge it into the next event of its slot, or into the state.
            let next = self.queue.iter_mut().find(|other| {
                other.key == item.key && other.batch > item.batch && other.event.is_some()
            });
            if let Some(next) = next.and_then(|next| next.event.as_mut()) {
                next.merged = entry.merged.and(next.merged);
                next.is_snapshot |= entry.is_snapshot;
                continue;
            }
            let state = self.states.get_mut(&item.key).unwrap();
            state.pending = Some(entry.merged.and(state.pending.unwrap_or_default()));
            state.is_snapshot |= entry.is_snapshot;
            if !self.is_queued(&item.key) {
                self.push(item.key, None, None, false);
            }
        }
    }

    /// Checks an entry taken from the queue: it must be a next one, and equal the model's.
    pub fn popped(&mut self, entry: &Entry) {
        let first = self.queue.iter().map(|item| item.batch).min();
        let key = (entry.instrument_id, entry.body.kind());
        let place = self.queue.iter().position(|item| Some(item.batch) == first && item.key == key);
        let item = self.queue.remove(place.unwrap_or_else(|| panic!("{entry:?} is not next")));
        let want = item.event.unwrap_or_else(|| self.speak(&key));
        assert_eq!(*entry, want);
    }
}
