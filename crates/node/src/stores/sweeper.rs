//! Sweeping while nothing comes in: a bounded step each cycle, of one store after the other.
//!
//! A change pays for the sweeping of the rings that it touches. Rings that nobody touches any more
//! are swept here, so that their dead entries do not stay for ever. A step looks at a few rings and
//! moves a few entries of each, whatever is in the store; its time is measured and shown.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_delivery::OrderStore;
use weir_io::{Clock, SystemClock};

/// Rings that one step looks at: some hundred elementary steps at most.
const RINGS_MAX: u32 = 16;
/// What a step is not to take.
const PAUSE_MAX_NS: u64 = 200_000;

/// What sweeping came to, for others to read.
#[derive(Debug, Default)]
pub struct SweepFigures {
    /// Steps that found something.
    pub steps: AtomicU64,
    /// The longest one, in nanoseconds; what the machine took from the thread is part of it.
    pub longest_ns: AtomicU64,
    /// Steps that took longer than 200 µs.
    pub over_limit: AtomicU64,
}

/// Whose turn it is.
#[derive(Debug, Default)]
pub struct Sweeper {
    turn: usize,
}

impl Sweeper {
    /// The store whose turn it is, of `count`.
    pub fn next(&mut self, count: usize) -> usize {
        self.turn = (self.turn + 1) % count.max(1);
        self.turn
    }

    /// Goes on with a store; true when there was something to do.
    pub fn step(store: &mut OrderStore, figures: &SweepFigures) -> bool {
        let begun = SystemClock.now();
        if !store.sweep(RINGS_MAX) {
            return false;
        }
        let took = SystemClock.now().0.saturating_sub(begun.0);
        figures.steps.fetch_add(1, Ordering::Relaxed);
        figures.longest_ns.fetch_max(took, Ordering::Relaxed);
        figures.over_limit.fetch_add(u64::from(took > PAUSE_MAX_NS), Ordering::Relaxed);
        true
    }
}
