//! What the project demands of its own source, as code.
//!
//! The rules are told with their reasons in `CONTRIBUTING.md`; here they are checked. Nothing in
//! this crate changes a source file, and nothing in the product depends on it.

pub mod tidy;
