//! One bit flipped at rest, anywhere in any file of a log: it is detected and never hidden.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

mod support;

use support::{append, commit, config, read_all};
use weir_io::{Disk, Rng, SeededRng, SimDisk};
use weir_log::{
    Durability, EmbeddedLog, EventAppend, EventLog, EventLogConfig, LogError, SnapshotFault,
    SnapshotStore, read_events,
};
use weir_types::{PartitionId, Position};

const ENTRIES: u64 = 60;

fn entry(position: u64) -> Vec<u8> {
    vec![position as u8; 100 + (position as usize * 37) % 500]
}

/// Creates a log of several segments, with or without a clean stop.
fn log_on_disk(closed: bool) -> SimDisk {
    let disk = SimDisk::new(3);
    let (mut log, _) = EmbeddedLog::open(config(Durability::Disk), disk.clone()).unwrap();
    for position in 1..=ENTRIES {
        append(&mut log, &[entry(position)]);
        commit(&mut log, false);
    }
    if closed {
        log.close().unwrap();
    }
    disk.after_process_crash()
}

fn segments(disk: &SimDisk) -> Vec<(String, u64)> {
    let mut names = disk.clone().list().unwrap();
    names.retain(|name| name.ends_with(".wlog"));
    names.into_iter().map(|n| (n.clone(), disk.contents(&n).unwrap().len() as u64)).collect()
}

/// The result of opening a log with a flipped bit.
#[derive(Debug, PartialEq)]
enum Found {
    Refused,
    /// Cut back and reported, with this number of unchanged entries left.
    Reported(u64),
}

fn flip_and_open(clean: &SimDisk, name: &str, bit: u64) -> Found {
    let disk = clean.after_process_crash();
    disk.flip_bit(name, bit);
    match EmbeddedLog::open(config(Durability::Disk), disk) {
        Err(LogError::Damaged { file, offset, .. }) => {
            assert_eq!(file, name, "the error names the file");
            assert!(offset <= bit / 8, "the error names the frame's offset, {offset}, {bit}");
            Found::Refused
        }
        Err(LogError::DamagedHeader { file }) => {
            assert_eq!(file, name, "the error names the file");
            Found::Refused
        }
        Err(other) => panic!("bit {bit} of {name}: {other}"),
        Ok((mut log, report)) => {
            assert!(report.cut.is_some(), "bit {bit} of {name} was not noticed");
            let entries = read_all(&mut log, Position(1)).unwrap();
            for (position, bytes) in &entries {
                assert_eq!(*bytes, entry(*position), "bit {bit} of {name}");
            }
            Found::Reported(entries.len() as u64)
        }
    }
}

#[test]
fn a_flipped_bit_in_any_block_of_a_closed_log_is_found_and_costs_no_entry() {
    let clean = log_on_disk(true);
    let mut rng = SeededRng::new(1, "bit rot");
    let (mut refused, mut reported) = (0, 0);
    for (name, len) in segments(&clean) {
        for block in 0..len / 512 {
            let bit = block * 512 * 8 + rng.below(512 * 8);
            match flip_and_open(&clean, &name, bit) {
                Found::Refused => refused += 1,
                Found::Reported(left) => {
                    assert_eq!(left, ENTRIES, "bit {bit} of {name}: an entry is gone");
                    reported += 1;
                }
            }
        }
    }
    // Only the closing mark and the empty rest of the last segment may be cut off.
    assert!(refused > 40 && reported > 0, "{refused} refused, {reported} reported");
}

#[test]
fn every_bit_of_every_header_is_found() {
    let clean = log_on_disk(true);
    let (name, _) = segments(&clean)[1].clone();
    let bytes = clean.contents(&name).unwrap();
    for bit in 0..4096 * 8 {
        assert_eq!(flip_and_open(&clean, &name, bit), Found::Refused, "segment header");
    }
    let mut at = 4096;
    while bytes[at..at + 4] != [0; 4] {
        for bit in (at as u64 * 8..).take(64 * 8) {
            assert_eq!(flip_and_open(&clean, &name, bit), Found::Refused, "frame header");
        }
        at += u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    }
}

#[test]
fn after_a_crash_only_the_last_frame_can_be_taken_for_a_torn_one() {
    let clean = log_on_disk(false);
    let mut rng = SeededRng::new(2, "bit rot");
    for (name, len) in segments(&clean) {
        for block in 0..len / 512 {
            let bit = block * 512 * 8 + rng.below(512 * 8);
            if let Found::Reported(left) = flip_and_open(&clean, &name, bit) {
                assert!(left >= ENTRIES - 1, "bit {bit} of {name} cost more than one frame");
            }
        }
    }
}

#[test]
fn a_block_that_stands_in_anothers_place_is_found() {
    let clean = log_on_disk(true);
    let (name, len) = segments(&clean)[0].clone();
    let bytes = clean.contents(&name).unwrap();
    for (from, to) in (8..len / 512).zip((8..len / 512).rev()) {
        let (from, to) = (from as usize * 512, to as usize * 512);
        if bytes[from..from + 512] == bytes[to..to + 512] {
            continue;
        }
        let mut moved = bytes.clone();
        moved.copy_within(from..from + 512, to);
        let disk = clean.after_process_crash();
        disk.plant(&name, &moved);
        let opened = EmbeddedLog::open(config(Durability::Disk), disk);
        assert!(matches!(opened, Err(LogError::Damaged { .. })), "{from} in the place of {to}");
    }
}

/// Creates an event log of several segments, with all its records on the medium.
fn events_on_disk() -> (SimDisk, EventLogConfig) {
    let disk = SimDisk::new(3);
    let mut config = EventLogConfig::new(PartitionId(1), 77);
    config.segment_bytes = 8192;
    let (mut events, _) = EventLog::open(config.clone(), Position(1), disk.clone()).unwrap();
    for record in 1..=ENTRIES {
        while events.append(Position(record), &entry(record)) == EventAppend::NotNow {
            events.flush_blocking().unwrap();
        }
        events.flush_blocking().unwrap();
    }
    events.close().unwrap();
    (disk.after_process_crash(), config)
}

#[test]
fn a_flipped_bit_in_any_block_of_an_event_log_is_named_and_what_is_left_is_as_it_was() {
    let (clean, config) = events_on_disk();
    let mut rng = SeededRng::new(4, "bit rot");
    let mut blocks = 0;
    let mut names = clean.clone().list().unwrap();
    names.retain(|name| name.ends_with(".wevt"));
    assert!(names.len() > 3);
    for name in &names {
        for block in 0..clean.contents(name).unwrap().len() as u64 / 512 {
            let bit = block * 512 * 8 + rng.below(512 * 8);
            let disk = clean.after_process_crash();
            disk.flip_bit(name, bit);
            let (mut events, report) =
                EventLog::open(config.clone(), Position(1), disk.clone()).unwrap();
            let cut = report.cut.unwrap_or_else(|| panic!("bit {bit} of {name} is not noticed"));
            let is_named = cut.file == *name && cut.offset <= bit / 8;
            assert!(is_named, "bit {bit} of {name}: {cut:?}");
            let next = events.next_record();
            let mut reader = read_events(disk.after_process_crash(), Position(1)).unwrap();
            for record in 1..next.0 {
                let read = reader.next_entry().unwrap().unwrap();
                assert_eq!((read.position.0, read.bytes), (record, &entry(record)[..]));
            }
            // Records that were cut off are replayed, and are then in the log again.
            for record in next.0..=ENTRIES {
                while events.append(Position(record), &entry(record)) == EventAppend::NotNow {
                    events.flush_blocking().unwrap();
                }
            }
            events.close().unwrap();
            blocks += 1;
        }
    }
    println!("{blocks} blocks of {} event segments", names.len());
}

#[test]
fn a_flipped_bit_in_any_block_of_a_snapshot_is_named_and_the_older_one_is_taken() {
    let clean = SimDisk::new(3);
    let mut store = SnapshotStore::new(clean.clone(), 77, PartitionId(1));
    store.write(Position(5), b"older").unwrap();
    store.write(Position(9), &vec![7; 150_000]).unwrap();
    let name = clean.clone().list().unwrap().pop().unwrap();
    let len = clean.contents(&name).unwrap().len() as u64;
    let mut rng = SeededRng::new(5, "bit rot");
    for block in 0..len.div_ceil(512) {
        let bit = block * 512 * 8 + rng.below((len - block * 512).min(512) * 8);
        let disk = clean.after_process_crash();
        disk.flip_bit(&name, bit);
        let mut store = SnapshotStore::new(disk, 77, PartitionId(1));
        let (loaded, skipped) = store.load_newest(Position(9)).unwrap();
        assert_eq!(loaded.unwrap().bytes, b"older");
        assert_eq!(skipped[0].file, name);
        match skipped[0].fault {
            SnapshotFault::Header => assert!(bit / 8 < 64, "bit {bit}"),
            SnapshotFault::Block(offset) => {
                let within = offset..offset + 65_536 + 8;
                assert!(within.contains(&(bit / 8)), "bit {bit} is not in block {offset}");
            }
            ref other => panic!("bit {bit}: {other}"),
        }
    }
}
