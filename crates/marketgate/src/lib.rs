//! Market data at the edge: sockets, files and time for what `weir-market` decides.
//!
//! * [`udp`]: datagrams from sockets, one by one or many with one call; [`Datagrams`] is the form
//!   that all sources have.
//! * [`capture`]: datagrams from captures and messages from day files, and captures written.
//! * [`feeds`]: the feeds that tools and configurations can name.
//! * [`receiver`]: a feed's sockets and captures as updates, with requests and snapshots.
//! * [`post`]: what is kept of it: audits, bars, statistics.
//! * [`publish`]: the node's own market, sent.

pub mod capture;
pub mod feeds;
pub mod gateway;
pub mod post;
pub mod publish;
pub mod receiver;
pub mod udp;

use std::io;

use weir_feed::capture::Datagram;

/// What a source counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveCounts {
    /// Datagrams handed on.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Calls of the system that brought any.
    pub calls: u64,
    /// Datagrams that the kernel had no room for; `None` when it is not asked.
    pub kernel_drops: Option<u64>,
    /// Datagrams that were longer than the memory for one.
    pub cut: u64,
}

/// A source of datagrams: a socket or a capture.
pub trait Datagrams {
    /// Hands the next ones to `take`, as many as there are at once, and says how many: zero when
    /// none came in the time that the source waits.
    ///
    /// # Errors
    /// The system's, or what is wrong with a capture.
    fn receive(&mut self, take: &mut dyn FnMut(&Datagram<'_>)) -> io::Result<usize>;

    /// What was counted so far.
    fn counts(&self) -> ReceiveCounts;

    /// True when no more will come.
    fn is_over(&self) -> bool {
        false
    }
}
