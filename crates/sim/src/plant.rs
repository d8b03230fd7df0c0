//! Bugs to put in on purpose: how it is known that the simulation would find them.
//!
//! Each is a wrapper of the simulation that behaves as a broken part would; nothing in the parts
//! themselves knows of them.

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
}

impl Plant {
    /// All of them.
    pub const ALL: [Plant; 9] = [
        Plant::SyncSkipped,
        Plant::CommitTooEarly,
        Plant::PageCacheTrusted,
        Plant::FailedSyncIgnored,
        Plant::SnapshotMiscounts,
        Plant::RequestRenumbered,
        Plant::RequestRepeatedByRecovery,
        Plant::EventUnpublished,
        Plant::EpochEndUntold,
    ];
}
