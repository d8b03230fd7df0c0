//! The bar builder: it takes trades in and reports closed bars and corrections through a callback.

use weir_feed::update::TradeFlags;
use weir_types::{Cash, InstrumentId, Nanos, Qty};

use super::kind::BarKind;
use super::memory::{Memory, RememberedTrade, Serial, kept};
use super::record::{Bar, BarBreak, BarEvent, BarTrade, Correction};
use crate::book::directory::Directory;

/// The flags of a trade that counts for nothing in a bar.
const FOR_NOTHING: TradeFlags =
    TradeFlags::NOT_LAST.with(TradeFlags::NOT_HIGH_LOW).with(TradeFlags::NOT_VOLUME);

/// Configuration of a [`BarBuilder`]: the kind of bar, and the memory to allocate.
#[derive(Clone, Copy, Debug)]
pub struct BarBuilderConfig {
    /// The rule that ends a bar.
    pub kind: BarKind,
    /// Instruments to preallocate memory for.
    pub instruments: u32,
    /// The most instruments; trades of further instruments are refused and counted.
    pub instruments_max: u32,
    /// Latest trades, over all instruments, that can still be undone; rounded up to a power of two.
    /// With zero, none can.
    pub trades: u32,
}

impl BarBuilderConfig {
    /// Returns the configuration for bars of this kind, with room for all of a market's
    /// instruments.
    #[must_use]
    pub fn new(kind: BarKind) -> BarBuilderConfig {
        BarBuilderConfig { kind, instruments: 16_384, instruments_max: 1 << 22, trades: 65_536 }
    }
}

/// Counters of a builder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BarCounts {
    /// Trades counted in bars, including those undone later.
    pub trades: u64,
    /// Trades ignored because they count for nothing.
    pub passed_over: u64,
    /// Trades refused: without size or instrument, over the limit of instruments, or overflowing a
    /// sum.
    pub refused: u64,
    /// Trades whose interval had already ended.
    pub late: u64,
    /// Trades undone in open bars.
    pub broken: u64,
    /// Corrections reported, including those of trades that are not remembered.
    pub corrections: u64,
    /// Corrections of trades that are not remembered.
    pub unknown: u64,
    /// Bars reported.
    pub bars: u64,
}

/// An instrument's open bar, and the state needed to close and correct it.
struct OpenBar {
    id: InstrumentId,
    bar: Option<Bar>,
    /// Bars so far, including the open one.
    number: u64,
    /// Trades taken into the open bar, including undone ones.
    taken: u64,
    /// Trades of the open bar that were undone.
    broken: u64,
    last: Serial,
    /// For bars by time: the earliest start of the next bar.
    floor: Nanos,
    /// The number of the last gap for which a bar of the instrument was marked.
    gap_seen: u64,
}

/// Builds the bars of one kind for all instruments of a feed.
pub struct BarBuilder {
    kind: BarKind,
    directory: Directory,
    places: Vec<OpenBar>,
    instruments_max: usize,
    memory: Memory,
    /// Intervals before this one are over for all instruments.
    floor: Nanos,
    gap_count: u64,
    counts: BarCounts,
}

impl BarBuilder {
    /// Creates a builder without bars.
    #[must_use]
    pub fn new(config: &BarBuilderConfig) -> BarBuilder {
        let instruments_max = config.instruments_max as usize;
        BarBuilder {
            kind: config.kind,
            directory: Directory::default(),
            places: Vec::with_capacity(instruments_max.min(config.instruments as usize)),
            instruments_max,
            memory: Memory::new(config.trades as usize),
            floor: Nanos(0),
            gap_count: 0,
            counts: BarCounts::default(),
        }
    }

    /// Returns the rule that ends a bar.
    #[must_use]
    pub fn kind(&self) -> BarKind {
        self.kind
    }

    /// Returns the counters.
    #[must_use]
    pub fn counts(&self) -> &BarCounts {
        &self.counts
    }

    /// Takes a trade in. Closes at most two bars: one whose interval is over, and the one that this
    /// trade fills.
    pub fn trade(&mut self, trade: &BarTrade, tell: &mut (impl FnMut(&BarEvent) + ?Sized)) {
        if trade.print.flags.contains(FOR_NOTHING) {
            self.counts.passed_over += 1;
            return;
        }
        let Some(place_no) = self.place_of(trade) else {
            self.counts.refused += 1;
            return;
        };
        let said = self.kind.start_of(trade.ts_event);
        let is_by_time = matches!(self.kind, BarKind::Time { .. });
        let place = &mut self.places[place_no as usize];
        if is_by_time && place.bar.as_ref().is_some_and(|bar| said > bar.start) {
            close(place, self.gap_count, true, &mut self.counts, tell);
        }
        let start = if is_by_time { said.max(self.floor) } else { trade.ts_event };
        let bar = open(place, is_by_time, start, trade, self.gap_count);
        let is_late = is_by_time && trade.ts_event < bar.start;
        if !bar.take(trade, is_late) {
            self.counts.refused += 1;
            return;
        }
        let (number, start) = (bar.number, bar.start);
        let is_filled = self.kind.is_filled_by(bar.trade_count, bar.volume.0);
        place.taken += 1;
        place.last = self.memory.push(kept(place_no, place.last, trade, number, start));
        self.counts.trades += 1;
        self.counts.late += u64::from(is_late);
        if is_filled {
            close(place, self.gap_count, true, &mut self.counts, tell);
        }
    }

    /// Undoes a trade: in its bar while that is open, else by reporting a correction.
    pub fn trade_break(&mut self, undone: &BarBreak, tell: &mut (impl FnMut(&BarEvent) + ?Sized)) {
        let place_no = self.directory.get(undone.instrument_id);
        let found = place_no.and_then(|no| self.memory.break_trade(no, undone.match_id));
        let is_open = |place: &OpenBar, trade: &RememberedTrade| {
            place.bar.as_ref().is_some_and(|bar| bar.number == trade.bar.0)
        };
        if let (Some(no), Some(trade)) = (place_no, &found)
            && is_open(&self.places[no as usize], trade)
        {
            return self.break_open(no, trade);
        }
        self.counts.corrections += 1;
        self.counts.unknown += u64::from(found.is_none());
        let (price, size) = found.map_or((undone.price, undone.size), |it| (it.price, it.size));
        tell(&BarEvent::Corrected(Correction {
            instrument_id: undone.instrument_id,
            bar: found.map(|trade| trade.bar),
            match_id: undone.match_id,
            price,
            size,
            flags: found.map_or(TradeFlags::default(), |trade| trade.flags),
            ts_event: undone.ts_event,
            sequence: undone.sequence,
        }));
    }

    /// Advances the trades' clock to `now`: closes the bars by time whose interval began before
    /// that of `now`, in the order in which their instruments first traded. Later trades for these
    /// intervals are late. Costs nothing while `now` stays in the same interval.
    pub fn advance(&mut self, now: Nanos, tell: &mut (impl FnMut(&BarEvent) + ?Sized)) {
        let floor = self.kind.start_of(now);
        if floor <= self.floor {
            return;
        }
        self.floor = floor;
        for place in &mut self.places {
            if place.bar.as_ref().is_some_and(|bar| bar.start < floor) {
                close(place, self.gap_count, true, &mut self.counts, tell);
            }
        }
    }

    /// Records a gap: messages of unknown instruments were missed. The open bars, and the next bar
    /// of each instrument without one, may lack trades.
    pub fn mark_gap(&mut self) {
        self.gap_count += 1;
    }

    /// Ends the session: closes all bars as they are and restarts their numbers at 1. Earlier
    /// trades can no longer be undone.
    pub fn end_session(&mut self, tell: &mut (impl FnMut(&BarEvent) + ?Sized)) {
        for place in &mut self.places {
            close(place, self.gap_count, false, &mut self.counts, tell);
            (place.number, place.last, place.floor, place.gap_seen) = (0, 0, Nanos(0), 0);
        }
        self.memory.clear();
        (self.floor, self.gap_count) = (Nanos(0), 0);
    }

    fn place_of(&mut self, trade: &BarTrade) -> Option<u32> {
        let id = trade.instrument_id;
        if trade.print.size.is_zero() || id == InstrumentId(0) {
            return None;
        }
        if let Some(place) = self.directory.get(id) {
            return Some(place);
        }
        if self.places.len() >= self.instruments_max {
            return None;
        }
        let place_no = u32::try_from(self.places.len()).ok()?;
        // A new instrument may lack trades of every earlier gap.
        let (gap_seen, bar, floor) = (0, None, Nanos(0));
        let (number, taken, broken, last) = (0, 0, 0, 0);
        self.places.push(OpenBar { id, bar, number, taken, broken, last, floor, gap_seen });
        self.directory.insert(id, place_no);
        Some(place_no)
    }

    /// Takes a trade out of the open bar.
    fn break_open(&mut self, place_no: u32, trade: &RememberedTrade) {
        let place = &mut self.places[place_no as usize];
        let Some(bar) = &mut place.bar else { return };
        self.counts.broken += 1;
        place.broken += 1;
        bar.broken_count += 1;
        if place.broken == place.taken {
            // The next bar may lack the same trades as this one.
            place.gap_seen = if bar.has_gap { u64::MAX } else { place.gap_seen };
            place.number -= 1;
            place.bar = None;
            return;
        }
        if trade.counts_for_volume() {
            bar.volume = Qty(bar.volume.0.saturating_sub(trade.size.0));
            let cash = trade.price.notional(trade.size);
            bar.turnover = Cash(bar.turnover.0.saturating_sub(cash.0));
            bar.trade_count = bar.trade_count.saturating_sub(1);
        }
        let is_late = trade.ts < bar.start && matches!(self.kind, BarKind::Time { .. });
        bar.late_count = bar.late_count.saturating_sub(u64::from(is_late));
        if !bar.may_rest_on(trade) {
            return;
        }
        let mut anew = *bar;
        (anew.open, anew.high, anew.low, anew.close) = (None, None, None, None);
        let mut is_newest = true;
        let remembered = self.memory.walk(place.last, bar.number, place.taken, |older| {
            anew.put_before(older, is_newest);
            is_newest = false;
        });
        if remembered == place.taken {
            *bar = anew;
        } else {
            bar.is_range_certain = false;
        }
    }
}

/// Returns the open bar of an instrument; opens one when there is none.
fn open<'a>(
    place: &'a mut OpenBar,
    is_by_time: bool,
    start: Nanos,
    trade: &BarTrade,
    gap_count: u64,
) -> &'a mut Bar {
    if place.bar.is_none() {
        place.number += 1;
        (place.taken, place.broken) = (0, 0);
        place.floor = place.floor.max(start);
    }
    let start = if is_by_time { place.floor } else { start };
    let (instrument_id, number) = (place.id, place.number);
    let gap_seen = &mut place.gap_seen;
    place.bar.get_or_insert_with(|| {
        let has_gap = std::mem::replace(gap_seen, gap_count) != gap_count;
        Bar {
            instrument_id,
            number,
            start,
            ts_first: trade.ts_event,
            ts_last: trade.ts_event,
            first_sequence: trade.sequence,
            last_sequence: trade.sequence,
            open: None,
            high: None,
            low: None,
            close: None,
            volume: Qty::ZERO,
            turnover: Cash(0),
            trade_count: 0,
            late_count: 0,
            broken_count: 0,
            is_complete: true,
            is_range_certain: true,
            has_gap,
        }
    })
}

/// Closes and reports the open bar of an instrument, if it has one.
fn close(
    place: &mut OpenBar,
    gap_count: u64,
    is_complete: bool,
    counts: &mut BarCounts,
    tell: &mut (impl FnMut(&BarEvent) + ?Sized),
) {
    let Some(mut bar) = place.bar.take() else { return };
    bar.has_gap |= std::mem::replace(&mut place.gap_seen, gap_count) != gap_count;
    bar.is_complete = is_complete;
    counts.bars += 1;
    tell(&BarEvent::Closed(bar));
}

impl Bar {
    /// Takes a trade in. Returns false, and changes nothing, when a sum would overflow; that cannot
    /// happen with the first trade.
    fn take(&mut self, trade: &BarTrade, is_late: bool) -> bool {
        let print = &trade.print;
        let price = print.price;
        if !print.flags.contains(TradeFlags::NOT_VOLUME) {
            let volume = self.volume.0.checked_add(print.size.0);
            let turnover = self.turnover.0.checked_add(price.notional(print.size).0);
            let (Some(volume), Some(turnover)) = (volume, turnover) else { return false };
            (self.volume, self.turnover) = (Qty(volume), Cash(turnover));
            self.trade_count += 1;
        }
        if !print.flags.contains(TradeFlags::NOT_LAST) {
            self.open.get_or_insert(price);
            self.close = Some(price);
        }
        if !print.flags.contains(TradeFlags::NOT_HIGH_LOW) {
            self.high = self.high.max(Some(price));
            self.low = self.low.map_or(Some(price), |low| Some(low.min(price)));
        }
        self.late_count += u64::from(is_late);
        (self.ts_last, self.last_sequence) = (trade.ts_event, trade.sequence);
        true
    }
}
