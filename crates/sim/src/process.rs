//! The node between two crashes: the partition's agent over the real logs, its followers, and the
//! directories that outlive it.
//!
//! It runs the parts that the node runs on its threads, one cycle after another. The shadow engine,
//! which writes events and snapshots, is the node's own, on simulated files.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_engine::{Engine, EngineLimits};
use weir_io::disk::sim::{SimUsage, TraceOp};
use weir_io::{Rng, SeededRng, SimDisk};
use weir_log::tail::{TailConfig, TailHandle, TailReader, tail_in};
use weir_log::{
    EmbeddedLog, LogConfig, LogReader, SegmentKind, SequencedLog as _, SnapshotStore, read_events,
};
use weir_partition::engine_limits::LimitsAtStart;
use weir_partition::event_reader::EventReader;
use weir_partition::handoff::{
    PartitionPort, SourcePort, gateway_to_partition, gateway_to_partition_with,
};
use weir_partition::holds::Holds;
use weir_partition::recovery::{Rebuilt, Sources, rebuild};
use weir_partition::retention::{RetentionLimits, RetentionTimes};
use weir_partition::shadow::{Shadow, ShadowError, ShadowParts};
use weir_partition::{Partition, PartitionFigures, PartitionParts};
use weir_probe::Recorder;
use weir_runtime::{Agent, Wake};
use weir_types::{Durability, Nanos, Position, WallOffset};

use crate::clocks::LogTimeWatch;
use crate::disk::{Gates, ProcessDisk};
use crate::fullness::FullnessFigures;
use crate::oracle::{LogEntry, engine_config};
use crate::plan::{FailingDisk, Plan};
use crate::plant::{Plant, Planted};
use crate::shell::{Fate, Shell};
use crate::weather::Conditions;
use crate::workload::HERE;

/// The identity of every simulated log.
pub const LOG_ID: u128 = 0x5157;
/// The most commands that the shadow applies in one cycle.
const FOLLOW_MAX: usize = 4096;
/// The position after which a planted bug takes no more snapshots.
const CEASED_AFTER: Position = Position(1_000);
/// The number of snapshots kept.
const SNAPSHOTS_KEPT: usize = 2;

/// The directories of a partition.
#[derive(Clone)]
pub struct Disks {
    /// The command log's directory.
    pub commands: SimDisk,
    /// The event log's directory.
    pub events: SimDisk,
    /// The snapshots' directory.
    pub snapshots: SimDisk,
    /// The directory of the gateway's checkpoints.
    pub checkpoints: SimDisk,
}

impl Disks {
    /// Creates empty directories.
    #[must_use]
    pub fn new(seed: u64) -> Disks {
        let [commands, events, snapshots] = [0, 1, 2].map(|n| SimDisk::new(seed * 3 + n));
        Disks { commands, events, snapshots, checkpoints: SimDisk::new(!seed) }
    }

    /// Returns one of the disks.
    #[must_use]
    pub fn of(&self, which: FailingDisk) -> &SimDisk {
        match which {
            FailingDisk::Commands => &self.commands,
            FailingDisk::Events => &self.events,
            FailingDisk::Snapshots => &self.snapshots,
        }
    }

    /// Returns the disks, each changed by `change`.
    #[must_use]
    pub fn map(&self, mut change: impl FnMut(&SimDisk) -> SimDisk) -> Disks {
        Disks {
            commands: change(&self.commands),
            events: change(&self.events),
            snapshots: change(&self.snapshots),
            checkpoints: change(&self.checkpoints),
        }
    }

    /// Returns copies of the current contents; operations from now on are recorded.
    #[must_use]
    pub fn begin_recording(&self) -> Disks {
        let before = self.map(SimDisk::after_process_crash);
        self.all().into_iter().for_each(SimDisk::record);
        before
    }

    fn all(&self) -> [&SimDisk; 4] {
        [&self.commands, &self.events, &self.snapshots, &self.checkpoints]
    }

    /// Returns the recorded operations, with the number of the disk: in the order of a cycle or,
    /// with `recovering`, of a recovery.
    #[must_use]
    pub fn take_recording(&self, recovering: bool) -> Vec<(usize, TraceOp)> {
        let [commands, events, snapshots, checkpoints] = self.all().map(SimDisk::take_trace);
        // The gateway acts before the partition's shadow, which truncates last.
        let order = if recovering {
            [(0, commands), (2, snapshots), (1, events), (3, checkpoints)]
        } else {
            [(3, checkpoints), (0, commands), (1, events), (2, snapshots)]
        };
        let numbered =
            |(disk, ops): (usize, Vec<TraceOp>)| ops.into_iter().map(move |op| (disk, op));
        order.into_iter().flat_map(numbered).collect()
    }

    /// Sets the conditions from now on.
    pub fn set_conditions(&self, conditions: Conditions) {
        self.commands.set_shortage(conditions.of_commands());
        self.events.set_shortage(conditions.of_events());
        self.snapshots.set_shortage(conditions.of_events());
        self.checkpoints.set_shortage(conditions.of_events());
    }

    /// The room that the files of each take: commands, events, snapshots, checkpoints.
    #[must_use]
    pub fn usage(&self) -> [SimUsage; 4] {
        self.all().map(SimDisk::usage)
    }

    /// Frees the memory of removed files.
    pub fn forget_removed(&self) {
        self.all().into_iter().for_each(SimDisk::forget_removed);
    }

    /// Applies a recorded operation.
    pub fn apply(&self, disk: usize, op: &TraceOp) {
        self.all()[disk].apply(op);
    }

    /// Reads the command log from a position on, or from its first one for position zero; returns
    /// the first position. No fault of the disk hinders it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read_log(&self, from: Position) -> anyhow::Result<(Position, Vec<LogEntry>)> {
        let disk = self.commands.after_process_crash();
        let mut reader = LogReader::open(disk, SegmentKind::Command, from)?;
        let first = reader.next_position();
        let mut log = Vec::new();
        while let Some(entry) = reader.next_entry()? {
            let (log_time, ends_batch) = (entry.log_time, entry.ends_batch);
            log.push(LogEntry { log_time, ends_batch, bytes: entry.bytes.to_vec() });
        }
        Ok((first, log))
    }

    /// Reads the event log's records from `first` on.
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
/// When a log or a snapshot is damaged.
pub fn recover(
    disks: &Disks,
    plan: &Plan,
    gates: &Gates,
    plant: Option<Plant>,
) -> anyhow::Result<Rebuilt<ProcessDisk>> {
    let durability = match plant {
        Some(Plant::PageCacheTrusted) if plan.durability == Durability::Disk => Durability::Os,
        _ => plan.durability,
    };
    let log =
        LogConfig { durability, segment_bytes: plan.segment_bytes, ..LogConfig::new(HERE, LOG_ID) };
    let lies = plant == Some(Plant::SyncSkipped);
    let _planted = Planted::put_in_recovery(plant);
    rebuild(Sources {
        log,
        event_segment_bytes: plan.event_segment_bytes,
        engine: engine_config(),
        limits: LimitsAtStart::default(),
        commands: ProcessDisk::new(disks.commands.clone(), gates.commands.clone(), lies),
        events: ProcessDisk::new(disks.events.clone(), gates.events.clone(), false),
        snapshots: disks.snapshots.clone(),
    })
}

/// Returns the limits of a life's engine: other ones than before where the plan says so, so that
/// crashes meet the command that sets them. They are near those of other runs, and reached as
/// often.
fn limits_of_life(engine: &Engine, plan: &Plan) -> EngineLimits {
    let present = engine.limits();
    if !plan.sets_limits {
        return present;
    }
    let first = engine_config().limits();
    let more = |limit: u32, first: u32| if limit == first { first + 1 } else { first };
    let limits = EngineLimits {
        orders_max: more(present.orders_max, first.orders_max),
        positions_max: more(present.positions_max, first.positions_max),
        trades_max: more(present.trades_max, first.trades_max),
        ..present
    };
    // Held rows may be one too many for the lower ones, as a start would find out.
    if engine.check_limits(&limits).is_ok() { limits } else { present }
}

/// The surroundings of a process.
pub struct Surroundings {
    /// The gates of its disks.
    pub gates: Gates,
    /// The planted bug.
    pub plant: Option<Plant>,
    /// The views that its partition wakes.
    pub views: Vec<Wake>,
    /// The length of the clients' ring to the partition.
    pub ring_len: usize,
    /// The most entries of the command log that may wait for their commit.
    pub log_queue_len_max: u64,
}

/// A running process.
pub struct Process {
    partition: Partition<Shell<EmbeddedLog<ProcessDisk>>>,
    fate: Fate,
    log_times: LogTimeWatch,
    /// The clients' ring.
    pub port: PartitionPort,
    /// The control importer's ring.
    pub feed: PartitionPort,
    tail: TailReader,
    tail_handle: TailHandle,
    shadow: Shadow<SimDisk, ProcessDisk, SimDisk>,
    figures: Arc<PartitionFigures>,
    holds: Holds,
    /// The number of events that are in the files.
    written: u64,
    gates: Gates,
    stalled_for: u64,
    conditions: Conditions,
    /// True while the shadow's thread waits for a disk that stands.
    is_shadow_blocked: bool,
    plant: Option<Plant>,
    /// The newest snapshot's state, kept for a planted bug.
    last_state: Vec<u8>,
    /// The holder of most that was over the limits at the last look at the retention.
    held_by: Option<&'static str>,
}

impl Process {
    /// Starts a process from the result of a recovery.
    ///
    /// # Errors
    /// When the engine's own snapshot does not restore.
    pub fn start(
        rebuilt: Rebuilt<ProcessDisk>,
        disks: &Disks,
        plan: &Plan,
        surroundings: Surroundings,
    ) -> anyhow::Result<Process> {
        let Surroundings { gates, plant, views, ring_len, log_queue_len_max } = surroundings;
        let Rebuilt { engine, log, events, event_count, snapshot, .. } = rebuilt;
        let limits = limits_of_life(&engine, plan);
        let tail_config = TailConfig {
            segment_words: plan.tail_segment_words,
            segments: 3,
            first_record: event_count + 1,
        };
        let (writer, handle): (_, TailHandle) = tail_in(tail_config, log.epochs());
        let (port, source) = gateway_to_partition_with(HERE, Wake::new(), ring_len);
        let (feed, fed) = gateway_to_partition(HERE, Wake::new());
        // As in the node: the control importer takes no feedback.
        let fed = SourcePort { feedback: None, ..fed };
        let figures = Arc::new(PartitionFigures::default());
        figures.counters.position.store(engine.position().0, Ordering::Relaxed);
        let fate = Fate::default();
        let log_times = LogTimeWatch::after(log.last_log_time());
        let mut state = Vec::new();
        engine.snapshot(&mut state);
        let (commands, holds) = (disks.commands.clone(), Holds::default());
        let shadow = Shadow::new(ShadowParts {
            engine: Engine::restore(engine_config(), &state)?,
            event_count,
            snapshot,
            events,
            commands: Box::new(move || Ok(commands.clone())),
            snapshots: SnapshotStore::new(disks.snapshots.clone(), LOG_ID, HERE),
            keep: SNAPSHOTS_KEPT,
            holds: holds.clone(),
        });
        let partition = Partition::new(PartitionParts {
            engine,
            log: Shell::new(log, fate.clone(), log_times.clone(), plant)
                .with_queue(log_queue_len_max),
            tail: writer,
            sources: vec![source, fed],
            views,
            recorder: Recorder::disabled(),
            figures: figures.clone(),
            durability: plan.durability,
        })
        .with_limits(limits);
        Ok(Process {
            partition,
            fate,
            log_times,
            port,
            feed,
            tail: handle.reader(),
            tail_handle: handle,
            shadow,
            figures,
            holds,
            written: event_count,
            gates,
            stalled_for: 0,
            conditions: Conditions::FAIR,
            is_shadow_blocked: false,
            plant,
            last_state: Vec::new(),
            held_by: None,
        })
    }

    /// Takes the clients' ring, for a gateway.
    pub fn take_port(&mut self) -> PartitionPort {
        let (unused, _) = gateway_to_partition(HERE, Wake::new());
        std::mem::replace(&mut self.port, unused)
    }

    /// The partition's events in memory.
    #[must_use]
    pub fn tail_handle(&self) -> &TailHandle {
        &self.tail_handle
    }

    /// Returns a reader of the partition's events from `first` on, which keeps those that it has
    /// not read; `events` holds their files.
    #[must_use]
    pub fn reader(&self, events: SimDisk, first: u64, holder: &'static str) -> EventReader {
        EventReader::on_disk(&self.tail_handle, move || Ok(events.clone()), first)
            .holding(&self.holds, holder)
    }

    /// The partition's figures.
    #[must_use]
    pub fn figures(&self) -> Arc<PartitionFigures> {
        self.figures.clone()
    }

    /// The log time of the last batch.
    #[must_use]
    pub fn log_time(&self) -> Nanos {
        Nanos(self.figures.log_time.load(Ordering::Relaxed))
    }

    /// The first record of an event that is retained.
    #[must_use]
    pub fn retained_from(&self) -> u64 {
        self.holds.retained_from()
    }

    /// The holder of most that was over the limits at the last look at the retention.
    #[must_use]
    pub fn held_by(&self) -> Option<&'static str> {
        self.held_by
    }

    /// The reason why the process ended itself, once it did.
    #[must_use]
    pub fn why_stopped(&self) -> Option<String> {
        self.fate.why()
    }

    /// Stalls the command log's disk for some cycles, by chance.
    pub fn stall(&mut self, rng: &mut SeededRng, per_mille: u64) {
        if self.stalled_for == 0 && rng.chance(per_mille, 1000) {
            self.stalled_for = 1 + rng.below(20);
        }
        self.gates.commands.set_closed(self.stalled_for > 0 || self.conditions.stalls_commands);
        self.gates.events.set_closed(self.conditions.stalls_events);
        self.stalled_for = self.stalled_for.saturating_sub(1);
    }

    /// Sets the conditions from now on.
    pub fn set_conditions(&mut self, conditions: Conditions) {
        self.conditions = conditions;
        self.is_shadow_blocked &= conditions.stalls_events;
    }

    /// The figures of the log's fullness.
    #[must_use]
    pub fn fullness(&self) -> FullnessFigures {
        let counters = &self.figures.counters;
        FullnessFigures {
            is_full: counters.is_log_full.load(Ordering::Relaxed),
            refused: counters.refused.load(Ordering::Relaxed),
        }
    }

    /// The number of commands that the shadow has still to apply.
    #[must_use]
    pub fn shadow_lag(&self) -> u64 {
        let committed = self.figures.counters.position.load(Ordering::Relaxed);
        committed - self.shadow.position().0
    }

    /// Runs the partition's cycle.
    pub fn work(&mut self, now: Nanos, wall: WallOffset) {
        self.begin_cycle(now, wall);
        self.partition.do_work(now);
    }

    fn begin_cycle(&mut self, now: Nanos, wall: WallOffset) {
        self.log_times.begin_cycle(now, wall);
        self.partition.wall_clock_moved(wall);
    }

    /// The rule of log time that was broken, if one was.
    #[must_use]
    pub fn log_time_fault(&self) -> Option<String> {
        self.log_times.fault()
    }

    /// Runs the shadow's cycle: it applies commands from the log's files and writes the events.
    ///
    /// # Errors
    /// When the log cannot be followed. A failing event disk is no error: it ends the process.
    pub fn keep_events(&mut self, now: Nanos) -> Result<(), ShadowError> {
        if self.fate.why().is_some() || self.is_shadow_blocked {
            return Ok(());
        }
        let committed = Position(self.figures.counters.position.load(Ordering::Relaxed));
        let synced = self.figures.counters.synced.load(Ordering::Relaxed);
        self.shadow.note_synced(Position(synced));
        let followed = self.shadow.follow(committed, FOLLOW_MAX, now);
        let wanted = self.tail_handle.wanted_in_files();
        let kept = followed.and_then(|_| self.shadow.write_wanted(wanted, self.written));
        self.tell_written();
        self.survive(kept).map(|_| ())
    }

    fn tell_written(&mut self) {
        if self.shadow.has_written_events() {
            self.written = self.shadow.event_count();
        }
        self.figures.counters.event_in_files.store(self.written, Ordering::Relaxed);
    }

    /// Lets the shadow try again, as the node does when it cannot read the command log.
    pub fn reopen_shadow(&mut self) {
        self.shadow.reopen();
    }

    /// Ends the process when the events' disk failed, as the node does.
    fn survive<T>(&mut self, result: Result<T, ShadowError>) -> Result<Option<T>, ShadowError> {
        match result {
            Ok(done) => Ok(Some(done)),
            Err(ShadowError::Events(error)) => {
                self.fate.stop(format!("the event log failed: {error}"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Takes a snapshot at the shadow's position; returns true when it was taken.
    ///
    /// # Errors
    /// When the log cannot be followed. A full or failing disk is no error: no snapshot is taken.
    pub fn snapshot(&mut self, now: Nanos) -> Result<bool, ShadowError> {
        self.keep_events(now)?;
        if self.plant == Some(Plant::SnapshotsCease) && self.shadow.position() > CEASED_AFTER {
            return Ok(false);
        }
        // Its syncs wait, and with them all that the thread does.
        self.is_shadow_blocked = self.conditions.stalls_events;
        if self.fate.why().is_some() || self.is_shadow_blocked {
            return Ok(false);
        }
        let miscounts = self.plant == Some(Plant::SnapshotMiscounts);
        let is_old = self.plant == Some(Plant::SnapshotWithoutLastBatch);
        let last_state = &mut self.last_state;
        let taken = self.shadow.snapshot_with(|state| {
            if is_old {
                std::mem::swap(state, last_state);
                if state.is_empty() {
                    state.clone_from(last_state);
                }
            }
            if miscounts && let Some(count) = state.first_chunk_mut::<8>() {
                *count = u64::from_le_bytes(*count).saturating_sub(1).to_le_bytes();
            }
        });
        match taken {
            Err(ShadowError::Snapshot(_)) => Ok(false),
            taken => Ok(self.survive(taken)? == Some(true)),
        }
    }

    /// Truncates both logs by these limits; returns true when there is more to remove than before.
    ///
    /// # Errors
    /// When it cannot be seen what may be removed.
    pub fn retain(&mut self, limits: &RetentionLimits, now: Nanos) -> Result<bool, ShadowError> {
        if self.fate.why().is_some() || self.is_shadow_blocked {
            return Ok(false);
        }
        let PartitionFigures { counters, log_time, .. } = &*self.figures;
        self.shadow.note_synced(Position(counters.synced.load(Ordering::Relaxed)));
        let log_time = Nanos(log_time.load(Ordering::Relaxed));
        let ahead = Nanos(counters.log_time_ahead_ns.load(Ordering::Relaxed));
        let retained = self.shadow.retain(limits, RetentionTimes { log_time, ahead, now })?;
        self.held_by = retained.held_by;
        let before = retained.commands.before.0;
        Ok(counters.commands_from.swap(before, Ordering::Relaxed) < before && before > 1)
    }

    /// Reads the next published event.
    pub fn next_event(&mut self, into: &mut Vec<u8>) -> Option<u64> {
        match self.tail.next(into) {
            weir_log::TailRead::Record(number) => Some(number),
            weir_log::TailRead::Empty => None,
            weir_log::TailRead::Lapped { .. } => unreachable!("it is read after every cycle"),
        }
    }

    /// Stops the process: returns false when there is more to do. The last call closes the event
    /// log.
    ///
    /// # Errors
    /// As [`Process::keep_events`].
    pub fn stop(&mut self, now: Nanos, wall: WallOffset) -> Result<bool, ShadowError> {
        if self.fate.why().is_some() {
            return Ok(true);
        }
        self.gates.commands.set_closed(false);
        self.gates.events.set_closed(false);
        self.begin_cycle(now, wall);
        if !self.partition.stop(now) {
            return Ok(false);
        }
        let before = self.shadow.position();
        self.keep_events(now)?;
        if self.fate.why().is_none() {
            if self.shadow.position() != before {
                return Ok(false);
            }
            let closed = self.shadow.close();
            self.survive(closed)?;
        }
        Ok(true)
    }
}
