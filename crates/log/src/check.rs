//! The check of a single segment, as a backup does it before it trusts a copy.
//!
//! The bytes may be damaged or still growing. A check changes nothing and judges only the one file;
//! a caller with several segments compares the end of each with the beginning of the next.

use weir_types::{Durability, Epoch, Nanos, Position};

use crate::error::LogError;
use crate::frame::{Fault, FrameKind};
use crate::recovery::{BreakFault, Scan, sound_header};
use crate::segment::{EpochEnd, SegmentHeader, SegmentKind};

/// A point between two frames of a log's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Juncture {
    /// The number of the next frame.
    pub frame: u64,
    /// The position of the next entry.
    pub position: Position,
    /// The link that the next frame carries.
    pub link: u64,
    /// The epoch at this point.
    pub epoch: Epoch,
}

impl Juncture {
    /// Returns the point at which the segment with this header begins.
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

/// The result of checking a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentCheck {
    /// Its header.
    pub header: SegmentHeader,
    /// The number of bytes taken by the header and the sound frames.
    pub end: u64,
    /// The point after the last sound frame.
    pub next: Juncture,
    /// The log time of the last batch.
    pub log_time: Nanos,
    /// The epochs that ended up to this point, oldest first.
    pub ended: Vec<EpochEnd>,
    /// The durability level of the last run that wrote to the segment.
    pub durability: Durability,
    /// The highest frame that any mark in the file, even one after a break, reports as synced.
    pub synced_frame: u64,
    /// True when the last sound frame is a closing mark.
    pub is_closed: bool,
    /// The fault at `end`, when neither zeros nor the end of the file follow.
    pub broken: Option<Fault>,
}

impl SegmentCheck {
    /// Returns the error when the break is damage, that is when its frame was synced according to
    /// `synced_frame` or to the segment itself; `None` when there is no break or it may be a torn
    /// tail.
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

/// Checks the header of the segment `name`: it is sound and matches the name.
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

/// Checks the bytes of the segment `name`: header, checksums, numbers and links.
///
/// # Errors
/// As [`check_header`]. A break in the frames is not an error; [`SegmentCheck::broken`] reports it.
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
