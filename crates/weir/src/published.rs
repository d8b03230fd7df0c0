//! Notes on instruments that the market of a node leaves out, told where they are defined.

use weir_market::publish::{Listing, unfit_reason};
use weir_wire::reference::DefineInstrument;

use crate::plant::{self, Plant};

/// Returns a note on an instrument that the published market leaves out; `None` if it has it.
pub(super) fn told_as_unfit(definition: &DefineInstrument) -> Option<String> {
    let listing = Listing {
        instrument_id: definition.instrument_id,
        symbol: definition.symbol,
        tick_size: definition.tick_size,
        lot_size: definition.lot_size,
        order_qty_max: definition.order_qty_max,
        price_min: definition.price_min,
        price_max: definition.price_max,
        price_exponent: definition.price_exponent,
        phase: definition.phase,
    };
    let reason = unfit_reason(&listing).filter(|_| !plant::is(Plant::UnfitUntold))?;
    let symbol = definition.symbol;
    Some(format!("the published market (weir serve --publish) leaves {symbol} out: {reason}"))
}
