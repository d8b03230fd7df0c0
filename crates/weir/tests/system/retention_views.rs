//! The views of a node whose logs have lost their beginning, when their own files are lost, when
//! they are restored from a backup, and when they are enabled later: nothing is missed in silence.

use std::collections::BTreeMap;

use weir_types::{InstrumentId, OrderId, Phase, Qty, Reason};

use crate::backup::{back_up, restore};
use crate::definitions::{row, succeed};
use crate::retention::{
    SMALL, checkpoint_of, files, market, trade_and_leave, trade_past_the_retention,
};
use crate::support::following::{Following, OrderState};
use crate::support::trader::Trader;
use crate::support::{ALICE, HANG, Home, INSTRUMENT, Node, SUPERVISOR, TRADING, until};

const COLD: &str = "[delivery.cold]\ninterval_ms = 20\nsegment_bytes = 65536\n";

/// Small logs, and as many ended orders as a store with an archive keeps at least.
fn small() -> String {
    SMALL.replace("ended_orders_max = 300", "ended_orders_max = 1024")
}

/// The number of an order that rests below all trades.
const RESTING: u64 = 900_000;

/// Enters an order that nobody trades with.
fn rest(node: &Node) {
    let mut alice = Trader::log_on(node, ALICE);
    alice.ask_for_report(ALICE.buy(RESTING, 40, 3));
    alice.client.log_out(HANG).unwrap();
}

/// A reader's result after it followed the store from a token to its newest state.
struct Read {
    token: Vec<u8>,
    resyncs: Vec<Reason>,
    /// The number of orders that it got, live or not.
    count: usize,
    live: BTreeMap<OrderId, OrderState>,
}

fn read(node: &Node, token: Vec<u8>) -> Read {
    let mut reader = Following::start(node, SUPERVISOR, token);
    reader.until_online();
    let token = reader.follower.token().to_vec();
    let mut live = reader.states();
    let count = live.len();
    live.retain(|_, state| state.ord_status.is_live());
    let resyncs = reader.resyncs.clone();
    reader.log_out();
    Read { token, resyncs, count, live }
}

/// The store's snapshots.
fn snapshots(home: &Home) -> Vec<std::path::PathBuf> {
    files(home, "partition-1/store", ".wsnap")
}

/// The epoch of the partition's log.
fn epoch_of(node: &Node) -> u64 {
    node.partition_when(TRADING, |_| true)["epoch"].as_u64().unwrap()
}

#[test]
fn a_store_that_lost_its_snapshots_refuses_tokens_from_before_and_has_all_live_orders() {
    let (home, mut node) = market("os", SMALL);
    for phase in [Phase::Halted, Phase::Continuous] {
        node.admin().set_phase(TRADING, INSTRUMENT, phase).unwrap();
    }
    let phase_of = |node: &Node| {
        let names = ["phase", "phase_cause", "phase_by", "phase_since_ns", "is_held"];
        let row = node.status()["instruments"][0].clone();
        names.map(|name| row[name].clone())
    };
    let phase = until("the phase", || {
        Some(phase_of(&node)).filter(|told| told[..2] == ["continuous", "operator"])
    });
    assert!(phase[3].is_u64() && phase[4] == false, "{phase:?}");
    rest(&node);
    let before = read(&node, Vec::new()).token;
    let next = trade_past_the_retention(&node, 1);
    let last = read(&node, before.clone());
    assert_eq!(last.live.len(), 1, "what rests");
    let epoch = epoch_of(&node);
    node.kill();
    snapshots(&home).iter().for_each(|path| std::fs::remove_file(path).unwrap());
    let mut node = home.start();
    let said = home.said_at_start();
    assert!(said.contains("the store begins with the 1 live orders"), "{said}");
    // Replicas of the store before have the same orders at other places, in another epoch.
    assert_eq!(epoch_of(&node), epoch + 1);
    let new = read(&node, Vec::new());
    assert!(new.resyncs.is_empty());
    assert_eq!(new.live.len(), 1);
    for (order_id, state) in &new.live {
        let was = last.live[order_id];
        assert_eq!((state.leaves_qty, state.cl_ord_id), (Qty(3), was.cl_ord_id));
    }
    let old = read(&node, before.clone());
    assert_eq!((old.resyncs, old.live), (vec![Reason::ResyncFloor], new.live));
    assert_eq!(phase_of(&node), phase, "the engine knows the phase and its cause");
    // A snapshot is taken at once, so that the next start refuses nobody again.
    until("a snapshot of the rebuilt store", || Some(()).filter(|()| !snapshots(&home).is_empty()));
    trade_and_leave(&node, next..next + 50);
    node.kill();
    let node = home.start();
    let said = home.said_at_start();
    assert!(said.contains("its store comes from the snapshot of event"), "{said}");
    assert!(read(&node, new.token).resyncs.is_empty());
    assert_eq!(read(&node, before).resyncs, [Reason::ResyncFloor]);
    assert_eq!(epoch_of(&node), epoch + 1, "a start from a snapshot begins none");
}

/// A start could fail when the epoch of a rebuilt store had begun, and before the store's first
/// snapshot was on the disk: each attempt then began one more, and a log remembers only so many.
#[test]
fn starts_that_end_before_the_first_snapshot_of_a_rebuilt_store_begin_one_epoch() {
    let (home, mut node) = market("os", SMALL);
    rest(&node);
    let next = trade_past_the_retention(&node, 1);
    let epoch = epoch_of(&node);
    for attempt in 0..3 {
        node.kill();
        snapshots(&home).iter().for_each(|path| std::fs::remove_file(path).unwrap());
        node = home.start();
        let said = home.said_at_start();
        assert!(said.contains("the store begins with the 1 live orders"), "{attempt}: {said}");
        assert_eq!(epoch_of(&node), epoch + 1, "{attempt}");
    }
    let begun = read(&node, Vec::new());
    assert_eq!(begun.live.len(), 1);
    // With commands in this epoch the store that begins at their end needs another one.
    trade_and_leave(&node, next..next + 50);
    node.kill();
    snapshots(&home).iter().for_each(|path| std::fs::remove_file(path).unwrap());
    let node = home.start();
    assert_eq!(epoch_of(&node), epoch + 2);
    let again = read(&node, Vec::new()).live;
    assert!(again.keys().eq(begun.live.keys()), "the same order, at another place: {again:?}");
}

#[test]
fn cold_order_state_that_is_enabled_on_a_truncated_log_begins_at_the_stores_floor() {
    // An epoch ends before, and nobody writes down where.
    let (home, mut node) = market("memory", &small());
    trade_and_leave(&node, 100_000..100_010);
    // At this level a kill takes what is not written yet: half of a pair would stay in the book.
    node.partition_when(TRADING, |row| row["synced"] == row["position"]);
    node.kill();
    let mut node = home.start();
    rest(&node);
    let before = read(&node, Vec::new()).token;
    let next = trade_past_the_retention(&node, 1);
    until("two snapshots", || Some(()).filter(|()| snapshots(&home).len() >= 2));
    node.kill();
    std::fs::write(home.path("weir.toml"), format!("{}{COLD}", small())).unwrap();
    let mut node = home.start();
    let said = home.said_at_start();
    assert!(said.contains("cold order state begins at seq"), "{said}");
    assert!(said.contains("its store comes from the snapshot of event"), "{said}");
    let new = read(&node, Vec::new());
    assert_eq!(new.live.len(), 1);
    let resyncs = read(&node, before).resyncs;
    assert!([&[Reason::ResyncFloor][..], &[Reason::ResyncEpoch]].contains(&&resyncs[..]));
    // More orders end than the store keeps: from here on the archive has them.
    trade_and_leave(&node, next..next + 2_000);
    let late = read(&node, new.token.clone());
    assert_eq!((late.resyncs, late.count), (Vec::new(), 4_000), "two orders of each pair");
    // The archive is lost: it begins again where the store does, and nothing is missed in silence.
    node.kill();
    std::fs::remove_dir_all(home.data().join("cold")).unwrap();
    let node = home.start();
    let said = home.said_at_start();
    assert!(said.contains("cold order state begins at seq"), "{said}");
    assert_eq!(read(&node, Vec::new()).live.len(), 1);
    let late = read(&node, new.token);
    assert!(!late.resyncs.is_empty() || late.count == 4_000, "{} orders of 4,000", late.count);
}

#[test]
fn a_truncated_node_with_cold_order_state_comes_back_from_its_backup_with_its_store() {
    let config = format!("{}{COLD}", small());
    let (home, mut node) = market("memory", &config);
    trade_and_leave(&node, 100_000..100_010);
    node.kill();
    let node = home.start();
    rest(&node);
    trade_past_the_retention(&node, 1);
    let live = read(&node, Vec::new()).live;
    let taken = back_up(&home);
    let told = &taken["partitions"][1];
    assert!(told["first"].as_u64() > Some(1) && told["order_store_event"].is_u64(), "{taken}");
    assert!(node.terminate().success());
    let again = Home::with_config("memory", &config);
    restore(&home, &again);
    assert!(again.data().join("partition-1/past-ends").is_file());
    // The archive is on a disk of its own.
    std::fs::rename(home.data().join("cold"), again.data().join("cold")).unwrap();
    let node = again.start();
    let said = again.said_at_start();
    assert!(said.contains("its store comes from the snapshot of event"), "{said}");
    assert!(!said.contains("live orders of seq"), "{said}");
    assert_eq!(read(&node, Vec::new()).live, live);
    node.partition_when(TRADING, |row| row["events_from"].as_u64() > Some(1));
}

#[test]
fn a_gateway_from_its_checkpoint_knows_the_names_that_were_given_before_it() {
    let (home, mut node) = market("os", "[gateway]\ncheckpoint_every_events = 1000\n");
    let rename = ["--yes", "instrument", "--id", "1", "--symbol", "EURUSD"];
    succeed(&node, &rename);
    trade_and_leave(&node, 1..600);
    until("a checkpoint behind the name", || Some(()).filter(|()| checkpoint_of(&node) > 1_000));
    node.kill();
    let node = home.start();
    let said = home.said_at_start();
    assert!(said.contains("gateway: it begins with the checkpoint of event"), "{said}");
    assert_eq!(row(&node, InstrumentId(1).0)["symbol"], "EURUSD");
}
