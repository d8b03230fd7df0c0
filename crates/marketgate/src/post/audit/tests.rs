//! Tests from the sender to the file and back: exact bytes, files cut anywhere, a slow or failing
//! writer, and the size limit.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use weir_feed::capture::Datagram;
use weir_feed::capture::audit::{AuditGap, LineNo, LineTotals};
use weir_types::{Nanos, WallOffset};

use super::super::config::{AuditSection, WhenFull};
use super::super::storage::full::LimitedStorage;
use super::super::storage::{FileSystem, Storage};
use super::*;
use crate::capture::{CaptureFile, Item};

const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3_600 * SECOND;
/// The beginning of an hour.
const START: u64 = 497_000 * HOUR;

/// A received datagram: line, poll time, receive time, source, destination, payload.
type Came = (u16, u64, u64, SocketAddr, SocketAddr, Vec<u8>);

fn lines() -> Vec<String> {
    vec!["A 224.0.0.1:5".to_owned(), "B 224.0.0.2:5".to_owned()]
}

fn config(dir: &Path) -> AuditSection {
    AuditSection { dir: dir.to_owned(), block_bytes: 4_096, ..AuditSection::default() }
}

fn datagram(came: &Came) -> Datagram<'_> {
    Datagram { ts_recv: Nanos(came.2), src: came.3, dst: came.4, payload: &came.5 }
}

/// A datagram of the line with its number in the payload.
fn numbered(line: u16, number: u64, len: usize) -> Came {
    let address = |text: &str| text.parse().expect("an address");
    let mut payload = vec![0; len.max(8)];
    payload[..8].copy_from_slice(&number.to_le_bytes());
    let at = START + number;
    (line, at + 5, at, address("10.0.0.1:4"), address("224.0.0.1:5"), payload)
}

#[derive(Default)]
struct Read {
    lines: Vec<String>,
    came: Vec<Came>,
    gaps: Vec<AuditGap>,
    ends: Vec<(LineNo, LineTotals)>,
    has_end: bool,
    error: Option<String>,
}

impl Read {
    /// The number of datagrams in gaps, by line.
    fn missing(&self) -> [u64; 2] {
        [0, 1].map(|line| {
            let of_line = self.gaps.iter().filter(|gap| gap.line == LineNo(line));
            of_line.map(|gap| gap.datagrams).sum()
        })
    }
}

fn read(path: &Path) -> Read {
    let mut read = Read::default();
    let mut file = match AuditFile::open(path) {
        Ok(file) => file,
        Err(error) => return Read { error: Some(error.to_string()), ..read },
    };
    loop {
        let more = file.next(&mut |item| match item {
            AuditItem::Line(name) => read.lines.push((*name).to_owned()),
            AuditItem::Datagram(it) => {
                let Datagram { ts_recv, src, dst, payload } = it.datagram;
                read.came.push((it.line.0, it.polled.0, ts_recv.0, src, dst, payload.to_vec()));
            }
            AuditItem::Gap(gap) => read.gaps.push(*gap),
            AuditItem::End(line, totals) => read.ends.push((*line, *totals)),
        });
        match more {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                read.error = Some(error.to_string());
                break;
            }
        }
    }
    read.has_end = file.has_end();
    read
}

/// All files, the oldest first.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(dir)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}

fn read_dir(dir: &Path) -> Vec<Read> {
    files(dir).iter().map(|path| read(path)).collect()
}

/// A sender, a receiver and a writer without a thread: the test schedules them.
struct Rig {
    sender: AuditSender,
    receiver: AuditReceiver,
    writer: AuditWriter,
}

impl Rig {
    fn new(config: &AuditSection, queue_bytes: usize, storage: Box<dyn Storage>) -> Rig {
        let (sender, receiver) = audit_queue(queue_bytes, 2);
        let writer = AuditWriter::new(config, &lines(), storage).expect("it begins");
        Rig { sender, receiver, writer }
    }

    /// Sets the wall clock to `ahead` nanoseconds ahead of the time, or behind it.
    fn set_wall_clock(&mut self, ahead: i64) {
        let wall = Nanos(START.saturating_add_signed(ahead));
        let wall = WallOffset::between(Nanos(START), wall);
        self.sender.wall_clock_moved(wall);
        self.writer.wall_clock_moved(wall);
    }

    fn send(&mut self, came: &Came) -> SendOutcome {
        self.sender.send(LineNo(came.0), Nanos(came.1), &datagram(came))
    }

    fn write(&mut self, most: usize, now: u64) {
        let Rig { receiver, writer, .. } = self;
        receiver.take(most, &mut |record| writer.record(record, Nanos(now)));
        writer.tick(Nanos(now));
    }

    fn pass(&mut self, came: &Came, now: u64) {
        assert_eq!(self.send(came), SendOutcome::Taken);
        self.write(usize::MAX, now);
    }

    /// Drops the sender and writes everything that remains.
    fn end(self, now: u64) -> AuditFigures {
        let Rig { sender, mut receiver, mut writer } = self;
        drop(sender);
        receiver.take(usize::MAX, &mut |record| writer.record(record, Nanos(now)));
        assert!(receiver.is_over());
        writer.finish(Nanos(now));
        writer.figures()
    }
}

fn came() -> impl Strategy<Value = Came> {
    let time = prop_oneof![Just(0), Just(u64::MAX), START..START + HOUR];
    let address = prop_oneof![
        (any::<[u8; 4]>(), any::<[u8; 4]>(), any::<u16>(), any::<u16>())
            .prop_map(|(src, dst, from, to)| ((src, from).into(), (dst, to).into())),
        (any::<[u8; 16]>(), any::<[u8; 16]>(), any::<u16>(), any::<u16>())
            .prop_map(|(src, dst, from, to)| ((src, from).into(), (dst, to).into())),
    ];
    let payload = prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 0..300),
        1 => (any::<u8>(), 0_usize..=65_507).prop_map(|(step, len)| {
            (0..len).map(|at| (at as u8).wrapping_mul(step)).collect()
        }),
    ];
    (0_u16..2, time.clone(), time, address, payload).prop_map(
        |(line, polled, came, (src, dst), payload)| (line, polled, came, src, dst, payload),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_replayed_is_what_came_bit_for_bit_on_its_line_at_its_times(
        all in proptest::collection::vec(came(), 1..40), at_once in 1_usize..9,
        queue in 140_000_usize..200_000, file_bytes in 4_096_u64..20_000,
    ) {
        let dir = tempfile::tempdir().expect("a directory");
        let config = AuditSection { file_bytes, ..config(dir.path()) };
        let mut rig = Rig::new(&config, queue, Box::new(FileSystem));
        for (index, one) in all.iter().enumerate() {
            prop_assert_eq!(rig.send(one), SendOutcome::Taken, "there is room for two");
            if index % at_once == 0 || one.5.len() > 1_000 {
                rig.write(usize::MAX, START);
            }
        }
        let figures = rig.end(START);
        let read = read_dir(dir.path());
        let mut replayed = Vec::new();
        for file in read {
            prop_assert_eq!(&file.error, &None);
            prop_assert_eq!((file.lines, file.has_end, file.gaps), (lines(), true, vec![]));
            let written: u64 = file.ends.iter().map(|end| end.1.written).sum();
            prop_assert_eq!(written, file.came.len() as u64);
            replayed.extend(file.came);
        }
        prop_assert_eq!(figures.datagrams, all.len() as u64);
        prop_assert_eq!(replayed, all);
    }

    #[test]
    fn a_sender_is_never_kept_waiting_and_what_it_dropped_is_what_gaps_say(
        steps in proptest::collection::vec((0_u16..2, 8_usize..900, 0_usize..3), 1..200),
        queue in 600_usize..4_000,
    ) {
        let dir = tempfile::tempdir().expect("a directory");
        let mut rig = Rig::new(&config(dir.path()), queue, Box::new(FileSystem));
        let (mut kept, mut dropped) = (Vec::new(), [0_u64; 2]);
        for (number, (line, len, written)) in (0..).zip(steps) {
            let one = numbered(line, number, len);
            match rig.send(&one) {
                SendOutcome::Taken => kept.push(one),
                SendOutcome::Dropped => dropped[usize::from(line)] += 1,
            }
            // The writer takes none, one or two of the waiting records.
            rig.write(written, START);
        }
        prop_assert_eq!(rig.sender.dropped(), dropped.iter().sum::<u64>());
        let figures = rig.end(START);
        let read = read_dir(dir.path());
        prop_assert_eq!(figures.missing, dropped.iter().sum::<u64>());
        let missing = read.iter().fold([0, 0], |sum: [u64; 2], file| {
            let more = file.missing();
            [sum[0] + more[0], sum[1] + more[1]]
        });
        prop_assert_eq!(missing, dropped);
        let replayed: Vec<Came> = read.into_iter().flat_map(|file| file.came).collect();
        prop_assert_eq!(replayed, kept);
    }
}

#[test]
fn a_gap_stands_where_its_datagrams_would_and_says_when_they_came() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut rig = Rig::new(&config(dir.path()), 300, Box::new(FileSystem));
    let one = |number| numbered(1, number, 100);
    assert_eq!(rig.send(&one(1)), SendOutcome::Taken);
    assert_eq!(
        [2, 3, 4].map(|number| rig.send(&one(number))),
        [SendOutcome::Dropped, SendOutcome::Dropped, SendOutcome::Dropped,]
    );
    rig.write(9, START);
    assert_eq!(rig.send(&one(5)), SendOutcome::Taken);
    assert_eq!(rig.send(&one(6)), SendOutcome::Dropped);
    rig.end(START);
    let file = read(&files(dir.path())[0]);
    let of = |datagrams, from, to| AuditGap {
        line: LineNo(1),
        datagrams,
        from: Nanos(START + from),
        to: Nanos(START + to),
    };
    assert_eq!(file.gaps, [of(3, 2, 4), of(1, 6, 6)]);
    assert_eq!(file.came, [one(1), one(5)]);
    assert_eq!(file.ends[1], (LineNo(1), LineTotals { written: 2, missing: 4 }));
}

#[test]
fn a_file_cut_at_any_byte_reads_up_to_the_cut_and_says_that_it_was_cut() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut rig = Rig::new(&config(dir.path()), 1 << 20, Box::new(FileSystem));
    let all: Vec<Came> = (0..60).map(|number| numbered(0, number, 150)).collect();
    for one in &all {
        rig.pass(one, START);
    }
    rig.end(START);
    let path = &files(dir.path())[0];
    let bytes = fs::read(path).expect("it was written");
    let (mut counts, mut clean) = (Vec::new(), 0);
    let cut_path = dir.path().join("cut");
    for cut in 0..bytes.len() {
        fs::write(&cut_path, &bytes[..cut]).expect("it is written");
        let file = read(&cut_path);
        assert_eq!(file.came[..], all[..file.came.len()], "cut at {cut}");
        assert!(!file.has_end, "cut at {cut}");
        let is_between_blocks = file.error.is_none();
        clean += u32::from(is_between_blocks);
        counts.push(file.came.len());
    }
    assert!(counts.is_sorted() && counts[bytes.len() - 1] == all.len());
    assert!((1..10).contains(&clean), "only between blocks it looks whole: {clean}");
    assert!(read(path).has_end);
}

#[test]
fn every_tool_for_captures_reads_an_audit() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut rig = Rig::new(&config(dir.path()), 1 << 20, Box::new(FileSystem));
    for number in 0..500 {
        rig.pass(&numbered(0, number, 99), START);
    }
    rig.end(START);
    let mut file = CaptureFile::open(&files(dir.path())[0]).expect("it opens");
    let mut numbers = Vec::new();
    while file
        .next(&mut |item| {
            let Item::Datagram(it) = item else { panic!("{item:?}") };
            numbers.push(u64::from_le_bytes(*it.payload.first_chunk().expect("eight bytes")));
        })
        .expect("it reads")
    {}
    assert!(numbers.into_iter().eq(0..500));
}

#[test]
fn a_file_ends_at_its_size_and_at_the_hour_and_names_sort_by_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = AuditSection { file_bytes: 4_096, ..config(dir.path()) };
    let mut rig = Rig::new(&config, 1 << 20, Box::new(FileSystem));
    let mut chance = 7_u64;
    for number in 0..40 {
        let mut one = numbered(0, number, 400);
        one.5.iter_mut().skip(8).for_each(|byte| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (chance >> 56) as u8;
        });
        rig.pass(&one, START + number);
    }
    let by_size = files(dir.path()).len();
    assert!((3..=5).contains(&by_size), "{by_size}");
    rig.pass(&numbered(0, 40, 8), START + HOUR - 1);
    rig.write(0, START + HOUR);
    rig.pass(&numbered(0, 41, 8), START + HOUR);
    rig.end(START + HOUR + 5);
    let read = read_dir(dir.path());
    assert_eq!(read.len(), by_size + 1, "the hour ended one");
    assert!(read.iter().all(|file| file.has_end && file.lines == lines()));
    let numbers = read.iter().flat_map(|file| &file.came).map(|one| one.2 - START);
    assert!(numbers.eq(0..42), "they follow each other");
}

#[test]
fn names_hours_and_polls_are_of_the_wall_clock_and_intervals_of_the_time() {
    let ahead = 26 * HOUR + HOUR / 2;
    let dir = tempfile::tempdir().expect("a directory");
    let mut rig = Rig::new(&config(dir.path()), 1 << 20, Box::new(FileSystem));
    rig.set_wall_clock(ahead.cast_signed());
    rig.pass(&numbered(0, 0, 8), START);
    let first = rig.writer.path().expect("a file");
    assert_eq!(first, dir.path().join(file_name(Nanos(START + ahead))));
    // The wall clock's hour is over in the middle of the time's.
    rig.pass(&numbered(0, 1, 8), START + HOUR / 2 - 1);
    assert_eq!(rig.writer.path(), Some(first));
    rig.write(0, START + HOUR / 2);
    assert_eq!(rig.writer.path(), None);
    // What waits is written after its time, though the clock was set back meanwhile.
    let at = START + HOUR / 2 + 1;
    rig.pass(&numbered(0, 2, 8), at);
    let bytes = rig.writer.figures().bytes;
    rig.set_wall_clock(ahead.cast_signed() - 1);
    rig.write(0, at + SECOND - 1);
    assert_eq!(rig.writer.figures().bytes, bytes);
    rig.write(0, at + SECOND);
    assert!(rig.writer.figures().bytes > bytes);
    rig.end(at + SECOND);
    let polled = read_dir(dir.path()).into_iter().flat_map(|file| file.came).map(|one| one.1);
    assert!(polled.eq((0..3).map(|number| START + number + 5 + ahead)));
}

#[test]
fn a_backlog_is_no_longer_when_the_wall_clock_was_set() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut rig = Rig::new(&config(dir.path()), 1 << 20, Box::new(FileSystem));
    for (number, hours) in (0..).zip([1, 5, -2, 3]) {
        rig.set_wall_clock(hours * HOUR.cast_signed());
        assert_eq!(rig.send(&numbered(0, number, 8)), SendOutcome::Taken);
    }
    rig.write(1, START);
    assert_eq!(rig.receiver.figures().behind, Nanos(3));
}

#[test]
fn the_oldest_file_by_name_is_the_oldest_after_a_start_behind_a_clock_that_was_set_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = config(dir.path());
    for (number, hours) in [(0, 26), (1, -3), (2, 0), (3, 27)] {
        let mut rig = Rig::new(&config, 1 << 20, Box::new(FileSystem));
        rig.set_wall_clock(hours * HOUR.cast_signed());
        rig.pass(&numbered(0, number, 8), START + number);
        rig.end(START + number);
    }
    let read = read_dir(dir.path());
    assert_eq!(read.len(), 4);
    assert!(read.iter().flat_map(|file| &file.came).map(|one| one.2 - START).eq(0..4));
}

#[test]
fn the_oldest_files_go_when_all_would_be_more_than_the_bound() {
    let dir = tempfile::tempdir().expect("a directory");
    let keep_bytes = 400_000;
    let config = AuditSection { file_bytes: 4_096, keep_bytes, ..config(dir.path()) };
    fs::write(dir.path().join("not-ours"), vec![0; 500_000]).expect("it is written");
    let mut rig = Rig::new(&config, 1 << 20, Box::new(FileSystem));
    let mut chance = 7_u64;
    for number in 0..1_500 {
        let mut one = numbered(0, number, 600);
        one.5.iter_mut().skip(8).for_each(|byte| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (chance >> 56) as u8;
        });
        rig.pass(&one, START + number);
        let of_ours = || files(dir.path()).into_iter().filter(|path| !path.ends_with("not-ours"));
        if number % 50 == 0 {
            let bytes: u64 =
                of_ours().map(|path| fs::metadata(path).expect("it is there").len()).sum();
            assert!(bytes <= keep_bytes, "{bytes}");
            assert_eq!(bytes, rig.writer.figures().kept_bytes);
        }
    }
    let figures = rig.end(START + 9_999);
    assert!(figures.deleted > 50 && figures.lost == 0, "{figures:?}");
    assert!(dir.path().join("not-ours").exists());
    let last = files(dir.path()).into_iter().filter(|path| !path.ends_with("not-ours"));
    let numbers: Vec<u64> =
        last.flat_map(|path| read(&path).came).map(|one| one.2 - START).collect();
    let first = numbers[0];
    assert!(first > 500 && numbers.into_iter().eq(first..1_500), "the newest stay");
}

#[test]
fn at_the_bound_it_stops_tells_so_and_goes_on_when_there_is_room() {
    let dir = tempfile::tempdir().expect("a directory");
    let when_full = WhenFull::Stop;
    let keep_bytes = 12_000;
    let config = AuditSection { file_bytes: 5_000, keep_bytes, when_full, ..config(dir.path()) };
    let mut rig = Rig::new(&config, 1 << 20, Box::new(FileSystem));
    let mut sent = 0;
    let mut chance = 7_u64;
    while !rig.writer.figures().is_stopped {
        let mut one = numbered(1, sent, 600);
        one.5.iter_mut().skip(8).for_each(|byte| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (chance >> 56) as u8;
        });
        rig.pass(&one, START);
        sent += 1;
        assert!(sent < 100, "it stops");
    }
    let before = read_dir(dir.path());
    assert!(before.iter().all(|file| file.has_end), "what there is was ended in order");
    assert!(rig.writer.figures().kept_bytes <= keep_bytes + 1_000);
    // Nothing is retried before its time, and no room is found after it.
    for at in [1, 999_999_999, SECOND, 2 * SECOND] {
        rig.pass(&numbered(1, sent, 8), START + at);
        sent += 1;
        assert!(rig.writer.figures().is_stopped);
    }
    for path in files(dir.path()) {
        fs::remove_file(path).expect("somebody makes room");
    }
    rig.pass(&numbered(1, sent, 8), START + 4 * SECOND);
    let figures = rig.end(START + 4 * SECOND);
    assert!(!figures.is_stopped && figures.deleted == 0, "{figures:?}");
    let kept: usize = before.iter().map(|file| file.came.len()).sum();
    let after = read(&files(dir.path())[0]);
    assert_eq!(after.came, [numbered(1, sent, 8)]);
    assert_eq!(after.missing(), [0, sent - kept as u64], "all between is told");
    assert_eq!(figures.lost, sent - kept as u64);
}

#[test]
fn a_full_disk_loses_whole_blocks_which_the_next_file_tells() {
    let dir = tempfile::tempdir().expect("a directory");
    let disk = LimitedStorage::with(9_000);
    let mut rig = Rig::new(&config(dir.path()), 1 << 20, Box::new(disk.clone()));
    let mut chance = 7_u64;
    for number in 0..60 {
        let mut one = numbered(0, number, 600);
        one.5.iter_mut().skip(8).for_each(|byte| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (chance >> 56) as u8;
        });
        rig.pass(&one, START);
    }
    assert!(rig.writer.figures().is_stopped);
    let first = read(&files(dir.path())[0]);
    assert_eq!((first.error, first.has_end), (None, false), "cut back to a whole block");
    disk.set(u64::MAX);
    rig.pass(&numbered(0, 60, 8), START + 2 * SECOND);
    let figures = rig.end(START + 2 * SECOND);
    let second = read(&files(dir.path())[1]);
    assert_eq!(files(dir.path()).len(), 2, "no empty file is left");
    assert_eq!(second.came, [numbered(0, 60, 8)]);
    let lost = 60 - first.came.len() as u64;
    assert!(lost > 40);
    assert_eq!(
        second.gaps,
        [AuditGap {
            line: LineNo(0),
            datagrams: lost,
            from: Nanos(START + 60 - lost),
            to: Nanos(START + 59),
        }]
    );
    assert_eq!((figures.lost, figures.datagrams), (lost, 61 - lost));
}

#[test]
fn what_waits_is_written_after_a_while_and_what_no_capture_holds_is_a_gap() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut rig = Rig::new(&config(dir.path()), 1 << 20, Box::new(FileSystem));
    rig.pass(&numbered(0, 0, 8), START);
    rig.write(0, START + SECOND - 1);
    assert_eq!(rig.writer.figures().bytes, 0);
    rig.write(0, START + SECOND);
    let path = rig.writer.path().expect("a file");
    let now = read(&path);
    assert_eq!((now.came.len(), now.has_end, now.error), (1, false, None));
    let mut odd = numbered(0, 1, 8);
    odd.4 = "[::1]:5".parse().expect("an address");
    rig.pass(&odd, START + SECOND);
    let figures = rig.end(START + SECOND);
    assert_eq!((figures.lost, read(&path).missing()), (1, [1, 0]));
}

#[test]
fn threads_pass_datagrams_in_order_or_tell_how_many_are_missing() {
    let (mut sender, mut receiver) = audit_queue(3_000, 2);
    let count = 200_000;
    let sending = std::thread::spawn(move || {
        for number in 0..count {
            let one = numbered((number % 2) as u16, number, 8 + (number % 90) as usize);
            let _: SendOutcome = sender.send(LineNo(one.0), Nanos(one.1), &datagram(&one));
        }
        sender.dropped()
    });
    let (mut last, mut taken, mut missing) = (None, 0, 0);
    while !receiver.is_over() {
        receiver.take(64, &mut |record| match record {
            AuditRecord::Gap(gap) => missing += gap.datagrams,
            AuditRecord::Datagram(it) => {
                let payload = it.datagram.payload;
                let number = u64::from_le_bytes(*payload.first_chunk().expect("eight bytes"));
                assert!(last < Some(number));
                assert_eq!(payload.len(), 8.max(8 + (number % 90) as usize));
                assert_eq!(
                    (it.line.0, it.polled),
                    ((number % 2) as u16, Nanos(START + number + 5))
                );
                last = Some(number);
                taken += 1;
            }
        });
    }
    assert_eq!(sending.join().expect("it sent"), missing);
    assert_eq!(taken + missing, count);
    assert_eq!(receiver.figures().waiting, 0);
}
