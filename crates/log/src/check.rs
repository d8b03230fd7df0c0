//! One segment, looked at alone: what a backup asks before it trusts a copy.
//!
//! A check reads bytes that anybody may have damaged or that a writer is still adding to, changes
//! nothing and judges only what the one file can tell. Whoever checks several of them compares
//! where one ends with where the next begins.

use weir_types::{Durability, Epoch, Nanos, Position};

use crate::error::LogError;
use crate::frame::{Fault, FrameKind};
use crate::recovery::{BreakFault, Scan, sound_header};
use crate::segment::{EpochEnd, SegmentHeader, SegmentKind};

/// A place in a log's history, as the segment that begins there tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Juncture {
    /// The number of the next frame.
    pub frame: u64,
    /// The position of the next entry.
    pub position: Position,
    /// The link that the next frame carries.
    pub link: u64,
    /// The epoch there.
    pub epoch: Epoch,
}

impl Juncture {
    /// Where the segment with this header begins.
    #[must_use]
    pub fn of_header(header: &SegmentHeader) -> Juncture {
        Juncture {
            frame: header.first_frame,
            position: header.first_position,
            link: header.link,
            epoch: header.epoch,
        }
    }
}

/// What a segment holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentCheck {
    /// Its header.
    pub header: SegmentHeader,
    /// How many of its bytes hold the header and sound frames.
    pub end: u64,
    /// Where history stands behind its last sound frame.
    pub next: Juncture,
    /// The log time of the last batch.
    pub log_time: Nanos,
    /// The epochs that ended up to there, oldest first.
    pub ended: Vec<EpochEnd>,
    /// The durability level of the run that wrote last.
    pub durability: Durability,
    /// The highest frame that anything in the file, behind a break too, says was synced.
    pub synced_frame: u64,
    /// True when the last sound frame is a closing mark.
    pub is_closed: bool,
    /// What stands at `end` when it is neither zeros nor the end of the file.
    pub broken: Option<Fault>,
}

impl SegmentCheck {
    /// The error of a file named `name` whose break is damage, for frames up to `synced_frame` were
    /// synced; `None` when there is no break or it may be a torn tail.
    #[must_use]
    pub fn damage(&self, name: &str, synced_frame: u64) -> Option<LogError> {
        let fault = self.broken?;
        (self.next.frame <= synced_frame.max(self.synced_frame)).then(|| LogError::Damaged {
            file: name.to_owned(),
            offset: self.end,
            fault,
            frame: self.next.frame,
            position: self.next.position,
            synced_frame: synced_frame.max(self.synced_frame),
        })
    }
}

/// Checks the header of the segment `name`: it is sound and of that name.
///
/// # Errors
/// [`LogError::DamagedHeader`], [`LogError::NewerFormat`], [`LogError::Foreign`].
pub fn check_header(
    name: &str,
    bytes: &[u8],
    kind: SegmentKind,
) -> Result<SegmentHeader, LogError> {
    let header = sound_header(name, bytes, kind)?;
    if header.file_name() != name {
        let what = format!("its header is that of {}", header.file_name());
        return Err(LogError::Foreign { file: name.to_owned(), what });
    }
    Ok(header)
}

/// Checks the bytes of the segment `name`: header, checksums, numbers, links.
///
/// # Errors
/// As [`check_header`]. A break in the frames is no error here: [`SegmentCheck::broken`].
pub fn check_segment(
    name: &str,
    bytes: &[u8],
    kind: SegmentKind,
) -> Result<SegmentCheck, LogError> {
    let header = check_header(name, bytes, kind)?;
    let mut scan = Scan::of_first(&header);
    scan.take(name, header.clone(), bytes);
    let broken = scan.broken.map(|broken| match broken.fault {
        BreakFault::Frame(fault) => fault,
        BreakFault::Gap => unreachable!("one segment has nothing before it"),
    });
    let head = scan.head;
    Ok(SegmentCheck {
        end: scan.segments[0].end,
        next: Juncture {
            frame: head.frame_next,
            position: head.position_next,
            link: head.link,
            epoch: head.epoch,
        },
        log_time: head.log_time,
        ended: head.ended,
        durability: scan.opening.durability,
        synced_frame: scan.synced_frame,
        is_closed: scan.last_kind == Some(FrameKind::Close),
        broken,
        header,
    })
}
