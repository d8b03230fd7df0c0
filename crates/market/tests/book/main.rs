//! Tests of the books' public interface: against a slow model, against recorded markets, and single
//! behaviours.
//!
//! `WEIR_DATA` names the folder of recorded data. Without it, the tests that need it print a
//! warning and check nothing.

mod behaviour;
mod binance;
mod lobster;
mod model;
mod property;
mod support;
