//! The client's clocks, and waiting on sockets with a precision that open-loop load needs.
//!
//! Timeouts of `epoll` and `mio` are whole milliseconds and the kernel adds 50 µs of slack to a
//! thread's timers; both would show in every latency measured here. Hence `ppoll` with nanoseconds
//! and a timer slack of 1 ns. Nothing here spins unless asked to: on few cores a spinning client
//! steals the time that it measures.

use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_types::Nanos;

use crate::connection::Connection;
use crate::error::ClientError;

/// How a thread waits when it has nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitStrategy {
    /// Sleeps until bytes come or a time is due: for cores that others need too.
    #[default]
    Park,
    /// Gives its core away and looks again.
    Yield,
    /// Looks again at once: for a core of its own.
    Spin,
}

impl std::str::FromStr for WaitStrategy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "park" => Ok(WaitStrategy::Park),
            "yield" => Ok(WaitStrategy::Yield),
            "spin" => Ok(WaitStrategy::Spin),
            other => Err(format!("unknown wait strategy {other:?}: want park, yield or spin")),
        }
    }
}

impl std::fmt::Display for WaitStrategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            WaitStrategy::Park => "park",
            WaitStrategy::Yield => "yield",
            WaitStrategy::Spin => "spin",
        })
    }
}

/// A monotonic clock that starts at zero.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock { start: Instant::now() }
    }
}

impl Clock {
    /// Nanoseconds since the clock was made.
    #[must_use]
    pub fn now(&self) -> Nanos {
        nanos(self.start.elapsed())
    }
}

/// The wall clock: nanoseconds since the Unix epoch; zero for a clock set before it.
#[must_use]
pub fn unix_time() -> Nanos {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(Nanos(0), nanos)
}

/// A span as [`Nanos`]; the longest span is 584 years.
#[must_use]
pub fn nanos(span: Duration) -> Nanos {
    Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

/// Lets this thread's timers fire when they are due instead of up to 50 µs later. Where the system
/// refuses, timers stay coarse and the generator's lag, which is measured, shows it.
pub fn sharpen_timers() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Waits until one of `connections` can be read, or can be written and has bytes to send, or
/// `timeout` is over.
///
/// # Errors
/// [`ClientError::Io`]; an interrupted wait is no error.
pub fn wait<'a>(
    connections: impl IntoIterator<Item = &'a Connection>,
    timeout: Duration,
) -> Result<(), ClientError> {
    let mut more = false;
    let connections = connections.into_iter().inspect(|connection| more |= connection.has_more());
    let mut fds = fds_of(connections);
    poll_fds(&mut fds, if more { Duration::ZERO } else { timeout })
}

/// As [`wait`], also for a new connection to `listener`.
///
/// # Errors
/// As [`wait`].
pub fn wait_readable(
    listener: &impl AsFd,
    connections: &[Connection],
    timeout: Duration,
) -> Result<(), ClientError> {
    let mut fds = fds_of(connections);
    fds.push(PollFd::new(listener, PollFlags::IN));
    let more = connections.iter().any(Connection::has_more);
    poll_fds(&mut fds, if more { Duration::ZERO } else { timeout })
}

/// Waits until a socket can be read, or written where `writes`, or `timeout` is over.
///
/// # Errors
/// The system's; an interrupted wait is no error.
pub(crate) fn wait_for(fd: BorrowedFd<'_>, writes: bool, timeout: Duration) -> std::io::Result<()> {
    let out = if writes { PollFlags::OUT } else { PollFlags::empty() };
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN | out)];
    match poll(&mut fds, Some(&timespec(timeout))) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn timespec(timeout: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    }
}

fn fds_of<'a>(connections: impl IntoIterator<Item = &'a Connection>) -> Vec<PollFd<'a>> {
    connections
        .into_iter()
        .map(|connection| {
            let wants_out = connection.backlog_len() > 0;
            let out = if wants_out { PollFlags::OUT } else { PollFlags::empty() };
            PollFd::from_borrowed_fd(connection.as_fd(), PollFlags::IN | out)
        })
        .collect()
}

fn poll_fds(fds: &mut [PollFd<'_>], timeout: Duration) -> Result<(), ClientError> {
    match poll(fds, Some(&timespec(timeout))) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(ClientError::io("waiting for the node", error.into())),
    }
}
