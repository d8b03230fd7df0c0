//! The figures of the delivery agent, or of the router in its place, that other threads read.

use std::collections::BTreeMap;
use std::sync::Mutex;

use weir_types::InstrumentId;

use crate::markets::Market;
use crate::reader_list::ReaderList;
use crate::stores::{StoreReport, SweepFigures};

weir_runtime::figures! {
    /// The counters of a store and its readers.
    pub struct DeliveryCounts in DeliveryCounters {
        /// Orders in the store: live ones, and retained ended ones.
        gauge orders,
        /// Changes ingested.
        counter ingested,
        /// The newest command whose events are in the store and in the instruments of the status
        /// page.
        gauge position,
        /// Events of the trading partition that the store has still to take.
        gauge events_behind as "weir_store_events_behind",
        /// Pages served.
        counter pages,
        /// Rows in these pages.
        counter rows,
        /// Parked readers.
        gauge parked,
        /// Queries refused for lack of room.
        counter refused,
        /// The number of times that an event had to wait because the store was full.
        counter full_waits as "weir_store_full_waits_total",
    }
}

/// Figures of the store that other threads read.
#[derive(Debug, Default)]
pub struct DeliveryFigures {
    /// The counters.
    pub counters: DeliveryCounters,
    /// The store's figures.
    pub store: Mutex<StoreReport>,
    /// Sweeping of all stores.
    pub sweeps: SweepFigures,
    /// The state of each instrument from the events.
    pub markets: Mutex<BTreeMap<InstrumentId, Market>>,
    /// The waiting readers.
    pub readers: ReaderList,
}
