//! Sessions over TLS behave as they do without it.

use std::net::TcpStream;

use weir_client::session::SessionEvent;
use weir_client::{ClientError, Connection, Limits, Target};
use weir_tls::ClientTls;
use weir_tls::client::Trust;
use weir_types::{EventNo, OrdStatus, Reason, RequestNo, Switch};
use weir_wire::dialogue::put_logon;
use weir_wire::session::Logon;

use crate::proxy::{Proxy, Way};
use crate::rig::{NAME, Rig, counted, try_operator};
use crate::support::trader::Trader;
use crate::support::wire::{Wire, logon_of};
use crate::support::{ALICE, BOB, HANG};

#[test]
fn orders_trade_over_tls() {
    let rig = Rig::new("disk", "");
    let node = rig.start();
    rig.open_market(&node, &[ALICE, BOB]);
    let mut alice = rig.trader(&node, ALICE);
    let mut bob = rig.trader(&node, BOB);
    for number in 1..=20 {
        alice.ask_for_report(ALICE.sell(number, 100, 5));
    }
    for number in 1..=20 {
        bob.ask_for_report(BOB.buy(number, 100, 5));
    }
    alice.settle();
    bob.settle();
    let last = bob.reports().last().unwrap().event;
    assert_eq!(last.ord_status, OrdStatus::Filled);
    assert_eq!(node.status()["gateway"]["tls_broken"], 0);
    assert_eq!(node.status()["gateway"]["tls_truncated"], 0);
}

#[test]
fn a_session_resumes_over_tls_where_it_stood() {
    let rig = Rig::new("memory", "");
    let node = rig.start();
    rig.open_market(&node, &[ALICE, BOB]);
    let mut alice = rig.trader(&node, ALICE);
    for number in 1..=5 {
        alice.ask_for_report(ALICE.sell(number, 100, 5));
    }
    let before = alice.last_event_no();
    drop(alice);
    counted(&node, "sessions", 0);
    // A third of the offer trades while Alice is away.
    let mut bob = rig.trader(&node, BOB);
    bob.ask_for_report(BOB.buy(1, 100, 8));
    let mut alice = Trader::resume_at(rig.target(&node), ALICE, EventNo(before.0 + 1)).unwrap();
    alice.settle();
    let fills: u64 = alice.reports().iter().map(|report| report.event.last_qty.0).sum();
    assert_eq!(fills, 8);
}

#[test]
fn a_connection_whose_handshake_ends_late_takes_no_session_from_a_later_logon() {
    let rig = Rig::new("memory", "");
    let node = rig.start();
    rig.open_market(&node, &[ALICE]);
    let stream = TcpStream::connect(node.address()).unwrap();
    // The node accepts connections in their order.
    let mut alice = rig.trader(&node, ALICE);
    let asking = Logon { takeover: Switch::On, ..logon_of(&ALICE) };
    let link = rig.tls().connect().unwrap();
    let mut late = Connection::with_link(stream, link, Limits::default()).unwrap();
    put_logon(&asking, &[], late.outbox());
    late.exchange(HANG).unwrap();
    let mut late = Wire::over(late);
    assert_eq!(late.logon_answer().unwrap_err().reason, Reason::AlreadyLoggedOn);
    drop(late);
    alice.ask_for_report(ALICE.buy(1, 50, 1));
    alice.settle();
    // A connection that the node accepts now does take it over.
    let newer = Connection::open(rig.target(&node), Limits::default()).unwrap();
    Wire::over(newer).try_log_on(&asking, &[]).unwrap();
}

#[test]
fn many_records_in_one_read_are_all_answered() {
    let rig = Rig::new("memory", "");
    let node = rig.start();
    rig.open_market(&node, &[ALICE]);
    let mut alice = rig.trader(&node, ALICE);
    // Each flush is one record; a single read of the node holds many of them.
    let mut last = RequestNo::NONE;
    for number in 1..=1_000 {
        last = alice.send(ALICE.buy(number, 50, 1));
        alice.client.flush().unwrap();
    }
    assert!(matches!(alice.answer(last), SessionEvent::Report { .. }));
    alice.settle();
    assert_eq!(alice.reports().len(), 1_000);
}

#[test]
fn one_byte_a_segment_is_enough() {
    let rig = Rig::new("memory", "");
    let node = rig.start();
    rig.open_market(&node, &[ALICE]);
    let proxy = Proxy::start(node.address(), Way::Dribble);
    let target = Target::of(proxy.address(), Some(rig.tls()));
    let mut alice = Trader::log_on_at(target, ALICE);
    for number in 1..=20 {
        alice.ask_for_report(ALICE.buy(number, 50, 1));
    }
    alice.settle();
    assert_eq!(alice.reports().len(), 20);
}

#[test]
fn a_pinned_certificate_is_believed_and_no_other() {
    let rig = Rig::new("memory", "");
    let node = rig.start();
    let target = |pem: &str| {
        let path = rig.home.path(pem);
        // A client with a pinned certificate ignores the name.
        let tls = ClientTls::new(Trust::Pinned(&path), "any.name").unwrap();
        Target::of(node.address(), Some(tls))
    };
    try_operator(target("node.pem")).unwrap();
    rig.write_pair("other", &rig.authority, weir_tls::authority::Usage::Server);
    let refused = try_operator(target("other.pem"));
    assert!(matches!(refused, Err(ClientError::Handshake { .. })), "{refused:?}");
}

#[test]
fn a_client_that_speaks_only_tls_1_2_is_served() {
    let rig = Rig::new("memory", "");
    let node = rig.start();
    let ca = rig.home.path("ca.pem");
    let tls = ClientTls::new(Trust::Authority(&ca), NAME).unwrap().only_tls12(&ca).unwrap();
    try_operator(Target::of(node.address(), Some(tls))).unwrap();
    assert_eq!(node.status()["tls"]["completed"], 1);
}

#[test]
fn a_client_that_logs_out_is_told_of_the_end_by_tls_too() {
    let rig = Rig::new("memory", "");
    let node = rig.start();
    let mut connection = Connection::open(rig.target(&node), Limits::default()).unwrap();
    let logout = weir_wire::session::Logout {
        session_id: weir_types::SessionId::NONE,
        reason: weir_types::Reason::LogoutRequested,
    };
    weir_wire::frame::put_frame(&logout, connection.outbox());
    connection.flush().unwrap();
    let ended = crate::support::until("the end", || connection.receive().err());
    assert!(matches!(ended, ClientError::Closed), "{ended:?}");
}

#[test]
fn an_end_that_comes_with_the_last_bytes_ends_the_session_at_once() {
    for with_tls in [false, true] {
        let rig = Rig::new("memory", "");
        let plain = crate::support::Home::new("memory");
        let node = if with_tls { rig.start() } else { plain.start() };
        let target = if with_tls { rig.target(&node) } else { node.address().into() };
        let mut client = weir_client::Client::connect(target, Limits::default()).unwrap();
        // Longer than the test would wait for a heartbeat timeout.
        let config = weir_client::SessionConfig {
            heartbeat_interval_ms: 60_000,
            ..crate::support::OPERATOR.config()
        };
        client.log_on(config, crate::support::HANG).unwrap();
        counted(&node, "sessions", 1);
        // The node was stopped when they arrived, so it reads the bytes and the end together.
        node.pause(true);
        weir_wire::frame::put_frame(
            &weir_wire::session::Heartbeat {
                sending_time: weir_types::Nanos(1),
                high_water: EventNo(0),
                session_id: config.session_id,
                partition_id: weir_types::PartitionId(0),
                load_permille: 0,
            },
            client.outbox(),
        );
        client.flush().unwrap();
        drop(client);
        node.pause(false);
        counted(&node, "sessions", 0);
    }
}
