//! Conflation by its public face: the case's own table, urgency, trade safety, policies; both
//! stages against slow, obvious models over random steps.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

mod behaviour;
mod books;
mod model;
mod policies;
mod random_first_stage;
mod random_second_stage;
