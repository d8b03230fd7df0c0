//! A slow, simple model of a book: sorted maps of prices, lists of orders, sums over all.

use std::collections::BTreeMap;

use Anomaly::{
    Crossed, DuplicateOrder, ExceedsOrder, LimitReached, MixedKinds, OtherInstrument, Overflow,
    UnknownInstrument, UnknownOrder, UnknownTrade, ZeroSize,
};
use weir_feed::{Action, SystemEvent, TradeFlags, TradingState, Update, Venue};
use weir_market::book::{Anomaly, BestBidOffer, BookKind, BookLevel, OrderIds};
use weir_types::{InstrumentId, Price, Qty, Side};

#[derive(Clone, Default)]
pub(crate) struct Trade {
    pub(crate) price: i64,
    pub(crate) size: u64,
    pub(crate) flags: TradeFlags,
    match_id: u64,
    is_broken: bool,
}

/// The orders at a price, oldest first, or the total stated by the feed.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelLevel {
    pub(crate) orders: Vec<(u64, u64)>,
    stated: (u64, u32),
}

impl ModelLevel {
    pub(crate) fn total(&self) -> (u64, u32) {
        match self.orders.len() as u32 {
            0 => self.stated,
            count => (self.orders.iter().map(|order| order.1).sum(), count),
        }
    }
}

/// An order that is to rest.
struct ModelOrder {
    order_id: u64,
    side: Side,
    price: i64,
    size: u64,
}

#[derive(Clone, Default)]
pub(crate) struct ModelBook {
    pub(crate) sides: [BTreeMap<i64, ModelLevel>; 2],
    pub(crate) best: BestBidOffer,
    pub(crate) kind: BookKind,
    pub(crate) state: Option<TradingState>,
    pub(crate) is_suspect: bool,
    is_crossed: bool,
    pub(crate) trades: Vec<Trade>,
    pub(crate) break_count: u64,
    pub(crate) is_range_uncertain: bool,
}

pub(crate) struct Model {
    pub(crate) books: BTreeMap<u32, ModelBook>,
    pub(crate) order_ids: OrderIds,
    pub(crate) orders_max: usize,
    pub(crate) levels_per_side_max: usize,
}

pub(crate) fn index_of(side: Side) -> usize {
    usize::from(side == Side::Sell)
}

impl ModelBook {
    /// Returns the levels of a side, the best first.
    pub(crate) fn levels(&self, side: Side) -> Vec<(i64, &ModelLevel)> {
        let mut levels: Vec<_> =
            self.sides[index_of(side)].iter().map(|(price, level)| (*price, level)).collect();
        if side == Side::Buy {
            levels.reverse();
        }
        levels
    }

    fn find(&self, order_id: u64) -> Option<(Side, i64, usize)> {
        [Side::Buy, Side::Sell].into_iter().find_map(|side| {
            self.sides[index_of(side)].iter().find_map(|(price, level)| {
                let at = level.orders.iter().position(|order| order.0 == order_id)?;
                Some((side, *price, at))
            })
        })
    }

    fn take(&mut self, order_id: u64, size: u64) {
        let Some((side, price, at)) = self.find(order_id) else { return };
        let levels = &mut self.sides[index_of(side)];
        let level = levels.get_mut(&price).expect("it was found there");
        level.orders[at].1 -= size;
        level.orders.retain(|order| order.1 != 0);
        if level.orders.is_empty() {
            levels.remove(&price);
        }
    }

    fn settle(&mut self, anomalies: &mut Vec<Anomaly>) {
        let mut best = BestBidOffer::default();
        if let Some((price, level)) = self.levels(Side::Buy).first() {
            let (size, count) = level.total();
            (best.bid_px, best.bid_sz, best.bid_count) = (Price(*price), Qty(size), count);
        }
        if let Some((price, level)) = self.levels(Side::Sell).first() {
            let (size, count) = level.total();
            (best.ask_px, best.ask_sz, best.ask_count) = (Price(*price), Qty(size), count);
        }
        self.tell(best, anomalies);
    }

    fn tell(&mut self, best: BestBidOffer, anomalies: &mut Vec<Anomaly>) {
        if best == self.best {
            return;
        }
        self.best = best;
        let both = best.bid_sz.0 > 0 && best.ask_sz.0 > 0;
        let is_crossed = both && best.bid_px >= best.ask_px && self.kind != BookKind::Quotes;
        if is_crossed && !self.is_crossed && self.state == Some(TradingState::Trading) {
            anomalies.push(Crossed);
        }
        self.is_crossed = is_crossed;
    }

    fn becomes(&mut self, kind: BookKind) -> bool {
        if self.kind == BookKind::Empty {
            self.kind = kind;
        }
        self.kind == kind
    }

    fn trade(&mut self, trade: Trade, anomalies: &mut Vec<Anomaly>) {
        let counts =
            |trade: &&Trade| !trade.is_broken && !trade.flags.contains(TradeFlags::NOT_VOLUME);
        let volume: u64 = self.trades.iter().filter(counts).map(|trade| trade.size).sum();
        if counts(&&trade) && volume.checked_add(trade.size).is_none() {
            return anomalies.push(Overflow);
        }
        self.trades.push(trade);
    }

    fn break_trade(&mut self, match_id: u64, anomalies: &mut Vec<Anomaly>) {
        self.break_count += 1;
        let mut named = self.trades.iter_mut().filter(|trade| trade.match_id == match_id);
        match named.next().filter(|trade| match_id != 0 && !trade.is_broken) {
            Some(trade) => trade.is_broken = true,
            None => {
                anomalies.push(UnknownTrade);
                self.is_range_uncertain = true;
            }
        }
    }
}

impl Model {
    /// Takes an update; returns its anomalies.
    pub(crate) fn apply(&mut self, update: &Update) -> Vec<Anomaly> {
        let mut anomalies = Vec::new();
        let owner = self.act(update, &mut anomalies);
        let id = owner.unwrap_or(update.instrument_id.0);
        if id != 0 && anomalies.iter().any(|anomaly| *anomaly != UnknownTrade) {
            self.books.entry(id).or_default().is_suspect = true;
        }
        anomalies.sort_unstable();
        anomalies.dedup();
        anomalies
    }

    fn order_count(&self) -> usize {
        let sides = self.books.values().flat_map(|book| &book.sides);
        sides.flat_map(BTreeMap::values).map(|level| level.orders.len()).sum()
    }

    fn level_count(&self) -> usize {
        self.books.values().flat_map(|book| &book.sides).map(BTreeMap::len).sum()
    }

    fn book(&mut self, id: u32, anomalies: &mut Vec<Anomaly>) -> Option<&mut ModelBook> {
        if id == 0 {
            anomalies.push(UnknownInstrument);
            return None;
        }
        Some(self.books.entry(id).or_default())
    }

    /// Returns the instrument of an order.
    fn owner(&mut self, id: u32, order_id: u64, anomalies: &mut Vec<Anomaly>) -> Option<u32> {
        let of_feed = self.order_ids == OrderIds::OfFeed;
        if !of_feed {
            self.book(id, anomalies)?;
        }
        let mut books = self.books.iter_mut().filter(|(other, _)| of_feed || **other == id);
        let Some((owner, book)) = books.find(|(_, book)| book.find(order_id).is_some()) else {
            anomalies.push(UnknownOrder);
            return None;
        };
        if id != 0 && id != *owner {
            anomalies.push(OtherInstrument);
            book.is_suspect = true;
            return None;
        }
        Some(*owner)
    }

    /// Adds an order at the end of its price's queue.
    fn rest(&mut self, id: u32, order: &ModelOrder, anomalies: &mut Vec<Anomaly>) {
        let ModelOrder { order_id, side, price, size } = *order;
        let of_feed = self.order_ids == OrderIds::OfFeed;
        for (other, book) in &mut self.books {
            if (of_feed || *other == id) && book.find(order_id).is_some() {
                anomalies.push(DuplicateOrder);
                book.take(order_id, Model::size_of(book, order_id));
                if *other != id {
                    book.is_suspect = true;
                    book.settle(&mut Vec::new());
                }
            }
        }
        let is_full = self.order_count() >= self.orders_max;
        let has_no_levels = self.level_count() >= self.orders_max;
        let levels_max = self.levels_per_side_max;
        let levels = &mut self.books.get_mut(&id).expect("it was made").sides[index_of(side)];
        let is_wide = levels.len() >= levels_max;
        match levels.get_mut(&price) {
            _ if is_full => anomalies.push(LimitReached),
            Some(level) if level.total().0.checked_add(size).is_none() => anomalies.push(Overflow),
            Some(level) => level.orders.push((order_id, size)),
            None if is_wide || has_no_levels => anomalies.push(LimitReached),
            None => levels.entry(price).or_default().orders.push((order_id, size)),
        }
    }

    fn size_of(book: &ModelBook, order_id: u64) -> u64 {
        let (side, price, at) = book.find(order_id).expect("it rests");
        book.sides[index_of(side)][&price].orders[at].1
    }

    /// Applies an update; returns the instrument where the update does not name it.
    fn act(&mut self, update: &Update, anomalies: &mut Vec<Anomaly>) -> Option<u32> {
        let id = update.instrument_id.0;
        match update.action {
            Action::Add { order_id, side, price, size } => {
                let book = self.book(id, anomalies)?;
                match size.0 {
                    _ if !book.becomes(BookKind::ByOrder) => anomalies.push(MixedKinds),
                    0 => anomalies.push(ZeroSize),
                    size => {
                        self.rest(
                            id,
                            &ModelOrder { order_id, side, price: price.0, size },
                            anomalies,
                        );
                        self.books.get_mut(&id)?.settle(anomalies);
                    }
                }
                None
            }
            Action::Execute { .. } | Action::Reduce { .. } | Action::Delete { .. } => {
                self.shrink(update, anomalies)
            }
            Action::Replace { .. } | Action::Modify { .. } => self.alter(update, anomalies),
            Action::Level { side, price, size, order_count, is_last } => {
                let level = BookLevel { price, size, order_count };
                self.state_level(id, side, level, is_last, anomalies);
                None
            }
            Action::Clear if id == 0 => {
                self.books.values_mut().for_each(ModelBook::clear);
                None
            }
            Action::System(SystemEvent::StartOfMessages) => {
                for book in self.books.values_mut() {
                    (book.trades, book.break_count) = (Vec::new(), 0);
                    book.is_range_uncertain = false;
                }
                None
            }
            Action::Status { state, .. } if id == 0 => {
                self.books.values_mut().for_each(|book| book.state = Some(state));
                None
            }
            action => {
                let book = self.book(id, anomalies)?;
                book.act(action, anomalies);
                None
            }
        }
    }

    fn shrink(&mut self, update: &Update, anomalies: &mut Vec<Anomaly>) -> Option<u32> {
        let (order_id, wanted, trade) = match update.action {
            Action::Execute { order_id, size, price, match_id, is_printable } => {
                (order_id, Some(size.0), is_printable.then_some((price, match_id)))
            }
            Action::Reduce { order_id, size } => (order_id, Some(size.0), None),
            Action::Delete { order_id } => (order_id, None, None),
            _ => return None,
        };
        if wanted == Some(0) {
            anomalies.push(ZeroSize);
            return None;
        }
        let owner = self.owner(update.instrument_id.0, order_id, anomalies)?;
        let book = self.books.get_mut(&owner)?;
        let rests = Model::size_of(book, order_id);
        if wanted.is_some_and(|wanted| wanted > rests) {
            anomalies.push(ExceedsOrder);
        }
        if let (Some((price, match_id)), Some(size)) = (trade, wanted) {
            let price = price.map_or(book.find(order_id)?.1, |price| price.0);
            book.trade(Trade { price, size, match_id, ..Trade::default() }, anomalies);
        }
        book.take(order_id, wanted.unwrap_or(rests).min(rests));
        book.settle(anomalies);
        Some(owner)
    }

    fn alter(&mut self, update: &Update, anomalies: &mut Vec<Anomaly>) -> Option<u32> {
        let (order_id, new_id, price, size, keeps) = match update.action {
            Action::Replace { order_id, new_order_id, price, size } => {
                (order_id, new_order_id, price.0, size.0, false)
            }
            Action::Modify { order_id, price, size, keeps_priority } => {
                (order_id, order_id, price.0, size.0, keeps_priority)
            }
            _ => return None,
        };
        let owner = self.owner(update.instrument_id.0, order_id, anomalies)?;
        let book = self.books.get_mut(&owner)?;
        let (side, old_price, at) = book.find(order_id)?;
        let rests = Model::size_of(book, order_id);
        if size == 0 {
            anomalies.push(ZeroSize);
            book.take(order_id, rests);
        } else if keeps && price == old_price {
            let level = book.sides[index_of(side)].get_mut(&price)?;
            if (level.total().0 - rests).checked_add(size).is_none() {
                anomalies.push(Overflow);
                book.take(order_id, rests);
            } else {
                level.orders[at].1 = size;
            }
        } else {
            book.take(order_id, rests);
            self.rest(owner, &ModelOrder { order_id: new_id, side, price, size }, anomalies);
        }
        self.books.get_mut(&owner)?.settle(anomalies);
        Some(owner)
    }

    fn state_level(
        &mut self,
        id: u32,
        side: Side,
        level: BookLevel,
        is_last: bool,
        anomalies: &mut Vec<Anomaly>,
    ) {
        let (price, stated) = (level.price.0, (level.size.0, level.order_count));
        let levels_max = self.levels_per_side_max;
        let has_no_levels = self.level_count() >= self.orders_max;
        let Some(book) = self.book(id, anomalies) else { return };
        if !book.becomes(BookKind::ByPrice) {
            return anomalies.push(MixedKinds);
        }
        let levels = &mut book.sides[index_of(side)];
        let is_new = !levels.contains_key(&price);
        if stated.0 == 0 {
            levels.remove(&price);
        } else if is_new && (has_no_levels || levels.len() >= levels_max) {
            anomalies.push(LimitReached);
        } else {
            levels.insert(price, ModelLevel { stated, ..ModelLevel::default() });
        }
        if is_last {
            book.settle(anomalies);
        }
    }
}

impl ModelBook {
    fn clear(&mut self) {
        *self = ModelBook {
            state: self.state,
            trades: std::mem::take(&mut self.trades),
            break_count: self.break_count,
            is_range_uncertain: self.is_range_uncertain,
            ..ModelBook::default()
        };
    }

    fn act(&mut self, action: Action, anomalies: &mut Vec<Anomaly>) {
        match action {
            Action::Clear => self.clear(),
            Action::Status { state, .. } => self.state = Some(state),
            Action::Trade { size: Qty(0), .. } => anomalies.push(ZeroSize),
            Action::Trade { price, size, match_id, flags, .. } => {
                let (price, size) = (price.0, size.0);
                self.trade(Trade { price, size, flags, match_id, is_broken: false }, anomalies);
            }
            Action::TradeBreak { match_id, .. } => self.break_trade(match_id, anomalies),
            Action::Consolidated { bid_venue, ask_venue, bid_px, bid_sz, ask_px, ask_sz } => {
                if !self.becomes(BookKind::Quotes) {
                    return anomalies.push(MixedKinds);
                }
                let mut best = BestBidOffer::default();
                if bid_sz.0 > 0 {
                    (best.bid_px, best.bid_sz, best.bid_venue) = (bid_px, bid_sz, bid_venue);
                }
                if ask_sz.0 > 0 {
                    (best.ask_px, best.ask_sz, best.ask_venue) = (ask_px, ask_sz, ask_venue);
                }
                self.tell(best, anomalies);
            }
            Action::Quote { venue: Venue(0), bid_px, bid_sz, ask_px, ask_sz } => {
                let (bid_venue, ask_venue) = (Venue(0), Venue(0));
                let consolidated =
                    Action::Consolidated { bid_venue, ask_venue, bid_px, bid_sz, ask_px, ask_sz };
                self.act(consolidated, anomalies);
            }
            // A venue's own quote is separate from the best one.
            Action::Quote { .. } if !self.becomes(BookKind::Quotes) => anomalies.push(MixedKinds),
            _ => {}
        }
    }

    /// Returns volume, turnover, number of trades, and open, high, low and last.
    pub(crate) fn day(&self) -> (u64, i128, u64, [Option<i64>; 4]) {
        let standing = || self.trades.iter().filter(|trade| !trade.is_broken);
        let without = |flag| standing().filter(move |trade: &&Trade| !trade.flags.contains(flag));
        let counted = || without(TradeFlags::NOT_VOLUME);
        let cash = |trade: &Trade| i128::from(trade.price) * i128::from(trade.size);
        let lasting: Vec<i64> = without(TradeFlags::NOT_LAST).map(|trade| trade.price).collect();
        let ranging = || without(TradeFlags::NOT_HIGH_LOW).map(|trade| trade.price);
        let prices = [lasting.first().copied(), ranging().max(), ranging().min()];
        let [open, high, low] = prices;
        let volume = counted().map(|trade| trade.size).sum();
        let turnover = counted().map(cash).sum();
        (volume, turnover, counted().count() as u64, [open, high, low, lasting.last().copied()])
    }
}

/// Iterates over the instruments of a model's books.
pub(crate) fn ids(model: &Model) -> impl Iterator<Item = InstrumentId> {
    model.books.keys().map(|id| InstrumentId(*id))
}
