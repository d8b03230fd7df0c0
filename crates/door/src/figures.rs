//! The counters of a door: the same for every listener, on the status page and for Prometheus.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;

weir_runtime::figures! {
    /// A door's counters at a time.
    #[derive(Copy, PartialEq, Eq, Deserialize)]
    #[serde(default)]
    pub struct DoorReport in DoorFigures {
        /// Open connections.
        gauge connections,
        /// Sessions logged on.
        gauge sessions,
        /// Connections accepted.
        counter accepted,
        /// Connections refused because sessions have all places, or the door does not serve. They
        /// are not accepted ones.
        counter connections_refused,
        /// Connections without a session closed to make place for newcomers.
        counter strangers_evicted,
        /// Logons refused.
        counter logons_refused,
        /// Connections closed because they did not log on in time.
        counter logon_timeouts,
        /// Messages that could not be decoded or have no place at the door.
        counter malformed,
        /// Connections that the node ended.
        counter ended,
        /// Sessions ended because their key expired or was replaced, or their rights changed.
        counter keys_ended,
        /// Connections ended because another one took their session over.
        counter sessions_taken_over,
        /// Connections ended because they did not read their data.
        counter slow_consumers,
        /// Times that a frame had to wait for room where it goes.
        counter back_pressure,
        /// Connections with TLS that ended without its close notification.
        counter tls_truncated,
        /// Connections with TLS whose bytes were altered in transit.
        counter tls_broken,
    }
}

/// Adds to a counter that one thread writes.
pub fn add(figure: &AtomicU64, count: u64) {
    figure.fetch_add(count, Ordering::Relaxed);
}
