//! Sessions that begin, end, and begin again.

use weir_feed::line::State;
use weir_marketgate::receiver::{ChannelEvent, ClearReason};
use weir_types::Nanos;

use crate::day::Day;
use crate::stand::{MILLISECOND, Parts, SECOND, Stand};
use crate::venue::Faults;

fn sessions(stand: &Stand) -> usize {
    let is_session = |event: &ChannelEvent| {
        matches!(event, ChannelEvent::Clear { reason: ClearReason::Session { .. } })
    };
    stand.market.count(is_session)
}

#[test]
fn another_session_clears_the_books_and_begins_them_anew() {
    let mut stand = Stand::new(Day::made_up(1, 1_000, 3), Faults::default(), Parts::default());
    stand.publish(1_500);
    stand.venue.end();
    stand.pass(MILLISECOND);
    assert_eq!(stand.market.state, State::Ended);
    assert!(stand.market.books.order_count() > 0, "the books of a session that ended stay");
    stand.venue.restart("DAY2");
    stand.publish(1);
    assert_eq!((sessions(&stand), stand.market.books.order_count()), (2, 0));
    stand.publish_all();
    stand.assert_equal();
    assert_eq!(stand.market.state, State::Live);
}

#[test]
fn a_venue_that_starts_again_after_a_silence_is_followed() {
    let mut stand = Stand::new(Day::made_up(1, 1_000, 3), Faults::default(), Parts::default());
    stand.publish(1_500);
    stand.pass(7 * SECOND);
    assert!(stand.channel().is_silent);
    stand.venue.restart("DAY1B");
    stand.venue.heartbeat();
    stand.drain();
    assert!(!stand.channel().is_silent && stand.market.books.order_count() == 0);
    stand.publish_all();
    stand.assert_equal();
}

#[test]
fn heartbeats_keep_a_quiet_channel_from_being_silent_and_show_what_is_missing() {
    let parts = Parts { requests: true, ..Parts::default() };
    let mut stand = Stand::new(Day::made_up(1, 500, 1), Faults::default(), parts);
    stand.publish(100);
    for _ in 0..8 {
        stand.pass(SECOND);
        stand.venue.heartbeat();
        stand.drain();
    }
    assert_eq!(stand.market.count(|event| *event == ChannelEvent::Silent), 0);
    stand.venue.is_dead = [true; 2];
    stand.publish(20);
    stand.venue.is_dead = [false; 2];
    stand.venue.heartbeat();
    stand.pass(20 * MILLISECOND);
    assert_eq!(stand.channel().counts.lines[2].first, 20);
    stand.assert_equal();
}

#[test]
fn who_waits_for_the_sockets_is_woken_by_what_comes() {
    let mut stand = Stand::new(Day::made_up(1, 10, 1), Faults::default(), Parts::default());
    let mut poll = mio::Poll::new().expect("a poll");
    for fd in stand.receiver.descriptors() {
        let mut source = mio::unix::SourceFd(&fd);
        let registry = poll.registry();
        registry
            .register(&mut source, mio::Token(0), mio::Interest::READABLE)
            .expect("it is taken");
    }
    assert_eq!(stand.receiver.deadline(), None, "nothing was heard: time brings nothing");
    stand.venue.publish(1);
    let mut events = mio::Events::with_capacity(8);
    poll.poll(&mut events, Some(std::time::Duration::from_secs(60))).expect("it waits");
    assert!(!events.is_empty());
    stand.drain();
    // From the first packet on, silence of the lines is timed.
    let silent_at = Nanos(stand.clock + 5 * SECOND);
    assert_eq!(stand.receiver.deadline(), Some(silent_at));
}
