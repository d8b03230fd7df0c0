//! Planted bugs, which prove that the test campaigns over the log can find bugs of their kind.
//!
//! The log, and the node's recovery on top of it, call [`is`] where a planted bug takes effect.

weir_plant::plants! {
    /// A planted bug of the log or of the node's recovery.
    pub enum Plant {
        /// Chunks are committed at `disk` once they are written, without a sync.
        SyncSkipped,
        /// Recovery accepts a frame's body whatever its checksum.
        ChecksumUnchecked,
        /// A torn tail is not cut off.
        TornTailNotCut,
        /// A frame reports all frames before it as synced, even unsynced ones.
        SyncedMarkTooEarly,
        /// An unclean end at level `memory` begins no new epoch.
        EpochNotBegun,
        /// A recycled file is reused without zeroing it.
        SpareNotZeroed,
        /// Truncating removes one entry more than allowed.
        TruncateOffByOne,
        /// Of several removed segments, the newest is removed first.
        TrimmedOutOfOrder,
        /// A segment gets its name before its header is synced.
        HeaderNotSynced,
        /// A snapshot gets its name before its bytes are synced.
        SnapshotNotSynced,
        /// A snapshot of discarded history is kept.
        LostSnapshotKept,
        /// The end of the log is applied twice after a snapshot.
        TailAppliedTwice,
        /// A segment that finds no descriptor at its preparation stops the log.
        NoDescriptorIsFatal,
        /// A segment whose preparation failed is never prepared again.
        PreparedOnce,
        /// Each try on a full disk takes entries as if there were room.
        RoomAtEachTry,
    }
}
