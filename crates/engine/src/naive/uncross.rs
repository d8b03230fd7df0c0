//! The naive engine's uncrossing, which tries every candidate price.

use weir_types::{
    ExecType, InstrumentId, Liquidity, OrdType, Price, Qty, Reason, Rec, RequestNo, Side,
};
use weir_wire::event::Uncrossed;
use weir_wire::{Event, PlainEvent};

use super::NaiveEngine;
use super::say::News;
use crate::config::EventSink;

impl NaiveEngine {
    /// Makes the trades of an uncrossing and reports the price; repeats while limits cross.
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

    /// Makes the trades at one price and reports it; returns false when nothing traded.
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
            self.exchange([buyer, seller], price, lots, true);
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

    /// Returns price, volume and surplus of the uncrossing; `None` when nothing would trade.
    pub(super) fn best_price(&self, instrument_id: InstrumentId) -> Option<(Price, u64, i64)> {
        let instrument = &self.instruments[&instrument_id];
        let reference = instrument.last_price().or(instrument.static_reference());
        let reference = reference.map(|price| on_tick(price, instrument.definition.tick_size));
        let all: Vec<Rec> = [Side::Buy, Side::Sell]
            .into_iter()
            .flat_map(|side| self.side_of_book(instrument_id, side))
            .collect();
        let lots = |side: Side, price: Price| -> u64 {
            (all.iter().map(|rec| &self.orders[rec]))
                .filter(|order| order.now.side == side && order.is_willing_in_call(price))
                .map(|order| order.leaves_qty())
                .sum()
        };
        let volume = |price: Price| lots(Side::Buy, price).min(lots(Side::Sell, price));
        let surplus =
            |price: Price| i128::from(lots(Side::Buy, price)) - i128::from(lots(Side::Sell, price));
        let mut limits: Vec<Price> = (all.iter().map(|rec| &self.orders[rec].now))
            .filter(|now| now.ord_type == OrdType::Limit)
            .map(|now| now.price)
            .collect();
        let price = if limits.is_empty() {
            reference?
        } else {
            let most = limits.iter().map(|limit| volume(*limit)).max()?;
            limits.retain(|limit| volume(*limit) == most);
            let least = limits.iter().map(|limit| surplus(*limit).abs()).min()?;
            limits.retain(|limit| surplus(*limit).abs() == least);
            let surpluses: Vec<(Price, i128)> =
                limits.into_iter().map(|limit| (limit, surplus(limit))).collect();
            tied_price(&surpluses, reference)?
        };
        let told = surplus(price).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        (volume(price) > 0).then_some((price, volume(price), told))
    }
}

/// Returns the nearest price on the tick, the higher of two.
fn on_tick(price: Price, tick_size: Price) -> Price {
    let tick = i128::from(tick_size.0);
    let ticks = (2 * i128::from(price.0) + tick).div_euclid(2 * tick);
    i64::try_from(ticks * tick).map_or(price, Price)
}

/// Returns the price among limits of equal volume and surplus: steps 3 and 4 of `docs/matching.md`.
fn tied_price(limits: &[(Price, i128)], reference: Option<Price>) -> Option<Price> {
    let prices_of = |is_it: fn(i128) -> bool| {
        limits.iter().filter(move |(_, surplus)| is_it(*surplus)).map(|(price, _)| *price)
    };
    let lowest = limits.iter().map(|(price, _)| *price).min()?;
    let highest = limits.iter().map(|(price, _)| *price).max()?;
    let low = prices_of(|surplus| surplus > 0).max().unwrap_or(lowest);
    let high = prices_of(|surplus| surplus < 0).min().unwrap_or(highest);
    if limits.iter().all(|(_, surplus)| *surplus > 0) {
        return Some(highest);
    }
    if limits.iter().all(|(_, surplus)| *surplus < 0) {
        return Some(lowest);
    }
    Some(match reference {
        None => high,
        Some(reference) if reference >= high => high,
        Some(reference) if reference <= low => low,
        Some(reference) => reference,
    })
}
