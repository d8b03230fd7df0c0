//! The distance of the wall clock from the time for intervals.
//!
//! Intervals are measured by a clock that never steps. Stamps, and moments that a person or a file
//! names, are of the wall clock, which may be set at any time.

use crate::Nanos;

/// The distance of the wall clock from the time for intervals. It changes when the clock is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WallOffset {
    ahead_ns: i64,
}

impl WallOffset {
    /// Returns the offset of two readings at one moment.
    #[must_use]
    pub fn between(time: Nanos, wall: Nanos) -> WallOffset {
        WallOffset { ahead_ns: wall.0.wrapping_sub(time.0).cast_signed() }
    }

    /// Returns the wall clock at a time for intervals; zero for a moment before 1970.
    #[must_use]
    pub fn wall_at(self, time: Nanos) -> Nanos {
        Nanos(time.0.saturating_add_signed(self.ahead_ns))
    }

    /// Returns the time for intervals at which the wall clock shows `moment`, if nobody sets it
    /// before.
    #[must_use]
    pub fn time_of(self, moment: Nanos) -> Nanos {
        Nanos(moment.0.saturating_add_signed(self.ahead_ns.saturating_neg()))
    }

    /// Returns the nanoseconds by which the wall clock went forward from `earlier` to this offset,
    /// negative for a step back.
    #[must_use]
    pub fn step_from(self, earlier: WallOffset) -> i64 {
        self.ahead_ns.saturating_sub(earlier.ahead_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_converts_both_ways() {
        for (time, wall) in [(100, 100), (100, 130), (130, 100), (0, u64::MAX / 2)] {
            let offset = WallOffset::between(Nanos(time), Nanos(wall));
            assert_eq!(offset.wall_at(Nanos(time)), Nanos(wall));
            assert_eq!(offset.wall_at(Nanos(time + 7)), Nanos(wall + 7));
            assert_eq!(offset.time_of(Nanos(wall)), Nanos(time));
        }
        let back = WallOffset::between(Nanos(130), Nanos(100));
        assert_eq!(back.wall_at(Nanos(10)), Nanos(0), "before 1970");
        assert_eq!(back.step_from(WallOffset::default()), -30);
        assert_eq!(WallOffset::default().step_from(back), 30);
    }
}
