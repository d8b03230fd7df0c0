//! Benchmarks of market data: sockets, books, conflation, the gateway's pipeline, its outputs.

pub mod books;
pub mod conflation;
#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../../../crates/market/tests/support/flow.rs"]
mod flow;
pub mod full_ring;
pub mod json;
pub mod pipeline;
pub mod post;
pub mod udp;
