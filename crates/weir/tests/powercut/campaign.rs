//! Successive lives of one machine, and the checks after them.

use std::collections::BTreeMap;
use std::thread::JoinHandle;

use weir_client::load::Rng;
use weir_powercut::Losses;
use weir_types::PartitionId;

use crate::cutter::{Aim, Cut, aim_at};
use crate::machine::Machine;
use crate::party::{MARKET, Party, number_from};
use crate::support::{Node, TRADING, open_market};
use crate::trader::LoadedTrader;

/// A durability level's promise about power cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// No acknowledged request is lost.
    KeepsAll,
    /// A loss begins an epoch, and every client that saw a lost event receives a refusal.
    TellsWhatIsLost,
}

pub struct Campaign {
    // First: the node must end before the machine's disk.
    node: Option<Node>,
    machine: Machine,
    party: Party,
    promise: Promise,
    rng: Rng,
    epoch: u64,
    /// True if the power failed since the epoch was last checked.
    has_lost_power: bool,
    cuts: Vec<Cut>,
    /// The number of power cuts, by the node's way of writing.
    cuts_by_sync: BTreeMap<&'static str, u64>,
}

impl Campaign {
    /// Opens a market on the machine and restarts the node, so that the definitions are on disk.
    pub fn begin(machine: Machine, promise: Promise) -> Campaign {
        let seed = number_from("WEIR_SEED", 1);
        let node = machine.home.start();
        open_market(&node, &MARKET);
        assert!(node.terminate().success());
        let node = machine.home.start();
        let party = Party::log_on(&node, seed);
        let epoch = epoch_of(&node);
        let rng = Rng::new(seed);
        Campaign {
            node: Some(node),
            machine,
            party,
            promise,
            rng,
            epoch,
            has_lost_power: false,
            cuts: Vec::new(),
            cuts_by_sync: BTreeMap::new(),
        }
    }

    /// Returns the number of power cuts, without kills of the process alone.
    pub fn cut_count(&self) -> u64 {
        self.cuts.iter().filter(|cut| cut.aim != Aim::KillOnly).count() as u64
    }

    /// Runs one more life under load until its cut, then some starts that are cut short, then an
    /// undisturbed start with the audit.
    pub fn live_on(&mut self) {
        let node = self.node.take().expect("a node runs between lives");
        let aim = Aim::draw(&mut self.rng);
        let cutter = aim_at(node.pid(), self.machine.disk(), aim, &mut self.rng);
        self.party.trade_to_the_end();
        self.bury(node, cutter);
        while self.rng.below(3) == 0 {
            self.start_to_be_cut();
        }
        let node = self.machine.home.start();
        self.machine.hear();
        if self.promise == Promise::TellsWhatIsLost {
            self.party.look_for_losses(&self.machine.home);
        }
        self.party.reconnect(node.address(), self.way_back());
        self.audit(&node);
        self.node = Some(node);
    }

    /// Waits for the cut of a node, reaps its process and boots the machine again.
    fn bury(&mut self, mut node: Node, cutter: JoinHandle<Cut>) {
        let cut = cutter.join().unwrap();
        node.kill();
        self.note(cut);
    }

    fn note(&mut self, cut: Cut) {
        self.cuts.push(cut);
        if cut.aim != Aim::KillOnly {
            *self.cuts_by_sync.entry(self.machine.sync()).or_default() += 1;
            self.has_lost_power = true;
            self.machine.boot();
        }
    }

    /// Starts a node whose power fails during the start or shortly after: the second of two cuts in
    /// quick succession.
    fn start_to_be_cut(&mut self) {
        let starting = self.machine.home.spawn();
        let pid = starting.pid();
        let cutter = aim_at(pid, self.machine.disk(), Aim::Recovery, &mut self.rng);
        match starting.wait() {
            Ok(node) => {
                // The start finished. Clients that come back now may meet the cut while resuming.
                // Where answers may be lost no client comes back, since the cut could interrupt
                // the report of a loss.
                if self.promise == Promise::KeepsAll {
                    self.party.reconnect(node.address(), LoadedTrader::come_back);
                    self.party.trade_to_the_end();
                }
                self.bury(node, cutter);
            }
            Err(_) => {
                let cut = cutter.join().unwrap();
                self.note(cut);
            }
        }
    }

    fn way_back(&self) -> fn(&mut LoadedTrader, std::net::SocketAddr) {
        match self.promise {
            Promise::KeepsAll => LoadedTrader::come_back,
            Promise::TellsWhatIsLost => LoadedTrader::come_back_to_less,
        }
    }

    fn audit(&mut self, node: &Node) {
        let row = self.party.audit(&self.machine.home, node);
        let epoch = row["epoch"].as_u64().expect("a number");
        match self.promise {
            Promise::KeepsAll => {
                let resyncs = &self.party.following.resyncs;
                assert!(resyncs.is_empty(), "the follower was sent back: {resyncs:?}");
            }
            Promise::TellsWhatIsLost => {
                assert_eq!(
                    epoch > self.epoch,
                    self.has_lost_power,
                    "an epoch for each loss: {row}"
                );
            }
        }
        self.epoch = epoch;
        self.has_lost_power = false;
    }

    /// Stops the node cleanly and verifies both of its logs.
    pub fn end(&mut self) {
        let node = self.node.take().expect("a node runs between lives");
        assert!(node.terminate().success());
        for partition_id in [PartitionId(0), TRADING] {
            self.machine.home.verify(partition_id);
        }
    }

    /// Prints a summary; the audits have asserted that the promise was kept.
    pub fn tell(&self, level: &str) {
        let mut losses = Losses::default();
        let mut hits: BTreeMap<Aim, (u64, u64)> = BTreeMap::new();
        for cut in &self.cuts {
            losses.add(cut.losses);
            let (all, hit) = hits.entry(cut.aim).or_default();
            *all += 1;
            *hit += u64::from(cut.has_hit);
        }
        let kills = self.cuts.len() as u64 - self.cut_count();
        println!(
            "{level}: {} power cuts, {kills} kills, {}",
            self.cut_count(),
            self.party.summary()
        );
        for aim in Aim::ALL {
            let (all, hit) = hits.get(&aim).copied().unwrap_or_default();
            println!("{level}:   aimed at {aim:?}: {all}, of them {hit} hit");
        }
        println!("{level}: cuts by what the node wrote by: {:?}", self.cuts_by_sync);
        println!("{level}: unsynced at the cuts: {losses:?}");
        println!("{level}: the disk did {:?}", self.machine.disk().counts());
        println!(
            "{level}: {} events lost, {} resumes refused, the follower was sent back {} times, \
             epoch {}",
            self.party.sum(|t| t.ledger.lost_count),
            self.party.sum(|t| t.refused_count),
            self.party.following.resyncs.len(),
            self.epoch,
        );
    }
}

fn epoch_of(node: &Node) -> u64 {
    node.partition_when(TRADING, |_| true)["epoch"].as_u64().expect("a number")
}
