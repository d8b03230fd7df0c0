//! Links between gateway processes and a node: a gateway that the test plays itself, and the real
//! one.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use weir_client::session::{SessionConfig, SessionEvent};
use weir_client::{ClientError, Connection, Limits};
use weir_link::codec::{FRAME_LEN_MAX, next_message};
use weir_link::gateway_end::{Defined, HandOver, SessionPoint, WantedBinding};
use weir_link::kept::LinkCommand;
use weir_link::message::{
    AskRecords, ClaimSession, CommandRefused, EpochEnded, RecordNo, Seal, SessionBound,
    SessionClaimed, SessionUnbound, StageSpans,
};
use weir_link::{GatewayEnd, GatewayTerms, GatewayView, LinkFault, ToGateway};
use weir_types::{
    Epoch, EventNo, Nanos, OrdStatus, PartitionId, Reason, RequestNo, Role, SessionId, Switch,
};
use weir_wire::dialogue::{NodeMessage, put_logon};
use weir_wire::event::OrderEvent;
use weir_wire::message::Message as _;
use weir_wire::reference::DefineSession;
use weir_wire::session::{Heartbeat, Logon};
use weir_wire::{Event, PlainEvent, Request};

use crate::support::address::free_address;
use crate::support::trader::Trader;
use crate::support::{
    ALICE, BOB, Home, Node, OPERATOR, TRADING, Who, definition_of, open_market, until,
};

/// The gateway's session.
pub(super) const GATEWAY: Who = Who { session_id: SessionId(101), role: Role::Gateway, ..OPERATOR };
const CONTROL: PartitionId = PartitionId(0);

/// Returns a node with a listener for gateways, in which Alice, Bob and the gateway are defined.
fn exchange(link: SocketAddr, lease_ms: u32) -> (Home, Node) {
    exchange_with("", link, lease_ms)
}

/// As [`exchange`], with further configuration.
pub(super) fn exchange_with(more: &str, link: SocketAddr, lease_ms: u32) -> (Home, Node) {
    let config = format!("[link]\nlisten = '{link}'\nlease_ms = {lease_ms}\n{more}");
    let home = Home::with_config("os", &config);
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    node.admin().define_session(definition_of(&GATEWAY)).unwrap();
    (home, node)
}

/// The events and answers that a scripted gateway has heard.
#[derive(Default)]
struct Heard {
    begun_at: u64,
    /// The events of bound sessions, by record.
    events: Vec<(u64, OrderEvent)>,
    bound: Vec<SessionBound>,
    past: Vec<u64>,
    claimed: Vec<SessionClaimed>,
    refused: Vec<CommandRefused>,
    unbound: Vec<SessionUnbound>,
    old: Vec<Vec<u64>>,
}

impl GatewayView for Heard {
    fn begin_anew(&mut self, next_record: u64, _epoch: Epoch) {
        self.begun_at = next_record;
    }

    fn resume_point(&mut self, _id: SessionId) -> SessionPoint {
        SessionPoint { next_event_no: EventNo(1), epoch: Epoch::NONE }
    }

    fn defined(&mut self, _defined: &Defined<'_>) {}

    fn record(&mut self, number: u64, record: &[u8], is_bound: bool) {
        if let Ok(Event::Plain(PlainEvent::OrderEvent(event))) = Event::decode(record)
            && is_bound
        {
            self.events.push((number, event));
        }
    }

    fn skipped(&mut self, _first: u64, _count: u64) {}

    fn epoch_ended(&mut self, _ended: &EpochEnded) {}

    fn stages(&mut self, _stages: &StageSpans) {}

    fn bound(&mut self, bound: &SessionBound, _goes_on: bool) {
        self.bound.push(*bound);
    }

    fn past_records(&mut self, _id: SessionId, records: &mut dyn Iterator<Item = u64>) {
        self.past.extend(records);
    }

    fn unbound(&mut self, unbound: &SessionUnbound) {
        self.unbound.push(*unbound);
    }

    fn refused(&mut self, refused: &CommandRefused) {
        self.refused.push(*refused);
    }

    fn other(&mut self, message: &ToGateway<'_>) {
        match message {
            ToGateway::SessionClaimed(claimed) => self.claimed.push(*claimed),
            ToGateway::OldRecords(_, records) => {
                self.old.push(records.clone().map(|(entry, _)| entry.number).collect());
            }
            _ => {}
        }
    }
}

/// A gateway that does what the test tells it.
struct Script {
    connection: Connection,
    end: GatewayEnd,
    heard: Heard,
    begun: Instant,
}

impl Script {
    /// Logs on, and opens a link to a partition.
    fn open(link: SocketAddr, partition_id: PartitionId, incarnation: u64) -> Script {
        let limits = Limits { frame_len_max: FRAME_LEN_MAX, ..Limits::default() };
        let mut connection = Connection::open(link, limits).unwrap();
        let logon = Logon {
            api_key: GATEWAY.key(),
            session_id: GATEWAY.session_id,
            heartbeat_interval_ms: 60_000,
            cancel_on_disconnect: Switch::Off,
            takeover: Switch::Off,
        };
        put_logon(&logon, &[], connection.outbox());
        let answer = until("an answer to the logon", || {
            connection.exchange(Duration::from_millis(50)).unwrap();
            let (message, _) = connection.next_message().unwrap()?;
            Some(match message {
                NodeMessage::LogonAck(..) => Ok(()),
                NodeMessage::LogonReject(reject) => Err(reject.reason),
                other => panic!("an unexpected answer: {other:?}"),
            })
        });
        assert_eq!(answer, Ok(()));
        let (session_id, window_bytes) = (GATEWAY.session_id, 1 << 20);
        let terms = GatewayTerms { session_id, partition_id, incarnation, window_bytes };
        let (end, heard) = (GatewayEnd::new(terms), Heard::default());
        let mut script = Script { connection, end, heard, begun: Instant::now() };
        script.end.connected(script.now());
        script.until("an open link", |script| script.end.is_open().then_some(()));
        script
    }

    fn now(&self) -> Nanos {
        Nanos(1 + self.begun.elapsed().as_nanos() as u64)
    }

    /// Exchanges bytes once.
    fn turn(&mut self) -> Result<(), LinkFault> {
        let now = self.now();
        self.end.flush(now);
        self.end.use_bytes(u64::from(u32::MAX), now);
        self.end.tick(now)?;
        let output = self.end.take_output();
        self.connection.outbox().extend_from_slice(&output);
        // The end of a connection is told by the last message.
        let _came = self.connection.exchange(Duration::from_millis(20));
        while let Ok(Some(frame)) = self.connection.next_whole_frame() {
            let arrived = next_message(frame, now).unwrap().expect("a whole frame");
            if arrived.raw.template_id != Heartbeat::TEMPLATE_ID {
                self.end.take(arrived, &mut self.heard)?;
            }
        }
        Ok(())
    }

    /// Exchanges bytes until `look` returns a value.
    fn until<T>(&mut self, what: &str, mut look: impl FnMut(&mut Script) -> Option<T>) -> T {
        until(what, || {
            self.turn().unwrap();
            look(self)
        })
    }

    /// Exchanges bytes until the link ends; returns the reason.
    fn end_of_link(&mut self) -> Reason {
        until("the end of the link", || match self.turn() {
            Err(LinkFault::Closed(reason)) => Some(reason),
            Err(other) => panic!("{other}"),
            Ok(()) => None,
        })
    }

    fn claim(&mut self, who: Who) -> SessionClaimed {
        self.heard.claimed.clear();
        let claim = ClaimSession {
            heard: Nanos(0),
            session_id: GATEWAY.session_id,
            bound_session_id: who.session_id,
            takeover: Switch::Off,
        };
        assert!(self.end.put(&claim));
        self.until("an answer to the claim", |script| script.heard.claimed.first().copied())
    }

    fn bind(&mut self, who: Who, generation: u64, seal: Seal) -> SessionBound {
        self.heard.bound.clear();
        let wanted = WantedBinding {
            session_id: who.session_id,
            generation,
            seal,
            cancel_on_disconnect: Switch::On,
        };
        self.end.bind(wanted, &mut self.heard);
        self.until("an answer to the binding", |script| script.heard.bound.first().copied())
    }

    fn send(&mut self, request: Request) {
        let command = LinkCommand { request, trace_id: 0, t0: self.now() };
        assert_eq!(self.end.hand_over(command), HandOver::Taken);
    }

    fn event(&mut self, index: usize) -> (u64, OrderEvent) {
        self.until("an event", |script| script.heard.events.get(index).copied())
    }
}

/// Returns a request of a session, with its number.
fn numbered(who: Who, number: u64, request: Request) -> Request {
    let Request::NewOrder(mut order) = request else { panic!("an order") };
    (order.session_id, order.request_no) = (who.session_id, RequestNo(number));
    Request::NewOrder(order)
}

#[test]
fn a_scripted_gateway_binds_a_session_and_gets_the_events_of_it_alone() {
    let link = free_address();
    let (_home, node) = exchange(link, 60_000);
    let mut control = Script::open(link, CONTROL, 7);
    let mut partition = Script::open(link, TRADING, 7);
    assert_eq!(control.heard.begun_at, 1, "control's link has each record");
    let claimed = control.claim(ALICE);
    assert_eq!(claimed.reason, Reason::None);
    let bound = partition.bind(ALICE, claimed.generation, claimed.seal);
    assert_eq!((bound.reason, bound.next_event_no), (Reason::None, EventNo(1)));
    assert_eq!(bound.next_record, partition.end.next_record(), "the link is up to date");
    partition.send(numbered(ALICE, 1, ALICE.sell(1, 100, 5)));
    let (_, event) = partition.event(0);
    assert_eq!((event.event_no, event.ord_status), (EventNo(1), OrdStatus::New));
    // Bob's session is bound nowhere: none of his requests is taken.
    let wanted = numbered(BOB, 1, BOB.buy(1, 100, 5));
    let command = LinkCommand { request: wanted, trace_id: 0, t0: partition.now() };
    assert_eq!(partition.end.hand_over(command), HandOver::NotBound);
    assert!(node.terminate().success());
}

#[test]
fn a_binding_needs_the_seal_of_its_grant() {
    let link = free_address();
    let (_home, _node) = exchange(link, 60_000);
    let mut control = Script::open(link, CONTROL, 7);
    let mut partition = Script::open(link, TRADING, 7);
    let SessionClaimed { generation, seal, .. } = control.claim(ALICE);
    for (generation, seal) in [(generation, Seal::NONE), (generation + 1, seal)] {
        let refused = partition.bind(ALICE, generation, seal);
        assert_eq!(refused.reason, Reason::NotEntitled, "{generation}, {seal:?}");
    }
    assert_eq!(partition.bind(BOB, generation, seal).reason, Reason::NotEntitled);
    assert_eq!(partition.bind(ALICE, generation, seal).reason, Reason::None);
}

#[test]
fn a_later_connection_of_a_gateway_takes_the_place_of_the_first() {
    let link = free_address();
    let (_home, _node) = exchange(link, 60_000);
    let mut first = Script::open(link, TRADING, 7);
    let mut second = Script::open(link, TRADING, 8);
    assert_eq!(first.end_of_link(), Reason::TakenOver);
    second.turn().unwrap();
    assert!(second.end.is_open());
}

#[test]
fn events_from_before_a_binding_are_listed_and_read_from_the_files() {
    let link = free_address();
    let (_home, _node) = exchange(link, 60_000);
    let mut control = Script::open(link, CONTROL, 7);
    let mut partition = Script::open(link, TRADING, 7);
    let SessionClaimed { generation, seal, .. } = control.claim(ALICE);
    partition.bind(ALICE, generation, seal);
    for number in 1..=3 {
        partition.send(numbered(ALICE, number, ALICE.sell(number, 100, 5)));
    }
    partition.event(2);
    let records: Vec<_> = partition.heard.events.iter().map(|(record, _)| *record).collect();

    // Another process of the gateway has none of them.
    let mut control = Script::open(link, CONTROL, 8);
    let mut partition = Script::open(link, TRADING, 8);
    let SessionClaimed { generation, seal, .. } = control.claim(ALICE);
    let bound = partition.bind(ALICE, generation, seal);
    assert_eq!((bound.record_count, bound.next_event_no), (3, EventNo(4)));
    assert_eq!(partition.heard.past, records);
    let ask = AskRecords {
        number: 1,
        from_record: 0,
        session_id: GATEWAY.session_id,
        partition_id: TRADING,
        is_urgent: Switch::Off,
    };
    let entries: Vec<_> = records.iter().map(|record| RecordNo { record: *record }).collect();
    assert!(partition.end.put_with_group(&ask, &entries));
    let old = partition.until("old records", |script| script.heard.old.pop());
    assert_eq!(old, records);
}

#[test]
fn a_session_whose_gateway_is_gone_loses_its_orders_when_the_lease_lapses() {
    let link = free_address();
    let (_home, node) = exchange(link, 1_000);
    let mut control = Script::open(link, CONTROL, 7);
    let mut partition = Script::open(link, TRADING, 7);
    let SessionClaimed { generation, seal, .. } = control.claim(ALICE);
    partition.bind(ALICE, generation, seal);
    partition.send(numbered(ALICE, 1, ALICE.sell(1, 100, 5)));
    partition.event(0);
    node.partition_when(TRADING, |row| row["live_orders"] == 1);
    drop((control, partition));
    node.partition_when(TRADING, |row| row["live_orders"] == 0);
}

/// Its orders were executed for as long as the gateway's link to control was cut.
#[test]
fn a_session_whose_key_is_taken_away_ends_at_a_partition_whose_gateway_does_not_hear_of_it() {
    for (reason, change) in [
        (
            Reason::KeyReplaced,
            DefineSession { credential: definition_of(&BOB).credential, ..definition_of(&ALICE) },
        ),
        (Reason::KeyExpired, DefineSession { valid_until: Nanos(1), ..definition_of(&ALICE) }),
    ] {
        let link = free_address();
        let (_home, node) = exchange(link, 60_000);
        let mut control = Script::open(link, CONTROL, 7);
        let mut partition = Script::open(link, TRADING, 7);
        let SessionClaimed { generation, seal, .. } = control.claim(ALICE);
        partition.bind(ALICE, generation, seal);
        partition.send(numbered(ALICE, 1, ALICE.sell(1, 100, 5)));
        partition.event(0);
        node.partition_when(TRADING, |row| row["live_orders"] == 1);
        drop(control);
        node.admin().define_session(change).unwrap();
        let unbound =
            partition.until("the end of the binding", |script| script.heard.unbound.pop());
        assert_eq!((unbound.bound_session_id, unbound.reason), (ALICE.session_id, reason));
        node.partition_when(TRADING, |row| row["live_orders"] == 0);
        assert_eq!(partition.bind(ALICE, generation, seal).reason, reason, "the grant is void");
        // Nor does control grant the session by a key that has expired.
        let mut control = Script::open(link, CONTROL, 8);
        let granted = control.claim(ALICE);
        let want = if reason == Reason::KeyExpired { reason } else { Reason::None };
        assert_eq!(granted.reason, want);
    }
}

#[test]
fn a_node_with_links_takes_operators_and_no_traders_at_its_own_door() {
    let (_home, node) = exchange(free_address(), 60_000);
    let refused = Trader::resume(&node, ALICE, EventNo(1)).map(drop).unwrap_err();
    let ClientError::LogonRejected { reason, .. } = refused else { panic!("{refused}") };
    assert_eq!(reason, Reason::NotServedHere);
    node.admin().close().unwrap();
}

/// Returns the home of a gateway process with links to a node's partitions.
pub(super) fn gateway_of(link: SocketAddr) -> Home {
    gateway_with(GATEWAY, &[(0, link), (1, link)])
}

/// Returns the home of a gateway process that logs on as this session to these partitions.
pub(super) fn gateway_with(who: Who, links: &[(u16, SocketAddr)]) -> Home {
    let home = Home::with_config("memory", "");
    let key = home.path("gateway.key");
    let text: String = who.key().0.iter().map(|byte| format!("{byte:02x}")).collect();
    std::fs::write(&key, text).unwrap();
    std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    let mut config = format!(
        "role = 'gateway'\n[uplink]\nsession = {}\nkey_file = '{}'\nkey_kind = 'api-key'\n",
        who.session_id,
        key.display()
    );
    for (id, link) in links {
        config += &format!("[[uplink.partition]]\nid = {id}\naddress = '{link}'\n");
    }
    std::fs::write(home.path("weir.toml"), config).unwrap();
    home.listening_on(free_address())
}

fn events_of(trader: &Trader) -> Vec<OrderEvent> {
    trader.reports().iter().map(|report| report.event).collect()
}

/// Sends an order until its partition is not away any more, each time as a new request.
fn ask_when_back(trader: &mut Trader, request: Request) -> OrderEvent {
    until("the partition", || match trader.ask(request) {
        SessionEvent::Report { report, .. } => Some(report.event),
        SessionEvent::Refused { reject, .. } if reject.reason == Reason::PartitionAway => None,
        other => panic!("{request:?} was answered by {other:?}"),
    })
}

#[test]
fn sessions_trade_through_a_gateway_process() {
    let link = free_address();
    let (_home, _node) = exchange(link, 60_000);
    let gateway_home = gateway_of(link);
    let gateway = gateway_home.start();
    let mut alice = Trader::log_on(&gateway, ALICE);
    let mut bob = Trader::log_on(&gateway, BOB);
    for number in 1..=30_u64 {
        alice.ask_for_report(ALICE.sell(number, 100 + number.cast_signed(), 5));
    }
    for number in 1..=10 {
        bob.ask_for_report(BOB.buy(number, 120, 7));
    }
    alice.settle();
    bob.settle();
    assert_eq!(events_of(&bob).last().unwrap().ord_status, OrdStatus::Filled);
    let heard = events_of(&alice);
    assert!(heard.len() > 30, "30 orders, and their executions");
    drop(alice);
    // A session that resumes gets all of it again: the records are asked for from the node.
    let mut alice = Trader::resume(&gateway, ALICE, EventNo(1)).unwrap();
    alice.settle();
    assert_eq!(events_of(&alice), heard);
}

#[test]
fn a_gateway_that_is_killed_starts_again_and_its_sessions_go_on() {
    let link = free_address();
    let (_home, node) = exchange(link, 60_000);
    let home = gateway_of(link);
    let mut gateway = home.start();
    let config = SessionConfig { cancel_on_disconnect: true, ..ALICE.config() };
    let mut alice = Trader::log_on_as(&gateway, ALICE, config);
    let mut bob = Trader::log_on(&gateway, BOB);
    for number in 1..=20 {
        alice.ask_for_report(ALICE.sell(number, 100, 5));
    }
    bob.ask_for_report(BOB.buy(1, 100, 12));
    alice.settle();
    let (heard, mark) = (events_of(&alice), alice.mark());
    gateway.kill();
    drop((alice, bob));

    let gateway = home.start();
    let mut bob = Trader::resume(&gateway, BOB, EventNo(1)).unwrap();
    // Alice has not lost her orders: the lease is longer than the gateway was away.
    bob.ask_for_report(BOB.buy(2, 100, 8));
    let mut alice = Trader::go_on(&gateway, ALICE, mark).unwrap();
    alice.settle();
    let later = events_of(&alice);
    assert_eq!(later.first().map(|event| event.event_no), Some(EventNo(mark.0.0 + 1)));
    assert!(later.iter().all(|event| event.ord_status != OrdStatus::Canceled), "{later:?}");
    drop(alice);
    let mut alice = Trader::resume(&gateway, ALICE, EventNo(1)).unwrap();
    alice.settle();
    assert_eq!(events_of(&alice), [heard, later].concat());
    assert!(node.terminate().success());
}

#[test]
fn a_session_with_cancel_on_disconnect_that_leaves_a_gateway_process_loses_its_orders() {
    let link = free_address();
    let (_home, node) = exchange(link, 60_000);
    let gateway_home = gateway_of(link);
    let gateway = gateway_home.start();
    let config = SessionConfig { cancel_on_disconnect: true, ..ALICE.config() };
    let mut alice = Trader::log_on_as(&gateway, ALICE, config);
    let mut bob = Trader::log_on(&gateway, BOB);
    alice.ask_for_report(ALICE.sell(1, 100, 5));
    bob.ask_for_report(BOB.sell(1, 101, 5));
    node.partition_when(TRADING, |row| row["live_orders"] == 2);
    drop((alice, bob));
    node.partition_when(TRADING, |row| row["live_orders"] == 1);
}

#[test]
fn a_node_that_is_killed_starts_again_under_the_sessions_of_its_gateway() {
    let link = free_address();
    let (home, mut node) = exchange(link, 60_000);
    let gateway_home = gateway_of(link);
    let gateway = gateway_home.start();
    let mut alice = Trader::log_on(&gateway, ALICE);
    for number in 1..=20 {
        alice.ask_for_report(ALICE.sell(number, 100, 5));
    }
    node.kill();
    let node = home.start();
    let event = ask_when_back(&mut alice, ALICE.sell(21, 100, 5));
    assert_eq!(event.event_no, EventNo(21), "the session goes on where it was");
    // The link to the control partition, which grants sessions, may come back later.
    let mut bob = until("control", || match Trader::resume(&gateway, BOB, EventNo(1)) {
        Err(ClientError::LogonRejected { reason: Reason::PartitionAway, .. }) => None,
        logged_on => Some(logged_on.unwrap()),
    });
    bob.ask_for_report(BOB.buy(1, 100, 105));
    alice.report_where(|event| event.ord_status == OrdStatus::Filled);
    // She was told the epoch that the start began: her next logon states it with its events.
    let mark = alice.mark();
    drop(alice);
    let mut alice = Trader::go_on(&gateway, ALICE, mark).unwrap();
    alice.ask_for_report(ALICE.sell(22, 100, 5));
    assert!(node.terminate().success());
}

#[test]
fn a_gateway_accepts_clients_once_it_knows_the_sessions() {
    let link = free_address();
    let home = gateway_of(link);
    // There is no node yet.
    let gateway = home.start();
    let (code, why) = gateway.get("/ready");
    assert_eq!(code, 503, "{why}");
    assert!(why.contains("the control partition has no link"), "{why}");
    let later = std::thread::spawn(move || exchange(link, 60_000));
    let mut alice = Trader::log_on(&gateway, ALICE);
    let (_home, _node) = later.join().unwrap();
    assert_eq!(gateway.get("/ready").0, 200);
    alice.ask_for_report(ALICE.sell(1, 100, 5));
}
