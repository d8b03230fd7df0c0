//! Stores with the same orders: the router's choice between them, and readers that move from one to
//! another.

use std::time::Duration;

use weir_client::load::Rng;

use crate::rig::{ROUTER, Rig, Router, mirror};
use crate::support::following::Following;
use crate::support::{ALICE, Node, SUPERVISOR, until};
use crate::test_core::TestCore;

/// Returns two nodes with the same feed, and a router that treats the second as an unindexed
/// replica.
fn rig() -> (Rig, Router) {
    let mut rig = Rig::new(&[&[21]]);
    rig.add_backend(&[21]);
    rig.cores.push(TestCore::new(rig.backends[1].ingest, 21));
    let behind: [(usize, &[u16]); 2] = [(0, &[21]), (1, &[21])];
    let config = rig.router_config(ROUTER, &behind) + "role = \"replica\"\nindexed = false\n";
    let router = Router::start(&config);
    (rig, router)
}

/// Lets both cores make the same changes.
fn trade(rig: &mut Rig, seed: u64) {
    for core in &mut rig.cores {
        let mut rng = Rng::new(seed);
        (0..30).for_each(|_| core.trade(&mut rng));
    }
    rig.until_fed();
}

fn parked(node: &Node) -> u64 {
    node.status()["delivery"]["parked"].as_u64().expect("a number")
}

#[test]
fn filters_are_asked_of_the_master_and_everything_of_the_unindexed_replica() {
    let (mut rig, router) = rig();
    trade(&mut rig, 1);
    router.until_serving(2);
    let mut supervisor = router.follow(SUPERVISOR, Vec::new());
    rig.until_same(&mut supervisor);
    let waiting = |rig: &Rig| -> Vec<u64> {
        rig.backends.iter().map(|backend| parked(backend.node())).collect()
    };
    // A query's wait is limited: a reader that is not polled meanwhile has none pending.
    let listen = |readers: &mut [&mut Following]| {
        for one in readers {
            one.poll(Duration::from_millis(1)).unwrap();
        }
    };
    until("a question at the replica alone", || {
        listen(&mut [&mut supervisor]);
        (waiting(&rig) == [0, 1]).then_some(())
    });
    let mut alice = router.follow(ALICE, Vec::new());
    rig.until_same(&mut alice);
    until("a firm's at the master", || {
        listen(&mut [&mut supervisor, &mut alice]);
        (waiting(&rig) == [1, 1]).then_some(())
    });
    // The replica dies: its reader continues at the master, by the same token.
    rig.backends[1].kill();
    until("both at the master", || {
        listen(&mut [&mut supervisor, &mut alice]);
        (parked(rig.backends[0].node()) == 2).then_some(())
    });
    rig.cores.pop();
    trade(&mut rig, 2);
    rig.until_same(&mut supervisor);
    rig.until_same(&mut alice);
    assert!(supervisor.resyncs.is_empty() && alice.resyncs.is_empty());
}

#[test]
fn a_read_waits_at_a_lagging_replica_for_what_was_seen_at_the_master() {
    let (mut rig, router) = rig();
    trade(&mut rig, 1);
    router.until_serving(2);
    // The master advances, the replica does not.
    let replica = rig.cores.pop().expect("it was pushed");
    trade(&mut rig, 2);
    let mut at_master = router.follow(ALICE, Vec::new());
    rig.until_same(&mut at_master);
    let seen = at_master.follower.token().to_vec();
    at_master.log_out();
    rig.backends[0].kill();
    until("its loss", || (router.serving() == 1).then_some(()));
    let ask = |min_wait_us: u32| {
        let mut reader = router.follow_unasked(ALICE);
        reader.follower.require(seen.clone(), min_wait_us);
        reader.ask();
        reader
    };
    // With a short wait the read is refused with the reason.
    let mut reader = ask(50_000);
    until("the refusal", || {
        reader.poll(std::time::Duration::from_millis(5)).unwrap();
        (reader.refusals == [weir_types::Reason::MinTokenNotReached]).then_some(())
    });
    reader.log_out();
    // With a long wait the page arrives.
    let mut reader = ask(30_000_000);
    rig.cores.push(replica);
    let core = rig.cores.last_mut().expect("pushed above");
    let mut rng = Rng::new(2);
    (0..30).for_each(|_| core.trade(&mut rng));
    while !core.is_fed() {
        core.pump(std::time::Duration::from_millis(2));
    }
    until("the first page", || {
        reader.poll(std::time::Duration::from_millis(5)).unwrap();
        (reader.row_count > 0).then_some(())
    });
    rig.cores.swap_remove(0);
    rig.until_same(&mut reader);
    assert_eq!((&reader.resyncs[..], mirror(&reader).is_empty()), (&[][..], false));
}
