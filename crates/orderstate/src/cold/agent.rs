//! The archive's thread: takes changes from the store, answers queries page by page at its pace,
//! and maintains the archive one step at a time, so that none of these starves another. Its disk
//! blocks only this thread.
//!
//! ```text
//! trouble                        | action
//! -------------------------------+---------------------------------------------------------------
//! a file is damaged              | reported; readers before its end get ResyncFloor, others do not
//! the disk cannot be read        | the query is rejected for now; its token stays valid
//! the disk is full, or fails     | retried each second; changes wait in memory up to a limit, then
//!                                | in the store; changes discarded meanwhile become a hole
//! a hole                         | the archive begins anew behind it: ResyncFloor before it
//! ```

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use rtrb::{Consumer, Producer, RingBuffer};
use weir_cold::plant::{self, Plant};
use weir_cold::{
    Archive, Batch, ColdConfig, ColdError, OpenReport, Pace, SegmentError, WorkOutcome,
};
use weir_delivery::{OlderAnswer, OlderAsk, Ticket, TokenSealer};
use weir_io::{Disk, DiskErrorKind, ThreadDisk};
use weir_partition::log_time::LogTime;
use weir_runtime::{Agent, ServedTime, Wake};
use weir_types::{ChangeId, Epoch, Nanos, PartitionId, WallOffset};

use super::figures::ColdFigures;
use super::sender::{BATCHES_MAX, ColdNews, ColdPort, ColdRequest};

/// The time after a failure until the retry, in nanoseconds.
const RETRY_AFTER: u64 = 1_000_000_000;
/// The thread's rest in nanoseconds without requests: files age meanwhile.
const REST: u64 = 100_000_000;
/// The interval in nanoseconds at which the archive's figures are published.
const TOLD_EVERY: u64 = 100_000_000;
/// The burst of reads allowed after a rest, as time of the pace.
const BURST: Nanos = Nanos(10_000_000);
/// The number of pages per merged block while readers take pages: merging took three quarters of
/// the thread when each page had its step.
const PAGES_A_MERGE_STEP: u32 = 16;
/// The limit of changes waiting in memory while the disk accepts none, in segments' sizes.
const OPEN_SEGMENTS_MAX: u64 = 2;

/// The parts of the agent.
pub struct ColdParts {
    /// The archive's own directory.
    pub dir: PathBuf,
    /// The archive's configuration.
    pub config: ColdConfig,
    /// The limit of entries scanned, shared with other archives of the thread.
    pub pace: SharedPace,
    /// The maximum number of outstanding queries.
    pub readers_max: u32,
    /// The sealer of the tokens of pages.
    pub sealer: TokenSealer,
    /// The store's thread.
    pub store: Wake,
    /// The agent's own thread.
    pub wake: Wake,
    /// Figures for other threads to read.
    pub figures: Arc<ColdFigures>,
}

/// The read rate shared by the readers of all archives of a thread.
pub type SharedPace = Arc<Mutex<Pace>>;

/// Returns a pace of this many scanned entries per second, on average.
#[must_use]
pub fn pace_of(rows_per_second: u64) -> SharedPace {
    Arc::new(Mutex::new(Pace::new(rows_per_second, BURST)))
}

/// The archive's agent.
pub struct ColdAgent<D = ThreadDisk> {
    pub(super) archive: Archive<D>,
    pub(super) sealer: TokenSealer,
    pub(super) figures: Arc<ColdFigures>,
    pub(super) rows: Vec<u8>,
    pub(super) token: Vec<u8>,
    /// The time at which a segment was last closed early for a reader.
    pub(super) closed_at: Nanos,
    news: Consumer<ColdNews>,
    empties: Producer<Batch>,
    requests: Consumer<ColdRequest>,
    answers: Producer<(Ticket, OlderAnswer)>,
    rewound: Producer<ChangeId>,
    kept: Producer<ChangeId>,
    /// Queries, and the change ids that the archive must have before it answers them.
    waiting: VecDeque<(OlderAsk, ChangeId)>,
    /// A rewind that is not applied yet: changes after this change id are void.
    rewind: Option<(Epoch, ChangeId)>,
    /// True after a rewind until changes are sent again.
    is_rewound: bool,
    /// True when the changes taken must be synced as soon as possible.
    must_keep: bool,
    pace: SharedPace,
    /// The number of pages until the next step of a merge.
    pages_to_merge: u32,
    /// The time of the retry after a disk failure.
    retry_at: Option<Nanos>,
    open_bytes_max: u64,
    told_at: Nanos,
    store: Wake,
    /// The wall clock, for the times in pages.
    pub(super) wall: WallOffset,
    /// The time with which that of the oldest changes is compared for the figures.
    log_time: LogTime,
    /// The time by which segments grow old.
    served: ServedTime,
}

/// Returns the directory of the archive of the node's own log: another log's change ids mean other
/// changes.
#[must_use]
pub fn dir_of(dir: &Path, log_id: u128) -> PathBuf {
    dir.join(format!("log-{log_id:032x}"))
}

/// Returns the directory of an outside source's archive, named by the log of its batches if it has
/// one.
#[must_use]
pub fn source_dir_of(dir: &Path, source: PartitionId, log_id: Option<u128>) -> PathBuf {
    match log_id {
        Some(log_id) => dir.join(format!("source-{source}-{log_id:032x}")),
        None => dir.join(format!("source-{source}-memory")),
    }
}

impl ColdAgent {
    /// Opens the archive in its directory; messages for operators are added to `notes`.
    ///
    /// # Errors
    /// When the directory cannot be read or created, another process has locked it, or its files
    /// are of a later epoch than the log.
    pub fn open(
        parts: ColdParts,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<(ColdPort, ColdAgent)> {
        let dir = parts.dir.clone();
        let at = || format!("cold order state in {}", dir.display());
        let mut disk = ThreadDisk::open(&dir, None).with_context(at)?;
        disk.lock().with_context(at)?;
        ColdAgent::over(disk, parts, notes).with_context(at)
    }

    /// Opens an outside source's archive in its directory: see [`ColdAgent::over_source`].
    ///
    /// # Errors
    /// The same as those of [`ColdAgent::open`].
    pub fn open_source(
        parts: ColdParts,
        survives: bool,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<(ColdPort, ColdAgent)> {
        let dir = parts.dir.clone();
        let at = || format!("cold order state in {}", dir.display());
        let mut disk = ThreadDisk::open(&dir, None).with_context(at)?;
        disk.lock().with_context(at)?;
        ColdAgent::over_source(disk, parts, survives, notes).with_context(at)
    }
}

impl<D: Disk> ColdAgent<D> {
    /// Opens the archive over a disk.
    ///
    /// # Errors
    /// When the disk fails or its files are of a later epoch than the log.
    pub fn over(
        disk: D,
        parts: ColdParts,
        notes: &mut Vec<String>,
    ) -> Result<(ColdPort, ColdAgent<D>), ColdError> {
        let open_bytes_max = OPEN_SEGMENTS_MAX.saturating_mul(parts.config.segment_bytes_max);
        let (archive, report) = Archive::open(disk, parts.config)?;
        let served = ServedTime::after(archive.clock());
        note(&report, &parts.figures, notes);
        let out_max = parts.readers_max;
        let (news, from_store) = RingBuffer::new(BATCHES_MAX);
        let (empties, used) = RingBuffer::new(BATCHES_MAX);
        // Each outstanding query may be cancelled, too.
        let (requests, asked) = RingBuffer::new(2 * out_max as usize + 1);
        let (answers, answered) = RingBuffer::new(out_max as usize);
        // The store makes one such request at a time.
        let (rewound, is_rewound) = RingBuffer::new(1);
        let (kept, is_kept) = RingBuffer::new(1);
        let port = ColdPort {
            news,
            empties: used,
            requests,
            answers: answered,
            rewound: is_rewound,
            kept: is_kept,
            out_max,
            fed: archive.fed(),
            wake: parts.wake,
            figures: parts.figures.clone(),
        };
        let agent = ColdAgent {
            archive,
            sealer: parts.sealer,
            figures: parts.figures,
            rows: Vec::new(),
            token: Vec::new(),
            closed_at: Nanos(0),
            news: from_store,
            empties,
            requests: asked,
            answers,
            rewound,
            kept,
            waiting: VecDeque::new(),
            rewind: None,
            is_rewound: false,
            must_keep: false,
            pace: parts.pace,
            pages_to_merge: 0,
            retry_at: None,
            open_bytes_max,
            told_at: Nanos(0),
            store: parts.store,
            wall: WallOffset::default(),
            log_time: LogTime::after(Nanos(0)),
            served,
        };
        agent.tell(Nanos(0));
        Ok((port, agent))
    }

    /// Sets the log time that was reached before this start. Served time goes on from there too,
    /// where the files tell none: those of before have changes of that time. The first stop, or the
    /// first hour of work, writes it, so that later starts go on from served time.
    pub fn begin_after(&mut self, log_time: Nanos) {
        self.log_time = LogTime::after(log_time);
        if self.archive.clock() == Nanos(0) {
            self.served = ServedTime::after(log_time);
        }
    }

    /// Opens an outside source's archive over a disk. All its files are removed if the source
    /// survives no restart, and set aside if one has an epoch after the recovered store's.
    ///
    /// # Errors
    /// The same as those of [`ColdAgent::over`].
    pub fn over_source(
        mut disk: D,
        parts: ColdParts,
        survives: bool,
        notes: &mut Vec<String>,
    ) -> Result<(ColdPort, ColdAgent<D>), ColdError> {
        let ColdConfig { source, epoch, .. } = parts.config;
        let known = survives.then_some(epoch);
        let files = weir_cold::set_aside_unknown(&mut disk, source, known)?;
        if files > 0 {
            let aside = match known {
                Some(epoch) => format!(
                    ": {files} files have a later epoch than {epoch}, that of its store, or stand \
                     beside one that has; they end in {} now, and can be removed",
                    weir_cold::ASIDE_SUFFIX
                ),
                None => String::new(),
            };
            notes.push(format!("source {source}: cold order state begins anew{aside}"));
        }
        ColdAgent::over(disk, parts, notes)
    }

    /// Takes the waiting batches and closes segments as they fill: at a start, before the thread
    /// begins.
    pub fn take_batches(&mut self) {
        self.take_changes(Nanos(0));
        self.work(Nanos(0), false);
    }

    /// Voids the archive's changes after `change_id` at a start; returns the change id to continue
    /// from.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn rewind_at_start(&mut self, change_id: ChangeId) -> Result<ChangeId, ColdError> {
        let from = self.archive.forget_after(change_id)?;
        self.note_damaged();
        Ok(from)
    }

    fn note_damaged(&mut self) {
        for error in self.archive.take_damaged() {
            self.figures.counters.damaged.fetch_add(1, Ordering::Relaxed);
            tracing::error!(%error, "cold order state is damaged: what is older is not served");
        }
    }

    /// Takes all changes sent so far, unless much waits for the disk; returns the number of
    /// messages.
    fn take_changes(&mut self, now: Nanos) -> usize {
        let mut taken = 0;
        while self.go_back(now)
            && self.archive.open_bytes() < self.open_bytes_max
            && let Ok(news) = self.news.pop()
        {
            taken += 1;
            let batch = match news {
                ColdNews::Batch(batch) => batch,
                ColdNews::Rewind(epoch, valid_to) => {
                    self.rewind = Some((epoch, valid_to));
                    continue;
                }
            };
            self.is_rewound = false;
            if let Err(error) = self.archive.take_batch(&batch) {
                self.on_trouble(&error, now);
            }
            self.figures.counters.changes.fetch_add(batch.len() as u64, Ordering::Relaxed);
            // If the ring is full, the batch is freed here.
            drop(self.empties.push(batch));
        }
        taken
    }

    /// Applies a pending rewind; returns false while the disk prevents it.
    fn go_back(&mut self, now: Nanos) -> bool {
        let Some((epoch, valid_to)) = self.rewind else { return true };
        if self.is_resting(now) {
            return false;
        }
        let from = match epoch > self.archive.epoch() {
            true => self.archive.begin_epoch(epoch, valid_to),
            false => self.archive.forget_after(valid_to),
        };
        self.note_damaged();
        match from {
            Ok(from) => {
                (self.rewind, self.is_rewound) = (None, true);
                let told = self.rewound.push(from);
                assert!(told.is_ok(), "one rewind is under way at a time");
                self.store.wake();
                true
            }
            Err(error) => {
                self.on_trouble(&error, now);
                false
            }
        }
    }

    /// Syncs the changes taken, if requested, and reports the last of them.
    fn keep(&mut self, now: Nanos) {
        let is_taken = self.rewind.is_none() && self.news.is_empty();
        if !self.must_keep || !is_taken || self.is_resting(now) {
            return;
        }
        match self.archive.close() {
            Ok(_) => {
                self.must_keep = false;
                let told = self.kept.push(self.archive.end());
                assert!(told.is_ok(), "it is asked once at a time");
                self.store.wake();
            }
            Err(error) => self.on_trouble(&error, now),
        }
    }

    /// Returns true when changes are waiting, or will be sent again.
    pub(super) fn is_behind(&self) -> bool {
        !self.news.is_empty() || self.rewind.is_some() || self.is_rewound
    }

    /// Returns true when the disk failed and the retry is not due yet.
    pub(super) fn is_resting(&self, now: Nanos) -> bool {
        self.retry_at.is_some_and(|at| now < at)
    }

    fn take_requests(&mut self) -> usize {
        let mut taken = 0;
        while let Ok(request) = self.requests.pop() {
            match request {
                ColdRequest::Page(ask, told_to) => {
                    self.waiting.push_back((*ask, told_to));
                }
                ColdRequest::Keep => self.must_keep = true,
                ColdRequest::Forget(ticket) => {
                    let at = self.waiting.iter().position(|(ask, _)| ask.ticket == ticket);
                    // An answered query needs no second answer.
                    let is_waiting = at.and_then(|at| self.waiting.remove(at)).is_some();
                    if is_waiting && !plant::is(Plant::ForgottenUnanswered) {
                        self.say(ticket, OlderAnswer::NotNow);
                    }
                }
            }
            taken += 1;
        }
        taken
    }

    fn say(&mut self, ticket: Ticket, answer: OlderAnswer) {
        let pushed = self.answers.push((ticket, answer));
        assert!(pushed.is_ok(), "there is room for an answer to each question that is out");
        self.store.wake();
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves one page, if the pace allows it; returns the number of pages.
    fn serve(&mut self, now: Nanos) -> usize {
        if !self.pace().may_begin(now) {
            return 0;
        }
        let Some((ask, told_to)) = self.waiting.pop_front() else { return 0 };
        match self.answer(&ask, told_to, now) {
            Some((answer, looked_at)) => {
                self.pace().spend(now, u64::from(looked_at.max(1)));
                self.say(ask.ticket, answer);
                1
            }
            None => {
                // Other queries need not wait for the same changes.
                self.waiting.push_back((ask, told_to));
                0
            }
        }
    }

    /// Does one step of maintenance; returns true when there was one. While readers are served, few
    /// steps are merges.
    fn work(&mut self, now: Nanos, has_served: bool) -> bool {
        if self.is_resting(now) {
            return false;
        }
        self.pages_to_merge = match has_served {
            true => self.pages_to_merge.checked_sub(1).unwrap_or(PAGES_A_MERGE_STEP),
            false => 0,
        };
        let worked = match self.pages_to_merge {
            0 => self.archive.work(self.served.at(now)),
            _ => self.archive.keep_up(self.served.at(now)),
        };
        match worked {
            Ok(worked) => {
                self.retry_at = None;
                self.figures.counters.is_failing.store(false, Ordering::Relaxed);
                if worked == WorkOutcome::Closed
                    && self.figures.counters.is_full.swap(false, Ordering::Relaxed)
                {
                    tracing::info!("the disk of cold order state has room again");
                }
                worked != WorkOutcome::Nothing
            }
            Err(error) => {
                self.on_trouble(&error, now);
                false
            }
        }
    }

    /// Records and reports a failure, and pauses the disk.
    pub(super) fn on_trouble(&mut self, error: &ColdError, now: Nanos) {
        let disk_error = match error {
            ColdError::Segment(error) if error.is_lost() => {
                self.figures.counters.damaged.fetch_add(1, Ordering::Relaxed);
                tracing::error!(%error, "cold order state is damaged: what is older is not served");
                return;
            }
            ColdError::Disk(error) | ColdError::Segment(SegmentError::Disk(error)) => error,
            // The store sends its entries in order, and they are valid changes.
            other => panic!("the archive cannot take what the store let go: {other}"),
        };
        self.figures.counters.disk_errors.fetch_add(1, Ordering::Relaxed);
        let is_full = disk_error.kind == DiskErrorKind::Full;
        if !is_full || !self.figures.counters.is_full.swap(true, Ordering::Relaxed) {
            tracing::error!(error = %disk_error, "the disk of cold order state");
        }
        self.figures.counters.is_failing.store(true, Ordering::Relaxed);
        self.retry_at = Some(Nanos(now.0.saturating_add(RETRY_AFTER)));
    }

    fn tell(&self, time: Nanos) {
        let first = self.archive.segments().next().map(|oldest| oldest.header.first_time);
        let told = (self.archive.figures(), first.unwrap_or_default(), time);
        *self.figures.archive.lock().unwrap_or_else(PoisonError::into_inner) = told;
        self.figures.counters.readers.store(self.waiting.len() as u64, Ordering::Relaxed);
    }
}

fn note(report: &OpenReport, figures: &ColdFigures, notes: &mut Vec<String>) {
    figures.counters.damaged.fetch_add(report.damaged.len() as u64, Ordering::Relaxed);
    notes.extend(report.damaged.iter().map(|error| format!("cold order state: {error}")));
    notes.extend(report.unknown.iter().map(|file| {
        format!(
            "cold order state: {file} is not served: the end of its epoch is not known. It stays, \
             and can be removed"
        )
    }));
    let unreachable = report.unreachable.iter();
    notes.extend(unreachable.map(|file| {
        format!("cold order state: {file} is not served: a file between it and the rest is missing")
    }));
}

impl<D: Disk + Send> Agent for ColdAgent<D> {
    fn name(&self) -> &'static str {
        "cold"
    }

    fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.wall = wall;
        self.log_time.wall_clock_moved(wall);
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        // This order ensures that changes sent before a query are in the archive before it is
        // answered.
        let asked = self.take_requests();
        let is_first = plant::is(Plant::AnsweredBeforeTaken);
        let early = if is_first { self.serve(now) } else { 0 };
        let taken = self.take_changes(now);
        self.keep(now);
        let served = early + self.serve(now);
        let worked = self.work(now, served > 0);
        let done = asked + taken + served + usize::from(worked);
        if now.since(self.told_at).0 >= TOLD_EVERY {
            let time = self.log_time.at(now);
            self.tell(time);
            self.told_at = now;
        }
        done
    }

    fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        let rest = Nanos(now.0 + REST);
        if self.waiting.is_empty() {
            return Some(rest);
        }
        // A query waits for the pace, or for a segment that will be closed for it.
        Some(
            self.pace().next_begin().max(Nanos(now.0 + super::queries::CLOSE_EVERY / 10)).min(rest),
        )
    }

    fn stop(&mut self, now: Nanos) -> bool {
        self.take_changes(now);
        // Saves replay at the next start; if it fails, that start replays more of the log.
        if let Err(error) = self.archive.close() {
            tracing::warn!(%error, "the last changes are not in cold order state yet");
        }
        if let Err(error) = self.archive.note_clock(self.served.at(now)) {
            tracing::warn!(%error, "the ages of cold order state lose up to an hour");
        }
        let time = self.log_time.at(now);
        self.tell(time);
        true
    }
}
