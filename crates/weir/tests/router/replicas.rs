//! Stores with the same orders: the router's choice between them, and readers that move from one to
//! another.

use std::time::Duration;

use weir_client::load::Rng;

use crate::feeder::Feeder;
use crate::stand::{ROUTER, Router, Stand, mirror};
use crate::support::following::Following;
use crate::support::{ALICE, Node, SUPERVISOR, until};

/// Returns two nodes with the same feed, and a router that treats the second as an unindexed
/// replica.
fn stand() -> (Stand, Router) {
    let mut stand = Stand::new(&[&[21]]);
    stand.add_backend(&[21]);
    stand.feeders.push(Feeder::new(stand.backends[1].ingest, 21));
    let behind: [(usize, &[u16]); 2] = [(0, &[21]), (1, &[21])];
    let config = stand.router_config(ROUTER, &behind) + "role = \"replica\"\nindexed = false\n";
    let router = Router::start(&config);
    (stand, router)
}

/// Lets both cores make the same changes.
fn trade(stand: &mut Stand, seed: u64) {
    for feeder in &mut stand.feeders {
        let mut rng = Rng::new(seed);
        (0..30).for_each(|_| feeder.trade(&mut rng));
    }
    stand.until_fed();
}

fn parked(node: &Node) -> u64 {
    node.status()["delivery"]["parked"].as_u64().expect("a number")
}

#[test]
fn filters_are_asked_of_the_master_and_everything_of_the_unindexed_replica() {
    let (mut stand, router) = stand();
    trade(&mut stand, 1);
    router.until_serving(2);
    let mut supervisor = router.follow(SUPERVISOR, Vec::new());
    stand.until_same(&mut supervisor);
    let waiting = |stand: &Stand| -> Vec<u64> {
        stand.backends.iter().map(|backend| parked(backend.node())).collect()
    };
    // A query's wait is limited: a reader that is not polled meanwhile has none pending.
    let listen = |readers: &mut [&mut Following]| {
        for one in readers {
            one.poll(Duration::from_millis(1)).unwrap();
        }
    };
    until("a question at the replica alone", || {
        listen(&mut [&mut supervisor]);
        (waiting(&stand) == [0, 1]).then_some(())
    });
    let mut alice = router.follow(ALICE, Vec::new());
    stand.until_same(&mut alice);
    until("a firm's at the master", || {
        listen(&mut [&mut supervisor, &mut alice]);
        (waiting(&stand) == [1, 1]).then_some(())
    });
    // The replica dies: its reader continues at the master, by the same token.
    stand.backends[1].kill();
    until("both at the master", || {
        listen(&mut [&mut supervisor, &mut alice]);
        (parked(stand.backends[0].node()) == 2).then_some(())
    });
    stand.feeders.pop();
    trade(&mut stand, 2);
    stand.until_same(&mut supervisor);
    stand.until_same(&mut alice);
    assert!(supervisor.resyncs.is_empty() && alice.resyncs.is_empty());
}

#[test]
fn a_read_waits_at_a_lagging_replica_for_what_was_seen_at_the_master() {
    let (mut stand, router) = stand();
    trade(&mut stand, 1);
    router.until_serving(2);
    // The master advances, the replica does not.
    let replica = stand.feeders.pop().expect("it was pushed");
    trade(&mut stand, 2);
    let mut at_master = router.follow(ALICE, Vec::new());
    stand.until_same(&mut at_master);
    let seen = at_master.follower.token().to_vec();
    at_master.log_out();
    stand.backends[0].kill();
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
    stand.feeders.push(replica);
    let feeder = stand.feeders.last_mut().expect("pushed above");
    let mut rng = Rng::new(2);
    (0..30).for_each(|_| feeder.trade(&mut rng));
    while !feeder.is_fed() {
        feeder.pump(std::time::Duration::from_millis(2));
    }
    until("the first page", || {
        reader.poll(std::time::Duration::from_millis(5)).unwrap();
        (reader.row_count > 0).then_some(())
    });
    stand.feeders.swap_remove(0);
    stand.until_same(&mut reader);
    assert_eq!((&reader.resyncs[..], mirror(&reader).is_empty()), (&[][..], false));
}
