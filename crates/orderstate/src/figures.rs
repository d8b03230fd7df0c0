//! The figures of the delivery agent, or of the router in its place, that other threads read.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use weir_types::InstrumentId;

use crate::markets::Market;
use crate::reader_list::ReaderList;
use crate::stores::{StoreFigures, SweepFigures};

/// Figures of the store that other threads read.
#[derive(Debug, Default)]
pub struct DeliveryFigures {
    /// Orders in the store: live ones, and retained ended ones.
    pub orders: AtomicU64,
    /// Changes ingested.
    pub ingested: AtomicU64,
    /// Pages served.
    pub pages: AtomicU64,
    /// Rows in these pages.
    pub rows: AtomicU64,
    /// Parked readers.
    pub parked: AtomicU64,
    /// Queries refused for lack of room.
    pub refused: AtomicU64,
    /// The number of times that an event had to wait because the store was full.
    pub full_waits: AtomicU64,
    /// The store's figures.
    pub store: Mutex<StoreFigures>,
    /// Sweeping of all stores.
    pub sweeps: SweepFigures,
    /// The state of each instrument from the events.
    pub markets: Mutex<BTreeMap<InstrumentId, Market>>,
    /// The waiting readers.
    pub readers: ReaderList,
}
