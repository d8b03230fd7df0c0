//! The parts of `weir-bench`, a module for each benchmark of the whole program.

pub mod broker;
pub mod cold;
pub mod delivery;
pub mod isolation;
pub mod market_udp;
pub mod probes;
pub mod programs;
pub mod roundtrip;
pub mod router;
