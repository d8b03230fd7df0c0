//! `weir-bench delivery-…`: the delivery of order state over the network, with emulated cores and
//! clients.
//!
//! Node, cores and clients are separate processes on one machine. A core reports whether it kept
//! its schedule; a run in which it did not has figures but no verdict.
//!
//! - [`rig`]: these processes.
//! - [`e2e`]: the delay from a change's creation to its clients, and the effect on it of waiting
//!   for fuller pages.
//! - [`net`]: batches of changes, compared with Tarantool and Redis.
//! - [`runaway`]: more readers than the store can serve, then fewer again.
//! - [`isolation`]: a hundred good clients next to seven that misbehave ([`pests`], [`parties`]).
//! - [`parked`]: the cost of ten thousand clients waiting without changes.
//! - [`broker`]: messages to subscribers; [`cold`]: the archive; [`router_net`]: a router.
//! - Of parts alone, in this process: [`store`], [`filters`], [`router`].

pub mod broker;
pub mod cold;
mod e2e;
pub mod filters;
mod isolation;
mod net;
mod parked;
mod parties;
mod pests;
mod rig;
pub mod router;
pub mod router_net;
mod runaway;
pub mod store;
#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../../../crates/delivery/tests/support/mod.rs"]
mod support;

pub use e2e::{E2eArgs, run as run_e2e};
pub use isolation::{IsolationArgs, run as run_isolation};
pub use net::{NetArgs, run as run_net};
pub use parked::{ParkedArgs, run as run_parked};
pub use runaway::{RunawayArgs, run as run_runaway};
