//! The update stage: applies updates to books, runs the first stage of conflation, and feeds flush.
//!
//! It runs on the receiving thread (fused), or behind a ring on its own thread (staged). Its output
//! is sent only between packets, so that no output reflects half a message; the updates received
//! since then are applied to the books as a batch.

use std::collections::VecDeque;

use rtrb::Consumer;
use weir_feed::line::State;
use weir_feed::{Action, Definition, FeedError, Update};
use weir_market::book::Statistics;
use weir_market::conflate::{
    Bbo, Body, BookView, Conflator, ConflatorConfig, DayStatistics, Entry, Interest, Kind, Stamp,
    Status,
};
use weir_market::interval::ChannelReset;
use weir_market::{Books, BooksConfig};
use weir_runtime::Wake;
use weir_types::{InstrumentId, Nanos, Price, Qty, Side};

use super::batch::Batch;
use super::changes::{ChangeReporter, bbo_of};
use super::figures::UpdateReport;
use super::flush_slot::{ChannelIndex, FlushContent, FlushSlot};
use super::instrument_state::InstrumentState;
use super::levels::PendingLevels;
use super::post::{hand_over, tell_book, tell_channel, tell_void};
use super::ring::{RingWriter, Slots};
use super::stages::{TimedMessage, UpdateProbe};
use crate::post::{PostEvent, PostSender};
use crate::receiver::{ChannelEvent, ChannelKey, ClearReason, Origin, Output};

/// The maximum number of updates in a batch: as many as fit in a core's L1 cache next to the books'
/// own lines.
pub const BATCH_MAX: usize = 128;
/// Changes of interest taken in one turn, or an eighth of the priority queue if that is more: as
/// many snapshots are queued in front of later changes.
const WISHES_PER_TURN: usize = 64;
/// Items of the priority queue that a change of interest looks at for the price of another one.
const LOOKS_PER_WISH: usize = 64;
/// The time until entries and wishes without room are tried again, in nanoseconds.
const RETRY_INTERVAL: u64 = 100_000;

/// The reaction when a flush thread lags and the ring to it is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenFull {
    /// States merge in the priority queue. The default.
    #[default]
    Merge,
    /// The stage waits, and so does the feed: for tests that must see every change.
    Wait,
}

/// Counters of the stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpdateCounts {
    /// Updates applied.
    pub updates: u64,
    /// Slots sent to flush.
    pub told: u64,
    /// Times that the ring to flush was full.
    pub full: u64,
}

/// A notice, sent in order before entries.
#[derive(Clone, Copy, Debug)]
enum Notice {
    Define(ChannelIndex, Definition),
    Channel(ChannelIndex, ChannelKey, State),
    NewSession(ChannelIndex),
    /// So many wishes of a flush thread have been taken.
    Wished(u16, u64),
}

/// The update stage's end of a flush thread's queue of interest changes.
pub type InterestReceiver = Consumer<Interest>;

/// Builds books from updates and sends conflated changes to the flush threads.
pub struct UpdateStage<D = RingWriter<FlushSlot>> {
    books: Books,
    reporter: ChangeReporter,
    batch: Batch,
    batch_max: usize,
    wanted_levels: Vec<u32>,
    notices: VecDeque<Notice>,
    door: D,
    wakes: Vec<Wake>,
    wishes: Vec<InterestReceiver>,
    /// The number of wishes taken of each flush thread.
    wished: Vec<u64>,
    /// The flush thread whose wishes are taken next.
    next_wishes: usize,
    /// The entries up to the last snapshot that the wishes taken last have queued.
    snapshots_ahead: usize,
    turned_at: Nanos,
    when_full: WhenFull,
    has_told: bool,
    counts: UpdateCounts,
}

/// The state of the books that conflation reads.
struct View<'a> {
    books: &'a Books,
    known: &'a [InstrumentState],
}

/// The parts of an [`UpdateStage`].
pub struct UpdateParts<D = RingWriter<FlushSlot>> {
    /// The configuration of the books.
    pub books: BooksConfig,
    /// The maximum number of updates in a batch: [`BATCH_MAX`], or 1 to disable batching.
    pub batch_max: usize,
    /// The first stage's intervals.
    pub conflator: ConflatorConfig,
    /// The ring to the flush threads.
    pub door: D,
    /// Wakes each flush thread.
    pub wakes: Vec<Wake>,
    /// The queue of interest changes of each flush thread.
    pub wishes: Vec<InterestReceiver>,
    /// The reaction when a flush thread lags.
    pub when_full: WhenFull,
    /// The ring of events for bars and statistics, if configured.
    pub post: Option<PostSender>,
    /// The probe that times messages.
    pub probe: UpdateProbe,
}

impl<D: Slots<FlushSlot>> UpdateStage<D> {
    /// Creates a stage without state.
    #[must_use]
    pub fn new(parts: UpdateParts<D>) -> UpdateStage<D> {
        let reporter = ChangeReporter {
            known: Vec::new(),
            channels: Vec::new(),
            conflator: Conflator::new(&parts.conflator),
            levels: PendingLevels::default(),
            post: parts.post,
            probe: parts.probe,
            instruments_max: parts.books.instruments_max,
            polled: Nanos(0),
        };
        UpdateStage {
            books: Books::new(&parts.books),
            reporter,
            batch: Batch::with_capacity(parts.batch_max),
            batch_max: parts.batch_max,
            wanted_levels: Vec::new(),
            notices: VecDeque::new(),
            door: parts.door,
            wakes: parts.wakes,
            wished: vec![0; parts.wishes.len()],
            wishes: parts.wishes,
            next_wishes: 0,
            snapshots_ahead: 0,
            turned_at: Nanos(0),
            when_full: parts.when_full,
            has_told: false,
            counts: UpdateCounts::default(),
        }
    }

    /// The books, as of the last turn.
    #[must_use]
    pub fn books(&self) -> &Books {
        &self.books
    }

    /// The ring to the flush threads.
    pub(super) fn door(&self) -> &D {
        &self.door
    }

    /// The stage's counters.
    #[must_use]
    pub fn counts(&self) -> UpdateCounts {
        self.counts
    }

    /// Conflation's counters.
    #[must_use]
    pub fn conflated(&self) -> weir_market::conflate::Counts {
        self.reporter.conflator.counts()
    }

    /// The number of states in the throttle queue, and of entries in the priority queue.
    #[must_use]
    pub fn queue_lens(&self) -> (usize, usize) {
        (self.reporter.conflator.waiting_count(), self.reporter.conflator.queue_len())
    }

    /// The stage's counters for the status page.
    pub(super) fn report(&self) -> UpdateReport {
        let (counts, conflated) = (self.counts(), self.conflated());
        let (waiting, queue_len) = self.queue_lens();
        UpdateReport {
            updates: counts.updates,
            orders: u64::from(self.books().order_count()),
            anomalies: self.books().anomalies().total(),
            unwanted: conflated.unwanted,
            queued: conflated.queued,
            waited: conflated.waiting,
            merged: conflated.merged,
            lost: conflated.lost,
            waiting: waiting as u64,
            queue_len: queue_len as u64,
            told: counts.told,
            ring_full: counts.full,
        }
    }

    /// Marks the next update as timed.
    pub fn begin_trace(&mut self, begun: TimedMessage) {
        self.batch.begin_trace(begun);
    }

    /// The time of the next [`UpdateStage::turn`] with work even if nothing arrives.
    #[must_use]
    pub fn next_due(&self) -> Option<Nanos> {
        let is_held = self.reporter.conflator.queue_len() > 0 || !self.notices.is_empty();
        let retry = is_held.then_some(Nanos(self.turned_at.0.saturating_add(RETRY_INTERVAL)));
        self.reporter.conflator.next_due().into_iter().chain(retry).min()
    }

    /// Does the work between packets: applies updates and interest changes, runs the timer, and
    /// sends pending output. Returns the amount of work done.
    pub fn turn(&mut self, now: Nanos) -> usize {
        self.take_batch();
        self.turned_at = now;
        let mut done = self.take_wishes(now);
        self.reporter.conflator.tick(now);
        done += self.tell_all(now);
        if std::mem::take(&mut self.has_told) {
            self.wakes.iter().for_each(Wake::wake);
        }
        done
    }

    /// Takes changes of interest, a bounded number in a turn and of each flush thread in its turn,
    /// once the snapshots of those taken before are sent: so snapshots and changes of the market
    /// share the way to flush.
    fn take_wishes(&mut self, now: Nanos) -> usize {
        if self.snapshots_ahead > 0 {
            return 0;
        }
        let room = WISHES_PER_TURN.max(self.reporter.conflator.queue_len() / 8);
        let (mut taken, mut cost, mut empty) = (0, 0, 0);
        while cost < room && empty < self.wishes.len() {
            let index = self.next_wishes % self.wishes.len();
            self.next_wishes = index + 1;
            match self.wishes[index].pop() {
                Ok(interest) => {
                    (taken, empty) = (taken + 1, 0);
                    self.wished[index] += 1;
                    self.answer(index);
                    cost += 1 + self.wish(now, &interest) / LOOKS_PER_WISH;
                }
                Err(_) => empty += 1,
            }
        }
        if taken > 0 {
            self.snapshots_ahead = self.reporter.conflator.queue_len();
        }
        taken
    }

    /// Has a flush thread told how many of its wishes were taken, in front of all entries that are
    /// sent from now on.
    fn answer(&mut self, index: usize) {
        let (thread, now_taken) = (index as u16, self.wished[index]);
        let waiting = self.notices.iter_mut().find_map(|notice| match notice {
            Notice::Wished(of, count) if *of == thread => Some(count),
            _ => None,
        });
        match waiting {
            Some(count) => *count = now_taken,
            None => self.notices.push_back(Notice::Wished(thread, now_taken)),
        }
    }

    /// Takes a change of interest; returns the number of queued items that were looked at.
    fn wish(&mut self, now: Nanos, interest: &Interest) -> usize {
        let Interest { instrument_id: id, kind, is_wanted } = *interest;
        if id.0 >= self.reporter.instruments_max {
            return 0;
        }
        if kind == Kind::Book {
            let index = id.0 as usize;
            if self.wanted_levels.len() <= index {
                self.wanted_levels.resize(index + 1, 0);
            }
            let count = &mut self.wanted_levels[index];
            *count = if is_wanted { *count + 1 } else { count.saturating_sub(1) };
            if is_wanted || *count == 0 {
                self.reporter.levels.want(id, is_wanted);
            }
        }
        let ChangeReporter { conflator, known, .. } = &mut self.reporter;
        let view = View { books: &self.books, known };
        conflator.interest(now, interest, &view)
    }

    fn tell_all(&mut self, now: Nanos) -> usize {
        let mut done = 0;
        while let Some(notice) = self.notices.front().copied() {
            if !self.tell(|told| notice.write(now, told)) {
                return done;
            }
            self.notices.pop_front();
            done += 1;
        }
        // An entry taken from the queue must be sent, so room is checked first.
        while self.reporter.conflator.queue_len() > 0 {
            let UpdateStage { door, books, reporter, .. } = self;
            let ChangeReporter { conflator, known, levels, probe, .. } = reporter;
            let is_told = door.write(|told| {
                let entry = conflator.pop(now).expect("the queue is not empty");
                write_entry(told, now, &entry, books, known, levels);
                told.trace = probe.told(&entry);
            });
            if !is_told {
                self.counts.full += 1;
                if self.when_full == WhenFull::Merge {
                    break;
                }
                self.wakes.iter().for_each(Wake::wake);
                std::thread::yield_now();
                continue;
            }
            self.snapshots_ahead = self.snapshots_ahead.saturating_sub(1);
            self.counts.told += 1;
            self.has_told = true;
            done += 1;
        }
        // The ends of interest have removed entries.
        let left = self.reporter.conflator.queue_len();
        self.snapshots_ahead = self.snapshots_ahead.min(left);
        done
    }

    fn tell(&mut self, write: impl FnOnce(&mut FlushSlot)) -> bool {
        let is_told = self.door.write(write);
        self.counts.told += u64::from(is_told);
        self.counts.full += u64::from(!is_told);
        self.has_told |= is_told;
        is_told
    }

    /// Applies the pending updates to the books and passes their changes to conflation.
    fn take_batch(&mut self) {
        let UpdateStage { books, reporter, batch, counts, .. } = self;
        if batch.updates.is_empty() {
            return;
        }
        counts.updates += batch.updates.len() as u64;
        let mut begun_of = batch.traces();
        let mut sources = batch.sources.iter().enumerate();
        let mut cleared = None;
        books.apply_all(&batch.updates, |update, change| {
            let (at, source) = sources.next().expect("each update has its source");
            reporter.updated(source, begun_of(at), update, change);
            // An update that clears a book ends its batch; the new state is published once the
            // books are free.
            if change.is_cleared {
                cleared = Some((*source, change.instrument_id, Stamp::of(update, source.ts_recv)));
            }
        });
        drop(begun_of);
        batch.clear();
        match cleared {
            Some((source, InstrumentId(0), _)) => {
                if let Some(post) = self.reporter.post.as_mut().filter(|_| !source.is_snapshot) {
                    tell_void(post, source.channel, ChannelReset::Emptied);
                }
                self.clear(source.channel, false);
            }
            Some((source, id, stamp))
                if !source.is_snapshot && id.0 < self.reporter.instruments_max =>
            {
                self.reporter.say_anew(source.ts_poll, &self.books, id, stamp);
            }
            _ => {}
        }
    }

    /// Clears the books of a channel's instruments.
    fn clear(&mut self, channel: ChannelIndex, is_session: bool) {
        for id in self.reporter.of_channel(channel) {
            let last_change = &mut self.reporter.known[id.0 as usize].last_change;
            if is_session {
                last_change.sequence = 0;
            }
            let Stamp { sequence, ts_event, ts_recv } = *last_change;
            let action = Action::Clear;
            let _ = self.books.apply(&Update { instrument_id: id, sequence, ts_event, action });
            let (polled, stamp) = (self.reporter.polled, Stamp { sequence, ts_event, ts_recv });
            self.reporter.say_anew(polled, &self.books, id, stamp);
        }
        if is_session {
            self.notices.push_back(Notice::NewSession(channel));
        }
    }

    /// Publishes a complete snapshot as one change of each instrument.
    fn joined(&mut self, channel: ChannelIndex, next: u64) {
        for id in self.reporter.of_channel(channel) {
            let last_change = &mut self.reporter.known[id.0 as usize].last_change;
            last_change.sequence = next.saturating_sub(1);
            let stamp = *last_change;
            let ChangeReporter { post, known, .. } = &mut self.reporter;
            if let Some(post) = post {
                tell_book(post, id, &known[id.0 as usize], &self.books);
            }
            self.reporter.say_anew(self.reporter.polled, &self.books, id, stamp);
        }
    }
}

impl<D: Slots<FlushSlot>> Output for UpdateStage<D> {
    fn define(&mut self, origin: &Origin, definition: &Definition) {
        self.take_batch();
        let channel = self.reporter.channel_index(origin.channel);
        // Books and conflation count instruments beyond their limits.
        let _is_known = self.books.define(definition.instrument_id);
        if let Some(post) = &mut self.reporter.post {
            hand_over(post, PostEvent::Define(*definition));
        }
        if self.reporter.know(definition.instrument_id, channel).is_some() {
            self.notices.push_back(Notice::Define(channel, *definition));
        }
    }

    fn update(&mut self, origin: &Origin, update: Update) {
        let clears = matches!(update.action, Action::Clear);
        self.reporter.prefetch(update.instrument_id);
        self.batch.push(self.reporter.source(origin), update);
        if clears || self.batch.updates.len() >= self.batch_max {
            self.take_batch();
        }
    }

    fn channel(&mut self, channel: ChannelKey, event: &ChannelEvent) {
        self.take_batch();
        let index = self.reporter.channel_index(channel);
        if let Some(post) = &mut self.reporter.post {
            tell_channel(post, index, event);
        }
        match event {
            ChannelEvent::State { to, .. } => {
                self.reporter.channels[usize::from(index)].1 = *to;
                self.notices.push_back(Notice::Channel(index, channel, *to));
            }
            ChannelEvent::Damaged | ChannelEvent::Silent => {
                self.notices.push_back(Notice::Channel(index, channel, State::Stale));
            }
            ChannelEvent::Heard => {
                let state = self.reporter.channels[usize::from(index)].1;
                self.notices.push_back(Notice::Channel(index, channel, state));
            }
            ChannelEvent::Clear { reason } => {
                self.clear(index, matches!(reason, ClearReason::Session { .. }));
            }
            ChannelEvent::Joined { next } => self.joined(index, *next),
            ChannelEvent::Gap { .. }
            | ChannelEvent::Stale { .. }
            | ChannelEvent::EndOfSession { .. } => {}
        }
    }

    fn refused(&mut self, _origin: &Origin, _error: FeedError) {}

    fn end_of_packet(&mut self, _origin: &Origin) {}
}

impl Notice {
    fn write(&self, now: Nanos, told: &mut FlushSlot) {
        told.begin(now);
        (told.channel, told.what) = match *self {
            Notice::Define(channel, definition) => (channel, FlushContent::Define(definition)),
            Notice::Channel(channel, key, state) => (channel, FlushContent::Channel(key, state)),
            Notice::NewSession(channel) => (channel, FlushContent::NewSession),
            Notice::Wished(thread, count) => (0, FlushContent::Wished(thread, count)),
        };
    }
}

fn write_entry(
    told: &mut FlushSlot,
    now: Nanos,
    entry: &Entry,
    books: &Books,
    known: &[InstrumentState],
    levels: &mut PendingLevels,
) {
    let id = entry.instrument_id;
    let known = known.get(id.0 as usize).copied().unwrap_or_default();
    told.begin(now);
    told.channel = known.channel;
    told.what = FlushContent::Entry(*entry);
    let Stamp { sequence, ts_event, .. } = known.last_change;
    let at = |action| Update { instrument_id: id, sequence, ts_event, action };
    match entry.body {
        Body::Statistics => told.statistics = day_of(&books.statistics(id)),
        Body::Book => {
            let updates = &mut told.updates;
            let is_whole = levels.take(id, |change| {
                updates.push(at(level_of(change.side, change.level)));
            });
            if is_whole {
                updates.push(at(Action::Clear));
                for side in [Side::Buy, Side::Sell] {
                    let whole = books.levels(id, side, usize::MAX);
                    updates.extend(whole.map(|level| at(level_of(side, level))));
                }
            }
        }
        Body::OrdersSnapshot | Body::Gap(Kind::Orders) => {
            told.updates.push(at(Action::Clear));
            for side in [Side::Buy, Side::Sell] {
                told.updates.extend(books.orders(id, side).map(|order| {
                    let (order_id, price, size) = (order.order_id, order.price, order.size);
                    at(Action::Add { order_id, side, price, size })
                }));
            }
        }
        _ => {}
    }
}

fn level_of(side: Side, level: weir_market::book::BookLevel) -> Action {
    let weir_market::book::BookLevel { price, size, order_count } = level;
    Action::Level { side, price, size, order_count, is_last: true }
}

fn day_of(statistics: &Statistics) -> DayStatistics {
    DayStatistics {
        open: statistics.open,
        high: statistics.high,
        low: statistics.low,
        last: statistics.last,
        volume: statistics.volume,
        turnover: statistics.turnover,
        trade_count: statistics.trade_count,
    }
}

impl BookView for View<'_> {
    fn best(&self, instrument_id: InstrumentId) -> Bbo {
        bbo_of(&self.books.best(instrument_id))
    }

    fn levels(
        &self,
        instrument_id: InstrumentId,
        side: Side,
        depth: usize,
        level: &mut dyn FnMut(Price, Qty, u32),
    ) {
        for at in self.books.levels(instrument_id, side, depth) {
            level(at.price, at.size, at.order_count);
        }
    }

    fn statistics(&self, instrument_id: InstrumentId) -> DayStatistics {
        day_of(&self.books.statistics(instrument_id))
    }

    fn status(&self, instrument_id: InstrumentId) -> Option<Status> {
        self.known.get(instrument_id.0 as usize)?.status
    }

    fn last_change(&self, instrument_id: InstrumentId) -> Stamp {
        self.known.get(instrument_id.0 as usize).map_or(Stamp::default(), |known| known.last_change)
    }
}

#[cfg(test)]
mod tests;
