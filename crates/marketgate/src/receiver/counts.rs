//! What a receiver counts, as plain values for metrics. All of it only grows.

use std::net::SocketAddr;

use weir_feed::FeedError;
use weir_feed::line::{ChannelCounts, Line, State};
use weir_types::Nanos;

use super::output::ChannelKey;
use super::recovery::RecoveryError;
use super::stream::StreamError;
use super::super::ReceiveCounts;

/// What became of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeCounts {
    /// Messages, those of snapshots too.
    pub messages: u64,
    /// Updates that they came to.
    pub updates: u64,
    /// Descriptions of instruments that they came to.
    pub definitions: u64,
    /// Messages that were understood and came to neither: what they say is nothing to books.
    pub without_update: u64,
    /// Messages of a type that the feed's specification does not have.
    pub unknown_type: u64,
    /// Messages that are not as long as their type is.
    pub length: u64,
    /// Messages with a field whose value is not known.
    pub field: u64,
    /// Packets whose messages cannot be told apart from some place on.
    pub truncated: u64,
    /// Packets with bytes after their last message.
    pub trailing: u64,
    /// Datagrams whose header is not of the feed.
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

    /// Updates and descriptions.
    #[inline]
    pub(super) fn told(&self) -> u64 {
        self.updates + self.definitions
    }

    /// All that was not understood.
    #[must_use]
    pub fn refused(&self) -> u64 {
        let messages = self.unknown_type + self.length + self.field;
        messages + self.truncated + self.trailing + self.header
    }
}

/// What came on the socket of one line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketCounts {
    /// What the socket counts, those that the kernel had no room for too.
    pub received: ReceiveCounts,
    /// Datagrams that were not taken: from another sender than the line's, not of the feed, or of
    /// more channels than there may be.
    pub strangers: u64,
    /// Calls of the system that failed.
    pub errors: u64,
}

/// One line's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketStatus {
    /// Which line; [`Line::Retransmission`] for the socket that asks and is answered.
    pub line: Line,
    /// Where it listens.
    pub address: SocketAddr,
    /// What came on it.
    pub counts: SocketCounts,
    /// When something was last taken from it, by the clock of who polls.
    pub heard: Option<Nanos>,
}

/// What asking for lost messages came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Requests sent.
    pub sent: u64,
    /// Requests that the system did not send.
    pub unsent: u64,
}

/// What became of snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotCounts {
    /// Connections begun.
    pub attempts: u64,
    /// Snapshots that were joined.
    pub joined: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Messages of snapshots.
    pub messages: u64,
    /// Why the last one that failed did.
    pub last_error: Option<RecoveryError>,
}

/// What became of a connection that carries a feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Connections begun.
    pub attempts: u64,
    /// Logins accepted.
    pub logins: u64,
    /// Connections that were not made or ended.
    pub failed: u64,
    /// Messages.
    pub messages: u64,
    /// Why the last connection ended.
    pub last_error: Option<StreamError>,
}

/// A channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelStatus {
    /// Which.
    pub key: ChannelKey,
    /// What it is in.
    pub state: State,
    /// Nothing comes on any of its lines.
    pub is_silent: bool,
    /// Its session, once one was heard.
    pub session: Option<u64>,
    /// The number of the message that is handed on next.
    pub next: u64,
    /// Packets that wait.
    pub held: usize,
    /// What became of it, line by line too.
    pub counts: ChannelCounts,
}

/// What a capture came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureCounts {
    /// Datagrams taken.
    pub datagrams: u64,
    /// Datagrams that went to none of the lines.
    pub elsewhere: u64,
    /// Messages of a day file.
    pub messages: u64,
}
