//! The interval builder: it takes in events of instruments and reports closed intervals.

use core::num::NonZeroU64;

use weir_types::{InstrumentId, Nanos};

use super::instrument_state::{Gaps, InstrumentState};
use super::record::{
    Activity, BookStatement, ChannelReset, IntervalStatistics, Quote, QuoteChange, StateChange,
};
use crate::bar::BarKind;
use crate::book::directory::Directory;

/// The longest interval: with it, sums of prices times durations fit 128 bits.
const INTERVAL_MAX: u64 = 1 << 62;

/// Configuration of an [`IntervalBuilder`]. Times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct IntervalConfig {
    /// The length of an interval; longer ones than 2^62 are reduced to that.
    pub interval: NonZeroU64,
    /// Intervals begin here and every `interval` before and after it.
    pub origin: Nanos,
    /// The time past an interval's end, on other instruments' clocks, at which a quiet instrument's
    /// interval is closed.
    pub lateness: u64,
    /// The longest silence of all instruments during which time passes.
    pub silence: u64,
    /// Instruments to preallocate memory for.
    pub instruments: u32,
    /// The most instruments; events of further instruments are refused and counted.
    pub instruments_max: u32,
}

impl IntervalConfig {
    /// Returns the configuration for intervals of this length, with room for all of a market's
    /// instruments.
    #[must_use]
    pub fn new(interval: NonZeroU64) -> IntervalConfig {
        IntervalConfig {
            interval,
            origin: Nanos(0),
            lateness: 1_000_000_000,
            silence: 3_600_000_000_000,
            instruments: 16_384,
            instruments_max: 1 << 22,
        }
    }
}

/// Counters of a builder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntervalCounts {
    /// Events that count for an instrument.
    pub events: u64,
    /// Events refused: without instrument, or over the limit of instruments.
    pub refused: u64,
    /// Counted events whose time lies in an interval that had already ended.
    pub late: u64,
    /// Silences that were too long for time to pass.
    pub silences: u64,
    /// Intervals reported.
    pub told: u64,
}

/// A callback for closed intervals.
type Tell<'a> = dyn FnMut(&IntervalStatistics) + 'a;

/// Builds the statistics by interval of all instruments of a feed.
pub struct IntervalBuilder {
    /// The rule for the start of intervals.
    kind: BarKind,
    interval: u64,
    phase: u64,
    config: IntervalConfig,
    directory: Directory,
    places: Vec<InstrumentState>,
    /// The latest time of any instrument; `None` before the session's first.
    clock: Option<Nanos>,
    /// Intervals before this one are over for all instruments.
    floor: Nanos,
    /// The number of times that events did not reach the builder.
    untold: u64,
    /// The number of gaps by channel.
    missed: Vec<u64>,
    counts: IntervalCounts,
}

impl IntervalBuilder {
    /// Creates a builder without instruments.
    #[must_use]
    pub fn new(config: &IntervalConfig) -> IntervalBuilder {
        let interval = config.interval.min(NonZeroU64::new(INTERVAL_MAX).expect("it is not zero"));
        let room = config.instruments.min(config.instruments_max) as usize;
        IntervalBuilder {
            kind: BarKind::Time { interval, origin: config.origin },
            interval: interval.get(),
            phase: config.origin.0 % interval,
            config: *config,
            directory: Directory::default(),
            places: Vec::with_capacity(room),
            clock: None,
            floor: Nanos(0),
            untold: 0,
            missed: Vec::new(),
            counts: IntervalCounts::default(),
        }
    }

    /// Returns the counters.
    #[must_use]
    pub fn counts(&self) -> &IntervalCounts {
        &self.counts
    }

    /// Returns true when no interval is open and no session is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.clock.is_none()
    }

    /// Counts an order or a trade.
    pub fn act(&mut self, activity: &Activity, tell: &mut Tell<'_>) {
        let Activity { instrument_id, channel, sequence, ts_event, .. } = *activity;
        if let Some((place, _)) = self.hear(instrument_id, channel, sequence, ts_event, tell) {
            place.act(activity);
        }
    }

    /// Takes a new best bid and offer.
    pub fn quote(&mut self, quoted: &QuoteChange, tell: &mut Tell<'_>) {
        let QuoteChange { instrument_id, channel, sequence, ts_event, .. } = *quoted;
        let heard = self.hear(instrument_id, channel, sequence, ts_event, tell);
        let Some((place, gaps)) = heard else { return };
        place.quote(quoted.quote);
        // The quote makes up for a change of state that may have been missed.
        if place.is_in_doubt(gaps) || place.state.is_none() {
            place.state = quoted.state.or(place.state);
        }
        place.trust(gaps, quoted.is_whole);
    }

    /// Takes a new trading state, of one instrument or of all known ones.
    pub fn call(&mut self, called: &StateChange, tell: &mut Tell<'_>) {
        let StateChange { instrument_id, channel, sequence, ts_event, state } = *called;
        if instrument_id != InstrumentId(0) {
            let heard = self.hear(instrument_id, channel, sequence, ts_event, tell);
            if let Some((place, _)) = heard {
                place.settle();
                place.state = Some(state);
            }
            return;
        }
        self.pass(ts_event, tell);
        for at in 0..self.places.len() {
            if self.places[at].is_begun {
                self.reach(at, ts_event, tell);
                self.places[at].settle();
            }
            self.places[at].state = Some(state);
        }
    }

    /// Takes an instrument's book from a snapshot.
    pub fn state_book(&mut self, stated: &BookStatement, tell: &mut Tell<'_>) {
        let Some(at) = self.place_of(stated.instrument_id, stated.channel) else {
            self.counts.refused += 1;
            return;
        };
        if let Some(clock) = self.clock {
            self.reach(at, clock, tell);
        }
        let gaps = self.gaps_of(self.places[at].channel);
        let place = &mut self.places[at];
        place.state_quote(stated.quote);
        place.state = stated.state.or(place.state);
        place.trust(gaps, true);
    }

    /// Applies a change of all books of a channel.
    pub fn void(&mut self, channel: u16, voided: ChannelReset, tell: &mut Tell<'_>) {
        if voided == ChannelReset::GivenUp {
            self.miss(channel);
        }
        let gaps = self.gaps_of(channel);
        for at in 0..self.places.len() {
            if self.places[at].channel != channel {
                continue;
            }
            if let (true, Some(clock)) = (self.places[at].is_begun, self.clock) {
                self.reach(at, clock, tell);
            }
            let place = &mut self.places[at];
            match voided {
                ChannelReset::Emptied if place.quote.is_some() => place.quote(Quote::default()),
                ChannelReset::Emptied => {}
                ChannelReset::GivenUp => place.forget_quote(),
                ChannelReset::NewSession => {
                    place.forget_quote();
                    place.state = None;
                }
            }
            if voided != ChannelReset::GivenUp {
                place.trust(gaps, true);
            }
        }
    }

    /// Records a gap: messages of a channel were missed.
    pub fn miss(&mut self, channel: u16) {
        let channel = usize::from(channel);
        if self.missed.len() <= channel {
            self.missed.resize(channel + 1, 0);
        }
        self.missed[channel] += 1;
    }

    /// Records that events of unknown instruments never reached the builder.
    pub fn mark_untold(&mut self) {
        self.untold += 1;
    }

    /// Ends a channel's session: reports the open intervals of its instruments as they are, and
    /// forgets their state.
    pub fn end_session(&mut self, channel: u16, tell: &mut Tell<'_>) {
        let gaps = self.gaps_of(channel);
        for at in 0..self.places.len() {
            if self.places[at].channel == channel {
                self.end(at, gaps, tell);
            }
        }
        if let Some(missed) = self.missed.get_mut(usize::from(channel)) {
            *missed = 0;
        }
        if self.places.iter().all(|place| !place.is_begun) {
            self.forget();
        }
    }

    /// Ends all sessions.
    pub fn end_all(&mut self, tell: &mut Tell<'_>) {
        for at in 0..self.places.len() {
            let gaps = self.gaps_of(self.places[at].channel);
            self.end(at, gaps, tell);
        }
        self.forget();
    }

    /// Resets time and gaps, when no session is under way.
    fn forget(&mut self) {
        (self.clock, self.floor, self.untold) = (None, Nanos(0), 0);
        self.missed.fill(0);
        self.places.iter_mut().for_each(|place| place.end(Gaps::default()));
    }

    /// Reports the open interval of an instrument and stops its clock.
    fn end(&mut self, at: usize, gaps: Gaps, tell: &mut Tell<'_>) {
        if let (true, Some(clock)) = (self.places[at].is_begun, self.clock) {
            self.reach(at, clock, tell);
            let place = &mut self.places[at];
            place.settle();
            place.row.is_complete = false;
            self.close(at, tell);
        }
        self.places[at].end(Gaps { of_channel: 0, ..gaps });
    }

    fn gaps_of(&self, channel: u16) -> Gaps {
        let of_channel = self.missed.get(usize::from(channel)).copied().unwrap_or(0);
        Gaps { untold: self.untold, of_channel }
    }

    /// Advances time to an event of an instrument and counts the event.
    fn hear(
        &mut self,
        id: InstrumentId,
        channel: u16,
        sequence: u64,
        ts: Nanos,
        tell: &mut Tell<'_>,
    ) -> Option<(&mut InstrumentState, Gaps)> {
        let Some(at) = self.place_of(id, channel) else {
            self.counts.refused += 1;
            return None;
        };
        self.pass(ts, tell);
        self.reach(at, ts, tell);
        let place = &self.places[at];
        let is_late = ts < place.row.start;
        self.counts.events += 1;
        self.counts.late += u64::from(is_late);
        let gaps = self.gaps_of(place.channel);
        let place = &mut self.places[at];
        place.hear(sequence, is_late);
        Some((place, gaps))
    }

    /// Returns the index of an instrument; adds it when it is new.
    fn place_of(&mut self, id: InstrumentId, channel: u16) -> Option<usize> {
        if let Some(place) = self.directory.get(id) {
            return Some(place as usize);
        }
        if id == InstrumentId(0) || self.places.len() >= self.config.instruments_max as usize {
            return None;
        }
        let place_no = u32::try_from(self.places.len()).ok()?;
        self.places.push(InstrumentState::new(id, channel, self.gaps_of(channel)));
        self.directory.insert(id, place_no);
        Some(place_no as usize)
    }

    /// Advances the venue's clock; closes the intervals that are over for all.
    fn pass(&mut self, ts: Nanos, tell: &mut Tell<'_>) {
        let Some(clock) = self.clock else {
            self.clock = Some(ts);
            return self.resume(None, ts, tell);
        };
        if ts <= clock {
            return;
        }
        if ts.since(clock).0 > self.config.silence {
            self.counts.silences += 1;
            self.resume(Some(clock), ts, tell);
        }
        self.clock = Some(ts);
        let floor = self.kind.start_of(Nanos(ts.0.saturating_sub(self.config.lateness)));
        if floor > self.floor {
            self.floor = floor;
            for at in 0..self.places.len() {
                if self.places[at].is_begun {
                    self.reach(at, floor, tell);
                }
            }
        }
    }

    /// Starts, or after a silence continues, the time of all known instruments.
    #[cold]
    fn resume(&mut self, silent_since: Option<Nanos>, to: Nanos, tell: &mut Tell<'_>) {
        let start = self.kind.start_of(to);
        for at in 0..self.places.len() {
            let place = &mut self.places[at];
            let Some(since) = silent_since else {
                // Its state comes from a snapshot received before any time was known.
                if place.quote.is_some() || place.state.is_some() {
                    place.begin(start, to);
                }
                continue;
            };
            if !place.is_begun {
                continue;
            }
            self.reach(at, since, tell);
            self.places[at].settle();
            if self.places[at].row.start < start {
                self.places[at].row.is_complete = false;
                self.close(at, tell);
                self.places[at].begin(start, to);
            } else {
                self.places[at].skip(to);
            }
        }
    }

    /// Advances an instrument's own time to `ts`, unless it is already later; closes the intervals
    /// that are over.
    fn reach(&mut self, at: usize, ts: Nanos, tell: &mut Tell<'_>) {
        let place = &mut self.places[at];
        if !place.is_begun {
            let ts = ts.max(self.floor);
            place.begin(self.kind.start_of(ts), ts);
        }
        while let Some(end) = self.end_of(self.places[at].row.start)
            && ts >= end
        {
            let place = &mut self.places[at];
            place.clock = end;
            place.settle();
            let is_idle = place.is_idle();
            self.close(at, tell);
            let next = if is_idle { self.kind.start_of(ts) } else { end };
            self.places[at].begin(next, next);
        }
        let place = &mut self.places[at];
        place.clock = place.clock.max(ts);
    }

    /// Returns the end of the interval that begins at `start`; `None` when it exceeds 64 bits.
    fn end_of(&self, start: Nanos) -> Option<Nanos> {
        if start.0 < self.phase {
            return Some(Nanos(self.phase));
        }
        start.0.checked_add(self.interval).map(Nanos)
    }

    fn close(&mut self, at: usize, tell: &mut Tell<'_>) {
        let gaps = self.gaps_of(self.places[at].channel);
        if let Some(row) = self.places[at].close(gaps) {
            self.counts.told += 1;
            tell(&row);
        }
    }
}
