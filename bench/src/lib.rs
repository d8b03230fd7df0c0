//! The parts of `weir-bench`: a module for each benchmark, in folders by the part that is measured.
//!
//! Each module names the quantity that it measures and prints one JSON object as its last line.
//! [`programs`] starts the shipped program, [`roundtrip`] holds the parts that benchmarks over
//! sockets share, `rounds` the statistics of alternating rounds, [`memory`] the count of
//! allocations.

pub mod auth_timing;
pub mod broker;
pub mod delivery;
pub mod engine;
pub mod isolation;
pub mod link;
pub mod log;
pub mod market;
#[path = "../../crates/market/tests/support/memory.rs"]
mod memory;
pub mod partitions;
pub mod probe_cost;
pub mod probes;
pub mod programs;
pub mod recovery;
mod rounds;
pub mod roundtrip;
pub mod starts;
pub mod wire;

/// The system's allocator with a counter of each thread's allocations, in every benchmark: one
/// program has one allocator, and the counter is an addition to a cell of the thread.
#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;
