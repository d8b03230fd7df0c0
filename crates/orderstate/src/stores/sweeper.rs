//! Sweeping while no changes arrive: a bounded step per cycle, alternating between stores.
//!
//! A change pays for the sweeping of the rings that it touches. Rings without changes are swept
//! here, so that their dead entries do not stay for ever. A step visits a few rings and moves a few
//! entries of each, at any size of the store; its duration is measured and published.

use std::sync::atomic::Ordering;

use weir_delivery::OrderStore;
use weir_io::monotonic_now;

/// The number of rings per step: some hundred elementary operations at most.
const RINGS_MAX: u32 = 16;
/// The duration in nanoseconds that a step should not exceed.
const PAUSE_MAX_NS: u64 = 200_000;

weir_runtime::figures! {
    /// Sweeping's figures.
    pub struct SweepReport in SweepFigures {
        /// Steps of sweeping that found some work, in all stores.
        counter sweeps,
        /// The longest step, including time that the thread was preempted.
        gauge sweep_longest_ns in nanoseconds,
        /// Steps that took longer than 200 µs.
        counter sweeps_over_limit as "sweeps_over_200us_total",
    }
}

/// Selects the store to sweep next.
#[derive(Debug, Default)]
pub struct Sweeper {
    turn: usize,
}

impl Sweeper {
    /// Returns the next store to sweep: the next one that must discard entries, or, if none must,
    /// the next of all.
    pub fn next<'a>(&mut self, stores: impl ExactSizeIterator<Item = &'a OrderStore>) -> usize {
        let count = stores.len().max(1);
        let first = (self.turn + 1) % count;
        let due = stores.enumerate().filter(|(_, store)| store.has_to_retire());
        let due = due.map(|(at, _)| at).min_by_key(|at| (at + count - first) % count);
        self.turn = due.unwrap_or(first);
        self.turn
    }

    /// Sweeps a store for one step; returns true when there was work.
    pub fn step(store: &mut OrderStore, figures: &SweepFigures) -> bool {
        let begun = monotonic_now();
        if !store.sweep(RINGS_MAX) {
            return false;
        }
        let took = monotonic_now().since(begun).0;
        figures.sweeps.fetch_add(1, Ordering::Relaxed);
        figures.sweep_longest_ns.fetch_max(took, Ordering::Relaxed);
        figures.sweeps_over_limit.fetch_add(u64::from(took > PAUSE_MAX_NS), Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use weir_delivery::{Retention, StoreConfig};
    use weir_types::{Epoch, PartitionId};

    use super::*;

    /// Returns stores, of which some must discard entries.
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
