//! The gateway's counters, including those of connections that have not logged on.

use crate::reason_counts::ReasonCounts;

/// The gateway's counters.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct GatewayCounters {
    /// Requests handed to partitions.
    pub requests: u64,
    /// Reports sent.
    pub reports: u64,
    /// Rejects sent without an event.
    pub rejects: u64,
    /// Unreadable messages.
    pub malformed: u64,
    /// Connections closed because their bytes were not frames.
    pub broken_streams: u64,
    /// The number of times that a full ring stopped a connection's reading.
    pub back_pressure: u64,
    /// The number of times that a session far beyond its rate stopped its connection's reading.
    pub held_to_rate: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections refused because the maximum was reached. They do not count as accepted.
    pub connections_refused: u64,
    /// Accepted connections closed at once: too many from their address had not logged on.
    pub address_refused: u64,
    /// Connections closed because they carried no session for too long.
    pub logon_timeouts: u64,
    /// Accepted connections that the node closed, for any reason.
    pub connections_cut: u64,
    /// Accepted connections that the peer closed, or that broke. The sum of these, those cut and
    /// the current ones is the number accepted.
    pub connections_gone: u64,
    /// Connections whose TLS data was altered in transit.
    pub tls_broken: u64,
    /// TLS connections that ended without `close_notify`.
    pub tls_truncated: u64,
    /// Logons refused.
    pub logons_refused: u64,
    /// API keys checked, valid or not.
    pub api_keys_checked: u64,
    /// Signatures of logons verified, valid or not.
    pub signatures_checked: u64,
    /// Challenges sent.
    pub challenges: u64,
    /// Sessions ended because their key expired or was replaced.
    pub keys_ended: u64,
    /// Requests refused because the session had the maximum of unanswered ones.
    pub in_flight_refused: u64,
    /// Requests that engines refused because the session exceeded its rate.
    pub throttled: u64,
    /// Connections closed for not reading.
    pub slow_consumers: u64,
    /// Sessions lost without a logout.
    pub sessions_lost: u64,
    /// Rejects sent without an event, by reason.
    pub rejects_by: ReasonCounts,
    /// Logons refused, by reason.
    pub logons_refused_by: ReasonCounts,
    /// Connections closed by the node, by reason.
    pub closed_by: ReasonCounts,
    /// Events that reported a refusal, or an unrequested end of an order, by reason.
    pub told_by: ReasonCounts,
    /// Copies of reports sent.
    pub copies: u64,
    /// Requests for copies refused, by reason.
    pub copies_refused: ReasonCounts,
    /// Streams of copies ended because they fell behind the retained records.
    pub copy_streams_cut: u64,
    /// Current streams of copies.
    pub copy_streams: u64,
    /// Current streams of copies that are behind.
    pub copy_streams_behind: u64,
    /// Current connections.
    pub connections: u64,
    /// Current sessions that are logged on.
    pub sessions: u64,
}

impl GatewayCounters {
    /// Returns the sums of both parts' counters.
    #[must_use]
    pub fn sum(&self, other: &GatewayCounters) -> GatewayCounters {
        let both = |of: fn(&GatewayCounters) -> u64| of(self) + of(other);
        GatewayCounters {
            requests: both(|c| c.requests),
            reports: both(|c| c.reports),
            rejects: both(|c| c.rejects),
            malformed: both(|c| c.malformed),
            broken_streams: both(|c| c.broken_streams),
            back_pressure: both(|c| c.back_pressure),
            held_to_rate: both(|c| c.held_to_rate),
            accepted: both(|c| c.accepted),
            connections_refused: both(|c| c.connections_refused),
            address_refused: both(|c| c.address_refused),
            logon_timeouts: both(|c| c.logon_timeouts),
            connections_cut: both(|c| c.connections_cut),
            connections_gone: both(|c| c.connections_gone),
            tls_broken: both(|c| c.tls_broken),
            tls_truncated: both(|c| c.tls_truncated),
            logons_refused: both(|c| c.logons_refused),
            api_keys_checked: both(|c| c.api_keys_checked),
            signatures_checked: both(|c| c.signatures_checked),
            challenges: both(|c| c.challenges),
            keys_ended: both(|c| c.keys_ended),
            in_flight_refused: both(|c| c.in_flight_refused),
            throttled: both(|c| c.throttled),
            slow_consumers: both(|c| c.slow_consumers),
            sessions_lost: both(|c| c.sessions_lost),
            rejects_by: self.rejects_by.sum(&other.rejects_by),
            logons_refused_by: self.logons_refused_by.sum(&other.logons_refused_by),
            closed_by: self.closed_by.sum(&other.closed_by),
            told_by: self.told_by.sum(&other.told_by),
            copies: both(|c| c.copies),
            copies_refused: self.copies_refused.sum(&other.copies_refused),
            copy_streams_cut: both(|c| c.copy_streams_cut),
            copy_streams: both(|c| c.copy_streams),
            copy_streams_behind: both(|c| c.copy_streams_behind),
            connections: both(|c| c.connections),
            sessions: both(|c| c.sessions),
        }
    }
}
