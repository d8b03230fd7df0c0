//! The gateway's counters, including those of connections that have not logged on.

use crate::reason_counts::ReasonCounts;

weir_runtime::figures! {
    /// The gateway's counters. One thread owns them, so that counting is an addition.
    pub struct GatewayCounters {
        /// Requests handed to partitions.
        counter requests,
        /// Reports sent.
        counter reports,
        /// Requests to the thread that reads old events from files.
        counter history_requests,
        /// Rejects sent without an event.
        counter rejects,
        /// Unreadable messages.
        counter malformed,
        /// Connections closed because their bytes were not frames.
        counter broken_streams,
        /// The number of times that a full ring stopped a connection's reading.
        counter back_pressure,
        /// The number of times that a session far beyond its rate stopped its connection's reading.
        counter held_to_rate,
        /// Connections accepted.
        counter accepted,
        /// Connections refused because sessions have all places. They do not count as accepted.
        counter connections_refused,
        /// Connections without a session closed to make place for newcomers.
        counter strangers_evicted,
        /// Connections closed because they carried no session for too long.
        counter logon_timeouts,
        /// Accepted connections that the node closed, for any reason.
        counter connections_cut,
        /// Accepted connections that the peer closed, or that broke. The sum of these, those cut
        /// and the current ones is the number accepted.
        counter connections_closed_by_peer,
        /// Connections whose TLS data was altered in transit.
        counter tls_broken,
        /// TLS connections that ended without `close_notify`.
        counter tls_truncated,
        /// Logons refused.
        counter logons_refused,
        /// API keys checked, valid or not.
        counter api_keys_checked,
        /// Signatures of logons verified, valid or not.
        counter signatures_checked,
        /// Challenges sent.
        counter challenges,
        /// Sessions ended because their key expired or was replaced, or their rights changed.
        counter keys_ended,
        /// Sessions that a logon took over from another connection.
        counter sessions_taken_over,
        /// Requests refused because the session had the maximum of unanswered ones.
        counter in_flight_refused,
        /// Requests that engines refused because the session exceeded its rate.
        counter throttled,
        /// Connections closed for not reading.
        counter slow_consumers,
        /// Sessions lost without a logout.
        counter sessions_lost,
        /// Rejects sent without an event, by reason.
        counts rejects_by: ReasonCounts as "rejects_by_reason_total{reason}",
        /// Logons refused, by reason.
        counts logons_refused_by: ReasonCounts as "logons_refused_by_reason_total{reason}",
        /// Connections closed by the node, by reason.
        counts closed_by: ReasonCounts as "closed_by_reason_total{reason}",
        /// Events that reported a refusal, or an unrequested end of an order, by reason.
        counts engine_refusals: ReasonCounts as "engine_refusals_total{reason}",
        /// Copies of reports sent.
        counter copies,
        /// Requests for copies refused, by reason.
        counts copies_refused: ReasonCounts as "copies_refused_by_reason_total{reason}",
        /// Streams of copies ended because they fell behind the retained records.
        counter copy_streams_cut,
        /// Current streams of copies.
        gauge copy_streams,
        /// Current streams of copies that are behind.
        gauge copy_streams_behind,
        /// Current connections.
        gauge connections,
        /// Current sessions that are logged on.
        gauge sessions,
    }
}
