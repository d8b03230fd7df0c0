//! Takeovers: the numbers and answers of a session that goes on, the end that the old connection
//! hears, and the logons that take nothing over. Lines drive the gateway.

use weir_door::reader_rings::DeliveryRequest;
use weir_types::{FirmId, RequestNo, Role, SessionId, Switch};
use weir_wire::Command;
use weir_wire::reference::{DefineSession, SessionChoice, SessionLost};

use crate::second_protocol::{Client, Node, OTHER_SESSION, definition_of};

const ALICE: SessionId = SessionId(3);
/// A session that tests define.
const NEWEST: SessionId = SessionId(5);
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
    // The old connection does not get it back, and one that is made later does.
    old.listen(&mut node, SECOND);
    let lines = old.say(&mut node, "take 3 7\n");
    assert!(lines.contains(&"refused 3 AlreadyLoggedOn".to_owned()), "{lines:?}");
    assert_eq!(endings(&new.listen(&mut node, 20)), [""; 0]);
    let mut last = logged_on(&mut node, "take 3 7\n");
    assert_eq!(endings(&new.listen(&mut node, 20)), ["bye 3 TakenOver"]);
    trades(&mut node, &mut last, 3, 2);
}

#[test]
fn a_logon_that_comes_late_on_an_older_connection_takes_nothing_over() {
    let mut node = Node::new();
    // Connections that the client gives up: one without a session, and one with another session.
    let mut newcomer = node.connect();
    newcomer.listen(&mut node, 5);
    let older = logged_on(&mut node, "logon 4 7\n");
    let mut live = logged_on(&mut node, "bind 3 7\n");
    trades(&mut node, &mut live, 3, 1);
    for mut late in [newcomer, older] {
        assert_eq!(late.say(&mut node, "take 3 7\n"), ["refused 3 AlreadyLoggedOn"]);
        // The end of the connection comes behind its logon.
        drop(late);
        assert_eq!(endings(&live.listen(&mut node, 20)), [""; 0]);
    }
    trades(&mut node, &mut live, 3, 2);
    let _later = logged_on(&mut node, "take 3 7\n");
    assert_eq!(endings(&live.listen(&mut node, 20)), ["bye 3 TakenOver"]);
}

/// The event's number, the request's number and the kind of each line's report.
fn told(lines: &[String]) -> Vec<[&str; 3]> {
    let told = lines.iter().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[0], "report", "{lines:?}");
        [words[2], words[3], words[4]]
    });
    told.collect()
}

/// A node at which Alice may have two requests under way.
fn with_window_of_two() -> Node {
    let mut node = Node::new();
    node.define(DefineSession { in_flight_max: 2, ..definition_of(ALICE, 7) });
    (0..20).for_each(|_| node.step());
    node
}

#[test]
fn requests_that_are_sent_again_while_under_way_are_not_refused_by_a_full_window() {
    let mut node = with_window_of_two();
    let mut old = logged_on(&mut node, "logon 3 7\n");
    node.is_stalled = true;
    let both = "new 3 5 1 buy 10 100\nnew 3 6 1 buy 10 100\n";
    assert_eq!(old.say(&mut node, both), [""; 0]);
    let mut new = logged_on(&mut node, "take 3 7 1:1:0\n");
    for _ in 0..3 {
        assert_eq!(new.say(&mut node, both), [""; 0], "their first copies are under way");
    }
    let refused = new.say(&mut node, "new 3 7 1 buy 10 100\n");
    assert_eq!(refused, ["reject 3 7 TooManyInFlight "]);
    node.is_stalled = false;
    let lines = new.listen(&mut node, 40);
    assert_eq!(told(&lines), [["1", "5", "New"], ["2", "6", "New"]], "each once");
    trades(&mut node, &mut new, 3, 7);
}

#[test]
fn a_request_that_was_received_is_answered_again_whatever_its_session_may_send_by_then() {
    let mut node = Node::new();
    let mut client = logged_on(&mut node, "logon 3 7\n");
    trades(&mut node, &mut client, 3, 5);
    node.define(DefineSession { role: Role::DropCopy, ..definition_of(ALICE, 7) });
    (0..20).for_each(|_| node.step());
    let mut client = logged_on(&mut node, "logon 3 7\n");
    let lines = client.say(&mut node, "new 3 5 1 buy 10 100\nnew 3 6 1 buy 10 100\n");
    assert_eq!(told(&lines[1..]), [["2", "5", "New"]], "{lines:?}");
    assert_eq!(lines[0], "reject 3 6 NotEntitled ");
}

/// A trader could keep a symbol from its operators with requests that are not executed.
#[test]
fn a_request_that_was_received_reserves_no_name() {
    let mut node = Node::new();
    node.define(DefineSession { role: Role::Operator, ..definition_of(OTHER_SESSION, 7) });
    (0..20).for_each(|_| node.step());
    let mut trader = logged_on(&mut node, "logon 3 7\n");
    let mut operator = logged_on(&mut node, "logon 4 7\n");
    trades(&mut node, &mut trader, 3, 5);
    node.is_stalled = true;
    assert_eq!(trader.say(&mut node, "rename 3 4 9 NEW\n"), [""; 0], "it is handed over");
    assert_eq!(trader.say(&mut node, "rename 3 6 9 NEW\n"), ["reject 3 6 NotEntitled "]);
    assert_eq!(operator.say(&mut node, "rename 4 1 1 NEW\n"), [""; 0], "so is this");
}

#[test]
fn answered_requests_that_are_sent_again_take_no_place_in_the_window() {
    let mut node = with_window_of_two();
    let mut client = logged_on(&mut node, "logon 3 7\n");
    for number in 5..=7 {
        trades(&mut node, &mut client, 3, number);
    }
    node.is_stalled = true;
    let again = "new 3 5 1 buy 10 100\nnew 3 6 1 buy 10 100\n";
    assert_eq!(client.say(&mut node, again), [""; 0]);
    // The client has had their answers: none of its requests is unanswered.
    let more = "new 3 8 1 buy 10 100\nnew 3 9 1 buy 10 100\n";
    assert_eq!(client.say(&mut node, more), [""; 0]);
    assert_eq!(client.say(&mut node, again), [""; 0], "both are under way");
    let refused = client.say(&mut node, "new 3 10 1 buy 10 100\n");
    assert_eq!(refused, ["reject 3 10 TooManyInFlight "]);
    // Another one waits, with the messages behind it.
    assert_eq!(client.say(&mut node, "new 3 7 1 buy 10 100\nnew 3 10 1 buy 10 100\n"), [""; 0]);
    node.is_stalled = false;
    let lines = client.listen(&mut node, 40);
    let expected = [
        ["4", "5", "New"],
        ["5", "6", "New"],
        ["6", "8", "New"],
        ["7", "9", "New"],
        ["8", "7", "New"],
        ["9", "10", "New"],
    ];
    assert_eq!(told(&lines), expected);
}

#[test]
fn a_request_that_is_sent_again_while_under_way_is_refused_once_where_it_came_last() {
    let mut node = Node::new();
    let mut old = logged_on(&mut node, "logon 3 7\n");
    node.is_stalled = true;
    assert_eq!(old.say(&mut node, "new 3 5 1 buy 10 100\n"), [""; 0]);
    let mut new = logged_on(&mut node, "take 3 7 1:1:0\n");
    assert_eq!(new.say(&mut node, "new 3 5 1 buy 10 100\n"), [""; 0]);
    node.refuse_requests();
    assert_eq!(new.listen(&mut node, 20), ["reject 3 5 LogFull "]);
    assert_eq!(old.listen(&mut node, 20), ["bye 3 TakenOver"]);
}

#[test]
fn a_refusal_that_crosses_the_request_sent_again_is_not_told_on_the_new_connection() {
    let mut node = Node::new();
    let mut old = logged_on(&mut node, "logon 3 7\n");
    node.is_stalled = true;
    assert_eq!(old.say(&mut node, "new 3 5 1 buy 10 100\n"), [""; 0]);
    let mut new = logged_on(&mut node, "take 3 7 1:1:0\n");
    node.refuse_requests();
    assert_eq!(new.listen(&mut node, 20), [""; 0], "its own copy is on its way");
    node.is_stalled = false;
    trades(&mut node, &mut new, 3, 5);
}

#[test]
fn a_refusal_that_crosses_a_logon_on_the_connection_of_the_request_is_not_told_there() {
    for goes_by_another in [false, true] {
        let mut node = Node::new();
        let mut client = logged_on(&mut node, "logon 3 7\n");
        node.is_stalled = true;
        assert_eq!(client.say(&mut node, "new 3 5 1 buy 10 100\n"), [""; 0]);
        if goes_by_another {
            let mut other = logged_on(&mut node, "take 3 7\n");
            assert_eq!(client.listen(&mut node, 20), ["bye 3 TakenOver"]);
            assert_eq!(other.say(&mut node, "logout 3\n"), ["bye 3 LogoutRequested"]);
        } else {
            assert_eq!(client.say(&mut node, "logout 3\n"), ["bye 3 LogoutRequested"]);
        }
        let again = client.say(&mut node, "logon 3 7 1:1:0\n");
        assert!(again[0].starts_with("welcome "), "{again:?}");
        node.refuse_requests();
        assert_eq!(client.listen(&mut node, 20), [""; 0], "its next copy is on its way");
        node.is_stalled = false;
        trades(&mut node, &mut client, 3, 5);
    }
}

#[test]
fn a_refusal_without_an_event_number_that_crosses_a_logon_is_not_told_behind_it() {
    let mut node = Node::new();
    // The partition does not know the session yet.
    node.define(definition_of(NEWEST, 7));
    (0..20).for_each(|_| node.step());
    let mut old = logged_on(&mut node, "logon 5 7\n");
    node.is_stalled = true;
    assert_eq!(old.say(&mut node, "new 5 5 1 buy 10 100\n"), [""; 0]);
    let mut new = logged_on(&mut node, "take 5 7\n");
    node.is_stalled = false;
    assert_eq!(new.listen(&mut node, 20), [""; 0], "its own copy is on its way");
    let refused = new.say(&mut node, "new 5 5 1 buy 10 100\n");
    assert_eq!(refused, ["refusal 5 0 5 UnknownSession"]);
}

#[test]
fn a_request_that_a_full_log_refused_does_not_count_as_received() {
    let mut node = Node::new();
    let mut client = logged_on(&mut node, "logon 3 7\n");
    trades(&mut node, &mut client, 3, 1);
    node.is_stalled = true;
    assert_eq!(client.say(&mut node, "new 3 2 1 buy 10 100\n"), [""; 0]);
    assert_eq!(node.last_request_no(ALICE), RequestNo(2));
    node.refuse_requests();
    assert_eq!(client.listen(&mut node, 20), ["reject 3 2 LogFull "]);
    // A client that has not received the refusal sends the request again, before any later one.
    let mut again = logged_on(&mut node, "take 3 7\n");
    assert_eq!(node.last_request_no(ALICE), RequestNo(1));
    node.is_stalled = false;
    trades(&mut node, &mut again, 3, 2);
    assert_eq!(node.last_request_no(ALICE), RequestNo(2));
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
fn a_session_of_any_role_is_taken_over_where_its_logon_asks_and_once_a_second() {
    for (role, firm_id) in [(Role::Trader, FirmId(1)), (Role::Operator, FirmId::NONE)] {
        let mut node = Node::new();
        node.define(DefineSession { firm_id, role, ..definition_of(NEWEST, 7) });
        (0..20).for_each(|_| node.step());
        let mut last = logged_on(&mut node, "logon 5 7\n");
        for _ in 0..3 {
            let refused = node.connect().say(&mut node, "logon 5 7\n");
            assert_eq!(refused, ["refused 5 AlreadyLoggedOn"], "{role:?} does not ask");
            let next = logged_on(&mut node, "take 5 7\n");
            let refused = node.connect().say(&mut node, "take 5 7\n");
            assert_eq!(refused, ["refused 5 AlreadyLoggedOn"], "{role:?} asks too soon");
            let lines = last.listen(&mut node, SECOND);
            assert_eq!(endings(&lines), ["bye 5 TakenOver"]);
            last = next;
        }
        assert_eq!(endings(&last.say(&mut node, "alive 5\n")), [""; 0]);
    }
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
    let found_by: [(Plant, fn()); 8] = [
        (
            Plant::TakeoverKeepsOldConnection,
            a_takeover_goes_on_as_if_the_old_connection_had_closed_first,
        ),
        (Plant::TakeoverBeforeProof, a_logon_that_is_refused_ends_nothing_on_another_connection),
        (
            Plant::TakeoverUnbounded,
            a_session_of_any_role_is_taken_over_where_its_logon_asks_and_once_a_second,
        ),
        (
            Plant::TakeoverByOldConnection,
            a_logon_that_comes_late_on_an_older_connection_takes_nothing_over,
        ),
        (Plant::RepeatsRefused, answered_requests_that_are_sent_again_take_no_place_in_the_window),
        (
            Plant::RepeatsHandedOver,
            requests_that_are_sent_again_while_under_way_are_not_refused_by_a_full_window,
        ),
        (
            Plant::RefusedOnAnotherConnection,
            a_refusal_that_crosses_the_request_sent_again_is_not_told_on_the_new_connection,
        ),
        (
            Plant::RefusedCountsAsReceived,
            a_request_that_a_full_log_refused_does_not_count_as_received,
        ),
    ];
    for (bug, test) in found_by {
        assert!(plant::is_found(bug, test), "{bug:?}");
    }
}
