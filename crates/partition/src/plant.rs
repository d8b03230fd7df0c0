//! Planted bugs, which prove that the simulation of the order path and the partition's own tests
//! find bugs of their kind.
//!
//! The partition calls [`is`] where a planted bug takes effect.

weir_plant::plants! {
    /// A planted bug of the partition.
    pub enum Plant {
        /// Log time stands still while the wall clock is behind it.
        LogTimeStands,
        /// Log time follows the wall clock forward however far that was set.
        LogTimeFollowsFar,
        /// After a start log time is the wall clock's, whatever the log holds.
        LogTimeForgotten,
        /// A snapshot ahead of the synced command log permits removal.
        UnsyncedSnapshotCounts,
        /// The age of entries is measured against a clock that jumped.
        AgeByJumpedClock,
        /// Records go although a reader has not read them.
        HoldsIgnored,
        /// Segments go although the archive has not stored them.
        RemovedUnstored,
        /// A copy in the archive is not read back.
        ArchiveCopyUnchecked,
        /// An archive that lacks segments counts as whole from the next one on.
        ArchiveGapUnseen,
        /// A segment with marks alone that begins where the stored ones end is not stored.
        ArchiveMarksPassedOver,
        /// A segment goes although one that begins at the same position is not stored.
        ArchiveMarksUncounted,
        /// Segments go without a copy before the archive has looked for those that it has.
        ArchiveGivenUpAtOnce,
        /// The name of a segment that is found stored is not synced.
        ArchiveNameUnsynced,
        /// Snapshots that newer ones replace are not removed.
        SnapshotsNeverPruned,
        /// A request that the log refused is kept, and sequenced when there is room.
        RefusedRequestKept,
        /// A request that was received before is refused by a full log like a new one.
        RepeatRefused,
        /// A request that the log refused is not answered.
        RefusalUntold,
        /// Events that cannot be read now count as deleted.
        UnreadableCountsAsDeleted,
        /// A shadow that could not read or write once does not try again.
        ShadowGivesUp,
        /// The events of a command enter the tail at once, however many they are.
        CommandUndivided,
        /// The control log acknowledges at the node's level, not always at `disk`.
        ControlLogAtNodesLevel,
        /// Limits below what is held are found out by the engine alone, which ignores them.
        LimitsUnchecked,
        /// Each start sequences the limits, whatever the log has.
        LimitsSequencedAgain,
        /// At `memory` new limits are applied before they are in the log's files.
        LimitsUnwritten,
        /// A partition looks at the importer's ring before it looks at the gateway's.
        ImporterLookedAtFirst,
        /// Requests are taken while the importer's ring has definitions from before them.
        RequestsPassDefinitions,
        /// The importer tells of definitions for which a ring had no room.
        DefinitionsToldEarly,
        /// A directory elsewhere is a partition's with the mark of any node.
        MarkUnread,
        /// A session resumes one event too late.
        ResumeTooLate,
        /// A session resumes one event too early.
        ResumeTooEarly,
        /// A client that has received lost events is let in.
        LossUntold,
        /// A session whose events are all past the retention loses the ends of its epochs.
        TrailDropped,
        /// Checkpoints that newer ones replace are not removed.
        CheckpointsNeverPruned,
        /// A checkpoint is used although its epoch has lost its last events.
        CheckpointOfLostEvents,
    }
}
