//! Snapshots: GLIMPSE recovers late joins and losses, and only a valid snapshot does.

use weir_feed::line::State;
use weir_marketgate::receiver::{ChannelEvent, ClearReason, RecoveryError};

use crate::day::Day;
use crate::rig::{MICROSECOND, MILLISECOND, Parts, Rig, SECOND};
use crate::snapshot::Manner;
use crate::venue::Faults;

const PARTS: Parts = Parts { requests: false, snapshots: true, unicast: false, more: "" };

fn joined(rig: &Rig) -> bool {
    rig.snapshots().joined > 0 && rig.market.state == State::Live
}

fn clears(rig: &Rig, reason: ClearReason) -> usize {
    rig.market.count(|event| *event == ChannelEvent::Clear { reason })
}

#[test]
fn who_comes_late_has_the_venues_books_after_a_snapshot() {
    let mut rig = Rig::new(Day::recorded(4_000, 5), Faults::default(), PARTS);
    // The receiver hears neither line yet.
    rig.venue.is_dead = [true; 2];
    rig.venue.publish(7_000);
    rig.venue.is_dead = [false; 2];
    // The snapshot arrives slowly, while the day continues.
    rig.venue.soup.piece_len = 500;
    rig.publish(10);
    assert!(rig.market.is_marked);
    rig.until("the snapshot comes", |rig| rig.snapshots().messages > 0);
    for _ in 0..50 {
        rig.publish(20);
    }
    assert!(rig.channel().held > 0 || joined(&rig), "what comes meanwhile waits");
    rig.until("the snapshot joins", joined);
    rig.assert_equal();
    rig.publish_all();
    rig.assert_equal();
    assert!(rig.market.right > 1_000);
    let snapshots = rig.snapshots();
    assert_eq!((snapshots.attempts, snapshots.failed), (1, 0), "{snapshots:?}");
}

#[test]
fn what_is_lost_for_good_comes_back_with_a_snapshot() {
    let mut rig = Rig::new(Day::made_up(4, 4_000, 2), Faults::default(), PARTS);
    rig.publish(500);
    for round in 1..=3 {
        rig.venue.is_dead = [true; 2];
        rig.publish(30);
        rig.venue.is_dead = [false; 2];
        rig.publish(300);
        assert_eq!(rig.market.state, State::Gap);
        rig.pass(1_000 * MILLISECOND);
        rig.until("the snapshot joins", |rig| rig.snapshots().joined == round);
        rig.publish(200);
        assert_eq!(rig.market.state, State::Live);
        rig.assert_equal();
    }
    rig.publish_all();
    rig.assert_equal();
    assert_eq!(clears(&rig, ClearReason::SnapshotBegins), 3);
}

#[test]
fn a_snapshot_that_fails_leaves_the_books_marked_until_one_does_not() {
    for (manner, is_begun) in [
        (Manner::Refuse, false),
        (Manner::Nonsense, true),
        (Manner::CutOff, true),
        (Manner::Hang, true),
        (Manner::OtherSession, false),
        (Manner::FarAhead, true),
        (Manner::Damaged, true),
    ] {
        let mut rig = Rig::new(Day::made_up(9, 3_000, 2), Faults::default(), PARTS);
        rig.venue.is_dead = [true; 2];
        rig.venue.publish(2_000);
        rig.venue.is_dead = [false; 2];
        rig.venue.soup.manner = manner;
        rig.publish(10);
        for attempt in 1..=2 {
            rig.until("a login", |rig| rig.venue.soup.logins.len() >= attempt);
            if manner == Manner::Hang {
                rig.clock += 3 * SECOND;
            }
            rig.until("it fails", |rig| rig.snapshots().failed >= attempt as u64);
        }
        let snapshots = rig.snapshots();
        assert_eq!(snapshots.joined, 0, "{manner:?}");
        let error = snapshots.last_error.expect("a reason");
        let is_named = match manner {
            Manner::Refuse | Manner::Nonsense => matches!(error, RecoveryError::Glimpse(_)),
            Manner::CutOff => error == RecoveryError::Closed,
            Manner::Hang => matches!(error, RecoveryError::TooSlow(_)),
            Manner::OtherSession => matches!(error, RecoveryError::OtherSession { .. }),
            Manner::FarAhead => matches!(error, RecoveryError::NotReached { .. }),
            _ => matches!(error, RecoveryError::NotUnderstood(Some(_))),
        };
        assert!(is_named, "{manner:?}: {error}");
        let cleared = clears(&rig, ClearReason::SnapshotFailed);
        assert_eq!(cleared > 0, is_begun, "{manner:?}: {:?}", rig.market.events);
        assert!(rig.market.is_marked && rig.market.state == State::Stale, "{manner:?}");
        rig.venue.soup.manner = Manner::Snapshot;
        rig.until("the snapshot joins", joined);
        rig.publish_all();
        rig.assert_equal();
    }
}

#[test]
fn attempts_come_ever_later_up_to_a_bound() {
    let mut rig = Rig::new(Day::made_up(9, 3_000, 1), Faults::default(), PARTS);
    rig.venue.soup.manner = Manner::Refuse;
    rig.venue.is_dead = [true; 2];
    rig.venue.publish(100);
    rig.venue.is_dead = [false; 2];
    rig.publish(10);
    let mut starts = Vec::new();
    for attempt in 1..=6 {
        rig.until("an attempt", |rig| rig.snapshots().attempts == attempt);
        starts.push(rig.clock);
    }
    // The first attempt began while the day was published.
    for (pair, least) in starts[1..].windows(2).zip([20, 40, 80, 80]) {
        let pause = (pair[1] - pair[0]) / MILLISECOND;
        assert!(pause >= least, "{pause} ms and not {least}");
    }
}

#[test]
fn a_session_that_ends_takes_its_snapshot_with_it() {
    let mut rig = Rig::new(Day::made_up(2, 3_000, 2), Faults::default(), PARTS);
    rig.venue.is_dead = [true; 2];
    rig.venue.publish(2_000);
    rig.venue.is_dead = [false; 2];
    rig.venue.soup.manner = Manner::Hang;
    rig.publish(10);
    rig.until("the snapshot begins", |rig| rig.market.state == State::Recovering);
    rig.publish(100);
    rig.venue.restart("DAY2");
    rig.venue.soup.manner = Manner::Snapshot;
    rig.publish(100);
    assert_eq!(rig.market.state, State::Live);
    assert_eq!(rig.snapshots().last_error, Some(RecoveryError::NewSession));
    rig.publish_all();
    rig.assert_equal();
    assert_eq!(rig.snapshots().joined, 0);
}

#[test]
fn nobody_who_serves_snapshots_is_tried_again_and_changes_nothing() {
    let mut rig = Rig::new(Day::made_up(2, 1_000, 1), Faults::default(), PARTS);
    rig.venue.soup = crate::snapshot::SoupServer::new();
    rig.publish(100);
    rig.venue.is_dead = [true; 2];
    rig.publish(10);
    rig.venue.is_dead = [false; 2];
    rig.publish(10);
    rig.pass(1_100 * MILLISECOND);
    rig.until("two attempts fail", |rig| rig.snapshots().failed >= 2);
    let orders = rig.market.books.order_count();
    assert!(orders > 0 && rig.market.is_marked, "what is known stays, marked");
    assert!(matches!(rig.snapshots().last_error, Some(RecoveryError::Connection(_))));
    assert_eq!(clears(&rig, ClearReason::SnapshotFailed), 0);
}

/// Returns a day whose first messages are lost on both lines, and a server whose snapshots lag the
/// lines by this number of milliseconds until one has joined.
fn joined_behind(milliseconds: usize) -> Rig {
    let mut rig = Rig::new(Day::made_up(9, 3_000, 2), Faults::default(), PARTS);
    rig.venue.is_dead = [true; 2];
    rig.venue.publish(2_000);
    rig.venue.is_dead = [false; 2];
    rig.venue.soup.manner = Manner::Behind;
    rig.venue.soup.behind = milliseconds;
    while rig.snapshots().joined == 0 && !rig.venue.is_over() {
        rig.venue.soup.freeze(&rig.venue.reference);
        rig.publish(10);
        rig.clock += MILLISECOND - 50 * MICROSECOND;
    }
    assert_eq!(rig.snapshots().attempts, 1);
    rig
}

#[test]
fn a_server_that_is_behind_the_lines_leaves_no_hole() {
    // The login follows 20 ms after the receiver began to hold back the lines.
    for milliseconds in [0, 5, 15] {
        let mut rig = joined_behind(milliseconds);
        let counts = rig.channel().counts;
        let told = (counts.recoveries, counts.gaps, counts.lost);
        assert_eq!(told, (1, 0, 2_000), "{milliseconds} ms: {counts:?}");
        rig.publish_all();
        rig.assert_equal();
        assert_eq!(rig.snapshots().attempts, 1);
    }
}

#[test]
fn a_server_that_is_further_behind_leaves_a_hole_that_the_next_snapshot_fills() {
    let mut rig = joined_behind(50);
    let counts = rig.channel().counts;
    assert_eq!((counts.recoveries, counts.gaps), (1, 1), "{counts:?}");
    assert_eq!(rig.market.state, State::Gap);
    rig.venue.soup.manner = Manner::Snapshot;
    rig.pass(SECOND);
    rig.until("the next snapshot joins", |rig| rig.snapshots().joined == 2);
    rig.publish_all();
    rig.assert_equal();
}
