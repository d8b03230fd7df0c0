//! The naive engine's matching and self-trade prevention.

use weir_types::{
    ExecType, Liquidity, OrdType, Price, Qty, Reason, Rec, RequestNo, SelfTradePrevention, Side,
    TimeInForce,
};
use weir_wire::PlainEvent;
use weir_wire::order_entry::NewOrder;

use super::say::News;
use super::{NaiveEngine, Print, Trade, TradeSide, worst_cost};
use crate::config::EventSink;

/// Returns true if `price` is further than `collar` basis points from `reference`.
pub(super) fn breaches(price: Price, reference: Option<Price>, collar: u32) -> bool {
    let Some(Price(reference)) = reference else { return false };
    let (price, reference) = (i128::from(price.0), i128::from(reference));
    reference != 0
        && collar != 0
        && (price - reference).abs() * 10_000 > i128::from(collar) * reference.abs()
}

/// The reason that an incoming order stops matching.
enum Stopped {
    /// Nothing of it is open, or nothing is left for it to trade with.
    Finished,
    /// The rest must be cancelled.
    Refused(Reason),
    /// The next trade would be too far from a reference.
    Breach,
}

/// The references of the collars, fixed when an order begins to match.
struct References {
    fixed: Option<Price>,
    moving: Option<Price>,
}

impl NaiveEngine {
    /// Matches a live order that is not in the book, then puts it there or ends it.
    pub(super) fn sweep<S: EventSink>(&mut self, rec: Rec, request_no: RequestNo, out: &mut S) {
        let stopped = self.trade_while_possible(rec, request_no, out);
        let order = self.orders[&rec].clone();
        if order.leaves_qty() == 0 {
            return self.forget(rec);
        }
        let may_stand = order.now.ord_type == OrdType::Limit
            && matches!(
                order.now.time_in_force,
                TimeInForce::Day | TimeInForce::Gtc | TimeInForce::Gtd
            );
        let reason = match stopped {
            Stopped::Refused(reason) => reason,
            Stopped::Finished if may_stand => return self.stand(rec),
            Stopped::Finished => Reason::NoLiquidity,
            Stopped::Breach => {
                self.interrupt(order.now.instrument_id, out);
                if may_stand {
                    return self.stand(rec);
                }
                Reason::VolatilityInterruption
            }
        };
        self.end(rec, &News::of(ExecType::Canceled, reason, request_no), out);
    }

    /// Trades until nothing is left on either side, or the order must stop.
    fn trade_while_possible<S: EventSink>(
        &mut self,
        rec: Rec,
        request_no: RequestNo,
        out: &mut S,
    ) -> Stopped {
        let instrument = &self.instruments[&self.orders[&rec].now.instrument_id];
        let fixed = instrument.static_reference();
        let references = References { fixed, moving: instrument.last_price().or(fixed) };
        while self.orders[&rec].leaves_qty() > 0 {
            let taker = self.orders[&rec].now;
            let other_side = self.side_of_book(taker.instrument_id, taker.side.opposite()).next();
            let Some(maker_rec) = other_side else { return Stopped::Finished };
            let maker = self.orders[&maker_rec].now;
            let instrument = &self.instruments[&taker.instrument_id];
            let limit = match taker.ord_type {
                OrdType::Limit => taker.price,
                _ => instrument.bound(taker.side),
            };
            let is_reached = match taker.side {
                Side::Buy => maker.price <= limit,
                Side::Sell => maker.price >= limit,
            };
            if !is_reached {
                return Stopped::Finished;
            }
            let is_own = maker.account_id == taker.account_id;
            if is_own && taker.self_trade_prevention != SelfTradePrevention::None {
                if self.prevent(rec, maker_rec, request_no, out) {
                    return Stopped::Refused(Reason::SelfTrade);
                }
                continue;
            }
            let d = &self.instruments[&taker.instrument_id].definition;
            if breaches(maker.price, references.fixed, d.static_collar)
                || breaches(maker.price, references.moving, d.dynamic_collar)
            {
                return Stopped::Breach;
            }
            let lots = self.orders[&rec].leaves_qty().min(self.orders[&maker_rec].shown_qty);
            if taker.ord_type == OrdType::Market {
                let cost = worst_cost(taker.side, maker.price) * i128::from(lots);
                if let Err(reason) = self.check_cash(taker.account_id, cost) {
                    return Stopped::Refused(reason);
                }
            }
            self.trade(rec, maker_rec, lots, request_no, out);
        }
        Stopped::Finished
    }

    fn trade<S: EventSink>(
        &mut self,
        taker_rec: Rec,
        maker_rec: Rec,
        lots: u64,
        request_no: RequestNo,
        out: &mut S,
    ) {
        let price = self.orders[&maker_rec].now.price;
        self.exchange([maker_rec, taker_rec], price, lots, false);
        for (rec, liquidity, request_no) in
            [(maker_rec, Liquidity::Maker, RequestNo(0)), (taker_rec, Liquidity::Taker, request_no)]
        {
            let mut news = News::of(ExecType::Trade, Reason::None, request_no);
            news.trade = Some((self.match_id, price, lots, liquidity));
            self.say_order(rec, &news, out);
        }
        let maker = self.order_mut(maker_rec);
        maker.shown_qty -= lots;
        let (is_empty, is_hidden) = (maker.leaves_qty() == 0, maker.shown_qty == 0);
        if is_empty {
            self.forget(maker_rec);
        } else if is_hidden {
            let key = self.orders[&maker_rec].book_key();
            self.book.remove(&key);
            self.stand(maker_rec);
        }
    }

    /// Numbers the next trade, moves lots and cash, and retains the trade for a bust.
    pub(super) fn exchange(&mut self, recs: [Rec; 2], price: Price, lots: u64, is_auction: bool) {
        self.match_id += 1;
        let mut sides = recs.map(|rec| {
            let order = self.orders.get_mut(&rec).expect("both are live");
            order.cum_qty += lots;
            let NewOrder { session_id, account_id, side, .. } = order.now;
            TradeSide { rec, session_id, account_id, side }
        });
        sides.sort_by_key(|side| side.side);
        let instrument_id = self.orders[&recs[0]].now.instrument_id;
        for side in sides {
            let sign = if side.side == Side::Buy { 1 } else { -1 };
            let account = self.accounts.get_mut(&side.account_id).expect("orders have accounts");
            account.cash -= sign * i128::from(price.0) * i128::from(lots);
            self.move_lots(side.account_id, instrument_id, sign * i128::from(lots));
        }
        let instrument = self.instruments.get_mut(&instrument_id).expect("orders have one");
        let match_id = self.match_id;
        instrument.prints.push(Print { match_id, price, is_auction, is_busted: false });
        instrument.traded.push((match_id, price));
        self.trades.insert(self.match_id, Trade { instrument_id, price, lots, sides });
        self.trade_times.insert(self.match_id, self.time);
        let oldest = (self.match_id + 1).saturating_sub(u64::from(self.config.trades_max));
        self.trades.retain(|match_id, _| *match_id >= oldest);
        self.trade_times.retain(|match_id, _| *match_id >= oldest);
    }

    /// Prevents an account from trading with itself; returns true when the incoming order must end.
    fn prevent<S: EventSink>(
        &mut self,
        taker_rec: Rec,
        maker_rec: Rec,
        request_no: RequestNo,
        out: &mut S,
    ) -> bool {
        let goodbye = News::of(ExecType::Canceled, Reason::SelfTrade, RequestNo(0));
        match self.orders[&taker_rec].now.self_trade_prevention {
            SelfTradePrevention::None => false,
            SelfTradePrevention::CancelNewest => true,
            SelfTradePrevention::CancelOldest => {
                self.end(maker_rec, &goodbye, out);
                false
            }
            SelfTradePrevention::CancelBoth => {
                self.end(maker_rec, &goodbye, out);
                true
            }
            SelfTradePrevention::Decrement => {
                let taker_lots = self.orders[&taker_rec].leaves_qty();
                let maker_lots = self.orders[&maker_rec].leaves_qty();
                let lots = taker_lots.min(maker_lots);
                if maker_lots == lots {
                    self.end(maker_rec, &goodbye, out);
                } else {
                    self.shrink(maker_rec, lots, RequestNo(0), out);
                }
                if taker_lots == lots {
                    return true;
                }
                self.shrink(taker_rec, lots, request_no, out);
                false
            }
        }
    }

    fn shrink<S: EventSink>(&mut self, rec: Rec, lots: u64, request_no: RequestNo, out: &mut S) {
        let order = self.orders.get_mut(&rec).expect("live");
        order.now.order_qty = Qty(order.now.order_qty.0 - lots);
        order.shown_qty = order.shown_qty.min(order.leaves_qty());
        self.say_order(rec, &News::of(ExecType::Restated, Reason::SelfTrade, request_no), out);
    }

    /// Reports the end of a live order and removes it.
    pub(super) fn end<S: EventSink>(&mut self, rec: Rec, news: &News, out: &mut S) -> PlainEvent {
        let event = self.say_order(rec, news, out);
        self.forget(rec);
        event
    }

    pub(super) fn forget(&mut self, rec: Rec) {
        let order = self.orders.remove(&rec).expect("live");
        self.book.remove(&order.book_key());
        self.names.remove(&(order.now.session_id, order.now.cl_ord_id));
        self.interests.remove(&(order.now.account_id, order.now.instrument_id, rec));
    }
}
