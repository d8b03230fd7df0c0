//! Snapshots: GLIMPSE recovers late joins and losses, and only a valid snapshot does.

use weir_feed::line::State;
use weir_marketgate::receiver::{ChannelEvent, ClearReason, RecoveryError};

use crate::day::Day;
use crate::snapshot::Manner;
use crate::stand::{MICROSECOND, MILLISECOND, Parts, SECOND, Stand};
use crate::venue::Faults;

const PARTS: Parts = Parts { requests: false, snapshots: true, unicast: false, more: "" };

fn joined(stand: &Stand) -> bool {
    stand.snapshots().joined > 0 && stand.market.state == State::Live
}

fn clears(stand: &Stand, reason: ClearReason) -> usize {
    stand.market.count(|event| *event == ChannelEvent::Clear { reason })
}

#[test]
fn who_comes_late_has_the_venues_books_after_a_snapshot() {
    let mut stand = Stand::new(Day::recorded(4_000, 5), Faults::default(), PARTS);
    // The receiver hears neither line yet.
    stand.venue.is_dead = [true; 2];
    stand.venue.publish(7_000);
    stand.venue.is_dead = [false; 2];
    // The snapshot arrives slowly, while the day continues.
    stand.venue.soup.piece_len = 500;
    stand.publish(10);
    assert!(stand.market.is_marked);
    stand.until("the snapshot comes", |stand| stand.snapshots().messages > 0);
    for _ in 0..50 {
        stand.publish(20);
    }
    assert!(stand.channel().held > 0 || joined(&stand), "what comes meanwhile waits");
    stand.until("the snapshot joins", joined);
    stand.assert_equal();
    stand.publish_all();
    stand.assert_equal();
    assert!(stand.market.right > 1_000);
    let snapshots = stand.snapshots();
    assert_eq!((snapshots.attempts, snapshots.failed), (1, 0), "{snapshots:?}");
}

#[test]
fn what_is_lost_for_good_comes_back_with_a_snapshot() {
    let mut stand = Stand::new(Day::made_up(4, 4_000, 2), Faults::default(), PARTS);
    stand.publish(500);
    for round in 1..=3 {
        stand.venue.is_dead = [true; 2];
        stand.publish(30);
        stand.venue.is_dead = [false; 2];
        stand.publish(300);
        assert_eq!(stand.market.state, State::Gap);
        stand.pass(1_000 * MILLISECOND);
        stand.until("the snapshot joins", |stand| stand.snapshots().joined == round);
        stand.publish(200);
        assert_eq!(stand.market.state, State::Live);
        stand.assert_equal();
    }
    stand.publish_all();
    stand.assert_equal();
    assert_eq!(clears(&stand, ClearReason::SnapshotBegins), 3);
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
        let mut stand = Stand::new(Day::made_up(9, 3_000, 2), Faults::default(), PARTS);
        stand.venue.is_dead = [true; 2];
        stand.venue.publish(2_000);
        stand.venue.is_dead = [false; 2];
        stand.venue.soup.manner = manner;
        stand.publish(10);
        for attempt in 1..=2 {
            stand.until("a login", |stand| stand.venue.soup.logins.len() >= attempt);
            if manner == Manner::Hang {
                stand.clock += 3 * SECOND;
            }
            stand.until("it fails", |stand| stand.snapshots().failed >= attempt as u64);
        }
        let snapshots = stand.snapshots();
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
        let cleared = clears(&stand, ClearReason::SnapshotFailed);
        assert_eq!(cleared > 0, is_begun, "{manner:?}: {:?}", stand.market.events);
        assert!(stand.market.is_marked && stand.market.state == State::Stale, "{manner:?}");
        stand.venue.soup.manner = Manner::Snapshot;
        stand.until("the snapshot joins", joined);
        stand.publish_all();
        stand.assert_equal();
    }
}

#[test]
fn attempts_come_ever_later_up_to_a_bound() {
    let mut stand = Stand::new(Day::made_up(9, 3_000, 1), Faults::default(), PARTS);
    stand.venue.soup.manner = Manner::Refuse;
    stand.venue.is_dead = [true; 2];
    stand.venue.publish(100);
    stand.venue.is_dead = [false; 2];
    stand.publish(10);
    let mut starts = Vec::new();
    for attempt in 1..=6 {
        stand.until("an attempt", |stand| stand.snapshots().attempts == attempt);
        starts.push(stand.clock);
    }
    // The first attempt began while the day was published.
    for (pair, least) in starts[1..].windows(2).zip([20, 40, 80, 80]) {
        let pause = (pair[1] - pair[0]) / MILLISECOND;
        assert!(pause >= least, "{pause} ms and not {least}");
    }
}

#[test]
fn a_session_that_ends_takes_its_snapshot_with_it() {
    let mut stand = Stand::new(Day::made_up(2, 3_000, 2), Faults::default(), PARTS);
    stand.venue.is_dead = [true; 2];
    stand.venue.publish(2_000);
    stand.venue.is_dead = [false; 2];
    stand.venue.soup.manner = Manner::Hang;
    stand.publish(10);
    stand.until("the snapshot begins", |stand| stand.market.state == State::Recovering);
    stand.publish(100);
    stand.venue.restart("DAY2");
    stand.venue.soup.manner = Manner::Snapshot;
    stand.publish(100);
    assert_eq!(stand.market.state, State::Live);
    assert_eq!(stand.snapshots().last_error, Some(RecoveryError::NewSession));
    stand.publish_all();
    stand.assert_equal();
    assert_eq!(stand.snapshots().joined, 0);
}

#[test]
fn nobody_who_serves_snapshots_is_tried_again_and_changes_nothing() {
    let mut stand = Stand::new(Day::made_up(2, 1_000, 1), Faults::default(), PARTS);
    stand.venue.soup = crate::snapshot::SoupServer::new();
    stand.publish(100);
    stand.venue.is_dead = [true; 2];
    stand.publish(10);
    stand.venue.is_dead = [false; 2];
    stand.publish(10);
    stand.pass(1_100 * MILLISECOND);
    stand.until("two attempts fail", |stand| stand.snapshots().failed >= 2);
    let orders = stand.market.books.order_count();
    assert!(orders > 0 && stand.market.is_marked, "what is known stays, marked");
    assert!(matches!(stand.snapshots().last_error, Some(RecoveryError::Connection(_))));
    assert_eq!(clears(&stand, ClearReason::SnapshotFailed), 0);
}

/// Returns a day whose first messages are lost on both lines, and a server whose snapshots lag the
/// lines by this number of milliseconds until one has joined.
fn joined_behind(milliseconds: usize) -> Stand {
    let mut stand = Stand::new(Day::made_up(9, 3_000, 2), Faults::default(), PARTS);
    stand.venue.is_dead = [true; 2];
    stand.venue.publish(2_000);
    stand.venue.is_dead = [false; 2];
    stand.venue.soup.manner = Manner::Behind;
    stand.venue.soup.behind = milliseconds;
    while stand.snapshots().joined == 0 && !stand.venue.is_over() {
        stand.venue.soup.freeze(&stand.venue.reference);
        stand.publish(10);
        stand.clock += MILLISECOND - 50 * MICROSECOND;
    }
    assert_eq!(stand.snapshots().attempts, 1);
    stand
}

#[test]
fn a_server_that_is_behind_the_lines_leaves_no_hole() {
    // The login follows 20 ms after the receiver began to hold back the lines.
    for milliseconds in [0, 5, 15] {
        let mut stand = joined_behind(milliseconds);
        let counts = stand.channel().counts;
        let told = (counts.recoveries, counts.gaps, counts.lost);
        assert_eq!(told, (1, 0, 2_000), "{milliseconds} ms: {counts:?}");
        stand.publish_all();
        stand.assert_equal();
        assert_eq!(stand.snapshots().attempts, 1);
    }
}

#[test]
fn a_server_that_is_further_behind_leaves_a_hole_that_the_next_snapshot_fills() {
    let mut stand = joined_behind(50);
    let counts = stand.channel().counts;
    assert_eq!((counts.recoveries, counts.gaps), (1, 1), "{counts:?}");
    assert_eq!(stand.market.state, State::Gap);
    stand.venue.soup.manner = Manner::Snapshot;
    stand.pass(SECOND);
    stand.until("the next snapshot joins", |stand| stand.snapshots().joined == 2);
    stand.publish_all();
    stand.assert_equal();
}
