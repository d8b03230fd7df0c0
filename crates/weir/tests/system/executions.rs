//! Executions of outside cores: each core has its own stream, delivered to the entitled firms once
//! and in order, through kills of the node and a core that publishes everything again.

use weir_client::subscription::{
    BrokerClient, Message, NewSubscription, Publisher, Seen, Subscription,
};
use weir_types::{
    AccountId, Cash, ClOrdId, Epoch, EventNo, ExecId, ExecInst, ExecType, FirmId, Liquidity,
    MatchId, Nanos, OrdStatus, OrdType, OrderId, PartitionId, Position, Price, Qty, Reason, Rec,
    RequestNo, SelfTradePrevention, Seq, SessionId, Side, SubscriptionKind, TimeInForce,
};
use weir_wire::Message as _;
use weir_wire::event::{OrderEvent, TradeBusted};
use weir_wire::frame::{parse_message, put_message};
use weir_wire::report::{ExecutionReport, StageTimes};
use weir_wire::subscription::PublicTrade;

use crate::ingest::CORE;
use crate::subscriptions::{self, BACK_OFFICE, address, make, take};
use crate::support::{
    ALICE, BOB, HANG, Home, INSTRUMENT, Node, SUPERVISOR, Who, definition_of, open_market,
};

const SOURCE: PartitionId = PartitionId(40);
/// The session of a second core, which feeds source 41.
const OTHER: Who = Who { session_id: SessionId(31), ..CORE };

fn market(durability: &'static str) -> (Home, Node) {
    let config = "[subscriptions]\nlisten = \"127.0.0.1:0\"\n[ingest]\nlisten = \"127.0.0.1:0\"\n\
                  [[ingest.source]]\nid = 40\nsession = 30\n\
                  [[ingest.source]]\nid = 41\nsession = 31\n";
    let home = Home::with_config(durability, config);
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let mut admin = node.admin();
    for who in [CORE, OTHER, BACK_OFFICE] {
        admin.define_session(definition_of(&who)).unwrap();
    }
    admin.close().unwrap();
    (home, node)
}

/// Returns one side of the core's trade `number`.
fn execution(number: u64, firm_id: FirmId, side: Side) -> OrderEvent {
    OrderEvent {
        position: Position(number),
        event_no: EventNo::NONE,
        request_no: RequestNo::NONE,
        rec: Rec(2 * number + u64::from(side == Side::Sell)),
        seq: Seq(number),
        order_id: OrderId::new(SOURCE, Rec(number)),
        exec_id: ExecId(number),
        match_id: MatchId(number),
        transact_time: Nanos(number),
        created_time: Nanos(number),
        cl_ord_id: ClOrdId::from_number(number),
        orig_cl_ord_id: ClOrdId::NONE,
        price: Price(100),
        stop_px: Price(0),
        last_px: Price(100),
        last_qty: Qty(number),
        order_qty: Qty(number),
        leaves_qty: Qty(0),
        cum_qty: Qty(number),
        display_qty: Qty::ZERO,
        min_qty: Qty::ZERO,
        expire_time: Nanos(0),
        session_id: SessionId::NONE,
        firm_id,
        account_id: AccountId(firm_id.0),
        instrument_id: INSTRUMENT,
        partition_id: SOURCE,
        reason: Reason::None,
        side,
        ord_type: OrdType::Limit,
        time_in_force: TimeInForce::Day,
        exec_inst: ExecInst::NONE,
        self_trade_prevention: SelfTradePrevention::None,
        exec_type: ExecType::Trade,
        ord_status: OrdStatus::Filled,
        liquidity: Liquidity::None,
    }
}

fn body_of(event: OrderEvent) -> Vec<u8> {
    let mut body = Vec::new();
    put_message(&ExecutionReport { event, stage_times: StageTimes::default() }, &mut body);
    body
}

/// Publishes both sides of each trade: Alice buys, Bob sells.
fn say(publisher: &mut Publisher, trades: std::ops::RangeInclusive<u64>) {
    for number in trades {
        for (firm_id, side) in [(ALICE.firm_id, Side::Buy), (BOB.firm_id, Side::Sell)] {
            let (event, stage_times) = (execution(number, firm_id, side), StageTimes::default());
            publisher.publish_execution(&ExecutionReport { event, stage_times });
        }
    }
}

fn until_acknowledged(publisher: &mut Publisher, count: u64) {
    let begun = std::time::Instant::now();
    while publisher.poll(std::time::Duration::from_millis(20)) < count {
        assert!(begun.elapsed() < HANG, "{:?}", publisher.take_refused());
    }
}

/// Returns the firm and the trade number of each execution.
fn told(messages: &[Message]) -> Vec<(FirmId, u64)> {
    let of = |message: &Message| {
        let raw = parse_message(&message.body).unwrap();
        let report: ExecutionReport = raw.decode_whole().unwrap();
        assert_eq!(report.event.partition_id, SOURCE, "its own core's");
        assert_eq!(message.head.source, u32::from(SOURCE.0));
        (report.event.firm_id, report.event.match_id.0)
    };
    messages.iter().map(of).collect()
}

fn subscription(node: &Node, who: Who, name: &str) -> Subscription {
    Subscription::new(address(node), who.config(), name, Seen::new())
}

#[test]
fn each_firm_gets_its_executions_of_an_outside_core_once_through_a_kill_of_the_node() {
    let (home, mut node) = market("disk");
    make(&node, BACK_OFFICE, &NewSubscription::new("fills", SubscriptionKind::Executions));
    make(&node, SUPERVISOR, &NewSubscription::new("all", SubscriptionKind::Executions));
    make(&node, BOB, &NewSubscription::new("tape", SubscriptionKind::Trades));
    let mut core = Publisher::new(address(&node), CORE.config(), Epoch(1), 0);
    say(&mut core, 1..=20);
    until_acknowledged(&mut core, 40);
    let mut fills = subscription(&node, BACK_OFFICE, "fills");
    let first = told(&take(&mut fills, 12));
    // The client knows the messages that it has handled; after a crash the node may not.
    let seen = fills.seen().expect("it is attached").clone();
    drop((fills, core));
    node.kill();
    node = home.start();
    // A core that does not know how much arrived publishes everything again, and then more.
    let mut core = Publisher::new(address(&node), CORE.config(), Epoch(1), 0);
    say(&mut core, 1..=30);
    until_acknowledged(&mut core, 60);
    let mut fills = Subscription::new(address(&node), BACK_OFFICE.config(), "fills", seen);
    let alice = |range: std::ops::RangeInclusive<u64>| range.map(|number| (ALICE.firm_id, number));
    let rest = told(&take(&mut fills, 18));
    assert_eq!([first, rest].concat(), alice(1..=30).collect::<Vec<_>>());
    let mut all = subscription(&node, SUPERVISOR, "all");
    let both = |number| [(ALICE.firm_id, number), (BOB.firm_id, number)];
    assert_eq!(told(&take(&mut all, 60)), (1..=30).flat_map(both).collect::<Vec<_>>());
    let mut tape = subscription(&node, BOB, "tape");
    for (message, number) in take(&mut tape, 30).iter().zip(1..) {
        let trade: PublicTrade = parse_message(&message.body).unwrap().decode_whole().unwrap();
        assert_eq!((trade.partition_id, trade.last_qty), (SOURCE, Qty(number)));
    }
}

#[test]
fn an_outside_cores_executions_and_the_nodes_own_are_streams_of_their_own() {
    let (_home, node) = market("os");
    make(&node, BACK_OFFICE, &NewSubscription::new("fills", SubscriptionKind::Executions));
    let mut core = Publisher::new(address(&node), CORE.config(), Epoch(3), 0);
    say(&mut core, 1..=5);
    subscriptions::trade(&node, 1..6);
    say(&mut core, 6..=10);
    until_acknowledged(&mut core, 20);
    let mut bust = Vec::new();
    put_message(&busted(7), &mut bust);
    core.publish(SessionId::NONE, &bust);
    until_acknowledged(&mut core, 21);
    let mut fills = subscription(&node, BACK_OFFICE, "fills");
    let got = take(&mut fills, 16);
    let (outside, own): (Vec<_>, Vec<_>) =
        got.into_iter().partition(|message| message.head.source == 40);
    assert_eq!((outside.len(), own.len()), (11, 5));
    assert!(own.iter().all(|message| message.head.source == 1));
    assert!(outside.is_sorted_by(|one, other| one.head.record < other.head.record));
    assert!(outside.iter().all(|message| message.head.epoch == Epoch(3)));
    assert_eq!(told(&outside[..10]).len(), 10);
    assert_eq!(parse_message(&outside[10].body).unwrap().template_id, TradeBusted::TEMPLATE_ID);
}

fn busted(number: u64) -> TradeBusted {
    let event = execution(number, ALICE.firm_id, Side::Buy);
    TradeBusted {
        position: event.position,
        event_no: EventNo::NONE,
        match_id: event.match_id,
        order_id: event.order_id,
        transact_time: Nanos(99),
        last_px: event.last_px,
        last_qty: event.last_qty,
        session_id: event.session_id,
        firm_id: event.firm_id,
        account_id: event.account_id,
        instrument_id: event.instrument_id,
        partition_id: event.partition_id,
        side: event.side,
        debt_cash: Cash(0),
        debt_qty: Qty(0),
    }
}

#[test]
fn what_is_no_execution_of_the_cores_own_source_is_refused_and_nothing_behind_it() {
    let (_home, node) = market("os");
    make(&node, SUPERVISOR, &NewSubscription::new("all", SubscriptionKind::Executions));
    let refused = |who: Who, body: Vec<u8>| {
        let mut core = Publisher::new(address(&node), who.config(), Epoch(1), 0);
        core.publish(SessionId::NONE, &body);
        let begun = std::time::Instant::now();
        loop {
            core.poll(std::time::Duration::from_millis(20));
            if let Some(reject) = core.take_refused().first() {
                break reject.reason;
            }
            assert!(begun.elapsed() < HANG, "no answer");
        }
    };
    let event = execution(1, ALICE.firm_id, Side::Buy);
    let with = |change: fn(&mut OrderEvent)| {
        let mut event = event;
        change(&mut event);
        body_of(event)
    };
    assert_eq!(refused(OTHER, body_of(event)), Reason::NotEntitled);
    assert_eq!(refused(CORE, with(|e| e.partition_id = PartitionId(1))), Reason::UnknownSource);
    assert_eq!(refused(CORE, with(|e| e.exec_type = ExecType::New)), Reason::FieldOutOfRange);
    assert_eq!(refused(CORE, with(|e| e.firm_id = FirmId::NONE)), Reason::FieldOutOfRange);
    assert_ne!(refused(CORE, b"no message at all".to_vec()), Reason::None);
    let mut core = Publisher::new(address(&node), CORE.config(), Epoch(1), 0);
    say(&mut core, 1..=3);
    until_acknowledged(&mut core, 6);
    let mut all = subscription(&node, SUPERVISOR, "all");
    assert_eq!(told(&take(&mut all, 6)).len(), 6);
    // A session without the entitlement cannot subscribe.
    let mut bob = BrokerClient::new(address(&node), BOB.config());
    let others = NewSubscription {
        topic_key: ALICE.firm_id.0,
        ..NewSubscription::new("spy", SubscriptionKind::Executions)
    };
    assert!(bob.create(&others).is_err());
}
