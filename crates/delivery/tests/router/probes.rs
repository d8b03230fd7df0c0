//! Backends as on other hosts: they send only answers, under the rights of their own session.

use weir_delivery::router::{BackendFault, BackendState, Health};
use weir_delivery::{
    BackendId, BackendInfo, BackendPort, BackendRequest, BackendRole, Desk, DeskConfig,
    Entitlement, FetchOutcome, OrderStore, Question, Router, RouterConfig, StoreConfig,
};
use weir_types::{Epoch, FirmId, Nanos, OrdStatus, PartitionId, Reason};

use crate::support::{event, keys};
use crate::venue::{Answer, MS, Sink, fetch, sealer, token_of};

const SOURCE: PartitionId = PartitionId(1);

/// Desks that do not report their progress, and may not answer at all.
#[derive(Default)]
struct Remote {
    desks: Vec<(BackendId, Desk)>,
    is_mute: bool,
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
        for (id, desk) in &mut self.desks {
            let mut sink = Sink::default();
            while desk.poll(now, &mut sink).has_more {}
            for bytes in sink.out.values().filter(|_| !self.is_mute) {
                assert_eq!(router.take(*id, bytes, now), Ok(bytes.len()));
            }
        }
    }
}

/// A master and a replica of one source with this many orders each, in the third epoch.
fn stand(counts: [u64; 2]) -> (Router, Remote) {
    stand_in(counts.map(|count| (count, Epoch(3))))
}

fn stand_in(stores: [(u64, Epoch); 2]) -> (Router, Remote) {
    let mut router = Router::new(RouterConfig::default(), sealer(1));
    let mut remote = Remote::default();
    for (index, (count, epoch)) in stores.into_iter().enumerate() {
        let role = if index == 0 { BackendRole::Master } else { BackendRole::Replica };
        let entitlement = Some(Entitlement::all());
        let is_indexed = role == BackendRole::Master;
        let info = BackendInfo { source: SOURCE, role, is_indexed, entitlement };
        let id = router.add_backend(info).expect("one source");
        let store = OrderStore::new(StoreConfig::new(SOURCE, epoch));
        let maker = u32::try_from(index).expect("two stores") + 2;
        let mut desk = Desk::new(DeskConfig::default(), store, sealer(maker));
        for number in 1..=count {
            let firm = 1 + (number % 2) as u32;
            let event = event(number, number, keys(firm, 1, 1), OrdStatus::New);
            let _ = desk.ingest(&event).expect("events come in order");
        }
        remote.desks.push((id, desk));
        router.backend_up(id);
    }
    (router, remote)
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
    remote.is_mute = true;
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

/// Fetches as `entitlement` from `token` and runs everything that needs no time.
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
        remote.pump(router, now);
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
