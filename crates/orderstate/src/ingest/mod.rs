//! Ingest: outside cores feed the orders that delivery serves to readers.
//!
//! A thread of its own has the sockets ([`agent`], `intake`) and hands whole batches to the
//! delivery agent over a bounded ring ([`handoff`]); there each source has a store and a stream
//! ([`source_stores`]). INVARIANT: the memory that a connection can occupy is bounded: its input
//! buffer, its window in front of the store, its output.

pub mod agent;
pub mod figures;
mod followers;
mod following;
pub mod handoff;
mod intake;
mod older;
pub mod own;
mod quarantine;
mod source_store;
pub mod source_stores;
mod waiting;

pub use self::agent::{IngestAgent, IngestParts, ingest_agent};
pub use self::figures::{IngestFigures, IngestReport};
pub use self::handoff::{IngestPort, StorePort, ingest_to_store};
pub use self::source_store::{SourceStore, SourceStoreParts};
pub use self::source_stores::SourceStores;
