//! The naive engine's stops: a plain loop over all of them.

use weir_types::{ExecType, InstrumentId, OrdType, Phase, Price, Reason, Rec, RequestNo, Side};

use super::say::News;
use super::{NaiveEngine, OrderLocation, TradingRule, cost_of};
use crate::config::EventSink;

/// Returns true if a trade at `price` reaches a stop.
pub(super) fn reaches(price: Price, side: Side, stop_px: Price) -> bool {
    match side {
        Side::Buy => stop_px <= price,
        Side::Sell => stop_px >= price,
    }
}

impl NaiveEngine {
    /// Triggers the instrument's stops until no trade reaches a waiting one.
    pub(super) fn trigger_stops<S: EventSink>(&mut self, instrument_id: InstrumentId, out: &mut S) {
        loop {
            let instrument = self.instruments.get_mut(&instrument_id).expect("defined");
            if instrument.phase != Phase::Continuous || instrument.traded.is_empty() {
                return;
            }
            let prices = std::mem::take(&mut instrument.traded);
            let wave = self.recs_of(|order| {
                order.now.instrument_id == instrument_id
                    && order.place == OrderLocation::Stop
                    && prices
                        .iter()
                        .any(|(_, price)| reaches(*price, order.now.side, order.now.stop_px))
            });
            for rec in wave {
                let now = self.orders[&rec].now;
                if self.is_killed(now.session_id, &now) {
                    self.rules.push(TradingRule::KilledStopEnds);
                    let news = News::of(ExecType::Canceled, Reason::Killed, RequestNo(0));
                    self.end(rec, &news, out);
                } else {
                    self.trigger(rec, out);
                }
            }
        }
    }

    /// Turns a stop into a market or limit order and lets it enter.
    pub(super) fn trigger<S: EventSink>(&mut self, rec: Rec, out: &mut S) {
        let order = self.order_mut(rec);
        order.place = OrderLocation::Incoming;
        order.now.ord_type = match order.now.ord_type {
            OrdType::Stop => OrdType::Market,
            _ => OrdType::Limit,
        };
        self.say_order(rec, &News::of(ExecType::Triggered, Reason::None, RequestNo(0)), out);
        let order = self.orders[&rec].clone();
        let instrument = &self.instruments[&order.now.instrument_id];
        if order.now.ord_type == OrdType::Market && instrument.is_in_call() {
            // The wave that it belongs to caused an interruption.
            let reserved_px = Some(instrument.waiting_price(order.now.side));
            let need = cost_of(&order.now, reserved_px) * i128::from(order.leaves_qty());
            if let Err(reason) = self.check_cash(order.now.account_id, need) {
                self.end(rec, &News::of(ExecType::Canceled, reason, RequestNo(0)), out);
                return;
            }
            self.order_mut(rec).reserved_px = reserved_px;
        }
        self.come_in(rec, RequestNo(0), out);
    }
}
