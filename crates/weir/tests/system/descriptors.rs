//! A node that may have few descriptors, among connections that say nothing, and one that has none
//! for its files for a while.

use std::net::TcpStream;
use std::time::Duration;

use crate::publish::{free_port, publish};
use crate::retention::{self, files};
use crate::support::trader::Trader;
use crate::support::{ALICE, BOB, Home, Node, TRADING, open_market, until};
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

#[test]
fn a_time_without_descriptors_is_told_once_by_the_http_server_and_once_more_at_its_end() {
    let home = Home::new("memory");
    let node = home.start();
    let lines = |what: &str| home.said().lines().filter(|line| line.contains(what)).count();
    let (begun, over) =
        ("HTTP connections are not accepted", "HTTP connections are accepted again");
    let waiting = node.without_descriptors(|| {
        let waiting = TcpStream::connect(node.http()).unwrap();
        until("the line that none is accepted", || (lines(begun) > 0).then_some(()));
        // Several tries.
        std::thread::sleep(Duration::from_millis(500));
        waiting
    });
    until("the line of the end", || {
        assert_eq!(node.get("/live").0, 200);
        (lines(over) > 0).then_some(())
    });
    drop(waiting);
    assert_eq!((lines(begun), lines(over)), (1, 1), "{}", home.said());
    assert!(node.status()["http"]["accept_failures"].as_u64() > Some(0));
    assert!(node.terminate().success());
}

/// Snapshots and checkpoints of all kinds, often.
const EVERY: &str = "every_commands = 1000\n[gateway]\ncheckpoint_every_events = 1000\n[delivery]\n\
                     snapshot_every_bytes = 20000\n[market_publisher]\n\
                     checkpoint_every_events = 1000\n";

/// The newest of the engine's snapshots, of the gateway's and the published market's checkpoints,
/// and of the order store's snapshots.
fn newest(node: &Node, home: &Home) -> [u64; 4] {
    let row = node.partition_when(TRADING, |_| true);
    let stores = files(home, "partition-1/store", ".wsnap");
    let positions = stores.iter().filter_map(|path| path.file_stem()?.to_str()?.parse().ok());
    let number = |value: &serde_json::Value| value.as_u64().unwrap_or(0);
    let market = number(&publish(node)["checkpoint_event"]);
    let engine = number(&row["snapshot_position"]);
    [engine, number(&row["checkpoint_event"]), market, positions.max().unwrap_or(0)]
}

#[test]
fn snapshots_and_checkpoints_are_written_again_after_a_time_without_descriptors() {
    let ports = [free_port(), free_port()];
    let group = format!("group = \"239.255.41.8:{}\"\n", ports[0]);
    let requests = format!("requests = \"127.0.0.1:{}\"\n", ports[1]);
    let config = format!("[snapshots]\n{EVERY}{group}{requests}");
    let home = Home::with_config("os", &config);
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let (mut alice, mut bob) = (Trader::log_on(&node, ALICE), Trader::log_on(&node, BOB));
    retention::trade(&mut alice, &mut bob, 1..1_001);
    // At `os` a snapshot counts when no commands come for a while, so that the waits send none.
    until("the first of each", || {
        keep_on(&mut alice, &mut bob);
        newest(&node, &home).iter().all(|place| *place > 0).then_some(())
    });
    let mut next = 1_601;
    node.without_descriptors(|| {
        retention::trade(&mut alice, &mut bob, 1_001..1_601);
        until("that none could be written", || {
            // Whoever is connected is served.
            retention::trade(&mut alice, &mut bob, next..next + 5);
            next += 5;
            let said = home.said();
            let is_told = |what: &str| said.contains(what);
            // Without events in files no other is due.
            let is_stopped = is_told("the shadow has no events in files");
            let of_engine = is_told("the shadow has no ");
            let of_gateway = is_told("no gateway checkpoint is written until this ends");
            let of_market = is_told("no market checkpoint is written until this ends");
            let of_store = is_told("no snapshot of a store");
            (is_stopped || of_engine && of_gateway && of_market && of_store).then_some(())
        });
    });
    let before = newest(&node, &home);
    retention::trade(&mut alice, &mut bob, next..next + 1_000);
    until("newer ones of each", || {
        keep_on(&mut alice, &mut bob);
        let now = newest(&node, &home);
        now.iter().zip(before).all(|(now, before)| *now > before).then_some(())
    });
    until("that it is ready", || (node.get("/ready").0 == 200).then_some(()));
    assert!(node.terminate().success());
    home.verify(TRADING);
    let node = home.start();
    let said = home.said_at_start();
    for begins in ["gateway: it begins with the checkpoint", "its store comes from the snapshot"] {
        assert!(said.contains(begins), "{said}");
    }
    assert!(node.terminate().success());
}

/// Keeps sessions logged on, which say nothing else.
fn keep_on(alice: &mut Trader, bob: &mut Trader) {
    for trader in [alice, bob] {
        trader.poll(Duration::ZERO).unwrap();
    }
}
