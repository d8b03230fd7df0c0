//! The embedded log: one process, one directory of segment files.
//!
//! Appending copies a batch into the newest chunk. Chunks go to the disk in order with one write in
//! flight, so the next batch fills while a sync is under way (group commit). The durability level
//! decides the moment of commit: `memory` at the append, `os` after the write, `disk` after the
//! sync. Only `open`, `flush_blocking` and `close` block; the log never reads a clock.
//!
//! Invariants: frames reach the disk in order; a segment gets its name only after its header is
//! synced and all frames before it are written; no frame reports a sync that has not ended.

use std::collections::VecDeque;

use weir_io::{Completion, Disk, FileId};
use weir_types::{Durability, Epoch, Epochs, Nanos, PartitionId, Position};

use crate::api::{Append, Poll, SequencedLog};
use crate::batch::{BATCH_BYTES_MAX, Batch};
use crate::error::LogError;
use crate::frame::{FRAME_HEADER, FrameHeader, FrameKind};
use crate::plant::{self, Plant};
use crate::reader::{LogReader, RetainedSegment};
use crate::recovery::HistoryHead;
use crate::segment::{EpochEnd, Opening, RULES_FIRST, SEGMENT_HEADER, SegmentHeader, SegmentKind};

pub(crate) mod open;
mod work;

/// The configuration of a log.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// The log's partition.
    pub partition: PartitionId,
    /// The durability level of a commit.
    pub durability: Durability,
    /// The size of a segment file in bytes.
    pub segment_bytes: u64,
    /// The maximum number of bytes queued for writing; beyond it appends are refused as busy.
    pub queue_bytes_max: usize,
    /// The time without appends after which a mark says that all frames are synced.
    pub idle_after: Nanos,
    /// The identity of the log if this opening creates it: a random number.
    pub log_id_if_new: u128,
    /// The version of the rules by which this process executes the entries. The log records it
    /// before the first of them.
    pub rules: u32,
}

impl LogConfig {
    /// Returns the defaults: level `disk`, segments of 64 MiB, 16 MiB of queue, a mark after 50 ms,
    /// the first version of rules.
    #[must_use]
    pub fn new(partition: PartitionId, log_id_if_new: u128) -> LogConfig {
        LogConfig {
            partition,
            durability: Durability::default(),
            segment_bytes: 64 << 20,
            queue_bytes_max: 16 << 20,
            idle_after: Nanos(50_000_000),
            log_id_if_new,
            rules: RULES_FIRST,
        }
    }
}

/// Bytes written to the disk with one write.
#[derive(Debug)]
struct Chunk {
    /// The header of a new segment, when these are its first bytes.
    opens: Option<Box<SegmentHeader>>,
    offset: u64,
    buf: Vec<u8>,
    /// The number of bytes of `buf` that the disk has taken.
    from: usize,
    end: LogEnd,
    /// Sync the chunk at every level, because it holds a mark.
    sync: bool,
}

/// The last frame of a part of the log, and the last position up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LogEnd {
    frame: u64,
    position: Position,
}

/// The content of a frame.
struct Content<'a> {
    kind: FrameKind,
    log_time: Nanos,
    epoch: Epoch,
    count: u32,
    body: &'a [u8],
}

/// The file prepared to become the next segment.
#[derive(Debug)]
enum Spare {
    None,
    Preparing {
        name: String,
    },
    Ready {
        name: String,
        file: FileId,
    },
    /// The disk was full; retry at this time.
    Full {
        until: Nanos,
    },
}

/// The progress of the next segment's publication.
#[derive(Debug)]
enum Roll {
    No,
    Header { from: usize },
    Name,
}

/// A published segment.
#[derive(Debug)]
struct Segment {
    name: String,
    retained: RetainedSegment,
}

/// A log in one directory of segment files, with this process as its writer.
pub struct EmbeddedLog<D> {
    disk: D,
    config: LogConfig,
    kind: SegmentKind,
    log_id: u128,
    head: HistoryHead,
    segments: VecDeque<Segment>,
    /// The newest published segment's file.
    file: FileId,
    /// The offset of the next frame in the newest segment, published or not, and that segment's
    /// size.
    write_offset: u64,
    write_limit: u64,
    // INVARIANT: oldest first; only the last grows; each chunk lies within one segment.
    chunks: VecDeque<Chunk>,
    sent: Option<Chunk>,
    queued_bytes: usize,
    buffers: Vec<Vec<u8>>,
    spare: Spare,
    roll: Roll,
    recycled: Vec<String>,
    names_made: u64,
    /// The name under which the segment being trimmed will be recycled.
    trimmed_name: Option<String>,
    /// The previous segment's file, until its last sync is done, and its end.
    retiring: Option<(FileId, LogEnd)>,
    trims: VecDeque<String>,
    trimming: bool,
    /// The end of the part that the sync in flight will prove synced.
    proving: Option<LogEnd>,
    written: LogEnd,
    synced: LogEnd,
    committed: Position,
    /// A frame was appended since the last mark.
    unmarked: bool,
    /// A frame was appended since the last cycle.
    stirred: bool,
    active_at: Nanos,
    now: Nanos,
    full_until: Option<Nanos>,
    /// True from a data write that found the disk full until one succeeds. A retry alone makes no
    /// room: entries taken meanwhile would wait, and be committed long after their senders gave up.
    lacks_room: bool,
    /// The same for the next segment's file.
    lacks_spare: bool,
    told_leading: bool,
    closed: bool,
    failed: Option<LogError>,
    reaped: Vec<Completion>,
}

impl<D: Disk> SequencedLog for EmbeddedLog<D> {
    fn new_batch(&self) -> Batch {
        self.config.batch()
    }

    fn append(&mut self, epoch: Epoch, log_time: Nanos, batch: &Batch) -> Append {
        assert!(!batch.is_empty(), "an empty batch has no place in history");
        if epoch != self.head.epoch || self.failed.is_some() || self.closed {
            return Append::NotLeader;
        }
        assert!(log_time > self.head.log_time, "log time grows from batch to batch");
        let size = FRAME_HEADER + batch.bytes().len();
        if self.lacks_room || self.needs_missing_space(size) {
            return Append::Full;
        }
        if self.queued_bytes + size > self.config.queue_bytes_max {
            return Append::Busy;
        }
        let first = self.head.position_next;
        let (kind, epoch) = (FrameKind::Entries, self.head.epoch);
        let (count, body) = (batch.count(), batch.bytes());
        self.put_frame(&Content { kind, log_time, epoch, count, body });
        self.unmarked = true;
        self.stirred = true;
        if self.config.durability == Durability::Memory {
            self.committed = Position(self.head.position_next.0 - 1);
        }
        Append::At { first }
    }

    fn poll(&mut self) -> Poll {
        if self.failed.is_some() {
            return Poll::Lost { valid_to: self.committed };
        }
        if !self.told_leading {
            self.told_leading = true;
            return Poll::Leading(self.head.epoch);
        }
        Poll::Committed(self.committed)
    }

    fn do_work(&mut self, now: Nanos) -> Result<usize, LogError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.now = now;
        if self.stirred {
            self.stirred = false;
            self.active_at = now;
        }
        let worked = self.cycle();
        if let Err(error) = &worked {
            self.failed = Some(error.clone());
        }
        worked
    }

    fn is_idle(&self) -> bool {
        self.chunks.is_empty()
            && self.sent.is_none()
            && self.committed.0 + 1 == self.head.position_next.0
    }

    fn is_full(&self) -> bool {
        self.lacks_room || self.lacks_spare
    }

    fn flush_blocking(&mut self) -> Result<(), LogError> {
        self.settle(FrameKind::Mark)
    }

    fn truncate(&mut self, before: Position) {
        let end = before.0 + u64::from(plant::is(Plant::TruncateOffByOne));
        while self.segments.get(1).is_some_and(|next| next.retained.first_position.0 <= end) {
            let dropped = self.segments.pop_front().expect("there are at least two");
            if plant::is(Plant::TrimmedOutOfOrder) {
                self.trims.push_front(dropped.name);
            } else {
                self.trims.push_back(dropped.name);
            }
        }
    }

    fn synced(&self) -> Position {
        self.synced.position
    }

    fn epoch(&self) -> Epoch {
        self.head.epoch
    }

    fn next_position(&self) -> Position {
        self.head.position_next
    }

    fn last_log_time(&self) -> Nanos {
        self.head.log_time
    }
}

impl<D: Disk> EmbeddedLog<D> {
    /// Returns the newest committed position; zero when there is none.
    #[must_use]
    pub fn committed(&self) -> Position {
        self.committed
    }

    /// Returns the first retained position, which in an empty log is the next position.
    #[must_use]
    pub fn first_position(&self) -> Position {
        self.segments.front().map_or(self.head.position_next, |s| s.retained.first_position)
    }

    /// Returns the retained segments, oldest first.
    pub fn retained(&self) -> impl Iterator<Item = &RetainedSegment> {
        self.segments.iter().map(|segment| &segment.retained)
    }

    /// Returns true when all removable files are removed.
    #[must_use]
    pub fn is_trimmed(&self) -> bool {
        self.trims.is_empty() && !self.trimming
    }

    /// Returns the ended epochs, each with its last valid position, oldest first.
    #[must_use]
    pub fn ended_epochs(&self) -> &[EpochEnd] {
        &self.head.ended
    }

    /// Returns the log's epochs with their surviving parts.
    #[must_use]
    pub fn epochs(&self) -> Epochs<Position> {
        let ended = self.head.ended.iter().map(|end| (end.epoch, end.last_valid));
        Epochs::with_ended(self.head.epoch, ended)
    }

    /// Returns the log's identity.
    #[must_use]
    pub fn log_id(&self) -> u128 {
        self.log_id
    }

    /// Returns the durability level.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.config.durability
    }

    /// Blocks until an operation in flight has ended; returns at once when there is none. For
    /// callers without a poller; others park on the disk's `WakeFd`.
    pub fn wait(&mut self) {
        self.disk.wait();
    }

    /// Returns a reader of the written entries from `from`. It reads the files: call it before the
    /// first append, or use a separate disk (`LogReader::open`) while the log runs.
    ///
    /// # Errors
    /// Fails when `from` is not retained or the files cannot be read.
    pub fn read(&mut self, from: Position) -> Result<LogReader<&mut D>, LogError> {
        LogReader::open(&mut self.disk, self.kind, from)
    }

    /// Closes the log: commits and syncs all appended entries and writes a closing mark. Later
    /// appends are refused.
    ///
    /// # Errors
    /// As [`SequencedLog::do_work`].
    pub fn close(&mut self) -> Result<(), LogError> {
        if self.closed {
            // The mark is queued or written: after a failure its write is tried again.
            return self.drain();
        }
        self.settle(FrameKind::Close)
    }

    /// Returns the disk after all appended entries are synced and all operations have ended.
    pub(crate) fn into_disk(mut self) -> Result<D, LogError> {
        self.flush_blocking()?;
        while self.disk.in_flight() > 0 {
            let now = self.now;
            if self.do_work(now)? == 0 {
                self.disk.wait();
            }
        }
        self.disk.close(self.file);
        if let Spare::Ready { file, .. } = self.spare {
            self.disk.close(file);
        }
        Ok(self.disk)
    }

    /// Returns true when a frame of `size` bytes fits in the newest segment and leaves room for the
    /// closing mark: a clean stop must not need a new segment on a full disk.
    fn fits(&self, size: usize) -> bool {
        self.write_offset + (size + FRAME_HEADER) as u64 <= self.write_limit
    }

    fn needs_missing_space(&self, size: usize) -> bool {
        !self.fits(size) && self.lacks_spare
    }

    /// Returns true while what is queued waits for room that the disk did not have at the last try.
    fn waits_for_room(&self) -> bool {
        self.full_until.is_some() || matches!(self.spare, Spare::Full { .. })
    }

    /// Lays out a frame at the end of the newest chunk.
    fn put_frame(&mut self, content: &Content<'_>) {
        let size = FRAME_HEADER + content.body.len();
        if !self.fits(size) && content.kind != FrameKind::Close {
            self.open_next_segment();
            assert!(self.fits(size), "a frame of {size} bytes fits in an empty segment");
        }
        let header = FrameHeader {
            length: u32::try_from(size).expect("a batch is at most 1 MiB"),
            body_crc: crc32c::crc32c(content.body),
            kind: content.kind,
            durability: self.config.durability,
            frame: self.head.frame_next,
            first_position: self.head.position_next,
            log_time: content.log_time,
            synced_frame: self.synced_frame_told(),
            link: self.head.link,
            count: content.count,
            epoch: content.epoch,
        };
        let (bytes, crc) = header.encode();
        self.head.step(&header, crc);
        let last_position = Position(self.head.position_next.0 - 1);
        let chunk = self.last_chunk();
        chunk.buf.extend_from_slice(&bytes);
        chunk.buf.extend_from_slice(content.body);
        chunk.end = LogEnd { frame: header.frame, position: last_position };
        self.queued_bytes += size;
        self.write_offset += size as u64;
    }

    /// Returns the synced frame number for the next header.
    fn synced_frame_told(&self) -> u64 {
        let is_early = plant::is(Plant::SyncedMarkTooEarly);
        if is_early { self.head.frame_next - 1 } else { self.synced.frame }
    }

    /// Returns the chunk for the next frame; begins one when all are sent.
    fn last_chunk(&mut self) -> &mut Chunk {
        if self.chunks.is_empty() {
            let chunk = self.new_chunk(self.write_offset, None);
            self.chunks.push_back(chunk);
        }
        self.chunks.back_mut().expect("one was pushed")
    }

    fn new_chunk(&mut self, offset: u64, opens: Option<Box<SegmentHeader>>) -> Chunk {
        let buf = self.buffers.pop().unwrap_or_default();
        let end = LogEnd { frame: 0, position: Position::NONE };
        Chunk { opens, offset, buf, from: 0, end, sync: false }
    }

    /// Returns the record of this process's start.
    fn opening(&self) -> Opening {
        let LogConfig { durability, rules, .. } = self.config;
        Opening { boot_id: self.disk.boot_id(), durability, rules }
    }

    /// Begins a chunk that opens the next segment.
    fn open_next_segment(&mut self) {
        let header = SegmentHeader {
            kind: self.kind,
            log_id: self.log_id,
            partition: self.config.partition,
            epoch: self.head.epoch,
            first_frame: self.head.frame_next,
            first_position: self.head.position_next,
            link: self.head.link,
            synced_frame: self.synced.frame,
            log_time: self.head.log_time,
            opening: self.opening(),
            ended: self.head.ended.clone(),
        };
        self.write_offset = SEGMENT_HEADER as u64;
        self.write_limit = self.config.segment_bytes;
        let chunk = self.new_chunk(self.write_offset, Some(Box::new(header)));
        self.chunks.push_back(chunk);
    }
}

impl LogConfig {
    /// # Panics
    /// Panics when the sizes are inconsistent.
    fn check(&self) {
        assert!(self.segment_bytes >= 8192, "a segment has at least 8 KiB");
        assert!(self.segment_bytes < 1 << 32, "a segment has less than 4 GiB");
        let frame_max = self.segment_bytes - SEGMENT_HEADER as u64;
        let batch_max = frame_max.min(BATCH_BYTES_MAX as u64);
        assert!(self.queue_bytes_max as u64 >= batch_max, "the queue holds the largest batch");
    }

    /// Creates a batch that fits in this log's segments.
    #[must_use]
    pub fn batch(&self) -> Batch {
        let room = self.segment_bytes as usize - SEGMENT_HEADER - 2 * FRAME_HEADER;
        Batch::with_limit(room.min(BATCH_BYTES_MAX))
    }
}
