//! What the snapshot server counts, for the status page and Prometheus.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde::Serialize;
use weir_feed::soupbin::{Ending, Reject};

use super::client::Left;

/// Figures that other threads read.
#[derive(Debug)]
pub struct SnapshotFigures {
    address: SocketAddr,
    /// Whether all of before the start was heard.
    pub(super) is_live: AtomicBool,
    /// Clients now.
    pub(super) clients: AtomicU64,
    /// Snapshots taken; several clients may have had one.
    pub(super) taken: AtomicU64,
    /// Bytes of the last one.
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

/// The snapshot server on the status page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SnapshotReport {
    /// Where clients connect.
    pub address: String,
    /// Whether all of before the start was heard, and snapshots are served.
    pub is_live: bool,
    /// Clients now.
    pub clients: u64,
    /// Snapshots taken; several clients may have had one.
    pub taken: u64,
    /// Bytes of the last one.
    pub last_bytes: u64,
    /// Clients that had all and went.
    pub served: u64,
    /// Clients that went before they had all.
    pub closed: u64,
    /// Clients that did not read, or took too long.
    pub slow: u64,
    /// Clients that got none since another session began.
    pub cut_off: u64,
    /// Logins refused by name or password.
    pub refused_not_authorized: u64,
    /// Logins refused since there is no such session, or none yet.
    pub refused_session: u64,
    /// Connections closed since there were as many clients as there may be.
    pub refused_no_room: u64,
    /// Clients that said what is no packet, or one that may not come.
    pub malformed: u64,
    /// Clients that did not log in, or said nothing any more.
    pub silent: u64,
}

impl SnapshotFigures {
    /// Of a server at this address.
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

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A client is gone.
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

    /// For the status page.
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
