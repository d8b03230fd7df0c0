//! What the delivery stores let go, for readers who come back later: an archive (`weir-cold`) of
//! the node's own orders and of each outside source's, fed from its store, read by the same tokens.
//!
//! The store's thread copies what is new into batches and hands questions on; everything else,
//! files, packing, looking up and sealing, is done on the archive's own thread. Neither waits for
//! the other: a full ring is tried again, the store keeps meanwhile what was not handed over, and
//! when that is too much, what it lets go is a hole, after which the archive begins anew and says
//! so.
//!
//! * [`agent`]: the archive's thread.
//! * [`asks`]: what it answers.
//! * [`feeder`]: the store's end.
//! * [`ends`]: where the partition's ended epochs ended, by places.
//! * [`figures`]: what is told of it.
//! * [`sources`]: the archives of outside sources.

pub mod agent;
mod asks;
pub mod ends;
pub mod feeder;
pub mod figures;
mod section;
pub mod sources;

pub use agent::{ColdAgent, ColdParts, SharedPace};
pub use feeder::{ColdFeeder, ColdPort};
pub use figures::{ColdFigures, ColdReport};
pub use section::ColdSection;
pub use sources::ColdSources;

use weir_probe::thread::Share;

/// Who reads what is old waits for who reads what is new; but what is new has to be taken, too.
pub const COLD_SHARE: Share = Share::Fair { niceness: 10 };

/// An order that ended, for tests.
#[cfg(test)]
pub(crate) fn ended_row() -> weir_wire::delivery::OrderRow {
    tests::row(1, 1, 1, weir_types::OrdStatus::Canceled)
}

#[cfg(test)]
mod tests;
