//! Backends as on other hosts: they send only answers, under the rights of their own session.

use weir_delivery::router::{BackendFault, BackendState, Health};
use weir_delivery::stream::{SourceStream, Window};
use weir_delivery::{
    BackendId, BackendInfo, BackendPort, BackendRequest, BackendRole, Desk, DeskConfig,
    Entitlement, FetchOutcome, OrderStore, Question, Router, RouterConfig, StoreConfig,
};
use weir_types::{
    BatchNo, ChangeId, Epoch, FirmId, Nanos, OrdStatus, OrderId, PartitionId, Reason, Rec, Seq,
    SessionId, SourceLog, Switch,
};
use weir_wire::delivery::{OrderRow, PageFlags};
use weir_wire::dialogue::put_source_batch;
use weir_wire::event::OrderEvent;
use weir_wire::frame::put_frame;
use weir_wire::ingest::{BatchFlags, OpenSource, SourceBatch};

use crate::support::{event, keys};
use crate::venue::{Answer, MS, Sink, fetch, sealer, token_of};

const SOURCE: PartitionId = PartitionId(1);
const OTHER_SOURCE: PartitionId = PartitionId(2);

/// Desks that do not report their progress.
#[derive(Default)]
struct Remote {
    desks: Vec<(BackendId, Desk)>,
    /// Those that do not answer, until they are taken off this list.
    mute: Vec<BackendId>,
    asked_count: u32,
}

impl BackendPort for Remote {
    fn ask(&mut self, ask: &BackendRequest<'_>, now: Nanos) -> FetchOutcome {
        self.asked_count += 1;
        let (_, desk) = self.desks.iter_mut().find(|(id, _)| *id == ask.backend).expect("known");
        let question = Question {
            connection: u64::from(ask.backend.0),
            fetch: ask.fetch,
            token: ask.token,
            min_token: ask.min_token,
            // The session's own rights, regardless of the router's.
            entitlement: Entitlement::all(),
        };
        desk.ask(&question, now)
    }

    fn cancel(&mut self, _backend: BackendId, _correlation_id: u64) {}
}

impl Remote {
    fn pump(&mut self, router: &mut Router, now: Nanos) {
        for (id, taken) in self.pump_any(router, now) {
            assert!(taken.is_ok(), "{id:?}: {taken:?}");
        }
    }

    /// Passes the desks' pages on; returns the router's judgement of each.
    fn pump_any(
        &mut self,
        router: &mut Router,
        now: Nanos,
    ) -> Vec<(BackendId, Result<(), BackendFault>)> {
        let mut judged = Vec::new();
        for (id, desk) in self.desks.iter_mut().filter(|(id, _)| !self.mute.contains(id)) {
            let mut sink = Sink::default();
            while desk.poll(now, &mut sink).has_more {}
            for bytes in sink.out.values() {
                let taken = router.take(*id, bytes, now);
                judged.push((*id, taken.map(|used| assert_eq!(used, bytes.len()))));
            }
        }
        judged
    }
}

/// A master and a replica of one source with this many orders each, in the third epoch.
fn stand(counts: [u64; 2]) -> (Router, Remote) {
    stand_in(counts.map(|count| (count, Epoch(3))))
}

fn stand_in(stores: [(u64, Epoch); 2]) -> (Router, Remote) {
    let mut router = Router::new(RouterConfig::default(), sealer(1));
    let mut remote = Remote::default();
    for (role, (count, epoch)) in
        [BackendRole::Master, BackendRole::Replica].into_iter().zip(stores)
    {
        let store = OrderStore::new(StoreConfig::new(SOURCE, epoch));
        feed_to(add(&mut router, &mut remote, role, store), count);
    }
    (router, remote)
}

/// Two sources in the third epoch, with a master and this many orders each.
fn stand_of_two_sources(counts: [u64; 2]) -> (Router, Remote) {
    let mut router = Router::new(RouterConfig::default(), sealer(1));
    let mut remote = Remote::default();
    for (source, count) in [SOURCE, OTHER_SOURCE].into_iter().zip(counts) {
        let store = OrderStore::new(StoreConfig::new(source, Epoch(3)));
        feed_to(add(&mut router, &mut remote, BackendRole::Master, store), count);
    }
    (router, remote)
}

/// A master and a replica of one source, of these logs, with this many orders each.
fn stand_of_logs(stores: [(u64, SourceLog); 2]) -> (Router, Remote) {
    let (router, mut remote) = stand(stores.map(|(count, _)| count));
    for ((_, desk), (_, log)) in remote.desks.iter_mut().zip(stores) {
        desk.store_mut().set_log(log);
    }
    (router, remote)
}

/// Adds a backend and returns its desk.
fn add<'a>(
    router: &mut Router,
    remote: &'a mut Remote,
    role: BackendRole,
    store: OrderStore,
) -> &'a mut Desk {
    let entitlement = Some(Entitlement::all());
    let is_indexed = role == BackendRole::Master;
    let info = BackendInfo { source: store.source(), role, is_indexed, entitlement };
    let id = router.add_backend(info).expect("few sources");
    router.backend_up(id);
    let desk = Desk::new(DeskConfig::default(), store, sealer(id.0 + 2));
    remote.desks.push((id, desk));
    &mut remote.desks.last_mut().expect("just added").1
}

/// Feeds a desk orders from number 1 to `count`.
fn feed_to(desk: &mut Desk, count: u64) {
    (1..=count).for_each(|number| feed(desk, number));
}

/// Feeds a desk its order of this number.
fn feed(desk: &mut Desk, number: u64) {
    let firm = 1 + (number % 2) as u32;
    let order = event(number, number, keys(firm, 1, 1), OrdStatus::New);
    let partition_id = desk.store().source();
    let order_id = OrderId::new(partition_id, order.rec);
    let _ = desk.ingest(&OrderEvent { partition_id, order_id, ..order }).expect("in order");
}

fn states(router: &Router) -> Vec<BackendState> {
    router.backends().map(|(_, state)| state).collect()
}

#[test]
fn a_probe_tells_how_far_a_backend_is_whatever_readers_have_seen_elsewhere() {
    let (mut router, mut remote) = stand([9, 4]);
    let now = Nanos(MS);
    for id in [BackendId(0), BackendId(1)] {
        router.probe(id, now, &mut remote);
    }
    remote.pump(&mut router, now);
    let far: Vec<_> = states(&router).iter().map(|s| (s.epoch, s.head.seq.0, s.lag)).collect();
    assert_eq!(far, [(Some(Epoch(3)), 9, 0), (Some(Epoch(3)), 4, 5)]);
}

#[test]
fn a_backend_is_probed_once_at_a_time_and_put_aside_when_it_does_not_answer() {
    let (mut router, mut remote) = stand([1, 1]);
    remote.mute = vec![BackendId(0)];
    router.probe(BackendId(0), Nanos(MS), &mut remote);
    router.probe(BackendId(0), Nanos(2 * MS), &mut remote);
    remote.pump(&mut router, Nanos(2 * MS));
    assert_eq!((remote.asked_count, states(&router)[0].health), (1, Health::Up));
    let grace = RouterConfig::default().answer_grace.0;
    router.probe(BackendId(0), Nanos(grace + 2 * MS), &mut remote);
    let state = states(&router)[0];
    assert_eq!((state.health, state.last_fault), (Health::Aside, Some(BackendFault::Silent)));
    // A backend that is set aside gets no probe.
    router.probe(BackendId(0), Nanos(grace + 3 * MS), &mut remote);
    assert_eq!(remote.asked_count, 1);
}

#[test]
fn a_probe_that_is_refused_puts_its_backend_aside() {
    let (mut router, mut remote) = stand([1, 1]);
    let limits = DeskConfig { readers_max: 0, ..DeskConfig::default() };
    let store = OrderStore::new(StoreConfig::new(SOURCE, Epoch(3)));
    remote.desks[0].1 = Desk::new(limits, store, sealer(9));
    router.probe(BackendId(0), Nanos(MS), &mut remote);
    let fault = states(&router)[0].last_fault;
    assert_eq!(fault, Some(BackendFault::Refused(Reason::Overloaded)));
}

#[test]
fn a_page_that_has_all_tells_how_far_its_backend_is() {
    let (mut router, mut remote) = stand([7, 7]);
    let (now, mut sink) = (Nanos(MS), Sink::default());
    let (fetch, entitlement) = (fetch(), Entitlement::all());
    let question =
        Question { connection: 1, fetch: &fetch, token: &[], min_token: &[], entitlement };
    assert_eq!(router.ask(&question, now), FetchOutcome::Accepted);
    let _ = router.poll(now, &mut remote, &mut sink);
    remote.pump(&mut router, now);
    let heads: Vec<_> = states(&router).iter().map(|state| state.head.seq.0).collect();
    assert_eq!(heads.iter().max(), Some(&7), "{heads:?}");
    let _ = router.poll(now, &mut remote, &mut sink);
    assert!(!sink.out.is_empty(), "and the reader has its page");
}

/// Another exchange's node, listed as a replica: the same source number, epoch and places.
#[test]
pub(crate) fn a_replica_of_another_log_is_set_aside_until_it_is_of_the_masters() {
    let (own, other) = (SourceLog(7), SourceLog(8));
    let (mut router, mut remote) = stand_of_logs([(4, own), (6, other)]);
    // The replica answers first.
    for id in [BackendId(1), BackendId(0)] {
        router.probe(id, Nanos(MS), &mut remote);
        let _ = remote.pump_any(&mut router, Nanos(MS));
    }
    let mut now = Nanos(2 * MS);
    for round in 0..3 {
        router.probe(BackendId(1), now, &mut remote);
        let judged = remote.pump_any(&mut router, now);
        assert_eq!(judged, [(BackendId(1), Err(BackendFault::OtherLog))], "{round}");
        let state = states(&router)[1];
        assert_eq!((state.health, state.last_fault), (Health::Aside, Some(BackendFault::OtherLog)));
        assert_eq!(recs_of(&mut router, &mut remote, now), [1, 2, 3, 4]);
        now = Nanos(now.0 + RouterConfig::default().aside_max.0);
        let _ = router.poll(now, &mut remote, &mut Sink::default());
        assert_eq!(states(&router)[1].health, Health::Probing);
    }
    // A reader may be the first to ask it again, and gets nothing of it.
    assert_eq!(recs_of(&mut router, &mut remote, now), [1, 2, 3, 4]);
    assert_eq!(states(&router)[0].last_fault, None);
    // Now it follows the master.
    remote.desks[1].1.store_mut().set_log(own);
    now = Nanos(now.0 + RouterConfig::default().aside_max.0);
    let _ = router.poll(now, &mut remote, &mut Sink::default());
    router.probe(BackendId(1), now, &mut remote);
    remote.pump(&mut router, now);
    assert_eq!(states(&router)[1].health, Health::Up);
}

/// Returns the records of the first page of a new reader of everything.
fn recs_of(router: &mut Router, remote: &mut Remote, start: Nanos) -> Vec<u64> {
    let (mut sink, fetch, entitlement) = (Sink::default(), fetch(), Entitlement::all());
    let question =
        Question { connection: 1, fetch: &fetch, token: &[], min_token: &[], entitlement };
    assert_eq!(router.ask(&question, start), FetchOutcome::Accepted);
    for round in 0..10 {
        let now = Nanos(start.0 + MS * round);
        let _ = router.poll(now, remote, &mut sink);
        let _ = remote.pump_any(router, now);
    }
    let answers = crate::venue::answers(&sink.out.remove(&1).unwrap_or_default());
    let [answer] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(answer.header.reason, Reason::None);
    answer.rows.iter().map(|row| row.rec.0).collect()
}

#[test]
pub(crate) fn stores_of_no_log_are_not_compared() {
    for logs in [[SourceLog(7), SourceLog::NONE], [SourceLog::NONE, SourceLog(8)]] {
        let (mut router, mut remote) = stand_of_logs([(4, logs[0]), (4, logs[1])]);
        for id in [BackendId(0), BackendId(1)] {
            router.probe(id, Nanos(MS), &mut remote);
        }
        remote.pump(&mut router, Nanos(MS));
        assert!(states(&router).iter().all(|state| state.health == Health::Up), "{logs:?}");
    }
}

/// A router that knows one store alone takes its log for the source's; the master corrects it.
#[test]
pub(crate) fn a_reader_that_another_exchange_served_begins_again_when_the_master_is_heard_of() {
    let (mut router, mut remote) = stand_of_logs([(4, SourceLog(7)), (6, SourceLog(8))]);
    router.backend_down(BackendId(0));
    let first = answers(&mut router, &mut remote, Entitlement::all(), &[]);
    assert_eq!(first[0].rows.len(), 6, "its source's only store");
    router.backend_up(BackendId(0));
    router.probe(BackendId(0), Nanos(MS), &mut remote);
    remote.pump(&mut router, Nanos(MS));
    router.drop_connection(1, &mut remote);
    remote.desks.iter_mut().for_each(|(_, desk)| desk.drop_connection(1));
    let next = answers(&mut router, &mut remote, Entitlement::all(), &first[0].token);
    assert_eq!(next[0].header.reason, Reason::ResyncEpoch);
}

/// Replicas behind a router that has no master may all go over to a new exchange.
#[test]
pub(crate) fn replicas_without_a_master_take_the_router_over_to_a_new_log() {
    let (old, new) = (SourceLog(7), SourceLog(8));
    let mut router = Router::new(RouterConfig::default(), sealer(1));
    let mut remote = Remote::default();
    for _ in 0..2 {
        let store = OrderStore::new(StoreConfig::new(SOURCE, Epoch(3)));
        let desk = add(&mut router, &mut remote, BackendRole::Replica, store);
        desk.store_mut().set_log(old);
        feed_to(desk, 4);
    }
    let mut now = Nanos(MS);
    let probe = |router: &mut Router, remote: &mut Remote, id, now| {
        let _ = router.poll(now, remote, &mut Sink::default());
        router.probe(id, now, remote);
        remote.pump_any(router, now)
    };
    for id in [BackendId(0), BackendId(1)] {
        assert!(probe(&mut router, &mut remote, id, now).iter().all(|(_, taken)| taken.is_ok()));
    }
    let first = answers(&mut router, &mut remote, Entitlement::all(), &[]);
    assert_eq!(first[0].rows.len(), 4);
    // One that goes over is put aside while the other has the log, and is the source's when both
    // have gone.
    remote.desks[0].1.store_mut().set_log(new);
    let judged = probe(&mut router, &mut remote, BackendId(0), now);
    assert!(judged.iter().any(|(_, taken)| *taken == Err(BackendFault::OtherLog)), "{judged:?}");
    remote.desks[1].1.store_mut().set_log(new);
    now = Nanos(now.0 + RouterConfig::default().aside_max.0);
    let judged = probe(&mut router, &mut remote, BackendId(1), now);
    assert!(judged.iter().all(|(_, taken)| taken.is_ok()), "{judged:?}");
    now = Nanos(now.0 + RouterConfig::default().aside_max.0);
    probe(&mut router, &mut remote, BackendId(0), now);
    assert!(states(&router).iter().all(|state| state.health == Health::Up));
}

/// Fetches as `entitlement` from `token` and runs everything that needs no time. A store of another
/// log than the master's may be asked in vain before.
fn answers(
    router: &mut Router,
    remote: &mut Remote,
    entitlement: Entitlement,
    token: &[u8],
) -> Vec<Answer> {
    let (now, mut sink, fetch) = (Nanos(MS), Sink::default(), fetch());
    let question = Question { connection: 1, fetch: &fetch, token, min_token: &[], entitlement };
    assert_eq!(router.ask(&question, now), FetchOutcome::Accepted);
    for _ in 0..10 {
        let _ = router.poll(now, remote, &mut sink);
        for (id, taken) in remote.pump_any(router, now) {
            let is_expected = matches!(taken, Ok(()) | Err(BackendFault::OtherLog));
            assert!(is_expected, "{id:?}: {taken:?}");
        }
    }
    let _ = router.poll(now, remote, &mut sink);
    crate::venue::answers(&sink.out.remove(&1).unwrap_or_default())
}

#[test]
fn a_firms_reader_is_served_by_the_routers_own_rights_and_sees_its_own() {
    let (mut router, mut remote) = stand([6, 6]);
    let firm = Entitlement::firm(FirmId(1));
    let answers = answers(&mut router, &mut remote, firm, &[]);
    let [answer] = &answers[..] else { panic!("{answers:?}") };
    let firms: Vec<_> = answer.rows.iter().map(|row| row.firm_id).collect();
    assert_eq!(firms, [FirmId(1); 3]);
    assert!(states(&router).iter().all(|state| state.last_fault.is_none()));
}

#[test]
fn a_replica_that_has_not_heard_of_an_epoch_does_not_send_a_reader_of_it_back() {
    // The router does not know the epochs of its stores yet.
    let (mut router, mut remote) = stand_in([(6, Epoch(3)), (6, Epoch(2))]);
    let token = token_of(&[(SOURCE.0, 3, 4, 4)]);
    let answers = answers(&mut router, &mut remote, Entitlement::all(), &token);
    let [answer] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((answer.header.reason, answer.rows.len()), (Reason::None, 2));
    assert_eq!(states(&router)[1].epoch, Some(Epoch(2)), "the replica was asked");
}

/// A store that ends a full resend without tombstones is complete beyond its newest change.
#[test]
fn neither_a_probe_nor_a_newcomers_page_takes_back_that_a_backend_is_complete() {
    let mut router = Router::new(RouterConfig::default(), sealer(1));
    let mut remote = Remote::default();
    let mut store = OrderStore::new(StoreConfig::new(SOURCE, Epoch::NONE));
    resend_nothing(&mut store);
    add(&mut router, &mut remote, BackendRole::Master, store);
    let token = token_of(&[(SOURCE.0, 3, 1, 5)]);
    let is_online = |answers: Vec<Answer>| {
        let [answer] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!(answer.header.reason, Reason::None);
        answer.header.flags.contains(PageFlags::ONLINE)
    };
    for (start, has_probe) in [(MS, true), (20_000 * MS, false)] {
        let (start, later) = (Nanos(start), Nanos(start + 10_000 * MS));
        assert!(is_online(answers_from(&mut router, &mut remote, &token, start)));
        match has_probe {
            true => {
                router.probe(BackendId(0), later, &mut remote);
                remote.pump(&mut router, Nanos(later.0 + MS));
            }
            false => assert!(is_online(answers_from(&mut router, &mut remote, &[], later))),
        }
        let state = states(&router)[0];
        let place = ChangeId::new(Seq(1), Rec(5));
        assert_eq!((state.epoch, state.head), (Some(Epoch(3)), place), "{has_probe}");
    }
}

/// Fetches from `token` and runs until the answers that have no rows are due too.
fn answers_from(
    router: &mut Router,
    remote: &mut Remote,
    token: &[u8],
    start: Nanos,
) -> Vec<Answer> {
    let (mut sink, fetch, entitlement) = (Sink::default(), fetch(), Entitlement::all());
    let question = Question { connection: 1, fetch: &fetch, token, min_token: &[], entitlement };
    assert_eq!(router.ask(&question, start), FetchOutcome::Accepted);
    for round in 0..10 {
        let now = Nanos(start.0 + 500 * MS * round);
        let _ = router.poll(now, remote, &mut sink);
        remote.pump(router, now);
    }
    crate::venue::answers(&sink.out.remove(&1).unwrap_or_default())
}

/// Opens a store's source in the third epoch with a full resend of no orders.
fn resend_nothing(store: &mut OrderStore) {
    let open = OpenSource {
        valid_seq: Seq(0),
        valid_rec: Rec(0),
        session_id: SessionId(1),
        epoch: Epoch(3),
        valid_epoch: Epoch::NONE,
        source_id: SOURCE,
        full_resend: Switch::On,
    };
    let batch = SourceBatch {
        batch_no: BatchNo(1),
        sending_time: Nanos(1),
        session_id: SessionId(1),
        epoch: Epoch(3),
        source_id: SOURCE,
        flags: BatchFlags::RESEND_BEGIN.with(BatchFlags::RESEND_END),
    };
    let (mut opening, mut entry) = (Vec::new(), Vec::new());
    put_frame(&open, &mut opening);
    put_source_batch(&batch, std::iter::empty::<(OrderRow, &[u8])>(), &mut entry);
    let mut stream = SourceStream::new(SOURCE, Window { batches: 1, bytes: 1_000 });
    for entry in [opening, entry] {
        stream.replay(&entry, store).expect("it follows");
    }
    let _ = stream.end_replay(store);
}

/// A reader that has read at a node knows more of a source than the router's last probe has told:
/// the source's store has to be asked before its state is told.
#[test]
fn a_source_that_was_probed_before_the_readers_place_is_neither_away_nor_left_out_of_online() {
    let (mut router, mut remote) = stand_of_two_sources([4, 4]);
    let (now, mut sink, fetch) = (Nanos(MS), Sink::default(), fetch());
    for id in [BackendId(0), BackendId(1)] {
        router.probe(id, now, &mut remote);
    }
    remote.pump(&mut router, now);
    [5, 6].into_iter().for_each(|number| feed(&mut remote.desks[0].1, number));
    let token = token_of(&[(SOURCE.0, 3, 5, 5), (OTHER_SOURCE.0, 3, 3, 3)]);
    let entitlement = Entitlement::all();
    let question =
        Question { connection: 1, fetch: &fetch, token: &token, min_token: &[], entitlement };
    assert_eq!(router.ask(&question, now), FetchOutcome::Accepted);
    remote.mute = vec![BackendId(0)];
    let _ = router.poll(now, &mut remote, &mut sink);
    remote.pump(&mut router, now);
    let _ = router.poll(now, &mut remote, &mut sink);
    let later = Nanos(now.0 + u64::from(fetch.wait_max_us) * 1_000);
    let _ = router.poll(later, &mut remote, &mut sink);
    let pages = crate::venue::answers(&sink.out.remove(&1).expect("a page"));
    let [page] = &pages[..] else { panic!("{pages:?}") };
    assert_eq!(page.recs(), [(OTHER_SOURCE.0, 4)]);
    assert!(!page.is(PageFlags::ONLINE), "order 6 of the first source is still to come");
    assert!(!page.is(PageFlags::SOURCE_AWAY), "its store is up and has not been heard yet");

    remote.mute.clear();
    let next = answers(&mut router, &mut remote, entitlement, &page.token);
    let [next] = &next[..] else { panic!("{next:?}") };
    assert_eq!((next.recs(), next.is(PageFlags::ONLINE)), (vec![(SOURCE.0, 6)], true));
}
