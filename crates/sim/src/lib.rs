//! One partition's whole order path in one thread, under simulated time and simulated disks.
//!
//! A seed draws everything: the workload, the durability level, the faults and when they strike.
//! The parts are the node's own: its partition agent, its recovery, the logs, the delivery desk,
//! the client's follower. Only the disk, the clock, the clients and who is killed when are the
//! simulation's. The same seed gives the same trace, in every process.
//!
//! * [`plan`]: what a seed draws. [`plant`]: bugs to put in on purpose.
//! * [`disk`], [`shell`]: where faults enter, around the real disk and the real log.
//! * [`crowd`]: clients and the control feed. [`view`]: the order store and its followers.
//! * [`process`]: the node between two crashes. [`world`]: the loop around it.
//! * [`oracle`]: what must hold. [`campaign`]: many seeds.

pub mod campaign;
pub mod crowd;
pub mod disk;
pub mod oracle;
pub mod plan;
pub mod plant;
pub mod process;
pub mod shell;
pub mod view;
pub mod workload;
pub mod world;
