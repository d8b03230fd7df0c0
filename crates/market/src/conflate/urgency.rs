//! The urgency rule: a quote goes at once when a price has moved too far from the last one sent.

use super::entry::Bbo;

/// The move of a price that makes a quote urgent, relative to the last quote sent. Either side
/// suffices; a side that appears or disappears is always urgent, unless the rule is `NEVER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Urgency {
    /// The move in millionths of the price last sent: 10,000 is one per cent. `None` disables it.
    pub move_ppm: Option<u32>,
    /// The move in 10^-9. `None` disables it.
    pub move_abs: Option<u64>,
}

impl Urgency {
    /// No price makes a quote urgent.
    pub const NEVER: Urgency = Urgency { move_ppm: None, move_abs: None };
    /// A move of at least one per cent.
    pub const ONE_PERCENT: Urgency = Urgency { move_ppm: Some(10_000), move_abs: None };

    /// Returns true when `quote` cannot wait after `sent`.
    #[must_use]
    pub fn is_urgent(&self, sent: &Bbo, quote: &Bbo) -> bool {
        if *self == Urgency::NEVER {
            return false;
        }
        let bid = (sent.bid_px.0, sent.bid_sz.is_zero(), quote.bid_px.0, quote.bid_sz.is_zero());
        let ask = (sent.ask_px.0, sent.ask_sz.is_zero(), quote.ask_px.0, quote.ask_sz.is_zero());
        [bid, ask].into_iter().any(|(sent_px, was_empty, px, is_empty)| {
            was_empty != is_empty || (!is_empty && self.is_too_far(sent_px, px))
        })
    }

    fn is_too_far(&self, sent: i64, price: i64) -> bool {
        if sent == price {
            return false;
        }
        let moved = u128::from(sent.abs_diff(price));
        let is_far =
            |ppm: u32| moved * 1_000_000 >= u128::from(ppm) * u128::from(sent.unsigned_abs());
        self.move_ppm.is_some_and(is_far)
            || self.move_abs.is_some_and(|abs| moved >= u128::from(abs))
    }
}

impl Default for Urgency {
    fn default() -> Urgency {
        Urgency::ONE_PERCENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_types::{Price, Qty};

    fn quote(bid: i64, bid_sz: u64, ask: i64, ask_sz: u64) -> Bbo {
        Bbo { bid_px: Price(bid), bid_sz: Qty(bid_sz), ask_px: Price(ask), ask_sz: Qty(ask_sz) }
    }

    #[test]
    fn a_quote_is_urgent_from_the_stated_move_on() {
        let percent = Urgency::ONE_PERCENT;
        let cent = Urgency { move_ppm: None, move_abs: Some(10_000_000) };
        let both = Urgency { move_ppm: Some(10_000), move_abs: Some(5) };
        let sent = quote(1_000, 1, 2_000, 1);
        for (rule, now, want) in [
            (percent, quote(1_009, 1, 2_000, 1), false),
            (percent, quote(1_010, 1, 2_000, 1), true),
            (percent, quote(990, 1, 2_000, 1), true),
            (percent, quote(1_000, 9, 2_019, 1), false),
            (percent, quote(1_000, 1, 2_020, 1), true),
            (percent, quote(1_000, 0, 2_000, 1), true),
            (Urgency::NEVER, quote(1_000, 0, 9_000, 1), false),
            (cent, quote(10_000_999, 1, 2_000, 1), false),
            (cent, quote(10_001_000, 1, 2_000, 1), true),
            (both, quote(1_004, 1, 2_000, 1), false),
            (both, quote(1_005, 1, 2_000, 1), true),
        ] {
            assert_eq!(rule.is_urgent(&sent, &now), want, "{rule:?} {now:?}");
        }
    }

    #[test]
    fn the_ends_of_the_range_are_judged_without_a_panic() {
        let sent = quote(i64::MIN, 1, 0, 1);
        let rule = Urgency { move_ppm: Some(u32::MAX), move_abs: Some(u64::MAX) };
        assert!(rule.is_urgent(&sent, &quote(i64::MAX, 1, 0, 1)));
        assert!(!rule.is_urgent(&sent, &quote(i64::MIN + 1, 1, 0, 1)));
        assert!(Urgency::ONE_PERCENT.is_urgent(&sent, &quote(i64::MIN, 1, 1, 1)), "from zero");
    }

    #[test]
    fn a_side_without_a_quote_has_no_price_that_could_move() {
        let sent = quote(1_000, 1, 0, 0);
        assert!(!Urgency::ONE_PERCENT.is_urgent(&sent, &quote(1_000, 1, 77, 0)));
    }
}
