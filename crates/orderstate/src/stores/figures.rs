//! A store's figures for the status page and Prometheus.

use serde::Serializer;
use weir_delivery::OrderStore;

weir_runtime::figures! {
    /// A store's figures at one time.
    #[derive(Copy)]
    pub struct StoreReport {
        /// Orders that can still change.
        gauge live_orders,
        /// Ended orders, tombstones and marks that are kept.
        gauge ended_orders,
        /// The memory that the store has allocated.
        gauge memory_bytes in bytes,
        /// The memory of its rows, as encoded on the wire.
        gauge row_bytes in bytes,
        /// The memory of its rings, which index new changes.
        gauge ring_bytes in bytes,
        /// The memory of a snapshot under way.
        gauge snapshot_bytes in bytes,
        /// The limit of its memory.
        limit memory_bytes_max in bytes,
        /// Ended orders, tombstones and marks dropped early for lack of memory.
        counter early,
        /// Changes refused for lack of memory; one that is sent again counts again.
        counter full_refusals,
    } and {
        /// The digest of the live orders; equal on all replicas with the same changes.
        #[serde(serialize_with = "in_hexadecimal")]
        pub digest: u64,
    }
}

impl StoreReport {
    /// Returns a store's current figures. Costs a few additions.
    #[must_use]
    pub fn of(store: &OrderStore) -> StoreReport {
        let memory = store.memory();
        StoreReport {
            live_orders: store.live_count().into(),
            ended_orders: store.ended_count().into(),
            memory_bytes: memory.total,
            row_bytes: memory.rows,
            ring_bytes: memory.rings.iter().sum(),
            snapshot_bytes: memory.capture,
            memory_bytes_max: Some(store.bytes_max()).filter(|max| *max < u64::MAX),
            early: store.early_count(),
            full_refusals: store.full_count(),
            digest: store.digest(&weir_delivery::Filter::ALL).unwrap_or_default(),
        }
    }
}

fn in_hexadecimal<S: Serializer>(digest: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{digest:016x}"))
}
