//! A partition's recovery: loads the newest snapshot, then applies the command log's tail.
//!
//! ```text
//! snapshot at P ──► engine at P ──► commands P+1 .. end ──► engine at the end
//!                                        │ the events emitted again
//!                                        ▼
//!                    event log: has them already, or gets those that it lost
//! ```
//!
//! The command log decides. The event log is synced before a snapshot is taken, so it reaches at
//! least to the snapshot. Events beyond the command log's end (possible at `memory` only) are cut
//! off; missing events are written again, and are the same by determinism.
//!
//! That holds for one version of the engine's rules. A start that would have to apply commands that
//! another version executed is refused ([`OtherRules`]). All refusals that follow from the logs and
//! the snapshots come before the first change of a file ([`FoundPartition`]).

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Context;
use serde::Deserialize;
use thiserror::Error;
use weir_engine::{Engine, EngineConfig, EngineLimits, Memory, RULES_VERSION, SnapshotError};
use weir_io::{
    Disk, DiskAction, DiskError, OsRng, RealDisk, RealDiskConfig, Rng, SyncStrategy, ThreadDisk,
    WakeFd,
};
use weir_log::event_log::{EventAppend, EventLog, EventLogConfig, FoundEvents};
use weir_log::plant::{self, Plant};
use weir_log::snapshot::SnapshotStore;
use weir_log::tail::{TailConfig, TailHandle, TailWriter};
use weir_log::{
    EmbeddedLog, EpochReason, FoundLog, LogConfig, RecoveryReport, SequencedLog, Snapshot,
    last_of_other_rules,
};
use weir_types::{Durability, Epoch, Nanos, PartitionId, Position};
use weir_wire::Command;

use crate::PartitionFigures;
use crate::archive::agent::{ArchiveAgent, ArchiveParts, OpenDir};
use crate::archive::gate::ArchiveGate;
use crate::archive::{self, ArchivePlaces, ArchiveSettings};
use crate::closing_log::{self, ClosingLog};
use crate::dirs::{PartitionDirs, RESTORE_UNFINISHED};
use crate::engine_limits::{self, ChosenLimits, LimitsAtStart, TooLittleMemory};
use crate::event_reader::EventReader;
use crate::holds::Holds;
use crate::retention::RetentionLimits;
use crate::shadow::{Shadow, ShadowParts, state_in};
use crate::shadow_agent::ShadowAgent;

/// Commands read before they are applied, so that the engine can prefetch their memory.
const READ_AHEAD: usize = 64;

/// The time at which an engine allocates its tables' memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineMemory {
    /// As the tables fill.
    #[default]
    AsFilled,
    /// All at the start, some 400 MB per partition at the default limits, in huge pages where the
    /// system has them.
    Ahead,
}

/// The settings of a partition that is recovered from a node's directory.
#[derive(Clone, Debug)]
pub struct RecoverySettings {
    /// The node's directory.
    pub node_dir: PathBuf,
    /// The level at which a trading partition acknowledges commands.
    pub durability: Durability,
    /// The strategy for writing and syncing files.
    pub sync: SyncStrategy,
    /// The size of the command log's segment files in bytes.
    pub log_segment_bytes: u64,
    /// The size of the event log's segment files in bytes.
    pub event_segment_bytes: u64,
    /// The bytes of recent events kept in memory.
    pub event_memory_bytes: u64,
    /// The time at which a trading partition's engine allocates its memory.
    pub engine_memory: EngineMemory,
    /// The limits of the engines' tables, as far as they are chosen.
    pub limits: ChosenLimits,
    /// The memory that the process can have, in bytes; `None` where it is not known.
    pub memory_bytes: Option<u64>,
    /// The wall clock at the start: no command of it has an earlier log time.
    pub started: Nanos,
    /// The number of commands after which the shadow takes a snapshot.
    pub snapshot_every_commands: u64,
    /// The number of snapshots kept.
    pub snapshots_kept: usize,
    /// The limits of a trading partition's logs.
    pub retention: RetentionLimits,
    /// The archive of segments that go by these limits; none without it.
    pub archive: Option<ArchiveSettings>,
}

impl RecoverySettings {
    /// Returns the level at which a partition acknowledges commands. The control partition does so
    /// at `disk` in any case: the others import its definitions, and a control log that lost its
    /// end would give its positions to other definitions, which they would take for known ones.
    #[must_use]
    pub fn durability_of(&self, partition_id: PartitionId) -> Durability {
        use crate::plant::{self, Plant};
        let is_control = partition_id.is_none() && !plant::is(Plant::ControlLogAtNodesLevel);
        if is_control { Durability::Disk } else { self.durability }
    }

    /// Returns the limits of a partition's logs. The control partition keeps all: directories and
    /// importers are built from its events.
    #[must_use]
    pub fn retention_of(&self, partition_id: PartitionId) -> RetentionLimits {
        if partition_id.is_none() { RetentionLimits::default() } else { self.retention }
    }
}

/// The agents beside a partition's own thread.
pub struct Background {
    /// The shadow, which writes the partition's events to files and takes its snapshots.
    pub shadow: ShadowAgent,
    /// The agent that stores segments before they are removed, where configured.
    pub archive: Option<ArchiveAgent>,
}

/// A recovered partition, not yet running.
pub struct RecoveredPartition {
    /// The partition.
    pub partition_id: PartitionId,
    /// The engine at the log's end.
    pub engine: Engine,
    /// The command log.
    pub log: ClosingLog,
    /// The epoch in which this run leads.
    pub epoch: Epoch,
    /// The writer of the event tail.
    pub tail: TailWriter,
    /// Creates readers of the tail.
    pub tail_handle: TailHandle,
    /// Figures for other threads to read.
    pub figures: Arc<PartitionFigures>,
    /// The position of the snapshot from which it was recovered; zero without one.
    pub snapshot: Position,
    /// Notes on the recovery for operators.
    pub notes: Vec<String>,
    limits: EngineLimits,
    holds: Holds,
    events: EventLog<RealDisk>,
    first_event: u64,
    event_count: u64,
    /// True when a view asked for an epoch.
    epoch_wanted_by: Vec<&'static str>,
    dirs: PartitionDirs,
}

/// The sources of a rebuild: three directories and their settings.
pub struct Sources<D, S> {
    /// The command log's settings.
    pub log: LogConfig,
    /// The size of the event log's segment files in bytes.
    pub event_segment_bytes: u64,
    /// The engine's partition and the limits of a log without any.
    pub engine: EngineConfig,
    /// The limits that it is to have, and their memory.
    pub limits: LimitsAtStart,
    /// The command log's directory.
    pub commands: D,
    /// The event log's directory.
    pub events: D,
    /// The snapshots' directory.
    pub snapshots: S,
}

/// A partition at its log's end, on any kind of disk.
pub struct Rebuilt<D> {
    /// The engine at the log's end.
    pub engine: Engine,
    /// The command log.
    pub log: EmbeddedLog<D>,
    /// The event log: exactly the events up to the engine's position.
    pub events: EventLog<D>,
    /// The number of those events.
    pub event_count: u64,
    /// The position of the snapshot from which it was rebuilt; zero without one.
    pub snapshot: Position,
    /// Notes on the rebuild for operators.
    pub notes: Vec<String>,
}

/// The refusal of a start that would execute commands by other rules than before: their events
/// would differ from those that clients and followers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OtherRules {
    /// Commands follow the newest usable snapshot.
    #[error(
        "the commands up to position {last} were executed by version {found} of the engine's rules \
         and this program has version {own}; {}: start the program that wrote them and stop it in \
         order, so that a snapshot stands at the end of the log, and then start this one",
        usable(*.snapshot)
    )]
    Commands {
        /// The newest usable snapshot; zero without one.
        snapshot: Position,
        /// The last command of the other version.
        last: Position,
        /// The version that executed it.
        found: u32,
        /// This program's version.
        own: u32,
    },
    /// The event log lacks events before the snapshot.
    #[error(
        "the event log ends before event {next}, the snapshot at position {snapshot} has more, and \
         version {found} of the engine's rules emitted them, this program has version {own}: start \
         the program that wrote them and stop it in order; without it, move the event log away, \
         and no one can ask for events before the snapshot"
    )]
    Events {
        /// The first missing event.
        next: Position,
        /// The newest usable snapshot.
        snapshot: Position,
        /// The version that emitted it.
        found: u32,
        /// This program's version.
        own: u32,
    },
}

/// Returns the words for the newest usable snapshot.
fn usable(snapshot: Position) -> String {
    match snapshot {
        Position::NONE => "no snapshot can be used".to_owned(),
        position => format!("the newest snapshot that can be used is of position {position}"),
    }
}

/// The commands that can be applied again.
#[derive(Clone, Copy, Debug)]
struct Reach {
    /// The first command that the log retains.
    retained: Position,
    /// The last command that another version of the rules executed, and that version.
    other: Option<(Position, u32)>,
}

impl Reach {
    fn of<D: Disk>(found: &FoundLog<D>) -> Reach {
        let positions = found.positions();
        let other = last_of_other_rules(found.rules(), positions.end, RULES_VERSION);
        Reach { retained: positions.start, other }
    }

    /// Returns the first command from which all can be applied again.
    fn first(&self) -> Position {
        self.retained.max(self.other.map_or(Position::NONE, |(last, _)| last.next()))
    }

    /// Checks that the command log goes on from a base: its beginning may be past the retention.
    fn check(&self, base: &Base, notes: &[String]) -> anyhow::Result<()> {
        let snapshot = base.engine.position();
        if snapshot.next() >= self.first() {
            return Ok(());
        }
        if let Some((last, found)) = self.other.filter(|_| snapshot.next() >= self.retained) {
            return Err(OtherRules::Commands { snapshot, last, found, own: RULES_VERSION }.into());
        }
        let notes: String = notes.iter().map(|note| format!("; {note}")).collect();
        anyhow::bail!(
            "the command log begins at position {}, those before it are past the retention, and \
             {}: start the program that wrote the snapshots, or restore a backup{notes}",
            self.retained,
            usable(snapshot)
        )
    }
}

/// A snapshot's engine, and the number of events that it had emitted.
struct Base {
    engine: Engine,
    event_count: u64,
    limits: LimitsAtStart,
}

impl Base {
    /// Prepares for a command of the log that sets limits.
    fn prepare(&mut self, command: &Command, time: Nanos) -> Result<(), TooLittleMemory> {
        let Command::SetLimits(limits) = command else { return Ok(()) };
        let limits = EngineLimits::from(limits);
        if self.engine.check_limits_at(&limits, time).is_ok() {
            let config = self.limits.config_with(self.engine.config(), limits)?;
            self.engine.set_memory(config.memory);
        }
        Ok(())
    }
}

/// A partition's directory in which a start finds all that it needs. Its files are not changed yet,
/// so that a node can look at all of its partitions first.
pub struct FoundDirectory {
    found: FoundPartition<RealDisk, ThreadDisk>,
    partition_id: PartitionId,
    dirs: PartitionDirs,
    pub(crate) settings: RecoverySettings,
    notes: Vec<String>,
}

/// Looks for a partition in its directory.
///
/// # Errors
/// When a log is damaged, newer or locked, or a snapshot contradicts it; [`OtherRules`]. Recovery
/// never guesses. [`LimitError`](weir_engine::LimitError) when the snapshot is the log's end and
/// holds more than the settings' limits; [`TooLittleMemory`] for the snapshot's own limits.
pub fn find_in_directory(
    settings: &RecoverySettings,
    partition_id: PartitionId,
    wake: &WakeFd,
) -> anyhow::Result<FoundDirectory> {
    anyhow::ensure!(
        !settings.node_dir.join(RESTORE_UNFINISHED).exists(),
        "a restore to {} was interrupted: remove the directory and restore again",
        settings.node_dir.display()
    );
    let dirs = PartitionDirs::find(&settings.node_dir, partition_id)?;
    let mut notes = Vec::new();
    let log = LogConfig {
        durability: settings.durability_of(partition_id),
        segment_bytes: segment_bytes(partition_id, settings.log_segment_bytes),
        ..LogConfig::new(partition_id, random_log_id())
    };
    let sources = Sources {
        log,
        event_segment_bytes: segment_bytes(partition_id, settings.event_segment_bytes),
        engine: EngineConfig { hash_seed: OsRng.next_u64(), ..EngineConfig::new(partition_id) },
        limits: LimitsAtStart {
            chosen: settings.limits,
            memory: memory_of(settings, partition_id),
            memory_bytes: settings.memory_bytes,
        },
        commands: open_disk(&dirs.commands(), settings.sync, Some(wake), &mut notes)?,
        events: open_disk(&dirs.events(), settings.sync, None, &mut notes)?,
        snapshots: ThreadDisk::open(&dirs.snapshots(), None)?,
    };
    let found = find(sources).with_context(|| place_of(partition_id, &dirs))?;
    let found = FoundDirectory { found, partition_id, dirs, settings: settings.clone(), notes };
    if found.found.base.engine.position() == found.last_position() {
        check_limits(settings, &found.found.base.engine, &found.dirs)?;
    }
    Ok(found)
}

fn place_of(partition_id: PartitionId, dirs: &PartitionDirs) -> String {
    format!("partition {partition_id} in {}", dirs.root().display())
}

/// Checks that an engine at its log's end can have its configured limits.
fn check_limits(
    settings: &RecoverySettings,
    engine: &Engine,
    dirs: &PartitionDirs,
) -> anyhow::Result<()> {
    let place = || format!("engine.limits: {}", place_of(engine.config().partition_id, dirs));
    settings.check_limits(engine).with_context(place)
}

impl FoundDirectory {
    /// Returns the partition.
    #[must_use]
    pub fn partition_id(&self) -> PartitionId {
        self.partition_id
    }

    /// Returns the last position that the command log will have.
    #[must_use]
    pub fn last_position(&self) -> Position {
        Position(self.found.log.positions().end.0 - 1)
    }

    /// Returns the position in the control log of the newest definition that the snapshot has; the
    /// commands after it may have later ones.
    #[must_use]
    pub fn control_position(&self) -> Position {
        self.found.base.engine.control_position()
    }

    /// Returns the limits that the engine will have, if no command behind the snapshot sets any.
    #[must_use]
    pub fn limits(&self) -> EngineLimits {
        self.settings.limits_of(self.partition_id, &self.found.base.engine.limits())
    }

    /// Recovers the partition, or creates it.
    ///
    /// # Errors
    /// When an entry of the log is no command, or a disk fails;
    /// [`LimitError`](weir_engine::LimitError) when the engine holds more than the settings'
    /// limits. No command is in the log for it then. [`TooLittleMemory`] when a command of the log
    /// sets limits for which the machine is too small.
    pub fn recover(self) -> anyhow::Result<RecoveredPartition> {
        let memory_bytes = usize::try_from(self.settings.event_memory_bytes)?;
        let FoundDirectory { found, partition_id, dirs, settings, mut notes } = self;
        let mut rebuilt = found.rebuild().with_context(|| place_of(partition_id, &dirs))?;
        let log = ClosingLog::new(rebuilt.log);
        check_limits(&settings, &rebuilt.engine, &dirs)?;
        notes.extend(rebuilt.notes);
        let limits = settings.limits_of(partition_id, &rebuilt.engine.limits());
        let memory = memory_of(&settings, partition_id);
        notes.extend(engine_limits::settle(&mut rebuilt.engine, &limits, memory));
        let first_event = rebuilt.events.first_record().0;
        let tail_config = TailConfig::new(memory_bytes, rebuilt.event_count + 1);
        let (tail, tail_handle) = weir_log::tail_in(tail_config, log.epochs());
        Ok(RecoveredPartition {
            partition_id,
            epoch: log.epoch(),
            figures: figures_of(&rebuilt.engine, rebuilt.event_count),
            limits,
            engine: rebuilt.engine,
            event_count: rebuilt.event_count,
            log,
            tail,
            tail_handle,
            snapshot: rebuilt.snapshot,
            notes,
            holds: Holds::default(),
            events: rebuilt.events,
            first_event,
            epoch_wanted_by: Vec::new(),
            dirs,
        })
    }
}

/// A partition whose logs and snapshots are enough for a start. No file is changed yet.
pub struct FoundPartition<D, S> {
    log: FoundLog<D>,
    base: Base,
    place: OlderBases<S>,
    events: FoundEvents<D>,
    notes: Vec<String>,
}

/// Looks for a partition's base: the newest sound snapshot from which the command log goes on, and
/// that the event log reaches.
///
/// # Errors
/// The same as those of [`find_in_directory`].
pub fn find<D: Disk, S: Disk>(sources: Sources<D, S>) -> anyhow::Result<FoundPartition<D, S>> {
    let partition_id = sources.log.partition;
    let mut notes = Vec::new();
    let config = LogConfig { rules: RULES_VERSION, ..sources.log };
    let log = EmbeddedLog::find(config, sources.commands).context("the command log")?;
    let last = Position(log.positions().end.0 - 1);
    let mut place = OlderBases {
        store: SnapshotStore::new(sources.snapshots, log.log_id(), partition_id),
        engine: sources.engine,
        limits: sources.limits,
        reach: Reach::of(&log),
    };
    let base = place.load(last, &mut notes)?;
    place.reach.check(&base, &notes)?;
    let events_config = EventLogConfig {
        segment_bytes: sources.event_segment_bytes,
        ..EventLogConfig::new(partition_id, log.log_id())
    };
    let events = EventLog::find(events_config, sources.events).context("the event log")?;
    let base = place.reached_by(events.next_record(), base, &mut notes)?;
    Ok(FoundPartition { log, base, place, events, notes })
}

/// Rebuilds a partition: the newest sound snapshot, then the rest of the command log.
///
/// # Errors
/// The same as those of [`find_in_directory`] and [`FoundDirectory::recover`].
pub fn rebuild<D: Disk, S: Disk>(sources: Sources<D, S>) -> anyhow::Result<Rebuilt<D>> {
    find(sources)?.rebuild()
}

impl<D: Disk, S: Disk> FoundPartition<D, S> {
    /// Opens the logs and brings the engine to their end.
    ///
    /// # Errors
    /// The same as those of [`FoundDirectory::recover`].
    pub fn rebuild(self) -> anyhow::Result<Rebuilt<D>> {
        let FoundPartition { log, base, place, events, mut notes } = self;
        let (mut log, report) = log.open().context("the command log")?;
        tell(place.engine.partition_id, &report, &mut notes);
        let snapshot = base.engine.position();
        match bring_to_end(Beginning { base, place, events }, &mut log, &mut notes) {
            Ok((Base { engine, event_count, .. }, events)) => {
                Ok(Rebuilt { engine, log, events, event_count, snapshot, notes })
            }
            Err(error) => {
                closing_log::close(&mut log);
                Err(error)
            }
        }
    }
}

/// The beginning of an engine and its event log when the command log is open.
struct Beginning<D, S> {
    base: Base,
    place: OlderBases<S>,
    events: FoundEvents<D>,
}

/// Brings the engine and the event log to the end of the open command log.
fn bring_to_end<D: Disk, S: Disk>(
    beginning: Beginning<D, S>,
    log: &mut EmbeddedLog<D>,
    notes: &mut Vec<String>,
) -> anyhow::Result<(Base, EventLog<D>)> {
    let Beginning { mut base, mut place, events } = beginning;
    let partition_id = place.engine.partition_id;
    // Only now: a refused start leaves all snapshots where they are.
    place.store.remove_after(Position(log.next_position().0 - 1))?;
    let resume_at = Position(base.event_count + 1);
    let (mut events, _) = events.open(resume_at).context("the event log")?;
    let snapshot = base.engine.position();
    let from = snapshot.next();
    replay(&mut base, log, from, &mut events)?;
    if events.first_record().0 > base.event_count + 1 {
        // It has only events of commands that are lost, and those that it had before are past
        // the retention: it begins anew with the first event that can be emitted again.
        notes.push(format!(
            "partition {partition_id}: the event log begins with event {}, and the commands \
             cause {}: it begins anew",
            events.first_record(),
            base.event_count
        ));
        base = place.load(snapshot, notes)?;
        events = events.begin_again(Position(base.event_count + 1))?;
        replay(&mut base, log, from, &mut events)?;
    }
    if plant::is(Plant::TailAppliedTwice) {
        replay(&mut base, log, from, &mut events)?;
    }
    let mut events = events.cut_after(Position(base.event_count))?;
    events.flush_blocking()?;
    Ok((base, events))
}

impl RecoveredPartition {
    /// Returns the limits that the engine will have when the partition runs.
    #[must_use]
    pub fn limits(&self) -> EngineLimits {
        self.limits
    }

    /// Returns a reader of the partition's events from the first retained one. What it has not read
    /// yet is not removed; the status says for whom.
    #[must_use]
    pub fn reader(&self, holder: &'static str) -> EventReader {
        let reader = EventReader::new(&self.tail_handle, self.dirs.events(), self.first_event);
        reader.holding(&self.holds, holder)
    }

    /// Asks for an epoch of the log although nothing is lost, for a view that gives other places to
    /// its contents from now on. Returns false where the present epoch is that one already: it
    /// began for this view, and has no command. The view's contents then get the places that they
    /// had at that start; those of another view were not made anew in it.
    ///
    /// # Errors
    /// When the note of that start cannot be read.
    pub fn want_epoch(&mut self, view: &'static str) -> anyhow::Result<bool> {
        let file = self.dirs.view_epoch();
        let note = match std::fs::read_to_string(&file) {
            Ok(note) => note,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| file.display().to_string()),
        };
        let views = note.strip_prefix(&self.epoch_note());
        let is_begun = views.is_some_and(|views| views.lines().any(|line| line == view));
        if !is_begun {
            self.epoch_wanted_by.push(view);
        }
        Ok(!is_begun)
    }

    /// Returns true when a view asked for an epoch that has not begun.
    #[must_use]
    pub fn wants_epoch(&self) -> bool {
        !self.epoch_wanted_by.is_empty()
    }

    /// Returns the head of the note of an epoch that began for views, at the log's present end; the
    /// names of the views follow, each on a line.
    fn epoch_note(&self) -> String {
        let (log_id, position) = (self.log.log_id(), self.engine.position());
        format!("weir view-epoch 2\n{log_id:032x} {} {}\n", self.epoch.0, position.0)
    }

    /// Begins the epoch that a view asked for, if one did: when all views are there, because a log
    /// remembers only so many. Readers are told of the end behind all events so far. A note of it
    /// stays, so that a start that fails later leaves one epoch, however often it is repeated.
    ///
    /// # Errors
    /// When the log or the note cannot be written.
    pub fn begin_wanted_epoch(&mut self) -> anyhow::Result<()> {
        let views = std::mem::take(&mut self.epoch_wanted_by);
        if views.is_empty() {
            return Ok(());
        }
        let last_valid = self.engine.position();
        self.epoch = self.log.begin_epoch().context("an epoch of the command log")?;
        self.tail.end_epoch(last_valid, self.epoch, self.event_count + 1);
        let file = self.dirs.view_epoch();
        let note = format!("{}{}\n", self.epoch_note(), views.join("\n"));
        weir_io::durable::write_file(&file, note.as_bytes(), 0o600)
            .with_context(|| file.display().to_string())
    }

    /// Returns the paths of its files.
    #[must_use]
    pub fn dirs(&self) -> &PartitionDirs {
        &self.dirs
    }

    /// Returns the number of events so far, which is the newest event's number.
    #[must_use]
    pub fn event_count(&self) -> u64 {
        self.event_count
    }

    /// Splits off the agents that work behind the partition.
    ///
    /// # Errors
    /// When the engine's own snapshot does not restore, or the directory of snapshots cannot be
    /// opened.
    pub fn with_background(
        self,
        settings: &RecoverySettings,
    ) -> anyhow::Result<(ForPartition, Background)> {
        let places = ArchivePlaces::default();
        let limits = settings.retention_of(self.partition_id);
        let archive = settings.archive.as_ref().filter(|_| !limits.is_unlimited());
        let archive_agent = archive.map(|to| self.archive_agent(to, places.clone()));
        let gate = archive.map(|to| ArchiveGate::new(places, to.wait_bytes_max));
        let mut state = Vec::new();
        self.engine.snapshot(&mut state);
        let (commands, snapshots) = (self.dirs.commands(), self.dirs.snapshots());
        let snapshots = ThreadDisk::open(&snapshots, None)?;
        let shadow = Shadow::new(ShadowParts {
            engine: Engine::restore(
                // No client waits for the shadow.
                EngineConfig { memory: Memory::AsFilled, ..self.engine.config().clone() },
                &state,
            )?,
            event_count: self.event_count,
            snapshot: self.snapshot,
            events: self.events,
            commands: Box::new(move || ThreadDisk::open(&commands, None)),
            snapshots: SnapshotStore::new(snapshots, self.log.log_id(), self.partition_id),
            keep: settings.snapshots_kept,
            holds: self.holds,
        });
        let every_commands = settings.snapshot_every_commands;
        let shadow = ShadowAgent::new(
            shadow,
            self.figures.clone(),
            self.tail_handle.clone(),
            every_commands,
        )
        .retaining(limits);
        let shadow = match gate {
            Some(gate) => shadow.archiving(gate),
            None => shadow,
        };
        let partition = ForPartition {
            partition_id: self.partition_id,
            engine: self.engine,
            limits: self.limits,
            log: self.log,
            tail: self.tail,
            figures: self.figures,
        };
        Ok((partition, Background { shadow, archive: archive_agent }))
    }

    /// Returns the agent that stores the partition's segments. Its disks are opened on its thread,
    /// and a start does not wait for the archive's.
    fn archive_agent(&self, to: &ArchiveSettings, places: ArchivePlaces) -> ArchiveAgent {
        let open = |dir: PathBuf| -> OpenDir<ThreadDisk> {
            Box::new(move || ThreadDisk::open(&dir, None))
        };
        let (root, dir) = (to.dir.clone(), archive::dir_of(&to.dir, self.log.log_id()));
        ArchiveAgent::new(ArchiveParts {
            partition_id: self.partition_id,
            commands: open(self.dirs.commands()),
            events: open(self.dirs.events()),
            archive: Box::new(move || {
                let fault = |path: &Path, error: std::io::Error| {
                    DiskError::from_system(DiskAction::Open, &path.display().to_string(), &error)
                };
                // Never made here: a disk that is not mounted would be another, and a full one.
                std::fs::read_dir(&root).map_err(|error| fault(&root, error))?;
                weir_io::durable::create_dir(&dir).map_err(|error| fault(&dir, error))?;
                let mut disk = ThreadDisk::open(&dir, None)?;
                disk.lock()?;
                Ok(disk)
            }),
            places,
            figures: self.figures.clone(),
        })
    }
}

/// The parts for the partition's thread.
pub struct ForPartition {
    /// The partition.
    pub partition_id: PartitionId,
    /// The engine at the log's end.
    pub engine: Engine,
    /// The limits that it is to have:
    /// [`Partition::with_limits`](crate::Partition::with_limits).
    pub limits: EngineLimits,
    /// The command log.
    pub log: ClosingLog,
    /// The writer of the event tail.
    pub tail: TailWriter,
    /// Figures for other threads to read.
    pub figures: Arc<PartitionFigures>,
}

fn open_disk(
    path: &Path,
    strategy: SyncStrategy,
    wake: Option<&WakeFd>,
    notes: &mut Vec<String>,
) -> anyhow::Result<RealDisk> {
    let config = RealDiskConfig { path: path.to_owned(), strategy, wake: wake.cloned() };
    let (disk, note) =
        RealDisk::open(config).with_context(|| format!("cannot open {}", path.display()))?;
    notes.extend(note);
    Ok(disk)
}

/// Returns the size of a partition's segments. Segments are zero-filled ahead; the short control
/// log uses smaller ones.
fn segment_bytes(partition_id: PartitionId, configured: u64) -> u64 {
    const CONTROL_SEGMENT_BYTES: u64 = 4 << 20;
    if partition_id.0 == 0 { configured.min(CONTROL_SEGMENT_BYTES) } else { configured }
}

/// Returns the engine's memory setting. The control partition has no orders to allocate for.
fn memory_of(settings: &RecoverySettings, partition_id: PartitionId) -> Memory {
    match settings.engine_memory {
        EngineMemory::Ahead if !partition_id.is_none() => Memory::Ahead,
        _ => Memory::AsFilled,
    }
}

fn random_log_id() -> u128 {
    let mut rng = OsRng;
    u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64())
}

fn tell(partition_id: PartitionId, report: &RecoveryReport, notes: &mut Vec<String>) {
    let epoch = report.epoch;
    if let Some(cut) = &report.cut {
        notes.push(format!(
            "partition {partition_id}: a torn tail of {} bytes was cut at {} offset {}, before \
             position {}",
            cut.bytes, cut.file, cut.offset, cut.first_position
        ));
    }
    if let Some(reason) = report.new_epoch
        && reason != EpochReason::Created
    {
        notes.push(format!("partition {partition_id}: epoch {epoch} begins: {reason:?}"));
    }
}

/// The snapshots from which an older base can be loaded.
struct OlderBases<S> {
    store: SnapshotStore<S>,
    engine: EngineConfig,
    limits: LimitsAtStart,
    reach: Reach,
}

impl<S: Disk> OlderBases<S> {
    /// Returns the base of a log without a snapshot.
    fn unwritten(&self) -> anyhow::Result<Base> {
        let config = self.limits.config_with(&self.engine, self.engine.limits())?;
        Ok(Base { engine: Engine::new(config), event_count: 0, limits: self.limits })
    }

    /// Loads the newest sound snapshot up to position `last`, or creates a new engine.
    fn load(&mut self, last: Position, notes: &mut Vec<String>) -> anyhow::Result<Base> {
        let partition_id = self.engine.partition_id;
        let (mut snapshot, skipped) = self.store.newest_sound(last)?;
        for skipped in skipped {
            notes.push(format!("partition {partition_id}: snapshot passed over: {skipped:?}"));
        }
        while let Some(found) = snapshot {
            let at = found.position;
            let place = || format!("the snapshot at position {at}");
            let (event_count, state) =
                state_in(&found.bytes).context("the snapshot is too short")?;
            let limits = Engine::limits_in(state).unwrap_or(self.engine.limits());
            let config = self.limits.config_with(&self.engine, limits).with_context(place)?;
            match Engine::restore(config, state) {
                Ok(engine) => {
                    anyhow::ensure!(
                        engine.position() == at,
                        "the snapshot at position {at} holds position {}",
                        engine.position()
                    );
                    return Ok(Base { engine, event_count, limits: self.limits });
                }
                // The engine was upgraded: replaying the log rebuilds the snapshot's state. A newer
                // version is refused, since the log may hold entries that this program cannot read.
                Err(error @ SnapshotError::UnknownVersion(version))
                    if version < Engine::SNAPSHOT_VERSION =>
                {
                    notes.push(format!(
                        "partition {partition_id}: the snapshot at position {at} is passed over: \
                         {error}"
                    ));
                    snapshot = older_than(at, &mut self.store)?;
                }
                Err(error) => return Err(error).with_context(place),
            }
        }
        self.unwritten()
    }

    /// Loads the base before `base`, and whether the commands after it can be applied again.
    fn before(&mut self, base: &Base, notes: &mut Vec<String>) -> anyhow::Result<(Base, bool)> {
        let before = Position(base.engine.position().0 - 1);
        let older = self.load(before, notes)?;
        let is_within = older.engine.position().next() >= self.reach.first();
        Ok((older, is_within))
    }

    /// Loads the oldest base, or `base` if it is that.
    fn earliest(&mut self, mut base: Base, notes: &mut Vec<String>) -> anyhow::Result<Base> {
        if self.reach.first() == Position(1) {
            return self.unwritten();
        }
        while base.event_count > 0 {
            match self.before(&base, notes)? {
                (older, true) => base = older,
                (_, false) => break,
            }
        }
        Ok(base)
    }

    /// Returns the base that an event log reaches whose next record is `next`. A crash while lost
    /// events were being cut off may have removed some that the newest snapshot counts. An older
    /// base emits them again, if the command log reaches back that far.
    ///
    /// A log without a sound beginning (`None`) begins with the oldest base: views keep the events
    /// behind the older snapshot, so that damage to the newer one costs nothing. It is made there
    /// at once. A start that is killed after that finds a log that ends before the newest snapshot,
    /// and goes on as after any crash; had it begun behind the newest, the next start would find
    /// nothing missing.
    fn reached_by(
        &mut self,
        next: Option<Position>,
        mut base: Base,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<Base> {
        let (partition_id, newest) = (self.engine.partition_id, base.engine.position());
        let Some(next) = next else {
            if base.event_count > 0 {
                base = self.earliest(base, notes)?;
                notes.push(format!(
                    "partition {partition_id}: no event log, or one whose beginning is damaged: \
                     it begins with event {}",
                    base.event_count + 1
                ));
            }
            return Ok(base);
        };
        while next.0 < base.event_count + 1 {
            let (older, is_within) = self.before(&base, notes)?;
            if !is_within {
                self.refuse_other_rules(&older, next, newest)?;
                notes.push(format!(
                    "partition {partition_id}: events {next} to {} are gone: older ones cannot be \
                     asked for",
                    base.event_count
                ));
                return Ok(base);
            }
            base = older;
        }
        Ok(base)
    }

    /// Refuses events to be emitted again from `older` if the command log has their commands, and
    /// another version of the rules executed those.
    fn refuse_other_rules(
        &self,
        older: &Base,
        next: Position,
        snapshot: Position,
    ) -> Result<(), OtherRules> {
        let Reach { retained, other } = self.reach;
        match other {
            Some((_, found)) if older.engine.position().next() >= retained => {
                Err(OtherRules::Events { next, snapshot, found, own: RULES_VERSION })
            }
            _ => Ok(()),
        }
    }
}

/// Loads the newest sound snapshot before a position; newer ones stay.
fn older_than<S: Disk>(
    at: Position,
    store: &mut SnapshotStore<S>,
) -> anyhow::Result<Option<Snapshot>> {
    for position in store.list()?.into_iter().rev().filter(|position| *position < at) {
        if let Ok(bytes) = store.load(position)? {
            return Ok(Some(Snapshot { position, bytes }));
        }
    }
    Ok(None)
}

/// Applies the rest of the log; writes the events that the event log does not have yet.
fn replay<D: Disk>(
    base: &mut Base,
    log: &mut EmbeddedLog<D>,
    from: Position,
    events: &mut EventLog<D>,
) -> anyhow::Result<()> {
    if from == log.next_position() {
        return Ok(());
    }
    let mut reader = log.read(from)?;
    let (mut places, mut commands) = (Vec::new(), Vec::new());
    let (mut said, mut bytes) = (Vec::new(), Vec::with_capacity(512));
    loop {
        places.clear();
        commands.clear();
        while commands.len() < READ_AHEAD
            && let Some(entry) = reader.next_entry()?
        {
            let command = Command::decode(entry.bytes)
                .with_context(|| format!("the log's entry {} is no command", entry.position))?;
            places.push((entry.position, entry.log_time));
            commands.push(command);
        }
        if commands.is_empty() {
            return Ok(());
        }
        for (index, (position, log_time)) in places.iter().enumerate() {
            let (command, ahead) = commands[index..].split_first().expect("one for each place");
            base.engine.prefetch(ahead);
            base.prepare(command, *log_time)?;
            base.engine.apply(*position, *log_time, command, &mut said);
            events.stamp(*log_time);
            for event in said.drain(..) {
                base.event_count += 1;
                bytes.clear();
                event.encode(&mut bytes);
                while events.append(Position(base.event_count), &bytes) == EventAppend::NotNow {
                    events.flush_blocking()?;
                }
            }
        }
    }
}

fn figures_of(engine: &Engine, event_count: u64) -> Arc<PartitionFigures> {
    let figures = PartitionFigures::default();
    figures.counters.position.store(engine.position().0, Ordering::Relaxed);
    figures.counters.synced.store(engine.position().0, Ordering::Relaxed);
    figures.digest.store(engine.digest(), Ordering::Relaxed);
    figures.counters.live_orders.store(u64::from(engine.live_order_count()), Ordering::Relaxed);
    figures.counters.events.store(event_count, Ordering::Relaxed);
    figures.tell_limits(engine);
    figures.tell_office(engine);
    figures.tell_trades(engine);
    Arc::new(figures)
}
