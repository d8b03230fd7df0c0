//! LOBSTER's messages and rows brought to the normal form, with the seeds that make the book
//! complete at the file's depth.
//!
//! What the file does not show: orders from before it, and whatever happens beyond its depth.
//! A level that comes into sight is brought to the quantity of its row, by these rules:
//!
//! | at the level | what is done |
//! | --- | --- |
//! | ids that later messages name, below that of the next submission | seeded under their ids |
//! | quantity above that | one anonymous seed, last in the queue |
//! | an order never named again, ahead of executions to come | it went: `Vanish` |
//! | known quantity above the row's | orders never named again went: `Vanish`, oldest first |
//!
//! Looking ahead serves what was out of sight alone. A level in sight is never touched: if its
//! row and its messages differ, the row says `contradicts_events`.

use std::collections::{BTreeMap, VecDeque};

use weir_types::{Nanos, Price, Qty, Side};

use super::ledger::{Ledger, Standing, at_least_as_good};
use super::lobster::{BookRow, Message, MessageKind};
use super::model::{ANONYMOUS_ID_FIRST, FlowEvent, FlowItem, FlowKind, FlowRow, Level, RowLevel};

/// What the whole file says about its orders: the look-ahead that seeding needs. The default
/// one knows nothing: all seeds are then anonymous, and more of their places are wrong.
#[derive(Debug, Default)]
pub struct Survey {
    /// Per order, what later messages do to it.
    ahead: BTreeMap<u64, Ahead>,
    /// Per level, how many later messages execute an order there.
    executions: BTreeMap<(Side, Price), u64>,
    /// Ids named at a level whose submission is not in the file.
    ghosts: BTreeMap<(Side, Price), Vec<u64>>,
    /// The submissions still to come, in order.
    submissions: VecDeque<u64>,
}

/// What the messages still to come do to an order.
#[derive(Clone, Copy, Debug, Default)]
struct Ahead {
    qty: Qty,
    executions: u64,
}

impl Survey {
    /// Reads all messages of a file once.
    pub fn of<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Survey {
        let mut survey = Survey::default();
        let mut places: BTreeMap<u64, Option<(Side, Price)>> = BTreeMap::new();
        for message in messages {
            match message.kind {
                MessageKind::Submission => {
                    places.insert(message.order_id, None);
                    survey.submissions.push_back(message.order_id);
                }
                MessageKind::PartialCancel
                | MessageKind::Deletion
                | MessageKind::ExecuteVisible => {
                    let place = Some((message.side, message.price));
                    places.entry(message.order_id).or_insert(place);
                    survey.add(message);
                }
                _ => {}
            }
        }
        for (id, place) in places {
            if let Some(place) = place {
                survey.ghosts.entry(place).or_default().push(id);
            }
        }
        survey
    }

    fn add(&mut self, message: &Message) {
        let executed = u64::from(message.kind == MessageKind::ExecuteVisible);
        let ahead = self.ahead.entry(message.order_id).or_default();
        ahead.qty = Qty(ahead.qty.0.saturating_add(message.qty.0));
        ahead.executions += executed;
        *self.executions.entry((message.side, message.price)).or_default() += executed;
    }

    fn ahead(&self, id: u64) -> Ahead {
        self.ahead.get(&id).copied().unwrap_or_default()
    }

    /// A message is being applied: it is no longer ahead.
    fn passed(&mut self, message: &Message) {
        let executed = u64::from(message.kind == MessageKind::ExecuteVisible);
        if let Some(ahead) = self.ahead.get_mut(&message.order_id) {
            ahead.qty = Qty(ahead.qty.0.saturating_sub(message.qty.0));
            ahead.executions = ahead.executions.saturating_sub(executed);
        }
        if let Some(count) = self.executions.get_mut(&(message.side, message.price)) {
            *count = count.saturating_sub(executed);
        }
    }

    /// Takes the ids that stand at a level unseen: those that the exchange gave out before the
    /// next submission of the file. The level is in sight from now on, so none comes later.
    fn ghosts_at(&mut self, side: Side, price: Price) -> Vec<u64> {
        let next = self.submissions.front().copied().unwrap_or(ANONYMOUS_ID_FIRST);
        let Some(ids) = self.ghosts.get_mut(&(side, price)) else { return Vec::new() };
        let (now, later) = ids.iter().partition(|id| **id < next);
        *ids = later;
        now
    }
}

/// How far into a side the last row let us see.
#[derive(Clone, Copy, Debug)]
enum Sight {
    Nothing,
    To(Price),
    All,
}

impl Sight {
    fn covers(self, side: Side, price: Price) -> bool {
        match self {
            Sight::Nothing => false,
            Sight::To(worst) => at_least_as_good(side, price, worst),
            Sight::All => true,
        }
    }

    fn of(levels: &[Level], depth: usize) -> Sight {
        match levels.last() {
            Some(worst) if levels.len() >= depth => Sight::To(worst.price),
            _ => Sight::All,
        }
    }
}

/// Turns messages and rows into events and rows, one message at a time.
#[derive(Debug)]
pub struct LobsterFlow {
    survey: Survey,
    ledger: Ledger,
    sight: [Sight; 2],
    anonymous_next: u64,
    started: bool,
}

impl LobsterFlow {
    /// Begins before the first message of the surveyed file.
    #[must_use]
    pub fn new(survey: Survey) -> LobsterFlow {
        LobsterFlow {
            survey,
            ledger: Ledger::default(),
            sight: [Sight::Nothing; 2],
            anonymous_next: ANONYMOUS_ID_FIRST,
            started: false,
        }
    }

    /// Appends what a message and the row after it amount to.
    pub fn push(&mut self, message: &Message, row: &BookRow, out: &mut Vec<FlowItem>) {
        if !self.started {
            self.started = true;
            let before = row_before(message, row);
            self.bring_into_sight(message.ts, &before, out);
        }
        self.apply(message, out);
        let row = self.bring_into_sight(message.ts, row, out);
        out.push(FlowItem::Row(row));
    }

    fn apply(&mut self, message: &Message, out: &mut Vec<FlowItem>) {
        let kind = match message.kind {
            MessageKind::Submission => return self.submission(message, out),
            MessageKind::PartialCancel => FlowKind::PartialCancel,
            MessageKind::Deletion => FlowKind::Delete,
            MessageKind::ExecuteVisible => FlowKind::ExecuteVisible,
            MessageKind::ExecuteHidden => {
                return out.push(note(message, FlowKind::HiddenExecution));
            }
            MessageKind::Halt => return out.push(note(message, FlowKind::Halt)),
            MessageKind::QuoteResume => return out.push(note(message, FlowKind::QuoteResume)),
            MessageKind::TradeResume => return out.push(note(message, FlowKind::TradeResume)),
        };
        self.survey.passed(message);
        let mut left = message.qty;
        left -= self.take(message.order_id, left, (message.ts, kind), out);
        // What the named order does not have must stand in the level's anonymous seeds.
        let ids = self.ledger.ids_at(message.side, message.price);
        for id in ids.into_iter().filter(|id| *id >= ANONYMOUS_ID_FIRST) {
            if left.is_zero() {
                break;
            }
            left -= self.take(id, left, (message.ts, kind), out);
        }
        if kind == FlowKind::Delete
            && let Some(rest) = self.ledger.get(message.order_id)
        {
            self.take(message.order_id, rest.leaves, (message.ts, FlowKind::Vanish), out);
        }
    }

    fn submission(&mut self, message: &Message, out: &mut Vec<FlowItem>) {
        if self.survey.submissions.front() == Some(&message.order_id) {
            self.survey.submissions.pop_front();
        }
        let order = Standing { side: message.side, price: message.price, leaves: message.qty };
        if self.ledger.insert(message.order_id, order) {
            out.push(note(message, FlowKind::Add));
        }
    }

    /// Takes quantity off an order and tells it; returns how much it had to give.
    fn take(
        &mut self,
        id: u64,
        qty: Qty,
        (ts, kind): (Nanos, FlowKind),
        out: &mut Vec<FlowItem>,
    ) -> Qty {
        let Some(order) = self.ledger.get(id) else { return Qty::ZERO };
        let taken = self.ledger.take(id, qty);
        if !taken.is_zero() {
            let Standing { side, price, .. } = order;
            out.push(FlowItem::Event(FlowEvent {
                ts,
                source_order_id: id,
                kind,
                side,
                price,
                qty: taken,
            }));
        }
        taken
    }

    /// Makes the ledger agree with a row where levels have just come into sight.
    fn bring_into_sight(&mut self, ts: Nanos, row: &BookRow, out: &mut Vec<FlowItem>) -> FlowRow {
        let mut contradicts = false;
        let mut sides = [Vec::new(), Vec::new()];
        for (index, side) in [Side::Buy, Side::Sell].into_iter().enumerate() {
            let levels = if side == Side::Buy { &row.bids } else { &row.asks };
            let after = Sight::of(levels, row.depth);
            contradicts |= self.clear_gone(ts, side, (levels, after), out);
            for level in levels {
                let known = self.ledger.qty_at(side, level.price);
                let in_sight = self.sight[index].covers(side, level.price);
                contradicts |= in_sight && known != level.qty;
                if !in_sight || known != level.qty {
                    self.reconcile(ts, side, *level, out);
                }
                sides[index].push(RowLevel { level: *level, seeded: known != level.qty });
            }
            self.sight[index] = after;
        }
        let [bids, asks] = sides;
        FlowRow { ts, bids, asks, contradicts_events: contradicts }
    }

    /// Levels that the row would show and does not have: their orders went out of sight.
    /// Says whether one of them was in sight all along.
    fn clear_gone(
        &mut self,
        ts: Nanos,
        side: Side,
        (levels, after): (&[Level], Sight),
        out: &mut Vec<FlowItem>,
    ) -> bool {
        let gone: Vec<Price> = self
            .ledger
            .levels(side)
            .map(|level| level.price)
            .take_while(|price| after.covers(side, *price))
            .filter(|price| levels.iter().all(|level| level.price != *price))
            .collect();
        let mut contradicts = false;
        for price in gone {
            contradicts |= self.sight[index_of(side)].covers(side, price);
            for id in self.ledger.ids_at(side, price) {
                self.take(id, Qty(u64::MAX), (ts, FlowKind::Vanish), out);
            }
        }
        contradicts
    }

    /// Brings a level to the quantity of its row: see the table above.
    fn reconcile(&mut self, ts: Nanos, side: Side, level: Level, out: &mut Vec<FlowItem>) {
        self.drop_overtaken(ts, (side, level.price), out);
        let price = level.price;
        let known = self.ledger.ids_at(side, price);
        let sure: u64 = known.iter().map(|id| self.sure(*id).0).sum();
        let mut room = level.qty.0.saturating_sub(sure);
        for id in self.survey.ghosts_at(side, price) {
            let leaves = self.survey.ahead(id).qty.min(Qty(room));
            room -= leaves.0;
            self.seed(ts, id, Standing { side, price, leaves }, out);
        }
        let have = self.ledger.qty_at(side, price);
        if have < level.qty {
            let id = self.anonymous_next;
            self.anonymous_next += 1;
            self.seed(ts, id, Standing { side, price, leaves: level.qty - have }, out);
            return;
        }
        let mut surplus = have - level.qty;
        for id in &known {
            let order = self.ledger.get(*id).expect("listed at its level");
            let spare = order.leaves - self.sure(*id);
            surplus -= self.take(*id, spare.min(surplus), (ts, FlowKind::Vanish), out);
        }
        for id in known.iter().rev() {
            surplus -= self.take(*id, surplus, (ts, FlowKind::Vanish), out);
        }
    }

    /// How much of a standing order later messages take: so much of it stands for sure.
    fn sure(&self, id: u64) -> Qty {
        let order = self.ledger.get(id).expect("listed at its level");
        order.leaves.min(self.survey.ahead(id).qty)
    }

    /// Orders never named again cannot stand ahead of others that are still to be executed.
    fn drop_overtaken(&mut self, ts: Nanos, at: (Side, Price), out: &mut Vec<FlowItem>) {
        let to_come = self.survey.executions.get(&at).copied().unwrap_or_default();
        let mut of_those_ahead = 0;
        for id in self.ledger.ids_at(at.0, at.1) {
            let ahead = self.survey.ahead(id);
            of_those_ahead += ahead.executions;
            if ahead.qty.is_zero() && to_come > of_those_ahead {
                self.take(id, Qty(u64::MAX), (ts, FlowKind::Vanish), out);
            }
        }
    }

    fn seed(&mut self, ts: Nanos, id: u64, order: Standing, out: &mut Vec<FlowItem>) {
        if self.ledger.insert(id, order) {
            let Standing { side, price, leaves } = order;
            let kind = FlowKind::Seed;
            out.push(FlowItem::Event(FlowEvent {
                ts,
                source_order_id: id,
                kind,
                side,
                price,
                qty: leaves,
            }));
        }
    }
}

fn index_of(side: Side) -> usize {
    usize::from(side == Side::Sell)
}

fn note(message: &Message, kind: FlowKind) -> FlowItem {
    FlowItem::Event(FlowEvent {
        ts: message.ts,
        source_order_id: message.order_id,
        kind,
        side: message.side,
        price: message.price,
        qty: message.qty,
    })
}

/// The row as it was before a message: the book that stands when the file begins.
fn row_before(message: &Message, row: &BookRow) -> BookRow {
    let mut before = row.clone();
    let side = message.side;
    let levels = if side == Side::Buy { &mut before.bids } else { &mut before.asks };
    let at = levels.iter().position(|level| level.price == message.price);
    match (message.kind, at) {
        (MessageKind::Submission, Some(at)) => {
            let left = levels[at].qty.0.saturating_sub(message.qty.0);
            levels[at].qty = Qty(left);
            levels.retain(|level| !level.qty.is_zero());
        }
        (MessageKind::PartialCancel | MessageKind::Deletion | MessageKind::ExecuteVisible, at) => {
            match at {
                Some(at) => levels[at].qty = Qty(levels[at].qty.0.saturating_add(message.qty.0)),
                None => {
                    let better = |level: &Level| at_least_as_good(side, level.price, message.price);
                    let at = levels.iter().take_while(|level| better(level)).count();
                    levels.insert(at, Level { price: message.price, qty: message.qty });
                }
            }
        }
        _ => {}
    }
    before
}
