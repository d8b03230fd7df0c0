//! The oracle: the rules that must hold after any fault of the disk or the process.
//!
//! It remembers the events published and the result of each recovery, and runs the naive engine
//! over the recovered log. It knows nothing of the parts' internals.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};

use weir_engine::naive::NaiveEngine;
use weir_engine::{Engine, EngineConfig};
use weir_log::EpochEnd;
use weir_types::{ClOrdId, Epoch, EventNo, Nanos, Position, Rec, SessionId};
use weir_wire::{Command, Event, PlainEvent};

use crate::crowd::Crowd;
use crate::window::Window;
use crate::workload::HERE;

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {detail}")]
pub struct Violation {
    /// The rule.
    pub what: &'static str,
    /// The case.
    pub detail: String,
}

impl Violation {
    /// Creates a violation of the rule `what`.
    pub fn new(what: &'static str, detail: impl Display) -> Violation {
        Violation { what, detail: detail.to_string() }
    }
}

/// Returns a violation of the rule `what` unless it holds.
pub(crate) fn ensure(
    holds: bool,
    what: &'static str,
    detail: impl FnOnce() -> String,
) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { what, detail: detail() }) }
}

/// Returns a violation with both values unless they are equal.
fn same<T: PartialEq + Debug>(
    what: &'static str,
    found: &T,
    expected: &T,
) -> Result<(), Violation> {
    ensure(found == expected, what, || format!("found {found:?}, expected {expected:?}"))
}

/// The limits of both engines: small, for fast construction.
#[must_use]
pub fn engine_config() -> EngineConfig {
    EngineConfig {
        orders_max: 4096,
        sweep_ends_max: 2,
        sweep_visits_max: 5,
        tick_changes_max: 2,
        accounts_max: 16,
        sessions_max: 16,
        firms_max: 8,
        instruments_max: 8,
        positions_max: 64,
        // More than a short run has, and full within the first minutes of a day.
        trades_max: 2_048,
        checkpoint_interval: 64,
        ..EngineConfig::new(HERE)
    }
}

/// An entry of the command log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Its batch's log time.
    pub log_time: Nanos,
    /// True for the last of its batch.
    pub ends_batch: bool,
    /// The command as logged.
    pub bytes: Vec<u8>,
}

/// The result of a recovery.
pub struct RecoveryResult<'a> {
    /// The recovered engine.
    pub engine: &'a Engine,
    /// The number of events published, by the recovered state.
    pub event_count: u64,
    /// The log's first retained position, and all its entries.
    pub log: (Position, Vec<LogEntry>),
    /// The first record's number in the event log, and all its records.
    pub events: (u64, Vec<Vec<u8>>),
    /// The epoch of the new run.
    pub epoch: Epoch,
    /// The epochs before, with their ends.
    pub ended: &'a [EpochEnd],
    /// True when acknowledged commands may be lost, because the crash exceeded the durability
    /// level.
    pub may_lose: bool,
    /// True if both logs may have lost their beginnings to the retention.
    pub is_truncated: bool,
}

/// The oracle of one run.
pub struct Oracle {
    log: Window<LogEntry>,
    /// The entries after `log` that were read before a truncation.
    ahead: Vec<LogEntry>,
    naive: NaiveEngine,
    /// A fast engine that never used a snapshot: a recovered engine must equal it bit by bit.
    straight: Engine,
    /// The naive engine's events of the log.
    expected: Window<Vec<u8>>,
    /// The events published. Those that are forgotten are the same in `expected`.
    seen: Window<Vec<u8>>,
    event_nos: BTreeMap<SessionId, EventNo>,
    /// The same before the first event that is kept.
    event_nos_before: BTreeMap<SessionId, EventNo>,
    orders: BTreeMap<(SessionId, ClOrdId), Rec>,
    /// The last order of the forgotten events.
    last_forgotten: Rec,
    /// The control positions of the definitions in the forgotten events.
    defined_before: Vec<Position>,
    epoch: Epoch,
}

impl Default for Oracle {
    fn default() -> Oracle {
        Oracle {
            log: Window::default(),
            ahead: Vec::new(),
            naive: NaiveEngine::new(engine_config()),
            straight: Engine::new(engine_config()),
            expected: Window::default(),
            seen: Window::default(),
            event_nos: BTreeMap::new(),
            event_nos_before: BTreeMap::new(),
            orders: BTreeMap::new(),
            last_forgotten: Rec::NONE,
            defined_before: Vec::new(),
            epoch: Epoch(0),
        }
    }
}

impl Oracle {
    /// The events published.
    #[must_use]
    pub fn seen(&self) -> &Window<Vec<u8>> {
        &self.seen
    }

    /// The last order that the forgotten events tell of: later ones are known as a whole.
    #[must_use]
    pub fn last_forgotten(&self) -> Rec {
        self.last_forgotten
    }

    /// The control positions of all definitions that events tell of, in order.
    pub fn defined(&self) -> impl Iterator<Item = Position> {
        let events = self.seen.kept().iter().filter_map(|bytes| defined_in(bytes));
        self.defined_before.iter().copied().chain(events)
    }

    /// Forgets commands and events before these numbers, which were judged, are past the retention
    /// and are not lost any more. Returns the events.
    pub fn forget_before(&mut self, position: Position, record: u64) -> Vec<Vec<u8>> {
        let index = |number: u64| usize::try_from(number.max(1) - 1).expect("a simulated log");
        self.log.forget_before(index(position.0));
        self.expected.forget_before(index(record));
        let forgotten = self.seen.forget_before(index(record));
        for bytes in &forgotten {
            let event = Event::decode(bytes).expect("it was decoded when it was seen");
            if let Some((session_id, event_no)) = event.address()
                && event_no != EventNo::NONE
            {
                self.event_nos_before.insert(session_id, event_no.next());
            }
            if let Some((name, rec)) = named_order(&event) {
                self.orders.remove(&name);
                self.last_forgotten = self.last_forgotten.max(rec);
            }
            self.defined_before.extend(defined_in(bytes));
        }
        forgotten
    }

    /// The number of commands in the log as last recovered.
    #[must_use]
    pub fn command_count(&self) -> u64 {
        self.log.len() as u64
    }

    /// The last request in the log.
    #[must_use]
    pub fn last_request(&self) -> Option<weir_wire::Request> {
        self.log.kept().iter().rev().find_map(|entry| match Command::decode(&entry.bytes) {
            Ok(Command::Request(request)) => Some(request),
            _ => None,
        })
    }

    /// The first position of the log that was not read yet.
    #[must_use]
    pub fn next_unread(&self) -> Position {
        Position((self.log.len() + self.ahead.len()) as u64 + 1)
    }

    /// Keeps entries that may be removed before the next recovery: those from
    /// [`Oracle::next_unread`] on.
    pub fn keep(&mut self, entries: Vec<LogEntry>) {
        self.ahead.extend(entries);
    }

    /// Records that an event was published.
    ///
    /// # Errors
    /// When it is not the next record, or not the session's next event, or reports a second order
    /// for one request.
    pub fn see(&mut self, record: u64, bytes: &[u8]) -> Result<Event, Violation> {
        same("the events have a gap", &record, &(self.seen.len() as u64 + 1))?;
        let event = Event::decode(bytes)
            .map_err(|error| Violation::new("an event does not decode", error))?;
        if let Some((session_id, event_no)) = event.address()
            && event_no != EventNo::NONE
        {
            let expected = self.event_nos.entry(session_id).or_insert(EventNo(1));
            same("a session's events have a gap", &event_no, expected)?;
            *expected = expected.next();
        }
        if let Some((name, order)) = named_order(&event) {
            let rec = *self.orders.entry(name).or_insert(order);
            ensure(rec == order, "a request was executed twice", || {
                format!("{:?} is orders {rec} and {order}", name.1)
            })?;
        }
        self.seen.push(bytes.to_vec());
        Ok(event)
    }

    /// Checks a recovery against everything known. Returns true when acknowledged commands are
    /// lost, within the durability level.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn judge(&mut self, found: &RecoveryResult<'_>, crowd: &Crowd) -> Result<bool, Violation> {
        self.judge_log(found, crowd)?;
        self.judge_engine(found)?;
        same("events are counted wrong", &found.event_count, &(self.expected.len() as u64))?;
        self.judge_events(found)?;
        let both = self.seen.kept().iter().zip(self.expected.kept());
        for (index, (event, expected)) in (self.seen.begin()..).zip(both) {
            ensure(event == expected, "what was said was taken back", || show(index, event))?;
        }
        let has_lost = self.seen.len() > self.expected.len();
        self.judge_epoch(found, has_lost)?;
        if has_lost {
            ensure(found.may_lose, "an acknowledged command is gone", || {
                format!("events after {} of {}", self.expected.len(), self.seen.len())
            })?;
            self.forget()?;
        }
        Ok(has_lost)
    }

    /// The events of the log that were not published.
    #[must_use]
    pub fn unseen(&self) -> Vec<(u64, Vec<u8>)> {
        let new = self.expected.from(self.seen.len()).to_vec();
        (self.seen.len() as u64 + 1..).zip(new).collect()
    }

    fn judge_events(&self, found: &RecoveryResult<'_>) -> Result<(), Violation> {
        let (first, events) = &found.events;
        ensure(*first == 1 || found.is_truncated, "old events are gone", || first.to_string())?;
        let gone = usize::try_from(*first - 1).expect("few events");
        same("the event log ends elsewhere", &(gone + events.len()), &self.expected.len())?;
        // A power loss may bring back events that are forgotten.
        let known = (gone..).zip(events).filter(|(index, _)| *index >= self.expected.begin());
        for (index, event) in known {
            let is_it = self.expected.get(index) == Some(event);
            ensure(is_it, "an event is not what the log says", || show(index, event))?;
        }
        Ok(())
    }

    /// Returns the new entries of a recovered log: those behind the log as last recovered. The ones
    /// that were removed since are those that were read before.
    fn new_entries(&mut self, found: &RecoveryResult<'_>) -> Result<Vec<LogEntry>, Violation> {
        let (first, entries) = &found.log;
        let known = self.log.len();
        let mut ahead = std::mem::take(&mut self.ahead);
        ensure(first.0 == 1 || found.is_truncated, "old commands are gone", || first.to_string())?;
        let gone = usize::try_from(first.0 - 1).expect("few commands");
        ensure(gone + entries.len() >= known, "a recovered log became shorter", || {
            format!("{} of {known}", gone + entries.len())
        })?;
        ensure(gone <= known + ahead.len(), "unread commands are gone", || first.to_string())?;
        let (old, new) = entries.split_at(known.saturating_sub(gone));
        let old = old.get(self.log.begin().saturating_sub(gone)..).unwrap_or_default();
        let is_same = old == self.log.from(gone);
        same("a recovered log changed", &is_same, &true)?;
        ahead.truncate(gone.saturating_sub(known));
        ahead.extend_from_slice(new);
        Ok(ahead)
    }

    fn judge_log(&mut self, found: &RecoveryResult<'_>, crowd: &Crowd) -> Result<(), Violation> {
        for entry in self.new_entries(found)? {
            if let Some(last) = self.log.last() {
                let grows = entry.log_time > last.log_time
                    || (entry.log_time == last.log_time && !last.ends_batch);
                ensure(grows, "log time does not grow", || format!("{}", entry.log_time.0))?;
            }
            let command = Command::decode(&entry.bytes)
                .map_err(|error| Violation::new("a logged command does not decode", error))?;
            if let Command::Request(request) = &command {
                let asked = crowd.asked(request.session_id(), request.request_no());
                same("the log holds what nobody asked", &Some(&command), &asked)?;
            }
            let (position, log_time) = (Position(self.log.len() as u64 + 1), entry.log_time);
            self.log.push(entry);
            let mut said: Vec<Event> = Vec::new();
            self.naive.apply(position, log_time, &command, &mut said);
            self.straight.apply(position, log_time, &command, &mut |_: &Event| {});
            for event in said {
                let mut bytes = Vec::new();
                event.encode(&mut bytes);
                self.expected.push(bytes);
            }
        }
        Ok(())
    }

    fn judge_engine(&self, found: &RecoveryResult<'_>) -> Result<(), Violation> {
        let (engine, naive) = (found.engine, &self.naive);
        same("the engine stands elsewhere", &engine.position(), &naive.position())?;
        same("the engine's digest is wrong", &engine.digest(), &naive.digest())?;
        same("the engine's state", &engine.state_hash(), &self.straight.state_hash())?;
        same("the engine's live orders", &engine.live_order_count(), &naive.live_order_count())?;
        same("the engine's sums", &engine.totals(), &naive.totals())?;
        ensure(engine.totals().is_conserved(), "money or lots are not conserved", || {
            format!("{:?}", engine.totals())
        })?;
        let (chosen, expected) = (engine.cancel_on_disconnect(), naive.cancel_on_disconnect());
        same("the sessions with cancel-on-disconnect", &chosen, &&expected[..])?;
        for (session_id, state) in engine.sessions() {
            same("a session's numbers are wrong", &state, &naive.session_state(session_id))?;
        }
        Ok(())
    }

    fn judge_epoch(&mut self, found: &RecoveryResult<'_>, has_lost: bool) -> Result<(), Violation> {
        ensure(found.epoch >= self.epoch, "the epoch went back", || format!("{}", found.epoch))?;
        if has_lost {
            ensure(found.epoch > self.epoch, "a lost tail began no epoch", || {
                format!("still {}", found.epoch)
            })?;
            let end = found.ended.iter().rev().find(|end| end.epoch == self.epoch);
            let last = Position(self.log.len() as u64);
            let is_told = end.is_some_and(|end| end.last_valid <= last);
            ensure(is_told, "an ended epoch ends too late", || format!("{end:?}, last {last}"))?;
        }
        self.epoch = found.epoch;
        Ok(())
    }

    /// Discards the events of lost commands.
    fn forget(&mut self) -> Result<(), Violation> {
        let left = self.expected.len() - self.seen.begin();
        self.event_nos.clone_from(&self.event_nos_before);
        self.orders.clear();
        let first = self.seen.begin() as u64 + 1;
        for (record, bytes) in (first..).zip(self.seen.take_kept()).take(left) {
            self.see(record, &bytes)?;
        }
        Ok(())
    }
}

/// The name and the number of the order that an event tells of, unless it replaces another name.
fn named_order(event: &Event) -> Option<((SessionId, ClOrdId), Rec)> {
    match event {
        Event::Plain(PlainEvent::OrderEvent(e))
            if !e.rec.is_none() && e.orig_cl_ord_id.is_none() =>
        {
            Some(((e.session_id, e.cl_ord_id), e.rec))
        }
        _ => None,
    }
}

/// The control position of an event that tells of a definition.
fn defined_in(bytes: &[u8]) -> Option<Position> {
    match Event::decode(bytes) {
        Ok(Event::Defined(defined, _)) => Some(defined.control_position),
        _ => None,
    }
}

fn show(index: usize, bytes: &[u8]) -> String {
    format!("event {}: {:?}", index + 1, Event::decode(bytes))
}
