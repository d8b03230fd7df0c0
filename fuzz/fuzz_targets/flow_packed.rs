//! Arbitrary bytes as packed order flow, with and without its envelope.
//!
//! Checks that an unpacked stream can be packed again and unpacks to the same, and that playing it
//! never panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_client::flow::{FlowItem, FlowToOrders, decode, encode, unpack};

fuzz_target!(|bytes: &[u8]| {
    for flow in [decode(bytes), unpack(bytes)].into_iter().flatten() {
        let mut orders = FlowToOrders::new();
        for item in &flow.items {
            if let FlowItem::Event(event) = item {
                let _ = orders.apply(event);
            }
        }
        if let Ok(packed) = encode(&flow.header, &flow.items) {
            assert_eq!(decode(&packed).as_ref(), Ok(&flow), "packed, it is another flow");
        }
    }
});
