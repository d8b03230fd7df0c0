//! Readers of a log whose oldest segments are removed, and their files used again, while they read.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

mod support;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use support::{append, config};
use weir_io::{Disk, SimDisk, ThreadDisk};
use weir_log::{
    Durability, EmbeddedLog, LogError, LogReader, SegmentKind, SequencedLog, retained_segments,
};
use weir_types::{Nanos, Position};

/// Returns the entry at a position: its bytes follow from the position.
fn entry(position: u64) -> Vec<u8> {
    let mut bytes = position.to_le_bytes().to_vec();
    bytes.resize(8 + (position as usize * 31) % 400, position as u8);
    bytes
}

fn fill<D: Disk>(log: &mut EmbeddedLog<D>, count: u64) {
    let first = log.next_position().0;
    for position in first..first + count {
        append(log, &[entry(position)]);
        settle(log);
    }
}

/// Works until all is committed and what may be removed is removed.
fn settle<D: Disk>(log: &mut EmbeddedLog<D>) {
    while !log.is_idle() || !log.is_trimmed() {
        if log.do_work(Nanos(0)).unwrap() == 0 {
            log.wait();
        }
    }
}

fn read<D: Disk>(disk: D, from: u64) -> LogReader<D> {
    LogReader::open(disk, SegmentKind::Command, Position(from)).unwrap()
}

/// Reads to the end or the first error; checks all entries. Returns the next position, and the
/// position from which the log goes on.
fn read_on<D: Disk>(reader: &mut LogReader<D>) -> (u64, Option<u64>) {
    loop {
        let at = reader.next_position();
        match reader.next_entry() {
            Ok(Some(found)) => assert_eq!((found.position, found.bytes), (at, &entry(at.0)[..])),
            Ok(None) => return (at.0, None),
            Err(LogError::NotRetained { wanted, first, last }) => {
                assert!(wanted == at && wanted < first && first <= last, "{wanted} {first} {last}");
                return (at.0, Some(first.0));
            }
            Err(other) => panic!("at {at}: {other}"),
        }
    }
}

/// Calls `$check` on a simulated disk and in a directory, with a function that opens it for one
/// more user. In a directory a removed segment's file becomes another segment, under a reader that
/// has it open.
macro_rules! on_both_disks {
    ($($name:ident => $check:ident;)*) => {$(
        mod $name {
            #[test]
            fn on_the_simulated_disk() {
                let disk = super::SimDisk::new(1);
                super::$check(move || disk.clone());
            }
            #[test]
            fn on_the_thread_disk() {
                let dir = tempfile::tempdir().unwrap();
                super::$check(|| super::ThreadDisk::open(dir.path(), None).unwrap());
            }
        }
    )*};
}

on_both_disks! {
    a_reader_of_a_removed_segment_learns_the_first_position_that_there_is => check_removed;
    a_seek_from_a_removed_place_finds_what_is_retained_and_refuses_what_is_not => check_seeks;
}

fn check_removed<D: Disk>(open: impl Fn() -> D) {
    let (mut log, _) = EmbeddedLog::open(config(Durability::Os), open()).unwrap();
    fill(&mut log, 300);
    let mut readers = [1, 2, 60, 119].map(|from| read(open(), from));
    log.truncate(Position(200));
    settle(&mut log);
    fill(&mut log, 200);
    let first = log.first_position().0;
    assert!((150..=200).contains(&first), "{first}");
    for reader in &mut readers {
        assert_eq!(read_on(reader).1, Some(first));
        assert_eq!(read_on(reader).1, Some(first), "again the same");
        reader.seek(Position(first)).unwrap();
        assert_eq!(read_on(reader), (501, None));
    }
}

fn check_seeks<D: Disk>(open: impl Fn() -> D) {
    let (mut log, _) = EmbeddedLog::open(config(Durability::Os), open()).unwrap();
    fill(&mut log, 300);
    for passed in [2, 20, 119, 300] {
        let mut reader = read(open(), 0);
        while reader.next_position().0 < passed {
            reader.next_entry().unwrap();
        }
        let before = log.first_position().0;
        log.truncate(Position(before + 60));
        settle(&mut log);
        fill(&mut log, 30);
        let (first, next) = (log.first_position().0, log.next_position().0);
        assert!(first > before, "{first}");
        for to in [next - 1, first, first + 70, next] {
            reader.seek(Position(to)).unwrap();
            assert_eq!(read_on(&mut reader), (next, None), "from {to}");
        }
        for to in [first - 1, next + 1] {
            check_refusal(&reader.seek(Position(to)).unwrap_err(), to, &log);
        }
    }
}

#[test]
fn the_segments_that_are_retained_are_listed_with_their_size_and_time() {
    let disk = SimDisk::new(1);
    let (mut log, _) = EmbeddedLog::open(config(Durability::Os), disk.clone()).unwrap();
    fill(&mut log, 300);
    log.truncate(Position(100));
    settle(&mut log);
    let segments = retained_segments(&mut disk.clone(), SegmentKind::Command).unwrap();
    assert_eq!(segments[0].first_position, log.first_position());
    assert!(segments.len() > 3 && segments.iter().all(|segment| segment.bytes == 8192));
    // Each entry has a batch of its own, and batches have the times 1, 2, 3 ...
    for segment in segments {
        assert_eq!(segment.log_time_before.0 + 1, segment.first_position.0);
    }
}

/// A log in a directory is written and truncated by one thread and read by two: each gets each
/// entry as it was written, or learns from where the log goes on.
#[test]
fn readers_beside_a_writer_that_truncates_get_no_wrong_entry() {
    const ENTRIES: u64 = 6_000;
    let dir = tempfile::tempdir().unwrap();
    let disk = ThreadDisk::open(dir.path(), None).unwrap();
    let (mut log, _) = EmbeddedLog::open(config(Durability::Os), disk).unwrap();
    fill(&mut log, 1);
    let next = AtomicU64::new(2);
    std::thread::scope(|scope| {
        let (path, next_in_readers) = (dir.path(), &next);
        let reader = |seek| scope.spawn(move || follow(path, next_in_readers, ENTRIES, seek));
        let readers: Vec<_> = [0, 1].map(reader).into();
        for done in 0..ENTRIES / 10 {
            fill(&mut log, 10);
            log.truncate(Position((done * 10).saturating_sub(100)));
            next.store(log.next_position().0, Ordering::Release);
        }
        for reader in readers {
            let read = reader.join().unwrap();
            assert!(read > 0);
        }
    });
}

/// Reads until the last entry; returns the number of entries read.
fn follow(dir: &Path, next: &AtomicU64, entries: u64, seek: u64) -> u64 {
    let mut reader = read(ThreadDisk::open(dir, None).unwrap(), 0);
    let mut count = 0;
    loop {
        let from = reader.next_position().0;
        let (at, first) = read_on(&mut reader);
        count += at - from;
        if at > entries {
            return count;
        }
        let newest = next.load(Ordering::Acquire) - 1;
        let to = if seek == 0 { first } else { Some(newest.saturating_sub(150).max(1)) };
        let Some(to) = to else { continue };
        match reader.seek(Position(to)) {
            Ok(()) => {}
            // Removed meanwhile.
            Err(LogError::NotRetained { wanted, first, .. }) if wanted < first => {
                if reader.seek(first).is_err() {
                    reader = read(ThreadDisk::open(dir, None).unwrap(), 0);
                }
            }
            Err(other) => panic!("seek to {to}: {other}"),
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Append(u64),
    Truncate(u64),
    Read(usize, u64),
    Seek(usize, u64),
    Open(usize, u64),
}

fn step() -> impl Strategy<Value = Op> {
    let reader = 0..3_usize;
    prop_oneof![
        4 => (1..80_u64).prop_map(Op::Append),
        2 => (0..200_u64).prop_map(Op::Truncate),
        4 => (reader.clone(), 1..120_u64).prop_map(|(at, count)| Op::Read(at, count)),
        3 => (reader.clone(), 0..400_u64).prop_map(|(at, to)| Op::Seek(at, to)),
        1 => (reader, 0..400_u64).prop_map(|(at, to)| Op::Open(at, to)),
    ]
}

/// Checks a refusal: the position is not in the log, and the first one that is was told.
fn check_refusal<D: Disk>(error: &LogError, to: u64, log: &EmbeddedLog<D>) {
    let (first, next) = (log.first_position().0, log.next_position().0);
    let LogError::NotRetained { first: told, .. } = error else { panic!("to {to}: {error}") };
    assert!(to < first || to > next, "{to} is in {first}..{next}: {error}");
    assert!(to > next || told.0 == first, "{first}: {error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn readers_of_a_log_that_is_truncated_agree_with_a_range(
        steps in prop::collection::vec(step(), 1..60),
        seed in any::<u64>(),
    ) {
        let disk = SimDisk::new(seed);
        let (mut log, _) = EmbeddedLog::open(config(Durability::Os), disk.clone()).unwrap();
        fill(&mut log, 50);
        let mut readers: Vec<_> = (0..3).map(|_| read(disk.clone(), 1)).collect();
        for step in steps {
            match step {
                Op::Append(count) => fill(&mut log, count),
                Op::Truncate(before) => {
                    log.truncate(Position(before));
                    settle(&mut log);
                }
                Op::Read(at, count) => {
                    let reader = &mut readers[at];
                    for _ in 0..count {
                        let next = reader.next_position();
                        match reader.next_entry() {
                            Ok(Some(found)) => {
                                prop_assert_eq!(found.position, next);
                                prop_assert_eq!(found.bytes, &entry(next.0)[..]);
                            }
                            Ok(None) => {
                                prop_assert_eq!(next, log.next_position());
                                break;
                            }
                            Err(error) => {
                                check_refusal(&error, next.0, &log);
                                reader.seek(log.first_position()).unwrap();
                            }
                        }
                    }
                }
                Op::Seek(at, to) => match readers[at].seek(Position(to)) {
                    Ok(()) => prop_assert!(to == 0 || readers[at].next_position().0 == to),
                    Err(error) => {
                        check_refusal(&error, to, &log);
                        readers[at].seek(log.first_position()).unwrap();
                    }
                },
                Op::Open(at, to) => {
                    match LogReader::open(disk.clone(), SegmentKind::Command, Position(to)) {
                        Ok(reader) => readers[at] = reader,
                        Err(error) => check_refusal(&error, to, &log),
                    }
                }
            }
        }
    }
}
