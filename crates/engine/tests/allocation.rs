//! Orders in steady state take nothing from the heap.

mod common;

#[allow(dead_code)]
#[path = "../examples/bench/memory.rs"]
mod memory;

use common::*;
use memory::{Counting, allocation_count};
use weir_types::*;
use weir_wire::order_entry::{CancelOrder, NewOrder};
use weir_wire::{Command, Event, Request};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The commands of round `round`: entries, a cross, a replace, cancels.
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

#[test]
fn orders_in_steady_state_allocate_nothing() {
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
