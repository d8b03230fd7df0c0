//! A replica's figures, for the status page and Prometheus.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use weir_io::monotonic_now;
use weir_types::{Nanos, PartitionId, Seq};

use crate::stores::StoreReport;

weir_runtime::figures! {
    /// The state of the connection to the master.
    pub struct MasterReport in MasterFigures {
        /// True while a connection to the master is logged on.
        flag is_connected as "connected",
        /// Connections that were lost or could not be made.
        counter failures,
    }
}

/// Figures that other threads read.
#[derive(Debug, Default)]
pub struct ReplicaFigures {
    /// The connection to the master.
    pub master: MasterFigures,
    /// The sources.
    pub sources: Mutex<BTreeMap<PartitionId, FollowFigures>>,
}

/// The state of a followed source.
#[derive(Clone, Copy, Debug, Default)]
pub struct FollowFigures {
    /// The last ingested entry.
    pub position: u64,
    /// The master's last entry, as last reported.
    pub head_position: u64,
    /// The `seq` of the latest change here, and at the master.
    pub seqs: (Seq, Seq),
    /// The time at which the store last had all of the master's entries, by [`monotonic_now`].
    pub caught_up_at: Nanos,
    /// The time of the master's last message, by [`monotonic_now`].
    pub heard_at: Nanos,
    /// Entries ingested.
    pub entries: u64,
    /// Snapshots loaded.
    pub snapshots: u64,
    /// The number of times that an entry waited because the store was full.
    pub full_waits: u64,
    /// True when there is a complete store.
    pub is_whole: bool,
    /// The store's figures.
    pub store: StoreReport,
}

/// Replicas on the status page.
#[derive(Clone, Debug, Serialize)]
pub struct ReplicaReport {
    /// The connection to the master.
    #[serde(flatten)]
    pub master: MasterReport,
    /// The sources.
    pub sources: Vec<FollowReport>,
}

weir_runtime::figures! {
    /// A followed source on the status page.
    pub struct FollowReport {
        /// The last ingested entry.
        gauge position,
        /// The master's last entry, as last reported.
        gauge head_position,
        /// Entries that the master has and this node does not.
        gauge lag_entries,
        /// The distance in `seq` to the master's latest change: for a source that numbers each
        /// change, the number of rows.
        gauge lag_seq,
        /// The time since the store last had all of the master's entries; 0 while it has.
        gauge lag_ms in milliseconds,
        /// Entries ingested.
        counter entries,
        /// Snapshots loaded.
        counter snapshots,
        /// The number of times that an entry waited because the store was full.
        counter full_waits,
        /// True when there is a complete store.
        flag is_whole as "whole",
    } and {
        /// The source's number.
        pub source: u16,
        /// The store's figures.
        #[serde(flatten)]
        pub store: StoreReport,
    }
}

/// The silence of the master in nanoseconds after which a replica counts as behind.
const SILENCE_MAX: u64 = 1_000_000_000;

impl FollowFigures {
    fn report(&self, source: PartitionId, now: Nanos) -> FollowReport {
        let is_even = self.is_whole
            && self.position == self.head_position
            && now.0.saturating_sub(self.heard_at.0) < SILENCE_MAX;
        let lag = if is_even { 0 } else { now.0.saturating_sub(self.caught_up_at.0) };
        FollowReport {
            source: source.0,
            position: self.position,
            head_position: self.head_position,
            lag_entries: self.head_position.saturating_sub(self.position),
            lag_seq: self.seqs.1.0.saturating_sub(self.seqs.0.0),
            lag_ms: lag / 1_000_000,
            entries: self.entries,
            snapshots: self.snapshots,
            full_waits: self.full_waits,
            is_whole: self.is_whole,
            store: self.store,
        }
    }
}

impl ReplicaFigures {
    /// Returns the current figures.
    #[must_use]
    pub fn report(&self) -> ReplicaReport {
        let now = monotonic_now();
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        ReplicaReport {
            master: self.master.report(),
            sources: sources.iter().map(|(source, of)| of.report(*source, now)).collect(),
        }
    }
}
