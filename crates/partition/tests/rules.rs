//! A log whose commands were executed by other rules of the engine: no start executes them again.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

mod support;

use std::path::{Path, PathBuf};

use support::{
    Disks, EVENTS, HERE, LOG_ID, Running, SEGMENT_BYTES, SNAPSHOTS, command, disks_at, engine_of,
    log_config, new_disks, settings,
};
use weir_engine::RULES_VERSION;
use weir_io::disk::sim::CrashChoice;
use weir_io::{Disk, SimDisk, ThreadDisk, WakeFd};
use weir_log::{
    Append, Batch, Durability, EmbeddedLog, EventAppend, EventLog, EventLogConfig, LogConfig, Push,
    SequencedLog, SnapshotStore,
};
use weir_partition::dirs::PartitionDirs;
use weir_partition::recovery::{OtherRules, RecoverySettings, find_in_directory};
use weir_partition::shadow::put_state;
use weir_types::{Nanos, Position};
use weir_wire::Event;

/// The version of another program.
const OTHER: u32 = RULES_VERSION + 1;

/// Runs a program with other rules until the log ends at `last`, as far as it leaves traces: the
/// commands, their events, and a snapshot at the end if it is stopped in order.
fn run_by_other_rules(disks: &Disks, last: u64, is_stopped: bool) {
    let [commands, events, snapshots] = disks.0.clone();
    let config = LogConfig { rules: OTHER, durability: disks.1, ..log_config() };
    let (mut log, _) = EmbeddedLog::open(config, commands).unwrap();
    let (mut engine, count) = engine_of(log.next_position().0 - 1);
    let config =
        EventLogConfig { segment_bytes: SEGMENT_BYTES, ..EventLogConfig::new(HERE, LOG_ID) };
    let (mut events, _) = EventLog::open(config, Position(count + 1), events).unwrap();
    for position in log.next_position().0..=last {
        let (mut batch, mut entry, mut said) = (Batch::new(), Vec::new(), Vec::<Event>::new());
        command(position).encode(&mut entry);
        assert_eq!(batch.push(&entry), Push::Taken);
        let appended = log.append(log.epoch(), Nanos(position), &batch);
        assert_eq!(appended, Append::At { first: Position(position) });
        log.flush_blocking().unwrap();
        engine.apply(Position(position), Nanos(position), &command(position), &mut said);
        for event in said {
            let mut bytes = Vec::new();
            event.encode(&mut bytes);
            while events.append(events.next_record(), &bytes) == EventAppend::NotNow {
                events.flush_blocking().unwrap();
            }
        }
    }
    if is_stopped {
        events.close().unwrap();
        let mut state = Vec::new();
        put_state(&engine, events.next_record().0 - 1, &mut state);
        SnapshotStore::new(snapshots, LOG_ID, HERE).write(Position(last), &state).unwrap();
        log.close().unwrap();
    } else {
        events.flush_blocking().unwrap();
    }
}

/// The levels of a command log.
const LEVELS: [Durability; 3] = [Durability::Memory, Durability::Os, Durability::Disk];

/// Returns the disks of a partition of this program's rules that was stopped in order at 200.
fn stopped_at_200() -> Disks {
    stopped_at_200_of(Durability::Disk)
}

fn stopped_at_200_of(durability: Durability) -> Disks {
    let disks = disks_at(durability);
    let mut running = Running::new(&disks);
    running.append(200);
    assert!(running.snapshot());
    running.close();
    disks.map(SimDisk::after_process_crash)
}

fn contents(disks: &Disks) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for disk in &disks.0 {
        let names = disk.clone().list().unwrap().into_iter();
        all.extend(names.map(|name| (name.clone(), disk.contents(&name).unwrap())));
    }
    all
}

fn refused(disks: &Disks) -> (OtherRules, String) {
    let error = disks.start().map(drop).unwrap_err();
    (*error.downcast_ref::<OtherRules>().expect("refused for its rules"), format!("{error:#}"))
}

#[test]
fn commands_of_other_rules_after_the_snapshot_are_refused_and_no_file_is_changed() {
    let disks = stopped_at_200();
    run_by_other_rules(&disks, 250, false);
    let lost_power = disks.map(|disk| disk.after_power_loss(CrashChoice::LoseAll));
    for crashed in [disks.map(SimDisk::after_process_crash), lost_power] {
        let before = contents(&crashed);
        let (rules, told) = refused(&crashed);
        let (snapshot, last) = (Position(200), Position(250));
        let (found, own) = (OTHER, RULES_VERSION);
        assert_eq!(rules, OtherRules::Commands { snapshot, last, found, own });
        for part in [
            &format!("up to position 250 were executed by version {found} of the engine's rules"),
            &format!("this program has version {own}"),
            "the newest snapshot that can be used is of position 200",
            "start the program that wrote them and stop it in order",
        ] {
            assert!(told.contains(part), "{told}");
        }
        assert!(contents(&crashed) == before, "a refused start changes no file");
    }
}

#[test]
fn a_snapshot_at_the_end_of_the_log_is_good_for_a_program_with_other_rules() {
    let disks = stopped_at_200();
    run_by_other_rules(&disks, 250, true);
    let mut disks = disks.map(SimDisk::after_process_crash);
    for last in [300, 350] {
        let mut running = Running::new(&disks);
        assert_eq!(running.append(50), last);
        // The second time it is killed: the commands since are of its own rules.
        drop(running);
        disks = disks.map(SimDisk::after_process_crash);
        disks.check_start(last, &|| format!("at {last}"));
        disks = disks.map(SimDisk::after_process_crash);
    }
    // Without that snapshot the older one is of no use.
    disks.0[SNAPSHOTS].flip_bit(&format!("{:020}.wsnap", 250), 8 * 100);
    let (rules, _) = refused(&disks);
    let (snapshot, last) = (Position(200), Position(250));
    assert_eq!(rules, OtherRules::Commands { snapshot, last, found: OTHER, own: RULES_VERSION });
}

#[test]
fn a_log_of_other_rules_without_a_snapshot_is_refused_and_one_without_commands_is_not() {
    let disks = new_disks();
    run_by_other_rules(&disks, 30, false);
    let (_, told) = refused(&disks.map(SimDisk::after_process_crash));
    assert!(told.contains("no snapshot can be used"), "{told}");
    let disks = stopped_at_200();
    // It is started and executes nothing.
    run_by_other_rules(&disks, 200, false);
    disks.map(SimDisk::after_process_crash).check_start(200, &|| "nothing executed".to_owned());
}

/// Returns the disks of a partition whose last commands, up to 400, other rules executed. It was
/// stopped in order, and then the event log lost its last segment: the program that wrote it can
/// write it again. With `is_torn` that segment has only lost its header.
fn without_the_last_events(durability: Durability, is_torn: bool) -> Disks {
    let disks = stopped_at_200_of(durability);
    run_by_other_rules(&disks, 400, true);
    let damaged = disks.map(SimDisk::after_process_crash);
    let mut events = damaged.0[EVENTS].clone();
    let names = events.list().unwrap();
    let last = names.iter().rfind(|name| name.ends_with(".wevt")).unwrap();
    if is_torn {
        events.flip_bit(last, 9);
    } else {
        events.remove(last).unwrap();
        events.sync_dir().unwrap();
    }
    damaged
}

fn check_events_refused(rules: OtherRules, told: &str) {
    assert!(matches!(rules, OtherRules::Events { snapshot: Position(400), found: OTHER, .. }));
    assert!(told.contains("move the event log away"), "{told}");
}

#[test]
fn events_that_other_rules_emitted_are_not_written_again_and_no_retry_changes_a_file() {
    for (level, is_torn) in LEVELS.into_iter().flat_map(|level| [(level, false), (level, true)]) {
        let mut damaged = without_the_last_events(level, is_torn);
        let before = contents(&damaged);
        for retry in 0..4 {
            let (rules, told) = refused(&damaged);
            check_events_refused(rules, &told);
            assert!(contents(&damaged) == before, "{level:?}, retry {retry}");
            damaged = damaged.map(SimDisk::after_process_crash);
        }
        // As the refusal says: without an event log it begins behind the snapshot.
        let mut events = damaged.0[EVENTS].clone();
        events.list().unwrap().iter().for_each(|name| events.remove(name).unwrap());
        events.sync_dir().unwrap();
        damaged.check_start(400, &|| "without an event log".to_owned());
        assert_eq!(damaged.first(EVENTS), 401);
    }
}

/// Returns all files below a directory, with their bytes.
fn files_below(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push((path.clone(), std::fs::read(path).unwrap()));
        }
    }
    files.sort();
    files
}

/// Writes a partition's files into its directory of a node, as the node leaves them.
fn write_files(disks: &Disks, node_dir: &Path) {
    let dirs = PartitionDirs::new(node_dir, HERE);
    for (disk, path) in disks.0.iter().zip([dirs.commands(), dirs.events(), dirs.snapshots()]) {
        // A node that ran has left a lock's file too.
        ThreadDisk::open(&path, None).unwrap().lock().unwrap();
        for name in disk.clone().list().unwrap() {
            std::fs::write(path.join(&name), disk.contents(&name).unwrap()).unwrap();
        }
    }
}

#[test]
fn a_directory_whose_events_are_of_other_rules_stays_byte_for_byte_the_same() {
    for level in LEVELS {
        let dir = tempfile::tempdir().unwrap();
        write_files(&without_the_last_events(level, false), dir.path());
        let before = files_below(dir.path());
        for retry in 0..4 {
            let settings = RecoverySettings { durability: level, ..settings(dir.path()) };
            let found = find_in_directory(&settings, HERE, &WakeFd::new().unwrap());
            let error = found.and_then(|found| found.recover().map(drop)).unwrap_err();
            let rules = *error.downcast_ref::<OtherRules>().expect("refused for its rules");
            check_events_refused(rules, &format!("{error:#}"));
            assert!(files_below(dir.path()) == before, "{level:?}, retry {retry}");
        }
    }
}
