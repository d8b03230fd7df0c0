//! What a store says of itself, for the status page and Prometheus.

use serde::Serialize;
use weir_delivery::{Memory, OrderStore};

/// A store's figures at one time.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreFigures {
    /// Orders that can still change.
    pub live_orders: u32,
    /// Ended orders, tombstones and marks that are kept.
    pub ended_orders: u32,
    /// What it has asked for of memory.
    pub memory: Option<Memory>,
    /// What it may ask for; `u64::MAX` for no limit.
    pub bytes_max: u64,
    /// What went before its time because memory was short.
    pub early: u64,
    /// Changes refused for want of memory.
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
    /// Bytes asked of the allocator.
    pub memory_bytes: u64,
    /// Of these, rows as they are on the wire.
    pub row_bytes: u64,
    /// Of these, the rings: how what is new is found.
    pub ring_bytes: u64,
    /// Of these, a snapshot under way.
    pub snapshot_bytes: u64,
    /// What it may ask for; absent without a limit.
    pub memory_bytes_max: Option<u64>,
    /// Ended orders, tombstones and marks that went early because memory was short.
    pub early: u64,
    /// Changes refused for want of memory; one that is sent again counts again.
    pub full_refusals: u64,
    /// The digest of the live orders, in hexadecimal: that of every replica that has as much.
    pub digest: String,
}

impl StoreFigures {
    /// A store's figures now. Costs a few additions.
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

    /// The figures as the status page has them.
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

/// A figure of a store: name, help, kind, value.
pub type StoreMetric = (&'static str, &'static str, &'static str, fn(&StoreReport) -> u64);

/// The figures of a store as Prometheus has them, each with the label of its source.
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
