//! The limits of a partition's engine over starts: each change is one command, before all others.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

mod support;

use std::path::Path;
use std::sync::Arc;

use rtrb::RingBuffer;
use support::{HERE, command, engine_of, settings};
use weir_engine::{Engine, EngineLimits, LimitError, Memory};
use weir_io::{ThreadDisk, WakeFd};
use weir_log::{LogReader, SegmentKind};
use weir_partition::engine_limits::{ChosenLimits, TooLittleMemory};
use weir_partition::handoff::{SourcePort, Submission};
use weir_partition::recovery::{Background, EngineMemory, RecoverySettings, find_in_directory};
use weir_partition::{Partition, PartitionFigures, PartitionParts};
use weir_probe::Recorder;
use weir_runtime::Agent;
use weir_types::{Durability, Nanos, PartitionId, Position};
use weir_wire::Command;

/// A run of a partition in a directory.
struct Run {
    partition: Box<dyn Agent>,
    background: Background,
    figures: Arc<PartitionFigures>,
    to_partition: rtrb::Producer<Submission>,
    now: u64,
}

fn with_limits(node_dir: &Path, limits: EngineLimits) -> RecoverySettings {
    RecoverySettings { limits: limits.into(), ..settings(node_dir) }
}

impl Run {
    fn start(settings: &RecoverySettings) -> anyhow::Result<Run> {
        Run::start_of(settings, HERE)
    }

    fn start_of(settings: &RecoverySettings, partition_id: PartitionId) -> anyhow::Result<Run> {
        std::fs::create_dir_all(
            settings.node_dir.join(weir_partition::dirs::partition_dir(partition_id)),
        )?;
        let found = find_in_directory(settings, partition_id, &WakeFd::new()?)?;
        let (parts, background) = found.recover()?.with_background(settings)?;
        let (to_partition, submissions) = RingBuffer::new(1_000);
        let partition = Partition::new(PartitionParts {
            engine: parts.engine,
            log: parts.log,
            tail: parts.tail,
            sources: vec![SourcePort { submissions, feedback: None }],
            views: Vec::new(),
            recorder: Recorder::disabled(),
            figures: parts.figures.clone(),
            durability: Durability::Disk,
        })
        .with_limits(parts.limits);
        let (partition, figures) = (Box::new(partition), parts.figures);
        Ok(Run { partition, background, figures, to_partition, now: 1_000_000_000 })
    }

    /// Sends the imports of firms `from` to `to`, and waits until the partition has applied so many
    /// commands in all.
    fn import(&mut self, firms: std::ops::RangeInclusive<u64>, position: u64) {
        for firm in firms {
            self.to_partition.push(Submission::internal(command(firm))).unwrap();
        }
        self.run_until(position);
    }

    fn run_until(&mut self, position: u64) {
        for _ in 0..200_000 {
            if self.figures.counters.report().position >= position {
                return;
            }
            self.now += 1_000_000;
            self.partition.do_work(Nanos(self.now));
            self.background.shadow.do_work(Nanos(self.now));
            std::thread::yield_now();
        }
        panic!("position {position} is not reached: {:?}", self.figures.counters.report());
    }

    /// Stops in order; returns position and state hash of the shadow's snapshot at the end.
    fn stop(mut self) -> (u64, u64) {
        for _ in 0..200_000 {
            self.now += 1_000_000;
            if self.partition.stop(Nanos(self.now)) {
                break;
            }
            std::thread::yield_now();
        }
        for _ in 0..200_000 {
            self.now += 1_000_000;
            if self.background.shadow.stop(Nanos(self.now)) {
                break;
            }
            std::thread::yield_now();
        }
        self.figures.snapshot().unwrap_or((0, 0))
    }
}

/// Returns the commands of a partition's log from the first.
fn commands_in(node_dir: &Path, partition_id: PartitionId) -> Vec<Command> {
    let dirs = weir_partition::dirs::PartitionDirs::new(node_dir, partition_id);
    let disk = ThreadDisk::open(&dirs.commands(), None).unwrap();
    let mut reader = LogReader::open(disk, SegmentKind::Command, Position(1)).unwrap();
    let mut commands = Vec::new();
    while let Some(entry) = reader.next_entry().unwrap() {
        commands.push(Command::decode(entry.bytes).unwrap());
    }
    commands
}

fn places_of_limits(node_dir: &Path, partition_id: PartitionId) -> Vec<usize> {
    let commands = commands_in(node_dir, partition_id);
    let is_set = |(at, command): (usize, &Command)| {
        matches!(command, Command::SetLimits(_)).then_some(at + 1)
    };
    commands.iter().enumerate().filter_map(is_set).collect()
}

const OTHERS: EngineLimits = EngineLimits { firms_max: 20, orders_max: 5, ..EngineLimits::DEFAULT };

#[test]
fn changed_limits_are_the_first_command_of_a_start_and_no_command_of_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut run = Run::start(&with_limits(dir, EngineLimits::DEFAULT)).unwrap();
    run.import(1..=3, 3);
    run.stop();
    assert_eq!(places_of_limits(dir, HERE), [0; 0], "nobody changed the first ones");
    let mut run = Run::start(&with_limits(dir, OTHERS)).unwrap();
    run.import(4..=5, 6);
    let counts = run.figures.counters.report();
    assert_eq!((counts.firms, counts.firms_max, counts.live_orders_max), (5, 20, 5));
    let (at, state) = run.stop();
    assert_eq!(places_of_limits(dir, HERE), [4]);
    // The shadow has followed through it.
    let found = find_in_directory(&with_limits(dir, OTHERS), HERE, &WakeFd::new().unwrap());
    let recovered = found.unwrap().recover().unwrap();
    assert_eq!((at, state), (6, recovered.engine.state_hash()));
    assert_eq!(recovered.engine.limits(), OTHERS);
    drop(recovered);
    let mut run = Run::start(&with_limits(dir, OTHERS)).unwrap();
    run.import(6..=6, 7);
    run.stop();
    assert_eq!(places_of_limits(dir, HERE), [4]);
    // Without the section the limits are those of the log.
    let mut run = Run::start(&settings(dir)).unwrap();
    run.import(7..=7, 8);
    run.stop();
    assert_eq!(places_of_limits(dir, HERE), [4]);
    let mut run = Run::start(&with_limits(dir, EngineLimits::DEFAULT)).unwrap();
    run.run_until(9);
    run.stop();
    assert_eq!(places_of_limits(dir, HERE), [4, 9]);
    // A replay without snapshots passes through all of them.
    std::fs::remove_dir_all(weir_partition::dirs::PartitionDirs::new(dir, HERE).snapshots())
        .unwrap();
    let settings = with_limits(dir, EngineLimits::DEFAULT);
    let found = find_in_directory(&settings, HERE, &WakeFd::new().unwrap()).unwrap();
    let engine = found.recover().unwrap().engine;
    assert_eq!((engine.position(), engine.limits()), (Position(9), EngineLimits::DEFAULT));
}

/// A kill leaves the command in the log or not, whole.
#[test]
fn a_start_that_is_killed_before_or_behind_its_limits_has_them_once_in_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // Before: its first cycle never ran.
    let run = Run::start(&with_limits(dir, OTHERS)).unwrap();
    std::mem::forget(run.partition);
    drop(run.background);
    let copy = copy_of(dir);
    let mut run = Run::start(&with_limits(copy.path(), OTHERS)).unwrap();
    run.import(1..=2, 3);
    // Behind: no closing mark, and no snapshot.
    std::mem::forget(run.partition);
    drop(run.background);
    let copy = copy_of(copy.path());
    let mut run = Run::start(&with_limits(copy.path(), OTHERS)).unwrap();
    run.import(3..=3, 4);
    run.stop();
    assert_eq!(places_of_limits(copy.path(), HERE), [1]);
}

/// Returns a copy of a directory, as a killed run leaves it: the first one is locked still.
fn copy_of(dir: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    copy_into(dir, to.path());
    to
}

fn copy_into(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        if path.is_dir() {
            copy_into(&path, &to.join(name));
        } else {
            std::fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

#[test]
fn limits_below_what_is_held_are_refused_before_a_command_is_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut run = Run::start(&with_limits(dir, EngineLimits::DEFAULT)).unwrap();
    run.import(1..=9, 9);
    run.stop();
    let few = EngineLimits { firms_max: 8, ..EngineLimits::DEFAULT };
    let refused = LimitError::BelowHeld { limit: "firms", held: 9, configured: 8 };
    let error = Run::start(&with_limits(dir, few)).map(drop).unwrap_err();
    assert_eq!(error.downcast_ref::<LimitError>(), Some(&refused));
    let told = format!("{error:#}");
    for part in ["engine.limits", "partition 1", "the limit of firms is 8, and 9 are held"] {
        assert!(told.contains(part), "{told}");
    }
    // Behind a kill the engine is known at the end of the log alone.
    let mut run = Run::start(&with_limits(dir, EngineLimits::DEFAULT)).unwrap();
    run.import(10..=10, 10);
    std::mem::forget(run.partition);
    drop(run.background);
    let copy = copy_of(dir);
    let copy = copy.path();
    let error = Run::start(&with_limits(copy, few)).map(drop).unwrap_err();
    let refused = LimitError::BelowHeld { limit: "firms", held: 10, configured: 8 };
    assert_eq!(error.downcast_ref::<LimitError>(), Some(&refused));
    assert_eq!(commands_in(copy, HERE).len(), 10);
    // As many as are held are enough.
    let enough = EngineLimits { firms_max: 10, ..EngineLimits::DEFAULT };
    let mut run = Run::start(&with_limits(copy, enough)).unwrap();
    run.import(11..=11, 12);
    assert_eq!(run.figures.counters.report().imports_refused, 1);
    run.stop();
    assert_eq!(places_of_limits(copy, HERE), [11]);
}

/// A key that is left out changes nothing, and what changes is told.
#[test]
fn a_limit_that_is_not_chosen_stays_as_the_log_has_it_and_a_change_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let choosing = |limits| RecoverySettings { limits, ..settings(dir) };
    let notes_of = |settings: &RecoverySettings| {
        let found = find_in_directory(settings, HERE, &WakeFd::new().unwrap()).unwrap();
        let told = found.limits();
        let recovered = found.recover().unwrap();
        assert_eq!(recovered.limits(), told);
        let is_change = |note: &&String| note.contains("limits of its engine");
        recovered.notes.iter().find(is_change).cloned()
    };
    Run::start(&with_limits(dir, OTHERS)).unwrap().stop();
    assert_eq!(notes_of(&settings(dir)), None);
    let one = choosing(ChosenLimits { orders: Some(6), ..ChosenLimits::default() });
    let told = notes_of(&one).unwrap();
    assert_eq!(told, "partition 1: the limits of its engine change: orders 5 to 6");
    let mut run = Run::start(&one).unwrap();
    run.run_until(2);
    run.stop();
    assert_eq!(notes_of(&one), None);
    let found = find_in_directory(&settings(dir), HERE, &WakeFd::new().unwrap()).unwrap();
    assert_eq!(found.limits(), EngineLimits { orders_max: 6, ..OTHERS });
}

/// The check knew the configured limits alone, and the recovery made tables of the log's.
#[test]
fn a_log_with_limits_beyond_the_machine_is_refused_before_its_tables_are_made() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let wide = EngineLimits { positions_max: 1 << 24, ..EngineLimits::DEFAULT };
    Run::start(&with_limits(dir, wide)).unwrap().stop();
    let memory = |memory_bytes| RecoverySettings { memory_bytes, ..settings(dir) };
    let start = |settings: &RecoverySettings| Run::start(settings).map(Run::stop);
    let needed = wide.table_bytes();
    let refused = TooLittleMemory { needed, available: needed - 1 };
    let lower = ChosenLimits { positions: Some(1_000), ..ChosenLimits::default() };
    // By the snapshot, and by the command behind the snapshots.
    let copy = copy_of(dir);
    let snapshots = weir_partition::dirs::PartitionDirs::new(copy.path(), HERE).snapshots();
    std::fs::remove_dir_all(snapshots).unwrap();
    for (dir, limits) in [
        (dir, ChosenLimits::default()),
        (dir, lower),
        (copy.path(), ChosenLimits::default()),
        (copy.path(), lower),
    ] {
        let settings =
            RecoverySettings { node_dir: dir.to_owned(), limits, ..memory(Some(needed - 1)) };
        let error = start(&settings).unwrap_err();
        assert_eq!(error.downcast_ref::<TooLittleMemory>(), Some(&refused), "{error:#}");
    }
    // There lower limits can be set, and then the small machine is enough.
    let mut run = Run::start(&RecoverySettings { limits: lower, ..memory(Some(needed)) }).unwrap();
    run.run_until(2);
    run.stop();
    start(&memory(Some(needed - 1))).unwrap();
    // The limits of an engine without any are refused nowhere.
    let new = tempfile::tempdir().unwrap();
    start(&RecoverySettings { memory_bytes: Some(1), ..settings(new.path()) }).unwrap();
}

/// Tables that the start replaces at once are not populated first.
#[test]
fn memory_is_taken_ahead_for_the_limits_that_stand_at_the_end_of_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let ahead = |limits: EngineLimits| RecoverySettings {
        engine_memory: EngineMemory::Ahead,
        ..with_limits(dir, limits)
    };
    let few = EngineLimits { orders_max: 100, positions_max: 100, ..EngineLimits::DEFAULT };
    Run::start(&ahead(few)).unwrap().stop();
    let more = EngineLimits { orders_max: 200, ..few };
    for (limits, changes, position) in [(few, false, 2), (more, true, 4)] {
        let found = find_in_directory(&ahead(limits), HERE, &WakeFd::new().unwrap()).unwrap();
        let recovered = found.recover().unwrap();
        assert_eq!(recovered.limits() != recovered.engine.limits(), changes);
        // For the tables that there are, or for those that the command makes.
        assert_eq!(recovered.engine.config().memory, Memory::Ahead);
        drop(recovered);
        let mut run = Run::start(&ahead(limits)).unwrap();
        run.import(1..=1, position);
        assert_eq!(run.figures.counters.report().live_orders_max, u64::from(limits.orders_max));
        run.stop();
    }
}

#[test]
fn the_control_partition_has_the_limits_of_definitions_alone() {
    let dir = tempfile::tempdir().unwrap();
    let of_orders =
        EngineLimits { orders_max: 5, positions_max: 6, trades_max: 7, ..EngineLimits::DEFAULT };
    let run = Run::start_of(&with_limits(dir.path(), of_orders), PartitionId::NONE).unwrap();
    run.stop();
    assert_eq!(commands_in(dir.path(), PartitionId::NONE), []);
    let all = EngineLimits { sessions_max: 1 << 16, ..of_orders };
    let mut run = Run::start_of(&with_limits(dir.path(), all), PartitionId::NONE).unwrap();
    run.run_until(1);
    run.stop();
    let expected = EngineLimits { sessions_max: 1 << 16, ..EngineLimits::DEFAULT };
    let expected = Command::SetLimits(expected.to_command());
    assert_eq!(commands_in(dir.path(), PartitionId::NONE), [expected]);
}

/// The limits count for the commands of their own run, and a log without them has the first ones.
#[test]
fn an_engine_that_replays_a_log_without_limits_has_the_first_ones() {
    let (engine, _) = engine_of(30);
    assert_eq!(engine.limits(), EngineLimits::DEFAULT);
    let mut state = Vec::new();
    engine.snapshot(&mut state);
    assert_eq!(Engine::limits_in(&state), Some(EngineLimits::DEFAULT));
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_bugs_of_limits_at_a_start_are_found() {
    use weir_partition::plant::{Plant, is_found};
    let of_starts = changed_limits_are_the_first_command_of_a_start_and_no_command_of_the_next;
    assert!(is_found(Plant::LimitsSequencedAgain, of_starts));
    let of_refusals = limits_below_what_is_held_are_refused_before_a_command_is_in_the_log;
    assert!(is_found(Plant::LimitsUnchecked, of_refusals));
}
