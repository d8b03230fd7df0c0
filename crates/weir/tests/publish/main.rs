//! The published market in one process: engine, publication and a reader.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod day;
mod flow;
mod market;
mod random;
mod reader;
mod sessions;
