//! IEX's feeds and the aggregators', on real frames and against independent decoders.
//!
//! The frames are found by `WEIR_DATA`; what other decoders read in them is in `tests/oracle`.
//! Without the frames the tests that need them say so, loudly; those of rules and of broken input
//! need none.

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
