//! Updates of books by order.

use weir_feed::update::{Action, TradeFlags, Update, Venue};
use weir_types::{InstrumentId, Price, Qty, Side};

use super::anomaly::Anomaly;
use super::books::Books;
use super::change::{Change, TradePrint};
use super::config::OrderIds;
use super::index::{EntryLocation, Hash};
use super::instrument::BookKind;
use super::store::NewOrder;

/// An order as a feed adds it.
pub(crate) struct AddedOrder {
    pub(crate) order_id: u64,
    pub(crate) side: Side,
    pub(crate) price: Price,
    pub(crate) size: Qty,
}

/// A resting order that was found by its number.
#[derive(Clone, Copy)]
struct Resting {
    place: u32,
    hash: Hash,
    found: EntryLocation,
    size: u64,
}

impl Books {
    /// Finds the order of an update. Where the feed does not name its instrument, sets that in the
    /// change.
    #[inline]
    fn resting(&mut self, order_id: u64, change: &mut Change) -> Option<Resting> {
        let id = change.instrument_id;
        let place = match self.store.order_ids() {
            OrderIds::OfFeed => 0,
            OrderIds::OfInstrument => self.place_or_new(id, change)?,
        };
        let hash = self.store.hash(place, order_id);
        let Some(found) = self.store.find(hash, place, order_id) else {
            change.anomalies.insert(Anomaly::UnknownOrder);
            return None;
        };
        let order = self.store.orders.get(found.slot);
        let (place, size) = (order.instrument, order.size);
        let owner = self.instruments[place as usize].top.id;
        if id == InstrumentId(0) {
            change.instrument_id = owner;
        } else if id != owner {
            self.other_instrument(place, &mut change.anomalies);
            return None;
        }
        Some(Resting { place, hash, found, size })
    }

    #[inline]
    fn take(&mut self, order: &Resting, size: u64, change: &mut Change) {
        let instrument = &mut self.instruments[order.place as usize];
        self.store.take(instrument, order.hash, order.found, size, change);
    }

    #[inline]
    fn settle(&mut self, place: u32, change: &mut Change) {
        self.instruments[place as usize].settle(&self.store.levels, change);
    }

    #[inline]
    pub(crate) fn add(&mut self, id: InstrumentId, order: &AddedOrder, change: &mut Change) {
        let AddedOrder { order_id, side, price, size } = *order;
        let Some(place) = self.place_or_new(id, change) else { return };
        if !self.instruments[place as usize].is_or_becomes(BookKind::ByOrder) {
            return change.anomalies.insert(Anomaly::MixedKinds);
        }
        if size.is_zero() {
            return change.anomalies.insert(Anomaly::ZeroSize);
        }
        let new = NewOrder { place, order_id, side, price, size };
        self.rest(&new, change);
        self.settle(place, change);
    }

    /// Adds an order to the book, evicting a resting order with the same number.
    #[inline]
    fn rest(&mut self, new: &NewOrder, change: &mut Change) {
        let hash = self.store.hash(new.place, new.order_id);
        if let Some(found) = self.store.find(hash, new.place, new.order_id) {
            self.evict(hash, found, change);
        }
        let instrument = &mut self.instruments[new.place as usize];
        self.store.add(instrument, new, hash, change);
    }

    /// Removes an order whose number was used again; it may belong to another instrument.
    #[cold]
    fn evict(&mut self, hash: Hash, found: EntryLocation, change: &mut Change) {
        change.anomalies.insert(Anomaly::DuplicateOrder);
        let order = *self.store.orders.get(found.slot);
        let instrument = &mut self.instruments[order.instrument as usize];
        if instrument.top.id == change.instrument_id {
            return self.store.take(instrument, hash, found, order.size, change);
        }
        // The change of the other instrument is not reported, so that instrument becomes suspect.
        instrument.top.is_suspect = true;
        let mut untold = Change::new(instrument.top.id);
        self.store.take(instrument, hash, found, order.size, &mut untold);
        instrument.settle(&self.store.levels, &mut untold);
    }

    #[inline]
    pub(crate) fn delete(&mut self, order_id: u64, change: &mut Change) {
        let Some(order) = self.resting(order_id, change) else { return };
        self.take(&order, order.size, change);
        self.settle(order.place, change);
    }

    #[inline]
    pub(crate) fn reduce(&mut self, order_id: u64, size: Qty, change: &mut Change) {
        if size.is_zero() {
            return change.anomalies.insert(Anomaly::ZeroSize);
        }
        let Some(order) = self.resting(order_id, change) else { return };
        self.take_at_most(&order, size, change);
        self.settle(order.place, change);
    }

    #[inline]
    fn take_at_most(&mut self, order: &Resting, size: Qty, change: &mut Change) {
        if size.0 > order.size {
            change.anomalies.insert(Anomaly::ExceedsOrder);
        }
        self.take(order, size.0.min(order.size), change);
    }

    #[inline]
    pub(crate) fn execute(&mut self, update: &Update, change: &mut Change) {
        let Action::Execute { order_id, size, price, match_id, is_printable } = update.action
        else {
            return;
        };
        if size.is_zero() {
            return change.anomalies.insert(Anomaly::ZeroSize);
        }
        let Some(order) = self.resting(order_id, change) else { return };
        if is_printable {
            let row = self.store.orders.get(order.found.slot);
            let (side, order_price) = self.store.terms_of(row);
            let print = TradePrint {
                price: price.unwrap_or(order_price),
                size,
                match_id,
                aggressor: Some(side.opposite()),
                venue: Venue::default(),
                flags: TradeFlags::default(),
            };
            self.trade(order.place, print, update.ts_event, change);
        }
        self.take_at_most(&order, size, change);
        self.settle(order.place, change);
    }

    #[inline]
    pub(crate) fn replace(
        &mut self,
        order_id: u64,
        new_order_id: u64,
        price: Price,
        size: Qty,
        change: &mut Change,
    ) {
        let Some(order) = self.resting(order_id, change) else { return };
        let side = self.store.terms_of(self.store.orders.get(order.found.slot)).0;
        self.take(&order, order.size, change);
        if size.is_zero() {
            change.anomalies.insert(Anomaly::ZeroSize);
        } else {
            let place = order.place;
            let new = NewOrder { place, order_id: new_order_id, side, price, size };
            self.rest(&new, change);
        }
        self.settle(order.place, change);
    }

    pub(crate) fn modify(
        &mut self,
        order_id: u64,
        price: Price,
        size: Qty,
        keeps_priority: bool,
        change: &mut Change,
    ) {
        let Some(order) = self.resting(order_id, change) else { return };
        let slot = order.found.slot;
        let (side, old_price) = self.store.terms_of(self.store.orders.get(slot));
        if size.is_zero() || price != old_price {
            self.take(&order, order.size, change);
            if size.is_zero() {
                change.anomalies.insert(Anomaly::ZeroSize);
            } else {
                let new = NewOrder { place: order.place, order_id, side, price, size };
                self.rest(&new, change);
            }
            return self.settle(order.place, change);
        }
        if size.0 <= order.size {
            self.take(&order, order.size - size.0, change);
        } else if !self.store.enlarge(slot, size.0 - order.size, change) {
            change.anomalies.insert(Anomaly::Overflow);
            self.take(&order, order.size, change);
            return self.settle(order.place, change);
        }
        if !keeps_priority {
            self.store.requeue(slot);
        }
        self.settle(order.place, change);
    }
}
