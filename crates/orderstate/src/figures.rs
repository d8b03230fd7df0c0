//! The figures of the delivery agent, or of the router in its place, that other threads read.

use std::sync::Arc;

use weir_types::PartitionId;

use crate::reader_list::ReaderList;
use crate::stores::SweepFigures;
use crate::stores::own_figures::OwnStoreFigures;

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
