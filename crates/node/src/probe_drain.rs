//! Converts the probe rings' records to latencies, every few milliseconds.

use weir_probe::Drain;
use weir_runtime::Agent;
use weir_types::Nanos;

/// The interval in nanoseconds between drains: a batch makes good use of the data that it brings
/// into the cache.
const INTERVAL: u64 = 20_000_000;
/// The number of records in a ring: those of 50 ms at 200,000 orders per second.
pub const RING_RECORDS: u64 = 1 << 16;
/// The number of records taken in one cycle, some 50 µs; further cycles follow at once until the
/// rings are empty.
pub const RECORDS_MAX: usize = 4096;

/// Drains the probe rings.
pub struct ProbeDrain {
    drain: Drain,
    due: Nanos,
}

impl ProbeDrain {
    /// Returns an agent around a drain.
    #[must_use]
    pub fn new(drain: Drain) -> ProbeDrain {
        ProbeDrain { drain, due: Nanos(0) }
    }
}

impl Agent for ProbeDrain {
    fn name(&self) -> &'static str {
        "probe-drain"
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        if now < self.due {
            return 0;
        }
        if self.drain.do_work() < RECORDS_MAX {
            self.due = Nanos(now.0 + INTERVAL);
            return 0;
        }
        1
    }

    fn next_deadline(&self, _now: Nanos) -> Option<Nanos> {
        Some(self.due)
    }

    fn stop(&mut self, _now: Nanos) -> bool {
        let report = self.drain.finish();
        if report.counts.dropped > 0 {
            tracing::warn!(dropped = report.counts.dropped, "probe records found no room");
        }
        true
    }
}
