//! The first stage: per instrument, before fan-out. Its work is done once for all subscribers.
//!
//! Nothing is kept or queued for an instrument and kind that no subscriber wants. The priority
//! queue is bounded: one entry for each wanted state, and [`ConflatorConfig::events_max`] trades,
//! changes of orders and of status each, with at most one quote and one status before each of them.

use weir_types::{InstrumentId, Nanos};

use super::entry::{Body, Entry, Kind, Merged, Stamp};
use super::outbox::{Full, Group, Outbox};
use super::slot::NONE;
use super::step::Place;
use super::urgency::Urgency;
use super::view::BookView;

/// What happens to a trade or a change of an order or status when flush is so far behind that its
/// bounded queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFull {
    /// It is lost, and told as one gap per instrument and kind, at its place in the order; changes
    /// of status are merged into the latest.
    Gap,
    /// It is refused and nothing changed: the caller takes from the queue and tries again.
    Refuse,
}

/// How the first stage conflates.
#[derive(Clone, Debug)]
pub struct ConflatorConfig {
    /// The least time between two messages of a quote, where nothing is urgent.
    pub bbo_interval: Nanos,
    /// As much for levels.
    pub book_interval: Nanos,
    /// As much for statistics.
    pub statistics_interval: Nanos,
    /// When a quote does not wait.
    pub urgency: Urgency,
    /// Instruments have numbers up to this one; changes of others are unwanted.
    pub instrument_id_max: InstrumentId,
    /// Trades, changes of orders and of status that are queued at most, each for itself, from 1.
    pub events_max: u32,
    /// What happens beyond.
    pub on_full: OnFull,
}

impl Default for ConflatorConfig {
    /// 15 µs for quotes and levels, 1 ms for statistics, 1 % is urgent, 65,536 events, then gaps.
    fn default() -> ConflatorConfig {
        ConflatorConfig {
            bbo_interval: Nanos(15_000),
            book_interval: Nanos(15_000),
            statistics_interval: Nanos(1_000_000),
            urgency: Urgency::ONE_PERCENT,
            instrument_id_max: InstrumentId((1 << 22) - 1),
            events_max: 1 << 16,
            on_full: OnFull::Gap,
        }
    }
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nobody wants it.
    Unwanted,
    /// It went to the priority queue.
    Queued,
    /// It is in the throttle queue, alone or merged.
    Waiting,
    /// It was merged with what is in the priority queue.
    Merged,
    /// It is part of a gap.
    Lost,
    /// The queue is full, and nothing changed. Only with [`OnFull::Refuse`].
    Refused,
}

/// Changes by what became of them, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Nobody wanted them.
    pub unwanted: u64,
    /// They went to the priority queue at once.
    pub queued: u64,
    /// They went through the throttle queue.
    pub waiting: u64,
    /// They were merged in the priority queue: flush was behind.
    pub merged: u64,
    /// They were lost to gaps.
    pub lost: u64,
    /// They were refused.
    pub refused: u64,
    /// Entries taken out of the priority queue.
    pub sent: u64,
}

/// That somebody begins or ceases to want a kind of an instrument: from [`super::Fanout`], one for
/// the first and the last of its subscriptions, to the [`Conflator`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Which instrument.
    pub instrument_id: InstrumentId,
    /// Which kind.
    pub kind: Kind,
    /// It begins.
    pub is_wanted: bool,
}

/// See the file's head.
#[derive(Clone, Debug)]
pub struct Conflator {
    outbox: Outbox,
    /// By instrument, the slots by kind.
    slots: Vec<[u32; Kind::COUNT]>,
    /// By slot, how many want it.
    wanted: Vec<u32>,
    instrument_id_max: InstrumentId,
    counts: Counts,
}

impl Conflator {
    /// Asks for what [`Conflator::apply`] will look at first: changes nothing.
    #[inline]
    pub fn prefetch(&self, instrument_id: InstrumentId) {
        if let Some(slots) = self.slots.get(instrument_id.0 as usize) {
            weir_memory::prefetch(slots);
        }
    }

    /// Nobody wants anything yet.
    ///
    /// # Panics
    /// When `events_max` is zero.
    #[must_use]
    pub fn new(config: &ConflatorConfig) -> Conflator {
        assert!(config.events_max > 0, "a queue for events has room for one");
        let mut outbox = Outbox::default();
        let on_full = match config.on_full {
            OnFull::Gap => Full::Collapse,
            OnFull::Refuse => Full::Refuse,
        };
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            let interval = match kind {
                Kind::Bbo => config.bbo_interval,
                Kind::Book => config.book_interval,
                Kind::Statistics => config.statistics_interval,
                Kind::Status | Kind::Trades | Kind::Orders => Nanos(0),
            };
            let mut group = Group::new(true, on_full, config.events_max);
            group.urgency = config.urgency;
            // INVARIANT: a kind's number is its group's.
            assert_eq!(outbox.add_group(group, interval) as usize, index);
        }
        Conflator {
            outbox,
            slots: Vec::new(),
            wanted: Vec::new(),
            instrument_id_max: config.instrument_id_max,
            counts: Counts::default(),
        }
    }

    /// Somebody begins or ceases to want something. Who begins gets the state, marked as snapshot,
    /// through the priority queue, so that no change between it and what follows is missed; other
    /// subscribers' `Fanout`s pass over it.
    pub fn interest(&mut self, now: Nanos, interest: &Interest, books: &impl BookView) {
        let Interest { instrument_id, kind, is_wanted } = *interest;
        if instrument_id > self.instrument_id_max {
            return;
        }
        if !is_wanted {
            self.unwant(instrument_id, kind);
            return;
        }
        let index = instrument_id.0 as usize;
        if self.slots.len() <= index {
            self.slots.resize(index + 1, [NONE; Kind::COUNT]);
        }
        let known = self.slots[index][kind as usize];
        let slot = if known == NONE {
            let slot = self.outbox.add_slot(instrument_id, kind, kind as u32);
            self.slots[index][kind as usize] = slot;
            let count = self.wanted.len().max(slot as usize + 1);
            self.wanted.resize(count, 0);
            slot
        } else {
            known
        };
        self.wanted[slot as usize] += 1;
        self.tell(now, slot, books);
    }

    fn unwant(&mut self, instrument_id: InstrumentId, kind: Kind) {
        let Some(slot) = self.slot_of(instrument_id, kind) else { return };
        self.wanted[slot as usize] -= 1;
        if self.wanted[slot as usize] == 0 {
            self.outbox.remove_slots(&[slot]);
            self.slots[instrument_id.0 as usize][kind as usize] = NONE;
        }
    }

    /// Puts a slot's state into the priority queue.
    fn tell(&mut self, now: Nanos, slot: u32, books: &impl BookView) {
        let (id, kind) = (self.outbox.slot(slot).instrument_id, self.outbox.slot(slot).kind);
        let merged = Merged::none(books.last_change(id));
        let body = match kind {
            Kind::Trades => return,
            Kind::Bbo => Body::Bbo(books.best(id)),
            Kind::Book => Body::Book,
            Kind::Statistics => Body::Statistics,
            Kind::Orders => Body::OrdersSnapshot,
            Kind::Status => match books.status(id) {
                Some(status) => Body::Status(status),
                None => return,
            },
        };
        let entry = Entry { instrument_id: id, is_snapshot: true, merged, body };
        if kind.may_wait() {
            self.outbox.slot_mut(slot).is_snapshot_due = true;
            self.outbox.go(now, slot, &entry);
        } else {
            self.outbox.mark(now, slot, entry);
        }
    }

    /// A change. Changes of an instrument come in the order of the feed; of a message that says
    /// several things, the trade first and then what the book is after it.
    pub fn apply(&mut self, now: Nanos, entry: &Entry) -> Outcome {
        let outcome = match self.slot_of(entry.instrument_id, entry.body.kind()) {
            None => Outcome::Unwanted,
            Some(slot) => self.outbox.take(now, slot, entry),
        };
        let count = match outcome {
            Outcome::Unwanted => &mut self.counts.unwanted,
            Outcome::Queued => &mut self.counts.queued,
            Outcome::Waiting => &mut self.counts.waiting,
            Outcome::Merged => &mut self.counts.merged,
            Outcome::Lost => &mut self.counts.lost,
            Outcome::Refused => &mut self.counts.refused,
        };
        *count += 1;
        outcome
    }

    /// The timer: what has waited for its interval goes to the priority queue. To be called after
    /// the changes that came before `now`, at least as often as the shortest interval is long.
    pub fn tick(&mut self, now: Nanos) {
        self.outbox.tick(now);
    }

    /// When [`Conflator::tick`] may have something to do next; `None` when nothing waits.
    #[must_use]
    pub fn next_due(&self) -> Option<Nanos> {
        self.outbox.next_due()
    }

    /// Takes the next entry out of the priority queue, for all `Fanout`s. It counts as sent now.
    pub fn pop(&mut self, now: Nanos) -> Option<Entry> {
        let (_, entry) = self.outbox.pop(now)?;
        self.counts.sent += 1;
        Some(entry)
    }

    /// Changes a kind's interval, from now on. Zero: nothing waits. Kinds that never wait have
    /// none, and nothing happens.
    pub fn set_interval(&mut self, now: Nanos, kind: Kind, interval: Nanos) {
        if kind.may_wait() {
            self.outbox.set_interval(now, kind as u32, interval);
        }
    }

    /// Entries in the priority queue.
    #[must_use]
    pub fn queue_len(&self) -> usize {
        self.outbox.queue_len()
    }

    /// States in the throttle queue.
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        self.outbox.waiting_count()
    }

    /// What became of changes.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// True when the newest state of this kind is on its way: in a queue and not yet taken.
    #[must_use]
    pub fn is_pending(&self, instrument_id: InstrumentId, kind: Kind) -> bool {
        self.slot_of(instrument_id, kind)
            .is_some_and(|slot| self.outbox.slot(slot).place != Place::Clean)
    }

    fn slot_of(&self, instrument_id: InstrumentId, kind: Kind) -> Option<u32> {
        let slots = self.slots.get(instrument_id.0 as usize)?;
        Some(slots[kind as usize]).filter(|slot| *slot != NONE)
    }
}

impl Stamp {
    /// The stamp of an update that was received then.
    #[must_use]
    pub fn of(update: &crate::Update, ts_recv: Nanos) -> Stamp {
        Stamp { sequence: update.sequence, ts_event: update.ts_event, ts_recv }
    }
}
