//! The snapshot server's counters, for the status page and Prometheus.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde::Serialize;
use weir_feed::soupbin::{Ending, Reject};

use super::client::Left;

/// Counters that other threads read.
#[derive(Debug)]
pub struct SnapshotFigures {
    address: SocketAddr,
    /// True once all events from before the start are replayed.
    pub(super) is_live: AtomicBool,
    /// Connected clients.
    pub(super) clients: AtomicU64,
    /// Snapshots taken; several clients may share one.
    pub(super) taken: AtomicU64,
    /// The size of the last snapshot in bytes.
    pub(super) len: AtomicU64,
    served: AtomicU64,
    closed: AtomicU64,
    slow: AtomicU64,
    cut_off: AtomicU64,
    not_authorized: AtomicU64,
    no_session: AtomicU64,
    no_room: AtomicU64,
    malformed: AtomicU64,
    silent: AtomicU64,
}

/// The snapshot server's section of the status page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SnapshotReport {
    /// The address of the server.
    pub address: String,
    /// True once all events from before the start are replayed and snapshots are served.
    pub is_live: bool,
    /// Connected clients.
    pub clients: u64,
    /// Snapshots taken; several clients may share one.
    pub taken: u64,
    /// The size of the last snapshot in bytes.
    pub last_bytes: u64,
    /// Clients that left with a whole snapshot.
    pub served: u64,
    /// Clients that left before they had the whole snapshot.
    pub closed: u64,
    /// Clients that did not read, or exceeded the time limit.
    pub slow: u64,
    /// Clients cut off because another session began.
    pub cut_off: u64,
    /// Logins refused for name or password.
    pub refused_not_authorized: u64,
    /// Logins refused because the session does not exist, or does not exist yet.
    pub refused_session: u64,
    /// Connections closed because the limit of clients was reached.
    pub refused_no_room: u64,
    /// Clients that sent an invalid packet, or one not allowed in its state.
    pub malformed: u64,
    /// Clients that did not log in, or fell silent.
    pub silent: u64,
}

impl SnapshotFigures {
    /// Creates zero counters for a server at this address.
    #[must_use]
    pub fn new(address: SocketAddr) -> SnapshotFigures {
        let zero = || AtomicU64::new(0);
        SnapshotFigures {
            address,
            is_live: AtomicBool::new(false),
            clients: zero(),
            taken: zero(),
            len: zero(),
            served: zero(),
            closed: zero(),
            slow: zero(),
            cut_off: zero(),
            not_authorized: zero(),
            no_session: zero(),
            no_room: zero(),
            malformed: zero(),
            silent: zero(),
        }
    }

    /// The address of the server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Counts a removed client.
    pub(super) fn note(&self, left: Left) {
        let figure = match left {
            Left::Served => &self.served,
            Left::Closed => &self.closed,
            Left::Slow => &self.slow,
            Left::CutOff => &self.cut_off,
            Left::NoRoom => &self.no_room,
            Left::Ended(Ending::Refused(Reject::NotAuthorized)) => &self.not_authorized,
            Left::Ended(Ending::Refused(Reject::SessionNotAvailable)) => &self.no_session,
            Left::Ended(Ending::NoLogin | Ending::Silence) => &self.silent,
            Left::Ended(Ending::Packet(_) | Ending::OutOfPlace { .. }) => &self.malformed,
            Left::Ended(Ending::LoggedOut) => &self.closed,
        };
        figure.fetch_add(1, Ordering::Relaxed);
    }

    /// The report for the status page.
    #[must_use]
    pub fn report(&self) -> SnapshotReport {
        let load = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        SnapshotReport {
            address: self.address.to_string(),
            is_live: self.is_live.load(Ordering::Relaxed),
            clients: load(&self.clients),
            taken: load(&self.taken),
            last_bytes: load(&self.len),
            served: load(&self.served),
            closed: load(&self.closed),
            slow: load(&self.slow),
            cut_off: load(&self.cut_off),
            refused_not_authorized: load(&self.not_authorized),
            refused_session: load(&self.no_session),
            refused_no_room: load(&self.no_room),
            malformed: load(&self.malformed),
            silent: load(&self.silent),
        }
    }
}
