//! Collars: the limit on the distance between references and trades of continuous trading, or of
//! the uncrossing that begins it. A trade beyond it is replaced by a volatility interruption.

use weir_types::{Nanos, Phase, Price, Side};

use crate::config::EventSink;
use crate::engine::Engine;
use crate::index::Slot;
use crate::instrument::Instrument;
use crate::phases::Cause;
use crate::plant::{self, Plant};

/// The price range for the trades of one incoming order or of a call's end, both ends included.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Collar {
    low: i64,
    high: i64,
}

impl Collar {
    pub(crate) const NONE: Collar = Collar { low: i64::MIN, high: i64::MAX };

    /// Returns true if every price is allowed.
    pub(crate) fn is_none(self) -> bool {
        self == Collar::NONE
    }

    #[inline]
    pub(crate) fn allows(self, price: Price) -> bool {
        (self.low..=self.high).contains(&price.0)
    }

    /// Returns the collar narrowed to at most `basis_points` from `reference`. A distance d is too
    /// far when d × 10,000 > basis points × |reference|, that is when it exceeds the quotient
    /// rounded down.
    fn narrowed(self, reference: Option<Price>, basis_points: u32) -> Collar {
        let Some(reference) = reference.filter(|price| price.0 != 0 && basis_points != 0) else {
            return self;
        };
        let reference = i128::from(reference.0);
        let product = reference.abs() * i128::from(basis_points);
        let is_less = plant::is(Plant::CollarEdgeBreaches) && product % 10_000 == 0;
        let distance = product / 10_000 - i128::from(is_less);
        let clamp = |price: i128| price.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
        Collar {
            low: self.low.max(clamp(reference - distance)),
            high: self.high.min(clamp(reference + distance)),
        }
    }
}

impl Instrument {
    /// Returns the collar of an order that starts to match now, or of a call that is about to end.
    #[inline]
    pub(crate) fn collar(&self) -> Collar {
        let d = &self.definition;
        if d.static_collar == 0 && d.dynamic_collar == 0 {
            return Collar::NONE;
        }
        Collar::NONE
            .narrowed(self.static_reference(), d.static_collar)
            .narrowed(self.reference(), d.dynamic_collar)
    }

    /// Returns the price at which a market order that waits for a call reserves cash: the edge of
    /// the static collar where there is one with a reference, within the bounds, otherwise the
    /// bound.
    pub(crate) fn call_reservation(&self, side: Side) -> Price {
        let (d, bound) = (&self.definition, self.bound(side));
        if plant::is(Plant::CallReservesAtBound) {
            return bound;
        }
        let collar = Collar::NONE.narrowed(self.static_reference(), d.static_collar);
        if collar.is_none() {
            return bound;
        }
        let edge = match side {
            Side::Buy => collar.high,
            Side::Sell => collar.low,
        };
        Price(edge.clamp(d.price_min.0, d.price_max.0))
    }
}

impl Engine {
    /// Begins a volatility call instead of a trade beyond the collar. Ends no order and uncrosses
    /// nothing.
    pub(crate) fn interrupt<S: EventSink>(&mut self, instrument: Slot, out: &mut S) {
        self.enter_phase(instrument, Phase::VolatilityCall, Cause::COLLAR, out);
        self.set_call_end(instrument);
    }

    /// Sets the end of a volatility call that has begun, if the definition has a duration.
    pub(crate) fn set_call_end(&mut self, instrument: Slot) {
        let definition = &self.instruments[instrument].definition;
        if definition.volatility_call != Nanos(0) {
            let end = self.time.0.saturating_add(definition.volatility_call.0);
            self.timers.set_call_end(definition.instrument_id, Some(Nanos(end)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collar_allows_what_the_inequality_of_the_page_does() {
        let references = [1, 7, 99, 100, 9_999, 10_000, -3, -10_000, i64::MAX, i64::MIN];
        for reference in references {
            for basis_points in [1, 50, 99, 100, 9_999, 10_000, 20_000, u32::MAX] {
                let collar = Collar::NONE.narrowed(Some(Price(reference)), basis_points);
                let near = (-200..=200).map(|step| reference.saturating_add(step));
                for price in near.chain([i64::MIN, -1, 0, 1, i64::MAX]) {
                    let distance = (i128::from(price) - i128::from(reference)).abs();
                    let is_breach =
                        distance * 10_000 > i128::from(basis_points) * i128::from(reference).abs();
                    assert_eq!(collar.allows(Price(price)), !is_breach, "{price} {reference}");
                }
            }
        }
    }

    #[test]
    fn a_zero_reference_or_collar_allows_every_price() {
        for (reference, basis_points) in [(Some(0), 10), (None, 10), (Some(100), 0)] {
            let collar = Collar::NONE.narrowed(reference.map(Price), basis_points);
            assert!(collar.allows(Price(i64::MIN)) && collar.allows(Price(i64::MAX)));
        }
    }
}
