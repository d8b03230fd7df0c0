//! Checkpoints: a partition's events as the gateway knows them up to a record, so that a start
//! reads only the events since.
//!
//! ```text
//! checkpoints    |-- C1 --|-- C2 --|            the two newest are kept
//! events      ...........................       a start loads C2 and reads on from there
//!                         '- since C2 -'
//! ```
//!
//! They are written by a view of their own, at idle times: it loads the newest one, takes the
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
//! the next record is past the retention           | no
//! damaged, of another format or another log       | no
//! ```
//!
//! When none is used, the gateway reads all retained events.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_io::{Disk, DiskError, DiskErrorKind};
use weir_log::{Snapshot, SnapshotStore};
use weir_partition::PartitionFigures;
use weir_partition::event_reader::EventReader;
use weir_runtime::Agent;
use weir_types::{FirmId, Nanos, Position, SessionId};

use crate::event_index::{EventIndex, Retained};

/// The number of checkpoints kept.
const KEEP: usize = 2;
/// The number of events taken in one cycle: less than a millisecond of work.
const TAKE_MAX: usize = 1_024;
/// The pause in nanoseconds between looks for a due checkpoint: 100 ms.
const LOOK_INTERVAL: u64 = 100_000_000;
/// The pause in nanoseconds after a failure: 10 s.
const RETRY_INTERVAL: u64 = 10_000_000_000;

/// A checkpoint that a gateway can begin with.
#[derive(Debug)]
pub struct Checkpoint {
    pub(crate) index: EventIndex,
}

impl Checkpoint {
    /// Returns its newest record.
    #[must_use]
    pub fn record(&self) -> u64 {
        self.index.next - 1
    }
}

/// The log that a checkpoint has to fit.
#[derive(Clone, Copy)]
pub struct CheckpointLog<'a> {
    /// A reader that stands at the first retained event.
    pub events: &'a EventReader,
    /// The number of events.
    pub event_count: u64,
    /// The number of a firm's reports from which copies can be requested.
    pub copies_retained_max: usize,
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
    let passed_over =
        |file: &str, reason: &str| format!("gateway: checkpoint {file} is passed over: {reason}");
    let (mut found, skipped) = store.load_newest(Position(log.event_count))?;
    for skipped in skipped {
        notes.push(passed_over(&skipped.file, &skipped.fault.to_string()));
    }
    while let Some(Snapshot { position, bytes }) = found {
        match fit(position, &bytes, log) {
            Ok(index) => return Ok(Some(Checkpoint { index })),
            Err(reason) => notes.push(passed_over(&position.to_string(), &reason)),
        }
        found = older_than(position, store)?;
    }
    Ok(None)
}

/// Reads the checkpoint of a record and compares it with the log.
fn fit(at: Position, bytes: &[u8], log: CheckpointLog<'_>) -> Result<EventIndex, String> {
    let retained = Retained { of_firm: log.copies_retained_max };
    let index = EventIndex::from_state(bytes, retained);
    let mut index = index.ok_or("it is of another format")?;
    if index.next != at.0 + 1 {
        return Err(format!("it is of event {}", index.next - 1));
    }
    let first = log.events.next_record();
    if index.next < first {
        return Err(format!("events {} to {} are past the retention", index.next, first - 1));
    }
    let epoch = index.lineage.current();
    if !log.events.epochs().has(epoch, index.position) {
        return Err(format!("its epoch {epoch} has lost its last events"));
    }
    index.forget_before(first);
    Ok(index)
}

fn older_than<D: Disk>(
    at: Position,
    store: &mut SnapshotStore<D>,
) -> Result<Option<Snapshot>, DiskError> {
    for position in store.list()?.into_iter().rev().filter(|position| *position < at) {
        if let Ok(bytes) = store.load(position)? {
            return Ok(Some(Snapshot { position, bytes }));
        }
    }
    Ok(None)
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
pub struct CheckpointAgent<D> {
    parts: CheckpointParts<D>,
    /// The first event that was retained at the start.
    first: u64,
    work: Option<Work>,
    record: Vec<u8>,
    due: Nanos,
}

impl<D: Disk> CheckpointAgent<D> {
    /// Returns an agent that goes on from the checkpoint with which the gateway began.
    #[must_use]
    pub fn new(mut parts: CheckpointParts<D>) -> CheckpointAgent<D> {
        let first = parts.events.next_record();
        if parts.newest > 0 {
            // The epochs are told when the checkpoint is loaded; the place keeps the events since.
            let epoch = parts.events.epoch();
            parts.events.skip_to(parts.newest + 1, epoch);
        }
        let newest = parts.newest;
        parts.figures.counters.checkpoint_event.store(newest, Ordering::Relaxed);
        CheckpointAgent { parts, first, work: None, record: Vec::new(), due: Nanos(0) }
    }

    /// Begins the next checkpoint, if it is due.
    fn begin(&mut self) -> Result<bool, DiskError> {
        let parts = &mut self.parts;
        let target = parts.figures.counters.event_in_files.load(Ordering::Relaxed);
        if target < parts.newest + parts.every {
            return Ok(false);
        }
        let retained = Retained { of_firm: parts.copies_retained_max };
        let index = match parts.newest {
            0 => None,
            newest => {
                let state = match parts.store.load(Position(newest)) {
                    Ok(state) => state.ok(),
                    Err(error) if error.kind == DiskErrorKind::NotFound => None,
                    Err(error) => return Err(error),
                };
                let index = state.and_then(|state| EventIndex::from_state(&state, retained));
                index.filter(|index| index.next == newest + 1)
            }
        };
        let index = match index {
            Some(index) => {
                parts.events.skip_to(index.next, index.lineage.current());
                index
            }
            // The first one, or the last cannot be read: begin with the first retained event.
            None => {
                parts.newest = 0;
                let first = self.first.max(parts.events.retained_from());
                let epoch = parts.events.epochs().first();
                parts.events.skip_to(first, epoch);
                EventIndex::new(&mut parts.events, &parts.firms, retained)
            }
        };
        self.work = Some(Work { index, target });
        Ok(true)
    }

    /// Takes events; returns their number, and true when the checkpoint has all of its own.
    fn take(&mut self) -> (usize, bool) {
        let Some(Work { index, target }) = &mut self.work else { return (0, false) };
        let mut count = 0;
        while index.next <= *target && count < TAKE_MAX {
            if !index.take_next(&mut self.parts.events, &mut self.record) {
                break;
            }
            count += 1;
        }
        (count, index.next > *target)
    }

    fn write(&mut self) -> Result<(), DiskError> {
        let Some(Work { mut index, .. }) = self.work.take() else { return Ok(()) };
        index.forget_before(self.parts.events.retained_from());
        let (newest, mut state) = (index.next - 1, Vec::new());
        index.put_state(&mut state);
        drop(index);
        self.parts.store.write(Position(newest), &state)?;
        self.parts.newest = newest;
        self.parts.figures.counters.checkpoint_event.store(newest, Ordering::Relaxed);
        tracing::info!(event = newest, bytes = state.len(), "gateway checkpoint written");
        self.parts.store.prune(KEEP).map(drop)
    }

    fn step(&mut self, now: Nanos) -> Result<usize, DiskError> {
        if self.work.is_none() {
            let has_begun = self.begin()?;
            if !has_begun {
                self.due = Nanos(now.0 + LOOK_INTERVAL);
            }
            return Ok(usize::from(has_begun));
        }
        let (count, is_complete) = self.take();
        if is_complete {
            self.write()?;
            return Ok(1);
        }
        if count == 0 {
            self.due = Nanos(now.0 + LOOK_INTERVAL);
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
                self.due = Nanos(now.0 + RETRY_INTERVAL);
                let failures = &self.parts.figures.counters.checkpoint_failures;
                failures.fetch_add(1, Ordering::Relaxed);
                tracing::error!(%error, "no gateway checkpoint could be written");
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
