//! A real log, damaged: bytes mutated, files truncated, files removed. Opening must refuse it or
//! return a prefix of the written entries; it never panics and never invents entries.
#![no_main]

use std::cell::OnceCell;

use libfuzzer_sys::fuzz_target;
use weir_fuzz::Recipe;
use weir_io::{Disk, SimDisk};
use weir_log::{Append, Batch, Durability, EmbeddedLog, LogConfig, Push, SequencedLog};
use weir_types::{Nanos, PartitionId, Position};

/// Files and entries of a log as its writer left it.
struct Written {
    files: Vec<(String, Vec<u8>)>,
    entries: Vec<Vec<u8>>,
}

thread_local! {
    static WRITTEN: OnceCell<[Written; 2]> = const { OnceCell::new() };
}

fuzz_target!(|bytes: &[u8]| {
    WRITTEN.with(|written| {
        let mut recipe = Recipe::new(bytes);
        let written = written.get_or_init(|| [write(true), write(false)]);
        let written = &written[usize::from(recipe.byte() % 2)];
        recover(written, &damaged(written, &mut recipe));
    });
});

fn config() -> LogConfig {
    LogConfig {
        durability: Durability::Disk,
        segment_bytes: 8192,
        idle_after: Nanos(1_000),
        ..LogConfig::new(PartitionId(1), 7)
    }
}

/// Writes several segments of batches; closed cleanly, or left as by a killed process.
fn write(is_closed: bool) -> Written {
    let disk = SimDisk::new(3);
    let (mut log, _) = EmbeddedLog::open(config(), disk.clone()).expect("an empty disk opens");
    let mut entries = Vec::new();
    for number in 0..60_u64 {
        let mut batch = Batch::new();
        for part in 0..1 + number % 3 {
            let entry: Vec<u8> = (0..40 + 7 * part).map(|i| (number + i) as u8).collect();
            assert_eq!(batch.push(&entry), Push::Taken);
            entries.push(entry);
        }
        let time = Nanos(log.last_log_time().0 + 1);
        assert!(matches!(log.append(log.epoch(), time, &batch), Append::At { .. }));
        while !log.is_idle() {
            log.do_work(Nanos(0)).expect("no fault was asked for");
        }
    }
    if is_closed {
        log.close().expect("no fault was asked for");
    }
    let mut listing = disk.clone();
    let names = listing.list().expect("no fault was asked for");
    let files = names
        .into_iter()
        .map(|name| (name.clone(), disk.contents(&name).expect("it is listed")))
        .collect();
    Written { files, entries }
}

fn damaged(written: &Written, recipe: &mut Recipe<'_>) -> SimDisk {
    let mut files = written.files.clone();
    while !recipe.is_empty() {
        let file_count = files.len();
        let index = usize::from(recipe.byte()) % file_count;
        let (_, bytes) = &mut files[index];
        let at = usize::from(recipe.short()) % bytes.len().max(1);
        match recipe.byte() % 8 {
            0 => bytes.truncate(at),
            1 => bytes[at..].fill(0),
            2 => {
                let from = usize::from(recipe.short()) % bytes.len().max(1);
                let len = usize::from(recipe.byte()).min(bytes.len() - at.max(from));
                bytes.copy_within(from..from + len, at);
            }
            3 if file_count > 1 => {
                files.remove(index);
            }
            _ if at < bytes.len() => bytes[at] ^= recipe.byte(),
            _ => {}
        }
    }
    let disk = SimDisk::new(5);
    for (name, bytes) in files {
        disk.plant(&name, &bytes);
    }
    disk
}

fn recover(written: &Written, disk: &SimDisk) {
    let Ok((mut log, _)) = EmbeddedLog::open(config(), disk.clone()) else { return };
    let first = log.first_position();
    let Ok(mut reader) = log.read(Position(0)) else { return };
    let mut position = first;
    while let Some(entry) = reader.next_entry().expect("a log that opened can be read") {
        assert_eq!(entry.position, position, "a gap in the positions");
        let index = usize::try_from(position.0 - 1).expect("positions are small here");
        assert_eq!(entry.bytes, written.entries[index], "an entry that nobody wrote");
        position = position.next();
    }
}
