//! A consumer without room, so that datagrams are dropped in front of it: they are requested again,
//! or the books are marked.

use weir_feed::line::State;

use crate::day::{Chance, Day};
use crate::rig::{MILLISECOND, Parts, Rig, SECOND};
use crate::venue::Faults;

const HALF: u64 = 500_000;

#[test]
fn what_was_dropped_for_want_of_room_is_asked_for_and_no_row_is_wrong() {
    for seed in 1..9 {
        let faults = Faults { seed, loss: [20_000; 2], delay: 30_000, ..Faults::default() };
        // Half of the answers find no room either.
        let more = "[timing]\ngive_up_ms = 60000\nrequest_attempts_max = 1000\n";
        let parts = Parts { requests: true, more, ..Parts::default() };
        let mut rig = Rig::new(Day::made_up(seed, 3_000, 2), faults, parts);
        // Messages before the first received one are not requested.
        rig.publish(15);
        // One in two datagrams on average, on either line or as an answer.
        rig.market.full = Some((Chance(seed), HALF));
        rig.publish_all();
        rig.market.full = None;
        let dropped = rig.receiver.dropped();
        rig.pass(5 * MILLISECOND);
        rig.venue.end();
        rig.pass(1_500 * MILLISECOND);
        rig.assert_equal();
        assert_eq!(rig.market.state, State::Ended, "seed {seed}");
        let counts = rig.channel().counts;
        assert!(dropped > 100 && counts.requests > 0, "seed {seed}: {dropped} {counts:?}");
        assert_eq!(counts.lost, 0);
        assert_eq!(rig.receiver.dropped(), dropped, "with room nothing is dropped");
    }
}

#[test]
fn a_stall_without_a_server_for_requests_leaves_the_books_marked_and_never_wrong() {
    let mut rig = Rig::new(Day::made_up(4, 2_000, 2), Faults::default(), Parts::default());
    rig.publish(300);
    rig.market.full = Some((Chance(1), 1_000_000));
    rig.publish(300);
    let dropped = rig.receiver.dropped();
    assert!(dropped > 0, "both lines' datagrams found no room");
    assert_eq!(rig.market.state, State::Live, "nobody can know yet");
    rig.market.full = None;
    rig.publish(300);
    rig.pass(2 * SECOND);
    assert_eq!((rig.channel().counts.lost, rig.market.state), (300, State::Stale));
    assert!(rig.market.is_marked);
    assert_eq!(rig.market.wrong, 0);
}

#[test]
fn a_snapshot_waits_for_room_and_is_whole() {
    let parts = Parts { snapshots: true, ..Parts::default() };
    let mut rig = Rig::new(Day::made_up(7, 2_000, 2), Faults::default(), parts);
    rig.publish(300);
    rig.market.full = Some((Chance(1), 1_000_000));
    rig.publish(300);
    rig.market.full = None;
    rig.publish(15);
    // The hole is given up while there is no room, and nothing else happens then.
    rig.market.full = Some((Chance(1), 1_000_000));
    rig.pass(3 * SECOND);
    assert!(rig.market.is_marked);
    assert_eq!(rig.snapshots().attempts, 0, "it would have no room");
    // Some datagrams now find room; the connection is read when there is some.
    rig.market.full = Some((Chance(2), HALF));
    rig.publish(300);
    rig.pass(3 * SECOND);
    rig.market.full = None;
    rig.until("the snapshot is joined", |rig| rig.market.state == State::Live);
    rig.publish_all();
    rig.pass(5 * MILLISECOND);
    rig.assert_equal();
    assert!(rig.receiver.dropped() > 0);
}
