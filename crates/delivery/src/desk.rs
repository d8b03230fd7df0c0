//! The reader desk: parked readers, and the order in which they are served.
//!
//! Taking in events has priority and does no work for readers; they look for new rows in
//! [`Desk::poll`], in rotation, within the budget of one call. No reader looks while nothing is
//! new.
//!
//! ```text
//! a fetch waits until                                       | and gets
//! ----------------------------------------------------------+------------------------------------
//! `rows_min` rows are there, or the page is full            | a page
//! one row is there and `wait_max` since the fetch is over   | a page of the rows that are there
//! no row is there, it has no token, `wait_max` is over      | an empty page: you are ONLINE
//! no row is there and the idle wait is over                 | an empty page with the next token
//! its credit of rows or bytes is spent                      | nothing, until it gets more credit
//! its token cannot be honoured, or it is not entitled       | a refusal with the oldest token
//! its token is below the floor, and an archive is attached  | pages from the archive ([`older`])
//! the store has not reached its `min_token` in time         | a refusal without a token
//! the store cannot be read for now                          | a reject; its token stays valid
//! ```
//! A fetch with a `min_token` waits for that first, and only then by the other rows. With credit
//! for several pages, each wait begins when the page before was served. A connection that takes no
//! data delays no other: its readers keep their place until it can take data again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_types::{
    ChangeId, Epoch, Nanos, PartitionId, Reason, Seq, SessionId, SourceLog, WallOffset,
};
use weir_wire::delivery::{AddCredit, CancelFetch, FetchOrders};
use weir_wire::event::OrderEvent;

use crate::credit::Credit;
use crate::filter::{Entitlement, Filter, Scope, Visibility};
use crate::ingest::{IngestError, IngestOutcome};
use crate::page::{Page, PageHead, PageLimits, PageQuery, Selection, put_page, put_refusal};
use crate::plant::{self, Plant};
use crate::store::{OrderStore, Resync};
use crate::token::{SourceCursor, TokenError, TokenSealer};

mod away;
pub mod listing;
pub mod older;

pub(crate) use away::reject_of;
use listing::PageCounts;
use older::{BelowFloorState, OlderReaders};

/// The limits of a desk. Counts are at least one; spans are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeskConfig {
    /// Fetches that may wait.
    pub readers_max: u32,
    /// Fetches that may wait on one connection.
    pub readers_per_connection_max: u32,
    /// The same limit for a session that sees all orders, such as a router's, which has many
    /// fetches.
    pub readers_of_all_max: u32,
    /// The most rows of a page, whatever the fetch asks for.
    pub page_rows_max: u32,
    /// The most bytes of a page's rows, whatever the fetch asks for.
    pub page_bytes_max: u32,
    /// The most entries that one page visits.
    pub page_scan_max: u32,
    /// The most pages that one fetch may ask for.
    pub credit_max: u32,
    /// The most entries that one call of [`Desk::poll`] visits, for all readers together.
    pub poll_scan_max: u32,
    /// The most readers that one call of [`Desk::poll`] visits.
    pub poll_visit_max: u32,
    /// The time that a page waits to fill if the fetch names none.
    pub wait_default: Nanos,
    /// The longest that a page may wait to fill, or a fetch for its `min_token`.
    pub wait_max: Nanos,
    /// The time that a fetch waits for its `min_token` if it names none.
    pub min_wait_default: Nanos,
    /// The time that a fetch without any row waits before it gets an empty page; its own wait if
    /// that is longer.
    pub idle_wait: Nanos,
}

impl Default for DeskConfig {
    fn default() -> DeskConfig {
        DeskConfig {
            readers_max: 65_536,
            readers_per_connection_max: 64,
            readers_of_all_max: 16_384,
            page_rows_max: 1_000,
            page_bytes_max: 256 * 1024,
            page_scan_max: 4_096,
            credit_max: 1_024,
            poll_scan_max: 16_384,
            poll_visit_max: 4_096,
            wait_default: Nanos(500_000),
            wait_max: Nanos(30_000_000_000),
            min_wait_default: Nanos(1_000_000_000),
            idle_wait: Nanos(1_000_000_000),
        }
    }
}

/// The destination of pages. Connections are the caller's own numbers.
pub trait PageSink {
    /// Returns the buffer for the next whole frames for a session on `connection`; `None` while the
    /// connection can take none. The caller then calls [`Desk::resume`] when it can.
    fn buffer(&mut self, connection: u64, session_id: SessionId) -> Option<&mut Vec<u8>>;
}

/// A fetch as it reaches the desk. Its session may have others on the same connection, and other
/// sessions of the connection may use the same numbers: only the session that sent a fetch can
/// cancel it or give it credit.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The connection that gets the answer.
    pub connection: u64,
    /// The fetch.
    pub fetch: &'a FetchOrders,
    /// Its token; empty to read from the beginning.
    pub token: &'a [u8],
    /// A token that the store must have reached before it answers; empty for none. It has the same
    /// filter and rights.
    pub min_token: &'a [u8],
    /// The session's entitlement.
    pub entitlement: Entitlement,
}

/// The outcome of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum FetchOutcome {
    /// Pages will answer it, or a page that refuses it.
    Accepted,
    /// There is no room for it, and no page will answer it: the caller rejects it with this reason.
    Refused(Reason),
}

/// The result of a call of [`Desk::poll`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PollOutcome {
    /// Pages written, refusals and rejects included.
    pub page_count: u32,
    /// Rows written.
    pub row_count: u32,
    /// There is more work now: call again after taking in new events.
    pub has_more: bool,
}

impl PollOutcome {
    /// Adds the result of another call.
    pub fn add(&mut self, other: PollOutcome) {
        self.page_count += other.page_count;
        self.row_count += other.row_count;
        self.has_more |= other.has_more;
    }
}

/// A call of [`Desk::poll`]: its time, its destination, and its result so far.
struct Round<'a, S> {
    now: Nanos,
    sink: &'a mut S,
    polled: PollOutcome,
}

impl<S: PageSink> Round<'_, S> {
    /// Returns the buffer for a reader's next frames; `None` while its connection can take none.
    fn buffer(&mut self, reader: &Reader) -> Option<&mut Vec<u8>> {
        self.sink.buffer(reader.connection, reader.head.session_id)
    }
}

#[derive(Clone, Debug)]
struct Reader {
    connection: u64,
    head: PageHead,
    scope: Option<Scope>,
    refusal: Option<Reason>,
    /// The reason for which its fetch is rejected: its store cannot be read for now.
    turned_away: Option<Reason>,
    /// The place from which it goes on, and the epoch in which it got there: an epoch may end, at
    /// an earlier place, while the reader waits ahead of the store.
    after: ChangeId,
    epoch: Epoch,
    /// The latest change that the store had when it made the reader's pages.
    seen: Seq,
    /// As in [`SourceCursor`].
    since: ChangeId,
    /// The log whose changes it has, where it is known.
    log: SourceLog,
    /// Its places in other sources, from a router's token: handed on unchanged.
    elsewhere: Vec<SourceCursor>,
    limits: PageLimits,
    credit: Credit,
    rows_min: u32,
    wait: Nanos,
    /// True when it came without a token and has had no page yet.
    is_fresh: bool,
    /// The time at which the wait for its next page began.
    waiting_since: Nanos,
    timer: Option<Nanos>,
    is_ready: bool,
    is_paused: bool,
    /// The store's head at its last visit.
    looked_at: Option<ChangeId>,
    /// The place that the store must reach before anything else, and the deadline.
    min: Option<(SourceCursor, Nanos)>,
    /// The reader's state below the floor, when its pages come from an archive.
    below: BelowFloorState,
    /// Counts of the pages that it was served.
    served: PageCounts,
}

/// A connection's fetches.
#[derive(Debug, Default)]
struct Seats {
    /// Their numbers and seats.
    questions: BTreeSet<(u64, u32)>,
    /// Counts of the pages that finished fetches were served.
    served: PageCounts,
}

/// A store's progress towards a place that it must reach.
enum Reached {
    Yes,
    NotYet,
    /// The place was lost with the end of its epoch.
    Never,
}

/// The result of a visit to a reader.
enum Visit {
    /// There is no page for it: it waits until this time.
    Park(Nanos),
    /// There is more to read than one visit may.
    Again,
    /// Its rows are below the floor: the archive is asked for them.
    Away,
    /// Its connection can take no data, or its credit is spent.
    Pause,
    /// It has had its last page.
    Done,
}

/// A store and the readers that wait at it.
#[derive(Debug)]
pub struct Desk {
    config: DeskConfig,
    store: OrderStore,
    sealer: TokenSealer,
    readers: Vec<Option<Reader>>,
    free: Vec<u32>,
    /// Each connection with a fetch, kept until it is dropped; beyond `readers_max` connections
    /// only while it has a fetch.
    by_connection: BTreeMap<u64, Seats>,
    timers: BTreeSet<(Nanos, u32)>,
    /// Readers to visit even if nothing is new: new ones, due ones, those with more to read.
    ready: VecDeque<u32>,
    /// The sweep for new rows: the next reader, the readers left, and the head that it sweeps for.
    sweep_at: usize,
    sweep_left: usize,
    swept: ChangeId,
    selection: Selection,
    token: Vec<u8>,
    opened: Vec<SourceCursor>,
    /// Readers below the floor, if an archive is attached.
    older: Option<OlderReaders>,
    /// The wall clock, for the times in pages.
    wall: WallOffset,
}

impl Desk {
    /// Returns a desk in front of `store`.
    #[must_use]
    pub fn new(config: DeskConfig, store: OrderStore, sealer: TokenSealer) -> Desk {
        Desk {
            swept: store.complete_to(),
            config,
            store,
            sealer,
            readers: Vec::new(),
            free: Vec::new(),
            by_connection: BTreeMap::new(),
            timers: BTreeSet::new(),
            ready: VecDeque::new(),
            sweep_at: 0,
            sweep_left: 0,
            selection: Selection::default(),
            token: Vec::new(),
            opened: Vec::new(),
            older: None,
            wall: WallOffset::default(),
        }
    }

    /// Notes the distance of the wall clock.
    pub fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.wall = wall;
    }

    /// Returns the wall clock at `now`, for stamps.
    #[must_use]
    pub fn wall_at(&self, now: Nanos) -> Nanos {
        self.wall.wall_at(now)
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &OrderStore {
        &self.store
    }

    /// Returns the store, to pass epochs and deletions to it.
    pub fn store_mut(&mut self) -> &mut OrderStore {
        &mut self.store
    }

    /// Replaces the store by another of the same source and returns the old one, because dropping
    /// it takes time. Readers go on from their places in the new store, or are refused if it cannot
    /// honour them.
    ///
    /// # Panics
    /// If the new store is of another source.
    #[must_use]
    pub fn replace_store(&mut self, store: OrderStore) -> OrderStore {
        assert_eq!(store.source(), self.store.source(), "a desk is of one source");
        let old = core::mem::replace(&mut self.store, store);
        self.swept = self.store.complete_to();
        for slot in 0..u32::try_from(self.readers.len()).expect("readers_max is a u32") {
            if let Some(reader) = &mut self.readers[slot as usize] {
                reader.looked_at = None;
            }
            self.make_ready(slot);
        }
        old
    }

    /// Returns the number of fetches that wait.
    #[must_use]
    pub fn reader_count(&self) -> usize {
        self.readers.len() - self.free.len()
    }

    /// Takes in one event; readers see it at the next [`Desk::poll`].
    ///
    /// # Errors
    /// As [`OrderStore::ingest`].
    pub fn ingest(&mut self, event: &OrderEvent) -> Result<IngestOutcome, IngestError> {
        self.store.ingest(event)
    }

    /// Takes in a fetch.
    pub fn ask(&mut self, question: &Question<'_>, now: Nanos) -> FetchOutcome {
        let seats = self.by_connection.get(&question.connection);
        let on_connection = seats.map_or(0, |seats| seats.questions.len());
        let max = match question.entitlement.visibility {
            Visibility::All => self.config.readers_of_all_max,
            Visibility::Firm(_) => self.config.readers_per_connection_max,
        };
        if on_connection >= max as usize {
            return FetchOutcome::Refused(Reason::LimitReached);
        }
        if self.reader_count() >= self.config.readers_max as usize {
            return FetchOutcome::Refused(Reason::Overloaded);
        }
        let mut reader = self.reader_of(question, now);
        match self.start_of(question) {
            Ok((scope, at)) => {
                reader.scope = Some(scope);
                match self.min_of(question, &scope) {
                    Ok(min) => reader.min = min.map(|at| (at, self.min_until(question, now))),
                    Err(reason) => reader.refusal = Some(reason),
                }
                (reader.epoch, reader.after) = (at.epoch, at.change_id);
                (reader.seen, reader.since, reader.log) = (at.seen, at.since, at.log);
                reader.elsewhere.append(&mut self.opened);
            }
            Err((scope, reason)) => (reader.scope, reader.refusal) = (scope, Some(reason)),
        }
        self.seat(reader);
        FetchOutcome::Accepted
    }

    fn reader_of(&self, question: &Question<'_>, now: Nanos) -> Reader {
        let (config, fetch) = (&self.config, question.fetch);
        let or_max = |asked: u32, max: u32| if asked == 0 { max } else { asked.min(max) };
        let rows_max = or_max(fetch.rows_max, config.page_rows_max);
        let wait = match fetch.wait_max_us {
            0 => config.wait_default,
            us => Nanos(u64::from(us) * 1_000).min(config.wait_max),
        };
        Reader {
            connection: question.connection,
            head: PageHead {
                correlation_id: fetch.correlation_id,
                session_id: fetch.session_id,
                asked_time: self.wall_at(now),
                served_time: self.wall_at(now),
                credit_left: fetch.credit.clamp(1, config.credit_max),
            },
            scope: None,
            refusal: None,
            turned_away: None,
            after: ChangeId::START,
            epoch: self.store.epoch(),
            seen: Seq(0),
            since: ChangeId::START,
            log: SourceLog::NONE,
            elsewhere: Vec::new(),
            limits: PageLimits {
                rows_max,
                bytes_max: or_max(fetch.bytes_max, config.page_bytes_max),
                scan_max: config.page_scan_max,
            },
            credit: Credit::of(fetch),
            rows_min: fetch.rows_min.min(rows_max),
            wait,
            is_fresh: question.token.is_empty(),
            waiting_since: now,
            timer: None,
            is_ready: false,
            is_paused: false,
            looked_at: None,
            min: None,
            below: BelowFloorState::No,
            served: PageCounts::default(),
        }
    }

    /// Returns the place in this source that the fetch's `min_token` names, if it names one.
    fn min_of(
        &self,
        question: &Question<'_>,
        scope: &Scope,
    ) -> Result<Option<SourceCursor>, Reason> {
        if question.min_token.is_empty() {
            return Ok(None);
        }
        let mut cursors = Vec::new();
        let opened = self.sealer.open(scope, question.min_token, &mut cursors);
        opened.map_err(|_| Reason::MinTokenInvalid)?;
        Ok(cursors.into_iter().find(|at| at.source == self.store.source()))
    }

    fn min_until(&self, question: &Question<'_>, now: Nanos) -> Nanos {
        let wait = match question.fetch.min_wait_us {
            0 => self.config.min_wait_default,
            us => Nanos(u64::from(us) * 1_000).min(self.config.wait_max),
        };
        Nanos(now.0.saturating_add(wait.0))
    }

    fn reached(&self, at: &SourceCursor) -> Reached {
        let store = &self.store;
        if at.is_of_other_log(store.log()) {
            return Reached::Never;
        }
        if at.epoch == store.epoch() {
            let is_reached = at.change_id <= store.complete_to();
            return if is_reached { Reached::Yes } else { Reached::NotYet };
        }
        if at.epoch > store.epoch() {
            // This replica does not know the epoch yet.
            return Reached::NotYet;
        }
        // The store has every valid change of an ended epoch.
        match store.check(at.epoch, at.change_id, &Filter::ALL) {
            Err(Resync::Epoch) => Reached::Never,
            Err(Resync::Floor) | Ok(()) => Reached::Yes,
        }
    }

    /// Returns the starting place of a fetch, or the reason for its refusal, with its scope if it
    /// has one.
    fn start_of(
        &mut self,
        question: &Question<'_>,
    ) -> Result<(Scope, SourceCursor), (Option<Scope>, Reason)> {
        let scope = Scope::new(Filter::of(question.fetch), question.entitlement)
            .map_err(|_| (None, Reason::NotEntitled))?;
        match self.open(&scope, question.token) {
            Ok(at) => Ok((scope, at)),
            Err(reason) => Err((Some(scope), reason)),
        }
    }

    /// Returns the token's place in this source; its places in others are left in `opened`.
    fn open(&mut self, scope: &Scope, token: &[u8]) -> Result<SourceCursor, Reason> {
        self.opened.clear();
        if token.is_empty() {
            let (source, epoch) = (self.store.source(), self.store.epoch());
            return Ok(SourceCursor::new(source, epoch, ChangeId::START));
        }
        self.sealer.open(scope, token, &mut self.opened).map_err(TokenError::reason)?;
        let source = self.store.source();
        let own = self.opened.iter().position(|at| at.source == source);
        let at = self.opened.swap_remove(own.ok_or(TokenError::Source(source).reason())?);
        if self.opened.iter().any(|other| other.source == source) {
            return Err(TokenError::Source(source).reason());
        }
        match self.check(&at, scope.filter()) {
            // The archive decides whether it has the removed changes.
            Err(Resync::Floor) if self.older.is_some() => Ok(at),
            checked => checked.map(|()| at).map_err(Resync::reason),
        }
    }

    /// Checks that a reader can go on from a place and miss nothing.
    fn check(&self, at: &SourceCursor, filter: &Filter) -> Result<(), Resync> {
        let is_taken = plant::is(Plant::TokenOfOtherLogTaken);
        if at.change_id != ChangeId::START && at.is_of_other_log(self.store.log()) && !is_taken {
            // Its places say nothing about this store.
            return Err(Resync::Epoch);
        }
        // If later changes turn out to be void, the states that its pages left out for them are
        // valid again.
        let reach = self.store.check(at.epoch, at.reach(), filter);
        if at.change_id != ChangeId::START && reach == Err(Resync::Epoch) {
            return reach;
        }
        match self.store.check(at.epoch, at.change_id, filter) {
            Err(Resync::Floor) if is_unseen(self.store.floor_of(filter), at.since) => Ok(()),
            checked => checked,
        }
    }

    fn seat(&mut self, reader: Reader) {
        let (connection, number) = (reader.connection, reader.head.correlation_id);
        let slot = match self.free.pop() {
            Some(slot) => {
                self.readers[slot as usize] = Some(reader);
                slot
            }
            None => {
                self.readers.push(Some(reader));
                u32::try_from(self.readers.len() - 1).expect("readers_max is a u32")
            }
        };
        let seats = self.by_connection.entry(connection).or_default();
        seats.questions.insert((number, slot));
        self.make_ready(slot);
    }

    fn make_ready(&mut self, slot: u32) {
        let Some(reader) = &mut self.readers[slot as usize] else { return };
        if !reader.is_ready && !reader.is_paused {
            reader.is_ready = true;
            self.ready.push_back(slot);
        }
    }

    fn unseat(&mut self, slot: u32) {
        let reader = self.readers[slot as usize].take().expect("the reader is seated");
        self.forget_older(&reader);
        if let Some(timer) = reader.timer {
            self.timers.remove(&(timer, slot));
        }
        let connection = reader.connection;
        if let Some(seats) = self.by_connection.get_mut(&connection) {
            seats.questions.remove(&(reader.head.correlation_id, slot));
            seats.served.add(reader.served);
            let is_idle = seats.questions.is_empty();
            // A caller that uses a connection number per fetch never drops its connections.
            if is_idle && self.by_connection.len() > self.config.readers_max as usize {
                self.by_connection.remove(&connection);
            }
        }
        self.free.push(slot);
    }

    /// Cancels a session's fetch; does nothing if it is no longer there.
    pub fn cancel(&mut self, connection: u64, cancel: &CancelFetch) {
        let slots = self.slots_of_fetch(connection, cancel.session_id, cancel.correlation_id);
        slots.into_iter().for_each(|slot| self.unseat(slot));
    }

    /// Gives a session's fetch more credit; does nothing if it is no longer there.
    pub fn add_credit(&mut self, connection: u64, more: &AddCredit, now: Nanos) {
        for slot in self.slots_of_fetch(connection, more.session_id, more.correlation_id) {
            let reader = self.readers[slot as usize].as_mut().expect("it is listed");
            let pages = reader.head.credit_left.saturating_add(more.pages);
            reader.head.credit_left = pages.min(self.config.credit_max);
            let was_spent = reader.credit.is_spent();
            reader.credit.add(more);
            if was_spent && !reader.credit.is_spent() {
                // Its next page waits from now on. If its connection takes no data, the next visit
                // pauses it again.
                (reader.is_paused, reader.waiting_since) = (false, now);
                self.make_ready(slot);
            }
        }
    }

    /// Resumes a connection that can take pages again.
    pub fn resume(&mut self, connection: u64) {
        for slot in self.slots_of(connection) {
            if let Some(reader) = &mut self.readers[slot as usize] {
                reader.is_paused = false;
            }
            self.make_ready(slot);
        }
    }

    /// Removes a connection and its fetches.
    pub fn drop_connection(&mut self, connection: u64) {
        for slot in self.slots_of(connection) {
            self.unseat(slot);
        }
        self.by_connection.remove(&connection);
    }

    /// Removes the fetches of a session that is no longer logged on through this connection. None
    /// gets another page; the connection's other sessions are not affected.
    pub fn end_session(&mut self, connection: u64, session_id: SessionId) {
        for slot in self.slots_of(connection) {
            if self.is_of_session(slot, session_id) {
                self.unseat(slot);
            }
        }
    }

    fn is_of_session(&self, slot: u32, session_id: SessionId) -> bool {
        let reader = self.readers[slot as usize].as_ref();
        reader.is_some_and(|reader| reader.head.session_id == session_id)
    }

    fn slots_of(&self, connection: u64) -> Vec<u32> {
        let seats = self.by_connection.get(&connection);
        seats.map_or_else(Vec::new, |seats| seats.questions.iter().map(|(_, slot)| *slot).collect())
    }

    /// The seats of a session's fetches of this number: a session may use a number twice.
    fn slots_of_fetch(&self, connection: u64, session_id: SessionId, number: u64) -> Vec<u32> {
        let Some(seats) = self.by_connection.get(&connection) else { return Vec::new() };
        let its = seats.questions.range((number, 0)..=(number, u32::MAX)).map(|(_, slot)| *slot);
        let is_any = plant::is(Plant::ForeignContinuationTaken);
        its.filter(|slot| is_any || self.is_of_session(*slot, session_id)).collect()
    }

    /// Returns the time at which to call [`Desk::poll`] next if nothing else happens: the deadline
    /// of the next reader, zero for at once, `None` for never.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        if self.has_more() {
            return Some(Nanos(0));
        }
        self.timers.first().map(|(time, _)| *time)
    }

    fn has_more(&self) -> bool {
        let is_news = self.store.complete_to() != self.swept && self.reader_count() > 0;
        !self.ready.is_empty() || self.sweep_left > 0 || is_news
    }

    /// Serves the readers that can be served, within the budget. Call it after taking in events.
    pub fn poll(&mut self, now: Nanos, sink: &mut impl PageSink) -> PollOutcome {
        let mut round = Round { now, sink, polled: PollOutcome::default() };
        self.ready_the_due(now);
        if self.store.complete_to() != self.swept {
            self.swept = self.store.complete_to();
            self.sweep_left = self.readers.len();
        }
        let mut scans_left = i64::from(self.config.poll_scan_max);
        let mut visits_left = self.config.poll_visit_max;
        // Readers at the tail come first, but leave a quarter to those that are catching up.
        let kept = if self.ready.is_empty() { 0 } else { scans_left / 4 };
        while self.sweep_left > 0 && visits_left > 0 && scans_left > kept {
            self.sweep_left -= 1;
            self.sweep_at = (self.sweep_at + 1) % self.readers.len();
            visits_left -= 1;
            let slot = u32::try_from(self.sweep_at).expect("readers_max is a u32");
            scans_left -= self.visit_if_parked(slot, &mut round);
        }
        let mut ready_left = self.ready.len().min(self.config.poll_visit_max as usize / 4 + 1);
        while ready_left > 0 && scans_left > 0 {
            ready_left -= 1;
            let slot = self.ready.pop_front().expect("counted above");
            scans_left -= self.visit_if_ready(slot, &mut round);
        }
        PollOutcome { has_more: self.has_more(), ..round.polled }
    }

    fn ready_the_due(&mut self, now: Nanos) {
        while let Some((time, slot)) = self.timers.first().copied() {
            if time > now {
                return;
            }
            self.timers.pop_first();
            if let Some(reader) = &mut self.readers[slot as usize] {
                reader.timer = None;
            }
            self.make_ready(slot);
        }
    }

    fn visit_if_parked(&mut self, slot: u32, round: &mut Round<'_, impl PageSink>) -> i64 {
        match &self.readers[slot as usize] {
            Some(reader)
                if !reader.is_ready
                    && !reader.is_paused
                    && !reader.below.is_away()
                    && reader.looked_at != Some(self.store.complete_to()) =>
            {
                self.visit(slot, round)
            }
            _ => 0,
        }
    }

    fn visit_if_ready(&mut self, slot: u32, round: &mut Round<'_, impl PageSink>) -> i64 {
        match &mut self.readers[slot as usize] {
            Some(reader) if reader.is_ready => {
                reader.is_ready = false;
                self.visit(slot, round)
            }
            _ => 0,
        }
    }

    /// Reads the rows for a reader, serves or parks it, and returns the cost in entries.
    fn visit(&mut self, slot: u32, round: &mut Round<'_, impl PageSink>) -> i64 {
        let mut reader = self.readers[slot as usize].take().expect("visited readers are seated");
        let (visit, cost) = match (reader.turned_away, reader.refusal, reader.scope) {
            (Some(reason), ..) => (self.send_away(&reader, reason, round), 1),
            (None, None, Some(scope)) => self.look(&mut reader, &scope, round),
            (None, reason, _) => {
                let reason = reason.expect("a reader without a scope is refused");
                (self.refuse(&reader, reason, round), 1)
            }
        };
        self.readers[slot as usize] = Some(reader);
        match visit {
            Visit::Done => self.unseat(slot),
            Visit::Again => self.make_ready(slot),
            Visit::Park(until) => self.set_timer(slot, Some(until)),
            Visit::Away => {
                self.set_timer(slot, None);
                self.queue_older(slot);
            }
            Visit::Pause => {
                self.set_timer(slot, None);
                self.readers[slot as usize].as_mut().expect("seated").is_paused = true;
            }
        }
        cost
    }

    fn set_timer(&mut self, slot: u32, timer: Option<Nanos>) {
        let reader = self.readers[slot as usize].as_mut().expect("the reader is seated");
        if reader.timer == timer {
            return;
        }
        if let Some(old) = reader.timer {
            self.timers.remove(&(old, slot));
        }
        reader.timer = timer;
        if let Some(new) = timer {
            self.timers.insert((new, slot));
        }
    }

    fn look(
        &mut self,
        reader: &mut Reader,
        scope: &Scope,
        round: &mut Round<'_, impl PageSink>,
    ) -> (Visit, i64) {
        let now = round.now;
        // The floor may have risen past a reader that was paused or far behind, and its epoch may
        // have ended before the place at which it waits.
        let checked = self.check(&reader.at(self.store.source()), scope.filter());
        let is_below = checked == Err(Resync::Floor) && self.older.is_some();
        if let (Err(resync), false) = (checked, is_below) {
            reader.refusal = Some(resync.reason());
            let visit = self.refuse(reader, resync.reason(), round);
            return (visit, 1);
        }
        // The check has shown that the place is valid in the store's epoch too.
        reader.epoch = self.store.epoch();
        if !self.store.log().is_none() {
            reader.log = self.store.log();
        }
        if let Some((min, until)) = reader.min {
            match self.reached(&min) {
                Reached::NotYet if now < until => {
                    reader.looked_at = Some(self.store.complete_to());
                    return (Visit::Park(until), 1);
                }
                Reached::NotYet | Reached::Never => {
                    reader.refusal = Some(Reason::MinTokenNotReached);
                    let reason = Reason::MinTokenNotReached;
                    return (self.refuse(reader, reason, round), 1);
                }
                Reached::Yes => (reader.min, reader.waiting_since) = (None, now),
            }
        }
        if reader.below.is_away() {
            return (Visit::Away, 1);
        }
        if let BelowFloorState::Answered(answer) = core::mem::take(&mut reader.below) {
            return (self.serve_older(reader, answer, round), 1);
        }
        if reader.credit.is_spent() {
            return (Visit::Pause, 1);
        }
        if is_below {
            return (Visit::Away, 1);
        }
        let page = self.next_page(reader, scope);
        let cost = i64::from(page.scan_count) + 1;
        if let Some(wait) = reader.wait_for(&page, self.config.idle_wait, now) {
            return (wait, cost);
        }
        let Some(out) = round.buffer(reader) else { return (Visit::Pause, cost) };
        reader.head.credit_left -= 1;
        reader.credit.spend(page.row_count, page.byte_count.into());
        reader.head.served_time = self.wall.wall_at(now);
        self.token.clear();
        let at = SourceCursor { change_id: page.next, ..reader.at(self.store.source()) };
        self.opened.clear();
        self.opened.push(at);
        self.opened.extend_from_slice(&reader.elsewhere);
        self.sealer.seal(scope, &self.opened, &mut self.token);
        put_page(&self.store, &self.selection, &reader.head, &page, &self.token, out);
        round.polled.page_count += 1;
        round.polled.row_count += page.row_count;
        let (rows, merged) = (page.row_count.into(), page.merged_count.into());
        reader.served.add(PageCounts { pages: 1, rows, merged });
        (reader.go_on(&page, self.config.idle_wait, now), cost)
    }

    /// Picks a reader's next page.
    fn next_page(&mut self, reader: &mut Reader, scope: &Scope) -> Page {
        let head = self.store.head();
        // It has seen nothing yet; or it began at a store that is ahead of this one, which may tell
        // it of live orders that have ended there.
        if reader.after == ChangeId::START || reader.since > head {
            reader.since = head;
        }
        let limits = reader.page_limits();
        let page = self.store.select_from(&reader.query(scope, &limits), &mut self.selection);
        reader.looked_at = Some(self.store.complete_to());
        reader.seen = reader.seen.max(head.seq);
        page
    }

    fn refuse(
        &mut self,
        reader: &Reader,
        reason: Reason,
        round: &mut Round<'_, impl PageSink>,
    ) -> Visit {
        let now = round.now;
        let Some(out) = round.buffer(reader) else { return Visit::Pause };
        self.token.clear();
        // A refusal of the minimum leaves the reader's own token valid.
        let is_about_token = !is_about_min(reason);
        if let Some(scope) = reader.scope.as_ref().filter(|_| is_about_token) {
            let (source, epoch) = (self.store.source(), self.store.epoch());
            let start = SourceCursor {
                log: self.store.log(),
                ..SourceCursor::new(source, epoch, ChangeId::START)
            };
            self.sealer.seal(scope, &[start], &mut self.token);
        }
        let head = PageHead { served_time: self.wall_at(now), credit_left: 0, ..reader.head };
        put_refusal(&head, reason, &self.token, out);
        round.polled.page_count += 1;
        Visit::Done
    }
}

/// True when all removed changes up to `floor` ended orders before the reader began at `since`, so
/// that it has seen none of them live. Without this a first copy of more pages than one would end
/// at the first live order that is older than the floor, and begin again for ever.
///
/// The two are compared as whole places, because a core may end any number of orders at one `seq`,
/// and may go on within it. The floor of a store that began in the middle of its source's history
/// is no removed change but has no record, and orders that live there have another first place than
/// in the store before: it lets no reader from there through.
fn is_unseen(floor: ChangeId, since: ChangeId) -> bool {
    !floor.rec.is_none() && floor <= since
}

/// True for refusals of a fetch's `min_token`, which do not concern its token.
pub(crate) fn is_about_min(reason: Reason) -> bool {
    matches!(reason, Reason::MinTokenNotReached | Reason::MinTokenInvalid)
}

impl Reader {
    /// Returns the limits of its next page, from its own limits and its credit.
    fn page_limits(&self) -> PageLimits {
        let PageLimits { rows_max, bytes_max, .. } = self.limits;
        let (rows_max, bytes_max) = self.credit.bound(rows_max, bytes_max);
        PageLimits { rows_max, bytes_max, ..self.limits }
    }

    fn query<'a>(&self, scope: &'a Scope, limits: &'a PageLimits) -> PageQuery<'a> {
        PageQuery { after: self.after, since: self.since, filter: scope.filter(), limits }
    }

    fn at(&self, source: PartitionId) -> SourceCursor {
        let Reader { epoch, after: change_id, seen, since, log, .. } = *self;
        SourceCursor { source, epoch, change_id, seen, since, log }
    }

    fn fill_deadline(&self) -> Nanos {
        Nanos(self.waiting_since.0.saturating_add(self.wait.0))
    }

    fn idle_deadline(&self, idle_wait: Nanos) -> Nanos {
        Nanos(self.waiting_since.0.saturating_add(idle_wait.max(self.wait).0))
    }

    /// Returns the visit's result if `page` is not to be served yet; `None` if it is.
    fn wait_for(&mut self, page: &Page, idle_wait: Nanos, now: Nanos) -> Option<Visit> {
        if page.row_count >= self.rows_min || page.row_count > 0 && page.is_cut {
            return None;
        }
        if page.row_count > 0 {
            let deadline = self.fill_deadline();
            return (deadline > now).then_some(Visit::Park(deadline));
        }
        // Entries that did not match need not be visited again.
        self.after = page.next;
        if page.is_cut {
            return Some(Visit::Again);
        }
        let deadline =
            if self.is_fresh { self.fill_deadline() } else { self.idle_deadline(idle_wait) };
        (deadline > now).then_some(Visit::Park(deadline))
    }

    /// Returns the visit's result after `page` was served.
    fn go_on(&mut self, page: &Page, idle_wait: Nanos, now: Nanos) -> Visit {
        self.after = page.next;
        self.is_fresh = false;
        self.waiting_since = now;
        // Only the first page may be empty on request: credit is not spent on empty pages.
        self.rows_min = self.rows_min.max(1);
        if self.head.credit_left == 0 {
            Visit::Done
        } else if self.credit.is_spent() {
            Visit::Pause
        } else if page.is_cut {
            Visit::Again
        } else {
            Visit::Park(self.idle_deadline(idle_wait))
        }
    }
}
