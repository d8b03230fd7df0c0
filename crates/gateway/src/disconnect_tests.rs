//! Cancel on disconnect between the gateway and a partition: the choices and losses that enter the
//! ring, their order, and the sessions that do not return after a start. Lines drive the gateway.

use weir_types::{Nanos, SessionId, Switch};
use weir_wire::reference::{SessionChoice, SessionLost};
use weir_wire::{Command, Request};

use crate::GatewayConfig;
use crate::second_protocol::{Client, Node, OTHER_SESSION};

const ALICE: SessionId = SessionId(3);
const BOB: SessionId = OTHER_SESSION;

/// Returns a node whose partition takes nothing.
fn stalled() -> Node {
    let mut node = Node::new();
    node.is_stalled = true;
    node
}

fn chose(session_id: SessionId, cancel_on_disconnect: Switch) -> Command {
    Command::SessionChoice(SessionChoice { session_id, cancel_on_disconnect })
}

fn lost(session_id: SessionId) -> Command {
    Command::SessionLost(SessionLost { session_id, cancel_on_disconnect: Switch::On })
}

fn welcomed(node: &mut Node, client: &mut Client, logon: &str) {
    let lines = client.say(node, logon);
    assert!(lines.iter().any(|line| line.starts_with("welcome ")), "{logon:?}: {lines:?}");
}

#[test]
fn a_choice_is_submitted_when_the_log_holds_another_one() {
    let mut node = stalled();
    let mut client = node.connect();
    let rounds: [(&str, &[Command]); 7] = [
        ("logon 3 7\n", &[]),
        ("logout 3\n", &[]),
        ("bind 3 7\n", &[chose(ALICE, Switch::On)]),
        ("logout 3\n", &[lost(ALICE)]),
        ("logon 3 7\n", &[]),
        ("bind 4 7\n", &[chose(BOB, Switch::On)]),
        ("logout 0\n", &[lost(BOB)]),
    ];
    for (line, commands) in rounds {
        client.say(&mut node, line);
        assert_eq!(node.submissions(), commands, "{line:?}");
    }
}

#[test]
fn a_full_ring_lets_no_request_pass_its_sessions_loss_or_choice() {
    let mut node = stalled();
    let mut client = node.connect();
    welcomed(&mut node, &mut client, "bind 3 7\n");
    node.submissions();
    node.fill_ring();
    // The connection ends with room for nothing; the session returns on another one.
    drop(client);
    let mut client = node.connect();
    client.listen(&mut node, 20);
    welcomed(&mut node, &mut client, "bind 3 7\n");
    assert!(client.say(&mut node, "new 3 1 1 buy 10 100\n").is_empty());
    assert_eq!(node.submissions(), [], "the ring held ticks alone");
    client.listen(&mut node, 20);
    let submitted = node.submissions();
    assert_eq!(submitted[..2], [lost(ALICE), chose(ALICE, Switch::On)]);
    let [.., Command::Request(Request::NewOrder(order))] = submitted[..] else {
        panic!("{submitted:?}")
    };
    assert_eq!((submitted.len(), order.session_id), (3, ALICE));
}

/// Steps until the time to return after the start is over.
fn outlast_absence(node: &mut Node, client: &mut Client) {
    let until = Nanos(node.now.0 + GatewayConfig::default().return_within.0);
    while node.now <= until {
        // What is heard of the client keeps its session.
        client.say(node, "alive 3\nalive 4\n");
    }
}

#[test]
fn a_session_that_does_not_return_after_a_start_is_lost_and_one_that_returns_is_not() {
    for (logon, on_logon, when_over) in [
        ("bind 4 7\n", vec![chose(BOB, Switch::On)], vec![lost(ALICE)]),
        // The log holds the choice already.
        ("bind 3 7\n", vec![], vec![]),
        ("logon 3 7\n", vec![chose(ALICE, Switch::Off)], vec![]),
    ] {
        let mut node = stalled();
        node.await_return(ALICE);
        let mut client = node.connect();
        welcomed(&mut node, &mut client, logon);
        assert_eq!(node.submissions(), on_logon, "{logon:?}");
        outlast_absence(&mut node, &mut client);
        assert_eq!(node.submissions(), when_over, "{logon:?}");
        outlast_absence(&mut node, &mut client);
        assert_eq!(node.submissions(), [], "{logon:?}, once");
    }
}

#[test]
fn a_session_that_returned_and_left_is_lost_once() {
    let mut node = stalled();
    node.await_return(ALICE);
    let mut client = node.connect();
    welcomed(&mut node, &mut client, "bind 3 7\n");
    // Another session keeps the connection.
    welcomed(&mut node, &mut client, "logon 4 7\n");
    client.say(&mut node, "logout 3\n");
    assert_eq!(node.submissions(), [lost(ALICE)]);
    outlast_absence(&mut node, &mut client);
    assert_eq!(node.submissions(), []);
}

#[test]
fn a_wall_clock_that_is_set_takes_nobody_the_time_to_return_and_gives_nobody_more() {
    const DAY: u64 = 86_400_000_000_000;
    let walls: [fn(u64) -> u64; 2] = [|now| now + DAY, |now| now.saturating_sub(DAY)];
    for wall in walls {
        let mut node = stalled();
        node.await_return(ALICE);
        let mut client = node.connect();
        welcomed(&mut node, &mut client, "bind 4 7\n");
        assert_eq!(node.submissions(), [chose(BOB, Switch::On)]);
        node.set_wall_clock(Nanos(wall(node.now.0)));
        client.say(&mut node, "alive 4\n");
        assert_eq!(node.submissions(), []);
        outlast_absence(&mut node, &mut client);
        assert_eq!(node.submissions(), [lost(ALICE)]);
    }
}
