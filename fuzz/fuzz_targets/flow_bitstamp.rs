//! Arbitrary text as a Bitstamp day, as log and as table: its records, and the flow made of them.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use weir_client::flow::bitstamp::{BitstampCsv, BitstampLog};
use weir_client::flow::bitstamp_flow;

fuzz_target!(|bytes: &[u8]| {
    let log: Vec<_> = BitstampLog::new(Cursor::new(bytes), "fuzz").map_while(Result::ok).collect();
    let _ = bitstamp_flow(&log);
    let table: Vec<_> =
        BitstampCsv::new(Cursor::new(bytes), "fuzz").map_while(Result::ok).collect();
    let _ = bitstamp_flow(&table);
});
