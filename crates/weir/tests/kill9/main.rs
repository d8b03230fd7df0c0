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
mod copies;
mod ledger;
mod party;
mod trader;

use std::thread::JoinHandle;
use std::time::Duration;

use common::{Home, Node, TRADING, open_market};
use party::{Party, SMALL_FILES, TRADERS, number_from};
use trader::LoadedTrader;
use weir_client::load::Rng;

/// A node that is killed again and again, and everybody who uses it.
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
        open_market(&node, &TRADERS);
        let party = Party::log_on(&node, seed);
        (Campaign { party, rng: Rng::new(seed), home, kills: 0 }, node)
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
        self.party.trade_to_the_end();
        killer.join().unwrap();
    }

    /// Says what was done.
    fn tell(&self, durability: &str) {
        println!("{durability}: {} kills, {}", self.kills, self.party.summary());
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
        // What a session heard may be gone; then, and only then, its resume is refused.
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
