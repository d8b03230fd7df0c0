//! The machine's clocks, and the rules of log time.
//!
//! One clock goes on for ever, as a monotonic one does; intervals are measured with it. The wall
//! clock beside it is set by the seed's choice, by little and by much, forward and back, in the
//! middle of anything.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_io::{Rng, SeededRng};
use weir_partition::log_time::{JUMP_MAX, JUMP_PAUSE, STEP_MIN};
use weir_types::{Nanos, WallOffset};

const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3_600 * SECOND;
/// Steps of the wall clock, in nanoseconds.
const STEPS: [i64; 8] =
    [-SECOND / 2, 10 * SECOND, -30 * SECOND, -20 * SECOND, SECOND / 10, 2 * HOUR, -HOUR, 26 * HOUR];
/// The longest time between two batches whose jump counts.
const PAUSE_MAX: u64 = 1_000_000_000;
/// The most that rounding and the least advance of batches add to log time.
const ROUNDING: u64 = 1_000;

/// The clocks.
#[derive(Debug)]
pub struct Clocks {
    time: Nanos,
    wall: WallOffset,
    rng: SeededRng,
    /// The number of steps so far.
    pub step_count: u64,
}

impl Clocks {
    /// Creates the clocks of `seed`, both at `begin`.
    #[must_use]
    pub fn new(seed: u64, begin: Nanos) -> Clocks {
        let rng = SeededRng::new(seed, "steps of the wall clock");
        Clocks { time: begin, wall: WallOffset::default(), rng, step_count: 0 }
    }

    /// The time for intervals.
    #[must_use]
    pub fn time(&self) -> Nanos {
        self.time
    }

    /// The distance of the wall clock from it.
    #[must_use]
    pub fn wall(&self) -> WallOffset {
        self.wall
    }

    /// Lets time pass.
    pub fn advance(&mut self, by: Nanos) {
        self.time.0 += by.0;
    }

    /// Sets the wall clock, by a chance in 1,000 times `rarity`.
    pub fn step(&mut self, per_mille: u64, rarity: u64) {
        if !self.rng.chance(per_mille, 1_000 * rarity) {
            return;
        }
        let index = usize::try_from(self.rng.below(STEPS.len() as u64)).expect("a short list");
        let wall = self.wall.wall_at(self.time);
        let wall = Nanos(wall.0.saturating_add_signed(STEPS[index]));
        self.wall = WallOffset::between(self.time, wall);
        self.step_count += 1;
    }
}

/// Judges the log times of a partition's batches. Clones share the state.
///
/// | rule | |
/// | --- | --- |
/// | it never stands | its advance is at least half of the time that passed |
/// | it is true | it is not after the wall clock, as far as that went, and the time since |
/// | its jumps are bounded | by an hour within a minute, and less than a step |
#[derive(Clone, Debug, Default)]
pub struct LogTimeWatch(Arc<Mutex<Watched>>);

#[derive(Debug, Default)]
struct Watched {
    now: Nanos,
    wall: Nanos,
    /// The log time after which this life goes on, until its first cycle.
    begins_after: Option<Nanos>,
    /// The last batch's log time, or the first cycle's, and the time of it.
    last: Option<(Nanos, Nanos)>,
    /// The furthest that log time may be: the wall clock may have been ahead between two batches.
    furthest: Nanos,
    /// Its advances beyond the time that passed, with their earliest times.
    jumps: Vec<(Nanos, u64)>,
    fault: Option<String>,
}

impl LogTimeWatch {
    /// Watches a life that goes on after this log time.
    #[must_use]
    pub fn after(last: Nanos) -> LogTimeWatch {
        let watch = LogTimeWatch::default();
        watch.state().begins_after = Some(last);
        watch
    }

    fn state(&self) -> MutexGuard<'_, Watched> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the clocks before a cycle of the partition.
    pub fn begin_cycle(&self, now: Nanos, wall: WallOffset) {
        let mut state = self.state();
        state.furthest.0 += now.since(state.now).0;
        (state.now, state.wall) = (now, wall.wall_at(now));
        state.furthest = state.furthest.max(state.wall);
        if let Some(after) = state.begins_after.take() {
            // The time while the process was down has passed at once.
            state.last = Some((after.max(state.wall), now));
            state.furthest = after.max(state.wall);
        }
    }

    /// Judges a batch's log time.
    pub fn judge(&self, log_time: Nanos) {
        let mut state = self.state();
        let (now, wall) = (state.now, state.wall);
        let furthest = std::mem::replace(&mut state.furthest, log_time);
        let Some((last, last_at)) = state.last.replace((log_time, now)) else { return };
        let passed = now.since(last_at).0;
        let level = last.0 + passed;
        let fault = if log_time.0 + ROUNDING < last.0 + passed / 2 {
            Some("stands still")
        } else if log_time.0 > furthest.0 + ROUNDING {
            Some("is ahead of the clock")
        } else {
            // Behind a long pause the time of a jump is not known.
            let jump = if passed < PAUSE_MAX { log_time.0.saturating_sub(level) } else { 0 };
            state.jumps_too_far(jump, last_at).then_some("jumps too far")
        };
        if let Some(fault) = fault {
            let text = format!(
                "it {fault}: {} after {} and {passed} ns, the wall clock at {}",
                log_time.0, last.0, wall.0
            );
            state.fault.get_or_insert(text);
        }
    }

    /// The first fault, if there was one.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        self.state().fault.clone()
    }
}

impl Watched {
    /// Notes a jump since `last_at`, the time of the batch before, at which it may have been.
    fn jumps_too_far(&mut self, by: u64, last_at: Nanos) -> bool {
        if by >= STEP_MIN {
            self.jumps.push((last_at, by));
        }
        let now = self.now;
        self.jumps.retain(|(at, _)| now.since(*at) < JUMP_PAUSE);
        self.jumps.iter().map(|(_, by)| by).sum::<u64>() > JUMP_MAX.0 + STEP_MIN
    }
}
