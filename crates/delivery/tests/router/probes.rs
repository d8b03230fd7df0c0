//! How a router learns how far backends are that only answer questions, as those on other hosts.

use weir_delivery::router::{BackendFault, BackendState, Health};
use weir_delivery::{
    Ask, Asked, BackendId, BackendInfo, BackendPort, BackendRole, Desk, DeskConfig, Entitlement,
    OrderStore, Question, Router, RouterConfig, StoreConfig,
};
use weir_types::{Epoch, Nanos, OrdStatus, PartitionId, Reason};

use crate::support::{event, keys};
use crate::venue::{MS, Sink, fetch, sealer};

const SOURCE: PartitionId = PartitionId(1);

/// Desks that say nothing of themselves, and may say nothing at all.
#[derive(Default)]
struct Remote {
    desks: Vec<(BackendId, Desk)>,
    is_mute: bool,
    asked_count: u32,
}

impl BackendPort for Remote {
    fn ask(&mut self, ask: &Ask<'_>, now: Nanos) -> Asked {
        self.asked_count += 1;
        let (_, desk) = self.desks.iter_mut().find(|(id, _)| *id == ask.backend).expect("known");
        let question = Question {
            connection: u64::from(ask.backend.0),
            fetch: ask.fetch,
            token: ask.token,
            entitlement: ask.entitlement,
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

/// A master and a replica of one source, asked by rights of the router's own.
fn stand(counts: [u64; 2]) -> (Router, Remote) {
    let mut router = Router::new(RouterConfig::default(), sealer(1));
    let mut remote = Remote::default();
    for (index, count) in counts.into_iter().enumerate() {
        let role = if index == 0 { BackendRole::Master } else { BackendRole::Replica };
        let entitlement = Some(Entitlement::all());
        let info = BackendInfo { source: SOURCE, role, is_indexed: true, entitlement };
        let id = router.add_backend(info).expect("one source");
        let store = OrderStore::new(StoreConfig::new(SOURCE, Epoch(3)));
        let maker = u32::try_from(index).unwrap() + 2;
        let mut desk = Desk::new(DeskConfig::default(), store, sealer(maker));
        for number in 1..=count {
            let _ = desk.ingest(&event(number, number, keys(1, 1, 1), OrdStatus::New)).unwrap();
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
    // Who is put aside is not asked at all.
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
    let question = Question { connection: 1, fetch: &fetch, token: &[], entitlement };
    assert_eq!(router.ask(&question, now), Asked::Accepted);
    let _ = router.poll(now, &mut remote, &mut sink);
    remote.pump(&mut router, now);
    let heads: Vec<_> = states(&router).iter().map(|state| state.head.seq.0).collect();
    assert_eq!(heads.iter().max(), Some(&7), "{heads:?}");
    let _ = router.poll(now, &mut remote, &mut sink);
    assert!(!sink.out.is_empty(), "and the reader has its page");
}
