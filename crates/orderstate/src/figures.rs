//! The figures of the delivery agent, or of the router in its place, that other threads read.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use weir_delivery::OrderStore;
use weir_types::{InstrumentId, PartitionId};

use crate::markets::Market;
use crate::reader_list::ReaderList;
use crate::stores::{StoreReport, SweepFigures};

weir_runtime::figures! {
    /// The counters of the readers of all stores.
    pub struct DeliveryCounts in DeliveryCounters {
        /// Pages served.
        counter pages,
        /// Rows in these pages.
        counter rows,
        /// Parked readers; one of all of a node's partitions counts at each, if there are several.
        gauge parked,
        /// Queries refused for lack of room.
        counter refused,
    }
}

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

/// Figures of the stores and their readers that other threads read.
#[derive(Debug, Default)]
pub struct DeliveryFigures {
    /// The counters of the readers.
    pub counters: DeliveryCounters,
    /// The figures of the stores that answer queries without a source, in the order of their
    /// numbers; none at a router.
    pub own: Vec<Arc<OwnStoreFigures>>,
    /// Sweeping of all stores.
    pub sweeps: SweepFigures,
    /// The waiting readers.
    pub readers: ReaderList,
}

impl DeliveryFigures {
    /// Returns the figures of a node with the stores of these sources.
    #[must_use]
    pub fn of(own: impl IntoIterator<Item = PartitionId>) -> DeliveryFigures {
        let own = own.into_iter().map(|source| Arc::new(OwnStoreFigures::of(source)));
        DeliveryFigures { own: own.collect(), ..DeliveryFigures::default() }
    }

    /// Returns the figures of a source's store, if it is one of these.
    #[must_use]
    pub fn own_of(&self, source: PartitionId) -> Option<&Arc<OwnStoreFigures>> {
        self.own.iter().find(|own| own.source == source)
    }
}
