//! What a source's store survives a restart by: a log of the openings and batches that were taken
//! in, and snapshots of the store that spare a start the log's beginning.
//!
//! An entry is taken in first and then appended; whoever is to hear of it hears when the log says
//! that it is committed at the source's level. Should it be lost before that, the core has not
//! heard of it and sends it again, with the same number and the same rows, so that readers who saw
//! it early see nothing else later.
//!
//! ```text
//! at a start                              | the store is
//! ----------------------------------------+--------------------------------------------------
//! no snapshot, the log from its beginning | empty, then all entries
//! a snapshot of an entry that is there    | the snapshot's, then the entries after it
//! a snapshot after the log's end          | not that: it is removed, and the one before is taken
//! no snapshot, and the log begins later   | empty: its core is asked for all that there is, and
//!                                         | a snapshot of nothing says where the log goes on
//! ```
//! INVARIANT: a snapshot gets its name when the entries that it holds are synced, at `os` too, and
//! the log is cut only before the older of the snapshots that are kept: so a loss of power leaves a
//! log that goes on from one of them.

use anyhow::Context;
use weir_delivery::replay::STREAM_STATE_LEN;
use weir_delivery::stream::{SourceStream, Window};
use weir_delivery::{OrderStore, Restore, StoreConfig};
use weir_io::{Access, Disk, DiskError, DiskErrorKind};
use weir_log::{
    Append, Batch, EmbeddedLog, LogConfig, LogError, Push, SegmentKind, SequencedLog, Snapshot,
    SnapshotStore,
};
use weir_types::{AckLevel, Durability, Epoch, Nanos, PartitionId, Position};

use super::StoreSettings;
use super::tail::EntryTail;

/// The log of one source's entries.
pub struct Journal<D: Disk> {
    log: EmbeddedLog<D>,
    batch: Batch,
    /// An entry that is taken in and that the log had no room for.
    late: Option<Vec<u8>>,
    /// Bytes appended since the last snapshot was begun.
    bytes_since: u64,
    /// Where that one was begun.
    begun_at: Position,
}

/// A source's store and stream as they were.
pub struct Kept<D: Disk, S> {
    /// The store.
    pub store: OrderStore,
    /// Its stream.
    pub stream: SourceStream,
    /// The log that goes on.
    pub journal: Journal<D>,
    /// Its newest entries.
    pub tail: EntryTail,
    /// Its snapshots.
    pub snapshots: SnapshotStore<S>,
    /// Full resends that ended in the log since the snapshot.
    pub resends: u64,
    /// What there is to say, for people.
    pub notes: Vec<String>,
}

/// What acknowledgements say of a level.
#[must_use]
pub fn ack_level(durability: Durability) -> AckLevel {
    match durability {
        Durability::Memory => AckLevel::Memory,
        Durability::Os => AckLevel::Os,
        Durability::Disk => AckLevel::Disk,
    }
}

impl<D: Disk> Journal<D> {
    fn new(log: EmbeddedLog<D>, config: &LogConfig, begun_at: Position) -> Journal<D> {
        Journal { log, batch: config.batch(), late: None, bytes_since: 0, begun_at }
    }

    /// Keeps an entry that was taken in. It is committed later: see [`Journal::committed`].
    ///
    /// # Panics
    /// While the one before has not found its place: see [`Journal::has_room`].
    pub fn keep(&mut self, entry: Vec<u8>, now: Nanos) {
        assert!(self.late.is_none(), "one entry after the other");
        self.late = Some(entry);
        self.append_late(now);
    }

    /// Whether the next entry may be taken in: the disk has room, and takes what it is given.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.late.is_none()
    }

    /// Whether the disk has no room.
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

    /// Starts and finishes I/O; how much there was to do.
    ///
    /// # Errors
    /// When a write or sync failed: the process must stop, and starts from what is on the medium.
    pub fn do_work(&mut self, now: Nanos) -> Result<usize, LogError> {
        let done = self.log.do_work(now)?;
        self.append_late(now);
        Ok(done)
    }

    /// The position of the newest entry that was taken in.
    #[must_use]
    pub fn taken(&self) -> Position {
        Position(self.log.next_position().0 - 1 + u64::from(self.late.is_some()))
    }

    /// The position up to which all survives what the level says.
    #[must_use]
    pub fn committed(&self) -> Position {
        self.log.committed()
    }

    /// The oldest position that is there.
    #[must_use]
    pub fn first(&self) -> Position {
        self.log.first_position()
    }

    /// The log's identity, and the epoch of its run: positions mean the same as long as both do.
    #[must_use]
    pub fn identity(&self) -> (u128, Epoch) {
        (self.log.log_id(), self.log.epoch())
    }

    /// Bytes appended since a snapshot was begun.
    #[must_use]
    pub fn bytes_since(&self) -> u64 {
        self.bytes_since
    }

    /// A snapshot of what was taken in by now is begun; its position.
    pub fn begin_snapshot(&mut self) -> Position {
        self.bytes_since = 0;
        self.begun_at = self.taken();
        self.begun_at
    }

    /// Snapshots from this one on are on the medium: what is before it may go.
    pub fn cut_before(&mut self, oldest_kept: Position) {
        self.log.truncate(oldest_kept);
    }

    /// Blocks until all is on the medium, and ends the log with a mark that says so.
    ///
    /// # Errors
    /// As [`Journal::do_work`].
    pub fn close(&mut self) -> Result<(), LogError> {
        if self.late.is_some() {
            self.log.flush_blocking()?;
            self.append_late(self.log.last_log_time());
        }
        self.log.close()
    }
}

/// Syncs the files of a source's log, by a disk of its own: blocks. Entries that were committed
/// before, at whatever level, survive a loss of power then.
///
/// # Errors
/// When the disk fails.
pub fn sync_log<D: Disk>(disk: &mut D) -> Result<(), DiskError> {
    let names = disk.list()?;
    for name in names.iter().filter(|name| name.ends_with(SegmentKind::Command.suffix())) {
        let file = match disk.open(name, Access::Read) {
            Ok(file) => file,
            // What was before the oldest snapshot may go at any time.
            Err(error) if error.kind == DiskErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let synced = disk.sync(file);
        disk.close(file);
        synced?;
    }
    disk.sync_dir()
}

/// Brings a source's store back, or makes it new.
///
/// # Errors
/// When the log is damaged, newer or locked, or an entry contradicts what is there. Nothing is
/// guessed.
pub fn recover<D: Disk, S: Disk>(
    settings: &StoreSettings,
    window: Window,
    config: LogConfig,
    (disk, snapshots): (D, S),
) -> anyhow::Result<Kept<D, S>> {
    let source = settings.source;
    // What it was let in once it is let in again, whatever the limit is now.
    let unlimited = StoreConfig { bytes_max: u64::MAX, ..settings.config(Epoch::NONE) };
    let (mut log, report) =
        EmbeddedLog::open(config.clone(), disk).context("the log of batches")?;
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
            let replayed = stream.replay(entry.bytes, &mut store);
            replayed.with_context(|| format!("entry {} of source {source}", entry.position))?;
            tail.push(entry.bytes.to_vec());
        }
    }
    let resends = stream.counters().resends;
    stream.end_replay();
    store.set_bytes_max(settings.bytes_max);
    let stream = stream.at_level(ack_level(config.durability));
    let journal = Journal::new(log, &config, last);
    Ok(Kept { store, stream, journal, tail, snapshots, resends, notes })
}

fn nothing(
    config: StoreConfig,
    window: Window,
    source: PartitionId,
) -> (Position, OrderStore, SourceStream) {
    (Position::NONE, OrderStore::new(config), SourceStream::new(source, window))
}

/// A snapshot of a store that holds nothing.
fn empty_state(store: &mut OrderStore, stream: &SourceStream) -> Vec<u8> {
    let mut state = Vec::new();
    stream.put_state(&mut state);
    store.begin_snapshot();
    while let Ok(weir_delivery::SnapshotStep::More) = store.snapshot_chunk(1 << 16, &mut state) {}
    state
}

/// The newest snapshot up to `last` that is sound and of which a store can be made, by `decode`;
/// notes say which were passed over.
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

/// The store and the stream of a snapshot.
///
/// # Errors
/// When it is of another version, another source, or none.
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
    Ok((restore.finish()?, stream))
}
