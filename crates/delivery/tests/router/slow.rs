//! A backend that answers some requests late or never, and the readers beside.

use weir_delivery::{Entitlement, FetchOutcome, Kinds, OlderAnswer, Question, RouterConfig};
use weir_types::{FirmId, Nanos, OrdStatus, Reason};
use weir_wire::Message as _;
use weir_wire::delivery::{FetchOrders, PageFlags};
use weir_wire::frame::{Framing, next_frame};
use weir_wire::session::Reject;

use crate::support::keys;
use crate::venue::{Answer, MS, Venue, fetch, token_of};

/// As a node with two partitions has it.
fn in_process() -> RouterConfig {
    RouterConfig {
        is_in_process: true,
        answer_grace: Nanos(u64::MAX),
        linger: Nanos(0),
        ..RouterConfig::default()
    }
}

/// Returns two sources, the first of which keeps one ended order and has an archive of the others,
/// and a token below its floor.
fn with_archive(config: RouterConfig, question: &FetchOrders) -> (Venue, Vec<u8>) {
    let mut venue = Venue::new(config);
    venue.retained_max = 1;
    for source in 1..=2 {
        venue.add_master(source);
    }
    let say = |venue: &mut Venue, rec, status| {
        venue.now = Nanos(venue.now.0 + MS);
        venue.say(1, rec, keys(1, 1, 1), status);
        venue.feed_all();
    };
    say(&mut venue, 1, OrdStatus::New);
    let (_, below) = venue.fetch_all(question, &[]);
    for rec in 1..=4 {
        say(&mut venue, rec, OrdStatus::Filled);
    }
    let id = venue.followers[0].id;
    venue.local.get_mut(id).expect("it is up").keep_older(8);
    (venue, below)
}

/// Reads beside another reader for some seconds, in which both sources have news.
fn read_beside(venue: &mut Venue, question: &FetchOrders) {
    let (_, mut token) = venue.fetch_all(question, &[]);
    for rec in 10..20 {
        for source in 1..=2 {
            venue.say(source, rec, keys(1, 1, 1), OrdStatus::New);
        }
        venue.feed_all();
        let answer = venue.fetch(question, &token);
        assert!(!answer.is(PageFlags::SOURCE_AWAY), "{:?}", answer.sources);
        assert_eq!(answer.recs(), [(1, rec), (2, rec)]);
        token = answer.token;
        venue.advance_by(Nanos(500 * MS));
    }
}

#[test]
fn a_reader_that_waits_for_an_archive_takes_its_source_from_no_other() {
    for config in [in_process(), RouterConfig::default()] {
        let (mut venue, below) = with_archive(config, &fetch());
        // News of the other source alone end no fetch with credit.
        let _asked = venue.ask(1, &FetchOrders { credit: 200, ..fetch() }, &below);
        venue.settle();
        let id = venue.followers[0].id;
        let asked = venue.local.get_mut(id).unwrap().next_older_ask();
        assert!(asked.is_some(), "the archive never answers");
        read_beside(&mut venue, &fetch());
        assert_eq!(venue.router.figures().fault_count, 0, "{config:?}");
    }
}

#[test]
fn a_reader_leaves_a_store_whose_archive_never_answers_for_another() {
    // Who reads one firm's orders asks the master.
    let keyed = FetchOrders { firm_id: FirmId(1), ..fetch() };
    let (mut venue, below) = with_archive(RouterConfig::default(), &keyed);
    venue.retained_max = 1_000;
    venue.add_replica(1, Kinds::FULL);
    venue.feed_all();
    let _asked = venue.ask(1, &FetchOrders { credit: 200, ..keyed }, &below);
    venue.settle();
    let id = venue.followers[0].id;
    assert!(venue.local.get_mut(id).unwrap().next_older_ask().is_some(), "the master is asked");
    read_beside(&mut venue, &keyed);
    let of_first = |answers: Vec<Answer>| {
        let recs = answers.iter().flat_map(Answer::recs);
        recs.filter(|(source, rec)| *source == 1 && *rec <= 4).count()
    };
    assert_eq!(of_first(venue.answers(1)), 0, "it waits for the archive");
    for _ in 0..80 {
        venue.advance_by(Nanos(500 * MS));
        venue.router.probe(id, venue.now, &mut venue.local);
        venue.settle();
    }
    assert_eq!(of_first(venue.answers(1)), 4, "the replica has what it lacks");
}

#[test]
fn a_busy_archive_refuses_its_reader_for_now_and_no_other() {
    let (mut venue, below) = with_archive(in_process(), &fetch());
    let _asked = venue.ask(1, &fetch(), &below);
    venue.settle();
    let desk = venue.local.get_mut(venue.followers[0].id).unwrap();
    let asked = desk.next_older_ask().expect("the archive is asked");
    desk.take_older(asked.ticket, OlderAnswer::NotNow);
    venue.settle();
    let said = venue.sink.out.remove(&1).expect("it is told");
    let Framing::Frame { message, .. } = next_frame(&said, 1 << 20) else { panic!("a frame") };
    let raw = message.unwrap();
    assert_eq!(raw.template_id, Reject::TEMPLATE_ID);
    let reject: Reject = raw.decode().unwrap();
    assert_eq!(reject.reason, Reason::Overloaded);
    assert_eq!(reject.request_no.0, fetch().correlation_id);
    read_beside(&mut venue, &fetch());
    assert_eq!(venue.router.figures().fault_count, 0);
}

#[test]
fn a_source_of_another_service_in_a_token_is_kept_and_not_told_of() {
    let mut venue = Venue::new(in_process());
    venue.add_master(1);
    venue.say(1, 1, keys(1, 1, 1), OrdStatus::New);
    venue.feed_all();
    let token = token_of(&[(1, 1, 1, 1), (40, 1, 5, 5)]);
    venue.say(1, 2, keys(1, 1, 1), OrdStatus::New);
    venue.feed_all();
    let answer = venue.fetch(&fetch(), &token);
    assert!(!answer.is(PageFlags::SOURCE_AWAY) && answer.sources.is_empty());
    assert_eq!(answer.recs(), [(1, 2)]);
    assert_eq!(answer.token.len(), 32 + 2 * 50, "its place is in the next token");
    // Nor is it waited for: only the source that is served here counts.
    let (question, entitlement) = (fetch(), Entitlement::all());
    let min_token = &token[..];
    let ask = Question { connection: 9, fetch: &question, token: &token, min_token, entitlement };
    assert_eq!(venue.router.ask(&ask, venue.now), FetchOutcome::Accepted);
    venue.settle();
    assert_eq!(venue.answer(9).header.reason, Reason::None);
}
