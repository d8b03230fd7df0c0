//! Emulators: trading cores that feed a delivery store, and clients that follow it, for whoever
//! wants to see a store under the load of a venue without one.
//!
//! Every change carries the moment at which it was due ([`OrderRow::transact_time`]), by the wall
//! clock, so that a client on the same machine knows each row's delay from its creation on. The
//! cores are open loops: what they sent late is counted, and a run with too much of it gives no
//! verdict.
//!
//! * [`core`]: the orders of a core and how they change.
//! * [`feeder`]: cores on their way into a store.
//! * [`crowd`]: followers with filters, and what reached them when.
//! * [`setup`]: the sessions of both, defined by an operator.
//!
//! [`OrderRow::transact_time`]: weir_wire::delivery::OrderRow::transact_time

pub mod core;
pub mod crowd;
pub mod feeder;
pub mod setup;

pub use self::core::{CorePlan, EmulatedCore, Profile};
pub use self::crowd::{Crowd, CrowdPlan, CrowdReport, Interest, Member};
pub use self::feeder::{FeedPlan, FeedReport, Feeder};
