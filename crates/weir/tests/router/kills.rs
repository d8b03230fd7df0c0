//! `kill -9` of a node, a router and a client alternately, while cores trade and readers follow.
//!
//! After each kill everything resumes at once: the node's cores feed it again, the router's readers
//! move to the other router, and the client continues from its kept token. In the end each reader
//! has exactly the cores' last states, and none was sent a RESYNC.

use std::time::{Duration, Instant};

use weir_client::load::Rng;

use crate::rig::{ROUTER, ROUTER_2, Rig, Router, mirror};
use crate::support::following::Following;
use crate::support::{ALICE, BOB, HANG, SUPERVISOR, Who};

fn number_from(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// The readers, each with the index of its router.
struct Readers {
    readers: Vec<(Following, usize)>,
    lost_count: u64,
}

impl Readers {
    /// Handles incoming messages; a reader that lost its router moves to the other one.
    fn poll(&mut self, routers: &[Option<Router>]) {
        for (reader, at) in &mut self.readers {
            if reader.poll(Duration::from_millis(1)).is_ok() {
                continue;
            }
            self.lost_count += 1;
            let begun = Instant::now();
            loop {
                *at = (*at + 1) % routers.len();
                let there = routers[*at].as_ref().map(|router| router.node.address());
                if there.is_some_and(|address| reader.go_on(address).is_ok()) {
                    break;
                }
                assert!(begun.elapsed() < HANG, "no router lets {} in", reader.who.session_id);
            }
        }
    }
}

struct Campaign {
    rig: Rig,
    routers: Vec<Option<Router>>,
    readers: Readers,
    rng: Rng,
}

const ROUTERS: [Who; 2] = [ROUTER, ROUTER_2];

impl Campaign {
    fn begin() -> Campaign {
        let rig = Rig::new(&[&[21, 22], &[31, 32]]);
        let routers: Vec<_> =
            ROUTERS.map(|who| Some(Router::start(&rig.config_of_all(who)))).into();
        let begin = |(index, who): (usize, Who)| {
            let at = index % 2;
            let router = routers[at].as_ref().expect("it runs");
            (router.follow(who, Vec::new()), at)
        };
        let readers = [SUPERVISOR, ALICE, BOB].into_iter().enumerate().map(begin).collect();
        let readers = Readers { readers, lost_count: 0 };
        let rng = Rng::new(number_from("WEIR_SEED", 1));
        Campaign { rig, routers, readers, rng }
    }

    /// Lets cores trade and readers follow for `cycles` rounds.
    fn run(&mut self, cycles: u64) {
        for _ in 0..cycles {
            for core in &mut self.rig.cores {
                (0..self.rig.rng.below(5)).for_each(|_| core.trade(&mut self.rig.rng));
                core.pump(Duration::from_millis(1));
            }
            self.readers.poll(&self.routers);
        }
    }

    fn kill_a_node(&mut self) {
        let index = self.rng.below(2) as usize;
        self.rig.backends[index].kill();
        let cycles = self.rng.below(40);
        self.run(cycles);
        self.rig.backends[index].start();
    }

    fn kill_a_router(&mut self) {
        let index = self.rng.below(2) as usize;
        let Router { home, mut node } = self.routers[index].take().expect("it runs");
        node.kill();
        let cycles = self.rng.below(20);
        self.run(cycles);
        let node = home.start();
        self.routers[index] = Some(Router { home, node });
    }

    /// Kills a client; its orders and token survive as of the last page taken, as if on disk.
    fn kill_a_client(&mut self) {
        let index = self.rng.below(3) as usize;
        let (reader, at) = &mut self.readers.readers[index];
        let address = self.routers[*at].as_ref().expect("it runs").node.address();
        let begun = Instant::now();
        // Its session stays logged on until the router notices the connection's end.
        while reader.go_on(address).is_err() {
            assert!(begun.elapsed() < HANG, "the client is not let in again");
        }
    }

    /// Waits until all cores are fed, and compares the readers with them.
    fn check(&mut self) {
        let begun = Instant::now();
        while !self.rig.cores.iter().all(crate::test_core::TestCore::is_fed) {
            assert!(begun.elapsed() < HANG, "the nodes do not take all");
            self.run(0);
            for core in &mut self.rig.cores {
                core.pump(Duration::from_millis(1));
            }
            self.readers.poll(&self.routers);
        }
        loop {
            let is_same =
                |(reader, _): &(Following, usize)| mirror(reader) == self.rig.wanted(reader.who);
            if self.readers.readers.iter().all(is_same) {
                break;
            }
            assert!(begun.elapsed() < HANG, "a reader does not come to know all");
            self.readers.poll(&self.routers);
        }
        for (reader, _) in &self.readers.readers {
            assert_eq!(reader.resyncs, [], "nothing was lost that a reader had");
            assert_eq!(reader.refusals, []);
        }
    }
}

#[test]
fn readers_end_with_what_the_cores_said_whatever_is_killed() {
    let kills = number_from("WEIR_DELIVERY_KILLS", 1);
    let mut campaign = Campaign::begin();
    campaign.run(50);
    for round in 1..=kills {
        for kill in [Campaign::kill_a_node, Campaign::kill_a_router, Campaign::kill_a_client] {
            kill(&mut campaign);
            let cycles = campaign.rng.below(60);
            campaign.run(cycles);
        }
        campaign.check();
        if round % 10 == 0 || round == kills {
            let orders = campaign.rig.wanted(SUPERVISOR).len();
            let lost = campaign.readers.lost_count;
            println!(
                "{round} kills of each: {orders} orders, {lost} connections lost, all the same"
            );
        }
    }
}
