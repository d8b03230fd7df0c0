//! All books of a feed and their single entry point, [`Books`].

use weir_feed::update::{Action, SystemEvent, TradeFlags, TradingState, Update};
use weir_types::{InstrumentId, Nanos, Price, Qty};

use super::anomaly::{Anomaly, AnomalyCounts, AnomalySet};
use super::change::{Change, TradePrint};
use super::config::BooksConfig;
use super::directory::Directory;
use super::instrument::{Cold, Instrument};
use super::queue::AddedOrder;
use super::quotes::VenueQuotes;
use super::statistics::CountedTrade;
use super::store::Store;
use super::trades::TradeLog;

/// The books, best prices, trades and trading states of a feed's instruments, built from its
/// updates alone.
///
/// An update's cost does not depend on the number of instruments: one table finds an order, and its
/// row links to its level and its neighbours. Nothing is allocated unless orders, levels of a side
/// or instruments exceed their previous maximum; [`BooksConfig`] preallocates.
pub struct Books {
    pub(crate) directory: Directory,
    pub(crate) instruments: Vec<Instrument>,
    pub(crate) cold: Vec<Cold>,
    pub(crate) quotes: Vec<VenueQuotes>,
    pub(crate) store: Store,
    pub(crate) trades: TradeLog,
    pub(crate) anomalies: AnomalyCounts,
    /// The number of gaps so far.
    pub(crate) gap_count: u32,
    /// The number of the last gap from which all instruments are repaired.
    pub(crate) repaired: u32,
    instruments_max: usize,
    levels_per_side: usize,
}

impl Books {
    /// Creates empty books.
    #[must_use]
    pub fn new(config: &BooksConfig) -> Books {
        let instruments_max = config.instruments_max as usize;
        let instruments = (config.instruments as usize).min(instruments_max);
        Books {
            directory: Directory::default(),
            instruments: Vec::with_capacity(instruments),
            cold: Vec::with_capacity(instruments),
            quotes: Vec::with_capacity(instruments),
            store: Store::new(config),
            trades: TradeLog::new(config.trades as usize),
            anomalies: AnomalyCounts::default(),
            gap_count: 0,
            repaired: 0,
            instruments_max,
            levels_per_side: config.levels_per_side as usize,
        }
    }

    /// Allocates an instrument before its first update, as when the feed defines it. Returns false
    /// for instrument number zero and when there is no room.
    pub fn define(&mut self, id: InstrumentId) -> bool {
        self.place_or_new(id, &mut Change::new(id)).is_some()
    }

    /// Applies an update and returns the change. Never panics, with any update.
    #[inline]
    pub fn apply(&mut self, update: &Update) -> Change {
        let mut change = Change::new(update.instrument_id);
        self.dispatch(update, &mut change);
        if !change.anomalies.is_empty() {
            self.note(&change);
        }
        change
    }

    #[inline]
    fn dispatch(&mut self, update: &Update, change: &mut Change) {
        let id = update.instrument_id;
        match update.action {
            Action::Add { order_id, side, price, size } => {
                self.add(id, &AddedOrder { order_id, side, price, size }, change);
            }
            Action::Delete { order_id } => self.delete(order_id, change),
            Action::Execute { .. } => self.execute(update, change),
            Action::Reduce { order_id, size } => self.reduce(order_id, size, change),
            Action::Replace { order_id, new_order_id, price, size } => {
                self.replace(order_id, new_order_id, price, size, change);
            }
            Action::Modify { order_id, price, size, keeps_priority } => {
                self.modify(order_id, price, size, keeps_priority, change);
            }
            Action::Level { .. } => self.level(update, change),
            Action::Quote { .. } | Action::Consolidated { .. } => self.quote(update, change),
            _ => self.dispatch_seldom(update, change),
        }
    }

    fn dispatch_seldom(&mut self, update: &Update, change: &mut Change) {
        let id = update.instrument_id;
        match update.action {
            Action::Trade { venue, aggressor, price, size, match_id, flags } => {
                let Some(place) = self.place_or_new(id, change) else { return };
                let print = TradePrint { price, size, match_id, aggressor, venue, flags };
                self.trade(place, print, update.ts_event, change);
            }
            Action::TradeBreak { match_id, size, price } => {
                self.break_trade(id, match_id, price, size, change);
            }
            Action::Status { state, .. } => self.status(id, state, change),
            Action::DayPrice { kind, price } => {
                let Some(place) = self.place_or_new(id, change) else { return };
                self.cold[place as usize].statistics.day_price(kind, price);
                change.has_statistics = true;
            }
            Action::Clear => self.clear(id, change),
            Action::System(SystemEvent::StartOfMessages) => self.new_day(change),
            // Auction indications and the other system events leave books unchanged; actions on
            // orders and levels never reach this function.
            _ => {}
        }
    }

    /// Returns the index of an instrument; adds it when it is new.
    #[inline]
    pub(crate) fn place_or_new(&mut self, id: InstrumentId, change: &mut Change) -> Option<u32> {
        match self.directory.get(id) {
            Some(place) => Some(place),
            None => self.new_place(id, change),
        }
    }

    #[cold]
    fn new_place(&mut self, id: InstrumentId, change: &mut Change) -> Option<u32> {
        if id == InstrumentId(0) {
            change.anomalies.insert(Anomaly::UnknownInstrument);
            return None;
        }
        let count = self.instruments.len();
        if count >= self.instruments_max {
            change.anomalies.insert(Anomaly::LimitReached);
            return None;
        }
        self.instruments.push(Instrument::new(id, self.levels_per_side));
        self.cold.push(Cold::default());
        self.quotes.push(VenueQuotes::default());
        let place = u32::try_from(count).ok()?;
        self.directory.insert(id, place);
        Some(place)
    }

    /// Counts anomalies and marks the instrument whose book may be wrong.
    #[cold]
    fn note(&mut self, change: &Change) {
        self.anomalies.count(change.anomalies);
        if change.instrument_id == InstrumentId(0)
            || !change.anomalies.iter().any(Anomaly::is_of_book)
        {
            return;
        }
        // A new instrument is suspect too: something was missed. A lack of room for it was already
        // reported as an anomaly.
        let mut unheard = Change::new(change.instrument_id);
        if let Some(place) = self.place_or_new(change.instrument_id, &mut unheard) {
            self.instruments[place as usize].top.is_suspect = true;
        }
    }

    /// Reports a trade and adds it to the statistics.
    #[inline]
    pub(crate) fn trade(&mut self, place: u32, print: TradePrint, ts: Nanos, change: &mut Change) {
        if print.size.is_zero() {
            return change.anomalies.insert(Anomaly::ZeroSize);
        }
        change.trade = Some(print);
        let TradePrint { price, size, flags, match_id, .. } = print;
        let counted = CountedTrade { price, size, ts, flags };
        let cold = &mut self.cold[place as usize];
        if cold.statistics.trade(&counted) {
            change.has_statistics = true;
            cold.last_trade = self.trades.push(place, match_id, cold.last_trade, counted);
        } else {
            change.anomalies.insert(Anomaly::Overflow);
        }
    }

    fn break_trade(
        &mut self,
        id: InstrumentId,
        match_id: u64,
        price: Price,
        size: Qty,
        change: &mut Change,
    ) {
        let Some(place) = self.place_or_new(id, change) else { return };
        change.has_trade_break = true;
        change.has_statistics = true;
        let Cold { statistics, last_trade, .. } = &mut self.cold[place as usize];
        match self.trades.break_trade(place, match_id) {
            Some(trade) => {
                statistics.untrade(&trade);
                let of_prices = [statistics.open, statistics.high, statistics.low, statistics.last];
                if of_prices.contains(&Some(trade.price)) {
                    self.trades.find_prices(*last_trade, statistics);
                }
            }
            None => {
                change.anomalies.insert(Anomaly::UnknownTrade);
                let flags = TradeFlags::default();
                statistics.untrade(&CountedTrade { price, size, ts: Nanos(0), flags });
                statistics.is_range_certain = false;
            }
        }
    }

    fn status(&mut self, id: InstrumentId, state: TradingState, change: &mut Change) {
        change.status = Some(state);
        if id == InstrumentId(0) {
            for place in 0..self.instruments.len() {
                self.set_state(place, state);
            }
        } else if let Some(place) = self.place_or_new(id, change) {
            self.set_state(place as usize, state);
        }
    }

    fn set_state(&mut self, place: usize, state: TradingState) {
        self.instruments[place].top.state = Some(state);
        self.cold[place].statistics.state = Some(state);
    }

    fn clear(&mut self, id: InstrumentId, change: &mut Change) {
        change.is_cleared = true;
        if id == InstrumentId(0) {
            self.store.clear_all();
            self.instruments.iter_mut().for_each(Instrument::clear);
            self.quotes.iter_mut().for_each(VenueQuotes::clear);
        } else if let Some(place) = self.place_or_new(id, change) {
            let instrument = &mut self.instruments[place as usize];
            let old = instrument.top.best;
            self.store.clear(instrument, place);
            self.quotes[place as usize].clear();
            let new = instrument.top.best;
            change.best = (old != new).then_some(super::BestChange { old, new });
        }
    }

    /// Resets the statistics; resting orders stay.
    fn new_day(&mut self, change: &mut Change) {
        change.has_statistics = true;
        self.trades.clear();
        for cold in &mut self.cold {
            cold.statistics.new_day();
            cold.last_trade = 0;
        }
    }

    /// Records a gap of messages of unknown instruments: marks every instrument STALE, including
    /// those not yet seen.
    pub fn mark_stale(&mut self) {
        let Some(count) = self.gap_count.checked_add(1) else {
            // The counter is exhausted: every instrument is now stale since the first gap.
            (self.gap_count, self.repaired) = (1, 0);
            self.instruments.iter_mut().for_each(|instrument| instrument.top.repaired = 0);
            return;
        };
        self.gap_count = count;
    }

    /// Clears STALE for all instruments: the missed messages arrived after all.
    pub fn repair(&mut self) {
        self.repaired = self.gap_count;
    }

    /// Clears STALE for one instrument, whose state was reloaded. Ignores an unknown instrument.
    pub fn repair_instrument(&mut self, id: InstrumentId) {
        if let Some(place) = self.directory.get(id) {
            self.instruments[place as usize].top.repaired = self.gap_count;
        }
    }

    /// Returns true when messages of this instrument may have been missed.
    #[must_use]
    pub fn is_stale(&self, id: InstrumentId) -> bool {
        let place = self.directory.get(id);
        let repaired = place.map_or(0, |place| self.instruments[place as usize].top.repaired);
        self.repaired.max(repaired) < self.gap_count
    }

    /// Returns true when updates of an instrument contradicted each other since it was last
    /// cleared.
    #[must_use]
    pub fn is_suspect(&self, id: InstrumentId) -> bool {
        let place = self.directory.get(id);
        place.is_some_and(|place| self.instruments[place as usize].top.is_suspect)
    }

    /// Returns the counters of anomalies by kind.
    #[must_use]
    pub fn anomalies(&self) -> &AnomalyCounts {
        &self.anomalies
    }

    /// Marks as suspect the owner of an order that another instrument's update named.
    #[cold]
    pub(crate) fn other_instrument(&mut self, place: u32, anomalies: &mut AnomalySet) {
        anomalies.insert(Anomaly::OtherInstrument);
        self.instruments[place as usize].top.is_suspect = true;
    }
}
