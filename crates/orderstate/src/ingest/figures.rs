//! The figures of ingest and of its sources, for the status page and Prometheus.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde::Serialize;
use weir_delivery::stream::StreamCounters;
use weir_door::{DoorFigures, DoorReport};
use weir_runtime::Metric;
use weir_types::{AckLevel, BatchNo, Epoch, PartitionId, Position};

use crate::stores::{StoreFigures, StoreReport};

/// Figures that other threads read.
#[derive(Debug, Default)]
pub struct IngestFigures {
    /// The counters of the listener.
    pub door: Arc<DoorFigures>,
    /// Openings and batches refused.
    pub refused: AtomicU64,
    /// Bytes of batches handed to the store.
    pub batch_bytes: AtomicU64,
    /// The sources.
    pub sources: Mutex<BTreeMap<PartitionId, SourceFigures>>,
}

/// The state of a source.
#[derive(Clone, Copy, Debug)]
pub struct SourceFigures {
    /// Its epoch; none before it was first opened.
    pub epoch: Epoch,
    /// The number of the batch that is taken next.
    pub next_batch_no: BatchNo,
    /// True if a core feeds it.
    pub is_open: bool,
    /// True if its store has all orders.
    pub is_whole: bool,
    /// The durability of an acknowledged batch.
    pub level: AckLevel,
    /// Replicas that follow it.
    pub followers: usize,
    /// The oldest, the newest and the newest committed position of its log, if it has one.
    pub log: Option<(Position, Position, Position)>,
    /// True if the log's disk has no room.
    pub is_log_full: bool,
    /// Its store.
    pub store: StoreFigures,
    /// The counters of its stream.
    pub counters: StreamCounters,
}

/// Ingest on the status page.
#[derive(Clone, Debug, Serialize)]
pub struct IngestReport {
    /// The address of the listener.
    pub address: String,
    /// The counters of the listener.
    #[serde(flatten)]
    pub door: DoorReport,
    /// Openings and batches refused.
    pub refused: u64,
    /// Bytes of batches handed to the store.
    pub batch_bytes: u64,
    /// The sources.
    pub sources: Vec<SourceReport>,
}

/// A source on the status page.
#[derive(Clone, Debug, Serialize)]
pub struct SourceReport {
    /// The source.
    pub source: u16,
    /// Its epoch; 0 before it was first opened.
    pub epoch: u32,
    /// The number of the batch that is taken next.
    pub next_batch_no: u64,
    /// True if a core feeds it.
    pub is_open: bool,
    /// True if its store has all orders.
    pub is_whole: bool,
    /// The durability of an acknowledged batch: `memory`, `os` or `disk`.
    pub level: &'static str,
    /// Replicas that follow it.
    pub followers: usize,
    /// The oldest position of its log; 0 without a log.
    pub log_first: u64,
    /// The newest.
    pub log_last: u64,
    /// The newest that is committed.
    pub log_committed: u64,
    /// True if the log's disk has no room.
    pub is_log_full: bool,
    /// Its store.
    #[serde(flatten)]
    pub store: StoreReport,
    /// Times that it was opened.
    pub opened: u64,
    /// Batches taken in.
    pub batches: u64,
    /// Rows taken in.
    pub rows: u64,
    /// Batches that came again.
    pub duplicates: u64,
    /// Gaps reported to cores.
    pub gaps: u64,
    /// Batches that came too early and were dropped.
    pub early: u64,
    /// Openings and batches refused.
    pub rejects: u64,
    /// Complete full resends.
    pub resends: u64,
    /// Records that full resends left out.
    pub swept: u64,
}

impl IngestFigures {
    /// The figures now.
    #[must_use]
    pub fn report(&self, address: std::net::SocketAddr) -> IngestReport {
        let load = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let sources = self.sources.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        IngestReport {
            address: address.to_string(),
            door: self.door.report(),
            refused: load(&self.refused),
            batch_bytes: load(&self.batch_bytes),
            sources: sources.iter().map(|(source, figures)| figures.report(*source)).collect(),
        }
    }
}

impl SourceFigures {
    fn report(&self, source: PartitionId) -> SourceReport {
        let counters = &self.counters;
        SourceReport {
            source: source.0,
            epoch: self.epoch.0,
            next_batch_no: self.next_batch_no.0,
            is_open: self.is_open,
            is_whole: self.is_whole,
            level: match self.level {
                AckLevel::Memory => "memory",
                AckLevel::Os => "os",
                AckLevel::Disk => "disk",
            },
            followers: self.followers,
            log_first: self.log.map_or(0, |(first, _, _)| first.0),
            log_last: self.log.map_or(0, |(_, last, _)| last.0),
            log_committed: self.log.map_or(0, |(_, _, committed)| committed.0),
            is_log_full: self.is_log_full,
            store: self.store.report(),
            opened: counters.opened,
            batches: counters.batches,
            rows: counters.rows,
            duplicates: counters.duplicates,
            gaps: counters.gaps,
            early: counters.early,
            rejects: counters.rejects,
            resends: counters.resends,
            swept: counters.swept,
        }
    }
}

impl IngestReport {
    /// The metrics of the listener.
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        let own = [
            ("weir_ingest_refused_total", "Openings and batches.", "counter", self.refused),
            ("weir_ingest_batch_bytes_total", "Bytes of batches.", "counter", self.batch_bytes),
        ];
        weir_door::door_metrics!("weir_ingest", self.door).into_iter().chain(own).collect()
    }
}
