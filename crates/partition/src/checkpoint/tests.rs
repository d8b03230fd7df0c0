//! Checkpoints on simulated disks: written from the events, loaded at a start, and passed over
//! where they do not fit the log.

use std::cell::Cell;

use proptest::prelude::*;
use weir_io::{DiskErrorKind, SimDisk, SimFaults};
use weir_log::Snapshot;
use weir_types::{Epoch, Epochs, PartitionId};

use super::*;
use crate::event_index::tests::{LifeEvent, World, step, take, whole_index};
use crate::holds::Holds;

const LOG_ID: u128 = 7;
const HERE: PartitionId = PartitionId(1);
const EVERY: u64 = 100;
const LOOK_INTERVAL: u64 = Pace::OF_NODE.look_interval.0;
const RETRY_INTERVAL: u64 = Pace::OF_NODE.retry_interval.0;

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
        pace: Pace::OF_NODE,
        figures: Arc::default(),
    })
}

/// Returns an agent whose reader holds events.
fn agent_holding(world: &World, disk: &SimDisk, holds: &Holds) -> CheckpointAgent<SimDisk> {
    let CheckpointAgent { parts, .. } = agent(world, disk, 0);
    let events = world.reader().holding(holds, "checkpoint");
    CheckpointAgent::new(CheckpointParts { events, ..parts })
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

/// Loads a checkpoint for the log of a world that has lost the records before `first`.
fn load_from(disk: &SimDisk, world: &World, first: u64) -> (Option<Checkpoint>, Vec<String>) {
    let (events, sessions) = (|| world.reader_from(first), world.sessions());
    let log = CheckpointLog {
        events: &events,
        event_count: world.event_count(),
        sessions: &sessions,
        copies_retained_max: 1 << 20,
    };
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
    let (loaded, notes) = load_from(&disk, &world, 1);
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
    let (loaded, _) = load_from(&disk, &world, 1);
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
        let (loaded, notes) = load_from(disk, &world, 1);
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
    let (loaded, _) = load_from(&damaged, &world, 1);
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
    assert!(load_from(&disk, &world, 1).0.is_some());
}

/// The epochs of a log: the current one, and the ended ones with their last valid positions.
fn epochs_of(current: u32, ended: &[(u32, u64)]) -> Epochs<Position> {
    let ended = ended.iter().map(|(epoch, to)| (Epoch(*epoch), Position(*to)));
    Epochs::with_ended(Epoch(current), ended)
}

#[test]
fn a_checkpoint_that_does_not_fit_the_log_is_passed_over_with_the_reason() {
    let disk = SimDisk::new(1);
    // Records and positions are the same numbers.
    let mut writer = agent(&World::new(&answers(400)), &disk, 0);
    run(&mut writer, 403, 1);
    let of = epochs_of;
    for (first, epochs, answered, want) in [
        (1, of(1, &[]), 400, None),
        (404, of(1, &[]), 500, None),
        (405, of(1, &[]), 500, Some("events 404 to 404 are past the retention")),
        (1, of(2, &[(1, 402)]), 400, Some("epoch 1 has lost its last events")),
        (1, of(3, &[(2, 500)]), 500, Some("epoch 1 has lost its last events")),
    ] {
        let world = World::with_epochs(&answers(answered), epochs);
        let (loaded, notes) = load_from(&disk, &world, first);
        let told = notes.concat();
        match want {
            None => assert!(loaded.is_some() && told.is_empty(), "{told}"),
            Some(want) => assert!(loaded.is_none() && told.contains(want), "{told}"),
        }
    }
    // An end behind its events is told to it.
    let mut steps = answers(400);
    steps.push(LifeEvent::EndEpoch);
    assert!(load_from(&disk, &World::new(&steps), 1).0.is_some());
    // Behind the end of the log: removed, because its numbers will be those of other events.
    assert!(load_from(&disk, &World::new(&answers(399)), 1).0.is_none());
    assert_eq!(store(&disk).list().unwrap(), []);
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_bug_of_a_checkpoint_of_lost_events_is_found() {
    plant::set(Some(Plant::CheckpointOfLostEvents));
    let found = std::panic::catch_unwind(
        a_checkpoint_that_does_not_fit_the_log_is_passed_over_with_the_reason,
    );
    plant::set(None);
    assert!(found.is_err());
}

#[test]
fn a_checkpoint_of_other_epochs_is_passed_over() {
    // It is of epoch 3, and the ends of 1 and 2 are among its events.
    let mut steps = answers(30);
    steps.insert(10, LifeEvent::EndEpoch);
    steps.insert(20, LifeEvent::EndEpoch);
    let (world, disk) = (World::new(&steps), SimDisk::new(1));
    let index = whole_index(&world);
    let ended: Vec<_> = index.lineage.epochs().ended().to_vec();
    assert_eq!((ended.len(), index.next), (2, 34));
    store(&disk).write(Position(33), &state_of(&index)).unwrap();
    assert!(load_from(&disk, &world, 1).0.is_some());
    let at = |end: usize| ended[end].1.0;
    for (epochs, is_same) in [
        (epochs_of(3, &[(1, at(0)), (2, at(1))]), true),
        (epochs_of(9, &[(1, at(0)), (2, at(1)), (3, 500)]), true),
        (epochs_of(3, &[(1, at(0)), (2, at(1) - 1)]), false),
        (epochs_of(3, &[(1, at(0) + 1), (2, at(1))]), false),
        (epochs_of(3, &[(2, at(1))]), false),
        (epochs_of(9, &[(1, 3), (2, at(1)), (3, 500)]), false),
    ] {
        let fits = has_same_ends(index.lineage.epochs(), &epochs, index.position);
        assert_eq!(fits, is_same, "{epochs:?}");
    }
}

#[test]
fn a_checkpoint_that_contradicts_its_log_is_passed_over_and_the_older_one_is_used() {
    let (world, disk) = (World::new(&answers(400)), SimDisk::new(1));
    let mut writer = agent(&world, &disk, 0);
    let now = run(&mut writer, 150, 1);
    run(&mut writer, 300, now);
    let sound = store(&disk).load(Position(300)).unwrap().unwrap();
    let retained = Retained { of_firm: 1 << 20 };
    // Of the same log, with another event, session or number in it.
    let changed = |change: &dyn Fn(&mut EventIndex)| {
        let mut index = EventIndex::from_state(&sound, retained).unwrap();
        change(&mut index);
        state_of(&index)
    };
    let stream_of = |steps: &[LifeEvent], id: u32| {
        let mut index = whole_index(&World::new(steps));
        index.sessions.remove(&SessionId(id)).expect("it is defined")
    };
    let states = [
        changed(&|index| drop(index.sessions.remove(&SessionId(2)))),
        changed(&|index| {
            let unknown = stream_of(&[LifeEvent::Define(4, 1)], 4);
            index.sessions.insert(SessionId(4), unknown);
        }),
        changed(&|index| index.sessions.get_mut(&SessionId(2)).unwrap().firm_id = FirmId(2)),
        changed(&|index| {
            index.sessions.insert(SessionId(2), stream_of(&answers(280), 2));
        }),
        changed(&|index| index.position = Position(299)),
        changed(&|index| {
            // As many events, one record off.
            let mut steps = answers(297);
            steps.insert(0, LifeEvent::Define(2, 1));
            let shifted = stream_of(&steps[..300], 2);
            index.sessions.insert(SessionId(2), shifted);
        }),
        Vec::new(),
    ];
    for (case, state) in states.iter().enumerate() {
        store(&disk).write(Position(300), state).unwrap();
        let (loaded, notes) = load_from(&disk, &world, 1);
        assert_eq!(loaded.map(|loaded| loaded.record()), Some(150), "case {case}: {notes:?}");
        assert_eq!(notes.len(), 1, "case {case}");
        // A running agent goes on too: at the latest from the first event.
        let other = disk.after_process_crash();
        let mut again = agent(&world, &other, 300);
        let now = run(&mut again, 403, 1);
        run(&mut again, 403, now);
        assert!(store(&other).list().unwrap().contains(&Position(403)), "case {case}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None,
        ..ProptestConfig::default() })]

    /// A file whose checksums are right and whose numbers are not stops neither a start nor a
    /// running agent, and a checkpoint that is used has the engine's numbers at the log's end.
    #[test]
    fn no_checkpoint_stops_a_start(
        steps in prop::collection::vec(step(), 1..80),
        at in 0..60_u64,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
        first in 1..30_u64,
    ) {
        let (world, disk) = (World::new(&steps), SimDisk::new(1));
        let (mut events, retained) = (world.reader(), Retained { of_firm: 1 << 20 });
        let mut index = EventIndex::new(&mut events, &[], retained);
        take(&mut index, &mut events, at as usize);
        let Some(Snapshot { position, mut bytes }) = index.next.checked_sub(1).map(|newest| {
            Snapshot { position: Position(newest), bytes: state_of(&index) }
        }) else { return Ok(()) };
        for (place, byte) in &changes {
            let place = place.index(bytes.len());
            bytes[place] ^= byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        store(&disk).write(position, &bytes).unwrap();
        let first = first.min(world.event_count() + 1);
        let (loaded, _) = load_from(&disk, &world, first);
        if let Some(Checkpoint { mut index }) = loaded {
            let mut events = world.reader_from(first);
            events.skip_to(index.next, index.lineage.current());
            take(&mut index, &mut events, usize::MAX);
            prop_assert_eq!(index.next, world.event_count() + 1);
            for session in world.sessions() {
                let stream = index.sessions.remove(&session.id).map(|own| own.stream);
                if let Some(mut stream) = stream {
                    stream.agree(session.next_event_no, weir_types::RequestNo::NONE);
                }
            }
        }
        let mut agent = agent(&world, &disk, position.0);
        agent.parts.every = 0;
        run(&mut agent, world.event_count(), 1);
    }
}

#[test]
fn what_is_past_the_retention_at_the_start_is_not_in_the_index() {
    let disk = SimDisk::new(1);
    let world = World::new(&answers(400));
    let mut writer = agent(&world, &disk, 0);
    run(&mut writer, 403, 1);
    let (loaded, _) = load_from(&disk, &world, 204);
    let index = loaded.expect("it fits").index;
    // Of 400 answers to three sessions in turn, the first 200 are gone.
    let oldest: Vec<u64> = index.sessions.values().map(|one| one.stream.oldest().0).collect();
    assert_eq!(oldest, [68, 68, 67]);
    assert!(index.topics.values().all(|topic| topic.floor() == 204));
}

#[test]
fn a_checkpoint_that_cannot_be_written_holds_no_event_and_the_next_has_all_that_are_left() {
    let (world, disk) = (World::new(&answers(400)), SimDisk::new(1));
    let holds = Holds::default();
    let mut writer = agent_holding(&world, &disk, &holds);
    let now = run(&mut writer, 150, 1);
    assert_eq!(holds.least().map(|hold| hold.from), Some(151));
    let fault = Some((0, DiskErrorKind::Io));
    disk.set_faults(SimFaults { call_fails_at: fault, ..SimFaults::default() });
    let figures = writer.parts.figures.clone();
    figures.counters.event_in_files.store(300, Ordering::Relaxed);
    writer.do_work(Nanos(now));
    assert_eq!(figures.counters.report().checkpoint_failures, 1);
    assert_eq!(holds.least().map(|hold| hold.from), Some(301));
    // Meanwhile events after the last checkpoint are removed.
    holds.retain_from(221);
    run(&mut writer, 403, now + RETRY_INTERVAL);
    assert_eq!(figures.counters.report().checkpoint_event, 403);
    let (loaded, notes) = load_from(&disk, &world, 221);
    assert!(loaded.is_some() && notes.is_empty(), "{notes:?}");
}

#[test]
fn the_events_of_a_checkpoint_under_way_are_held_until_it_is_written() {
    let (world, disk) = (World::new(&answers(400)), SimDisk::new(1));
    let holds = Holds::default();
    let mut writer = agent_holding(&world, &disk, &holds);
    writer.parts.pace.taken_max = 20;
    let kept = || holds.least().map(|hold| hold.from);
    let mut now = 1;
    for (in_files, held_from) in [(150, 1), (400, 151)] {
        writer.parts.figures.counters.event_in_files.store(in_files, Ordering::Relaxed);
        while store(&disk).list().unwrap().last() != Some(&Position(in_files)) {
            // A crash here leaves the checkpoint before, which is of use with the events after it.
            assert_eq!(kept(), Some(held_from), "of {in_files}");
            writer.do_work(Nanos(now));
            now += LOOK_INTERVAL;
        }
        assert_eq!(kept(), Some(in_files + 1));
    }
}

thread_local! {
    /// The lines that this thread has told: the errors, and those that tell an end of them.
    static LINES: Cell<[u64; 2]> = const { Cell::new([0, 0]) };
}

/// Counts lines in [`LINES`]. It is the whole process's: whether a line is wanted at all is asked
/// once, by the thread that comes to it first, which may be another test's.
struct Lines;

impl tracing::Subscriber for Lines {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_event()
    }

    fn new_span(&self, _span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _span: &tracing::span::Id, _values: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _span: &tracing::span::Id, _follows: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let is_error = *event.metadata().level() == tracing::Level::ERROR;
        let mut lines = LINES.get();
        lines[usize::from(!is_error)] += 1;
        LINES.set(lines);
    }

    fn enter(&self, _span: &tracing::span::Id) {}

    fn exit(&self, _span: &tracing::span::Id) {}
}

#[test]
fn failing_checkpoints_have_one_line_at_each_edge() {
    let (world, disk) = (World::new(&answers(500)), SimDisk::new(1));
    tracing::subscriber::set_global_default(Lines).expect("no other test sets one");
    let mut writer = agent(&world, &disk, 0);
    let mut now = 1;
    for round in 1..=3 {
        if round == 2 {
            // A line that another test was the first to come to, while the subscriber was set, may
            // have been decided without it. After a round all lines are known and asked for again.
            tracing::callsite::rebuild_interest_cache();
            LINES.set([1, 2]);
        }
        for _ in 0..5 {
            let fault = Some((0, DiskErrorKind::Io));
            disk.set_faults(SimFaults { call_fails_at: fault, ..SimFaults::default() });
            let figures = writer.parts.figures.clone();
            figures.counters.event_in_files.store(150 * round, Ordering::Relaxed);
            for _ in 0..5 {
                writer.do_work(Nanos(now));
            }
            now += RETRY_INTERVAL;
        }
        let failures = writer.parts.figures.counters.report().checkpoint_failures;
        assert!(failures >= 3 * round, "{failures}");
        assert!(round == 1 || LINES.get() == [round, 2 * (round - 1)], "{:?}", LINES.get());
        disk.set_faults(SimFaults::default());
        now = run(&mut writer, 150 * round, now) + RETRY_INTERVAL;
        // It is written, and written again.
        assert!(round == 1 || LINES.get() == [round, 2 * round], "{:?}", LINES.get());
    }
}

#[test]
fn a_checkpoint_counts_as_written_although_an_old_one_cannot_be_removed() {
    let mut old_that_stayed = 0;
    for call in 0..40 {
        let (world, disk) = (World::new(&answers(400)), SimDisk::new(1));
        let mut writer = agent(&world, &disk, 0);
        let now = (1..=2).fold(1, |now, round| run(&mut writer, 120 * round, now));
        let fault = Some((call, DiskErrorKind::Io));
        disk.set_faults(SimFaults { call_fails_at: fault, ..SimFaults::default() });
        let figures = writer.parts.figures.clone();
        figures.counters.event_in_files.store(403, Ordering::Relaxed);
        for _ in 0..5 {
            writer.do_work(Nanos(now + RETRY_INTERVAL));
        }
        disk.set_faults(SimFaults::default());
        let report = figures.counters.report();
        let is_written = report.checkpoint_event == 403;
        assert_eq!(report.checkpoint_failures, u64::from(!is_written), "{call}");
        old_that_stayed += usize::from(is_written && store(&disk).list().unwrap().len() > KEEP);
    }
    assert!(old_that_stayed > 0, "no removal failed");
}

#[test]
fn an_agent_whose_checkpoints_are_lost_begins_with_the_first_retained_event() {
    let (world, disk) = (World::new(&answers(400)), SimDisk::new(1));
    let holds = crate::holds::Holds::default();
    let mut writer = agent(&world, &disk, 0);
    writer.parts.events = world.reader().holding(&holds, "checkpoint");
    let now = run(&mut writer, 300, 1);
    // The definitions of all sessions are among the events that go.
    holds.retain_from(201);
    store(&disk).remove_after(Position(0)).unwrap();
    run(&mut writer, 403, now);
    assert_eq!(store(&disk).list().unwrap(), [Position(403)]);
    assert_eq!(writer.parts.figures.counters.report().checkpoint_failures, 0);
    let (loaded, notes) = load_from(&disk, &world, 201);
    assert!(loaded.is_some() && notes.is_empty(), "{notes:?}");
    let (whole, own) = (whole_index(&world), loaded.unwrap().index);
    for (id, session) in &own.sessions {
        let next = whole.sessions[id].stream.next_event_no();
        assert_eq!(session.stream.next_event_no(), next);
    }
}

#[test]
fn the_events_of_the_next_checkpoint_are_kept_until_it_is_written() {
    let (world, disk) = (World::new(&answers(400)), SimDisk::new(1));
    let holds = crate::holds::Holds::default();
    let mut writer = agent(&world, &disk, 0);
    writer.parts.events = world.reader().holding(&holds, "checkpoint");
    let least = |holds: &crate::holds::Holds| holds.least().map(|hold| hold.from);
    let now = run(&mut writer, 150, 1);
    assert_eq!(least(&holds), Some(151));
    run(&mut writer, 403, now);
    assert_eq!(least(&holds), Some(404));
}
