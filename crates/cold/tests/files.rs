//! Files: every damaged byte is found and named, any call to the disk may fail, power may be lost
//! at any write, and names show the leftovers of an unfinished merge or removal.

#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

mod support;

use support::*;
use weir_cold::{Archive, ColdConfig, ColdError, Fault, Filter, PageLimits, SegmentError};
use weir_delivery::OrderStore;
use weir_io::disk::sim::CrashChoice;
use weir_io::{Disk, DiskErrorKind, SimDisk, SimFaults};
use weir_types::{ChangeId, Epoch, Nanos, OrdStatus, PartitionId, Rec, Seq};
use weir_wire::delivery::OrderRow;

const UNLIMITED: PageLimits =
    PageLimits { rows_max: 60_000, bytes_max: u32::MAX, scan_max: u32::MAX, blocks_max: u32::MAX };

/// Makes changes `from` to `to`: every third to an earlier or new low record, the others new
/// records.
fn trade(store: &mut OrderStore, from: u64, to: u64) {
    for seq in from..=to {
        let rec = if seq % 3 == 0 { 1 + seq / 7 } else { 1_000 + seq };
        let row = row(seq, rec, keys(1 + seq as u32 % 2, 5, 1), OrdStatus::New);
        let _ = store.ingest_row(&block_of(&row), &attributes(seq)).unwrap();
    }
}

fn open(disk: &SimDisk) -> (Archive<SimDisk>, weir_cold::OpenReport) {
    Archive::open(disk.clone(), config()).unwrap()
}

/// Returns three segments, with merging off.
fn three_segments() -> (SimDisk, OrderStore) {
    let (disk, mut hot) = (SimDisk::new(1), store(u32::MAX));
    let (mut archive, _) = open(&disk);
    for part in 0..3 {
        trade(&mut hot, part * 10 + 1, part * 10 + 10);
        assert!(feed(&mut archive, &hot, u32::MAX).unwrap());
        assert!(archive.close().unwrap());
    }
    (disk, hot)
}

fn read_all(archive: &mut Archive<SimDisk>, after: ChangeId) -> Result<Vec<OrderRow>, ColdError> {
    let mut out = Vec::new();
    let page = archive.page(after, &Filter::default(), &UNLIMITED, &mut out)?;
    let rows = rows_of(&out, page.row_count).into_iter();
    // The merged count of a row depends on its reader's place.
    Ok(rows.map(|(row, _)| OrderRow { merged_count: 0, ..row }).collect())
}

#[test]
fn a_flipped_bit_in_any_byte_is_found_and_named() {
    let (clean, _) = three_segments();
    let names: Vec<String> = {
        let (archive, _) = open(&clean.after_process_crash());
        archive.segments().map(|segment| segment.header.file_name()).collect()
    };
    let want = read_all(&mut open(&clean.after_process_crash()).0, ChangeId::START).unwrap();
    for (number, name) in names.iter().enumerate() {
        for byte in 0..clean.contents(name).unwrap().len() as u64 {
            let disk = clean.after_process_crash();
            disk.flip_bit(name, byte * 8 + byte % 8);
            let (mut archive, report) = open(&disk);
            let found = match report.damaged.first() {
                Some(error) => error.clone(),
                None => match read_all(&mut archive, ChangeId::START) {
                    Err(ColdError::Segment(error)) => error,
                    other => panic!("byte {byte} of {name}: {other:?}"),
                },
            };
            let SegmentError::Damaged { file, .. } = found else { panic!("{found:?}") };
            assert_eq!(&file, name, "byte {byte}");
            // The range after the damage is still served.
            let after = archive.floor();
            assert!(archive.check(Epoch(1), ChangeId::START).is_err() || number == 2);
            let rows = read_all(&mut archive, after).unwrap();
            if number < 2 {
                assert!(rows.iter().eq(want.iter().filter(|row| change_id_of(row) > after)));
            }
        }
    }
}

#[test]
fn a_cut_file_is_found_at_any_length() {
    let (clean, _) = three_segments();
    let name = open(&clean.after_process_crash()).0.segments().next().unwrap().header.file_name();
    let bytes = clean.contents(&name).unwrap();
    for len in 0..bytes.len() {
        let disk = clean.after_process_crash();
        disk.plant(&name, &bytes[..len]);
        let (archive, report) = open(&disk);
        assert_eq!(report.damaged.len(), 1, "{len} bytes");
        assert!(archive.floor() > ChangeId::START);
    }
}

#[test]
fn a_file_of_a_newer_program_and_a_renamed_one_are_named_as_such() {
    let (clean, _) = three_segments();
    let header = open(&clean.after_process_crash()).0.segments().next().unwrap().header;
    let mut bytes = clean.contents(&header.file_name()).unwrap();
    let renamed = weir_cold::Header { to: ChangeId::new(Seq(9), Rec(9)), ..header }.file_name();
    let other = SimDisk::new(1);
    other.plant(&renamed, &bytes);
    let fault = |disk: &SimDisk| match &open(disk).1.damaged[..] {
        [SegmentError::Damaged { fault, .. }] => fault.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(fault(&other), Fault::OtherName);
    bytes[8] = 2;
    let crc = crc32c::crc32c(&bytes[..124]);
    bytes[124..128].copy_from_slice(&crc.to_le_bytes());
    let newer = SimDisk::new(1);
    newer.plant(&header.file_name(), &bytes);
    assert_eq!(fault(&newer), Fault::Newer(2));
}

/// Closes and merges until nothing is due.
fn settle(archive: &mut Archive<SimDisk>) -> Result<(), ColdError> {
    archive.close()?;
    while archive.work(Nanos(0))? != weir_cold::WorkOutcome::Nothing {}
    Ok(())
}

#[test]
fn a_crash_at_any_call_of_a_close_and_a_merge_loses_nothing_that_was_closed() {
    let (clean, mut hot) = three_segments();
    trade(&mut hot, 31, 40);
    let (mut archive, _) = open(&clean.after_process_crash());
    feed(&mut archive, &hot, u32::MAX).unwrap();
    settle(&mut archive).unwrap();
    assert!(archive.figures().merges > 0);
    let want = read_all(&mut archive, ChangeId::START).unwrap();
    let mut crashes = 0;
    for call in 0.. {
        let disk = clean.after_process_crash();
        let (mut archive, _) = open(&disk);
        feed(&mut archive, &hot, u32::MAX).unwrap();
        let call_fails_at = Some((call, DiskErrorKind::Io));
        disk.set_faults(SimFaults { call_fails_at, ..SimFaults::default() });
        let ended = settle(&mut archive);
        disk.set_faults(SimFaults::default());
        let mut choices = disk.crash_choices();
        choices.extend((0..20).map(CrashChoice::Random));
        for choice in choices {
            let (mut archive, report) = open(&disk.after_power_loss(choice));
            assert_eq!(report.damaged, [], "call {call}, {choice:?}");
            assert!(archive.end() >= ChangeId::new(Seq(30), Rec(5)), "call {call}, {choice:?}");
            assert_eq!(archive.floor(), ChangeId::START);
            feed(&mut archive, &hot, u32::MAX).unwrap();
            settle(&mut archive).unwrap();
            assert_eq!(read_all(&mut archive, ChangeId::START).unwrap(), want);
            crashes += 1;
        }
        if ended.is_ok() {
            break;
        }
    }
    assert!(crashes > 1_000, "{crashes} crashes");
}

#[test]
fn what_is_held_is_not_retired_until_it_is_released_or_its_time_is_over() {
    let (disk, _) = three_segments();
    let keep = ColdConfig { keep_bytes: 0, ..config() };
    let (mut archive, _) = Archive::open(disk.clone(), keep.clone()).unwrap();
    let first_end = archive.segments().next().unwrap().header.to;
    let held = archive.hold(first_end, Nanos(100));
    while archive.work(Nanos(100)).unwrap() == weir_cold::WorkOutcome::Retired {}
    assert_eq!(archive.floor(), first_end, "what is behind the held place went");
    assert!(!read_all(&mut archive, first_end).unwrap().is_empty());
    archive.release(held);
    while archive.work(Nanos(100)).unwrap() != weir_cold::WorkOutcome::Nothing {}
    assert_eq!(archive.floor(), archive.end());
    let (disk, _) = three_segments();
    let (mut archive, _) = Archive::open(disk, keep).unwrap();
    let _ = archive.hold(ChangeId::START, Nanos(100));
    assert_ne!(archive.work(Nanos(100)).unwrap(), weir_cold::WorkOutcome::Retired);
    while archive.work(Nanos(101)).unwrap() != weir_cold::WorkOutcome::Nothing {}
    assert_eq!(archive.segments().count(), 0);
}

/// Writes a segment for each time, that of all of its changes; the archive's clock, if not zero, is
/// ahead by the number of the segment.
fn segments_with_times(times: &[Nanos], clock: u64) -> SimDisk {
    let (disk, mut hot) = (SimDisk::new(1), store(u32::MAX));
    let (mut archive, _) = open(&disk);
    for (part, time) in (0..).zip(times) {
        if clock > 0 {
            let _ = archive.keep_up(Nanos(clock + part)).unwrap();
        }
        for seq in part * 10 + 1..=part * 10 + 10 {
            let row = row(seq, 1_000 + seq, keys(1, 5, 1), OrdStatus::New);
            let row = OrderRow { transact_time: *time, ..row };
            let _ = hot.ingest_row(&block_of(&row), &attributes(seq)).unwrap();
        }
        assert!(feed(&mut archive, &hot, u32::MAX).unwrap());
        assert!(archive.close().unwrap());
    }
    disk
}

/// Returns the number of segments that are left at each of these times.
fn left_at(disk: SimDisk, keep_for: Nanos, times: [u64; 3]) -> [usize; 3] {
    let kept = ColdConfig { keep_for, merge_count: 10, ..config() };
    let (mut archive, _) = Archive::open(disk, kept).unwrap();
    times.map(|now| {
        while archive.work(Nanos(now)).unwrap() == weir_cold::WorkOutcome::Retired {}
        archive.segments().count()
    })
}

#[test]
fn segments_with_times_of_the_future_or_none_are_retired_when_their_time_in_the_archive_is_over() {
    let (far, none) = (Nanos(u64::MAX - 1), Nanos(0));
    for times in [[far; 3], [none; 3], [Nanos(1); 3], [far, none, Nanos(1)]] {
        let disk = segments_with_times(&times, 100);
        assert_eq!(left_at(disk, Nanos(15), [115, 116, 118]), [3, 2, 0], "{times:?}");
    }
    // The closing of segments of before is unknown.
    for times in [[far; 3], [none; 3], [far, none, far]] {
        let disk = segments_with_times(&times, 0);
        assert_eq!(left_at(disk, Nanos(15), [1_000, 1_015, 1_016]), [3, 3, 0], "{times:?}");
    }
    let disk = segments_with_times(&[far, Nanos(20), Nanos(30)], 0);
    assert_eq!(left_at(disk, Nanos(15), [35, 36, 46]), [3, 1, 0]);
}

/// Its age went back to the last closing at each start.
#[test]
fn a_segment_grows_old_in_all_runs_of_an_archive_to_which_nothing_comes() {
    const HOUR: u64 = 3_600_000_000_000;
    let kept = ColdConfig { keep_for: Nanos(10 * HOUR), ..config() };
    let open = |disk: &SimDisk| Archive::open(disk.after_process_crash(), kept.clone()).unwrap().0;
    let mut disk = segments_with_times(&[Nanos(1)], 100);
    for (hours, is_stopped) in [(6, true), (3, false)] {
        let mut archive = open(&disk);
        let begin = archive.clock().0;
        for hour in 0..=hours {
            let _ = archive.work(Nanos(begin + hour * HOUR)).unwrap();
        }
        if is_stopped {
            archive.note_clock(Nanos(begin + hours * HOUR + 9)).unwrap();
        }
        assert_eq!(archive.segments().count(), 1);
        disk = archive.into_disk();
        let reached = begin + hours * HOUR + if is_stopped { 9 } else { 0 };
        assert_eq!(open(&disk).clock(), Nanos(reached));
    }
    let mut archive = open(&disk);
    let later = Nanos(archive.clock().0 + 2 * HOUR);
    assert_eq!(archive.work(later).unwrap(), weir_cold::WorkOutcome::Retired);
    // A damaged file is none, and one that is behind the segments changes nothing.
    let disk = segments_with_times(&[Nanos(1)], 100);
    let mut archive = open(&disk);
    archive.note_clock(Nanos(500)).unwrap();
    let noted = archive.into_disk();
    let bytes = noted.contents("served-time").unwrap();
    for byte in 0..bytes.len() as u64 {
        let disk = noted.after_process_crash();
        disk.flip_bit("served-time", byte * 8 + byte % 8);
        assert_eq!(open(&disk).clock(), Nanos(100), "byte {byte}");
    }
    let later = segments_with_times(&[Nanos(1)], 900);
    later.plant("served-time", &bytes);
    assert_eq!(open(&later).clock(), Nanos(900));
}

#[test]
fn a_merged_segment_is_as_old_as_its_newest_input() {
    let disk = segments_with_times(&[Nanos(u64::MAX - 1), Nanos(0), Nanos(1)], 100);
    let merging = ColdConfig { keep_for: Nanos(15), merge_count: 3, ..config() };
    let (mut archive, _) = Archive::open(disk, merging).unwrap();
    assert_eq!(archive.clock(), Nanos(102), "it goes on from the newest closing");
    while archive.work(Nanos(110)).unwrap() != weir_cold::WorkOutcome::Nothing {}
    assert_eq!(archive.segments().count(), 1);
    for (now, left) in [(117, 1), (118, 0)] {
        let _ = archive.work(Nanos(now)).unwrap();
        assert_eq!(archive.segments().count(), left, "{now}");
    }
}

#[test]
fn age_is_counted_by_the_times_of_changes_where_the_closing_is_unknown() {
    let (disk, _) = three_segments();
    let kept = ColdConfig { keep_for: Nanos(15), merge_count: 10, ..config() };
    let (mut archive, _) = Archive::open(disk, kept).unwrap();
    while archive.work(Nanos(1_000_030)).unwrap() == weir_cold::WorkOutcome::Retired {}
    assert_eq!(archive.floor().seq, Seq(10), "changes of 1 to 10 ns are older than 15 ns at 30");
}

#[test]
fn an_epoch_that_disowns_what_was_closed_takes_it_back() {
    let (disk, mut hot) = three_segments();
    let (mut archive, _) = open(&disk);
    trade(&mut hot, 31, 33);
    feed(&mut archive, &hot, u32::MAX).unwrap();
    let valid_to = ChangeId::new(Seq(25), Rec(u64::MAX));
    let again = archive.begin_epoch(Epoch(2), valid_to).unwrap();
    assert_eq!(again.seq, Seq(20), "the segment that reached beyond is gone");
    assert_eq!(archive.end(), again);
    let change_id = |seq| ChangeId::new(Seq(seq), Rec(1));
    assert!(archive.check(Epoch(1), change_id(25)).is_ok());
    assert_eq!(archive.check(Epoch(1), change_id(26)), Err(weir_cold::Resync::Epoch));
    assert_eq!(archive.check(Epoch(3), change_id(1)), Err(weir_cold::Resync::Epoch));
    assert!(archive.check(Epoch(2), change_id(40)).is_ok());
    let repeated = archive.begin_epoch(Epoch(2), valid_to);
    assert_eq!(repeated, Err(ColdError::EpochRepeated(Epoch(2))));
    // A start with a configuration that has the end of the epoch finds the same.
    let past_epochs = vec![(Epoch(1), valid_to)];
    let (clean, _) = three_segments();
    let knows = ColdConfig { epoch: Epoch(2), past_epochs, ..config() };
    let (archive, report) = Archive::open(clean, knows).unwrap();
    assert_eq!((archive.end().seq, report.removed.len()), (Seq(20), 1));
}

#[test]
fn an_archive_is_not_opened_in_an_epoch_before_its_files_and_keeps_them_all() {
    let (disk, mut hot) = three_segments();
    let (mut archive, _) = open(&disk);
    archive.begin_epoch(Epoch(2), archive.end()).unwrap();
    trade(&mut hot, 31, 40);
    feed(&mut archive, &hot, u32::MAX).unwrap();
    archive.close().unwrap();
    drop(archive);
    // The leftover of a crash, which a start would remove, stays too.
    disk.plant("half.part", b"of a segment");
    let before = disk.clone().list().unwrap();
    let refused = Archive::open(disk.clone(), config()).map(drop);
    let (epoch, asked) = (Epoch(2), Epoch(1));
    let is_named = matches!(
        &refused,
        Err(ColdError::EpochBehind { epoch: e, asked: a, .. }) if (*e, *a) == (epoch, asked)
    );
    assert!(is_named, "{refused:?}");
    assert_eq!(disk.clone().list().unwrap(), before, "nothing was removed");
    let past_epochs = vec![(asked, ChangeId::new(Seq(30), Rec(u64::MAX)))];
    let knows = ColdConfig { epoch, past_epochs, ..config() };
    let (archive, _) = Archive::open(disk, knows).unwrap();
    assert_eq!((archive.floor(), archive.end().seq), (ChangeId::START, Seq(40)));
}

#[test]
fn a_record_whose_later_state_was_disowned_is_told_as_it_was() {
    let (disk, mut hot) = (SimDisk::new(1), store(u32::MAX));
    let (mut archive, _) = open(&disk);
    for (seq, status) in [(1, OrdStatus::New), (2, OrdStatus::PartiallyFilled)] {
        let row = row(seq, 1, keys(1, 1, 1), status);
        let _ = hot.ingest_row(&block_of(&row), &[]).unwrap();
        feed(&mut archive, &hot, u32::MAX).unwrap();
        archive.close().unwrap();
    }
    let at = |rows: Vec<OrderRow>| rows.iter().map(|row| row.seq.0).collect::<Vec<_>>();
    assert_eq!(at(read_all(&mut archive, ChangeId::START).unwrap()), [2]);
    archive.begin_epoch(Epoch(2), ChangeId::new(Seq(1), Rec(1))).unwrap();
    assert_eq!(at(read_all(&mut archive, ChangeId::START).unwrap()), [1]);
}

#[test]
fn a_change_that_is_none_is_refused_by_name_and_leaves_no_trace() {
    use weir_cold::{Change, ChangeError, EntryKind};
    let disk = SimDisk::new(1);
    let (mut archive, _) = open(&disk);
    let block = block_of(&row(5, 1, keys(1, 2, 3), OrdStatus::New));
    let sound = Change {
        standing: EntryKind::Live,
        first: Seq(5),
        change_count: 1,
        history: [0; 7],
        keys: keys(1, 2, 3),
        next_keys: keys(0, 0, 0),
        row: &block,
        attributes: &[],
    };
    let no_record = block_of(&row(5, 0, keys(1, 2, 3), OrdStatus::New));
    let mut refused = |change: Change<'_>, want: ChangeError| {
        assert_eq!(archive.take(&change), Err(ColdError::Change(want)));
        assert_eq!(archive.fed(), ChangeId::START);
    };
    refused(Change { row: &no_record, ..sound }, ChangeError::NoRecord);
    refused(Change { standing: EntryKind::Leave, ..sound }, ChangeError::Flags(EntryKind::Leave));
    refused(Change { keys: keys(1, 2, 4), ..sound }, ChangeError::Keys);
    refused(Change { first: Seq(6), ..sound }, ChangeError::First { first: Seq(6), at: Seq(5) });
    refused(Change { change_count: 0, ..sound }, ChangeError::ChangeCount);
    refused(Change { attributes: &[0; 601], ..sound }, ChangeError::AttributesTooLong(601));
    archive.take(&sound).unwrap();
    let last = ChangeId::new(Seq(5), Rec(1));
    assert_eq!(archive.take(&sound), Err(ColdError::OutOfOrder { got: last, last }));
    assert!(archive.close().unwrap());
    assert_eq!(read_all(&mut archive, ChangeId::START).unwrap().len(), 1);
}

#[test]
fn files_of_an_epoch_that_is_not_known_are_told_and_left_alone() {
    let (disk, mut hot) = three_segments();
    let (mut archive, _) = open(&disk);
    archive.begin_epoch(Epoch(5), archive.end()).unwrap();
    trade(&mut hot, 31, 40);
    feed(&mut archive, &hot, u32::MAX).unwrap();
    archive.close().unwrap();
    drop(archive);
    let names = |disk: &SimDisk| disk.clone().list().unwrap();
    let all = names(&disk);
    // The end of epoch 1 is forgotten.
    let disk = disk.after_process_crash();
    let (archive, report) =
        Archive::open(disk.clone(), ColdConfig { epoch: Epoch(5), ..config() }).unwrap();
    assert_eq!((report.unknown.len(), &report.removed[..]), (3, &[][..]));
    assert_eq!(archive.segments().count(), 1);
    drop(archive);
    assert_eq!(names(&disk), all);
    // It is remembered, and they are served again.
    let past_epochs = vec![(Epoch(1), ChangeId::new(Seq(30), Rec(u64::MAX)))];
    let knows = ColdConfig { epoch: Epoch(5), past_epochs, ..config() };
    let (archive, report) = Archive::open(disk.after_process_crash(), knows).unwrap();
    assert_eq!((report.unknown.len(), archive.segments().count()), (0, 4));
}

#[test]
fn files_of_a_history_that_the_source_has_lost_are_set_aside() {
    let (disk, _) = three_segments();
    let source = config().source;
    let mut of_source = disk.clone();
    assert_eq!(weir_cold::set_aside_unknown(&mut of_source, source, Some(Epoch(1))).unwrap(), 0);
    let before = of_source.list().unwrap();
    assert_eq!(weir_cold::set_aside_unknown(&mut of_source, source, Some(Epoch(0))).unwrap(), 3);
    let aside: Vec<_> =
        before.iter().map(|name| format!("{name}{}", weir_cold::ASIDE_SUFFIX)).collect();
    assert_eq!(of_source.list().unwrap(), aside);
    let (archive, report) = open(&disk);
    assert_eq!((archive.segments().count(), report.removed.len()), (0, 0));
    assert_eq!(of_source.list().unwrap(), aside, "they are of no archive");
    // A source that survives no restart has none either.
    let (disk, _) = three_segments();
    assert_eq!(weir_cold::set_aside_unknown(&mut disk.clone(), source, None).unwrap(), 3);
    assert_eq!(disk.clone().list().unwrap(), Vec::<String>::new());
}

#[test]
fn files_of_other_sources_are_left_alone() {
    let (disk, _) = three_segments();
    let other = ColdConfig::new(PartitionId(2), Epoch(1));
    let (archive, report) = Archive::open(disk, other).unwrap();
    assert_eq!((archive.segments().count(), report.foreign.len()), (0, 3));
    assert_eq!(report.removed, Vec::<String>::new());
}
