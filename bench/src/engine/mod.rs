//! Benchmarks of the engine alone, on one thread.
//!
//! - [`alone`]: its own figures. [`peer`]: the same flow as a peer engine, by `bench/engine.sh`.
//! - [`ladder`]: the structure of a book side's prices.
//! - [`mix`]: the synthetic mix; `day`, `flow`: a recorded day; `peer_flow`: the peer's format.

pub mod alone;
mod day;
mod flow;
pub mod ladder;
pub(crate) mod mix;
pub mod peer;
mod peer_flow;
#[path = "../../../crates/engine/tests/support/timing.rs"]
mod timing;
