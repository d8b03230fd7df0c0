//! The figures of ingest, for the status page and Prometheus.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use weir_delivery::stream::StreamCounters;
use weir_types::{AckLevel, BatchNo, Epoch, PartitionId, Position};

use crate::stores::{StoreFigures, StoreReport};

/// Figures that other threads read.
#[derive(Debug, Default)]
pub struct IngestFigures {
    /// Current connections.
    pub connections: AtomicU64,
    /// Connections accepted.
    pub accepted: AtomicU64,
    /// Connections refused because the maximum was reached.
    pub connections_refused: AtomicU64,
    /// Current sessions.
    pub sessions: AtomicU64,
    /// Logons refused.
    pub logons_refused: AtomicU64,
    /// Messages that could not be decoded or are not allowed here.
    pub malformed: AtomicU64,
    /// Openings and batches refused.
    pub refused: AtomicU64,
    /// Connections that the node ended.
    pub ended: AtomicU64,
    /// Bytes of batches handed to the store.
    pub batch_bytes: AtomicU64,
    /// The number of times that reading waited for the store.
    pub back_pressure: AtomicU64,
    /// The sources.
    pub sources: Mutex<BTreeMap<PartitionId, SourceFigures>>,
}

/// A source's state.
#[derive(Clone, Copy, Debug)]
pub struct SourceFigures {
    /// Its epoch; none before its first opening.
    pub epoch: Epoch,
    /// The number of the next expected batch.
    pub next_batch_no: BatchNo,
    /// True when a core has it open.
    pub is_open: bool,
    /// True when its store is complete.
    pub is_whole: bool,
    /// The durability level of an acknowledgement.
    pub level: AckLevel,
    /// Replicas that follow it.
    pub followers: usize,
    /// The oldest, the newest and the newest committed position of its log, if it has one.
    pub log: Option<(Position, Position, Position)>,
    /// True when the log's disk is full.
    pub is_log_full: bool,
    /// Its store's figures.
    pub store: StoreFigures,
    /// Its stream's counters.
    pub counters: StreamCounters,
}

/// Ingest on the status page.
#[derive(Clone, Debug, Serialize)]
pub struct IngestReport {
    /// The listening address.
    pub address: String,
    /// Current connections.
    pub connections: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections refused because the maximum was reached.
    pub connections_refused: u64,
    /// Current sessions.
    pub sessions: u64,
    /// Logons refused.
    pub logons_refused: u64,
    /// Messages that could not be decoded or are not allowed here.
    pub malformed: u64,
    /// Openings and batches refused.
    pub refused: u64,
    /// Connections that the node ended.
    pub ended: u64,
    /// Bytes of batches handed to the store.
    pub batch_bytes: u64,
    /// The number of times that reading waited for the store.
    pub back_pressure: u64,
    /// The sources.
    pub sources: Vec<SourceReport>,
}

/// A source on the status page.
#[derive(Clone, Debug, Serialize)]
pub struct SourceReport {
    /// The source's number.
    pub source: u16,
    /// Its epoch; 0 before its first opening.
    pub epoch: u32,
    /// The number of the next expected batch.
    pub next_batch_no: u64,
    /// True when a core has it open.
    pub is_open: bool,
    /// True when its store is complete.
    pub is_whole: bool,
    /// The durability level of an acknowledgement: `memory`, `os` or `disk`.
    pub level: &'static str,
    /// Replicas that follow it.
    pub followers: usize,
    /// The oldest position of its log; 0 without a log.
    pub log_first: u64,
    /// The newest position of its log.
    pub log_last: u64,
    /// The newest committed position of its log.
    pub log_committed: u64,
    /// True when the log's disk is full.
    pub is_log_full: bool,
    /// Its store's figures.
    #[serde(flatten)]
    pub store: StoreReport,
    /// The number of times that it was opened.
    pub opened: u64,
    /// Batches ingested.
    pub batches: u64,
    /// Rows ingested.
    pub rows: u64,
    /// Duplicate batches.
    pub duplicates: u64,
    /// Gaps reported.
    pub gaps: u64,
    /// Batches that came too early and were dropped.
    pub early: u64,
    /// Openings and batches refused.
    pub rejects: u64,
    /// Full resends completed.
    pub resends: u64,
    /// Records deleted because a full resend lacked them.
    pub swept: u64,
}

impl IngestFigures {
    /// Returns the current figures.
    #[must_use]
    pub fn report(&self, address: std::net::SocketAddr) -> IngestReport {
        let load = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let sources = self.sources.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        IngestReport {
            address: address.to_string(),
            connections: load(&self.connections),
            accepted: load(&self.accepted),
            connections_refused: load(&self.connections_refused),
            sessions: load(&self.sessions),
            logons_refused: load(&self.logons_refused),
            malformed: load(&self.malformed),
            refused: load(&self.refused),
            ended: load(&self.ended),
            batch_bytes: load(&self.batch_bytes),
            back_pressure: load(&self.back_pressure),
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
    /// Returns the listener's figures for Prometheus: name, help, kind, value.
    #[must_use]
    pub fn metrics(&self) -> [(&'static str, &'static str, &'static str, u64); 10] {
        [
            ("weir_ingest_connections", "Connections of cores.", "gauge", self.connections),
            ("weir_ingest_sessions", "Sessions of cores.", "gauge", self.sessions),
            ("weir_ingest_accepted_total", "Connections accepted.", "counter", self.accepted),
            (
                "weir_ingest_connections_refused_total",
                "Connections over the limit.",
                "counter",
                self.connections_refused,
            ),
            ("weir_ingest_logons_refused_total", "Logons.", "counter", self.logons_refused),
            ("weir_ingest_malformed_total", "Messages not read.", "counter", self.malformed),
            ("weir_ingest_refused_total", "Openings and batches.", "counter", self.refused),
            ("weir_ingest_ended_total", "Connections ended.", "counter", self.ended),
            ("weir_ingest_batch_bytes_total", "Bytes of batches.", "counter", self.batch_bytes),
            ("weir_ingest_back_pressure_total", "Waits.", "counter", self.back_pressure),
        ]
    }
}
