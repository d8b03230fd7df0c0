//! The archive on simulated disks: copies that fail or read back wrong, crashes, gaps and damage.

use weir_io::disk::sim::{Room, Shortage};
use weir_io::{Access, Disk, DiskErrorKind, SimDisk, SimFaults};
use weir_log::{Append, Batch, EmbeddedLog, LogConfig, LogReader, Push, SequencedLog, inspect};
use weir_runtime::Agent;
use weir_types::{Durability, Nanos, PartitionId};

use super::agent::{ArchiveAgent, ArchiveParts, OpenDir};
use super::store::{
    SealedSegment, SegmentArchive, archived_names, archived_segment, read_header, segment_names,
};
use super::whole::{WholeLog, put_back};
use super::*;
use crate::PartitionFigures;

const HERE: PartitionId = PartitionId(1);
const LOG_ID: u128 = 7;
const SECOND: u64 = 1_000_000_000;

/// Returns the directory of a command log whose entries have the number of their position and this
/// text: some 50 in a segment.
fn log_of(count: u64, text: &str) -> SimDisk {
    let disk = SimDisk::new(1);
    let (mut log, _) = EmbeddedLog::open(config(), disk.clone()).unwrap();
    append(&mut log, 1..=count, text);
    log.flush_blocking().unwrap();
    disk.after_process_crash()
}

fn config() -> LogConfig {
    LogConfig { durability: Durability::Disk, segment_bytes: 8_192, ..LogConfig::new(HERE, LOG_ID) }
}

fn append(log: &mut EmbeddedLog<SimDisk>, numbers: std::ops::RangeInclusive<u64>, text: &str) {
    for number in numbers {
        let mut batch = Batch::new();
        assert_eq!(batch.push(entry(number, text).as_bytes()), Push::Taken);
        assert!(matches!(log.append(log.epoch(), Nanos(number), &batch), Append::At { .. }));
    }
}

/// Returns a log of ten entries and closing marks that fill the rest of its first segment, a second
/// one with marks alone, and 190 entries from the third on: the second and the third begin at the
/// same position.
fn log_with_marks_alone(text: &str) -> SimDisk {
    let mut disk = SimDisk::new(1);
    let mut last = 0;
    while last < 200 {
        let (mut log, _) = EmbeddedLog::open(config(), disk.clone()).unwrap();
        let upto = if last == 0 { 10 } else { 200 };
        if last == 0 || names_of(&disk).len() == 3 {
            append(&mut log, last + 1..=upto, text);
            last = upto;
        }
        log.close().unwrap();
        drop(log);
        disk = disk.after_process_crash();
    }
    let begins: Vec<_> = names_of(&disk).iter().map(|name| first_of(name)).collect();
    assert_eq!(begins[..3], [1, 11, 11]);
    assert!(begins.len() > 4 && begins[3] > 11, "{begins:?}");
    disk
}

fn entry(number: u64, text: &str) -> String {
    format!("{text} {number:060}")
}

fn names_of(log: &SimDisk) -> Vec<String> {
    segment_names(&mut log.clone(), SegmentKind::Command).unwrap()
}

fn first_of(name: &str) -> u64 {
    name.split_once('-').unwrap().0.parse().unwrap()
}

fn sealed(log: &SimDisk, index: usize) -> SealedSegment {
    let names = names_of(log);
    let mut log = log.clone();
    let next = read_header(&mut log, &names[index + 1], SegmentKind::Command).unwrap();
    SealedSegment::read(&mut log, &names[index], &next).unwrap()
}

/// Stores the oldest `count` segments and removes them from the log.
fn archive_and_remove(log: &SimDisk, archive: &SimDisk, count: usize) {
    let names = names_of(log);
    let mut store = SegmentArchive::new(archive.clone());
    for index in 0..count {
        assert!(store.store(&sealed(log, index)).unwrap() > 0);
    }
    for name in &names[..count] {
        log.clone().remove(name).unwrap();
    }
    log.clone().sync_dir().unwrap();
}

fn opens(disk: &SimDisk) -> OpenDir<SimDisk> {
    let disk = disk.clone();
    Box::new(move || Ok(disk.clone()))
}

type Whole = WholeLog<SimDisk, SimDisk>;

fn whole(log: &SimDisk, archive: &SimDisk) -> Result<Whole, ArchiveError> {
    WholeLog::open(log.clone(), Some(archive.clone()), SegmentKind::Command)
}

/// Checks that archive and log have all entries.
fn check_whole(log: &SimDisk, archive: &SimDisk, count: u64, text: &str) {
    let mut reader =
        LogReader::open(whole(log, archive).unwrap(), SegmentKind::Command, Position(1)).unwrap();
    for number in 1..=count {
        let read = reader.next_entry().unwrap().expect("an entry");
        assert_eq!((read.position.0, read.bytes), (number, entry(number, text).as_bytes()));
    }
    assert_eq!(reader.next_entry().unwrap(), None);
    let found = inspect(&mut whole(log, archive).unwrap(), SegmentKind::Command).unwrap();
    assert_eq!(found.expect("a log").positions, 1..count + 1);
}

#[test]
fn an_archive_and_its_log_read_as_one_log_from_its_first_entry() {
    let (log, archive) = (log_of(400, "a"), SimDisk::new(2));
    check_whole(&log, &archive, 400, "a");
    archive_and_remove(&log, &archive, 3);
    check_whole(&log, &archive, 400, "a");
    // While the log removes further segments under a reader.
    let mut reader =
        LogReader::open(whole(&log, &archive).unwrap(), SegmentKind::Command, Position(1)).unwrap();
    assert!(reader.next_entry().unwrap().is_some());
    archive_and_remove(&log, &archive, 2);
    let rest = std::iter::from_fn(|| reader.next_entry().unwrap().map(|read| read.position.0));
    assert!(rest.eq(2..=400));
}

/// The log takes the file away that a reader reads, and overwrites it for its next segment: the
/// segment's name goes on as the archive's file.
#[test]
fn a_reader_goes_on_in_the_archives_file_of_the_segment_that_it_reads() {
    const COUNT: u64 = 6_000;
    let disk = SimDisk::new(1);
    // Each segment is longer than what a reader reads ahead.
    let config = LogConfig { segment_bytes: 1 << 19, ..config() };
    let (mut writer, _) = EmbeddedLog::open(config, disk.clone()).unwrap();
    append(&mut writer, 1..=COUNT, "a");
    writer.flush_blocking().unwrap();
    let (log, archive) = (disk.after_process_crash(), SimDisk::new(2));
    let mut reader =
        LogReader::open(whole(&log, &archive).unwrap(), SegmentKind::Command, Position(1)).unwrap();
    for number in 1..=COUNT {
        let oldest = names_of(&log)[0].clone();
        if number == 10 {
            let mut file = log.clone();
            let taken = file.open(&oldest, Access::Write).unwrap();
            archive_and_remove(&log, &archive, 1);
            let zeros = vec![0; file.len(taken).unwrap() as usize];
            file.write_all(taken, 0, &zeros).unwrap();
        }
        let read = reader.next_entry().unwrap().expect("an entry");
        assert_eq!((read.position.0, read.bytes), (number, entry(number, "a").as_bytes()));
    }
}

#[test]
fn a_segment_that_is_stored_twice_is_the_same_file() {
    let log = log_of(200, "a");
    let disks = [SimDisk::new(2), SimDisk::new(3)];
    for disk in &disks {
        let mut store = SegmentArchive::new(disk.clone());
        let segment = sealed(&log, 0);
        assert!(store.store(&segment).unwrap() > 0);
        let syncs = disk.counts().syncs;
        assert_eq!(store.store(&segment).unwrap(), 0);
        assert_eq!(disk.counts().syncs, syncs + 1, "its name is made durable again");
    }
    let name = sealed(&log, 0).archived_name();
    assert!(disks[0].contents(&name).is_some());
    assert_eq!(disks[0].contents(&name), disks[1].contents(&name));
    assert!(disks[0].contents(&name).unwrap().len() < sealed(&log, 0).bytes().len() / 2);
    // A damaged one is replaced.
    let sound = disks[0].contents(&name);
    disks[0].flip_bit(&name, 8 * 40);
    assert!(SegmentArchive::new(disks[0].clone()).store(&sealed(&log, 0)).unwrap() > 0);
    assert_eq!(disks[0].contents(&name), sound);
}

#[test]
fn logs_that_went_apart_share_a_directory_and_no_file() {
    let (one, other, archive) = (log_of(300, "a"), log_of(300, "b"), SimDisk::new(2));
    for log in [&one, &other] {
        archive_and_remove(log, &archive, 2);
    }
    assert_eq!(archived_names(&mut archive.clone(), SegmentKind::Command).unwrap().len(), 4);
    check_whole(&one, &archive, 300, "a");
    check_whole(&other, &archive, 300, "b");
}

#[test]
fn a_damaged_segment_of_the_log_is_not_stored() {
    let (log, archive) = (log_of(200, "a"), SimDisk::new(2));
    let names = names_of(&log);
    log.flip_bit(&names[0], 8 * 5_000);
    let mut disk = log.clone();
    let next = read_header(&mut disk, &names[1], SegmentKind::Command).unwrap();
    let error = SealedSegment::read(&mut disk, &names[0], &next).unwrap_err().to_string();
    assert!(error.contains(&names[0]) && error.contains("damaged"), "{error}");
    let mut world = World::new(&log, &archive);
    world.want(1);
    world.agent.do_work(Nanos(1));
    assert!(world.is_failing());
    assert_eq!(archive.usage().file_count, 0);
}

#[test]
fn a_copy_that_reads_back_as_other_bytes_gets_no_name() {
    let log = log_of(200, "a");
    let mut flips = 0;
    for at in 0.. {
        let archive = SimDisk::new(2);
        archive.set_faults(SimFaults { write_flips_at: Some(at), ..SimFaults::default() });
        let stored = SegmentArchive::new(archive.clone()).store(&sealed(&log, 0));
        if at >= archive.counts().writes {
            assert!(stored.unwrap() > 0);
            break;
        }
        flips += 1;
        assert!(matches!(stored, Err(ArchiveError::Unlike { .. })), "write {at}: {stored:?}");
        assert_eq!(archive.usage().file_count, 0, "write {at}");
    }
    assert!(flips > 0);
}

#[test]
fn a_gap_in_the_archive_is_named() {
    let (log, archive) = (log_of(400, "a"), SimDisk::new(2));
    archive_and_remove(&log, &archive, 3);
    let names = archived_names(&mut archive.clone(), SegmentKind::Command).unwrap();
    let begins: Vec<_> = names.iter().map(|name| first_of(&name.segment)).collect();
    let log_begins = first_of(&names_of(&log)[0]);
    for (index, last) in [(0, begins[1] - 1), (1, begins[2] - 1), (2, log_begins - 1)] {
        let archive = archive.after_process_crash();
        archive.clone().remove(&names[index].file).unwrap();
        let error = whole(&log, &archive).err().expect("a gap");
        let ArchiveError::Gap { last: found, .. } = error else { panic!("{error}") };
        assert_eq!(found.0, last, "without file {index}");
    }
}

#[test]
fn a_damaged_file_of_the_archive_is_named() {
    let (log, archive) = (log_of(400, "a"), SimDisk::new(2));
    archive_and_remove(&log, &archive, 3);
    let names = archived_names(&mut archive.clone(), SegmentKind::Command).unwrap();
    let length = archive.contents(&names[1].file).unwrap().len() as u64;
    for byte in (0..length).step_by(31) {
        let archive = archive.after_process_crash();
        archive.flip_bit(&names[1].file, 8 * byte + byte % 8);
        let read = whole(&log, &archive).map_err(|error| error.to_string()).and_then(|mut disk| {
            inspect(&mut disk, SegmentKind::Command).map_err(|error| error.to_string())
        });
        let error = read.expect_err("it is damaged");
        assert!(error.contains(&names[1].file), "byte {byte}: {error}");
    }
}

#[test]
fn segments_that_are_put_back_make_the_log_whole_after_any_crash() {
    let (log, archive) = (log_of(400, "a"), SimDisk::new(2));
    archive_and_remove(&log, &archive, 4);
    let before = log.after_process_crash();
    assert_eq!(put_back(&mut log.clone(), &mut archive.clone(), SegmentKind::Command).unwrap(), 4);
    check_whole(&log, &SimDisk::new(3), 400, "a");
    for at in 0.. {
        let disk = before.after_process_crash();
        let kind = DiskErrorKind::Io;
        disk.set_faults(SimFaults { call_fails_at: Some((at, kind)), ..SimFaults::default() });
        let put = put_back(&mut disk.clone(), &mut archive.clone(), SegmentKind::Command);
        let is_done = disk.failed_call().is_none();
        for choice in disk.crash_choices() {
            let disk = disk.after_power_loss(choice);
            check_whole(&disk, &archive, 400, "a");
            put_back(&mut disk.clone(), &mut archive.clone(), SegmentKind::Command).unwrap();
            check_whole(&disk, &SimDisk::new(3), 400, "a");
        }
        if is_done {
            put.unwrap();
            break;
        }
    }
}

/// The agent over a log.
struct World {
    agent: ArchiveAgent<SimDisk, SimDisk>,
    places: ArchivePlaces,
    figures: Arc<PartitionFigures>,
    log: SimDisk,
}

impl World {
    fn new(log: &SimDisk, archive: &SimDisk) -> World {
        let (places, figures) = (ArchivePlaces::default(), Arc::new(PartitionFigures::default()));
        let agent = ArchiveAgent::new(ArchiveParts {
            partition_id: HERE,
            commands: opens(log),
            events: opens(&SimDisk::new(9)),
            archive: opens(archive),
            places: places.clone(),
            figures: figures.clone(),
        });
        World { agent, places, figures, log: log.clone() }
    }

    /// Asks for the oldest `count` segments.
    fn want(&self, count: usize) {
        self.places.want(SegmentKind::Command, self.begins(count));
    }

    /// Returns the position at which a segment begins.
    fn begins(&self, index: usize) -> Position {
        Position(first_of(&names_of(&self.log)[index]))
    }

    fn stored(&self) -> Position {
        self.places.stored(SegmentKind::Command)
    }

    fn is_failing(&self) -> bool {
        self.figures.counters.is_archive_failing.load(Ordering::Relaxed)
    }

    fn run(&mut self, seconds: std::ops::Range<u64>) {
        for tenth in 10 * seconds.start..10 * seconds.end {
            self.agent.do_work(Nanos(tenth * SECOND / 10));
        }
    }
}

#[test]
fn segments_are_stored_as_far_as_they_are_asked_for() {
    let (log, archive) = (log_of(400, "a"), SimDisk::new(2));
    let mut world = World::new(&log, &archive);
    world.run(0..2);
    assert_eq!((world.stored(), archive.usage().file_count), (Position(0), 0));
    world.want(2);
    world.run(2..4);
    assert_eq!((world.stored(), archive.usage().file_count), (world.begins(2), 2));
    world.want(3);
    world.run(4..6);
    assert_eq!((world.stored(), archive.usage().file_count), (world.begins(3), 3));
    // The next run finds them, and writes nothing.
    let mut next = World::new(&log, &archive);
    next.want(3);
    let before = archive.counts().writes;
    next.run(0..2);
    assert_eq!((next.stored(), archive.counts().writes), (next.begins(3), before));
    assert_eq!(next.figures.counters.archived_bytes.load(Ordering::Relaxed), 0);
}

#[test]
fn a_segment_with_marks_alone_is_stored_and_the_one_that_begins_where_it_does() {
    let (log, archive) = (log_with_marks_alone("a"), SimDisk::new(2));
    let mut world = World::new(&log, &archive);
    // Everything before the position at which both begin, and nobody knows whether both are meant.
    world.want(1);
    world.run(0..2);
    assert_eq!((world.stored(), archive.usage().file_count), (Position(11), 2));
    world.want(3);
    world.run(2..4);
    assert_eq!((world.stored(), archive.usage().file_count), (world.begins(3), 3));
    assert!(!world.is_failing());
    // A start that finds the first of the two goes on with the second.
    let marks = sealed(&log, 1).archived_name();
    let lacking = archive.after_process_crash();
    lacking.clone().remove(&sealed(&log, 2).archived_name()).unwrap();
    for begun in [&lacking, &archive] {
        let mut next = World::new(&log, begun);
        next.want(3);
        next.run(0..2);
        assert_eq!((next.stored(), begun.usage().file_count), (next.begins(3), 3));
    }
    for name in &names_of(&log)[..3] {
        log.clone().remove(name).unwrap();
    }
    check_whole(&log, &archive, 200, "a");
    // Without the marks the chain of frames is broken, although no entry is missing.
    archive.clone().remove(&marks).unwrap();
    let error = whole(&log, &archive).err().expect("a gap");
    assert!(matches!(error, ArchiveError::Gap { last: Position(10), .. }), "{error}");
}

#[test]
fn a_full_archive_stores_nothing_until_it_has_room_and_tells() {
    let (log, archive) = (log_of(400, "a"), SimDisk::new(2));
    let mut world = World::new(&log, &archive);
    let without_room = Shortage { room: Room::None, ..Shortage::default() };
    archive.set_shortage(without_room);
    world.want(3);
    world.run(0..12);
    assert!(world.is_failing());
    let failures = world.figures.counters.archive_failures.load(Ordering::Relaxed);
    assert!((2..=3).contains(&failures), "{failures} tries in 12 s");
    assert_eq!((world.stored(), archive.usage().file_count), (Position(0), 0));
    archive.set_shortage(Shortage::default());
    world.run(12..20);
    assert!(!world.is_failing());
    assert_eq!(world.stored(), world.begins(3));
    assert_eq!(world.figures.counters.archive_failures.load(Ordering::Relaxed), failures);
}

#[test]
fn a_crash_at_any_call_leaves_whole_files_and_the_next_run_goes_on() {
    let log = log_of(200, "a");
    let wanted: Vec<_> = (0..2).map(|index| sealed(&log, index)).collect();
    for at in 0.. {
        let archive = SimDisk::new(2);
        let kind = DiskErrorKind::Io;
        archive.set_faults(SimFaults { call_fails_at: Some((at, kind)), ..SimFaults::default() });
        let mut world = World::new(&log, &archive);
        world.want(2);
        // Until the failure, and not again after it.
        world.run(0..2);
        let stored = world.stored();
        for choice in archive.crash_choices() {
            let mut left = archive.after_power_loss(choice);
            let names = archived_names(&mut left, SegmentKind::Command).unwrap();
            for segment in &wanted {
                let name = segment.archived_name();
                let is_there = names.iter().any(|archived| archived.file == name);
                let begins_before = Position(first_of(&segment.name())) < stored;
                assert!(is_there || !begins_before, "call {at}, {choice:?}: {name} is lost");
                if is_there {
                    let archived = names.iter().find(|archived| archived.file == name);
                    let archived = archived.expect("it is there");
                    let read = archived_segment(&mut left, archived, SegmentKind::Command);
                    assert_eq!(read.unwrap().bytes(), segment.bytes(), "call {at}, {choice:?}");
                }
            }
            let mut next = World::new(&log, &left);
            next.want(2);
            next.run(0..2);
            assert_eq!(next.stored(), next.begins(2), "call {at}, {choice:?}");
        }
        if archive.failed_call().is_none() {
            assert_eq!(stored, world.begins(2));
            break;
        }
    }
}

#[test]
fn a_segment_that_went_without_a_copy_is_passed_over() {
    let (log, archive) = (log_of(400, "a"), SimDisk::new(2));
    let mut world = World::new(&log, &archive);
    world.want(3);
    let (oldest, begins) = (names_of(&log)[0].clone(), world.begins(3));
    log.clone().remove(&oldest).unwrap();
    world.run(0..2);
    assert_eq!((world.stored(), archive.usage().file_count), (begins, 2));
    assert!(!world.is_failing());
}

#[cfg(feature = "planted")]
mod planted {
    use super::*;
    use crate::plant::{Plant, is_found};

    #[test]
    fn the_planted_bug_of_an_unchecked_copy_is_found() {
        let test = a_copy_that_reads_back_as_other_bytes_gets_no_name;
        assert!(is_found(Plant::ArchiveCopyUnchecked, test));
    }

    #[test]
    fn the_planted_bug_of_an_unseen_gap_is_found() {
        assert!(is_found(Plant::ArchiveGapUnseen, a_gap_in_the_archive_is_named));
    }

    #[test]
    fn the_planted_bug_of_a_segment_of_marks_that_is_passed_over_is_found() {
        let test = a_segment_with_marks_alone_is_stored_and_the_one_that_begins_where_it_does;
        assert!(is_found(Plant::ArchiveMarksPassedOver, test));
    }

    #[test]
    fn the_planted_bug_of_a_name_that_is_not_made_durable_again_is_found() {
        let test = a_segment_that_is_stored_twice_is_the_same_file;
        assert!(is_found(Plant::ArchiveNameUnsynced, test));
    }
}
