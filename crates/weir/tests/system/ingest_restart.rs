//! Restarts of a source's store: after a kill under load the node has every acknowledged batch
//! exactly once, and readers continue by their tokens.

use std::time::{Duration, Instant};

use weir_types::{AckLevel, Reason};

use crate::ingest::core::{Core, Random};
use crate::ingest::{Fed, ingest_address, node_with, reader, source_figure};
use crate::support::{HANG, Home, Node, until};

/// Returns the number of kills at each durability level.
fn kills() -> u64 {
    std::env::var("WEIR_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(4)
}

/// Trades until the node is killed and the connection has ended. Returns the number of batches
/// acknowledged by then.
fn trade_to_the_end(fed: &mut Fed, random: &mut Random, mut node: Node, after: Duration) -> u64 {
    let killer = std::thread::spawn(move || {
        std::thread::sleep(after);
        node.kill();
    });
    let begun = Instant::now();
    while !killer.is_finished() || fed.writer.connection().is_some() {
        assert!(begun.elapsed() < HANG, "the connection outlives the node");
        if fed.core.batches.len() as u64 - fed.core.acked < 100 {
            fed.core.trade(random);
            fed.push();
        }
        let mut events = Vec::new();
        fed.writer.poll(Duration::from_millis(1), |event| events.push(event)).unwrap();
        events.into_iter().for_each(|event| fed.hear(event));
    }
    killer.join().unwrap();
    fed.core.acked
}

fn check_that_kills_lose_nothing(durability: &str, level: AckLevel) {
    let (home, mut node) = node_with(&format!("durability = \"{durability}\"\n"));
    let mut random = Random(7);
    let mut core = Core::new();
    core.attributes_len = Some(300);
    let mut fed = Fed::new(&node, core);
    fed.until_fed();
    assert_eq!(fed.level, Some(level));
    let mut reader = reader(&node);
    for kill in 0..kills() {
        (0..40).for_each(|_| fed.core.trade(&mut random));
        fed.until_fed();
        fed.check(&mut reader);
        let after = Duration::from_millis(20 + random.below(150));
        let acked = trade_to_the_end(&mut fed, &mut random, node, after);
        node = home.start();
        let next = source_figure(&node, "next_batch_no");
        assert!(next > acked, "kill {kill}: batch {acked} was acknowledged, {next} is next");
        assert_eq!(source_figure(&node, "epoch"), u64::from(fed.core.epoch.0));
        let address = ingest_address(&node);
        fed.writer.set_target(address);
        reader.go_on(node.address()).unwrap();
        fed.until_fed();
        fed.check(&mut reader);
        let batches = fed.core.batches.len() as u64;
        assert_eq!(source_figure(&node, "next_batch_no"), batches + 1, "each batch once");
        assert_eq!(source_figure(&node, "resends"), 0, "it had all, and asked for nothing again");
    }
    assert!(reader.resyncs.is_empty(), "tokens of before are good: {:?}", reader.resyncs);
    assert!(fed.refusals.is_empty(), "{:?}", fed.refusals);
    assert!(node.terminate().success());
}

#[test]
fn kills_at_level_disk_lose_no_acknowledged_batch_and_no_token() {
    check_that_kills_lose_nothing("disk", AckLevel::Disk);
}

#[test]
fn kills_at_level_os_lose_no_acknowledged_batch_and_no_token() {
    check_that_kills_lose_nothing("os", AckLevel::Os);
}

fn restart(home: &Home, node: Node) -> Node {
    assert!(node.terminate().success());
    home.start()
}

#[test]
fn a_start_goes_on_from_a_snapshot_and_the_log_behind_it_is_cut() {
    let (home, node) = node_with("durability = \"disk\"\n");
    let mut random = Random(3);
    let mut core = Core::new();
    core.attributes_len = Some(600);
    let mut fed = Fed::new(&node, core);
    fed.until_fed();
    let files = |name: &str| {
        let dir = home.data().join("source-40").join(name);
        let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap());
        names.filter(|name| name.ends_with(".wsnap")).collect::<Vec<_>>()
    };
    until("two snapshots", || {
        (0..30).for_each(|_| fed.core.trade(&mut random));
        fed.until_fed();
        (files("snapshots").len() == 2).then_some(())
    });
    let mut reader = reader(&node);
    fed.check(&mut reader);
    let (next, digest) = (source_figure(&node, "next_batch_no"), digest_of(&node));
    let node = restart(&home, node);
    assert_eq!((source_figure(&node, "next_batch_no"), digest_of(&node)), (next, digest));
    reader.go_on(node.address()).unwrap();
    fed.writer.set_target(ingest_address(&node));
    (0..30).for_each(|_| fed.core.trade(&mut random));
    fed.until_fed();
    fed.check(&mut reader);
    assert!(reader.resyncs.is_empty(), "{:?}", reader.resyncs);
}

fn digest_of(node: &Node) -> String {
    let status = node.status();
    status["ingest"]["sources"][0]["digest"].as_str().expect("a store has a digest").to_owned()
}

#[test]
fn a_store_at_its_limit_refuses_what_is_new_and_serves_its_readers() {
    let (_home, node) = node_with("bytes_max = 16777216\n");
    let mut random = Random(9);
    let mut core = Core::new();
    core.attributes_len = Some(600);
    let mut fed = Fed::new(&node, core);
    fed.until_fed();
    let mut refused = None;
    let begun = Instant::now();
    while refused.is_none() {
        assert!(begun.elapsed() < HANG, "the store never fills");
        for _ in 0..200 {
            fed.core.insert(&mut random);
        }
        fed.push();
        let mut events = Vec::new();
        fed.writer.poll(Duration::from_millis(1), |event| events.push(event)).unwrap();
        for event in events {
            match event {
                // The batches sent after the refused one may be refused as well, at once.
                weir_client::SourceEvent::Refused(reject) => {
                    refused = refused.or(Some(reject.reason));
                }
                event => fed.hear(event),
            }
        }
    }
    assert_eq!(refused, Some(Reason::StoreFull));
    // Figures lag the answers a little.
    let source = &until("the count of refusals", || {
        let source = node.status()["ingest"]["sources"][0].clone();
        (source["full_refusals"].as_u64() > Some(0)).then_some(source)
    });
    let (bytes, most) = (&source["memory_bytes"], &source["memory_bytes_max"]);
    assert!(bytes.as_u64() <= most.as_u64() && most == 16_777_216, "{bytes} of {most}");
    // A reader receives all that the store holds.
    let mut reader = reader(&node);
    reader.until_online();
    let live = source["live_orders"].as_u64().unwrap();
    assert_eq!(reader.follower.orders().len() as u64, live);
    assert!(node.get("/metrics").1.contains("weir_store_memory_bytes{source=\"40\"}"));
}
