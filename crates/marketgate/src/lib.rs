//! Market data at the edge: the sockets, files and clocks around the pure logic of `weir-market`.
//!
//! - [`udp`]: datagrams from sockets, one at a time or batched; [`Datagrams`] is the common
//!   interface of all sources.
//! - [`capture`]: reads captures and day files, and writes captures.
//! - [`receiver`]: turns a feed's sockets and captures into updates, with retransmission requests
//!   and snapshots.
//! - [`gateway`]: the market-data gateway, which serves a feed to subscribers.
//! - [`post`]: audits, bars and statistics of received data.
//! - [`publish`]: publishes the node's own market data.

pub mod capture;
pub mod gateway;
pub mod plant;
pub mod post;
pub mod publish;
pub mod receiver;
pub mod udp;

use std::io;

use weir_feed::capture::Datagram;

/// A source's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveCounts {
    /// Datagrams passed on.
    pub datagrams: u64,
    /// The bytes of those datagrams.
    pub bytes: u64,
    /// System calls that returned at least one datagram.
    pub calls: u64,
    /// Datagrams that the kernel dropped for lack of buffer space; `None` when it is not asked.
    pub kernel_drops: Option<u64>,
    /// Datagrams truncated because they exceeded the receive buffer.
    pub cut: u64,
}

/// A source of datagrams: a socket or a capture.
pub trait Datagrams {
    /// Passes all datagrams available at once to `take` and returns their number: zero if none
    /// arrived within the source's wait time.
    ///
    /// # Errors
    /// An I/O error of the operating system, or damage in a capture.
    fn receive(&mut self, take: &mut dyn FnMut(&Datagram<'_>)) -> io::Result<usize>;

    /// Returns the counters so far.
    fn counts(&self) -> ReceiveCounts;

    /// Returns true when no more datagrams will come.
    fn is_over(&self) -> bool {
        false
    }
}
