//! The oracle: checks whether the book under test reproduces the recorded market.
//!
//! It makes two comparisons after every event: the execution against the resting order that the
//! source names, and the top levels against the source's row. Each difference gets a class; only
//! unexplained classes count against the book under test. After a difference the book is repaired
//! to the source's state, and the repair counted, so that one difference is not reported forever.
//! The comparison always precedes the repair, so that none is hidden.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use weir_types::{Price, Qty, Side};

use super::model::{FlowEvent, FlowItem, FlowKind, FlowRow, Level, RowLevel};
use super::orders::{Ahead, FlowToOrders, LocalId, OrderIntent};

/// A trade against a resting order, as the book under test reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The resting order.
    pub maker: LocalId,
    /// The price traded at.
    pub price: Price,
    /// The quantity traded.
    pub qty: Qty,
}

/// The book's response to an order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// False when it was refused.
    pub accepted: bool,
    /// The resting orders hit, in order.
    pub hits: Vec<Hit>,
}

/// An engine's book for one instrument, seen from outside.
pub trait BookUnderTest {
    /// Sends an order and returns the outcome.
    fn submit(&mut self, intent: &OrderIntent) -> Outcome;

    /// Writes the best `depth` levels of a side to `out`, best first.
    fn top(&self, side: Side, depth: usize, out: &mut Vec<Level>);
}

impl<B: BookUnderTest + ?Sized> BookUnderTest for &mut B {
    fn submit(&mut self, intent: &OrderIntent) -> Outcome {
        (**self).submit(intent)
    }

    fn top(&self, side: Side, depth: usize, out: &mut Vec<Level>) {
        (**self).top(side, depth, out);
    }
}

/// The class of a difference from the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deviation {
    /// A row that differs from its own events, applied by id without matching: the source
    /// contradicts itself, and the book under test agrees with the events.
    SourceContradiction,
    /// A seeded order is ahead of the one named, or is the one named: the queue position of an
    /// order is unknown if the source does not show its arrival.
    SeededPriority,
    /// The source executes an order ahead of an older one at the same price that, by its own events
    /// and rows, is still live: the market itself did not keep time priority there. Without
    /// look-ahead the older one may also have left while out of sight.
    SourceOvertakes,
    /// The order named was hit with another quantity or at another price.
    QuantityOrPrice,
    /// Another order was hit, though the named one is first in its queue by the source's events.
    OtherMaker,
    /// The book under test traded without a trade in the source.
    ExtraTrade,
    /// The source shows a trade and the book under test did not trade.
    MissingTrade,
    /// The book under test refused an order.
    Refused,
    /// The top levels differ, though the events give the row.
    Levels,
}

impl Deviation {
    /// Every class, in the order of the report.
    pub const ALL: [Deviation; 9] = [
        Deviation::SourceContradiction,
        Deviation::SeededPriority,
        Deviation::SourceOvertakes,
        Deviation::QuantityOrPrice,
        Deviation::OtherMaker,
        Deviation::ExtraTrade,
        Deviation::MissingTrade,
        Deviation::Refused,
        Deviation::Levels,
    ];

    /// True for the classes explained by the source's own limits.
    #[must_use]
    pub fn is_explained(self) -> bool {
        use Deviation::{SeededPriority, SourceContradiction, SourceOvertakes};
        matches!(self, SourceContradiction | SeededPriority | SourceOvertakes)
    }

    /// The class in one line, for the report.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Deviation::SourceContradiction => "rows that contradict the source's own events",
            Deviation::SeededPriority => "queue place of a seeded order",
            Deviation::SourceOvertakes => "the source itself breaks time priority",
            Deviation::QuantityOrPrice => "right order, other quantity or price",
            Deviation::OtherMaker => "other resting order",
            Deviation::ExtraTrade => "trade the source lacks",
            Deviation::MissingTrade => "trade only the source has",
            Deviation::Refused => "order refused",
            Deviation::Levels => "levels differ",
        }
    }
}

/// A comparison's count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// The number compared.
    pub compared: u64,
    /// The number equal.
    pub equal: u64,
}

impl Share {
    fn count(&mut self, equal: bool) {
        self.compared += 1;
        self.equal += u64::from(equal);
    }

    /// The share equal in parts per million; a million when nothing was compared.
    #[must_use]
    pub fn ppm(self) -> u64 {
        (self.equal * 1_000_000).checked_div(self.compared).unwrap_or(1_000_000)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ppm = self.ppm();
        write!(f, "{} of {} = {}.{:04} %", self.equal, self.compared, ppm / 10_000, ppm % 10_000)
    }
}

/// The oracle's findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OracleReport {
    /// Rows whose unseeded levels all equal the book's.
    pub rows: Share,
    /// Levels of those rows that were compared.
    pub levels_compared: u64,
    /// Levels left out because their row seeded them.
    pub levels_seeded: u64,
    /// Executions of orders whose arrival the source shows.
    pub executions: Share,
    /// Executions of seeded orders, counted separately.
    pub executions_of_seeds: Share,
    /// Orders seeded.
    pub seeds: u64,
    /// Reductions and cancels of quantity that left out of the source's sight.
    pub vanished: u64,
    /// Executions of hidden orders, which no visible book can show.
    pub hidden: u64,
    /// Halts and resumptions.
    pub halts: u64,
    /// Events that name an order that is not live.
    pub orphans: u64,
    /// Orders sent, repairs not counted.
    pub orders: u64,
    /// Orders re-entered to repair a level after a difference.
    pub mended: u64,
    /// Differences by class.
    pub deviations: BTreeMap<Deviation, u64>,
}

impl OracleReport {
    /// The number of differences that the source's limits do not explain.
    #[must_use]
    pub fn unexplained(&self) -> u64 {
        self.deviations.iter().filter(|(class, _)| !class.is_explained()).map(|(_, n)| n).sum()
    }

    fn note(&mut self, class: Deviation) {
        *self.deviations.entry(class).or_default() += 1;
    }
}

impl fmt::Display for OracleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, value: &dyn fmt::Display| writeln!(f, "{name:<58}{value}");
        line("orders sent", &self.orders)?;
        line("rows equal", &self.rows)?;
        line("  levels compared", &self.levels_compared)?;
        line("  levels left out, seeded by their row", &self.levels_seeded)?;
        line("executions that hit the order named", &self.executions)?;
        line("  the same for seeded orders, left out above", &self.executions_of_seeds)?;
        line("orders seeded", &self.seeds)?;
        line("reductions out of the source's sight", &self.vanished)?;
        line("executions of hidden orders, not sent", &self.hidden)?;
        line("halts and resumptions, not sent", &self.halts)?;
        line("events of orders that do not stand", &self.orphans)?;
        line("orders mended", &self.mended)?;
        for class in Deviation::ALL {
            if let Some(count) = self.deviations.get(&class) {
                let why = if class.is_explained() { "explained" } else { "UNEXPLAINED" };
                line(&format!("{why}: {}", class.name()), count)?;
            }
        }
        line("unexplained differences", &self.unexplained())
    }
}

/// An execution as in the source.
#[derive(Clone, Copy, Debug)]
struct Expected {
    maker: LocalId,
    seeded: bool,
    ahead: Ahead,
    price: Price,
    qty: Qty,
}

/// Feeds a stream to a book and compares them.
#[derive(Debug)]
pub struct Oracle<B> {
    book: B,
    orders: FlowToOrders,
    report: OracleReport,
    /// The executions of the current order, by the source and by the book.
    expected: Vec<Expected>,
    hits: Vec<Hit>,
    /// Live quantity in the book under test, by its own reports.
    standing: BTreeMap<LocalId, Qty>,
    seeded: BTreeSet<LocalId>,
    to_mend: BTreeSet<LocalId>,
    scratch: Vec<Level>,
}

impl<B: BookUnderTest> Oracle<B> {
    /// Starts with an empty book.
    pub fn new(book: B) -> Oracle<B> {
        Oracle {
            book,
            orders: FlowToOrders::new(),
            report: OracleReport::default(),
            expected: Vec::new(),
            hits: Vec::new(),
            standing: BTreeMap::new(),
            seeded: BTreeSet::new(),
            to_mend: BTreeSet::new(),
            scratch: Vec::new(),
        }
    }

    /// The book under test.
    pub fn book(&self) -> &B {
        &self.book
    }

    /// Closes the last item and returns the findings.
    pub fn finish(mut self) -> (OracleReport, B) {
        self.close();
        (self.report, self.book)
    }

    /// Processes the next item of the stream.
    pub fn apply(&mut self, item: &FlowItem) {
        match item {
            FlowItem::Event(event) if event.kind == FlowKind::Fill => self.expect(event),
            FlowItem::Event(event) => {
                self.close();
                self.mend();
                self.event(event);
            }
            FlowItem::Row(row) => {
                self.close();
                self.row(row);
            }
        }
    }

    fn event(&mut self, event: &FlowEvent) {
        match event.kind {
            FlowKind::Seed => self.report.seeds += 1,
            FlowKind::Vanish => self.report.vanished += 1,
            FlowKind::HiddenExecution => self.report.hidden += 1,
            FlowKind::Halt | FlowKind::QuoteResume | FlowKind::TradeResume => {
                self.report.halts += 1;
            }
            FlowKind::ExecuteVisible => return self.expect(event),
            FlowKind::Add | FlowKind::Fill | FlowKind::PartialCancel | FlowKind::Delete => {}
        }
        let planned = self.orders.apply(event);
        self.report.orphans += u64::from(planned.orphan);
        if let Some(intent) = planned.intent {
            if planned.seeded && event.kind.enters() {
                self.seeded.insert(planned.local_id);
            }
            self.report.orders += 1;
            self.submit(&intent);
        }
    }

    /// Handles an execution: sends the aggressor's order, if the source does not show it.
    fn expect(&mut self, event: &FlowEvent) {
        let ahead = self.orders.ahead_of(event.source_order_id);
        let planned = self.orders.apply(event);
        self.report.orphans += u64::from(planned.orphan);
        if planned.orphan {
            return;
        }
        let seeded = self.seeded.contains(&planned.local_id);
        let FlowEvent { price, qty, .. } = *event;
        self.expected.push(Expected { maker: planned.local_id, seeded, ahead, price, qty });
        if let Some(intent) = planned.intent {
            self.report.orders += 1;
            self.submit(&intent);
        }
    }

    fn submit(&mut self, intent: &OrderIntent) {
        let outcome = self.book.submit(intent);
        if !outcome.accepted {
            self.report.note(Deviation::Refused);
            self.to_mend.insert(intent.local_id());
            return;
        }
        let traded = outcome.hits.iter().fold(Qty::ZERO, |sum, hit| sum + hit.qty);
        for hit in &outcome.hits {
            let left = self.standing.get(&hit.maker).copied().unwrap_or_default();
            self.stands(hit.maker, Qty(left.0.saturating_sub(hit.qty.0)));
        }
        match *intent {
            OrderIntent::New { local_id, qty, .. } => {
                self.stands(local_id, Qty(qty.0.saturating_sub(traded.0)))
            }
            OrderIntent::ReplaceQty { local_id, leaves_qty, .. } => {
                self.stands(local_id, leaves_qty);
            }
            OrderIntent::Cancel { local_id } => self.stands(local_id, Qty::ZERO),
            OrderIntent::Ioc { .. } => {}
        }
        if !traded.is_zero() {
            self.to_mend.insert(intent.local_id());
        }
        self.hits.extend(outcome.hits);
    }

    fn stands(&mut self, local_id: LocalId, qty: Qty) {
        if qty.is_zero() {
            self.standing.remove(&local_id);
        } else {
            self.standing.insert(local_id, qty);
        }
    }

    /// Compares the executions of the current order.
    fn close(&mut self) {
        let expected = std::mem::take(&mut self.expected);
        let hits = std::mem::take(&mut self.hits);
        let mut class = None;
        for (index, want) in expected.iter().enumerate() {
            let got = hits.get(index);
            let equal = got.is_some_and(|hit| {
                (hit.maker, hit.price, hit.qty) == (want.maker, want.price, want.qty)
            });
            let seeded = want.seeded;
            let share = if seeded {
                &mut self.report.executions_of_seeds
            } else {
                &mut self.report.executions
            };
            share.count(equal);
            if !equal {
                let found = self.class(Some(want), got);
                self.report.note(found);
                class = Some(found);
            }
        }
        // An order that hit the wrong one goes on to hit others: one difference, counted once.
        for hit in hits.iter().skip(expected.len()) {
            if class.is_none() {
                let found = self.class(None, Some(hit));
                self.report.note(found);
            }
        }
        // A seed that the source passed over is further back in the queue.
        for hit in &hits {
            if class == Some(Deviation::SeededPriority) && self.seeded.contains(&hit.maker) {
                self.orders.move_back(hit.maker);
            }
        }
        self.to_mend.extend(expected.iter().map(|want| want.maker));
        self.to_mend.extend(hits.iter().map(|hit| hit.maker));
    }

    fn class(&self, want: Option<&Expected>, got: Option<&Hit>) -> Deviation {
        let (Some(want), Some(got)) = (want, got) else {
            return if got.is_some() { Deviation::ExtraTrade } else { Deviation::MissingTrade };
        };
        if want.maker == got.maker {
            return Deviation::QuantityOrPrice;
        }
        match (want.ahead, want.seeded) {
            (Ahead::Seeds, _) | (Ahead::Orders, true) => Deviation::SeededPriority,
            (Ahead::Orders, false) => Deviation::SourceOvertakes,
            (Ahead::Nobody, _) => Deviation::OtherMaker,
        }
    }

    /// Repairs the book after a difference: re-enters the levels concerned, order by order, so that
    /// every queue position is right again.
    fn mend(&mut self) {
        let mut levels = BTreeSet::new();
        for local_id in std::mem::take(&mut self.to_mend) {
            let want = self.orders.leaves(local_id);
            let have = self.standing.get(&local_id).copied().unwrap_or_default();
            match self.orders.place(local_id) {
                _ if want == have => {}
                Some(place) => _ = levels.insert(place),
                None => self.withdraw(local_id),
            }
        }
        for (side, price) in levels {
            let queue = self.orders.queue(side, price);
            for local_id in &queue {
                self.withdraw(*local_id);
            }
            for local_id in queue {
                self.report.mended += 1;
                let intent = self.orders.reissue(local_id).expect("listed in its queue");
                if self.seeded.remove(&local_id) {
                    self.seeded.insert(intent.local_id());
                }
                self.submit(&intent);
            }
        }
        // A repair that trades is a difference of its own.
        for _ in std::mem::take(&mut self.hits) {
            self.report.note(Deviation::ExtraTrade);
        }
        self.to_mend.clear();
    }

    fn withdraw(&mut self, local_id: LocalId) {
        if self.standing.contains_key(&local_id) {
            self.submit(&OrderIntent::Cancel { local_id });
        }
    }

    fn row(&mut self, row: &FlowRow) {
        // A row that contradicts its own events was seeded to match: that does not count as equal.
        let mut equal = !row.contradicts_events;
        let mut as_events = true;
        for (side, levels) in [(Side::Buy, &row.bids), (Side::Sell, &row.asks)] {
            self.scratch.clear();
            self.book.top(side, levels.len(), &mut self.scratch);
            equal &= self.side_equal(levels);
            let by_events = self.orders.levels(side).take(levels.len());
            as_events &= by_events.eq(self.scratch.iter().copied());
        }
        self.report.rows.count(equal);
        if !equal {
            let explained = row.contradicts_events && as_events;
            let class = if explained { Deviation::SourceContradiction } else { Deviation::Levels };
            self.report.note(class);
        }
    }

    fn side_equal(&mut self, levels: &[RowLevel]) -> bool {
        let mut equal = self.scratch.len() == levels.len();
        for (want, got) in levels.iter().zip(&self.scratch) {
            if want.seeded {
                self.report.levels_seeded += 1;
            } else {
                self.report.levels_compared += 1;
                equal &= want.level == *got;
            }
        }
        equal
    }
}
