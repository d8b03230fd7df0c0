//! Planted bugs: they prove that the simulation would find such bugs.
//!
//! Most are wrappers of the simulation that behave as a broken part would; the parts themselves do
//! not know of them. Those of the log and of the engine are in the parts, behind their feature
//! `planted`.

use crate::campaign::run_seed;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// The disk reports a sync that it did not do.
    SyncSkipped,
    /// The log reports commits that it has only queued.
    CommitTooEarly,
    /// The log runs at level `os` though `disk` was configured.
    PageCacheTrusted,
    /// The node continues after a failed sync.
    FailedSyncIgnored,
    /// Snapshots count one event too few.
    SnapshotMiscounts,
    /// A request that is sent again gets a new number, so that it cannot be recognised.
    RequestRenumbered,
    /// The last request of the log is executed once more after a recovery.
    RequestRepeatedByRecovery,
    /// Now and then an event is not published.
    EventUnpublished,
    /// The order store is not told that an epoch ended, so tokens of lost changes are honoured.
    EpochEndUntold,
    /// A snapshot holds the state of the snapshot before it.
    SnapshotWithoutLastBatch,
    /// A recovery expires orders and changes phases after the command instead of before.
    #[cfg(feature = "planted")]
    TimersOutOfOrderOnReplay,
    /// A bug in the log.
    #[cfg(feature = "planted")]
    InLog(weir_log::plant::Plant),
}

impl Plant {
    /// The simulation's own bugs.
    pub const ALL: [Plant; 10] = [
        Plant::SyncSkipped,
        Plant::CommitTooEarly,
        Plant::PageCacheTrusted,
        Plant::FailedSyncIgnored,
        Plant::SnapshotMiscounts,
        Plant::RequestRenumbered,
        Plant::RequestRepeatedByRecovery,
        Plant::EventUnpublished,
        Plant::EpochEndUntold,
        Plant::SnapshotWithoutLastBatch,
    ];

    /// All bugs that this program can plant and the simulation can trigger.
    #[must_use]
    pub fn all() -> Vec<Plant> {
        #[allow(unused_mut, reason = "without the feature there are no more")]
        let mut all = Plant::ALL.to_vec();
        #[cfg(feature = "planted")]
        {
            use weir_log::plant::Plant as InLog;
            all.push(Plant::TimersOutOfOrderOnReplay);
            // Left to the log's own campaign: a node never truncates its command log, and skips a
            // torn snapshot, which costs it only time.
            let unmet = [
                InLog::SpareNotZeroed,
                InLog::TruncateOffByOne,
                InLog::TrimmedOutOfOrder,
                InLog::SnapshotNotSynced,
            ];
            let met = InLog::ALL.into_iter().filter(|plant| !unmet.contains(plant));
            all.extend(met.map(Plant::InLog));
        }
        all
    }

    /// Returns the number of seeds from `first` on that it takes to find the bug, if at most
    /// `seeds_max`.
    #[must_use]
    pub fn seeds_needed(self, first: u64, seeds_max: u64) -> Option<u64> {
        (0..seeds_max).find(|n| run_seed(first + n, Some(self)).violation.is_some()).map(|n| n + 1)
    }
}

/// A guard that removes a planted bug when dropped.
pub struct Planted;

impl Planted {
    /// Plants a bug, if it is one of the parts'.
    #[must_use]
    pub fn put(plant: Option<Plant>) -> Planted {
        #[cfg(feature = "planted")]
        weir_log::plant::set(match plant {
            Some(Plant::InLog(plant)) => Some(plant),
            _ => None,
        });
        let _ = plant;
        Planted
    }

    /// Plants a bug for the time of a recovery, if it is one of the recovery's.
    #[must_use]
    pub fn put_in_recovery(plant: Option<Plant>) -> PlantedInRecovery {
        #[cfg(feature = "planted")]
        if plant == Some(Plant::TimersOutOfOrderOnReplay) {
            weir_engine::plant::set(Some(weir_engine::plant::Plant::TimersAfterCommand));
        }
        let _ = plant;
        PlantedInRecovery
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        #[cfg(feature = "planted")]
        weir_log::plant::set(None);
    }
}

/// A guard that removes a bug planted in a recovery when dropped.
pub struct PlantedInRecovery;

impl Drop for PlantedInRecovery {
    fn drop(&mut self) {
        #[cfg(feature = "planted")]
        weir_engine::plant::set(None);
    }
}
