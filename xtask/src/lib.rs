//! What the project demands of its own source, as code, and the tables that it makes of results.
//!
//! The rules are told with their reasons in `CONTRIBUTING.md`; here they are checked. Nothing in
//! this crate changes a Rust source, and nothing in the product depends on it.

pub mod results;
pub mod tidy;
