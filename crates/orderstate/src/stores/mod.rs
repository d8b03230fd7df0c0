//! The common parts of a node's order stores, for any source: settings, figures, sweeping while
//! idle, and persistence over a restart.

pub mod figures;
pub mod indexes;
pub mod journal;
pub mod kept;
pub mod own;
pub mod own_figures;
pub mod snapshots;
pub mod sweeper;
pub mod tail;

pub use self::figures::StoreReport;
pub use self::indexes::Indexes;
pub use self::sweeper::{SweepFigures, SweepReport, Sweeper};

use weir_delivery::stream::Window;
use weir_delivery::{OrderStore, Retention, StoreConfig};
use weir_types::{Epoch, PartitionId};

/// The limits of a source's unacknowledged batches.
pub const WINDOW: Window = Window { batches: 256, bytes: 4 << 20 };

/// A store's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// The source of the orders.
    pub source: PartitionId,
    /// The number of ended orders kept for readers that are behind.
    pub ended_orders_max: usize,
    /// The memory limit in bytes; `u64::MAX` for none.
    pub bytes_max: u64,
    /// The keys that are indexed.
    pub indexes: Indexes,
}

impl StoreSettings {
    /// Returns the store's own configuration.
    #[must_use]
    pub fn config(&self, epoch: Epoch) -> StoreConfig {
        let count_max = u32::try_from(self.ended_orders_max).unwrap_or(u32::MAX);
        StoreConfig {
            kinds: self.indexes.0,
            retention: Retention { count_max, bytes_max: u64::MAX },
            bytes_max: self.bytes_max,
            ..StoreConfig::new(self.source, epoch)
        }
    }

    /// Returns an empty store.
    #[must_use]
    pub fn store(&self, epoch: Epoch) -> OrderStore {
        OrderStore::new(self.config(epoch))
    }
}
