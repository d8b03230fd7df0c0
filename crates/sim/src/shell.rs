//! A shell around the real log: a failed log, which would abort the process, ends the life instead.
//!
//! A partition aborts when its log fails. Here the shell records the failure first and then behaves
//! like a dead process: no more commits, no more work. The driver of the partition checks [`Fate`]
//! after every cycle and discards any later output.

use std::sync::{Arc, Mutex, PoisonError};

use weir_log::{Append, Batch, LogError, Poll, SequencedLog};
use weir_types::{Epoch, Nanos, Position};

use crate::clocks::LogTimeWatch;
use crate::plant::Plant;

/// The reason why the process ended itself, once it did. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Fate {
    why: Arc<Mutex<Option<String>>>,
}

impl Fate {
    /// Ends the process.
    pub fn stop(&self, why: String) {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }

    /// The reason; `None` while it runs.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A log that ends the life when it fails.
pub struct Shell<L> {
    inner: L,
    fate: Fate,
    log_times: LogTimeWatch,
    plant: Option<Plant>,
    is_broken: bool,
    /// The most entries that may wait for their commit, as if the log's queue were short.
    queue_len_max: u64,
    committed: Position,
}

impl<L: SequencedLog> Shell<L> {
    /// Creates a shell around `inner`, whose batches' log times are watched.
    #[must_use]
    pub fn new(inner: L, fate: Fate, log_times: LogTimeWatch, plant: Option<Plant>) -> Shell<L> {
        let committed = Position(inner.next_position().0 - 1);
        let queue_len_max = u64::MAX;
        Shell { inner, fate, log_times, plant, is_broken: false, queue_len_max, committed }
    }

    /// Refuses batches as busy while this many entries wait for their commit.
    #[must_use]
    pub fn with_queue(self, queue_len_max: u64) -> Shell<L> {
        Shell { queue_len_max, ..self }
    }

    fn fail(&mut self, error: &LogError) {
        self.is_broken = true;
        if self.plant != Some(Plant::FailedSyncIgnored) {
            self.fate.stop(error.to_string());
        }
    }

    fn last_appended(&self) -> Position {
        Position(self.inner.next_position().0 - 1)
    }
}

impl<L: SequencedLog> SequencedLog for Shell<L> {
    fn new_batch(&self) -> Batch {
        self.inner.new_batch()
    }

    fn append(&mut self, epoch: Epoch, log_time: Nanos, batch: &Batch) -> Append {
        let waiting = self.last_appended().0 - self.committed.0.min(self.last_appended().0);
        // As the log, which says that it is full before it says that it is busy.
        let is_busy = waiting >= self.queue_len_max && !self.inner.is_full();
        if self.fate.why().is_some() || is_busy {
            Append::Busy
        } else {
            let appended = self.inner.append(epoch, log_time, batch);
            if matches!(appended, Append::At { .. }) {
                self.log_times.judge(log_time);
            }
            appended
        }
    }

    fn poll(&mut self) -> Poll {
        if self.fate.why().is_some() {
            return Poll::Committed(Position::NONE);
        }
        if self.is_broken {
            return Poll::Committed(self.last_appended());
        }
        match self.inner.poll() {
            Poll::Committed(_) if self.plant == Some(Plant::CommitTooEarly) => {
                Poll::Committed(self.last_appended())
            }
            Poll::Committed(position) => {
                self.committed = position;
                Poll::Committed(position)
            }
            poll => poll,
        }
    }

    fn do_work(&mut self, now: Nanos) -> Result<usize, LogError> {
        if self.is_broken {
            return Ok(0);
        }
        match self.inner.do_work(now) {
            Ok(done) => Ok(done),
            Err(error) => {
                self.fail(&error);
                Ok(0)
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.is_broken || self.inner.is_idle()
    }

    fn is_full(&self) -> bool {
        self.inner.is_full()
    }

    fn flush_blocking(&mut self) -> Result<(), LogError> {
        if self.is_broken {
            return Ok(());
        }
        match self.inner.flush_blocking() {
            Ok(()) => Ok(()),
            // The log is sound and goes on when there is room; the partition decides.
            Err(error) if error.is_no_room() => Err(error),
            Err(error) => {
                self.fail(&error);
                Ok(())
            }
        }
    }

    fn truncate(&mut self, before: Position) {
        if self.plant != Some(Plant::TruncationIgnored) {
            self.inner.truncate(before);
        }
    }

    fn synced(&self) -> Position {
        self.inner.synced()
    }

    fn epoch(&self) -> Epoch {
        self.inner.epoch()
    }

    fn next_position(&self) -> Position {
        self.inner.next_position()
    }

    fn last_log_time(&self) -> Nanos {
        self.inner.last_log_time()
    }
}
