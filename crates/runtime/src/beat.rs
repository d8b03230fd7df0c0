//! A thread's heartbeat: the time of its last duty cycle, which a health check reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_types::Nanos;

/// The time of a thread's last duty cycle. Clones share it.
#[derive(Clone, Debug)]
pub struct Beat(Arc<AtomicU64>);

impl Beat {
    /// Returns a heartbeat whose first cycle is at `now`.
    #[must_use]
    pub fn new(now: Nanos) -> Beat {
        Beat(Arc::new(AtomicU64::new(now.0)))
    }

    /// Records a duty cycle at `now`.
    #[inline]
    pub fn beat(&self, now: Nanos) {
        self.0.store(now.0, Ordering::Relaxed);
    }

    /// Returns the time of the last duty cycle.
    #[must_use]
    pub fn last(&self) -> Nanos {
        Nanos(self.0.load(Ordering::Relaxed))
    }
}
