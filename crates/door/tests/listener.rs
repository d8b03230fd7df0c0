//! The listener over sockets of this machine, with a protocol of one message: limits, logons,
//! deadlines and the farewells that peers get.
//!
//! Time is a number that the tests advance; nothing waits for the clock.

#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ed25519_dalek::{Signer as _, SigningKey};
use weir_door::lobby::LobbyLimits;
use weir_door::{
    Door, DoorFigures, DoorLimits, DoorReport, Intake, Limits, Link, Links, Listener,
    ListenerParts, Protocol, SessionMessage, Terms,
};
use weir_io::SeededRng;
use weir_runtime::{Agent as _, Poller as _};
use weir_types::{
    Credential, CredentialKind, Epoch, EventNo, FirmId, Nanos, PartitionId, Position, Reason,
    RequestNo, Role, SessionId, Switch, WallOffset,
};
use weir_wire::challenge::put_answer;
use weir_wire::delivery::AddCredit;
use weir_wire::dialogue::{NodeMessage, put_logon};
use weir_wire::event::Defined;
use weir_wire::frame::{CLIENT_FRAME_LEN_MAX, Framing, next_frame, put_frame};
use weir_wire::reference::DefineSession;
use weir_wire::session::{
    ApiKey, Challenge, ChallengeRequest, Heartbeat, Logon, Logout, NodeId, Nonce, ResumePoint,
    Signature, SignedLogon,
};
use weir_wire::subscription::DetachSubscription;
use weir_wire::{ClientMessage, Definition, Event};

const SECOND: u64 = 1_000_000_000;
const ALICE: SessionId = SessionId(11);
const BOB: SessionId = SessionId(12);
/// Signs its logons.
const SIGNER: SessionId = SessionId(13);
/// Has a role that may not enter.
const CORE: SessionId = SessionId(14);

/// Answers each `AddCredit` by as many heartbeats as it has rows, and waits while it is held.
struct Echo(Arc<Mutex<Scene>>);

/// The part of the protocol that tests change and look at.
#[derive(Default)]
struct Scene {
    control: VecDeque<Vec<u8>>,
    is_held: bool,
    taken: usize,
    gone: Vec<SessionId>,
}

impl Echo {
    fn scene(&self) -> MutexGuard<'_, Scene> {
        self.0.lock().unwrap()
    }
}

impl Protocol for Echo {
    type State = u32;

    const TERMS: Terms = Terms {
        name: "echo",
        section: "test",
        frame_len_max: CLIENT_FRAME_LEN_MAX,
        limits: Limits { input_len_max: 2 * CLIENT_FRAME_LEN_MAX, output_len_max: 64 * 1024 },
        inside_limits: Limits { input_len_max: 1024, output_len_max: 1024 },
        read_len: 4 * 1024,
        full_time_max: Nanos(5 * SECOND),
        is_exclusive: true,
    };

    fn next_control_event(&mut self, record: &mut Vec<u8>) -> bool {
        let next = self.scene().control.pop_front();
        next.map(|event| *record = event).is_some()
    }

    fn may_enter(&self, role: Role) -> bool {
        role != Role::Source
    }

    fn serves(message: &ClientMessage<'_>) -> bool {
        matches!(message, ClientMessage::AddCredit(_))
    }

    fn take(&mut self, link: &mut Link<u32>, said: SessionMessage<'_>, _now: Nanos) -> Intake {
        let ClientMessage::AddCredit(more) = said.message else { unreachable!("not served") };
        if self.scene().is_held {
            return Intake::Wait;
        }
        if more.correlation_id == 0 {
            return Intake::Refused(Reason::FieldOutOfRange, "correlation_id");
        }
        link.state += more.rows;
        self.scene().taken += 1;
        Intake::Done
    }

    fn produce(&mut self, links: &mut Links<u32>, now: Nanos) -> usize {
        let ids: Vec<_> = links.iter().filter(|link| link.state > 0).map(|link| link.id).collect();
        for id in &ids {
            let link = links.get_mut(*id).expect("listed above");
            while link.state > 0 && link.socket.has_room() {
                link.state -= 1;
                put_frame(&beat(link.session_id(), now), &mut link.socket.output);
            }
            links.touch(*id);
        }
        ids.len()
    }

    fn gone(&mut self, link: &mut Link<u32>, _now: Nanos) {
        self.scene().gone.push(link.session_id());
    }
}

fn beat(session_id: SessionId, now: Nanos) -> Heartbeat {
    let (high_water, partition_id) = (EventNo::NONE, PartitionId::NONE);
    Heartbeat { sending_time: now, high_water, session_id, partition_id, load_permille: 0 }
}

fn api_key(of: SessionId) -> ApiKey {
    ApiKey([of.0 as u8; 32])
}

fn signing_key() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

fn session(id: SessionId) -> DefineSession {
    let is_signer = id == SIGNER;
    let credential = match is_signer {
        true => signing_key().verifying_key().to_bytes(),
        false => *blake3::hash(&api_key(id).0).as_bytes(),
    };
    DefineSession {
        request_no: RequestNo(1),
        valid_until: Nanos(0),
        credential: Credential(credential),
        session_id: SessionId(1),
        defined_session_id: id,
        firm_id: FirmId(3),
        order_rate_max: 0,
        in_flight_max: 4,
        role: if id == CORE { Role::Source } else { Role::Trader },
        credential_kind: if is_signer { CredentialKind::Ed25519 } else { CredentialKind::ApiKey },
        live_orders_max: 0,
        fields: 0,
    }
}

fn control_event(definition: DefineSession) -> Vec<u8> {
    let mut bytes = Vec::new();
    let defined = Defined {
        position: Position(1),
        transact_time: Nanos(1),
        control_position: Position(1),
        partition_id: PartitionId::NONE,
    };
    Event::Defined(defined, Definition::DefineSession(definition)).encode(&mut bytes);
    bytes
}

/// A listener of four sessions, driven by hand.
struct Rig {
    listener: Listener<Echo>,
    figures: Arc<DoorFigures>,
    scene: Arc<Mutex<Scene>>,
    draining: Arc<AtomicBool>,
    address: SocketAddr,
    now: Nanos,
}

impl Rig {
    fn new(connections_max: usize, per_address_max: u32) -> Rig {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let figures = Arc::new(DoorFigures::default());
        let draining = Arc::new(AtomicBool::new(false));
        let scene = Arc::new(Mutex::new(Scene::default()));
        let lobby = LobbyLimits { logon_time_max: Nanos(10 * SECOND), per_address_max };
        let parts = ListenerParts {
            door: Door::Plain(weir_io::net::Listener::from_std(listener).unwrap()),
            node_id: NodeId([9; 16]),
            rng: Box::new(SeededRng::new(1, "nonces")),
            limits: DoorLimits { connections_max, lobby },
            draining: draining.clone(),
            figures: figures.clone(),
        };
        let control = [ALICE, BOB, SIGNER, CORE].map(|id| control_event(session(id)));
        scene.lock().unwrap().control = control.into();
        let listener = Listener::new(parts, Echo(scene.clone())).unwrap();
        Rig { listener, figures, scene, draining, address, now: Nanos(SECOND) }
    }

    fn open() -> Rig {
        Rig::new(100, 100)
    }

    fn scene(&self) -> MutexGuard<'_, Scene> {
        self.scene.lock().unwrap()
    }

    /// A few cycles, with the events that the system has.
    fn work(&mut self) {
        for _ in 0..4 {
            self.listener.poll(Some(Duration::from_millis(2)));
            self.listener.do_work(self.now);
        }
    }

    fn set_wall_clock(&mut self, wall: Nanos) {
        self.listener.wall_clock_moved(WallOffset::between(self.now, wall));
    }

    fn passes(&mut self, nanos: u64) {
        self.now = Nanos(self.now.0 + nanos);
        self.work();
    }

    /// Cycles until the listener has accepted `count` connections in all.
    fn accepts(&mut self, count: u64) {
        while self.report().accepted + self.report().connections_refused < count {
            self.work();
        }
    }

    fn report(&self) -> DoorReport {
        self.figures.report()
    }

    fn connect(&mut self) -> Peer {
        let before = self.report();
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nonblocking(true).unwrap();
        self.accepts(before.accepted + before.connections_refused + 1);
        self.work();
        Peer { stream, input: Vec::new(), consumed: 0, is_closed: false }
    }

    fn log_on(&mut self, id: SessionId) -> Peer {
        let mut peer = self.connect();
        peer.send(|out| put_logon(&logon(id), &[], out));
        assert_eq!(peer.next(self), Received::LogonAck(id));
        peer
    }

    fn define(&mut self, definition: DefineSession) {
        self.scene().control.push_back(control_event(definition));
        self.work();
    }
}

fn logon(id: SessionId) -> Logon {
    Logon {
        api_key: api_key(id),
        session_id: id,
        heartbeat_interval_ms: 1_000,
        cancel_on_disconnect: Switch::Off,
        takeover: Switch::Off,
    }
}

/// A message as far as these tests look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Received {
    LogonAck(SessionId),
    LogonReject(Reason),
    Challenge(Challenge),
    Heartbeat,
    Reject(Reason),
    Logout(SessionId, Reason),
    Closed,
}

struct Peer {
    stream: TcpStream,
    input: Vec<u8>,
    consumed: usize,
    is_closed: bool,
}

impl Peer {
    fn send(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        fill(&mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    fn ask(&mut self, session_id: SessionId, correlation_id: u64, rows: u32) {
        let more = AddCredit { correlation_id, session_id, pages: 0, rows, bytes: 0 };
        self.send(|out| put_frame(&more, out));
    }

    /// Reads all that has come; false when nothing has.
    fn read(&mut self) -> bool {
        self.input.drain(..std::mem::take(&mut self.consumed));
        let before = self.input.len();
        let mut bytes = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => self.is_closed = true,
                Ok(len) => {
                    self.input.extend_from_slice(&bytes[..len]);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => self.is_closed = true,
            }
            return self.input.len() > before;
        }
    }

    /// The next message; the listener works until there is one.
    fn next(&mut self, rig: &mut Rig) -> Received {
        for _ in 0..1_000 {
            let input = &self.input[self.consumed..];
            if let Framing::Frame { len, message } = next_frame(input, 64 * 1024) {
                let got = got(&NodeMessage::decode(&message.unwrap()).unwrap());
                self.consumed += len;
                return got;
            }
            if self.read() {
                continue;
            }
            if self.is_closed {
                return Received::Closed;
            }
            rig.work();
        }
        panic!("nothing came");
    }

    /// The last two messages before the end.
    fn last(&mut self, rig: &mut Rig) -> [Received; 2] {
        let mut last = [Received::Closed; 2];
        while last[1] != Received::Closed || last[0] == Received::Closed {
            last = [last[1], self.next(rig)];
        }
        last
    }

    fn is_quiet(&mut self, rig: &mut Rig) -> bool {
        rig.work();
        self.read();
        self.input.is_empty() && !self.is_closed
    }
}

fn got(message: &NodeMessage<'_>) -> Received {
    match message {
        NodeMessage::LogonAck(ack, _) => Received::LogonAck(ack.session_id),
        NodeMessage::LogonReject(reject) => Received::LogonReject(reject.reason),
        NodeMessage::Challenge(challenge) => Received::Challenge(*challenge),
        NodeMessage::Heartbeat(_) => Received::Heartbeat,
        NodeMessage::Reject(reject) => Received::Reject(reject.reason),
        NodeMessage::Logout(logout) => Received::Logout(logout.session_id, logout.reason),
        other => panic!("unexpected: {other:?}"),
    }
}

#[test]
fn a_session_logs_on_by_its_key_or_its_signature_and_its_messages_are_taken() {
    let mut rig = Rig::open();
    let mut alice = rig.log_on(ALICE);
    alice.ask(ALICE, 1, 2);
    assert_eq!([alice.next(&mut rig), alice.next(&mut rig)], [Received::Heartbeat; 2]);
    let mut signer = rig.connect();
    signer.send(|out| put_frame(&ChallengeRequest { session_id: SIGNER }, out));
    let Received::Challenge(challenge) = signer.next(&mut rig) else { panic!("no challenge") };
    let logon = SignedLogon {
        signature: Signature([0; 64]),
        session_id: SIGNER,
        heartbeat_interval_ms: 1_000,
        cancel_on_disconnect: Switch::Off,
        takeover: Switch::Off,
    };
    let sign = |text: &[u8]| Signature(signing_key().sign(text).to_bytes());
    signer.send(|out| put_answer(&challenge, logon, &[], sign, out));
    assert_eq!(signer.next(&mut rig), Received::LogonAck(SIGNER));
    rig.passes(50_000_000);
    let DoorReport { connections, sessions, accepted, .. } = rig.report();
    assert_eq!((connections, sessions, accepted), (2, 2, 2));
}

#[test]
fn a_logon_that_is_refused_is_told_the_reason_and_counted() {
    let mut rig = Rig::open();
    let _alice = rig.log_on(ALICE);
    let wrong = Logon { api_key: ApiKey([1; 32]), ..logon(BOB) };
    let cases = [
        (wrong, Reason::UnknownKey),
        (logon(SessionId(404)), Reason::UnknownKey),
        (logon(CORE), Reason::NotEntitled),
        (logon(ALICE), Reason::AlreadyLoggedOn),
    ];
    for (logon, reason) in cases {
        let mut peer = rig.connect();
        peer.send(|out| put_logon(&logon, &[], out));
        assert_eq!(peer.next(&mut rig), Received::LogonReject(reason));
    }
    assert_eq!(rig.report().logons_refused, 4);
}

#[test]
fn a_connection_has_one_guess_of_a_key_and_fifteen_other_logons_that_are_refused() {
    let mut rig = Rig::open();
    let _alice = rig.log_on(ALICE);
    let mut guesser = rig.connect();
    let guess = Logon { api_key: ApiKey([1; 32]), ..logon(BOB) };
    guesser.send(|out| (0..2).for_each(|_| put_logon(&guess, &[], out)));
    assert_eq!(guesser.next(&mut rig), Received::LogonReject(Reason::UnknownKey));
    let told = Received::Logout(SessionId::NONE, Reason::UnknownKey);
    assert_eq!([guesser.next(&mut rig), guesser.next(&mut rig)], [told, Received::Closed]);

    let mut stubborn = rig.connect();
    stubborn.send(|out| (0..17).for_each(|_| put_logon(&logon(ALICE), &[], out)));
    for _ in 0..16 {
        assert_eq!(stubborn.next(&mut rig), Received::LogonReject(Reason::AlreadyLoggedOn));
    }
    let told = Received::Logout(SessionId::NONE, Reason::TooManyErrors);
    assert_eq!([stubborn.next(&mut rig), stubborn.next(&mut rig)], [told, Received::Closed]);
    assert_eq!((rig.report().logons_refused, rig.report().ended), (17, 2));
}

#[test]
fn sessions_keep_their_places_and_one_that_leaves_makes_room() {
    let mut rig = Rig::new(2, 100);
    let first = rig.log_on(ALICE);
    let _second = rig.log_on(BOB);
    let mut third = rig.connect();
    assert_eq!(third.next(&mut rig), Received::Closed);
    assert_eq!(rig.report().connections_refused, 1);
    drop(first);
    while rig.scene().gone.is_empty() {
        rig.work();
    }
    rig.log_on(ALICE);
    assert_eq!((rig.report().accepted, rig.report().connections_refused), (3, 1));
}

#[test]
fn a_crowd_of_strangers_at_a_full_door_keeps_nobody_out() {
    let mut rig = Rig::new(4, 100);
    let mut crowd: Vec<_> = (0..20).map(|_| rig.connect()).collect();
    let mut alice = rig.log_on(ALICE);
    let mut bob = rig.log_on(BOB);
    let told = Received::Logout(SessionId::NONE, Reason::TooManyConnections);
    assert_eq!([crowd[0].next(&mut rig), crowd[0].next(&mut rig)], [told, Received::Closed]);
    crowd.extend((0..20).map(|_| rig.connect()));
    assert!(alice.is_quiet(&mut rig) && bob.is_quiet(&mut rig), "sessions make no place");
    let DoorReport { accepted, strangers_evicted, connections_refused, .. } = rig.report();
    assert_eq!((accepted, strangers_evicted, connections_refused), (42, 38, 0));
}

#[test]
fn a_host_has_so_many_connections_without_a_session_and_its_oldest_is_told_so() {
    let mut rig = Rig::new(100, 2);
    let mut first = rig.connect();
    let mut second = rig.connect();
    let mut third = rig.connect();
    let told = Received::Logout(SessionId::NONE, Reason::TooManyConnections);
    assert_eq!([first.next(&mut rig), first.next(&mut rig)], [told, Received::Closed]);
    second.send(|out| put_logon(&logon(ALICE), &[], out));
    assert_eq!(second.next(&mut rig), Received::LogonAck(ALICE));
    let mut fourth = rig.connect();
    assert!(third.is_quiet(&mut rig) && fourth.is_quiet(&mut rig));
    let DoorReport { accepted, strangers_evicted, connections_refused, .. } = rig.report();
    assert_eq!((accepted, strangers_evicted, connections_refused), (4, 1, 0));
}

#[test]
fn a_connection_that_does_not_log_on_in_time_is_told_so() {
    let mut rig = Rig::open();
    let mut peer = rig.connect();
    rig.passes(10 * SECOND);
    assert!(peer.is_quiet(&mut rig));
    rig.passes(SECOND);
    let told = Received::Logout(SessionId::NONE, Reason::LogonTimeout);
    assert_eq!([peer.next(&mut rig), peer.next(&mut rig)], [told, Received::Closed]);
    assert_eq!((rig.report().logon_timeouts, rig.report().ended), (1, 1));
}

#[test]
fn a_silent_session_gets_heartbeats_and_then_its_end() {
    let mut rig = Rig::open();
    let mut silent = rig.log_on(ALICE);
    let mut alive = rig.log_on(BOB);
    for _ in 0..4 {
        rig.passes(SECOND);
        alive.send(|out| put_frame(&beat(BOB, Nanos(1)), out));
        assert_eq!(alive.next(&mut rig), Received::Heartbeat);
        rig.work();
    }
    assert_eq!([silent.next(&mut rig), silent.next(&mut rig)], [Received::Heartbeat; 2]);
    let told = Received::Logout(ALICE, Reason::HeartbeatLost);
    assert_eq!([silent.next(&mut rig), silent.next(&mut rig)], [told, Received::Closed]);
    assert_eq!(rig.scene().gone, [ALICE]);
    rig.log_on(ALICE);
}

#[test]
fn a_wall_clock_that_is_set_makes_nobody_silent_late_or_mute() {
    let mut rig = Rig::open();
    let (mut alice, mut stranger) = (rig.log_on(ALICE), rig.connect());
    for hour in [1, 99, 0] {
        rig.set_wall_clock(Nanos(hour * 3_600 * SECOND));
        rig.passes(SECOND);
        alice.send(|out| put_frame(&beat(ALICE, Nanos(1)), out));
        assert_eq!(alice.next(&mut rig), Received::Heartbeat);
        assert!(stranger.is_quiet(&mut rig));
    }
    // Time that passes counts as before.
    (0..3).for_each(|_| rig.passes(SECOND));
    let told = Received::Logout(ALICE, Reason::HeartbeatLost);
    assert_eq!(alice.last(&mut rig), [told, Received::Closed]);
}

#[test]
fn a_key_expires_when_the_wall_clock_shows_its_moment() {
    let mut rig = Rig::open();
    let mut alice = rig.log_on(ALICE);
    let until = Nanos(3_600 * SECOND);
    rig.define(DefineSession { valid_until: until, ..session(ALICE) });
    rig.set_wall_clock(Nanos(until.0 - SECOND));
    assert!(alice.is_quiet(&mut rig));
    rig.set_wall_clock(until);
    rig.passes(SECOND / 10);
    let told = Received::Logout(ALICE, Reason::KeyExpired);
    assert_eq!(alice.last(&mut rig), [told, Received::Closed]);
}

#[test]
fn a_session_ends_when_its_key_expires_and_when_a_definition_takes_key_or_rights_from_it() {
    let until = Nanos(3 * SECOND);
    let other_key = Credential([1; 32]);
    let cases = [
        (DefineSession { valid_until: until, ..session(ALICE) }, Some(Reason::KeyExpired)),
        (DefineSession { credential: other_key, ..session(ALICE) }, Some(Reason::KeyReplaced)),
        (DefineSession { role: Role::Operator, ..session(ALICE) }, Some(Reason::NotEntitled)),
        (DefineSession { firm_id: FirmId(4), ..session(ALICE) }, Some(Reason::NotEntitled)),
        (DefineSession { in_flight_max: 9, ..session(ALICE) }, None),
        (DefineSession { credential: other_key, ..session(BOB) }, None),
    ];
    for (definition, reason) in cases {
        let mut rig = Rig::open();
        let mut alice = rig.log_on(ALICE);
        rig.define(definition);
        rig.passes(2 * SECOND);
        let told = reason.map_or(Received::Heartbeat, |reason| Received::Logout(ALICE, reason));
        assert_eq!(alice.next(&mut rig), told, "{definition:?}");
        assert_eq!(rig.report().keys_ended, u64::from(reason.is_some()));
        assert_eq!(alice.is_quiet(&mut rig), reason.is_none());
    }
}

#[test]
fn nothing_follows_a_farewell_and_the_session_is_free_at_once() {
    let mut rig = Rig::open();
    let mut alice = rig.log_on(ALICE);
    // There is always more for her.
    alice.ask(ALICE, 1, u32::MAX);
    rig.work();
    rig.define(DefineSession { role: Role::Operator, ..session(ALICE) });
    // She has not read her farewell.
    assert_eq!(rig.scene().gone, [ALICE]);
    let _again = rig.log_on(ALICE);
    let mut last = None;
    loop {
        match alice.next(&mut rig) {
            Received::Closed => break,
            received => last = Some(received),
        }
    }
    assert_eq!(last, Some(Received::Logout(ALICE, Reason::NotEntitled)));
    assert_eq!(rig.scene().gone, [ALICE], "the protocol is told once");
}

fn taking_over(id: SessionId) -> Logon {
    Logon { takeover: Switch::On, ..logon(id) }
}

/// The answer to a logon on a connection of its own, newer than the others, with the connection.
fn answer_to(rig: &mut Rig, logon: &Logon) -> (Peer, Received) {
    rig.passes(1);
    let mut peer = rig.connect();
    peer.send(|out| put_logon(logon, &[], out));
    let answer = peer.next(rig);
    (peer, answer)
}

#[test]
fn a_logon_that_asks_for_it_takes_its_session_over_and_the_old_peer_is_told() {
    let mut rig = Rig::open();
    let mut old = rig.log_on(ALICE);
    let (mut new, answer) = answer_to(&mut rig, &taking_over(ALICE));
    assert_eq!(answer, Received::LogonAck(ALICE));
    assert_eq!(rig.scene().gone, [ALICE], "the protocol is told of the end first");
    let told = Received::Logout(ALICE, Reason::TakenOver);
    assert_eq!([old.next(&mut rig), old.next(&mut rig)], [told, Received::Closed]);
    new.ask(ALICE, 1, 2);
    assert_eq!([new.next(&mut rig), new.next(&mut rig)], [Received::Heartbeat; 2]);
    assert_eq!((rig.report().sessions_taken_over, rig.report().ended), (1, 1));
}

#[test]
fn a_logon_that_is_refused_takes_nothing_over() {
    let mut rig = Rig::open();
    let mut alice = rig.log_on(ALICE);
    let wrong_key = Logon { api_key: ApiKey([1; 32]), ..taking_over(ALICE) };
    for (logon, reason) in
        [(wrong_key, Reason::UnknownKey), (logon(ALICE), Reason::AlreadyLoggedOn)]
    {
        let (_peer, answer) = answer_to(&mut rig, &logon);
        assert_eq!(answer, Received::LogonReject(reason));
    }
    let (next_event_no, epoch) = (EventNo(1), Epoch(1));
    let point = ResumePoint { next_event_no, epoch, partition_id: PartitionId(1) };
    let mut peer = rig.connect();
    peer.send(|out| put_logon(&taking_over(ALICE), &[point], out));
    assert_eq!(peer.next(&mut rig), Received::LogonReject(Reason::WrongPartition));
    // On its own connection there is nothing to take over.
    alice.send(|out| put_logon(&taking_over(ALICE), &[], out));
    assert_eq!(alice.next(&mut rig), Received::LogonReject(Reason::AlreadyLoggedOn));
    alice.ask(ALICE, 1, 1);
    assert_eq!(alice.next(&mut rig), Received::Heartbeat);
    assert_eq!(rig.report().sessions_taken_over, 0);
}

#[test]
fn a_session_of_any_role_is_taken_over_where_its_logon_asks_and_once_a_second() {
    for role in [Role::Trader, Role::Operator] {
        let mut rig = Rig::open();
        rig.define(DefineSession { role, ..session(ALICE) });
        let mut last = rig.log_on(ALICE);
        for _ in 0..3 {
            let (_peer, answer) = answer_to(&mut rig, &logon(ALICE));
            assert_eq!(answer, Received::LogonReject(Reason::AlreadyLoggedOn), "{role:?}");
            let (next, answer) = answer_to(&mut rig, &taking_over(ALICE));
            assert_eq!(answer, Received::LogonAck(ALICE));
            let taken_at = rig.now;
            let told = Received::Logout(ALICE, Reason::TakenOver);
            assert_eq!(last.last(&mut rig), [told, Received::Closed]);
            last = next;
            rig.passes(SECOND - 2);
            let (_peer, answer) = answer_to(&mut rig, &taking_over(ALICE));
            assert_eq!(answer, Received::LogonReject(Reason::AlreadyLoggedOn), "{role:?}");
            assert_eq!(rig.now, Nanos(taken_at.0 + SECOND - 1));
        }
        assert_eq!(rig.report().sessions_taken_over, 3);
    }
}

#[test]
fn a_logon_that_comes_late_on_an_older_connection_takes_nothing_over() {
    let mut rig = Rig::open();
    // Its logon is lost at first, and its peer gives it up.
    let mut given_up = rig.connect();
    rig.passes(1);
    let mut alice = rig.log_on(ALICE);
    rig.passes(2 * SECOND);
    alice.ask(ALICE, 1, 1);
    given_up.send(|out| put_logon(&taking_over(ALICE), &[], out));
    assert_eq!(given_up.next(&mut rig), Received::LogonReject(Reason::AlreadyLoggedOn));
    drop(given_up);
    rig.work();
    let mut received = Vec::new();
    while received.len() < 8 && !alice.is_quiet(&mut rig) {
        received.push(alice.next(&mut rig));
    }
    assert!(received.iter().all(|one| *one == Received::Heartbeat), "{received:?}");
    // A connection that her peer makes later does.
    let (_new, answer) = answer_to(&mut rig, &taking_over(ALICE));
    assert_eq!(answer, Received::LogonAck(ALICE));
    assert_eq!(rig.report().sessions_taken_over, 1);
}

#[test]
fn a_session_that_logs_out_in_the_cycle_of_its_next_logon_is_free_and_not_taken_over() {
    for logon in [logon(ALICE), taking_over(ALICE)] {
        let mut rig = Rig::open();
        let mut old = rig.log_on(ALICE);
        rig.passes(1);
        let mut new = rig.connect();
        let logout = Logout { session_id: ALICE, reason: Reason::LogoutRequested };
        old.send(|out| put_frame(&logout, out));
        new.send(|out| put_logon(&logon, &[], out));
        assert_eq!(new.next(&mut rig), Received::LogonAck(ALICE));
        let told = Received::Logout(ALICE, Reason::LogoutRequested);
        assert_eq!([old.next(&mut rig), old.next(&mut rig)], [told, Received::Closed]);
        assert_eq!(rig.report().sessions_taken_over, 0);
        // Nor is the limit of takeovers used up.
        let (_third, answer) = answer_to(&mut rig, &taking_over(ALICE));
        assert_eq!(answer, Received::LogonAck(ALICE));
    }
}

#[test]
fn a_takeover_waits_for_no_peer_that_does_not_read() {
    let mut rig = Rig::open();
    let mut stalled = rig.log_on(ALICE);
    stalled.ask(ALICE, 1, u32::MAX);
    rig.work();
    let (mut new, answer) = answer_to(&mut rig, &taking_over(ALICE));
    assert_eq!(answer, Received::LogonAck(ALICE));
    assert_eq!(rig.scene().gone, [ALICE]);
    new.ask(ALICE, 1, 1);
    assert_eq!(new.next(&mut rig), Received::Heartbeat);
    // Its farewell has its time.
    rig.passes(2 * SECOND);
    rig.passes(SECOND / 10);
    assert_eq!((rig.report().connections, rig.report().sessions), (1, 1));
}

#[test]
fn an_end_is_told_at_once_though_the_farewell_waits_behind_output_that_is_not_read() {
    let mut rig = Rig::open();
    let mut slow = rig.log_on(ALICE);
    slow.ask(ALICE, 1, u32::MAX);
    // What the socket takes is not under test: these fill it and the output.
    (0..100).for_each(|_| rig.work());
    rig.define(DefineSession { role: Role::Operator, ..session(ALICE) });
    assert_eq!(rig.scene().gone, [ALICE]);
    assert_eq!(slow.last(&mut rig)[1], Received::Closed);
}

#[test]
fn a_peer_that_does_not_read_is_sent_no_more_than_fits_and_is_cut_in_time() {
    let mut rig = Rig::open();
    let mut slow = rig.log_on(ALICE);
    slow.ask(ALICE, 1, u32::MAX);
    rig.work();
    while rig.report().slow_consumers == 0 {
        // What the socket takes is not under test: the output fills in the end.
        rig.passes(SECOND / 2);
        assert!(rig.now < Nanos(60 * SECOND), "it is never cut");
    }
    // It is not silent while nothing is read from it.
    slow.ask(ALICE, 2, 1);
    assert_eq!(rig.scene().taken, 1);
    let told = Received::Logout(ALICE, Reason::SlowConsumer);
    assert_eq!(slow.last(&mut rig), [told, Received::Closed]);
}

#[test]
fn a_peer_that_reads_again_gets_all_that_it_asked_for() {
    let mut rig = Rig::open();
    let mut late = rig.log_on(ALICE);
    late.ask(ALICE, 1, 200_000);
    rig.work();
    rig.passes(2 * SECOND);
    late.ask(ALICE, 2, 1);
    let mut count = 0;
    while count < 200_001 {
        assert_eq!(late.next(&mut rig), Received::Heartbeat);
        count += 1;
    }
    assert_eq!(rig.scene().taken, 2);
    assert_eq!(rig.report().slow_consumers, 0);
}

#[test]
fn bytes_that_are_no_frames_get_the_reason_and_the_end() {
    let mut too_long = Vec::new();
    put_frame(&beat(ALICE, Nanos(1)), &mut too_long);
    too_long[..4].fill(0xff);
    let cases = [
        (too_long, Reason::FrameTooLong),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), Reason::MalformedFrame),
        (vec![0; 64], Reason::MalformedFrame),
    ];
    for (bytes, reason) in cases {
        let mut rig = Rig::open();
        let mut peer = rig.connect();
        peer.send(|out| *out = bytes);
        let told = Received::Logout(SessionId::NONE, reason);
        assert_eq!([peer.next(&mut rig), peer.next(&mut rig)], [told, Received::Closed]);
        assert_eq!((rig.report().malformed, rig.report().ended), (1, 1));
    }
}

#[test]
fn a_message_out_of_place_is_refused_and_sixteen_end_the_connection() {
    let mut rig = Rig::open();
    let mut alice = rig.log_on(ALICE);
    alice.ask(BOB, 1, 1);
    assert_eq!(alice.next(&mut rig), Received::Reject(Reason::NotLoggedOn));
    alice.ask(ALICE, 0, 1);
    assert_eq!(alice.next(&mut rig), Received::Reject(Reason::FieldOutOfRange));
    let detach = DetachSubscription { correlation_id: 1, session_id: ALICE, handle: 1 };
    alice.send(|out| put_frame(&detach, out));
    assert_eq!(alice.next(&mut rig), Received::Reject(Reason::NotServedHere));
    alice.ask(ALICE, 1, 1);
    assert_eq!(alice.next(&mut rig), Received::Heartbeat);
    for _ in 3..16 {
        alice.ask(ALICE, 0, 1);
        assert_eq!(alice.next(&mut rig), Received::Reject(Reason::FieldOutOfRange));
    }
    assert_eq!(alice.next(&mut rig), Received::Logout(ALICE, Reason::TooManyErrors));
    assert_eq!((rig.report().malformed, rig.report().ended), (16, 1));
}

#[test]
fn a_message_without_room_waits_and_keeps_those_behind_it() {
    let mut rig = Rig::open();
    let mut alice = rig.log_on(ALICE);
    rig.scene().is_held = true;
    let more = AddCredit { correlation_id: 1, session_id: ALICE, pages: 0, rows: 1, bytes: 0 };
    alice.send(|out| (0..2).for_each(|_| put_frame(&more, out)));
    while rig.report().back_pressure == 0 {
        rig.work();
    }
    // It is not silent: its bytes are there and not taken.
    rig.passes(20 * SECOND);
    assert_eq!(alice.next(&mut rig), Received::Heartbeat);
    assert_eq!(rig.scene().taken, 0);
    let soon = Nanos(rig.now.0 + SECOND / 1_000);
    assert!(rig.listener.next_deadline(rig.now).is_some_and(|at| at < soon));
    assert_eq!(rig.report().back_pressure, 1);
    rig.scene().is_held = false;
    // Its silence counts from now on, although its last bytes came long ago.
    rig.passes(SECOND / 10);
    assert_eq!(rig.scene().taken, 2);
    assert_eq!([alice.next(&mut rig), alice.next(&mut rig)], [Received::Heartbeat; 2]);
    rig.passes(2 * SECOND);
    assert_eq!(alice.next(&mut rig), Received::Heartbeat);
    rig.passes(SECOND);
    assert_eq!(alice.next(&mut rig), Received::Logout(ALICE, Reason::HeartbeatLost));
}

#[test]
fn many_frames_at_once_are_taken_in_bounded_turns() {
    let mut rig = Rig::open();
    let mut alice = rig.log_on(ALICE);
    for _ in 0..8 {
        let more = AddCredit { correlation_id: 1, session_id: ALICE, pages: 0, rows: 0, bytes: 0 };
        alice.send(|out| (0..500).for_each(|_| put_frame(&more, out)));
    }
    let mut done = 0;
    while rig.scene().taken < 4_000 {
        let before = rig.scene().taken;
        rig.listener.poll(Some(Duration::from_millis(2)));
        done += rig.listener.do_work(rig.now);
        // Its input holds no more than two of the longest frames.
        assert!(rig.scene().taken - before <= 2 * CLIENT_FRAME_LEN_MAX / 32);
    }
    assert_eq!(done, 4_000);
}

#[test]
fn a_stop_tells_every_peer_and_a_node_that_drains_takes_no_more() {
    let mut rig = Rig::open();
    let (mut alice, mut stranger) = (rig.log_on(ALICE), rig.connect());
    rig.draining.store(true, Ordering::Relaxed);
    let late = TcpStream::connect(rig.address).unwrap();
    rig.work();
    assert_eq!(rig.report().accepted, 2);
    assert!(rig.listener.stop(rig.now));
    assert_eq!(alice.next(&mut rig), Received::Logout(ALICE, Reason::Stopping));
    assert_eq!(stranger.next(&mut rig), Received::Logout(SessionId::NONE, Reason::Stopping));
    assert_eq!(rig.report().ended, 0);
    drop(late);
}

#[test]
fn a_logout_is_answered_and_the_session_can_log_on_again() {
    let mut rig = Rig::open();
    let mut alice = rig.log_on(ALICE);
    let logout = Logout { session_id: ALICE, reason: Reason::LogoutRequested };
    alice.send(|out| put_frame(&logout, out));
    let told = Received::Logout(ALICE, Reason::LogoutRequested);
    assert_eq!([alice.next(&mut rig), alice.next(&mut rig)], [told, Received::Closed]);
    rig.log_on(ALICE);
    assert_eq!(rig.report().ended, 0);
}

#[test]
fn a_signed_logon_that_waits_is_taken_before_those_that_come_later() {
    let mut rig = Rig::open();
    let logon = SignedLogon {
        signature: Signature([0; 64]),
        session_id: SIGNER,
        heartbeat_interval_ms: 1_000,
        cancel_on_disconnect: Switch::Off,
        takeover: Switch::Off,
    };
    let stranger = |rig: &mut Rig, logons: usize| {
        let node_id = NodeId([9; 16]);
        let mut peer = rig.connect();
        let challenge = Challenge { nonce: Nonce([1; 32]), node_id, session_id: SIGNER };
        let sign = |_: &[u8]| Signature([0; 64]);
        peer.send(|out| (0..logons).for_each(|_| put_answer(&challenge, logon, &[], sign, out)));
        peer
    };
    let mut signer = rig.connect();
    signer.send(|out| put_frame(&ChallengeRequest { session_id: SIGNER }, out));
    let Received::Challenge(challenge) = signer.next(&mut rig) else { panic!("no challenge") };
    // Strangers use up the verifications of now.
    let mut strangers: Vec<_> = (0..5).map(|_| stranger(&mut rig, 15)).collect();
    while rig.report().back_pressure == 0 {
        rig.work();
    }
    let sign = |text: &[u8]| Signature(signing_key().sign(text).to_bytes());
    signer.send(|out| put_answer(&challenge, logon, &[], sign, out));
    rig.work();
    for _ in 0..30 {
        strangers.push(stranger(&mut rig, 1));
        rig.passes(1_000_000);
    }
    assert_eq!(signer.next(&mut rig), Received::LogonAck(SIGNER));
    assert_eq!(rig.now, Nanos(SECOND + 30_000_000), "no time passed without strangers");
}

#[cfg(feature = "planted")]
#[test]
fn every_planted_bug_of_a_listener_is_found() {
    use weir_door::plant::{self, Plant};

    let tests: [(Plant, fn()); 3] = [
        (
            Plant::NewestMakesPlace,
            a_host_has_so_many_connections_without_a_session_and_its_oldest_is_told_so,
        ),
        (Plant::LaterFramesFirst, a_signed_logon_that_waits_is_taken_before_those_that_come_later),
        (
            Plant::EndUntold,
            an_end_is_told_at_once_though_the_farewell_waits_behind_output_that_is_not_read,
        ),
    ];
    for (bug, test) in tests {
        plant::set(Some(bug));
        let is_found = std::panic::catch_unwind(test).is_err();
        plant::set(None);
        assert!(is_found, "{bug:?}");
    }
}
