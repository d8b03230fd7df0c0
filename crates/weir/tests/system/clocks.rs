//! A node whose wall clock is set, by little and by much, forward and back: sessions, logons and
//! rates do not notice, and log time follows within its bounds.

use std::time::Duration;

use weir_client::clock::unix_time;
use weir_client::session::{SessionConfig, SessionEvent};
use weir_client::subscription::{BrokerClient, NewSubscription, Seen, Subscription};
use weir_client::{Incoming, SigningKey};
use weir_types::{
    Credential, CredentialKind, ExecType, Nanos, OrdStatus, Reason, Side, SubscriptionKind,
    SubscriptionStatus, TimeInForce,
};
use weir_wire::Request;
use weir_wire::reference::DefineSession;

use crate::subscriptions;
use crate::support::machine::Machine;
use crate::support::trader::Trader;
use crate::support::{
    ALICE, BOB, Home, Node, TRADING, Who, definition_of, open_market, until, until_free,
};

const HOUR: i64 = 3_600;
/// Heartbeats of the node in three intervals: one for each of two partitions. A session that had
/// none for so long would be lost.
const HEARTBEATS: usize = 6;

/// Polls until the session has had heartbeats of the node, and sends its own.
fn hear_heartbeats(trader: &mut Trader) {
    let mut heard = 0;
    until("heartbeats", || {
        let sink = |incoming: Incoming<'_>, _: &mut Vec<u8>| {
            heard +=
                usize::from(matches!(incoming, Incoming::Session(_, SessionEvent::Heartbeat(_))));
        };
        trader.client.poll(Duration::from_millis(100), sink).unwrap();
        (heard >= HEARTBEATS).then_some(())
    });
}

fn signing(who: &Who) -> (SigningKey, DefineSession) {
    let key = who.signing_key();
    let (credential, credential_kind) = (Credential(key.public()), CredentialKind::Ed25519);
    (key, DefineSession { credential, credential_kind, ..definition_of(who) })
}

#[test]
fn no_step_of_the_wall_clock_ends_or_mutes_a_session_or_hangs_a_logon() {
    let home = Home::new("disk");
    let machine = Machine::new(&home);
    let node = machine.start(&home);
    open_market(&node, &[ALICE, BOB]);
    let (key, definition) = signing(&BOB);
    node.admin().define_session(definition).unwrap();
    let config = SessionConfig { heartbeat_interval_ms: 1_000, ..ALICE.config() };
    let mut alice = Trader::log_on_as(&node, ALICE, config);
    for (number, ahead_s) in (1..).zip([10, -20, 0, 30, 0, 26 * HOUR, -HOUR]) {
        machine.set_wall_clock(ahead_s);
        hear_heartbeats(&mut alice);
        let bob = SessionConfig::new(BOB.session_id, key);
        let mut bob = Trader::log_on_as(&node, BOB, bob);
        bob.ask_for_report(BOB.sell(number, 60, 1));
        let entered = alice.ask_for_report(ALICE.buy(number, 50, 1));
        assert_eq!(entered.ord_status, OrdStatus::New, "{ahead_s}");
    }
    let said = home.said();
    assert!(said.contains("the wall clock was set"), "{said}");
    assert!(node.terminate().success());
    home.verify(TRADING);
}

#[test]
fn a_rate_recovers_after_a_step_back_and_over_a_restart() {
    let home = Home::new("disk");
    let machine = Machine::new(&home);
    let mut node = machine.start(&home);
    open_market(&node, &[ALICE]);
    let limited = DefineSession { order_rate_max: 2, ..definition_of(&ALICE) };
    node.admin().define_session(limited).unwrap();
    let mut number = 0;
    let mut enter = |alice: &mut Trader| {
        number += 1;
        alice.ask_for_report(ALICE.buy(number, 50, 1)).reason
    };
    for restarts in [false, true] {
        let mut alice = Trader::log_on(&node, ALICE);
        until("the rate", || (enter(&mut alice) == Reason::Throttled).then_some(()));
        machine.set_wall_clock(-HOUR);
        if restarts {
            drop(alice);
            assert!(node.terminate().success());
            node = machine.start(&home);
            alice = Trader::log_on(&node, ALICE);
        }
        until("room again", || (enter(&mut alice) == Reason::None).then_some(()));
        machine.set_wall_clock(0);
    }
    let told = home.said();
    assert!(told.contains("the wall clock is behind log time"), "{told}");
}

#[test]
fn a_far_step_brings_what_is_due_within_an_hour_once_and_is_told() {
    let home = Home::new("disk");
    let machine = Machine::new(&home);
    let node = machine.start(&home);
    open_market(&node, &[ALICE]);
    let mut alice = Trader::log_on(&node, ALICE);
    let now = unix_time().0;
    let mut enter = |number: u64, in_s: u64| {
        let mut order = ALICE.order(number, Side::Buy, 50, 1).new_order();
        order.time_in_force = TimeInForce::Gtd;
        order.expire_time = Nanos(now + in_s * 1_000_000_000);
        assert_eq!(alice.ask_for_report(Request::NewOrder(order)).ord_status, OrdStatus::New);
        order.expire_time
    };
    let (soon, _late) = (enter(1, 1_800), enter(2, 5 * 3_600));
    machine.set_wall_clock(26 * HOUR);
    let expired = alice.report_where(|event| event.exec_type == ExecType::Expired);
    assert!(expired.transact_time >= soon, "not before its time");
    let row = node.partition_when(TRADING, |row| row["log_time_jumps"] == 1);
    assert!(row["log_time_behind_ns"].as_u64() > Some(0), "{row}");
    machine.set_wall_clock(0);
    node.partition_when(TRADING, |row| row["log_time_ahead_ns"].as_u64() > Some(0));
    alice.settle();
    let expiries = alice.reports().iter().filter(|r| r.event.exec_type == ExecType::Expired);
    assert_eq!(expiries.count(), 1, "the one that was due, once");
    let said = home.said();
    assert!(said.contains("log time went forward to the wall clock"), "{said}");
    assert!(node.terminate().success());
    home.verify(TRADING);
}

#[test]
fn a_start_tells_the_time_by_which_log_time_went_forward() {
    let home = Home::new("disk");
    let machine = Machine::new(&home);
    let jump = |node: &Node| {
        let row = node.partition_when(TRADING, |_| true);
        row["log_time_start_jump_ns"].as_u64().expect("a figure")
    };
    let node = machine.start(&home);
    open_market(&node, &[ALICE]);
    assert_eq!(jump(&node), 0, "its log is new");
    assert!(node.terminate().success());
    machine.set_wall_clock(72 * HOUR);
    let node = machine.start(&home);
    let days = 72 * HOUR.unsigned_abs() * 1_000_000_000;
    until("the figure", || (jump(&node) >= days).then_some(()));
    let row = node.partition_when(TRADING, |_| true);
    assert_eq!((&row["log_time_jumps"], &row["log_time_behind_ns"]), (&0.into(), &0.into()));
    let told = "the log's last command is more than a day old at the start";
    until("the line", || home.said().contains(told).then_some(()));
    assert!(home.said().contains("An outage or an idle market explains that"));
    // Its logs are of that time now.
    let mut alice = Trader::log_on(&node, ALICE);
    alice.ask_for_report(ALICE.buy(1, 50, 1));
    drop(alice);
    assert!(node.terminate().success());
    let node = machine.start(&home);
    until("the line of a short outage", || {
        home.said()
            .contains("log time went forward at the start, from the log's last")
            .then_some(())
    });
    assert!(jump(&node) < days && !home.said().contains(told), "{}", home.said());
    assert!(node.terminate().success());
    home.verify(TRADING);
}

#[test]
fn a_subscription_that_is_left_after_a_step_does_not_expire_at_the_next_start() {
    let home = Home::with_config("disk", "[subscriptions]\nlisten = \"127.0.0.1:0\"\n");
    let machine = Machine::new(&home);
    let node = machine.start(&home);
    open_market(&node, &[ALICE]);
    machine.set_wall_clock(HOUR);
    let half_an_hour = Duration::from_secs(1_800);
    let mut number = 0;
    let of = |node: &Node| BrokerClient::new(subscriptions::address(node), ALICE.config());
    let mut broker = of(&node);
    let name = until("the broker's thread to know of the step", || {
        number += 1;
        let name = format!("fills-{number}");
        let new = NewSubscription::new(&name, SubscriptionKind::Executions);
        broker.create(&NewSubscription { expire_after: half_an_hour, ..new }).unwrap();
        let listed = broker.list(ALICE.firm_id).unwrap();
        let one = listed.into_iter().find(|one| one.name == name).expect("it was created");
        let is_after = one.state.detached_time.0 > unix_time().0 + 1_800_000_000_000;
        (is_after && one.state.status == SubscriptionStatus::Live).then_some(name)
    });
    assert!(node.terminate().success());
    let node = machine.start(&home);
    let listed = of(&node).list(ALICE.firm_id).unwrap();
    let one = listed.iter().find(|one| one.name == name).expect("it is kept");
    assert_eq!(one.state.status, SubscriptionStatus::Live);
}

#[test]
fn a_glitch_of_the_wall_clock_ends_no_subscription_and_takes_no_execution() {
    let config = "[subscriptions]\nlisten = \"127.0.0.1:0\"\nexpire_after_s = 1800\n\
                  expire_grace_s = 0\nquota_age_s = 1800\n";
    let home = Home::with_config("disk", config);
    let machine = Machine::new(&home);
    let node = machine.start(&home);
    open_market(&node, &[ALICE, BOB]);
    let fills = NewSubscription::new("fills", SubscriptionKind::Executions);
    subscriptions::make(&node, ALICE, &fills);
    subscriptions::trade(&node, 1..11);
    // Two hours for a moment, once in service and once at a start.
    machine.set_wall_clock(2 * HOUR);
    let mut broker = BrokerClient::new(subscriptions::address(&node), ALICE.config());
    until("the broker's thread to know of the step", || {
        // Her connection of before may not have ended yet.
        let one = until_free(|| broker.list(ALICE.firm_id)).unwrap().remove(0);
        (one.state.detached_time.0 > unix_time().0 + 1_800_000_000_000).then_some(())
    });
    drop(broker);
    machine.set_wall_clock(0);
    assert!(node.terminate().success());
    machine.set_wall_clock(2 * HOUR);
    let node = machine.start(&home);
    machine.set_wall_clock(0);
    subscriptions::trade(&node, 11..21);
    let at = subscriptions::address(&node);
    let mut fills = Subscription::new(at, ALICE.config(), "fills", Seen::new());
    assert_eq!(subscriptions::take(&mut fills, 20).len(), 20, "each execution of both runs");
}
