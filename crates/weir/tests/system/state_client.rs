//! `StateClient`: followers and a session that reconnect by themselves when the node is killed,
//! refuses them, or has more rows than they take.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weir_client::follower::FollowerConfig;
use weir_client::session::SessionEvent;
use weir_client::{ClientError, StateClient, StateEvent};
use weir_types::{FirmId, OrderId, Reason};
use weir_wire::delivery::PageFlags;

use crate::support::address::free_address;
use crate::support::trader::Trader;
use crate::support::{
    ALICE, BOB, HANG, Home, Node, SUPERVISOR, TRADING, Who, open_market, until_free,
};

/// The events that followers received.
#[derive(Default)]
struct Received {
    orders: BTreeMap<u32, BTreeMap<OrderId, u64>>,
    pages: BTreeMap<u32, usize>,
    online: Vec<u32>,
    ended: Vec<(u32, Reason)>,
    reports: usize,
}

impl Received {
    fn hear(&mut self, event: StateEvent<'_>) {
        match event {
            StateEvent::Page { handle, head, rows, .. } => {
                *self.pages.entry(handle).or_default() += usize::from(rows.len() > 0);
                let orders = self.orders.entry(handle).or_default();
                let rows = rows.map(|row| row.unwrap().0);
                orders.extend(rows.map(|row| (row.order_id, row.leaves_qty.0)));
                if head.flags.contains(PageFlags::ONLINE) {
                    self.online.push(handle);
                }
            }
            StateEvent::Ended { handle, error: ClientError::Refused { reason, .. } } => {
                self.ended.push((handle, reason));
            }
            StateEvent::Session(event) => {
                self.reports += usize::from(matches!(*event, SessionEvent::Report { .. }));
            }
            StateEvent::Connected => {}
            other => panic!("{other:?}"),
        }
    }

    fn count(&self, handle: u32) -> usize {
        self.orders.get(&handle).map_or(0, BTreeMap::len)
    }
}

fn poll_until(client: &mut StateClient, told: &mut Received, is_there: impl Fn(&Received) -> bool) {
    let begun = Instant::now();
    while !is_there(told) {
        assert!(begun.elapsed() < HANG, "it does not come: {:?}", client.take_failure());
        client.poll(Duration::from_millis(5), &mut |event| told.hear(event)).unwrap();
    }
}

fn connect(node: &Node, who: Who) -> StateClient {
    let connected = until_free(|| {
        let mut client = StateClient::new(node.address(), who.config());
        client.connect(&mut |_| {}).map(|_| client)
    });
    connected.unwrap()
}

/// Returns the configuration of a follower of all orders.
fn all() -> FollowerConfig {
    FollowerConfig::new(SUPERVISOR.session_id)
}

#[test]
fn followers_and_orders_go_on_where_they_were_after_the_node_was_killed() {
    let home = Home::new("os").listening_on(free_address());
    let mut node = home.start();
    open_market(&node, &[ALICE, BOB]);
    Trader::log_on(&node, ALICE).ask_for_report(ALICE.sell(1, 60, 1));
    let mut client = connect(&node, BOB);
    let mut told = Received::default();
    let handle = client.follow(FollowerConfig::new(BOB.session_id), Vec::new());
    poll_until(&mut client, &mut told, |told| told.online.contains(&handle));
    assert!(matches!(client.submit(TRADING, BOB.buy(7, 50, 3)), weir_client::Submit::Sent(_)));
    poll_until(&mut client, &mut told, |told| told.count(handle) == 1 && told.reports == 1);
    node.kill();
    let node = home.start();
    Trader::log_on(&node, ALICE).ask_for_report(ALICE.sell(2, 50, 1));
    poll_until(&mut client, &mut told, |told| told.orders[&handle].values().eq([&2]));
    // Reported once: the order's entry, and its trade while the client was away.
    poll_until(&mut client, &mut told, |told| told.reports == 2);
    assert_eq!(client.connection_count(), 2);
    assert!(client.take_failure().is_some_and(|error| error.is_connection_lost()));
    client.close(HANG).unwrap();
}

#[test]
fn a_follower_on_hold_asks_no_more_and_holds_up_nobody() {
    let home = Home::new("os");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let mut alice = Trader::log_on(&node, ALICE);
    for number in 1..=20 {
        alice.ask_for_report(ALICE.sell(number, 60, 1));
    }
    let mut client = connect(&node, SUPERVISOR);
    let mut told = Received::default();
    let one_row = FollowerConfig { rows_max: 1, ..all() };
    let held = client.follow(one_row, Vec::new());
    client.hold(held);
    let other = client.follow(one_row, Vec::new());
    poll_until(&mut client, &mut told, |told| told.online.contains(&other));
    assert_eq!(told.count(other), 20);
    assert!(told.pages[&held] <= 1, "only what was asked for before: {:?}", told.pages);
    client.release(held);
    poll_until(&mut client, &mut told, |told| told.online.contains(&held));
    assert_eq!(told.count(held), 20);
}

#[test]
fn a_follower_that_is_refused_ends_alone() {
    let home = Home::new("os");
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    Trader::log_on(&node, ALICE).ask_for_report(ALICE.sell(1, 60, 1));
    let mut client = connect(&node, ALICE);
    let mut told = Received::default();
    let config = FollowerConfig::new(ALICE.session_id);
    let theirs = FollowerConfig { firm_id: FirmId(12), ..config };
    let refused = client.follow(theirs, Vec::new());
    let ours = client.follow(config, Vec::new());
    poll_until(&mut client, &mut told, |told| told.online.contains(&ours));
    poll_until(&mut client, &mut told, |told| !told.ended.is_empty());
    assert_eq!(told.ended, [(refused, Reason::NotEntitled)]);
    assert_eq!((told.count(ours), client.token(refused)), (1, None));
    client.unfollow(ours);
    let key = weir_wire::session::ApiKey([0xff; 32]);
    let stranger = weir_client::SessionConfig::new(ALICE.session_id, key);
    let error = StateClient::new(node.address(), stranger).connect(&mut |_| {}).unwrap_err();
    assert!(matches!(error, ClientError::LogonRejected { .. }), "{error}");
}
