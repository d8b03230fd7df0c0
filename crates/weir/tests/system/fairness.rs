//! Fairness: one session's rate is limited, and the other sessions are served.

use weir_client::SessionConfig;
use weir_types::{OrdStatus, Reason};
use weir_wire::reference::DefineSession;

use crate::support::trader::Trader;
use crate::support::{ALICE, BOB, Home, Node, definition_of, open_market, until};

/// More requests than a session may send at once at any rate.
const TOO_MANY: u64 = 1_500;

fn counter(node: &Node, name: &str) -> u64 {
    node.status()["gateway"][name].as_u64().expect("a counter")
}

#[test]
fn a_session_far_beyond_its_rate_is_held_and_stays_while_others_are_served() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let definition = DefineSession { order_rate_max: 1, ..definition_of(&ALICE) };
    node.admin().define_session(definition).unwrap();
    let config = SessionConfig { unanswered_count_max: 2 * TOO_MANY as usize, ..ALICE.config() };
    let mut alice = Trader::log_on_as(&node, ALICE, config);
    let mut bob = Trader::log_on(&node, BOB);
    let mut number = 0;
    let mut enter = |alice: &mut Trader| {
        number += 1;
        alice.ask_for_report(ALICE.buy(number, 50, 1)).reason
    };
    // Once the partition knows the session's limit, so does its gateway.
    until("the bound", || (enter(&mut alice) == Reason::Throttled).then_some(()));
    let before = counter(&node, "requests");
    for extra in 0..TOO_MANY {
        alice.send(ALICE.buy(10_000 + extra, 50, 1));
    }
    alice.client.flush().unwrap();
    until("the session to be held", || (counter(&node, "held_to_rate") > 0).then_some(()));
    assert!(counter(&node, "requests") - before < TOO_MANY, "some were to wait");
    let report = bob.ask_for_report(BOB.buy(1, 40, 1));
    assert_eq!(report.ord_status, OrdStatus::New);
    // With another limit, all waiting requests are read.
    let definition = DefineSession { order_rate_max: 0, ..definition };
    node.admin().define_session(definition).unwrap();
    alice.settle();
    let refused = alice.reports().iter().filter(|r| r.event.reason == Reason::Throttled).count();
    assert!(refused as u64 > TOO_MANY / 2, "{refused} refused");
}
