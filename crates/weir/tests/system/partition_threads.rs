//! Trading partitions on threads of their own: an operator's definitions are known in them, a stop
//! loses nothing, and a partition whose disk stands leaves the others at work.

use std::time::Duration;

use rustix::process::Signal;
use weir_client::request::LimitOrder;
use weir_client::session::{SessionConfig, SessionEvent};
use weir_io::ThreadDisk;
use weir_log::{SegmentKind, inspect};
use weir_types::{
    AccountId, ClOrdId, InstrumentId, OrdStatus, PartitionId, Reason, RequestNo, SessionId, Side,
    Switch, Symbol,
};
use weir_wire::Request;
use weir_wire::reference::{DefineAccount, DefineInstrument};

use crate::support::machine::Machine;
use crate::support::trader::Trader;
use crate::support::{ALICE, BOB, Home, INSTRUMENT, Node, Who, instrument, open_market, until};

const PARTITIONS: [PartitionId; 2] = [PartitionId(3), PartitionId(7)];
const INSTRUMENTS: [InstrumentId; 2] = [INSTRUMENT, InstrumentId(2)];
const CONFIG: &str = "[[partition]]\nid = 3\nthread = 'three'\n\
                      [[partition]]\nid = 7\nthread = 'seven'\ncore = 0\n";

fn order(who: Who, index: usize, number: u64, side: Side) -> Request {
    let order = who.order(number, side, 100, 1);
    LimitOrder { instrument_id: INSTRUMENTS[index], ..order }.request()
}

/// Returns the names of the node's threads.
fn thread_names(node: &Node) -> Vec<String> {
    let tasks = format!("/proc/{}/task", node.pid().as_raw_nonzero());
    let tasks = std::fs::read_dir(tasks).unwrap();
    // A thread may end meanwhile.
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).collect()
}

/// Returns the number of reports with a status that a trader has received.
fn count(trader: &Trader, status: OrdStatus) -> u64 {
    trader.reports().iter().filter(|report| report.event.ord_status == status).count() as u64
}

#[test]
fn partitions_with_threads_of_their_own_lose_nothing_by_a_kill_or_a_stop() {
    let home = Home::with_config("disk", CONFIG);
    let mut node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let names = thread_names(&node);
    assert!(["three", "seven"].iter().all(|name| names.iter().any(|it| it == name)), "{names:?}");
    for (id, thread) in [(PARTITIONS[0], "three"), (PARTITIONS[1], "seven")] {
        node.partition_when(id, |row| row["thread"] == thread);
    }
    let mut alice = Trader::log_on(&node, ALICE);
    let mut bob = Trader::log_on(&node, BOB);
    let mut marks = Vec::new();
    for (index, id) in PARTITIONS.into_iter().enumerate() {
        for (trader, side) in [(&mut alice, Side::Sell), (&mut bob, Side::Buy)] {
            let request = order(trader.who, index, 1, side);
            let request_no = trader.send_to(id, request);
            trader.answer(request_no);
        }
        marks.push((id, alice.mark_in(id)));
    }
    node.kill();

    // The fills come in the next run, if they did not come before.
    let node = home.start();
    let before = count(&alice, OrdStatus::Filled);
    let mut alice = Trader::go_on_in(&node, ALICE, &marks).unwrap();
    for _ in before..2 {
        alice.report_where(|event| event.ord_status == OrdStatus::Filled);
    }

    // Requests that are under way at a stop are answered or were never received.
    let mut sent = 0;
    for number in 2..=200 {
        for index in [0, 1] {
            alice.send_to(PARTITIONS[index], order(ALICE, index, number, Side::Sell));
            sent += 1;
        }
    }
    alice.report_where(|event| event.ord_status == OrdStatus::New);
    rustix::process::kill_process(node.pid(), Signal::TERM).unwrap();
    until("the connection's end", || alice.poll(Duration::from_millis(20)).err());
    assert!(node.wait_for_end().success());
    for dir in ["control", "partition-3", "partition-7"] {
        let mut disk = ThreadDisk::open(&home.data().join(dir).join("commands"), None).unwrap();
        assert!(inspect(&mut disk, SegmentKind::Command).unwrap().unwrap().clean, "{dir}");
    }
    let told_before = count(&alice, OrdStatus::New);
    let marks = PARTITIONS.map(|id| (id, alice.mark_in(id)));
    let node = home.start();
    let mut alice = Trader::go_on_in(&node, ALICE, &marks).unwrap();
    let live: u64 = PARTITIONS
        .map(|id| node.partition_when(id, |_| true)["live_orders"].as_u64().unwrap())
        .iter()
        .sum();
    until("a report for each order", || {
        alice.poll(Duration::from_millis(20)).unwrap();
        (told_before + count(&alice, OrdStatus::New) >= live).then_some(())
    });
    assert_eq!(told_before + count(&alice, OrdStatus::New), live);
    assert!(live <= sent && live > 0, "{live} of {sent}");
    assert!(node.terminate().success());
    PARTITIONS.iter().for_each(|id| assert_eq!(home.verify(*id)["partition"], id.0));
}

#[test]
fn the_threads_of_the_operators_page_run_its_partitions() {
    let page = include_str!("../../../../docs/operations.md");
    let blocks = page.split("```toml\n").skip(1).filter_map(|block| block.split("\n```").next());
    let shown: Vec<_> = blocks.filter(|block| block.contains("\nthread = ")).collect();
    let [config] = shown[..] else { panic!("{shown:?}") };
    let home = Home::with_config("memory", config);
    let node = home.start();
    let threads = [1, 2, 3].map(|id| {
        let row = node.partition_when(PartitionId(id), |_| true);
        row["thread"].as_str().unwrap().to_owned()
    });
    assert_eq!(threads[..2], ["hot", "hot"]);
    assert!(["core", "partition"].contains(&&*threads[2]), "{threads:?}");
    assert!(thread_names(&node).iter().filter(|name| *name == "hot").count() == 1);
    assert!(node.terminate().success());
}

/// Defines an instrument and an account, and enters an order that names both at once.
fn define_and_trade(threads: &str) {
    let home = Home::with_config("memory", &format!("threads = '{threads}'\n{CONFIG}"));
    let node = home.start();
    open_market(&node, &[ALICE]);
    let mut admin = node.admin();
    let mut alice = Trader::log_on(&node, ALICE);
    for number in 1..=100_u32 {
        let partition_id = PARTITIONS[number as usize % 2];
        let (instrument_id, account_id) = (InstrumentId(100 + number), AccountId(100 + number));
        let account = DefineAccount {
            request_no: RequestNo::NONE,
            session_id: SessionId::NONE,
            account_id,
            firm_id: ALICE.firm_id,
            unlimited: Switch::On,
            live_orders_max: 0,
            fields: 0,
        };
        let symbol = Symbol::new(&format!("NEW{number}")).unwrap();
        let listed = DefineInstrument { partition_id, symbol, ..instrument(instrument_id) };
        admin.define_account(account).unwrap();
        admin.define_instrument(listed).unwrap();
        let order = ALICE.order(u64::from(number), Side::Buy, 100, 1);
        let order = LimitOrder { instrument_id, account_id, ..order };
        let request_no = alice.send_to(partition_id, order.request());
        let answer = alice.answer(request_no);
        let SessionEvent::Report { report, .. } = &answer else {
            panic!("{threads}: definition {number} was followed by {answer:?}")
        };
        assert_eq!(report.event.ord_status, OrdStatus::New, "{threads}: {number}");
    }
    assert!(node.terminate().success());
}

#[test]
fn an_order_that_follows_a_definition_at_once_is_never_refused_as_unknown() {
    define_and_trade("fused");
    define_and_trade("split");
}

/// A ring that stayed full stopped the input of a connection, also for the other partitions.
#[test]
fn a_partition_whose_disk_stands_leaves_the_others_at_work() {
    let home = Home::with_config("disk", CONFIG);
    let machine = Machine::new(&home).stalling_in(home.data().join("partition-7"));
    let node = machine.start(&home);
    open_market(&node, &[ALICE]);
    let config = SessionConfig { unanswered_count_max: 1 << 20, ..ALICE.patient_config() };
    let mut alice = Trader::log_on_as(&node, ALICE, config);
    let mut numbers = 1..;
    let mut next = || numbers.next().expect("there are enough");
    machine.stall_disk(true);
    let standing = alice.send_to(PARTITIONS[1], order(ALICE, 1, next(), Side::Sell));
    for _ in 0..20 {
        let request_no = alice.send_to(PARTITIONS[0], order(ALICE, 0, next(), Side::Sell));
        assert!(matches!(alice.answer(request_no), SessionEvent::Report { .. }));
    }
    let is_of_seven = |event: &SessionEvent| match event {
        SessionEvent::Report { report, .. } => report.event.partition_id == PARTITIONS[1],
        _ => false,
    };
    assert!(alice.reports().iter().all(|report| report.event.partition_id == PARTITIONS[0]));

    // Requests to the one that stands fill its ring, and are refused then.
    let mut refused = None;
    until("refusals", || {
        for _ in 0..1_000 {
            alice.send_to(PARTITIONS[1], order(ALICE, 1, next(), Side::Sell));
        }
        alice.poll(Duration::from_millis(20)).unwrap();
        refused = alice.take_if(|event| match event {
            SessionEvent::Refused { reject, .. } => Some(reject.reason),
            _ => None,
        });
        refused.map(drop)
    });
    assert_eq!(refused, Some(Reason::Overloaded));
    let request_no = alice.send_to(PARTITIONS[0], order(ALICE, 0, next(), Side::Sell));
    assert!(matches!(alice.answer(request_no), SessionEvent::Report { .. }));
    assert!(alice.take_if(|event| is_of_seven(event).then_some(())).is_none());

    machine.stall_disk(false);
    assert!(is_of_seven(&alice.answer(standing)), "the first request is answered");
    until("the other answers", || {
        alice.poll(Duration::from_millis(20)).unwrap();
        let session = alice.client.session(ALICE.session_id).expect("it has logged on");
        (session.unanswered_count() == 0).then_some(())
    });
    let again = ClOrdId::from_number(next());
    let order = LimitOrder { cl_ord_id: again, ..ALICE.order(1, Side::Sell, 100, 1) };
    let order = LimitOrder { instrument_id: INSTRUMENTS[1], ..order };
    let request_no = alice.send_to(PARTITIONS[1], order.request());
    assert!(is_of_seven(&alice.answer(request_no)), "it is back");
    assert!(node.terminate().success());
}
