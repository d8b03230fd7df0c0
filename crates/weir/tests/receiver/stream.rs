//! A feed over SoupBinTCP: the books of every row, over any losses of connections.

use std::rc::Rc;

use weir_feed::line::State;
use weir_marketgate::receiver::{ChannelEvent, FeedSection, Receiver, StreamCounts, StreamError};

use crate::day::Day;
use crate::market::Market;
use crate::snapshot::{Manner, NAME, PASSWORD};
use crate::stand::{Parts, SECOND, Stand};
use crate::venue::Faults;

fn stand(day: Day) -> (Stand, tempfile::TempDir) {
    let own = Rc::new(day.clone());
    let mut stand = Stand::new(day, Faults::default(), Parts::default());
    let dir = tempfile::tempdir().expect("a directory");
    let password = dir.path().join("password");
    std::fs::write(&password, PASSWORD).expect("it is written");
    let address = stand.venue.soup.address();
    let text = format!(
        "name = \"itch\"\n[tcp]\naddress = \"{address}\"\nusername = \"{NAME}\"\n\
         password_file = {password:?}\nretry_min_ms = 1\nretry_max_ms = 20\n"
    );
    let section = FeedSection::parse(&text).expect("a configuration");
    stand.receiver = Receiver::open(&section).expect("it opens");
    stand.market = Market::new(own);
    stand.venue.lines.clear();
    stand.venue.soup.manner = Manner::Feed;
    (stand, dir)
}

fn counts(stand: &Stand) -> StreamCounts {
    stand.receiver.stream_counts().expect("it is a connection")
}

fn is_there(stand: &Stand) -> bool {
    let next = stand.receiver.channels().next().map(|channel| channel.next);
    next == Some(stand.venue.published as u64 + 1)
}

#[test]
fn a_feed_over_a_connection_gives_the_book_of_every_row_over_losses_of_the_connection() {
    let day = Day::recorded(2_000, 3);
    let rows: usize = day.rows.values().map(Vec::len).sum();
    let (mut stand, _dir) = stand(day);
    stand.venue.publish(50);
    stand.until("what was sent before", is_there);
    while !stand.venue.is_over() {
        stand.venue.publish(700);
        // Part of it is read when the connection is lost.
        stand.venue.soup.piece_len = 3_000;
        let before = stand.market.updates;
        stand.until("a part", |stand| stand.market.updates > before);
        stand.venue.soup.hang_up();
        stand.until("the loss", |stand| stand.channel().is_silent);
        stand.venue.soup.piece_len = 1 << 16;
        stand.until("the rest", |stand| is_there(stand) && !stand.channel().is_silent);
    }
    stand.assert_equal();
    assert_eq!((stand.market.right, stand.market.state), (rows, State::Live));
    let counts = counts(&stand);
    assert!(counts.logins > 2 && counts.logins == counts.failed + 1, "{counts:?}");
    assert_eq!(counts.messages, stand.venue.published as u64, "none came twice");
    assert!(stand.market.count(|event| *event == ChannelEvent::Silent) > 1);
}

#[test]
fn another_session_over_a_connection_clears_the_books() {
    let (mut stand, _dir) = stand(Day::made_up(3, 400, 2));
    stand.venue.publish(300);
    stand.until("the first session", is_there);
    stand.venue.soup.end_session();
    stand.until("its end", |stand| counts(stand).failed == 1);
    assert_eq!(counts(&stand).last_error, Some(StreamError::EndOfSession));
    assert_eq!(stand.market.state, State::Ended);
    stand.venue.restart("DAY2");
    stand.venue.publish(200);
    stand.until("the second session", is_there);
    stand.assert_equal();
    // A session that no longer exists at the next login has ended, too.
    stand.venue.soup.hang_up();
    stand.venue.restart("DAY3");
    stand.venue.publish(100);
    stand.until("the third session", |stand| {
        is_there(stand) && stand.channel().session == Some(stand.venue.session.number())
    });
    stand.assert_equal();
}

#[test]
fn a_server_that_refuses_or_says_nothing_is_tried_again() {
    let (mut stand, _dir) = stand(Day::made_up(3, 100, 1));
    stand.venue.soup.manner = Manner::Refuse;
    stand.venue.publish(50);
    stand.until("refusals", |stand| counts(stand).failed >= 3);
    assert!(matches!(counts(&stand).last_error, Some(StreamError::Refused(_))));
    stand.venue.soup.manner = Manner::Nonsense;
    stand.until("nonsense", |stand| {
        matches!(counts(stand).last_error, Some(StreamError::Packet(_)))
    });
    stand.venue.soup.manner = Manner::Feed;
    stand.until("the feed", is_there);
    stand.clock += 16 * SECOND;
    stand.until("silence", |stand| counts(stand).last_error == Some(StreamError::Silence));
    stand.venue.publish(10);
    stand.until("the feed again", is_there);
    stand.assert_equal();
}
