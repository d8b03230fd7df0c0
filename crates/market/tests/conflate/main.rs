//! Tests of conflation through its public interface: the table of the requirements, urgency, the
//! order of trades and quotes, policies; both stages against slow models over random steps.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

mod behaviour;
mod books;
mod model;
#[cfg(feature = "planted")]
mod planted;
mod policies;
mod random_first_stage;
mod random_second_stage;
mod random_sessions;
mod sessions;
mod skips;
