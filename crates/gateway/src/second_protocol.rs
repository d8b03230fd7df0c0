//! The session core under a second protocol: lines drive the gateway, the newcomers' thread and an
//! engine through whole sessions, and no byte of SBE passes between client and node.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_door::Door;
use weir_door::reader_rings::{GatewayPort, gateway_to_delivery};
use weir_engine::{Engine, EngineConfig};
use weir_io::SeededRng;
use weir_io::net::sim::{NetFaults, SimNet};
use weir_io::net::{Listener, Net, Stream};
use weir_log::tail::{TailConfig, TailHandle, TailWriter, tail};
use weir_partition::control_import::{ControlImporter, ImportProgress, ImportingPartition};
use weir_partition::event_reader::EventReader;
use weir_partition::handoff::{
    Feedback, SourcePort, Submission, gateway_to_partition, gateway_to_partition_with,
};
use weir_partition::stage_clock::StageClock;
use weir_probe::Recorder;
use weir_runtime::{Agent, Poller, Wake};
use weir_types::{
    ClOrdId, Credential, CredentialKind, Epoch, FirmId, GroupId, InstrumentId, Nanos, PartitionId,
    Phase, Position, Price, Qty, Reason, RequestNo, Role, SessionId, Switch, Symbol, WallOffset,
};
use weir_wire::event::Defined;
use weir_wire::reference::{DefineAccount, DefineFirm, DefineInstrument, DefineSession};
use weir_wire::session::NodeId;
use weir_wire::{Command, Definition, Event};

use crate::linked::{LinkAgentPort, LinkPort, gateway_to_link};
use crate::newcomers::{Newcomers, NewcomersParts, link};
use crate::protocol::TEXT_ACCOUNT;
use crate::{Assignment, Gateway, GatewayConfig, GatewayParts, GatewayStatus, PortParts, Protocol};

const CONTROL: PartitionId = PartitionId(0);
const HERE: PartitionId = PartitionId(1);
const FIRM: FirmId = FirmId(1);
/// The sessions of all tests; their key is this byte 32 times.
const SESSION: SessionId = SessionId(3);
pub(crate) const OTHER_SESSION: SessionId = SessionId(4);
const SUPERVISOR: SessionId = SessionId(9);
const KEY_BYTE: u8 = 7;
const STEP: u64 = 1_000_000;
/// Steps in which every answer to a line has arrived.
const STEPS_OF_A_LINE: u32 = 20;

/// A partition's events, and an engine that makes them without a log.
struct Partition {
    engine: Engine,
    position: Position,
    source: SourcePort,
    /// The control importer's ring, where a test has one.
    imports: Option<SourcePort>,
    tail: TailWriter,
}

impl Partition {
    fn apply(&mut self, command: &Command, now: Nanos) {
        self.position = self.position.next();
        let tail = &mut self.tail;
        let mut append = |event: &Event| {
            let mut record = Vec::new();
            event.encode(&mut record);
            tail.append(&record);
        };
        self.engine.apply(self.position, now, command, &mut append);
        self.tail.publish();
    }

    fn take_submissions(&mut self, now: Nanos) {
        let imports = self.imports.as_mut().map(|imports| &mut imports.submissions);
        let mut taken = Vec::new();
        for ring in imports.into_iter().chain([&mut self.source.submissions]) {
            taken.extend(std::iter::from_fn(|| ring.pop().ok()));
        }
        taken.iter().for_each(|submission| self.apply(&submission.command, now));
    }
}

/// A node with one trading partition, whose clients speak in lines.
pub(crate) struct Node {
    net: SimNet,
    gateway: Gateway,
    newcomers: Newcomers,
    partition: Partition,
    /// The store's end of the rings for order state.
    pub(crate) store: GatewayPort,
    control: TailWriter,
    control_handle: TailHandle,
    /// The importer of later definitions, where a test has one; the test runs its cycles.
    importer: Option<ControlImporter>,
    /// The control partition's end of its ring: no client sends it requests.
    _control_source: SourcePort,
    /// True while the partition takes no submissions, as with a disk that stalls.
    pub(crate) is_stalled: bool,
    pub(crate) now: Nanos,
    connection_count: u16,
    status: Arc<Mutex<GatewayStatus>>,
}

fn address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 7001))
}

fn new_tail() -> (TailWriter, TailHandle) {
    tail(TailConfig { segment_words: 8 << 10, segments: 4, first_record: 1 })
}

fn definitions() -> Vec<Definition> {
    let operator = SessionId(1);
    let (request_no, name) = (RequestNo::NONE, Symbol(ClOrdId::from_number(1).0));
    vec![
        Definition::DefineFirm(DefineFirm {
            request_no,
            name,
            session_id: operator,
            firm_id: FIRM,
            live_orders_max: 0,
            fields: 0,
        }),
        Definition::DefineAccount(DefineAccount {
            request_no,
            session_id: operator,
            account_id: TEXT_ACCOUNT,
            firm_id: FIRM,
            unlimited: Switch::On,
            live_orders_max: 0,
            fields: 0,
        }),
        Definition::DefineInstrument(instrument_of(InstrumentId(1), name)),
        Definition::DefineSession(definition_of(SESSION, KEY_BYTE)),
        Definition::DefineSession(definition_of(OTHER_SESSION, KEY_BYTE)),
        Definition::DefineSession(DefineSession {
            firm_id: FirmId::NONE,
            role: Role::Supervisor,
            ..definition_of(SUPERVISOR, KEY_BYTE)
        }),
    ]
}

/// Returns the definition of a session with this byte 32 times as its key.
pub(crate) fn definition_of(defined_session_id: SessionId, key_byte: u8) -> DefineSession {
    DefineSession {
        request_no: RequestNo::NONE,
        valid_until: Nanos(0),
        credential: Credential(*blake3::hash(&[key_byte; 32]).as_bytes()),
        session_id: SessionId(1),
        defined_session_id,
        firm_id: FIRM,
        order_rate_max: 0,
        in_flight_max: 0,
        role: Role::Trader,
        credential_kind: CredentialKind::ApiKey,
        live_orders_max: 0,
        fields: 0,
    }
}

/// Returns the definition of an instrument of the trading partition.
pub(crate) fn instrument_of(instrument_id: InstrumentId, symbol: Symbol) -> DefineInstrument {
    DefineInstrument {
        request_no: RequestNo::NONE,
        symbol,
        tick_size: Price(1),
        lot_size: Qty(10),
        order_qty_max: Qty(100_000),
        price_min: Price(1),
        price_max: Price(10_000),
        reference_price: Price(0),
        volatility_call: Nanos(0),
        static_collar: 0,
        dynamic_collar: 0,
        session_id: SessionId(1),
        instrument_id,
        partition_id: HERE,
        price_exponent: -2,
        qty_exponent: 0,
        phase: Phase::Continuous,
        fields: 0,
        group_id: GroupId::NONE,
    }
}

fn control_record(position: Position, definition: Definition, now: Nanos) -> Vec<u8> {
    let defined =
        Defined { position, transact_time: now, control_position: position, partition_id: CONTROL };
    let mut record = Vec::new();
    Event::Defined(defined, definition).encode(&mut record);
    record
}

/// Returns the control log's events, and a partition that has imported them.
fn defined(now: Nanos, source: SourcePort) -> (TailWriter, TailHandle, Partition, TailHandle) {
    let (mut control, control_handle) = new_tail();
    let (tail, handle) = new_tail();
    let config = EngineConfig {
        orders_max: 64,
        accounts_max: 64,
        sessions_max: 64,
        firms_max: 64,
        instruments_max: 64,
        positions_max: 64,
        trades_max: 64,
        ..EngineConfig::new(HERE)
    };
    let engine = Engine::new(config);
    let mut partition = Partition { engine, position: Position(0), source, imports: None, tail };
    for (position, definition) in (1..).map(Position).zip(definitions()) {
        control.append(&control_record(position, definition, now));
        partition.apply(&Command::Import(position, definition), now);
    }
    control.publish();
    (control, control_handle, partition, handle)
}

impl Node {
    pub(crate) fn new() -> Node {
        Node::with_links([None, None])
    }

    /// Returns a node whose partitions are behind links, and the ends of those. Its requests and
    /// events pass as if they were not.
    pub(crate) fn linked() -> (Node, [LinkAgentPort; 2]) {
        let [control, partition] = [(), ()].map(|()| gateway_to_link(Wake::new()));
        (Node::with_links([Some(control.0), Some(partition.0)]), [control.1, partition.1])
    }

    fn with_links([control_link, link_of_partition]: [Option<LinkPort>; 2]) -> Node {
        let (net, now, wake) = (SimNet::new(1), Nanos(1_000_000_000), Wake::new());
        let (control_ring, control_source) = gateway_to_partition(CONTROL, Wake::new());
        let (ring, source) = gateway_to_partition(HERE, Wake::new());
        let (control, control_handle, partition, handle) = defined(now, source);
        let (delivery, delivery_end) = gateway_to_delivery(wake.clone(), Wake::new());
        let status = Arc::new(Mutex::new(GatewayStatus::default()));
        let draining = Arc::new(AtomicBool::new(false));
        let port = |ring, handle: &TailHandle, link| PortParts {
            ring,
            events: EventReader::new(handle, PathBuf::new(), 1),
            link,
        };
        let mut gateway = Gateway::new(GatewayParts {
            net: Net::Simulated(net.clone()),
            ports: vec![
                port(control_ring, &control_handle, control_link),
                port(ring, &handle, link_of_partition),
            ],
            delivery,
            recorder: Recorder::disabled(),
            clock: StageClock::new(None),
            node_id: NodeId([7; 16]),
            rng: Box::new(SeededRng::new(1, "gateway")),
            config: GatewayConfig::default(),
            assignment: Assignment::default(),
            imports: ImportProgress::unbounded(),
            draining: draining.clone(),
            status: status.clone(),
        })
        .expect("a simulated poll");
        gateway.take_in_the_past(now);
        let (port, to_gateway) = link(wake, Wake::new());
        let newcomers = Newcomers::new(NewcomersParts {
            net: Net::Simulated(net.clone()),
            door: Door::Plain(Listener::Simulated(net.listen(address()))),
            protocol: Protocol::Text,
            gateway: to_gateway,
            reception: gateway.meet(port, Box::new(SeededRng::new(1, "newcomers"))),
            config: GatewayConfig::default(),
            draining,
            status: status.clone(),
        })
        .expect("a simulated poll");
        Node {
            net,
            gateway,
            newcomers,
            partition,
            store: delivery_end,
            control,
            control_handle,
            importer: None,
            _control_source: control_source,
            status,
            is_stalled: false,
            now,
            connection_count: 0,
        }
    }

    /// Publishes a session's definition in the control log.
    pub(crate) fn define(&mut self, definition: DefineSession) {
        self.define_at_once([Definition::DefineSession(definition)]);
    }

    /// Publishes definitions in the control log, as one commit does.
    pub(crate) fn define_at_once(&mut self, definitions: impl IntoIterator<Item = Definition>) {
        for (position, definition) in (100..).map(Position).zip(definitions) {
            self.control.append(&control_record(position, definition, self.now));
        }
        self.control.publish();
    }

    /// Ends the partition's epoch behind its events so far; none of them is lost.
    pub(crate) fn end_epoch(&mut self, next: Epoch) {
        let Partition { tail, position, .. } = &mut self.partition;
        tail.end_epoch(*position, next, tail.next_record());
    }

    /// Connects an importer to the partition, by a ring with room for so many definitions.
    pub(crate) fn import_through(&mut self, ring_len: usize) {
        let (port, source) = gateway_to_partition_with(HERE, Wake::new(), ring_len);
        let partition = ImportingPartition::new(port, Position(definitions().len() as u64));
        let events = EventReader::new(&self.control_handle, PathBuf::new(), 1);
        let importer = ControlImporter::new(events, vec![partition], Wake::new());
        self.gateway.imports = importer.progress();
        self.partition.imports = Some(source);
        self.importer = Some(importer);
    }

    /// Runs a cycle of the importer.
    pub(crate) fn import(&mut self) {
        let importer = self.importer.as_mut().expect("the test has connected one");
        importer.do_work(self.now);
    }

    /// Takes the definitions out of the ring to the partition; returns their number.
    pub(crate) fn take_imports(&mut self) -> usize {
        let ring = &mut self.partition.imports.as_mut().expect("it has one").submissions;
        std::iter::from_fn(|| ring.pop().ok()).count()
    }

    /// Returns the number of definitions that the gateway has read.
    pub(crate) fn definition_count(&self) -> u64 {
        self.gateway.definition_count()
    }

    /// Fills the ring to the partition, which must be stalled.
    pub(crate) fn fill_ring(&mut self) {
        let ring = &mut self.gateway.ports[1].ring.submissions;
        while ring.push(Submission::internal(Command::Tick)).is_ok() {}
    }

    /// Refuses the requests in the ring to the partition, as one whose log is full does.
    pub(crate) fn refuse_requests(&mut self) {
        let SourcePort { submissions, feedback } = &mut self.partition.source;
        let feedback = feedback.as_mut().expect("a gateway gets refusals");
        while let Ok(submission) = submissions.pop() {
            let Command::Request(request) = submission.command else { continue };
            let refused = Feedback::Refused {
                session_id: request.session_id(),
                request_no: request.request_no(),
                template_id: request.template_id(),
                reason: Reason::LogFull,
            };
            assert!(feedback.push(refused).is_ok(), "a ring with room takes one more");
        }
    }

    /// Takes the commands out of the ring to the partition, without the ticks.
    pub(crate) fn submissions(&mut self) -> Vec<Command> {
        let ring = &mut self.partition.source.submissions;
        let submissions = std::iter::from_fn(|| ring.pop().ok());
        submissions.map(|taken| taken.command).filter(|c| !matches!(c, Command::Tick)).collect()
    }

    /// Tells the gateway that the partition's log holds a session's choice since before the start.
    pub(crate) fn await_return(&mut self, session_id: SessionId) {
        self.gateway.await_return(1, session_id);
    }

    /// Returns the highest request number in the partition that a logon of the session is told.
    pub(crate) fn last_request_no(&self, session_id: SessionId) -> RequestNo {
        let session = self.gateway.sessions.get(session_id).expect("it is defined");
        self.gateway.partition_states(session)[1].last_request_no
    }

    /// Sets the number of bytes that fit between the ends of a connection, in each direction.
    pub(crate) fn set_buffer_len(&mut self, buffer_len_max: usize) {
        self.net.set_faults(NetFaults { buffer_len_max, ..NetFaults::default() });
    }

    pub(crate) fn step(&mut self) {
        self.now.0 += STEP;
        self.net.advance();
        self.newcomers.poll(Some(Duration::ZERO));
        self.newcomers.do_work(self.now);
        self.gateway.poll(Some(Duration::ZERO));
        self.gateway.do_work(self.now);
        if !self.is_stalled {
            self.partition.take_submissions(self.now);
        }
        self.gateway.do_work(self.now);
    }

    /// Lets the partition execute all requests; the gateway has not read the events yet.
    pub(crate) fn trade(&mut self) {
        self.partition.take_submissions(self.now);
    }

    /// Tells the gateway to stop.
    pub(crate) fn stop(&mut self) {
        self.gateway.stop(self.now);
    }

    /// Sets the wall clock this far ahead of the cycles' time, as a runner tells it.
    pub(crate) fn set_wall_clock(&mut self, wall: Nanos) {
        let wall = WallOffset::between(self.now, wall);
        self.newcomers.wall_clock_moved(wall);
        self.gateway.wall_clock_moved(wall);
    }

    pub(crate) fn connect(&mut self) -> Client {
        self.connection_count += 1;
        let from = SocketAddr::from(([10, 0, 1, 1], 1_000 + self.connection_count));
        let stream = self.net.connect(from, address()).expect("the node listens");
        Client { stream: Stream::Simulated(stream), input: Vec::new() }
    }
}

pub(crate) struct Client {
    stream: Stream,
    input: Vec<u8>,
}

impl Client {
    /// Sends lines and returns the lines that come back.
    pub(crate) fn say(&mut self, node: &mut Node, lines: &str) -> Vec<String> {
        self.stream.write_all(lines.as_bytes()).expect("the connection is open");
        self.listen(node, STEPS_OF_A_LINE)
    }

    /// Sends lines and reads nothing.
    pub(crate) fn tell(&mut self, node: &mut Node, lines: &str) {
        self.stream.write_all(lines.as_bytes()).expect("the connection is open");
        (0..STEPS_OF_A_LINE).for_each(|_| node.step());
    }

    /// Returns the lines that come within some steps.
    pub(crate) fn listen(&mut self, node: &mut Node, steps: u32) -> Vec<String> {
        for _ in 0..steps {
            node.step();
            let mut room = [0; 4_096];
            match self.stream.read(&mut room) {
                Ok(len) => self.input.extend_from_slice(&room[..len]),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
        }
        let text = String::from_utf8(std::mem::take(&mut self.input)).expect("lines");
        text.lines().map(str::to_owned).collect()
    }
}

#[test]
fn a_session_in_lines_trades_is_refused_resumes_and_leaves() {
    let mut node = Node::new();
    let mut client = node.connect();
    assert_eq!(client.say(&mut node, "logon 3 7\n"), ["welcome 3 firm 1 0:1 1:1"]);

    let entered = client.say(&mut node, "new 3 1 1 buy 10 100\n");
    let [report] = &entered[..] else { panic!("{entered:?}") };
    let words: Vec<&str> = report.split(' ').collect();
    assert_eq!(words[..5], ["report", "3", "1", "1", "New"], "{report}");
    let order_id = words[5];
    let cancelled = client.say(&mut node, &format!("cancel 3 2 1 {order_id}\n"));
    assert_eq!(cancelled, [format!("report 3 2 2 Canceled {order_id} 0")]);

    // The core, an unknown word and the engine refuse, each in its own way.
    let refused = client.say(&mut node, "new 3 0 1 buy 10 100\nbuy low\nnew 4 1 1 buy 10 100\n");
    let expected = [
        "reject 3 0 FieldOutOfRange request_no",
        "reject 0 0 MalformedFrame line",
        "reject 4 1 NotLoggedOn ",
    ];
    assert_eq!(refused, expected);
    let refused = client.say(&mut node, "new 3 3 1 buy 7 100\n");
    assert_eq!(refused.len(), 1);
    assert!(refused[0].contains(" 3 3 3 "), "{refused:?}");

    // A session of which something is heard stays, and hears of the node.
    let mut heard = Vec::new();
    for _ in 0..4 {
        heard.extend(client.say(&mut node, "alive 3\n"));
        heard.extend(client.listen(&mut node, 700));
    }
    assert!(heard.contains(&"alive 3 1:3".to_owned()), "{heard:?}");
    assert!(heard.iter().all(|line| line.starts_with("alive 3 ")), "{heard:?}");

    assert_eq!(client.say(&mut node, "logout 3\n"), ["bye 3 LogoutRequested"]);
    // The connection logs on again, to the gateway itself, and resumes at its second event.
    let resumed = client.say(&mut node, "logon 3 7 1:2:0\n");
    assert_eq!(resumed[..2], ["welcome 3 firm 1 0:1 1:4".to_owned(), cancelled[0].clone()]);
    assert_eq!(resumed[2..], refused);
    assert_eq!(client.say(&mut node, "logout 0\n"), ["bye 0 LogoutRequested"]);

    // Another connection resumes from the first event, through the newcomers' thread.
    let mut client = node.connect();
    let resumed = client.say(&mut node, "logon 3 7 1:1:0\n");
    assert_eq!(resumed[0], "welcome 3 firm 1 0:1 1:4");
    assert_eq!(resumed[1..], [entered, cancelled, refused].concat());
}

#[test]
fn orders_do_not_wait_for_a_reader_of_the_figures() {
    let mut node = Node::new();
    let status = node.status.clone();
    let reading = status.lock().unwrap();
    let mut client = node.connect();
    assert_eq!(client.say(&mut node, "logon 3 7\n").len(), 1);
    for number in 1..=100 {
        let entered = client.say(&mut node, &format!("new 3 {number} 1 buy 10 100\n"));
        assert_eq!(entered.len(), 1, "{entered:?}");
    }
    assert_eq!(reading.counters.requests, 0, "it has the figures of its time");
    drop(reading);
    client.listen(&mut node, 1_000);
    assert_eq!(status.lock().unwrap().counters.requests, 100);
}

#[test]
fn a_stranger_in_lines_is_refused_without_a_session() {
    let mut node = Node::new();
    let mut client = node.connect();
    let refused = client.say(&mut node, "new 3 1 1 buy 10 100\nalive 3\nwhat\n");
    assert_eq!(refused, ["reject 3 1 NotLoggedOn ", "reject 0 0 MalformedFrame line"]);
    let refused = client.say(&mut node, "logon 3 8\n");
    assert_eq!(refused, ["refused 3 UnknownKey", "bye 0 UnknownKey"]);

    let mut client = node.connect();
    let closed = client.say(&mut node, &"x".repeat(300));
    assert_eq!(closed, ["bye 0 FrameTooLong"]);

    let mut client = node.connect();
    let refused = client.say(&mut node, "logon 3 7 1:9:0\n");
    assert_eq!(refused, ["refused 3 ResumeOutOfRange"]);
    let refused = client.say(&mut node, "logon 3 7 one\n");
    assert_eq!(refused, ["refused 3 FieldOutOfRange"]);
}

#[test]
fn a_silent_session_in_lines_is_closed() {
    let mut node = Node::new();
    let mut client = node.connect();
    client.say(&mut node, "logon 3 7\n");
    let heard = client.listen(&mut node, 3_000);
    assert_eq!(heard.last().map(String::as_str), Some("bye 3 HeartbeatLost"));
}
