//! Checkpoints on simulated disks: written from the events, loaded at a start, and passed over
//! where they do not fit the log.

use weir_io::{DiskErrorKind, SimDisk, SimFaults};
use weir_log::tail::{TailConfig, tail_in};
use weir_types::{Epoch, Epochs, PartitionId};

use super::*;
use crate::event_index::tests::{LifeEvent, World, take, whole_index};

const LOG_ID: u128 = 7;
const HERE: PartitionId = PartitionId(1);
const EVERY: u64 = 100;

fn store(disk: &SimDisk) -> SnapshotStore<SimDisk> {
    SnapshotStore::new(disk.clone(), LOG_ID, HERE)
}

fn answers(count: usize) -> Vec<LifeEvent> {
    let sessions = [LifeEvent::Define(1, 1), LifeEvent::Define(2, 1), LifeEvent::Define(3, 2)];
    let answers = (0..count).map(|number| LifeEvent::Answer(1 + number as u32 % 3));
    sessions.into_iter().chain(answers).collect()
}

fn agent(world: &World, disk: &SimDisk, newest: u64) -> CheckpointAgent<SimDisk> {
    CheckpointAgent::new(CheckpointParts {
        store: store(disk),
        events: world.reader(),
        firms: Vec::new(),
        newest,
        every: EVERY,
        copies_retained_max: 1 << 20,
        figures: Arc::default(),
    })
}

/// Runs an agent for a while, with this many events in the files.
fn run(agent: &mut CheckpointAgent<SimDisk>, in_files: u64, from: u64) -> u64 {
    agent.parts.figures.counters.event_in_files.store(in_files, Ordering::Relaxed);
    let until = from + 2 * RETRY_INTERVAL;
    for now in (from..until).step_by(50_000_000) {
        agent.do_work(Nanos(now));
    }
    until
}

fn load_from(
    disk: &SimDisk,
    events: &EventReader,
    count: u64,
) -> (Option<Checkpoint>, Vec<String>) {
    let log = CheckpointLog { events, event_count: count, copies_retained_max: 1 << 20 };
    let mut notes = Vec::new();
    let loaded = load(&mut store(disk), log, &mut notes).unwrap();
    (loaded, notes)
}

fn state_of(index: &EventIndex) -> Vec<u8> {
    let mut state = Vec::new();
    index.put_state(&mut state);
    state
}

#[test]
fn a_start_goes_on_from_the_newest_checkpoint_as_if_it_had_read_all() {
    let (mut world, disk) = (World::new(&answers(350)), SimDisk::new(1));
    let mut first = agent(&world, &disk, 0);
    let now = run(&mut first, 99, 1);
    assert_eq!(store(&disk).list().unwrap(), [], "none is due");
    let now = run(&mut first, 130, now);
    let now = run(&mut first, 229, now);
    assert_eq!(store(&disk).list().unwrap(), [Position(130)]);
    run(&mut first, 353, now);
    assert_eq!(store(&disk).list().unwrap(), [Position(130), Position(353)]);
    answers(90).into_iter().skip(3).for_each(|step| world.take(step));
    let mut events = world.reader();
    let (loaded, notes) = load_from(&disk, &events, 443);
    let mut index = loaded.expect("it fits").index;
    assert_eq!((index.next, notes.len()), (354, 0));
    events.skip_to(index.next, index.lineage.current());
    take(&mut index, &mut events, usize::MAX);
    assert_eq!(state_of(&index), state_of(&whole_index(&world)));
    // The next agent goes on from there, and keeps the two newest.
    let mut second = agent(&world, &disk, 353);
    answers(200).into_iter().skip(3).for_each(|step| world.take(step));
    run(&mut second, 643, 1);
    assert_eq!(store(&disk).list().unwrap(), [Position(353), Position(643)]);
    let (loaded, _) = load_from(&disk, &world.reader(), 643);
    assert_eq!(state_of(&loaded.unwrap().index), state_of(&whole_index(&world)));
    assert_eq!(second.parts.figures.counters.checkpoint_event.load(Ordering::Relaxed), 643);
}

#[test]
fn a_checkpoint_that_is_damaged_or_lost_costs_the_older_one_or_all_events_again() {
    let (world, disk) = (World::new(&answers(400)), SimDisk::new(1));
    let mut writer = agent(&world, &disk, 0);
    let now = run(&mut writer, 150, 1);
    run(&mut writer, 300, now);
    let names = ["00000000000000000150.wsnap", "00000000000000000300.wsnap"];
    let newest_of = |disk: &SimDisk| {
        let (loaded, notes) = load_from(disk, &world.reader(), 403);
        (loaded.map(|loaded| loaded.record()), notes.len())
    };
    assert_eq!(newest_of(&disk), (Some(300), 0));
    let damaged = disk.after_process_crash();
    damaged.flip_bit(names[1], 900);
    assert_eq!(newest_of(&damaged), (Some(150), 1));
    damaged.flip_bit(names[0], 900);
    assert_eq!(newest_of(&damaged), (None, 2));
    // An agent whose checkpoint cannot be read begins with the first event.
    let mut again = agent(&world, &damaged, 300);
    run(&mut again, 403, 1);
    let (loaded, _) = load_from(&damaged, &world.reader(), 403);
    assert_eq!(state_of(&loaded.unwrap().index), state_of(&whole_index(&world)));
}

#[test]
fn a_failed_write_is_counted_and_tried_again() {
    let (world, disk) = (World::new(&answers(400)), SimDisk::new(1));
    disk.set_faults(SimFaults {
        call_fails_at: Some((1, DiskErrorKind::Io)),
        ..SimFaults::default()
    });
    let mut writer = agent(&world, &disk, 0);
    run(&mut writer, 403, 1);
    let figures = writer.parts.figures.counters.report();
    assert_eq!((figures.checkpoint_failures, figures.checkpoint_event), (1, 403));
    assert!(load_from(&disk, &world.reader(), 403).0.is_some());
}

/// A reader of an empty log of the first retained record `first`, with epochs of before.
fn reader_of(first: u64, epochs: Epochs<Position>) -> EventReader {
    let (_writer, tail) = tail_in(TailConfig::new(1 << 20, 1_000), epochs);
    EventReader::new(&tail, "no-files".into(), first)
}

#[test]
fn a_checkpoint_that_does_not_fit_the_log_is_passed_over_with_the_reason() {
    let disk = SimDisk::new(1);
    // Records and positions are the same numbers.
    let mut writer = agent(&World::new(&answers(400)), &disk, 0);
    run(&mut writer, 403, 1);
    let of = |current: u32, ended: &[(u32, u64)]| {
        let ended = ended.iter().map(|(epoch, to)| (Epoch(*epoch), Position(*to)));
        Epochs::with_ended(Epoch(current), ended)
    };
    for (first, epochs, count, want) in [
        (1, of(1, &[]), 403, None),
        (404, of(1, &[]), 500, None),
        (405, of(1, &[]), 500, Some("events 404 to 404 are past the retention")),
        (1, of(2, &[(1, 403)]), 403, None),
        (1, of(2, &[(1, 402)]), 403, Some("epoch 1 has lost its last events")),
        (1, of(3, &[(2, 500)]), 500, Some("epoch 1 has lost its last events")),
    ] {
        let (loaded, notes) = load_from(&disk, &reader_of(first, epochs), count);
        let told = notes.concat();
        match want {
            None => assert!(loaded.is_some() && told.is_empty(), "{told}"),
            Some(want) => assert!(loaded.is_none() && told.contains(want), "{told}"),
        }
    }
    // Behind the end of the log: removed, because its numbers will be those of other events.
    assert!(load_from(&disk, &reader_of(1, of(1, &[])), 402).0.is_none());
    assert_eq!(store(&disk).list().unwrap(), []);
}

#[test]
fn what_is_past_the_retention_at_the_start_is_not_in_the_index() {
    let disk = SimDisk::new(1);
    let world = World::new(&answers(400));
    let mut writer = agent(&world, &disk, 0);
    run(&mut writer, 403, 1);
    let (loaded, _) = load_from(&disk, &reader_of(204, Epochs::new(Epoch(1))), 403);
    let index = loaded.expect("it fits").index;
    // Of 400 answers to three sessions in turn, the first 200 are gone.
    let oldest: Vec<u64> = index.sessions.values().map(|one| one.stream.oldest().0).collect();
    assert_eq!(oldest, [68, 68, 67]);
    assert!(index.topics.values().all(|topic| topic.floor() == 204));
}

#[test]
fn the_events_of_the_next_checkpoint_are_kept_until_it_is_written() {
    let (world, disk) = (World::new(&answers(400)), SimDisk::new(1));
    let holds = weir_partition::holds::Holds::default();
    let mut writer = agent(&world, &disk, 0);
    writer.parts.events = world.reader().holding(&holds, "checkpoint");
    let least = |holds: &weir_partition::holds::Holds| holds.least().map(|hold| hold.from);
    let now = run(&mut writer, 150, 1);
    assert_eq!(least(&holds), Some(151));
    run(&mut writer, 403, now);
    assert_eq!(least(&holds), Some(404));
}
