//! Delivery: the latest state of every order, for readers that ask "what is new since my token?".
//!
//! The whole crate is pure: it takes events, bytes and the time as arguments and returns bytes. It
//! starts no thread, reads no clock and touches no socket. One thread owns a store and serves its
//! pages; more readers need more stores, not locks.
//!
//! * [`store`]: the latest state of each order.
//! * [`bounds`]: the bounds on the numbers of outside cores.
//! * [`ingest`]: taking in changes; [`memory`]: the memory that a store uses, and its limit.
//! * [`export`]: the store's entries in order, for an archive that keeps them longer.
//! * `ahead`: prefetching, which makes a batch of changes cheaper than the same changes one by one.
//! * [`snapshot`]: a store as a stream of chunks, and back.
//! * [`stream`]: the feed of a source: numbered batches, gaps, epochs, full resends.
//! * [`replay`]: the same feed, read back from a log.
//! * [`ring`], [`index`]: the order of changes, kept without a tree.
//! * [`filter`]: filters and entitlements.
//! * [`token`]: a reader's position, sealed.
//! * [`page`]: the answer to a fetch.
//! * [`desk`]: parked readers and the order in which they are served.
//! * [`router`]: many sources and their replicas behind one service.
//! * [`model`]: a naive implementation, the oracle of the tests.

mod ahead;
mod bits;
pub mod bounds;
mod capture;
mod chunk;
pub mod credit;
pub mod desk;
pub mod export;
pub mod filter;
mod heap;
pub mod index;
pub mod ingest;
pub mod memory;
pub mod model;
mod new_orders;
pub mod page;
pub mod plant;
mod records;
mod repeats;
pub mod replay;
mod resend;
mod restore;
pub mod ring;
mod room;
pub mod router;
mod row;
pub mod snapshot;
pub mod store;
pub mod stream;
pub mod token;

pub use ahead::{RawRow, TakenRows};
pub use credit::Credit;
pub use desk::listing::{Lag, PageCounts, WaitCause, WaitingFetch};
pub use desk::older::{OlderAnswer, OlderAsk, OlderPage, Ticket};
pub use desk::{Desk, DeskConfig, FetchOutcome, PageSink, PollOutcome, Question};
pub use export::{ExportedEntry, ExportedKind};
pub use filter::{Entitlement, Filter, Scope, Visibility};
pub use index::{Kind, Kinds};
pub use ingest::{IngestError, IngestOutcome};
pub use memory::Memory;
pub use page::{Page, PageLimits, PageQuery, Selection};
pub use router::{
    BackendId, BackendInfo, BackendPort, BackendRequest, BackendRole, Router, RouterConfig,
};
pub use row::{ROW_LEN, row_len, row_of};
pub use snapshot::{ChunkOutcome, Restore, RestoreError, SnapshotError};
pub use store::{HeldOrders, OrderStore, Resync, Retention, StoreConfig};
pub use token::{
    NonceCounter, SourceCursor, TokenError, TokenHead, TokenKey, TokenKeys, TokenSealer,
};
