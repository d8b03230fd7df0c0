//! A store's figures for the status page and Prometheus.

use serde::Serialize;
use weir_delivery::{Memory, OrderStore};

/// A store's figures at one time.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreFigures {
    /// Orders that can still change.
    pub live_orders: u32,
    /// Ended orders, tombstones and marks that are kept.
    pub ended_orders: u32,
    /// The memory that it has allocated.
    pub memory: Option<Memory>,
    /// Its memory limit; `u64::MAX` for none.
    pub bytes_max: u64,
    /// Ended orders, tombstones and marks dropped early for lack of memory.
    pub early: u64,
    /// Changes refused for lack of memory.
    pub refused: u64,
    /// The digest of the live orders.
    pub digest: u64,
}

/// A store on the status page.
#[derive(Clone, Debug, Serialize)]
pub struct StoreReport {
    /// Orders that can still change.
    pub live_orders: u32,
    /// Ended orders, tombstones and marks that are kept.
    pub ended_orders: u32,
    /// Bytes allocated.
    pub memory_bytes: u64,
    /// Of these, rows as encoded on the wire.
    pub row_bytes: u64,
    /// Of these, the rings, which index new changes.
    pub ring_bytes: u64,
    /// Of these, a snapshot under way.
    pub snapshot_bytes: u64,
    /// Its memory limit; absent without one.
    pub memory_bytes_max: Option<u64>,
    /// Ended orders, tombstones and marks dropped early for lack of memory.
    pub early: u64,
    /// Changes refused for lack of memory; one that is sent again counts again.
    pub full_refusals: u64,
    /// The digest of the live orders, in hexadecimal; equal on all replicas with the same changes.
    pub digest: String,
}

impl StoreFigures {
    /// Returns a store's current figures. Costs a few additions.
    #[must_use]
    pub fn of(store: &OrderStore) -> StoreFigures {
        StoreFigures {
            live_orders: store.live_count(),
            ended_orders: store.ended_count(),
            memory: Some(store.memory()),
            bytes_max: store.bytes_max(),
            early: store.early_count(),
            refused: store.full_count(),
            digest: store.digest(&weir_delivery::Filter::ALL).unwrap_or_default(),
        }
    }

    /// Returns the figures for the status page.
    #[must_use]
    pub fn report(&self) -> StoreReport {
        let of = |part: fn(&Memory) -> u64| self.memory.as_ref().map_or(0, part);
        StoreReport {
            live_orders: self.live_orders,
            ended_orders: self.ended_orders,
            memory_bytes: of(|memory| memory.total),
            row_bytes: of(|memory| memory.rows),
            ring_bytes: of(|memory| memory.rings.iter().sum()),
            snapshot_bytes: of(|memory| memory.capture),
            memory_bytes_max: Some(self.bytes_max).filter(|max| *max < u64::MAX),
            early: self.early,
            full_refusals: self.refused,
            digest: format!("{:016x}", self.digest),
        }
    }
}

/// A store's figure: name, help, kind, value.
pub type StoreMetric = (&'static str, &'static str, &'static str, fn(&StoreReport) -> u64);

/// A store's figures for Prometheus, each with the label of its source.
pub const METRICS: [StoreMetric; 6] = [
    ("weir_store_memory_bytes", "Bytes asked for.", "gauge", |s| s.memory_bytes),
    ("weir_store_memory_bytes_max", "0 without a limit.", "gauge", |s| {
        s.memory_bytes_max.unwrap_or_default()
    }),
    ("weir_store_row_bytes", "Bytes of rows.", "gauge", |s| s.row_bytes),
    ("weir_store_ended_orders", "Ended orders kept.", "gauge", |s| u64::from(s.ended_orders)),
    ("weir_store_early_total", "Ended orders that went early.", "counter", |s| s.early),
    ("weir_store_full_refusals_total", "Refused without room.", "counter", |s| s.full_refusals),
];
