//! The lengths of steps in which large commands go on, drawn for each script: with long ones a mass
//! cancel ends at once, with short ones many have turns and budgets end amid timers.

use crate::config::EngineConfig;

/// The limits of an engine that divide large commands into steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepLimits {
    ends_max: u32,
    visits_max: u32,
    tick_changes_max: u32,
    /// An eighth of it is for a firm.
    sweeps_max: u32,
}

impl StepLimits {
    /// Limits of which random scripts reach most rules.
    pub const SMALL: StepLimits = StepLimits::of(3, 12, 2, 3);

    /// The limits of a partition: few commands of a script are divided.
    pub const OF_PARTITION: StepLimits = StepLimits::of(512, 4_096, 32, 64);

    /// The limits that are drawn: the most ends of a command, its most visits, the most changes of
    /// a tick, whose visits are in proportion, and the most mass cancels.
    const DRAWN: [StepLimits; 8] = [
        StepLimits::SMALL,
        StepLimits::SMALL,
        // The least steps: an order for each kind, at most two visits.
        StepLimits::of(1, 2, 1, 16),
        // Visits end most steps.
        StepLimits::of(2, 6, 2, 24),
        // Ends do.
        StepLimits::of(2, 40, 3, 24),
        StepLimits::of(6, 40, 5, 24),
        // A command's timers are fewer than its ends.
        StepLimits::of(8, 32, 2, 16),
        StepLimits::OF_PARTITION,
    ];

    const fn of(
        ends_max: u32,
        visits_max: u32,
        tick_changes_max: u32,
        sweeps_max: u32,
    ) -> StepLimits {
        StepLimits { ends_max, visits_max, tick_changes_max, sweeps_max }
    }

    /// Returns the limits that a random number selects.
    #[must_use]
    pub fn drawn(number: u64) -> StepLimits {
        StepLimits::DRAWN[(number % StepLimits::DRAWN.len() as u64) as usize]
    }

    /// Returns a configuration with these limits.
    #[must_use]
    pub fn applied_to(self, config: EngineConfig) -> EngineConfig {
        EngineConfig {
            sweep_ends_max: self.ends_max,
            sweep_visits_max: self.visits_max,
            tick_changes_max: self.tick_changes_max,
            sweeps_max: self.sweeps_max,
            ..config
        }
    }
}
