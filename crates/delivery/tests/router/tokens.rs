//! The validity of tokens, and the outcome for invalid ones.

use weir_delivery::{
    Entitlement, FetchOutcome, Filter, Kinds, NonceCounter, Question, Router, RouterConfig, Scope,
    SourceCursor, TokenKey, TokenSealer,
};
use weir_types::{
    ChangeId, Epoch, FirmId, Nanos, OrdStatus, PartitionId, Reason, Rec, Seq, SourceStatus,
};
use weir_wire::delivery::{FetchOrders, PageFlags};

use crate::support::keys;
use crate::venue::{Venue, answers, change_id_in, cursors, fetch, sealer, token_of};

fn new(venue: &mut Venue, source: u16, rec: u64) {
    venue.say(source, rec, keys(1 + (rec % 2) as u32, 1, 1), OrdStatus::New);
}

fn with_orders(sources: u16, count: u64) -> Venue {
    let mut venue = Venue::with_sources(sources);
    for source in 1..=sources {
        (1..=count).for_each(|rec| new(&mut venue, source, rec));
    }
    venue.feed_all();
    venue
}

/// Replaces the router by another over the same stores, as after a restart.
fn restart(venue: &mut Venue) {
    venue.router = Router::new(RouterConfig::default(), sealer(77));
    for index in 0..venue.followers.len() {
        let follower = venue.followers[index].clone();
        assert_eq!(venue.router.add_backend(follower.info), Ok(follower.id));
        venue.router.backend_up(follower.id);
    }
}

#[test]
fn a_token_is_good_at_another_router() {
    let mut venue = with_orders(3, 2);
    let token = venue.fetch(&fetch(), &[]).token;
    restart(&mut venue);
    new(&mut venue, 2, 3);
    venue.feed_all();
    let answer = venue.fetch(&fetch(), &token);
    assert_eq!((answer.header.reason, answer.recs()), (Reason::None, vec![(2, 3)]));
}

#[test]
fn a_routers_token_is_good_at_a_store_for_its_own_part_and_comes_back_whole() {
    let mut venue = with_orders(3, 2);
    let token = venue.fetch(&fetch(), &[]).token;
    new(&mut venue, 2, 3);
    new(&mut venue, 3, 3);
    venue.feed_all();
    let (id, now) = (venue.followers[1].id, venue.now);
    let desk = venue.local.get_mut(id).unwrap();
    let fetch = fetch();
    let entitlement = Entitlement::all();
    let question =
        Question { connection: 1, fetch: &fetch, token: &token, min_token: &[], entitlement };
    assert_eq!(desk.ask(&question, now), FetchOutcome::Accepted);
    let _ = desk.poll(now, &mut venue.sink);
    let direct = answers(&venue.sink.out.remove(&1).unwrap()).remove(0);
    assert_eq!(direct.recs(), [(2, 3)]);
    assert_eq!(cursors(&direct.token).len(), 3);
    let answer = venue.fetch(&fetch, &direct.token);
    assert_eq!(answer.recs(), [(3, 3)], "what was read there is not read again here");
}

#[test]
fn a_stores_token_is_good_at_a_router_which_reads_the_other_sources_from_their_beginning() {
    let mut venue = with_orders(2, 2);
    let rows = venue.fetch_all(&fetch(), &token_of(&[(2, 1, 1, 1)])).0;
    let recs: Vec<_> = rows.iter().map(|r| (r.order_id.partition().0, r.rec.0)).collect();
    assert_eq!(recs, [(1, 1), (1, 2), (2, 2)]);
}

#[test]
fn a_source_that_appears_is_read_from_its_beginning_by_tokens_and_by_readers_that_wait() {
    let mut venue = with_orders(2, 2);
    let token = venue.fetch(&fetch(), &[]).token;
    assert_eq!(venue.ask(1, &fetch(), &token), FetchOutcome::Accepted);
    venue.settle();
    venue.add_master(7);
    new(&mut venue, 7, 1);
    venue.feed_all();
    venue.settle();
    let waiting = venue.answer(1);
    assert_eq!((waiting.header.reason, waiting.recs()), (Reason::None, vec![(7, 1)]));
    assert_eq!(change_id_in(&waiting.token, 7), ChangeId::new(Seq(1), Rec(1)));
    let later = venue.fetch(&fetch(), &token);
    assert_eq!((later.header.reason, later.recs()), (Reason::None, vec![(7, 1)]));
}

#[test]
fn a_source_that_is_not_known_here_is_said_to_be_away_and_its_place_is_kept() {
    let mut venue = with_orders(2, 2);
    let token = token_of(&[(1, 1, 2, 2), (2, 1, 1, 1), (9, 4, 70, 8)]);
    let answer = venue.fetch(&fetch(), &token);
    assert_eq!((answer.header.reason, answer.recs()), (Reason::None, vec![(2, 2)]));
    assert!(answer.is(PageFlags::SOURCE_AWAY) && answer.is(PageFlags::ONLINE));
    assert_eq!(answer.sources.last(), Some(&(9, SourceStatus::Unknown)));
    assert_eq!(change_id_in(&answer.token, 9), ChangeId::new(Seq(70), Rec(8)));

    venue.add_master(9);
    let carried =
        cursors(&venue.fetch(&FetchOrders { rows_min: 0, ..fetch() }, &answer.token).token);
    let nine = carried.iter().find(|at| at.source == PartitionId(9)).unwrap();
    assert_eq!(
        nine.change_id,
        ChangeId::new(Seq(70), Rec(8)),
        "its new backend has not got there yet"
    );
}

#[test]
fn a_source_that_moves_to_another_host_changes_nothing_for_its_readers() {
    let mut venue = with_orders(2, 2);
    let token = venue.fetch(&fetch(), &[]).token;
    assert_eq!(venue.ask(1, &fetch(), &token), FetchOutcome::Accepted);
    venue.settle();
    venue.add_replica(2, Kinds::FULL);
    venue.feed_all();
    let old = venue.followers[1].id;
    venue.router.remove_backend(old);
    venue.local.remove(old);
    venue.followers.remove(1);
    venue.settle();
    new(&mut venue, 2, 3);
    venue.feed_all();
    venue.settle();
    let answer = venue.answer(1);
    assert_eq!((answer.header.reason, answer.recs()), (Reason::None, vec![(2, 3)]));
    assert!(!answer.is(PageFlags::SOURCE_AWAY));
}

#[test]
fn a_retired_source_is_dropped_for_who_has_all_of_it_and_refused_for_who_has_not() {
    let mut venue = with_orders(2, 2);
    let all = venue.fetch(&fetch(), &[]).token;
    let behind = token_of(&[(1, 1, 2, 2), (2, 1, 1, 1)]);
    for (connection, token) in [(1, &all), (2, &behind)] {
        let patient = FetchOrders { rows_min: 5, wait_max_us: 9_000_000, ..fetch() };
        assert_eq!(venue.ask(connection, &patient, token), FetchOutcome::Accepted);
    }
    venue.settle();
    let change_id = ChangeId::new(Seq(2), Rec(2));
    let last = SourceCursor::new(PartitionId(2), Epoch(1), change_id);
    assert!(!venue.router.retire_source(last), "it has a backend");
    venue.stop(1);
    venue.router.remove_backend(venue.followers[1].id);
    assert!(venue.router.retire_source(last));
    venue.settle();
    assert_eq!(venue.answer(2).header.reason, Reason::ResyncFloor);
    let fresh = venue.fetch(&fetch(), &all);
    assert_eq!(fresh.header.reason, Reason::None);
    assert!(!fresh.is(PageFlags::SOURCE_AWAY));
    assert_eq!(cursors(&fresh.token).len(), 1);
    assert_eq!(venue.fetch(&fetch(), &behind).header.reason, Reason::ResyncFloor);
    assert_eq!(venue.fetch(&fetch(), &token_of(&[(2, 1, 0, 0)])).header.reason, Reason::None);
}

#[test]
fn what_is_no_token_of_this_cluster_and_scope_is_refused_with_its_reason_and_a_token_to_start_with()
{
    let mut venue = with_orders(2, 2);
    let token = venue.fetch(&fetch(), &[]).token;
    let mut forged = token.clone();
    forged[40] ^= 1;
    let scope = Scope::new(Filter::ALL, Entitlement::all()).unwrap();
    let mut elsewhere = Vec::new();
    TokenSealer::new(TokenKey::new(1, &[6; 32]), NonceCounter::new(1, Nanos(1))).seal(
        &scope,
        &cursors(&token),
        &mut elsewhere,
    );
    let twice = token_of(&[(1, 1, 1, 1), (1, 1, 2, 2)]);
    let filtered = FetchOrders { firm_id: FirmId(1), ..fetch() };
    let cases = [
        (fetch(), vec![1, 2, 3], Reason::ResyncToken),
        (fetch(), token[..token.len() - 1].to_vec(), Reason::ResyncToken),
        (fetch(), forged, Reason::ResyncToken),
        (fetch(), elsewhere, Reason::ResyncToken),
        (fetch(), twice, Reason::ResyncToken),
        (filtered, token.clone(), Reason::ResyncFilter),
    ];
    for (question, token, reason) in cases {
        let refused = venue.fetch(&question, &token);
        assert_eq!((refused.header.reason, refused.rows.len()), (reason, 0));
        let again = venue.fetch(&question, &refused.token);
        assert_eq!(again.header.reason, Reason::None);
        assert_eq!(again.rows.len(), if question.firm_id.is_none() { 4 } else { 2 });
    }
}

#[test]
fn a_firm_that_names_another_is_told_that_it_may_not_and_gets_its_own_otherwise() {
    let mut venue = with_orders(2, 4);
    let entitlement = Entitlement::firm(FirmId(1));
    for (firm_id, want) in [(FirmId(2), None), (FirmId::NONE, Some(4)), (FirmId(1), Some(4))] {
        let fetch = FetchOrders { firm_id, ..fetch() };
        let question =
            Question { connection: 1, fetch: &fetch, token: &[], min_token: &[], entitlement };
        assert_eq!(venue.router.ask(&question, venue.now), FetchOutcome::Accepted);
        venue.settle();
        let answer = venue.answer(1);
        match want {
            None => assert_eq!((answer.header.reason, answer.token), (Reason::NotEntitled, vec![])),
            Some(count) => {
                assert_eq!(answer.rows.len(), count);
                assert!(answer.rows.iter().all(|row| row.firm_id == FirmId(1)));
            }
        }
        venue.router.drop_connection(1, &mut venue.local);
    }
}

#[test]
fn a_question_for_one_source_moves_only_there_and_keeps_the_places_in_the_others() {
    let mut venue = with_orders(3, 2);
    let token = token_of(&[(1, 1, 1, 1), (2, 1, 1, 1), (3, 1, 1, 1)]);
    let question = FetchOrders { source_id: PartitionId(2), ..fetch() };
    let one = venue.fetch(&question, &token);
    assert_eq!((one.recs(), one.is(PageFlags::SOURCE_AWAY)), (vec![(2, 2)], false));
    let rest = venue.fetch_all(&fetch(), &one.token).0;
    let recs: Vec<_> = rest.iter().map(|r| (r.order_id.partition().0, r.rec.0)).collect();
    assert_eq!(recs, [(1, 2), (3, 2)]);
}

/// A source's epoch ends: its part of a token is honoured up to the last valid place; beyond it the
/// reader starts again. Trap (e): a source that comes back without its last changes must not be
/// followed from a place that now has another meaning.
#[test]
fn trap_e_a_place_beyond_its_epochs_end_is_refused_and_one_before_it_is_honoured() {
    let mut venue = with_orders(2, 4);
    let beyond = venue.fetch(&fetch(), &[]).token;
    let before = token_of(&[(1, 1, 4, 4), (2, 1, 2, 2)]);
    venue.fail(2, 2);
    venue.feed_all();
    (3..=6).for_each(|rec| new(&mut venue, 2, rec));
    venue.feed_all();
    venue.settle();
    let honoured = venue.fetch(&fetch(), &before);
    assert_eq!(honoured.header.reason, Reason::None);
    assert_eq!(honoured.recs(), [(2, 3), (2, 4), (2, 5), (2, 6)]);
    let refused = venue.fetch(&fetch(), &beyond);
    assert_eq!((refused.header.reason, refused.rows.len()), (Reason::ResyncEpoch, 0));
    let again = venue.fetch_all(&fetch(), &refused.token).0;
    assert_eq!(again.len(), 4 + 6, "from the beginning of every source");
}

/// Rows of an epoch wait for their reader's connection, or for more rows, when the router learns
/// that the epoch has ended: they are not served.
#[test]
fn rows_of_an_ended_epoch_that_were_not_given_are_dropped() {
    let mut venue = with_orders(2, 2);
    let token = venue.fetch(&fetch(), &[]).token;
    let question = FetchOrders { rows_min: 5, wait_max_us: 1_000_000, ..fetch() };
    assert_eq!(venue.ask(1, &question, &token), FetchOutcome::Accepted);
    venue.settle();
    (3..=4).for_each(|rec| new(&mut venue, 2, rec));
    venue.feed_all();
    venue.settle();
    assert!(venue.answers(1).is_empty());
    venue.fail(2, 1);
    venue.say(2, 4, keys(1, 1, 1), OrdStatus::PartiallyFilled);
    venue.feed_all();
    venue.advance_by(Nanos(2_000_000_000));
    let answer = venue.answer(1);
    assert_eq!((answer.header.reason, answer.recs()), (Reason::None, vec![(2, 3), (2, 4)]));
    assert_eq!(answer.rows[1].ord_status, OrdStatus::PartiallyFilled);
    assert!(venue.router.figures().disowned_row_count > 0);
}
