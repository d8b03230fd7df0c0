//! A thread that performs operations in order and queues their completions.
//!
//! The thread disk runs writes and syncs on one lane and slow operations on another; the io_uring
//! disk has only the second. A lane starts its thread with its first job, so that a disk opened for
//! reading starts none. Queues are locked for a few instructions, never across an operation.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::dir::{Names, OpenFile};
use super::{Completion, DiskError, Outcome};
use crate::wake::Waker;

/// An operation with its files resolved.
pub(super) enum Work {
    Write { file: Arc<OpenFile>, offset: u64, buf: Vec<u8>, from: usize, sync: bool },
    Sync { file: Arc<OpenFile> },
    Prepare { name: String, len: u64 },
    Rename { from: String, to: String },
    Remove { name: String },
}

/// The completions of one disk, shared by its lanes.
pub(super) struct Done {
    queue: Mutex<VecDeque<Completion>>,
    count: AtomicUsize,
    arrived: Condvar,
    waker: Option<Waker>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A queue is consistent at every point that can panic, so poisoning carries no information.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Done {
    pub(super) fn new(waker: Option<Waker>) -> Arc<Done> {
        Arc::new(Done {
            queue: Mutex::new(VecDeque::with_capacity(super::IN_FLIGHT_MAX)),
            count: AtomicUsize::new(0),
            arrived: Condvar::new(),
            waker,
        })
    }

    fn push(&self, completion: Completion) {
        locked(&self.queue).push_back(completion);
        // SYNC: pairs with the load in `take`; the queue itself is guarded by its mutex.
        self.count.fetch_add(1, Ordering::Release);
        self.arrived.notify_all();
        if let Some(waker) = &self.waker {
            waker();
        }
    }

    /// Appends the queued completions to `out`; returns their number.
    pub(super) fn take(&self, out: &mut Vec<Completion>) -> usize {
        // SYNC: pairs with the add in `push`; at zero an idle cycle skips the lock.
        if self.count.load(Ordering::Acquire) == 0 {
            return 0;
        }
        let mut queue = locked(&self.queue);
        let taken = queue.len();
        out.extend(queue.drain(..));
        // SYNC: completions that `push` adds after this drain stay counted; Relaxed under the
        // mutex.
        self.count.fetch_sub(taken, Ordering::Relaxed);
        taken
    }

    /// Blocks until a completion is queued.
    pub(super) fn wait(&self) {
        let mut queue = locked(&self.queue);
        while queue.is_empty() {
            queue = self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

struct Shared {
    jobs: Mutex<Jobs>,
    ready: Condvar,
    done: Arc<Done>,
    names: Arc<Names>,
}

struct Jobs {
    queue: VecDeque<(u64, Work)>,
    stopping: bool,
}

/// A queue of operations and the thread that performs them.
pub(super) struct Lane {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    name: &'static str,
}

impl Lane {
    pub(super) fn new(name: &'static str, names: Arc<Names>, done: Arc<Done>) -> Lane {
        let jobs = Jobs { queue: VecDeque::with_capacity(super::IN_FLIGHT_MAX), stopping: false };
        let shared = Shared { jobs: Mutex::new(jobs), ready: Condvar::new(), done, names };
        Lane { shared: Arc::new(shared), thread: None, name }
    }

    #[allow(clippy::disallowed_methods)] // The thread disk's own thread: this is the edge.
    pub(super) fn push(&mut self, tag: u64, work: Work) {
        if self.thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new()
                .name(self.name.to_owned())
                .spawn(move || run(&shared))
                .expect("a process that cannot start a thread cannot run a log");
            self.thread = Some(thread);
        }
        locked(&self.shared.jobs).queue.push_back((tag, work));
        self.shared.ready.notify_one();
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        locked(&self.shared.jobs).stopping = true;
        self.shared.ready.notify_one();
        if let Some(thread) = self.thread.take() {
            // The lane's thread does not panic; if it did, its message is already on stderr.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared) {
    loop {
        let mut jobs = locked(&shared.jobs);
        let (tag, work) = loop {
            if let Some(job) = jobs.queue.pop_front() {
                break job;
            }
            if jobs.stopping {
                return;
            }
            jobs = shared.ready.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        };
        drop(jobs);
        let (buf, outcome) = perform(&shared.names, work);
        shared.done.push(Completion { tag, buf, outcome });
    }
}

fn perform(names: &Names, work: Work) -> (Vec<u8>, Outcome) {
    let ended = |result: Result<(), DiskError>| match result {
        Ok(()) => (Vec::new(), Outcome::Done),
        Err(error) => (Vec::new(), Outcome::Failed(error)),
    };
    match work {
        Work::Write { file, offset, buf, from, sync } => {
            let outcome = write_then_sync(&file, offset, &buf[from..], sync);
            (buf, outcome.unwrap_or_else(Outcome::Failed))
        }
        Work::Sync { file } => ended(file.sync()),
        Work::Prepare { name, len } => ended(names.prepare(&name, len)),
        Work::Remove { name } => ended(names.remove(&name).and_then(|()| names.sync())),
        Work::Rename { from, to } => ended(names.rename(&from, &to).and_then(|()| names.sync())),
    }
}

fn write_then_sync(
    file: &OpenFile,
    offset: u64,
    bytes: &[u8],
    sync: bool,
) -> Result<Outcome, DiskError> {
    let taken = file.write(offset, bytes)?;
    let synced = sync && taken == bytes.len();
    if synced {
        file.sync()?;
    }
    Ok(Outcome::Written { bytes: taken, synced })
}
