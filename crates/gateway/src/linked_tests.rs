//! Logons of a gateway process: the questions to the links in their order, and the ends of a logon
//! that comes to nothing. Lines drive the gateway, and the tests answer for the links.

use weir_link::gateway_end::SessionPoint;
use weir_link::message::{Seal, SessionBound, SessionClaimed};
use weir_partition::event_reader::EventReader;
use weir_types::{
    Epoch, EventNo, FirmId, Nanos, PartitionId, Reason, RequestNo, Role, SessionId, Switch,
};
use weir_wire::reference::DefineSession;

use crate::linked::{BindAsk, LinkAgentPort, LinkAnswer, LinkAsk, ListedBinding};
use crate::second_protocol::{Client, Node, definition_of};

const ALICE: SessionId = SessionId(3);
const GENERATION: u64 = 5;
const SEAL: Seal = Seal([7; 16]);
const NO_POINT: SessionPoint = SessionPoint { next_event_no: EventNo::NONE, epoch: Epoch::NONE };
/// Steps of five seconds, with some more.
const LOGON_TIME: u32 = 5_020;

/// The ends of the links.
struct Links {
    ends: [LinkAgentPort; 2],
    /// The number of the last question that binds a session, of each port.
    asked: [u64; 2],
}

impl Links {
    /// Returns a node, and the ends of its links, which are open.
    fn open() -> (Node, Links) {
        let (node, ends) = Node::linked();
        let mut links = Links { ends, asked: [0; 2] };
        links.tell(0, LinkAnswer::Opened(1));
        links.tell(1, LinkAnswer::Opened(1));
        (node, links)
    }

    fn tell(&mut self, port: usize, answer: LinkAnswer) {
        assert!(self.ends[port].answers.push(answer).is_ok(), "a ring with room takes one more");
    }

    fn asks(&mut self, port: usize) -> Vec<LinkAsk> {
        let asks: Vec<_> = std::iter::from_fn(|| self.ends[port].asks.pop().ok()).collect();
        for ask in &asks {
            if let LinkAsk::Bind(ask) = ask {
                self.asked[port] = ask.number;
            }
        }
        asks
    }

    fn bound(&mut self, port: usize, bound: SessionBound) {
        let partition_id = PartitionId(port as u16);
        let bound = SessionBound { partition_id, ..bound };
        let number = self.asked[port];
        self.tell(port, LinkAnswer::Bound(ListedBinding::new(bound, Vec::new(), number)));
    }

    fn claimed(&mut self, reason: Reason) {
        self.granted(GENERATION, reason);
    }

    fn granted(&mut self, generation: u64, reason: Reason) {
        let (seal, session_id) = (SEAL, SessionId(501));
        let bound_session_id = ALICE;
        let claimed = SessionClaimed { generation, seal, session_id, bound_session_id, reason };
        self.tell(0, LinkAnswer::Claimed(claimed));
    }

    /// Answers a logon up to its bindings; the client has sent it.
    fn let_bind(&mut self, node: &mut Node, client: &mut Client) {
        for port in [0, 1] {
            assert!(matches!(self.asks(port)[..], [LinkAsk::Check(ALICE, _)]));
            self.bound(port, CHECKED);
        }
        assert!(client.listen(node, 2).is_empty());
        assert!(matches!(self.asks(0)[..], [LinkAsk::Claim(ALICE, _)]));
        self.claimed(Reason::None);
        assert!(client.listen(node, 2).is_empty());
    }

    /// Answers a logon up to its end, and returns the lines of it.
    fn let_in(&mut self, node: &mut Node, client: &mut Client) -> Vec<String> {
        self.let_bind(node, client);
        for port in [0, 1] {
            let asks = self.asks(port);
            let [LinkAsk::Bind(ask)] = asks[..] else { panic!("{asks:?}") };
            assert_eq!((ask.wanted.generation, ask.wanted.seal), (GENERATION, SEAL));
            self.bound(port, BOUND);
        }
        client.listen(node, 10)
    }

    /// Answers a logon up to its end, without the partition, which is away.
    fn let_in_without_partition(&mut self, node: &mut Node, client: &mut Client) {
        assert_eq!(self.asks(0), [LinkAsk::Check(ALICE, NO_POINT)]);
        self.bound(0, CHECKED);
        client.listen(node, 2);
        self.asks(0);
        self.claimed(Reason::None);
        client.listen(node, 2);
        self.asks(0);
        self.bound(0, BOUND);
        assert_eq!(client.listen(node, 10), ["welcome 3 firm 1 0:1 1:0"]);
    }
}

/// The answer of a partition with which a session can go on.
const CHECKED: SessionBound = SessionBound {
    generation: 0,
    next_record: 1,
    last_request_no: RequestNo::NONE,
    next_event_no: EventNo(1),
    oldest_event_no: EventNo(1),
    session_id: SessionId(501),
    bound_session_id: ALICE,
    epoch: Epoch(1),
    record_count: 0,
    partition_id: PartitionId(0),
    reason: Reason::None,
    is_check: Switch::On,
};

const BOUND: SessionBound =
    SessionBound { generation: GENERATION, is_check: Switch::Off, ..CHECKED };

#[test]
fn a_logon_asks_the_partitions_then_control_and_is_bound() {
    let (mut node, mut links) = Links::open();
    let mut client = node.connect();
    // A request right behind the logon waits for its end.
    client.tell(&mut node, "logon 3 7\nnew 3 1 1 buy 10 100\n");
    let lines = links.let_in(&mut node, &mut client);
    let [welcome, report] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(welcome, "welcome 3 firm 1 0:1 1:1");
    assert!(report.starts_with("report 3 1 1 New"), "{report}");
    assert_eq!(client.say(&mut node, "logout 3\n"), ["bye 3 LogoutRequested"]);
    let unbind = LinkAsk::Unbind(ALICE, GENERATION, Switch::On);
    assert_eq!(links.asks(1), [unbind]);
    assert_eq!(links.asks(0), [unbind, LinkAsk::Release(ALICE, GENERATION)]);
}

#[test]
fn a_logon_that_a_partition_refuses_claims_nothing() {
    let (mut node, mut links) = Links::open();
    let mut client = node.connect();
    client.tell(&mut node, "logon 3 7 1:9:1\n");
    let wanted = SessionPoint { next_event_no: EventNo(9), epoch: Epoch(1) };
    assert_eq!(links.asks(0), [LinkAsk::Check(ALICE, NO_POINT)]);
    assert_eq!(links.asks(1), [LinkAsk::Check(ALICE, wanted)]);
    links.bound(1, SessionBound { reason: Reason::ResumeOutOfRange, ..CHECKED });
    assert_eq!(client.listen(&mut node, 10), ["refused 3 ResumeOutOfRange"]);
    // The other answer comes too late.
    links.bound(0, CHECKED);
    client.listen(&mut node, 10);
    assert!(links.asks(0).is_empty() && links.asks(1).is_empty());
    // The connection goes on.
    client.tell(&mut node, "logon 3 7\n");
    assert_eq!(links.let_in(&mut node, &mut client), ["welcome 3 firm 1 0:1 1:1"]);
}

#[test]
fn a_logon_that_control_or_a_partition_refuses_at_last_is_given_up() {
    let (mut node, mut links) = Links::open();
    let mut client = node.connect();
    client.tell(&mut node, "logon 3 7\n");
    for port in [0, 1] {
        links.asks(port);
        links.bound(port, CHECKED);
    }
    client.listen(&mut node, 2);
    links.asks(0);
    links.claimed(Reason::AlreadyLoggedOn);
    assert_eq!(client.listen(&mut node, 10), ["refused 3 AlreadyLoggedOn"]);
    assert!(links.asks(0).is_empty() && links.asks(1).is_empty());

    client.tell(&mut node, "logon 3 7\n");
    links.let_bind(&mut node, &mut client);
    for port in [0, 1] {
        links.asks(port);
    }
    links.bound(0, BOUND);
    links.bound(1, SessionBound { reason: Reason::TakenOver, ..BOUND });
    assert_eq!(client.listen(&mut node, 10), ["refused 3 TakenOver"]);
    let unbind = LinkAsk::Unbind(ALICE, GENERATION, Switch::Off);
    assert_eq!(links.asks(0), [unbind, LinkAsk::Release(ALICE, GENERATION)]);
    assert_eq!(links.asks(1), [unbind]);
}

#[test]
fn a_logon_without_control_or_without_its_answer_is_refused() {
    let (mut node, mut links) = Links::open();
    let mut client = node.connect();
    links.tell(0, LinkAnswer::Away);
    assert_eq!(client.say(&mut node, "logon 3 7\n"), ["refused 3 PartitionAway"]);
    links.tell(0, LinkAnswer::Opened(1));
    client.tell(&mut node, "logon 3 7\n");
    assert_eq!(client.listen(&mut node, LOGON_TIME), ["refused 3 PartitionAway"]);
}

#[test]
fn a_partition_that_does_not_know_a_session_yet_is_asked_again() {
    let (mut node, mut links) = Links::open();
    let mut client = node.connect();
    client.tell(&mut node, "logon 3 7\n");
    links.asks(1);
    links.bound(1, SessionBound { reason: Reason::UnknownSession, ..CHECKED });
    client.listen(&mut node, 20);
    assert_eq!(links.asks(1), [LinkAsk::Check(ALICE, NO_POINT)]);
    client.listen(&mut node, 1_000);
    links.bound(1, SessionBound { reason: Reason::UnknownSession, ..CHECKED });
    assert_eq!(client.listen(&mut node, 10), ["refused 3 UnknownSession"]);
}

#[test]
fn a_logon_whose_connection_is_gone_gives_its_bindings_up() {
    let (mut node, mut links) = Links::open();
    let mut client = node.connect();
    client.tell(&mut node, "bind 3 7\n");
    links.let_bind(&mut node, &mut client);
    drop(client);
    // The end of a connection that is not read comes with its bindings.
    for port in [0, 1] {
        links.asks(port);
        links.bound(port, BOUND);
    }
    (0..10).for_each(|_| node.step());
    // The session has logged on and is lost, or was given up: it is bound nowhere.
    let unbound = |asks: Vec<LinkAsk>| matches!(asks[0], LinkAsk::Unbind(ALICE, GENERATION, _));
    assert!(unbound(links.asks(0)) && unbound(links.asks(1)));
}

#[test]
fn a_partition_out_of_reach_is_told_as_away_and_refuses_requests() {
    let (mut node, mut links) = Links::open();
    let mut client = node.connect();
    links.tell(1, LinkAnswer::Away);
    client.tell(&mut node, "logon 3 7\n");
    links.let_in_without_partition(&mut node, &mut client);
    let refused = client.say(&mut node, "new 3 1 1 buy 10 100\n");
    assert_eq!(refused, ["reject 3 1 PartitionAway "]);
}

#[test]
fn sessions_end_when_a_link_begins_anew_and_are_not_lost() {
    let (mut node, mut links) = Links::open();
    let mut client = node.connect();
    client.tell(&mut node, "logon 3 7\n");
    links.let_in(&mut node, &mut client);
    let (_writer, tail) = weir_log::tail::tail(weir_log::tail::TailConfig::new(1 << 20, 40));
    let events = EventReader::in_memory(&tail, 40);
    links.tell(1, LinkAnswer::BeginsAnew(Box::new(events)));
    assert_eq!(client.listen(&mut node, 10), ["bye 3 PartitionAway"]);
    let unbind = LinkAsk::Unbind(ALICE, GENERATION, Switch::Off);
    assert_eq!(links.asks(1), [unbind]);
    assert_eq!(links.asks(0), [unbind, LinkAsk::Release(ALICE, GENERATION)]);
}

#[test]
fn a_session_that_another_gateway_has_ends_and_is_not_lost() {
    let (mut node, mut links) = Links::open();
    let mut client = node.connect();
    client.tell(&mut node, "bind 3 7\n");
    links.let_in(&mut node, &mut client);
    links.tell(1, LinkAnswer::Ended(ALICE, Reason::TakenOver));
    assert_eq!(client.listen(&mut node, 10), ["bye 3 TakenOver"]);
    assert_eq!(links.asks(1), [LinkAsk::Unbind(ALICE, GENERATION, Switch::Off)]);
}

/// A binding of which no logon knows, or none any more, would keep the session from others.
#[test]
fn an_answer_that_comes_too_late_is_given_up() {
    let (mut node, mut links) = Links::open();
    links.claimed(Reason::None);
    links.bound(1, BOUND);
    (0..5).for_each(|_| node.step());
    assert_eq!(links.asks(0), [LinkAsk::Release(ALICE, GENERATION)]);
    assert_eq!(links.asks(1), [LinkAsk::Unbind(ALICE, GENERATION, Switch::Off)]);
}

/// The client would have had to log on again to trade there.
#[test]
fn a_session_goes_on_at_a_partition_that_comes_back() {
    let (mut node, mut links) = Links::open();
    let mut client = node.connect();
    client.tell(&mut node, "logon 3 7 1:1:1\n");
    links.let_bind(&mut node, &mut client);
    for port in [0, 1] {
        links.asks(port);
    }
    links.tell(1, LinkAnswer::Away);
    links.bound(0, BOUND);
    assert_eq!(client.listen(&mut node, 10), ["welcome 3 firm 1 0:1 1:0"]);
    assert!(links.asks(1).is_empty());
    links.tell(1, LinkAnswer::Opened(1));
    assert!(client.listen(&mut node, 10).is_empty());
    let asks = links.asks(1);
    let point = SessionPoint { next_event_no: EventNo(1), epoch: Epoch(1) };
    let [LinkAsk::Bind(ask)] = asks[..] else { panic!("{asks:?}") };
    let wanted = ask.wanted;
    assert_eq!((wanted.generation, wanted.seal, ask.point), (GENERATION, SEAL, point));
    // In reach, and not bound yet.
    let refused = client.say(&mut node, "new 3 1 1 buy 10 100\n");
    assert_eq!(refused, ["reject 3 1 PartitionAway "]);
    // It is behind control, and is asked again.
    links.bound(1, SessionBound { reason: Reason::UnknownSession, ..BOUND });
    client.listen(&mut node, 20);
    let again = links.asks(1);
    let [LinkAsk::Bind(second)] = again[..] else { panic!("{again:?}") };
    assert!(second.number > ask.number && second.wanted == ask.wanted);
    // The answer to an earlier question, of before a break of the link, is none to this one: its
    // list may have another end.
    let stale = ListedBinding::new(
        SessionBound { partition_id: PartitionId(1), ..BOUND },
        vec![],
        ask.number,
    );
    links.tell(1, LinkAnswer::Bound(stale));
    assert!(client.listen(&mut node, 10).is_empty());
    links.bound(1, BOUND);
    assert_eq!(client.listen(&mut node, 10), ["welcome 3 firm 1 0:1 1:1"]);
    let lines = client.say(&mut node, "new 3 2 1 buy 10 100\n");
    assert!(lines[0].starts_with("report 3 1 2 New"), "{lines:?}");
    // A second answer changes nothing.
    links.bound(1, BOUND);
    assert!(client.listen(&mut node, 10).is_empty());
}

#[test]
fn a_session_that_a_returned_partition_refuses_ends() {
    let (mut node, mut links) = Links::open();
    let mut client = node.connect();
    links.tell(1, LinkAnswer::Away);
    client.tell(&mut node, "logon 3 7\n");
    links.let_in_without_partition(&mut node, &mut client);
    links.tell(1, LinkAnswer::Opened(1));
    client.listen(&mut node, 2);
    assert!(matches!(links.asks(1)[..], [LinkAsk::Bind(..)]));
    links.bound(1, SessionBound { reason: Reason::PartitionAway, ..BOUND });
    assert_eq!(client.listen(&mut node, 10), ["bye 3 PartitionAway"]);
}

/// An order that was kept for minutes was executed when the partition was back.
#[test]
fn sessions_with_requests_under_way_end_when_the_lease_of_a_link_has_lapsed() {
    let (mut node, mut links) = Links::open();
    let mut client = node.connect();
    client.tell(&mut node, "logon 3 7\n");
    links.let_in(&mut node, &mut client);
    node.is_stalled = true;
    client.say(&mut node, "new 3 1 1 buy 10 100\n");
    links.tell(1, LinkAnswer::Away);
    assert!(client.listen(&mut node, 10).is_empty());
    links.tell(1, LinkAnswer::Lapsed);
    assert_eq!(client.listen(&mut node, 10), ["bye 3 PartitionAway"]);
}

#[test]
fn a_session_without_requests_under_way_outlives_the_lapse_and_is_bound_anew() {
    let (mut node, mut links) = Links::open();
    let mut client = node.connect();
    client.tell(&mut node, "logon 3 7\nnew 3 1 1 buy 10 100\n");
    assert_eq!(links.let_in(&mut node, &mut client).len(), 2);
    links.tell(1, LinkAnswer::Away);
    links.tell(1, LinkAnswer::Lapsed);
    assert!(client.listen(&mut node, 10).is_empty());
    links.tell(1, LinkAnswer::Opened(1));
    client.listen(&mut node, 2);
    let asks = links.asks(1);
    let [LinkAsk::Bind(BindAsk { point, .. })] = asks[..] else { panic!("{asks:?}") };
    let sent_up_to = SessionPoint { next_event_no: EventNo(2), epoch: Epoch(1) };
    assert_eq!(point, sent_up_to, "from the first event that was not sent");
    links.bound(1, SessionBound { next_event_no: EventNo(2), ..BOUND });
    assert_eq!(client.listen(&mut node, 10), ["welcome 3 firm 1 0:1 1:2"]);
}

/// Clients stayed at a gateway that could reach nobody.
#[test]
fn all_sessions_end_at_a_gateway_that_is_cut_off_for_the_lease() {
    let (mut node, mut links) = Links::open();
    let mut client = node.connect();
    client.tell(&mut node, "logon 3 7\n");
    links.let_in(&mut node, &mut client);
    for port in [0, 1] {
        links.tell(port, LinkAnswer::Away);
    }
    links.tell(0, LinkAnswer::Lapsed);
    assert!(client.listen(&mut node, 10).is_empty());
    links.tell(1, LinkAnswer::Lapsed);
    assert_eq!(client.listen(&mut node, 10), ["bye 3 PartitionAway"]);
}

/// The old binding stayed at the partition that was away: its orders were executed after the
/// logout.
#[test]
fn a_takeover_while_a_link_is_away_ends_the_binding_there() {
    let (mut node, mut links) = Links::open();
    let mut client = node.connect();
    client.tell(&mut node, "logon 3 7\n");
    links.let_in(&mut node, &mut client);
    links.tell(1, LinkAnswer::Away);
    let mut second = node.connect();
    second.tell(&mut node, "take 3 7\n");
    assert_eq!(links.asks(0), [LinkAsk::Check(ALICE, NO_POINT)]);
    links.bound(0, CHECKED);
    second.listen(&mut node, 2);
    assert!(matches!(links.asks(0)[..], [LinkAsk::Claim(ALICE, Switch::On)]));
    links.granted(GENERATION + 1, Reason::None);
    second.listen(&mut node, 2);
    assert!(matches!(links.asks(0)[..], [LinkAsk::Bind(_)]));
    links.bound(0, SessionBound { generation: GENERATION + 1, ..BOUND });
    assert_eq!(second.listen(&mut node, 10), ["welcome 3 firm 1 0:1 1:0"]);
    assert_eq!(links.asks(1), [LinkAsk::Unbind(ALICE, GENERATION, Switch::Off)]);
}

/// Two operators' tools at two doors had one sequence of numbers: the second command got the first
/// one's answer.
#[test]
fn sessions_of_other_roles_are_served_at_the_nodes_own_door_alone() {
    let (mut node, mut links) = Links::open();
    let mut client = node.connect();
    assert_eq!(client.say(&mut node, "logon 9 7\n"), ["refused 9 NotServedHere"]);
    assert!(links.asks(0).is_empty() && links.asks(1).is_empty());
}

/// Its answer gave the grant back under which the next logon was bound.
#[test]
fn a_late_grant_of_an_earlier_logon_is_kept_by_the_one_that_is_bound() {
    let (mut node, mut links) = Links::open();
    let mut client = node.connect();
    client.tell(&mut node, "logon 3 7\n");
    links.let_bind(&mut node, &mut client);
    links.granted(9, Reason::None);
    for port in [0, 1] {
        links.asks(port);
        links.bound(port, BOUND);
    }
    assert_eq!(client.listen(&mut node, 10), ["welcome 3 firm 1 0:1 1:1"]);
    client.say(&mut node, "logout 3\n");
    let unbind = LinkAsk::Unbind(ALICE, GENERATION, Switch::On);
    assert_eq!(links.asks(0), [unbind, LinkAsk::Release(ALICE, 9)]);
}

/// The session looked alive, and none of its events came any more.
#[test]
fn a_session_that_a_partition_does_not_bind_again_ends() {
    let (mut node, mut links) = Links::open();
    let mut client = node.connect();
    client.tell(&mut node, "logon 3 7\n");
    links.let_in(&mut node, &mut client);
    links.bound(1, BOUND);
    assert!(client.listen(&mut node, 10).is_empty(), "bound again after a break");
    links.bound(1, SessionBound { reason: Reason::ResumeOtherHistory, ..BOUND });
    assert_eq!(client.listen(&mut node, 10), ["bye 3 ResumeOtherHistory"]);
    // It is lost nowhere: its client may come back by another point.
    let unbind = LinkAsk::Unbind(ALICE, GENERATION, Switch::Off);
    assert_eq!(links.asks(1), [unbind]);
    assert_eq!(links.asks(0), [unbind, LinkAsk::Release(ALICE, GENERATION)]);
}

/// The stream of an earlier logon kept a repeated request waiting, and its connection with it.
#[test]
fn a_logon_without_a_partition_has_nothing_of_an_earlier_one_there() {
    let (mut node, mut links) = Links::open();
    let mut client = node.connect();
    client.tell(&mut node, "logon 3 7\nnew 3 1 1 buy 10 100\n");
    assert_eq!(links.let_in(&mut node, &mut client).len(), 2);
    client.say(&mut node, "logout 3\n");
    for port in [0, 1] {
        links.asks(port);
    }
    links.tell(1, LinkAnswer::Away);
    client.tell(&mut node, "logon 3 7\n");
    links.let_in_without_partition(&mut node, &mut client);
    for number in [1, 2] {
        let refused = client.say(&mut node, &format!("new 3 {number} 1 buy 10 100\n"));
        assert_eq!(refused, [format!("reject 3 {number} PartitionAway ")]);
    }
}

/// Control gave a session that was logged on here to another gateway.
#[test]
fn a_grant_that_comes_too_late_is_given_back_with_the_session_that_is_logged_on() {
    let (mut node, mut links) = Links::open();
    let mut client = node.connect();
    client.tell(&mut node, "logon 3 7\n");
    links.let_in(&mut node, &mut client);
    links.granted(9, Reason::None);
    assert!(client.listen(&mut node, 10).is_empty());
    assert!(links.asks(0).is_empty());
    client.say(&mut node, "logout 3\n");
    let unbind = LinkAsk::Unbind(ALICE, GENERATION, Switch::On);
    assert_eq!(links.asks(0), [unbind, LinkAsk::Release(ALICE, 9)]);
}

/// A logon that was proved by the key of before went on, and its orders were executed.
#[test]
fn a_logon_under_way_sees_the_definition_that_takes_its_key_or_its_rights_away() {
    let other_role = DefineSession { firm_id: FirmId::NONE, role: Role::Supervisor, ..of_alice(7) };
    let other_limits = DefineSession { in_flight_max: 1, ..of_alice(7) };
    let gone = DefineSession { valid_until: Nanos(1), ..of_alice(7) };
    for (definition, refused) in [
        (of_alice(8), Some("KeyReplaced")),
        (other_role, Some("NotEntitled")),
        (gone, Some("KeyExpired")),
        (other_limits, None),
    ] {
        for stage in 0..3 {
            let (mut node, mut links) = Links::open();
            let mut client = node.connect();
            client.tell(&mut node, "logon 3 7\n");
            let at = |node: &mut Node, of| {
                if stage == of {
                    node.define(definition);
                }
            };
            at(&mut node, 0);
            let mut lines = client.listen(&mut node, 2);
            for port in [0, 1] {
                links.asks(port);
                links.bound(port, CHECKED);
            }
            lines.extend(client.listen(&mut node, 2));
            links.asks(0);
            at(&mut node, 1);
            lines.extend(client.listen(&mut node, 2));
            links.claimed(Reason::None);
            lines.extend(client.listen(&mut node, 2));
            at(&mut node, 2);
            lines.extend(client.listen(&mut node, 2));
            for port in [0, 1] {
                links.asks(port);
                links.bound(port, BOUND);
            }
            lines.extend(client.listen(&mut node, 10));
            let want = match refused {
                Some(reason) => format!("refused 3 {reason}"),
                None => "welcome 3 firm 1 0:1 1:1".to_owned(),
            };
            assert_eq!(lines, [want], "at stage {stage}");
            if refused.is_none() {
                node.is_stalled = true;
                let lines = client.say(&mut node, "new 3 1 1 buy 10 100\nnew 3 2 1 buy 10 100\n");
                assert_eq!(lines, ["reject 3 2 TooManyInFlight "], "at stage {stage}");
            }
        }
    }
}

fn of_alice(key_byte: u8) -> DefineSession {
    definition_of(ALICE, key_byte)
}

/// The client's next logon stated the epoch of before with events of the new one, and was refused
/// as one of another history.
#[test]
fn sessions_are_told_the_epoch_that_has_begun_at_a_partition() {
    let (mut node, mut links) = Links::open();
    let mut client = node.connect();
    client.tell(&mut node, "logon 3 7\nnew 3 1 1 buy 10 100\n");
    assert_eq!(links.let_in(&mut node, &mut client).len(), 2);
    node.end_epoch(Epoch(2));
    assert_eq!(client.listen(&mut node, 10), ["welcome 3 firm 1 0:1 1:2"]);
    let lines = client.say(&mut node, "new 3 2 1 buy 10 100\n");
    assert!(lines[0].starts_with("report 3 2 2 New"), "{lines:?}");
    // One that is logged on without the partition is told nothing of it.
    links.tell(1, LinkAnswer::Away);
    links.tell(1, LinkAnswer::Lapsed);
    node.end_epoch(Epoch(3));
    assert!(client.listen(&mut node, 10).is_empty());
}
