//! A ring in shared memory: one process writes records, any number of others read all of them.
//!
//! The writer never waits and knows nothing of its readers: it overwrites records that were not
//! read in time. A reader that was overtaken is notified, and learns the number of lost records
//! with the next one; it never gets half a record or one that was overwritten during the read.
//! Readers map the file read-only, so they cannot affect the writer. The crate does not interpret
//! records and does not provide the state before the first record read.
//!
//! * [`Writer`], [`Reader`]: the ends, over a file.
//! * `ring`: the layout and the protocol; `memory`: the mapping, and all unsafe code.
//!
//! Files are `PATH`, which the writer replaces when it starts and removes when it ends, `PATH.new`
//! during the start, and `PATH.lock`, which the writer locks while it lives.

#[cfg(not(loom))]
mod file;
#[cfg(not(loom))]
mod memory;
mod ring;
mod sync;

#[cfg(not(loom))]
pub use file::{Options, Reader, ShmError, Writer};
pub use ring::{Read, TooLong};
