//! Turns the probe rings into latencies, every few milliseconds.

use weir_probe::Drain;
use weir_runtime::Agent;
use weir_types::Nanos;

/// How often the rings are emptied: what each time brings into the cache is then used often.
const INTERVAL: u64 = 20_000_000;
/// Records that a ring holds: what comes in 50 ms at 200,000 orders a second.
pub const RING_RECORDS: u64 = 1 << 16;
/// Records taken in one cycle, some 50 µs; there are more cycles at once when that was not all.
pub const RECORDS_MAX: usize = 4096;

/// Drains the rings.
pub struct ProbeDrain {
    drain: Drain,
    due: Nanos,
}

impl ProbeDrain {
    /// An agent around a drain.
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
