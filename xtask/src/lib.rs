//! The project's requirements on its own source, as checks.
//!
//! `CONTRIBUTING.md` states the rules and their reasons; this crate checks them. Nothing in it
//! changes a source file, and nothing in the product depends on it.

pub mod tidy;
