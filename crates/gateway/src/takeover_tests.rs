//! Takeovers: the numbers and answers of a session that goes on, the end that the old connection
//! hears, and the logons that take nothing over. Lines drive the gateway.

use weir_door::reader_rings::DeliveryRequest;
use weir_types::{FirmId, RequestNo, Role, SessionId, Switch};
use weir_wire::Command;
use weir_wire::reference::{DefineSession, SessionChoice, SessionLost};

use crate::second_protocol::{Client, Node, definition_of};

const ALICE: SessionId = SessionId(3);
const OPERATOR: SessionId = SessionId(5);
/// Steps of a second, with some more.
const SECOND: u32 = 1_020;

/// A connection that has logged on by this line.
fn logged_on(node: &mut Node, logon: &str) -> Client {
    let mut client = node.connect();
    let lines = client.say(node, logon);
    assert!(lines.iter().any(|line| line.starts_with("welcome ")), "{logon:?}: {lines:?}");
    client
}

/// The lines by which connections and sessions end.
fn endings(lines: &[String]) -> Vec<&str> {
    lines.iter().map(String::as_str).filter(|line| line.starts_with("bye")).collect()
}

/// Enters an order and requires its report.
fn trades(node: &mut Node, client: &mut Client, session: u32, number: u32) {
    let lines = client.say(node, &format!("new {session} {number} 1 buy 10 100\n"));
    let [report] = &lines[..] else { panic!("{lines:?}") };
    assert!(report.starts_with(&format!("report {session} ")), "{report}");
}

/// The lines that a session gets on another connection: of a logon that resumes from its first
/// event while an answer is under way, and of a request then.
fn lines_on_another_connection(closes_first: bool) -> Vec<String> {
    let mut node = Node::new();
    let mut old = logged_on(&mut node, "logon 3 7\n");
    trades(&mut node, &mut old, 3, 1);
    node.is_stalled = true;
    assert_eq!(old.say(&mut node, "new 3 2 1 buy 10 100\n"), [""; 0]);
    let mut old = Some(old);
    let mut new = node.connect();
    if closes_first {
        drop(old.take());
        new.listen(&mut node, 20);
    }
    let mut lines = new.say(&mut node, "take 3 7 1:1:0\n");
    node.is_stalled = false;
    lines.extend(new.listen(&mut node, 20));
    lines.extend(new.say(&mut node, "new 3 3 1 buy 10 100\n"));
    let told = old.map(|mut old| old.say(&mut node, "new 3 9 1 buy 10 100\n"));
    let expected = ["bye 3 TakenOver".to_owned(), "reject 3 9 NotLoggedOn ".to_owned()];
    assert_eq!(told, (!closes_first).then(|| expected.to_vec()));
    lines
}

#[test]
fn a_takeover_goes_on_as_if_the_old_connection_had_closed_first() {
    let lines = lines_on_another_connection(false);
    let [welcome, first, second, third] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(welcome, "welcome 3 firm 1 0:1 1:2");
    for (line, number) in [(first, 1), (second, 2), (third, 3)] {
        let begin = format!("report 3 {number} {number} New ");
        assert!(line.starts_with(&begin), "{line}, want {begin:?}");
    }
    assert_eq!(lines, lines_on_another_connection(true));
}

#[test]
fn a_logon_is_told_the_number_of_a_request_that_is_under_way() {
    let mut node = Node::new();
    let mut old = logged_on(&mut node, "logon 3 7\n");
    trades(&mut node, &mut old, 3, 1);
    node.is_stalled = true;
    old.say(&mut node, "new 3 7 1 buy 10 100\n");
    let mut new = logged_on(&mut node, "take 3 7\n");
    // One that goes on above it gets its own answer, not that of the request under way.
    assert_eq!(node.last_request_no(ALICE), RequestNo(7));
    new.say(&mut node, "new 3 8 1 buy 20 100\n");
    node.is_stalled = false;
    let lines = new.listen(&mut node, 20);
    let [under_way, own] = &lines[..] else { panic!("{lines:?}") };
    assert!(under_way.starts_with("report 3 2 7 ") && under_way.ends_with(" 10"), "{under_way}");
    assert!(own.starts_with("report 3 3 8 ") && own.ends_with(" 20"), "{own}");
    assert_eq!(node.last_request_no(ALICE), RequestNo(8));
}

#[test]
fn only_the_session_that_is_taken_over_ends_on_the_old_connection() {
    let mut node = Node::new();
    let mut old = logged_on(&mut node, "logon 3 7\nlogon 4 7\n");
    let mut new = logged_on(&mut node, "take 3 7\n");
    assert_eq!(old.listen(&mut node, 20), ["bye 3 TakenOver"]);
    trades(&mut node, &mut old, 4, 1);
    trades(&mut node, &mut new, 3, 1);
    // A connection that the gateway has already takes over too, and the first one gets it back.
    old.listen(&mut node, SECOND);
    let lines = old.say(&mut node, "take 3 7\n");
    assert!(lines.contains(&"welcome 3 firm 1 0:1 1:2".to_owned()), "{lines:?}");
    let lines = new.listen(&mut node, 20);
    assert_eq!(endings(&lines), ["bye 3 TakenOver"]);
}

#[test]
fn a_logon_that_is_refused_ends_nothing_on_another_connection() {
    let mut node = Node::new();
    let mut old = logged_on(&mut node, "logon 3 7\n");
    for (logon, reason) in [
        ("take 3 8\n", "UnknownKey"),
        ("take 3 7 1:9:0\n", "ResumeOutOfRange"),
        ("take 3 7 9:1:0\n", "WrongPartition"),
        ("take 3 7 one\n", "FieldOutOfRange"),
        ("logon 3 7\n", "AlreadyLoggedOn"),
    ] {
        let refused = format!("refused 3 {reason}");
        // By the newcomers' thread, and by the gateway on a connection that it has.
        assert_eq!(node.connect().say(&mut node, logon)[0], refused);
        let mut other = logged_on(&mut node, "logon 4 7\n");
        assert_eq!(other.say(&mut node, logon)[0], refused);
        drop(other);
        assert_eq!(old.listen(&mut node, 20), [""; 0], "{logon:?}");
    }
    assert_eq!(old.say(&mut node, "take 3 7\n"), ["refused 3 AlreadyLoggedOn"], "its own");
    trades(&mut node, &mut old, 3, 1);
}

#[test]
fn an_operator_takes_over_unasked_and_once_a_second() {
    let mut node = Node::new();
    let (firm_id, role) = (FirmId::NONE, Role::Operator);
    node.define(DefineSession { firm_id, role, ..definition_of(OPERATOR, 7) });
    (0..20).for_each(|_| node.step());
    let mut last = logged_on(&mut node, "logon 5 7\n");
    for _ in 0..3 {
        let next = logged_on(&mut node, "logon 5 7\n");
        let refused = node.connect().say(&mut node, "logon 5 7\n");
        assert_eq!(refused, ["refused 5 AlreadyLoggedOn"]);
        let lines = last.listen(&mut node, SECOND);
        assert_eq!(endings(&lines), ["bye 5 TakenOver"]);
        last = next;
    }
    assert_eq!(endings(&last.say(&mut node, "alive 5\n")), [""; 0]);
}

#[test]
fn a_takeover_cancels_nothing_and_its_choice_holds() {
    let chose = |cancel_on_disconnect| {
        Command::SessionChoice(SessionChoice { session_id: ALICE, cancel_on_disconnect })
    };
    let lost =
        Command::SessionLost(SessionLost { session_id: ALICE, cancel_on_disconnect: Switch::On });
    for (takeover, on_takeover, at_the_end) in
        [("seize 3 7\n", vec![], vec![lost]), ("take 3 7\n", vec![chose(Switch::Off)], vec![])]
    {
        let mut node = Node::new();
        node.is_stalled = true;
        let old = logged_on(&mut node, "bind 3 7\n");
        assert_eq!(node.submissions(), [chose(Switch::On)]);
        let mut new = logged_on(&mut node, takeover);
        assert_eq!(node.submissions(), on_takeover, "{takeover:?}");
        // The end of the old connection is not the session's.
        drop(old);
        new.listen(&mut node, 20);
        assert_eq!(node.submissions(), [], "{takeover:?}");
        new.say(&mut node, "logout 3\n");
        assert_eq!(node.submissions(), at_the_end, "{takeover:?}");
    }
}

#[test]
fn a_takeover_waits_for_no_connection_that_does_not_read() {
    let mut node = Node::new();
    node.set_buffer_len(64);
    let mut stalled = logged_on(&mut node, "logon 3 7\n");
    for number in 1..=5 {
        stalled.tell(&mut node, &format!("new 3 {number} 1 buy 10 100\n"));
    }
    let mut new = node.connect();
    let mut lines = new.say(&mut node, "take 3 7 1:1:0\n");
    lines.extend(new.listen(&mut node, 40));
    assert_eq!((lines.len(), &*lines[0]), (6, "welcome 3 firm 1 0:1 1:6"), "{lines:?}");
    trades(&mut node, &mut new, 3, 6);
    // The rest of its output and its end wait for the old peer.
    let lines = stalled.listen(&mut node, 40);
    assert_eq!((lines.len(), &*lines[5]), (6, "bye 3 TakenOver"), "{lines:?}");
}

#[test]
fn the_fetches_of_a_session_end_where_it_is_taken_over() {
    let mut node = Node::new();
    let mut old = logged_on(&mut node, "logon 3 7\n");
    old.say(&mut node, "fetch 3 9\n");
    let Some(DeliveryRequest::Fetch(fetch)) = node.store.next_request() else { panic!("a fetch") };
    let mut new = logged_on(&mut node, "take 3 7\n");
    let Some(DeliveryRequest::SessionEnded(from, session_id)) = node.store.next_request() else {
        panic!("an end")
    };
    assert_eq!((from, session_id), (fetch.connection, ALICE));
    assert!(node.store.send(fetch.connection, ALICE, vec![0; 1]), "the ring has room");
    assert_eq!(old.listen(&mut node, 20), ["bye 3 TakenOver"]);
    assert_eq!(new.listen(&mut node, 20), [""; 0]);
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_bugs_of_takeovers_are_found() {
    use crate::plant::{self, Plant};
    let found_by: [(Plant, fn()); 3] = [
        (
            Plant::TakeoverKeepsOldConnection,
            a_takeover_goes_on_as_if_the_old_connection_had_closed_first,
        ),
        (Plant::TakeoverBeforeProof, a_logon_that_is_refused_ends_nothing_on_another_connection),
        (Plant::TakeoverUnbounded, an_operator_takes_over_unasked_and_once_a_second),
    ];
    for (bug, test) in found_by {
        plant::set(Some(bug));
        let found = std::panic::catch_unwind(test);
        plant::set(None);
        assert!(found.is_err(), "{bug:?}");
    }
}
