//! `weir load` over the end of its node by kill -9 and the next start.

use std::net::TcpListener;
use std::process::Stdio;
use std::sync::atomic::Ordering;

use serde_json::Value;
use weir_wire::Message as _;
use weir_wire::order_entry::MassCancel;

use crate::support::{Home, OPERATOR, TRADING, until};
use crate::{cutter, hex, succeed, weir, weir_at};

#[test]
fn a_load_resumes_after_kill_9_and_every_request_is_answered_once() {
    // The node comes back at the address that the load knows.
    let listen = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let home = Home::new("os").listening_on(listen);
    let mut node = home.start();
    let words = ["load", "--rate", "400", "--duration", "5s", "--warm-up", "0s", "--json"];
    let mut load = weir_at(&node, &words);
    load.args(["--sessions", "4", "--connections", "2", "--key", &hex(OPERATOR.key().0)]);
    let child = load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    for _ in 0..2 {
        let position = |row: &Value| row["position"].as_u64().unwrap_or_default();
        let begun = position(&node.partition_when(TRADING, |_| true));
        node.partition_when(TRADING, |row| position(row) > begun + 200);
        node.kill();
        node = home.start();
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let counts = &said["report"]["counts"];
    assert!(counts["reconnects"].as_u64().unwrap() >= 2, "{counts}");
    // As many as the two kills waited for, however long the starts took.
    assert!(counts["sent"].as_u64().unwrap() > 400, "{counts}");
    assert_eq!((&counts["answered"], &counts["unanswered"]), (&counts["sent"], &0.into()));
    assert_eq!(counts["answered_again"], 0, "{counts}");
    until("the node's last word", || node.status()["gateway"].is_object().then_some(()));
}

#[test]
fn a_load_that_is_to_end_with_the_node_does() {
    let home = Home::new("memory");
    let mut node = home.start();
    let words = ["load", "--rate", "200", "--duration", "1m", "--reconnect", "0s"];
    let mut load = weir_at(&node, &words);
    load.args(["--key", &hex(OPERATOR.key().0)]);
    let child = load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    node.partition_when(TRADING, |row| row["position"].as_u64().unwrap_or_default() > 100);
    node.kill();
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success(), "{output:?}");
}

#[test]
fn a_connection_that_is_cut_at_the_final_cancel_is_opened_again_and_no_order_stays() {
    let home = Home::new("memory");
    let node = home.start();
    let cutter = cutter::start(node.address(), MassCancel::TEMPLATE_ID);
    let (address, key) = (cutter.address.to_string(), hex(OPERATOR.key().0));
    let words = ["load", "--rate", "500", "--duration", "1s", "--warm-up", "0s", "--json"];
    let words = [&words[..], &["--node", &address, "--http", node.http(), "--key", &key]].concat();
    let said: Value = serde_json::from_str(&succeed(&mut weir(&words))).unwrap();
    assert!(said["report"]["counts"]["sent"].as_u64() > Some(100), "{said}");
    assert!(cutter.has_cut.load(Ordering::SeqCst), "the load ends with a mass cancel");
    node.partition_when(TRADING, |row| row["live_orders"] == 0);
}
