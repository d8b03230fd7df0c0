//! The persistence of a source's store: a log of the ingested openings and batches, and snapshots
//! of the store that shorten the replay at a start.
//!
//! An entry is ingested first and then appended; its answer is sent when the log has committed it
//! at the source's level. If the entry is lost before that, the core has no acknowledgement and
//! sends it again, with the same number and the same rows, so that readers who saw it early see
//! nothing different later.
//!
//! ```text
//! at a start                              | the store is
//! ----------------------------------------+--------------------------------------------------
//! no snapshot, the log from its beginning | empty, then all entries
//! a snapshot of an existing entry         | the snapshot's, then the entries after it
//! a snapshot after the log's end          | that of the snapshot before; this one is removed
//! no snapshot, and the log begins later   | empty: its core is asked for a full resend, and
//!                                         | an empty snapshot marks where the log continues
//! ```
//! INVARIANT: a snapshot gets its name when its entries are synced, at `os` too, and the log is cut
//! only before the older of the retained snapshots: so a power loss leaves a log that continues
//! from one of them.
//!
//! A journal that is dropped ends with a closing mark: a start may be refused when it is open.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::Context;
use weir_delivery::replay::{ReplayError, STREAM_STATE_LEN};
use weir_delivery::stream::{SourceStream, Window};
use weir_delivery::{OrderStore, Restore, StoreConfig};
use weir_io::{Access, Disk, DiskError, DiskErrorKind};
use weir_log::{
    Append, Batch, EmbeddedLog, LogConfig, LogError, Push, SegmentKind, SequencedLog, Snapshot,
    SnapshotStore,
};
use weir_partition::closing_log::ClosingLog;
use weir_types::{AckLevel, Durability, Epoch, Nanos, PartitionId, Position};

use super::StoreSettings;
use super::tail::EntryTail;
use crate::panic_text::text_of;

/// The log of one source's entries.
pub struct Journal<D: Disk> {
    log: ClosingLog<D>,
    batch: Batch,
    /// An ingested entry for which the log had no room.
    late: Option<Vec<u8>>,
    /// Bytes appended since the last snapshot was begun.
    bytes_since: u64,
    /// The position at which that snapshot was begun.
    begun_at: Position,
}

/// A source's recovered store and stream.
pub struct RecoveredSource<D: Disk, S> {
    /// The store.
    pub store: OrderStore,
    /// The store's stream.
    pub stream: SourceStream,
    /// The log, ready for appending.
    pub journal: Journal<D>,
    /// The log's newest entries.
    pub tail: EntryTail,
    /// The store's snapshots.
    pub snapshots: SnapshotStore<S>,
    /// Notes on the recovery for operators.
    pub notes: Vec<String>,
}

/// Returns the acknowledgements' code of a durability level.
#[must_use]
pub fn ack_level(durability: Durability) -> AckLevel {
    match durability {
        Durability::Memory => AckLevel::Memory,
        Durability::Os => AckLevel::Os,
        Durability::Disk => AckLevel::Disk,
    }
}

/// The reason that a source's log cannot be used, which is no other source's and not the node's: a
/// start sets the log aside and asks the core for a full resend.
#[derive(Debug, thiserror::Error)]
pub enum SourceFault {
    /// An entry is refused, although it was taken once.
    #[error("entry {position} of source {source_id}: {error}")]
    Replay {
        /// The source.
        source_id: PartitionId,
        /// The entry's position.
        position: Position,
        /// The refusal.
        error: ReplayError,
    },
    /// An entry breaks an invariant of the store.
    #[error("entry {position} of source {source_id} breaks an invariant: {what}")]
    Invariant {
        /// The source.
        source_id: PartitionId,
        /// The position of the entry, or of the last one where the end of a resend breaks it.
        position: Position,
        /// The invariant.
        what: String,
    },
}

/// Returns true when an error of [`recover`] is a fault of the source's own log: one that its core
/// caused, or damage. What stands for the whole directory or the program is none: a log of a newer
/// format, one that is locked, a disk that does not answer.
#[must_use]
pub fn is_source_fault(error: &anyhow::Error) -> bool {
    let is_damage = error.chain().filter_map(|cause| cause.downcast_ref::<LogError>()).any(|log| {
        matches!(
            log,
            LogError::Damaged { .. }
                | LogError::DamagedHeader { .. }
                | LogError::MissingSegment { .. }
        )
    });
    is_damage || error.chain().any(|cause| cause.is::<SourceFault>())
}

impl<D: Disk> Journal<D> {
    fn new(log: ClosingLog<D>, config: &LogConfig, begun_at: Position) -> Journal<D> {
        Journal { log, batch: config.batch(), late: None, bytes_since: 0, begun_at }
    }

    /// Appends an ingested entry. It is committed later: see [`Journal::committed`].
    ///
    /// # Panics
    /// While the previous entry still waits for room: see [`Journal::has_room`].
    pub fn keep(&mut self, entry: Vec<u8>, now: Nanos) {
        assert!(self.late.is_none(), "one entry after the other");
        self.late = Some(entry);
        self.append_late(now);
    }

    /// Returns true when the next entry may be ingested: the log has accepted all before it.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.late.is_none()
    }

    /// Returns true when the log's disk is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.log.is_full()
    }

    fn append_late(&mut self, now: Nanos) {
        let Some(entry) = self.late.take() else { return };
        self.batch.clear();
        let pushed = self.batch.push(&entry);
        assert_eq!(pushed, Push::Taken, "a segment has room for the longest frame");
        let log_time = Nanos(now.0.max(self.log.last_log_time().0 + 1));
        match self.log.append(self.log.epoch(), log_time, &self.batch) {
            Append::At { .. } => self.bytes_since += entry.len() as u64,
            Append::Full | Append::Busy | Append::NotLeader => self.late = Some(entry),
        }
    }

    /// Starts and finishes I/O; returns the amount of work done.
    ///
    /// # Errors
    /// When a write or sync failed: the process must stop and recover from the medium.
    pub fn do_work(&mut self, now: Nanos) -> Result<usize, LogError> {
        let done = self.log.do_work(now)?;
        self.append_late(now);
        Ok(done)
    }

    /// Returns the position of the newest ingested entry.
    #[must_use]
    pub fn taken(&self) -> Position {
        Position(self.log.next_position().0 - 1 + u64::from(self.late.is_some()))
    }

    /// Returns the position up to which all entries have the log's durability level.
    #[must_use]
    pub fn committed(&self) -> Position {
        self.log.committed()
    }

    /// Returns the oldest retained position.
    #[must_use]
    pub fn first(&self) -> Position {
        self.log.first_position()
    }

    /// Returns the log's identity and the epoch of its run: positions are comparable only if both
    /// are equal.
    #[must_use]
    pub fn identity(&self) -> (u128, Epoch) {
        (self.log.log_id(), self.log.epoch())
    }

    /// Returns the bytes appended since a snapshot was begun.
    #[must_use]
    pub fn bytes_since(&self) -> u64 {
        self.bytes_since
    }

    /// Records that a snapshot of the ingested entries begins; returns its position.
    pub fn begin_snapshot(&mut self) -> Position {
        self.bytes_since = 0;
        self.begun_at = self.taken();
        self.begun_at
    }

    /// Drops entries before this position: the snapshots from it on are on the medium.
    pub fn cut_before(&mut self, oldest_kept: Position) {
        self.log.truncate(oldest_kept);
    }

    /// Blocks until all entries are on the medium, and ends the log with a closing mark.
    ///
    /// # Errors
    /// The same as those of [`Journal::do_work`].
    pub fn close(&mut self) -> Result<(), LogError> {
        if self.late.is_some() {
            self.log.flush_blocking()?;
            self.append_late(self.log.last_log_time());
        }
        self.log.close()
    }
}

/// Syncs the files of a source's log, using a disk of its own: blocks. Afterwards entries that were
/// committed, at any level, survive a power loss.
///
/// # Errors
/// When the disk fails.
pub fn sync_log<D: Disk>(disk: &mut D) -> Result<(), DiskError> {
    let names = disk.list()?;
    for name in names.iter().filter(|name| name.ends_with(SegmentKind::Command.suffix())) {
        let file = match disk.open(name, Access::Read) {
            Ok(file) => file,
            // Segments before the oldest snapshot may be removed at any time.
            Err(error) if error.kind == DiskErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let synced = disk.sync(file);
        disk.close(file);
        synced?;
    }
    disk.sync_dir()
}

/// Recovers a source's store, or creates it.
///
/// # Errors
/// When the log is damaged, newer or locked, or an entry contradicts the store. Recovery never
/// guesses. [`is_source_fault`] tells whether the log can be set aside.
pub fn recover<D: Disk, S: Disk>(
    settings: &StoreSettings,
    window: Window,
    config: LogConfig,
    disk: D,
    snapshots: S,
) -> anyhow::Result<RecoveredSource<D, S>> {
    let source = settings.source;
    // Recovery ignores the memory limit: changes that were once accepted are accepted again.
    let unlimited = StoreConfig { bytes_max: u64::MAX, ..settings.config(Epoch::NONE) };
    let (log, report) = EmbeddedLog::open(config.clone(), disk).context("the log of batches")?;
    // A refusal from here on leaves it closed.
    let mut log = ClosingLog::new(log);
    let mut notes = Vec::new();
    if let Some(cut) = &report.cut {
        notes.push(format!(
            "source {source}: a torn tail of {} bytes was cut at {} offset {}",
            cut.bytes, cut.file, cut.offset
        ));
    }
    let last = Position(log.next_position().0 - 1);
    let mut snapshots = SnapshotStore::new(snapshots, log.log_id(), source);
    let base = load(&mut snapshots, last, source, &mut notes, |_, state| {
        decode(state, unlimited, window)
    })?;
    let base = base.map(|(at, (store, stream))| (at, store, stream));
    let (at, mut store, mut stream) = base.unwrap_or_else(|| nothing(unlimited, window, source));
    let mut tail = EntryTail::new(at.max(Position(log.first_position().0 - 1)));
    if at.next() < log.first_position() {
        notes.push(format!("source {source}: no snapshot: its core has to send all again"));
        (_, store, stream) = nothing(unlimited, window, source);
        snapshots.write(last, &empty_state(&mut store, &stream))?;
        tail = EntryTail::new(last);
    } else if at < last {
        let mut reader = log.read(at.next())?;
        while let Some(entry) = reader.next_entry()? {
            let position = entry.position;
            let replay = AssertUnwindSafe(|| stream.replay(entry.bytes, &mut store));
            match catch_unwind(replay) {
                Ok(Ok(())) => {}
                Ok(Err(ReplayError::Reset)) => {
                    let reset = stream.reset(&store).map_err(ReplayError::Refused);
                    store = reset.map_err(|error| refused(source, position, error))?;
                }
                Ok(Err(error)) => return Err(refused(source, position, error).into()),
                Err(panic) => return Err(invariant(source, position, panic.as_ref()).into()),
            }
            tail.push(entry.bytes.to_vec());
        }
    }
    let ended = catch_unwind(AssertUnwindSafe(|| stream.end_replay(&mut store)));
    ended.map_err(|panic| invariant(source, last, panic.as_ref()))?;
    store.set_bytes_max(settings.bytes_max);
    let stream = stream.at_level(ack_level(config.durability));
    let journal = Journal::new(log, &config, last);
    Ok(RecoveredSource { store, stream, journal, tail, snapshots, notes })
}

fn refused(source_id: PartitionId, position: Position, error: ReplayError) -> SourceFault {
    SourceFault::Replay { source_id, position, error }
}

fn invariant(source_id: PartitionId, position: Position, panic: &(dyn Any + Send)) -> SourceFault {
    SourceFault::Invariant { source_id, position, what: text_of(panic) }
}

fn nothing(
    config: StoreConfig,
    window: Window,
    source: PartitionId,
) -> (Position, OrderStore, SourceStream) {
    (Position::NONE, OrderStore::new(config), SourceStream::new(source, window))
}

/// Encodes a snapshot of an empty store.
fn empty_state(store: &mut OrderStore, stream: &SourceStream) -> Vec<u8> {
    let mut state = Vec::new();
    stream.put_state(&mut state);
    store.begin_snapshot();
    while let Ok(weir_delivery::ChunkOutcome::More) = store.snapshot_chunk(1 << 16, &mut state) {}
    state
}

/// Loads the newest sound snapshot up to `last` that `decode` accepts; notes name those passed
/// over.
///
/// # Errors
/// When the disk fails.
pub(super) fn load<S: Disk, T>(
    snapshots: &mut SnapshotStore<S>,
    last: Position,
    source: PartitionId,
    notes: &mut Vec<String>,
    mut decode: impl FnMut(Position, &[u8]) -> anyhow::Result<T>,
) -> anyhow::Result<Option<(Position, T)>> {
    let (mut found, skipped) = snapshots.load_newest(last)?;
    for skipped in skipped {
        notes.push(format!("source {source}: snapshot passed over: {skipped:?}"));
    }
    let mut older = snapshots.list()?;
    while let Some(Snapshot { position, bytes }) = found {
        match decode(position, &bytes) {
            Ok(made) => return Ok(Some((position, made))),
            Err(error) => {
                notes.push(format!("source {source}: snapshot {position} passed over: {error}"));
            }
        }
        older.retain(|at| *at < position);
        found = None;
        while let (None, Some(position)) = (&found, older.pop()) {
            let bytes = snapshots.load(position)?.ok();
            found = bytes.map(|bytes| Snapshot { position, bytes });
        }
    }
    Ok(None)
}

/// Decodes a snapshot's store and stream.
///
/// # Errors
/// When it has another version or source, or is malformed.
pub fn decode(
    state: &[u8],
    config: StoreConfig,
    window: Window,
) -> anyhow::Result<(OrderStore, SourceStream)> {
    let (head, mut chunks) = state.split_at_checked(STREAM_STATE_LEN).context("it is too short")?;
    let stream = SourceStream::from_state(config.source, window, head);
    let stream = stream.context("the stream's state cannot be read")?;
    let mut restore = Restore::new(config);
    while !chunks.is_empty() {
        chunks = &chunks[restore.take(chunks)?..];
    }
    let mut store = restore.finish()?;
    stream.join(&mut store);
    Ok((store, stream))
}
