//! Prices, quantities, cash and time: integers with a unit, never floating point.

use core::fmt;

/// A price: a signed mantissa in the instrument's price exponent. With exponent -2 the price
/// 586.53 is `Price(58_653)`. May be negative (spreads, energy).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(pub i64);

/// A quantity in the instrument's lots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Qty(pub u64);

/// Nanoseconds: a moment since the Unix epoch, or a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// An amount of money in price units times lots: `Price(3)` times `Qty(2)` is `Cash(6)`.
/// Wide enough that no product of a price and a quantity overflows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cash(pub i128);

impl Qty {
    /// Zero lots.
    pub const ZERO: Qty = Qty(0);

    /// Returns true for zero lots.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Returns the smaller of the two.
    #[must_use]
    pub fn min(self, other: Qty) -> Qty {
        Qty(self.0.min(other.0))
    }
}

impl core::ops::Add for Qty {
    type Output = Qty;
    fn add(self, other: Qty) -> Qty {
        Qty(self.0 + other.0)
    }
}

impl core::ops::Sub for Qty {
    type Output = Qty;
    fn sub(self, other: Qty) -> Qty {
        Qty(self.0 - other.0)
    }
}

impl core::ops::AddAssign for Qty {
    fn add_assign(&mut self, other: Qty) {
        self.0 += other.0;
    }
}

impl core::ops::SubAssign for Qty {
    fn sub_assign(&mut self, other: Qty) {
        self.0 -= other.0;
    }
}

impl Price {
    /// Returns the cost of `qty` lots at this price.
    #[must_use]
    pub fn notional(self, qty: Qty) -> Cash {
        // |i64| * u64 < 2^127: the product always fits.
        Cash(i128::from(self.0) * i128::from(qty.0))
    }
}

impl Cash {
    /// Zero money.
    pub const ZERO: Cash = Cash(0);
}

impl core::ops::Add for Cash {
    type Output = Cash;
    fn add(self, other: Cash) -> Cash {
        Cash(self.0 + other.0)
    }
}

impl core::ops::Sub for Cash {
    type Output = Cash;
    fn sub(self, other: Cash) -> Cash {
        Cash(self.0 - other.0)
    }
}

impl core::ops::AddAssign for Cash {
    fn add_assign(&mut self, other: Cash) {
        self.0 += other.0;
    }
}

impl core::ops::SubAssign for Cash {
    fn sub_assign(&mut self, other: Cash) {
        self.0 -= other.0;
    }
}

impl Nanos {
    /// Returns the span from `earlier` to `self`, or zero when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Qty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Cash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notional_of_the_widest_price_and_quantity_fits() {
        assert_eq!(Price(i64::MIN).notional(Qty(u64::MAX)).0, -(1i128 << 63) * ((1i128 << 64) - 1));
    }

    #[test]
    fn a_span_to_an_earlier_moment_is_zero() {
        assert_eq!(Nanos(5).since(Nanos(7)), Nanos(0));
        assert_eq!(Nanos(7).since(Nanos(5)), Nanos(2));
    }
}
