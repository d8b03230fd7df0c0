//! A file system for tests that loses what was not synced: a real mount, served by FUSE from
//! memory, whose power can be cut at a chosen operation.
//!
//! [`medium`] is what is on the disk; [`power`] decides when nothing more reaches it; [`mount`]
//! serves it to the kernel. A power cut has three steps, so that a process on the mount meets it
//! as a machine does: the disk *freezes* (operations wait, nothing more takes effect), whoever
//! tests kills the process, the power is *lost* (what was not synced is chosen by seed; what still
//! waited fails) and, when the process is gone, comes back *on*.
//!
//! Nothing here is part of a node. It needs `/dev/fuse` and the right to mount.

pub mod medium;
pub mod mount;
pub mod power;

pub use medium::{Losses, Medium, PowerLoss};
pub use mount::Mounted;
pub use power::{Act, Counts, Faults, PowerDisk, Side, Trigger};
