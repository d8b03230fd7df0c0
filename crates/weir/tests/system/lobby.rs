//! Connections without a logon: the time limit, and the limit per address.

use weir_client::request::stamp;
use weir_types::{Reason, RequestNo, SessionId};
use weir_wire::dialogue::{NodeMessage, put_logon, put_request};

use crate::support::wire::{Wire, logon_of};
use crate::support::{ALICE, BOB, Home, Node, open_market, until};

fn market(gateway: &str) -> (Home, Node) {
    let home = Home::with_config("memory", &format!("[gateway]\n{gateway}\n"));
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    (home, node)
}

fn counter(node: &Node, name: &str) -> u64 {
    node.status()["gateway"][name].as_u64().expect("a counter")
}

#[test]
fn a_connection_that_does_not_log_on_in_time_is_closed_with_the_reason_and_counted() {
    let (_home, node) = market("logon_timeout_ms = 100");
    let mut alice = Wire::connect(&node);
    alice.log_on(&logon_of(&ALICE));
    let mut silent = Wire::connect(&node);
    assert_eq!(silent.logout(), (SessionId::NONE, Reason::LogonTimeout));
    silent.closed();
    until("the counter", || (counter(&node, "logon_timeouts") == 1).then_some(()));
    // A connection with a session stays, however long it is open: its request is read, and rejected
    // for the missing number.
    alice.request(&stamp(ALICE.buy(1, 50, 1), ALICE.session_id, RequestNo::NONE));
    assert_eq!(alice.reject().reason, Reason::FieldOutOfRange);
}

#[test]
fn a_connection_that_its_last_session_left_has_the_time_of_a_new_one() {
    let (_home, node) = market("logon_timeout_ms = 100");
    let mut wire = Wire::connect(&node);
    wire.log_on(&logon_of(&ALICE));
    let mut bye = Vec::new();
    let logout = weir_wire::session::Logout {
        session_id: ALICE.session_id,
        reason: Reason::LogoutRequested,
    };
    weir_wire::frame::put_frame(&logout, &mut bye);
    wire.send(&bye);
    assert_eq!(wire.logout(), (ALICE.session_id, Reason::LogoutRequested));
    assert_eq!(wire.logout(), (SessionId::NONE, Reason::LogonTimeout));
    wire.closed();
}

#[test]
fn places_are_of_those_that_have_logged_on_and_of_those_that_have_not() {
    let (_home, node) = market("connections_max = 2");
    // A connection's slot is free once its end is counted.
    let ended = |want| {
        let count =
            || counter(&node, "connections_cut") + counter(&node, "connections_closed_by_peer");
        until("an end", || (count() == want).then_some(()));
    };
    ended(1);
    until("the operator's connection", || (counter(&node, "accepted") == 1).then_some(()));
    let mut alice = Wire::connect(&node);
    alice.log_on(&logon_of(&ALICE));
    let mut bob = Wire::connect(&node);
    bob.log_on(&logon_of(&BOB));
    Wire::connect(&node).closed();
    until("the refusal", || (counter(&node, "connections_refused") == 1).then_some(()));
    drop(alice);
    ended(2);
    Wire::connect(&node).log_on(&logon_of(&ALICE));
}

#[test]
fn a_crowd_of_strangers_at_a_full_door_keeps_nobody_out() {
    let (_home, node) = market("connections_max = 3\nlogon_timeout_ms = 600000");
    let mut alice = Wire::connect(&node);
    alice.log_on(&logon_of(&ALICE));
    let mut first = Wire::connect(&node);
    let _crowd: Vec<_> = (0..20).map(|_| Wire::connect(&node)).collect();
    assert_eq!(first.logout(), (SessionId::NONE, Reason::TooManyConnections));
    first.closed();
    let mut bob = Wire::connect(&node);
    bob.log_on(&logon_of(&BOB));
    // A session makes no place: its request is read, and rejected for the missing number.
    for (wire, who) in [(&mut alice, ALICE), (&mut bob, BOB)] {
        wire.request(&stamp(who.buy(1, 50, 1), who.session_id, RequestNo::NONE));
        assert_eq!(wire.reject().reason, Reason::FieldOutOfRange);
    }
    assert_eq!(counter(&node, "connections_refused"), 0);
}

#[test]
fn what_comes_with_a_logon_is_taken_after_it() {
    let (_home, node) = market("");
    let mut wire = Wire::connect(&node);
    let mut bytes = Vec::new();
    put_logon(&logon_of(&ALICE), &[], &mut bytes);
    put_request(&stamp(ALICE.buy(1, 50, 1), ALICE.session_id, RequestNo(1)), &mut bytes);
    put_request(&stamp(ALICE.buy(2, 50, 1), ALICE.session_id, RequestNo(2)), &mut bytes);
    // The last request is cut, and its rest arrives when the connection has left the lobby.
    let cut = bytes.len() - 10;
    wire.send(&bytes[..cut]);
    wire.logon_answer().unwrap();
    wire.send(&bytes[cut..]);
    for want in 1..=2 {
        let request_no = wire.expect("a report", |message| match message {
            NodeMessage::ExecutionReport(report) => Some(report.event.request_no),
            _ => None,
        });
        assert_eq!(request_no, RequestNo(want));
    }
}

#[test]
fn the_oldest_stranger_of_an_address_makes_place_for_a_newer_one() {
    let (_home, node) = market("lobby_per_address_max = 2");
    let mut first = Wire::connect(&node);
    let mut second = Wire::connect(&node);
    let _third = Wire::connect(&node);
    assert_eq!(first.logout(), (SessionId::NONE, Reason::TooManyConnections));
    first.closed();
    second.log_on(&logon_of(&ALICE));
    let mut fourth = Wire::connect(&node);
    fourth.log_on(&logon_of(&BOB));
    // The figures lag: they also add up before the first connection is counted.
    until("the counters", || {
        let ended =
            counter(&node, "connections_cut") + counter(&node, "connections_closed_by_peer");
        let accounted = ended + counter(&node, "connections") == counter(&node, "accepted");
        let is_told = counter(&node, "strangers_evicted") == 1;
        (accounted && is_told && counter(&node, "connections") == 3).then_some(())
    });
    assert!(node.get("/metrics").1.contains("weir_gateway_strangers_evicted_total 1"));
}
