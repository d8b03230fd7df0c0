//! `weir-bench delivery-…`: the delivery of order state over the network, under emulated cores and
//! clients.
//!
//! Node, cores and clients are processes of their own on one machine. A core says whether it kept
//! its times; a run in which it did not has figures and no verdict.
//!
//! * [`stand`]: those processes.
//! * [`e2e`]: the delay from a change's creation to its clients, and what waiting for fuller pages
//!   does to it.
//! * [`net`]: batches of changes, beside Tarantool and Redis.
//! * [`runaway`]: more readers than the store can serve, and then fewer again.
//! * [`isolation`]: a hundred good clients beside three that are not ([`pests`]).
//! * [`parked`]: what ten thousand clients cost that wait for nothing.

mod e2e;
mod isolation;
mod net;
mod parked;
mod pests;
mod runaway;
mod stand;

pub use e2e::{E2eArgs, run as run_e2e};
pub use isolation::{IsolationArgs, run as run_isolation};
pub use net::{NetArgs, run as run_net};
pub use parked::{ParkedArgs, run as run_parked};
pub use runaway::{RunawayArgs, run as run_runaway};
