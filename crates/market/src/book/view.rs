//! Queries of the books' state.

use weir_feed::update::{TradingState, Venue};
use weir_types::{InstrumentId, Price, Qty, Side};

use super::arena::Order;
use super::books::Books;
use super::change::{BestBidOffer, BookLevel};
use super::index::{NIL, fold};
use super::instrument::{BookKind, Cold, Instrument, SIDES, book_level};
use super::quotes::VenueQuotes;
use super::statistics::Statistics;

/// A venue's last quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VenueQuote {
    /// The venue.
    pub venue: Venue,
    /// Its bid and offer.
    pub quote: BestBidOffer,
}

/// A resting order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestingOrder {
    /// The feed's number of the order.
    pub order_id: u64,
    /// Its price, in 10^-9.
    pub price: Price,
    /// The remaining quantity.
    pub size: Qty,
}

/// An order's position in the queue of its price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePosition {
    /// The side of the order.
    pub side: Side,
    /// The order.
    pub order: RestingOrder,
    /// Orders ahead of it at its price.
    pub orders_ahead: u32,
    /// The total quantity of the orders ahead.
    pub size_ahead: Qty,
}

impl Books {
    fn instrument(&self, id: InstrumentId) -> Option<&Instrument> {
        self.directory.get(id).map(|place| &self.instruments[place as usize])
    }

    fn cold(&self, id: InstrumentId) -> Option<&Cold> {
        self.directory.get(id).map(|place| &self.cold[place as usize])
    }

    /// Iterates over all known instruments, in order of their first update.
    pub fn instruments(&self) -> impl Iterator<Item = InstrumentId> {
        self.instruments.iter().map(|instrument| instrument.top.id)
    }

    /// Returns the best bid and offer; empty for an unknown instrument. Within a group of updates
    /// by price, returns the state before the group.
    #[must_use]
    #[inline]
    pub fn best(&self, id: InstrumentId) -> BestBidOffer {
        self.instrument(id).map_or_else(BestBidOffer::default, |instrument| instrument.top.best)
    }

    /// Returns the kind of an instrument's book.
    #[must_use]
    pub fn kind(&self, id: InstrumentId) -> BookKind {
        self.instrument(id).map_or(BookKind::Empty, |instrument| instrument.top.kind)
    }

    /// Returns the trading state of an instrument; `None` until the feed reports it.
    #[must_use]
    pub fn state(&self, id: InstrumentId) -> Option<TradingState> {
        self.instrument(id).and_then(|instrument| instrument.top.state)
    }

    /// Returns the statistics of the day; empty for an unknown instrument.
    #[must_use]
    pub fn statistics(&self, id: InstrumentId) -> Statistics {
        self.cold(id).map_or_else(Statistics::default, |cold| cold.statistics)
    }

    /// Iterates over the venues' last quotes, in the order in which venues first appeared.
    pub fn quotes(&self, id: InstrumentId) -> impl Iterator<Item = VenueQuote> {
        let quotes = self.directory.get(id).and_then(|place| self.quotes.get(place as usize));
        quotes.into_iter().flat_map(VenueQuotes::iter)
    }

    /// Iterates over the best `depth` levels of a side, the best first.
    pub fn levels(
        &self,
        id: InstrumentId,
        side: Side,
        depth: usize,
    ) -> impl Iterator<Item = BookLevel> {
        let rungs = self.instrument(id).map(|instrument| instrument.ladder(side).iter());
        let rungs = rungs.into_iter().flatten().take(depth);
        rungs.map(|rung| book_level(self.store.levels.get(rung.level)))
    }

    /// Iterates over the orders of a side in priority: the best price first, the oldest first at
    /// each price.
    pub fn orders(&self, id: InstrumentId, side: Side) -> impl Iterator<Item = RestingOrder> {
        let rungs = self.instrument(id).map(|instrument| instrument.ladder(side).iter());
        rungs.into_iter().flatten().flat_map(move |rung| {
            let level = self.store.levels.get(rung.level);
            let price = book_level(level).price;
            self.queue(level.head).map(move |order| resting(order, price))
        })
    }

    /// Iterates over the orders of a queue, starting at `head`.
    fn queue(&self, head: u32) -> impl Iterator<Item = &Order> {
        let find = |slot| (slot != NIL).then(|| self.store.orders.get(slot));
        std::iter::successors(find(head), move |order| find(order.newer))
    }

    /// Returns an order's position in its queue; `None` when it does not rest. Costs one step for
    /// each order ahead.
    #[must_use]
    pub fn queue_position(&self, id: InstrumentId, order_id: u64) -> Option<QueuePosition> {
        let place = self.directory.get(id)?;
        let found = self.store.find(self.store.hash(place, order_id), place, order_id)?;
        let order = self.store.orders.get(found.slot);
        if order.instrument != place {
            return None;
        }
        let (side, price) = self.store.terms_of(order);
        let head = self.store.levels.get(order.level).head;
        let ahead = self.queue(head).take_while(|other| other.order_id != order_id);
        let (orders_ahead, size_ahead) =
            ahead.fold((0, 0), |(count, size), other| (count + 1, size + other.size));
        let (order, size_ahead) = (resting(order, price), Qty(size_ahead));
        Some(QueuePosition { side, order, orders_ahead, size_ahead })
    }

    /// Returns the number of resting orders of all instruments.
    #[must_use]
    pub fn order_count(&self) -> u32 {
        self.store.orders.live_count()
    }

    /// Returns the number of levels of all instruments and both sides.
    #[must_use]
    pub fn level_count(&self) -> u32 {
        self.store.levels.live_count()
    }

    /// Returns a digest of an instrument's book: levels, orders in priority, quotes. Equal books
    /// have equal digests, regardless of the updates that led there, on every machine, and in every
    /// version whose release notes say so; statistics and marks are not included.
    #[must_use]
    pub fn digest(&self, id: InstrumentId) -> u64 {
        let mut digest = Digest(0x9e37_79b9_7f4a_7c15);
        for side in SIDES {
            digest.add(side as u64);
            for level in self.levels(id, side, usize::MAX) {
                digest.add(level.price.0.cast_unsigned());
                digest.add(level.size.0);
                digest.add(u64::from(level.order_count));
            }
            for order in self.orders(id, side) {
                digest.add(order.order_id);
                digest.add(order.size.0);
            }
        }
        if self.kind(id) == BookKind::Quotes {
            digest.add_quote(&self.best(id));
            for quote in self.quotes(id) {
                digest.add(u64::from(quote.venue.0));
                digest.add_quote(&quote.quote);
            }
        }
        digest.0
    }

    /// Returns a digest of all books. Empty instruments and the order in which instruments first
    /// appeared do not affect it.
    #[must_use]
    pub fn digest_all(&self) -> u64 {
        let empty = self.digest(InstrumentId(0));
        let of = |id: InstrumentId| (id, self.digest(id));
        let held = self.instruments().map(of).filter(|(_, digest)| *digest != empty);
        held.fold(0, |sum: u64, (id, digest)| {
            let mut both = Digest(digest);
            both.add(u64::from(id.0));
            sum.wrapping_add(both.0)
        })
    }
}

fn resting(order: &Order, price: Price) -> RestingOrder {
    RestingOrder { order_id: order.order_id, price, size: Qty(order.size) }
}

struct Digest(u64);

impl Digest {
    fn add(&mut self, word: u64) {
        // Folding alone would erase all earlier state with the one word that cancels it.
        self.0 = fold(self.0 ^ word, 0x9fb2_1c65_1e98_df25) ^ self.0.rotate_left(23);
    }

    fn add_quote(&mut self, quote: &BestBidOffer) {
        for side in SIDES {
            let level = quote.of(side).unwrap_or_default();
            self.add(level.price.0.cast_unsigned());
            self.add(level.size.0);
        }
        self.add(u64::from(quote.bid_venue.0) << 8 | u64::from(quote.ask_venue.0));
    }
}
