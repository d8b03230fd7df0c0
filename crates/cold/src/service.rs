//! An archive on a thread of its own, behind a bounded queue.
//!
//! The thread that owns the order store hands over changes and reads and never waits: a full queue
//! is reported at once. Changes come first, then one page as the pace allows, then one step of the
//! archive's own work, so that none of them starves another. The thread runs at a lower priority.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_io::{Clock, Disk};
use weir_types::{ChangeId, Epoch};

use crate::archive::{Archive, ColdError, Resync, WorkOutcome};
use crate::entry::Batch;
use crate::filter::Filter;
use crate::pace::Pace;
use crate::reader::{ColdPage, PageLimits};

/// The longest rest of the thread when nothing is due.
const REST: Duration = Duration::from_millis(100);

/// The configuration of a service.
#[derive(Clone, Copy, Debug)]
pub struct ServiceConfig {
    /// Batches and reads that may wait, at least 1.
    pub queue_len: usize,
    /// Rows visited or returned per second, on average.
    pub pace: Pace,
    /// The distance by which the thread's priority is below the process's own, 0 to 19.
    pub niceness: i32,
}

/// A read of one page.
#[derive(Clone, Debug)]
pub struct Read {
    /// The epoch of the place.
    pub epoch: Epoch,
    /// The reader's place.
    pub after: ChangeId,
    /// The reader's filter.
    pub filter: Filter,
    /// The limits of the page.
    pub limits: PageLimits,
    /// The order store's floor for the reader: the store no longer has the changes up to it.
    pub hot_floor: ChangeId,
}

/// A page with its rows in wire format, or the reason that there is none.
pub type Answer = Result<(ColdPage, Vec<u8>), PageRefusal>;

/// The reason that there is no page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageRefusal {
    /// The place is not honoured.
    #[error(transparent)]
    Resync(#[from] Resync),
    /// Too many reads wait for the pace.
    #[error("too many cold reads wait")]
    Overloaded,
    /// The disk failed or a file is damaged.
    #[error(transparent)]
    Cold(#[from] ColdError),
}

/// The reason that a request was not handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandOverError {
    /// The queue is full.
    #[error("the cold reads' queue is full")]
    Full,
    /// The thread has ended: its archive failed.
    #[error("the archive has stopped")]
    Stopped,
}

enum Request {
    Feed(Batch),
    Read(Read, SyncSender<Answer>),
    Stop,
}

/// A running archive.
#[derive(Debug)]
pub struct ColdService<D> {
    requests: SyncSender<Request>,
    thread: Option<JoinHandle<Result<Archive<D>, ColdError>>>,
}

impl<D: Disk + Send + 'static> ColdService<D> {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's error if it cannot start a thread.
    pub fn start<C: Clock + Send + 'static>(
        archive: Archive<D>,
        clock: C,
        config: ServiceConfig,
    ) -> std::io::Result<ColdService<D>> {
        let (requests, taken) = sync_channel(config.queue_len.max(1));
        let worker = Worker {
            archive,
            clock,
            pace: config.pace,
            waiting: VecDeque::new(),
            waiting_max: config.queue_len.max(1),
        };
        let run = move || {
            // If the system refuses the lower priority, the thread still reads at its pace.
            let _ = rustix::process::nice(config.niceness);
            worker.run(&taken)
        };
        let thread = std::thread::Builder::new().name("weir-cold".to_owned()).spawn(run)?;
        Ok(ColdService { requests, thread: Some(thread) })
    }

    /// Hands over changes.
    ///
    /// # Errors
    /// [`HandOverError`] with the batch, to be handed over again.
    pub fn feed(&self, batch: Batch) -> Result<(), (HandOverError, Batch)> {
        self.requests.try_send(Request::Feed(batch)).map_err(|error| {
            let why = why(&error);
            match error {
                TrySendError::Full(Request::Feed(batch))
                | TrySendError::Disconnected(Request::Feed(batch)) => (why, batch),
                _ => unreachable!("what was sent comes back"),
            }
        })
    }

    /// Asks for a page; the answer comes through `answers`, which must have room for it, or else it
    /// is dropped.
    ///
    /// # Errors
    /// [`HandOverError`].
    pub fn read(&self, read: Read, answers: &SyncSender<Answer>) -> Result<(), HandOverError> {
        self.requests.try_send(Request::Read(read, answers.clone())).map_err(|error| why(&error))
    }

    /// Ends the thread and returns the archive; changes that are in no segment stay open.
    ///
    /// # Errors
    /// [`ColdError`] if the archive had failed.
    ///
    /// # Panics
    /// If the thread panicked: its broken invariant is the process's.
    pub fn stop(mut self) -> Result<Archive<D>, ColdError> {
        // A thread that has already ended needs no message.
        let _ = self.requests.send(Request::Stop);
        let thread = self.thread.take().expect("a service is stopped once");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn why(error: &TrySendError<Request>) -> HandOverError {
    match error {
        TrySendError::Full(_) => HandOverError::Full,
        TrySendError::Disconnected(_) => HandOverError::Stopped,
    }
}

struct Worker<D, C> {
    archive: Archive<D>,
    clock: C,
    pace: Pace,
    waiting: VecDeque<(Read, SyncSender<Answer>)>,
    waiting_max: usize,
}

impl<D: Disk, C: Clock> Worker<D, C> {
    fn run(mut self, taken: &Receiver<Request>) -> Result<Archive<D>, ColdError> {
        let mut rest = Duration::ZERO;
        loop {
            match taken.recv_timeout(rest) {
                Ok(Request::Feed(batch)) => {
                    self.archive.take_batch(&batch)?;
                    rest = Duration::ZERO;
                    continue;
                }
                Ok(Request::Read(_, answers)) if self.waiting.len() >= self.waiting_max => {
                    // A caller without room for this answer either asks again when none comes.
                    let _ = answers.try_send(Err(PageRefusal::Overloaded));
                    continue;
                }
                Ok(Request::Read(read, answers)) => self.waiting.push_back((read, answers)),
                Ok(Request::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    return Ok(self.archive);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            rest = self.cycle()?;
        }
    }

    /// Serves one page and does one step of work; returns the time for which nothing is due.
    fn cycle(&mut self) -> Result<Duration, ColdError> {
        let now = self.clock.now();
        if self.pace.may_begin(now)
            && let Some((read, answers)) = self.waiting.pop_front()
        {
            let answer = self.answer(&read);
            let cost = answer.as_ref().map_or(1, |(page, _)| page.scan_count.max(1));
            self.pace.spend(now, u64::from(cost));
            // A caller that is gone, or has no room for the answer, asks again.
            let _ = answers.try_send(answer);
        }
        match self.archive.work(now) {
            Ok(WorkOutcome::Nothing) => {}
            Ok(WorkOutcome::Closed | WorkOutcome::Merged | WorkOutcome::Retired) => {
                return Ok(Duration::ZERO);
            }
            // The archive gave up the damaged file and goes on without it.
            Err(ColdError::Segment(crate::SegmentError::Damaged { .. })) => {}
            Err(error) => return Err(error),
        }
        if self.waiting.is_empty() {
            return Ok(REST);
        }
        Ok(Duration::from_nanos(self.pace.next_begin().since(now).0).min(REST))
    }

    fn answer(&mut self, read: &Read) -> Answer {
        let mut rows = Vec::new();
        let (filter, limits) = (&read.filter, &read.limits);
        self.archive.check(read.epoch, read.after)?;
        let page = self.archive.page(read.after, filter, limits, &mut rows)?;
        if page.is_cut || page.next >= read.hot_floor {
            return Ok((page, rows));
        }
        // The store has removed changes that are in no segment yet.
        self.archive.close()?;
        rows.clear();
        let page = self.archive.page(read.after, filter, limits, &mut rows)?;
        Ok((page, rows))
    }
}
