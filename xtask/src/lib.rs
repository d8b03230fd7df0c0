//! The project's requirements on its own source, as checks, and the tables of its results.
//!
//! `CONTRIBUTING.md` states the rules and their reasons; this crate checks them. Nothing in it
//! changes a Rust source, and nothing in the product depends on it.

pub mod commits;
pub mod finding;
pub mod results;
pub mod tidy;
pub(crate) mod tree;
