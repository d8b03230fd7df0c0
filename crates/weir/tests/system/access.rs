//! Authentication: both kinds of key, challenges, expiry, replaced keys, one live session per
//! identity, and the limit on a session's unanswered requests.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::ops::RangeInclusive;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_client::request::stamp;
use weir_client::session::SessionEvent;
use weir_client::{Client, ClientError, Limits, SessionConfig};
use weir_types::{Credential, CredentialKind, Nanos, Reason, RequestNo, SessionId};
use weir_wire::challenge::CHALLENGE_COUNT_MAX;
use weir_wire::dialogue::put_request;
use weir_wire::frame::{FRAME_HEADER_LEN, put_frame};
use weir_wire::reference::DefineSession;
use weir_wire::session::{Challenge, Logon, LogonReject, Logout, NodeId, SignedLogon};
use weir_wire::{Message, NodeMessage};

use crate::support::trader::Trader;
use crate::support::wire::{Wire, logon_of, signed_logon_of};
use crate::support::{
    ALICE, BOB, HANG, Home, Node, OPERATOR, SUPERVISOR, TRADING, Who, definition_of, open_market,
    trader_of, until,
};

const NOBODY: Who = trader_of(99);
/// The number of malformed messages and refused logons after which a connection is closed.
const ERRORS_MAX: usize = 16;

/// Returns a market where Alice has a key pair and Bob an API key.
fn market() -> (Home, Node) {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    node.admin().define_session(signing(&ALICE)).unwrap();
    (home, node)
}

fn signing(who: &Who) -> DefineSession {
    DefineSession {
        credential: Credential(who.signing_key().public()),
        credential_kind: CredentialKind::Ed25519,
        ..definition_of(who)
    }
}

fn signing_config(who: &Who) -> SessionConfig {
    SessionConfig::new(who.session_id, who.signing_key())
}

/// Logs `who` on by signature on a new connection.
fn signed_on(node: &Node, who: &Who) -> Wire {
    let mut wire = Wire::connect(node);
    let challenge = wire.challenge(who);
    wire.try_signed(&signed_logon_of(who, &challenge)).unwrap();
    wire
}

fn count(node: &Node, name: &str) -> u64 {
    node.status()["gateway"][name].as_u64().expect("a counter")
}

fn counted(node: &Node, name: &str, want: u64) {
    until(name, || (count(node, name) >= want).then_some(()));
    assert_eq!(count(node, name), want, "{name}");
}

/// Asserts that the logon was refused with the one answer for strangers and the connection closed.
fn strangers_answer(mut wire: Wire, refused: Result<impl std::fmt::Debug, LogonReject>, of: &Who) {
    let refused = refused.unwrap_err();
    assert_eq!((refused.reason, refused.session_id), (Reason::UnknownKey, of.session_id));
    assert_eq!(wire.logout(), (SessionId::NONE, Reason::UnknownKey));
    wire.closed();
}

#[test]
fn a_session_logs_on_by_signature_trades_and_resumes() {
    let (_home, node) = market();
    let mut alice = Trader::log_on_as(&node, ALICE, signing_config(&ALICE));
    alice.ask_for_report(ALICE.buy(1, 50, 1));
    alice.client.reconnect(HANG, &mut |_, _| {}).unwrap();
    let report = alice.ask_for_report(ALICE.buy(2, 50, 1));
    assert_eq!(report.request_no, RequestNo(2));
    let said = node.get("/metrics").1;
    for name in ["challenges", "signatures_checked", "api_keys_checked", "keys_ended"] {
        assert!(said.contains(&format!("weir_gateway_{name}_total ")), "{name}");
    }
}

#[test]
fn the_client_signs_for_no_other_node_than_the_one_it_means() {
    let (_home, node) = market();
    let real = Wire::connect(&node).challenge(&ALICE).node_id;
    let log_on = |node_id| {
        let config = SessionConfig { node_id: Some(node_id), ..signing_config(&ALICE) };
        Client::connect(node.address(), Limits::default()).unwrap().log_on(config, HANG)
    };
    let refused = log_on(NodeId([7; 16])).unwrap_err();
    assert!(matches!(refused, ClientError::WrongNode { got, .. } if got == real), "{refused}");
    log_on(real).unwrap();
}

#[test]
fn more_signing_sessions_than_challenges_log_on_over_one_connection() {
    let home = Home::new("memory");
    let node = home.start();
    let traders: Vec<Who> =
        (0..CHALLENGE_COUNT_MAX as u32 + 5).map(|n| trader_of(20 + n)).collect();
    open_market(&node, &traders);
    let mut admin = node.admin();
    traders.iter().for_each(|who| admin.define_session(signing(who)).unwrap());
    let mut client = Client::connect(node.address(), Limits::default()).unwrap();
    for who in &traders {
        client.start_logon(weir_client::Session::new(signing_config(who)));
    }
    client.wait_until_open(HANG, &mut |_, _| {}).unwrap();
    client.reconnect(HANG, &mut |_, _| {}).unwrap();
}

#[test]
fn challenges_given_before_the_first_logon_are_good_after_it() {
    let (_home, node) = market();
    node.admin().define_session(signing(&BOB)).unwrap();
    let mut wire = Wire::connect(&node);
    let (alices, bobs) = (wire.challenge(&ALICE), wire.challenge(&BOB));
    wire.try_signed(&signed_logon_of(&ALICE, &alices)).unwrap();
    wire.try_signed(&signed_logon_of(&BOB, &bobs)).unwrap();
    let again = wire.try_signed(&signed_logon_of(&BOB, &bobs)).unwrap_err();
    assert_eq!(again.reason, Reason::UnknownChallenge, "it was used");
}

#[test]
fn a_signed_logon_that_is_sent_again_is_refused() {
    let (_home, node) = market();
    let mut wire = Wire::connect(&node);
    let challenge = wire.challenge(&ALICE);
    let frame = signed_logon_of(&ALICE, &challenge);
    wire.try_signed(&frame).unwrap();
    let again = wire.try_signed(&frame).unwrap_err();
    assert_eq!(again.reason, Reason::UnknownChallenge, "on its own connection");
    let again = Wire::connect(&node).try_signed(&frame).unwrap_err();
    assert_eq!(again.reason, Reason::UnknownChallenge, "on another connection");
    // A client that recorded the logon must ask for a challenge too, and receives another nonce.
    let mut other = Wire::connect(&node);
    assert_ne!(other.challenge(&ALICE).nonce, challenge.nonce);
    let again = other.try_signed(&frame);
    strangers_answer(other, again, &ALICE);
}

#[test]
fn a_refused_signature_uses_its_challenge_up_too() {
    let (_home, node) = market();
    let mut wire = signed_on(&node, &ALICE);
    let challenge = wire.challenge(&ALICE);
    let frame = signed_logon_of(&ALICE, &challenge);
    assert_eq!(wire.try_signed(&frame).unwrap_err().reason, Reason::AlreadyLoggedOn);
    assert_eq!(wire.try_signed(&frame).unwrap_err().reason, Reason::UnknownChallenge);
}

#[test]
fn a_challenge_is_one_sessions_and_ends_with_the_next() {
    let (_home, node) = market();
    let mut wire = Wire::connect(&node);
    let bobs = wire.challenge(&BOB);
    let refused = wire.try_signed(&signed_logon_of(&ALICE, &bobs)).unwrap_err();
    assert_eq!(refused.reason, Reason::UnknownChallenge, "another session's challenge");
    let first = wire.challenge(&ALICE);
    let second = wire.challenge(&ALICE);
    assert_ne!(first.nonce, second.nonce);
    let refused = wire.try_signed(&signed_logon_of(&ALICE, &first));
    strangers_answer(wire, refused, &ALICE);
}

#[test]
fn a_signature_for_another_node_opens_nothing_here() {
    let (_home, node) = market();
    let (_other_home, other) = market();
    let mut there = Wire::connect(&other);
    let mut here = Wire::connect(&node);
    let challenge = here.challenge(&ALICE);
    let node_id = there.challenge(&ALICE).node_id;
    assert_ne!(node_id, challenge.node_id);
    // A node that relays another node's nonce as its own.
    let relayed = Challenge { node_id, ..challenge };
    let refused = here.try_signed(&signed_logon_of(&ALICE, &relayed));
    strangers_answer(here, refused, &ALICE);
}

#[test]
fn nothing_of_a_signed_logon_can_be_changed_on_its_way() {
    let (_home, node) = market();
    let place = |name: &str| {
        let field = SignedLogon::FIELDS.iter().find(|field| field.name == name);
        FRAME_HEADER_LEN + field.expect("a logon has it").offset
    };
    for name in ["signature", "heartbeat_interval_ms", "cancel_on_disconnect", "takeover"] {
        let mut wire = Wire::connect(&node);
        let challenge = wire.challenge(&ALICE);
        let mut frame = signed_logon_of(&ALICE, &challenge);
        frame[place(name)] ^= 1;
        let refused = wire.try_signed(&frame);
        strangers_answer(wire, refused, &ALICE);
    }
}

#[test]
fn every_stranger_gets_the_same_answer_by_either_way() {
    let (_home, node) = market();
    let by_key = |who: &Who, key_of: &Who| {
        let mut wire = Wire::connect(&node);
        let logon = Logon { api_key: key_of.key(), ..logon_of(who) };
        let refused = wire.try_log_on(&logon, &[]);
        strangers_answer(wire, refused, who);
    };
    let by_signature = |who: &Who, key_of: &Who| {
        let mut wire = Wire::connect(&node);
        let challenge = wire.challenge(who);
        let forger = Who { session_id: key_of.session_id, ..*who };
        let mut frame = signed_logon_of(&forger, &challenge);
        let session = signed_logon_of(who, &challenge);
        let at = FRAME_HEADER_LEN + 64;
        if key_of.session_id != who.session_id {
            frame[at..at + 4].copy_from_slice(&session[at..at + 4]);
        }
        let refused = wire.try_signed(&frame);
        strangers_answer(wire, refused, who);
    };
    // Alice has a key pair, Bob an API key, and the last session does not exist.
    let cases = [(ALICE, ALICE), (ALICE, BOB), (BOB, NOBODY), (NOBODY, ALICE), (NOBODY, NOBODY)];
    cases.iter().for_each(|(who, key_of)| by_key(who, key_of));
    let cases = [(BOB, BOB), (ALICE, BOB), (ALICE, NOBODY), (NOBODY, ALICE), (NOBODY, NOBODY)];
    cases.iter().for_each(|(who, key_of)| by_signature(who, key_of));
    // Two of them are the operator's logons.
    counted(&node, "api_keys_checked", 2 + 5);
    counted(&node, "signatures_checked", 5);
    counted(&node, "logons_refused", 10);
    counted(&node, "sessions", 0);
}

#[test]
fn that_a_key_has_expired_is_told_to_who_has_it_and_to_nobody_else() {
    let (_home, node) = market();
    let past = Nanos(1);
    let mut admin = node.admin();
    for definition in [signing(&ALICE), definition_of(&BOB)] {
        admin.define_session(DefineSession { valid_until: past, ..definition }).unwrap();
    }
    let mut wire = Wire::connect(&node);
    let refused = wire.try_log_on(&logon_of(&BOB), &[]).unwrap_err();
    assert_eq!(refused.reason, Reason::KeyExpired);
    let challenge = wire.challenge(&ALICE);
    let refused = wire.try_signed(&signed_logon_of(&ALICE, &challenge)).unwrap_err();
    assert_eq!(refused.reason, Reason::KeyExpired);
    // The connection stays open: the client did not guess a key.
    let wrong = Logon { api_key: ALICE.key(), ..logon_of(&BOB) };
    let refused = wire.try_log_on(&wrong, &[]);
    strangers_answer(wire, refused, &BOB);
    let mut wire = Wire::connect(&node);
    let challenge = wire.challenge(&ALICE);
    let refused = wire.try_signed(&signed_logon_of(
        &ALICE,
        &Challenge { nonce: weir_wire::session::Nonce([0; 32]), ..challenge },
    ));
    strangers_answer(wire, refused, &ALICE);
}

#[test]
fn a_session_ends_when_its_key_expires() {
    let (_home, node) = market();
    let mut alice = signed_on(&node, &ALICE);
    let mut bob = Wire::connect(&node);
    bob.log_on(&logon_of(&BOB));
    node.admin()
        .define_session(DefineSession { valid_until: Nanos(1), ..signing(&ALICE) })
        .unwrap();
    assert_eq!(alice.logout(), (ALICE.session_id, Reason::KeyExpired));
    alice.request(&stamp(ALICE.buy(1, 50, 1), ALICE.session_id, RequestNo(1)));
    assert_eq!(alice.reject().reason, Reason::NotLoggedOn);
    counted(&node, "keys_ended", 1);
    // Other sessions stay, and so do sessions whose key is valid for longer.
    let later = Nanos(u64::MAX);
    node.admin()
        .define_session(DefineSession { valid_until: later, ..definition_of(&BOB) })
        .unwrap();
    bob.request(&stamp(BOB.buy(1, 50, 1), BOB.session_id, RequestNo(1)));
    bob.expect("a report", |message| {
        matches!(message, NodeMessage::ExecutionReport(_)).then_some(())
    });
}

#[test]
fn a_replaced_key_ends_who_came_in_by_the_old_one_and_their_orders_if_so_chosen() {
    let (_home, node) = market();
    let config = SessionConfig { cancel_on_disconnect: true, ..signing_config(&ALICE) };
    let mut thief = Trader::log_on_as(&node, ALICE, config);
    thief.ask_for_report(ALICE.buy(1, 50, 1));
    node.admin().define_session(definition_of(&ALICE)).unwrap();
    let ended = until("the thief's end", || thief.poll(Duration::from_millis(100)).err());
    let is_it = matches!(
        ended,
        ClientError::LoggedOut { session_id, reason: Reason::KeyReplaced }
            if session_id == ALICE.session_id
    );
    assert!(is_it, "{ended}");
    node.partition_when(TRADING, |row| row["live_orders"] == 0);
    let mut wire = Wire::connect(&node);
    let challenge = wire.challenge(&ALICE);
    let refused = wire.try_signed(&signed_logon_of(&ALICE, &challenge));
    strangers_answer(wire, refused, &ALICE);
    Trader::log_on(&node, ALICE);
}

/// The number of all fetches on a shared connection: each session has its own.
const FETCH: u64 = 7;

/// A supervisor and Bob on one connection. The supervisor waits for changes of all orders, with
/// credit for many pages, and has had a page.
fn supervisor_beside_bob(node: &Node) -> Wire {
    let mut wire = Wire::connect(node);
    wire.log_on(&logon_of(&SUPERVISOR));
    wire.log_on(&logon_of(&BOB));
    wire.fetch(SUPERVISOR.session_id, FETCH, 1_000);
    wire.page_of(SUPERVISOR.session_id, SessionId::NONE);
    wire
}

/// Lets orders change, and has Bob served behind each change: none of them reaches the supervisor.
fn supervisor_gets_nothing(wire: &mut Wire, numbers: RangeInclusive<u64>) {
    for number in numbers {
        wire.add_credit(BOB.session_id, FETCH, 1_000);
        let order = BOB.buy(number, 40, 1);
        wire.request(&stamp(order, BOB.session_id, RequestNo(number)));
        wire.expect("a report", |message| {
            if let NodeMessage::OrderPage(page, _) = message {
                assert_ne!(page.session_id, SUPERVISOR.session_id, "it has ended: {page:?}");
            }
            matches!(message, NodeMessage::ExecutionReport(_)).then_some(())
        });
        wire.fetch(BOB.session_id, FETCH + number, 1);
        wire.page_of(BOB.session_id, SUPERVISOR.session_id);
    }
}

/// Ends a session at a node.
pub type End = fn(&Node, &mut Wire);

/// Returns the ways in which a supervisor's session ends while its connection lives on, each with
/// the reason in its logout.
pub fn ends_of_a_supervisor() -> [(Reason, End); 3] {
    [
        (Reason::LogoutRequested, |_, wire| {
            let (session_id, reason) = (SUPERVISOR.session_id, Reason::None);
            let mut bytes = Vec::new();
            put_frame(&Logout { session_id, reason }, &mut bytes);
            wire.send(&bytes);
        }),
        (Reason::KeyReplaced, |node, _| {
            let credential = definition_of(&ALICE).credential;
            redefine(node, DefineSession { credential, ..definition_of(&SUPERVISOR) });
        }),
        (Reason::KeyExpired, |node, _| {
            let first = definition_of(&SUPERVISOR);
            redefine(node, DefineSession { valid_until: Nanos(1), ..first });
        }),
    ]
}

/// Defines a session anew.
fn redefine(node: &Node, definition: DefineSession) {
    node.admin().define_session(definition).unwrap();
}

#[test]
fn a_session_that_has_ended_gets_no_order_state_although_its_connection_lives_on() {
    let (_home, node) = market();
    Trader::log_on_as(&node, ALICE, signing_config(&ALICE)).ask_for_report(ALICE.sell(1, 60, 1));
    for (round, (reason, end)) in (0..).zip(ends_of_a_supervisor()) {
        let mut wire = supervisor_beside_bob(&node);
        end(&node, &mut wire);
        assert_eq!(wire.logout(), (SUPERVISOR.session_id, reason));
        let number = 10 * round + 1;
        supervisor_gets_nothing(&mut wire, number..=number + 3);
        drop(wire);
        until("the end of the connection", || (count(&node, "sessions") == 0).then_some(()));
        redefine(&node, definition_of(&SUPERVISOR));
    }
}

#[test]
fn a_session_cannot_continue_another_sessions_fetch() {
    let (_home, node) = market();
    let mut alice = Trader::log_on_as(&node, ALICE, signing_config(&ALICE));
    let mut wire = Wire::connect(&node);
    wire.log_on(&logon_of(&SUPERVISOR));
    wire.log_on(&logon_of(&BOB));
    wire.fetch(SUPERVISOR.session_id, FETCH, 2);
    alice.ask_for_report(ALICE.sell(1, 60, 1));
    let page = wire.page_of(SUPERVISOR.session_id, SessionId::NONE);
    wire.add_credit(BOB.session_id, FETCH, 1_000);
    alice.ask_for_report(ALICE.sell(2, 60, 1));
    // With credit for two pages it had one left, and has none after the next.
    let mut left = page.credit_left;
    while left > 0 {
        let page = wire.expect("a page", |message| match message {
            NodeMessage::OrderPage(page, _) => Some(*page),
            _ => None,
        });
        assert_eq!(page.credit_left, left - 1, "Bob's credit is not the supervisor's");
        left = page.credit_left;
    }
}

#[test]
fn the_same_key_again_leaves_a_session_where_it_is() {
    let (_home, node) = market();
    let mut alice = Trader::log_on_as(&node, ALICE, signing_config(&ALICE));
    node.admin().define_session(DefineSession { in_flight_max: 9, ..signing(&ALICE) }).unwrap();
    // The gateway handles the new definition, and any logout it causes, before this challenge.
    Wire::connect(&node).challenge(&BOB);
    counted(&node, "challenges", 2);
    alice.ask_for_report(ALICE.buy(1, 50, 1));
    counted(&node, "keys_ended", 0);
}

#[test]
fn one_identity_has_one_live_session_whatever_it_proves_itself_by() {
    let (_home, node) = market();
    let mut first = signed_on(&node, &ALICE);
    let mut second = Wire::connect(&node);
    let challenge = second.challenge(&ALICE);
    let refused = second.try_signed(&signed_logon_of(&ALICE, &challenge)).unwrap_err();
    assert_eq!(refused.reason, Reason::AlreadyLoggedOn);
    first.request(&stamp(ALICE.buy(1, 50, 1), ALICE.session_id, RequestNo(1)));
    first.expect("a report", |message| {
        matches!(message, NodeMessage::ExecutionReport(_)).then_some(())
    });
    counted(&node, "sessions", 1);
}

#[test]
fn a_session_whose_connection_went_silent_logs_on_again_elsewhere() {
    let (_home, node) = market();
    let mut silent = Wire::connect(&node);
    silent.log_on(&Logon { heartbeat_interval_ms: 100, ..logon_of(&BOB) });
    assert_eq!(silent.logout(), (BOB.session_id, Reason::HeartbeatLost));
    let mut again = Wire::connect(&node);
    again.log_on(&logon_of(&BOB));
    // The dead connection no longer holds the session.
    silent.request(&stamp(BOB.buy(1, 50, 1), BOB.session_id, RequestNo(1)));
    assert_eq!(silent.reject().reason, Reason::NotLoggedOn);
}

#[test]
fn too_many_refused_logons_cost_the_connection() {
    let (_home, node) = market();
    let _live = signed_on(&node, &ALICE);
    let mut wire = Wire::connect(&node);
    for attempt in 1..=ERRORS_MAX {
        let challenge = wire.challenge(&ALICE);
        let refused = wire.try_signed(&signed_logon_of(&ALICE, &challenge)).unwrap_err();
        assert_eq!(refused.reason, Reason::AlreadyLoggedOn, "attempt {attempt}");
    }
    assert_eq!(wire.logout(), (SessionId::NONE, Reason::TooManyErrors));
    wire.closed();
    // Logons by API key count towards the same limit.
    let mut bob = Wire::connect(&node);
    bob.log_on(&logon_of(&BOB));
    let mut wire = Wire::connect(&node);
    for _ in 1..=ERRORS_MAX {
        let refused = wire.try_log_on(&logon_of(&BOB), &[]).unwrap_err();
        assert_eq!(refused.reason, Reason::AlreadyLoggedOn);
    }
    assert_eq!(wire.logout(), (SessionId::NONE, Reason::TooManyErrors));
    wire.closed();
}

#[test]
fn a_connection_has_so_many_open_challenges_and_no_more() {
    let (_home, node) = market();
    let mut wire = Wire::connect(&node);
    for number in 0..CHALLENGE_COUNT_MAX as u32 {
        assert!(wire.try_challenge(SessionId(1_000 + number)).is_ok());
    }
    let refused = wire.try_challenge(ALICE.session_id).unwrap_err();
    assert_eq!(refused.reason, Reason::TooManyChallenges);
    assert_eq!(refused.session_id, ALICE.session_id);
    let refused = wire.try_challenge(SessionId(2_000)).unwrap_err();
    assert_eq!(refused.reason, Reason::TooManyChallenges, "as for a session that is not there");
    // Another connection has its own limit.
    signed_on(&node, &ALICE);
}

#[test]
fn more_signatures_than_are_verified_at_once_wait_and_are_all_answered() {
    let (_home, node) = market();
    let nonce = weir_wire::session::Nonce([0; 32]);
    let challenge = Challenge { nonce, node_id: NodeId([0; 16]), session_id: ALICE.session_id };
    let burst = signed_logon_of(&ALICE, &challenge).repeat(ERRORS_MAX - 1);
    let mut wires: Vec<Wire> = (0..8).map(|_| Wire::connect(&node)).collect();
    wires.iter_mut().for_each(|wire| wire.send(&burst));
    for wire in &mut wires {
        for _ in 0..ERRORS_MAX - 1 {
            assert_eq!(wire.logon_answer().unwrap_err().reason, Reason::UnknownChallenge);
        }
    }
    counted(&node, "signatures_checked", 8 * (ERRORS_MAX as u64 - 1));
}

/// Connections that send bad signatures, and come again when they are cut.
struct Flood {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Flood {
    fn begin(node: &Node, connections: usize) -> Flood {
        let (nonce, node_id) = (weir_wire::session::Nonce([0; 32]), NodeId([0; 16]));
        let challenge = Challenge { nonce, node_id, session_id: ALICE.session_id };
        let burst = signed_logon_of(&ALICE, &challenge).repeat(ERRORS_MAX);
        let (address, is_over) = (node.address(), Arc::new(AtomicBool::new(false)));
        let stranger = |_| {
            let (burst, is_over) = (burst.clone(), is_over.clone());
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    // A test that fails takes its node along.
                    let Ok(mut stream) = TcpStream::connect(address) else { return };
                    stream.set_read_timeout(Some(HANG)).unwrap();
                    stream.set_write_timeout(Some(HANG)).unwrap();
                    let sent = stream.write_all(&burst);
                    // Refusals, and the node's end of the connection, which may be a reset.
                    let ended = sent.and_then(|()| stream.read_to_end(&mut Vec::new()));
                    if let Err(error) = ended {
                        assert_ne!(error.kind(), ErrorKind::WouldBlock, "the node is silent");
                    }
                }
            })
        };
        Flood { threads: (0..connections).map(stranger).collect(), is_over }
    }

    fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn a_signed_logon_has_its_turn_in_a_flood_of_bad_signatures() {
    let (_home, node) = market();
    let flood = Flood::begin(&node, 32);
    until("signatures that wait", || (count(&node, "back_pressure") > 0).then_some(()));
    for _ in 0..5 {
        let mut alice = signed_on(&node, &ALICE);
        let (session_id, reason) = (ALICE.session_id, Reason::None);
        let mut bye = Vec::new();
        put_frame(&Logout { session_id, reason }, &mut bye);
        alice.send(&bye);
        assert_eq!(alice.logout(), (session_id, Reason::LogoutRequested));
    }
    // It goes on: more signatures wait than one connection may have refused.
    let (waited, checked) = (count(&node, "back_pressure"), count(&node, "signatures_checked"));
    until("the flood after the logons", || {
        let has_waited = count(&node, "back_pressure") > waited;
        let has_checked = count(&node, "signatures_checked") > checked + ERRORS_MAX as u64;
        (has_waited && has_checked).then_some(())
    });
    flood.end();
}

#[test]
fn a_public_key_that_is_none_is_refused_by_name() {
    let (_home, node) = market();
    let mut neutral = [0; 32];
    neutral[0] = 1;
    for bytes in [[0; 32], neutral] {
        let definition = DefineSession { credential: Credential(bytes), ..signing(&BOB) };
        let refused = node.admin().define_session(definition).unwrap_err();
        let is_it = matches!(
            &refused,
            ClientError::Refused { reason: Reason::FieldOutOfRange, subject, .. }
                if subject == "credential"
        );
        assert!(is_it, "{refused}");
    }
    Trader::log_on(&node, BOB);
}

#[test]
fn a_session_has_no_more_unanswered_requests_than_it_may() {
    const WINDOW: u32 = 2;
    const BURST: u64 = 24;
    let (_home, node) = market();
    let bounded = DefineSession { in_flight_max: WINDOW, ..definition_of(&BOB) };
    node.admin().define_session(bounded).unwrap();
    let mut wire = Wire::connect(&node);
    assert_eq!(wire.log_on(&logon_of(&BOB)).in_flight_max, WINDOW, "the window is told");
    let mut bytes = Vec::new();
    for number in 1..=BURST {
        let order = BOB.buy(number, 50, 1);
        put_request(&stamp(order, BOB.session_id, RequestNo(number)), &mut bytes);
    }
    wire.send(&bytes);
    let (mut taken, mut refused): (Vec<RequestNo>, Vec<RequestNo>) = Default::default();
    while taken.len() + refused.len() < BURST as usize {
        let answer = wire.expect("an answer", |message| match message {
            NodeMessage::ExecutionReport(report) => Some(Ok(report.event.request_no)),
            NodeMessage::Reject(reject) => Some(Err(*reject)),
            _ => None,
        });
        match answer {
            Ok(request_no) => taken.push(request_no),
            Err(reject) => {
                assert_eq!(reject.reason, Reason::TooManyInFlight);
                refused.push(reject.request_no);
            }
        }
    }
    // The node reads one write as a whole, before it can answer any request of it.
    assert_eq!(taken.first(), Some(&RequestNo(1)));
    assert!(!refused.is_empty());
    counted(&node, "in_flight_refused", refused.len() as u64);
    drop(wire);
    // Each answer reopens the window by one request, however many other reports an order causes.
    until("the end of the session", || (count(&node, "sessions") == 0).then_some(()));
    let mut bob = Trader::log_on(&node, BOB);
    let mut alice = Trader::log_on_as(&node, ALICE, signing_config(&ALICE));
    for number in 100..=120 {
        alice.ask_for_report(ALICE.sell(number, 70, 1));
        alice.ask_for_report(ALICE.sell(number + 1_000, 70, 1));
        bob.ask_for_report(BOB.buy(number, 70, 2));
    }
    counted(&node, "in_flight_refused", refused.len() as u64);
}

/// Runs `weir ARGS` as the operator.
fn weir(node: &Node, args: &[&str]) -> Output {
    let key: String = OPERATOR.key().0.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg(args[0]).env("WEIR_API_KEY", key);
    if args[0] != "keygen" {
        command.args(["--node", &node.address().to_string(), "--http", node.http()]);
    }
    command.args(&args[1..]).output().unwrap()
}

#[test]
fn an_operator_gets_a_key_pair_and_works_with_it() {
    let (home, node) = market();
    let path = |name: &str| home.path(name).to_str().unwrap().to_owned();
    let (secret, public) = (path("carol.key"), path("carol.key.pub"));
    assert!(weir(&node, &["keygen", "--out", &secret]).status.success());
    let define = ["admin", "session", "--id", "9", "--role", "operator", "--public-key", &public];
    let defined = weir(&node, &[&define[..], &["--expires", "+10m"]].concat());
    assert!(defined.status.success(), "{defined:?}");
    let firm = ["admin", "--session", "9", "--signing-key", &secret, "firm", "--id", "77"];
    let named = weir(&node, &[&firm[..], &["--name", "CAROL"]].concat());
    assert!(named.status.success(), "{named:?}");
    // If the pair is lost, the same session gets an API key, and the pair is refused.
    let redefined = weir(&node, &["admin", "session", "--id", "9", "--new-key"]);
    assert!(redefined.status.success(), "{redefined:?}");
    let refused = weir(&node, &[&firm[..], &["--name", "CAROL"]].concat());
    assert!(!refused.status.success());
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains(Reason::UnknownKey.text()), "{said}");
}

#[test]
fn cancel_on_disconnect_is_taken_from_a_signed_logon() {
    let (_home, node) = market();
    let config = SessionConfig { cancel_on_disconnect: true, ..signing_config(&ALICE) };
    let mut alice = Trader::log_on_as(&node, ALICE, config);
    alice.ask_for_report(ALICE.buy(1, 50, 1));
    node.partition_when(TRADING, |row| row["live_orders"] == 1);
    drop(alice);
    node.partition_when(TRADING, |row| row["live_orders"] == 0);
    let mut again = Trader::log_on_as(&node, ALICE, signing_config(&ALICE));
    let answer = again.ask(ALICE.buy(2, 50, 1));
    assert!(matches!(answer, SessionEvent::Report { .. }), "{answer:?}");
}
