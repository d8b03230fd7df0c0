//! Converts the counter readings of an order's stages into the times in its report.

use weir_probe::{ClockReader, Tsc};
use weir_types::Nanos;
use weir_wire::report::StageTimes;

use crate::handoff::StageStamps;

/// Converts stamps with the node's calibration, which the probe's drain refreshes.
#[derive(Clone, Debug)]
pub struct StageClock {
    reader: Option<ClockReader>,
}

impl StageClock {
    /// Returns a converter with this calibration; without one all times are unknown.
    #[must_use]
    pub fn new(reader: Option<ClockReader>) -> StageClock {
        StageClock { reader }
    }

    /// Returns t0 since the Unix epoch, and t1 to t6 relative to t0.
    #[must_use]
    pub fn stage_times(&self, stamps: &StageStamps) -> StageTimes {
        let [t0, later @ ..] = stamps.points;
        let Some(reader) = self.reader.as_ref().filter(|_| t0 != Tsc::ZERO) else {
            return StageTimes::default();
        };
        let calibration = reader.calibration();
        let after = |tsc: Tsc| {
            let nanos = calibration.ticks_to_ns(tsc.0.saturating_sub(t0.0));
            u32::try_from(nanos).unwrap_or(u32::MAX)
        };
        StageTimes { t0: Nanos(calibration.unix_ns(t0)), after_t0: later.map(after) }
    }
}
