//! Order state by token: the latest state of each order, across restarts, and never more than the
//! session is entitled to.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_client::follower::{Follower, FollowerConfig};
use weir_client::request::cancel_all;
use weir_client::request::{Replace, cancel};
use weir_client::{ClientError, OpenOrders};
use weir_types::{ClOrdId, FirmId, InstrumentId, OrderId, Price, Qty, Reason, SessionId};

use crate::support::following::{Following, OrderState, latest_states};
use crate::support::trader::Trader;
use crate::support::{
    ALICE, BOB, HANG, Home, INSTRUMENT, Node, OPERATOR, SUPERVISOR, TRADING, open_market, until,
};

/// Trades a morning's orders: live, replaced, cancelled, partly and wholly filled. `from` is the
/// first order's number.
fn trade(alice: &mut Trader, bob: &mut Trader, from: u64) {
    let name = ClOrdId::from_number;
    for number in from..from + 6 {
        alice.ask_for_report(ALICE.sell(number, 60, 10));
    }
    alice.ask_for_report(cancel(name(from + 900), name(from), INSTRUMENT));
    let replace = Replace {
        cl_ord_id: name(from + 901),
        orig_cl_ord_id: name(from + 1),
        instrument_id: INSTRUMENT,
        price: Price(59),
        order_qty: Qty(12),
    };
    alice.ask_for_report(replace.request());
    // 12 lots at 59, then 4 of 10 at 60; Bob's second order rests.
    bob.ask_for_report(BOB.buy(from, 60, 16));
    bob.ask_for_report(BOB.buy(from + 1, 40, 3));
    alice.settle();
    bob.settle();
}

fn states_of(traders: [&Trader; 2]) -> BTreeMap<OrderId, OrderState> {
    latest_states(traders.into_iter().flat_map(Trader::reports).map(|report| &report.event))
}

fn market() -> (Home, Node, Trader, Trader) {
    let home = Home::new("os");
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let mut alice = Trader::log_on(&node, ALICE);
    let mut bob = Trader::log_on(&node, BOB);
    trade(&mut alice, &mut bob, 1);
    (home, node, alice, bob)
}

/// Returns a session's open orders, by the open-order query.
fn open_orders(trader: &mut Trader, wanted: OpenOrders) -> BTreeMap<OrderId, OrderState> {
    let session_id = trader.who.session_id;
    let rows = trader.client.open_orders(session_id, wanted, HANG, &mut |_, _| {}).unwrap();
    rows.iter().map(|row| (row.order_id, OrderState::of_row(row))).collect()
}

#[test]
fn the_open_orders_are_those_whose_reports_were_seen_and_that_did_not_end() {
    let (_home, node, mut alice, mut bob) = market();
    let live = |trader: &Trader| -> BTreeMap<OrderId, OrderState> {
        let mut states = states_of([trader, trader]);
        states.retain(|_, state| state.ord_status.is_live());
        states
    };
    let (of_alice, of_bob) = (live(&alice), live(&bob));
    assert!(of_alice.len() > 2 && of_bob.len() == 1);
    assert_eq!(open_orders(&mut alice, OpenOrders::default()), of_alice);
    assert_eq!(open_orders(&mut bob, OpenOrders::default()), of_bob);
    let elsewhere = OpenOrders { instrument_id: InstrumentId(77), ..OpenOrders::default() };
    assert!(open_orders(&mut alice, elsewhere).is_empty());
    let of_nobody = OpenOrders { entered_by: SessionId(77), ..OpenOrders::default() };
    assert!(open_orders(&mut alice, of_nobody).is_empty());
    let bobs = OpenOrders { firm_id: BOB.firm_id, ..OpenOrders::default() };
    let refused = alice.client.open_orders(ALICE.session_id, bobs, HANG, &mut |_, _| {});
    let is_it = matches!(refused, Err(ClientError::Refused { reason: Reason::NotEntitled, .. }));
    assert!(is_it, "{refused:?}");
    drop(node);
}

#[test]
fn an_order_is_among_the_open_ones_as_soon_as_its_report_is_seen() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let mut alice = Trader::log_on(&node, ALICE);
    for number in 1..=300 {
        let order_id = alice.ask_for_report(ALICE.buy(number, 50, 1)).order_id;
        let open = open_orders(&mut alice, OpenOrders::default());
        assert_eq!(open.len() as u64, number);
        assert!(open.contains_key(&order_id), "order {number} was told and is not there");
    }
}

#[test]
fn a_follower_sees_the_latest_state_of_every_order_and_then_each_change() {
    let (_home, node, mut alice, mut bob) = market();
    let mut following = Following::start(&node, SUPERVISOR, Vec::new());
    following.until(&states_of([&alice, &bob]));
    assert_eq!(following.row_count, 8, "each order came once, as it is");
    trade(&mut alice, &mut bob, 11);
    following.until(&states_of([&alice, &bob]));
    assert!(following.resyncs.is_empty());
}

#[test]
fn a_trader_follows_its_own_firm_only_whatever_it_asks_for() {
    let (_home, node, alice, bob) = market();
    let everybody = states_of([&alice, &bob]);
    let mut own = everybody.clone();
    own.retain(|_, state| state.firm_id == ALICE.firm_id);
    assert!(!own.is_empty() && own.len() < everybody.len());
    // The session is to follow on its own connection.
    alice.client.log_out(HANG).unwrap();
    for firm_id in [FirmId::NONE, ALICE.firm_id] {
        let config =
            FollowerConfig { keep_orders: true, firm_id, ..FollowerConfig::new(ALICE.session_id) };
        let mut following = Following::start_as(&node, ALICE, Follower::new(config, Vec::new()));
        following.until(&own);
        following.log_out();
    }
    let config = FollowerConfig {
        keep_orders: true,
        firm_id: BOB.firm_id,
        ..FollowerConfig::new(ALICE.session_id)
    };
    let mut curious = Following::start_as(&node, ALICE, Follower::new(config, Vec::new()));
    while curious.refusals.is_empty() {
        curious.poll(Duration::from_millis(20)).unwrap();
    }
    assert_eq!((&*curious.refusals, curious.row_count), (&[Reason::NotEntitled][..], 0));
    // An operator sees all orders.
    let mut operator = Following::start(&node, OPERATOR, Vec::new());
    operator.until(&everybody);
}

#[test]
fn a_token_kept_over_a_restart_goes_on_where_it_was() {
    let (home, node, mut alice, mut bob) = market();
    let mut following = Following::start(&node, SUPERVISOR, Vec::new());
    let before = states_of([&alice, &bob]);
    following.until(&before);
    let token = following.follower.token().to_vec();
    assert!(!token.is_empty());
    trade(&mut alice, &mut bob, 21);
    let after = states_of([&alice, &bob]);
    assert!(node.terminate().success());

    let node = home.start();
    let mut again = Following::start(&node, SUPERVISOR, token);
    let changed = after.iter().filter(|(id, state)| before.get(id) != Some(state));
    again.until(&changed.map(|(id, state)| (*id, *state)).collect());
    assert!(again.resyncs.is_empty());
    again.log_out();
    // A reader that kept its orders with its token has the complete state.
    following.go_on(node.address()).unwrap();
    following.until(&after);
    assert!(following.resyncs.is_empty());
}

#[test]
fn a_forged_token_is_refused_and_the_follower_begins_again() {
    let (_home, node, alice, bob) = market();
    let mut following = Following::start(&node, SUPERVISOR, Vec::new());
    following.until(&states_of([&alice, &bob]));
    let token = following.follower.token().to_vec();
    following.log_out();
    let mut flipped = token.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for forged in [flipped, token[..token.len() - 1].to_vec(), vec![7; 58], vec![0]] {
        let mut following = Following::start(&node, SUPERVISOR, forged);
        following.until(&states_of([&alice, &bob]));
        assert_eq!(following.resyncs, [Reason::ResyncToken]);
        following.log_out();
    }
    // A supervisor's token is refused to a session with a narrower entitlement.
    let mut own = states_of([&alice, &bob]);
    own.retain(|_, state| state.firm_id == ALICE.firm_id);
    alice.client.log_out(HANG).unwrap();
    let mut narrower = Following::start(&node, ALICE, token);
    narrower.until(&own);
    assert_eq!(narrower.resyncs, [Reason::ResyncFilter]);
}

#[test]
fn a_follower_of_live_orders_is_told_when_one_ends() {
    let (_home, node, mut alice, mut bob) = market();
    let config = FollowerConfig {
        keep_orders: true,
        live_only: true,
        ..FollowerConfig::new(SUPERVISOR.session_id)
    };
    let live = |traders: [&Trader; 2]| {
        let mut states = states_of(traders);
        states.retain(|_, state| state.ord_status.is_live());
        states
    };
    let mut following = Following::start_as(&node, SUPERVISOR, Follower::new(config, Vec::new()));
    following.until(&live([&alice, &bob]));
    trade(&mut alice, &mut bob, 31);
    following.until(&live([&alice, &bob]));
    alice.ask(cancel_all(TRADING));
    alice.settle();
    following.until(&live([&alice, &bob]));
    assert!(following.states().values().all(|state| state.session_id == BOB.session_id));
}

#[test]
fn a_reader_gets_no_more_than_its_credit_and_all_of_it_when_it_gives_back_what_it_took() {
    let (_home, node, alice, bob) = market();
    let config = FollowerConfig {
        keep_orders: true,
        credit: 100,
        credit_rows: 4,
        ..FollowerConfig::new(SUPERVISOR.session_id)
    };
    let mut reader = Following::start_as(&node, SUPERVISOR, Follower::new(config, Vec::new()));
    reader.give_credit = false;
    let wanted = states_of([&alice, &bob]);
    assert!(wanted.len() > 4);
    until("four rows", || {
        reader.poll(Duration::from_millis(5)).unwrap();
        (reader.row_count >= 4).then_some(())
    });
    for _ in 0..20 {
        reader.poll(Duration::from_millis(10)).unwrap();
    }
    assert_eq!(reader.row_count, 4, "not one more than the credit");
    reader.give_credit = true;
    reader.until(&wanted);
    assert_eq!(reader.follower.question_count(), 1, "one question was enough");
}
