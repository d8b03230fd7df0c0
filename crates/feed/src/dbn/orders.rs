//! The sizes of resting orders. A modification that enlarges an order costs it its priority, and
//! the record does not say whether it does.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

/// Sizes by instrument and order.
#[derive(Clone, Debug, Default)]
pub(super) struct Orders {
    sizes: HashMap<OrderKey, u32, FxBuildHasher>,
}

/// An order's number is unique within its instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct OrderKey {
    pub instrument_id: u32,
    pub order_id: u64,
}

impl Orders {
    /// Sets the size of a resting order; returns its previous size.
    pub fn set(&mut self, order: OrderKey, size: u32) -> Option<u32> {
        self.sizes.insert(order, size)
    }

    /// Subtracts from the size of an order.
    pub fn reduce(&mut self, order: OrderKey, by: u32) {
        let Some(size) = self.sizes.get_mut(&order) else { return };
        *size = size.saturating_sub(by);
        if *size == 0 {
            self.sizes.remove(&order);
        }
    }

    /// Removes all orders of an instrument; of all instruments when it is zero.
    pub fn clear(&mut self, instrument: u32) {
        if instrument == 0 {
            self.sizes.clear();
        } else {
            self.sizes.retain(|order, _| order.instrument_id != instrument);
        }
    }
}
