//! What lines and channels count; all of it only grows.

/// What came on one line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// Packets, heartbeats too.
    pub packets: u64,
    /// Packets without messages.
    pub heartbeats: u64,
    /// Bytes of messages.
    pub bytes: u64,
    /// Messages that came here first.
    pub first: u64,
    /// Messages that had come before.
    pub duplicate: u64,
    /// Messages that came after they were given up.
    pub late: u64,
    /// Messages that the line jumped over.
    pub skipped: u64,
    /// Messages that came after one with a higher number on this line: what was jumped over and
    /// came later, or was sent twice.
    pub behind: u64,
}

impl LineCounts {
    /// Messages that did not come on this line, as far as that can be told.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.skipped.saturating_sub(self.behind)
    }
}

/// What became of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelCounts {
    /// By [`Line::ALL`](super::Line::ALL)'s order.
    pub lines: [LineCounts; 3],
    /// Messages handed on.
    pub delivered: u64,
    /// Messages given up.
    pub lost: u64,
    /// Holes noticed.
    pub gaps: u64,
    /// Holes filled.
    pub gaps_filled: u64,
    /// Holes given up.
    pub gaps_given_up: u64,
    /// Requests.
    pub requests: u64,
    /// Requests for what was asked for before.
    pub retries: u64,
    /// Packets that had to wait.
    pub held: u64,
    /// Most packets that waited at once.
    pub held_peak: u32,
    /// Packets that were thrown away unread while a snapshot was under way, for want of room.
    pub dropped: u64,
    /// Snapshots joined.
    pub recoveries: u64,
    /// Sessions heard.
    pub sessions: u64,
    /// Packets of a session that is over.
    pub old_session_packets: u64,
    /// Answers of another session.
    pub foreign_packets: u64,
    /// Packets whose numbers make no sense.
    pub malformed_packets: u64,
}
