//! The scales of the node's instruments, for the pages of readers over HTTP.
//!
//! The hub's agent writes them as it follows the control log; the threads of HTTP read them once a
//! page.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use weir_types::InstrumentId;
use weir_wire::reference::DefineInstrument;

use crate::order_json::Scale;

/// Scales by instrument.
#[derive(Debug, Default)]
pub struct Scales(RwLock<HashMap<InstrumentId, Scale>>);

impl Scales {
    /// Stores an instrument's scale.
    pub(crate) fn define(&self, d: &DefineInstrument) {
        let scale = Scale {
            symbol: d.symbol.to_string(),
            price_exponent: d.price_exponent,
            qty_exponent: d.qty_exponent,
        };
        // No reader panics with the table half written: it is only read.
        let mut scales = self.0.write().unwrap_or_else(PoisonError::into_inner);
        scales.insert(d.instrument_id, scale);
    }

    /// Returns the table for the rows of one page.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, HashMap<InstrumentId, Scale>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}
