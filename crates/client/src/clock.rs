//! The client's clocks, and waiting on sockets with the precision of open-loop load.
//!
//! Timeouts of `epoll` and `mio` are whole milliseconds and the kernel adds 50 µs of slack to a
//! thread's timers; both would show in every latency measured here. Hence `ppoll` with nanoseconds
//! and a timer slack of 1 ns. Nothing spins unless asked to: on few cores a spinning client takes
//! the time that it measures from the node.

use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, poll};
use weir_types::Nanos;

use crate::connection::Connection;
use crate::error::ClientError;
use crate::wait::timespec;

/// The action of a thread that has nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitStrategy {
    /// Sleeps until bytes come or a time is due: for shared cores.
    #[default]
    Park,
    /// Yields its core and checks again.
    Yield,
    /// Checks again at once: for a dedicated core.
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
    /// Returns the nanoseconds since the clock was created.
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

/// Converts a span to [`Nanos`]; the longest span is 584 years.
#[must_use]
pub fn nanos(span: Duration) -> Nanos {
    Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

/// Lets this thread's timers fire when they are due instead of up to 50 µs later. If the system
/// refuses, timers stay coarse, which shows in the measured lag of the generator.
pub fn sharpen_timers() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Waits until one of `connections` is readable, or is writable and has bytes to send, or `timeout`
/// has passed.
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

/// As [`wait`], and for a new connection to `listener`.
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
