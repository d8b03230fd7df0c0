//! The agent with readers by hand: their ends, their places, and a node that does not answer.

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use weir_door::reader_rings::{GatewayPort, gateway_to_delivery};
use weir_io::SeededRng;
use weir_log::{TailConfig, TailWriter, tail};
use weir_types::{Credential, CredentialKind, FirmId, RequestNo, Role};
use weir_wire::reference::DefineSession;

use super::*;
use crate::http::Unwritten;

const ALICE: SessionId = SessionId(7);
const BOB: SessionId = SessionId(8);
const LIMITS: ReaderLimits = ReaderLimits {
    readers_max: 2,
    session_readers_max: 2,
    idle_max: Duration::from_secs(60),
    entry_max: Duration::from_millis(1),
    answer_max: Duration::from_millis(1),
};

fn key_of(id: SessionId) -> ApiKey {
    ApiKey([id.0 as u8; 32])
}

fn definition(id: SessionId, valid_until: Nanos) -> Definition {
    Definition::DefineSession(DefineSession {
        request_no: RequestNo(1),
        valid_until,
        credential: Credential(*blake3::hash(&key_of(id).0).as_bytes()),
        session_id: SessionId(1),
        defined_session_id: id,
        firm_id: FirmId(3),
        order_rate_max: 0,
        in_flight_max: 4,
        role: Role::Trader,
        credential_kind: CredentialKind::ApiKey,
        live_orders_max: 0,
        fields: 0,
    })
}

/// The agent, and a store that answers nothing.
struct Rig {
    agent: HubAgent,
    hub: Hub,
    _control: TailWriter,
    _store: GatewayPort,
}

impl Rig {
    fn new() -> Rig {
        let (writer, handle) = tail(TailConfig::new(1 << 16, 1));
        let (delivery, store) = gateway_to_delivery(Wake::new(), Wake::new());
        let mut directory = Directory::new(&mut SeededRng::new(1, "keys"));
        for id in [ALICE, BOB] {
            assert_eq!(directory.define(&definition(id, Nanos(0))), None);
        }
        let (agent, hub) = HubAgent::new(HubParts {
            delivery,
            control: EventReader::new(&handle, "no-files".into(), 1),
            instruments: Box::new(|| None),
            directory,
            wake: Wake::new(),
            limits: LIMITS,
        });
        Rig { agent, hub, _control: writer, _store: store }
    }

    fn work(&mut self, now: u64) {
        self.agent.do_work(Nanos(now));
    }

    fn readers(&self) -> u64 {
        self.hub.figures.readers.load(Ordering::Relaxed)
    }

    /// Lets a reader in by an agent that has as long as it takes.
    async fn enter(&mut self, id: SessionId) -> Result<Reader, Reason> {
        let (reply, answer) = oneshot::channel();
        self.hub.send(Request::Enter { session_id: id, key: key_of(id), reply }).await?;
        self.work(1);
        answer.await.expect("the agent answers")
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test);
}

/// A key whose life is shortened ends its readers, whose places are free when they are gone.
fn ended_readers_keep_their_places() {
    run(async {
        let mut rig = Rig::new();
        let readers = [rig.enter(ALICE).await.unwrap(), rig.enter(ALICE).await.unwrap()];
        let shortened = definition(ALICE, Nanos(5));
        let change = rig.agent.directory.define(&shortened).expect("another definition");
        rig.agent.redefine(&change);
        for (now, end) in [(4, None), (5, Some(Reason::KeyExpired))] {
            rig.work(now);
            assert!(readers.iter().all(|reader| reader.end() == end), "at {now}");
            assert_eq!(rig.readers(), 2, "their connections are open");
        }
        assert_eq!(rig.enter(BOB).await.err(), Some(Reason::Overloaded));
        drop(readers);
        assert!(rig.enter(BOB).await.is_ok());
        rig.work(6);
        assert_eq!(rig.readers(), 0);
        assert_eq!(rig.hub.figures.report().keys_ended, 2);
    });
}

#[test]
fn a_reader_ends_with_its_shortened_key_and_has_its_place_until_its_connection_has_ended() {
    ended_readers_keep_their_places();
}

#[cfg(feature = "planted")]
#[test]
fn a_planted_place_that_is_left_with_the_key_is_found() {
    plant::set(Some(Plant::PlaceLeftWithTheKey));
    let is_found = std::panic::catch_unwind(ended_readers_keep_their_places).is_err();
    plant::set(None);
    assert!(is_found);
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_bug_of_a_reader_that_outlives_its_key_is_found() {
    plant::set(Some(Plant::ReaderOutlivesItsKey));
    let is_found = std::panic::catch_unwind(ended_readers_keep_their_places).is_err();
    plant::set(None);
    assert!(is_found);
}

#[test]
fn a_socket_without_a_subscription_is_told_that_it_made_place() {
    run(async {
        let mut rig = Rig::new();
        let (mut idle, other) = (rig.enter(ALICE).await.unwrap(), rig.enter(ALICE).await.unwrap());
        assert_eq!(rig.enter(ALICE).await.err(), Some(Reason::LimitReached));
        assert_eq!(rig.enter(BOB).await.err(), Some(Reason::Overloaded));
        idle.set_idle(true);
        let newcomer = rig.enter(BOB).await.unwrap();
        assert_eq!((idle.end(), other.end()), (Some(Reason::Overloaded), None));
        tokio::select! {
            biased;
            () = idle.is_cut_off() => {}
            () = std::future::ready(()) => panic!("it counts no more, so that no write goes on"),
        }
        drop(idle);
        rig.work(2);
        assert_eq!(rig.readers(), 2);
        drop((other, newcomer));
        let counts = rig.hub.figures.report();
        assert_eq!((counts.sockets_evicted, counts.session_bounded, counts.turned_away), (1, 1, 1));
    });
}

#[test]
fn an_agent_that_does_not_answer_keeps_no_request_and_loses_no_place() {
    run(async {
        let mut rig = Rig::new();
        for _ in 0..2 * LIMITS.readers_max {
            let entered = rig.hub.enter(ALICE, key_of(ALICE)).await;
            assert_eq!(entered.err(), Some(Reason::Overloaded));
        }
        // It works again: those who asked have gone.
        rig.work(1);
        assert_eq!(rig.readers(), 0);
        assert!(rig.enter(ALICE).await.is_ok());
    });
}

#[test]
fn a_query_that_the_store_does_not_answer_is_refused_and_its_place_is_free() {
    run(async {
        let Rig { mut agent, mut hub, _control, _store } = Rig::new();
        hub.limits.entry_max = Duration::from_secs(600);
        let mut headers = HeaderMap::new();
        let key = weir_types::hex::hex(&key_of(ALICE).0);
        let bearer = format!("Bearer {}:{key}", ALICE.0);
        headers.insert(header::AUTHORIZATION, bearer.parse().unwrap());
        let query = RawQuery(Some("wait_ms=1&min_wait_ms=1".to_owned()));
        let answers = Extension(Unwritten::default());
        let fetched = crate::orders::fetch(State(Arc::new(hub.clone())), answers, headers, query);
        let working = async {
            loop {
                agent.do_work(Nanos(1));
                tokio::task::yield_now().await;
            }
        };
        let response = tokio::select! {
            response = fetched => response,
            () = working => unreachable!("it works on"),
        };
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        agent.do_work(Nanos(2));
        let counts = hub.figures.report();
        assert_eq!((counts.entered, counts.readers), (1, 0));
    });
}
