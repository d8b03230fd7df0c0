//! The wait of a duty cycle that has nothing to do but wait for a sync: yield the core, or park.
//!
//! On an idle machine a thread that sleeps until a sync ends lets its core go idle, and waking it
//! can cost a scheduling tick (4 ms, where the sync itself takes 80 µs); a thread that yields runs
//! on at once. On a busy machine the reverse holds: a yield gives a competitor a whole time slice,
//! and the core never goes idle. The duration of a yield tells the two cases apart. The figures are
//! in `docs/adr/0002-sync-strategy.md`.

use std::time::{Duration, Instant};

/// The duration above which a yield is taken to have run another thread.
const YIELD_LONG: Duration = Duration::from_micros(50);

/// The time for which a machine found busy is assumed to stay busy.
const BUSY_FOR: Duration = Duration::from_millis(100);

/// The next step of a waiting duty cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Turn {
    /// The core was yielded and came back at once: poll again.
    Yielded,
    /// Other threads want the core: park until something wakes this thread.
    Park,
}

/// Chooses between yielding and parking by the machine's recent behaviour.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turns {
    busy_until: Option<Instant>,
}

impl Turns {
    /// Yields once, or answers that the thread should park. Call it only while an operation is
    /// under way whose completion wakes a parked thread.
    #[allow(clippy::disallowed_methods)] // Measures the machine, not the log's time.
    pub fn take(&mut self) -> Turn {
        let start = Instant::now();
        if self.busy_until.is_some_and(|until| start < until) {
            return Turn::Park;
        }
        std::thread::yield_now();
        let end = Instant::now();
        self.busy_until = (end - start > YIELD_LONG).then(|| end + BUSY_FOR);
        Turn::Yielded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_found_busy_is_parked_on_until_it_may_have_changed() {
        let mut turns = Turns { busy_until: Some(Instant::now() + Duration::from_secs(3_600)) };
        assert_eq!(turns.take(), Turn::Park);
        turns.busy_until = Some(Instant::now());
        assert_eq!(turns.take(), Turn::Yielded);
    }
}
