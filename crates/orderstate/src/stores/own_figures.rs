//! The figures of the store of a partition's orders, for the status page and Prometheus.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use weir_delivery::OrderStore;
use weir_types::{InstrumentId, PartitionId};

use super::figures::StoreReport;
use crate::markets::Market;

weir_runtime::figures! {
    /// The counters of the store of a partition's orders.
    pub struct OwnStoreCounts in OwnStoreCounters {
        /// Orders in the store: live ones, and retained ended ones.
        gauge orders,
        /// Changes ingested.
        counter ingested,
        /// The newest command whose events are in the store and in the instruments of the status
        /// page.
        gauge position,
        /// Events of the partition that the store has still to take.
        gauge events_behind as "weir_store_events_behind",
        /// The number of times that an event had to wait because the store was full.
        counter full_waits as "weir_store_full_waits_total",
    }
}

/// Figures of the store of a partition's orders, traded here or followed.
#[derive(Debug)]
pub struct OwnStoreFigures {
    /// The partition, as the source of its orders.
    pub source: PartitionId,
    /// The counters.
    pub counters: OwnStoreCounters,
    /// The store's figures.
    pub store: Mutex<StoreReport>,
    /// The state of each instrument from the partition's events.
    pub markets: Mutex<BTreeMap<InstrumentId, Market>>,
}

impl OwnStoreFigures {
    /// Returns the figures of an empty store.
    #[must_use]
    pub fn of(source: PartitionId) -> OwnStoreFigures {
        OwnStoreFigures {
            source,
            counters: OwnStoreCounters::default(),
            store: Mutex::default(),
            markets: Mutex::default(),
        }
    }

    /// Returns the state of an instrument, where an event told some.
    #[must_use]
    pub fn market(&self, instrument_id: InstrumentId) -> Option<Market> {
        let markets = self.markets.lock().unwrap_or_else(PoisonError::into_inner);
        markets.get(&instrument_id).copied()
    }

    /// Takes over the figures of the store.
    pub fn tell_store(&self, store: &OrderStore) {
        let orders = u64::from(store.live_count()) + u64::from(store.ended_count());
        self.counters.orders.store(orders, Ordering::Relaxed);
        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = StoreReport::of(store);
    }
}
