//! Repeated requests: the first answer is sent again, and nothing is executed again.

use weir_client::request::cancel_all;
use weir_client::request::{Replace, cancel, stamp};
use weir_types::{ClOrdId, EventNo, ExecType, OrderId, Price, Qty, Reason, Rec, RequestNo, Seq};
use weir_wire::event::{OrderEvent, RequestDone, RequestRejected};
use weir_wire::{NodeMessage, Request};

use crate::support::following::{Following, latest_states};
use crate::support::wire::{Wire, logon_of};
use crate::support::{ALICE, BOB, Home, INSTRUMENT, SUPERVISOR, TRADING, open_market};

/// An engine's event for the session.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Report(OrderEvent),
    Rejected(RequestRejected),
    Done(RequestDone),
}

impl Answer {
    fn event_no(&self) -> EventNo {
        match self {
            Answer::Report(m) => m.event_no,
            Answer::Rejected(m) => m.event_no,
            Answer::Done(m) => m.event_no,
        }
    }

    /// Returns the event as it reads when it is repeated at another log position.
    fn as_repeated(mut self, by: &Answer) -> Answer {
        match (&mut self, by) {
            (Answer::Report(m), Answer::Report(by)) => {
                (m.position, m.event_no) = (by.position, by.event_no);
                (m.rec, m.seq) = (Rec::NONE, Seq::NONE);
            }
            (Answer::Rejected(m), Answer::Rejected(by)) => {
                (m.position, m.event_no) = (by.position, by.event_no);
            }
            (Answer::Done(m), Answer::Done(by)) => {
                (m.position, m.event_no) = (by.position, by.event_no);
            }
            (first, again) => panic!("{first:?} was said again as {again:?}"),
        }
        self
    }
}

fn heard(wire: &mut Wire) -> Answer {
    wire.expect("an event", |message| match message {
        NodeMessage::ExecutionReport(report) => Some(Answer::Report(report.event)),
        NodeMessage::RequestRejected(rejected) => Some(Answer::Rejected(*rejected)),
        NodeMessage::RequestDone(done) => Some(Answer::Done(*done)),
        _ => None,
    })
}

/// Returns requests of every kind, each with the number of events it causes.
fn requests() -> Vec<(Request, usize)> {
    let name = ClOrdId::from_number;
    let replace = Replace {
        cl_ord_id: name(2),
        orig_cl_ord_id: name(1),
        instrument_id: INSTRUMENT,
        price: Price(51),
        order_qty: Qty(9),
    };
    let unnamed = Replace { orig_cl_ord_id: name(77), ..replace };
    vec![
        (ALICE.buy(1, 50, 10), 1),
        (BOB.buy(3, 50, 10), 1), // another account: rejected
        (replace.request(), 1),
        (unnamed.request(), 1), // no such order: rejected
        (cancel(name(4), name(2), INSTRUMENT), 1),
        (ALICE.buy(5, 50, 10), 1),
        (cancel_all(TRADING), 2),
        (ALICE.sell(6, 70, 4), 1),
        (ALICE.buy(7, 70, 4), 3), // New, and both sides of the trade
    ]
}

#[test]
fn every_request_sent_again_gets_its_first_answer_and_executes_nothing() {
    let home = Home::new("os");
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let mut wire = Wire::connect(&node);
    wire.log_on(&logon_of(&ALICE));
    let mut first = Vec::new();
    let mut reports = Vec::new();
    for (number, (request, event_count)) in (1..).zip(requests()) {
        let request = stamp(request, ALICE.session_id, RequestNo(number));
        wire.request(&request);
        let said: Vec<_> = (0..event_count).map(|_| heard(&mut wire)).collect();
        reports.extend(said.iter().filter_map(|said| match said {
            Answer::Report(event) => Some(*event),
            _ => None,
        }));
        first.push((request, answer_among(&request, &said)));
    }
    let (mut event_no, more) = skip_a_number(&mut wire, first.len() as u64);
    reports.extend(more);
    let states = latest_states(&reports);
    let mut following = Following::start(&node, SUPERVISOR, Vec::new());
    following.until(&states);
    let live = node.partition_when(TRADING, |_| true)["live_orders"].clone();

    // In the order sent, then in reverse, then after a restart.
    let backwards = first.iter().rev();
    for (request, answer) in first.iter().chain(backwards) {
        wire.request(request);
        event_no = check_repeat(&mut wire, answer, event_no);
    }
    assert!(node.terminate().success());
    let node = home.start();
    let mut wire = Wire::connect(&node);
    wire.log_on(&logon_of(&ALICE));
    for (request, answer) in &first {
        wire.request(request);
        event_no = check_repeat(&mut wire, answer, event_no);
    }
    following.go_on(node.address()).unwrap();
    following.until_online();
    assert_eq!(following.states(), states, "no order came of it, and none changed");
    assert_eq!(node.partition_when(TRADING, |_| true)["live_orders"], live);
}

/// Returns the first answer among a request's events: the one that carries its number and states
/// its own outcome.
fn answer_among(request: &Request, said: &[Answer]) -> Answer {
    let is_answer = |said: &&Answer| match said {
        Answer::Report(event) => matches!(
            (request, event.exec_type),
            (Request::NewOrder(_), ExecType::New | ExecType::Rejected)
                | (Request::ReplaceOrder(_), ExecType::Replaced)
                | (Request::CancelOrder(_), ExecType::Canceled)
        ),
        Answer::Rejected(_) | Answer::Done(_) => true,
    };
    *said.iter().find(is_answer).expect("every request has an answer")
}

/// Skips a request number and asserts that the number is then too old. Returns the last event's
/// number and the reports.
fn skip_a_number(wire: &mut Wire, last: u64) -> (EventNo, [OrderEvent; 1]) {
    let number = |no: u64| RequestNo(last + no);
    wire.request(&stamp(ALICE.buy(100, 1, 1), ALICE.session_id, number(10)));
    let Answer::Report(event) = heard(wire) else { panic!("an order is answered by a report") };
    assert_eq!(event.exec_type, ExecType::New);
    wire.request(&stamp(ALICE.buy(101, 1, 1), ALICE.session_id, number(5)));
    let Answer::Rejected(rejected) = heard(wire) else { panic!("a number left out is refused") };
    assert_eq!((rejected.reason, rejected.order_id), (Reason::TooOld, OrderId::NONE));
    (rejected.event_no, [event])
}

/// Asserts that the first answer is repeated, under the next event number.
fn check_repeat(wire: &mut Wire, answer: &Answer, before: EventNo) -> EventNo {
    let again = heard(wire);
    assert_eq!(again.event_no(), before.next());
    assert_eq!(again, answer.as_repeated(&again));
    again.event_no()
}
