//! Latency measurement along an order's path: clock, probe points, rings, histograms, hiccups.
//!
//! On the order path, a thread's [`Recorder`] stamps a [`Point`] with one counter read and one
//! 16-byte store into its own ring. Off it, the host's drain turns rings into histograms and a
//! capture file, so that the live view and the report are based on the same data.
//!
//! Nothing on the order path allocates, locks, waits or makes a system call. This crate knows
//! nothing of orders, sockets or logs.
//!
//! * [`point`]: the meaning of each stamp, and the segments between stamps.
//! * [`clock`], [`cores`]: raw counter, anchors, calibration; the agreement of cores.
//! * [`ring`], [`ring_dir`]: a thread's ring, in memory or in a shared file.
//! * [`recorder`]: the stamping end of a thread.
//! * [`drain`], [`trace`], [`histogram`]: from stamps to latencies.
//! * [`hiccup`]: time that the machine takes from each core.
//! * [`prometheus`], [`hdr`]: export to other tools.
//! * [`capture`]: every stamp of a run in a file.
//! * [`thread`]: a thread's requests to the scheduler.
//! * [`cost`]: the cost of the probes themselves.
//!
//! ```
//! use weir_probe::ring::{RING_RECORDS_DEFAULT, heap_ring};
//! use weir_probe::{ClockWriter, Drain, DrainOptions, Measure, Point, Recorder, TraceIds};
//!
//! let clock = ClockWriter::start()?;
//! let mut drain = Drain::new(clock, DrainOptions::default());
//! let (producer, consumer) = heap_ring(RING_RECORDS_DEFAULT)?; // RingDir for shared files
//! drain.add_ring("partition-0", consumer);
//! let mut recorder = Recorder::new(producer);
//! let trace = TraceIds::new(1).next();
//! for point in Point::ALL {
//!     recorder.record(trace, point);
//! }
//! drain.do_work(); // every few milliseconds, in a thread of its own
//! let report = drain.reader().report(); // from any thread
//! # #[cfg(not(feature = "off"))]
//! assert_eq!(report.total.of(Measure::DoorToDoor).count(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(not(loom))]
pub mod capture;
pub mod clock;
#[cfg(not(loom))]
pub mod cores;
#[cfg(not(loom))]
pub mod cost;
#[cfg(not(loom))]
pub mod drain;
#[cfg(not(loom))]
pub mod hdr;
#[cfg(not(loom))]
pub mod hiccup;
#[cfg(not(loom))]
pub mod histogram;
mod memory;
pub mod point;
#[cfg(not(loom))]
pub mod prometheus;
pub mod recorder;
pub mod ring;
#[cfg(not(loom))]
pub mod ring_dir;
mod sync;
mod sys;
#[cfg(not(loom))]
pub mod thread;
#[cfg(not(loom))]
pub mod trace;

pub use clock::{Anchor, Calibration, ClockError, ClockReader, ClockWriter, Tsc};
#[cfg(not(loom))]
pub use drain::{Drain, DrainOptions, DrainReader, DrainReport};
#[cfg(not(loom))]
pub use hiccup::{HiccupMode, HiccupOptions, HiccupReport, Hiccups};
#[cfg(not(loom))]
pub use histogram::{Histogram, HistogramReader, Snapshot};
pub use point::{Measure, Point, PointSet};
pub use recorder::Recorder;
pub use ring::{Consumer, Producer, Record, TraceId, TraceIds};
#[cfg(not(loom))]
pub use ring_dir::RingDir;
