//! A file system for tests that loses unsynced data: a real mount, served by FUSE from memory,
//! whose power can be cut at a chosen operation.
//!
//! [`medium`] holds the contents of the disk; [`power`] decides when no more operations reach it;
//! [`mount`] serves it to the kernel. A power cut has three steps, so that a process on the mount
//! experiences it as on a real machine: the disk *freezes* (operations wait, none takes effect),
//! the test kills the process, the power is *lost* (a seed chooses the unsynced changes that
//! survive; waiting operations fail) and, when the process is gone, comes back *on*.
//!
//! Nothing here is part of a node. It needs `/dev/fuse` and the right to mount.

pub mod medium;
pub mod mount;
pub mod power;

pub use medium::{Losses, Medium, PowerLoss};
pub use mount::Mounted;
pub use power::{Act, Counts, Faults, PowerDisk, Side, Trigger};
