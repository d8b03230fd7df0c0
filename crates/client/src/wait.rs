//! Waiting on one descriptor, with nanoseconds.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Waits until a socket is readable, or writable if `writes` is set, or `timeout` has passed.
///
/// # Errors
/// Those of the system call; an interrupted wait is no error.
pub(crate) fn wait_for(fd: BorrowedFd<'_>, writes: bool, timeout: Duration) -> std::io::Result<()> {
    let out = if writes { PollFlags::OUT } else { PollFlags::empty() };
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN | out)];
    match poll(&mut fds, Some(&timespec(timeout))) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn timespec(timeout: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    }
}
