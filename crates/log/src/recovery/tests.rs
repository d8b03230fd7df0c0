//! Each row of the two recovery tables, as a function and on a disk.

use weir_io::disk::sim::{CrashChoice, TraceOp};
use weir_io::{Access, Disk, DiskErrorKind, SimDisk, SimFaults};
use weir_types::{Durability, Nanos, PartitionId, Position};

use super::*;
use crate::api::{Append, SequencedLog};
use crate::batch::{Batch, Push};
use crate::embedded::{EmbeddedLog, LogConfig};
use crate::frame::FRAME_HEADER;
use crate::segment::{HeaderFault, SEGMENT_HEADER, SegmentHeader, SegmentKind};

/// An entry size that fills a frame of 1,096 bytes: three to a segment of a little over 8 KiB.
const ENTRY: usize = 1024;
const FRAME: u64 = (FRAME_HEADER + 8 + ENTRY) as u64;
/// The size of the opening mark, the first frame of a new log.
const OPEN: u64 = (FRAME_HEADER + 24) as u64;

fn config(durability: Durability) -> LogConfig {
    let mut config = LogConfig::new(PartitionId(4), 99);
    config.durability = durability;
    config.segment_bytes = 8192;
    config.idle_after = Nanos(1_000_000);
    config
}

fn open(
    disk: &SimDisk,
    level: Durability,
) -> Result<(EmbeddedLog<SimDisk>, RecoveryReport), LogError> {
    EmbeddedLog::open(config(level), disk.clone())
}

/// Creates a log with one entry in each of `frames` frames, all committed, dropped without a stop.
fn unclean(level: Durability, frames: u64) -> SimDisk {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, level).unwrap();
    fill(&mut log, frames);
    disk.after_process_crash()
}

fn fill(log: &mut EmbeddedLog<SimDisk>, frames: u64) {
    for n in 1..=frames {
        let mut batch = Batch::new();
        assert_eq!(batch.push(&[n as u8; ENTRY]), Push::Taken);
        let first = Position(n);
        assert_eq!(log.append(log.epoch(), Nanos(n), &batch), Append::At { first });
        while !log.is_idle() {
            log.do_work(Nanos(0)).unwrap();
        }
    }
}

fn closed(level: Durability, frames: u64) -> SimDisk {
    let disk = unclean(level, frames);
    open(&disk, level).unwrap().0.close().unwrap();
    disk.after_process_crash()
}

fn segments(disk: &SimDisk) -> Vec<String> {
    let mut names = disk.clone().list().unwrap();
    names.retain(|name| name.ends_with(".wlog"));
    names
}

/// Flips a bit in the body of the n-th entry's frame in the first segment, counted from 0.
fn damage_frame(disk: &SimDisk, file: &str, n: u64) -> u64 {
    let offset = SEGMENT_HEADER as u64 + OPEN + n * FRAME;
    disk.flip_bit(file, (offset + FRAME / 2) * 8);
    offset
}

#[test]
fn history_row_1_without_segments_a_log_is_created() {
    let disk = SimDisk::new(1);
    assert_eq!(judge_history(None), History::Create);
    let (log, report) = open(&disk, Durability::Disk).unwrap();
    assert_eq!(report.new_epoch, Some(EpochReason::Created));
    assert_eq!((report.positions, report.epoch, report.segments), (1..1, Epoch(1), 1));
    assert_eq!(log.log_id(), 99);
}

#[test]
fn history_row_2_a_whole_log_is_kept() {
    let (_, report) = open(&closed(Durability::Disk, 5), Durability::Disk).unwrap();
    assert!(report.clean);
    assert_eq!((report.positions, report.cut), (1..6, None));
}

#[test]
fn history_row_3_a_torn_tail_is_cut_and_reported() {
    let disk = unclean(Durability::Disk, 2);
    let file = segments(&disk)[0].clone();
    let offset = damage_frame(&disk, &file, 1);
    let (_, report) = open(&disk, Durability::Disk).unwrap();
    let cut = report.cut.unwrap();
    assert_eq!((cut.file, cut.offset, cut.bytes), (file, offset, FRAME));
    assert_eq!(cut.fault, Some(Fault::BadBody));
    assert_eq!((cut.first_position, report.positions), (Position(2), 1..2));
    assert_eq!(report.new_epoch, Some(EpochReason::TailCut));
}

#[test]
fn history_row_4_damage_to_what_was_synced_is_an_error_that_names_it() {
    let disk = unclean(Durability::Disk, 3);
    let file = segments(&disk)[0].clone();
    // The third frame reports the second one as synced.
    let offset = damage_frame(&disk, &file, 0);
    let error = open(&disk, Durability::Disk).err().unwrap();
    let LogError::Damaged { file: named, offset: at, fault, position, .. } = error else {
        panic!("{error}")
    };
    assert_eq!((named, at, fault, position), (file, offset, Fault::BadBody, Position(1)));
}

#[test]
fn history_row_4_a_later_segments_header_bears_witness() {
    let disk = unclean(Durability::Disk, 4);
    let names = segments(&disk);
    assert!(names.len() > 1, "four frames need a second segment");
    damage_frame(&disk, &names[0], 2);
    assert!(matches!(open(&disk, Durability::Disk), Err(LogError::Damaged { .. })));
}

#[test]
fn history_row_4_a_frame_of_another_history_is_not_taken() {
    // Two logs that differ only in their first entry: the second frames have the same number,
    // position, time and bytes, and only the link tells them apart.
    let (disk, other) = (closed(Durability::Disk, 3), closed(Durability::Disk, 3));
    let file = segments(&disk)[0].clone();
    let offset = damage_frame(&disk, &file, 0);
    let mut bytes = disk.contents(&file).unwrap();
    let at = offset as usize;
    let (mut first, _) = crate::frame::FrameHeader::decode(&bytes[at..]).unwrap();
    first.body_crc = crc32c::crc32c(&bytes[at + FRAME_HEADER..at + FRAME as usize]);
    bytes[at..at + FRAME_HEADER].copy_from_slice(&first.encode().0);
    let theirs = other.contents(&file).unwrap();
    assert_eq!(bytes[at + FRAME as usize..], theirs[at + FRAME as usize..]);
    disk.plant(&file, &bytes);
    let error = open(&disk, Durability::Disk).err().unwrap();
    let LogError::Damaged { offset: found, fault, .. } = error else { panic!("{error}") };
    assert_eq!((found, fault), (offset + FRAME, Fault::Misplaced));
}

#[test]
fn history_row_4_idling_proves_what_was_written_at_os() {
    for idles in [false, true] {
        let disk = SimDisk::new(1);
        let (mut log, _) = open(&disk, Durability::Os).unwrap();
        let mut batch = Batch::new();
        assert_eq!(batch.push(&[1; ENTRY]), Push::Taken);
        assert_eq!(log.append(log.epoch(), Nanos(1), &batch), Append::At { first: Position(1) });
        for cycle in 0..10 {
            log.do_work(Nanos(cycle * if idles { 1_000_000 } else { 1 })).unwrap();
        }
        drop(log);
        let disk = disk.after_process_crash();
        damage_frame(&disk, &segments(&disk)[0], 0);
        let refused = matches!(open(&disk, Durability::Os), Err(LogError::Damaged { .. }));
        assert_eq!(refused, idles);
    }
}

#[test]
fn history_row_5_an_unproven_gap_is_cut() {
    // At level `os` nothing was synced since the opening. The second segment is lost and the third
    // exists; neither was promised to survive a power loss.
    let disk = unclean(Durability::Os, 9);
    let names = segments(&disk);
    assert!(names.len() > 2, "nine frames need a third segment");
    let unsynced = stage_without_marks(&disk, &names);
    unsynced.clone().remove(&names[1]).unwrap();
    let (_, report) = open(&unsynced, Durability::Os).unwrap();
    let cut = report.cut.unwrap();
    assert_eq!((cut.fault, cut.removed), (None, names[2..].iter().rev().cloned().collect()));
    assert_eq!(segments(&unsynced)[0], names[0]);
}

/// Returns the same files with the synced mark of every header set back to the opening, as if no
/// sync had ended.
fn stage_without_marks(disk: &SimDisk, names: &[String]) -> SimDisk {
    let staged = disk.after_process_crash();
    for name in names {
        let mut bytes = disk.contents(name).unwrap();
        let mut header = SegmentHeader::decode(&bytes, SegmentKind::Command).unwrap();
        header.synced_frame = header.synced_frame.min(1);
        bytes[..SEGMENT_HEADER].copy_from_slice(&header.encode());
        let mut at = SEGMENT_HEADER;
        let mut link = header.link;
        while let Some((mut frame, _)) = crate::frame::FrameHeader::decode(&bytes[at..]) {
            frame.synced_frame = frame.synced_frame.min(1).min(frame.frame - 1);
            frame.link = link;
            let (encoded, crc) = frame.encode();
            bytes[at..at + FRAME_HEADER].copy_from_slice(&encoded);
            link = frame.next_link(crc);
            at += frame.length as usize;
        }
        staged.plant(name, &bytes);
    }
    staged
}

#[test]
fn history_row_6_a_missing_segment_that_was_synced_is_an_error() {
    let disk = unclean(Durability::Disk, 9);
    let names = segments(&disk);
    disk.clone().remove(&names[1]).unwrap();
    let error = open(&disk, Durability::Disk).err().unwrap();
    let LogError::MissingSegment { file, .. } = error else { panic!("{error}") };
    assert_eq!(file, names[2]);
}

#[test]
fn headers_that_are_damaged_newer_or_foreign_are_refused_by_name() {
    let clean = closed(Durability::Disk, 1);
    let name = segments(&clean)[0].clone();
    let disk = clean.after_process_crash();
    disk.flip_bit(&name, 8 * 4000);
    let error = open(&disk, Durability::Disk).err().unwrap();
    assert_eq!(error, LogError::DamagedHeader { file: name.clone() });

    let mut bytes = clean.contents(&name).unwrap();
    bytes[8] = 2;
    let crc = crc32c::crc32c(&bytes[..SEGMENT_HEADER - 4]).to_le_bytes();
    bytes[SEGMENT_HEADER - 4..SEGMENT_HEADER].copy_from_slice(&crc);
    let disk = SimDisk::new(1);
    disk.plant(&name, &bytes);
    let error = open(&disk, Durability::Disk).err().unwrap();
    assert_eq!(error, LogError::NewerFormat { file: name.clone(), version: 2, known: 1 });
    assert_eq!(decode_segment(&bytes), Err(HeaderFault::Newer(2)));

    let mut other = config(Durability::Disk);
    other.partition = PartitionId(5);
    let error = EmbeddedLog::open(other, clean.after_process_crash()).err().unwrap();
    assert!(matches!(error, LogError::OtherPartition { .. }), "{error}");
}

#[test]
fn the_epoch_table_row_by_row() {
    use Durability::{Disk, Memory, Os};
    use EpochReason::{RebootAtOs, TailCut, UncleanAtMemory};
    // closed, cut, level, same boot, reason for a new epoch
    let mut rows = vec![
        (false, false, Memory, true, Some(UncleanAtMemory)),
        (false, false, Memory, false, Some(UncleanAtMemory)),
        (false, false, Os, false, Some(RebootAtOs)),
        (false, false, Os, true, None),
        (false, false, Disk, true, None),
        (false, false, Disk, false, None),
    ];
    for level in [Memory, Os, Disk] {
        for boot in [true, false] {
            rows.push((true, false, level, boot, None));
            rows.push((true, true, level, boot, Some(TailCut)));
            rows.push((false, true, level, boot, Some(TailCut)));
        }
    }
    assert_eq!(rows.len(), 24, "each case once");
    for (closed, cut, level, same_boot, reason) in rows {
        let run = LastRun { closed, cut, level, same_boot };
        assert_eq!(judge_epoch(run), reason, "{run:?}");
    }
}

#[test]
fn an_epoch_that_ends_keeps_its_last_valid_position() {
    let disk = unclean(Durability::Memory, 3);
    let held = open(&disk, Durability::Memory).unwrap().1;
    let last_valid = Position(held.positions.end - 1);
    assert_eq!(held.new_epoch, Some(EpochReason::UncleanAtMemory));
    assert_eq!(held.ended, [EpochEnd { epoch: Epoch(1), last_valid }]);
    assert_eq!(held.epoch, Epoch(2));
    // An opening that changes nothing still reports it.
    let (mut log, _) = open(&disk.after_process_crash(), Durability::Memory).unwrap();
    log.close().unwrap();
}

#[test]
fn an_epoch_that_begins_without_a_loss_leaves_all_of_the_one_before() {
    for level in [Durability::Memory, Durability::Os, Durability::Disk] {
        let disk = closed(level, 3);
        let (mut log, _) = open(&disk, level).unwrap();
        assert_eq!(log.epoch(), Epoch(1 + u32::from(level == Durability::Memory)), "{level}");
        let (before, next) = (log.epoch(), log.next_position());
        assert_eq!(log.begin_epoch().unwrap(), before.next());
        assert_eq!(log.poll(), crate::api::Poll::Leading(before.next()));
        let last_valid = Position(next.0 - 1);
        assert_eq!(log.ended_epochs().last(), Some(&EpochEnd { epoch: before, last_valid }));
        log.close().unwrap();
        // It is on the medium, and nothing is lost.
        let again = disk.after_power_loss(CrashChoice::LoseAll);
        let (log, report) = open(&again, level).unwrap();
        assert_eq!((report.epoch, log.next_position()), (before.next(), next), "{level}");
    }
}

#[test]
fn a_reboot_ends_the_epoch_at_os_and_not_at_disk() {
    for (level, epoch) in [(Durability::Os, Epoch(2)), (Durability::Disk, Epoch(1))] {
        let disk = unclean(level, 2).after_power_loss(CrashChoice::KeepAll);
        assert_eq!(open(&disk, level).unwrap().1.epoch, epoch, "{level}");
    }
    let disk = unclean(Durability::Os, 2);
    assert_eq!(open(&disk, Durability::Os).unwrap().1.epoch, Epoch(1));
}

#[test]
fn a_segments_name_is_durable_before_anything_is_appended_to_it() {
    let recorded = SimDisk::new(1);
    recorded.record();
    let (mut log, _) = open(&recorded, Durability::Disk).unwrap();
    fill(&mut log, 9);
    let disk = SimDisk::new(1);
    let mut named = 0;
    for op in recorded.take_trace() {
        disk.apply(&op);
        named += usize::from(matches!(&op, TraceOp::Rename { to, .. } if to.ends_with(".wlog")));
        if named == 2 {
            break;
        }
    }
    // The process died between the rename and the sync of the directory. There is no room for a
    // spare, so that no other operation syncs the directory.
    let mut killed = disk.after_process_crash();
    killed.set_faults(SimFaults { full_from: Some(0), ..SimFaults::default() });
    let other = killed.create("other").unwrap();
    assert!(killed.write(other, 0, b"x").is_err());
    drop(open(&killed, Durability::Disk).unwrap());
    assert_eq!(segments(&killed).len(), 2);
    assert_eq!(segments(&killed.after_power_loss(CrashChoice::LoseAll)), segments(&killed));
}

#[test]
fn a_second_process_is_kept_out() {
    let disk = SimDisk::new(1);
    let (_log, _) = open(&disk, Durability::Disk).unwrap();
    let error = open(&disk, Durability::Disk).err().unwrap();
    assert!(matches!(error, LogError::Disk(e) if e.kind == DiskErrorKind::Locked));
}

#[test]
fn an_inspection_says_what_opening_would_do_and_touches_nothing() {
    let disk = unclean(Durability::Disk, 5);
    damage_last_frame(&disk);
    let mut recorded = disk.after_process_crash();
    recorded.record();
    let seen = inspect(&mut recorded, SegmentKind::Command).unwrap().unwrap();
    assert_eq!((recorded.recorded(), seen.clean, seen.positions.clone()), (0, false, 1..5));
    let (_, report) = open(&disk, Durability::Disk).unwrap();
    let cut = report.cut.unwrap();
    assert_eq!(seen.torn_at, Some((cut.file, cut.offset, cut.bytes)));
    assert_eq!(seen.positions, report.positions);
    assert_eq!(inspect(&mut SimDisk::new(1), SegmentKind::Command).unwrap(), None);
}

fn damage_last_frame(disk: &SimDisk) {
    let name = segments(disk).last().unwrap().clone();
    let bytes = disk.contents(&name).unwrap();
    let last = bytes.iter().rposition(|b| *b != 0).unwrap();
    disk.flip_bit(&name, last as u64 * 8);
}

#[test]
fn files_of_others_are_left_alone() {
    let disk = SimDisk::new(1);
    disk.plant("notes.txt", b"mine");
    open(&disk, Durability::Disk).unwrap().0.close().unwrap();
    assert_eq!(disk.contents("notes.txt").unwrap(), b"mine");
    assert!(disk.clone().open("notes.txt", Access::Read).is_ok());
}
