//! The naive engine's matching and self-trade prevention.

use weir_types::{
    ExecType, Liquidity, OrdType, Qty, Reason, Rec, RequestNo, SelfTradePrevention, Side,
    TimeInForce,
};
use weir_wire::PlainEvent;

use super::say::News;
use super::{NaiveEngine, worst_cost};
use crate::config::EventSink;

impl NaiveEngine {
    /// Trades an order that is live but not in the book, then puts it there or ends it.
    pub(super) fn sweep<S: EventSink>(&mut self, rec: Rec, request_no: RequestNo, out: &mut S) {
        let stopped = self.trade_while_possible(rec, request_no, out);
        let order = &self.orders[&rec];
        if order.leaves_qty() == 0 {
            return self.forget(rec);
        }
        let may_stand = order.now.ord_type == OrdType::Limit
            && matches!(order.now.time_in_force, TimeInForce::Day | TimeInForce::Gtc);
        match stopped {
            Some(reason) => {
                self.end(rec, &News::of(ExecType::Canceled, reason, request_no), out);
            }
            None if may_stand => {
                self.book.insert(order.book_key(), rec);
            }
            None => {
                let news = News::of(ExecType::Canceled, Reason::NoLiquidity, request_no);
                self.end(rec, &news, out);
            }
        }
    }

    /// Trades until nothing is left on either side; a reason when the rest may not stay.
    fn trade_while_possible<S: EventSink>(
        &mut self,
        rec: Rec,
        request_no: RequestNo,
        out: &mut S,
    ) -> Option<Reason> {
        while self.orders[&rec].leaves_qty() > 0 {
            let taker = self.orders[&rec].now;
            let other_side = self.side_of_book(taker.instrument_id, taker.side.opposite()).next();
            let maker_rec = other_side?;
            let maker = self.orders[&maker_rec].now;
            let bounds = &self.instruments[&taker.instrument_id].definition;
            let is_price_fine = match (taker.ord_type, taker.side) {
                (OrdType::Limit, Side::Buy) => maker.price <= taker.price,
                (OrdType::Limit, Side::Sell) => maker.price >= taker.price,
                (_, Side::Buy) => maker.price <= bounds.price_max,
                (_, Side::Sell) => maker.price >= bounds.price_min,
            };
            if !is_price_fine {
                return None;
            }
            let is_own = maker.account_id == taker.account_id;
            if is_own && taker.self_trade_prevention != SelfTradePrevention::None {
                if self.prevent(rec, maker_rec, request_no, out) {
                    return Some(Reason::SelfTrade);
                }
                continue;
            }
            let lots = self.orders[&rec].leaves_qty().min(self.orders[&maker_rec].leaves_qty());
            if taker.ord_type == OrdType::Market {
                let cost = worst_cost(taker.side, maker.price) * i128::from(lots);
                if let Err(reason) = self.check_cash(taker.account_id, cost) {
                    return Some(reason);
                }
            }
            self.trade(rec, maker_rec, lots, request_no, out);
        }
        None
    }

    fn trade<S: EventSink>(
        &mut self,
        taker_rec: Rec,
        maker_rec: Rec,
        lots: u64,
        request_no: RequestNo,
        out: &mut S,
    ) {
        self.match_id += 1;
        let price = self.orders[&maker_rec].now.price;
        for rec in [maker_rec, taker_rec] {
            let order = self.orders.get_mut(&rec).expect("both are live");
            order.cum_qty += lots;
            let now = order.now;
            let sign = if now.side == Side::Buy { 1 } else { -1 };
            let account = self.accounts.get_mut(&now.account_id).expect("orders have accounts");
            account.cash -= sign * i128::from(price.0) * i128::from(lots);
            self.move_lots(now.account_id, now.instrument_id, sign * i128::from(lots));
        }
        for (rec, liquidity, request_no) in
            [(maker_rec, Liquidity::Maker, RequestNo(0)), (taker_rec, Liquidity::Taker, request_no)]
        {
            let mut news = News::of(ExecType::Trade, Reason::None, request_no);
            news.trade = Some((self.match_id, price, lots, liquidity));
            self.say_order(rec, &news, out);
        }
        if self.orders[&maker_rec].leaves_qty() == 0 {
            self.forget(maker_rec);
        }
    }

    /// Keeps an account from trading with itself; true when the incoming order must go.
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
        self.say_order(rec, &News::of(ExecType::Restated, Reason::SelfTrade, request_no), out);
    }

    /// Tells the end of a live order and forgets it.
    pub(super) fn end<S: EventSink>(&mut self, rec: Rec, news: &News, out: &mut S) -> PlainEvent {
        let event = self.say_order(rec, news, out);
        self.forget(rec);
        event
    }

    fn forget(&mut self, rec: Rec) {
        let order = self.orders.remove(&rec).expect("live");
        self.book.remove(&order.book_key());
        self.names.remove(&(order.now.session_id, order.now.cl_ord_id));
        self.interests.remove(&(order.now.account_id, order.now.instrument_id, rec));
    }
}
