//! Turns the probe rings into latencies, every few milliseconds.

use weir_probe::Drain;
use weir_types::Nanos;

use crate::agent::Agent;

/// How often the rings are emptied: at 200,000 orders a second and five points a ring, 5,000
/// records come in this time and a ring holds 50 times as many.
const INTERVAL: u64 = 5_000_000;

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
        self.due = Nanos(now.0 + INTERVAL);
        self.drain.do_work();
        0
    }

    fn next_deadline(&self, _now: Nanos) -> Option<Nanos> {
        Some(self.due)
    }

    fn stop(&mut self, _now: Nanos) -> bool {
        let report = self.drain.finish();
        if report.counts.dropped > 0 {
            eprintln!("weir: {} probe records found no room", report.counts.dropped);
        }
        true
    }
}
