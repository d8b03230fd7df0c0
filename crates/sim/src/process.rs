//! The node between two crashes: the partition's agent over the real logs, what follows it, and
//! the directories that outlive it.
//!
//! Mirrors what the node puts together on its threads, one cycle after another. What its keeper
//! does on real files (event log, snapshots by a shadow engine) is done here on simulated ones.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Context;
use weir_engine::Engine;
use weir_io::disk::sim::TraceOp;
use weir_io::{Rng, SeededRng, SimDisk};
use weir_log::tail::{TailConfig, TailHandle, TailReader, tail};
use weir_log::{
    EmbeddedLog, EventLog, Followed, LogConfig, LogReader, SegmentKind, SnapshotStore, read_events,
};
use weir_node::agent::Agent;
use weir_node::handoff::{PartitionPort, SourcePort, gateway_to_partition};
use weir_node::partition::recovery::{Rebuilt, Sources, put_state, rebuild};
use weir_node::partition::{Partition, PartitionFigures, PartitionParts};
use weir_node::runner::Wake;
use weir_probe::Recorder;
use weir_types::{Durability, Nanos, Position};
use weir_wire::{Command, Event};

use crate::disk::{Gate, ProcessDisk};
use crate::oracle::{LogEntry, engine_config};
use crate::plan::Plan;
use crate::plant::Plant;
use crate::shell::{Fate, Shell};
use crate::workload::HERE;

/// The identity of every simulated log.
const LOG_ID: u128 = 0x5157;
/// Records that the event log takes in one turn.
const FOLLOW_MAX: usize = 4096;
/// The size of the event log's segment files in bytes.
const EVENT_SEGMENT_BYTES: u64 = 128 << 10;
/// Snapshots kept.
const SNAPSHOTS_KEPT: usize = 2;

/// The directories of a partition.
#[derive(Clone)]
pub struct Disks {
    /// The command log's.
    pub commands: SimDisk,
    /// The event log's.
    pub events: SimDisk,
    /// The snapshots'.
    pub snapshots: SimDisk,
}

impl Disks {
    /// Empty ones.
    #[must_use]
    pub fn new(seed: u64) -> Disks {
        let [commands, events, snapshots] = [0, 1, 2].map(|n| SimDisk::new(seed * 3 + n));
        Disks { commands, events, snapshots }
    }

    /// Each, changed by `change`.
    #[must_use]
    pub fn map(&self, mut change: impl FnMut(&SimDisk) -> SimDisk) -> Disks {
        Disks {
            commands: change(&self.commands),
            events: change(&self.events),
            snapshots: change(&self.snapshots),
        }
    }

    /// Copies of what they hold now; what is done from now on is recorded.
    #[must_use]
    pub fn begin_recording(&self) -> Disks {
        let before = self.map(SimDisk::after_process_crash);
        for disk in [&self.commands, &self.events, &self.snapshots] {
            disk.record();
        }
        before
    }

    /// What was done since, with the number of the disk: in the order of a cycle or, with
    /// `recovering`, of a recovery.
    #[must_use]
    pub fn take_recording(&self, recovering: bool) -> Vec<(usize, TraceOp)> {
        let [commands, events, snapshots] =
            [&self.commands, &self.events, &self.snapshots].map(SimDisk::take_trace);
        let order = if recovering {
            [(0, commands), (2, snapshots), (1, events)]
        } else {
            [(0, commands), (1, events), (2, snapshots)]
        };
        let numbered =
            |(disk, ops): (usize, Vec<TraceOp>)| ops.into_iter().map(move |op| (disk, op));
        order.into_iter().flat_map(numbered).collect()
    }

    /// Does a recorded operation.
    pub fn apply(&self, (disk, op): &(usize, TraceOp)) {
        [&self.commands, &self.events, &self.snapshots][*disk].apply(op);
    }

    /// The whole command log.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read_log(&self) -> anyhow::Result<Vec<LogEntry>> {
        let disk = self.commands.clone();
        let mut reader = LogReader::open(disk, SegmentKind::Command, Position(1))?;
        let mut log = Vec::new();
        while let Some(entry) = reader.next_entry()? {
            let (log_time, ends_batch) = (entry.log_time, entry.ends_batch);
            log.push(LogEntry { log_time, ends_batch, bytes: entry.bytes.to_vec() });
        }
        Ok(log)
    }

    /// The event log's records from `first` on.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read_events(&self, first: Position) -> anyhow::Result<Vec<Vec<u8>>> {
        let mut reader = read_events(self.events.clone(), first)?;
        let mut events = Vec::new();
        while let Some(entry) = reader.next_entry()? {
            events.push(entry.bytes.to_vec());
        }
        Ok(events)
    }
}

/// Rebuilds the partition, as the node does at its start.
///
/// # Errors
/// When a log or a snapshot is not sound.
pub fn recover(
    disks: &Disks,
    plan: &Plan,
    (gate, plant): (&Gate, Option<Plant>),
) -> anyhow::Result<Rebuilt<ProcessDisk>> {
    let durability = match plant {
        Some(Plant::PageCacheTrusted) if plan.durability == Durability::Disk => Durability::Os,
        _ => plan.durability,
    };
    let log =
        LogConfig { durability, segment_bytes: plan.segment_bytes, ..LogConfig::new(HERE, LOG_ID) };
    let lies = plant == Some(Plant::SyncSkipped);
    rebuild(Sources {
        log,
        event_segment_bytes: EVENT_SEGMENT_BYTES,
        engine: engine_config(),
        commands: ProcessDisk::new(disks.commands.clone(), gate.clone(), lies),
        events: ProcessDisk::new(disks.events.clone(), Gate::default(), false),
        snapshots: disks.snapshots.clone(),
    })
}

/// A running process.
pub struct Process {
    partition: Partition<Shell<EmbeddedLog<ProcessDisk>>>,
    fate: Fate,
    /// The clients' ring.
    pub port: PartitionPort,
    /// The control feed's ring.
    pub feed: PartitionPort,
    tail: TailReader,
    events: EventLog<ProcessDisk>,
    events_tail: TailReader,
    is_lapped: bool,
    shadow: Shadow,
    figures: Arc<PartitionFigures>,
    gate: Gate,
    stalled_for: u64,
    plant: Option<Plant>,
}

impl Process {
    /// Starts over what was recovered.
    ///
    /// # Errors
    /// When the engine's own snapshot does not restore.
    pub fn start(
        rebuilt: Rebuilt<ProcessDisk>,
        disks: &Disks,
        plan: &Plan,
        (gate, plant): (Gate, Option<Plant>),
    ) -> anyhow::Result<Process> {
        let Rebuilt { engine, log, events, event_count, .. } = rebuilt;
        let tail_config =
            TailConfig { segment_words: 16 << 10, segments: 24, first_record: event_count + 1 };
        let (writer, handle): (_, TailHandle) = tail(tail_config);
        let (port, source) = gateway_to_partition(HERE, Wake::new());
        let (feed, fed) = gateway_to_partition(HERE, Wake::new());
        // As in the node: nobody listens on the control feed's side.
        let fed = SourcePort { feedback: None, ..fed };
        let figures = Arc::new(PartitionFigures::default());
        figures.position.store(engine.position().0, Ordering::Relaxed);
        let fate = Fate::default();
        let shadow = Shadow::new(&engine, event_count, disks)?;
        let partition = Partition::new(PartitionParts {
            engine,
            log: Shell::new(log, fate.clone(), plant),
            tail: writer,
            sources: vec![source, fed],
            views: Vec::new(),
            recorder: Recorder::disabled(),
            figures: figures.clone(),
            durability: plan.durability,
        });
        Ok(Process {
            partition,
            fate,
            port,
            feed,
            tail: handle.reader(),
            events,
            events_tail: handle.reader(),
            is_lapped: false,
            shadow,
            figures,
            gate,
            stalled_for: 0,
            plant,
        })
    }

    /// Why the process ended itself, once it did.
    #[must_use]
    pub fn why_stopped(&self) -> Option<String> {
        self.fate.why()
    }

    /// Lets the command log's disk stand still for some cycles, by chance.
    pub fn stall(&mut self, rng: &mut SeededRng, per_mille: u64) {
        if self.stalled_for == 0 && rng.chance(per_mille, 1000) {
            self.stalled_for = 1 + rng.below(20);
        }
        self.gate.set_closed(self.stalled_for > 0);
        self.stalled_for = self.stalled_for.saturating_sub(1);
    }

    /// The partition's cycle.
    pub fn work(&mut self, now: Nanos) {
        self.partition.do_work(now);
    }

    /// The keeper's cycle: the event log follows.
    pub fn keep_events(&mut self, now: Nanos) {
        if !self.is_lapped && self.fate.why().is_none() {
            let followed = self.events.follow(&mut self.events_tail, FOLLOW_MAX);
            self.is_lapped = followed == Followed::Lapped;
            if let Err(error) = self.events.do_work(now) {
                self.fate.stop(format!("the event log failed: {error}"));
            }
        }
    }

    /// Takes a snapshot when its events are there to be synced; true when it was taken.
    ///
    /// # Errors
    /// When the log cannot be followed. A full or failing disk is no error: there is no snapshot.
    pub fn snapshot(&mut self) -> anyhow::Result<bool> {
        if self.fate.why().is_some() {
            return Ok(false);
        }
        let committed = Position(self.figures.position.load(Ordering::Relaxed));
        self.shadow.follow(committed)?;
        if self.events.next_record().0 <= self.shadow.event_count {
            return Ok(false);
        }
        if let Err(error) = self.events.flush_blocking() {
            self.fate.stop(format!("the event log failed: {error}"));
            return Ok(false);
        }
        self.shadow.take(self.plant)
    }

    /// The next event that was published.
    pub fn next_event(&mut self, into: &mut Vec<u8>) -> Option<u64> {
        match self.tail.next(into) {
            weir_log::TailRead::Record(number) => Some(number),
            weir_log::TailRead::Empty => None,
            weir_log::TailRead::Lapped { .. } => unreachable!("it is read after every cycle"),
        }
    }

    /// Stops as asked: false when there is more to do. The last call closes the event log.
    pub fn stop(&mut self, now: Nanos) -> bool {
        if self.fate.why().is_some() {
            return true;
        }
        self.gate.set_closed(false);
        if !self.partition.stop(now) {
            return false;
        }
        self.keep_events(now);
        if !self.is_lapped
            && let Err(error) = self.events.close()
        {
            self.fate.stop(format!("the event log failed: {error}"));
        }
        true
    }
}

/// The engine that snapshots are taken of: it follows the command log's files.
struct Shadow {
    engine: Engine,
    event_count: u64,
    commands: SimDisk,
    reader: Option<LogReader<SimDisk>>,
    store: SnapshotStore<SimDisk>,
    last_snapshot: Position,
}

impl Shadow {
    fn new(engine: &Engine, event_count: u64, disks: &Disks) -> anyhow::Result<Shadow> {
        let mut state = Vec::new();
        engine.snapshot(&mut state);
        Ok(Shadow {
            engine: Engine::restore(engine_config(), &state)?,
            event_count,
            commands: disks.commands.clone(),
            reader: None,
            store: SnapshotStore::new(disks.snapshots.clone(), LOG_ID, HERE),
            last_snapshot: engine.position(),
        })
    }

    fn follow(&mut self, committed: Position) -> anyhow::Result<()> {
        if self.engine.position() >= committed {
            return Ok(());
        }
        if self.reader.is_none() {
            let from = self.engine.position().next();
            let opened = LogReader::open(self.commands.clone(), SegmentKind::Command, from);
            self.reader = match opened {
                // At level `memory` the files are behind what is committed.
                Err(weir_log::LogError::NotRetained { .. }) => return Ok(()),
                opened => Some(opened.context("the shadow cannot open the log")?),
            };
        }
        let Some(reader) = &mut self.reader else { return Ok(()) };
        while self.engine.position() < committed {
            let Some(entry) = reader.next_entry().context("the shadow cannot read the log")? else {
                break;
            };
            let command = Command::decode(entry.bytes)?;
            let count = &mut self.event_count;
            let mut said = |_: &Event| *count += 1;
            self.engine.apply(entry.position, entry.log_time, &command, &mut said);
        }
        Ok(())
    }

    fn take(&mut self, plant: Option<Plant>) -> anyhow::Result<bool> {
        let position = self.engine.position();
        if position <= self.last_snapshot {
            return Ok(false);
        }
        let miscount = u64::from(plant == Some(Plant::SnapshotMiscounts));
        let mut state = Vec::new();
        put_state(&self.engine, self.event_count - miscount.min(self.event_count), &mut state);
        if self.store.write(position, &state).is_err() {
            return Ok(false);
        }
        self.store.prune(SNAPSHOTS_KEPT)?;
        self.last_snapshot = position;
        Ok(true)
    }
}
