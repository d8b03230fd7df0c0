//! Two lines that lose, duplicate and reorder packets: the books equal every row, or are marked.

use weir_feed::line::State;
use weir_marketgate::receiver::ChannelEvent;

use crate::day::Day;
use crate::stand::{MICROSECOND, MILLISECOND, Parts, SECOND, Stand};
use crate::venue::Faults;

const BAD: Faults =
    Faults { seed: 3, loss: [100_000; 2], duplication: 30_000, delay: 50_000, answer_loss: 50_000 };

/// Ends the session and waits as long as holes may stay open.
fn end(stand: &mut Stand) {
    stand.pass(5 * MILLISECOND);
    stand.venue.end();
    stand.pass(1_500 * MILLISECOND);
}

#[test]
fn a_day_on_two_lossy_lines_with_a_server_gives_the_book_of_every_row() {
    let day = Day::recorded(usize::MAX, 2);
    let rows: usize = day.rows.values().map(Vec::len).sum();
    let parts = Parts { requests: true, ..Parts::default() };
    let mut stand = Stand::new(day, BAD, parts);
    stand.publish_all();
    end(&mut stand);
    stand.assert_equal();
    assert_eq!((stand.market.right, stand.market.state), (rows, State::Ended));
    let channel = stand.channel();
    let counts = channel.counts;
    assert!(counts.gaps_filled > 10 && counts.requests > 0, "{counts:?}");
    assert_eq!((counts.lost, counts.delivered), (0, stand.venue.published as u64));
    assert!(stand.market.refused.is_empty(), "{:?}", stand.market.refused.first());
}

#[test]
fn thousands_of_instruments_over_unicast_have_the_venues_books() {
    let day = Day::recorded(30, 3_000);
    let parts = Parts { requests: true, unicast: true, ..Parts::default() };
    let mut stand = Stand::new(day, BAD, parts);
    stand.publish_all();
    end(&mut stand);
    stand.assert_equal();
    assert!(stand.market.right > 0);
    assert_eq!(stand.market.definitions, 3_000);
}

#[test]
fn whatever_is_lost_for_good_leaves_the_books_marked_and_never_wrong_before() {
    let mut seen = [0; 2];
    for seed in 0..12 {
        let loss = [40_000 * (seed % 4); 2];
        let faults = Faults { seed, loss, duplication: 10_000, delay: 30_000, answer_loss: 0 };
        let mut stand = Stand::new(Day::made_up(seed, 3_000, 2), faults, Parts::default());
        stand.publish_all();
        end(&mut stand);
        let lost = stand.channel().counts.lost;
        seen[usize::from(lost > 0)] += 1;
        assert_eq!(stand.market.wrong, 0, "seed {seed}");
        assert_eq!(stand.market.is_marked, lost > 0, "seed {seed}");
        let want = if lost > 0 { State::Stale } else { State::Ended };
        assert_eq!(stand.market.state, want, "seed {seed}");
        if lost == 0 {
            stand.assert_equal();
        }
    }
    assert!(seen[0] > 0 && seen[1] > 0, "runs without and with losses: {seen:?}");
}

#[test]
fn one_line_that_dies_costs_nothing_and_both_are_asked_for_when_they_are_back() {
    let parts = Parts { requests: true, ..Parts::default() };
    let mut stand = Stand::new(Day::made_up(5, 2_000, 2), Faults::default(), parts);
    stand.publish(600);
    for dead in [0, 1] {
        stand.venue.is_dead[dead] = true;
        stand.publish(600);
        assert_eq!(stand.market.state, State::Live);
        stand.venue.is_dead[dead] = false;
    }
    stand.venue.is_dead = [true; 2];
    stand.publish(600);
    assert_eq!(stand.channel().counts.gaps, 0, "nobody can know yet");
    stand.pass(6 * SECOND);
    assert_eq!(stand.market.count(|event| *event == ChannelEvent::Silent), 1);
    assert!(stand.channel().is_silent);
    stand.venue.is_dead = [false; 2];
    stand.publish(100);
    assert_eq!(stand.market.count(|event| *event == ChannelEvent::Heard), 1);
    assert_eq!(stand.market.state, State::Gap);
    stand.pass(20 * MILLISECOND);
    assert_eq!(stand.market.state, State::Live);
    stand.publish_all();
    stand.assert_equal();
    let lines = stand.channel().counts.lines;
    assert_eq!(lines[2].first, 600, "what both lost came by request");
    assert!(lines[0].lost > 0 && lines[1].lost > 0);
}

#[test]
fn a_server_that_does_not_answer_leaves_the_books_marked() {
    let parts = Parts { requests: true, ..Parts::default() };
    let mut stand = Stand::new(Day::made_up(6, 500, 1), Faults::default(), parts);
    stand.publish(100);
    stand.venue.is_answering = false;
    stand.venue.is_dead = [true; 2];
    stand.publish(50);
    stand.venue.is_dead = [false; 2];
    stand.publish(50);
    stand.pass(1_200 * MILLISECOND);
    let channel = stand.channel();
    assert_eq!((channel.state, channel.counts.lost), (State::Stale, 50));
    assert!(channel.counts.retries > 0 && stand.market.is_marked);
    assert_eq!(stand.market.wrong, 0);
}

#[test]
fn a_pause_of_the_thread_gives_nothing_up_that_waits_in_a_socket() {
    let parts = Parts { more: "[timing]\nreorder_us = 100\ngive_up_ms = 1\n", ..Parts::default() };
    let mut stand = Stand::new(Day::made_up(8, 2_000, 1), Faults::default(), parts);
    stand.publish(10);
    stand.venue.is_dead = [true; 2];
    stand.venue.publish(1);
    stand.venue.is_dead = [false; 2];
    stand.venue.publish(3);
    stand.drain();
    assert_eq!(stand.market.state, State::Gap);
    // The thread stalls for longer than holes may stay open. Meanwhile line A advances, and the
    // message arrives on line B, which is read after A.
    stand.clock += SECOND;
    stand.venue.publish(1);
    stand.venue.send_again(1, 11);
    stand.drain();
    assert_eq!((stand.channel().counts.gaps_given_up, stand.market.state), (0, State::Live));
    stand.publish_all();
    stand.assert_equal();
    // Time still counts: a hole that is never filled is given up.
    stand.venue.restart("DAY2");
    stand.publish(10);
    stand.venue.is_dead = [true; 2];
    stand.publish(1);
    stand.venue.is_dead = [false; 2];
    stand.publish(1);
    stand.pass(2 * MILLISECOND + MICROSECOND);
    assert_eq!(stand.channel().counts.gaps_given_up, 1);
}

#[test]
fn a_thread_that_never_catches_up_gives_up_what_nobody_sends() {
    let parts = Parts { more: "[timing]\ngive_up_ms = 1\n", ..Parts::default() };
    let mut stand = Stand::new(Day::made_up(8, 8_000, 1), Faults::default(), parts);
    stand.publish(10);
    stand.venue.is_dead = [true; 2];
    stand.publish(1);
    stand.venue.is_dead = [false; 2];
    // Each call leaves something unread.
    stand.venue.publish_singly(64);
    for _ in 0..70 {
        stand.venue.publish_singly(64);
        stand.clock += MILLISECOND;
        stand.poll();
    }
    let received: u64 =
        stand.receiver.sockets().map(|(_, socket)| socket.counts.received.datagrams).sum();
    assert!(received + 128 <= stand.venue.sent.iter().sum(), "it was never behind");
    assert_eq!(stand.channel().counts.gaps_given_up, 1);
    assert!(stand.market.is_marked);
}
