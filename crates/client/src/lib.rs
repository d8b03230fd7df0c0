//! (being written)
pub mod flow;
