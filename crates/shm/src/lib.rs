//! A ring in shared memory: one process writes records, any number of others read all of them.
//!
//! The writer never waits and knows nothing of its readers: what is not read in time is written
//! over. A reader that was overtaken is told so, and how many records it lost once the next one
//! came; it never gets half a record or one that was written over while it was read. Readers map
//! the file read-only, so that nothing they do reaches the writer. What records say is no matter
//! of this crate, and neither is how a reader gets the state that came before it.
//!
//! * [`Writer`], [`Reader`]: the ends, over a file.
//! * `ring`: what is written where; `memory`: the mapping, and all that is unsafe.
//!
//! Files are `PATH`, which the writer replaces when it starts and removes when it ends, `PATH.new`
//! for as long as that takes, and `PATH.lock`, which the writer has locked while it lives.

#[cfg(not(loom))]
mod file;
#[cfg(not(loom))]
mod memory;
mod ring;
mod sync;

#[cfg(not(loom))]
pub use file::{Options, Reader, ShmError, Writer};
pub use ring::{Read, TooLong};
