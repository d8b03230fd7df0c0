//! A thread's heartbeat: the time of its last duty cycle, which a health check reads. Both take the
//! monotonic clock, so that no step of the wall clock makes a thread look dead or alive.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_io::monotonic_now;
use weir_types::Nanos;

/// The time of a thread's last duty cycle, by [`monotonic_now`]. Clones share it.
#[derive(Clone, Debug)]
pub struct Beat(Arc<AtomicU64>);

impl Beat {
    /// Returns a heartbeat whose first cycle is now.
    #[must_use]
    pub fn begin() -> Beat {
        Beat(Arc::new(AtomicU64::new(monotonic_now().0)))
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
