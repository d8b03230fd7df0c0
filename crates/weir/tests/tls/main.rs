//! TLS at a node's doors: real nodes as processes, real clients, and peers that do it wrong.
//!
//! Certificates are made for each test. As in the other tests of whole nodes, nothing here decides
//! how long something may take.

#![allow(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "every test program takes a part of it")]
mod common;

mod certificates;
mod doors;
mod handshakes;
mod hostile;
mod liveness;
mod proxy;
mod sessions;
mod stand;
