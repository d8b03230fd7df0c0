//! The embedded log's duty cycle: reap finished operations and start the next ones.
//!
//! At most one data operation is in flight: a chunk's write, a step of a roll, or a sync when idle.
//! One preparation, one retirement and one trim may run in parallel; they touch other files.

use weir_io::{Access, Completion, Disk, DiskAction, DiskError, DiskErrorKind, Op, Outcome};
use weir_types::{Durability, Nanos, Position};

use super::{Chunk, Content, EmbeddedLog, LogEnd, Roll, Segment, Spare};
use crate::api::SequencedLog;
use crate::error::LogError;
use crate::frame::{FRAME_HEADER, FrameKind};
use crate::plant::{self, Plant};
use crate::reader::RetainedSegment;

const TAG_CHUNK: u64 = 1;
const TAG_HEADER: u64 = 2;
const TAG_NAME: u64 = 3;
const TAG_PREPARE: u64 = 4;
const TAG_RETIRE: u64 = 5;
const TAG_TRIM: u64 = 6;
const TAG_PROVE: u64 = 7;

/// The time between attempts on a full disk: 100 ms.
const FULL_RETRY: u64 = 100_000_000;

/// The maximum number of trimmed segments kept for recycling.
pub(super) const RECYCLED_MAX: usize = 2;

/// The maximum capacity in bytes of a buffer that is kept for reuse.
const BUFFER_KEPT_MAX: usize = 4 << 20;

impl<D: Disk> EmbeddedLog<D> {
    pub(super) fn cycle(&mut self) -> Result<usize, LogError> {
        let mut worked = self.reap()?;
        if !self.data_in_flight() {
            worked += self.start_data()?;
        }
        worked += self.start_housekeeping();
        Ok(worked)
    }

    fn data_in_flight(&self) -> bool {
        self.sent.is_some() || !matches!(self.roll, Roll::No) || self.proving.is_some()
    }

    fn reap(&mut self) -> Result<usize, LogError> {
        if self.disk.in_flight() == 0 {
            return Ok(0);
        }
        let mut reaped = std::mem::take(&mut self.reaped);
        self.disk.reap(&mut reaped);
        let count = reaped.len();
        let mut result = Ok(());
        for completion in reaped.drain(..) {
            result = result.and(self.finish(completion));
        }
        self.reaped = reaped;
        result.map(|()| count)
    }

    fn finish(&mut self, completion: Completion) -> Result<(), LogError> {
        let Completion { tag, buf, outcome } = completion;
        match (tag, outcome) {
            (TAG_CHUNK, outcome) => self.finish_chunk(buf, outcome),
            (TAG_HEADER, outcome) => self.finish_header(buf, outcome),
            (TAG_PREPARE, Outcome::Done) => self.finish_prepare(),
            (TAG_PREPARE, Outcome::Failed(error)) if is_passing(&error) => {
                self.take_back_spare_name();
                self.retry_spare();
                Ok(())
            }
            (TAG_NAME, Outcome::Done) => {
                self.publish();
                Ok(())
            }
            // A failed rename has changed nothing, unlike a failed sync of the directory after it:
            // the roll begins again, with the same header.
            (TAG_NAME, Outcome::Failed(error))
                if is_passing(&error) && error.action == DiskAction::Rename =>
            {
                self.pause_roll();
                Ok(())
            }
            (TAG_RETIRE, Outcome::Done) => {
                let (file, end) = self.retiring.take().expect("a retirement is under way");
                self.disk.close(file);
                self.is_synced_to(end);
                Ok(())
            }
            (TAG_PROVE, Outcome::Done) => {
                let proven = self.proving.take().expect("a proving sync is under way");
                self.is_synced_to(proven);
                Ok(())
            }
            (TAG_TRIM, Outcome::Done) => {
                self.trimming = false;
                self.recycled.extend(self.trimmed_name.take());
                Ok(())
            }
            // A file that cannot be kept for later is removed, which takes no room.
            (TAG_TRIM, Outcome::Failed(error))
                if is_passing(&error) && error.action == DiskAction::Rename =>
            {
                self.trimmed_name = None;
                self.disk.submit(TAG_TRIM, Op::Remove { name: error.name });
                Ok(())
            }
            (_, Outcome::Failed(error)) => Err(LogError::Fatal(error)),
            (tag, outcome) => unreachable!("operation {tag} cannot end as {outcome:?}"),
        }
    }

    /// Notes that all frames up to `end` are synced.
    fn is_synced_to(&mut self, end: LogEnd) {
        if end.frame > self.synced.frame {
            self.synced = end;
        }
    }

    fn finish_chunk(&mut self, buf: Vec<u8>, outcome: Outcome) -> Result<(), LogError> {
        let mut chunk = self.sent.take().expect("a chunk is in flight");
        chunk.buf = buf;
        match outcome {
            Outcome::Written { bytes, synced } => {
                chunk.from += bytes;
                if chunk.from < chunk.buf.len() {
                    self.send(chunk);
                } else {
                    self.settle_chunk(chunk, synced);
                }
                Ok(())
            }
            Outcome::Failed(error) => self.keep_if_full(chunk, error),
            Outcome::Done => unreachable!("a write tells its bytes"),
        }
    }

    /// Requeues the chunk when the disk is full; any other failure is fatal.
    fn keep_if_full(&mut self, chunk: Chunk, error: DiskError) -> Result<(), LogError> {
        if error.kind != DiskErrorKind::Full || error.action != DiskAction::Write {
            return Err(LogError::Fatal(error));
        }
        self.chunks.push_front(chunk);
        self.full_until = Some(Nanos(self.now.0 + FULL_RETRY));
        self.lacks_room = true;
        Ok(())
    }

    fn settle_chunk(&mut self, mut chunk: Chunk, synced: bool) {
        self.lacks_room = false;
        self.written = chunk.end;
        if synced {
            // The previous file is synced too: no syncing chunk is sent until it is.
            assert!(self.retiring.is_none(), "a sync proves only what lies in synced files");
            self.synced = chunk.end;
        }
        let committed = match self.config.durability {
            Durability::Memory => false,
            Durability::Os => true,
            Durability::Disk => synced || plant::is(Plant::SyncSkipped),
        };
        if committed {
            self.committed = self.committed.max(chunk.end.position);
        }
        self.queued_bytes -= chunk.buf.len();
        if chunk.buf.capacity() <= BUFFER_KEPT_MAX {
            chunk.buf.clear();
            self.buffers.push(chunk.buf);
        }
    }

    /// Starts the next data operation, if there is one to start.
    fn start_data(&mut self) -> Result<usize, LogError> {
        if self.full_until.is_some_and(|until| self.now < until) {
            return Ok(0);
        }
        self.full_until = None;
        self.lacks_room &= !plant::is(Plant::RoomAtEachTry);
        let Some(chunk) = self.chunks.front() else { return Ok(self.start_mark()) };
        if chunk.opens.is_some() {
            return Ok(self.start_roll());
        }
        let syncs = chunk.sync || self.config.durability == Durability::Disk;
        if syncs && self.retiring.is_some() {
            return Ok(0);
        }
        let chunk = self.chunks.pop_front().expect("looked at above");
        if self.config.durability == Durability::Os && !syncs {
            return self.write_now(chunk);
        }
        self.send(chunk);
        Ok(1)
    }

    fn send(&mut self, mut chunk: Chunk) {
        let buf = std::mem::take(&mut chunk.buf);
        let (file, from) = (self.file, chunk.from);
        let offset = chunk.offset + from as u64;
        let wanted = chunk.sync || self.config.durability == Durability::Disk;
        let sync = wanted && !plant::is(Plant::SyncSkipped);
        self.sent = Some(chunk);
        self.disk.submit(TAG_CHUNK, Op::Write { file, offset, buf, from, sync });
    }

    /// Writes a chunk at level `os`, where a write into the page cache is the commit and handing it
    /// to the disk's thread would only cost time.
    fn write_now(&mut self, mut chunk: Chunk) -> Result<usize, LogError> {
        while chunk.from < chunk.buf.len() {
            let offset = chunk.offset + chunk.from as u64;
            match self.disk.write(self.file, offset, &chunk.buf[chunk.from..]) {
                Ok(taken) => chunk.from += taken,
                Err(error) => return self.keep_if_full(chunk, error).map(|()| 1),
            }
        }
        self.settle_chunk(chunk, false);
        Ok(1)
    }

    fn start_roll(&mut self) -> usize {
        let Spare::Ready { file, .. } = self.spare else { return 0 };
        if self.retiring.is_some() {
            return 0;
        }
        let chunk = self.chunks.front_mut().expect("a chunk that opens a segment");
        let header = chunk.opens.as_mut().expect("it opens a segment");
        // Frames may have been synced since the chunk began.
        header.synced_frame = self.synced.frame;
        let buf = header.encode();
        self.roll = Roll::Header { from: 0 };
        let sync = !plant::is(Plant::HeaderNotSynced);
        self.disk.submit(TAG_HEADER, Op::Write { file, offset: 0, buf, from: 0, sync });
        1
    }

    /// Ends a roll for which the disk has no room; it begins again after a pause.
    fn pause_roll(&mut self) {
        self.roll = Roll::No;
        self.full_until = Some(Nanos(self.now.0 + FULL_RETRY));
        self.lacks_room = true;
    }

    fn finish_header(&mut self, buf: Vec<u8>, outcome: Outcome) -> Result<(), LogError> {
        let Spare::Ready { name, file } = &self.spare else { unreachable!("a roll has a spare") };
        let Roll::Header { from } = &mut self.roll else { unreachable!("a roll is under way") };
        let bytes = match outcome {
            Outcome::Written { bytes, .. } => bytes,
            Outcome::Failed(error) if error.kind == DiskErrorKind::Full => {
                self.pause_roll();
                return Ok(());
            }
            Outcome::Failed(error) => return Err(LogError::Fatal(error)),
            Outcome::Done => unreachable!("a write tells its bytes"),
        };
        *from += bytes;
        if *from < buf.len() {
            let (file, from) = (*file, *from);
            let offset = from as u64;
            self.disk.submit(TAG_HEADER, Op::Write { file, offset, buf, from, sync: true });
            return Ok(());
        }
        let chunk = self.chunks.front().expect("a chunk that opens a segment");
        let to = chunk.opens.as_ref().expect("it opens a segment").file_name();
        let from = name.clone();
        self.roll = Roll::Name;
        self.disk.submit(TAG_NAME, Op::Rename { from, to });
        Ok(())
    }

    /// Makes the spare file the newest segment.
    fn publish(&mut self) {
        let Spare::Ready { file, .. } = std::mem::replace(&mut self.spare, Spare::None) else {
            unreachable!("a roll has a spare")
        };
        let chunk = self.chunks.front_mut().expect("a chunk that opens a segment");
        let header = chunk.opens.take().expect("it opens a segment");
        let retained = RetainedSegment {
            first_position: header.first_position,
            bytes: self.config.segment_bytes,
            log_time_before: header.log_time,
        };
        self.segments.push_back(Segment { name: header.file_name(), retained });
        let old = std::mem::replace(&mut self.file, file);
        self.roll = Roll::No;
        if self.synced.frame >= self.written.frame {
            self.disk.close(old);
        } else {
            self.retiring = Some((old, self.written));
            self.disk.submit(TAG_RETIRE, Op::Sync { file: old });
        }
    }

    fn finish_prepare(&mut self) -> Result<(), LogError> {
        let Spare::Preparing { name } = std::mem::replace(&mut self.spare, Spare::None) else {
            unreachable!("a preparation is under way")
        };
        match self.disk.open(&name, Access::Write) {
            Ok(file) => {
                self.spare = Spare::Ready { name, file };
                self.lacks_spare = false;
                Ok(())
            }
            Err(error) if is_passing(&error) => {
                self.recycled.push(name);
                self.retry_spare();
                Ok(())
            }
            Err(error) => Err(LogError::Fatal(error)),
        }
    }

    /// Prepares the next segment's file again after a pause.
    fn retry_spare(&mut self) {
        let pause = if plant::is(Plant::PreparedOnce) { u64::MAX / 2 } else { FULL_RETRY };
        self.spare = Spare::Full { until: Nanos(self.now.0 + pause) };
        self.lacks_spare = true;
    }

    fn take_back_spare_name(&mut self) {
        if let Spare::Preparing { name } = std::mem::replace(&mut self.spare, Spare::None) {
            self.recycled.push(name);
        }
    }

    /// Syncs all frames after a quiet time, then writes a mark that says so.
    fn start_mark(&mut self) -> usize {
        let quiet = self.now.0.saturating_sub(self.active_at.0) >= self.config.idle_after.0;
        if !self.unmarked || self.stirred || !quiet || self.retiring.is_some() {
            return 0;
        }
        if self.synced.frame < self.written.frame {
            self.proving = Some(self.written);
            self.disk.submit(TAG_PROVE, Op::Sync { file: self.file });
            return 1;
        }
        if self.needs_missing_space(FRAME_HEADER) {
            return 0;
        }
        self.put_mark(FrameKind::Mark);
        1
    }

    pub(super) fn put_mark(&mut self, kind: FrameKind) {
        let (log_time, epoch) = (self.head.log_time, self.head.epoch);
        self.put_frame(&Content { kind, log_time, epoch, count: 0, body: &[] });
        self.chunks.back_mut().expect("a mark was just put there").sync = true;
        self.unmarked = false;
    }

    fn start_housekeeping(&mut self) -> usize {
        let mut started = 0;
        let wanted = match self.spare {
            Spare::None => true,
            Spare::Full { until } => self.now >= until,
            Spare::Preparing { .. } | Spare::Ready { .. } => false,
        };
        if wanted {
            let recycled = self.recycled.pop();
            let is_as_it_was = recycled.is_some() && plant::is(Plant::SpareNotZeroed);
            let name = recycled.unwrap_or_else(|| self.temporary_name());
            self.spare = Spare::Preparing { name: name.clone() };
            let prepare = if is_as_it_was {
                Op::Rename { from: name.clone(), to: name }
            } else {
                Op::Prepare { name, len: self.config.segment_bytes }
            };
            self.disk.submit(TAG_PREPARE, prepare);
            started += 1;
        }
        if !self.trimming
            && let Some(name) = self.trims.pop_front()
        {
            self.trimming = true;
            if self.recycled.len() < RECYCLED_MAX {
                let to = self.temporary_name();
                self.trimmed_name = Some(to.clone());
                self.disk.submit(TAG_TRIM, Op::Rename { from: name, to });
            } else {
                self.disk.submit(TAG_TRIM, Op::Remove { name });
            }
            started += 1;
        }
        started
    }

    pub(super) fn temporary_name(&mut self) -> String {
        self.names_made += 1;
        format!("spare-{}.tmp", self.names_made)
    }

    /// Blocks until all appended entries are written and synced and a mark of `kind` says so.
    pub(super) fn settle(&mut self, kind: FrameKind) -> Result<(), LogError> {
        self.drain()?;
        if self.synced.frame < self.written.frame {
            let synced = self.disk.sync(self.file).map_err(LogError::Fatal);
            if let Err(error) = synced {
                self.failed = Some(error.clone());
                return Err(error);
            }
            self.synced = self.written;
        }
        self.committed = Position(self.head.position_next.0 - 1);
        if kind == FrameKind::Close || self.unmarked {
            self.closed = kind == FrameKind::Close;
            self.put_mark(kind);
        }
        self.drain()
    }

    /// Works until nothing is queued and no operation is in flight that a mark depends on.
    pub(super) fn drain(&mut self) -> Result<(), LogError> {
        loop {
            let now = self.now;
            let worked = self.do_work(now)?;
            let waiting = !self.chunks.is_empty() || self.data_in_flight();
            if !waiting && self.retiring.is_none() {
                return Ok(());
            }
            if waiting && self.waits_for_room() {
                let (action, kind) = (DiskAction::Write, DiskErrorKind::Full);
                let reason = "no space for what was appended".to_owned();
                return Err(DiskError { action, name: String::new(), kind, reason }.into());
            }
            if worked == 0 {
                self.disk.wait();
            }
        }
    }
}

/// Returns true for a failure to prepare a file that passes: no entry is in that file yet, so it is
/// prepared again when there is room, or a descriptor.
fn is_passing(error: &DiskError) -> bool {
    match error.kind {
        DiskErrorKind::Full => true,
        DiskErrorKind::NoDescriptors => !plant::is(Plant::NoDescriptorIsFatal),
        _ => false,
    }
}
