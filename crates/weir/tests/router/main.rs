//! A router in front of real nodes: `weir serve --role router` and its nodes are processes, outside
//! cores feed the nodes, and readers follow over the binary protocol and HTTP.
//!
//! Whichever process is killed, a reader continues by its token and ends with the cores' last
//! states. `WEIR_DELIVERY_KILLS` sets the number of kills of each part (1), `WEIR_SEED` the seed.

#![allow(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "every test program takes a part of it")]
mod support;

mod cold;
mod exchanges;
mod failures;
mod kills;
mod replicas;
mod rig;
mod rights;
mod service;
mod test_core;
mod web;
