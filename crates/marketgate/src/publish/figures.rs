//! The publisher's counters, for the status page and Prometheus.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use weir_market::publish::Refusal;
use weir_runtime::figures::{Kind, MetricsPage};
use weir_types::PartitionId;

use super::snapshots::{SnapshotFigures, SnapshotReport};

weir_runtime::figures! {
    /// The publisher's counters.
    pub struct PublishCounts in PublishCounters {
        /// True once all events from before the start are replayed and the publisher sends.
        flag is_live as "live",
        /// The sequence number of the session's next message.
        gauge next_sequence,
        /// The oldest message of the session that can be requested.
        gauge oldest,
        /// Instruments published.
        gauge published as "instruments",
        /// Orders with a price or quantity that ITCH cannot represent.
        counter unsayable_orders as "unsayable_total",
        /// The newest event of the last checkpoint.
        gauge checkpoint_event,
        /// Checkpoints that could not be written.
        counter checkpoint_failures,
        /// Events read.
        counter events,
        /// Packets sent, counted on each line.
        counter packets,
        /// The size of those packets.
        counter bytes in bytes,
        /// Packets that the system did not accept.
        counter unsent,
        /// Requests answered.
        counter answered,
        /// Messages retransmitted in answers.
        counter resent,
        /// Malformed requests.
        counter refused_malformed as "malformed_total",
        /// Requests for a session that is not retained.
        counter refused_session as "other_session_total",
        /// Requests for messages not sent yet.
        counter refused_not_yet as "not_yet_total",
        /// Requests for messages no longer retained.
        counter refused_gone as "gone_total",
        /// Requests over a requester's rate limit.
        counter refused_too_often as "too_often_total",
    }
}

impl PublishCounters {
    /// Returns the counter of requests refused for a reason.
    #[must_use]
    pub fn refused(&self, refusal: Refusal) -> &AtomicU64 {
        match refusal {
            Refusal::Malformed => &self.refused_malformed,
            Refusal::Session => &self.refused_session,
            Refusal::NotYet => &self.refused_not_yet,
            Refusal::Gone => &self.refused_gone,
            Refusal::TooOften => &self.refused_too_often,
        }
    }
}

/// Figures that other threads read.
#[derive(Debug, Default)]
pub struct PublishFigures {
    /// The counters.
    pub counters: PublishCounters,
    /// The snapshot server's counters, if there is one.
    pub(super) snapshots: Option<Arc<SnapshotFigures>>,
    market: Mutex<PublishedMarket>,
}

/// The published session and its omitted instruments.
#[derive(Clone, Debug, Default)]
pub(super) struct PublishedMarket {
    pub(super) session: String,
    /// Omitted instruments: number and reason.
    pub(super) left_out: Vec<(u32, String)>,
}

/// An instrument that is not published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OmittedInstrument {
    /// The instrument.
    pub instrument: u32,
    /// The reason.
    pub why: String,
}

/// A channel's section of the status page.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PublishReport {
    /// The partition whose market it publishes.
    pub partition: u16,
    /// The address for requests.
    pub requests_address: String,
    /// The session's name.
    pub session: String,
    /// The counters.
    #[serde(flatten)]
    pub counts: PublishCounts,
    /// Instruments omitted, with reasons.
    pub left_out: Vec<OmittedInstrument>,
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

    pub(super) fn show(&self, market: PublishedMarket) {
        *self.market.lock().unwrap_or_else(PoisonError::into_inner) = market;
    }

    /// The report for the status page, of a partition's channel with this address for requests.
    #[must_use]
    pub fn report(&self, partition_id: PartitionId, requests: SocketAddr) -> PublishReport {
        let market = self.market.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let left_out = market.left_out.into_iter();
        PublishReport {
            partition: partition_id.0,
            requests_address: requests.to_string(),
            session: market.session,
            counts: self.counters.report(),
            left_out: left_out
                .map(|(instrument, why)| OmittedInstrument { instrument, why })
                .collect(),
            snapshots: self.snapshots().map(SnapshotFigures::report),
        }
    }
}

impl PublishReport {
    /// Writes the metrics of all channels.
    pub fn put_metrics(channels: &[PublishReport], page: &mut MetricsPage) {
        let label = |channel: &PublishReport| format!("partition=\"{}\"", channel.partition);
        let counts: Vec<_> = channels.iter().map(|one| (label(one), &one.counts)).collect();
        page.put_rows("weir_publish", &counts);
        if channels.is_empty() {
            return;
        }
        let left_out = channels.iter().map(|one| (label(one), one.left_out.len() as u64));
        let name = "weir_publish_left_out";
        let help = "Instruments that ITCH cannot represent.";
        page.put_derived(name, Kind::Gauge, help, &left_out.collect::<Vec<_>>());
        let served = channels.iter().filter_map(|one| Some((label(one), one.snapshots.as_ref()?)));
        let served: Vec<_> = served.map(|(label, server)| (label, &server.counts)).collect();
        page.put_rows("weir_publish", &served);
        let refused = served.iter().map(|(label, counts)| (label.clone(), counts.refused()));
        let name = "weir_publish_snapshot_refused_total";
        let help = "Logins and connections for snapshots refused, for any reason.";
        page.put_derived(name, Kind::Counter, help, &refused.collect::<Vec<_>>());
    }
}
