//! Counters of lines and channels. They only grow, except for a line's lost messages.

/// Counters of one line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// Packets, including heartbeats.
    pub packets: u64,
    /// Packets without messages.
    pub heartbeats: u64,
    /// Bytes of messages.
    pub bytes: u64,
    /// Messages that arrived first on this line.
    pub first: u64,
    /// Messages that had arrived before.
    pub duplicate: u64,
    /// Messages that arrived after they were given up.
    pub late: u64,
    /// Messages that the line skipped and has not delivered since. One that is more than some 4,000
    /// messages late stays counted as lost.
    pub lost: u64,
}

/// Counters of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelCounts {
    /// Counters of the lines, in the order of [`Line::ALL`](super::Line::ALL).
    pub lines: [LineCounts; 3],
    /// Messages delivered.
    pub delivered: u64,
    /// Messages given up.
    pub lost: u64,
    /// Gaps detected.
    pub gaps: u64,
    /// Gaps filled.
    pub gaps_filled: u64,
    /// Gaps given up.
    pub gaps_given_up: u64,
    /// Retransmission requests.
    pub requests: u64,
    /// Requests that repeat an earlier one.
    pub retries: u64,
    /// Packets held.
    pub held: u64,
    /// The largest number of packets held at a time.
    pub held_peak: u32,
    /// Packets dropped unread during recovery for lack of room.
    pub dropped: u64,
    /// Snapshots joined.
    pub recoveries: u64,
    /// Sessions followed, and restarts within one.
    pub sessions: u64,
    /// Restarts: times that numbers began anew within a session.
    pub restarts: u64,
    /// Packets of a past session, or sent before a restart.
    pub old_session_packets: u64,
    /// Packets that contradict the numbers, times or contents of those before them.
    pub contradictions: u64,
    /// Retransmissions of another session.
    pub foreign_packets: u64,
    /// Packets with invalid sequence numbers.
    pub malformed_packets: u64,
}

impl ChannelCounts {
    /// Messages that came again on a line, with numbers that had been delivered or given up.
    #[must_use]
    pub fn repeated(&self) -> u64 {
        let of_line = |line: &LineCounts| line.duplicate.saturating_add(line.late);
        self.lines.iter().map(of_line).fold(0, u64::saturating_add)
    }
}
