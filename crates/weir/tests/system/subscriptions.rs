//! Durable subscriptions at a real node: executions, trades and addressed messages for participants
//! that are away, slow, killed together with the node, over their quota or not entitled.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use weir_client::session::{SessionEvent, Times};
use weir_client::subscription::{
    BrokerClient, Credit, Message, NewSubscription, Publisher, Seen, Subscription, WaitOutcome,
};
use weir_client::{Client, ClientError, Connection, Incoming, Limits};
use weir_types::{
    AckLevel, Epoch, ExecType, FirmId, Reason, Role, SessionId, SubscriptionAction,
    SubscriptionKind, SubscriptionStatus,
};
use weir_wire::dialogue::put_with_data;
use weir_wire::frame::parse_message;
use weir_wire::reference::DefineSession;
use weir_wire::subscription::{AttachSubscription, PublicTrade};
use weir_wire::{Message as _, NodeMessage};

use crate::support::wire::{Wire, logon_of};
use crate::support::{
    ALICE, BOB, HANG, Home, Node, OPERATOR, SUPERVISOR, Who, definition_of, open_market, until,
};

/// A second session of Alice's firm, for her back office.
pub const BACK_OFFICE: Who = Who { session_id: SessionId(21), role: Role::DropCopy, ..ALICE };
const STEP: Duration = Duration::from_millis(20);
/// An exchange that is not number 1.
const SEVEN: weir_types::PartitionId = weir_types::PartitionId(7);

fn home(durability: &'static str, more: &str) -> Home {
    let config = format!("[subscriptions]\nlisten = \"127.0.0.1:0\"\n{more}");
    Home::with_config(durability, &config)
}

fn start(home: &Home) -> Node {
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let mut admin = node.admin();
    admin.define_session(definition_of(&SUPERVISOR)).unwrap();
    admin.define_session(definition_of(&BACK_OFFICE)).unwrap();
    admin.close().unwrap();
    node
}

pub fn address(node: &Node) -> SocketAddr {
    node.status()["subscriptions"]["address"].as_str().expect("it listens").parse().unwrap()
}

fn figure(node: &Node, name: &str) -> u64 {
    node.status()["subscriptions"][name].as_u64().unwrap_or_else(|| panic!("no {name}"))
}

fn broker(node: &Node, who: Who) -> BrokerClient {
    BrokerClient::new(address(node), who.config())
}

pub fn make(node: &Node, who: Who, new: &NewSubscription<'_>) {
    broker(node, who).create(new).unwrap();
}

fn refusal(done: Result<(), ClientError>) -> Reason {
    match done {
        Err(ClientError::Refused { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

/// Takes `count` messages and acknowledges each.
pub fn take(from: &mut Subscription, count: usize) -> Vec<Message> {
    let begun = Instant::now();
    let mut got = Vec::new();
    while got.len() < count {
        assert!(begun.elapsed() < HANG, "{} of {count} came", got.len());
        match from.next(STEP) {
            WaitOutcome::Message(message) => {
                from.ack(&message);
                got.push(message);
            }
            WaitOutcome::Nothing => {}
            WaitOutcome::Ended(reason, _) => panic!("it ended: {reason}"),
        }
    }
    from.flush();
    got
}

fn publish_all(publisher: &mut Publisher, count: u64) {
    let begun = Instant::now();
    let mut acknowledged = 0;
    while acknowledged < count {
        assert!(begun.elapsed() < HANG, "{acknowledged} of {count} are acknowledged");
        acknowledged = publisher.poll(STEP);
    }
}

fn body(number: u64) -> Vec<u8> {
    format!("message {number}").into_bytes()
}

fn bodies(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|m| String::from_utf8(m.body.clone()).unwrap()).collect()
}

fn texts(numbers: impl Iterator<Item = u64>) -> Vec<String> {
    numbers.map(|number| format!("message {number}")).collect()
}

/// Alice buys from Bob, one share at a time.
pub fn trade(node: &Node, numbers: std::ops::Range<u64>) {
    let mut client = Client::connect(node.address(), Limits::default()).unwrap();
    for who in [ALICE, BOB] {
        client.log_on(who.config(), HANG).unwrap();
    }
    let session = client.session(ALICE.session_id).expect("it is open");
    let partition = session.partitions().find(|id| !id.is_none()).expect("one trades");
    let mut traded = 0;
    for number in numbers.clone() {
        let (buy, sell) = (ALICE.buy(number, 100, 1), BOB.sell(number, 100, 1));
        let _ = client.submit(ALICE.session_id, partition, buy, Times::default());
        let _ = client.submit(BOB.session_id, partition, sell, Times::default());
    }
    let begun = Instant::now();
    while traded < 2 * (numbers.end - numbers.start) {
        assert!(begun.elapsed() < HANG, "{traded} trades are told");
        let heard = |incoming: Incoming<'_>, _: &mut Vec<u8>| {
            if let Incoming::Session(_, SessionEvent::Report { report, .. }) = incoming {
                traded += u64::from(report.event.exec_type == ExecType::Trade);
            }
        };
        client.poll(STEP, heard).unwrap();
    }
    client.log_out(HANG).unwrap();
}

#[test]
fn who_was_away_gets_each_execution_of_its_firm_once_and_in_order() {
    let home = home("disk", "");
    let node = start(&home);
    make(&node, BACK_OFFICE, &NewSubscription::new("fills", SubscriptionKind::Executions));
    trade(&node, 1..21);
    let mut fills = Subscription::new(address(&node), BACK_OFFICE.config(), "fills", Seen::new());
    let first = take(&mut fills, 12);
    drop(fills);
    trade(&node, 21..31);
    let mut fills = Subscription::new(address(&node), BACK_OFFICE.config(), "fills", Seen::new());
    let got = [first, take(&mut fills, 18)].concat();
    for (message, number) in got.iter().zip(1..) {
        let raw = parse_message(&message.body).unwrap();
        let Ok(NodeMessage::ExecutionReport(report)) = NodeMessage::decode(&raw) else {
            panic!("{raw:?}")
        };
        let event = report.event;
        assert_eq!((event.firm_id, event.cl_ord_id), (ALICE.firm_id, cl_ord_id(number)));
    }
    assert!(got.is_sorted_by(|one, other| one.head.record < other.head.record));
}

#[test]
fn executions_of_an_exchange_of_another_number_are_kept_over_a_kill() {
    let home = home("os", "[[partition]]\nid = 7\n");
    let mut node = start(&home);
    make(&node, BACK_OFFICE, &NewSubscription::new("fills", SubscriptionKind::Executions));
    trade(&node, 1..21);
    node.kill();
    let node = home.start();
    trade(&node, 21..31);
    let mut fills = Subscription::new(address(&node), BACK_OFFICE.config(), "fills", Seen::new());
    let got = take(&mut fills, 30);
    for (message, number) in got.iter().zip(1..) {
        let raw = parse_message(&message.body).unwrap();
        let Ok(NodeMessage::ExecutionReport(report)) = NodeMessage::decode(&raw) else {
            panic!("{raw:?}")
        };
        let event = report.event;
        let of = (event.partition_id, event.order_id.partition(), event.cl_ord_id);
        assert_eq!(of, (SEVEN, SEVEN, cl_ord_id(number)));
        assert_eq!(message.head.source, 7);
    }
}

fn cl_ord_id(number: u64) -> weir_types::ClOrdId {
    weir_types::ClOrdId::from_number(number)
}

#[test]
fn a_supervisor_gets_the_executions_of_all_and_everybody_the_trades_without_names() {
    let home = home("os", "");
    let node = start(&home);
    make(&node, SUPERVISOR, &NewSubscription::new("all", SubscriptionKind::Executions));
    make(&node, BOB, &NewSubscription::new("tape", SubscriptionKind::Trades));
    trade(&node, 1..11);
    let mut all = Subscription::new(address(&node), SUPERVISOR.config(), "all", Seen::new());
    assert_eq!(take(&mut all, 20).len(), 20, "one for each side");
    let mut tape = Subscription::new(address(&node), BOB.config(), "tape", Seen::new());
    for message in take(&mut tape, 10) {
        let raw = parse_message(&message.body).unwrap();
        assert_eq!(raw.template_id, PublicTrade::TEMPLATE_ID);
        let trade: PublicTrade = raw.decode_whole().unwrap();
        assert_eq!((trade.last_px.0, trade.last_qty.0), (100, 1));
    }
    assert_eq!(tape.next(STEP), WaitOutcome::Nothing);
}

#[test]
fn nobody_gets_what_is_not_his() {
    let home = home("os", "");
    let node = start(&home);
    let mut bob = broker(&node, BOB);
    let other = |kind, topic_key| NewSubscription { topic_key, ..NewSubscription::new("x", kind) };
    for (kind, key) in [
        (SubscriptionKind::Executions, ALICE.firm_id.0),
        (SubscriptionKind::Messages, ALICE.session_id.0),
    ] {
        assert_eq!(refusal(bob.create(&other(kind, key))), Reason::NotEntitled, "{kind:?}");
    }
    // A subscription's name belongs to its firm.
    let mine = NewSubscription::new("fills", SubscriptionKind::Executions);
    make(&node, ALICE, &mine);
    let act = |bob: &mut BrokerClient, firm| bob.act(SubscriptionAction::Delete, firm, "fills");
    assert_eq!(refusal(act(&mut bob, FirmId::NONE)), Reason::SubscriptionUnknown);
    assert_eq!(refusal(act(&mut bob, ALICE.firm_id)), Reason::NotEntitled);
    assert_eq!(bob.list(FirmId::NONE).unwrap(), []);
    assert!(matches!(
        bob.list(ALICE.firm_id),
        Err(ClientError::Refused { reason: Reason::NotEntitled, .. })
    ));
    bob.create(&mine).unwrap();
    drop(bob);
    // Messages are for the session alone, not for its firm, and traders may not publish them.
    make(&node, ALICE, &NewSubscription::new("letters", SubscriptionKind::Messages));
    let mut office =
        Subscription::new(address(&node), BACK_OFFICE.config(), "letters", Seen::new());
    let ended = (0..500).map(|_| office.next(STEP)).find(|next| *next != WaitOutcome::Nothing);
    assert_eq!(ended, Some(WaitOutcome::Ended(Reason::NotEntitled, Vec::new())));
    let mut trader = Publisher::new(address(&node), BOB.config(), Epoch(1), 0);
    trader.publish(ALICE.session_id, b"psst");
    let begun = Instant::now();
    let refused = loop {
        trader.poll(STEP);
        let refused = trader.take_refused();
        assert!(begun.elapsed() < HANG, "no answer");
        if !refused.is_empty() {
            break refused;
        }
    };
    assert_eq!(refused[0].reason, Reason::NotEntitled);
}

#[test]
fn a_supervisor_lists_drains_evicts_and_deletes() {
    let home = home("disk", "");
    let node = start(&home);
    make(&node, ALICE, &NewSubscription::new("letters", SubscriptionKind::Messages));
    let mut publisher = Publisher::new(address(&node), SUPERVISOR.config(), Epoch(1), 0);
    for number in 1..=10 {
        publisher.publish(ALICE.session_id, &body(number));
    }
    publish_all(&mut publisher, 10);
    drop(publisher);
    let mut operator = broker(&node, OPERATOR);
    let look = |operator: &mut BrokerClient| operator.list(FirmId::NONE).unwrap().remove(0);
    let listed = look(&mut operator);
    assert_eq!(listed.name, format!("{}/letters", ALICE.firm_id));
    assert_eq!((listed.state.lag_messages, listed.state.status), (10, SubscriptionStatus::Live));
    operator.act(SubscriptionAction::Drain, ALICE.firm_id, "letters").unwrap();
    assert_eq!(look(&mut operator).state.lag_messages, 0);
    operator.act(SubscriptionAction::Evict, ALICE.firm_id, "letters").unwrap();
    let state = look(&mut operator).state;
    assert_eq!(
        (state.status, state.reason),
        (SubscriptionStatus::Evicted, Reason::EvictedByOperator)
    );
    operator.act(SubscriptionAction::Delete, ALICE.firm_id, "letters").unwrap();
    assert_eq!(operator.list(FirmId::NONE).unwrap(), []);
}

#[test]
fn past_its_quota_a_subscription_is_evicted_and_told_where_it_stood_and_nobody_else_notices() {
    let home = home("disk", "");
    let node = start(&home);
    let letters = NewSubscription::new("letters", SubscriptionKind::Messages);
    make(&node, ALICE, &NewSubscription { quota_messages: 5, ..letters });
    make(&node, BOB, &letters);
    let mut publisher = Publisher::new(address(&node), SUPERVISOR.config(), Epoch(7), 0);
    publisher.publish(ALICE.session_id, &body(1));
    publish_all(&mut publisher, 1);
    let mut alice = Subscription::new(address(&node), ALICE.config(), "letters", Seen::new());
    take(&mut alice, 1);
    drop(alice);
    for number in 2..=40 {
        let to = if number % 2 == 0 { ALICE } else { BOB };
        publisher.publish(to.session_id, &body(number));
    }
    // Messages without a remaining subscription are acknowledged or refused, and do not block the
    // publisher.
    let begun = Instant::now();
    while publisher.unacknowledged() > 0 {
        assert!(begun.elapsed() < HANG, "{} are open", publisher.unacknowledged());
        publisher.poll(STEP);
    }
    let refused = publisher.take_refused();
    assert!(refused.iter().all(|r| r.to_session_id == ALICE.session_id), "{refused:?}");
    let mut bob = Subscription::new(address(&node), BOB.config(), "letters", Seen::new());
    let odd = texts((2..=40).filter(|number| number % 2 == 1));
    assert_eq!(bodies(&take(&mut bob, odd.len())), odd);
    // The broker checks quotas periodically: before that, she would receive her letters instead of
    // the eviction.
    assert_eq!(figure_when(&node, "evicted", 1), 1);
    let mut alice = Subscription::new(address(&node), ALICE.config(), "letters", Seen::new());
    let begun = Instant::now();
    let (reason, taken) = loop {
        assert!(begun.elapsed() < HANG, "nothing is told");
        match alice.next(STEP) {
            WaitOutcome::Nothing => {}
            WaitOutcome::Ended(reason, taken) => break (reason, taken),
            WaitOutcome::Message(message) => panic!("{message:?}"),
        }
    };
    assert_eq!(reason, Reason::QuotaMessages);
    let places: Vec<_> = taken.iter().map(|t| (t.source, t.epoch, t.record.0)).collect();
    assert_eq!(places, [(SUPERVISOR.session_id.0, Epoch(7), 1)]);
}

#[test]
fn a_subscription_that_nobody_attaches_to_expires() {
    let home = home("disk", "expire_grace_s = 0\n");
    let node = start(&home);
    let letters = NewSubscription::new("letters", SubscriptionKind::Messages);
    let expire_after = Duration::from_millis(50);
    make(&node, ALICE, &NewSubscription { expire_after, ..letters });
    let mut operator = broker(&node, OPERATOR);
    let begun = Instant::now();
    // The expired subscription stays listed for the same time again, so that its subscriber can
    // still be told; then the name is free.
    while let Some(listed) = operator.list(FirmId::NONE).unwrap().pop() {
        assert!(begun.elapsed() < HANG, "it stays: {listed:?}");
    }
    assert!(begun.elapsed() >= expire_after);
    assert_eq!(figure_when(&node, "expired", 1), 1);
}

fn figure_when(node: &Node, name: &str, wanted: u64) -> u64 {
    let begun = Instant::now();
    while figure(node, name) < wanted && begun.elapsed() < HANG {}
    figure(node, name)
}

#[test]
fn a_level_above_the_nodes_is_refused_by_name() {
    let home = home("os", "");
    let node = start(&home);
    let fills = NewSubscription::new("fills", SubscriptionKind::Executions);
    let mut alice = broker(&node, ALICE);
    let durable = NewSubscription { level: AckLevel::Disk, ..fills };
    assert_eq!(refusal(alice.create(&durable)), Reason::LevelNotServed);
    alice.create(&NewSubscription { level: AckLevel::Os, ..fills }).unwrap();
    assert_eq!(refusal(alice.create(&fills)), Reason::SubscriptionExists);
}

#[test]
fn a_subscriber_that_takes_nothing_costs_the_others_nothing() {
    let home = home("disk", "memory_bytes_max = 33554432\n");
    let node = start(&home);
    let letters = NewSubscription::new("letters", SubscriptionKind::Messages);
    make(&node, ALICE, &letters);
    make(&node, BOB, &letters);
    let none = Credit { messages: 1, bytes: 1 };
    let mut slow = Subscription::on(broker(&node, ALICE), "letters", none, Seen::new());
    let mut publisher = Publisher::new(address(&node), SUPERVISOR.config(), Epoch(1), 0);
    let mut fast = Subscription::new(address(&node), BOB.config(), "letters", Seen::new());
    let count = 1_000;
    let long = vec![b'x'; 8 * 1024];
    let mut got = 0;
    for number in 1..=count {
        publisher.publish(ALICE.session_id, &[&body(number)[..], &long].concat());
        publisher.publish(BOB.session_id, &body(number));
        publisher.poll(Duration::ZERO);
        let _ = slow.next(Duration::ZERO);
        while let WaitOutcome::Message(message) = fast.next(Duration::ZERO) {
            got += 1;
            assert_eq!(message.body, body(got));
            fast.ack(&message);
        }
    }
    let begun = Instant::now();
    while got < count {
        assert!(begun.elapsed() < HANG, "{got} of {count} came");
        publisher.poll(Duration::ZERO);
        if let WaitOutcome::Message(message) = fast.next(STEP) {
            got += 1;
            assert_eq!(message.body, body(got));
            fast.ack(&message);
        }
    }
    publish_all(&mut publisher, 2 * count);
    let held = figure_when(&node, "files", 1);
    assert!(held >= 1, "what the slow one did not take is on the disk");
    assert!(figure(&node, "memory_bytes") <= 32 << 20);
    // The slow subscriber comes back and has missed nothing.
    drop(slow);
    let mut slow = Subscription::new(address(&node), ALICE.config(), "letters", Seen::new());
    for (message, number) in take(&mut slow, count as usize).iter().zip(1..) {
        assert!(message.body.starts_with(&body(number)), "{number}");
    }
    assert_eq!(figure(&node, "evicted"), 0);
}

/// Publishers and subscribers come and go while the node is killed repeatedly: acknowledged
/// messages arrive in order, whichever clients were connected.
#[test]
fn nothing_acknowledged_is_lost_or_skipped_by_kills_of_the_node() {
    let kills: u64 = std::env::var("WEIR_BROKER_KILLS").map_or(3, |text| text.parse().unwrap());
    let home = home("disk", "");
    let mut node = start(&home);
    let letters = NewSubscription::new("letters", SubscriptionKind::Messages);
    make(&node, ALICE, &letters);
    make(&node, BOB, &letters);
    let mut publisher = Publisher::new(address(&node), SUPERVISOR.config(), Epoch(1), 0);
    let mut seen: BTreeMap<SessionId, (Seen, u64)> = BTreeMap::new();
    let (mut number, mut acknowledged) = (0, 0);
    for round in 0..=kills {
        let mut present: Vec<(Who, Subscription)> = [ALICE, BOB]
            .into_iter()
            .filter(|who| (round + u64::from(who.session_id.0)) % 2 == 0 || round == kills)
            .map(|who| {
                let known = seen.get(&who.session_id).map_or_else(Seen::new, |(s, _)| s.clone());
                (who, Subscription::new(address(&node), who.config(), "letters", known))
            })
            .collect();
        let goal = if round == kills { 0 } else { 400 };
        let until = number + goal;
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < HANG, "round {round}: {acknowledged} of {number}");
            if number < until {
                number += 1;
                publisher.publish(ALICE.session_id, &body(number));
                number += 1;
                publisher.publish(BOB.session_id, &body(number));
            }
            acknowledged = publisher.poll(Duration::ZERO);
            for (who, subscription) in &mut present {
                hear(who, subscription, &mut seen);
            }
            // In the last round every subscriber takes everything; before, the node dies while
            // messages are in flight.
            let is_over = if round == kills {
                seen.values().map(|(_, last)| *last).sum::<u64>() >= 2 * number - 1
            } else {
                number >= until && acknowledged + goal / 2 >= number
            };
            if is_over {
                break;
            }
        }
        drop(present);
        if round < kills {
            node.kill();
            node = home.start();
            publisher.client().set_target(address(&node));
        }
    }
    assert_eq!(acknowledged, number, "all are acknowledged in the end");
    assert!(publisher.take_refused().is_empty());
}

/// Takes pending messages; each subscriber's are every second number, in order.
fn hear(who: &Who, from: &mut Subscription, seen: &mut BTreeMap<SessionId, (Seen, u64)>) {
    let first = if who.session_id == ALICE.session_id { 1 } else { 2 };
    while let WaitOutcome::Message(message) = from.next(Duration::ZERO) {
        let known = seen.entry(who.session_id).or_insert((Seen::new(), 0));
        let next = if known.1 == 0 { first } else { known.1 + 2 };
        assert_eq!(String::from_utf8_lossy(&message.body).trim_end(), format!("message {next}"));
        known.1 = next;
        from.ack(&message);
        known.0 = from.seen().expect("it is attached").clone();
    }
}

#[test]
fn a_token_is_kept_under_its_name_over_a_kill() {
    let home = home("disk", "");
    let mut node = start(&home);
    make(&node, SUPERVISOR, &NewSubscription::new("book", SubscriptionKind::State));
    let token_of = |client: &mut BrokerClient| {
        let handle = client.subscribe("book", Credit::default(), Seen::new());
        let (begun, mut kept) = (Instant::now(), None);
        while kept.is_none() {
            assert!(begun.elapsed() < HANG, "no token comes");
            client
                .poll(STEP, |event| {
                    if let weir_client::BrokerEvent::Token { token, .. } = event {
                        kept = Some(token.to_vec());
                    }
                })
                .unwrap();
        }
        (handle, kept.unwrap())
    };
    let mut client = broker(&node, SUPERVISOR);
    let (handle, none) = token_of(&mut client);
    assert!(none.is_empty());
    client.keep_token(handle, b"as of noon").unwrap();
    drop(client);
    node.kill();
    let node = home.start();
    assert_eq!(token_of(&mut broker(&node, SUPERVISOR)).1, b"as of noon");
}

/// A publisher continues while two subscribers come and go. Each message arrives once and in order,
/// and the disk holds at most twice the messages not yet taken, plus five files.
#[test]
fn a_soak_with_subscribers_that_come_and_go_loses_nothing_and_fills_no_disk() {
    const FILE: u64 = 16 << 20;
    let count: u64 = std::env::var("WEIR_BROKER_SOAK").map_or(4_000, |text| text.parse().unwrap());
    let home = home("disk", "memory_bytes_max = 2097152\n");
    let node = start(&home);
    let letters = NewSubscription::new("letters", SubscriptionKind::Messages);
    make(&node, ALICE, &letters);
    make(&node, BOB, &letters);
    let mut publisher = Publisher::new(address(&node), SUPERVISOR.config(), Epoch(1), 0);
    let mut seen: BTreeMap<SessionId, (Seen, u64)> = BTreeMap::new();
    let mut present: BTreeMap<u32, (Who, Subscription)> = BTreeMap::new();
    let (mut number, mut disk_max, mut acknowledged) = (0, 0, 0);
    while acknowledged < count {
        for _ in 0..if number < count { 50 } else { 0 } {
            publisher.publish(ALICE.session_id, &long_body(number + 1));
            publisher.publish(BOB.session_id, &long_body(number + 2));
            number += 2;
        }
        // A subscriber that is slow to acknowledge must not lengthen the publisher's queue.
        while publisher.unacknowledged() > 1_000 || (number >= count && acknowledged < number) {
            acknowledged = publisher.poll(STEP);
        }
        acknowledged = publisher.poll(Duration::ZERO);
        for who in [ALICE, BOB] {
            let is_there = (number / 1_000 + u64::from(who.session_id.0)) % 3 > 0;
            if is_there {
                present.entry(who.session_id.0).or_insert_with(|| {
                    let known = seen.get(&who.session_id).map(|(known, _)| known.clone());
                    let known = known.unwrap_or_default();
                    (who, Subscription::new(address(&node), who.config(), "letters", known))
                });
            } else {
                present.remove(&who.session_id.0);
            }
        }
        present.values_mut().for_each(|(who, from)| hear(who, from, &mut seen));
        if number % 1_000 == 0 {
            let (held, wanted) = (figure(&node, "disk_bytes"), figure(&node, "wanted_bytes"));
            assert!(held <= 2 * wanted + 6 * FILE, "{held} bytes for {wanted}");
            disk_max = disk_max.max(held);
        }
    }
    present.clear();
    for (who, last) in [(ALICE, number - 1), (BOB, number)] {
        let known = seen.get(&who.session_id).map_or_else(Seen::new, |(s, _)| s.clone());
        let mut from = Subscription::new(address(&node), who.config(), "letters", known);
        let begun = Instant::now();
        while seen.get(&who.session_id).is_none_or(|(_, got)| *got < last) {
            assert!(begun.elapsed() < HANG, "the last does not come");
            hear(&who, &mut from, &mut seen);
        }
        assert_eq!(from.next(STEP), WaitOutcome::Nothing);
    }
    assert_eq!(figure_when_below(&node, "wanted_bytes", 1), 0);
    assert_eq!(figure(&node, "evicted"), 0);
    println!("{number} messages, at most {disk_max} bytes of disk");
}

fn figure_when_below(node: &Node, name: &str, bound: u64) -> u64 {
    let begun = Instant::now();
    while figure(node, name) >= bound && begun.elapsed() < HANG {}
    figure(node, name)
}

/// Returns a message body with its number, padded so that a few hundred fill a block.
fn long_body(number: u64) -> Vec<u8> {
    let mut bytes = body(number);
    bytes.resize(1_000, b' ');
    bytes
}

#[test]
fn an_end_that_comes_with_the_last_bytes_is_seen_at_once() {
    use std::io::Write;
    let home = home("memory", "");
    let node = start(&home);
    let mut frame = Vec::new();
    let asked = weir_wire::session::Logon {
        heartbeat_interval_ms: 60_000,
        ..crate::support::wire::logon_of(&ALICE)
    };
    weir_wire::dialogue::put_logon(&asked, &[], &mut frame);
    let mut stream = std::net::TcpStream::connect(address(&node)).unwrap();
    stream.write_all(&frame).unwrap();
    until("the session", || (figure(&node, "sessions") == 1).then_some(()));
    frame.clear();
    let beat = weir_wire::session::Heartbeat {
        sending_time: weir_types::Nanos(1),
        high_water: weir_types::EventNo::NONE,
        session_id: ALICE.session_id,
        partition_id: weir_types::PartitionId::NONE,
        load_permille: 0,
    };
    weir_wire::frame::put_frame(&beat, &mut frame);
    // The client's last frame, which has no answer, and its end both arrive before the node reads
    // again.
    node.pause(true);
    stream.write_all(&frame).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    node.pause(false);
    until("its end", || (figure(&node, "sessions") == 0).then_some(()));
}

/// Attaches a session to a subscription, and returns when a first message has come.
fn attached(node: &Node, logon: &weir_wire::session::Logon, name: &str) -> Wire {
    let mut wire = Wire::over(Connection::open(address(node), Limits::default()).unwrap());
    wire.log_on(logon);
    let attach = AttachSubscription {
        correlation_id: 1,
        session_id: logon.session_id,
        handle: 1,
        credit_messages: 100,
        credit_bytes: 1 << 20,
    };
    let mut bytes = Vec::new();
    put_with_data(&attach, name.as_bytes(), &mut bytes);
    wire.send(&bytes);
    wire.expect("a message", |message| {
        matches!(message, NodeMessage::SubscribedMessage(..)).then_some(())
    });
    wire
}

#[test]
fn an_attached_subscription_ends_with_its_sessions_key_and_is_free_for_the_next() {
    let home = home("disk", "");
    let node = start(&home);
    let letters = NewSubscription::new("letters", SubscriptionKind::Messages);
    make(&node, ALICE, &letters);
    make(&node, BOB, &letters);
    let mut publisher = Publisher::new(address(&node), SUPERVISOR.config(), Epoch(1), 0);
    let mut publish = |numbers: std::ops::RangeInclusive<u64>| {
        for number in numbers.clone() {
            publisher.publish(ALICE.session_id, &body(number));
            publisher.publish(BOB.session_id, &body(number));
        }
        publish_all(&mut publisher, 2 * numbers.end());
    };
    publish(1..=1);
    let mut bob = Subscription::new(address(&node), BOB.config(), "letters", Seen::new());
    take(&mut bob, 1);
    let first = definition_of(&ALICE);
    let ends = [
        (
            Reason::KeyReplaced,
            DefineSession { credential: definition_of(&BOB).credential, ..first },
        ),
        (Reason::KeyExpired, DefineSession { valid_until: weir_types::Nanos(1), ..first }),
    ];
    for (number, (reason, definition)) in (2..).zip(ends) {
        let mut alice = attached(&node, &logon_of(&ALICE), "letters");
        node.admin().define_session(definition).unwrap();
        assert_eq!(alice.logout(), (ALICE.session_id, reason));
        // She has credit for it.
        publish(number..=number);
        alice.closed();
        assert_eq!(bodies(&take(&mut bob, 1)), texts(number..=number), "others go on");
        node.admin().define_session(first).unwrap();
    }
    let mut alice = Subscription::new(address(&node), ALICE.config(), "letters", Seen::new());
    assert_eq!(bodies(&take(&mut alice, 3)), texts(1..=3));
}

#[test]
fn silent_connections_at_all_places_keep_no_subscriber_out() {
    // They do not end by themselves while the test runs.
    let home = home("os", "connections_max = 64\n[gateway]\nlogon_timeout_ms = 600000\n");
    let node = start(&home);
    let at = address(&node);
    let silent: Vec<_> = (0..64).map(|_| std::net::TcpStream::connect(at).unwrap()).collect();
    until("that all places are taken", || (figure(&node, "accepted") >= 64).then_some(()));
    make(&node, ALICE, &NewSubscription::new("letters", SubscriptionKind::Messages));
    let mut publisher = Publisher::new(at, SUPERVISOR.config(), Epoch(1), 0);
    publisher.publish(ALICE.session_id, &body(1));
    publish_all(&mut publisher, 1);
    let mut alice = Subscription::new(at, ALICE.config(), "letters", Seen::new());
    assert_eq!(bodies(&take(&mut alice, 1)), texts(1..=1));
    assert!(figure(&node, "strangers_evicted") > 0);
    assert_eq!(figure(&node, "connections_refused"), 0);
    drop(silent);
}

#[test]
fn subscriptions_outlive_a_time_without_descriptors_and_lose_no_message() {
    // What a connected subscriber takes is never written, so that the first file is begun late.
    let home = home("disk", "hold_us = 10000000\n");
    let node = start(&home);
    let letters = NewSubscription::new("letters", SubscriptionKind::Messages);
    make(&node, ALICE, &letters);
    make(&node, BOB, &letters);
    let at = address(&node);
    let mut publisher = Publisher::new(at, SUPERVISOR.config(), Epoch(1), 0);
    let mut bob = Subscription::new(at, BOB.config(), "letters", Seen::new());
    until("that Bob is attached", || {
        assert_eq!(bob.next(STEP), WaitOutcome::Nothing);
        (figure(&node, "attached") == 1).then_some(())
    });
    publisher.publish(BOB.session_id, &body(1));
    publish_while_taking(&mut publisher, &mut bob, 1);
    assert_eq!(figure(&node, "files"), 0, "nothing is written yet");
    let late = node.without_descriptors(|| {
        for number in 2..=21 {
            publisher.publish(ALICE.session_id, &body(number));
            publisher.publish(BOB.session_id, &body(number));
        }
        // Whoever is connected is served, and what waits for Alice is not acknowledged.
        publisher.poll(STEP);
        assert_eq!(bodies(&take(&mut bob, 20)), texts(2..=21));
        until("the line that no file can be begun", || {
            publisher.poll(Duration::ZERO);
            home.said().contains("no descriptor is left for a spill file").then_some(())
        });
        assert!(publisher.unacknowledged() >= 20, "{}", publisher.unacknowledged());
        // A newcomer waits.
        let mut late = Subscription::new(at, ALICE.config(), "letters", Seen::new());
        assert_eq!(late.next(STEP), WaitOutcome::Nothing);
        late
    });
    publish_all(&mut publisher, 41);
    let mut alice = late;
    assert_eq!(bodies(&take(&mut alice, 20)), texts(2..=21), "each once and in order");
    assert_eq!(alice.next(STEP), WaitOutcome::Nothing);
    let of = |name| figure(&node, name);
    assert_eq!((of("stopped"), of("evicted"), of("messages_refused")), (0, 0, 0));
    assert!(of("no_descriptor") > 0);
    until("the line of the end", || {
        home.said().contains("spill files are begun again").then_some(())
    });
    assert!(node.terminate().success());
}

/// Publishes until a number of messages is acknowledged, while a subscriber takes one.
fn publish_while_taking(publisher: &mut Publisher, from: &mut Subscription, acknowledged: u64) {
    until("a message that is taken and acknowledged", || {
        if let WaitOutcome::Message(message) = from.next(STEP) {
            from.ack(&message);
            from.flush();
        }
        (publisher.poll(STEP) >= acknowledged).then_some(())
    });
}
