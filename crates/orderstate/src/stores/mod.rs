//! What the order stores of a node have in common, whoever feeds them: how they are configured,
//! what they say of themselves, the sweeping while nothing comes in, and by what they survive a
//! restart.

pub mod figures;
pub mod indexes;
pub mod journal;
pub mod kept;
pub mod own;
pub mod snapshots;
pub mod sweeper;
pub mod tail;

pub use self::figures::{StoreFigures, StoreReport};
pub use self::indexes::Indexes;
pub use self::sweeper::{SweepFigures, Sweeper};

use weir_delivery::{OrderStore, Retention, StoreConfig};
use weir_types::{Epoch, PartitionId};

/// How a store is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// Whose orders.
    pub source: PartitionId,
    /// Ended orders that are kept for readers that are behind.
    pub ended_orders_max: usize,
    /// Bytes of memory that it may ask for; `u64::MAX` for no limit.
    pub bytes_max: u64,
    /// The keys that are indexed.
    pub indexes: Indexes,
}

impl StoreSettings {
    /// The settings as a store takes them.
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

    /// An empty store.
    #[must_use]
    pub fn store(&self, epoch: Epoch) -> OrderStore {
        OrderStore::new(self.config(epoch))
    }
}
