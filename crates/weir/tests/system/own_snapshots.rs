//! Snapshots of a node's own market: a gateway that starts too late for retransmission joins by
//! one, while other clients hang or are refused.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use weir_feed::moldudp64::MoldSession;
use weir_feed::soupbin::{Inbox, Login, Reject, SoupPacket};

use crate::own_feed::{
    Venue, Wire, assert_follows, assert_has_book_of, channel, gateway, subscriber,
};
use crate::publish::{Crowd, publish};
use crate::support::address::free_address;
use crate::support::{ALICE, BOB, HANG, Node, open_market, until};

/// Returns a venue that keeps too few messages for late gateways, and serves snapshots.
fn venue(durability: &'static str, more: &str) -> (Venue, SocketAddr) {
    let free = free_address();
    let more = format!("messages_max = 1000\nsnapshots = \"{free}\"\n{more}");
    (Venue::new(durability, &more), free)
}

fn snapshots(node: &Node, name: &str) -> u64 {
    let report = publish(node)["snapshots"].clone();
    report[name].as_u64().unwrap_or_else(|| panic!("no {name}: {report}"))
}

/// A raw SoupBinTCP client.
struct Raw {
    stream: TcpStream,
    inbox: Inbox,
}

impl Raw {
    fn connect(at: SocketAddr) -> Raw {
        let stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        Raw { stream, inbox: Inbox::new() }
    }

    fn log_in(at: SocketAddr, name: &str, password: &str, session: &str) -> Raw {
        let mut raw = Raw::connect(at);
        let session = MoldSession::new(session).unwrap().0;
        raw.say(&SoupPacket::LoginRequest(Login {
            session,
            ..Login::new(name, password).unwrap()
        }));
        raw
    }

    fn say(&mut self, packet: &SoupPacket<'_>) {
        let mut bytes = Vec::new();
        assert!(packet.write(&mut bytes));
        self.stream.write_all(&bytes).unwrap();
    }

    /// Returns the next packet, or `None` once the server has closed the connection.
    fn hear(&mut self) -> Option<Vec<u8>> {
        let mut bytes = [0; 1_024];
        loop {
            if let Some(packet) = self.inbox.take() {
                return Some(packet.to_vec());
            }
            match self.stream.read(&mut bytes).unwrap() {
                0 => return None,
                len => self.inbox.push(&bytes[..len]),
            }
        }
    }
}

#[test]
fn who_comes_too_late_to_ask_for_all_joins_by_a_snapshot_while_another_client_hangs() {
    let login = "snapshots_username = \"weir\"\nsnapshots_password_file = ";
    let dir = tempfile::tempdir().unwrap();
    let password = dir.path().join("password");
    weir_io::durable::write_file(&password, b"open\n", 0o600).unwrap();
    let (venue, server) = venue("os", &format!("{login}{password:?}\n"));
    let wire = Wire::new(&venue, [30, 10]);
    let a = venue.start();
    open_market(&a, &[ALICE, BOB]);
    let mut crowd = Crowd::new(&a, 0);
    crowd.trade(1_500);
    until("that the first messages are kept no more", || {
        (publish(&a)["oldest"].as_u64() > Some(1)).then_some(())
    });
    let _hanging = Raw::log_in(server, "weir", "open", "");
    let _silent = Raw::connect(server);
    let more = format!(
        "request = \"{}\"\n[market_gateway.feed.lines.glimpse]\naddress = \"{server}\"\n\
         username = \"weir\"\npassword_file = {password:?}\n",
        venue.requests
    );
    let (b, _home) = gateway(&wire, "", &more);
    let mut early = subscriber(&b);
    for _ in 0..20 {
        crowd.trade(20);
        early.poll();
    }
    assert_follows(&mut early, &a, &crowd);
    assert_follows(&mut subscriber(&b), &a, &crowd);
    assert!(wire.lost() > 0, "nothing was lost");
    until("that nothing is missing", || (channel(&b) == "Live").then_some(()));
    until("that B was served", || (snapshots(&a, "served") >= 1).then_some(()));
    assert_eq!((snapshots(&a, "slow"), publish(&a)["unsent"].as_u64()), (0, Some(0)));
    let metrics = a.get("/metrics").1;
    assert!(metrics.contains("weir_publish_snapshot_served_total"), "{metrics}");
}

#[test]
fn a_snapshot_is_refused_by_its_reason_and_only_so_many_have_one() {
    let dir = tempfile::tempdir().unwrap();
    let password = dir.path().join("password");
    weir_io::durable::write_file(&password, b"open", 0o600).unwrap();
    let more = format!(
        "snapshots_username = \"weir\"\nsnapshots_password_file = {password:?}\n\
         snapshots_clients_max = 2\n"
    );
    let (venue, server) = venue("memory", &more);
    let a = venue.start();
    // Nothing has been published, so there is no session yet.
    let none = Raw::log_in(server, "weir", "open", "").hear();
    assert_eq!(none.as_deref(), Some(&b"JS"[..]));
    open_market(&a, &[ALICE]);
    let session = || publish(&a)["session"].as_str().unwrap_or("").to_owned();
    until("a session", || (!session().is_empty()).then_some(()));
    for (name, password, session, want) in [
        ("weir", "shut", "", Reject::NotAuthorized),
        ("", "", "", Reject::NotAuthorized),
        ("weir", "open", "OTHER", Reject::SessionNotAvailable),
    ] {
        let mut raw = Raw::log_in(server, name, password, session);
        let heard = raw.hear().expect("an answer");
        assert_eq!(
            SoupPacket::read(&heard),
            Ok(SoupPacket::LoginRejected(want)),
            "{name}, {password}"
        );
        assert_eq!(raw.hear(), None, "and the connection is over");
    }
    let mut raw = Raw::connect(server);
    raw.say(&SoupPacket::EndOfSession);
    assert_eq!(raw.hear(), None, "no client says so");
    drop(raw);
    until("that all have gone", || (snapshots(&a, "clients") == 0).then_some(()));
    let mut served = Raw::log_in(server, "weir", "open", &session());
    let mut kinds = Vec::new();
    while let Some(packet) = served.hear().filter(|packet| packet[..2] != *b"SG") {
        kinds.push(packet[if packet[0] == b'S' { 1 } else { 0 }]);
    }
    assert_eq!(kinds, *b"ASRHSS", "its events, its one instrument, no order");
    // One that has not logged in would make place.
    let mut second = Raw::log_in(server, "weir", "open", &session());
    let answer = second.hear().and_then(|packet| packet.first().copied());
    assert_eq!(answer, Some(b'A'), "it is no stranger any more");
    until("that both are there", || (snapshots(&a, "clients") == 2).then_some(()));
    assert_eq!(Raw::connect(server).hear(), None, "there is no room for a third");
    let counted = ["refused_not_authorized", "refused_session", "refused_no_room", "malformed"];
    assert_eq!(counted.map(|name| snapshots(&a, name)), [2, 2, 1, 1]);
}

#[test]
fn a_gateway_joins_the_next_session_too_after_the_other_node_was_killed() {
    let (venue, server) = venue("memory", "");
    let wire = Wire::new(&venue, [10, 10]);
    let mut a = venue.start();
    open_market(&a, &[ALICE, BOB]);
    let mut crowd = Crowd::new(&a, 0);
    crowd.trade(1_500);
    let glimpse = format!(
        "request = \"{}\"\n[market_gateway.feed.lines.glimpse]\naddress = \"{server}\"\n",
        venue.requests
    );
    let (b, _home) = gateway(&wire, "", &glimpse);
    assert_follows(&mut subscriber(&b), &a, &crowd);
    let session = publish(&a)["session"].clone();
    a.kill();
    let a = venue.start();
    assert_ne!(publish(&a)["session"], session, "some of it may be lost");
    // Only the node's own book shows the state after the loss.
    let mut crowd = Crowd::new(&a, 1_000_000);
    crowd.trade(100);
    assert_has_book_of(&mut subscriber(&b), &a, |book| !book.is_empty());
    until("that nothing is missing", || (channel(&b) == "Live").then_some(()));
}
