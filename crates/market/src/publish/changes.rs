//! Publication of each change of an order.
//!
//! No event states that an order starts to rest: that follows from the book, and is published as
//! soon as it follows. A matching order is incoming until no resting order meets its limit any
//! more; while one does, the engine has more events in the same command. So the messages do not
//! depend on the timing of events.

use weir_types::{ExecType, Liquidity, OrdType, Phase, Qty, Rec, SelfTradePrevention, TimeInForce};

use super::orders::{Order, OrderLocation};
use super::publication::Publication;
use super::{OrderChange, PublishSink};

impl Publication {
    /// Takes a change of an order.
    pub fn order(&mut self, change: &OrderChange, out: &mut impl PublishSink) {
        if change.rec.is_none() {
            return;
        }
        self.advance(change.time, out);
        match change.exec_type {
            ExecType::New => self.accepted(change, out),
            ExecType::Trade => self.traded(change, out),
            ExecType::Replaced => self.replaced(change, out),
            ExecType::Restated => self.restated(change, out),
            ExecType::Triggered => self.triggered(change, out),
            ExecType::Canceled | ExecType::Expired => self.ended(change, out),
            ExecType::Rejected => {}
        }
    }

    /// Returns a known order; counts unknown ones.
    fn known(&mut self, rec: Rec) -> Option<Order> {
        let found = self.orders.get(&rec).copied();
        self.counts.strangers += u64::from(found.is_none());
        found
    }

    fn accepted(&mut self, change: &OrderChange, out: &mut impl PublishSink) {
        let Some(instrument) = self.find(change.instrument_id) else { return };
        let order = Order {
            instrument,
            side: change.side,
            ord_type: change.ord_type,
            time_in_force: change.time_in_force,
            self_trade_prevention: change.self_trade_prevention,
            place: OrderLocation::Incoming,
            price: change.price,
            order_qty: change.order_qty,
            leaves_qty: change.leaves_qty,
            display_qty: change.display_qty,
            shown_qty: Qty::ZERO,
            rank: 0,
            reference: 0,
        };
        self.orders.insert(change.rec, order);
        let of = &mut self.instruments[instrument];
        if change.time_in_force == TimeInForce::AtTheClose && of.phase != Phase::ClosingCall {
            of.parked.insert(change.rec);
            self.put(change.rec, OrderLocation::Parked);
        } else if matches!(change.ord_type, OrdType::Stop | OrdType::StopLimit) {
            self.put(change.rec, OrderLocation::Stop);
        } else {
            self.come_in(change.rec, out);
        }
    }

    fn put(&mut self, rec: Rec, place: OrderLocation) {
        if let Some(order) = self.orders.get_mut(&rec) {
            order.place = place;
        }
    }

    /// Starts matching an order that is in no place, or adds it to a call's book.
    fn come_in(&mut self, rec: Rec, out: &mut impl PublishSink) {
        let Some(order) = self.orders.get_mut(&rec) else { return };
        order.place = OrderLocation::Incoming;
        if self.instruments[order.instrument].phase == Phase::Continuous {
            self.incoming = Some(rec);
            self.stand_if_open(rec, out);
        } else if order.ord_type == OrdType::Market {
            order.place = OrderLocation::Market;
        } else {
            self.stand(rec, out);
        }
    }

    /// Adds a matching order to the book when it may rest and no resting order meets its limit.
    fn stand_if_open(&mut self, rec: Rec, out: &mut impl PublishSink) {
        let Some(order) = self.orders.get(&rec) else { return };
        let is_open = order.place == OrderLocation::Incoming
            && order.can_stand()
            && !order.leaves_qty.is_zero()
            && !self.instruments[order.instrument].is_crossed_by(order.side, order.price);
        if is_open {
            self.stand(rec, out);
        }
    }

    /// Adds an order to the book, behind all others at its price.
    fn stand(&mut self, rec: Rec, out: &mut impl PublishSink) {
        let Some(order) = self.orders.get_mut(&rec) else { return };
        order.place = OrderLocation::Book;
        order.shown_qty = order.slice();
        self.next_rank += 1;
        order.rank = self.next_rank;
        let (side, price) = (order.side, order.price);
        self.instruments[order.instrument].prices_mut(side).add(side, price);
        if self.incoming == Some(rec) {
            self.incoming = None;
        }
        self.publish(rec, out);
    }

    /// Publishes the shown part of an order under a new reference, if ITCH can represent it.
    pub(super) fn publish(&mut self, rec: Rec, out: &mut impl PublishSink) {
        let Some(mut order) = self.orders.get(&rec).copied() else { return };
        order.reference = self.next_reference;
        if self.say_add(&order, out) {
            self.next_reference += 1;
        } else {
            order.reference = 0;
            let is_published = self.instruments[order.instrument].published().is_some();
            self.counts.unsayable_orders += u64::from(is_published);
        }
        self.orders.insert(rec, order);
    }

    fn traded(&mut self, change: &OrderChange, out: &mut impl PublishSink) {
        let Some(order) = self.known(change.rec) else { return };
        match change.liquidity {
            Liquidity::Maker => self.traded_resting(order, change, out),
            Liquidity::Auction => self.traded_in_call(order, change, out),
            Liquidity::Taker | Liquidity::None => {
                if change.leaves_qty.is_zero() {
                    self.forget(change.rec, &order);
                } else {
                    let order = Order { leaves_qty: change.leaves_qty, ..order };
                    self.orders.insert(change.rec, order);
                    self.stand_if_open(change.rec, out);
                }
            }
        }
    }

    fn traded_resting(
        &mut self,
        mut order: Order,
        change: &OrderChange,
        out: &mut impl PublishSink,
    ) {
        if order.reference == 0 {
            self.say_unseen(&order, change, out);
        } else {
            self.say_executed(&order, change.last_qty, change.match_id, out);
        }
        order.shown_qty = Qty(order.shown_qty.0.saturating_sub(change.last_qty.0));
        order.leaves_qty = change.leaves_qty;
        if order.leaves_qty.is_zero() {
            return self.forget(change.rec, &order);
        }
        let is_empty = order.shown_qty.is_zero();
        if is_empty {
            // The next slice queues behind the other orders.
            order.shown_qty = order.slice();
            self.next_rank += 1;
            order.rank = self.next_rank;
        }
        self.orders.insert(change.rec, order);
        if is_empty {
            self.publish(change.rec, out);
        }
    }

    /// Publishes a trade with an order that the book does not show.
    fn say_unseen(&self, order: &Order, change: &OrderChange, out: &mut impl PublishSink) {
        let of = &self.instruments[order.instrument];
        let Some(fit) = of.published() else { return };
        let shares = u32::try_from(change.last_qty.0).ok();
        if let Some((shares, price)) = shares.zip(fit.scale.price(change.last_px)) {
            self.say_trade(of, shares, price, change.match_id, out);
        }
    }

    /// Handles a trade of a call: the cross message reports its volume, so only the reduction of
    /// the shown quantity is published.
    fn traded_in_call(
        &mut self,
        mut order: Order,
        change: &OrderChange,
        out: &mut impl PublishSink,
    ) {
        let before = order.shown_qty;
        order.leaves_qty = change.leaves_qty;
        order.shown_qty = order.slice();
        let of = &self.instruments[order.instrument];
        let price = of.published().and_then(|fit| fit.scale.price(change.last_px));
        if order.reference != 0 && order.shown_qty < before {
            let less = Qty(before.0 - order.shown_qty.0);
            match price {
                Some(price) => self.say_crossed(&order, less, price, change.match_id, out),
                None => self.say_cancel(&order, less, out),
            }
        }
        if order.leaves_qty.is_zero() {
            return self.forget(change.rec, &order);
        }
        if order.reference != 0 && order.shown_qty > before {
            // The slice is refilled in place; ITCH can express that only as a new order, and as
            // new ones of all those that now stand before it.
            self.publish_instead(&mut order, out);
            self.publish_behind(&order, out);
        }
        self.orders.insert(change.rec, order);
    }

    /// Replaces the shown orders behind `order` at its price, in their order, by themselves.
    fn publish_behind(&mut self, order: &Order, out: &mut impl PublishSink) {
        let (instrument, side, price, rank) =
            (order.instrument, order.side, order.price, order.rank);
        let is_behind = |other: &Order| {
            (other.instrument, other.side, other.price) == (instrument, side, price)
                && other.rank > rank
                && other.reference != 0
        };
        for rec in self.in_order(is_behind) {
            if let Some(mut other) = self.orders.get(&rec).copied() {
                self.publish_instead(&mut other, out);
                self.orders.insert(rec, other);
            }
        }
    }

    /// Replaces the shown part of an order with a new one, under a new reference.
    fn publish_instead(&mut self, order: &mut Order, out: &mut impl PublishSink) {
        let original = core::mem::replace(&mut order.reference, self.next_reference);
        if self.say_replace(original, order, out) {
            self.next_reference += 1;
        } else {
            self.say_delete(&Order { reference: original, ..*order }, out);
            order.reference = 0;
            self.counts.unsayable_orders += 1;
        }
    }

    fn replaced(&mut self, change: &OrderChange, out: &mut impl PublishSink) {
        let Some(before) = self.known(change.rec) else { return };
        let mut order = Order {
            price: change.price,
            order_qty: change.order_qty,
            leaves_qty: change.leaves_qty,
            ..before
        };
        if before.place != OrderLocation::Book {
            self.orders.insert(change.rec, order);
            return;
        }
        if order.price == before.price && order.order_qty <= before.order_qty {
            order.shown_qty = before.shown_of(order.leaves_qty);
            return self.show_less(change.rec, &before, order, out);
        }
        let of = &mut self.instruments[order.instrument];
        of.prices_mut(order.side).remove(before.side, before.price);
        if of.phase == Phase::Continuous && of.is_crossed_by(order.side, order.price) {
            self.hide(&mut order, out);
            order.place = OrderLocation::Incoming;
            self.incoming = Some(change.rec);
            self.orders.insert(change.rec, order);
            return;
        }
        of.prices_mut(order.side).add(order.side, order.price);
        order.shown_qty = order.slice();
        self.next_rank += 1;
        order.rank = self.next_rank;
        let was_shown = order.reference != 0;
        if was_shown {
            self.publish_instead(&mut order, out);
        }
        self.orders.insert(change.rec, order);
        if !was_shown {
            self.publish(change.rec, out);
        }
    }

    /// Reduces the shown quantity of an order in place.
    fn show_less(&mut self, rec: Rec, before: &Order, order: Order, out: &mut impl PublishSink) {
        let less = Qty(before.shown_qty.0.saturating_sub(order.shown_qty.0));
        if order.reference != 0 && !less.is_zero() {
            self.say_cancel(&order, less, out);
        }
        self.orders.insert(rec, order);
    }

    /// Withdraws an order from the published book.
    fn hide(&self, order: &mut Order, out: &mut impl PublishSink) {
        if order.reference != 0 {
            self.say_delete(order, out);
            order.reference = 0;
        }
    }

    fn restated(&mut self, change: &OrderChange, out: &mut impl PublishSink) {
        let Some(before) = self.known(change.rec) else { return };
        let (order_qty, leaves_qty) = (change.order_qty, change.leaves_qty);
        let mut order = Order { order_qty, leaves_qty, ..before };
        if before.place == OrderLocation::Book {
            order.shown_qty = before.shown_of(leaves_qty);
            return self.show_less(change.rec, &before, order, out);
        }
        self.orders.insert(change.rec, order);
        self.stand_if_open(change.rec, out);
    }

    fn triggered(&mut self, change: &OrderChange, out: &mut impl PublishSink) {
        let Some(order) = self.known(change.rec) else { return };
        let order = Order { ord_type: change.ord_type, price: change.price, ..order };
        self.orders.insert(change.rec, order);
        self.come_in(change.rec, out);
    }

    /// Handles the end of an order without a trade.
    fn ended(&mut self, change: &OrderChange, out: &mut impl PublishSink) {
        let Some(mut order) = self.known(change.rec) else { return };
        self.hide(&mut order, out);
        self.forget(change.rec, &order);
        // The ended order may have been the last one that the matching order meets, and then no
        // event states that the matching order rests now. With the other kinds of self-trade
        // prevention an event does.
        if let Some(incoming) = self.incoming
            && let Some(waiting) = self.orders.get(&incoming)
            && waiting.self_trade_prevention == SelfTradePrevention::CancelOldest
        {
            self.stand_if_open(incoming, out);
        }
    }

    /// Forgets an order that has ended, after its messages.
    fn forget(&mut self, rec: Rec, order: &Order) {
        self.orders.remove(&rec);
        let of = &mut self.instruments[order.instrument];
        match order.place {
            OrderLocation::Book => of.prices_mut(order.side).remove(order.side, order.price),
            OrderLocation::Parked => {
                of.parked.remove(&rec);
            }
            OrderLocation::Incoming | OrderLocation::Market | OrderLocation::Stop => {}
        }
        if self.incoming == Some(rec) {
            self.incoming = None;
        }
    }

    /// Adds parked orders to the book when the closing call begins.
    pub(super) fn release_parked(&mut self, index: usize, out: &mut impl PublishSink) {
        for rec in core::mem::take(&mut self.instruments[index].parked) {
            self.come_in(rec, out);
        }
    }

    /// Adds the matching order to the book, if it may rest, when a trade beyond the price limit
    /// started a call during its matching.
    pub(super) fn stand_interrupted(&mut self, index: usize, out: &mut impl PublishSink) {
        let Some(rec) = self.incoming else { return };
        let Some(order) = self.orders.get(&rec) else { return };
        let is_interrupted = order.instrument == index && order.can_stand();
        if is_interrupted && self.instruments[index].phase != Phase::Continuous {
            self.stand(rec, out);
        }
    }
}
