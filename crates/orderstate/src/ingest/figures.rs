//! The figures of ingest and of its sources, for the status page and Prometheus.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use weir_door::{DoorFigures, DoorReport};

use crate::stores::StoreReport;

weir_runtime::figures! {
    /// The counters of batches on their way to the stores.
    pub struct IngestCounts in IngestCounters {
        /// Openings and batches refused.
        counter refused,
        /// The size of the batches handed to the stores.
        counter batch_bytes in bytes,
    }
}

/// Figures that other threads read.
#[derive(Debug, Default)]
pub struct IngestFigures {
    /// The counters of the listener.
    pub door: Arc<DoorFigures>,
    /// The counters of the batches.
    pub batches: IngestCounters,
    /// The sources, in the order of their numbers.
    pub sources: Mutex<Vec<SourceReport>>,
}

/// Ingest on the status page.
#[derive(Clone, Debug, Serialize)]
pub struct IngestReport {
    /// The address of the listener.
    pub address: String,
    /// The counters of the listener.
    #[serde(flatten)]
    pub door: DoorReport,
    /// The counters of the batches.
    #[serde(flatten)]
    pub batches: IngestCounts,
    /// The sources.
    pub sources: Vec<SourceReport>,
}

weir_runtime::figures! {
    /// A source on the status page.
    pub struct SourceReport {
        /// The number of the next expected batch.
        gauge next_batch_no,
        /// True while a core feeds it.
        flag is_open as "open",
        /// True if its store has all orders.
        flag is_whole as "whole",
        /// True from a failure of the source until its core has sent all again.
        flag is_quarantined as "quarantined",
        /// Replicas that follow it.
        gauge followers,
        /// The oldest position of its log; 0 without a log.
        gauge log_first,
        /// The newest position of its log.
        gauge log_last,
        /// The newest committed position of its log.
        gauge log_committed,
        /// True when the log's disk is full.
        flag is_log_full as "log_full",
        /// The number of times that it was opened.
        counter opened,
        /// Batches ingested.
        counter batches,
        /// Rows ingested.
        counter rows,
        /// Duplicate batches.
        counter duplicates,
        /// Gaps reported to cores.
        counter gaps,
        /// Batches that came too early and were dropped.
        counter early_batches,
        /// Openings and batches refused.
        counter rejects,
        /// Complete full resends.
        counter resends,
        /// Records deleted because a full resend lacked them.
        counter swept,
    } and {
        /// The source.
        pub source: u16,
        /// The failure of a quarantined source.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub failure: Option<String>,
        /// Its epoch; 0 before its first opening.
        pub epoch: u32,
        /// The durability of an acknowledged batch: `memory`, `os` or `disk`.
        pub level: &'static str,
        /// Its store's figures.
        #[serde(flatten)]
        pub store: StoreReport,
    }
}

impl IngestFigures {
    /// Returns the current figures.
    #[must_use]
    pub fn report(&self, address: std::net::SocketAddr) -> IngestReport {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        IngestReport {
            address: address.to_string(),
            door: self.door.report(),
            batches: self.batches.report(),
            sources: sources.clone(),
        }
    }
}
