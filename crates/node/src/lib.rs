//! The node: its configuration, the wiring of all parts into one process, and its figures.
//!
//! * [`config`]: all settings. [`node`]: the parts assembled and started.
//! * [`status`], [`health`], [`http`]: figures, liveness and readiness over HTTP. [`service`]:
//!   notices to the service manager. [`diagnostics`]: lines on standard error.
//! * [`probe_drain`]: drains the probe rings into histograms. [`heap`]: the allocator's setting.
//!   [`limits`]: the system's limits on the process. [`engine_memory`]: the memory of its engines.
//! * [`backup`]: backups of a node's directory, and their restore.

pub mod backup;
pub mod config;
pub mod diagnostics;
pub mod engine_memory;
pub mod health;
pub mod heap;
pub mod http;
pub mod limits;
pub mod node;
pub mod probe_drain;
pub mod service;
pub mod status;
