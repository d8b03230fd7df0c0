//! Two exchanges behind one router: each trades orders of its own, under a number of its own.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use weir_client::ClientError;
use weir_client::follower::Follower;
use weir_types::{InstrumentId, OrderId, PartitionId, Reason};
use weir_wire::delivery::OrderRow;

use crate::rig::{Backend, ROUTER, Rig, Router, config_of, mirror, of_source};
use crate::support::following::Following;
use crate::support::trader::Trader;
use crate::support::{ALICE, BOB, Home, SUPERVISOR, instrument, open_market, until};

/// Enters orders at an exchange that rest, trade in part, and end. `first` is the number of the
/// first: names of orders are used once.
fn trade(at: &Backend, first: u64) {
    let (mut alice, mut bob) = (Trader::log_on(at.node(), ALICE), Trader::log_on(at.node(), BOB));
    for number in first..first + 40 {
        let price = 100 + (number % 20).cast_signed();
        alice.send(ALICE.sell(number, price, 10));
        bob.send(BOB.buy(number, price - 1, 1 + number % 15));
    }
    alice.settle();
    bob.settle();
}

/// Returns a reader of one exchange's own orders at its node, from this token on.
fn at_node(at: &Backend, token: Vec<u8>) -> Following {
    let mut reader =
        Following::start_as(at.node(), SUPERVISOR, Follower::new(config_of(SUPERVISOR), token));
    reader.until_online();
    reader
}

/// Checks that a reader from a token has the orders of the last `trade` as they are at the node,
/// and not all orders.
fn assert_has_what_changed(changed: &BTreeMap<OrderId, OrderRow>, at: &Backend) {
    let reader = at_node(at, Vec::new());
    let all = mirror(&reader);
    reader.log_out();
    assert!((80..all.len()).contains(&changed.len()), "{} of {}", changed.len(), all.len());
    assert!(changed.iter().all(|(id, row)| all[id] == *row));
}

fn orders_at(rig: &Rig) -> BTreeMap<OrderId, OrderRow> {
    let mut all = BTreeMap::new();
    for exchange in &rig.backends {
        let reader = at_node(exchange, Vec::new());
        all.extend(mirror(&reader));
        reader.log_out();
    }
    all
}

#[test]
fn a_router_joins_the_own_orders_of_two_exchanges() {
    let mut rig = Rig::new(&[]);
    rig.add_exchange(7);
    rig.add_exchange(9);
    let router = Router::start(&rig.config_of_all(ROUTER));
    rig.backends.iter().for_each(|exchange| trade(exchange, 1));
    router.until_serving(2);
    let mut reader = router.follow(SUPERVISOR, Vec::new());
    let joined = |reader: &mut Following, rig: &Rig| {
        let wanted = orders_at(rig);
        until("the orders of both", || {
            reader.poll(Duration::from_millis(5)).unwrap();
            (mirror(reader) == wanted).then_some(())
        });
        wanted
    };
    let wanted = joined(&mut reader, &rig);
    for exchange in [7, 9].map(PartitionId) {
        let count = wanted.keys().filter(|id| id.partition() == exchange).count();
        assert_eq!(count, 80, "of {exchange}");
    }
    assert!(wanted.iter().all(|(id, row)| row.partition_id == id.partition()));

    // Restarted in turn, they go on, and no reader begins again.
    for exchange in &mut rig.backends {
        exchange.kill();
        exchange.start();
        trade(exchange, 1_001);
    }
    joined(&mut reader, &rig);
    assert_eq!((&reader.resyncs[..], &reader.refusals[..]), (&[][..], &[][..]));
    reader.log_out();

    // A token of one exchange's node goes to the router, and the router's back to the node.
    let of_nine = at_node(&rig.backends[1], Vec::new());
    let token = of_nine.follower.token().to_vec();
    of_nine.log_out();
    trade(&rig.backends[1], 2_001);
    let follower = Follower::new(of_source(config_of(SUPERVISOR), 9), token);
    let mut at_router = Following::start_as(&router.node, SUPERVISOR, follower);
    at_router.until_online();
    assert_has_what_changed(&mirror(&at_router), &rig.backends[1]);
    let token = at_router.follower.token().to_vec();
    at_router.log_out();
    trade(&rig.backends[1], 3_001);
    let back = at_node(&rig.backends[1], token);
    assert_eq!(back.resyncs, []);
    let changed = mirror(&back);
    back.log_out();
    assert_has_what_changed(&changed, &rig.backends[1]);
}

/// Both began with one number, and the second is listed as the first one's replica: the epochs and
/// places of the two are alike, and their orders have nothing in common.
#[test]
fn an_exchange_that_is_listed_as_anothers_replica_is_set_aside() {
    let mut rig = Rig::new(&[]);
    rig.add_exchange(7);
    rig.add_exchange(7);
    trade(&rig.backends[0], 1);
    trade(&rig.backends[1], 5_001);
    let of_second = at_node(&rig.backends[1], Vec::new());
    let token = of_second.follower.token().to_vec();
    of_second.log_out();
    let router = Router::start(&rig.config_with_replica(ROUTER));
    let address = rig.backends[1].address.to_string();
    let fault_of_second = || {
        let status = router.node.status();
        let backends = status["router"]["backends"].as_array().unwrap().clone();
        let second = backends.into_iter().find(|row| row["address"] == *address).unwrap();
        second["last_fault"].as_str().map(str::to_owned)
    };
    let fault = until("it is told as another's", fault_of_second);
    assert!(fault.contains("of another log than the master's"), "{fault}");
    let mut reader = router.follow(SUPERVISOR, Vec::new());
    let first = at_node(&rig.backends[0], Vec::new());
    let wanted = mirror(&first);
    first.log_out();
    // Its time aside ends now and then, and it is asked again.
    until("the first exchange's orders, a while after the others were asked for", || {
        reader.poll(Duration::from_millis(5)).unwrap();
        let read = mirror(&reader);
        // The ids of the two exchanges' orders are alike too.
        assert!(read.iter().all(|(id, row)| wanted.get(id) == Some(row)), "the second's orders");
        let is_same = read == wanted;
        let metrics = router.node.get("/metrics").1;
        let line = metrics.lines().find(|line| line.starts_with("weir_router_faults_total"));
        let faults: u64 = line?.split(' ').next_back()?.parse().ok()?;
        (is_same && faults >= 3).then_some(())
    });
    assert_eq!((&reader.resyncs[..], &reader.refusals[..]), (&[][..], &[][..]));
    reader.log_out();
    // Nor does the first exchange's store, or the router, go on from a token of the second.
    for node in [&router.node, rig.backends[0].node()] {
        let follower = Follower::new(config_of(SUPERVISOR), token.clone());
        let mut reader = Following::start_as(node, SUPERVISOR, follower);
        reader.until_online();
        assert_eq!(reader.resyncs, [Reason::ResyncEpoch]);
        assert_eq!(mirror(&reader), wanted);
        reader.log_out();
    }
}

#[test]
fn an_exchange_keeps_its_number() {
    let home = Home::with_config("os", "[[partition]]\nid = 7\n");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let metrics = node.get("/metrics").1;
    assert!(metrics.contains("weir_store_live_orders{source=\"7\"}"), "{metrics}");
    let mut admin = node.admin();
    let elsewhere = instrument(InstrumentId(2));
    assert_eq!(elsewhere.partition_id, PartitionId(1));
    let refused = admin.define_instrument(elsewhere);
    let reason = Reason::WrongPartition;
    assert!(matches!(refused, Err(ClientError::Refused { reason: r, .. }) if r == reason));
    admin.close().unwrap();
    node.terminate();
    let inspected = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["log", "inspect", "--dir"])
        .arg(home.data())
        .output()
        .unwrap();
    assert!(inspected.status.success(), "{inspected:?}");
    std::fs::write(home.path("weir.toml"), "").unwrap();
    let refused = home.fail_to_start();
    let said = String::from_utf8_lossy(&refused.stderr);
    let want = "has partition 7, which no [[partition]] names: an exchange keeps its numbers";
    assert!(said.contains(want), "{said}");
    assert!(!home.data().join("partition-1").exists(), "nothing was made");
}
