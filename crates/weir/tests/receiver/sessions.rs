//! Sessions that begin, end, and begin again.

use weir_feed::line::State;
use weir_marketgate::receiver::{ChannelEvent, ClearReason};
use weir_types::Nanos;

use crate::day::Day;
use crate::rig::{MILLISECOND, Parts, Rig, SECOND};
use crate::venue::Faults;

fn sessions(rig: &Rig) -> usize {
    let is_session = |event: &ChannelEvent| {
        matches!(event, ChannelEvent::Clear { reason: ClearReason::Session { .. } })
    };
    rig.market.count(is_session)
}

#[test]
fn another_session_clears_the_books_and_begins_them_anew() {
    let mut rig = Rig::new(Day::made_up(1, 1_000, 3), Faults::default(), Parts::default());
    rig.publish(1_500);
    rig.venue.end();
    rig.pass(MILLISECOND);
    assert_eq!(rig.market.state, State::Ended);
    assert!(rig.market.books.order_count() > 0, "the books of a session that ended stay");
    rig.venue.restart("DAY2");
    rig.publish(1);
    assert_eq!((sessions(&rig), rig.market.books.order_count()), (2, 0));
    rig.publish_all();
    rig.assert_equal();
    assert_eq!(rig.market.state, State::Live);
}

#[test]
fn a_venue_that_starts_again_after_a_silence_is_followed() {
    let mut rig = Rig::new(Day::made_up(1, 1_000, 3), Faults::default(), Parts::default());
    rig.publish(1_500);
    rig.pass(7 * SECOND);
    assert!(rig.channel().is_silent);
    rig.venue.restart("DAY1B");
    rig.venue.heartbeat();
    rig.drain();
    assert!(!rig.channel().is_silent && rig.market.books.order_count() == 0);
    rig.publish_all();
    rig.assert_equal();
}

#[test]
fn heartbeats_keep_a_quiet_channel_from_being_silent_and_show_what_is_missing() {
    let parts = Parts { requests: true, ..Parts::default() };
    let mut rig = Rig::new(Day::made_up(1, 500, 1), Faults::default(), parts);
    rig.publish(100);
    for _ in 0..8 {
        rig.pass(SECOND);
        rig.venue.heartbeat();
        rig.drain();
    }
    assert_eq!(rig.market.count(|event| *event == ChannelEvent::Silent), 0);
    rig.venue.is_dead = [true; 2];
    rig.publish(20);
    rig.venue.is_dead = [false; 2];
    rig.venue.heartbeat();
    rig.pass(20 * MILLISECOND);
    assert_eq!(rig.channel().counts.lines[2].first, 20);
    rig.assert_equal();
}

#[test]
fn who_waits_for_the_sockets_is_woken_by_what_comes() {
    let mut rig = Rig::new(Day::made_up(1, 10, 1), Faults::default(), Parts::default());
    let mut poll = mio::Poll::new().expect("a poll");
    for fd in rig.receiver.descriptors() {
        let mut source = mio::unix::SourceFd(&fd);
        let registry = poll.registry();
        registry
            .register(&mut source, mio::Token(0), mio::Interest::READABLE)
            .expect("it is taken");
    }
    assert_eq!(rig.receiver.deadline(), None, "nothing was heard: time brings nothing");
    rig.venue.publish(1);
    let mut events = mio::Events::with_capacity(8);
    poll.poll(&mut events, Some(std::time::Duration::from_secs(60))).expect("it waits");
    assert!(!events.is_empty());
    rig.drain();
    // From the first packet on, silence of the lines is timed.
    let silent_at = Nanos(rig.clock + 5 * SECOND);
    assert_eq!(rig.receiver.deadline(), Some(silent_at));
}
