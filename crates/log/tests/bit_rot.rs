//! One bit flipped at rest, anywhere in any file of a log: found, and never guessed away.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

mod common;

use common::{append, commit, config, read_all};
use weir_io::{Disk, Rng, SeededRng, SimDisk};
use weir_log::{Durability, EmbeddedLog, LogError};
use weir_types::Position;

const ENTRIES: u64 = 60;

fn entry(position: u64) -> Vec<u8> {
    vec![position as u8; 100 + (position as usize * 37) % 500]
}

/// A log of several segments, stopped cleanly or not.
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

/// What opening makes of a flipped bit.
#[derive(Debug, PartialEq)]
enum Found {
    Refused,
    /// Cut back and reported; so many entries are left, all as they were.
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
    // Only the closing mark and the empty rest of the last segment may be cut.
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
