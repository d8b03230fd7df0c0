//! The first stage of conflation: per instrument, before fan-out, so that its work is done once for
//! all subscribers.
//!
//! It stores and queues nothing for an instrument and kind without a subscriber. The priority queue
//! is bounded: one entry for each subscribed state; at most [`ConflatorConfig::events_max`] trades,
//! as many changes of orders and of status; and at most one quote and one status ahead of each of
//! these events.

use weir_types::{InstrumentId, Nanos};

use super::entry::{Body, Entry, Kind, MergedChanges, Stamp};
use super::outbox::{Full, Group, Outbox};
use super::slot::NONE;
use super::step::{Outcome, SlotState};
use super::urgency::Urgency;
use super::view::BookView;
use crate::plant::{self, Plant};

/// The treatment of a trade or a change of an order or status when flush lags so far behind that
/// the event's bounded queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFull {
    /// The event is lost and reported as one gap per instrument and kind, in its order; changes of
    /// status are merged into the latest.
    Gap,
    /// The event is refused and nothing changes: the caller drains the queue and retries.
    Refuse,
}

/// Configuration of the first stage.
#[derive(Clone, Debug)]
pub struct ConflatorConfig {
    /// The minimum time between two messages of a quote, unless it is urgent.
    pub bbo_interval: Nanos,
    /// The same for levels.
    pub book_interval: Nanos,
    /// The same for statistics.
    pub statistics_interval: Nanos,
    /// The rule for quotes that do not wait.
    pub urgency: Urgency,
    /// The highest instrument number; changes of higher ones count as unwanted.
    pub instrument_id_max: InstrumentId,
    /// The most queued trades, changes of orders and changes of status, each counted separately; at
    /// least 1.
    pub events_max: u32,
    /// The treatment of events beyond `events_max`.
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

/// Counters of changes by outcome, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Changes that no subscriber wanted.
    pub unwanted: u64,
    /// Changes that entered the priority queue at once.
    pub queued: u64,
    /// Changes that went through the throttle queue.
    pub waiting: u64,
    /// Changes merged in the priority queue, because flush lagged behind.
    pub merged: u64,
    /// Changes lost to gaps.
    pub lost: u64,
    /// Changes refused.
    pub refused: u64,
    /// Entries taken out of the priority queue.
    pub sent: u64,
}

/// The start or end of interest in a kind of an instrument. [`super::Fanout`] sends one to the
/// [`Conflator`] for the first and the last of its subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// The kind of changes.
    pub kind: Kind,
    /// True at the start of interest, false at its end.
    pub is_wanted: bool,
}

/// The first stage of conflation: one slot for each subscribed instrument and kind.
#[derive(Clone, Debug)]
pub struct Conflator {
    outbox: Outbox,
    /// The slots by instrument and kind.
    slots: Vec<[u32; Kind::COUNT]>,
    /// The number of fan-outs interested, by slot.
    wanted: Vec<u32>,
    instrument_id_max: InstrumentId,
    counts: Counts,
}

impl Conflator {
    /// Prefetches the memory that [`Conflator::apply`] reads first; changes nothing.
    #[inline]
    pub fn prefetch(&self, instrument_id: InstrumentId) {
        if let Some(slots) = self.slots.get(instrument_id.0 as usize) {
            weir_memory::prefetch(slots);
        }
    }

    /// Creates a conflator without any interest.
    ///
    /// # Panics
    /// Panics when `events_max` is zero.
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

    /// Starts or ends interest in a kind of an instrument. At the start, queues the state, marked
    /// as snapshot, through the priority queue, so that no change between the snapshot and later
    /// entries is missed. The `Fanout`s of other subscribers ignore that entry. Returns the number
    /// of queued items that were looked at, to remove those of an interest that ends.
    pub fn interest(&mut self, now: Nanos, interest: &Interest, books: &impl BookView) -> usize {
        let Interest { instrument_id, kind, is_wanted } = *interest;
        if instrument_id > self.instrument_id_max {
            return 0;
        }
        if !is_wanted {
            return self.unwant(instrument_id, kind);
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
        0
    }

    fn unwant(&mut self, instrument_id: InstrumentId, kind: Kind) -> usize {
        let Some(slot) = self.slot_of(instrument_id, kind) else { return 0 };
        self.wanted[slot as usize] -= 1;
        if self.wanted[slot as usize] > 0 {
            return 0;
        }
        self.slots[instrument_id.0 as usize][kind as usize] = NONE;
        if self.outbox.remove_slot(slot) { self.outbox.sweep() } else { 0 }
    }

    /// Queues a slot's state in the priority queue.
    fn tell(&mut self, now: Nanos, slot: u32, books: &impl BookView) {
        let (id, kind) = (self.outbox.slot(slot).instrument_id, self.outbox.slot(slot).kind);
        let is_queued = matches!(self.outbox.slot(slot).place, SlotState::Queued(_))
            && !plant::is(Plant::MarkerBehindStatus);
        let merged = MergedChanges::none(books.last_change(id));
        let body = match kind {
            Kind::Trades => return,
            Kind::Bbo => Body::Bbo(books.best(id)),
            Kind::Book => Body::Book,
            Kind::Statistics => Body::Statistics,
            Kind::Orders => Body::OrdersSnapshot,
            // It is sent behind the interest that asks for it, with the changes until then. A
            // marker behind it would be the older one.
            Kind::Status if is_queued => return,
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

    /// Takes a change. Changes of an instrument must come in feed order; of one message with
    /// several effects, the trade comes first and then the resulting state of the book.
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

    /// Runs the timer: moves states whose interval has ended to the priority queue. Call it after
    /// the changes received before `now`, at least once per shortest interval.
    pub fn tick(&mut self, now: Nanos) {
        self.outbox.tick(now);
    }

    /// Returns the next time at which [`Conflator::tick`] may have work; `None` when nothing waits.
    #[must_use]
    pub fn next_due(&self) -> Option<Nanos> {
        self.outbox.next_due()
    }

    /// Takes the next entry off the priority queue, for all `Fanout`s. It counts as sent now.
    pub fn pop(&mut self, now: Nanos) -> Option<Entry> {
        let (_, entry) = self.outbox.pop(now)?;
        self.counts.sent += 1;
        Some(entry)
    }

    /// Changes a kind's interval from now on; with zero, nothing waits. Ignores kinds that never
    /// wait, because they have no interval.
    pub fn set_interval(&mut self, now: Nanos, kind: Kind, interval: Nanos) {
        if kind.may_wait() {
            let _slot_count = self.outbox.set_interval(now, kind as u32, interval);
        }
    }

    /// Returns the number of entries in the priority queue.
    #[must_use]
    pub fn queue_len(&self) -> usize {
        self.outbox.queue_len()
    }

    /// Returns the number of states in the throttle queue.
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        self.outbox.waiting_count()
    }

    /// Returns the counters of changes by outcome.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns true when the newest state of this kind is in a queue and not yet taken.
    #[must_use]
    pub fn is_pending(&self, instrument_id: InstrumentId, kind: Kind) -> bool {
        self.slot_of(instrument_id, kind)
            .is_some_and(|slot| self.outbox.slot(slot).place != SlotState::Clean)
    }

    fn slot_of(&self, instrument_id: InstrumentId, kind: Kind) -> Option<u32> {
        let slots = self.slots.get(instrument_id.0 as usize)?;
        Some(slots[kind as usize]).filter(|slot| *slot != NONE)
    }
}

impl Stamp {
    /// Returns the stamp of an update received at `ts_recv`.
    #[must_use]
    pub fn of(update: &weir_feed::Update, ts_recv: Nanos) -> Stamp {
        Stamp { sequence: update.sequence, ts_event: update.ts_event, ts_recv }
    }
}
