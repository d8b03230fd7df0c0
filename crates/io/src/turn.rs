//! What to do while a sync is under way and there is nothing else: yield the core, or park.
//!
//! On an idle machine a thread that sleeps until a sync ends lets its core idle, and waking it can
//! cost a scheduling tick (4 ms where the sync itself takes 80 µs); a thread that yields is there
//! at once. On a busy machine it is the other way round: yielding gives a competitor a whole slice,
//! and the core never idles. How long a yield took tells the two apart. The figures are in
//! `docs/adr/0002-sync-strategy.md`.

use std::time::{Duration, Instant};

/// A yield that took longer gave the core to somebody who wanted it.
const YIELD_LONG: Duration = Duration::from_micros(50);

/// How long a machine that was found busy is taken to be so.
const BUSY_FOR: Duration = Duration::from_millis(100);

/// What a waiting duty cycle should do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Turn {
    /// The core was yielded and nobody kept it: look again.
    Yielded,
    /// Others want the core: park until something wakes this thread.
    Park,
}

/// Chooses between yielding and parking, by how the machine has behaved.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turns {
    busy_until: Option<Instant>,
}

impl Turns {
    /// Yields once, or says to park. To be called only while something is under way whose end will
    /// wake a parked thread.
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
