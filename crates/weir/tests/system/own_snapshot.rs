//! The store of the node's own orders, restored from its snapshot and the later events, equals one
//! built from all events: the same states, tombstones, floors and tokens.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::following::Following;
use crate::support::trader::Trader;
use crate::support::{ALICE, BOB, Home, Node, SUPERVISOR, open_market, until};

/// Starts a market whose store takes a snapshot every few events.
fn market(durability: &'static str) -> (Home, Node) {
    let config = "[delivery]\nsnapshot_every_bytes = 20000\nended_orders_max = 300\n";
    let home = Home::with_config(durability, config);
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    (home, node)
}

fn trade(node: &Node, from: u64) {
    let (mut alice, mut bob) = (Trader::log_on(node, ALICE), Trader::log_on(node, BOB));
    for number in from..from + 200 {
        let price = 100 + (number % 20).cast_signed();
        alice.send(ALICE.sell(number, price, 10));
        bob.send(BOB.buy(number, price - 1, 1 + number % 15));
    }
    alice.settle();
    bob.settle();
    for trader in [alice, bob] {
        trader.client.log_out(crate::support::HANG).unwrap();
    }
}

fn snapshots(home: &Home) -> Vec<PathBuf> {
    let dir = home.data().join("partition-1/store");
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|end| end == "wsnap")).collect();
    files.sort();
    files
}

fn until_snapshots(home: &Home) -> Vec<PathBuf> {
    until("two snapshots", || Some(snapshots(home)).filter(|files| files.len() >= 2))
}

/// Returns the store's figures except memory: a restored store has no holes in its memory.
fn store(node: &Node) -> Value {
    let store = node.status()["delivery"]["sources"][0]["store"].clone();
    ["live_orders", "ended_orders", "digest"].map(|name| store[name].clone()).into_iter().collect()
}

/// Starts a node and kills it. Returns its store's figures; the orders that a full reader and a
/// reader with `token` receive, and the instruments' rows; and the diagnostics of the start.
fn looked_at(home: &Home, token: &[u8]) -> (Value, Vec<String>, String) {
    let mut node = home.start();
    let said = home.said_at_start();
    let store = store(&node);
    let mut states = Vec::new();
    for token in [&[][..], token] {
        let mut reader = Following::start(&node, SUPERVISOR, token.to_vec());
        reader.until_online();
        states.push(format!("{:?} {:?}", reader.states(), reader.resyncs));
        reader.log_out();
    }
    let markets = node.status()["instruments"].to_string();
    states.push(markets);
    node.kill();
    (store, states, said)
}

/// Returns a node's home after trading, snapshots and a kill, and a token from in between.
fn killed_market() -> (Home, Vec<u8>) {
    let (home, mut node) = market("os");
    trade(&node, 1);
    let mut reader = Following::start(&node, SUPERVISOR, Vec::new());
    reader.until_online();
    let token = reader.follower.token().to_vec();
    reader.log_out();
    trade(&node, 1_000);
    until_snapshots(&home);
    node.kill();
    (home, token)
}

fn copy_of(files: &[PathBuf]) -> Vec<(PathBuf, Vec<u8>)> {
    files.iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

fn change(path: &Path, how: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    how(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_store_from_its_snapshot_equals_one_from_all_events() {
    let (home, token) = killed_market();
    let kept = copy_of(&snapshots(&home));
    let (from_snapshot, read, said) = looked_at(&home, &token);
    assert!(said.contains("source 1: its store comes from the snapshot"), "{said}");
    kept.iter().for_each(|(path, _)| drop(std::fs::remove_file(path)));
    snapshots(&home).iter().for_each(|path| std::fs::remove_file(path).unwrap());
    let (from_events, read_then, said) = looked_at(&home, &token);
    assert!(!said.contains("comes from the snapshot"), "{said}");
    assert_eq!((from_snapshot, read), (from_events, read_then));
}

#[test]
fn a_snapshot_that_cannot_be_used_is_passed_over_with_a_word_and_all_events_are_read() {
    let (home, token) = killed_market();
    let kept = copy_of(&snapshots(&home));
    let (wanted, read, _) = looked_at(&home, &token);
    // The state follows a header of 64 bytes; its first byte is the format.
    type Change = fn(&mut Vec<u8>);
    let newer: Change = |bytes| bytes[8] = 99;
    let flipped: Change = |bytes| bytes[200] ^= 1;
    let cut: Change = |bytes| bytes.truncate(1_000);
    for (what, how) in [("newer", newer), ("flipped", flipped), ("cut", cut)] {
        snapshots(&home).iter().for_each(|path| std::fs::remove_file(path).unwrap());
        for (path, bytes) in &kept {
            std::fs::write(path, bytes).unwrap();
            change(path, how);
        }
        let (store, read_then, said) = looked_at(&home, &token);
        assert!(said.contains("passed over"), "{what}: {said}");
        assert_eq!((&store, &read_then), (&wanted, &read), "{what}");
    }
}
