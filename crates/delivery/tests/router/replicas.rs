//! The choice of backends, and the outcome for readers when one fails or lags.

use weir_delivery::router::{BackendFault, BadPage, Health};
use weir_delivery::{Entitlement, FetchOutcome, Kinds, Question, RouterConfig};
use weir_types::{
    ChangeId, Epoch, FirmId, Nanos, OrdStatus, Reason, Rec, Seq, SessionId, SourceStatus,
};
use weir_wire::delivery::{CancelFetch, FetchOrders, PageFlags};

use crate::support::keys;
use crate::venue::{MS, Venue, change_id_in, fetch, token_of};

fn new(venue: &mut Venue, source: u16, rec: u64) {
    venue.say(source, rec, keys(1 + (rec % 2) as u32, 1, 1), OrdStatus::New);
}

/// Source 1 with a master and two replicas, one indexed; `count` orders that all of them have.
fn replicated(count: u64) -> Venue {
    let mut venue = Venue::with_sources(1);
    venue.add_replica(1, Kinds::FULL);
    venue.add_replica(1, Kinds::NONE);
    (1..=count).for_each(|rec| new(&mut venue, 1, rec));
    venue.feed_all();
    venue.settle();
    venue
}

/// Returns the number of fetches that wait at each follower.
fn asked(venue: &Venue) -> Vec<u32> {
    venue.router.backends().map(|(_, state)| state.asked_count).collect()
}

fn health(venue: &Venue, index: usize) -> Health {
    let id = venue.followers[index].id;
    venue.router.backends().find(|(each, _)| *each == id).expect("it is known").1.health
}

#[test]
fn filters_go_to_the_master_and_readers_of_everything_to_the_unindexed_replica() {
    let mut venue = replicated(4);
    let token = venue.fetch_all(&fetch(), &[]).1;
    venue.router.drop_connection(9, &mut venue.local);
    let of_firm = FetchOrders { firm_id: FirmId(1), ..fetch() };
    assert_eq!(venue.ask(1, &fetch(), &token), FetchOutcome::Accepted);
    assert_eq!(
        venue.ask(2, &FetchOrders { wait_max_us: 30_000_000, ..of_firm }, &[]),
        FetchOutcome::Accepted
    );
    venue.settle();
    assert_eq!(asked(&venue), [1, 0, 1]);
    venue.stop(0);
    venue.stop(2);
    venue.settle();
    assert_eq!(asked(&venue)[1], 2, "both are served by who is left");
}

#[test]
fn a_replica_far_behind_is_passed_over() {
    let mut venue = Venue::new(RouterConfig { lag_max: 3, ..RouterConfig::default() });
    venue.add_master(1);
    venue.add_replica(1, Kinds::NONE);
    (1..=8).for_each(|rec| new(&mut venue, 1, rec));
    venue.feed(0, 8);
    venue.feed(1, 4);
    venue.settle();
    assert_eq!(venue.router.backends().map(|(_, s)| s.lag).collect::<Vec<_>>(), [0, 4]);
    assert_eq!(venue.fetch(&fetch(), &[]).rows.len(), 8);
    venue.feed(1, 1);
    venue.settle();
    venue.router.drop_connection(9, &mut venue.local);
    assert_eq!(venue.fetch(&fetch(), &[]).rows.len(), 5, "three behind is near enough");
}

#[test]
fn failover_to_another_replica_keeps_the_token() {
    let mut venue = replicated(2);
    let token = venue.fetch(&fetch(), &[]).token;
    assert_eq!(venue.ask(1, &fetch(), &token), FetchOutcome::Accepted);
    venue.settle();
    for index in [2, 1] {
        venue.stop(index);
        venue.settle();
    }
    assert!(venue.answers(1).is_empty(), "nothing is new");
    new(&mut venue, 1, 3);
    venue.feed_all();
    venue.settle();
    let answer = venue.answer(1);
    assert_eq!((answer.header.reason, answer.recs()), (Reason::None, vec![(1, 3)]));
    assert!(!answer.is(PageFlags::SOURCE_AWAY));
}

/// Trap (i): one source is lost. The others go on, each page reports it, and the reader's place in
/// the lost one is kept until it is back.
#[test]
fn trap_i_a_source_that_is_away_is_told_of_and_holds_up_no_other() {
    let mut venue = Venue::with_sources(3);
    for source in 1..=3 {
        new(&mut venue, source, 1);
    }
    venue.feed_all();
    let token = venue.fetch(&fetch(), &[]).token;
    assert_eq!(
        venue.ask(1, &FetchOrders { credit: 10, ..fetch() }, &token),
        FetchOutcome::Accepted
    );
    venue.settle();
    venue.stop(1);
    new(&mut venue, 2, 2);
    new(&mut venue, 3, 2);
    venue.feed_all();
    venue.settle();
    let answer = venue.answer(1);
    assert_eq!(answer.recs(), [(3, 2)]);
    assert!(answer.is(PageFlags::SOURCE_AWAY) && answer.is(PageFlags::ONLINE));
    assert_eq!(change_id_in(&answer.token, 2), change_id_in(&token, 2));
    let (online, away) = (SourceStatus::Online, SourceStatus::Away);
    assert_eq!(answer.sources, [(1, online), (2, away), (3, online)]);

    let served = venue.now;
    venue.advance_by(Nanos(1_500 * MS));
    let idle = venue.answer(1);
    assert_eq!((idle.rows.len(), idle.is(PageFlags::SOURCE_AWAY)), (0, true), "not without a word");
    assert!(idle.header.served_time.0 - served.0 <= 1_000 * MS);

    venue.start(1);
    venue.feed_all();
    venue.settle();
    let back = venue.answer(1);
    assert_eq!((back.recs(), back.is(PageFlags::SOURCE_AWAY)), (vec![(2, 2)], false));
    assert_eq!(back.sources, [(1, online), (2, online), (3, online)], "and that it is back");
}

#[test]
fn a_first_copy_with_a_source_away_is_online_for_the_others_and_goes_on_when_it_is_back() {
    let mut venue = Venue::with_sources(2);
    new(&mut venue, 1, 1);
    new(&mut venue, 2, 1);
    venue.stop(1);
    venue.feed_all();
    let first = venue.fetch(&fetch(), &[]);
    assert_eq!(first.recs(), [(1, 1)]);
    assert!(first.is(PageFlags::ONLINE) && first.is(PageFlags::SOURCE_AWAY));
    venue.start(1);
    venue.feed_all();
    let second = venue.fetch(&fetch(), &first.token);
    assert_eq!((second.recs(), second.is(PageFlags::SOURCE_AWAY)), (vec![(2, 1)], false));
}

/// Trap (f): a token from a replica that was ahead. A replica that has reached the place is asked;
/// if there is none, the reader waits for one. It never gets rows that it had before.
#[test]
fn trap_f_a_token_ahead_of_a_replica_goes_to_one_that_has_it_or_waits() {
    let mut venue = replicated(2);
    (3..=5).for_each(|rec| new(&mut venue, 1, rec));
    venue.feed(0, 5);
    venue.settle();
    let ahead = token_of(&[(1, 1, 5, 5)]);
    assert_eq!(venue.ask(1, &fetch(), &ahead), FetchOutcome::Accepted);
    venue.settle();
    assert_eq!(asked(&venue), [1, 0, 0], "everything would be the unindexed one's");

    venue.stop(0);
    venue.settle();
    venue.advance_by(Nanos(1_200 * MS));
    let waiting = venue.answer(1);
    assert_eq!(waiting.rows, [], "what the replicas have is older");
    assert!(waiting.is(PageFlags::SOURCE_AWAY) && !waiting.is(PageFlags::ONLINE));
    assert_eq!(waiting.sources, [(1, SourceStatus::Behind)]);
    assert_eq!(change_id_in(&waiting.token, 1), ChangeId::new(Seq(5), Rec(5)));

    assert_eq!(venue.ask(1, &fetch(), &waiting.token), FetchOutcome::Accepted);
    venue.settle();
    new(&mut venue, 1, 6);
    venue.feed(1, 3);
    venue.settle();
    assert!(venue.answers(1).is_empty(), "it has what the reader has");
    venue.feed(1, 1);
    venue.advance_by(RouterConfig::default().lag_wait);
    let answer = venue.answer(1);
    assert_eq!((answer.recs(), answer.is(PageFlags::ONLINE)), (vec![(1, 6)], true));
}

#[test]
fn a_replica_that_has_not_heard_of_an_epoch_cannot_judge_a_place_in_it() {
    let mut venue = replicated(3);
    venue.fail(1, 1);
    new(&mut venue, 1, 3);
    for _ in 0..3 {
        venue.feed(0, usize::MAX);
    }
    venue.settle();
    let token = venue.fetch(&fetch(), &[]).token;
    venue.stop(0);
    let waiting = venue.fetch(&fetch(), &token);
    assert_eq!(waiting.header.reason, Reason::None, "nobody here may refuse it");
    assert!(waiting.is(PageFlags::SOURCE_AWAY));
    venue.feed_all();
    new(&mut venue, 1, 4);
    venue.feed_all();
    let answer = venue.fetch(&fetch(), &waiting.token);
    assert_eq!((answer.header.reason, answer.recs()), (Reason::None, vec![(1, 4)]));
}

#[test]
fn a_place_in_an_epoch_that_the_master_does_not_know_is_refused_after_a_while() {
    let mut venue = replicated(3);
    let refused = venue.fetch(&fetch(), &token_of(&[(1, 7, 2, 2)]));
    assert_eq!(refused.header.reason, Reason::ResyncEpoch);
    let waited = refused.header.served_time.0 - refused.header.asked_time.0;
    assert_eq!(waited, RouterConfig::default().epoch_wait.0);
    assert_eq!(venue.fetch(&fetch(), &refused.token).rows.len(), 3);
}

/// Trap (a): the router learns a backend's head before it has read that far. That head is no place
/// to go on from: the changes before it may not have been served.
#[test]
fn trap_a_a_head_that_was_only_heard_of_is_never_put_in_a_token() {
    let mut venue = Venue::with_sources(2);
    for source in 1..=2 {
        new(&mut venue, source, 1);
    }
    venue.feed_all();
    let token = venue.fetch(&fetch(), &[]).token;
    let id = venue.followers[1].id;
    new(&mut venue, 2, 2);
    new(&mut venue, 1, 2);
    venue.feed(0, 1);
    // It reports change 9 while changes 2 to 9 are on their way.
    venue.router.heard_of(id, Epoch(1), ChangeId::new(Seq(9), Rec(9)));
    let answer = venue.fetch(&fetch(), &token);
    assert_eq!(answer.recs(), [(1, 2)]);
    assert_eq!(change_id_in(&answer.token, 2), ChangeId::new(Seq(1), Rec(1)));
    venue.feed_all();
    assert_eq!(venue.fetch(&fetch(), &answer.token).recs(), [(2, 2)]);
}

#[test]
fn a_backend_that_does_not_answer_is_put_aside_for_longer_each_time_and_probed() {
    let mut venue = replicated(2);
    // Its desk is gone, and the router does not know.
    let id = venue.followers[2].id;
    let desk = venue.local.remove(id).unwrap();
    let mut spans = Vec::new();
    for fault_count in 1..=3 {
        assert_eq!(venue.fetch(&fetch(), &[]).rows.len(), 2, "another answers");
        venue.router.drop_connection(9, &mut venue.local);
        assert_eq!(health(&venue, 2), Health::Aside);
        let state = venue.router.backends().find(|(each, _)| *each == id).unwrap().1;
        assert_eq!(state.fault_count, fault_count);
        assert_eq!(state.last_fault, Some(BackendFault::Refused(Reason::Overloaded)));
        let until = venue.router.next_deadline().unwrap();
        spans.push(until.0 - venue.now.0);
        venue.advance_by(Nanos(spans[spans.len() - 1]));
        assert_eq!(health(&venue, 2), Health::Probing);
    }
    let min = RouterConfig::default().aside_min.0;
    for (doublings, span) in spans.iter().enumerate() {
        let full = min << doublings;
        assert!((full / 2..=full).contains(span), "{span} of {full} ns");
    }
    venue.local.insert(id, desk);
    assert_eq!(venue.fetch(&fetch(), &[]).rows.len(), 2);
    assert_eq!(health(&venue, 2), Health::Up, "one answer is enough");
    assert_eq!(venue.router.figures().fault_count, 3);
}

#[test]
fn a_silent_backend_is_given_up_and_its_readers_go_elsewhere() {
    let mut venue = replicated(2);
    let token = venue.fetch(&fetch(), &[]).token;
    assert_eq!(venue.ask(1, &fetch(), &token), FetchOutcome::Accepted);
    venue.settle();
    // Its desk is gone with its fetches, and the router does not know.
    venue.local.remove(venue.followers[2].id);
    new(&mut venue, 1, 3);
    venue.feed(0, 1);
    venue.feed(1, 1);
    let patience = RouterConfig::default();
    venue.advance_by(Nanos(patience.park_wait.0 + patience.answer_grace.0));
    let answers = venue.answers(1);
    let last = answers.last().expect("an idle page at least");
    assert_eq!(last.header.reason, Reason::None);
    let rows: usize = answers.iter().map(|answer| answer.rows.len()).sum();
    let later = venue.fetch(&fetch(), &token);
    assert_eq!((rows, later.recs()), (0, vec![(1, 3)]), "the next question goes elsewhere");
}

#[test]
fn pages_that_break_the_protocol_are_not_used_and_their_backend_is_put_aside() {
    type Spoil = fn(&mut Vec<u8>);
    type IsFault = fn(&BackendFault) -> bool;
    let spoils: [(Spoil, IsFault); 4] = [
        (|bytes| bytes[0] = 0xff, |fault| matches!(fault, BackendFault::Frame(_))),
        (|bytes| bytes[8] = 0xee, |fault| matches!(fault, BackendFault::Message(_))),
        (
            |bytes| *token_byte(bytes) ^= 1,
            |fault| matches!(fault, BackendFault::Page(BadPage::Token(_))),
        ),
        (
            |bytes| second_row_rec(bytes)[0] = 0,
            |fault| matches!(fault, BackendFault::Page(BadPage::OutOfOrder(_))),
        ),
    ];
    for (spoil, is_it) in spoils {
        let mut venue = replicated(3);
        assert_eq!(venue.ask(1, &fetch(), &[]), FetchOutcome::Accepted);
        let _ = venue.router.poll(venue.now, &mut venue.local, &mut venue.sink);
        let (id, now) = (venue.followers[2].id, venue.now);
        let desk = venue.local.get_mut(id).unwrap();
        let mut frames = crate::venue::Sink::default();
        let _ = desk.poll(now, &mut frames);
        let (_, mut bytes) = frames.out.pop_first().expect("it was asked");
        spoil(&mut bytes);
        let fault = venue.router.take(id, &bytes, now).unwrap_err();
        assert!(is_it(&fault), "{fault}");
        assert_eq!(health(&venue, 2), Health::Aside);
        venue.settle();
        let answer = venue.answer(1);
        assert_eq!((answer.rows.len(), answer.header.reason), (3, Reason::None), "from another");
        assert_eq!(venue.router.figures().fault_count, 1);
    }
}

/// Returns the last byte of the sealed places in the token of a page's header.
fn token_byte(bytes: &mut [u8]) -> &mut u8 {
    let len = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
    &mut bytes[len - 1]
}

/// Returns the record number of the second row.
fn second_row_rec(bytes: &mut [u8]) -> &mut [u8] {
    let header_len = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
    let rows = header_len + 14 + 12 + 4;
    let row_len = 159 + 2;
    // Its `seq` too; otherwise it would be another record at a later place.
    bytes[rows + row_len + 8] = 0;
    &mut bytes[rows + row_len..rows + row_len + 8]
}

#[test]
fn an_answer_that_comes_after_its_question_was_given_up_is_only_counted() {
    let mut venue = replicated(2);
    assert_eq!(venue.ask(1, &fetch(), &[]), FetchOutcome::Accepted);
    let _ = venue.router.poll(venue.now, &mut venue.local, &mut venue.sink);
    let (id, now) = (venue.followers[2].id, venue.now);
    let desk = venue.local.get_mut(id).unwrap();
    let mut frames = crate::venue::Sink::default();
    let _ = desk.poll(now, &mut frames);
    let (_, bytes) = frames.out.pop_first().expect("it was asked");
    venue.router.backend_down(id);
    venue.router.backend_up(id);
    venue.settle();
    assert_eq!(venue.answer(1).rows.len(), 2);
    assert_eq!(venue.router.take(id, &bytes, now), Ok(bytes.len()));
    venue.settle();
    assert!(venue.answers(1).is_empty());
    assert_eq!(venue.router.figures().late_count, 1);
}

#[test]
fn a_backend_by_the_routers_own_rights_gives_a_reader_no_more_than_its_own() {
    let mut venue = Venue::new(RouterConfig::default());
    venue.add_for_all(1);
    (1..=4).for_each(|rec| new(&mut venue, 1, rec));
    venue.feed_all();
    let (fetch, entitlement) = (fetch(), Entitlement::firm(FirmId(1)).at_version(3));
    let mut token = Vec::new();
    for want in [2, 1] {
        let question =
            Question { connection: 1, fetch: &fetch, token: &token, min_token: &[], entitlement };
        assert_eq!(venue.router.ask(&question, venue.now), FetchOutcome::Accepted);
        venue.settle();
        let answer = venue.answer(1);
        assert!(answer.rows.iter().all(|row| row.firm_id == FirmId(1)));
        assert_eq!((answer.rows.len(), answer.header.reason), (want, Reason::None));
        token = answer.token;
        (5..=6).for_each(|rec| new(&mut venue, 1, rec));
        venue.feed_all();
    }
}

fn ask_at_least(venue: &mut Venue, min_wait_us: u32, min_token: &[u8]) {
    let (fetch, entitlement) = (FetchOrders { min_wait_us, ..fetch() }, Entitlement::all());
    let question = Question { connection: 1, fetch: &fetch, token: &[], min_token, entitlement };
    assert_eq!(venue.router.ask(&question, venue.now), FetchOutcome::Accepted);
    venue.settle();
}

/// Source 1 with a complete master and a replica that lags, source 2, and a token of both.
fn lagging() -> (Venue, Vec<u8>) {
    let mut venue = Venue::with_sources(2);
    venue.add_replica(1, Kinds::NONE);
    (1..=6).for_each(|rec| new(&mut venue, 1, rec));
    (1..=2).for_each(|rec| new(&mut venue, 2, rec));
    venue.feed(0, 6);
    venue.feed(1, 2);
    venue.feed(2, 3);
    venue.settle();
    (venue, token_of(&[(1, 1, 6, 6), (2, 1, 2, 2)]))
}

#[test]
fn a_read_with_a_minimum_goes_to_a_store_that_has_reached_it() {
    let (mut venue, min) = lagging();
    ask_at_least(&mut venue, 1_000_000, &min);
    let answer = venue.answer(1);
    assert_eq!((answer.header.reason, answer.rows.len()), (Reason::None, 8));
}

#[test]
fn a_read_with_a_minimum_waits_for_a_store_of_each_source_to_reach_it() {
    let (mut venue, min) = lagging();
    venue.stop(0);
    ask_at_least(&mut venue, 1_000_000, &min);
    assert!(venue.answers(1).is_empty(), "only a store that lags is left");
    venue.advance_by(Nanos(500 * MS));
    assert!(venue.answers(1).is_empty());
    venue.feed(2, 3);
    venue.settle();
    venue.advance_by(Nanos(100 * MS));
    assert_eq!(venue.answer(1).rows.len(), 8);
}

#[test]
fn a_read_with_a_minimum_that_no_store_reaches_in_time_is_refused() {
    let (mut venue, min) = lagging();
    venue.stop(0);
    ask_at_least(&mut venue, 300_000, &min);
    venue.advance_by(Nanos(299 * MS));
    assert!(venue.answers(1).is_empty());
    venue.advance_by(Nanos(MS));
    let answer = venue.answer(1);
    assert_eq!((answer.header.reason, answer.token.len()), (Reason::MinTokenNotReached, 0));
    assert_eq!(venue.router.reader_count(), 0);
    // A source that is away has not reached it either.
    venue.feed(2, 3);
    venue.stop(1);
    ask_at_least(&mut venue, 300_000, &min);
    venue.advance_by(Nanos(300 * MS));
    assert_eq!(venue.answer(1).header.reason, Reason::MinTokenNotReached);
    // An unknown source never will.
    let unknown = token_of(&[(9, 1, 1, 1)]);
    ask_at_least(&mut venue, 9_000_000, &unknown);
    assert_eq!(venue.answer(1).header.reason, Reason::MinTokenNotReached);
}

#[test]
fn a_minimum_that_is_no_token_of_the_reader_is_refused_by_the_router() {
    let (mut venue, min) = lagging();
    let mut forged = min.clone();
    forged[40] ^= 1;
    let of_firm = FetchOrders { firm_id: FirmId(1), ..fetch() };
    let others = venue.fetch(&of_firm, &[]).token;
    for min in [forged, others] {
        ask_at_least(&mut venue, 1_000_000, &min);
        let answer = venue.answer(1);
        assert_eq!((answer.header.reason, answer.token.len()), (Reason::MinTokenInvalid, 0));
    }
}

#[test]
fn a_question_that_is_taken_back_takes_back_what_was_asked_for_it() {
    let mut venue = replicated(2);
    let token = venue.fetch_all(&fetch(), &[]).1;
    venue.router.drop_connection(9, &mut venue.local);
    assert_eq!(venue.ask(1, &fetch(), &token), FetchOutcome::Accepted);
    venue.settle();
    assert_eq!((venue.router.reader_count(), asked(&venue).iter().sum::<u32>()), (1, 1));
    let FetchOrders { correlation_id, session_id, .. } = fetch();
    let its = CancelFetch { correlation_id, session_id };
    let another = CancelFetch { correlation_id: correlation_id + 1, ..its };
    let anothers = CancelFetch { session_id: SessionId(session_id.0 + 1), ..its };
    for (connection, cancel) in [(1, another), (1, anothers), (2, its)] {
        venue.router.cancel(connection, &cancel, &mut venue.local);
        assert_eq!(venue.router.reader_count(), 1);
    }
    venue.router.cancel(1, &its, &mut venue.local);
    assert_eq!((venue.router.reader_count(), asked(&venue).iter().sum::<u32>()), (0, 0));
    new(&mut venue, 1, 3);
    venue.feed_all();
    venue.settle();
    assert!(venue.answers(1).is_empty());
}
