//! One partition's whole order path in one thread, under simulated time, disks and network.
//!
//! A seed draws everything: the workload, the durability level, the faults and their times. The
//! parts are the node's own: its partition agent, its recovery, the logs, the delivery desk, the
//! client's follower. The simulation provides only the disk, the clock, the clients and the
//! crashes. The same seed gives the same trace, in every process.
//!
//! * [`plan`]: the parameters that a seed draws. [`plant`]: planted bugs.
//! * [`clocks`]: the machine's clocks, of which one may be set, and the rules of log time.
//! * [`disk`], [`shell`]: the injection of faults, around the simulated disk and the real log.
//! * [`weather`]: spells without descriptors, without room, or with disks that stand; [`fullness`]:
//!   the rules of a log without room.
//! * [`crowd`]: clients and the control importer. [`view`]: the order store and its followers.
//! * [`gate`]: the gateway, with clients on simulated sockets in the place of the crowd.
//! * [`process`]: the node between two crashes. [`world`]: the loop around it.
//! * [`oracle`]: the rules that must hold. [`window`]: the part of the past that it keeps.
//! * [`campaign`]: many seeds. [`day`]: one seed for hours, and all that must not grow.

pub mod campaign;
pub mod clocks;
pub mod crowd;
pub mod day;
pub mod disk;
pub mod fullness;
pub mod gate;
pub mod oracle;
pub mod plan;
pub mod plant;
pub mod process;
pub mod shell;
pub mod view;
pub mod weather;
pub mod window;
pub mod workload;
pub mod world;
