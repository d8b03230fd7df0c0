//! `kill -9` of the real process under load: no answer that a client received is lost, no request
//! is executed twice, and sessions resume without a gap.
//!
//! Traders keep a ledger of all requests and received events. The node is killed at times drawn
//! from a seed, sometimes while sessions still resume. Traders log on again at a random earlier
//! position, so that known events are sent again. They repeat requests without an answer, and some
//! that have one. After every longer life the test waits for quiet and compares the ledgers, the
//! command log applied to a new engine, the follower's orders by a token kept over all kills, and
//! the node's digest. A session that chose cancel-on-disconnect enters orders in each life and does
//! not return after the kill: they must go.
//!
//! `WEIR_KILLS` sets the number of kills at each level (3), `WEIR_SEED` the seed (1).

#![allow(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "every test program takes a part of it")]
mod support;

mod audit;
mod copies;
mod leaver;
mod ledger;
mod party;
mod trader;

use std::thread::JoinHandle;
use std::time::Duration;

use party::{MARKET, Party, SMALL_FILES, number_from};
use support::{Home, Node, TRADING, open_market};
use trader::LoadedTrader;
use weir_client::load::Rng;

/// A node that is killed repeatedly, and its clients.
struct Campaign {
    home: Home,
    rng: Rng,
    party: Party,
    kills: u64,
}

impl Campaign {
    fn begin(durability: &'static str) -> (Campaign, Node) {
        let seed = number_from("WEIR_SEED", 1);
        let home = Home::with_config(durability, SMALL_FILES);
        let node = home.start();
        open_market(&node, &MARKET);
        let party = Party::log_on(&node, seed);
        (Campaign { party, rng: Rng::new(seed), home, kills: 0 }, node)
    }

    /// Kills the node at a random moment within `within_ms`, from another thread.
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
        self.party.trade_to_the_end();
        killer.join().unwrap();
    }

    /// Prints a summary of the campaign.
    fn tell(&self, durability: &str) {
        println!("{durability}: {} kills, {}", self.kills, self.party.summary());
    }
}

/// Kills a node at a level that survives a process's death, and audits after every longer life.
fn check_that_kills_lose_nothing(durability: &'static str) {
    let (mut campaign, mut node) = Campaign::begin(durability);
    let kills = number_from("WEIR_KILLS", 3);
    while campaign.kills < kills {
        let killer = campaign.kill_later(node, 200);
        campaign.trade_to_the_end(killer);
        node = campaign.home.start();
        // Sometimes the node is killed again before every client has reconnected.
        if campaign.kills < kills && campaign.rng.below(2) == 0 {
            let address = node.address();
            let killer = campaign.kill_later(node, 30);
            campaign.party.reconnect(address, LoadedTrader::come_back);
            campaign.trade_to_the_end(killer);
            node = campaign.home.start();
        }
        campaign.party.reconnect(node.address(), LoadedTrader::come_back);
        campaign.party.audit(&campaign.home, &node);
    }
    assert!(campaign.party.following.resyncs.is_empty(), "{:?}", campaign.party.following.resyncs);
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
        // The node may have lost events that a session received; exactly then its resume is
        // refused.
        campaign.party.look_for_losses(&campaign.home);
        campaign.party.reconnect(node.address(), LoadedTrader::come_back_to_less);
        let row = campaign.party.audit(&campaign.home, &node);
        assert!(row["epoch"].as_u64() > epoch, "a new epoch: {row} after {epoch:?}");
        epoch = row["epoch"].as_u64();
    }
    campaign.tell("memory");
    let refused = campaign.party.sum(|trader| trader.refused_count);
    let resyncs = campaign.party.following.resyncs.len();
    println!("memory: {refused} resumes refused, the follower was sent back {resyncs} times");
}
