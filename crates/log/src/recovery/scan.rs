//! Reads a log from its oldest segment and finds the place where its history breaks.
//!
//! A scan changes nothing and decides nothing: it returns its findings, and the tables in the
//! parent module decide. The bytes may be damaged in any way, so the scan never panics on them and
//! allocates no more than a file's length and a few bytes per unproven frame.

use std::collections::VecDeque;

use weir_io::{Access, Disk};
use weir_types::{Epoch, Nanos, Position};

use crate::error::LogError;
use crate::frame::{Decoded, FRAME_HEADER, Fault, FrameHeader, FrameKind, decode_frame};
use crate::segment::{
    EPOCH_MAX, EPOCHS_MAX, EpochEnd, FORMAT_VERSION, HeaderFault, NUMBER_MAX, Opening, RulesSince,
    SEGMENT_HEADER, SegmentHeader, SegmentKind,
};

/// The maximum length of a file that is read as a segment: 4 GiB.
const FILE_BYTES_MAX: u64 = 1 << 32;

/// The state that the next frame of a history must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HistoryHead {
    pub(crate) frame_next: u64,
    pub(crate) position_next: Position,
    pub(crate) link: u64,
    pub(crate) log_time: Nanos,
    pub(crate) epoch: Epoch,
    pub(crate) ended: Vec<EpochEnd>,
}

impl HistoryHead {
    fn of_header(header: &SegmentHeader) -> HistoryHead {
        HistoryHead {
            frame_next: header.first_frame,
            position_next: header.first_position,
            link: header.link,
            log_time: header.log_time,
            epoch: header.epoch,
            ended: header.ended.clone(),
        }
    }

    fn continues_with(&self, header: &SegmentHeader) -> bool {
        self.frame_next == header.first_frame
            && self.position_next == header.first_position
            && self.link == header.link
            && self.epoch == header.epoch
    }

    fn accepts(&self, frame: &FrameHeader) -> bool {
        let new_epoch = frame.kind == FrameKind::Open && frame.epoch > self.epoch;
        let later = frame.log_time > self.log_time
            || (frame.kind != FrameKind::Entries && frame.log_time == self.log_time);
        frame.frame == self.frame_next
            && frame.first_position == self.position_next
            && frame.link == self.link
            && frame.synced_frame < frame.frame
            && (frame.epoch == self.epoch || new_epoch)
            && later
            && self.position_next.0 + u64::from(frame.count) < NUMBER_MAX
            && frame.frame < NUMBER_MAX
            && frame.log_time.0 < NUMBER_MAX
            && frame.epoch.0 < EPOCH_MAX
    }

    /// Advances by one frame.
    pub(crate) fn step(&mut self, frame: &FrameHeader, header_crc: u32) {
        self.start_epoch(frame.epoch);
        self.frame_next += 1;
        self.position_next = Position(self.position_next.0 + u64::from(frame.count));
        self.link = frame.next_link(header_crc);
        self.log_time = frame.log_time;
    }

    fn start_epoch(&mut self, epoch: Epoch) {
        if epoch != self.epoch {
            if self.ended.len() == EPOCHS_MAX {
                self.ended.remove(0);
            }
            let last_valid = Position(self.position_next.0 - 1);
            self.ended.push(EpochEnd { epoch: self.epoch, last_valid });
            self.epoch = epoch;
        }
    }
}

/// A segment found by a scan.
#[derive(Clone, Debug)]
pub(crate) struct ScannedSegment {
    pub(crate) name: String,
    pub(crate) header: SegmentHeader,
    /// The file's length.
    pub(crate) len: u64,
    /// The offset after its last sound frame.
    pub(crate) end: u64,
    /// The offset after its last non-zero byte.
    pub(crate) used: u64,
}

/// The place where a history breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Break {
    /// The index of its segment.
    pub(crate) segment: usize,
    pub(crate) offset: u64,
    pub(crate) fault: BreakFault,
}

/// The fault at a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BreakFault {
    /// The bytes are not the expected frame.
    Frame(Fault),
    /// The segment does not continue from the one before it.
    Gap,
}

/// The findings of a scan.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    pub(crate) segments: Vec<ScannedSegment>,
    pub(crate) head: HistoryHead,
    /// The highest frame that any header, before or after a break, reports as synced.
    pub(crate) synced_frame: u64,
    pub(crate) broken: Option<Break>,
    pub(crate) last_kind: Option<FrameKind>,
    pub(crate) opening: Opening,
    /// The versions of rules, by the first position of each, oldest first.
    pub(crate) rules: Vec<RulesSince>,
    /// Frames above `synced_frame`: number, segment index and offset, oldest first.
    pub(crate) unproven: VecDeque<(u64, usize, u64)>,
}

impl Scan {
    pub(crate) fn of_first(header: &SegmentHeader) -> Scan {
        Scan {
            segments: Vec::new(),
            head: HistoryHead::of_header(header),
            synced_frame: header.first_frame - 1,
            broken: None,
            last_kind: None,
            opening: header.opening,
            rules: vec![RulesSince { from: header.first_position, rules: header.opening.rules }],
            unproven: VecDeque::new(),
        }
    }

    fn believe_synced(&mut self, frame: u64) {
        self.synced_frame = self.synced_frame.max(frame);
    }

    fn break_at(&mut self, offset: u64, fault: BreakFault) {
        let segment = self.segments.len();
        self.broken.get_or_insert(Break { segment, offset, fault });
    }

    /// Scans the next segment in order.
    pub(crate) fn take(&mut self, name: &str, header: SegmentHeader, bytes: &[u8]) {
        if self.broken.is_none() && !self.head.continues_with(&header) {
            self.break_at(0, BreakFault::Gap);
        }
        // A header is synced together with the frames that it reports, so it counts even after a
        // break.
        self.believe_synced(header.synced_frame);
        let mut end = SEGMENT_HEADER;
        if self.broken.is_none() {
            end = self.walk(bytes);
        }
        if self.broken.is_some() {
            self.hear_witnesses(&bytes[end..]);
        }
        let used = bytes.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1);
        self.segments.push(ScannedSegment {
            name: name.to_owned(),
            header,
            len: bytes.len() as u64,
            end: end as u64,
            used: used as u64,
        });
        let synced = self.synced_frame;
        while self.unproven.front().is_some_and(|(frame, ..)| *frame <= synced) {
            self.unproven.pop_front();
        }
    }

    /// Follows the frames from the segment's start; returns the offset after the sound ones.
    fn walk(&mut self, bytes: &[u8]) -> usize {
        let mut at = SEGMENT_HEADER;
        loop {
            match decode_frame(&bytes[at..]) {
                Decoded::Frame { header, header_crc, body } if self.head.accepts(&header) => {
                    self.follow(&header, header_crc, body, at as u64);
                    at += header.length as usize;
                }
                Decoded::Frame { .. } => {
                    self.break_at(at as u64, BreakFault::Frame(Fault::Misplaced));
                    return at;
                }
                Decoded::Zeros => {
                    if bytes[at..].iter().any(|&b| b != 0) {
                        self.break_at(at as u64, BreakFault::Frame(Fault::Hole));
                    }
                    return at;
                }
                Decoded::Fault(fault) => {
                    self.break_at(at as u64, BreakFault::Frame(fault));
                    return at;
                }
            }
        }
    }

    fn follow(&mut self, frame: &FrameHeader, header_crc: u32, body: &[u8], at: u64) {
        self.head.step(frame, header_crc);
        self.believe_synced(frame.synced_frame);
        self.last_kind = Some(frame.kind);
        self.unproven.push_back((frame.frame, self.segments.len(), at));
        if frame.kind == FrameKind::Open
            && let Some(opening) = Opening::of_body(body, frame.durability)
        {
            self.opening = opening;
            self.go_on_by(opening.rules);
        }
        while self.unproven.front().is_some_and(|(n, ..)| *n <= self.synced_frame) {
            self.unproven.pop_front();
        }
    }

    /// Notes the version of rules of the entries from here on.
    fn go_on_by(&mut self, rules: u32) {
        let from = self.head.position_next;
        // A run that executed nothing leaves no trace.
        if self.rules.last().is_some_and(|last| last.from == from) {
            self.rules.pop();
        }
        if self.rules.last().is_none_or(|last| last.rules != rules) {
            self.rules.push(RulesSince { from, rules });
        }
    }

    /// Searches the bytes after a break for sound frame headers, and takes over the synced frame
    /// that they report.
    fn hear_witnesses(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while at + FRAME_HEADER <= bytes.len() {
            let next = self.head.frame_next;
            match FrameHeader::decode(&bytes[at..at + FRAME_HEADER]) {
                Some((frame, _)) if frame.frame > next && frame.synced_frame < frame.frame => {
                    self.believe_synced(frame.synced_frame);
                    at += FRAME_HEADER;
                }
                _ => at += 8,
            }
        }
    }
}

/// Returns the names of all segments of a `kind` log, oldest first.
pub(crate) fn segment_names<D: Disk>(
    disk: &mut D,
    kind: SegmentKind,
) -> Result<Vec<String>, LogError> {
    let mut names = disk.list()?;
    names.retain(|name| name.ends_with(kind.suffix()));
    Ok(names)
}

/// Scans all segments of a `kind` log; `None` when there are none.
pub(crate) fn scan<D: Disk>(disk: &mut D, kind: SegmentKind) -> Result<Option<Scan>, LogError> {
    let names = segment_names(disk, kind)?;
    scan_files(disk, kind, &names)
}

/// Scans these segments of a `kind` log, oldest first; `None` when there are none.
pub(crate) fn scan_files<D: Disk>(
    disk: &mut D,
    kind: SegmentKind,
    names: &[String],
) -> Result<Option<Scan>, LogError> {
    let mut found: Option<Scan> = None;
    let mut bytes = Vec::new();
    for name in names {
        read_file(disk, name, &mut bytes)?;
        let header = sound_header(name, &bytes, kind)?;
        let scan = found.get_or_insert_with(|| Scan::of_first(&header));
        if let Some(first) = scan.segments.first()
            && (first.header.log_id, first.header.partition) != (header.log_id, header.partition)
        {
            let what = "another log's identity or partition".to_owned();
            return Err(LogError::Foreign { file: name.clone(), what });
        }
        scan.take(name, header, &bytes);
    }
    Ok(found)
}

/// Scans `bytes` as the only segment of a command log; returns the number of sound frames and true
/// when history breaks off.
///
/// # Errors
/// As [`SegmentHeader::decode`].
pub fn decode_segment(bytes: &[u8]) -> Result<(u64, bool), HeaderFault> {
    let header = SegmentHeader::decode(bytes, SegmentKind::Command)?;
    let first = header.first_frame;
    let mut scan = Scan::of_first(&header);
    scan.take("", header, bytes);
    Ok((scan.head.frame_next - first, scan.broken.is_some()))
}

fn read_file<D: Disk>(disk: &mut D, name: &str, bytes: &mut Vec<u8>) -> Result<(), LogError> {
    let file = disk.open(name, Access::Read)?;
    let read = read_open_file(disk, file, name, bytes);
    disk.close(file);
    read
}

fn read_open_file<D: Disk>(
    disk: &mut D,
    file: weir_io::FileId,
    name: &str,
    bytes: &mut Vec<u8>,
) -> Result<(), LogError> {
    let len = disk.len(file)?;
    if len > FILE_BYTES_MAX {
        let what = format!("{len} bytes are more than a segment has");
        return Err(LogError::Foreign { file: name.to_owned(), what });
    }
    bytes.resize(usize::try_from(len).expect("at most 4 GiB"), 0);
    let read = disk.read(file, 0, bytes)?;
    bytes.truncate(read);
    Ok(())
}

/// Decodes the header of the segment `name`.
pub(crate) fn sound_header(
    name: &str,
    bytes: &[u8],
    kind: SegmentKind,
) -> Result<SegmentHeader, LogError> {
    let file = name.to_owned();
    SegmentHeader::decode(bytes, kind).map_err(|fault| match fault {
        HeaderFault::Unsound => LogError::DamagedHeader { file },
        HeaderFault::Newer(version) => {
            LogError::NewerFormat { file, version, known: FORMAT_VERSION }
        }
        HeaderFault::OtherKind => {
            LogError::Foreign { file, what: "a log of another kind".to_owned() }
        }
    })
}
