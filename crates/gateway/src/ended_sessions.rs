//! The ends of sessions whose connection lives on: each reaches the store of order state, nothing
//! comes behind it, and the connection's other sessions are not affected. Lines drive the gateway,
//! and the tests stand in for the store.

use weir_door::ConnectionId;
use weir_door::reader_rings::DeliveryRequest;
use weir_types::{FirmId, Nanos, Role, SessionId};
use weir_wire::reference::DefineSession;

use crate::second_protocol::{Client, Node, OTHER_SESSION, definition_of};

const ALICE: SessionId = SessionId(3);
const BOB: SessionId = OTHER_SESSION;

/// A request to the store, without its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreRequest {
    Fetch(SessionId, u64),
    Cancel(SessionId, u64),
    Credit(SessionId, u64),
    Ended(SessionId),
    Gone,
}

/// Takes the requests that have reached the store; all are of one connection.
fn requests(node: &mut Node) -> (Option<ConnectionId>, Vec<StoreRequest>) {
    let (mut connection, mut all) = (None, Vec::new());
    while let Some(request) = node.store.next_request() {
        let (id, one) = match request {
            DeliveryRequest::Fetch(fetch) => {
                let what = StoreRequest::Fetch(fetch.fetch.session_id, fetch.fetch.correlation_id);
                (fetch.connection, what)
            }
            DeliveryRequest::Cancel(id, cancel) => {
                (id, StoreRequest::Cancel(cancel.session_id, cancel.correlation_id))
            }
            DeliveryRequest::AddCredit(id, more) => {
                (id, StoreRequest::Credit(more.session_id, more.correlation_id))
            }
            DeliveryRequest::SessionEnded(id, session_id) => (id, StoreRequest::Ended(session_id)),
            DeliveryRequest::Gone(id) => (id, StoreRequest::Gone),
            DeliveryRequest::Writable(..) => continue,
        };
        assert!(connection.is_none_or(|known| known == id), "one connection");
        connection = Some(id);
        all.push(one);
    }
    (connection, all)
}

/// A connection with two sessions, each with a fetch of the same number at the store.
fn two_readers() -> (Node, Client, ConnectionId) {
    let mut node = Node::new();
    let mut client = node.connect();
    let welcome = client.say(&mut node, "logon 3 7\nlogon 4 7\n");
    assert_eq!(welcome.len(), 2, "{welcome:?}");
    assert!(client.say(&mut node, "fetch 3 9\nfetch 4 9\n").is_empty());
    let (connection, requests) = requests(&mut node);
    assert_eq!(requests, [StoreRequest::Fetch(ALICE, 9), StoreRequest::Fetch(BOB, 9)]);
    (node, client, connection.expect("they have asked"))
}

/// Sends a page of so many bytes from the store.
fn page(node: &mut Node, to: ConnectionId, session_id: SessionId, len: usize) {
    assert!(node.store.send(to, session_id, vec![0; len]), "the ring has room");
}

/// Returns the lines of pages that come within some steps.
fn pages(node: &mut Node, client: &mut Client) -> Vec<String> {
    let mut lines = client.listen(node, 20);
    lines.retain(|line| line.starts_with("pages"));
    lines
}

fn redefine(node: &mut Node, client: &mut Client, definition: DefineSession) -> Vec<String> {
    node.define(definition);
    client.listen(node, 20)
}

#[test]
fn every_end_of_a_session_reaches_the_store_and_no_page_comes_behind_it() {
    type End = fn(&mut Node, &mut Client) -> Vec<String>;
    let cases: [(&str, End); 4] = [
        ("LogoutRequested", |node, client| client.say(node, "logout 4\n")),
        ("KeyReplaced", |node, client| redefine(node, client, definition_of(BOB, 8))),
        ("KeyExpired", |node, client| {
            let definition = DefineSession { valid_until: Nanos(1), ..definition_of(BOB, 7) };
            redefine(node, client, definition)
        }),
        ("NotEntitled", |node, client| {
            let (firm_id, role) = (FirmId::NONE, Role::Supervisor);
            redefine(node, client, DefineSession { firm_id, role, ..definition_of(BOB, 7) })
        }),
    ];
    for (reason, end) in cases {
        let (mut node, mut client, connection) = two_readers();
        page(&mut node, connection, BOB, 1);
        assert_eq!(pages(&mut node, &mut client), ["pages 1"], "{reason}: while it is logged on");
        // The store does not know of the end yet: its pages are under way.
        page(&mut node, connection, ALICE, 2);
        let mut lines = end(&mut node, &mut client);
        lines.sort();
        assert_eq!(lines, [format!("bye 4 {reason}"), "pages 2".to_owned()]);
        assert_eq!(requests(&mut node).1, [StoreRequest::Ended(BOB)], "{reason}");
        page(&mut node, connection, BOB, 3);
        page(&mut node, connection, ALICE, 4);
        assert_eq!(pages(&mut node, &mut client), ["pages 4"], "{reason}: only of the other");
    }
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_bug_of_an_end_that_the_store_is_not_told_of_is_found() {
    use crate::plant::{self, Plant};

    plant::set(Some(Plant::EndUntoldToStore));
    let test = every_end_of_a_session_reaches_the_store_and_no_page_comes_behind_it;
    let is_found = std::panic::catch_unwind(test).is_err();
    plant::set(None);
    assert!(is_found);
}

#[test]
fn a_page_that_waits_behind_the_definition_that_ends_its_session_is_dropped() {
    let (mut node, mut client, connection) = two_readers();
    node.define(definition_of(BOB, 8));
    page(&mut node, connection, BOB, 1);
    assert_eq!(client.listen(&mut node, 20), ["bye 4 KeyReplaced"]);
}

#[test]
fn a_report_that_waits_behind_the_definition_that_ends_its_session_is_not_sent() {
    let (mut node, mut client, _) = two_readers();
    node.is_stalled = true;
    let silence = client.say(&mut node, "new 4 1 1 buy 10 100\nnew 3 1 1 buy 10 100\n");
    assert_eq!(silence, [""; 0]);
    // The gateway finds the definition and both orders' events in one cycle.
    node.define(definition_of(BOB, 8));
    node.trade();
    let lines = client.listen(&mut node, 20);
    let [end, report] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(end, "bye 4 KeyReplaced");
    assert!(report.starts_with("report 3 1 "), "{report}");
}

#[test]
fn a_page_that_waits_when_the_node_stops_is_not_for_a_session_that_has_ended() {
    let (mut node, mut client, connection) = two_readers();
    node.define(definition_of(BOB, 8));
    page(&mut node, connection, BOB, 1);
    page(&mut node, connection, ALICE, 2);
    node.stop();
    let lines = client.listen(&mut node, 20);
    assert_eq!(lines, ["bye 4 KeyReplaced", "pages 2", "bye 0 Stopping"]);
}

#[test]
fn pages_of_an_earlier_logon_are_not_taken_for_those_of_the_next() {
    let (mut node, mut client, connection) = two_readers();
    client.say(&mut node, "logout 4\n");
    client.say(&mut node, "logon 4 7\n");
    page(&mut node, connection, BOB, 1);
    assert!(pages(&mut node, &mut client).is_empty(), "it has not fetched since its logon");
    client.say(&mut node, "fetch 4 9\n");
    // The store has taken neither the end nor the new fetch.
    page(&mut node, connection, BOB, 2);
    assert!(pages(&mut node, &mut client).is_empty(), "a page of the earlier fetch");
    assert_eq!(requests(&mut node).1, [StoreRequest::Ended(BOB), StoreRequest::Fetch(BOB, 9)]);
    page(&mut node, connection, BOB, 3);
    assert_eq!(pages(&mut node, &mut client), ["pages 3"]);
}

#[test]
fn a_session_continues_and_cancels_its_own_fetches_alone() {
    let (mut node, mut client, _) = two_readers();
    assert!(client.say(&mut node, "credit 3 9 5\nuncall 3 9\n").is_empty());
    assert_eq!(
        requests(&mut node).1,
        [StoreRequest::Credit(ALICE, 9), StoreRequest::Cancel(ALICE, 9)]
    );
    client.say(&mut node, "logout 4\n");
    let refused = client.say(&mut node, "credit 4 9 5\nuncall 4 9\n");
    assert_eq!(refused, ["reject 4 9 NotLoggedOn ", "reject 4 9 NotLoggedOn "]);
    assert_eq!(requests(&mut node).1, [StoreRequest::Ended(BOB)]);
}

#[test]
fn a_session_that_fetches_nothing_costs_the_store_nothing_at_its_end() {
    let mut node = Node::new();
    let mut client = node.connect();
    client.say(&mut node, "logon 3 7\nlogon 4 7\nlogout 4\n");
    assert!(requests(&mut node).1.is_empty());
}

#[test]
fn a_connection_that_is_closed_ends_all_of_its_sessions_first() {
    let (mut node, mut client, connection) = two_readers();
    let lines = client.say(&mut node, "logout 0\n");
    assert_eq!(lines, ["bye 0 LogoutRequested"]);
    let requests = requests(&mut node).1;
    assert_eq!(
        requests,
        [StoreRequest::Ended(ALICE), StoreRequest::Ended(BOB), StoreRequest::Gone]
    );
    page(&mut node, connection, ALICE, 1);
    node.step();
}

#[test]
fn a_connection_whose_requests_wait_for_a_stalled_disk_is_not_silent() {
    let mut node = Node::new();
    let mut client = node.connect();
    client.say(&mut node, "logon 3 7\nlogon 4 7\n");
    node.is_stalled = true;
    // More orders than the ring to the partition takes: the last ones wait, and all behind them.
    for first in (0..8_500).step_by(100) {
        let orders: String = (first + 1..=first + 100)
            .map(|number| format!("new 3 {number} 1 buy 10 100\n"))
            .collect();
        client.say(&mut node, &orders);
    }
    // Eight times the silence at which a session is lost. Both sessions are alive, and hear of the
    // node in each heartbeat interval.
    for _ in 0..20 {
        let mut lines = client.say(&mut node, "alive 3\nalive 4\n");
        lines.extend(client.listen(&mut node, 980));
        assert_eq!(endings(&lines), [""; 0]);
        for session in ["alive 3 ", "alive 4 "] {
            assert!(lines.iter().any(|line| line.starts_with(session)), "{lines:?}");
        }
    }
    // When the disk goes on, so does the connection, and silence counts again.
    node.is_stalled = false;
    let lines = client.listen(&mut node, 6_000);
    assert_eq!(endings(&lines), ["bye 3 HeartbeatLost", "bye 4 HeartbeatLost"]);
}

/// The lines by which connections and sessions end.
fn endings(lines: &[String]) -> Vec<&str> {
    lines.iter().map(String::as_str).filter(|line| line.starts_with("bye")).collect()
}

const HOUR: u64 = 3_600_000_000_000;

#[test]
fn a_wall_clock_that_is_set_makes_nobody_silent_late_or_mute() {
    let (mut node, mut lines) = (Node::new(), Vec::new());
    let begin = node.now.0 + HOUR;
    let mut client = node.connect();
    client.say(&mut node, "logon 3 7\nlogon 4 7\n");
    let mut stranger = node.connect();
    for wall in [begin + HOUR, begin - HOUR, begin + 99 * HOUR, begin] {
        node.set_wall_clock(Nanos(wall));
        lines.extend(client.say(&mut node, "alive 3\nalive 4\n"));
        let told = client.listen(&mut node, 1_100);
        for session in ["alive 3 ", "alive 4 "] {
            assert!(told.iter().any(|line| line.starts_with(session)), "{wall}: {told:?}");
        }
        lines.extend(stranger.listen(&mut node, 10));
    }
    assert_eq!(endings(&lines), [""; 0]);
    // Time that passes counts as before.
    let lines = client.listen(&mut node, 6_000);
    assert_eq!(endings(&lines), ["bye 3 HeartbeatLost", "bye 4 HeartbeatLost"]);
}

#[test]
fn a_key_expires_when_the_wall_clock_shows_its_moment() {
    let mut node = Node::new();
    let until = Nanos(node.now.0 + HOUR);
    node.define(DefineSession { valid_until: until, ..definition_of(BOB, 7) });
    let mut client = node.connect();
    client.listen(&mut node, 20);
    client.say(&mut node, "logon 3 7\nlogon 4 7\n");
    node.set_wall_clock(Nanos(until.0 - 1_000_000_000));
    assert_eq!(endings(&client.say(&mut node, "alive 3\nalive 4\n")), [""; 0]);
    node.set_wall_clock(until);
    let told = client.say(&mut node, "alive 3\nalive 4\nlogon 4 7\n");
    assert!(told.contains(&"bye 4 KeyExpired".to_owned()), "{told:?}");
    assert!(told.contains(&"refused 4 KeyExpired".to_owned()), "{told:?}");
    // A clock that was set forward by mistake takes nobody the key.
    node.set_wall_clock(Nanos(until.0 - 1_000_000_000));
    assert_eq!(client.say(&mut node, "logon 4 7\n").len(), 1);
}
