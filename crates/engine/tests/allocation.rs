//! Orders in steady state allocate nothing on the heap.

mod support;

#[allow(dead_code)]
#[path = "support/memory.rs"]
mod memory;

use memory::{Counting, allocation_count};
use support::*;
use weir_types::*;
use weir_wire::order_entry::{CancelOrder, NewOrder};
use weir_wire::{Command, Event, Request};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the commands of round `round`: entries, a cross, a replace, cancels.
fn round(round: u64) -> Vec<Request> {
    let mut requests = Vec::new();
    for at in 0..40 {
        let price = 90 + (at * 7 % 9) as i64;
        let order =
            NewOrder { cl_ord_id: ClOrdId::from_number(round * 100 + at), ..buy(price, 5, "") };
        requests.push(Request::NewOrder(order));
    }
    requests.push(Request::NewOrder(bob(NewOrder {
        time_in_force: TimeInForce::Ioc,
        ..sell(96, 30, "cross")
    })));
    for at in 0..40 {
        let orig_cl_ord_id = ClOrdId::from_number(round * 100 + at);
        if at % 4 == 0 {
            let order = weir_wire::order_entry::ReplaceOrder {
                orig_cl_ord_id,
                cl_ord_id: orig_cl_ord_id,
                ..replace("", "x", 89, 7)
            };
            requests.push(Request::ReplaceOrder(order));
        }
        requests.push(Request::CancelOrder(CancelOrder { orig_cl_ord_id, ..cancel("") }));
    }
    requests
}

/// Returns the commands of a round of the other kinds: icebergs, stops in waves, expiring and
/// parked orders, an uncrossed call.
fn call_round(round: u64) -> Vec<Request> {
    let mut requests = Vec::new();
    let phase = |phase| {
        Request::SetPhase(weir_wire::reference::SetPhase {
            request_no: RequestNo(0),
            session_id: OPERATOR,
            instrument_id: TULIP,
            phase,
            override_collars: Switch::Off,
        })
    };
    let number = |at: u64| ClOrdId::from_number(round * 100 + at);
    for at in 0..10 {
        let order = NewOrder { cl_ord_id: number(at), ..sell(100 + at as i64, 10, "") };
        requests.push(Request::NewOrder(NewOrder { display_qty: Qty(2), ..order }));
        let mut stop = NewOrder { cl_ord_id: number(10 + at), ..buy(0, 3, "") };
        (stop.ord_type, stop.stop_px) = (OrdType::Stop, Price(100 + at as i64));
        requests.push(Request::NewOrder(stop));
        let mut dated = NewOrder { cl_ord_id: number(20 + at), ..buy(50, 1, "") };
        (dated.time_in_force, dated.expire_time) = (TimeInForce::Gtd, Nanos(u64::MAX));
        requests.push(Request::NewOrder(dated));
        let parked = NewOrder { cl_ord_id: number(30 + at), ..buy(60, 1, "") };
        let time_in_force = TimeInForce::AtTheClose;
        requests.push(Request::NewOrder(NewOrder { time_in_force, ..parked }));
    }
    requests.push(Request::NewOrder(bob(NewOrder { cl_ord_id: number(40), ..buy(100, 10, "") })));
    requests.push(phase(Phase::Halted));
    requests.push(phase(Phase::OpeningCall));
    for at in 0..10 {
        let order = NewOrder { cl_ord_id: number(50 + at), ..sell(100, 2, "") };
        requests.push(Request::NewOrder(order));
        let order = NewOrder { cl_ord_id: number(60 + at), ..buy(0, 2, "") };
        requests.push(Request::NewOrder(bob(NewOrder { ord_type: OrdType::Market, ..order })));
    }
    requests.push(phase(Phase::Continuous));
    let mut fok = NewOrder { cl_ord_id: number(70), ..buy(200, 5, "") };
    fok.time_in_force = TimeInForce::Fok;
    requests.push(Request::NewOrder(bob(fok)));
    for at in 0..70 {
        let orig_cl_ord_id = number(at);
        requests.push(Request::CancelOrder(CancelOrder { orig_cl_ord_id, ..cancel("") }));
    }
    requests
}

/// A single test, because the count is of the whole process.
#[test]
fn orders_of_all_kinds_in_steady_state_allocate_nothing() {
    allocates_nothing(round);
    allocates_nothing(call_round);
}

fn allocates_nothing(round: fn(u64) -> Vec<Request>) {
    let mut desk = Desk::open();
    let mut event_count = 0_u64;
    // After these rounds the sessions' rings of answers and all tables have their final size.
    for number in 0..30 {
        for request in round(number) {
            desk.ask(request);
        }
    }
    let commands: Vec<Command> = (30..40)
        .flat_map(round)
        .zip(100_000..)
        .map(|(request, number)| Command::Request(numbered(request, number)))
        .collect();
    let before = allocation_count();
    for command in &commands {
        desk.position += 1;
        let (position, time) = (Position(desk.position), Nanos(1_000_000));
        desk.engine.apply(position, time, command, &mut |_: &Event| event_count += 1);
    }
    let after = allocation_count();
    assert_eq!(after - before, 0, "allocations in {} commands", commands.len());
    assert!(event_count > commands.len() as u64);
}
