//! The atomics of the code that loom explores: the ring and the calibration cell.
//!
//! With `--cfg loom` they are loom's, otherwise the standard library's. The module holds nothing
//! else.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Arc,
    atomic::{AtomicU64, Ordering, fence},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering, fence},
};

/// Relaxes the processor between two reads of a value that is being written.
pub(crate) fn relax() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::hint::spin_loop();
}
