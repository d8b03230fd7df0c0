//! TLS at a node's listeners: real nodes as processes, real clients, and misbehaving peers.
//!
//! Each test makes its own certificates. As in the other system tests, no wait has a deadline of
//! its own.

#![allow(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "every test program takes a part of it")]
mod support;

mod certificates;
mod doors;
mod gateways;
mod handshakes;
mod hostile;
mod liveness;
mod proxy;
mod rig;
mod sessions;
