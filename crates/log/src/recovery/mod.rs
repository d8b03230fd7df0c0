//! Recovery: two tables map the state of a log's files to the action at opening.
//!
//! First table, the history. `n` is the first frame that is not sound, in its place and of this
//! history; *proven* means that a sound frame or segment header, before or after the break, reports
//! frame `n` as synced.
//!
//! | # | segments | history breaks | n proven | then                                            |
//! |---|----------|----------------|----------|-------------------------------------------------|
//! | 1 | none     | -              | -        | create                                          |
//! | 2 | some     | no             | -        | keep all                                        |
//! | 3 | some     | in a frame     | no       | cut back to the break (torn tail), report       |
//! | 4 | some     | in a frame     | yes      | error: damaged, file and offset                 |
//! | 5 | some     | between files  | no       | cut back to the break, report                   |
//! | 6 | some     | between files  | yes      | error: segment missing                          |
//!
//! A damaged, newer or foreign header is an error before the table applies: headers are synced
//! before their file has its name.
//!
//! Second table, the epoch. The level is that of the run that ended.
//!
//! | # | last frame     | cut | level  | same boot | then                                         |
//! |---|----------------|-----|--------|-----------|----------------------------------------------|
//! | 1 | closing mark   | no  | any    | any       | continue the epoch                           |
//! | 2 | any            | yes | any    | any       | new epoch: the cut part may have been seen   |
//! | 3 | no closing mark| no  | memory | any       | new epoch                                    |
//! | 4 | no closing mark| no  | os     | no        | new epoch                                    |
//! | 5 | no closing mark| no  | os     | yes       | continue the epoch                           |
//! | 6 | no closing mark| no  | disk   | any       | continue the epoch                           |
//!
//! A log that was just restored from a backup begins an epoch with any end
//! ([`EmbeddedLog::open_restored`](crate::EmbeddedLog::open_restored)).
//!
//! Kept bytes above the highest proven frame are written again before they are synced: after a
//! failed sync the system may show bytes that the medium does not have, and only writing them makes
//! the next sync cover them.

use weir_io::{Access, Disk, DiskError};
use weir_types::{Durability, Epoch, PartitionId, Position};

use crate::error::LogError;
use crate::frame::{Fault, FrameKind};
use crate::plant::{self, Plant};
use crate::segment::{EpochEnd, RulesSince, SegmentKind};

mod scan;

pub use scan::decode_segment;
pub(crate) use scan::{
    Break, BreakFault, HistoryHead, Scan, scan, scan_files, segment_names, sound_header,
};

/// The state of a log on disk, read without changing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The log's identity.
    pub log_id: u128,
    /// The log's partition.
    pub partition: PartitionId,
    /// The segments' names, each with the number of bytes of its header and sound frames.
    pub segments: Vec<(String, u64)>,
    /// The log's positions, from the first to one after the last.
    pub positions: std::ops::Range<u64>,
    /// The number of frames, including marks.
    pub frames: u64,
    /// The highest frame number that a mark proves synced.
    pub synced_frame: u64,
    /// The number of the last sound frame.
    pub last_frame: u64,
    /// The epoch of the last frame.
    pub epoch: Epoch,
    /// The ended epochs.
    pub ended: Vec<EpochEnd>,
    /// The durability level of the last run.
    pub durability: Durability,
    /// The versions of the rules by which the entries were executed, oldest first.
    pub rules: Vec<RulesSince>,
    /// True when the last frame is a closing mark.
    pub clean: bool,
    /// The torn tail that opening the log would cut off: file, offset, and the number of bytes to
    /// the last non-zero one.
    pub torn_at: Option<(String, u64, u64)>,
}

/// Checks a whole log without changing it; `None` when there is none.
///
/// # Errors
/// Fails on anything that opening would refuse: damage, newer or foreign files.
pub fn inspect<D: Disk>(disk: &mut D, kind: SegmentKind) -> Result<Option<Inspection>, LogError> {
    let Some(found) = scan(disk, kind)? else { return Ok(None) };
    refuse_damage(&found, judge_history(Some(&found)))?;
    let first = &found.segments[0].header;
    let torn_at = found.broken.map(|broken| {
        let place = &found.segments[broken.segment];
        (place.name.clone(), broken.offset, place.used.saturating_sub(broken.offset))
    });
    Ok(Some(Inspection {
        log_id: first.log_id,
        partition: first.partition,
        segments: found.segments.iter().map(|s| (s.name.clone(), s.end)).collect(),
        positions: first.first_position.0..found.head.position_next.0,
        frames: found.head.frame_next - first.first_frame,
        synced_frame: found.synced_frame,
        last_frame: found.head.frame_next - 1,
        epoch: found.head.epoch,
        ended: found.head.ended.clone(),
        durability: found.opening.durability,
        rules: found.rules,
        clean: found.broken.is_none() && found.last_kind == Some(FrameKind::Close),
        torn_at,
    }))
}

/// The tail that was cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutTail {
    /// The file with the break.
    pub file: String,
    /// The offset of the first byte cut off.
    pub offset: u64,
    /// The number of bytes cut off there, up to the last non-zero one.
    pub bytes: u64,
    /// The fault at that offset.
    pub fault: Option<Fault>,
    /// The first lost position, if there were entries at all: none was proven synced.
    pub first_position: Position,
    /// Later files that were removed.
    pub removed: Vec<String>,
}

/// The reason that an epoch began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochReason {
    /// The log is new.
    Created,
    /// A torn tail was cut.
    TailCut,
    /// The last run ended uncleanly at level `memory`.
    UncleanAtMemory,
    /// The last run, at level `os`, ended uncleanly and the machine restarted.
    RebootAtOs,
    /// The log was restored from a backup: later entries may have been seen.
    Restored,
}

/// The state in which a log was opened, and the repairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryReport {
    /// The log's identity.
    pub log_id: u128,
    /// The number of segments.
    pub segments: usize,
    /// The log's positions, from the first to one after the last.
    pub positions: std::ops::Range<u64>,
    /// The epoch in which this run leads.
    pub epoch: Epoch,
    /// The reason that this run began a new epoch, if it did.
    pub new_epoch: Option<EpochReason>,
    /// The ended epochs, each with its last valid position.
    pub ended: Vec<EpochEnd>,
    /// The versions of the rules by which the entries were executed, oldest first.
    pub rules: Vec<RulesSince>,
    /// True when the last run ended with a closing mark.
    pub clean: bool,
    /// The tail that was cut off.
    pub cut: Option<CutTail>,
    /// The number of bytes that no mark proved synced and that were written again.
    pub rewritten_bytes: u64,
}

/// The result of the first table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum History {
    Create,
    KeepAll,
    CutAt(Break),
    Damaged(Break),
    Missing(Break),
}

/// Applies the first table.
pub(crate) fn judge_history(scan: Option<&Scan>) -> History {
    let Some(scan) = scan else { return History::Create };
    let Some(broken) = scan.broken else { return History::KeepAll };
    let proven = scan.synced_frame >= scan.head.frame_next;
    match (broken.fault, proven) {
        (BreakFault::Frame(_), false) if plant::is(Plant::TornTailNotCut) => History::KeepAll,
        (BreakFault::Frame(_), false) => History::CutAt(broken),
        (BreakFault::Frame(_), true) => History::Damaged(broken),
        (BreakFault::Gap, false) => History::CutAt(broken),
        (BreakFault::Gap, true) => History::Missing(broken),
    }
}

/// The input of the second table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastRun {
    pub(crate) closed: bool,
    pub(crate) cut: bool,
    pub(crate) level: Durability,
    pub(crate) same_boot: bool,
}

/// Applies the second table; returns the reason for a new epoch, if there is one.
pub(crate) fn judge_epoch(run: LastRun) -> Option<EpochReason> {
    match (run.closed, run.cut, run.level, run.same_boot) {
        (_, true, _, _) => Some(EpochReason::TailCut),
        (true, false, _, _) => None,
        (false, false, Durability::Memory, _) if plant::is(Plant::EpochNotBegun) => None,
        (false, false, Durability::Memory, _) => Some(EpochReason::UncleanAtMemory),
        (false, false, Durability::Os, false) => Some(EpochReason::RebootAtOs),
        (false, false, Durability::Os, true) => None,
        (false, false, Durability::Disk, _) => None,
    }
}

/// Fails when the first table's result is an error.
pub(crate) fn refuse_damage(scan: &Scan, history: History) -> Result<(), LogError> {
    let (History::Damaged(broken) | History::Missing(broken)) = history else { return Ok(()) };
    let file = scan.segments[broken.segment].name.clone();
    let frame = scan.head.frame_next;
    match broken.fault {
        BreakFault::Gap => Err(LogError::MissingSegment { file, frame }),
        BreakFault::Frame(fault) => Err(LogError::Damaged {
            file,
            offset: broken.offset,
            fault,
            frame,
            position: scan.head.position_next,
            synced_frame: scan.synced_frame,
        }),
    }
}

/// Returns the second table's input for a scan on a machine with this `boot_id`.
pub(crate) fn last_run(scan: &Scan, boot_id: [u8; 16]) -> LastRun {
    LastRun {
        closed: scan.last_kind == Some(FrameKind::Close),
        cut: scan.broken.is_some(),
        level: scan.opening.durability,
        same_boot: scan.opening.boot_id == boot_id,
    }
}

/// Cuts off a torn tail: overwrites the bytes up to the last written one with zeros and removes
/// later files. Repeating it after a crash gives the same result. Drops the removed segments from
/// the scan.
pub(crate) fn cut_tail<D: Disk>(
    disk: &mut D,
    scan: &mut Scan,
    broken: Break,
) -> Result<CutTail, DiskError> {
    // After a gap the next file goes as a whole; a bad frame is cut within its file.
    let (keep, at) = match broken.fault {
        BreakFault::Gap => (broken.segment, None),
        BreakFault::Frame(_) => (broken.segment + 1, Some(broken.offset)),
    };
    let place = &scan.segments[broken.segment];
    let mut cut = CutTail {
        file: place.name.clone(),
        offset: broken.offset,
        bytes: place.used.saturating_sub(broken.offset),
        fault: match broken.fault {
            BreakFault::Frame(fault) => Some(fault),
            BreakFault::Gap => None,
        },
        first_position: scan.head.position_next,
        removed: Vec::new(),
    };
    // Newest first: a crash in between leaves a shorter tail of the same kind, not a hole.
    for segment in scan.segments.drain(keep..).rev() {
        disk.remove(&segment.name)?;
        disk.sync_dir()?;
        cut.removed.push(segment.name);
    }
    if let Some(offset) = at {
        let segment = &mut scan.segments[broken.segment];
        let file = disk.open(&segment.name, Access::Write)?;
        let zeros = vec![0u8; usize::try_from(cut.bytes).expect("within a read file")];
        disk.write_all(file, offset, &zeros)?;
        disk.sync(file)?;
        disk.close(file);
        segment.used = segment.end;
    }
    Ok(cut)
}

/// Rewrites and syncs the bytes that no mark proves synced; returns their number.
pub(crate) fn rewrite_unproven<D: Disk>(disk: &mut D, scan: &Scan) -> Result<u64, DiskError> {
    let Some(&(_, first, offset)) = scan.unproven.front() else { return Ok(0) };
    let mut total = 0;
    let mut bytes = Vec::new();
    for (index, segment) in scan.segments.iter().enumerate().skip(first) {
        let start = if index == first { offset } else { 0 };
        bytes.resize(usize::try_from(segment.end - start).expect("within a read file"), 0);
        let file = disk.open(&segment.name, Access::Write)?;
        disk.read(file, start, &mut bytes)?;
        disk.write_all(file, start, &bytes)?;
        disk.sync(file)?;
        disk.close(file);
        total += bytes.len() as u64;
    }
    Ok(total)
}

#[cfg(test)]
mod tests;
