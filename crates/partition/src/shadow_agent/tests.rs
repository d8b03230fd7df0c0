//! The shadow over simulated disks that refuse for a while: it tries again, says so meanwhile, and
//! leaves out nothing.

use std::sync::atomic::{AtomicBool, AtomicU64};

use weir_engine::{Engine, EngineConfig};
use weir_io::{DiskAction, DiskError, DiskErrorKind, SimDisk, SimFaults};
use weir_log::event_log::{EventLog, EventLogConfig, read_events};
use weir_log::snapshot::SnapshotStore;
use weir_log::tail::{TailConfig, tail};
use weir_log::{
    Append, Batch, EmbeddedLog, LogConfig, Push, SegmentKind, SequencedLog, retained_segments,
};
use weir_types::{Durability, PartitionId};
use weir_wire::Command;

use super::*;
use crate::archive::{ArchivePlaces, KINDS};
use crate::holds::Holds;
use crate::retention::START_PAUSE;
use crate::shadow::ShadowParts;
use crate::test_firm::firm;

const HERE: PartitionId = PartitionId(1);
const LOG_ID: u128 = 7;
/// The size of the segments of both logs: some 50 entries.
const SEGMENT_BYTES: u64 = 8_192;

/// A partition's files, its shadow, and a directory that can be taken away.
struct World {
    agent: ShadowAgent<SimDisk, SimDisk, SimDisk>,
    figures: Arc<PartitionFigures>,
    events: SimDisk,
    snapshots: SimDisk,
    is_away: Arc<AtomicBool>,
    /// The number of times that the directory was opened.
    opened: Arc<AtomicU64>,
    tail: TailHandle,
    commands: SimDisk,
    holds: Holds,
}

/// Returns the import of a firm's definition, which causes one event.
fn import(number: u32) -> Vec<u8> {
    let mut entry = Vec::new();
    Command::Import(Position(u64::from(number)), firm(number)).encode(&mut entry);
    entry
}

fn commands_of(count: u32) -> SimDisk {
    let disk = SimDisk::new(1);
    let config = LogConfig {
        durability: Durability::Disk,
        segment_bytes: SEGMENT_BYTES,
        ..LogConfig::new(HERE, LOG_ID)
    };
    let (mut log, _) = EmbeddedLog::open(config, disk.clone()).unwrap();
    for number in 1..=count {
        let mut batch = Batch::new();
        assert_eq!(batch.push(&import(number)), Push::Taken);
        let at = Nanos(u64::from(number));
        assert!(matches!(log.append(log.epoch(), at, &batch), Append::At { .. }));
    }
    log.flush_blocking().unwrap();
    disk
}

fn world(count: u32, every_commands: u64) -> World {
    world_with_queue(16 << 20, count, every_commands)
}

/// Returns a world whose event log has so many bytes wait for the disk at most.
fn world_with_queue(queue_bytes_max: usize, count: u32, every_commands: u64) -> World {
    let (commands, events) = (commands_of(count), SimDisk::new(2));
    let snapshots = SimDisk::new(3);
    let config = EventLogConfig {
        segment_bytes: SEGMENT_BYTES,
        queue_bytes_max,
        ..EventLogConfig::new(HERE, LOG_ID)
    };
    let event_log = EventLog::open(config, Position(1), events.clone());
    let (holds, in_agent) = (Holds::default(), commands.clone());
    let is_away = Arc::new(AtomicBool::new(false));
    let away = is_away.clone();
    let opened = Arc::new(AtomicU64::new(0));
    let openings = opened.clone();
    let shadow = Shadow::new(ShadowParts {
        engine: Engine::new(EngineConfig::new(HERE)),
        event_count: 0,
        snapshot: Position::NONE,
        events: event_log.unwrap().0,
        commands: Box::new(move || {
            openings.fetch_add(1, Ordering::Relaxed);
            if away.load(Ordering::Relaxed) {
                let (action, kind) = (DiskAction::Open, DiskErrorKind::Io);
                let reason = "too many open files".to_owned();
                return Err(DiskError { action, name: String::new(), kind, reason });
            }
            Ok(in_agent.clone())
        }),
        snapshots: SnapshotStore::new(snapshots.clone(), LOG_ID, HERE),
        keep: 2,
        holds: holds.clone(),
    });
    let figures = Arc::new(PartitionFigures::default());
    figures.counters.position.store(u64::from(count), Ordering::Relaxed);
    figures.counters.synced.store(u64::from(count), Ordering::Relaxed);
    let (_, tail) = tail(TailConfig::new(1 << 20, 1));
    let agent = ShadowAgent::new(shadow, figures.clone(), tail.clone(), every_commands);
    World { agent, figures, events, snapshots, is_away, opened, tail, commands, holds }
}

impl World {
    /// Runs the agent for a time; returns the time after it.
    fn run(&mut self, from: u64, duration: u64) -> u64 {
        for now in (from..from + duration).step_by(1_000_000) {
            self.agent.do_work(Nanos(now));
        }
        from + duration
    }

    fn events_in_files(&self) -> u64 {
        let mut reader = read_events(self.events.clone(), Position(1)).unwrap();
        let mut count = 0;
        while reader.next_entry().unwrap().is_some() {
            count += 1;
        }
        count
    }
}

#[test]
fn frames_of_events_have_the_log_time_of_their_newest_command() {
    let mut world = world(40, u64::MAX);
    world.run(1 << 40, 1_000_000_000);
    let mut reader = read_events(world.events.clone(), Position(1)).unwrap();
    let mut newest = Nanos(0);
    while let Some(entry) = reader.next_entry().unwrap() {
        // The n-th command has the log time n and one event.
        let command = Nanos(entry.position.0);
        assert!(entry.log_time >= command && entry.log_time <= Nanos(40), "{}", entry.log_time);
        newest = entry.log_time;
    }
    assert_eq!(newest, Nanos(40));
}

#[test]
fn a_shadow_without_descriptors_says_so_and_goes_on_when_there_are_some() {
    let mut world = world(300, 1_000_000);
    world.is_away.store(true, Ordering::Relaxed);
    let now = world.run(1, 1_000_000_000);
    let error = world.figures.shadow_error().expect("it cannot get on");
    assert!(error.contains("too many open files"), "{error}");
    assert!(world.figures.counters.is_shadow_stuck.load(Ordering::Relaxed));
    let failures = world.figures.counters.shadow_failures.load(Ordering::Relaxed);
    assert!((5..=20).contains(&failures), "{failures} tries in a second");
    assert_eq!(world.events_in_files(), 0);
    world.is_away.store(false, Ordering::Relaxed);
    world.run(now, 500_000_000);
    assert_eq!((world.figures.shadow_error(), world.events_in_files()), (None, 300));
    assert_eq!(world.figures.counters.event_in_files.load(Ordering::Relaxed), 300);
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_bug_of_a_shadow_that_gives_up_is_found() {
    let test = a_shadow_without_descriptors_says_so_and_goes_on_when_there_are_some;
    assert!(plant::is_found(Plant::ShadowGivesUp, test));
}

#[test]
fn a_snapshot_is_read_in_parts_before_older_ones_are_pruned() {
    let mut world = world(300, 100);
    let mut store = SnapshotStore::new(world.snapshots.clone(), LOG_ID, HERE);
    for at in [10, 20, 30] {
        store.write(Position(at), &vec![7; 5 << 20]).unwrap();
    }
    // The newest one comes first: the one before it is read, in five parts.
    let (mut parts, mut now) = (0, 1);
    while store.list().unwrap().len() != 2 {
        let before = world.snapshots.counts().reads;
        world.agent.do_work(Nanos(now));
        let reads = world.snapshots.counts().reads - before;
        assert!(reads <= 17, "{reads} blocks of 64 KiB in a cycle");
        parts += u64::from(reads > 1);
        now += 10_000_000;
        assert!(parts <= 10, "{parts} parts");
    }
    assert_eq!(store.list().unwrap(), [Position(30), Position(300)]);
    assert_eq!(parts, 5);
    // And not again.
    let before = world.snapshots.counts().reads;
    world.run(now, 3 * RETENTION_INTERVAL);
    assert_eq!(world.snapshots.counts().reads, before);
}

#[test]
fn a_shadow_that_is_stopped_leaves_a_snapshot_at_the_end_of_the_log() {
    let mut world = world(1_300, 1_000);
    let positions =
        |world: &World| SnapshotStore::new(world.snapshots.clone(), LOG_ID, HERE).list().unwrap();
    world.figures.counters.position.store(1_100, Ordering::Relaxed);
    let now = world.run(1, 500_000_000);
    world.figures.counters.position.store(1_300, Ordering::Relaxed);
    while !world.agent.stop(Nanos(now)) {}
    assert_eq!(positions(&world), [Position(1_024), Position(1_300)]);
    assert_eq!(world.events_in_files(), 1_300);
    // Without room on its disk the partition stops before all is in files.
    let mut world = self::world(300, 1_000);
    world.figures.counters.position.store(400, Ordering::Relaxed);
    assert!((1..10).any(|now| world.agent.stop(Nanos(now))), "it ends");
    assert_eq!(positions(&world), []);
}

#[test]
fn events_are_written_while_snapshots_cannot_be() {
    let mut world = world(300, 100);
    world.snapshots.set_faults(SimFaults {
        call_fails_at: Some((0, DiskErrorKind::Io)),
        ..SimFaults::default()
    });
    let now = world.run(1, 500_000_000);
    assert!(world.figures.shadow_error().is_some(), "the first snapshot failed");
    assert_eq!((world.figures.snapshot(), world.events_in_files()), (None, 300));
    world.run(now, SNAPSHOT_RETRY);
    assert_eq!(world.figures.shadow_error(), None);
    assert_eq!(world.figures.snapshot().map(|(position, _)| position), Some(300));
}

#[test]
fn a_shadow_hurries_while_a_reader_waits_for_its_events() {
    let mut world = world(300, 1_000_000);
    world.figures.counters.position.store(100, Ordering::Relaxed);
    let now = world.run(1, 50_000_000);
    assert_eq!(world.agent.hurry, Hurry::No);
    world.tail.want_in_files(200);
    let now = world.run(now, 50_000_000);
    assert_eq!(world.agent.hurry, Hurry::Wanted);
    world.figures.counters.position.store(250, Ordering::Relaxed);
    world.run(now, 50_000_000);
    assert_eq!(world.agent.hurry, Hurry::No);
    assert_eq!(world.figures.counters.event_wanted_in_files.load(Ordering::Relaxed), 200);
}

/// Returns true when this thread has only what others leave of their cores.
fn takes_leftovers() -> bool {
    const POLICY: usize = 41; // proc_pid_stat(5); the fields behind the name begin with the third
    const SCHED_IDLE: &str = "5"; // sched(7)
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_whitespace().nth(POLICY - 3) == Some(SCHED_IDLE)
}

#[test]
#[cfg(not(miri))]
fn a_reader_hurries_a_shadow_that_does_not_run() {
    let mut world = world(300, 1_000_000);
    world.agent = world.agent.scheduled();
    world.figures.counters.position.store(100, Ordering::Relaxed);
    let now = world.run(1, 50_000_000);
    assert_eq!(takes_leftovers(), can_ask_back());
    world.tail.want_in_files(200);
    assert!(!takes_leftovers(), "without a cycle of its own");
    let now = world.run(now, 50_000_000);
    assert!(!takes_leftovers());
    world.figures.counters.position.store(250, Ordering::Relaxed);
    let now = world.run(now, 50_000_000);
    assert_eq!(takes_leftovers(), can_ask_back());
    // The reader was a little late: it hurries a shadow that has written the record meanwhile.
    world.tail.want_in_files(201);
    assert!(!takes_leftovers());
    world.run(now, 50_000_000);
    assert_eq!(takes_leftovers(), can_ask_back());
}

impl World {
    fn has_applied(&mut self, position: u64, from: u64) -> u64 {
        self.figures.counters.position.store(position, Ordering::Relaxed);
        self.run(from, 1_000_000_000)
    }

    /// Returns the first command and the first event that are kept, and the holder of others.
    fn kept(&self) -> (u64, u64, Option<&'static str>) {
        let counters = self.figures.counters.report();
        let held_by = self.figures.holder();
        assert_eq!(held_by.is_some(), counters.held_bytes > 0);
        (counters.commands_from, counters.events_from, held_by)
    }

    /// Returns the first record of the event log's files.
    fn first_in_files(&self) -> u64 {
        let segments = retained_segments(&mut self.events.clone(), SegmentKind::Event).unwrap();
        segments[0].first_position.0
    }
}

/// Returns the first position of the last command segment that begins at a position or before.
fn begins_before(world: &World, position: u64) -> u64 {
    let segments = retained_segments(&mut world.commands.clone(), SegmentKind::Command).unwrap();
    let firsts = segments.iter().map(|segment| segment.first_position.0);
    firsts.filter(|first| *first <= position).max().unwrap()
}

#[test]
fn what_is_over_the_limits_goes_when_two_snapshots_and_all_readers_are_past_it() {
    let limits = RetentionLimits {
        command_bytes: Some(3 * SEGMENT_BYTES),
        event_bytes: Some(3 * SEGMENT_BYTES),
        age: None,
    };
    let mut world = world(1_000, 100);
    world.agent.limits = limits;
    let reader = world.holds.hold("a reader", 130);
    let now = world.has_applied(150, 1);
    assert_eq!(world.kept(), (1, 1, Some("snapshots")), "one snapshot may be damaged");
    // The second snapshot. Each command has one event.
    let now = world.has_applied(600, now);
    let (commands, events, held_by) = world.kept();
    assert_eq!(commands, begins_before(&world, 151));
    assert!((2..=130).contains(&events), "{events}");
    assert!(held_by.is_some());
    assert_eq!(world.holds.retained_from(), events, "readers are told");
    // The third one takes the place of the first, and the reader still has not moved.
    let now = world.has_applied(1_000, now);
    assert_eq!(world.kept().0, begins_before(&world, 601));
    assert_eq!((world.kept().1, world.first_in_files()), (events, events));
    reader.set(590);
    let now = world.run(now, RETENTION_INTERVAL + 1_000_000_000);
    let (_, events, _) = world.kept();
    assert!((500..=590).contains(&events), "{events}");
    drop(reader);
    world.run(now, RETENTION_INTERVAL + 1_000_000_000);
    let (_, events, held_by) = world.kept();
    assert!((550..=601).contains(&events), "{events}");
    assert_eq!((held_by, world.first_in_files()), (Some("snapshots"), events));
    let mut left = read_events(world.events.clone(), Position(events)).unwrap();
    for number in events..=1_000 {
        assert_eq!(left.next_entry().unwrap().expect("an event").position.0, number);
    }
    let counters = world.figures.counters.report();
    assert!(counters.held_bytes > 0 && counters.event_bytes > 3 * SEGMENT_BYTES);
    assert_eq!(world.figures.shadow_error(), None);
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_bug_of_ignored_readers_is_found() {
    use crate::plant::{self, Plant};

    let test = what_is_over_the_limits_goes_when_two_snapshots_and_all_readers_are_past_it;
    assert!(plant::is_found(Plant::HoldsIgnored, test));
}

/// Returns a world whose logs are far over their limits, with an archive that nobody feeds yet, and
/// the time.
fn world_with_archive(wait_bytes_max: Option<u64>) -> (World, ArchivePlaces, u64) {
    let mut world = world(1_000, 100);
    world.agent.limits = RetentionLimits {
        command_bytes: Some(3 * SEGMENT_BYTES),
        event_bytes: Some(3 * SEGMENT_BYTES),
        age: None,
    };
    let places = ArchivePlaces::default();
    world.agent.shadow.archive_by(ArchiveGate::new(places.clone(), wait_bytes_max));
    let now = world.has_applied(150, 1);
    let now = world.has_applied(600, now);
    let now = world.has_applied(1_000, now);
    (world, places, now)
}

#[test]
fn no_segment_goes_that_the_archive_has_not_stored() {
    let (mut world, places, now) = world_with_archive(None);
    let waiting = |world: &World| world.figures.counters.report().archive_wait_bytes;
    assert_eq!((world.kept(), world.first_in_files()), ((1, 1, Some("archive")), 1));
    let [commands, events] = KINDS.map(|kind| places.wanted(kind));
    assert_eq!(commands.0, begins_before(&world, 601));
    assert!((550..=601).contains(&events.0), "{events}");
    assert!(waiting(&world) > 10 * SEGMENT_BYTES);
    // It has a part of the commands.
    let part = begins_before(&world, 200);
    places.tell_stored(SegmentKind::Command, Position(part));
    let now = world.run(now, RETENTION_INTERVAL + 1_000_000_000);
    assert_eq!((world.kept(), world.first_in_files()), ((part, 1, Some("archive")), 1));
    // It has all that is asked for.
    places.tell_stored(SegmentKind::Command, commands);
    places.tell_stored(SegmentKind::Event, events);
    world.run(now, START_PAUSE.0 + RETENTION_INTERVAL);
    assert_eq!(world.kept(), (commands.0, events.0, Some("snapshots")));
    assert_eq!((world.first_in_files(), waiting(&world)), (events.0, 0));
    assert_eq!(world.figures.counters.report().archive_lost_bytes, 0);
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_bug_of_a_segment_that_goes_unstored_is_found() {
    use crate::plant::{self, Plant};

    let test = no_segment_goes_that_the_archive_has_not_stored;
    assert!(plant::is_found(Plant::RemovedUnstored, test));
}

#[test]
fn past_the_bytes_that_may_wait_the_oldest_segments_go_and_are_counted() {
    let (mut world, places, now) = world_with_archive(Some(2 * SEGMENT_BYTES));
    // A start gives the archive's thread time to say that it has them.
    assert_eq!(world.kept(), (1, 1, Some("archive")));
    let now = world.run(now + START_PAUSE.0, RETENTION_INTERVAL + 1_000_000_000);
    let report = world.figures.counters.report();
    let (commands, events, _) = world.kept();
    let [wanted_commands, wanted_events] = KINDS.map(|kind| places.wanted(kind));
    assert!(commands > 1 && commands < wanted_commands.0, "{commands}");
    assert!(events > 1 && events < wanted_events.0, "{events}");
    assert_eq!(report.archive_wait_bytes, 4 * SEGMENT_BYTES, "two segments of each log");
    let lost = report.archive_lost_bytes;
    assert!(lost > 8 * SEGMENT_BYTES && lost.is_multiple_of(SEGMENT_BYTES), "{lost}");
    world.run(now, 2 * RETENTION_INTERVAL);
    assert_eq!(world.figures.counters.report().archive_lost_bytes, lost, "counted once");
}

#[test]
fn entries_that_are_older_than_they_may_be_go() {
    let mut world = world(1_000, 100);
    // The log time of a command is its position.
    world.agent.limits = RetentionLimits { age: Some(Nanos(300)), ..RetentionLimits::default() };
    world.figures.log_time.store(1_000, Ordering::Relaxed);
    let now = world.has_applied(500, 1);
    let now = world.has_applied(850, now);
    world.has_applied(1_000, now);
    let (commands, events, _) = world.kept();
    assert_eq!(commands, begins_before(&world, 701));
    // An event is as old as its command.
    assert!((600..=701).contains(&events), "{events}");
}

#[test]
fn a_shadow_that_is_behind_tells_the_events_in_files_with_each_snapshot() {
    let mut world = world(1_000, 100);
    world.agent.do_work(Nanos(1));
    let counters = world.figures.counters.report();
    assert_eq!(world.figures.snapshot().map(|(position, _)| position), Some(512));
    assert_eq!(counters.event_in_files, 512);
}

/// Opening a directory syncs it.
#[test]
fn a_look_at_the_retention_opens_no_directory_again() {
    let mut world = world(100, u64::MAX);
    let now = world.has_applied(100, 1);
    let opened = world.opened.load(Ordering::Relaxed);
    assert_eq!(opened, 2, "one to follow, and one to look");
    let commands = world.figures.counters.report().command_bytes;
    let now = world.run(now, 3 * RETENTION_INTERVAL);
    assert_eq!(world.opened.load(Ordering::Relaxed), opened);
    // A look that fails opens it again.
    world.commands.set_faults(SimFaults {
        call_fails_at: Some((0, DiskErrorKind::Io)),
        ..SimFaults::default()
    });
    world.agent.retain(Nanos(now));
    assert_eq!(world.agent.troubles, [Trouble::Retention]);
    world.agent.retain(Nanos(now));
    assert_eq!((world.opened.load(Ordering::Relaxed), &world.agent.troubles[..]), (3, &[][..]));
    assert_eq!(world.figures.counters.report().command_bytes, commands);
}

#[test]
fn a_log_whose_files_were_moved_keeps_what_it_has_and_the_shadow_says_so() {
    let mut world = world(100, u64::MAX);
    let now = world.has_applied(100, 1);
    let names: Vec<_> = retained_names(&mut world.commands);
    for name in &names {
        world.commands.rename(name, &format!("{name}.moved")).unwrap();
    }
    world.agent.retain(Nanos(now));
    assert_eq!(world.agent.troubles, [Trouble::Retention]);
    for name in &names {
        world.commands.rename(&format!("{name}.moved"), name).unwrap();
    }
    world.agent.retain(Nanos(now));
    assert_eq!(world.agent.troubles, []);
}

fn retained_names(disk: &mut SimDisk) -> Vec<String> {
    let mut names = disk.list().unwrap();
    names.retain(|name| name.ends_with(SegmentKind::Command.suffix()));
    names
}

#[test]
fn without_limits_all_is_kept() {
    let mut world = world(1_000, 100);
    let now = world.has_applied(500, 1);
    world.has_applied(1_000, now);
    assert_eq!(world.kept(), (1, 1, None));
    let counters = world.figures.counters.report();
    let segments = retained_segments(&mut world.commands.clone(), SegmentKind::Command).unwrap();
    assert_eq!(counters.command_bytes, segments.len() as u64 * SEGMENT_BYTES);
}

#[test]
fn a_stop_comes_to_the_logs_end_though_the_queue_of_events_is_full() {
    // The queue has room for some 50 events.
    let mut world = world_with_queue(8_192, 400, 1 << 40);
    let mut calls = 1;
    while !world.agent.stop(Nanos(calls)) {
        calls += 1;
        assert!(calls < 100, "it ends");
    }
    assert!(calls > 2, "the queue was full");
    assert_eq!(world.agent.shadow.last_snapshot(), Position(400));
    assert_eq!(world.events_in_files(), 400);
}

#[test]
fn a_stop_ends_though_the_log_does_not_have_all_that_was_committed() {
    let mut world = world(40, 1 << 40);
    world.figures.counters.position.store(41, Ordering::Relaxed);
    let stops = (1..10).find(|now| world.agent.stop(Nanos(*now)));
    assert!(stops.is_some());
    assert_eq!(world.agent.shadow.last_snapshot(), Position::NONE, "none of a part");
}

#[test]
fn a_shadow_that_is_behind_reads_a_snapshot_to_its_end() {
    let count = 1_500;
    let mut world = world(count, 1);
    // One block at a time, and snapshots have several.
    world.agent.shadow.prove_by(1);
    world.figures.counters.position.store(1_400, Ordering::Relaxed);
    let mut now = world.run(1 << 40, 1_000_000_000);
    let snapshots = || SnapshotStore::new(world.snapshots.clone(), LOG_ID, HERE).list().unwrap();
    for position in 1_401..=u64::from(count) {
        world.figures.counters.position.store(position, Ordering::Relaxed);
        now += 2 * SNAPSHOT_RETRY;
        world.agent.do_work(Nanos(now));
        assert!(snapshots().len() <= 4, "{:?}", snapshots());
    }
}
