//! Two lines that lose, duplicate and reorder packets: the books equal every row, or are marked.

use weir_feed::line::State;
use weir_marketgate::receiver::ChannelEvent;

use crate::day::Day;
use crate::rig::{MICROSECOND, MILLISECOND, Parts, Rig, SECOND};
use crate::venue::Faults;

const BAD: Faults =
    Faults { seed: 3, loss: [100_000; 2], duplication: 30_000, delay: 50_000, answer_loss: 50_000 };

/// Ends the session and waits as long as holes may stay open.
fn end(rig: &mut Rig) {
    rig.pass(5 * MILLISECOND);
    rig.venue.end();
    rig.pass(1_500 * MILLISECOND);
}

#[test]
fn a_day_on_two_lossy_lines_with_a_server_gives_the_book_of_every_row() {
    let day = Day::recorded(usize::MAX, 2);
    let rows: usize = day.rows.values().map(Vec::len).sum();
    let parts = Parts { requests: true, ..Parts::default() };
    let mut rig = Rig::new(day, BAD, parts);
    rig.publish_all();
    end(&mut rig);
    rig.assert_equal();
    assert_eq!((rig.market.right, rig.market.state), (rows, State::Ended));
    let channel = rig.channel();
    let counts = channel.counts;
    assert!(counts.gaps_filled > 10 && counts.requests > 0, "{counts:?}");
    assert_eq!((counts.lost, counts.delivered), (0, rig.venue.published as u64));
    assert!(rig.market.refused.is_empty(), "{:?}", rig.market.refused.first());
}

#[test]
fn thousands_of_instruments_over_unicast_have_the_venues_books() {
    let day = Day::recorded(30, 3_000);
    let parts = Parts { requests: true, unicast: true, ..Parts::default() };
    let mut rig = Rig::new(day, BAD, parts);
    rig.publish_all();
    end(&mut rig);
    rig.assert_equal();
    assert!(rig.market.right > 0);
    assert_eq!(rig.market.definitions, 3_000);
}

#[test]
fn whatever_is_lost_for_good_leaves_the_books_marked_and_never_wrong_before() {
    let mut seen = [0; 2];
    for seed in 0..12 {
        let loss = [40_000 * (seed % 4); 2];
        let faults = Faults { seed, loss, duplication: 10_000, delay: 30_000, answer_loss: 0 };
        let mut rig = Rig::new(Day::made_up(seed, 3_000, 2), faults, Parts::default());
        rig.publish_all();
        end(&mut rig);
        let lost = rig.channel().counts.lost;
        seen[usize::from(lost > 0)] += 1;
        assert_eq!(rig.market.wrong, 0, "seed {seed}");
        assert_eq!(rig.market.is_marked, lost > 0, "seed {seed}");
        let want = if lost > 0 { State::Stale } else { State::Ended };
        assert_eq!(rig.market.state, want, "seed {seed}");
        if lost == 0 {
            rig.assert_equal();
        }
    }
    assert!(seen[0] > 0 && seen[1] > 0, "runs without and with losses: {seen:?}");
}

#[test]
fn one_line_that_dies_costs_nothing_and_both_are_asked_for_when_they_are_back() {
    let parts = Parts { requests: true, ..Parts::default() };
    let mut rig = Rig::new(Day::made_up(5, 2_000, 2), Faults::default(), parts);
    rig.publish(600);
    for dead in [0, 1] {
        rig.venue.is_dead[dead] = true;
        rig.publish(600);
        assert_eq!(rig.market.state, State::Live);
        rig.venue.is_dead[dead] = false;
    }
    rig.venue.is_dead = [true; 2];
    rig.publish(600);
    assert_eq!(rig.channel().counts.gaps, 0, "nobody can know yet");
    rig.pass(6 * SECOND);
    assert_eq!(rig.market.count(|event| *event == ChannelEvent::Silent), 1);
    assert!(rig.channel().is_silent);
    rig.venue.is_dead = [false; 2];
    rig.publish(100);
    assert_eq!(rig.market.count(|event| *event == ChannelEvent::Heard), 1);
    assert_eq!(rig.market.state, State::Gap);
    rig.pass(20 * MILLISECOND);
    assert_eq!(rig.market.state, State::Live);
    rig.publish_all();
    rig.assert_equal();
    let lines = rig.channel().counts.lines;
    assert_eq!(lines[2].first, 600, "what both lost came by request");
    assert!(lines[0].lost > 0 && lines[1].lost > 0);
}

#[test]
fn a_server_that_does_not_answer_leaves_the_books_marked() {
    let parts = Parts { requests: true, ..Parts::default() };
    let mut rig = Rig::new(Day::made_up(6, 500, 1), Faults::default(), parts);
    rig.publish(100);
    rig.venue.is_answering = false;
    rig.venue.is_dead = [true; 2];
    rig.publish(50);
    rig.venue.is_dead = [false; 2];
    rig.publish(50);
    rig.pass(1_200 * MILLISECOND);
    let channel = rig.channel();
    assert_eq!((channel.state, channel.counts.lost), (State::Stale, 50));
    assert!(channel.counts.retries > 0 && rig.market.is_marked);
    assert_eq!(rig.market.wrong, 0);
}

#[test]
fn a_pause_of_the_thread_gives_nothing_up_that_waits_in_a_socket() {
    let parts = Parts { more: "[timing]\nreorder_us = 100\ngive_up_ms = 1\n", ..Parts::default() };
    let mut rig = Rig::new(Day::made_up(8, 2_000, 1), Faults::default(), parts);
    rig.publish(10);
    rig.venue.is_dead = [true; 2];
    rig.venue.publish(1);
    rig.venue.is_dead = [false; 2];
    rig.venue.publish(3);
    rig.drain();
    assert_eq!(rig.market.state, State::Gap);
    // The thread stalls for longer than holes may stay open. Meanwhile line A advances, and the
    // message arrives on line B, which is read after A.
    rig.clock += SECOND;
    rig.venue.publish(1);
    rig.venue.send_again(1, 11);
    rig.drain();
    assert_eq!((rig.channel().counts.gaps_given_up, rig.market.state), (0, State::Live));
    rig.publish_all();
    rig.assert_equal();
    // Time still counts: a hole that is never filled is given up.
    rig.venue.restart("DAY2");
    rig.publish(10);
    rig.venue.is_dead = [true; 2];
    rig.publish(1);
    rig.venue.is_dead = [false; 2];
    rig.publish(1);
    rig.pass(2 * MILLISECOND + MICROSECOND);
    assert_eq!(rig.channel().counts.gaps_given_up, 1);
}

#[test]
fn a_thread_that_never_catches_up_gives_up_what_nobody_sends() {
    let parts = Parts { more: "[timing]\ngive_up_ms = 1\n", ..Parts::default() };
    let mut rig = Rig::new(Day::made_up(8, 8_000, 1), Faults::default(), parts);
    rig.publish(10);
    rig.venue.is_dead = [true; 2];
    rig.publish(1);
    rig.venue.is_dead = [false; 2];
    // Each call leaves something unread.
    rig.venue.publish_singly(64);
    for _ in 0..70 {
        rig.venue.publish_singly(64);
        rig.clock += MILLISECOND;
        rig.poll();
    }
    let received: u64 =
        rig.receiver.sockets().map(|(_, socket)| socket.counts.received.datagrams).sum();
    assert!(received + 128 <= rig.venue.sent.iter().sum(), "it was never behind");
    assert_eq!(rig.channel().counts.gaps_given_up, 1);
    assert!(rig.market.is_marked);
}
