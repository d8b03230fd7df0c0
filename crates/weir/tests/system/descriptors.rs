//! A node that may have few descriptors, among connections that say nothing.

use std::net::TcpStream;

use crate::support::{ALICE, Home, Node, TRADING, open_market};
use crate::tools::SMALL;
use crate::troubles::trade;

/// Starts a node under a limit of its open files.
const WITH_FEW: [&str; 3] = ["sh", "-c", "ulimit -n 512; exec \"$0\" \"$@\""];

/// A node that may have 512 descriptors, with a small log.
fn with_few(more: &str) -> Home {
    let home = Home::with_config("disk", &format!("{SMALL}{more}"));
    let data = home.data();
    home.elsewhere(data, WITH_FEW.map(Into::into).into())
}

/// Trades until the command log has begun three more segments.
fn trade_through_segments(node: &Node, home: &Home) {
    let commands = home.data().join("partition-1/commands");
    let segments = || std::fs::read_dir(&commands).unwrap().count();
    let before = segments();
    for first in (1..).step_by(200).take_while(|_| segments() < before + 3) {
        trade(node, first, 200);
    }
}

#[test]
fn silent_connections_to_order_entry_leave_the_log_its_descriptors_and_clients_their_place() {
    let home = with_few("");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let silent: Vec<_> = (0..1_000).map(|_| TcpStream::connect(node.address()).unwrap()).collect();
    trade_through_segments(&node, &home);
    assert_eq!(node.get("/ready").0, 200);
    let status = node.status();
    assert!(status["gateway"]["strangers_evicted"].as_u64() > Some(500), "{}", status["gateway"]);
    assert_eq!(status["partitions"][1]["refused"], 0, "the log was never full");
    drop(silent);
    assert!(node.terminate().success());
    home.verify(TRADING);
}

#[test]
fn a_start_tells_the_limits_that_the_configuration_may_exceed() {
    let home = with_few("");
    let node = home.start();
    let told = home.said_at_start();
    assert!(told.contains("open files: 512, may need "), "{told}");
    assert!(node.terminate().success());
}

#[test]
fn silent_connections_to_http_leave_the_log_its_descriptors_and_monitoring_its_place() {
    let home = with_few("[web]\nlisten = \"127.0.0.1:0\"\n");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let silent: Vec<_> = [node.http(), node.web()]
        .into_iter()
        .flat_map(|address| (0..500).map(move |_| TcpStream::connect(address).unwrap()))
        .collect();
    trade_through_segments(&node, &home);
    assert_eq!(node.get("/live").0, 200);
    let evicted = |part: &str| node.status()[part]["http_evicted"].as_u64().unwrap();
    assert!(
        evicted("http") > 300 && evicted("web") > 300,
        "{} {}",
        evicted("http"),
        evicted("web")
    );
    drop(silent);
    assert!(node.terminate().success());
    home.verify(TRADING);
}
