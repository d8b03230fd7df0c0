//! A client that does not read: it alone falls behind, and misses nothing when it reads again.

use std::time::Duration;

use weir_types::{EventNo, OrdStatus};
use weir_wire::NodeMessage;
use weir_wire::session::Logon;

use crate::support::trader::Trader;
use crate::support::wire::{Wire, logon_of};
use crate::support::{ALICE, BOB, HANG, Home, Node, Who, open_market, trader_of, until};

/// The number of trades: 5 MB of reports for Alice, more than all buffers between node and client
/// hold.
pub const TRADES: u64 = 20_000;
/// The number of Bob's orders in flight.
const WINDOW: u64 = 500;

/// Logs Alice on with a large offer; she reads nothing from then on.
fn silent_alice(node: &Node) -> Wire {
    let mut wire = Wire::connect(node);
    rustix::net::sockopt::set_socket_recv_buffer_size(wire.connection(), 64 << 10).unwrap();
    // She sends no heartbeats, so she requests the longest interval.
    wire.log_on(&Logon { heartbeat_interval_ms: 60_000, ..logon_of(&ALICE) });
    let offer = ALICE.sell(1, 50, TRADES);
    wire.request(&weir_client::request::stamp(offer, ALICE.session_id, weir_types::RequestNo(1)));
    let event = wire.expect("a report", |message| match message {
        NodeMessage::ExecutionReport(report) => Some(report.event),
        _ => None,
    });
    assert_eq!((event.event_no, event.ord_status), (EventNo(1), OrdStatus::New));
    wire
}

/// Bob takes Alice's offer lot by lot and receives every report.
pub fn take_all(bob: &mut Trader) {
    for number in 1..=TRADES {
        bob.send(BOB.buy(number, 50, 1));
        if number % WINDOW == 0 {
            bob.report_where(|r| r.request_no.0 == number && r.ord_status == OrdStatus::Filled);
            bob.forget();
        }
    }
    bob.settle();
    assert_eq!(bob.reports().len() as u64, 2 * TRADES, "New and Trade of each");
}

fn reports_sent(node: &Node) -> u64 {
    node.status()["gateway"]["reports"].as_u64().expect("a counter")
}

/// Returns the counter once it has stood still for longer than the gateway's publishing interval.
fn reports_at_rest(node: &Node) -> u64 {
    until("the counter to come to rest", || {
        let first = reports_sent(node);
        std::thread::sleep(Duration::from_millis(200));
        (first == reports_sent(node)).then_some(first)
    })
}

#[test]
fn a_reader_that_pauses_gets_every_event_in_order_and_others_are_served_meanwhile() {
    let config = "[gateway]\noutput_bytes_max = 65536\nstall_max_ms = 600000\n";
    let home = Home::with_config("memory", config);
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let before = reports_at_rest(&node);
    let mut alice = silent_alice(&node);
    let mut bob = Trader::log_on(&node, BOB);
    take_all(&mut bob);
    // Alice's New and trades; Bob's reports, and the answer that settles.
    let all = before + (1 + TRADES) + (2 * TRADES + 1);
    let sent = reports_at_rest(&node);
    assert!(sent < all, "Alice was to fall behind: {sent} of {all} are sent");

    for event_no in 2..=TRADES + 1 {
        let event = alice.expect("a report", |message| match message {
            NodeMessage::ExecutionReport(report) => Some(report.event),
            _ => None,
        });
        assert_eq!((event.event_no, event.cum_qty.0), (EventNo(event_no), event_no - 1));
    }
    until("the last report to be counted", || (reports_sent(&node) == all).then_some(()));
}

#[test]
fn a_reader_that_stalls_for_too_long_is_closed_and_resumes_without_a_gap() {
    let config = "[gateway]\noutput_bytes_max = 65536\nstall_max_ms = 100\n";
    let home = Home::with_config("memory", config);
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let alice = silent_alice(&node);
    let mut bob = Trader::log_on(&node, BOB);
    take_all(&mut bob);
    until("the slow reader's end", || {
        let status = node.status();
        let gateway = &status["gateway"];
        (gateway["slow_consumers"] == 1 && gateway["sessions"] == 1).then_some(())
    });
    drop(alice);
    let mut again = Trader::resume(&node, ALICE, EventNo(2)).unwrap();
    let last = again.report_where(|report| report.ord_status == OrdStatus::Filled);
    assert_eq!(last.event_no, EventNo(TRADES + 1));
    let numbers: Vec<_> = again.reports().iter().map(|report| report.event.event_no.0).collect();
    assert!(numbers.iter().copied().eq(2..=TRADES + 1), "dense from where it went on");
    again.client.log_out(HANG).unwrap();
}

#[test]
fn many_that_come_back_at_once_each_get_all_that_was_said_to_them_in_order() {
    let home = Home::new("memory");
    let node = home.start();
    let traders: Vec<Who> = (0..8).map(|n| trader_of(30 + n)).collect();
    open_market(&node, &traders);
    let count = 700;
    for who in &traders {
        let mut trader = Trader::log_on(&node, *who);
        for number in 1..=count {
            trader.send(who.buy(number, 50, 1));
        }
        trader.settle();
        trader.client.log_out(HANG).unwrap();
    }
    // Each session must catch up on more than its share of a cycle, and all together on more than a
    // whole cycle's.
    let resume = |who: &Who| Trader::resume(&node, *who, EventNo(1)).unwrap();
    let mut back: Vec<Trader> = traders.iter().map(resume).collect();
    for trader in &mut back {
        trader.report_where(|report| report.event_no == EventNo(count));
        let numbers = trader.reports().iter().map(|report| report.event.event_no.0);
        assert!(numbers.take(count as usize).eq(1..=count), "dense and in order");
    }
}
