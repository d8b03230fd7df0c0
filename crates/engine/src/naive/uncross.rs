//! The naive engine's uncrossing, which tries every candidate price.

use std::collections::BTreeMap;

use weir_types::{
    AccountId, ExecType, InstrumentId, Liquidity, OrdType, Price, Qty, Reason, Rec, RequestNo, Side,
};
use weir_wire::event::Uncrossed;
use weir_wire::{Event, PlainEvent};

use super::say::News;
use super::{Instrument, NaiveEngine, TradingRule, worst_cost};
use crate::config::{CASH_LIMIT, EventSink};

/// Price, volume and surplus of an uncrossing.
type Best = (Price, u64, i64);

/// The lots with which each order of a book takes part in an uncrossing; the others of a market
/// order take part where its reservation pays.
type Lots = BTreeMap<Rec, u64>;

/// The rounds of a search in which market orders keep the lots that their accounts can pay.
const PAYABLE_ROUNDS: u64 = 8;

impl NaiveEngine {
    /// Makes the trades of an uncrossing and reports the price; repeats while limits cross. Returns
    /// false, and stops, if a further price would be too far from the references, where these are
    /// given.
    pub(super) fn uncross<S: EventSink>(
        &mut self,
        instrument_id: InstrumentId,
        references: Option<[Option<Price>; 2]>,
        out: &mut S,
    ) -> bool {
        loop {
            let has_traded = self.uncross_once(instrument_id, out);
            let [bid, ask] = [Side::Buy, Side::Sell].map(|side| {
                let orders = self.side_of_book(instrument_id, side).map(|rec| &self.orders[&rec]);
                let mut limits = orders.filter(|order| order.now.ord_type == OrdType::Limit);
                limits.next().map(|order| order.now.price)
            });
            let cross = bid.zip(ask).is_some_and(|(bid, ask)| bid >= ask);
            if !has_traded || !cross {
                return true;
            }
            if references.is_some_and(|of| self.would_breach_from(instrument_id, of)) {
                return false;
            }
        }
    }

    /// Makes the trades at one price and reports it; returns false when nothing traded.
    fn uncross_once<S: EventSink>(&mut self, instrument_id: InstrumentId, out: &mut S) -> bool {
        let (best, mut lots) = self.find_uncrossing(instrument_id);
        let is_cut = |(rec, lots): (&Rec, &u64)| *lots < self.orders[rec].leaves_qty();
        if lots.iter().any(is_cut) {
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

    /// Cancels the lots of a market order that its account cannot pay.
    fn end_unpaid<S: EventSink>(&mut self, rec: Rec, out: &mut S) {
        let account = &self.accounts[&self.orders[&rec].now.account_id];
        let reason =
            if account.is_unlimited { Reason::LimitReached } else { Reason::InsufficientCash };
        self.end(rec, &News::of(ExecType::Canceled, reason, RequestNo(0)), out);
    }

    /// Returns price, volume and surplus of the uncrossing, `None` when nothing would trade, and
    /// the lots that each order of the book has for it.
    pub(super) fn find_uncrossing(&self, instrument_id: InstrumentId) -> (Option<Best>, Lots) {
        let all: Lots = [Side::Buy, Side::Sell]
            .into_iter()
            .flat_map(|side| self.side_of_book(instrument_id, side))
            .map(|rec| (rec, self.orders[&rec].leaves_qty()))
            .collect();
        let mut lots = all.clone();
        for round in 1_u64.. {
            let best = self.best_price(instrument_id, &lots);
            let Some((price, _, _)) = best else { break };
            let kept = match round <= PAYABLE_ROUNDS {
                true => self.payable(instrument_id, price, &lots),
                false => self.reserved(price, &lots),
            };
            if kept == lots {
                let lots_of = |rec: Rec| {
                    let from = if self.can_be_cut_at(rec, price) { &lots } else { &all };
                    (rec, from[&rec])
                };
                return (best, all.keys().copied().map(lots_of).collect());
            }
            lots = kept;
        }
        (None, all)
    }

    /// Returns true for a market order whose reservation does not pay a price within its bound.
    fn can_be_cut_at(&self, rec: Rec, price: Price) -> bool {
        let order = &self.orders[&rec];
        let instrument = &self.instruments[&order.now.instrument_id];
        order.is_beyond_reservation(price) && order.is_willing_in_call(price, instrument)
    }

    /// Returns the lots that take part at a price where only reservations count.
    fn reserved(&self, price: Price, lots: &Lots) -> Lots {
        let lots_of = |rec: Rec| (rec, if self.can_be_cut_at(rec, price) { 0 } else { lots[&rec] });
        lots.keys().copied().map(lots_of).collect()
    }

    /// Returns the lots with which each order can take part at a price: a market order beyond its
    /// reservation with so many as its account can pay with its cash.
    fn payable(&self, instrument_id: InstrumentId, price: Price, lots: &Lots) -> Lots {
        let instrument = &self.instruments[&instrument_id];
        let mut payable = lots.clone();
        let mut spare: BTreeMap<AccountId, i128> = BTreeMap::new();
        for side in [Side::Buy, Side::Sell] {
            let each = worst_cost(side, price);
            for rec in self.side_of_book(instrument_id, side) {
                let (order, wanted) = (&self.orders[&rec], lots[&rec]);
                if !self.can_be_cut_at(rec, price) {
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
        let lots_at = |rec: &Rec, price: Price| -> u64 {
            let order = &self.orders[rec];
            match order.is_willing_in_call(price, instrument) {
                true if order.is_beyond_reservation(price) => lots[rec],
                true => order.leaves_qty(),
                false => 0,
            }
        };
        let sum = |side: Side, price: Price| -> u64 {
            let of_side = lots.keys().filter(|rec| self.orders[*rec].now.side == side);
            of_side.map(|rec| lots_at(rec, price)).sum()
        };
        let volume = |price: Price| sum(Side::Buy, price).min(sum(Side::Sell, price));
        let surplus =
            |price: Price| i128::from(sum(Side::Buy, price)) - i128::from(sum(Side::Sell, price));
        let tick_size = instrument.definition.tick_size;
        let limit_of = |(rec, lots): (&Rec, &u64)| {
            let order = &self.orders[rec];
            match order.now.ord_type {
                OrdType::Limit => Some(order.now.price),
                // Lots that are cut are those of a limit, on the tick.
                _ => (*lots < order.leaves_qty()).then(|| order.reserved_limit(tick_size)),
            }
        };
        let mut limits: Vec<Price> = lots.iter().filter_map(limit_of).collect();
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
