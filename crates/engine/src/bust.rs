//! Trades that can be busted: those of a span of log time, of a bounded number; and the operator's
//! request to bust one.
//!
//! A bust recomputes the instrument's prices: [`references`](crate::references). A forced one may
//! leave a [debt](crate::debt).
//!
//! Match numbers have no gaps, so a trade's place is its distance from the newest.

use std::collections::VecDeque;

use weir_memory::take_ahead;
use weir_types::{
    Cash, ClOrdId, EventNo, InstrumentId, MatchId, Nanos, OrderId, Price, Qty, Reason, Rec, Side,
    Switch,
};
use weir_wire::event::TradeBusted;
use weir_wire::reference::BustTrade;
use weir_wire::{Command, Event, PlainEvent, Request};

use crate::account::lots;
use crate::config::{EventSink, POSITION_LIMIT};
use crate::emit::{NamedIds, Requester};
use crate::engine::Engine;
use crate::index::{NIL, Slot};
use crate::order::Order;
use crate::plant::{self, Plant};

/// One side of a retained trade.
#[derive(Clone, Copy)]
pub(crate) struct Party {
    pub(crate) rec: Rec,
    pub(crate) session: Slot,
    pub(crate) account: Slot,
}

impl Party {
    #[inline]
    pub(crate) fn of(order: &Order) -> Party {
        Party { rec: order.rec, session: order.session, account: order.account }
    }
}

/// A retained trade.
#[derive(Clone, Copy)]
pub(crate) struct Trade {
    pub(crate) buyer: Party,
    pub(crate) seller: Party,
    pub(crate) time: Nanos,
    pub(crate) price: Price,
    pub(crate) qty: Qty,
    pub(crate) instrument: Slot,
    /// True for a trade of an uncrossing.
    pub(crate) is_auction: bool,
    pub(crate) is_busted: bool,
}

const _: () = assert!(size_of::<Trade>() == 64, "as the limit's documentation says");

/// The trades that can be busted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetainedTrades {
    /// Their number, busted ones included.
    pub count: u64,
    /// The oldest; zero for none.
    pub oldest: MatchId,
    /// The log time of the oldest; zero for none.
    pub oldest_time: Nanos,
}

/// The last trades, the oldest first. INVARIANT: their times ascend.
///
/// One that is older than the span stays until a later trade drops it: only its price counts then,
/// as that of a dropped one does.
pub(crate) struct Trades {
    rows: VecDeque<Trade>,
    count_max: usize,
    span: Nanos,
    /// The number of rows that the last bust visited for the instrument's prices.
    pub(crate) visited: u64,
}

impl Trades {
    pub(crate) fn new(count_max: u32, span: Nanos) -> Trades {
        Trades { rows: VecDeque::new(), count_max: count_max as usize, span, visited: 0 }
    }

    /// Returns the bytes of so many trades.
    pub(crate) fn bytes_for(count_max: u32) -> u64 {
        u64::from(count_max) * size_of::<Trade>() as u64
    }

    /// Populates all its memory now.
    pub(crate) fn take_memory(&mut self) {
        let mut rows = Vec::from(std::mem::take(&mut self.rows));
        rows.reserve_exact(self.count_max - rows.len());
        take_ahead(&mut rows);
        self.rows = VecDeque::from(rows);
    }

    /// Returns the number of rows.
    pub(crate) fn count(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if a trade is too old for a bust.
    #[inline]
    fn is_old(&self, trade: &Trade, now: Nanos) -> bool {
        now.0 > trade.time.0.saturating_add(self.span.0) && !plant::is(Plant::TradesKeptByCount)
    }

    /// Removes and returns the oldest trade if it is too old, or in the place of the next one.
    #[inline]
    pub(crate) fn drop_oldest(&mut self, now: Nanos) -> Option<Trade> {
        let is_full = self.rows.len() == self.count_max;
        let is_over = is_full || self.is_old(self.rows.front()?, now);
        if is_over { self.rows.pop_front() } else { None }
    }

    /// Removes and returns the oldest trade if there are more than so many.
    pub(crate) fn drop_beyond(&mut self, count_max: usize) -> Option<Trade> {
        if self.rows.len() > count_max { self.rows.pop_front() } else { None }
    }

    /// Retains a trade. There must be room for it.
    #[inline]
    pub(crate) fn push(&mut self, trade: Trade) {
        if self.rows.len() == self.rows.capacity() {
            // Reserved in full at the first trade: the system commits the memory only as it fills.
            self.rows.reserve_exact(self.count_max - self.rows.len());
        }
        self.rows.push_back(trade);
    }

    /// Returns the log time of the newest trade; zero without one.
    pub(crate) fn newest_time(&self) -> Nanos {
        self.rows.back().map_or(Nanos(0), |trade| trade.time)
    }

    /// Returns the trades from the newest, which is `last`, to the oldest.
    pub(crate) fn newest_first(&self, last: MatchId) -> impl Iterator<Item = (MatchId, &Trade)> {
        (0..).zip(self.rows.iter().rev()).map(move |(age, trade)| (MatchId(last.0 - age), trade))
    }

    /// Returns the trades from the oldest to the newest.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = &Trade> {
        self.rows.iter()
    }

    /// Returns the index of the trade `match_id`; `last` is the newest trade.
    fn place(&self, match_id: MatchId, last: MatchId) -> Result<usize, Reason> {
        let age = last.0.checked_sub(match_id.0).filter(|_| !match_id.is_none());
        let age = age.ok_or(Reason::UnknownTrade)?;
        let count = self.rows.len();
        if age >= count as u64 {
            return Err(Reason::TradeTooOld);
        }
        Ok(count - 1 - age as usize)
    }

    /// Returns the trade `match_id` if it can be busted; `last` is the newest trade.
    fn find(&self, match_id: MatchId, last: MatchId, now: Nanos) -> Result<&Trade, Reason> {
        let trade = &self.rows[self.place(match_id, last)?];
        if self.is_old(trade, now) {
            return Err(Reason::TradeTooOld);
        }
        if trade.is_busted && !plant::is(Plant::BustTwice) {
            return Err(Reason::UnknownTrade);
        }
        Ok(trade)
    }

    /// Returns the trades that can be busted now; `last` is the newest trade.
    fn retained(&self, last: MatchId, now: Nanos) -> RetainedTrades {
        let old_count = match self.rows.front() {
            Some(oldest) if self.is_old(oldest, now) => {
                self.rows.partition_point(|trade| self.is_old(trade, now))
            }
            _ => 0,
        };
        let count = (self.rows.len() - old_count) as u64;
        match self.rows.get(old_count) {
            Some(oldest) => RetainedTrades {
                count,
                oldest: MatchId(last.0 + 1 - count),
                oldest_time: oldest.time,
            },
            None => RetainedTrades::default(),
        }
    }
}

impl Engine {
    /// Returns the trades that can be busted at the last position's log time.
    #[must_use]
    pub fn retained_trades(&self) -> RetainedTrades {
        self.retained_trades_at(self.time)
    }

    /// Returns the trades that can be busted at a log time, which is not before the last one's.
    pub(crate) fn retained_trades_at(&self, time: Nanos) -> RetainedTrades {
        self.trades.retained(self.match_id, time)
    }

    /// Returns the number of trades that the last bust visited; for tests of its bound.
    #[doc(hidden)]
    #[must_use]
    pub fn trades_visited(&self) -> u64 {
        self.trades.visited
    }

    pub(crate) fn bust_trade<S: EventSink>(
        &mut self,
        asker: Requester,
        m: &BustTrade,
        out: &mut S,
    ) {
        match self.check_bust(asker, m) {
            Ok(trade) => {
                self.carry_out_bust(m, &trade);
                self.say_busted(m.match_id, &trade, Side::Buy, out);
                self.say_busted(m.match_id, &trade, Side::Sell, out);
                self.recompute_prices(&trade, out);
                self.say_done(asker, ClOrdId::NONE, 2, out);
            }
            Err(reason) => self.reject(asker, NamedIds::NOTHING, reason, out),
        }
    }

    /// Returns the instrument of the trade that a command would bust.
    pub(crate) fn instrument_of_bust(&self, command: &Command) -> Option<InstrumentId> {
        let Command::Request(Request::BustTrade(m)) = command else { return None };
        let trade = self.trades.find(m.match_id, self.match_id, self.time).ok()?;
        let instrument = &self.instruments[trade.instrument];
        (!trade.is_busted).then_some(instrument.definition.instrument_id)
    }

    fn check_bust(&self, asker: Requester, m: &BustTrade) -> Result<Trade, Reason> {
        self.check_operator(asker, m.partition_id)?;
        let trade = self.trades.find(m.match_id, self.match_id, self.time)?;
        if !self.config.has_risk {
            return Ok(*trade);
        }
        let is_forced = m.force == Switch::On;
        let (buyer, seller) = (trade.buyer.account, trade.seller.account);
        let bought = self.positions.get(buyer, trade.instrument);
        let qty = i128::from(trade.qty.0);
        let least = i128::from(bought.total) - i128::from(bought.reserved) - qty;
        if least < 0 && !is_forced && !self.accounts[buyer].is_unlimited {
            return Err(Reason::InsufficientPosition);
        }
        // At a negative price the buyer was paid.
        let paid = trade.price.notional(trade.qty);
        for (payer, amount) in [(seller, paid), (buyer, Cash(-paid.0))] {
            let row = &self.accounts[payer];
            if is_forced { row.check_debt(amount) } else { row.check_cash(amount) }?;
        }
        let sold = self.positions.get(seller, trade.instrument);
        let most = i128::from(sold.total) + i128::from(sold.open_buy) + qty;
        let is_new = |is_empty: bool| usize::from(is_empty);
        let row_count = is_new(bought.is_empty()) + is_new(sold.is_empty() && seller != buyer);
        if least < -POSITION_LIMIT || most > POSITION_LIMIT || !self.positions.has_room(row_count) {
            return Err(Reason::LimitReached);
        }
        Ok(*trade)
    }

    fn carry_out_bust(&mut self, m: &BustTrade, trade: &Trade) {
        let (paid, lots) = (trade.price.notional(trade.qty), lots(trade.qty));
        if self.config.has_risk {
            self.accounts[trade.seller.account].cash -= paid;
            self.accounts[trade.buyer.account].cash += paid;
        }
        if self.config.has_risk && !plant::is(Plant::BustKeepsLots) {
            self.positions.update(trade.seller.account, trade.instrument, |p| p.total += lots);
            self.positions.update(trade.buyer.account, trade.instrument, |p| p.total -= lots);
        }
        for party in [trade.buyer, trade.seller] {
            if m.force == Switch::On {
                self.note_debts(party.account, trade.instrument);
            }
            self.forget_paid(party.account, trade.instrument);
        }
        let place = self.trades.place(m.match_id, self.match_id).expect("found before");
        self.trades.rows[place].is_busted = true;
    }

    fn say_busted<S: EventSink>(
        &mut self,
        match_id: MatchId,
        trade: &Trade,
        side: Side,
        out: &mut S,
    ) {
        let party = if side == Side::Buy { trade.buyer } else { trade.seller };
        let of = |debt: i128| if plant::is(Plant::ForcedBustUntold) { 0 } else { debt };
        let debt_cash = Cash(of(self.owed(party.account, NIL)));
        let debt_lots = of(self.owed(party.account, trade.instrument));
        let session = &mut self.sessions[party.session];
        let event_no: EventNo = session.take_event_no();
        let event = Event::Plain(PlainEvent::TradeBusted(TradeBusted {
            position: self.position,
            event_no,
            order_id: OrderId::new(self.config.partition_id, party.rec),
            match_id,
            transact_time: self.time,
            last_px: trade.price,
            last_qty: trade.qty,
            session_id: session.session_id,
            firm_id: self.firms[session.firm].firm_id,
            account_id: self.accounts[party.account].account_id,
            instrument_id: self.instruments[trade.instrument].definition.instrument_id,
            partition_id: self.config.partition_id,
            side,
            debt_cash,
            debt_qty: Qty(u64::try_from(debt_lots).expect("positions are within 2^62")),
        }));
        self.say(&event, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_taken_ahead_holds_all_trades() {
        const COUNT_MAX: u32 = 1_000;
        let mut trades = Trades::new(COUNT_MAX, Nanos(1));
        assert_eq!(trades.rows.capacity(), 0, "none is taken before it is needed");
        trades.take_memory();
        let taken = trades.rows.capacity();
        assert!(taken >= COUNT_MAX as usize);
        let party = Party { rec: Rec(1), session: 0, account: 0 };
        for time in 0..u64::from(COUNT_MAX) {
            trades.push(Trade {
                buyer: party,
                seller: party,
                time: Nanos(time),
                price: Price(1),
                qty: Qty(1),
                instrument: 0,
                is_auction: false,
                is_busted: false,
            });
        }
        assert_eq!(trades.rows.capacity(), taken);
        assert!(trades.drop_oldest(Nanos(1)).is_some_and(|oldest| oldest.time == Nanos(0)));
    }
}
