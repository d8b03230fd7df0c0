//! A shadow engine: it applies a partition's commands a second time, from the log's files and at
//! its own pace, and writes their events to the event log and snapshots of its state. The partition
//! waits for neither.
//!
//! The event log never lacks an event, however far the shadow is behind: the partition's in-memory
//! events may be overwritten, but commands stay until a snapshot covers them.
//!
//! The shadow also truncates both logs by their retention: the event log itself, the command log by
//! telling the partition, whose log it is. With an archive no segment goes before that has it.
//!
//! INVARIANT: a snapshot of position P is written after the events up to P are synced, so the event
//! log reaches at least to the newest snapshot. The command log may be synced later: a power loss
//! then takes commands that the snapshot has, and its use. So only snapshots up to the synced
//! position count: no command is given up that follows the oldest of them, nor any at all before
//! there are two, if two are to be kept. One that is damaged does not count.

use thiserror::Error;
use weir_engine::Engine;
use weir_io::{Disk, DiskError};
use weir_log::event_log::{EventAppend, EventLog};
use weir_log::snapshot::SnapshotStore;
use weir_log::{LogError, LogReader, RetainedSegment, SegmentKind, retained_segments};
use weir_types::{Nanos, Position};
use weir_wire::{Command, DecodeError, Event};

use crate::archive::ARCHIVE;
use crate::archive::gate::{ArchiveGate, LogAtGate};
use crate::holds::Holds;
use crate::plant::{self, Plant};
use crate::retention::{
    LogLimits, RetentionClock, RetentionLimits, RetentionTimes, Surplus, surplus,
};

/// The name under which the status shows what snapshots hold.
const SNAPSHOTS: &str = "snapshots";

/// The number of bytes of a snapshot that are read at a time: less than a millisecond's.
const PROVEN_BYTES: usize = 1 << 20;

/// The position and the number of events of no snapshot.
const NO_SNAPSHOT: (Position, u64) = (Position::NONE, 0);

/// The parts of a shadow.
pub struct ShadowParts<C, E, S> {
    /// The recovered engine; the shadow's own copy.
    pub engine: Engine,
    /// The number of events up to the engine's position.
    pub event_count: u64,
    /// The position of the snapshot from which the engine was recovered; zero without one.
    pub snapshot: Position,
    /// The event log, which has those events.
    pub events: EventLog<E>,
    /// Opens the command log's directory.
    pub commands: OpenCommands<C>,
    /// The store of snapshots.
    pub snapshots: SnapshotStore<S>,
    /// The number of snapshots kept.
    pub keep: usize,
    /// The events that readers need.
    pub holds: Holds,
}

/// The size of both logs after a look at their retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retained {
    /// The command log; the partition may remove the commands before its position.
    pub commands: Surplus,
    /// The event log.
    pub events: Surplus,
    /// The name of that which holds back the most, when something is held.
    pub held_by: Option<&'static str>,
    /// The bytes of both logs that wait for the archive.
    pub waiting_bytes: u64,
    /// The bytes of both logs that go without a copy in the archive.
    pub lost_bytes: u64,
}

/// A part of a log that may go, its holder, and the archive's share.
#[derive(Clone, Copy, Debug)]
struct Freed {
    part: Surplus,
    holder: &'static str,
    waiting_bytes: u64,
    lost_bytes: u64,
}

/// Opens the directory of a command log for reading.
pub type OpenCommands<C> = Box<dyn FnMut() -> Result<C, DiskError> + Send>;

/// The reason why a shadow cannot continue now. Its state is that before the failed step, and it
/// may try again.
#[derive(Debug, Error)]
pub enum ShadowError {
    /// The event log failed.
    #[error("the event log: {0}")]
    Events(#[source] LogError),
    /// The command log cannot be read.
    #[error("the command log: {0}")]
    Commands(#[source] LogError),
    /// The command log's directory cannot be opened.
    #[error("the command log's directory: {0}")]
    Directory(#[source] DiskError),
    /// An entry of the command log is not a valid command.
    #[error("the log's entry {position} is no command: {source}")]
    Entry {
        /// The entry.
        position: Position,
        /// The decoder's error.
        source: DecodeError,
    },
    /// The event log's disk has no room.
    #[error("the event log's disk is full")]
    Full,
    /// A snapshot cannot be written; the events can.
    #[error("a snapshot: {0}")]
    Snapshot(#[source] DiskError),
    /// It cannot be seen what may be removed; nothing is.
    #[error("the retention: {0}")]
    Retention(#[source] LogError),
}

/// A shadow engine.
pub struct Shadow<C: Disk, E, S> {
    parts: ShadowParts<C, E, S>,
    reader: Option<LogReader<C>>,
    /// The newest command's events that the event log does not have yet.
    said: Vec<Event>,
    bytes: Vec<u8>,
    /// The number of bytes of a snapshot that are read at a time.
    proven_bytes: usize,
    last_snapshot: Position,
    last_state: u64,
    /// The snapshots that there were at the last look, and the oldest of use with the number of its
    /// events.
    kept: (Vec<Position>, (Position, u64)),
    /// The command log's directory, for looks at its segments.
    segments: Option<C>,
    /// The position up to which the command log is synced.
    synced: Position,
    clock: RetentionClock,
    archive: Option<ArchiveGate>,
}

impl<C: Disk, E: Disk, S: Disk> Shadow<C, E, S> {
    /// Returns a shadow at the position of its engine.
    #[must_use]
    pub fn new(parts: ShadowParts<C, E, S>) -> Shadow<C, E, S> {
        // An opened log is synced.
        let synced = parts.engine.position();
        Shadow {
            clock: RetentionClock::after(parts.engine.time()),
            last_snapshot: parts.snapshot,
            proven_bytes: PROVEN_BYTES,
            parts,
            reader: None,
            said: Vec::new(),
            bytes: Vec::with_capacity(512),
            last_state: 0,
            kept: (Vec::new(), NO_SNAPSHOT),
            segments: None,
            synced,
            archive: None,
        }
    }

    /// Lets no segment go that this archive has not stored.
    pub fn archive_by(&mut self, gate: ArchiveGate) {
        self.archive = Some(gate);
    }

    /// Notes the position up to which the command log is synced.
    pub fn note_synced(&mut self, position: Position) {
        let counts_all = plant::is(Plant::UnsyncedSnapshotCounts);
        self.synced = self.synced.max(if counts_all { Position(u64::MAX) } else { position });
    }

    /// Returns the position of the newest applied command.
    #[must_use]
    pub fn position(&self) -> Position {
        self.parts.engine.position()
    }

    /// Returns the number of events that the event log has been given.
    #[must_use]
    pub fn event_count(&self) -> u64 {
        self.parts.event_count
    }

    /// Returns true while the event log's disk has no room for its events.
    #[must_use]
    pub fn has_full_disk(&self) -> bool {
        self.parts.events.is_full()
    }

    /// Returns true when all events that the event log was given are in its files.
    #[must_use]
    pub fn has_written_events(&self) -> bool {
        self.parts.events.is_written()
    }

    /// Writes and syncs the events that the event log was given; false while its disk is full.
    ///
    /// # Errors
    /// [`ShadowError::Events`].
    pub fn write_events(&mut self) -> Result<bool, ShadowError> {
        match self.parts.events.flush_blocking() {
            Ok(()) => Ok(true),
            Err(error) if error.is_fatal() => Err(ShadowError::Events(error)),
            Err(_) => Ok(false),
        }
    }

    /// Writes events, the first `written` of which are in the files, if event `wanted` is among the
    /// others that the event log was given: a reader waits for it.
    ///
    /// # Errors
    /// As [`Shadow::write_events`].
    pub fn write_wanted(&mut self, wanted: u64, written: u64) -> Result<(), ShadowError> {
        if wanted > written && self.event_count() >= wanted {
            self.write_events()?;
        }
        Ok(())
    }

    /// Opens the command log again before the next command, after an error.
    pub fn reopen(&mut self) {
        self.reader = None;
    }

    /// Reads snapshots by so many bytes at a time.
    #[cfg(test)]
    pub(crate) fn prove_by(&mut self, bytes: usize) {
        self.proven_bytes = bytes;
    }

    /// Returns the position of the newest snapshot; zero without one.
    #[must_use]
    pub fn last_snapshot(&self) -> Position {
        self.last_snapshot
    }

    /// Returns the hash of the engine's whole state in the newest snapshot; zero before the first.
    #[must_use]
    pub fn last_state(&self) -> u64 {
        self.last_state
    }

    /// Applies up to `commands_max` commands that are in the files and not after `committed`;
    /// returns their number. It is lower when there are no more, or when the event log is full.
    ///
    /// # Errors
    /// [`ShadowError`], except for a full disk, which is retried.
    pub fn follow(
        &mut self,
        committed: Position,
        commands_max: usize,
        now: Nanos,
    ) -> Result<usize, ShadowError> {
        self.parts.events.do_work(now).map_err(ShadowError::Events)?;
        let mut applied = 0;
        while applied < commands_max && self.write_said() && self.position() < committed {
            if !self.apply_next()? {
                break;
            }
            applied += 1;
        }
        Ok(applied)
    }

    /// Applies one command; false when the files have no more.
    fn apply_next(&mut self) -> Result<bool, ShadowError> {
        if self.reader.is_none() {
            let from = self.position().next();
            let disk = (self.parts.commands)().map_err(ShadowError::Directory)?;
            match LogReader::open(disk, SegmentKind::Command, from) {
                Ok(reader) => self.reader = Some(reader),
                // At `memory` a commit does not wait for the files.
                Err(LogError::NotRetained { .. }) => return Ok(false),
                Err(error) => return Err(ShadowError::Commands(error)),
            }
        }
        let Some(reader) = &mut self.reader else { return Ok(false) };
        let Some(entry) = reader.next_entry().map_err(ShadowError::Commands)? else {
            return Ok(false);
        };
        let position = entry.position;
        let command = Command::decode(entry.bytes)
            .map_err(|source| ShadowError::Entry { position, source })?;
        self.parts.engine.apply(position, entry.log_time, &command, &mut self.said);
        Ok(true)
    }

    /// Writes the newest command's events to the event log; false when not all of them fit.
    fn write_said(&mut self) -> bool {
        let parts = &mut self.parts;
        parts.events.stamp(parts.engine.time());
        for (written, event) in self.said.iter().enumerate() {
            self.bytes.clear();
            event.encode(&mut self.bytes);
            let record = Position(parts.event_count + 1);
            if parts.events.append(record, &self.bytes) == EventAppend::NotNow {
                self.said.drain(..written);
                return false;
            }
            parts.event_count += 1;
        }
        self.said.clear();
        true
    }

    /// Syncs the events and writes a snapshot of the shadow's state; false when the disk is full or
    /// there is nothing new. Older ones are not [pruned](Shadow::prune) yet.
    ///
    /// # Errors
    /// [`ShadowError`].
    pub fn take_snapshot(&mut self) -> Result<bool, ShadowError> {
        self.take_snapshot_with(|_| {})
    }

    /// Takes a snapshot and prunes older ones, which may read one of them as a whole.
    ///
    /// # Errors
    /// [`ShadowError`].
    pub fn snapshot(&mut self) -> Result<bool, ShadowError> {
        self.snapshot_with(|_| {})
    }

    /// Writes a snapshot like [`Shadow::snapshot`], but `change` may corrupt the state, for tests
    /// of its detection.
    ///
    /// # Errors
    /// [`ShadowError`].
    pub fn snapshot_with(
        &mut self,
        change: impl FnOnce(&mut Vec<u8>),
    ) -> Result<bool, ShadowError> {
        let is_taken = self.take_snapshot_with(change)?;
        if is_taken {
            self.prune()?;
        }
        Ok(is_taken)
    }

    /// Removes snapshots that newer ones replace.
    ///
    /// # Errors
    /// [`ShadowError::Snapshot`].
    pub fn prune(&mut self) -> Result<(), ShadowError> {
        if plant::is(Plant::SnapshotsNeverPruned) {
            return Ok(());
        }
        let ShadowParts { snapshots, keep, .. } = &mut self.parts;
        snapshots.prune_of(*keep, self.synced).map_err(ShadowError::Snapshot)?;
        Ok(())
    }

    /// Reads a part of a snapshot that [`Shadow::prune`] or [`Shadow::retain`] would read as a
    /// whole; true when they would read none. A reader that waits for events waits for this
    /// thread.
    ///
    /// # Errors
    /// [`ShadowError::Snapshot`].
    pub fn prove_part(&mut self) -> Result<bool, ShadowError> {
        let ShadowParts { snapshots, keep, .. } = &mut self.parts;
        snapshots.prove_part(*keep, self.synced, self.proven_bytes).map_err(ShadowError::Snapshot)
    }

    fn take_snapshot_with(
        &mut self,
        change: impl FnOnce(&mut Vec<u8>),
    ) -> Result<bool, ShadowError> {
        if self.position() <= self.last_snapshot || !self.write_said() {
            return Ok(false);
        }
        if !self.write_events()? {
            return Ok(false);
        }
        let mut state = Vec::new();
        put_state(&self.parts.engine, self.parts.event_count, &mut state);
        let hash = state_in(&state).map_or(0, |(_, own)| Engine::state_hash_of(own));
        change(&mut state);
        let position = self.position();
        let snapshots = &mut self.parts.snapshots;
        snapshots.write(position, &state).map_err(ShadowError::Snapshot)?;
        (self.last_snapshot, self.last_state) = (position, hash);
        Ok(true)
    }

    /// Removes events that are over the limits and that nobody needs, and returns the commands that
    /// the partition may remove.
    ///
    /// # Errors
    /// [`ShadowError::Retention`]; nothing is removed then.
    pub fn retain(
        &mut self,
        limits: &RetentionLimits,
        times: RetentionTimes,
    ) -> Result<Retained, ShadowError> {
        let failed = |error: DiskError| ShadowError::Retention(error.into());
        let (position, events) = match limits.is_unlimited() {
            true => NO_SNAPSHOT,
            false => self.oldest_kept().map_err(failed)?,
        };
        let mut disk = match self.segments.take() {
            Some(disk) => disk,
            None => (self.parts.commands)().map_err(failed)?,
        };
        let segments = retained_segments(&mut disk, SegmentKind::Command);
        let segments = segments.map_err(ShadowError::Retention)?;
        self.segments = Some(disk);
        if segments.is_empty() {
            return Err(ShadowError::Retention(LogError::NoSegment));
        }
        let time = self.clock.at(times);
        let of_kind = |kind, limits| Ageing { kind, limits, time, now: times.now };
        let ageing = of_kind(SegmentKind::Command, limits.of_commands());
        let mut archive = self.archive.as_mut();
        let needed = Needed { from: position.next(), holder: SNAPSHOTS };
        let commands = ageing.freed(&segments, needed, archive.as_deref_mut());
        let log = &mut self.parts.events;
        let segments: Vec<_> = log.retained().copied().collect();
        let ageing = of_kind(SegmentKind::Event, limits.of_events());
        let events = self.parts.holds.decide(|least| {
            let mut needed = Needed { from: Position(events + 1), holder: SNAPSHOTS };
            if let Some(least) = least.filter(|least| least.from < needed.from.0)
                && !plant::is(Plant::HoldsIgnored)
            {
                needed = Needed { from: Position(least.from), holder: least.holder };
            }
            let events = ageing.freed(&segments, needed, archive);
            (events.part.before.0, events)
        });
        // Announced before the log removes the first file, which takes another call of its work.
        log.truncate(events.part.before);
        let held_by = match commands.part.held_bytes.max(events.part.held_bytes) {
            0 => None,
            held if held == events.part.held_bytes => Some(events.holder),
            _ => Some(commands.holder),
        };
        let waiting_bytes = commands.waiting_bytes + events.waiting_bytes;
        let lost_bytes = commands.lost_bytes + events.lost_bytes;
        let (commands, events) = (commands.part, events.part);
        Ok(Retained { commands, events, held_by, waiting_bytes, lost_bytes })
    }

    /// Returns the position and the number of events of the oldest kept snapshot that a power loss
    /// leaves of use; zero while fewer than two can be used, where two or more are to be kept.
    fn oldest_kept(&mut self) -> Result<(Position, u64), DiskError> {
        let snapshots = &mut self.parts.snapshots;
        let mut positions = snapshots.list()?;
        positions.retain(|position| *position <= self.synced);
        if positions == self.kept.0 {
            return Ok(self.kept.1);
        }
        let (mut oldest, keep) = (NO_SNAPSHOT, self.parts.keep.min(2));
        if snapshots.newest_of_use(&positions, keep)?.len() == keep {
            for position in &positions {
                let begun = snapshots.load_beginning(*position, size_of::<u64>())?;
                // One that is damaged is no reason to keep all.
                if let Some((count, _)) = begun.as_deref().ok().and_then(state_in) {
                    oldest = (*position, count);
                    break;
                }
            }
        }
        self.kept = (positions, oldest);
        Ok(oldest)
    }

    /// Ends the event log with a closing mark.
    ///
    /// # Errors
    /// [`ShadowError::Events`].
    pub fn close(&mut self) -> Result<(), ShadowError> {
        while !self.write_said() {
            self.parts.events.flush_blocking().map_err(ShadowError::Events)?;
        }
        self.parts.events.close().map_err(ShadowError::Events)
    }
}

/// The first entry of a log that is needed, and the name of that which needs it.
#[derive(Clone, Copy, Debug)]
struct Needed {
    from: Position,
    holder: &'static str,
}

/// A log at a look at the retention: its limits, and the time by which entries are old.
#[derive(Clone, Copy, Debug)]
struct Ageing {
    kind: SegmentKind,
    limits: LogLimits,
    time: Nanos,
    /// The time of the monotonic clock.
    now: Nanos,
}

impl Ageing {
    /// Returns the part that may go: by the limits, by its readers, and by the archive.
    fn freed(
        &self,
        segments: &[RetainedSegment],
        needed: Needed,
        archive: Option<&mut ArchiveGate>,
    ) -> Freed {
        let Ageing { kind, limits, time, now } = *self;
        let free = surplus(segments, limits, needed.from, time);
        let holder = needed.holder;
        let Some(gate) = archive else {
            return Freed { part: free, holder, waiting_bytes: 0, lost_bytes: 0 };
        };
        let passed = gate.pass(LogAtGate { kind, segments, free }, now);
        let (waiting_bytes, lost_bytes) = (passed.waiting_bytes, passed.lost_bytes);
        if passed.upto >= free.before {
            return Freed { part: free, holder, waiting_bytes, lost_bytes };
        }
        let part = surplus(segments, limits, passed.upto, time);
        Freed { part, holder: ARCHIVE, waiting_bytes, lost_bytes }
    }
}

/// Appends a snapshot's bytes: the number of events, then the engine's state.
pub fn put_state(engine: &Engine, event_count: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&event_count.to_le_bytes());
    engine.snapshot(out);
}

/// Decodes the output of [`put_state`]: the number of events, and the engine's own snapshot.
#[must_use]
pub fn state_in(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (event_count, state) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*event_count), state))
}
