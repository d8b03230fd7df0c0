//! The naive engine's uncrossing, which tries every candidate price.

use std::collections::BTreeMap;

use weir_types::{
    AccountId, ExecType, InstrumentId, Liquidity, OrdType, Price, Qty, Reason, Rec, RequestNo, Side,
};
use weir_wire::event::Uncrossed;
use weir_wire::{Event, PlainEvent};

use super::say::News;
use super::{Instrument, NaiveEngine, TradingRule, cost_of, worst_cost};
use crate::config::{CASH_LIMIT, EventSink};

/// Price, volume and surplus of an uncrossing.
type Best = (Price, u64, i64);

/// The lots with which each order of a book takes part in an uncrossing.
type Lots = BTreeMap<Rec, u64>;

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
        let (best, mut lots) = self.find_uncrossing(instrument_id);
        if lots.iter().any(|(rec, lots)| *lots < self.orders[rec].leaves_qty()) {
            self.rules.push(TradingRule::CallMarketCut);
        }
        for side in [Side::Buy, Side::Sell] {
            let recs: Vec<Rec> = self.side_of_book(instrument_id, side).collect();
            for rec in recs.into_iter().filter(|rec| lots[rec] == 0) {
                self.end_unpaid(rec, out);
            }
        }
        let (price, volume, surplus) = best.unwrap_or((Price(0), 0, 0));
        let mut left = volume;
        while left > 0 {
            let instrument = &self.instruments[&instrument_id];
            let [buyer, seller] = [Side::Buy, Side::Sell].map(|side| {
                let mut willing = self
                    .side_of_book(instrument_id, side)
                    .filter(|rec| self.orders[rec].is_willing_in_call(price, instrument));
                willing.next().expect("the volume is there")
            });
            let traded = left.min(lots[&buyer]).min(lots[&seller]);
            left -= traded;
            self.exchange([buyer, seller], price, traded, true);
            for rec in [buyer, seller] {
                let mut news = News::of(ExecType::Trade, Reason::None, RequestNo(0));
                news.trade = Some((self.match_id, price, traded, Liquidity::Auction));
                self.say_order(rec, &news, out);
            }
            for rec in [buyer, seller] {
                let lots = lots.get_mut(&rec).expect("it stood in the book");
                *lots -= traded;
                let order = self.order_mut(rec);
                order.shown_qty = order.slice();
                if order.leaves_qty() == 0 {
                    self.forget(rec);
                } else if *lots == 0 {
                    self.end_unpaid(rec, out);
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
        best.is_some()
    }

    /// Cancels what a market order's account cannot pay.
    fn end_unpaid<S: EventSink>(&mut self, rec: Rec, out: &mut S) {
        let account = &self.accounts[&self.orders[&rec].now.account_id];
        let reason =
            if account.is_unlimited { Reason::LimitReached } else { Reason::InsufficientCash };
        self.end(rec, &News::of(ExecType::Canceled, reason, RequestNo(0)), out);
    }

    /// Returns price, volume and surplus of the uncrossing, `None` when nothing would trade, and
    /// the lots with which each order of the book takes part.
    pub(super) fn find_uncrossing(&self, instrument_id: InstrumentId) -> (Option<Best>, Lots) {
        let mut lots: Lots = [Side::Buy, Side::Sell]
            .into_iter()
            .flat_map(|side| self.side_of_book(instrument_id, side))
            .map(|rec| (rec, self.orders[&rec].leaves_qty()))
            .collect();
        loop {
            let best = self.best_price(instrument_id, &lots);
            let Some((price, _, _)) = best else { return (None, lots) };
            let payable = self.payable(instrument_id, price, &lots);
            if payable == lots {
                return (best, lots);
            }
            lots = payable;
        }
    }

    /// Returns the lots with which each order can take part at a price: a market order beyond its
    /// reservation with so many as its account can pay with what it has.
    fn payable(&self, instrument_id: InstrumentId, price: Price, lots: &Lots) -> Lots {
        let instrument = &self.instruments[&instrument_id];
        let mut payable = lots.clone();
        let mut spare: BTreeMap<AccountId, i128> = BTreeMap::new();
        for side in [Side::Buy, Side::Sell] {
            let each = worst_cost(side, price);
            for rec in self.side_of_book(instrument_id, side) {
                let (order, wanted) = (&self.orders[&rec], lots[&rec]);
                if order.now.ord_type != OrdType::Market
                    || each <= cost_of(&order.now, order.reserved_px)
                    || !order.is_willing_in_call(price, instrument)
                    || wanted == 0
                {
                    continue;
                }
                let account_id = order.now.account_id;
                let credit = if self.accounts[&account_id].is_unlimited { CASH_LIMIT } else { 0 };
                let before = spare.get(&account_id).copied();
                let before = before.unwrap_or_else(|| self.spare_cash(account_id) + credit);
                let means = before + order.reserved_cash();
                let most = (means / each).clamp(0, wanted.into());
                let most = u64::try_from(most).expect("no more than wanted");
                let is_all = most == wanted;
                let most = if is_all { most } else { most - most % lot_size(instrument) };
                payable.insert(rec, most);
                spare.insert(account_id, means - each * i128::from(most));
            }
        }
        payable
    }

    /// Returns price, volume and surplus of an uncrossing of these lots; `None` when nothing would
    /// trade.
    fn best_price(&self, instrument_id: InstrumentId, lots: &Lots) -> Option<Best> {
        let instrument = &self.instruments[&instrument_id];
        let reference = instrument.last_price().or(instrument.static_reference());
        let reference = reference.map(|price| on_tick(price, instrument.definition.tick_size));
        let sum = |side: Side, price: Price| -> u64 {
            (lots.iter().map(|(rec, lots)| (&self.orders[rec], lots)))
                .filter(|(order, _)| order.now.side == side)
                .filter(|(order, _)| order.is_willing_in_call(price, instrument))
                .map(|(_, lots)| *lots)
                .sum()
        };
        let volume = |price: Price| sum(Side::Buy, price).min(sum(Side::Sell, price));
        let surplus =
            |price: Price| i128::from(sum(Side::Buy, price)) - i128::from(sum(Side::Sell, price));
        let mut limits: Vec<Price> = (lots.keys().map(|rec| &self.orders[rec].now))
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

fn lot_size(instrument: &Instrument) -> u64 {
    instrument.definition.lot_size.0
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
