//! Readers of all partitions against a model that has every order's last state.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use weir_delivery::Entitlement;
use weir_door::reader_ports::ReaderPorts;
use weir_door::reader_rings::{DeliveryPort, Fetch, gateway_to_delivery};
use weir_log::TailWriter;
use weir_log::tail::{TailConfig, tail};
use weir_partition::event_reader::EventReader;
use weir_runtime::{Agent as _, Wake};
use weir_types::{
    AccountId, EventNo, FirmId, InstrumentId, OrdStatus, OrderId, Position, Qty, Reason, Rec, Seq,
    Switch,
};
use weir_wire::delivery::FetchOrders;
use weir_wire::event::OrderEvent;
use weir_wire::frame::{Framing, next_frame};
use weir_wire::session::Reject;
use weir_wire::{Event, Message as _, NodeMessage, PlainEvent};

use super::*;
use crate::agent::tests::{accepted, settings};
use crate::agent::{DeliveryAgent, DeliveryParts, OwnParts};
use crate::figures::DeliveryFigures;
use crate::reader_list::ListedReader;
use crate::stores::StoreSettings;
use crate::stores::kept::KeepSettings;
use crate::stores::own::{EngineState, OwnSource};
use crate::token_keys::TokenKeyFile;

const SOURCES: [PartitionId; 2] = [PartitionId(1), PartitionId(7)];
const CONNECTION: ConnectionId = ConnectionId(7);
const MILLISECOND: u64 = 1_000_000;

/// The node's side, and the last state of every order.
struct World {
    writers: Vec<TailWriter>,
    to_store: DeliveryPort,
    agent: DeliveryAgent,
    figures: Arc<DeliveryFigures>,
    /// The events of each partition so far.
    event_counts: [u64; 2],
    model: BTreeMap<OrderId, OrdStatus>,
    now: u64,
    _dir: tempfile::TempDir,
}

fn own(
    dir: &Path,
    source: PartitionId,
    figures: &DeliveryFigures,
) -> (TailWriter, OwnSource<'static>) {
    let (writer, handle) = tail(TailConfig::new(8 << 20, 1));
    let events = EventReader::new(&handle, dir.join(format!("events-{source}")), 1);
    let source = OwnSource {
        log: Arc::default(),
        figures: figures.own_of(source).expect("they are its own").clone(),
        settings: StoreSettings { source, ..settings(u64::MAX) },
        events,
        event_count: 0,
        log_id: 7 + u128::from(source.0),
        snapshot_every: u64::MAX,
        older_upto: None,
        engine: Box::new(|| Ok(EngineState::default())),
    };
    (writer, source)
}

impl World {
    fn new(sources: &[PartitionId]) -> World {
        let dir = tempfile::tempdir().unwrap();
        let (to_store, port) = gateway_to_delivery(Wake::new(), Wake::new());
        let figures = Arc::new(DeliveryFigures::of(sources.iter().copied()));
        let all = sources.iter().map(|source| own(dir.path(), *source, &figures));
        let (writers, sources): (Vec<_>, Vec<_>) = all.unzip();
        let own = sources.into_iter().map(|source| OwnParts { source, cold: None });
        let parts = DeliveryParts {
            ports: ReaderPorts::new(port, None),
            own: own.collect(),
            token_keys: TokenKeyFile::own(dir.path()).keys().unwrap(),
            sources: Vec::new(),
            look_interval: Nanos(1),
            figures: figures.clone(),
            ingest: (None, Arc::default()),
            keep: KeepSettings::in_dir(dir.path()),
            replica: None,
            cold_sources: None,
            wake: Wake::new(),
        };
        let agent = DeliveryAgent::new(parts).unwrap().0;
        let (event_counts, model) = ([0; 2], BTreeMap::new());
        World { writers, to_store, agent, figures, event_counts, model, now: 1, _dir: dir }
    }

    fn cycle(&mut self) {
        self.now += MILLISECOND;
        self.agent.do_work(Nanos(self.now));
    }

    /// Appends a partition's next event: an order's acceptance, or the end of an earlier one.
    fn append(&mut self, at: usize, ended: Option<u64>) {
        let source = SOURCES[at];
        self.event_counts[at] += 1;
        let number = self.event_counts[at];
        let id = |rec| OrderId::new(source, Rec(rec));
        let mut event = OrderEvent {
            partition_id: source,
            order_id: id(number),
            transact_time: Nanos(self.now),
            ..accepted(number)
        };
        let is_live = |rec: &u64| self.model.get(&id(*rec)) == Some(&OrdStatus::New);
        if let Some(rec) = ended.filter(is_live) {
            let (position, seq) = (Position(number), Seq(number));
            let of = accepted(rec);
            event = OrderEvent {
                position,
                seq,
                event_no: EventNo(number),
                partition_id: source,
                order_id: id(rec),
                transact_time: Nanos(self.now),
                ord_status: OrdStatus::Canceled,
                leaves_qty: Qty::ZERO,
                ..of
            };
        }
        self.model.insert(event.order_id, event.ord_status);
        let mut record = Vec::new();
        Event::Plain(PlainEvent::OrderEvent(event)).encode(&mut record);
        self.writers[at].append(&record);
        self.writers[at].publish();
    }

    fn fetch(&mut self, source_id: PartitionId, rows_min: u32, token: &[u8]) {
        self.send(fetch(source_id, rows_min), token);
    }

    fn send(&mut self, fetch: FetchOrders, token: &[u8]) {
        let (token, entitlement) = (token.to_vec(), Entitlement::all());
        let fetch =
            Fetch { connection: CONNECTION, fetch, token, min_token: Vec::new(), entitlement };
        assert!(self.to_store.fetch(Box::new(fetch)));
    }

    /// Runs cycles until an answer comes.
    fn answer(&mut self) -> Answer {
        for _ in 0..3_000 {
            self.cycle();
            if let Some(pages) = self.to_store.next_pages() {
                return Answer::of(&pages.bytes);
            }
        }
        panic!("no answer");
    }
}

fn fetch(source_id: PartitionId, rows_min: u32) -> FetchOrders {
    FetchOrders {
        correlation_id: 1,
        session_id: SessionId(1),
        firm_id: FirmId::NONE,
        account_id: AccountId::NONE,
        instrument_id: InstrumentId::NONE,
        rows_max: 0,
        rows_min,
        bytes_max: 0,
        wait_max_us: 0,
        credit: 1,
        live_only: Switch::Off,
        source_id,
        min_wait_us: 0,
        credit_rows: 0,
        credit_bytes: 0,
    }
}

/// An answer to a fetch.
struct Answer {
    reason: Reason,
    token: Vec<u8>,
    rows: Vec<(OrderId, OrdStatus)>,
}

impl Answer {
    fn of(mut bytes: &[u8]) -> Answer {
        let mut answer = Answer { reason: Reason::None, token: Vec::new(), rows: Vec::new() };
        while let Framing::Frame { len, message } = next_frame(bytes, 16 << 20) {
            let raw = message.unwrap();
            if raw.template_id == Reject::TEMPLATE_ID {
                answer.reason = raw.decode::<Reject>().unwrap().reason;
            } else {
                match NodeMessage::decode(&raw).unwrap() {
                    NodeMessage::OrderPage(header, token) => {
                        (answer.reason, answer.token) = (header.reason, token.to_vec());
                    }
                    NodeMessage::OrderPageBody(_, rows) => {
                        let rows = rows.map(|row| row.unwrap().0);
                        answer.rows.extend(rows.map(|row| (row.order_id, row.ord_status)));
                    }
                    NodeMessage::SourceStates(..) => {}
                    other => panic!("{other:?}"),
                }
            }
            bytes = &bytes[len..];
        }
        answer
    }
}

/// The next thing that happens.
#[derive(Clone, Debug)]
enum Turn {
    /// An event of a partition: an acceptance, or the end of an order.
    Event(usize, Option<u64>),
    /// The reader asks for what is there.
    Read,
    /// The reader waits for a row, which comes while it waits.
    Wait(usize),
}

fn turn() -> impl Strategy<Value = Turn> {
    let ended = prop::option::of(1..20_u64);
    prop_oneof![
        4 => (0..2_usize, ended).prop_map(|(at, ended)| Turn::Event(at, ended)),
        2 => Just(Turn::Read),
        1 => (0..2_usize).prop_map(Turn::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_reader_of_all_partitions_has_the_last_state_of_every_order(
        turns in prop::collection::vec(turn(), 1..60),
    ) {
        let mut world = World::new(&SOURCES);
        let (mut read, mut token) = (BTreeMap::new(), Vec::new());
        for turn in turns.into_iter().chain([Turn::Read]) {
            match turn {
                Turn::Event(at, ended) => {
                    world.append(at, ended);
                    continue;
                }
                Turn::Read => world.fetch(PartitionId::NONE, 0, &token),
                Turn::Wait(at) => {
                    world.fetch(PartitionId::NONE, 1, &token);
                    world.cycle();
                    world.append(at, None);
                }
            }
            let answer = world.answer();
            prop_assert_eq!(answer.reason, Reason::None);
            token = answer.token;
            read.extend(answer.rows);
        }
        prop_assert_eq!(&read, &world.model);
        let rows = world.figures.counters.rows.load(std::sync::atomic::Ordering::Relaxed);
        prop_assert!(rows >= read.len() as u64);
    }
}

#[test]
fn a_partition_is_read_by_itself_as_before() {
    let mut world = World::new(&SOURCES);
    [0, 0, 1].into_iter().for_each(|at| world.append(at, None));
    world.fetch(SOURCES[0], 0, &[]);
    assert_eq!(world.answer().rows.len(), 2);
    world.fetch(PartitionId(9), 0, &[]);
    assert_eq!(world.answer().reason, Reason::UnknownSource);
}

#[test]
fn a_token_of_one_partition_goes_on_in_it_and_begins_in_the_others() {
    let mut world = World::new(&SOURCES);
    [0, 0, 1].into_iter().for_each(|at| world.append(at, None));
    world.fetch(SOURCES[0], 0, &[]);
    let token = world.answer().token;
    world.append(0, None);
    world.fetch(PartitionId::NONE, 0, &token);
    let answer = world.answer();
    let ids: Vec<_> = answer.rows.iter().map(|(id, _)| *id).collect();
    let new = [OrderId::new(SOURCES[1], Rec(1)), OrderId::new(SOURCES[0], Rec(3))];
    assert_eq!(ids.len(), 2, "{ids:?}");
    assert!(new.iter().all(|id| ids.contains(id)), "{ids:?}");
}

#[test]
fn an_end_reaches_the_desks_at_which_the_reader_waits() {
    let ends: [fn(&mut DeliveryPort); 3] = [
        |port| port.connection_is_gone(CONNECTION),
        |port| port.end_session(CONNECTION, SessionId(1)),
        |port| {
            let cancel = CancelFetch { correlation_id: 1, session_id: SessionId(1) };
            assert!(port.cancel(CONNECTION, cancel));
        },
    ];
    for (index, end) in ends.into_iter().enumerate() {
        let mut world = World::new(&SOURCES);
        world.fetch(PartitionId::NONE, 0, &[]);
        let token = world.answer().token;
        world.fetch(PartitionId::NONE, 1, &token);
        (0..3).for_each(|_| world.cycle());
        let parked = || world.figures.counters.parked.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(parked(), 2, "it waits at each desk");
        end(&mut world.to_store);
        (0..3).for_each(|_| world.cycle());
        let parked = world.figures.counters.parked.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(parked, 0, "end {index}");
    }
}

#[test]
fn a_page_is_as_new_as_the_events_told_before_its_query() {
    let mut world = World::new(&SOURCES);
    world.append(1, None);
    world.fetch(PartitionId::NONE, 1, &[]);
    let token = world.answer().token;
    // Nobody waits: what comes now must not be kept for the next query.
    world.append(0, None);
    world.cycle();
    world.append(0, Some(1));
    world.cycle();
    world.fetch(PartitionId::NONE, 1, &token);
    let ended = (OrderId::new(SOURCES[0], Rec(1)), OrdStatus::Canceled);
    assert_eq!(world.answer().rows, [ended]);
}

#[test]
fn a_reader_of_all_partitions_is_listed_where_it_waits_under_its_own_numbers() {
    let mut world = World::new(&SOURCES);
    world.append(1, None);
    world.fetch(PartitionId::NONE, 1, &[]);
    let token = world.answer().token;
    world.fetch(PartitionId::NONE, 1, &token);
    world.cycle();
    let number = world.figures.readers.ask();
    (0..8).for_each(|_| world.cycle());
    let made = world.figures.readers.made(number).expect("it is made");
    assert_eq!((made.waiting, made.readers.len()), (2, 2));
    let sources: BTreeSet<_> = made.readers.iter().map(|reader| reader.source).collect();
    assert_eq!(sources, BTreeSet::from([1, 7]));
    let is_its = |reader: &ListedReader| (reader.connection, reader.question) == (CONNECTION.0, 1);
    assert!(made.readers.iter().all(is_its), "{made:?}");
}

#[test]
fn a_reader_of_all_partitions_that_waits_for_credit_is_listed_once() {
    let mut world = World::new(&SOURCES);
    (0..3).for_each(|_| world.append(1, None));
    let one_row = FetchOrders { credit: 9, credit_rows: 1, ..fetch(PartitionId::NONE, 1) };
    world.send(one_row, &[]);
    let _first = world.answer();
    let number = world.figures.readers.ask();
    (0..8).for_each(|_| world.cycle());
    let made = world.figures.readers.made(number).expect("it is made");
    assert_eq!((made.waiting, made.readers.len()), (1, 1), "{made:?}");
    assert_eq!((made.readers[0].source, made.readers[0].waits_for), (0, "reader"));
}
