//! Quotes of an instrument's venues, for feeds of several venues. One cache line lists the venues,
//! so that a quote costs two memory accesses, however many venues there are.

use weir_feed::update::Venue;
use weir_types::{Price, Qty};

use super::change::BestBidOffer;
use super::view::VenueQuote;

/// The most venues of an instrument: one for each letter and digit, the codes that feeds use.
pub(crate) const VENUES_MAX: usize = 36;

/// Both sides of a venue's quote; an empty side is all zero.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sides {
    pub(crate) bid_px: Price,
    pub(crate) bid_sz: Qty,
    pub(crate) ask_px: Price,
    pub(crate) ask_sz: Qty,
}

/// The list of venues; with the header of the vector of quotes it fills one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct VenueQuotes {
    /// The venues in order of their first quote; only the first `quotes.len()` entries are valid.
    venues: [Venue; VENUES_MAX],
    quotes: Vec<Sides>,
}

impl Default for VenueQuotes {
    fn default() -> VenueQuotes {
        VenueQuotes { venues: [Venue::default(); VENUES_MAX], quotes: Vec::new() }
    }
}

impl VenueQuotes {
    /// Returns a venue's quote, if it has one.
    #[inline]
    pub(crate) fn find(&self, venue: Venue) -> Option<&Sides> {
        let at = self.venues.iter().take(self.quotes.len()).position(|known| *known == venue)?;
        self.quotes.get(at)
    }

    /// Sets a venue's quote; returns false when there is no room for another venue.
    #[inline]
    pub(crate) fn set(&mut self, venue: Venue, sides: Sides) -> bool {
        let count = self.quotes.len();
        match self.venues.iter().take(count).position(|known| *known == venue) {
            Some(at) => self.quotes[at] = sides,
            None if count < VENUES_MAX => {
                self.venues[count] = venue;
                self.quotes.push(sides);
            }
            None => return false,
        }
        true
    }

    /// Removes all quotes.
    pub(crate) fn clear(&mut self) {
        self.quotes.clear();
    }

    /// Iterates over the quotes, in the order in which venues first appeared.
    pub(crate) fn iter(&self) -> impl Iterator<Item = VenueQuote> + use<'_> {
        self.venues.iter().zip(&self.quotes).map(|(venue, sides)| {
            let Sides { bid_px, bid_sz, ask_px, ask_sz } = *sides;
            let of = |size: Qty| if size.is_zero() { Venue::default() } else { *venue };
            let (bid_venue, ask_venue) = (of(bid_sz), of(ask_sz));
            let counts = BestBidOffer::default();
            VenueQuote {
                venue: *venue,
                quote: BestBidOffer {
                    bid_px,
                    bid_sz,
                    ask_px,
                    ask_sz,
                    bid_venue,
                    ask_venue,
                    ..counts
                },
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sides(size: u64) -> Sides {
        Sides { bid_sz: Qty(size), bid_px: Price(1), ..Sides::default() }
    }

    #[test]
    fn it_takes_one_line() {
        assert_eq!(size_of::<VenueQuotes>(), 64);
    }

    #[test]
    fn venues_have_one_quote_each_until_there_is_no_room() {
        let mut quotes = VenueQuotes::default();
        for round in 1..3 {
            for venue in 1..=VENUES_MAX as u8 {
                assert!(quotes.set(Venue(venue), sides(round)));
            }
        }
        assert!(!quotes.set(Venue(200), sides(1)));
        assert!(quotes.find(Venue(200)).is_none());
        assert_eq!(quotes.iter().count(), VENUES_MAX);
        assert!(quotes.iter().all(|quote| quote.quote.bid_sz == Qty(2)));
        assert!(quotes.iter().all(|quote| quote.quote.ask_venue == Venue::default()));
        quotes.clear();
        assert!(quotes.find(Venue(1)).is_none());
    }
}
