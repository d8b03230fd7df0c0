//! Tests of IEX's and the aggregators' feeds, on real frames and against independent decoders.
//!
//! `WEIR_DATA` names the folder of the frames; the readings of other decoders are in
//! `tests/oracle`. Without the frames, the tests that need them print a warning; the tests of rules
//! and of malformed input need none.

mod capture;
mod consolidate;
#[path = "../support/data.rs"]
mod data;
mod iex;
mod oracle;
mod sip;
#[path = "../support/udp_capture.rs"]
mod udp_capture;
mod wholeness;
