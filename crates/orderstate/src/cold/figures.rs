//! The archive's figures, for the status page and Prometheus.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use weir_types::{Nanos, PartitionId};

weir_runtime::figures! {
    /// The counters of the archive's agent and of its intake.
    #[derive(Copy, PartialEq, Eq)]
    pub struct ColdCounts in ColdCounters {
        /// Changes taken from the store.
        counter changes,
        /// Readers whose query waits.
        gauge readers,
        /// Pages built.
        counter pages,
        /// Rows in these pages.
        counter rows,
        /// Entries scanned for these pages.
        counter entries_examined,
        /// Queries refused because their changes are no longer kept.
        counter resyncs,
        /// Queries refused for now: the disk failed, or is full.
        counter not_now,
        /// Files found damaged.
        counter damaged,
        /// Failures of the disk.
        counter disk_errors,
        /// True when the disk is full.
        flag is_full as "disk_full",
        /// True when the disk failed and has not accepted a write since.
        flag is_failing as "disk_failing",
        /// The number of times that the store had changes to send and the ring was full.
        counter full_waits,
    }
}

weir_runtime::figures! {
    /// The archive's files.
    #[derive(Copy, PartialEq, Eq)]
    pub struct ArchiveReport {
        /// Files of the archive.
        gauge segments,
        /// Entries in the files; an order is in each file at most once.
        gauge entries,
        /// The size of the files.
        gauge file_bytes in bytes,
        /// The memory of the archive.
        gauge memory_bytes in bytes,
        /// The size of the changes that are in no file yet.
        gauge open_bytes in bytes,
        /// The age of the oldest change kept.
        gauge floor_age_s in seconds as "floor_age_seconds",
        /// The number of times that discarded changes were not sent in time, and the archive began
        /// anew.
        counter holes,
        /// Merges completed.
        counter merges,
        /// Files removed because of their age or the size limit.
        counter retired,
    }
}

/// Figures that other threads read.
#[derive(Debug, Default)]
pub struct ColdFigures {
    /// The archive's own figures, the time of the first change that it keeps, and the time of the
    /// report.
    pub archive: Mutex<(weir_cold::ColdFigures, Nanos, Nanos)>,
    /// The counters.
    pub counters: ColdCounters,
}

/// The archive on the status page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ColdReport {
    /// The source's number.
    pub source: u16,
    /// The files.
    #[serde(flatten)]
    pub archive: ArchiveReport,
    /// The counters.
    #[serde(flatten)]
    pub counts: ColdCounts,
}

impl ColdFigures {
    /// Returns true when the disk failed and has not accepted a write since.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.counters.is_failing.load(Ordering::Relaxed)
    }

    /// Returns the figures for the status page.
    #[must_use]
    pub fn report(&self, source: PartitionId) -> ColdReport {
        let (archive, first, told) = *self.archive.lock().unwrap_or_else(PoisonError::into_inner);
        let floor_age = if first == Nanos(0) { Nanos(0) } else { told.since(first) };
        let archive = ArchiveReport {
            segments: archive.segments,
            entries: archive.entries,
            file_bytes: archive.file_bytes,
            memory_bytes: archive.memory_bytes,
            open_bytes: archive.open_bytes,
            floor_age_s: floor_age.0 / 1_000_000_000,
            holes: archive.holes,
            merges: archive.merges,
            retired: archive.retired,
        };
        ColdReport { source: source.0, archive, counts: self.counters.report() }
    }
}
