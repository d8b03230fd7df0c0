//! Failed handshakes: each ends the connection, is counted by kind and is logged.

use std::io::{Read, Write};
use std::net::TcpStream;

use weir_client::{ClientError, Connection, Limits, Target};
use weir_tls::LinkError;
use weir_tls::authority::{Authority, Usage};
use weir_types::Reason;

use crate::rig::{NAME, Rig, counted, failed, try_operator, with_certificate};
use crate::support::wire::{Wire, logon_of};
use crate::support::{ALICE, BOB, HANG, Home, OPERATOR, until};

/// Reads until the other side ends the connection, cleanly or not.
pub fn drained(mut stream: TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(HANG)).unwrap();
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("not closed"),
        _ => bytes,
    }
}

#[test]
fn an_authority_that_is_not_ours_is_refused_by_the_client_and_counted_by_the_node() {
    let rig = Rig::new("memory", "");
    rig.write("stranger.pem", &Authority::new("A stranger").unwrap().certificate());
    let node = rig.start();
    let tls = Some(rig.believing("stranger.pem"));
    let refused = try_operator(Target::of(node.address(), tls));
    let Err(ClientError::Handshake { source: LinkError::Tls(error), .. }) = refused else {
        panic!("{refused:?}");
    };
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");
    failed(&node, "refused_by_peer", 1);
    until("the log's line", || rig.home.said().contains("refused_by_peer").then_some(()));
    let (_, metrics) = node.get("/metrics");
    let line = "weir_tls_handshakes_total{outcome=\"refused_by_peer\"} 1";
    assert!(metrics.contains(line), "{metrics}");
}

#[test]
fn a_certificate_for_another_name_and_one_that_is_past_are_refused_by_the_client() {
    let rig = Rig::new("memory", "");
    let cases = [
        (rig.authority.sign(&["other.test"], Usage::Server), "not valid for name"),
        (rig.authority.sign_expired(&[NAME], Usage::Server), "expired"),
    ];
    for (signed, why) in cases {
        let signed = signed.unwrap();
        rig.write("node.pem", &signed.certificate);
        rig.write("node.key", &signed.key);
        let node = rig.start();
        let refused = try_operator(rig.target(&node)).unwrap_err();
        assert!(matches!(refused, ClientError::Handshake { .. }), "{refused:?}");
        assert!(refused.to_string().contains(why), "{refused}");
        failed(&node, "refused_by_peer", 1);
    }
}

#[test]
fn plain_bytes_to_a_port_with_tls_are_cut_and_counted_while_others_trade() {
    let rig = Rig::new("memory", "");
    let node = rig.start();
    rig.open_market(&node, &[BOB]);
    let mut bob = rig.trader(&node, BOB);
    let mut logon = Vec::new();
    weir_wire::dialogue::put_logon(&logon_of(&ALICE), &[], &mut logon);
    let cases: [&[u8]; 4] = [&logon, b"GET / HTTP/1.1\r\n\r\n", &[0; 64], &[0xff; 64]];
    for (count, bytes) in (1..).zip(cases) {
        let mut stream = TcpStream::connect(node.address()).unwrap();
        stream.write_all(bytes).unwrap();
        let said = drained(stream);
        // At most an alert: no answer of order entry itself.
        assert!(said.len() <= 7, "{said:?}");
        failed(&node, "not_tls", count);
        bob.ask_for_report(BOB.buy(count, 50, 1));
    }
}

#[test]
fn tls_to_a_plain_port_is_cut_and_counted() {
    let home = Home::new("memory");
    let node = home.start();
    let rig = Rig::new("memory", "");
    let target = Target::of(node.address(), Some(rig.tls()));
    let refused = try_operator(target).unwrap_err();
    assert!(matches!(refused, ClientError::Handshake { .. }), "{refused:?}");
    counted(&node, "broken_streams", 1);
    assert!(node.status()["tls"].is_null());
}

#[test]
fn a_client_without_tls_sees_that_a_port_with_tls_ends_the_connection() {
    let rig = Rig::new("memory", "");
    let node = rig.start();
    let refused = try_operator(node.address()).unwrap_err();
    assert!(
        matches!(refused, ClientError::Closed | ClientError::Broken(_) | ClientError::Io { .. }),
        "{refused:?}"
    );
    failed(&node, "not_tls", 1);
}

#[test]
fn a_handshake_that_stalls_is_cut_in_time_and_holds_nobody_up() {
    let rig = Rig::new("memory", "handshake_max_ms = 200");
    let node = rig.start();
    // One client sends nothing, the other only the beginning of a ClientHello.
    let silent = TcpStream::connect(node.address()).unwrap();
    let mut half = TcpStream::connect(node.address()).unwrap();
    half.write_all(&[22, 3, 1, 2, 0, 1, 0]).unwrap();
    try_operator(rig.target(&node)).unwrap();
    assert_eq!(drained(silent), b"");
    assert_eq!(drained(half), b"");
    failed(&node, "timed_out", 2);
    assert_eq!(node.status()["tls"]["completed"], 1);
}

#[test]
fn stalled_handshakes_at_the_limit_give_way_to_newer_ones_at_once() {
    let rig = Rig::new("memory", "handshake_max_ms = 600000\nhandshakes_max = 4");
    let node = rig.start();
    let silent: Vec<_> = (0..12).map(|_| TcpStream::connect(node.address()).unwrap()).collect();
    try_operator(rig.target(&node)).unwrap();
    // Three of them and the operator's were the last four.
    for stream in silent.into_iter().take(9) {
        assert_eq!(drained(stream), b"");
    }
    failed(&node, "evicted", 9);
}

#[test]
fn an_end_in_the_handshake_is_counted() {
    let rig = Rig::new("memory", "");
    let node = rig.start();
    drop(TcpStream::connect(node.address()).unwrap());
    failed(&node, "ended", 1);
}

#[test]
fn a_client_shows_its_certificate_where_one_is_required() {
    let rig = Rig::new("memory", "");
    let ca = rig.home.path("clients.pem").display().to_string();
    let clients = Authority::new("Clients").unwrap();
    rig.write("clients.pem", &clients.certificate());
    let config = std::fs::read_to_string(rig.home.path("weir.toml")).unwrap();
    rig.write("weir.toml", &format!("{config}\nclient_ca = {ca:?}\n"));
    rig.write_pair("alice", &clients, Usage::Client);
    rig.write_pair("mallory", &rig.authority, Usage::Client);
    let node = rig.start();
    try_operator(with_certificate(&rig, &node, "alice")).unwrap();
    // A TLS 1.3 client receives the node's refusal only after its own side of the handshake.
    for (target, kind) in [
        (rig.target(&node), "no_certificate"),
        (with_certificate(&rig, &node, "mallory"), "bad_certificate"),
    ] {
        let refused = try_operator(target).unwrap_err();
        assert!(
            matches!(refused, ClientError::Tls(_) | ClientError::Cut | ClientError::Closed),
            "{refused:?}"
        );
        failed(&node, kind, 1);
    }
    assert_eq!(node.status()["tls"]["completed"], 1);
}

#[test]
fn a_client_may_come_without_a_certificate_where_none_is_required() {
    let rig = Rig::new("memory", "client_required = false");
    let ca = rig.home.path("ca.pem").display().to_string();
    let config = std::fs::read_to_string(rig.home.path("weir.toml")).unwrap();
    rig.write("weir.toml", &format!("{config}\nclient_ca = {ca:?}\n"));
    let node = rig.start();
    try_operator(rig.target(&node)).unwrap();
    // A certificate presented anyway must be valid.
    rig.write_pair("mallory", &Authority::new("Mallory").unwrap(), Usage::Client);
    try_operator(with_certificate(&rig, &node, "mallory")).unwrap_err();
    failed(&node, "bad_certificate", 1);
}

#[test]
fn keys_are_asked_for_over_tls_as_without() {
    let rig = Rig::new("memory", "");
    let node = rig.start();
    let connection = Connection::open(rig.target(&node), Limits::default()).unwrap();
    let mut wire = Wire::over(connection);
    let mut logon = logon_of(&OPERATOR);
    logon.api_key.0[0] ^= 1;
    let refused = wire.try_log_on(&logon, &[]).unwrap_err();
    assert_eq!(refused.reason, Reason::UnknownKey);
}
