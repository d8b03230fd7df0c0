//! Planted bugs: they prove that the simulation would find such bugs.
//!
//! Most are wrappers of the simulation that behave as a broken part would; the parts themselves do
//! not know of them. Those of the log and of the engine are in the parts, behind their feature
//! `planted`.

/// The part in front of the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// A crowd that submits to the partition's ring and reads its events.
    Crowd,
    /// The node's gateway, with clients on simulated sockets.
    Gateway,
    /// The same, in few long lives, with a verdict on all that must not grow.
    Day,
}

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
    /// The partition does not wake the gateway's thread.
    GatewayNotWoken,
    /// The command log never removes a segment.
    TruncationIgnored,
    /// After a while no more snapshots are taken.
    SnapshotsCease,
    /// A recovery expires orders and changes phases after the command instead of before.
    #[cfg(feature = "planted")]
    TimersOutOfOrderOnReplay,
    /// A bug in the log.
    #[cfg(feature = "planted")]
    InLog(weir_log::plant::Plant),
    /// A bug in the door.
    #[cfg(feature = "planted")]
    InDoor(weir_door::plant::Plant),
    /// A bug in the gateway.
    #[cfg(feature = "planted")]
    InGateway(weir_gateway::plant::Plant),
    /// A bug in the partition.
    #[cfg(feature = "planted")]
    InPartition(weir_partition::plant::Plant),
}

impl Plant {
    /// The simulation's own bugs.
    pub const ALL: [Plant; 13] = [
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
        Plant::GatewayNotWoken,
        Plant::TruncationIgnored,
        Plant::SnapshotsCease,
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
            // Left to the log's own campaign: the retention truncates whole segments, and a torn
            // snapshot is skipped, which costs only time.
            let unmet = [InLog::TruncateOffByOne, InLog::SnapshotNotSynced];
            let met = InLog::ALL.iter().copied().filter(|plant| !unmet.contains(plant));
            all.extend(met.map(Plant::InLog));
            // The other bugs of the door are of listeners, and of bounds that no run comes to.
            use weir_door::plant::Plant as InDoor;
            all.push(Plant::InDoor(InDoor::AcceptsEndWithoutDescriptors));
            // No run has a store of order state; the others are left to the gateway's own tests.
            use weir_gateway::plant::Plant as InGateway;
            let unmet = [
                InGateway::EndUntoldToStore,
                InGateway::TakeoverBeforeProof,
                InGateway::TakeoverUnbounded,
                InGateway::TakeoverByOldConnection,
                InGateway::RepeatsRefused,
                InGateway::RepeatsHandedOver,
                InGateway::RefusedOnAnotherConnection,
                InGateway::RefusedCountsAsReceived,
                // One partition trades, on the gateway's thread, and the control log is a script.
                InGateway::ControlReadAhead,
                InGateway::DefinitionsUnawaited,
                InGateway::StandstillUnnoticed,
            ];
            let met = InGateway::ALL.iter().copied().filter(|plant| !unmet.contains(plant));
            all.extend(met.map(Plant::InGateway));
            // The retention goes by bytes here, and without an archive; the others are left to the
            // partition's own tests.
            use weir_partition::plant::Plant as InPartition;
            let unmet = [
                InPartition::AgeByJumpedClock,
                InPartition::RemovedUnstored,
                InPartition::ArchiveCopyUnchecked,
                InPartition::ArchiveGapUnseen,
                InPartition::ArchiveMarksPassedOver,
                InPartition::ArchiveMarksUncounted,
                InPartition::ArchiveGivenUpAtOnce,
                InPartition::ArchiveNameUnsynced,
                InPartition::ShadowGivesUp,
                InPartition::CommandUndivided,
                InPartition::ControlLogAtNodesLevel,
                // Met by the bug itself once in a hundred thousand seeds.
                InPartition::RepeatRefused,
                // All runs have the limits of their engine from the start.
                InPartition::LimitsUnchecked,
                InPartition::LimitsSequencedAgain,
                InPartition::LimitsUnwritten,
                InPartition::ImporterLookedAtFirst,
                InPartition::RequestsPassDefinitions,
                InPartition::DefinitionsToldEarly,
                InPartition::MarkUnread,
            ];
            let met = InPartition::ALL.iter().copied().filter(|plant| !unmet.contains(plant));
            all.extend(met.map(Plant::InPartition));
        }
        all
    }

    /// The front with which the bug can be met.
    #[must_use]
    pub fn front(self) -> Front {
        match self {
            Plant::GatewayNotWoken => Front::Gateway,
            Plant::TruncationIgnored | Plant::SnapshotsCease => Front::Day,
            // A file that is kept costs only room.
            #[cfg(feature = "planted")]
            Plant::InPartition(weir_partition::plant::Plant::SnapshotsNeverPruned)
            | Plant::InPartition(weir_partition::plant::Plant::CheckpointsNeverPruned) => {
                Front::Day
            }
            // Runs with the gateway truncate their event log more often.
            #[cfg(feature = "planted")]
            Plant::InPartition(weir_partition::plant::Plant::UnsyncedSnapshotCounts) => {
                Front::Crowd
            }
            #[cfg(feature = "planted")]
            Plant::InDoor(_) | Plant::InGateway(_) | Plant::InPartition(_) => Front::Gateway,
            _ => Front::Crowd,
        }
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
        #[cfg(feature = "planted")]
        weir_door::plant::set(match plant {
            Some(Plant::InDoor(plant)) => Some(plant),
            _ => None,
        });
        #[cfg(feature = "planted")]
        weir_gateway::plant::set(match plant {
            Some(Plant::InGateway(plant)) => Some(plant),
            _ => None,
        });
        #[cfg(feature = "planted")]
        weir_partition::plant::set(match plant {
            Some(Plant::InPartition(plant)) => Some(plant),
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
        {
            weir_log::plant::set(None);
            weir_door::plant::set(None);
            weir_gateway::plant::set(None);
            weir_partition::plant::set(None);
        }
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
