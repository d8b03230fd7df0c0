//! The seams between Weir's pure parts and the machine: time, disk, network and randomness.
//!
//! A part that runs in the simulator takes each of them from its owner: clock, disk and random
//! numbers as a type parameter, the network as [`net::Net`]. It gets the real one in a node and the
//! simulated one in tests and in the simulator. Parts that the simulator does not run, such as a
//! router's links, open sockets of the system themselves.
//!
//! * [`clock`]: [`Clock`], [`SystemClock`], [`SimClock`], [`monotonic_now`].
//! * [`descriptors`]: the descriptors that connections leave to files.
//! * [`disk`]: [`Disk`], [`ThreadDisk`], [`UringDisk`], [`SimDisk`], [`RealDisk`].
//! * [`net`]: [`net::Net`], the system's and [`net::sim::SimNet`].
//! * [`rng`]: [`Rng`], [`OsRng`], [`SeededRng`].
//! * [`turn`]: [`Turns`], the choice between yielding and parking while a sync is under way.
//! * [`wake`]: [`WakeFd`], the signal by which a finished operation wakes a parked duty cycle.

pub mod clock;
pub mod descriptors;
pub mod disk;
pub mod durable;
pub mod net;
pub mod rng;
pub mod turn;
pub mod wake;

pub use clock::{Clock, SimClock, SystemClock, monotonic_now};
#[cfg(target_os = "linux")]
pub use disk::uring::UringDisk;
pub use disk::{
    Access, Completion, Disk, DiskAction, DiskError, DiskErrorKind, FileId, Op, Outcome,
    real::{RealDisk, RealDiskConfig, SyncStrategy},
    sim::{SimDisk, SimFaults},
    thread::ThreadDisk,
};
pub use rng::{OsRng, Rng, SeededRng};
pub use turn::{Turn, Turns};
pub use wake::{WakeFd, Waker};
