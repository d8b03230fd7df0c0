//! The consolidator: computes the best bid and offer over an instrument's venues from each venue's
//! own quote.
//!
//! The better price wins, then the larger size, then the venue that comes first in the given order.
//! A quote that is no better than the best, from another venue than the best, costs one comparison.
//! When the venue of the best side makes it worse, all venues are scanned once. Nothing is
//! allocated after a venue's first quote of an instrument.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use weir_types::{InstrumentId, Price, Qty};

use crate::update::{Action, Venue};

/// One side of a venue's quote; size zero when it is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Side {
    price: Price,
    size: Qty,
}

/// A venue's quote of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quoted {
    /// The index of the venue.
    place: usize,
    quote: Side,
}

/// The best of one side.
type Best = Option<Quoted>;

/// The quotes of an instrument's venues, and the best of them.
#[derive(Clone, Debug, Default)]
struct Book {
    /// Bid and offer by venue index.
    quotes: Vec<[Side; 2]>,
    best: [Best; 2],
}

/// The venues' quotes of many instruments.
#[derive(Clone, Debug)]
pub struct Consolidator {
    /// The index of each venue code plus one; zero for codes not seen yet.
    places: [u16; 256],
    venues: Vec<Venue>,
    books: HashMap<InstrumentId, Book, FxBuildHasher>,
}

/// The index of the bid; the offer has index 1.
const BID: usize = 0;

/// Returns true when `this` ranks before `that` on a side; among equals the lower index wins.
fn is_better(side: usize, this: Quoted, that: Quoted) -> bool {
    let bid = this.quote.price.cmp(&that.quote.price);
    let by_price = if side == BID { bid } else { bid.reverse() };
    let by_size = this.quote.size.cmp(&that.quote.size);
    by_price.then(by_size).then(that.place.cmp(&this.place)).is_gt()
}

impl Book {
    /// Sets one side of the venue at `place`; returns true when the best of that side changed.
    fn set(&mut self, side: usize, place: usize, quote: Side) -> bool {
        if self.quotes[place][side] == quote {
            return false;
        }
        self.quotes[place][side] = quote;
        let quoted = Quoted { place, quote };
        let before = self.best[side];
        let has_quote = !quote.size.is_zero();
        let is_best_now = match before {
            None => has_quote,
            Some(best) => has_quote && is_better(side, quoted, best),
        };
        if is_best_now {
            self.best[side] = Some(quoted);
        } else if before.is_some_and(|best| best.place == place) {
            self.best[side] = self.look_through(side);
        }
        self.best[side] != before
    }

    fn look_through(&self, side: usize) -> Best {
        let mut best: Best = None;
        for (place, quote) in self.quotes.iter().enumerate() {
            let quoted = Quoted { place, quote: quote[side] };
            if !quoted.quote.size.is_zero() && best.is_none_or(|it| is_better(side, quoted, it)) {
                best = Some(quoted);
            }
        }
        best
    }
}

impl Consolidator {
    /// Creates a consolidator that, among equals, prefers venues in this order. Other venues follow
    /// in the order in which they first appear.
    #[must_use]
    pub fn new(order: &[Venue]) -> Consolidator {
        let books = HashMap::default();
        let mut it = Consolidator { places: [0; 256], venues: Vec::new(), books };
        for venue in order {
            it.place_of(*venue);
        }
        it
    }

    /// Takes an update: a quote replaces its venue's, a clear removes all quotes of the instrument,
    /// or of all instruments with instrument zero. Returns the best bid and offer if it changed;
    /// after a clear of all instruments, returns `None`.
    pub fn update(&mut self, instrument_id: InstrumentId, action: &Action) -> Option<Action> {
        match *action {
            Action::Quote { venue, bid_px, bid_sz, ask_px, ask_sz } => {
                let place = self.place_of(venue);
                let book = self.books.entry(instrument_id).or_default();
                if book.quotes.len() <= place {
                    book.quotes.resize(self.venues.len(), [Side::default(); 2]);
                }
                let is_new_bid = book.set(BID, place, Side { price: bid_px, size: bid_sz });
                let is_new_ask = book.set(1, place, Side { price: ask_px, size: ask_sz });
                (is_new_bid || is_new_ask).then(|| self.best(instrument_id))
            }
            Action::Clear if instrument_id.is_none() => {
                self.books.values_mut().for_each(Book::clear);
                None
            }
            Action::Clear => {
                let book = self.books.get_mut(&instrument_id)?;
                let had_any = book.best != [None; 2];
                book.clear();
                had_any.then(|| self.best(instrument_id))
            }
            _ => None,
        }
    }

    /// Returns the best bid and offer as [`Action::Consolidated`]; an empty side has size zero.
    #[must_use]
    pub fn best(&self, instrument_id: InstrumentId) -> Action {
        let best = self.books.get(&instrument_id).map_or([None; 2], |book| book.best);
        let side = |best: Best| {
            best.map_or((Venue::default(), Side::default()), |best| {
                (self.venues[best.place], best.quote)
            })
        };
        let ((bid_venue, bid), (ask_venue, ask)) = (side(best[0]), side(best[1]));
        Action::Consolidated {
            bid_venue,
            ask_venue,
            bid_px: bid.price,
            bid_sz: bid.size,
            ask_px: ask.price,
            ask_sz: ask.size,
        }
    }

    fn place_of(&mut self, venue: Venue) -> usize {
        let place = &mut self.places[usize::from(venue.0)];
        if *place == 0 {
            self.venues.push(venue);
            *place = u16::try_from(self.venues.len()).expect("no more venues than codes");
        }
        usize::from(*place) - 1
    }
}

impl Book {
    fn clear(&mut self) {
        self.quotes.fill([Side::default(); 2]);
        self.best = [None; 2];
    }
}
