//! The delivery store's agent: follows the partition's events, answers questions for order state.
//!
//! Taking events in comes first in its cycle and does nothing for readers; readers look again
//! within their latency budget (`look_interval`), so the partition never wakes this thread and
//! never waits for it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_delivery::stream::SourceStream;
use weir_delivery::{Asked, Desk, DeskConfig, IngestError, Question};
use weir_log::EpochEnd;
use weir_types::{BatchNo, Durability, Epoch, InstrumentId, Nanos, PartitionId};
use weir_wire::event::OrderEvent;
use weir_wire::frame::parse_message;
use weir_wire::{Event, Message};

use crate::agent::Agent;
use crate::cold::{ColdAgent, ColdFeeder};
use crate::event_reader::{EventReader, ReadEvent};
use crate::gateway::ConnectionId;
use crate::handoff::{DeliveryRequest, Fetch};
use crate::ingest::{FeedParts, Feeds, IngestFigures, IngestPort};
use crate::markets::{Market, Markets};
use crate::reader_ports::{PageSender, ReaderPorts};
use crate::replica::{ReplicaFigures, UpdatePort};
use crate::runner::Wake;
use crate::stores::kept::{KeepSources, KeptSources};
use crate::stores::{StoreFigures, StoreSettings, SweepFigures, Sweeper};
use crate::token_keys::TokenKeyFile;

/// Events taken in in one cycle.
const INGEST_MAX: usize = 128;
/// Questions taken in one cycle.
const ASK_MAX: usize = 256;
/// How long the store rests when nobody waits for what the partition says.
const IDLE_INTERVAL: u64 = 2_000_000;
/// After so long without news, looks are further apart by the factor below: ten thousand readers
/// that wait for a closed market cost little.
const QUIET_AFTER: u64 = 200_000_000;
const QUIET_FACTOR: u64 = 4;
/// The partition whose events are followed.
pub const OWN: PartitionId = PartitionId(1);

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
    /// Times that an event had to wait because the store was full.
    pub full_waits: AtomicU64,
    /// The store.
    pub store: Mutex<StoreFigures>,
    /// Sweeping, of all stores.
    pub sweeps: SweepFigures,
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
    /// How the partition's own store is to be.
    pub store: StoreSettings,
    /// The same of outside cores, and what their acknowledgements survive.
    pub sources: Vec<(StoreSettings, Durability)>,
    /// A waiting reader's latency budget.
    pub look_interval: Nanos,
    /// Figures for others to read.
    pub figures: Arc<DeliveryFigures>,
    /// The ring that outside cores come over, and their figures.
    pub ingest: (Option<IngestPort>, Arc<IngestFigures>),
    /// The sources of another node that are followed, what comes of them, and its figures.
    pub replica: Option<(Vec<StoreSettings>, UpdatePort, Arc<ReplicaFigures>)>,
    /// How the stores of outside cores survive a restart.
    pub keep: KeepSources,
    /// What keeps the partition's own orders when the store lets them go, if anything does.
    pub cold: Option<ColdFeeder>,
    /// The delivery agent's own thread.
    pub wake: Wake,
}

/// The agent.
pub struct DeliveryAgent {
    desk: Desk,
    /// Our own partition's stream: the numbers of its records.
    stream: SourceStream,
    feeds: Feeds,
    cold: Option<ColdFeeder>,
    ports: ReaderPorts,
    events: EventReader,
    record: Vec<u8>,
    /// The number of the record that is in `record` and that the store had no room for.
    held: Option<u64>,
    markets: Markets,
    sweeper: Sweeper,
    /// Epochs that end at a position still ahead in the events.
    ends: VecDeque<EpochEnd>,
    epoch: Epoch,
    /// Connections that the gateway says can take nothing.
    paused: Vec<ConnectionId>,
    /// Connections whose pages found the gateway's ring full.
    blocked: Vec<ConnectionId>,
    look_interval: Nanos,
    has_more: bool,
    /// When the partition last said anything.
    news_at: Nanos,
    figures: Arc<DeliveryFigures>,
}

impl DeliveryAgent {
    /// An agent whose store has all retained events.
    ///
    /// # Errors
    /// When the token key can be neither read nor made.
    pub fn new(parts: DeliveryParts) -> anyhow::Result<(DeliveryAgent, KeptSources)> {
        let first_epoch = parts.ended.first().map_or(parts.epoch, |end| end.epoch);
        let desk = |store| -> anyhow::Result<Desk> {
            Ok(Desk::new(DeskConfig::default(), store, parts.token_key.sealer()?))
        };
        let (port, figures) = parts.ingest;
        let kept = parts.keep.bring_back(&parts.sources, &parts.wake)?;
        let snapshot_every = parts.keep.snapshot_every;
        let feeds = kept.feeds.into_iter().map(|(store, stream, journal, tail)| {
            let desk = desk(store)?;
            Ok(FeedParts { desk, stream, journal, tail, is_replica: false, snapshot_every })
        });
        let mut feeds = feeds.collect::<anyhow::Result<Vec<_>>>()?;
        let updates = parts.replica.map(|(followed, port, figures)| {
            for settings in followed {
                let desk = desk(settings.store(Epoch::NONE))?;
                feeds.push(FeedParts::replica(settings.source, desk));
            }
            anyhow::Ok((port, figures))
        });
        let updates = updates.transpose()?;
        let first_record = BatchNo(parts.events.next_record());
        let mut own = desk(parts.store.store(first_epoch))?;
        if let Some(cold) = &parts.cold {
            own.keep_older(cold.out_max());
        }
        let mut agent = DeliveryAgent {
            desk: own,
            cold: parts.cold,
            stream: SourceStream::of_log(OWN, first_epoch, first_record),
            feeds: Feeds::new(feeds, port, updates, (kept.port, figures)),
            ports: parts.ports,
            markets: Markets::new(parts.events.next_record() <= 1),
            events: parts.events,
            record: Vec::with_capacity(512),
            held: None,
            sweeper: Sweeper::default(),
            ends: parts.ended.into(),
            epoch: parts.epoch,
            paused: Vec::new(),
            blocked: Vec::new(),
            look_interval: parts.look_interval,
            has_more: false,
            news_at: Nanos(0),
            figures: parts.figures,
        };
        while agent.ingest() > 0 {
            if let Some(cold) = &mut agent.cold {
                cold.feed_at_start(agent.desk.store());
            }
        }
        agent.end_past_epochs();
        agent.publish_markets();
        agent.publish_store();
        Ok((agent, KeptSources { writer: kept.writer, notes: kept.notes }))
    }

    /// The agent of what keeps older orders, for its thread; none where nothing does.
    pub fn take_cold(&mut self) -> Option<ColdAgent> {
        self.cold.as_mut().map(ColdFeeder::take_agent)
    }

    /// Hands what is new on to what keeps it when the store lets it go; true when there is more.
    fn feed_cold(&mut self, now: Nanos) -> bool {
        self.cold.as_mut().is_some_and(|cold| cold.feed(self.desk.store(), now))
    }

    /// Takes in events; returns how many.
    fn ingest(&mut self) -> usize {
        let mut taken = 0;
        let mut changes = 0;
        while taken < INGEST_MAX {
            let Some(number) = self.next_record() else { break };
            taken += 1;
            let raw = parse_message(&self.record).expect("the event log holds our own messages");
            if raw.template_id != OrderEvent::TEMPLATE_ID {
                let event = Event::decode(&self.record);
                self.markets.on_event(&event.expect("the event log holds our own messages"));
                let _ = self.take_record(number, None);
                continue;
            }
            let event: OrderEvent = raw.decode().expect("the event log holds our own messages");
            while self.ends.front().is_some_and(|end| end.last_valid < event.position) {
                self.end_epoch();
            }
            if !self.take_record(number, Some(&event)) {
                taken -= 1;
                break;
            }
            self.markets.on_order(&event);
            changes += 1;
        }
        self.figures.ingested.fetch_add(changes, Ordering::Relaxed);
        taken
    }

    /// The number of the record that is to be taken in next, which is in `record` then.
    fn next_record(&mut self) -> Option<u64> {
        if let Some(number) = self.held.take() {
            return Some(number);
        }
        match self.events.next(&mut self.record) {
            ReadEvent::Record(number) => Some(number),
            ReadEvent::UpToDate => None,
        }
    }

    /// Our own engine's events come through the same numbering as an outside core's batches. False
    /// when there is no room for one: it is taken in when ended orders have gone, and readers see
    /// until then what is there.
    fn take_record(&mut self, number: u64, event: Option<&OrderEvent>) -> bool {
        let store = self.desk.store_mut();
        match self.stream.take_record(BatchNo(number), event, store) {
            Ok(_) => true,
            Err(IngestError::StoreFull { .. }) => {
                self.held = Some(number);
                self.figures.full_waits.fetch_add(1, Ordering::Relaxed);
                false
            }
            Err(error) => panic!("a partition's events are in order: {error}"),
        }
    }

    /// Takes in all that is there. A question that is already here is answered from it: whoever
    /// asks after a report gets at least what the report told.
    fn ingest_all(&mut self, now: Nanos) -> usize {
        let mut taken = 0;
        loop {
            let some = self.ingest();
            self.feed_cold(now);
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

    fn publish_store(&self) {
        let figures = StoreFigures::of(self.desk.store());
        *self.figures.store.lock().unwrap_or_else(PoisonError::into_inner) = figures;
    }

    /// Sweeps a little of one of the stores.
    fn sweep(&mut self) -> bool {
        let turn = self.sweeper.next(1 + self.feeds.desks_ref().count());
        let desk = match turn {
            0 => Some(&mut self.desk),
            turn => self.feeds.desks().nth(turn - 1),
        };
        desk.is_some_and(|desk| Sweeper::step(desk.store_mut(), &self.figures.sweeps))
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
        let has_older = self.feed_cold(now);
        let fed = self.feeds.work(now);
        let asked = self.take_requests(now);
        if asked > 0 {
            ingested += self.ingest_all(now);
        }
        let answered = self.cold.as_mut().map_or(0, |cold| cold.take_answers(&mut self.desk));
        let mut served = self.serve(now);
        served += self.cold.as_mut().map_or(0, |cold| cold.ask(&mut self.desk)) + answered;
        if ingested > 0 {
            self.news_at = now;
        }
        let swept = self.sweep();
        if ingested > 0 || swept {
            let store = self.desk.store();
            let orders = u64::from(store.live_count()) + u64::from(store.ended_count());
            self.figures.orders.store(orders, Ordering::Relaxed);
            self.publish_markets();
            self.publish_store();
        }
        // Having taken events in is no reason to look again at once: more come in the meantime
        // and are cheaper together. A full cycle means that there are more already.
        let more = [ingested >= INGEST_MAX, has_older, swept, self.has_more];
        more.map(usize::from).iter().sum::<usize>() + fed + asked + served
    }

    fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        let gap = self.feeds.next_deadline().unwrap_or(Nanos(u64::MAX)).max(now);
        // Outside cores' batches wake this thread; only for the partition's events it has to look.
        let interval = match self.desk.reader_count() {
            // The gateway takes pages and says nothing.
            _ if !self.blocked.is_empty() => self.look_interval.0,
            0 => IDLE_INTERVAL,
            _ if now.since(self.news_at).0 > QUIET_AFTER => QUIET_FACTOR * self.look_interval.0,
            _ => self.look_interval.0,
        };
        let look = Nanos(now.0 + interval).min(gap);
        let desks = std::iter::once(&self.desk).chain(self.feeds.desks_ref());
        let due = desks.filter_map(Desk::next_deadline).min();
        Some(due.map_or(look, |deadline| deadline.max(now).min(look)))
    }

    fn stop(&mut self, now: Nanos) -> bool {
        self.do_work(now);
        self.feeds.close();
        true
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

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
    use crate::handoff::{GatewayPort, gateway_to_delivery};

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

    fn settings(bytes_max: u64) -> StoreSettings {
        let indexes = crate::stores::Indexes::default();
        StoreSettings { source: OWN, ended_orders_max: 10, bytes_max, indexes }
    }

    #[test]
    fn a_full_store_of_the_nodes_own_orders_waits_and_serves_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let (mut tail, handle) = tail(TailConfig::new(32 << 20, 1));
        let (mut to_store, port) = gateway_to_delivery(Wake::new(), Wake::new());
        let figures = Arc::new(DeliveryFigures::default());
        let parts = DeliveryParts {
            store: settings(6 << 20),
            figures: figures.clone(),
            ..parts(dir.path(), EventReader::new(&handle, dir.path().join("events"), 1), port)
        };
        let mut agent = DeliveryAgent::new(parts).unwrap().0;
        let count = 20_000;
        append(&mut tail, 1..=count);
        assert!(to_store.ask(question()));
        for cycle in 1..=300 {
            agent.do_work(Nanos(cycle * 1_000_000));
        }
        assert!(figures.full_waits.load(Ordering::Relaxed) > 0, "it never was full");
        let store = *figures.store.lock().unwrap();
        assert!(u64::from(store.live_orders) < count && store.live_orders > 1_000, "{store:?}");
        let memory = store.memory.map(|memory| memory.total);
        assert!(memory <= Some(6 << 20), "{memory:?}");
        let pages = to_store.next_pages().expect("readers are served");
        let Framing::Frame { message: Ok(raw), .. } = next_frame(&pages.bytes, 1 << 20) else {
            panic!("no frame");
        };
        let page: OrderPage = raw.decode().unwrap();
        assert!(page.row_count > 0);
    }

    /// Orders are accepted, each by an event.
    fn append(tail: &mut weir_log::TailWriter, numbers: std::ops::RangeInclusive<u64>) {
        let mut record = Vec::new();
        for number in numbers {
            record.clear();
            Event::Plain(weir_wire::PlainEvent::OrderEvent(accepted(number))).encode(&mut record);
            tail.append(&record);
        }
        tail.publish();
    }

    fn parts(dir: &Path, events: EventReader, gateway: GatewayPort) -> DeliveryParts {
        DeliveryParts {
            ports: ReaderPorts { gateway, web: None },
            events,
            epoch: Epoch(1),
            ended: Vec::new(),
            token_key: TokenKeyFile::own(dir),
            store: settings(u64::MAX),
            sources: Vec::new(),
            look_interval: Nanos(1),
            figures: Arc::new(DeliveryFigures::default()),
            ingest: (None, Arc::default()),
            keep: KeepSources::in_dir(dir),
            replica: None,
            cold: None,
            wake: Wake::new(),
        }
    }

    #[test]
    fn a_question_is_answered_with_all_that_was_said_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let (mut tail, handle) = tail(TailConfig::new(8 << 20, 1));
        let (mut to_store, port) = gateway_to_delivery(Wake::new(), Wake::new());
        let events = EventReader::new(&handle, dir.path().join("events"), 1);
        let mut agent = DeliveryAgent::new(parts(dir.path(), events, port)).unwrap().0;
        let count = 5 * INGEST_MAX as u64 + 3;
        append(&mut tail, 1..=count);
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
