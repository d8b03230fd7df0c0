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
    /// The store whose turn it is: of those that have to let something go the next one, and where
    /// none has to, the next of all.
    pub fn next<'a>(&mut self, stores: impl ExactSizeIterator<Item = &'a OrderStore>) -> usize {
        let count = stores.len().max(1);
        let first = (self.turn + 1) % count;
        let due = stores.enumerate().filter(|(_, store)| store.has_to_retire());
        let due = due.map(|(at, _)| at).min_by_key(|at| (at + count - first) % count);
        self.turn = due.unwrap_or(first);
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

#[cfg(test)]
mod tests {
    use weir_delivery::{Retention, StoreConfig};
    use weir_types::{Epoch, PartitionId};

    use super::*;

    /// Stores of which some have to let something go.
    fn stores(due: [bool; 3]) -> Vec<OrderStore> {
        let store = |is_due: bool| {
            let mut store = OrderStore::new(StoreConfig::new(PartitionId(1), Epoch(1)));
            let mut block = Vec::new();
            weir_wire::Message::encode_block(&crate::cold::ended_row(), &mut block);
            let _ = store.ingest_row(&block, &[]).expect("a row");
            let count_max = u32::from(!is_due);
            store.set_retention(Retention { count_max, bytes_max: u64::MAX });
            store
        };
        due.map(store).into()
    }

    #[test]
    fn who_has_to_let_something_go_does_not_wait_for_who_has_not() {
        let turns = |due: [bool; 3]| {
            let (stores, mut sweeper) = (stores(due), Sweeper::default());
            [0; 4].map(|_: usize| sweeper.next(stores.iter()))
        };
        assert_eq!(turns([false, false, false]), [1, 2, 0, 1]);
        assert_eq!(turns([true, false, false]), [0, 0, 0, 0]);
        assert_eq!(turns([true, false, true]), [2, 0, 2, 0]);
    }
}
