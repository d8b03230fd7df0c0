//! A token from before the stores' oldest change is valid at a router as at its node: the dropped
//! orders come from the node's files.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_client::request::LimitOrder;
use weir_types::{Side, TimeInForce};

use crate::rig::{ROUTER, Rig, Router, mirror};
use crate::support::address::free_address;
use crate::support::following::{Following, latest_states};
use crate::support::trader::Trader;
use crate::support::{ALICE, BOB, Home, Node, SUPERVISOR, definition_of, open_market, until};
use crate::test_core::TestCore;

fn pass(trader: &mut Trader, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let order = trader.who.order(number, Side::Buy, 40, 1);
        let order = LimitOrder { time_in_force: TimeInForce::Ioc, ..order };
        trader.send(order.request());
        if number % 200 == 0 {
            trader.settle();
            trader.forget();
        }
    }
    trader.settle();
}

fn pages_of(node: &Node) -> u64 {
    node.status()["cold"][0]["pages"].as_u64().expect("a figure")
}

#[test]
fn a_token_of_the_morning_is_served_through_a_router() {
    let rig = Rig::new(&[]);
    let address = free_address();
    let config = rig.token_key()
        + "ended_orders_max = 1024\n[delivery.cold]\ninterval_ms = 20\nsegment_bytes = 65536\n";
    let home = Home::with_config("memory", &config).listening_on(address);
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    node.admin().define_session(definition_of(&ROUTER)).unwrap();
    let (session, key) =
        (ROUTER.session_id, rig.path(&format!("session-{}.key", ROUTER.session_id)));
    let behind = rig.router_config(ROUTER, &[])
        + &format!(
            "[[router.backend]]\naddress = \"{address}\"\nsources = [1]\n\
             session = {session}\nkey_file = {key:?}\n"
        );
    let router = Router::start(&behind);
    router.until_serving(1);
    let mut alice = Trader::log_on(&node, ALICE);
    for number in 1..=10 {
        alice.ask_for_report(ALICE.sell(number, 60, 10));
    }
    let states = |alice: &Trader| latest_states(alice.reports().iter().map(|r| &r.event));
    let before = states(&alice);
    let mut morning = router.follow(SUPERVISOR, Vec::new());
    morning.until(&before);
    let token = morning.follower.token().to_vec();
    morning.log_out();
    pass(&mut alice, 1_000..4_000);
    let after = states(&alice);
    let mut wanted = after.clone();
    wanted.retain(|id, state| before.get(id) != Some(state));
    let mut again: Following = router.follow(SUPERVISOR, token);
    again.until(&wanted);
    assert_eq!((&again.resyncs[..], &again.refusals[..]), (&[][..], &[][..]));
    assert!(pages_of(&node) > 0, "{}", node.status()["cold"]);
    // Past the files the reader is live.
    alice.ask_for_report(ALICE.sell(20, 61, 1));
    let mut wanted = states(&alice);
    wanted.retain(|id, state| before.get(id) != Some(state));
    again.until(&wanted);
}

#[test]
fn a_sources_token_of_the_morning_is_served_through_a_router() {
    let mut rig = Rig::new(&[]);
    let cold = "ended_orders_max = 4096\n[delivery.cold]\ninterval_ms = 500\n";
    rig.add_backend_with(&[21], cold);
    rig.cores.push(TestCore::new(rig.backends[0].ingest, 21));
    let router = Router::start(&rig.config_of_all(ROUTER));
    rig.trade(60);
    router.until_serving(1);
    let mut morning = router.follow(SUPERVISOR, Vec::new());
    rig.until_same(&mut morning);
    let token = morning.follower.token().to_vec();
    morning.log_out();
    let mut wanted = rig.cores[0].rows.clone();
    for _ in 0..50 {
        (0..100).for_each(|_| rig.cores[0].pass());
        rig.until_fed();
    }
    // The orders from before the token have not changed since.
    let before = std::mem::replace(&mut wanted, rig.cores[0].rows.clone());
    wanted.retain(|rec, _| !before.contains_key(rec));
    let wanted: BTreeMap<_, _> = wanted.into_values().map(|row| (row.order_id, row)).collect();
    let mut again = router.follow(SUPERVISOR, token);
    until("all that came since", || {
        again.poll(Duration::from_millis(5)).unwrap();
        (mirror(&again) == wanted).then_some(())
    });
    assert_eq!((&again.resyncs[..], &again.refusals[..]), (&[][..], &[][..]));
    let status = rig.backends[0].node().status();
    assert!(status["cold_sources"][0]["pages"].as_u64() > Some(0), "{}", status["cold_sources"]);
}
