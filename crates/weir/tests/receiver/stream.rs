//! A feed over SoupBinTCP: the books of every row, over any losses of connections.

use std::rc::Rc;

use weir_feed::line::State;
use weir_marketgate::receiver::{ChannelEvent, FeedSection, Receiver, StreamCounts, StreamError};

use crate::day::Day;
use crate::market::Market;
use crate::rig::{Parts, Rig, SECOND};
use crate::snapshot::{Manner, NAME, PASSWORD};
use crate::venue::Faults;

fn rig(day: Day) -> (Rig, tempfile::TempDir) {
    let own = Rc::new(day.clone());
    let mut rig = Rig::new(day, Faults::default(), Parts::default());
    let dir = tempfile::tempdir().expect("a directory");
    let password = dir.path().join("password");
    weir_io::durable::write_file(&password, PASSWORD.as_bytes(), 0o600).expect("it is written");
    let address = rig.venue.soup.address();
    let text = format!(
        "name = \"itch\"\n[tcp]\naddress = \"{address}\"\nusername = \"{NAME}\"\n\
         password_file = {password:?}\nretry_min_ms = 1\nretry_max_ms = 20\n"
    );
    let section = FeedSection::parse(&text).expect("a configuration");
    rig.receiver = Receiver::open(&section).expect("it opens");
    rig.market = Market::new(own);
    rig.venue.lines.clear();
    rig.venue.soup.manner = Manner::Feed;
    (rig, dir)
}

fn counts(rig: &Rig) -> StreamCounts {
    rig.receiver.stream_counts().expect("it is a connection")
}

fn is_there(rig: &Rig) -> bool {
    let next = rig.receiver.channels().next().map(|channel| channel.next);
    next == Some(rig.venue.published as u64 + 1)
}

#[test]
fn a_feed_over_a_connection_gives_the_book_of_every_row_over_losses_of_the_connection() {
    let day = Day::recorded(2_000, 3);
    let rows: usize = day.rows.values().map(Vec::len).sum();
    let (mut rig, _dir) = rig(day);
    rig.venue.publish(50);
    rig.until("what was sent before", is_there);
    while !rig.venue.is_over() {
        rig.venue.publish(700);
        // Part of it is read when the connection is lost.
        rig.venue.soup.piece_len = 3_000;
        let before = rig.market.updates;
        rig.until("a part", |rig| rig.market.updates > before);
        rig.venue.soup.hang_up();
        rig.until("the loss", |rig| rig.channel().is_silent);
        rig.venue.soup.piece_len = 1 << 16;
        rig.until("the rest", |rig| is_there(rig) && !rig.channel().is_silent);
    }
    rig.assert_equal();
    assert_eq!((rig.market.right, rig.market.state), (rows, State::Live));
    let counts = counts(&rig);
    assert!(counts.logins > 2 && counts.logins == counts.failed + 1, "{counts:?}");
    assert_eq!(counts.messages, rig.venue.published as u64, "none came twice");
    assert!(rig.market.count(|event| *event == ChannelEvent::Silent) > 1);
}

#[test]
fn another_session_over_a_connection_clears_the_books() {
    let (mut rig, _dir) = rig(Day::made_up(3, 400, 2));
    rig.venue.publish(300);
    rig.until("the first session", is_there);
    rig.venue.soup.end_session();
    rig.until("its end", |rig| counts(rig).failed == 1);
    assert_eq!(counts(&rig).last_error, Some(StreamError::EndOfSession));
    assert_eq!(rig.market.state, State::Ended);
    rig.venue.restart("DAY2");
    rig.venue.publish(200);
    rig.until("the second session", is_there);
    rig.assert_equal();
    // A session that no longer exists at the next login has ended, too.
    rig.venue.soup.hang_up();
    rig.venue.restart("DAY3");
    rig.venue.publish(100);
    rig.until("the third session", |rig| {
        is_there(rig) && rig.channel().session == Some(rig.venue.session.number())
    });
    rig.assert_equal();
}

#[test]
fn a_server_that_refuses_or_says_nothing_is_tried_again() {
    let (mut rig, _dir) = rig(Day::made_up(3, 100, 1));
    rig.venue.soup.manner = Manner::Refuse;
    rig.venue.publish(50);
    rig.until("refusals", |rig| counts(rig).failed >= 3);
    assert!(matches!(counts(&rig).last_error, Some(StreamError::Refused(_))));
    rig.venue.soup.manner = Manner::Nonsense;
    rig.until("nonsense", |rig| matches!(counts(rig).last_error, Some(StreamError::Packet(_))));
    rig.venue.soup.manner = Manner::Feed;
    rig.until("the feed", is_there);
    rig.clock += 16 * SECOND;
    rig.until("silence", |rig| counts(rig).last_error == Some(StreamError::Silence));
    rig.venue.publish(10);
    rig.until("the feed again", is_there);
    rig.assert_equal();
}
