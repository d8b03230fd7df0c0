//! The scheduling priority of a benchmark's generator while it sends by the clock.
//!
//! A real generator has its own machines. On few cores the threads of node and generator wait for
//! each other, and a late generator's figures do not describe the node.

use weir_probe::thread::{Share, ask_for};

/// The nice level of a privileged generator.
const NICENESS: i32 = -15;

/// A raised priority for the calling thread until it is dropped; threads and processes started
/// meanwhile would inherit it.
pub(crate) struct LargerPart {
    is_granted: bool,
}

impl LargerPart {
    /// Raises the priority; without the privilege (`CAP_SYS_NICE`) it stays unchanged.
    pub(crate) fn take() -> LargerPart {
        LargerPart { is_granted: ask_for(Share::Fair { niceness: NICENESS }).is_ok() }
    }

    /// The nice level that a generator gets, for the benchmark's result.
    pub(crate) fn niceness() -> i32 {
        if LargerPart::take().is_granted { NICENESS } else { 0 }
    }
}

impl Drop for LargerPart {
    fn drop(&mut self) {
        if self.is_granted {
            // Lowering the priority needs no privilege.
            let _ = ask_for(Share::Fair { niceness: 0 });
        }
    }
}
