//! An eventfd that a finished operation signals and a parked duty cycle waits on.
//!
//! The cycle registers the descriptor with its poller (epoll, mio's `SourceFd`), parks, and calls
//! [`WakeFd::drain`] when it is readable. A wake-up may be spurious and may stand for several
//! completions; none is lost.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// The callback of a disk for each finished operation. It runs on the disk's thread and must not
/// block.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// A shared, non-blocking eventfd. Clones share the descriptor.
#[derive(Clone, Debug)]
pub struct WakeFd {
    fd: Arc<OwnedFd>,
}

impl WakeFd {
    /// Creates a descriptor that is not signalled.
    ///
    /// # Errors
    /// Returns the system's error when the process has no descriptor left.
    pub fn new() -> std::io::Result<WakeFd> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(WakeFd { fd: Arc::new(fd) })
    }

    /// Signals the descriptor.
    pub fn wake(&self) {
        // The only failure is a counter at its maximum: signalled already.
        let _ = rustix::io::write(&*self.fd, &1u64.to_ne_bytes());
    }

    /// Clears all signals; returns true when there was one.
    #[must_use]
    pub fn drain(&self) -> bool {
        let mut count = [0u8; 8];
        rustix::io::read(&*self.fd, &mut count).is_ok()
    }

    /// Returns a waker that signals this descriptor.
    #[must_use]
    pub fn waker(&self) -> Waker {
        let own = self.clone();
        Arc::new(move || own.wake())
    }
}

impl AsFd for WakeFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for WakeFd {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_add_up_and_are_taken_at_once() {
        let wake = WakeFd::new().unwrap();
        assert!(!wake.drain());
        wake.wake();
        wake.waker()();
        assert!(wake.drain());
        assert!(!wake.drain());
    }
}
