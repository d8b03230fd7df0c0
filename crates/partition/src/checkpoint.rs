//! Checkpoints: the index of a partition's events up to a record, so that a start of a gateway
//! reads only the events since.
//!
//! ```text
//! checkpoints    |-- C1 --|-- C2 --|            the two newest are kept
//! events      ...........................       a start loads C2 and reads on from there
//!                         '- since C2 -'
//! ```
//!
//! They are written by a view of their own, on an idle thread: it loads the newest one, takes the
//! events since from the files, and writes the next. It keeps nothing in memory between two.
//!
//! ```text
//! the checkpoint                                  | is used
//! ------------------------------------------------+------------------------------------------
//! of a record that exists, and the next one is    | yes
//! retained or does not exist yet                  |
//! after the log's end                             | no, and it is removed: its record numbers
//!                                                 | will be those of other events
//! of an epoch that ended before its last command  | no: its last events are lost
//! of other epochs than the log's                  | no
//! the next record is past the retention           | no
//! damaged, of another format or another log       | no
//! contradicting the events, or with them the      | no
//! recovered engine's sessions                     |
//! ```
//!
//! When one is not used, the older one is tried; when none is, the gateway reads all retained
//! events. A checkpoint of any bytes stops no start.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use thiserror::Error;
use weir_io::{Disk, DiskError, DiskErrorKind};
use weir_log::SnapshotStore;
use weir_log::snapshot::SnapshotFault;
use weir_runtime::Agent;
use weir_types::{Epoch, Epochs, EventNo, FirmId, Nanos, Position, SessionId, Survival};

use crate::PartitionFigures;
use crate::event_index::{EventIndex, IndexFault, Retained, is_beginning_known};
use crate::event_reader::{EventReader, PastRead};
use crate::event_record::EventRecord;
use crate::holds::Hold;
use crate::plant::{self, Plant};

/// The number of checkpoints kept.
const KEEP: usize = 2;
/// The name under which the status shows the events that are held for checkpoints.
pub const HOLDER: &str = "gateway checkpoint";
/// The number of sessions of which a start compares the newest event with the log's.
const SAMPLES_MAX: usize = 64;

/// The pace of an agent that writes checkpoints.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The number of events taken in one cycle.
    pub taken_max: usize,
    /// The pause between looks for a due checkpoint.
    pub look_interval: Nanos,
    /// The pause after a failure.
    pub retry_interval: Nanos,
}

impl Pace {
    /// That of a node: a cycle is less than a millisecond of work.
    pub const OF_NODE: Pace = Pace {
        taken_max: 1_024,
        look_interval: Nanos(100_000_000),
        retry_interval: Nanos(10_000_000_000),
    };
}

/// A checkpoint that a gateway can begin with.
#[derive(Debug)]
pub struct Checkpoint {
    /// The index up to its newest record.
    pub index: EventIndex,
}

impl Checkpoint {
    /// Returns its newest record.
    #[must_use]
    pub fn record(&self) -> u64 {
        self.index.next - 1
    }
}

/// A session of the recovered engine.
#[derive(Clone, Copy, Debug)]
pub struct EngineSession {
    /// The session.
    pub id: SessionId,
    /// Its firm, or none.
    pub firm_id: FirmId,
    /// The number of its next event.
    pub next_event_no: EventNo,
}

/// The log that a checkpoint has to fit.
#[derive(Clone, Copy)]
pub struct CheckpointLog<'a> {
    /// Creates readers that stand at the first retained event.
    pub events: &'a dyn Fn() -> EventReader,
    /// The number of events.
    pub event_count: u64,
    /// The sessions of the engine at the log's end, in order.
    pub sessions: &'a [EngineSession],
    /// The number of a firm's reports from which copies can be requested.
    pub copies_retained_max: usize,
}

/// The reason why a checkpoint is passed over.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CheckpointFault {
    /// The file is not sound.
    #[error("{0}")]
    File(SnapshotFault),
    /// The disk does not read it.
    #[error("{0}")]
    Unreadable(DiskError),
    /// The bytes are no state of an index.
    #[error("it is of another format")]
    Format,
    /// The state is that of another record.
    #[error("it is of the events before {0}")]
    OtherRecord(u64),
    /// Events between it and the first retained one are gone.
    #[error("events {from} to {to} are past the retention")]
    PastRetention {
        /// The first event that it lacks.
        from: u64,
        /// The last one that is gone.
        to: u64,
    },
    /// It has events of an epoch that lost them.
    #[error("its epoch {0} has lost its last events")]
    LostEvents(Epoch),
    /// Its epochs are not the log's.
    #[error("its epochs are not those of the log")]
    OtherEpochs,
    /// An event of it, or one after it, cannot be read, or is another one.
    #[error("event {0} cannot be read, or is another one")]
    OtherEvent(u64),
    /// It contradicts the events after it.
    #[error("{0}")]
    Contradiction(String),
    /// With the events after it, a session is not the engine's.
    #[error("with the events after it, session {0} is not the recovered engine's")]
    OtherSession(SessionId),
}

impl From<IndexFault> for CheckpointFault {
    fn from(fault: IndexFault) -> CheckpointFault {
        CheckpointFault::Contradiction(fault.to_string())
    }
}

/// Loads the newest checkpoint that fits the log; `None` when there is none. Says in `notes` which
/// are passed over.
///
/// # Errors
/// When the disk fails.
pub fn load<D: Disk>(
    store: &mut SnapshotStore<D>,
    log: CheckpointLog<'_>,
    notes: &mut Vec<String>,
) -> Result<Option<Checkpoint>, DiskError> {
    store.remove_after(Position(log.event_count))?;
    for position in store.list()?.into_iter().rev() {
        let fault = match store.load(position) {
            Ok(Ok(bytes)) => match prove(position, &bytes, log) {
                Ok(index) => return Ok(Some(Checkpoint { index })),
                Err(fault) => fault,
            },
            Ok(Err(fault)) => CheckpointFault::File(fault),
            Err(error) => CheckpointFault::Unreadable(error),
        };
        notes.push(format!("gateway: the checkpoint of event {position} is passed over: {fault}"));
    }
    Ok(None)
}

/// Reads the checkpoint of a record, and proves it by a copy that takes all events since: they are
/// few, and the gateway itself must not meet a contradiction.
fn prove(
    at: Position,
    bytes: &[u8],
    log: CheckpointLog<'_>,
) -> Result<EventIndex, CheckpointFault> {
    let mut events = (log.events)();
    let (first, retained) = (events.next_record(), Retained { of_firm: log.copies_retained_max });
    let read = || fit(at, bytes, Fitting { first, epochs: events.epochs(), retained });
    let (index, mut copy) = (read()?, read()?);
    let mut record = Vec::new();
    if index.next > first {
        let is_same = events.read_at(at.0, &mut record) == PastRead::Found
            && EventRecord::new(&record).position() == index.position.0;
        if !is_same {
            return Err(CheckpointFault::OtherEvent(at.0));
        }
    }
    events.skip_to(copy.next, copy.lineage.current());
    while copy.take_next(&mut events, &mut record)? {}
    if copy.next != log.event_count + 1 {
        return Err(CheckpointFault::OtherEvent(copy.next));
    }
    compare_sessions(&copy, log.sessions)?;
    compare_samples(&index, first, &mut events)?;
    Ok(index)
}

/// Compares an index of all events with the sessions of the engine.
fn compare_sessions(index: &EventIndex, sessions: &[EngineSession]) -> Result<(), CheckpointFault> {
    for session in sessions {
        let own = index.sessions.get(&session.id);
        let has_firm = own.is_none_or(|own| own.firm_id == session.firm_id);
        // Without an event since the index began, there was none, or they are past the retention.
        let ends_before = own.and_then(|own| own.stream.ends_before(session.next_event_no));
        let is_new = session.next_event_no <= EventNo(1);
        if !has_firm || !ends_before.unwrap_or(is_new || index.begins_late()) {
            return Err(CheckpointFault::OtherSession(session.id));
        }
    }
    let is_known = |id: &SessionId| sessions.binary_search_by_key(id, |session| session.id).is_ok();
    match index.sessions.keys().find(|id| !is_known(id)) {
        Some(unknown) => Err(CheckpointFault::OtherSession(*unknown)),
        None => Ok(()),
    }
}

/// Compares the newest event of some sessions with the log's.
fn compare_samples(
    index: &EventIndex,
    first: u64,
    events: &mut EventReader,
) -> Result<(), CheckpointFault> {
    let mut record = Vec::new();
    let step = index.sessions.len().div_ceil(SAMPLES_MAX).max(1);
    for (id, session) in index.sessions.iter().step_by(step) {
        let Some((event_no, at)) = session.stream.newest().filter(|(_, at)| *at >= first) else {
            continue;
        };
        let is_found = events.read_at(at, &mut record) == PastRead::Found;
        let address = is_found.then(|| EventRecord::new(&record).address()).flatten();
        if address.is_none_or(|found| (found.session_id, found.event_no) != (*id, event_no)) {
            return Err(CheckpointFault::OtherEvent(at));
        }
    }
    Ok(())
}

/// The properties of the log that a checkpoint has to fit, but for the events since.
struct Fitting<'a> {
    /// The first retained record.
    first: u64,
    epochs: &'a Epochs<Position>,
    retained: Retained,
}

/// Reads the checkpoint of a record and compares it with the log.
fn fit(at: Position, bytes: &[u8], log: Fitting<'_>) -> Result<EventIndex, CheckpointFault> {
    let Fitting { first, epochs, retained } = log;
    let mut index = EventIndex::from_state(bytes, retained).ok_or(CheckpointFault::Format)?;
    if Some(index.next) != at.0.checked_add(1) {
        return Err(CheckpointFault::OtherRecord(index.next));
    }
    if index.next < first {
        return Err(CheckpointFault::PastRetention { from: index.next, to: first - 1 });
    }
    let epoch = index.lineage.current();
    if !epochs.has(epoch, index.position) && !plant::is(Plant::CheckpointOfLostEvents) {
        return Err(CheckpointFault::LostEvents(epoch));
    }
    if !has_same_ends(index.lineage.epochs(), epochs, index.position) {
        return Err(CheckpointFault::OtherEpochs);
    }
    index.forget_before(first);
    Ok(index)
}

/// Returns true when the ended epochs of a checkpoint at `position` are those of the log before its
/// epoch. A loss since can have shortened one that survived beyond its events.
fn has_same_ends(own: &Epochs<Position>, log: &Epochs<Position>, position: Position) -> bool {
    let before = log.ended().iter().filter(|(epoch, _)| *epoch < own.current()).count();
    own.ended().len() == before
        && own.ended().iter().all(|(epoch, to)| match log.survival(*epoch) {
            Survival::UpTo(now) => now == *to || (position..*to).contains(&now),
            Survival::Whole | Survival::Unknown => false,
        })
}

/// The parts of a checkpoint agent.
pub struct CheckpointParts<D> {
    /// The store of the checkpoints.
    pub store: SnapshotStore<D>,
    /// The partition's events, from the first retained one.
    pub events: EventReader,
    /// The firms of the sessions of the recovered engine.
    pub firms: Vec<(SessionId, FirmId)>,
    /// The newest record of the checkpoint with which the gateway began; zero for none.
    pub newest: u64,
    /// The number of events between checkpoints.
    pub every: u64,
    /// The number of a firm's reports from which copies can be requested.
    pub copies_retained_max: usize,
    /// Its pace.
    pub pace: Pace,
    /// The partition's figures.
    pub figures: Arc<PartitionFigures>,
}

/// A checkpoint under way.
struct Work {
    index: EventIndex,
    /// The record up to which it goes.
    target: u64,
}

/// The agent that writes a partition's checkpoints.
///
/// INVARIANT: the events after the newest checkpoint are held, also while the next one is under way
/// and its reader is far ahead: a start after a crash needs them. Without a checkpoint all are.
pub struct CheckpointAgent<D> {
    parts: CheckpointParts<D>,
    kept: Hold,
    /// The first event that was retained at the start.
    first: u64,
    work: Option<Work>,
    record: Vec<u8>,
    due: Nanos,
    /// True from a failure to the next checkpoint.
    has_failed: bool,
    has_failed_to_prune: bool,
}

impl<D: Disk> CheckpointAgent<D> {
    /// Returns an agent that goes on from the checkpoint with which the gateway began.
    #[must_use]
    pub fn new(mut parts: CheckpointParts<D>) -> CheckpointAgent<D> {
        let first = parts.events.next_record();
        let kept = parts.events.hold(HOLDER, first);
        if parts.newest > 0 {
            kept.set(parts.newest + 1);
            // The epochs are told when the checkpoint is loaded; the place keeps the events since.
            let epoch = parts.events.epoch();
            parts.events.skip_to(parts.newest + 1, epoch);
        }
        let newest = parts.newest;
        parts.figures.counters.checkpoint_event.store(newest, Ordering::Relaxed);
        CheckpointAgent {
            parts,
            kept,
            first,
            work: None,
            record: Vec::new(),
            due: Nanos(0),
            has_failed: false,
            has_failed_to_prune: false,
        }
    }

    /// Begins the next checkpoint, if it is due.
    fn begin(&mut self) -> Result<bool, DiskError> {
        let target = self.parts.figures.counters.event_in_files.load(Ordering::Relaxed);
        if target < self.parts.newest + self.parts.every {
            return Ok(false);
        }
        let index = match self.base()? {
            Some(index) => index,
            // The first one, or none can be read: begin with the first retained event.
            None => {
                let parts = &mut self.parts;
                parts.newest = 0;
                self.kept.set(parts.events.go_back(self.first));
                if !is_beginning_known(&mut parts.events) {
                    // A checkpoint without it would confirm no event of ended epochs, ever.
                    return Ok(false);
                }
                let retained = Retained { of_firm: parts.copies_retained_max };
                EventIndex::new(&mut parts.events, &parts.firms, retained)
            }
        };
        self.work = Some(Work { index, target });
        Ok(true)
    }

    /// Loads the newest checkpoint that can be continued; `None` for none.
    fn base(&mut self) -> Result<Option<EventIndex>, DiskError> {
        let parts = &mut self.parts;
        if parts.newest == 0 {
            return Ok(None);
        }
        let retained = Retained { of_firm: parts.copies_retained_max };
        // A start may have passed over newer ones.
        let usable = |position: &Position| position.0 <= parts.newest;
        let positions: Vec<_> = parts.store.list()?.into_iter().filter(usable).collect();
        for position in positions.into_iter().rev() {
            let bytes = match parts.store.load(position) {
                Ok(bytes) => bytes.map_err(CheckpointFault::File),
                Err(error) if error.kind == DiskErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            // From here on the events after it are kept, if they are still there.
            parts.events.go_back(position.0.saturating_add(1));
            let first = parts.events.retained_from();
            let epochs = parts.events.epochs();
            let index =
                bytes.and_then(|bytes| fit(position, &bytes, Fitting { first, epochs, retained }));
            match index {
                Ok(index) => {
                    self.kept.set(index.next);
                    parts.events.skip_to(index.next, index.lineage.current());
                    return Ok(Some(index));
                }
                Err(fault) => {
                    tracing::warn!(event = position.0, %fault, "gateway checkpoint passed over");
                }
            }
        }
        Ok(None)
    }

    /// Takes events; returns their number, and true when the checkpoint has all of its own.
    fn take(&mut self) -> Result<(usize, bool), IndexFault> {
        let Some(Work { index, target }) = &mut self.work else { return Ok((0, false)) };
        let mut count = 0;
        while index.next <= *target && count < self.parts.pace.taken_max {
            if !index.take_next(&mut self.parts.events, &mut self.record)? {
                break;
            }
            count += 1;
        }
        Ok((count, index.next > *target))
    }

    fn write(&mut self) -> Result<(), DiskError> {
        let Some(Work { mut index, .. }) = self.work.take() else { return Ok(()) };
        index.forget_before(self.parts.events.retained_from());
        let (newest, mut state) = (index.next - 1, Vec::new());
        index.put_state(&mut state);
        // One that begins anew needs the sessions that were defined before its first event.
        self.parts.firms = index.firms();
        drop(index);
        self.parts.store.write(Position(newest), &state)?;
        self.kept.set(newest + 1);
        self.parts.newest = newest;
        self.parts.figures.counters.checkpoint_event.store(newest, Ordering::Relaxed);
        tracing::info!(event = newest, bytes = state.len(), "gateway checkpoint written");
        if std::mem::take(&mut self.has_failed) {
            tracing::info!(event = newest, "gateway checkpoints are written again");
        }
        self.prune();
        Ok(())
    }

    /// Removes old checkpoints, with a line at each edge of a time when that fails.
    fn prune(&mut self) {
        if plant::is(Plant::CheckpointsNeverPruned) {
            return;
        }
        let pruned = self.parts.store.prune(KEEP);
        let has_failed = std::mem::replace(&mut self.has_failed_to_prune, pruned.is_err());
        match pruned {
            Err(error) if !has_failed => {
                tracing::error!(%error, "old gateway checkpoints stay until this ends");
            }
            Ok(_) if has_failed => tracing::info!("old gateway checkpoints are removed again"),
            _ => {}
        }
    }

    /// Tells a failure, the first of several with a line. A checkpoint only saves time, so one that
    /// cannot be written holds no event: the next try looks for those that are left.
    fn failed(&mut self, error: &dyn std::fmt::Display) {
        let in_files = self.parts.figures.counters.event_in_files.load(Ordering::Relaxed);
        let epoch = self.parts.events.epochs().current();
        self.parts.events.skip_to(in_files + 1, epoch);
        self.kept.set(in_files + 1);
        let failures = &self.parts.figures.counters.checkpoint_failures;
        failures.fetch_add(1, Ordering::Relaxed);
        if !std::mem::replace(&mut self.has_failed, true) {
            tracing::error!(%error, "no gateway checkpoint is written until this ends");
        }
    }

    fn step(&mut self, now: Nanos) -> Result<usize, DiskError> {
        if self.work.is_none() {
            let has_begun = self.begin()?;
            if !has_begun {
                self.due = Nanos(now.0 + self.parts.pace.look_interval.0);
            }
            return Ok(usize::from(has_begun));
        }
        let (count, is_complete) = match self.take() {
            Ok(taken) => taken,
            Err(fault) => {
                // The stored ones are of no use: the next begins with the first retained event.
                self.work = None;
                self.parts.newest = 0;
                self.due = Nanos(now.0 + self.parts.pace.retry_interval.0);
                self.failed(&fault);
                return Ok(0);
            }
        };
        if is_complete {
            self.write()?;
            return Ok(1);
        }
        if count == 0 {
            self.due = Nanos(now.0 + self.parts.pace.look_interval.0);
        }
        Ok(count)
    }
}

impl<D: Disk + Send> Agent for CheckpointAgent<D> {
    fn name(&self) -> &'static str {
        "checkpoints"
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        if now < self.due {
            return 0;
        }
        match self.step(now) {
            Ok(done) => done,
            Err(error) => {
                // The next start reads more events; nothing else waits for a checkpoint.
                self.work = None;
                self.due = Nanos(now.0 + self.parts.pace.retry_interval.0);
                self.failed(&error);
                0
            }
        }
    }

    fn next_deadline(&self, _now: Nanos) -> Option<Nanos> {
        Some(self.due)
    }
}

#[cfg(test)]
mod tests;
