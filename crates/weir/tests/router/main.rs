//! A router before real nodes: `weir serve --role router` and the nodes behind it are processes,
//! outside cores feed the nodes, readers follow by the binary protocol and over HTTP.
//!
//! Whatever is killed, a reader goes on by its token, and what it has in the end is what the cores
//! said last. `WEIR_DELIVERY_KILLS` sets how often each part is killed (1), `WEIR_SEED` the seed.

#![allow(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "every test program takes a part of it")]
mod common;

mod cold;
mod failures;
mod feeder;
mod kills;
mod replicas;
mod rights;
mod service;
mod stand;
mod web;
