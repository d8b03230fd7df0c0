//! The naive engine's uncrossing: every candidate price is tried.

use weir_types::{
    ExecType, InstrumentId, Liquidity, OrdType, Price, Qty, Reason, Rec, RequestNo, Side,
};
use weir_wire::event::Uncrossed;
use weir_wire::{Event, PlainEvent};

use super::NaiveEngine;
use super::say::News;
use crate::config::EventSink;

impl NaiveEngine {
    /// Trades what can trade, and tells at what price; again while limits cross.
    pub(super) fn uncross<S: EventSink>(&mut self, instrument_id: InstrumentId, out: &mut S) {
        loop {
            let has_traded = self.uncross_once(instrument_id, out);
            let [bid, ask] = [Side::Buy, Side::Sell].map(|side| {
                let orders = self.side_of_book(instrument_id, side).map(|rec| &self.orders[&rec]);
                let mut limits = orders.filter(|order| order.now.ord_type == OrdType::Limit);
                limits.next().map(|order| order.now.price)
            });
            let cross = bid.zip(ask).is_some_and(|(bid, ask)| bid >= ask);
            if !has_traded || !cross {
                return;
            }
        }
    }

    /// Trades what can trade at one price, and tells that price; false when nothing could.
    fn uncross_once<S: EventSink>(&mut self, instrument_id: InstrumentId, out: &mut S) -> bool {
        let best = self.best_price(instrument_id);
        let (price, volume, surplus) = best.unwrap_or((Price(0), 0, 0));
        let mut left = volume;
        while left > 0 {
            let [buyer, seller] = [Side::Buy, Side::Sell].map(|side| {
                let mut willing = self
                    .side_of_book(instrument_id, side)
                    .filter(|rec| self.orders[rec].is_willing_in_call(price));
                willing.next().expect("the volume is there")
            });
            let lots =
                left.min(self.orders[&buyer].leaves_qty()).min(self.orders[&seller].leaves_qty());
            left -= lots;
            self.exchange([buyer, seller], price, lots);
            for rec in [buyer, seller] {
                let mut news = News::of(ExecType::Trade, Reason::None, RequestNo(0));
                news.trade = Some((self.match_id, price, lots, Liquidity::Auction));
                self.say_order(rec, &news, out);
            }
            for rec in [buyer, seller] {
                let order = self.order_mut(rec);
                order.shown_qty = order.slice();
                if order.leaves_qty() == 0 {
                    self.forget(rec);
                }
            }
        }
        if volume > 0 {
            let instrument = self.instruments.get_mut(&instrument_id).expect("found by the caller");
            instrument.uncrossing_price = Some(price);
        }
        let event = Uncrossed {
            position: self.position,
            transact_time: self.time,
            price,
            qty: Qty(volume),
            surplus,
            instrument_id,
            partition_id: self.config.partition_id,
        };
        self.say(Event::Plain(PlainEvent::Uncrossed(event)), out);
        volume > 0
    }

    /// Price, volume and surplus of the uncrossing; `None` when nothing would trade.
    pub(super) fn best_price(&self, instrument_id: InstrumentId) -> Option<(Price, u64, i64)> {
        let instrument = &self.instruments[&instrument_id];
        let reference = instrument.last_price.or(instrument.static_reference());
        let all: Vec<Rec> = [Side::Buy, Side::Sell]
            .into_iter()
            .flat_map(|side| self.side_of_book(instrument_id, side))
            .collect();
        let mut candidates: Vec<Price> = (all.iter().map(|rec| &self.orders[rec].now))
            .filter(|now| now.ord_type == OrdType::Limit)
            .map(|now| now.price)
            .collect();
        if candidates.is_empty() {
            candidates.extend(reference);
        }
        let lots = |side: Side, price: Price| -> u64 {
            (all.iter().map(|rec| &self.orders[rec]))
                .filter(|order| order.now.side == side && order.is_willing_in_call(price))
                .map(|order| order.leaves_qty())
                .sum()
        };
        let rated = candidates.into_iter().map(|price| {
            let demand = lots(Side::Buy, price);
            let supply = lots(Side::Sell, price);
            let volume = demand.min(supply);
            let surplus = i128::from(demand) - i128::from(supply);
            let distance =
                reference.map_or(0, |near| (i128::from(price.0) - i128::from(near.0)).abs());
            // The greatest of these is the best.
            let rating = (volume, -surplus.abs(), -distance, price);
            (rating, surplus)
        });
        let ((volume, _, _, price), surplus) = rated.max()?;
        let surplus = surplus.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        (volume > 0).then_some((price, volume, surplus))
    }
}
