//! Writes audits: blocks of pcapng, each one a Zstandard frame, in consecutive files.
//!
//! A file ends at its size, at the hour, or on a write failure; the next one begins with the line
//! names again and is readable alone. A failure (a full disk, or the size limit with no file that
//! may be deleted) never blocks the sender: datagrams are counted by line, the failure is logged
//! and retried after a while, and the loss is recorded as a gap at the beginning of the next file.
//! A block is written whole, or the file is truncated to the block before it.

use std::io;
use std::path::{Path, PathBuf};

use weir_feed::capture::audit::{
    AuditDatagram, AuditGap, LineNo, LineTotals, put_audit_datagram, put_audit_end, put_audit_gap,
    put_audit_head,
};
use weir_types::{Nanos, WallOffset};
use zstd::bulk::Compressor;
use zstd::stream::raw::CParameter;

use super::super::config::{AuditSection, RECORD_LEN_MAX, WhenFull};
use super::super::storage::{Storage, StoredFile};
use super::files::{KeptFiles, file_name};
use super::queue::AuditRecord;

const MILLI: u64 = 1_000_000;
const HOUR_NS: u64 = 3_600_000_000_000;
/// The bytes between syncs, so that closing a large file does not wait for all of it.
const SYNC_BYTES: u64 = 16 << 20;

/// Counters of the audit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditFigures {
    /// Datagrams in files.
    pub datagrams: u64,
    /// Bytes of datagram records before compression.
    pub raw_bytes: u64,
    /// Bytes written to files.
    pub bytes: u64,
    /// Datagrams taken from the queue that are in no file: after a failure, or because a capture
    /// cannot hold them.
    pub lost: u64,
    /// Gaps recorded in files.
    pub gaps: u64,
    /// Datagrams in these gaps.
    pub missing: u64,
    /// Files begun.
    pub files: u64,
    /// Files deleted because of the limit.
    pub deleted: u64,
    /// Write failures.
    pub failures: u64,
    /// The total size of the existing files in bytes.
    pub kept_bytes: u64,
    /// True while a failure or the limit stops writing: an operator must act.
    pub is_stopped: bool,
}

/// The reason a block cannot be written.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("the files hold the {keep_bytes} bytes that they may")]
    Bound { keep_bytes: u64 },
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The open file.
struct Open {
    file: Box<dyn StoredFile>,
    name: String,
    /// The bytes of complete blocks in it.
    len: u64,
    /// The bytes not synced yet.
    unsynced: u64,
    /// The hour of its begin, by the wall clock.
    hour: u64,
}

/// The totals and unsent gap of a line.
#[derive(Clone, Debug, Default)]
struct Line {
    name: String,
    /// The totals in written blocks.
    totals: LineTotals,
    /// The totals in the current block.
    block: LineTotals,
    /// The datagrams and gaps of the current block, as one span of time.
    block_span: AuditGap,
    /// The gap to record in the next block.
    pending: AuditGap,
}

/// Writes the records of some lines.
pub struct AuditWriter {
    config: AuditSection,
    storage: Box<dyn Storage>,
    lines: Vec<Line>,
    kept: Option<KeptFiles>,
    open: Option<Open>,
    /// The distance of the wall clock, by which files are named and end. All intervals are of the
    /// time that the caller passes.
    wall: WallOffset,
    /// The time in the newest file's name: names increase even if the wall clock steps back, also
    /// between two runs, so that the oldest file by name is the oldest.
    last_began: Nanos,
    block: Vec<u8>,
    /// The arrival time of the block's first record.
    block_since: Option<Nanos>,
    has_pending: bool,
    packed: Vec<u8>,
    compressor: Compressor<'static>,
    retry_at: Option<Nanos>,
    figures: AuditFigures,
}

impl std::fmt::Debug for AuditWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuditWriter").field("figures", &self.figures).finish_non_exhaustive()
    }
}

impl AuditWriter {
    /// Creates a writer for these lines, in order of their numbers. A file begins with the first
    /// record.
    ///
    /// # Errors
    /// An invalid compression level.
    pub fn new(
        config: &AuditSection,
        lines: &[String],
        storage: Box<dyn Storage>,
    ) -> io::Result<AuditWriter> {
        let mut compressor = Compressor::new(config.level)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        let names: usize = lines.iter().map(|name| name.len() + 64).sum();
        let room = (config.block_bytes + 2 * RECORD_LEN_MAX) as usize + names + lines.len() * 256;
        let line = |name: &String| Line { name: name.clone(), ..Line::default() };
        Ok(AuditWriter {
            config: config.clone(),
            storage,
            lines: lines.iter().map(line).collect(),
            kept: None,
            open: None,
            wall: WallOffset::default(),
            last_began: Nanos(0),
            block: Vec::with_capacity(room),
            block_since: None,
            has_pending: false,
            packed: Vec::with_capacity(zstd::compress_bound(room)),
            compressor,
            retry_at: None,
            figures: AuditFigures::default(),
        })
    }

    /// The counters of the audit.
    #[must_use]
    pub fn figures(&self) -> AuditFigures {
        let kept = self.kept.as_ref().map_or(0, KeptFiles::bytes);
        let open = self.open.as_ref().map_or(0, |open| open.len);
        AuditFigures {
            kept_bytes: kept + open,
            is_stopped: self.retry_at.is_some(),
            ..self.figures
        }
    }

    /// The path of the open file.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        Some(self.config.dir.join(&self.open.as_ref()?.name))
    }

    /// Notes the distance of the wall clock from the times that follow.
    pub fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.wall = wall;
    }

    fn hour(&self, now: Nanos) -> u64 {
        self.wall.wall_at(now).0 / HOUR_NS
    }

    /// Takes a record.
    pub fn record(&mut self, record: &AuditRecord<'_>, now: Nanos) {
        match record {
            AuditRecord::Gap(gap) => {
                self.note_gap(gap);
                if self.is_ready(now) {
                    self.put_gaps(now);
                }
            }
            AuditRecord::Datagram(it) => self.datagram(it, now),
        }
        if self.block.len() as u64 >= self.config.block_bytes {
            self.flush(now);
        }
    }

    /// Writes a block that has waited too long, and ends a file whose hour is over.
    pub fn tick(&mut self, now: Nanos) {
        let flush_ns = self.config.flush_ms * MILLI;
        if self.block_since.is_some_and(|since| now.since(since).0 >= flush_ns) {
            self.flush(now);
        }
        let hour = self.hour(now);
        if self.open.as_ref().is_some_and(|open| open.hour != hour) {
            self.close(now);
        }
        // Gaps of a time without datagrams are written as soon as possible.
        if self.has_pending && self.is_ready(now) {
            self.put_gaps(now);
        }
    }

    /// Writes everything and ends the file.
    pub fn finish(&mut self, now: Nanos) {
        if self.has_pending && self.is_ready(now) {
            self.put_gaps(now);
        }
        self.close(now);
    }

    fn datagram(&mut self, it: &AuditDatagram<'_>, now: Nanos) {
        let came = it.datagram.ts_recv;
        let missing = AuditGap { line: it.line, datagrams: 1, from: came, to: came };
        if !self.is_ready(now) {
            self.figures.lost += 1;
            return self.note_gap(&missing);
        }
        self.put_gaps(now);
        let start = self.block.len();
        if let Err(error) = put_audit_datagram(&mut self.block, it) {
            tracing::warn!(line = it.line.0, %error, "a datagram is not in the audit");
            self.figures.lost += 1;
            return self.note_gap(&missing);
        }
        self.figures.raw_bytes += (self.block.len() - start) as u64;
        let Some(line) = self.lines.get_mut(usize::from(it.line.0)) else { return };
        line.block.written += 1;
        line.block_span.add(&missing);
        self.block_since.get_or_insert(now);
    }

    fn note_gap(&mut self, gap: &AuditGap) {
        if let Some(line) = self.lines.get_mut(usize::from(gap.line.0)) {
            line.pending.add(gap);
            self.has_pending = true;
        }
    }

    /// Writes all pending gaps to the block; a file must be open.
    fn put_gaps(&mut self, now: Nanos) {
        if !std::mem::take(&mut self.has_pending) {
            return;
        }
        for line in self.lines.iter_mut().filter(|line| line.pending.datagrams > 0) {
            let gap = std::mem::take(&mut line.pending);
            line.block.missing = line.block.missing.saturating_add(gap.datagrams);
            line.block_span.add(&gap);
            let missing = line.totals.missing.saturating_add(line.block.missing);
            put_audit_gap(&mut self.block, &gap, missing);
            self.figures.gaps += 1;
            self.figures.missing = self.figures.missing.saturating_add(gap.datagrams);
        }
        self.block_since.get_or_insert(now);
    }

    /// Returns true when a file is open, or can be created now.
    fn is_ready(&mut self, now: Nanos) -> bool {
        if self.open.is_some() {
            return true;
        }
        if self.retry_at.is_some_and(|at| now < at) {
            return false;
        }
        match self.begin(now) {
            Ok(()) => true,
            Err(trouble) => {
                self.fail(&trouble, now);
                false
            }
        }
    }

    fn begin(&mut self, now: Nanos) -> Result<(), Trouble> {
        // Listed again after each failure: an operator may have made room.
        if self.kept.is_none() || self.retry_at.is_some() {
            let kept = KeptFiles::of(&self.config.dir, &mut *self.storage)?;
            self.last_began = self.last_began.max(kept.newest());
            self.kept = Some(kept);
        }
        self.make_room(self.config.block_bytes)?;
        let wall = self.wall.wall_at(now);
        let mut began = wall.max(Nanos(self.last_began.0.saturating_add(1)));
        let (file, name) = loop {
            let name = file_name(began);
            match self.storage.create(&self.config.dir.join(&name)) {
                Ok(file) => break (file, name),
                // Another run in the same nanosecond, which occurs in tests.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => began.0 += 1,
                Err(error) => return Err(error.into()),
            }
        };
        self.last_began = began;
        self.open = Some(Open { file, name, len: 0, unsynced: 0, hour: self.hour(now) });
        self.figures.files += 1;
        self.block.clear();
        put_audit_head(&mut self.block, self.lines.iter().map(|line| line.name.as_str()));
        self.block_since = Some(now);
        for line in &mut self.lines {
            line.totals = LineTotals::default();
        }
        Ok(())
    }

    /// Deletes the oldest files until `len` more bytes are within the limit.
    fn make_room(&mut self, len: u64) -> Result<(), Trouble> {
        let open = self.open.as_ref().map_or(0, |open| open.len);
        let keep_bytes = self.config.keep_bytes;
        let Some(kept) = &mut self.kept else { return Ok(()) };
        while kept.bytes().saturating_add(open).saturating_add(len) > keep_bytes {
            let may_go = self.config.when_full == WhenFull::DeleteOldest;
            if !may_go || !kept.remove_oldest(&mut *self.storage)? {
                return Err(Trouble::Bound { keep_bytes });
            }
            self.figures.deleted += 1;
        }
        Ok(())
    }

    /// Writes the block unless it is empty.
    fn flush(&mut self, now: Nanos) {
        if self.block_since.take().is_none() || self.open.is_none() {
            return;
        }
        let bound = self.pack().map_err(Trouble::from);
        let bound = bound.and_then(|()| self.make_room(self.packed.len() as u64));
        match bound.and_then(|()| self.write_packed().map_err(Trouble::from)) {
            Ok(()) => {
                self.written();
                if self.open.as_ref().is_some_and(|open| open.len >= self.config.file_bytes) {
                    self.close(now);
                }
            }
            Err(trouble) => self.fail(&trouble, now),
        }
    }

    fn pack(&mut self) -> io::Result<()> {
        self.packed.clear();
        self.compressor.compress_to_buffer(&self.block, &mut self.packed).map(|_| ())
    }

    fn write_packed(&mut self) -> io::Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let len = self.packed.len() as u64;
        open.file.write_all(&self.packed)?;
        open.unsynced += len;
        if open.unsynced >= SYNC_BYTES {
            open.file.sync()?;
            open.unsynced = 0;
        }
        // A partial write leaves `len` as it was and is truncated later.
        open.len += len;
        self.figures.bytes += len;
        Ok(())
    }

    /// Records that the block is in the file.
    fn written(&mut self) {
        self.block.clear();
        if self.retry_at.take().is_some() {
            tracing::info!(dir = %self.config.dir.display(), "the audit is written again");
        }
        for line in &mut self.lines {
            let block = std::mem::take(&mut line.block);
            line.block_span = AuditGap::default();
            line.totals.written = line.totals.written.saturating_add(block.written);
            line.totals.missing = line.totals.missing.saturating_add(block.missing);
            self.figures.datagrams += block.written;
        }
    }

    /// Ends the file: writes the block and each line's totals, and syncs.
    fn close(&mut self, now: Nanos) {
        self.flush(now);
        if self.open.is_none() {
            return;
        }
        match self.end_file(now) {
            Ok(()) => self.put_away(),
            Err(error) => self.fail(&error.into(), now),
        }
    }

    /// Writes each line's totals, regardless of the limit, and syncs. All blocks must be written.
    fn end_file(&mut self, now: Nanos) -> io::Result<()> {
        let wall = self.wall.wall_at(now);
        self.block.clear();
        for (number, line) in (0..).zip(&self.lines) {
            put_audit_end(&mut self.block, LineNo(number), &line.totals, wall);
        }
        self.pack()?;
        self.block.clear();
        self.write_packed()?;
        self.open.as_mut().map_or(Ok(()), |open| open.file.sync())
    }

    fn put_away(&mut self) {
        let (Some(open), Some(kept)) = (self.open.take(), &mut self.kept) else { return };
        kept.add(open.name, open.len);
    }

    /// Abandons the file after its last complete block; the datagrams of the current block are
    /// missing.
    #[cold]
    fn fail(&mut self, trouble: &Trouble, now: Nanos) {
        if self.retry_at.is_none() {
            let dir = self.config.dir.display();
            tracing::error!(%dir, error = %trouble, "no audit is written; what comes is counted");
        }
        self.figures.failures += 1;
        self.retry_at = Some(Nanos(now.0.saturating_add(self.config.retry_ms * MILLI)));
        self.block.clear();
        self.block_since = None;
        self.give_up_block();
        let is_bound = matches!(trouble, Trouble::Bound { .. });
        let has_blocks = self.open.as_ref().is_some_and(|open| open.len > 0);
        if is_bound && has_blocks && self.end_file(now).is_ok() {
            return self.put_away();
        }
        self.block.clear();
        let Some(open) = &mut self.open else { return };
        let path = self.config.dir.join(&open.name);
        if open.len == 0 {
            self.open = None;
            // A file that cannot be removed is empty, and the next listing includes it.
            _ = self.storage.remove(&path);
            return;
        }
        // Best effort: a reader stops at a partial block.
        _ = open.file.cut(open.len).and_then(|()| open.file.sync());
        self.put_away();
    }

    /// Moves the content of the abandoned block to the gaps of the next one.
    fn give_up_block(&mut self) {
        for line in &mut self.lines {
            let block = std::mem::take(&mut line.block);
            let mut span = std::mem::take(&mut line.block_span);
            self.figures.lost += block.written;
            if span.datagrams == 0 {
                continue;
            }
            // Pending gaps are later than the content of the block.
            span.add(&std::mem::take(&mut line.pending));
            line.pending = span;
            self.has_pending = true;
        }
    }

    /// The directory of the files.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.config.dir
    }
}
