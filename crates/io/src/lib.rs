//! The seams between Weir's pure parts and the machine: time, disk, network and randomness.
//!
//! A part that needs one of them takes it as a type parameter. It gets the real one in `main`, and
//! the simulated one in tests and in the simulator. No code above these traits asks the operating
//! system for the time, a file, a stream or a random number.
//!
//! * [`clock`]: [`Clock`], [`SystemClock`], [`SimClock`].
//! * [`disk`]: [`Disk`], [`ThreadDisk`], [`UringDisk`], [`SimDisk`], [`RealDisk`].
//! * [`net`]: [`net::Net`], the system's and [`net::sim::SimNet`].
//! * [`rng`]: [`Rng`], [`OsRng`], [`SeededRng`].
//! * [`turn`]: [`Turns`], the choice between yielding and parking while a sync is under way.
//! * [`wake`]: [`WakeFd`], the signal by which a finished operation wakes a parked duty cycle.

pub mod clock;
pub mod disk;
pub mod durable;
pub mod net;
pub mod rng;
pub mod turn;
pub mod wake;

pub use clock::{Clock, SimClock, SystemClock};
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
