//! The scales of the node's instruments, for the pages of readers over HTTP.
//!
//! The hub's agent writes them as it follows the control log and the directory, which has the
//! changes too; the threads of HTTP read them once a page.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use weir_types::InstrumentId;
use weir_wire::reference::DefineInstrument;

use crate::order_json::Scale;

/// Scales by instrument.
#[derive(Debug, Default)]
pub struct Scales(RwLock<HashMap<InstrumentId, Scale>>);

impl Scales {
    /// Stores the scale of an instrument as the control log defines it, unless it is known: a later
    /// change is not in the control log, which may be read behind the change.
    pub(crate) fn define_new(&self, d: &DefineInstrument) {
        self.scales().entry(d.instrument_id).or_insert_with(|| scale_of(d));
    }

    /// Stores the scale of an instrument with all changes.
    pub(crate) fn define(&self, d: &DefineInstrument) {
        self.scales().insert(d.instrument_id, scale_of(d));
    }

    fn scales(&self) -> RwLockWriteGuard<'_, HashMap<InstrumentId, Scale>> {
        // No reader panics with the table half written: it is only read.
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the table for the rows of one page.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, HashMap<InstrumentId, Scale>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn scale_of(d: &DefineInstrument) -> Scale {
    Scale {
        symbol: d.symbol.to_string(),
        price_exponent: d.price_exponent,
        qty_exponent: d.qty_exponent,
    }
}
