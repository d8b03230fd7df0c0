//! A replica of another node's engine orders: it has no engine but the same store, and takes the
//! same tokens, through kills of either node.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use weir_client::follower::{Follower, FollowerConfig};
use weir_types::{OrderId, PartitionId, Reason, RequestNo, SessionId, Symbol};
use weir_wire::reference::DefineFirm;

use crate::support::address::free_address;
use crate::support::following::{Following, OrderState};
use crate::support::trader::Trader;
use crate::support::{
    ALICE, BOB, Home, Node, SUPERVISOR, TRADING, Who, definition_of, open_market, until,
};
use crate::tools::weir_at;

/// Reads the master's store next to a test's other readers.
const AUDITOR: Who = Who { session_id: SessionId(4), ..SUPERVISOR };
/// The session that a router uses at its nodes.
const ROUTER: Who = Who { session_id: SessionId(3), ..SUPERVISOR };

/// A market on a node that can be followed.
struct Market {
    home: Home,
    node: Node,
    alice: Trader,
    bob: Trader,
    number: u64,
}

impl Market {
    fn open(durability: &'static str, settings: &str) -> (Market, SocketAddr) {
        let listen = free_address();
        let config = format!("[ingest]\nlisten = \"{listen}\"\n{settings}");
        let home = Home::with_config(durability, &config);
        let node = home.start();
        open_market(&node, &[ALICE, BOB]);
        let mut admin = node.admin();
        for who in [AUDITOR, ROUTER] {
            admin.define_session(definition_of(&who)).unwrap();
        }
        admin.close().unwrap();
        let (alice, bob) = (Trader::log_on(&node, ALICE), Trader::log_on(&node, BOB));
        let mut market = Market { home, node, alice, bob, number: 1 };
        market.trade(20);
        (market, listen)
    }

    /// Enters orders that rest, trade in part, and end.
    fn trade(&mut self, count: u64) {
        self.send(count);
        self.alice.settle();
        self.bob.settle();
    }

    fn send(&mut self, count: u64) {
        for number in self.number..self.number + count {
            let price = 100 + (number % 20).cast_signed();
            self.alice.send(ALICE.sell(number, price, 10));
            self.bob.send(BOB.buy(number, price - 1, 1 + number % 15));
        }
        self.number += count;
    }

    /// Trades until the partition has published this many events.
    fn trade_until(&mut self, events: u64) {
        while self.node.partition_when(TRADING, |_| true)["events"].as_u64() < Some(events) {
            (0..10).for_each(|_| self.trade(100));
            self.alice.forget();
            self.bob.forget();
        }
    }

    /// Kills the node while orders are in flight, and starts it again.
    fn kill(&mut self) {
        self.send(30);
        self.node.kill();
        self.node = self.home.start();
        self.alice = Trader::log_on(&self.node, ALICE);
        self.bob = Trader::log_on(&self.node, BOB);
        // The names of orders that arrived before the kill are taken.
        self.number += 1_000;
    }

    /// Returns the store's orders, read from the beginning.
    fn states(&self) -> BTreeMap<OrderId, OrderState> {
        let mut reader = Following::start(&self.node, AUDITOR, Vec::new());
        reader.until_online();
        let states = reader.states();
        reader.log_out();
        states
    }
}

/// Starts a node that follows partition 1 of the master listening at `master`.
fn replica_of(master: SocketAddr, token_key: &Home, settings: &str) -> (Home, Node) {
    replica_of_partition(1, master, token_key, settings)
}

/// Starts a node that follows a partition of the master listening at `master`.
fn replica_of_partition(
    id: u16,
    master: SocketAddr,
    token_key: &Home,
    settings: &str,
) -> (Home, Node) {
    replica_of_sources(&[id], master, token_key, settings)
}

/// Starts a node that follows these sources of the master listening at `master`.
pub fn replica_of_sources(
    sources: &[u16],
    master: SocketAddr,
    token_key: &Home,
    settings: &str,
) -> (Home, Node) {
    let home = Home::with_config("os", "");
    let key: String = SUPERVISOR.key().0.iter().map(|byte| format!("{byte:02x}")).collect();
    weir_io::durable::write_file(&home.path("supervisor.key"), key.as_bytes(), 0o600).unwrap();
    let config = format!(
        "[replica]\nmaster = \"{master}\"\nsession = 2\nkey_file = {:?}\n\
         sources = {sources:?}\n{settings}",
        home.path("supervisor.key"),
    );
    std::fs::write(home.path("weir.toml"), config).unwrap();
    std::fs::create_dir_all(home.data()).unwrap();
    std::fs::copy(token_key.data().join("token.key"), home.data().join("token.key")).unwrap();
    let node = home.start();
    define_readers(&node);
    (home, node)
}

/// Defines the sessions of readers, at a node without a market.
fn define_readers(node: &Node) {
    let mut admin = node.admin();
    let (request_no, session_id) = (RequestNo::NONE, SessionId::NONE);
    for firm_id in [ALICE.firm_id, BOB.firm_id] {
        let name = Symbol::new(&format!("FIRM{firm_id}")).expect("a short name");
        admin
            .define_firm(DefineFirm {
                request_no,
                name,
                session_id,
                firm_id,
                live_orders_max: 0,
                fields: 0,
            })
            .unwrap();
    }
    for who in [SUPERVISOR, ALICE, BOB, ROUTER] {
        admin.define_session(definition_of(&who)).unwrap();
    }
    admin.close().unwrap();
}

fn followed(node: &Node) -> serde_json::Value {
    node.status()["replica"]["sources"][0].clone()
}

fn figure(node: &Node, name: &str) -> u64 {
    followed(node)[name].as_u64().unwrap_or_default()
}

/// Waits until the replica has everything the master has, with the same digest.
fn until_even(master: &Node, replica: &Node) {
    until("the replica to have what the master has", || {
        let (there, here) =
            (master.status()["delivery"]["sources"][0]["store"].clone(), followed(replica));
        let same = ["digest", "live_orders", "ended_orders"].map(|name| here[name] == there[name]);
        let is_even = here["is_whole"] == true && same == [true; 3] && here["lag_entries"] == 0;
        (is_even && here["live_orders"].as_u64() > Some(0)).then_some(())
    });
}

fn reader(node: &Node, who: Who) -> Following {
    Following::start(node, who, Vec::new())
}

#[test]
fn a_replica_of_the_engines_orders_equals_it_and_takes_its_tokens_through_kills_of_either() {
    let kills = std::env::var("WEIR_DELIVERY_KILLS").map_or(2, |text| text.parse().unwrap());
    let (mut market, listen) = Market::open("os", "");
    let (home, mut replica) = replica_of(listen, &market.home, "");
    until_even(&market.node, &replica);
    let mut following = reader(&market.node, SUPERVISOR);
    following.until(&market.states());
    for round in 1..=kills {
        // The master's token is valid here, and the replica's at the master.
        market.trade(20);
        until_even(&market.node, &replica);
        following.go_on(replica.address()).unwrap();
        following.until(&market.states());
        assert_eq!(figure(&replica, "snapshots"), 1, "the log went on, and the replica with it");

        market.kill();
        market.trade(20);
        until_even(&market.node, &replica);
        following.until(&market.states());
        following.go_on(market.node.address()).unwrap();
        following.until(&market.states());

        market.send(30);
        replica.kill();
        market.trade(20);
        replica = home.start();
        until_even(&market.node, &replica);
        let mut firm = reader(&replica, ALICE);
        let states = market.states();
        let own = states.into_iter().filter(|(_, state)| state.firm_id == ALICE.firm_id);
        firm.until(&own.collect());
        firm.log_out();
        if round % 10 == 0 || round == kills {
            let orders = figure(&replica, "live_orders") + figure(&replica, "ended_orders");
            println!("{round} kills of master and replica: {orders} orders, the same digest");
        }
    }
    assert!(following.resyncs.is_empty(), "tokens were good at both: {:?}", following.resyncs);
    let metrics = replica.get("/metrics").1;
    assert!(metrics.contains("weir_replica_lag_entries{source=\"1\"} "), "{metrics}");
    let of_store = |line: &&str| line.starts_with("weir_store_memory_bytes{source=\"1\"}");
    assert_eq!(metrics.lines().filter(of_store).count(), 1, "one store of one source");
}

#[test]
fn a_read_at_the_replica_waits_for_what_was_seen_at_the_master() {
    let (mut market, listen) = Market::open("os", "");
    let (_home, replica) = replica_of(listen, &market.home, "[delivery]\nindexes = \"none\"\n");
    until_even(&market.node, &replica);
    // The replica has caught up with the master; later reads require the master's newest token.
    let mut seen = reader(&market.node, SUPERVISOR);
    for _ in 0..20 {
        market.trade(5);
        seen.until(&market.states());
        let mut here = FollowerConfig::new(SUPERVISOR.session_id);
        here.keep_orders = true;
        let mut follower = Follower::new(here, Vec::new());
        follower.require(seen.follower.token().to_vec(), 30_000_000);
        let mut late = Following::start_as(&replica, SUPERVISOR, follower);
        late.until_online();
        assert_eq!(late.states(), seen.states(), "its first copy has all that was seen there");
        late.log_out();
    }
    assert_eq!(seen.refusals, []);
}

#[test]
fn what_the_master_lost_its_replica_loses_too() {
    let (mut market, listen) = Market::open("memory", "");
    let (_home, replica) = replica_of(listen, &market.home, "");
    until_even(&market.node, &replica);
    let mut following = reader(&replica, SUPERVISOR);
    following.until(&market.states());
    market.kill();
    market.trade(20);
    // A new epoch: the meaning of a position may be lost.
    until("another store", || (figure(&replica, "snapshots") > 1).then_some(()));
    until_even(&market.node, &replica);
    following.until(&market.states());
    assert!(following.resyncs.iter().all(|reason| *reason == Reason::ResyncEpoch));
}

#[test]
fn a_replica_that_stood_still_while_its_master_lost_and_went_on_is_even_again() {
    let (mut market, listen) = Market::open("memory", "");
    let (_home, replica) = replica_of(listen, &market.home, "");
    until_even(&market.node, &replica);
    let mut following = reader(&replica, SUPERVISOR);
    following.until(&market.states());
    let known = figure(&replica, "position");
    replica.pause(true);
    market.kill();
    // The sequence numbers that the replica knows now belong to other changes.
    market.trade_until(known + 1_000);
    replica.pause(false);
    until_even(&market.node, &replica);
    following.until(&market.states());
    assert!(following.resyncs.iter().all(|reason| *reason == Reason::ResyncEpoch));
}

#[test]
fn a_replica_that_is_too_far_behind_takes_the_engines_store_anew() {
    // At level `os` all events are in files, so that only the limit on reading them stands in the
    // way.
    let (mut market, listen) = Market::open("os", "[events]\nmemory_bytes = 8388608\n");
    let (_home, replica) = replica_of(listen, &market.home, "");
    until_even(&market.node, &replica);
    let mut following = reader(&replica, SUPERVISOR);
    following.until(&market.states());
    replica.pause(true);
    // More than memory holds, and more than the master reads from files for a replica.
    market.trade_until(80_000);
    until("the master's store to have it", || {
        (market.node.status()["delivery"]["sources"][0]["ingested"].as_u64() > Some(70_000))
            .then_some(())
    });
    replica.pause(false);
    until_even(&market.node, &replica);
    assert!(figure(&replica, "snapshots") > 1, "{}", followed(&replica));
    following.until(&market.states());
    assert!(following.resyncs.is_empty(), "the floor stands where it stood");
}

#[test]
fn a_replica_of_a_replica_has_the_same() {
    let (mut market, listen) = Market::open("os", "");
    let between = free_address();
    let (_home, first) =
        replica_of(listen, &market.home, &format!("[ingest]\nlisten = \"{between}\"\n"));
    until_even(&market.node, &first);
    let (_home_2, second) = replica_of(between, &market.home, "[delivery]\nindexes = [\"firm\"]\n");
    for _ in 0..3 {
        market.trade(30);
        until_even(&market.node, &first);
        until_even(&market.node, &second);
    }
    assert_eq!(figure(&second, "snapshots"), 1);
    let mut following = reader(&second, SUPERVISOR);
    following.until(&market.states());
}

#[test]
fn a_node_that_follows_the_partition_has_none_and_takes_no_orders() {
    let (market, listen) = Market::open("os", "");
    let (home, replica) = replica_of(listen, &market.home, "");
    until_even(&market.node, &replica);
    let status = replica.status();
    assert_eq!(status["partitions"].as_array().map(Vec::len), Some(1), "the control log alone");
    let mut alice = Trader::log_on(&replica, ALICE);
    let answer = alice.ask(ALICE.sell(1, 100, 10));
    let said = format!("{answer:?}");
    assert!(said.starts_with("Refused") && said.contains("UnknownInstrument"), "{said}");
    drop(replica);
    // Orders of its own would be hidden by the master's.
    std::fs::create_dir(home.data().join("partition-1")).unwrap();
    let refusal = home.fail_to_start();
    let said = String::from_utf8_lossy(&refusal.stderr).into_owned() + &home_said(&refusal);
    assert!(said.contains("replica.sources has the numbers of [[partition]]"), "{said}");
}

fn home_said(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_token_key_is_replaced_while_nodes_run_and_no_reader_begins_again() {
    let (mut market, listen) = Market::open("os", "");
    let (replica_home, replica) = replica_of(listen, &market.home, "");
    until_even(&market.node, &replica);
    let mut following = reader(&market.node, SUPERVISOR);
    following.until(&market.states());
    let homes = [&market.home, &replica_home];
    let configs = homes.map(|home| std::fs::read_to_string(home.path("weir.toml")).unwrap());
    let old = std::fs::read(market.home.data().join("token.key")).unwrap();
    // First the new key opens everywhere, then it seals, then the old key is removed.
    let steps: [(&[u8], &[u8]); 3] = [(&old, &[9; 32]), (&[9; 32], &old), (&[9; 32], &[9; 32])];
    let mut told = 0;
    for (seals, opens) in steps {
        for (node, (home, config)) in
            [&market.node, &replica].into_iter().zip(homes.into_iter().zip(&configs))
        {
            weir_io::durable::write_file(&home.data().join("token.key"), seals, 0o600).unwrap();
            weir_io::durable::write_file(&home.path("other.key"), opens, 0o600).unwrap();
            let keys = format!("token_keys_opened = [{:?}]\n", home.path("other.key"));
            let config = format!("{config}\n[delivery]\n{keys}");
            std::fs::write(home.path("weir.toml"), config).unwrap();
            node.hang_up();
            let count = |home: &Home| home.said().matches("the keys of tokens are read").count();
            until("the keys", || (count(home) > told).then_some(()));
            // Waiting readers receive their next page at one node and continue at the other.
            following.go_on(market.node.address()).unwrap();
            following.until(&BTreeMap::from_iter(following.states()));
        }
        told += 1;
        market.alice.send(ALICE.sell(10_000 + told as u64, 119, 1));
        market.alice.settle();
        until_even(&market.node, &replica);
        for address in [replica.address(), market.node.address()] {
            following.go_on(address).unwrap();
            following.until(&market.states());
        }
    }
    assert_eq!(following.resyncs, []);
    // A token sealed by the removed key is refused, and its reader receives the reason.
    weir_io::durable::write_file(&market.home.data().join("token.key"), &[3; 32], 0o600).unwrap();
    weir_io::durable::write_file(&market.home.path("other.key"), &[3; 32], 0o600).unwrap();
    market.node.hang_up();
    until("the refusal", || {
        following.go_on(market.node.address()).unwrap();
        following.poll(std::time::Duration::from_millis(50)).unwrap();
        (following.resyncs == [Reason::ResyncToken]).then_some(())
    });
    // A key file that cannot be read leaves the keys unchanged.
    std::fs::remove_file(market.home.path("other.key")).unwrap();
    market.node.hang_up();
    until("the line", || market.home.said().contains("the keys of tokens stay").then_some(()));
}

#[test]
fn a_router_asks_the_unindexed_replica_for_everything_and_the_master_for_a_firms() {
    let (mut market, listen) = Market::open("os", "");
    let (_home, mut replica) = replica_of(listen, &market.home, "[delivery]\nindexes = \"none\"\n");
    until_even(&market.node, &replica);
    let home = Home::with_config("os", "");
    let key: String = ROUTER.key().0.iter().map(|byte| format!("{byte:02x}")).collect();
    weir_io::durable::write_file(&home.path("router.key"), key.as_bytes(), 0o600).unwrap();
    let backend = |address: SocketAddr, role: &str| {
        format!(
            "[[router.backend]]\naddress = \"{address}\"\nsources = [1]\nsession = 3\n\
             key_file = {:?}\n{role}",
            home.path("router.key")
        )
    };
    let config = format!(
        "role = \"router\"\n[delivery]\ntoken_key = {:?}\n\
         [router]\nheartbeat_ms = 200\nprobe_ms = 50\n",
        market.home.data().join("token.key")
    );
    let config = config
        + &backend(market.node.address(), "")
        + &backend(replica.address(), "role = \"replica\"\nindexed = false\n");
    std::fs::write(home.path("weir.toml"), config).unwrap();
    let router = home.start();
    define_readers(&router);
    until("both stores", || {
        let sources = router.status()["router"]["sources"].clone();
        (sources[0]["serving"] == 2).then_some(())
    });
    let parked = |node: &Node| node.status()["delivery"]["parked"].as_u64();
    let mut all = reader(&router, SUPERVISOR);
    all.until(&market.states());
    // A query's wait is limited: a reader that is not polled meanwhile has none pending.
    let listen = |readers: &mut [&mut Following]| {
        for one in readers {
            one.poll(Duration::from_millis(1)).unwrap();
        }
    };
    until("everything at the replica", || {
        listen(&mut [&mut all]);
        ([parked(&market.node), parked(&replica)] == [Some(0), Some(1)]).then_some(())
    });
    let mut firm = reader(&router, ALICE);
    firm.until_online();
    until("a firm's at the master", || {
        listen(&mut [&mut all, &mut firm]);
        ([parked(&market.node), parked(&replica)] == [Some(1), Some(1)]).then_some(())
    });
    // A router has no readers to list, and shows the other sections.
    let top = weir_at(&router, &["top", "--once", "--json"]).output().unwrap();
    assert!(top.status.success(), "{top:?}");
    let top: serde_json::Value = serde_json::from_slice(&top.stdout).unwrap();
    assert_eq!(top["readers"], serde_json::json!([]), "{top}");
    // The replica dies: its reader continues at the master, by the same token.
    replica.kill();
    market.trade(10);
    until("both at the master", || {
        listen(&mut [&mut all, &mut firm]);
        (parked(&market.node) == Some(2)).then_some(())
    });
    all.until(&market.states());
    assert!(all.resyncs.is_empty() && firm.resyncs.is_empty());
}

#[test]
fn a_replica_of_another_number_equals_its_master_and_does_not_trade_when_the_number_is_forgotten() {
    let (mut market, listen) = Market::open("os", "[[partition]]\nid = 7\n");
    let (home, replica) = replica_of_partition(7, listen, &market.home, "[[partition]]\nid = 7\n");
    until_even(&market.node, &replica);
    market.trade(20);
    until_even(&market.node, &replica);
    let states = market.states();
    assert!(states.keys().all(|id| id.partition() == PartitionId(7)));
    let mut following = reader(&replica, SUPERVISOR);
    following.until(&states);
    following.go_on(market.node.address()).unwrap();
    market.trade(20);
    following.until(&market.states());
    following.log_out();
    assert!(replica.terminate().success());
    let config = std::fs::read_to_string(home.path("weir.toml")).unwrap();
    let forgotten = config.replace("[[partition]]\nid = 7\n", "");
    assert_ne!(forgotten, config);
    std::fs::write(home.path("weir.toml"), forgotten).unwrap();
    let said = String::from_utf8(home.fail_to_start().stderr).unwrap();
    assert!(said.contains("[[partition]]") && said.contains("partition 1"), "{said}");
    assert!(!home.data().join("partition-1").exists(), "nothing was begun");
}

#[test]
fn a_first_start_with_a_followed_source_that_was_killed_begins_again() {
    let (market, listen) = Market::open("os", "[[partition]]\nid = 7\n");
    let (home, replica) = replica_of_partition(7, listen, &market.home, "[[partition]]\nid = 7\n");
    drop(replica);
    // As partition 1 it trades beside the source that it follows; the start ends at the control
    // partition's directory.
    let config = std::fs::read_to_string(home.path("weir.toml")).unwrap();
    let own = config.replace("[[partition]]\nid = 7\n", "");
    std::fs::write(home.path("weir.toml"), own).unwrap();
    let token_key = std::fs::read(home.data().join("token.key")).unwrap();
    std::fs::remove_dir_all(home.data()).unwrap();
    std::fs::create_dir(home.data()).unwrap();
    weir_io::durable::write_file(&home.data().join("token.key"), &token_key, 0o600).unwrap();
    let control = home.data().join("control");
    std::os::unix::fs::symlink("nowhere", &control).unwrap();
    let said = String::from_utf8(home.fail_to_start().stderr).unwrap();
    assert!(said.contains("control"), "{said}");
    // What a kill leaves behind the creation of that directory.
    std::fs::remove_file(&control).unwrap();
    std::fs::create_dir(&control).unwrap();
    let node = home.start();
    assert!(node.terminate().success());
}
