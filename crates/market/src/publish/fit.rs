//! The limits of ITCH for an instrument: symbols of eight characters, prices of 32 bits in 10^-4,
//! quantities of 32 bits.
//!
//! Values are never rounded or truncated: an instrument that does not fit is left out, with its
//! reason.

use weir_feed::itch::encode;
use weir_types::{Price, Qty};

use super::Listing;

/// The exponent of ITCH's prices.
const ITCH_EXPONENT: i32 = -4;

/// The reason an instrument is not published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnfitReason {
    /// ITCH's symbols have eight characters.
    #[error("its symbol is longer than eight letters or not printable ASCII")]
    Symbol,
    /// ITCH has no negative prices.
    #[error("its lowest price is below zero")]
    NegativePrice,
    /// ITCH's prices end at 429,496.7295.
    #[error("its highest price is above 429496.7295")]
    LargePrice,
    /// ITCH's prices are in 10^-4.
    #[error("its tick is finer than 0.0001 or no multiple of it")]
    FineTick,
    /// ITCH's quantities have 32 bits.
    #[error("its largest order is above 4294967295 lots")]
    LargeQuantity,
    /// ITCH numbers instruments with 16 bits.
    #[error("65535 others were published before it in the session")]
    TooMany,
}

/// The conversion of a price to ITCH's: times `up`, divided by `down`; one of them is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    up: i128,
    down: i128,
}

impl Scale {
    /// Returns the scale of an exponent; `None` where no price but zero would fit.
    fn new(price_exponent: i8) -> Option<Scale> {
        let shift = i32::from(price_exponent) - ITCH_EXPONENT;
        let power = 10i128.checked_pow(shift.unsigned_abs()).filter(|power| *power < 1 << 64)?;
        Some(if shift >= 0 { Scale { up: power, down: 1 } } else { Scale { up: 1, down: power } })
    }

    /// Returns the price in 10^-4; `None` when it does not fit.
    pub(super) fn price(self, price: Price) -> Option<u32> {
        // Both factors have less than 64 bits.
        let scaled = i128::from(price.0) * self.up;
        if scaled % self.down != 0 { None } else { u32::try_from(scaled / self.down).ok() }
    }
}

/// The form of an instrument in ITCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fit {
    pub(super) stock: [u8; 8],
    pub(super) scale: Scale,
}

/// Returns the reason that an instrument is not published by its definition; `None` if it fits.
/// [`UnfitReason::TooMany`] depends on others and is none of these.
#[must_use]
pub fn unfit_reason(listing: &Listing) -> Option<UnfitReason> {
    fit(listing).err()
}

/// Returns the form of an instrument in ITCH, or the reason that it has none.
pub(super) fn fit(listing: &Listing) -> Result<Fit, UnfitReason> {
    let text = listing.symbol.0;
    let len = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    let symbol = core::str::from_utf8(&text[..len]).map_err(|_| UnfitReason::Symbol)?;
    let stock = encode::stock(symbol).filter(|_| len > 0).ok_or(UnfitReason::Symbol)?;
    if listing.price_min < Price(0) {
        return Err(UnfitReason::NegativePrice);
    }
    let scale = Scale::new(listing.price_exponent).ok_or(if listing.price_exponent < 0 {
        UnfitReason::FineTick
    } else {
        UnfitReason::LargePrice
    })?;
    if i128::from(listing.price_max.0) * scale.up > i128::from(u32::MAX) * scale.down {
        return Err(UnfitReason::LargePrice);
    }
    if i128::from(listing.tick_size.0) * scale.up % scale.down != 0 {
        return Err(UnfitReason::FineTick);
    }
    if listing.order_qty_max > Qty(u64::from(u32::MAX)) {
        return Err(UnfitReason::LargeQuantity);
    }
    Ok(Fit { stock, scale })
}
