//! A slow, simple model of the statistics: it keeps every event with the time at which it counts,
//! and at the end adds up each interval nanosecond by nanosecond.

use std::collections::BTreeMap;

use weir_market::interval::{
    Activity, BookStatement, ChannelReset, IntervalConfig, IntervalStatistics, OrderAct, Quote,
    QuoteChange, StateChange,
};
use weir_types::{InstrumentId, Nanos, Qty, TradingState};

#[derive(Clone, Copy)]
enum What {
    Quote(Quote),
    Stated(Quote),
    Forgotten,
    State(Option<TradingState>),
    Heard(u64, bool),
    Act(Activity),
}

/// An event with the time at which it counts.
#[derive(Clone, Copy)]
struct Item {
    at: u64,
    /// True when it was known before the instrument's time began.
    is_early: bool,
    what: What,
}

/// Gaps: events that never reached the builder, and missed messages of a channel.
type Gaps = (u64, u64);

/// An instrument from the beginning of its time to the end of its session.
#[derive(Default)]
struct Life {
    items: Vec<Item>,
    /// The spans over which its time ran.
    spans: Vec<(u64, u64)>,
    own: u64,
    /// For each step since its beginning: the gaps before it, whether they made the quote
    /// uncertain, and the instrument's time after it.
    steps: Vec<(Gaps, bool, u64)>,
    /// The starts of intervals that were cut short.
    cut: Vec<u64>,
}

#[derive(Default)]
struct One {
    channel: u16,
    /// Its state before its time began.
    early: Vec<What>,
    life: Option<Life>,
    marked: Gaps,
    certain_from: Gaps,
    /// The state as currently known.
    has_quote: bool,
    state: Option<TradingState>,
}

pub struct Model {
    config: IntervalConfig,
    ones: BTreeMap<u32, One>,
    clock: Option<u64>,
    floor: u64,
    untold: u64,
    missed: BTreeMap<u16, u64>,
    pub told: Vec<IntervalStatistics>,
}

impl Model {
    pub fn new(config: &IntervalConfig) -> Model {
        let (ones, missed, told) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Model { config: *config, ones, clock: None, floor: 0, untold: 0, missed, told }
    }

    /// Counts up from zero.
    fn start_of(&self, ts: u64) -> u64 {
        let (interval, mut next) = (self.config.interval.get(), self.config.origin.0);
        while next >= interval {
            next -= interval;
        }
        let mut start = 0;
        while next <= ts {
            start = next;
            next += interval;
        }
        start
    }

    fn gaps(&self, channel: u16) -> Gaps {
        (self.untold, self.missed.get(&channel).copied().unwrap_or(0))
    }

    /// Records the step for every instrument before anything happens in it.
    fn begin_step(&mut self) {
        for id in self.ones.keys().copied().collect::<Vec<_>>() {
            let gaps = self.gaps(self.ones[&id].channel);
            let one = self.ones.get_mut(&id).expect("it is there");
            if let Some(life) = &mut one.life {
                life.steps.push((gaps, one.certain_from != gaps, life.own));
            }
        }
    }

    fn one(&mut self, id: InstrumentId, channel: u16) -> Option<&mut One> {
        if id.0 == 0 {
            return None;
        }
        if !self.ones.contains_key(&id.0) {
            if self.ones.len() >= self.config.instruments_max as usize {
                return None;
            }
            let certain_from = (self.untold, 0);
            self.ones.insert(id.0, One { channel, certain_from, ..One::default() });
        }
        self.ones.get_mut(&id.0)
    }

    fn begin_life(&mut self, id: u32, at: u64) {
        let gaps = self.gaps(self.ones[&id].channel);
        let one = self.ones.get_mut(&id).expect("it is there");
        let mut life = Life { own: at, spans: vec![(at, at)], ..Life::default() };
        life.steps.push((gaps, one.certain_from != gaps, at));
        let early = one.early.drain(..).map(|what| Item { at, is_early: true, what });
        life.items.extend(early);
        one.life = Some(life);
    }

    /// Advances an instrument's own time to `ts`, unless it is already later.
    fn reach(&mut self, id: u32, ts: u64) -> u64 {
        if self.ones[&id].life.is_none() {
            self.begin_life(id, ts.max(self.floor));
        }
        let life = self.ones.get_mut(&id).and_then(|one| one.life.as_mut()).expect("it has one");
        life.own = life.own.max(ts);
        life.steps.last_mut().expect("a step").2 = life.own;
        life.own
    }

    fn pass(&mut self, ts: u64) {
        let ids: Vec<u32> = self.ones.keys().copied().collect();
        let Some(clock) = self.clock else {
            self.clock = Some(ts);
            for id in ids {
                let one = &self.ones[&id];
                if one.has_quote || one.state.is_some() {
                    self.begin_life(id, ts);
                }
            }
            return;
        };
        if ts <= clock {
            return;
        }
        if ts - clock > self.config.silence {
            let cut = self.start_of(clock);
            for one in self.ones.values_mut() {
                let Some(life) = &mut one.life else { continue };
                life.spans.last_mut().expect("a span").1 = clock;
                life.spans.push((ts, ts));
                life.cut.push(cut);
                life.own = ts;
            }
        }
        self.clock = Some(ts);
        self.floor = self.floor.max(self.start_of(ts.saturating_sub(self.config.lateness)));
        for one in self.ones.values_mut() {
            let Some(life) = &mut one.life else { continue };
            life.own = life.own.max(self.floor);
            life.steps.last_mut().expect("a step").2 = life.own;
        }
    }

    fn item(&mut self, id: u32, what: What) {
        let one = self.ones.get_mut(&id).expect("it is there");
        match what {
            What::Quote(_) | What::Stated(_) => one.has_quote = true,
            What::Forgotten => one.has_quote = false,
            What::State(state) => one.state = state,
            _ => {}
        }
        match &mut one.life {
            Some(life) => life.items.push(Item { at: life.own, is_early: false, what }),
            None => one.early.push(what),
        }
    }

    fn hear(&mut self, id: InstrumentId, channel: u16, ts: u64, sequence: u64) -> Option<u32> {
        self.one(id, channel)?;
        let id = id.0;
        self.pass(ts);
        let own = self.reach(id, ts);
        let is_late = ts < self.start_of(own);
        self.item(id, What::Heard(sequence, is_late));
        Some(id)
    }

    fn trust(&mut self, id: u32, is_whole: bool) {
        let gaps = self.gaps(self.ones[&id].channel);
        let one = self.ones.get_mut(&id).expect("it is there");
        one.certain_from.0 = gaps.0;
        if is_whole {
            one.certain_from.1 = gaps.1;
        }
    }

    pub fn act(&mut self, it: &Activity) {
        self.begin_step();
        if let Some(id) = self.hear(it.instrument_id, it.channel, it.ts_event.0, it.sequence) {
            self.item(id, What::Act(*it));
        }
    }

    pub fn quote(&mut self, it: &QuoteChange) {
        self.begin_step();
        let Some(id) = self.hear(it.instrument_id, it.channel, it.ts_event.0, it.sequence) else {
            return;
        };
        self.item(id, What::Quote(it.quote));
        let one = &self.ones[&id];
        let is_in_doubt = one.certain_from != self.gaps(one.channel);
        if it.state.is_some() && (is_in_doubt || one.state.is_none()) {
            self.item(id, What::State(it.state));
        }
        self.trust(id, it.is_whole);
    }

    pub fn call(&mut self, it: &StateChange) {
        self.begin_step();
        if it.instrument_id.0 != 0 {
            let heard = self.hear(it.instrument_id, it.channel, it.ts_event.0, it.sequence);
            if let Some(id) = heard {
                self.item(id, What::State(Some(it.state)));
            }
            return;
        }
        self.pass(it.ts_event.0);
        for id in self.ones.keys().copied().collect::<Vec<_>>() {
            if self.ones[&id].life.is_some() {
                self.reach(id, it.ts_event.0);
            }
            self.item(id, What::State(Some(it.state)));
        }
    }

    pub fn state_book(&mut self, it: &BookStatement) {
        self.begin_step();
        if self.one(it.instrument_id, it.channel).is_none() {
            return;
        }
        let id = it.instrument_id.0;
        if let Some(clock) = self.clock {
            self.reach(id, clock);
        }
        self.item(id, What::Stated(it.quote));
        if it.state.is_some() {
            self.item(id, What::State(it.state));
        }
        self.trust(id, true);
    }

    pub fn void(&mut self, channel: u16, voided: ChannelReset) {
        if voided == ChannelReset::GivenUp {
            self.miss(channel);
        }
        self.begin_step();
        for id in self.ones.keys().copied().collect::<Vec<_>>() {
            if self.ones[&id].channel != channel {
                continue;
            }
            if let (true, Some(clock)) = (self.ones[&id].life.is_some(), self.clock) {
                self.reach(id, clock);
            }
            match voided {
                ChannelReset::Emptied if !self.ones[&id].has_quote => {}
                ChannelReset::Emptied => self.item(id, What::Quote(Quote::default())),
                ChannelReset::GivenUp => self.item(id, What::Forgotten),
                ChannelReset::NewSession => {
                    self.item(id, What::Forgotten);
                    self.item(id, What::State(None));
                }
            }
            if voided != ChannelReset::GivenUp {
                self.trust(id, true);
            }
        }
    }

    pub fn miss(&mut self, channel: u16) {
        *self.missed.entry(channel).or_default() += 1;
    }

    pub fn mark_untold(&mut self) {
        self.untold += 1;
    }

    pub fn end_session(&mut self, channel: Option<u16>) {
        self.begin_step();
        for id in self.ones.keys().copied().collect::<Vec<_>>() {
            if channel.is_none_or(|channel| channel == self.ones[&id].channel) {
                self.end_one(id);
            }
        }
        if let Some(channel) = channel {
            self.missed.insert(channel, 0);
        }
        if self.ones.values().all(|one| one.life.is_none()) {
            (self.clock, self.floor, self.untold) = (None, 0, 0);
            self.missed.clear();
            for one in self.ones.values_mut() {
                let channel = one.channel;
                *one = One { channel, ..One::default() };
            }
        }
    }

    fn end_one(&mut self, id: u32) {
        if let (true, Some(clock)) = (self.ones[&id].life.is_some(), self.clock) {
            let own = self.reach(id, clock);
            let cut = self.start_of(own);
            let one = self.ones.get_mut(&id).expect("it is there");
            let mut life = one.life.take().expect("it has one");
            life.spans.last_mut().expect("a span").1 = own;
            life.cut.push(cut);
            let marked = one.marked;
            self.tell(id, &life, marked);
        }
        let one = self.ones.get_mut(&id).expect("it is there");
        let kept = (self.untold, 0);
        *one = One { channel: one.channel, marked: kept, certain_from: kept, ..One::default() };
    }

    /// Adds up each interval of a life.
    fn tell(&mut self, id: u32, life: &Life, mut marked: Gaps) {
        let mut starts: Vec<u64> = life.spans.iter().map(|span| self.start_of(span.0)).collect();
        for (from, to) in &life.spans {
            starts.extend((*from..=*to).map(|tick| self.start_of(tick)));
        }
        starts.sort_unstable();
        starts.dedup();
        let phase = self.config.origin.0 % self.config.interval.get();
        for start in starts {
            let interval = self.config.interval.get();
            let end = if start < phase { phase } else { start + interval };
            let of_step = |at: u64| life.steps.iter().position(|step| step.2 >= at);
            let last = life.steps.len() - 1;
            let (opened, closed) = (of_step(start).unwrap_or(last), of_step(end).unwrap_or(last));
            let mut row = sum_up(id, start, end, life);
            let is_told = row.is_some();
            if let Some(row) = &mut row {
                row.is_complete = !life.cut.contains(&start);
                row.has_gap = marked != life.steps[closed].0;
                row.is_certain = !life.steps[opened..=closed].iter().any(|step| step.1);
            }
            self.told.extend(row);
            if is_told {
                marked = life.steps[closed].0;
            }
        }
    }
}

/// Returns the quote and state after all items that satisfy `holds`.
fn standing(life: &Life, holds: impl Fn(&Item) -> bool) -> (Option<Quote>, Option<TradingState>) {
    let mut standing = (None, None);
    for item in life.items.iter().filter(|item| holds(item)) {
        match item.what {
            What::Quote(quote) | What::Stated(quote) => standing.0 = Some(quote),
            What::Forgotten => standing.0 = None,
            What::State(state) => standing.1 = state,
            _ => {}
        }
    }
    standing
}

fn spread_of(quote: &Quote) -> Option<i128> {
    let spread = i128::from(quote.ask_px.0) - i128::from(quote.bid_px.0);
    (quote.bid_sz.0 > 0 && quote.ask_sz.0 > 0 && spread >= 0).then_some(spread)
}

fn sum_up(id: u32, start: u64, end: u64, life: &Life) -> Option<IntervalStatistics> {
    let within = |at: u64| (start..end).contains(&at);
    let mut row = none(id, start);
    for (from, to) in &life.spans {
        for tick in (*from..*to).filter(|tick| within(*tick)) {
            let (quote, state) = standing(life, |item| item.at <= tick);
            tick_of_quote(&mut row, quote);
            tick_of_state(&mut row, state);
        }
    }
    let carried = standing(life, |item| item.is_early || item.at < start).0;
    row.last = standing(life, |item| item.at < end).0;
    let mut quotes: Vec<Quote> = carried.into_iter().collect();
    let (mut quote, mut sum): (Option<Quote>, Option<i128>) = (None, None);
    let mut has_happened = false;
    for item in life.items.iter().filter(|item| item.at < end) {
        let is_here = within(item.at) && !item.is_early;
        match &item.what {
            What::Quote(new) => {
                let old = quote.replace(*new).unwrap_or_default();
                if is_here {
                    quotes.push(*new);
                    count_change(&mut row, &old, new);
                }
                if spread_of(new).is_some() {
                    let now = i128::from(new.bid_px.0) + i128::from(new.ask_px.0);
                    let before = sum.replace(now);
                    if is_here && before.is_some_and(|before| before != now) {
                        row.mid_changes += 1;
                        let moved = now.abs_diff(before.expect("it is some"));
                        row.sum_moves_squared = row
                            .sum_moves_squared
                            .and_then(|so_far| moved.checked_pow(2)?.checked_add(so_far));
                    }
                }
            }
            What::Stated(new) => {
                quote = Some(*new);
                let is_market = spread_of(new).is_some();
                sum = is_market.then(|| i128::from(new.bid_px.0) + i128::from(new.ask_px.0));
                if is_here {
                    quotes.push(*new);
                }
            }
            What::Forgotten => (quote, sum) = (None, None),
            What::State(_) => {}
            What::Heard(sequence, is_late) if is_here => {
                has_happened = true;
                row.late_count += u64::from(*is_late);
                row.sequences = Some((row.sequences.map_or(*sequence, |of| of.0), *sequence));
            }
            What::Act(activity) if is_here => act(&mut row, activity),
            What::Heard(..) | What::Act(_) => {}
        }
    }
    row.first = quotes.first().copied();
    let spreads = || quotes.iter().filter_map(spread_of).map(|spread| spread as u64);
    (row.spread_min, row.spread_max) = (spreads().min(), spreads().max());
    let lasted = row.two_sided + row.crossed + row.one_sided + row.halted + row.paused;
    (has_happened || lasted > 0).then_some(row)
}

fn tick_of_quote(row: &mut IntervalStatistics, quote: Option<Quote>) {
    let Some(quote) = quote else { return };
    let Some(spread) = spread_of(&quote) else {
        match (quote.bid_sz.0, quote.ask_sz.0) {
            (0, 0) => row.empty += 1,
            (0, _) | (_, 0) => row.one_sided += 1,
            _ => row.crossed += 1,
        }
        return;
    };
    row.two_sided += 1;
    row.locked += u64::from(spread == 0);
    row.spread_time += spread as u128;
    let sum = i128::from(quote.bid_px.0) + i128::from(quote.ask_px.0);
    row.sum_time += sum;
    row.bid_size_time += u128::from(quote.bid_sz.0);
    row.ask_size_time += u128::from(quote.ask_sz.0);
    row.relative_time = row.relative_time.filter(|_| sum > 0).map(|so_far| {
        let billionths = spread * 2_000_000_000 / sum;
        so_far + billionths.min(i128::from(u64::MAX)) as u128
    });
}

fn tick_of_state(row: &mut IntervalStatistics, state: Option<TradingState>) {
    match state {
        None => {}
        Some(TradingState::Trading) => row.trading += 1,
        Some(TradingState::Quoting | TradingState::Auction) => row.auction += 1,
        Some(TradingState::Paused) => row.paused += 1,
        Some(TradingState::Halted) => row.halted += 1,
        Some(TradingState::Closed) => row.closed += 1,
    }
}

fn count_change(row: &mut IntervalStatistics, old: &Quote, new: &Quote) {
    row.quote_changes += u64::from(old != new);
    let is_other = |old: (i64, u64), new: (i64, u64)| {
        (old.1 > 0) != (new.1 > 0) || old.1 > 0 && old.0 != new.0
    };
    let bid = is_other((old.bid_px.0, old.bid_sz.0), (new.bid_px.0, new.bid_sz.0));
    let ask = is_other((old.ask_px.0, old.ask_sz.0), (new.ask_px.0, new.ask_sz.0));
    row.price_changes += u64::from(bid || ask);
}

fn act(row: &mut IntervalStatistics, it: &Activity) {
    let plus = |sum: Qty, more: Qty| Qty(sum.0.saturating_add(more.0));
    row.added = plus(row.added, it.added);
    if it.order == Some(OrderAct::Execute) {
        row.executed = plus(row.executed, it.removed);
    } else {
        row.cancelled = plus(row.cancelled, it.removed);
    }
    for (act, count) in [
        (OrderAct::Add, &mut row.adds),
        (OrderAct::Execute, &mut row.executions),
        (OrderAct::Reduce, &mut row.reductions),
        (OrderAct::Delete, &mut row.deletions),
        (OrderAct::Replace, &mut row.replacements),
        (OrderAct::Modify, &mut row.modifications),
    ] {
        *count += u64::from(it.order == Some(act));
    }
    row.breaks += u64::from(it.is_break);
    if it.is_trade {
        row.trades += 1;
        row.volume = plus(row.volume, it.traded);
    }
}

fn none(id: u32, start: u64) -> IntervalStatistics {
    IntervalStatistics {
        instrument_id: InstrumentId(id),
        start: Nanos(start),
        relative_time: Some(0),
        sum_moves_squared: Some(0),
        is_complete: true,
        is_certain: true,
        ..IntervalStatistics::default()
    }
}
