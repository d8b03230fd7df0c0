//! A router's service to readers: all sources as one, with tokens that are valid at every node.

use serde_json::Value;
use weir_client::follower::Follower;

use crate::rig::{ROUTER, ROUTER_2, Rig, Router, config_of, mirror, of_source};
use crate::support::following::Following;
use crate::support::{ALICE, BOB, SUPERVISOR, Who, until};
use crate::web;

fn rig() -> (Rig, Router) {
    let rig = Rig::new(&[&[21, 22], &[31, 32]]);
    let router = Router::start(&rig.config_of_all(ROUTER));
    (rig, router)
}

#[test]
fn the_orders_of_two_nodes_are_one_service() {
    let (mut rig, router) = rig();
    rig.trade(200);
    router.until_serving(4);
    assert_eq!(router.node.get("/ready").0, 200);
    for who in [SUPERVISOR, ALICE, BOB] {
        let mut reader = router.follow(who, Vec::new());
        rig.until_same(&mut reader);
        rig.trade(20);
        rig.until_same(&mut reader);
        assert_eq!((&reader.resyncs[..], &reader.refusals[..]), (&[][..], &[][..]));
        reader.log_out();
    }
    let status = router.node.status();
    let backends = status["router"]["backends"].as_array().expect("a list");
    assert_eq!(backends.len(), 4);
    for backend in backends {
        assert_eq!((&backend["health"], &backend["link"]), (&"up".into(), &"up".into()));
        assert_eq!(backend["epoch"], 1, "{backend}");
    }
    until("what the stores have", || {
        let status = router.node.status();
        let heads = status["router"]["backends"].as_array().expect("a list").clone();
        let wanted = rig.cores.iter().map(|core| core.seq);
        heads.iter().zip(wanted).all(|(has, seq)| has["head_seq"] == seq).then_some(())
    });
    let metrics = router.node.get("/metrics").1;
    let address = rig.backends[1].address;
    let line = format!("weir_router_store_up{{source=\"32\",address=\"{address}\"}} 1");
    assert!(metrics.contains(&line), "{metrics}");
}

#[test]
fn order_state_over_http_is_the_routers_too() {
    let (mut rig, router) = rig();
    rig.trade(50);
    router.until_serving(4);
    let mut count = 0;
    let mut token = String::new();
    loop {
        let path = format!("/orders?max_rows=30&token={token}");
        let (code, page) = web::get(&router.node, &ALICE, &path);
        assert_eq!(code, 200, "{page}");
        count += page["rows"].as_array().expect("rows").len();
        page["token"].as_str().expect("a token").clone_into(&mut token);
        if page["online"] == true {
            break;
        }
    }
    assert_eq!(count, rig.wanted(ALICE).len());
    // The token from HTTP continues over the binary protocol.
    rig.trade(10);
    let mut reader = router.follow(ALICE, web::bytes(&token));
    reader.until_online();
    let wanted = rig.wanted(ALICE);
    assert!(!mirror(&reader).is_empty());
    assert!(mirror(&reader).iter().all(|(id, row)| wanted[id] == *row), "only what came since");
    assert!(mirror(&reader).len() < wanted.len());
    assert_eq!(reader.resyncs, []);
}

/// Follows one source at a node from a token. Returns the reader and its newest token.
fn at_node(rig: &Rig, source: u16, who: Who, token: Vec<u8>) -> (Following, Vec<u8>) {
    let follower = Follower::new(of_source(config_of(who), source), token);
    let mut reader = Following::start_as(rig.backends[0].node(), who, follower);
    reader.until_online();
    let token = reader.follower.token().to_vec();
    (reader, token)
}

#[test]
fn a_token_goes_from_a_node_to_a_router_to_another_and_back() {
    let (mut rig, router) = rig();
    let other = Router::start(&rig.config_of_all(ROUTER_2));
    rig.trade(1);
    router.until_serving(4);
    other.until_serving(4);
    let mut known = std::collections::BTreeMap::new();
    let mut token = Vec::new();
    for round in 0..3 {
        rig.trade(30);
        let (reader, next) = at_node(&rig, 21, SUPERVISOR, token);
        known.extend(mirror(&reader));
        assert_eq!(reader.resyncs, [], "round {round} at the node");
        reader.log_out();
        token = next;
        for router in [&router, &other] {
            rig.trade(10);
            let mut reader = router.follow(SUPERVISOR, token);
            reader.until_online();
            known.extend(mirror(&reader));
            assert_eq!(reader.resyncs, [], "round {round} at a router");
            token = reader.follower.token().to_vec();
            reader.log_out();
            assert_eq!(known, rig.wanted(SUPERVISOR), "round {round}");
        }
    }
}

#[test]
fn a_router_says_of_itself_what_is_behind_it() {
    let mut rig = Rig::new(&[&[21]]);
    rig.trade(1);
    rig.backends[0].kill();
    let router = Router::start(&rig.config_of_all(ROUTER));
    let (code, why) = router.node.get("/ready");
    assert_eq!((code, why.trim()), (503, "no store of any source can be asked"));
    assert_eq!(router.node.get("/live").0, 200);
    let loss = until("a loss", || {
        let status: Value = router.node.status();
        status["router"]["backends"][0]["last_loss"].as_str().map(str::to_owned)
    });
    assert!(loss.contains("cannot connect"), "{loss}");
    rig.backends[0].start();
    rig.trade(1);
    until("readiness", || (router.node.get("/ready").0 == 200).then_some(()));
}
