//! A partition whose logs are truncated by their retention: the rest is enough for each start, also
//! after a crash at any point of a truncation, and after a power loss that takes unsynced writes.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

mod support;

use proptest::prelude::*;
use support::{
    COMMANDS, Disks, EVENTS, Running, SNAPSHOTS, disks_at, new_disks, with_three_snapshots,
};
use weir_io::disk::sim::{CrashChoice, TraceOp};
use weir_io::{Disk, SimDisk};
use weir_log::{Durability, SequencedLog};
use weir_partition::retention::RetentionLimits;
use weir_types::{Nanos, Position};

#[test]
fn a_start_of_truncated_logs_goes_on_where_the_partition_was() {
    let (mut disks, mut taken) = (new_disks(), vec![0_u64]);
    for round in 1..=6 {
        let mut running = Running::new(&disks);
        let at = running.append(300);
        assert!(running.snapshot());
        let retained = running.retain();
        let needed = taken[taken.len() - 1] + 1;
        for (which, before) in
            [(COMMANDS, retained.commands.before), (EVENTS, retained.events.before)]
        {
            assert_eq!(before.0, disks.first(which), "what may go is gone");
            // From the older snapshot on, and less than a segment more. Each command has one event.
            assert!((needed.saturating_sub(60)..=needed).contains(&before.0), "{before}, {needed}");
        }
        assert_eq!(retained.held_by, Some("snapshots"));
        taken.push(at);
        let last = running.append(40);
        if round % 2 == 0 {
            running.close();
        } else {
            drop(running);
        }
        disks = disks.map(SimDisk::after_process_crash);
        disks.check_start(last, &|| format!("round {round}"));
        disks = disks.map(SimDisk::after_process_crash);
    }
}

#[test]
fn a_start_without_the_commands_after_its_newest_usable_snapshot_is_refused_with_both() {
    let disks = with_three_snapshots();
    let first = disks.first(COMMANDS);
    let damage = |names: usize| {
        let damaged = disks.map(SimDisk::after_process_crash);
        let mut snapshots = damaged.0[SNAPSHOTS].clone();
        let mut files = snapshots.list().unwrap();
        files.retain(|name| name.ends_with(".wsnap"));
        assert_eq!(files.len(), 2);
        files.iter().rev().take(names).for_each(|name| snapshots.flip_bit(name, 5));
        damaged
    };
    damage(1).check_start(900, &|| "from the older snapshot".to_owned());
    let refused = damage(2).start().map(drop).unwrap_err();
    let told = format!("{refused:#}");
    let wanted = format!("the command log begins at position {first}, those before it are past");
    assert!(told.contains(&wanted) && told.contains("no snapshot can be used"), "{told}");
}

/// Applies the operations one after the other to one of the disks, and checks a start from each
/// state that a crash leaves.
fn crash_at_each(disks: &Disks, which: usize, ops: &[TraceOp], last: u64) {
    for at in 0..=ops.len() {
        let mut choices = disks.0[which].crash_choices();
        choices.push(CrashChoice::Random(at as u64));
        for choice in choices {
            let mut crashed = disks.map(|disk| disk.after_power_loss(CrashChoice::LoseAll));
            crashed.0[which] = disks.0[which].after_power_loss(choice);
            let place = || format!("disk {which}, point {at} of {}, {choice:?}", ops.len());
            crashed.check_start(last, &place);
        }
        disks.map(SimDisk::after_process_crash).check_start(last, &|| format!("killed at {at}"));
        if let Some(op) = ops.get(at) {
            disks.0[which].apply(op);
        }
    }
}

#[test]
fn a_crash_at_each_write_point_of_a_truncation_leaves_all_that_a_start_needs() {
    let disks = new_disks();
    let mut running = Running::new(&disks);
    running.append(200);
    assert!(running.snapshot());
    let last = running.append(200);
    let before = disks.map(SimDisk::after_process_crash);
    let record = || disks.0.iter().for_each(SimDisk::record);
    record();
    assert!(running.snapshot());
    let snapshot = disks.0.each_ref().map(SimDisk::take_trace);
    record();
    let retained = running.retain();
    assert!(retained.commands.before.0 > 100 && retained.events.before.0 > 100, "{retained:?}");
    let truncation = disks.0.each_ref().map(SimDisk::take_trace);
    assert!(truncation[COMMANDS].len() > 8 && truncation[EVENTS].len() > 8);
    assert!(snapshot[COMMANDS].is_empty() && truncation[SNAPSHOTS].is_empty());
    // The snapshot: its events are synced before it is written.
    crash_at_each(&before, EVENTS, &snapshot[EVENTS], last);
    crash_at_each(&before, SNAPSHOTS, &snapshot[SNAPSHOTS], last);
    // The logs are truncated by two threads: one before the other, or the other way round.
    for (first, second) in [(COMMANDS, EVENTS), (EVENTS, COMMANDS)] {
        let disks = before.map(SimDisk::after_process_crash);
        crash_at_each(&disks, first, &truncation[first], last);
        crash_at_each(&disks, second, &truncation[second], last);
    }
}

/// Loses the power with nothing but what was synced left.
fn lose_power(disks: &Disks) -> Disks {
    disks.map(|disk| disk.after_power_loss(CrashChoice::LoseAll))
}

#[test]
fn snapshots_ahead_of_the_synced_log_permit_no_removal() {
    for durability in [Durability::Os, Durability::Memory] {
        let disks = disks_at(durability);
        let mut running = Running::new(&disks);
        running.append(200);
        assert!(running.snapshot());
        running.be_quiet();
        assert_eq!(running.log.synced(), Position(200));
        // These are in the log's last segment, which is not synced.
        for count in [5, 3, 3] {
            running.append(count);
            assert!(running.snapshot());
            running.retain();
        }
        assert!(running.log.synced() < Position(205), "{}", running.log.synced());
        let crashed = lose_power(&disks);
        let rebuilt = crashed.start().expect("the snapshot at 200 is of use");
        assert_eq!(rebuilt.snapshot, Position(200), "{durability:?}");
        let last = rebuilt.log.next_position().0 - 1;
        drop(rebuilt);
        let crashed = crashed.map(SimDisk::after_process_crash);
        crashed.check_start(last, &|| format!("{durability:?}"));
    }
}

#[test]
fn a_start_that_is_refused_leaves_the_snapshots_where_they_are() {
    let disks = with_three_snapshots();
    // The end of the command log is lost, with all that the snapshots have of it.
    let mut commands = disks.0[COMMANDS].clone();
    let newest = commands.list().unwrap();
    let newest: Vec<_> = newest.iter().filter(|name| name.ends_with(".wlog")).collect();
    newest[2..].iter().for_each(|name| commands.remove(name).unwrap());
    commands.sync_dir().unwrap();
    let names = disks.0[SNAPSHOTS].clone().list().unwrap();
    disks.0[SNAPSHOTS].flip_bit(&names[0], 5);
    let crashed = disks.map(SimDisk::after_process_crash);
    let refused = crashed.start().map(drop).unwrap_err();
    assert!(format!("{refused:#}").contains("no snapshot can be used"), "{refused:#}");
    assert_eq!(crashed.0[SNAPSHOTS].clone().list().unwrap(), names);
}

#[test]
fn an_older_base_that_is_out_of_reach_costs_no_snapshot() {
    let disks = with_three_snapshots();
    // The older snapshot is damaged, and the events lost their end: the newer is the only base.
    let damaged = disks.map(SimDisk::after_process_crash);
    let names = damaged.0[SNAPSHOTS].clone().list().unwrap();
    let mut damaged = damaged;
    damaged.0[SNAPSHOTS].flip_bit(&names[0], 5);
    let mut events = damaged.0[EVENTS].clone();
    let files = events.list().unwrap();
    let last = files.iter().rfind(|name| name.ends_with(".wevt")).unwrap();
    events.remove(last).unwrap();
    events.sync_dir().unwrap();
    for start in 0..2 {
        let rebuilt = damaged.start().unwrap();
        assert_eq!((rebuilt.snapshot, rebuilt.event_count), (Position(900), 900), "{start}");
        drop(rebuilt);
        damaged = damaged.map(SimDisk::after_process_crash);
    }
}

#[test]
fn an_event_log_of_lost_commands_alone_begins_anew_at_the_snapshot() {
    let disks = new_disks();
    let mut running = Running::new(&disks);
    running.append(200);
    assert!(running.snapshot());
    running.append(100);
    let before = disks.map(SimDisk::after_process_crash);
    for _ in 0..3 {
        running.append(300);
        assert!(running.snapshot());
        running.retain();
    }
    running.close();
    // The events of the whole run, with the commands and snapshots of its beginning.
    let mut mixed = disks.map(SimDisk::after_process_crash);
    assert!(mixed.first(EVENTS) > 301);
    (mixed.0[COMMANDS], mixed.0[SNAPSHOTS]) =
        (before.0[COMMANDS].clone(), before.0[SNAPSHOTS].clone());
    mixed.check_start(300, &|| "begun anew".to_owned());
    assert_eq!(mixed.first(EVENTS), 201, "the first event after the snapshot");
    mixed = mixed.map(SimDisk::after_process_crash);
    let mut running = Running::new(&mixed);
    let last = running.append(50);
    running.close();
    mixed.map(SimDisk::after_process_crash).check_start(last, &|| "the next start".to_owned());
}

#[test]
fn an_event_log_whose_beginning_is_damaged_begins_again_at_the_older_snapshot() {
    let disks = with_three_snapshots();
    for is_removed in [false, true] {
        let damaged = disks.map(SimDisk::after_process_crash);
        let mut events = damaged.0[EVENTS].clone();
        let names = events.list().unwrap();
        let first = names.iter().find(|name| name.ends_with(".wevt")).unwrap();
        if is_removed {
            let files = names.iter().filter(|name| name.ends_with(".wevt"));
            files.for_each(|name| events.remove(name).unwrap());
            events.sync_dir().unwrap();
        } else {
            events.flip_bit(first, 100);
        }
        damaged.check_start(900, &|| "all commands".to_owned());
        assert_eq!(damaged.first(EVENTS), 601, "the first event after the older snapshot");
        damaged.map(SimDisk::after_process_crash).check_start(900, &|| "the next start".to_owned());
    }
}

#[test]
fn a_start_killed_at_any_point_of_a_new_beginning_of_the_events_loses_none() {
    let whole = with_three_snapshots();
    for is_removed in [false, true] {
        let disks = whole.map(SimDisk::after_process_crash);
        let mut events = disks.0[EVENTS].clone();
        let mut names = events.list().unwrap();
        names.retain(|name| name.ends_with(".wevt"));
        if is_removed {
            names.iter().for_each(|name| events.remove(name).unwrap());
            events.sync_dir().unwrap();
        } else {
            events.flip_bit(&names[0], 100);
        }
        let before = disks.map(SimDisk::after_process_crash);
        disks.0[EVENTS].record();
        disks.check_start(900, &|| "the start that is killed".to_owned());
        let ops = disks.0[EVENTS].take_trace();
        assert!(ops.len() > 20, "{} write points", ops.len());
        for at in 0..=ops.len() {
            let events = &before.0[EVENTS];
            let states =
                [events.after_process_crash(), events.after_power_loss(CrashChoice::LoseAll)];
            for (which, events) in states.into_iter().enumerate() {
                let mut crashed = before.map(SimDisk::after_process_crash);
                crashed.0[EVENTS] = events;
                let place = || format!("removed {is_removed}, point {at}, state {which}");
                crashed.check_start(900, &place);
                let first = crashed.first(EVENTS);
                assert_eq!(first, 601, "{}: the first event after the older snapshot", place());
            }
            if let Some(op) = ops.get(at) {
                before.0[EVENTS].apply(op);
            }
        }
    }
}

#[test]
fn a_start_that_applied_commands_is_followed_by_a_snapshot_at_their_end() {
    let disks = new_disks();
    let mut running = Running::new(&disks);
    running.append(200);
    assert!(running.snapshot());
    running.append(50);
    drop(running);
    let disks = disks.map(SimDisk::after_process_crash);
    let mut running = Running::new(&disks);
    assert!(running.snapshot(), "nothing new came, and the snapshot is older than the end");
    assert!(!running.snapshot());
    running.close();
    let rebuilt = disks.map(SimDisk::after_process_crash).start().unwrap();
    assert_eq!(rebuilt.snapshot, Position(250));
}

#[test]
fn a_damaged_snapshot_permits_no_removal_of_commands_or_of_a_sound_one() {
    let disks = new_disks();
    let mut running = Running::new(&disks);
    for round in 1..=5_u64 {
        running.append(300);
        assert!(running.snapshot());
        running.retain();
        if round == 3 {
            // The snapshots at 600 and 900 are there; the newer one rots.
            disks.0[SNAPSHOTS].flip_bit(&format!("{:020}.wsnap", 900), 8 * 100);
        }
        if round == 4 {
            let left = disks.0[SNAPSHOTS].clone().list().unwrap();
            assert_eq!(left.len(), 3, "the one at 600 counts: {left:?}");
            assert!(disks.first(COMMANDS) <= 601);
            // And now the newest one, too.
            let crashed = disks.map(SimDisk::after_process_crash);
            crashed.0[SNAPSHOTS].flip_bit(&format!("{:020}.wsnap", 1_200), 8 * 100);
            crashed.check_start(1_200, &|| "from the snapshot at 600".to_owned());
        }
    }
    let left = disks.0[SNAPSHOTS].clone().list().unwrap();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(disks.first(COMMANDS) > 1_100);
}

#[test]
fn events_that_a_recovery_wrote_are_as_old_as_their_commands() {
    let disks = new_disks();
    let mut running = Running::new(&disks);
    running.append(900);
    running.log.flush_blocking().unwrap();
    drop(running);
    let mut crashed = disks.map(SimDisk::after_process_crash);
    // A recovery without event files writes all of them.
    crashed.0[EVENTS] = SimDisk::new(9);
    let mut running = Running::new(&crashed);
    // The log time of a command is its position.
    running.limits = RetentionLimits { age: Some(Nanos(400)), ..RetentionLimits::default() };
    for _ in 0..3 {
        running.append(1);
        assert!(running.snapshot());
    }
    let retained = running.retain();
    let (commands, events) = (retained.commands.before.0, retained.events.before.0);
    assert!((400..=503).contains(&commands) && (400..=503).contains(&events), "{retained:?}");
}

#[test]
fn a_clock_that_is_wrong_at_a_start_removes_nothing_by_age_at_once() {
    const YEAR: u64 = 365 * 86_400_000_000_000;
    const HALF_AN_HOUR: u64 = 1_800_000_000_000;
    let disks = new_disks();
    let mut running = Running::new(&disks);
    for _ in 0..3 {
        running.append(300);
        assert!(running.snapshot());
    }
    running.close();
    let disks = disks.map(SimDisk::after_process_crash);
    let mut running = Running::new(&disks);
    running.limits =
        RetentionLimits { age: Some(Nanos(HALF_AN_HOUR)), ..RetentionLimits::default() };
    running.append_at(Nanos(YEAR));
    running.follow();
    for _ in 0..2 {
        running.now += 100_000_000_000;
        let retained = running.retain();
        let before = (retained.commands.before, retained.events.before);
        assert_eq!(before, (Position(1), Position(1)));
        assert_eq!((disks.first(COMMANDS), disks.first(EVENTS)), (1, 1));
    }
    // The operator had five minutes: from now on log time counts.
    running.now += 300_000_000_000;
    let retained = running.retain();
    let before = (retained.commands.before.0, retained.events.before.0);
    assert!((500..=601).contains(&before.0) && (500..=601).contains(&before.1), "{before:?}");
}

/// A step of a partition's life.
#[derive(Clone, Copy, Debug)]
enum LifeStep {
    Append(u64),
    Quiet,
    Snapshot,
    Retain,
    /// The process is killed.
    Kill,
    /// The power is lost, and with it any part of the writes that were not synced.
    LosePower(u64),
}

fn step() -> impl Strategy<Value = LifeStep> {
    prop_oneof![
        4 => (1..16_u64).prop_map(LifeStep::Append),
        1 => (40..90_u64).prop_map(LifeStep::Append),
        1 => Just(LifeStep::Quiet),
        5 => Just(LifeStep::Snapshot),
        4 => Just(LifeStep::Retain),
        1 => (0..1_000_u64).prop_map(LifeStep::LosePower),
        1 => Just(LifeStep::Kill),
    ]
}

/// Runs a partition with limits of both logs, or of one alone, and starts it after each crash.
fn live(durability: Durability, limits: RetentionLimits, steps: &[LifeStep]) {
    let mut disks = disks_at(durability);
    let mut running = Running::new(&disks);
    running.limits = limits;
    for (at, step) in steps.iter().chain([&LifeStep::LosePower(0)]).enumerate() {
        let (synced, committed) = (running.log.synced(), running.log.committed());
        match *step {
            LifeStep::Append(count) => drop(running.append(count)),
            LifeStep::Quiet => running.be_quiet(),
            LifeStep::Snapshot => drop(running.snapshot()),
            LifeStep::Retain => drop(running.retain()),
            LifeStep::Kill => disks = disks.map(SimDisk::after_process_crash),
            LifeStep::LosePower(seed) if seed % 3 == 0 => disks = lose_power(&disks),
            LifeStep::LosePower(seed) => {
                disks = disks.map(|disk| disk.after_power_loss(CrashChoice::Random(seed)));
            }
        }
        if matches!(step, LifeStep::Kill | LifeStep::LosePower(_)) {
            let rebuilt = match disks.start() {
                Ok(rebuilt) => rebuilt,
                Err(error) => panic!("no start after step {at}, {step:?}: {error:#}"),
            };
            let last = Position(rebuilt.log.next_position().0 - 1);
            let least = if durability == Durability::Disk { committed } else { synced };
            assert!(last >= least, "{last} after step {at}");
            drop(rebuilt);
            disks = disks.map(SimDisk::after_process_crash);
            disks.check_start(last.0, &|| format!("step {at}, {step:?}"));
            disks = disks.map(SimDisk::after_process_crash);
            running = Running::new(&disks);
            running.limits = limits;
        }
    }
}

const LEVELS: [Durability; 3] = [Durability::Disk, Durability::Os, Durability::Memory];

/// A level, the limited logs, and the steps.
fn life(
    levels: &[Durability],
) -> impl Strategy<Value = (Durability, RetentionLimits, Vec<LifeStep>)> {
    let least = RetentionLimits { command_bytes: Some(0), event_bytes: Some(0), age: None };
    let events = RetentionLimits { command_bytes: None, ..least };
    let commands = RetentionLimits { event_bytes: None, ..least };
    let level = prop::sample::select(levels.to_vec());
    let limits = prop::sample::select(vec![least, events, commands]);
    (level, limits, prop::collection::vec(step(), 1..40))
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn a_partition_with_limits_starts_after_any_crash(life in life(&LEVELS)) {
        let (durability, limits, steps) = life;
        live(durability, limits, &steps);
    }
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_bug_of_unsynced_snapshots_is_found() {
    use proptest::test_runner::TestRunner;
    use weir_partition::plant::{self, Plant};

    plant::set(Some(Plant::UnsyncedSnapshotCounts));
    let one = std::panic::catch_unwind(snapshots_ahead_of_the_synced_log_permit_no_removal);
    let any = TestRunner::new(ProptestConfig { max_shrink_iters: 0, ..config(1_000) }).run(
        &life(&LEVELS[1..]),
        |(durability, limits, steps)| {
            live(durability, limits, &steps);
            Ok(())
        },
    );
    plant::set(None);
    assert!(one.is_err() && any.is_err());
}
