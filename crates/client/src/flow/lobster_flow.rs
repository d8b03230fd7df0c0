//! Transcodes LOBSTER's messages and rows to the normal form, with the seeds that complete the book
//! at the file's depth.
//!
//! The file shows neither orders from before it nor changes beyond its depth. A level that comes
//! into sight is brought to the quantity of its row, by these rules:
//!
//! | at the level | action |
//! | --- | --- |
//! | ids that later messages name, below that of the next submission | seeded under their ids |
//! | quantity above that | one anonymous seed, last in the queue |
//! | an order never named again, ahead of executions to come | removed: `Vanish` |
//! | known quantity above the row's | orders never named again removed: `Vanish`, oldest first |
//!
//! Look-ahead is used only for levels that were out of sight. A level in sight is never touched: if
//! its row and its messages differ, the row has `contradicts_events` set.

use std::collections::{BTreeMap, VecDeque};

use weir_types::{Nanos, Price, Qty, Side};

use super::ledger::{Ledger, LiveOrder, at_least_as_good};
use super::lobster::{BookRow, Message, MessageKind};
use super::model::{ANONYMOUS_ID_FIRST, FlowEvent, FlowItem, FlowKind, FlowRow, Level, RowLevel};
use crate::plant::{self, Plant};

/// The look-ahead that seeding needs: a summary of the whole file's messages on its orders. The
/// default is empty: all seeds are then anonymous, and more of their queue positions are wrong.
#[derive(Debug, Default)]
pub struct Survey {
    /// Per order, the effect of later messages.
    ahead: BTreeMap<u64, Ahead>,
    /// Per level, the number of later executions.
    executions: BTreeMap<(Side, Price), u64>,
    /// Ids named at a level whose submission is not in the file.
    ghosts: BTreeMap<(Side, Price), Vec<u64>>,
    /// The submissions still to come, in order.
    submissions: VecDeque<u64>,
}

/// The effect of later messages on an order.
#[derive(Clone, Copy, Debug, Default)]
struct Ahead {
    qty: Qty,
    executions: u64,
}

impl Survey {
    /// Surveys all messages of a file.
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

    /// Removes a message from the look-ahead when it is applied.
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

    /// Takes the ids of unseen orders at a level: those that the exchange assigned before the next
    /// submission of the file. The level is in sight from now on, so none comes later.
    fn ghosts_at(&mut self, side: Side, price: Price) -> Vec<u64> {
        let next = self.submissions.front().copied().unwrap_or(ANONYMOUS_ID_FIRST);
        let Some(ids) = self.ghosts.get_mut(&(side, price)) else { return Vec::new() };
        let (now, later) = ids.iter().partition(|id| **id < next);
        *ids = later;
        now
    }
}

/// The depth of a side visible in the last row.
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

/// Transcodes messages and rows into events and rows, one message at a time.
#[derive(Debug)]
pub struct LobsterFlow {
    survey: Survey,
    ledger: Ledger,
    sight: [Sight; 2],
    anonymous_next: u64,
    started: bool,
}

impl LobsterFlow {
    /// Starts before the first message of the surveyed file.
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

    /// Appends the events of a message, and the row after it.
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
        left -= self.take(message.order_id, left, message.ts, kind, out);
        // Quantity that the named order lacks must be in the level's anonymous seeds.
        let ids = self.ledger.ids_at(message.side, message.price);
        for id in ids.into_iter().filter(|id| *id >= ANONYMOUS_ID_FIRST) {
            if left.is_zero() {
                break;
            }
            left -= self.take(id, left, message.ts, kind, out);
        }
        if kind == FlowKind::Delete
            && let Some(rest) = self.ledger.get(message.order_id)
        {
            self.take(message.order_id, rest.leaves, message.ts, FlowKind::Vanish, out);
        }
    }

    fn submission(&mut self, message: &Message, out: &mut Vec<FlowItem>) {
        if self.survey.submissions.front() == Some(&message.order_id) {
            self.survey.submissions.pop_front();
        }
        let order = LiveOrder { side: message.side, price: message.price, leaves: message.qty };
        if self.ledger.insert(message.order_id, order) {
            out.push(note(message, FlowKind::Add));
        }
    }

    /// Takes quantity off an order and emits the event; returns the quantity taken. A deletion that
    /// leaves a rest, as of an anonymous seed that stands for several orders, only reduces.
    fn take(
        &mut self,
        id: u64,
        qty: Qty,
        ts: Nanos,
        kind: FlowKind,
        out: &mut Vec<FlowItem>,
    ) -> Qty {
        let Some(order) = self.ledger.get(id) else { return Qty::ZERO };
        let taken = self.ledger.take(id, qty);
        let leaves_a_rest =
            self.ledger.get(id).is_some() && !plant::is(Plant::DeletionOfPartDeletes);
        let kind = match kind {
            FlowKind::Delete if leaves_a_rest => FlowKind::PartialCancel,
            kind => kind,
        };
        if !taken.is_zero() {
            let LiveOrder { side, price, .. } = order;
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

    /// Makes the ledger agree with a row at levels that have just come into sight.
    fn bring_into_sight(&mut self, ts: Nanos, row: &BookRow, out: &mut Vec<FlowItem>) -> FlowRow {
        let mut contradicts = false;
        let mut sides = [Vec::new(), Vec::new()];
        for (index, side) in [Side::Buy, Side::Sell].into_iter().enumerate() {
            let levels = if side == Side::Buy { &row.bids } else { &row.asks };
            let after = Sight::of(levels, row.depth);
            contradicts |= self.clear_gone(ts, side, levels, after, out);
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

    /// Clears levels that the row would show and lacks: their orders left while out of sight.
    /// Returns true if one of them was in sight all along.
    fn clear_gone(
        &mut self,
        ts: Nanos,
        side: Side,
        levels: &[Level],
        after: Sight,
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
                self.take(id, Qty(u64::MAX), ts, FlowKind::Vanish, out);
            }
        }
        contradicts
    }

    /// Brings a level to the quantity of its row, by the table above.
    fn reconcile(&mut self, ts: Nanos, side: Side, level: Level, out: &mut Vec<FlowItem>) {
        self.drop_overtaken(ts, side, level.price, out);
        let price = level.price;
        let known = self.ledger.ids_at(side, price);
        let sure: u64 = known.iter().map(|id| self.sure(*id).0).sum();
        let mut room = level.qty.0.saturating_sub(sure);
        for id in self.survey.ghosts_at(side, price) {
            let leaves = self.survey.ahead(id).qty.min(Qty(room));
            room -= leaves.0;
            self.seed(ts, id, LiveOrder { side, price, leaves }, out);
        }
        let have = self.ledger.qty_at(side, price);
        if have < level.qty {
            let id = self.anonymous_next;
            self.anonymous_next += 1;
            self.seed(ts, id, LiveOrder { side, price, leaves: level.qty - have }, out);
            return;
        }
        let mut surplus = have - level.qty;
        for id in &known {
            let order = self.ledger.get(*id).expect("listed at its level");
            let spare = order.leaves - self.sure(*id);
            surplus -= self.take(*id, spare.min(surplus), ts, FlowKind::Vanish, out);
        }
        for id in known.iter().rev() {
            surplus -= self.take(*id, surplus, ts, FlowKind::Vanish, out);
        }
    }

    /// The quantity of a live order that later messages take: at least this much is really there.
    fn sure(&self, id: u64) -> Qty {
        let order = self.ledger.get(id).expect("listed at its level");
        order.leaves.min(self.survey.ahead(id).qty)
    }

    /// Removes orders that are never named again but precede orders still to be executed.
    fn drop_overtaken(&mut self, ts: Nanos, side: Side, price: Price, out: &mut Vec<FlowItem>) {
        let to_come = self.survey.executions.get(&(side, price)).copied().unwrap_or_default();
        let mut of_those_ahead = 0;
        for id in self.ledger.ids_at(side, price) {
            let ahead = self.survey.ahead(id);
            of_those_ahead += ahead.executions;
            if ahead.qty.is_zero() && to_come > of_those_ahead {
                self.take(id, Qty(u64::MAX), ts, FlowKind::Vanish, out);
            }
        }
    }

    fn seed(&mut self, ts: Nanos, id: u64, order: LiveOrder, out: &mut Vec<FlowItem>) {
        if self.ledger.insert(id, order) {
            let LiveOrder { side, price, leaves } = order;
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

/// Reconstructs the row before a message: the book at the start of the file.
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

#[cfg(test)]
mod tests {
    use super::super::lobster::LobsterDay;
    use super::*;

    /// The events of a day of one level: its messages' kind, order, quantity, and the bid after it.
    fn events(day: &[(u8, u64, u64, u64)]) -> Vec<(FlowKind, u64, u64)> {
        let (mut messages, mut rows) = (String::new(), String::new());
        for (kind, id, qty, bid) in day {
            messages += &format!("1,{kind},{id},{qty},100,1\n");
            rows += &format!("200,5,100,{bid}\n");
        }
        let mut flow = LobsterFlow::new(Survey::default());
        let mut out = Vec::new();
        for read in LobsterDay::new(messages.as_bytes(), rows.as_bytes(), "test") {
            let (message, row) = read.expect("it can be read");
            flow.push(&message, &row, &mut out);
        }
        let of_bids = |item: &FlowItem| match item {
            FlowItem::Event(event) if event.side == Side::Buy => {
                Some((event.kind, event.source_order_id, event.qty.0))
            }
            _ => None,
        };
        out.iter().filter_map(of_bids).collect()
    }

    #[test]
    fn a_deletion_of_a_part_of_an_anonymous_seed_reduces_it_and_one_of_all_deletes_it() {
        let seed = ANONYMOUS_ID_FIRST;
        // Two orders from before the file leave a level that is one seed.
        let day = [(3, 7, 20, 30), (1, 9, 5, 35), (3, 8, 30, 5)];
        let want = [
            (FlowKind::Seed, seed + 1, 50),
            (FlowKind::PartialCancel, seed + 1, 20),
            (FlowKind::Add, 9, 5),
            (FlowKind::Delete, seed + 1, 30),
        ];
        let got = events(&day);
        let is_one = |(kind, id, qty): &(FlowKind, u64, u64)| (*kind, *id >= seed, *qty);
        assert_eq!(
            got.iter().map(is_one).collect::<Vec<_>>(),
            want.iter().map(is_one).collect::<Vec<_>>()
        );
    }

    #[cfg(feature = "planted")]
    #[test]
    fn the_planted_bug_of_a_deletion_of_a_part_is_found() {
        plant::set(Some(Plant::DeletionOfPartDeletes));
        let test = a_deletion_of_a_part_of_an_anonymous_seed_reduces_it_and_one_of_all_deletes_it;
        let is_found = std::panic::catch_unwind(test).is_err();
        plant::set(None);
        assert!(is_found);
    }

    #[test]
    fn a_deletion_of_less_than_an_order_has_leaves_nothing_of_it() {
        let got = events(&[(1, 9, 30, 30), (3, 9, 20, 0)]);
        let want =
            [(FlowKind::Add, 9, 30), (FlowKind::PartialCancel, 9, 20), (FlowKind::Vanish, 9, 10)];
        assert_eq!(got, want);
    }
}
