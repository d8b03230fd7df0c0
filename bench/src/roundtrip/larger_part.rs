//! The part of a core that a benchmark's generator takes while it sends by the clock.
//!
//! In life it is on machines of its own. On few cores the node's threads and the generator's wait
//! for each other, and a generator that comes late says nothing of the node.

use weir_probe::thread::{Share, ask_for};

/// The nice level of a generator that has the right to one.
const NICENESS: i32 = -15;

/// A larger part of its core for the thread that took it, until it is dropped: threads and
/// processes that it starts meanwhile would inherit it.
pub(crate) struct LargerPart {
    is_granted: bool,
}

impl LargerPart {
    /// Asks for it; without the right to (`CAP_SYS_NICE`) the thread stays as it is.
    pub(crate) fn take() -> LargerPart {
        LargerPart { is_granted: ask_for(Share::Fair { niceness: NICENESS }).is_ok() }
    }

    /// The nice level that a generator has: what a benchmark's line says of it.
    pub(crate) fn niceness() -> i32 {
        if LargerPart::take().is_granted { NICENESS } else { 0 }
    }
}

impl Drop for LargerPart {
    fn drop(&mut self) {
        if self.is_granted {
            // A thread may always step back.
            let _ = ask_for(Share::Fair { niceness: 0 });
        }
    }
}
