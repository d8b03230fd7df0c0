//! Bugs to put in on purpose: how it is known that the simulation would find them.
//!
//! Most are wrappers of the simulation that behave as a broken part would; nothing in the parts
//! themselves knows of them. Those of the log and of the engine are in the parts, behind their
//! feature `planted`.

use crate::campaign::run_seed;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// The disk says that it synced and did not.
    SyncSkipped,
    /// The log reports commits that it has only queued.
    CommitTooEarly,
    /// The level `disk` is asked for and the log runs at `os`.
    PageCacheTrusted,
    /// The node goes on after a failed sync.
    FailedSyncIgnored,
    /// Snapshots count one event too few.
    SnapshotMiscounts,
    /// A request that is sent again gets a new number: nobody can know it for the same.
    RequestRenumbered,
    /// The last request of the log is executed once more after a recovery.
    RequestRepeatedByRecovery,
    /// Now and then an event is not published.
    EventUnpublished,
    /// The order store is not told that an epoch ended, so tokens of what was lost are honoured.
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
    /// Those that are the simulation's own.
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

    /// All that this program can plant and the simulation can meet.
    #[must_use]
    pub fn all() -> Vec<Plant> {
        #[allow(unused_mut, reason = "without the feature there are no more")]
        let mut all = Plant::ALL.to_vec();
        #[cfg(feature = "planted")]
        {
            use weir_log::plant::Plant as InLog;
            all.push(Plant::TimersOutOfOrderOnReplay);
            // For the log's own campaign: a node never truncates its command log, and passes over
            // a torn snapshot, which costs it nothing but time.
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

    /// How many seeds from `first` on it takes to find it, if at most `seeds_max`.
    #[must_use]
    pub fn seeds_needed(self, first: u64, seeds_max: u64) -> Option<u64> {
        (0..seeds_max).find(|n| run_seed(first + n, Some(self)).violation.is_some()).map(|n| n + 1)
    }
}

/// Takes out again what it put in.
pub struct Planted;

impl Planted {
    /// Puts a bug into the parts, if it is one of theirs.
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

    /// Puts a bug into what a recovery does, if it is one of that.
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

/// Takes out again what was put into a recovery.
pub struct PlantedInRecovery;

impl Drop for PlantedInRecovery {
    fn drop(&mut self) {
        #[cfg(feature = "planted")]
        weir_engine::plant::set(None);
    }
}
