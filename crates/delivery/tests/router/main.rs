//! The router before real desks and stores: what its pages hold, what its tokens say, and what
//! becomes of readers when what is behind it fails, lags, moves, or appears.

#[path = "../support/mod.rs"]
mod support;

mod pages;
mod probes;
mod property;
mod replicas;
mod tokens;
mod venue;
