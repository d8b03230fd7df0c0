//! Instruments with their books, and firms.

use weir_types::{FirmId, Phase, Price, Qty, Reason, Side};
use weir_wire::reference::DefineInstrument;

use crate::book::BookSide;
use crate::index::Slot;

/// An instrument as defined, its phase and its book.
pub(crate) struct Instrument {
    pub(crate) definition: DefineInstrument,
    pub(crate) phase: Phase,
    pub(crate) bids: BookSide,
    pub(crate) asks: BookSide,
    /// Lots moved in by transfers, less those moved out.
    pub(crate) transferred_in: i128,
}

impl Instrument {
    pub(crate) fn new(definition: DefineInstrument) -> Instrument {
        Instrument {
            definition,
            phase: definition.phase,
            bids: BookSide::new(Side::Buy),
            asks: BookSide::new(Side::Sell),
            transferred_in: 0,
        }
    }

    #[inline]
    pub(crate) fn side(&self, side: Side) -> &BookSide {
        match side {
            Side::Buy => &self.bids,
            Side::Sell => &self.asks,
        }
    }

    #[inline]
    pub(crate) fn side_mut(&mut self, side: Side) -> &mut BookSide {
        match side {
            Side::Buy => &mut self.bids,
            Side::Sell => &mut self.asks,
        }
    }

    /// Whether a limit order may have this price.
    #[inline(always)]
    pub(crate) fn check_price(&self, price: Price) -> Result<(), Reason> {
        let d = &self.definition;
        let is_fine =
            price >= d.price_min && price <= d.price_max && is_multiple(price.0, d.tick_size.0);
        if is_fine { Ok(()) } else { Err(Reason::InvalidPrice) }
    }

    /// Whether an order may have this quantity.
    #[inline(always)]
    pub(crate) fn check_qty(&self, qty: Qty) -> Result<(), Reason> {
        let d = &self.definition;
        let is_fine = !qty.is_zero()
            && qty <= d.order_qty_max
            && (d.lot_size.0 == 1 || qty.0.is_multiple_of(d.lot_size.0));
        if is_fine { Ok(()) } else { Err(Reason::InvalidQty) }
    }

    /// Whether an order of `side` at `price` would trade at once.
    #[inline]
    pub(crate) fn would_cross(&self, side: Side, price: Price) -> bool {
        self.side(side.opposite()).best_price().is_some_and(|best| reaches(side, price, best))
    }
}

/// Whether a limit of `side` accepts a trade at `price`.
#[inline(always)]
pub(crate) fn reaches(side: Side, limit: Price, price: Price) -> bool {
    match side {
        Side::Buy => price <= limit,
        Side::Sell => price >= limit,
    }
}

#[inline(always)]
fn is_multiple(price: i64, tick_size: i64) -> bool {
    // The common ticks are one; a 64-bit division costs as much as finding the level.
    tick_size == 1 || price % tick_size == 0
}

/// A firm as defined.
pub(crate) struct Firm {
    pub(crate) firm_id: FirmId,
    pub(crate) is_killed: bool,
    /// Its sessions, in order of definition.
    pub(crate) sessions: Vec<Slot>,
}
