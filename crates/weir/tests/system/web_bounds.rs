//! The bounds of readers over HTTP: sockets without a subscription make place and end, and no
//! session has all places.

use serde_json::json;

use crate::support::trader::Trader;
use crate::support::{ALICE, BOB, Home, Node, open_market, until};
use crate::web::{Socket, close_of, get, hear, open, say};

/// A node with an order, so that each subscription has a page at once.
fn market(more: &str) -> (Home, Node) {
    let config = format!("[web]\nlisten = \"127.0.0.1:0\"\n{more}");
    let home = Home::with_config("memory", &config);
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    for who in [ALICE, BOB] {
        Trader::log_on(&node, who).ask_for_report(who.sell(1, 101, 1));
    }
    (home, node)
}

fn subscribed(node: &Node, who: &crate::support::Who) -> Socket {
    let mut socket = open(node, who);
    say(&mut socket, &json!({"subscribe": 1}));
    assert_eq!(hear(&mut socket)["id"], 1);
    socket
}

#[test]
fn sockets_without_a_subscription_shut_nobody_out_and_no_session_has_all_places() {
    let (_home, node) = market("readers_max = 4\nsession_readers_max = 3\nidle_s = 3600\n");
    let mut idle: Vec<Socket> = (0..3).map(|_| open(&node, &ALICE)).collect();
    until("the sockets", || (node.status()["web"]["sockets"] == 3).then_some(()));
    let (code, refusal) = get(&node, &ALICE, "/orders");
    assert_eq!((code, &refusal["error"]), (429, &json!("LimitReached")));
    let subscribers: Vec<Socket> = (0..3).map(|_| subscribed(&node, &BOB)).collect();
    for socket in &mut idle[..2] {
        assert_eq!(close_of(socket), (1001, "Overloaded".to_owned()));
    }
    let (code, refusal) = get(&node, &BOB, "/orders");
    assert_eq!((code, &refusal["error"]), (429, &json!("LimitReached")));
    // The last of them, now a subscriber, is not sent away by a fifth reader, its own session's.
    say(&mut idle[2], &json!({"subscribe": 1}));
    assert_eq!(hear(&mut idle[2])["id"], 1);
    let (code, refusal) = get(&node, &ALICE, "/orders");
    assert_eq!((code, &refusal["error"]), (503, &json!("Overloaded")));
    let web = &node.status()["web"];
    let figures = ["sockets_evicted", "session_bounded", "turned_away", "readers"];
    assert_eq!(figures.map(|name| web[name].as_u64().unwrap()), [2, 2, 1, 4]);
    drop((subscribers, idle));
    until("their places", || (node.status()["web"]["readers"] == 0).then_some(()));
    assert_eq!(get(&node, &ALICE, "/orders").0, 200);
}

#[test]
fn a_socket_that_subscribes_to_nothing_is_closed_and_a_subscriber_is_not() {
    let (_home, node) = market("idle_s = 1\n");
    let mut subscriber = subscribed(&node, &BOB);
    let (mut idle, mut left) = (open(&node, &ALICE), subscribed(&node, &ALICE));
    say(&mut left, &json!({"unsubscribe": 1}));
    assert_eq!(hear(&mut left)["unsubscribed"], true);
    for socket in [&mut idle, &mut left] {
        assert_eq!(close_of(socket), (1008, "NothingSubscribed".to_owned()));
    }
    say(&mut subscriber, &json!({"subscribe": 2}));
    assert_eq!(hear(&mut subscriber)["id"], 2);
}
