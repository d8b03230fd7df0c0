//! An instrument's current state and open interval.

use weir_types::{InstrumentId, Nanos, Qty, TradingState};

use super::record::{Activity, IntervalStatistics, OrderAct, Quote};

/// Counts of gaps at some point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gaps {
    /// The number of times that events did not reach the builder.
    pub(super) untold: u64,
    /// Gaps in the instrument's channel.
    pub(super) of_channel: u64,
}

/// A known instrument.
#[derive(Clone, Copy, Debug)]
pub(super) struct InstrumentState {
    pub(super) id: InstrumentId,
    pub(super) channel: u16,
    /// True while its time runs, from the first event of its session.
    pub(super) is_begun: bool,
    /// The best bid and offer; `None` while unknown.
    pub(super) quote: Option<Quote>,
    pub(super) state: Option<TradingState>,
    /// The latest time of the instrument.
    pub(super) clock: Nanos,
    /// The time up to which the current state was counted.
    at: Nanos,
    /// The sum of bid and offer when both last existed.
    sum: Option<i128>,
    /// The gaps already marked in reported statistics.
    marked: Gaps,
    /// The gaps before the quote was last refreshed.
    certain_from: Gaps,
    /// True when the interval has an event.
    has_happened: bool,
    /// The open interval.
    pub(super) row: IntervalStatistics,
}

impl InstrumentState {
    /// Creates a new instrument. Earlier gaps of its channel may have affected it, but earlier
    /// events that never reached the builder do not make its first quote uncertain.
    pub(super) fn new(id: InstrumentId, channel: u16, gaps: Gaps) -> InstrumentState {
        InstrumentState {
            id,
            channel,
            is_begun: false,
            quote: None,
            state: None,
            clock: Nanos(0),
            at: Nanos(0),
            sum: None,
            marked: Gaps::default(),
            certain_from: Gaps { untold: gaps.untold, of_channel: 0 },
            has_happened: false,
            row: empty(id, Nanos(0), None),
        }
    }

    /// Starts or continues its time at `at`, in the interval that begins at `start`.
    pub(super) fn begin(&mut self, start: Nanos, at: Nanos) {
        self.is_begun = true;
        (self.clock, self.at) = (at, at);
        self.open(start);
    }

    /// Continues its time at a later moment of the same interval; the time between was not
    /// observed.
    pub(super) fn skip(&mut self, to: Nanos) {
        (self.clock, self.at) = (to, to);
        self.row.is_complete = false;
    }

    /// Ends the session; earlier gaps do not affect the next one.
    pub(super) fn end(&mut self, gaps: Gaps) {
        (self.is_begun, self.quote, self.state, self.sum) = (false, None, None, None);
        (self.marked, self.certain_from) = (gaps, gaps);
    }

    /// Opens an interval with the current state.
    pub(super) fn open(&mut self, start: Nanos) {
        self.row = empty(self.id, start, self.quote);
        self.has_happened = false;
        self.note_spread();
    }

    /// Returns the open interval for reporting; `None` when it has nothing to report.
    pub(super) fn close(&mut self, gaps: Gaps) -> Option<IntervalStatistics> {
        let row = &mut self.row;
        let was_quoted = row.two_sided > 0 || row.crossed > 0 || row.one_sided > 0;
        if !(self.has_happened || was_quoted || row.halted > 0 || row.paused > 0) {
            return None;
        }
        row.last = self.quote;
        row.has_gap = std::mem::replace(&mut self.marked, gaps) != gaps;
        row.is_certain &= self.certain_from == gaps;
        Some(*row)
    }

    /// Returns true when time can pass without anything to report.
    pub(super) fn is_idle(&self) -> bool {
        let is_quoted = self.quote.is_some_and(|quote| quote != Quote::default());
        let is_stopped = matches!(self.state, Some(TradingState::Halted | TradingState::Paused));
        !is_quoted && !is_stopped
    }

    /// Counts the current state up to the instrument's own time.
    pub(super) fn settle(&mut self) {
        let elapsed = self.clock.since(self.at).0;
        self.at = self.clock;
        if elapsed == 0 {
            return;
        }
        if let Some(quote) = self.quote {
            self.stand(&quote, elapsed);
        }
        let row = &mut self.row;
        let of_state = match self.state {
            None => return,
            Some(TradingState::Trading) => &mut row.trading,
            Some(TradingState::Quoting | TradingState::Auction) => &mut row.auction,
            Some(TradingState::Paused) => &mut row.paused,
            Some(TradingState::Halted) => &mut row.halted,
            Some(TradingState::Closed) => &mut row.closed,
        };
        *of_state += elapsed;
    }

    /// Counts a quote that stood for `elapsed`. No interval exceeds 2^62, so no sum overflows.
    fn stand(&mut self, quote: &Quote, elapsed: u64) {
        let row = &mut self.row;
        let Some(market) = quote.market() else {
            let of_sides = match (quote.bid(), quote.ask()) {
                (Some(_), Some(_)) => &mut row.crossed,
                (None, None) => &mut row.empty,
                _ => &mut row.one_sided,
            };
            *of_sides += elapsed;
            return;
        };
        row.two_sided += elapsed;
        if market.spread == 0 {
            row.locked += elapsed;
        }
        let wide = u128::from(elapsed);
        row.spread_time += u128::from(market.spread) * wide;
        row.sum_time += market.sum * i128::from(elapsed);
        row.bid_size_time += u128::from(quote.bid_sz.0) * wide;
        row.ask_size_time += u128::from(quote.ask_sz.0) * wide;
        let relative = market.relative.map(|relative| u128::from(relative) * wide);
        row.relative_time = row.relative_time.zip(relative).map(|(sum, more)| sum + more);
    }

    /// Changes the best bid and offer.
    pub(super) fn quote(&mut self, new: Quote) {
        self.settle();
        let old = self.quote.unwrap_or_default();
        if old != new {
            self.row.quote_changes += 1;
            let prices = |quote: &Quote| [quote.bid(), quote.ask()].map(|side| side.map(|it| it.0));
            self.row.price_changes += u64::from(prices(&old) != prices(&new));
        }
        self.stands(new);
        let Some(market) = new.market() else { return };
        if let Some(before) = self.sum.replace(market.sum)
            && before != market.sum
        {
            self.row.mid_changes += 1;
            let moved = market.sum.abs_diff(before);
            let squared = moved.checked_mul(moved);
            let sum = self.row.sum_moves_squared.zip(squared);
            self.row.sum_moves_squared = sum.and_then(|(sum, more)| sum.checked_add(more));
        }
    }

    /// Sets the best bid and offer from a snapshot; the changes that led to it were not observed.
    pub(super) fn state_quote(&mut self, new: Quote) {
        self.settle();
        self.stands(new);
        self.sum = new.market().map(|market| market.sum);
    }

    /// Marks the best bid and offer as unknown.
    pub(super) fn forget_quote(&mut self) {
        self.settle();
        (self.quote, self.sum) = (None, None);
    }

    fn stands(&mut self, new: Quote) {
        self.quote = Some(new);
        self.row.first.get_or_insert(new);
        self.note_spread();
    }

    fn note_spread(&mut self) {
        let Some(market) = self.quote.and_then(|quote| quote.market()) else { return };
        let (row, spread) = (&mut self.row, market.spread);
        row.spread_min = Some(row.spread_min.map_or(spread, |least| least.min(spread)));
        row.spread_max = row.spread_max.max(Some(spread));
    }

    /// Returns true when a gap may have changed the quote.
    pub(super) fn is_in_doubt(&self, gaps: Gaps) -> bool {
        self.certain_from != gaps
    }

    /// Marks the quote as independent of events that never reached the builder and, if it is whole,
    /// of missed messages.
    pub(super) fn trust(&mut self, gaps: Gaps, is_whole: bool) {
        self.row.is_certain &= !self.is_in_doubt(gaps);
        self.certain_from.untold = gaps.untold;
        if is_whole {
            self.certain_from.of_channel = gaps.of_channel;
        }
    }

    /// Counts a message in the open interval.
    pub(super) fn hear(&mut self, sequence: u64, is_late: bool) {
        self.has_happened = true;
        self.row.late_count += u64::from(is_late);
        let (first, _) = self.row.sequences.unwrap_or((sequence, sequence));
        self.row.sequences = Some((first, sequence));
    }

    /// Counts an order or a trade.
    pub(super) fn act(&mut self, activity: &Activity) {
        let row = &mut self.row;
        let more = |sum: &mut Qty, size: Qty| sum.0 = sum.0.saturating_add(size.0);
        more(&mut row.added, activity.added);
        let of_removed = match activity.order {
            Some(OrderAct::Execute) => &mut row.executed,
            _ => &mut row.cancelled,
        };
        more(of_removed, activity.removed);
        match activity.order {
            None => {}
            Some(OrderAct::Add) => row.adds += 1,
            Some(OrderAct::Execute) => row.executions += 1,
            Some(OrderAct::Reduce) => row.reductions += 1,
            Some(OrderAct::Delete) => row.deletions += 1,
            Some(OrderAct::Replace) => row.replacements += 1,
            Some(OrderAct::Modify) => row.modifications += 1,
        }
        row.breaks += u64::from(activity.is_break);
        if activity.is_trade {
            row.trades += 1;
            more(&mut row.volume, activity.traded);
        }
    }
}

/// Returns an interval without events.
fn empty(instrument_id: InstrumentId, start: Nanos, first: Option<Quote>) -> IntervalStatistics {
    IntervalStatistics {
        instrument_id,
        start,
        first,
        relative_time: Some(0),
        sum_moves_squared: Some(0),
        is_complete: true,
        is_certain: true,
        ..IntervalStatistics::default()
    }
}
