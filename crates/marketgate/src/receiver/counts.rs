//! A receiver's counters, as plain values for metrics. They only increase.

use std::net::SocketAddr;

use weir_feed::FeedError;
use weir_feed::line::{ChannelCounts, Line, State};
use weir_types::Nanos;

use super::super::ReceiveCounts;
use super::output::ChannelKey;
use super::recovery::RecoveryError;
use super::stream::StreamError;

/// Counters of decoded messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeCounts {
    /// Messages, including those of snapshots.
    pub messages: u64,
    /// Updates decoded from them.
    pub updates: u64,
    /// Definitions of instruments decoded from them.
    pub definitions: u64,
    /// Messages decoded to neither an update nor a definition: books do not need them.
    pub without_update: u64,
    /// Messages of a type that is not in the feed's specification.
    pub unknown_type: u64,
    /// Messages whose length does not match their type.
    pub length: u64,
    /// Messages with a field of an unknown value.
    pub field: u64,
    /// Packets that cannot be split into messages to their end.
    pub truncated: u64,
    /// Packets with bytes after their last message.
    pub trailing: u64,
    /// Datagrams without a valid header of the feed.
    pub header: u64,
}

impl DecodeCounts {
    pub(super) fn note(&mut self, error: &FeedError) {
        let count = match error {
            FeedError::UnknownType { .. } => &mut self.unknown_type,
            FeedError::Length { .. } => &mut self.length,
            FeedError::Field { .. } => &mut self.field,
            FeedError::Truncated { .. } => &mut self.truncated,
            FeedError::Trailing { .. } => &mut self.trailing,
            FeedError::ShortPacket { .. } | FeedError::Header { .. } => &mut self.header,
        };
        *count += 1;
    }

    /// Updates and definitions.
    #[inline]
    pub(super) fn told(&self) -> u64 {
        self.updates + self.definitions
    }

    /// All decoding errors.
    #[must_use]
    pub fn refused(&self) -> u64 {
        let messages = self.unknown_type + self.length + self.field;
        messages + self.truncated + self.trailing + self.header
    }
}

/// Counters of one line's socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketCounts {
    /// The socket's own counters, including datagrams dropped by the kernel.
    pub received: ReceiveCounts,
    /// Datagrams refused: from another sender than the line's, not of the feed, or beyond the limit
    /// of channels.
    pub strangers: u64,
    /// System calls that failed.
    pub errors: u64,
}

/// The status of one line's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketStatus {
    /// The line; [`Line::Retransmission`] for the socket of requests and answers.
    pub line: Line,
    /// The local address.
    pub address: SocketAddr,
    /// The counters.
    pub counts: SocketCounts,
    /// The time of the last datagram, by the poller's clock, which never steps.
    pub heard: Option<Nanos>,
}

/// Counters of retransmission requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Requests sent.
    pub sent: u64,
    /// Requests that the system did not accept.
    pub unsent: u64,
}

/// Counters of snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotCounts {
    /// Connections attempted.
    pub attempts: u64,
    /// Snapshots joined with the lines.
    pub joined: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Messages of snapshots.
    pub messages: u64,
    /// The error of the last failed attempt.
    pub last_error: Option<RecoveryError>,
}

/// Counters of a connection that carries a feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Connections attempted.
    pub attempts: u64,
    /// Logins accepted.
    pub logins: u64,
    /// Connections that failed or ended.
    pub failed: u64,
    /// Messages received.
    pub messages: u64,
    /// The reason the last connection ended.
    pub last_error: Option<StreamError>,
}

/// The status of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelStatus {
    /// The channel.
    pub key: ChannelKey,
    /// The channel's state.
    pub state: State,
    /// True while none of its lines receives anything.
    pub is_silent: bool,
    /// The session, once one was received.
    pub session: Option<u64>,
    /// The sequence number of the next message to deliver.
    pub next: u64,
    /// The number of packets held back.
    pub held: usize,
    /// The channel's counters, including those of each line.
    pub counts: ChannelCounts,
}

/// Counters of a file as the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureCounts {
    /// Datagrams taken.
    pub datagrams: u64,
    /// Datagrams that belong to none of the lines.
    pub elsewhere: u64,
    /// Messages taken from a day file.
    pub messages: u64,
}
