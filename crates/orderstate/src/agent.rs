//! The delivery stores' agent: follows the partitions' events and answers queries for order state.
//!
//! Ingest comes first in its cycle and does no work for readers. Readers are served within their
//! latency budget (`look_interval`), so no partition ever wakes this thread or waits for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_delivery::{Desk, DeskConfig, FetchOutcome, PollOutcome, Question, TokenKeys};
use weir_door::ConnectionId;
use weir_door::reader_ports::{PageSender, ReaderPorts};
use weir_door::reader_rings::{DeliveryRequest, Fetch};
use weir_runtime::{Agent, Wake};
use weir_types::{Durability, Epoch, Nanos, PartitionId, SessionId, WallOffset};

use crate::cold::{ArchiveSender, ColdAgent, ColdSources};
use crate::figures::DeliveryFigures;
use crate::ingest::own::OwnEvents;
use crate::ingest::{IngestFigures, IngestPort, SourceStore, SourceStoreParts, SourceStores};
use crate::merged::MergedReaders;
use crate::reader_list::ListTimes;
use crate::reader_lister::{ListedReaders, ReaderLister};
use crate::replica::{ReplicaFigures, UpdatePort};
use crate::stores::kept::{KeepSettings, KeptOwnStore, KeptSourceStore, KeptSources};
use crate::stores::own::OwnSource;
use crate::stores::{StoreSettings, Sweeper};
use crate::token_keys::sealer;
use crate::waiting_queries::{EventPlace, Query, WaitingQueries};

/// The number of a partition's events ingested in one step.
const INGEST_MAX: usize = 128;
/// The number of steps in one cycle while a query waits for older events.
const CATCH_UP_STEPS: usize = 8;
/// The number of queries taken in one cycle.
const ASK_MAX: usize = 256;
/// The pause in nanoseconds when no reader waits for a partition's events.
const IDLE_INTERVAL: u64 = 2_000_000;
/// The time in nanoseconds without news after which the polling interval is multiplied by the
/// factor below: ten thousand readers that wait for a closed market cost little.
const QUIET_AFTER: u64 = 200_000_000;
const QUIET_FACTOR: u64 = 4;

/// The parts of the agent.
pub struct DeliveryParts<'a> {
    /// The rings of the gateway, and of readers over HTTP where there are any.
    pub ports: ReaderPorts,
    /// The partitions that trade here.
    pub own: Vec<OwnParts<'a>>,
    /// The keys that seal and open tokens.
    pub token_keys: TokenKeys,
    /// The settings of outside cores' stores, and the durability levels of their acknowledgements.
    pub sources: Vec<(StoreSettings, Durability)>,
    /// The archives of the orders that these discard, if any.
    pub cold_sources: Option<ColdSources>,
    /// A waiting reader's latency budget.
    pub look_interval: Nanos,
    /// Figures for other threads to read: they name the sources of the queries that name none,
    /// the node's own partitions, also followed ones.
    pub figures: Arc<DeliveryFigures>,
    /// The ring from outside cores, and their figures.
    pub ingest: (Option<IngestPort>, Arc<IngestFigures>),
    /// The followed sources of another node, the ring of their updates, and their figures.
    pub replica: Option<(Vec<StoreSettings>, UpdatePort, Arc<ReplicaFigures>)>,
    /// The settings for keeping the stores over a restart.
    pub keep: KeepSettings,
    /// The delivery agent's own thread.
    pub wake: Wake,
}

/// A partition that trades here, as a source.
pub struct OwnParts<'a> {
    /// Its events, and the settings of their store.
    pub source: OwnSource<'a>,
    /// The archive of the orders that the store discards, if any.
    pub cold: Option<ArchiveSender>,
}

/// The events that a step ingested.
#[derive(Clone, Copy, Debug, Default)]
struct Ingested {
    count: usize,
    /// True if a partition may have more.
    has_more: bool,
}

/// The delivery stores' agent.
pub struct DeliveryAgent {
    /// The stores, those of the partitions that trade here first, with their readers.
    source_stores: SourceStores,
    /// The readers of all own partitions, where there are several.
    merged: Option<MergedReaders>,
    ports: ReaderPorts,
    /// Queries that wait until the stores have the events from before them.
    waiting: WaitingQueries,
    sweeper: Sweeper,
    lister: ReaderLister,
    /// The wall clock, beside which readers lag.
    wall: WallOffset,
    /// Connections that the gateway reported as unable to take output.
    paused: Vec<ConnectionId>,
    /// Connections whose pages found the gateway's ring full.
    blocked: Vec<ConnectionId>,
    look_interval: Nanos,
    has_more: bool,
    /// True when the last cycle found sweeping work.
    is_sweeping: bool,
    /// The time of the partitions' last news.
    news_at: Nanos,
    figures: Arc<DeliveryFigures>,
}

impl DeliveryAgent {
    /// Returns an agent whose stores have all retained events of the partitions that trade here.
    ///
    /// # Errors
    /// When a store cannot be recovered.
    pub fn new(parts: DeliveryParts<'_>) -> anyhow::Result<(DeliveryAgent, KeptSources)> {
        let desk = |store| Desk::new(DeskConfig::default(), store, sealer(&parts.token_keys));
        let (port, figures) = parts.ingest;
        let cold = parts.cold_sources.as_ref();
        let (own, archives): (Vec<_>, Vec<_>) =
            parts.own.into_iter().map(|own| (own.source, own.cold)).unzip();
        let kept = parts.keep.bring_back(own, &parts.sources, cold, &parts.wake)?;
        let mut source_stores = Vec::new();
        for (own, cold) in kept.own.into_iter().zip(archives) {
            let KeptOwnStore { store, stream, events, snapshot_every } = own;
            let own =
                SourceStoreParts::own(desk(store), stream, OwnEvents::new(events), snapshot_every);
            source_stores.push(SourceStoreParts { cold, ..own });
        }
        let snapshot_every = parts.keep.snapshot_every;
        for KeptSourceStore { store, stream, journal, tail, cold, failure } in kept.source_stores {
            let (desk, is_replica, own) = (desk(store), false, None);
            let parts = SourceStoreParts {
                desk,
                stream,
                journal,
                tail,
                is_replica,
                own,
                snapshot_every,
                cold,
                failure,
            };
            source_stores.push(parts);
        }
        let updates = parts.replica.map(|(followed, port, figures)| {
            for settings in followed {
                let desk = desk(settings.store(Epoch::NONE));
                source_stores.push(SourceStoreParts::replica(settings.source, desk));
            }
            (port, figures)
        });
        let own: Vec<_> = parts.figures.own.iter().map(|own| own.source).collect();
        let mut agent = DeliveryAgent {
            merged: MergedReaders::of(&own, sealer(&parts.token_keys)),
            source_stores: SourceStores::new(source_stores, port, updates, kept.port, figures),
            ports: parts.ports,
            waiting: WaitingQueries::default(),
            sweeper: Sweeper::default(),
            lister: ReaderLister::default(),
            wall: WallOffset::default(),
            paused: Vec::new(),
            blocked: Vec::new(),
            look_interval: parts.look_interval,
            has_more: false,
            is_sweeping: false,
            news_at: Nanos(0),
            figures: parts.figures,
        };
        agent.feed_cold_at_start();
        while agent.ingest().count > 0 {
            agent.feed_cold_at_start();
        }
        agent.tell_markets();
        agent.tell_stores();
        Ok((agent, KeptSources { writer: kept.writer, notes: kept.notes }))
    }

    /// Takes the archives' agents, for their thread.
    pub fn take_cold(&mut self) -> Vec<ColdAgent> {
        self.source_stores.take_cold()
    }

    fn feed_cold_at_start(&mut self) {
        self.source_stores.own_stores().for_each(SourceStore::feed_cold_at_start);
    }

    /// Ingests events of each partition that trades here.
    fn ingest(&mut self) -> Ingested {
        let mut ingested = Ingested::default();
        for own in self.source_stores.own_stores() {
            let count = own.take_events(INGEST_MAX);
            ingested.count += count;
            ingested.has_more |= count == INGEST_MAX;
        }
        ingested
    }

    /// Ingests events for queries that wait for them, in bounded steps: other readers are served
    /// meanwhile.
    fn catch_up(&mut self, now: Nanos) -> Ingested {
        let mut ingested = Ingested::default();
        for _ in 0..CATCH_UP_STEPS {
            if self.waiting.is_empty() {
                break;
            }
            let some = self.ingest();
            self.source_stores.feed_cold(now);
            ingested.count += some.count;
            ingested.has_more = some.has_more;
            self.ask_waiting(now);
            if !some.has_more {
                break;
            }
        }
        ingested
    }

    /// Carries out the queries that wait no longer.
    fn ask_waiting(&mut self, now: Nanos) {
        while let Some(query) = self.next_answerable(now) {
            self.carry_out(query, now);
        }
    }

    fn next_answerable(&mut self, now: Nanos) -> Option<Query> {
        let stores = &self.source_stores;
        let is_there = |place: EventPlace| {
            let mut own = stores.own_stores_ref();
            let store = own.find(|store| store.source() == place.source);
            // Nothing to wait for: a full store.
            let next = store.and_then(SourceStore::place_in_events);
            next.is_none_or(|(next, end)| next >= end || next >= place.record)
        };
        self.waiting.pop(is_there, now)
    }

    fn tell_markets(&mut self) {
        self.source_stores.own_stores().for_each(SourceStore::tell_markets);
    }

    fn tell_stores(&self) {
        for own in &self.figures.own {
            self.source_stores.store_of(own.source).iter().for_each(|store| own.tell_store(store));
        }
    }

    /// Sweeps one of the stores for one step.
    fn sweep(&mut self) -> bool {
        let turn = self.sweeper.next(self.source_stores.desks_ref().map(Desk::store));
        let desk = self.source_stores.desks().nth(turn);
        let was_sweeping = self.is_sweeping;
        self.is_sweeping =
            desk.is_some_and(|desk| Sweeper::step(desk.store_mut(), &self.figures.sweeps));
        if was_sweeping && !self.is_sweeping {
            self.source_stores.publish();
        }
        self.is_sweeping
    }

    /// Takes requests, up to one cycle's limit; returns their number. Ends are taken out of turn:
    /// they also end queries that wait.
    fn take_requests(&mut self, now: Nanos) -> usize {
        for taken in 0..ASK_MAX {
            match self.ports.next_request() {
                None => return taken,
                Some(DeliveryRequest::Fetch(fetch)) => {
                    let upto = self.events_before(fetch.fetch.source_id);
                    self.take_query(Query::Fetch(fetch), upto, now);
                }
                Some(DeliveryRequest::AddCredit(id, more)) => {
                    self.take_query(Query::AddCredit(id, more), Vec::new(), now);
                }
                Some(DeliveryRequest::Cancel(id, cancel)) => {
                    self.waiting.cancel(id, &cancel);
                    let stores = &mut self.source_stores;
                    stores.desks().for_each(|desk| desk.cancel(id.0, &cancel));
                    self.merged.iter_mut().for_each(|all| all.cancel(id.0, &cancel, stores));
                }
                Some(DeliveryRequest::SessionEnded(id, session_id)) => {
                    self.end_session(id, session_id);
                }
                Some(DeliveryRequest::Writable(id, true)) => {
                    self.paused.retain(|paused| *paused != id);
                    self.resume(id);
                }
                Some(DeliveryRequest::Writable(id, false)) => self.paused.push(id),
                Some(DeliveryRequest::Gone(id)) => {
                    self.waiting.drop_connection(id);
                    self.paused.retain(|paused| *paused != id);
                    let stores = &mut self.source_stores;
                    stores.desks().for_each(|desk| desk.drop_connection(id.0));
                    self.merged.iter_mut().for_each(|all| all.drop_connection(id.0, stores));
                }
            }
        }
        ASK_MAX
    }

    fn end_session(&mut self, id: ConnectionId, session_id: SessionId) {
        self.waiting.end_session(id, session_id);
        let stores = &mut self.source_stores;
        stores.desks().for_each(|desk| desk.end_session(id.0, session_id));
        self.merged.iter_mut().for_each(|all| all.end_session(id.0, session_id, stores));
    }

    /// Resumes the readers of a connection that can take pages again.
    fn resume(&mut self, id: ConnectionId) {
        self.source_stores.desks().for_each(|desk| desk.resume(id.0));
        self.merged.iter_mut().for_each(|all| all.resume(id.0));
    }

    /// Returns the places that the stores must come to before they answer a query of `source`; none
    /// where they are there.
    fn events_before(&self, source: PartitionId) -> Vec<EventPlace> {
        let own = self.source_stores.own_stores_ref();
        let own = own.filter(|store| source.is_none() || store.source() == source);
        let place = |store: &SourceStore| {
            let (next, end) = store.place_in_events()?;
            (next < end).then_some(EventPlace { source: store.source(), record: end })
        };
        own.filter_map(place).collect()
    }

    /// Carries a query out, or lets it wait for events or for its fetch, which waits.
    fn take_query(&mut self, query: Query, upto: Vec<EventPlace>, now: Nanos) {
        if upto.is_empty() && !self.waiting.has_any_of_the_fetch_of(&query) {
            self.carry_out(query, now);
        } else if let Some(early) = self.waiting.push(query, upto, now) {
            self.carry_out(early, now);
        }
    }

    fn carry_out(&mut self, query: Query, now: Nanos) {
        match query {
            Query::Fetch(fetch) => self.ask(&fetch, now),
            Query::AddCredit(id, more) => {
                self.source_stores.desks().for_each(|desk| desk.add_credit(id.0, &more, now));
                self.merged.iter_mut().for_each(|all| all.add_credit(id.0, &more, now));
            }
        }
    }

    fn ask(&mut self, fetch: &Fetch, now: Nanos) {
        let question = Question {
            connection: fetch.connection.0,
            fetch: &fetch.fetch,
            token: &fetch.token,
            min_token: &fetch.min_token,
            entitlement: fetch.entitlement,
        };
        let asked = match (fetch.fetch.source_id, &mut self.merged) {
            (PartitionId::NONE, Some(all)) => all.ask(&question, now),
            (source, _) => {
                let source = if source.is_none() { self.only_source() } else { source };
                let desk = self.source_stores.desk_of(source);
                desk.map_or_else(FetchOutcome::Refused, |desk| desk.ask(&question, now))
            }
        };
        if let FetchOutcome::Refused(reason) = asked {
            self.figures.counters.refused.fetch_add(1, Ordering::Relaxed);
            self.ports.refuse(fetch, reason);
        }
    }

    /// Returns the source of the queries that name none, where there is one partition.
    fn only_source(&self) -> PartitionId {
        self.figures.own.first().map_or(PartitionId::NONE, |own| own.source)
    }

    /// Serves readers; returns the number of pages.
    fn serve(&mut self, now: Nanos) -> usize {
        for connection in std::mem::take(&mut self.blocked) {
            if self.ports.has_room(connection) {
                self.resume(connection);
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
        let before = self.merged.as_ref().map_or((0, 0), MergedReaders::internal);
        let (mut served, mut parked) = (PollOutcome::default(), 0);
        for desk in self.source_stores.serving_desks() {
            served.add(match &mut self.merged {
                Some(all) => all.poll_desk(desk, now, &mut sink),
                None => desk.poll(now, &mut sink),
            });
            parked += desk.reader_count() as u64;
        }
        if let Some(all) = &mut self.merged {
            served.add(all.poll(&mut self.source_stores, now, &mut sink));
        }
        sink.send_current();
        self.has_more = served.has_more;
        // Pages from desks to the readers of all partitions are no pages of readers.
        let internal = self.merged.as_ref().map_or((0, 0), MergedReaders::internal);
        let page_count = u64::from(served.page_count).saturating_sub(internal.0 - before.0);
        let row_count = u64::from(served.row_count).saturating_sub(internal.1 - before.1);
        if page_count > 0 {
            self.ports.wake_all();
        }
        self.figures.counters.pages.fetch_add(page_count, Ordering::Relaxed);
        self.figures.counters.rows.fetch_add(row_count, Ordering::Relaxed);
        self.figures.counters.parked.store(parked, Ordering::Relaxed);
        served.page_count as usize
    }
}

impl Agent for DeliveryAgent {
    fn name(&self) -> &'static str {
        "delivery"
    }

    fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.wall = wall;
        self.source_stores.desks().for_each(|desk| desk.wall_clock_moved(wall));
        self.merged.iter_mut().for_each(|all| all.wall_clock_moved(wall));
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        let ingested = self.ingest();
        let has_older = self.source_stores.feed_cold(now);
        let fed = self.source_stores.work(now);
        let asked = self.take_requests(now);
        let caught_up = self.catch_up(now);
        let has_news = ingested.count + caught_up.count > 0;
        let answered = self.source_stores.take_older_pages();
        let mut served = self.serve(now) + answered;
        served += self.source_stores.ask_for_older();
        if has_news {
            self.news_at = now;
        }
        self.source_stores.own_stores_ref().for_each(SourceStore::tell_lag);
        let swept = self.sweep();
        let times = ListTimes { now, wall: self.wall.wall_at(now) };
        let merged = self.merged.as_ref();
        let readers = ListedReaders { source_stores: &mut self.source_stores, merged };
        let listed = self.lister.step(&self.figures.readers, readers, times);
        let is_followed = fed > 0 && self.source_stores.own_stores_ref().next().is_none();
        if has_news || swept || is_followed {
            self.tell_markets();
            self.tell_stores();
        }
        // Ingested events alone are no reason to poll again at once: further ones arrive meanwhile
        // and cost less together. A full cycle means that more are already there.
        let is_behind = ingested.has_more || caught_up.has_more;
        let more = [is_behind, has_older, swept, listed, self.has_more];
        more.map(usize::from).iter().sum::<usize>() + fed + asked + served
    }

    fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        let gap = self.source_stores.next_deadline().unwrap_or(Nanos(u64::MAX)).max(now);
        // Batches of outside cores wake this thread; only the partitions' events must be polled.
        let is_own = |desk: &&Desk| self.figures.own_of(desk.store().source()).is_some();
        let own = self.source_stores.desks_ref().filter(is_own);
        let interval = match own.map(Desk::reader_count).sum::<usize>() {
            // The gateway takes pages without a notice.
            _ if !self.blocked.is_empty() || self.ports.has_waiting() => self.look_interval.0,
            _ if !self.waiting.is_empty() => self.look_interval.0,
            0 if !self.source_stores.is_own_followed() => IDLE_INTERVAL,
            _ if now.since(self.news_at).0 > QUIET_AFTER => QUIET_FACTOR * self.look_interval.0,
            _ => self.look_interval.0,
        };
        let look = Nanos(now.0 + interval).min(gap);
        let due = self.source_stores.desks_ref().filter_map(Desk::next_deadline);
        let due = due.chain(self.merged.as_ref().and_then(MergedReaders::next_deadline)).min();
        Some(due.map_or(look, |deadline| deadline.max(now).min(look)))
    }

    fn stop(&mut self, now: Nanos) -> bool {
        self.do_work(now);
        self.source_stores.close();
        true
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use proptest::prelude::*;
    use weir_delivery::Entitlement;
    use weir_io::ThreadDisk;
    use weir_log::tail::{TailConfig, tail, tail_in};
    use weir_log::{EventAppend, EventLog, EventLogConfig};
    use weir_types::{
        AccountId, ClOrdId, Epochs, EventNo, ExecId, ExecInst, ExecType, FirmId, InstrumentId,
        Liquidity, MatchId, OrdStatus, OrdType, OrderId, Phase, PhaseCause, PhaseHold, Position,
        Price, Qty, Reason, Rec, RequestNo, SelfTradePrevention, Seq, SessionId, Side, Switch,
        TimeInForce,
    };
    use weir_wire::Event;
    use weir_wire::delivery::{AddCredit, CancelFetch, FetchOrders, OrderPage};
    use weir_wire::event::{OrderEvent, PhaseChanged};
    use weir_wire::frame::{Framing, next_frame};

    use super::*;
    use crate::stores::StoreReport;
    use crate::stores::own::EngineState;
    use crate::stores::own_figures::OwnStoreFigures;
    use crate::stores::snapshots::SnapshotWriter;
    use crate::token_keys::TokenKeyFile;
    use crate::waiting_queries::WAIT_MAX;
    use weir_door::reader_rings::{DeliveryPort, GatewayPort, gateway_to_delivery};
    use weir_partition::event_reader::EventReader;

    /// Returns the `number`-th order's acceptance.
    pub(crate) fn accepted(number: u64) -> OrderEvent {
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

    fn question() -> Box<Fetch> {
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
            credit_rows: 0,
            credit_bytes: 0,
        };
        let (connection, entitlement) = (ConnectionId(7), Entitlement::all());
        Box::new(Fetch { connection, fetch, token: Vec::new(), min_token: Vec::new(), entitlement })
    }

    pub(crate) fn settings(bytes_max: u64) -> StoreSettings {
        let indexes = crate::stores::Indexes::default();
        StoreSettings { source: PartitionId(1), ended_orders_max: 10, bytes_max, indexes }
    }

    #[test]
    fn a_full_store_of_the_nodes_own_orders_waits_and_serves_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let (mut tail, handle) = tail(TailConfig::new(32 << 20, 1));
        let (mut to_store, port) = gateway_to_delivery(Wake::new(), Wake::new());
        let events = EventReader::new(&handle, dir.path().join("events"), 1);
        let parts = parts(dir.path(), events, 6 << 20, port);
        let figures = parts.figures.own[0].clone();
        let mut agent = DeliveryAgent::new(parts).unwrap().0;
        let count = 20_000;
        append(&mut tail, 1..=count);
        assert!(to_store.fetch(question()));
        for cycle in 1..=300 {
            agent.do_work(Nanos(cycle * 1_000_000));
        }
        assert!(figures.counters.full_waits.load(Ordering::Relaxed) > 0, "it never was full");
        let store = *figures.store.lock().unwrap();
        assert!(store.live_orders < count && store.live_orders > 1_000, "{store:?}");
        assert!(store.memory_bytes <= 6 << 20, "{store:?}");
        let pages = to_store.next_pages().expect("readers are served");
        let Framing::Frame { message: Ok(raw), .. } = next_frame(&pages.bytes, 1 << 20) else {
            panic!("no frame");
        };
        let page: OrderPage = raw.decode().unwrap();
        assert!(page.row_count > 0);
    }

    /// Appends the acceptance of these orders, one event each.
    fn append(tail: &mut weir_log::TailWriter, numbers: std::ops::RangeInclusive<u64>) {
        let mut record = Vec::new();
        for number in numbers {
            record.clear();
            Event::Plain(weir_wire::PlainEvent::OrderEvent(accepted(number))).encode(&mut record);
            tail.append(&record);
        }
        tail.publish();
    }

    fn parts(
        dir: &Path,
        events: EventReader,
        bytes_max: u64,
        gateway: GatewayPort,
    ) -> DeliveryParts<'static> {
        let figures = DeliveryFigures::of([PartitionId(1)]);
        let source = OwnSource {
            log: Arc::default(),
            figures: figures.own[0].clone(),
            settings: settings(bytes_max),
            events,
            event_count: 0,
            log_id: 7,
            snapshot_every: u64::MAX,
            older_upto: None,
            engine: Box::new(|| Ok(EngineState::default())),
        };
        DeliveryParts {
            ports: ReaderPorts::new(gateway, None),
            own: vec![OwnParts { source, cold: None }],
            token_keys: TokenKeyFile::own(dir).keys().unwrap(),
            sources: Vec::new(),
            look_interval: Nanos(1),
            figures: Arc::new(figures),
            ingest: (None, Arc::default()),
            keep: KeepSettings::in_dir(dir),
            replica: None,
            cold_sources: None,
            wake: Wake::new(),
        }
    }

    #[test]
    fn a_question_is_answered_with_all_that_was_said_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let (mut tail, handle) = tail(TailConfig::new(8 << 20, 1));
        let (mut to_store, port) = gateway_to_delivery(Wake::new(), Wake::new());
        let events = EventReader::new(&handle, dir.path().join("events"), 1);
        let mut agent = DeliveryAgent::new(parts(dir.path(), events, u64::MAX, port)).unwrap().0;
        let count = 5 * INGEST_MAX as u64 + 3;
        append(&mut tail, 1..=count);
        assert!(to_store.fetch(question()));
        agent.do_work(Nanos(1_000_000));
        assert_eq!(rows_of(&mut to_store), Some(count), "an answer in the same cycle");
    }

    /// Returns the number of rows in the next page, if there is one.
    fn rows_of(to_store: &mut DeliveryPort) -> Option<u64> {
        let pages = to_store.next_pages()?;
        let Framing::Frame { message: Ok(raw), .. } = next_frame(&pages.bytes, 16 << 20) else {
            panic!("no frame");
        };
        let page: OrderPage = raw.decode().unwrap();
        Some(u64::from(page.row_count))
    }

    /// The events that a cycle ingests at most.
    const CYCLE_MAX: u64 = ((1 + CATCH_UP_STEPS) * INGEST_MAX) as u64;

    /// An agent with its tail and the gateway's end; its store is empty.
    struct Behind {
        tail: weir_log::TailWriter,
        to_store: DeliveryPort,
        agent: DeliveryAgent,
        figures: Arc<OwnStoreFigures>,
        appended: u64,
        _dir: tempfile::TempDir,
    }

    impl Behind {
        fn by(events: u64) -> Behind {
            let dir = tempfile::tempdir().unwrap();
            let (tail, handle) = tail(TailConfig::new(64 << 20, 1));
            let (to_store, port) = gateway_to_delivery(Wake::new(), Wake::new());
            let reader = EventReader::new(&handle, dir.path().join("events"), 1);
            let parts = parts(dir.path(), reader, u64::MAX, port);
            let figures = parts.figures.own[0].clone();
            let agent = DeliveryAgent::new(parts).unwrap().0;
            let mut behind = Behind { tail, to_store, agent, figures, appended: 0, _dir: dir };
            behind.append(events);
            behind
        }

        fn append(&mut self, events: u64) {
            append(&mut self.tail, self.appended + 1..=self.appended + events);
            self.appended += events;
        }

        fn ingested(&self) -> u64 {
            self.figures.counters.ingested.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn the_instruments_are_told_with_the_position_of_the_newest_event_of_any_kind() {
        let mut behind = Behind::by(10);
        let position = |behind: &Behind| behind.figures.counters.position.load(Ordering::Relaxed);
        behind.agent.do_work(Nanos(1_000_000));
        assert_eq!(position(&behind), 10);
        let changed = PhaseChanged {
            position: Position(11),
            transact_time: Nanos(11),
            instrument_id: InstrumentId(1),
            partition_id: PartitionId(1),
            phase: Phase::Halted,
            cause: PhaseCause::Operator,
            session_id: SessionId(1),
            hold: PhaseHold::Held,
        };
        let mut record = Vec::new();
        Event::Plain(weir_wire::PlainEvent::PhaseChanged(changed)).encode(&mut record);
        behind.tail.append(&record);
        behind.tail.publish();
        assert_eq!(position(&behind), 10);
        behind.agent.do_work(Nanos(2_000_000));
        let markets = behind.figures.markets.lock().unwrap();
        assert_eq!(markets[&InstrumentId(1)].phase, Some(Phase::Halted));
        assert_eq!(position(&behind), 11);
    }

    #[test]
    fn a_question_to_a_store_that_is_behind_holds_up_nobody() {
        let mut behind = Behind::by(20 * CYCLE_MAX);
        assert!(behind.to_store.fetch(question()));
        let asked_at = behind.appended;
        for cycle in 1..=25 {
            let before = behind.ingested();
            // More than a cycle ingests.
            behind.append(CYCLE_MAX + 1);
            behind.agent.do_work(Nanos(cycle * 1_000_000));
            assert!(behind.ingested() - before <= CYCLE_MAX, "cycle {cycle} has no end");
            let lag = behind.figures.counters.events_behind.load(Ordering::Relaxed);
            assert_eq!(lag, behind.appended - behind.ingested());
            if rows_of(&mut behind.to_store).is_some() {
                assert!(behind.ingested() >= asked_at, "answered without earlier events");
                return;
            }
        }
        panic!("no answer: events that come later hold it up");
    }

    #[test]
    fn a_question_waits_for_events_that_do_not_come_only_so_long() {
        let mut behind = Behind::by(10);
        behind.agent.do_work(Nanos(1));
        behind.append(1_000 * CYCLE_MAX);
        assert!(behind.to_store.fetch(question()));
        behind.agent.do_work(Nanos(2));
        behind.agent.do_work(Nanos(WAIT_MAX + 1));
        assert_eq!(rows_of(&mut behind.to_store), None);
        behind.agent.do_work(Nanos(WAIT_MAX + 2));
        assert!(rows_of(&mut behind.to_store).is_some());
    }

    #[test]
    fn questions_beyond_the_places_are_answered_at_once_and_hold_up_no_end() {
        let mut behind = Behind::by(1_000 * CYCLE_MAX);
        for correlation_id in 1..=20 {
            let mut fetch = question();
            fetch.fetch.correlation_id = correlation_id;
            assert!(behind.to_store.fetch(fetch));
        }
        let of = |connection| Box::new(Fetch { connection, ..*question() });
        assert!(behind.to_store.fetch(of(ConnectionId(9))));
        behind.to_store.connection_is_gone(ConnectionId(9));
        behind.agent.do_work(Nanos(1));
        assert!(rows_of(&mut behind.to_store).is_some(), "its own first ones wait no longer");
        let count = |id| behind.agent.waiting.count_of(ConnectionId(id));
        assert_eq!((count(7), count(9)), (16, 0), "an end was taken");
    }

    #[test]
    fn a_question_that_waits_ends_with_its_connection_session_or_by_its_cancel() {
        let (connection, session_id) = (ConnectionId(7), SessionId(1));
        let ends: [fn(&mut DeliveryPort); 3] = [
            |port| port.connection_is_gone(ConnectionId(7)),
            |port| port.end_session(ConnectionId(7), SessionId(1)),
            |port| {
                let cancel = CancelFetch { correlation_id: 1, session_id: SessionId(1) };
                assert!(port.cancel(ConnectionId(7), cancel));
            },
        ];
        for end in ends {
            let mut behind = Behind::by(20 * CYCLE_MAX);
            assert!(behind.to_store.fetch(question()));
            let more = AddCredit { correlation_id: 1, session_id, pages: 1, rows: 0, bytes: 0 };
            assert!(behind.to_store.add_credit(connection, more));
            behind.agent.do_work(Nanos(1));
            assert!(!behind.agent.waiting.is_empty());
            end(&mut behind.to_store);
            behind.agent.do_work(Nanos(2));
            assert!(behind.agent.waiting.is_empty());
            let before = behind.ingested();
            behind.agent.do_work(Nanos(3));
            assert_eq!(behind.ingested() - before, INGEST_MAX as u64, "nobody waits");
        }
    }

    /// Returns the epochs of a log: the current one, and the ended ones with their last positions.
    pub(crate) fn epochs(current: u32, ended: &[(u32, u64)]) -> Epochs<Position> {
        let ended = ended.iter().map(|(epoch, last)| (Epoch(*epoch), Position(*last)));
        Epochs::with_ended(Epoch(current), ended)
    }

    /// Writes an event log of `count` acceptances into `dir`; returns a reader of it with the
    /// writer of its tail, which is empty.
    pub(crate) fn log_of(
        dir: &Path,
        count: u64,
        epochs: Epochs<Position>,
    ) -> (weir_log::TailWriter, EventReader) {
        let events = dir.join("events");
        let _ = std::fs::remove_dir_all(&events);
        let disk = ThreadDisk::open(&events, None).unwrap();
        let config =
            EventLogConfig { segment_bytes: 64 << 10, ..EventLogConfig::new(PartitionId(1), 7) };
        let (mut log, _) = EventLog::open(config, Position(1), disk).unwrap();
        for number in 1..=count {
            let mut record = Vec::new();
            Event::Plain(weir_wire::PlainEvent::OrderEvent(accepted(number))).encode(&mut record);
            assert_eq!(log.append(Position(number), &record), EventAppend::Taken);
        }
        log.close().unwrap();
        let (writer, handle) = tail_in(TailConfig::new(1 << 20, count + 1), epochs);
        (writer, EventReader::new(&handle, events, 1))
    }

    /// Recovers a store of `count` events whose epochs ended as given; returns its figures and
    /// notes.
    fn brought_back(
        dir: &Path,
        count: u64,
        epochs: Epochs<Position>,
    ) -> (StoreReport, Vec<String>, Option<SnapshotWriter>, DeliveryAgent) {
        let (_to_store, port) = gateway_to_delivery(Wake::new(), Wake::new());
        let (_writer, events) = log_of(dir, count, epochs);
        let mut parts = parts(dir, events, u64::MAX, port);
        let own = &mut parts.own[0].source;
        (own.event_count, own.snapshot_every) = (count, 4_096);
        own.log.counters.synced.store(u64::MAX, Ordering::Relaxed);
        let figures = parts.figures.own[0].clone();
        let (agent, kept) = DeliveryAgent::new(parts).unwrap();
        let store = *figures.store.lock().unwrap();
        (store, kept.notes, kept.writer, agent)
    }

    #[test]
    fn a_snapshot_of_what_was_lost_since_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let (_, notes, writer, mut agent) = brought_back(dir.path(), 1_000, epochs(2, &[(1, 500)]));
        assert!(notes.is_empty(), "{notes:?}");
        let mut writer = writer.expect("a store that survives");
        let store = dir.path().join("partition-1/store");
        let is_there = || {
            let mut names = std::fs::read_dir(&store).unwrap().map(|e| e.unwrap().file_name());
            names.any(|name| name.to_string_lossy().ends_with(".wsnap"))
        };
        for cycle in 1..1_000 {
            agent.do_work(Nanos(cycle * 1_000_000));
            writer.do_work(Nanos(cycle * 1_000_000));
        }
        assert!(is_there(), "a snapshot is taken of what came in at the start");
        let comes_from = |notes: &[String]| notes.iter().any(|note| note.contains("comes from"));
        let all = |epoch, ended: &[_]| brought_back(dir.path(), 1_010, epochs(epoch, ended));
        // The snapshot's epoch continues, or ended after it.
        for (epoch, ended) in [(2, &[(1, 500)][..]), (3, &[(1, 500), (2, 1_000)])] {
            let (store, notes, ..) = all(epoch, ended);
            assert!(comes_from(&notes), "{notes:?}");
            assert_eq!(store.live_orders, 1_010);
        }
        // The epoch ended before the snapshot: other events have these numbers now.
        for (epoch, ended) in [(3, &[(1, 500), (2, 999)][..]), (4, &[(2, 1_005), (3, 999)])] {
            let (_, notes, ..) = all(epoch, ended);
            assert!(notes.iter().any(|note| note.contains("epoch 2 ended at 999")), "{notes:?}");
            assert!(!comes_from(&notes));
        }
        // An epoch that the log never had.
        let (_, notes, ..) = all(5, &[(4, 1_010)]);
        assert!(notes.iter().any(|note| note.contains("its epoch 2 is not")), "{notes:?}");
        // The log ends before the snapshot, which is removed so that it cannot match another
        // history later.
        let (_, notes, ..) = brought_back(dir.path(), 999, epochs(2, &[(1, 500)]));
        assert!(notes.is_empty() && !is_there(), "{notes:?}");
    }

    #[test]
    fn a_snapshot_ahead_of_the_synced_log_is_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (_to_store, port) = gateway_to_delivery(Wake::new(), Wake::new());
        let (_writer, events) = log_of(dir.path(), 1_000, epochs(1, &[]));
        let mut parts = parts(dir.path(), events, u64::MAX, port);
        let own = &mut parts.own[0].source;
        (own.event_count, own.snapshot_every) = (1_000, 4_096);
        let log = own.log.clone();
        log.counters.synced.store(999, Ordering::Relaxed);
        let (mut agent, kept) = DeliveryAgent::new(parts).unwrap();
        let mut writer = kept.writer.expect("a store that survives");
        let mut snapshots = |cycles: std::ops::Range<u64>| {
            for cycle in cycles {
                agent.do_work(Nanos(cycle * 1_000_000));
                writer.do_work(Nanos(cycle * 1_000_000));
            }
            let names = std::fs::read_dir(dir.path().join("partition-1/store")).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name());
            names.filter(|name| name.to_string_lossy().ends_with(".wsnap")).count()
        };
        assert_eq!(snapshots(1..1_000), 0, "a power loss could take its last event back");
        log.counters.synced.store(1_000, Ordering::Relaxed);
        assert_eq!(snapshots(1_000..1_100), 1);
    }

    /// Returns true when the store honours a token of `epoch` at the change `number`.
    fn honours(agent: &DeliveryAgent, epoch: Epoch, number: u64) -> bool {
        let change_id = weir_types::ChangeId::new(Seq(number), Rec(number));
        let store = agent.source_stores.store_of(PartitionId(1)).expect("it trades");
        store.check(epoch, change_id, &weir_delivery::Filter::ALL).is_ok()
    }

    #[test]
    fn an_epoch_that_ends_under_a_store_ends_the_tokens_of_what_comes_after() {
        let dir = tempfile::tempdir().unwrap();
        let (mut tail, handle) = tail(TailConfig::new(32 << 20, 1));
        let (_to_store, port) = gateway_to_delivery(Wake::new(), Wake::new());
        let events = EventReader::new(&handle, dir.path().join("events"), 1);
        let mut agent = DeliveryAgent::new(parts(dir.path(), events, u64::MAX, port)).unwrap().0;
        append(&mut tail, 1..=10);
        agent.do_work(Nanos(1));
        tail.end_epoch(Position(10), Epoch(3), 11);
        append(&mut tail, 11..=20);
        agent.do_work(Nanos(2));
        for (epoch, number, honoured) in [(1, 10, true), (1, 11, false), (3, 20, true)] {
            assert_eq!(honours(&agent, Epoch(epoch), number), honoured, "{epoch}, {number}");
        }
        assert!(!honours(&agent, Epoch(2), 1), "an epoch that was skipped");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn a_token_of_an_ended_epoch_counts_up_to_the_least_end_since(
            ends in proptest::collection::vec((1..3_u32, 0..=20_u64), 0..5),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let (mut epoch, mut ended) = (1, Vec::new());
            for (skipped, last_valid) in ends {
                ended.push((epoch, last_valid));
                epoch += skipped;
            }
            let (.., agent) = brought_back(dir.path(), 20, epochs(epoch, &ended));
            for (asked, number) in (1..=epoch).flat_map(|e| (1..=20).map(move |n| (e, n))) {
                let mut since = ended.iter().filter(|(ended, _)| *ended >= asked);
                let is_known = asked == epoch || ended.iter().any(|(ended, _)| *ended == asked);
                let survives = is_known && since.all(|(_, end)| number <= *end);
                let honoured = honours(&agent, Epoch(asked), number);
                prop_assert_eq!(honoured, survives, "epoch {}, change {}", asked, number);
            }
        }
    }
}
