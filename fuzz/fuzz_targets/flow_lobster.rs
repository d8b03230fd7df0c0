//! Arbitrary text as a LOBSTER day: its two files, the flow made of them, and the orders made of
//! the flow.
//!
//! Checks that no line panics and that no order sent exceeds the remaining quantity.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use weir_client::flow::lobster::LobsterDay;
use weir_client::flow::{FlowItem, FlowToOrders, LobsterFlow, Survey};

fuzz_target!(|bytes: &[u8]| {
    // The two files, back to back, separated by a byte that occurs in neither.
    let (messages, rows) = match bytes.iter().position(|byte| *byte == b'|') {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, bytes),
    };
    let day = LobsterDay::new(Cursor::new(messages), Cursor::new(rows), "fuzz");
    let lines: Vec<_> = day.map_while(Result::ok).collect();
    let mut flow = LobsterFlow::new(Survey::of(lines.iter().map(|(message, _)| message)));
    let mut orders = FlowToOrders::new();
    let mut items = Vec::new();
    for (message, row) in &lines {
        items.clear();
        flow.push(message, row, &mut items);
        for item in &items {
            if let FlowItem::Event(event) = item {
                let _ = orders.apply(event);
            }
        }
    }
});
