//! Delivery: the latest state of every order, for readers who ask "what is new since my token?".
//!
//! The whole crate is pure: it takes events, bytes and the time as arguments, and hands back
//! bytes. It starts no thread, reads no clock and touches no socket. One owner (a thread) has a
//! store and serves its pages; more readers means more stores, not locks.
//!
//! * [`store`]: the latest state of each order.
//! * [`ingest`]: how it takes in changes; [`memory`]: what it takes for them, and may.
//! * [`export`]: its entries in order, for whoever keeps them longer.
//! * `ahead`: what makes a batch of changes cheaper than the changes one by one.
//! * [`snapshot`]: a store as a stream of chunks, and back.
//! * [`stream`]: how its source is fed: numbered batches, gaps, epochs, full resends.
//! * [`replay`]: the same from what was kept of it.
//! * [`ring`], [`index`]: how what is new is found without a tree.
//! * [`filter`]: what was asked for and what may be seen.
//! * [`token`]: where a reader is, sealed.
//! * [`page`]: what a reader gets.
//! * [`desk`]: readers that wait, and whose turn it is.
//! * [`router`]: many sources and their replicas behind one service.
//! * [`model`]: the same answers by the slowest means, as the oracle of tests.

mod ahead;
mod bits;
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
pub mod page;
mod records;
pub mod replay;
mod resend;
mod restore;
pub mod ring;
pub mod router;
mod row;
pub mod snapshot;
pub mod store;
pub mod stream;
pub mod token;

pub use ahead::{RawRow, TakenRows};
pub use credit::Credit;
pub use desk::listing::{Lag, Served, Waiting, WaitsFor};
pub use desk::older::{OlderAnswer, OlderAsk, OlderPage, Ticket};
pub use desk::{Asked, Desk, DeskConfig, PageSink, Polled, Question};
pub use export::{Exported, ExportedAs};
pub use filter::{Entitlement, Filter, Scope, Visibility};
pub use index::{Kind, Kinds};
pub use ingest::{IngestError, Ingested};
pub use memory::Memory;
pub use page::{Page, PageLimits, Selection};
pub use ring::Place;
pub use router::{Ask, BackendId, BackendInfo, BackendPort, BackendRole, Router, RouterConfig};
pub use row::{ROW_LEN, row_len, row_of};
pub use snapshot::{Restore, RestoreError, SnapshotError, SnapshotStep};
pub use store::{Held, OrderStore, Resync, Retention, StoreConfig};
pub use token::{
    NonceCounter, SourcePlace, TokenError, TokenHead, TokenKey, TokenKeys, TokenSealer,
};
