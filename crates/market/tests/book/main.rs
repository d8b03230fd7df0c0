//! Books by their public face: against a slow obvious model, against recorded markets, and single
//! behaviours.
//!
//! Recorded data is found by `WEIR_DATA`. Without it the tests that need it say so, loudly, and
//! check nothing.

mod behaviour;
mod binance;
mod common;
mod lobster;
mod model;
mod property;
