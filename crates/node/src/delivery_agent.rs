//! The delivery store's agent: follows the partition's events, answers questions for order state.
//!
//! Taking events in comes first in its cycle and does nothing for readers; readers look again
//! within their latency budget (`look_interval`), so the partition never wakes this thread and
//! never waits for it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_delivery::stream::SourceStream;
use weir_delivery::{Asked, Desk, DeskConfig, OrderStore, Question, Retention, StoreConfig};
use weir_log::EpochEnd;
use weir_types::{BatchNo, Epoch, InstrumentId, Nanos, PartitionId};
use weir_wire::event::OrderEvent;
use weir_wire::frame::parse_message;
use weir_wire::{Event, Message};

use crate::agent::Agent;
use crate::event_reader::{EventReader, ReadEvent};
use crate::gateway::ConnectionId;
use crate::handoff::{DeliveryRequest, Fetch};
use crate::ingest::{Feeds, IngestFigures, IngestPort};
use crate::markets::{Market, Markets};
use crate::reader_ports::{PageSender, ReaderPorts};
use crate::token_keys::TokenKeyFile;

/// Events taken in in one cycle.
const INGEST_MAX: usize = 128;
/// Questions taken in one cycle.
const ASK_MAX: usize = 256;
/// How long the store rests when nobody waits for anything.
const IDLE_INTERVAL: u64 = 2_000_000;
/// The partition whose events are followed.
const OWN: PartitionId = PartitionId(1);

/// Figures of the store that other threads read.
#[derive(Debug, Default)]
pub struct DeliveryFigures {
    /// Orders in the store: live, and ended ones that are kept.
    pub orders: AtomicU64,
    /// Changes taken in.
    pub ingested: AtomicU64,
    /// Pages served.
    pub pages: AtomicU64,
    /// Rows in them.
    pub rows: AtomicU64,
    /// Readers that wait.
    pub parked: AtomicU64,
    /// Questions refused for want of room.
    pub refused: AtomicU64,
    /// What the events say of each instrument.
    pub markets: Mutex<BTreeMap<InstrumentId, Market>>,
}

/// What the agent is made of.
pub struct DeliveryParts {
    /// The rings of the gateway, and of readers over HTTP where there are any.
    pub ports: ReaderPorts,
    /// The partition's events, from the first retained one.
    pub events: EventReader,
    /// The partition's epoch.
    pub epoch: Epoch,
    /// Its epochs before, each with its last valid position.
    pub ended: Vec<EpochEnd>,
    /// The key that seals tokens.
    pub token_key: TokenKeyFile,
    /// Ended orders that are kept.
    pub ended_orders_max: usize,
    /// A waiting reader's latency budget.
    pub look_interval: Nanos,
    /// Figures for others to read.
    pub figures: Arc<DeliveryFigures>,
    /// The sources of outside cores, the ring that they come over, and their figures.
    pub sources: (Vec<PartitionId>, Option<IngestPort>, Arc<IngestFigures>),
}

/// The agent.
pub struct DeliveryAgent {
    desk: Desk,
    /// Our own partition's stream: the numbers of its records.
    stream: SourceStream,
    feeds: Feeds,
    ports: ReaderPorts,
    events: EventReader,
    record: Vec<u8>,
    markets: Markets,
    /// Epochs that end at a position still ahead in the events.
    ends: VecDeque<EpochEnd>,
    epoch: Epoch,
    /// Connections that the gateway says can take nothing.
    paused: Vec<ConnectionId>,
    /// Connections whose pages found the gateway's ring full.
    blocked: Vec<ConnectionId>,
    look_interval: Nanos,
    has_more: bool,
    /// Readers that wait, at all desks.
    reader_count: u64,
    figures: Arc<DeliveryFigures>,
}

impl DeliveryAgent {
    /// An agent whose store has all retained events.
    ///
    /// # Errors
    /// When the token key can be neither read nor made.
    pub fn new(parts: DeliveryParts) -> anyhow::Result<DeliveryAgent> {
        let first_epoch = parts.ended.first().map_or(parts.epoch, |end| end.epoch);
        let count_max = u32::try_from(parts.ended_orders_max).unwrap_or(u32::MAX);
        let desk = |source, epoch| -> anyhow::Result<Desk> {
            let store = OrderStore::new(StoreConfig {
                retention: Retention { count_max, bytes_max: u64::MAX },
                ..StoreConfig::new(source, epoch)
            });
            Ok(Desk::new(DeskConfig::default(), store, parts.token_key.sealer()?))
        };
        let (sources, port, figures) = parts.sources;
        let desks = sources.into_iter().map(|source| desk(source, Epoch::NONE));
        let first_record = BatchNo(parts.events.next_record());
        let mut agent = DeliveryAgent {
            desk: desk(OWN, first_epoch)?,
            stream: SourceStream::of_log(OWN, first_epoch, first_record),
            feeds: Feeds::new(desks.collect::<anyhow::Result<_>>()?, port, figures),
            ports: parts.ports,
            markets: Markets::new(parts.events.next_record() <= 1),
            events: parts.events,
            record: Vec::with_capacity(512),
            ends: parts.ended.into(),
            epoch: parts.epoch,
            paused: Vec::new(),
            blocked: Vec::new(),
            look_interval: parts.look_interval,
            has_more: false,
            reader_count: 0,
            figures: parts.figures,
        };
        while agent.ingest() > 0 {}
        agent.end_past_epochs();
        agent.publish_markets();
        Ok(agent)
    }

    /// Takes in events; returns how many.
    fn ingest(&mut self) -> usize {
        let mut taken = 0;
        let mut changes = 0;
        while taken < INGEST_MAX {
            let ReadEvent::Record(number) = self.events.next(&mut self.record) else { break };
            taken += 1;
            let raw = parse_message(&self.record).expect("the event log holds our own messages");
            if raw.template_id != OrderEvent::TEMPLATE_ID {
                let event = Event::decode(&self.record);
                self.markets.on_event(&event.expect("the event log holds our own messages"));
                self.take_record(number, None);
                continue;
            }
            let event: OrderEvent = raw.decode().expect("the event log holds our own messages");
            while self.ends.front().is_some_and(|end| end.last_valid < event.position) {
                self.end_epoch();
            }
            self.markets.on_order(&event);
            self.take_record(number, Some(&event));
            changes += 1;
        }
        self.figures.ingested.fetch_add(changes, Ordering::Relaxed);
        taken
    }

    /// Our own engine's events come through the same numbering as an outside core's batches.
    fn take_record(&mut self, number: u64, event: Option<&OrderEvent>) {
        let store = self.desk.store_mut();
        let taken = self.stream.take_record(BatchNo(number), event, store);
        let _ = taken.expect("a partition's events are in order");
    }

    /// Takes in all that is there. A question that is already here is answered from it: whoever
    /// asks after a report gets at least what the report told.
    fn ingest_all(&mut self) -> usize {
        let mut taken = 0;
        loop {
            let some = self.ingest();
            taken += some;
            if some < INGEST_MAX {
                return taken;
            }
        }
    }

    fn publish_markets(&mut self) {
        if self.markets.has_changes() {
            let mut table = self.figures.markets.lock().unwrap_or_else(PoisonError::into_inner);
            self.markets.publish(&mut table);
        }
    }

    /// Ends the store's epoch where its log's ended: tokens beyond are refused.
    fn end_epoch(&mut self) {
        self.ends.pop_front();
        let next = self.ends.front().map_or(self.epoch, |end| end.epoch);
        self.stream.begin_epoch(next, self.desk.store_mut()).expect("epochs only grow");
    }

    fn end_past_epochs(&mut self) {
        while !self.ends.is_empty() {
            self.end_epoch();
        }
    }

    fn take_requests(&mut self, now: Nanos) -> usize {
        for taken in 0..ASK_MAX {
            match self.ports.next_request() {
                None => return taken,
                Some(DeliveryRequest::Fetch(fetch)) => self.ask(&fetch, now),
                Some(DeliveryRequest::Cancel(id, number)) => {
                    self.desks().for_each(|desk| desk.cancel(id.0, number));
                }
                Some(DeliveryRequest::Writable(id, true)) => {
                    self.paused.retain(|paused| *paused != id);
                    self.desks().for_each(|desk| desk.resume(id.0));
                }
                Some(DeliveryRequest::Writable(id, false)) => self.paused.push(id),
                Some(DeliveryRequest::Gone(id)) => {
                    self.paused.retain(|paused| *paused != id);
                    self.desks().for_each(|desk| desk.drop_connection(id.0));
                }
            }
        }
        ASK_MAX
    }

    fn ask(&mut self, fetch: &Fetch, now: Nanos) {
        let question = Question {
            connection: fetch.connection.0,
            fetch: &fetch.fetch,
            token: &fetch.token,
            min_token: &fetch.min_token,
            entitlement: fetch.entitlement,
        };
        let desk = match fetch.fetch.source_id {
            PartitionId::NONE | OWN => Ok(&mut self.desk),
            source => self.feeds.desk_of(source),
        };
        let asked = desk.map_or_else(Asked::Refused, |desk| desk.ask(&question, now));
        if let Asked::Refused(reason) = asked {
            self.figures.refused.fetch_add(1, Ordering::Relaxed);
            self.ports.refuse(fetch, reason);
        }
    }

    fn desks(&mut self) -> impl Iterator<Item = &mut Desk> {
        std::iter::once(&mut self.desk).chain(self.feeds.desks())
    }

    /// Serves readers; returns how many pages.
    fn serve(&mut self, now: Nanos) -> usize {
        for connection in std::mem::take(&mut self.blocked) {
            if self.ports.has_room(connection) {
                self.desks().for_each(|desk| desk.resume(connection.0));
            } else {
                self.blocked.push(connection);
            }
        }
        let mut sink = PageSender {
            ports: &mut self.ports,
            paused: &self.paused,
            blocked: &mut self.blocked,
            current: None,
        };
        let (mut page_count, mut row_count, mut parked) = (0, 0, 0);
        self.has_more = false;
        for desk in std::iter::once(&mut self.desk).chain(self.feeds.desks()) {
            let polled = desk.poll(now, &mut sink);
            page_count += polled.page_count;
            row_count += u64::from(polled.row_count);
            parked += desk.reader_count() as u64;
            self.has_more |= polled.has_more;
        }
        sink.send_current();
        if page_count > 0 {
            self.ports.wake_all();
        }
        self.reader_count = parked;
        self.figures.pages.fetch_add(u64::from(page_count), Ordering::Relaxed);
        self.figures.rows.fetch_add(row_count, Ordering::Relaxed);
        self.figures.parked.store(parked, Ordering::Relaxed);
        page_count as usize
    }
}

impl Agent for DeliveryAgent {
    fn name(&self) -> &'static str {
        "delivery"
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        let mut ingested = self.ingest();
        let fed = self.feeds.work(now);
        let asked = self.take_requests(now);
        if asked > 0 {
            ingested += self.ingest_all();
        }
        let served = self.serve(now);
        if ingested > 0 {
            let store = self.desk.store();
            let orders = u64::from(store.live_count()) + u64::from(store.ended_count());
            self.figures.orders.store(orders, Ordering::Relaxed);
            self.publish_markets();
        }
        // Having taken events in is no reason to look again at once: more come in the meantime
        // and are cheaper together. A full cycle means that there are more already.
        usize::from(ingested >= INGEST_MAX) + fed + asked + served + usize::from(self.has_more)
    }

    fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        let gap = self.feeds.next_deadline().unwrap_or(Nanos(u64::MAX)).max(now);
        if self.reader_count == 0 {
            return Some(Nanos(now.0 + IDLE_INTERVAL).min(gap));
        }
        let look = Nanos(now.0 + self.look_interval.0).min(gap);
        let desks = std::iter::once(&self.desk).chain(self.feeds.desks_ref());
        let due = desks.filter_map(Desk::next_deadline).min();
        Some(due.map_or(look, |deadline| deadline.max(now).min(look)))
    }
}

#[cfg(test)]
mod tests {
    use weir_delivery::Entitlement;
    use weir_log::tail::{TailConfig, tail};
    use weir_types::{
        AccountId, ClOrdId, EventNo, ExecId, ExecInst, ExecType, FirmId, InstrumentId, Liquidity,
        MatchId, OrdStatus, OrdType, OrderId, Position, Price, Qty, Reason, Rec, RequestNo,
        SelfTradePrevention, Seq, SessionId, Side, Switch, TimeInForce,
    };
    use weir_wire::delivery::{FetchOrders, OrderPage};
    use weir_wire::frame::{Framing, next_frame};

    use super::*;
    use crate::handoff::gateway_to_delivery;
    use crate::runner::Wake;

    /// The `number`-th order's acceptance.
    fn accepted(number: u64) -> OrderEvent {
        OrderEvent {
            position: Position(number),
            event_no: EventNo(number),
            request_no: RequestNo(number),
            rec: Rec(number),
            seq: Seq(number),
            order_id: OrderId::new(PartitionId(1), Rec(number)),
            exec_id: ExecId(number),
            match_id: MatchId::NONE,
            transact_time: Nanos(number),
            created_time: Nanos(number),
            cl_ord_id: ClOrdId::from_number(number),
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
            partition_id: PartitionId(1),
            reason: Reason::None,
            side: Side::Buy,
            ord_type: OrdType::Limit,
            time_in_force: TimeInForce::Day,
            exec_inst: ExecInst::NONE,
            self_trade_prevention: SelfTradePrevention::None,
            exec_type: ExecType::New,
            ord_status: OrdStatus::New,
            liquidity: Liquidity::None,
        }
    }

    fn question() -> DeliveryRequest {
        let fetch = FetchOrders {
            correlation_id: 1,
            session_id: SessionId(1),
            firm_id: FirmId::NONE,
            account_id: AccountId::NONE,
            instrument_id: InstrumentId::NONE,
            rows_max: 0,
            rows_min: 0,
            bytes_max: 0,
            wait_max_us: 0,
            credit: 1,
            live_only: Switch::On,
            source_id: PartitionId::NONE,
            min_wait_us: 0,
        };
        let (connection, entitlement) = (ConnectionId(7), Entitlement::all());
        DeliveryRequest::Fetch(Box::new(Fetch {
            connection,
            fetch,
            token: Vec::new(),
            min_token: Vec::new(),
            entitlement,
        }))
    }

    #[test]
    fn a_question_is_answered_with_all_that_was_said_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let (mut tail, handle) = tail(TailConfig::new(8 << 20, 1));
        let (mut to_store, port) = gateway_to_delivery(Wake::new(), Wake::new());
        let mut agent = DeliveryAgent::new(DeliveryParts {
            ports: ReaderPorts { gateway: port, web: None },
            events: EventReader::new(&handle, dir.path().join("events"), 1),
            epoch: Epoch(1),
            ended: Vec::new(),
            token_key: TokenKeyFile::own(dir.path()),
            ended_orders_max: 10,
            look_interval: Nanos(1),
            figures: Arc::new(DeliveryFigures::default()),
            sources: (Vec::new(), None, Arc::default()),
        })
        .unwrap();
        let count = 5 * INGEST_MAX as u64 + 3;
        let mut record = Vec::new();
        for number in 1..=count {
            record.clear();
            Event::Plain(weir_wire::PlainEvent::OrderEvent(accepted(number))).encode(&mut record);
            tail.append(&record);
        }
        tail.publish();
        assert!(to_store.ask(question()));
        agent.do_work(Nanos(1_000_000));
        let pages = to_store.next_pages().expect("an answer in the same cycle");
        let Framing::Frame { message: Ok(raw), .. } = next_frame(&pages.bytes, 1 << 20) else {
            panic!("no frame");
        };
        let page: OrderPage = raw.decode().unwrap();
        assert_eq!(u64::from(page.row_count), count);
    }
}
