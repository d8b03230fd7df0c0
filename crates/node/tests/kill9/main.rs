//! `kill -9` of the real process under load: nothing that anybody saw answered is lost, nothing is
//! executed twice, sessions resume without a gap.
//!
//! Traders keep a ledger of all that they sent and heard. The node is killed at times from a seed,
//! sometimes while sessions still resume; traders log on again a random way back, so that they
//! are told again what they know, send again what has no answer, and some of what has one. After
//! every longer life all comes to rest and is compared: ledgers, the command log applied to a new
//! engine, the follower's view by a token kept over all kills, the digest that the node shows.
//!
//! `WEIR_KILLS` sets how often each level is killed (3), `WEIR_SEED` the seed (1).

#![allow(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "every test program takes a part of it")]
mod common;

mod audit;
mod ledger;
mod trader;

use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use weir_client::clock::wait;
use weir_client::load::Rng;

use common::following::{Following, latest_states};
use common::{HANG, Home, Node, SUPERVISOR, TRADING, Who, open_market, trader_of, until};
use trader::LoadedTrader;

const TRADERS: [Who; 4] = [trader_of(21), trader_of(22), trader_of(23), trader_of(24)];

fn number_from(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

/// A node that is killed again and again, and everybody who uses it.
struct Campaign {
    home: Home,
    rng: Rng,
    traders: Vec<LoadedTrader>,
    following: Following,
    kills: u64,
}

impl Campaign {
    fn begin(durability: &'static str) -> (Campaign, Node) {
        let seed = number_from("WEIR_SEED", 1);
        // Small segments and frequent snapshots: recovery meets many of both.
        let config = "[log]\nsegment_bytes = 1048576\n[events]\nsegment_bytes = 1048576\n\
                      [snapshots]\nevery_commands = 2000\n";
        let home = Home::with_config(durability, config);
        let node = home.start();
        open_market(&node, &TRADERS);
        let traders = (1..).zip(TRADERS);
        let traders =
            traders.map(|(i, who)| LoadedTrader::log_on(&node, who, Rng::new(seed * 100 + i)));
        let campaign = Campaign {
            traders: traders.collect(),
            following: Following::start(&node, SUPERVISOR, Vec::new()),
            rng: Rng::new(seed),
            home,
            kills: 0,
        };
        (campaign, node)
    }

    /// Kills the node after a while, whatever it is doing then.
    fn kill_later(&mut self, mut node: Node, within_ms: u64) -> JoinHandle<()> {
        self.kills += 1;
        let after = Duration::from_micros(self.rng.below(within_ms * 1000));
        std::thread::spawn(move || {
            std::thread::sleep(after);
            node.kill();
        })
    }

    /// Loads the node until it is gone.
    fn trade_to_the_end(&mut self, killer: JoinHandle<()>) {
        while self.traders.iter().any(LoadedTrader::is_connected) {
            for trader in self.traders.iter_mut().filter(|trader| trader.is_connected()) {
                trader.fill_window();
                trader.receive();
            }
            self.follow();
            let connected = self.traders.iter().filter(|trader| trader.is_connected());
            let connections = connected.map(|trader| trader.client().connection());
            wait(connections, Duration::from_millis(5)).unwrap();
        }
        killer.join().unwrap();
    }

    fn follow(&mut self) {
        if let Err(error) = self.following.poll(Duration::ZERO) {
            assert!(error.is_connection_lost(), "the follower: {error}");
        }
    }

    /// Everybody comes back, each trader in the way that is given.
    fn reconnect(&mut self, address: SocketAddr, way: fn(&mut LoadedTrader, SocketAddr)) {
        for trader in &mut self.traders {
            way(trader, address);
        }
        if let Err(error) = self.following.go_on(address) {
            assert!(error.is_connection_lost(), "the follower: {error}");
        }
    }

    /// Waits until every request has its answer and every answer is heard.
    fn settle(&mut self) {
        for _ in 0..2 {
            // The second round comes behind all that others' requests did in the first.
            for trader in &mut self.traders {
                trader.send_fence();
            }
            for trader in &mut self.traders {
                let begun = std::time::Instant::now();
                while trader.unanswered_count() > 0 {
                    wait([trader.client().connection()], Duration::from_millis(20)).unwrap();
                    trader.receive();
                    assert!(begun.elapsed() < HANG, "{:?} has no answers", trader.who);
                }
            }
        }
    }

    /// Compares what everybody knows at rest. Returns the partition's row of the status page.
    fn audit(&mut self, node: &Node) -> Value {
        self.settle();
        // At `memory` the files follow the answers by some milliseconds.
        let (verified, row) = until("the same position in files and figures", || {
            let verified = self.home.verify(TRADING);
            let row = node.partition_when(TRADING, |_| true);
            (row["position"] == verified["position"]).then_some((verified, row))
        });
        assert_eq!(row["digest"], verified["digest"], "the log's digest is the node's");
        let ledgers: Vec<_> = self.traders.iter().map(|trader| &trader.ledger).collect();
        audit::check_against_log(&self.home, &ledgers);
        audit::check_fills(&ledgers);
        let events = ledgers.iter().flat_map(|ledger| ledger.order_events());
        self.following.until(&latest_states(events));
        row
    }

    /// Says what was done; that nothing was lost or executed twice, the audits have asserted.
    fn tell(&self, durability: &str) {
        let sum = |of: fn(&LoadedTrader) -> u64| self.traders.iter().map(of).sum::<u64>();
        println!(
            "{durability}: {} kills, {} requests, all of them answered; sent again: {} without an \
             answer, {} with one; events: {} heard, {} answers first told by resume, {} told again",
            self.kills,
            sum(|t| t.ledger.sent.len() as u64),
            sum(|t| t.resubmitted_count),
            sum(|t| t.repeated_count),
            sum(|t| t.ledger.events.len() as u64),
            sum(|t| t.ledger.resumed_count),
            sum(|t| t.ledger.told_again_count),
        );
    }
}

/// Kills a node at a level that outlives a process, and looks after every longer life.
fn check_that_kills_lose_nothing(durability: &'static str) {
    let (mut campaign, mut node) = Campaign::begin(durability);
    let kills = number_from("WEIR_KILLS", 3);
    while campaign.kills < kills {
        let killer = campaign.kill_later(node, 200);
        campaign.trade_to_the_end(killer);
        node = campaign.home.start();
        // Sometimes it is gone again before everybody is back.
        if campaign.kills < kills && campaign.rng.below(2) == 0 {
            let address = node.address();
            let killer = campaign.kill_later(node, 30);
            campaign.reconnect(address, LoadedTrader::come_back);
            campaign.trade_to_the_end(killer);
            node = campaign.home.start();
        }
        campaign.reconnect(node.address(), LoadedTrader::come_back);
        campaign.audit(&node);
    }
    assert!(campaign.following.resyncs.is_empty(), "{:?}", campaign.following.resyncs);
    campaign.tell(durability);
    println!("{durability}: 0 answers lost, 0 requests executed twice");
    assert!(node.terminate().success());
}

#[test]
fn kills_at_level_disk_lose_nothing_and_execute_nothing_twice() {
    check_that_kills_lose_nothing("disk");
}

#[test]
fn kills_at_level_os_lose_nothing_and_execute_nothing_twice() {
    check_that_kills_lose_nothing("os");
}

#[test]
fn after_a_kill_at_level_memory_a_new_epoch_begins_with_a_consistent_beginning_of_history() {
    let (mut campaign, mut node) = Campaign::begin("memory");
    let mut epoch = node.partition_when(TRADING, |_| true)["epoch"].as_u64();
    for _ in 0..number_from("WEIR_KILLS", 3) {
        let killer = campaign.kill_later(node, 200);
        campaign.trade_to_the_end(killer);
        node = campaign.home.start();
        // What a session heard may be gone; then its resume is refused and says so.
        campaign.reconnect(node.address(), LoadedTrader::come_back_to_less);
        let row = campaign.audit(&node);
        assert!(row["epoch"].as_u64() > epoch, "a new epoch: {row} after {epoch:?}");
        epoch = row["epoch"].as_u64();
    }
    campaign.tell("memory");
    let refused: u64 = campaign.traders.iter().map(|trader| trader.refused_count).sum();
    let resyncs = campaign.following.resyncs.len();
    println!("memory: {refused} resumes refused, the follower was sent back {resyncs} times");
}
