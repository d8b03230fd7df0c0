//! A slow, simple model of bars: it keeps every trade in a list and computes a bar from its list.

use std::collections::BTreeMap;

use weir_feed::TradeFlags;
use weir_market::bar::{Bar, BarBreak, BarEvent, BarKind, BarTrade, Correction};
use weir_types::{Cash, InstrumentId, Nanos, Price, Qty};

struct Known {
    trade: BarTrade,
    bar: (u64, Nanos),
    /// True when a break can find it by its number.
    is_named: bool,
    is_undone: bool,
}

struct Open {
    /// Prices and ends as they would be reported.
    bar: Bar,
    /// The indices of all its trades in the list, including undone ones.
    trades: Vec<usize>,
}

#[derive(Default)]
struct One {
    open: Option<Open>,
    number: u64,
    floor: Nanos,
    gap_seen: Option<u64>,
}

pub struct Model {
    kind: BarKind,
    remembered: usize,
    known: Vec<Known>,
    order: Vec<InstrumentId>,
    ones: BTreeMap<InstrumentId, One>,
    floor: Nanos,
    gaps: u64,
    pub told: Vec<BarEvent>,
}

fn has(flags: TradeFlags, flag: TradeFlags) -> bool {
    flags.0 & flag.0 != 0
}

impl Model {
    pub fn new(kind: BarKind, remembered: usize) -> Model {
        let (known, order, ones, told) = (Vec::new(), Vec::new(), BTreeMap::new(), Vec::new());
        Model { kind, remembered, known, order, ones, floor: Nanos(0), gaps: 0, told }
    }

    fn interval(&self) -> Option<(u128, u128)> {
        match self.kind {
            BarKind::Time { interval, origin } => Some((interval.get().into(), origin.0.into())),
            _ => None,
        }
    }

    /// Counts up from the first interval that begins at or after zero.
    fn start_of(&self, ts: Nanos) -> Option<Nanos> {
        let (interval, origin) = self.interval()?;
        let mut start = 0;
        let mut next = origin % interval;
        while next <= u128::from(ts.0) {
            start = next;
            next += interval;
        }
        Some(Nanos(start as u64))
    }

    fn close(&mut self, id: InstrumentId, is_complete: bool) {
        let gaps = self.gaps;
        let Some(one) = self.ones.get_mut(&id) else { return };
        let Some(Open { mut bar, .. }) = one.open.take() else { return };
        bar.is_complete = is_complete;
        bar.has_gap |= one.gap_seen != Some(gaps);
        one.gap_seen = Some(gaps);
        self.told.push(BarEvent::Closed(bar));
    }

    pub fn trade(&mut self, trade: &BarTrade) {
        let (id, print) = (trade.instrument_id, trade.print);
        if print.size.0 == 0 || id.0 == 0 || print.flags.0 & 7 == 7 {
            return;
        }
        if !self.order.contains(&id) {
            self.order.push(id);
        }
        let said = self.start_of(trade.ts_event);
        let was_over = self.ones.get(&id).and_then(|one| one.open.as_ref());
        if was_over.zip(said).is_some_and(|(open, said)| said > open.bar.start) {
            self.close(id, true);
        }
        let (floor, gaps) = (self.floor, self.gaps);
        let one = self.ones.entry(id).or_default();
        if one.open.is_none() {
            one.number += 1;
            let start = said.map_or(trade.ts_event, |said| said.max(floor).max(one.floor));
            one.floor = start;
            let has_gap = one.gap_seen.map_or(gaps > 0, |seen| seen != gaps);
            one.gap_seen = Some(gaps);
            one.open = Some(Open { bar: empty(trade, one.number, start, has_gap), trades: vec![] });
        }
        let Some(open) = &mut one.open else { return };
        let of_bar = || open.trades.iter().map(|at| &self.known[*at]).filter(|it| !it.is_undone);
        let counted = |known: &&Known| !has(known.trade.print.flags, TradeFlags::NOT_VOLUME);
        let volume = of_bar().filter(counted).map(|it| u128::from(it.trade.print.size.0)).sum();
        let cash = |it: &BarTrade| i128::from(it.print.price.0) * i128::from(it.print.size.0);
        let turnover: i128 = of_bar().filter(counted).map(|it| cash(&it.trade)).sum();
        let volume: u128 = volume;
        let fits = volume + u128::from(print.size.0) <= u128::from(u64::MAX)
            && turnover.checked_add(cash(trade)).is_some();
        if !has(print.flags, TradeFlags::NOT_VOLUME) && !fits {
            return;
        }
        let at = self.known.len();
        let first = (at + 1).saturating_sub(self.remembered).min(at);
        let is_named =
            print.match_id != 0 && !self.known[first..].iter().any(|it| it.is(id, print.match_id));
        let bar = (open.bar.number, open.bar.start);
        self.known.push(Known { trade: *trade, bar, is_named, is_undone: false });
        open.trades.push(at);
        let all: Vec<&BarTrade> = (open.trades.iter().map(|at| &self.known[*at]))
            .filter(|known| !known.is_undone)
            .map(|known| &known.trade)
            .collect();
        sums(&mut open.bar, &all, said.is_some());
        forward(&mut open.bar, trade);
        let is_full = match self.kind {
            BarKind::Time { .. } => false,
            BarKind::Ticks(most) => open.bar.trade_count >= most.get(),
            BarKind::Volume(most) => open.bar.volume.0 >= most.get(),
        };
        if is_full {
            self.close(id, true);
        }
    }

    pub fn trade_break(&mut self, undone: &BarBreak) {
        let id = undone.instrument_id;
        let first = self.known.len().saturating_sub(self.remembered);
        let found = (self.known[first..].iter().position(|it| it.is(id, undone.match_id)))
            .map(|at| at + first)
            .filter(|at| !self.known[*at].is_undone);
        if let Some(at) = found {
            self.known[at].is_undone = true;
        }
        let is_by_time = self.interval().is_some();
        let one = self.ones.entry(id).or_default();
        let open =
            one.open.as_mut().filter(|open| found.is_some_and(|at| open.trades.contains(&at)));
        let Some(open) = open else {
            let known = found.map(|at| &self.known[at]);
            let print = known.map(|known| known.trade.print);
            self.told.push(BarEvent::Corrected(Correction {
                instrument_id: id,
                bar: known.map(|known| known.bar),
                match_id: undone.match_id,
                price: print.map_or(undone.price, |print| print.price),
                size: print.map_or(undone.size, |print| print.size),
                flags: print.map_or(TradeFlags::default(), |print| print.flags),
                ts_event: undone.ts_event,
                sequence: undone.sequence,
            }));
            return;
        };
        let all: Vec<BarTrade> = (open.trades.iter().map(|at| &self.known[*at]))
            .filter(|known| !known.is_undone)
            .map(|known| known.trade)
            .collect();
        open.bar.broken_count += 1;
        if all.is_empty() {
            one.gap_seen = one.gap_seen.filter(|_| !open.bar.has_gap);
            one.number -= 1;
            one.open = None;
            return;
        }
        let gone = found.map(|at| self.known[at].trade).expect("it was found");
        let are_all_remembered = open.trades.iter().all(|at| *at >= first);
        let of_bar = [open.bar.open, open.bar.high, open.bar.low, open.bar.close];
        let is_at_end = [open.bar.first_sequence, open.bar.last_sequence].contains(&gone.sequence);
        sums(&mut open.bar, &all.iter().collect::<Vec<_>>(), is_by_time);
        if are_all_remembered {
            let old = open.bar;
            open.bar = Bar { open: None, high: None, low: None, close: None, ..old };
            open.bar.first_sequence = all[0].sequence;
            open.bar.ts_first = all[0].ts_event;
            all.iter().for_each(|trade| forward(&mut open.bar, trade));
        } else if of_bar.contains(&Some(gone.print.price)) || is_at_end {
            open.bar.is_range_certain = false;
        }
    }

    pub fn advance(&mut self, now: Nanos) {
        let Some(floor) = self.start_of(now) else { return };
        self.floor = self.floor.max(floor);
        for id in self.order.clone() {
            let open = self.ones.get(&id).and_then(|one| one.open.as_ref());
            if open.is_some_and(|open| open.bar.start < self.floor) {
                self.close(id, true);
            }
        }
    }

    pub fn mark_gap(&mut self) {
        self.gaps += 1;
    }

    pub fn end_session(&mut self) {
        for id in self.order.clone() {
            self.close(id, false);
        }
        self.ones.clear();
        self.known.clear();
        (self.floor, self.gaps) = (Nanos(0), 0);
    }
}

impl Known {
    fn is(&self, id: InstrumentId, match_id: u64) -> bool {
        let print = &self.trade.print;
        self.is_named && self.trade.instrument_id == id && print.match_id == match_id
    }
}

fn empty(trade: &BarTrade, number: u64, start: Nanos, has_gap: bool) -> Bar {
    Bar {
        instrument_id: trade.instrument_id,
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
        volume: Qty(0),
        turnover: Cash(0),
        trade_count: 0,
        late_count: 0,
        broken_count: 0,
        is_complete: true,
        is_range_certain: true,
        has_gap,
    }
}

fn sums(bar: &mut Bar, trades: &[&BarTrade], is_by_time: bool) {
    let counted = || trades.iter().filter(|trade| !has(trade.print.flags, TradeFlags::NOT_VOLUME));
    bar.volume = Qty(counted().map(|trade| trade.print.size.0).sum());
    bar.turnover = Cash(counted().map(|it| it.print.price.notional(it.print.size).0).sum());
    bar.trade_count = counted().count() as u64;
    let is_late = |trade: &&&BarTrade| is_by_time && trade.ts_event < bar.start;
    bar.late_count = trades.iter().filter(is_late).count() as u64;
}

fn forward(bar: &mut Bar, trade: &BarTrade) {
    let (price, flags): (Price, _) = (trade.print.price, trade.print.flags);
    if !has(flags, TradeFlags::NOT_LAST) {
        bar.open = bar.open.or(Some(price));
        bar.close = Some(price);
    }
    if !has(flags, TradeFlags::NOT_HIGH_LOW) {
        bar.high = bar.high.into_iter().chain([price]).max();
        bar.low = bar.low.into_iter().chain([price]).min();
    }
    (bar.ts_last, bar.last_sequence) = (trade.ts_event, trade.sequence);
}
