//! Attempts to get around a reader's entitlement through a router.

use std::time::{Duration, Instant};

use weir_client::{Client, ClientError, Incoming, Limits, SessionEvent};
use weir_types::{
    AccountId, FirmId, InstrumentId, Nanos, PartitionId, Reason, RequestNo, Role, SessionId,
    SourceStatus, Switch,
};
use weir_wire::delivery::{CancelFetch, FetchOrders, OrderRow};
use weir_wire::dialogue::{put_fetch_orders, put_request};
use weir_wire::frame::put_frame;
use weir_wire::order_entry::NewOrder;
use weir_wire::reference::DefineSession;
use weir_wire::session::Logout;
use weir_wire::{Message, Request};

use crate::rig::{ROUTER, Rig, Router};
use crate::support::wire::{Wire, logon_of};
use crate::support::{ALICE, BOB, HANG, Node, SUPERVISOR, Who, definition_of, trader_of, until};
use crate::{test_core, web};

/// The answer to a query.
#[derive(Debug)]
enum FetchAnswer {
    Page { reason: Reason, token: Vec<u8>, rows: Vec<OrderRow> },
    Refused(Reason),
}

impl FetchAnswer {
    fn reason(&self) -> Reason {
        match self {
            FetchAnswer::Page { reason, .. } | FetchAnswer::Refused(reason) => *reason,
        }
    }

    fn token(&self) -> Vec<u8> {
        let FetchAnswer::Page { token, .. } = self else { panic!("{self:?}") };
        token.clone()
    }

    /// Returns the firms of the page's rows.
    fn firms(&self) -> Vec<FirmId> {
        let FetchAnswer::Page { reason: Reason::None, rows, .. } = self else { panic!("{self:?}") };
        let mut firms: Vec<FirmId> = rows.iter().map(|row| row.firm_id).collect();
        firms.sort_unstable();
        firms.dedup();
        firms
    }
}

fn everything(who: Who) -> FetchOrders {
    FetchOrders {
        correlation_id: 1,
        session_id: who.session_id,
        firm_id: FirmId::NONE,
        account_id: AccountId::NONE,
        instrument_id: InstrumentId::NONE,
        rows_max: 0,
        rows_min: 1,
        bytes_max: 0,
        wait_max_us: 200_000,
        credit: 1,
        live_only: Switch::Off,
        source_id: PartitionId::NONE,
        min_wait_us: 0,
        credit_rows: 0,
        credit_bytes: 0,
    }
}

fn log_on(node: &Node, who: Who) -> Client {
    let mut client = Client::connect(node.address(), Limits::default()).unwrap();
    client.log_on(who.patient_config(), HANG).unwrap();
    client
}

/// Sends one query and returns its answer.
fn ask(client: &mut Client, fetch: &FetchOrders, token: &[u8]) -> FetchAnswer {
    put_fetch_orders(fetch, token, client.outbox());
    let begun = Instant::now();
    let mut head = None;
    loop {
        assert!(begun.elapsed() < HANG, "no answer");
        let mut told = None;
        let polled = client.poll(Duration::from_millis(5), |incoming, _| match incoming {
            Incoming::Page(page, token) => {
                let (reason, token, rows) = (page.reason, token.to_vec(), Vec::new());
                match page.row_count {
                    0 => told = Some(FetchAnswer::Page { reason, token, rows }),
                    _ => head = Some((reason, token)),
                }
            }
            Incoming::Rows(_, rows) => {
                let (reason, token) = head.take().expect("the header comes first");
                let rows = rows.map(|row| row.unwrap().0).collect();
                told = Some(FetchAnswer::Page { reason, token, rows });
            }
            Incoming::Session(_, SessionEvent::Refused { reject, .. }) => {
                told = Some(FetchAnswer::Refused(reject.reason));
            }
            _ => {}
        });
        match polled {
            // The error of a query that names a session other than the client's.
            Err(ClientError::Refused { reason, .. }) => told = Some(FetchAnswer::Refused(reason)),
            polled => drop(polled.unwrap()),
        }
        if let Some(told) = told {
            return told;
        }
    }
}

fn rig() -> (Rig, Router) {
    let mut rig = Rig::new(&[&[21], &[31]]);
    let router = Router::start(&rig.config_of_all(ROUTER));
    rig.trade(100);
    router.until_serving(2);
    (rig, router)
}

#[test]
fn a_firms_session_sees_its_own_orders_whatever_it_asks_for() {
    let (_stand, router) = rig();
    let mut alice = log_on(&router.node, ALICE);
    let all = everything(ALICE);
    assert_eq!(ask(&mut alice, &all, &[]).firms(), [ALICE.firm_id]);
    let of_bob = FetchOrders { firm_id: BOB.firm_id, ..all };
    let told = ask(&mut alice, &of_bob, &[]);
    assert_eq!((told.reason(), told.token().len()), (Reason::NotEntitled, 0));
    let of_bobs_account = FetchOrders { account_id: BOB.account_id, ..all };
    assert_eq!(ask(&mut alice, &of_bobs_account, &[]).firms(), []);
    for source in [21, 31] {
        let of_source = FetchOrders { source_id: PartitionId(source), ..all };
        assert_eq!(ask(&mut alice, &of_source, &[]).firms(), [ALICE.firm_id]);
    }
    let mut supervisor = log_on(&router.node, SUPERVISOR);
    let seen = ask(&mut supervisor, &everything(SUPERVISOR), &[]).firms();
    assert_eq!(seen, [ALICE.firm_id, BOB.firm_id]);
    // A query in another session's name is rejected on this session's connection.
    let told = ask(&mut alice, &everything(SUPERVISOR), &[]);
    assert_eq!(told.reason(), Reason::NotLoggedOn);
}

#[test]
fn a_token_is_worth_nothing_to_another_reader_or_for_another_filter() {
    let (rig, router) = rig();
    let mut alice = log_on(&router.node, ALICE);
    let mut bob = log_on(&router.node, BOB);
    let mut supervisor = log_on(&router.node, SUPERVISOR);
    let alices = ask(&mut alice, &everything(ALICE), &[]).token();
    let supervisors = ask(&mut supervisor, &everything(SUPERVISOR), &[]).token();
    // The router's own query to the stores for a reader of this firm.
    let of_alice = FetchOrders { firm_id: ALICE.firm_id, ..everything(SUPERVISOR) };
    let routers = ask(&mut supervisor, &of_alice, &[]).token();
    let live = FetchOrders { live_only: Switch::On, ..everything(ALICE) };
    let mut forged = alices.clone();
    *forged.last_mut().expect("it has bytes") ^= 1;
    let mut tries = vec![
        ("another firm's", ask(&mut bob, &everything(BOB), &alices)),
        ("a firm's", ask(&mut supervisor, &everything(SUPERVISOR), &alices)),
        ("a supervisor's", ask(&mut alice, &everything(ALICE), &supervisors)),
        ("the router's for the firm", ask(&mut alice, &everything(ALICE), &routers)),
        ("another filter's", ask(&mut alice, &live, &alices)),
        ("forged", ask(&mut alice, &everything(ALICE), &forged)),
        ("cut off", ask(&mut alice, &everything(ALICE), &alices[..alices.len() - 1])),
    ];
    // The same at a node.
    let mut there = log_on(rig.backends[0].node(), BOB);
    let of_source = FetchOrders { source_id: PartitionId(21), ..everything(BOB) };
    tries.push(("another firm's at a node", ask(&mut there, &of_source, &alices)));
    for (what, told) in tries {
        let is_refused = matches!(told.reason(), Reason::ResyncFilter | Reason::ResyncToken);
        assert!(is_refused, "{what}: {told:?}");
        let FetchAnswer::Page { rows, .. } = told else { panic!("{what}") };
        assert!(rows.is_empty(), "{what}");
    }
    // The token is valid for its own session.
    assert_eq!(ask(&mut alice, &everything(ALICE), &alices).reason(), Reason::None);
}

#[test]
fn nobody_is_let_in_who_is_not_defined_at_the_router() {
    let (_stand, router) = rig();
    let refused = |who: Who| {
        let mut client = Client::connect(router.node.address(), Limits::default()).unwrap();
        match client.log_on(who.config(), HANG) {
            Err(ClientError::LogonRejected { reason, .. }) => reason,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(trader_of(99)), Reason::UnknownKey);
    let bob_as_alice = Who { session_id: SessionId(11), ..BOB };
    let mut config = bob_as_alice.config();
    config.key = BOB.key().into();
    let mut client = Client::connect(router.node.address(), Limits::default()).unwrap();
    assert!(client.log_on(config, HANG).is_err(), "another session's key");
    assert_eq!(web::get(&router.node, &trader_of(99), "/orders").0, 401);
    let (code, refusal) = web::get(&router.node, &ALICE, "/orders?firm=12");
    assert_eq!((code, &refusal["error"]), (403, &"NotEntitled".into()));
    // A session that feeds sources may not read.
    let core = test_core::core_of(21);
    router.node.admin().define_session(definition_of(&core)).unwrap();
    let mut feeding = log_on(&router.node, core);
    assert_eq!(ask(&mut feeding, &everything(core), &[]).reason(), Reason::NotEntitled);
    assert_eq!(web::get(&router.node, &core, "/orders").0, 403);
}

#[test]
fn a_session_whose_key_is_replaced_at_the_router_is_ended() {
    let (_stand, router) = rig();
    let mut alice = log_on(&router.node, ALICE);
    assert_eq!(ask(&mut alice, &everything(ALICE), &[]).reason(), Reason::None);
    let other =
        DefineSession { credential: definition_of(&BOB).credential, ..definition_of(&ALICE) };
    router.node.admin().define_session(other).unwrap();
    let ended =
        until("the end of the session", || alice.poll(Duration::from_millis(5), |_, _| {}).err());
    assert!(!matches!(ended, ClientError::Timeout { .. }), "{ended}");
}

/// As at a node: the connection lives on with another session, which can neither renew nor keep
/// the fetch of the session that has ended.
#[test]
fn a_session_that_has_ended_at_a_router_gets_no_order_state() {
    let (mut rig, router) = rig();
    let admin = |definition| router.node.admin().define_session(definition).unwrap();
    let first = definition_of(&SUPERVISOR);
    let credential = definition_of(&ALICE).credential;
    type End<'a> = &'a dyn Fn(&mut Wire);
    let ends: [(Reason, End<'_>); 3] = [
        (Reason::LogoutRequested, &|wire| {
            let (session_id, reason) = (SUPERVISOR.session_id, Reason::None);
            send(wire, &Logout { session_id, reason });
        }),
        (Reason::KeyReplaced, &|_| admin(DefineSession { credential, ..first })),
        (Reason::KeyExpired, &|_| admin(DefineSession { valid_until: Nanos(1), ..first })),
    ];
    for (reason, end) in ends {
        let mut wire = Wire::connect(&router.node);
        wire.log_on(&logon_of(&SUPERVISOR));
        wire.log_on(&logon_of(&BOB));
        wire.fetch(SUPERVISOR.session_id, 7, 1_000);
        wire.page_of(SUPERVISOR.session_id, SessionId::NONE);
        end(&mut wire);
        assert_eq!(wire.logout(), (SUPERVISOR.session_id, reason));
        for number in 8..=11 {
            wire.add_credit(BOB.session_id, 7, 1_000);
            rig.trade(20);
            wire.fetch(BOB.session_id, number, 1);
            wire.page_of(BOB.session_id, SUPERVISOR.session_id);
        }
        drop(wire);
        until("the end of the connection", || {
            (router.node.status()["gateway"]["sessions"] == 0).then_some(())
        });
        admin(first);
    }
}

fn send<M: Message>(wire: &mut Wire, message: &M) {
    let mut bytes = Vec::new();
    put_frame(message, &mut bytes);
    wire.send(&bytes);
}

#[test]
fn a_session_cannot_cancel_another_sessions_fetch_at_a_router() {
    let (mut rig, router) = rig();
    let mut wire = Wire::connect(&router.node);
    wire.log_on(&logon_of(&SUPERVISOR));
    wire.log_on(&logon_of(&BOB));
    wire.fetch(SUPERVISOR.session_id, 7, 1_000);
    wire.page_of(SUPERVISOR.session_id, SessionId::NONE);
    let cancel = |session_id| CancelFetch { correlation_id: 7, session_id };
    for number in 8..=11 {
        send(&mut wire, &cancel(BOB.session_id));
        // The router has taken the message before it answers this one.
        wire.fetch(BOB.session_id, number, 1);
        wire.page_of(BOB.session_id, SessionId::NONE);
        rig.trade(20);
        wire.page_of(SUPERVISOR.session_id, SessionId::NONE);
    }
    // Its own session can.
    send(&mut wire, &cancel(SUPERVISOR.session_id));
    wire.fetch(BOB.session_id, 12, 1);
    wire.page_of(BOB.session_id, SessionId::NONE);
    rig.trade(20);
    wire.fetch(BOB.session_id, 13, 1);
    wire.page_of(BOB.session_id, SUPERVISOR.session_id);
}

#[test]
fn a_router_takes_no_orders() {
    let (_stand, router) = rig();
    let mut alice = log_on(&router.node, ALICE);
    let Request::NewOrder(order) = ALICE.buy(1, 100, 1) else { panic!("it is one") };
    let (session_id, request_no) = (ALICE.session_id, RequestNo(1));
    let request = Request::NewOrder(NewOrder { session_id, request_no, ..order });
    put_request(&request, alice.outbox());
    let told = until("a reject", || {
        let mut told = None;
        alice
            .poll(Duration::from_millis(5), |incoming, _| {
                if let Incoming::Session(_, SessionEvent::Refused { reject, .. }) = incoming {
                    told = Some(reject.reason);
                }
            })
            .unwrap();
        told
    });
    assert_eq!(told, Reason::UnknownInstrument);
}

#[test]
fn a_router_whose_own_session_sees_one_firm_gives_nobody_anything() {
    let mut rig = Rig::new(&[&[21]]);
    rig.trade(20);
    let router = Router::start(&rig.config_of_all(Who { role: Role::Trader, ..ALICE }));
    until("its fault", || {
        let status = router.node.status();
        let fault = status["router"]["backends"][0]["last_fault"].as_str().map(str::to_owned);
        fault.filter(|fault| fault.contains("a bad page"))
    });
    let mut reader = router.follow(SUPERVISOR, Vec::new());
    let begun = Instant::now();
    while reader.follower.sources().is_empty() {
        assert!(begun.elapsed() < HANG, "the source is not said to be away");
        reader.poll(Duration::from_millis(5)).unwrap();
    }
    assert_eq!(reader.follower.sources()[0].status, SourceStatus::Away);
    assert_eq!(reader.row_count, 0);
}
