//! The content of pages, and their timing.

use weir_delivery::{FetchOutcome, RouterConfig};
use weir_types::{Nanos, OrdStatus, Reason, SessionId, WallOffset};
use weir_wire::Message;
use weir_wire::delivery::{AddCredit, FetchOrders, OrderRow, PageFlags};

use crate::support::keys;
use crate::venue::{MS, Venue, assert_in_order, change_id_in, cursors, fetch};

fn new(venue: &mut Venue, source: u16, rec: u64) {
    venue.say(source, rec, keys(1 + (rec % 2) as u32, 1, 1), OrdStatus::New);
}

/// `count` orders of each source, a microsecond between any two.
fn with_orders(sources: u16, count: u64) -> Venue {
    let mut venue = Venue::with_sources(sources);
    for rec in 1..=count {
        for source in 1..=sources {
            venue.now = Nanos(venue.now.0 + 1_000);
            new(&mut venue, source, rec);
        }
    }
    venue.feed_all();
    venue
}

#[test]
fn rows_of_all_sources_come_in_one_page_by_time() {
    let mut venue = with_orders(4, 3);
    let answer = venue.fetch(&fetch(), &[]);
    let want: Vec<(u16, u64)> =
        (1..=3).flat_map(|rec| (1..=4).map(move |source| (source, rec))).collect();
    assert_eq!(answer.recs(), want);
    assert!(answer.is(PageFlags::ONLINE) && !answer.is(PageFlags::SOURCE_AWAY));
    assert_eq!(answer.header.oldest_transact_time, answer.rows[0].transact_time);
    assert_eq!(answer.token.len(), 32 + 4 * 50);
    for source in 1..=4 {
        assert_eq!(change_id_in(&answer.token, source).rec.0, 3);
    }
}

#[test]
fn rows_at_one_time_are_ordered_by_source_then_place() {
    let mut venue = Venue::with_sources(3);
    for source in [3, 1, 2] {
        (1..=2).for_each(|rec| new(&mut venue, source, rec));
    }
    venue.feed_all();
    let answer = venue.fetch(&fetch(), &[]);
    assert_eq!(answer.recs(), [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)]);
}

#[test]
fn a_source_keeps_its_order_where_its_clock_went_back() {
    let mut venue = Venue::with_sources(2);
    for (source, rec, time) in [(1, 1, 50), (1, 2, 10), (2, 1, 20), (2, 2, 60)] {
        venue.now = Nanos(time * MS);
        new(&mut venue, source, rec);
    }
    venue.feed_all();
    venue.now = Nanos(100 * MS);
    let answer = venue.fetch(&fetch(), &[]);
    assert_eq!(answer.recs(), [(2, 1), (1, 1), (1, 2), (2, 2)]);
    assert_eq!(answer.header.oldest_transact_time, Nanos(10 * MS));
}

#[test]
fn a_page_does_not_wait_for_a_quiet_source() {
    let mut venue = with_orders(3, 1);
    let token = venue.fetch(&fetch(), &[]).token;
    assert_eq!(venue.ask(1, &fetch(), &token), FetchOutcome::Accepted);
    venue.advance_by(Nanos(3 * MS));
    assert!(venue.answers(1).is_empty(), "nothing has happened");
    new(&mut venue, 2, 2);
    venue.feed_all();
    let asked = venue.now;
    venue.settle();
    let answer = venue.answer(1);
    assert_eq!((answer.recs(), answer.header.served_time), (vec![(2, 2)], asked));
    assert!(answer.is(PageFlags::ONLINE), "the quiet ones have nothing newer");
}

#[test]
fn rows_are_budgeted_over_all_sources_and_none_is_held_up() {
    let mut venue = Venue::with_sources(4);
    // The clock of source 1 is far behind: its rows would always sort first.
    (1..=40).for_each(|rec| new(&mut venue, 1, rec));
    venue.now = Nanos(900 * MS);
    for source in 2..=4 {
        (1..=40).for_each(|rec| new(&mut venue, source, rec));
    }
    venue.feed_all();
    for rows_max in [1, 2, 3, 7, 40] {
        let (mut token, mut rows) = (Vec::new(), Vec::new());
        loop {
            let answer = venue.fetch(&FetchOrders { rows_max, ..fetch() }, &token);
            assert!(answer.rows.len() <= rows_max as usize && !answer.rows.is_empty());
            let of_others = answer.rows.iter().filter(|row| row.partition_id.0 != 1).count();
            // When rows of all sources are there, each source is served.
            let has_turn = rows_max < 4 || of_others > 0 || rows.len() >= 120;
            assert!(has_turn, "{rows_max} rows: {:?}", answer.recs());
            rows.extend(answer.rows.iter().copied());
            let is_online = answer.is(PageFlags::ONLINE);
            token = answer.token;
            if is_online {
                break;
            }
        }
        assert_in_order(&rows);
        assert_eq!(rows.len(), 160, "at most {rows_max} rows");
    }
}

#[test]
fn bytes_are_budgeted_over_all_sources_and_one_row_always_fits() {
    let mut venue = with_orders(3, 10);
    for (bytes_max, rows_max) in [(1, 1), (170, 1), (400, 2), (1_000, 6)] {
        let (mut token, mut rows) = (Vec::new(), Vec::new());
        for _ in 0..30 {
            let answer = venue.fetch(&FetchOrders { bytes_max, rows_min: 0, ..fetch() }, &token);
            assert!(answer.rows.len() <= rows_max, "{} rows", answer.rows.len());
            rows.extend(answer.rows);
            token = answer.token;
        }
        assert_eq!(rows.len(), 30);
    }
}

#[test]
fn what_was_merged_is_counted_over_all_sources() {
    let mut venue = with_orders(2, 2);
    let token = venue.fetch(&fetch(), &[]).token;
    for source in 1..=2 {
        for _ in 0..4 {
            venue.say(source, 1, keys(1, 1, 1), OrdStatus::PartiallyFilled);
        }
    }
    venue.feed_all();
    let answer = venue.fetch(&fetch(), &token);
    assert_eq!((answer.rows.len(), answer.header.merged_count), (2, 6));
}

#[test]
fn a_page_that_ends_inside_one_seq_of_a_source_says_partial() {
    let mut venue = Venue::with_sources(2);
    new(&mut venue, 2, 1);
    for rec in 1..=5 {
        venue.history(1).seq = 0;
        new(&mut venue, 1, rec);
    }
    venue.feed_all();
    let question = FetchOrders { rows_max: 4, ..fetch() };
    let first = venue.fetch(&question, &[]);
    assert!(first.is(PageFlags::PARTIAL), "{:?}", first.recs());
    let (rows, token) = venue.fetch_all(&question, &first.token);
    assert_eq!(first.rows.len() + rows.len(), 6);
    assert_eq!(change_id_in(&token, 1).rec.0, 5);
}

#[test]
fn a_page_waits_for_rows_min_over_all_sources_until_its_wait_is_over() {
    let mut venue = with_orders(4, 1);
    let token = venue.fetch(&fetch(), &[]).token;
    let question = FetchOrders { rows_min: 3, ..fetch() };
    assert_eq!(venue.ask(1, &question, &token), FetchOutcome::Accepted);
    let asked = venue.now;
    venue.settle();
    new(&mut venue, 1, 2);
    new(&mut venue, 2, 2);
    venue.feed_all();
    venue.settle();
    assert!(venue.answers(1).is_empty(), "two of three are there");
    new(&mut venue, 3, 2);
    venue.feed_all();
    venue.settle();
    assert_eq!(venue.answer(1).rows.len(), 3, "three of three are there");

    let token = venue.fetch_all(&FetchOrders { rows_min: 0, ..fetch() }, &token).1;
    assert_eq!(venue.ask(1, &question, &token), FetchOutcome::Accepted);
    let again = venue.now;
    new(&mut venue, 4, 2);
    venue.feed_all();
    venue.advance_by(Nanos(2 * MS));
    let answer = venue.answer(1);
    assert_eq!((answer.rows.len(), answer.header.served_time.0 - again.0), (1, 500_000));
    assert!(asked <= again);
}

#[test]
fn an_order_is_in_a_page_once_though_it_changed_while_the_page_filled() {
    let mut venue = with_orders(2, 2);
    let token = venue.fetch(&fetch(), &[]).token;
    assert_eq!(
        venue.ask(1, &FetchOrders { rows_min: 3, ..fetch() }, &token),
        FetchOutcome::Accepted
    );
    for _ in 0..3 {
        venue.say(1, 1, keys(1, 1, 1), OrdStatus::PartiallyFilled);
        venue.feed_all();
        venue.settle();
    }
    venue.advance_by(Nanos(MS));
    let answer = venue.answer(1);
    assert_eq!((answer.recs(), answer.header.merged_count), (vec![(1, 1)], 2));
}

#[test]
fn an_idle_reader_gets_an_empty_page_whose_token_is_fresh() {
    let mut venue = with_orders(2, 2);
    let question = FetchOrders { account_id: weir_types::AccountId(99), ..fetch() };
    let token = venue.fetch(&question, &[]).token;
    new(&mut venue, 1, 3);
    venue.feed_all();
    let answer = venue.fetch(&question, &token);
    assert_eq!(answer.rows, []);
    assert!(answer.is(PageFlags::ONLINE));
    assert_eq!(answer.header.served_time.0 - answer.header.asked_time.0, 1_000 * MS);
    let again = venue.fetch(&FetchOrders { rows_min: 0, ..question }, &answer.token);
    assert_eq!(change_id_in(&again.token, 1).rec.0, 3);
}

#[test]
fn a_question_without_patience_is_answered_at_once_with_what_every_source_says() {
    let mut venue = with_orders(3, 1);
    let token = venue.fetch(&fetch(), &[]).token;
    new(&mut venue, 3, 2);
    venue.feed_all();
    let asked = venue.now;
    for want in [1, 0] {
        let answer = venue.fetch(&FetchOrders { rows_min: 0, ..fetch() }, &token);
        assert_eq!(answer.header.served_time, asked);
        if want == 0 {
            continue;
        }
        assert_eq!(answer.recs(), [(3, 2)]);
    }
}

#[test]
fn credit_is_so_many_pages_and_no_more() {
    let mut venue = with_orders(2, 3);
    let question = FetchOrders { rows_max: 2, credit: 4, ..fetch() };
    assert_eq!(venue.ask(1, &question, &[]), FetchOutcome::Accepted);
    venue.settle();
    assert_eq!(venue.answers(1).len(), 3);
    (4..=9).for_each(|rec| new(&mut venue, 1, rec));
    venue.feed_all();
    venue.settle();
    let answers = venue.answers(1);
    assert_eq!(answers.iter().map(|a| a.header.credit_left).collect::<Vec<_>>(), [0]);
    assert_eq!(venue.router.reader_count(), 0);
}

#[test]
fn credit_in_rows_and_bytes_is_over_all_sources_and_costs_nothing_when_it_is_spent() {
    let mut venue = with_orders(2, 3);
    let row = OrderRow::BLOCK_LENGTH as u32 + 2;
    let question = FetchOrders { credit: 9, credit_rows: 4, credit_bytes: 9 * row, ..fetch() };
    assert_eq!(venue.ask(1, &question, &[]), FetchOutcome::Accepted);
    venue.settle();
    let count = |venue: &mut Venue| -> usize {
        venue.answers(1).iter().map(|answer| answer.recs().len()).sum()
    };
    assert_eq!(count(&mut venue), 4);
    let asked_before = venue.router.figures().asked_count;
    (4..=9).for_each(|rec| new(&mut venue, 1, rec));
    venue.feed_all();
    venue.settle();
    venue.router.resume(1);
    venue.settle();
    assert_eq!(count(&mut venue), 0);
    assert_eq!(venue.router.figures().asked_count, asked_before, "nothing is asked for it");
    let more = AddCredit {
        correlation_id: question.correlation_id,
        session_id: question.session_id,
        pages: 0,
        rows: 100,
        bytes: 0,
    };
    let now = venue.now;
    venue.router.add_credit(1, &more, now);
    venue.settle();
    assert_eq!(count(&mut venue), 5, "as many as there are bytes for");
    venue.router.add_credit(1, &AddCredit { bytes: 100 * row, ..more }, now);
    venue.settle();
    assert_eq!(count(&mut venue), 3);
}

#[test]
fn the_next_question_of_a_reader_finds_its_sources_waiting() {
    let mut venue = with_orders(4, 1);
    let mut token = venue.fetch(&fetch(), &[]).token;
    let asked_before = venue.router.figures().asked_count;
    for rec in 2..=11 {
        assert_eq!(venue.ask(9, &fetch(), &token), FetchOutcome::Accepted);
        venue.settle();
        new(&mut venue, 1, rec);
        venue.feed_all();
        venue.settle();
        let answer = venue.answer(9);
        assert_eq!(answer.recs(), [(1, rec)]);
        token = answer.token;
    }
    let figures = *venue.router.figures();
    assert_eq!(figures.adopted_count, 10);
    assert!(figures.asked_count - asked_before <= 14, "one question a page, not one a source");
}

#[test]
fn a_kept_place_is_given_up_when_its_time_is_over() {
    let mut venue = with_orders(2, 1);
    let token = venue.fetch(&fetch(), &[]).token;
    let desks = |venue: &mut Venue| -> usize {
        let ids: Vec<_> = venue.followers.iter().map(|follower| follower.id).collect();
        ids.iter().map(|id| venue.local.get_mut(*id).unwrap().reader_count()).sum()
    };
    assert_eq!(desks(&mut venue), 2);
    venue.advance_by(RouterConfig::default().linger);
    assert_eq!(desks(&mut venue), 0);
    assert_eq!(venue.ask(9, &fetch(), &token), FetchOutcome::Accepted);
    venue.settle();
    assert_eq!(venue.router.figures().adopted_count, 0);
}

#[test]
fn a_connection_that_takes_nothing_holds_up_nobody_and_gets_the_latest() {
    let mut venue = with_orders(2, 2);
    let token = venue.fetch(&fetch(), &[]).token;
    venue.sink.full.push(1);
    for connection in [1, 2] {
        assert_eq!(venue.ask(connection, &fetch(), &token), FetchOutcome::Accepted);
    }
    venue.say(1, 1, keys(1, 1, 1), OrdStatus::PartiallyFilled);
    venue.feed_all();
    venue.settle();
    assert_eq!(venue.answer(2).rows.len(), 1);
    venue.say(1, 1, keys(1, 1, 1), OrdStatus::Filled);
    venue.feed_all();
    venue.settle();
    venue.sink.full.clear();
    venue.router.resume(1);
    venue.settle();
    let answer = venue.answer(1);
    assert_eq!((answer.rows.len(), answer.header.merged_count), (1, 1));
    assert_eq!(answer.rows[0].ord_status, OrdStatus::Filled);
}

#[test]
fn a_dropped_connection_leaves_nothing_behind() {
    let mut venue = with_orders(2, 2);
    let token = venue.fetch(&fetch(), &[]).token;
    for _ in 0..3 {
        assert_eq!(venue.ask(1, &fetch(), &token), FetchOutcome::Accepted);
    }
    venue.settle();
    venue.router.drop_connection(1, &mut venue.local);
    venue.router.drop_connection(9, &mut venue.local);
    assert_eq!(venue.router.reader_count(), 0);
    assert_eq!(venue.router.next_deadline(), None);
    assert!(venue.router.backends().all(|(_, state)| state.asked_count == 0));
    for index in 0..2 {
        let id = venue.followers[index].id;
        assert_eq!(venue.local.get_mut(id).unwrap().reader_count(), 0);
    }
}

#[test]
fn readers_beyond_the_limits_are_refused_and_kept_places_make_room() {
    let config = RouterConfig { readers_max: 3, readers_of_all_max: 2, ..Default::default() };
    let mut venue = Venue::new(config);
    venue.add_master(1);
    new(&mut venue, 1, 1);
    venue.feed_all();
    let token = venue.fetch(&fetch(), &[]).token;
    let asked = [1, 1, 1, 2, 3].map(|connection| venue.ask(connection, &fetch(), &token));
    let (accepted, refused) = (FetchOutcome::Accepted, FetchOutcome::Refused);
    let want =
        [accepted, accepted, refused(Reason::LimitReached), accepted, refused(Reason::Overloaded)];
    assert_eq!(asked, want);
    venue.settle();
    assert_eq!(venue.router.reader_count(), 3);
}

#[test]
fn a_session_that_has_ended_is_served_no_more_and_its_neighbours_are() {
    let mut venue = with_orders(2, 1);
    let token = venue.fetch(&fetch(), &[]).token;
    venue.router.drop_connection(9, &mut venue.local);
    let neighbour = FetchOrders { session_id: SessionId(5), ..fetch() };
    for (connection, question) in [(1, fetch()), (1, neighbour), (2, fetch())] {
        assert_eq!(venue.ask(connection, &question, &token), FetchOutcome::Accepted);
    }
    venue.settle();
    // Credit reaches the fetch of its own session alone.
    let FetchOrders { correlation_id, .. } = fetch();
    let session_id = SessionId(5);
    let more = AddCredit { correlation_id, session_id, pages: 4, rows: 0, bytes: 0 };
    venue.router.add_credit(1, &more, venue.now);
    venue.router.end_session(1, SessionId(4), &mut venue.local);
    assert_eq!(venue.router.reader_count(), 2);
    new(&mut venue, 1, 2);
    venue.feed_all();
    venue.settle();
    let header = venue.answer(1).header;
    assert_eq!((header.session_id, header.credit_left), (SessionId(5), 4));
    let header = venue.answer(2).header;
    assert_eq!((header.session_id, header.credit_left), (SessionId(4), 0));
    // The place that is kept for the next fetch goes with the session too.
    venue.router.end_session(2, SessionId(4), &mut venue.local);
    venue.router.end_session(1, SessionId(5), &mut venue.local);
    assert_eq!(venue.router.reader_count(), 0);
}

#[test]
fn without_any_source_a_page_says_so() {
    let mut venue = Venue::with_sources(0);
    let answer = venue.fetch(&fetch(), &[]);
    assert!(!answer.is(PageFlags::ONLINE));
    assert_eq!(cursors(&answer.token), []);
}

#[test]
fn with_pages_of_one_row_the_sources_take_turns() {
    let mut venue = Venue::with_sources(3);
    for source in 1..=3 {
        (1..=4).for_each(|rec| {
            venue.say(source, rec, keys(1, 1, 1), OrdStatus::New);
        });
    }
    venue.feed_all();
    let question = FetchOrders { rows_max: 1, ..fetch() };
    let (mut token, mut sources) = (Vec::new(), Vec::new());
    for _ in 0..6 {
        let answer = venue.fetch(&question, &token);
        sources.extend(answer.recs().iter().map(|(source, _)| *source));
        token = answer.token;
    }
    for source in 1..=3 {
        let count = sources.iter().filter(|each| **each == source).count();
        assert!(count > 0, "source {source} is held up: {sources:?}");
    }
}

#[test]
fn pages_have_the_times_of_a_wall_clock_that_was_set() {
    let mut venue = with_orders(3, 1);
    let ahead = 3_600_000 * MS;
    let wall = |now: Nanos| Nanos(now.0 + ahead);
    venue.router.wall_clock_moved(WallOffset::between(venue.now, wall(venue.now)));
    let asked = venue.now;
    let head = venue.fetch(&fetch(), &[]).header;
    assert_eq!(head.asked_time, wall(asked));
    assert!((wall(asked)..=wall(venue.now)).contains(&head.served_time), "{head:?}");
}
