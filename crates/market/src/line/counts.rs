//! What lines and channels count. All of it only grows, but for a line's lost messages.

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
    /// Messages that the line jumped over and that did not come on it since; what comes more than
    /// some 4,000 messages late counts as lost.
    pub lost: u64,
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
