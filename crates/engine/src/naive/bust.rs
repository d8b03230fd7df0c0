//! The naive engine's busts of trades, and the prices that follow from the trades that remain.

use weir_types::{Cash, InstrumentId, MatchId, Nanos, OrderId, Price, Qty, Reason, Side, Switch};
use weir_wire::event::{ReferencesChanged, TradeBusted};
use weir_wire::reference::{BustTrade, SetReference};
use weir_wire::{Event, PlainEvent, Request};

use super::entry::is_price_fine;
use super::{NaiveEngine, Trade, TradingRule};
use crate::bust::RetainedTrades;
use crate::config::{CASH_LIMIT, EventSink, POSITION_LIMIT};

impl NaiveEngine {
    pub(super) fn bust_trade<S: EventSink>(
        &mut self,
        request: &Request,
        m: &BustTrade,
        out: &mut S,
    ) -> Result<(), Reason> {
        self.check_operator(request, m.partition_id)?;
        let Some(trade) = self.trades.get(&m.match_id.0).cloned() else {
            return Err(self.why_no_bust(m.match_id.0));
        };
        let is_forced = m.force == Switch::On;
        self.check_bust(&trade, is_forced)?;
        self.trades.remove(&m.match_id.0);
        let debts_before = self.debts();
        for side in trade.sides {
            let sign = if side.side == Side::Buy { 1 } else { -1 };
            let account = self.accounts.get_mut(&side.account_id).expect("it has traded");
            account.cash += sign * i128::from(trade.price.0) * i128::from(trade.lots);
            self.move_lots(side.account_id, trade.instrument_id, -sign * i128::from(trade.lots));
        }
        if is_forced && self.debts().iter().any(|debt| !debts_before.contains(debt)) {
            self.rules.push(TradingRule::ForcedBustMakesDebt);
        }
        for side in trade.sides {
            let debt_cash = Cash(self.owed_cash(side.account_id));
            let debt_lots = self.owed_lots(side.account_id, trade.instrument_id);
            let event = TradeBusted {
                position: self.position,
                event_no: self.next_event_no(side.session_id),
                order_id: OrderId::new(self.config.partition_id, side.rec),
                match_id: MatchId(m.match_id.0),
                transact_time: self.time,
                last_px: trade.price,
                last_qty: Qty(trade.lots),
                session_id: side.session_id,
                firm_id: self.sessions[&side.session_id].firm_id,
                account_id: side.account_id,
                instrument_id: trade.instrument_id,
                partition_id: self.config.partition_id,
                side: side.side,
                debt_cash,
                debt_qty: Qty(u64::try_from(debt_lots).expect("positions are within 2^62")),
            };
            self.say(Event::Plain(PlainEvent::TradeBusted(event)), out);
        }
        self.take_back(trade.instrument_id, m.match_id.0, out);
        self.say_done(request, 2, out);
        Ok(())
    }

    /// Takes a trade out of the prices that follow from trades.
    fn take_back<S: EventSink>(&mut self, id: InstrumentId, match_id: u64, out: &mut S) {
        let instrument = self.instruments.get_mut(&id).expect("it has traded");
        let before = (instrument.last_price(), instrument.uncrossing_price());
        let in_session = instrument.session_price();
        let waiting_count = instrument.traded.len();
        for print in &mut instrument.prints {
            print.is_busted |= print.match_id == match_id;
        }
        instrument.traded.retain(|(number, _)| *number != match_id);
        let after = (instrument.last_price(), instrument.uncrossing_price());
        let reached = [
            (before.0 != after.0, TradingRule::BustMovesLastPrice),
            (before.1 != after.1, TradingRule::BustMovesReference),
            (in_session != instrument.session_price(), TradingRule::BustMovesStops),
            (waiting_count != instrument.traded.len(), TradingRule::BustOfUnseenTrade),
        ];
        self.rules.extend(reached.iter().filter(|(is_so, _)| *is_so).map(|(_, rule)| *rule));
        let is_old = |price: Option<Price>| {
            let oldest = self.trades.keys().next().copied().unwrap_or(u64::MAX);
            let mut prints = instrument.prints.iter().rev();
            let newest = prints.find(|print| !print.is_busted);
            price.is_some() && newest.is_some_and(|print| print.match_id < oldest)
        };
        if before.0 != after.0 && is_old(after.0) {
            self.rules.push(TradingRule::BustLeavesOldTrade);
        }
        if before != after {
            self.say_references(id, out);
        }
    }

    pub(super) fn set_reference<S: EventSink>(
        &mut self,
        request: &Request,
        m: &SetReference,
        out: &mut S,
    ) -> Result<(), Reason> {
        self.check_operator(request, self.config.partition_id)?;
        self.check_instrument_here(m.instrument_id)?;
        let instrument = self.instruments.get_mut(&m.instrument_id).expect("found above");
        let is_on = |switch: Switch| switch == Switch::On;
        let is_nothing = !is_on(m.sets_last) && !is_on(m.sets_static);
        let is_stray =
            !is_on(m.sets_last) && m.last_px.0 != 0 || !is_on(m.sets_static) && m.static_px.0 != 0;
        if is_nothing || is_stray {
            return Err(Reason::FieldOutOfRange);
        }
        for price in [m.last_px.0, m.static_px.0] {
            if price != 0 && !is_price_fine(&instrument.definition, price) {
                return Err(Reason::InvalidPrice);
            }
        }
        let last = self.match_id;
        let or_none = |price: Price| Some(price).filter(|price| price.0 != 0);
        if is_on(m.sets_last) {
            instrument.set_last = (or_none(m.last_px), last);
        }
        if is_on(m.sets_static) {
            instrument.set_static = (or_none(m.static_px), last);
        }
        self.say_references(m.instrument_id, out);
        self.say_done(request, 0, out);
        Ok(())
    }

    fn say_references<S: EventSink>(&mut self, instrument_id: InstrumentId, out: &mut S) {
        let instrument = &self.instruments[&instrument_id];
        let (last, fixed) = (instrument.last_price(), instrument.uncrossing_price());
        let there = |price: Option<Price>| match price {
            Some(price) => (price, Switch::On),
            None => (Price(0), Switch::Off),
        };
        let ((last_px, has_last), (static_px, has_static)) = (there(last), there(fixed));
        let event = ReferencesChanged {
            position: self.position,
            transact_time: self.time,
            last_px,
            static_px,
            instrument_id,
            partition_id: self.config.partition_id,
            has_last,
            has_static,
        };
        self.say(Event::Plain(PlainEvent::ReferencesChanged(event)), out);
    }

    /// Forgets the trades that are too old for a bust at this time.
    pub(super) fn forget_old_trades(&mut self) {
        let span = self.config.trades_span.0;
        while let Some((match_id, time)) = self.trade_times.first_key_value()
            && time.0.saturating_add(span) < self.time.0
        {
            self.trades.remove(match_id);
            self.trade_times.pop_first();
        }
    }

    /// Returns the same as [`Engine::retained_trades`](crate::Engine::retained_trades).
    #[must_use]
    pub fn retained_trades(&self) -> RetainedTrades {
        let oldest = self.trade_times.first_key_value();
        let (oldest, oldest_time) = oldest.map_or((0, Nanos(0)), |(id, time)| (*id, *time));
        RetainedTrades {
            count: self.trade_times.len() as u64,
            oldest: MatchId(oldest),
            oldest_time,
        }
    }

    /// Returns the reason for which a trade that cannot be busted cannot.
    fn why_no_bust(&mut self, match_id: u64) -> Reason {
        let has_been = (1..=self.match_id).contains(&match_id);
        if !has_been || self.trade_times.contains_key(&match_id) {
            return Reason::UnknownTrade;
        }
        let is_among_last = self.match_id - match_id < u64::from(self.config.trades_max);
        self.rules.push(match is_among_last {
            true => TradingRule::BustTooLate,
            false => TradingRule::BustOfDisplacedTrade,
        });
        Reason::TradeTooOld
    }

    /// Checks that the buyer has the lots and the paid side the cash to return, or may owe them,
    /// then that limits allow it.
    fn check_bust(&self, trade: &Trade, is_forced: bool) -> Result<(), Reason> {
        let [buyer, seller] = trade.sides.map(|side| side.account_id);
        let id = trade.instrument_id;
        let lots = i128::from(trade.lots);
        let free = self.held(buyer, id) - self.open_lots(buyer, id, Side::Sell);
        if free < lots && !is_forced && !self.accounts[&buyer].is_unlimited {
            return Err(Reason::InsufficientPosition);
        }
        let paid = i128::from(trade.price.0) * lots;
        for (payer, amount) in [(seller, paid), (buyer, -paid)] {
            if !is_forced {
                self.check_cash(payer, amount)?;
            } else if amount > 0 && self.spare_cash(payer) - amount < -CASH_LIMIT {
                return Err(Reason::LimitReached);
            }
        }
        let most = self.held(seller, id) + self.open_lots(seller, id, Side::Buy) + lots;
        let mut pairs = vec![buyer, seller];
        pairs.dedup();
        let new_count = pairs.into_iter().filter(|account| self.is_new_pair(*account, id)).count();
        let is_full = self.are_pairs_refused(new_count);
        if is_full || free - lots < -POSITION_LIMIT || most > POSITION_LIMIT {
            return Err(Reason::LimitReached);
        }
        Ok(())
    }
}
