//! The archive's figures, for the status page and Prometheus.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use weir_types::{Nanos, PartitionId};

/// Figures that other threads read.
#[derive(Debug, Default)]
pub struct ColdFigures {
    /// The archive's own figures, the time of the first change that it keeps, and the time of the
    /// report.
    pub archive: Mutex<(weir_cold::ColdFigures, Nanos, Nanos)>,
    /// Changes taken from the store.
    pub changes: AtomicU64,
    /// Pages built.
    pub pages: AtomicU64,
    /// Rows in these pages.
    pub rows: AtomicU64,
    /// Entries scanned for these pages.
    pub looked_at: AtomicU64,
    /// Readers whose query waits.
    pub readers: AtomicU64,
    /// Queries refused because their changes are no longer kept.
    pub resyncs: AtomicU64,
    /// Queries refused for now: the disk failed, or is full.
    pub not_now: AtomicU64,
    /// Files found damaged.
    pub damaged: AtomicU64,
    /// Failures of the disk.
    pub disk_errors: AtomicU64,
    /// True when the disk is full.
    pub is_full: AtomicBool,
    /// True when the disk failed and has not accepted a write since.
    pub is_failing: AtomicBool,
    /// The number of times that the store had changes to send and the ring was full.
    pub full_waits: AtomicU64,
}

/// The archive on the status page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ColdReport {
    /// The source's number.
    pub source: u16,
    /// The number of files.
    pub segments: u64,
    /// Entries in the files; an order is in each file at most once.
    pub entries: u64,
    /// The files' size in bytes.
    pub file_bytes: u64,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Bytes of changes that are in no file yet.
    pub open_bytes: u64,
    /// The age of the oldest change kept, in seconds.
    pub floor_age_s: u64,
    /// Changes taken from the store.
    pub changes: u64,
    /// Readers whose query waits.
    pub readers: u64,
    /// Pages built.
    pub pages: u64,
    /// Rows in these pages.
    pub rows: u64,
    /// Entries scanned for these pages.
    pub looked_at: u64,
    /// Queries refused because their changes are no longer kept.
    pub resyncs: u64,
    /// Queries refused for now.
    pub not_now: u64,
    /// The number of times that discarded changes were not sent in time, and the archive began
    /// anew.
    pub holes: u64,
    /// Merges completed.
    pub merges: u64,
    /// Files removed because of their age or the size limit.
    pub retired: u64,
    /// Files found damaged.
    pub damaged: u64,
    /// Failures of the disk.
    pub disk_errors: u64,
    /// True when the disk is full.
    pub is_full: bool,
    /// The number of times that the store had changes to send and the ring was full.
    pub full_waits: u64,
}

impl ColdFigures {
    /// Returns true when the disk failed and has not accepted a write since.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    /// Returns the figures for the status page.
    #[must_use]
    pub fn report(&self, source: PartitionId) -> ColdReport {
        let load = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let (archive, first, told) = *self.archive.lock().unwrap_or_else(PoisonError::into_inner);
        let floor_age = if first == Nanos(0) { Nanos(0) } else { told.since(first) };
        ColdReport {
            source: source.0,
            segments: archive.segments,
            entries: archive.entries,
            file_bytes: archive.file_bytes,
            memory_bytes: archive.memory_bytes,
            open_bytes: archive.open_bytes,
            floor_age_s: floor_age.0 / 1_000_000_000,
            changes: load(&self.changes),
            readers: load(&self.readers),
            pages: load(&self.pages),
            rows: load(&self.rows),
            looked_at: load(&self.looked_at),
            resyncs: load(&self.resyncs),
            not_now: load(&self.not_now),
            holes: archive.holes,
            merges: archive.merges,
            retired: archive.retired,
            damaged: load(&self.damaged),
            disk_errors: load(&self.disk_errors),
            is_full: self.is_full.load(Ordering::Relaxed),
            full_waits: load(&self.full_waits),
        }
    }
}

/// An archive's figure: name, help, kind, value.
pub type ColdMetric = (&'static str, &'static str, &'static str, fn(&ColdReport) -> u64);

/// The figures for Prometheus.
pub const METRICS: [ColdMetric; 20] = [
    ("weir_cold_segments", "Files.", "gauge", |c| c.segments),
    ("weir_cold_entries", "Entries in the files.", "gauge", |c| c.entries),
    ("weir_cold_file_bytes", "Bytes of the files.", "gauge", |c| c.file_bytes),
    ("weir_cold_memory_bytes", "Bytes of memory.", "gauge", |c| c.memory_bytes),
    ("weir_cold_open_bytes", "Bytes of changes in no file yet.", "gauge", |c| c.open_bytes),
    ("weir_cold_floor_age_seconds", "Age of the oldest change kept.", "gauge", |c| c.floor_age_s),
    ("weir_cold_changes_total", "Changes taken from the store.", "counter", |c| c.changes),
    ("weir_cold_readers", "Readers whose question waits.", "gauge", |c| c.readers),
    ("weir_cold_pages_total", "Pages made.", "counter", |c| c.pages),
    ("weir_cold_rows_total", "Rows in pages.", "counter", |c| c.rows),
    ("weir_cold_looked_at_total", "Entries looked at for pages.", "counter", |c| c.looked_at),
    ("weir_cold_resyncs_total", "Questions for what is not kept.", "counter", |c| c.resyncs),
    ("weir_cold_not_now_total", "Questions refused for a while.", "counter", |c| c.not_now),
    ("weir_cold_holes_total", "Times that it began anew.", "counter", |c| c.holes),
    ("weir_cold_merges_total", "Merges finished.", "counter", |c| c.merges),
    ("weir_cold_retired_total", "Files let go.", "counter", |c| c.retired),
    ("weir_cold_damaged_total", "Files found damaged.", "counter", |c| c.damaged),
    ("weir_cold_disk_errors_total", "Failures of the disk.", "counter", |c| c.disk_errors),
    ("weir_cold_disk_full", "1 while the disk has no room.", "gauge", |c| u64::from(c.is_full)),
    ("weir_cold_full_waits_total", "Batches that found no room.", "counter", |c| c.full_waits),
];
