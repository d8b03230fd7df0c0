//! The naive engine's busts of trades.

use weir_types::{MatchId, OrderId, Qty, Reason, Side};
use weir_wire::event::TradeBusted;
use weir_wire::reference::BustTrade;
use weir_wire::{Event, PlainEvent, Request};

use super::{NaiveEngine, Trade};
use crate::config::{EventSink, POSITION_LIMIT};

impl NaiveEngine {
    pub(super) fn bust_trade<S: EventSink>(
        &mut self,
        request: &Request,
        m: &BustTrade,
        out: &mut S,
    ) -> Result<(), Reason> {
        self.check_operator(request, m.partition_id)?;
        let trade = self.trades.get(&m.match_id.0).cloned().ok_or(Reason::UnknownTrade)?;
        self.check_bust(&trade)?;
        self.trades.remove(&m.match_id.0);
        for side in trade.sides {
            let sign = if side.side == Side::Buy { 1 } else { -1 };
            let account = self.accounts.get_mut(&side.account_id).expect("it has traded");
            account.cash += sign * i128::from(trade.price.0) * i128::from(trade.lots);
            self.move_lots(side.account_id, trade.instrument_id, -sign * i128::from(trade.lots));
        }
        for side in trade.sides {
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
            };
            self.say(Event::Plain(PlainEvent::TradeBusted(event)), out);
        }
        self.say_done(request, 2, out);
        Ok(())
    }

    /// Checks that the buyer has the lots and the paid side the cash to return, then that limits
    /// allow it.
    fn check_bust(&self, trade: &Trade) -> Result<(), Reason> {
        let [buyer, seller] = trade.sides.map(|side| side.account_id);
        let id = trade.instrument_id;
        let lots = i128::from(trade.lots);
        let free = self.held(buyer, id) - self.open_lots(buyer, id, Side::Sell);
        if free < lots && !self.accounts[&buyer].is_unlimited {
            return Err(Reason::InsufficientPosition);
        }
        let paid = i128::from(trade.price.0) * lots;
        self.check_cash(seller, paid)?;
        self.check_cash(buyer, -paid)?;
        let most = self.held(seller, id) + self.open_lots(seller, id, Side::Buy) + lots;
        let has_room = !self.is_pair_refused(buyer, id) && !self.is_pair_refused(seller, id);
        if !has_room || free - lots < -POSITION_LIMIT || most > POSITION_LIMIT {
            return Err(Reason::LimitReached);
        }
        Ok(())
    }
}
