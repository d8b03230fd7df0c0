//! The prices that follow from an instrument's trades: the last price, the static reference of its
//! uncrossings, the last price of its session, and the prices that stops have not seen yet.
//!
//! A trade that is busted counts for none of them: they are those of the trades that remain. Trades
//! too old to be busted are in no table any more; their prices are in the bases, on which the
//! retained trades build. An operator's reference is a base too, for trades behind it.

use weir_types::{ClOrdId, MatchId, Phase, Price, Reason, Switch};
use weir_wire::event::ReferencesChanged;
use weir_wire::reference::SetReference;
use weir_wire::{Event, PlainEvent};

use crate::bust::Trade;
use crate::config::EventSink;
use crate::emit::{NamedIds, Requester};
use crate::engine::Engine;
use crate::index::Slot;
use crate::instrument::Instrument;
use crate::plant::{self, Plant};

/// A price that holds until a trade behind `since` has another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PriceBase {
    pub(crate) price: Option<Price>,
    pub(crate) since: MatchId,
}

impl PriceBase {
    pub(crate) fn new(price: Option<Price>, since: MatchId) -> PriceBase {
        PriceBase { price, since }
    }

    /// Takes in a trade that can no longer be busted.
    fn absorb(&mut self, match_id: MatchId, price: Price) {
        if match_id > self.since {
            *self = PriceBase::new(Some(price), match_id);
        }
    }
}

/// The parts of an instrument's prices that no retained trade tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PriceBases {
    /// Of the last price.
    pub(crate) last: PriceBase,
    /// Of the price of the last uncrossing.
    pub(crate) uncrossed: PriceBase,
    /// Of the session's last price: none at its begin.
    pub(crate) session: PriceBase,
    /// The range of trades that stops have not seen and that can no longer be busted.
    pub(crate) traded: Option<(Price, Price)>,
    /// The first trade that stops have not seen. Meaningless without such trades.
    pub(crate) traded_from: MatchId,
}

/// Returns the range widened to a price.
fn widened(range: Option<(Price, Price)>, price: Price) -> (Price, Price) {
    range.map_or((price, price), |(low, high)| (low.min(price), high.max(price)))
}

impl Instrument {
    /// Records a trade's price for references and stops.
    #[inline]
    pub(crate) fn note_trade(&mut self, match_id: MatchId, price: Price) {
        (self.last_price, self.session_price) = (Some(price), Some(price));
        if self.traded.is_none() {
            (self.bases.traded, self.bases.traded_from) = (None, match_id);
        } else if plant::is(Plant::StopsSeeLastTradeOnly) {
            self.traded = None;
        }
        self.traded = Some(widened(self.traded, price));
    }

    /// Records the session's last price again when continuous trading begins, so that standing
    /// stops are compared with it just like newly entered ones.
    pub(crate) fn recall_session_price(&mut self) {
        let price =
            if plant::is(Plant::StopsSeeYesterday) { self.last_price } else { self.session_price };
        if let Some(price) = price
            && !plant::is(Plant::LastPriceNotRecalled)
        {
            self.traded = Some(widened(self.traded, price));
        }
    }

    /// Begins a session when the instrument leaves the phase closed for one with entry: stops see
    /// no trade of before.
    pub(crate) fn begin_session_in(&mut self, to: Phase, last: MatchId) {
        if self.is_session_over && !matches!(to, Phase::Closed | Phase::Halted) {
            self.is_session_over = false;
            self.session_price = None;
            self.bases.session = PriceBase::new(None, last);
        }
    }

    /// Takes in a trade that can no longer be busted.
    fn absorb(&mut self, match_id: MatchId, trade: &Trade) {
        if trade.is_busted || plant::is(Plant::OldTradesForgotten) {
            return;
        }
        let bases = &mut self.bases;
        bases.last.absorb(match_id, trade.price);
        bases.session.absorb(match_id, trade.price);
        if trade.is_auction {
            bases.uncrossed.absorb(match_id, trade.price);
        }
        if self.traded.is_some() && match_id >= bases.traded_from {
            bases.traded = Some(widened(bases.traded, trade.price));
        }
    }
}

impl Engine {
    /// Retains the trade `match_id` for a bust. Trades that are too old leave their prices in their
    /// instruments' bases: two at most, so that they make room and no trade waits for a crowd.
    #[inline]
    pub(crate) fn retain(&mut self, trade: Trade) {
        for _ in 0..2 {
            let match_id = MatchId(self.match_id.0 - self.trades.count() as u64);
            let Some(oldest) = self.trades.drop_oldest(self.time) else { break };
            self.forget_trade(match_id, &oldest);
        }
        self.keep_trade(trade);
    }

    /// Leaves the price of a dropped trade in its instrument's bases.
    #[inline]
    fn forget_trade(&mut self, match_id: MatchId, dropped: &Trade) {
        let row = &mut self.instruments[dropped.instrument];
        row.absorb(match_id, dropped);
        row.retained_count -= 1;
    }

    /// Drops the oldest trades until so many are left. The dropped ones must be too old for a bust.
    pub(crate) fn drop_trades_beyond(&mut self, count_max: usize) {
        loop {
            let oldest = MatchId(self.match_id.0 + 1 - self.trades.count() as u64);
            let Some(dropped) = self.trades.drop_beyond(count_max) else { return };
            self.forget_trade(oldest, &dropped);
        }
    }

    /// Adds a trade to the retained ones, which have room for it.
    #[inline]
    pub(crate) fn keep_trade(&mut self, trade: Trade) {
        self.instruments[trade.instrument].retained_count += 1;
        self.trades.push(trade);
    }

    /// Sets an instrument's prices to those of the trades that remain behind the bust of one.
    /// Visits the retained trades from the newest until each price is found or the instrument has
    /// no older one: all of them at most, 64 MiB at the default limit.
    pub(crate) fn recompute_prices<S: EventSink>(&mut self, busted: &Trade, out: &mut S) {
        let instrument = busted.instrument;
        let row = &self.instruments[instrument];
        let before = (row.last_price, row.uncrossed_price);
        let (bases, waits_for_stops) = (row.bases, row.traded.is_some());
        let [mut last, mut session] = [None; 2];
        // Only the bust of an uncrossing's trade changes that price.
        let mut uncrossed = row.uncrossed_price.filter(|_| !busted.is_auction);
        let mut traded = bases.traded;
        let (mut left, mut visited) = (row.retained_count, 0);
        for (match_id, trade) in self.trades.newest_first(self.match_id) {
            // No bust brings a price where there was none.
            let is_settled = |before: Option<Price>, found: Option<Price>, base: &PriceBase| {
                before.is_none() || found.is_some() || match_id <= base.since
            };
            let is_found = is_settled(row.last_price, last, &bases.last)
                && is_settled(row.session_price, session, &bases.session)
                && is_settled(row.uncrossed_price, uncrossed, &bases.uncrossed)
                && !(waits_for_stops && match_id >= bases.traded_from);
            if is_found || left == 0 {
                break;
            }
            visited += 1;
            left -= u32::from(trade.instrument == instrument);
            if trade.instrument != instrument || trade.is_busted {
                continue;
            }
            let behind = |base: &PriceBase| (match_id > base.since).then_some(trade.price);
            last = last.or_else(|| behind(&bases.last));
            session = session.or_else(|| behind(&bases.session));
            if trade.is_auction {
                uncrossed = uncrossed.or_else(|| behind(&bases.uncrossed));
            }
            if match_id >= bases.traded_from {
                traded = Some(widened(traded, trade.price));
            }
        }
        self.trades.visited = visited;
        let row = &mut self.instruments[instrument];
        if !plant::is(Plant::BustKeepsLastPrice) {
            row.last_price = last.or(bases.last.price);
        }
        if !plant::is(Plant::BustKeepsReference) {
            row.uncrossed_price = uncrossed.or(bases.uncrossed.price);
        }
        row.session_price = session.or(bases.session.price);
        if row.traded.is_some() && !plant::is(Plant::BustedTradesReachStops) {
            row.traded = traded;
        }
        if before != (row.last_price, row.uncrossed_price) {
            self.say_references(instrument, out);
        }
    }

    pub(crate) fn set_reference<S: EventSink>(
        &mut self,
        asker: Requester,
        m: &SetReference,
        out: &mut S,
    ) {
        match self.check_reference(asker, m) {
            Ok(slot) => {
                let since = self.match_id;
                let row = &mut self.instruments[slot];
                let given = |price: Price| (price != Price(0)).then_some(price);
                if m.sets_last == Switch::On {
                    row.last_price = given(m.last_px);
                    row.bases.last = PriceBase::new(row.last_price, since);
                }
                if m.sets_static == Switch::On {
                    row.uncrossed_price = given(m.static_px);
                    row.bases.uncrossed = PriceBase::new(row.uncrossed_price, since);
                }
                self.say_references(slot, out);
                self.say_done(asker, ClOrdId::NONE, 0, out);
            }
            Err(reason) => {
                let named = NamedIds { instrument_id: m.instrument_id, ..NamedIds::NOTHING };
                self.reject(asker, named, reason, out);
            }
        }
    }

    fn check_reference(&self, asker: Requester, m: &SetReference) -> Result<Slot, Reason> {
        let slot = self.check_phase_request(asker, m.instrument_id)?;
        let parts = [(m.sets_last, m.last_px), (m.sets_static, m.static_px)];
        let is_stray =
            |(switch, price): &(Switch, Price)| *switch == Switch::Off && *price != Price(0);
        if parts.iter().all(|(switch, _)| *switch == Switch::Off) || parts.iter().any(is_stray) {
            return Err(Reason::FieldOutOfRange);
        }
        for (_, price) in parts.iter().filter(|(_, price)| *price != Price(0)) {
            self.instruments[slot].check_price(*price)?;
        }
        Ok(slot)
    }

    fn say_references<S: EventSink>(&mut self, instrument: Slot, out: &mut S) {
        let row = &self.instruments[instrument];
        let switch = |is_on: bool| if is_on { Switch::On } else { Switch::Off };
        let event = Event::Plain(PlainEvent::ReferencesChanged(ReferencesChanged {
            position: self.position,
            transact_time: self.time,
            last_px: row.last_price.unwrap_or(Price(0)),
            static_px: row.uncrossed_price.unwrap_or(Price(0)),
            instrument_id: row.definition.instrument_id,
            partition_id: self.config.partition_id,
            has_last: switch(row.last_price.is_some()),
            has_static: switch(row.uncrossed_price.is_some()),
        }));
        self.say(&event, out);
    }
}
