//! The snapshot server's counters, for the status page and Prometheus.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use serde::Serialize;
use weir_feed::soupbin::{Reject, SessionEnd};

use super::client::RemovalReason;

weir_runtime::figures! {
    /// The snapshot server's counters.
    #[derive(PartialEq, Eq)]
    pub struct SnapshotCounts in SnapshotCounters {
        /// True once all events from before the start are replayed and snapshots are served.
        flag is_live as "snapshot_live",
        /// Connected clients.
        gauge clients as "snapshot_clients",
        /// Snapshots taken; several clients may share one.
        counter taken as "snapshots_total",
        /// The size of the last snapshot.
        gauge last_bytes in bytes as "snapshot_bytes",
        /// Clients that left with a whole snapshot.
        counter served as "snapshot_served_total",
        /// Clients that left before they had the whole snapshot.
        counter closed as "snapshot_closed_total",
        /// Clients that did not read, or exceeded the time limit.
        counter slow as "snapshot_slow_total",
        /// Clients cut off because another session began.
        counter cut_off as "snapshot_cut_total",
        /// Logins refused for name or password.
        counter refused_not_authorized as "snapshot_refused_not_authorized_total",
        /// Logins refused because the session does not exist, or does not exist yet.
        counter refused_session as "snapshot_refused_session_total",
        /// Clients without a login whose place a newcomer took.
        counter displaced as "snapshot_displaced_total",
        /// Connections closed because the limit of clients, in all or of their host, was reached.
        counter refused_no_room as "snapshot_refused_no_room_total",
        /// Clients that sent an invalid packet, or one not allowed in its state.
        counter malformed as "snapshot_malformed_total",
        /// Clients that did not log in, or fell silent.
        counter silent as "snapshot_silent_total",
    }
}

impl SnapshotCounts {
    /// Returns the logins and connections refused, for any reason.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused_not_authorized + self.refused_session + self.refused_no_room
    }
}

/// Counters that other threads read.
#[derive(Debug)]
pub struct SnapshotFigures {
    address: SocketAddr,
    pub(super) counters: SnapshotCounters,
}

/// The snapshot server's section of the status page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SnapshotReport {
    /// The address of the server.
    pub address: String,
    /// The counters.
    #[serde(flatten)]
    pub counts: SnapshotCounts,
}

impl SnapshotFigures {
    /// Creates zero counters for a server at this address.
    #[must_use]
    pub fn new(address: SocketAddr) -> SnapshotFigures {
        SnapshotFigures { address, counters: SnapshotCounters::default() }
    }

    /// The address of the server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Counts a removed client.
    pub(super) fn note(&self, left: RemovalReason) {
        let counters = &self.counters;
        let figure = match left {
            RemovalReason::Served => &counters.served,
            RemovalReason::Closed => &counters.closed,
            RemovalReason::Slow => &counters.slow,
            RemovalReason::CutOff => &counters.cut_off,
            RemovalReason::Displaced => &counters.displaced,
            RemovalReason::NoRoom => &counters.refused_no_room,
            RemovalReason::Ended(SessionEnd::Refused(Reject::NotAuthorized)) => {
                &counters.refused_not_authorized
            }
            RemovalReason::Ended(SessionEnd::Refused(Reject::SessionNotAvailable)) => {
                &counters.refused_session
            }
            RemovalReason::Ended(SessionEnd::NoLogin | SessionEnd::Silence) => &counters.silent,
            RemovalReason::Ended(SessionEnd::Packet(_) | SessionEnd::OutOfPlace { .. }) => {
                &counters.malformed
            }
            RemovalReason::Ended(SessionEnd::LoggedOut) => &counters.closed,
        };
        figure.fetch_add(1, Ordering::Relaxed);
    }

    /// The report for the status page.
    #[must_use]
    pub fn report(&self) -> SnapshotReport {
        SnapshotReport { address: self.address.to_string(), counts: self.counters.report() }
    }
}
