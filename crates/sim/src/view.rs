//! The order store over the partition's events, and followers that resume by their tokens.
//!
//! The store is built anew in every life from the event log, as the node's delivery agent does;
//! followers outlive crashes with only their last token and the rows that they received.

use std::collections::BTreeMap;

use weir_client::follower::{Follower, FollowerConfig};
use weir_delivery::model::Model;
use weir_delivery::{
    Desk, DeskConfig, Entitlement, FetchOutcome, NonceCounter, OrderStore, PageSink, Question,
    StoreConfig, TokenKey, TokenSealer,
};
use weir_log::{EpochChange, EpochCursor};
use weir_types::{ChangeId, Epoch, Epochs, Nanos, OrderId, Reason, Rec, SessionId};
use weir_wire::delivery::OrderRow;
use weir_wire::dialogue::{ClientMessage, NodeMessage, Tokens};
use weir_wire::frame::{Framing, next_frame};
use weir_wire::{Event, PlainEvent};

use crate::oracle::Violation;
use crate::plant::Plant;
use crate::workload::HERE;

/// The longest frame of a page.
const FRAME_MAX: usize = 1 << 24;

/// The store, its desk, and the slow model of both.
pub struct View {
    desk: Desk,
    model: Model,
    /// Tells the ends of epochs between the events, as an event reader does.
    epochs: EpochCursor,
    /// The number of the next event.
    next: u64,
}

impl View {
    /// Creates an empty store before the event with the number `next`. `nonce` must differ from
    /// every other view's.
    #[must_use]
    pub fn new(epochs: EpochCursor, next: u64, nonce: u64, plant: Option<Plant>) -> View {
        let epochs = match plant {
            Some(Plant::EpochEndUntold) => EpochCursor::new(Epochs::new(Epoch(1)), 1),
            _ => epochs,
        };
        let store = OrderStore::new(StoreConfig::new(HERE, epochs.epoch()));
        let nonces = NonceCounter::new(1, Nanos(nonce << 32));
        let sealer = TokenSealer::new(TokenKey::new(1, &[7; 32]), nonces);
        View {
            desk: Desk::new(DeskConfig::default(), store, sealer),
            model: Model::default(),
            epochs,
            next,
        }
    }

    /// Applies an event.
    ///
    /// # Errors
    /// When the store refuses it.
    pub fn ingest(&mut self, event: &Event) -> Result<(), Violation> {
        while let Some(change) = self.epochs.pass_before(self.next, event.position()) {
            self.end_epoch(&change)?;
        }
        self.next += 1;
        let Event::Plain(PlainEvent::OrderEvent(e)) = event else { return Ok(()) };
        self.model.ingest(e);
        self.desk
            .ingest(e)
            .map(|_| ())
            .map_err(|error| Violation::new("the order store refuses an event", error))
    }

    /// Ends all old epochs, after the whole event log was applied.
    ///
    /// # Errors
    /// When the store refuses.
    pub fn caught_up(&mut self) -> Result<(), Violation> {
        while let Some(change) = self.epochs.pass(self.next) {
            self.end_epoch(&change)?;
        }
        Ok(())
    }

    fn end_epoch(&mut self, change: &EpochChange) -> Result<(), Violation> {
        let store = self.desk.store_mut();
        let valid_to = store.head();
        store
            .begin_epoch(change.next, valid_to)
            .map_err(|error| Violation::new("the order store refuses an epoch", error))
    }

    /// Compares the store with the model.
    ///
    /// # Errors
    /// When an order's latest state differs.
    pub fn check(&self) -> Result<BTreeMap<OrderId, OrderRow>, Violation> {
        let mut rows = BTreeMap::new();
        for (rec, row) in self.model.latest(ChangeId::START) {
            let row = OrderRow { merged_count: 0, ..row };
            let kept = self.desk.store().get(rec).map(|r| OrderRow { merged_count: 0, ..r });
            if kept != Some(row) {
                let what = format!("order {rec}: store {kept:?}, model {row:?}");
                return Err(Violation::new("the order store is not the model", what));
            }
            rows.insert(row.order_id, row);
        }
        Ok(rows)
    }
}

/// Collects one connection's frames.
#[derive(Default)]
struct Connection {
    bytes: Vec<u8>,
}

impl PageSink for Connection {
    fn buffer(&mut self, _connection: u64, _session_id: SessionId) -> Option<&mut Vec<u8>> {
        Some(&mut self.bytes)
    }
}

/// A client that follows order state.
pub struct Reader {
    follower: Follower,
    connection: Connection,
    questions: Vec<u8>,
    /// The number of refused tokens.
    pub resyncs: u64,
}

impl Default for Reader {
    fn default() -> Reader {
        let config = FollowerConfig {
            keep_orders: true,
            rows_max: 7,
            wait_max_us: 1,
            ..FollowerConfig::new(SessionId(1))
        };
        let follower = Follower::new(config, Vec::new());
        Reader { follower, connection: Connection::default(), questions: Vec::new(), resyncs: 0 }
    }
}

impl Reader {
    /// Starts on a new connection, with its current token.
    pub fn connect(&mut self) {
        self.connection.bytes.clear();
        self.questions.clear();
        self.follower.ask(&mut self.questions);
    }

    /// Reads everything new, fetching until there is no more.
    ///
    /// # Errors
    /// When a page violates the protocol.
    pub fn follow(&mut self, view: &mut View, now: Nanos) -> Result<(), Violation> {
        loop {
            self.ask(view, now)?;
            let polled = view.desk.poll(now, &mut self.connection);
            self.take_pages()?;
            if !polled.has_more && self.questions.is_empty() {
                return Ok(());
            }
        }
    }

    fn ask(&mut self, view: &mut View, now: Nanos) -> Result<(), Violation> {
        let bytes = std::mem::take(&mut self.questions);
        let mut rest = &bytes[..];
        while let Framing::Frame { len, message } = next_frame(rest, FRAME_MAX) {
            let question = message.and_then(|raw| ClientMessage::decode(&raw));
            let Ok(ClientMessage::FetchOrders(fetch, tokens)) = question else {
                return Err(Violation::new(
                    "a follower's question is none",
                    format!("{question:?}"),
                ));
            };
            let entitlement = Entitlement::all();
            let Tokens { token, min_token } = tokens;
            let question = Question { connection: 1, fetch: &fetch, token, min_token, entitlement };
            let asked = view.desk.ask(&question, now);
            if asked != FetchOutcome::Accepted {
                return Err(Violation::new("a question is not accepted", format!("{asked:?}")));
            }
            rest = &rest[len..];
        }
        Ok(())
    }

    fn take_pages(&mut self) -> Result<(), Violation> {
        let bytes = std::mem::take(&mut self.connection.bytes);
        let mut rest = &bytes[..];
        let broken = |error: &dyn std::fmt::Display| Violation::new("a page is broken", error);
        while let Framing::Frame { len, message } = next_frame(rest, FRAME_MAX) {
            let raw = message.map_err(|e| broken(&e))?;
            match NodeMessage::decode(&raw).map_err(|e| broken(&e))? {
                NodeMessage::OrderPage(page, token) => {
                    self.resyncs += u64::from(page.reason != Reason::None);
                    let _ = self
                        .follower
                        .on_page(&page, token, &mut self.questions)
                        .map_err(|e| broken(&e))?;
                }
                NodeMessage::OrderPageBody(body, rows) => {
                    self.follower.on_rows(&body, rows, |_| {}).map_err(|e| broken(&e))?;
                }
                other => return Err(broken(&format!("{other:?}"))),
            }
            rest = &rest[len..];
        }
        Ok(())
    }

    /// Starts as a new follower.
    pub fn begin_anew(&mut self) {
        *self = Reader { resyncs: self.resyncs, ..Reader::default() };
    }

    /// Compares the follower's orders with the latest state of every order after the order
    /// `forgotten`.
    ///
    /// # Errors
    /// When they differ.
    pub fn check(
        &self,
        latest: &BTreeMap<OrderId, OrderRow>,
        forgotten: Rec,
    ) -> Result<(), Violation> {
        let is_known = |row: &OrderRow| row.rec > forgotten;
        let known = self.follower.orders().iter().filter(|(_, row)| is_known(row));
        let stale = known.clone().find(|(id, row)| {
            let row = OrderRow { merged_count: 0, ..**row };
            latest.get(*id) != Some(&row)
        });
        if let Some((id, row)) = stale {
            return Err(Violation::new(
                "a follower knows what is not so",
                format!("{id}: {row:?}"),
            ));
        }
        let (known, latest) = (known.count(), latest.values().filter(|row| is_known(row)).count());
        if known != latest {
            let what = format!("{known} of {latest} orders");
            return Err(Violation::new("a follower misses orders", what));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use weir_delivery::Filter;
    use weir_types::{
        AccountId, ClOrdId, EventNo, ExecId, ExecInst, ExecType, FirmId, InstrumentId, Liquidity,
        MatchId, OrdStatus, OrdType, Position, Price, Qty, RequestNo, SelfTradePrevention, Seq,
        Side, TimeInForce,
    };
    use weir_wire::event::OrderEvent;

    use super::*;

    /// Returns the acceptance of the order that the command at `position` entered.
    fn accepted(position: u64) -> Event {
        Event::Plain(PlainEvent::OrderEvent(OrderEvent {
            position: Position(position),
            event_no: EventNo(position),
            request_no: RequestNo(position),
            rec: Rec(position),
            seq: Seq(position),
            order_id: OrderId::new(HERE, Rec(position)),
            exec_id: ExecId(position),
            match_id: MatchId::NONE,
            transact_time: Nanos(position),
            created_time: Nanos(position),
            cl_ord_id: ClOrdId::from_number(position),
            orig_cl_ord_id: ClOrdId::NONE,
            price: Price(100),
            stop_px: Price(0),
            last_px: Price(0),
            last_qty: Qty::ZERO,
            order_qty: Qty(10),
            leaves_qty: Qty(10),
            cum_qty: Qty::ZERO,
            display_qty: Qty::ZERO,
            min_qty: Qty::ZERO,
            expire_time: Nanos(0),
            session_id: SessionId(1),
            firm_id: FirmId(1),
            account_id: AccountId(1),
            instrument_id: InstrumentId(1),
            partition_id: HERE,
            reason: Reason::None,
            side: Side::Buy,
            ord_type: OrdType::Limit,
            time_in_force: TimeInForce::Day,
            exec_inst: ExecInst::NONE,
            self_trade_prevention: SelfTradePrevention::None,
            exec_type: ExecType::New,
            ord_status: OrdStatus::New,
            liquidity: Liquidity::None,
        }))
    }

    #[test]
    fn a_token_of_an_ended_epoch_counts_up_to_the_least_end_since() {
        let end = |epoch, last_valid| (Epoch(epoch), Position(last_valid));
        let epochs = Epochs::with_ended(Epoch(3), [end(1, 10), end(2, 8)]);
        let mut view = View::new(EpochCursor::new(epochs, 21), 1, 1, None);
        (1..=20).for_each(|position| view.ingest(&accepted(position)).unwrap());
        view.caught_up().unwrap();
        for position in 1..=20 {
            for epoch in [1, 2] {
                let change_id = ChangeId::new(Seq(position), Rec(position));
                let checked = view.desk.store().check(Epoch(epoch), change_id, &Filter::ALL);
                assert_eq!(checked.is_ok(), position <= 8, "epoch {epoch}, place {position}");
            }
        }
    }
}
