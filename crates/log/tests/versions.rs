//! Files of a newer format than this program knows are refused as newer and left unchanged.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

mod support;

use support::{append, commit, config};
use weir_io::{Disk, SimDisk};
use weir_log::segment::{FORMAT_VERSION, SEGMENT_HEADER};
use weir_log::{
    Durability, EmbeddedLog, EventLog, EventLogConfig, LogConfig, LogError, LogReader, RulesSince,
    SegmentKind, SequencedLog, SnapshotFault, SnapshotStore, check_segment, inspect,
};
use weir_types::{Epoch, Nanos, PartitionId, Position};

/// Changes a segment's or snapshot's header to a newer version, sound otherwise.
fn renew(disk: &SimDisk, name: &str, header: usize) {
    let mut bytes = disk.contents(name).unwrap();
    bytes[8..12].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..header - 4]);
    bytes[header - 4..header].copy_from_slice(&crc.to_le_bytes());
    disk.plant(name, &bytes);
}

fn is_newer(error: &LogError, name: &str) -> bool {
    let told = error.to_string();
    assert!(told.contains(name) && told.contains("format version 2"), "{told}");
    matches!(error, LogError::NewerFormat { file, version: 2, known: 1 } if file == name)
}

#[test]
fn a_log_with_a_newer_segment_is_refused_whole_and_left_as_it_is() {
    let clean = SimDisk::new(1);
    let (mut log, _) = EmbeddedLog::open(config(Durability::Disk), clean.clone()).unwrap();
    for n in 0..60_u8 {
        append(&mut log, &[[n; 300]]);
        commit(&mut log, false);
    }
    let mut names = clean.clone().list().unwrap();
    names.retain(|name| name.ends_with(".wlog"));
    assert!(names.len() > 3);
    for name in &names {
        let disk = clean.after_process_crash();
        renew(&disk, name, SEGMENT_HEADER);
        let before: Vec<_> = names.iter().map(|name| disk.contents(name)).collect();
        let opened = EmbeddedLog::open(config(Durability::Disk), disk.clone());
        assert!(is_newer(&opened.err().unwrap(), name));
        let inspected = inspect(&mut disk.after_process_crash(), SegmentKind::Command);
        assert!(is_newer(&inspected.unwrap_err(), name));
        let bytes = disk.contents(name).unwrap();
        let checked = check_segment(name, &bytes, SegmentKind::Command);
        assert!(is_newer(&checked.unwrap_err(), name));
        let mut reader =
            LogReader::open(disk.after_process_crash(), SegmentKind::Command, Position(0));
        let read = loop {
            match &mut reader {
                Err(error) => break error.clone(),
                Ok(reader) => match reader.next_entry() {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("the newer segment {name} was read as the end"),
                    Err(error) => break error,
                },
            }
        };
        assert!(is_newer(&read, name));
        let after: Vec<_> = names.iter().map(|name| disk.contents(name)).collect();
        assert!(before == after, "a log of a newer program is not touched");
    }
}

#[test]
fn a_newer_event_log_is_refused_though_a_damaged_one_would_be_made_again() {
    let disk = SimDisk::new(1);
    let config = EventLogConfig { segment_bytes: 8192, ..EventLogConfig::new(PartitionId(1), 7) };
    let (mut events, _) = EventLog::open(config.clone(), Position(1), disk.clone()).unwrap();
    assert_eq!(events.append(Position(1), b"said"), weir_log::EventAppend::Taken);
    events.close().unwrap();
    let disk = disk.after_process_crash();
    let name = disk.clone().list().unwrap().into_iter().find(|n| n.ends_with("wevt")).unwrap();
    renew(&disk, &name, SEGMENT_HEADER);
    let before = disk.contents(&name);
    let opened = EventLog::open(config, Position(1), disk.clone());
    assert!(is_newer(&opened.err().unwrap(), &name));
    assert_eq!(disk.contents(&name), before);
}

#[test]
fn a_newer_snapshot_is_passed_over_as_newer_and_stays() {
    let disk = SimDisk::new(1);
    let mut store = SnapshotStore::new(disk.clone(), 7, PartitionId(1));
    store.write(Position(5), b"older").unwrap();
    store.write(Position(9), b"newer").unwrap();
    let name = disk.clone().list().unwrap().pop().unwrap();
    renew(&disk, &name, 64);
    let (loaded, skipped) = store.load_newest(Position(9)).unwrap();
    assert_eq!(loaded.unwrap().bytes, b"older");
    assert_eq!((&skipped[0].file, &skipped[0].fault), (&name, &SnapshotFault::Newer(2)));
    assert!(disk.contents(&name).is_some());
}

#[test]
fn the_versions_of_rules_outlive_the_segments_of_their_marks_and_a_restore() {
    let disk = SimDisk::new(1);
    let rules_of = |disk: &SimDisk| {
        let found = inspect(&mut disk.clone(), SegmentKind::Command).unwrap().unwrap();
        found.rules.iter().map(|since| (since.from.0, since.rules)).collect::<Vec<_>>()
    };
    let mut disk_now = disk;
    let mut run = |rules: u32, entries: u8, before: u64| {
        let config = LogConfig { rules, ..config(Durability::Disk) };
        let (mut log, _) = EmbeddedLog::open(config, disk_now.clone()).unwrap();
        for n in 0..entries {
            append(&mut log, &[[n; 300]]);
            commit(&mut log, false);
        }
        log.truncate(Position(before));
        while !log.is_trimmed() {
            log.do_work(Nanos(0)).unwrap();
        }
        log.close().unwrap();
        drop(log);
        disk_now = disk_now.after_process_crash();
        disk_now.clone()
    };
    assert_eq!(rules_of(&run(1, 30, 0)), [(1, 1)]);
    assert_eq!(rules_of(&run(2, 60, 0)), [(1, 1), (31, 2)]);
    // One that executes nothing, and the one before again.
    assert_eq!(rules_of(&run(3, 0, 0)), [(1, 1), (31, 2), (91, 3)]);
    assert_eq!(rules_of(&run(2, 1, 0)), [(1, 1), (31, 2)]);
    // The segment with the mark of version 2 goes.
    let truncated = run(3, 5, 80);
    let rules = rules_of(&truncated);
    assert!((32..=80).contains(&rules[0].0), "{rules:?}");
    assert_eq!((rules[0].1, rules[1]), (2, (92, 3)));
    // A restore executes nothing, by whichever program.
    let config = config(Durability::Disk);
    let (mut log, report) =
        EmbeddedLog::open_restored(config, truncated.clone(), Epoch(9)).unwrap();
    assert_eq!(report.rules.last(), Some(&RulesSince { from: Position(92), rules: 3 }));
    log.close().unwrap();
    assert_eq!(rules_of(&truncated), rules);
}
