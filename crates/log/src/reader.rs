//! Reads a log's entries in order, from files that may still grow.
//!
//! A reader verifies every frame's checksums, place and link. It holds one frame at a time, opens
//! files for reading only and takes no lock, so the log's writer may be running. It reports the end
//! of the written frames and can be called again later; a half-written frame reads as the end. It
//! may return entries that are written but not yet committed; the caller compares positions.
//!
//! The writer may also remove the oldest segments, and use their files again, under a reader that
//! has them open. Frame number and link of another segment's frames do not fit, so such a reader
//! gets no wrong entry but [`LogError::NotRetained`] with the first position that there is.

use weir_io::{Access, Disk, DiskErrorKind, FileId};
use weir_types::{Epoch, Nanos, Position};

use crate::batch::split_entry;
use crate::error::LogError;
use crate::frame::{Decoded, FRAME_HEADER, Fault, FrameHeader, FrameKind, decode_frame};
use crate::recovery::sound_header;
use crate::segment::{EpochEnd, NUMBER_MAX, SEGMENT_HEADER, SegmentHeader, SegmentKind};

/// The number of bytes to read ahead.
const READ_AHEAD: usize = 256 * 1024;

/// The number of times that the segments are listed because one was removed before it was opened.
const LISTINGS_MAX: u32 = 64;

/// The distance between remembered places within a segment, in bytes.
const CURSOR_EVERY: u64 = 1 << 20;

/// The most places that a reader remembers: those of the newest 4 GiB that it has passed.
const PLACES_MAX: usize = 4096;

/// A place from which reading can continue: the start of a frame.
#[derive(Clone, Debug)]
struct FrameCursor {
    name: String,
    offset: u64,
    frame: u64,
    position: Position,
    link: u64,
}

/// An entry of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The entry's position.
    pub position: Position,
    /// The log time of its batch.
    pub log_time: Nanos,
    /// The epoch in which it was appended.
    pub epoch: Epoch,
    /// True for the last entry of its batch.
    pub ends_batch: bool,
    /// The entry's bytes.
    pub bytes: &'a [u8],
}

/// A reader with its place in one log.
pub struct LogReader<D: Disk> {
    disk: D,
    kind: SegmentKind,
    name: String,
    file: FileId,
    header: SegmentHeader,
    /// The offset of the next frame.
    offset: u64,
    frame_next: u64,
    position_next: Position,
    link: u64,
    /// The bytes read ahead, and their offset in the file.
    buf: Vec<u8>,
    buf_at: u64,
    /// The frame being read: its header, and the rest of its body within `buf`.
    current: Option<FrameHeader>,
    body: std::ops::Range<usize>,
    position: Position,
    /// Places passed so far, in order: a sparse index.
    ///
    /// INVARIANT: at most [`PLACES_MAX`]; when the reader enters a segment, none of one that was
    /// removed before.
    places: Vec<FrameCursor>,
}

/// The state after a segment's last frame, as far as a reader can tell.
enum NextSegment {
    /// No further segment yet.
    None,
    /// The next segment, which continues from here and was entered.
    Entered,
    /// The next segment begins later: frames were added after this segment was read.
    LookAgain,
}

impl<D: Disk> LogReader<D> {
    /// Opens a reader whose first entry is `from`, or the oldest retained entry for position zero.
    ///
    /// # Errors
    /// Fails when there is no log, `from` is not in it, or it cannot be read.
    pub fn open(mut disk: D, kind: SegmentKind, from: Position) -> Result<Self, LogError> {
        let (name, file, header) = open_holder(&mut disk, kind, from)?;
        let mut reader = LogReader {
            disk,
            kind,
            name,
            file,
            offset: SEGMENT_HEADER as u64,
            frame_next: header.first_frame,
            position_next: header.first_position,
            link: header.link,
            header,
            buf: Vec::new(),
            buf_at: 0,
            current: None,
            body: 0..0,
            position: Position(0),
            places: Vec::new(),
        };
        reader.skip_to(from)?;
        Ok(reader)
    }

    /// Returns the next entry; `None` at the end of the written entries.
    ///
    /// # Errors
    /// Fails when the disk fails, or the log is damaged before its end.
    pub fn next_entry(&mut self) -> Result<Option<Entry<'_>>, LogError> {
        while self.body.is_empty() {
            if !self.next_frame()? {
                return Ok(None);
            }
        }
        let header = self.current.expect("a body belongs to a frame");
        let body = &self.buf[self.body.clone()];
        let (bytes, rest) = split_entry(body).expect("entries were checked with the frame");
        self.body.start = self.body.end - rest.len();
        let position = self.position;
        self.position = position.next();
        Ok(Some(Entry {
            position,
            log_time: header.log_time,
            epoch: header.epoch,
            ends_batch: rest.is_empty(),
            bytes,
        }))
    }

    /// Returns the position of the next entry.
    #[must_use]
    pub fn next_position(&self) -> Position {
        if self.body.is_empty() { self.position_next } else { self.position }
    }

    /// Returns the header of the current segment.
    #[must_use]
    pub fn segment(&self) -> &SegmentHeader {
        &self.header
    }

    /// Returns the next frame's header, including marks, with its file and offset; unread entries
    /// of the frame before are skipped. For tools that show a log frame by frame.
    ///
    /// # Errors
    /// As [`LogReader::next_entry`].
    pub fn next_header(&mut self) -> Result<Option<(FrameHeader, &str, u64)>, LogError> {
        let place = self.offset;
        let first_file = self.frame_next;
        if !self.next_frame()? {
            return Ok(None);
        }
        let header = self.current.expect("a frame was read");
        let moved = self.header.first_frame == first_file;
        let at = if moved { SEGMENT_HEADER as u64 } else { place };
        Ok(Some((header, &self.name, at)))
    }

    /// Moves to the entry at `to`, starting from the nearest remembered place, at most 1 MiB of
    /// frames before it, or from the start of its segment if all remembered places are later.
    ///
    /// # Errors
    /// Fails when `to` is not in the log, or the disk fails. The reader's place is then undefined;
    /// seek again before reading.
    pub fn seek(&mut self, to: Position) -> Result<(), LogError> {
        match self.seek_from_nearest(to) {
            // The nearest place was removed with its segment, `to` was not.
            Err(LogError::NotRetained { wanted, first, .. }) if wanted < first && first <= to => {
                self.seek_from_oldest(to)
            }
            sought => sought,
        }
    }

    fn seek_from_nearest(&mut self, to: Position) -> Result<(), LogError> {
        let passed = self.places.partition_point(|place| place.position <= to);
        let Some(place) = passed.checked_sub(1).map(|last| self.places[last].clone()) else {
            return self.seek_from_oldest(to);
        };
        let nearer = self.next_position() <= to && place.position <= self.next_position();
        if !nearer {
            let Some((file, header)) = open_listed(&mut self.disk, self.kind, &place.name)? else {
                return self.seek_from_oldest(to);
            };
            self.go_to(file, header, place);
        }
        self.skip_to(to)
    }

    /// Moves to the entry at `to` from the start of its segment. Remembered places may be in
    /// segments that are removed, and are forgotten.
    fn seek_from_oldest(&mut self, to: Position) -> Result<(), LogError> {
        self.places.clear();
        let (name, file, header) = open_holder(&mut self.disk, self.kind, to)?;
        let (offset, frame) = (SEGMENT_HEADER as u64, header.first_frame);
        let (position, link) = (header.first_position, header.link);
        self.go_to(file, header, FrameCursor { name, offset, frame, position, link });
        self.skip_to(to)
    }

    fn go_to(&mut self, file: FileId, header: SegmentHeader, place: FrameCursor) {
        self.disk.close(self.file);
        self.file = file;
        self.header = header;
        self.name = place.name;
        self.offset = place.offset;
        self.frame_next = place.frame;
        self.position_next = place.position;
        self.link = place.link;
        self.buf.clear();
        self.buf_at = 0;
        self.body = 0..0;
    }

    fn skip_to(&mut self, from: Position) -> Result<(), LogError> {
        if from >= self.position_next {
            // The unread entries of the current frame are left behind: looking at later frames
            // replaces their bytes in the buffer.
            self.body = 0..0;
        }
        let first = self.header.first_position;
        while self.body.is_empty() && self.hop_before(from)? {}
        while self.next_position() < from {
            if self.next_entry()?.is_none() {
                break;
            }
        }
        let next = self.next_position();
        let last = Position(next.0 - 1);
        let missing = from < first && !from.is_none() || next < from;
        if missing {
            return Err(LogError::NotRetained { wanted: from, first, last });
        }
        Ok(())
    }

    /// Skips one frame by its header alone when all of it is before `from`.
    fn hop_before(&mut self, from: Position) -> Result<bool, LogError> {
        self.read_ahead(FRAME_HEADER)?;
        let Some((header, crc)) = FrameHeader::decode(self.ahead()) else { return Ok(false) };
        let passes = self.belongs(&header)
            && header.first_position.0 + u64::from(header.count) <= from.0
            && self.offset + u64::from(header.length) <= self.disk.len(self.file)?;
        if passes {
            self.enter(header, crc, 0);
        }
        Ok(passes)
    }

    /// Moves to the next frame, in the next segment if this one has ended.
    fn next_frame(&mut self) -> Result<bool, LogError> {
        let mut is_final = false;
        // Bytes that an earlier call has read may be older than frames written since.
        let mut may_be_old = !self.ahead().is_empty();
        loop {
            self.body = 0..0;
            let length = self.frame_length_ahead()?;
            self.read_ahead(length)?;
            let ahead = self.ahead();
            let ahead = &ahead[..length.min(ahead.len())];
            let fault = match decode_frame(ahead) {
                Decoded::Frame { header, header_crc, body } if self.belongs(&header) => {
                    let body_len = body.len();
                    self.enter(header, header_crc, body_len);
                    return Ok(true);
                }
                Decoded::Frame { .. } => Fault::Misplaced,
                Decoded::Zeros => Fault::Hole,
                Decoded::Fault(fault) => fault,
            };
            match self.next_segment(fault, is_final)? {
                NextSegment::None if may_be_old => may_be_old = false,
                NextSegment::None => return Ok(false),
                NextSegment::Entered => (is_final, may_be_old) = (false, false),
                NextSegment::LookAgain => is_final = true,
            }
        }
    }

    fn enter(&mut self, header: FrameHeader, header_crc: u32, body_len: usize) {
        self.remember();
        let start = usize::try_from(self.offset - self.buf_at).expect("within the buffer");
        self.offset += u64::from(header.length);
        self.frame_next += 1;
        self.position = header.first_position;
        self.position_next = Position(header.first_position.0 + u64::from(header.count));
        self.link = header.next_link(header_crc);
        // A mark has no entries, and unread ones of the frame before are left behind.
        self.body = match header.kind {
            FrameKind::Entries => start + FRAME_HEADER..start + FRAME_HEADER + body_len,
            _ => 0..0,
        };
        self.current = Some(header);
    }

    /// Remembers the current place when the last remembered one is far behind.
    fn remember(&mut self) {
        let known = self.places.last().is_some_and(|last| {
            last.position >= self.position_next
                || (last.name == self.name && last.offset + CURSOR_EVERY > self.offset)
        });
        if !known {
            if self.places.len() == PLACES_MAX {
                self.places.drain(..PLACES_MAX / 2);
            }
            let (name, offset) = (self.name.clone(), self.offset);
            let (frame, position, link) = (self.frame_next, self.position_next, self.link);
            self.places.push(FrameCursor { name, offset, frame, position, link });
        }
    }

    /// Forgets the remembered places in segments before `oldest`: they are removed.
    fn forget_before(&mut self, oldest: &str) {
        let removed = self.places.partition_point(|place| place.name.as_str() < oldest);
        self.places.drain(..removed);
    }

    fn belongs(&self, header: &FrameHeader) -> bool {
        header.frame == self.frame_next
            && header.first_position == self.position_next
            && header.link == self.link
            && header.first_position.0 + u64::from(header.count) < NUMBER_MAX
            && header.frame < NUMBER_MAX
    }

    /// Returns the buffered bytes from the current offset.
    fn ahead(&self) -> &[u8] {
        let skip = usize::try_from(self.offset.saturating_sub(self.buf_at)).unwrap_or(usize::MAX);
        self.buf.get(skip..).unwrap_or_default()
    }

    /// Returns the length in the next frame's header when that is sound, otherwise a header's
    /// length.
    fn frame_length_ahead(&mut self) -> Result<usize, LogError> {
        self.read_ahead(FRAME_HEADER)?;
        let sound = FrameHeader::decode(self.ahead());
        Ok(sound.map_or(FRAME_HEADER, |(header, _)| header.length as usize))
    }

    /// Buffers `wanted` bytes, as far as the file has them.
    fn read_ahead(&mut self, wanted: usize) -> Result<(), LogError> {
        if self.offset >= self.buf_at && self.ahead().len() >= wanted {
            return Ok(());
        }
        // Limited to the file's length: a length in a damaged file must not size a buffer.
        let left = self.disk.len(self.file)?.saturating_sub(self.offset);
        let size = (wanted.max(READ_AHEAD) as u64).min(left);
        self.buf.resize(usize::try_from(size).expect("a segment is below 4 GiB"), 0);
        let read = self.disk.read(self.file, self.offset, &mut self.buf)?;
        self.buf.truncate(read);
        self.buf_at = self.offset;
        Ok(())
    }

    /// Opens this segment's file again. In a log with an archive the file may be removed, and its
    /// bytes with it, while its name goes on as the archive's file.
    fn open_again(&mut self) -> Result<(), LogError> {
        if let Some((file, header)) = open_listed(&mut self.disk, self.kind, &self.name)? {
            self.disk.close(self.file);
            (self.file, self.header) = (file, header);
        }
        Ok(())
    }

    /// True if nothing but marks lies between what was read and a segment, and what was read is not
    /// lost: a mark has no entries, so the segment begins at the reader's position.
    fn lacks_only_marks_before(&self, header: &SegmentHeader) -> bool {
        let epoch = self.current.map_or(self.header.epoch, |frame| frame.epoch);
        let is_left =
            |end: &EpochEnd| end.epoch < epoch || end.last_valid.next() >= self.position_next;
        header.log_id == self.header.log_id
            && header.first_position == self.position_next
            && header.first_frame > self.frame_next
            && header.ended.iter().all(is_left)
    }

    /// Moves to the segment after this one. `fault` is the fault at the place of this segment's
    /// next frame.
    ///
    /// | the next segment          | this segment | is final | then                               |
    /// | ------------------------- | ------------ | -------- | ---------------------------------- |
    /// | none                      | any          | any      | the end of the log                 |
    /// | removed when it is opened | removed      | any      | look again: segments go in order   |
    /// | continues from here       | any          | any      | enter it                           |
    /// | begins here behind marks  | removed      | any      | enter it                           |
    /// | begins later              | removed      | any      | error: not retained                |
    /// | begins later              | listed       | no       | look again: frames were added      |
    /// | begins later              | listed       | yes      | error: damaged, since all frames   |
    /// |                           |              |          | before a segment are written       |
    /// |                           |              |          | before it is named                 |
    fn next_segment(&mut self, fault: Fault, is_final: bool) -> Result<NextSegment, LogError> {
        // The buffered bytes may be older than the writer's last changes.
        self.buf.clear();
        let names = segment_names(&mut self.disk, self.kind)?;
        let Some(name) = names.iter().find(|name| **name > self.name) else {
            return Ok(NextSegment::None);
        };
        let Some((file, header)) = open_listed(&mut self.disk, self.kind, name)? else {
            return Ok(NextSegment::LookAgain);
        };
        let follows = header.first_frame == self.frame_next && header.link == self.link;
        if follows || !names.contains(&self.name) && self.lacks_only_marks_before(&header) {
            self.disk.close(self.file);
            self.file = file;
            self.name.clone_from(name);
            (self.frame_next, self.link) = (header.first_frame, header.link);
            self.header = header;
            self.offset = SEGMENT_HEADER as u64;
            self.buf_at = 0;
            self.forget_before(&names[0]);
            return Ok(NextSegment::Entered);
        }
        self.disk.close(file);
        if !names.contains(&self.name) {
            return Err(LogError::NotRetained {
                wanted: self.position_next,
                first: header.first_position,
                last: names.last().and_then(|name| first_position_of(name)).unwrap_or_default(),
            });
        }
        if !is_final {
            self.open_again()?;
            return Ok(NextSegment::LookAgain);
        }
        Err(LogError::Damaged {
            file: self.name.clone(),
            offset: self.offset,
            fault,
            frame: self.frame_next,
            position: self.position_next,
            synced_frame: header.synced_frame,
        })
    }
}

impl<D: Disk> Drop for LogReader<D> {
    fn drop(&mut self) {
        self.disk.close(self.file);
    }
}

fn segment_names<D: Disk>(disk: &mut D, kind: SegmentKind) -> Result<Vec<String>, LogError> {
    let mut names = disk.list()?;
    names.retain(|name| name.ends_with(kind.suffix()));
    Ok(names)
}

/// Returns the header of the segment `name`.
pub(crate) fn segment_header<D: Disk>(
    disk: &mut D,
    name: &str,
    kind: SegmentKind,
) -> Result<SegmentHeader, LogError> {
    let (file, header) = open_segment(disk, name, kind)?;
    disk.close(file);
    Ok(header)
}

/// Opens the segment that holds the entry at `at`: the last one that begins there or before, or the
/// oldest.
fn open_holder<D: Disk>(
    disk: &mut D,
    kind: SegmentKind,
    at: Position,
) -> Result<(String, FileId, SegmentHeader), LogError> {
    for _ in 0..LISTINGS_MAX {
        let names = segment_names(disk, kind)?;
        let holds = |name: &&String| first_position_of(name).is_some_and(|first| first <= at);
        let Some(name) = names.iter().rfind(holds).or(names.first()) else { break };
        if let Some((file, header)) = open_listed(disk, kind, name)? {
            return Ok((name.clone(), file, header));
        }
    }
    Err(LogError::NotRetained { wanted: at, first: Position(0), last: Position(0) })
}

/// Opens a segment that was just listed; `None` when it was removed since. Its file may have become
/// another segment's before its header was read. A log with an archive has the name still, as the
/// archive's file.
fn open_listed<D: Disk>(
    disk: &mut D,
    kind: SegmentKind,
    name: &str,
) -> Result<Option<(FileId, SegmentHeader)>, LogError> {
    match open_named(disk, kind, name) {
        Err(error) if may_be_of_removed(&error) => {
            if segment_names(disk, kind)?.iter().any(|listed| listed == name) {
                open_named(disk, kind, name).map(Some)
            } else {
                Ok(None)
            }
        }
        opened => opened.map(Some),
    }
}

fn open_named<D: Disk>(
    disk: &mut D,
    kind: SegmentKind,
    name: &str,
) -> Result<(FileId, SegmentHeader), LogError> {
    let (file, header) = open_segment(disk, name, kind)?;
    if header.file_name() == name {
        return Ok((file, header));
    }
    disk.close(file);
    let what = format!("its header is that of {}", header.file_name());
    Err(LogError::Foreign { file: name.to_owned(), what })
}

/// True for an error that opening a segment may have when it is removed meanwhile.
fn may_be_of_removed(error: &LogError) -> bool {
    match error {
        LogError::Disk(error) => error.kind == DiskErrorKind::NotFound,
        LogError::DamagedHeader { .. } | LogError::Foreign { .. } => true,
        _ => false,
    }
}

/// A segment that a log retains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetainedSegment {
    /// The position of its first entry.
    pub first_position: Position,
    /// The size of its file in bytes.
    pub bytes: u64,
    /// The log time of the last entry before it.
    pub log_time_before: Nanos,
}

/// Returns the segments of a log that may be in use, oldest first.
///
/// # Errors
/// Fails when the disk fails, or a header is damaged, newer or foreign.
pub fn retained_segments<D: Disk>(
    disk: &mut D,
    kind: SegmentKind,
) -> Result<Vec<RetainedSegment>, LogError> {
    let mut segments = Vec::new();
    for name in segment_names(disk, kind)? {
        let Some((file, header)) = open_listed(disk, kind, &name)? else { continue };
        let len = disk.len(file);
        disk.close(file);
        segments.push(RetainedSegment {
            first_position: header.first_position,
            bytes: len?,
            log_time_before: header.log_time,
        });
    }
    Ok(segments)
}

/// Returns the position in a segment's name.
fn first_position_of(name: &str) -> Option<Position> {
    name.split_once('-')?.0.parse().ok().map(Position)
}

fn open_segment<D: Disk>(
    disk: &mut D,
    name: &str,
    kind: SegmentKind,
) -> Result<(FileId, SegmentHeader), LogError> {
    let file = disk.open(name, Access::Read)?;
    let mut bytes = vec![0; SEGMENT_HEADER];
    let header = disk
        .read(file, 0, &mut bytes)
        .map_err(LogError::from)
        .and_then(|read| sound_header(name, &bytes[..read], kind));
    match header {
        Ok(header) => Ok((file, header)),
        Err(error) => {
            disk.close(file);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_io::SimDisk;
    use weir_types::{Durability, PartitionId};

    use super::*;
    use crate::{Append, Batch, EmbeddedLog, LogConfig, Push, SequencedLog};

    const ENTRY_BYTES: usize = 128 * 1024;

    fn log(disk: &SimDisk) -> EmbeddedLog<SimDisk> {
        let mut config = LogConfig::new(PartitionId(1), 7);
        config.durability = Durability::Os;
        config.segment_bytes = 3 << 20;
        EmbeddedLog::open(config, disk.clone()).unwrap().0
    }

    fn append(log: &mut EmbeddedLog<SimDisk>) {
        let mut batch = Batch::new();
        assert_eq!(batch.push(&[7; ENTRY_BYTES]), Push::Taken);
        let time = Nanos(log.last_log_time().0 + 1);
        assert!(matches!(log.append(log.epoch(), time, &batch), Append::At { .. }));
        settle(log);
    }

    fn settle(log: &mut EmbeddedLog<SimDisk>) {
        while !log.is_idle() || !log.is_trimmed() {
            if log.do_work(Nanos(0)).unwrap() == 0 {
                log.wait();
            }
        }
    }

    fn read_to_end(reader: &mut LogReader<SimDisk>) {
        while reader.next_entry().unwrap().is_some() {}
    }

    #[test]
    fn a_reader_forgets_its_places_in_segments_that_are_removed() {
        let disk = SimDisk::new(1);
        let mut log = log(&disk);
        append(&mut log);
        let mut reader = LogReader::open(disk.clone(), SegmentKind::Command, Position(0)).unwrap();
        let mut places_max = 0;
        for _ in 0..400 {
            append(&mut log);
            read_to_end(&mut reader);
            log.truncate(reader.next_position());
            settle(&mut log);
            places_max = places_max.max(reader.places.len());
        }
        let first = log.first_position();
        assert!(first > Position(300), "{first} is the first retained");
        // The log has at most two segments of 3 MiB when the reader enters a new one.
        assert!(places_max <= 12, "{places_max} places for {ENTRY_BYTES} bytes an entry");
        // It still finds all that there is.
        for to in [first.0, first.0 + 1, log.next_position().0 - 1] {
            reader.seek(Position(to)).unwrap();
            assert_eq!(reader.next_entry().unwrap().map(|entry| entry.position.0), Some(to));
        }
    }

    /// A mark has no entries: a reader that has not read the one at the end of a segment is at the
    /// first entry of the next, and yet not at its frame.
    #[test]
    fn a_reader_finds_its_way_from_a_removed_segment_that_ended_with_a_mark() {
        let disk = SimDisk::new(1);
        let mut log = log(&disk);
        append(&mut log);
        let mut reader = LogReader::open(disk.clone(), SegmentKind::Command, Position(0)).unwrap();
        let mut at = Position(0);
        let newest = || retained_segments(&mut disk.clone(), SegmentKind::Command).unwrap().pop();
        while newest().is_none_or(|newest| newest.first_position != at) {
            read_to_end(&mut reader);
            at = reader.next_position();
            log.flush_blocking().unwrap();
            append(&mut log);
        }
        log.truncate(at);
        settle(&mut log);
        assert_eq!(log.first_position(), at);
        (0..40).for_each(|_| append(&mut log));
        // As if the removed segment's file was prepared for use again.
        let zeros = reader.disk.create("zeros").unwrap();
        reader.disk.close(std::mem::replace(&mut reader.file, zeros));
        reader.buf.clear();
        assert_eq!(reader.next_entry().unwrap().map(|entry| entry.position), Some(at));
        for to in [Position(at.0 + 20), at] {
            reader.seek(to).unwrap();
            assert_eq!(reader.next_entry().unwrap().map(|entry| entry.position), Some(to));
        }
    }

    #[test]
    fn a_reader_of_a_log_of_any_size_remembers_a_bounded_number_of_places() {
        let disk = SimDisk::new(1);
        let mut log = log(&disk);
        (0..100).for_each(|_| append(&mut log));
        let mut reader = LogReader::open(disk.clone(), SegmentKind::Command, Position(0)).unwrap();
        read_to_end(&mut reader);
        let (end, name) = (reader.next_position(), reader.name.clone());
        // As if 20 GiB had followed in this segment.
        for _ in 0..20 * 1024 {
            reader.offset += CURSOR_EVERY;
            reader.position_next = reader.position_next.next();
            reader.remember();
            assert!(reader.places.len() <= PLACES_MAX);
        }
        assert!(reader.places.is_sorted_by_key(|place| place.position));
        assert_eq!(reader.places.last().map(|place| &place.name), Some(&name));
        // Entries before all places are found by the names of the segments.
        for to in [Position(1), Position(50), Position(end.0 - 1)] {
            reader.seek(to).unwrap();
            assert_eq!(reader.next_entry().unwrap().map(|entry| entry.position), Some(to));
        }
    }
}
