//! One session on one connection, shared by any number of threads: followers' pages and the
//! session's own events, each in a queue of its own.
//!
//! The first thread that waits reads the connection for all (`is_pumping`); the others wait for its
//! results. While nobody waits, a thread of the service reads it now and then (`keep`), so that
//! heartbeats go out and a lost connection comes back. No wait holds the interpreter's lock. A full
//! queue puts its follower on hold, so that memory is bounded.
//!
//! INVARIANT: `inbox` is never locked while `io` is being waited for.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use weir_client::session::SessionEvent;
use weir_client::{StateClient, StateEvent};
use weir_types::Reason;

use crate::batch::Page;
use crate::endpoint::Endpoint;
use crate::errors::Failure;

/// The longest time that a thread holds the connection or does not check for signals.
const SLICE: Duration = Duration::from_millis(25);
/// The time without a waiting thread after which the service reads the connection itself.
const KEEP_INTERVAL: Duration = Duration::from_millis(50);
/// The time for which it then reads.
const KEEP_SLICE: Duration = Duration::from_millis(1);
/// The number of untaken pages of a follower at which its next fetch is held.
const PAGES_MAX: usize = 4;
/// The most untaken events of the session; beyond it the oldest are dropped.
const EVENTS_MAX: usize = 65_536;
/// The untaken events from which on the service leaves events at the node: it drops none that a
/// program may still take.
const EVENTS_KEPT_MAX: usize = EVENTS_MAX / 2;
/// The longest time for a logout.
const FAREWELL: Duration = Duration::from_millis(500);

/// An item of a follower's queue.
#[derive(Debug)]
pub enum FollowerEvent {
    /// A page.
    Page(Page),
    /// The state is void and comes again.
    Resync(Reason, Vec<u8>),
    /// The follower has ended.
    Ended(Failure),
}

/// Items received and not taken.
#[derive(Debug, Default)]
pub struct Inbox {
    /// True while a thread reads the connection.
    is_pumping: bool,
    /// The time of the last read; none before the first.
    pumped_at: Option<Instant>,
    is_closed: bool,
    /// The error that ended the session for good.
    failed: Option<Failure>,
    /// The error that ended the last connection.
    lost: Option<Failure>,
    queues: HashMap<u32, VecDeque<FollowerEvent>>,
    held: Vec<u32>,
    events: VecDeque<SessionEvent>,
    events_dropped: u64,
    connections: u64,
}

/// The state shared by a service and its followers.
#[derive(Debug)]
pub struct Shared {
    pub io: Mutex<StateClient>,
    inbox: Mutex<Inbox>,
    changed: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The data is consistent between any two statements, so a poisoned lock is safe.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Locks the connection.
    pub fn io(&self) -> MutexGuard<'_, StateClient> {
        lock(&self.io)
    }

    /// Adds a follower's queue.
    pub fn add(&self, handle: u32) {
        lock(&self.inbox).queues.insert(handle, VecDeque::new());
    }

    /// Removes a follower.
    pub fn remove(&self, handle: u32) {
        lock(&self.inbox).queues.remove(&handle);
        self.io().unfollow(handle);
    }

    /// Takes a follower's next item.
    pub fn take(&self, handle: u32) -> Result<Option<FollowerEvent>, Failure> {
        let mut inbox = lock(&self.inbox);
        let failed = inbox.failure();
        match inbox.queues.get_mut(&handle).and_then(VecDeque::pop_front) {
            Some(told) => Ok(Some(told)),
            None => failed.map_or(Ok(None), Err),
        }
    }

    /// Takes the session's next event.
    pub fn take_event(&self) -> Result<Option<SessionEvent>, Failure> {
        let mut inbox = lock(&self.inbox);
        match inbox.events.pop_front() {
            Some(event) => Ok(Some(event)),
            None => inbox.failure().map_or(Ok(None), Err),
        }
    }

    /// Waits at most a slice until a follower has an item.
    pub fn wait_for(&self, handle: u32, timeout: Duration) -> bool {
        self.wait(timeout, |inbox| inbox.queues.get(&handle).is_none_or(|queue| !queue.is_empty()))
    }

    /// Waits at most a slice until there is an event of the session.
    pub fn wait_for_event(&self, timeout: Duration) -> bool {
        self.wait(timeout, |inbox| !inbox.events.is_empty())
    }

    /// Reads the connection if no thread has for a while; false when the session has ended.
    fn keep(&self) -> bool {
        let inbox = lock(&self.inbox);
        if inbox.failed.is_some() || inbox.is_closed {
            return false;
        }
        let is_recent = inbox.pumped_at.is_some_and(|at| at.elapsed() < KEEP_INTERVAL);
        let is_left = inbox.is_pumping || is_recent || inbox.events.len() >= EVENTS_KEPT_MAX;
        drop(inbox);
        if !is_left {
            self.wait(KEEP_SLICE, |_| false);
        }
        true
    }

    fn wait(&self, timeout: Duration, is_there: impl Fn(&Inbox) -> bool) -> bool {
        let deadline = Instant::now() + timeout.min(SLICE);
        let mut inbox = lock(&self.inbox);
        loop {
            if is_there(&inbox) || inbox.failed.is_some() || inbox.is_closed {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            if inbox.is_pumping {
                let waited = self.changed.wait_timeout(inbox, left);
                inbox = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            inbox.is_pumping = true;
            let (full, empty) = inbox.hold_changes();
            drop(inbox);
            let mut came = Vec::new();
            let mut io = self.io();
            full.iter().for_each(|handle| io.hold(*handle));
            empty.iter().for_each(|handle| io.release(*handle));
            let polled = io.poll(left, &mut |event| came.extend(Came::of(event)));
            let (lost, connections) = (io.take_failure(), io.connection_count());
            drop(io);
            inbox = lock(&self.inbox);
            inbox.is_pumping = false;
            inbox.pumped_at = Some(Instant::now());
            inbox.connections = connections;
            inbox.lost = lost.map(Failure::from).or(inbox.lost.take());
            inbox.failed = polled.err().map(Failure::from).or(inbox.failed.take());
            came.into_iter().for_each(|came| inbox.keep(came));
            self.changed.notify_all();
        }
    }
}

/// Keeps a service's connection until the session ends or the service is dropped.
fn keep_connection(shared: &Weak<Shared>) {
    loop {
        std::thread::sleep(KEEP_INTERVAL);
        let is_there = shared.upgrade().is_some_and(|shared| shared.keep());
        if !is_there {
            return;
        }
    }
}

/// A received item, to be queued.
enum Came {
    FollowerEvent(u32, FollowerEvent),
    Event(Box<SessionEvent>),
}

impl Came {
    fn of(event: StateEvent<'_>) -> Option<Came> {
        Some(match event {
            StateEvent::Connected => return None,
            StateEvent::Page { handle, head, token, rows, sources } => Came::FollowerEvent(
                handle,
                FollowerEvent::Page(Page::new(head, token, rows, sources)),
            ),
            StateEvent::Resync { handle, reason, token } => {
                Came::FollowerEvent(handle, FollowerEvent::Resync(reason, token.to_vec()))
            }
            StateEvent::Ended { handle, error } => {
                Came::FollowerEvent(handle, FollowerEvent::Ended(error.into()))
            }
            StateEvent::Session(event) if is_of_orders(&event) => Came::Event(event),
            StateEvent::Session(_) => return None,
        })
    }
}

/// Returns true if an event concerns orders, not the session.
fn is_of_orders(event: &SessionEvent) -> bool {
    !matches!(
        event,
        SessionEvent::Heartbeat(_)
            | SessionEvent::Repeated
            | SessionEvent::Challenged
            | SessionEvent::Opened { .. }
    )
}

impl Inbox {
    fn failure(&self) -> Option<Failure> {
        let closed = || self.is_closed.then(|| Failure::new("Closed", "the client was closed"));
        self.failed.clone().or_else(closed)
    }

    fn keep(&mut self, came: Came) {
        match came {
            Came::FollowerEvent(handle, told) => {
                if let Some(queue) = self.queues.get_mut(&handle) {
                    queue.push_back(told);
                }
            }
            Came::Event(event) => {
                if self.events.len() == EVENTS_MAX {
                    self.events.pop_front();
                    self.events_dropped += 1;
                }
                self.events.push_back(*event);
            }
        }
    }

    /// Returns the followers to put on hold, and those to release.
    fn hold_changes(&mut self) -> (Vec<u32>, Vec<u32>) {
        let is_full = |queue: &VecDeque<FollowerEvent>| queue.len() >= PAGES_MAX;
        let now: Vec<u32> = self
            .queues
            .iter()
            .filter(|(_, queue)| is_full(queue))
            .map(|(handle, _)| *handle)
            .collect();
        let before = std::mem::replace(&mut self.held, now);
        let full = self.held.iter().filter(|handle| !before.contains(handle)).copied().collect();
        let empty = before.into_iter().filter(|handle| !self.held.contains(handle)).collect();
        (full, empty)
    }
}

/// A session on a connection: order state, and the session's own orders.
#[pyclass(frozen, module = "weir._weir")]
pub struct Service {
    pub shared: Arc<Shared>,
}

#[pymethods]
impl Service {
    /// Connects at once, so that a wrong address or key is reported here.
    #[new]
    fn new(py: Python<'_>, endpoint: Endpoint) -> PyResult<Service> {
        let (target, session) = (endpoint.target()?, endpoint.session()?);
        let mut client = StateClient::new(target, session);
        let mut inbox = Inbox::default();
        let keep = &mut |event: StateEvent<'_>| {
            Came::of(event).into_iter().for_each(|came| inbox.keep(came))
        };
        py.detach(|| client.connect(keep)).map_err(Failure::from)?;
        inbox.connections = client.connection_count();
        let (io, inbox) = (Mutex::new(client), Mutex::new(inbox));
        let shared = Arc::new(Shared { io, inbox, changed: Condvar::new() });
        let kept = Arc::downgrade(&shared);
        let thread = std::thread::Builder::new().name("weir-client".to_owned());
        thread.spawn(move || keep_connection(&kept))?;
        Ok(Service { shared })
    }

    /// The number of connections so far.
    #[getter]
    fn connections(&self) -> u64 {
        lock(&self.shared.inbox).connections
    }

    /// The number of untaken events that were dropped.
    #[getter]
    fn events_dropped(&self) -> u64 {
        lock(&self.shared.inbox).events_dropped
    }

    /// The error that ended the last connection, returned once; None if there is none.
    fn take_failure(&self) -> Option<Py<PyAny>> {
        let lost = lock(&self.shared.inbox).lost.take()?;
        Python::attach(|py| Some(lost.raise().into_value(py).into_any()))
    }

    /// Logs out. Waiting threads get `Closed`.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            lock(&self.shared.inbox).is_closed = true;
            self.shared.changed.notify_all();
            // An error is ignored: the connection may be gone already.
            let _ = self.shared.io().close(FAREWELL);
        });
        Ok(())
    }
}
