//! Life after life of one machine, and what is held against it.

use std::collections::BTreeMap;
use std::thread::JoinHandle;

use weir_client::load::Rng;
use weir_powercut::Losses;
use weir_types::PartitionId;

use crate::common::{Node, TRADING, open_market};
use crate::cutter::{Aim, Cut, aim_at};
use crate::machine::Machine;
use crate::party::{Party, TRADERS, number_from};
use crate::trader::LoadedTrader;

/// What a node's level of durability promises at a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Nothing that was acknowledged is lost.
    KeepsAll,
    /// What is lost begins an epoch, and whoever saw it is told.
    TellsWhatIsLost,
}

pub struct Campaign {
    // First: a node on the machine ends before its disk does.
    node: Option<Node>,
    machine: Machine,
    party: Party,
    promise: Promise,
    rng: Rng,
    epoch: u64,
    /// Whether the power failed since the last look at the epoch.
    has_lost_power: bool,
    cuts: Vec<Cut>,
    /// How often the power was cut, by what the node wrote by.
    cuts_by_sync: BTreeMap<&'static str, u64>,
}

impl Campaign {
    /// Opens a market on the machine; its definitions are on the disk then.
    pub fn begin(machine: Machine, promise: Promise) -> Campaign {
        let seed = number_from("WEIR_SEED", 1);
        let node = machine.home.start();
        open_market(&node, &TRADERS);
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

    /// How often the power was cut; kills of the process alone do not count.
    pub fn cut_count(&self) -> u64 {
        self.cuts.iter().filter(|cut| cut.aim != Aim::KillOnly).count() as u64
    }

    /// One more life under load, to its cut; then as many as end before they have begun; then a
    /// start in peace, and the audit.
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

    /// Waits for the end of a node that is aimed at, and brings the power back.
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

    /// A start that the power does not outlast, or not by long: the second of two cuts in quick
    /// succession.
    fn start_to_be_cut(&mut self) {
        let starting = self.machine.home.spawn();
        let pid = starting.pid();
        let cutter = aim_at(pid, self.machine.disk(), Aim::Recovery, &mut self.rng);
        match starting.wait() {
            Ok(node) => {
                // It came through. Who comes back now may meet the cut while resuming; where
                // answers may be lost nobody does, for what is lost could not be told in peace.
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

    /// Stops the node in order; both of its logs are sound.
    pub fn end(&mut self) {
        let node = self.node.take().expect("a node runs between lives");
        assert!(node.terminate().success());
        for partition_id in [PartitionId(0), TRADING] {
            self.machine.home.verify(partition_id);
        }
    }

    /// Says what was done; that the promise was kept, the audits have asserted.
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
