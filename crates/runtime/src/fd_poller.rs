//! Rests a thread without sockets in `epoll`, because disks signal completion through descriptors.

use std::os::fd::RawFd;
use std::time::Duration;

use mio::unix::SourceFd;
use weir_io::net::{Events, Net, Poll, Token, Waker};
use weir_types::Nanos;

use crate::{Agent, Poller};

const WAKER: Token = Token(0);
const DISK: Token = Token(1);

/// A poll over disks' descriptors. Its events only end the rest.
pub struct FdPoller {
    poll: Poll,
    events: Events,
}

impl FdPoller {
    /// Returns a poll over these descriptors.
    ///
    /// # Errors
    /// When the operating system refuses the registration.
    pub fn new(fds: &[RawFd]) -> std::io::Result<FdPoller> {
        let poll = Net::System.poll()?;
        for fd in fds {
            poll.registry().register_other(&mut SourceFd(fd), DISK)?;
        }
        Ok(FdPoller { poll, events: Events::with_capacity(16) })
    }
}

impl Poller for FdPoller {
    fn poll(&mut self, timeout: Option<Duration>) {
        if let Err(error) = self.poll.poll(&mut self.events, timeout) {
            let interrupted = error.kind() == std::io::ErrorKind::Interrupted;
            assert!(interrupted, "the partition's poll failed: {error}");
        }
    }

    fn waker(&self) -> std::io::Result<Waker> {
        self.poll.waker(WAKER)
    }
}

impl Agent for FdPoller {
    fn name(&self) -> &'static str {
        "fd-poller"
    }

    fn do_work(&mut self, _now: Nanos) -> usize {
        0
    }

    fn next_deadline(&self, _now: Nanos) -> Option<Nanos> {
        None
    }
}
