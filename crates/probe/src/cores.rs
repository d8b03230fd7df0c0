//! The check that the counters of two cores agree, by throwing a ball back and forth.
//!
//! An invariant counter may still have a different start value on another socket or virtual
//! processor. One core stamps and throws, the other catches and stamps. No throw can arrive before
//! it left, so the fastest throw in each direction bounds the offset of the two counters. A throw
//! that seems to arrive before it left proves that stamps of the two cores cannot be compared.
//!
//! The check runs once at the start, for some milliseconds, on cores that are still idle.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use thiserror::Error;

use crate::sys;
use crate::thread::pin_to_core;

/// Polls for the ball before the core is yielded to other threads.
const SPINS_BEFORE_YIELD: u32 = 20_000;

/// The measured offset between the counters of two cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorePair {
    /// The core that throws first.
    pub first: usize,
    /// The other core.
    pub second: usize,
    /// The fastest throw from the first to the second, in ticks of both counters.
    pub forth_ticks: i64,
    /// The fastest throw from the second to the first.
    pub back_ticks: i64,
}

impl CorePair {
    /// Returns the best estimate of the second counter's lead, in ticks.
    #[must_use]
    pub fn offset_ticks(&self) -> i64 {
        (self.forth_ticks - self.back_ticks) / 2
    }

    /// Returns the bound on the error of the estimate, in ticks.
    #[must_use]
    pub fn bound_ticks(&self) -> i64 {
        (self.forth_ticks + self.back_ticks) / 2
    }

    /// Returns true if no throw seemed to arrive before it left.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.forth_ticks >= 0 && self.back_ticks >= 0
    }
}

/// The reason that cores could not be compared, or that they disagree.
#[derive(Debug, Error)]
pub enum CoreError {
    /// A core does not exist, or this process may not use it.
    #[error("cannot pin to core {core}: {source}")]
    Pin {
        /// The core.
        core: usize,
        /// The system's error.
        source: io::Error,
    },
    /// The counters disagree: stamps from these cores cannot be compared.
    #[error("the counters of cores {} and {} are {} ticks apart", .0.first, .0.second,
        .0.offset_ticks())]
    Unsynchronised(CorePair),
}

/// Compares the first core with each other one, with `throws` throws each; a thousand are enough.
///
/// # Errors
///
/// Returns [`CoreError::Unsynchronised`] for the first pair that disagrees; the caller then runs
/// without probes or on fewer cores. Returns [`CoreError::Pin`] if a core cannot be used.
pub fn compare(cores: &[usize], throws: u32) -> Result<Vec<CorePair>, CoreError> {
    let Some((first, others)) = cores.split_first() else { return Ok(Vec::new()) };
    let mut pairs = Vec::new();
    for second in others {
        let pair = compare_pair(*first, *second, throws.max(1))?;
        if !pair.agrees() {
            return Err(CoreError::Unsynchronised(pair));
        }
        pairs.push(pair);
    }
    Ok(pairs)
}

/// The ball's position: the first core has it on even turns, the second on odd ones.
#[derive(Default)]
struct Court {
    turn: AtomicU64,
    thrown_at: AtomicU64,
}

impl Court {
    /// Waits for this turn; returns the time of the throw.
    fn catch(&self, turn: u64) -> u64 {
        let mut spins = 0;
        // SYNC: pairs with the release store in `throw`: the turn carries the stamp.
        while self.turn.load(Ordering::Acquire) != turn {
            spins += 1;
            if spins > SPINS_BEFORE_YIELD {
                thread::yield_now();
            }
            std::hint::spin_loop();
        }
        self.thrown_at.load(Ordering::Relaxed)
    }

    /// Stamps after all earlier loads, since an earlier stamp would make correct counters look
    /// wrong.
    fn throw(&self, turn: u64) {
        self.thrown_at.store(sys::counter_after_loads(), Ordering::Relaxed);
        // SYNC: pairs with the acquire load in `catch`.
        self.turn.store(turn, Ordering::Release);
    }
}

fn compare_pair(first: usize, second: usize, throws: u32) -> Result<CorePair, CoreError> {
    let court = Arc::new(Court::default());
    let theirs = Arc::clone(&court);
    let here = thread::spawn(move || play(&court, first, 0, throws));
    let there = thread::spawn(move || play(&theirs, second, 1, throws));
    let back_ticks = here.join().expect("play does not panic");
    let forth_ticks = there.join().expect("play does not panic");
    let pin = |core| move |source| CoreError::Pin { core, source };
    let (back_ticks, forth_ticks) =
        (back_ticks.map_err(pin(first))?, forth_ticks.map_err(pin(second))?);
    Ok(CorePair { first, second, forth_ticks, back_ticks })
}

/// Catches and throws; returns the fastest catch. A side that cannot be pinned plays on, so that
/// the other does not wait forever.
fn play(court: &Court, core: usize, side: u64, throws: u32) -> io::Result<i64> {
    let pinned = pin_to_core(core);
    let mut fastest = i64::MAX;
    for round in 0..u64::from(throws) {
        let turn = 2 * round + side;
        let thrown_at = court.catch(turn);
        let caught_at = sys::counter_after_loads();
        if turn > 0 {
            fastest = fastest.min(caught_at.wrapping_sub(thrown_at).cast_signed());
        }
        court.throw(turn + 1);
    }
    if side == 0 {
        let thrown_at = court.catch(2 * u64::from(throws));
        fastest = fastest.min(sys::counter_after_loads().wrapping_sub(thrown_at).cast_signed());
    }
    pinned.map(|()| fastest)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::thread::usable_cores;

    #[test]
    fn the_bound_holds_the_offset() {
        let pair = CorePair { first: 0, second: 1, forth_ticks: 150, back_ticks: 130 };
        assert_eq!((pair.offset_ticks(), pair.bound_ticks()), (10, 140));
        assert!(pair.agrees());
        // The second counter is 1,000 ticks behind: its catches come before the throws.
        let apart = CorePair { forth_ticks: -860, back_ticks: 1_140, ..pair };
        assert_eq!(apart.offset_ticks(), -1_000);
        assert!(!apart.agrees());
    }

    #[test]
    fn each_core_is_compared_with_the_first() {
        let cores = usable_cores();
        match compare(&cores, 200) {
            Ok(pairs) => {
                assert_eq!(pairs.len(), cores.len() - 1);
                for (pair, core) in pairs.iter().zip(&cores[1..]) {
                    assert_eq!((pair.first, pair.second), (cores[0], *core));
                    assert!(pair.offset_ticks().abs() <= pair.bound_ticks());
                }
            }
            // A valid finding about the machine; it must be consistent.
            Err(CoreError::Unsynchronised(pair)) => assert!(!pair.agrees()),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_core_with_itself_and_cores_that_do_not_exist_end_too() {
        let core = usable_cores()[0];
        assert!(compare(&[], 10).unwrap().is_empty());
        assert!(compare(&[core], 10).unwrap().is_empty());
        let refused = compare(&[core, 5_000], 3);
        assert!(matches!(refused, Err(CoreError::Pin { core: 5_000, .. })));
    }
}
