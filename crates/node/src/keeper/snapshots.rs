//! Snapshots by a shadow engine: it follows the partition's log from the files, at its own pace,
//! and writes what it has become. The partition never stops for a snapshot.
//!
//! Before a snapshot of position P is written, the events up to P are synced, so that the event
//! log never ends before the newest snapshot begins.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_engine::Engine;
use weir_io::ThreadDisk;
use weir_log::snapshot::SnapshotStore;
use weir_log::{LogReader, SegmentKind};
use weir_types::{Nanos, Position};
use weir_wire::{Command, Event};

use super::event_files::SyncedEvents;
use crate::agent::Agent;
use crate::partition::PartitionFigures;
use crate::partition::recovery::{PartitionDirs, put_state};

/// Commands applied in one cycle: some milliseconds of work.
const APPLY_MAX: usize = 4096;
/// How often the log is looked at when there was nothing new.
const LOOK_INTERVAL: u64 = 50_000_000;

/// What a shadow follows.
pub struct ShadowParts {
    /// The engine as it was recovered; the shadow's own copy.
    pub engine: Engine,
    /// Events said up to there.
    pub events: u64,
    /// Where the partition's files are.
    pub dirs: PartitionDirs,
    /// The log's identity.
    pub log_id: u128,
    /// How far the partition is.
    pub figures: Arc<PartitionFigures>,
    /// How far its events are synced.
    pub synced_events: Arc<SyncedEvents>,
    /// Commands between two snapshots.
    pub every_commands: u64,
    /// Snapshots kept.
    pub keep: usize,
}

/// A shadow engine.
pub struct Shadow {
    parts: ShadowParts,
    reader: Option<LogReader<ThreadDisk>>,
    store: SnapshotStore<ThreadDisk>,
    last_snapshot: Position,
    due: Nanos,
    failed: bool,
}

impl Shadow {
    /// A shadow at the position of its engine.
    ///
    /// # Errors
    /// When the snapshot directory cannot be opened.
    pub fn new(parts: ShadowParts) -> Result<Shadow, weir_io::DiskError> {
        let disk = ThreadDisk::open(&parts.dirs.snapshots(), None)?;
        let store = SnapshotStore::new(disk, parts.log_id, parts.engine.config().partition_id);
        let last_snapshot = parts.engine.position();
        Ok(Shadow { parts, reader: None, store, last_snapshot, due: Nanos(0), failed: false })
    }

    fn try_work(&mut self) -> Result<usize, anyhow::Error> {
        let committed = Position(self.parts.figures.position.load(Ordering::Relaxed));
        if self.parts.engine.position() >= committed {
            return Ok(0);
        }
        if self.reader.is_none() {
            let disk = ThreadDisk::open(&self.parts.dirs.commands(), None)?;
            let from = self.parts.engine.position().next();
            self.reader = Some(LogReader::open(disk, SegmentKind::Command, from)?);
        }
        let applied = self.apply(committed)?;
        let since = self.parts.engine.position().0 - self.last_snapshot.0;
        if since >= self.parts.every_commands && self.parts.synced_events.ask_for(self.parts.events)
        {
            self.take()?;
        }
        Ok(applied)
    }

    /// Applies what is committed and in the files.
    fn apply(&mut self, committed: Position) -> Result<usize, anyhow::Error> {
        let Some(reader) = &mut self.reader else { return Ok(0) };
        let parts = &mut self.parts;
        let mut applied = 0;
        while applied < APPLY_MAX && parts.engine.position() < committed {
            let Some(entry) = reader.next_entry()? else { break };
            let command = Command::decode(entry.bytes)?;
            let events = &mut parts.events;
            let mut count = |_: &Event| *events += 1;
            parts.engine.apply(entry.position, entry.log_time, &command, &mut count);
            applied += 1;
        }
        Ok(applied)
    }

    fn take(&mut self) -> Result<(), anyhow::Error> {
        let position = self.parts.engine.position();
        let mut state = Vec::new();
        put_state(&self.parts.engine, self.parts.events, &mut state);
        self.store.write(position, &state)?;
        self.store.prune(self.parts.keep)?;
        self.last_snapshot = position;
        Ok(())
    }
}

impl Agent for Shadow {
    fn name(&self) -> &'static str {
        "shadow"
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        if self.failed || now < self.due {
            return 0;
        }
        match self.try_work() {
            Ok(0) => {
                self.due = Nanos(now.0 + LOOK_INTERVAL);
                0
            }
            Ok(done) => done,
            Err(error) => {
                // The node trades on; the next start replays more of the log.
                eprintln!("weir: no more snapshots until the next start: {error:#}");
                self.failed = true;
                0
            }
        }
    }

    fn next_deadline(&self, _now: Nanos) -> Option<Nanos> {
        (!self.failed).then_some(self.due)
    }
}
