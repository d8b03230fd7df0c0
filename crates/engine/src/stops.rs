//! Stops: orders that wait for a trade at their price, and the waves in which they trigger.
//!
//! Trades reach stops. At the end of the command the reached stops trigger one after the other, by
//! `rec`, and their own trades reach further stops. Stops reached by trades before an interruption
//! trigger when continuous trading resumes. The waves are a loop, never recursion. A reached stop
//! whose entry a kill switch would refuse is cancelled.

use weir_types::{ExecType, OrdType, Phase, Price, Reason, RequestNo, Side};

use crate::account::cash_need;
use crate::config::EventSink;
use crate::emit::Change;
use crate::engine::Engine;
use crate::entry::holding_of;
use crate::index::{NIL, Slot};
use crate::instrument::Instrument;
use crate::matching::{Verdict, status_of_live};
use crate::order::OrderLocation;
use crate::plant::{self, Plant};

/// Returns true if an order of this type waits for its stop price.
#[inline]
pub(crate) fn is_stop(ord_type: OrdType) -> bool {
    matches!(ord_type, OrdType::Stop | OrdType::StopLimit)
}

/// Returns true if a trade at `price` reaches a stop.
#[inline]
fn is_reached(side: Side, stop_px: Price, price: Price) -> bool {
    match side {
        Side::Buy => stop_px <= price,
        Side::Sell => stop_px >= price,
    }
}

impl Instrument {
    /// Returns true if a stop entered now triggers at once.
    pub(crate) fn triggers_at_once(&self, side: Side, stop_px: Price) -> bool {
        self.phase == Phase::Continuous
            && self.session_price.is_some_and(|price| is_reached(side, stop_px, price))
    }
}

impl Engine {
    /// Triggers the stops that the instrument's trades have reached, wave after wave, while
    /// continuous trading lasts. Called at the end of each command that may have traded.
    #[inline]
    pub(crate) fn look_at_stops<S: EventSink>(&mut self, instrument: Slot, out: &mut S) {
        while self.instruments[instrument].phase == Phase::Continuous
            && let Some((low, high)) = self.instruments[instrument].traded.take()
        {
            if self.reaches_no_stop(instrument, low, high) {
                return;
            }
            self.run_wave(instrument, low, high, out);
            if plant::is(Plant::NoSecondWave) {
                self.instruments[instrument].traded = None;
            }
        }
    }

    #[inline]
    fn reaches_no_stop(&self, instrument: Slot, low: Price, high: Price) -> bool {
        let row = &self.instruments[instrument];
        !row.stops(Side::Buy).best_price().is_some_and(|px| is_reached(Side::Buy, px, high))
            && !row.stops(Side::Sell).best_price().is_some_and(|px| is_reached(Side::Sell, px, low))
    }

    fn run_wave<S: EventSink>(&mut self, instrument: Slot, low: Price, high: Price, out: &mut S) {
        let mut wave = core::mem::take(&mut self.wave);
        wave.clear();
        for (side, price) in [(Side::Buy, high), (Side::Sell, low)] {
            for level in self.instruments[instrument].stops(side).best_first() {
                if !is_reached(side, self.levels[level].price, price) {
                    break;
                }
                let mut slot = self.levels[level].head;
                while slot != NIL {
                    wave.push(slot);
                    slot = self.orders[slot].level_next;
                }
            }
        }
        if !plant::is(Plant::WaveByStopPrice) {
            self.sort_by_rec(&mut wave);
        }
        for slot in &wave {
            if self.is_order_killed(*slot) && !plant::is(Plant::KilledStopsTrigger) {
                self.cancel_resting(*slot, Reason::Killed, RequestNo::NONE, out);
                continue;
            }
            self.unlink(*slot);
            self.trigger(*slot, true, out);
        }
        self.wave = wave;
    }

    /// Triggers an unqueued stop, which then enters like a new order. `is_listed` means that it has
    /// been in the indexes since before this command.
    pub(crate) fn trigger<S: EventSink>(&mut self, slot: Slot, is_listed: bool, out: &mut S) {
        let order = &mut self.orders[slot];
        order.place = OrderLocation::None;
        order.ord_type =
            if order.ord_type == OrdType::Stop { OrdType::Market } else { OrdType::Limit };
        let status = status_of_live(order.cum_qty());
        let (instrument, ord_type) = (order.instrument, order.ord_type);
        let change = Change::new(ExecType::Triggered, status, RequestNo::NONE);
        self.say_order(slot, &change, out);
        if self.instruments[instrument].phase == Phase::Continuous {
            let verdict = self.match_incoming(slot, RequestNo::NONE, out);
            return self.finish(slot, verdict, RequestNo::NONE, is_listed, out);
        }
        // The wave itself has started a call.
        let verdict = match ord_type {
            OrdType::Market => match self.reserve_for_call(slot) {
                Ok(()) => return self.stand(slot, OrderLocation::Book, is_listed),
                Err(reason) => Verdict::CancelRest(reason),
            },
            _ => Verdict::Open,
        };
        self.finish(slot, verdict, RequestNo::NONE, is_listed, out);
    }

    /// Reserves cash for a market order that joins a call's book, if the account has enough.
    fn reserve_for_call(&mut self, slot: Slot) -> Result<(), Reason> {
        let order = &self.orders[slot];
        let (account, leaves_qty) = (order.account, order.leaves_qty);
        let price = self.instruments[order.instrument].call_reservation(order.side);
        let need = cash_need(order.side, price, leaves_qty);
        self.check_cash(account, need)?;
        self.orders[slot].price = price;
        if self.config.has_risk {
            let cash = holding_of(&self.orders[slot], leaves_qty).cash;
            self.accounts[account].reserved += cash;
        }
        Ok(())
    }
}
