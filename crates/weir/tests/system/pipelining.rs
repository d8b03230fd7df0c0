//! Many requests in flight at once, and the stage times of their answers.

use weir_types::{EventNo, ExecType, RequestNo};
use weir_wire::NodeMessage;
use weir_wire::dialogue::put_request;
use weir_wire::report::{ExecutionReport, StageTimes};

use crate::support::trader::Trader;
use crate::support::wire::{Wire, logon_of};
use crate::support::{ALICE, BOB, Home, open_market};

fn next_report(wire: &mut Wire) -> ExecutionReport {
    wire.expect("a report", |message| match message {
        NodeMessage::ExecutionReport(report) => Some(*report),
        _ => None,
    })
}

#[test]
fn a_thousand_orders_in_one_write_are_answered_each_once_and_in_order() {
    for durability in ["memory", "os", "disk"] {
        let home = Home::new(durability);
        let node = home.start();
        open_market(&node, &[ALICE]);
        let mut wire = Wire::connect(&node);
        wire.log_on(&logon_of(&ALICE));
        let mut bytes = Vec::new();
        for number in 1..=1_000 {
            let request = ALICE.buy(number, 50, 1);
            let request_no = RequestNo(number);
            let request = weir_client::request::stamp(request, ALICE.session_id, request_no);
            put_request(&request, &mut bytes);
        }
        wire.send(&bytes);
        for number in 1..=1_000 {
            let event = next_report(&mut wire).event;
            assert_eq!((event.request_no, event.event_no), (RequestNo(number), EventNo(number)));
            assert_eq!(event.exec_type, ExecType::New);
        }
    }
}

/// Returns whether t0 is known and no later point precedes an earlier one.
fn are_in_order(times: &StageTimes) -> bool {
    times.t0.0 > 0 && times.after_t0.is_sorted() && times.after_t0[5] > 0
}

#[test]
fn answers_carry_their_stage_times_and_resumed_ones_carry_none() {
    let home = Home::new("disk");
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let mut alice = Trader::log_on(&node, ALICE);
    let mut bob = Trader::log_on(&node, BOB);
    for number in 1..=20 {
        alice.ask_for_report(ALICE.sell(number, 50, 1));
        bob.ask_for_report(BOB.buy(number, 50, 1));
    }
    alice.settle();
    bob.settle();
    let heard = alice.reports().to_vec();
    let asked_count = heard.iter().filter(|report| !report.event.request_no.is_none()).count();
    assert_eq!((asked_count, heard.len()), (20, 40));
    for report in &heard {
        if report.event.request_no.is_none() {
            assert_eq!(report.stage_times, StageTimes::default(), "Alice did not ask for it");
        } else {
            assert!(are_in_order(&report.stage_times), "{:?}", report.stage_times);
        }
    }
    assert!(bob.reports().iter().all(|report| are_in_order(&report.stage_times)));
    alice.client.log_out(crate::support::HANG).unwrap();

    let mut again = Trader::resume(&node, ALICE, EventNo(1)).unwrap();
    again.settle();
    let told_again: Vec<_> = again.reports().to_vec();
    assert_eq!(told_again.len(), heard.len());
    for (now, then) in told_again.iter().zip(&heard) {
        assert_eq!(now.event, then.event);
        assert_eq!(now.stage_times, StageTimes::default());
    }
}
