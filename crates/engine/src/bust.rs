//! Trades that can be busted: a ring of the last ones, and the operator's request to bust one.
//!
//! A bust recomputes the instrument's prices: [`references`](crate::references).
//!
//! Match numbers have no gaps, so a trade's age is its distance from the newest in the ring.

use weir_types::{ClOrdId, EventNo, InstrumentId, MatchId, OrderId, Price, Qty, Reason, Rec, Side};
use weir_wire::event::TradeBusted;
use weir_wire::reference::BustTrade;
use weir_wire::{Command, Event, PlainEvent, Request};

use crate::account::lots;
use crate::config::{EventSink, POSITION_LIMIT};
use crate::emit::{NamedIds, Requester};
use crate::engine::Engine;
use crate::index::Slot;
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
    pub(crate) price: Price,
    pub(crate) qty: Qty,
    pub(crate) instrument: Slot,
    /// True for a trade of an uncrossing.
    pub(crate) is_auction: bool,
    pub(crate) is_busted: bool,
}

/// The ring of the last trades.
pub(crate) struct Trades {
    rows: Vec<Trade>,
    /// The index of the oldest trade once the ring is full; the next trade replaces it.
    oldest: usize,
    count_max: usize,
}

impl Trades {
    pub(crate) fn new(count_max: u32) -> Trades {
        Trades { rows: Vec::new(), oldest: 0, count_max: count_max as usize }
    }

    /// Returns the number of retained trades.
    pub(crate) fn count(&self) -> usize {
        self.rows.len()
    }

    /// Retains a trade, in place of the oldest when the ring is full; returns that one.
    #[inline]
    pub(crate) fn push(&mut self, trade: Trade) -> Option<Trade> {
        if self.rows.len() < self.count_max {
            // Reserved in full at the first trade: the system commits the memory only as it fills.
            self.rows.reserve_exact(self.count_max - self.rows.len());
            self.rows.push(trade);
            return None;
        }
        let oldest = std::mem::replace(&mut self.rows[self.oldest], trade);
        self.oldest += 1;
        if self.oldest == self.count_max {
            self.oldest = 0;
        }
        Some(oldest)
    }

    /// Returns the trades from the newest, which is `last`, to the oldest.
    pub(crate) fn newest_first(&self, last: MatchId) -> impl Iterator<Item = (MatchId, &Trade)> {
        let (newer, older) = self.rows.split_at(self.oldest);
        let trades = newer.iter().rev().chain(older.iter().rev());
        (0..).zip(trades).map(move |(age, trade)| (MatchId(last.0 - age), trade))
    }

    /// Returns the trades from the oldest to the newest.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = &Trade> {
        let (newer, older) = self.rows.split_at(self.oldest);
        older.iter().chain(newer)
    }

    /// Returns the index of the trade `match_id` while it is retained; `last` is the newest trade.
    fn place(&self, match_id: MatchId, last: MatchId) -> Option<usize> {
        let age = last.0.checked_sub(match_id.0)?;
        if match_id.is_none() || age >= self.rows.len() as u64 {
            return None;
        }
        let from_oldest = self.rows.len() - 1 - age as usize;
        Some((self.oldest + from_oldest) % self.rows.len())
    }
}

impl Engine {
    pub(crate) fn bust_trade<S: EventSink>(
        &mut self,
        asker: Requester,
        m: &BustTrade,
        out: &mut S,
    ) {
        match self.check_bust(asker, m) {
            Ok(trade) => {
                self.carry_out_bust(m.match_id, &trade);
                self.say_busted(m.match_id, &trade, Side::Buy, out);
                self.say_busted(m.match_id, &trade, Side::Sell, out);
                self.recompute_prices(trade.instrument, out);
                self.say_done(asker, ClOrdId::NONE, 2, out);
            }
            Err(reason) => self.reject(asker, NamedIds::NOTHING, reason, out),
        }
    }

    /// Returns the instrument of the trade that a command would bust.
    pub(crate) fn instrument_of_bust(&self, command: &Command) -> Option<InstrumentId> {
        let Command::Request(Request::BustTrade(m)) = command else { return None };
        let trade = &self.trades.rows[self.trades.place(m.match_id, self.match_id)?];
        let instrument = &self.instruments[trade.instrument];
        (!trade.is_busted).then_some(instrument.definition.instrument_id)
    }

    fn check_bust(&self, asker: Requester, m: &BustTrade) -> Result<Trade, Reason> {
        self.check_operator(asker, m.partition_id)?;
        let trade = (self.trades.place(m.match_id, self.match_id))
            .map(|place| &self.trades.rows[place])
            .filter(|trade| !trade.is_busted || plant::is(Plant::BustTwice))
            .ok_or(Reason::UnknownTrade)?;
        if !self.config.has_risk {
            return Ok(*trade);
        }
        let (buyer, seller) = (trade.buyer.account, trade.seller.account);
        let bought = self.positions.get(buyer, trade.instrument);
        let qty = i128::from(trade.qty.0);
        let least = i128::from(bought.total) - i128::from(bought.reserved) - qty;
        if least < 0 && !self.accounts[buyer].is_unlimited {
            return Err(Reason::InsufficientPosition);
        }
        // At a negative price the buyer was paid.
        let paid = trade.price.notional(trade.qty);
        self.accounts[seller].check_cash(paid)?;
        self.accounts[buyer].check_cash(weir_types::Cash(-paid.0))?;
        let sold = self.positions.get(seller, trade.instrument);
        let most = i128::from(sold.total) + i128::from(sold.open_buy) + qty;
        let is_new = |is_empty: bool| usize::from(is_empty);
        let row_count = is_new(bought.is_empty()) + is_new(sold.is_empty() && seller != buyer);
        if least < -POSITION_LIMIT || most > POSITION_LIMIT || !self.positions.has_room(row_count) {
            return Err(Reason::LimitReached);
        }
        Ok(*trade)
    }

    fn carry_out_bust(&mut self, match_id: MatchId, trade: &Trade) {
        let (paid, lots) = (trade.price.notional(trade.qty), lots(trade.qty));
        if self.config.has_risk {
            self.accounts[trade.seller.account].cash -= paid;
            self.accounts[trade.buyer.account].cash += paid;
        }
        if self.config.has_risk && !plant::is(Plant::BustKeepsLots) {
            self.positions.update(trade.seller.account, trade.instrument, |p| p.total += lots);
            self.positions.update(trade.buyer.account, trade.instrument, |p| p.total -= lots);
        }
        let place = self.trades.place(match_id, self.match_id).expect("found before");
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
        }));
        self.say(&event, out);
    }
}
