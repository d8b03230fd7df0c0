//! Emulators: trading cores that feed a delivery store, and clients that follow it, to test a store
//! under the load of a venue without a venue.
//!
//! Every change carries its due time ([`OrderRow::transact_time`]) by the wall clock, so that a
//! client on the same machine can measure each row's delay from its creation. The cores are open
//! loops: late changes are counted, and a run with too many of them gives no verdict.
//!
//! * [`core`]: a core's orders and their changes.
//! * [`driver`]: cores that feed a store.
//! * [`crowd`]: followers with filters, and their measured delays.
//! * [`setup`]: the sessions of both, defined by an operator.
//!
//! [`OrderRow::transact_time`]: weir_wire::delivery::OrderRow::transact_time

pub mod core;
pub mod crowd;
pub mod driver;
pub mod setup;

pub use self::core::{CorePlan, EmulatedCore, Profile};
pub use self::crowd::{Crowd, CrowdPlan, CrowdReport, Interest, Member};
pub use self::driver::{CoreDriver, DrivePlan, DriveReport};
