//! The publisher's counters, for the status page and Prometheus.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use weir_market::publish::Refusal;

use super::snapshots::{SnapshotFigures, SnapshotReport};

/// Counters that other threads read.
#[derive(Debug, Default)]
pub struct PublishFigures {
    /// Events read.
    pub events: AtomicU64,
    /// Packets sent, counted on each line.
    pub packets: AtomicU64,
    /// The bytes of those packets.
    pub bytes: AtomicU64,
    /// Packets that the system did not accept.
    pub unsent: AtomicU64,
    /// Requests answered.
    pub answered: AtomicU64,
    /// Messages retransmitted in answers.
    pub resent: AtomicU64,
    /// Requests refused, by reason.
    pub refused: [AtomicU64; Refusal::ALL.len()],
    /// The sequence number of the session's next message.
    pub next_sequence: AtomicU64,
    /// The oldest message of the session that can be requested.
    pub oldest: AtomicU64,
    /// Orders with a price or quantity that ITCH cannot represent.
    pub unsayable_orders: AtomicU64,
    /// True once all events from before the start are replayed and the publisher sends.
    pub is_live: AtomicBool,
    /// The snapshot server's counters, if there is one.
    pub(super) snapshots: Option<Arc<SnapshotFigures>>,
    market: Mutex<MarketNow>,
}

/// The published session and instruments, and the omitted ones.
#[derive(Clone, Debug, Default)]
pub(super) struct MarketNow {
    pub(super) session: String,
    pub(super) published: u64,
    /// Omitted instruments: number and reason.
    pub(super) left_out: Vec<(u32, String)>,
}

/// An instrument that is not published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The instrument.
    pub instrument: u32,
    /// The reason.
    pub why: String,
}

/// The publisher's section of the status page.
#[derive(Clone, Debug, Serialize)]
pub struct PublishReport {
    /// The address for requests.
    pub requests_address: String,
    /// The session's name.
    pub session: String,
    /// True once all events from before the start are replayed and the publisher sends.
    pub is_live: bool,
    /// The sequence number of the session's next message.
    pub next_sequence: u64,
    /// The oldest message of the session that can be requested.
    pub oldest: u64,
    /// Instruments published.
    pub published: u64,
    /// Instruments omitted, with reasons.
    pub left_out: Vec<LeftOut>,
    /// Orders with a price or quantity that ITCH cannot represent.
    pub unsayable_orders: u64,
    /// Events read.
    pub events: u64,
    /// Packets sent, counted on each line.
    pub packets: u64,
    /// The bytes of those packets.
    pub bytes: u64,
    /// Packets that the system did not accept.
    pub unsent: u64,
    /// Requests answered.
    pub answered: u64,
    /// Messages retransmitted in answers.
    pub resent: u64,
    /// Malformed requests.
    pub refused_malformed: u64,
    /// Requests for a session that is not retained.
    pub refused_session: u64,
    /// Requests for messages not sent yet.
    pub refused_not_yet: u64,
    /// Requests for messages no longer retained.
    pub refused_gone: u64,
    /// Requests over a requester's rate limit.
    pub refused_too_often: u64,
    /// The snapshot server; absent if there is none.
    pub snapshots: Option<SnapshotReport>,
}

impl PublishFigures {
    /// Creates zero counters, with those of the snapshot server if there is one.
    #[must_use]
    pub fn new(snapshots: Option<Arc<SnapshotFigures>>) -> PublishFigures {
        PublishFigures { snapshots, ..PublishFigures::default() }
    }

    /// The snapshot server's counters, if there is one.
    #[must_use]
    pub fn snapshots(&self) -> Option<&SnapshotFigures> {
        self.snapshots.as_deref()
    }

    pub(super) fn show(&self, market: MarketNow) {
        *self.market.lock().unwrap_or_else(PoisonError::into_inner) = market;
    }

    /// The report for the status page.
    #[must_use]
    pub fn report(&self, requests: SocketAddr) -> PublishReport {
        let load = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let refused = |refusal: Refusal| load(&self.refused[refusal.index()]);
        let market = self.market.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let left_out = market.left_out.into_iter();
        PublishReport {
            requests_address: requests.to_string(),
            session: market.session,
            is_live: self.is_live.load(Ordering::Relaxed),
            next_sequence: load(&self.next_sequence),
            oldest: load(&self.oldest),
            published: market.published,
            left_out: left_out.map(|(instrument, why)| LeftOut { instrument, why }).collect(),
            unsayable_orders: load(&self.unsayable_orders),
            events: load(&self.events),
            packets: load(&self.packets),
            bytes: load(&self.bytes),
            unsent: load(&self.unsent),
            answered: load(&self.answered),
            resent: load(&self.resent),
            refused_malformed: refused(Refusal::Malformed),
            refused_session: refused(Refusal::Session),
            refused_not_yet: refused(Refusal::NotYet),
            refused_gone: refused(Refusal::Gone),
            refused_too_often: refused(Refusal::TooOften),
            snapshots: self.snapshots().map(SnapshotFigures::report),
        }
    }
}

/// A metric of the publisher: name, help, kind, value.
pub type PublishMetric = (&'static str, &'static str, &'static str, fn(&PublishReport) -> u64);

/// The publisher's Prometheus metrics.
pub const METRICS: [PublishMetric; 27] = [
    ("weir_publish_live", "1 when it sends.", "gauge", |p| u64::from(p.is_live)),
    ("weir_publish_next_sequence", "The next message's number.", "gauge", |p| p.next_sequence),
    ("weir_publish_oldest", "The oldest message kept.", "gauge", |p| p.oldest),
    ("weir_publish_instruments", "Instruments published.", "gauge", |p| p.published),
    ("weir_publish_left_out", "Instruments left out.", "gauge", |p| p.left_out.len() as u64),
    ("weir_publish_unsayable_total", "Orders left out.", "counter", |p| p.unsayable_orders),
    ("weir_publish_events_total", "Events heard.", "counter", |p| p.events),
    ("weir_publish_packets_total", "Packets sent.", "counter", |p| p.packets),
    ("weir_publish_bytes_total", "Bytes sent.", "counter", |p| p.bytes),
    ("weir_publish_unsent_total", "Packets not taken.", "counter", |p| p.unsent),
    ("weir_publish_answered_total", "Requests answered.", "counter", |p| p.answered),
    ("weir_publish_resent_total", "Messages sent again.", "counter", |p| p.resent),
    ("weir_publish_malformed_total", "Requests that were none.", "counter", |p| {
        p.refused_malformed
    }),
    ("weir_publish_other_session_total", "Requests for no session kept.", "counter", |p| {
        p.refused_session
    }),
    ("weir_publish_not_yet_total", "Requests ahead of all.", "counter", |p| p.refused_not_yet),
    ("weir_publish_gone_total", "Requests for what is gone.", "counter", |p| p.refused_gone),
    ("weir_publish_too_often_total", "Requests too many.", "counter", |p| p.refused_too_often),
    ("weir_publish_snapshot_clients", "Clients of snapshots.", "gauge", |p| of(p, |s| s.clients)),
    ("weir_publish_snapshot_bytes", "The last snapshot.", "gauge", |p| of(p, |s| s.last_bytes)),
    ("weir_publish_snapshots_total", "Snapshots taken.", "counter", |p| of(p, |s| s.taken)),
    ("weir_publish_snapshot_served_total", "Clients that had all.", "counter", |p| {
        of(p, |s| s.served)
    }),
    ("weir_publish_snapshot_closed_total", "Clients that went before.", "counter", |p| {
        of(p, |s| s.closed)
    }),
    ("weir_publish_snapshot_slow_total", "Clients too slow.", "counter", |p| of(p, |s| s.slow)),
    ("weir_publish_snapshot_cut_total", "Snapshots of a session that ended.", "counter", |p| {
        of(p, |s| s.cut_off)
    }),
    ("weir_publish_snapshot_refused_total", "Logins and connections refused.", "counter", |p| {
        of(p, |s| s.refused_not_authorized + s.refused_session + s.refused_no_room)
    }),
    ("weir_publish_snapshot_malformed_total", "Clients that made no sense.", "counter", |p| {
        of(p, |s| s.malformed)
    }),
    ("weir_publish_snapshot_silent_total", "Clients that said nothing.", "counter", |p| {
        of(p, |s| s.silent)
    }),
];

/// A counter of the snapshot server; zero if there is none.
fn of(report: &PublishReport, figure: fn(&SnapshotReport) -> u64) -> u64 {
    report.snapshots.as_ref().map_or(0, figure)
}
