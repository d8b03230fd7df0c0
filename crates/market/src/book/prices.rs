//! Updates of books by price and of quotes.

use weir_feed::update::{Action, Update, Venue};
use weir_types::Price;

use super::anomaly::Anomaly;
use super::books::Books;
use super::change::{BestBidOffer, BookLevel, Change, LevelChange};
use super::instrument::BookKind;
use super::quotes::Sides;

impl Books {
    /// Sets a level of a book by price. The best bid and offer does not change before the last
    /// update of a group, because the states within a group never existed in the market.
    pub(crate) fn level(&mut self, update: &Update, change: &mut Change) {
        let Action::Level { side, price, size, order_count, is_last } = update.action else {
            return;
        };
        let Some(place) = self.place_or_new(update.instrument_id, change) else { return };
        let instrument = &mut self.instruments[place as usize];
        if !instrument.is_or_becomes(BookKind::ByPrice) {
            return change.anomalies.insert(Anomaly::MixedKinds);
        }
        let touched = LevelChange { side, level: BookLevel { price, size, order_count } };
        self.store.set_level(instrument, touched, change);
        match (is_last, instrument.top.is_pending) {
            (false, _) => instrument.top.is_pending = true,
            (true, false) => instrument.settle(&self.store.levels, change),
            (true, true) => {
                instrument.top.is_pending = false;
                instrument.settle_all(&self.store.levels, change);
            }
        }
    }

    /// Takes a venue's quote, or the feed's best bid and offer over all venues. For a feed of one
    /// venue, its quote is the best bid and offer. For a feed of several, only a consolidated quote
    /// is, and the quotes of single venues are stored separately.
    pub(crate) fn quote(&mut self, update: &Update, change: &mut Change) {
        let none = BestBidOffer::default();
        let (best, venue) = match update.action {
            Action::Quote { venue, bid_px, bid_sz, ask_px, ask_sz } => {
                let (bid_venue, ask_venue) = (venue, venue);
                let stated =
                    BestBidOffer { bid_px, bid_sz, ask_px, ask_sz, bid_venue, ask_venue, ..none };
                (without_empty_sides(stated), Some(venue))
            }
            Action::Consolidated { bid_venue, ask_venue, bid_px, bid_sz, ask_px, ask_sz } => {
                let stated =
                    BestBidOffer { bid_px, bid_sz, ask_px, ask_sz, bid_venue, ask_venue, ..none };
                (without_empty_sides(stated), None)
            }
            _ => return,
        };
        let Some(place) = self.place_or_new(update.instrument_id, change) else { return };
        let instrument = &mut self.instruments[place as usize];
        if !instrument.is_or_becomes(BookKind::Quotes) {
            return change.anomalies.insert(Anomaly::MixedKinds);
        }
        match venue.filter(|venue| *venue != Venue::default()) {
            None => instrument.tell(best, change),
            Some(venue) => {
                let BestBidOffer { bid_px, bid_sz, ask_px, ask_sz, .. } = best;
                let sides = Sides { bid_px, bid_sz, ask_px, ask_sz };
                if !self.quotes[place as usize].set(venue, sides) {
                    change.anomalies.insert(Anomaly::LimitReached);
                }
            }
        }
    }
}

/// Returns a quote with neither price nor venue on a side that has no quantity.
fn without_empty_sides(mut quote: BestBidOffer) -> BestBidOffer {
    if quote.bid_sz.is_zero() {
        (quote.bid_px, quote.bid_venue) = (Price(0), Venue::default());
    }
    if quote.ask_sz.is_zero() {
        (quote.ask_px, quote.ask_venue) = (Price(0), Venue::default());
    }
    quote
}
