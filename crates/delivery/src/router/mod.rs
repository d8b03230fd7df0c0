//! The router: any number of sources, each with any number of stores, behind one service.
//!
//! A reader's fetch becomes one request to a backend of each source, all at once, each with the
//! reader's own place in that source. The answers are composed into pages: sorted by time, source
//! and place within one page, without ever waiting for a source that has no rows or is away. The
//! reader's token holds its place in every source, so a restart of the router loses nothing:
//! another router with the same key goes on from the token.
//!
//! Like the desk, the router is pure: fetches, backends' frames and the time are arguments;
//! requests to backends ([`BackendPort`]) and pages ([`PageSink`]) are outputs. It opens no socket,
//! starts no thread and reads no clock.
//!
//! INVARIANT: a reader's place in a source moves only past rows that it was served, or by a token
//! of the backend that answered its request. The progress of other backends never enters a token.

mod backend;
mod compose;
mod config;
mod intake;
mod leg;
mod local;
mod opening;
mod pool;
mod probe;
mod reader;
mod rows;
mod seats;
mod serve;
mod tend;

use std::collections::BTreeSet;

use weir_types::{ChangeId, Epoch, Nanos, PartitionId, Reason, SessionId, SourceLog, WallOffset};
use weir_wire::delivery::{AddCredit, CancelFetch};

pub use backend::{
    BackendFault, BackendId, BackendInfo, BackendPort, BackendRequest, BackendRole, BackendState,
    BadPage, Health,
};
pub use config::{RouterConfig, RouterFigures};
pub use local::LocalBackends;

use crate::credit::Credit;
use crate::desk::listing::{PageCounts, WaitCause, WaitingFetch};
use crate::desk::{FetchOutcome, PageSink, PollOutcome, Question};
use crate::filter::{Filter, Scope, Visibility};
use crate::page::PageHead;
use crate::token::{SourceCursor, TOKEN_SOURCES_MAX, TokenSealer};
use compose::Composition;
use intake::AwaitedRows;
use leg::Leg;
use pool::Pool;
use reader::{Due, Reader, Terms};
use seats::Seats;

/// The refusal of a source beyond the number that a token can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("source {0} would be one more than the {TOKEN_SOURCES_MAX} that a token can name")]
pub struct TooManySources(pub PartitionId);

/// The outputs of a call of [`Router::poll`].
struct Io<'a, P, S> {
    port: &'a mut P,
    sink: &'a mut S,
    polled: PollOutcome,
}

/// Readers, and the backends that answer them.
#[derive(Debug)]
pub struct Router {
    config: RouterConfig,
    sealer: TokenSealer,
    pool: Pool,
    seats: Seats<Box<Reader>>,
    /// Readers whose place is kept after their last page, oldest first.
    lingering: BTreeSet<(Nanos, u32)>,
    /// The last places of sources that were retired.
    retired: Vec<SourceCursor>,
    /// Headers whose rows are due, by backend.
    due_rows: Vec<AwaitedRows>,
    asked_no: u32,
    turn: usize,
    figures: RouterFigures,
    composition: Composition,
    token: Vec<u8>,
    min_token: Vec<u8>,
    opened: Vec<SourceCursor>,
    /// The wall clock, for the times in pages.
    wall: WallOffset,
}

impl Router {
    /// Returns a router without backends. `sealer` has the key with which the backends' tokens are
    /// sealed, and nonces of its own.
    #[must_use]
    pub fn new(config: RouterConfig, sealer: TokenSealer) -> Router {
        Router {
            pool: Pool::new(config.jitter_seed),
            config,
            sealer,
            seats: Seats::new(),
            lingering: BTreeSet::new(),
            retired: Vec::new(),
            due_rows: Vec::new(),
            asked_no: 0,
            turn: 0,
            figures: RouterFigures::default(),
            composition: Composition::default(),
            token: Vec::new(),
            min_token: Vec::new(),
            opened: Vec::new(),
            wall: WallOffset::default(),
        }
    }

    /// Notes the distance of the wall clock.
    pub fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.wall = wall;
    }

    /// Returns the router's counters since it began.
    #[must_use]
    pub fn figures(&self) -> &RouterFigures {
        &self.figures
    }

    /// Returns the state of each backend.
    pub fn backends(&self) -> impl Iterator<Item = (BackendId, BackendState)> + '_ {
        self.pool.states()
    }

    /// Returns the number of fetches that wait.
    #[must_use]
    pub fn reader_count(&self) -> usize {
        self.seats.count() - self.lingering.len()
    }

    /// Lists the fetches that wait for their reader, which have no request at a backend, on `count`
    /// seats from `seat` on. Returns the seat to go on at, `None` at the end.
    pub fn list_paused(
        &self,
        seat: usize,
        count: usize,
        sink: &mut impl FnMut(WaitingFetch),
    ) -> Option<usize> {
        let (paused, next) = self.seats.paused(seat, count);
        for (seat, reader) in paused {
            sink(WaitingFetch {
                seat,
                connection: reader.connection,
                session_id: reader.head.session_id,
                correlation_id: reader.head.correlation_id,
                filter: reader.scope.map(|scope| *scope.filter()),
                waits_for: WaitCause::Reader,
                since: reader.waiting_since,
                credit_left: reader.head.credit_left,
                changes: 0,
                served: PageCounts::default(),
            });
        }
        next
    }

    /// Returns the connection and the number of the fetch that a request to a backend is for, by
    /// the request's number; `None` if it was given up.
    #[must_use]
    pub fn fetch_of(&self, request: u64) -> Option<(u64, u64)> {
        let reader = self.seats.get(u32::try_from(request >> 32).ok()?)?;
        Some((reader.connection, reader.head.correlation_id))
    }

    /// Adds a backend; it is down until [`Router::backend_up`]. If its source is new, readers
    /// follow the source from its beginning.
    ///
    /// # Errors
    /// [`TooManySources`]: nothing has changed.
    pub fn add_backend(&mut self, info: BackendInfo) -> Result<BackendId, TooManySources> {
        let is_full = self.pool.sources().len() >= TOKEN_SOURCES_MAX;
        if is_full && self.pool.source(info.source).is_none() {
            return Err(TooManySources(info.source));
        }
        let (id, is_new) = self.pool.add(info);
        if is_new {
            self.retired.retain(|gone| gone.source != info.source);
            self.each_reader(|reader| reader.add_leg(info.source));
        }
        Ok(id)
    }

    /// Removes a backend, for example when its source has moved. Its readers go on at another
    /// backend of the source.
    pub fn remove_backend(&mut self, id: BackendId) {
        self.pool.remove(id);
        self.wake_readers_at(id);
    }

    /// Retires a source that is complete: its records are gone or have moved to other sources.
    /// Readers that had everything up to `last` go on without it, others start again. Returns false
    /// if the source still has a backend or is not known.
    pub fn retire_source(&mut self, last: SourceCursor) -> bool {
        if !self.pool.remove_source(last.source) {
            return false;
        }
        self.retired.push(last);
        self.each_reader(|reader| reader.remove_leg(&last));
        true
    }

    /// Marks a backend as reachable.
    pub fn backend_up(&mut self, id: BackendId) {
        self.pool.set_up(id);
        let source = self.pool.info(id).source;
        self.wake_readers_without(source);
    }

    /// Marks a backend as unreachable, or silent for too long; its requests are lost.
    pub fn backend_down(&mut self, id: BackendId) {
        self.pool.set_down(id);
        self.due_rows.retain(|due| due.backend != id);
        self.wake_readers_at(id);
    }

    /// Records the progress that a backend reports, on its own or with an answer.
    pub fn heard_of(&mut self, id: BackendId, epoch: Epoch, head: ChangeId) {
        let before = self.pool.epoch_of(id);
        let is_newest = self.pool.heard_of(id, epoch, head);
        if before == Some(epoch) {
            return;
        }
        let source = self.pool.info(id).source;
        if is_newest {
            self.disown_rows(source, epoch);
        }
        self.wake_readers_without(source);
    }

    /// Compares the log that an answer shows with that of the backend's source. Rows of another log
    /// that were received and not served are dropped.
    fn heard_log(&mut self, id: BackendId, log: SourceLog) -> Result<(), BackendFault> {
        if !self.pool.heard_log(id, log)? {
            return Ok(());
        }
        let (source, mut row_count) = (self.pool.info(id).source, 0);
        self.each_reader(|reader| {
            for leg in reader.legs.iter_mut().filter(|leg| leg.source() == source) {
                if leg.end.is_of_other_log(log) {
                    row_count += leg.drop_rows() as u64;
                }
            }
        });
        self.figures.disowned_row_count += row_count;
        Ok(())
    }

    /// Drops received rows of an ended epoch that were not served: the last of them may be void.
    fn disown_rows(&mut self, source: PartitionId, epoch: Epoch) {
        let mut row_count = 0;
        self.each_reader(|reader| {
            for leg in reader.legs.iter_mut().filter(|leg| leg.source() == source) {
                if leg.end.epoch < epoch {
                    row_count += leg.drop_rows() as u64;
                }
            }
        });
        self.figures.disowned_row_count += row_count;
    }

    /// Applies a change to all readers, and visits each again.
    fn each_reader(&mut self, mut change: impl FnMut(&mut Reader)) {
        for slot in self.seats.slots(|_| true) {
            change(self.seats.get_mut(slot).expect("listed"));
            self.seats.make_ready(slot);
        }
    }

    fn wake(&mut self, is_wanted: impl Fn(&Leg) -> bool) {
        let slots = self.seats.slots(|reader| reader.legs.iter().any(&is_wanted));
        slots.into_iter().for_each(|slot| self.seats.make_ready(slot));
    }

    fn wake_readers_at(&mut self, id: BackendId) {
        self.wake(|leg| leg.asking.is_some_and(|asking| asking.backend == id));
    }

    /// Returns true for a place in a source that should be served here and is not.
    fn is_unknown(&self, at: &SourceCursor) -> bool {
        !self.config.is_in_process && self.pool.source(at.source).is_none()
    }

    fn wake_readers_without(&mut self, source: PartitionId) {
        self.wake(|leg| leg.source() == source && leg.asking.is_none());
    }

    /// Takes in a fetch.
    pub fn ask(&mut self, question: &Question<'_>, now: Nanos) -> FetchOutcome {
        let seated = self.seats.of_connection(question.connection);
        let is_waiting = |slot: &&u32| self.seats.get(**slot).is_some_and(|r| !r.is_lingering());
        let waiting_count = seated.iter().filter(is_waiting).count();
        let max = match question.entitlement.visibility {
            Visibility::All => self.config.readers_of_all_max,
            Visibility::Firm(_) => self.config.readers_per_connection_max,
        };
        if waiting_count >= max as usize {
            return FetchOutcome::Refused(Reason::LimitReached);
        }
        if self.reader_count() >= self.config.readers_max as usize {
            return FetchOutcome::Refused(Reason::Overloaded);
        }
        let mut reader = self.reader_of(question, now);
        let filter = Filter::of(question.fetch);
        match Scope::new(filter, question.entitlement) {
            Err(_) => reader.refusal = Some(Reason::NotEntitled),
            Ok(scope) => {
                reader.scope = Some(scope);
                match self.open(&scope, &reader.terms, question.token) {
                    Ok((legs, carried)) => (reader.legs, reader.carried) = (legs, carried),
                    Err(reason) => reader.refusal = Some(reason),
                }
                if let Err(reason) = self.set_min(&scope, &mut reader, question.min_token) {
                    reader.refusal.get_or_insert(reason);
                }
            }
        }
        if !self.adopt(&seated, &reader) {
            self.make_room();
            self.seats.seat(question.connection, Box::new(reader));
        }
        FetchOutcome::Accepted
    }

    fn reader_of(&self, question: &Question<'_>, now: Nanos) -> Reader {
        let fetch = question.fetch;
        Reader {
            connection: question.connection,
            head: PageHead {
                correlation_id: fetch.correlation_id,
                session_id: fetch.session_id,
                asked_time: self.wall.wall_at(now),
                served_time: self.wall.wall_at(now),
                credit_left: fetch.credit.clamp(1, self.config.credit_max),
            },
            scope: None,
            refusal: None,
            is_turned_away: false,
            terms: Terms::new(fetch, question.entitlement, &self.config),
            credit: Credit::of(fetch),
            is_fresh: question.token.is_empty(),
            is_told_away: false,
            waiting_since: now,
            lingers_until: None,
            min_until: self.min_until(fetch, now),
            legs: Vec::new(),
            carried: Vec::new(),
        }
    }

    fn min_until(&self, fetch: &weir_wire::delivery::FetchOrders, now: Nanos) -> Nanos {
        let wait = match fetch.min_wait_us {
            0 => self.config.min_wait_default,
            us => Nanos(u64::from(us) * 1_000).min(self.config.wait_max),
        };
        Nanos(now.0.saturating_add(wait.0))
    }

    /// Continues the lingering reader of the previous fetch: same session, same token, same terms.
    /// A fetch that wants an immediate answer needs fresh answers from the sources.
    fn adopt(&mut self, seated: &[u32], asked: &Reader) -> bool {
        if asked.terms.rows_min == 0 || asked.refusal.is_some() || asked.waits_for_min() {
            return false;
        }
        let is_its =
            |slot: &&u32| self.seats.get(**slot).is_some_and(|kept| kept.goes_on_as(asked));
        let Some(slot) = seated.iter().find(is_its).copied() else { return false };
        let kept = self.seats.get_mut(slot).expect("found above");
        let until = kept.lingers_until.take().expect("only who lingers goes on");
        (kept.head, kept.waiting_since) = (asked.head, asked.waiting_since);
        kept.credit = asked.credit;
        self.lingering.remove(&(until, slot));
        self.figures.adopted_count += 1;
        self.seats.make_ready(slot);
        true
    }

    /// Frees the oldest lingering place if there is no room.
    fn make_room(&mut self) {
        if self.seats.count() < self.config.readers_max as usize {
            return;
        }
        // Places that are already expired come first, until their next visit.
        let kept = self.lingering.range((Nanos(1), 0)..).next().copied();
        if let Some((_, slot)) = kept {
            self.hasten(slot);
        }
    }

    /// Visits a reader at once; a lingering place expires with that visit.
    fn hasten(&mut self, slot: u32) {
        let reader = self.seats.get_mut(slot).expect("the reader is seated");
        if let Some(until) = &mut reader.lingers_until {
            self.lingering.remove(&(*until, slot));
            *until = Nanos(0);
            self.lingering.insert((*until, slot));
        }
        self.seats.make_ready(slot);
    }

    /// Resumes a connection that can take pages again.
    pub fn resume(&mut self, connection: u64) {
        self.seats.resume(connection);
    }

    /// Cancels a session's fetch; does nothing if it has had its last page.
    pub fn cancel(&mut self, connection: u64, cancel: &CancelFetch, port: &mut impl BackendPort) {
        for slot in self.seats.of_connection(connection) {
            let reader = self.seats.get(slot);
            if reader.is_some_and(|r| r.is_fetch(cancel.session_id, cancel.correlation_id)) {
                self.leave(slot, port);
            }
        }
    }

    /// Gives a session's fetch more credit; does nothing if it has had its last page.
    pub fn add_credit(&mut self, connection: u64, more: &AddCredit, now: Nanos) {
        for slot in self.seats.of_connection(connection) {
            let Some(reader) = self.seats.get_mut(slot) else { continue };
            if !reader.is_fetch(more.session_id, more.correlation_id) {
                continue;
            }
            let pages = reader.head.credit_left.saturating_add(more.pages);
            reader.head.credit_left = pages.min(self.config.credit_max);
            let was_spent = reader.credit.is_spent();
            reader.credit.add(more);
            if was_spent && !reader.credit.is_spent() {
                reader.waiting_since = now;
                self.seats.unpause(slot);
            }
        }
    }

    /// Removes a connection and its fetches.
    pub fn drop_connection(&mut self, connection: u64, port: &mut impl BackendPort) {
        for slot in self.seats.of_connection(connection) {
            self.leave(slot, port);
        }
    }

    /// Removes the fetches, and the kept places, of a session that is no longer logged on through
    /// this connection. None gets another page; the connection's other sessions are not affected.
    pub fn end_session(
        &mut self,
        connection: u64,
        session_id: SessionId,
        port: &mut impl BackendPort,
    ) {
        for slot in self.seats.of_connection(connection) {
            if self.seats.get(slot).is_some_and(|r| r.head.session_id == session_id) {
                self.leave(slot, port);
            }
        }
    }

    /// Returns the time at which to call [`Router::poll`] next if nothing else happens: the next
    /// deadline, zero for at once, `None` for never.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        if self.seats.ready_count() > 0 {
            return Some(Nanos(0));
        }
        [self.seats.first_timer(), self.pool.next_deadline()].into_iter().flatten().min()
    }

    /// Sends requests to backends and serves readers, within the budget. Call it after passing in
    /// the input of backends and clients.
    pub fn poll(
        &mut self,
        now: Nanos,
        port: &mut impl BackendPort,
        sink: &mut impl PageSink,
    ) -> PollOutcome {
        for source in self.pool.end_asides(now) {
            self.wake_readers_without(source);
        }
        self.seats.ready_the_due(now);
        let mut io = Io { port, sink, polled: PollOutcome::default() };
        let mut visits_left = self.seats.ready_count().min(self.config.poll_visit_max as usize);
        while visits_left > 0 {
            visits_left -= 1;
            let Some(slot) = self.seats.next_ready() else { break };
            self.visit(slot, now, &mut io);
        }
        let Io { mut polled, .. } = io;
        polled.has_more = self.seats.ready_count() > 0;
        self.figures.page_count += u64::from(polled.page_count);
        self.figures.row_count += u64::from(polled.row_count);
        polled
    }

    /// Sends the requests that a reader needs, and serves it if it is due.
    fn visit<P: BackendPort, S: PageSink>(&mut self, slot: u32, now: Nanos, io: &mut Io<'_, P, S>) {
        if self.seats.get(slot).is_some_and(|reader| reader.stands_still()) {
            return self.pause(slot, io.port);
        }
        let Some(mut reader) = self.seats.lend(slot) else { return };
        if reader.waits_for_min() && reader.min_until <= now {
            reader.refusal.get_or_insert(Reason::MinTokenNotReached);
        }
        self.tend(slot, &mut reader, now, &mut *io.port);
        let due = match reader.refusal {
            Some(_) if !reader.is_lingering() => Due::Page,
            Some(_) => Due::Gone,
            None => reader.due(&self.config, now),
        };
        let next = match due {
            Due::Page => self.serve(&mut reader, now, io),
            Due::At(time) => serve::NextStep::At(time),
            Due::Gone => serve::NextStep::Leave,
        };
        let legs_deadline = reader.legs_deadline(&self.config);
        self.seats.give_back(slot, reader);
        match next {
            serve::NextStep::Leave => self.leave(slot, io.port),
            serve::NextStep::Again => self.seats.make_ready(slot),
            serve::NextStep::Linger(until) => {
                self.lingering.insert((until, slot));
                // Its sources are asked for the rows that its next fetch will need.
                self.seats.make_ready(slot);
            }
            serve::NextStep::At(time) => {
                let time = legs_deadline.map_or(time, |deadline| deadline.min(time));
                self.seats.set_timer(slot, Some(time));
            }
            serve::NextStep::Pause => self.pause(slot, io.port),
        }
    }

    /// Pauses a reader whose connection takes no data, or whose credit is spent: its received rows
    /// are dropped, so that it costs nothing, and it later gets the latest state.
    fn pause(&mut self, slot: u32, port: &mut impl BackendPort) {
        let reader = self.seats.get_mut(slot).expect("it was visited");
        for leg in &mut reader.legs {
            leg.drop_rows();
            if let Some(asking) = leg.asking.take() {
                self.pool.is_done(&asking);
                port.cancel(asking.backend, asking.correlation_id);
            }
        }
        self.seats.pause(slot);
    }

    fn leave(&mut self, slot: u32, port: &mut impl BackendPort) {
        let Some(reader) = self.seats.get(slot) else { return };
        for asking in reader.legs.iter().filter_map(|leg| leg.asking.as_ref()) {
            self.pool.is_done(asking);
            port.cancel(asking.backend, asking.correlation_id);
        }
        if let Some(until) = reader.lingers_until {
            self.lingering.remove(&(until, slot));
        }
        port.leave(slot);
        self.seats.unseat(slot);
    }
}
