//! An eventfd that a finished operation writes and a parked duty cycle waits on.
//!
//! The cycle registers the descriptor with its poller (epoll, mio's `SourceFd`), parks, and calls
//! [`WakeFd::drain`] when it is readable. A wake-up may be spurious and may stand for several
//! completions; none is lost.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// What a disk calls when an operation has finished; runs on the disk's thread and must not block.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// A shared, non-blocking eventfd. Clones are the same descriptor.
#[derive(Clone, Debug)]
pub struct WakeFd {
    fd: Arc<OwnedFd>,
}

impl WakeFd {
    /// A descriptor that is not yet signalled.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> std::io::Result<WakeFd> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(WakeFd { fd: Arc::new(fd) })
    }

    /// Signals it.
    pub fn wake(&self) {
        // The only failure is a counter at its maximum: signalled already.
        let _ = rustix::io::write(&*self.fd, &1u64.to_ne_bytes());
    }

    /// Takes all signals back; true when there was one.
    #[must_use]
    pub fn drain(&self) -> bool {
        let mut count = [0u8; 8];
        rustix::io::read(&*self.fd, &mut count).is_ok()
    }

    /// A waker that signals it.
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
