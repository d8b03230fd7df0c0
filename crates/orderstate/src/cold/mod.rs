//! Archives of the orders that the delivery stores discard, for readers that return later: one
//! archive (`weir-cold`) of the node's own orders and of each outside source's, fed from its store
//! and read with the same tokens.
//!
//! The store's thread copies new changes into batches and forwards queries; files, packing, lookups
//! and sealing are done on the archive's own thread. Neither waits for the other: a full ring is
//! retried, and the store meanwhile keeps the unsent changes. If these are too many, the discarded
//! ones become a hole, after which the archive begins anew and counts it.
//!
//! * [`agent`]: the archive's thread.
//! * [`queries`]: the answers to queries.
//! * [`sender`]: the store's end.
//! * [`ends`]: the ends of the partition's past epochs, as change ids.
//! * [`figures`]: the archive's figures.
//! * [`sources`]: the archives of outside sources.

pub mod agent;
pub mod ends;
pub mod figures;
mod queries;
mod section;
pub mod sender;
pub mod sources;

pub use agent::{ColdAgent, ColdParts, SharedPace};
pub use figures::{ColdFigures, ColdReport};
pub use section::ColdSection;
pub use sender::{ArchiveSender, ColdPort, may_be_sent};
pub use sources::ColdSources;

use weir_probe::thread::Share;

/// Reads of old changes yield to reads of new ones; but new changes must be archived, too.
pub const COLD_SHARE: Share = Share::Fair { niceness: 10 };

/// Returns an ended order, for tests.
#[cfg(test)]
pub(crate) fn ended_row() -> weir_wire::delivery::OrderRow {
    tests::row(1, 1, 1, weir_types::OrdStatus::Canceled)
}

#[cfg(test)]
pub(crate) use tests::row as row_of;

#[cfg(test)]
mod tests;
